//! Webhooks (tcp protocol section 21).

use super::answer::yes;
use super::ask::ask;
use super::{Exchange, Refused};
use crate::command::webhook::WebhookDraft;
use crate::command::{Command, Reply, Webhooks};
use crate::engine::{WebhookEvent, WebhookSecret, WebhookStats, WebhookView};
use crate::wire::fields::Fields;

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    let absent = || Refused::Absent(Reply::Flag(false));
    Some(match command {
        Command::AddWebhook(add) => register(&add.webhook),
        Command::RemoveWebhook(remove) => ask("RemoveWebhook")
            .text("webhookId", &remove.id)
            .then(yes)
            .or(absent()),
        Command::SetWebhookEnabled(set) => ask("SetWebhookEnabled")
            .text("id", &set.id)
            .bool("enabled", set.enabled)
            .then(yes)
            .or(absent()),
        Command::ListWebhooks(_) => ask("ListWebhooks").then(list),
        _ => return None,
    })
}

fn register(webhook: &WebhookDraft) -> Exchange {
    ask("AddWebhook")
        .text("url", &webhook.url)
        .texts("events", &webhook.events)
        .text_if("queue", webhook.queue.as_deref())
        .text_if("secret", webhook.secret.as_ref().map(WebhookSecret::text))
        .then(|fields| {
            let webhook = view(&fields.inner("data")?, "webhookId")?;
            Some(Reply::Webhook(Box::new(webhook)))
        })
}

fn list(fields: &Fields<'_>) -> Option<Reply> {
    let data = fields.inner("data")?;
    let stats = data.inner("stats")?;
    Some(Reply::Webhooks(Webhooks {
        list: data.maps("webhooks", |webhook| view(webhook, "id"))?,
        stats: WebhookStats {
            total: stats.size("total")?,
            enabled: stats.size("enabled")?,
        },
    }))
}

fn view(fields: &Fields<'_>, id: &str) -> Option<WebhookView> {
    let known = |name: &str| {
        WebhookEvent::ALL
            .into_iter()
            .find(|event| event.name() == name)
    };
    let events = fields.shared_list("events");
    Some(WebhookView {
        id: fields.shared(id)?,
        url: fields.shared("url")?,
        events: events.iter().filter_map(|name| known(name)).collect(),
        queue: fields.shared("queue"),
        created_at: fields.millis("createdAt").unwrap_or(0),
        last_triggered: fields.millis("lastTriggered"),
        success_count: fields.u64("successCount").unwrap_or(0),
        failure_count: fields.u64("failureCount").unwrap_or(0),
        enabled: fields.flag("enabled").unwrap_or(true),
    })
}
