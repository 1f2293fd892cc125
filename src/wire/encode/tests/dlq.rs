//! Dead letters and policies per queue: replies.

use std::sync::Arc;

use super::*;
use crate::engine::{
    AttemptRecord, DlqConfig, DlqEntry, DlqStats, Failure, FailureReason, StallConfig,
};
use crate::wire::shape::Dlq;

fn letter() -> DlqEntry {
    let attempt = AttemptRecord {
        attempt: 1,
        started_at: 100,
        failed_at: 130,
        reason: FailureReason::Timeout,
        error: None,
    };
    DlqEntry {
        job: job(),
        failure: Failure {
            reason: FailureReason::MaxAttemptsExceeded,
            error: Some("e".into()),
            seq: 9,
            entered_at: 140,
            attempts: vec![attempt],
            retry_count: 2,
            last_retry_at: Some(150),
            next_retry_at: None,
            expires_at: Some(160),
        },
    }
}

#[test]
fn a_letter_shows_its_job_twice_and_its_history() {
    let entry = json!({
        "job": job_json(), "enteredAt": 140, "reason": "max_attempts_exceeded", "error": "e",
        "attempts": [{
            "attempt": 1, "startedAt": 100, "failedAt": 130, "reason": "timeout", "error": null, "duration": 30,
        }],
        "retryCount": 2, "lastRetryAt": 150, "nextRetryAt": null, "expiresAt": 160,
    });
    let listed = shown(
        &Shape::Dlq(Dlq::List),
        Ok(Reply::DeadLetters(vec![letter()])),
    );
    assert_eq!(
        listed,
        json!({"ok": true, "jobs": [job_json()], "entries": [entry]})
    );
    let none = shown(&Shape::Dlq(Dlq::List), Ok(Reply::DeadLetters(Vec::new())));
    assert_eq!(none, json!({"ok": true, "jobs": [], "entries": []}));
}

#[test]
fn letters_are_counted_by_every_reason() {
    let stats = DlqStats {
        total: 3,
        by_reason: FailureReason::ALL
            .map(|reason| (reason, usize::from(reason == FailureReason::Stalled))),
        by_queue: vec![(Arc::from("q"), 3)],
        pending_retry: 1,
        expired: 2,
        oldest_entry: Some(5),
        newest_entry: None,
    };
    let expected = json!({
        "total": 3,
        "byReason": {
            "explicit_fail": 0, "max_attempts_exceeded": 0, "timeout": 0, "stalled": 1, "ttl_expired": 0,
            "worker_lost": 0, "unknown": 0,
        },
        "byQueue": {"q": 3}, "pendingRetry": 1, "expired": 2, "oldestEntry": 5, "newestEntry": null,
    });
    let shown = shown(
        &Shape::Dlq(Dlq::Stats),
        Ok(Reply::DlqStats(Box::new(stats))),
    );
    assert_eq!(shown, json!({"ok": true, "data": {"stats": expected}}));
}

#[test]
fn policies_show_every_key() {
    let letters = DlqConfig {
        auto_retry: true,
        auto_retry_interval: 10,
        max_auto_retries: 2,
        max_age: None,
        max_entries: 4,
    };
    let config = json!({
        "autoRetry": true, "autoRetryInterval": 10, "maxAutoRetries": 2, "maxAge": null, "maxEntries": 4,
    });
    let read = shown(&Shape::Dlq(Dlq::Config), Ok(Reply::DlqConfig(letters)));
    assert_eq!(read, json!({"ok": true, "config": config}));
    let set = shown(&Shape::Done, Ok(Reply::DlqConfig(letters)));
    assert_eq!(set, json!({"ok": true}));
    let stalls = StallConfig {
        enabled: false,
        stall_interval: 1.5,
        max_stalls: -1.0,
        grace_period: 0.0,
    };
    let config = json!({"enabled": false, "stallInterval": 1.5, "maxStalls": -1, "gracePeriod": 0});
    let read = shown(
        &Shape::Dlq(Dlq::StallConfig),
        Ok(Reply::StallConfig(stalls)),
    );
    assert_eq!(read, json!({"ok": true, "config": config}));
}
