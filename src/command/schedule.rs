//! Schedules as a client sent them, and the one check of their values: crons (engine contract, section 11.1; tcp
//! protocol, section 19.1) and jobs that repeat (section 12; 19.3).

use std::sync::Arc;

use super::QueueName;
use super::argument::ArgumentError;
use super::bounds::{self, TIME_MAX};
use super::draft::{BackoffDraft, JobDraft};
use super::error::CommandError;
use super::given::Number;
use crate::engine::{
    CronDefinition, JobOptions, Millis, NewCron, NewJob, Repeat, RepeatTiming, Schedule, check_zone,
};

/// A cron as a client sent it; fields as in [`CronDefinition`] and [`NewJob`]. What is `None` takes its default.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named and documented in CronDefinition")]
pub struct CronDraft<'a> {
    pub name: &'a str,
    /// Empty means none.
    pub schedule: Option<&'a str>,
    pub repeat_every: Number,
    /// Empty means none.
    pub timezone: Option<&'a str>,
    /// 0 or less means none.
    pub max_limit: Number,
    pub immediately: bool,
    pub skip_missed_on_restart: Option<bool>,
    pub skip_if_no_worker: bool,
    /// Saying true is more than the default: a queued job that overlaps is deleted.
    pub prevent_overlap: Option<bool>,
    /// The name of its jobs; `None` means the default one.
    pub job_name: Option<&'a str>,
    pub data: Option<&'a [u8]>,
    pub priority: Number,
    pub unique_key: Option<&'a str>,
    pub dedup_ttl: Number,
    pub dedup_extend: bool,
    pub dedup_replace: bool,
    /// The `jobOptions`.
    pub job: CronJobDraft,
}

/// The options that a cron gives to its jobs, as a client sent them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named and documented in NewJob and JobOptions")]
pub struct CronJobDraft {
    pub max_attempts: Number,
    pub backoff: BackoffDraft,
    pub timeout: Number,
    pub delay: Number,
    pub stall_timeout: Number,
    pub remove_on_complete: bool,
    pub remove_on_fail: bool,
}

impl CronDraft<'_> {
    /// The cron, if every value is acceptable.
    ///
    /// # Errors
    /// The first fault: name, times, limit, options of the jobs (with the prefix `jobOptions.`), the rest of the job.
    pub fn check(&self, queue: &QueueName) -> Result<NewCron, CommandError> {
        let name = cron_name(self.name)?;
        let repeat_every = interval(self.repeat_every)?;
        let text = self.schedule.filter(|text| !text.is_empty());
        if text.is_none() && repeat_every.is_none() {
            return Err(ArgumentError::CronTiming.into());
        }
        let timezone = self.timezone.filter(|zone| !zone.is_empty());
        let schedule = match text {
            Some(text) => Schedule::read(text, timezone).map(|read| Some(Arc::new(read))),
            // Without a pattern the zone decides nothing, but a wrong one is a mistake all the same.
            None => timezone.map_or(Ok(()), check_zone).map(|()| None),
        }
        .map_err(ArgumentError::CronExpression)?;
        let max_limit = self.max_limit.finite("maxLimit")?;
        let template = self.template()?;
        Ok(NewCron {
            definition: CronDefinition {
                name,
                queue: queue.shared(),
                schedule,
                repeat_every,
                timezone: timezone.map(Arc::from),
                max_limit: max_limit
                    .filter(|max| *max > 0.0)
                    .map(|max| max.ceil() as u64),
                prevent_overlap: self.prevent_overlap.unwrap_or(true),
                skip_missed_on_restart: self.skip_missed_on_restart.unwrap_or(true),
                skip_if_no_worker: self.skip_if_no_worker,
                template,
            },
            immediately: self.immediately,
            replace_queued: self.prevent_overlap == Some(true),
        })
    }

    /// The job of a run: its `jobOptions`, and what the cron itself says about it.
    fn template(&self) -> Result<NewJob, CommandError> {
        let options = &self.job;
        let options = JobDraft {
            max_attempts: options.max_attempts,
            backoff: options.backoff,
            timeout: options.timeout,
            delay: options.delay,
            stall_timeout: options.stall_timeout,
            remove_on_complete: options.remove_on_complete,
            remove_on_fail: options.remove_on_fail,
            ..JobDraft::default()
        }
        .check()
        .map_err(|error| CommandError::JobOption { error })?;
        let own = JobDraft {
            name: self.job_name,
            data: self.data,
            priority: self.priority,
            unique_key: self.unique_key,
            dedup_ttl: self.dedup_ttl,
            dedup_extend: self.dedup_extend,
            dedup_replace: self.dedup_replace,
            ..JobDraft::default()
        }
        .check()?;
        let own_options = own.options.as_deref().cloned().unwrap_or_default();
        let both = JobOptions {
            unique_key: own_options.unique_key,
            dedup: own_options.dedup,
            ..options.options.as_deref().cloned().unwrap_or_default()
        };
        Ok(NewJob {
            name: own.name,
            data: own.data,
            priority: own.priority,
            options: (both != JobOptions::default()).then(|| Arc::new(both)),
            ..options
        })
    }
}

fn cron_name(text: &str) -> Result<Arc<str>, ArgumentError> {
    if text.is_empty() {
        return Err(ArgumentError::EmptyText("name"));
    }
    bounds::at_most("name", text, bounds::CRON_NAME_MAX)?;
    Ok(text.into())
}

fn interval(given: Number) -> Result<Option<Millis>, ArgumentError> {
    const MAX: i64 = TIME_MAX as i64;
    match given {
        Number::Absent => Ok(None),
        Number::Value(ms)
            if ms.fract() == 0.0 && (1.0..=bounds::SAFE_INTEGER_MAX).contains(&ms) =>
        {
            let (field, max) = ("repeatEvery", MAX);
            Some(ms as Millis)
                .filter(|ms| *ms <= MAX)
                .map(Some)
                .ok_or(ArgumentError::TooLarge { field, max })
        }
        Number::Value(_) | Number::NotNumber => Err(ArgumentError::CronInterval),
    }
}

/// How a job repeats, as a client sent it; fields as in [`Repeat`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named and documented in Repeat")]
pub struct RepeatDraft<'a> {
    pub every: Number,
    /// Empty means none.
    pub pattern: Option<&'a str>,
    pub limit: Number,
    pub count: Number,
    pub start_date: Number,
    pub end_date: Number,
    /// Empty means none.
    pub tz: Option<&'a str>,
    pub immediately: Option<bool>,
    pub prev_millis: Number,
    pub offset: Number,
    pub job_id: Option<&'a str>,
}

impl RepeatDraft<'_> {
    /// The repetition, if every value is acceptable.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<Repeat, ArgumentError> {
        let tz = self.tz.filter(|zone| !zone.is_empty());
        let pattern = self.pattern.filter(|text| !text.is_empty());
        let timing = match (self.every, pattern) {
            (Number::Absent, Some(pattern)) => {
                let read = Schedule::read(pattern, tz).map_err(ArgumentError::RepeatPattern)?;
                RepeatTiming::Pattern(Arc::new(read))
            }
            (Number::Absent, None) | (_, Some(_)) => return Err(ArgumentError::RepeatTiming),
            (Number::Value(every), None) if every > 0.0 && every.is_finite() => {
                tz.map_or(Ok(()), check_zone)
                    .map_err(ArgumentError::RepeatPattern)?;
                RepeatTiming::Every(every.min(TIME_MAX))
            }
            (_, None) => return Err(ArgumentError::RepeatInterval),
        };
        Ok(Repeat {
            timing,
            limit: self.limit.finite("repeat.limit")?,
            count: self.count.finite("repeat.count")?.unwrap_or(0.0),
            start_date: timestamp(self.start_date, "repeat.startDate")?,
            end_date: timestamp(self.end_date, "repeat.endDate")?,
            prev_millis: timestamp(self.prev_millis, "repeat.prevMillis")?,
            offset: timestamp(self.offset, "repeat.offset")?,
            immediately: self.immediately,
            job_id: self.job_id.map(Arc::from),
            tz: tz.map(Arc::from),
        })
    }
}

fn timestamp(given: Number, field: &'static str) -> Result<Option<f64>, ArgumentError> {
    match given {
        Number::Absent => Ok(None),
        Number::Value(ms) if ms.is_finite() => Ok(Some(ms.clamp(-TIME_MAX, TIME_MAX))),
        Number::Value(_) | Number::NotNumber => Err(ArgumentError::NotTimestamp(field)),
    }
}
