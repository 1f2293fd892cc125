//! MCP on Streamable HTTP: one endpoint path, sessions for the handshake revisions, none for 2026-07-28.
//!
//! A layer of our own stands in front of rmcp's service and gives the statuses, bodies and headers of the contract; rmcp
//! speaks the protocol behind it. `router` makes the endpoint and answers every path it does not know, so it can be merged
//! with routers of other paths; `bind` and `serve` put the result on a socket. There is no CORS here.

mod authority;
mod checks;
mod endpoint;
mod serve;
mod sessions;
mod stopping;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::net::AllowedHost;

pub use authority::AllowedOrigin;
pub use endpoint::{router, token_check, unknown_paths};
pub use serve::{PATIENCE, ServeOptions, bind, serve};

use super::server_info::{HttpFacts, OpenSessions};

/// Everything an endpoint is told from outside. The values are taken as they are: refusing bad ones is the business of
/// whoever reads the settings.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Path of the endpoint. Starts with `/`; trailing slashes mean nothing; compared exactly.
    pub path: String,
    /// Host the listener is bound to: a name or an address, brackets around IPv6 optional.
    pub host: String,
    /// Port the listener is bound to, the real one when 0 was asked for.
    pub port: u16,
    /// Whether the listener speaks TLS, so that its addresses begin with `https`.
    pub tls: bool,
    /// Hosts accepted beside the bound one.
    pub allowed_hosts: Vec<AllowedHost>,
    /// Origins accepted beside those of accepted hosts.
    pub allowed_origins: Vec<AllowedOrigin>,
    /// Bearer tokens, any of which lets in; empty: nobody is asked for one.
    pub tokens: Vec<String>,
    /// Sessions at one time, those still opening included.
    pub max_sessions: usize,
    /// A session closes when it was idle for so long.
    pub session_ttl: Duration,
    /// Longest body of a request, in bytes.
    pub max_body: usize,
    /// Where its open sessions are counted.
    pub open_sessions: OpenSessions,
    /// Paths that are named to whoever asks for an unknown one; none: nothing is said but that it is unknown.
    pub known_paths: Vec<String>,
}

impl HttpConfig {
    /// The defaults (MCP contract, section 1.4) for a listener bound to that host and port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            path: "/mcp".to_owned(),
            host: host.into(),
            port,
            tls: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tokens: Vec::new(),
            max_sessions: 100,
            session_ttl: Duration::from_secs(30 * 60),
            max_body: 4 * 1024 * 1024,
            open_sessions: OpenSessions::default(),
            known_paths: Vec::new(),
        }
    }

    /// What the endpoint tells of itself.
    pub fn facts(&self) -> HttpFacts {
        HttpFacts {
            open: self.open_sessions.clone(),
            max_sessions: self.max_sessions,
            session_ttl: self.session_ttl,
            has_tokens: !self.tokens.is_empty(),
            max_body: self.max_body,
        }
    }
}
