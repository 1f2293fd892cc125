//! The lines a person reads on stderr when the program starts or cannot (MCP contract, section 1.2).

use std::fmt::Display;
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use crate::config::Log;
use crate::storage::DataFile;

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
const OPEN: &str = "everybody who reaches this address can use the queues. Set AUTH_TOKENS.";

/// Where a program listens.
#[derive(Default)]
pub(super) struct Listening {
    pub(super) tcp: Option<SocketAddr>,
    /// URL of the MCP endpoint, or of the listener when it carries none.
    pub(super) url: Option<String>,
    /// Whether they have to speak TLS.
    pub(super) tls: bool,
    /// Whether workers have to send a token.
    pub(super) tcp_tokens: bool,
    /// Whether agents have to send a token.
    pub(super) http_tokens: bool,
    /// Whether `url` is an MCP endpoint.
    pub(super) mcp: bool,
    /// The file that keeps the jobs.
    pub(super) data: Option<DataFile>,
    /// Whether the broker is another server.
    pub(super) is_remote: bool,
}

impl Listening {
    /// Where the broker is, in a word.
    const fn mode(&self) -> &'static str {
        if self.is_remote { "tcp" } else { "embedded" }
    }

    /// What keeps the jobs, in a word.
    fn storage(&self) -> &'static str {
        if self.data.is_some() {
            "sqlite"
        } else {
            "memory"
        }
    }
}

/// Says why the program cannot go on.
pub(super) fn fatal(message: &dyn Display) -> ExitCode {
    line(&format!("Fatal error: {message}"));
    ExitCode::FAILURE
}

/// The same in the form of the log, once there is one.
pub(super) fn fatal_as(log: Log, message: &dyn Display) -> ExitCode {
    if !log.json {
        return fatal(message);
    }
    tracing::error!("Fatal error: {message}");
    ExitCode::FAILURE
}

/// The start line as an event of the log, for a log that programs read: nothing but events may stand there.
pub(super) fn logged(serve: bool, listening: &Listening) {
    let tcp = listening.tcp.map(tracing::field::display);
    let url = listening.url.as_deref();
    if !serve {
        tracing::info!(
            mode = listening.mode(),
            url,
            tcp,
            version = VERSION,
            "bunqueue MCP server started"
        );
        return;
    }
    tracing::info!(
        tcp,
        url,
        version = VERSION,
        storage = listening.storage(),
        "bunqueue server started"
    );
    if is_open(listening) {
        tracing::warn!("{OPEN}");
    }
}

/// Whether anybody on the network may use the worker door.
fn is_open(listening: &Listening) -> bool {
    let reachable = listening.tcp.is_some_and(|tcp| !tcp.ip().is_loopback());
    reachable && !listening.tcp_tokens
}

/// The start line of the bare program, and for a person at a terminal what is awaited.
pub(super) fn mcp(listening: &Listening) {
    let mut parts = vec![format!("mode: {}", listening.mode())];
    if let Some(url) = &listening.url {
        parts.push("transport: http".to_owned());
        parts.push(format!("url: {url}"));
    }
    if let Some(tcp) = listening.tcp {
        parts.push(format!("tcp: {tcp}"));
    }
    line(&format!(
        "bunqueue MCP server started ({}, version: {VERSION})",
        parts.join(", ")
    ));
    if listening.url.is_none() && std::io::stdin().is_terminal() {
        line(
            "Waiting for an MCP client on standard input (end with Ctrl-D). An agent starts this program itself, for example:\n\
             \x20 claude mcp add bunqueue -- bunqueue-mcp\n\
             To serve agents and workers together, run `bunqueue-mcp serve`.",
        );
    }
}

/// The start line of `serve`, and how to connect to it.
pub(super) fn serve(listening: &Listening) {
    let url = listening.url.as_deref().unwrap_or_default();
    let tcp = listening.tcp.map(|tcp| tcp.to_string()).unwrap_or_default();
    line(&format!(
        "bunqueue server started (tcp: {tcp}, url: {url}, version: {VERSION})"
    ));
    match &listening.data {
        Some(data) => line(&format!(
            "Jobs are kept in {} ({}).",
            data.path.display(),
            data.durability.name()
        )),
        None => line("Jobs are kept in memory: they end with this process."),
    }
    if listening.mcp {
        line(&agents(url, listening.http_tokens));
    }
    line(&workers(listening));
    if is_open(listening) {
        line(&format!("\nWarning: {OPEN}"));
    }
}

fn agents(url: &str, tokens: bool) -> String {
    let (option, member) = if tokens {
        (
            " --header \"Authorization: Bearer $TOKEN\"",
            r#","headers":{"Authorization":"Bearer <one of your tokens>"}"#,
        )
    } else {
        ("", "")
    };
    format!(
        "\nConnect an agent:\n\
         \x20 claude mcp add --transport http bunqueue {url}{option}\n\
         or paste into the configuration of its host:\n\
         \x20 {{\"mcpServers\":{{\"bunqueue\":{{\"type\":\"http\",\"url\":\"{url}\"{member}}}}}}}"
    )
}

/// An address that a client on this machine can use: a wildcard is no place to connect to.
pub(super) fn usable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

fn workers(listening: &Listening) -> String {
    let tcp = listening.tcp.map(usable);
    let tcp = tcp.map(|tcp| tcp.to_string()).unwrap_or_default();
    let tls = if listening.tls { " over TLS" } else { "" };
    let token = if listening.tcp_tokens {
        ", with one of your tokens"
    } else {
        ""
    };
    format!("\nConnect workers with any bunqueue client to {tcp}{tls}{token}.")
}

#[expect(
    clippy::print_stderr,
    reason = "these lines are for the person who started the program"
)]
fn line(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_announced_as_this_machine() {
        let shown = |text: &str| usable(text.parse().unwrap()).to_string();
        assert_eq!(shown("0.0.0.0:7"), "127.0.0.1:7");
        assert_eq!(shown("[::]:7"), "[::1]:7");
        assert_eq!(shown("10.0.0.1:7"), "10.0.0.1:7");
    }
}
