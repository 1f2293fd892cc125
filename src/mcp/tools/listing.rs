//! Listing the jobs of a queue, whole or in pages. Prose: `toolsets/queues.md`.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{misspelt_queue, put};
use crate::command::{CommandError, GetJobs as GetJobsCommand};
use crate::engine::{JobDetail, JobId, Listing, Millis};
use crate::mcp::call::Call;
use crate::mcp::error::{Rule, ToolError};
use crate::mcp::page::{self, ITEM_MAX, ITEMS_MAX, fit, is_longer};
use crate::mcp::parameter::{NO_MAX, Queue, StateFilter, Whole};
use crate::mcp::view::{JobView, cut};

/// Position before which `get_jobs` ends when the call does not say.
const END_DEFAULT: i64 = 20;
/// Jobs of a page when the call does not say, and at most.
const LIMIT_DEFAULT: i64 = 20;
const LIMIT_MAX: i64 = 100;
/// Bytes of the data of a job on a page when the call does not say, and at most.
const DATA_BYTES_DEFAULT: i64 = 1_024;
const DATA_BYTES_MAX: i64 = 65_536;
/// Bytes of a text in an item that would be too long for an answer; escaped it takes at most six times as many.
const REDUCED_MAX: usize = 8_192;
/// Bytes of a cursor; a job whose id no tool takes has none, but its offset.
const CURSOR_MAX: usize = 12_000;

#[derive(Deserialize, JsonSchema)]
pub(super) struct GetJobs {
    queue: Queue,
    state: Option<StateFilter>,
    #[schemars(extend("default" = 0))]
    start: Option<Whole<0, NO_MAX>>,
    /// Exclusive
    #[schemars(extend("default" = END_DEFAULT))]
    end: Option<Whole<0, NO_MAX>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct JobList {
    queue: String,
    /// Jobs in this answer
    count: usize,
    /// Jobs as in get_job
    jobs: Vec<Value>,
    /// true when the answer was cut
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    /// How to go on, or how the queue is spelt
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

pub(super) async fn get_jobs(call: Call, arguments: GetJobs) -> Result<JobList, ToolError> {
    let start = arguments.start.map_or(0, Whole::count);
    let end = arguments.end.map_or(END_DEFAULT as usize, Whole::count);
    let wanted = end.saturating_sub(start);
    let listing = Listing {
        queue: arguments.queue.name().shared(),
        buckets: StateFilter::buckets(arguments.state.as_ref()),
        after: None,
        offset: start,
        // One more tells whether there is more.
        limit: wanted.min(ITEMS_MAX + 1),
        ascending: true,
    };
    let (found, is_short) = read(&call, listing).await?;
    let fitted = fit(found.iter().take(ITEMS_MAX).map(whole_job));
    let is_cut = fitted.is_cut || is_short || found.len() > ITEMS_MAX;
    let queue = arguments.queue.text();
    let hint = if is_cut {
        let next = start + fitted.items.len();
        Some(format!(
            "The answer is full. Go on with start {next}, or use bunqueue_list_jobs_page for less of each."
        ))
    } else if fitted.items.is_empty() {
        misspelt_queue(&call, &queue).await?
    } else {
        None
    };
    let truncated = is_cut.then_some(true);
    Ok(JobList {
        queue,
        count: fitted.items.len(),
        jobs: fitted.items,
        truncated,
        hint,
    })
}

/// The jobs of a listing, the first ones alone when all would be more than a broker reads at once; whether that is so.
async fn read(call: &Call, mut listing: Listing) -> Result<(Vec<JobDetail>, bool), ToolError> {
    let wanted = listing.limit;
    loop {
        let again = listing.clone();
        match call.run(GetJobsCommand { listing: again }).await {
            // The half of a page has other jobs behind it: a page of one is never refused.
            Err(ToolError::Command(CommandError::ReplyTooLarge)) if listing.limit > 1 => {
                listing.limit /= 2;
            }
            read => return Ok((read?, listing.limit < wanted)),
        }
    }
}

/// A job in full, unless it alone is more than an answer holds.
fn whole_job(found: &JobDetail) -> Value {
    reduced(JobView::of(&found.job).members(), ITEM_MAX)
}

/// A job in at most `max` bytes: without the end of its data, then without tags, at last nothing but the id.
pub(super) fn reduced(mut members: Map<String, Value>, max: usize) -> Value {
    if is_longer(&members, max) {
        shorten_data(&mut members, DATA_BYTES_MAX as usize);
    }
    if is_longer(&members, max) {
        // Escaped, the preview may be twice as long as the text.
        let preview = members.get("dataPreview").and_then(Value::as_str);
        if let Some(preview) = preview.map(|text| cut(text, REDUCED_MAX).to_owned()) {
            put(&mut members, "dataPreview", preview);
        }
    }
    if is_longer(&members, max) && members.shift_remove("tags").is_some() {
        put(&mut members, "tagsTruncated", true);
    }
    if is_longer(&members, max) {
        let id = members.get("id").and_then(Value::as_str);
        let id = id.map(|id| cut(id, REDUCED_MAX).to_owned());
        members = Map::new();
        if let Some(id) = id {
            put(&mut members, "id", id);
        }
        put(&mut members, "truncated", true);
    }
    Value::Object(members)
}

/// Replaces data whose JSON is longer than `max` bytes by its beginning.
fn shorten_data(members: &mut Map<String, Value>, max: usize) {
    let Some(text) = members.get("data").map(Value::to_string) else {
        return;
    };
    if text.len() <= max {
        return;
    }
    members.shift_remove("data");
    put(members, "dataPreview", cut(&text, max));
    put(members, "dataTruncated", true);
    put(members, "dataBytes", text.len());
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListJobsPage {
    queue: Queue,
    state: Option<StateFilter>,
    #[schemars(extend("default" = LIMIT_DEFAULT))]
    limit: Option<Whole<1, LIMIT_MAX>>,
    #[schemars(extend("default" = 0))]
    offset: Option<Whole<0, NO_MAX>>,
    /// Default: all but queue, data and options
    fields: Option<Vec<Field>>,
    /// Per job
    #[schemars(extend("default" = DATA_BYTES_DEFAULT))]
    max_data_bytes: Option<Whole<0, DATA_BYTES_MAX>>,
    /// nextCursor of the page before
    #[schemars(length(min = 1))]
    cursor: Option<String>,
}

// A member of a job view. No doc comment: it would describe each item of the published list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Field {
    Id,
    Name,
    Queue,
    State,
    Priority,
    Progress,
    Attempts,
    MaxAttempts,
    CreatedAt,
    StartedAt,
    Data,
    Backoff,
    Timeout,
    StallTimeout,
    Lifo,
    RemoveOnComplete,
    RemoveOnFail,
    Tags,
    DeduplicationId,
}

impl Field {
    const DEFAULT: [Self; 8] = [
        Self::Id,
        Self::Name,
        Self::State,
        Self::Priority,
        Self::Progress,
        Self::Attempts,
        Self::MaxAttempts,
        Self::CreatedAt,
    ];

    /// The fields that were asked for, in that order, each once; the default ones when none were.
    fn each_once(asked: Vec<Self>) -> Vec<Self> {
        let mut fields = Vec::new();
        for field in asked {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        if fields.is_empty() {
            return Self::DEFAULT.to_vec();
        }
        fields
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobPage {
    queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// Jobs before this page
    offset: usize,
    limit: usize,
    /// Jobs on this page
    count: usize,
    has_more: bool,
    next_offset: Option<usize>,
    #[schemars(with = "Vec<Value>")]
    fields: Vec<Field>,
    /// Jobs with those fields; long data as dataPreview, dataTruncated and dataBytes
    jobs: Vec<Value>,
    /// jobs (how many have their data cut) and maxDataBytes
    truncation: Map<String, Value>,
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

/// Where a page of jobs ends: the place of its last job in the order of jobs, and how many jobs came before. Jobs
/// that come and go elsewhere do not move it.
type JobPosition = (Millis, String, usize);

pub(super) async fn list_jobs_page(
    call: Call,
    arguments: ListJobsPage,
) -> Result<JobPage, ToolError> {
    let queue = arguments.queue.text();
    let state = arguments
        .state
        .as_ref()
        .map(|state| state.text().to_owned());
    let scope = ["jobs", queue.as_str(), state.as_deref().unwrap_or_default()];
    let position: Option<JobPosition> =
        start_of(arguments.cursor.as_deref(), arguments.offset, &scope)?;
    let offset = position
        .as_ref()
        .map_or(arguments.offset.map_or(0, Whole::count), |position| {
            position.2
        });
    let limit = arguments.limit.map_or(LIMIT_DEFAULT as usize, Whole::count);
    let max_data = arguments
        .max_data_bytes
        .map_or(DATA_BYTES_DEFAULT as usize, Whole::count);
    let fields = Field::each_once(arguments.fields.unwrap_or_default());
    let listing = Listing {
        queue: arguments.queue.name().shared(),
        buckets: StateFilter::buckets(arguments.state.as_ref()),
        offset: if position.is_some() { 0 } else { offset },
        after: position.map(|(at, id, _)| (at, JobId::from_text(&id))),
        // One more tells whether there is more.
        limit: limit + 1,
        ascending: true,
    };
    let (found, is_short) = read(&call, listing).await?;
    let rows = found.iter().take(limit);
    let fitted = fit(rows.map(|found| row(found, &fields, max_data)));
    let count = fitted.items.len();
    let has_more = is_short || found.len() > count;
    let last = found
        .get(..count)
        .and_then(<[_]>::last)
        .filter(|_| has_more);
    let next_cursor = last
        .map(|last| {
            page::cursor(
                &scope,
                (last.job.created_at, last.job.id.to_string(), offset + count),
            )
        })
        .filter(|cursor| cursor.len() <= CURSOR_MAX);
    let is_shortened = |row: &&Value| row.get("dataTruncated").is_some();
    let cut_jobs = fitted.items.iter().filter(is_shortened).count();
    let mut truncation = Map::new();
    put(&mut truncation, "jobs", cut_jobs);
    put(&mut truncation, "maxDataBytes", max_data);
    let hint = if found.is_empty() {
        misspelt_queue(&call, &queue).await?
    } else {
        None
    };
    Ok(JobPage {
        offset,
        limit,
        count,
        has_more,
        next_offset: has_more.then_some(offset + count),
        fields,
        jobs: fitted.items,
        truncation,
        next_cursor,
        truncated: (fitted.is_cut || is_short).then_some(true),
        hint,
        state,
        queue,
    })
}

/// Where a page begins, when a cursor says so.
pub(super) fn start_of<P: DeserializeOwned>(
    cursor: Option<&str>,
    offset: Option<Whole<0, NO_MAX>>,
    scope: &[&str],
) -> Result<Option<P>, ToolError> {
    match (cursor, offset) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(Rule::CursorOrOffset.broken()),
        (Some(cursor), None) => match page::position(scope, cursor) {
            Some(position) => Ok(Some(position)),
            None => Err(Rule::CursorOfAnotherListing.broken()),
        },
    }
}

/// The asked for fields of a job.
fn row(found: &JobDetail, fields: &[Field], max_data: usize) -> Value {
    let mut job = found.job.clone();
    // Data nobody asked for is not even decoded.
    if !fields.contains(&Field::Data) {
        job.data = None;
    }
    let mut members = JobView::of(&job).members();
    let mut row = Map::new();
    for field in fields {
        let Value::String(name) = json!(field) else {
            continue;
        };
        if let Some(value) = members.shift_remove(&name) {
            row.insert(name, value);
        }
    }
    shorten_data(&mut row, max_data);
    reduced(row, ITEM_MAX)
}
