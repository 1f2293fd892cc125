//! Groups: replies.

use super::*;
use crate::engine::RateLimit;
use crate::wire::shape::Group;

#[test]
fn each_reply_has_one_entry_under_data() {
    let rate = RateLimit {
        max: 2,
        duration: 300,
    };
    let cases = [
        (Group::Count, Reply::Counted(3), json!({"count": 3})),
        (
            Group::RateLimit,
            Reply::Rate(Some(rate)),
            json!({"limit": {"max": 2, "duration": 300}}),
        ),
        (Group::RateLimit, Reply::Rate(None), json!({"limit": null})),
        (Group::RateLimitTtl, Reply::Span(-2), json!({"ttl": -2})),
        (
            Group::Concurrency,
            Reply::Concurrency(Some(2)),
            json!({"concurrency": 2}),
        ),
        (
            Group::Concurrency,
            Reply::Concurrency(None),
            json!({"concurrency": null}),
        ),
        (Group::Removed, Reply::Counted(1), json!({"removed": 1})),
        (Group::Changed, Reply::Flag(true), json!({"changed": true})),
        (Group::Paused, Reply::Flag(false), json!({"paused": false})),
    ];
    for (shape, reply, data) in cases {
        let shown = shown(&Shape::Group(shape), Ok(reply));
        assert_eq!(shown, json!({"ok": true, "data": data}), "{shape:?}");
    }
}
