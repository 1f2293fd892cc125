//! What workers report: success and failure, and how a job ends (engine contract, section 8).
//!
//! Every end of a job goes through [`Engine::complete`] or [`Engine::fail_for_good`], so that each of them releases
//! the key, tells who waits and counts once.

use std::sync::Arc;

use super::event::EventKind;
use super::id::JobId;
use super::job::{Backoff, BackoffKind, FailureReason, Payload, State};
use super::outcome::{FailReport, Refusal, Report, TokenGiven, Waited};
use super::store::{EndCause, Job, JobKey};
use super::{Engine, Millis, Turn};

/// Ms at which a retry delay without a cap of its own ends.
pub const BACKOFF_MAX: f64 = 3_600_000.0;
/// Greatest exponent of a growing delay; the next one overflows a double.
const EXPONENT_MAX: u32 = 1_023;
/// Error of an attempt that outlasted the job's timeout.
const TIMEOUT_ERROR: &str = "Job timeout exceeded";

/// How a job fails for good.
#[derive(Debug)]
pub(super) struct Fatal {
    pub(super) reason: FailureReason,
    /// The error kept with the dead letter.
    pub(super) error: Option<Arc<str>>,
    /// The error of the event, where it differs.
    pub(super) event_error: Option<Arc<str>>,
    /// Whether the job is deleted instead of kept.
    pub(super) removal: Removal,
}

/// What becomes of a job that failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// What its own option says.
    AsOption,
    /// It is deleted.
    Always,
    /// It is kept: somebody asked for just that, so its history gets no failure either.
    Never,
}

impl Fatal {
    pub(super) fn new(reason: FailureReason, error: Option<Arc<str>>) -> Self {
        Self {
            reason,
            error,
            event_error: None,
            removal: Removal::AsOption,
        }
    }
}

/// What a report meets.
#[derive(Debug)]
enum Standing {
    /// The delivery it belongs to is in progress.
    Current,
    /// That delivery has ended, the job is queued again, and a success still counts.
    Late,
    /// The engine has ended that delivery; the report is ignored.
    Finalized,
}

impl Engine {
    /// Completes a delivery.
    ///
    /// # Errors
    /// [`Refusal`] when the job is not active or the token does not hold its lock; nothing has changed then.
    pub fn ack(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        token: TokenGiven,
        result: Option<Payload>,
        remove: bool,
    ) -> Result<Report, Refusal> {
        self.tick(turn);
        let (key, standing) = match self.reported(id, token) {
            Err(_) if self.crons.has_discarded(id, token) => return Ok(Report::AlreadyFinalized),
            met => met?,
        };
        match standing {
            Standing::Finalized => return Ok(Report::AlreadyFinalized),
            Standing::Late => self.unqueue(key),
            Standing::Current => {
                self.end_delivery(key, None);
            }
        }
        self.complete(turn, key, result, remove);
        Ok(Report::Applied)
    }

    /// Whether a batch that holds this report may be applied: only a wrong or missing token forbids it.
    ///
    /// # Errors
    /// [`Refusal::TokenRequired`] or [`Refusal::TokenInvalid`].
    pub fn check_token(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        token: TokenGiven,
    ) -> Result<(), Refusal> {
        self.tick(turn);
        let Some(key) = self.store.find(id) else {
            return Ok(());
        };
        match self.standing(key, token) {
            Err(refusal @ (Refusal::TokenRequired(_) | Refusal::TokenInvalid(_))) => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Fails a delivery: retry with backoff, or the dead-letter queue.
    ///
    /// # Errors
    /// As [`Engine::ack`].
    pub fn fail(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        token: TokenGiven,
        report: FailReport,
    ) -> Result<Report, Refusal> {
        self.tick(turn);
        let (key, standing) = match self.reported(id, token) {
            Err(_) if self.crons.has_discarded(id, token) => return Ok(Report::AlreadyFinalized),
            met => met?,
        };
        match standing {
            Standing::Finalized | Standing::Late => return Ok(Report::AlreadyFinalized),
            Standing::Current => {}
        }
        let job = self.store.job_mut(key);
        job.life().lost_in_a_row = 0;
        if let Some(stack) = report.stack {
            let limit = job
                .options
                .as_ref()
                .map_or(10.0, |options| options.stack_trace_limit);
            job.life().stacktrace = Some(stack.into_iter().take(limit.max(0.0) as usize).collect());
        }
        let failure = Attempt {
            cause: EndCause::Reportable,
            error: report.error,
            retry_reason: FailureReason::ExplicitFail,
            final_reason: FailureReason::MaxAttemptsExceeded,
            unrecoverable: report.unrecoverable,
            remove: report.remove_on_fail,
        };
        self.fail_attempt(turn, key, failure);
        Ok(Report::Applied)
    }

    /// The delivery outlasted the job's timeout.
    pub(super) fn time_out(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let failure = Attempt {
            cause: EndCause::Timeout,
            error: Some(TIMEOUT_ERROR.into()),
            retry_reason: FailureReason::Timeout,
            final_reason: FailureReason::Timeout,
            unrecoverable: false,
            remove: false,
        };
        self.fail_attempt(turn, key, failure);
    }

    /// The job that a report is about, and what the report meets.
    fn reported(&self, id: &JobId, token: TokenGiven) -> Result<(JobKey, Standing), Refusal> {
        let found = self.store.find(id);
        let key = found.ok_or_else(|| Refusal::NotActive(id.clone()))?;
        self.standing(key, token).map(|standing| (key, standing))
    }

    /// What the token says about a report on this job.
    fn standing(&self, key: JobKey, token: TokenGiven) -> Result<Standing, Refusal> {
        let job = self.store.job(key);
        let spent = |token| job.spent(token).or_else(|| self.cold.spent(key, token));
        if let TokenGiven::Token(given) = token
            && spent(given) == Some(EndCause::Timeout)
        {
            return Ok(Standing::Finalized);
        }
        if job.state == State::Active {
            return check_lock(job, token).map(|()| Standing::Current);
        }
        let Some(ended) = job.life.as_ref().and_then(|life| life.ended) else {
            return Err(Refusal::NotActive(job.id.clone()));
        };
        match (ended.cause, ended.token) {
            (EndCause::Timeout, None) => Ok(Standing::Finalized),
            (EndCause::Reportable, Some(proof))
                if token == TokenGiven::Token(proof) && job.state.is_queued() =>
            {
                Ok(Standing::Late)
            }
            _ => Err(Refusal::NotActive(job.id.clone())),
        }
    }

    fn complete(
        &mut self,
        turn: &mut Turn<'_>,
        key: JobKey,
        result: Option<Payload>,
        remove: bool,
    ) {
        let now = self.now;
        self.release_key(key);
        let next_generation = self.next_generation(key);
        let done_seq = self.next_done();
        let job = self.store.job_mut(key);
        job.state = State::Completed;
        job.record(State::Completed, now, None, None);
        let life = job.life();
        life.completed_at = Some(now);
        if let Some(started_at) = life.started_at {
            self.figures.note_work(started_at, now);
        }
        life.ended = None;
        life.trail = None;
        life.lost_in_a_row = 0;
        life.done_seq = done_seq;
        let (queue, removed) = (job.queue, remove || job.remove_on_complete);
        self.queues.get_mut(queue).completed.insert(done_seq, key);
        let event = EventKind::Completed {
            result: result.clone(),
        };
        self.emit(turn, key, event);
        self.note_completion(key, result.clone());
        // A result that is not kept is nobody's to read but the parent's.
        let result = result.filter(|_| !removed);
        let how = Waited::Completed {
            result: result.clone(),
        };
        self.end_job_waits(turn, key, &how);
        self.close_ties(key, true);
        if let Some(next) = next_generation {
            let successor = self.add_generation(turn, queue, next).map(Box::new);
            self.store.job_mut(key).life().successor = successor;
        }
        if removed {
            self.delete(turn, key);
        } else {
            self.retain_completed(turn, key, result);
        }
        self.settle(turn);
        self.serve(turn, queue);
    }

    fn fail_attempt(&mut self, turn: &mut Turn<'_>, key: JobKey, failure: Attempt) {
        let now = self.now;
        let job = self.store.job_mut(key);
        job.attempts = job.attempts.saturating_add(1);
        let over = failure.unrecoverable || job.attempts >= job.max_attempts;
        let reason = if over {
            failure.final_reason
        } else {
            failure.retry_reason
        };
        job.record_attempt(now, reason, failure.error.clone());
        self.end_delivery(key, Some(failure.cause));
        if over {
            let fatal = Fatal {
                reason,
                error: failure.error,
                event_error: None,
                removal: if failure.remove {
                    Removal::Always
                } else {
                    Removal::AsOption
                },
            };
            self.fail_for_good(turn, key, fatal);
            return;
        }
        self.record_retry(key, failure.error.clone());
        let event = EventKind::Failed {
            error: failure.error,
            data: self.store.job(key).data(),
            terminal: false,
        };
        self.emit(turn, key, event);
        self.emit(turn, key, EventKind::Retried);
        self.retry_later(turn, key);
    }

    /// Notes in the timeline that the attempt failed and another one follows.
    pub(super) fn record_retry(&mut self, key: JobKey, error: Option<Arc<str>>) {
        let now = self.now;
        let job = self.store.job_mut(key);
        let attempts = job.attempts;
        job.record(State::Failed, now, error, Some(attempts));
        job.record(State::Waiting, now, None, Some(attempts.saturating_add(1)));
    }

    /// Queues the job again after its backoff.
    pub(super) fn retry_later(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let job = self.store.job(key);
        let backoff = job
            .options
            .as_ref()
            .map_or_else(Backoff::default, |options| options.backoff);
        let delay = self.backoff_delay(backoff, job.attempts);
        self.requeue(turn, key, self.now.saturating_add(delay));
    }

    fn backoff_delay(&mut self, backoff: Backoff, attempts: u32) -> Millis {
        let jittered = match backoff.kind {
            BackoffKind::Fixed => backoff.delay * self.ids.uniform(0.8, 1.2),
            BackoffKind::Plain | BackoffKind::Exponential => {
                let growth = f64::powi(2.0, attempts.min(EXPONENT_MAX) as i32);
                backoff.delay * growth * self.ids.uniform(0.5, 1.5)
            }
        };
        let delay = jittered.min(backoff.max_delay.unwrap_or(BACKOFF_MAX));
        // A base of zero times an endless growth is no number; it means at once.
        if delay.is_nan() {
            0
        } else {
            delay.ceil() as Millis
        }
    }
}

/// An attempt that ended without success.
#[derive(Debug)]
struct Attempt {
    cause: EndCause,
    error: Option<Arc<str>>,
    /// What the record says when another attempt follows.
    retry_reason: FailureReason,
    /// What it says when none does.
    final_reason: FailureReason,
    unrecoverable: bool,
    remove: bool,
}

/// Whether the token may act on the delivery in progress: without a lock anybody may, but for those who show that
/// theirs was an earlier one.
pub(super) fn check_lock(job: &Job, token: TokenGiven) -> Result<(), Refusal> {
    let Some(lock) = job.run().and_then(|run| run.lock.as_ref()) else {
        return match token {
            TokenGiven::Token(given) if job.spent(given).is_some() => {
                Err(Refusal::TokenInvalid(job.id.clone()))
            }
            _ => Ok(()),
        };
    };
    match token {
        TokenGiven::None => Err(Refusal::TokenRequired(job.id.clone())),
        TokenGiven::Token(given) if given == lock.token => Ok(()),
        TokenGiven::Token(_) | TokenGiven::Malformed => Err(Refusal::TokenInvalid(job.id.clone())),
    }
}
