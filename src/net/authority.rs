//! Hosts, with or without a port, as settings, headers and URLs name them.
//!
//! Names are compared in lower case, addresses by value (`[0:0::1]` is `[::1]`), ports as numbers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The host a listener is bound to or a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// An address.
    Address(IpAddr),
    /// A name, in lower case.
    Name(String),
}

impl Host {
    /// A host as it stands in a URL: IPv6 in brackets.
    pub fn in_url(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        (!text.is_empty() && text.chars().all(allowed))
            .then(|| Self::Name(text.to_ascii_lowercase()))
    }

    /// A host as settings give it: brackets around IPv6 are optional.
    pub fn in_settings(text: &str) -> Option<Self> {
        match text.parse::<Ipv6Addr>() {
            Ok(address) => Some(Self::Address(address.into())),
            Err(_) => Self::in_url(text),
        }
    }

    /// Whether only this machine reaches it.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.to_canonical().is_loopback(),
            Self::Name(name) => name == "localhost",
        }
    }

    /// Whether it stands for every address of this machine.
    pub fn is_wildcard(&self) -> bool {
        matches!(self, Self::Address(address) if address.is_unspecified())
    }
}

/// Whether a listener bound to this host can only be reached from the same machine (MCP contract, section 1.4): `localhost`,
/// 127.0.0.0/8, `::1` and `::ffff:127.x`. Brackets around IPv6 are optional.
pub fn is_loopback(host: &str) -> bool {
    Host::in_settings(host).is_some_and(|host| host.is_loopback())
}

/// A host, and a port where one is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: Option<u16>,
}

impl Authority {
    /// With a port.
    pub fn new(host: Host, port: u16) -> Self {
        Self {
            host,
            port: Some(port),
        }
    }

    /// As a header or a URL has it: `host` or `host:port`, IPv6 in brackets.
    pub fn parse(text: &str) -> Option<Self> {
        // The colons of an IPv6 address stand before its bracket.
        let port_at = match text.rfind(']') {
            Some(bracket) => text.get(bracket..)?.find(':').map(|at| bracket + at),
            None => text.find(':'),
        };
        let Some(at) = port_at else {
            return Some(Self {
                host: Host::in_url(text)?,
                port: None,
            });
        };
        let (host, port) = (text.get(..at)?, text.get(at + 1..)?);
        if !port.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        Some(Self::new(Host::in_url(host)?, port.parse().ok()?))
    }

    /// Whether this entry lets a request to `host:port` pass; an entry without a port means any.
    pub fn covers(&self, host: &Host, port: u16) -> bool {
        self.host == *host && self.port.is_none_or(|own| own == port)
    }
}

/// Why an entry of the list of allowed hosts or origins is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidEntry;

impl fmt::Display for InvalidEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("neither a host nor an origin")
    }
}

impl std::error::Error for InvalidEntry {}

/// An entry of the list of allowed hosts: `host` (any port) or `host:port`, IPv6 in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost(pub Authority);

impl FromStr for AllowedHost {
    type Err = InvalidEntry;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Authority::parse(text).map(Self).ok_or(InvalidEntry)
    }
}

impl AllowedHost {
    /// Whether this entry means `host`, as it stands in a URL, at `port`.
    pub fn covers(&self, host: &str, port: u16) -> bool {
        Host::in_url(host).is_some_and(|host| self.0.covers(&host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_what_only_this_machine_reaches() {
        for host in [
            "localhost",
            "LOCALHOST",
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "0.0.0.0",
            "::",
            "192.168.1.5",
            "example.com",
            "",
            "127.0.0.1:80",
            "::ffff:10.0.0.1",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn an_entry_without_a_port_means_every_port() {
        let covers = |entry: &str, host, port| {
            let entry: AllowedHost = entry.parse().unwrap();
            entry.covers(host, port)
        };
        assert!(covers("x.example", "X.EXAMPLE", 8_080));
        assert!(covers("x.example:443", "x.example", 443));
        assert!(!covers("x.example:443", "x.example", 80));
        assert!(!covers("x.example", "y.x.example", 80));
        assert!(covers("[::1]", "[0:0::1]", 1));
        assert!(!covers("x.example", "", 80));
    }
}
