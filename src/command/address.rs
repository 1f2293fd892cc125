//! Which hosts a server may be told to call: the ones that anybody on the internet could call as well (engine contract,
//! section 20 and B-34).
//!
//! Used twice: when a URL is given, for what can be seen from the URL itself, and again before each connection, for the
//! addresses that its name stands for then.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Why a host may not be called; `Display` completes `cannot point to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// This machine, by its usual names and addresses.
    Localhost,
    /// This machine, by another address.
    Loopback,
    /// A private network, or one between a provider and its customers.
    Private,
    /// A private IPv6 network.
    UniqueLocal,
    /// The same network segment; clouds keep their metadata there.
    LinkLocal,
    /// No address at all.
    Unspecified,
    /// Many hosts at once.
    Multicast,
    /// Set aside for documentation, measurement, translation, broadcast or the future.
    Reserved,
    /// Names that clouds give to their metadata.
    Metadata,
}

impl Forbidden {
    /// All of them, for the reference.
    pub const ALL: [Self; 9] = [
        Self::Localhost,
        Self::Loopback,
        Self::Private,
        Self::UniqueLocal,
        Self::LinkLocal,
        Self::Unspecified,
        Self::Multicast,
        Self::Reserved,
        Self::Metadata,
    ];
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Localhost => "localhost",
            Self::Loopback => "loopback IP",
            Self::Private => "private IP",
            Self::UniqueLocal => "private (ULA) IP",
            Self::LinkLocal => "link-local IP",
            Self::Unspecified => "unspecified IP",
            Self::Multicast => "multicast IP",
            Self::Reserved => "reserved IP",
            Self::Metadata => "cloud metadata endpoints",
        })
    }
}

/// What forbids the host of a URL, as far as the URL shows it: a name may still stand for a forbidden address.
pub fn host_of(url: &Url) -> Option<Forbidden> {
    match url.host()? {
        Host::Domain(name) => named(name),
        Host::Ipv4(Ipv4Addr::LOCALHOST) | Host::Ipv6(Ipv6Addr::LOCALHOST) => {
            Some(Forbidden::Localhost)
        }
        Host::Ipv4(ip) => v4(ip),
        Host::Ipv6(ip) => v6(ip),
    }
}

fn named(name: &str) -> Option<Forbidden> {
    let name = name.trim_end_matches('.');
    if name == "localhost" || name.ends_with(".localhost") {
        Some(Forbidden::Localhost)
    } else if name == "internal" || name.ends_with(".internal") {
        Some(Forbidden::Metadata)
    } else {
        None
    }
}

/// What forbids an address.
pub fn ip(ip: IpAddr) -> Option<Forbidden> {
    match ip {
        IpAddr::V4(ip) => v4(ip),
        IpAddr::V6(ip) => v6(ip),
    }
}

fn v4(ip: Ipv4Addr) -> Option<Forbidden> {
    match ip.octets() {
        [0, ..] => Some(Forbidden::Unspecified),
        [127, ..] => Some(Forbidden::Loopback),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => {
            Some(Forbidden::Private)
        }
        [169, 254, ..] => Some(Forbidden::LinkLocal),
        [224..=239, ..] => Some(Forbidden::Multicast),
        // Protocol assignments, three for documentation, relays, measurement; then the future and broadcast.
        [192, 0, 0 | 2, _]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [240..=255, ..] => Some(Forbidden::Reserved),
        _ => None,
    }
}

fn v6(ip: Ipv6Addr) -> Option<Forbidden> {
    let parts = ip.segments();
    match parts {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(Forbidden::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(Forbidden::Loopback),
        // An IPv4 address in other clothes.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            v4(Ipv4Addr::new(a, b, c, d))
        }
        [0xfc00..=0xfdff, ..] => Some(Forbidden::UniqueLocal),
        [0xfe80..=0xfebf, ..] => Some(Forbidden::LinkLocal),
        [0xff00..=0xffff, ..] => Some(Forbidden::Multicast),
        // Tunnels and translators lead to an IPv4 address that nobody here has judged; two ranges are documentation.
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x2002, ..] | [0x3fff, 0..=0x0fff, ..] => {
            Some(Forbidden::Reserved)
        }
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Forbidden::Reserved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_judged_by_their_range() {
        use Forbidden::{
            LinkLocal, Loopback, Multicast, Private, Reserved, UniqueLocal, Unspecified,
        };
        let cases: [(Option<Forbidden>, &[&str]); 9] = [
            (
                None,
                &[
                    "1.1.1.1",
                    "9.255.255.255",
                    "11.0.0.0",
                    "100.63.255.255",
                    "100.128.0.0",
                    "126.255.255.255",
                    "128.0.0.0",
                    "169.253.255.255",
                    "169.255.0.0",
                    "172.15.255.255",
                    "172.32.0.1",
                    "192.0.1.0",
                    "192.167.255.255",
                    "192.169.0.0",
                    "198.17.255.255",
                    "198.20.0.0",
                    "223.255.255.255",
                    "2606:4700::1111",
                    "2001:200::1",
                    "2001:db7::1",
                    "2003::1",
                    "3ffe::1",
                    "::ffff:8.8.8.8",
                    "::8.8.8.8",
                ],
            ),
            (
                Some(Unspecified),
                &["0.0.0.0", "0.255.255.255", "::", "::2", "::ffff:0.0.0.0"],
            ),
            (
                Some(Loopback),
                &[
                    "127.0.0.1",
                    "127.255.255.255",
                    "::1",
                    "::127.0.0.1",
                    "::ffff:127.0.0.1",
                    "::ffff:7f00:1",
                ],
            ),
            (
                Some(Private),
                &[
                    "10.0.0.0",
                    "10.255.255.255",
                    "172.16.0.0",
                    "172.31.255.255",
                    "192.168.0.0",
                    "192.168.255.255",
                    "100.64.0.0",
                    "100.127.255.255",
                    "::ffff:10.0.0.1",
                    "::a00:1",
                ],
            ),
            (
                Some(LinkLocal),
                &[
                    "169.254.0.0",
                    "169.254.169.254",
                    "::ffff:169.254.169.254",
                    "fe80::1",
                    "febf:ffff::1",
                ],
            ),
            (Some(UniqueLocal), &["fc00::", "fd00::1", "fdff:ffff::1"]),
            (
                Some(Multicast),
                &["224.0.0.0", "239.255.255.255", "ff02::1"],
            ),
            (
                Some(Reserved),
                &[
                    "192.0.0.1",
                    "192.0.2.1",
                    "192.88.99.1",
                    "198.18.0.0",
                    "198.19.255.255",
                    "198.51.100.1",
                    "203.0.113.1",
                    "240.0.0.0",
                    "255.255.255.255",
                ],
            ),
            (
                Some(Reserved),
                &[
                    "64:ff9b::808:808",
                    "64:ff9b::7f00:1",
                    "64:ff9b:1::1",
                    "100::1",
                    "2001::1",
                    "2001:1ff:ffff::1",
                    "2001:db8::1",
                    "2002:7f00:1::",
                    "3fff::1",
                    "4000::1",
                    "5f00::1",
                    "fec0::1",
                    "::ffff:0:127.0.0.1",
                ],
            ),
        ];
        for (expected, addresses) in cases {
            for text in addresses {
                assert_eq!(ip(text.parse().unwrap()), expected, "{text}");
            }
        }
    }
}
