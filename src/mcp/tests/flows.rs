//! Flows by tools: trees of any depth, what is checked in them, how they are read.

use serde_json::{Value, json};

use super::results::{empty, fitting};
use super::{dispatcher, failure, success};
use crate::command::bounds::{FLOW_DEPTH_MAX, FLOW_JOBS_MAX};
use crate::mcp::dispatch::Dispatcher;
use crate::mcp::page::ANSWER_MAX;

/// A line of jobs, each the only child of the one above; the root is level 1.
pub(super) fn line(levels: usize) -> Value {
    let job = json!({ "name": "n", "queueName": "q" });
    (1..levels).fold(job.clone(), |below, _| {
        let mut above = job.clone();
        above["children"] = json!([below]);
        above
    })
}

fn job(id: &str) -> Value {
    json!({ "name": "n", "queueName": "q", "opts": { "jobId": id } })
}

fn state(dispatcher: &Dispatcher, id: &str) -> Value {
    success(dispatcher, "bunqueue_get_job_state", json!({ "jobId": id }))["state"].clone()
}

#[test]
fn a_tree_deeper_than_its_schema_shows_is_added_and_read_level_by_level() {
    let dispatcher = dispatcher(empty());
    let added = fitting(&dispatcher, "bunqueue_add_flow", line(6));
    let mut node = &added;
    for _ in 1..6 {
        assert_eq!(node["children"].as_array().unwrap().len(), 1);
        node = &node["children"][0];
    }
    assert_eq!(node.get("children"), None);
    let read = |depth: Value| {
        let asked = json!({ "jobId": added["jobId"], "queueName": "q", "depth": depth });
        fitting(&dispatcher, "bunqueue_get_flow", asked)
    };
    let whole = read(Value::Null);
    assert_eq!(whole["state"], "waiting-children");
    assert_eq!(whole["children"][0]["jobId"], added["children"][0]["jobId"]);
    let top = read(json!(1));
    assert_eq!(top.get("truncated"), None);
    let cut = &top["children"][0];
    assert_eq!(
        (&cut["truncated"], cut.get("children")),
        (&json!(true), None)
    );
}

#[test]
fn hard_a1_a4_what_is_checked_holds_at_every_depth() {
    let dispatcher = dispatcher(empty());
    let deep = |change: Value| {
        let mut bottom = json!({ "name": "n", "queueName": "q" });
        for (key, value) in change.as_object().unwrap() {
            bottom[key] = value.clone();
        }
        let mut tree = json!({ "name": "n", "queueName": "q", "children": [bottom] });
        for _ in 0..3 {
            tree = json!({ "name": "n", "queueName": "q", "children": [tree] });
        }
        tree
    };
    let place = "children[0].children[0].children[0].children[0]";
    for (change, path) in [
        (json!({ "nam": "n" }), "nam"),
        (json!({ "opts": { "dedup": 1 } }), "opts.dedup"),
        (json!({ "opts": { "tags": [] } }), "opts.tags"),
        (json!({ "opts": { "durable": true } }), "opts.durable"),
        (json!({ "opts": { "attempts": 0 } }), "opts.attempts"),
        (json!({ "queueName": "" }), "queueName"),
        (
            json!({ "children": [{ "name": "n" }] }),
            "children[0].queueName",
        ),
        (json!({ "data": [] }), "data"),
        (json!({ "opts": { "jobId": "a:b" } }), "opts.jobId"),
    ] {
        let body = failure(&dispatcher, "bunqueue_add_flow", deep(change));
        assert_eq!(body["code"], "invalid_arguments", "{body}");
        assert_eq!(body["issues"][0]["path"], format!("{place}.{path}"));
        assert_eq!(body["issues"].as_array().unwrap().len(), 1, "{body}");
    }
    let queues = success(&dispatcher, "bunqueue_list_queues", json!({}));
    assert_eq!(queues["queues"], json!([]));
    // Types are as lenient there as anywhere.
    let lenient = json!({
        "opts": "{\"jobId\": 7, \"attempts\": \"5\", \"lifo\": \"true\", \"backoff\": 250}",
        "children": "[{\"name\": \"m\", \"queueName\": \"q\", \"children\": null}]",
    });
    fitting(&dispatcher, "bunqueue_add_flow", deep(lenient));
    let job = success(&dispatcher, "bunqueue_get_job", json!({ "jobId": "7" }));
    assert_eq!(
        (&job["maxAttempts"], &job["lifo"], &job["backoff"]),
        (&json!(5), &json!(true), &json!(250))
    );
}

#[test]
fn a_job_of_a_flow_has_the_options_it_was_given() {
    let dispatcher = dispatcher(empty());
    let options = json!({
        "priority": 5, "delay": -60_000, "attempts": 7, "timeout": 60_000, "jobId": "j", "removeOnComplete": true,
        "backoff": { "type": "fixed", "delay": 250, "maxDelay": 1_000 }, "removeOnFail": true, "lifo": true,
        "stallTimeout": 45_000,
    });
    let step = json!({ "name": "n", "queueName": "q", "data": { "a": 1 }, "opts": options });
    fitting(
        &dispatcher,
        "bunqueue_add_flow_chain",
        json!({ "steps": [step] }),
    );
    let job = fitting(&dispatcher, "bunqueue_get_job", json!({ "jobId": "j" }));
    let expected = json!({
        "id": "j", "name": "n", "queue": "q", "data": { "a": 1 }, "priority": 5, "state": "prioritized", "progress": 0,
        "attempts": 0, "maxAttempts": 7, "createdAt": "2026-01-05T09:00:00.000Z",
        "backoff": { "type": "fixed", "delay": 250, "maxDelay": 1_000 }, "timeout": 60_000, "stallTimeout": 45_000,
        "lifo": true, "removeOnComplete": true, "removeOnFail": true,
    });
    assert_eq!(job, expected);
}

#[test]
fn hard_f2_one_bad_job_of_fifty_is_named_and_no_job_of_the_tree_exists() {
    let dispatcher = dispatcher(empty());
    let long_name = "😀".repeat(129);
    let faults = [
        (json!({ "name": "" }), "children[30].name"),
        (json!({ "name": long_name }), "children[30].name"),
        (
            json!({ "opts": { "delay": "soon" } }),
            "children[30].opts.delay",
        ),
        (
            json!({ "opts": { "jobId": "n3" } }),
            "children[30].opts.jobId",
        ),
    ];
    for (change, path) in faults {
        let mut children: Vec<_> = (0..49).map(|number| job(&format!("n{number}"))).collect();
        for (key, value) in change.as_object().unwrap() {
            children[30][key] = value.clone();
        }
        let tree = json!({ "name": "root", "queueName": "r", "children": children });
        let body = failure(&dispatcher, "bunqueue_add_flow", tree);
        assert_eq!(body["issues"][0]["path"], path, "{body}");
        for id in ["n0", "n3", "n48"] {
            assert_eq!(state(&dispatcher, id), "unknown");
        }
    }
    // Nothing was taken: the same ids are free.
    let children: Vec<_> = (0..49).map(|number| job(&format!("n{number}"))).collect();
    let tree = json!({ "name": "root", "queueName": "r", "children": children });
    fitting(&dispatcher, "bunqueue_add_flow", tree);
}

#[test]
fn an_id_that_exists_is_an_error_in_a_flow() {
    let dispatcher = dispatcher(empty());
    let single = json!({ "queue": "q", "name": "n", "data": {}, "jobId": "taken" });
    success(&dispatcher, "bunqueue_add_job", single);
    let tree = json!({ "name": "p", "queueName": "q", "children": [job("new"), job("taken")] });
    let body = failure(&dispatcher, "bunqueue_add_flow", tree);
    assert_eq!(body["error"], "Flow job taken already exists");
    assert_eq!(body["code"], "conflict");
    assert_eq!(state(&dispatcher, "new"), "unknown");
}

#[test]
fn a_join_runs_after_all_and_a_chain_step_by_step() {
    let dispatcher = dispatcher(empty());
    let step =
        |id: &str| json!({ "name": "n", "queueName": "q", "data": {}, "opts": { "jobId": id } });
    let join = json!({ "parallel": [step("a"), step("b")], "final": step("last") });
    let added = fitting(&dispatcher, "bunqueue_add_flow_bulk_then", join);
    assert_eq!(
        added,
        json!({ "parallelIds": ["a", "b"], "finalId": "last" })
    );
    let chain = json!({ "steps": [step("first"), step("second")] });
    let added = fitting(&dispatcher, "bunqueue_add_flow_chain", chain);
    assert_eq!(added, json!({ "jobIds": ["first", "second"] }));
    let done = |id: &str| {
        let pulled = success(&dispatcher, "bunqueue_pull_job", json!({ "queue": "q" }));
        assert_eq!(pulled["job"]["id"], id);
        success(&dispatcher, "bunqueue_ack_job", json!({ "jobId": id }));
    };
    for (id, waiting) in [
        ("a", "last"),
        ("b", "last"),
        ("last", "second"),
        ("first", "second"),
    ] {
        assert_eq!(state(&dispatcher, waiting), "waiting-children", "{id}");
        done(id);
    }
    assert_eq!(state(&dispatcher, "second"), "waiting");
    done("second");
}

#[test]
fn results_of_children_keep_what_json_cannot_hold() {
    let dispatcher = dispatcher(empty());
    let mut tree = job("p");
    tree["children"] = json!([job("c")]);
    success(&dispatcher, "bunqueue_add_flow", tree);
    success(&dispatcher, "bunqueue_pull_job", json!({ "queue": "q" }));
    let result = json!({ "rows": { "$int": "9007199254740993" } });
    let ack = json!({ "jobId": "c", "result": result });
    success(&dispatcher, "bunqueue_ack_job", ack);
    let read = |parent: &str| {
        let asked = json!({ "parentJobId": parent });
        fitting(&dispatcher, "bunqueue_get_children_values", asked)
    };
    let expected = json!({ "parentJobId": "p", "children": { "q:c": result } });
    assert_eq!(read("p"), expected);
    assert_eq!(read("nope")["children"], json!({}));
}

#[test]
fn a_job_in_another_queue_is_found_with_the_help_of_the_hint() {
    let dispatcher = dispatcher(empty());
    success(&dispatcher, "bunqueue_add_flow", job("j"));
    let asked = |queue: &str, id: &str| json!({ "jobId": id, "queueName": queue });
    let body = failure(&dispatcher, "bunqueue_get_flow", asked("r", "j"));
    assert_eq!(body["error"], "Flow not found");
    assert!(body["hint"].as_str().unwrap().contains("queue q"), "{body}");
    let body = failure(&dispatcher, "bunqueue_get_flow", asked("q", "nope"));
    assert!(
        !body["hint"].as_str().unwrap().contains("queue q"),
        "{body}"
    );
}

#[test]
fn hard_r5_a_large_tree_is_cut_and_says_so() {
    let dispatcher = dispatcher(empty());
    let children = vec![json!({ "name": "é\"".repeat(100), "queueName": "q" }); 2_000];
    let mut tree = job("p");
    tree["children"] = Value::from(children);
    let added = fitting(&dispatcher, "bunqueue_add_flow", tree);
    assert_eq!(added["children"].as_array().unwrap().len(), 2_000);
    let read = |more: Value| {
        let mut asked = json!({ "jobId": "p", "queueName": "q" });
        for (key, value) in more.as_object().unwrap() {
            asked[key] = value.clone();
        }
        fitting(&dispatcher, "bunqueue_get_flow", asked)
    };
    let cut = read(json!({}));
    assert!(cut.to_string().len() <= ANSWER_MAX);
    assert!(cut["children"].as_array().unwrap().len() > 100);
    assert_eq!(cut["truncated"], true);
    let few = read(json!({ "maxChildren": 3 }));
    assert_eq!(few["children"].as_array().unwrap().len(), 3);
}

#[test]
fn a_flow_at_its_bounds_is_added() {
    let dispatcher = dispatcher(empty());
    fitting(&dispatcher, "bunqueue_add_flow", line(FLOW_DEPTH_MAX));
    let step = json!({ "name": "n", "queueName": "q", "data": {} });
    let chain = json!({ "steps": vec![step; FLOW_JOBS_MAX] });
    let added = fitting(&dispatcher, "bunqueue_add_flow_chain", chain);
    assert_eq!(added["jobIds"].as_array().unwrap().len(), FLOW_JOBS_MAX);
}
