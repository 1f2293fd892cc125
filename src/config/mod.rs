//! Every setting of the program, once: flag, variables, default, help text and rule.
//!
//! The command line, the environment, `--help` and the reference page all read [`SETTINGS`]. A flag wins over its
//! variables, of which the first one that is set wins; empty means unset. Secrets have no flag, since others can
//! read a command line. A value that does not fit stops the program before anything binds or opens, and so
//! does a setting of the product that this version does not have: ignoring it would break a promise.

mod agent;
mod data;
mod error;
mod open;
mod read;
mod remote;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use error::ConfigError;
pub use read::load;

use crate::broker::RemoteAddress;
use crate::engine::{Millis, NoticeBounds};
use crate::handlers::TargetHosts;
use crate::mcp::DecisionOptions;
use crate::mcp::http::AllowedOrigin;
use crate::net::{AllowedHost, TlsFile};
use crate::storage::DataFile;

/// Which program a setting belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The bare program: MCP on stdio or HTTP.
    Mcp,
    /// `serve`.
    Serve,
    /// Both.
    Both,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// What identifies it in this file.
    pub key: Key,
    /// Flag without dashes; `None` for secrets.
    pub flag: Option<&'static str>,
    /// Environment variables; the first one that is set wins.
    pub variables: &'static [&'static str],
    /// What stands for the value in `--help`.
    pub value: &'static str,
    /// Default as shown; empty means none.
    pub default: &'static str,
    /// Who reads it.
    pub program: Program,
    /// One sentence.
    pub help: &'static str,
}

/// Names of the settings inside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "described by the help texts of SETTINGS")]
pub enum Key {
    Mode,
    RemoteHost,
    RemotePort,
    RemoteToken,
    PoolSize,
    Transport,
    HttpHost,
    HttpPort,
    ServeHost,
    ServeTcpPort,
    ServeHttpPort,
    HttpPath,
    HttpTokens,
    ServeHttpTokens,
    MaxSessions,
    SessionTtl,
    AllowedHosts,
    AllowedOrigins,
    ServeMcp,
    TlsCertificate,
    TlsKey,
    MetricsQueues,
    MetricsAuth,
    TcpListen,
    TcpTokens,
    ServeTcpTokens,
    TcpIdleTimeout,
    TcpWriteBudget,
    FrameLimit,
    FrameWindow,
    DataPath,
    Durability,
    StorageDriver,
    CompletedMax,
    StoredCompletedMax,
    CompletedRetention,
    ShutdownTimeout,
    WorkerTimeout,
    QueueIdle,
    QueueSize,
    WorkerOverload,
    MemoryWarning,
    StorageWarning,
    WebhookAttempts,
    WebhookDelay,
    WebhookPrivate,
    HandlerHosts,
    Profile,
    Toolsets,
    Confirm,
    DecisionProvider,
    DecisionModel,
    DecisionKey,
    DecisionAccount,
    DecisionUrl,
    DecisionTimeout,
    DecisionThreshold,
    LogLevel,
    LogFormat,
}

macro_rules! setting {
    ($key:ident, $flag:expr, [$($variable:literal),+], $value:literal, $default:literal, $program:ident, $help:literal) => {
        Setting {
            key: Key::$key,
            flag: $flag,
            variables: &[$($variable),+],
            value: $value,
            default: $default,
            program: Program::$program,
            help: $help,
        }
    };
}

/// All settings, in the order of `--help` and of the reference page.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    setting!(Mode, Some("mode"), ["BUNQUEUE_MODE"], "embedded|tcp", "embedded", Mcp,
        "Where the broker is: in this process, or another server over TCP, which then keeps the jobs; the data file is not opened then"),
    setting!(RemoteHost, Some("broker-host"), ["BUNQUEUE_HOST"], "HOST", "localhost", Mcp,
        "Host of that server"),
    setting!(RemotePort, Some("broker-port"), ["BUNQUEUE_PORT"], "PORT", "6789", Mcp,
        "Its TCP port"),
    setting!(RemoteToken, None, ["BUNQUEUE_TOKEN"], "TOKEN", "", Mcp,
        "Token that it is shown"),
    setting!(PoolSize, Some("pool-size"), ["BUNQUEUE_POOL_SIZE"], "N", "2", Mcp,
        "Connections to it"),
    setting!(Transport, Some("transport"), ["BUNQUEUE_MCP_TRANSPORT"], "stdio|http", "stdio", Mcp,
        "How the agent is connected"),
    setting!(HttpHost, Some("http-host"), ["BUNQUEUE_MCP_HTTP_HOST"], "HOST", "127.0.0.1", Mcp,
        "Host of the HTTP listener; other than loopback only with a token"),
    setting!(HttpPort, Some("http-port"), ["BUNQUEUE_MCP_HTTP_PORT"], "PORT", "6791", Mcp,
        "Port of the HTTP listener; 0 takes any free one"),
    setting!(ServeHost, Some("host"), ["HOST", "BUNQUEUE_MCP_HTTP_HOST"], "HOST", "127.0.0.1", Serve,
        "Host of both listeners; other than loopback only with tokens"),
    setting!(ServeTcpPort, Some("tcp-port"), ["TCP_PORT"], "PORT", "6789", Serve,
        "Port for workers; 0 takes any free one"),
    setting!(ServeHttpPort, Some("http-port"), ["HTTP_PORT", "BUNQUEUE_MCP_HTTP_PORT"], "PORT", "6790", Serve,
        "Port for agents and people; 0 takes any free one"),
    setting!(HttpPath, Some("http-path"), ["BUNQUEUE_MCP_HTTP_PATH"], "PATH", "/mcp", Both,
        "Path of the MCP endpoint"),
    setting!(HttpTokens, None, ["BUNQUEUE_MCP_HTTP_TOKEN", "AUTH_TOKENS"], "TOKENS", "", Mcp,
        "Bearer tokens of the MCP endpoint, separated by commas"),
    setting!(ServeHttpTokens, None, ["BUNQUEUE_MCP_HTTP_TOKEN", "AUTH_TOKENS"], "TOKENS", "", Serve,
        "Bearer tokens of the MCP endpoint, separated by commas"),
    setting!(MaxSessions, Some("http-max-sessions"), ["BUNQUEUE_MCP_HTTP_MAX_SESSIONS"], "N", "100", Both,
        "MCP sessions over HTTP at one time"),
    setting!(SessionTtl, Some("http-session-ttl-ms"), ["BUNQUEUE_MCP_HTTP_SESSION_TTL_MS"], "MS", "1800000", Both,
        "Idle time after which such a session closes"),
    setting!(AllowedHosts, Some("http-allowed-hosts"), ["BUNQUEUE_MCP_HTTP_ALLOWED_HOSTS"], "HOSTS", "", Both,
        "Further Host headers to accept: host or host:port, separated by commas"),
    setting!(AllowedOrigins, Some("http-allowed-origins"), ["BUNQUEUE_MCP_HTTP_ALLOWED_ORIGINS"], "ORIGINS", "", Both,
        "Further Origin headers to accept, separated by commas"),
    setting!(ServeMcp, Some("mcp"), ["BUNQUEUE_SERVE_MCP"], "true|false", "true", Serve,
        "Whether the HTTP listener carries the MCP endpoint"),
    setting!(TlsCertificate, Some("tls-cert-file"), ["TLS_CERT_FILE"], "FILE", "", Serve,
        "Certificate for TLS on both listeners, in PEM, with what stands between it and a known authority"),
    setting!(TlsKey, Some("tls-key-file"), ["TLS_KEY_FILE"], "FILE", "", Serve,
        "Its private key, in PEM without a passphrase"),
    setting!(MetricsQueues, Some("metrics-max-queues"), ["METRICS_MAX_QUEUES"], "N", "100", Both,
        "Queues with figures of their own in the metrics for Prometheus; the rest is only counted"),
    setting!(MetricsAuth, Some("metrics-auth"), ["METRICS_AUTH"], "true|false", "false", Serve,
        "Whether /prometheus asks for the tokens of the MCP endpoint"),
    setting!(TcpListen, Some("tcp-listen"), ["BUNQUEUE_MCP_TCP_LISTEN"], "[HOST:]PORT", "", Mcp,
        "Serve workers over TCP from this process too; port 0 takes any free one"),
    setting!(TcpTokens, None, ["BUNQUEUE_MCP_TCP_TOKEN", "AUTH_TOKENS"], "TOKENS", "", Mcp,
        "Tokens that workers must send, separated by commas"),
    setting!(ServeTcpTokens, None, ["AUTH_TOKENS", "BUNQUEUE_MCP_TCP_TOKEN"], "TOKENS", "", Serve,
        "Tokens that workers must send, separated by commas"),
    setting!(TcpIdleTimeout, Some("tcp-idle-timeout-ms"), ["TCP_IDLE_TIMEOUT_MS"], "MS", "60000", Both,
        "Silence inside a frame after which a worker's connection closes; 0 waits without end"),
    setting!(TcpWriteBudget, Some("tcp-max-write-queue-bytes"), ["TCP_MAX_WRITE_QUEUE_BYTES"], "BYTES", "67108864", Both,
        "Unread answers and events at which a connection waits, and closes if nothing is read for 5 s; 0 sets no bound"),
    setting!(FrameLimit, Some("rate-limit-max-requests"), ["RATE_LIMIT_MAX_REQUESTS"], "N", "", Both,
        "Frames that a worker's connection may send within the window; unset sets no bound"),
    setting!(FrameWindow, Some("rate-limit-window-ms"), ["RATE_LIMIT_WINDOW_MS"], "MS", "60000", Both,
        "Length of that window; 0 sets no bound"),
    setting!(DataPath, Some("data-path"), ["BUNQUEUE_DATA_PATH", "BQ_DATA_PATH", "DATA_PATH", "SQLITE_PATH"], "FILE", "", Both,
        "File that keeps the jobs, made if it is not there; unset, they end with the process; variables that differ are an error"),
    setting!(Durability, Some("durability"), ["BUNQUEUE_DURABILITY"], "buffered|committed|durable", "committed", Both,
        "When a change of the data file is answered: up to 10 ms before it is written, once it is, or once it would outlast a power cut"),
    setting!(StorageDriver, Some("storage-driver"), ["BUNQUEUE_STORAGE_DRIVER"], "memory|sqlite", "", Both,
        "Where jobs are kept; unset, a data file decides; sqlite without a data file is an error, and so is memory with one"),
    setting!(CompletedMax, Some("max-completed-jobs"), ["BUNQUEUE_MAX_COMPLETED_JOBS", "MAX_COMPLETED_JOBS"], "N", "50000", Both,
        "Completed jobs kept in memory over all queues; beyond it the oldest are deleted, or left to the data file"),
    setting!(StoredCompletedMax, Some("max-stored-completed-jobs"), ["BUNQUEUE_MAX_STORED_COMPLETED_JOBS"], "N", "1000000", Both,
        "Completed jobs kept in the data file over all queues; beyond it the oldest are deleted"),
    setting!(CompletedRetention, Some("completed-retention-ms"), ["BUNQUEUE_COMPLETED_RETENTION_MS", "COMPLETED_RETENTION_MS"], "MS", "", Both,
        "Time after which a completed job is deleted, 0 at once; unset, only their number counts"),
    setting!(ShutdownTimeout, Some("shutdown-timeout-ms"), ["SHUTDOWN_TIMEOUT_MS"], "MS", "30000", Serve,
        "Time that active jobs have to end after the signal to stop; a second signal ends it"),
    setting!(WorkerTimeout, Some("worker-timeout-ms"), ["WORKER_TIMEOUT_MS"], "MS", "30000", Both,
        "Silence after which a registered worker is stale; after three times that it is forgotten"),
    setting!(QueueIdle, Some("queue-idle-threshold-ms"), ["QUEUE_IDLE_THRESHOLD_MS"], "MS", "30000", Both,
        "Time without a ready or active job after which subscribers of a queue get the event queue:idle; 0: never"),
    setting!(QueueSize, Some("queue-size-threshold"), ["QUEUE_SIZE_THRESHOLD"], "N", "0", Both,
        "Ready jobs at which subscribers of a queue get the event queue:threshold; 0: never"),
    setting!(WorkerOverload, Some("worker-overload-threshold-ms"), ["WORKER_OVERLOAD_THRESHOLD_MS"], "MS", "30000", Both,
        "Time at capacity after which subscribers of a worker's queues get the event worker:overloaded; 0: never"),
    setting!(MemoryWarning, Some("memory-warning-mb"), ["MEMORY_WARNING_MB"], "MB", "0", Both,
        "Heap in MiB at which all subscribers get the event server:memory-warning (Linux only); 0: never"),
    setting!(StorageWarning, Some("storage-warning-mb"), ["STORAGE_WARNING_MB"], "MB", "0", Both,
        "Size of the data file in MiB at which all subscribers get the event server:storage-warning; 0: never"),
    setting!(WebhookAttempts, Some("webhook-max-retries"), ["WEBHOOK_MAX_RETRIES"], "N", "3", Both,
        "Attempts for each call of a webhook, the first one included"),
    setting!(WebhookDelay, Some("webhook-retry-delay-ms"), ["WEBHOOK_RETRY_DELAY_MS"], "MS", "1000", Both,
        "Wait after the first failed attempt; after the second twice that, and so on"),
    setting!(WebhookPrivate, Some("webhook-allow-private"), ["WEBHOOK_ALLOW_PRIVATE"], "true|false", "false", Both,
        "Whether webhooks may point to this machine and to private networks"),
    setting!(HandlerHosts, Some("handler-hosts"), ["BUNQUEUE_MCP_HANDLER_HOSTS"], "HOSTS", "", Both,
        "Hosts that HTTP handlers may call: host or host:port, separated by commas; unset, any"),
    setting!(Profile, Some("profile"), ["BUNQUEUE_MCP_PROFILE"], "agent", "", Both,
        "agent: toolsets are dynamic and destructive calls are confirmed, unless the two settings below say otherwise"),
    setting!(Toolsets, Some("toolsets"), ["BUNQUEUE_MCP_TOOLSETS"], "IDS", "all", Both,
        "Toolsets that agents get, separated by commas; with dynamic among them they load the others themselves"),
    setting!(Confirm, Some("confirm"), ["BUNQUEUE_MCP_CONFIRM"], "destructive|off", "off", Both,
        "Whether calls that destroy something need the consent of the user"),
    setting!(DecisionProvider, Some("decision-provider"), ["BUNQUEUE_MCP_DECISION_PROVIDER"], "typesafe|cloudflare|systemone", "", Both,
        "Provider of a model that finds toolsets and judges whether the user has asked for a call; unset, none is asked"),
    setting!(DecisionModel, Some("decision-model"), ["BUNQUEUE_MCP_DECISION_MODEL"], "NAME", "", Both,
        "Name of that model; unset, jev-latest or clef-flash, and none for systemone"),
    setting!(DecisionKey, None, ["BUNQUEUE_MCP_DECISION_API_KEY"], "KEY", "", Both,
        "Its API key; typesafe and cloudflare ask for one"),
    setting!(DecisionAccount, Some("decision-account-id"), ["BUNQUEUE_MCP_DECISION_ACCOUNT_ID"], "ID", "", Both,
        "Account at cloudflare; not needed with a URL"),
    setting!(DecisionUrl, Some("decision-url"), ["BUNQUEUE_MCP_DECISION_URL"], "URL", "", Both,
        "Address of the model; needed for systemone"),
    setting!(DecisionTimeout, Some("decision-timeout-ms"), ["BUNQUEUE_MCP_DECISION_TIMEOUT_MS"], "MS", "10000", Both,
        "Time for each request to the model"),
    setting!(DecisionThreshold, Some("decision-threshold"), ["BUNQUEUE_MCP_DECISION_THRESHOLD"], "P", "0.8", Both,
        "Probability, above 0 and at most 1, from which a user's words count as asking for a call"),
    setting!(LogLevel, Some("log-level"), ["LOG_LEVEL"], "LEVEL", "info", Both,
        "Least severe log line on stderr: error, warn, info, debug or trace"),
    setting!(LogFormat, Some("log-format"), ["LOG_FORMAT"], "text|json", "text", Both,
        "Form of the log lines"),
];

/// Settings of the product that this version does not have: variable, and what this version does instead.
#[rustfmt::skip]
pub const NOT_YET: &[(&str, &str)] = &[
    ("BUNQUEUE_MCP_WORKFLOW_DB", "has no workflow tools"),
    ("BUNQUEUE_MCP_EXTRA", "has no optional tools"),
];

/// A way to call the program.
#[derive(Debug)]
pub struct Invocation {
    /// The subcommand; none for the bare program.
    pub name: Option<&'static str>,
    /// What follows it besides settings.
    pub arguments: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
}

/// All of them, in the order of `--help`.
pub const INVOCATIONS: &[Invocation] = &[
    Invocation {
        name: None,
        arguments: "",
        about: "Serve MCP to one agent on stdio, or to many over HTTP",
    },
    Invocation {
        name: Some("serve"),
        arguments: "",
        about: "Run the broker: workers over TCP, agents and people over HTTP",
    },
    Invocation {
        name: Some("backup"),
        arguments: "[--force] FILE COPY",
        about: "Copy a data file, also while a broker uses it, and check the copy",
    },
    Invocation {
        name: Some("restore"),
        arguments: "[--force] COPY FILE",
        about: "Check a copy and put it in the place of a data file that no broker uses",
    },
    Invocation {
        name: Some("tools"),
        arguments: "[--json]",
        about: "List the tools; as JSON, as agents get them",
    },
    Invocation {
        name: Some("doctor"),
        arguments: "[--json]",
        about: "Check the settings of the environment and what they name, and start nothing",
    },
    Invocation {
        name: Some("setup"),
        arguments: "[--write] [HOST] [-- SETTING...]",
        about: "Print what an agent host needs to start this program, or write it into the host's configuration",
    },
    Invocation {
        name: Some("docs"),
        arguments: "[PAGE]",
        about: "List the pages of the built-in documentation, or print one",
    },
];

/// What the program is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Speak MCP on stdin and stdout.
    pub stdio: bool,
    /// The HTTP listener, if there is one.
    pub http: Option<Http>,
    /// The TCP listener, if there is one.
    pub tcp: Option<Tcp>,
    /// Certificate and key, in this order, that both listeners have.
    pub tls: Option<(TlsFile, TlsFile)>,
    /// The metrics page.
    pub metrics: Metrics,
    /// The server that is the broker; `None`: this process.
    pub remote: Option<Remote>,
    /// The file that keeps the jobs; `None`: memory alone, or another server.
    pub data: Option<DataFile>,
    /// The flag or variable that names that file, for messages; empty without one.
    pub data_setting: String,
    /// Completed jobs.
    pub retention: Retention,
    /// How long a stop waits for active jobs.
    pub shutdown_timeout: Duration,
    /// Silence after which a registered worker is stale, in ms.
    pub worker_timeout: i64,
    /// What subscribers are told of queues and workers.
    pub notices: NoticeBounds,
    /// Heap in MiB at which they are told of it; `None`: never.
    pub memory_warning: Option<u64>,
    /// MiB of the data file that are worth a notice; `None`: none is.
    pub storage_warning: Option<u64>,
    /// Calls of webhooks.
    pub webhooks: Webhooks,
    /// What agents get and may do.
    pub agent: Agent,
    /// Variables that are set and read by nothing, each with the one that comes before it.
    pub ignored: Vec<(&'static str, &'static str)>,
    /// Logging.
    pub log: Log,
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Flag with its dashes, or variable: the spelling that messages use.
    pub setting: String,
    /// The value, as it was given.
    pub value: String,
}

/// What agents get, and what they may do without a person's consent.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// Their toolsets, as given; `None`: all.
    pub toolsets: Option<Given>,
    /// Calls that destroy something have to be confirmed.
    pub confirm: bool,
    /// The profile that has decided what was not given.
    pub profile: Option<&'static str>,
    /// Hosts that HTTP handlers may call.
    pub handler_hosts: TargetHosts,
    /// A model that finds toolsets and judges requests.
    pub decision: Option<DecisionOptions>,
}

/// A broker that is another server.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// Where it is.
    pub address: RemoteAddress,
    /// Connections to it, at least 1.
    pub connections: usize,
}

/// The HTTP listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// Name or address.
    pub host: String,
    /// 0 takes any free port.
    pub port: u16,
    /// Whether it carries the MCP endpoint.
    pub mcp: bool,
    /// Path of that endpoint.
    pub path: String,
    /// Bearer tokens of that endpoint; empty: open.
    pub tokens: Vec<String>,
    /// Sessions at one time.
    pub max_sessions: usize,
    /// Idle time of a session.
    pub session_ttl: Duration,
    /// Further accepted hosts.
    pub allowed_hosts: Vec<AllowedHost>,
    /// Further accepted origins.
    pub allowed_origins: Vec<AllowedOrigin>,
}

/// The metrics page; only `serve` has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// Queues with figures of their own.
    pub labelled_queues: usize,
    /// It asks for the tokens of the MCP endpoint.
    pub with_token: bool,
}

/// The TCP listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    /// Name or address.
    pub host: String,
    /// 0 takes any free port.
    pub port: u16,
    /// Tokens of workers; empty: open.
    pub tokens: Vec<String>,
    /// Silence allowed inside a frame; `None`: any.
    pub partial_frame_timeout: Option<Duration>,
    /// Unread bytes allowed; `None`: any number.
    pub write_budget: Option<usize>,
    /// Frames allowed within a window; `None`: any number.
    pub frame_limit: Option<(usize, Duration)>,
}

/// How long completed jobs are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retention {
    /// How many in memory over all queues, at least 1.
    pub completed_max: usize,
    /// How many in all with a data file, at least 1.
    pub stored_max: usize,
    /// For how many ms; `None`: as long as they are not too many.
    pub completed_age: Option<Millis>,
}

/// Calls of webhooks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Webhooks {
    /// Attempts for each call, at least 1.
    pub attempts: u32,
    /// Wait after a failed attempt, times its number.
    pub retry_delay: Duration,
    /// Whether addresses that are not public may be called.
    pub private: bool,
}

/// Logging.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Log {
    /// Least severe level.
    pub level: tracing::Level,
    /// JSON lines instead of text.
    pub json: bool,
}

/// Where values come from.
pub trait Source {
    /// The value of a flag, if it was given.
    fn flag(&self, flag: &str) -> Option<String>;
    /// The value of an environment variable, if it is set.
    fn variable(&self, name: &str) -> Option<String>;
}

impl Setting {
    /// The setting with that key.
    pub(crate) fn of(key: Key) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// How to name it to somebody who has given another setting: by its flag if that was a flag, else by its variable.
    fn beside(&self, other: &Given) -> String {
        let flag = self.flag.filter(|_| other.setting.starts_with("--"));
        flag.map_or_else(|| self.variable().to_owned(), |flag| format!("--{flag}"))
    }

    /// The variable that wins.
    fn variable(&self) -> &'static str {
        self.variables.first().copied().unwrap_or_default()
    }

    /// What its number is, and one that fits.
    fn number(&self) -> (&'static str, &'static str) {
        let what = match self.value {
            "MS" => "a number of ms",
            "MB" => "a number of MiB",
            "BYTES" => "a number of bytes",
            "PORT" => "a port from 0 to 65535",
            _ => "a number",
        };
        let example = match self.default {
            "" | "0" => "1000",
            default => default,
        };
        (what, example)
    }
}

impl Program {
    /// Whether it reads a setting.
    pub fn reads(self, setting: &Setting) -> bool {
        self == setting.program || setting.program == Self::Both
    }
}
