//! Webhooks (tcp protocol section 21). Their values are checked where it is known which addresses are allowed; see
//! [`AddWebhook`].

use std::sync::Arc;

use super::{Decoded, ask};
use crate::command::webhook::WebhookDraft;
use crate::command::{
    AddWebhook, ArgumentError, ListWebhooks, RemoveWebhook, SetWebhookEnabled, bounds,
};
use crate::engine::WebhookSecret;
use crate::wire::fields::{Fields, text};
use crate::wire::shape::{Shape, Webhook};

pub(super) fn by_name(name: &[u8], fields: &Fields<'_>) -> Option<Decoded> {
    Some(match name {
        b"AddWebhook" => add(fields),
        b"RemoveWebhook" => remove(fields),
        b"ListWebhooks" => ask(ListWebhooks, Shape::Webhook(Webhook::List)),
        b"SetWebhookEnabled" => set_enabled(fields),
        _ => return None,
    })
}

fn add(fields: &Fields<'_>) -> Decoded {
    let url = fields.text("url")?.unwrap_or_default().into();
    let events = fields.list("events", bounds::LABELS_MAX)?;
    let events = events.ok_or(ArgumentError::NotList("events"))?;
    let webhook = WebhookDraft {
        url,
        events: events
            .map(|item| {
                text(item)
                    .map(Arc::from)
                    .ok_or(ArgumentError::NotText("events"))
            })
            .collect::<Result<_, _>>()?,
        queue: fields.text("queue")?.map(Arc::from),
        secret: fields.text("secret")?.map(WebhookSecret::new),
    };
    ask(AddWebhook { webhook }, Shape::Webhook(Webhook::Added))
}

fn remove(fields: &Fields<'_>) -> Decoded {
    let id = id(fields, "webhookId")?;
    ask(RemoveWebhook { id }, Shape::Webhook(Webhook::Removed))
}

fn set_enabled(fields: &Fields<'_>) -> Decoded {
    let id = id(fields, "id")?;
    let enabled = fields.truthy("enabled");
    ask(
        SetWebhookEnabled { id, enabled },
        Shape::Webhook(Webhook::Switched),
    )
}

/// One that is not sent is empty, and no webhook has that id.
fn id(fields: &Fields<'_>, name: &'static str) -> Result<Arc<str>, ArgumentError> {
    Ok(fields.text(name)?.unwrap_or_default().into())
}
