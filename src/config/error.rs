//! Why a setting does not fit: the texts that follow `Fatal error: `, each with the setting, the value and the rule.

use thiserror::Error;

/// A setting that does not fit. `Display` is what follows `Fatal error: `.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Neither of the allowed words.
    #[error("{setting} must be {allowed} (got {given:?})")]
    Choice {
        /// Flag or variable.
        setting: String,
        /// The allowed words.
        allowed: &'static str,
        /// The value.
        given: String,
    },
    /// No fraction of one.
    #[error("{setting} must be a number in (0, 1] (got {given:?})")]
    Fraction {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
    },
    /// No address of a web server.
    #[error("{setting} must be an http or https URL (got {given:?})")]
    Url {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
    },
    /// A decision model that cannot be asked.
    #[error("{setting} is required for the {provider} provider")]
    DecisionNeeds {
        /// The variable that is missing.
        setting: &'static str,
        /// The provider.
        provider: &'static str,
    },
    /// No whole number of the wanted kind.
    #[error("{setting} must be a {kind} integer (got {given:?}); {what}, such as {example}")]
    Integer {
        /// Flag or variable.
        setting: String,
        /// `positive` or `non-negative`.
        kind: &'static str,
        /// The value.
        given: String,
        /// What the number is.
        what: &'static str,
        /// One that fits.
        example: &'static str,
    },
    /// A port out of range.
    #[error("{setting} must be an integer between 0 and 65535 (got {given})")]
    Port {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
    },
    /// Neither a port nor a host with a port.
    #[error(
        "{setting} must be a port from 0 to 65535, or host:port (got {given:?}), such as 6789 or 127.0.0.1:6789"
    )]
    Listen {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
    },
    /// No host.
    #[error(
        "{setting} must be a hostname or IP address (got {given:?}), such as 127.0.0.1; the port is another setting"
    )]
    Host {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
    },
    /// No path.
    #[error(
        "{setting} must start with \"/\" and hold no blank, ? or # (got {given:?}), such as /mcp"
    )]
    Path {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
    },
    /// A path that belongs to another page.
    #[error(
        "{setting} must not be the path of another page of this listener (got {given:?}); /mcp is free"
    )]
    PathTaken {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
    },
    /// Only commas and blanks.
    #[error("{setting} is set but contains no token")]
    NoToken {
        /// Variable.
        setting: String,
    },
    /// A token that no header can carry.
    #[error("{setting} entries must not contain whitespace or control characters")]
    BadToken {
        /// Variable.
        setting: String,
    },
    /// No host header.
    #[error(
        "{setting} entries must be host or host:port, not URLs (got {given:?}), such as app.example:8443"
    )]
    AllowedHost {
        /// Flag or variable.
        setting: String,
        /// The entry.
        given: String,
    },
    /// No origin header.
    #[error("{setting} entries must be origins such as https://app.example (got {given:?})")]
    AllowedOrigin {
        /// Flag or variable.
        setting: String,
        /// The entry.
        given: String,
    },
    /// An MCP endpoint that everybody on the network could use.
    #[error(
        "Refusing to serve MCP over HTTP on non-loopback host {host:?} without authentication: set {tokens}, or bind 127.0.0.1"
    )]
    OpenHttp {
        /// The host.
        host: String,
        /// Where tokens go.
        tokens: &'static str,
    },
    /// A worker's door that everybody on the network could use.
    #[error(
        "Refusing to serve workers on non-loopback host {host:?} without authentication: set {tokens}, or bind 127.0.0.1"
    )]
    OpenTcp {
        /// The host.
        host: String,
        /// Where tokens go.
        tokens: &'static str,
    },
    /// Both.
    #[error("{http}. {tcp}. AUTH_TOKENS alone is enough for both")]
    OpenBoth {
        /// The fault of the endpoint.
        http: Box<ConfigError>,
        /// The fault of the worker's door.
        tcp: Box<ConfigError>,
    },
    /// A page that asks for a token nobody can have.
    #[error("{setting} is true, but there is no token to ask for: set {tokens}")]
    MetricsAuth {
        /// Flag or variable.
        setting: String,
        /// Where tokens go.
        tokens: String,
    },
    /// One of two files that make TLS together.
    #[error("{setting} is set, but {missing} is not: TLS needs both")]
    HalfTls {
        /// Flag or variable.
        setting: String,
        /// Flag or variable, as the other one was given.
        missing: String,
    },
    /// Two data files.
    #[error(
        "{first} is {first_path:?}, but {second} is {second_path:?}: there is one data file, so unset one of them"
    )]
    TwoDataFiles {
        /// Variable.
        first: &'static str,
        /// Its value.
        first_path: String,
        /// Variable.
        second: &'static str,
        /// Its value.
        second_path: String,
    },
    /// No path of a file.
    #[error(
        "{setting} must be the path of a file, in UTF-8 (got {given:?}), such as data/queue.db; unset, jobs are kept in memory"
    )]
    DataPath {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
    },
    /// A promise that memory cannot keep.
    #[error("{setting} is {given:?}, but there is no data file: set {missing} too, or unset it")]
    NoDataFile {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
        /// Flag or variable, as the other one was given.
        missing: String,
    },
    /// A file that would keep nothing.
    #[error("{setting} is {given:?}, but {file} names a data file: unset one of them")]
    FileForMemory {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
        /// Flag or variable.
        file: String,
    },
    /// TLS for a program that has none.
    #[error("{setting} is set, but only `serve` has TLS: unset it to start")]
    NoTls {
        /// Variable.
        setting: String,
    },
    /// No number that a port, or a number of connections, can be.
    #[error("Invalid {setting}: {given:?} (expected a whole number between 1 and 65535)")]
    Positive {
        /// Flag or variable.
        setting: String,
        /// The value.
        given: String,
    },
    /// A door for workers of a broker that is elsewhere.
    #[error("{setting} does not go with {mode} tcp: workers connect to the broker itself")]
    NoWorkersHere {
        /// Flag or variable.
        setting: String,
        /// Flag or variable that says so.
        mode: String,
    },
    /// A broker that is told to be elsewhere.
    #[error("{setting} is tcp, but `serve` is the broker itself: unset it to start")]
    BrokerElsewhere {
        /// Variable.
        setting: String,
    },
    /// A setting of the product that this version does not have.
    #[error("{setting} is set, but this version {instead}: unset it to start")]
    NotYet {
        /// Variable.
        setting: &'static str,
        /// What holds instead.
        instead: &'static str,
    },
}
