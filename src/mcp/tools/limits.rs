//! Toolset `limits`: how often and how much of a queue runs. Prose: `toolsets/limits.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OneQueue, QueueChanged};
use crate::command::bounds::RATE_DURATION_DEFAULT;
use crate::command::limits::{RateLimitDraft, concurrency};
use crate::command::{
    ClearConcurrency, ClearRateLimit, CommandError, GetQueueLimits, ReplyFault,
    SetConcurrency as SetConcurrencyCommand, SetRateLimit as SetRateLimitCommand,
};
use crate::engine::Millis;
use crate::mcp::call::Call;
use crate::mcp::error::{Cause, ToolError};
use crate::mcp::parameter::{Ms, NO_MAX, Queue, Whole, YEAR};
use crate::mcp::registry::{Policy, Toolset};

pub(super) fn toolset() -> Toolset {
    Toolset::new("limits", include_str!("../../../toolsets/limits.md"))
        .tool(
            "bunqueue_set_rate_limit",
            "Set rate limit",
            Policy::WRITE.idempotent(),
            set_rate_limit,
        )
        .tool(
            "bunqueue_clear_rate_limit",
            "Clear rate limit",
            Policy::WRITE.idempotent(),
            clear_rate_limit,
        )
        .tool(
            "bunqueue_set_concurrency",
            "Set concurrency",
            Policy::WRITE.idempotent(),
            set_concurrency,
        )
        .tool(
            "bunqueue_clear_concurrency",
            "Clear concurrency",
            Policy::WRITE.idempotent(),
            clear_concurrency,
        )
        .tool(
            "bunqueue_get_queue_limits",
            "Get limits",
            Policy::READ,
            get_queue_limits,
        )
        .errors(&[Cause::Reply(ReplyFault::QueueLimits)])
}

#[derive(Deserialize, JsonSchema)]
struct SetRateLimit {
    queue: Queue,
    limit: Whole<1, NO_MAX>,
    #[schemars(extend("default" = RATE_DURATION_DEFAULT))]
    duration: Option<Ms<1, YEAR>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RateLimitSet {
    success: bool,
    queue: String,
    /// Jobs per durationMs
    rate_limit: u64,
    duration_ms: Millis,
}

async fn set_rate_limit(call: Call, arguments: SetRateLimit) -> Result<RateLimitSet, ToolError> {
    let draft = RateLimitDraft {
        limit: Whole::draft(Some(arguments.limit)),
        duration: Ms::draft(arguments.duration),
        ..RateLimitDraft::default()
    };
    let (limit, ttl) = draft.check().map_err(CommandError::from)?;
    call.run(SetRateLimitCommand {
        queue: arguments.queue.name(),
        limit,
        ttl,
    })
    .await?;
    Ok(RateLimitSet {
        success: true,
        queue: arguments.queue.text(),
        rate_limit: limit.max,
        duration_ms: limit.duration,
    })
}

async fn clear_rate_limit(call: Call, arguments: OneQueue) -> Result<QueueChanged, ToolError> {
    call.run(ClearRateLimit {
        queue: arguments.queue.name(),
    })
    .await?;
    Ok(QueueChanged::new(&arguments.queue, "Rate limit cleared"))
}

#[derive(Deserialize, JsonSchema)]
struct SetConcurrency {
    queue: Queue,
    limit: Whole<1, NO_MAX>,
}

#[derive(Serialize, JsonSchema)]
struct ConcurrencySet {
    success: bool,
    queue: String,
    /// Jobs that may be active
    concurrency: u64,
}

async fn set_concurrency(
    call: Call,
    arguments: SetConcurrency,
) -> Result<ConcurrencySet, ToolError> {
    let limit = concurrency(Whole::draft(Some(arguments.limit))).map_err(CommandError::from)?;
    call.run(SetConcurrencyCommand {
        queue: arguments.queue.name(),
        limit,
    })
    .await?;
    Ok(ConcurrencySet {
        success: true,
        queue: arguments.queue.text(),
        concurrency: limit,
    })
}

async fn clear_concurrency(call: Call, arguments: OneQueue) -> Result<QueueChanged, ToolError> {
    call.run(ClearConcurrency {
        queue: arguments.queue.name(),
    })
    .await?;
    Ok(QueueChanged::new(
        &arguments.queue,
        "Concurrency limit cleared",
    ))
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Limits {
    queue: String,
    paused: bool,
    /// max jobs per durationMs
    rate_limit: Option<Rate>,
    /// Ms until the next job may start; of a limit with an end, until that
    rate_limit_ttl_ms: Option<Millis>,
    rate_limited: bool,
    /// Jobs that may be active
    concurrency_limit: Option<u64>,
    /// Jobs that are
    active: usize,
    concurrency_maxed: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Rate {
    max: u64,
    duration_ms: Millis,
}

async fn get_queue_limits(call: Call, arguments: OneQueue) -> Result<Limits, ToolError> {
    let limits = call
        .run(GetQueueLimits {
            queue: arguments.queue.name(),
            jobs: None,
        })
        .await?;
    let ttl = limits.rate.map(|_| limits.rate_ttl);
    Ok(Limits {
        queue: arguments.queue.text(),
        paused: limits.paused,
        rate_limit: limits.rate.map(|rate| Rate {
            max: rate.max,
            duration_ms: rate.duration,
        }),
        rate_limit_ttl_ms: ttl,
        rate_limited: ttl.is_some_and(|ttl| ttl > 0),
        concurrency_limit: limits.concurrency,
        active: limits.active,
        concurrency_maxed: limits.maxed,
    })
}
