//! The end of the process, over the worker door (worker protocol, section 24).
#![cfg(unix)]

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Conn, Pending};
use crate::mcp::http::{Session, exchange};
use crate::process::Serve;

/// For an end whose speed is not what the test is about.
const ANY: Duration = Duration::from_secs(20);
/// By far less than a stop that waits for something.
const AT_ONCE: Duration = Duration::from_secs(5);
/// A time for active jobs that no test waits for.
const LONG: (&str, &str) = ("SHUTDOWN_TIMEOUT_MS", "600000");

impl Serve {
    fn signal(&self, signal: &str) {
        let pid = self.process.pid().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &pid])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Asks it to end, and returns once it has begun to.
    fn begin_to_stop(&self) {
        self.signal("-TERM");
        self.process.line("waiting for active jobs");
        // The listener goes a moment later.
        let deadline = Instant::now() + ANY;
        while TcpStream::connect(self.tcp).is_ok() {
            assert!(Instant::now() < deadline, "connections are still accepted");
        }
    }

    fn ended(&mut self, limit: Duration) {
        let status = self.process.exit(limit).expect("the program ends");
        assert_eq!(status.code(), Some(0), "{}", self.process.stderr());
    }

    fn ready(&self) -> (u16, Value) {
        let page = exchange(self.http, "GET", "/ready", &[], b"");
        (page.status, serde_json::from_slice(&page.body).unwrap())
    }
}

/// A worker that holds the only job of a queue.
fn holder(serve: &Serve) -> (Conn, Value) {
    let mut worker = Conn::open(serve.tcp);
    worker.push("q", &json!({}));
    let pull = json!({ "cmd": "PULL", "queue": "q", "owner": "w", "lockTtl": 600_000 });
    let pulled = worker.ok(&pull);
    assert!(pulled["job"].is_object());
    let ack = json!({ "cmd": "ACK", "id": pulled["job"]["id"], "token": pulled["token"] });
    (worker, ack)
}

/// Asks for a job and waits so long for it.
fn held(worker: &mut Conn, timeout: u64) -> Pending {
    worker.begin(&json!({ "cmd": "PULL", "queue": "q", "timeout": timeout }))
}

#[test]
fn an_idle_broker_ends_at_once() {
    for signal in ["-TERM", "-INT"] {
        let mut serve = Serve::start_with(&[LONG]);
        let mut worker = Conn::open(serve.tcp);
        worker.push("q", &json!({}));
        let parked = worker.begin(&json!({ "cmd": "PULL", "queue": "other", "timeout": 60_000 }));
        worker.ok(&json!({ "cmd": "Ping" }));
        serve.signal(signal);
        assert_eq!(worker.finish(&parked)["job"], json!(null));
        worker.expect_close();
        serve.ended(AT_ONCE);
    }
}

#[test]
fn a_stop_waits_for_active_jobs_and_serves_whom_it_has() {
    let mut serve = Serve::start_with(&[LONG]);
    let (mut worker, ack) = holder(&serve);
    let mut other = Conn::open(serve.tcp);
    assert_eq!(serve.ready(), (200, json!({ "ok": true, "ready": true })));
    serve.begin_to_stop();
    assert_eq!(serve.ready(), (503, json!({ "ok": false, "ready": false })));

    // Nothing is handed out: a pull without a wait is empty at once, one with a wait at its time or at the end.
    let added = other.push("q", &json!({}));
    assert_eq!(
        other.ok(&json!({ "cmd": "PULL", "queue": "q" }))["job"],
        json!(null)
    );
    let short = held(&mut other, 50);
    let long = held(&mut other, 60_000);
    assert_eq!(other.finish(&short)["job"], json!(null));
    // Everything else goes on.
    assert_eq!(other.state(&added), "waiting");
    let id = ack["id"].as_str().unwrap();
    worker.ok(&json!({ "cmd": "Progress", "id": id, "progress": 50 }));
    worker.ok(&json!({ "cmd": "JobHeartbeat", "id": id, "token": ack["token"] }));
    assert_eq!(worker.state(id), "active");
    worker.ok(&ack);
    assert_eq!(other.finish(&long)["job"], json!(null));
    worker.expect_close();
    other.expect_close();
    serve.ended(AT_ONCE);
    serve.process.line("no job is active any more");
    let said = serve.process.line("waiting for active jobs");
    assert!(said.contains("active=1"), "{said}");
    assert!(
        said.contains("a second signal ends the wait at once"),
        "{said}"
    );
}

#[test]
fn an_agent_can_report_while_the_process_stops() {
    let mut serve = Serve::start_with(&[LONG]);
    let mut agent = Session::open(serve.http);
    let add = json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" });
    assert!(!agent.call("bunqueue_add_job", &add).is_error);
    let pulled = agent.call("bunqueue_pull_job", &json!({ "queue": "q" }));
    assert_eq!(pulled.value["job"]["id"], "j", "{}", pulled.text);
    serve.begin_to_stop();
    // Another agent can still look, but gets nothing to do.
    let mut late = Session::open(serve.http);
    let nothing = late.call("bunqueue_pull_job", &json!({ "queue": "q" }));
    assert_eq!(nothing.value["job"], json!(null), "{}", nothing.text);
    let acked = agent.call("bunqueue_ack_job", &json!({ "jobId": "j" }));
    assert!(!acked.is_error, "{}", acked.text);
    serve.ended(AT_ONCE);
}

#[test]
fn a_job_that_is_never_reported_holds_the_stop_up_for_its_time_only() {
    let mut serve = Serve::start_with(&[("SHUTDOWN_TIMEOUT_MS", "300")]);
    let (mut worker, _) = holder(&serve);
    let parked = held(&mut worker, 60_000);
    let start = Instant::now();
    serve.signal("-TERM");
    assert_eq!(worker.finish(&parked)["job"], json!(null));
    assert!(start.elapsed() >= Duration::from_millis(300));
    worker.expect_close();
    serve.ended(AT_ONCE);
    serve.process.line("jobs were still active");
}

#[test]
fn no_time_for_active_jobs_means_none() {
    let mut serve = Serve::start_with(&[("SHUTDOWN_TIMEOUT_MS", "0")]);
    let (mut worker, _) = holder(&serve);
    serve.signal("-TERM");
    worker.expect_close();
    serve.ended(AT_ONCE);
}

#[test]
fn a_worker_that_leaves_holds_nothing_up() {
    let mut serve = Serve::start_with(&[LONG]);
    let (worker, _) = holder(&serve);
    serve.begin_to_stop();
    worker.close();
    serve.ended(AT_ONCE);
}

#[test]
fn a_second_signal_ends_the_wait() {
    let mut serve = Serve::start_with(&[LONG]);
    let (mut worker, _) = holder(&serve);
    serve.begin_to_stop();
    let parked = held(&mut worker, 60_000);
    worker.ok(&json!({ "cmd": "Ping" }));
    serve.signal("-INT");
    assert_eq!(worker.finish(&parked)["job"], json!(null));
    worker.expect_close();
    serve.ended(AT_ONCE);
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    const COMMANDS: usize = 500;
    let mut serve = Serve::start_with(&[LONG]);
    let (mut worker, ack) = holder(&serve);
    serve.begin_to_stop();
    // The report ends the process; what came with it, before and after, is answered all the same.
    let mut asked = Vec::new();
    for number in 0..COMMANDS {
        let push = json!({ "cmd": "PUSH", "queue": "q", "data": number });
        asked.push(worker.begin(if number == COMMANDS / 2 { &ack } else { &push }));
    }
    for pending in &asked {
        assert_eq!(worker.finish(pending)["ok"], true);
    }
    worker.expect_close();
    serve.ended(AT_ONCE);
}
