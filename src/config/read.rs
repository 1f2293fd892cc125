//! Reads settings: where a value comes from, and whether it fits. The first that does not ends the reading.

use std::time::Duration;

use super::{
    Config, ConfigError, Http, Key, Log, Metrics, NOT_YET, Program, SETTINGS, Source, Tcp, Webhooks,
};
use crate::engine::NoticeBounds;
use crate::http::is_page;
use crate::mcp::http::is_loopback;
use crate::net::TlsFile;

/// Reads all settings of a program.
///
/// # Errors
/// The first value that does not fit.
pub fn load(program: Program, source: &dyn Source) -> Result<Config, ConfigError> {
    let reader = Reader { source };
    reader.refuse_what_is_not_there()?;
    let log = reader.log()?;
    let toolsets = reader.toolsets();
    let webhooks = reader.webhooks()?;
    let worker_timeout = reader.worker_timeout()?;
    let notices = reader.notices()?;
    let memory_warning = reader.bound(Key::MemoryWarning)?;
    Ok(match program {
        Program::Serve => {
            let (http, tcp) = reader.serve()?;
            let tls = reader.tls()?;
            let metrics = reader.metrics()?;
            let shutdown_timeout = reader.integer(Key::ShutdownTimeout, "non-negative", 0)?;
            if metrics.with_token && http.tokens.is_empty() {
                return Err(ConfigError::MetricsAuth);
            }
            Config {
                stdio: false,
                http: Some(http),
                tcp: Some(tcp),
                tls,
                metrics,
                shutdown_timeout: Duration::from_millis(shutdown_timeout),
                worker_timeout,
                notices,
                memory_warning,
                webhooks,
                toolsets,
                log,
            }
        }
        Program::Mcp | Program::Both => {
            reader.refuse_tls()?;
            let transport = reader.choice(Key::Transport, "stdio or http", &["stdio", "http"])?;
            let http = if transport == "http" {
                Some(reader.http()?)
            } else {
                None
            };
            Config {
                stdio: http.is_none(),
                http,
                tcp: reader.tcp_listen()?,
                tls: None,
                metrics: Metrics {
                    labelled_queues: reader.labelled_queues()?,
                    with_token: false,
                },
                // Whoever started it as part of his own program wants it to be gone.
                shutdown_timeout: Duration::ZERO,
                worker_timeout,
                notices,
                memory_warning,
                webhooks,
                toolsets,
                log,
            }
        }
    })
}

/// A value and the flag or variable it came from.
struct Given {
    setting: String,
    value: String,
}

struct Reader<'a> {
    source: &'a dyn Source,
}

impl Reader<'_> {
    fn refuse_what_is_not_there(&self) -> Result<(), ConfigError> {
        for (setting, harmless, instead) in NOT_YET {
            let value = self.source.variable(setting).unwrap_or_default();
            let value = value.trim();
            if !value.is_empty() && !value.eq_ignore_ascii_case(harmless) {
                return Err(ConfigError::NotYet { setting, instead });
            }
        }
        Ok(())
    }

    fn given(&self, key: Key) -> Option<Given> {
        let setting = SETTINGS.iter().find(|setting| setting.key == key)?;
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

    fn given_or_default(&self, key: Key) -> Given {
        let default = || {
            let setting = SETTINGS.iter().find(|setting| setting.key == key);
            Given {
                setting: String::new(),
                value: setting.map_or("", |setting| setting.default).to_owned(),
            }
        };
        self.given(key).unwrap_or_else(default)
    }

    fn choice(
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
        parse_port(setting, value.trim())
    }

    fn integer(&self, key: Key, kind: &'static str, min: u64) -> Result<u64, ConfigError> {
        let Given { setting, value } = self.given_or_default(key);
        match digits(value.trim()).filter(|number| *number >= min) {
            Some(number) => Ok(number),
            None => Err(ConfigError::Integer {
                setting,
                kind,
                given: value,
            }),
        }
    }

    fn host(&self, key: Key) -> Result<String, ConfigError> {
        let Given { setting, value } = self.given_or_default(key);
        parse_host(setting, value.trim())
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
        let setting = SETTINGS.iter().find(|setting| setting.key == key)?;
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

    fn list<T>(
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
        let http = self.endpoint(host, port, true, Key::HttpTokens)?;
        if http.tokens.is_empty() && !is_loopback(&http.host) {
            return Err(ConfigError::OpenHttp { host: http.host });
        }
        Ok(http)
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
        let mcp = self.choice(Key::ServeMcp, "true or false", &["true", "false"])? == "true";
        let http = self.endpoint(
            host.clone(),
            self.port(Key::ServeHttpPort)?,
            mcp,
            Key::ServeHttpTokens,
        )?;
        let tcp = self.tcp(host, self.port(Key::ServeTcpPort)?, Key::ServeTcpTokens)?;
        if mcp && !is_loopback(&http.host) {
            if http.tokens.is_empty() {
                return Err(ConfigError::OpenHttp { host: http.host });
            }
            if tcp.tokens.is_empty() {
                return Err(ConfigError::OpenTcp {
                    host: tcp.host,
                    variable: "AUTH_TOKENS",
                });
            }
        }
        Ok((http, tcp))
    }

    fn tls(&self) -> Result<Option<(TlsFile, TlsFile)>, ConfigError> {
        let file = |Given { setting, value }| TlsFile {
            setting,
            path: value.into(),
        };
        let half = |given: Given, missing| ConfigError::HalfTls {
            setting: given.setting,
            missing,
        };
        match (self.given(Key::TlsCertificate), self.given(Key::TlsKey)) {
            (Some(certificate), Some(key)) => Ok(Some((file(certificate), file(key)))),
            (Some(certificate), None) => Err(half(certificate, "TLS_KEY_FILE")),
            (None, Some(key)) => Err(half(key, "TLS_CERT_FILE")),
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

    fn metrics(&self) -> Result<Metrics, ConfigError> {
        let labelled_queues = self.labelled_queues()?;
        let words = ["true", "1", "yes", "on", "false", "0", "no", "off"];
        let auth = self.choice(Key::MetricsAuth, "true or false", &words)?;
        Ok(Metrics {
            labelled_queues,
            with_token: words.iter().take(4).any(|word| *word == auth),
        })
    }

    fn labelled_queues(&self) -> Result<usize, ConfigError> {
        let queues = self.integer(Key::MetricsQueues, "non-negative", 0)?;
        Ok(queues.try_into().unwrap_or(usize::MAX))
    }

    fn tcp_listen(&self) -> Result<Option<Tcp>, ConfigError> {
        let Some(Given { setting, value }) = self.given(Key::TcpListen) else {
            return Ok(None);
        };
        let value = value.trim();
        let (host, port) = match value.rsplit_once(':') {
            Some((host, port)) => (parse_host(setting.clone(), host)?, port),
            None => ("127.0.0.1".to_owned(), value),
        };
        let tcp = self.tcp(host, parse_port(setting, port)?, Key::TcpTokens)?;
        if tcp.tokens.is_empty() && !is_loopback(&tcp.host) {
            return Err(ConfigError::OpenTcp {
                host: tcp.host,
                variable: "BUNQUEUE_MCP_TCP_TOKEN",
            });
        }
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

    /// The list as given, also one of commas only: whoever knows the toolsets judges it.
    fn toolsets(&self) -> Option<String> {
        self.given(Key::Toolsets).map(|given| given.value)
    }

    fn webhooks(&self) -> Result<Webhooks, ConfigError> {
        let attempts = self.integer(Key::WebhookAttempts, "positive", 1)?;
        let delay = self.integer(Key::WebhookDelay, "non-negative", 0)?;
        let words = ["true", "false"];
        Ok(Webhooks {
            attempts: attempts.try_into().unwrap_or(u32::MAX),
            retry_delay: Duration::from_millis(delay),
            private: self.choice(Key::WebhookPrivate, "true or false", &words)? == "true",
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

fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn parse_port(setting: String, text: &str) -> Result<u16, ConfigError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ConfigError::Integer {
            setting,
            kind: "non-negative",
            given: text.to_owned(),
        });
    }
    text.parse().map_err(|_| ConfigError::Port {
        setting,
        given: text.to_owned(),
    })
}

fn parse_host(setting: String, text: &str) -> Result<String, ConfigError> {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let fits =
        inner.parse::<std::net::IpAddr>().is_ok() || (!inner.is_empty() && inner.chars().all(name));
    if fits {
        Ok(inner.to_owned())
    } else {
        Err(ConfigError::Host {
            setting,
            given: text.to_owned(),
        })
    }
}
