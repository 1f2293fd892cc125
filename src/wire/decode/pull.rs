//! `PULL` and `PULLB` (tcp protocol sections 9 and 16.3).

use crate::command::draft::whole_millis;
use crate::command::limits::{AffinityDraft, GroupDraft, LimitDraft};
use crate::command::payload::Value;
use crate::command::{ArgumentError, Pull, Reply, bounds};
use crate::engine::Millis;

use super::{Action, Decoded, Decoder, ask};
use crate::wire::fields::{Fields, is_falsy, set_value};
use crate::wire::shape::Shape;

/// Ms of a wait from which on it may end early.
const LONG_WAIT: Millis = 10_000;
/// Ms by which such a wait ends early: clients whose patience for any command equals the wait then see
/// the empty answer and not their own time-out.
const EARLY: Millis = 250;

pub(super) fn pull(decoder: &mut Decoder, fields: &Fields<'_>) -> Decoded {
    let queue = decoder.queue(fields)?;
    let wait = wait(fields)?;
    let group = group(fields).check()?;
    let lock_ttl = lock_ttl(fields)?;
    let owned = owned(fields)?;
    let detach = !owned && fields.is_true("detach");
    let count = 1;
    ask(
        Pull {
            queue,
            count,
            wait,
            locked: owned,
            lock_ttl,
            detach,
            group,
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
    let group = group(fields).check()?;
    let lock_ttl = lock_ttl(fields)?;
    let owned = owned(fields)?;
    let shape = Shape::PullMany { owned };
    let Some(count) = count else {
        return Ok(Action::Answered(Reply::Pulled(Vec::new()), shape));
    };
    ask(
        Pull {
            queue,
            count: count.ceil() as usize,
            wait,
            locked: owned,
            lock_ttl,
            detach: false,
            group,
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

/// Whether somebody works on the jobs, which locks them; what JavaScript takes as false is nobody. Who it is matters to
/// nobody here.
fn owned(fields: &Fields<'_>) -> Result<bool, ArgumentError> {
    match fields.value("owner") {
        Some(Value::Str(name)) if std::str::from_utf8(name).is_err() => {
            Err(ArgumentError::NotText("owner"))
        }
        owner => Ok(owner.is_some_and(|owner| !is_falsy(&owner))),
    }
}

fn lock_ttl(fields: &Fields<'_>) -> Result<f64, ArgumentError> {
    let given = fields.number("lockTtl").finite("lockTtl")?;
    Ok(given.unwrap_or(bounds::LOCK_TTL_DEFAULT))
}

/// What the pull says of groups.
fn group<'a>(fields: &Fields<'a>) -> GroupDraft<'a> {
    match fields.object("group") {
        Ok(None) => GroupDraft::Absent,
        Err(_) => GroupDraft::NotObject,
        Ok(Some(group)) => GroupDraft::Object {
            concurrency: group.number("concurrency"),
            limit: match group.object("limit") {
                Ok(None) => LimitDraft::Absent,
                Err(_) => LimitDraft::NotObject,
                Ok(Some(limit)) => LimitDraft::Object {
                    max: limit.number("max"),
                    duration: limit.number("duration"),
                },
            },
            affinity: match group.raw("affinity") {
                None => AffinityDraft::Absent,
                Some(raw) if set_value(raw).is_none() => AffinityDraft::Null,
                Some(_) => AffinityDraft::Group(group.text_value("affinity")),
            },
        },
    }
}
