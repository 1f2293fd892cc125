//! Questions about jobs and queues (tcp protocol sections 12, 13, 14 and 17).

use crate::command::draft::whole_millis;
use crate::command::payload::Value;
use crate::command::{
    ArgumentError, GetCounts, GetCountsPerPriority, GetDedupOwner, GetJob, GetJobByCustomId,
    GetJobs, GetLogs, GetResult, GetState, IsPaused, ListQueues, WaitJob, bounds,
};
use crate::engine::{Bucket, JobId, Listing, WaitFor};

use super::{Decoded, ask};
use crate::wire::fields::{Fields, text};
use crate::wire::shape::Shape;

pub(super) fn get_state(fields: &Fields<'_>) -> Decoded {
    let id = any_id(fields)?;
    let echo = sent_id(fields, &id);
    ask(GetState { id }, Shape::GetState(echo))
}

pub(super) fn get_result(fields: &Fields<'_>) -> Decoded {
    let id = any_id(fields)?;
    let echo = sent_id(fields, &id);
    ask(GetResult { id }, Shape::GetResult(echo))
}

/// An id of any type, for commands that answer that they know no such job.
fn any_id(fields: &Fields<'_>) -> Result<JobId, ArgumentError> {
    match fields.id("id") {
        Ok(id) => Ok(id),
        Err(_) => fields
            .prose("id")
            .map(|id| JobId::from_text(id.as_deref().unwrap_or_default())),
    }
}

/// The id, unless the client sent none.
fn sent_id(fields: &Fields<'_>, id: &JobId) -> Option<JobId> {
    fields.value("id").map(|_| id.clone())
}

pub(super) fn get_job(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    ask(GetJob { id }, Shape::GetJob)
}

pub(super) fn get_progress(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    ask(GetJob { id }, Shape::GetProgress)
}

pub(super) fn get_job_by_custom_id(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("customId")?;
    ask(GetJobByCustomId { id }, Shape::GetJobByCustomId)
}

pub(super) fn get_logs(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    let start = index(fields, "start")?;
    let end = index(fields, "end")?;
    ask(GetLogs { id }, Shape::GetLogs { start, end })
}

fn index(fields: &Fields<'_>, name: &'static str) -> Result<Option<f64>, ArgumentError> {
    fields.number(name).finite(name)
}

pub(super) fn wait_job(fields: &Fields<'_>) -> Decoded {
    let timeout = fields
        .number("timeout")
        .within("timeout", 0, bounds::JOB_WAIT_MAX)?;
    let wait = WaitJob {
        id: fields.id("id")?,
        until: WaitFor::Completed,
        timeout: timeout.map_or(bounds::JOB_WAIT_DEFAULT, whole_millis),
    };
    ask(wait, Shape::WaitJob)
}

pub(super) fn get_jobs(fields: &Fields<'_>) -> Decoded {
    let states = states(fields);
    let offset = fields.number("offset").count("offset")?.unwrap_or(0);
    let limit = fields
        .number("limit")
        .count("limit")?
        .map_or(bounds::LISTING_DEFAULT, |limit| {
            limit.min(bounds::LISTING_MAX)
        });
    let listing = Listing {
        queue: fields.any_queue()?.shared(),
        // An empty list of buckets takes all, which unknown states must not.
        limit: if states.is_some() { limit } else { 0 },
        offset,
        ascending: fields.value("asc") != Some(Value::Bool(false)),
        after: None,
        buckets: states.unwrap_or_default(),
    };
    let only = match (fields.value("state"), listing.buckets.as_slice()) {
        (Some(Value::Str(_)), [bucket]) => Some(*bucket),
        _ => None,
    };
    ask(GetJobs { listing }, Shape::GetJobs { only })
}

/// The buckets asked for, none meaning all; `None` when only unknown ones were named.
fn states(fields: &Fields<'_>) -> Option<Vec<Bucket>> {
    let known = |name: Option<&str>| name.and_then(Bucket::from_name);
    let mut buckets = Vec::new();
    match fields.value("state") {
        None | Some(Value::Array(0)) => return Some(buckets),
        Some(Value::Array(_)) => {
            let names = fields.list("state", usize::MAX).ok()??;
            for bucket in names.filter_map(|name| known(text(name))) {
                if !buckets.contains(&bucket) {
                    buckets.push(bucket);
                }
            }
        }
        Some(value) => buckets.extend(known(value.as_text())),
    }
    (!buckets.is_empty()).then_some(buckets)
}

pub(super) fn get_job_counts(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(GetCounts { queue }, Shape::GetJobCounts)
}

pub(super) fn count_queued(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(GetCounts { queue }, Shape::Count)
}

pub(super) fn get_counts_per_priority(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let shape = Shape::GetCountsPerPriority(queue.clone());
    ask(GetCountsPerPriority { queue }, shape)
}

pub(super) fn is_paused(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(IsPaused { queue }, Shape::IsPaused)
}

pub(super) fn list_queues() -> Decoded {
    ask(ListQueues, Shape::ListQueues)
}

pub(super) fn get_dedup_owner(fields: &Fields<'_>) -> Decoded {
    let owner = GetDedupOwner {
        queue: fields.any_queue()?,
        key: fields.text("deduplicationId")?.unwrap_or_default().into(),
    };
    ask(owner, Shape::DedupOwner)
}
