//! Limits of queues: what is read and what is refused.

use super::*;
use crate::command::{GetQueueLimits, SetConcurrency, SetRateLimit};
use crate::engine::RateLimit;

#[test]
fn a_rate_takes_numbers_in_any_form() {
    let set = |limit: Json, duration: Json, ttl: Json| {
        let frame = json!({
            "cmd": "RateLimit", "queue": "any queue", "limit": limit, "duration": duration, "ttl": ttl,
        });
        match command(&frame) {
            (Command::SetRateLimit(SetRateLimit { limit, ttl, .. }), Shape::Done) => (limit, ttl),
            other => panic!("{other:?}"),
        }
    };
    let rate = |max, duration| RateLimit { max, duration };
    assert_eq!(
        set(json!("3"), json!("500"), json!("9")),
        (rate(3, 500), Some(9))
    );
    assert_eq!(
        set(json!(2), json!(-5), json!(null)),
        (rate(2, 1_000), None)
    );
    assert_eq!(
        set(json!(2), json!("junk"), json!(0)),
        (rate(2, 1_000), None)
    );
}

#[test]
fn what_is_no_limit_is_refused() {
    for cmd in ["RateLimit", "SetConcurrency"] {
        for limit in [json!("x"), json!(null), json!([1])] {
            let frame = json!({"cmd": cmd, "queue": "q", "limit": limit});
            assert_eq!(refused(&frame), "limit must be a finite number", "{frame}");
        }
        let absent = json!({"cmd": cmd, "queue": "q"});
        assert_eq!(refused(&absent), "limit must be a finite number");
    }
    let jobs = json!({"cmd": "GetQueueLimits", "queue": "q", "maxJobs": "5"});
    assert_eq!(refused(&jobs), "maxJobs must be a number");
}

#[test]
fn a_cap_and_a_reading_are_taken() {
    let cap = json!({"cmd": "SetConcurrency", "queue": "q", "limit": "2.9"});
    match command(&cap) {
        (Command::SetConcurrency(SetConcurrency { limit, .. }), Shape::Done) => {
            assert_eq!(limit, 2)
        }
        other => panic!("{other:?}"),
    }
    for (sent, jobs) in [
        (json!(5), Some(5)),
        (json!(-1), Some(0)),
        (json!(null), None),
    ] {
        let frame = json!({"cmd": "GetQueueLimits", "queue": "q", "maxJobs": sent});
        let (read, shape) = command(&frame);
        let queue = QueueName::lenient("q");
        assert_eq!(read, GetQueueLimits { queue, jobs }.into());
        assert_eq!(shape, Shape::QueueLimits);
    }
}
