//! The other end of the protocol: commands as requests, and the replies of another server as typed replies.
//!
//! [`exchange`] turns a command into an [`Exchange`]: the request, and how its reply is read. Both stand side by side, one
//! file per family of commands. The connection numbers requests, finds with [`incoming`] whose reply a frame is, and hands
//! it to [`Exchange::hear`].
//!
//! A server tells less than the engine knows. What it does not tell has an empty value here, but for what a second question
//! answers: then the result is [`Heard::Unclear`]. Commands that are made of several questions have no exchange of their own
//! ([`RemoteFault::Untranslated`]); whoever holds the connection composes them.

mod add;
mod answer;
mod ask;
mod change;
mod cron;
mod dlq;
mod event;
mod flow;
mod job;
mod limit;
mod monitor;
mod queue;
mod read;
mod refusal;
#[cfg(test)]
mod tests;
mod webhook;
mod work;
mod worker;

pub use dlq::{set_dlq_config, set_stall_config};
pub use event::read as event;
pub use flow::failures as child_failures;
pub use limit::limits as queue_limits;
pub use monitor::{exposition, metrics, stats};
pub use worker::{auth, hello, subscribe};

use std::sync::Arc;

use super::fields::Fields;
use super::frame;
use crate::command::payload::{Reader, Value, Writer};
use crate::command::{Command, CommandError, RemoteFault, Reply};
use crate::engine::{Change, JobId, Renewal, State};

/// How a success is read; `None` when it is not what the protocol says.
type Reading = Box<dyn FnOnce(&Fields<'_>) -> Option<Reply> + Send>;

/// What a refusal means.
enum Refused {
    /// An error, whatever it says.
    Error,
    /// That there is nothing of the kind, where it says so: that reply.
    Absent(Reply),
    /// That a job did not change, where it says so.
    Unchanged(JobId),
    /// That a delivery was not renewed, where it says so.
    NotRenewed(JobId),
}

/// A request, and how its reply is read.
pub struct Exchange {
    name: &'static str,
    entries: usize,
    body: Vec<u8>,
    read: Reading,
    refused: Refused,
}

/// What a reply came to.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// The answer.
    Reply(Reply),
    /// The server does not say why it did nothing, but the state of the job does.
    Unclear {
        /// The job.
        id: JobId,
        /// What was asked for.
        what: Unclear,
    },
}

/// What a server did not do, without saying why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// A change to a job.
    Change,
    /// The renewal of a delivery.
    Renewal,
}

impl Unclear {
    /// The reply for a job in that state, or for none.
    pub fn by_state(self, state: Option<State>) -> Reply {
        match (self, state) {
            (Self::Change, None) => Reply::Changed(Change::NotFound),
            (Self::Change, Some(state)) => Reply::Changed(Change::WrongState(state)),
            (Self::Renewal, None) => Reply::Renewed(vec![Renewal::NotFound]),
            (Self::Renewal, Some(State::Active)) => Reply::Renewed(vec![Renewal::InvalidToken]),
            (Self::Renewal, Some(_)) => Reply::Renewed(vec![Renewal::NotActive]),
        }
    }
}

/// What a frame of the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The reply to the request of that number.
    Reply(u64),
    /// An event.
    Event,
    /// Something that nobody has asked for.
    Other,
}

/// Looks at the body of a frame; `None` when it is no message of the protocol.
pub fn incoming(body: &[u8]) -> Option<Incoming> {
    let fields = message(body)?;
    if fields.value("type") == Some(Value::Str(b"event")) {
        return Some(Incoming::Event);
    }
    // Every reply says whether it is a success.
    let Some(Value::Bool(_)) = fields.value("ok") else {
        return None;
    };
    let number = fields
        .value("reqId")
        .and_then(|id| id.as_text()?.parse().ok());
    Some(number.map_or(Incoming::Other, Incoming::Reply))
}

/// The entries of a message: one map and nothing else.
fn message(body: &[u8]) -> Option<Fields<'_>> {
    let mut reader = Reader::new(body);
    let Ok(Value::Map(entries)) = reader.read() else {
        return None;
    };
    let fields = Fields::read(&mut reader, entries)?;
    reader.finish().ok().map(|()| fields)
}

/// What to ask another server for a command.
///
/// # Errors
/// [`RemoteFault::Untranslated`] for a command that the protocol has no single request for.
pub fn exchange(command: &Command) -> Result<Exchange, CommandError> {
    work::exchange(command)
        .or_else(|| add::exchange(command))
        .or_else(|| read::exchange(command))
        .or_else(|| change::exchange(command))
        .or_else(|| queue::exchange(command))
        .or_else(|| dlq::exchange(command))
        .or_else(|| flow::exchange(command))
        .or_else(|| cron::exchange(command))
        .or_else(|| limit::exchange(command))
        .or_else(|| worker::exchange(command))
        .or_else(|| webhook::exchange(command))
        .or_else(|| monitor::exchange(command))
        .ok_or(CommandError::Remote(RemoteFault::Untranslated))
}

impl Exchange {
    /// The request as a frame under that number.
    ///
    /// # Errors
    /// [`RemoteFault::TooLarge`].
    pub fn frame(&self, number: u64) -> Result<Vec<u8>, CommandError> {
        const OUTSIDE: usize = 64;
        let mut out = Vec::with_capacity(self.body.len() + OUTSIDE);
        let fits = frame::append(&mut out, |out| {
            let mut writer = Writer::new(out);
            writer.map(self.entries + 2);
            writer.text("cmd");
            writer.text(self.name);
            writer.text("reqId");
            writer.text(&number.to_string());
            writer.raw(&self.body);
        });
        if fits {
            Ok(out)
        } else {
            Err(RemoteFault::TooLarge.into())
        }
    }

    /// Reads the reply.
    ///
    /// # Errors
    /// Those that the server tells, in its own words; [`RemoteFault::Unreadable`].
    pub fn hear(self, body: &[u8]) -> Result<Heard, CommandError> {
        let fields = message(body).ok_or(RemoteFault::Unreadable)?;
        if fields.is_true("ok") {
            let reply = (self.read)(&fields);
            return Ok(Heard::Reply(reply.ok_or(RemoteFault::Unreadable)?));
        }
        let text = fields.text("error").ok().flatten();
        let text: Arc<str> = text.map_or_else(|| format!("{} failed", self.name).into(), Arc::from);
        match self.refused {
            Refused::Absent(reply) if refusal::is_absence(&text) => Ok(Heard::Reply(reply)),
            Refused::Unchanged(id) if refusal::is_no(&text) => Ok(match refusal::state_in(&text) {
                None => Heard::Unclear {
                    id,
                    what: Unclear::Change,
                },
                state => Heard::Reply(Unclear::Change.by_state(state)),
            }),
            Refused::NotRenewed(id) if refusal::is_no(&text) => Ok(Heard::Unclear {
                id,
                what: Unclear::Renewal,
            }),
            _ => Err(refusal::told(&text)),
        }
    }

    /// What a refusal of it means.
    fn or(mut self, refused: Refused) -> Self {
        self.refused = refused;
        self
    }
}
