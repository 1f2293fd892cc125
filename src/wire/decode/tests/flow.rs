//! Flows and ties between jobs: what is read and what is refused.

use super::*;
use crate::command::draft::JobDraft;
use crate::command::flow::{AddFlow, FlowEntry};
use crate::command::given::{Number, Text};
use crate::command::{
    GetChildFailures, GetChildrenValues, RemoveChildDependency, RemoveUnprocessedChildren,
    UpdateParent,
};
use crate::wire::shape::Flow;

pub(super) fn flow(jobs: &Json) -> AddFlow {
    match command(&json!({"cmd": "PUSHF", "jobs": jobs})) {
        (Command::AddFlow(flow), Shape::Flow(Flow::Push { outcome: false })) => flow,
        other => panic!("{jobs} is taken as {other:?}"),
    }
}

pub(super) fn fault(jobs: &Json) -> String {
    refused(&json!({"cmd": "PUSHF", "jobs": jobs}))
}

/// The body of a frame with one job, whose input has one more entry, given as bytes.
fn frame_with(input: &Json, key: &str, raw: &[u8]) -> Vec<u8> {
    let input = with_raw(input, key, raw);
    let job = with_raw(&json!({"id": "a", "queue": "q"}), "input", &input);
    with_raw(
        &json!({"cmd": "PUSHF"}),
        "jobs",
        &[&[0x91], &job[..]].concat(),
    )
}

#[test]
fn a_flow_arrives_with_its_options_and_ties() {
    let jobs = json!([
        {"id": "p", "queue": "up", "input": {"name": "parent", "data": {"__childrenIds": ["c"]},
            "dependsOn": ["c", "x"], "childrenIds": ["c"], "customId": "p", "priority": "7"}},
        {"id": "c", "queue": "q", "input": {"data": {"name": "old", "n": 1, "__parentId": "p",
            "__parentQueue": "up"}, "parentId": "p", "ignoreDependencyOnFailure": true,
            "groupId": "g", "tags": ["t"], "removeOnFail": true}},
        {"id": "x", "queue": "q", "input": {"data": {}, "unknown": 1}, "unknown": 1},
    ]);
    let parent = bytes(&json!({"__childrenIds": ["c"]}));
    let child = bytes(&json!({"n": 1, "__parentId": "p", "__parentQueue": "up"}));
    let entry = |id: &str, queue: &str, draft: JobDraft<'_>| FlowEntry {
        id: Some(JobId::from_text(id)),
        queue: QueueName::new(queue).unwrap(),
        job: draft.check().unwrap(),
        depends_on: Vec::new(),
        children: Vec::new(),
        parent: None,
    };
    let expected = [
        FlowEntry {
            depends_on: vec![1, 2],
            children: vec![1],
            ..entry(
                "p",
                "up",
                JobDraft {
                    name: Some("parent"),
                    data: Some(&parent),
                    custom_id: Some("p"),
                    priority: Number::Value(7.0),
                    ..JobDraft::default()
                },
            )
        },
        FlowEntry {
            parent: Some(0),
            ..entry(
                "c",
                "q",
                JobDraft {
                    name: Some("old"),
                    data: Some(&child),
                    group_id: Text::Value("g"),
                    tags: vec!["t"],
                    remove_on_fail: true,
                    ignore_dependency_on_failure: true,
                    ..JobDraft::default()
                },
            )
        },
        entry(
            "x",
            "q",
            JobDraft {
                data: Some(&[0x80]),
                ..JobDraft::default()
            },
        ),
    ];
    let read = flow(&jobs);
    assert_eq!(read.jobs, expected);
    assert!(!read.annotate);
    let asked = command(&json!({"cmd": "PUSHF", "jobs": [], "outcome": true}));
    assert_eq!(asked.1, Shape::Flow(Flow::Push { outcome: true }));
}

#[test]
fn a_flow_has_a_list_of_jobs_that_is_not_too_long() {
    let text = "flow jobs must be an array";
    for jobs in [json!("x"), json!(null), json!({}), json!(5)] {
        assert_eq!(fault(&jobs), text, "{jobs}");
    }
    assert_eq!(refused(&json!({"cmd": "PUSHF"})), text);
    let jobs = |count: usize| -> Json {
        (0..count)
            .map(|id| json!({"id": id.to_string(), "queue": "q", "input": {"data": {}}}))
            .collect()
    };
    assert_eq!(flow(&jobs(0)).jobs, []);
    assert_eq!(flow(&jobs(10_000)).jobs.len(), 10_000);
    // Before any look at them.
    let many = vec![0; 10_001];
    assert_eq!(fault(&json!(many)), "flow exceeds the 10000 job limit");
}

#[test]
fn nil_is_a_value_where_it_would_say_something() {
    let cases = [
        ("customId", "custom id does not match planned id: a"),
        ("parentId", "flow parent id is invalid: a"),
        (
            "dependsOn",
            "dependsOn must be an array of valid string job ids",
        ),
        (
            "childrenIds",
            "childrenIds must be an array of valid string job ids",
        ),
        (
            "name",
            "Job name must be a non-empty string of at most 256 characters",
        ),
        ("repeat", "repeat is not supported inside an atomic flow"),
        (
            "uniqueKey",
            "deduplication is not supported inside an atomic flow",
        ),
        (
            "dedup",
            "deduplication is not supported inside an atomic flow",
        ),
        (
            "debounceId",
            "debounce is not supported inside an atomic flow",
        ),
        (
            "debounceTtl",
            "debounce is not supported inside an atomic flow",
        ),
        ("lifo", "lifo must be a boolean"),
        ("groupId", "groupId must be a string"),
        (
            "tags",
            "tags must be an array of strings of at most 256 characters",
        ),
    ];
    for (key, text) in cases {
        let job = json!({"id": "a", "queue": "q", "input": {"data": {}, key: null}});
        assert_eq!(fault(&json!([job])), text);
    }
    let unset = json!({"data": {}, "delay": null, "priority": null, "backoff": null, "ttl": null});
    let plain = json!([{"id": "a", "queue": "q", "input": {"data": {}}}]);
    let job = json!({"id": "a", "queue": "q", "input": unset});
    assert_eq!(flow(&json!([job])), flow(&plain));
    let queueless = |queue: Json| fault(&json!([{"id": "a", "queue": queue, "input": {}}]));
    assert_eq!(queueless(json!(null)), "invalid flow queue: null");
    assert_eq!(queueless(json!(5)), "invalid flow queue: 5");
    assert_eq!(queueless(json!("")), "invalid flow queue: ");
    assert_eq!(
        fault(&json!([{"id": "a"}])),
        "invalid flow queue: undefined"
    );
    let long = "q".repeat(257);
    assert_eq!(
        queueless(json!(long)),
        format!("invalid flow queue: {long}")
    );
}

#[test]
fn every_optional_key_may_be_undefined() {
    let input = json!({"data": {}});
    let plain = flow(&json!([{"id": "a", "queue": "q", "input": input}]));
    let keys = "name customId parentId dependsOn childrenIds repeat uniqueKey dedup debounceId \
        debounceTtl priority delay timeout maxAttempts backoff ttl stallTimeout timestamp \
        stackTraceLimit keepLogs sizeLimit groupMaxSize groupId tags lifo removeOnComplete \
        removeOnFail durable failParentOnFailure removeDependencyOnFailure \
        continueParentOnFailure ignoreDependencyOnFailure";
    for key in keys.split_whitespace() {
        let action = decode_body(&frame_with(&input, key, UNDEFINED));
        let shape = Shape::Flow(Flow::Push { outcome: false });
        assert_eq!(
            action,
            Action::Command(plain.clone().into(), shape),
            "{key}"
        );
    }
    let no_data = decode_body(&frame_with(&json!({}), "data", UNDEFINED));
    let expected = CommandError::from(crate::command::FlowFault::DataNotObject);
    assert_eq!(no_data, Action::Refused(expected));
}

#[test]
fn ids_are_texts_of_bounded_length() {
    const NO_TEXT: &[u8] = &[0xa1, 0xff];
    let data = json!({"data": {}});
    let text_of = |body: &[u8]| match decode_body(body) {
        Action::Refused(error) => error.to_string(),
        action => panic!("{action:?}"),
    };
    let list = [&[0x91], NO_TEXT].concat();
    let cases = [
        (
            "customId",
            NO_TEXT,
            "custom id does not match planned id: a",
        ),
        ("parentId", NO_TEXT, "flow parent id is invalid: a"),
        (
            "dependsOn",
            &list,
            "dependsOn must be an array of valid string job ids",
        ),
        (
            "childrenIds",
            &list,
            "childrenIds must be an array of valid string job ids",
        ),
    ];
    for (key, raw, text) in cases {
        assert_eq!(text_of(&frame_with(&data, key, raw)), text);
    }
    let job = with_raw(&json!({"queue": "q", "input": {"data": {}}}), "id", NO_TEXT);
    let body = with_raw(
        &json!({"cmd": "PUSHF"}),
        "jobs",
        &[&[0x91], &job[..]].concat(),
    );
    assert_eq!(
        text_of(&body),
        "flow job id is invalid or is not well-formed Unicode"
    );

    let fits = "😀".repeat(512);
    let long = format!("{fits}x");
    let naming = |key: &str, value: Json| json!([{"id": "a", "queue": "q", "input": {"data": {}, key: value}}]);
    let missing = format!("flow dependency not found: {fits}");
    assert_eq!(fault(&naming("dependsOn", json!([fits]))), missing);
    let lists = "dependsOn must be an array of valid string job ids";
    assert_eq!(fault(&naming("dependsOn", json!([long]))), lists);
    assert_eq!(
        fault(&naming("parentId", json!(fits))),
        format!("flow parent not found: {fits}")
    );
    assert_eq!(
        fault(&naming("parentId", json!(long))),
        "flow parent id is invalid: a"
    );
    let named = |id: &str| json!([{"id": id, "queue": "q", "input": {"data": {}}}]);
    assert_eq!(flow(&named(&fits)).jobs.len(), 1);
    assert_eq!(
        fault(&named(&long)),
        "flow job id is invalid or is not well-formed Unicode"
    );
}

/// Longer lists are read so far that they are refused, not further.
#[test]
fn lists_of_a_job_have_a_bound() {
    let of = |key: &str, texts: &[String]| json!([{"id": "a", "queue": "q", "input": {"data": {}, key: texts}}]);
    let texts: Vec<_> = (0..10_001).map(|number| number.to_string()).collect();
    assert_eq!(flow(&of("tags", &texts[..10_000])).jobs.len(), 1);
    assert_eq!(
        fault(&of("tags", &texts)),
        "tags must have at most 10000 entries"
    );
    assert_eq!(
        fault(&of("dependsOn", &texts)),
        "flow dependency not found: 0"
    );
    let longest = "t".repeat(256);
    assert_eq!(
        flow(&of("tags", std::slice::from_ref(&longest))).jobs.len(),
        1
    );
    assert_eq!(
        fault(&of("tags", &[longest + "t"])),
        "tags must be an array of strings of at most 256 characters"
    );
}

/// What a client wrote with more bytes than needed says the same.
#[test]
fn ties_in_data_are_compared_by_value() {
    let children = [&[0xdd, 0, 0, 0, 1, 0xd9, 1], b"c".as_slice()].concat();
    let data = with_raw(&json!({}), "__childrenIds", &children);
    let input = with_raw(
        &json!({"dependsOn": ["c"], "childrenIds": ["c"]}),
        "data",
        &data,
    );
    let parent = with_raw(&json!({"id": "p", "queue": "q"}), "input", &input);
    let child = bytes(&json!({"id": "c", "queue": "q", "input": {"parentId": "p",
        "data": {"__parentId": "p", "__parentQueue": "q"}}}));
    let jobs = [&[0x92], &parent[..], &child].concat();
    let action = decode_body(&with_raw(&json!({"cmd": "PUSHF"}), "jobs", &jobs));
    let Action::Command(Command::AddFlow(flow), _) = action else {
        panic!("{action:?}");
    };
    assert_eq!(flow.jobs[0].children, [1]);
    assert_eq!(flow.jobs[0].job.data, Some(Payload::new(&data)));
}

#[test]
fn the_other_commands_name_one_job_or_two() {
    let id = JobId::from_text("a");
    let frame = |cmd: &str| command(&json!({"cmd": cmd, "id": "a", "more": 1}));
    let values = (
        GetChildrenValues { id: id.clone() }.into(),
        Shape::Flow(Flow::ChildrenValues),
    );
    assert_eq!(frame("GetChildrenValues"), values);
    let failures = |shape| {
        (
            GetChildFailures { id: id.clone() }.into(),
            Shape::Flow(shape),
        )
    };
    assert_eq!(
        frame("GetFailedChildrenValues"),
        failures(Flow::FailedChildren)
    );
    assert_eq!(
        frame("GetIgnoredChildrenFailures"),
        failures(Flow::IgnoredChildren)
    );
    let removed = (
        RemoveChildDependency { id: id.clone() }.into(),
        Shape::Flow(Flow::ChildRemoved),
    );
    assert_eq!(frame("RemoveChildDependency"), removed);
    let unprocessed = (
        RemoveUnprocessedChildren { id: id.clone() }.into(),
        Shape::Done,
    );
    assert_eq!(frame("RemoveUnprocessedChildren"), unprocessed);
    let update = UpdateParent {
        child: id,
        parent: JobId::from_text("p"),
    };
    let frame = json!({"cmd": "UpdateParent", "childId": "a", "parentId": "p"});
    assert_eq!(command(&frame), (update.into(), Shape::Done));
    let bad = json!({"cmd": "UpdateParent", "childId": "a", "parentId": 5});
    assert_eq!(refused(&bad), "parentId must be a string");
    assert_eq!(
        refused(&json!({"cmd": "GetChildrenValues", "id": 5})),
        "id must be a string"
    );
}
