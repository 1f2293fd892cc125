//! Requests and replies: order, pipelining, waits, authentication, bad frames.

use super::*;
use crate::broker::ManualClock;

#[tokio::test]
async fn a_job_goes_from_a_producer_to_a_worker() {
    let server = Server::new();
    let (mut producer, mut worker) = (server.connect(), server.connect());
    let pushed = producer
        .ask(json!({"cmd": "PUSH", "queue": "q", "name": "n", "data": {"x": 1}, "reqId": "1"}))
        .await;
    let id = pushed["id"].clone();
    assert_eq!(pushed, json!({"ok": true, "id": id, "reqId": "1"}));
    let pull = json!({"cmd": "PULLB", "queue": "q", "count": 5, "owner": "w", "reqId": 2});
    let pulled = worker.ask(pull).await;
    assert_eq!(
        (&pulled["jobs"][0]["id"], &pulled["reqId"]),
        (&id, &json!(2))
    );
    assert_eq!(pulled["jobs"][0]["data"], json!({"x": 1}));
    let token = pulled["tokens"][0].clone();
    let ack = json!({"cmd": "ACKB", "ids": [id], "tokens": [token], "results": [7], "reqId": "3"});
    assert_eq!(worker.ask(ack).await, json!({"ok": true, "reqId": "3"}));
    let result = producer
        .ask(json!({"cmd": "GetResult", "id": id, "reqId": "4"}))
        .await;
    assert_eq!(
        result,
        json!({"ok": true, "id": id, "result": 7, "reqId": "4"})
    );
}

#[tokio::test]
async fn frames_may_be_cut_and_joined_anywhere() {
    let server = Server::new();
    let mut client = server.connect();
    let mut wire = Vec::new();
    for index in 0..20 {
        wire.extend(frame(
            &json!({"cmd": "PUSH", "queue": "q", "data": index, "reqId": index}),
        ));
    }
    for size in [1, 2, 3, 5, 7, 50, 1_000] {
        for piece in wire.chunks(size) {
            client.send_bytes(piece).await;
        }
        for index in 0..20 {
            assert_eq!(
                client.reply().await["reqId"],
                json!(index),
                "in pieces of {size}"
            );
        }
    }
    let count = client.ask(json!({"cmd": "Count", "queue": "q"})).await;
    assert_eq!(count, json!({"ok": true, "count": 140}));
}

#[tokio::test]
async fn a_long_burst_is_answered_in_order() {
    let server = Server::new();
    let mut client = server.connect();
    let burst: Vec<u8> = (0..1_000)
        .flat_map(|index| frame(&json!({"cmd": "GetState", "id": "x", "reqId": index})))
        .collect();
    client.send_bytes(&burst).await;
    for index in 0..1_000 {
        assert_eq!(client.reply().await["reqId"], json!(index));
    }
}

#[tokio::test]
async fn a_large_frame_arrives_whole() {
    let server = Server::new();
    let mut client = server.connect();
    let text = "x".repeat(3_000_000);
    let push = json!({"cmd": "PUSH", "queue": "q", "name": "n", "data": text, "jobId": "large"});
    assert_eq!(client.ask(push).await, json!({"ok": true, "id": "large"}));
    let job = client.ask(json!({"cmd": "GetJob", "id": "large"})).await;
    assert_eq!(job["job"]["data"], json!(text));
    client.ping().await;
}

#[tokio::test]
async fn a_wait_holds_up_nothing() {
    let server = Server::new();
    let mut client = server.connect();
    client
        .send(&json!({"cmd": "PULL", "queue": "q", "owner": "w", "timeout": 60_000, "reqId": "1"}))
        .await;
    let paused = client
        .ask(json!({"cmd": "IsPaused", "queue": "q", "reqId": "2"}))
        .await;
    assert_eq!(paused, json!({"ok": true, "paused": false, "reqId": "2"}));
    client.ping().await;
    client
        .send(&json!({"cmd": "PUSH", "queue": "q", "jobId": "j", "reqId": "3"}))
        .await;
    let mut replies = [client.reply().await, client.reply().await];
    replies.sort_by_key(|reply| reply["reqId"].to_string());
    assert_eq!(
        (&replies[0]["job"]["id"], &replies[0]["reqId"]),
        (&json!("j"), &json!("1"))
    );
    assert_eq!(replies[1], json!({"ok": true, "id": "j", "reqId": "3"}));
}

#[tokio::test]
async fn waits_for_jobs_end_with_their_jobs() {
    let server = Server::new();
    let (mut client, mut worker) = (server.connect(), server.connect());
    client
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "j"}))
        .await;
    client
        .send(&json!({"cmd": "WaitJob", "id": "j", "timeout": 60_000, "reqId": "w"}))
        .await;
    client.ping().await;
    worker.ask(json!({"cmd": "PULL", "queue": "q"})).await;
    let ack = worker
        .ask(json!({"cmd": "ACK", "id": "j", "result": [1, 2]}))
        .await;
    assert_eq!(ack, json!({"ok": true}));
    let waited = json!({"ok": true, "completed": true, "result": [1, 2], "reqId": "w"});
    assert_eq!(client.reply().await, waited);
    let missing = client.ask(json!({"cmd": "WaitJob", "id": "missing"})).await;
    assert_eq!(missing, json!({"ok": false, "error": "Job not found"}));
    let at_once = client
        .ask(json!({"cmd": "PULL", "queue": "q", "owner": "w", "timeout": 1}))
        .await;
    assert_eq!(at_once, json!({"ok": true, "job": null, "token": null}));
}

#[tokio::test]
async fn bad_frames_are_answered_and_harm_nothing() {
    let server = Server::new();
    let mut client = server.connect();
    let format = json!({"ok": false, "error": "Invalid command format"});
    for garbage in [
        &[][..],
        &[0xc1],
        &[0xc0],
        &[0xa3, b'c'],
        &[0x81, 0xa3, b'c', b'm', b'd'],
    ] {
        client.send_bytes(&raw_frame(garbage)).await;
        assert_eq!(client.reply().await, format);
    }
    let cases = [
        (
            json!({"reqId": "r1"}),
            json!({"ok": false, "error": "Invalid command", "reqId": "r1"}),
        ),
        (
            json!({"cmd": "", "reqId": 7}),
            json!({"ok": false, "error": "Invalid command"}),
        ),
        (
            json!("Ping"),
            json!({"ok": false, "error": "Invalid command"}),
        ),
        (
            json!({"cmd": "NoSuch", "reqId": 7}),
            json!({"ok": false, "error": "Unknown command: NoSuch", "reqId": 7}),
        ),
        (
            json!({"cmd": "PULL", "queue": "a b", "reqId": "1"}),
            json!({"ok": false, "error": "Queue name contains invalid characters", "reqId": "1"}),
        ),
    ];
    for (request, reply) in cases {
        assert_eq!(client.ask(request).await, reply);
    }
    // A refusal does not overtake what came before it.
    let mut joined = frame(&json!({"cmd": "PUSH", "queue": "q", "jobId": "j"}));
    joined.extend(raw_frame(&[0xc1]));
    joined.extend(frame(&json!({"cmd": "GetState", "id": "j"})));
    client.send_bytes(&joined).await;
    assert_eq!(client.reply().await, json!({"ok": true, "id": "j"}));
    assert_eq!(client.reply().await, format);
    assert_eq!(
        client.reply().await,
        json!({"ok": true, "id": "j", "state": "waiting"})
    );
}

#[tokio::test]
async fn nothing_but_a_token_opens_a_guarded_door() {
    let tokens = vec!["tok-one".to_owned(), "tok-two".to_owned()];
    let server = Server::with(ServerOptions {
        tokens,
        ..ServerOptions::default()
    });
    let mut client = server.connect();
    let no = json!({"ok": false, "error": "Not authenticated", "reqId": "1"});
    for cmd in [
        "Ping",
        "Hello",
        "PUSH",
        "PULL",
        "SubscribeEvents",
        "UnsubscribeEvents",
        "NoSuch",
    ] {
        assert_eq!(
            client.ask(json!({"cmd": cmd, "reqId": "1"})).await,
            no,
            "{cmd}"
        );
    }
    client.send_bytes(&raw_frame(&[0xc1])).await;
    assert_eq!(client.reply().await["error"], "Invalid command format");
    let auth = |token: Json| json!({"cmd": "Auth", "token": token, "reqId": "a"});
    let invalid = json!({"ok": false, "error": "Invalid token", "reqId": "a"});
    for token in [json!("bad"), json!(""), json!(" "), json!(null), json!(5)] {
        assert_eq!(client.ask(auth(token)).await, invalid);
    }
    assert_eq!(client.ask(json!({"cmd": "Ping", "reqId": "1"})).await, no);
    assert_eq!(
        client.ask(auth(json!(" tok-two "))).await,
        json!({"ok": true, "reqId": "a"})
    );
    client.ping().await;
    assert_eq!(client.ask(auth(json!("bad"))).await, invalid);
    client.ping().await;
    assert_eq!(
        server
            .connect()
            .ask(json!({"cmd": "Ping", "reqId": "1"}))
            .await,
        no
    );

    let mut open = Server::new().connect();
    assert_eq!(open.ask(auth(json!("whatever"))).await, invalid);
    open.ping().await;
}

#[tokio::test]
async fn hard_w1_data_of_one_client_reaches_another_byte_for_byte() {
    let server = Server::new();
    let (mut producer, mut worker) = (server.connect(), server.connect());
    let exact: &[u8] = &[
        0x95, 0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xd3, 0x80, 0, 0, 0, 0, 0, 0,
        0, 0xcb, 0x80, 0, 0, 0, 0, 0, 0, 0, 0xc4, 2, 0xff, 0, 0xa2, 0xc3, 0x28,
    ];
    let mut push = vec![0x83];
    for text in ["cmd", "PUSH", "queue", "q", "data"] {
        push.extend(rmp_serde::to_vec(text).unwrap());
    }
    push.extend_from_slice(exact);
    producer.send_bytes(&raw_frame(&push)).await;
    assert_eq!(producer.reply().await["ok"], true);
    worker.send(&json!({"cmd": "PULL", "queue": "q"})).await;
    let reply = worker.next_body().await.unwrap();
    assert!(reply.windows(exact.len()).any(|window| window == exact));
}

#[tokio::test]
async fn there_is_one_clock() {
    let clock = ManualClock::new(1_000);
    let broker = LocalBroker::simulated(Config::default(), Box::new(clock), [1; 32]);
    let server = Server::on(Arc::new(broker), ServerOptions::default());
    let mut client = server.connect();
    let pong = client.ask(json!({"cmd": "Ping"})).await;
    assert_eq!(pong["data"]["time"], 1_000);
    let worker = json!({"cmd": "RegisterWorker", "name": "n", "queues": ["q"]});
    client.ask(worker).await;
    let workers = client.ask(json!({"cmd": "ListWorkers"})).await;
    assert_eq!(workers["data"]["workers"][0]["uptime"], 0);
}
