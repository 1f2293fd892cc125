//! The queue engine: a pure, deterministic state machine.
//!
//! Every operation takes a [`Turn`] (the time, who asks, where effects go) and answers at once; what has to
//! happen outside (events, jobs handed to waiting pulls) is left in [`Effects`], in order. There is no clock, no
//! I/O and no randomness but the seeded [`IdSource`]; the same inputs give the same outputs. Whatever is timed is
//! an entry in one deadline order ([`deadline`]); each operation first lets everything happen that is due.
//!
//! Rules, one file per family: `admission` (adding, ids, deduplication), `delivery` (pulls, waits, hand-off),
//! `report` (ack, fail, backoff), `lease` (locks, stalls, timeouts, disconnects), `manage` (changes to one job),
//! `control` (changes to a queue), `cron` (named schedules), `repeat` (jobs that repeat), `schedule` (patterns and time
//! zones), `query`, `retention`, `worker`. Behaviour: the engine contract.

mod admission;
mod control;
mod cron;
mod deadline;
mod delivery;
mod event;
mod id;
mod job;
mod lease;
mod manage;
mod outcome;
mod query;
mod queue;
mod ready;
mod repeat;
mod report;
mod retention;
mod schedule;
mod store;
mod worker;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub use cron::{Cron, CronDefinition, CronFigures, CronPage, DISCARDED_TOKENS_MAX, NewCron};
pub use delivery::PULL_BYTES_MAX;
pub use event::{Event, EventKind, StallDetail};
pub use id::{IdSource, JobId, LockToken};
pub use job::{
    AttemptRecord, Backoff, BackoffKind, Dedup, Delivery, Failure, FailureReason, JobDetail,
    JobOptions, JobView, LogLine, NewJob, Payload, State, TimelineEntry,
};
pub use lease::LOST_IN_A_ROW_MAX;
pub use outcome::{
    AddOutcome, Added, Bucket, Caller, Change, CleanState, ConnectionId, Counts, FailReport,
    Listing, Progressing, PullRequest, Refusal, Renewal, Report, Served, TokenGiven, WaitFor,
    Waited, WaiterId, WorkerFigures, WorkerRegistration, WorkerStats, WorkerView,
};
pub use repeat::{Repeat, RepeatTiming};
pub use report::BACKOFF_MAX;
pub use retention::LOG_LINES_MAX;
pub use schedule::{FieldFault, PATTERN_MAX, Schedule, ScheduleError, check_zone};
pub use store::{ATTEMPT_RECORDS_MAX, TIMELINE_MAX};
pub use worker::FORGET_AFTER_TIMEOUTS;

use cron::Crons;
use deadline::{Deadlines, Timer};
use delivery::Waits;
use queue::{QueueKey, Queues};
use retention::Retention;
use store::{JobKey, Store};
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
    /// Completed jobs kept over all queues.
    pub completed_max: usize,
    /// Results kept, the most recently used.
    pub results_max: usize,
    /// Jobs whose logs are kept, the most recently used.
    pub logged_jobs_max: usize,
    /// Dead letters kept per queue.
    pub dlq_max: usize,
    /// Ms a dead letter is kept.
    pub dlq_age: Millis,
    /// Ms without a sign of life after which a delivery counts as stalled.
    pub stall_interval: Millis,
    /// Ms from the start in which no delivery counts as stalled.
    pub stall_grace: Millis,
    /// Stalls and lost locks after which a job fails for good; 0 means no limit.
    pub stalls_max: u32,
    /// Ms between noticing a silence and acting on it.
    pub stall_check: Millis,
    /// Ms without a heartbeat after which a worker counts as stale; after three times that it is forgotten.
    pub worker_timeout: Millis,
    /// Ms after which the name of an empty queue is forgotten.
    pub queue_idle: Millis,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            completed_max: 50_000,
            results_max: 10_000,
            logged_jobs_max: 10_000,
            dlq_max: 10_000,
            dlq_age: 604_800_000,
            stall_interval: 30_000,
            stall_grace: 5_000,
            stalls_max: 3,
            stall_check: 5_000,
            worker_timeout: 30_000,
            queue_idle: 10_000,
        }
    }
}

/// What an operation leaves for the outside, in order.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    /// Whether anybody wants events; while not, none are made.
    pub listening: bool,
    /// What happened.
    pub events: Vec<Event>,
    /// Waits that ended.
    pub served: Vec<(WaiterId, Served)>,
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
    retention: Retention,
    workers: Workers,
    crons: Crons,
    /// Deliveries that go back when their connection closes, by delivery number.
    connections: HashMap<ConnectionId, BTreeMap<u64, JobKey>>,
    /// Job names in use, each stored once.
    names: HashSet<Arc<str>>,
    /// Size of `names` at which unused ones are dropped.
    names_prune_at: usize,
    default_options: Arc<JobOptions>,
    next_job: u64,
    next_delivery: u64,
    /// Nothing is handed out any more.
    stopping: bool,
    /// Waiting pulls are served later: more jobs may become ready in the same step.
    holding: bool,
    /// Queues whose waiting pulls are to be served then.
    unserved: BTreeSet<QueueKey>,
}

impl Engine {
    /// An empty engine. The same seed and the same turns give the same history.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        Self {
            retention: Retention::default(),
            workers: Workers::default(),
            crons: Crons::default(),
            config,
            ids: IdSource::new(seed),
            now: Millis::MIN,
            store: Store::default(),
            queues: Queues::default(),
            deadlines: Deadlines::default(),
            waits: Waits::default(),
            connections: HashMap::new(),
            names: HashSet::new(),
            names_prune_at: 1_024,
            default_options: Arc::default(),
            next_job: 0,
            next_delivery: 0,
            stopping: false,
            holding: false,
            unserved: BTreeSet::new(),
        }
    }

    /// When something is due next; `None` when nothing is.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.next()
    }

    /// Lets everything happen that is due, in order of its time. What is due in one millisecond happens together: jobs
    /// that become ready at once compete by the order of delivery, and a batch pull gets all it asked for.
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        self.now = self.now.max(turn.now);
        turn.now = self.now;
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
            instant = at;
            self.deadlines.remove(at, timer);
            match timer {
                Timer::Mature(key) => self.mature(turn, key),
                Timer::Expire(key) => self.expire(turn, key),
                Timer::Delivery(key) => self.check_delivery(turn, key, at),
                Timer::DeadLetter(key) => self.expire_dead_letter(turn, key),
                Timer::Cron(cron) => self.fire_cron(turn, cron, at),
                Timer::Queue(queue) => self.drop_idle_queue(queue),
                Timer::Workers => self.forget_silent_workers(),
                Timer::Wait(waiter) => self.end_wait(turn, waiter),
            }
        }
        self.holding = false;
    }

    /// Hands out nothing from now on, and ends every wait with an empty answer.
    pub fn stop_deliveries(&mut self, turn: &mut Turn<'_>) {
        self.tick(turn);
        self.stopping = true;
        for waiter in self.waits.all() {
            self.end_wait(turn, waiter);
        }
    }

    /// Says what happened to a job.
    fn emit(&mut self, turn: &mut Turn<'_>, key: JobKey, kind: EventKind) {
        let job = self.store.job(key);
        let (queue, id) = (job.queue, Some(&job.id));
        if turn.effects.listening {
            turn.effects.events.push(Event {
                queue: Arc::clone(self.queues.name(queue)),
                job: id.cloned(),
                at: self.now,
                kind,
            });
        }
    }

    /// Says what happened to a queue as a whole.
    fn emit_of_queue(&mut self, turn: &mut Turn<'_>, queue: QueueKey, kind: EventKind) {
        if turn.effects.listening {
            turn.effects.events.push(Event {
                queue: Arc::clone(self.queues.name(queue)),
                job: None,
                at: self.now,
                kind,
            });
        }
    }

    fn name(&mut self, name: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        if self.names.len() >= self.names_prune_at {
            self.names.retain(|name| Arc::strong_count(name) > 1);
            self.names_prune_at = (self.names.len() * 2).max(1_024);
        }
        self.names.insert(Arc::clone(name));
        Arc::clone(name)
    }
}
