//! What the doors need of the network: connections as they come in, whatever the system is short of, TLS, and a log that
//! many alike failures do not fill.

mod listener;
mod throttle;
mod tls;

pub use listener::Listener;
pub use throttle::Throttle;
pub use tls::{HANDSHAKE_MAX, Tls, TlsError, TlsFile};
