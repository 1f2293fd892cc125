//! Hosts and origins: which `Host` and `Origin` headers may reach the endpoint.
//!
//! This is the protection against DNS rebinding, so it holds without tokens too. A header without a port means that of its
//! scheme: 443 for `https`, else 80.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::HttpConfig;
use crate::net::{Authority, Host, InvalidEntry};

/// An entry of the list of allowed origins: `http://host[:port]` or `https://host[:port]`, one trailing slash allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigin(Origin);

impl FromStr for AllowedOrigin {
    type Err = InvalidEntry;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Origin::parse(text.strip_suffix('/').unwrap_or(text))
            .map(Self)
            .ok_or(InvalidEntry)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    secure: bool,
    host: Host,
    port: u16,
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let Authority { host, port } = Authority::parse(rest)?;
        Some(Self {
            secure,
            host,
            port: port.unwrap_or(default_port(secure)),
        })
    }
}

const fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

/// The hosts and origins one endpoint accepts.
#[derive(Debug)]
pub(super) struct Accepted {
    /// Whether it is reached by `https`.
    secure: bool,
    hosts: Vec<Authority>,
    origins: Vec<Origin>,
}

impl Accepted {
    pub(super) fn new(config: &HttpConfig) -> Self {
        let bound = Host::in_settings(&config.host);
        let is = |test: fn(&Host) -> bool| bound.as_ref().is_some_and(test);
        let wildcard = is(Host::is_wildcard);
        let mut hosts = Vec::new();
        if wildcard || is(Host::is_loopback) {
            hosts.extend(
                [
                    Host::Name("localhost".into()),
                    Host::Address(Ipv4Addr::LOCALHOST.into()),
                    Host::Address(Ipv6Addr::LOCALHOST.into()),
                ]
                .map(|host| Authority::new(host, config.port)),
            );
        }
        if let Some(bound) = bound
            && !wildcard
        {
            hosts.push(Authority::new(bound, config.port));
        }
        hosts.extend(config.allowed_hosts.iter().map(|entry| entry.0.clone()));
        let origins = config
            .allowed_origins
            .iter()
            .map(|entry| entry.0.clone())
            .collect();
        Self {
            secure: config.tls,
            hosts,
            origins,
        }
    }

    /// Whether a `Host` header of this value may pass.
    pub(super) fn host(&self, header: &str) -> bool {
        Authority::parse(header).is_some_and(|asked| {
            self.covers(&asked.host, asked.port.unwrap_or(default_port(self.secure)))
        })
    }

    /// Whether an `Origin` header of this value may pass.
    pub(super) fn origin(&self, header: &str) -> bool {
        Origin::parse(header).is_some_and(|asked| {
            self.origins.contains(&asked)
                || (asked.secure == self.secure && self.covers(&asked.host, asked.port))
        })
    }

    fn covers(&self, host: &Host, port: u16) -> bool {
        self.hosts.iter().any(|entry| entry.covers(host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::AllowedHost;

    fn accepted(host: &str, allowed_hosts: &[&str], allowed_origins: &[&str]) -> Accepted {
        let mut config = HttpConfig::new(host, 6791);
        config.allowed_hosts = allowed_hosts.iter().map(|h| h.parse().unwrap()).collect();
        config.allowed_origins = allowed_origins.iter().map(|o| o.parse().unwrap()).collect();
        Accepted::new(&config)
    }

    #[test]
    fn hard_m7_hosts_pass_by_name_or_address_and_port() {
        let allowed = &["proxy.example", "other.example:8443", "[2001:db8::1]"];
        // Bound to, passes, does not pass.
        let cases: &[(&str, &[&str], &[&str])] = &[
            (
                "127.0.0.1",
                &[
                    "localhost:6791",
                    "LocalHost:6791",
                    "127.0.0.1:6791",
                    "[::1]:6791",
                    "[0:0:0:0:0:0:0:1]:6791",
                    "proxy.example",
                    "PROXY.example:9",
                    "other.example:8443",
                    "[2001:DB8::1]:5",
                ],
                &[
                    "localhost",
                    "localhost:80",
                    "localhost:6792",
                    "localhost:",
                    "localhost:+6791",
                    "localhost:67910000",
                    "127.0.0.1",
                    "127.0.0.2:6791",
                    "::1",
                    "[::1]",
                    "[::1]x:6791",
                    "0.0.0.0:6791",
                    "localhost.evil.example:6791",
                    "evil.example",
                    "evil.example:6791",
                    "user@localhost:6791",
                    "localhost:6791/",
                    "other.example",
                    "other.example:443",
                    "null",
                    "",
                    " localhost:6791",
                    "localhost:6791:6791",
                ],
            ),
            (
                "127.0.0.9",
                &["127.0.0.9:6791", "localhost:6791"],
                &["127.0.0.8:6791"],
            ),
            ("::1", &["[::1]:6791", "127.0.0.1:6791"], &["[::2]:6791"]),
            ("[::1]", &["[::1]:6791"], &["[::1]:80"]),
            ("localhost", &["localhost:6791", "[::1]:6791"], &["host"]),
            (
                "::ffff:127.0.0.1",
                &["[::ffff:7f00:1]:6791", "localhost:6791"],
                &["[::ffff:7f00:2]:6791"],
            ),
            (
                "0.0.0.0",
                &["localhost:6791", "127.0.0.1:6791", "proxy.example"],
                &["0.0.0.0:6791", "192.168.1.5:6791"],
            ),
            ("::", &["[::1]:6791"], &["[::]:6791"]),
            (
                "192.168.1.5",
                &["192.168.1.5:6791", "proxy.example:1"],
                &["localhost:6791", "127.0.0.1:6791", "192.168.1.5"],
            ),
            (
                "Queue.Lan",
                &["queue.lan:6791"],
                &["localhost:6791", "queue.lan"],
            ),
        ];
        for (bound, passes, refused) in cases {
            let accepted = accepted(bound, allowed, &[]);
            for host in *passes {
                assert!(accepted.host(host), "{host} on {bound}");
            }
            for host in *refused {
                assert!(!accepted.host(host), "{host} on {bound}");
            }
        }
    }

    #[test]
    fn a_host_without_a_port_means_port_80() {
        let mut config = HttpConfig::new("127.0.0.1", 80);
        config.allowed_hosts = vec!["plain.example:80".parse().unwrap()];
        let accepted = Accepted::new(&config);
        for host in ["localhost", "127.0.0.1", "[::1]", "plain.example"] {
            assert!(accepted.host(host), "{host}");
        }
        assert!(accepted.origin("http://localhost"));
        assert!(accepted.origin("http://localhost:80"));
    }

    #[test]
    fn with_tls_the_port_left_out_is_443_and_origins_are_encrypted() {
        let mut config = HttpConfig::new("127.0.0.1", 443);
        config.tls = true;
        let accepted = Accepted::new(&config);
        assert!(accepted.host("localhost") && accepted.host("localhost:443"));
        assert!(!accepted.host("localhost:80"));
        assert!(accepted.origin("https://localhost") && accepted.origin("https://127.0.0.1:443"));
        assert!(!accepted.origin("http://localhost:443"));
    }

    #[test]
    fn hard_m7_origins_pass_when_their_host_does_or_by_the_list() {
        let accepted = accepted(
            "127.0.0.1",
            &["proxy.example"],
            &[
                "https://App.example",
                "http://dev.example:3000/",
                "https://[::1]:8443",
            ],
        );
        for origin in [
            "http://localhost:6791",
            "HTTP://LOCALHOST:6791",
            "http://127.0.0.1:6791",
            "http://[::1]:6791",
            "http://proxy.example:1234",
            "https://app.example",
            "https://APP.example:443",
            "http://dev.example:3000",
            "https://[0::1]:8443",
        ] {
            assert!(accepted.origin(origin), "{origin}");
        }
        for origin in [
            "null",
            "",
            "localhost:6791",
            "http://localhost",
            "https://localhost:6791",
            "https://proxy.example",
            "http://app.example",
            "http://evil.example",
            "https://app.example.evil.example",
            "http://localhost:6791/",
            "http://localhost:6791/x",
            "http://user@localhost:6791",
            "file://localhost:6791",
            "http://",
        ] {
            assert!(!accepted.origin(origin), "{origin}");
        }
    }

    #[test]
    fn entries_that_are_no_hosts_or_origins_are_refused() {
        for host in [
            "",
            "http://x",
            "x/y",
            "a b",
            "::1",
            "[::1",
            "x:0x1",
            "x:99999",
            "[x]",
            "*.example",
        ] {
            assert_eq!(host.parse::<AllowedHost>(), Err(InvalidEntry), "{host}");
        }
        for origin in [
            "",
            "x.example",
            "ftp://x.example",
            "https://x.example/app",
            "https://x.example//",
            "https://x.example?q",
            "https://x.example#f",
            "null",
            "*",
        ] {
            assert_eq!(
                origin.parse::<AllowedOrigin>(),
                Err(InvalidEntry),
                "{origin}"
            );
        }
    }
}
