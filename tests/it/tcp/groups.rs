//! Groups, over the worker door.

use serde_json::{Value, json};

use super::client::Conn;
use crate::process::Serve;

fn push(conn: &mut Conn, id: &str, group: Option<&str>) {
    let mut members = json!({ "jobId": id });
    if let Some(group) = group {
        members["groupId"] = json!(group);
    }
    conn.push("q", &members);
}

fn pull(group: &Value) -> Value {
    json!({ "cmd": "PULL", "queue": "q", "owner": "w", "timeout": 9_000, "group": group })
}

fn about(cmd: &str) -> Value {
    json!({ "cmd": cmd, "queue": "q", "groupId": "g" })
}

fn count(conn: &mut Conn, cmd: &str) -> Value {
    conn.ok(&about(cmd))["data"]["count"].clone()
}

#[test]
fn jobs_show_their_group_everywhere_and_are_counted_by_it() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    conn.push(
        "q",
        &json!({ "jobId": "a", "groupId": "g", "maxAttempts": 1 }),
    );
    push(&mut conn, "b", Some("g"));
    push(&mut conn, "c", None);
    let job = conn.ok(&json!({ "cmd": "GetJob", "id": "a" }));
    assert_eq!(job["job"]["groupId"], json!("g"));
    assert_eq!(count(&mut conn, "GetGroupJobsCount"), json!(2));
    assert_eq!(count(&mut conn, "GetGroupsJobsCount"), json!(2));
    let taken = conn.ok(&pull(&json!({ "affinity": "g" })));
    assert_eq!(taken["job"]["groupId"], json!("g"));
    assert_eq!(count(&mut conn, "GetGroupActiveCount"), json!(1));
    assert_eq!(count(&mut conn, "GetGroupJobsCount"), json!(1));
    conn.ok(&json!({ "cmd": "FAIL", "id": "a", "token": taken["token"], "error": "no" }));
    let letters = conn.ok(&json!({ "cmd": "Dlq", "queue": "q" }));
    assert_eq!(letters["entries"][0]["job"]["groupId"], json!("g"));
    let alone = conn.ok(&pull(&json!({ "affinity": null })));
    assert_eq!(
        (&alone["job"]["id"], &alone["job"]["groupId"]),
        (&json!("c"), &json!(null))
    );
}

#[test]
fn groups_take_turns() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    for (id, group) in [
        ("a1", "a"),
        ("a2", "a"),
        ("a3", "a"),
        ("b1", "b"),
        ("c1", "c"),
        ("b2", "b"),
    ] {
        push(&mut conn, id, Some(group));
    }
    push(&mut conn, "free", None);
    let batch = conn.ok(&json!({ "cmd": "PULLB", "queue": "q", "count": 10, "owner": "w" }));
    let jobs = batch["jobs"].as_array().unwrap();
    let ids: Vec<_> = jobs.iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["free", "a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[test]
fn a_waiting_pull_gets_the_job_when_its_group_may_go_on() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    assert_eq!(
        conn.ok(&about("PauseGroup"))["data"],
        json!({ "changed": true })
    );
    assert_eq!(
        conn.ok(&about("PauseGroup"))["data"],
        json!({ "changed": false })
    );
    assert_eq!(
        conn.ok(&about("IsGroupPaused"))["data"],
        json!({ "paused": true })
    );
    push(&mut conn, "a", Some("g"));
    let paused = conn.begin(&pull(&json!({})));
    conn.ok(&about("ResumeGroup"));
    assert_eq!(conn.finish(&paused)["job"]["id"], json!("a"));

    let mut throttle = about("RateLimitGroup");
    throttle["duration"] = json!(250);
    conn.ok(&throttle);
    push(&mut conn, "b", Some("g"));
    let throttled = conn.ok(&pull(&json!({})));
    assert_eq!(throttled["job"]["id"], json!("b"));

    push(&mut conn, "c", Some("g"));
    push(&mut conn, "d", Some("g"));
    let limited = json!({ "limit": { "max": 1, "duration": 250 } });
    assert_eq!(conn.ok(&pull(&limited))["job"]["id"], json!("c"));
    assert_eq!(conn.ok(&pull(&limited))["job"]["id"], json!("d"));
}

#[test]
fn a_finished_job_makes_room_in_its_group() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    push(&mut conn, "a", Some("g"));
    push(&mut conn, "b", Some("g"));
    let one = json!({ "concurrency": 1 });
    let first = conn.ok(&pull(&one));
    let second = conn.begin(&pull(&one));
    conn.ok(&json!({ "cmd": "ACK", "id": "a", "token": first["token"] }));
    assert_eq!(conn.finish(&second)["job"]["id"], json!("b"));
}

#[test]
fn a_full_group_refuses_the_push_and_keeps_nothing_of_it() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    push(&mut conn, "a", Some("g"));
    let full =
        json!({ "cmd": "PUSH", "queue": "q", "jobId": "b", "groupId": "g", "groupMaxSize": 1 });
    let text = "Group g has reached its maximum size of 1";
    assert_eq!(conn.call(&full), json!({ "ok": false, "error": text }));
    let state = conn.ok(&json!({ "cmd": "GetState", "id": "b" }));
    assert_eq!(state["state"], json!("unknown"));
}
