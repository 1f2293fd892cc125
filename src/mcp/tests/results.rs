//! Answers: dry runs, listings at their limits, views.

use std::sync::Arc;

use serde_json::{Value, json};

use super::validator::assert_fits;
use super::{dispatcher, failure, registry, success};
use crate::broker::{Broker, LocalBroker, ManualClock};
use crate::engine::Config;
use crate::mcp::dispatch::Dispatcher;
use crate::mcp::example;
use crate::mcp::page::ANSWER_MAX;

fn empty() -> Arc<dyn Broker> {
    let clock = Box::new(ManualClock::new(example::NOW));
    Arc::new(LocalBroker::simulated(Config::default(), clock, [1; 32]))
}

fn fitting(dispatcher: &Dispatcher, tool: &str, arguments: Value) -> Value {
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
    let cases: [(&str, Value, &[&str]); 8] = [
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
    ];
    for (tool, arguments, words) in cases {
        for dry_run in [json!(true), json!("true")] {
            let mut arguments = arguments.clone();
            arguments["dryRun"] = dry_run;
            arguments["confirm"] = json!("whatever");
            arguments["userRequest"] = json!("whatever");
            let answer = fitting(&dispatcher, tool, arguments.clone());
            let target = if arguments.get("queue").is_some() {
                "queue"
            } else {
                "jobId"
            };
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

/// A queue `q` with jobs named `1`, `2`, … of so many bytes.
fn filled(jobs: usize, bytes: usize) -> Dispatcher {
    let dispatcher = dispatcher(empty());
    let items: Vec<_> = (0..jobs)
        .map(|index| json!({ "name": "n", "data": { "x": "é".repeat(bytes / 2) }, "jobId": format!("{index:05}") }))
        .collect();
    success(
        &dispatcher,
        "bunqueue_add_jobs_bulk",
        json!({ "queue": "q", "jobs": items }),
    );
    dispatcher
}

fn ids(answer: &Value) -> Vec<String> {
    answer["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn hard_r5_listings_end_below_their_size_and_say_how_to_go_on() {
    let dispatcher = filled(1_000, 50_000);
    let mut seen = Vec::new();
    while seen.len() < 10 {
        let page = fitting(
            &dispatcher,
            "bunqueue_get_jobs",
            json!({ "queue": "q", "start": seen.len(), "end": 1000 }),
        );
        assert!(page.to_string().len() <= ANSWER_MAX);
        assert_eq!(page["truncated"], true);
        let next = format!("start {}", seen.len() + ids(&page).len());
        assert!(
            page["hint"].as_str().unwrap().contains(&next),
            "{}",
            page["hint"]
        );
        seen.extend(ids(&page));
    }
    assert!(seen.is_sorted(), "{seen:?}");
    let widest =
        json!({ "queue": "q", "limit": 100, "maxDataBytes": 65536, "fields": ["id", "data"] });
    let page = fitting(&dispatcher, "bunqueue_list_jobs_page", widest);
    assert!(page.to_string().len() <= ANSWER_MAX);
    assert_eq!(
        (&page["truncated"], &page["hasMore"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(page["nextOffset"], page["count"]);
    let defaults = fitting(
        &dispatcher,
        "bunqueue_list_jobs_page",
        json!({ "queue": "q", "fields": ["id", "data"] }),
    );
    assert!(defaults.to_string().len() <= 32_000);
    assert_eq!(
        defaults["truncation"],
        json!({ "jobs": 20, "maxDataBytes": 1024 })
    );
    let job = &defaults["jobs"][0];
    assert_eq!(
        (&job["dataTruncated"], job["dataBytes"].as_u64()),
        (&json!(true), Some(50_008))
    );
    assert_eq!(job["dataPreview"].as_str().unwrap().len(), 1_024);
    assert_eq!(job.get("data"), None);
}

#[test]
fn one_job_that_is_larger_than_an_answer_is_cut_in_a_listing_and_whole_by_itself() {
    let dispatcher = filled(2, 1_000_000);
    let list = fitting(&dispatcher, "bunqueue_get_jobs", json!({ "queue": "q" }));
    assert!(list.to_string().len() <= ANSWER_MAX);
    assert_eq!(list["jobs"][0]["dataTruncated"], true);
    let job = fitting(&dispatcher, "bunqueue_get_job", json!({ "jobId": "00000" }));
    assert_eq!(job["data"]["x"].as_str().unwrap().len(), 1_000_000);
    let pulled = fitting(
        &dispatcher,
        "bunqueue_pull_job_batch",
        json!({ "queue": "q", "count": 2 }),
    );
    assert!(pulled.to_string().len() > 2_000_000);
}

#[test]
fn a_cursor_meets_every_untouched_job_once_while_others_come_and_go() {
    let dispatcher = filled(250, 10);
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    let mut round = 0;
    loop {
        let page = fitting(
            &dispatcher,
            "bunqueue_list_jobs_page",
            json!({ "queue": "q", "limit": 30, "cursor": cursor }),
        );
        assert_eq!(page["offset"], seen.len());
        seen.extend(ids(&page));
        cursor = page.get("nextCursor").cloned().unwrap_or_default();
        assert_eq!(cursor.is_null(), page["hasMore"] == json!(false));
        if cursor.is_null() {
            break;
        }
        // One vanishes before the place of the cursor, one behind it; two appear.
        let gone = [format!("{:05}", round * 3), format!("{:05}", 249 - round)];
        for id in &gone {
            success(&dispatcher, "bunqueue_cancel_job", json!({ "jobId": id }));
        }
        for id in [format!("{:05}a", round * 3), format!("{:05}a", 249 - round)] {
            success(
                &dispatcher,
                "bunqueue_add_job",
                json!({ "queue": "q", "name": "n", "data": {}, "jobId": id }),
            );
        }
        round += 1;
    }
    let mut once = seen.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "a job came twice");
    assert!(seen.is_sorted());
    let untouched = (0..250).filter(|index| index % 3 != 0 && *index < 250 - round);
    for index in untouched {
        assert!(seen.contains(&format!("{index:05}")), "{index} was missed");
    }
}

#[test]
fn a_cursor_of_another_listing_is_refused() {
    let dispatcher = filled(10, 10);
    let page = fitting(
        &dispatcher,
        "bunqueue_list_jobs_page",
        json!({ "queue": "q", "limit": 1 }),
    );
    let cursor = &page["nextCursor"];
    for other in [
        json!({ "queue": "r", "cursor": cursor }),
        json!({ "queue": "q", "state": "waiting", "cursor": cursor }),
    ] {
        let body = failure(&dispatcher, "bunqueue_list_jobs_page", other);
        assert_eq!(body["code"], "invalid_arguments");
    }
    let body = failure(
        &dispatcher,
        "bunqueue_get_job_logs",
        json!({ "jobId": "q", "cursor": cursor }),
    );
    assert_eq!(body["code"], "invalid_arguments");
}

#[test]
fn a_page_has_the_fields_in_the_order_asked() {
    let dispatcher = dispatcher(example::world());
    let asked = json!({ "queue": "email", "fields": ["state", "id", "startedAt"], "limit": 100 });
    let page = fitting(&dispatcher, "bunqueue_list_jobs_page", asked);
    assert_eq!(page["fields"], json!(["state", "id", "startedAt"]));
    let keys = |index: usize| {
        page["jobs"][index]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(0), ["state", "id", "startedAt"]);
    assert_eq!(keys(3), ["state", "id"]);
    assert_eq!(
        (&page["hasMore"], &page["nextOffset"]),
        (&json!(false), &Value::Null)
    );
    let plain = fitting(
        &dispatcher,
        "bunqueue_list_jobs_page",
        json!({ "queue": "email", "state": "failed", "offset": 1 }),
    );
    assert_eq!(
        (&plain["count"], &plain["offset"], &plain["state"]),
        (&json!(0), &json!(1), &json!("failed"))
    );
    let fields = [
        "id",
        "name",
        "state",
        "priority",
        "progress",
        "attempts",
        "maxAttempts",
        "createdAt",
    ];
    assert_eq!(plain["fields"], json!(fields));
}

#[test]
fn job_logs_page_when_they_do_not_fit() {
    let dispatcher = filled(1, 10);
    for line in 0..100 {
        let message = format!("{line:03}{}", "x".repeat(3_000));
        success(
            &dispatcher,
            "bunqueue_add_job_log",
            json!({ "jobId": "00000", "message": message }),
        );
    }
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = fitting(
            &dispatcher,
            "bunqueue_get_job_logs",
            json!({ "jobId": "00000", "cursor": cursor }),
        );
        assert!(page.to_string().len() <= ANSWER_MAX);
        let logs = page["logs"].as_array().unwrap();
        assert_eq!(page["count"], logs.len());
        seen.extend(
            logs.iter()
                .map(|line| line["message"].as_str().unwrap()[..3].to_owned()),
        );
        cursor = page.get("nextCursor").cloned().unwrap_or_default();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(
        seen,
        (0..100)
            .map(|line| format!("{line:03}"))
            .collect::<Vec<_>>()
    );
}

#[test]
fn ids_of_cleaned_jobs_are_cut_and_their_number_is_not() {
    let dispatcher = dispatcher(empty());
    let id = |index: usize| format!("{index:05}{}", "x".repeat(1_000));
    let items: Vec<_> = (0..200)
        .map(|index| json!({ "name": "n", "data": {}, "jobId": id(index) }))
        .collect();
    success(
        &dispatcher,
        "bunqueue_add_jobs_bulk",
        json!({ "queue": "q", "jobs": items }),
    );
    success(
        &dispatcher,
        "bunqueue_pull_job_batch",
        json!({ "queue": "q", "count": 200 }),
    );
    let all: Vec<_> = (0..200).map(id).collect();
    success(
        &dispatcher,
        "bunqueue_ack_job_batch",
        json!({ "jobIds": all }),
    );
    let cleaned = fitting(
        &dispatcher,
        "bunqueue_clean_queue",
        json!({ "queue": "q", "graceMs": 0 }),
    );
    assert!(cleaned.to_string().len() <= ANSWER_MAX);
    assert_eq!(
        (&cleaned["removed"], &cleaned["truncated"]),
        (&json!(200), &json!(true))
    );
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
        let names = success(&dispatcher, "bunqueue_list_queues", json!({}));
        format!("{email}{reports}{names}{}", counts(&dispatcher, "email"))
    };
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
