//! `PULL` and `PULLB` (tcp protocol sections 9 and 16.3).

use crate::command::draft::whole_millis;
use crate::command::given::Number;
use crate::command::payload::Value;
use crate::command::{ArgumentError, Pull, Reply, bounds};
use crate::engine::Millis;

use super::{Action, Decoded, Decoder, ask};
use crate::wire::fields::{Fields, is_positive_safe_integer};
use crate::wire::shape::Shape;

/// Ms of a wait from which on it may end early.
const LONG_WAIT: Millis = 10_000;
/// Ms by which such a wait ends early: clients whose patience for any command equals the wait then see
/// the empty answer and not their own time-out.
const EARLY: Millis = 250;

pub(super) fn pull(decoder: &mut Decoder, fields: &Fields<'_>) -> Decoded {
    let queue = decoder.queue(fields)?;
    let wait = wait(fields)?;
    check_group(fields)?;
    let lock_ttl = lock_ttl(fields)?;
    let owner = decoder.owner(fields)?;
    let owned = owner.is_some();
    let detach = !owned && fields.is_true("detach");
    let count = 1;
    ask(
        Pull {
            queue,
            count,
            wait,
            owner,
            lock_ttl,
            detach,
            group: None,
        },
        Shape::Pull { owned },
    )
}

pub(super) fn pull_many(decoder: &mut Decoder, fields: &Fields<'_>) -> Decoded {
    let queue = decoder.queue(fields)?;
    let count = fields
        .number("count")
        .within("count", 1, bounds::PULL_COUNT_MAX)?;
    let wait = wait(fields)?;
    check_group(fields)?;
    let lock_ttl = lock_ttl(fields)?;
    let owner = decoder.owner(fields)?;
    let owned = owner.is_some();
    let shape = Shape::PullMany { owned };
    let Some(count) = count else {
        return Ok(Action::Answered(Reply::Pulled(Vec::new()), shape));
    };
    ask(
        Pull {
            queue,
            count: count.ceil() as usize,
            wait,
            owner,
            lock_ttl,
            detach: false,
            group: None,
        },
        shape,
    )
}

fn wait(fields: &Fields<'_>) -> Result<Millis, ArgumentError> {
    let wait = fields
        .number("timeout")
        .within("timeout", 0, bounds::PULL_WAIT_MAX)?
        .map_or(0, whole_millis);
    Ok(if wait >= LONG_WAIT {
        wait - EARLY
    } else {
        wait
    })
}

fn lock_ttl(fields: &Fields<'_>) -> Result<f64, ArgumentError> {
    let given = fields.number("lockTtl").finite("lockTtl")?;
    Ok(given.unwrap_or(bounds::LOCK_TTL_DEFAULT))
}

/// Limits on groups of jobs, which do not exist yet: checked, then refused unless they say nothing.
fn check_group(fields: &Fields<'_>) -> Result<(), ArgumentError> {
    let Some(raw) = fields
        .raw("group")
        .filter(|_| fields.value("group").is_some())
    else {
        return Ok(());
    };
    let group = Fields::of(raw).ok_or(ArgumentError::NotObject("group"))?;
    let mut limits_anything = false;
    if group.value("concurrency").is_some() {
        positive(&group, "concurrency", "group.concurrency")?;
        limits_anything = true;
    }
    if let Some(limit) = group
        .raw("limit")
        .filter(|_| group.value("limit").is_some())
    {
        let limit = Fields::of(limit).ok_or(ArgumentError::NotObject("group.limit"))?;
        positive(&limit, "max", "group.limit.max")?;
        positive(&limit, "duration", "group.limit.duration")?;
        limits_anything = true;
    }
    if group.raw("affinity").is_some() {
        if !matches!(group.value("affinity"), None | Some(Value::Str(_))) {
            return Err(ArgumentError::NotTextOrNull("group.affinity"));
        }
        limits_anything = true;
    }
    if limits_anything {
        Err(ArgumentError::Unsupported("group"))
    } else {
        Ok(())
    }
}

fn positive(fields: &Fields<'_>, name: &str, shown: &'static str) -> Result<(), ArgumentError> {
    match fields.number(name) {
        Number::Value(value) if is_positive_safe_integer(value) => Ok(()),
        _ => Err(ArgumentError::NotPositiveInteger(shown)),
    }
}
