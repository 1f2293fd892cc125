//! Many commands at once on one connection, and commands that wait.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::Conn;
use crate::process::Serve;

/// Far below any wait used here, far above a round trip on a loaded machine.
const PROMPT: Duration = Duration::from_secs(5);

#[test]
fn five_hundred_commands_are_answered_and_take_effect_in_order() {
    const MANY: usize = 500;
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let pushes: Vec<_> = (0..MANY)
        .map(|n| conn.begin(&json!({ "cmd": "PUSH", "queue": "q", "name": "n", "data": n })))
        .collect();
    let ids: Vec<Value> = pushes
        .iter()
        .map(|pending| conn.finish(pending)["id"].clone())
        .collect();
    let pulls: Vec<_> = (0..MANY)
        .map(|_| conn.begin(&json!({ "cmd": "PULL", "queue": "q" })))
        .collect();
    for (n, pending) in pulls.iter().enumerate() {
        let job = conn.finish(pending)["job"].take();
        assert_eq!((&job["id"], &job["data"]), (&ids[n], &json!(n)));
    }
    let mut sorted = ids.clone();
    sorted.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    assert_eq!(sorted, ids, "later ids sort after earlier ones");
}

#[test]
fn a_command_sees_the_effect_of_the_one_before_it() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let rounds: Vec<_> = (0..100)
        .map(|n| {
            let id = format!("j{n}");
            [
                json!({ "cmd": "PUSH", "queue": "q", "name": "n", "jobId": id, "delay": 60_000 }),
                json!({ "cmd": "Promote", "id": id }),
                json!({ "cmd": "PULL", "queue": "q" }),
                json!({ "cmd": "ACK", "id": id, "result": n }),
                json!({ "cmd": "GetResult", "id": id }),
            ]
            .map(|command| conn.begin(&command))
        })
        .collect();
    for (n, [push, promote, pull, ack, result]) in rounds.iter().enumerate() {
        let id = format!("j{n}");
        assert_eq!(conn.finish(push)["id"], json!(id));
        assert_eq!(conn.finish(promote)["ok"], true);
        assert_eq!(conn.finish(pull)["job"]["id"], json!(id));
        assert_eq!(conn.finish(ack)["ok"], true);
        assert_eq!(conn.finish(result)["result"], n);
    }
}

#[test]
fn a_parked_pull_delays_no_later_command() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let started = Instant::now();
    let pull = json!({ "cmd": "PULL", "queue": "empty", "owner": "w", "timeout": 60_000 });
    // One less than the commands that the reference carries at a time.
    let parked: Vec<_> = (0..49).map(|_| conn.begin(&pull)).collect();
    for _ in 0..100 {
        conn.ok(&json!({ "cmd": "Ping" }));
    }
    let ids: Vec<String> = parked
        .iter()
        .map(|_| conn.push("empty", &json!({})))
        .collect();
    for (pending, id) in parked.iter().zip(&ids) {
        let reply = conn.finish(pending);
        assert_eq!(reply["job"]["id"], json!(id), "first parked, first served");
        assert!(reply["token"].is_string());
    }
    assert!(started.elapsed() < PROMPT + PROMPT);
}

#[test]
fn a_parked_pull_gets_a_job_of_any_connection_at_once() {
    let serve = Serve::start();
    let mut worker = Conn::open(serve.tcp);
    let mut producer = Conn::open(serve.tcp);
    for batch in [false, true] {
        let pull = match batch {
            false => json!({ "cmd": "PULL", "queue": "q", "owner": "w", "timeout": 60_000 }),
            true => {
                json!({ "cmd": "PULLB", "queue": "q", "owner": "w", "timeout": 60_000, "count": 9 })
            }
        };
        let pending = worker.begin(&pull);
        worker.ok(&json!({ "cmd": "Ping" }));
        let started = Instant::now();
        let id = producer.push("q", &json!({}));
        let reply = worker.finish(&pending);
        assert!(started.elapsed() < PROMPT);
        let job = if batch {
            &reply["jobs"][0]
        } else {
            &reply["job"]
        };
        assert_eq!(job["id"], json!(id));
    }
}

#[test]
fn waits_for_jobs_end_together_with_their_job() {
    let serve = Serve::start();
    let mut waiter = Conn::open(serve.tcp);
    let mut worker = Conn::open(serve.tcp);
    let ids: Vec<String> = (0..20)
        .map(|n| worker.push("q", &json!({ "data": n })))
        .collect();
    let waits: Vec<_> = ids
        .iter()
        .map(|id| waiter.begin(&json!({ "cmd": "WaitJob", "id": id, "timeout": 60_000 })))
        .collect();
    waiter.ok(&json!({ "cmd": "Ping" }));
    for (n, id) in ids.iter().enumerate() {
        worker.ok(&json!({ "cmd": "PULL", "queue": "q" }));
        worker.ok(&json!({ "cmd": "ACK", "id": id, "result": n }));
        let reply = waiter.finish(&waits[n]);
        assert_eq!(reply, json!({ "ok": true, "completed": true, "result": n }));
    }
}
