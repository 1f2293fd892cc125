//! Figures over the worker door.

use serde_json::{Value, json};

use super::client::Conn;
use crate::mcp::http::exchange;
use crate::process::Serve;

/// The keys of a map, sorted.
fn keys(map: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = map
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

#[test]
fn dashboards_of_an_empty_broker_have_all_their_parts() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let overview = conn.ok(&json!({ "cmd": "DashboardOverview" }))["data"].take();
    assert_eq!(
        keys(&overview),
        [
            "collections",
            "crons",
            "latency",
            "memory",
            "stats",
            "storage",
            "throughput",
            "timestamp",
            "workers"
        ]
    );
    assert_eq!(overview["stats"]["totalPushed"], 0);
    assert_eq!(
        overview["workers"],
        json!({ "total": 0, "active": 0, "list": [] })
    );
    assert_eq!(overview["crons"], json!([]));
    assert_eq!(
        overview["latency"]["percentiles"]["ack"],
        json!({ "p50": 0, "p95": 0, "p99": 0 })
    );
    for part in ["heapUsed", "heapTotal", "rss"] {
        let megabytes = overview["memory"][part].as_f64().unwrap();
        assert!(
            megabytes.fract() == 0.0 && megabytes < 1_000.0,
            "{part}: {megabytes}"
        );
    }
    let queues = conn.ok(&json!({ "cmd": "DashboardQueues" }))["data"].take();
    assert_eq!(queues["queues"], json!([]));
    assert!(queues["timestamp"].as_f64() > Some(1e12));

    let ask = json!({ "cmd": "DashboardQueue", "queue": "no such queue", "includeJobs": true });
    let mut page = conn.ok(&ask)["data"].take();
    assert!(page["timestamp"].take().as_f64() > Some(1e12));
    assert_eq!(
        page,
        json!({
            "name": "no such queue", "paused": false, "priorityCounts": {}, "dlqPreview": [],
            "counts": {
                "waiting": 0, "prioritized": 0, "delayed": 0, "active": 0, "completed": 0,
                "failed": 0, "waiting-children": 0, "paused": 0, "totalCompleted": 0,
                "totalFailed": 0,
            },
            "jobs": { "waiting": [], "active": [], "delayed": [], "paused": [] },
            "timestamp": null,
        })
    );
    // Asking makes no queue.
    assert_eq!(
        conn.ok(&json!({ "cmd": "ListQueues" }))["queues"],
        json!([])
    );
}

#[test]
fn dashboards_show_what_there_is() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let worker = json!({ "cmd": "RegisterWorker", "name": "w", "queues": ["q"] });
    conn.ok(&worker);
    conn.ok(&json!({ "cmd": "Cron", "name": "c", "queue": "q", "schedule": "@yearly" }));
    conn.push(
        "q",
        &json!({ "jobId": "dead", "maxAttempts": 1, "data": { "d": 1 } }),
    );
    let token = conn.ok(&json!({ "cmd": "PULL", "queue": "q", "owner": "w" }))["token"].take();
    conn.ok(&json!({ "cmd": "FAIL", "id": "dead", "token": token, "error": "e" }));
    for id in ["a", "b", "c"] {
        conn.push("q", &json!({ "jobId": id }));
    }
    conn.push("q", &json!({ "jobId": "first", "priority": 9 }));
    conn.push("q", &json!({ "jobId": "later", "delay": 60_000 }));

    let overview = conn.ok(&json!({ "cmd": "DashboardOverview" }))["data"].take();
    let stats = &overview["stats"];
    assert_eq!(
        (&stats["waiting"], &stats["delayed"], &stats["dlq"]),
        (&json!(3), &json!(1), &json!(1))
    );
    assert_eq!(
        (&stats["totalPushed"], &stats["totalFailed"]),
        (&json!(6), &json!(1))
    );
    assert_eq!(overview["workers"]["list"][0]["queues"], json!(["q"]));
    assert_eq!(overview["crons"][0]["schedule"], "@yearly");
    assert_eq!(overview["collections"]["jobIndex"], 6);

    let queues = conn.ok(&json!({ "cmd": "DashboardQueues" }))["data"]["queues"].take();
    assert_eq!(
        queues,
        json!([{ "name": "q", "waiting": 3, "prioritized": 1, "delayed": 1, "active": 0, "dlq": 1, "paused": false }])
    );

    let ask = |extra: Value| {
        let mut ask = json!({ "cmd": "DashboardQueue", "queue": "q" });
        ask.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        ask
    };
    let page = conn.ok(&ask(json!({})))["data"].take();
    assert_eq!(page["priorityCounts"], json!({ "9": 1, "0": 4 }));
    assert_eq!(page["counts"]["totalFailed"], 1);
    let letter = &page["dlqPreview"][0];
    assert_eq!(
        (&letter["id"], &letter["data"]),
        (&json!("dead"), &json!({ "d": 1 }))
    );
    assert_eq!(letter["attempts"], 1);
    assert!(page.get("jobs").is_none());
    conn.ok(&json!({ "cmd": "Pause", "queue": "q" }));
    let page = conn.ok(&ask(json!({ "includeJobs": true, "jobsLimit": 2 })))["data"].take();
    assert_eq!(
        (&page["paused"], &page["counts"]["paused"]),
        (&json!(true), &json!(4))
    );
    assert_eq!(page["jobs"]["waiting"], json!([]));
    assert_eq!(page["jobs"]["paused"].as_array().map(Vec::len), Some(2));
    assert_eq!(page["jobs"]["delayed"][0]["id"], "later");
}

#[test]
fn the_exposition_is_the_page_of_the_other_door() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    conn.push("q", &json!({}));
    let told = conn.ok(&json!({ "cmd": "Prometheus" }))["data"]["metrics"].take();
    let page = exchange(serve.http, "GET", "/prometheus", &[], b"");
    let page = String::from_utf8(page.body).unwrap();
    // What moves between two readings may differ, and calls of agents are told at their own door and on the page.
    let still = |text: &str| -> Vec<String> {
        let moves = |line: &&str| {
            ["process_", "uptime", "duration", "mcp_tool"]
                .iter()
                .any(|part| line.contains(part))
        };
        text.lines()
            .filter(|line| !moves(line))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(still(told.as_str().unwrap()), still(&page));
    assert!(still(&page).contains(&"bunqueue_queue_jobs_waiting{queue=\"q\"} 1".to_owned()));
}

#[test]
fn a_trimmed_journal_and_compact_memory_lose_no_job() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    for _ in 0..10 {
        conn.push("q", &json!({}));
    }
    let trim = json!({ "cmd": "TrimEvents", "queue": "q", "maxLength": 3 });
    assert_eq!(conn.ok(&trim)["data"], json!({ "removed": 7 }));
    assert_eq!(
        conn.call(&json!({ "cmd": "CompactMemory" })),
        json!({ "ok": true })
    );
    assert_eq!(conn.counts("q")["waiting"], 10);
}
