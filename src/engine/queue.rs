//! Queues: who stands where, in which order, and which names are known.
//!
//! Invariant: a job stands in exactly one of `ready`, `delayed`, `blocked`, `active`, `completed`, `failed` of its queue,
//! the one its state says; `prioritized` counts the ready jobs with a priority above zero.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use slab::Slab;

use super::backlog::Backlog;
use super::deadline::Timer;
use super::figures::QueueFigures;
use super::job::State;
use super::limit::Limits;
use super::outcome::Counts;
use super::persist::QueueMarks;
use super::policy::{DlqConfig, StallConfig};
use super::store::{Job, JobKey};
use super::{Engine, Millis, Turn};

/// A queue's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QueueKey(u32);

/// Who owns a deduplication key, and until when.
#[derive(Debug)]
pub(super) struct KeyOwner {
    pub(super) job: JobKey,
    pub(super) expires_at: Option<Millis>,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: Arc<str>,
    /// Order of first use; `None` while nobody has used the queue but to wait for jobs.
    pub(super) listed: Option<u64>,
    pub(super) paused: bool,
    pub(super) ready: Backlog,
    pub(super) prioritized: usize,
    pub(super) delayed: BTreeSet<JobKey>,
    /// Waiting for other jobs, in order of admission.
    pub(super) blocked: BTreeSet<(u64, JobKey)>,
    pub(super) active: BTreeSet<JobKey>,
    /// By order of completion.
    pub(super) completed: BTreeMap<u64, JobKey>,
    /// By order of failure.
    pub(super) failed: BTreeMap<u64, JobKey>,
    pub(super) keys: HashMap<Arc<str>, KeyOwner>,
    pub(super) limits: Option<Box<Limits>>,
    /// Settings that differ from the broker's.
    pub(super) dlq: Option<Box<DlqConfig>>,
    pub(super) stall: Option<Box<StallConfig>>,
    pub(super) figures: QueueFigures,
    /// Queued jobs by priority, those of priority 0 left out: they are the rest.
    by_priority: BTreeMap<Priority, usize>,
    pub(super) idle_check_at: Option<Millis>,
    /// Its place among the forgotten queues, when only its figures are kept.
    pub(super) forgotten: Option<u64>,
}

/// A priority with an order: lowest first. Never zero.
#[derive(Clone, Copy, Debug)]
struct Priority(f64);

impl Ord for Priority {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Priority {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Priority {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Priority {}

impl Queue {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            listed: None,
            paused: false,
            ready: Backlog::default(),
            prioritized: 0,
            delayed: BTreeSet::new(),
            blocked: BTreeSet::new(),
            active: BTreeSet::new(),
            completed: BTreeMap::new(),
            failed: BTreeMap::new(),
            keys: HashMap::new(),
            limits: None,
            dlq: None,
            stall: None,
            figures: QueueFigures::default(),
            by_priority: BTreeMap::new(),
            idle_check_at: None,
            forgotten: None,
        }
    }

    pub(super) fn is_unused(&self) -> bool {
        !self.has_settings()
            && self.ready.is_empty()
            && self.delayed.is_empty()
            && self.blocked.is_empty()
            && self.active.is_empty()
            && self.completed.is_empty()
            && self.failed.is_empty()
            && self.ready.groups.is_empty()
    }

    /// Whether a pull waits for its jobs.
    pub(super) fn is_awaited(&self) -> bool {
        !self.ready.waiters().is_empty()
    }

    /// Whether anything is set for it that keeps its name without jobs; what is set for its groups aside.
    pub(super) fn has_settings(&self) -> bool {
        self.paused
            || self.dlq.is_some()
            || self.stall.is_some()
            || self.limits.is_some()
            || self.ready.is_in_turn()
    }

    /// Queued jobs per priority, highest first.
    pub(super) fn priorities(&self) -> Vec<(f64, usize)> {
        let zero = self.counts().queued() - self.by_priority.values().sum::<usize>();
        let others = || self.by_priority.iter().rev();
        let mut priorities = Vec::with_capacity(self.by_priority.len() + 1);
        let pairs = |(priority, count): (&Priority, &usize)| (priority.0, *count);
        priorities.extend(others().take_while(|(p, _)| p.0 > 0.0).map(pairs));
        if zero > 0 {
            priorities.push((0.0, zero));
        }
        priorities.extend(others().skip_while(|(p, _)| p.0 > 0.0).map(pairs));
        priorities
    }

    fn priority_joins(&mut self, priority: f64) {
        if priority != 0.0 {
            *self.by_priority.entry(Priority(priority)).or_default() += 1;
        }
    }

    fn priority_leaves(&mut self, priority: f64) {
        if priority != 0.0
            && let Some(count) = self.by_priority.get_mut(&Priority(priority))
        {
            *count -= 1;
            if *count == 0 {
                self.by_priority.remove(&Priority(priority));
            }
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let (waiting, prioritized) = (self.ready.len() - self.prioritized, self.prioritized);
        let ready = if self.paused {
            (0, 0, self.ready.len())
        } else {
            (waiting, prioritized, 0)
        };
        Counts {
            waiting: ready.0,
            prioritized: ready.1,
            paused: ready.2,
            delayed: self.delayed.len(),
            active: self.active.len(),
            completed: self.completed.len(),
            failed: self.failed.len(),
            waiting_children: self.blocked.len(),
        }
    }
}

/// All queues.
#[derive(Debug, Default)]
pub(super) struct Queues {
    queues: Slab<Queue>,
    pub(super) index: HashMap<Arc<str>, QueueKey>,
    next_listed: u64,
    /// Queues that have settings of their own.
    pub(super) with_settings: HashSet<QueueKey>,
    /// How many groups of all queues have.
    pub(super) groups_with_settings: usize,
    /// Queues of which only the figures are left, first forgotten first.
    forgotten: BTreeMap<u64, QueueKey>,
    next_forgotten: u64,
    /// What is to be stored.
    pub(super) marks: QueueMarks,
}

impl Queues {
    pub(super) fn find(&self, name: &str) -> Option<QueueKey> {
        self.index.get(name).copied()
    }

    /// Every queue, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = (QueueKey, &Queue)> {
        let place = |place: usize| QueueKey(place as u32);
        self.queues
            .iter()
            .map(move |(at, queue)| (place(at), queue))
    }

    /// The queue in that place. A key without a queue is a fault of the engine, not of a caller.
    #[expect(
        clippy::indexing_slicing,
        reason = "a key without a queue is a fault of the engine"
    )]
    pub(super) fn get(&self, key: QueueKey) -> &Queue {
        &self.queues[key.0 as usize]
    }

    /// As [`Queues::get`], to change it.
    #[expect(
        clippy::indexing_slicing,
        reason = "a key without a queue is a fault of the engine"
    )]
    pub(super) fn get_mut(&mut self, key: QueueKey) -> &mut Queue {
        &mut self.queues[key.0 as usize]
    }

    /// As [`Queues::get_mut`], for a key whose queue may be gone.
    pub(super) fn try_get_mut(&mut self, key: QueueKey) -> Option<&mut Queue> {
        self.queues.get_mut(key.0 as usize)
    }

    /// As [`Queues::all`], to change them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Queue)> {
        self.queues.iter_mut()
    }

    pub(super) fn shrink(&mut self) {
        self.queues.shrink_to_fit();
        self.index.shrink_to_fit();
    }

    pub(super) fn name(&self, key: QueueKey) -> &Arc<str> {
        &self.get(key).name
    }

    /// The queue of that name, made when there is none; unlisted until it is used.
    pub(super) fn open(&mut self, name: &Arc<str>) -> QueueKey {
        if let Some(key) = self.find(name) {
            if let Some(place) = self.get_mut(key).forgotten.take() {
                self.forgotten.remove(&place);
            }
            return key;
        }
        let key = QueueKey(self.queues.insert(Queue::new(Arc::clone(name))) as u32);
        self.index.insert(Arc::clone(name), key);
        key
    }

    /// As [`Queues::open`], and the name is known from now on.
    pub(super) fn open_listed(&mut self, name: &Arc<str>) -> QueueKey {
        let key = self.open(name);
        if self.get(key).listed.is_none() {
            let place = self.next_listed;
            self.next_listed += 1;
            self.get_mut(key).listed = Some(place);
            self.marks.touch(key);
        }
        key
    }

    /// Gives a queue from a store its place in the order of first use.
    pub(super) fn restore_listed(&mut self, key: QueueKey, place: u64) {
        self.next_listed = self.next_listed.max(place.saturating_add(1));
        self.get_mut(key).listed = Some(place);
    }

    /// Something was set for a queue, or is not any more.
    pub(super) fn note_settings(&mut self, key: QueueKey) {
        self.marks.touch(key);
        self.sort_settings(key);
    }

    /// Whether a queue has settings is known from now on.
    pub(super) fn sort_settings(&mut self, key: QueueKey) {
        if self.get(key).has_settings() {
            self.with_settings.insert(key);
        } else {
            self.with_settings.remove(&key);
        }
    }

    /// Queues with a known name in order of first use, the first `max` of them, and how many others there are.
    pub(super) fn listed(&self, max: usize) -> (Vec<&Queue>, usize) {
        let place = |queue: &&Queue| queue.listed;
        let queues = self.queues.iter().map(|(_, queue)| queue);
        let mut listed: Vec<_> = queues.filter(|queue| queue.listed.is_some()).collect();
        let others = listed.len().saturating_sub(max);
        if others > 0 {
            listed.select_nth_unstable_by_key(max, place);
            listed.truncate(max);
        }
        listed.sort_unstable_by_key(place);
        (listed, others)
    }

    /// Known names, in order of first use.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let (listed, _) = self.listed(usize::MAX);
        let names = listed.into_iter().map(|queue| &queue.name);
        names.map(Arc::clone).collect()
    }

    fn remove(&mut self, key: QueueKey) {
        let queue = self.queues.remove(key.0 as usize);
        self.index.remove(&queue.name);
        self.marks.end(key, &queue.name);
        if let Some(place) = queue.forgotten {
            self.forgotten.remove(&place);
        }
    }

    /// Nothing needs a queue any more: it goes, or if it has figures, once `max` others were forgotten after it.
    fn forget(&mut self, key: QueueKey, max: usize) {
        if self.get(key).figures.is_empty() {
            self.remove(key);
            return;
        }
        let place = self.next_forgotten;
        self.next_forgotten += 1;
        self.get_mut(key).forgotten = Some(place);
        self.forgotten.insert(place, key);
        if self.forgotten.len() > max
            && let Some((_, oldest)) = self.forgotten.pop_first()
        {
            self.remove(oldest);
        }
    }
}

impl Engine {
    /// Puts a job that stands nowhere among the blocked or the queued ones, by its dependencies and its run time; the
    /// caller serves waiting pulls.
    pub(super) fn enqueue(&mut self, key: JobKey) {
        let job = self.store.job_mut(key);
        let expires_at = job.expires_at();
        if let Some(at) = expires_at {
            self.deadlines.insert(at, Timer::expire(job, key));
        }
        let queue = self.queues.get_mut(job.queue);
        if job.is_blocked() {
            job.state = State::WaitingChildren;
            queue.blocked.insert((job.seq, key));
            return;
        }
        queue.priority_joins(job.priority);
        if job.run_at > self.now {
            job.state = State::Delayed;
            queue.delayed.insert(key);
            queue.ready.add_delayed(job);
            self.deadlines.insert(job.run_at, Timer::mature(job, key));
        } else {
            job.state = ready_state(job.priority);
            queue.prioritized += usize::from(job.state == State::Prioritized);
            queue.ready.insert(job, key);
        }
    }

    /// Takes a queued or blocked job from its place; until it is put somewhere it stands nowhere.
    pub(super) fn unqueue(&mut self, key: JobKey) {
        let job = self.store.job(key);
        if let Some(at) = job.expires_at() {
            self.deadlines.remove(at, Timer::expire(job, key));
        }
        self.leave_queue(key);
    }

    fn leave_queue(&mut self, key: JobKey) {
        let job = self.store.job(key);
        let queue = self.queues.get_mut(job.queue);
        if job.state != State::WaitingChildren {
            queue.priority_leaves(job.priority);
        }
        match job.state {
            State::Delayed => {
                queue.delayed.remove(&key);
                queue.ready.remove_delayed(job);
                self.deadlines.remove(job.run_at, Timer::mature(job, key));
            }
            State::Waiting | State::Prioritized => {
                let stood = queue.ready.remove(job);
                debug_assert_eq!(stood, Some(key), "{:?} was not ready", job.id);
                queue.prioritized -= usize::from(job.state == State::Prioritized);
            }
            State::WaitingChildren => {
                queue.blocked.remove(&(job.seq, key));
            }
            State::Active | State::Completed | State::Failed => {
                debug_assert!(false, "{:?} was not queued", job.id);
            }
        }
    }

    /// A delayed job is due.
    pub(super) fn mature(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let job = self.store.job_mut(key);
        job.state = ready_state(job.priority);
        let queue_key = job.queue;
        let queue = self.queues.get_mut(queue_key);
        queue.delayed.remove(&key);
        queue.prioritized += usize::from(job.state == State::Prioritized);
        queue.ready.insert(job, key);
        queue.ready.remove_delayed(job);
        self.serve(turn, queue_key);
    }

    /// Changes what decides the place of a queued job among the ready ones, now or later.
    pub(super) fn change_place(&mut self, key: JobKey, change: impl FnOnce(&mut Job)) {
        let job = self.store.job_mut(key);
        let (before, prioritized) = (job.ready_key(), job.state == State::Prioritized);
        let queue = self.queues.get_mut(job.queue);
        queue.priority_leaves(job.priority);
        change(job);
        queue.priority_joins(job.priority);
        if job.state == State::Delayed {
            return;
        }
        job.state = ready_state(job.priority);
        queue.prioritized -= usize::from(prioritized);
        queue.prioritized += usize::from(job.state == State::Prioritized);
        queue.ready.replace(job, &before, key);
    }

    /// Schedules the end of a queue's name if nothing needs it.
    pub(super) fn note_idle(&mut self, key: QueueKey) {
        let at = self.now.saturating_add(self.config.queue_idle);
        let queue = self.queues.get_mut(key);
        let on_its_way = queue.idle_check_at.is_some() || queue.forgotten.is_some();
        if queue.is_unused() && !on_its_way {
            queue.idle_check_at = Some(at);
            self.deadlines.insert(at, Timer::Queue(key));
        }
    }

    /// A queue was empty a while ago: if it still is, its name goes, and with nobody waiting the queue itself.
    pub(super) fn drop_idle_queue(&mut self, key: QueueKey) {
        let queue = self.queues.get_mut(key);
        queue.idle_check_at = None;
        if queue.is_unused() {
            queue.listed = None;
            self.queues.marks.touch(key);
            let queue = self.queues.get(key);
            if !queue.is_awaited() && queue.forgotten.is_none() {
                self.queues.forget(key, self.config.forgotten_max);
            }
        }
    }

    /// Forgets a queue at once; waiting pulls keep waiting for its name.
    pub(super) fn drop_queue(&mut self, key: QueueKey) {
        self.drop_limits(key);
        self.drop_groups(key);
        let queue = self.queues.get_mut(key);
        queue.listed = None;
        queue.paused = false;
        queue.dlq = None;
        queue.stall = None;
        queue.figures = QueueFigures::default();
        let name = Arc::clone(&queue.name);
        self.queues.marks.end(key, &name);
        self.queues.note_settings(key);
        let queue = self.queues.get_mut(key);
        if let Some(at) = queue.idle_check_at.take() {
            self.deadlines.remove(at, Timer::Queue(key));
        }
        if !self.queues.get(key).is_awaited() {
            self.queues.remove(key);
        }
    }
}

/// The state of a ready job of that priority.
fn ready_state(priority: f64) -> State {
    if priority > 0.0 {
        State::Prioritized
    } else {
        State::Waiting
    }
}
