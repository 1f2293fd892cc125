//! Changes to a whole queue (engine contract, section 16): pause, resume, drain, clean, obliterate.

use std::sync::Arc;

use super::event::EventKind;
use super::id::JobId;
use super::job::State;
use super::outcome::{Bucket, CleanState};
use super::queue::QueueKey;
use super::store::JobKey;
use super::{Engine, Millis, Turn, later};

impl Engine {
    /// Stops handing out jobs of a queue.
    pub fn pause(&mut self, turn: &mut Turn<'_>, queue: &Arc<str>) {
        self.tick(turn);
        let key = self.queues.open_listed(queue);
        self.queues.get_mut(key).paused = true;
        self.emit_of_queue(turn, key, EventKind::Paused);
    }

    /// Hands out jobs of a queue again.
    pub fn resume(&mut self, turn: &mut Turn<'_>, queue: &Arc<str>) {
        self.tick(turn);
        let key = self.queues.open(queue);
        self.emit_of_queue(turn, key, EventKind::Resumed);
        self.queues.get_mut(key).paused = false;
        self.note_idle(key);
        self.serve(turn, key);
    }

    /// Deletes every queued job of a queue; how many.
    pub fn drain(&mut self, turn: &mut Turn<'_>, queue: &str) -> usize {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return 0;
        };
        let jobs = self.queued(key);
        let count = self.delete_all(turn, jobs, |_| ());
        self.report_count(turn, key, count, |count| EventKind::Drained { count });
        count
    }

    /// Deletes jobs of a queue that are at least `grace` ms old, oldest first; which.
    pub fn clean(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        grace: f64,
        state: CleanState,
        limit: usize,
    ) -> Vec<JobId> {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return Vec::new();
        };
        let newest = later(self.now, -grace.ceil());
        let jobs: Vec<_> = self
            .old_jobs(key, state, newest)
            .into_iter()
            .take(limit)
            .collect();
        let mut ids = Vec::with_capacity(jobs.len());
        self.delete_all(turn, jobs, |id| ids.push(id.clone()));
        self.report_count(turn, key, ids.len(), |count| EventKind::Cleaned { count });
        ids
    }

    /// Deletes a queue with everything in it; how many jobs.
    pub fn obliterate(&mut self, turn: &mut Turn<'_>, queue: &str) -> usize {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return 0;
        };
        // Jobs that wait for each other in this queue go together; only others are told.
        for (_, blocked) in self.queues.get(key).blocked.clone() {
            self.untie_all(blocked);
        }
        let jobs = self.all_jobs(key);
        let count = self.delete_all(turn, jobs, |_| ());
        self.report_count(turn, key, count, |count| EventKind::Obliterated { count });
        self.drop_queue(key);
        count
    }

    /// Deletes jobs, but those that the end of an earlier one has moved elsewhere; how many.
    fn delete_all(
        &mut self,
        turn: &mut Turn<'_>,
        jobs: Vec<JobKey>,
        mut note: impl FnMut(&JobId),
    ) -> usize {
        let state = |job: &JobKey| (self.store.job(*job).seq, self.store.job(*job).state);
        let jobs: Vec<_> = jobs.into_iter().map(|job| (job, state(&job))).collect();
        let mut count = 0;
        self.hold(turn, |engine, turn| {
            for (key, (seq, state)) in jobs {
                if engine.stands(key, seq, state) {
                    note(&engine.store.job(key).id);
                    engine.delete(turn, key);
                    count += 1;
                }
            }
        });
        count
    }

    /// Whether a job that was seen in a state is still there, and in that state.
    pub(super) fn stands(&self, key: JobKey, seq: u64, state: State) -> bool {
        self.store.contains(key) && {
            let job = self.store.job(key);
            job.seq == seq && job.state == state
        }
    }

    pub(super) fn report_count(
        &mut self,
        turn: &mut Turn<'_>,
        key: QueueKey,
        count: usize,
        kind: fn(usize) -> EventKind,
    ) {
        if count > 0 {
            self.emit_of_queue(turn, key, kind(count));
        }
    }

    fn queued(&self, key: QueueKey) -> Vec<JobKey> {
        let queue = self.queues.get(key);
        queue
            .ready
            .jobs()
            .chain(queue.delayed.iter().copied())
            .collect()
    }

    pub(super) fn all_jobs(&self, key: QueueKey) -> Vec<JobKey> {
        let queue = self.queues.get(key);
        let mut jobs = self.queued(key);
        jobs.extend(
            queue
                .blocked
                .iter()
                .map(|(_, key)| key)
                .chain(&queue.active)
                .chain(queue.completed.values())
                .chain(queue.failed.values()),
        );
        jobs
    }

    /// Jobs whose relevant time is at most `newest`, oldest first.
    fn old_jobs(&self, key: QueueKey, state: CleanState, newest: Millis) -> Vec<JobKey> {
        let queue = self.queues.get(key);
        let created_before = |job: &JobKey| self.store.job(*job).created_at <= newest;
        let mut queued: Vec<JobKey> = match state {
            CleanState::Bucket(Bucket::State(State::Completed)) => {
                return queue
                    .completed
                    .values()
                    .copied()
                    .take_while(|job| self.completed_at(*job) <= newest)
                    .collect();
            }
            CleanState::Bucket(Bucket::State(State::Failed)) => {
                return queue
                    .failed
                    .values()
                    .copied()
                    .take_while(|job| self.failed_at(*job) <= newest)
                    .collect();
            }
            CleanState::Bucket(Bucket::State(State::Active | State::WaitingChildren)) => Vec::new(),
            CleanState::Bucket(Bucket::State(State::Delayed)) => {
                queue.delayed.iter().copied().collect()
            }
            CleanState::Bucket(Bucket::State(state)) => queue
                .ready
                .jobs()
                .filter(|job| self.store.job(*job).state == state)
                .collect(),
            CleanState::Bucket(Bucket::Paused) if !queue.paused => Vec::new(),
            CleanState::Bucket(Bucket::Paused) => queue.ready.jobs().collect(),
            CleanState::Queued => self.queued(key),
        };
        queued.retain(created_before);
        self.sort_by_creation(&mut queued);
        queued
    }

    fn failed_at(&self, key: JobKey) -> Millis {
        let life = self.store.job(key).life.as_ref();
        life.and_then(|life| life.failure.as_ref())
            .map_or(Millis::MIN, |letter| letter.trail.entered_at)
    }
}
