//! Other programs at the same file, and files that are none.

use std::fs;
use std::time::{Duration, Instant};

use bunqueue_mcp::storage::WAL_BYTES_KEPT;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{Disk, health, insist, is_done, is_slow, push, state, storage_status, until};
use crate::process;
use crate::tcp::client::Conn;

/// Adds jobs with this much data each.
fn add_many(conn: &mut Conn, jobs: usize, data: usize) {
    const BATCH: usize = 500;
    let job = json!({ "name": "n", "data": "x".repeat(data) });
    let batch: Vec<Value> = (0..BATCH).map(|_| job.clone()).collect();
    let batch = json!({ "cmd": "PUSHB", "queue": "many", "jobs": batch });
    for _ in 0..jobs / BATCH {
        conn.ok(&batch);
    }
}

fn jobs_in(reader: &Connection) -> usize {
    let count = reader.query_row("SELECT count(*) FROM job", [], |row| row.get::<_, i64>(0));
    count.unwrap() as usize
}

#[test]
fn hard_s3_the_log_shrinks_when_an_outside_reader_has_left() {
    let jobs = if is_slow() { 100_000 } else { 10_000 };
    let disk = Disk::new();
    let mut serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    conn.ok(&push("first"));
    let reader = Connection::open(disk.file()).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(jobs_in(&reader), 1);
    add_many(&mut conn, jobs, 4_000);
    assert!(disk.log_len() > WAL_BYTES_KEPT, "the reader holds it up");
    assert_eq!(jobs_in(&reader), 1);
    reader.execute_batch("COMMIT").unwrap();
    // Nothing else is asked of the broker.
    until("a shorter log", || disk.log_len() <= WAL_BYTES_KEPT);
    assert_eq!(jobs_in(&reader), jobs + 1);
    drop(reader);
    serve.end();
    let serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    assert_eq!(conn.counts("many")["waiting"], jobs);
}

#[test]
fn the_log_is_bounded_while_much_is_written() {
    let disk = Disk::new();
    let serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    for _ in 0..10 {
        add_many(&mut conn, 2_000, 4_000);
        let len = disk.log_len();
        assert!(len <= WAL_BYTES_KEPT, "{len} bytes");
    }
}

#[test]
fn hard_s3_an_outside_writer_makes_changes_wait() {
    let time = Duration::from_secs(if is_slow() { 2 } else { 0 });
    let disk = Disk::new();
    let serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    conn.ok(&push("first"));
    let writer = Connection::open(disk.file()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let pending = conn.begin(&push("second"));
    let mut reader = Conn::open(serve.tcp);
    let start = Instant::now();
    for _ in 0..100 {
        assert_eq!(state(&mut reader, "first"), "waiting");
    }
    while start.elapsed() < time {
        assert_eq!(state(&mut reader, "first"), "waiting");
    }
    writer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(conn.finish(&pending)["ok"], true);
    assert_eq!(jobs_in(&writer), 2);
}

#[test]
fn a_deleted_or_replaced_file_refuses_changes_until_it_is_back() {
    let disk = Disk::new();
    let mut serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    conn.ok(&push("first"));
    for name in ["data/data", "data/data-wal"] {
        let (file, aside) = (disk.at(name), disk.at("aside"));
        for replacement in [None, Some("another file")] {
            fs::rename(&file, &aside).unwrap();
            if let Some(text) = replacement {
                fs::write(&file, text).unwrap();
            }
            assert!(
                !is_done(&mut conn, &push("refused")),
                "{name} {replacement:?}"
            );
            assert_eq!(health(&serve), 503);
            assert_eq!(state(&mut conn, "first"), "waiting", "reads go on");
            assert_eq!(state(&mut conn, "refused"), "unknown");
            fs::rename(&aside, &file).unwrap();
            insist(&mut conn, &push(&format!("{name} {replacement:?}")));
            assert_eq!(storage_status(&mut conn)["error"], Value::Null);
        }
    }
    serve.end();
    let serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    assert_eq!(conn.counts("q")["waiting"], 5);
}

#[test]
fn what_is_no_data_file_ends_the_start_with_a_reason() {
    let disk = Disk::new();
    let mut serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    add_many(&mut conn, 500, 500);
    serve.end();
    let mut bytes = fs::read(disk.file()).unwrap();
    let middle = bytes.len() / 2 / 4_096 * 4_096;
    bytes[middle..middle + 4_096].fill(0xff);
    fs::write(disk.file(), &bytes).unwrap();
    let directory = disk.at("synced");
    let cases = [
        (
            disk.file(),
            "the data file is damaged or no SQLite database",
        ),
        (
            directory,
            "the data file cannot be opened: it is a directory",
        ),
    ];
    for (path, reason) in cases {
        let arguments = ["serve", "--data-path", path.to_str().unwrap()];
        let (code, _, told) = process::run_with(&arguments, &[]);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains(reason), "{told}");
    }
    assert!(fs::read(disk.file()).unwrap() == bytes);
}
