//! Listings: how large they get, how they go on, what they show.

use serde_json::{Value, json};

use super::results::{empty, fitting};
use super::{dispatcher, failure, success};
use crate::mcp::dispatch::Dispatcher;
use crate::mcp::example;
use crate::mcp::page::ANSWER_MAX;

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

/// A job with this data and so many tags, in queue `q`.
fn with_job(data: &Value, tags: usize) -> Dispatcher {
    let dispatcher = dispatcher(empty());
    let tags: Vec<_> = (0..tags).map(|_| "x".repeat(250)).collect();
    success(
        &dispatcher,
        "bunqueue_add_job",
        json!({ "queue": "q", "name": "n", "data": data, "jobId": "j", "tags": tags }),
    );
    dispatcher
}

#[test]
fn hard_r5_one_job_is_reduced_by_its_rendered_size_until_it_fits() {
    let quotes = json!({ "x": "\"".repeat(200_000) });
    for (data, tags, is_kept) in [
        (json!({ "x": vec![false; 40_000] }), 0, "dataTruncated"),
        (quotes.clone(), 0, "dataTruncated"),
        (quotes, 10_000, "tagsTruncated"),
        (json!({}), 10_000, "tagsTruncated"),
    ] {
        let dispatcher = with_job(&data, tags);
        let fields = json!(["id", "data", "tags"]);
        let page = json!({ "queue": "q", "fields": fields, "maxDataBytes": 65_536 });
        for (tool, arguments) in [
            ("bunqueue_get_jobs", json!({ "queue": "q" })),
            ("bunqueue_list_jobs_page", page),
        ] {
            let answer = fitting(&dispatcher, tool, arguments);
            let length = answer.to_string().len();
            assert!(length <= ANSWER_MAX, "{tool}: {length}");
            assert_eq!(answer["jobs"][0]["id"], "j");
            assert_eq!(answer["jobs"][0][is_kept], true, "{tool}");
        }
    }
}

#[test]
fn hard_r5_a_long_log_line_is_cut() {
    let dispatcher = filled(1, 10);
    success(
        &dispatcher,
        "bunqueue_add_job_log",
        json!({ "jobId": "00000", "message": "\u{1}".repeat(200_000) }),
    );
    let page = fitting(
        &dispatcher,
        "bunqueue_get_job_logs",
        json!({ "jobId": "00000" }),
    );
    assert!(page.to_string().len() <= ANSWER_MAX);
    assert_eq!(page["logs"][0]["truncated"], true);
}

#[test]
fn fields_count_once_and_none_means_the_default() {
    let dispatcher = filled(1, 10);
    let fields = |fields: Value| {
        let arguments = json!({ "queue": "q", "fields": fields });
        fitting(&dispatcher, "bunqueue_list_jobs_page", arguments)["fields"].clone()
    };
    assert_eq!(fields(json!([])), fields(Value::Null));
    assert_eq!(fields(json!(vec!["id"; 20_000])), json!(["id"]));
}

#[test]
fn a_log_cursor_meets_every_line_that_is_kept_though_all_have_one_time() {
    let dispatcher = filled(1, 10);
    let add = |from: usize, to: usize| {
        for line in from..to {
            let message = format!("{line:03}{}", "x".repeat(3_000));
            let arguments = json!({ "jobId": "00000", "message": message });
            success(&dispatcher, "bunqueue_add_job_log", arguments);
        }
    };
    let page = |cursor: &Value| {
        let arguments = json!({ "jobId": "00000", "cursor": cursor });
        fitting(&dispatcher, "bunqueue_get_job_logs", arguments)
    };
    add(0, 100);
    let first = page(&Value::Null);
    let read = first["logs"].as_array().unwrap().len();
    // Lines that were read make room for new ones.
    add(100, 100 + read);
    let next = page(&first["nextCursor"]);
    let message = next["logs"][0]["message"].as_str().unwrap();
    assert_eq!(message[..3], format!("{read:03}"));
}

#[test]
fn a_hint_about_a_queue_stays_short_whatever_queues_are_called() {
    let dispatcher = dispatcher(empty());
    let long = "q".repeat(250);
    for end in ["a", "b", "c"] {
        let queue = format!("{long}{end}");
        let arguments = json!({ "queue": queue, "name": "n", "data": {} });
        success(&dispatcher, "bunqueue_add_job", arguments);
    }
    let arguments = json!({ "queue": format!("{long}x") });
    let answer = fitting(&dispatcher, "bunqueue_get_jobs", arguments);
    let hint = answer["hint"].as_str().unwrap();
    assert!(hint.chars().count() <= 160, "{hint}");
}
