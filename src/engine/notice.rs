//! Notices: a queue has nothing to do, many jobs wait in it, a worker is at its capacity (engine contract, section 22).
//!
//! They are made for those queues alone that somebody wants them of, and by looking: every [`NOTICE_PERIOD`] at each of
//! these queues and at the workers, in one deadline that is armed only while somebody wants notices. So nothing else in
//! the engine knows of them, and what jobs do costs the same whether or not a queue is watched. What a notice tells of is
//! told once, until a look finds that it has ended.
//!
//! Notices are events, but the journal of a queue does not count them: whether they are made depends on who listens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::deadline::Timer;
use super::event::{Event, EventKind, WorkerLoad};
use super::figures::Totals;
use super::outcome::WorkerView;
use super::{Engine, Millis, Turn};

/// Ms between two looks: the cleanup pass of the contract.
pub const NOTICE_PERIOD: Millis = 10_000;

/// What is worth a notice; `None` is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticeBounds {
    /// Ms that a queue has no ready and no active job.
    pub queue_idle: Option<Millis>,
    /// Ready jobs of a queue, those of a paused one included.
    pub queue_size: Option<usize>,
    /// Ms that a worker has as many jobs as it can work on.
    pub worker_overload: Option<Millis>,
}

impl Default for NoticeBounds {
    fn default() -> Self {
        Self {
            queue_idle: Some(30_000),
            queue_size: None,
            worker_overload: Some(30_000),
        }
    }
}

/// What looks have seen.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// By the names that somebody wants notices of; a queue of that name need not exist.
    watched: BTreeMap<Arc<str>, Watch>,
    /// Workers at their capacity that serve a watched queue, by their order of registration.
    full: BTreeMap<u64, Spell>,
    /// When the next look is due; `None` while nobody wants notices.
    pub(super) next_look: Option<Millis>,
}

/// What is known of a queue.
#[derive(Debug, Default)]
struct Watch {
    idle: Spell,
    large: Spell,
    /// Its totals at the last look. A job that came and went in between shows in them.
    totals: Totals,
}

/// Something that is told once it has lasted.
#[derive(Clone, Copy, Debug, Default)]
enum Spell {
    #[default]
    Over,
    Since(Millis),
    Told,
}

impl Spell {
    /// Whether it `holds` now. The ms that it has lasted, when that is to be told: `after` so many, once.
    fn see(&mut self, holds: bool, now: Millis, after: Millis) -> Option<Millis> {
        let since = match *self {
            _ if !holds => {
                *self = Self::Over;
                return None;
            }
            Self::Told => return None,
            Self::Since(since) => since,
            Self::Over => now,
        };
        let lasted = now.saturating_sub(since);
        let tell = lasted >= after;
        *self = if tell { Self::Told } else { Self::Since(since) };
        tell.then_some(lasted)
    }
}

impl Notices {
    /// Whether a look is due exactly when somebody wants one.
    pub(super) fn is_sound(&self) -> bool {
        self.watched.is_empty() == self.next_look.is_none()
            && (self.full.is_empty() || !self.watched.is_empty())
    }
}

impl Engine {
    /// Of which queues somebody wants notices from now on, and no others. The first look is due at once.
    pub fn watch(&mut self, turn: &mut Turn<'_>, queues: BTreeSet<Arc<str>>) {
        self.tick(turn);
        let notices = &mut self.notices;
        let mut before = std::mem::take(&mut notices.watched);
        let watched = queues.into_iter().map(|name| {
            let watch = before.remove(&name).unwrap_or_default();
            (name, watch)
        });
        notices.watched = watched.collect();
        match notices.next_look {
            Some(at) if notices.watched.is_empty() => {
                *notices = Notices::default();
                self.deadlines.remove(at, Timer::Notices);
            }
            None if !notices.watched.is_empty() => self.arm_look(self.now),
            _ => {}
        }
    }

    fn arm_look(&mut self, at: Millis) {
        self.notices.next_look = Some(at);
        self.deadlines.insert(at, Timer::Notices);
    }

    /// A look is due.
    pub(super) fn look(&mut self, turn: &mut Turn<'_>) {
        self.arm_look(self.now.saturating_add(NOTICE_PERIOD));
        let mut watched = std::mem::take(&mut self.notices.watched);
        for (name, watch) in &mut watched {
            self.look_at_queue(turn, name, watch);
        }
        self.notices.watched = watched;
        if let Some(after) = self.config.notices.worker_overload {
            self.look_at_workers(turn, after);
        }
    }

    fn look_at_queue(&self, turn: &mut Turn<'_>, name: &Arc<str>, watch: &mut Watch) {
        let Some(key) = self.queues.find(name) else {
            *watch = Watch::default();
            return;
        };
        let (now, bounds) = (self.now, self.config.notices);
        let queue = self.queues.get(key);
        let (size, totals) = (queue.ready.len(), queue.figures.lifetime());
        if let Some(after) = bounds.queue_idle {
            if std::mem::replace(&mut watch.totals, totals) != totals {
                watch.idle = Spell::Over;
            }
            // A queue that never had a job is not idle but unused.
            let is_idle = size == 0 && queue.active.is_empty() && totals.pushed > 0;
            if let Some(idle) = watch.idle.see(is_idle, now, after) {
                self.notify(turn, name, EventKind::QueueIdle { idle });
            }
        }
        if let Some(threshold) = bounds.queue_size
            && watch.large.see(size >= threshold, now, 0).is_some()
        {
            self.notify(turn, name, EventKind::QueueThreshold { size, threshold });
        }
    }

    fn look_at_workers(&mut self, turn: &mut Turn<'_>, after: Millis) {
        let before = std::mem::take(&mut self.notices.full);
        let mut full = BTreeMap::new();
        for (place, worker) in &self.workers.list {
            let view = &worker.view;
            if !self.is_full(view) {
                continue;
            }
            let is_watched = |queue: &&Arc<str>| self.notices.watched.contains_key(*queue);
            let watched: BTreeSet<_> = view.queues.iter().filter(is_watched).collect();
            if watched.is_empty() {
                continue;
            }
            let mut spell = before.get(place).copied().unwrap_or_default();
            if let Some(overloaded) = spell.see(true, self.now, after) {
                for queue in watched {
                    let load = Box::new(WorkerLoad {
                        worker: Arc::clone(&view.id),
                        name: Arc::clone(&view.name),
                        active_jobs: view.active_jobs,
                        concurrency: view.concurrency,
                        overloaded,
                    });
                    self.notify(turn, queue, EventKind::WorkerOverloaded { load });
                }
            }
            full.insert(*place, spell);
        }
        self.notices.full = full;
    }

    /// Whether a worker has said, not too long ago, that it has as many jobs as it can work on.
    fn is_full(&self, worker: &WorkerView) -> bool {
        let is_heard = self.now.saturating_sub(worker.last_seen) < self.config.worker_timeout;
        is_heard && worker.active_jobs > 0.0 && worker.active_jobs >= worker.concurrency
    }

    fn notify(&self, turn: &mut Turn<'_>, queue: &Arc<str>, kind: EventKind) {
        turn.effects.events.push(Event {
            queue: Arc::clone(queue),
            job: None,
            at: self.now,
            kind,
        });
    }
}
