//! Limits of queues, over the worker door.

use serde_json::{Value, json};

use super::client::Conn;
use crate::process::Serve;

fn waiting_pull() -> Value {
    json!({ "cmd": "PULL", "queue": "q", "owner": "w", "timeout": 9_000 })
}

#[test]
fn lifting_a_cap_serves_the_pulls_that_it_held_up() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    conn.ok(&json!({ "cmd": "SetConcurrency", "queue": "q", "limit": 0 }));
    conn.push("q", &json!({ "jobId": "a" }));
    let pull = conn.begin(&waiting_pull());
    let limits = conn.ok(&json!({ "cmd": "GetQueueLimits", "queue": "q" }));
    assert_eq!(limits["data"]["limits"]["concurrencyLimit"], json!(0));
    assert_eq!(limits["data"]["limits"]["maxed"], json!(true));
    assert_eq!(
        conn.call(&json!({ "cmd": "ClearConcurrency", "queue": "q" })),
        json!({ "ok": true })
    );
    assert_eq!(conn.finish(&pull)["job"]["id"], json!("a"));
}

#[test]
fn a_finished_job_makes_room_for_the_next() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    conn.ok(&json!({ "cmd": "SetConcurrency", "queue": "q", "limit": "1" }));
    conn.push("q", &json!({ "jobId": "a" }));
    conn.push("q", &json!({ "jobId": "b" }));
    let first = conn.ok(&waiting_pull());
    let second = conn.begin(&waiting_pull());
    conn.ok(&json!({ "cmd": "ACK", "id": "a", "token": first["token"] }));
    assert_eq!(conn.finish(&second)["job"]["id"], json!("b"));
}

#[test]
fn a_rate_gives_the_next_job_when_its_token_is_there() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    conn.ok(&json!({ "cmd": "RateLimit", "queue": "q", "limit": 1, "duration": 300 }));
    conn.push("q", &json!({ "jobId": "a" }));
    conn.push("q", &json!({ "jobId": "b" }));
    let batch = json!({ "cmd": "PULLB", "queue": "q", "count": 5, "owner": "w" });
    assert_eq!(conn.ok(&batch)["jobs"].as_array().unwrap().len(), 1);
    let next = conn.ok(&waiting_pull());
    assert_eq!(next["job"]["id"], json!("b"));
    let waited =
        next["job"]["startedAt"].as_f64().unwrap() - next["job"]["createdAt"].as_f64().unwrap();
    assert!(waited >= 250.0, "after {waited} ms");
}
