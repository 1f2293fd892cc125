//! What a server is, as it tells agents: how jobs are kept, how the agent is connected, what is switched on. Values in force,
//! filled in where the program starts; never a token, a key or a path.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::decision::DecisionModel;
use super::registry::{Registry, Selection};
use super::stdio::LINE_MAX;
use crate::broker::Broker;
use crate::engine::Durability;
use crate::handlers::Handlers;
use crate::metrics::{Exporter, ToolFigures};

/// A description of the server.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// Where the engine is.
    pub mode: Mode,
    /// What of an answered change is still there after a crash; without a data file nothing.
    pub durability: Durability,
    /// How agents are connected.
    pub transport: Transport,
    /// Where ordinary workers reach the same queues, if they can.
    pub tcp_port: Option<u16>,
    /// The set of defaults that was chosen, if one was.
    pub profile: Option<&'static str>,
    /// Queues with figures of their own in the metrics.
    pub labelled_queues: usize,
}

/// Where the engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In this process.
    Embedded,
    /// On another server.
    Remote,
}

impl Mode {
    /// Its name on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Remote => "tcp",
        }
    }
}

/// How agents are connected.
#[derive(Clone, Debug)]
pub enum Transport {
    /// One agent, on standard input and output.
    Stdio,
    /// Any number of agents, on one endpoint.
    Http(HttpFacts),
}

/// What an endpoint tells of itself.
#[derive(Clone, Debug)]
pub struct HttpFacts {
    /// Sessions that are open.
    pub open: OpenSessions,
    /// Sessions at one time.
    pub max_sessions: usize,
    /// A session closes when it was idle for so long.
    pub session_ttl: Duration,
    /// Whether agents have to send a token.
    pub has_tokens: bool,
    /// Longest body of a request, in bytes.
    pub max_body: usize,
}

impl Transport {
    /// Its name on every surface.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http(_) => "http",
        }
    }

    /// Bytes of one message.
    pub const fn max_body(&self) -> usize {
        match self {
            Self::Stdio => LINE_MAX,
            Self::Http(facts) => facts.max_body,
        }
    }
}

/// How many sessions are open; clones count together.
#[derive(Clone, Debug, Default)]
pub struct OpenSessions(Arc<AtomicUsize>);

impl OpenSessions {
    /// Counts one more until what is returned is dropped.
    pub fn enter(&self) -> CountedSession {
        self.0.fetch_add(1, Ordering::Relaxed);
        CountedSession(self.clone())
    }

    /// The number.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A session among the [`OpenSessions`].
#[derive(Debug)]
pub struct CountedSession(OpenSessions);

impl Drop for CountedSession {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for ServerInfo {
    /// A server in memory for one agent, with every switch off.
    fn default() -> Self {
        Self {
            mode: Mode::Embedded,
            durability: Durability::None,
            transport: Transport::Stdio,
            tcp_port: None,
            profile: None,
            labelled_queues: 0,
        }
    }
}

/// What every call of a server shares.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) registry: Arc<Registry>,
    /// The toolsets that are exposed.
    pub(super) selection: Selection,
    pub(super) info: ServerInfo,
    pub(super) broker: Arc<dyn Broker>,
    /// Workers that call a URL.
    pub(super) handlers: Arc<Handlers>,
    /// Waits end when it fires.
    pub(super) shutdown: CancellationToken,
    /// What has been called so far.
    pub(super) figures: Arc<ToolFigures>,
    /// The metrics of the broker, with those figures.
    pub(super) metrics: Exporter,
    /// What finds toolsets and judges requests.
    pub(super) model: Option<Arc<DecisionModel>>,
    /// Guarded calls have to be confirmed.
    pub(super) is_confirming: bool,
    /// Tools about tools.
    pub(super) meta_tools: usize,
}
