//! Start, end, and what goes over stdin and stdout between them.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stdio::{Agent, REVISION, initialize_params};
use crate::process::Process;

/// Real time that hard case M1 allows.
const IDLE: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_secs(2);
/// For an end whose speed is not what the test is about.
const ANY: Duration = Duration::from_secs(20);

#[test]
fn the_handshake_names_the_server_and_negotiates_the_revision() {
    for (asked, given) in [
        (REVISION, REVISION),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("1999-01-01", REVISION),
    ] {
        let mut agent = Agent::silent(&[]);
        let mut params = initialize_params();
        params["protocolVersion"] = json!(asked);
        let result = agent.result("initialize", &params);
        assert_eq!(result["protocolVersion"], given, "{asked}");
        assert_eq!(result["serverInfo"]["name"], "bunqueue-mcp");
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(result["capabilities"]["tools"].is_object());
        assert!(
            result["instructions"]
                .as_str()
                .is_some_and(|text| text.len() <= 700)
        );
        agent.notify("notifications/initialized", &json!({}));
        assert_eq!(agent.result("ping", &json!({})), json!({}));
    }
}

#[test]
fn the_start_line_tells_mode_and_version() {
    let agent = Agent::start();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        agent.process.line("bunqueue MCP server started"),
        format!("bunqueue MCP server started (mode: embedded, version: {version})")
    );
    let (agent, tcp) = Agent::with_worker_door();
    assert_eq!(
        agent.process.line("bunqueue MCP server started"),
        format!("bunqueue MCP server started (mode: embedded, tcp: {tcp}, version: {version})")
    );
}

#[test]
fn hard_m1_an_idle_server_ends_with_its_input() {
    assert_eq!(Agent::silent(&[]).end(IDLE).code(), Some(0));
    assert_eq!(Agent::start().end(IDLE).code(), Some(0));
    let (agent, _) = Agent::with_worker_door();
    assert_eq!(agent.end(IDLE).code(), Some(0));
}

#[test]
fn hard_m1_a_server_with_waits_open_ends_with_its_input() {
    let mut agent = Agent::start();
    agent.ok(
        "bunqueue_add_job",
        &json!({ "queue": "other", "name": "n", "data": {}, "jobId": "j" }),
    );
    for (tool, arguments) in [
        (
            "bunqueue_pull_job",
            json!({ "queue": "q", "timeoutMs": 30_000 }),
        ),
        (
            "bunqueue_pull_job_batch",
            json!({ "queue": "q", "count": 5, "timeoutMs": 30_000 }),
        ),
        (
            "bunqueue_wait_for_job",
            json!({ "jobId": "j", "timeoutMs": 30_000 }),
        ),
        (
            "bunqueue_observe_job",
            json!({ "jobId": "j", "timeoutMs": 30_000 }),
        ),
    ] {
        let _open = agent.begin_call(tool, &arguments);
    }
    // Answered after the calls above have been read.
    agent.result("ping", &json!({}));
    assert_eq!(agent.end(BUSY).code(), Some(0));
}

#[test]
fn hard_m1_an_empty_file_as_input_is_an_end() {
    let empty = Stdio::from(tempfile::tempfile().unwrap());
    let started = Instant::now();
    let mut process = Process::start_from(&[], &[], empty);
    let status = process.exit(ANY).expect("the program ends");
    assert!(started.elapsed() < IDLE, "{:?}", started.elapsed());
    assert_eq!(status.code(), Some(0), "{}", process.stderr());
    let mut printed = String::new();
    process.stdout().read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "");
}

#[test]
fn requests_before_the_end_of_input_are_answered() {
    let mut agent = Agent::silent(&[]);
    let opened = agent.begin("initialize", &initialize_params());
    agent.notify("notifications/initialized", &json!({}));
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let add = json!({ "queue": "q", "name": "n", "data": { "n": n } });
            agent.begin_call("bunqueue_add_job", &add)
        })
        .collect();
    agent.close_stdin();
    assert!(agent.finish(&opened).get("result").is_some());
    for call in &calls {
        assert!(!agent.finish_call(call).is_error);
    }
    assert_eq!(
        agent.process.exit(ANY).and_then(|status| status.code()),
        Some(0)
    );
}

#[cfg(unix)]
#[test]
fn a_termination_signal_ends_the_server_with_code_0() {
    for signal in ["-TERM", "-INT"] {
        let mut agent = Agent::start();
        let _open = agent.begin_call(
            "bunqueue_pull_job",
            &json!({ "queue": "q", "timeoutMs": 30_000 }),
        );
        agent.result("ping", &json!({}));
        let pid = agent.process.pid().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &pid])
            .status();
        assert!(sent.unwrap().success());
        let status = agent.process.exit(BUSY).expect("the program ends");
        assert_eq!(
            status.code(),
            Some(0),
            "{signal}: {}",
            agent.process.stderr()
        );
    }
}

#[test]
fn hard_m2_stdout_carries_the_protocol_only() {
    let env = [
        ("LOG_LEVEL", "debug"),
        ("BUNQUEUE_MCP_TCP_LISTEN", "127.0.0.1:0"),
    ];
    let mut agent = Agent::start_with(&env);
    agent.send_bytes(b"garbage\n\xff\xfe\n[]\n");
    agent.ok(
        "bunqueue_add_job",
        &json!({ "queue": "q", "name": "n", "data": { "text": "line\nbreak" } }),
    );
    agent.refused(
        "bunqueue_add_job",
        &json!({ "queue": "a b", "name": "n", "data": {} }),
    );
    agent.request("no/such/method", &json!({}));
    agent.call("bunqueue_pull_job", &json!({ "queue": "q" }));
    // Every line of stdout has been parsed as JSON-RPC on the way.
    assert_eq!(agent.end(ANY).code(), Some(0));
}

/// A line, and the code of the one error that answers it, if any does.
struct Line {
    bytes: Vec<u8>,
    code: Option<i64>,
}

fn line(bytes: impl Into<Vec<u8>>, code: Option<i64>) -> Line {
    Line {
        bytes: bytes.into(),
        code,
    }
}

#[test]
fn hard_m3_bad_lines_between_good_ones() {
    const PARSE: Option<i64> = Some(-32700);
    const REQUEST: Option<i64> = Some(-32600);
    let lines = [
        line("garbage", PARSE),
        line("{\"jsonrpc\":\"2.0\",\"id\":1,", PARSE),
        line(b"\xff\xfe\x00".as_slice(), PARSE),
        line(
            b"{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"p\xffng\"}".as_slice(),
            PARSE,
        ),
        line("[".repeat(100_000), PARSE),
        line(vec![b'x'; 17 * 1024 * 1024], PARSE),
        line("", None),
        line("   \t", None),
        line("\r", None),
        line("\u{feff}", None),
        line("[]", REQUEST),
        line(
            "[{\"jsonrpc\":\"2.0\",\"id\":901,\"method\":\"ping\"}]",
            REQUEST,
        ),
        line("5", REQUEST),
        line("null", REQUEST),
        line("\"text\"", REQUEST),
        line("{}", REQUEST),
        line("{\"jsonrpc\":\"2.0\"}", REQUEST),
        line(
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nobody-knows\"}",
            None,
        ),
        // Parameters of MCP are named.
        line(
            "{\"jsonrpc\":\"2.0\",\"id\":904,\"method\":\"tools/call\",\"params\":[1]}",
            REQUEST,
        ),
        line("{\"jsonrpc\":\"2.0\",\"id\":902,\"result\":{}}", None),
        line(
            "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":1,\"message\":\"m\"}}",
            None,
        ),
        line(
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":903}}",
            None,
        ),
    ];
    let mut agent = Agent::start();
    for Line { bytes, code } in lines {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        agent.send_bytes(&[bytes.as_slice(), b"\n"].concat());
        assert_eq!(
            agent.result("ping", &json!({})),
            json!({}),
            "after {shown:?}"
        );
        let answers: Vec<i64> = agent
            .others
            .drain(..)
            .map(|message| message["error"]["code"].as_i64().unwrap())
            .collect();
        assert_eq!(answers, code.into_iter().collect::<Vec<_>>(), "{shown:?}");
    }
}

#[test]
fn hard_m3_good_lines_in_odd_clothes_are_read() {
    let mut agent = Agent::start();
    for (id, before, after) in [
        (1001, "\u{feff}", "\n"),
        (1002, "", "\r\n"),
        (1003, " \t", " \n"),
        (1004, "\n\n\r\n", "\n"),
    ] {
        let ping = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
        agent.send_bytes(format!("{before}{ping}{after}").as_bytes());
        let answer = agent.other();
        assert_eq!(
            answer,
            json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
            "{before:?}"
        );
    }
    // One write in two halves, and two messages in one write.
    agent.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",");
    agent.send_bytes(
        b"\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"ping\"}\n",
    );
    let mut ids =
        [agent.other(), agent.other()].map(|answer| answer["id"].as_str().unwrap().to_owned());
    ids.sort();
    assert_eq!(ids, ["a", "b"]);
}

#[test]
fn hard_m3_wrong_methods_and_params_get_the_protocol_error() {
    const METHOD: i64 = -32601;
    const PARAMS: i64 = -32602;
    let mut agent = Agent::start();
    for (method, params, code) in [
        ("no/such/method", json!({}), METHOD),
        ("tools/nothing", json!({}), METHOD),
        ("tools/call", json!({}), PARAMS),
        ("tools/call", json!({ "name": 5 }), PARAMS),
        (
            "tools/call",
            json!({ "name": "bunqueue_list_queues", "arguments": [1] }),
            PARAMS,
        ),
        (
            "tools/call",
            json!({ "name": "bunqueue_list_queues", "arguments": "text" }),
            PARAMS,
        ),
        (
            "tools/call",
            json!({ "name": "bunqueue_nope", "arguments": {} }),
            PARAMS,
        ),
        ("tools/call", json!({ "name": "", "arguments": {} }), PARAMS),
        ("tools/list", json!({ "cursor": 5 }), PARAMS),
    ] {
        let answer = agent.request(method, &params);
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
        assert_eq!(agent.result("ping", &json!({})), json!({}));
    }
}

#[test]
fn an_unknown_tool_is_named_in_the_error() {
    let mut agent = Agent::start();
    let answer = agent.request(
        "tools/call",
        &json!({ "name": "bunqueue_add_jbo", "arguments": {} }),
    );
    assert_eq!(answer["error"]["code"], -32602);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("Unknown tool: bunqueue_add_jbo"),
        "{message}"
    );
}

#[test]
fn hostile_arguments_are_answered_one_by_one() {
    let mut agent = Agent::start();
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let odd = [
        json!(null),
        json!(0),
        json!(-1),
        json!(1e300),
        json!(18_446_744_073_709_551_615_u64),
        json!(""),
        json!("\u{0}"),
        json!("\u{202e}x\u{7}"),
        json!("x".repeat(100_000)),
        json!([]),
        json!({}),
        json!([[[]]]),
        json!({ "__proto__": 1, "": 2 }),
        deep,
    ];
    let tools = agent.result("tools/list", &json!({}));
    for tool in tools["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let parameters = tool["inputSchema"]["properties"].as_object().unwrap();
        for odd in &odd {
            // No call may wait for long, whatever the rest is taken for.
            let arguments: Value = parameters
                .keys()
                .map(|key| match key.as_str() {
                    "timeoutMs" => (key.clone(), json!(100)),
                    _ => (key.clone(), odd.clone()),
                })
                .collect();
            agent.call(name, &arguments);
        }
    }
    assert_eq!(agent.result("ping", &json!({})), json!({}));
}

#[test]
fn a_log_for_programs_holds_nothing_but_events() {
    let start = |arguments: &[&str], env: &[(&str, &str)], line: &str| {
        let mut process = Process::start(arguments, &[env, &[("LOG_FORMAT", "json")]].concat());
        process.line(line);
        drop(process.stdin());
        process.kill();
        let log = process.stderr();
        for line in log.lines() {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
            assert!(event["level"].is_string(), "{line}");
        }
        serde_json::from_str::<Value>(log.lines().next().unwrap()).unwrap()["fields"].take()
    };
    let ports = [("TCP_PORT", "0"), ("HTTP_PORT", "0")];
    let serve = start(&["serve"], &ports, "bunqueue server started");
    let url = serve["url"].as_str().unwrap();
    assert!(
        url.starts_with("http://127.0.0.1:") && url.ends_with("/mcp"),
        "{serve}"
    );
    assert!(
        serve["tcp"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{serve}"
    );
    let bare = start(&[], &[], "bunqueue MCP server started");
    assert_eq!(bare["mode"], json!("embedded"));
    // What ends a start that came so far is an event too.
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    start(
        &[],
        &[("BUNQUEUE_MCP_TCP_LISTEN", &port)],
        "Fatal error: Failed to listen",
    );
}
