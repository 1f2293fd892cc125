//! Adding jobs: the options of one job as agents give them. Prose: `toolsets/jobs.md`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::command::bounds::{ATTEMPTS_DEFAULT, JOB_NAME_MAX};
use crate::command::draft::JobDraft;
use crate::command::given::Number;
use crate::command::{Add, AddMany, CommandError};
use crate::engine::{AddOutcome, NewJob};
use crate::mcp::call::Call;
use crate::mcp::error::{Rule, ToolError};
use crate::mcp::parameter::{Backoff, DAY, FreeForm, Key, Ms, NO_MIN, Queue, Whole, YEAR};
use crate::mcp::schema::BRIEF;
use crate::mcp::view::stored;

/// Attempts at most.
pub(super) const ATTEMPTS_MAX: i64 = 1_000;
/// The greatest priority, and the least below zero.
pub(super) const PRIORITY_MAX: i64 = 1_000_000;

/// A job to add.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JobArguments {
    /// Job type
    #[schemars(length(min = 1, max = JOB_NAME_MAX))]
    name: String,
    /// Payload
    data: FreeForm,
    /// Higher runs first
    #[schemars(extend("default" = 0))]
    priority: Option<Whole<{ -PRIORITY_MAX }, PRIORITY_MAX>>,
    /// Ms before it may run
    #[schemars(extend("default" = 0))]
    delay: Option<Ms<NO_MIN, YEAR>>,
    /// Tries in total
    #[schemars(extend("default" = ATTEMPTS_DEFAULT))]
    attempts: Option<Whole<1, ATTEMPTS_MAX>>,
    /// Retry delay. A bare number (ms) is accepted too and means exponential
    backoff: Option<Backoff>,
    /// Max ms per attempt
    timeout: Option<Ms<0, DAY>>,
    /// Own id, server-wide; re-adding while unfinished returns the same job
    job_id: Option<Key>,
    /// Same key while its job is unfinished returns that job
    deduplication: Option<Deduplication>,
    /// Delete when done
    #[serde(default)]
    remove_on_complete: bool,
    /// Delete instead of DLQ
    #[serde(default)]
    remove_on_fail: bool,
    /// Full disk sync first
    #[serde(default)]
    durable: bool,
    /// Run before older jobs
    #[serde(default)]
    lifo: bool,
    #[schemars(inner(length(max = 256)))]
    tags: Option<Vec<String>>,
    /// Ms without heartbeat before stalled
    stall_timeout: Option<Ms<0, DAY>>,
}

/// What adds are duplicates of each other.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Deduplication {
    /// Key, per queue
    id: Key,
    /// Key lifetime ms
    ttl: Option<Ms<1, YEAR>>,
    /// Duplicates restart ttl (needs ttl)
    extend: Option<bool>,
    /// Newer job replaces a queued holder
    replace: Option<bool>,
}

/// A deduplication as drafts take it.
pub(super) struct DedupDraft<'a> {
    pub(super) key: Option<&'a str>,
    pub(super) ttl: Number,
    pub(super) extend: bool,
    pub(super) replace: bool,
}

impl Deduplication {
    /// The draft, if its parts fit together; `item` is the place of its job in a list.
    pub(super) fn draft(
        given: Option<&Self>,
        item: Option<usize>,
    ) -> Result<DedupDraft<'_>, ToolError> {
        let ttl = given.and_then(|given| given.ttl);
        let extend = given.is_some_and(|given| given.extend == Some(true));
        if extend && ttl.is_none() {
            return Err(ToolError::Rule {
                rule: Rule::ExtendRequiresTtl,
                item,
            });
        }
        Ok(DedupDraft {
            key: given.map(|given| given.id.0.as_str()),
            ttl: Ms::draft(ttl),
            extend,
            replace: given.is_some_and(|given| given.replace == Some(true)),
        })
    }
}

impl JobArguments {
    /// The job, checked; `item` is its place in a list.
    fn job(&self, item: Option<usize>) -> Result<NewJob, ToolError> {
        let path = item.map_or("data".into(), |index| format!("jobs[{index}].data"));
        let data = stored(&self.data.0, &path)?;
        let dedup = Deduplication::draft(self.deduplication.as_ref(), item)?;
        let draft = JobDraft {
            name: Some(&self.name),
            data: Some(data.bytes()),
            custom_id: self.job_id.as_ref().map(|id| id.0.as_str()),
            priority: Whole::draft(self.priority),
            delay: Ms::draft(self.delay),
            timeout: Ms::draft(self.timeout),
            max_attempts: Whole::draft(self.attempts),
            backoff: Backoff::draft(self.backoff),
            stall_timeout: Ms::draft(self.stall_timeout),
            unique_key: dedup.key,
            dedup_ttl: dedup.ttl,
            dedup_extend: dedup.extend,
            dedup_replace: dedup.replace,
            tags: self.tags.iter().flatten().map(String::as_str).collect(),
            lifo: self.lifo,
            remove_on_complete: self.remove_on_complete,
            remove_on_fail: self.remove_on_fail,
            durable: self.durable,
            ..JobDraft::default()
        };
        draft.check().map_err(|error| {
            match item {
                None => CommandError::Argument(error),
                Some(index) => CommandError::BatchEntry { index, error },
            }
            .into()
        })
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct AddJob {
    queue: Queue,
    #[serde(flatten)]
    job: JobArguments,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobAdded {
    /// The job that now stands for the request
    job_id: String,
    /// unknown only with a broker that does not tell
    outcome: Outcome,
    /// The job that was deleted for it
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_job_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    New,
    Existing,
    Replaced,
    Unknown,
}

pub(super) async fn add_job(call: Call, arguments: AddJob) -> Result<JobAdded, ToolError> {
    let job = arguments.job.job(None)?;
    let added = call
        .run(Add {
            queue: arguments.queue.name(),
            job,
        })
        .await?;
    let (outcome, replaced) = match added.outcome {
        AddOutcome::New => (Outcome::New, None),
        AddOutcome::Existing => (Outcome::Existing, None),
        AddOutcome::Replaced(old) => (Outcome::Replaced, Some(old.to_string())),
        AddOutcome::Unknown => (Outcome::Unknown, None),
    };
    Ok(JobAdded {
        job_id: added.id.to_string(),
        outcome,
        replaced_job_id: replaced,
    })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct AddJobsBulk {
    queue: Queue,
    /// Items take the same options as add_job
    #[schemars(length(min = 1))]
    jobs: Vec<BulkItem>,
}

/// An item takes what `add_job` takes; the list shows what most items need.
#[derive(Deserialize)]
#[serde(transparent)]
struct BulkItem(JobArguments);

impl JsonSchema for BulkItem {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "BulkItem".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = JobArguments::json_schema(generator);
        schema.remove("description");
        let shown = ["name", "data", "priority", "delay", "attempts", "jobId"];
        schema.insert(BRIEF.into(), shown.as_slice().into());
        schema
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobsAdded {
    /// One per item, in order
    #[schemars(with = "Vec<serde_json::Value>")]
    job_ids: Vec<String>,
    /// How many are new
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<usize>,
    /// Positions of items for which an unfinished job stands
    #[serde(skip_serializing_if = "Option::is_none")]
    existing: Option<Vec<usize>>,
    /// Positions of items that replaced a job
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<Vec<usize>>,
}

pub(super) async fn add_jobs_bulk(
    call: Call,
    arguments: AddJobsBulk,
) -> Result<JobsAdded, ToolError> {
    let items = arguments.jobs.iter().enumerate();
    let jobs = items
        .map(|(index, item)| item.0.job(Some(index)))
        .collect::<Result<_, _>>()?;
    let added = call
        .run(AddMany {
            queue: arguments.queue.name(),
            jobs,
        })
        .await?;
    let positions = |is_one: fn(&AddOutcome) -> bool| {
        let found = added
            .iter()
            .enumerate()
            .filter(|(_, added)| is_one(&added.outcome));
        Some(found.map(|(index, _)| index).collect::<Vec<_>>()).filter(|found| !found.is_empty())
    };
    let existing = positions(|outcome| *outcome == AddOutcome::Existing);
    let replaced = positions(|outcome| matches!(outcome, AddOutcome::Replaced(_)));
    let is_told = !added
        .iter()
        .any(|added| added.outcome == AddOutcome::Unknown);
    let created = is_told.then(|| added.len() - existing.as_ref().map_or(0, Vec::len));
    Ok(JobsAdded {
        job_ids: added.iter().map(|added| added.id.to_string()).collect(),
        created,
        existing,
        replaced,
    })
}
