//! What the program needs of the network: connections as they come in, whatever the system is short of, clients of other
//! servers, TLS, and a log that many alike failures do not fill.

mod authority;
mod client;
mod listener;
mod throttle;
mod tls;

pub use authority::{AllowedHost, Authority, Host, InvalidEntry, is_loopback};
pub use client::outgoing;
pub use listener::{Listener, prepare};
pub use throttle::Throttle;
pub use tls::{HANDSHAKE_MAX, Tls, TlsError, TlsFile};
