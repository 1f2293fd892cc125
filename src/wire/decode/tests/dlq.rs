//! Dead letters, reruns and policies per queue: what is read and what is refused.

use super::*;
use crate::command::{GetDlq, RetryCompleted, RetryDlq, SetDlqConfig, SetStallConfig};
use crate::engine::{
    CompletedSelection, DlqConfigUpdate, DlqFilter, DlqSelection, FailureReason, StallConfigUpdate,
};

fn frame(cmd: &str, fields: &Json) -> Json {
    let mut frame = json!({"cmd": cmd, "queue": "any queue"});
    let entries = fields.as_object().unwrap().clone();
    frame.as_object_mut().unwrap().extend(entries);
    frame
}

fn listing(fields: &Json) -> DlqFilter {
    match command(&frame("Dlq", fields)).0 {
        Command::GetDlq(GetDlq { queue, filter }) => {
            assert_eq!(queue.as_str(), "any queue");
            filter
        }
        command => panic!("{command:?}"),
    }
}

#[test]
fn a_listing_takes_a_count_and_a_filter() {
    assert_eq!(listing(&json!({})), DlqFilter::default());
    assert_eq!(
        listing(&json!({"count": null, "filter": null})),
        DlqFilter::default()
    );
    let all = json!({"filter": {
        "reason": "stalled", "olderThan": 20.5, "newerThan": 10.5, "retriable": true, "expired": 1,
        "offset": 2, "limit": 7,
    }});
    let filter = DlqFilter {
        reason: Some(FailureReason::Stalled),
        older_than: Some(20),
        newer_than: Some(11),
        retriable: true,
        expired: true,
        after: None,
        offset: 2,
        limit: Some(7),
    };
    assert_eq!(listing(&all), filter);
    let limit = |fields: Json| listing(&fields).limit;
    assert_eq!(limit(json!({"count": 3, "filter": {"limit": 7}})), Some(3));
    assert_eq!(limit(json!({"count": 9, "filter": {"limit": 7}})), Some(7));
    assert_eq!(limit(json!({"count": 0})), Some(0));
    assert_eq!(limit(json!({"count": -1})), Some(0));
    assert_eq!(limit(json!({"filter": {"reason": "no such"}})), Some(0));
}

#[test]
fn a_retry_says_what_it_means() {
    let retried = |fields: Json| match command(&frame("RetryDlq", &fields)) {
        (Command::RetryDlq(RetryDlq { selection, .. }), Shape::Counted) => selection,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        retried(json!({})),
        DlqSelection::Matching(DlqFilter::default())
    );
    let job = DlqSelection::One(JobId::from_text("j"));
    assert_eq!(retried(json!({"jobId": "j", "count": 5})), job);
    let two = DlqFilter {
        limit: Some(2),
        ..DlqFilter::default()
    };
    assert_eq!(retried(json!({"count": 2})), DlqSelection::Matching(two));
    let filtered = json!({"jobId": "j", "filter": {"limit": 2}});
    assert_eq!(retried(filtered), DlqSelection::Matching(two));
    assert_eq!(
        refused(&frame("RetryDlq", &json!({"jobId": ""}))),
        "jobId must be a non-empty string"
    );
    assert_eq!(
        refused(&frame("RetryDlq", &json!({"jobId": 5}))),
        "jobId must be a string"
    );
    assert_eq!(
        refused(&frame("RetryDlq", &json!({"count": "x"}))),
        "count must be a number"
    );
    assert_eq!(
        refused(&frame("RetryDlq", &json!({"filter": 5}))),
        "filter must be an object"
    );
}

#[test]
fn completed_jobs_are_chosen_by_id_or_by_age() {
    let retried = |fields: Json| match command(&frame("RetryCompleted", &fields)) {
        (Command::RetryCompleted(RetryCompleted { selection, .. }), Shape::Counted) => selection,
        other => panic!("{other:?}"),
    };
    let oldest = |until, limit| CompletedSelection::Oldest { until, limit };
    assert_eq!(retried(json!({})), oldest(None, None));
    assert_eq!(
        retried(json!({"timestamp": 5.5, "count": 2.9})),
        oldest(Some(5), Some(2))
    );
    let job = CompletedSelection::One(JobId::from_text("j"));
    assert_eq!(retried(json!({"id": "j", "count": 2})), job);
    assert_eq!(
        refused(&frame("RetryCompleted", &json!({"id": ""}))),
        "id must be a non-empty string"
    );
}

#[test]
fn settings_of_dead_letters_are_brought_into_their_bounds() {
    let set = |config: Json| match command(&frame("SetDlqConfig", &json!({"config": config}))) {
        (Command::SetDlqConfig(SetDlqConfig { update, .. }), Shape::Done) => update,
        other => panic!("{other:?}"),
    };
    assert_eq!(set(json!({})), DlqConfigUpdate::default());
    let junk =
        json!({"autoRetry": "yes", "autoRetryInterval": "junk", "maxAge": "x", "maxEntries": null});
    assert_eq!(set(junk), DlqConfigUpdate::default());
    let given = json!({
        "autoRetry": true, "autoRetryInterval": "5000", "maxAutoRetries": 2.7, "maxAge": null, "maxEntries": 0,
    });
    let update = DlqConfigUpdate {
        auto_retry: Some(true),
        auto_retry_interval: Some(5_000),
        max_auto_retries: Some(2),
        max_age: Some(None),
        max_entries: Some(1),
    };
    assert_eq!(set(given), update);
    assert_eq!(set(json!({"maxAge": -5})).max_age, Some(Some(0)));
    let undefined = with_raw(&json!({}), "maxAge", UNDEFINED);
    let body = with_raw(
        &json!({"cmd": "SetDlqConfig", "queue": "q"}),
        "config",
        &undefined,
    );
    match decode_body(&body) {
        Action::Command(Command::SetDlqConfig(set), _) => assert_eq!(set.update.max_age, None),
        action => panic!("{action:?}"),
    }
    for cmd in ["SetDlqConfig", "SetStallConfig"] {
        assert_eq!(refused(&frame(cmd, &json!({}))), "config is required");
        assert_eq!(
            refused(&frame(cmd, &json!({"config": []}))),
            "config must be an object"
        );
    }
}

#[test]
fn settings_of_stalls_are_taken_as_they_are() {
    let config =
        json!({"enabled": false, "stallInterval": "1.5", "maxStalls": -1, "gracePeriod": "x"});
    let update = StallConfigUpdate {
        enabled: Some(false),
        stall_interval: Some(1.5),
        max_stalls: Some(-1.0),
        grace_period: None,
    };
    match command(&frame("SetStallConfig", &json!({"config": config}))).0 {
        Command::SetStallConfig(SetStallConfig { update: found, .. }) => assert_eq!(found, update),
        command => panic!("{command:?}"),
    }
}
