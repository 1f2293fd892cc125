//! Completed jobs whose bodies have left memory for the store.
//!
//! Of a *cold* job the engine keeps what its rules need: id, queue, place in the orders, ties. Its *body* (data, options,
//! history, result) is in the store alone. A body leaves only while everything that the engine holds is stored, so the
//! store always has the right one.
//!
//! Whatever needs the body of a cold job finds that it *misses* it, changes nothing and answers anything. Whoever executes
//! commands asks for [`Engine::missed`] after each: if something was, the answer means nothing; the bodies are to be read
//! from the store, taken in ([`Engine::warm`]), and the command executed again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::id::{JobId, LockToken};
use super::job::{JobOptions, Payload, State};
use super::outcome::Listing;
use super::persist::LifeRecord;
use super::queue::QueueKey;
use super::store::{EndCause, Job, JobKey, Spent};
use super::{Engine, Millis};

/// Bodies that leave memory at once, at most; so nobody waits long for them.
const CHILLED_AT_ONCE: usize = 4_096;

/// Which completed jobs are cold, and which may become it.
#[derive(Debug, Default)]
pub(super) struct Cold {
    jobs: BTreeMap<JobKey, Done>,
    /// The same jobs as they are listed: by queue and time of creation.
    listed: BTreeSet<(QueueKey, Millis, JobKey)>,
    /// The others whose bodies may leave, first completed first.
    whole: BTreeMap<u64, JobKey>,
    /// Those whose bodies may not, as they have a log.
    pinned: BTreeSet<JobKey>,
    /// What no store keeps: tokens of deliveries of cold jobs that ended without success.
    spent: BTreeMap<JobKey, Spent>,
    /// Jobs whose bodies were missed, by their numbers in the order of admission.
    missed: RefCell<BTreeSet<u64>>,
    /// Bodies that have left so far.
    chills: u64,
}

/// The end of a completed job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Its place in the order of completions and failures.
    pub(super) seq: u64,
    /// [`Millis::MIN`] when that is not known.
    pub(super) at: Millis,
    /// How many bodies had left when that of this job did.
    chill: u64,
}

/// The body of a completed job, as a store has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// The job.
    pub id: JobId,
    /// Its number in the order of admission.
    pub seq: u64,
    /// Its data.
    pub data: Option<Payload>,
    /// Everything rare.
    pub options: Option<Arc<JobOptions>>,
    /// What has happened to it.
    pub life: Option<Box<LifeRecord>>,
    /// Its result.
    pub result: Option<Payload>,
}

impl Cold {
    /// A completed job has a body in memory that may leave it.
    pub(super) fn enter(&mut self, done_seq: u64, key: JobKey) {
        self.whole.insert(done_seq, key);
    }

    /// A job is not completed any more, or gone.
    pub(super) fn leave(&mut self, done_seq: u64, key: JobKey, job: &Job) {
        self.whole.remove(&done_seq);
        self.pinned.remove(&key);
        self.warm_up(key, job);
    }

    /// A job is not cold any more; what was kept of it, if it was.
    fn warm_up(&mut self, key: JobKey, job: &Job) -> Option<(Done, Spent)> {
        let done = self.jobs.remove(&key)?;
        self.listed.remove(&(job.queue, job.created_at, key));
        let spent = self.spent.remove(&key).unwrap_or_default();
        Some((done, spent))
    }

    fn cool_down(&mut self, key: JobKey, job: &Job, done: Done, spent: Spent) {
        self.jobs.insert(key, done);
        self.listed.insert((job.queue, job.created_at, key));
        if !spent.is_empty() {
            self.spent.insert(key, spent);
        }
    }

    /// As [`Job::spent`], of a cold job.
    pub(super) fn spent(&self, key: JobKey, token: LockToken) -> Option<EndCause> {
        let mut spent = self.spent.get(&key)?.iter();
        spent
            .find(|(other, _)| *other == token)
            .map(|(_, cause)| *cause)
    }

    pub(super) fn contains(&self, key: JobKey) -> bool {
        self.jobs.contains_key(&key)
    }

    /// The job whose body is the next to leave when more than `max` are in memory.
    pub(super) fn surplus(&mut self, max: usize) -> Option<JobKey> {
        if self.whole.len() <= max {
            return None;
        }
        self.whole.pop_first().map(|(_, key)| key)
    }
}

impl Engine {
    /// Whether there are jobs whose bodies are in the store alone.
    pub fn has_cold_jobs(&self) -> bool {
        !self.cold.jobs.is_empty()
    }

    /// The jobs whose bodies have been missed since the last time, by [`Body::seq`]; empty when what was answered holds.
    pub fn missed(&mut self) -> Vec<u64> {
        let missed = std::mem::take(self.cold.missed.get_mut());
        missed.into_iter().collect()
    }

    /// How many bodies have left so far. What is read of the jobs that are cold now may be out of date for those that have
    /// left later.
    pub const fn chills(&self) -> u64 {
        self.cold.chills
    }

    /// Takes in bodies as they are stored now.
    pub fn warm(&mut self, bodies: Vec<Body>) {
        self.warm_as_of(bodies, u64::MAX);
    }

    /// Takes in bodies that were read after so many had left ([`Engine::chills`]). Those of jobs that are gone, no longer
    /// cold, or cold again since are passed over.
    pub fn warm_as_of(&mut self, bodies: Vec<Body>, chills: u64) {
        for body in bodies {
            let found = self.store.find(&body.id);
            let Some(key) = found.filter(|key| self.store.job(*key).seq == body.seq) else {
                continue;
            };
            let left = self.cold.jobs.get(&key).map(|done| done.chill);
            if left.is_some_and(|left| left > chills) {
                continue;
            }
            let Some((done, spent)) = self.cold.warm_up(key, self.store.job(key)) else {
                continue;
            };
            self.cold.enter(done.seq, key);
            let has_result = body.result.is_some();
            self.store.fill(key, body, spent);
            if has_result {
                self.keep_result(key);
            }
        }
    }

    /// Lets the bodies of completed jobs leave memory, first completed first, as far as more are there than may be
    /// ([`super::Config::completed_in_memory_max`]). To be called only while everything that was ever taken to be stored is
    /// stored.
    pub fn chill(&mut self) {
        let max = self.config.completed_in_memory_max;
        let mut passed = Vec::new();
        for _ in 0..CHILLED_AT_ONCE {
            let Some(key) = self.cold.surplus(max.saturating_sub(passed.len())) else {
                break;
            };
            if self.store.marks.is_touched(key) {
                passed.push(key);
            } else {
                self.let_body_go(key);
            }
        }
        for key in passed {
            let done = self.done(key);
            self.cold.enter(done.seq, key);
        }
    }

    /// The log of a job is gone, which has perhaps kept its body in memory.
    pub(super) fn note_log_gone(&mut self, key: JobKey) {
        if self.cold.pinned.remove(&key) {
            let done = self.done(key);
            self.cold.enter(done.seq, key);
        }
    }

    /// Makes a completed job cold, unless it may not become it.
    pub(super) fn let_body_go(&mut self, key: JobKey) {
        if self.retention.logs.contains_key(&key) {
            self.cold.pinned.insert(key);
            return;
        }
        self.cold.chills += 1;
        let done = Done {
            chill: self.cold.chills,
            ..self.done(key)
        };
        let spent = self.store.empty(key);
        self.retention.results.forget(key);
        self.cold.cool_down(key, self.store.job(key), done, spent);
    }

    /// The completed jobs of a queue that are not cold, in no particular order.
    pub(super) fn warm_completed(&self, queue: QueueKey) -> Vec<JobKey> {
        let completed = &self.queues.get(queue).completed;
        if !self.has_cold_jobs() {
            return completed.values().copied().collect();
        }
        let all = self.cold.whole.values().chain(&self.cold.pinned);
        let of_queue = all.filter(|key| self.store.job(**key).queue == queue);
        of_queue.copied().collect()
    }

    /// The first cold jobs of a listing: at least `wanted`, if there are so many, and all that were created in the same
    /// millisecond as the last of them.
    pub(super) fn first_cold(
        &self,
        queue: QueueKey,
        listing: &Listing,
        wanted: usize,
    ) -> Vec<JobKey> {
        let (least, most) = (JobKey::new(0), JobKey::new(u32::MAX - 1));
        let from = listing.after.as_ref().map(|(created_at, _)| *created_at);
        let mut keys = Vec::new();
        let mut last = None;
        let mut take = |(_, created_at, key): &(QueueKey, Millis, JobKey)| {
            let is_enough = keys.len() >= wanted && last != Some(*created_at);
            if !is_enough && self.is_behind(*key, listing) {
                last = Some(*created_at);
                keys.push(*key);
            }
            !is_enough
        };
        let listed = &self.cold.listed;
        if listing.ascending {
            let from = (queue, from.unwrap_or(Millis::MIN), least);
            let mut range = listed.range(from..=(queue, Millis::MAX, most));
            while range.next().is_some_and(&mut take) {}
        } else {
            let from = (queue, from.unwrap_or(Millis::MAX), most);
            let mut range = listed.range((queue, Millis::MIN, least)..=from);
            while range.next_back().is_some_and(&mut take) {}
        }
        keys
    }

    /// How a completed job ended.
    pub(super) fn done(&self, key: JobKey) -> Done {
        let cold = self.cold.jobs.get(&key).copied();
        cold.unwrap_or_else(|| Done::of(self.store.job(key)))
    }

    /// Whether each completed job has its body, or is known not to; for [`Engine::check`].
    pub(super) fn check_cold(&self) -> Result<(), String> {
        for (key, job) in self.store.all() {
            let (cold, completed) = (self.cold.contains(key), job.state == State::Completed);
            let is_bare = job.data.is_none() && job.options.is_none() && job.life.is_none();
            let is_whole = self.cold.whole.get(&self.done(key).seq) == Some(&key);
            let is_pinned = self.cold.pinned.contains(&key);
            let fits = match (completed, cold) {
                (false, _) => !cold && !is_whole && !is_pinned,
                (true, false) => job.life.is_some() && (is_whole != is_pinned),
                (true, true) => {
                    is_bare && !is_whole && !is_pinned && !self.store.marks.is_touched(key)
                }
            };
            if !fits {
                return Err(format!(
                    "the body of {}: completed {completed}, cold {cold}, bare {is_bare}, whole {is_whole}",
                    job.id
                ));
            }
        }
        let listed = |(key, _): (&JobKey, _)| {
            let job = self.store.job(*key);
            self.cold
                .listed
                .contains(&(job.queue, job.created_at, *key))
        };
        if self.cold.listed.len() != self.cold.jobs.len() || !self.cold.jobs.iter().all(listed) {
            return Err("the list of cold jobs is not that of the cold jobs".to_owned());
        }
        let known = self.cold.jobs.keys().chain(self.cold.whole.values());
        let gone = known.chain(&self.cold.pinned);
        match gone.into_iter().find(|key| !self.store.contains(**key)) {
            Some(key) => Err(format!("{key:?} is cold or whole, and no job")),
            None => Ok(()),
        }
    }

    /// Whether the body of that job is needed and not there; from then on it counts as missed.
    pub(super) fn misses(&self, key: JobKey) -> bool {
        let is_cold = self.cold.contains(key);
        if is_cold {
            let seq = self.store.job(key).seq;
            self.cold.missed.borrow_mut().insert(seq);
        }
        is_cold
    }

    /// The same for several jobs, all of which then count as missed.
    pub(super) fn misses_any(&self, keys: impl IntoIterator<Item = JobKey>) -> bool {
        self.has_cold_jobs() && keys.into_iter().filter(|key| self.misses(*key)).count() > 0
    }
}

impl Done {
    pub(super) fn of(job: &Job) -> Self {
        let life = job.life.as_deref();
        Self {
            seq: life.map_or(0, |life| life.done_seq),
            at: life
                .and_then(|life| life.completed_at)
                .unwrap_or(Millis::MIN),
            chill: 0,
        }
    }
}
