//! Revision 2026-07-28: every request stands alone, no session is made or looked for.

use super::*;

const VERSION: &str = "2026-07-28";

fn inline(id: i64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn headers(method: &'static str, name: Option<&'static str>) -> Vec<(&'static str, &'static str)> {
    let mut headers = vec![("MCP-Protocol-Version", VERSION), ("Mcp-Method", method)];
    headers.extend(name.map(|name| ("Mcp-Name", name)));
    headers
}

#[tokio::test]
async fn hard_m5_requests_are_served_without_a_session_and_beside_a_full_house() {
    let site = Site::with(|config| config.max_sessions = 1).await;
    site.session(&[]).await;
    let found = site
        .post(
            &headers("server/discover", None),
            &inline(1, "server/discover", json!({})),
        )
        .await;
    assert_eq!(found.status(), 200);
    assert!(
        found.messages()[0]["result"]["supportedVersions"]
            .as_array()
            .expect("a list")
            .contains(&json!(VERSION))
    );
    let listed = site
        .post(
            &headers("tools/list", None),
            &inline(2, "tools/list", json!({})),
        )
        .await;
    assert_eq!(listed.head.header("mcp-session-id"), None);
    let listed = listed.messages();
    assert_eq!(listed[0]["result"]["tools"][0]["name"], "echo");
    assert_eq!(listed[0]["result"]["resultType"], "complete");
    assert!(listed[0]["result"]["ttlMs"].is_number());

    // A session id means nothing here, not even an unknown one.
    let mut with_session = headers("tools/call", Some("echo"));
    with_session.push(("Mcp-Session-Id", "00000000-0000-4000-8000-000000000000"));
    let called = site
        .post(
            &with_session,
            &inline(
                3,
                "tools/call",
                json!({ "name": "echo", "arguments": { "a": 1 } }),
            ),
        )
        .await;
    assert_eq!(text_of(&called.messages()[0]), r#"{"a":1}"#);
    site.end().await;
}

#[tokio::test]
async fn statuses_follow_the_error() {
    let site = Site::new().await;
    let listing = inline(1, "tools/list", json!({}));
    let mut future = listing.clone();
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let mut bare = listing.clone();
    bare["params"]["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": VERSION });
    let plain = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let discover = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover" });
    let unknown = inline(1, "no/such", json!({}));
    let wrong_tool = inline(1, "tools/call", json!({ "name": "nope" }));
    type Headers = Vec<(&'static str, &'static str)>;
    let cases: [(&str, Headers, &Value, u16, i64); 9] = [
        (
            "the header names another method",
            headers("tools/call", None),
            &listing,
            400,
            -32020,
        ),
        (
            "the header names another revision",
            vec![("MCP-Protocol-Version", "2025-11-25")],
            &listing,
            400,
            -32020,
        ),
        ("the header is missing", vec![], &listing, 400, -32020),
        (
            "a revision unknown here",
            vec![
                ("MCP-Protocol-Version", "2031-01-01"),
                ("Mcp-Method", "tools/list"),
            ],
            &future,
            400,
            -32022,
        ),
        (
            "metadata is missing",
            headers("tools/list", None),
            &plain,
            400,
            -32602,
        ),
        (
            "metadata is incomplete",
            headers("tools/list", None),
            &bare,
            400,
            -32602,
        ),
        ("a discovery without any", vec![], &discover, 400, -32602),
        (
            "an unknown method",
            headers("no/such", None),
            &unknown,
            404,
            -32601,
        ),
        (
            "an unknown tool",
            headers("tools/call", Some("nope")),
            &wrong_tool,
            200,
            -32602,
        ),
    ];
    for (name, headers, body, status, code) in &cases {
        let reply = site.post(headers, body).await;
        assert_eq!(reply.status(), *status, "{name}: {reply:?}");
        let answer = if *status == 200 {
            reply.messages()[0].clone()
        } else {
            reply.json()
        };
        assert_eq!(answer["error"]["code"], *code, "{name}");
        assert_eq!(answer["id"], 1, "{name}");
    }
    let reply = site.post(&cases[3].1, &future).await;
    assert!(reply.json()["error"]["data"]["supported"].is_array());
    site.end().await;
}

#[tokio::test]
async fn hard_m3_a_list_whose_cursor_is_no_text_is_refused() {
    let site = Site::new().await;
    let listing = inline(1, "tools/list", json!({ "cursor": 5 }));
    let reply = site.post(&headers("tools/list", None), &listing).await;
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.json()["error"]["code"], -32602);
    assert_eq!(reply.json()["id"], 1);
    site.end().await;
}

#[tokio::test]
async fn there_is_no_stream_to_get_and_no_session_to_delete() {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    for method in ["GET", "DELETE"] {
        let ask =
            Ask::new(method).with(&[("MCP-Protocol-Version", VERSION), ("Mcp-Session-Id", &id)]);
        let reply = site.ask(&ask).await;
        assert_eq!(reply.status(), 405, "{method}");
        assert_eq!(reply.head.header("allow"), Some("POST"), "{method}");
        assert_eq!(reply.json()["error"]["message"], "Method not allowed.");
    }
    site.end().await;
}

#[tokio::test]
async fn hard_m4_a_closed_response_stream_cancels() {
    let site = Site::new().await;
    let wait = inline(1, "tools/call", json!({ "name": "wait", "arguments": {} }));
    let ask = Ask::post(&wait).with(&headers("tools/call", Some("wait")));
    let mut wire = site.wire().await;
    wire.write(&ask.bytes(site.address)).await;
    site.watched.until(|seen| seen.waits == 1).await;
    drop(wire);
    site.watched.until(|seen| seen.cancelled == 1).await;
    site.end().await;
}

#[tokio::test]
async fn a_notification_is_accepted_and_a_reply_is_not() {
    let site = Site::new().await;
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let reply = site
        .post(&headers("notifications/cancelled", None), &note)
        .await;
    assert_eq!(reply.status(), 202);
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let reply = site
        .post(&[("MCP-Protocol-Version", VERSION)], &answer)
        .await;
    assert_eq!(reply.status(), 400);
    assert_eq!(reply.json()["error"]["code"], -32600);
    site.end().await;
}

#[tokio::test]
async fn a_handshake_under_this_header_is_one_of_the_revisions_with_sessions() {
    let site = Site::new().await;
    let version = ("MCP-Protocol-Version", VERSION);
    let reply = site.post(&[version], &initialize(VERSION)).await;
    assert_eq!(reply.status(), 200);
    assert!(reply.head.header("mcp-session-id").is_some());
    let reply = site
        .post(
            &[version, ("Mcp-Session-Id", "nobody")],
            &initialize(VERSION),
        )
        .await;
    assert_eq!(reply.status(), 404);
    assert_eq!(reply.json()["error"]["message"], "Session not found");
    site.end().await;
}
