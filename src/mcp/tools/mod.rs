//! The tools, one file per toolset, and what several of them share. Handlers hold no rules about jobs: they build a
//! command and shape its reply.

mod add;
mod capabilities;
mod cron;
mod diagnosis;
mod dlq;
mod flows;
mod handlers;
mod job_control;
mod jobs;
mod limits;
mod listing;
mod monitoring;
mod processing;
mod queues;
mod watch;
mod webhooks;
mod workers;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::Call;
use super::error::ToolError;
use super::nearest::similar;
use super::page::Fitted;
use super::parameter::{Id, Queue};
use super::registry::Toolset;
use crate::command::{GetJob, ListQueues};
use crate::engine::{Change, JobId};

/// Every toolset, in the order of the list: hosts that show only some tools show the first.
pub(super) fn toolsets() -> Vec<Toolset> {
    vec![
        jobs::toolset(),
        queues::toolset(),
        dlq::toolset(),
        monitoring::toolset(),
        processing::toolset(),
        job_control::toolset(),
        cron::toolset(),
        flows::toolset(),
        limits::toolset(),
        workers::toolset(),
        webhooks::toolset(),
    ]
}

/// A tool that takes nothing.
#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A tool that takes a queue and nothing else.
#[derive(Deserialize, JsonSchema)]
struct OneQueue {
    queue: Queue,
}

/// What a change to a queue did.
#[derive(Serialize, JsonSchema)]
struct QueueChanged {
    success: bool,
    queue: String,
    message: &'static str,
}

impl QueueChanged {
    fn new(queue: &Queue, message: &'static str) -> Self {
        Self {
            success: true,
            queue: queue.text(),
            message,
        }
    }
}

/// A tool that takes a job and nothing else.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OneJob {
    job_id: Id,
}

/// What became of a change to one job.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JobChanged {
    success: bool,
    job_id: String,
    /// Why not: not_found, not_delayed, not_active, wrong_state or invalid_token
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl JobChanged {
    fn new(job: &Id, reason: Option<&'static str>) -> Self {
        Self {
            success: reason.is_none(),
            job_id: job.text(),
            reason,
        }
    }
}

/// What became of a change to something that is found by its id or name. What it is stands beside it.
#[derive(Serialize, JsonSchema)]
struct Found {
    /// false when there is none
    success: bool,
    /// Why not: not_found
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl Found {
    fn new(success: bool) -> Self {
        Self {
            success,
            reason: (!success).then_some("not_found"),
        }
    }
}

/// What a listing of everything there is says when not all of it fits.
#[derive(Serialize, JsonSchema)]
struct LeftOut {
    /// true when there are more
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    /// What was left out
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl LeftOut {
    /// `hint` tells of so many items that are missing.
    fn of(all: usize, shown: &Fitted, hint: impl FnOnce(usize) -> String) -> Self {
        Self {
            truncated: shown.is_cut.then_some(true),
            hint: shown.is_cut.then(|| hint(all - shown.items.len())),
        }
    }
}

/// Why a change was not applied; `wrong_state` names what the job is not.
fn reason(change: Change, wrong_state: &'static str) -> Option<&'static str> {
    match change {
        Change::Applied => None,
        Change::NotFound => Some("not_found"),
        Change::WrongState(_) => Some(wrong_state),
    }
}

/// A job in the words of an impact text.
async fn job_in_words(call: &Call, id: JobId) -> Result<String, ToolError> {
    Ok(match call.run(GetJob { id: id.clone() }).await? {
        None => format!("Job {id} was not found"),
        Some(found) => {
            let view = &found.job;
            format!(
                "Job {} ({}, {}, queue {})",
                view.id,
                view.name,
                view.state.name(),
                view.queue
            )
        }
    })
}

/// How to spell a queue that does not exist, when names like it do.
async fn misspelt_queue(call: &Call, queue: &str) -> Result<Option<String>, ToolError> {
    let known = call.run(ListQueues).await?;
    let known: Vec<&str> = known.iter().map(|name| &**name).collect();
    if known.contains(&queue) {
        return Ok(None);
    }
    let alike = similar(queue, known, 3);
    Ok((!alike.is_empty()).then(|| {
        let suggested = suggestion(&alike);
        format!(
            "There is no queue {}. Did you mean {suggested}?",
            shortened(queue, QUEUE_SHOWN)
        )
    }))
}

/// Characters of a misspelt queue name and of all suggestions that leave a hint within its 160 characters.
const QUEUE_SHOWN: usize = 24;
const SUGGESTED: usize = 100;

/// As many whole names as fit; the first is cut when it alone does not.
fn suggestion(names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        let more = if text.is_empty() {
            shortened(name, SUGGESTED)
        } else {
            format!(", {name}")
        };
        if text.chars().count() + more.chars().count() > SUGGESTED + 1 {
            break;
        }
        text += &more;
    }
    text
}

fn shortened(name: &str, max: usize) -> String {
    let mut text: String = name.chars().take(max).collect();
    if name.chars().nth(max).is_some() {
        text.push('…');
    }
    text
}

/// Adds a member to an answer that is shaped by hand.
fn put(members: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    members.insert(key.to_owned(), value.into());
}
