//! Commands about workers and webhooks, and what they become.

use std::sync::Arc;

use bunqueue_mcp::command::webhook::WebhookDraft;
use bunqueue_mcp::command::{
    AddWebhook, Command, IsWebhookEnabled, ListQueueWorkers, ListWebhooks, ListWorkers, QueueName,
    RegisterWorker, RemoveWebhook, ReportWebhook, SetWebhookEnabled, UnregisterWorker,
    WorkerHeartbeat,
};
use bunqueue_mcp::engine::{WebhookSecret, WorkerFigures, WorkerRegistration};

use super::{Dice, QUEUES, Scene};

/// A command about one of the two registries; the numbers choose among what exists.
#[derive(Clone, Debug)]
pub enum Errand {
    Register(WorkerRegistration, Option<i64>),
    Beat(u64, WorkerFigures),
    Unregister(u64),
    ListWorkers,
    ListWorkersOf(u64),
    AddWebhook(WebhookDraft),
    RemoveWebhook(u64),
    Enable(u64, bool),
    IsEnabled(u64),
    Report(u64, bool),
    ListWebhooks,
}

const EVENTS: [&str; 6] = [
    "job.pushed",
    "job.started",
    "job.completed",
    "job.failed",
    "job.progress",
    "job.unknown",
];

fn some_queues(dice: &mut Dice) -> Vec<Arc<str>> {
    let count = dice.below(3);
    (0..count).map(|_| dice.pick(&QUEUES).into()).collect()
}

impl Errand {
    pub fn random(dice: &mut Dice) -> Self {
        let number = dice.next();
        match dice.below(24) {
            0..4 => {
                let worker = WorkerRegistration {
                    id: dice.maybe(60, &["w0", "w1", "w2"]).map(Arc::from),
                    name: dice.pick(&["one", "two"]).into(),
                    queues: some_queues(dice),
                    concurrency: dice.maybe(50, &[1.0, 3.0, f64::MAX]),
                    hostname: dice.maybe(30, &["here", "there"]).map(Arc::from),
                    pid: dice.maybe(30, &[1.0, 77.0]),
                    started_at: None,
                };
                Self::Register(worker, dice.maybe(20, &[0, -5_000, 70]))
            }
            4..8 => {
                let figures = [0.0, 1.0, 2.0, 17.0, f64::MAX];
                let figures = WorkerFigures {
                    active_jobs: dice.maybe(60, &figures),
                    processed: dice.maybe(60, &figures),
                    failed: dice.maybe(60, &figures),
                };
                Self::Beat(number, figures)
            }
            8 => Self::Unregister(number),
            9 => Self::ListWorkers,
            10 => Self::ListWorkersOf(number),
            11..15 => {
                // A name that is unknown is rare, so that most webhooks come to be.
                let names = EVENTS.len() - usize::from(dice.chance(90));
                let events = (0..dice.below(6)).map(|_| dice.pick(&EVENTS[..names]).into());
                let events = events.collect();
                let url = dice.pick(&[
                    "https://one.example.com/",
                    "https://one.example.com/",
                    "http://two.example.com:8080/?a=b",
                    "http://1.2.3.4/",
                    "http://192.168.7.7/",
                    "nowhere",
                    "",
                ]);
                Self::AddWebhook(WebhookDraft {
                    url: url.into(),
                    events,
                    queue: dice.maybe(50, &QUEUES).map(Arc::from),
                    secret: dice.maybe(30, &["s1", "s2"]).map(WebhookSecret::new),
                })
            }
            15..18 => Self::RemoveWebhook(number),
            18 | 19 => Self::Enable(number, dice.chance(60)),
            20 => Self::IsEnabled(number),
            21 | 22 => Self::Report(number, dice.chance(50)),
            _ => Self::ListWebhooks,
        }
    }

    pub fn resolve(&self, scene: &Scene<'_>) -> Command {
        // One place beyond the last: somebody unknown.
        let one_of = |ids: Vec<Arc<str>>, number: u64| -> Arc<str> {
            let id = ids.get(number as usize % (ids.len() + 1)).cloned();
            id.unwrap_or_else(|| "nobody".into())
        };
        let worker = |number: &u64| one_of(scene.model.worker_ids(), *number);
        let webhook = |number: &u64| one_of(scene.model.webhook_ids(), *number);
        match self {
            Self::Register(worker, started) => RegisterWorker {
                worker: WorkerRegistration {
                    started_at: started.map(|offset| scene.now + offset),
                    ..worker.clone()
                },
            }
            .into(),
            Self::Beat(number, figures) => WorkerHeartbeat {
                id: worker(number),
                figures: *figures,
            }
            .into(),
            Self::Unregister(number) => UnregisterWorker { id: worker(number) }.into(),
            Self::ListWorkers => ListWorkers.into(),
            Self::ListWorkersOf(number) => {
                let name = QUEUES[*number as usize % QUEUES.len()];
                let queue = QueueName::lenient(name);
                ListQueueWorkers { queue }.into()
            }
            Self::AddWebhook(draft) => {
                let webhook = draft.clone();
                AddWebhook { webhook }.into()
            }
            Self::RemoveWebhook(number) => RemoveWebhook {
                id: webhook(number),
            }
            .into(),
            Self::Enable(number, enabled) => SetWebhookEnabled {
                id: webhook(number),
                enabled: *enabled,
            }
            .into(),
            Self::IsEnabled(number) => IsWebhookEnabled {
                id: webhook(number),
            }
            .into(),
            Self::Report(number, delivered) => ReportWebhook {
                id: webhook(number),
                delivered: *delivered,
            }
            .into(),
            Self::ListWebhooks => ListWebhooks.into(),
        }
    }
}
