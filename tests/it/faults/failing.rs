//! The disk is full, or fails, and works again.

use serde_json::{Value, json};

use super::{Disk, EIO, ENOSPC, health, insist, is_done, push, state, storage_status, until};
use crate::process::Serve;
use crate::tcp::client::Conn;

const FULL: &str = "database or disk is full";
/// Lines that a failing disk may cost, however much is asked meanwhile.
const LINES_MAX: usize = 6;

fn lines(serve: &Serve) -> usize {
    serve.process.stderr().lines().count()
}

/// Adds while the disk fails and after it works again; at the end exactly what was acknowledged is there.
fn exactly_what_was_acknowledged(level: &str, fail: impl FnOnce(&Disk), error: &str) {
    let disk = Disk::new();
    let env = [("BUNQUEUE_DURABILITY", level)];
    let mut serve = disk.start_with(&env);
    let mut conn = Conn::open(serve.tcp);
    let mut asked: Vec<(String, bool)> = Vec::new();
    let mut add = |conn: &mut Conn, id: String| {
        let is_done = is_done(conn, &push(&id));
        let expected = if is_done { "waiting" } else { "unknown" };
        assert_eq!(state(conn, &id), expected, "{id}");
        asked.push((id, is_done));
        is_done
    };
    for number in 0..10 {
        assert!(add(&mut conn, format!("before-{number}")));
    }
    assert_eq!(health(&serve), 200);
    let before = lines(&serve);
    fail(&disk);
    for number in 0..200 {
        assert!(!add(&mut conn, format!("during-{number}")));
    }
    let status = storage_status(&mut conn);
    assert_eq!(status["diskFull"], error == FULL);
    assert_eq!(status["error"], error);
    assert_eq!(conn.counts("q")["waiting"], 10, "reads go on");
    assert_eq!(health(&serve), 503);
    disk.heal();
    let mut number = 0;
    until("an add that is accepted", || {
        number += 1;
        add(&mut conn, format!("after-{number}"))
    });
    let status = storage_status(&mut conn);
    let healthy = json!({ "diskFull": false, "error": null, "since": null });
    assert_eq!(status, healthy);
    assert_eq!(health(&serve), 200);
    // The last of them.
    serve.process.line("changes can be stored again");
    let told = lines(&serve) - before;
    assert!((2..=LINES_MAX).contains(&told), "{told} lines");
    serve.end();
    let serve = disk.start_with(&env);
    let mut conn = Conn::open(serve.tcp);
    let acknowledged = asked.iter().filter(|(_, is_done)| *is_done).count();
    assert_eq!(conn.counts("q")["waiting"], acknowledged);
    for (id, is_done) in asked {
        let expected = if is_done { "waiting" } else { "unknown" };
        assert_eq!(state(&mut conn, &id), expected, "{id}");
    }
}

#[test]
fn hard_s1_a_full_disk_refuses_adds_until_there_is_room() {
    exactly_what_was_acknowledged("committed", |disk| disk.fail_writes(ENOSPC), FULL);
}

#[test]
fn hard_s1_a_disk_that_cannot_write_refuses_adds_until_it_can() {
    let internal = "Internal server error";
    exactly_what_was_acknowledged("committed", |disk| disk.fail_writes(EIO), internal);
}

#[test]
fn hard_s1_a_disk_that_cannot_sync_refuses_adds_until_it_can() {
    let internal = "Internal server error";
    exactly_what_was_acknowledged("durable", |disk| disk.fail_syncs(EIO), internal);
}

#[test]
fn pe_18_a_durable_add_that_finds_no_room_leaves_nothing() {
    let disk = Disk::new();
    let serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    let mut large = push("large");
    large["durable"] = json!(true);
    large["data"] = json!("x".repeat(200_000));
    disk.fail_writes(ENOSPC);
    assert!(!is_done(&mut conn, &large));
    assert_eq!(state(&mut conn, "large"), "unknown");
    assert_eq!(storage_status(&mut conn)["diskFull"], true);
    assert_eq!(storage_status(&mut conn)["error"], FULL);
    disk.heal();
    insist(&mut conn, &large);
    assert_eq!(storage_status(&mut conn)["diskFull"], false);
}

fn buffered(disk: &Disk) -> Serve {
    disk.start_with(&[("BUNQUEUE_DURABILITY", "buffered")])
}

/// Ends once a commit has failed.
fn await_trouble(conn: &mut Conn) {
    until("trouble", || storage_status(conn)["error"] != Value::Null);
}

fn await_health(conn: &mut Conn) {
    until("health", || storage_status(conn)["error"] == Value::Null);
}

#[test]
fn pe_19_a_buffered_add_that_finds_no_room_is_delivered_and_stored_later() {
    let disk = Disk::new();
    let mut serve = buffered(&disk);
    let mut conn = Conn::open(serve.tcp);
    disk.fail_writes(ENOSPC);
    conn.ok(&push("early"));
    await_trouble(&mut conn);
    conn.ok(&push("late"));
    let status = storage_status(&mut conn);
    assert_eq!(
        (&status["diskFull"], &status["error"]),
        (&json!(true), &json!(FULL))
    );
    assert_eq!(health(&serve), 503);
    let pulled = conn.ok(&json!({ "cmd": "PULL", "queue": "q", "owner": "w" }));
    assert_eq!(pulled["job"]["id"], "early");
    conn.ok(&json!({ "cmd": "ACK", "id": "early", "token": pulled["token"] }));
    disk.heal();
    await_health(&mut conn);
    assert_eq!(storage_status(&mut conn)["diskFull"], false);
    assert_eq!(health(&serve), 200);
    serve.end();
    let serve = buffered(&disk);
    let mut conn = Conn::open(serve.tcp);
    assert_eq!(state(&mut conn, "early"), "completed");
    assert_eq!(state(&mut conn, "late"), "waiting");
}

/// As at the other levels, but what is there already stays and is stored later.
#[test]
fn a_buffered_change_that_waits_for_the_disk_gets_the_error_while_that_fails() {
    let disk = Disk::new();
    let mut serve = buffered(&disk);
    let mut conn = Conn::open(serve.tcp);
    let durable = |id: &str| {
        let mut job = push(id);
        job["durable"] = json!(true);
        job
    };
    let job = json!({ "id": "flow", "queue": "q", "input": { "data": {} } });
    let flow = json!({ "cmd": "PUSHF", "jobs": [job] });
    disk.fail_writes(ENOSPC);
    // It is the one whose commit fails.
    assert!(!is_done(&mut conn, &durable("early")));
    assert_eq!(state(&mut conn, "early"), "waiting");
    assert_eq!(storage_status(&mut conn)["error"], FULL);
    assert!(!is_done(&mut conn, &durable("late")));
    assert!(!is_done(&mut conn, &flow));
    for id in ["late", "flow"] {
        assert_eq!(state(&mut conn, id), "unknown", "{id}");
    }
    conn.ok(&push("unsure"));
    disk.heal();
    await_health(&mut conn);
    for change in [durable("late"), flow] {
        insist(&mut conn, &change);
    }
    serve.end();
    let serve = buffered(&disk);
    let mut conn = Conn::open(serve.tcp);
    for id in ["early", "unsure", "late", "flow"] {
        assert_eq!(state(&mut conn, id), "waiting", "{id}");
    }
}

/// A commit is given up at its first write that fails, so that errors count tries.
#[test]
fn b_13_more_than_ten_retries_lose_nothing_and_store_nothing_twice() {
    // With RUN_SLOW as long as the pauses between eleven tries take; otherwise three of them.
    let tries = if super::is_slow() { 11 } else { 3 };
    let disk = Disk::new();
    let mut serve = buffered(&disk);
    let mut conn = Conn::open(serve.tcp);
    conn.ok(&push("first"));
    disk.fail_writes(EIO);
    let ids: Vec<String> = (0..100).map(|number| format!("job-{number}")).collect();
    for id in &ids {
        conn.ok(&push(id));
    }
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(240);
    while disk.errors() < tries {
        assert!(std::time::Instant::now() < deadline);
        conn.ok(&push("first"));
    }
    disk.heal();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while storage_status(&mut conn)["error"] != Value::Null {
        assert!(std::time::Instant::now() < deadline);
    }
    serve.end();
    let serve = buffered(&disk);
    let mut conn = Conn::open(serve.tcp);
    assert_eq!(conn.counts("q")["waiting"], 101);
    for id in &ids {
        assert_eq!(state(&mut conn, id), "waiting");
    }
}

#[test]
fn b_13_pauses_between_tries_do_not_depend_on_what_is_asked() {
    let disk = Disk::new();
    let serve = buffered(&disk);
    let mut conn = Conn::open(serve.tcp);
    disk.fail_writes(EIO);
    conn.ok(&push("first"));
    await_trouble(&mut conn);
    let start = std::time::Instant::now();
    let before = disk.errors();
    for number in 0..500 {
        conn.ok(&push(&format!("job-{number}")));
    }
    // 200 ms, then twice as long each time.
    let tries = disk.errors() - before;
    let most = start.elapsed().as_millis() / 200 + 1;
    assert!(u128::from(tries) <= most, "{tries} tries, at most {most}");
}

#[test]
fn b_13_unsaved_changes_have_a_bound() {
    const BATCH: u64 = 1_000;
    let bound = bunqueue_mcp::broker::UNSAVED_MAX as u64;
    let disk = Disk::new();
    let serve = buffered(&disk);
    let mut conn = Conn::open(serve.tcp);
    disk.fail_writes(ENOSPC);
    conn.ok(&push("first"));
    await_trouble(&mut conn);
    let jobs: Vec<Value> = (0..BATCH).map(|_| json!({ "name": "n" })).collect();
    let batch = json!({ "cmd": "PUSHB", "queue": "q", "jobs": jobs });
    let mut accepted = 0;
    let refusal = loop {
        let reply = conn.call(&batch);
        if reply["ok"] != true {
            break reply["error"].clone();
        }
        accepted += BATCH;
        assert!(accepted <= bound + BATCH);
    };
    assert!(accepted + 2 * BATCH > bound, "{accepted} of {bound}");
    assert_eq!(refusal, "Too many changes wait for the disk");
    // What is there already goes on.
    let pulled = conn.ok(&json!({ "cmd": "PULL", "queue": "q", "owner": "w" }));
    conn.ok(&json!({ "cmd": "ACK", "id": pulled["job"]["id"], "token": pulled["token"] }));
    disk.heal();
    await_health(&mut conn);
    until("an add that is accepted", || {
        conn.call(&push("last"))["ok"] == true
    });
}

#[test]
fn a_buffered_end_on_a_full_disk_says_what_is_lost_and_stores_nothing_behind_it() {
    let disk = Disk::new();
    let mut serve = buffered(&disk);
    let mut conn = Conn::open(serve.tcp);
    conn.ok(&push("stored"));
    until("a commit", || {
        disk.writes() > 0 && log_holds(&disk, "stored")
    });
    disk.fail_writes(ENOSPC);
    conn.ok(&push("lost"));
    await_trouble(&mut conn);
    conn.ok(&push("later"));
    // The next try is far enough away for the end to come before it.
    until("three more tries", || disk.errors() >= 4);
    // The batch fails once more at the end; from then on the disk works.
    disk.fail_some_writes(ENOSPC, 1);
    serve.end();
    let told = serve.process.stderr();
    assert!(told.contains("were not stored"), "{told}");
    let serve = buffered(&disk);
    let mut conn = Conn::open(serve.tcp);
    let states = ["stored", "lost", "later"].map(|id| state(&mut conn, id));
    assert_eq!(states, ["waiting", "unknown", "unknown"]);
}

fn log_holds(disk: &Disk, text: &str) -> bool {
    let log = std::fs::read(disk.at("data/data-wal")).unwrap_or_default();
    log.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn hard_c8_a_slot_whose_job_was_not_stored_fires_once_when_it_can_be() {
    let disk = Disk::new();
    let mut serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    let cron = json!({
        "cmd": "Cron", "name": "tick", "queue": "q", "repeatEvery": 1_500, "jobName": "n", "maxLimit": 1,
    });
    conn.ok(&cron);
    let executions = |conn: &mut Conn| {
        let cron = conn.ok(&json!({ "cmd": "CronGet", "name": "tick" }));
        (
            cron["cron"]["executions"].clone(),
            cron["cron"]["nextRun"].clone(),
        )
    };
    let (_, slot) = executions(&mut conn);
    disk.fail_writes(ENOSPC);
    // It is the job of the slot whose write fails: nothing else is asked.
    until("the slot", || {
        storage_status(&mut conn)["error"] != Value::Null
    });
    // The trouble is told before the engine is loaded again.
    let before = (json!(0), slot);
    until("the state before", || executions(&mut conn) == before);
    assert_eq!(executions(&mut conn), before);
    assert_eq!(conn.counts("q")["waiting"], 0);
    disk.heal();
    until("the job", || conn.counts("q")["waiting"] == 1);
    assert_eq!(executions(&mut conn).0, 1);
    serve.end();
    let serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    assert_eq!(conn.counts("q")["waiting"], 1);
    assert_eq!(executions(&mut conn).0, 1);
}
