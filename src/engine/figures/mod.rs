//! Figures: what has happened so far, per queue and over all (engine contract, sections 21 and 22).
//!
//! Everything is counted in one place, [`Engine::count`], which every event passes, whether or not anybody listens to
//! it: totals are numbers of events. What monitoring reads most is kept as it changes; `report` holds the readings, and
//! those whose cost grows with the jobs of a queue say so.
//!
//! Figures belong to a queue and outlive its jobs: a name that is forgotten because nothing needs it takes them along
//! only when many other names were forgotten since (see `queue`). Obliterating a queue deletes them.

mod latency;
pub(super) mod minutes;
mod report;
mod speed;

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use latency::{Histogram, LATENCY_BOUNDS, Latency, Timed};
pub use report::{
    COMPACTION_PERIOD, Durability, HEALTH_JOBS_MAX, JobPreviews, MemoryStats, MetricKind, Overview,
    QueueDetail, QueueHealth, QueueMetrics, QueueSummary, Stats, StorageStatus, StorageUsage,
    Totalled,
};
pub use speed::Throughput;

use super::event::EventKind;
use super::queue::QueueKey;
use super::{Engine, Millis};
use minutes::{Minute, Minutes};
use speed::Speed;

/// Jobs counted by what happened to them. A job counts once for each time that it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Totals {
    /// Added; not those that an existing job stood for.
    pub pushed: u64,
    /// Delivered.
    pub pulled: u64,
    /// Completed.
    pub completed: u64,
    /// Failed for good, whatever the cause.
    pub failed: u64,
}

impl Totals {
    /// Both together.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            pushed: self.pushed + other.pushed,
            pulled: self.pulled + other.pulled,
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
        }
    }

    /// What is more than that.
    const fn beyond(&self, other: &Self) -> Self {
        Self {
            pushed: self.pushed.saturating_sub(other.pushed),
            pulled: self.pulled.saturating_sub(other.pulled),
            completed: self.completed.saturating_sub(other.completed),
            failed: self.failed.saturating_sub(other.failed),
        }
    }

    /// The total that an event raises.
    const fn raised_by(&mut self, kind: &EventKind) -> Option<&mut u64> {
        match kind {
            EventKind::Pushed => Some(&mut self.pushed),
            EventKind::Pulled => Some(&mut self.pulled),
            EventKind::Completed { .. } => Some(&mut self.completed),
            EventKind::Failed { terminal: true, .. } => Some(&mut self.failed),
            _ => None,
        }
    }
}

/// Totals of both kinds.
#[derive(Debug, Default)]
struct Counted {
    since_start: Totals,
    /// What earlier processes had counted.
    earlier: Totals,
}

impl Counted {
    const fn lifetime(&self) -> Totals {
        self.since_start.plus(&self.earlier)
    }

    /// Goes on in the process that the other one has counted in.
    const fn go_on_from(&mut self, other: &Self) {
        self.since_start = self.lifetime().beyond(&other.earlier);
        self.earlier = other.earlier;
    }
}

/// The figures of one queue.
#[derive(Debug, Default)]
pub(super) struct QueueFigures {
    totals: Counted,
    completed: Minutes,
    failed: Minutes,
    /// Events in the queue's journal. The journal can be measured and trimmed but not read, on any surface, so its
    /// length is all that is kept of it.
    journal: usize,
}

impl QueueFigures {
    /// Whether there is nothing to lose.
    pub(super) fn is_empty(&self) -> bool {
        self.journal == 0 && self.lifetime() == Totals::default()
    }

    /// Totals of this process and of earlier ones.
    pub(super) const fn lifetime(&self) -> Totals {
        self.totals.lifetime()
    }

    /// Goes on in the process in which the other figures of this queue have been counted.
    pub(super) const fn go_on_from(&mut self, other: &Self) {
        self.totals.go_on_from(&other.totals);
    }

    /// How many jobs ended in one way within a minute, if that is kept.
    pub(super) fn minute(&self, kind: MetricKind, minute: Minute) -> Option<u32> {
        self.minutes(kind).count_of(minute)
    }

    /// The minutes in which jobs ended in one way.
    pub(super) fn kept_minutes(&self, kind: MetricKind) -> Vec<Minute> {
        self.minutes(kind).all().collect()
    }

    /// When a job last ended in one way.
    pub(super) const fn last_at(&self, kind: MetricKind) -> Option<Millis> {
        self.minutes(kind).last_at()
    }

    /// Events in the journal.
    pub(super) const fn journal(&self) -> usize {
        self.journal
    }

    /// Goes on from what a store holds.
    pub(super) const fn restore(
        &mut self,
        totals: Totals,
        journal: usize,
        completed_at: Option<Millis>,
        failed_at: Option<Millis>,
    ) {
        self.totals.earlier = totals;
        self.journal = journal;
        self.completed.restore_last(completed_at);
        self.failed.restore_last(failed_at);
    }

    const fn minutes(&self, kind: MetricKind) -> &Minutes {
        match kind {
            MetricKind::Completed => &self.completed,
            MetricKind::Failed => &self.failed,
        }
    }

    const fn minutes_mut(&mut self, kind: MetricKind) -> &mut Minutes {
        match kind {
            MetricKind::Completed => &mut self.completed,
            MetricKind::Failed => &mut self.failed,
        }
    }
}

/// Figures over all queues.
#[derive(Debug, Default)]
pub(super) struct Figures {
    started_at: Option<Millis>,
    totals: Counted,
    /// Every minute that some queue keeps, oldest first; those of queues that are gone linger until their turn.
    minutes: VecDeque<(Minute, QueueKey, MetricKind)>,
    speed: Speed,
    latency: Latency,
    /// Deliveries that ended with a success, and the ms they took.
    worked: (u64, Millis),
    /// Deliveries in progress with a lock.
    locks: usize,
}

impl Figures {
    /// The engine begins to run.
    pub(super) fn start(&mut self, at: Millis) {
        self.started_at = Some(at);
        self.speed = Speed::starting(at);
    }

    /// Totals of this process and of earlier ones.
    pub(super) const fn lifetime(&self) -> Totals {
        self.totals.lifetime()
    }

    /// Goes on in the process in which the other figures have been counted.
    pub(super) fn go_on_from(&mut self, other: Self) {
        self.totals.go_on_from(&other.totals);
        self.started_at = other.started_at;
        self.speed = other.speed;
        self.latency = other.latency;
        self.worked = other.worked;
    }

    /// Goes on from what earlier processes have counted.
    pub(super) const fn restore(&mut self, earlier: Totals) {
        self.totals.earlier = earlier;
    }

    pub(super) const fn lock_given(&mut self) {
        self.locks += 1;
    }

    pub(super) const fn lock_returned(&mut self) {
        self.locks -= 1;
    }

    /// A delivery that began at `started_at` has succeeded.
    pub(super) const fn note_work(&mut self, started_at: Millis, now: Millis) {
        self.worked.0 += 1;
        self.worked.1 = self.worked.1.saturating_add(now.saturating_sub(started_at));
    }
}

impl Engine {
    /// Counts what an event tells.
    pub(super) fn count(&mut self, key: QueueKey, kind: &EventKind) {
        self.queues.marks.touch(key);
        let figures = &mut self.queues.get_mut(key).figures;
        if figures.journal < self.config.journal_max {
            figures.journal += 1;
        }
        let Some(total) = figures.totals.since_start.raised_by(kind) else {
            return;
        };
        *total += 1;
        if let Some(total) = self.figures.totals.since_start.raised_by(kind) {
            *total += 1;
        }
        let kind = match kind {
            EventKind::Completed { .. } => MetricKind::Completed,
            EventKind::Failed { .. } => MetricKind::Failed,
            _ => return,
        };
        let minute = Minute::of(self.now);
        let new = figures.minutes_mut(kind).count(self.now);
        self.queues.marks.touch_minute(key, kind, minute);
        if new {
            self.keep_minute(key, kind);
        }
    }

    /// A queue has begun a new minute: it takes its place, and the oldest ones go if they are too old or too many.
    fn keep_minute(&mut self, key: QueueKey, kind: MetricKind) {
        let (now, kept) = (Minute::of(self.now), self.config.metric_minutes);
        let order = &mut self.figures.minutes;
        order.push_back((now, key, kind));
        while let Some((minute, key, kind)) = order.front().copied()
            && (order.len() > self.config.metric_points_max || !minute.is_kept(now, kept))
        {
            order.pop_front();
            // The queue may be gone, and another one may have its place; that one has no minute as old as this.
            if let Some(queue) = self.queues.try_get_mut(key) {
                queue.figures.minutes_mut(kind).drop_oldest(minute);
                self.queues.marks.touch_minute(key, kind, minute);
            }
        }
    }

    /// Takes in the count of a minute from a store; those of a queue come in order.
    pub(super) fn restore_minute(
        &mut self,
        key: QueueKey,
        kind: MetricKind,
        minute: Minute,
        count: u32,
    ) {
        let figures = &mut self.queues.get_mut(key).figures;
        figures.minutes_mut(kind).restore(minute, count);
        self.figures.minutes.push_back((minute, key, kind));
    }

    /// Once all minutes are taken in: they are in one order over all queues.
    pub(super) fn order_minutes(&mut self) {
        let minutes = self.figures.minutes.make_contiguous();
        minutes.sort_by_key(|(minute, ..)| *minute);
    }

    /// How long operations took, as measured by whoever executes them: `times` of them, `ms` each.
    pub fn observe(&mut self, what: Timed, ms: f64, times: u64) {
        self.figures.latency.observe(what, ms, times);
    }

    /// Takes over what earlier processes had counted, from a store; a queue's part is in the whole. Lifetime totals go
    /// on from there, totals since the start do not change.
    pub fn carry_over(&mut self, whole: Totals, queues: &[(Arc<str>, Totals)]) {
        self.figures.totals.earlier = whole;
        for (name, totals) in queues {
            let key = self.queues.open(name);
            self.queues.get_mut(key).figures.totals.earlier = *totals;
            self.note_idle(key);
        }
    }
}
