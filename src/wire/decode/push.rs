//! `PUSH` and `PUSHB` (tcp protocol sections 6.2 and 8).
//!
//! The values of options are checked by [`JobDraft::check`]; here they are only collected.

use crate::command::draft::{BackoffDraft, JobDraft};
use crate::command::given::Number;
use crate::command::payload::{self, Value};
use crate::command::schedule::RepeatDraft;
use crate::command::{Add, AddMany, ArgumentError, CommandError, GroupId, bounds};
use crate::engine::NewJob;

use super::{Decoded, Decoder, ask};
use crate::wire::fields::{Fields, set_value, text};
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
    let job = job(fields, Form::Single)?;
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
            .and_then(|fields| job(&fields, Form::Entry));
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

fn job(fields: &Fields<'_>, form: Form) -> Result<NewJob, ArgumentError> {
    let named = named(fields, "name");
    let mut draft = JobDraft::default();
    (draft.name, draft.data) = named.parts();
    let checked = check(fields, form, &mut draft);
    match (checked, form, draft.name) {
        // An entry of a batch looks at its name before anything else, a single push after it.
        (Err(error), Form::Entry, Some(name)) => {
            bounds::job_name(name)?;
            Err(error)
        }
        (checked, ..) => checked,
    }
}

fn check<'a>(
    fields: &Fields<'a>,
    form: Form,
    draft: &mut JobDraft<'a>,
) -> Result<NewJob, ArgumentError> {
    // Most jobs have no option at all, and looking for thirty of them costs more than the rest.
    let plain = match form {
        Form::Single => ["cmd", "reqId", "queue", "name", "data"].as_slice(),
        Form::Entry => ["name", "data"].as_slice(),
    };
    if fields.only(plain) {
        return draft.check();
    }
    draft.group_id = fields.text_value("groupId");
    // They come before the options, some of which are refused as they are read.
    draft.check_data()?;
    GroupId::new(draft.group_id)?;
    options(fields, form, draft)?;
    draft.check()
}

fn options<'a>(
    fields: &Fields<'a>,
    form: Form,
    draft: &mut JobDraft<'a>,
) -> Result<(), ArgumentError> {
    draft.custom_id = custom_id(fields, form)?;
    values(fields, draft);
    if let Some(dedup) = fields.raw("dedup").and_then(Fields::of) {
        draft.dedup_ttl = dedup.number_or_text("ttl");
        draft.dedup_extend = dedup.truthy("extend");
        draft.dedup_replace = dedup.truthy("replace");
    }
    draft.debounce_ttl = fields.number_or_text("debounceTtl");
    draft.debounce_id = fields.text("debounceId")?;
    draft.unique_key = fields.text("uniqueKey")?;
    draft.repeat = repeat(fields)?;
    draft.parent_id = fields.text("parentId")?;
    draft.depends_on = fields.texts("dependsOn")?;
    draft.children = fields.texts("childrenIds")?;
    // A parent's id alone is only stored; together with the keys that tie to a parent it has to be found.
    if let (Some(parent), Some(data)) = (draft.parent_id, draft.data)
        && payload::text_entry(data, "__parentId") == Some(parent)
    {
        draft.parent_queue =
            payload::text_entry(data, "__parentQueue").filter(|queue| !queue.is_empty());
    }
    draft.tags = fields.texts("tags")?;
    draft.lifo = fields.truthy("lifo");
    draft.remove_on_complete = fields.truthy("removeOnComplete");
    draft.remove_on_fail = fields.truthy("removeOnFail");
    draft.durable = fields.truthy("durable");
    draft.fail_parent_on_failure = fields.truthy("failParentOnFailure");
    draft.remove_dependency_on_failure = fields.truthy("removeDependencyOnFailure");
    draft.continue_parent_on_failure = fields.truthy("continueParentOnFailure");
    draft.ignore_dependency_on_failure = fields.truthy("ignoreDependencyOnFailure");
    Ok(())
}

/// The options that are numbers.
pub(super) fn values(fields: &Fields<'_>, draft: &mut JobDraft<'_>) {
    draft.priority = fields.number_or_text("priority");
    draft.delay = fields.number_or_text("delay");
    draft.timeout = fields.number_or_text("timeout");
    draft.max_attempts = fields.number_or_text("maxAttempts");
    draft.backoff = backoff(fields);
    draft.ttl = fields.number_or_text("ttl");
    draft.stall_timeout = fields.number_or_text("stallTimeout");
    draft.timestamp = fields.number_or_text("timestamp");
    draft.stack_trace_limit = fields.number_or_text("stackTraceLimit");
    draft.keep_logs = fields.number_or_text("keepLogs");
    draft.size_limit = fields.number_or_text("sizeLimit");
    draft.group_max = fields.number_or_text("groupMaxSize");
}

fn custom_id<'a>(fields: &Fields<'a>, form: Form) -> Result<Option<&'a str>, ArgumentError> {
    let field = match form {
        Form::Single => "jobId",
        Form::Entry => "customId",
    };
    match fields.value(field) {
        None => Ok(None),
        Some(Value::Str(bytes)) => std::str::from_utf8(bytes)
            .map(Some)
            .map_err(|_| ArgumentError::CustomIdUnicode),
        Some(_) => Err(ArgumentError::NotText(field)),
    }
}

fn repeat<'a>(fields: &Fields<'a>) -> Result<Option<RepeatDraft<'a>>, ArgumentError> {
    let Some(raw) = fields.raw("repeat").filter(|raw| set_value(raw).is_some()) else {
        return Ok(None);
    };
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

pub(super) fn backoff(fields: &Fields<'_>) -> BackoffDraft {
    match fields
        .raw("backoff")
        .and_then(|raw| Some((raw, set_value(raw)?)))
    {
        None => BackoffDraft::Absent,
        Some((raw, Value::Map(_))) => match Fields::of(raw) {
            Some(backoff) => BackoffDraft::Object {
                fixed: backoff.value("type") == Some(Value::Str(b"fixed")),
                delay: backoff.number_or_text("delay"),
                max_delay: backoff.number_or_text("maxDelay"),
            },
            None => BackoffDraft::Number(Number::NotNumber),
        },
        Some(_) => BackoffDraft::Number(fields.number_or_text("backoff")),
    }
}
