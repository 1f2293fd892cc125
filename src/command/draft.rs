//! From what a client sent to a job that the engine trusts: the one validator of job options.
//!
//! Rules and texts: engine contract section 2.3 and tcp protocol section 8, checked in the order given there.
//! A door fills in a [`JobDraft`] as it came (numbers may be missing, or no numbers at all) and calls
//! [`JobDraft::check`].

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use super::argument::ArgumentError;
use super::bounds::{self, GroupId, TIME_MAX};
use super::given::{Number, Text};
use super::payload;
use super::schedule::RepeatDraft;
use crate::engine::{
    Backoff, BackoffKind, Dedup, JobId, JobOptions, Millis, NewJob, NewLinks, Parent, Payload,
    Repeat,
};

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
    /// A name that has been checked already; if it is the same one, its text is shared.
    pub known_name: Option<&'a Arc<str>>,
    /// The first text or list that was sent as something else, which is told after the faults of numbers.
    pub fault: Option<ArgumentError>,
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
    /// The queue of the parent that it becomes a child of; without it `parent_id` is only stored.
    pub parent_queue: Option<&'a str>,
    pub depends_on: Vec<&'a str>,
    pub children: Vec<&'a str>,
    pub group_id: Text<'a>,
    pub group_max: Number,
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

/// A job that is checked but for its group.
pub(super) struct Groupless {
    job: NewJob,
    options: JobOptions,
}

impl Groupless {
    /// The job in its group, if it has one.
    pub(super) fn in_group(self, group: Option<GroupId>) -> NewJob {
        let options = JobOptions {
            group_id: group.map(|group| group.shared()),
            ..self.options
        };
        NewJob {
            options: (options != JobOptions::default()).then(|| Arc::new(options)),
            ..self.job
        }
    }
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
    /// The first fault, in the order of the protocol: data size, group, options, name.
    pub fn check(&self) -> Result<NewJob, ArgumentError> {
        self.check_data()?;
        let group = GroupId::new(self.group_id)?;
        Ok(self.check_options()?.in_group(group))
    }

    /// Checks everything but the size of the data and the group, which a flow looks at elsewhere in its order.
    ///
    /// # Errors
    /// The first fault: options that are numbers, other options, name.
    pub(super) fn check_options(&self) -> Result<Groupless, ArgumentError> {
        let priority = match self.group_id {
            Text::Absent => self.priority.finite("priority")?.unwrap_or(0.0),
            _ => group_priority(self.priority)?,
        };
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
        let group_max = match self.group_max {
            Number::Absent => None,
            given => Some(given.positive_integer("group.maxSize")?),
        };
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
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        self.check_texts()?;
        let name = self.checked_name()?;
        let repeat = repeat?.map(Box::new);
        let options = JobOptions {
            backoff,
            ttl,
            timeout: timeout.filter(|ms| *ms > 0.0),
            stall_timeout,
            debounce_ttl,
            stack_trace_limit: stack_trace_limit.unwrap_or(10.0),
            keep_logs,
            size_limit,
            group_id: None,
            repeat,
            ..self.texts_and_flags(dedup_ttl)
        };
        let job = NewJob {
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
            group_max,
            options: None,
            links: self.links(),
        };
        Ok(Groupless { job, options })
    }

    fn checked_name(&self) -> Result<Arc<str>, ArgumentError> {
        let text = self.name.unwrap_or(bounds::JOB_NAME_DEFAULT);
        match self.known_name {
            Some(known) if &**known == text => Ok(Arc::clone(known)),
            _ => bounds::job_name(text),
        }
    }

    /// Together with the data these texts must fit the frame that delivers the job.
    fn check_texts(&self) -> Result<(), ArgumentError> {
        labels("tags", &self.tags)?;
        let repeat_id = self.repeat.as_ref().and_then(|repeat| repeat.job_id);
        for (field, id) in [
            ("custom ID", self.custom_id),
            ("uniqueKey", self.unique_key),
            ("debounceId", self.debounce_id),
            ("parentId", self.parent_id),
            ("repeat.jobId", repeat_id),
        ] {
            bounds::at_most(field, id.unwrap_or_default(), bounds::JOB_ID_MAX)?;
        }
        Ok(())
    }

    fn links(&self) -> Option<Box<NewLinks>> {
        let ids = |texts: &[&str]| {
            let mut ids: Vec<JobId> = Vec::with_capacity(texts.len());
            let mut seen = HashSet::with_capacity(texts.len());
            ids.extend(
                texts
                    .iter()
                    .filter(|text| seen.insert(**text))
                    .map(|text| JobId::from_text(text)),
            );
            ids
        };
        let parent = self
            .parent_id
            .zip(self.parent_queue)
            .map(|(id, queue)| Parent {
                id: JobId::from_text(id),
                queue: queue.into(),
            });
        let links = NewLinks {
            parent,
            depends_on: ids(&self.depends_on),
            children: ids(&self.children),
        };
        (links != NewLinks::default()).then(|| Box::new(links))
    }

    /// The options that are taken as they are, and the lifetime of the key, which was checked; the others at their
    /// defaults.
    fn texts_and_flags(&self, dedup_ttl: Option<f64>) -> JobOptions {
        JobOptions {
            tags: self.tags.iter().map(|tag| Arc::from(*tag)).collect(),
            unique_key: self.unique_key.filter(|key| !key.is_empty()).map(Arc::from),
            dedup: Dedup {
                ttl: dedup_ttl,
                extend: self.dedup_extend,
                replace: self.dedup_replace,
            },
            debounce_id: self.debounce_id.map(Arc::from),
            parent_id: self
                .parent_id
                .filter(|_| self.parent_queue.is_none())
                .map(Arc::from),
            blank_custom_id: self.custom_id == Some(""),
            fail_parent_on_failure: self.fail_parent_on_failure,
            remove_dependency_on_failure: self.remove_dependency_on_failure,
            continue_parent_on_failure: self.continue_parent_on_failure,
            ignore_dependency_on_failure: self.ignore_dependency_on_failure,
            ..JobOptions::default()
        }
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
        if self.parent_id.is_some() || !self.depends_on.is_empty() || !self.children.is_empty() {
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
/// [`ArgumentError::DataTooLarge`] above [`bounds::JOB_DATA_MAX`], or above [`bounds::JOB_DATA_BYTES_MAX`].
pub fn check_data(data: &[u8]) -> Result<(), ArgumentError> {
    if data.len() <= bounds::JOB_DATA_BYTES_MAX && payload::fits_utf16(data, bounds::JOB_DATA_MAX) {
        Ok(())
    } else {
        Err(ArgumentError::DataTooLarge)
    }
}

/// Checks a list of labels.
///
/// # Errors
/// When it has too many entries, or they take too many bytes.
pub fn labels(field: &'static str, labels: &[impl AsRef<str>]) -> Result<(), ArgumentError> {
    if labels.len() > bounds::LABELS_MAX {
        let max = bounds::LABELS_MAX;
        return Err(ArgumentError::TooMany { field, max });
    }
    let bytes: usize = labels.iter().map(|label| label.as_ref().len()).sum();
    if bytes > bounds::LABEL_BYTES_MAX {
        let max = bounds::LABEL_BYTES_MAX;
        return Err(ArgumentError::TooManyBytes { field, max });
    }
    Ok(())
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

/// Whole, and not too great: the place of a job in its group.
fn group_priority(given: Number) -> Result<f64, ArgumentError> {
    const FIELD: &str = "group.priority";
    let (min, max) = (0, bounds::GROUP_PRIORITY_MAX);
    match given {
        Number::Absent => Ok(0.0),
        Number::Value(value) if value.is_finite() => {
            if value.fract() != 0.0 {
                Err(ArgumentError::NotInteger(FIELD))
            } else if (min as f64..=max as f64).contains(&value) {
                Ok(value + 0.0)
            } else {
                Err(ArgumentError::NotBetween {
                    field: FIELD,
                    min,
                    max,
                })
            }
        }
        Number::NotNumber | Number::Value(_) => Err(ArgumentError::NotFinite(FIELD)),
    }
}

fn timestamp(given: Number) -> Result<Option<Millis>, ArgumentError> {
    const LIMIT: i64 = TIME_MAX as i64;
    Ok(given
        .within("timestamp", -LIMIT, LIMIT)?
        .map(|ms| ms.floor() as Millis))
}
