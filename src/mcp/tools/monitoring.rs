//! Toolset `monitoring`: figures over all queues, the store, memory. Prose: `toolsets/monitoring.md`. The diagnosis of a
//! queue is in `diagnosis.rs`, what the server tells of itself in `capabilities.rs`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Nothing;
use super::capabilities::get_capabilities;
use super::diagnosis::diagnose_queue;
use super::queues::get_job_counts;
use crate::command::{
    CommandError, CompactMemory, GetMemoryStats, GetStats, GetStorageStatus, ListQueueSummaries,
};
use crate::engine::{Durability, Millis, StorageStatus, Totals};
use crate::mcp::call::Call;
use crate::mcp::error::ToolError;
use crate::mcp::registry::{Policy, Toolset};

pub(super) fn toolset() -> Toolset {
    Toolset::new(
        "monitoring",
        include_str!("../../../toolsets/monitoring.md"),
    )
    .tool(
        "bunqueue_get_stats",
        "Server stats",
        Policy::READ,
        get_stats,
    )
    .tool(
        "bunqueue_get_queue_stats",
        "Queue stats",
        Policy::READ,
        get_job_counts,
    )
    .tool(
        "bunqueue_get_per_queue_stats",
        "Stats per queue",
        Policy::READ,
        get_per_queue_stats,
    )
    .tool(
        "bunqueue_diagnose_queue",
        "Diagnose queue",
        Policy::READ,
        diagnose_queue,
    )
    .tool(
        "bunqueue_get_memory_stats",
        "Memory stats",
        Policy::READ,
        get_memory_stats,
    )
    .tool(
        "bunqueue_get_storage_status",
        "Storage status",
        Policy::READ,
        get_storage_status,
    )
    .tool(
        "bunqueue_get_prometheus_metrics",
        "Prometheus metrics",
        Policy::READ,
        get_prometheus_metrics,
    )
    .text("metrics")
    .tool(
        "bunqueue_get_capabilities",
        "Server capabilities",
        Policy::READ,
        get_capabilities,
    )
    .tool(
        "bunqueue_compact_memory",
        "Compact memory",
        Policy::WRITE.idempotent(),
        compact_memory,
    )
}

/// Figures over all queues. Some are told by a broker in this process, others by one elsewhere.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ServerStats {
    /// Ready, priority 0 or below; queues that are paused included
    waiting: usize,
    delayed: usize,
    active: usize,
    /// Failed for good
    dlq: usize,
    /// Finished and kept
    completed: usize,
    /// Ready, priority above 0
    #[serde(skip_serializing_if = "Option::is_none")]
    prioritized: Option<usize>,
    /// Waiting for other jobs
    #[serde(rename = "waiting-children", skip_serializing_if = "Option::is_none")]
    waiting_children: Option<usize>,
    /// Added since the start
    #[serde(skip_serializing_if = "Option::is_none")]
    total_pushed: Option<u64>,
    /// Delivered since the start
    #[serde(skip_serializing_if = "Option::is_none")]
    total_pulled: Option<u64>,
    /// Completed since the start
    #[serde(skip_serializing_if = "Option::is_none")]
    total_completed: Option<u64>,
    /// Failed for good since the start
    #[serde(skip_serializing_if = "Option::is_none")]
    total_failed: Option<u64>,
    /// Ms since the start
    uptime: Millis,
    /// Schedules
    #[serde(skip_serializing_if = "Option::is_none")]
    cron_jobs: Option<usize>,
    /// Schedules with a next run
    #[serde(skip_serializing_if = "Option::is_none")]
    cron_pending: Option<usize>,
    /// Of a remote broker
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<u64>,
    /// Of a remote broker
    #[serde(skip_serializing_if = "Option::is_none")]
    push_per_sec: Option<f64>,
    /// Of a remote broker
    #[serde(skip_serializing_if = "Option::is_none")]
    pull_per_sec: Option<f64>,
    /// Of a remote broker
    #[serde(skip_serializing_if = "Option::is_none")]
    avg_latency_ms: Option<f64>,
    /// Of a remote broker
    #[serde(skip_serializing_if = "Option::is_none")]
    avg_processing_ms: Option<f64>,
    /// Of a remote broker
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_usage_mb: Option<f64>,
    /// The four totals including earlier processes; only with a data file
    #[schemars(with = "Option<Map<String, Value>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<Value>,
}

async fn get_stats(call: Call, _: Nothing) -> Result<ServerStats, ToolError> {
    let stats = call.run(GetStats).await?;
    let (jobs, totals) = (stats.jobs, stats.totals.since_start);
    let common = ServerStats {
        waiting: jobs.waiting,
        delayed: jobs.delayed,
        active: jobs.active,
        dlq: jobs.failed,
        completed: jobs.completed,
        total_pushed: Some(totals.pushed),
        total_pulled: Some(totals.pulled),
        total_completed: Some(totals.completed),
        total_failed: Some(totals.failed),
        uptime: stats.uptime,
        ..ServerStats::default()
    };
    let durability = call.server().info.durability;
    // Each kind of broker tells what the other one does not.
    if durability == Durability::Remote {
        return Ok(ServerStats {
            failed: u64::try_from(jobs.failed).ok(),
            push_per_sec: Some(stats.throughput.push),
            pull_per_sec: Some(stats.throughput.pull),
            avg_latency_ms: Some(stats.average_latency),
            avg_processing_ms: Some(stats.average_work),
            ..common
        });
    }
    let is_kept = durability != Durability::None;
    Ok(ServerStats {
        prioritized: Some(jobs.prioritized),
        waiting_children: Some(jobs.waiting_children),
        cron_jobs: Some(stats.cron_jobs),
        cron_pending: Some(stats.cron_pending),
        lifetime: is_kept.then(|| lifetime(stats.totals.lifetime)),
        ..common
    })
}

fn lifetime(totals: Totals) -> Value {
    json!({
        "pushed": totals.pushed,
        "pulled": totals.pulled,
        "completed": totals.completed,
        "failed": totals.failed,
    })
}

/// One member per queue.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct PerQueueStats(Map<String, Value>);

async fn get_per_queue_stats(call: Call, _: Nothing) -> Result<PerQueueStats, ToolError> {
    let queues = call.run(ListQueueSummaries).await?;
    let stats = queues.iter().map(|queue| {
        let jobs = queue.jobs;
        let counts = json!({
            "waiting": jobs.waiting,
            "prioritized": jobs.prioritized,
            "delayed": jobs.delayed,
            "active": jobs.active,
            "dlq": jobs.failed,
        });
        (queue.name.to_string(), counts)
    });
    Ok(PerQueueStats(stats.collect()))
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MemoryStats {
    /// Jobs in any state
    job_index: usize,
    completed_jobs: usize,
    job_results: usize,
    /// Jobs with a log
    job_logs: usize,
    /// Jobs with an id of their own
    custom_id_map: usize,
    /// Deliveries with a lock
    job_locks: usize,
    /// Connections with deliveries
    client_jobs: usize,
    /// Deliveries of connections
    client_jobs_total: usize,
    pending_dep_checks: usize,
    stalled_candidates: usize,
    /// Active jobs
    processing_total: usize,
    queued_total: usize,
    /// Jobs that wait for others
    waiting_deps_total: usize,
    /// Deadlines
    temporal_index_total: usize,
    /// Delayed jobs
    delayed_heap_total: usize,
}

async fn get_memory_stats(call: Call, _: Nothing) -> Result<MemoryStats, ToolError> {
    let sizes = call.run(GetMemoryStats).await?;
    Ok(MemoryStats {
        job_index: sizes.job_index,
        completed_jobs: sizes.completed_jobs,
        job_results: sizes.job_results,
        job_logs: sizes.job_logs,
        custom_id_map: sizes.custom_id_map,
        job_locks: sizes.job_locks,
        client_jobs: sizes.client_jobs,
        client_jobs_total: sizes.client_jobs_total,
        pending_dep_checks: sizes.pending_dep_checks,
        stalled_candidates: sizes.stalled_candidates,
        processing_total: sizes.processing_total,
        queued_total: sizes.queued_total,
        waiting_deps_total: sizes.waiting_deps_total,
        temporal_index_total: sizes.temporal_index_total,
        delayed_heap_total: sizes.delayed_heap_total,
    })
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StorageState {
    disk_full: bool,
    /// What is wrong, if anything is
    error: Option<String>,
    /// What of an answer is still there after a crash
    #[schemars(extend("enum" = ["none", "buffered", "committed", "durable", "remote"]))]
    durability: &'static str,
}

async fn get_storage_status(call: Call, _: Nothing) -> Result<StorageState, ToolError> {
    let status = call.run(GetStorageStatus).await?;
    Ok(StorageState {
        disk_full: status.disk_full,
        error: storage_error(&status),
        durability: status.durability.name(),
    })
}

/// Only a full disk is told as it is: other errors may name what is nobody's business, a file for one.
fn storage_error(status: &StorageStatus) -> Option<String> {
    let error = status.error.as_deref()?;
    Some(if status.disk_full {
        error.to_owned()
    } else {
        CommandError::Internal.to_string()
    })
}

#[derive(Serialize, JsonSchema)]
struct Metrics {
    /// The text, which is also the text of the result
    metrics: String,
}

async fn get_prometheus_metrics(call: Call, _: Nothing) -> Result<Metrics, ToolError> {
    let metrics = call.server().metrics.text().await?;
    Ok(Metrics { metrics })
}

#[derive(Serialize, JsonSchema)]
struct Compacted {
    success: bool,
    message: &'static str,
}

async fn compact_memory(call: Call, _: Nothing) -> Result<Compacted, ToolError> {
    call.run(CompactMemory).await?;
    Ok(Compacted {
        success: true,
        message: "Memory compaction triggered",
    })
}
