//! Readers that are slow, and waits as long as their client's patience.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{CLOSE, Conn, REPLY, frame, read_body};
use super::value::{Wire, decode};
use crate::process::Serve;

const REPLIES: usize = 200;
const DATA: usize = 100 * 1024;

/// Asks for the same large job many times over a plain socket and reads nothing yet.
fn ask(serve: &Serve, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(serve.tcp).unwrap();
    stream.set_read_timeout(Some(REPLY)).unwrap();
    for n in 0..REPLIES {
        let command = json!({ "cmd": "GetJob", "id": id, "reqId": n.to_string() });
        let bytes = frame(&Wire::from_notation(&command).encode());
        // At its budget the server may close while the rest is still being sent.
        if stream.write_all(&bytes).is_err() {
            break;
        }
    }
    stream
}

fn assert_undisturbed(other: &mut Conn) {
    const EACH: Duration = Duration::from_secs(2);
    for _ in 0..50 {
        let started = Instant::now();
        other.ok(&json!({ "cmd": "Ping" }));
        assert!(started.elapsed() < EACH, "{:?}", started.elapsed());
    }
}

#[test]
fn hard_w5_a_slow_reader_gets_whole_frames_and_delays_nobody() {
    let serve = Serve::start();
    let mut other = Conn::open(serve.tcp);
    let id = other.push("q", &json!({ "data": "x".repeat(DATA) }));
    let mut slow = ask(&serve, &id);
    assert_undisturbed(&mut other);
    let mut seen = BTreeSet::new();
    for n in 0..REPLIES {
        // The first reply byte by byte; all of them so would take longer than the rest of the tests.
        let body = match n {
            0 => read_body(&mut ByteByByte(&slow)),
            _ => read_body(&mut slow),
        };
        let reply = decode(&body.unwrap().expect("one more reply")).unwrap();
        let reply = reply.value.to_json();
        assert_eq!(reply["job"]["data"].as_str().map(str::len), Some(DATA));
        assert!(seen.insert(reply["reqId"].as_str().unwrap().to_owned()));
    }
    assert_eq!(seen.len(), REPLIES);
    assert_undisturbed(&mut other);
}

struct ByteByByte<'a>(&'a TcpStream);

impl Read for ByteByByte<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let end = buffer.len().min(1);
        self.0.read(&mut buffer[..end])
    }
}

#[test]
fn hard_w5_a_reader_beyond_its_budget_is_disconnected() {
    let serve = Serve::start_with(&[("TCP_MAX_WRITE_QUEUE_BYTES", "1048576")]);
    let mut other = Conn::open(serve.tcp);
    let id = other.push("q", &json!({ "data": "x".repeat(DATA) }));
    let mut slow = ask(&serve, &id);
    assert_undisturbed(&mut other);
    // Whoever reads before that is not slow.
    serve.process.line("it did not read what it was sent");
    // What had left the server before is still on its way; then the stream ends, not all replies read.
    slow.set_read_timeout(Some(CLOSE)).unwrap();
    let mut read = 0;
    loop {
        match slow.read(&mut [0; 65_536]) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
                break;
            }
        }
    }
    assert!(read < REPLIES * DATA, "all {read} bytes were kept for it");
    assert_undisturbed(&mut other);
}

#[test]
fn hard_w6_a_wait_as_long_as_the_clients_patience_ends_in_time() {
    const PATIENCE: Duration = Duration::from_secs(10);
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let millis = u64::try_from(PATIENCE.as_millis()).unwrap();
    let started = Instant::now();
    let pulls = [
        json!({ "cmd": "PULL", "queue": "q", "owner": "w", "timeout": millis }),
        json!({ "cmd": "PULLB", "queue": "q", "owner": "w", "timeout": millis, "count": 5 }),
    ]
    .map(|command| conn.begin(&command));
    let replies = pulls.map(|pending| conn.finish(&pending));
    let took = started.elapsed();
    assert_eq!(
        replies,
        [
            json!({ "ok": true, "job": null, "token": null }),
            json!({ "ok": true, "jobs": [], "tokens": [] }),
        ]
    );
    assert!(took < PATIENCE, "the client has given up: {took:?}");
    assert!(took >= PATIENCE - Duration::from_millis(600), "{took:?}");
}
