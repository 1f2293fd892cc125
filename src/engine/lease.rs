//! Signs of life, and deliveries that are lost: locks, stalls, timeouts, connections (engine contract, section 9).
//!
//! Each delivery has one entry in the deadline order, at the earliest of its deadlines. A renewal only moves the
//! real deadline; the entry follows when it comes due, so that heartbeats cost no reordering.

use std::sync::Arc;

use super::deadline::Timer;
use super::event::{EventKind, StallDetail};
use super::id::JobId;
use super::job::{FailureReason, State};
use super::outcome::{ConnectionId, Renewal, TokenGiven};
use super::policy::StallConfig;
use super::report::Fatal;
use super::store::{EndCause, Job, JobKey};
use super::{Engine, Millis, Turn, later};

/// Deliveries lost in a row, without any report or renewal, after which a job goes to the dead-letter queue.
pub const LOST_IN_A_ROW_MAX: u32 = 10;

/// What a lost delivery has cost.
#[derive(Debug)]
struct Loss {
    /// Stalls of the job so far.
    stall_count: u32,
    /// What is used up, when no other attempt follows.
    exhausted: Option<Budget>,
}

/// What limits how often a job is lost.
#[derive(Debug)]
enum Budget {
    /// Its attempts, this many.
    Attempts(u32),
    /// The stalls that the configuration allows.
    Stalls,
}

/// Why a delivery in progress is over; of what is due at once, the first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Overdue {
    TimedOut,
    LockExpired,
    Stalled,
}

impl Engine {
    /// A sign of life; with a token it renews the lock as well, by `duration` ms or its own lifetime.
    pub fn heartbeat(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        token: TokenGiven,
        duration: Option<f64>,
    ) -> Renewal {
        self.tick(turn);
        let key = match self.active_job(id) {
            Ok(key) => key,
            Err(outcome) => return outcome,
        };
        if token != TokenGiven::None {
            // Zero means the lock's own lifetime, like no duration at all.
            return self.renew(key, token, duration.filter(|ms| *ms != 0.0));
        }
        self.note_life(key);
        Renewal::Renewed
    }

    /// Renews a lock; without a token whatever lock exists.
    pub fn extend_lock(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        token: TokenGiven,
        duration: Option<f64>,
    ) -> Renewal {
        self.tick(turn);
        match self.active_job(id) {
            Ok(key) => self.renew(key, token, duration),
            Err(outcome) => outcome,
        }
    }

    fn active_job(&self, id: &JobId) -> Result<JobKey, Renewal> {
        let key = self.store.find(id).ok_or(Renewal::NotFound)?;
        if self.store.job(key).state == State::Active {
            Ok(key)
        } else {
            Err(Renewal::NotActive)
        }
    }

    fn renew(&mut self, key: JobKey, token: TokenGiven, duration: Option<f64>) -> Renewal {
        let now = self.now;
        let Some(lock) = self
            .store
            .job_mut(key)
            .life()
            .run
            .as_mut()
            .and_then(|run| run.lock.as_mut())
        else {
            return Renewal::InvalidToken;
        };
        let holds = match token {
            TokenGiven::None => true,
            TokenGiven::Token(given) => given == lock.token,
            TokenGiven::Malformed => false,
        };
        if !holds || lock.expires_at <= now {
            return Renewal::InvalidToken;
        }
        lock.expires_at = later(now, duration.unwrap_or(lock.ttl));
        lock.renewals = lock.renewals.saturating_add(1);
        self.note_life(key);
        self.rearm_if_earlier(key);
        Renewal::Renewed
    }

    /// Notes that the worker of an active job lives.
    pub(super) fn note_life(&mut self, key: JobKey) {
        let now = self.now;
        let life = self.store.job_mut(key).life();
        life.last_heartbeat = Some(now);
        life.lost_in_a_row = 0;
    }

    /// Puts the delivery's entry into the deadline order, where it has none.
    pub(super) fn arm_delivery(&mut self, key: JobKey) {
        let at = self.overdue(key).map(|(at, _)| at);
        let job = self.store.job_mut(key);
        if let Some(run) = job.life().run.as_mut() {
            run.armed_at = at;
        }
        if let Some(at) = at {
            self.deadlines.insert(at, Timer::delivery(job, key));
        }
    }

    /// The same for one that may have an entry at another time.
    pub(super) fn rearm_delivery(&mut self, key: JobKey) {
        if let Some(armed_at) = self.armed_at(key) {
            let timer = Timer::delivery(self.store.job(key), key);
            self.deadlines.remove(armed_at, timer);
        }
        self.arm_delivery(key);
    }

    fn rearm_if_earlier(&mut self, key: JobKey) {
        let at = self.overdue(key).map_or(Millis::MAX, |(at, _)| at);
        if at < self.armed_at(key).unwrap_or(Millis::MAX) {
            self.rearm_delivery(key);
        }
    }

    fn armed_at(&self, key: JobKey) -> Option<Millis> {
        self.store.job(key).run().and_then(|run| run.armed_at)
    }

    /// The earliest deadline of a delivery, and what happens then.
    pub(super) fn overdue(&self, key: JobKey) -> Option<(Millis, Overdue)> {
        let job = self.store.job(key);
        let life = job.life.as_deref()?;
        let run = life.run.as_ref()?;
        let lock = run.lock.as_ref();
        let ends = [
            run.timeout_at.map(|at| (at, Overdue::TimedOut)),
            lock.map(|lock| (lock.expires_at, Overdue::LockExpired)),
            self.stalls_at(job).map(|at| (at, Overdue::Stalled)),
        ];
        ends.into_iter().flatten().min()
    }

    /// When the delivery of a job counts as stalled, unless there is a sign of life before; `None` where none ever does.
    ///
    /// No other recovery of silent deliveries is needed (section 9.4): this one looks at nothing but the silence.
    fn stalls_at(&self, job: &Job) -> Option<Millis> {
        let config = self.stall_config(job.queue);
        if !config.enabled {
            return None;
        }
        let life = job.life.as_deref()?;
        let silence = silence_allowed(job, &config);
        // B-22: a worker whose lock holds is not charged for a restart.
        let last_sign = life.last_heartbeat.unwrap_or(job.created_at);
        let last_sign = last_sign.max(self.heard_since);
        let started_at = life.started_at.unwrap_or(last_sign);
        let silent_at = later(last_sign, silence).saturating_add(1);
        let noticed_at = silent_at.max(later(started_at, config.grace_period));
        Some(noticed_at.saturating_add(self.config.stall_check))
    }

    /// The delivery's entry, which stood at `armed_at`, came due: act if that is a real deadline, else set it anew.
    pub(super) fn check_delivery(&mut self, turn: &mut Turn<'_>, key: JobKey, armed_at: Millis) {
        if let Some(run) = self.store.job_mut(key).life().run.as_mut() {
            run.armed_at = None;
        }
        match self.overdue(key) {
            Some((at, Overdue::TimedOut)) if at <= armed_at => self.time_out(turn, key),
            Some((at, _)) if at <= armed_at && self.discard_lost(turn, key) => {}
            Some((at, Overdue::LockExpired)) if at <= armed_at => self.expire_lock(turn, key),
            Some((at, Overdue::Stalled)) if at <= armed_at => self.stall(turn, key),
            // Even if the real deadline has passed as well, what lies between the two comes first.
            _ => self.arm_delivery(key),
        }
    }

    fn expire_lock(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let loss = self.charge_loss(key);
        let lock = self.store.job(key).run().and_then(|run| run.lock.as_ref());
        let renewals = lock.map_or(0, |lock| lock.renewals);
        let fatal = loss.exhausted.map(|budget| match budget {
            Budget::Attempts(max) => Fatal {
                event_error: Some("Lock expired (max attempts reached)".into()),
                ..Fatal::new(
                    FailureReason::MaxAttemptsExceeded,
                    Some(format!("Lock expired at max attempts ({max})").into()),
                )
            },
            Budget::Stalls => Fatal {
                event_error: Some("Lock expired (max stalls reached)".into()),
                ..Fatal::new(
                    FailureReason::Stalled,
                    Some(format!("Lock expired after {renewals} renewals").into()),
                )
            },
        });
        self.end_lost_delivery(key, fatal.as_ref(), "Lock expired");
        let detail = fatal.as_ref().map(|_| StallDetail {
            stall_count: loss.stall_count,
            to_dlq: true,
        });
        self.emit(turn, key, EventKind::Stalled { detail });
        match fatal {
            Some(fatal) => self.fail_for_good(turn, key, fatal),
            None => {
                self.record_retry(key, Some("Lock expired".into()));
                let run_at = self.store.job(key).run_at;
                self.requeue(turn, key, run_at);
            }
        }
    }

    fn stall(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let text = |budget, stall_count| match budget {
            Budget::Attempts(max) => format!("Job stalled at max attempts ({max})"),
            Budget::Stalls => format!("Job stalled {stall_count} times"),
        };
        self.lose_delivery(turn, key, text, "stalled");
    }

    /// The process that had handed a job out is gone, and no lock says that its worker may go on.
    pub(super) fn interrupt(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        if self.discard_lost(turn, key) {
            return;
        }
        let text = |budget, stall_count| match budget {
            Budget::Attempts(max) => {
                format!("Job reached max attempts ({max}) during startup recovery")
            }
            Budget::Stalls => format!("Job stalled {stall_count} times (recovered at startup)"),
        };
        self.lose_delivery(turn, key, text, "Interrupted during recovery");
    }

    /// A delivery is lost: the job is tried again after its backoff, or fails with what `text` says.
    fn lose_delivery(
        &mut self,
        turn: &mut Turn<'_>,
        key: JobKey,
        text: impl FnOnce(Budget, u32) -> String,
        error: &str,
    ) {
        let loss = self.charge_loss(key);
        let stall_count = loss.stall_count;
        let fatal = loss.exhausted.map(|budget| {
            let reason = match budget {
                Budget::Attempts(_) => FailureReason::MaxAttemptsExceeded,
                Budget::Stalls => FailureReason::Stalled,
            };
            Fatal::new(reason, Some(text(budget, stall_count).into()))
        });
        self.end_lost_delivery(key, fatal.as_ref(), error);
        let detail = Some(StallDetail {
            stall_count,
            to_dlq: fatal.is_some(),
        });
        self.emit(turn, key, EventKind::Stalled { detail });
        match fatal {
            Some(fatal) => self.fail_for_good(turn, key, fatal),
            None => {
                self.record_retry(key, Some(error.into()));
                self.retry_later(turn, key);
            }
        }
    }

    /// A lost delivery costs an attempt and counts as a stall.
    fn charge_loss(&mut self, key: JobKey) -> Loss {
        let stalls_max = self.stall_config(self.store.job(key).queue).max_stalls;
        let job = self.store.job_mut(key);
        job.attempts = job.attempts.saturating_add(1);
        let (attempts, max_attempts) = (job.attempts, job.max_attempts);
        let life = job.life();
        life.stall_count = life.stall_count.saturating_add(1);
        let stall_count = life.stall_count;
        let exhausted = if attempts >= max_attempts {
            Some(Budget::Attempts(max_attempts))
        } else if stalls_max > 0.0 && f64::from(stall_count) >= stalls_max {
            Some(Budget::Stalls)
        } else {
            None
        };
        Loss {
            stall_count,
            exhausted,
        }
    }

    /// Writes the loss down, with the final reason when it was the last one; a lost job shows no start.
    fn end_lost_delivery(&mut self, key: JobKey, fatal: Option<&Fatal>, error: &str) {
        let now = self.now;
        let (reason, error) = match fatal {
            Some(fatal) => (fatal.reason, fatal.error.clone()),
            None => (FailureReason::Stalled, Some(error.into())),
        };
        self.store.job_mut(key).record_attempt(now, reason, error);
        self.end_delivery(key, Some(EndCause::Reportable));
        self.store.job_mut(key).life().started_at = None;
    }

    /// A queued job outlived its ttl; its entry was just taken out.
    pub(super) fn expire(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        let job = self.store.job(key);
        if let Some(at) = job.expires_at() {
            self.deadlines.insert(at, Timer::expire(job, key));
        }
        self.fail_if_expired(turn, key);
    }

    /// Fails a queued job that is too old to start; whether it was.
    pub(super) fn fail_if_expired(&mut self, turn: &mut Turn<'_>, key: JobKey) -> bool {
        let job = self.store.job(key);
        if job.expires_at().is_none_or(|at| at > self.now) {
            return false;
        }
        let error: Arc<str> = "Job TTL expired".into();
        self.unqueue(key);
        let now = self.now;
        self.store.job_mut(key).record_attempt(
            now,
            FailureReason::TtlExpired,
            Some(Arc::clone(&error)),
        );
        self.fail_for_good(
            turn,
            key,
            Fatal::new(FailureReason::TtlExpired, Some(error)),
        );
        true
    }

    /// The connection is gone: its waits end, its workers are forgotten, and its deliveries go back uncharged unless
    /// their lock was ever renewed (the worker may live on another connection).
    pub fn disconnect(&mut self, turn: &mut Turn<'_>, connection: ConnectionId) {
        self.tick(turn);
        self.drop_waits_of(connection);
        self.forget_workers_of(connection);
        let owned = self.connections.remove(&connection).unwrap_or_default();
        self.hold_on(turn, |engine, turn| {
            for key in owned.into_values() {
                let Some(run) = engine.store.job_mut(key).life().run.as_mut() else {
                    continue;
                };
                if run.lock.as_ref().is_none_or(|lock| lock.renewals == 0) {
                    engine.release(turn, key);
                } else {
                    run.connection = None;
                }
            }
        });
    }

    fn release(&mut self, turn: &mut Turn<'_>, key: JobKey) {
        if self.discard_lost(turn, key) {
            return;
        }
        let now = self.now;
        let life = self.store.job_mut(key).life();
        life.lost_in_a_row += 1;
        let lost = life.lost_in_a_row;
        if lost < LOST_IN_A_ROW_MAX {
            self.end_delivery(key, Some(EndCause::Withdrawn));
            let run_at = self.store.job(key).run_at;
            self.requeue(turn, key, run_at);
            return;
        }
        let error: Arc<str> = format!("Worker lost {lost} times in a row").into();
        self.store.job_mut(key).record_attempt(
            now,
            FailureReason::WorkerLost,
            Some(Arc::clone(&error)),
        );
        self.end_delivery(key, Some(EndCause::Withdrawn));
        self.fail_for_good(
            turn,
            key,
            Fatal::new(FailureReason::WorkerLost, Some(error)),
        );
    }
}

/// Ms without a sign of life after which a delivery of this job counts as stalled.
pub(super) fn silence_allowed(job: &Job, config: &StallConfig) -> f64 {
    let options = job.options.as_ref();
    let own = options.and_then(|options| options.stall_timeout);
    own.unwrap_or(config.stall_interval).floor()
}
