//! Figures (tcp protocol section 23). Totals are those since the start of the process.

use super::query::{counts_by_state, priority_counts};
use super::{Entries, Success, Tried, cron};
use crate::command::payload::Writer;
use crate::command::{CommandError, Reply};
use crate::engine::{
    Histogram, JobDetail, JobPreviews, JobView, MemoryStats, Overview, QueueDetail, QueueMetrics,
    QueueSummary, Stats, StorageStatus, Totals, WorkerView,
};
use crate::wire::reply::{Memory, Surroundings};
use crate::wire::shape::Monitor;

pub(super) fn write<'a>(
    success: Success<'a>,
    shape: Monitor,
    reply: &Reply,
    around: &dyn Surroundings,
) -> Tried<'a> {
    match (shape, reply) {
        (Monitor::Stats, Reply::Stats(figures)) => stats(success, figures),
        (Monitor::Metrics, Reply::Stats(figures)) => metrics(success, figures, around.memory()),
        (Monitor::QueueMetrics, Reply::Metrics(figures)) => queue_metrics(success, figures),
        (Monitor::Trimmed, Reply::Counted(removed)) => success.data(1).count("removed", *removed),
        (Monitor::Exposition, Reply::Overview(figures)) => {
            success.data(1).text("metrics", &around.exposition(figures));
        }
        (Monitor::Storage, Reply::Storage(status)) => {
            storage(&mut success.data(STORAGE_KEYS), status);
        }
        (Monitor::Overview, Reply::Overview(figures)) => {
            overview(success, figures, around.memory());
        }
        (Monitor::Queues, Reply::Summaries(queues)) => {
            let mut data = success.data(2);
            data.key("queues").array(queues.len());
            for queue in queues {
                summary(&mut data, queue);
            }
            data.time("timestamp", around.now());
        }
        (Monitor::Queue, Reply::Detail(queue)) => detail(success, queue),
        _ => return Tried::NotMine(success),
    }
    Tried::Written(Ok(()))
}

fn stats(success: Success<'_>, figures: &Stats) {
    let mut map = success.with(1);
    map.nested("stats", STATE_KEYS + 4);
    states(&mut map, figures);
    map.number("failed", figures.totals.since_start.failed as f64);
    map.time("uptime", figures.uptime);
    map.number("pushPerSec", figures.throughput.push);
    map.number("pullPerSec", figures.throughput.pull);
}

/// Keys of [`states`].
const STATE_KEYS: usize = 5;

/// Jobs by state over all queues; prioritized ones are nowhere among them.
fn states(map: &mut Entries<'_>, figures: &Stats) {
    let jobs = &figures.jobs;
    map.count("waiting", jobs.waiting);
    map.count("active", jobs.active);
    map.count("delayed", jobs.delayed);
    map.count("completed", jobs.completed);
    map.count("dlq", jobs.failed);
}

/// Keys of [`totals`].
const TOTAL_KEYS: usize = 4;

fn totals(map: &mut Entries<'_>, totals: Totals) {
    map.number("totalPushed", totals.pushed as f64);
    map.number("totalPulled", totals.pulled as f64);
    map.number("totalCompleted", totals.completed as f64);
    map.number("totalFailed", totals.failed as f64);
}

/// The protocol fixes the last two figures at 0 (tcp protocol section 23); open connections are in the metrics for Prometheus.
fn metrics(success: Success<'_>, figures: &Stats, memory: Memory) {
    let mut map = success.with(1);
    map.nested("metrics", TOTAL_KEYS + 5);
    totals(&mut map, figures.totals.since_start);
    map.number("avgLatencyMs", figures.average_latency);
    map.number("avgProcessingMs", figures.average_work);
    map.number("memoryUsageMb", megabytes(memory.heap));
    map.count("sqliteSizeMb", 0);
    map.count("activeConnections", 0);
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

fn queue_metrics(success: Success<'_>, figures: &QueueMetrics) {
    let mut data = success.data(3);
    data.nested("meta", 3);
    data.number("count", figures.count as f64);
    data.time("prevTS", figures.last_at.unwrap_or(0));
    data.number("prevCount", figures.count as f64);
    data.key("data").array(figures.data.len());
    for jobs in &figures.data {
        Writer::new(data.out()).number(*jobs as f64);
    }
    data.count("count", figures.minutes);
}

/// Keys of [`storage`].
const STORAGE_KEYS: usize = 3;

/// Only a full disk is told as it is: other errors may name what is nobody's business.
fn storage(map: &mut Entries<'_>, status: &StorageStatus) {
    map.bool("diskFull", status.disk_full);
    let internal = CommandError::Internal.to_string();
    let error = status.error.as_deref();
    let shown = error.map(|error| if status.disk_full { error } else { &internal });
    map.text_or_nil("error", shown);
    map.time_or_nil("since", status.since);
}

fn overview(success: Success<'_>, figures: &Overview, memory: Memory) {
    let stats = &figures.stats;
    let mut data = success.data(9);
    data.nested("stats", STATE_KEYS + TOTAL_KEYS + 1);
    states(&mut data, stats);
    totals(&mut data, stats.totals.since_start);
    data.time("uptime", stats.uptime);
    data.nested("throughput", 4);
    data.number("pushPerSec", stats.throughput.push);
    data.number("pullPerSec", stats.throughput.pull);
    data.number("completePerSec", stats.throughput.complete);
    data.number("failPerSec", stats.throughput.fail);
    latency(&mut data, figures);
    data.nested("memory", 3);
    // What the allocator holds in reserve is not known, so used and total are the same.
    data.number("heapUsed", megabytes(memory.heap).round());
    data.number("heapTotal", megabytes(memory.heap).round());
    data.number("rss", megabytes(memory.resident).round());
    collections(&mut data, &figures.memory);
    data.nested("workers", 3);
    data.count("total", figures.worker_stats.total);
    data.count("active", figures.worker_stats.active);
    data.items("list", &figures.workers, worker);
    data.items("crons", &figures.crons, cron::brief);
    data.nested("storage", STORAGE_KEYS);
    storage(&mut data, &figures.storage);
    data.time("timestamp", figures.at);
}

fn latency(map: &mut Entries<'_>, figures: &Overview) {
    let latency = &figures.latency;
    map.nested("latency", 2);
    map.nested("averages", 3);
    map.number("pushMs", latency.push.average());
    map.number("pullMs", latency.pull.average());
    map.number("ackMs", latency.ack.average());
    map.nested("percentiles", 3);
    percentiles(map, "push", &latency.push);
    percentiles(map, "pull", &latency.pull);
    percentiles(map, "ack", &latency.ack);
}

fn percentiles(map: &mut Entries<'_>, key: &str, durations: &Histogram) {
    map.nested(key, 3);
    map.number("p50", durations.percentile(50.0));
    map.number("p95", durations.percentile(95.0));
    map.number("p99", durations.percentile(99.0));
}

fn collections(map: &mut Entries<'_>, sizes: &MemoryStats) {
    let entries = [
        ("jobIndex", sizes.job_index),
        ("completedJobs", sizes.completed_jobs),
        ("jobResults", sizes.job_results),
        ("jobLogs", sizes.job_logs),
        ("customIdMap", sizes.custom_id_map),
        ("jobLocks", sizes.job_locks),
        ("clientJobs", sizes.client_jobs),
        ("clientJobsTotal", sizes.client_jobs_total),
        ("pendingDepChecks", sizes.pending_dep_checks),
        ("stalledCandidates", sizes.stalled_candidates),
        ("processingTotal", sizes.processing_total),
        ("queuedTotal", sizes.queued_total),
        ("waitingDepsTotal", sizes.waiting_deps_total),
        ("temporalIndexTotal", sizes.temporal_index_total),
        ("delayedHeapTotal", sizes.delayed_heap_total),
    ];
    map.nested("collections", entries.len());
    for (key, size) in entries {
        map.count(key, size);
    }
}

fn worker(map: &mut Entries<'_>, worker: &WorkerView) {
    map.header(7);
    map.text("id", &worker.id);
    map.text("name", &worker.name);
    map.texts("queues", &worker.queues);
    map.time("lastSeen", worker.last_seen);
    map.number("activeJobs", worker.active_jobs);
    map.number("processedJobs", worker.processed_jobs);
    map.number("failedJobs", worker.failed_jobs);
}

fn summary(map: &mut Entries<'_>, queue: &QueueSummary) {
    map.header(7);
    map.text("name", &queue.name);
    map.count("waiting", queue.jobs.waiting);
    map.count("prioritized", queue.jobs.prioritized);
    map.count("delayed", queue.jobs.delayed);
    map.count("active", queue.jobs.active);
    map.count("dlq", queue.jobs.failed);
    map.bool("paused", queue.paused);
}

fn detail(success: Success<'_>, queue: &QueueDetail) {
    let (counts, totals) = (&queue.counts, queue.summary.totals.since_start);
    let mut data = success.data(6 + usize::from(queue.jobs.is_some()));
    data.text("name", &queue.summary.name);
    data.nested("counts", 10);
    counts_by_state(&mut data, counts);
    data.number("totalCompleted", totals.completed as f64);
    data.number("totalFailed", totals.failed as f64);
    data.bool("paused", queue.summary.paused);
    priority_counts(&mut data, "priorityCounts", &queue.priorities);
    data.items("dlqPreview", &queue.dead_letters, dead_letter);
    data.time("timestamp", queue.at);
    if let Some(jobs) = &queue.jobs {
        previews(&mut data, jobs);
    }
}

fn dead_letter(map: &mut Entries<'_>, letter: &JobDetail) {
    let job = &letter.job;
    map.header(3 + usize::from(job.data.is_some()));
    job.id.with_text(|id| map.text("id", id));
    if let Some(data) = &job.data {
        map.raw("data", data.bytes());
    }
    map.time("attempts", job.attempts.into());
    map.time("createdAt", job.created_at);
}

fn previews(map: &mut Entries<'_>, jobs: &JobPreviews) {
    let states = [
        ("waiting", &jobs.waiting),
        ("active", &jobs.active),
        ("delayed", &jobs.delayed),
        ("paused", &jobs.paused),
    ];
    map.nested("jobs", states.len());
    for (state, jobs) in states {
        map.key(state).array(jobs.len());
        for job in jobs {
            preview(map, job);
        }
    }
}

fn preview(map: &mut Entries<'_>, job: &JobView) {
    map.header(6);
    job.id.with_text(|id| map.text("id", id));
    map.number("priority", job.priority);
    map.time("createdAt", job.created_at);
    map.time("runAt", job.run_at);
    map.time("attempts", job.attempts.into());
    map.number("progress", job.progress);
}
