//! The records: plain values, one for each thing that a store keeps.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::Millis;
use super::super::cron::Cron;
use super::super::figures::{MetricKind, Totals};
use super::super::id::JobId;
use super::super::job::{JobOptions, LogLine, Parent, Payload, State};
use super::super::limit::RateLimit;
use super::super::link::ChildFailure;
use super::super::policy::{DlqConfig, StallConfig};
use super::super::serial::is_default;
use super::super::store::Life;
use super::super::webhook::{WebhookSecret, WebhookView};

/// Everything that has changed since the last time, to be stored together or not at all. What is gone goes first.
#[derive(Debug, Default)]
pub struct Changes {
    /// Jobs that are gone, by [`JobRecord::seq`], with their ties and logs.
    pub gone_jobs: Vec<u64>,
    /// Queues that are gone, with their groups and minutes; one of that name may stand in `queues` again.
    pub gone_queues: Vec<Arc<str>>,
    /// Groups of which nothing is set any more: queue and group.
    pub gone_groups: Vec<(Arc<str>, Arc<str>)>,
    /// Minutes that are too old.
    pub gone_minutes: Vec<(Arc<str>, MetricKind, u32)>,
    /// Ties that are gone: the job that has them, and the other one.
    pub gone_ties: Vec<(u64, JobId)>,
    /// Jobs of which all earlier ties are gone.
    pub untied_jobs: Vec<u64>,
    /// Proofs that are gone.
    pub gone_proofs: Vec<u64>,
    /// Crons that are gone.
    pub gone_crons: Vec<u64>,
    /// Webhooks that are gone.
    pub gone_webhooks: Vec<u64>,
    /// Queues.
    pub queues: Vec<QueueRecord>,
    /// Groups.
    pub groups: Vec<GroupRecord>,
    /// Counts of minutes.
    pub minutes: Vec<MinuteRecord>,
    /// Jobs.
    pub jobs: Vec<JobRecord>,
    /// Ties.
    pub ties: Vec<TieRecord>,
    /// Logs.
    pub logs: Vec<LogRecord>,
    /// Proofs.
    pub proofs: Vec<ProofRecord>,
    /// Crons.
    pub crons: Vec<CronRecord>,
    /// Webhooks.
    pub webhooks: Vec<WebhookRecord>,
    /// Lifetime totals over all queues, when they have changed.
    pub totals: Option<Totals>,
    /// A job among them asked for a full sync.
    pub durable: bool,
    /// The number of the next job: all jobs with smaller ones are in this or an earlier take.
    pub next_job: u64,
}

impl Changes {
    /// How many things have changed.
    pub fn len(&self) -> usize {
        let gone = [
            self.gone_jobs.len(),
            self.gone_queues.len(),
            self.gone_groups.len(),
            self.gone_minutes.len(),
            self.gone_ties.len(),
            self.untied_jobs.len(),
            self.gone_proofs.len(),
            self.gone_crons.len(),
            self.gone_webhooks.len(),
        ];
        let kept = [
            self.queues.len(),
            self.groups.len(),
            self.minutes.len(),
            self.jobs.len(),
            self.ties.len(),
            self.logs.len(),
            self.proofs.len(),
            self.crons.len(),
            self.webhooks.len(),
            usize::from(self.totals.is_some()),
        ];
        gone.iter().chain(&kept).sum()
    }

    /// Whether nothing has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// Its number in the order of admission, unique among all jobs that ever were.
    pub seq: u64,
    /// Whether no record of it was taken before.
    pub is_new: bool,
    /// Its id.
    pub id: JobId,
    /// Whether the client chose that id.
    pub has_custom_id: bool,
    /// Its queue.
    pub queue: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its data.
    pub data: Option<Payload>,
    /// Whether the data, the options or the parent may differ from those of the record before; always for the first one. Its
    /// queue, id, name, time of creation and number of attempts never do.
    pub body_changed: bool,
    /// The data does not name all its children yet.
    pub unwritten: bool,
    /// Greater runs first.
    pub priority: f64,
    /// When it was added, or the time the client gave.
    pub created_at: Millis,
    /// Earliest delivery.
    pub run_at: Millis,
    /// Attempts that have ended without success.
    pub attempts: u32,
    /// Attempts in total.
    pub max_attempts: u32,
    /// Where it stood. A delayed job may be due by now.
    pub state: State,
    /// Where it stood first.
    pub admitted_as: State,
    /// Newest first among equal priority.
    pub lifo: bool,
    /// Deleted when done.
    pub remove_on_complete: bool,
    /// Deleted instead of kept as failed.
    pub remove_on_fail: bool,
    /// Asked for a full sync.
    pub durable: bool,
    /// Deleted when its worker is lost.
    pub gone_if_lost: bool,
    /// A worker put it aside until its dependencies change.
    pub parked: bool,
    /// Whether it owns its deduplication key.
    pub key: KeyRecord,
    /// Everything rare.
    pub options: Option<Arc<JobOptions>>,
    /// Its parent in a flow.
    pub parent: Option<Parent>,
    /// What has happened to it.
    pub life: Option<Box<LifeRecord>>,
    /// The result of a completed job.
    pub result: Option<Payload>,
}

impl JobRecord {
    /// Whether it is being delivered under a lock that holds then.
    pub fn is_leased(&self, now: Millis) -> bool {
        let run = self.life.as_ref().and_then(|life| life.0.run.as_ref());
        let lock = run.and_then(|run| run.lock.as_ref());
        lock.is_some_and(|lock| lock.expires_at > now)
    }

    /// When it is to be tried again by itself, if it is a dead letter.
    pub fn next_retry_at(&self) -> Option<Millis> {
        let letter = self.life.as_ref()?.0.failure.as_ref()?;
        letter.trail.next_retry_at
    }
}

/// Whether a job owns the deduplication key of its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRecord {
    /// It has none, or another one owns it, or nobody.
    NotOwned,
    /// It does, until it is over.
    Owned,
    /// It does, until then.
    OwnedUntil(Millis),
}

/// What has happened to a job since its admission: its history, its delivery with lock and token, why it failed. Its form
/// is the engine's own business; a store writes and reads it as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LifeRecord(pub(super) Life);

impl LifeRecord {
    /// The history itself; the result is stored beside it.
    pub(in crate::engine) fn with_result(self, result: Option<Payload>) -> Box<Life> {
        Box::new(Life { result, ..self.0 })
    }
}

/// What one job has to do with another: it waits or waited for it, is its parent, has its result or its error.
#[derive(Clone, Debug, PartialEq)]
pub struct TieRecord {
    /// The job that has the tie.
    pub job: u64,
    /// The other one, which need not exist.
    pub other: JobId,
    /// Its place among the jobs it depends on, if it is one.
    pub dependency: Option<u64>,
    /// Its place among the children, if it is one.
    pub child: Option<u64>,
    /// The job still waits for it.
    pub unmet: bool,
    /// The queue and the result of a child that completed.
    pub value: Option<(Arc<str>, Payload)>,
    /// How a child failed, with its place among those that did.
    pub failure: Option<(u64, ChildFailure)>,
}

/// What has become of a job's log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRecord {
    /// The job.
    pub job: u64,
    /// Lines before this one are gone.
    pub first: u64,
    /// Lines that have come.
    pub lines: Vec<LogLine>,
}

/// That a job has completed which is kept no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofRecord {
    /// Grows with each proof.
    pub number: u64,
    /// The job.
    pub id: JobId,
}

/// A queue: what is set for it, and its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueRecord {
    /// Its name.
    #[serde(skip)]
    pub name: Arc<str>,
    /// Its place in the order of first use; `None` once that is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<u64>,
    /// Whether it is paused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Jobs of no group take turns with the groups.
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_turn: bool,
    /// How often it hands out a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
    /// When that limit removes itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_ends_at: Option<Millis>,
    /// Jobs that may be active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// What becomes of its dead letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dlq: Option<DlqConfig>,
    /// When a delivery counts as stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<StallConfig>,
    /// What it has counted in its life.
    #[serde(default, skip_serializing_if = "is_default")]
    pub totals: Totals,
    /// Events in its journal.
    #[serde(default, skip_serializing_if = "is_default")]
    pub journal: usize,
    /// When a job of it last completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_completed_at: Option<Millis>,
    /// When one last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_at: Option<Millis>,
}

/// What is set for a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRecord {
    /// Its queue.
    #[serde(skip)]
    pub queue: Arc<str>,
    /// Its name.
    #[serde(skip)]
    pub name: Arc<str>,
    /// Whether it is paused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Its jobs that may be active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// Its deliveries in a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
}

/// How many jobs of a queue ended in one way within a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinuteRecord {
    /// The queue.
    pub queue: Arc<str>,
    /// In which way.
    pub kind: MetricKind,
    /// Minutes since the Unix epoch.
    pub minute: u32,
    /// How many.
    pub count: u32,
}

/// A cron.
#[derive(Clone, Debug, PartialEq)]
pub struct CronRecord {
    /// Its place in the order of creation.
    pub place: u64,
    /// The cron.
    pub cron: Cron,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookRecord {
    /// Its place in the order of registration.
    #[serde(skip)]
    pub place: u64,
    /// What it is, and what has become of its calls.
    pub view: WebhookView,
    /// What its calls are signed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<WebhookSecret>,
}
