//! Toolset `processing`: work on jobs as any worker does. Prose: `toolsets/processing.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::JobChanged;
use crate::command::bounds::{LOCK_TTL_DEFAULT, PULL_COUNT_MAX};
use crate::command::{Ack, AckMany, CommandError, ExtendLock, Fail, Heartbeat, Pull, Renew};
use crate::engine::{Delivery, FailReport, Renewal, Report, TokenGiven};
use crate::mcp::call::{Call, Measure};
use crate::mcp::error::{Cause, Rule, ToolError};
use crate::mcp::parameter::{AnyId, AnyJson, DAY, Id, Ms, Queue, Token, WAIT_MAX, Whole};
use crate::mcp::registry::{Policy, Toolset};
use crate::mcp::view::{self, stored};

/// Ms a lock must last at least: less is over before its token has reached the agent.
const LOCK_TTL_MIN: i64 = 1_000;

pub(super) fn toolset() -> Toolset {
    let lock = [Cause::Rule(Rule::LockTtlRequiresOwner)];
    let report = [Cause::NotActive, Cause::TokenRequired, Cause::TokenInvalid];
    let tokens = [Cause::Rule(Rule::TokenPerJob)];
    Toolset::new(
        "processing",
        include_str!("../../../toolsets/processing.md"),
    )
    .tool("bunqueue_pull_job", "Take a job", Policy::WRITE, pull_job)
    .errors(&lock)
    .tool(
        "bunqueue_pull_job_batch",
        "Take several jobs",
        Policy::WRITE,
        pull_job_batch,
    )
    .errors(&lock)
    .tool("bunqueue_ack_job", "Complete job", Policy::WRITE, ack_job)
    .errors(&report)
    .tool(
        "bunqueue_ack_job_batch",
        "Complete several jobs",
        Policy::WRITE,
        ack_job_batch,
    )
    .errors(&report)
    .errors(&tokens)
    .tool("bunqueue_fail_job", "Fail job", Policy::WRITE, fail_job)
    .errors(&report)
    .tool(
        "bunqueue_job_heartbeat",
        "Job heartbeat",
        Policy::WRITE.idempotent(),
        job_heartbeat,
    )
    .tool(
        "bunqueue_job_heartbeat_batch",
        "Job heartbeats",
        Policy::WRITE.idempotent(),
        job_heartbeat_batch,
    )
    .errors(&tokens)
    .tool(
        "bunqueue_extend_lock",
        "Extend lock",
        Policy::WRITE,
        extend_lock,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PullJob {
    queue: Queue,
    #[serde(flatten)]
    terms: PullTerms,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PullJobBatch {
    queue: Queue,
    count: Whole<1, PULL_COUNT_MAX>,
    #[serde(flatten)]
    terms: PullTerms,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PullTerms {
    /// Long-poll ms
    #[schemars(extend("default" = 0))]
    timeout_ms: Option<Ms<0, WAIT_MAX>>,
    /// Lock the job(s) for this owner and return a token
    #[schemars(length(min = 1, max = 256))]
    owner: Option<String>,
    /// Lock ms (needs owner)
    #[schemars(extend("default" = LOCK_TTL_DEFAULT as i64))]
    lock_ttl: Option<Ms<LOCK_TTL_MIN, DAY>>,
}

#[derive(Serialize, JsonSchema)]
struct JobPulled {
    /// The job as in get_job, with the token of its lock; null when there is none
    job: Option<Value>,
}

async fn pull_job(call: Call, arguments: PullJob) -> Result<JobPulled, ToolError> {
    let deliveries = pull(&call, &arguments.queue, 1, arguments.terms).await?;
    Ok(JobPulled {
        job: deliveries.first().map(view::delivery),
    })
}

#[derive(Serialize, JsonSchema)]
struct JobsPulled {
    count: usize,
    /// Jobs as in pull_job
    jobs: Vec<Value>,
}

async fn pull_job_batch(call: Call, arguments: PullJobBatch) -> Result<JobsPulled, ToolError> {
    let deliveries = pull(
        &call,
        &arguments.queue,
        arguments.count.count(),
        arguments.terms,
    )
    .await?;
    let jobs: Vec<_> = deliveries.iter().map(view::delivery).collect();
    Ok(JobsPulled {
        count: jobs.len(),
        jobs,
    })
}

async fn pull(
    call: &Call,
    queue: &Queue,
    count: usize,
    terms: PullTerms,
) -> Result<Vec<Delivery>, ToolError> {
    if terms.lock_ttl.is_some() && terms.owner.is_none() {
        return Err(Rule::LockTtlRequiresOwner.broken());
    }
    let wait = terms.timeout_ms.map_or(0, |ms| ms.0);
    let pull = Pull {
        queue: queue.name(),
        count,
        wait,
        locked: terms.owner.is_some(),
        lock_ttl: terms.lock_ttl.map_or(LOCK_TTL_DEFAULT, |ms| ms.0 as f64),
        // No connection stands for an agent: what it holds outlives the call.
        detach: true,
        group: None,
    };
    let deliveries = call.wait(pull, Measure::Time(wait)).await?;
    call.keep(deliveries).await
}

/// What became of a report on a delivery.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Reported {
    success: bool,
    job_id: String,
    /// true when the delivery was already over
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored: Option<bool>,
    /// Why it was ignored
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl Reported {
    fn new(job: &Id, report: Report) -> Self {
        let is_applied = report == Report::Applied;
        Self {
            success: is_applied,
            job_id: job.text(),
            ignored: (!is_applied).then_some(true),
            reason: (!is_applied).then_some("already-finalized"),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AckJob {
    job_id: Id,
    /// Any JSON value
    result: Option<AnyJson>,
    /// From a pull with owner
    token: Option<Token>,
}

async fn ack_job(call: Call, arguments: AckJob) -> Result<Reported, ToolError> {
    let result = arguments
        .result
        .map(|result| stored(&result.0, "result"))
        .transpose()?;
    let token = Token::given(arguments.token.as_ref());
    let ack = Ack {
        id: arguments.job_id.job(),
        token,
        result,
        remove_on_complete: false,
    };
    Ok(Reported::new(&arguments.job_id, call.run(ack).await?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JobBatch {
    #[schemars(length(min = 1))]
    job_ids: Vec<AnyId>,
    /// One per id, same order; "" if unlocked
    tokens: Option<Vec<String>>,
}

impl JobBatch {
    /// Each job with its token.
    fn pairs(&self) -> Result<Vec<(&AnyId, TokenGiven)>, ToolError> {
        let Some(tokens) = &self.tokens else {
            return Ok(self
                .job_ids
                .iter()
                .map(|id| (id, TokenGiven::None))
                .collect());
        };
        if tokens.len() != self.job_ids.len() {
            return Err(Rule::TokenPerJob.broken());
        }
        let tokens = tokens.iter().map(|token| TokenGiven::from_text(token));
        Ok(self.job_ids.iter().zip(tokens).collect())
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BatchReported {
    /// Every one was acknowledged
    success: bool,
    /// How many were
    count: usize,
    /// Those whose delivery was already over
    #[schemars(with = "Option<Vec<Value>>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored_ids: Vec<String>,
    /// Those that could not be, each with jobId and error
    #[schemars(with = "Option<Vec<serde_json::Map<String, Value>>>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Value>,
}

async fn ack_job_batch(call: Call, arguments: JobBatch) -> Result<BatchReported, ToolError> {
    let pairs = arguments.pairs()?;
    let ack = |(id, token): (&AnyId, TokenGiven)| Ack {
        id: id.job(),
        token,
        result: None,
        remove_on_complete: false,
    };
    let outcomes = call
        .run(AckMany {
            items: pairs.into_iter().map(ack).collect(),
        })
        .await?;
    let mut batch = BatchReported {
        success: true,
        count: 0,
        ignored_ids: Vec::new(),
        errors: Vec::new(),
    };
    let mut first_error: Option<CommandError> = None;
    for (id, outcome) in arguments.job_ids.iter().map(AnyId::job).zip(outcomes) {
        match outcome {
            Ok(Report::Applied) => batch.count += 1,
            Ok(Report::AlreadyFinalized) => batch.ignored_ids.push(id.to_string()),
            Err(error) => {
                batch
                    .errors
                    .push(json!({ "jobId": id.to_string(), "error": error.to_string() }));
                first_error.get_or_insert(error);
            }
        }
    }
    batch.success = batch.ignored_ids.is_empty() && batch.errors.is_empty();
    match first_error {
        // Nothing came of the whole call, so it failed.
        Some(error) if batch.count == 0 && batch.ignored_ids.is_empty() => Err(error.into()),
        _ => Ok(batch),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FailJob {
    job_id: Id,
    /// Reason
    error: Option<String>,
    /// From a pull with owner
    token: Option<Token>,
    /// Skip the remaining attempts
    #[serde(default)]
    unrecoverable: bool,
}

async fn fail_job(call: Call, arguments: FailJob) -> Result<Reported, ToolError> {
    let report = FailReport {
        error: arguments.error.map(Into::into),
        unrecoverable: arguments.unrecoverable,
        ..FailReport::default()
    };
    let token = Token::given(arguments.token.as_ref());
    let report = call
        .run(Fail {
            id: arguments.job_id.job(),
            token,
            report,
        })
        .await?;
    Ok(Reported::new(&arguments.job_id, report))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JobHeartbeat {
    job_id: Id,
    /// From a pull with owner
    token: Option<Token>,
}

async fn job_heartbeat(call: Call, arguments: JobHeartbeat) -> Result<JobChanged, ToolError> {
    let token = Token::given(arguments.token.as_ref());
    let items = vec![Renew {
        id: arguments.job_id.job(),
        token,
        duration: None,
    }];
    let renewals = call.run(Heartbeat { items }).await?;
    Ok(JobChanged::new(&arguments.job_id, not_renewed(&renewals)))
}

/// Why the one lock was not renewed.
fn not_renewed(renewals: &[Renewal]) -> Option<&'static str> {
    match renewals.first() {
        Some(Renewal::Renewed) => None,
        Some(Renewal::NotActive) => Some("not_active"),
        Some(Renewal::InvalidToken) => Some("invalid_token"),
        Some(Renewal::NotFound) | None => Some("not_found"),
    }
}

#[derive(Serialize, JsonSchema)]
struct Acknowledged {
    success: bool,
    /// How many of the jobs are alive
    acknowledged: usize,
}

async fn job_heartbeat_batch(call: Call, arguments: JobBatch) -> Result<Acknowledged, ToolError> {
    let renew = |(id, token): (&AnyId, TokenGiven)| Renew {
        id: id.job(),
        token,
        duration: None,
    };
    let items = arguments.pairs()?.into_iter().map(renew).collect();
    let renewals = call.run(Heartbeat { items }).await?;
    let acknowledged = renewals
        .iter()
        .filter(|renewal| **renewal == Renewal::Renewed)
        .count();
    Ok(Acknowledged {
        success: true,
        acknowledged,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ExtendJobLock {
    job_id: Id,
    /// From a pull with owner
    token: Token,
    duration: Ms<LOCK_TTL_MIN, DAY>,
}

async fn extend_lock(call: Call, arguments: ExtendJobLock) -> Result<JobChanged, ToolError> {
    let token = Token::given(Some(&arguments.token));
    let items = vec![Renew {
        id: arguments.job_id.job(),
        token,
        duration: Some(arguments.duration.0 as f64),
    }];
    let renewals = call.run(ExtendLock { items }).await?;
    Ok(JobChanged::new(&arguments.job_id, not_renewed(&renewals)))
}
