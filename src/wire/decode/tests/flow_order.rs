//! Of several faults of a flow, which one is told.

use super::flow::{fault, flow};
use super::*;

/// Two jobs with every fault at once: each is told, and repaired, in the order of the protocol.
#[test]
fn the_first_fault_is_told() {
    let mut jobs = json!([
        {"id": "b", "queue": "q", "input": {"data": {}, "dependsOn": ["a"]}},
        {"id": 5, "queue": "bad queue", "input": "no map"},
    ]);
    let every_fault = json!({
        "customId": "z", "parentId": "", "dependsOn": ["b", 5], "childrenIds": [""], "name": "",
        "data": [], "repeat": null, "dedup": {"ttl": "x"}, "debounceTtl": "x", "priority": "x",
        "delay": {}, "timeout": -1, "maxAttempts": "x", "backoff": -1, "ttl": "x",
        "stallTimeout": true, "timestamp": 1e300, "stackTraceLimit": [], "keepLogs": "",
        "sizeLimit": "x", "groupMaxSize": 0, "lifo": 1, "removeOnComplete": "true",
        "removeOnFail": null, "durable": 0, "failParentOnFailure": 1,
        "removeDependencyOnFailure": [], "continueParentOnFailure": {},
        "ignoreDependencyOnFailure": "", "groupId": "", "tags": ["t", 5],
    });
    let input = |key: &str, value: Json| (format!("/1/input/{key}"), value);
    let at = |path: &str, value: Json| (path.to_owned(), value);
    let gone = Json::Null;
    let steps = [
        ("flow job id must be a string", vec![at("/1/id", json!(""))]),
        (
            "flow job id is invalid or is not well-formed Unicode",
            vec![at("/1/id", json!("a:b"))],
        ),
        (
            "flow job id cannot contain a colon",
            vec![at("/1/id", json!("b"))],
        ),
        ("duplicate flow job id: b", vec![at("/1/id", json!("a"))]),
        (
            "invalid flow queue: bad queue",
            vec![at("/1/queue", json!("q"))],
        ),
        (
            "flow job input is invalid: a",
            vec![at("/1/input", every_fault)],
        ),
        (
            "custom id does not match planned id: a",
            vec![input("customId", json!("a"))],
        ),
        (
            "flow parent id is invalid: a",
            vec![input("parentId", gone.clone())],
        ),
        (
            "dependsOn must be an array of valid string job ids",
            vec![input("dependsOn", json!(["zz", "a", "b", "b"]))],
        ),
        (
            "childrenIds must be an array of valid string job ids",
            vec![input("childrenIds", json!(["c", "c"]))],
        ),
        (
            "Job name must be a non-empty string of at most 256 characters",
            vec![input("name", json!("n"))],
        ),
        (
            "flow job data must be an object",
            vec![input("data", json!({}))],
        ),
        (
            "repeat is not supported inside an atomic flow",
            vec![input("repeat", gone.clone())],
        ),
        (
            "deduplication is not supported inside an atomic flow",
            vec![input("dedup", gone.clone())],
        ),
        (
            "debounce is not supported inside an atomic flow",
            vec![input("debounceTtl", gone.clone())],
        ),
        (
            "group.priority must be a finite number",
            vec![input("priority", json!(1))],
        ),
        ("delay must be a number", vec![input("delay", json!(1))]),
        (
            "timeout must be at least 0",
            vec![input("timeout", json!(1))],
        ),
        (
            "attempts must be a number",
            vec![input("maxAttempts", json!(1))],
        ),
        (
            "backoff must be at least 0",
            vec![input("backoff", json!(1))],
        ),
        ("ttl must be a number", vec![input("ttl", json!(1))]),
        (
            "stallTimeout must be a number",
            vec![input("stallTimeout", json!(1))],
        ),
        (
            "timestamp must be at most 4320000000000000",
            vec![input("timestamp", json!(1))],
        ),
        (
            "stackTraceLimit must be a number",
            vec![input("stackTraceLimit", json!(1))],
        ),
        (
            "keepLogs must be a number",
            vec![input("keepLogs", json!(1))],
        ),
        (
            "sizeLimit must be a number",
            vec![input("sizeLimit", json!(100))],
        ),
        (
            "group.maxSize must be a positive safe integer",
            vec![input("groupMaxSize", json!(1))],
        ),
        ("lifo must be a boolean", vec![input("lifo", json!(true))]),
        (
            "removeOnComplete must be a boolean",
            vec![input("removeOnComplete", json!(true))],
        ),
        (
            "removeOnFail must be a boolean",
            vec![input("removeOnFail", json!(true))],
        ),
        (
            "durable must be a boolean",
            vec![input("durable", json!(true))],
        ),
        (
            "failParentOnFailure must be a boolean",
            vec![input("failParentOnFailure", json!(true))],
        ),
        (
            "removeDependencyOnFailure must be a boolean",
            vec![input("removeDependencyOnFailure", json!(true))],
        ),
        (
            "continueParentOnFailure must be a boolean",
            vec![input("continueParentOnFailure", json!(false))],
        ),
        (
            "ignoreDependencyOnFailure must be a boolean",
            vec![input("ignoreDependencyOnFailure", json!(false))],
        ),
        (
            "groupId must be a non-empty string",
            vec![input("groupId", json!("g"))],
        ),
        (
            "tags must be an array of strings of at most 256 characters",
            vec![input("tags", json!(["t"]))],
        ),
        (
            "flow failure policies are mutually exclusive",
            vec![input("removeDependencyOnFailure", json!(false))],
        ),
        (
            "a flow failure policy requires a parent",
            vec![input("parentId", json!("zz"))],
        ),
        (
            "duplicate dependency in flow job: a",
            vec![input("dependsOn", json!(["zz", "a", "b"]))],
        ),
        (
            "duplicate child in flow job: a",
            vec![input("childrenIds", json!(["c"]))],
        ),
        (
            "flow dependency not found: zz",
            vec![input("dependsOn", json!(["a", "b"]))],
        ),
        (
            "flow job cannot depend on itself: a",
            vec![input("dependsOn", json!(["b"]))],
        ),
        (
            "flow child is missing from dependencies: c",
            vec![input("childrenIds", json!(["b"]))],
        ),
        (
            "flow child b does not point back to parent a",
            vec![at("/0/input/parentId", json!("a"))],
        ),
        (
            "flow child b metadata does not match parent a",
            vec![at(
                "/0/input/data",
                json!({"__parentId": "a", "__parentQueue": "q"}),
            )],
        ),
        (
            "flow parent not found: zz",
            vec![input("parentId", json!("b"))],
        ),
        (
            "flow parent b does not own child a",
            vec![
                input("parentId", gone.clone()),
                input("failParentOnFailure", json!(false)),
            ],
        ),
        (
            "flow parent a children does not match the canonical flow topology",
            vec![input("data", json!({"__childrenIds": ["b"]}))],
        ),
        (
            "flow contains a dependency cycle",
            vec![at("/0/input/dependsOn", json!([]))],
        ),
    ];
    for (text, repairs) in steps {
        assert_eq!(fault(&jobs), text);
        for (path, value) in repairs {
            let (parent, key) = path.rsplit_once('/').unwrap();
            let object = jobs.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            match value {
                Json::Null => object.remove(key),
                value => object.insert(key.to_owned(), value),
            };
        }
    }
    assert_eq!(flow(&jobs).jobs.len(), 2);
}

#[test]
fn jobs_come_before_ties_and_earlier_jobs_before_later_ones() {
    let sound = json!({"id": "b", "queue": "q", "input": {"data": {}}});
    let tied = json!({"id": "a", "queue": "q", "input": {"data": {}, "dependsOn": ["zz"]}});
    assert_eq!(fault(&json!([tied, 5])), "flow jobs[1] must be an object");
    assert_eq!(fault(&json!([[], sound])), "flow jobs[0] must be an object");
    let nameless = json!({"id": "a", "queue": "q", "input": {"data": {}, "name": 5}});
    let name = "Job name must be a non-empty string of at most 256 characters";
    assert_eq!(fault(&json!([nameless, {"id": 5}])), name);
    // Duplicates of any job before what the first one names.
    let twice = json!({"id": "c", "queue": "q", "input": {"data": {}, "dependsOn": ["b", "b"]}});
    let text = "duplicate dependency in flow job: c";
    assert_eq!(fault(&json!([tied, sound, twice])), text);
}
