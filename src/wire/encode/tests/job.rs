//! Jobs in deliveries, listings and answers.

use super::*;
use crate::engine::{Backoff, BackoffKind, Bucket, Dedup, Repeat, RepeatTiming, Schedule};

#[test]
fn pulls_show_the_job_and_the_token_of_an_owner() {
    let [owned, free] = [true, false].map(|owned| Shape::Pull { owned });
    assert_eq!(
        shown(&owned, Ok(Reply::Pulled(vec![delivery(true)]))),
        json!({"ok": true, "job": job_json(), "token": TOKEN})
    );
    assert_eq!(
        shown(&free, Ok(Reply::Pulled(vec![delivery(false)]))),
        json!({"ok": true, "job": job_json()})
    );
    let empty = || Ok(Reply::Pulled(Vec::new()));
    assert_eq!(
        shown(&owned, empty()),
        json!({"ok": true, "job": null, "token": null})
    );
    assert_eq!(shown(&free, empty()), json!({"ok": true, "job": null}));

    let [owned, free] = [true, false].map(|owned| Shape::PullMany { owned });
    assert_eq!(
        shown(
            &owned,
            Ok(Reply::Pulled(vec![delivery(true), delivery(true)]))
        ),
        json!({"ok": true, "jobs": [job_json(), job_json()], "tokens": [TOKEN, TOKEN]})
    );
    assert_eq!(
        shown(&owned, empty()),
        json!({"ok": true, "jobs": [], "tokens": []})
    );
    assert_eq!(shown(&free, empty()), json!({"ok": true, "jobs": []}));
}

#[test]
fn a_job_with_every_option_shows_them() {
    let mut full = job();
    full.has_custom_id = true;
    full.data = None;
    full.state = State::Failed;
    full.priority = 2.5;
    full.started_at = Some(1_700_000_000_010);
    full.completed_at = Some(1_700_000_000_020);
    full.attempts = 2;
    full.stall_count = 1;
    full.progress = 42.0;
    full.progress_message = Some("half".into());
    full.stacktrace = Some(vec!["a".into(), "b".into()]);
    full.lifo = true;
    full.remove_on_complete = true;
    full.remove_on_fail = true;
    full.durable = true;
    full.options = JobOptions {
        backoff: Backoff {
            kind: BackoffKind::Exponential,
            delay: 250.0,
            max_delay: Some(500.0),
        },
        ttl: Some(3_600_000.0),
        timeout: Some(4.32e15),
        stall_timeout: Some(12_000.0),
        tags: vec!["t".into()],
        unique_key: Some("uk".into()),
        dedup: Dedup {
            ttl: Some(5_000.0),
            extend: true,
            replace: true,
        },
        debounce_id: Some("deb".into()),
        debounce_ttl: Some(700.0),
        stack_trace_limit: 3.0,
        keep_logs: Some(5.0),
        size_limit: Some(1_000.0),
        group_id: None,
        repeat: None,
        parent_id: Some("p".into()),
        blank_custom_id: false,
        fail_parent_on_failure: true,
        remove_dependency_on_failure: true,
        continue_parent_on_failure: true,
        ignore_dependency_on_failure: true,
    }
    .into();
    full.timeline = vec![TimelineEntry {
        state: State::Failed,
        at: 1_700_000_000_003,
        error: Some("boom".into()),
        attempt: Some(2),
    }];
    let mut expected = with(
        job_json(),
        json!({
            "customId": "j1", "priority": 2.5, "startedAt": 1_700_000_000_010.0,
            "completedAt": 1_700_000_000_020.0, "attempts": 2, "stallCount": 1, "progress": 42,
            "progressMessage": "half", "stacktrace": ["a", "b"], "lifo": true,
            "removeOnComplete": true, "removeOnFail": true, "durable": true, "backoff": 250,
            "backoffConfig": {"type": "exponential", "delay": 250, "maxDelay": 500},
            "ttl": 3600000, "timeout": 4.32e15, "stallTimeout": 12000, "tags": ["t"],
            "uniqueKey": "uk", "deduplicationTtl": 5000, "deduplicationExtend": true,
            "deduplicationReplace": true, "debounceId": "deb", "debounceTtl": 700,
            "stackTraceLimit": 3, "keepLogs": 5, "sizeLimit": 1000, "parentId": "p",
            "failParentOnFailure": true, "removeDependencyOnFailure": true,
            "continueParentOnFailure": true, "ignoreDependencyOnFailure": true,
            "timeline": [{"state": "failed", "timestamp": 1_700_000_000_003.0, "error": "boom",
                "attempt": 2}],
        }),
    );
    expected.as_object_mut().unwrap().remove("data");
    let mut found = detail(full);
    found.result = Some(payload(&json!(null)));
    let reply = || Ok(Reply::Job(Some(Box::new(found.clone()))));
    let more = json!({"returnvalue": null, "failedReason": "boom"});
    assert_eq!(
        shown(&Shape::GetJobByCustomId, reply()),
        json!({"ok": true, "job": with(expected.clone(), more.clone())})
    );
    let more = with(more, json!({"state": "failed"}));
    assert_eq!(
        shown(&Shape::GetJob, reply()),
        json!({"ok": true, "job": with(expected, more)})
    );
}

#[test]
fn options_that_are_not_default_show_fully() {
    let backoff = |kind| Backoff {
        kind,
        delay: 10.0,
        max_delay: None,
    };
    let cases = [
        (backoff(BackoffKind::Plain), json!(null)),
        (
            backoff(BackoffKind::Fixed),
            json!({"type": "fixed", "delay": 10}),
        ),
    ];
    for (backoff, config) in cases {
        let mut delivery = delivery(false);
        delivery.job.options = JobOptions {
            backoff,
            blank_custom_id: true,
            ..JobOptions::default()
        }
        .into();
        let more = json!({"backoff": 10, "backoffConfig": config, "customId": ""});
        assert_eq!(
            shown(
                &Shape::Pull { owned: false },
                Ok(Reply::Pulled(vec![delivery]))
            ),
            json!({"ok": true, "job": with(job_json(), more)})
        );
    }
}

#[test]
fn a_repetition_shows_what_is_set() {
    let schedule = Schedule::read("@daily", Some("Europe/Rome")).expect("a schedule");
    let interval = Repeat {
        timing: RepeatTiming::Every(60_000.0),
        limit: None,
        count: 0.0,
        start_date: None,
        end_date: None,
        immediately: None,
        prev_millis: None,
        offset: None,
        job_id: None,
        tz: None,
    };
    let pattern = Repeat {
        timing: RepeatTiming::Pattern(schedule.into()),
        limit: Some(5.0),
        count: 2.0,
        start_date: Some(1.0),
        end_date: Some(2.0),
        immediately: Some(false),
        prev_millis: Some(7.0),
        offset: Some(-3.0),
        job_id: Some("r".into()),
        tz: Some("Europe/Rome".into()),
    };
    let cases = [
        (interval, json!({"every": 60_000, "count": 0})),
        (
            pattern,
            json!({
                "pattern": "@daily", "limit": 5, "count": 2, "startDate": 1, "endDate": 2, "immediately": false,
                "prevMillis": 7, "offset": -3, "jobId": "r", "tz": "Europe/Rome",
            }),
        ),
    ];
    for (repeat, shape) in cases {
        let mut delivery = delivery(false);
        delivery.job.options = JobOptions {
            repeat: Some(Box::new(repeat)),
            ..JobOptions::default()
        }
        .into();
        assert_eq!(
            shown(
                &Shape::Pull { owned: false },
                Ok(Reply::Pulled(vec![delivery]))
            ),
            json!({"ok": true, "job": with(job_json(), json!({"repeat": shape}))})
        );
    }
}

#[test]
fn listings_show_each_job_in_its_state() {
    let jobs = || Ok(Reply::Jobs(vec![detail(job())]));
    let cases = [
        (None, "waiting"),
        (Some(Bucket::Paused), "paused"),
        (Some(Bucket::State(State::Waiting)), "waiting"),
    ];
    for (only, state) in cases {
        assert_eq!(
            shown(&Shape::GetJobs { only }, jobs()),
            json!({"ok": true, "jobs": [with(job_json(), json!({"state": state}))]})
        );
    }
}

#[test]
fn progress_is_read_from_active_jobs_only() {
    let progress = |state, message: Option<&str>| {
        let mut job = job();
        job.state = state;
        job.progress = 12.5;
        job.progress_message = message.map(Into::into);
        shown(
            &Shape::GetProgress,
            Ok(Reply::Job(Some(Box::new(detail(job))))),
        )
    };
    assert_eq!(
        progress(State::Active, None),
        json!({"ok": true, "progress": 12.5, "message": null})
    );
    assert_eq!(
        progress(State::Active, Some("m")),
        json!({"ok": true, "progress": 12.5, "message": "m"})
    );
    assert_eq!(
        progress(State::Waiting, None),
        json!({"ok": false, "error": "Job is not active (current state: waiting)"})
    );
    for shape in [Shape::GetProgress, Shape::GetJob, Shape::GetJobByCustomId] {
        let missing = json!({"ok": false, "error": "Job not found"});
        assert_eq!(shown(&shape, Ok(Reply::Job(None))), missing);
    }
}

#[test]
fn hard_w1_payloads_leave_byte_for_byte() {
    let exact: &[u8] = &[
        0x94, 0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xcb, 0x80, 0, 0, 0, 0, 0, 0,
        0, 0xd4, 0, 0, 0xa2, 0xc3, 0x28,
    ];
    let mut delivery = delivery(false);
    delivery.job.data = Some(Payload::new(exact));
    let mut out = Vec::new();
    let answer = Ok(Reply::Pulled(vec![delivery]));
    let shape = Shape::Pull { owned: false };
    assert!(reply::answer(
        &mut out,
        &ReqId::NONE,
        &shape,
        &answer,
        &Around
    ));
    assert!(
        body(&out)
            .windows(exact.len())
            .any(|window| window == exact)
    );
}
