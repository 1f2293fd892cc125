//! Replies as frames: the one place where a reply gets its length.
//!
//! A reply that no frame can hold becomes a refusal that says so, since a longer one would cost the
//! client its connection.

use crate::command::bounds::FRAME_MAX;
use crate::command::{CommandError, Reply};
use crate::engine::{Millis, Overview};

use super::encode::{self, Entries, Success};
use super::envelope::ReqId;
use super::frame;
use super::shape::Shape;

/// The protocol spoken here (tcp protocol section 5).
const PROTOCOL_VERSION: i64 = 3;

/// What a few replies show that neither request nor broker knows; asked only for those.
pub trait Surroundings {
    /// Ms since the Unix epoch.
    fn now(&self) -> Millis;

    /// What the process takes.
    fn memory(&self) -> Memory;

    /// These figures as text for Prometheus.
    fn exposition(&self, overview: &Overview) -> String;
}

/// Bytes that a process takes; zero where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Those that stand for no file.
    pub heap: u64,
    /// Those in RAM.
    pub resident: u64,
}

/// Appends the reply to a command. The answer is whether the reply fitted into a frame.
pub fn answer(
    out: &mut Vec<u8>,
    req_id: &ReqId,
    shape: &Shape,
    answer: &Result<Reply, CommandError>,
    around: &dyn Surroundings,
) -> bool {
    let payloads = answer.as_ref().map_or(0, Reply::payload_bytes);
    if payloads > FRAME_MAX {
        // Known before a byte of it is copied.
        too_large(out, req_id);
        return false;
    }
    // At once: a buffer that grows by doubling takes up to three times as much on its way.
    out.reserve(payloads);
    let mut refusal = None;
    let fits = frame::append(out, |out| {
        refusal = encode::reply(out, req_id, shape, answer, around).err();
        if let Some(text) = &refusal {
            refused(out, req_id, text);
        }
    });
    if !fits {
        too_large(out, req_id);
    }
    fits
}

/// Appends a refusal.
pub fn refuse(out: &mut Vec<u8>, req_id: &ReqId, text: &str) {
    if !frame::append(out, |out| refused(out, req_id, text)) {
        too_large(out, req_id);
    }
}

/// Appends the reply that has nothing to say but yes.
pub fn done(out: &mut Vec<u8>, req_id: &ReqId) {
    success(out, req_id, |success| {
        success.with(0);
    });
}

/// Appends the reply to `Hello`.
pub fn hello(out: &mut Vec<u8>, req_id: &ReqId) {
    success(out, req_id, |success| {
        let mut map = success.with(4);
        map.key("protocolVersion").integer(PROTOCOL_VERSION);
        map.texts("capabilities", &["pipelining", "separate-job-name"]);
        map.text("server", "bunqueue");
        map.text("version", env!("CARGO_PKG_VERSION"));
    });
}

/// Appends the reply to `Ping`, sent at `now`.
pub fn pong(out: &mut Vec<u8>, req_id: &ReqId, now: Millis) {
    success(out, req_id, |success| {
        let mut data = success.data(2);
        data.bool("pong", true);
        data.time("time", now);
    });
}

fn success(out: &mut Vec<u8>, req_id: &ReqId, write: impl FnOnce(Success<'_>)) {
    if !frame::append(out, |out| write(Success { out, req_id })) {
        too_large(out, req_id);
    }
}

fn refused(out: &mut Vec<u8>, req_id: &ReqId, text: &str) {
    let raw = req_id.raw();
    let mut map = Entries::new(out);
    map.header(2 + usize::from(raw.is_some()));
    map.bool("ok", false);
    map.text("error", text);
    if let Some(raw) = raw {
        map.raw("reqId", raw);
    }
}

/// Only an identity that fills a frame by itself is not repeated here.
fn too_large(out: &mut Vec<u8>, req_id: &ReqId) {
    let text = CommandError::ReplyTooLarge.wire_text();
    for req_id in [req_id, &ReqId::NONE] {
        if frame::append(out, |out| refused(out, req_id, &text)) {
            return;
        }
    }
}
