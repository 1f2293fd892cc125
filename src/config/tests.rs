//! What is read from flags and variables, and what is refused.

use super::read::*;
use super::*;
use crate::engine::Durability;

pub(super) struct Fixed<'a>(pub(super) &'a [(&'a str, &'a str)]);

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
    // Only a broker of its own waits for jobs before it ends.
    assert_eq!(serve.shutdown_timeout, Duration::from_secs(30));
    assert!(bare.shutdown_timeout.is_zero());
}

#[test]
fn tls_takes_two_files_and_is_for_serve() {
    let (certificate, key) = (("TLS_CERT_FILE", "c.pem"), ("TLS_KEY_FILE", "k.pem"));
    let file = |setting: &str, path: &str| TlsFile {
        setting: setting.to_owned(),
        path: path.into(),
    };
    let serve = load(Program::Serve, &Fixed(&[certificate, key])).unwrap();
    let both = (
        file("TLS_CERT_FILE", "c.pem"),
        file("TLS_KEY_FILE", "k.pem"),
    );
    assert_eq!(serve.tls, Some(both));
    let half = fault(Program::Serve, &[certificate, ("TLS_KEY_FILE", " ")]);
    assert_eq!(
        half,
        "TLS_CERT_FILE is set, but TLS_KEY_FILE is not: TLS needs both"
    );
    assert_eq!(
        fault(Program::Serve, &[("--tls-key-file", "k.pem")]),
        "--tls-key-file is set, but --tls-cert-file is not: TLS needs both"
    );
    assert_eq!(
        fault(Program::Mcp, &[key]),
        "TLS_KEY_FILE is set, but only `serve` has TLS: unset it to start"
    );
    assert_eq!(load(Program::Serve, &Fixed(&[])).unwrap().tls, None);
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
            &[("BUNQUEUE_STORAGE_DRIVER", "postgres")],
            "BUNQUEUE_STORAGE_DRIVER must be memory or sqlite (got \"postgres\")",
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

const PROGRAMS: [Program; 2] = [Program::Mcp, Program::Serve];

#[test]
fn a_data_file_is_that_of_the_flag_or_of_the_first_variable() {
    let names = [
        "--data-path",
        "BUNQUEUE_DATA_PATH",
        "BQ_DATA_PATH",
        "DATA_PATH",
        "SQLITE_PATH",
    ];
    for program in PROGRAMS {
        let none = load(
            program,
            &Fixed(&[("BUNQUEUE_DATA_PATH", " "), ("DATA_PATH", "")]),
        );
        let none = none.unwrap();
        assert_eq!((none.data, &*none.data_setting), (None, ""));
        for (first, name) in names.iter().enumerate() {
            let given: Vec<_> = names.iter().map(|name| (*name, "a/q.db")).collect();
            let config = load(program, &Fixed(&given[first..])).unwrap();
            let file = DataFile {
                path: "a/q.db".into(),
                durability: Durability::Committed,
            };
            assert_eq!((config.data, &*config.data_setting), (Some(file), *name));
        }
    }
}

#[test]
fn s4_two_data_files_are_refused_and_named() {
    let given = [
        ("BUNQUEUE_DATA_PATH", " "),
        ("BQ_DATA_PATH", "a"),
        ("DATA_PATH", "a"),
        ("SQLITE_PATH", "b"),
    ];
    for program in PROGRAMS {
        assert_eq!(
            fault(program, &given),
            "BQ_DATA_PATH is \"a\", but SQLITE_PATH is \"b\": there is one data file, so unset one of them"
        );
        let flag = [&given[..], &[("--data-path", "c")]].concat();
        let config = load(program, &Fixed(&flag)).unwrap();
        assert_eq!(config.data.unwrap().path.to_str(), Some("c"));
    }
}

#[test]
fn s4_what_is_no_file_is_no_data_file() {
    for given in [":memory:", "file:q.db?mode=memory", "q\u{fffd}.db"] {
        let text = fault(Program::Serve, &[("DATA_PATH", given)]);
        assert!(
            text.starts_with("DATA_PATH must be the path of a file"),
            "{text}"
        );
    }
    let blank = fault(Program::Mcp, &[("--data-path", " ")]);
    assert!(blank.starts_with("--data-path must be"), "{blank}");
}

#[test]
fn durability_is_for_a_data_file() {
    let path = ("SQLITE_PATH", "q.db");
    for (word, durability) in [
        ("buffered", Durability::Buffered),
        ("Committed", Durability::Committed),
        (" durable ", Durability::Durable),
        ("", Durability::Committed),
    ] {
        let given = [path, ("BUNQUEUE_DURABILITY", word)];
        let data = load(Program::Mcp, &Fixed(&given)).unwrap().data;
        assert_eq!(data.unwrap().durability, durability, "{word:?}");
    }
    for program in PROGRAMS {
        assert_eq!(
            fault(program, &[path, ("BUNQUEUE_DURABILITY", "none")]),
            "BUNQUEUE_DURABILITY must be buffered, committed or durable (got \"none\")"
        );
        // Memory keeps nothing, not even that of the weakest level.
        assert_eq!(
            fault(program, &[("BUNQUEUE_DURABILITY", "buffered")]),
            "BUNQUEUE_DURABILITY is \"buffered\", but there is no data file: set BUNQUEUE_DATA_PATH too, or unset it"
        );
        let flag = fault(program, &[("--durability", "durable")]);
        assert!(flag.contains("set --data-path too"), "{flag}");
    }
}

#[test]
fn a_storage_driver_agrees_with_the_data_file() {
    let driver = |word| ("BUNQUEUE_STORAGE_DRIVER", word);
    let path = ("DATA_PATH", "q.db");
    let data = |given: &[(&str, &str)]| load(Program::Serve, &Fixed(given)).unwrap().data;
    assert!(data(&[driver("SQLite"), path]).is_some());
    assert!(data(&[driver("memory")]).is_none());
    assert_eq!(
        fault(Program::Serve, &[driver("memory"), path]),
        "BUNQUEUE_STORAGE_DRIVER is \"memory\", but DATA_PATH names a data file: unset one of them"
    );
    assert_eq!(
        fault(Program::Serve, &[driver("sqlite")]),
        "BUNQUEUE_STORAGE_DRIVER is \"sqlite\", but there is no data file: set BUNQUEUE_DATA_PATH too, or unset it"
    );
}

#[test]
fn completed_jobs_are_kept_by_number_and_by_age() {
    let read = |given: &[(&str, &str)]| load(Program::Mcp, &Fixed(given)).unwrap().retention;
    let default = Retention {
        completed_max: 50_000,
        stored_max: 1_000_000,
        completed_age: None,
    };
    assert_eq!(read(&[]), default);
    let given = [
        ("MAX_COMPLETED_JOBS", "5"),
        ("BUNQUEUE_MAX_STORED_COMPLETED_JOBS", "7"),
        ("COMPLETED_RETENTION_MS", "0"),
    ];
    let set = Retention {
        completed_max: 5,
        stored_max: 7,
        completed_age: Some(0),
    };
    assert_eq!(read(&given), set);
    assert_eq!(read(&[("BUNQUEUE_COMPLETED_RETENTION_MS", " ")]), default);
    for (setting, value) in [
        ("BUNQUEUE_COMPLETED_RETENTION_MS", "7days"),
        ("COMPLETED_RETENTION_MS", "-1"),
        ("--completed-retention-ms", ""),
        ("--completed-retention-ms", "NaN"),
        ("MAX_COMPLETED_JOBS", "0"),
        ("--max-stored-completed-jobs", "many"),
    ] {
        let text = fault(Program::Serve, &[(setting, value)]);
        assert!(text.starts_with(setting), "{text}");
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
fn every_open_door_is_named_at_once() {
    let http = "Refusing to serve MCP over HTTP on non-loopback host \"0.0.0.0\" without authentication: \
                set BUNQUEUE_MCP_HTTP_TOKEN, or bind 127.0.0.1";
    let workers =
        "Refusing to serve workers on non-loopback host \"0.0.0.0\" without authentication: set ";
    let serve = fault(Program::Serve, &[("HOST", "0.0.0.0")]);
    let bare = fault(
        Program::Mcp,
        &[
            ("--transport", "http"),
            ("--http-host", "0.0.0.0"),
            ("--tcp-listen", "0.0.0.0:1"),
        ],
    );
    for (text, tokens) in [(serve, "AUTH_TOKENS,"), (bare, "BUNQUEUE_MCP_TCP_TOKEN,")] {
        assert!(text.starts_with(http), "{text}");
        assert!(text.contains(&format!("{workers}{tokens}")), "{text}");
    }
}

#[test]
fn a_variable_that_nothing_reads_is_told_of() {
    let ignored = |program, given: &[(&str, &str)]| load(program, &Fixed(given)).unwrap().ignored;
    let (all, tcp, http) = (
        ("AUTH_TOKENS", "a"),
        ("BUNQUEUE_MCP_TCP_TOKEN", "t"),
        ("BUNQUEUE_MCP_HTTP_TOKEN", "h"),
    );
    assert_eq!(
        ignored(Program::Serve, &[all, tcp]),
        [("BUNQUEUE_MCP_TCP_TOKEN", "AUTH_TOKENS")]
    );
    // Workers still need what agents do not.
    assert!(ignored(Program::Serve, &[all, http]).is_empty());
    assert_eq!(
        ignored(Program::Mcp, &[all, http, tcp]),
        [("AUTH_TOKENS", "BUNQUEUE_MCP_HTTP_TOKEN")]
    );
    assert!(ignored(Program::Serve, &[all, ("BUNQUEUE_MCP_TCP_TOKEN", "a")]).is_empty());
}

#[test]
fn a_number_that_does_not_fit_is_answered_with_one_that_does() {
    for (setting, expected) in [
        (
            ("--webhook-retry-delay-ms", "1s"),
            "--webhook-retry-delay-ms must be a non-negative integer (got \"1s\"); a number of ms, such as 1000",
        ),
        (
            ("TCP_PORT", "any"),
            "TCP_PORT must be a non-negative integer (got \"any\"); a port from 0 to 65535, such as 6789",
        ),
        (
            ("RATE_LIMIT_MAX_REQUESTS", "0"),
            "RATE_LIMIT_MAX_REQUESTS must be a positive integer (got \"0\"); a number, such as 1000",
        ),
    ] {
        assert_eq!(fault(Program::Serve, &[setting]), expected);
    }
    // Whatever stands for a number is read as one, and its default fits.
    for setting in SETTINGS {
        if ["MS", "MB", "BYTES", "PORT", "N"].contains(&setting.value) {
            let (_, example) = setting.number();
            assert!(example.parse::<u64>().is_ok(), "{example}");
        }
    }
}

#[test]
fn words_for_yes_and_no_are_the_same_for_every_switch() {
    let mut found = 0;
    for setting in SETTINGS
        .iter()
        .filter(|setting| setting.value == "true|false")
    {
        for (word, fits) in [("ON", true), ("0", true), ("ja", false)] {
            let given = [(setting.variables[0], word), ("AUTH_TOKENS", "s")];
            let read = load(Program::Serve, &Fixed(&given));
            assert_eq!(read.is_ok(), fits, "{given:?}");
        }
        found += 1;
    }
    assert!(found > 2);
}

#[test]
fn metrics_are_open_unless_a_token_is_asked_for() {
    let metrics =
        |given: &[(&str, &str)]| load(Program::Serve, &Fixed(given)).map(|config| config.metrics);
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
        ("BUNQUEUE_MCP_TOOLSETS", "ALL"),
        ("BUNQUEUE_MCP_CONFIRM", "off"),
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
fn notices_have_the_defaults_of_the_contract_and_0_switches_them_off() {
    let read = |given| {
        let config = load(Program::Mcp, &Fixed(given)).unwrap();
        (
            config.notices,
            config.memory_warning,
            config.storage_warning,
        )
    };
    assert_eq!(read(&[]), (NoticeBounds::default(), None, None));
    let names = [
        "QUEUE_IDLE_THRESHOLD_MS",
        "QUEUE_SIZE_THRESHOLD",
        "WORKER_OVERLOAD_THRESHOLD_MS",
        "MEMORY_WARNING_MB",
        "STORAGE_WARNING_MB",
    ];
    let off = names.map(|name| (name, "0"));
    let nothing = NoticeBounds {
        queue_idle: None,
        queue_size: None,
        worker_overload: None,
    };
    assert_eq!(read(&off), (nothing, None, None));
    let numbers = ["1", "2", "3", "4", "5"];
    let given: Vec<_> = names.into_iter().zip(numbers).collect();
    let bounds = NoticeBounds {
        queue_idle: Some(1),
        queue_size: Some(2),
        worker_overload: Some(3),
    };
    assert_eq!(read(&given), (bounds, Some(4), Some(5)));
    for name in names {
        let text = fault(Program::Serve, &[(name, "-1")]);
        assert!(text.starts_with(name), "{text}");
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
    for bad in ["foo", "localhost:x", "70000", "a b:1", ":1", "1:"] {
        assert_eq!(
            fault(Program::Mcp, &[("--tcp-listen", bad)]),
            format!(
                "--tcp-listen must be a port from 0 to 65535, or host:port (got {bad:?}), \
                 such as 6789 or 127.0.0.1:6789"
            )
        );
    }
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
