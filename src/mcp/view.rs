//! What agents see: jobs, counts, times and user values in their JSON form (MCP contract, section 11).
//!
//! The server's own numbers are plain JSON numbers that every reader keeps; user values keep what they are, in tagged
//! form where JSON has none ([`crate::command::payload`]).

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Number, Value, json};

use super::arguments::SAFE_INTEGER;
use super::error::ToolError;
use crate::command::payload::{self, JsonFault};
use crate::engine::{self, BackoffKind, Counts, Delivery, Millis, Payload};

/// Ms from the epoch to the ends of the time that ISO 8601 texts cover (ECMAScript, time range).
const TIME_RANGE: Millis = 8_640_000_000_000_000;

/// A job as agents see it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    id: String,
    name: String,
    queue: String,
    /// Its payload
    data: Value,
    /// Higher runs first
    #[schemars(with = "i64")]
    priority: Number,
    state: &'static str,
    /// 0 to 100
    progress: Number,
    /// Attempts that ended without success
    attempts: u32,
    /// Attempts in total
    max_attempts: u32,
    /// When it was added
    created_at: Option<String>,
    /// Start of the current or last delivery; absent while queued
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    /// Retry delay: ms, or an object
    #[schemars(with = "Option<Value>")]
    #[serde(skip_serializing_if = "Value::is_null")]
    backoff: Value,
    /// Ms per attempt
    #[schemars(with = "Option<i64>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Number>,
    /// Ms without a sign of life before it counts as stalled
    #[schemars(with = "Option<i64>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    stall_timeout: Option<Number>,
    /// Runs before older jobs of its priority
    #[serde(skip_serializing_if = "Option::is_none")]
    lifo: Option<bool>,
    /// Deleted when done
    #[serde(skip_serializing_if = "Option::is_none")]
    remove_on_complete: Option<bool>,
    /// Deleted instead of kept as failed
    #[serde(skip_serializing_if = "Option::is_none")]
    remove_on_fail: Option<bool>,
    #[schemars(with = "Option<Vec<Value>>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// Its deduplication key
    #[serde(skip_serializing_if = "Option::is_none")]
    deduplication_id: Option<String>,
}

impl JobView {
    /// The view of a job.
    pub fn of(job: &engine::JobView) -> Self {
        let options = &job.options;
        let limit = |ms: Option<f64>| ms.map(|ms| whole(ms.ceil()));
        Self {
            id: job.id.to_string(),
            name: job.name.to_string(),
            queue: job.queue.to_string(),
            data: value(job.data.as_ref()),
            priority: priority(job.priority),
            state: job.state.name(),
            progress: whole(job.progress),
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            created_at: iso(job.created_at),
            started_at: job.started_at.and_then(iso),
            backoff: backoff(&options.backoff),
            timeout: limit(options.timeout),
            stall_timeout: limit(options.stall_timeout),
            lifo: job.lifo.then_some(true),
            remove_on_complete: job.remove_on_complete.then_some(true),
            remove_on_fail: job.remove_on_fail.then_some(true),
            tags: options.tags.iter().map(ToString::to_string).collect(),
            deduplication_id: options.unique_key.as_deref().map(str::to_owned),
        }
    }

    /// The view as members of an object.
    pub fn members(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(members)) => members,
            // Only a key that is no text or a failing writer could be in the way; a view has neither.
            _ => Map::new(),
        }
    }
}

/// A delivered job: the view and, when it is locked, the token.
pub fn delivery(delivery: &Delivery) -> Value {
    let mut members = JobView::of(&delivery.job).members();
    if let Some(token) = delivery.token {
        members.insert("token".into(), token.to_string().into());
    }
    Value::Object(members)
}

/// Jobs per state.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CountsView {
    /// Ready, priority 0 or below
    waiting: usize,
    /// Ready, priority above 0
    prioritized: usize,
    /// Not due yet
    delayed: usize,
    /// Delivered and not finished
    active: usize,
    /// Finished and kept
    completed: usize,
    /// Failed for good
    failed: usize,
    /// Ready jobs of a paused queue, which then stand nowhere else
    paused: usize,
    /// Waiting for other jobs
    waiting_children: usize,
}

impl From<Counts> for CountsView {
    fn from(counts: Counts) -> Self {
        Self {
            waiting: counts.waiting,
            prioritized: counts.prioritized,
            delayed: counts.delayed,
            active: counts.active,
            completed: counts.completed,
            failed: counts.failed,
            paused: counts.paused,
            waiting_children: counts.waiting_children,
        }
    }
}

/// A user value; none is null.
pub fn value(payload: Option<&Payload>) -> Value {
    payload.map_or(Value::Null, |payload| payload::to_value(payload.bytes()))
}

/// The stored form of a user value.
///
/// # Errors
/// When a tagged form in it is malformed; `path` names the argument.
pub fn stored(value: &Value, path: &str) -> Result<Payload, ToolError> {
    let fault = match payload::from_value(value) {
        Ok(bytes) => return Ok(Payload::new(&bytes)),
        Err(fault) => fault,
    };
    let path = match &fault {
        JsonFault::Tag { path: inner, .. } if inner.starts_with('[') => format!("{path}{inner}"),
        JsonFault::Tag { path: inner, .. } if !inner.is_empty() => format!("{path}.{inner}"),
        _ => path.to_owned(),
    };
    Err(ToolError::Payload {
        path,
        message: fault.to_string(),
    })
}

/// Text cut to `max` bytes at a character.
pub fn cut(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max))
        .unwrap_or_default()
}

/// A priority as a whole number. Workers may give any; it is rounded away from zero, since its sign tells the
/// state of the job.
pub fn priority(priority: f64) -> Number {
    whole(if priority > 0.0 {
        priority.ceil()
    } else {
        priority.floor()
    })
}

/// A number in the form every reader knows: whole ones without a decimal point.
pub fn whole(number: f64) -> Number {
    if number.fract() == 0.0 && number.abs() <= SAFE_INTEGER as f64 {
        return Number::from(number as i64);
    }
    Number::from_f64(number).unwrap_or_else(|| Number::from(0))
}

fn backoff(backoff: &engine::Backoff) -> Value {
    let kind = match backoff.kind {
        BackoffKind::Plain => return Value::Number(whole(backoff.delay)),
        BackoffKind::Fixed => "fixed",
        BackoffKind::Exponential => "exponential",
    };
    let mut object = json!({ "type": kind, "delay": whole(backoff.delay) });
    if let (Some(members), Some(max_delay)) = (object.as_object_mut(), backoff.max_delay) {
        members.insert("maxDelay".into(), Value::Number(whole(max_delay)));
    }
    object
}

/// A time as ISO 8601 in UTC with milliseconds, or `None` when that has no form for it.
pub fn iso(at: Millis) -> Option<String> {
    if !(-TIME_RANGE..=TIME_RANGE).contains(&at) {
        return None;
    }
    let (days, ms) = (at.div_euclid(86_400_000), at.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    let year = match year {
        0..=9_999 => format!("{year:04}"),
        _ => format!("{year:+07}"),
    };
    Some(format!(
        "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        ms % 1_000
    ))
}

/// Year, month and day of a day counted from 1970-01-01 in the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Counted from 0000-03-01, so that the leap day is the last of its year; an era is 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_in_every_browser() {
        for (at, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_603_600_123, "2026-01-05T09:00:00.123Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
            (TIME_RANGE, "+275760-09-13T00:00:00.000Z"),
            (-TIME_RANGE, "-271821-04-20T00:00:00.000Z"),
        ] {
            assert_eq!(iso(at).as_deref(), Some(text));
        }
        assert_eq!(iso(TIME_RANGE + 1), None);
    }

    #[test]
    fn numbers_of_the_server_are_plain() {
        assert_eq!(whole(50.0).to_string(), "50");
        assert_eq!(whole(-0.0).to_string(), "0");
        assert_eq!(whole(0.5).to_string(), "0.5");
        assert_eq!(whole(1e300).to_string(), "1e+300");
        assert_eq!(priority(0.2).to_string(), "1");
        assert_eq!(priority(-0.2).to_string(), "-1");
    }

    #[test]
    fn text_is_cut_at_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("é", 0), "");
    }
}
