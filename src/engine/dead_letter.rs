//! The dead-letter queue: jobs that failed for good (engine contract, section 10).
//!
//! A dead letter is its job, still in the store, with a [`DeadLetter`] in its life; its queue lists it by order of
//! entry. It has at most one entry in the deadline order: when it is tried again or when it is too old, whichever
//! comes first. A letter that is tried again by itself and fails comes back as the one it was: same place, same times,
//! whole history; what it takes with it meanwhile is its [`Trail`]. How letters run again stands in `rerun`.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::deadline::Timer;
use super::event::EventKind;
use super::id::JobId;
use super::job::{AttemptRecord, Failure, FailureReason, JobView, State};
use super::outcome::Waited;
use super::policy::DlqConfig;
use super::queue::QueueKey;
use super::report::{Fatal, Removal};
use super::store::JobKey;
use super::{Engine, Millis, Turn};

/// Ms after which a letter whose retry was refused is looked at again: the period in which the reference looks at all.
const LOOK_AGAIN_AFTER: Millis = 60_000;

/// Why a job is in the dead-letter queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeadLetter {
    pub(super) reason: FailureReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Arc<str>>,
    pub(super) trail: Trail,
    /// Where its entry in the deadline order stands; `None` while nothing will happen by itself.
    #[serde(skip)]
    pub(super) armed_at: Option<Millis>,
}

/// What a dead letter keeps through its automatic retries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Trail {
    /// Its place in the order of entry.
    pub(super) seq: u64,
    pub(super) entered_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Millis>,
    pub(super) retry_count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_retry_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next_retry_at: Option<Millis>,
}

impl Trail {
    /// When it is tried again by itself.
    fn due_at(&self, config: &DlqConfig) -> Option<Millis> {
        self.next_retry_at
            .filter(|_| config.auto_retry && self.retry_count < config.max_auto_retries)
    }
}

impl DeadLetter {
    /// How it shows outside, with the history that its job keeps.
    pub(super) fn view(&self, attempts: Vec<AttemptRecord>) -> Failure {
        Failure {
            reason: self.reason,
            error: self.error.clone(),
            seq: self.trail.seq,
            entered_at: self.trail.entered_at,
            attempts,
            retry_count: self.trail.retry_count,
            last_retry_at: self.trail.last_retry_at,
            next_retry_at: self.trail.next_retry_at,
            expires_at: self.trail.expires_at,
        }
    }
}

/// A dead letter as it leaves the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct DlqEntry {
    /// The job, failed.
    pub job: JobView,
    /// Why, when, and what becomes of it.
    pub failure: Failure,
}

/// Which dead letters are meant; what is not given does not restrict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DlqFilter {
    /// Of that reason.
    pub reason: Option<FailureReason>,
    /// Entered at that time or before.
    pub older_than: Option<Millis>,
    /// Entered at that time or later.
    pub newer_than: Option<Millis>,
    /// Due for an automatic retry that could not be made yet.
    pub retriable: bool,
    /// Too old.
    pub expired: bool,
    /// Behind the entry of that [`Failure::seq`], whether or not it is still there.
    pub after: Option<u64>,
    /// Of those, how many are skipped.
    pub offset: usize,
    /// Of the rest, how many are taken; `None` takes all.
    pub limit: Option<usize>,
}

/// The dead letters of a queue in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DlqStats {
    /// All of them.
    pub total: usize,
    /// Per reason, every reason once, in the order of [`FailureReason::ALL`].
    pub by_reason: [(FailureReason, usize); FailureReason::ALL.len()],
    /// Per queue that was asked about.
    pub by_queue: Vec<(Arc<str>, usize)>,
    /// Due for an automatic retry that could not be made yet.
    pub pending_retry: usize,
    /// Too old.
    pub expired: usize,
    /// When the first of them entered.
    pub oldest_entry: Option<Millis>,
    /// When the last of them entered.
    pub newest_entry: Option<Millis>,
}

impl Engine {
    /// Dead letters of a queue, oldest first. The cost grows with the letters that the filter looks at.
    pub fn dead_letters(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        filter: &DlqFilter,
    ) -> Vec<DlqEntry> {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return Vec::new();
        };
        let failed = &self.queues.get(key).failed;
        let letters = self.matching_letters(key, filter).into_iter();
        letters
            .filter_map(|seq| failed.get(&seq).copied())
            .filter_map(|key| {
                let failure = self.store.job(key).failure()?;
                let job = self.view(key);
                Some(DlqEntry { job, failure })
            })
            .collect()
    }

    /// The dead letters of a queue in numbers. The cost grows with them.
    pub fn dlq_stats(&mut self, turn: &mut Turn<'_>, queue: &Arc<str>) -> DlqStats {
        self.tick(turn);
        let mut stats = DlqStats {
            total: 0,
            by_reason: FailureReason::ALL.map(|reason| (reason, 0)),
            by_queue: Vec::new(),
            pending_retry: 0,
            expired: 0,
            oldest_entry: None,
            newest_entry: None,
        };
        if let Some(key) = self.queues.find(queue) {
            let config = self.dlq_config(key);
            let jobs = self.queues.get(key).failed.values();
            for letter in jobs.filter_map(|job| self.letter(*job)) {
                stats.total += 1;
                for (reason, count) in &mut stats.by_reason {
                    *count += usize::from(*reason == letter.reason);
                }
                stats.pending_retry += usize::from(self.is_retriable(letter, &config));
                stats.expired += usize::from(self.is_expired(letter));
                stats.oldest_entry.get_or_insert(letter.trail.entered_at);
                stats.newest_entry = Some(letter.trail.entered_at);
            }
        }
        stats.by_queue.push((Arc::clone(queue), stats.total));
        stats
    }

    /// Deletes all dead letters of a queue; how many.
    pub fn purge_dlq(&mut self, turn: &mut Turn<'_>, queue: &str) -> usize {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return 0;
        };
        let failed = &self.queues.get(key).failed;
        let Some(last) = failed.last_key_value().map(|(seq, _)| *seq) else {
            return 0;
        };
        // One by one: what happens to one can take others away, or bring new ones, which stay.
        let mut count = 0;
        while let Some((seq, job)) = self.queues.get(key).failed.first_key_value()
            && *seq <= last
        {
            self.delete(turn, *job);
            count += 1;
        }
        self.report_count(turn, key, count, |count| EventKind::Cleaned { count });
        count
    }

    /// Deletes one dead letter of a queue; whether there was one.
    pub fn remove_dead_letter(&mut self, turn: &mut Turn<'_>, queue: &str, id: &JobId) -> bool {
        self.tick(turn);
        let queue = self.queues.find(queue);
        let found = queue.and_then(|queue| self.find_in(queue, id, State::Failed));
        let Some(key) = found else {
            return false;
        };
        self.remove_single(turn, key);
        true
    }

    /// A job of that queue in that state.
    pub(super) fn find_in(&self, queue: QueueKey, id: &JobId, state: State) -> Option<JobKey> {
        let key = self.store.find(id)?;
        let job = self.store.job(key);
        (job.queue == queue && job.state == state).then_some(key)
    }

    /// The places of the letters that the filter means, oldest first.
    pub(super) fn matching_letters(&self, queue: QueueKey, filter: &DlqFilter) -> Vec<u64> {
        let config = self.dlq_config(queue);
        let after = filter.after.map_or(Unbounded, Excluded);
        let letters = self.queues.get(queue).failed.range((after, Unbounded));
        letters
            .filter(|(_, key)| {
                self.letter(**key)
                    .is_some_and(|letter| self.is_meant(letter, filter, &config))
            })
            .map(|(seq, _)| *seq)
            .skip(filter.offset)
            .take(filter.limit.unwrap_or(usize::MAX))
            .collect()
    }

    fn is_meant(&self, letter: &DeadLetter, filter: &DlqFilter, config: &DlqConfig) -> bool {
        let entered_at = letter.trail.entered_at;
        filter.reason.is_none_or(|reason| reason == letter.reason)
            && filter.older_than.is_none_or(|at| entered_at <= at)
            && filter.newer_than.is_none_or(|at| entered_at >= at)
            && (!filter.retriable || self.is_retriable(letter, config))
            && (!filter.expired || self.is_expired(letter))
    }

    fn is_retriable(&self, letter: &DeadLetter, config: &DlqConfig) -> bool {
        let due_at = letter.trail.due_at(config);
        due_at.is_some_and(|at| at <= self.now)
    }

    fn is_expired(&self, letter: &DeadLetter) -> bool {
        letter.trail.expires_at.is_some_and(|at| at <= self.now)
    }

    fn letter(&self, key: JobKey) -> Option<&DeadLetter> {
        self.store.job(key).life.as_ref()?.failure.as_deref()
    }

    fn letter_mut(&mut self, key: JobKey) -> Option<&mut DeadLetter> {
        self.store
            .job_mut(key)
            .life
            .as_mut()?
            .failure
            .as_deref_mut()
    }

    /// A job that stands nowhere has failed for good: it moves to the dead-letter queue, or is deleted.
    pub(super) fn fail_for_good(&mut self, turn: &mut Turn<'_>, key: JobKey, fatal: Fatal) {
        let now = self.now;
        self.release_key(key);
        self.untie_all(key);
        self.close_ties(key, false);
        let trail = self.trail(key);
        let job = self.store.job_mut(key);
        let attempts = job.attempts;
        job.state = State::Failed;
        if fatal.removal != Removal::Never {
            job.record(State::Failed, now, fatal.error.clone(), Some(attempts));
        }
        let removed = match fatal.removal {
            Removal::AsOption => job.remove_on_fail,
            Removal::Always => true,
            Removal::Never => false,
        };
        let (queue, data) = (job.queue, job.data());
        let life = job.life();
        life.done_seq = trail.seq;
        self.queues.get_mut(queue).failed.insert(trail.seq, key);
        let settled = fatal.error.clone();
        let error = fatal.event_error.or_else(|| fatal.error.clone());
        life.failure = Some(Box::new(DeadLetter {
            reason: fatal.reason,
            error: fatal.error,
            trail,
            armed_at: None,
        }));
        self.arm_dead_letter(key);
        let event = EventKind::Failed {
            error,
            data,
            terminal: true,
        };
        self.emit(turn, key, event);
        // Before a deletion, so that whoever waits for the outcome learns which one it was.
        self.end_job_waits(turn, key, &Waited::Failed);
        self.note_failure(key, settled);
        if removed {
            self.delete(turn, key);
        } else {
            self.bound_dead_letters(turn, queue);
        }
        self.settle(turn);
        self.serve(turn, queue);
    }

    /// The trail of a job that fails for good: that of the letter it has been, or a new one.
    fn trail(&mut self, key: JobKey) -> Trail {
        let job = self.store.job_mut(key);
        let queue = job.queue;
        if let Some(trail) = job.life().trail.take() {
            return *trail;
        }
        let config = self.dlq_config(queue);
        Trail {
            seq: self.next_done(),
            entered_at: self.now,
            expires_at: config.max_age.map(|age| self.now.saturating_add(age)),
            retry_count: 0,
            last_retry_at: None,
            next_retry_at: (config.auto_retry && config.max_auto_retries > 0)
                .then(|| self.now.saturating_add(config.auto_retry_interval)),
        }
    }

    /// Puts a dead letter from a store into its place.
    pub(super) fn load_failed(&mut self, key: JobKey) {
        let Some(seq) = self.letter(key).map(|letter| letter.trail.seq) else {
            return;
        };
        let queue = self.store.job(key).queue;
        self.queues.get_mut(queue).failed.insert(seq, key);
        self.note_done(seq);
        self.arm_dead_letter(key);
    }

    /// A job from a store that was a dead letter, and is tried again, takes its number back if it fails again.
    pub(super) fn note_trail(&mut self, key: JobKey) {
        let life = self.store.job(key).life.as_ref();
        if let Some(seq) = life
            .and_then(|life| life.trail.as_ref())
            .map(|trail| trail.seq)
        {
            self.note_done(seq);
        }
    }

    /// Takes a dead letter out of the dead-letter queue; its job then stands nowhere.
    pub(super) fn leave_failed(&mut self, key: JobKey) -> Option<Trail> {
        self.disarm_dead_letter(key);
        let job = self.store.job_mut(key);
        let queue = job.queue;
        let letter = job.life().failure.take()?;
        self.queues.get_mut(queue).failed.remove(&letter.trail.seq);
        Some(letter.trail)
    }

    /// Puts a dead letter's entry into the deadline order, where it has none.
    pub(super) fn arm_dead_letter(&mut self, key: JobKey) {
        let due_at = self.due_at(key);
        self.arm_retry_or_end(key, due_at);
    }

    fn due_at(&self, key: JobKey) -> Option<Millis> {
        let config = self.dlq_config(self.store.job(key).queue);
        self.letter(key)?.trail.due_at(&config)
    }

    fn arm_retry_or_end(&mut self, key: JobKey, retry_at: Option<Millis>) {
        let Some(letter) = self.letter_mut(key) else {
            return;
        };
        let ends = [retry_at, letter.trail.expires_at];
        letter.armed_at = ends.into_iter().flatten().min();
        if let Some(at) = letter.armed_at {
            let seq = letter.trail.seq;
            self.deadlines.insert(at, Timer::DeadLetter { seq, key });
        }
    }

    pub(super) fn disarm_dead_letter(&mut self, key: JobKey) {
        if let Some(letter) = self.letter_mut(key)
            && let Some(at) = letter.armed_at.take()
        {
            let seq = letter.trail.seq;
            self.deadlines.remove(at, Timer::DeadLetter { seq, key });
        }
    }

    /// A dead letter's entry, which stood at `at`, came due and was just taken out: the letter is tried again, or it is
    /// too old. Where both are due the retry comes first.
    pub(super) fn check_dead_letter(&mut self, turn: &mut Turn<'_>, key: JobKey, at: Millis) {
        let config = self.dlq_config(self.store.job(key).queue);
        let Some(letter) = self.letter_mut(key) else {
            return;
        };
        letter.armed_at = None;
        let expires_at = letter.trail.expires_at;
        let due_at = letter.trail.due_at(&config);
        if due_at.is_some_and(|due_at| due_at <= at) && self.retry_by_itself(turn, key) {
            return;
        }
        if expires_at.is_some_and(|end| end <= at) {
            self.remove_single(turn, key);
            return;
        }
        let looks_again_at = self.now.saturating_add(LOOK_AGAIN_AFTER);
        let due_at = self.due_at(key).map(|due_at| due_at.max(looks_again_at));
        self.arm_retry_or_end(key, due_at);
    }

    /// Evicts the oldest dead letters of a queue beyond its bound.
    pub(super) fn bound_dead_letters(&mut self, turn: &mut Turn<'_>, queue: QueueKey) {
        let max = self.dlq_config(queue).max_entries;
        while self.queues.get(queue).failed.len() > max {
            let oldest = self.queues.get(queue).failed.first_key_value();
            let Some(oldest) = oldest.map(|(_, key)| *key) else {
                return;
            };
            self.remove_single(turn, oldest);
        }
    }
}
