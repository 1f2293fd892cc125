//! Toolset `jobs`: add jobs, read one job, wait for it, its progress and its log. Prose: `toolsets/jobs.md`.
//! Adding is in `add.rs`, waiting in `watch.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::add::{add_job, add_jobs_bulk};
use super::watch::{observe_job, wait_for_job};
use super::{JobChanged, OneJob, job_in_words, put, reason};
use crate::command::{
    AddLog, ClearLogs, CommandError, GetJob, GetJobByCustomId, GetLogs, GetResult, GetState,
    Progress,
};
use crate::engine::{LogLine, State};
use crate::mcp::call::Call;
use crate::mcp::error::{Cause, Rule, ToolError};
use crate::mcp::page::{self, fit, is_too_long};
use crate::mcp::parameter::{Id, NO_MAX, Percent, Whole};
use crate::mcp::registry::{Policy, Toolset};
use crate::mcp::view::{self, JobView, cut};

pub(super) fn toolset() -> Toolset {
    let added = [
        Cause::DataTooLarge,
        Cause::QueueTooLong,
        Cause::QueueInvalid,
        Cause::Rule(Rule::ExtendRequiresTtl),
    ];
    Toolset::new("jobs", include_str!("../../../toolsets/jobs.md"))
        .tool("bunqueue_add_job", "Add job", Policy::WRITE, add_job)
        .errors(&added)
        .tool(
            "bunqueue_add_jobs_bulk",
            "Add many jobs",
            Policy::WRITE,
            add_jobs_bulk,
        )
        .errors(&[Cause::BatchEntry, Cause::QueueTooLong, Cause::QueueInvalid])
        .tool("bunqueue_get_job", "Get job", Policy::READ, get_job)
        .errors(&[Cause::JobNotFound])
        .tool(
            "bunqueue_get_job_state",
            "Get job state",
            Policy::READ,
            get_job_state,
        )
        .tool(
            "bunqueue_get_job_result",
            "Get job result",
            Policy::READ,
            get_job_result,
        )
        .tool(
            "bunqueue_get_job_by_custom_id",
            "Find job by custom id",
            Policy::READ,
            get_job_by_custom_id,
        )
        .errors(&[Cause::JobNotFound])
        .tool(
            "bunqueue_wait_for_job",
            "Wait for job",
            Policy::READ,
            wait_for_job,
        )
        .errors(&[Cause::JobNotFound])
        .tool(
            "bunqueue_observe_job",
            "Observe job",
            Policy::READ,
            observe_job,
        )
        .tool(
            "bunqueue_get_progress",
            "Get progress",
            Policy::READ,
            get_progress,
        )
        .errors(&[Cause::JobNotFound])
        .tool(
            "bunqueue_update_progress",
            "Set progress",
            Policy::WRITE.idempotent(),
            update_progress,
        )
        .tool(
            "bunqueue_get_job_logs",
            "Get job logs",
            Policy::READ,
            get_job_logs,
        )
        .tool(
            "bunqueue_add_job_log",
            "Add job log line",
            Policy::WRITE,
            add_job_log,
        )
        .guarded(
            "bunqueue_clear_job_logs",
            "Clear job logs",
            Policy::DESTROY.idempotent().confirm("jobId"),
            clear_job_logs,
            clear_job_logs_impact,
        )
}

async fn get_job(call: Call, arguments: OneJob) -> Result<JobView, ToolError> {
    let id = arguments.job_id.job();
    match call.run(GetJob { id: id.clone() }).await? {
        Some(found) => Ok(JobView::of(&found.job)),
        None => Err(ToolError::job_not_found(id)),
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JobState {
    job_id: String,
    /// unknown when there is no such job
    state: &'static str,
}

async fn get_job_state(call: Call, arguments: OneJob) -> Result<JobState, ToolError> {
    let state = call
        .run(GetState {
            id: arguments.job_id.job(),
        })
        .await?;
    Ok(JobState {
        job_id: arguments.job_id.text(),
        state: state.map_or("unknown", State::name),
    })
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JobResult {
    job_id: String,
    /// What the worker gave back; absent when there is nothing
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
}

async fn get_job_result(call: Call, arguments: OneJob) -> Result<JobResult, ToolError> {
    let result = call
        .run(GetResult {
            id: arguments.job_id.job(),
        })
        .await?;
    Ok(JobResult {
        job_id: arguments.job_id.text(),
        result: result.map(|result| view::value(Some(&result))),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CustomId {
    custom_id: Id,
}

async fn get_job_by_custom_id(call: Call, arguments: CustomId) -> Result<JobView, ToolError> {
    let id = arguments.custom_id.job();
    if let Some(found) = call.run(GetJobByCustomId { id: id.clone() }).await? {
        return Ok(JobView::of(&found.job));
    }
    let error = CommandError::not_found(id.clone());
    Err(match call.run(GetState { id }).await? {
        Some(state) => {
            let hint = format!(
                "A job with this id is {}; read it with bunqueue_get_job.",
                state.name()
            );
            ToolError::Hinted { error, hint }
        }
        None => error.into(),
    })
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JobProgress {
    job_id: String,
    /// 0 to 100
    progress: Number,
    /// Last message of the worker
    message: Option<String>,
}

async fn get_progress(call: Call, arguments: OneJob) -> Result<JobProgress, ToolError> {
    let id = arguments.job_id.job();
    let Some(found) = call.run(GetJob { id: id.clone() }).await? else {
        return Err(ToolError::job_not_found(id));
    };
    let message = found.job.progress_message.as_deref().map(str::to_owned);
    Ok(JobProgress {
        job_id: arguments.job_id.text(),
        progress: view::whole(found.job.progress),
        message,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UpdateProgress {
    job_id: Id,
    progress: Percent,
    message: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ProgressSet {
    #[serde(flatten)]
    job: JobChanged,
    /// As asked for; when success is false the job keeps what it had
    progress: Number,
}

async fn update_progress(call: Call, arguments: UpdateProgress) -> Result<ProgressSet, ToolError> {
    let message = arguments.message.map(Into::into);
    let progress = arguments.progress.0;
    let change = call
        .run(Progress {
            id: arguments.job_id.job(),
            progress,
            message,
        })
        .await?;
    let job = JobChanged::new(&arguments.job_id, reason(change, "not_active"));
    Ok(ProgressSet {
        job,
        progress: view::whole(progress),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GetJobLogs {
    job_id: Id,
    /// nextCursor of the page before
    #[schemars(length(min = 1))]
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JobLogs {
    job_id: String,
    /// Lines in this answer
    count: usize,
    /// Items of timestamp (epoch ms), level and message
    logs: Vec<Value>,
    /// The way on, when the answer was cut
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// true when the answer was cut
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

/// Bytes of a level or message that would be too long for an answer; escaped it takes at most six times as many.
const LINE_TEXT_MAX: usize = 6_000;

async fn get_job_logs(call: Call, arguments: GetJobLogs) -> Result<JobLogs, ToolError> {
    let job_id = arguments.job_id.text();
    let scope = ["logs", job_id.as_str()];
    // Where a page ends: the number of its last line. New lines come behind it and old ones vanish before it.
    let after: Option<u64> = match &arguments.cursor {
        None => None,
        Some(cursor) => {
            let position = page::position(&scope, cursor);
            Some(position.ok_or(Rule::CursorOfAnotherListing.broken())?)
        }
    };
    let lines = call
        .run(GetLogs {
            id: arguments.job_id.job(),
        })
        .await?;
    let is_behind = |line: &&LogLine| after.is_none_or(|after| line.seq > after);
    let lines: Vec<_> = lines.iter().filter(is_behind).collect();
    let fitted = fit(lines.iter().map(|line| shown_line(line)));
    let last = lines
        .get(..fitted.items.len())
        .and_then(<[_]>::last)
        .filter(|_| fitted.is_cut);
    let truncated = fitted.is_cut.then_some(true);
    Ok(JobLogs {
        count: fitted.items.len(),
        logs: fitted.items,
        next_cursor: last.map(|last| page::cursor(&scope, last.seq)),
        truncated,
        job_id,
    })
}

/// A line in full, unless it alone is more than an answer holds.
fn shown_line(line: &LogLine) -> Value {
    let mut members = Map::new();
    put(&mut members, "timestamp", line.at);
    put(&mut members, "level", &*line.level);
    put(&mut members, "message", &*line.message);
    if is_too_long(&members) {
        put(&mut members, "level", cut(&line.level, LINE_TEXT_MAX));
        put(&mut members, "message", cut(&line.message, LINE_TEXT_MAX));
        put(&mut members, "truncated", true);
    }
    Value::Object(members)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AddJobLog {
    job_id: Id,
    message: String,
    #[schemars(extend("default" = "info"))]
    level: Option<Level>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Level {
    Info,
    Warn,
    Error,
}

async fn add_job_log(call: Call, arguments: AddJobLog) -> Result<JobChanged, ToolError> {
    let level = match arguments.level {
        None | Some(Level::Info) => "info",
        Some(Level::Warn) => "warn",
        Some(Level::Error) => "error",
    };
    let line = AddLog {
        id: arguments.job_id.job(),
        level: level.into(),
        message: arguments.message.into(),
    };
    let change = call.run(line).await?;
    Ok(JobChanged::new(
        &arguments.job_id,
        reason(change, "wrong_state"),
    ))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ClearJobLogs {
    job_id: Id,
    #[schemars(extend("default" = 0))]
    keep_logs: Option<Whole<0, NO_MAX>>,
}

async fn clear_job_logs(call: Call, arguments: ClearJobLogs) -> Result<JobChanged, ToolError> {
    let keep = arguments.keep_logs.map_or(0, Whole::count);
    call.run(ClearLogs {
        id: arguments.job_id.job(),
        keep,
    })
    .await?;
    Ok(JobChanged::new(&arguments.job_id, None))
}

async fn clear_job_logs_impact(call: Call, arguments: ClearJobLogs) -> Result<String, ToolError> {
    let job = job_in_words(&call, arguments.job_id.job()).await?;
    Ok(match arguments.keep_logs {
        Some(keep) => format!(
            "{job}: its log lines will be deleted but for the newest {} (keepLogs).",
            keep.0
        ),
        None => format!("{job}: all its log lines will be deleted."),
    })
}
