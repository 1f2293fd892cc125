//! What the program tells of itself: its settings in force, and the calls that were made. Never a secret, never a path.

use serde_json::json;

use super::http::{Session, exchange};
use super::stdio::Agent;
use crate::process::Serve;

#[test]
fn hard_b19_no_read_of_the_server_shows_a_token_or_a_path() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hidden-place.db");
    let env = [
        ("BUNQUEUE_DATA_PATH", file.to_str().unwrap()),
        ("BUNQUEUE_DURABILITY", "durable"),
        ("BUNQUEUE_MCP_TCP_LISTEN", "0"),
        ("BUNQUEUE_MCP_TCP_TOKEN", "s3cret-token"),
    ];
    let mut agent = Agent::start_with(&env);
    let told = agent.ok("bunqueue_get_capabilities", &json!({}));
    assert_eq!(
        told["persistence"],
        json!({ "kind": "sqlite", "durability": "durable", "survivesRestart": true })
    );
    assert_eq!(told["tcpListener"]["enabled"], true);
    assert!(told["tcpListener"]["port"].as_u64() > Some(0));
    let stats = agent.ok("bunqueue_get_stats", &json!({}));
    let zeros = json!({ "pushed": 0, "pulled": 0, "completed": 0, "failed": 0 });
    assert_eq!(stats["lifetime"], zeros);
    let storage = agent.ok("bunqueue_get_storage_status", &json!({}));
    assert_eq!(storage["durability"], "durable");
    let metrics = agent.ok("bunqueue_get_prometheus_metrics", &json!({}));
    let diagnosis = agent.ok("bunqueue_diagnose_queue", &json!({ "queue": "q" }));
    for shown in [told, stats, storage, metrics, diagnosis] {
        let shown = shown.to_string();
        for secret in [
            "s3cret-token",
            "hidden-place",
            directory.path().to_str().unwrap(),
        ] {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
    }
}

#[test]
fn the_port_for_workers_is_the_one_that_listens() {
    let serve = Serve::start();
    let mut session = Session::open(serve.http);
    let told = session.call("bunqueue_get_capabilities", &json!({})).value;
    assert_eq!(told["tcpListener"]["port"], serve.tcp.port());
}

#[test]
fn sessions_over_http_are_counted_while_they_are_open() {
    let serve = Serve::start();
    let mut one = Session::open(serve.http);
    let two = Session::open(serve.http);
    let mut told = || one.call("bunqueue_get_capabilities", &json!({})).value["transport"].take();
    let expected = json!({
        "kind": "http", "sessions": 2, "maxSessions": 100, "sessionTtlMs": 1_800_000, "auth": false,
    });
    assert_eq!(told(), expected);
    assert_eq!(two.delete(), 200);
    assert_eq!(told()["sessions"], 1);
}

#[test]
fn hard_b18_calls_of_agents_are_counted_at_prometheus_too() {
    let serve = Serve::start();
    let mut session = Session::open(serve.http);
    let job = json!({ "queue": "q", "name": "n", "data": { "word": "payload-word" } });
    session.call("bunqueue_add_job", &job);
    session.call("bunqueue_add_job", &job);
    session.call("bunqueue_get_job", &json!({ "jobId": "no-such-job" }));
    let page = exchange(serve.http, "GET", "/prometheus", &[], b"");
    let page = String::from_utf8(page.body).unwrap();
    let tool = session
        .call("bunqueue_get_prometheus_metrics", &json!({}))
        .text;
    for text in [page, tool] {
        for line in [
            "bunqueue_mcp_tool_calls_total{tool=\"bunqueue_add_job\",outcome=\"success\"} 2",
            "bunqueue_mcp_tool_calls_total{tool=\"bunqueue_get_job\",outcome=\"error\"} 1",
            "bunqueue_mcp_tool_duration_seconds_count{tool=\"bunqueue_add_job\"} 2",
        ] {
            assert!(text.lines().any(|own| own == line), "no {line} in {text}");
        }
        let p99 =
            "bunqueue_mcp_tool_duration_seconds{tool=\"bunqueue_add_job\",quantile=\"0.99\"} ";
        let p99 = text.lines().find_map(|line| line.strip_prefix(p99));
        let p99: f64 = p99.expect("a quantile").parse().unwrap();
        assert!(p99 > 0.0 && p99 < 60.0, "{p99}");
        assert!(!text.contains("payload-word") && !text.contains("no-such-job"));
    }
}
