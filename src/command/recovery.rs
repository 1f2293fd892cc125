//! From what a client sent about dead letters, stalls and retries to what the engine trusts (tcp protocol, section 15).
//!
//! Settings are never refused: what is no number is ignored, what is out of bounds is brought into them. A selection of
//! jobs is: to take another one than was meant could delete or repeat work.

use super::argument::ArgumentError;
use super::given::Number;
use crate::engine::{
    CompletedSelection, DlqConfigUpdate, DlqFilter, DlqSelection, FailureReason, JobId, Millis,
    SPAN_MAX, StallConfigUpdate,
};

/// Changes to the treatment of dead letters as a client sent them; fields as in [`DlqConfigUpdate`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named and documented in DlqConfig")]
pub struct DlqConfigDraft {
    /// `None` also when it was sent as anything but a boolean.
    pub auto_retry: Option<bool>,
    pub auto_retry_interval: Number,
    pub max_auto_retries: Number,
    pub max_age: AgeDraft,
    pub max_entries: Number,
}

/// A greatest age as a client sent it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AgeDraft {
    /// Null: nothing is ever too old.
    Never,
    /// A number, or nothing.
    Given(Number),
}

impl Default for AgeDraft {
    fn default() -> Self {
        Self::Given(Number::Absent)
    }
}

impl DlqConfigDraft {
    /// The changes: whole numbers from 0 (`maxEntries` from 1) to [`SPAN_MAX`].
    pub fn normalised(&self) -> DlqConfigUpdate {
        DlqConfigUpdate {
            auto_retry: self.auto_retry,
            auto_retry_interval: whole(self.auto_retry_interval),
            max_auto_retries: whole(self.max_auto_retries).map(Millis::unsigned_abs),
            max_age: match self.max_age {
                AgeDraft::Never => Some(None),
                AgeDraft::Given(age) => whole(age).map(Some),
            },
            max_entries: whole(self.max_entries).map(|entries| entries.max(1) as usize),
        }
    }
}

/// Changes to stall detection as a client sent them; fields as in [`StallConfigUpdate`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named and documented in StallConfig")]
pub struct StallConfigDraft {
    /// `None` also when it was sent as anything but a boolean.
    pub enabled: Option<bool>,
    pub stall_interval: Number,
    pub max_stalls: Number,
    pub grace_period: Number,
}

impl StallConfigDraft {
    /// The changes: finite numbers as they are.
    pub fn normalised(&self) -> StallConfigUpdate {
        let finite = |number: Number| number.finite("").ok().flatten();
        StallConfigUpdate {
            enabled: self.enabled,
            stall_interval: finite(self.stall_interval),
            max_stalls: finite(self.max_stalls),
            grace_period: finite(self.grace_period),
        }
    }
}

/// A filter of dead letters as a client sent it; fields as in [`DlqFilter`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named and documented in DlqFilter")]
pub struct DlqFilterDraft<'a> {
    /// A reason that there is none of matches nothing.
    pub reason: Option<&'a str>,
    pub older_than: Number,
    pub newer_than: Number,
    pub retriable: bool,
    pub expired: bool,
    pub after: Option<u64>,
    pub offset: Number,
    pub limit: Number,
}

impl DlqFilterDraft<'_> {
    /// The filter; counts below 0 count as 0, fractions are cut.
    ///
    /// # Errors
    /// The first value that is no finite number.
    pub fn check(&self) -> Result<DlqFilter, ArgumentError> {
        let older_than = self.older_than.finite("olderThan")?;
        let newer_than = self.newer_than.finite("newerThan")?;
        let offset = self.offset.count("offset")?.unwrap_or(0);
        let limit = self.limit.count("limit")?;
        let reason = self.reason.map(FailureReason::from_name);
        Ok(DlqFilter {
            reason: reason.flatten(),
            older_than: older_than.map(|at| at.floor() as Millis),
            newer_than: newer_than.map(|at| at.ceil() as Millis),
            retriable: self.retriable,
            expired: self.expired,
            after: self.after,
            offset,
            limit: if reason == Some(None) { Some(0) } else { limit },
        })
    }
}

/// Which dead letters a client wants to run again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RetryDlqDraft<'a> {
    /// That job.
    pub job_id: Option<&'a str>,
    /// The oldest ones, so many.
    pub count: Number,
    /// Those; it comes before the other two.
    pub filter: Option<DlqFilterDraft<'a>>,
}

impl RetryDlqDraft<'_> {
    /// The selection; without any wish all of them.
    ///
    /// # Errors
    /// An empty id, which must not mean all; a value that is no finite number.
    pub fn check(&self) -> Result<DlqSelection, ArgumentError> {
        if let Some(filter) = self.filter {
            return Ok(DlqSelection::Matching(filter.check()?));
        }
        if let Some(id) = self.job_id {
            return Ok(DlqSelection::One(present(id, "jobId")?));
        }
        Ok(DlqSelection::Matching(DlqFilter {
            limit: self.count.count("count")?,
            ..DlqFilter::default()
        }))
    }
}

/// Which completed jobs a client wants to run again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RetryCompletedDraft<'a> {
    /// That job; it comes before the other two.
    pub id: Option<&'a str>,
    /// The first completed ones, so many.
    pub count: Number,
    /// Completed at that time or before.
    pub timestamp: Number,
}

impl RetryCompletedDraft<'_> {
    /// The selection; without any wish all of them.
    ///
    /// # Errors
    /// An empty id, which must not mean all; a value that is no finite number.
    pub fn check(&self) -> Result<CompletedSelection, ArgumentError> {
        if let Some(id) = self.id {
            return Ok(CompletedSelection::One(present(id, "id")?));
        }
        let until = self.timestamp.finite("timestamp")?;
        Ok(CompletedSelection::Oldest {
            until: until.map(|at| at.floor() as Millis),
            limit: self.count.count("count")?,
        })
    }
}

fn present(id: &str, field: &'static str) -> Result<JobId, ArgumentError> {
    if id.is_empty() {
        return Err(ArgumentError::EmptyText(field));
    }
    Ok(JobId::from_text(id))
}

/// A setting that is a whole number from 0 to [`SPAN_MAX`].
fn whole(number: Number) -> Option<Millis> {
    match number {
        Number::Value(value) if !value.is_nan() => {
            Some(value.floor().clamp(0.0, SPAN_MAX as f64) as Millis)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUNK: [Number; 2] = [Number::NotNumber, Number::Value(f64::NAN)];

    #[test]
    fn dlq_settings_are_brought_into_their_bounds() {
        let draft = |interval, retries, age, entries| DlqConfigDraft {
            auto_retry: None,
            auto_retry_interval: Number::Value(interval),
            max_auto_retries: Number::Value(retries),
            max_age: AgeDraft::Given(Number::Value(age)),
            max_entries: Number::Value(entries),
        };
        let update = |interval, retries, age, entries| DlqConfigUpdate {
            auto_retry: None,
            auto_retry_interval: Some(interval),
            max_auto_retries: Some(retries),
            max_age: Some(Some(age)),
            max_entries: Some(entries),
        };
        let whole = draft(1.9, 2.7, 0.5, 1.5).normalised();
        assert_eq!(whole, update(1, 2, 0, 1));
        let low = draft(-1.0, -0.5, f64::NEG_INFINITY, 0.0).normalised();
        assert_eq!(low, update(0, 0, 0, 1));
        let high = draft(1e300, f64::INFINITY, 9e15, f64::MAX).normalised();
        let max = SPAN_MAX.unsigned_abs();
        assert_eq!(high, update(SPAN_MAX, max, SPAN_MAX, max as usize));
        for junk in JUNK {
            let ignored = DlqConfigDraft {
                auto_retry: None,
                auto_retry_interval: junk,
                max_auto_retries: junk,
                max_age: AgeDraft::Given(junk),
                max_entries: junk,
            };
            assert_eq!(ignored.normalised(), DlqConfigUpdate::default());
        }
        let never = DlqConfigDraft {
            max_age: AgeDraft::Never,
            ..DlqConfigDraft::default()
        };
        assert_eq!(never.normalised().max_age, Some(None));
    }

    #[test]
    fn stall_settings_are_taken_as_they_are() {
        let draft = StallConfigDraft {
            enabled: Some(false),
            stall_interval: Number::from_text("15000"),
            max_stalls: Number::Value(2.5),
            grace_period: Number::Value(-1.0),
        };
        let update = StallConfigUpdate {
            enabled: Some(false),
            stall_interval: Some(15_000.0),
            max_stalls: Some(2.5),
            grace_period: Some(-1.0),
        };
        assert_eq!(draft.normalised(), update);
        for junk in JUNK.into_iter().chain([Number::Value(f64::INFINITY)]) {
            let ignored = StallConfigDraft {
                enabled: None,
                stall_interval: junk,
                max_stalls: junk,
                grace_period: junk,
            };
            assert_eq!(ignored.normalised(), StallConfigUpdate::default());
        }
    }

    #[test]
    fn filters_are_read_as_meant() {
        let draft = DlqFilterDraft {
            reason: Some("timeout"),
            older_than: Number::Value(10.5),
            newer_than: Number::Value(9.5),
            offset: Number::Value(-2.0),
            limit: Number::Value(2.9),
            ..DlqFilterDraft::default()
        };
        let filter = DlqFilter {
            reason: Some(FailureReason::Timeout),
            older_than: Some(10),
            newer_than: Some(10),
            limit: Some(2),
            ..DlqFilter::default()
        };
        assert_eq!(draft.check(), Ok(filter));
        let unknown = DlqFilterDraft {
            reason: Some("bad luck"),
            ..DlqFilterDraft::default()
        };
        assert_eq!(unknown.check().unwrap().limit, Some(0), "matches nothing");
    }

    #[test]
    fn filter_comes_before_the_id_and_the_id_before_the_count() {
        let draft = RetryDlqDraft {
            job_id: Some("a"),
            count: Number::Value(-1.0),
            filter: Some(DlqFilterDraft::default()),
        };
        let all = DlqSelection::Matching(DlqFilter::default());
        assert_eq!(draft.check(), Ok(all));
        let draft = RetryDlqDraft {
            filter: None,
            ..draft
        };
        let one = DlqSelection::One(JobId::from_text("a"));
        assert_eq!(draft.check(), Ok(one));
        let draft = RetryDlqDraft {
            job_id: None,
            ..draft
        };
        let none = DlqSelection::Matching(DlqFilter {
            limit: Some(0),
            ..DlqFilter::default()
        });
        assert_eq!(draft.check(), Ok(none));
    }

    #[test]
    fn faults_name_the_field_and_the_rule() {
        let filter = |change: fn(&mut DlqFilterDraft<'static>)| {
            let mut draft = DlqFilterDraft::default();
            change(&mut draft);
            draft.check().unwrap_err().to_string()
        };
        let retry = |job_id, count| {
            let draft = RetryDlqDraft {
                job_id,
                count,
                filter: None,
            };
            draft.check().unwrap_err().to_string()
        };
        let again = |id, count, timestamp| {
            let draft = RetryCompletedDraft {
                id,
                count,
                timestamp,
            };
            draft.check().unwrap_err().to_string()
        };
        let (absent, text, nan) = (Number::Absent, Number::NotNumber, Number::Value(f64::NAN));
        let cases = [
            (
                filter(|f| f.older_than = Number::NotNumber),
                "olderThan must be a number",
            ),
            (
                filter(|f| f.newer_than = Number::Value(f64::INFINITY)),
                "newerThan must be a finite number",
            ),
            (
                filter(|f| f.offset = Number::NotNumber),
                "offset must be a number",
            ),
            (
                filter(|f| f.limit = Number::NotNumber),
                "limit must be a number",
            ),
            (retry(Some(""), absent), "jobId must be a non-empty string"),
            (retry(None, text), "count must be a number"),
            (
                again(Some(""), absent, absent),
                "id must be a non-empty string",
            ),
            (again(None, nan, absent), "count must be a number"),
            (again(None, absent, text), "timestamp must be a number"),
        ];
        for (fault, text) in cases {
            assert_eq!(fault, text);
        }
    }

    #[test]
    fn as_many_as_there_can_be_are_all() {
        let count = Number::Value(f64::INFINITY);
        let draft = RetryDlqDraft {
            count,
            ..RetryDlqDraft::default()
        };
        let all = DlqFilter {
            limit: Some(usize::MAX),
            ..DlqFilter::default()
        };
        assert_eq!(draft.check(), Ok(DlqSelection::Matching(all)));
        let draft = RetryCompletedDraft {
            count,
            ..RetryCompletedDraft::default()
        };
        let limit = Some(usize::MAX);
        let all = CompletedSelection::Oldest { until: None, limit };
        assert_eq!(draft.check(), Ok(all));
    }
}
