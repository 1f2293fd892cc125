//! The registry of webhooks (engine contract, section 20): who is to be told of which events. The engine only says
//! that a call is due ([`Effects::calls`](super::Effects::calls)) and keeps count of what became of it; sending is
//! somebody else's work, and never holds up a job.
//!
//! Matching happens where events are made. While no enabled webhook wants anything it costs one test, and events are
//! made for webhooks also while nobody listens.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::{Event, EventKind};
use super::outcome::Refusal;
use super::persist::{Marks, WebhookRecord};
use super::serial::is_default;
use super::{Engine, Millis, Turn};

/// Webhooks at one time, disabled ones included. Each event is compared with all of them.
pub const WEBHOOKS_MAX: usize = 100;
/// Calls that may be left for the outside at one time; what goes beyond is given up at once.
pub const CALLS_DUE_MAX: usize = 100_000;

/// What a webhook can be called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookEvent {
    /// A job was added.
    Pushed,
    /// A job was delivered.
    Started,
    /// A job completed.
    Completed,
    /// An attempt, or the job, failed.
    Failed,
    /// A worker reported progress.
    Progress,
}

impl WebhookEvent {
    /// All of them, in the order in which they are listed to clients.
    pub const ALL: [Self; 5] = [
        Self::Pushed,
        Self::Started,
        Self::Completed,
        Self::Failed,
        Self::Progress,
    ];

    /// The name that clients use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pushed => "job.pushed",
            Self::Started => "job.started",
            Self::Completed => "job.completed",
            Self::Failed => "job.failed",
            Self::Progress => "job.progress",
        }
    }

    /// The event of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// What webhooks hear of such an event; most they hear nothing of.
    pub const fn of(kind: &EventKind) -> Option<Self> {
        match kind {
            EventKind::Pushed => Some(Self::Pushed),
            EventKind::Pulled => Some(Self::Started),
            EventKind::Completed { .. } => Some(Self::Completed),
            EventKind::Failed { .. } => Some(Self::Failed),
            EventKind::Progress { .. } => Some(Self::Progress),
            _ => None,
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What calls are signed with. Its debug form shows nothing of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSecret(Arc<str>);

impl WebhookSecret {
    /// Takes over the text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// A webhook to register; its values are checked.
#[derive(Clone, Debug, PartialEq)]
pub struct NewWebhook {
    /// Where calls go.
    pub url: Arc<str>,
    /// What for; each at most once.
    pub events: Vec<WebhookEvent>,
    /// Events of this queue only; `None`: of all.
    pub queue: Option<Arc<str>>,
    /// What calls are signed with.
    pub secret: Option<WebhookSecret>,
}

/// Where the calls of one webhook go; all of them share it.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookTarget {
    /// The webhook.
    pub id: Arc<str>,
    /// Its URL.
    pub url: Arc<str>,
    /// What its calls are signed with.
    pub secret: Option<WebhookSecret>,
}

/// A call that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookCall {
    /// Where to.
    pub target: Arc<WebhookTarget>,
    /// What for.
    pub name: WebhookEvent,
    /// What happened; webhooks that hear of the same event share it.
    pub event: Arc<Event>,
}

impl WebhookCall {
    /// Bytes that the event keeps alive, about.
    pub fn bytes(&self) -> usize {
        let payload = |payload: &Option<super::Payload>| {
            payload.as_ref().map_or(0, |payload| payload.bytes().len())
        };
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let carried = match &self.event.kind {
            EventKind::Completed { result } => payload(result),
            EventKind::Failed { error, data, .. } => text(error) + payload(data),
            EventKind::Progress { message, .. } => text(message),
            _ => 0,
        };
        carried + size_of::<Event>()
    }
}

/// A webhook as clients see it. The secret is not among it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookView {
    /// Its id.
    pub id: Arc<str>,
    /// Where calls go.
    pub url: Arc<str>,
    /// What for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<WebhookEvent>,
    /// Events of this queue only; `None`: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Arc<str>>,
    /// When it was added.
    pub created_at: Millis,
    /// When it was last known what became of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_triggered: Option<Millis>,
    /// Calls that were accepted.
    pub success_count: u64,
    /// Calls that were given up.
    pub failure_count: u64,
    /// Whether it is called.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enabled: bool,
}

/// How many webhooks there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebhookStats {
    /// Registered.
    pub total: usize,
    /// Of these, called.
    pub enabled: usize,
}

/// All webhooks.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    /// In order of registration.
    list: Vec<Webhook>,
    /// The events that any enabled one wants, a bit for each.
    wanted: u8,
    next_place: u64,
    /// Those that have changed or are gone since they were stored, by place.
    pub(super) marks: Marks<u64>,
}

#[derive(Debug)]
struct Webhook {
    /// In the order of registration.
    place: u64,
    target: Arc<WebhookTarget>,
    view: WebhookView,
}

impl Webhook {
    fn wants(&self, name: WebhookEvent, queue: &str) -> bool {
        let view = &self.view;
        view.enabled
            && view.events.contains(&name)
            && view.queue.as_deref().is_none_or(|wanted| wanted == queue)
    }

    fn count(&mut self, now: Millis, delivered: bool) {
        let view = &mut self.view;
        let count = if delivered {
            &mut view.success_count
        } else {
            &mut view.failure_count
        };
        *count = count.saturating_add(1);
        view.last_triggered = Some(now);
    }
}

impl Webhooks {
    /// Takes in a webhook from a store; they come in order.
    pub(super) fn restore(&mut self, record: WebhookRecord) {
        let WebhookRecord {
            place,
            view,
            secret,
        } = record;
        self.next_place = place;
        let target = Arc::new(WebhookTarget {
            id: Arc::clone(&view.id),
            url: Arc::clone(&view.url),
            secret,
        });
        self.list.push(Webhook {
            place,
            target,
            view,
        });
        self.note_wanted();
    }

    /// None of them counts as stored.
    pub(super) fn mark_all(&mut self) {
        for webhook in &self.list {
            self.marks.touch(webhook.place);
        }
    }

    /// The webhooks that have changed since the last time, and the places of those that are gone.
    pub(super) fn take(&mut self) -> (Vec<WebhookRecord>, Vec<u64>) {
        let mut gone = self.marks.take();
        let changed = self.list.iter().filter(|hook| gone.remove(&hook.place));
        let record = |hook: &Webhook| WebhookRecord {
            place: hook.place,
            view: hook.view.clone(),
            secret: hook.target.secret.clone(),
        };
        let changed = changed.map(record).collect();
        (changed, gone.into_iter().collect())
    }

    /// What webhooks are called for when this happens, if any may want it.
    pub(super) fn wanted_for(&self, kind: &EventKind) -> Option<WebhookEvent> {
        if self.wanted == 0 {
            return None;
        }
        WebhookEvent::of(kind).filter(|name| self.wanted & name.bit() != 0)
    }

    /// Leaves a call for each webhook that wants to hear of this event.
    pub(super) fn call(&mut self, name: WebhookEvent, event: &Event, calls: &mut Vec<WebhookCall>) {
        let wanting = |webhook: &&mut Webhook| webhook.wants(name, &event.queue);
        let mut shared = None;
        let mut given_up = Vec::new();
        for webhook in self.list.iter_mut().filter(wanting) {
            if calls.len() >= CALLS_DUE_MAX {
                webhook.count(event.at, false);
                given_up.push(webhook.place);
                continue;
            }
            let event = shared.get_or_insert_with(|| Arc::new(event.clone()));
            calls.push(WebhookCall {
                target: Arc::clone(&webhook.target),
                name,
                event: Arc::clone(event),
            });
        }
        given_up
            .into_iter()
            .for_each(|place| self.marks.touch(place));
    }

    fn find(&mut self, id: &str) -> Option<&mut Webhook> {
        self.list
            .iter_mut()
            .find(|webhook| &*webhook.target.id == id)
    }

    fn note_wanted(&mut self) {
        let enabled = self.list.iter().filter(|webhook| webhook.view.enabled);
        let names = enabled.flat_map(|webhook| &webhook.view.events);
        self.wanted = names.fold(0, |wanted, name| wanted | name.bit());
    }
}

impl Engine {
    /// Registers a webhook; it is called for what happens from now on.
    ///
    /// # Errors
    /// [`Refusal::TooMany`] when there are [`WEBHOOKS_MAX`].
    pub fn add_webhook(
        &mut self,
        turn: &mut Turn<'_>,
        new: NewWebhook,
    ) -> Result<WebhookView, Refusal> {
        self.tick(turn);
        if self.webhooks.list.len() >= WEBHOOKS_MAX {
            let (what, max) = ("webhooks", WEBHOOKS_MAX);
            return Err(Refusal::TooMany { what, max });
        }
        let id: Arc<str> = self.ids.job_id(self.now).text().into();
        let view = WebhookView {
            id: Arc::clone(&id),
            url: Arc::clone(&new.url),
            events: new.events,
            queue: new.queue,
            created_at: self.now,
            last_triggered: None,
            success_count: 0,
            failure_count: 0,
            enabled: true,
        };
        let target = Arc::new(WebhookTarget {
            id,
            url: new.url,
            secret: new.secret,
        });
        self.webhooks.next_place += 1;
        let place = self.webhooks.next_place;
        self.webhooks.marks.touch(place);
        self.webhooks.list.push(Webhook {
            place,
            target,
            view: view.clone(),
        });
        self.webhooks.note_wanted();
        Ok(view)
    }

    /// Forgets a webhook; false for an unknown one.
    pub fn remove_webhook(&mut self, turn: &mut Turn<'_>, id: &str) -> bool {
        self.tick(turn);
        let before = self.webhooks.list.len();
        if let Some(place) = self.webhooks.find(id).map(|webhook| webhook.place) {
            self.webhooks.marks.touch(place);
        }
        self.webhooks
            .list
            .retain(|webhook| &*webhook.target.id != id);
        self.webhooks.note_wanted();
        self.webhooks.list.len() < before
    }

    /// Whether a webhook is called from now on; false for an unknown one.
    pub fn set_webhook_enabled(&mut self, turn: &mut Turn<'_>, id: &str, enabled: bool) -> bool {
        self.tick(turn);
        let Some(webhook) = self.webhooks.find(id) else {
            return false;
        };
        webhook.view.enabled = enabled;
        let place = webhook.place;
        self.webhooks.marks.touch(place);
        self.webhooks.note_wanted();
        true
    }

    /// Whether there is such a webhook and it is called; asked before each attempt, as calls may have waited.
    pub fn is_webhook_enabled(&mut self, turn: &mut Turn<'_>, id: &str) -> bool {
        self.tick(turn);
        let webhook = self.webhooks.find(id);
        webhook.is_some_and(|webhook| webhook.view.enabled)
    }

    /// Counts a call that was accepted, or given up; false when the webhook is gone.
    pub fn report_webhook(&mut self, turn: &mut Turn<'_>, id: &str, delivered: bool) -> bool {
        self.tick(turn);
        let now = self.now;
        let Some(webhook) = self.webhooks.find(id) else {
            return false;
        };
        webhook.count(now, delivered);
        let place = webhook.place;
        self.webhooks.marks.touch(place);
        true
    }

    /// All webhooks, in order of registration, and how many there are.
    pub fn webhooks(&mut self, turn: &mut Turn<'_>) -> (Vec<WebhookView>, WebhookStats) {
        self.tick(turn);
        let views = self
            .webhooks
            .list
            .iter()
            .map(|webhook| webhook.view.clone());
        (views.collect(), self.webhook_stats())
    }

    pub(super) fn webhook_stats(&self) -> WebhookStats {
        let list = &self.webhooks.list;
        WebhookStats {
            total: list.len(),
            enabled: list.iter().filter(|webhook| webhook.view.enabled).count(),
        }
    }

    /// Whether webhooks may point to addresses that are not public.
    pub const fn private_webhooks(&self) -> bool {
        self.config.private_webhooks
    }
}
