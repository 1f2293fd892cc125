//! Toolset `job-control`: change a job before it is done. Prose: `toolsets/job-control.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::add::PRIORITY_MAX;
use super::{JobChanged, OneJob, job_in_words, reason};
use crate::command::draft::check_data;
use crate::command::{
    Cancel, ChangeDelay, ChangePriority, CommandError, Discard, Promote, UpdateData,
};
use crate::engine::TokenGiven;
use crate::mcp::call::Call;
use crate::mcp::error::{Cause, ToolError};
use crate::mcp::parameter::{FreeForm, Id, Ms, Whole, YEAR};
use crate::mcp::registry::{Policy, Toolset};
use crate::mcp::view::stored;

pub(super) fn toolset() -> Toolset {
    Toolset::new(
        "job-control",
        include_str!("../../../toolsets/job-control.md"),
    )
    .guarded(
        "bunqueue_cancel_job",
        "Cancel job",
        Policy::DESTROY.idempotent().confirm("jobId"),
        cancel_job,
        cancel_job_impact,
    )
    .tool(
        "bunqueue_discard_job",
        "Discard job to DLQ",
        Policy::WRITE.idempotent(),
        discard_job,
    )
    .errors(&[Cause::TokenRequired])
    .tool(
        "bunqueue_promote_job",
        "Run delayed job now",
        Policy::WRITE.idempotent(),
        promote_job,
    )
    .tool(
        "bunqueue_update_job_data",
        "Replace job payload",
        Policy::DESTROY.idempotent(),
        update_job_data,
    )
    .errors(&[Cause::DataTooLarge])
    .tool(
        "bunqueue_change_job_priority",
        "Change priority",
        Policy::WRITE.idempotent(),
        change_job_priority,
    )
    .tool(
        "bunqueue_move_to_delayed",
        "Delay job",
        Policy::WRITE,
        set_delay,
    )
    .errors(&[Cause::TokenRequired])
    .tool(
        "bunqueue_change_delay",
        "Change delay",
        Policy::WRITE,
        set_delay,
    )
    .errors(&[Cause::TokenRequired])
}

async fn cancel_job(call: Call, arguments: OneJob) -> Result<JobChanged, ToolError> {
    let change = call
        .run(Cancel {
            id: arguments.job_id.job(),
        })
        .await?;
    Ok(JobChanged::new(
        &arguments.job_id,
        reason(change, "wrong_state"),
    ))
}

async fn cancel_job_impact(call: Call, arguments: OneJob) -> Result<String, ToolError> {
    let job = job_in_words(&call, arguments.job_id.job()).await?;
    Ok(format!(
        "{job}: it will be deleted for good if it is waiting, prioritized or delayed, else it stays."
    ))
}

async fn discard_job(call: Call, arguments: OneJob) -> Result<JobChanged, ToolError> {
    let change = call
        .run(Discard {
            id: arguments.job_id.job(),
            token: TokenGiven::None,
        })
        .await?;
    Ok(JobChanged::new(
        &arguments.job_id,
        reason(change, "wrong_state"),
    ))
}

async fn promote_job(call: Call, arguments: OneJob) -> Result<JobChanged, ToolError> {
    let change = call
        .run(Promote {
            id: arguments.job_id.job(),
        })
        .await?;
    Ok(JobChanged::new(
        &arguments.job_id,
        reason(change, "not_delayed"),
    ))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UpdateJobData {
    job_id: Id,
    /// Payload
    data: FreeForm,
}

async fn update_job_data(call: Call, arguments: UpdateJobData) -> Result<JobChanged, ToolError> {
    let data = stored(&arguments.data.0, "data")?;
    check_data(data.bytes()).map_err(CommandError::from)?;
    let change = call
        .run(UpdateData {
            id: arguments.job_id.job(),
            data: Some(data),
        })
        .await?;
    Ok(JobChanged::new(
        &arguments.job_id,
        reason(change, "wrong_state"),
    ))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChangeJobPriority {
    job_id: Id,
    /// Higher runs first
    priority: Whole<{ -PRIORITY_MAX }, PRIORITY_MAX>,
}

#[derive(Serialize, JsonSchema)]
struct PriorityChanged {
    #[serde(flatten)]
    job: JobChanged,
    /// As asked for; when success is false the job keeps what it had
    priority: i64,
}

async fn change_job_priority(
    call: Call,
    arguments: ChangeJobPriority,
) -> Result<PriorityChanged, ToolError> {
    let priority = arguments.priority.0;
    let id = arguments.job_id.job();
    let change = call
        .run(ChangePriority {
            id,
            priority: priority as f64,
            lifo: None,
        })
        .await?;
    let job = JobChanged::new(&arguments.job_id, reason(change, "wrong_state"));
    Ok(PriorityChanged { job, priority })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SetDelay {
    job_id: Id,
    delay: Ms<0, YEAR>,
}

#[derive(Serialize, JsonSchema)]
struct DelaySet {
    #[serde(flatten)]
    job: JobChanged,
    /// As asked for; when success is false the job keeps what it had
    delay: i64,
}

/// Both tools that set a delay are one command: the state of the job decides what it means.
async fn set_delay(call: Call, arguments: SetDelay) -> Result<DelaySet, ToolError> {
    let delay = arguments.delay.0;
    let id = arguments.job_id.job();
    let change = call
        .run(ChangeDelay {
            id,
            delay: delay as f64,
            token: TokenGiven::None,
        })
        .await?;
    let job = JobChanged::new(&arguments.job_id, reason(change, "wrong_state"));
    Ok(DelaySet { job, delay })
}
