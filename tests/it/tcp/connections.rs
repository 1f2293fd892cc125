//! What the end of a connection does to the jobs it held, to its waits and to its workers.

use serde_json::json;

use super::client::Conn;
use crate::process::Serve;

/// Parks a pull that ends when the job is back; returns what it got.
fn next_job(conn: &mut Conn, queue: &str) -> serde_json::Value {
    let reply =
        conn.ok(&json!({ "cmd": "PULL", "queue": queue, "owner": "next", "timeout": 30_000 }));
    assert!(reply["job"].is_object(), "nothing came back: {reply}");
    reply
}

#[test]
fn hard_l10_a_connection_that_ends_gives_its_jobs_back_at_once() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    for owner in [json!("worker"), json!(null)] {
        let ids: Vec<String> = (0..5)
            .map(|n| conn.push("q", &json!({ "data": n })))
            .collect();
        let mut worker = Conn::open(serve.tcp);
        let pulled =
            worker.ok(&json!({ "cmd": "PULLB", "queue": "q", "count": 5, "owner": owner }));
        assert_eq!(pulled["jobs"].as_array().map(Vec::len), Some(5));
        assert_eq!(conn.counts("q")["active"], 5);
        worker.close();
        for id in &ids {
            let reply = next_job(&mut conn, "q");
            assert_eq!(reply["job"]["id"], json!(id), "in the order they had");
            assert_eq!(reply["job"]["attempts"], 0, "no attempt is charged");
            assert_eq!(reply["job"]["stallCount"], 0);
            conn.ok(&json!({ "cmd": "ACK", "id": id, "token": reply["token"] }));
        }
    }
    assert_eq!(conn.counts("q")["completed"], 10);
}

#[test]
fn a_reply_that_nobody_reads_gives_its_job_back() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let mut worker = Conn::open(serve.tcp);
    let _parked =
        worker.begin(&json!({ "cmd": "PULL", "queue": "q", "owner": "w", "timeout": 60_000 }));
    worker.ok(&json!({ "cmd": "Ping" }));
    let id = conn.push("q", &json!({}));
    worker.close();
    assert_eq!(next_job(&mut conn, "q")["job"]["id"], json!(id));
}

#[test]
fn a_parked_pull_of_a_closed_connection_takes_nothing() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    for _ in 0..20 {
        let mut worker = Conn::open(serve.tcp);
        let _parked = worker.begin(&json!({ "cmd": "PULL", "queue": "q", "timeout": 60_000 }));
        worker.ok(&json!({ "cmd": "Ping" }));
        worker.close();
    }
    let id = conn.push("q", &json!({}));
    assert_eq!(next_job(&mut conn, "q")["job"]["id"], json!(id));
}

#[test]
fn hard_l3_the_end_of_a_worker_that_had_lost_its_job_touches_nobody() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let mut first = Conn::open(serve.tcp);
    let id = conn.push("q", &json!({}));
    let lost = first.ok(&json!({ "cmd": "PULL", "queue": "q", "owner": "a", "lockTtl": 100 }));
    // Arrives when the lock has run out.
    let second = next_job(&mut conn, "q");
    assert_eq!(second["job"]["id"], json!(id));
    assert_eq!(second["job"]["attempts"], 1);
    assert_ne!(second["token"], lost["token"]);
    first.close();
    let mut third = Conn::open(serve.tcp);
    let none = third.ok(&json!({ "cmd": "PULL", "queue": "q", "owner": "c", "timeout": 200 }));
    assert_eq!(none["job"], json!(null), "the second delivery goes on");
    conn.ok(&json!({ "cmd": "ACK", "id": id, "token": second["token"] }));
    assert_eq!(conn.state(&id), "completed");
}

#[test]
fn a_renewed_lock_outlives_its_connection_and_any_connection_may_report() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let mut worker = Conn::open(serve.tcp);
    let id = conn.push("q", &json!({}));
    let pulled = worker.ok(&json!({ "cmd": "PULL", "queue": "q", "owner": "w" }));
    conn.ok(&json!({ "cmd": "JobHeartbeat", "id": id, "token": pulled["token"] }));
    worker.ok(&json!({ "cmd": "RegisterWorker", "name": "w", "queues": ["q"], "workerId": "w" }));
    worker.close();
    // The worker leaves the list at the same moment as its deliveries are released.
    while conn.ok(&json!({ "cmd": "ListWorkers" }))["data"]["workers"] != json!([]) {
        std::thread::yield_now();
    }
    assert_eq!(conn.state(&id), "active");
    conn.ok(&json!({ "cmd": "ACK", "id": id, "token": pulled["token"] }));
    assert_eq!(conn.state(&id), "completed");
}

#[test]
fn connections_that_come_and_go_leave_the_server_usable() {
    let serve = Serve::start();
    for n in 0..200 {
        let mut conn = Conn::open(serve.tcp);
        let _asked = conn.begin(&json!({ "cmd": "PUSH", "queue": "q", "name": "n", "data": n }));
        conn.close();
    }
    let mut conn = Conn::open(serve.tcp);
    let last = conn.push("q", &json!({ "data": "last", "priority": -1 }));
    // A push whose connection was closed has happened or not; none half.
    loop {
        let reply = next_job(&mut conn, "q");
        if reply["job"]["id"] == json!(last) {
            break;
        }
        assert!(
            reply["job"]["data"].as_u64().is_some_and(|n| n < 200),
            "{reply}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_lack_of_file_descriptors_is_said_once_and_ends() {
    const FILES: u32 = 60;
    let serve = Serve::start_with_files(FILES);
    let mut first = Conn::open(serve.tcp);
    first.ok(&json!({ "cmd": "Ping" }));
    // The system takes these on behalf of the program, which has no room for all of them.
    let crowd: Vec<_> = (0..FILES)
        .map(|_| std::net::TcpStream::connect(serve.tcp).unwrap())
        .collect();
    serve.process.line("cannot accept connections");
    // It tries again every 50 ms.
    first.ok(&json!({ "cmd": "PULL", "queue": "q", "timeout": 500 }));
    drop(crowd);
    Conn::open(serve.tcp).ok(&json!({ "cmd": "Ping" }));
    let printed = serve.process.stderr();
    assert_eq!(
        printed.matches("cannot accept connections").count(),
        1,
        "{printed}"
    );
}

#[test]
fn refused_clients_are_told_of_once_with_the_reason_and_no_token() {
    let serve = Serve::start_with(&[("AUTH_TOKENS", "right")]);
    let mut conn = Conn::open(serve.tcp);
    for _ in 0..3 {
        let wrong = conn.call(&json!({ "cmd": "Auth", "token": "s3cret" }));
        assert_eq!(wrong["error"], json!("Invalid token"));
    }
    conn.call(&json!({ "cmd": "Count", "queue": "q" }));
    let line = serve.process.line("reason=wrong token");
    assert!(line.contains("WARN") && line.contains("times=1"), "{line}");
    assert!(line.contains("peer=127.0.0.1:"), "{line}");
    serve.process.line("reason=no token");
    let log = serve.process.stderr();
    assert_eq!(log.matches("reason=").count(), 2, "{log}");
    assert!(!log.contains("s3cret"), "{log}");
}
