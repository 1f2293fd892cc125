//! The registry of webhooks, and what became of their calls.

use std::sync::Arc;

use super::{Execute, Outcome};
use crate::command::webhook::{Addresses, WebhookDraft};
use crate::engine::Progressing::Done;
use crate::engine::{Engine, Turn, WebhookStats, WebhookView};

/// Registers a webhook, if every value of the draft is acceptable. Checked here, where it is known which addresses the
/// operator allows.
#[derive(Clone, Debug, PartialEq)]
pub struct AddWebhook {
    /// What the client sent.
    pub webhook: WebhookDraft,
}

impl Execute for AddWebhook {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        // As with every command: what is due happens first, even if this one is refused.
        engine.tick(turn);
        let allowed = Addresses::allowed(engine.private_webhooks());
        let webhook = self.webhook.check(allowed)?;
        Ok(Done(Box::new(engine.add_webhook(turn, webhook)?)))
    }
}

/// Forgets a webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveWebhook {
    /// Its id.
    pub id: Arc<str>,
}

impl Execute for RemoveWebhook {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.remove_webhook(turn, &self.id)))
    }
}

/// Switches a webhook on or off.
#[derive(Clone, Debug, PartialEq)]
pub struct SetWebhookEnabled {
    /// Its id.
    pub id: Arc<str>,
    /// Whether it is called.
    pub enabled: bool,
}

impl Execute for SetWebhookEnabled {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.set_webhook_enabled(
            turn,
            &self.id,
            self.enabled,
        )))
    }
}

/// Reads whether there is such a webhook and it is called: a call may have waited for its turn since it was due.
#[derive(Clone, Debug, PartialEq)]
pub struct IsWebhookEnabled {
    /// Its id.
    pub id: Arc<str>,
}

impl Execute for IsWebhookEnabled {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.is_webhook_enabled(turn, &self.id)))
    }
}

/// Counts what became of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportWebhook {
    /// The webhook.
    pub id: Arc<str>,
    /// Whether the call was accepted; else it was given up.
    pub delivered: bool,
}

impl Execute for ReportWebhook {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.report_webhook(turn, &self.id, self.delivered)))
    }
}

/// Lists webhooks.
#[derive(Clone, Debug, PartialEq)]
pub struct ListWebhooks;

impl Execute for ListWebhooks {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (list, stats) = engine.webhooks(turn);
        Ok(Done(Webhooks { list, stats }))
    }
}

/// Registered webhooks, and how many there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhooks {
    /// In order of registration.
    pub list: Vec<WebhookView>,
    /// Over all of them.
    pub stats: WebhookStats,
}
