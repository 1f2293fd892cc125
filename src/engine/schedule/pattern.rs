//! The pattern of a schedule: which local times it names (engine contract, section 11.2). No zones here.
//!
//! A pattern is six sets of numbers. Everything that the contract does not name (seven fields, `L W # + ?`, ranges
//! that wrap, empty entries of a list, days that no month has) is refused while it is read.

use jiff::civil::{Date, DateTime, Time};

use super::{FieldFault, ScheduleError};

/// Characters of a pattern.
pub const PATTERN_MAX: usize = 1_000;

/// What stands for a whole pattern, in any case.
const SHORTCUTS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Numbers below 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Numbers(u64);

impl Numbers {
    fn from_steps(first: u8, last: u8, step: usize) -> Self {
        let bits = (first..=last).step_by(step).map(|number| 1 << number);
        Self(bits.fold(0, |set, bit: u64| set | bit))
    }

    fn has(self, number: i8) -> bool {
        self.first_from(number) == Some(number)
    }

    /// The least one that is not below `number`.
    fn first_from(self, number: i8) -> Option<i8> {
        let rest = self.0.checked_shr(number as u32)?;
        (rest != 0).then(|| number + rest.trailing_zeros() as i8)
    }

    fn count(self) -> u64 {
        self.0.count_ones().into()
    }

    fn count_below(self, number: i8) -> u64 {
        Self(self.0 & ((1 << number) - 1)).count()
    }
}

/// What a field may hold.
struct Field {
    name: &'static str,
    min: u8,
    max: u8,
    step_max: usize,
    /// Names of the numbers from `min` on.
    names: &'static [&'static str],
    /// Whether `a/n` means from a to the maximum.
    open_steps: bool,
}

const SECONDS: Field = Field {
    name: "seconds",
    min: 0,
    max: 59,
    step_max: 60,
    names: &[],
    open_steps: false,
};
const MINUTES: Field = Field {
    name: "minute",
    open_steps: true,
    ..SECONDS
};
const HOURS: Field = Field {
    name: "hour",
    max: 23,
    step_max: 24,
    ..MINUTES
};
const DAYS: Field = Field {
    name: "day-of-month",
    min: 1,
    max: 31,
    step_max: 31,
    ..MINUTES
};
const MONTHS: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    step_max: 12,
    names: &[
        "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
    ],
    ..MINUTES
};
/// 0 and 7 are Sunday.
const WEEKDAYS: Field = Field {
    name: "day-of-week",
    max: 7,
    step_max: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    ..MINUTES
};

impl Field {
    fn read(&self, text: &str) -> Result<Numbers, ScheduleError> {
        let entries = text.split(',').map(|entry| self.entry(entry));
        let union = |sum: Numbers, entry: Result<Numbers, _>| Ok(Numbers(sum.0 | entry?.0));
        entries
            .into_iter()
            .try_fold(Numbers::default(), union)
            .map_err(|fault| ScheduleError::Field {
                field: self.name,
                text: text.to_owned(),
                fault,
            })
    }

    /// One entry of a list: `*`, a number or a range, with or without a step.
    fn entry(&self, text: &str) -> Result<Numbers, FieldFault> {
        if text.is_empty() {
            return Err(FieldFault::EmptyEntry);
        }
        let (span, step) = match text.split_once('/') {
            Some((span, step)) => (span, Some(step)),
            None => (text, None),
        };
        let (first, last) = match span.split_once('-') {
            _ if span == "*" => (self.min, self.max),
            Some((first, last)) => self.range(first, last)?,
            None => {
                let only = self.number(span)?;
                match step {
                    Some(_) if !self.open_steps => return Err(FieldFault::StepWithoutRange),
                    Some(_) => (only, self.max),
                    None => (only, only),
                }
            }
        };
        let step = step.map_or(Ok(1), |step| self.step(step))?;
        Ok(Numbers::from_steps(first, last, step))
    }

    fn range(&self, first: &str, last: &str) -> Result<(u8, u8), FieldFault> {
        let (start, mut end) = (self.number(first)?, self.number(last)?);
        // The week may end with Sunday.
        if end == 0 && start > 0 && last.eq_ignore_ascii_case("SUN") {
            end = self.max;
        }
        if start > end {
            return Err(FieldFault::RangeOrder);
        }
        Ok((start, end))
    }

    fn number(&self, text: &str) -> Result<u8, FieldFault> {
        let named = self
            .names
            .iter()
            .zip(self.min..)
            .find(|(name, _)| name.eq_ignore_ascii_case(text))
            .map(|(_, number)| number);
        named
            .or_else(|| digits(text).and_then(|number| u8::try_from(number).ok()))
            .filter(|number| (self.min..=self.max).contains(number))
            .ok_or(FieldFault::Value {
                min: self.min,
                max: self.max,
            })
    }

    fn step(&self, text: &str) -> Result<usize, FieldFault> {
        digits(text)
            .filter(|step| (1..=self.step_max).contains(step))
            .ok_or(FieldFault::Step { max: self.step_max })
    }
}

/// A number without a sign; `str::parse` takes `+5`.
fn digits(text: &str) -> Option<usize> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    seconds: Numbers,
    minutes: Numbers,
    hours: Numbers,
    days: Numbers,
    months: Numbers,
    /// 0 is Sunday.
    weekdays: Numbers,
    /// The day of the month, or of the week, is a bare `*`, and so only the other one decides.
    any_day: bool,
    any_weekday: bool,
}

impl Pattern {
    pub(super) fn read(text: &str) -> Result<Self, ScheduleError> {
        if text.len() > PATTERN_MAX {
            return Err(ScheduleError::TooLong);
        }
        let text = text.trim();
        let shortcut = SHORTCUTS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        let fields: Vec<_> = shortcut
            .map_or(text, |(_, pattern)| pattern)
            .split_whitespace()
            .collect();
        let (second, [minute, hour, day, month, weekday]) = match fields.as_slice() {
            [minute, hour, day, month, weekday] => ("0", [minute, hour, day, month, weekday]),
            [second, minute, hour, day, month, weekday] => {
                (*second, [minute, hour, day, month, weekday])
            }
            _ => return Err(ScheduleError::FieldCount),
        };
        let weekdays = WEEKDAYS.read(weekday)?.0;
        let pattern = Self {
            seconds: SECONDS.read(second)?,
            minutes: MINUTES.read(minute)?,
            hours: HOURS.read(hour)?,
            days: DAYS.read(day)?,
            months: MONTHS.read(month)?,
            weekdays: Numbers((weekdays | weekdays >> 7) & 0x7f),
            any_day: *day == "*",
            any_weekday: *weekday == "*",
        };
        if pattern.ever_matches() {
            Ok(pattern)
        } else {
            Err(ScheduleError::Never)
        }
    }

    /// Whether any year has such a day: only a day of the month can be one that its months do not have.
    fn ever_matches(&self) -> bool {
        const LONGEST: [i8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let first = self.days.first_from(1);
        let fits = |(month, days): (i8, i8)| {
            self.months.has(month) && first.is_some_and(|first| first <= days)
        };
        !self.any_weekday || (1..).zip(LONGEST).any(fits)
    }

    /// Whether it names every hour of a day: then it means spans of time, and not times of the day.
    pub(super) fn every_hour(&self) -> bool {
        self.hours.count() == 24
    }

    pub(super) fn matches(&self, at: DateTime) -> bool {
        self.matches_day(at.date())
            && self.hours.has(at.hour())
            && self.minutes.has(at.minute())
            && self.seconds.has(at.second())
    }

    fn matches_day(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        self.months.has(date.month())
            && match (self.any_day, self.any_weekday) {
                (true, _) => weekday,
                (false, true) => day,
                (false, false) => day || weekday,
            }
    }

    /// The first time that matches and is not before `from`; `None` when the calendar ends first.
    pub(super) fn first_from(&self, from: DateTime) -> Option<DateTime> {
        let (mut date, mut time) = (from.date(), from.time());
        loop {
            if !self.months.has(date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
            } else if self.matches_day(date)
                && let Some(found) = self.time_from(time)
            {
                return Some(date.to_datetime(found));
            } else {
                date = date.tomorrow().ok()?;
            }
            time = Time::midnight();
        }
    }

    fn time_from(&self, from: Time) -> Option<Time> {
        let (hour, minute) = (from.hour(), from.minute());
        let (first_minute, first_second) =
            (self.minutes.first_from(0)?, self.seconds.first_from(0)?);
        let in_minute = || {
            let second = self.seconds.first_from(from.second())?;
            self.minutes.has(minute).then_some((hour, minute, second))
        };
        let in_hour = || {
            let later = self.minutes.first_from(minute + 1)?;
            Some((hour, later, first_second))
        };
        let (hour, minute, second) = Some(())
            .filter(|()| self.hours.has(hour))
            .and_then(|()| in_minute().or_else(in_hour))
            .or_else(|| {
                let later = self.hours.first_from(hour + 1)?;
                Some((later, first_minute, first_second))
            })?;
        Time::new(hour, minute, second, 0).ok()
    }

    /// How many times match from `from` on and before `to`.
    pub(super) fn count(&self, from: DateTime, to: DateTime) -> u64 {
        let whole_day = self.hours.count() * self.minutes.count() * self.seconds.count();
        let mut count = 0;
        let mut date = from.date();
        while date <= to.date() {
            if self.matches_day(date) {
                count += if date == to.date() {
                    self.count_before(to.time())
                } else {
                    whole_day
                };
                if date == from.date() {
                    count = count.saturating_sub(self.count_before(from.time()));
                }
            }
            let Ok(next) = date.tomorrow() else { break };
            date = next;
        }
        count
    }

    /// Times of a day that match and are before `time`.
    fn count_before(&self, time: Time) -> u64 {
        let (minutes, seconds) = (self.minutes.count(), self.seconds.count());
        let mut count = self.hours.count_below(time.hour()) * minutes * seconds;
        if self.hours.has(time.hour()) {
            count += self.minutes.count_below(time.minute()) * seconds;
            if self.minutes.has(time.minute()) {
                count += self.seconds.count_below(time.second());
            }
        }
        count
    }
}
