//! Replies of commands that only ask (tcp protocol sections 12, 13, 14, 17 and 20).

use crate::command::{Reply, Workers};
use crate::engine::{Bucket, Counts, JobDetail, JobId, LogLine, Millis, State, WorkerView};

use super::outcome::{NO_JOB, count, not_active, state_name};
use super::{Entries, Refusal, Success, Tried, group, job};
use crate::wire::reply::Surroundings;
use crate::wire::shape::Shape;

pub(super) fn write<'a>(
    success: Success<'a>,
    shape: &Shape,
    reply: &Reply,
    around: &dyn Surroundings,
) -> Tried<'a> {
    Tried::Written(match (shape, reply) {
        (Shape::GetState(id), Reply::State(state)) => {
            let mut map = with_id(success, id.as_ref(), 1);
            map.text("state", state_name(*state));
            Ok(())
        }
        (Shape::GetResult(id), Reply::Result(result)) => {
            let mut map = with_id(success, id.as_ref(), usize::from(result.is_some()));
            if let Some(result) = result {
                map.raw("result", result.bytes());
            }
            Ok(())
        }
        (Shape::GetJob | Shape::GetJobByCustomId | Shape::GetProgress, Reply::Job(None)) => {
            Err(NO_JOB.into())
        }
        (Shape::GetJob, Reply::Job(Some(detail))) => {
            let mut map = success.with(1);
            map.key("job");
            job::write_detail(map.out(), detail, Some(detail.job.state.name()));
            Ok(())
        }
        (Shape::GetJobByCustomId, Reply::Job(Some(detail))) => {
            let mut map = success.with(1);
            map.key("job");
            job::write_detail(map.out(), detail, None);
            Ok(())
        }
        (Shape::GetProgress, Reply::Job(Some(detail))) => progress(success, detail),
        (Shape::GetJobs { only }, Reply::Jobs(details)) => jobs(success, details, *only),
        (Shape::GetLogs { start, end }, Reply::Logs(lines)) => {
            logs(success, lines, *start, *end);
            Ok(())
        }
        (Shape::GetJobCounts, Reply::Counts(counts)) => {
            job_counts(success, counts);
            Ok(())
        }
        (Shape::Count, Reply::Counts(counts)) => {
            // Ready jobs of a paused queue stand under `paused` and are queued all the same.
            let queued = counts.waiting + counts.prioritized + counts.delayed + counts.paused;
            count(success, queued)
        }
        (Shape::GetCountsPerPriority(queue), Reply::PriorityCounts(counts)) => {
            let mut map = success.with(2);
            map.text("queue", queue.as_str());
            priority_counts(&mut map, "counts", counts);
            Ok(())
        }
        (Shape::QueueLimits, Reply::Limits(limits)) => {
            let mut data = success.data(1);
            data.nested("limits", 4);
            group::rate(&mut data, "rateLimit", limits.rate);
            data.time("rateLimitTtl", limits.rate_ttl);
            data.number_or_nil("concurrencyLimit", limits.concurrency.map(|cap| cap as f64));
            data.bool("maxed", limits.maxed);
            Ok(())
        }
        (Shape::ListQueues, Reply::Names(names)) => {
            success.with(1).texts("queues", names);
            Ok(())
        }
        (Shape::IsPaused, Reply::Flag(paused)) => {
            success.with(1).bool("paused", *paused);
            Ok(())
        }
        (Shape::DedupOwner, Reply::Id(owner)) => {
            let mut data = success.data(1);
            match owner {
                Some(owner) => owner.with_text(|owner| data.text("jobId", owner)),
                None => data.nil("jobId"),
            }
            Ok(())
        }
        (Shape::ListWorkers, Reply::Workers(workers)) => {
            list_workers(success, workers, around.now());
            Ok(())
        }
        _ => return Tried::NotMine(success),
    })
}

/// Ids one after the other, as items of an array that has begun.
pub(super) fn ids<'i>(map: &mut Entries<'_>, ids: impl Iterator<Item = &'i JobId>) {
    for id in ids {
        if map.is_beyond_a_frame() {
            return;
        }
        id.with_text(|id| map.item(id));
    }
}

/// Begins a reply that repeats the id of its request; that many entries must follow.
fn with_id<'a>(success: Success<'a>, id: Option<&JobId>, entries: usize) -> Entries<'a> {
    let mut map = success.with(entries + usize::from(id.is_some()));
    if let Some(id) = id {
        id.with_text(|id| map.text("id", id));
    }
    map
}

fn progress(success: Success<'_>, detail: &JobDetail) -> Result<(), Refusal> {
    let job = &detail.job;
    if job.state != State::Active {
        return Err(not_active(job.state));
    }
    let mut map = success.with(2);
    map.number("progress", job.progress);
    map.text_or_nil("message", job.progress_message.as_deref());
    Ok(())
}

/// Jobs of a listing by one state all show that state, `paused` included; others show their own.
fn jobs(success: Success<'_>, details: &[JobDetail], only: Option<Bucket>) -> Result<(), Refusal> {
    let mut map = success.with(1);
    map.items("jobs", details, |map, detail| {
        let state = match only {
            Some(Bucket::Paused) => "paused",
            Some(Bucket::State(state)) => state.name(),
            None => detail.job.state.name(),
        };
        job::write_detail(map.out(), detail, Some(state));
    });
    Ok(())
}

fn logs(success: Success<'_>, lines: &[LogLine], start: Option<f64>, end: Option<f64>) {
    let (first, past) = range(lines.len(), start, end);
    let shown = lines.get(first..past).unwrap_or_default();
    let mut data = success.data(2);
    data.count("count", lines.len());
    data.items("logs", shown, |data, line| {
        data.header(3);
        data.time("timestamp", line.at);
        data.text("level", &line.level);
        data.text("message", &line.message);
    });
}

/// The lines from `start` to `end`, both included, as a half-open range. Negative indexes count from the
/// last line, -1.
fn range(lines: usize, start: Option<f64>, end: Option<f64>) -> (usize, usize) {
    let index = |given: f64| {
        let from_front = if given < 0.0 {
            given + lines as f64
        } else {
            given
        };
        from_front.floor()
    };
    // Casts of floats saturate: below zero is zero.
    let first = start.map_or(0, |start| index(start) as usize);
    let past = end.map_or(lines, |end| (index(end) + 1.0) as usize);
    (first, past.min(lines))
}

fn job_counts(success: Success<'_>, counts: &Counts) {
    let mut map = success.with(1);
    map.nested("counts", 8);
    counts_by_state(&mut map, counts);
}

/// The eight counts of a queue's jobs, as entries of a map that has begun.
pub(super) fn counts_by_state(map: &mut Entries<'_>, counts: &Counts) {
    map.count("waiting", counts.waiting);
    map.count("prioritized", counts.prioritized);
    map.count("delayed", counts.delayed);
    map.count("active", counts.active);
    map.count("completed", counts.completed);
    map.count("failed", counts.failed);
    map.count("waiting-children", counts.waiting_children);
    map.count("paused", counts.paused);
}

/// Queued jobs per priority.
pub(super) fn priority_counts(map: &mut Entries<'_>, key: &str, counts: &[(f64, usize)]) {
    map.nested(key, counts.len());
    for (priority, jobs) in counts {
        map.count(&priority.to_string(), *jobs);
    }
}

/// A worker as its registration shows it.
pub(super) fn registered(success: Success<'_>, worker: &WorkerView) {
    let mut data = success.data(WORKER_KEYS);
    data.text("workerId", &worker.id);
    worker_entries(&mut data, worker);
}

fn list_workers(success: Success<'_>, workers: &Workers, now: Millis) {
    let mut data = success.data(2);
    data.items("workers", &workers.list, |data, worker| {
        data.header(WORKER_KEYS + 1);
        data.text("id", &worker.id);
        data.time("uptime", now.saturating_sub(worker.registered_at));
        worker_entries(data, worker);
    });
    let stats = &workers.stats;
    data.nested("stats", 6);
    data.count("total", stats.total);
    data.count("active", stats.active);
    data.number("totalProcessed", stats.total_processed);
    data.number("totalFailed", stats.total_failed);
    data.number("activeJobs", stats.active_jobs);
    data.number("concurrencySlots", stats.concurrency_slots);
}

/// Keys of a worker, its id included.
const WORKER_KEYS: usize = 13;

fn worker_entries(map: &mut Entries<'_>, worker: &WorkerView) {
    map.text("name", &worker.name);
    map.texts("queues", &worker.queues);
    map.number("concurrency", worker.concurrency);
    map.text("hostname", &worker.hostname);
    map.number("pid", worker.pid);
    map.text("status", if worker.active { "active" } else { "stale" });
    map.time("registeredAt", worker.registered_at);
    map.time("lastSeen", worker.last_seen);
    map.number("activeJobs", worker.active_jobs);
    map.number("processedJobs", worker.processed_jobs);
    map.number("failedJobs", worker.failed_jobs);
    map.nil("currentJob");
}
