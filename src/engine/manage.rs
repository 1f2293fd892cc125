//! Changes to one job (engine contract, section 16): move it, edit it, delete it.

use std::sync::Arc;

use super::event::EventKind;
use super::id::JobId;
use super::job::{FailureReason, Payload, State};
use super::outcome::{Change, Refusal, TokenGiven, Waited};
use super::report::{Fatal, Removal, check_lock};
use super::store::{EndCause, Job, JobKey};
use super::{Engine, Turn, later};

impl Engine {
    /// Deletes a job that has not started.
    pub fn cancel(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Change {
        self.tick(turn);
        let has_not_started = |state: State| state.is_queued() || state == State::WaitingChildren;
        self.change(id, has_not_started, |engine, key| {
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
            engine.store.body_mut(key).replace_data(data);
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
            engine.change_place(key, |job| {
                job.priority = priority;
                job.lifo = lifo.unwrap_or(job.lifo);
            });
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
        self.keep_first_created(&mut delayed, count.unwrap_or(usize::MAX), true);
        let delayed: Vec<_> = delayed
            .into_iter()
            .map(|key| (key, self.store.job(key).seq))
            .collect();
        let mut promoted = 0;
        self.hold_on(turn, |engine, turn| {
            for (key, seq) in delayed {
                if engine.stands(key, seq, State::Delayed) {
                    engine.make_ready(turn, key);
                    promoted += 1;
                }
            }
        });
        promoted
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
                self.take_back(key, token)?;
                let run_at = self.store.job(key).run_at;
                let prev = State::Active;
                self.emit(turn, key, EventKind::Waiting { prev });
                self.requeue(turn, key, run_at);
            }
            State::Failed if self.retry_by_hand(turn, key) => {}
            _ => return Ok(Change::WrongState(state)),
        }
        Ok(Change::Applied)
    }

    /// Puts an active job aside, without charging an attempt, until a child is tied to it or a child's policy frees it.
    ///
    /// # Errors
    /// [`Refusal`] when it is active under a lock that the token does not hold.
    pub fn park(
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
        if state != State::Active {
            return Ok(Change::WrongState(state));
        }
        self.take_back(key, token)?;
        let now = self.now;
        let job = self.store.job_mut(key);
        let run_at = job.run_at;
        job.links.get_or_insert_default().parked = true;
        job.record(State::WaitingChildren, now, None, None);
        let prev = State::Active;
        self.emit(turn, key, EventKind::WaitingChildren { prev });
        self.requeue(turn, key, run_at);
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
        let state = self.store.job(key).state;
        if state == State::Active {
            self.take_back(key, token)?;
        } else if state.is_queued() {
            self.unqueue(key);
        } else {
            return Ok(Change::WrongState(state));
        }
        put(self, key, state);
        Ok(Change::Applied)
    }

    /// Ends a delivery on the word of whoever has it, if the token may: its worker is not lost.
    fn take_back(&mut self, key: JobKey, token: TokenGiven) -> Result<(), Refusal> {
        check_lock(self.store.job(key), token)?;
        self.end_delivery(key, Some(EndCause::Withdrawn));
        self.store.job_mut(key).life().lost_in_a_row = 0;
        Ok(())
    }

    fn make_ready(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        self.unqueue(key);
        self.requeue(turn, key, self.now);
    }

    /// Deletes one job and says so.
    pub(super) fn remove_single(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        self.emit_removed(turn, key);
        self.delete(turn, key);
    }

    pub(super) fn emit_removed(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let prev = self.store.job(key).state;
        self.emit(turn, key, EventKind::Removed { prev });
    }

    /// Deletes a job in any state with everything kept for it; whoever depends on it is told.
    pub(super) fn delete(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        self.delete_all(turn, &[key]);
    }

    /// Deletes a job for the sake of a new one with its id: whoever depends on it waits for that one.
    pub(super) fn erase(&mut self, turn: &mut Turn<'_>, key: JobKey) -> Job {
        self.release_key(key);
        self.end_job_waits(turn, key, &Waited::Removed);
        match self.store.job(key).state {
            State::Active => {
                self.end_delivery(key, None);
                let queue = self.store.job(key).queue;
                self.serve(turn, queue);
            }
            State::Completed => self.leave_completed(key),
            State::Failed => {
                self.leave_failed(key);
            }
            State::Waiting | State::Prioritized | State::Delayed | State::WaitingChildren => {
                self.unqueue(key);
            }
        }
        self.untie_all(key);
        if self.store.job(key).state.is_live() {
            self.need_none(key);
        }
        let job = self.store.remove(key);
        self.names.give_back(job.name);
        self.retention.forget(key);
        self.note_idle(job.queue);
        job
    }
}
