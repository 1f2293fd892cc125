//! The line transport against a client that speaks bytes: both lifecycles, bad lines, cancellation, every way to end.

mod talk;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout};

use super::*;
use crate::mcp::echo_server::{PATIENCE, Watched};
use talk::{Talk, call, cancel, initialize, inline, ping, text_of};

#[tokio::test]
async fn hard_m5_every_handshake_revision_and_an_unknown_one_is_served() {
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut talk = Talk::new();
        let answer = talk.ask(&initialize(asked)).await;
        assert_eq!(answer["result"]["protocolVersion"], given, "{asked}");
        assert_eq!(text_of(&talk.ask(&call(1, "echo")).await), "{}");
        assert!(talk.end().await.is_empty());
    }
}

#[tokio::test]
async fn hard_m5_the_revision_without_a_handshake_is_served() {
    const VERSION: &str = "2026-07-28";
    let mut talk = Talk::new();
    let discovered = talk
        .ask(&inline(1, "server/discover", VERSION, json!({})))
        .await;
    assert!(
        discovered["result"]["supportedVersions"]
            .as_array()
            .expect("a list")
            .contains(&json!(VERSION)),
        "{discovered}"
    );
    let unknown = talk
        .ask(&inline(2, "tools/list", "2031-01-01", json!({})))
        .await;
    assert_eq!(unknown["error"]["code"], -32022, "{unknown}");
    assert!(unknown["error"]["data"]["supported"].is_array());
    let listed = talk.ask(&inline(3, "tools/list", VERSION, json!({}))).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "echo");
    let params = json!({ "name": "echo", "arguments": { "a": 1 } });
    let called = talk.ask(&inline(4, "tools/call", VERSION, params)).await;
    assert_eq!(text_of(&called), r#"{"a":1}"#);

    // Cancellation exists here too, on this transport by notification.
    let params = json!({ "name": "wait", "arguments": {} });
    talk.send(&inline(5, "tools/call", VERSION, params)).await;
    talk.watched.until(|seen| seen.waits == 1).await;
    talk.send(&cancel(5)).await;
    talk.watched.until(|seen| seen.cancelled == 1).await;
    assert!(talk.end().await.is_empty());
}

#[tokio::test]
async fn hard_m3_bad_lines_get_at_most_one_error_and_the_next_request_works() {
    /// Code and id of an answer.
    type Answer = Option<(i64, Value)>;
    let cases: &[(&[u8], Answer)] = &[
        (b"garbage", Some((-32700, Value::Null))),
        (b"{\"jsonrpc\":", Some((-32700, Value::Null))),
        (b"\xff\xfe\x00", Some((-32700, Value::Null))),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}",
            Some((-32700, Value::Null)),
        ),
        (b"[]", Some((-32600, Value::Null))),
        (
            b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
            Some((-32600, Value::Null)),
        ),
        (b"{}", Some((-32600, Value::Null))),
        (b"7", Some((-32600, Value::Null))),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":\"x\"}",
            Some((-32600, json!("x"))),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
            Some((-32600, Value::Null)),
        ),
        (b"", None),
        (b"\r", None),
        (b"   \t", None),
        (b"\xef\xbb\xbf", None),
        (
            b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard\"}",
            None,
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}",
            None,
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}", None),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":99,\"error\":{\"code\":1,\"message\":\"m\"}}",
            None,
        ),
    ];
    // The same before the handshake, where pings are answered already.
    for mut talk in [Talk::new(), Talk::open().await] {
        for (number, (line, expected)) in (1000..).zip(cases) {
            let shown = String::from_utf8_lossy(line);
            talk.bytes(line).await;
            talk.bytes(b"\n").await;
            talk.send(&ping(number)).await;
            if let Some((code, id)) = expected {
                let answer = talk.answer().await;
                assert_eq!(answer["error"]["code"], *code, "{shown}");
                assert_eq!(answer.get("id"), Some(id), "{shown}");
            }
            let pong = talk.answer().await;
            assert_eq!(pong["id"], number, "after {shown}");
            assert!(pong["result"].is_object(), "after {shown}");
        }
        assert!(talk.end().await.is_empty());
    }
}

#[tokio::test]
async fn a_byte_order_mark_and_crlf_are_no_part_of_a_message() {
    let mut talk = Talk::open().await;
    let mut line = b"\xef\xbb\xbf".to_vec();
    line.extend_from_slice(ping(1).to_string().as_bytes());
    line.extend_from_slice(b"\r\n");
    talk.bytes(&line).await;
    assert_eq!(talk.answer().await["id"], 1);
}

#[tokio::test]
async fn an_unknown_method_is_answered_and_a_request_before_any_lifecycle_too() {
    let mut talk = Talk::new();
    let early = talk.ask(&call(1, "echo")).await;
    assert_eq!(early["error"]["code"], -32602, "{early}");
    assert_eq!(
        early["error"]["message"],
        "Invalid params: initialize first, or name the revision in _meta"
    );
    let empty = json!({ "jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {} });
    assert_eq!(
        talk.ask(&empty).await["error"]["message"],
        "Invalid params: initialize takes protocolVersion, capabilities and clientInfo"
    );
    assert_eq!(
        talk.ask(&initialize("2025-06-18")).await["result"]["protocolVersion"],
        "2025-06-18"
    );
    let unknown = json!({ "jsonrpc": "2.0", "id": 2, "method": "no/such" });
    assert_eq!(talk.ask(&unknown).await["error"]["code"], -32601);
    assert_eq!(talk.ask(&ping(3)).await["id"], 3);
}

#[tokio::test]
async fn a_line_above_the_limit_is_answered_once_and_skipped() {
    let mut talk = Talk::open().await;
    let long = vec![b'x'; LINE_MAX + 1];
    talk.bytes(&long).await;
    let answer = talk.answer().await;
    assert_eq!(answer["error"]["code"], -32700);
    assert_eq!(answer["id"], Value::Null);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.ends_with(&format!(" {LINE_MAX} bytes")),
        "{message}"
    );
    talk.bytes(&long).await;
    talk.bytes(b"\n").await;
    assert_eq!(talk.ask(&ping(1)).await["id"], 1);
    assert!(talk.end().await.is_empty());
}

#[tokio::test]
async fn everything_sent_before_the_end_is_answered_a_line_without_newline_included() {
    let mut talk = Talk::new();
    let mut all = format!("{}\n", initialize("2025-11-25"));
    for id in 1..=50 {
        all.push_str(&format!("{}\n", call(id, "echo")));
    }
    all.push_str(&ping(51).to_string());
    talk.bytes(all.as_bytes()).await;
    let mut ids: Vec<i64> = talk
        .end()
        .await
        .iter()
        .map(|answer| answer["id"].as_i64().expect("a number"))
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..=51).collect::<Vec<_>>());
}

#[tokio::test]
async fn garbage_as_the_last_line_is_answered() {
    let mut talk = Talk::open().await;
    talk.bytes(b"{").await;
    let rest = talk.end().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["error"]["code"], -32700);
}

#[tokio::test(start_paused = true)]
async fn hard_m1_the_end_of_input_ends_at_once_when_idle_or_never_used() {
    for talk in [Talk::new(), Talk::open().await] {
        let start = Instant::now();
        assert!(talk.end().await.is_empty());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn hard_m1_the_end_of_input_ends_a_wait_and_its_answer_is_written() {
    let mut talk = Talk::open().await;
    talk.send(&call(1, "wait")).await;
    talk.watched.until(|seen| seen.waits == 1).await;
    let start = Instant::now();
    let rest = talk.end().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(rest.len(), 1);
    assert_eq!(text_of(&rest[0]), "stopped");
}

#[tokio::test(start_paused = true)]
async fn hard_m1_a_call_that_hangs_holds_the_end_up_for_a_bounded_time_only() {
    let mut talk = Talk::open().await;
    talk.send(&call(1, "hang")).await;
    assert_eq!(text_of(&talk.ask(&call(2, "echo")).await), "{}");
    let start = Instant::now();
    assert!(talk.end().await.is_empty());
    assert_eq!(start.elapsed(), STOP_GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_signal_ends_the_session_while_the_input_stays_open() {
    let mut talk = Talk::open().await;
    talk.send(&call(1, "wait")).await;
    talk.watched.until(|seen| seen.waits == 1).await;
    talk.watched.shutdown.cancel();
    let start = Instant::now();
    let rest = talk.rest().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(rest.len(), 1);
    assert_eq!(text_of(&rest[0]), "stopped");
}

#[tokio::test]
async fn a_client_that_closes_our_output_ends_the_session_without_an_error() {
    let mut talk = Talk::open().await;
    let (unused, _) = tokio::io::duplex(1);
    talk.from_server = BufReader::new(unused);
    talk.send(&ping(1)).await;
    let ended = timeout(PATIENCE, talk.server).await.expect("in time");
    ended.expect("no panic").expect("no error");
    assert!(talk.watched.shutdown.is_cancelled());
}

#[tokio::test]
async fn hard_m4_a_cancelled_wait_ends_and_is_not_answered() {
    let mut talk = Talk::open().await;
    talk.send(&call(7, "wait")).await;
    talk.watched.until(|seen| seen.waits == 1).await;
    talk.send(&cancel(7)).await;
    talk.watched.until(|seen| seen.cancelled == 1).await;
    assert_eq!(talk.ask(&ping(8)).await["id"], 8);
    assert!(talk.end().await.is_empty());
}

#[tokio::test]
async fn hard_m4_an_answer_that_was_decided_on_is_sent_though_a_cancellation_comes() {
    let mut talk = Talk::open().await;
    talk.send(&call(7, "hold")).await;
    talk.watched.until(|seen| seen.held == 1).await;
    talk.send(&cancel(7)).await;
    // Answered after the cancellation was read.
    assert_eq!(talk.ask(&ping(8)).await["id"], 8);
    talk.watched.release.cancel();
    let answer = talk.answer().await;
    assert_eq!((&answer["id"], text_of(&answer)), (&json!(7), "answered"));
    assert!(talk.end().await.is_empty());
}

#[tokio::test]
async fn hard_m4_cancelling_unknown_finished_and_finishing_calls_never_gives_two_replies() {
    let mut talk = Talk::open().await;
    let rounds = 1000;
    let mut burst = String::new();
    for id in 1..=rounds {
        burst.push_str(&format!(
            "{}\n{}\n{}\n{}\n",
            call(id, "echo"),
            cancel(id),
            cancel(id - 1),
            cancel(-id)
        ));
    }
    // Written and read at the same time: neither side may wait for the other.
    let mut to_server = talk.to_server.take().expect("input is open");
    let sender = tokio::spawn(async move {
        to_server
            .write_all(burst.as_bytes())
            .await
            .expect("server reads");
        to_server
            .write_all(format!("{}\n", ping(rounds + 1)).as_bytes())
            .await
            .expect("server reads");
        to_server
    });
    let mut replies = vec![0; usize::try_from(rounds).expect("small") + 2];
    loop {
        let answer = talk.answer().await;
        let id = usize::try_from(answer["id"].as_i64().expect("a number")).expect("positive");
        replies[id] += 1;
        if id == replies.len() - 1 {
            break;
        }
    }
    talk.to_server = Some(sender.await.expect("no panic"));
    for answer in talk.end().await {
        let id = usize::try_from(answer["id"].as_i64().expect("a number")).expect("positive");
        replies[id] += 1;
    }
    assert!(replies.iter().all(|count| *count <= 1), "{replies:?}");
}

#[tokio::test]
async fn progress_comes_before_the_answer_it_belongs_to() {
    let mut talk = Talk::open().await;
    for id in 1..=100 {
        let mut request = call(id, "echo");
        request["params"]["_meta"] = json!({ "progressToken": id });
        let note = talk.ask(&request).await;
        assert_eq!(note["method"], "notifications/progress");
        assert_eq!(note["params"]["progressToken"], id);
        assert_eq!(talk.answer().await["id"], id);
    }
}

#[tokio::test]
async fn the_output_counts_what_the_client_has_not_taken() {
    let output = Arc::new(Output::default());
    let (pipe, mut client) = tokio::io::duplex(8);
    let writing = tokio::spawn(output::write_lines(
        output.clone(),
        pipe,
        CancellationToken::new(),
    ));
    output.below(1).await;
    assert!(output.push_line("0123456789abcdef\n"));
    let mut room = std::pin::pin!(output.below(1));
    tokio::select! {
        biased;
        () = &mut room => panic!("nothing was taken yet"),
        () = std::future::ready(()) => {}
    }
    let mut taken = [0; 17];
    client.read_exact(&mut taken).await.expect("a line");
    timeout(PATIENCE, room).await.expect("in time");
    output.close();
    assert!(!output.push_line("late\n"));
    writing.await.expect("no panic").expect("no error");
}

#[test]
fn a_line_of_exactly_the_limit_is_cut_whole_in_any_portions() {
    let mut cutter = Cutter::default();
    let mut line = vec![b'y'; LINE_MAX];
    for part in line.chunks(READ_SIZE) {
        cutter.space().extend_from_slice(part);
        assert_eq!(cutter.cut(), None);
    }
    cutter.space().extend_from_slice(b"\nnext");
    assert_eq!(cutter.cut(), Some(Piece::Line(line.as_slice().into())));
    assert_eq!(cutter.cut(), None);
    assert_eq!(cutter.rest(), Some(Piece::Line(b"next".as_slice().into())));

    // One more byte is too many, also when its newline came in the same read.
    line.push(b'y');
    line.push(b'\n');
    cutter.space().extend_from_slice(&line);
    cutter.space().extend_from_slice(b"after\n");
    assert_eq!(cutter.cut(), Some(Piece::TooLong));
    assert_eq!(cutter.cut(), Some(Piece::Line(b"after".as_slice().into())));
    assert_eq!(cutter.rest(), None);
}

/// Serves a session on adopted descriptors and plays the client at the other ends.
#[cfg(unix)]
#[tokio::test]
async fn a_socket_pair_as_node_makes_it_is_driven_without_blocking() {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    let (ours_in, theirs_in) = UnixStream::pair().expect("a pair");
    let (ours_out, theirs_out) = UnixStream::pair().expect("a pair");
    let (input, output) =
        streams::adopt_sockets(ours_in.as_fd(), ours_out.as_fd()).expect("sockets are taken");
    let watched = Watched::new();
    let server = tokio::spawn(serve_stdio(
        watched.handler(),
        input,
        output,
        watched.shutdown.clone(),
    ));
    for stream in [&theirs_in, &theirs_out] {
        stream.set_nonblocking(true).expect("a flag");
    }
    let mut to_server = tokio::net::UnixStream::from_std(theirs_in).expect("a socket");
    let mut from_server =
        BufReader::new(tokio::net::UnixStream::from_std(theirs_out).expect("a socket"));
    to_server
        .write_all(format!("{}\n", initialize("2025-11-25")).as_bytes())
        .await
        .expect("server reads");
    let mut line = String::new();
    let read = timeout(PATIENCE, from_server.read_line(&mut line)).await;
    read.expect("in time").expect("a line");
    assert!(line.contains("2025-11-25"), "{line}");
    drop((to_server, ours_in));
    let ended = timeout(PATIENCE, server).await.expect("in time");
    ended.expect("no panic").expect("no error");
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_unix_socket_is_left_to_the_other_handles() {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    let (socket, _other) = UnixStream::pair().expect("a pair");
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    assert!(streams::adopt_sockets(reader.as_fd(), socket.as_fd()).is_none());
    assert!(streams::adopt_sockets(socket.as_fd(), reader.as_fd()).is_none());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    assert!(streams::adopt_sockets(listener.as_fd(), listener.as_fd()).is_none());
}
