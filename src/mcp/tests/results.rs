//! Answers: dry runs, views, adds, results.

use std::sync::Arc;

use serde_json::{Value, json};

use super::validator::assert_fits;
use super::{dispatcher, registry, success};
use crate::broker::{Broker, LocalBroker, ManualClock};
use crate::engine::Config;
use crate::mcp::dispatch::Dispatcher;
use crate::mcp::example;

pub(super) fn empty() -> Arc<dyn Broker> {
    let clock = Box::new(ManualClock::new(example::NOW));
    Arc::new(LocalBroker::simulated(Config::default(), clock, [1; 32]))
}

/// A successful answer that fits the schema of its tool.
pub(super) fn fitting(dispatcher: &Dispatcher, tool: &str, arguments: Value) -> Value {
    let answer = success(dispatcher, tool, arguments);
    let registry = dispatcher.registry();
    let listed = &registry.tool(tool).unwrap().listed;
    let schema = Value::Object((**listed.output_schema.as_ref().unwrap()).clone());
    assert_fits(&schema, &answer, tool);
    answer
}

fn counts(dispatcher: &Dispatcher, queue: &str) -> Value {
    fitting(
        dispatcher,
        "bunqueue_get_job_counts",
        json!({ "queue": queue }),
    )
}

#[test]
fn a_dry_run_tells_the_impact_and_changes_nothing() {
    let dispatcher = dispatcher(example::world());
    let before = counts(&dispatcher, "email");
    let cron = json!({ "name": "digest", "queue": "email", "data": {}, "schedule": "0 7 * * *" });
    success(&dispatcher, "bunqueue_add_cron", cron);
    let poll = json!({ "name": "poll", "queue": "email", "data": {}, "repeatEvery": 60_000 });
    success(&dispatcher, "bunqueue_add_cron", poll);
    let hook = json!({ "url": "https://example.com/hook?key=s3cret", "events": ["job.failed"] });
    let hook = success(&dispatcher, "bunqueue_add_webhook", hook)["id"].take();
    let cases: [(&str, Value, &[&str]); 17] = [
        (
            "bunqueue_obliterate_queue",
            json!({ "queue": "email" }),
            &[
                "email",
                "1 waiting",
                "0 prioritized",
                "2 delayed",
                "1 active",
                "1 completed",
                "1 failed",
                "esults and logs",
            ],
        ),
        (
            "bunqueue_drain_queue",
            json!({ "queue": "email" }),
            &[
                "email",
                "1 waiting",
                "0 prioritized",
                "2 delayed",
                "keep running",
            ],
        ),
        (
            "bunqueue_clean_queue",
            json!({ "queue": "email", "graceMs": 5 }),
            &["email", "completed and failed", "5", "graceMs"],
        ),
        (
            "bunqueue_clean_queue",
            json!({ "queue": "email", "graceMs": 5, "state": "failed", "limit": 7 }),
            &["email", "failed jobs", "at most 7"],
        ),
        (
            "bunqueue_cancel_job",
            json!({ "jobId": "welcome-1" }),
            &["welcome-1", "welcome,", "waiting", "email"],
        ),
        (
            "bunqueue_cancel_job",
            json!({ "jobId": "nope" }),
            &["nope", "not found"],
        ),
        (
            "bunqueue_clear_job_logs",
            json!({ "jobId": "bounce-1", "keepLogs": 3 }),
            &["bounce-1", "failed", "email", "3", "keepLogs"],
        ),
        (
            "bunqueue_clear_job_logs",
            json!({ "jobId": "nope" }),
            &["nope", "not found"],
        ),
        (
            "bunqueue_purge_dlq",
            json!({ "queue": "email" }),
            &["email", "1 dead letters", "inspected or retried"],
        ),
        (
            "bunqueue_retry_completed",
            json!({ "queue": "email" }),
            &["email", "1 completed", "side effects"],
        ),
        (
            "bunqueue_retry_completed",
            json!({ "queue": "email", "jobId": "invite-1" }),
            &["invite-1", "completed", "email", "side effects"],
        ),
        (
            "bunqueue_retry_completed",
            json!({ "queue": "email", "jobId": "nope" }),
            &["nope", "not found"],
        ),
        (
            "bunqueue_delete_cron",
            json!({ "name": "digest" }),
            &["digest", "0 7 * * *", "email"],
        ),
        (
            "bunqueue_delete_cron",
            json!({ "name": "poll" }),
            &["poll", "60000 ms", "email"],
        ),
        (
            "bunqueue_delete_cron",
            json!({ "name": "nope" }),
            &["nope", "not found"],
        ),
        (
            "bunqueue_remove_webhook",
            json!({ "id": hook }),
            &[hook.as_str().unwrap(), "https://example.com/hook is"],
        ),
        (
            "bunqueue_remove_webhook",
            json!({ "id": "nope" }),
            &["nope", "not found"],
        ),
    ];
    for (tool, arguments, words) in cases {
        for dry_run in [json!(true), json!("true")] {
            let mut arguments = arguments.clone();
            arguments["dryRun"] = dry_run;
            arguments["confirm"] = json!("whatever");
            arguments["userRequest"] = json!("whatever");
            let answer = fitting(&dispatcher, tool, arguments.clone());
            let policy = dispatcher.registry().tool(tool).unwrap().policy;
            let target = policy.confirm.unwrap();
            let keys: Vec<_> = answer
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            assert_eq!(keys, ["executed", "impact", target], "{tool}");
            assert_eq!(
                (&answer["executed"], &answer[target]),
                (&json!(false), &arguments[target]),
                "{tool}"
            );
            let impact = answer["impact"].as_str().unwrap();
            assert!(
                words.iter().all(|word| impact.contains(word)),
                "{tool}: {impact}"
            );
        }
    }
    assert_eq!(counts(&dispatcher, "email"), before);
    for (list, count) in [("crons", 2), ("webhooks", 1)] {
        let listed = fitting(&dispatcher, &format!("bunqueue_list_{list}"), json!({}));
        assert_eq!(listed["count"], count, "{list}");
    }
    let logs = fitting(
        &dispatcher,
        "bunqueue_get_job_logs",
        json!({ "jobId": "bounce-1" }),
    );
    assert_eq!(logs["count"], 1);
}

#[test]
fn guarded_tools_run_at_once_with_whatever_confirm_while_nothing_is_confirmed() {
    for confirm in [
        json!({}),
        json!({ "confirm": "x" }),
        json!({ "confirm": null, "userRequest": "u", "dryRun": false }),
    ] {
        let dispatcher = dispatcher(example::world());
        let mut arguments = confirm;
        arguments["queue"] = json!("email");
        let drained = fitting(&dispatcher, "bunqueue_drain_queue", arguments);
        assert_eq!(
            drained,
            json!({ "success": true, "queue": "email", "removed": 3 })
        );
    }
}

#[test]
fn impact_names_paused_jobs_only_when_there_are_some() {
    let dispatcher = dispatcher(example::world());
    success(
        &dispatcher,
        "bunqueue_pause_queue",
        json!({ "queue": "email" }),
    );
    for tool in ["bunqueue_obliterate_queue", "bunqueue_drain_queue"] {
        let answer = fitting(
            &dispatcher,
            tool,
            json!({ "queue": "email", "dryRun": true }),
        );
        assert!(
            answer["impact"].as_str().unwrap().contains("1 paused"),
            "{answer}"
        );
    }
    assert_eq!(counts(&dispatcher, "email")["paused"], 1);
    assert_eq!(counts(&dispatcher, "email")["waiting"], 0);
    let count = fitting(
        &dispatcher,
        "bunqueue_count_jobs",
        json!({ "queue": "email" }),
    );
    assert_eq!(count["count"], 6);
}

#[test]
fn a_job_view_shows_every_option_that_was_set_and_no_other() {
    let dispatcher = dispatcher(empty());
    let options = json!({
        "queue": "q", "name": "n", "data": { "a": 1 }, "jobId": "j", "priority": 5, "attempts": 7, "timeout": 60000,
        "backoff": { "type": "fixed", "delay": 250, "maxDelay": 1000 }, "stallTimeout": 45000, "lifo": true,
        "removeOnComplete": true, "removeOnFail": true, "tags": ["eu", "vip"], "deduplication": { "id": "k" },
    });
    success(&dispatcher, "bunqueue_add_job", options);
    let job = fitting(&dispatcher, "bunqueue_get_job", json!({ "jobId": "j" }));
    let expected = json!({
        "id": "j", "name": "n", "queue": "q", "data": { "a": 1 }, "priority": 5, "state": "prioritized", "progress": 0,
        "attempts": 0, "maxAttempts": 7, "createdAt": "2026-01-05T09:00:00.000Z",
        "backoff": { "type": "fixed", "delay": 250, "maxDelay": 1000 }, "timeout": 60000, "stallTimeout": 45000,
        "lifo": true, "removeOnComplete": true, "removeOnFail": true, "tags": ["eu", "vip"], "deduplicationId": "k",
    });
    assert_eq!(job, expected);
    success(
        &dispatcher,
        "bunqueue_add_job",
        json!({ "queue": "q", "name": "n", "data": {}, "jobId": "k", "backoff": 500 }),
    );
    let job = fitting(&dispatcher, "bunqueue_get_job", json!({ "jobId": "k" }));
    let expected = json!({
        "id": "k", "name": "n", "queue": "q", "data": {}, "priority": 0, "state": "waiting", "progress": 0,
        "attempts": 0, "maxAttempts": 3, "createdAt": "2026-01-05T09:00:00.000Z", "backoff": 500,
    });
    assert_eq!(job, expected);
}

#[test]
fn an_add_tells_what_it_did() {
    let dispatcher = dispatcher(empty());
    let keyed = |key: &str, replace: bool| {
        let deduplication = json!({ "id": key, "replace": replace });
        fitting(
            &dispatcher,
            "bunqueue_add_job",
            json!({ "queue": "q", "name": "n", "data": {}, "deduplication": deduplication }),
        )
    };
    let first = keyed("k", false);
    assert_eq!(first["outcome"], "new");
    assert_eq!(
        keyed("k", false),
        json!({ "jobId": first["jobId"], "outcome": "existing" })
    );
    let newer = keyed("k", true);
    assert_eq!(
        (&newer["outcome"], &newer["replacedJobId"]),
        (&json!("replaced"), &first["jobId"])
    );
    let item = |id: &str| json!({ "name": "n", "data": {}, "jobId": id });
    let mut replacing = item("c");
    replacing["deduplication"] = json!({ "id": "k", "replace": true });
    let bulk = json!({ "queue": "q", "jobs": [item("a"), item("a"), item("b"), replacing] });
    let added = fitting(&dispatcher, "bunqueue_add_jobs_bulk", bulk);
    let expected =
        json!({ "jobIds": ["a", "a", "b", "c"], "created": 3, "existing": [1], "replaced": [3] });
    assert_eq!(added, expected);
}

#[test]
fn hard_r3_a_limit_of_clean_counts_over_both_states() {
    let dispatcher = dispatcher(example::world());
    let cleaned = fitting(
        &dispatcher,
        "bunqueue_clean_queue",
        json!({ "queue": "email", "graceMs": 0, "limit": 1 }),
    );
    assert_eq!(cleaned["ids"], json!(["invite-1"]));
    let cleaned = fitting(
        &dispatcher,
        "bunqueue_clean_queue",
        json!({ "queue": "email", "graceMs": 0, "limit": 5 }),
    );
    assert_eq!(cleaned["ids"], json!(["bounce-1"]));
    assert_eq!(counts(&dispatcher, "email")["waiting"], 1);
}

#[test]
fn a_long_result_is_previewed() {
    let dispatcher = dispatcher(example::world());
    success(
        &dispatcher,
        "bunqueue_pull_job",
        json!({ "queue": "email" }),
    );
    let ack = json!({ "jobId": "welcome-1", "result": { "text": "é".repeat(3_000) } });
    success(&dispatcher, "bunqueue_ack_job", ack);
    let seen = fitting(
        &dispatcher,
        "bunqueue_observe_job",
        json!({ "jobId": "welcome-1" }),
    );
    assert_eq!(
        (&seen["outcome"], &seen["resultTruncated"]),
        (&json!("completed"), &json!(true))
    );
    let preview = seen["resultPreview"].as_str().unwrap();
    assert!(
        preview.starts_with("{\"text\":\"éé") && (4_095..=4_096).contains(&preview.len()),
        "{}",
        preview.len()
    );
    assert_eq!(seen.get("result"), None);
    let whole = json!({ "jobId": "welcome-1", "maxResultBytes": 65536 });
    assert_eq!(
        fitting(&dispatcher, "bunqueue_observe_job", whole)["result"]["text"]
            .as_str()
            .unwrap()
            .len(),
        6_000
    );
}

#[test]
fn hard_r7_tools_that_say_they_only_read_change_nothing() {
    let dispatcher = dispatcher(example::world());
    let snapshot = || {
        let email = success(
            &dispatcher,
            "bunqueue_get_jobs",
            json!({ "queue": "email" }),
        );
        let reports = success(
            &dispatcher,
            "bunqueue_get_jobs",
            json!({ "queue": "reports" }),
        );
        let letters = success(&dispatcher, "bunqueue_get_dlq", json!({ "queue": "email" }));
        let limits = success(
            &dispatcher,
            "bunqueue_get_queue_limits",
            json!({ "queue": "email" }),
        );
        let lists = ["queues", "crons", "workers", "webhooks"].map(|list| {
            success(&dispatcher, &format!("bunqueue_list_{list}"), json!({})).to_string()
        });
        format!(
            "{email}{reports}{letters}{limits}{lists:?}{}",
            counts(&dispatcher, "email")
        )
    };
    // A schedule that an example reads.
    let cron = json!({ "name": "poll-inbox", "queue": "email", "data": {}, "repeatEvery": 60_000 });
    success(&dispatcher, "bunqueue_add_cron", cron);
    let before = snapshot();
    let registry = registry();
    let mut reads = 0;
    for tool in registry.tools().filter(|tool| tool.policy.read_only) {
        for example in tool.examples.iter().filter(|example| {
            example
                .answer
                .as_ref()
                .is_none_or(|answer| !answer.is_error)
        }) {
            let is_world_job = !example.call.to_string().contains('<');
            if is_world_job {
                fitting(&dispatcher, tool.name, example.call.clone());
                reads += 1;
            }
        }
    }
    assert!(reads >= 16, "{reads}");
    assert_eq!(snapshot(), before);
}
