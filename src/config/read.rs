//! Reads settings: where a value comes from, and whether it fits. The first that does not ends the reading.

use std::time::Duration;

use super::{
    Config, ConfigError, Http, Key, Log, Metrics, NOT_YET, Program, SETTINGS, Source, Tcp, Webhooks,
};
use crate::http::is_page;
use crate::mcp::http::is_loopback;

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
    Ok(match program {
        Program::Serve => {
            let (http, tcp) = reader.serve()?;
            let metrics = reader.metrics()?;
            if metrics.with_token && http.tokens.is_empty() {
                return Err(ConfigError::MetricsAuth);
            }
            Config {
                stdio: false,
                http: Some(http),
                tcp: Some(tcp),
                metrics,
                worker_timeout,
                webhooks,
                toolsets,
                log,
            }
        }
        Program::Mcp | Program::Both => {
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
                metrics: Metrics {
                    labelled_queues: 0,
                    with_token: false,
                },
                worker_timeout,
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

    fn metrics(&self) -> Result<Metrics, ConfigError> {
        let queues = self.integer(Key::MetricsQueues, "non-negative", 0)?;
        let words = ["true", "1", "yes", "on", "false", "0", "no", "off"];
        let auth = self.choice(Key::MetricsAuth, "true or false", &words)?;
        Ok(Metrics {
            labelled_queues: queues.try_into().unwrap_or(usize::MAX),
            with_token: words.iter().take(4).any(|word| *word == auth),
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed<'a>(&'a [(&'a str, &'a str)]);

    impl Source for Fixed<'_> {
        fn flag(&self, flag: &str) -> Option<String> {
            self.variable(&format!("--{flag}"))
        }

        fn variable(&self, name: &str) -> Option<String> {
            self.0
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        }
    }

    fn fault(program: Program, given: &[(&str, &str)]) -> String {
        load(program, &Fixed(given))
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn defaults_are_stdio_alone_and_loopback_for_serve() {
        let bare = load(Program::Mcp, &Fixed(&[])).unwrap();
        assert!(bare.stdio && bare.http.is_none() && bare.tcp.is_none());
        let serve = load(Program::Serve, &Fixed(&[])).unwrap();
        let (http, tcp) = (serve.http.unwrap(), serve.tcp.unwrap());
        assert_eq!(
            (http.host.as_str(), http.port, http.path.as_str()),
            ("127.0.0.1", 6790, "/mcp")
        );
        assert_eq!((tcp.host.as_str(), tcp.port), ("127.0.0.1", 6789));
        assert_eq!(tcp.write_budget, Some(67_108_864));
        assert!(!serve.stdio);
    }

    #[test]
    fn flags_win_over_variables_and_the_first_variable_wins() {
        let given = [
            ("--tcp-port", "1"),
            ("TCP_PORT", "2"),
            ("HOST", "::1"),
            ("BUNQUEUE_MCP_HTTP_HOST", "localhost"),
        ];
        let serve = load(Program::Serve, &Fixed(&given)).unwrap();
        assert_eq!(serve.tcp.unwrap().port, 1);
        assert_eq!(serve.http.unwrap().host, "::1");
    }

    #[test]
    fn s4_bad_settings_are_refused_and_named() {
        let http = ("BUNQUEUE_MCP_TRANSPORT", "http");
        let cases: [(&[(&str, &str)], &str); 15] = [
            (
                &[("BUNQUEUE_MCP_TRANSPORT", "sse")],
                "BUNQUEUE_MCP_TRANSPORT must be stdio or http (got \"sse\")",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_HOST", "0.0.0.0")],
                "Refusing to serve MCP over HTTP on non-loopback host \"0.0.0.0\"",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_HOST", "127.0.0.1:80")],
                "must be a hostname or IP address (got \"127.0.0.1:80\")",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_PORT", "abc")],
                "BUNQUEUE_MCP_HTTP_PORT must be a non-negative integer (got \"abc\")",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_PORT", "70000")],
                "must be an integer between 0 and 65535 (got 70000)",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_PATH", "mcp")],
                "BUNQUEUE_MCP_HTTP_PATH must start with \"/\"",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_PATH", "/docs/mcp/")],
                "must not be the path of another page of this listener",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_TOKEN", " , ")],
                "BUNQUEUE_MCP_HTTP_TOKEN is set but contains no token",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_TOKEN", "a b")],
                "entries must not contain whitespace or control characters",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_MAX_SESSIONS", "0")],
                "must be a positive integer (got \"0\")",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_SESSION_TTL_MS", "1.5")],
                "must be a positive integer (got \"1.5\")",
            ),
            (
                &[http, ("BUNQUEUE_MCP_HTTP_ALLOWED_HOSTS", "http://x")],
                "entries must be host or host:port, not URLs (got \"http://x\")",
            ),
            (
                &[
                    http,
                    ("BUNQUEUE_MCP_HTTP_ALLOWED_ORIGINS", "https://x.example/app"),
                ],
                "entries must be origins",
            ),
            (
                &[("BUNQUEUE_DATA_PATH", "/data/q.db")],
                "BUNQUEUE_DATA_PATH is set, but this version keeps jobs in memory only",
            ),
            (
                &[("BUNQUEUE_MCP_TCP_LISTEN", "0.0.0.0:6789")],
                "set BUNQUEUE_MCP_TCP_TOKEN, or bind 127.0.0.1",
            ),
        ];
        for (given, text) in cases {
            let message = fault(Program::Mcp, given);
            assert!(message.contains(text), "{given:?}: {message}");
        }
    }

    #[test]
    fn serve_on_a_network_needs_a_token_unless_it_serves_workers_only() {
        let open = fault(Program::Serve, &[("HOST", "0.0.0.0")]);
        assert!(open.contains("BUNQUEUE_MCP_HTTP_TOKEN"), "{open}");
        let agents_only = [("HOST", "0.0.0.0"), ("BUNQUEUE_MCP_HTTP_TOKEN", "s")];
        let open = fault(Program::Serve, &agents_only);
        assert!(open.contains("AUTH_TOKENS"), "{open}");
        assert!(
            load(
                Program::Serve,
                &Fixed(&[("HOST", "0.0.0.0"), ("AUTH_TOKENS", "s")])
            )
            .is_ok()
        );
        assert!(
            load(
                Program::Serve,
                &Fixed(&[("HOST", "0.0.0.0"), ("BUNQUEUE_SERVE_MCP", "false")])
            )
            .is_ok()
        );
    }

    #[test]
    fn metrics_are_open_unless_a_token_is_asked_for() {
        let metrics = |given: &[(&str, &str)]| {
            load(Program::Serve, &Fixed(given)).map(|config| config.metrics)
        };
        let default = Metrics {
            labelled_queues: 100,
            with_token: false,
        };
        assert_eq!(metrics(&[]), Ok(default));
        let given = [
            ("METRICS_MAX_QUEUES", "0"),
            ("METRICS_AUTH", "Yes"),
            ("AUTH_TOKENS", "s"),
        ];
        let closed = Metrics {
            labelled_queues: 0,
            with_token: true,
        };
        assert_eq!(metrics(&given), Ok(closed));
        for (given, text) in [
            (
                ("METRICS_AUTH", "true"),
                "METRICS_AUTH is true, but there is no token to ask for",
            ),
            (
                ("METRICS_AUTH", "maybe"),
                "METRICS_AUTH must be true or false (got \"maybe\")",
            ),
            (
                ("METRICS_MAX_QUEUES", "-1"),
                "METRICS_MAX_QUEUES must be a non-negative integer (got \"-1\")",
            ),
        ] {
            let message = fault(Program::Serve, &[given]);
            assert!(message.contains(text), "{message}");
        }
    }

    #[test]
    fn harmless_values_of_missing_settings_pass() {
        let given = [
            ("BUNQUEUE_MODE", "embedded"),
            ("BUNQUEUE_MCP_TOOLSETS", "ALL"),
            ("BUNQUEUE_MCP_CONFIRM", "off"),
            ("DATA_PATH", " "),
        ];
        assert!(load(Program::Mcp, &Fixed(&given)).is_ok());
    }

    #[test]
    fn webhooks_and_workers_have_the_defaults_of_the_contract() {
        let read = |given| {
            let config = load(Program::Serve, &Fixed(given)).unwrap();
            let Webhooks {
                attempts,
                retry_delay,
                private,
            } = config.webhooks;
            (
                attempts,
                retry_delay.as_millis(),
                private,
                config.worker_timeout,
            )
        };
        assert_eq!(read(&[]), (3, 1_000, false, 30_000));
        let given = [
            ("WEBHOOK_MAX_RETRIES", "1"),
            ("WEBHOOK_RETRY_DELAY_MS", "0"),
            ("WEBHOOK_ALLOW_PRIVATE", "TRUE"),
            ("--worker-timeout-ms", "99999999999999999999"),
        ];
        assert_eq!(read(&given[..3]), (1, 0, true, 30_000));
        let wrong: [(&str, &str); 4] = [
            ("WEBHOOK_MAX_RETRIES", "0"),
            ("WEBHOOK_RETRY_DELAY_MS", "1s"),
            ("WEBHOOK_ALLOW_PRIVATE", "maybe"),
            given[3],
        ];
        for (setting, value) in wrong {
            let text = fault(Program::Mcp, &[(setting, value)]);
            assert!(text.starts_with(setting), "{text}");
        }
    }

    #[test]
    fn tcp_listen_takes_a_port_or_host_and_port() {
        let listen = |value| {
            load(Program::Mcp, &Fixed(&[("BUNQUEUE_MCP_TCP_LISTEN", value)])).map(|config| {
                let tcp = config.tcp.unwrap();
                (tcp.host, tcp.port)
            })
        };
        assert_eq!(listen("0").unwrap(), ("127.0.0.1".into(), 0));
        assert_eq!(listen("[::1]:7000").unwrap(), ("::1".into(), 7000));
        assert_eq!(
            listen("localhost:7000").unwrap(),
            ("localhost".into(), 7000)
        );
        assert!(listen("localhost:x").is_err());
    }

    #[test]
    fn flags_are_unique_per_program_and_every_setting_is_described() {
        for program in [Program::Mcp, Program::Serve] {
            let mut flags: Vec<_> = SETTINGS
                .iter()
                .filter(|setting| program.reads(setting))
                .filter_map(|setting| setting.flag)
                .collect();
            flags.sort_unstable();
            let before = flags.len();
            flags.dedup();
            assert_eq!(flags.len(), before);
        }
        assert!(
            SETTINGS
                .iter()
                .all(|setting| !setting.help.is_empty() && !setting.help.ends_with('.'))
        );
    }
}
