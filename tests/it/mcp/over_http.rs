//! The agent door of `serve`: sessions over Streamable HTTP on the engine that workers use.

use bunqueue_mcp::mcp::Registry;
use serde_json::json;

use super::http::{DEFAULTS, Session, exchange};
use super::stdio::initialize_params;
use crate::process::Serve;
use crate::tcp::client::Conn;
use crate::tcp::value::Wire;

#[test]
fn sessions_share_one_engine() {
    let serve = Serve::start();
    let mut one = Session::open(serve.http);
    let mut two = Session::open(serve.http);
    let added = one.call(
        "bunqueue_add_job",
        &json!({ "queue": "q", "name": "n", "data": { "a": 1 } }),
    );
    let pulled = two.call("bunqueue_pull_job", &json!({ "queue": "q" }));
    assert_eq!(pulled.value["job"]["id"], added.value["jobId"]);
    assert_eq!(pulled.value["job"]["data"], json!({ "a": 1 }));
    let id = added.value["jobId"].clone();
    two.call("bunqueue_ack_job", &json!({ "jobId": id, "result": [1] }));
    let result = one.call("bunqueue_get_job_result", &json!({ "jobId": id }));
    assert_eq!(result.value["result"], json!([1]));
}

#[test]
fn both_transports_list_the_same_tools() {
    let serve = Serve::start();
    let mut session = Session::open(serve.http);
    let over_http = session.request("tools/list", &json!({}))["result"]["tools"].take();
    let mut agent = super::stdio::Agent::start();
    let over_stdio = agent.result("tools/list", &json!({}))["tools"].take();
    assert_eq!(over_http, over_stdio);
    let tools = Registry::new().unwrap().tools().count();
    assert_eq!(over_http.as_array().map(Vec::len), Some(tools));
}

#[test]
fn an_ended_session_is_gone_and_others_go_on() {
    let serve = Serve::start();
    let mut other = Session::open(serve.http);
    let session = Session::open(serve.http);
    let id = session.id().to_owned();
    assert_eq!(session.delete(), 200);
    let headers = [DEFAULTS.as_slice(), &[("Mcp-Session-Id", id.as_str())]].concat();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let gone = exchange(serve.http, "POST", "/mcp", &headers, list.as_bytes());
    assert_eq!(gone.status, 404, "{gone:?}");
    assert_eq!(other.request("ping", &json!({}))["result"], json!({}));
}

#[test]
fn wrong_requests_get_their_status_and_the_next_good_one_works() {
    let serve = Serve::start();
    let mut session = Session::open(serve.http);
    let initialize = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize_params(),
    });
    let body = initialize.to_string();
    let post = |headers: &[(&str, &str)], path: &str, body: &[u8]| {
        exchange(
            serve.http,
            "POST",
            path,
            &[DEFAULTS.as_slice(), headers].concat(),
            body,
        )
        .status
    };
    assert_eq!(
        post(&[("Host", "evil.example")], "/mcp", body.as_bytes()),
        403
    );
    assert_eq!(
        post(
            &[("Origin", "https://evil.example")],
            "/mcp",
            body.as_bytes()
        ),
        403
    );
    assert_eq!(post(&[("Origin", "null")], "/mcp", body.as_bytes()), 403);
    assert_eq!(post(&[], "/mcpx", body.as_bytes()), 404);
    assert_eq!(post(&[], "/mcp", b"{"), 400);
    assert_eq!(post(&[], "/mcp", b"[]"), 400);
    assert_eq!(post(&[], "/mcp", b"\xff\xfe"), 400);
    assert_eq!(
        exchange(serve.http, "PUT", "/mcp", &DEFAULTS, b"").status,
        405
    );
    let port = serve.http.port();
    for host in ["localhost", "127.0.0.1", "LOCALHOST", "[::1]"] {
        let host = format!("{host}:{port}");
        assert_eq!(
            post(&[("Host", &host)], "/mcp", body.as_bytes()),
            200,
            "{host}"
        );
    }
    assert_eq!(
        session.request("no/such", &json!({}))["error"]["code"],
        -32601
    );
    let unknown = session.request("tools/call", &json!({ "name": "bunqueue_nope" }));
    assert_eq!(unknown["error"]["code"], -32602);
    let listing = session.request("tools/list", &json!({ "cursor": 5 }));
    assert_eq!(listing["error"]["code"], -32602);
    assert!(
        session
            .call("bunqueue_get_job", &json!({ "jobId": "nope" }))
            .is_error
    );
    assert_eq!(session.request("ping", &json!({}))["result"], json!({}));
}

#[test]
fn hard_w4_data_as_deep_as_a_frame_allows_is_shown_to_agents() {
    const ARRAYS: usize = 999;
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let data = [vec![0x91; ARRAYS - 1], vec![0x90]].concat();
    let pushed = conn.begin_wire(Wire::Map(vec![
        (Wire::text("cmd"), Wire::text("PUSH")),
        (Wire::text("queue"), Wire::text("q")),
        (Wire::text("jobId"), Wire::text("deep")),
        (Wire::text("data"), Wire::Raw(data)),
    ]));
    assert_eq!(conn.finish(&pushed)["ok"], true);
    let mut session = Session::open(serve.http);
    // No JSON parser of an agent nests that deep: the payload is shown as its bytes, which convert back.
    let shown = session.call("bunqueue_get_job", &json!({ "jobId": "deep" }));
    assert!(
        shown.value["data"]["$msgpack"].is_string(),
        "{:?}",
        shown.value
    );
    let again = json!({ "queue": "q", "name": "n", "jobId": "again", "data": shown.value["data"] });
    assert!(!session.call("bunqueue_add_job", &again).is_error);
    assert_eq!(conn.state("again"), "waiting");
    assert_eq!(session.request("ping", &json!({}))["result"], json!({}));
    assert_eq!(conn.state("deep"), "waiting");
}

#[test]
fn an_unknown_path_is_answered_with_those_that_there_are() {
    let listed = |env: &[(&str, &str)]| {
        let serve = Serve::start_with(env);
        let page = exchange(serve.http, "GET", "/", &[], b"");
        assert_eq!(page.status, 404);
        let body: serde_json::Value = serde_json::from_slice(&page.body).unwrap();
        assert_eq!(body["error"]["message"], json!("Not found"));
        let paths = body["error"]["data"]["paths"].as_array().unwrap().clone();
        for path in &paths {
            let path = path.as_str().unwrap();
            let status = exchange(serve.http, "GET", path, &[], b"").status;
            assert_ne!(status, 404, "{path}");
        }
        paths
    };
    let all = listed(&[("BUNQUEUE_MCP_HTTP_PATH", "/agents")]);
    assert!(
        all.contains(&json!("/agents")) && all.contains(&json!("/llms.txt")),
        "{all:?}"
    );
    let pages = listed(&[("BUNQUEUE_SERVE_MCP", "false")]);
    assert_eq!(pages.len(), all.len() - 1, "{pages:?}");
}
