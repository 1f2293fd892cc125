//! Limits as clients send them: the checks of what is set for a queue or a group, and of what a pull says of groups
//! (engine contract, sections 17 and 18; tcp protocol, section 16).

use super::argument::ArgumentError;
use super::bounds;
use super::given::{Number, Text};
use crate::engine::{Affinity, Millis, PullGroup, RateLimit, SPAN_MAX};

/// A rate limit of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateLimitDraft {
    /// Jobs per duration.
    pub limit: Number,
    /// Ms; what is no time means [`bounds::RATE_DURATION_DEFAULT`].
    pub duration: Number,
    /// Ms after which the limit removes itself; what is no time means never.
    pub ttl: Number,
}

impl RateLimitDraft {
    /// The limit and its lifetime. Fractions of a job are none; fractions of a millisecond round up.
    ///
    /// # Errors
    /// When `limit` is no finite number.
    pub fn check(self) -> Result<(RateLimit, Option<Millis>), ArgumentError> {
        let limit = RateLimit {
            max: concurrency(self.limit)?,
            duration: time(self.duration).unwrap_or(bounds::RATE_DURATION_DEFAULT),
        };
        Ok((limit, time(self.ttl)))
    }
}

/// A limit of the active jobs of a queue. Fractions of a job are none, and less than none is none as well.
///
/// # Errors
/// When it is no finite number.
pub fn concurrency(limit: Number) -> Result<u64, ArgumentError> {
    match limit {
        // More jobs than any client can count mean the same.
        Number::Value(value) if value.is_finite() => {
            Ok(value.clamp(0.0, bounds::SAFE_INTEGER_MAX).floor() as u64)
        }
        _ => Err(ArgumentError::NotFinite("limit")),
    }
}

/// A group's own limit of deliveries.
///
/// # Errors
/// When `max` or `duration` is not a whole number of at least 1.
pub fn group_rate(max: Number, duration: Number) -> Result<RateLimit, ArgumentError> {
    rate([(max, "max"), (duration, "duration")])
}

/// A group's own limit of active jobs.
///
/// # Errors
/// When it is not a whole number of at least 1.
pub fn group_concurrency(concurrency: Number) -> Result<u64, ArgumentError> {
    concurrency.positive_integer("concurrency")
}

/// For how many ms a group is skipped.
///
/// # Errors
/// When it is not a whole number of at least 1.
pub fn throttle(duration: Number) -> Result<Millis, ArgumentError> {
    duration.positive_integer("duration").map(span)
}

/// What a pull says of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum GroupDraft<'a> {
    /// Nothing.
    #[default]
    Absent,
    /// Something, but not as an object.
    NotObject,
    /// An object.
    Object {
        /// Jobs of one group that may be active.
        concurrency: Number,
        /// Deliveries of one group per window.
        limit: LimitDraft,
        /// Which groups the pull is for.
        affinity: AffinityDraft<'a>,
    },
}

/// A limit in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LimitDraft {
    /// None.
    #[default]
    Absent,
    /// Something, but not as an object.
    NotObject,
    /// An object.
    Object {
        /// Deliveries.
        max: Number,
        /// Ms of the window.
        duration: Number,
    },
}

/// An affinity in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AffinityDraft<'a> {
    /// None: any job.
    #[default]
    Absent,
    /// Null: jobs of no group.
    Null,
    /// The group, or what is no text.
    Group(Text<'a>),
}

impl GroupDraft<'_> {
    /// What the engine needs to know of it; `None` when it says nothing.
    ///
    /// # Errors
    /// The first fault, in the order concurrency, limit, affinity.
    pub fn check(self) -> Result<Option<Box<PullGroup>>, ArgumentError> {
        let (concurrency, limit, affinity) = match self {
            Self::Absent => return Ok(None),
            Self::NotObject => return Err(ArgumentError::NotObject("group")),
            Self::Object {
                concurrency,
                limit,
                affinity,
            } => (concurrency, limit, affinity),
        };
        let group = PullGroup {
            concurrency: match concurrency {
                Number::Absent => None,
                given => Some(given.positive_integer("group.concurrency")?),
            },
            limit: match limit {
                LimitDraft::Absent => None,
                LimitDraft::NotObject => return Err(ArgumentError::NotObject("group.limit")),
                LimitDraft::Object { max, duration } => Some(rate([
                    (max, "group.limit.max"),
                    (duration, "group.limit.duration"),
                ])?),
            },
            affinity: match affinity {
                AffinityDraft::Absent | AffinityDraft::Group(Text::Absent) => Affinity::Any,
                AffinityDraft::Null => Affinity::Ungrouped,
                AffinityDraft::Group(Text::Value(group)) => {
                    // Kept while the pull waits, and no group has a longer id.
                    bounds::at_most("group.affinity", group, bounds::GROUP_ID_MAX)?;
                    Affinity::Group(group.into())
                }
                AffinityDraft::Group(Text::NotText) => {
                    return Err(ArgumentError::NotTextOrNull("group.affinity"));
                }
            },
        };
        Ok((group != PullGroup::default()).then(|| Box::new(group)))
    }
}

fn rate([max, duration]: [(Number, &'static str); 2]) -> Result<RateLimit, ArgumentError> {
    Ok(RateLimit {
        max: max.0.positive_integer(max.1)?,
        duration: duration.0.positive_integer(duration.1).map(span)?,
    })
}

fn span(ms: u64) -> Millis {
    Millis::try_from(ms).unwrap_or(SPAN_MAX).min(SPAN_MAX)
}

/// Whole ms, at least 1, of what can be meant as a time.
fn time(given: Number) -> Option<Millis> {
    match given {
        Number::Value(ms) if ms.is_finite() && ms > 0.0 => Some(super::draft::whole_millis(ms)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T>(checked: Result<T, ArgumentError>) -> String {
        checked.err().map(|error| error.to_string()).unwrap()
    }

    #[test]
    fn rl_6_what_is_no_time_takes_the_default() {
        let draft = RateLimitDraft {
            limit: Number::from_text("5"),
            duration: Number::Value(-1.0),
            ttl: Number::Value(f64::NAN),
        };
        let limit = RateLimit {
            max: 5,
            duration: 1_000,
        };
        assert_eq!(draft.check(), Ok((limit, None)));
        let odd = RateLimitDraft {
            limit: Number::Value(2.9),
            duration: Number::Value(0.2),
            ttl: Number::Value(300.0),
        };
        let limit = RateLimit {
            max: 2,
            duration: 1,
        };
        assert_eq!(odd.check(), Ok((limit, Some(300))));
    }

    #[test]
    fn a_limit_of_a_queue_is_a_finite_number() {
        for bad in [
            Number::Absent,
            Number::NotNumber,
            Number::Value(f64::NAN),
            Number::Value(f64::INFINITY),
        ] {
            assert_eq!(text(concurrency(bad)), "limit must be a finite number");
            let draft = RateLimitDraft {
                limit: bad,
                ..RateLimitDraft::default()
            };
            assert_eq!(text(draft.check()), "limit must be a finite number");
        }
        assert_eq!(concurrency(Number::Value(-3.0)), Ok(0));
    }

    #[test]
    fn gr_6_limits_of_groups_are_positive_integers() {
        let (zero, one) = (Number::Value(0.0), Number::Value(1.0));
        let must = |field| format!("{field} must be a positive safe integer");
        assert_eq!(text(group_rate(zero, one)), must("max"));
        assert_eq!(text(group_rate(one, Number::Absent)), must("duration"));
        let odd = Number::Value(1.5);
        assert_eq!(text(group_concurrency(odd)), must("concurrency"));
        assert_eq!(text(throttle(Number::Value(-1.0))), must("duration"));
        let object = |concurrency, limit| GroupDraft::Object {
            concurrency,
            limit,
            affinity: AffinityDraft::Absent,
        };
        let absent = LimitDraft::Absent;
        assert_eq!(
            text(object(zero, absent).check()),
            must("group.concurrency")
        );
        let limit = |max, duration| object(one, LimitDraft::Object { max, duration });
        assert_eq!(text(limit(zero, one).check()), must("group.limit.max"));
        assert_eq!(text(limit(one, zero).check()), must("group.limit.duration"));
        let not_object = LimitDraft::NotObject;
        assert_eq!(
            text(object(one, not_object).check()),
            "group.limit must be an object"
        );
        assert_eq!(
            text(GroupDraft::NotObject.check()),
            "group must be an object"
        );
    }

    #[test]
    fn an_affinity_is_a_text_or_null() {
        let with = |affinity| {
            let draft = GroupDraft::Object {
                concurrency: Number::Absent,
                limit: LimitDraft::Absent,
                affinity,
            };
            draft.check().map(|group| group.map(|group| group.affinity))
        };
        assert_eq!(with(AffinityDraft::Absent), Ok(None));
        assert_eq!(with(AffinityDraft::Null), Ok(Some(Affinity::Ungrouped)));
        let group = AffinityDraft::Group(Text::Value("g"));
        assert_eq!(with(group), Ok(Some(Affinity::Group("g".into()))));
        assert_eq!(
            text(with(AffinityDraft::Group(Text::NotText))),
            "group.affinity must be a string or null"
        );
        let (longest, longer) = ("g".repeat(256), "g".repeat(257));
        assert!(with(AffinityDraft::Group(Text::Value(&longest))).is_ok());
        assert_eq!(
            text(with(AffinityDraft::Group(Text::Value(&longer)))),
            "group.affinity must be at most 256 characters"
        );
    }
}
