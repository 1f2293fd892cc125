//! What has to hold for whatever the server says, judged by the decoder of the tests.

use bunqueue_mcp::wire::ReqId;
use bunqueue_mcp::wire::frame::{self, Front};

use crate::tcp::value::{self, Decoded, Wire};

/// The body of bytes that are exactly one frame.
pub fn body(said: &[u8]) -> &[u8] {
    match frame::front(said) {
        Front::Frame { body, rest: [] } => body,
        other => panic!("not one frame: {other:?}"),
    }
}

/// Checks a reply: one frame, one map that says how it went and to whom. Only a client that uses integers of 64 bits
/// itself (`wide`) may get such.
pub fn check(said: &[u8], req_id: &ReqId, wide: bool) -> Wire {
    let value = checked(said, wide);
    assert!(
        matches!(value.get("ok"), Some(Wire::Bool(_))),
        "without outcome: {value:?}"
    );
    let refused = value.get("ok") == Some(&Wire::Bool(false));
    assert_eq!(
        refused,
        matches!(value.get("error"), Some(Wire::Str(_))),
        "an error goes with a refusal: {value:?}"
    );
    let echoed = req_id.raw().map(|raw| value::decode(raw).unwrap().value);
    match (value.get("reqId"), &echoed) {
        (None, None) => {}
        (Some(actual), Some(expected)) => assert!(same(actual, expected), "{value:?}"),
        _ => panic!("{value:?} answers {echoed:?}"),
    }
    value
}

/// Checks an event.
pub fn check_event(said: &[u8], wide: bool) {
    let value = checked(said, wide);
    assert_eq!(value.get("type"), Some(&Wire::text("event")), "{value:?}");
    let job = value.get("event").and_then(|event| event.get("jobId"));
    assert!(matches!(job, Some(Wire::Str(_))), "{value:?}");
}

fn checked(said: &[u8], wide: bool) -> Wire {
    let Decoded {
        value,
        wide: is_wide,
    } = value::decode(body(said)).unwrap_or_else(|fault| panic!("{fault}: {said:02x?}"));
    assert!(wide || !is_wide, "64 bits nobody asked for: {value:?}");
    value
}

/// Whether two values are the same one; NaN is.
pub fn same(one: &Wire, other: &Wire) -> bool {
    match (one, other) {
        (Wire::Float(one), Wire::Float(other)) => one == other || one.is_nan() && other.is_nan(),
        (Wire::Array(one), Wire::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Wire::Map(one), Wire::Map(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| same(&one.0, &other.0) && same(&one.1, &other.1))
        }
        _ => one == other,
    }
}

/// Arrays and maps inside each other.
pub fn depth(value: &Wire) -> usize {
    match value {
        Wire::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Wire::Map(entries) => {
            let depths = entries
                .iter()
                .map(|(key, value)| depth(key).max(depth(value)));
            1 + depths.max().unwrap_or(0)
        }
        _ => 0,
    }
}
