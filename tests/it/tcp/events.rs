//! Events as subscribers see them: order, members, and their place among the replies.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::Conn;
use crate::process::Serve;

fn subscribed(serve: &Serve) -> Conn {
    let mut watcher = Conn::open(serve.tcp);
    watcher.ok(&json!({ "cmd": "SubscribeEvents", "queue": "q" }));
    watcher
}

/// Reads as many events as are expected; each must hold these members and a time.
fn expect_events(watcher: &mut Conn, expected: &[Value]) {
    for expected in expected {
        let mut event = watcher.event();
        let time = event.as_object_mut().unwrap().remove("timestamp");
        let time = time.and_then(|time| time.as_f64()).unwrap();
        assert!(time > 1e12 && time.fract() == 0.0, "{event} at {time}");
        let mut expected = expected.clone();
        expected["queue"] = json!("q");
        assert_eq!(event, expected);
    }
}

#[test]
fn every_step_of_a_job_is_told_in_order() {
    let serve = Serve::start();
    let mut watcher = subscribed(&serve);
    let mut conn = Conn::open(serve.tcp);
    let pull = json!({ "cmd": "PULL", "queue": "q", "owner": "w", "timeout": 10_000 });
    conn.push("q", &json!({ "jobId": "a", "data": { "d": 1 }, "uniqueKey": "k", "maxAttempts": 2, "backoff": 0 }));
    conn.push("q", &json!({ "uniqueKey": "k" }));
    conn.push("q", &json!({ "jobId": "a" }));
    let token = conn.ok(&pull)["token"].take();
    conn.ok(&json!({ "cmd": "Progress", "id": "a", "progress": 20, "message": "m" }));
    conn.ok(&json!({ "cmd": "FAIL", "id": "a", "token": token, "error": "first" }));
    let token = conn.ok(&pull)["token"].take();
    conn.ok(&json!({ "cmd": "FAIL", "id": "a", "token": token, "error": "second" }));
    conn.push("q", &json!({ "jobId": "b" }));
    let token = conn.ok(&pull)["token"].take();
    conn.ok(&json!({ "cmd": "ACK", "id": "b", "token": token, "result": { "r": 1 } }));
    conn.push("q", &json!({ "jobId": "c" }));
    let token = conn.ok(&pull)["token"].take();
    conn.ok(&json!({ "cmd": "MoveToDelayed", "id": "c", "delay": 60_000, "token": token }));
    conn.ok(&json!({ "cmd": "Promote", "id": "c" }));
    let token = conn.ok(&pull)["token"].take();
    conn.ok(&json!({ "cmd": "MoveToWait", "id": "c", "token": token }));
    conn.ok(&json!({ "cmd": "Discard", "id": "c" }));
    expect_events(
        &mut watcher,
        &[
            json!({ "eventType": "pushed", "jobId": "a" }),
            json!({ "eventType": "duplicated", "jobId": "a" }),
            json!({ "eventType": "pulled", "jobId": "a" }),
            json!({ "eventType": "progress", "jobId": "a", "progress": 20, "data": { "progress": 20, "message": "m" } }),
            json!({ "eventType": "failed", "jobId": "a", "error": "first", "data": { "d": 1 }, "terminal": false }),
            json!({ "eventType": "retried", "jobId": "a", "prev": "failed" }),
            json!({ "eventType": "pulled", "jobId": "a" }),
            json!({ "eventType": "failed", "jobId": "a", "error": "second", "data": { "d": 1 }, "terminal": true }),
            json!({ "eventType": "pushed", "jobId": "b" }),
            json!({ "eventType": "pulled", "jobId": "b" }),
            json!({ "eventType": "completed", "jobId": "b", "data": { "r": 1 } }),
            json!({ "eventType": "pushed", "jobId": "c" }),
            json!({ "eventType": "pulled", "jobId": "c" }),
            json!({ "eventType": "delayed", "jobId": "c", "delay": 60_000 }),
            json!({ "eventType": "pulled", "jobId": "c" }),
            json!({ "eventType": "waiting", "jobId": "c", "prev": "active" }),
            json!({ "eventType": "failed", "jobId": "c", "terminal": true }),
        ],
    );
}

#[test]
fn what_happens_to_a_whole_queue_is_told_with_its_count() {
    let serve = Serve::start();
    let mut watcher = subscribed(&serve);
    let mut conn = Conn::open(serve.tcp);
    let clean = json!({ "cmd": "Clean", "queue": "q", "grace": 0, "state": "completed" });
    // Nothing to remove: nothing to tell.
    conn.ok(&json!({ "cmd": "Drain", "queue": "q" }));
    conn.ok(&clean);
    conn.ok(&json!({ "cmd": "Obliterate", "queue": "q" }));
    conn.ok(&json!({ "cmd": "Pause", "queue": "q" }));
    conn.ok(&json!({ "cmd": "Resume", "queue": "q" }));
    conn.push("q", &json!({ "jobId": "a" }));
    conn.push("q", &json!({ "jobId": "b", "delay": 60_000 }));
    conn.push("q", &json!({ "jobId": "c", "delay": 60_000 }));
    conn.ok(&json!({ "cmd": "Cancel", "id": "c" }));
    conn.ok(&json!({ "cmd": "Drain", "queue": "q" }));
    conn.push("q", &json!({ "jobId": "d" }));
    conn.ok(&json!({ "cmd": "PULL", "queue": "q" }));
    conn.ok(&json!({ "cmd": "ACK", "id": "d" }));
    conn.ok(&clean);
    conn.push("q", &json!({ "jobId": "e" }));
    conn.ok(&json!({ "cmd": "Obliterate", "queue": "q" }));
    expect_events(
        &mut watcher,
        &[
            json!({ "eventType": "paused", "jobId": "" }),
            json!({ "eventType": "resumed", "jobId": "" }),
            json!({ "eventType": "pushed", "jobId": "a" }),
            json!({ "eventType": "pushed", "jobId": "b" }),
            json!({ "eventType": "pushed", "jobId": "c" }),
            json!({ "eventType": "removed", "jobId": "c", "prev": "delayed" }),
            json!({ "eventType": "drained", "jobId": "", "data": { "count": 2 } }),
            json!({ "eventType": "pushed", "jobId": "d" }),
            json!({ "eventType": "pulled", "jobId": "d" }),
            json!({ "eventType": "completed", "jobId": "d" }),
            json!({ "eventType": "cleaned", "jobId": "", "data": { "count": 1 } }),
            json!({ "eventType": "pushed", "jobId": "e" }),
            json!({ "eventType": "obliterated", "jobId": "", "data": { "count": 1 } }),
        ],
    );
}

#[test]
fn events_of_a_command_come_before_its_own_reply() {
    let serve = Serve::start();
    let mut conn = subscribed(&serve);
    for n in 0..50 {
        let push = conn.begin(&json!({ "cmd": "PUSH", "queue": "q", "name": "n", "data": n }));
        let reply = conn.finish_frame(&push).place;
        let event = conn.event_frame();
        assert_eq!(event.value.to_json()["event"]["eventType"], "pushed");
        assert!(event.place < reply, "event {}, reply {reply}", event.place);
    }
}

#[test]
fn a_batch_is_told_in_its_order() {
    let serve = Serve::start();
    let mut watcher = subscribed(&serve);
    let mut conn = Conn::open(serve.tcp);
    let jobs: Vec<Value> = (0..200)
        .map(|n| json!({ "name": "n", "data": n }))
        .collect();
    let ids = conn.ok(&json!({ "cmd": "PUSHB", "queue": "q", "jobs": jobs }))["ids"].take();
    conn.ok(&json!({ "cmd": "PULLB", "queue": "q", "count": 200 }));
    let told = |kind: &str| -> Vec<Value> {
        let ids = ids.as_array().unwrap().iter();
        ids.map(|id| json!({ "eventType": kind, "jobId": id }))
            .collect()
    };
    expect_events(&mut watcher, &told("pushed"));
    expect_events(&mut watcher, &told("pulled"));
}

#[test]
fn a_subscription_is_for_one_queue_and_ends() {
    let serve = Serve::start();
    let mut watcher = subscribed(&serve);
    let mut conn = Conn::open(serve.tcp);
    conn.push("other", &json!({}));
    conn.push("q", &json!({ "jobId": "seen" }));
    expect_events(
        &mut watcher,
        &[json!({ "eventType": "pushed", "jobId": "seen" })],
    );
    watcher.ok(&json!({ "cmd": "UnsubscribeEvents" }));
    conn.push("q", &json!({}));
    watcher.ok(&json!({ "cmd": "Ping" }));
    assert!(watcher.event_within(Duration::from_millis(100)).is_none());
}

#[test]
fn notices_come_to_those_who_want_them_though_nothing_else_happens() {
    let serve = Serve::start_with(&[("QUEUE_SIZE_THRESHOLD", "2")]);
    let mut conn = Conn::open(serve.tcp);
    conn.push("q", &json!({}));
    conn.push("q", &json!({}));
    let mut watcher = subscribed(&serve);
    let told = json!({ "eventType": "queue:threshold", "jobId": "", "data": { "size": 2, "threshold": 2 } });
    expect_events(&mut watcher, &[told]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_takes_much_memory_says_so_to_every_subscriber() {
    let serve = Serve::start_with(&[("MEMORY_WARNING_MB", "1")]);
    let mut watcher = subscribed(&serve);
    let event = watcher.event();
    let (heap, rss) = (&event["data"]["heapUsedMB"], &event["data"]["rssMB"]);
    assert!(
        heap.as_f64() >= Some(1.0) && rss.as_f64() >= heap.as_f64(),
        "{event}"
    );
    assert_eq!(event["data"]["thresholdMB"], json!(1), "{event}");
    let named = (&event["eventType"], &event["queue"], &event["jobId"]);
    assert_eq!(
        named,
        (&json!("server:memory-warning"), &json!("q"), &json!(""))
    );
}
