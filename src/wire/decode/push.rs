//! `PUSH` and `PUSHB` (tcp protocol sections 6.2 and 8).
//!
//! The values of options are checked by [`JobDraft::check`]; here they are only collected.

use std::sync::Arc;

use crate::command::draft::{BackoffDraft, JobDraft};
use crate::command::given::{Number, Text};
use crate::command::payload::{self, Value};
use crate::command::schedule::RepeatDraft;
use crate::command::{Add, AddMany, ArgumentError, CommandError, bounds};
use crate::engine::NewJob;

use super::{Decoded, Decoder, ask};
use crate::wire::fields::{Fields, number_or_text, set_text, set_value, text, texts, truthy};
use crate::wire::shape::Shape;

/// The name and the data of a job.
pub(super) enum Named<'a> {
    /// As they came.
    Apart {
        name: Option<&'a str>,
        data: Option<&'a [u8]>,
    },
    /// The name stood in the data, as older clients send it; the data without it.
    InData {
        name: &'a str,
        data: Option<Vec<u8>>,
    },
}

impl Named<'_> {
    /// Name and data, where they are.
    pub(super) fn parts(&self) -> (Option<&str>, Option<&[u8]>) {
        match self {
            Self::Apart { name, data } => (*name, *data),
            Self::InData { name, data } => (Some(name), data.as_deref()),
        }
    }
}

/// Reads the name of a job from its field, or else from its data (tcp protocol section 6.2).
pub(super) fn named<'a>(fields: &Fields<'a>, field: &str) -> Named<'a> {
    let data = fields.raw("data");
    // What is no text is as bad as an empty name, and refused where that is.
    let name = fields.raw(field).map(|name| text(name).unwrap_or_default());
    match (name, data) {
        (None, Some(map)) => match payload::text_entry(map, "name") {
            Some(name) => Named::InData {
                name,
                data: Some(payload::without_key(map, "name")),
            },
            None => Named::Apart { name, data },
        },
        _ => Named::Apart { name, data },
    }
}

/// Where the two commands differ in how they carry one job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The whole command is the job.
    Single,
    /// An entry of a batch.
    Entry,
}

pub(super) fn push(decoder: &mut Decoder, fields: &Fields<'_>) -> Decoded {
    let queue = decoder.queue(fields)?;
    let job = job(decoder, fields, Form::Single)?;
    let outcome = fields.is_true("outcome");
    ask(Add { queue, job }, Shape::Push { outcome })
}

pub(super) fn push_many(decoder: &mut Decoder, fields: &Fields<'_>) -> Decoded {
    let queue = decoder.queue(fields)?;
    let entries = fields.batch("jobs")?;
    let mut jobs = Vec::with_capacity(entries.len());
    let mut unrepeatable = None;
    for (index, entry) in entries.enumerate() {
        let checked = Fields::of(entry)
            .ok_or(ArgumentError::NotObject("job"))
            .and_then(|fields| job(decoder, &fields, Form::Entry));
        match checked {
            Ok(job) => jobs.push(job),
            // Found only once all entries have passed, and told without the place.
            Err(error) if error.is_of_repetition() => unrepeatable = unrepeatable.or(Some(error)),
            Err(error) => return Err(CommandError::BatchEntry { index, error }),
        }
    }
    if let Some(error) = unrepeatable {
        return Err(error.into());
    }
    let outcome = fields.is_true("outcome");
    ask(AddMany { queue, jobs }, Shape::PushMany { outcome })
}

fn job(decoder: &mut Decoder, fields: &Fields<'_>, form: Form) -> Result<NewJob, ArgumentError> {
    let named = named(fields, "name");
    let mut draft = JobDraft {
        known_name: decoder.job_name.as_ref(),
        ..JobDraft::default()
    };
    (draft.name, draft.data) = named.parts();
    for (key, raw) in fields.entries() {
        option(key, raw, form, &mut draft);
    }
    // A parent's id alone is only stored; together with the keys that tie to a parent it has to be found.
    if let (Some(parent), Some(data)) = (draft.parent_id, draft.data)
        && payload::text_entry(data, "__parentId") == Some(parent)
    {
        draft.parent_queue =
            payload::text_entry(data, "__parentQueue").filter(|queue| !queue.is_empty());
    }
    match (draft.check(), form, draft.name) {
        (Ok(job), ..) => {
            decoder.job_name = Some(Arc::clone(&job.name));
            Ok(job)
        }
        // An entry of a batch looks at its name before anything else, a single push after it.
        (Err(error), Form::Entry, Some(name)) => {
            bounds::job_name(name)?;
            Err(error)
        }
        (Err(error), ..) => Err(error),
    }
}

/// Takes over one entry of the map of a job; one that is no option of a job is passed over. What does not have its type is
/// noted, and told when its turn comes.
fn option<'a>(key: &[u8], raw: &'a [u8], form: Form, draft: &mut JobDraft<'a>) {
    if number_option(key, raw, draft) {
        return;
    }
    let fault = &mut draft.fault;
    match key {
        b"groupId" => draft.group_id = text(raw).map_or(Text::NotText, Text::Value),
        b"jobId" if form == Form::Single => {
            draft.custom_id = note(custom_id(raw, "jobId"), fault);
        }
        b"customId" if form == Form::Entry => {
            draft.custom_id = note(custom_id(raw, "customId"), fault);
        }
        b"dedup" => {
            if let Some(dedup) = Fields::of(raw) {
                draft.dedup_ttl = dedup.number_or_text("ttl");
                draft.dedup_extend = dedup.truthy("extend");
                draft.dedup_replace = dedup.truthy("replace");
            }
        }
        b"debounceTtl" => draft.debounce_ttl = number_or_text(raw),
        b"debounceId" => draft.debounce_id = note(set_text(raw, "debounceId"), fault),
        b"uniqueKey" => draft.unique_key = note(set_text(raw, "uniqueKey"), fault),
        b"repeat" => draft.repeat = note(repeat(raw), fault),
        b"parentId" => draft.parent_id = note(set_text(raw, "parentId"), fault),
        b"dependsOn" => draft.depends_on = note(texts(raw, "dependsOn"), fault),
        b"childrenIds" => draft.children = note(texts(raw, "childrenIds"), fault),
        b"tags" => draft.tags = note(texts(raw, "tags"), fault),
        b"lifo" => draft.lifo = truthy(raw),
        b"removeOnComplete" => draft.remove_on_complete = truthy(raw),
        b"removeOnFail" => draft.remove_on_fail = truthy(raw),
        b"durable" => draft.durable = truthy(raw),
        b"failParentOnFailure" => draft.fail_parent_on_failure = truthy(raw),
        b"removeDependencyOnFailure" => draft.remove_dependency_on_failure = truthy(raw),
        b"continueParentOnFailure" => draft.continue_parent_on_failure = truthy(raw),
        b"ignoreDependencyOnFailure" => draft.ignore_dependency_on_failure = truthy(raw),
        _ => {}
    }
}

/// Takes over an entry that is one of the options with a number; whether it is.
pub(super) fn number_option(key: &[u8], raw: &[u8], draft: &mut JobDraft<'_>) -> bool {
    let option = match key {
        b"priority" => &mut draft.priority,
        b"delay" => &mut draft.delay,
        b"timeout" => &mut draft.timeout,
        b"maxAttempts" => &mut draft.max_attempts,
        b"ttl" => &mut draft.ttl,
        b"stallTimeout" => &mut draft.stall_timeout,
        b"timestamp" => &mut draft.timestamp,
        b"stackTraceLimit" => &mut draft.stack_trace_limit,
        b"keepLogs" => &mut draft.keep_logs,
        b"sizeLimit" => &mut draft.size_limit,
        b"groupMaxSize" => &mut draft.group_max,
        b"backoff" => {
            draft.backoff = backoff(raw);
            return true;
        }
        _ => return false,
    };
    *option = number_or_text(raw);
    true
}

/// The value, or nothing and the first fault.
fn note<T: Default>(value: Result<T, ArgumentError>, fault: &mut Option<ArgumentError>) -> T {
    value.unwrap_or_else(|error| {
        fault.get_or_insert(error);
        T::default()
    })
}

fn custom_id<'a>(raw: &'a [u8], field: &'static str) -> Result<Option<&'a str>, ArgumentError> {
    match set_value(raw) {
        None => Ok(None),
        Some(Value::Str(bytes)) => std::str::from_utf8(bytes)
            .map(Some)
            .map_err(|_| ArgumentError::CustomIdUnicode),
        Some(_) => Err(ArgumentError::NotText(field)),
    }
}

fn repeat(raw: &[u8]) -> Result<Option<RepeatDraft<'_>>, ArgumentError> {
    if set_value(raw).is_none() {
        return Ok(None);
    }
    let repeat = Fields::of(raw).ok_or(ArgumentError::NotObject("repeat"))?;
    Ok(Some(RepeatDraft {
        every: repeat.number_or_text("every"),
        pattern: repeat.text("pattern")?,
        limit: repeat.number_or_text("limit"),
        count: repeat.number_or_text("count"),
        start_date: repeat.number_or_text("startDate"),
        end_date: repeat.number_or_text("endDate"),
        tz: repeat.text("tz")?,
        immediately: repeat.switch("immediately"),
        prev_millis: repeat.number_or_text("prevMillis"),
        offset: repeat.number_or_text("offset"),
        job_id: repeat.text("jobId")?,
    }))
}

pub(super) fn backoff(raw: &[u8]) -> BackoffDraft {
    match set_value(raw) {
        None => BackoffDraft::Absent,
        Some(Value::Map(_)) => match Fields::of(raw) {
            Some(backoff) => BackoffDraft::Object {
                fixed: backoff.value("type") == Some(Value::Str(b"fixed")),
                delay: backoff.number_or_text("delay"),
                max_delay: backoff.number_or_text("maxDelay"),
            },
            None => BackoffDraft::Number(Number::NotNumber),
        },
        Some(_) => BackoffDraft::Number(number_or_text(raw)),
    }
}
