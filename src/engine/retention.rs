//! What is kept of jobs beside their state, and for how long: completed jobs, results, logs (engine contract, section
//! 14). Everything here has a bound. Completed jobs that may not get old have one entry in the deadline order, that of
//! the one which completed first.
//!
//! A completed job that a live one depends on is *needed* ([`Engine::is_needed`]): it does not go for its age, and for
//! its number only when all that are kept are needed. The needed ones stand behind the others in each order, so that
//! nobody ever passes over them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::deadline::Timer;
use super::id::JobId;
use super::job::{LogLine, Payload, State};
use super::outcome::Change;
use super::persist::Marks;
use super::store::JobKey;
use super::{Engine, Millis, Turn};

/// Log lines kept per job.
pub const LOG_LINES_MAX: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Retention {
    next_done: u64,
    /// Completed jobs over all queues, the needed ones last, and otherwise first completed first.
    pub(super) completed: BTreeMap<(bool, u64), JobKey>,
    /// Where the entry of the first of them stands in the deadline order, never after its time.
    pub(super) armed_at: Option<Millis>,
    pub(super) results: Recency,
    pub(super) logs: HashMap<JobKey, VecDeque<LogLine>>,
    pub(super) log_use: Recency,
    /// Bytes of the texts in all logs.
    pub(super) log_bytes: usize,
    next_line: u64,
    /// Lines up to this one were stored.
    kept_line: u64,
    /// Jobs whose logs have changed since.
    pub(super) log_marks: Marks<JobKey>,
}

/// Who was used last, and whether it is needed.
#[derive(Debug, Default)]
pub(super) struct Recency {
    pub(super) order: BTreeMap<(bool, u64), JobKey>,
    pub(super) stamps: HashMap<JobKey, (bool, u64)>,
    next: u64,
}

impl Recency {
    fn touch(&mut self, key: JobKey, needed: bool) {
        let stamp = (needed, self.next);
        self.next += 1;
        if let Some(old) = self.stamps.insert(key, stamp) {
            self.order.remove(&old);
        }
        self.order.insert(stamp, key);
    }

    /// Nobody needs it any more, or somebody does from now on; when it was used last stays.
    fn set_needed(&mut self, key: JobKey, needed: bool) {
        if let Some(stamp) = self.stamps.get_mut(&key) {
            self.order.remove(stamp);
            stamp.0 = needed;
            self.order.insert(*stamp, key);
        }
    }

    pub(super) fn forget(&mut self, key: JobKey) {
        if let Some(stamp) = self.stamps.remove(&key) {
            self.order.remove(&stamp);
        }
    }

    /// Takes out the least recently used one when there are more than `max`; a needed one only when all are.
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
    /// Results kept.
    pub(super) fn results(&self) -> usize {
        self.results.order.len()
    }

    /// Jobs with a log.
    pub(super) fn logged_jobs(&self) -> usize {
        self.logs.len()
    }

    /// Gives back room that is not needed.
    pub(super) fn shrink(&mut self) {
        self.results.stamps.shrink_to_fit();
        self.logs.shrink_to_fit();
        self.log_use.stamps.shrink_to_fit();
    }

    /// Drops what is kept for a job that is gone.
    pub(super) fn forget(&mut self, key: JobKey) {
        let had_log = self.drop_log(key);
        self.log_marks.forget(&key);
        if had_log {
            self.log_use.forget(key);
        }
    }

    /// No line counts as stored.
    pub(super) fn mark_all_logs(&mut self) {
        self.kept_line = 0;
        let jobs: Vec<JobKey> = self.logs.keys().copied().collect();
        jobs.into_iter().for_each(|key| self.log_marks.touch(key));
    }

    /// Takes in the log of a job from a store.
    pub(super) fn restore_log(&mut self, key: JobKey, lines: VecDeque<LogLine>) {
        if let Some(last) = lines.back() {
            self.next_line = self.next_line.max(last.seq);
            self.kept_line = self.next_line;
            self.log_bytes += lines.iter().map(LogLine::bytes).sum::<usize>();
            self.logs.insert(key, lines);
            self.log_use.touch(key, false);
        }
    }

    /// The logs that have changed since the last time: the first line that is left, and the new ones. From then on they
    /// count as stored.
    pub(super) fn take_logs(&mut self) -> Vec<(JobKey, u64, Vec<LogLine>)> {
        let kept = std::mem::replace(&mut self.kept_line, self.next_line);
        let unsaved = self.log_marks.take();
        let log = |key: JobKey| {
            let Some(lines) = self.logs.get(&key) else {
                return (key, u64::MAX, Vec::new());
            };
            let first = lines.front().map_or(u64::MAX, |line| line.seq);
            let new = lines.iter().filter(|line| line.seq > kept);
            (key, first, new.cloned().collect())
        };
        unsaved.into_iter().map(log).collect()
    }

    /// Appends a line to the log of a job, of which the newest `keep` lines stay.
    fn append(&mut self, key: JobKey, line: LogLine, keep: usize) {
        self.log_bytes += line.bytes();
        self.logs.entry(key).or_default().push_back(line);
        self.cut_log(key, keep);
        self.log_use.touch(key, false);
        self.log_marks.touch(key);
    }

    /// Drops all but the newest `keep` lines of a log.
    fn cut_log(&mut self, key: JobKey, keep: usize) {
        let Some(lines) = self.logs.get_mut(&key) else {
            return;
        };
        let surplus = lines.len().saturating_sub(keep);
        self.log_bytes -= lines
            .drain(..surplus)
            .map(|line| line.bytes())
            .sum::<usize>();
    }

    /// Drops the log of a job; whether there was one.
    fn drop_log(&mut self, key: JobKey) -> bool {
        let lines = self.logs.remove(&key);
        self.log_marks.touch(key);
        self.log_bytes -= lines.iter().flatten().map(LogLine::bytes).sum::<usize>();
        lines.is_some()
    }

    /// Drops the log that was used least recently, when there are more than `max`, or than `max_bytes` in them; whose.
    fn drop_surplus_log(&mut self, max: usize, max_bytes: usize) -> Option<JobKey> {
        if self.log_bytes <= max_bytes && self.logs.len() <= max {
            return None;
        }
        let evicted = self.log_use.evict(self.logs.len().saturating_sub(1))?;
        self.drop_log(evicted);
        Some(evicted)
    }
}

impl Engine {
    /// The next number in the order of completions and failures.
    pub(super) fn next_done(&mut self) -> u64 {
        self.retention.next_done += 1;
        self.retention.next_done
    }

    /// Keeps a completed job and its result, at the cost of the oldest ones that nobody needs.
    pub(super) fn retain_completed(
        &mut self,
        turn: &mut Turn<'_>,
        key: JobKey,
        result: Option<Payload>,
    ) {
        let needed = self.is_needed(&self.store.job(key).id);
        let life = self.store.job_mut(key).life();
        let done_seq = life.done_seq;
        if result.is_some() {
            life.result = result;
            self.keep_result(key);
        }
        self.retention.completed.insert((needed, done_seq), key);
        self.cold.enter(done_seq, key);
        self.arm_retention();
        if self.retention.completed.len() > self.config.completed_max
            && let Some((_, oldest)) = self.retention.completed.first_key_value()
        {
            self.delete(turn, *oldest);
        }
    }

    /// A result is there, at the cost of the one that was used least recently.
    pub(super) fn keep_result(&mut self, key: JobKey) {
        let needed = self.is_needed(&self.store.job(key).id);
        self.retention.results.touch(key, needed);
        if let Some(evicted) = self.retention.results.evict(self.config.results_max) {
            self.store.job_mut(evicted).life().result = None;
        }
    }

    /// Puts a completed job from a store into its place; they come in order, and once all live jobs are there.
    pub(super) fn load_completed(&mut self, key: JobKey) {
        let job = self.store.job(key);
        let needed = self.is_needed(&job.id);
        let done_seq = self.done(key).seq;
        let life = job.life.as_ref();
        if life.is_some_and(|life| life.result.is_some()) {
            self.retention.results.touch(key, needed);
        }
        self.retention.next_done = self.retention.next_done.max(done_seq);
        let queue = self.queues.get_mut(job.queue);
        queue.completed.insert(done_seq, key);
        self.retention.completed.insert((needed, done_seq), key);
    }

    /// Once all are there: as many stay as may, and their time runs.
    pub(super) fn bound_completed(&mut self, turn: &mut Turn<'_>) {
        while self.retention.completed.len() > self.config.completed_max
            && let Some((_, oldest)) = self.retention.completed.first_key_value()
        {
            self.delete(turn, *oldest);
        }
        while let Some(evicted) = self.retention.results.evict(self.config.results_max) {
            self.store.job_mut(evicted).life().result = None;
        }
        self.arm_retention();
    }

    /// A number in the order of completions and failures is taken.
    pub(super) fn note_done(&mut self, done_seq: u64) {
        self.retention.next_done = self.retention.next_done.max(done_seq);
    }

    /// A completed job is needed from now on, or no longer: it changes its place among those that are kept.
    pub(super) fn set_needed(&mut self, id: &JobId, needed: bool) {
        let found = self.store.find(id);
        let Some(key) = found.filter(|key| self.store.job(*key).state == State::Completed) else {
            return;
        };
        let done_seq = self.done(key).seq;
        // A job that is just completing is not kept yet.
        let completed = &mut self.retention.completed;
        if completed.remove(&(!needed, done_seq)).is_some() {
            completed.insert((needed, done_seq), key);
            self.retention.results.set_needed(key, needed);
            self.arm_retention();
        }
    }

    /// The completed job that goes for its age first.
    fn first_to_go(&self) -> Option<JobKey> {
        let ((needed, _), key) = self.retention.completed.first_key_value()?;
        (!needed).then_some(*key)
    }

    pub(super) fn completed_at(&self, key: JobKey) -> Millis {
        self.done(key).at
    }

    /// Takes a completed job from its place, and its result out of use; it then stands nowhere.
    pub(super) fn leave_completed(&mut self, key: JobKey) {
        let needed = self.is_needed(&self.store.job(key).id);
        let queue = self.store.job(key).queue;
        let done_seq = self.done(key).seq;
        self.queues.get_mut(queue).completed.remove(&done_seq);
        self.retention.completed.remove(&(needed, done_seq));
        self.cold.leave(done_seq, key, self.store.job(key));
        self.retention.results.forget(key);
        if self.retention.completed.is_empty() {
            self.disarm_retention();
        }
    }

    /// When a completed job may go because of its age; `None` while none may.
    fn too_old_at(&self, key: JobKey) -> Option<Millis> {
        let age = self.config.completed_retention?;
        Some(self.completed_at(key).saturating_add(age))
    }

    /// Puts the entry of the first completed job into the deadline order, unless one stands there early enough.
    fn arm_retention(&mut self) {
        let at = self.first_to_go().and_then(|key| self.too_old_at(key));
        let Some(at) = at.filter(|at| self.retention.armed_at.is_none_or(|armed| *at < armed))
        else {
            return;
        };
        self.disarm_retention();
        self.retention.armed_at = Some(at);
        self.deadlines.insert(at, Timer::Completed);
    }

    fn disarm_retention(&mut self) {
        if let Some(armed_at) = self.retention.armed_at.take() {
            self.deadlines.remove(armed_at, Timer::Completed);
        }
    }

    /// Deletes the completed jobs whose time, `at`, has come, without a word. Their entry was just taken out.
    pub(super) fn expire_completed(&mut self, turn: &mut Turn<'_>, at: Millis) {
        self.retention.armed_at = None;
        while let Some(first) = self.first_to_go()
            && self.too_old_at(first).is_some_and(|end| end <= at)
        {
            self.delete(turn, first);
        }
        self.arm_retention();
    }

    /// A result, which thereby counts as used.
    pub(super) fn read_result(&mut self, key: JobKey) -> Option<Payload> {
        if self.misses(key) {
            return None;
        }
        let job = self.store.job(key);
        let result = job.life.as_ref()?.result.clone()?;
        let needed = self.is_needed(&job.id);
        self.retention.results.touch(key, needed);
        Some(result)
    }

    /// Appends a log line; the newest 100, or fewer by the job's `keepLogs`, stay. Logs of other jobs may go for it
    /// ([`super::Config::logged_jobs_max`], [`super::Config::log_bytes_max`]).
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
        // How many lines it keeps.
        if self.misses(key) {
            return Change::NotFound;
        }
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
        let retention = &mut self.retention;
        retention.next_line += 1;
        let line = LogLine {
            seq: retention.next_line,
            at: self.now,
            level,
            message,
        };
        retention.append(key, line, keep);
        let (max, max_bytes) = (self.config.logged_jobs_max, self.config.log_bytes_max);
        while let Some(dropped) = self.retention.drop_surplus_log(max, max_bytes) {
            self.note_log_gone(dropped);
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
        self.retention.cut_log(key, keep);
        if keep == 0 {
            self.retention.forget(key);
            self.note_log_gone(key);
        }
        self.retention.log_marks.touch(key);
    }
}
