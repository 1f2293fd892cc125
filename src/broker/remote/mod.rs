//! A broker that is another server: commands travel over its worker protocol (tcp protocol; MCP contract, section 2).
//!
//! A pool of connections, each pipelined, carries the commands ([`pool`], [`link`]). What one request cannot answer is
//! composed of several ([`composed`]); waits and what they are handed are in [`waits`], events in [`events`]. The bytes are
//! those of [`crate::wire::client`].
//!
//! Nobody here holds jobs for a client of ours: the server knows this program's connections only, so `connect` and
//! `disconnect` just count.

mod composed;
mod dial;
mod events;
mod link;
mod pool;
#[cfg(test)]
mod tests;
mod waits;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

pub use dial::{DialError, RemoteAddress};
pub use link::IN_FLIGHT_MAX;
pub use waits::WAITS_PER_CONNECTION;

use super::{
    Broker, Clock, EventFilter, Exposition, Storing, Submitted, Subscription, SystemClock,
};
use crate::command::{Command, CommandError, GetState, Operation, RemoteFault, Reply};
use crate::engine::{ConnectionId, Delivery, EventKind, IdSource, Millis};
use crate::wire::client::{self, Exchange, Heard};
use events::Watchers;
use pool::Pool;
use waits::Waits;

/// Time for the answer to a command, beyond what it may wait (MCP contract, section 2).
pub const ANSWER_MAX: Duration = Duration::from_secs(45);

/// A broker that is another server.
pub struct RemoteBroker {
    inner: Arc<Inner>,
    connections: AtomicUsize,
    next_connection: AtomicU64,
}

struct Inner {
    pool: Pool,
    waits: Waits,
    watchers: Arc<Watchers>,
    clock: SystemClock,
    ids: Mutex<IdSource>,
    runtime: Handle,
    /// Fires when waits are to end.
    stopping: CancellationToken,
}

impl RemoteBroker {
    /// Connects to the server, shows the token if there is one, and makes sure that it answers. Further connections of the
    /// pool follow in the background.
    ///
    /// # Errors
    /// When this server cannot be reached, or does not let this program in.
    pub async fn connect(address: RemoteAddress, connections: usize) -> Result<Self, DialError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| DialError::Io(io::Error::other(error)))?;
        let address = Arc::new(address);
        let pool = Pool::connect(Arc::clone(&address), connections).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                waits: Waits::new(connections),
                watchers: Watchers::new(address, pool.closed().clone()),
                pool,
                clock: SystemClock::new(),
                ids: Mutex::new(IdSource::new(seed)),
                runtime: Handle::current(),
                stopping: CancellationToken::new(),
            }),
            connections: AtomicUsize::new(0),
            next_connection: AtomicU64::new(0),
        })
    }
}

impl Inner {
    /// Executes a command that does not wait.
    async fn run(self: &Arc<Self>, command: Command) -> Result<Reply, CommandError> {
        match composed::compose(self, command).await {
            Ok(reply) => reply,
            Err(command) => self.hear(client::exchange(&command)?, Duration::ZERO).await,
        }
    }

    /// One request and its reply, which may take `wait` longer than others.
    async fn hear(&self, exchange: Exchange, wait: Duration) -> Result<Reply, CommandError> {
        match self.pool.ask(exchange, ANSWER_MAX + wait).await? {
            Heard::Reply(reply) => Ok(reply),
            Heard::Unclear { id, what } => {
                let question = client::exchange(&GetState { id }.into())?;
                match self.pool.ask(question, ANSWER_MAX).await? {
                    Heard::Reply(Reply::State(state)) => Ok(what.by_state(state)),
                    _ => Err(RemoteFault::Unreadable.into()),
                }
            }
        }
    }

    /// Executes one command of a known type, in one request.
    async fn ask<O: Operation>(&self, operation: O) -> Result<O::Reply, CommandError> {
        let exchange = client::exchange(&operation.into())?;
        let reply = self.hear(exchange, Duration::ZERO).await?;
        O::reply(reply).ok_or_else(|| RemoteFault::Unreadable.into())
    }
}

impl Broker for RemoteBroker {
    fn submit(
        &self,
        caller: Option<ConnectionId>,
        commands: &mut Vec<Command>,
        answers: &mut Vec<Submitted>,
    ) -> Option<Storing> {
        answers.extend(
            commands
                .drain(..)
                .map(|command| self.submit_one(caller, command)),
        );
        None
    }

    fn submit_one(&self, _: Option<ConnectionId>, command: Command) -> Submitted {
        let inner = Arc::clone(&self.inner);
        match command {
            Command::Pull(pull) => waits::pull(&inner, pull),
            Command::WaitJob(wait) => {
                Submitted::Later(Box::pin(async move { waits::job(&inner, wait).await }))
            }
            command => Submitted::Later(Box::pin(async move { inner.run(command).await })),
        }
    }

    fn connect(&self) -> ConnectionId {
        self.connections.fetch_add(1, Ordering::Relaxed);
        ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed))
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn disconnect(&self, _: ConnectionId) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    fn give_back(&self, deliveries: &[Delivery]) {
        waits::give_back(&self.inner, deliveries.to_vec());
    }

    fn now(&self) -> Millis {
        self.inner.clock.now()
    }

    fn subscribe(&self, filter: EventFilter) -> Subscription {
        self.inner.watchers.subscribe(filter, &self.inner.runtime)
    }

    /// What concerns the server is for the server to tell.
    fn announce(&self, _: EventKind) -> bool {
        false
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn exposition(&self) -> Option<Exposition> {
        let inner = Arc::clone(&self.inner);
        Some(Box::pin(async move {
            match inner.hear(client::exposition(), Duration::ZERO).await? {
                Reply::Names(texts) => texts
                    .into_iter()
                    .next()
                    .ok_or_else(|| RemoteFault::Unreadable.into()),
                _ => Err(RemoteFault::Unreadable.into()),
            }
        }))
    }

    /// Active jobs are those of the server, which goes on.
    fn stop_deliveries(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn shut_down(&self) {
        self.inner.stopping.cancel();
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            inner.stopping.cancel();
            inner.waits.given_back().await;
            inner.pool.close().await;
        })
    }
}
