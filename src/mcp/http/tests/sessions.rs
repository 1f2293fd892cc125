//! Sessions over the socket: opening, calling, cancelling, ending, and whose they are.

use super::wire::message;
use super::*;

fn cancel(id: i64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

fn inside(id: &str) -> [(&str, &str); 1] {
    [("Mcp-Session-Id", id)]
}

#[tokio::test]
async fn hard_m5_every_handshake_revision_and_an_unknown_one_is_served() {
    let site = Site::new().await;
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let reply = site.post(&[], &initialize(asked)).await;
        // One event, and it is the answer: nothing to prime the stream comes first.
        let messages = reply.messages();
        assert_eq!(messages.len(), 1, "{asked}");
        assert_eq!(messages[0]["result"]["protocolVersion"], given, "{asked}");
        let id = reply.head.header("mcp-session-id").expect("an id");
        let answer = site
            .post(
                &[("Mcp-Session-Id", id), ("MCP-Protocol-Version", given)],
                &call(1, "echo"),
            )
            .await;
        let messages = answer.messages();
        assert_eq!(messages.len(), 1, "{asked}");
        assert_eq!(text_of(&messages[0]), "{}", "{asked}");
    }
    site.end().await;
}

#[tokio::test]
async fn null_params_are_absent_and_errors_of_a_session_are_200() {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    let listing = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": null });
    let reply = site.post(&inside(&id), &listing).await;
    assert_eq!(reply.messages()[0]["result"]["tools"][0]["name"], "echo");
    let unknown = json!({ "jsonrpc": "2.0", "id": 2, "method": "no/such" });
    let reply = site.post(&inside(&id), &unknown).await;
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.messages()[0]["error"]["code"], -32601);
    let packed = json!({ "name": "echo", "arguments": "{}" });
    let packed = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": packed });
    let reply = site.post(&inside(&id), &packed).await;
    assert!(reply.messages()[0]["result"].is_object());
    site.end().await;
}

#[tokio::test]
async fn hard_m3_a_list_whose_cursor_is_no_text_is_refused_inside_a_session_only() {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    let listing =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "cursor": 5 } });
    let reply = site.post(&inside(&id), &listing).await;
    assert_eq!(reply.status(), 200);
    let answer = reply.json();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(1), &json!(-32602))
    );
    // Who has no session learns that first.
    assert_eq!(site.post(&[], &listing).await.status(), 400);
    let next = site.post(&inside(&id), &call(2, "echo")).await;
    assert_eq!(next.messages()[0]["id"], 2);
    site.end().await;
}

#[tokio::test]
async fn progress_rides_the_stream_of_its_call() {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    let mut request = call(1, "echo");
    request["params"]["_meta"] = json!({ "progressToken": "p" });
    let messages = site.post(&inside(&id), &request).await.messages();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[0]["method"], "notifications/progress");
    assert_eq!(messages[1]["id"], 1);
    site.end().await;
}

#[tokio::test]
async fn a_session_ends_with_delete_and_frees_its_place() {
    let site = Site::with(|config| config.max_sessions = 1).await;
    for _ in 0..3 {
        let id = site.session(&[]).await;
        let full = site.post(&[], &initialize("2025-11-25")).await;
        assert_eq!(full.status(), 503);
        let delete = Ask::new("DELETE").with(&inside(&id));
        let reply = site.ask(&delete).await;
        assert_eq!((reply.status(), reply.body.len()), (200, 0));
        for ask in [
            delete,
            Ask::new("GET").with(&inside(&id)),
            Ask::post(&call(1, "echo")).with(&inside(&id)),
        ] {
            assert_eq!(site.ask(&ask).await.status(), 404);
        }
    }
    site.end().await;
}

#[tokio::test]
async fn a_handshake_that_is_rejected_leaves_no_session_and_takes_no_place() {
    let site = Site::with(|config| config.max_sessions = 1).await;
    let mut unreadable = initialize("2025-11-25");
    unreadable["params"] = json!({ "protocolVersion": 7 });
    let mut refused = initialize("2025-11-25");
    refused["params"]["clientInfo"]["name"] = json!("refused");
    for _ in 0..3 {
        let reply = site.post(&[], &unreadable).await;
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.json()["error"]["code"], -32602);
        assert_eq!(reply.json()["id"], 0);
        assert_eq!(reply.head.header("mcp-session-id"), None);

        let reply = site.post(&[], &refused).await;
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.messages()[0]["error"]["message"], "not you");
        assert_eq!(reply.head.header("mcp-session-id"), None);
    }
    site.session(&[]).await;
    site.end().await;
}

#[tokio::test]
async fn hard_m6_a_session_from_before_a_restart_is_unknown() {
    let before = Site::new().await;
    let id = before.session(&[]).await;
    before.end().await;
    let after = Site::new().await;
    let start = std::time::Instant::now();
    let reply = after.post(&inside(&id), &call(1, "echo")).await;
    assert_eq!(reply.status(), 404);
    assert_eq!(reply.json()["error"]["message"], "Session not found");
    assert!(start.elapsed() < PATIENCE / 4);
    // The client starts anew, and a request of the revision without sessions never knew the difference.
    after.session(&[]).await;
    after.end().await;
}

#[tokio::test]
async fn a_session_belongs_to_the_token_that_opened_it() {
    let site = Site::with(|config| {
        config.tokens = ["one", "two", "one"].map(str::to_owned).to_vec();
    })
    .await;
    let one = ("Authorization", "Bearer one");
    let two = ("Authorization", "Bearer two");
    let id = site.session(&[one]).await;
    let with = |ask: Ask<'static>, token| ask.with(&[token]).with(&inside(&id));
    let post = || Ask::post(&call(1, "echo"));
    for ask in [post(), Ask::new("GET"), Ask::new("DELETE")] {
        let reply = site.ask(&with(ask, two)).await;
        assert_eq!(reply.status(), 404);
        assert_eq!(reply.json()["error"]["code"], -32001);
    }
    assert_eq!(site.ask(&with(post(), one)).await.status(), 200);
    assert_eq!(site.ask(&with(Ask::new("DELETE"), one)).await.status(), 200);
    site.end().await;
}

#[tokio::test]
async fn hard_m4_a_cancelled_wait_ends_its_stream_without_an_answer() {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    let mut wire = site.wire().await;
    wire.write(
        &Ask::post(&call(7, "wait"))
            .with(&inside(&id))
            .bytes(site.address),
    )
    .await;
    site.watched.until(|seen| seen.waits == 1).await;
    // Unknown and finished ones besides.
    for request in [6, 8, 7, 7] {
        assert_eq!(
            site.post(&inside(&id), &cancel(request)).await.status(),
            202
        );
    }
    site.watched.until(|seen| seen.cancelled == 1).await;
    let reply = wire.reply().await;
    assert_eq!((reply.status(), reply.body.len()), (200, 0));
    assert_eq!(
        site.post(&inside(&id), &call(9, "echo")).await.messages()[0]["id"],
        9
    );
    site.end().await;
}

#[tokio::test]
async fn hard_m4_an_answer_that_was_decided_on_is_sent_though_a_cancellation_comes() {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    let mut wire = site.wire().await;
    let ask = Ask::post(&call(7, "hold")).with(&inside(&id));
    wire.write(&ask.bytes(site.address)).await;
    site.watched.until(|seen| seen.held == 1).await;
    let note = site.post(&inside(&id), &cancel(7)).await;
    assert_eq!(note.status(), 202);
    // Answered after the cancellation would have been handed on.
    site.post(&inside(&id), &call(8, "echo")).await;
    site.watched.release.cancel();
    let messages = wire.reply().await.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["id"], 7);
    assert_eq!(text_of(&messages[0]), "answered");
    site.end().await;
}

#[tokio::test]
async fn a_closed_stream_is_no_cancellation_but_the_end_of_the_session_is() {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    let mut wire = site.wire().await;
    wire.write(
        &Ask::post(&call(1, "wait"))
            .with(&inside(&id))
            .bytes(site.address),
    )
    .await;
    assert_eq!(wire.head().await.status, 200);
    site.watched.until(|seen| seen.waits == 1).await;
    drop(wire);
    // A whole round trip of another call later it still waits.
    site.post(&inside(&id), &call(2, "echo")).await;
    assert_eq!(site.watched.seen().cancelled, 0);

    let reply = site.ask(&Ask::new("DELETE").with(&inside(&id))).await;
    assert_eq!(reply.status(), 200);
    site.watched.until(|seen| seen.cancelled == 1).await;
    site.end().await;
}

#[tokio::test]
async fn a_standalone_stream_can_be_opened_again_once_it_is_closed() {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    let ask = Ask::new("GET").with(&inside(&id));
    let mut first = site.wire().await;
    first.write(&ask.bytes(site.address)).await;
    let head = first.head().await;
    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(site.ask(&ask).await.status(), 409);

    // With the id of an event it is a resumption, which is let through beside an open stream.
    let mut resumed = site.wire().await;
    resumed
        .write(
            &ask.clone()
                .with(&[("Last-Event-ID", "0")])
                .bytes(site.address),
        )
        .await;
    assert_eq!(resumed.head().await.status, 200);

    drop(first);
    // The server learns of it by the end of the connection, at a time of its own.
    let reopened = timeout(PATIENCE, async {
        loop {
            let mut wire = site.wire().await;
            wire.write(&ask.bytes(site.address)).await;
            if wire.head().await.status == 200 {
                break;
            }
            tokio::task::yield_now().await;
        }
    });
    reopened.await.expect("in time");
    site.end().await;
}

#[tokio::test]
async fn a_server_note_of_a_call_comes_before_its_answer_event_by_event() {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    let mut request = call(1, "echo");
    request["params"]["_meta"] = json!({ "progressToken": 5 });
    let mut wire = site.wire().await;
    wire.write(&Ask::post(&request).with(&inside(&id)).bytes(site.address))
        .await;
    assert_eq!(wire.head().await.status, 200);
    let event = wire.chunk().await.expect("an event");
    let event = String::from_utf8(event).expect("UTF-8");
    assert_eq!(message(&event)["params"]["progressToken"], 5);
    site.end().await;
}
