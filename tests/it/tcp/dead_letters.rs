//! Dead letters, reruns and the policies of queues, over the worker door.

use serde_json::{Value, json};

use super::client::Conn;
use crate::process::Serve;

/// Adds a job that fails for good at once.
fn fail(conn: &mut Conn, id: &str, members: &Value) {
    let mut members = members.clone();
    members["jobId"] = json!(id);
    members["maxAttempts"] = json!(1);
    conn.push("q", &members);
    let pulled = conn.ok(&json!({ "cmd": "PULL", "queue": "q", "owner": "w" }));
    assert_eq!(pulled["job"]["id"], json!(id));
    conn.ok(&json!({ "cmd": "FAIL", "id": id, "token": pulled["token"], "error": "no" }));
}

fn letters(conn: &mut Conn) -> Vec<Value> {
    let reply = conn.ok(&json!({ "cmd": "Dlq", "queue": "q" }));
    let ids = |key: &str, pointer: &str| -> Vec<Value> {
        let list = reply[key].as_array().unwrap();
        list.iter()
            .map(|item| item.pointer(pointer).unwrap().clone())
            .collect()
    };
    assert_eq!(ids("jobs", "/id"), ids("entries", "/job/id"));
    ids("jobs", "/id")
}

#[test]
fn removing_and_purging_letters_makes_their_ids_unknown() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    for id in ["a", "b", "c"] {
        fail(&mut conn, id, &json!({}));
    }
    assert_eq!(letters(&mut conn), [json!("a"), json!("b"), json!("c")]);
    let remove = json!({ "cmd": "RemoveDlqJob", "queue": "q", "jobId": "b" });
    assert_eq!(conn.ok(&remove)["data"], json!({ "removed": true }));
    assert_eq!(conn.ok(&remove)["data"], json!({ "removed": false }));
    let elsewhere = json!({ "cmd": "RemoveDlqJob", "queue": "other", "jobId": "a" });
    assert_eq!(conn.ok(&elsewhere)["data"], json!({ "removed": false }));
    let purge = json!({ "cmd": "PurgeDlq", "queue": "q" });
    assert_eq!(conn.ok(&purge), json!({ "ok": true, "count": 2 }));
    assert_eq!(letters(&mut conn), Vec::<Value>::new());
    let state = conn.ok(&json!({ "cmd": "GetState", "id": "a" }));
    assert_eq!(state["state"], json!("unknown"));
}

#[test]
fn an_empty_id_is_refused_and_retries_nothing() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    fail(&mut conn, "a", &json!({}));
    let refused = conn.call(&json!({ "cmd": "RetryDlq", "queue": "q", "jobId": "" }));
    let text = "jobId must be a non-empty string";
    assert_eq!(refused, json!({ "ok": false, "error": text }));
    assert_eq!(letters(&mut conn), [json!("a")]);
    let retried = conn.ok(&json!({ "cmd": "RetryDlq", "queue": "q", "jobId": "a" }));
    assert_eq!(retried["count"], json!(1));
    let pulled = conn.ok(&json!({ "cmd": "PULL", "queue": "q" }));
    assert_eq!(pulled["job"]["attempts"], json!(0));
}

#[test]
fn letters_that_no_frame_can_hold_are_refused_and_the_connection_goes_on() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let data = json!("y".repeat(9_000_000));
    for id in ["a", "b", "c", "d"] {
        fail(&mut conn, id, &json!({ "data": data }));
    }
    let reply = conn.call(&json!({ "cmd": "Dlq", "queue": "q" }));
    assert_eq!(reply["ok"], json!(false));
    assert_eq!(
        reply["error"],
        json!("Reply too large: exceeds maximum 67108864")
    );
    let some = conn.ok(&json!({ "cmd": "Dlq", "queue": "q", "count": 3 }));
    assert_eq!(some["entries"].as_array().unwrap().len(), 3);
}

#[test]
fn a_smaller_bound_drops_the_oldest_letters_at_once() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    for id in ["a", "b", "c"] {
        fail(&mut conn, id, &json!({}));
    }
    let config = json!({ "cmd": "SetDlqConfig", "queue": "q", "config": { "maxEntries": 1 } });
    assert_eq!(conn.call(&config), json!({ "ok": true }));
    assert_eq!(letters(&mut conn), [json!("c")]);
}
