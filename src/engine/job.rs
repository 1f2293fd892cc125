//! What a job is: the values it is added with, the states it passes through, and the snapshot of it that
//! leaves the engine. The stored form is in `store.rs`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Millis;
use super::id::{JobId, LockToken};
use super::repeat::Repeat;
use super::serial::is_default;

/// An opaque user value (job data, a result): MessagePack bytes as they came. The engine never looks inside.
/// Shared by one count: nobody holds one weakly, and every waiting job has one.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(triomphe::Arc<[u8]>);

impl Payload {
    /// Takes over a value; the bytes are copied once into shared memory.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes as they came.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A fingerprint tells two values apart without showing either.
        let mut hasher = std::hash::DefaultHasher::new();
        std::hash::Hasher::write(&mut hasher, &self.0);
        let print = std::hash::Hasher::finish(&hasher);
        write!(f, "Payload({} bytes, {print:016x})", self.0.len())
    }
}

/// Where a job stands (engine contract, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Ready, priority zero or below.
    Waiting,
    /// Ready, priority above zero.
    Prioritized,
    /// Not ready before its run time.
    Delayed,
    /// Delivered and not finished.
    Active,
    /// Finished and kept.
    Completed,
    /// Failed for good: in the dead-letter queue.
    Failed,
    /// Waits for other jobs.
    WaitingChildren,
}

impl State {
    /// Every state, in the order in which counts are listed.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Prioritized,
        Self::Delayed,
        Self::Active,
        Self::Completed,
        Self::Failed,
        Self::WaitingChildren,
    ];

    /// The name on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Prioritized => "prioritized",
            Self::Delayed => "delayed",
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::WaitingChildren => "waiting-children",
        }
    }

    /// The state with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Neither completed nor failed.
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Completed | Self::Failed)
    }

    /// Waiting, prioritized or delayed.
    pub const fn is_queued(self) -> bool {
        matches!(self, Self::Waiting | Self::Prioritized | Self::Delayed)
    }
}

/// How long a failed job waits before its next attempt (engine contract, section 8.3). Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// The shape of the growth.
    pub kind: BackoffKind,
    /// Base delay, at least 0.
    pub delay: f64,
    /// Cap of one delay; `None` means one hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<f64>,
}

/// The shape of a [`Backoff`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackoffKind {
    /// Given as a bare number: grows like `Exponential`, shown as a number.
    Plain,
    /// The same delay each time, ±20 %.
    Fixed,
    /// Base × 2^attempts, ±50 %.
    Exponential,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            kind: BackoffKind::Plain,
            delay: 1_000.0,
            max_delay: None,
        }
    }
}

/// What to do when a deduplication key is already owned (engine contract, section 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Dedup {
    /// Lifetime of the key from its registration, in ms; `None` means until the job is terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<f64>,
    /// A duplicate restarts the lifetime.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extend: bool,
    /// A duplicate takes the place of the owner.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replace: bool,
}

/// Options that most jobs leave at their defaults; shared, never changed after admission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobOptions {
    /// Retry delay.
    pub backoff: Backoff,
    /// Ms after `created_at` at which a job that has not started fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<f64>,
    /// Ms one attempt may take, above 0; `None` means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Ms without a sign of life before the job counts as stalled; overrides the queue's interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_timeout: Option<f64>,
    /// Free labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Arc<str>>,
    /// Deduplication key, scoped to the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<Arc<str>>,
    /// Policy of that key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dedup: Dedup,
    /// Stored only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debounce_id: Option<Arc<str>>,
    /// Stored only, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debounce_ttl: Option<f64>,
    /// Stack lines kept of a failure.
    pub stack_trace_limit: f64,
    /// Log lines kept, at most 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_logs: Option<f64>,
    /// Largest accepted data, in bytes of its JSON text; checked at admission, stored for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<f64>,
    /// The group it belongs to, scoped to the queue; its priority then ascends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_id: Option<Arc<str>>,
    /// How it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Box<Repeat>>,
    /// Parent id as given; a link is not made from it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<Arc<str>>,
    /// The client sent an empty id of its own, which means none but is shown again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blank_custom_id: bool,
    /// When this child fails for good, its parent fails too. Of several policies the first in this order counts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail_parent_on_failure: bool,
    /// When it does, its parent goes on without any of its children.
    #[serde(default, skip_serializing_if = "is_default")]
    pub continue_parent_on_failure: bool,
    /// When it does, its parent no longer waits for it, and can read its error.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ignore_dependency_on_failure: bool,
    /// When it does, its parent no longer waits for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remove_dependency_on_failure: bool,
}

/// Bytes of a text of that length in a frame.
pub(super) const fn framed(len: usize) -> usize {
    len + 5
}

impl JobOptions {
    /// Bytes that its texts take in a frame.
    pub(super) fn bytes(&self) -> usize {
        let Self {
            unique_key,
            debounce_id,
            parent_id,
            group_id,
            repeat,
            ..
        } = self;
        let repeat_id = repeat.as_ref().and_then(|repeat| repeat.job_id.as_ref());
        let single = [unique_key, debounce_id, parent_id, group_id];
        let single = single.into_iter().flatten().chain(repeat_id);
        let texts = self.tags.iter().chain(single);
        texts.map(|text| framed(text.len())).sum()
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            ttl: None,
            timeout: None,
            stall_timeout: None,
            tags: Vec::new(),
            unique_key: None,
            dedup: Dedup::default(),
            debounce_id: None,
            debounce_ttl: None,
            stack_trace_limit: 10.0,
            keep_logs: None,
            size_limit: None,
            group_id: None,
            repeat: None,
            parent_id: None,
            blank_custom_id: false,
            fail_parent_on_failure: false,
            remove_dependency_on_failure: false,
            continue_parent_on_failure: false,
            ignore_dependency_on_failure: false,
        }
    }
}

/// The parent of a job in a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parent {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: Arc<str>,
}

/// How a job hangs together with others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobLinks {
    /// Its parent in a flow.
    pub parent: Option<Parent>,
    /// Jobs it waits or waited for; those that were dropped are not among them.
    pub depends_on: Vec<JobId>,
    /// Its children in a flow, which are among the jobs it waits for.
    pub children: Vec<JobId>,
}

impl JobLinks {
    /// Whether its data names its ties: it is somebody's child or parent.
    pub const fn is_flow(&self) -> bool {
        self.parent.is_some() || !self.children.is_empty()
    }
}

/// As [`JobLinks`], for a job that is added.
pub type NewLinks = JobLinks;

/// A job as it is added. Every value has passed validation; the engine trusts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NewJob {
    /// Name of the operation, 1 to 256 characters.
    pub name: Arc<str>,
    /// User data; `None` when the client sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Payload>,
    /// Id chosen by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_id: Option<JobId>,
    /// Greater runs first. Finite.
    pub priority: f64,
    /// Ms from creation to the earliest delivery; negative means in the past. Whole.
    pub delay: Millis,
    /// Creation time, when the client set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Millis>,
    /// Attempts in total, at least 1.
    pub max_attempts: u32,
    /// Newest first among equal priority.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lifo: bool,
    /// Delete instead of keeping it as completed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remove_on_complete: bool,
    /// Delete instead of moving it to the dead-letter queue.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remove_on_fail: bool,
    /// A full disk sync before the answer; without a disk it changes nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub durable: bool,
    /// Queued jobs that its group may have at most, this one included; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_max: Option<u64>,
    /// Everything rare; `None` means all defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Arc<JobOptions>>,
    /// Other jobs it belongs to; `None` means that it stands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Box<NewLinks>>,
}

impl Default for NewJob {
    fn default() -> Self {
        Self {
            name: "default".into(),
            data: None,
            custom_id: None,
            priority: 0.0,
            delay: 0,
            timestamp: None,
            max_attempts: 3,
            lifo: false,
            remove_on_complete: false,
            remove_on_fail: false,
            durable: false,
            group_max: None,
            options: None,
            links: None,
        }
    }
}

/// One entry of a job's history; at most 20 are kept (engine contract, section 2.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// The state entered.
    pub state: State,
    /// When.
    pub at: Millis,
    /// The error, for `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
    /// The attempt it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// A snapshot of a job as it leaves the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
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
    /// Where it stands.
    pub state: State,
    /// Greater runs first.
    pub priority: f64,
    /// When it was added, or the time the client gave.
    pub created_at: Millis,
    /// Earliest delivery.
    pub run_at: Millis,
    /// Start of the current or last delivery; `None` while queued or blocked.
    pub started_at: Option<Millis>,
    /// When it completed.
    pub completed_at: Option<Millis>,
    /// Last sign of life.
    pub last_heartbeat: Millis,
    /// Attempts that have ended without success.
    pub attempts: u32,
    /// Attempts in total.
    pub max_attempts: u32,
    /// Stalls and lost locks.
    pub stall_count: u32,
    /// 0 to 100.
    pub progress: f64,
    /// Last progress message.
    pub progress_message: Option<Arc<str>>,
    /// Lines of the last failure that carried a stack.
    pub stacktrace: Option<Vec<Arc<str>>>,
    /// Newest first among equal priority.
    pub lifo: bool,
    /// Deleted when done.
    pub remove_on_complete: bool,
    /// Deleted instead of kept as failed.
    pub remove_on_fail: bool,
    /// Asked for a full sync.
    pub durable: bool,
    /// Everything rare.
    pub options: Arc<JobOptions>,
    /// Other jobs it belongs to.
    pub links: Option<Box<JobLinks>>,
    /// History, oldest first.
    pub timeline: Vec<TimelineEntry>,
}

impl JobView {
    /// The error of the newest `failed` entry that carries one.
    pub fn failed_reason(&self) -> Option<&Arc<str>> {
        self.timeline
            .iter()
            .rev()
            .filter(|entry| entry.state == State::Failed)
            .find_map(|entry| entry.error.as_ref())
    }
}

/// A job with what is kept beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDetail {
    /// The job.
    pub job: JobView,
    /// Its result, when it has one.
    pub result: Option<Payload>,
    /// Why it failed for good, when it did.
    pub failure: Option<Failure>,
}

impl JobDetail {
    /// Bytes of its data and its result.
    pub fn payload_bytes(&self) -> usize {
        let payloads = [&self.job.data, &self.result];
        payloads
            .into_iter()
            .flatten()
            .map(|payload| payload.bytes().len())
            .sum()
    }
}

/// Why and when a job moved to the dead-letter queue (engine contract, section 10).
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The cause.
    pub reason: FailureReason,
    /// The error text, when there was one.
    pub error: Option<Arc<str>>,
    /// Its place among all dead letters: greater than those of all that entered before.
    pub seq: u64,
    /// When it moved there; a job that was tried again by itself has never left.
    pub entered_at: Millis,
    /// Attempts since it was added or last retried by hand, oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// How often it was tried again by itself.
    pub retry_count: u64,
    /// When it last was.
    pub last_retry_at: Option<Millis>,
    /// When it is to be tried again by itself.
    pub next_retry_at: Option<Millis>,
    /// When it is deleted.
    pub expires_at: Option<Millis>,
}

/// One attempt that ended without success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptRecord {
    /// Its number, from 1 (0 for a job that never ran).
    pub attempt: u32,
    /// When it was delivered.
    pub started_at: Millis,
    /// When it ended.
    pub failed_at: Millis,
    /// Why.
    pub reason: FailureReason,
    /// The error text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
}

impl AttemptRecord {
    /// Ms it took.
    pub const fn duration(&self) -> Millis {
        self.failed_at.saturating_sub(self.started_at)
    }
}

/// Why an attempt or a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The worker said so, and attempts remained.
    ExplicitFail,
    /// The last attempt failed, or the worker said that no other can succeed.
    MaxAttemptsExceeded,
    /// An attempt outlasted the job's timeout.
    Timeout,
    /// No sign of life, or a lock ran out.
    Stalled,
    /// The job did not start within its ttl.
    TtlExpired,
    /// Ten deliveries in a row were lost without a report.
    WorkerLost,
    /// Discarded by a client.
    Unknown,
}

impl FailureReason {
    /// Every reason, in the order in which they are counted.
    pub const ALL: [Self; 7] = [
        Self::ExplicitFail,
        Self::MaxAttemptsExceeded,
        Self::Timeout,
        Self::Stalled,
        Self::TtlExpired,
        Self::WorkerLost,
        Self::Unknown,
    ];

    /// The name on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExplicitFail => "explicit_fail",
            Self::MaxAttemptsExceeded => "max_attempts_exceeded",
            Self::Timeout => "timeout",
            Self::Stalled => "stalled",
            Self::TtlExpired => "ttl_expired",
            Self::WorkerLost => "worker_lost",
            Self::Unknown => "unknown",
        }
    }

    /// What it stands for, in the words of the reference.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::ExplicitFail => {
                "the worker reported a failure and attempts were left; of attempts only, never of a job in the DLQ"
            }
            Self::MaxAttemptsExceeded => {
                "the last attempt failed, stalled or lost its lock; also a failure that the worker called unrecoverable, whatever was left"
            }
            Self::Timeout => "an attempt took longer than the job's `timeout`",
            Self::Stalled => {
                "no heartbeat in time, or a lock that ran out; of a job, that this happened too often"
            }
            Self::TtlExpired => "the job did not start within its time to live",
            Self::WorkerLost => {
                "its deliveries ended, one after the other, with the connection of the worker and no report"
            }
            Self::Unknown => "a client discarded it, or what it depended on failed or was removed",
        }
    }

    /// The reason with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// A job handed to a pull.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The job, active.
    pub job: JobView,
    /// The token, when the pull named an owner.
    pub token: Option<LockToken>,
    /// The number of this delivery among all of the engine's.
    pub serial: u64,
    /// The job's number in the order of admission.
    pub seq: u64,
}

/// One line of a job's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// Grows with every line that the engine keeps, over all jobs.
    pub seq: u64,
    /// When it was added.
    pub at: Millis,
    /// `info`, `warn`, `error`, or what the client sent.
    pub level: Arc<str>,
    /// The text.
    pub message: Arc<str>,
}

impl LogLine {
    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        self.level.len() + self.message.len()
    }
}
