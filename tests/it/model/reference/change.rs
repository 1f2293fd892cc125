//! Changes to single jobs and to whole queues (sections 14 and 16).

use std::sync::Arc;

use bunqueue_mcp::command::{Clean, Command, Removed, Reply};
use bunqueue_mcp::engine::{
    Bucket, Change, CleanState, EventKind, FailureReason, JobId, LogLine, Millis, Refusal, State,
    TokenGiven,
};

use super::{Place, Reference};

impl Reference {
    /// Runs a command that changes something; `None` for all others.
    pub(super) fn change(&mut self, command: &Command) -> Option<Result<Reply, Refusal>> {
        let reply = match command {
            Command::Cancel(cancel) => Reply::Changed(self.cancel(&cancel.id)),
            Command::Discard(discard) => {
                return Some(self.discard(&discard.id, discard.token).map(Reply::Changed));
            }
            Command::UpdateData(update) if self.is_completed(&update.id) => {
                let at = self.find(&update.id).expect("it is completed");
                Reply::Changed(self.update_successor(at, &update.data))
            }
            Command::UpdateData(update) => Reply::Changed(
                self.alter(&update.id, true, |job| job.data.clone_from(&update.data)),
            ),
            Command::ChangePriority(change) => {
                Reply::Changed(self.alter(&change.id, false, |job| {
                    job.priority = change.priority;
                    job.lifo = change.lifo.unwrap_or(job.lifo);
                }))
            }
            Command::ChangeDelay(change) => {
                return Some(
                    self.change_delay(&change.id, change.delay, change.token)
                        .map(Reply::Changed),
                );
            }
            Command::Promote(promote) => Reply::Changed(self.promote(&promote.id)),
            Command::PromoteMany(many) => {
                let mut delayed =
                    self.queued_in(many.queue.as_str(), |state| state == State::Delayed);
                delayed.truncate(many.count.unwrap_or(usize::MAX));
                Reply::Counted(
                    delayed
                        .iter()
                        .filter(|id| self.promote(id) == Change::Applied)
                        .count(),
                )
            }
            Command::MoveToWait(change) => {
                return Some(
                    self.move_to_wait(&change.id, change.token)
                        .map(Reply::Changed),
                );
            }
            Command::Progress(progress) => Reply::Changed(self.progress(
                &progress.id,
                progress.progress,
                progress.message.as_ref(),
            )),
            Command::AddLog(log) => {
                let line = LogLine {
                    seq: 0,
                    at: self.now,
                    level: Arc::clone(&log.level),
                    message: Arc::clone(&log.message),
                };
                Reply::Changed(self.add_log(&log.id, line))
            }
            Command::ClearLogs(clear) => {
                if let Some(at) = self.find(&clear.id) {
                    keep_newest(&mut self.jobs[at].logs, clear.keep);
                }
                Reply::Done(())
            }
            Command::Pause(pause) => {
                self.touch_queue(&pause.queue.shared()).paused = true;
                self.note_emptiness();
                self.emit(&pause.queue.shared(), None, EventKind::Paused);
                Reply::Done(())
            }
            Command::Resume(resume) => {
                for queue in self
                    .queues
                    .iter_mut()
                    .filter(|queue| queue.name == resume.queue.shared())
                {
                    queue.paused = false;
                }
                self.note_emptiness();
                self.emit(&resume.queue.shared(), None, EventKind::Resumed);
                Reply::Done(())
            }
            Command::Drain(drain) => {
                let ids = self.queued_in(drain.queue.as_str(), State::is_queued);
                self.delete_all(&ids);
                if !ids.is_empty() {
                    self.emit(
                        &drain.queue.shared(),
                        None,
                        EventKind::Drained { count: ids.len() },
                    );
                }
                Reply::Removed(Removed {
                    count: ids.len(),
                    ids: Vec::new(),
                })
            }
            Command::Clean(clean) => Reply::Removed(self.clean(clean)),
            Command::Obliterate(obliterate) => {
                let queue = obliterate.queue.shared();
                let held = self.jobs.iter().filter(|job| job.view.queue == queue);
                let ids: Vec<JobId> = held.map(|job| job.view.id.clone()).collect();
                self.delete_all(&ids);
                self.queues.retain(|entry| entry.name != queue);
                self.forget_groups(&queue);
                if !ids.is_empty() {
                    self.emit(&queue, None, EventKind::Obliterated { count: ids.len() });
                }
                Reply::Removed(Removed {
                    count: ids.len(),
                    ids: Vec::new(),
                })
            }
            Command::RemoveDedupKey(remove) => {
                self.forget_expired_keys();
                let before = self.keys.len();
                self.keys
                    .retain(|key| key.queue != remove.queue.shared() || key.key != remove.key);
                Reply::Counted(before - self.keys.len())
            }
            Command::RemoveJobDedupKey(remove) => {
                self.forget_expired_keys();
                let before = self.keys.len();
                self.release_key(&remove.id);
                Reply::Flag(self.keys.len() < before)
            }
            _ => return None,
        };
        Some(Ok(reply))
    }

    /// Queued jobs of a queue in some states, oldest first.
    fn queued_in(&self, queue: &str, wanted: impl Fn(State) -> bool) -> Vec<JobId> {
        let mut found: Vec<_> = (0..self.jobs.len())
            .filter(|at| {
                &*self.jobs[*at].view.queue == queue
                    && matches!(self.jobs[*at].place, Place::Queued)
            })
            .filter(|at| wanted(self.state_at(*at)))
            .map(|at| (self.jobs[at].view.created_at, self.jobs[at].view.id.clone()))
            .collect();
        found.sort();
        found.into_iter().map(|(_, id)| id).collect()
    }

    fn is_completed(&self, id: &JobId) -> bool {
        self.state(id) == Some(State::Completed)
    }

    fn cancel(&mut self, id: &JobId) -> Change {
        let Some(at) = self.find(id) else {
            return Change::NotFound;
        };
        let prev = self.state_at(at);
        if !prev.is_queued() && prev != State::WaitingChildren {
            return Change::WrongState(prev);
        }
        self.emit_for(at, EventKind::Removed { prev });
        self.delete(at);
        Change::Applied
    }

    fn discard(&mut self, id: &JobId, token: TokenGiven) -> Result<Change, Refusal> {
        let Some(at) = self.find(id) else {
            return Ok(Change::NotFound);
        };
        match self.state_at(at) {
            State::Waiting | State::Prioritized | State::Delayed => {}
            State::Active => self.held(at, token)?,
            state => return Ok(Change::WrongState(state)),
        }
        self.end(at, FailureReason::Unknown, None);
        Ok(Change::Applied)
    }

    /// Alters a queued job, or an active or blocked one where that is allowed.
    fn alter(
        &mut self,
        id: &JobId,
        started_or_blocked: bool,
        alter: impl FnOnce(&mut bunqueue_mcp::engine::JobView),
    ) -> Change {
        let Some(at) = self.find(id) else {
            return Change::NotFound;
        };
        match self.state_at(at) {
            State::Waiting | State::Prioritized | State::Delayed => {}
            State::Active | State::WaitingChildren if started_or_blocked => {}
            state => return Change::WrongState(state),
        }
        alter(&mut self.jobs[at].view);
        Change::Applied
    }

    fn change_delay(
        &mut self,
        id: &JobId,
        delay: f64,
        token: TokenGiven,
    ) -> Result<Change, Refusal> {
        let Some(at) = self.find(id) else {
            return Ok(Change::NotFound);
        };
        match self.state_at(at) {
            State::Waiting | State::Prioritized | State::Delayed => {
                // It is queued anew, and so is its group when that has no other ready job.
                self.jobs[at].ripe = false;
                self.note_turns();
            }
            State::Active => {
                self.held(at, token)?;
                self.emit_for(at, EventKind::Delayed { delay });
            }
            state => return Ok(Change::WrongState(state)),
        }
        self.jobs[at].view.run_at = self.now + delay.ceil() as Millis;
        self.enqueue(at);
        Ok(Change::Applied)
    }

    fn promote(&mut self, id: &JobId) -> Change {
        let Some(at) = self.find(id) else {
            return Change::NotFound;
        };
        let state = self.state_at(at);
        if state != State::Delayed {
            return Change::WrongState(state);
        }
        self.jobs[at].view.run_at = self.now;
        self.enqueue(at);
        Change::Applied
    }

    fn move_to_wait(&mut self, id: &JobId, token: TokenGiven) -> Result<Change, Refusal> {
        let Some(at) = self.find(id) else {
            return Ok(Change::NotFound);
        };
        match self.state_at(at) {
            State::Waiting | State::Prioritized => {}
            State::Delayed => return Ok(self.promote(id)),
            State::Active => {
                self.held(at, token)?;
                self.emit_for(
                    at,
                    EventKind::Waiting {
                        prev: State::Active,
                    },
                );
                self.enqueue(at);
            }
            State::Failed if self.retry_by_hand(at) => {}
            State::Failed => return Ok(Change::WrongState(State::Failed)),
            state @ (State::Completed | State::WaitingChildren) => {
                return Ok(Change::WrongState(state));
            }
        }
        Ok(Change::Applied)
    }

    fn progress(&mut self, id: &JobId, progress: f64, message: Option<&Arc<str>>) -> Change {
        let Some(at) = self.find(id) else {
            return Change::NotFound;
        };
        let state = self.state_at(at);
        let (now, job) = (self.now, &mut self.jobs[at]);
        if state != State::Active {
            return Change::WrongState(state);
        }
        job.lost = 0;
        job.view.last_heartbeat = now;
        job.view.progress = progress.clamp(0.0, 100.0);
        if let Some(message) = message {
            job.view.progress_message = Some(Arc::clone(message));
        }
        let (progress, message) = (job.view.progress, job.view.progress_message.clone());
        self.emit_for(at, EventKind::Progress { progress, message });
        Change::Applied
    }

    fn add_log(&mut self, id: &JobId, mut line: LogLine) -> Change {
        let Some(at) = self.find(id) else {
            return Change::NotFound;
        };
        let job = &mut self.jobs[at];
        let kept = job
            .view
            .options
            .keep_logs
            .map_or(100, |kept| kept.clamp(0.0, 100.0) as usize);
        if kept > 0 {
            self.next_line += 1;
        }
        line.seq = self.next_line;
        job.logs.push(line);
        keep_newest(&mut job.logs, kept);
        if kept > 0 {
            self.use_log(at);
        }
        Change::Applied
    }

    fn clean(&mut self, clean: &Clean) -> Removed {
        let queue = clean.queue.as_str();
        let (grace, now) = (clean.grace, self.now as f64);
        let old = |at: Millis| at as f64 <= now - grace;
        let born =
            |model: &Self, id: &JobId| old(model.job(id).expect("found before").view.created_at);
        let mut ids = match clean.state {
            CleanState::Queued => self.queued_in(queue, State::is_queued),
            CleanState::Bucket(Bucket::Paused) if self.paused(queue) => {
                self.queued_in(queue, |state| state.is_queued() && state != State::Delayed)
            }
            CleanState::Bucket(Bucket::State(state)) if state.is_queued() => {
                self.queued_in(queue, |own| own == state)
            }
            CleanState::Bucket(Bucket::State(State::Completed)) => {
                let done = self
                    .completed
                    .iter()
                    .filter_map(|id| self.job(id))
                    .filter(|job| &*job.view.queue == queue);
                done.filter(|job| job.view.completed_at.is_some_and(old))
                    .filter(|job| !self.is_needed(&job.view.id))
                    .map(|job| job.view.id.clone())
                    .collect()
            }
            CleanState::Bucket(Bucket::State(State::Failed)) => {
                let letters = self
                    .dead_letters(queue)
                    .into_iter()
                    .map(|at| &self.jobs[at]);
                let old = letters.filter(
                    |job| matches!(&job.place, Place::Failed(failure) if old(failure.entered_at)),
                );
                old.map(|job| job.view.id.clone()).collect()
            }
            CleanState::Bucket(_) => Vec::new(),
        };
        if matches!(
            clean.state,
            CleanState::Queued | CleanState::Bucket(Bucket::Paused)
        ) || matches!(clean.state, CleanState::Bucket(Bucket::State(state)) if state.is_queued())
        {
            ids.retain(|id| born(self, id));
        }
        ids.truncate(clean.limit);
        self.delete_all(&ids);
        if !ids.is_empty() {
            self.emit(
                &clean.queue.shared(),
                None,
                EventKind::Cleaned { count: ids.len() },
            );
        }
        Removed {
            count: ids.len(),
            ids,
        }
    }
}

fn keep_newest(logs: &mut Vec<LogLine>, kept: usize) {
    logs.drain(..logs.len().saturating_sub(kept));
}
