//! What the doors need of the network: connections as they come in, whatever the system is short of, and TLS.

mod listener;
mod tls;

pub use listener::Listener;
pub use tls::{HANDSHAKE_MAX, Tls, TlsError, TlsFile};
