//! Figures (tcp protocol section 23).

use super::Exchange;
use super::answer::number;
use super::ask::ask;
use crate::command::{Command, GetQueueMetrics, Reply};
use crate::engine::{
    Counts, Durability, MemoryStats, MetricKind, QueueMetrics, QueueSummary, Stats, StorageStatus,
    StorageUsage, Throughput, Totalled, Totals,
};
use crate::wire::fields::Fields;

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    Some(match command {
        Command::GetQueueMetrics(get) => queue_metrics(get),
        Command::TrimEvents(trim) => ask("TrimEvents")
            .queue(&trim.queue)
            .count("maxLength", trim.keep)
            .then(|fields| fields.inner("data")?.size("removed").map(Reply::Counted)),
        Command::GetMemoryStats(_) => ask("DashboardOverview").then(memory),
        Command::GetStorageStatus(_) => ask("StorageStatus").then(storage),
        Command::CompactMemory(_) => ask("CompactMemory").done(),
        Command::ListQueueSummaries(_) => ask("DashboardQueues").then(|fields| {
            let queues = fields.inner("data")?.maps("queues", summary);
            queues.map(Reply::Summaries)
        }),
        _ => return None,
    })
}

/// Figures over all queues: jobs, throughput, uptime. The totals are in [`metrics`].
pub fn stats() -> Exchange {
    ask("Stats").then(|fields| {
        let told = fields.inner("stats")?;
        let count = |name| told.size(name).unwrap_or(0);
        Some(Reply::Stats(Box::new(Stats {
            jobs: Counts {
                waiting: count("waiting"),
                delayed: count("delayed"),
                active: count("active"),
                completed: count("completed"),
                failed: count("dlq"),
                ..Counts::default()
            },
            totals: Totalled::default(),
            uptime: told.millis("uptime")?,
            throughput: Throughput {
                push: told.f64("pushPerSec").unwrap_or(0.0),
                pull: told.f64("pullPerSec").unwrap_or(0.0),
                ..Throughput::default()
            },
            average_latency: 0.0,
            average_work: 0.0,
            cron_jobs: 0,
            cron_pending: 0,
            oldest_waiting_children: None,
        })))
    })
}

/// Figures over all queues: totals and averages, put into the answer to [`stats`].
pub fn metrics(mut stats: Box<Stats>) -> Exchange {
    ask("Metrics").then(move |fields| {
        let told = fields.inner("metrics")?;
        let total = |name| told.u64(name).unwrap_or(0);
        let totals = Totals {
            pushed: total("totalPushed"),
            pulled: total("totalPulled"),
            completed: total("totalCompleted"),
            failed: total("totalFailed"),
        };
        stats.totals = Totalled {
            since_start: totals,
            lifetime: totals,
        };
        stats.average_latency = told.f64("avgLatencyMs").unwrap_or(0.0);
        stats.average_work = told.f64("avgProcessingMs").unwrap_or(0.0);
        Some(Reply::Stats(stats))
    })
}

/// The text for Prometheus, under [`Reply::Names`] as its one text.
pub fn exposition() -> Exchange {
    ask("Prometheus").then(|fields| {
        let text = fields.inner("data")?.shared("metrics")?;
        Some(Reply::Names(vec![text]))
    })
}

fn queue_metrics(get: &GetQueueMetrics) -> Exchange {
    let kind = match get.kind {
        MetricKind::Completed => "completed",
        MetricKind::Failed => "failed",
    };
    let end = Some(get.end).filter(|end| *end != usize::MAX);
    ask("Metrics")
        .queue(&get.queue)
        .text("type", kind)
        .count("start", get.start)
        .count_if("end", end)
        .then(|fields| {
            let data = fields.inner("data")?;
            let meta = data.inner("meta")?;
            let minutes = data.each("data")?;
            Some(Reply::Metrics(QueueMetrics {
                count: meta.u64("count")?,
                last_at: meta.millis("prevTS").filter(|at| *at != 0),
                minutes: data.size("count")?,
                data: minutes
                    .map(|jobs| number(jobs).map(|jobs| jobs as u64))
                    .collect::<Option<_>>()?,
            }))
        })
}

fn memory(fields: &Fields<'_>) -> Option<Reply> {
    let sizes = fields.inner("data")?.inner("collections")?;
    let size = |name| sizes.size(name).unwrap_or(0);
    Some(Reply::Memory(Box::new(MemoryStats {
        job_index: size("jobIndex"),
        completed_jobs: size("completedJobs"),
        job_results: size("jobResults"),
        job_logs: size("jobLogs"),
        custom_id_map: size("customIdMap"),
        job_locks: size("jobLocks"),
        client_jobs: size("clientJobs"),
        client_jobs_total: size("clientJobsTotal"),
        pending_dep_checks: size("pendingDepChecks"),
        stalled_candidates: size("stalledCandidates"),
        processing_total: size("processingTotal"),
        queued_total: size("queuedTotal"),
        waiting_deps_total: size("waitingDepsTotal"),
        temporal_index_total: size("temporalIndexTotal"),
        delayed_heap_total: size("delayedHeapTotal"),
    })))
}

fn storage(fields: &Fields<'_>) -> Option<Reply> {
    let data = fields.inner("data")?;
    Some(Reply::Storage(StorageStatus {
        disk_full: data.flag("diskFull")?,
        error: data.shared("error"),
        since: data.millis("since"),
        durability: Durability::Remote,
        usage: StorageUsage::default(),
    }))
}

fn summary(fields: &Fields<'_>) -> Option<QueueSummary> {
    let count = |name| fields.size(name).unwrap_or(0);
    Some(QueueSummary {
        name: fields.shared("name")?,
        paused: fields.is_true("paused"),
        jobs: Counts {
            waiting: count("waiting"),
            prioritized: count("prioritized"),
            delayed: count("delayed"),
            active: count("active"),
            failed: count("dlq"),
            ..Counts::default()
        },
        totals: Totalled::default(),
        journal: 0,
    })
}
