//! Deliveries and what workers report about them (sections 7 to 9).

use std::sync::Arc;

use bunqueue_mcp::command::{Ack, CommandError, Fail, Pull, Renew, Reply, WaitJob};
use bunqueue_mcp::engine::{
    AttemptRecord, BackoffKind, Caller, ConnectionId, Delivery, EventKind, FailureReason, JobId,
    Millis, Payload, PullGroup, Refusal, Renewal, Report, Served, State, TimelineEntry, TokenGiven,
    WaitFor, Waited,
};

use super::{Active, Answer, Place, Reference, Waiter, Wish};

/// On what ground somebody reports on a job.
enum Claim {
    /// As the holder of the current delivery.
    Current(usize),
    /// As the holder of the last delivery, which ended by fail, lock expiry or stall.
    Late(usize),
    /// As the holder of a delivery that a timeout has ended.
    Finalized,
}

impl Reference {
    pub(super) fn pull(&mut self, caller: Caller, pull: &Pull) -> Answer {
        let wish = Wish::Jobs {
            queue: pull.queue.shared(),
            count: pull.count,
            locked: pull.locked,
            lock_ttl: pull.lock_ttl.ceil() as Millis,
            detach: pull.detach && !pull.locked,
            group: pull.group.clone(),
        };
        let deliveries = self.take(caller, &wish);
        if deliveries.is_empty() && pull.wait > 0 {
            self.start_wait(caller, pull.wait, wish)
        } else {
            Answer::Done(Ok(Reply::Pulled(deliveries)))
        }
    }

    fn start_wait(&mut self, caller: Caller, ms: Millis, wish: Wish) -> Answer {
        if let Some(id) = self.learned.waiter {
            self.waiters.push(Waiter {
                id,
                caller,
                deadline: self.now + ms,
                wish,
            });
        }
        Answer::Waiting
    }

    pub(super) fn wait_job(&mut self, caller: Caller, wait: &WaitJob) -> Answer {
        if let Some(at) = self.find(&wait.id) {
            self.use_result(at);
        }
        let waited = match self.job(&wait.id) {
            None => Waited::NotFound,
            Some(job) => match job.place {
                Place::Completed => Waited::Completed {
                    result: job.result.clone(),
                },
                Place::Failed(_) if wait.until == WaitFor::Outcome => Waited::Failed,
                _ if wait.timeout <= 0 => Waited::TimedOut,
                _ => {
                    let wish = Wish::End {
                        id: wait.id.clone(),
                        until: wait.until,
                    };
                    return self.start_wait(caller, wait.timeout, wish);
                }
            },
        };
        Answer::Done(Ok(Reply::Waited(waited)))
    }

    /// Serves all waiting pulls.
    pub(super) fn hand_off_everywhere(&mut self) {
        let queues = self.queues.iter().map(|queue| Arc::clone(&queue.name));
        self.touched = queues.collect();
        self.hand_off();
    }

    /// Serves waiting pulls of queues in which something has happened, longest wait first, with what is ready; whether
    /// anything happened.
    pub(super) fn hand_off(&mut self) -> bool {
        let touched = std::mem::take(&mut self.touched);
        let before = (self.served.len(), self.events.len());
        let mut at = 0;
        while at < self.waiters.len() {
            let Waiter {
                id, caller, wish, ..
            } = self.waiters[at].clone();
            let concerned = matches!(&wish, Wish::Jobs { queue, .. } if touched.contains(queue));
            let deliveries = if concerned {
                self.take(caller, &wish)
            } else {
                Vec::new()
            };
            if deliveries.is_empty() {
                at += 1;
            } else {
                self.waiters.remove(at);
                self.served.push((id, Served::Pull(deliveries)));
            }
        }
        self.note_awaited_tokens(&touched);
        (self.served.len(), self.events.len()) > before
    }

    /// Delivers the best ready jobs of a queue that is not paused.
    fn take(&mut self, caller: Caller, wish: &Wish) -> Vec<Delivery> {
        let Wish::Jobs {
            queue,
            count,
            locked,
            lock_ttl,
            detach,
            group,
        } = wish
        else {
            return Vec::new();
        };
        let mut deliveries = Vec::new();
        while deliveries.len() < *count && !self.paused(queue) && self.has_slot(queue) {
            let Some(best) = self.candidate(queue, group.as_deref()) else {
                break;
            };
            if self.is_expired(best) {
                let error = Some("Job TTL expired".into());
                self.end(best, FailureReason::TtlExpired, error);
                continue;
            }
            if !self.has_token(queue) {
                break;
            }
            let connection = if *detach { None } else { caller };
            deliveries.push(self.deliver(best, *locked, *lock_ttl, connection, group.as_deref()));
        }
        deliveries
    }

    /// Section 5: priority, newest lifo, then run time and admission.
    pub(super) fn order(&self, one: usize, two: usize) -> std::cmp::Ordering {
        let (one, two) = (&self.jobs[one], &self.jobs[two]);
        let by_age = if one.view.lifo {
            two.seq.cmp(&one.seq)
        } else {
            one.view
                .run_at
                .cmp(&two.view.run_at)
                .then(one.seq.cmp(&two.seq))
        };
        let by_priority = two
            .view
            .priority
            .partial_cmp(&one.view.priority)
            .expect("priorities are finite");
        by_priority
            .then(two.view.lifo.cmp(&one.view.lifo))
            .then(by_age)
    }

    fn deliver(
        &mut self,
        at: usize,
        locked: bool,
        lock_ttl: Millis,
        connection: Caller,
        group: Option<&PullGroup>,
    ) -> Delivery {
        let (now, id) = (self.now, self.jobs[at].view.id.clone());
        let told = self
            .learned
            .deliveries
            .iter()
            .position(|(job, ..)| *job == id);
        let (serial, token) = told.map_or((0, None), |told| {
            let (_, serial, token) = self.learned.deliveries.remove(told);
            (serial, token.filter(|_| locked))
        });
        self.note(at, State::Active, None, None);
        self.emit_for(at, EventKind::Pulled);
        let turn = self.count_delivery(at, group, serial);
        let job = &mut self.jobs[at];
        let before = (
            job.late_token.take(),
            std::mem::take(&mut job.finalized_unlocked),
            job.view.last_heartbeat,
        );
        job.view.started_at = Some(now);
        job.view.last_heartbeat = now;
        let expires_at = now + lock_ttl;
        job.place = Place::Active(Active {
            serial,
            token,
            expires_at,
            lock_ttl,
            renewals: 0,
            connection,
            limited: group.is_some_and(|group| group.limit.is_some()),
            turn,
            before,
        });
        self.note_turns();
        Delivery {
            job: self.show(at),
            token,
            serial,
            // The engine counts from 0.
            seq: self.jobs[at].seq - 1,
        }
    }

    fn claim(&self, id: &JobId, token: TokenGiven) -> Result<Claim, Refusal> {
        let Some(at) = self.find(id) else {
            let discarded =
                |(other, gone): &(_, JobId)| token == TokenGiven::Token(*other) && gone == id;
            if self.discarded.iter().any(discarded) {
                return Ok(Claim::Finalized);
            }
            return Err(Refusal::NotActive(id.clone()));
        };
        let job = &self.jobs[at];
        let token = match token {
            TokenGiven::None => None,
            TokenGiven::Token(token) => Some(Some(token)),
            TokenGiven::Malformed => Some(None),
        };
        let spent = token
            .flatten()
            .and_then(|token| job.spent.iter().find(|(other, _)| *other == token));
        if matches!(spent, Some((_, true))) {
            return Ok(Claim::Finalized);
        }
        match &job.place {
            Place::Active(active) => match (active.token, token) {
                (None, _) if spent.is_some() => Err(Refusal::TokenInvalid(id.clone())),
                (None, _) => Ok(Claim::Current(at)),
                (Some(_), None) => Err(Refusal::TokenRequired(id.clone())),
                (Some(lock), Some(Some(token))) if lock == token => Ok(Claim::Current(at)),
                (Some(_), Some(_)) => Err(Refusal::TokenInvalid(id.clone())),
            },
            _ if job.finalized_unlocked => Ok(Claim::Finalized),
            Place::Queued
                if !job.ties.waiting
                    && job.late_token.is_some()
                    && token == Some(job.late_token) =>
            {
                Ok(Claim::Late(at))
            }
            _ => Err(Refusal::NotActive(id.clone())),
        }
    }

    /// Whether the token lets its bearer move or discard an active job.
    /// Whether the token may take the job back from its worker, which is not lost then.
    pub(super) fn held(&mut self, at: usize, token: TokenGiven) -> Result<(), Refusal> {
        let id = self.jobs[at].view.id.clone();
        match (&self.jobs[at].place, token) {
            (Place::Active(Active { token: Some(_), .. }), TokenGiven::None) => {
                Err(Refusal::TokenRequired(id))
            }
            (
                Place::Active(Active {
                    token: Some(lock), ..
                }),
                token,
            ) if token != TokenGiven::Token(*lock) => Err(Refusal::TokenInvalid(id)),
            (Place::Active(_), TokenGiven::Token(token))
                if self.jobs[at].spent.iter().any(|(other, _)| *other == token) =>
            {
                Err(Refusal::TokenInvalid(id))
            }
            _ => {
                self.jobs[at].lost = 0;
                Ok(())
            }
        }
    }

    pub(super) fn ack(&mut self, ack: &Ack) -> Result<Report, Refusal> {
        match self.claim(&ack.id, ack.token)? {
            Claim::Current(at) | Claim::Late(at) => {
                self.complete(at, ack.result.clone(), ack.remove_on_complete);
                Ok(Report::Applied)
            }
            Claim::Finalized => Ok(Report::AlreadyFinalized),
        }
    }

    pub(super) fn ack_many(
        &mut self,
        items: &[Ack],
    ) -> Result<Vec<Result<Report, CommandError>>, Refusal> {
        for item in items {
            if let Err(refusal @ (Refusal::TokenRequired(_) | Refusal::TokenInvalid(_))) =
                self.claim(&item.id, item.token)
            {
                return Err(refusal);
            }
        }
        Ok(items
            .iter()
            .map(|item| self.ack(item).map_err(CommandError::Refused))
            .collect())
    }

    fn complete(&mut self, at: usize, result: Option<Payload>, remove: bool) {
        let now = self.now;
        let started_at = self.jobs[at].view.started_at;
        self.figures.worked.extend(started_at.map(|at| now - at));
        self.note(at, State::Completed, None, None);
        self.emit_for(
            at,
            EventKind::Completed {
                result: result.clone(),
            },
        );
        let id = self.jobs[at].view.id.clone();
        self.release_key(&id);
        self.next_done += 1;
        self.jobs[at].done_seq = self.next_done;
        // It stands nowhere now, so that nobody finds it while its successor comes.
        self.jobs[at].place = Place::Completed;
        self.note_turns();
        self.add_successor(at);
        let at = self.find(&id).expect("it was just completed");
        self.tell_completion(at, result.as_ref());
        self.untie(at, true);
        if remove || self.jobs[at].view.remove_on_complete {
            self.remember(&id);
            self.remove(at, &Waited::Completed { result: None });
            self.spread();
            return;
        }
        let job = &mut self.jobs[at];
        job.was_letter = None;
        job.view.completed_at = Some(now);
        job.result.clone_from(&result);
        job.place = Place::Completed;
        job.late_token = None;
        if result.is_some() {
            self.use_result(at);
        }
        self.note_turns();
        self.end_waits(&id, &Waited::Completed { result });
        self.completed.push(id);
        if self.completed.len() > self.config.completed_max {
            let mut free = self.completed.iter().filter(|id| !self.is_needed(id));
            let oldest = free.next().unwrap_or(&self.completed[0]);
            let oldest = self.find(oldest);
            self.delete(oldest.expect("a completed job that is gone is not listed"));
        }
        self.spread();
    }

    pub(super) fn fail(&mut self, fail: &Fail) -> Result<Report, Refusal> {
        let Claim::Current(at) = self.claim(&fail.id, fail.token)? else {
            return Ok(Report::AlreadyFinalized);
        };
        let (report, job) = (&fail.report, &mut self.jobs[at]);
        if let Some(stack) = &report.stack {
            let kept = job.view.options.stack_trace_limit.max(0.0) as usize;
            job.view.stacktrace = Some(stack.iter().take(kept).cloned().collect());
        }
        job.view.attempts += 1;
        job.lost = 0;
        if report.unrecoverable || job.view.attempts >= job.view.max_attempts {
            job.view.remove_on_fail |= report.remove_on_fail;
            self.end(at, FailureReason::MaxAttemptsExceeded, report.error.clone());
        } else {
            self.retry(at, FailureReason::ExplicitFail, report.error.clone());
            self.emit_failed(at, report.error.clone(), false);
            self.emit_for(at, EventKind::Retried);
            self.back_off(at);
        }
        Ok(Report::Applied)
    }

    pub(super) fn emit_failed(&mut self, at: usize, error: Option<Arc<str>>, terminal: bool) {
        let data = self.jobs[at].view.data.clone();
        self.emit_for(
            at,
            EventKind::Failed {
                error,
                data,
                terminal,
            },
        );
    }

    /// Writes down that an attempt failed and another one follows.
    pub(super) fn retry(&mut self, at: usize, reason: FailureReason, error: Option<Arc<str>>) {
        self.record(at, reason, error.clone());
        let attempts = self.jobs[at].view.attempts;
        self.note(at, State::Failed, error, Some(attempts));
        self.note(at, State::Waiting, None, Some(attempts + 1));
        self.jobs[at].late_token = match &self.jobs[at].place {
            Place::Active(active) => active.token,
            _ => None,
        };
    }

    fn record(&mut self, at: usize, reason: FailureReason, error: Option<Arc<str>>) {
        let (now, job) = (self.now, &mut self.jobs[at]);
        let started_at = job.view.started_at.unwrap_or(now);
        job.history.push(AttemptRecord {
            attempt: job.view.attempts,
            started_at,
            failed_at: now,
            reason,
            error,
        });
    }

    /// Queues a failed attempt again after the time of section 8.3; jitter is drawn by the engine.
    pub(super) fn back_off(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        let backoff = job.view.options.backoff;
        let exponent = f64::from(job.view.attempts.min(1023));
        let (base, low, high) = match backoff.kind {
            BackoffKind::Fixed => (backoff.delay, 0.8, 1.2),
            BackoffKind::Plain | BackoffKind::Exponential if backoff.delay == 0.0 => {
                (0.0, 0.0, 0.0)
            }
            BackoffKind::Plain | BackoffKind::Exponential => {
                (backoff.delay * exponent.exp2(), 0.5, 1.5)
            }
        };
        let cap = backoff.max_delay.unwrap_or(3_600_000.0);
        let bound = |factor: f64| self.now + (base * factor).min(cap).ceil() as Millis;
        let (earliest, latest) = (bound(low), bound(high));
        job.view.run_at = earliest;
        job.jitter = (earliest < latest).then_some((earliest, latest));
        self.enqueue(at);
    }

    /// A job fails for good.
    pub(super) fn end(&mut self, at: usize, reason: FailureReason, error: Option<Arc<str>>) {
        self.end_telling(at, reason, error.clone(), error);
    }

    pub(super) fn end_telling(
        &mut self,
        at: usize,
        reason: FailureReason,
        error: Option<Arc<str>>,
        told: Option<Arc<str>>,
    ) {
        self.untie(at, false);
        self.record(at, reason, error.clone());
        let (id, attempts) = (self.jobs[at].view.id.clone(), self.jobs[at].view.attempts);
        // A job that somebody discards is kept, and its history shows no failure.
        let discarded = reason == FailureReason::Unknown && error.is_none();
        if !discarded {
            self.note(at, State::Failed, error.clone(), Some(attempts));
        }
        self.emit_failed(at, told, true);
        self.release_key(&id);
        let letter = self.become_letter(at, reason, error.clone());
        self.tell_failure(at, error);
        if self.jobs[at].view.remove_on_fail && !discarded {
            self.end_waits(&id, &Waited::Failed);
            self.delete(at);
            return;
        }
        let job = &mut self.jobs[at];
        job.late_token = None;
        job.spend_current();
        job.place = Place::Failed(letter);
        self.note_turns();
        self.end_waits(&id, &Waited::Failed);
        let queue = Arc::clone(&self.jobs[at].view.queue);
        self.evict_letters(&queue);
        self.spread();
    }

    pub(super) fn heartbeat(&mut self, item: &Renew) -> Renewal {
        self.renew(item, false)
    }

    pub(super) fn extend_lock(&mut self, item: &Renew) -> Renewal {
        self.renew(item, true)
    }

    /// A sign of life. Without a token a heartbeat leaves the lock alone, an extension takes whatever lock exists.
    fn renew(&mut self, item: &Renew, extend: bool) -> Renewal {
        let now = self.now;
        let Some(at) = self.find(&item.id) else {
            return Renewal::NotFound;
        };
        let job = &mut self.jobs[at];
        let Place::Active(active) = &mut job.place else {
            return Renewal::NotActive;
        };
        let holds = match (item.token, active.token) {
            (TokenGiven::None, Some(_)) => extend,
            (TokenGiven::None, None) if extend => return Renewal::InvalidToken,
            (TokenGiven::None, None) => false,
            (TokenGiven::Token(token), Some(lock)) if token == lock => true,
            _ => return Renewal::InvalidToken,
        };
        if holds {
            if active.expires_at <= now {
                return Renewal::InvalidToken;
            }
            active.expires_at = now
                + item
                    .duration
                    .map_or(active.lock_ttl, |ms| ms.ceil() as Millis);
            active.renewals += 1;
        }
        job.lost = 0;
        job.view.last_heartbeat = now;
        Renewal::Renewed
    }

    /// A connection closes: its waits end, what it still holds goes back (section 9.5, README ruling 12).
    pub fn disconnect(&mut self, now: Millis, connection: ConnectionId) {
        self.tick(now);
        self.waiters
            .retain(|waiter| waiter.caller != Some(connection));
        self.remove_workers_of(connection);
        // First delivered, first released.
        let mut held: Vec<(u64, JobId)> = Vec::new();
        for job in &mut self.jobs {
            match &mut job.place {
                Place::Active(active) if active.connection == Some(connection) => {
                    active.connection = None;
                    if active.renewals == 0 {
                        held.push((active.serial, job.view.id.clone()));
                    }
                }
                _ => {}
            }
        }
        held.sort();
        for (_, id) in held {
            let at = self
                .find(&id)
                .expect("an active job is not deleted by the way");
            if self.discard_lost(at) {
                continue;
            }
            self.jobs[at].lost += 1;
            if self.jobs[at].lost < 10 {
                self.enqueue(at);
            } else {
                let error = "Worker lost 10 times in a row";
                self.end(at, FailureReason::WorkerLost, Some(error.into()));
            }
        }
        self.hand_off_everywhere();
    }

    /// Deliveries that nobody has read go back as they were.
    pub fn give_back(&mut self, now: Millis, deliveries: &[Delivery]) {
        self.tick(now);
        for delivery in deliveries {
            let Some(at) = self.find(&delivery.job.id) else {
                continue;
            };
            let Place::Active(active) = &self.jobs[at].place else {
                continue;
            };
            if active.serial == delivery.serial {
                let (limited, turn) = (active.limited, active.turn);
                let (late_token, finalized_unlocked, last_heartbeat) = active.before;
                let timeline = &mut self.jobs[at].view.timeline;
                if active_entry_is_last(timeline, delivery) {
                    timeline.pop();
                }
                let id = delivery.job.id.clone();
                let queue = Arc::clone(&delivery.job.queue);
                let group = delivery.job.options.group_id.as_deref();
                self.uncount_delivery(at, delivery.serial, limited);
                self.enqueue(at);
                if let Some(turn) = turn {
                    self.return_turn(&queue, group, turn);
                }
                if let Some(at) = self.find(&id) {
                    let job = &mut self.jobs[at];
                    job.late_token = late_token;
                    job.finalized_unlocked = finalized_unlocked;
                    job.view.last_heartbeat = last_heartbeat;
                }
            }
        }
        self.hand_off_everywhere();
    }
}

/// Whether the last entry of a history is that of this delivery; in a full one it is not.
fn active_entry_is_last(timeline: &[TimelineEntry], delivery: &Delivery) -> bool {
    let last = timeline.last();
    last.is_some_and(|entry| {
        entry.state == State::Active && Some(entry.at) == delivery.job.started_at
    })
}
