//! Frames as bytes: cut, joined, unusable, too large; and what a reply repeats of its request.

use serde_json::{Value, json};

use super::client::{Conn, frame};
use super::value::{Wire, wide};
use crate::process::Serve;

/// `{"cmd":"Ping","reqId":"s1"}` with its length prefix, byte for byte.
const PING: &[u8] = b"\x00\x00\x00\x13\x82\xa3cmd\xa4Ping\xa5reqId\xa2s1";

fn assert_pong(reply: &Value, id: &Value) {
    assert_eq!(reply["ok"], true, "{reply}");
    assert_eq!(reply["data"]["pong"], true, "{reply}");
    assert_eq!(&reply["reqId"], id, "{reply}");
}

fn assert_alive(conn: &mut Conn) {
    let reply = conn.ok(&json!({ "cmd": "Ping" }));
    assert_eq!(reply["data"]["pong"], true);
}

#[test]
fn a_frame_may_arrive_byte_by_byte() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    for byte in PING {
        conn.send_bytes(&[*byte]);
    }
    assert_pong(&conn.reply().value.to_json(), &json!("s1"));
}

#[test]
fn frames_may_arrive_joined_and_cut_anywhere() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let three = PING.repeat(3);
    for cut in 1..three.len() {
        let (head, tail) = three.split_at(cut);
        conn.send_bytes(head);
        conn.send_bytes(tail);
        for _ in 0..3 {
            assert_pong(&conn.reply().value.to_json(), &json!("s1"));
        }
    }
}

#[test]
fn frames_that_are_no_command_are_answered_and_the_connection_goes_on() {
    const FORMAT: &str = "Invalid command format";
    const COMMAND: &str = "Invalid command";
    let id = json!("r1");
    let none = Value::Null;
    let cases: &[(&[u8], &str, &Value)] = &[
        (b"", FORMAT, &none),
        (b"\xc0", FORMAT, &none),
        (b"\xc2", FORMAT, &none),
        (b"\x00", FORMAT, &none),
        (b"\xa0", FORMAT, &none),
        (b"\xc1", FORMAT, &none),
        // Cut inside the map, and inside a text.
        (b"\x82\xa3cmd", FORMAT, &none),
        (b"\x81\xa3cmd\xa9Ping", FORMAT, &none),
        // A second value in the frame.
        (b"\x81\xa3cmd\xa4Ping\xc0", FORMAT, &none),
        (b"\x05", COMMAND, &none),
        (b"\xa4Ping", COMMAND, &none),
        (b"\x92\x01\x02", COMMAND, &none),
        (b"\x80", COMMAND, &none),
        (b"\x81\xa5reqId\xa2r1", COMMAND, &id),
        (b"\x82\xa3cmd\xa0\xa5reqId\xa2r1", COMMAND, &id),
        (b"\x82\xa3cmd\xc0\xa5reqId\xa2r1", COMMAND, &id),
        // Only a text is repeated by these answers.
        (b"\x82\xa3cmd\xa0\xa5reqId\x07", COMMAND, &none),
        (
            b"\x82\xa3cmd\xa4Pong\xa5reqId\xa2r1",
            "Unknown command: Pong",
            &id,
        ),
        (
            b"\x82\xa3cmd\xa4ping\xa5reqId\xa2r1",
            "Unknown command: ping",
            &id,
        ),
    ];
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    for (body, error, id) in cases {
        conn.send_bytes(&frame(body));
        let mut expected = json!({ "ok": false, "error": error });
        if !id.is_null() {
            expected["reqId"] = (*id).clone();
        }
        assert_eq!(conn.reply().value.to_json(), expected, "{body:02x?}");
    }
    assert_alive(&mut conn);
}

#[test]
fn a_length_beyond_64_mib_is_answered_and_the_connection_closed() {
    let serve = Serve::start();
    for length in [67_108_865_u32, 0x7fff_ffff, u32::MAX] {
        let mut conn = Conn::open(serve.tcp);
        assert_alive(&mut conn);
        // What follows the header is dropped, even a good frame.
        conn.send_bytes(&[length.to_be_bytes().as_slice(), PING].concat());
        let error = format!("Frame too large: {length} bytes exceeds maximum 67108864");
        assert_eq!(
            conn.reply().value.to_json(),
            json!({ "ok": false, "error": error })
        );
        conn.expect_close();
    }
    assert_alive(&mut Conn::open(serve.tcp));
}

#[test]
fn a_reply_repeats_the_request_id_as_it_was() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    for id in [json!("x"), json!(""), json!(7), json!(-1), json!(1.5)] {
        conn.send(&Wire::from_notation(&json!({ "cmd": "Ping", "reqId": id })));
        assert_pong(&conn.reply().value.to_json(), &id);
    }
    conn.send(&Wire::from_notation(&json!({ "cmd": "Ping" })));
    let reply = conn.reply().value;
    assert!(
        matches!(reply.get("reqId"), None | Some(Wire::Ext(0, _))),
        "{reply:?}"
    );
}

#[test]
fn unknown_members_and_undefined_options_change_nothing() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let plain = conn.push("q", &json!({ "data": { "n": 1 } }));
    let undefined = json!({ "$undef": true });
    let mut options = json!({ "data": { "n": 1 }, "surprise": { "deep": [1, 2] } });
    for option in [
        "priority",
        "delay",
        "timeout",
        "ttl",
        "maxAttempts",
        "backoff",
        "stallTimeout",
        "timestamp",
        "uniqueKey",
        "jobId",
        "tags",
        "lifo",
        "removeOnComplete",
        "removeOnFail",
        "durable",
        "dedup",
        "debounceId",
        "debounceTtl",
        "stackTraceLimit",
        "keepLogs",
        "sizeLimit",
    ] {
        options[option] = undefined.clone();
    }
    let odd = conn.push("q", &options);
    let mut jobs = [plain, odd].map(|id| {
        let mut job = conn.ok(&json!({ "cmd": "GetJob", "id": id }))["job"].take();
        for own in ["id", "createdAt", "runAt", "lastHeartbeat", "timeline"] {
            assert!(job.as_object_mut().unwrap().remove(own).is_some(), "{own}");
        }
        job
    });
    assert_eq!(jobs[0].take(), jobs[1].take());
}

#[test]
fn an_option_in_a_64_bit_integer_is_the_number_it_means() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let mut push = Wire::from_notation(&json!({ "cmd": "PUSH", "queue": "q", "name": "job" }));
    let Wire::Map(entries) = &mut push else {
        unreachable!("an object is a map");
    };
    entries.push((Wire::text("priority"), Wire::Raw(wide(5))));
    entries.push((Wire::text("delay"), Wire::Raw(wide(-1))));
    let pending = conn.begin_wire(push);
    let id = conn.finish(&pending)["id"].clone();
    let job = conn.ok(&json!({ "cmd": "GetJob", "id": id }))["job"].take();
    assert_eq!(job["priority"], 5);
    assert_eq!(job["state"], "prioritized");
}
