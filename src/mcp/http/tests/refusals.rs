//! The table of refusals: each row with its status, body and headers, and the order of the rows.
//!
//! Every request of a row breaks that row and as many later ones as it can, so a check that moved shows here.

use axum::Router;
use axum::routing::get;

use super::row::*;
use super::*;
use crate::mcp::http::unknown_paths;

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";
const TOKEN: (&str, &str) = ("Authorization", "Bearer secret-2");

async fn guarded() -> Site {
    Site::with(|config| {
        config.tokens = vec!["secret-1".to_owned(), "secret-2".to_owned()];
        config.max_sessions = 1;
    })
    .await
}

#[tokio::test]
async fn rows_0_to_8_in_their_order() {
    let site = guarded().await;
    let garbage = Ask::new("POST").body(b"{");
    let listing = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }]);
    let stray = ("Mcp-Session-Id", UNKNOWN);
    let evil = ("Origin", "https://evil.example");
    let cases = [
        (
            "1 foreign host, before origin, path and token",
            garbage
                .clone()
                .path("/other")
                .with(&[("Host", "evil.example"), evil]),
            HOST,
        ),
        ("1 no host", garbage.clone().without("Host"), HOST),
        (
            "1 foreign origin, before path and token",
            garbage.clone().path("/other").with(&[evil]),
            ORIGIN,
        ),
        (
            "1 the origin of a sandbox",
            garbage.clone().with(&[("Origin", "null")]),
            ORIGIN,
        ),
        (
            "2 other path, before token and method",
            garbage.clone().path("/other").method("PUT"),
            PATH,
        ),
        ("2 trailing slash", garbage.clone().path("/mcp/"), PATH),
        ("2 root", garbage.clone().path("/"), PATH),
        (
            "3 no token, before method",
            garbage.clone().method("PUT"),
            NO_TOKEN,
        ),
        (
            "3 another scheme",
            garbage.clone().with(&[("Authorization", "Basic secret-1")]),
            NO_TOKEN,
        ),
        (
            "3 an empty token",
            garbage.clone().with(&[("Authorization", "Bearer ")]),
            NO_TOKEN,
        ),
        (
            "3 a preflight has no token",
            Ask::new("OPTIONS").with(&[("Access-Control-Request-Method", "POST")]),
            NO_TOKEN,
        ),
        (
            "3 wrong token, before method",
            garbage
                .clone()
                .method("PUT")
                .with(&[("Authorization", "Bearer secret-3")]),
            WRONG_TOKEN,
        ),
        (
            "3 the start of a token",
            garbage.clone().with(&[("Authorization", "Bearer secret-")]),
            WRONG_TOKEN,
        ),
        (
            "3 two tokens in one",
            garbage
                .clone()
                .with(&[("Authorization", "Bearer secret-1 secret-2")]),
            WRONG_TOKEN,
        ),
        (
            "4 other method, before session",
            garbage.clone().method("PUT").with(&[TOKEN, stray]),
            METHOD,
        ),
        (
            "4 PATCH",
            garbage.clone().method("PATCH").with(&[TOKEN]),
            METHOD,
        ),
        ("4 OPTIONS", Ask::new("OPTIONS").with(&[TOKEN]), METHOD),
        (
            "5 unknown session, before the body",
            garbage.clone().with(&[TOKEN, stray]),
            UNKNOWN_SESSION,
        ),
        (
            "5 with GET",
            Ask::new("GET").with(&[TOKEN, stray, ("Accept", "text/html")]),
            UNKNOWN_SESSION,
        ),
        (
            "5 with DELETE",
            Ask::new("DELETE").with(&[TOKEN, stray]),
            UNKNOWN_SESSION,
        ),
        (
            "5 an empty id is not an absent one",
            Ask::new("GET").with(&[TOKEN, ("Mcp-Session-Id", "")]),
            UNKNOWN_SESSION,
        ),
        (
            "6 GET without a session",
            Ask::new("GET").with(&[TOKEN, ("Accept", "text/html")]),
            NO_SESSION,
        ),
        (
            "6 DELETE without a session",
            Ask::new("DELETE").with(&[TOKEN]),
            NO_SESSION,
        ),
        (
            "7 not JSON, before media types",
            garbage.clone().with(&[
                TOKEN,
                ("Accept", "text/html"),
                ("Content-Type", "text/plain"),
            ]),
            NOT_JSON,
        ),
        (
            "7 the scheme is case-insensitive",
            garbage
                .clone()
                .with(&[("Authorization", "bEARER   secret-1")]),
            NOT_JSON,
        ),
        ("7 empty body", Ask::new("POST").with(&[TOKEN]), NOT_JSON),
        ("7 a batch", Ask::post(&batch).with(&[TOKEN]), NOT_ONE),
        (
            "7 an empty batch",
            Ask::post(&json!([])).with(&[TOKEN]),
            NOT_ONE,
        ),
        (
            "7 no message",
            Ask::post(&json!({ "id": 1 })).with(&[TOKEN]),
            NOT_ONE,
        ),
        (
            "8 no handshake and no session, before media types",
            Ask::post(&listing).with(&[TOKEN, ("Accept", "text/html")]),
            NO_SESSION,
        ),
        (
            "8 a notification",
            Ask::post(&json!({ "jsonrpc": "2.0", "method": "initialize" })).with(&[TOKEN]),
            NO_SESSION,
        ),
        (
            "8 a reply",
            Ask::post(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).with(&[TOKEN]),
            NO_SESSION,
        ),
        (
            "8 metadata of an older revision is no exemption",
            Ask::post(&json!({
                "jsonrpc": "2.0", "id": 1, "method": "tools/list",
                "params": { "_meta": { "io.modelcontextprotocol/protocolVersion": "2025-11-25" } },
            }))
            .with(&[TOKEN, ("MCP-Protocol-Version", "2025-11-25")]),
            NO_SESSION,
        ),
    ];
    for (name, ask, expected) in cases {
        expected.check(name, &site.ask(&ask).await);
    }
    // No handler was made for any of them.
    assert_eq!(site.watched.seen().made, 0);
    site.end().await;
}

#[tokio::test]
async fn a_head_request_is_another_method_without_a_body() {
    let site = guarded().await;
    let mut wire = site.wire().await;
    wire.write(&Ask::new("HEAD").with(&[TOKEN]).bytes(site.address))
        .await;
    let head = wire.head().await;
    assert_eq!(head.status, 405);
    assert_eq!(head.header("allow"), Some("GET, POST, DELETE"));
    site.end().await;
}

#[tokio::test]
async fn two_headers_of_one_name_pass_no_check() {
    let site = guarded().await;
    let double = |name: &str, values: [&str; 2]| {
        let mut ask = Ask::new("POST").without(name);
        for value in values {
            ask.headers.push((name.to_owned(), Some(value.to_owned())));
        }
        ask
    };
    let own = site.address.to_string();
    let origin = format!("http://{own}");
    let cases = [
        (double("Host", [&own, "evil.example"]), HOST),
        (double("Origin", [&origin, "http://evil.example"]), ORIGIN),
        (
            double("Authorization", ["Bearer secret-1", "Bearer secret-2"]),
            NO_TOKEN,
        ),
    ];
    for (ask, expected) in cases {
        let name = format!("{:?}", ask.headers);
        expected.check(&name, &site.ask(&ask).await);
    }
    site.end().await;
}

#[tokio::test]
async fn hard_m7_own_names_pass_over_the_socket() {
    let site = Site::new().await;
    let port = site.address.port();
    for host in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"] {
        let host = format!("{host}:{port}");
        let origin = format!("http://{host}");
        let reply = site
            .post(
                &[("Host", &host), ("Origin", &origin)],
                &initialize("2025-11-25"),
            )
            .await;
        assert_eq!(reply.status(), 200, "{host}");
    }
    for host in ["localhost", "127.0.0.1:1", "evil.example"] {
        let reply = site
            .post(&[("Host", host)], &initialize("2025-11-25"))
            .await;
        HOST.check(host, &reply);
    }
    site.end().await;
}

#[tokio::test]
async fn row_0_a_body_above_the_limit_is_refused_and_the_answer_arrives() {
    const LIMIT: usize = 4 * 1024 * 1024;
    let site = guarded().await;
    // Declared: before host, path and token. The client sends all of it before it reads.
    let long = vec![b'x'; LIMIT + 1];
    let ask = Ask::new("POST")
        .path("/other")
        .with(&[("Host", "evil.example")])
        .body(&long);
    let mut wire = site.wire().await;
    wire.write(&ask.bytes(site.address)).await;
    assert_eq!(wire.reply().await.status(), 413);
    // The connection is as good as before.
    wire.write(&Ask::new("PUT").with(&[TOKEN]).bytes(site.address))
        .await;
    assert_eq!(wire.reply().await.status(), 405);

    // Not declared: seen while it is read.
    let mut chunked = Ask::new("POST")
        .with(&[TOKEN, ("Transfer-Encoding", "chunked")])
        .bytes(site.address);
    chunked.extend(format!("{:x}\r\n", long.len()).into_bytes());
    chunked.extend(&long);
    chunked.extend(b"\r\n0\r\n\r\n");
    let mut wire = site.wire().await;
    wire.write(&chunked).await;
    assert_eq!(wire.reply().await.status(), 413);

    // A body of exactly the limit is read.
    let mut exact = b"{".to_vec();
    exact.resize(LIMIT, b' ');
    let reply = site
        .ask(&Ask::new("POST").with(&[TOKEN]).body(&exact))
        .await;
    NOT_JSON.check("a body of the limit", &reply);
    site.end().await;
}

#[tokio::test]
async fn row_7_holds_in_a_session_too() {
    let site = guarded().await;
    let id = site.session(&[TOKEN]).await;
    let inside = [TOKEN, ("Mcp-Session-Id", id.as_str())];
    let reply = site.ask(&Ask::new("POST").body(b"{").with(&inside)).await;
    NOT_JSON.check("garbage", &reply);
    let reply = site.post(&inside, &json!([])).await;
    NOT_ONE.check("a batch", &reply);
    site.end().await;
}

#[tokio::test]
async fn rows_9_to_11_in_their_order() {
    let site = guarded().await;
    let id = site.session(&[TOKEN]).await;
    let inside = [TOKEN, ("Mcp-Session-Id", id.as_str())];
    let html = ("Accept", "text/html");

    let mut stream = site.wire().await;
    stream
        .write(&Ask::new("GET").with(&inside).bytes(site.address))
        .await;
    assert_eq!(stream.head().await.status, 200);
    let second = Ask::new("GET").with(&inside).with(&[html]);
    SECOND_STREAM.check("11, before media types", &site.ask(&second).await);

    let another = Ask::post(&initialize("2025-11-25")).with(&[TOKEN, html]);
    FULL.check("9, before media types", &site.ask(&another).await);

    // A call that goes on keeps the session, and so its place, while the endpoint stops.
    let mut hanging = site.wire().await;
    let hang = Ask::post(&call(1, "hang")).with(&inside);
    hanging.write(&hang.bytes(site.address)).await;
    assert_eq!(hanging.head().await.status, 200);
    site.watched.shutdown.cancel();
    // The stream ends in order: with its last chunk, not with a cut.
    assert_eq!(stream.chunk().await, None);
    FULL.check("9, before 10", &site.ask(&another).await);
    STOPPING.check("10 with GET, before 11", &site.ask(&second).await);
    let more = Ask::post(&call(2, "echo")).with(&inside).with(&[html]);
    STOPPING.check("10 with POST", &site.ask(&more).await);
    let delete = Ask::new("DELETE").with(&inside);
    STOPPING.check("10 with DELETE", &site.ask(&delete).await);
    let stray = Ask::new("GET").with(&[TOKEN, ("Mcp-Session-Id", UNKNOWN)]);
    UNKNOWN_SESSION.check("5, before 10", &site.ask(&stray).await);
    site.end().await;
}

#[tokio::test]
async fn row_10_refuses_new_sessions_and_requests_of_any_revision() {
    let site = Site::new().await;
    site.watched.shutdown.cancel();
    let reply = site.post(&[], &initialize("2025-11-25")).await;
    STOPPING.check("a handshake", &reply);
    let reply = site
        .post(
            &[("MCP-Protocol-Version", "2026-07-28")],
            &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        )
        .await;
    STOPPING.check("without a session", &reply);
    site.end().await;
}

#[tokio::test]
async fn row_12_media_types_and_revisions_are_refused_and_take_no_place() {
    let site = guarded().await;
    let hello = initialize("2025-11-25");
    let cases = [
        ("Accept", "application/json", 406),
        ("Accept", "text/event-stream", 406),
        ("Content-Type", "text/plain", 415),
        ("MCP-Protocol-Version", "1999-01-01", 400),
    ];
    for (name, value, status) in cases {
        let reply = site.post(&[TOKEN, (name, value)], &hello).await;
        assert_eq!(reply.status(), status, "{name}: {value}");
    }
    let id = site.session(&[TOKEN]).await;
    let get = Ask::new("GET").with(&[TOKEN, ("Mcp-Session-Id", &id)]);
    let reply = site
        .ask(&get.clone().with(&[("Accept", "application/json")]))
        .await;
    assert_eq!(reply.status(), 406);
    // The refused GET holds no stream.
    let mut stream = site.wire().await;
    stream.write(&get.bytes(site.address)).await;
    assert_eq!(stream.head().await.status, 200);
    site.end().await;
}

#[tokio::test]
async fn row_13_a_panic_is_an_internal_error_and_the_next_request_works() {
    let watched = Watched::new();
    let handlers = watched.clone();
    let first = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let factory = move || {
        assert!(
            !first.swap(false, std::sync::atomic::Ordering::SeqCst),
            "a factory that fails once"
        );
        handlers.handler()
    };
    let site = Site::of(watched, |config| config.max_sessions = 1, factory).await;
    let reply = site.post(&[], &initialize("2025-11-25")).await;
    INTERNAL.check("13", &reply);
    site.session(&[]).await;
    site.end().await;
}

#[tokio::test]
async fn other_paths_of_the_listener_are_judged_by_host_and_origin_alone() {
    let listener = bind("127.0.0.1", 0).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let config = HttpConfig::new("127.0.0.1", address.port());
    let watched = Watched::new();
    let handlers = watched.clone();
    let health = || Router::new().route("/health", get(|| async { "fine" }));
    let with_mcp = health().merge(router(
        move || handlers.handler(),
        &config,
        watched.shutdown.clone(),
    ));
    let without_mcp = health().merge(unknown_paths(&config));

    let ask = |path| Ask::new("GET").path(path);
    let evil = [("Host", "evil.example")];
    for (app, known) in [(with_mcp, true), (without_mcp, false)] {
        let listener = bind("127.0.0.1", 0).await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, app, ServeOptions::default(), stop.clone()));
        // The endpoint was told of another port than the one it is served on.
        let own = address.to_string();
        let own = [("Host", own.as_str())];
        let answer = async |ask: Ask<'_>| {
            let mut wire = Wire::open(at).await;
            wire.write(&ask.bytes(at)).await;
            wire.reply().await
        };
        assert_eq!(answer(ask("/health").with(&evil)).await.body, b"fine");
        HOST.check("foreign host", &answer(ask("/nowhere").with(&evil)).await);
        let foreign = ask("/nowhere").with(&own).with(&[("Origin", "null")]);
        ORIGIN.check("foreign origin", &answer(foreign).await);
        PATH.check("unknown path", &answer(ask("/nowhere").with(&own)).await);
        let reply = answer(ask("/mcp").with(&own)).await;
        if known {
            NO_SESSION.check("the endpoint", &reply);
        } else {
            PATH.check("no endpoint", &reply);
        }
        stop.cancel();
        let ended = timeout(PATIENCE, server).await.expect("in time");
        ended.expect("no panic");
    }
    watched.shutdown.cancel();
}

#[tokio::test]
async fn a_configured_path_is_compared_without_its_trailing_slashes() {
    for (configured, path, found) in [
        ("/agents//", "/agents", true),
        ("/agents", "/agents/", false),
        ("/a{b}", "/a{b}", true),
        ("/a{b}", "/axx", false),
        ("/", "/", true),
        ("/", "/mcp", false),
    ] {
        let site = Site::with(|config| config.path = configured.to_owned()).await;
        let reply = site.ask(&Ask::new("GET").path(path)).await;
        if found {
            NO_SESSION.check(path, &reply);
        } else {
            PATH.check(path, &reply);
        }
        site.end().await;
    }
}
