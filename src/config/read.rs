//! Reads settings: where a value comes from, and whether it fits. The first that does not ends the reading.

use std::time::Duration;

use super::open::refuse_open;
use super::{
    Config, ConfigError, Given, Http, Key, Log, Metrics, NOT_YET, Program, SETTINGS, Setting,
    Source, Tcp, Webhooks,
};
use crate::engine::NoticeBounds;
use crate::http::is_page;
use crate::net::TlsFile;

/// Reads all settings of a program.
///
/// # Errors
/// The first value that does not fit.
pub fn load(program: Program, source: &dyn Source) -> Result<Config, ConfigError> {
    let reader = Reader { source };
    reader.refuse_what_is_not_there()?;
    let remote = match program {
        Program::Serve => reader.refuse_remote().map(|()| None)?,
        Program::Mcp | Program::Both => reader.remote()?,
    };
    let data = match remote {
        Some(_) => None,
        None => reader.data()?,
    };
    let (data, data_setting) = data.unzip();
    let common = Config {
        stdio: false,
        http: None,
        tcp: None,
        tls: None,
        metrics: Metrics {
            labelled_queues: reader.labelled_queues()?,
            with_token: false,
        },
        remote,
        data,
        data_setting: data_setting.unwrap_or_default(),
        retention: reader.retention()?,
        // Whoever started it as part of his own program wants it to be gone.
        shutdown_timeout: Duration::ZERO,
        worker_timeout: reader.worker_timeout()?,
        notices: reader.notices()?,
        memory_warning: reader.bound(Key::MemoryWarning)?,
        storage_warning: reader.bound(Key::StorageWarning)?,
        webhooks: reader.webhooks()?,
        agent: reader.agent()?,
        ignored: reader.ignored(program),
        log: reader.log()?,
    };
    match program {
        Program::Serve => reader.broker(common),
        Program::Mcp | Program::Both => reader.server(common),
    }
}

/// Values by their settings.
pub(super) struct Reader<'a> {
    pub(super) source: &'a dyn Source,
}

impl Reader<'_> {
    /// The settings of `serve`.
    fn broker(&self, common: Config) -> Result<Config, ConfigError> {
        let (http, tcp) = self.serve()?;
        let tls = self.tls()?;
        let with_token = self.switch(Key::MetricsAuth)?;
        let shutdown_timeout = self.integer(Key::ShutdownTimeout, "non-negative", 0)?;
        if with_token && http.tokens.is_empty() {
            return Err(self.no_token_for_metrics());
        }
        Ok(Config {
            http: Some(http),
            tcp: Some(tcp),
            tls,
            metrics: Metrics {
                with_token,
                ..common.metrics
            },
            shutdown_timeout: Duration::from_millis(shutdown_timeout),
            ..common
        })
    }

    /// The settings of the bare program.
    fn server(&self, common: Config) -> Result<Config, ConfigError> {
        self.refuse_tls()?;
        let transport = self.choice(Key::Transport, "stdio or http", &["stdio", "http"])?;
        let http = if transport == "http" {
            Some(self.http()?)
        } else {
            None
        };
        let tcp = self.tcp_listen()?;
        refuse_open(
            http.as_ref().map(|http| (http, Key::HttpTokens)),
            tcp.as_ref().map(|tcp| (tcp, Key::TcpTokens)),
        )?;
        Ok(Config {
            stdio: http.is_none(),
            http,
            tcp,
            ..common
        })
    }

    fn refuse_what_is_not_there(&self) -> Result<(), ConfigError> {
        for (setting, instead) in NOT_YET {
            let value = self.source.variable(setting).unwrap_or_default();
            if !value.trim().is_empty() {
                return Err(ConfigError::NotYet { setting, instead });
            }
        }
        Ok(())
    }

    /// Variables that say something else than the one before them in their row, and that no other row reads.
    fn ignored(&self, program: Program) -> Vec<(&'static str, &'static str)> {
        let mut read = Vec::new();
        let mut passed = Vec::new();
        for setting in SETTINGS.iter().filter(|setting| program.reads(setting)) {
            let mut set = setting.variables.iter().filter_map(|name| {
                let value = self.source.variable(name)?;
                (!value.trim().is_empty()).then_some((*name, value))
            });
            let Some((first, value)) = set.next() else {
                continue;
            };
            read.push(first);
            for (name, other) in set {
                if other != value && passed.iter().all(|(told, _)| *told != name) {
                    passed.push((name, first));
                }
            }
        }
        passed.retain(|(name, _)| !read.contains(name));
        passed
    }

    pub(super) fn given(&self, key: Key) -> Option<Given> {
        let setting = Setting::of(key)?;
        let flag = setting
            .flag
            .and_then(|flag| Some((format!("--{flag}"), self.source.flag(flag)?)));
        let variable = || {
            setting.variables.iter().find_map(|name| {
                Some((
                    (*name).to_owned(),
                    self.source
                        .variable(name)
                        .filter(|value| !value.trim().is_empty())?,
                ))
            })
        };
        let (setting, value) = flag.or_else(variable)?;
        Some(Given { setting, value })
    }

    pub(super) fn given_or_default(&self, key: Key) -> Given {
        let default = || Given {
            setting: String::new(),
            value: Setting::of(key)
                .map_or("", |setting| setting.default)
                .to_owned(),
        };
        self.given(key).unwrap_or_else(default)
    }

    pub(super) fn choice(
        &self,
        key: Key,
        allowed: &'static str,
        words: &[&str],
    ) -> Result<String, ConfigError> {
        let Given { setting, value } = self.given_or_default(key);
        let word = value.trim().to_ascii_lowercase();
        if words.contains(&word.as_str()) {
            Ok(word)
        } else {
            Err(ConfigError::Choice {
                setting,
                allowed,
                given: value,
            })
        }
    }

    fn port(&self, key: Key) -> Result<u16, ConfigError> {
        let Given { setting, value } = self.given_or_default(key);
        let value = value.trim();
        if digits(value).is_none() {
            return Err(not_a_number(key, setting, "non-negative", value));
        }
        value.parse().map_err(|_| ConfigError::Port {
            setting,
            given: value.to_owned(),
        })
    }

    pub(super) fn integer(
        &self,
        key: Key,
        kind: &'static str,
        min: u64,
    ) -> Result<u64, ConfigError> {
        let Given { setting, value } = self.given_or_default(key);
        match digits(value.trim()).filter(|number| *number >= min) {
            Some(number) => Ok(number),
            None => Err(not_a_number(key, setting, kind, &value)),
        }
    }

    fn host(&self, key: Key) -> Result<String, ConfigError> {
        let Given { setting, value } = self.given_or_default(key);
        parse_host(value.trim()).ok_or(ConfigError::Host {
            setting,
            given: value,
        })
    }

    fn tokens(&self, key: Key) -> Result<Vec<String>, ConfigError> {
        let Some(Given { setting, value }) = self.raw_tokens(key) else {
            return Ok(Vec::new());
        };
        let tokens: Vec<_> = value
            .split(',')
            .map(str::trim)
            .filter(|token| !token.is_empty())
            .map(str::to_owned)
            .collect();
        if tokens.is_empty() {
            return Err(ConfigError::NoToken { setting });
        }
        if tokens
            .iter()
            .any(|token| token.chars().any(|c| c.is_whitespace() || c.is_control()))
        {
            return Err(ConfigError::BadToken { setting });
        }
        Ok(tokens)
    }

    /// As [`Reader::given`], but a blank list of tokens is a fault, not "no authentication".
    fn raw_tokens(&self, key: Key) -> Option<Given> {
        let setting = Setting::of(key)?;
        setting.variables.iter().find_map(|name| {
            let value = self
                .source
                .variable(name)
                .filter(|value| !value.is_empty())?;
            Some(Given {
                setting: (*name).to_owned(),
                value,
            })
        })
    }

    pub(super) fn list<T>(
        &self,
        key: Key,
        parse: impl Fn(&str) -> Option<T>,
        fault: impl Fn(String, String) -> ConfigError,
    ) -> Result<Vec<T>, ConfigError> {
        let Given { setting, value } = self.given_or_default(key);
        let entries = value
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty());
        entries
            .map(|entry| parse(entry).ok_or_else(|| fault(setting.clone(), entry.to_owned())))
            .collect()
    }

    fn http(&self) -> Result<Http, ConfigError> {
        let (host, port) = (self.host(Key::HttpHost)?, self.port(Key::HttpPort)?);
        self.endpoint(host, port, true, Key::HttpTokens)
    }

    fn endpoint(
        &self,
        host: String,
        port: u16,
        mcp: bool,
        tokens: Key,
    ) -> Result<Http, ConfigError> {
        let allowed_host = |setting, given| ConfigError::AllowedHost { setting, given };
        let allowed_origin = |setting, given| ConfigError::AllowedOrigin { setting, given };
        Ok(Http {
            host,
            port,
            mcp,
            path: self.path()?,
            tokens: self.tokens(tokens)?,
            max_sessions: self
                .integer(Key::MaxSessions, "positive", 1)?
                .try_into()
                .unwrap_or(usize::MAX),
            session_ttl: Duration::from_millis(self.integer(Key::SessionTtl, "positive", 1)?),
            allowed_hosts: self.list(
                Key::AllowedHosts,
                |entry| entry.parse().ok(),
                allowed_host,
            )?,
            allowed_origins: self.list(
                Key::AllowedOrigins,
                |entry| entry.parse().ok(),
                allowed_origin,
            )?,
        })
    }

    fn path(&self) -> Result<String, ConfigError> {
        let Given { setting, value } = self.given_or_default(Key::HttpPath);
        let bad = |c: char| c.is_whitespace() || c == '?' || c == '#';
        if !value.starts_with('/') || value.contains(bad) {
            return Err(ConfigError::Path {
                setting,
                given: value,
            });
        }
        let path = value.trim_end_matches('/');
        if is_page(path) {
            return Err(ConfigError::PathTaken {
                setting,
                given: value,
            });
        }
        Ok(if path.is_empty() { "/" } else { path }.to_owned())
    }

    fn serve(&self) -> Result<(Http, Tcp), ConfigError> {
        let host = self.host(Key::ServeHost)?;
        let mcp = self.switch(Key::ServeMcp)?;
        let http = self.endpoint(
            host.clone(),
            self.port(Key::ServeHttpPort)?,
            mcp,
            Key::ServeHttpTokens,
        )?;
        let tcp = self.tcp(host, self.port(Key::ServeTcpPort)?, Key::ServeTcpTokens)?;
        if mcp {
            refuse_open(
                Some((&http, Key::ServeHttpTokens)),
                Some((&tcp, Key::ServeTcpTokens)),
            )?;
        }
        Ok((http, tcp))
    }

    fn tls(&self) -> Result<Option<(TlsFile, TlsFile)>, ConfigError> {
        let file = |Given { setting, value }| TlsFile {
            setting,
            path: value.into(),
        };
        let half = |given: Given, missing| {
            let missing = Setting::of(missing).map(|setting| setting.beside(&given));
            ConfigError::HalfTls {
                setting: given.setting,
                missing: missing.unwrap_or_default(),
            }
        };
        match (self.given(Key::TlsCertificate), self.given(Key::TlsKey)) {
            (Some(certificate), Some(key)) => Ok(Some((file(certificate), file(key)))),
            (Some(certificate), None) => Err(half(certificate, Key::TlsKey)),
            (None, Some(key)) => Err(half(key, Key::TlsCertificate)),
            (None, None) => Ok(None),
        }
    }

    /// Whoever asks for TLS must not go without it unknowingly.
    fn refuse_tls(&self) -> Result<(), ConfigError> {
        let given = self
            .given(Key::TlsCertificate)
            .or_else(|| self.given(Key::TlsKey));
        given.map_or(Ok(()), |Given { setting, .. }| {
            Err(ConfigError::NoTls { setting })
        })
    }

    fn no_token_for_metrics(&self) -> ConfigError {
        let tokens = Setting::of(Key::ServeHttpTokens).map_or(&[][..], |setting| setting.variables);
        ConfigError::MetricsAuth {
            setting: self.given_or_default(Key::MetricsAuth).setting,
            tokens: tokens.join(" or "),
        }
    }

    /// One of the words for yes and no, in any case.
    fn switch(&self, key: Key) -> Result<bool, ConfigError> {
        const WORDS: [&str; 8] = ["true", "1", "yes", "on", "false", "0", "no", "off"];
        let word = self.choice(key, "true or false", &WORDS)?;
        Ok(WORDS.iter().take(4).any(|yes| *yes == word))
    }

    fn labelled_queues(&self) -> Result<usize, ConfigError> {
        let queues = self.integer(Key::MetricsQueues, "non-negative", 0)?;
        Ok(queues.try_into().unwrap_or(usize::MAX))
    }

    fn tcp_listen(&self) -> Result<Option<Tcp>, ConfigError> {
        let Some(Given { setting, value }) = self.given(Key::TcpListen) else {
            return Ok(None);
        };
        let fault = || ConfigError::Listen {
            setting: setting.clone(),
            given: value.clone(),
        };
        let (host, port) = match value.trim().rsplit_once(':') {
            Some((host, port)) => (host, port),
            None => ("127.0.0.1", value.trim()),
        };
        let host = parse_host(host).ok_or_else(fault)?;
        let port = digits(port).and_then(|port| port.try_into().ok());
        let tcp = self.tcp(host, port.ok_or_else(fault)?, Key::TcpTokens)?;
        Ok(Some(tcp))
    }

    fn tcp(&self, host: String, port: u16, tokens: Key) -> Result<Tcp, ConfigError> {
        let timeout = self.integer(Key::TcpIdleTimeout, "non-negative", 0)?;
        let budget = self.integer(Key::TcpWriteBudget, "non-negative", 0)?;
        Ok(Tcp {
            host,
            port,
            tokens: self.tokens(tokens)?,
            partial_frame_timeout: (timeout > 0).then(|| Duration::from_millis(timeout)),
            write_budget: usize::try_from(budget).ok().filter(|bytes| *bytes > 0),
            frame_limit: self.frame_limit()?,
        })
    }

    fn webhooks(&self) -> Result<Webhooks, ConfigError> {
        let attempts = self.integer(Key::WebhookAttempts, "positive", 1)?;
        let delay = self.integer(Key::WebhookDelay, "non-negative", 0)?;
        Ok(Webhooks {
            attempts: attempts.try_into().unwrap_or(u32::MAX),
            retry_delay: Duration::from_millis(delay),
            private: self.switch(Key::WebhookPrivate)?,
        })
    }

    fn worker_timeout(&self) -> Result<i64, ConfigError> {
        let timeout = self.integer(Key::WorkerTimeout, "positive", 1)?;
        Ok(timeout.try_into().unwrap_or(i64::MAX))
    }

    fn notices(&self) -> Result<NoticeBounds, ConfigError> {
        let span = |ms: u64| ms.try_into().unwrap_or(i64::MAX);
        let count = |jobs: u64| jobs.try_into().unwrap_or(usize::MAX);
        Ok(NoticeBounds {
            queue_idle: self.bound(Key::QueueIdle)?.map(span),
            queue_size: self.bound(Key::QueueSize)?.map(count),
            worker_overload: self.bound(Key::WorkerOverload)?.map(span),
        })
    }

    /// A bound that 0 switches off.
    fn bound(&self, key: Key) -> Result<Option<u64>, ConfigError> {
        let bound = self.integer(key, "non-negative", 0)?;
        Ok((bound > 0).then_some(bound))
    }

    fn frame_limit(&self) -> Result<Option<(usize, Duration)>, ConfigError> {
        let window = self.integer(Key::FrameWindow, "non-negative", 0)?;
        if self.given(Key::FrameLimit).is_none() || window == 0 {
            return Ok(None);
        }
        let frames = self.integer(Key::FrameLimit, "positive", 1)?;
        Ok(Some((
            frames.try_into().unwrap_or(usize::MAX),
            Duration::from_millis(window),
        )))
    }

    fn log(&self) -> Result<Log, ConfigError> {
        let levels = ["error", "warn", "info", "debug", "trace"];
        let level = self.choice(Key::LogLevel, "error, warn, info, debug or trace", &levels)?;
        let format = self.choice(Key::LogFormat, "text or json", &["text", "json"])?;
        Ok(Log {
            level: level.parse().unwrap_or(tracing::Level::INFO),
            json: format == "json",
        })
    }
}

pub(super) fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn not_a_number(key: Key, setting: String, kind: &'static str, given: &str) -> ConfigError {
    let (what, example) = Setting::of(key).map_or(("a number", "1"), Setting::number);
    ConfigError::Integer {
        setting,
        kind,
        given: given.to_owned(),
        what,
        example,
    }
}

fn parse_host(text: &str) -> Option<String> {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let fits =
        inner.parse::<std::net::IpAddr>().is_ok() || (!inner.is_empty() && inner.chars().all(name));
    fits.then(|| inner.to_owned())
}
