//! After a commit that failed the engine is loaded again: whoever waits, works or listens gets an error or goes on with what is
//! stored.

use serde_json::{Value, json};

use super::{Disk, EIO, insist, is_done, push, state, until};
use crate::tcp::client::Conn;

fn pull(wait: u32) -> Value {
    json!({ "cmd": "PULL", "queue": "q", "owner": "w", "lockTtl": 600_000, "timeout": wait })
}

fn ack(pulled: &Value) -> Value {
    json!({ "cmd": "ACK", "id": pulled["job"]["id"], "token": pulled["token"], "result": 1 })
}

#[test]
fn a_waiting_pull_gets_the_error_and_no_job_that_was_refused() {
    let disk = Disk::new();
    let serve = disk.start();
    let (mut waiting, mut conn) = (Conn::open(serve.tcp), Conn::open(serve.tcp));
    conn.ok(&push("other"));
    conn.ok(&json!({ "cmd": "Pause", "queue": "q" }));
    let pending = waiting.begin(&pull(20_000));
    let job = waiting.begin(&json!({ "cmd": "WaitJob", "id": "other", "timeout": 20_000 }));
    // Behind both, so they are registered by then.
    waiting.ok(&json!({ "cmd": "Ping" }));
    disk.fail_writes(EIO);
    // Were it stored, the pull would get the job.
    assert!(!is_done(
        &mut conn,
        &json!({ "cmd": "Resume", "queue": "q" })
    ));
    for pending in [pending, job] {
        let reply = waiting.finish(&pending);
        assert_eq!(
            (&reply["ok"], &reply["error"]),
            (&json!(false), &json!("Internal server error"))
        );
    }
    disk.heal();
    insist(&mut conn, &json!({ "cmd": "Resume", "queue": "q" }));
    assert_eq!(waiting.ok(&pull(0))["job"]["id"], "other");
}

#[test]
fn answers_that_were_held_back_become_the_error() {
    let disk = Disk::new();
    let serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    let mut events = Conn::open(serve.tcp);
    conn.ok(&push("before"));
    events.ok(&json!({ "cmd": "SubscribeEvents", "queue": "q" }));
    disk.hold();
    let pending: Vec<_> = (0..50)
        .map(|number| conn.begin(&push(&format!("job-{number}"))))
        .collect();
    disk.await_held();
    disk.fail_writes(EIO);
    disk.release();
    for pending in &pending {
        assert_eq!(conn.finish(pending)["error"], "Internal server error");
    }
    assert_eq!(conn.counts("q")["waiting"], 1);
    disk.heal();
    insist(&mut conn, &push("after"));
    let event = events.event();
    assert_eq!(
        (&event["eventType"], &event["jobId"]),
        (&json!("pushed"), &json!("after"))
    );
}

#[test]
fn a_lease_that_was_stored_goes_on_and_its_connection_still_owns_it() {
    let disk = Disk::new();
    let serve = disk.start();
    let (mut conn, mut worker) = (Conn::open(serve.tcp), Conn::open(serve.tcp));
    for id in ["kept", "given-back"] {
        conn.ok(&push(id));
    }
    worker.ok(&json!({ "cmd": "RegisterWorker", "name": "w", "queues": ["q"], "workerId": "w" }));
    let kept = worker.ok(&pull(0));
    worker.ok(&pull(0));
    // Behind the deliveries, so these are stored.
    conn.ok(&push("third"));
    disk.fail_writes(EIO);
    assert!(!is_done(&mut conn, &push("refused")));
    // Refused like any other change, and not forgotten.
    assert!(!is_done(&mut worker, &ack(&kept)));
    disk.heal();
    insist(&mut worker, &ack(&kept));
    let workers = conn.ok(&json!({ "cmd": "ListWorkers" }));
    assert!(workers.to_string().contains("\"w\""), "{workers}");
    worker.close();
    let mut other = Conn::open(serve.tcp);
    let mut ids =
        [other.ok(&pull(10_000)), other.ok(&pull(10_000))].map(|it| it["job"]["id"].to_string());
    ids.sort();
    assert_eq!(ids, ["\"given-back\"", "\"third\""]);
    assert_eq!(state(&mut conn, "kept"), "completed");
}

#[test]
fn a_connection_that_ends_meanwhile_gives_its_jobs_back_afterwards() {
    let disk = Disk::new();
    let serve = disk.start();
    let (mut conn, mut worker) = (Conn::open(serve.tcp), Conn::open(serve.tcp));
    conn.ok(&push("held"));
    worker.ok(&pull(0));
    conn.ok(&json!({ "cmd": "Pause", "queue": "other" }));
    disk.fail_writes(EIO);
    assert!(!is_done(&mut conn, &push("refused")));
    worker.close();
    assert_eq!(state(&mut conn, "held"), "active");
    disk.heal();
    insist(&mut conn, &push("after"));
    let mut other = Conn::open(serve.tcp);
    let pulled = [other.ok(&pull(10_000)), other.ok(&pull(10_000))];
    let ids = pulled.each_ref().map(|pulled| &pulled["job"]["id"]);
    assert!(ids.contains(&&json!("held")), "{ids:?}");
    for pulled in &pulled {
        other.ok(&ack(pulled));
    }
}

#[test]
fn a_delivery_without_a_lock_goes_on_and_is_charged_nothing() {
    let disk = Disk::new();
    let serve = disk.start();
    let (mut conn, mut worker) = (Conn::open(serve.tcp), Conn::open(serve.tcp));
    for id in ["acked", "refused-first", "given-back"] {
        let mut job = push(id);
        job["maxAttempts"] = json!(1);
        conn.ok(&job);
        let pulled = worker.ok(&json!({ "cmd": "PULL", "queue": "q" }));
        assert_eq!(
            (&pulled["job"]["id"], &pulled["token"]),
            (&json!(id), &json!(null))
        );
    }
    // Behind the deliveries, so these are stored.
    conn.ok(&push("other"));
    disk.fail_writes(EIO);
    let done = |id: &str| json!({ "cmd": "ACK", "id": id });
    // The change that cannot be stored is the end of one of them.
    assert!(!is_done(&mut worker, &done("refused-first")));
    for id in ["acked", "refused-first", "given-back"] {
        assert_eq!(state(&mut conn, id), "active", "{id}");
    }
    disk.heal();
    for id in ["acked", "refused-first"] {
        insist(&mut worker, &done(id));
        assert_eq!(state(&mut conn, id), "completed", "{id}");
    }
    worker.close();
    until("the job that its connection gave back", || {
        state(&mut conn, "given-back") == "waiting"
    });
}

#[test]
fn a_connection_whose_end_is_lost_gives_its_jobs_back_afterwards() {
    let disk = Disk::new();
    let serve = disk.start();
    let (mut conn, mut reader) = (Conn::open(serve.tcp), Conn::open(serve.tcp));
    let mut worker = Conn::open(serve.tcp);
    for id in ["held", "acked"] {
        conn.ok(&push(id));
    }
    let pulled = [worker.ok(&pull(0)), worker.ok(&pull(0))];
    conn.ok(&push("stored"));
    disk.hold();
    let pending = conn.begin(&push("refused"));
    disk.await_held();
    let acked = worker.begin(&ack(&pulled[1]));
    until("the ack", || state(&mut reader, "acked") == "completed");
    worker.close();
    until("the end of the worker", || {
        state(&mut reader, "held") == "waiting"
    });
    disk.fail_writes(EIO);
    disk.release();
    assert_eq!(conn.finish(&pending)["error"], "Internal server error");
    let states = |conn: &mut Conn| ["held", "acked"].map(|id| state(conn, id));
    assert_eq!(states(&mut conn), ["active", "active"]);
    disk.heal();
    until("both jobs", || states(&mut conn) == ["waiting", "waiting"]);
    drop(acked);
}
