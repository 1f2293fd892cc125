//! Clients that were turned away, told of in the log: the first of each kind, then one line a minute.

use std::fmt;
use std::net::SocketAddr;

use super::session::Ended;
use crate::net::Throttle;

/// Why a client did not get what it wanted from its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Refused {
    /// It asked before it had sent a token.
    NoToken,
    /// Its token is none of ours.
    WrongToken,
    /// It sent more frames than it may.
    TooManyFrames,
    /// It does not speak TLS, or not ours.
    NoHandshake,
    /// See [`Ended::FrameTooLarge`].
    FrameTooLarge,
    /// See [`Ended::Stalled`].
    Stalled,
    /// See [`Ended::SlowReader`].
    SlowReader,
}

impl Refused {
    /// All of them; so many are remembered.
    const COUNT: usize = 7;

    /// What the end of a connection was to its client, unless that was the client's or the operator's own wish.
    pub(super) const fn by(ended: Ended) -> Option<Self> {
        match ended {
            Ended::FrameTooLarge => Some(Self::FrameTooLarge),
            Ended::Stalled => Some(Self::Stalled),
            Ended::SlowReader => Some(Self::SlowReader),
            Ended::Closed | Ended::Broken | Ended::Shutdown => None,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoToken => "no token",
            Self::WrongToken => "wrong token",
            Self::TooManyFrames => "too many frames",
            Self::NoHandshake => "no TLS handshake",
            Self::FrameTooLarge => "a frame above the limit",
            Self::Stalled => "a frame that stayed incomplete",
            Self::SlowReader => "it did not read what it was sent",
        })
    }
}

/// What has been told of refusals.
#[derive(Debug)]
pub(super) struct Refusals(Throttle<Refused>);

impl Default for Refusals {
    fn default() -> Self {
        Self(Throttle::new(Refused::COUNT))
    }
}

impl Refusals {
    /// Notes a refusal, and tells of it when it is time to: why, how many there were, and whom it hit last.
    pub(super) fn another(&self, reason: Refused, peer: SocketAddr) {
        if let Some(times) = self.0.another(reason) {
            tracing::warn!(%reason, times, %peer, "refused or disconnected clients");
        }
    }
}
