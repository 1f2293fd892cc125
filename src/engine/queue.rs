//! Queues: who stands where, in which order, and which names are known.
//!
//! Invariant: a job stands in exactly one of `ready`, `delayed`, `blocked`, `active`, `completed`, `failed` of its queue,
//! the one its state says; `prioritized` counts the ready jobs with a priority above zero.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use slab::Slab;

use super::deadline::Timer;
use super::job::State;
use super::outcome::{Counts, WaiterId};
use super::ready::Ready;
use super::store::JobKey;
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
    pub(super) ready: Ready,
    pub(super) prioritized: usize,
    pub(super) delayed: BTreeSet<JobKey>,
    /// Waiting for other jobs.
    pub(super) blocked: BTreeSet<JobKey>,
    pub(super) active: BTreeSet<JobKey>,
    /// By order of completion.
    pub(super) completed: BTreeMap<u64, JobKey>,
    /// By order of failure.
    pub(super) failed: BTreeMap<u64, JobKey>,
    pub(super) keys: HashMap<Arc<str>, KeyOwner>,
    /// Waiting pulls; their numbers are their order of arrival.
    pub(super) waiters: BTreeSet<WaiterId>,
    pub(super) idle_check_at: Option<Millis>,
}

impl Queue {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            listed: None,
            paused: false,
            ready: Ready::default(),
            prioritized: 0,
            delayed: BTreeSet::new(),
            blocked: BTreeSet::new(),
            active: BTreeSet::new(),
            completed: BTreeMap::new(),
            failed: BTreeMap::new(),
            keys: HashMap::new(),
            waiters: BTreeSet::new(),
            idle_check_at: None,
        }
    }

    pub(super) fn is_unused(&self) -> bool {
        !self.paused
            && self.ready.is_empty()
            && self.delayed.is_empty()
            && self.blocked.is_empty()
            && self.active.is_empty()
            && self.completed.is_empty()
            && self.failed.is_empty()
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

    pub(super) fn name(&self, key: QueueKey) -> &Arc<str> {
        &self.get(key).name
    }

    /// The queue of that name, made when there is none; unlisted until it is used.
    pub(super) fn open(&mut self, name: &Arc<str>) -> QueueKey {
        if let Some(key) = self.find(name) {
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
        }
        key
    }

    /// Known names, in order of first use.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let mut listed: Vec<_> = self
            .queues
            .iter()
            .filter_map(|(_, queue)| queue.listed.map(|place| (place, &queue.name)))
            .collect();
        listed.sort_unstable_by_key(|(place, _)| *place);
        listed
            .into_iter()
            .map(|(_, name)| Arc::clone(name))
            .collect()
    }

    fn remove(&mut self, key: QueueKey) {
        let queue = self.queues.remove(key.0 as usize);
        self.index.remove(&queue.name);
    }
}

impl Engine {
    /// Puts a job that stands nowhere among the blocked or the queued ones, by its dependencies and its run time; the
    /// caller serves waiting pulls.
    pub(super) fn enqueue(&mut self, key: JobKey) {
        let job = self.store.job_mut(key);
        let expires_at = job.expires_at();
        if let Some(at) = expires_at {
            self.deadlines.insert(at, Timer::Expire(key));
        }
        let queue = self.queues.get_mut(job.queue);
        if job.is_blocked() {
            job.state = State::WaitingChildren;
            queue.blocked.insert(key);
        } else if job.run_at > self.now {
            job.state = State::Delayed;
            queue.delayed.insert(key);
            self.deadlines.insert(job.run_at, Timer::Mature(key));
        } else {
            job.state = if job.priority > 0.0 {
                State::Prioritized
            } else {
                State::Waiting
            };
            queue.prioritized += usize::from(job.state == State::Prioritized);
            queue.ready.insert(job.ready_key(), key);
        }
    }

    /// Takes a queued or blocked job from its place; until it is put somewhere it stands nowhere.
    pub(super) fn unqueue(&mut self, key: JobKey) {
        let job = self.store.job(key);
        if let Some(at) = job.expires_at() {
            self.deadlines.remove(at, Timer::Expire(key));
        }
        self.leave_queue(key);
    }

    fn leave_queue(&mut self, key: JobKey) {
        let job = self.store.job(key);
        let queue = self.queues.get_mut(job.queue);
        match job.state {
            State::Delayed => {
                queue.delayed.remove(&key);
                self.deadlines.remove(job.run_at, Timer::Mature(key));
            }
            State::Waiting | State::Prioritized => {
                let stood = queue.ready.remove(&job.ready_key());
                debug_assert_eq!(stood, Some(key), "{:?} was not ready", job.id);
                queue.prioritized -= usize::from(job.state == State::Prioritized);
            }
            State::WaitingChildren => {
                queue.blocked.remove(&key);
            }
            State::Active | State::Completed | State::Failed => {
                debug_assert!(false, "{:?} was not queued", job.id);
            }
        }
    }

    /// A delayed job is due.
    pub(super) fn mature(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let job = self.store.job_mut(key);
        job.state = if job.priority > 0.0 {
            State::Prioritized
        } else {
            State::Waiting
        };
        let (queue_key, ready_key, prioritized) =
            (job.queue, job.ready_key(), job.state == State::Prioritized);
        let queue = self.queues.get_mut(queue_key);
        queue.delayed.remove(&key);
        queue.prioritized += usize::from(prioritized);
        queue.ready.insert(ready_key, key);
        self.serve(turn, queue_key);
    }

    /// Schedules the end of a queue's name if nothing needs it.
    pub(super) fn note_idle(&mut self, key: QueueKey) {
        let at = self.now.saturating_add(self.config.queue_idle);
        let queue = self.queues.get_mut(key);
        if queue.is_unused() && queue.idle_check_at.is_none() {
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
            if queue.waiters.is_empty() {
                self.queues.remove(key);
            }
        }
    }

    /// Forgets a queue at once; waiting pulls keep waiting for its name.
    pub(super) fn drop_queue(&mut self, key: QueueKey) {
        let queue = self.queues.get_mut(key);
        queue.listed = None;
        queue.paused = false;
        if let Some(at) = queue.idle_check_at.take() {
            self.deadlines.remove(at, Timer::Queue(key));
        }
        if self.queues.get(key).waiters.is_empty() {
            self.queues.remove(key);
        }
    }
}
