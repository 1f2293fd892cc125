//! From an answer of the broker to the bytes of a reply.
//!
//! Every reply is one map: `ok`, what the command answers, and the request's identity byte for byte. A
//! key without a value is left out where the protocol says absent, and nil where it says nil (tcp
//! protocol section 3.2). Payloads are copied as they are.

mod cron;
mod dlq;
mod flow;
mod group;
mod job;
mod monitor;
mod outcome;
mod query;
#[cfg(test)]
mod tests;
mod webhook;

use std::borrow::Cow;

use crate::command::bounds::FRAME_MAX;
use crate::command::payload::Writer;
use crate::command::{CommandError, Reply};
use crate::engine::Millis;

use super::envelope::ReqId;
use super::reply::Surroundings;
use super::shape::Shape;

/// The text of a refusal.
pub(super) type Refusal = Cow<'static, str>;

/// Writes the map of a reply. Nothing is written when it is refused.
///
/// # Errors
/// The text of the refusal.
pub(super) fn reply(
    out: &mut Vec<u8>,
    req_id: &ReqId,
    shape: &Shape,
    answer: &Result<Reply, CommandError>,
    around: &dyn Surroundings,
) -> Result<(), Refusal> {
    let reply = match answer {
        Ok(reply) => reply,
        Err(error) => return Err(error.wire_text().into()),
    };
    let success = Success { out, req_id };
    let tried = match shape {
        Shape::Dlq(shape) => dlq::write(success, *shape, reply),
        Shape::Group(shape) => group::write(success, *shape, reply),
        Shape::Flow(shape) => flow::write(success, *shape, reply),
        Shape::Cron(shape) => cron::write(success, *shape, reply),
        Shape::Webhook(shape) => webhook::write(success, *shape, reply),
        Shape::Monitor(shape) => monitor::write(success, *shape, reply, around),
        shape => match outcome::write(success, shape, reply) {
            Tried::NotMine(success) => query::write(success, shape, reply, around),
            written => written,
        },
    };
    match tried {
        Tried::Written(result) => result,
        Tried::NotMine(_) => {
            tracing::error!("the broker answered something else than it was asked");
            Err(CommandError::Internal.to_string().into())
        }
    }
}

/// What a family of replies did with an answer.
enum Tried<'a> {
    Written(Result<(), Refusal>),
    NotMine(Success<'a>),
}

/// A reply that has not begun: whether it succeeds decides what is written first.
pub(super) struct Success<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) req_id: &'a ReqId,
}

impl<'a> Success<'a> {
    /// Begins the map; that many entries must follow.
    pub(super) fn with(self, entries: usize) -> Entries<'a> {
        let raw = self.req_id.raw();
        let mut map = Entries::new(self.out);
        map.header(1 + usize::from(raw.is_some()) + entries);
        map.bool("ok", true);
        if let Some(raw) = raw {
            map.raw("reqId", raw);
        }
        map
    }

    /// The whole reply of a command that has nothing to say.
    pub(super) fn nothing(self) {
        self.with(0);
    }

    /// Begins a reply whose payload stands under `data`; that many entries of it must follow.
    pub(super) fn data(self, entries: usize) -> Entries<'a> {
        let mut map = self.with(1);
        map.nested("data", entries);
        map
    }
}

/// Entries of a map under construction: keys with their values.
pub(super) struct Entries<'a> {
    out: &'a mut Vec<u8>,
    /// Where the map begins.
    start: usize,
}

impl<'a> Entries<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start }
    }

    /// The value side, for whatever has no method here.
    pub(super) fn key(&mut self, key: &str) -> Writer<'_> {
        let mut writer = Writer::new(self.out);
        writer.text(key);
        writer
    }

    /// The buffer, for values that write themselves.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// The header of a map that stands where a value is expected.
    pub(super) fn header(&mut self, entries: usize) {
        Writer::new(self.out).map(entries);
    }

    /// A map as value; that many entries must follow.
    pub(super) fn nested(&mut self, key: &str, entries: usize) {
        self.key(key).map(entries);
    }

    pub(super) fn bool(&mut self, key: &str, value: bool) {
        self.key(key).bool(value);
    }

    pub(super) fn nil(&mut self, key: &str) {
        self.key(key).nil();
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.key(key).text(value);
    }

    pub(super) fn number(&mut self, key: &str, value: f64) {
        self.key(key).number(value);
    }

    pub(super) fn time(&mut self, key: &str, value: Millis) {
        self.key(key).integer(value);
    }

    pub(super) fn count(&mut self, key: &str, value: usize) {
        self.key(key)
            .integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub(super) fn raw(&mut self, key: &str, value: &[u8]) {
        self.key(key).raw(value);
    }

    pub(super) fn text_or_nil(&mut self, key: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text(key, value),
            None => self.nil(key),
        }
    }

    pub(super) fn number_or_nil(&mut self, key: &str, value: Option<f64>) {
        match value {
            Some(value) => self.number(key, value),
            None => self.nil(key),
        }
    }

    pub(super) fn time_or_nil(&mut self, key: &str, value: Option<Millis>) {
        match value {
            Some(value) => self.time(key, value),
            None => self.nil(key),
        }
    }

    /// An array with an entry for each item. Once no frame can hold the map nothing more is written: the reply will be
    /// refused as a whole, and building the rest of it would only cost memory.
    pub(super) fn items<T>(
        &mut self,
        key: &str,
        items: &[T],
        mut write: impl FnMut(&mut Entries<'a>, &T),
    ) {
        self.key(key).array(items.len());
        for item in items {
            if self.is_beyond_a_frame() {
                return;
            }
            write(self, item);
        }
    }

    /// Whether no frame can hold the map any more; whoever writes in a loop stops then.
    pub(super) fn is_beyond_a_frame(&self) -> bool {
        self.out.len() - self.start > FRAME_MAX
    }

    /// A text as item of an array that has begun.
    pub(super) fn item(&mut self, value: &str) {
        Writer::new(self.out).text(value);
    }

    /// A list of texts.
    pub(super) fn texts<T: AsRef<str>>(&mut self, key: &str, values: &[T]) {
        let mut writer = self.key(key);
        writer.array(values.len());
        for value in values {
            writer.text(value.as_ref());
        }
    }
}
