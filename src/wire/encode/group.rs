//! Groups (tcp protocol section 16.2).

use super::{Entries, Success, Tried};
use crate::command::Reply;
use crate::engine::RateLimit;
use crate::wire::shape::Group;

pub(super) fn write<'a>(success: Success<'a>, shape: Group, reply: &Reply) -> Tried<'a> {
    match (shape, reply) {
        (Group::Count, Reply::Counted(count)) => success.data(1).count("count", *count),
        (Group::RateLimit, Reply::Rate(limit)) => rate(&mut success.data(1), "limit", *limit),
        (Group::RateLimitTtl, Reply::Span(ttl)) => success.data(1).time("ttl", *ttl),
        (Group::Concurrency, Reply::Concurrency(limit)) => {
            let mut data = success.data(1);
            data.number_or_nil("concurrency", limit.map(|limit| limit as f64));
        }
        (Group::Removed, Reply::Counted(removed)) => success.data(1).count("removed", *removed),
        (Group::Changed, Reply::Flag(changed)) => success.data(1).bool("changed", *changed),
        (Group::Paused, Reply::Flag(paused)) => success.data(1).bool("paused", *paused),
        _ => return Tried::NotMine(success),
    }
    Tried::Written(Ok(()))
}

/// A limit of deliveries, nil when there is none.
pub(super) fn rate(map: &mut Entries<'_>, key: &str, limit: Option<RateLimit>) {
    let Some(limit) = limit else {
        return map.nil(key);
    };
    map.nested(key, 2);
    map.number("max", limit.max as f64);
    map.time("duration", limit.duration);
}
