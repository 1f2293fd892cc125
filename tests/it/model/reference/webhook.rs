//! The registry of webhooks and the calls that events lead to (section 20).

use std::sync::Arc;

use bunqueue_mcp::command::address::Forbidden;
use bunqueue_mcp::command::webhook::WebhookDraft;
use bunqueue_mcp::command::{ArgumentError, Command, CommandError, Reply, Webhooks};
use bunqueue_mcp::engine::{
    Event, EventKind, Refusal, WebhookCall, WebhookEvent, WebhookSecret, WebhookStats,
    WebhookTarget, WebhookView,
};

use super::{Answer, Reference};

#[derive(Clone, Debug)]
pub struct Hook {
    view: WebhookView,
    secret: Option<WebhookSecret>,
}

/// URLs of the histories that are refused, and why; those they use beside them are fine.
const BAD_URLS: [(&str, ArgumentError); 3] = [
    ("", ArgumentError::WebhookUrlRequired),
    ("nowhere", ArgumentError::WebhookUrlInvalid),
    (
        "http://192.168.7.7/",
        ArgumentError::WebhookHost(Forbidden::Private),
    ),
];

/// What webhooks hear of an event.
fn heard(kind: &EventKind) -> Option<WebhookEvent> {
    match kind.name() {
        "pushed" => Some(WebhookEvent::Pushed),
        "pulled" => Some(WebhookEvent::Started),
        "completed" => Some(WebhookEvent::Completed),
        "failed" => Some(WebhookEvent::Failed),
        "progress" => Some(WebhookEvent::Progress),
        _ => None,
    }
}

impl Reference {
    pub(super) fn webhook_stats(&self) -> WebhookStats {
        WebhookStats {
            total: self.hooks.len(),
            enabled: self.hooks.iter().filter(|hook| hook.view.enabled).count(),
        }
    }

    /// Runs a command about webhooks; `None` for all others.
    pub(super) fn about_webhooks(&mut self, command: &Command) -> Option<Answer> {
        let answer = match command {
            Command::AddWebhook(add) => self
                .add_webhook(&add.webhook)
                .map(|view| Reply::Webhook(Box::new(view))),
            Command::RemoveWebhook(remove) => {
                let before = self.hooks.len();
                self.hooks.retain(|hook| hook.view.id != remove.id);
                Ok(Reply::Flag(self.hooks.len() < before))
            }
            Command::SetWebhookEnabled(set) => Ok(Reply::Flag(
                self.on_hook(&set.id, |view| view.enabled = set.enabled),
            )),
            Command::IsWebhookEnabled(is) => {
                let mut enabled = false;
                self.on_hook(&is.id, |view| enabled = view.enabled);
                Ok(Reply::Flag(enabled))
            }
            Command::ReportWebhook(report) => {
                let now = self.now;
                Ok(Reply::Flag(self.on_hook(&report.id, |view| {
                    view.last_triggered = Some(now);
                    view.success_count += u64::from(report.delivered);
                    view.failure_count += u64::from(!report.delivered);
                })))
            }
            Command::ListWebhooks(_) => {
                let list: Vec<_> = self.hooks.iter().map(|hook| hook.view.clone()).collect();
                let stats = self.webhook_stats();
                Ok(Reply::Webhooks(Webhooks { list, stats }))
            }
            _ => return None,
        };
        Some(Answer::Done(answer))
    }

    fn add_webhook(&mut self, draft: &WebhookDraft) -> Result<WebhookView, CommandError> {
        if let Some((_, fault)) = BAD_URLS.iter().find(|(url, _)| *url == &*draft.url) {
            return Err(fault.clone().into());
        }
        let mut events = Vec::new();
        let mut unknown = Vec::new();
        for name in &draft.events {
            let of_that_name = |event: &WebhookEvent| event.name() == &**name;
            match WebhookEvent::ALL.into_iter().find(of_that_name) {
                Some(event) if !events.contains(&event) => events.push(event),
                Some(_) => {}
                None => unknown.push(&**name),
            }
        }
        if !unknown.is_empty() {
            return Err(ArgumentError::WebhookEvents(unknown.join(", ").into()).into());
        }
        if self.hooks.len() >= 100 {
            let (what, max) = ("webhooks", 100);
            return Err(Refusal::TooMany { what, max }.into());
        }
        let id = self.learned.registered.take();
        let view = WebhookView {
            id: id.expect("the reply names the id"),
            url: Arc::clone(&draft.url),
            events,
            queue: draft.queue.clone().filter(|name| !name.is_empty()),
            created_at: self.now,
            last_triggered: None,
            success_count: 0,
            failure_count: 0,
            enabled: true,
        };
        self.hooks.push(Hook {
            view: view.clone(),
            secret: draft.secret.clone(),
        });
        Ok(view)
    }

    fn on_hook(&mut self, id: &str, act: impl FnOnce(&mut WebhookView)) -> bool {
        let hook = self.hooks.iter_mut().find(|hook| &*hook.view.id == id);
        hook.map(|hook| act(&mut hook.view)).is_some()
    }

    /// The calls that an event leads to.
    pub(super) fn note_calls(&mut self, event: &Event) {
        let Some(name) = heard(&event.kind) else {
            return;
        };
        for Hook { view, secret } in &self.hooks {
            let here = view
                .queue
                .as_ref()
                .is_none_or(|queue| *queue == event.queue);
            if view.enabled && here && view.events.contains(&name) {
                let target = WebhookTarget {
                    id: Arc::clone(&view.id),
                    url: Arc::clone(&view.url),
                    secret: secret.clone(),
                };
                self.calls.push(WebhookCall {
                    target: Arc::new(target),
                    name,
                    event: Arc::new(event.clone()),
                });
            }
        }
    }

    pub fn webhook_ids(&self) -> Vec<Arc<str>> {
        let hooks = self.hooks.iter();
        hooks.map(|hook| Arc::clone(&hook.view.id)).collect()
    }
}
