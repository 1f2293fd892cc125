//! Groups (tcp protocol section 16.2).

/// The form of a reply that has one entry under `data`; named after the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `count`
    Count,
    /// `limit`, nil when there is none.
    RateLimit,
    /// `ttl` in ms.
    RateLimitTtl,
    /// `concurrency`, nil when there is none.
    Concurrency,
    /// `removed`: how many, 0 or 1.
    Removed,
    /// `changed`
    Changed,
    /// `paused`
    Paused,
}
