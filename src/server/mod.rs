//! The worker door: TCP connections that speak the wire protocol, and the events pushed to them.
//!
//! [`serve`] accepts connections until it is told to stop. Each connection is one task: `session` moves
//! bytes, `dialogue` turns frames into replies without touching a socket, `outbox` holds what leaves.
//! Rules about jobs are below the broker; forms of frames are in [`crate::wire`].
//!
//! Invariants: all complete frames of one read are applied together and answered in one write, up to a
//! portion; a wait never holds up what comes after it; whoever reads gets every answer, whatever their size; nothing a connection holds grows without a named limit, and a
//! connection at its limit harms no other; a panic ends one connection.

mod auth;
mod dialogue;
mod frame_limit;
mod holding;
mod listener;
mod outbox;
mod parked;
mod refusal;
mod session;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::net::Tls;

pub use frame_limit::FrameLimit;
pub use listener::serve;

/// How a listener is told to end.
#[derive(Clone, Debug)]
pub struct Stop {
    /// No new connections from now on; those that are there go on.
    pub accepting: CancellationToken,
    /// Everything ends.
    pub serving: CancellationToken,
}

impl Default for Stop {
    fn default() -> Self {
        let serving = CancellationToken::new();
        // Whoever ends everything does not accept either.
        let accepting = serving.child_token();
        Self { accepting, serving }
    }
}

/// What an operator may set about connections.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Encrypts the connections; `None`: they are plain.
    pub tls: Option<Tls>,
    /// Tokens of which a client must present one; without any, everybody may ask.
    pub tokens: Vec<String>,
    /// Encoded bytes that may wait for a client, and one frame more; then nothing is said or taken until it
    /// has read some, and a client that reads none is disconnected. `None` means any number.
    pub write_budget_bytes: Option<usize>,
    /// How long a frame may stay incomplete without a new byte. `None` means for ever.
    pub partial_frame_timeout: Option<Duration>,
    /// Frames a connection may send; `None` means any number.
    pub frame_limit: Option<FrameLimit>,
    /// Queues that have figures of their own in the text for Prometheus.
    pub labelled_queues: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            tls: None,
            tokens: Vec::new(),
            write_budget_bytes: Some(67_108_864),
            partial_frame_timeout: Some(Duration::from_secs(60)),
            frame_limit: None,
            labelled_queues: 100,
        }
    }
}
