//! What is counted and measured (sections 15, 21, 22; B-35): from a list of everything that ever happened.

use std::sync::Arc;

use bunqueue_mcp::command::{Command, Reply};
use bunqueue_mcp::engine::{
    Counts, Durability, EventKind, JobView, MemoryStats, MetricKind, Millis, Overview, QueueDetail,
    QueueHealth, QueueMetrics, QueueSummary, State, Stats, StorageStatus, StorageUsage, Throughput,
    Totalled, Totals,
};

use super::{Place, Reference};

/// Something that happened in a queue.
#[derive(Clone, Debug)]
struct Told {
    queue: Arc<str>,
    at: Millis,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Pushed,
    Pulled,
    Completed,
    Failed,
    Other,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    started_at: Option<Millis>,
    /// Everything, but for queues that were deleted.
    told: Vec<Told>,
    /// Everything in any queue.
    totals: Totals,
    /// Events cut off the journals.
    trimmed: Vec<(Arc<str>, usize)>,
    /// Ms from delivery to success.
    pub(super) worked: Vec<Millis>,
    read_at: Millis,
    read: Totals,
    rates: Option<[f64; 4]>,
}

impl Figures {
    pub(super) fn tell(&mut self, queue: &Arc<str>, at: Millis, kind: &EventKind) {
        let what = match kind {
            EventKind::Pushed => What::Pushed,
            EventKind::Pulled => What::Pulled,
            EventKind::Completed { .. } => What::Completed,
            EventKind::Failed { terminal, .. } if *terminal => What::Failed,
            _ => What::Other,
        };
        let one = |wanted| u64::from(what == wanted);
        self.totals = Totals {
            pushed: self.totals.pushed + one(What::Pushed),
            pulled: self.totals.pulled + one(What::Pulled),
            completed: self.totals.completed + one(What::Completed),
            failed: self.totals.failed + one(What::Failed),
        };
        let queue = Arc::clone(queue);
        self.told.push(Told { queue, at, what });
    }

    pub(super) fn started(&mut self, now: Millis) {
        if self.started_at.is_none() {
            (self.started_at, self.read_at) = (Some(now), now);
        }
    }

    fn forget(&mut self, queue: &str) {
        self.told.retain(|told| &*told.queue != queue);
        self.trimmed.retain(|(name, _)| &**name != queue);
    }

    fn times(&self, queue: &str, what: What) -> Vec<Millis> {
        let of = self.told.iter().filter(|told| &*told.queue == queue);
        of.filter(|told| told.what == what)
            .map(|told| told.at)
            .collect()
    }

    fn totals(&self, queue: &str) -> Totals {
        let count = |what| self.times(queue, what).len() as u64;
        Totals {
            pushed: count(What::Pushed),
            pulled: count(What::Pulled),
            completed: count(What::Completed),
            failed: count(What::Failed),
        }
    }

    fn throughput(&mut self, now: Millis) -> Throughput {
        let elapsed = (now - self.read_at) as f64;
        if elapsed >= 100.0 {
            let list = |totals: Totals| {
                [
                    totals.pushed,
                    totals.pulled,
                    totals.completed,
                    totals.failed,
                ]
            };
            let (new, old) = (list(self.totals), list(self.read));
            let mut rates = [0.0; 4];
            for place in 0..4 {
                // Multiplied first, which is exact: a rate that lies between two hundredths has one side only.
                let rate = (new[place] - old[place]) as f64 * 1_000.0 / elapsed;
                rates[place] = match self.rates {
                    Some(before) => 0.3 * rate + 0.7 * before[place],
                    None => rate,
                };
            }
            (self.read_at, self.read, self.rates) = (now, self.totals, Some(rates));
        }
        let [push, pull, complete, fail] = self
            .rates
            .unwrap_or_default()
            .map(|rate| (rate * 100.0).round() / 100.0);
        Throughput {
            push,
            pull,
            complete,
            fail,
        }
    }
}

/// Without a store both kinds are the same.
fn both(totals: Totals) -> Totalled {
    Totalled {
        since_start: totals,
        lifetime: totals,
    }
}

impl Reference {
    /// The answer to a command that is about figures.
    pub(super) fn figure(&mut self, command: &Command) -> Option<Reply> {
        Some(match command {
            Command::GetCount(get) => {
                let counts = self.counts(get.queue.as_str());
                Reply::Counted(counts.waiting + counts.prioritized + counts.delayed + counts.paused)
            }
            Command::GetStats(_) => Reply::Stats(Box::new(self.stats())),
            Command::GetLatency(_) => Reply::Latency(Box::default()),
            Command::GetQueueMetrics(get) => {
                let mut metrics = self.metrics(get.queue.as_str(), get.kind);
                let last = get.end.saturating_add(1).min(metrics.data.len());
                metrics.data.truncate(last);
                metrics.data.drain(..get.start.min(last));
                Reply::Metrics(metrics)
            }
            Command::TrimEvents(trim) => {
                let queue = trim.queue.shared();
                let removed = self.journal(&queue).saturating_sub(trim.keep);
                // What lies beyond ten thousand is gone already.
                let held = self.told_in(&queue) - self.trimmed_in(&queue);
                let cut = removed + held.saturating_sub(10_000);
                if removed > 0 {
                    self.figures.trimmed.push((queue, cut));
                }
                Reply::Counted(removed)
            }
            Command::GetMemoryStats(_) => Reply::Memory(Box::new(self.memory())),
            Command::GetStorageStatus(_) => Reply::Storage(in_memory()),
            Command::CompactMemory(_) => Reply::Done(()),
            Command::GetOverview(_) => Reply::Overview(Box::new(self.overview())),
            Command::ListQueueSummaries(_) => Reply::Summaries(self.summaries()),
            Command::GetQueueDetail(get) => {
                Reply::Detail(Box::new(self.page(&get.queue.shared(), get.previews)))
            }
            Command::GetQueueHealth(get) => Reply::Health(self.health(get.queue.as_str())),
            _ => return None,
        })
    }

    /// A queue is deleted with its figures.
    pub(super) fn forget_figures(&mut self, command: &Command) {
        if let Command::Obliterate(obliterate) = command {
            self.figures.forget(obliterate.queue.as_str());
        }
    }

    fn told_in(&self, queue: &str) -> usize {
        let told = self.figures.told.iter();
        told.filter(|told| &*told.queue == queue).count()
    }

    fn trimmed_in(&self, queue: &str) -> usize {
        let cuts = self.figures.trimmed.iter();
        cuts.filter(|(name, _)| &**name == queue)
            .map(|(_, cut)| cut)
            .sum()
    }

    fn journal(&self, queue: &str) -> usize {
        (self.told_in(queue) - self.trimmed_in(queue)).min(10_000)
    }

    /// Metrics of all minutes.
    fn metrics(&self, queue: &str, kind: MetricKind) -> QueueMetrics {
        let what = match kind {
            MetricKind::Completed => What::Completed,
            MetricKind::Failed => What::Failed,
        };
        let times = self.figures.times(queue, what);
        let minutes: Vec<Millis> = times.iter().map(|at| at / 60_000).collect();
        let oldest_kept = self.now / 60_000 - 20_159;
        let kept: Vec<Millis> = minutes
            .into_iter()
            .filter(|at| *at >= oldest_kept)
            .collect();
        let data: Vec<u64> = match (kept.iter().min(), kept.iter().max()) {
            (Some(first), Some(last)) => (*first..=*last)
                .rev()
                .map(|minute| kept.iter().filter(|at| **at == minute).count() as u64)
                .collect(),
            _ => Vec::new(),
        };
        QueueMetrics {
            count: times.len() as u64,
            last_at: times.last().copied(),
            minutes: data.len(),
            data,
        }
    }

    /// Counts as if no queue were paused.
    fn plain_counts(&self, queue: &str) -> Counts {
        let mut counts = self.counts(queue);
        counts.paused = 0;
        (counts.waiting, counts.prioritized) = (0, 0);
        for at in 0..self.jobs.len() {
            if &*self.jobs[at].view.queue == queue {
                match self.state_at(at) {
                    State::Waiting => counts.waiting += 1,
                    State::Prioritized => counts.prioritized += 1,
                    _ => {}
                }
            }
        }
        counts
    }

    fn queue_names_of_jobs(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self
            .jobs
            .iter()
            .map(|job| Arc::clone(&job.view.queue))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn stats(&mut self) -> Stats {
        let mut jobs = Counts::default();
        for queue in self.queue_names_of_jobs() {
            jobs = jobs.plus(&self.plain_counts(&queue));
        }
        let worked = &self.figures.worked;
        let average_work = if worked.is_empty() {
            0.0
        } else {
            worked.iter().sum::<Millis>() as f64 / worked.len() as f64
        };
        Stats {
            jobs,
            totals: both(self.figures.totals),
            uptime: self.now - self.figures.started_at.unwrap_or(self.now),
            throughput: self.figures.throughput(self.now),
            average_latency: 0.0,
            average_work,
            cron_jobs: self.crons.len(),
            cron_pending: self.pending_crons(),
            oldest_waiting_children: self.oldest_blocked(),
        }
    }

    /// Ms since the first admission of a job that waits for others now.
    fn oldest_blocked(&self) -> Option<Millis> {
        let blocked = self.jobs.iter().filter(|job| job.ties.waiting);
        let first = blocked.min_by_key(|job| job.seq)?;
        // The history begins with the admission.
        Some(self.now - first.view.timeline.first()?.at)
    }

    /// The number of deadlines is the engine's business; it is left at 0.
    fn memory(&self) -> MemoryStats {
        let count = |wanted: &dyn Fn(&super::Job) -> bool| {
            self.jobs.iter().filter(|job| wanted(job)).count()
        };
        let states = |wanted: &dyn Fn(State) -> bool| {
            (0..self.jobs.len())
                .filter(|at| wanted(self.state_at(*at)))
                .count()
        };
        let mut connections: Vec<_> = self
            .jobs
            .iter()
            .filter_map(|job| match &job.place {
                Place::Active(active) => active.connection,
                _ => None,
            })
            .collect();
        let owned = connections.len();
        connections.sort();
        connections.dedup();
        MemoryStats {
            job_index: self.jobs.len(),
            completed_jobs: states(&|state| state == State::Completed),
            job_results: count(&|job| job.result.is_some()),
            job_logs: count(&|job| !job.logs.is_empty()),
            custom_id_map: count(&|job| job.view.has_custom_id),
            job_locks: count(
                &|job| matches!(&job.place, Place::Active(active) if active.token.is_some()),
            ),
            client_jobs: connections.len(),
            client_jobs_total: owned,
            pending_dep_checks: 0,
            stalled_candidates: 0,
            processing_total: states(&|state| state == State::Active),
            queued_total: states(&|state| state.is_queued()),
            waiting_deps_total: states(&|state| state == State::WaitingChildren),
            temporal_index_total: 0,
            delayed_heap_total: states(&|state| state == State::Delayed),
        }
    }

    fn summary(&self, queue: &Arc<str>) -> QueueSummary {
        QueueSummary {
            name: Arc::clone(queue),
            paused: self.paused(queue),
            jobs: self.plain_counts(queue),
            totals: both(self.figures.totals(queue)),
            journal: self.journal(queue),
        }
    }

    /// Queues that are in use, by name; others may be forgotten or not.
    fn summaries(&self) -> Vec<QueueSummary> {
        let mut names: Vec<_> = self
            .queues
            .iter()
            .filter(|queue| queue.empty_since.is_none())
            .map(|queue| Arc::clone(&queue.name))
            .collect();
        names.sort();
        names.iter().map(|name| self.summary(name)).collect()
    }

    pub fn is_in_use(&self, queue: &str) -> bool {
        let mut queues = self.queues.iter();
        queues.any(|entry| &*entry.name == queue && entry.empty_since.is_none())
    }

    fn overview(&mut self) -> Overview {
        let workers = self.all_workers();
        Overview {
            at: self.now,
            stats: self.stats(),
            latency: Default::default(),
            memory: self.memory(),
            storage: in_memory(),
            workers: workers.list,
            worker_stats: workers.stats,
            crons: self.crons.clone(),
            webhooks: self.webhook_stats(),
            queues: self.summaries(),
            omitted_queues: 0,
        }
    }

    fn page(&self, queue: &Arc<str>, previews: Option<usize>) -> QueueDetail {
        let letters = self.dead_letters(queue);
        let in_state = |wanted: &dyn Fn(State) -> bool| {
            let mut jobs: Vec<JobView> = (0..self.jobs.len())
                .filter(|at| self.jobs[*at].view.queue == *queue && wanted(self.state_at(*at)))
                .map(|at| self.show(at))
                .collect();
            jobs.sort_by_key(|job| (job.created_at, job.id.clone()));
            jobs.truncate(previews.unwrap_or(0));
            jobs
        };
        let paused = self.paused(queue);
        QueueDetail {
            at: self.now,
            summary: self.summary(queue),
            counts: self.counts(queue),
            priorities: self.per_priority(queue),
            dead_letters: letters
                .into_iter()
                .take(10)
                .map(|at| self.detail(at))
                .collect(),
            jobs: previews.map(|_| bunqueue_mcp::engine::JobPreviews {
                waiting: in_state(&|state| state == State::Waiting && !paused),
                active: in_state(&|state| state == State::Active),
                delayed: in_state(&|state| state == State::Delayed),
                paused: in_state(&|state| {
                    paused && matches!(state, State::Waiting | State::Prioritized)
                }),
            }),
        }
    }

    fn health(&self, queue: &str) -> QueueHealth {
        let jobs = || (0..self.jobs.len()).filter(|at| &*self.jobs[*at].view.queue == queue);
        let age = |at: Millis| self.now - at;
        let ready =
            jobs().filter(|at| matches!(self.state_at(*at), State::Waiting | State::Prioritized));
        let active = || jobs().filter(|at| self.state_at(*at) == State::Active);
        let silent = active().filter(|at| {
            let view = &self.jobs[*at].view;
            let allowed = view.options.stall_timeout;
            age(view.last_heartbeat) as f64
                > allowed.unwrap_or(self.stall_config(queue).stall_interval)
        });
        QueueHealth {
            exists: self.is_in_use(queue),
            oldest_waiting: ready.map(|at| age(self.jobs[at].view.run_at)).max(),
            oldest_active: active()
                .filter_map(|at| self.jobs[at].view.started_at)
                .map(age)
                .max(),
            silent: silent.count(),
            next_run: jobs()
                .filter(|at| self.state_at(*at) == State::Delayed)
                .map(|at| self.jobs[at].view.run_at)
                .min(),
        }
    }
}

fn in_memory() -> StorageStatus {
    StorageStatus {
        disk_full: false,
        error: None,
        since: None,
        durability: Durability::None,
        usage: StorageUsage::default(),
    }
}
