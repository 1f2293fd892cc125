//! The queue engine: a pure, deterministic state machine.
//!
//! Every operation takes a [`Turn`] (the time, who asks, where effects go) and answers at once; what has to
//! happen outside (events, jobs handed to waiting pulls) is left in [`Effects`], in order. There is no clock, no
//! I/O and no randomness but the seeded [`IdSource`]; the same inputs give the same outputs. Whatever is timed is
//! an entry in one deadline order ([`deadline`]); each operation first lets everything happen that is due.
//!
//! Rules, one file per family:
//! - jobs come in: `admission` (ids, deduplication), `capacity` (room in a group), `ties` (what other jobs say about it);
//! - they are handed out: `delivery` (pulls, waits, hand-off), `ready` and `backlog` (who is next), `limit` and `group` (who
//!   has to wait although jobs are ready);
//! - they end: `report` (ack, fail, backoff), `lease` (locks, stalls, timeouts, disconnects), `dead_letter`, `rerun`
//!   (retries of finished jobs), `retention`;
//! - they belong together: `dependency` (jobs that wait for jobs), `flow` (trees of jobs, links);
//! - they come by themselves: `cron` (named schedules), `repeat` (jobs that repeat), `schedule` (patterns, time zones);
//! - they are changed: `manage` (one job), `control` (a queue), `policy` (the settings of a queue);
//! - they are watched: `query`, `event`, `notice` (what lasts for long), `figures` (what is counted and measured),
//!   `webhook`, `worker`.
//!
//! Behaviour: the engine contract.

mod admission;
mod backlog;
mod capacity;
mod check;
mod cold;
mod control;
mod cron;
mod dead_letter;
mod deadline;
mod delivery;
mod dependency;
mod event;
mod figures;
mod flow;
mod group;
mod id;
mod id_map;
mod job;
mod lease;
mod limit;
mod link;
mod manage;
mod name;
mod notice;
mod outcome;
mod persist;
mod policy;
mod query;
mod queue;
mod ready;
mod repeat;
mod report;
mod rerun;
mod retention;
mod schedule;
mod serial;
mod store;
mod table;
mod ties;
mod waiters;
mod webhook;
mod worker;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use backlog::{Affinity, PullGroup};
pub use cold::Body;
pub use cron::{
    CRONS_MAX, Cron, CronDefinition, CronFigures, CronPage, DISCARDED_TOKENS_MAX, NewCron,
};
pub use dead_letter::{DlqEntry, DlqFilter, DlqStats};
pub use delivery::PULL_BYTES_MAX;
pub use dependency::TOLD_ERROR_MAX;
pub use event::{Event, EventKind, EventType, EventTypes, StallDetail, WorkerLoad};
pub use figures::{
    COMPACTION_PERIOD, Durability, HEALTH_JOBS_MAX, Histogram, JobPreviews, LATENCY_BOUNDS,
    Latency, MemoryStats, MetricKind, Overview, QueueDetail, QueueHealth, QueueMetrics,
    QueueSummary, Stats, StorageStatus, StorageUsage, Throughput, Timed, Totalled, Totals,
};
pub use flow::{Annotate, FLOW_DEPTH_MAX, FLOW_JOBS_MAX, FlowJob, FlowNode};
pub use id::{IdSource, JobId, LockToken, StoredId};
pub use job::{
    AttemptRecord, Backoff, BackoffKind, Dedup, Delivery, Failure, FailureReason, JobDetail,
    JobLinks, JobOptions, JobView, LogLine, NewJob, NewLinks, Parent, Payload, State,
    TimelineEntry,
};
pub use lease::LOST_IN_A_ROW_MAX;
pub use limit::{QueueLimits, RateLimit};
pub use link::{ChildFailure, TIES_BYTES_MAX};
pub use notice::{NOTICE_PERIOD, NoticeBounds};
pub use outcome::{
    AddOutcome, Added, BatchRefusal, Bucket, Caller, Change, CleanState, ConnectionId, Counts,
    FailReport, Listing, Progressing, PullRequest, Refusal, Renewal, Report, Served, TokenGiven,
    WaitFor, Waited, WaiterId, WorkerFigures, WorkerRegistration, WorkerStats, WorkerView,
};
pub use persist::{
    Changes, CronRecord, GroupRecord, JobRecord, KeyRecord, LifeRecord, LoadError, Loader,
    LogRecord, MinuteRecord, ProofRecord, QueueRecord, TieRecord, WebhookRecord,
};
pub use policy::{DlqConfig, DlqConfigUpdate, StallConfig, StallConfigUpdate};
pub use repeat::{Repeat, RepeatTiming};
pub use report::BACKOFF_MAX;
pub use rerun::{CompletedSelection, DlqSelection};
pub use retention::LOG_LINES_MAX;
pub use schedule::{FieldFault, PATTERN_MAX, Schedule, ScheduleError, UNKNOWN_ZONE, check_zone};
pub use store::{ATTEMPT_RECORDS_MAX, TIMELINE_MAX};
pub use ties::find_cycle;
pub use webhook::{
    CALLS_DUE_MAX, NewWebhook, WEBHOOKS_MAX, WebhookCall, WebhookEvent, WebhookSecret,
    WebhookStats, WebhookTarget, WebhookView,
};
pub use worker::{FORGET_AFTER_TIMEOUTS, WORKER_BYTES_MAX, WORKERS_MAX};

use cold::Cold;
use cron::Crons;
use deadline::{Deadlines, Timer};
use delivery::Waits;
use figures::Figures;
use link::Dependencies;
use name::Names;
use notice::Notices;
use persist::Unstored;
use queue::{QueueKey, Queues};
use retention::Retention;
use store::{JobKey, Store};
use webhook::Webhooks;
use worker::Workers;

/// Unix time, or a span of time, in milliseconds.
pub type Millis = i64;

/// Ms that any span may last, either way: that of a job's times (engine contract, section 2.3). Sums and differences
/// of times within it cannot overflow.
pub const SPAN_MAX: Millis = 4_320_000_000_000_000;

/// The time `ms` after `now`, or before it when negative; fractions round up, spans beyond [`SPAN_MAX`] are cut.
fn later(now: Millis, ms: f64) -> Millis {
    now.saturating_add((ms.ceil() as Millis).clamp(-SPAN_MAX, SPAN_MAX))
}

/// Bounds and periods that an operator may set (engine contract, section 23).
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Completed jobs kept over all queues; those that a live job depends on go last.
    pub completed_max: usize,
    /// Of them, those whose bodies need not leave memory ([`Engine::chill`]); only with a store that has them.
    pub completed_in_memory_max: usize,
    /// Ms a completed job is kept, unless a live job depends on it; `None` means for ever.
    pub completed_retention: Option<Millis>,
    /// Results kept, the most recently used; those that a live job needs go last.
    pub results_max: usize,
    /// Jobs whose logs are kept, the most recently used.
    pub logged_jobs_max: usize,
    /// Bytes that the levels and messages of all logs take together; beyond it whole logs go, the least recently used
    /// first.
    pub log_bytes_max: usize,
    /// Ids kept of completed jobs that were deleted, so that others can still depend on them.
    pub proofs_max: usize,
    /// Dead letters kept per queue that does not say.
    pub dlq_max: usize,
    /// Ms a dead letter of such a queue is kept.
    pub dlq_age: Millis,
    /// Ms without a sign of life after which a delivery of such a queue counts as stalled.
    pub stall_interval: Millis,
    /// Ms from the start in which no delivery of such a queue counts as stalled.
    pub stall_grace: Millis,
    /// Stalls and lost locks after which a job of such a queue fails for good; 0 means no limit.
    pub stalls_max: u32,
    /// Ms between noticing a silence and acting on it.
    pub stall_check: Millis,
    /// Ms without a heartbeat after which a worker counts as stale; after three times that it is forgotten.
    pub worker_timeout: Millis,
    /// Ms after which the name of an empty queue is forgotten.
    pub queue_idle: Millis,
    /// Queues whose figures are kept when nothing else is left of them, those that were forgotten last.
    pub forgotten_max: usize,
    /// Queues that may have settings of their own (paused, limited, configured), and groups that may.
    pub settings_max: usize,
    /// Events counted in the journal of a queue.
    pub journal_max: usize,
    /// Minutes for which the jobs of a queue that ended are counted by the minute.
    pub metric_minutes: u32,
    /// Such counts above zero over all queues.
    pub metric_points_max: usize,
    /// Whether webhooks may point to addresses that are not public.
    pub private_webhooks: bool,
    /// What is worth a notice.
    pub notices: NoticeBounds,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            completed_max: 50_000,
            completed_in_memory_max: usize::MAX,
            completed_retention: None,
            results_max: 10_000,
            logged_jobs_max: 10_000,
            log_bytes_max: 64 * 1_024 * 1_024,
            proofs_max: 100_000,
            dlq_max: 10_000,
            dlq_age: 604_800_000,
            stall_interval: 30_000,
            stall_grace: 5_000,
            stalls_max: 3,
            stall_check: 5_000,
            worker_timeout: 30_000,
            queue_idle: 10_000,
            forgotten_max: 10_000,
            settings_max: 100_000,
            journal_max: 10_000,
            metric_minutes: 20_160,
            metric_points_max: 1_000_000,
            private_webhooks: false,
            notices: NoticeBounds::default(),
        }
    }
}

/// What an operation leaves for the outside, in order.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    /// Whether anybody wants events; while not, none are made.
    pub listening: bool,
    /// Which ones of which queues, when it is only some.
    pub only: Option<HashMap<Arc<str>, EventTypes>>,
    /// What happened.
    pub events: Vec<Event>,
    /// Webhooks to call.
    pub calls: Vec<WebhookCall>,
    /// Waits that ended.
    pub served: Vec<(WaiterId, Served)>,
}

impl Effects {
    fn wants(&self, queue: &Arc<str>, kind: &EventKind) -> bool {
        let of_queue = |only: &HashMap<Arc<str>, EventTypes>| {
            only.get(queue)
                .is_some_and(|types| types.contains(kind.event_type()))
        };
        self.listening && self.only.as_ref().is_none_or(of_queue)
    }
}

/// One call into the engine.
pub struct Turn<'a> {
    /// The time; one that lies before an earlier turn's counts as that one.
    pub now: Millis,
    /// Who asks.
    pub caller: Caller,
    /// Where effects go.
    pub effects: &'a mut Effects,
}

/// How far the engine has come on its way to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// It is not on that way.
    Open,
    /// Nothing is handed out any more; pulls wait for nothing.
    Draining,
    /// And nobody waits any more.
    Closed,
}

/// The engine. Its debug form shows its whole state: equal texts mean equal states, up to values of equal fingerprint.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    ids: IdSource,
    now: Millis,
    store: Store,
    queues: Queues,
    deadlines: Deadlines,
    waits: Waits,
    dependencies: Dependencies,
    retention: Retention,
    cold: Cold,
    workers: Workers,
    figures: Figures,
    webhooks: Webhooks,
    crons: Crons,
    notices: Notices,
    /// Deliveries that go back when their connection closes, by delivery number. A connection without any keeps its place
    /// until it closes: a worker that takes one job at a time would make it anew for each.
    connections: HashMap<ConnectionId, BTreeMap<u64, JobKey>>,
    /// Job names in use.
    names: Names,
    default_options: Arc<JobOptions>,
    next_job: u64,
    next_delivery: u64,
    /// Jobs that are active.
    active: usize,
    service: Service,
    /// Nobody could give a sign of life before: the start, or the end of a time in which nothing could be stored.
    heard_since: Millis,
    /// What an engine that takes the place of this one has to know.
    unstored: Unstored,
    /// How the store is, as whoever keeps it says.
    storage: StorageStatus,
    /// Waiting pulls are served later: more jobs may become ready in the same step.
    holding: bool,
    /// Up to when everything due has happened: now, or earlier while what is overdue is made up for.
    instant: Millis,
    /// Queues whose waiting pulls are to be served then.
    unserved: BTreeSet<QueueKey>,
    /// When memory was last given back on demand.
    compacted_at: Option<Millis>,
}

impl Engine {
    /// An empty engine. The same seed and the same turns give the same history.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        Self {
            dependencies: Dependencies::default(),
            retention: Retention::default(),
            cold: Cold::default(),
            workers: Workers::default(),
            figures: Figures::default(),
            webhooks: Webhooks::default(),
            crons: Crons::default(),
            notices: Notices::default(),
            config,
            ids: IdSource::new(seed),
            now: Millis::MIN,
            store: Store::default(),
            queues: Queues::default(),
            deadlines: Deadlines::default(),
            waits: Waits::default(),
            connections: HashMap::new(),
            names: Names::default(),
            default_options: Arc::default(),
            next_job: 0,
            next_delivery: 0,
            active: 0,
            service: Service::Open,
            heard_since: Millis::MIN,
            unstored: Unstored::default(),
            storage: StorageStatus::IN_MEMORY,
            holding: false,
            instant: Millis::MIN,
            unserved: BTreeSet::new(),
            compacted_at: None,
        }
    }

    /// When something is due next; `None` when nothing is.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.next()
    }

    /// Lets everything happen that is due, in order of its time. What is due in one millisecond happens together: jobs
    /// that become ready at once compete by the order of delivery, and a batch pull gets all it asked for.
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        if self.now == Millis::MIN {
            self.figures.start(turn.now);
        }
        self.now = self.now.max(turn.now);
        turn.now = self.now;
        // Within a step everything that was due has happened.
        if self.holding {
            return;
        }
        self.holding = true;
        let mut instant = Millis::MIN;
        loop {
            let next = self.deadlines.due(self.now);
            let closes = next.is_none_or(|(at, timer)| at > instant || timer.comes_last());
            if closes && !self.unserved.is_empty() {
                self.serve_held(turn);
                continue;
            }
            let Some((at, timer)) = next else { break };
            // A completed job that nobody needs any more may be too old since long ago.
            instant = instant.max(at);
            self.instant = self.instant.max(at);
            self.deadlines.remove(at, timer);
            match timer {
                Timer::Mature { key, .. } => self.mature(turn, key),
                Timer::Expire { key, .. } => self.expire(turn, key),
                Timer::Delivery { key, .. } => self.check_delivery(turn, key, at),
                Timer::RateEnd(queue) => self.end_rate(turn, queue),
                Timer::Token(queue) => self.token_due(turn, queue),
                Timer::GroupThrottle(queue, group) => self.end_throttle(turn, queue, group),
                Timer::GroupWindow(queue, group) => self.end_window(turn, queue, group),
                Timer::DeadLetter { key, .. } => self.check_dead_letter(turn, key, at),
                Timer::Completed => self.expire_completed(turn, at),
                Timer::Cron(cron) => self.fire_cron(turn, cron, at),
                Timer::Queue(queue) => self.drop_idle_queue(queue),
                Timer::Workers => self.forget_silent_workers(),
                Timer::Notices => self.look(turn),
                Timer::Wait(waiter) => self.end_wait(turn, waiter),
            }
        }
        self.instant = self.now;
        self.holding = false;
    }

    /// Goes on after a step that ended with a panic: what it had left to be done is done now.
    ///
    /// A panic is a fault of the engine, and the step that it ended may be half done; but deadlines, waits and other
    /// connections must not end with it.
    pub fn recover(&mut self, turn: &mut Turn<'_>) {
        self.holding = false;
        self.instant = self.now;
        self.dependencies.settling = false;
        self.settle(turn);
        self.serve_held(turn);
    }

    /// How the store is from now on.
    pub fn set_storage(&mut self, status: StorageStatus) {
        self.storage = status;
    }

    /// How much the store holds and how fast it is.
    pub const fn set_storage_usage(&mut self, usage: StorageUsage) {
        self.storage.usage = usage;
    }

    /// What was said of the store last.
    pub const fn storage_usage(&self) -> StorageUsage {
        self.storage.usage
    }

    /// How many jobs are active.
    pub const fn active(&self) -> usize {
        self.active
    }

    /// Hands out nothing from now on. Pulls wait for their time, so that workers do not ask again and again; everything
    /// else goes on (engine contract, section 9.5).
    pub fn stop_deliveries(&mut self, turn: &mut Turn<'_>) {
        self.tick(turn);
        if self.service == Service::Open {
            self.service = Service::Draining;
        }
    }

    /// Hands out nothing from now on, and ends every wait with an empty answer; new ones end at once.
    pub fn close(&mut self, turn: &mut Turn<'_>) {
        self.tick(turn);
        self.service = Service::Closed;
        for waiter in self.waits.all() {
            self.end_wait(turn, waiter);
        }
    }

    /// Says what happened to a job.
    fn emit(&mut self, turn: &mut Turn<'_>, key: JobKey, kind: EventKind) {
        let queue = self.store.job(key).queue;
        self.count(queue, &kind);
        let called = self.webhooks.wanted_for(&kind);
        let heard = turn.effects.wants(self.queues.name(queue), &kind);
        if !heard && called.is_none() {
            return;
        }
        let event = Event {
            queue: Arc::clone(self.queues.name(queue)),
            job: Some(self.store.job(key).id.clone()),
            at: self.now,
            kind,
        };
        if let Some(name) = called {
            self.webhooks.call(name, &event, &mut turn.effects.calls);
        }
        if heard {
            turn.effects.events.push(event);
        }
    }

    /// Says what happened to a queue as a whole.
    fn emit_of_queue(&mut self, turn: &mut Turn<'_>, queue: QueueKey, kind: EventKind) {
        self.count(queue, &kind);
        if turn.effects.wants(self.queues.name(queue), &kind) {
            turn.effects.events.push(Event {
                queue: Arc::clone(self.queues.name(queue)),
                job: None,
                at: self.now,
                kind,
            });
        }
    }
}
