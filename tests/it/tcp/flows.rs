//! Flows and ties between jobs, over the worker door.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::Conn;
use super::payloads::{assert_holds, command, delicate};
use crate::process::Serve;

/// A job of a flow without ties.
fn alone(id: &str, input: &Value) -> Value {
    let mut job = json!({ "id": id, "queue": "q", "input": { "data": {} } });
    for (key, value) in input.as_object().unwrap() {
        job["input"][key] = value.clone();
    }
    job
}

/// A parent in the queue `up` and its children in `q`, with more options each.
fn family(parent: &str, children: &[(String, Value)]) -> Value {
    let ids: Vec<&String> = children.iter().map(|(id, _)| id).collect();
    let mut jobs = vec![json!({ "id": parent, "queue": "up", "input": {
        "data": { "__childrenIds": ids }, "dependsOn": ids, "childrenIds": ids } })];
    jobs.extend(children.iter().map(|(id, options)| {
        let mut job = alone(id, options);
        job["input"]["parentId"] = json!(parent);
        job["input"]["data"] = json!({ "__parentId": parent, "__parentQueue": "up" });
        job
    }));
    json!(jobs)
}

fn push_flow(conn: &mut Conn, jobs: &Value) -> Value {
    conn.ok(&json!({ "cmd": "PUSHF", "jobs": jobs }))
}

fn pull(conn: &mut Conn, queue: &str) -> Value {
    conn.ok(&json!({ "cmd": "PULL", "queue": queue, "timeout": 10_000 }))["job"]["id"].take()
}

/// What the readers of failed and of ignored children say.
fn failures(conn: &mut Conn, parent: &str) -> [Value; 2] {
    ["GetFailedChildrenValues", "GetIgnoredChildrenFailures"]
        .map(|cmd| conn.ok(&json!({ "cmd": cmd, "id": parent }))["values"].take())
}

#[test]
fn a_flow_is_told_job_by_job_in_its_order() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    conn.ok(&json!({ "cmd": "SubscribeEvents", "queue": "q" }));
    let ids: Vec<String> = (0..100).map(|number| format!("j{number}")).collect();
    let jobs: Vec<Value> = ids
        .iter()
        .zip(ids.iter().skip(1).chain([&ids[0]]))
        .map(|(id, next)| match id == ids.last().unwrap() {
            true => alone(id, &json!({})),
            // Each waits for a later one.
            false => alone(id, &json!({ "dependsOn": [next] })),
        })
        .collect();
    let reply = conn.ok(&json!({ "cmd": "PUSHF", "jobs": jobs, "outcome": true }));
    let shown: Vec<_> = reply["data"]["jobs"].as_array().unwrap().iter().collect();
    assert_eq!(shown.len(), 100);
    assert_eq!(reply["outcomes"], json!(vec!["new"; 100]));
    for (place, id) in ids.iter().enumerate() {
        assert_eq!(shown[place]["id"], json!(id));
        let event = conn.event();
        let told = (&event["eventType"], &event["jobId"]);
        assert_eq!(told, (&json!("pushed"), &json!(id)));
    }
    assert_eq!(pull(&mut conn, "q"), json!("j99"));
    assert_eq!(conn.state("j98"), "waiting-children");
    conn.ok(&json!({ "cmd": "ACK", "id": "j99" }));
    assert_eq!(conn.state("j98"), "waiting");
}

#[test]
fn the_policy_of_a_child_decides_who_tells_of_its_failure() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let nothing = || json!({});
    let cases = [
        ("failParentOnFailure", "failed", false, false),
        ("continueParentOnFailure", "waiting", true, false),
        ("ignoreDependencyOnFailure", "waiting-children", false, true),
        (
            "removeDependencyOnFailure",
            "waiting-children",
            false,
            false,
        ),
        ("durable", "waiting-children", false, false),
    ];
    for (policy, state, failed, ignored) in cases {
        let (parent, child) = (format!("{policy}-p"), format!("{policy}-c"));
        let children = [
            (child.clone(), json!({ policy: true, "maxAttempts": 1 })),
            (format!("{policy}-other"), json!({ "delay": 600_000 })),
        ];
        push_flow(&mut conn, &family(&parent, &children));
        assert_eq!(failures(&mut conn, &parent), [nothing(), nothing()]);
        assert_eq!(pull(&mut conn, "q"), json!(child));
        conn.ok(&json!({ "cmd": "FAIL", "id": child, "error": "why" }));
        assert_eq!(conn.state(&parent), state, "{policy}");
        let told = |tells: bool| match tells {
            true => json!({ format!("q:{child}"): "why" }),
            false => nothing(),
        };
        let expected = [told(failed), told(ignored)];
        assert_eq!(failures(&mut conn, &parent), expected, "{policy}");
    }
    // What a parent was told is gone when it is over.
    assert_eq!(pull(&mut conn, "up"), json!("continueParentOnFailure-p"));
    conn.ok(&json!({ "cmd": "ACK", "id": "continueParentOnFailure-p" }));
    let told = failures(&mut conn, "continueParentOnFailure-p");
    assert_eq!(told, [nothing(), nothing()]);
    assert_eq!(failures(&mut conn, "nobody"), [nothing(), nothing()]);
}

#[test]
fn a_refused_flow_leaves_nothing_behind() {
    let serve = Serve::start();
    let mut watcher = Conn::open(serve.tcp);
    watcher.ok(&json!({ "cmd": "SubscribeEvents", "queue": "q" }));
    let mut conn = Conn::open(serve.tcp);
    conn.push("other", &json!({ "jobId": "taken" }));
    let grouped = json!({ "groupId": "g", "groupMaxSize": 1 });
    let cases = [
        (
            alone("c", &json!({ "dependsOn": ["nobody"] })),
            "flow dependency not found: nobody",
        ),
        (
            alone("c", &json!({ "timeout": "x" })),
            "timeout must be a number",
        ),
        (alone("taken", &json!({})), "Flow job taken already exists"),
        (
            alone("c", &grouped),
            "Group g has reached its maximum size of 1",
        ),
    ];
    let sound = [
        alone("a", &grouped),
        alone("b", &json!({ "customId": "b" })),
    ];
    for (unsound, error) in cases {
        let jobs = [&sound[0], &sound[1], &unsound];
        let reply = conn.call(&json!({ "cmd": "PUSHF", "jobs": jobs }));
        assert_eq!(reply, json!({ "ok": false, "error": error }));
        for id in ["a", "b", "c"] {
            assert_eq!(conn.state(id), "unknown");
        }
        let named = conn.call(&json!({ "cmd": "GetJobByCustomId", "customId": "b" }));
        assert_eq!(named["ok"], json!(false));
        let queues = conn.ok(&json!({ "cmd": "ListQueues" }));
        assert_eq!(queues["queues"], json!(["other"]));
        let count = json!({ "cmd": "GetGroupsJobsCount", "queue": "q" });
        assert_eq!(conn.ok(&count)["data"]["count"], json!(0));
    }
    let event = watcher.event_within(Duration::from_millis(100));
    assert!(event.is_none());
    push_flow(&mut conn, &json!(sound));
    assert_eq!(conn.state("a"), "waiting");
}

#[test]
fn the_values_of_children_arrive_byte_for_byte() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    conn.expect_wide();
    let values = delicate();
    let children: Vec<_> = (0..=values.len())
        .map(|number| (format!("c{number}"), json!({})))
        .collect();
    push_flow(&mut conn, &family("p", &children));
    for (place, (_, value)) in values.iter().enumerate() {
        let id = format!("c{place}");
        assert_eq!(pull(&mut conn, "q"), json!(id));
        let ack = conn.begin_wire(command(&[("cmd", "ACK"), ("id", &id)], "result", value));
        assert_eq!(conn.finish(&ack), json!({ "ok": true }));
    }
    // The last one completes without a result.
    let last = format!("c{}", values.len());
    assert_eq!(pull(&mut conn, "q"), json!(last));
    assert_eq!(conn.state("p"), "waiting-children");
    conn.ok(&json!({ "cmd": "ACK", "id": last }));
    assert_eq!(conn.state("p"), "waiting");
    let asked = conn.begin(&json!({ "cmd": "GetChildrenValues", "id": "p" }));
    let reply = conn.finish_frame(&asked);
    for (place, (what, value)) in values.iter().enumerate() {
        let key = super::value::Wire::text(&format!("q:c{place}")).encode();
        assert_holds(&reply, &[key, value.clone()].concat(), what);
    }
    let shown = reply.value.to_json();
    assert_eq!(shown["data"]["values"].get(format!("q:{last}")), None);
    let nobody = json!({ "cmd": "GetChildrenValues", "id": "nobody" });
    assert_eq!(conn.ok(&nobody)["data"]["values"], json!({}));
}

/// As older clients build a flow: children first, with a mark in the place of their parent.
#[test]
fn children_that_came_first_find_their_parent_later() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let marked = json!({ "parentId": "pending", "data": { "__parentId": "pending" } });
    let ids = ["c1", "c2"].map(|id| {
        let mut child = marked.clone();
        child["jobId"] = json!(id);
        conn.push("q", &child)
    });
    let tied = json!({ "jobId": "p", "dependsOn": ids, "childrenIds": ids });
    conn.push("up", &tied);
    for id in &ids {
        let update = json!({ "cmd": "UpdateParent", "childId": id, "parentId": "p" });
        assert_eq!(conn.call(&update), json!({ "ok": true }));
        let job = conn.ok(&json!({ "cmd": "GetJob", "id": id }))["job"].take();
        assert_eq!(job["parentId"], json!("p"));
        assert_eq!(
            job["data"],
            json!({ "__parentId": "p", "__parentQueue": "up" })
        );
    }
    let again = json!({ "cmd": "UpdateParent", "childId": "c1", "parentId": "nobody" });
    assert_eq!(
        conn.call(&again),
        json!({ "ok": false, "error": "Parent job not found: nobody" })
    );
    let cut = json!({ "cmd": "RemoveChildDependency", "id": "c1" });
    assert_eq!(conn.call(&cut), json!({ "ok": true, "removed": true }));
    assert_eq!(
        conn.call(&cut),
        json!({ "ok": false, "error": "Job c1 has no parent" })
    );
    assert_eq!(conn.state("p"), "waiting-children");
    let rest = json!({ "cmd": "RemoveUnprocessedChildren", "id": "p" });
    assert_eq!(conn.call(&rest), json!({ "ok": true }));
    assert_eq!(conn.state("c1"), "waiting");
    assert_eq!(conn.state("c2"), "unknown");
    assert_eq!(conn.state("p"), "waiting");
}
