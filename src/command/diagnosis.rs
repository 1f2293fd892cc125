//! What keeps a queue from moving: from what was read of it to a verdict (MCP contract, section 13.1). Pure rules; who asks
//! reads the facts at one instant and finds the words.

use crate::engine::{Counts, Millis, QueueHealth, QueueLimits, StorageStatus, WorkerView};

/// What was read of a queue.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Jobs per state, ready ones of a paused queue under `paused`.
    pub counts: Counts,
    /// How long jobs wait, and who is silent.
    pub health: QueueHealth,
    /// What limits it.
    pub limits: QueueLimits,
    /// The workers that say they serve it.
    pub workers: Vec<WorkerView>,
    /// Workers of this process that call a URL for it.
    pub handlers: usize,
    /// The store of the broker.
    pub storage: StorageStatus,
    /// When all of this was read.
    pub at: Millis,
    /// Ms without a sign of life after which a worker is stale.
    pub stale_after: Millis,
}

/// Something that keeps jobs from running, or will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// The queue is paused and has unfinished jobs.
    Paused,
    /// The store has trouble.
    StorageUnhealthy,
    /// Jobs are ready and nobody is known to work on them.
    NoWorkers,
    /// No worker has given a sign of life lately.
    StaleWorkers,
    /// As many jobs are active as may be, and others are ready.
    ConcurrencyMaxed,
    /// Ready jobs wait for the rate limit.
    RateLimited,
    /// Every unfinished job is delayed.
    AllDelayed,
    /// Every unfinished job waits for others.
    WaitingChildren,
    /// Deliveries have been silent for longer than they may.
    StalledActive,
    /// Jobs have failed for good.
    DeadLetters,
}

impl Blocker {
    /// All of them, most decisive first.
    pub const ALL: [Self; 10] = [
        Self::Paused,
        Self::StorageUnhealthy,
        Self::NoWorkers,
        Self::StaleWorkers,
        Self::ConcurrencyMaxed,
        Self::RateLimited,
        Self::AllDelayed,
        Self::WaitingChildren,
        Self::StalledActive,
        Self::DeadLetters,
    ];

    /// Its name on every surface.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::StorageUnhealthy => "storage_unhealthy",
            Self::NoWorkers => "no_workers",
            Self::StaleWorkers => "stale_workers",
            Self::ConcurrencyMaxed => "concurrency_maxed",
            Self::RateLimited => "rate_limited",
            Self::AllDelayed => "all_delayed",
            Self::WaitingChildren => "waiting_children",
            Self::StalledActive => "stalled_active",
            Self::DeadLetters => "dead_letters",
        }
    }

    /// Whether no ready job can start while it lasts; the others are warnings.
    pub const fn is_blocking(self) -> bool {
        matches!(
            self,
            Self::Paused
                | Self::StorageUnhealthy
                | Self::NoWorkers
                | Self::ConcurrencyMaxed
                | Self::RateLimited
        )
    }
}

/// How a queue is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No job could run.
    Idle,
    /// Jobs are ready and none can start.
    Blocked,
    /// It moves, with something to look at.
    Degraded,
    /// It moves.
    Healthy,
}

impl Verdict {
    /// Its name on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Blocked => "blocked",
            Self::Degraded => "degraded",
            Self::Healthy => "healthy",
        }
    }
}

impl Observed {
    /// Jobs that could start now if nothing kept them.
    pub const fn ready(&self) -> usize {
        self.counts.waiting + self.counts.prioritized + self.counts.paused
    }

    /// Workers without a recent sign of life.
    pub fn stale_workers(&self) -> usize {
        let is_stale = |worker: &&WorkerView| self.at - worker.last_seen > self.stale_after;
        self.workers.iter().filter(is_stale).count()
    }

    /// Whether the rate limit lets no job start now.
    pub const fn is_rate_limited(&self) -> bool {
        self.limits.rate_ttl > 0
    }

    /// What keeps the queue, most decisive first.
    pub fn blockers(&self) -> Vec<Blocker> {
        let holds = |blocker: &Blocker| self.holds(*blocker);
        Blocker::ALL.into_iter().filter(holds).collect()
    }

    fn holds(&self, blocker: Blocker) -> bool {
        let jobs = &self.counts;
        let is_ready = self.ready() > 0;
        let unfinished = self.ready() + jobs.delayed + jobs.active + jobs.waiting_children;
        let are_all = |count: usize| count > 0 && count == unfinished;
        match blocker {
            // One that nobody has is an empty queue, whatever the broker suffers from.
            _ if !self.health.exists => false,
            Blocker::Paused => self.limits.paused && unfinished > 0,
            Blocker::StorageUnhealthy => self.storage.is_degraded(),
            Blocker::NoWorkers => {
                let nobody = self.workers.is_empty() && self.handlers == 0;
                is_ready && jobs.active == 0 && nobody
            }
            Blocker::StaleWorkers => {
                !self.workers.is_empty() && self.stale_workers() == self.workers.len()
            }
            Blocker::ConcurrencyMaxed => self.limits.maxed && is_ready,
            Blocker::RateLimited => self.is_rate_limited() && is_ready,
            Blocker::AllDelayed => are_all(jobs.delayed),
            Blocker::WaitingChildren => are_all(jobs.waiting_children),
            Blocker::StalledActive => self.health.silent > 0,
            Blocker::DeadLetters => jobs.failed > 0,
        }
    }

    /// The verdict, given what keeps the queue.
    pub fn verdict(&self, blockers: &[Blocker]) -> Verdict {
        let is_ready = self.ready() > 0;
        if is_ready && blockers.iter().any(|blocker| blocker.is_blocking()) {
            Verdict::Blocked
        } else if !is_ready && self.counts.active == 0 {
            Verdict::Idle
        } else if blockers.is_empty() {
            Verdict::Healthy
        } else {
            Verdict::Degraded
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Durability, RateLimit, StorageUsage};

    fn worker(last_seen: Millis) -> WorkerView {
        WorkerView {
            id: "w".into(),
            name: "worker".into(),
            queues: vec!["q".into()],
            concurrency: 1.0,
            hostname: "".into(),
            pid: 0.0,
            registered_at: 0,
            last_seen,
            active: true,
            active_jobs: 0.0,
            processed_jobs: 0.0,
            failed_jobs: 0.0,
        }
    }

    /// A queue that moves: one job ready, one active, a worker seen 60 s ago, which is just recent.
    fn healthy() -> Observed {
        Observed {
            counts: Counts {
                waiting: 1,
                active: 1,
                ..Counts::default()
            },
            health: QueueHealth {
                exists: true,
                ..QueueHealth::default()
            },
            limits: QueueLimits {
                rate: None,
                rate_ttl: -2,
                concurrency: None,
                active: 1,
                maxed: false,
                paused: false,
            },
            workers: vec![worker(1_000)],
            handlers: 0,
            storage: StorageStatus {
                disk_full: false,
                error: None,
                since: None,
                durability: Durability::Committed,
                usage: StorageUsage::default(),
            },
            at: 61_000,
            stale_after: 60_000,
        }
    }

    fn judged(change: impl Fn(&mut Observed)) -> (Verdict, Vec<&'static str>) {
        let mut observed = healthy();
        change(&mut observed);
        let blockers = observed.blockers();
        let codes = blockers.iter().map(|blocker| blocker.code()).collect();
        (observed.verdict(&blockers), codes)
    }

    fn only(observed: &mut Observed, counts: Counts) {
        observed.counts = counts;
    }

    #[test]
    fn each_blocker_appears_when_its_condition_holds() {
        type Change = fn(&mut Observed);
        let counts = Counts::default();
        let cases: Vec<(Change, Verdict, &[&str])> = vec![
            (|_| {}, Verdict::Healthy, &[]),
            (
                |o| {
                    o.limits.paused = true;
                    only(
                        o,
                        Counts {
                            paused: 2,
                            ..Counts::default()
                        },
                    );
                },
                Verdict::Blocked,
                &["paused"],
            ),
            // Paused, with nothing to pause.
            (
                |o| {
                    o.limits.paused = true;
                    only(
                        o,
                        Counts {
                            completed: 2,
                            ..Counts::default()
                        },
                    );
                },
                Verdict::Idle,
                &[],
            ),
            (
                |o| o.storage.error = Some("e".into()),
                Verdict::Blocked,
                &["storage_unhealthy"],
            ),
            (
                |o| o.storage.disk_full = true,
                Verdict::Blocked,
                &["storage_unhealthy"],
            ),
            (
                |o| {
                    o.workers.clear();
                    o.counts.active = 0;
                },
                Verdict::Blocked,
                &["no_workers"],
            ),
            // Somebody pulls without having registered.
            (|o| o.workers.clear(), Verdict::Healthy, &[]),
            (|o| o.at += 1, Verdict::Degraded, &["stale_workers"]),
            (
                |o| {
                    o.at += 1;
                    o.workers.push(worker(2_000));
                },
                Verdict::Healthy,
                &[],
            ),
            (
                |o| o.limits.maxed = true,
                Verdict::Blocked,
                &["concurrency_maxed"],
            ),
            // All that may run do run, and nothing waits for them.
            (
                |o| {
                    o.limits.maxed = true;
                    o.counts.waiting = 0;
                },
                Verdict::Healthy,
                &[],
            ),
            (
                |o| {
                    o.limits.rate = Some(RateLimit {
                        max: 1,
                        duration: 1,
                    });
                    o.limits.rate_ttl = 1;
                },
                Verdict::Blocked,
                &["rate_limited"],
            ),
            (
                |o| {
                    only(
                        o,
                        Counts {
                            delayed: 3,
                            completed: 1,
                            ..Counts::default()
                        },
                    )
                },
                Verdict::Idle,
                &["all_delayed"],
            ),
            (
                |o| {
                    only(
                        o,
                        Counts {
                            waiting_children: 3,
                            ..Counts::default()
                        },
                    )
                },
                Verdict::Idle,
                &["waiting_children"],
            ),
            (
                |o| {
                    only(
                        o,
                        Counts {
                            waiting_children: 3,
                            delayed: 1,
                            ..Counts::default()
                        },
                    )
                },
                Verdict::Idle,
                &[],
            ),
            (
                |o| o.health.silent = 1,
                Verdict::Degraded,
                &["stalled_active"],
            ),
            (
                |o| o.counts.failed = 1,
                Verdict::Degraded,
                &["dead_letters"],
            ),
            // Several, in their order.
            (
                |o| {
                    o.counts.failed = 1;
                    o.limits.maxed = true;
                    o.at += 1;
                },
                Verdict::Blocked,
                &["stale_workers", "concurrency_maxed", "dead_letters"],
            ),
        ];
        assert_eq!(counts.total(), 0);
        for (change, verdict, codes) in cases {
            assert_eq!(judged(change), (verdict, codes.to_vec()));
        }
    }

    #[test]
    fn a_queue_that_nobody_has_is_idle_whatever_ails_the_broker() {
        let judged = judged(|observed| {
            observed.health.exists = false;
            observed.counts = Counts::default();
            observed.storage.disk_full = true;
        });
        assert_eq!(judged, (Verdict::Idle, vec![]));
    }
}
