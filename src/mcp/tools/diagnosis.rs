//! The diagnosis of a queue: facts of one instant, and what keeps it, with the tool that helps. Prose:
//! `toolsets/monitoring.md`; the rules are those of [`crate::command::diagnosis`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::misspelt_queue;
use crate::command::diagnosis::{Blocker, Observed};
use crate::command::{
    GetCounts, GetDlq, GetDlqConfig, GetDlqStats, GetQueueHealth, GetQueueLimits, GetStallConfig,
    GetStorageStatus, ListQueueWorkers,
};
use crate::engine::{DlqConfig, DlqEntry, DlqFilter, DlqStats, Millis, QueueLimits, StallConfig};
use crate::mcp::call::{Call, next_reply};
use crate::mcp::error::ToolError;
use crate::mcp::parameter::{DAY, Ms, Queue, Whole};
use crate::mcp::registry::Registry;
use crate::mcp::view::{CountsView, cut, iso, whole};

/// Ms without a sign of life after which a worker counts as stale.
const STALE_DEFAULT: i64 = 60_000;
/// Dead letters that are shown.
const SAMPLES_DEFAULT: i64 = 3;
/// Bytes of the error of a dead letter.
const ERROR_SHOWN: usize = 500;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiagnoseQueue {
    queue: Queue,
    /// Worker heartbeat age
    #[schemars(extend("default" = STALE_DEFAULT))]
    stale_after_ms: Option<Ms<1_000, DAY>>,
    /// Dead letters shown
    #[schemars(extend("default" = SAMPLES_DEFAULT))]
    samples: Option<Whole<0, 10>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Diagnosis {
    queue: String,
    /// Whether anything is known of it
    exists: bool,
    #[schemars(extend("enum" = ["idle", "blocked", "degraded", "healthy"]))]
    status: &'static str,
    paused: bool,
    /// Jobs in all eight states
    total: usize,
    /// Jobs per state
    #[schemars(with = "Map<String, Value>")]
    counts: CountsView,
    /// Limits, and whether they hold jobs back now
    #[schemars(with = "Map<String, Value>")]
    limits: Value,
    /// Registered ones, those without a recent sign of life, HTTP handlers
    #[schemars(with = "Map<String, Value>")]
    workers: Value,
    /// Dead letters: how many, why, the newest ones
    #[schemars(with = "Map<String, Value>")]
    dlq: Value,
    /// What holds for dead letters and for silent deliveries
    #[schemars(with = "Map<String, Value>")]
    config: Value,
    /// How long the oldest ready job has waited
    oldest_waiting_ms: Option<Millis>,
    /// How long the oldest delivery has lasted
    oldest_active_ms: Option<Millis>,
    /// What keeps the queue, most decisive first
    #[schemars(with = "Vec<Value>")]
    blockers: Vec<Finding>,
    #[schemars(with = "String")]
    observed_at: Option<String>,
    /// How the queue may be spelled
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// A blocker as it is answered.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    code: &'static str,
    severity: &'static str,
    message: String,
    suggested_tools: Vec<&'static str>,
}

pub(super) async fn diagnose_queue(
    call: Call,
    arguments: DiagnoseQueue,
) -> Result<Diagnosis, ToolError> {
    let queue = || arguments.queue.name();
    let mut replies = call
        .run_together(vec![
            GetQueueHealth { queue: queue() }.into(),
            GetCounts { queue: queue() }.into(),
            GetQueueLimits {
                queue: queue(),
                jobs: None,
            }
            .into(),
            ListQueueWorkers { queue: queue() }.into(),
            GetStorageStatus.into(),
            GetDlqStats { queue: queue() }.into(),
            GetDlqConfig { queue: queue() }.into(),
            GetStallConfig { queue: queue() }.into(),
        ])
        .await?;
    let observed = Observed {
        health: next_reply::<GetQueueHealth>(&mut replies)?,
        counts: next_reply::<GetCounts>(&mut replies)?,
        limits: next_reply::<GetQueueLimits>(&mut replies)?,
        workers: next_reply::<ListQueueWorkers>(&mut replies)?.list,
        handlers: usize::from(call.handlers().has(queue().as_str())),
        storage: next_reply::<GetStorageStatus>(&mut replies)?,
        at: call.now(),
        stale_after: arguments.stale_after_ms.map_or(STALE_DEFAULT, |ms| ms.0),
    };
    let letters = next_reply::<GetDlqStats>(&mut replies)?;
    let kept = next_reply::<GetDlqConfig>(&mut replies)?;
    let stalls = next_reply::<GetStallConfig>(&mut replies)?;
    let samples = arguments
        .samples
        .map_or(SAMPLES_DEFAULT as usize, Whole::count);
    let newest = newest_letters(&call, &arguments.queue, letters.total, samples).await?;
    let hint = if observed.health.exists {
        None
    } else {
        misspelt_queue(&call, &arguments.queue.text()).await?
    };
    let blockers = observed.blockers();
    Ok(Diagnosis {
        queue: arguments.queue.text(),
        exists: observed.health.exists,
        status: observed.verdict(&blockers).name(),
        paused: observed.limits.paused,
        total: observed.counts.total(),
        counts: observed.counts.into(),
        limits: limits(&observed),
        workers: json!({
            "registered": observed.workers.len(),
            "stale": observed.stale_workers(),
            "handlers": observed.handlers,
        }),
        dlq: dead_letters(&letters, &newest),
        config: config(&kept, &stalls),
        oldest_waiting_ms: observed.health.oldest_waiting,
        oldest_active_ms: observed.health.oldest_active,
        blockers: blockers
            .into_iter()
            .map(|blocker| finding(blocker, &observed, &call.server().registry))
            .collect(),
        observed_at: iso(observed.at),
        hint,
    })
}

/// The dead letters that entered last, newest first.
async fn newest_letters(
    call: &Call,
    queue: &Queue,
    total: usize,
    samples: usize,
) -> Result<Vec<DlqEntry>, ToolError> {
    if total == 0 || samples == 0 {
        return Ok(Vec::new());
    }
    let filter = DlqFilter {
        offset: total.saturating_sub(samples),
        limit: Some(samples),
        ..DlqFilter::default()
    };
    let queue = queue.name();
    let mut newest = call.run(GetDlq { queue, filter }).await?;
    newest.reverse();
    Ok(newest)
}

fn limits(observed: &Observed) -> Value {
    let QueueLimits {
        rate,
        rate_ttl,
        concurrency,
        maxed,
        ..
    } = observed.limits;
    json!({
        "rateLimit": rate.map(|rate| json!({ "max": rate.max, "durationMs": rate.duration })),
        "rateLimitTtlMs": rate.map(|_| rate_ttl),
        "rateLimited": observed.is_rate_limited(),
        "concurrencyLimit": concurrency,
        "concurrencyMaxed": maxed,
    })
}

fn dead_letters(stats: &DlqStats, newest: &[DlqEntry]) -> Value {
    let reasons = stats.by_reason.iter().filter(|(_, letters)| *letters > 0);
    let reasons: Map<_, _> = reasons
        .map(|(reason, letters)| (reason.name().to_owned(), (*letters).into()))
        .collect();
    let sample = |letter: &DlqEntry| {
        let failure = &letter.failure;
        json!({
            "jobId": letter.job.id.to_string(),
            "reason": failure.reason.name(),
            "error": failure.error.as_deref().map(|error| cut(error, ERROR_SHOWN)),
            "enteredAt": iso(failure.entered_at),
        })
    };
    json!({
        "total": stats.total,
        "byReason": reasons,
        "oldestEntry": stats.oldest_entry.and_then(iso),
        "newestEntry": stats.newest_entry.and_then(iso),
        "samples": newest.iter().map(sample).collect::<Vec<_>>(),
    })
}

fn config(letters: &DlqConfig, stalls: &StallConfig) -> Value {
    json!({
        "dlq": {
            "autoRetry": letters.auto_retry,
            "autoRetryInterval": letters.auto_retry_interval,
            "maxAutoRetries": letters.max_auto_retries,
            "maxAge": letters.max_age,
            "maxEntries": letters.max_entries,
        },
        "stall": {
            "enabled": stalls.enabled,
            "stallInterval": whole(stalls.stall_interval),
            "maxStalls": whole(stalls.max_stalls),
            "gracePeriod": whole(stalls.grace_period),
        },
    })
}

fn finding(blocker: Blocker, observed: &Observed, registry: &Registry) -> Finding {
    let severity = if blocker.is_blocking() {
        "blocking"
    } else {
        "warning"
    };
    let helping = helping_tools(blocker).iter().copied();
    Finding {
        code: blocker.code(),
        severity,
        message: message(blocker, observed),
        // No agent is sent to a tool that it cannot find.
        suggested_tools: helping
            .filter(|tool| registry.tool(tool).is_some())
            .collect(),
    }
}

const fn helping_tools(blocker: Blocker) -> &'static [&'static str] {
    match blocker {
        Blocker::Paused => &["bunqueue_resume_queue"],
        Blocker::StorageUnhealthy => &["bunqueue_get_storage_status"],
        Blocker::NoWorkers => &["bunqueue_register_handler", "bunqueue_pull_job"],
        Blocker::StaleWorkers => &["bunqueue_list_workers"],
        Blocker::ConcurrencyMaxed => &["bunqueue_set_concurrency", "bunqueue_clear_concurrency"],
        Blocker::RateLimited => &["bunqueue_set_rate_limit", "bunqueue_clear_rate_limit"],
        Blocker::AllDelayed => &["bunqueue_promote_job"],
        Blocker::WaitingChildren => &["bunqueue_get_flow"],
        Blocker::StalledActive => &["bunqueue_list_jobs_page"],
        Blocker::DeadLetters => &["bunqueue_get_dlq", "bunqueue_retry_dlq"],
    }
}

fn message(blocker: Blocker, observed: &Observed) -> String {
    let (counts, ready) = (&observed.counts, observed.ready());
    match blocker {
        Blocker::Paused => {
            format!("The queue is paused; {ready} ready jobs wait until it is resumed.")
        }
        Blocker::StorageUnhealthy if observed.storage.disk_full => {
            "The disk is full: changes cannot be stored.".into()
        }
        Blocker::StorageUnhealthy => "The store has trouble: changes may not be stored.".into(),
        Blocker::NoWorkers => format!(
            "{ready} jobs are ready, none is active, and no worker is registered for the queue. One that pulls without \
             registering cannot be seen here."
        ),
        Blocker::StaleWorkers => format!(
            "None of the {} registered workers has given a sign of life for {} ms.",
            observed.workers.len(),
            observed.stale_after
        ),
        Blocker::ConcurrencyMaxed => format!(
            "{} jobs are active, as many as may be; {ready} ready jobs wait for a place.",
            observed.limits.active
        ),
        Blocker::RateLimited => format!(
            "The rate limit holds {ready} ready jobs back for {} ms more.",
            observed.limits.rate_ttl
        ),
        Blocker::AllDelayed => {
            let next = observed.health.next_run.and_then(iso);
            format!(
                "All {} unfinished jobs are delayed; the next one runs at {}.",
                counts.delayed,
                next.as_deref().unwrap_or("a time out of range")
            )
        }
        Blocker::WaitingChildren => format!(
            "All {} unfinished jobs wait for other jobs, which may be in other queues.",
            counts.waiting_children
        ),
        Blocker::StalledActive => format!(
            "{} of {} active jobs have been silent for longer than they may.",
            observed.health.silent, counts.active
        ),
        Blocker::DeadLetters => format!("{} jobs have failed for good.", counts.failed),
    }
}
