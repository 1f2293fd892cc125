//! Changes to one job and to a whole queue (tcp protocol sections 11, 12, 14 and 17).

use crate::command::given::Number;
use crate::command::{
    ArgumentError, Cancel, ChangeDelay, ChangePriority, Clean, ClearLogs, Discard, Drain,
    MoveToWait, MoveToWaitingChildren, Obliterate, Pause, Promote, PromoteMany, RemoveDedupKey,
    RemoveJobDedupKey, Removed, Reply, Resume, UpdateData, bounds,
};
use crate::engine::{Bucket, CleanState, Payload, State};

use super::{Action, Decoded, ask};
use crate::wire::fields::Fields;
use crate::wire::shape::{ChangeOf, Shape};

pub(super) fn cancel(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    ask(Cancel { id }, Shape::Change(ChangeOf::Cancel))
}

pub(super) fn discard(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    let token = fields.token();
    ask(Discard { id, token }, Shape::Change(ChangeOf::Discard))
}

pub(super) fn update(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    let data = fields.raw("data").map(Payload::new);
    ask(UpdateData { id, data }, Shape::Change(ChangeOf::Update))
}

pub(super) fn change_priority(fields: &Fields<'_>) -> Decoded {
    let change = ChangePriority {
        id: fields.id("id")?,
        priority: fields.number("priority").finite("priority")?.unwrap_or(0.0),
        lifo: fields.switch("lifo"),
    };
    ask(change, Shape::Change(ChangeOf::Priority))
}

pub(super) fn change_delay(fields: &Fields<'_>) -> Decoded {
    ask(delay(fields)?, Shape::Change(ChangeOf::Delay))
}

pub(super) fn move_to_delayed(fields: &Fields<'_>) -> Decoded {
    ask(delay(fields)?, Shape::Change(ChangeOf::MoveToDelayed))
}

fn delay(fields: &Fields<'_>) -> Result<ChangeDelay, ArgumentError> {
    let delay = fields.number("delay").finite("delay")?;
    Ok(ChangeDelay {
        id: fields.id("id")?,
        delay: delay.ok_or(ArgumentError::Required("delay"))?,
        token: fields.token(),
    })
}

pub(super) fn move_to_wait(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    let token = fields.token();
    ask(
        MoveToWait { id, token },
        Shape::Change(ChangeOf::MoveToWait),
    )
}

pub(super) fn move_to_waiting_children(fields: &Fields<'_>) -> Decoded {
    let park = MoveToWaitingChildren {
        id: fields.id("id")?,
        token: fields.token(),
    };
    ask(park, Shape::Change(ChangeOf::Park))
}

pub(super) fn promote(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    ask(Promote { id }, Shape::Change(ChangeOf::Promote))
}

pub(super) fn promote_jobs(fields: &Fields<'_>) -> Decoded {
    let promote = PromoteMany {
        queue: fields.any_queue()?,
        count: fields.number("count").count("count")?,
    };
    ask(promote, Shape::Counted)
}

pub(super) fn clear_logs(fields: &Fields<'_>) -> Decoded {
    let clear = ClearLogs {
        id: fields.id("id")?,
        keep: fields.number("keepLogs").count("keepLogs")?.unwrap_or(0),
    };
    ask(clear, Shape::Done)
}

pub(super) fn pause(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(Pause { queue }, Shape::Done)
}

pub(super) fn resume(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(Resume { queue }, Shape::Done)
}

pub(super) fn drain(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(Drain { queue }, Shape::Drain)
}

pub(super) fn obliterate(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(Obliterate { queue }, Shape::Done)
}

pub(super) fn clean(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let grace = fields.number("grace").finite("grace")?;
    let grace = grace.ok_or(ArgumentError::Required("grace"))?;
    let limit = match fields.number("limit") {
        Number::Absent => bounds::CLEAN_DEFAULT,
        Number::Value(limit) if limit.is_finite() => limit as usize,
        _ => 0,
    };
    let state = match fields.text("state")? {
        None => Some(CleanState::Queued),
        Some("wait") => Some(CleanState::Bucket(Bucket::State(State::Waiting))),
        Some(name) => Bucket::from_name(name).map(CleanState::Bucket),
    };
    match state {
        Some(state) if limit > 0 => {
            let clean = Clean {
                queue,
                grace,
                state,
                limit,
            };
            ask(clean, Shape::Clean)
        }
        // A state that nobody can clean and a limit of nothing are answered alike.
        _ => Ok(Action::Answered(
            Reply::Removed(Removed::default()),
            Shape::Clean,
        )),
    }
}

pub(super) fn remove_dedup_key(fields: &Fields<'_>) -> Decoded {
    let remove = RemoveDedupKey {
        queue: fields.any_queue()?,
        key: fields.text("deduplicationId")?.unwrap_or_default().into(),
    };
    ask(remove, Shape::DedupKeysRemoved)
}

pub(super) fn remove_job_dedup_key(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    ask(RemoveJobDedupKey { id }, Shape::Removed)
}
