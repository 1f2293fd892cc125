//! What a connection may hold, and what happens at its limits.

use super::*;
use crate::command::Reply;
use crate::command::bounds::AUTH_FRAME_MAX;
use crate::engine::Payload;
use crate::server::FrameLimit;
use crate::server::dialogue::{Dialogue, Rest};
use crate::server::parked::PARKED_MAX;

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected_at_its_budget() {
    let server = Server::with(ServerOptions {
        write_budget_bytes: Some(1_000_000),
        ..ServerOptions::default()
    });
    let (mut slow, mut other) = (server.connect(), server.connect());
    let data = "x".repeat(100_000);
    other
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "large", "data": data}))
        .await;
    for _ in 0..30 {
        slow.send(&json!({"cmd": "GetJob", "id": "large"})).await;
    }
    assert_eq!(soon(slow.session).await.unwrap(), Ended::SlowReader);
    other.ping().await;
}

#[tokio::test]
async fn events_count_against_the_budget() {
    let server = Server::with(ServerOptions {
        write_budget_bytes: Some(200_000),
        ..ServerOptions::default()
    });
    let (mut slow, mut other) = (server.connect(), server.connect());
    slow.ask(json!({"cmd": "SubscribeEvents", "queue": "q"}))
        .await;
    let jobs = vec![json!({}); 1_000];
    for _ in 0..5 {
        other
            .ask(json!({"cmd": "PUSHB", "queue": "q", "jobs": jobs}))
            .await;
    }
    assert_eq!(soon(slow.session).await.unwrap(), Ended::SlowReader);
    other.ping().await;
}

/// Bytes of a job's data in the tests of a small budget, of which four exceed it.
const LARGE: usize = 60_000;

fn small_budget() -> Server {
    Server::with(ServerOptions {
        write_budget_bytes: Some(200_000),
        ..ServerOptions::default()
    })
}

fn large_jobs(count: usize) -> Json {
    let job = |index: usize| json!({"customId": format!("j{index}"), "data": "x".repeat(LARGE)});
    (0..count).map(job).collect()
}

/// As one write, so that the server takes all of it at once.
fn burst(commands: impl IntoIterator<Item = Json>) -> Vec<u8> {
    commands
        .into_iter()
        .flat_map(|command| frame(&command))
        .collect()
}

#[tokio::test]
async fn whoever_reads_gets_every_answer_however_far_beyond_the_budget() {
    let server = small_budget();
    let (mut client, mut other) = (server.connect(), server.connect());
    other
        .ask(json!({"cmd": "PUSHB", "queue": "q", "jobs": large_jobs(30)}))
        .await;
    let asked = (0..30).map(|n| json!({"cmd": "GetJob", "id": format!("j{n}"), "reqId": n}));
    client.send_bytes(&burst(asked)).await;
    for n in 0..30 {
        let reply = client.reply().await;
        assert_eq!(
            (&reply["reqId"], &reply["job"]["id"]),
            (&json!(n), &json!(format!("j{n}")))
        );
    }
    let pulls = (0..3).map(|n| json!({"cmd": "PULLB", "queue": "q", "count": 10, "reqId": n}));
    client.send_bytes(&burst(pulls)).await;
    for n in 0..3 {
        let reply = client.reply().await;
        assert_eq!(reply["reqId"], json!(n));
        assert_eq!(reply["jobs"].as_array().unwrap().len(), 10);
    }
    client.ping().await;
}

#[tokio::test]
async fn waits_that_end_together_are_all_answered_beyond_the_budget() {
    let server = small_budget();
    let (mut client, mut other) = (server.connect(), server.connect());
    other
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "j"}))
        .await;
    other.ask(json!({"cmd": "PULL", "queue": "q"})).await;
    let waits =
        (0..30).map(|n| json!({"cmd": "WaitJob", "id": "j", "timeout": 60_000, "reqId": n}));
    client.send_bytes(&burst(waits)).await;
    client.ping().await;
    other
        .ask(json!({"cmd": "ACK", "id": "j", "result": "x".repeat(LARGE)}))
        .await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..30 {
        let reply = client.reply().await;
        assert_eq!(reply["result"].as_str().map(str::len), Some(LARGE));
        assert!(seen.insert(reply["reqId"].as_u64().unwrap()));
    }
    client.ping().await;
}

#[tokio::test]
async fn everything_beyond_the_budget_is_answered_in_order() {
    let server = small_budget();
    let mut client = server.connect();
    client
        .ask(json!({"cmd": "PUSHB", "queue": "q", "jobs": large_jobs(8)}))
        .await;
    let large = |n: usize| json!({"cmd": "GetJob", "id": format!("j{n}"), "reqId": n});
    let mut wire = burst((0..5).map(large));
    wire.extend(burst([
        json!({"cmd": "SubscribeEvents", "queue": "q", "reqId": 5}),
        json!({"cmd": "Cancel", "id": "j5", "reqId": 6}),
        json!({"cmd": "Nonsense", "reqId": 7}),
        json!({"cmd": "UnsubscribeEvents", "reqId": 8}),
        json!({"cmd": "Ping", "reqId": 9}),
        large(0),
    ]));
    wire.extend([4, 0, 0, 1]);
    client.send_bytes(&wire).await;
    for expected in [0, 1, 2, 3, 4, 5] {
        assert_eq!(client.next_frame().await.unwrap()["reqId"], json!(expected));
    }
    assert_eq!(client.event().await["eventType"], "removed");
    for expected in [6, 7, 8, 9, 0] {
        assert_eq!(client.next_frame().await.unwrap()["reqId"], json!(expected));
    }
    let refused = client.reply().await;
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .starts_with("Frame too large")
    );
    assert_eq!(client.ended().await, Ended::FrameTooLarge);
}

#[test]
fn no_more_waits_encoded_than_the_budget_and_a_frame() {
    let server = small_budget();
    let mut dialogue = Dialogue::new(&server.door, PEER);
    let small = 3_000;
    let mut taken = |wire: &[u8]| {
        let (taken, _) = dialogue.take_frames(wire);
        (taken == wire.len(), dialogue.out.len())
    };
    let (_, pushed) = taken(&frame(
        &json!({"cmd": "PUSHB", "queue": "q", "jobs": large_jobs(1)}),
    ));
    assert!(pushed < small);
    let asked = burst((0..127).map(|n| json!({"cmd": "GetJob", "id": "j0", "reqId": n})));
    let (_, waiting) = taken(&asked);
    assert!(
        (200_000..200_000 + LARGE + small).contains(&waiting),
        "{waiting}"
    );
    // Nothing more is taken, even if it would be short.
    let (all, still) = taken(&frame(&json!({"cmd": "Ping"})));
    assert_eq!((all, still), (false, waiting));
}

#[test]
fn events_wait_unencoded_beyond_the_budget_with_the_replies_behind_them() {
    let server = small_budget();
    let mut dialogue = Dialogue::new(&server.door, PEER);
    dialogue.take_frames(&frame(&json!({"cmd": "SubscribeEvents", "queue": "q"})));
    let jobs = vec![json!({}); 5_000];
    dialogue.take_frames(&frame(&json!({"cmd": "PUSHB", "queue": "q", "jobs": jobs})));
    let waiting = dialogue.out.len();
    assert!((200_000..201_000).contains(&waiting), "{waiting}");
    assert!(!dialogue.has_said_all());
    let behind = dialogue.events.as_ref().unwrap().behind();
    assert!((1_000..5_000).contains(&behind), "{behind}");
}

#[tokio::test]
async fn jobs_in_answers_that_were_never_encoded_go_back() {
    let server = small_budget();
    let (mut worker, mut other) = (server.connect(), server.connect());
    other
        .ask(json!({"cmd": "PUSHB", "queue": "q", "jobs": large_jobs(20)}))
        .await;
    // Such deliveries outlive their connection, so that only what was never said can come back.
    let pulls = (0..20).map(|n| json!({"cmd": "PULL", "queue": "q", "detach": true, "reqId": n}));
    worker.send_bytes(&burst(pulls)).await;
    soon(worker.stream.read_u8()).await.unwrap();
    worker.leave().await;
    let counts = other
        .ask(json!({"cmd": "GetJobCounts", "queue": "q"}))
        .await;
    let active = counts["counts"]["active"].as_u64().unwrap();
    assert!((1..10).contains(&active), "{counts}");
    assert_eq!(counts["counts"]["waiting"], json!(20 - active));
    let job = other.ask(json!({"cmd": "GetJob", "id": "j19"})).await;
    assert_eq!(
        (&job["job"]["attempts"], &job["job"]["state"]),
        (&json!(0), &json!("waiting"))
    );
}

#[tokio::test]
async fn hard_w5_frames_stay_whole_for_a_slow_reader() {
    let server = Server::new();
    let (mut slow, mut other) = (server.connect(), server.connect());
    let data = "x".repeat(10_000);
    other
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "j", "data": data}))
        .await;
    for index in 0..200 {
        slow.send(&json!({"cmd": "GetJob", "id": "j", "reqId": index}))
            .await;
    }
    other.ping().await;
    let mut received = Vec::new();
    let mut next = 0;
    while next < 200 {
        let mut piece = [0; 777];
        let read = soon(slow.stream.read(&mut piece)).await.unwrap();
        received.extend_from_slice(&piece[..read]);
        while let Front::Frame { body, rest } = frame::front(&received) {
            let reply: Json = rmp_serde::from_slice(body).unwrap();
            assert_eq!(
                (&reply["job"]["data"], &reply["reqId"]),
                (&json!(data), &json!(next))
            );
            next += 1;
            received = rest.to_vec();
        }
    }
}

#[tokio::test]
async fn an_oversized_frame_is_answered_and_ends_the_connection() {
    let server = Server::new();
    let (mut client, mut other) = (server.connect(), server.connect());
    let mut wire = frame(&json!({"cmd": "PUSH", "queue": "q", "reqId": "1"}));
    wire.extend([4, 0, 0, 1]);
    client.send_bytes(&wire).await;
    assert_eq!(client.reply().await["reqId"], "1");
    let text = "Frame too large: 67108865 bytes exceeds maximum 67108864";
    assert_eq!(client.reply().await, json!({"ok": false, "error": text}));
    assert_eq!(client.ended().await, Ended::FrameTooLarge);
    other.ping().await;
}

#[tokio::test]
async fn only_an_incomplete_frame_runs_out_of_time() {
    let timeout = |ms| ServerOptions {
        partial_frame_timeout: Some(Duration::from_millis(ms)),
        ..ServerOptions::default()
    };
    // The end of a connection to the quick server is the clock: 100 ms have passed.
    let (quick, patient) = (Server::with(timeout(100)), Server::with(timeout(1_000)));
    let a_while = || async {
        let mut clock = quick.connect();
        clock.send_bytes(&[0, 0]).await;
        assert_eq!(clock.ended().await, Ended::Stalled);
    };
    let mut idle = quick.connect();
    idle.ping().await;
    let mut dribbling = patient.connect();
    let wire = frame(&json!({"cmd": "Ping", "reqId": "late"}));
    // In more pieces than there are intervals in its patience.
    let (pieces, rest) = wire.split_at(11);
    for piece in pieces.chunks(1) {
        dribbling.send_bytes(piece).await;
        a_while().await;
    }
    dribbling.send_bytes(rest).await;
    assert_eq!(dribbling.reply().await["reqId"], "late");
    idle.ping().await;
}

#[tokio::test]
async fn frames_above_the_limit_are_refused_and_do_not_count() {
    let window = Duration::from_secs(600);
    let server = Server::with(ServerOptions {
        frame_limit: Some(FrameLimit { frames: 3, window }),
        ..ServerOptions::default()
    });
    let (mut client, mut other) = (server.connect(), server.connect());
    for _ in 0..3 {
        client.ping().await;
    }
    let refused = client.ask(json!({"cmd": "Ping", "reqId": "4"})).await;
    assert_eq!(
        refused,
        json!({"ok": false, "error": "Rate limit exceeded", "reqId": "4"})
    );
    let refused = client.ask(json!({"cmd": "Ping", "reqId": 4})).await;
    assert_eq!(
        refused,
        json!({"ok": false, "error": "Rate limit exceeded"})
    );
    client.send_bytes(&raw_frame(&[0xc1])).await;
    assert_eq!(
        client.reply().await,
        json!({"ok": false, "error": "Rate limit exceeded"})
    );
    other.ping().await;
}

#[tokio::test]
async fn a_connection_carries_many_waits_and_reads_on_when_one_ends() {
    let server = Server::new();
    let (mut client, mut producer) = (server.connect(), server.connect());
    let pull =
        |id: usize| frame(&json!({"cmd": "PULL", "queue": "q", "timeout": 60_000, "reqId": id}));
    let nearly_all: Vec<u8> = (0..PARKED_MAX - 1).flat_map(pull).collect();
    client.send_bytes(&nearly_all).await;
    client.ping().await;
    // The last wait fills the limit, and the question behind it stays unread.
    let mut wire = pull(PARKED_MAX - 1);
    wire.extend(frame(
        &json!({"cmd": "GetState", "id": "x", "reqId": "behind"}),
    ));
    client.send_bytes(&wire).await;
    producer
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "j"}))
        .await;
    let pulled = client.reply().await;
    assert_eq!(
        (&pulled["reqId"], &pulled["job"]["id"]),
        (&json!(0), &json!("j"))
    );
    assert_eq!(client.reply().await["reqId"], "behind");
}

#[tokio::test]
async fn a_client_full_of_waits_is_seen_leaving() {
    let server = Server::new();
    let (mut client, mut other) = (server.connect(), server.connect());
    for index in 0..PARKED_MAX + 10 {
        client
            .send(&json!({"cmd": "PULL", "queue": "q", "timeout": 60_000, "reqId": index}))
            .await;
    }
    assert_eq!(client.leave().await, Ended::Closed);
    other
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "j"}))
        .await;
    assert_eq!(
        other.ask(json!({"cmd": "PULL", "queue": "q"})).await["job"]["id"],
        "j"
    );
}

/// Its jobs have data of that many bytes, whatever was added.
fn giving<const BYTES: usize>() -> Arc<Fake> {
    Fake::new(|broker, caller, command| {
        let Command::Pull(_) = command else {
            return None;
        };
        let mut submitted = broker.submit_one(caller, command.clone());
        if let Submitted::Done(Ok(Reply::Pulled(deliveries))) = &mut submitted {
            for delivery in deliveries {
                delivery.job.data = Some(Payload::new(&vec![0xc0; BYTES]));
            }
        }
        Some(submitted)
    })
}

#[tokio::test]
async fn jobs_that_no_reply_can_carry_together_go_back() {
    // Two of these do not fit into a frame.
    let server = Server::on(giving::<40_000_000>(), ServerOptions::default());
    let mut client = server.connect();
    let jobs = json!([{"customId": "a"}, {"customId": "b"}]);
    client
        .ask(json!({"cmd": "PUSHB", "queue": "q", "jobs": jobs}))
        .await;
    let pull = json!({"cmd": "PULLB", "queue": "q", "count": 2, "owner": "w", "reqId": "1"});
    let text = "Reply too large: exceeds maximum 67108864";
    assert_eq!(
        client.ask(pull).await,
        json!({"ok": false, "error": text, "reqId": "1"})
    );
    for id in ["a", "b"] {
        let state = client.ask(json!({"cmd": "GetState", "id": id})).await;
        assert_eq!(state["state"], "waiting");
    }
}

/// The bounds of jobs allow none; one that exists all the same must not keep those behind it.
#[tokio::test]
async fn a_job_that_no_reply_can_carry_fails() {
    let server = Server::on(giving::<70_000_000>(), ServerOptions::default());
    let mut client = server.connect();
    client
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "a"}))
        .await;
    let pull = json!({"cmd": "PULL", "queue": "q", "owner": "w", "reqId": "1"});
    let text = "Reply too large: exceeds maximum 67108864";
    assert_eq!(
        client.ask(pull).await,
        json!({"ok": false, "error": text, "reqId": "1"})
    );
    let state = client.ask(json!({"cmd": "GetJob", "id": "a"})).await;
    assert_eq!(state["job"]["state"], "failed");
    let text = "Job too large to deliver: exceeds maximum 67108864";
    assert_eq!(state["job"]["failedReason"], text);
}

fn guarded() -> Server {
    Server::with(ServerOptions {
        tokens: vec!["secret".to_owned()],
        ..ServerOptions::default()
    })
}

#[tokio::test]
async fn a_stranger_sends_large_frames_in_vain() {
    let server = guarded();
    let mut client = server.connect();
    let push = json!({"reqId": "1", "cmd": "PUSH", "queue": "q", "data": "x".repeat(3_000_000)});
    let refused = json!({"ok": false, "error": "Not authenticated", "reqId": "1"});
    assert_eq!(client.ask(push.clone()).await, refused);
    let auth = json!({"cmd": "Auth", "token": "secret"});
    assert_eq!(client.ask(auth).await["ok"], true);
    assert_eq!(client.ask(push).await["ok"], true);
}

#[test]
fn of_a_strangers_frame_only_the_beginning_is_kept() {
    let server = guarded();
    let mut dialogue = Dialogue::new(&server.door, PEER);
    let wire = frame(&json!({"reqId": 7, "cmd": "PUSH", "data": "x".repeat(1_000_000)}));
    let (beginning, rest) = wire.split_at(AUTH_FRAME_MAX + 1);
    let missing = rest.len();
    assert_eq!(
        dialogue.take_frames(beginning),
        (beginning.len(), Rest::Partial { missing })
    );
    let refused = json!({"ok": false, "error": "Not authenticated", "reqId": 7});
    let said = match frame::front(dialogue.out.end()) {
        Front::Frame { body, .. } => rmp_serde::from_slice::<Json>(body).unwrap(),
        front => panic!("{front:?}"),
    };
    assert_eq!(said, refused);
    let auth = frame(&json!({"cmd": "Auth", "token": "secret"}));
    let wire = [rest, &auth].concat();
    assert_eq!(dialogue.take_frames(&wire), (wire.len(), Rest::Nothing));
    // What the client may send now, it may send in pieces.
    let (taken, _) = dialogue.take_frames(&[beginning, &[0; 1_000]].concat());
    assert_eq!(taken, 0);
}

#[test]
fn a_stranger_who_does_not_read_is_told_little() {
    let server = guarded();
    let mut dialogue = Dialogue::new(&server.door, PEER);
    let ping = frame(&json!({"cmd": "Ping", "reqId": "x".repeat(1_000)}));
    dialogue.take_frames(&ping.repeat(2_000));
    assert!(dialogue.out.len() < 300_000, "{}", dialogue.out.len());
}

#[test]
fn what_looks_at_everything_fills_a_turn_alone() {
    let server = Server::new();
    let mut dialogue = Dialogue::new(&server.door, PEER);
    for command in ["ListQueues", "ListWorkers", "Stats", "DashboardQueues"] {
        let one = frame(&json!({"cmd": command}));
        let taken = dialogue.take_frames(&one.repeat(3));
        assert_eq!(taken, (one.len(), Rest::More), "{command}");
    }
}

/// However long an answer waits unsaid, what has become of its job meanwhile is not undone.
#[tokio::test]
async fn a_delivery_that_ended_unsaid_is_left_alone() {
    let server = small_budget();
    let (mut worker, mut other) = (server.connect(), server.connect());
    for (queue, attempts) in [("failed", 1), ("retried", 3)] {
        let job = json!({"cmd": "PUSH", "queue": queue, "jobId": queue, "maxAttempts": attempts,
            "backoff": 600_000});
        other.ask(job).await;
    }
    other
        .ask(json!({"cmd": "PUSHB", "queue": "q", "jobs": large_jobs(8)}))
        .await;
    let large = (0..8).map(|n| json!({"cmd": "GetJob", "id": format!("j{n}")}));
    let pulls = ["failed", "retried"].map(|queue| json!({"cmd": "PULL", "queue": queue}));
    worker.send_bytes(&burst(large.chain(pulls))).await;
    soon(worker.stream.read_u8()).await.unwrap();
    for id in ["failed", "retried"] {
        let fail = json!({"cmd": "FAIL", "id": id, "error": "boom"});
        assert_eq!(other.ask(fail).await["ok"], true);
    }
    worker.leave().await;
    for (id, state) in [("failed", "failed"), ("retried", "delayed")] {
        let job = other.ask(json!({"cmd": "GetJob", "id": id})).await;
        assert_eq!(
            (&job["job"]["state"], &job["job"]["attempts"]),
            (&json!(state), &json!(1))
        );
    }
}

#[tokio::test]
async fn what_stands_behind_the_waits_of_a_client_that_has_left_is_still_done() {
    let server = Server::new();
    let (mut client, mut other) = (server.connect(), server.connect());
    let pull = |id: usize| json!({"cmd": "PULL", "queue": "q", "timeout": 60_000, "reqId": id});
    client.send_bytes(&burst((0..PARKED_MAX).map(pull))).await;
    let push = json!({"cmd": "PUSH", "queue": "q", "jobId": "behind"});
    client.send_bytes(&burst([push, pull(0)])).await;
    soon(client.stream.shutdown()).await.unwrap();
    assert_eq!(client.ended().await, Ended::Closed);
    let job = other.ask(json!({"cmd": "GetJob", "id": "behind"})).await;
    assert_eq!(job["job"]["state"], "waiting");
}

/// Its reply repeats its jobs with all that they have by default, so it is longer than what was sent.
#[test]
fn a_flow_that_no_reply_can_carry_is_not_added() {
    let server = Server::new();
    let mut dialogue = Dialogue::new(&server.door, PEER);
    let text = "x".repeat(627_000);
    let job = |n: usize| {
        let input = json!({"name": "n", "data": {"t": text}});
        json!({"id": format!("f{n}"), "queue": "q", "input": input})
    };
    let jobs: Vec<_> = (0..107).map(job).collect();
    let wire = frame(&json!({"cmd": "PUSHF", "jobs": jobs}));
    assert!(wire.len() < 67_108_864);
    dialogue.take_frames(&wire);
    dialogue.take_frames(&frame(&json!({"cmd": "GetState", "id": "f0"})));
    let Front::Frame { body, rest } = frame::front(dialogue.out.end()) else {
        panic!("no reply");
    };
    let refused: Json = rmp_serde::from_slice(body).unwrap();
    let text = "flow data is too large (max 64MB per atomic batch)";
    assert_eq!(refused, json!({"ok": false, "error": text}));
    let Front::Frame { body, .. } = frame::front(rest) else {
        panic!("no second reply");
    };
    let state: Json = rmp_serde::from_slice(body).unwrap();
    assert_eq!(state["state"], "unknown");
}
