//! A broker executes commands: the trait that every door talks to, and its implementations.
//!
//! [`local`] runs the engine in this process. Commands submitted together are applied in order and before
//! `submit` returns; whatever has to wait comes back as a future. Dropping that future withdraws the wait,
//! and a job that was already handed to it goes back to its queue. [`remote`] asks another server.

mod allowance;
mod calls;
mod clock;
mod hub;
mod keeping;
mod local;
mod meter;
mod reading;
mod remote;
mod running;
mod shared;
mod storing;
mod timer;
mod wait;
mod writer;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use allowance::READ_BYTES_MAX;
pub use calls::{ALL_CALL_BYTES_MAX, CALL_BYTES_MAX, CALLS_MAX, Calls, PendingCall};
pub use clock::{Clock, ManualClock, SystemClock};
pub use hub::{BACKLOG_BYTES_MAX, BACKLOG_MAX, EventFilter, PublishedEvent, Subscription};
pub use keeping::UNSAVED_MAX;
pub use local::{LocalBroker, OpenError};
pub use remote::{
    ANSWER_MAX, DialError, IN_FLIGHT_MAX, RemoteAddress, RemoteBroker, WAITS_PER_CONNECTION,
};

use crate::command::{Command, CommandError, Operation, Reply};
use crate::engine::{ConnectionId, Delivery, EventKind, Millis};

/// The answer to a command that has to wait.
pub type Pending = Pin<Box<dyn Future<Output = Result<Reply, CommandError>> + Send>>;

/// Ends when what was done is stored.
pub type Storing = Pin<Box<dyn Future<Output = Result<(), CommandError>> + Send>>;

/// The metrics of another server.
pub type Exposition = Pin<Box<dyn Future<Output = Result<Arc<str>, CommandError>> + Send>>;

/// The answer to a command, now or later.
pub enum Submitted {
    /// Applied and answered.
    Done(Result<Reply, CommandError>),
    /// Accepted; the answer comes later.
    Later(Pending),
}

impl Submitted {
    /// Waits for the answer.
    ///
    /// # Errors
    /// Those of the command.
    pub async fn wait(self) -> Result<Reply, CommandError> {
        match self {
            Self::Done(reply) => reply,
            Self::Later(pending) => pending.await,
        }
    }
}

/// Something that executes commands.
pub trait Broker: Send + Sync + 'static {
    /// Applies `commands` in order, emptying the list, and appends one answer for each to `answers`.
    ///
    /// `caller` is the connection that asks; deliveries made to it are released when it closes. Nobody may hear the answers
    /// that are there before what is returned has ended; if it ends with an error, that is the answer to all of them.
    fn submit(
        &self,
        caller: Option<ConnectionId>,
        commands: &mut Vec<Command>,
        answers: &mut Vec<Submitted>,
    ) -> Option<Storing>;

    /// Applies one command.
    fn submit_one(&self, caller: Option<ConnectionId>, command: Command) -> Submitted;

    /// A new connection.
    fn connect(&self) -> ConnectionId;

    /// Connections that are open.
    fn connections(&self) -> usize;

    /// The connection is gone: its waits end, its deliveries go back, its workers are forgotten.
    fn disconnect(&self, connection: ConnectionId);

    /// These deliveries were never told to anybody: as far as they last, their jobs go back as if they had not been
    /// handed out.
    fn give_back(&self, deliveries: &[Delivery]);

    /// The time by which everything here happens, Unix ms.
    fn now(&self) -> Millis;

    /// Events from now on. The subscription ends when it is dropped.
    fn subscribe(&self, filter: EventFilter) -> Subscription;

    /// Says what concerns no single queue to everybody who wants to hear of it, as an event of the queue that he listens to;
    /// false when nobody does.
    fn announce(&self, notice: EventKind) -> bool;

    /// Whether another server executes the commands.
    fn is_remote(&self) -> bool {
        false
    }

    /// The metrics of the server that this broker stands for, as text for Prometheus; `None` when that is this process.
    fn exposition(&self) -> Option<Exposition> {
        None
    }

    /// Hands out nothing from now on; waits and other commands go on. What it returns ends once no job is active.
    fn stop_deliveries(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Ends every wait with an empty answer and refuses new ones; other commands go on.
    fn shut_down(&self);

    /// Stores what is still to be stored and closes the file, if there is one. What it returns ends once that is done.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Typed calls on any broker.
pub trait BrokerExt {
    /// Executes one command and waits for its answer.
    ///
    /// # Errors
    /// Those of the command; [`CommandError::Internal`] when the broker answers out of turn.
    fn call<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = Result<O::Reply, CommandError>> + Send;
}

impl<B: Broker + ?Sized> BrokerExt for B {
    fn call<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = Result<O::Reply, CommandError>> + Send {
        let submitted = self.submit_one(None, operation.into());
        async move { O::reply(submitted.wait().await?).ok_or(CommandError::Internal) }
    }
}
