//! What results promise: a refusal is an error, a wait is no completion, narrow stays narrow, large answers are cut.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stdio::Agent;
use crate::tcp::client::Conn;

/// Bytes above which the answer of a listing tool is cut.
const GUARD: usize = 100 * 1024;

fn add(agent: &mut Agent, queue: &str, id: &str) {
    agent.ok(
        "bunqueue_add_job",
        &json!({ "queue": queue, "name": "n", "data": {}, "jobId": id }),
    );
}

#[test]
fn hard_r1_what_the_queue_refuses_is_an_error_with_its_reason() {
    let mut agent = Agent::start();
    add(&mut agent, "q", "locked");
    agent.ok("bunqueue_pull_job", &json!({ "queue": "q", "owner": "me" }));
    let missing = "Job not found or not in processing state: nope";
    let required = "Lock token required for job locked";
    let invalid = "Invalid or expired lock token for job locked";
    let name = "Queue name contains invalid characters";
    let long = "x".repeat(257);
    let data = json!({ "text": "x".repeat(10 * 1024 * 1024) });
    for (tool, arguments, reason) in [
        (
            "add_job",
            json!({ "queue": "a b", "name": "n", "data": {} }),
            name,
        ),
        (
            "add_job",
            json!({ "queue": long, "name": "n", "data": {} }),
            "Queue name too long (max 256 characters)",
        ),
        (
            "add_job",
            json!({ "queue": "q", "name": "n", "data": data }),
            "Job data too large (max 10MB)",
        ),
        (
            "add_jobs_bulk",
            json!({ "queue": "a b", "jobs": [{ "name": "n", "data": {} }] }),
            name,
        ),
        (
            "update_job_data",
            json!({ "jobId": "locked", "data": data }),
            "Job data too large (max 10MB)",
        ),
        ("ack_job", json!({ "jobId": "nope" }), missing),
        ("ack_job", json!({ "jobId": "locked" }), required),
        (
            "ack_job",
            json!({ "jobId": "locked", "token": "wrong" }),
            invalid,
        ),
        ("ack_job_batch", json!({ "jobIds": ["nope"] }), missing),
        ("ack_job_batch", json!({ "jobIds": ["locked"] }), required),
        (
            "ack_job_batch",
            json!({ "jobIds": ["locked"], "tokens": ["wrong"] }),
            invalid,
        ),
        (
            "ack_job_batch",
            json!({ "jobIds": ["a", "b"], "tokens": ["t"] }),
            "tokens must have exactly one entry per jobId",
        ),
        (
            "job_heartbeat_batch",
            json!({ "jobIds": ["a", "b"], "tokens": ["t"] }),
            "tokens must have exactly one entry per jobId",
        ),
        ("fail_job", json!({ "jobId": "nope" }), missing),
        ("fail_job", json!({ "jobId": "locked" }), required),
        (
            "fail_job",
            json!({ "jobId": "locked", "token": "wrong" }),
            invalid,
        ),
        ("discard_job", json!({ "jobId": "locked" }), required),
        (
            "move_to_delayed",
            json!({ "jobId": "locked", "delay": 5 }),
            required,
        ),
        (
            "change_delay",
            json!({ "jobId": "locked", "delay": 5 }),
            required,
        ),
        ("pull_job", json!({ "queue": "a b" }), name),
        (
            "pull_job",
            json!({ "queue": "q", "lockTtl": 5000 }),
            "lockTtl requires owner",
        ),
        (
            "pull_job_batch",
            json!({ "queue": "a b", "count": 1 }),
            name,
        ),
        (
            "pull_job_batch",
            json!({ "queue": "q", "count": 1, "lockTtl": 5000 }),
            "lockTtl requires owner",
        ),
        ("pause_queue", json!({ "queue": "a b" }), name),
        ("resume_queue", json!({ "queue": "a b" }), name),
        ("drain_queue", json!({ "queue": "a b" }), name),
        ("clean_queue", json!({ "queue": "a b", "graceMs": 0 }), name),
        ("obliterate_queue", json!({ "queue": "a b" }), name),
        ("retry_dlq", json!({ "queue": "a b" }), name),
        ("purge_dlq", json!({ "queue": "a b" }), name),
        ("retry_completed", json!({ "queue": "a b" }), name),
        (
            "add_cron",
            json!({ "name": "c", "queue": "a b", "data": {}, "repeatEvery": 5 }),
            name,
        ),
        (
            "add_cron",
            json!({ "name": "c", "queue": "q", "data": {} }),
            "Cron job must have either schedule or repeatEvery",
        ),
        (
            "set_rate_limit",
            json!({ "queue": "a b", "limit": 1 }),
            name,
        ),
        ("clear_rate_limit", json!({ "queue": "a b" }), name),
        (
            "set_concurrency",
            json!({ "queue": "a b", "limit": 1 }),
            name,
        ),
        ("clear_concurrency", json!({ "queue": "a b" }), name),
        (
            "add_webhook",
            json!({ "url": "http://10.0.0.1/", "events": [] }),
            "Webhook URL cannot point to private IP",
        ),
    ] {
        let error = agent.refused(&format!("bunqueue_{tool}"), &arguments);
        assert_eq!(error["error"], reason, "{tool}");
        assert!(error["code"].is_string(), "{tool}: {error}");
        assert_eq!(error.get("success"), None, "{tool}");
    }
    let state = agent.ok("bunqueue_get_job_state", &json!({ "jobId": "locked" }));
    assert_eq!(state["state"], "active");
}

#[test]
fn hard_r1_a_tool_that_answers_success_says_why_it_had_none() {
    let mut agent = Agent::start();
    add(&mut agent, "q", "done");
    agent.ok("bunqueue_pull_job", &json!({ "queue": "q" }));
    agent.ok("bunqueue_ack_job", &json!({ "jobId": "done" }));
    add(&mut agent, "q", "locked");
    agent.ok("bunqueue_pull_job", &json!({ "queue": "q", "owner": "me" }));
    add(&mut agent, "q", "waiting");
    for (tool, arguments, reason) in [
        (
            "update_progress",
            json!({ "jobId": "nope", "progress": 5 }),
            "not_found",
        ),
        (
            "update_progress",
            json!({ "jobId": "waiting", "progress": 5 }),
            "not_active",
        ),
        (
            "add_job_log",
            json!({ "jobId": "nope", "message": "m" }),
            "not_found",
        ),
        ("cancel_job", json!({ "jobId": "nope" }), "not_found"),
        ("cancel_job", json!({ "jobId": "done" }), "wrong_state"),
        ("cancel_job", json!({ "jobId": "locked" }), "wrong_state"),
        ("discard_job", json!({ "jobId": "nope" }), "not_found"),
        ("promote_job", json!({ "jobId": "nope" }), "not_found"),
        ("promote_job", json!({ "jobId": "waiting" }), "not_delayed"),
        (
            "update_job_data",
            json!({ "jobId": "nope", "data": {} }),
            "not_found",
        ),
        (
            "update_job_data",
            json!({ "jobId": "done", "data": {} }),
            "wrong_state",
        ),
        (
            "change_job_priority",
            json!({ "jobId": "nope", "priority": 1 }),
            "not_found",
        ),
        (
            "change_job_priority",
            json!({ "jobId": "done", "priority": 1 }),
            "wrong_state",
        ),
        (
            "move_to_delayed",
            json!({ "jobId": "nope", "delay": 5 }),
            "not_found",
        ),
        (
            "move_to_delayed",
            json!({ "jobId": "done", "delay": 5 }),
            "wrong_state",
        ),
        (
            "change_delay",
            json!({ "jobId": "nope", "delay": 5 }),
            "not_found",
        ),
        (
            "change_delay",
            json!({ "jobId": "done", "delay": 5 }),
            "wrong_state",
        ),
        ("job_heartbeat", json!({ "jobId": "nope" }), "not_found"),
        ("job_heartbeat", json!({ "jobId": "waiting" }), "not_active"),
        (
            "job_heartbeat",
            json!({ "jobId": "locked", "token": "wrong" }),
            "invalid_token",
        ),
        (
            "extend_lock",
            json!({ "jobId": "nope", "token": "t", "duration": 5000 }),
            "not_found",
        ),
        (
            "extend_lock",
            json!({ "jobId": "locked", "token": "wrong", "duration": 5000 }),
            "invalid_token",
        ),
        ("delete_cron", json!({ "name": "nope" }), "not_found"),
        (
            "unregister_worker",
            json!({ "workerId": "nope" }),
            "not_found",
        ),
        (
            "worker_heartbeat",
            json!({ "workerId": "nope" }),
            "not_found",
        ),
        ("remove_webhook", json!({ "id": "nope" }), "not_found"),
        (
            "set_webhook_enabled",
            json!({ "id": "nope", "enabled": true }),
            "not_found",
        ),
    ] {
        let result = agent.ok(&format!("bunqueue_{tool}"), &arguments);
        assert_eq!(result["success"], false, "{tool} {arguments}: {result}");
        assert_eq!(result["reason"], reason, "{tool} {arguments}: {result}");
    }
}

#[test]
fn hard_r2_a_wait_that_ends_is_no_completion() {
    let mut agent = Agent::start();
    add(&mut agent, "q", "j");
    agent.ok("bunqueue_pull_job", &json!({ "queue": "q" }));
    let started = Instant::now();
    let waited = agent.ok(
        "bunqueue_wait_for_job",
        &json!({ "jobId": "j", "timeoutMs": 150 }),
    );
    assert!(started.elapsed() >= Duration::from_millis(150));
    assert_eq!(
        (&waited["completed"], &waited["state"]),
        (&json!(false), &json!("active"))
    );
    assert!(
        waited["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("bunqueue_")),
        "{waited}"
    );
    let observed = agent.ok(
        "bunqueue_observe_job",
        &json!({ "jobId": "j", "timeoutMs": 150 }),
    );
    assert_eq!(
        (&observed["outcome"], &observed["timedOut"]),
        (&json!("pending"), &json!(true))
    );
    assert_eq!(observed["terminal"], false);
    for tool in [
        "bunqueue_wait_for_job",
        "bunqueue_observe_job",
        "bunqueue_pull_job",
    ] {
        let error = agent.refused(
            tool,
            &json!({ "jobId": "j", "queue": "q", "timeoutMs": 30_001 }),
        );
        assert_eq!(error["code"], "invalid_arguments", "{tool}");
    }
    let started = Instant::now();
    let unknown = json!({ "jobId": "nope", "timeoutMs": 30_000 });
    assert_eq!(
        agent.refused("bunqueue_wait_for_job", &unknown)["error"],
        "Job not found"
    );
    assert_eq!(
        agent.ok("bunqueue_observe_job", &unknown)["outcome"],
        "unknown"
    );
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_wait_ends_with_its_job() {
    let mut agent = Agent::start();
    for (tool, done) in [
        ("bunqueue_wait_for_job", "completed"),
        ("bunqueue_observe_job", "terminal"),
    ] {
        add(&mut agent, "q", "j");
        agent.ok("bunqueue_pull_job", &json!({ "queue": "q" }));
        let wait = agent.begin_call(tool, &json!({ "jobId": "j", "timeoutMs": 30_000 }));
        agent.result("ping", &json!({}));
        let started = Instant::now();
        agent.ok("bunqueue_ack_job", &json!({ "jobId": "j", "result": 5 }));
        let result = agent.finish_call(&wait).value;
        assert_eq!(
            (&result[done], &result["state"]),
            (&json!(true), &json!("completed"))
        );
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
    }
}

/// Three completed, three failed, one waiting, one delayed and one active job.
fn mixed(agent: &mut Agent) {
    for n in 0..6 {
        let id = format!("j{n}");
        add(agent, "q", &id);
        agent.ok("bunqueue_pull_job", &json!({ "queue": "q" }));
        if n % 2 == 0 {
            agent.ok("bunqueue_ack_job", &json!({ "jobId": id }));
        } else {
            agent.ok(
                "bunqueue_fail_job",
                &json!({ "jobId": id, "unrecoverable": true }),
            );
        }
    }
    add(agent, "q", "active");
    agent.ok("bunqueue_pull_job", &json!({ "queue": "q" }));
    add(agent, "q", "waiting");
    let delayed =
        json!({ "queue": "q", "name": "n", "data": {}, "jobId": "delayed", "delay": 60_000 });
    agent.ok("bunqueue_add_job", &delayed);
}

#[test]
fn hard_r3_cleaning_without_a_state_takes_finished_jobs_only() {
    let queue = json!({ "queue": "q" });
    for (limit, removed, left) in [
        (Some(1), vec!["j0"], (2, 3)),
        (Some(4), vec!["j0", "j2", "j4", "j1"], (0, 2)),
        (None, vec!["j0", "j2", "j4", "j1", "j3", "j5"], (0, 0)),
    ] {
        let mut agent = Agent::start();
        mixed(&mut agent);
        let mut clean = json!({ "queue": "q", "graceMs": 0 });
        if let Some(limit) = limit {
            clean["limit"] = json!(limit);
        }
        let result = agent.ok("bunqueue_clean_queue", &clean);
        assert_eq!(result["removed"], removed.len());
        assert_eq!(
            result["ids"],
            json!(removed),
            "completed first, oldest first"
        );
        let counts = agent.ok("bunqueue_get_job_counts", &queue);
        assert_eq!(
            (&counts["completed"], &counts["failed"]),
            (&json!(left.0), &json!(left.1))
        );
        for state in ["waiting", "delayed", "active"] {
            assert_eq!(counts[state], 1, "{state} jobs are never touched");
        }
    }
}

#[test]
fn hard_r3_an_empty_target_is_never_widened() {
    let mut agent = Agent::start();
    mixed(&mut agent);
    let queue = json!({ "queue": "q" });
    let before = agent.ok("bunqueue_get_job_counts", &queue);
    for empty in ["", " "] {
        for (tool, arguments) in [
            (
                "bunqueue_clean_queue",
                json!({ "queue": empty, "graceMs": 0 }),
            ),
            (
                "bunqueue_clean_queue",
                json!({ "queue": "q", "graceMs": 0, "state": empty }),
            ),
            (
                "bunqueue_clean_queue",
                json!({ "queue": "q", "graceMs": 0, "limit": empty }),
            ),
            ("bunqueue_drain_queue", json!({ "queue": empty })),
            ("bunqueue_obliterate_queue", json!({ "queue": empty })),
        ] {
            agent.refused(tool, &arguments);
        }
    }
    for tool in [
        "bunqueue_cancel_job",
        "bunqueue_discard_job",
        "bunqueue_clear_job_logs",
    ] {
        agent.refused(tool, &json!({ "jobId": "" }));
    }
    for tool in ["bunqueue_retry_dlq", "bunqueue_retry_completed"] {
        agent.refused(tool, &json!({ "queue": "q", "jobId": "" }));
        let blank = agent.ok(tool, &json!({ "queue": "q", "jobId": " " }));
        assert_eq!(blank["retried"], 0, "{tool}");
    }
    assert_eq!(agent.ok("bunqueue_get_job_counts", &queue), before);
}

#[test]
fn hard_r5_large_answers_are_cut_and_say_how_to_go_on() {
    const JOBS: usize = 1000;
    const PER_FRAME: usize = 100;
    let (mut agent, tcp) = Agent::with_worker_door();
    let mut conn = Conn::open(tcp);
    // 50 KB of characters with two and four bytes: a cut inside one would be seen.
    let text = "é𝄞".repeat(50 * 1024 / 6);
    let jobs: Vec<Value> = (0..PER_FRAME)
        .map(|_| json!({ "name": "n", "data": { "t": text } }))
        .collect();
    for _ in 0..JOBS / PER_FRAME {
        conn.ok(&json!({ "cmd": "PUSHB", "queue": "q", "jobs": jobs }));
    }
    for arguments in [
        json!({ "queue": "q" }),
        json!({ "queue": "q", "end": 1000 }),
    ] {
        let listed = agent.call("bunqueue_get_jobs", &arguments);
        assert!(listed.text.len() <= GUARD, "{} bytes", listed.text.len());
        assert_eq!(listed.value["truncated"], true);
        let shown = listed.value["jobs"].as_array().unwrap();
        assert!(!shown.is_empty());
        assert_eq!(listed.value["count"], shown.len());
        assert!(
            shown.iter().all(|job| job["data"]["t"] == json!(text)),
            "cut at an item"
        );
    }
    let paged = agent.call("bunqueue_list_jobs_page", &json!({ "queue": "q" }));
    assert!(
        paged.text.len() <= 32 * 1024,
        "{} bytes by default",
        paged.text.len()
    );
    for max in [0, 1, 2, 3, 4, 1000, 65_536] {
        let all =
            json!({ "queue": "q", "limit": 100, "fields": ["id", "data"], "maxDataBytes": max });
        let paged = agent.call("bunqueue_list_jobs_page", &all);
        assert!(
            paged.text.len() <= GUARD,
            "{} bytes with {max}",
            paged.text.len()
        );
        let shown = paged.value["jobs"].as_array().unwrap();
        assert!(!shown.is_empty() && paged.value["hasMore"] == true);
        for job in shown {
            let whole = json!({ "t": text }).to_string();
            match job.get("data") {
                Some(data) => assert_eq!(data, &json!({ "t": text })),
                None => {
                    let preview = job["dataPreview"].as_str().unwrap();
                    assert!(whole.starts_with(preview) && preview.len() <= max);
                    assert!(max - preview.len() < 4, "cut at a character, not earlier");
                    assert_eq!(job["dataTruncated"], true);
                    assert_eq!(job["dataBytes"], whole.len());
                }
            }
        }
    }
}

#[test]
fn a_list_is_paged_to_its_end_by_cursor_and_by_offset() {
    const JOBS: usize = 250;
    let mut agent = Agent::start();
    let jobs: Vec<Value> = (0..JOBS)
        .map(|n| json!({ "name": "n", "data": {}, "jobId": format!("j{n:03}") }))
        .collect();
    let added = agent.ok(
        "bunqueue_add_jobs_bulk",
        &json!({ "queue": "q", "jobs": jobs }),
    );
    for by in ["cursor", "offset"] {
        let next = match by {
            "cursor" => "nextCursor",
            _ => "nextOffset",
        };
        let mut seen = Vec::new();
        let mut page = json!({ "queue": "q", "limit": 100 });
        loop {
            let result = agent.ok("bunqueue_list_jobs_page", &page);
            seen.extend(
                result["jobs"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|job| job["id"].clone()),
            );
            if result["hasMore"] == false {
                break;
            }
            page[by] = result[next].clone();
            assert!(!page[by].is_null(), "{result}");
        }
        assert_eq!(json!(seen), added["jobIds"], "by {by}");
    }
    let both = json!({ "queue": "q", "offset": 5, "cursor": "x" });
    assert_eq!(
        agent.refused("bunqueue_list_jobs_page", &both)["code"],
        "invalid_arguments"
    );
}

#[test]
fn two_hundred_log_lines_leave_the_newest_hundred() {
    let mut agent = Agent::start();
    add(&mut agent, "q", "j");
    for n in 0..200 {
        agent.ok(
            "bunqueue_add_job_log",
            &json!({ "jobId": "j", "message": n.to_string() }),
        );
    }
    let logs = agent.ok("bunqueue_get_job_logs", &json!({ "jobId": "j" }));
    assert_eq!(logs["count"], 100);
    assert_eq!(logs["logs"][0]["message"], "100");
    assert_eq!(logs["logs"][99]["message"], "199");
}
