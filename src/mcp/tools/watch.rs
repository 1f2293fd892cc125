//! Waiting for a job and observing it: where it stands, or how it ended. Prose: `toolsets/jobs.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};
use tokio::time::Instant;

use crate::command::{GetJob, GetState, WaitJob, payload};
use crate::engine::{JobDetail, Payload, State, WaitFor, Waited};
use crate::mcp::call::{Call, Measure};
use crate::mcp::error::ToolError;
use crate::mcp::parameter::{Id, Ms, WAIT_MAX, Whole};
use crate::mcp::view::{self, iso};

/// Bytes of a result that `observe_job` shows when the call does not say.
const RESULT_BYTES_DEFAULT: i64 = 4_096;
/// Bytes of a result that a call may ask for.
const RESULT_BYTES_MAX: i64 = 65_536;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitForJob {
    job_id: Id,
    timeout_ms: Ms<100, WAIT_MAX>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitEnded {
    job_id: String,
    completed: bool,
    state: &'static str,
    /// How to go on, when it has not completed
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

pub(super) async fn wait_for_job(
    call: Call,
    arguments: WaitForJob,
) -> Result<WaitEnded, ToolError> {
    let id = arguments.job_id.job();
    let Some(job) = call.run(GetJob { id: id.clone() }).await? else {
        return Err(ToolError::job_not_found(id));
    };
    let wait = WaitJob {
        id: id.clone(),
        until: WaitFor::Completed,
        timeout: arguments.timeout_ms.0,
    };
    let job_id = arguments.job_id.text();
    match call.wait(wait, progress_of(&job)).await? {
        Waited::Completed { .. } => Ok(WaitEnded {
            job_id,
            completed: true,
            state: "completed",
            hint: None,
        }),
        Waited::NotFound => Err(ToolError::job_not_found(id)),
        Waited::TimedOut | Waited::Failed | Waited::Removed => {
            let state = call.run(GetState { id }).await?;
            let hint = match state {
                Some(State::Failed) => "It failed for good; bunqueue_observe_job tells why.",
                Some(State::Completed) => "It completed just now; read bunqueue_get_job_result.",
                Some(State::Active) => "It is being worked on; call bunqueue_wait_for_job again.",
                Some(_) => {
                    "It has not started; wait again, or see with bunqueue_observe_job when it runs."
                }
                None => "It was deleted while you waited; nothing more will come of it.",
            };
            let completed = state == Some(State::Completed);
            Ok(WaitEnded {
                job_id,
                completed,
                state: state.map_or("unknown", State::name),
                hint: Some(hint),
            })
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObserveJob {
    job_id: Id,
    /// 0 = look once
    #[schemars(extend("default" = 0))]
    timeout_ms: Option<Ms<0, WAIT_MAX>>,
    /// Longer results are cut
    #[schemars(extend("default" = RESULT_BYTES_DEFAULT))]
    max_result_bytes: Option<Whole<0, RESULT_BYTES_MAX>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Observation {
    job_id: String,
    /// completed, failed, pending or unknown
    #[schemars(with = "String")]
    outcome: &'static str,
    state: &'static str,
    /// Nothing more will happen by itself
    terminal: bool,
    /// The time was over before an outcome
    timed_out: bool,
    waited_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Number>,
    #[schemars(with = "Option<Value>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_message: Option<Option<String>>,
    /// What the worker gave back
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// The beginning of its JSON text, when it is longer than asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    result_preview: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_truncated: Option<bool>,
    /// reason, error, attemptCount and enteredAt
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Value>,
    /// When a delayed job is due
    #[serde(skip_serializing_if = "Option::is_none")]
    next_run_at: Option<String>,
}

pub(super) async fn observe_job(
    call: Call,
    arguments: ObserveJob,
) -> Result<Observation, ToolError> {
    let id = arguments.job_id.job();
    let timeout = arguments.timeout_ms.map_or(0, |ms| ms.0);
    let mut found = call.run(GetJob { id: id.clone() }).await?;
    let mut ended = None;
    let mut waited_ms = 0;
    if timeout > 0
        && let Some(job) = found.as_deref().filter(|found| !is_over(found.job.state))
    {
        let measure = progress_of(job);
        let started = Instant::now();
        ended = Some(
            call.wait(
                WaitJob {
                    id: id.clone(),
                    until: WaitFor::Outcome,
                    timeout,
                },
                measure,
            )
            .await?,
        );
        waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        found = call.run(GetJob { id }).await?;
    }
    let max_bytes = arguments
        .max_result_bytes
        .map_or(RESULT_BYTES_DEFAULT, |bytes| bytes.0);
    let mut seen = observation(arguments.job_id.text(), found.as_deref(), ended, max_bytes);
    seen.timed_out = timeout > 0 && !seen.terminal;
    seen.waited_ms = waited_ms;
    Ok(seen)
}

fn is_over(state: State) -> bool {
    matches!(state, State::Completed | State::Failed)
}

/// What is seen of a job after a wait that `ended`; a job that deletes itself when it is over leaves only that.
fn observation(
    job_id: String,
    found: Option<&JobDetail>,
    ended: Option<Waited>,
    max_bytes: i64,
) -> Observation {
    let (outcome, state, kept) = match (found, ended) {
        (Some(found), _) => match found.job.state {
            State::Completed => ("completed", "completed", found.result.clone()),
            State::Failed => ("failed", "failed", None),
            state => ("pending", state.name(), None),
        },
        (None, Some(Waited::Completed { result })) => ("completed", "completed", result),
        (None, Some(Waited::Failed)) => ("failed", "failed", None),
        (None, _) => ("unknown", "unknown", None),
    };
    let mut seen = Observation {
        job_id,
        outcome,
        state,
        terminal: outcome != "pending",
        timed_out: false,
        waited_ms: 0,
        attempts: None,
        max_attempts: None,
        progress: None,
        progress_message: None,
        result: None,
        result_preview: None,
        result_truncated: None,
        failure: None,
        next_run_at: None,
    };
    if let Some(result) = kept {
        show_result(&mut seen, &result, max_bytes);
    }
    if let Some(found) = found {
        let job = &found.job;
        seen.attempts = Some(job.attempts);
        seen.max_attempts = Some(job.max_attempts);
        seen.progress = Some(view::whole(job.progress));
        seen.progress_message = Some(job.progress_message.as_deref().map(str::to_owned));
        seen.failure = failure(found);
        seen.next_run_at = (job.state == State::Delayed)
            .then(|| iso(job.run_at))
            .flatten();
    }
    seen
}

fn show_result(seen: &mut Observation, result: &Payload, max_bytes: i64) {
    let max_bytes = usize::try_from(max_bytes).unwrap_or(0);
    // A short result needs no text of it.
    if payload::fits_utf8(result.bytes(), max_bytes) {
        seen.result = Some(view::value(Some(result)));
    } else {
        let text = payload::to_json(result.bytes());
        seen.result_preview = Some(view::cut(&text, max_bytes).to_owned());
        seen.result_truncated = Some(true);
    }
}

fn failure(found: &JobDetail) -> Option<Value> {
    let failure = found.failure.as_ref()?;
    Some(json!({
        "reason": failure.reason.name(),
        "error": failure.error.as_deref(),
        "attemptCount": failure.attempts.len(),
        "enteredAt": iso(failure.entered_at),
    }))
}

fn progress_of(found: &JobDetail) -> Measure {
    let job = &found.job;
    Measure::Job {
        queue: job.queue.clone(),
        id: job.id.clone(),
        progress: job.progress,
    }
}
