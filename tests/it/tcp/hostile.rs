//! Frames that lie about what they hold, or nest without end: each costs its sender an error and nobody anything else.

use std::io::Write;
use std::net::{Shutdown, TcpStream};

use serde_json::{Value, json};

use super::client::{Conn, frame};
use super::value::Wire;
use crate::process::Serve;

/// Levels of a frame, the map of the command included.
const LEVELS: usize = 1000;

fn ping(conn: &mut Conn) {
    let reply = conn.ok(&json!({ "cmd": "Ping" }));
    assert_eq!(reply["data"]["pong"], true);
}

/// Empty arrays, one inside the other.
fn nested(levels: usize) -> Vec<u8> {
    let mut bytes = vec![0x91; levels - 1];
    bytes.push(0x90);
    bytes
}

/// A `PUSH` whose data is already encoded.
fn push_raw(conn: &mut Conn, data: Vec<u8>) -> Value {
    let pending = conn.begin_wire(Wire::Map(vec![
        (Wire::text("cmd"), Wire::text("PUSH")),
        (Wire::text("queue"), Wire::text("deep")),
        (Wire::text("name"), Wire::text("job")),
        (Wire::text("data"), Wire::Raw(data)),
    ]));
    conn.finish(&pending)
}

fn refused_without_id(conn: &mut Conn, data: &[u8]) {
    let body = [b"\x82\xa3cmd\xa4PUSH\xa4data".as_slice(), data].concat();
    conn.send_bytes(&frame(&body));
    assert_eq!(
        conn.reply().value.to_json(),
        json!({ "ok": false, "error": "Invalid command format" })
    );
}

#[test]
fn hard_w4_depth_up_to_the_limit_passes_and_beyond_it_is_refused() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let mut other = Conn::open(serve.tcp);
    for levels in [LEVELS - 1, LEVELS] {
        let data = nested(levels - 1);
        let pushed = push_raw(&mut conn, data.clone());
        assert_eq!(pushed["ok"], true, "{levels} levels: {pushed}");
        let pending = conn.begin(&json!({ "cmd": "PULL", "queue": "deep", "owner": "w" }));
        let pulled = conn.finish_frame(&pending);
        assert!(
            pulled.body.windows(data.len()).any(|window| window == data),
            "{levels} levels come back as they were"
        );
    }
    for levels in [LEVELS + 1, LEVELS + 2, 1_000_000] {
        refused_without_id(&mut conn, &nested(levels - 1));
        ping(&mut conn);
    }
    ping(&mut other);
    assert_eq!(other.counts("deep")["active"], 2);
}

#[test]
fn hard_w4_maps_count_like_arrays() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let maps = |levels: usize| [b"\x81\xa1k".repeat(levels - 1), vec![0x80]].concat();
    assert_eq!(push_raw(&mut conn, maps(LEVELS - 1))["ok"], true);
    refused_without_id(&mut conn, &maps(LEVELS));
    // Nested in the place of a key.
    refused_without_id(&mut conn, &[b"\x81".repeat(1_000_000), vec![0xc0]].concat());
    ping(&mut conn);
}

/// Bodies that announce far more than they hold.
const LIES: &[&[u8]] = &[
    b"\xdd\xee\x6b\x28\x00\x01\x02\x03\x04\x05",
    b"\xdf\xff\xff\xff\xff\x01\x02\x03\x04\x05",
    b"\xdb\xff\xff\xff\xffabcde",
    b"\xc6\xff\xff\xff\xffabcde",
    b"\xc9\xff\xff\xff\xff\x05abcd",
    b"\xdc\xff\xff\x90\x90\x90",
    b"\xde\xff\xff\xa1a\xa1b",
    b"\x82\xa3cmd\xdb\xff\xff\xff\xff",
    b"\x82\xa3cmd\xa4PUSH\xa4data\xdd\xff\xff\xff\xff",
    b"\x82\xa3cmd\xa4PUSH\xa4data\xdf\xff\xff\xff\xff\xa1a",
];

#[cfg(target_os = "linux")]
#[test]
fn hard_w3_lying_lengths_cost_no_memory_and_harm_nobody() {
    const ROUNDS: usize = 9;
    const PER_ROUND: usize = 1000;
    const ALLOWED: u64 = 48 * 1024 * 1024;
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let mut other = Conn::open(serve.tcp);
    let lie = |conn: &mut Conn| {
        let frames: Vec<u8> = (0..PER_ROUND)
            .flat_map(|place| frame(LIES[place % LIES.len()]))
            .collect();
        conn.send_bytes(&frames);
        for _ in 0..PER_ROUND {
            let reply = conn.reply().value.to_json();
            assert_eq!(
                reply,
                json!({ "ok": false, "error": "Invalid command format" })
            );
        }
    };
    lie(&mut conn);
    let before = serve.process.resident();
    for _ in 1..ROUNDS {
        lie(&mut conn);
        ping(&mut other);
    }
    // The rest of the 10,000 lie in the length prefix: too large, or the stream ends inside the frame. The announced
    // 64 MiB of the latter stay open all at once.
    let waiting: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = TcpStream::connect(serve.tcp).unwrap();
            stream.write_all(b"\x04\x00\x00\x00\x82\xa3cmd").unwrap();
            stream
        })
        .collect();
    for _ in 0..500 {
        let mut stream = TcpStream::connect(serve.tcp).unwrap();
        stream.write_all(b"\xff\xff\xff\xff").unwrap();
    }
    ping(&mut other);
    let grown = serve.process.resident().saturating_sub(before);
    assert!(grown < ALLOWED, "grown by {grown} bytes");
    for stream in waiting {
        stream.shutdown(Shutdown::Both).unwrap();
    }
    ping(&mut conn);
    ping(&mut other);
}
