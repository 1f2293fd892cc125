//! What happens by itself: ttl, locks, timeouts, stalls, maturing jobs, dead letters, waits, idle names (sections 7 to
//! 10, 23; B-1, B-37).

use std::sync::Arc;

use bunqueue_mcp::engine::{EventKind, FailureReason, Millis, Served, StallDetail, Waited};

use super::{Place, Reference, Wish};

/// What is due. In one millisecond the order is that of this list, and that of admission among jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ripen,
    Ttl,
    Timeout,
    LockEnd,
    Stall,
    RateEnd,
    Token,
    ThrottleEnd,
    WindowEnd,
    Letter,
    TooOld,
    Cron,
    QueueIdle,
    WorkerEnd,
    Wait,
}

impl Kind {
    /// For one job a timeout comes before the lock, and the lock before a stall.
    fn rank(self) -> (u8, u8) {
        match self {
            Self::Ripen => (0, 0),
            Self::Ttl => (1, 0),
            Self::Timeout => (2, 0),
            Self::LockEnd => (2, 1),
            Self::Stall => (2, 2),
            Self::Letter => (3, 0),
            Self::TooOld => (4, 0),
            Self::RateEnd | Self::Token | Self::ThrottleEnd | Self::WindowEnd => (4, 1),
            Self::Cron => (5, 0),
            Self::QueueIdle | Self::WorkerEnd => (6, 0),
            Self::Wait => (7, 0),
        }
    }
}

/// Something that is due, with its place among the jobs, queues or waits.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub at: Millis,
    kind: Kind,
    place: usize,
}

impl Reference {
    /// Lets everything happen that is due, earliest first, at the time `now`. What happens in one millisecond happens
    /// together: only then are waiting pulls served, and those that are not give up.
    pub fn tick(&mut self, now: Millis) {
        self.figures.started(now);
        self.now = self.now.max(now);
        let mut instant = Millis::MIN;
        loop {
            let next = self.next_due();
            let closes = next.is_none_or(|due| {
                due.at > instant || matches!(due.kind, Kind::Wait | Kind::QueueIdle)
            });
            if closes && self.hand_off() {
                continue;
            }
            let Some(due) = next else { break };
            instant = instant.max(due.at);
            self.instant = self.instant.max(instant);
            self.act(due);
        }
        self.instant = self.now;
    }

    fn next_due(&self) -> Option<Due> {
        let due = self.agenda().into_iter().filter(|due| due.at <= self.now);
        due.min_by_key(|due| {
            let (rank, within) = due.kind.rank();
            let ended = match due.kind {
                Kind::Letter => Some(self.failure(due.place).seq as usize),
                Kind::TooOld => {
                    let id = &self.jobs[due.place].view.id;
                    self.completed.iter().position(|other| other == id)
                }
                _ => None,
            };
            (due.at, rank, ended.unwrap_or(usize::MAX), due.place, within)
        })
    }

    /// The earliest thing due that can be seen from outside.
    pub fn next_visible(&self) -> Option<Due> {
        let awaited = |due: &Due| match due.kind {
            Kind::Ripen => {
                let queue = &self.jobs[due.place].view.queue;
                let wants = |wish: &Wish| matches!(wish, Wish::Jobs { queue: wanted, .. } if wanted == queue);
                !self.paused(queue) && self.waiters.iter().any(|waiter| wants(&waiter.wish))
            }
            // The name of an empty queue may go earlier.
            Kind::QueueIdle => false,
            _ => true,
        };
        self.agenda()
            .into_iter()
            .filter(awaited)
            .min_by_key(|due| due.at)
    }

    /// Nothing is timed, so nothing can ever happen by itself.
    pub fn is_idle(&self) -> bool {
        self.agenda().is_empty()
    }

    fn agenda(&self) -> Vec<Due> {
        let mut agenda = Vec::new();
        let mut put = |at, kind, place| agenda.push(Due { at, kind, place });
        for (place, job) in self.jobs.iter().enumerate() {
            let view = &job.view;
            match &job.place {
                Place::Queued => {
                    if !job.ripe && !job.ties.waiting {
                        put(view.run_at, Kind::Ripen, place);
                    }
                    if let Some(ttl) = view.options.ttl {
                        put(
                            (view.created_at as f64 + ttl).floor() as Millis + 1,
                            Kind::Ttl,
                            place,
                        );
                    }
                }
                Place::Active(active) => {
                    let started_at = view.started_at.expect("active jobs have started");
                    if let Some(timeout) = view.options.timeout {
                        put(
                            (started_at as f64 + timeout).ceil() as Millis,
                            Kind::Timeout,
                            place,
                        );
                    }
                    if active.token.is_some() {
                        put(active.expires_at, Kind::LockEnd, place);
                    }
                    let config = self.stall_config(&view.queue);
                    let patience = view.options.stall_timeout.unwrap_or(config.stall_interval);
                    // Nobody could be heard before the process began.
                    let last_sign = view.last_heartbeat.max(self.began_at);
                    let silent = (last_sign + patience.floor() as Millis + 1)
                        .max(started_at + config.grace_period.ceil() as Millis);
                    if config.enabled {
                        put(silent + self.config.stall_check, Kind::Stall, place);
                    }
                }
                Place::Failed(_) => {
                    if let Some(at) = self.letter_acts_at(place) {
                        put(at, Kind::Letter, place);
                    }
                }
                Place::Completed => {
                    let completed_at = view.completed_at.expect("completed jobs have ended");
                    if let Some(age) = self.config.completed_retention
                        && !self.is_needed(&view.id)
                    {
                        put(completed_at + age, Kind::TooOld, place);
                    }
                }
            }
        }
        for (place, cron) in self.crons.iter().enumerate() {
            if let Some(at) = cron.figures.next_run {
                put(at, Kind::Cron, place);
            }
        }
        for (place, waiter) in self.waiters.iter().enumerate() {
            put(waiter.deadline, Kind::Wait, place);
        }
        for (at, place) in self.rate_ends() {
            put(at, Kind::RateEnd, place);
        }
        for (at, throttle, place) in self.group_ends() {
            let kind = if throttle {
                Kind::ThrottleEnd
            } else {
                Kind::WindowEnd
            };
            put(at, kind, place);
        }
        for (place, at) in self.ends_of_workers().into_iter().enumerate() {
            put(at, Kind::WorkerEnd, place);
        }
        for (place, queue) in self.queues.iter().enumerate() {
            let waits = |waiter: &super::Waiter| matches!(&waiter.wish, Wish::Jobs { queue: wanted, .. } if *wanted == queue.name);
            if let Some(at) = queue.token_at.filter(|_| self.waiters.iter().any(waits)) {
                put(at, Kind::Token, place);
            }
            if let Some(since) = queue.empty_since {
                put(since + self.config.queue_idle, Kind::QueueIdle, place);
            }
        }
        agenda
    }

    fn act(&mut self, due: Due) {
        let at = due.place;
        match due.kind {
            Kind::Ripen | Kind::Ttl | Kind::Timeout | Kind::LockEnd | Kind::Stall => {
                self.touched.push(Arc::clone(&self.jobs[at].view.queue));
            }
            Kind::Cron => {
                let queue = &self.crons[at].definition.queue;
                self.touched.push(Arc::clone(queue));
            }
            Kind::RateEnd | Kind::Token => self.touched.push(Arc::clone(&self.queues[at].name)),
            _ => {}
        }
        match due.kind {
            Kind::Ripen => {
                self.jobs[at].ripe = true;
                self.note_turns();
            }
            Kind::RateEnd => {
                self.queues[at].rate = None;
                self.queues[at].token_at = None;
                self.note_emptiness();
            }
            Kind::Token => self.queues[at].token_at = None,
            Kind::ThrottleEnd | Kind::WindowEnd => {
                let queue = self.end_of_group(at, due.kind == Kind::ThrottleEnd);
                self.touched.push(queue);
                self.note_emptiness();
            }
            Kind::Ttl => self.end(
                at,
                FailureReason::TtlExpired,
                Some("Job TTL expired".into()),
            ),
            Kind::Timeout => self.time_out(at),
            Kind::LockEnd => self.end_lock(at),
            Kind::Stall => self.stall(at),
            Kind::Letter => {
                let view = &self.jobs[at].view;
                let (id, queue) = (view.id.clone(), Arc::clone(&view.queue));
                self.letter_acts(at, due.at);
                // One that goes makes nothing ready.
                let retried = |at: usize| matches!(self.jobs[at].place, Place::Queued);
                if self.find(&id).is_some_and(retried) {
                    self.touched.push(queue);
                }
            }
            Kind::TooOld => self.delete(at),
            Kind::Cron => self.fire(at, due.at),
            Kind::QueueIdle => drop(self.queues.remove(at)),
            Kind::WorkerEnd => self.remove_worker(at),
            Kind::Wait => {
                let waiter = self.waiters.remove(at);
                let served = match waiter.wish {
                    Wish::Jobs { .. } => Served::Pull(Vec::new()),
                    Wish::End { .. } => Served::Job(Waited::TimedOut),
                };
                self.served.push((waiter.id, served));
            }
        }
    }

    /// Section 8.4: fails the delivery; its token is answered "already finalized" from now on.
    fn time_out(&mut self, at: usize) {
        let error: Option<Arc<str>> = Some("Job timeout exceeded".into());
        let job = &mut self.jobs[at];
        match &job.place {
            Place::Active(active) => match active.token {
                Some(token) => job.spend(token, true),
                None => job.finalized_unlocked = true,
            },
            _ => unreachable!("only deliveries time out"),
        }
        job.view.attempts += 1;
        if job.view.attempts >= job.view.max_attempts {
            self.end(at, FailureReason::Timeout, error);
        } else {
            self.retry(at, FailureReason::Timeout, error.clone());
            self.jobs[at].late_token = None;
            self.emit_failed(at, error, false);
            self.emit_for(at, EventKind::Retried);
            self.back_off(at);
        }
    }

    /// Charges a lost delivery; `Some` when a budget is used up, with whether that is the one of attempts.
    pub(super) fn charge(&mut self, at: usize) -> (u32, u32, Option<bool>) {
        let max_stalls = self.stall_config(&self.jobs[at].view.queue).max_stalls;
        let job = &mut self.jobs[at].view;
        job.attempts += 1;
        job.stall_count += 1;
        let spent = if job.attempts >= job.max_attempts {
            Some(true)
        } else if max_stalls > 0.0 && f64::from(job.stall_count) >= max_stalls {
            Some(false)
        } else {
            None
        };
        (job.max_attempts, job.stall_count, spent)
    }

    /// Section 9.2: back at once with the old run time, or the end.
    fn end_lock(&mut self, at: usize) {
        if self.discard_lost(at) {
            return;
        }
        let (max, stall_count, spent) = self.charge(at);
        let renewals = match &self.jobs[at].place {
            Place::Active(active) => active.renewals,
            _ => unreachable!("only deliveries have locks"),
        };
        let Some(by_attempts) = spent else {
            self.retry(at, FailureReason::Stalled, Some("Lock expired".into()));
            self.emit_for(at, EventKind::Stalled { detail: None });
            self.enqueue(at);
            return;
        };
        let detail = Some(StallDetail {
            stall_count,
            to_dlq: true,
        });
        self.emit_for(at, EventKind::Stalled { detail });
        let (reason, error, told) = if by_attempts {
            let error = format!("Lock expired at max attempts ({max})");
            (
                FailureReason::MaxAttemptsExceeded,
                error,
                "Lock expired (max attempts reached)",
            )
        } else {
            let error = format!("Lock expired after {renewals} renewals");
            (
                FailureReason::Stalled,
                error,
                "Lock expired (max stalls reached)",
            )
        };
        self.end_lost(at, reason, &error, told);
    }

    /// Section 9.1: retried with backoff, or the end.
    fn stall(&mut self, at: usize) {
        if self.discard_lost(at) {
            return;
        }
        let (max, stall_count, spent) = self.charge(at);
        let detail = Some(StallDetail {
            stall_count,
            to_dlq: spent.is_some(),
        });
        let Some(by_attempts) = spent else {
            self.retry(at, FailureReason::Stalled, Some("stalled".into()));
            self.emit_for(at, EventKind::Stalled { detail });
            self.back_off(at);
            return;
        };
        self.emit_for(at, EventKind::Stalled { detail });
        let (reason, error) = if by_attempts {
            (
                FailureReason::MaxAttemptsExceeded,
                format!("Job stalled at max attempts ({max})"),
            )
        } else {
            (
                FailureReason::Stalled,
                format!("Job stalled {stall_count} times"),
            )
        };
        self.end_lost(at, reason, &error, &error);
    }

    /// A lost job that fails for good no longer shows when it was started.
    pub(super) fn end_lost(&mut self, at: usize, reason: FailureReason, error: &str, told: &str) {
        let id = self.jobs[at].view.id.clone();
        self.end_telling(at, reason, Some(error.into()), Some(told.into()));
        if let Some(at) = self.find(&id) {
            self.jobs[at].view.started_at = None;
        }
    }
}
