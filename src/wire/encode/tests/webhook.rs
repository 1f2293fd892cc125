//! Replies about webhooks.

use super::*;
use crate::command::Webhooks;
use crate::engine::{WebhookEvent, WebhookStats, WebhookView};
use crate::wire::shape::Webhook;

fn webhook() -> WebhookView {
    WebhookView {
        id: "w-1".into(),
        url: "https://example.com/hook".into(),
        events: vec![WebhookEvent::Failed, WebhookEvent::Pushed],
        queue: Some("q".into()),
        created_at: NOW,
        last_triggered: Some(NOW + 1),
        success_count: 5_000_000_000,
        failure_count: 2,
        enabled: false,
    }
}

fn common() -> Json {
    json!({"url": "https://example.com/hook", "events": ["job.failed", "job.pushed"],
        "queue": "q", "createdAt": NOW as f64})
}

#[test]
fn a_registration_names_its_id_in_its_own_way() {
    assert_eq!(
        shown(
            &Shape::Webhook(Webhook::Added),
            Ok(Reply::Webhook(Box::new(webhook())))
        ),
        json!({"ok": true, "data": with(common(), json!({"webhookId": "w-1"}))})
    );
}

#[test]
fn a_listing_shows_what_became_of_the_calls() {
    let silent = WebhookView {
        id: "w-2".into(),
        events: Vec::new(),
        queue: None,
        last_triggered: None,
        success_count: 0,
        failure_count: 0,
        enabled: true,
        ..webhook()
    };
    let webhooks = Webhooks {
        list: vec![webhook(), silent],
        stats: WebhookStats {
            total: 2,
            enabled: 1,
        },
    };
    let first = json!({"id": "w-1", "lastTriggered": (NOW + 1) as f64,
        "successCount": 5e9, "failureCount": 2, "enabled": false});
    let second = json!({"id": "w-2", "events": [], "queue": null, "lastTriggered": null,
        "successCount": 0, "failureCount": 0, "enabled": true});
    assert_eq!(
        shown(
            &Shape::Webhook(Webhook::List),
            Ok(Reply::Webhooks(webhooks))
        ),
        json!({"ok": true, "data": {
            "webhooks": [with(common(), first), with(common(), second)],
            "stats": {"total": 2, "enabled": 1},
        }})
    );
}

#[test]
fn a_webhook_that_is_not_there_is_told() {
    let removed = Shape::Webhook(Webhook::Removed);
    let switched = Shape::Webhook(Webhook::Switched);
    assert_eq!(
        shown(&removed, Ok(Reply::Flag(true))),
        json!({"ok": true, "data": {"removed": true}})
    );
    assert_eq!(shown(&switched, Ok(Reply::Flag(true))), json!({"ok": true}));
    for shape in [removed, switched] {
        let missing = json!({"ok": false, "error": "Webhook not found"});
        assert_eq!(shown(&shape, Ok(Reply::Flag(false))), missing);
    }
}
