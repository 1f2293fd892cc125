//! Schedules: a pattern in a time zone, and the instants that it means (engine contract, section 11.2).
//!
//! Pure: time zones come from the database inside the program, so a schedule means the same instants on every machine.
//! Where a zone changes its offset, a pattern that names hours is about times of the day: one that does not exist moves
//! by the length of the gap (the first of several in one gap), one that comes twice counts the first time. A pattern
//! of every hour is about spans of time: it skips what does not exist and takes both passes.

mod pattern;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use thiserror::Error;

use super::Millis;
pub use pattern::PATTERN_MAX;
use pattern::Pattern;

/// What is said of a zone that there is none of.
pub const UNKNOWN_ZONE: &str =
    "Unknown time zone: use an IANA name such as \"Europe/Rome\" or \"America/New_York\"";

/// Why a text is no schedule. `Display` is the reason that clients see.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// Not five or six fields, and no shortcut.
    #[error("Cron expression must have 5 fields, or 6 fields with leading seconds")]
    FieldCount,
    /// No year has such a day.
    #[error("Cron expression has no future occurrences")]
    Never,
    /// Longer than [`PATTERN_MAX`].
    #[error("Cron expression must have at most {PATTERN_MAX} characters")]
    TooLong,
    /// No zone has that name.
    #[error("{UNKNOWN_ZONE}")]
    UnknownZone,
    /// A field breaks a rule.
    #[error("Invalid cron {field} field \"{text}\": {fault}")]
    Field {
        /// Its name.
        field: &'static str,
        /// What it holds.
        text: String,
        /// The rule.
        fault: FieldFault,
    },
}

/// The rule that a field of a pattern breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FieldFault {
    /// Not a number (or name) of the field.
    #[error("values must be between {min} and {max}")]
    Value {
        /// The least.
        min: u8,
        /// The greatest.
        max: u8,
    },
    /// A step after a single number.
    #[error("steps require a wildcard or range")]
    StepWithoutRange,
    /// A range that ends before it starts.
    #[error("range start must not exceed range end")]
    RangeOrder,
    /// Nothing between two commas.
    #[error("list entries cannot be empty")]
    EmptyEntry,
    /// A step out of bounds.
    #[error("step must be between 1 and {max}")]
    Step {
        /// The greatest.
        max: usize,
    },
}

/// A pattern in a time zone, read once. Two are equal when their texts are.
#[derive(Clone)]
pub struct Schedule {
    text: Arc<str>,
    zone: Option<Arc<str>>,
    pattern: Pattern,
    time_zone: TimeZone,
}

/// A stretch of time in which a zone has one offset.
struct Span {
    /// The change that began it: when, and the offset before.
    change: Option<(Timestamp, Offset)>,
    offset: Offset,
    /// The next change.
    end: Option<Timestamp>,
}

impl Schedule {
    /// Reads a pattern; without a zone it is one of UTC.
    ///
    /// # Errors
    /// When the text is no pattern that ever matches, or the zone is unknown.
    pub fn read(text: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        Ok(Self {
            text: text.into(),
            zone: zone.map(Arc::from),
            pattern: Pattern::read(text)?,
            time_zone: zone.map_or(Ok(TimeZone::UTC), time_zone)?,
        })
    }

    /// The pattern as it was given.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The name of the zone as it was given.
    pub fn zone(&self) -> Option<&Arc<str>> {
        self.zone.as_ref()
    }

    /// The first instant after `at`; `None` when the calendar ends first (in the year 9999).
    pub fn next_after(&self, at: Millis) -> Option<Millis> {
        let mut from = next_second(at)?;
        loop {
            let span = self.span_at(from);
            if let Some(found) = self.first_in(&span, from) {
                return Some(found.as_millisecond());
            }
            from = span.end?;
        }
    }

    /// How many of its instants lie after `after` and not after `until`. Takes time for the days, not the instants.
    pub fn count_between(&self, after: Millis, until: Millis) -> u64 {
        let (Some(mut from), Some(end)) = (next_second(after), next_second(until)) else {
            return 0;
        };
        let mut count = 0;
        while from < end {
            let span = self.span_at(from);
            let to = span.end.map_or(end, |change| change.min(end));
            let start = self.local_start(&span, from);
            count += self.pattern.count(start, span.offset.to_datetime(to));
            // One that moved over a gap may fall on one that is there anyway.
            let moved = self
                .moved_over_gap(&span)
                .filter(|at| (from..to).contains(at))
                .filter(|at| !self.pattern.matches(span.offset.to_datetime(*at)));
            count += u64::from(moved.is_some());
            from = to;
        }
        count
    }

    fn span_at(&self, at: Timestamp) -> Span {
        let zone = &self.time_zone;
        let second = jiff::SignedDuration::from_secs(1);
        // Changes happen at whole seconds, and so does `at`; one in this very second belongs to the span.
        let change = at.checked_add(second).ok();
        let change = change.and_then(|after| zone.preceding(after).next());
        Span {
            change: change.and_then(|change| {
                let before = change.timestamp().checked_sub(second).ok()?;
                Some((change.timestamp(), zone.to_offset(before)))
            }),
            offset: zone.to_offset(at),
            end: zone.following(at).next().map(|change| change.timestamp()),
        }
    }

    /// The first instant of the span that is not before `from`.
    fn first_in(&self, span: &Span, from: Timestamp) -> Option<Timestamp> {
        let plain = self
            .pattern
            .first_from(self.local_start(span, from))
            .and_then(|local| span.offset.to_timestamp(local).ok())
            .filter(|at| span.end.is_none_or(|end| *at < end));
        let moved = self.moved_over_gap(span).filter(|at| *at >= from);
        plain.into_iter().chain(moved).min()
    }

    /// The local time from which the span counts: times of the day that it repeats have had their turn.
    fn local_start(&self, span: &Span, from: Timestamp) -> jiff::civil::DateTime {
        let local = span.offset.to_datetime(from);
        match span.change {
            Some((at, before)) if !self.pattern.every_hour() => local.max(before.to_datetime(at)),
            _ => local,
        }
    }

    /// What the first time of the day that the change before this span skipped has become.
    fn moved_over_gap(&self, span: &Span) -> Option<Timestamp> {
        let (at, before) = span.change.filter(|_| !self.pattern.every_hour())?;
        let gap = before.to_datetime(at)..span.offset.to_datetime(at);
        let skipped = self
            .pattern
            .first_from(gap.start)
            .filter(|_| !gap.is_empty())?;
        // Read with the offset of before, it is as far behind the change as it would have been.
        gap.contains(&skipped)
            .then(|| before.to_timestamp(skipped).ok())
            .flatten()
    }
}

/// The zone of that name, without a look at any file.
///
/// # Errors
/// [`ScheduleError::UnknownZone`].
fn time_zone(name: &str) -> Result<TimeZone, ScheduleError> {
    let found = TimeZoneDatabase::bundled().get(name).ok();
    // One name stands for "no zone is known".
    found
        .filter(|zone| !zone.is_unknown())
        .ok_or(ScheduleError::UnknownZone)
}

/// Checks the name of a zone.
///
/// # Errors
/// [`ScheduleError::UnknownZone`].
pub fn check_zone(name: &str) -> Result<(), ScheduleError> {
    time_zone(name).map(|_| ())
}

/// The first whole second after that time.
fn next_second(at: Millis) -> Option<Timestamp> {
    Timestamp::from_second(at.div_euclid(1_000) + 1).ok()
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.zone) == (&other.text, &other.zone)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({:?} {:?})", self.text, self.zone)
    }
}
