//! Limits of queues (tcp protocol section 16.1).

use super::{Decoded, ask};
use crate::command::limits::{self, RateLimitDraft};
use crate::command::{
    ClearConcurrency, ClearRateLimit, GetQueueLimits, SetConcurrency, SetRateLimit,
};
use crate::wire::fields::Fields;
use crate::wire::shape::Shape;

pub(super) fn by_name(name: &[u8], fields: &Fields<'_>) -> Option<Decoded> {
    Some(match name {
        b"RateLimit" => set_rate(fields),
        b"RateLimitClear" => clear_rate(fields),
        b"SetConcurrency" => set_concurrency(fields),
        b"ClearConcurrency" => clear_concurrency(fields),
        b"GetQueueLimits" => read(fields),
        _ => return None,
    })
}

fn set_rate(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let draft = RateLimitDraft {
        limit: fields.number_or_text("limit"),
        duration: fields.number_or_text("duration"),
        ttl: fields.number_or_text("ttl"),
    };
    let (limit, ttl) = draft.check()?;
    ask(SetRateLimit { queue, limit, ttl }, Shape::Done)
}

fn clear_rate(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(ClearRateLimit { queue }, Shape::Done)
}

fn set_concurrency(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let limit = limits::concurrency(fields.number_or_text("limit"))?;
    ask(SetConcurrency { queue, limit }, Shape::Done)
}

fn clear_concurrency(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(ClearConcurrency { queue }, Shape::Done)
}

fn read(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let jobs = fields
        .number("maxJobs")
        .count("maxJobs")?
        .map(|jobs| jobs as u64);
    ask(GetQueueLimits { queue, jobs }, Shape::QueueLimits)
}
