//! From what a client sent to a job that the engine trusts: the one validator of job options.
//!
//! Rules and texts: engine contract section 2.3 and tcp protocol section 8, checked in the order given there.
//! A door fills in a [`JobDraft`] as it came (numbers may be missing, or no numbers at all) and calls
//! [`JobDraft::check`].

use std::sync::Arc;

use super::bounds::{self, TIME_MAX};
use super::error::ArgumentError;
use super::payload;
use super::schedule::RepeatDraft;
use crate::engine::{
    Backoff, BackoffKind, Dedup, JobId, JobOptions, Millis, NewJob, Payload, Repeat,
};

/// A number as a client sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Number {
    /// Not sent.
    #[default]
    Absent,
    /// Sent, but not as a number.
    NotNumber,
    /// Sent; NaN and infinities are still possible.
    Value(f64),
}

impl Number {
    /// Reads a plain decimal text such as `"3"` or `" -2.5 "`.
    pub fn from_text(text: &str) -> Self {
        let text = text.trim();
        let plain = !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        match text.parse() {
            Ok(value) if plain => Self::Value(value),
            _ => Self::NotNumber,
        }
    }

    /// The number, finite, or `None` when it was not sent.
    ///
    /// # Errors
    /// When it is no number, or not finite.
    pub fn finite(self, field: &'static str) -> Result<Option<f64>, ArgumentError> {
        match self {
            Self::Absent => Ok(None),
            Self::NotNumber => Err(ArgumentError::NotNumber(field)),
            Self::Value(value) if value.is_finite() => Ok(Some(value)),
            Self::Value(_) => Err(ArgumentError::NotFinite(field)),
        }
    }

    /// The number, finite and at least `min`.
    ///
    /// # Errors
    /// When it is no number, not finite or below `min`.
    pub fn at_least(self, field: &'static str, min: i64) -> Result<Option<f64>, ArgumentError> {
        match self.finite(field)? {
            Some(value) if value < min as f64 => Err(ArgumentError::TooSmall { field, min }),
            value => Ok(value),
        }
    }

    /// The number, finite and within the bounds.
    ///
    /// # Errors
    /// When it is no number, not finite or out of bounds.
    pub fn within(
        self,
        field: &'static str,
        min: i64,
        max: i64,
    ) -> Result<Option<f64>, ArgumentError> {
        match self.at_least(field, min)? {
            Some(value) if value > max as f64 => Err(ArgumentError::TooLarge { field, max }),
            value => Ok(value),
        }
    }
}

/// A backoff as a client sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum BackoffDraft {
    /// Not sent.
    #[default]
    Absent,
    /// A bare number (or something that is none).
    Number(Number),
    /// An object.
    Object {
        /// `type` was `fixed`.
        fixed: bool,
        /// Base delay.
        delay: Number,
        /// Cap.
        max_delay: Number,
    },
}

/// A job as a client sent it; fields as in [`NewJob`] and [`JobOptions`].
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named and documented in NewJob and JobOptions")]
pub struct JobDraft<'a> {
    /// The name; `None` means the default one.
    pub name: Option<&'a str>,
    /// The data as MessagePack; checked for size here, for form by the door.
    pub data: Option<&'a [u8]>,
    /// Empty means none.
    pub custom_id: Option<&'a str>,
    pub priority: Number,
    pub delay: Number,
    pub timeout: Number,
    pub max_attempts: Number,
    pub backoff: BackoffDraft,
    pub ttl: Number,
    pub stall_timeout: Number,
    pub timestamp: Number,
    pub stack_trace_limit: Number,
    pub keep_logs: Number,
    pub size_limit: Number,
    pub dedup_ttl: Number,
    pub dedup_extend: bool,
    pub dedup_replace: bool,
    pub debounce_ttl: Number,
    pub debounce_id: Option<&'a str>,
    pub unique_key: Option<&'a str>,
    pub repeat: Option<RepeatDraft<'a>>,
    pub parent_id: Option<&'a str>,
    pub tags: Vec<&'a str>,
    pub lifo: bool,
    pub remove_on_complete: bool,
    pub remove_on_fail: bool,
    pub durable: bool,
    pub fail_parent_on_failure: bool,
    pub remove_dependency_on_failure: bool,
    pub continue_parent_on_failure: bool,
    pub ignore_dependency_on_failure: bool,
}

impl JobDraft<'_> {
    /// Checks the data of the draft alone; doors whose protocol checks data before anything else call it first.
    ///
    /// # Errors
    /// [`ArgumentError::DataTooLarge`].
    pub fn check_data(&self) -> Result<(), ArgumentError> {
        self.data.map_or(Ok(()), check_data)
    }

    /// The job, if every value is acceptable.
    ///
    /// # Errors
    /// The first fault, in the order of the protocol: data size, options, name.
    pub fn check(&self) -> Result<NewJob, ArgumentError> {
        self.check_data()?;
        if self.tags.len() > bounds::LABELS_MAX {
            let (field, max) = ("tags", bounds::LABELS_MAX);
            return Err(ArgumentError::TooMany { field, max });
        }
        let priority = self.priority.finite("priority")?.unwrap_or(0.0);
        let delay = self.delay.finite("delay")?.map_or(0, whole_millis);
        let timeout = self
            .timeout
            .at_least("timeout", 0)?
            .map(|ms| ms.min(TIME_MAX));
        let max_attempts = max_attempts(self.max_attempts)?;
        let backoff = self.backoff()?;
        let ttl = self.ttl.at_least("ttl", 0)?.map(|ms| ms.min(TIME_MAX));
        let stall_timeout = self.stall_timeout.finite("stallTimeout")?;
        let timestamp = timestamp(self.timestamp)?;
        let stack_trace_limit = self.stack_trace_limit.finite("stackTraceLimit")?;
        let keep_logs = self.keep_logs.finite("keepLogs")?;
        let size_limit = self.size_limit.finite("sizeLimit")?;
        let dedup_ttl = self.dedup_ttl.finite("dedup.ttl")?.map(clamp_time);
        let debounce_ttl = self.debounce_ttl.finite("debounceTtl")?.map(clamp_time);
        self.check_size_limit(size_limit)?;
        // The interval is an option like others; the rest of a repetition comes after the name.
        let repeat = self.repeat();
        if let Err(error) = &repeat
            && !error.is_of_repetition()
        {
            return Err(error.clone());
        }
        let name = match self.name {
            Some(name) => bounds::job_name(name)?,
            None => bounds::JOB_NAME_DEFAULT.into(),
        };
        let repeat = repeat?.map(Box::new);
        let options = JobOptions {
            backoff,
            ttl,
            timeout: timeout.filter(|ms| *ms > 0.0),
            stall_timeout,
            tags: self.tags.iter().map(|tag| Arc::from(*tag)).collect(),
            unique_key: self.unique_key.filter(|key| !key.is_empty()).map(Arc::from),
            dedup: Dedup {
                ttl: dedup_ttl,
                extend: self.dedup_extend,
                replace: self.dedup_replace,
            },
            debounce_id: self.debounce_id.map(Arc::from),
            debounce_ttl,
            stack_trace_limit: stack_trace_limit.unwrap_or(10.0),
            keep_logs,
            size_limit,
            repeat,
            parent_id: self.parent_id.map(Arc::from),
            blank_custom_id: self.custom_id == Some(""),
            fail_parent_on_failure: self.fail_parent_on_failure,
            remove_dependency_on_failure: self.remove_dependency_on_failure,
            continue_parent_on_failure: self.continue_parent_on_failure,
            ignore_dependency_on_failure: self.ignore_dependency_on_failure,
        };
        Ok(NewJob {
            name,
            data: self.data.map(Payload::new),
            custom_id: self
                .custom_id
                .filter(|id| !id.is_empty())
                .map(JobId::from_text),
            priority,
            delay,
            timestamp,
            max_attempts,
            lifo: self.lifo,
            remove_on_complete: self.remove_on_complete,
            remove_on_fail: self.remove_on_fail,
            durable: self.durable,
            options: (options != JobOptions::default()).then(|| Arc::new(options)),
        })
    }

    fn backoff(&self) -> Result<Backoff, ArgumentError> {
        let default = Backoff::default();
        match self.backoff {
            BackoffDraft::Absent => Ok(default),
            BackoffDraft::Number(number) => {
                let delay = number.at_least("backoff", 0)?.unwrap_or(default.delay);
                Ok(Backoff { delay, ..default })
            }
            BackoffDraft::Object {
                fixed,
                delay,
                max_delay,
            } => Ok(Backoff {
                kind: if fixed {
                    BackoffKind::Fixed
                } else {
                    BackoffKind::Exponential
                },
                delay: delay.at_least("backoff.delay", 0)?.unwrap_or(default.delay),
                max_delay: max_delay.within("backoff.maxDelay", 0, bounds::BACKOFF_CAP_MAX)?,
            }),
        }
    }

    /// A generation has an id of its own and nobody's place in a flow.
    fn repeat(&self) -> Result<Option<Repeat>, ArgumentError> {
        let Some(draft) = &self.repeat else {
            return Ok(None);
        };
        let repeat = draft.check()?;
        if self.custom_id.is_some_and(|id| !id.is_empty()) {
            return Err(ArgumentError::RepeatCustomId);
        }
        if self.parent_id.is_some() {
            return Err(ArgumentError::RepeatRelations);
        }
        Ok(Some(repeat))
    }

    fn check_size_limit(&self, limit: Option<f64>) -> Result<(), ArgumentError> {
        let (Some(limit), Some(data)) = (limit, self.data) else {
            return Ok(());
        };
        if limit >= 0.0 && payload::fits_utf8(data, limit as usize) {
            Ok(())
        } else {
            Err(ArgumentError::SizeLimit(limit.to_string()))
        }
    }
}

/// Checks the size of job data.
///
/// # Errors
/// [`ArgumentError::DataTooLarge`] above [`bounds::JOB_DATA_MAX`].
pub fn check_data(data: &[u8]) -> Result<(), ArgumentError> {
    if payload::fits_utf16(data, bounds::JOB_DATA_MAX) {
        Ok(())
    } else {
        Err(ArgumentError::DataTooLarge)
    }
}

fn clamp_time(ms: f64) -> f64 {
    ms.clamp(-TIME_MAX, TIME_MAX)
}

/// Whole milliseconds, rounded up, so that nothing runs early.
pub fn whole_millis(ms: f64) -> Millis {
    clamp_time(ms).ceil() as Millis
}

fn max_attempts(given: Number) -> Result<u32, ArgumentError> {
    match given {
        Number::Absent => Ok(bounds::ATTEMPTS_DEFAULT),
        Number::NotNumber => Err(ArgumentError::NotNumber("maxAttempts")),
        Number::Value(value) if value.is_nan() => Err(ArgumentError::NotNumber("maxAttempts")),
        Number::Value(value) => Ok(value.ceil().clamp(1.0, f64::from(bounds::ATTEMPTS_MAX)) as u32),
    }
}

fn timestamp(given: Number) -> Result<Option<Millis>, ArgumentError> {
    const LIMIT: i64 = TIME_MAX as i64;
    Ok(given
        .within("timestamp", -LIMIT, LIMIT)?
        .map(|ms| ms.floor() as Millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut JobDraft<'static>)) -> Result<NewJob, String> {
        let mut draft = JobDraft::default();
        change(&mut draft);
        draft.check().map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_need_no_options_box() {
        let job = check(|_| ()).unwrap();
        assert_eq!(job.options, None);
        assert_eq!((job.priority, job.delay, job.max_attempts), (0.0, 0, 3));
        assert_eq!(&*job.name, "default");
    }

    #[test]
    fn jm_11_numbers_are_taken_as_meant() {
        assert_eq!(
            check(|d| d.max_attempts = Number::Value(0.0))
                .unwrap()
                .max_attempts,
            1
        );
        assert_eq!(
            check(|d| d.max_attempts = Number::Value(2.5))
                .unwrap()
                .max_attempts,
            3
        );
        assert_eq!(
            check(|d| d.max_attempts = Number::Value(f64::INFINITY))
                .unwrap()
                .max_attempts,
            2_147_483_647
        );
        assert_eq!(
            check(|d| d.delay = Number::from_text(" 1000 "))
                .unwrap()
                .delay,
            1_000
        );
        assert_eq!(
            check(|d| d.timeout = Number::Value(0.0)).unwrap().options,
            None
        );
        let exponential = BackoffDraft::Object {
            fixed: false,
            delay: Number::Absent,
            max_delay: Number::Absent,
        };
        let options = check(|d| d.backoff = exponential).unwrap().options.unwrap();
        assert_eq!(
            options.backoff,
            Backoff {
                kind: BackoffKind::Exponential,
                delay: 1_000.0,
                max_delay: None
            }
        );
    }

    #[test]
    fn faults_name_the_field_and_the_rule() {
        type Change = fn(&mut JobDraft<'static>);
        let cases: [(&str, Change); 10] = [
            ("tags must have at most 10000 entries", |d| {
                d.tags = vec!["t"; 10_001];
            }),
            ("priority must be a finite number", |d| {
                d.priority = Number::Value(f64::NAN)
            }),
            ("priority must be a number", |d| {
                d.priority = Number::from_text("high")
            }),
            ("delay must be a finite number", |d| {
                d.delay = Number::Value(f64::INFINITY)
            }),
            ("timeout must be at least 0", |d| {
                d.timeout = Number::Value(-1.0)
            }),
            ("maxAttempts must be a number", |d| {
                d.max_attempts = Number::Value(f64::NAN)
            }),
            ("backoff must be at least 0", |d| {
                d.backoff = BackoffDraft::Number(Number::Value(-1.0))
            }),
            ("ttl must be at least 0", |d| d.ttl = Number::Value(-0.5)),
            ("timestamp must be at most 4320000000000000", |d| {
                d.timestamp = Number::Value(1e300)
            }),
            ("backoff.maxDelay must be at most 86400000", |d| {
                d.backoff = BackoffDraft::Object {
                    fixed: true,
                    delay: Number::Value(1.0),
                    max_delay: Number::Value(86_400_001.0),
                };
            }),
        ];
        for (text, change) in cases {
            assert_eq!(check(change), Err(text.to_owned()));
        }
    }

    #[test]
    fn texts_that_are_no_plain_numbers_are_refused() {
        for text in [
            "", " ", "NaN", "Infinity", "inf", "0x10", "1_000", "1 2", "five",
        ] {
            assert_eq!(Number::from_text(text), Number::NotNumber, "{text:?}");
        }
        assert_eq!(Number::from_text("-2.5"), Number::Value(-2.5));
    }
}
