//! Webhooks: under which names the values come, and what is refused before they are judged.

use super::*;
use crate::command::webhook::WebhookDraft;
use crate::command::{ListWebhooks, RemoveWebhook, SetWebhookEnabled};
use crate::engine::WebhookSecret;
use crate::wire::shape::Webhook;

fn added(frame: &Json) -> WebhookDraft {
    match command(frame) {
        (Command::AddWebhook(add), Shape::Webhook(Webhook::Added)) => add.webhook,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_webhook_is_taken_as_it_came() {
    let url = "https://example.com/hook";
    let events = json!(["job.failed", "no such"]);
    let full =
        json!({"cmd": "AddWebhook", "url": url, "events": events, "queue": "q", "secret": "s"});
    assert_eq!(
        added(&full),
        WebhookDraft {
            url: url.into(),
            events: vec!["job.failed".into(), "no such".into()],
            queue: Some("q".into()),
            secret: Some(WebhookSecret::new("s")),
        }
    );
    let short = json!({"cmd": "AddWebhook", "events": [], "queue": null, "secret": null});
    assert_eq!(added(&short), WebhookDraft::default());
}

#[test]
fn values_of_another_type_are_refused() {
    let cases = [
        (json!({"url": 5, "events": []}), "url must be a string"),
        (
            json!({"url": "https://example.com"}),
            "events must be an array",
        ),
        (json!({"events": null}), "events must be an array"),
        (json!({"events": "job.failed"}), "events must be an array"),
        (
            json!({"events": ["job.failed", 5]}),
            "events must be a string",
        ),
        (json!({"events": [], "queue": 5}), "queue must be a string"),
        (
            json!({"events": [], "secret": 5}),
            "secret must be a string",
        ),
    ];
    for (mut frame, text) in cases {
        frame["cmd"] = json!("AddWebhook");
        assert_eq!(refused(&frame), text);
    }
}

#[test]
fn each_command_has_its_own_name_for_the_id() {
    let removed = json!({"cmd": "RemoveWebhook", "webhookId": "w", "id": "x"});
    let shape = Shape::Webhook(Webhook::Removed);
    assert_eq!(
        command(&removed),
        (RemoveWebhook { id: "w".into() }.into(), shape)
    );
    let cases = [
        (
            json!({"id": "w", "webhookId": "x", "enabled": true}),
            "w",
            true,
        ),
        (json!({"id": "w", "enabled": 1}), "w", true),
        (json!({"id": "w", "enabled": 0}), "w", false),
        (json!({"id": "w"}), "w", false),
        (json!({"enabled": false}), "", false),
    ];
    for (mut frame, id, enabled) in cases {
        frame["cmd"] = json!("SetWebhookEnabled");
        let id = id.into();
        assert_eq!(
            command(&frame),
            (
                SetWebhookEnabled { id, enabled }.into(),
                Shape::Webhook(Webhook::Switched)
            )
        );
    }
    assert_eq!(
        command(&json!({"cmd": "ListWebhooks"})),
        (ListWebhooks.into(), Shape::Webhook(Webhook::List))
    );
}
