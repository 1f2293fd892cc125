//! Target `frames`: bytes as they may arrive on a connection, down to commands.
//!
//! The first byte of an input says how the rest is cut into reads. Frames, their outsides and refusals are compared with
//! what the decoder of the tests makes of the same bytes.

use bunqueue_mcp::command::bounds::{FRAME_DEPTH_MAX, FRAME_MAX};
use bunqueue_mcp::wire::frame::{self, Front};
use bunqueue_mcp::wire::{Action, Decoder, Envelope, ReqId, reply};

use super::broker::Quiet;
use super::reply::{self as judge, depth, same};
use crate::tcp::value::{self, Wire};

/// Entries of the map of a command; no frame with more is a command.
const ENTRIES_MAX: usize = 1_024;

/// Plays one input.
pub fn run(input: &[u8]) {
    let Some((pace, stream)) = input.split_first() else {
        return;
    };
    let bodies = in_reads(stream, stream.len());
    assert_eq!(in_reads(stream, 1 + usize::from(*pace)), bodies, "cut");
    let mut decoder = Decoder::default();
    for body in bodies {
        understand(&mut decoder, &body);
    }
}

/// The bodies of all frames that are complete, when that many bytes arrive at a time.
fn in_reads(stream: &[u8], at_a_time: usize) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    let mut taken = 0;
    let mut arrived = 0;
    // Bytes that have to arrive before looking again can make a difference.
    let mut wanted = 0;
    while arrived < stream.len() {
        arrived = (arrived + at_a_time).min(stream.len());
        loop {
            match frame::front(&stream[taken..arrived]) {
                Front::Frame { body, rest } => {
                    assert!(arrived >= wanted, "a frame before its last byte");
                    bodies.push(body.to_vec());
                    taken = arrived - rest.len();
                }
                Front::Partial { missing } => {
                    assert!(missing > 0, "a whole frame is partial");
                    wanted = arrived + missing;
                    break;
                }
                Front::TooLarge { announced } => {
                    assert!(announced as usize > FRAME_MAX);
                    return bodies;
                }
            }
        }
    }
    bodies
}

fn understand(decoder: &mut Decoder, body: &[u8]) {
    let expected = outside(body);
    let envelope = match (Envelope::read(body), expected) {
        (Ok(envelope), Ok(req_id)) => {
            let raw = envelope.req_id().raw();
            let actual = raw.map(|raw| value::decode(raw).unwrap().value);
            assert!(
                match (&actual, &req_id) {
                    (Some(actual), Some(expected)) => same(actual, expected),
                    (actual, expected) => actual.is_none() && expected.is_none(),
                },
                "{actual:?} is not {req_id:?}"
            );
            envelope
        }
        (Err(unusable), Err(text)) => {
            assert_eq!(unusable.text, text, "{body:02x?}");
            return refuse(&unusable.req_id, unusable.text);
        }
        (actual, expected) => panic!("{actual:?} instead of {expected:?}: {body:02x?}"),
    };
    let action = decoder.decode(&envelope);
    let afresh = Decoder::default().decode(&envelope);
    // NaN is not equal to itself, but its text is.
    assert!(
        action == afresh || format!("{action:?}") == format!("{afresh:?}"),
        "what came before counts: {action:?}, {afresh:?}"
    );
    let req_id = envelope.into_req_id();
    match action {
        Action::Refused(error) => refuse(&req_id, &error.to_string()),
        Action::Unknown(text) => refuse(&req_id, &text),
        Action::Answered(answer, shape) => {
            let mut out = Vec::new();
            assert!(reply::answer(
                &mut out,
                &req_id,
                &shape,
                &Ok(answer),
                &Quiet(0)
            ));
            judge::check(&out, &req_id, true);
        }
        Action::Command(..) | Action::Session(_) => {}
    }
}

fn refuse(req_id: &ReqId, text: &str) {
    let mut out = Vec::new();
    reply::refuse(&mut out, req_id, text);
    let said = judge::check(&out, req_id, true);
    assert_eq!(said.get("error"), Some(&Wire::text(text)));
}

/// The identity in a frame that names a command; else how it is refused.
fn outside(body: &[u8]) -> Result<Option<Wire>, &'static str> {
    const FORMAT: &str = "Invalid command format";
    const COMMAND: &str = "Invalid command";
    let value = value::decode(body).map_err(|_| FORMAT)?.value;
    if depth(&value) > FRAME_DEPTH_MAX || is_falsy(&value) {
        return Err(FORMAT);
    }
    let Wire::Map(entries) = &value else {
        return Err(COMMAND);
    };
    if entries.len() > ENTRIES_MAX {
        return Err(FORMAT);
    }
    let field = |name: &str| {
        let last = entries.iter().rfind(|(key, _)| *key == Wire::text(name));
        let value = last.map(|(_, value)| value);
        value.filter(|value| !matches!(value, Wire::Ext(0, _)))
    };
    match field("cmd") {
        Some(command) if !is_falsy(command) => Ok(field("reqId").cloned()),
        _ => Err(COMMAND),
    }
}

/// Whether JavaScript takes the value as false; extension 0 is `undefined`.
fn is_falsy(value: &Wire) -> bool {
    match value {
        Wire::Nil | Wire::Bool(false) | Wire::Int(0) | Wire::Ext(0, _) => true,
        Wire::Float(number) => *number == 0.0 || number.is_nan(),
        Wire::Str(bytes) => bytes.is_empty(),
        _ => false,
    }
}
