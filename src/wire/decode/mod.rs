//! From an envelope to what it asks for.
//!
//! One file per family of commands. Each field is checked in the order that the protocol gives for its
//! command, and the first fault answers.

mod cron;
mod dlq;
mod flow;
mod group;
mod limit;
mod manage;
mod monitor;
mod pull;
mod push;
mod query;
mod report;
#[cfg(test)]
mod tests;
mod webhook;
mod worker;

use std::sync::Arc;

use crate::command::payload::Value;
use crate::command::{ArgumentError, Command, CommandError, QueueName, Reply};

use crate::engine::EventTypes;

use super::envelope::Envelope;
use super::fields::Fields;
use super::shape::Shape;

/// Characters of an unknown command's name that are repeated to its sender.
const ECHO_MAX: usize = 100;

/// What a request asks for.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Something between client and connection.
    Session(SessionAction),
    /// A command for the broker, and how to answer it.
    Command(Command, Shape),
    /// A request whose answer is known without the broker.
    Answered(Reply, Shape),
    /// An argument does not fit.
    Refused(CommandError),
    /// No such command; the text of the refusal.
    Unknown(String),
}

/// What the connection answers itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAction {
    /// Who are you?
    Hello,
    /// This is my token.
    Auth {
        /// The token, if it is text.
        token: Option<String>,
    },
    /// Are you there?
    Ping,
    /// Tell me what happens.
    Subscribe {
        /// In this queue.
        queue: QueueName,
        /// Only these types of event.
        types: EventTypes,
    },
    /// Tell me nothing more.
    Unsubscribe,
}

type Decoded = Result<Action, CommandError>;

/// Turns envelopes into actions.
///
/// A connection keeps one: most requests name the queue of the one before, and most jobs are called like the one before,
/// whose checked and shared text is then taken again instead of made again.
#[derive(Debug, Default)]
pub struct Decoder {
    queue: Option<QueueName>,
    job_name: Option<Arc<str>>,
}

impl Decoder {
    /// What the envelope asks for.
    pub fn decode(&mut self, envelope: &Envelope<'_>) -> Action {
        let fields = &envelope.fields;
        let decoded = match envelope.command {
            Value::Str(name) => self.by_name(name, fields),
            _ => None,
        };
        match decoded {
            Some(Ok(action)) => action,
            Some(Err(error)) => Action::Refused(error),
            None => Action::Unknown(unknown(&envelope.command)),
        }
    }

    /// The frequent commands first: the names are compared one after the other.
    fn by_name(&mut self, name: &[u8], fields: &Fields<'_>) -> Option<Decoded> {
        Some(match name {
            b"PUSHB" => push::push_many(self, fields),
            b"PUSH" => push::push(self, fields),
            b"PULLB" => pull::pull_many(self, fields),
            b"PULL" => pull::pull(self, fields),
            b"ACK" => report::ack(fields),
            b"ACKB" => report::ack_many(fields),
            b"FAIL" => report::fail(fields),
            b"Progress" => report::progress(fields),
            b"AddLog" => report::add_log(fields),
            b"JobHeartbeat" => report::job_heartbeat(fields),
            b"JobHeartbeatB" => report::job_heartbeat_many(fields),
            b"ExtendLock" => report::extend_lock(fields),
            b"ExtendLocks" => report::extend_locks(fields),
            b"Cancel" => manage::cancel(fields),
            b"Discard" => manage::discard(fields),
            b"Update" => manage::update(fields),
            b"ChangePriority" => manage::change_priority(fields),
            b"ChangeDelay" => manage::change_delay(fields),
            b"MoveToDelayed" => manage::move_to_delayed(fields),
            b"MoveToWait" => manage::move_to_wait(fields),
            b"MoveToWaitingChildren" => manage::move_to_waiting_children(fields),
            b"Promote" => manage::promote(fields),
            b"PromoteJobs" => manage::promote_jobs(fields),
            b"ClearLogs" => manage::clear_logs(fields),
            b"Pause" => manage::pause(fields),
            b"Resume" => manage::resume(fields),
            b"Drain" => manage::drain(fields),
            b"Clean" => manage::clean(fields),
            b"Obliterate" => manage::obliterate(fields),
            b"RemoveDeduplicationKey" => manage::remove_dedup_key(fields),
            b"RemoveJobDeduplicationKey" => manage::remove_job_dedup_key(fields),
            b"GetState" => query::get_state(fields),
            b"GetJob" => query::get_job(fields),
            b"GetJobByCustomId" => query::get_job_by_custom_id(fields),
            b"GetResult" => query::get_result(fields),
            b"GetProgress" => query::get_progress(fields),
            b"GetLogs" => query::get_logs(fields),
            b"WaitJob" => query::wait_job(fields),
            b"GetJobs" => query::get_jobs(fields),
            b"GetJobCounts" => query::get_job_counts(fields),
            b"GetCountsPerPriority" => query::get_counts_per_priority(fields),
            b"Count" => query::count_queued(fields),
            b"IsPaused" => query::is_paused(fields),
            b"ListQueues" => query::list_queues(),
            b"GetDeduplicationJobId" => query::get_dedup_owner(fields),
            b"RegisterWorker" => worker::register(fields),
            b"UnregisterWorker" => worker::unregister(fields),
            b"ListWorkers" => worker::list(),
            b"Heartbeat" => worker::heartbeat(fields),
            b"SubscribeEvents" => worker::subscribe(fields),
            b"UnsubscribeEvents" => Ok(Action::Session(SessionAction::Unsubscribe)),
            b"Ping" => Ok(Action::Session(SessionAction::Ping)),
            b"Hello" => Ok(Action::Session(SessionAction::Hello)),
            b"Auth" => Ok(Action::Session(worker::auth(fields))),
            _ => return self.by_family(name, fields),
        })
    }

    /// The others, each family by itself.
    fn by_family(&mut self, name: &[u8], fields: &Fields<'_>) -> Option<Decoded> {
        group::by_name(self, name, fields)
            .or_else(|| flow::by_name(name, fields))
            .or_else(|| dlq::by_name(name, fields))
            .or_else(|| limit::by_name(name, fields))
            .or_else(|| cron::by_name(self, name, fields))
            .or_else(|| webhook::by_name(name, fields))
            .or_else(|| monitor::by_name(name, fields))
    }

    /// A checked queue name.
    fn queue(&mut self, fields: &Fields<'_>) -> Result<QueueName, ArgumentError> {
        let text = fields.queue_text()?;
        match &self.queue {
            Some(last) if last.as_str() == text => Ok(last.clone()),
            _ => {
                let queue = QueueName::new(text)?;
                self.queue = Some(queue.clone());
                Ok(queue)
            }
        }
    }
}

/// A command and the form of its reply.
fn ask(command: impl Into<Command>, shape: Shape) -> Decoded {
    Ok(Action::Command(command.into(), shape))
}

fn unknown(command: &Value<'_>) -> String {
    match command {
        Value::Str(bytes) => match std::str::from_utf8(bytes) {
            Ok(name) => {
                let name: String = name.chars().take(ECHO_MAX).collect();
                format!("Unknown command: {name}")
            }
            Err(_) => "Invalid command".to_owned(),
        },
        Value::Bool(value) => format!("Unknown command: {value}"),
        value => match value.as_f64() {
            Some(number) => format!("Unknown command: {number}"),
            None => "Invalid command".to_owned(),
        },
    }
}
