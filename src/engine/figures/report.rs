//! Reading the figures: for monitoring, for dashboards, for a diagnosis. Each reading shows one instant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::cron::Cron;
use super::super::job::{JobDetail, JobView, State};
use super::super::lease::silence_allowed;
use super::super::outcome::{Bucket, Counts, Listing, WorkerStats, WorkerView};
use super::super::queue::{Queue, QueueKey};
use super::super::store::Job;
use super::super::webhook::WebhookStats;
use super::super::{Engine, Millis, Turn};
use super::minutes::Minute;
use super::{Counted, Latency, Throughput, Totals};

/// Ms from one compaction to the next. It looks at every job while everybody else waits, and any client may ask for it.
pub const COMPACTION_PERIOD: Millis = 10_000;
/// Jobs of one kind that a look at the health of a queue takes in: it holds everybody else up, and any client may ask for it.
pub const HEALTH_JOBS_MAX: usize = 10_000;
/// Dead letters that the detail of a queue shows.
const DEAD_LETTERS_SHOWN: usize = 10;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricKind {
    /// With a success.
    Completed,
    /// With a failure for good.
    Failed,
}

impl MetricKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Completed, Self::Failed];

    /// The kind with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "completed" => Some(Self::Completed),
            "failed" => Some(Self::Failed),
            _ => None,
        }
    }
}

/// Totals of both kinds (engine contract, B-35). Without a store they are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totalled {
    /// Counted by this process.
    pub since_start: Totals,
    /// Counted by this process and, through a store, by those before it.
    pub lifetime: Totals,
}

impl Counted {
    const fn show(&self) -> Totalled {
        Totalled {
            since_start: self.since_start,
            lifetime: self.since_start.plus(&self.earlier),
        }
    }
}

/// Figures over all queues.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Jobs per state, whether or not their queue is paused: `paused` is 0.
    pub jobs: Counts,
    /// What has happened.
    pub totals: Totalled,
    /// Ms since the engine was first called.
    pub uptime: Millis,
    /// Smoothed from one reading of these figures to the next.
    pub throughput: Throughput,
    /// Mean ms of a measured operation.
    pub average_latency: f64,
    /// Mean ms from the delivery of a job to its success.
    pub average_work: f64,
    /// Crons.
    pub cron_jobs: usize,
    /// Crons with a next run.
    pub cron_pending: usize,
    /// Ms since the creation of the oldest job that waits for others (engine contract, B-2); `None` without one.
    pub oldest_waiting_children: Option<Millis>,
}

/// The jobs of a queue that ended in one way, per minute. The protocol's `prevCount` is `count` too: it is the count at
/// the time of `last_at`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueMetrics {
    /// How many there ever were, those of earlier processes included.
    pub count: u64,
    /// When the last one ended; it is in the newest minute.
    pub last_at: Option<Millis>,
    /// Minutes from the oldest kept one with a job to the newest.
    pub minutes: usize,
    /// Jobs per minute for the minutes that were asked for, newest first.
    pub data: Vec<u64>,
}

/// Sizes of what the engine keeps, under the names that the protocol gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Jobs in any state.
    pub job_index: usize,
    /// Completed jobs.
    pub completed_jobs: usize,
    /// Results.
    pub job_results: usize,
    /// Jobs with a log.
    pub job_logs: usize,
    /// Jobs whose id a client chose.
    pub custom_id_map: usize,
    /// Deliveries in progress with a lock.
    pub job_locks: usize,
    /// Connections that deliveries belong to.
    pub client_jobs: usize,
    /// Deliveries that belong to a connection.
    pub client_jobs_total: usize,
    /// Jobs whose dependencies are still to be looked at: none, a success is followed up at once.
    pub pending_dep_checks: usize,
    /// Deliveries that were silent at one check and wait for the next: none, each has its deadline.
    pub stalled_candidates: usize,
    /// Active jobs.
    pub processing_total: usize,
    /// Queued jobs.
    pub queued_total: usize,
    /// Jobs that wait for others.
    pub waiting_deps_total: usize,
    /// Deadlines.
    pub temporal_index_total: usize,
    /// Delayed jobs.
    pub delayed_heap_total: usize,
}

/// What of an answered change is still there after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: jobs are in memory.
    None,
    /// All but that of the last 10 ms.
    Buffered,
    /// All of it, unless the power fails.
    Committed,
    /// All of it.
    Durable,
    /// Whatever another server has settled.
    Remote,
}

impl Durability {
    /// The name on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Buffered => "buffered",
            Self::Committed => "committed",
            Self::Durable => "durable",
            Self::Remote => "remote",
        }
    }
}

/// How the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageStatus {
    /// No room is left.
    pub disk_full: bool,
    /// What went wrong with the last write.
    pub error: Option<Arc<str>>,
    /// Since when.
    pub since: Option<Millis>,
    /// The level in force.
    pub durability: Durability,
    /// How much there is, and how it comes along.
    pub usage: StorageUsage,
}

/// What a store holds and how fast it is; all zero in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageUsage {
    /// Bytes of the data file.
    pub file_bytes: u64,
    /// Bytes of its write-ahead file.
    pub log_bytes: u64,
    /// Jobs and queues with changes that are not stored yet.
    pub unsaved: usize,
    /// How long the last commit took, from taking the changes to having them stored.
    pub commit: Duration,
}

impl StorageStatus {
    /// A store that keeps nothing has no trouble.
    pub(in crate::engine) const IN_MEMORY: Self = Self {
        disk_full: false,
        error: None,
        since: None,
        durability: Durability::None,
        usage: StorageUsage {
            file_bytes: 0,
            log_bytes: 0,
            unsaved: 0,
            commit: Duration::ZERO,
        },
    };

    /// Whether anything is wrong.
    pub const fn is_degraded(&self) -> bool {
        self.disk_full || self.error.is_some()
    }
}

/// A queue at a glance.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSummary {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it hands out nothing.
    pub paused: bool,
    /// Jobs per state, paused or not: `paused` is 0.
    pub jobs: Counts,
    /// What has happened in it.
    pub totals: Totalled,
    /// Events in its journal.
    pub journal: usize,
}

/// Everything over all queues.
#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    /// When.
    pub at: Millis,
    /// Figures over all queues.
    pub stats: Stats,
    /// How long operations take.
    pub latency: Latency,
    /// Sizes.
    pub memory: MemoryStats,
    /// The store.
    pub storage: StorageStatus,
    /// Workers, in order of registration, if asked for.
    pub workers: Vec<WorkerView>,
    /// Over all of them.
    pub worker_stats: WorkerStats,
    /// Crons, in order of creation, if asked for.
    pub crons: Vec<Cron>,
    /// How many webhooks there are.
    pub webhooks: WebhookStats,
    /// Queues, in order of first use, as many as were asked for.
    pub queues: Vec<QueueSummary>,
    /// How many queues there are beside those.
    pub omitted_queues: usize,
}

/// A queue for its page of a dashboard.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueDetail {
    /// When.
    pub at: Millis,
    /// The queue at a glance; zeros when there is none of that name.
    pub summary: QueueSummary,
    /// Jobs per state, ready ones of a paused queue under `paused` alone.
    pub counts: Counts,
    /// Queued jobs per priority, highest first.
    pub priorities: Vec<(f64, usize)>,
    /// The first ten dead letters, oldest first.
    pub dead_letters: Vec<JobDetail>,
    /// Some of its jobs, if asked for.
    pub jobs: Option<JobPreviews>,
}

/// The first jobs of some states, in order of creation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobPreviews {
    /// Waiting.
    pub waiting: Vec<JobView>,
    /// Active.
    pub active: Vec<JobView>,
    /// Delayed.
    pub delayed: Vec<JobView>,
    /// Ready in a paused queue.
    pub paused: Vec<JobView>,
}

/// What tells whether a queue moves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueHealth {
    /// Whether the name is known.
    pub exists: bool,
    /// Ms since the run time of the ready job that waits longest.
    pub oldest_waiting: Option<Millis>,
    /// Ms since the earliest delivery in progress began.
    pub oldest_active: Option<Millis>,
    /// Deliveries in progress that have been silent for longer than their stall interval.
    pub silent: usize,
    /// When the first delayed job becomes ready.
    pub next_run: Option<Millis>,
}

/// Jobs per state, paused or not.
fn unadjusted(queue: &Queue) -> Counts {
    Counts {
        waiting: queue.ready.len() - queue.prioritized,
        prioritized: queue.prioritized,
        paused: 0,
        ..queue.counts()
    }
}

impl Engine {
    /// Figures over all queues. Reading them is what throughput is measured by.
    pub fn stats(&mut self, turn: &mut Turn<'_>) -> Stats {
        self.tick(turn);
        self.read_stats()
    }

    fn read_stats(&mut self) -> Stats {
        let now = self.now;
        let queues = self.queues.all().map(|(_, queue)| unadjusted(queue));
        let jobs = queues.fold(Counts::default(), |sum, counts| sum.plus(&counts));
        let (cron_jobs, cron_pending) = self.cron_counts();
        let figures = &mut self.figures;
        let totals = figures.totals.show();
        let (successes, ms) = figures.worked;
        Stats {
            jobs,
            totals,
            uptime: now.saturating_sub(figures.started_at.unwrap_or(now)),
            throughput: figures.speed.read(now, totals.since_start),
            average_latency: figures.latency.average(),
            average_work: if successes == 0 {
                0.0
            } else {
                ms as f64 / successes as f64
            },
            cron_jobs,
            cron_pending,
            oldest_waiting_children: self.oldest_blocked().map(|at| self.now.saturating_sub(at)),
        }
    }

    /// When the job that has been blocked since the earliest admission was added.
    fn oldest_blocked(&self) -> Option<Millis> {
        let first = |(_, queue): (_, &Queue)| queue.blocked.first().copied();
        let (_, key) = self.queues.all().filter_map(first).min()?;
        Some(self.store.job(key).admitted_at())
    }

    /// How long operations take.
    pub fn latency(&mut self, turn: &mut Turn<'_>) -> Latency {
        self.tick(turn);
        self.figures.latency.clone()
    }

    /// The jobs of a queue that ended in one way, per minute: from the `start`-th newest minute to the `end`-th, both
    /// included, counted from 0; zeros for an unknown queue.
    pub fn queue_metrics(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        kind: MetricKind,
        start: usize,
        end: usize,
    ) -> QueueMetrics {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return QueueMetrics::default();
        };
        let (now, kept) = (Minute::of(self.now), self.config.metric_minutes);
        let figures = &self.queues.get(key).figures;
        let lifetime = figures.totals.show().lifetime;
        let (count, minutes) = match kind {
            MetricKind::Completed => (lifetime.completed, &figures.completed),
            MetricKind::Failed => (lifetime.failed, &figures.failed),
        };
        QueueMetrics {
            count,
            last_at: minutes.last_at(),
            minutes: minutes.len(now, kept),
            data: minutes.range(now, kept, start, end),
        }
    }

    /// Cuts the journal of a queue to its newest `keep` events; how many were removed.
    pub fn trim_events(&mut self, turn: &mut Turn<'_>, queue: &str, keep: usize) -> usize {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return 0;
        };
        let journal = &mut self.queues.get_mut(key).figures.journal;
        let removed = journal.saturating_sub(keep);
        *journal -= removed;
        self.queues.marks.touch(key);
        removed
    }

    /// Sizes of what the engine keeps.
    pub fn memory_stats(&mut self, turn: &mut Turn<'_>) -> MemoryStats {
        self.tick(turn);
        self.read_memory_stats()
    }

    fn read_memory_stats(&self) -> MemoryStats {
        let queues = self.queues.all().map(|(_, queue)| queue.counts());
        let jobs = queues.fold(Counts::default(), |sum, counts| sum.plus(&counts));
        let deliveries = self.connections.values().map(BTreeMap::len);
        MemoryStats {
            job_index: self.store.len(),
            completed_jobs: jobs.completed,
            job_results: self.retention.results(),
            job_logs: self.retention.logged_jobs(),
            custom_id_map: self.store.custom_ids(),
            job_locks: self.figures.locks,
            client_jobs: deliveries.clone().filter(|held| *held > 0).count(),
            client_jobs_total: deliveries.sum(),
            pending_dep_checks: 0,
            stalled_candidates: 0,
            processing_total: jobs.active,
            queued_total: jobs.queued(),
            waiting_deps_total: jobs.waiting_children,
            temporal_index_total: self.deadlines.len(),
            delayed_heap_total: jobs.delayed,
        }
    }

    /// How the store is.
    pub fn storage_status(&mut self, turn: &mut Turn<'_>) -> StorageStatus {
        self.tick(turn);
        self.storage()
    }

    fn storage(&self) -> StorageStatus {
        let mut status = self.storage.clone();
        if status.durability != Durability::None {
            status.usage.unsaved = self.unsaved();
        }
        status
    }

    /// Gives back memory that was needed once and is not any more; whether it did: within [`COMPACTION_PERIOD`] of the last
    /// time it does nothing.
    pub fn compact(&mut self, turn: &mut Turn<'_>) -> bool {
        self.tick(turn);
        let since = self.compacted_at.map(|at| self.now.saturating_sub(at));
        if since.is_some_and(|ms| ms < COMPACTION_PERIOD) {
            return false;
        }
        self.compacted_at = Some(self.now);
        self.store.shrink();
        self.retention.shrink();
        self.connections
            .retain(|_, deliveries| !deliveries.is_empty());
        self.connections.shrink_to_fit();
        self.queues.shrink();
        for (_, queue) in self.queues.iter_mut() {
            queue.ready.shrink();
            queue.keys.shrink_to_fit();
            queue.figures.completed.shrink();
            queue.figures.failed.shrink();
        }
        self.figures.minutes.shrink_to_fit();
        true
    }

    /// Queues at a glance, in order of first use.
    pub fn queue_summaries(&mut self, turn: &mut Turn<'_>) -> Vec<QueueSummary> {
        self.tick(turn);
        let (queues, _) = self.queues.listed(usize::MAX);
        queues.into_iter().map(summary).collect()
    }

    /// Everything over all queues: `registered` lists workers and crons, `queues` so many queues, the first in use. Whoever
    /// needs no lists spares those who wait the time to make them.
    pub fn overview(&mut self, turn: &mut Turn<'_>, registered: bool, queues: usize) -> Overview {
        self.tick(turn);
        let worker_stats = self.worker_stats();
        let (workers, crons) = if registered {
            (self.workers(turn).0, self.crons(turn, None))
        } else {
            (Vec::new(), Vec::new())
        };
        let (queues, omitted_queues) = self.queues.listed(queues);
        let queues = queues.into_iter().map(summary).collect();
        Overview {
            at: self.now,
            stats: self.read_stats(),
            latency: self.figures.latency.clone(),
            memory: self.read_memory_stats(),
            storage: self.storage(),
            workers,
            worker_stats,
            crons,
            webhooks: self.webhook_stats(),
            queues,
            omitted_queues,
        }
    }

    /// A queue for its page; with up to `previews` jobs of some states. The cost of those grows with the jobs in these
    /// states, as that of a listing.
    pub fn queue_detail(
        &mut self,
        turn: &mut Turn<'_>,
        name: &Arc<str>,
        previews: Option<usize>,
    ) -> QueueDetail {
        self.tick(turn);
        let key = self.queues.find(name);
        let unknown = || summary(&Queue::new(Arc::clone(name)));
        let dead = |key: QueueKey| {
            let letters = self
                .queues
                .get(key)
                .failed
                .values()
                .take(DEAD_LETTERS_SHOWN);
            letters.map(|job| self.detail(*job)).collect()
        };
        QueueDetail {
            at: self.now,
            summary: key.map_or_else(unknown, |key| summary(self.queues.get(key))),
            dead_letters: key.map_or_else(Vec::new, dead),
            counts: self.counts(turn, name),
            priorities: self.counts_per_priority(turn, name),
            jobs: previews.map(|limit| self.previews(turn, name, limit)),
        }
    }

    fn previews(&mut self, turn: &mut Turn<'_>, queue: &Arc<str>, limit: usize) -> JobPreviews {
        let mut first = |bucket| {
            let listing = Listing {
                queue: Arc::clone(queue),
                buckets: vec![bucket],
                after: None,
                offset: 0,
                limit,
                ascending: true,
            };
            let jobs = self.jobs(turn, &listing).into_iter();
            jobs.map(|detail| detail.job).collect()
        };
        JobPreviews {
            waiting: first(Bucket::State(State::Waiting)),
            active: first(Bucket::State(State::Active)),
            delayed: first(Bucket::State(State::Delayed)),
            paused: first(Bucket::Paused),
        }
    }

    /// What tells whether a queue moves. Of active and of delayed jobs, and of ready ones that are not of default priority or
    /// belong to groups, it looks at [`HEALTH_JOBS_MAX`] each; the figures are those of the jobs it has looked at.
    pub fn queue_health(&mut self, turn: &mut Turn<'_>, queue: &str) -> QueueHealth {
        self.tick(turn);
        let Some(queue_key) = self.queues.find(queue) else {
            return QueueHealth::default();
        };
        let (now, queue) = (self.now, self.queues.get(queue_key));
        let since = |at: Millis| now.saturating_sub(at);
        let run_at = |key| self.store.job(key).run_at;
        let looked_at = || queue.active.iter().take(HEALTH_JOBS_MAX);
        let active = || looked_at().map(|key| self.store.job(*key));
        let started_at = |job: &Job| job.life.as_ref()?.started_at;
        let config = self.stall_config(queue_key);
        let is_silent = |job: &&Job| {
            let last = job.life.as_ref().and_then(|life| life.last_heartbeat);
            since(last.unwrap_or(job.created_at)) > silence_allowed(job, &config) as Millis
        };
        QueueHealth {
            exists: queue.listed.is_some(),
            oldest_waiting: first_of(queue.ready.earliest().map(run_at)).map(since),
            oldest_active: active().filter_map(started_at).min().map(since),
            silent: active().filter(is_silent).count(),
            next_run: first_of(queue.delayed.iter().copied().map(run_at)),
        }
    }
}

/// The earliest of some times, the first [`HEALTH_JOBS_MAX`] of them.
fn first_of(times: impl Iterator<Item = Millis>) -> Option<Millis> {
    times.take(HEALTH_JOBS_MAX).min()
}

fn summary(queue: &Queue) -> QueueSummary {
    QueueSummary {
        name: Arc::clone(&queue.name),
        paused: queue.paused,
        jobs: unadjusted(queue),
        totals: queue.figures.totals.show(),
        journal: queue.figures.journal,
    }
}
