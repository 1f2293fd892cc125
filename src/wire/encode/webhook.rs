//! Webhooks (tcp protocol section 21).

use super::{Entries, Refusal, Success, Tried};
use crate::command::{Reply, Webhooks};
use crate::engine::WebhookView;
use crate::wire::shape::Webhook;

const NO_WEBHOOK: Refusal = Refusal::Borrowed("Webhook not found");

pub(super) fn write<'a>(success: Success<'a>, shape: Webhook, reply: &Reply) -> Tried<'a> {
    match (shape, reply) {
        (Webhook::Added, Reply::Webhook(webhook)) => {
            let mut data = success.data(1 + COMMON_KEYS);
            data.text("webhookId", &webhook.id);
            common(&mut data, webhook);
        }
        (Webhook::List, Reply::Webhooks(webhooks)) => list(success, webhooks),
        (Webhook::Removed, Reply::Flag(true)) => success.data(1).bool("removed", true),
        (Webhook::Switched, Reply::Flag(true)) => success.nothing(),
        (Webhook::Removed | Webhook::Switched, Reply::Flag(false)) => {
            return Tried::Written(Err(NO_WEBHOOK));
        }
        _ => return Tried::NotMine(success),
    }
    Tried::Written(Ok(()))
}

fn list(success: Success<'_>, webhooks: &Webhooks) {
    let mut data = success.data(2);
    data.items("webhooks", &webhooks.list, |data, webhook| {
        data.header(5 + COMMON_KEYS);
        data.text("id", &webhook.id);
        common(data, webhook);
        data.time_or_nil("lastTriggered", webhook.last_triggered);
        data.number("successCount", webhook.success_count as f64);
        data.number("failureCount", webhook.failure_count as f64);
        data.bool("enabled", webhook.enabled);
    });
    data.nested("stats", 2);
    data.count("total", webhooks.stats.total);
    data.count("enabled", webhooks.stats.enabled);
}

/// Keys of [`common`].
const COMMON_KEYS: usize = 4;

fn common(map: &mut Entries<'_>, webhook: &WebhookView) {
    map.text("url", &webhook.url);
    map.key("events").array(webhook.events.len());
    for event in &webhook.events {
        map.item(event.name());
    }
    map.text_or_nil("queue", webhook.queue.as_deref());
    map.time("createdAt", webhook.created_at);
}
