//! What is kept of jobs beside their state, and for how long: completed jobs, results, logs, dead letters
//! (engine contract, sections 10 and 14). Everything here has a bound.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::deadline::Timer;
use super::id::JobId;
use super::job::{LogLine, Payload};
use super::outcome::Change;
use super::queue::QueueKey;
use super::store::JobKey;
use super::{Engine, Turn};

/// Log lines kept per job.
pub const LOG_LINES_MAX: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Retention {
    next_done: u64,
    /// Completed jobs over all queues, oldest first.
    pub(super) completed: BTreeMap<u64, JobKey>,
    pub(super) results: Recency,
    pub(super) logs: HashMap<JobKey, VecDeque<LogLine>>,
    pub(super) log_use: Recency,
    next_line: u64,
}

/// Who was used last.
#[derive(Debug, Default)]
pub(super) struct Recency {
    pub(super) order: BTreeMap<u64, JobKey>,
    pub(super) stamps: HashMap<JobKey, u64>,
    next: u64,
}

impl Recency {
    fn touch(&mut self, key: JobKey) {
        let stamp = self.next;
        self.next += 1;
        if let Some(old) = self.stamps.insert(key, stamp) {
            self.order.remove(&old);
        }
        self.order.insert(stamp, key);
    }

    fn forget(&mut self, key: JobKey) {
        if let Some(stamp) = self.stamps.remove(&key) {
            self.order.remove(&stamp);
        }
    }

    /// Takes out the least recently used one when there are more than `max`.
    fn evict(&mut self, max: usize) -> Option<JobKey> {
        if self.order.len() <= max {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.stamps.remove(&key);
        Some(key)
    }
}

impl Retention {
    /// Drops what is kept for a job that is gone.
    pub(super) fn forget(&mut self, key: JobKey, done_seq: Option<u64>) {
        if let Some(done_seq) = done_seq
            && self.completed.get(&done_seq) == Some(&key)
        {
            self.completed.remove(&done_seq);
        }
        self.results.forget(key);
        if self.logs.remove(&key).is_some() {
            self.log_use.forget(key);
        }
    }
}

impl Engine {
    /// The next number in the order of completions and failures.
    pub(super) fn next_done(&mut self) -> u64 {
        self.retention.next_done += 1;
        self.retention.next_done
    }

    /// Keeps a completed job and its result, at the cost of the oldest ones.
    pub(super) fn retain_completed(
        &mut self,
        turn: &mut Turn<'_>,
        key: JobKey,
        result: Option<Payload>,
    ) {
        let life = self.store.job_mut(key).life();
        let done_seq = life.done_seq;
        if result.is_some() {
            life.result = result;
            self.retention.results.touch(key);
            if let Some(evicted) = self.retention.results.evict(self.config.results_max) {
                self.store.job_mut(evicted).life().result = None;
            }
        }
        self.retention.completed.insert(done_seq, key);
        if self.retention.completed.len() > self.config.completed_max
            && let Some((_, oldest)) = self.retention.completed.pop_first()
        {
            self.delete(turn, oldest);
        }
    }

    /// A result, which thereby counts as used.
    pub(super) fn read_result(&mut self, key: JobKey) -> Option<Payload> {
        let result = self.store.job(key).life.as_ref()?.result.clone()?;
        self.retention.results.touch(key);
        Some(result)
    }

    /// Evicts the oldest dead letters of a queue beyond the bound.
    pub(super) fn bound_dead_letters(&mut self, turn: &mut Turn<'_>, queue: QueueKey) {
        while self.queues.get(queue).failed.len() > self.config.dlq_max {
            let Some(oldest) = self
                .queues
                .get(queue)
                .failed
                .first_key_value()
                .map(|(_, key)| *key)
            else {
                return;
            };
            self.remove_single(turn, oldest);
        }
    }

    /// A dead letter is too old; its entry was just taken out.
    pub(super) fn expire_dead_letter(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let letter = self
            .store
            .job(key)
            .life
            .as_ref()
            .and_then(|life| life.failure.as_ref());
        if let Some(at) = letter.map(|letter| letter.expires_at) {
            self.deadlines.insert(at, Timer::DeadLetter(key));
            self.remove_single(turn, key);
        }
    }

    /// Appends a log line; the newest 100, or fewer by the job's `keepLogs`, stay.
    pub fn add_log(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        level: Arc<str>,
        message: Arc<str>,
    ) -> Change {
        self.tick(turn);
        let Some(key) = self.store.find(id) else {
            return Change::NotFound;
        };
        let keep = self
            .store
            .job(key)
            .options
            .as_ref()
            .and_then(|options| options.keep_logs);
        let keep = keep.map_or(LOG_LINES_MAX, |keep| {
            (keep.max(0.0) as usize).min(LOG_LINES_MAX)
        });
        if keep == 0 {
            return Change::Applied;
        }
        self.retention.next_line += 1;
        let lines = self.retention.logs.entry(key).or_default();
        lines.push_back(LogLine {
            seq: self.retention.next_line,
            at: self.now,
            level,
            message,
        });
        while lines.len() > keep {
            lines.pop_front();
        }
        self.retention.log_use.touch(key);
        if let Some(evicted) = self.retention.log_use.evict(self.config.logged_jobs_max) {
            self.retention.logs.remove(&evicted);
        }
        Change::Applied
    }

    /// The log of a job, oldest line first; empty for an unknown job.
    pub fn logs(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Vec<LogLine> {
        self.tick(turn);
        let lines = self
            .store
            .find(id)
            .and_then(|key| self.retention.logs.get(&key));
        lines
            .map(|lines| lines.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Deletes log lines but the newest `keep`.
    pub fn clear_logs(&mut self, turn: &mut Turn<'_>, id: &JobId, keep: usize) {
        self.tick(turn);
        let Some(key) = self.store.find(id) else {
            return;
        };
        let Some(lines) = self.retention.logs.get_mut(&key) else {
            return;
        };
        while lines.len() > keep {
            lines.pop_front();
        }
        if lines.is_empty() {
            self.retention.logs.remove(&key);
            self.retention.log_use.forget(key);
        }
    }
}
