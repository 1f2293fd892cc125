//! Replies of commands that ask, refusals, and what every reply has in common.

use super::*;
use crate::command::{ArgumentError, QueueName, Workers};
use crate::engine::{Counts, LogLine, Refusal as Reason, WorkerStats, WorkerView};

#[test]
fn logs_are_cut_by_inclusive_indexes() {
    let lines: Vec<LogLine> = (0..4)
        .map(|line| LogLine {
            seq: line as u64,
            at: 1_700_000_000_000 + line,
            level: "info".into(),
            message: format!("m{line}").into(),
        })
        .collect();
    let logs = |start: Option<f64>, end: Option<f64>| {
        let reply = shown(
            &Shape::GetLogs { start, end },
            Ok(Reply::Logs(lines.clone())),
        );
        assert_eq!(reply["data"]["count"], json!(4));
        let logs = reply["data"]["logs"].as_array().unwrap().clone();
        let messages = logs
            .iter()
            .map(|line| line["message"].as_str().unwrap().to_owned());
        messages.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(logs(None, None), "m0 m1 m2 m3");
    assert_eq!(logs(Some(1.0), Some(2.0)), "m1 m2");
    assert_eq!(logs(Some(3.0), None), "m3");
    assert_eq!(logs(None, Some(0.0)), "m0");
    assert_eq!(logs(Some(0.0), Some(-1.0)), "m0 m1 m2 m3");
    assert_eq!(logs(Some(-2.0), None), "m2 m3");
    assert_eq!(logs(Some(2.0), Some(1.0)), "");
    assert_eq!(logs(Some(10.0), Some(20.0)), "");
    assert_eq!(logs(Some(-99.0), Some(-99.0)), "");
    assert_eq!(logs(Some(0.0), Some(1e300)), "m0 m1 m2 m3");
    let first = shown(
        &Shape::GetLogs {
            start: None,
            end: Some(0.0),
        },
        Ok(Reply::Logs(lines)),
    );
    let line = json!({"timestamp": 1_700_000_000_000.0, "level": "info", "message": "m0"});
    assert_eq!(first["data"]["logs"], json!([line]));
}

#[test]
fn counts_hold_every_key() {
    let counts = Counts {
        waiting: 1,
        prioritized: 2,
        delayed: 3,
        active: 4,
        completed: 5,
        failed: 6,
        waiting_children: 7,
        paused: 8,
    };
    assert_eq!(
        shown(&Shape::GetJobCounts, Ok(Reply::Counts(counts))),
        json!({"ok": true, "counts": {"waiting": 1, "prioritized": 2, "delayed": 3, "active": 4,
            "completed": 5, "failed": 6, "waiting-children": 7, "paused": 8}})
    );
    assert_eq!(
        shown(&Shape::Count, Ok(Reply::Counts(counts))),
        json!({"ok": true, "count": 14})
    );
    let queue = QueueName::lenient("no such queue");
    let priorities = vec![(10.0, 1), (1.5, 2), (0.0, 3), (-3.0, 4)];
    assert_eq!(
        shown(
            &Shape::GetCountsPerPriority(queue),
            Ok(Reply::PriorityCounts(priorities))
        ),
        json!({"ok": true, "queue": "no such queue",
            "counts": {"10": 1, "1.5": 2, "0": 3, "-3": 4}})
    );
}

#[test]
fn workers_show_what_they_said() {
    let worker = WorkerView {
        id: "w-1".into(),
        name: "alpha".into(),
        queues: vec!["q1".into(), "q2".into()],
        concurrency: 4.0,
        hostname: "host".into(),
        pid: 77.0,
        registered_at: 1_700_000_000_000,
        last_seen: 1_700_000_040_000,
        active: true,
        active_jobs: 2.0,
        processed_jobs: 10.0,
        failed_jobs: 1.0,
    };
    let common = json!({
        "name": "alpha", "queues": ["q1", "q2"], "concurrency": 4, "hostname": "host", "pid": 77,
        "status": "active", "registeredAt": 1_700_000_000_000.0, "lastSeen": 1_700_000_040_000.0,
        "activeJobs": 2, "processedJobs": 10, "failedJobs": 1, "currentJob": null,
    });
    assert_eq!(
        shown(
            &Shape::RegisterWorker,
            Ok(Reply::Worker(Box::new(worker.clone())))
        ),
        json!({"ok": true, "data": with(common.clone(), json!({"workerId": "w-1"}))})
    );
    let stale = WorkerView {
        active: false,
        ..worker.clone()
    };
    let stats = WorkerStats {
        total: 2,
        active: 1,
        total_processed: 11.0,
        total_failed: 1.0,
        active_jobs: 2.0,
        concurrency_slots: 4.0,
    };
    let listed = with(common, json!({"id": "w-1", "uptime": 50_000}));
    let silent = with(listed.clone(), json!({"status": "stale"}));
    let list = vec![worker, stale];
    assert_eq!(
        shown(
            &Shape::ListWorkers,
            Ok(Reply::Workers(Workers { list, stats }))
        ),
        json!({"ok": true, "data": {"workers": [listed, silent], "stats": {"total": 2,
            "active": 1, "totalProcessed": 11, "totalFailed": 1, "activeJobs": 2,
            "concurrencySlots": 4}}})
    );
}

#[test]
fn refusals_carry_their_text_and_nothing_else() {
    let cases = [
        (
            ArgumentError::QueueRequired.into(),
            "Queue name is required",
        ),
        (CommandError::Internal, "Internal server error"),
        (
            CommandError::Refused(Reason::TokenRequired(id("j"))),
            "Lock token required for job j",
        ),
        (
            CommandError::Refused(Reason::TokenInvalid(id("j"))),
            "Invalid or expired lock token for job j",
        ),
    ];
    for (error, text) in cases {
        assert_eq!(
            shown(&Shape::Report, Err(error)),
            json!({"ok": false, "error": text})
        );
    }
    // An answer that does not fit the question is a fault of ours, and no lie.
    let internal = json!({"ok": false, "error": "Internal server error"});
    assert_eq!(shown(&Shape::IsPaused, Ok(Reply::Done(()))), internal);
}

#[test]
fn identities_are_echoed_byte_for_byte() {
    for raw in [
        &[0x07][..],
        &[0xc0],
        b"\xa3a b",
        &[0xcb, 0x40, 0x1c, 0, 0, 0, 0, 0, 0],
    ] {
        let mut out = Vec::new();
        reply::done(&mut out, &ReqId::from_raw(raw));
        let mut expected = vec![0x82, 0xa2, b'o', b'k', 0xc3, 0xa5];
        expected.extend(b"reqId");
        expected.extend(raw);
        assert_eq!(body(&out), expected);
    }
    let mut out = Vec::new();
    reply::done(&mut out, &ReqId::NONE);
    assert_eq!(body(&out), [0x81, 0xa2, b'o', b'k', 0xc3]);
}

#[test]
fn the_connection_speaks_for_itself() {
    let mut out = Vec::new();
    reply::hello(&mut out, &ReqId::NONE);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        json_of(&out),
        json!({"ok": true, "protocolVersion": 3, "server": "bunqueue", "version": version,
            "capabilities": ["pipelining", "separate-job-name"]})
    );
    out.clear();
    reply::pong(&mut out, &ReqId::NONE, NOW);
    let pong = rmpv::decode::read_value(&mut body(&out)).unwrap();
    let time = &pong["data"]["time"];
    assert_eq!(
        (&pong["data"]["pong"], time),
        (&true.into(), &(NOW as f64).into())
    );
    out.clear();
    reply::refuse(&mut out, &ReqId::NONE, "no");
    assert_eq!(json_of(&out), json!({"ok": false, "error": "no"}));
}

#[test]
fn a_reply_that_no_frame_holds_becomes_a_refusal() {
    let half = Payload::new(&[0xc0; 34_000_000]);
    let mut large = delivery(false);
    large.job.data = Some(half);
    let answer = Ok(Reply::Pulled(vec![large.clone(), large]));
    let req_id = ReqId::from_raw(b"\xa17");
    let mut out = Vec::new();
    let shape = Shape::PullMany { owned: false };
    assert!(!reply::answer(&mut out, &req_id, &shape, &answer, &Around));
    let text = "Reply too large: exceeds maximum 67108864";
    assert_eq!(
        json_of(&out),
        json!({"ok": false, "error": text, "reqId": "7"})
    );

    let mut endless = vec![0xdb, 4, 0, 0, 0];
    endless.resize(5 + 0x0400_0000, b'x');
    out.clear();
    reply::done(&mut out, &ReqId::from_raw(&endless));
    assert_eq!(json_of(&out), json!({"ok": false, "error": text}));
}

#[test]
fn a_listing_that_no_frame_holds_is_not_built_to_its_end() {
    const ITEM: usize = 10_000_000;
    let mut large = delivery(false);
    large.job.data = Some(Payload::new(&[0xc0; ITEM]));
    let detail = detail(large.job.clone());
    let listings = [
        (
            Shape::PullMany { owned: true },
            Reply::Pulled(vec![large; 60]),
        ),
        (Shape::GetJobs { only: None }, Reply::Jobs(vec![detail; 60])),
    ];
    for (shape, reply) in listings {
        let mut out = Vec::new();
        let fits = reply::answer(&mut out, &ReqId::NONE, &shape, &Ok(reply), &Around);
        // The room shows what was built: six of sixty, and what a doubling adds.
        assert!(!fits && out.capacity() < 20 * ITEM, "{}", out.capacity());
        assert_eq!(json_of(&out)["ok"], json!(false));
    }
}
