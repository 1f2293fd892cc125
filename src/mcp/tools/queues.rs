//! Toolset `queues`: look at queues, stop and restart them, empty them. Prose: `toolsets/queues.md`. Listing jobs is
//! in `listing.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::listing::{get_jobs, list_jobs_page};
use super::{LeftOut, Nothing, OneQueue, QueueChanged};
use crate::command::bounds::CLEAN_DEFAULT;
use crate::command::{
    Clean, Drain, GetCounts, GetCountsPerPriority, IsPaused, ListQueues, Obliterate, Pause, Resume,
};
use crate::engine::{Bucket, CleanState, State};
use crate::mcp::call::Call;
use crate::mcp::error::{Cause, ToolError};
use crate::mcp::page::fit;
use crate::mcp::parameter::{Ms, NO_MAX, Queue, Whole};
use crate::mcp::registry::{Policy, Toolset};
use crate::mcp::view::{self, CountsView};

pub(super) fn toolset() -> Toolset {
    Toolset::new("queues", include_str!("../../../toolsets/queues.md"))
        .tool(
            "bunqueue_list_queues",
            "List queues",
            Policy::READ,
            list_queues,
        )
        .tool(
            "bunqueue_count_jobs",
            "Count jobs",
            Policy::READ,
            count_jobs,
        )
        .tool("bunqueue_get_jobs", "List jobs", Policy::READ, get_jobs)
        .tool(
            "bunqueue_list_jobs_page",
            "List jobs, paged",
            Policy::READ,
            list_jobs_page,
        )
        .tool(
            "bunqueue_get_job_counts",
            "Job counts",
            Policy::READ,
            get_job_counts,
        )
        .tool(
            "bunqueue_get_counts_per_priority",
            "Counts per priority",
            Policy::READ,
            get_counts_per_priority,
        )
        .tool(
            "bunqueue_is_paused",
            "Is queue paused",
            Policy::READ,
            is_paused,
        )
        .tool(
            "bunqueue_pause_queue",
            "Pause queue",
            Policy::WRITE.idempotent(),
            pause_queue,
        )
        .errors(&[Cause::QueueTooLong, Cause::QueueInvalid])
        .tool(
            "bunqueue_resume_queue",
            "Resume queue",
            Policy::WRITE.idempotent(),
            resume_queue,
        )
        .guarded(
            "bunqueue_drain_queue",
            "Drain queue",
            Policy::DESTROY.idempotent().confirm("queue"),
            drain_queue,
            drain_queue_impact,
        )
        .guarded(
            "bunqueue_clean_queue",
            "Clean old jobs",
            Policy::DESTROY.confirm("queue"),
            clean_queue,
            clean_queue_impact,
        )
        .guarded(
            "bunqueue_obliterate_queue",
            "Obliterate queue",
            Policy::DESTROY.idempotent().confirm("queue"),
            obliterate_queue,
            obliterate_queue_impact,
        )
}

#[derive(Serialize, JsonSchema)]
struct QueueNames {
    /// In order of first use
    queues: Vec<Value>,
    #[serde(flatten)]
    left_out: LeftOut,
}

async fn list_queues(call: Call, _: Nothing) -> Result<QueueNames, ToolError> {
    let names = call.run(ListQueues).await?;
    let fitted = fit(names.iter().map(|name| Value::from(&**name)));
    let left_out = LeftOut::of(names.len(), &fitted, |left| {
        format!("{left} more queues do not fit; tools take a queue by its name all the same.")
    });
    Ok(QueueNames {
        queues: fitted.items,
        left_out,
    })
}

#[derive(Serialize, JsonSchema)]
struct JobCount {
    queue: String,
    /// Jobs in all eight states
    count: usize,
}

async fn count_jobs(call: Call, arguments: OneQueue) -> Result<JobCount, ToolError> {
    let counts = call
        .run(GetCounts {
            queue: arguments.queue.name(),
        })
        .await?;
    Ok(JobCount {
        queue: arguments.queue.text(),
        count: counts.total(),
    })
}

#[derive(Serialize, JsonSchema)]
pub(super) struct QueueCounts {
    queue: String,
    #[serde(flatten)]
    counts: CountsView,
}

pub(super) async fn get_job_counts(
    call: Call,
    arguments: OneQueue,
) -> Result<QueueCounts, ToolError> {
    let counts = call
        .run(GetCounts {
            queue: arguments.queue.name(),
        })
        .await?;
    Ok(QueueCounts {
        queue: arguments.queue.text(),
        counts: counts.into(),
    })
}

#[derive(Serialize, JsonSchema)]
struct PriorityCounts {
    queue: String,
    /// Number of jobs by priority, highest first
    priorities: Map<String, Value>,
}

async fn get_counts_per_priority(
    call: Call,
    arguments: OneQueue,
) -> Result<PriorityCounts, ToolError> {
    let counts = call
        .run(GetCountsPerPriority {
            queue: arguments.queue.name(),
        })
        .await?;
    // As a job shows its priority, so several of the engine's may be one here.
    let mut priorities: Map<String, Value> = Map::new();
    for (priority, count) in counts {
        let key = view::priority(priority).to_string();
        let before = priorities.get(&key).and_then(Value::as_u64).unwrap_or(0);
        priorities.insert(key, (before + count as u64).into());
    }
    Ok(PriorityCounts {
        queue: arguments.queue.text(),
        priorities,
    })
}

#[derive(Serialize, JsonSchema)]
struct QueuePaused {
    queue: String,
    paused: bool,
}

async fn is_paused(call: Call, arguments: OneQueue) -> Result<QueuePaused, ToolError> {
    let paused = call
        .run(IsPaused {
            queue: arguments.queue.name(),
        })
        .await?;
    Ok(QueuePaused {
        queue: arguments.queue.text(),
        paused,
    })
}

async fn pause_queue(call: Call, arguments: OneQueue) -> Result<QueueChanged, ToolError> {
    call.run(Pause {
        queue: arguments.queue.name(),
    })
    .await?;
    Ok(QueueChanged::new(&arguments.queue, "Queue paused"))
}

async fn resume_queue(call: Call, arguments: OneQueue) -> Result<QueueChanged, ToolError> {
    call.run(Resume {
        queue: arguments.queue.name(),
    })
    .await?;
    Ok(QueueChanged::new(&arguments.queue, "Queue resumed"))
}

#[derive(Serialize, JsonSchema)]
struct QueueDrained {
    success: bool,
    queue: String,
    removed: usize,
}

async fn drain_queue(call: Call, arguments: OneQueue) -> Result<QueueDrained, ToolError> {
    let removed = call
        .run(Drain {
            queue: arguments.queue.name(),
        })
        .await?;
    Ok(QueueDrained {
        success: true,
        queue: arguments.queue.text(),
        removed: removed.count,
    })
}

async fn drain_queue_impact(call: Call, arguments: OneQueue) -> Result<String, ToolError> {
    let counts = call
        .run(GetCounts {
            queue: arguments.queue.name(),
        })
        .await?;
    let paused = if counts.paused > 0 {
        format!(", {} paused", counts.paused)
    } else {
        String::new()
    };
    Ok(format!(
        "Queue {}: {} waiting, {} prioritized, {} delayed{paused} jobs will be deleted; {} active jobs keep running.",
        arguments.queue.text(),
        counts.waiting,
        counts.prioritized,
        counts.delayed,
        counts.active,
    ))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CleanQueue {
    queue: Queue,
    grace_ms: Ms<0, NO_MAX>,
    /// Omit for both
    state: Option<FinishedState>,
    /// Max removed in all
    limit: Option<Whole<1, NO_MAX>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum FinishedState {
    Completed,
    Failed,
}

impl CleanQueue {
    /// The states to clean, in order.
    fn states(&self) -> &'static [State] {
        match self.state {
            None => &[State::Completed, State::Failed],
            Some(FinishedState::Completed) => &[State::Completed],
            Some(FinishedState::Failed) => &[State::Failed],
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct QueueCleaned {
    success: bool,
    queue: String,
    removed: usize,
    /// Ids of the removed jobs
    ids: Vec<Value>,
    /// true when not all ids fit
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

async fn clean_queue(call: Call, arguments: CleanQueue) -> Result<QueueCleaned, ToolError> {
    let mut left = arguments.limit.map(Whole::count);
    let mut ids = Vec::new();
    for state in arguments.states() {
        let clean = Clean {
            queue: arguments.queue.name(),
            grace: arguments.grace_ms.0 as f64,
            state: CleanState::Bucket(Bucket::State(*state)),
            limit: left.unwrap_or(CLEAN_DEFAULT),
        };
        let removed = call.run(clean).await?;
        left = left.map(|left| left.saturating_sub(removed.count));
        ids.extend(removed.ids);
        if left == Some(0) {
            break;
        }
    }
    let fitted = fit(ids.iter().map(|id| Value::from(id.to_string())));
    Ok(QueueCleaned {
        success: true,
        queue: arguments.queue.text(),
        removed: ids.len(),
        ids: fitted.items,
        truncated: fitted.is_cut.then_some(true),
    })
}

async fn clean_queue_impact(call: Call, arguments: CleanQueue) -> Result<String, ToolError> {
    let counts = call
        .run(GetCounts {
            queue: arguments.queue.name(),
        })
        .await?;
    let states: Vec<_> = arguments
        .states()
        .iter()
        .map(|state| state.name())
        .collect();
    let limit = arguments.limit.map_or_else(String::new, |limit| {
        format!(", at most {} (limit)", limit.0)
    });
    Ok(format!(
        "Queue {}: {} jobs that ended more than {} ms ago (graceMs) will be deleted{limit}; it holds {} completed and \
         {} failed ones of any age.",
        arguments.queue.text(),
        states.join(" and "),
        arguments.grace_ms.0,
        counts.completed,
        counts.failed,
    ))
}

async fn obliterate_queue(call: Call, arguments: OneQueue) -> Result<QueueChanged, ToolError> {
    call.run(Obliterate {
        queue: arguments.queue.name(),
    })
    .await?;
    Ok(QueueChanged::new(&arguments.queue, "Queue obliterated"))
}

async fn obliterate_queue_impact(call: Call, arguments: OneQueue) -> Result<String, ToolError> {
    let counts = call
        .run(GetCounts {
            queue: arguments.queue.name(),
        })
        .await?;
    let mut parts = vec![
        format!("{} waiting", counts.waiting),
        format!("{} prioritized", counts.prioritized),
        format!("{} delayed", counts.delayed),
        format!("{} active", counts.active),
        format!("{} completed", counts.completed),
        format!("{} failed", counts.failed),
    ];
    let rare = [
        (counts.paused, "paused"),
        (counts.waiting_children, "waiting-children"),
    ];
    parts.extend(
        rare.iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}")),
    );
    let queue = arguments.queue.text();
    Ok(format!(
        "Queue {queue} will be deleted with all its jobs: {}. Results and logs go too.",
        parts.join(", ")
    ))
}
