//! What a worker says of the jobs it holds: success, failure, progress, log lines, signs of life
//! (tcp protocol sections 9, 10 and 12).

use std::sync::Arc;

use crate::command::given::Number;
use crate::command::payload::Value;
use crate::command::{
    Ack, AckMany, AddLog, ArgumentError, CommandError, ExtendLock, Fail, Heartbeat, Progress,
    Renew, bounds,
};
use crate::engine::{FailReport, JobId, Payload, TokenGiven};

use super::{Decoded, ask};
use crate::wire::fields::{Fields, List, is_absent, json_prose, number, set_value, text, token};
use crate::wire::shape::{ChangeOf, Shape};

pub(super) fn ack(fields: &Fields<'_>) -> Decoded {
    let ack = Ack {
        id: fields.id("id")?,
        token: fields.token(),
        result: fields.raw("result").map(Payload::new),
        remove_on_complete: fields.is_true("removeOnComplete"),
    };
    ask(ack, Shape::Report)
}

pub(super) fn ack_many(fields: &Fields<'_>) -> Decoded {
    let ids = fields.batch("ids")?;
    let mut tokens = parallel(fields, "tokens", ids.len())?;
    let mut results = parallel(fields, "results", ids.len())?;
    let mut removals = parallel(fields, "removeOnCompletes", ids.len())?;
    let mut repeated = Vec::with_capacity(ids.len());
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        let id = item_id(id)?;
        repeated.push(id.clone());
        items.push(Ack {
            id,
            token: item_token(&mut tokens),
            result: next(&mut results)
                .filter(|raw| !is_absent(raw))
                .map(Payload::new),
            remove_on_complete: next(&mut removals).and_then(set_value) == Some(Value::Bool(true)),
        });
    }
    ask(AckMany { items }, Shape::ReportMany(repeated))
}

pub(super) fn fail(fields: &Fields<'_>) -> Decoded {
    let fail = Fail {
        id: fields.id("id")?,
        token: fields.token(),
        report: FailReport {
            error: fields.prose("error")?,
            stack: stack(fields),
            unrecoverable: fields.truthy("unrecoverable"),
            remove_on_fail: fields.is_true("removeOnFail"),
        },
    };
    ask(fail, Shape::Report)
}

/// Stack lines without blanks; whatever is no list of texts is no stack, and no reason to lose the report.
fn stack(fields: &Fields<'_>) -> Option<Vec<Arc<str>>> {
    let lines = fields.list("stack", usize::MAX).ok()??;
    let kept = lines
        .take(bounds::STACK_LINES_MAX)
        .filter_map(text)
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(bounds::cut_copy)
        .collect();
    Some(kept)
}

pub(super) fn progress(fields: &Fields<'_>) -> Decoded {
    let (progress, shown) = progress_value(fields);
    let progress = Progress {
        id: fields.id("id")?,
        progress,
        message: fields.prose("message")?.or(shown),
    };
    ask(progress, Shape::Change(ChangeOf::Progress))
}

/// A report of progress is never refused for its value: what is no number counts as 0, and its text is
/// the message.
fn progress_value(fields: &Fields<'_>) -> (f64, Option<Arc<str>>) {
    let Some(raw) = fields.raw("progress") else {
        return (0.0, None);
    };
    match set_value(raw) {
        None => (0.0, None),
        Some(Value::Bool(value)) => (f64::from(u8::from(value)), None),
        Some(Value::Str(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => (0.0, None),
            Ok(text) => match Number::from_text(text) {
                Number::Value(value) => (value, None),
                _ => (0.0, Some(bounds::cut_copy(text))),
            },
            Err(_) => (0.0, None),
        },
        // Clamped in the end, so that rounding does not matter.
        Some(Value::Int(value)) => (value as f64, None),
        Some(Value::UInt(value)) => (value as f64, None),
        Some(Value::Float(value)) if value.is_nan() => (0.0, None),
        Some(Value::Float(value)) => (value, None),
        Some(_) => (0.0, Some(json_prose(raw))),
    }
}

pub(super) fn add_log(fields: &Fields<'_>) -> Decoded {
    let line = AddLog {
        id: fields.id("id")?,
        level: fields.prose("level")?.unwrap_or_else(|| "info".into()),
        message: fields.prose("message")?.unwrap_or_default(),
    };
    ask(line, Shape::Change(ChangeOf::AddLog))
}

pub(super) fn job_heartbeat(fields: &Fields<'_>) -> Decoded {
    let renew = Renew {
        id: fields.id("id")?,
        token: fields.token(),
        duration: duration(fields)?.filter(|duration| *duration != 0.0),
    };
    let items = vec![renew];
    ask(Heartbeat { items }, Shape::JobHeartbeat)
}

pub(super) fn job_heartbeat_many(fields: &Fields<'_>) -> Decoded {
    let ids = fields.batch("ids")?;
    let mut tokens = fields.list("tokens", bounds::BATCH_MAX)?;
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        items.push(Renew {
            id: item_id(id)?,
            token: item_token(&mut tokens),
            duration: None,
        });
    }
    ask(Heartbeat { items }, Shape::JobHeartbeatMany)
}

pub(super) fn extend_lock(fields: &Fields<'_>) -> Decoded {
    let renew = Renew {
        id: fields.id("id")?,
        token: fields.token(),
        duration: duration(fields)?,
    };
    let items = vec![renew];
    ask(ExtendLock { items }, Shape::ExtendLock)
}

pub(super) fn extend_locks(fields: &Fields<'_>) -> Decoded {
    let ids = fields.batch("ids")?;
    let mut tokens = fields.list("tokens", bounds::BATCH_MAX)?;
    let mut durations = fields.list("durations", bounds::BATCH_MAX)?;
    let mut items = Vec::with_capacity(ids.len());
    for (index, id) in ids.enumerate() {
        let duration = next(&mut durations)
            .and_then(set_value)
            .map_or(Number::Absent, number)
            .finite("duration")
            .map_err(|error| CommandError::DurationEntry { index, error })?;
        items.push(Renew {
            id: item_id(id)?,
            token: item_token(&mut tokens),
            duration,
        });
    }
    ask(ExtendLock { items }, Shape::ExtendLocks)
}

fn duration(fields: &Fields<'_>) -> Result<Option<f64>, ArgumentError> {
    fields.number("duration").finite("duration")
}

/// A list that runs beside `ids`; when it is sent, it has as many items.
fn parallel<'a>(
    fields: &Fields<'a>,
    field: &'static str,
    ids: usize,
) -> Result<Option<List<'a>>, ArgumentError> {
    let list = fields.list(field, bounds::BATCH_MAX)?;
    match &list {
        Some(list) if list.len() != ids => {
            let command = "ACKB";
            Err(ArgumentError::LengthMismatch { command, field })
        }
        _ => Ok(list),
    }
}

fn next<'a>(list: &mut Option<List<'a>>) -> Option<&'a [u8]> {
    list.as_mut().and_then(Iterator::next)
}

fn item_id(raw: &[u8]) -> Result<JobId, ArgumentError> {
    text(raw)
        .map(JobId::from_text)
        .ok_or(ArgumentError::NotText("ids"))
}

fn item_token(tokens: &mut Option<List<'_>>) -> TokenGiven {
    next(tokens)
        .and_then(set_value)
        .map_or(TokenGiven::None, token)
}
