//! Toolset `dlq`: jobs that failed for good, and finished jobs that run again. Prose: `toolsets/dlq.md`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::listing::{reduced, start_of};
use super::{OneQueue, job_in_words, misspelt_queue, put};
use crate::command::{
    GetCounts, GetDlq as GetDlqCommand, GetDlqStats, PurgeDlq, ReplyFault,
    RetryCompleted as RetryCompletedCommand, RetryDlq as RetryDlqCommand,
};
use crate::engine::{
    AttemptRecord, CompletedSelection, DlqEntry, DlqFilter, DlqSelection, Failure, FailureReason,
};
use crate::mcp::call::Call;
use crate::mcp::error::{Cause, ToolError};
use crate::mcp::page::{self, ITEM_MAX, fit};
use crate::mcp::parameter::{AnyId, NO_MAX, Queue, Reason, Whole};
use crate::mcp::registry::{Policy, Toolset};
use crate::mcp::view::{JobView, iso};

/// Dead letters of a page when the call does not say, and at most.
const LIMIT_DEFAULT: i64 = 20;
const LIMIT_MAX: i64 = 100;
/// Attempts of a dead letter that are shown: the last ones.
const ATTEMPTS_SHOWN: usize = 10;
/// Characters of an error text that are shown.
const ERROR_SHOWN: usize = 1_000;

pub(super) fn toolset() -> Toolset {
    Toolset::new("dlq", include_str!("../../../toolsets/dlq.md"))
        .tool(
            "bunqueue_get_dlq",
            "List dead letters",
            Policy::READ,
            get_dlq,
        )
        .errors(&[
            Cause::Reply(ReplyFault::DlqEntry),
            Cause::Reply(ReplyFault::DlqAttempt),
        ])
        .tool(
            "bunqueue_get_dlq_stats",
            "Dead letter summary",
            Policy::READ,
            get_dlq_stats,
        )
        .errors(&[Cause::Reply(ReplyFault::DlqStats)])
        .tool(
            "bunqueue_retry_dlq",
            "Retry dead letters",
            Policy::WRITE,
            retry_dlq,
        )
        .guarded(
            "bunqueue_purge_dlq",
            "Purge dead letters",
            Policy::DESTROY.idempotent().confirm("queue"),
            purge_dlq,
            purge_dlq_impact,
        )
        .guarded(
            "bunqueue_retry_completed",
            "Re-run completed jobs",
            Policy::WRITE.confirm("queue").unless("jobId"),
            retry_completed,
            retry_completed_impact,
        )
}

#[derive(Deserialize, JsonSchema)]
struct GetDlq {
    queue: Queue,
    #[schemars(extend("default" = LIMIT_DEFAULT))]
    limit: Option<Whole<1, LIMIT_MAX>>,
    #[schemars(extend("default" = 0))]
    offset: Option<Whole<0, NO_MAX>>,
    reason: Option<Reason>,
    /// nextCursor of the page before
    #[schemars(length(min = 1))]
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DeadLetters {
    queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Entries before this page
    offset: usize,
    /// Entries on this page
    count: usize,
    has_more: bool,
    /// Items of job, reason, error, attempts (the last 10), attemptCount, retryCount, enteredAt, lastRetryAt, nextRetryAt
    /// and expiresAt
    entries: Vec<Value>,
    /// The way on while there is more
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// true when the page was cut
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    /// How the queue is spelt
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Where a page of dead letters ends: the place of the last one in the order of entry, and how many came before.
type LetterPosition = (u64, usize);

async fn get_dlq(call: Call, arguments: GetDlq) -> Result<DeadLetters, ToolError> {
    let queue = arguments.queue.text();
    let reason = arguments.reason.map(|reason| reason.0);
    let reason_name = reason.map(FailureReason::name);
    let scope = ["dlq", queue.as_str(), reason_name.unwrap_or_default()];
    let position: Option<LetterPosition> =
        start_of(arguments.cursor.as_deref(), arguments.offset, &scope)?;
    let skipped = arguments.offset.map_or(0, Whole::count);
    let offset = position.map_or(skipped, |(_, before)| before);
    let limit = arguments.limit.map_or(LIMIT_DEFAULT as usize, Whole::count);
    let found = call
        .run(GetDlqCommand {
            queue: arguments.queue.name(),
            filter: DlqFilter {
                reason,
                after: position.map(|(seq, _)| seq),
                offset: skipped,
                // One more tells whether there is more.
                limit: Some(limit + 1),
                ..DlqFilter::default()
            },
        })
        .await?;
    let fitted = fit(found.iter().take(limit).map(entry));
    let count = fitted.items.len();
    let has_more = found.len() > count;
    let last = found.get(..count).and_then(<[_]>::last);
    let next_cursor = last
        .filter(|_| has_more)
        .map(|last| page::cursor(&scope, (last.failure.seq, offset + count)));
    let hint = if found.is_empty() {
        misspelt_queue(&call, &queue).await?
    } else {
        None
    };
    Ok(DeadLetters {
        reason: reason_name,
        offset,
        count,
        has_more,
        entries: fitted.items,
        next_cursor,
        truncated: fitted.is_cut.then_some(true),
        hint,
        queue,
    })
}

/// A dead letter. What its job takes is what the rest of it leaves.
fn entry(found: &DlqEntry) -> Value {
    let Failure {
        reason,
        error,
        seq: _,
        entered_at,
        attempts,
        retry_count,
        last_retry_at,
        next_retry_at,
        expires_at,
    } = &found.failure;
    let shown = attempts.len().saturating_sub(ATTEMPTS_SHOWN);
    let last = attempts.last().map_or(0, |last| last.attempt as usize);
    let mut rest = Map::new();
    put(&mut rest, "reason", reason.name());
    put(&mut rest, "error", shown_error(error.as_ref()));
    put(
        &mut rest,
        "attempts",
        attempts.iter().skip(shown).map(attempt).collect::<Vec<_>>(),
    );
    // Only the newest records are kept, but each says which attempt it was.
    put(&mut rest, "attemptCount", attempts.len().max(last));
    put(&mut rest, "retryCount", *retry_count);
    put(&mut rest, "enteredAt", iso(*entered_at));
    put(&mut rest, "lastRetryAt", last_retry_at.and_then(iso));
    put(&mut rest, "nextRetryAt", next_retry_at.and_then(iso));
    put(&mut rest, "expiresAt", expires_at.and_then(iso));
    let taken = serde_json::to_string(&rest).map_or(0, |text| text.len() + "\"job\":,".len());
    let job = reduced(
        JobView::of(&found.job).members(),
        ITEM_MAX.saturating_sub(taken),
    );
    let mut members = Map::new();
    put(&mut members, "job", job);
    members.append(&mut rest);
    Value::Object(members)
}

fn attempt(record: &AttemptRecord) -> Value {
    let mut members = Map::new();
    put(&mut members, "attempt", record.attempt);
    put(&mut members, "reason", record.reason.name());
    put(&mut members, "error", shown_error(record.error.as_ref()));
    put(&mut members, "startedAt", iso(record.started_at));
    put(&mut members, "failedAt", iso(record.failed_at));
    put(&mut members, "durationMs", record.duration());
    Value::Object(members)
}

/// An error text that says how long it was when it is cut.
fn shown_error(error: Option<&Arc<str>>) -> Option<String> {
    let error = error?;
    let Some((end, _)) = error.char_indices().nth(ERROR_SHOWN) else {
        return Some(error.to_string());
    };
    let kept = error.get(..end).unwrap_or_default();
    Some(format!(
        "{kept}… [truncated, {} chars]",
        error.chars().count()
    ))
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DeadLetterStats {
    queue: String,
    total: usize,
    /// Number of dead letters by reason, all seven
    by_reason: Map<String, Value>,
    /// Due for an automatic retry
    pending_retry: usize,
    /// Kept longer than they should be
    expired: usize,
    /// When the first of them failed
    oldest_entry: Option<String>,
    /// When the last of them failed
    newest_entry: Option<String>,
}

async fn get_dlq_stats(call: Call, arguments: OneQueue) -> Result<DeadLetterStats, ToolError> {
    let stats = call
        .run(GetDlqStats {
            queue: arguments.queue.name(),
        })
        .await?;
    let mut by_reason = Map::new();
    for (reason, count) in stats.by_reason {
        put(&mut by_reason, reason.name(), count);
    }
    Ok(DeadLetterStats {
        queue: arguments.queue.text(),
        total: stats.total,
        by_reason,
        pending_retry: stats.pending_retry,
        expired: stats.expired,
        oldest_entry: stats.oldest_entry.and_then(iso),
        newest_entry: stats.newest_entry.and_then(iso),
    })
}

/// The jobs of a queue that run again. An empty id is refused, so that it never stands for all.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RetryJobs {
    queue: Queue,
    /// Omit for all
    #[schemars(length(min = 1))]
    job_id: Option<AnyId>,
}

#[derive(Serialize, JsonSchema)]
struct JobsRetried {
    success: bool,
    queue: String,
    /// How many run again
    retried: usize,
}

impl JobsRetried {
    fn new(arguments: &RetryJobs, retried: usize) -> Self {
        Self {
            success: true,
            queue: arguments.queue.text(),
            retried,
        }
    }
}

async fn retry_dlq(call: Call, arguments: RetryJobs) -> Result<JobsRetried, ToolError> {
    let selection = match &arguments.job_id {
        Some(id) => DlqSelection::One(id.job()),
        None => DlqSelection::Matching(DlqFilter::default()),
    };
    let retried = call
        .run(RetryDlqCommand {
            queue: arguments.queue.name(),
            selection,
        })
        .await?;
    Ok(JobsRetried::new(&arguments, retried))
}

#[derive(Serialize, JsonSchema)]
struct DlqPurged {
    success: bool,
    queue: String,
    purged: usize,
}

async fn purge_dlq(call: Call, arguments: OneQueue) -> Result<DlqPurged, ToolError> {
    let purged = call
        .run(PurgeDlq {
            queue: arguments.queue.name(),
        })
        .await?;
    Ok(DlqPurged {
        success: true,
        queue: arguments.queue.text(),
        purged,
    })
}

async fn purge_dlq_impact(call: Call, arguments: OneQueue) -> Result<String, ToolError> {
    let stats = call
        .run(GetDlqStats {
            queue: arguments.queue.name(),
        })
        .await?;
    Ok(format!(
        "Queue {}: {} dead letters will be deleted; they can no longer be inspected or retried.",
        arguments.queue.text(),
        stats.total,
    ))
}

async fn retry_completed(call: Call, arguments: RetryJobs) -> Result<JobsRetried, ToolError> {
    let selection = match &arguments.job_id {
        Some(id) => CompletedSelection::One(id.job()),
        None => CompletedSelection::Oldest {
            until: None,
            limit: None,
        },
    };
    let retried = call
        .run(RetryCompletedCommand {
            queue: arguments.queue.name(),
            selection,
        })
        .await?;
    Ok(JobsRetried::new(&arguments, retried))
}

async fn retry_completed_impact(call: Call, arguments: RetryJobs) -> Result<String, ToolError> {
    let queue = arguments.queue.text();
    if let Some(id) = &arguments.job_id {
        let job = job_in_words(&call, id.job()).await?;
        return Ok(format!(
            "{job}: if it is completed and in queue {queue}, it will run again and its side effects happen again."
        ));
    }
    let counts = call
        .run(GetCounts {
            queue: arguments.queue.name(),
        })
        .await?;
    Ok(format!(
        "Queue {queue}: {} completed jobs will run again, and their side effects happen again.",
        counts.completed,
    ))
}
