//! Large completed jobs that are in the data file alone: what no reply can hold is not read, and little is read at a time.

use serde_json::{Value, json};

use super::client::Conn;
use crate::process::Serve;

/// Large jobs; no reply can hold all of them.
pub const LARGE: usize = 8;
const DATA_BYTES: usize = 9_000_000;

/// Completes large jobs, then a small one, which alone stays in memory where one may.
pub fn complete_large(conn: &mut Conn) {
    let large = json!("y".repeat(DATA_BYTES));
    for number in 0..=LARGE {
        let data = if number < LARGE { &large } else { &json!("y") };
        let id = conn.push("q", &json!({ "data": data, "jobId": format!("j{number}") }));
        let pulled = conn.ok(&json!({ "cmd": "PULL", "queue": "q", "owner": "w" }));
        conn.ok(&json!({ "cmd": "ACK", "id": id, "token": pulled["token"] }));
    }
}

fn page(offset: usize, limit: usize) -> Value {
    json!({ "cmd": "GetJobs", "queue": "q", "state": "completed", "offset": offset, "limit": limit, "asc": true })
}

/// Asks for everything over several connections at once, then for a part, and says by how much the peak of memory has grown.
fn ask_for_too_much(serve: &Serve) -> u64 {
    const CLIENTS: usize = 6;
    let before = serve.process.peak();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut conn = Conn::open(serve.tcp);
                let reply = conn.call(&page(0, 100));
                let text = "Reply too large: exceeds maximum 67108864";
                assert_eq!(reply, json!({ "ok": false, "error": text }));
                assert!(conn.ok(&json!({ "cmd": "Ping" }))["data"]["pong"] == json!(true));
            });
        }
    });
    serve.process.peak().saturating_sub(before)
}

#[cfg(target_os = "linux")]
#[test]
fn a_page_that_no_reply_can_hold_is_refused_before_its_jobs_are_read() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("queue.db");
    let serve = Serve::start_with(&[
        ("BUNQUEUE_DATA_PATH", file.to_str().unwrap()),
        ("BUNQUEUE_MAX_COMPLETED_JOBS", "1"),
    ]);
    let mut conn = Conn::open(serve.tcp);
    complete_large(&mut conn);
    let grown = ask_for_too_much(&serve);
    assert!(grown < DATA_BYTES as u64, "grown by {grown} bytes");
    let mut seen = Vec::new();
    for offset in (0..=LARGE).step_by(4) {
        let jobs = conn.ok(&page(offset, 4));
        let jobs = jobs["jobs"].as_array().unwrap();
        seen.extend(jobs.iter().map(|job| job["id"].clone()));
    }
    let all: Vec<Value> = (0..=LARGE).map(|n| json!(format!("j{n}"))).collect();
    assert_eq!(seen, all);
}

#[cfg(target_os = "linux")]
#[test]
fn a_page_of_memory_that_no_reply_can_hold_is_refused_before_it_is_copied() {
    let serve = Serve::start();
    complete_large(&mut Conn::open(serve.tcp));
    let grown = ask_for_too_much(&serve);
    assert!(grown < DATA_BYTES as u64, "grown by {grown} bytes");
}
