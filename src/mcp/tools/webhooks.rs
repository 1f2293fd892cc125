//! Toolset `webhooks`: URLs that hear of jobs. Prose: `toolsets/webhooks.md`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Found, LeftOut, Nothing};
use crate::command::address::Forbidden;
use crate::command::webhook::WebhookDraft;
use crate::command::{
    AddWebhook as AddWebhookCommand, ListWebhooks, RemoveWebhook,
    SetWebhookEnabled as SetWebhookEnabledCommand,
};
use crate::engine::{WebhookEvent, WebhookView};
use crate::mcp::call::Call;
use crate::mcp::error::{Cause, ToolError};
use crate::mcp::page::fit;
use crate::mcp::parameter::{AnyId, EventName, Queue, WebhookUrl};
use crate::mcp::registry::{Policy, Toolset};
use crate::mcp::view::iso;

pub(super) fn toolset() -> Toolset {
    Toolset::new("webhooks", include_str!("../../../toolsets/webhooks.md"))
        .tool(
            "bunqueue_add_webhook",
            "Add webhook",
            Policy::WRITE.open_world(),
            add_webhook,
        )
        .errors(&[
            Cause::WebhookHost(Forbidden::Localhost),
            Cause::WebhookHost(Forbidden::Loopback),
            Cause::WebhookHost(Forbidden::Private),
            Cause::WebhookHost(Forbidden::UniqueLocal),
            Cause::WebhookHost(Forbidden::LinkLocal),
            Cause::WebhookHost(Forbidden::Unspecified),
            Cause::WebhookHost(Forbidden::Metadata),
            Cause::WebhookScheme,
            Cause::WebhookUrlTooLong,
            Cause::WebhookUrlInvalid,
        ])
        .guarded(
            "bunqueue_remove_webhook",
            "Remove webhook",
            Policy::DESTROY.idempotent().confirm("id"),
            remove_webhook,
            remove_webhook_impact,
        )
        .tool(
            "bunqueue_list_webhooks",
            "List webhooks",
            Policy::READ,
            list_webhooks,
        )
        .tool(
            "bunqueue_set_webhook_enabled",
            "Enable or disable webhook",
            Policy::WRITE.idempotent(),
            set_webhook_enabled,
        )
}

#[derive(Deserialize, JsonSchema)]
struct AddWebhook {
    url: WebhookUrl,
    events: Vec<EventName>,
    /// Omit for all
    queue: Option<Queue>,
}

/// A webhook, as the answer that adds it shows it.
#[derive(Serialize, JsonSchema)]
struct WebhookAdded {
    success: bool,
    id: String,
    url: String,
    #[schemars(with = "Vec<Value>")]
    events: Vec<&'static str>,
    /// Absent when it hears of all queues
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    enabled: bool,
}

async fn add_webhook(call: Call, arguments: AddWebhook) -> Result<WebhookAdded, ToolError> {
    let names = arguments.events.iter().map(|event| event.0.as_str());
    let webhook = WebhookDraft {
        url: arguments.url.0.into(),
        events: names.map(Arc::from).collect(),
        queue: arguments.queue.map(|queue| queue.name().shared()),
        secret: None,
    };
    let added = call.run(AddWebhookCommand { webhook }).await?;
    Ok(WebhookAdded {
        success: true,
        id: added.id.to_string(),
        url: added.url.to_string(),
        events: names_of(&added.events),
        queue: added.queue.as_deref().map(str::to_owned),
        enabled: added.enabled,
    })
}

fn names_of(events: &[WebhookEvent]) -> Vec<&'static str> {
    events.iter().map(|event| event.name()).collect()
}

/// Where a webhook calls, without what may be a key: it is shown to whoever lists webhooks.
fn shown_url(webhook: &WebhookView) -> &str {
    let url = &webhook.url;
    url.split(['?', '#']).next().unwrap_or_default()
}

/// A tool that takes a webhook and nothing else.
#[derive(Deserialize, JsonSchema)]
struct OneWebhook {
    id: AnyId,
}

#[derive(Serialize, JsonSchema)]
struct WebhookChanged {
    #[serde(flatten)]
    found: Found,
    id: String,
}

async fn remove_webhook(call: Call, arguments: OneWebhook) -> Result<WebhookChanged, ToolError> {
    let id = arguments.id.shared();
    let removed = call.run(RemoveWebhook { id }).await?;
    Ok(WebhookChanged {
        found: Found::new(removed),
        id: arguments.id.0,
    })
}

async fn remove_webhook_impact(call: Call, arguments: OneWebhook) -> Result<String, ToolError> {
    let id = arguments.id.0;
    let webhooks = call.run(ListWebhooks).await?.list;
    Ok(match webhooks.iter().find(|webhook| *webhook.id == *id) {
        None => format!("Webhook {id} was not found."),
        Some(webhook) => format!(
            "Webhook {id} will be deleted; {} is called no more.",
            shown_url(webhook)
        ),
    })
}

/// A webhook in a listing, with what became of its calls.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookItem<'a> {
    id: &'a str,
    url: &'a str,
    events: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    enabled: bool,
    success_count: u64,
    failure_count: u64,
    last_triggered: Option<String>,
}

impl<'a> WebhookItem<'a> {
    fn of(webhook: &'a WebhookView) -> Self {
        Self {
            id: &webhook.id,
            url: shown_url(webhook),
            events: names_of(&webhook.events),
            queue: webhook.queue.as_deref(),
            enabled: webhook.enabled,
            success_count: webhook.success_count,
            failure_count: webhook.failure_count,
            last_triggered: webhook.last_triggered.and_then(iso),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Webhooks {
    /// Webhooks in this answer
    count: usize,
    /// Items of id, url (without its query), events, queue, enabled, successCount, failureCount and lastTriggered
    webhooks: Vec<Value>,
    #[serde(flatten)]
    left_out: LeftOut,
}

async fn list_webhooks(call: Call, _: Nothing) -> Result<Webhooks, ToolError> {
    let webhooks = call.run(ListWebhooks).await?.list;
    let items = webhooks
        .iter()
        .filter_map(|webhook| serde_json::to_value(WebhookItem::of(webhook)).ok());
    let fitted = fit(items);
    let left_out = LeftOut::of(webhooks.len(), &fitted, |left| {
        format!(
            "{left} more webhooks, which were added later, do not fit; they are called all the same."
        )
    });
    Ok(Webhooks {
        count: fitted.items.len(),
        webhooks: fitted.items,
        left_out,
    })
}

#[derive(Deserialize, JsonSchema)]
struct SetWebhookEnabled {
    id: AnyId,
    enabled: bool,
}

#[derive(Serialize, JsonSchema)]
struct WebhookSwitched {
    #[serde(flatten)]
    webhook: WebhookChanged,
    /// As asked for
    enabled: bool,
}

async fn set_webhook_enabled(
    call: Call,
    arguments: SetWebhookEnabled,
) -> Result<WebhookSwitched, ToolError> {
    let enabled = arguments.enabled;
    let found = call
        .run(SetWebhookEnabledCommand {
            id: arguments.id.shared(),
            enabled,
        })
        .await?;
    Ok(WebhookSwitched {
        webhook: WebhookChanged {
            found: Found::new(found),
            id: arguments.id.0,
        },
        enabled,
    })
}
