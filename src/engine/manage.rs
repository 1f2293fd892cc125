//! Changes to one job (engine contract, section 16): move it, edit it, delete it.

use std::sync::Arc;

use super::deadline::Timer;
use super::event::EventKind;
use super::id::JobId;
use super::job::{FailureReason, Payload, State};
use super::outcome::{Change, Refusal, TokenGiven, Waited};
use super::report::{Fatal, Removal, check_lock};
use super::store::{EndCause, JobKey};
use super::{Engine, Turn, later};

impl Engine {
    /// Deletes a job that has not started.
    pub fn cancel(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Change {
        self.tick(turn);
        self.change(id, State::is_queued, |engine, key| {
            engine.remove_single(turn, key)
        })
    }

    /// Moves a queued or active job to the dead-letter queue without charging an attempt.
    ///
    /// # Errors
    /// [`Refusal`] when it is active under a lock that the token does not hold.
    pub fn discard(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        token: TokenGiven,
    ) -> Result<Change, Refusal> {
        self.tick(turn);
        self.take_out(id, token, |engine, key, _| {
            let now = engine.now;
            let job = engine.store.job_mut(key);
            job.record_attempt(now, FailureReason::Unknown, None);
            let fatal = Fatal {
                removal: Removal::Never,
                ..Fatal::new(FailureReason::Unknown, None)
            };
            engine.fail_for_good(turn, key, fatal);
        })
    }

    /// Replaces the data of a queued or active job; that of a completed one which repeats goes to its successor, while
    /// that is queued.
    pub fn update_data(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        data: Option<Payload>,
    ) -> Change {
        self.tick(turn);
        if let Some(key) = self.store.find(id)
            && self.store.job(key).state == State::Completed
        {
            return self.update_successor(key, data);
        }
        self.change(id, State::is_live, |engine, key| {
            engine.store.job_mut(key).data = data
        })
    }

    /// Changes the priority (and, if given, the lifo flag) of a queued job.
    pub fn change_priority(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        priority: f64,
        lifo: Option<bool>,
    ) -> Change {
        self.tick(turn);
        self.change(id, State::is_queued, |engine, key| {
            engine.unqueue(key);
            let job = engine.store.job_mut(key);
            job.priority = priority;
            job.lifo = lifo.unwrap_or(job.lifo);
            engine.enqueue(key);
        })
    }

    /// Sets the run time of a queued job, or takes an active one back until then.
    ///
    /// # Errors
    /// [`Refusal`] when it is active under a lock that the token does not hold.
    pub fn change_delay(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        delay: f64,
        token: TokenGiven,
    ) -> Result<Change, Refusal> {
        self.tick(turn);
        self.take_out(id, token, |engine, key, state| {
            if state == State::Active {
                engine.emit(turn, key, EventKind::Delayed { delay });
            }
            engine.requeue(turn, key, later(engine.now, delay));
        })
    }

    /// Makes a delayed job ready.
    pub fn promote(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Change {
        self.tick(turn);
        self.change(
            id,
            |state| state == State::Delayed,
            |engine, key| engine.make_ready(turn, key),
        )
    }

    /// Makes delayed jobs of a queue ready, oldest created first; how many.
    pub fn promote_many(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        count: Option<usize>,
    ) -> usize {
        self.tick(turn);
        let Some(queue) = self.queues.find(queue) else {
            return 0;
        };
        let mut delayed: Vec<_> = self.queues.get(queue).delayed.iter().copied().collect();
        self.sort_by_creation(&mut delayed);
        delayed.truncate(count.unwrap_or(usize::MAX));
        self.hold(turn, |engine, turn| {
            for key in &delayed {
                engine.make_ready(turn, *key);
            }
        });
        delayed.len()
    }

    /// Brings a job back to waiting: an active one without charging an attempt, a delayed one at once, a failed one
    /// with all its attempts; a waiting one stays as it is.
    ///
    /// # Errors
    /// [`Refusal`] when it is active under a lock that the token does not hold.
    pub fn move_to_wait(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        token: TokenGiven,
    ) -> Result<Change, Refusal> {
        self.tick(turn);
        let Some(key) = self.store.find(id) else {
            return Ok(Change::NotFound);
        };
        let state = self.store.job(key).state;
        match state {
            State::Waiting | State::Prioritized => {}
            State::Delayed => self.make_ready(turn, key),
            State::Active => {
                let job = self.store.job(key);
                check_lock(job, token)?;
                let run_at = job.run_at;
                self.end_delivery(key, Some(EndCause::Withdrawn));
                let prev = State::Active;
                self.emit(turn, key, EventKind::Waiting { prev });
                self.requeue(turn, key, run_at);
            }
            State::Failed if self.retry_dead_letter(turn, key) => {}
            _ => return Ok(Change::WrongState(state)),
        }
        Ok(Change::Applied)
    }

    /// Reports progress of an active job, clamped to 0..100; without a message the last one stays.
    pub fn progress(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        progress: f64,
        message: Option<Arc<str>>,
    ) -> Change {
        self.tick(turn);
        self.change(
            id,
            |state| state == State::Active,
            |engine, key| {
                engine.note_life(key);
                let progress = progress.clamp(0.0, 100.0);
                let life = engine.store.job_mut(key).life();
                life.progress = progress;
                if message.is_some() {
                    life.progress_message = message;
                }
                let message = life.progress_message.clone();
                engine.emit(turn, key, EventKind::Progress { progress, message });
            },
        )
    }

    fn change(
        &mut self,
        id: &JobId,
        allowed: impl Fn(State) -> bool,
        act: impl FnOnce(&mut Self, JobKey),
    ) -> Change {
        let Some(key) = self.store.find(id) else {
            return Change::NotFound;
        };
        let state = self.store.job(key).state;
        if !allowed(state) {
            return Change::WrongState(state);
        }
        act(self, key);
        Change::Applied
    }

    /// Takes a queued or active job from its place, if the token may, and puts it elsewhere.
    fn take_out(
        &mut self,
        id: &JobId,
        token: TokenGiven,
        put: impl FnOnce(&mut Self, JobKey, State),
    ) -> Result<Change, Refusal> {
        let Some(key) = self.store.find(id) else {
            return Ok(Change::NotFound);
        };
        let job = self.store.job(key);
        let state = job.state;
        if state == State::Active {
            check_lock(job, token)?;
            self.end_delivery(key, Some(EndCause::Withdrawn));
        } else if state.is_queued() {
            self.unqueue(key);
        } else {
            return Ok(Change::WrongState(state));
        }
        put(self, key, state);
        Ok(Change::Applied)
    }

    fn make_ready(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        self.unqueue(key);
        self.requeue(turn, key, self.now);
    }

    /// Gives a dead letter all its attempts again, unless another job owns its deduplication key.
    fn retry_dead_letter(&mut self, turn: &mut Turn<'_>, key: JobKey) -> bool {
        let now = self.now;
        let job = self.store.job(key);
        let queue = job.queue;
        let unique_key = job
            .options
            .as_ref()
            .and_then(|options| options.unique_key.as_deref());
        if unique_key.is_some_and(|unique_key| self.key_owner(queue, unique_key).is_some()) {
            return false;
        }
        self.leave_failed(key);
        let job = self.store.job_mut(key);
        job.attempts = 0;
        job.record(State::Waiting, now, None, None);
        let life = job.life();
        life.stall_count = 0;
        life.lost_in_a_row = 0;
        life.attempts.clear();
        life.ended = None;
        self.own_key(key);
        self.requeue(turn, key, now);
        true
    }

    /// Takes a dead letter out of the dead-letter queue; it then stands nowhere.
    fn leave_failed(&mut self, key: JobKey) {
        let job = self.store.job_mut(key);
        let queue = job.queue;
        let life = job.life();
        let done_seq = life.done_seq;
        if let Some(letter) = life.failure.take() {
            self.deadlines
                .remove(letter.expires_at, Timer::DeadLetter(key));
        }
        self.queues.get_mut(queue).failed.remove(&done_seq);
    }

    /// Deletes one job and says so.
    pub(super) fn remove_single(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let prev = self.store.job(key).state;
        self.emit(turn, key, EventKind::Removed { prev });
        self.delete(turn, key);
    }

    /// Deletes a job in any state with everything kept for it.
    pub(super) fn delete(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        self.release_key(key);
        self.end_job_waits(turn, key, &Waited::Removed);
        match self.store.job(key).state {
            State::Active => {
                self.end_delivery(key, None);
            }
            State::Completed => {
                let job = self.store.job_mut(key);
                let queue = job.queue;
                let done_seq = job.life().done_seq;
                self.queues.get_mut(queue).completed.remove(&done_seq);
            }
            State::Failed => self.leave_failed(key),
            State::Waiting | State::Prioritized | State::Delayed => self.unqueue(key),
            State::WaitingChildren => {}
        }
        let job = self.store.remove(key);
        self.retention
            .forget(key, job.life.as_ref().map(|life| life.done_seq));
        self.note_idle(job.queue);
    }
}
