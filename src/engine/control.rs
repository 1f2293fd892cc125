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
        self.queues.note_settings(key);
        self.emit_of_queue(turn, key, EventKind::Paused);
    }

    /// Hands out jobs of a queue again.
    pub fn resume(&mut self, turn: &mut Turn<'_>, queue: &Arc<str>) {
        self.tick(turn);
        let key = self.queues.open(queue);
        self.emit_of_queue(turn, key, EventKind::Resumed);
        self.queues.get_mut(key).paused = false;
        self.queues.note_settings(key);
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
        self.delete_all(turn, &jobs);
        self.report_count(turn, key, jobs.len(), |count| EventKind::Drained { count });
        jobs.len()
    }

    /// Deletes jobs of a queue that are at least `grace` ms old, oldest first; which. Completed ones that a live job
    /// depends on stay.
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
        let jobs = self.old_jobs(key, state, newest, limit);
        let id = |key: &JobKey| self.store.job(*key).id.clone();
        let ids: Vec<_> = jobs.iter().map(id).collect();
        self.delete_all(turn, &jobs);
        self.report_count(turn, key, ids.len(), |count| EventKind::Cleaned { count });
        ids
    }

    /// Deletes a queue with everything in it; how many jobs.
    pub fn obliterate(&mut self, turn: &mut Turn<'_>, queue: &str) -> usize {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return 0;
        };
        let jobs = self.all_jobs(key);
        self.delete_all(turn, &jobs);
        self.report_count(turn, key, jobs.len(), |count| EventKind::Obliterated {
            count,
        });
        self.drop_queue(key);
        jobs.len()
    }

    /// Deletes jobs together: those among them that wait for each other go without a word, only others are told. Nobody is
    /// served before, so that none of them is handed out on its way.
    pub(super) fn delete_all(&mut self, turn: &mut Turn<'_>, jobs: &[JobKey]) {
        self.hold_on(turn, |engine, turn| {
            let mut losses: Vec<_> = jobs
                .iter()
                .filter_map(|key| {
                    let job = engine.erase(turn, *key);
                    Some((job.seq, engine.loss_of(&job)?))
                })
                .collect();
            losses.sort_unstable_by_key(|(seq, _)| *seq);
            for (_, loss) in losses {
                engine.note_consequence(loss);
            }
            engine.settle(turn);
        });
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
        let mut jobs = self.all_but_completed(key);
        jobs.extend(self.queues.get(key).completed.values());
        jobs
    }

    pub(super) fn all_but_completed(&self, key: QueueKey) -> Vec<JobKey> {
        let queue = self.queues.get(key);
        let mut jobs = self.queued(key);
        jobs.extend(
            queue
                .blocked
                .iter()
                .map(|(_, key)| key)
                .chain(&queue.active)
                .chain(queue.failed.values()),
        );
        jobs
    }

    /// The oldest jobs, at most `limit`, whose relevant time is at most `newest`, oldest first.
    fn old_jobs(
        &self,
        key: QueueKey,
        state: CleanState,
        newest: Millis,
        limit: usize,
    ) -> Vec<JobKey> {
        let queue = self.queues.get(key);
        let created_before = |job: &JobKey| self.store.job(*job).created_at <= newest;
        let mut queued: Vec<JobKey> = match state {
            CleanState::Bucket(Bucket::State(State::Completed)) => {
                return queue
                    .completed
                    .values()
                    .copied()
                    .take_while(|job| self.completed_at(*job) <= newest)
                    .filter(|job| !self.is_needed(&self.store.job(*job).id))
                    .take(limit)
                    .collect();
            }
            CleanState::Bucket(Bucket::State(State::Failed)) => {
                return queue
                    .failed
                    .values()
                    .copied()
                    .take_while(|job| self.failed_at(*job) <= newest)
                    .take(limit)
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
        self.keep_first_created(&mut queued, limit, true);
        queued
    }

    fn failed_at(&self, key: JobKey) -> Millis {
        let life = self.store.job(key).life.as_ref();
        life.and_then(|life| life.failure.as_ref())
            .map_or(Millis::MIN, |letter| letter.trail.entered_at)
    }
}
