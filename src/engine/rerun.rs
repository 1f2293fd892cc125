//! Running finished jobs again: dead letters by hand or by themselves, completed jobs (engine contract, sections 10
//! and 16).
//!
//! Whoever runs again has all its attempts and stalls before it, is due now and owns its deduplication key; while
//! another job owns that key it is refused. (A custom id cannot be owned by another: adding one deletes its finished
//! job.) Nobody is told.

use std::collections::BTreeMap;

use super::dead_letter::DlqFilter;
use super::id::JobId;
use super::job::State;
use super::queue::{Queue, QueueKey};
use super::store::JobKey;
use super::{Engine, Millis, Turn, later};

/// Doublings of the time between automatic retries after which it has reached the bound of all times.
const DOUBLINGS_MAX: u64 = 1_000;

/// Which dead letters of a queue run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DlqSelection {
    /// That job.
    One(JobId),
    /// Those that the filter lets through; without any restriction all of them.
    Matching(DlqFilter),
}

/// Which completed jobs of a queue run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletedSelection {
    /// That job.
    One(JobId),
    /// The first completed ones.
    Oldest {
        /// Completed at that time or before; `None` means any time.
        until: Option<Millis>,
        /// At most how many; `None` means all.
        limit: Option<usize>,
    },
}

impl Engine {
    /// Runs dead letters of a queue again, oldest first; how many were not refused.
    pub fn retry_dlq(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        selection: &DlqSelection,
    ) -> usize {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return 0;
        };
        let letters = match selection {
            DlqSelection::One(id) => {
                let found = self.find_in(key, id, State::Failed);
                let life = found.and_then(|key| self.store.job(key).life.as_ref());
                life.map(|life| life.done_seq).into_iter().collect()
            }
            DlqSelection::Matching(filter) => self.matching_letters(key, filter),
        };
        self.run_each(
            turn,
            key,
            letters,
            |queue| &queue.failed,
            Self::retry_by_hand,
        )
    }

    /// Runs completed jobs of a queue again, first completed first; how many were not refused.
    pub fn retry_completed(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        selection: &CompletedSelection,
    ) -> usize {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return 0;
        };
        let jobs: Vec<u64> = match selection {
            CompletedSelection::One(id) => {
                let found = self.find_in(key, id, State::Completed);
                found.map(|key| self.done(key).seq).into_iter().collect()
            }
            CompletedSelection::Oldest { until, limit } => {
                let completed = self.queues.get(key).completed.iter();
                completed
                    .take_while(|(_, job)| until.is_none_or(|at| self.completed_at(**job) <= at))
                    .map(|(seq, _)| *seq)
                    .take(limit.unwrap_or(usize::MAX))
                    .collect()
            }
        };
        let completed = &self.queues.get(key).completed;
        let keys = jobs.iter().filter_map(|place| completed.get(place));
        if self.misses_any(keys.copied()) {
            return 0;
        }
        self.run_each(
            turn,
            key,
            jobs,
            |queue| &queue.completed,
            Self::rerun_completed,
        )
    }

    /// Runs finished jobs again in one step; how many were not refused. What happens to one of them can take others of
    /// them away, so each is looked up by its place when its turn comes.
    fn run_each(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueKey,
        places: Vec<u64>,
        among: fn(&Queue) -> &BTreeMap<u64, JobKey>,
        run: fn(&mut Self, &mut Turn<'_>, JobKey) -> bool,
    ) -> usize {
        let mut count = 0;
        self.hold_on(turn, |engine, turn| {
            for place in places {
                let job = among(engine.queues.get(queue)).get(&place).copied();
                count += usize::from(job.is_some_and(|job| run(engine, turn, job)));
            }
        });
        count
    }

    /// Gives a dead letter a new life; whether it was not refused.
    pub(super) fn retry_by_hand(&mut self, turn: &mut Turn<'_>, key: JobKey) -> bool {
        if self.key_is_taken(key) {
            return false;
        }
        self.leave_failed(key);
        self.store.job_mut(key).life().attempts.clear();
        self.run_again(turn, key);
        true
    }

    /// Tries a dead letter again because its time has come; whether it was not refused.
    pub(super) fn retry_by_itself(&mut self, turn: &mut Turn<'_>, key: JobKey) -> bool {
        let now = self.now;
        let job = self.store.job_mut(key);
        if job.expires_at().is_some_and(|at| at <= now) {
            // Too old to start ever again: another retry would fail in this very moment.
            if let Some(letter) = job.life().failure.as_mut() {
                letter.trail.next_retry_at = None;
            }
            return false;
        }
        let config = self.dlq_config(self.store.job(key).queue);
        if self.key_is_taken(key) {
            return false;
        }
        let Some(mut trail) = self.leave_failed(key) else {
            return false;
        };
        trail.retry_count += 1;
        trail.last_retry_at = Some(now);
        let doublings = (trail.retry_count - 1).min(DOUBLINGS_MAX) as i32;
        let wait = config.auto_retry_interval as f64 * f64::powi(2.0, doublings);
        trail.next_retry_at =
            (trail.retry_count < config.max_auto_retries).then(|| later(now, wait));
        self.store.job_mut(key).life().trail = Some(Box::new(trail));
        self.run_again(turn, key);
        true
    }

    fn rerun_completed(&mut self, turn: &mut Turn<'_>, key: JobKey) -> bool {
        if self.key_is_taken(key) {
            return false;
        }
        self.leave_completed(key);
        let life = self.store.job_mut(key).life();
        life.completed_at = None;
        life.result = None;
        life.progress = 0.0;
        life.progress_message = None;
        life.attempts.clear();
        self.run_again(turn, key);
        true
    }

    /// Queues a finished job that stands nowhere, as if it had not run yet.
    fn run_again(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let now = self.now;
        let job = self.store.job_mut(key);
        job.attempts = 0;
        job.record(State::Waiting, now, None, None);
        let life = job.life();
        life.stall_count = 0;
        life.lost_in_a_row = 0;
        life.ended = None;
        self.own_key(key);
        self.need_all(key);
        self.requeue(turn, key, now);
    }

    /// Whether another job owns the deduplication key of a finished one.
    fn key_is_taken(&self, key: JobKey) -> bool {
        let job = self.store.job(key);
        let options = job.options.as_ref();
        let unique_key = options.and_then(|options| options.unique_key.as_deref());
        unique_key.is_some_and(|unique_key| self.key_owner(job.queue, unique_key).is_some())
    }
}
