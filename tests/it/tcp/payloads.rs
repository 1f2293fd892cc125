//! User data is opaque: what one client sends as data or result, another receives byte for byte.

use serde_json::json;

use super::client::{Conn, Frame};
use super::value::{Wire, wide};
use crate::process::Serve;

/// Encoded values that a decoder and an encoder between the sockets would change, or could not carry.
pub fn delicate() -> Vec<(&'static str, Vec<u8>)> {
    let beyond = 1_i128 << 53;
    vec![
        ("2^53 + 1", wide(beyond + 1)),
        ("2^53 - 1 in 64 bits", wide(beyond - 1)),
        ("2^63 - 1", wide(i128::from(i64::MAX))),
        ("2^64 - 1", wide(i128::from(u64::MAX))),
        ("-2^63", wide(i128::from(i64::MIN))),
        ("5 in 64 bits", wide(5)),
        ("5 in 16 bits", b"\xcd\x00\x05".to_vec()),
        ("-5 in 32 bits", b"\xd2\xff\xff\xff\xfb".to_vec()),
        ("1.0", Wire::Float(1.0).encode()),
        ("-0.0", Wire::Float(-0.0).encode()),
        ("not a number", Wire::Float(f64::NAN).encode()),
        ("infinity", Wire::Float(f64::NEG_INFINITY).encode()),
        ("0.5 in 32 bits", b"\xca\x3f\x00\x00\x00".to_vec()),
        ("bytes", Wire::Bin((0..=255).collect()).encode()),
        (
            "short text with a long header",
            b"\xdb\x00\x00\x00\x02hi".to_vec(),
        ),
        ("text that is no UTF-8", b"\xa4\xff\xfe\xed\xa0".to_vec()),
        ("a time", Wire::Ext(-1, vec![0, 0, 0, 1]).encode()),
        ("an extension", Wire::Ext(42, vec![7; 20]).encode()),
        ("undefined inside", b"\x81\xa1u\xd4\x00\x00".to_vec()),
        (
            "keys of all kinds",
            b"\x84\x01\xa1a\xc0\xa1b\x90\xa1c\xa1d\xc3".to_vec(),
        ),
        ("a key twice", b"\x82\xa1a\x01\xa1a\x02".to_vec()),
        (
            "an empty array with a long header",
            b"\xdd\x00\x00\x00\x00".to_vec(),
        ),
        (
            "prototype keys",
            b"\x82\xa9__proto__\x01\xabconstructor\x02".to_vec(),
        ),
    ]
}

pub(super) fn assert_holds(frame: &Frame, bytes: &[u8], what: &str) {
    let found = frame
        .body
        .windows(bytes.len())
        .any(|window| window == bytes);
    assert!(found, "{what}: {:02x?} not in {:02x?}", bytes, frame.body);
}

pub(super) fn command(text: &[(&str, &str)], raw: &str, bytes: &[u8]) -> Wire {
    let mut entries: Vec<(Wire, Wire)> = text
        .iter()
        .map(|(key, value)| (Wire::text(key), Wire::text(value)))
        .collect();
    entries.push((Wire::text(raw), Wire::Raw(bytes.to_vec())));
    Wire::Map(entries)
}

#[test]
fn hard_w1_w2_data_and_results_pass_byte_for_byte() {
    let serve = Serve::start();
    let mut producer = Conn::open(serve.tcp);
    let mut worker = Conn::open(serve.tcp);
    let mut watcher = Conn::open(serve.tcp);
    for conn in [&mut producer, &mut worker, &mut watcher] {
        conn.expect_wide();
    }
    watcher.ok(
        &json!({ "cmd": "SubscribeEvents", "queue": "q", "eventTypes": ["completed", "failed"] }),
    );
    for (what, value) in delicate() {
        // Inside an array, so that the neighbours show a value that was cut short or ran on.
        let value = [b"\x93\xa5first".as_slice(), &value, b"\xa4last"].concat();
        let push = command(
            &[("cmd", "PUSH"), ("queue", "q"), ("name", "n")],
            "data",
            &value,
        );
        let pushed = producer.begin_wire(push);
        let id = producer.finish(&pushed)["id"]
            .as_str()
            .unwrap_or_else(|| panic!("{what}"))
            .to_owned();

        let pulled = worker.begin(&json!({ "cmd": "PULL", "queue": "q" }));
        assert_holds(&worker.finish_frame(&pulled), &value, what);
        let ack = command(&[("cmd", "ACK"), ("id", &id)], "result", &value);
        let acked = worker.begin_wire(ack);
        assert_eq!(worker.finish(&acked)["ok"], true, "{what}");

        assert_holds(&watcher.event_frame(), &value, what);
        let result = producer.begin(&json!({ "cmd": "GetResult", "id": id }));
        assert_holds(&producer.finish_frame(&result), &value, what);
        let waited = producer.begin(&json!({ "cmd": "WaitJob", "id": id, "timeout": 0 }));
        assert_holds(&producer.finish_frame(&waited), &value, what);
        let job = producer.begin(&json!({ "cmd": "GetJob", "id": id }));
        let job = producer.finish_frame(&job);
        assert_holds(&job, &value, what);
        let twice = job
            .body
            .windows(value.len())
            .filter(|window| *window == value);
        assert_eq!(twice.count(), 2, "{what}: as data and as returnvalue");
    }
}

#[test]
fn updated_and_failed_data_passes_byte_for_byte() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    conn.expect_wide();
    let mut watcher = Conn::open(serve.tcp);
    watcher.expect_wide();
    watcher.ok(&json!({ "cmd": "SubscribeEvents", "queue": "q", "eventTypes": ["failed"] }));
    for (what, value) in delicate() {
        let id = conn.push("q", &json!({ "data": 0, "maxAttempts": 1 }));
        let update = command(&[("cmd", "Update"), ("id", &id)], "data", &value);
        let updated = conn.begin_wire(update);
        assert_eq!(conn.finish(&updated)["ok"], true, "{what}");
        let pulled = conn.begin(&json!({ "cmd": "PULL", "queue": "q" }));
        assert_holds(&conn.finish_frame(&pulled), &value, what);
        conn.ok(&json!({ "cmd": "FAIL", "id": id, "error": "no" }));
        assert_holds(&watcher.event_frame(), &value, what);
    }
}

#[test]
fn a_legacy_name_leaves_every_other_byte_of_the_data() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    conn.expect_wide();
    for (what, value) in delicate() {
        let before = [b"\xa6before".as_slice(), &value].concat();
        let after = [b"\xa5after".as_slice(), &value].concat();
        let data = [b"\x83", before.as_slice(), b"\xa4name\xa5hello", &after].concat();
        let push = command(&[("cmd", "PUSH"), ("queue", "q")], "data", &data);
        let pushed = conn.begin_wire(push);
        assert_eq!(conn.finish(&pushed)["ok"], true, "{what}");
        let pulled = conn.begin(&json!({ "cmd": "PULL", "queue": "q" }));
        let pulled = conn.finish_frame(&pulled);
        assert_holds(
            &pulled,
            &[b"\x82", before.as_slice(), &after].concat(),
            what,
        );
        assert_eq!(
            pulled.value.get("job").and_then(|job| job.get("name")),
            Some(&Wire::text("hello"))
        );
    }
}

#[test]
fn hard_w2_broken_text_in_names_and_ids_is_refused_and_the_connection_goes_on() {
    const BROKEN: &[u8] = b"\xa3a\xff\xfe";
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let push = [("cmd", "PUSH"), ("queue", "q"), ("name", "n")];
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("cmd", "PUSH"), ("name", "n")], "queue"),
        (&[("cmd", "PUSH"), ("queue", "q")], "name"),
        (&push, "jobId"),
        (&push, "uniqueKey"),
        (&[("cmd", "PULL")], "queue"),
        (&[("cmd", "PULL"), ("queue", "q")], "owner"),
        (&[("cmd", "SubscribeEvents")], "queue"),
        (&[("cmd", "GetJob")], "id"),
    ];
    for (members, broken) in cases {
        let pending = conn.begin_wire(command(members, broken, BROKEN));
        let reply = conn.finish(&pending);
        assert_eq!(reply["ok"], false, "{members:?} with {broken}: {reply}");
    }
    assert_eq!(
        conn.ok(&json!({ "cmd": "ListQueues" }))["queues"],
        json!([])
    );
    assert_eq!(conn.push("q", &json!({ "jobId": "whole" })), "whole");
}
