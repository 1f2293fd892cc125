//! Events pushed to subscribers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::sync::mpsc;

use super::*;

/// A writer that takes all of every write and tells of it.
struct Recorder(mpsc::UnboundedSender<Vec<u8>>);

impl AsyncWrite for Recorder {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let _ = self.0.send(bytes.to_vec());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_batch_reach_another_subscriber_in_one_write() {
    let server = Server::new();
    let (sender, mut writes) = mpsc::unbounded_channel();
    let (mut stream, reader) = tokio::io::duplex(PIPE);
    let (door, shutdown) = (Arc::clone(&server.door), server.shutdown.clone());
    tokio::spawn(
        async move { session::run(reader, Recorder(sender), PEER, &door, &shutdown).await },
    );
    let subscribe = frame(&json!({"cmd": "SubscribeEvents", "queue": "q"}));
    soon(stream.write_all(&subscribe)).await.unwrap();
    soon(writes.recv()).await.unwrap();
    let mut producer = server.connect();
    let jobs = vec![json!({}); 300];
    // Often, since it depends on when the subscriber wakes.
    for _ in 0..20 {
        producer
            .ask(json!({"cmd": "PUSHB", "queue": "q", "jobs": jobs}))
            .await;
        let written = soon(writes.recv()).await.unwrap();
        let mut left = &written[..];
        let mut events = 0;
        while let Front::Frame { rest, .. } = frame::front(left) {
            (left, events) = (rest, events + 1);
        }
        assert_eq!((left.len(), events), (0, 300));
    }
}

#[tokio::test]
async fn events_of_a_command_come_before_its_reply() {
    let server = Server::new();
    let mut client = server.connect();
    assert_eq!(
        client
            .ask(json!({"cmd": "SubscribeEvents", "queue": "q"}))
            .await,
        json!({"ok": true})
    );
    let mut burst = frame(&json!({"cmd": "PUSH", "queue": "q", "jobId": "j", "reqId": "push"}));
    burst.extend(frame(
        &json!({"cmd": "PULL", "queue": "q", "reqId": "pull"}),
    ));
    client.send_bytes(&burst).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let frame = client.next_frame().await.unwrap();
        let name = if frame["type"] == "event" {
            &frame["event"]["eventType"]
        } else {
            &frame["reqId"]
        };
        seen.push(name.as_str().unwrap().to_owned());
    }
    let place = |name: &str| seen.iter().position(|seen| seen == name).unwrap();
    assert!(
        place("pushed") < place("push") && place("pulled") < place("pull"),
        "{seen:?}"
    );
    assert!(place("pushed") < place("pulled"), "{seen:?}");
}

#[tokio::test]
async fn the_event_of_a_delivery_comes_before_the_reply_that_waited_for_it() {
    let server = Server::new();
    let (mut client, mut producer) = (server.connect(), server.connect());
    client
        .ask(json!({"cmd": "SubscribeEvents", "queue": "q"}))
        .await;
    for round in 0..50 {
        client
            .send(&json!({"cmd": "PULL", "queue": "q", "timeout": 60_000, "reqId": round}))
            .await;
        client.ping().await;
        producer.ask(json!({"cmd": "PUSH", "queue": "q"})).await;
        let names = [client.next_frame().await, client.next_frame().await]
            .map(|frame| frame.unwrap()["event"]["eventType"].clone());
        assert_eq!(names, ["pushed", "pulled"]);
        assert_eq!(client.next_frame().await.unwrap()["reqId"], json!(round));
    }
}

#[tokio::test]
async fn a_subscription_is_replaced_filtered_and_ended() {
    let server = Server::new();
    let (mut client, mut producer) = (server.connect(), server.connect());
    assert_eq!(
        client.ask(json!({"cmd": "UnsubscribeEvents"})).await,
        json!({"ok": true})
    );
    client
        .ask(json!({"cmd": "SubscribeEvents", "queue": "one"}))
        .await;
    producer
        .ask(json!({"cmd": "PUSH", "queue": "one", "jobId": "a"}))
        .await;
    let event = client.event().await;
    let at = event["timestamp"].clone();
    let pushed = json!({"eventType": "pushed", "queue": "one", "jobId": "a", "timestamp": at});
    assert_eq!(event, pushed);
    assert!(at.is_f64(), "a time is a float64");

    client
        .ask(json!({"cmd": "SubscribeEvents", "queue": "two"}))
        .await;
    producer.ask(json!({"cmd": "PUSH", "queue": "one"})).await;
    producer.ask(json!({"cmd": "PUSH", "queue": "two"})).await;
    assert_eq!(client.event_names().await, ["pushed"]);

    let refused = client
        .ask(json!({"cmd": "SubscribeEvents", "queue": "bad name"}))
        .await;
    assert_eq!(refused["error"], "Queue name contains invalid characters");
    producer.ask(json!({"cmd": "Pause", "queue": "two"})).await;
    assert_eq!(client.event_names().await, ["paused"]);

    let types = json!({"cmd": "SubscribeEvents", "queue": "two", "eventTypes": ["resumed", "x"]});
    client.ask(types).await;
    producer.ask(json!({"cmd": "PUSH", "queue": "two"})).await;
    producer.ask(json!({"cmd": "Resume", "queue": "two"})).await;
    assert_eq!(client.event_names().await, ["resumed"]);

    client.ask(json!({"cmd": "UnsubscribeEvents"})).await;
    producer.ask(json!({"cmd": "PUSH", "queue": "two"})).await;
    assert!(client.event_names().await.is_empty());
}

#[tokio::test]
async fn several_subscribers_see_the_events_of_a_batch_in_its_order() {
    let server = Server::new();
    let mut subscribers = [server.connect(), server.connect()];
    for subscriber in &mut subscribers {
        subscriber
            .ask(json!({"cmd": "SubscribeEvents", "queue": "q"}))
            .await;
    }
    let ids: Vec<String> = (0..300).map(|index| format!("j{index}")).collect();
    let jobs: Vec<Json> = ids.iter().map(|id| json!({"customId": id})).collect();
    server
        .connect()
        .ask(json!({"cmd": "PUSHB", "queue": "q", "jobs": jobs}))
        .await;
    for subscriber in &mut subscribers {
        for id in &ids {
            assert_eq!(subscriber.event().await["jobId"], json!(id));
        }
    }
}
