//! Connections against a scripted server on loopback.

use std::collections::HashSet;

use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::dial::Frames;
use super::*;
use crate::broker::BrokerExt;
use crate::command::{ErrorCode, IsPaused, ListQueues, Pull, QueueName, WaitJob};
use crate::engine::{JobId, WaitFor, Waited};

/// Nothing here takes that long; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server's end of a connection: what it is asked, and what it answers.
struct Peer {
    asked: mpsc::UnboundedReceiver<Json>,
    answers: mpsc::UnboundedSender<Json>,
}

impl Peer {
    async fn asked(&mut self) -> Json {
        tokio::time::timeout(PATIENCE, self.asked.recv())
            .await
            .expect("nothing was asked")
            .expect("the connection is there")
    }

    fn answer(&self, to: &Json, more: &Json) {
        let mut answer = json!({ "ok": true, "reqId": to["reqId"] });
        let more = more.as_object().unwrap().clone();
        answer.as_object_mut().unwrap().extend(more);
        self.answers.send(answer).unwrap();
    }
}

/// Takes one connection, and greets it.
async fn accept(listener: &TcpListener) -> Peer {
    let (stream, _) = listener.accept().await.unwrap();
    let (ask, asked) = mpsc::unbounded_channel();
    let (answers, answer) = mpsc::unbounded_channel();
    tokio::spawn(talk(stream, ask, answer));
    let mut peer = Peer { asked, answers };
    let hello = peer.asked().await;
    assert_eq!(hello["cmd"], "Hello");
    peer.answer(&hello, &json!({ "protocolVersion": 3 }));
    peer
}

async fn talk(
    stream: TcpStream,
    ask: mpsc::UnboundedSender<Json>,
    mut answer: mpsc::UnboundedReceiver<Json>,
) {
    let (reader, mut writer) = stream.into_split();
    let mut frames = Frames::new(reader);
    loop {
        tokio::select! {
            body = frames.next() => match body {
                Ok(body) => ask.send(rmp_serde::from_slice(&body).unwrap()).unwrap_or(()),
                Err(_) => return,
            },
            answer = answer.recv() => match answer {
                Some(answer) => {
                    let body = rmp_serde::to_vec_named(&answer).unwrap();
                    let header = u32::try_from(body.len()).unwrap().to_be_bytes();
                    writer.write_all(&[&header[..], &body].concat()).await.unwrap();
                }
                None => return,
            },
        }
    }
}

/// A broker on one connection, and the server's end of it.
async fn connected() -> (RemoteBroker, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = RemoteAddress {
        host: "127.0.0.1".into(),
        port: listener.local_addr().unwrap().port(),
        token: None,
    };
    let (broker, peer) = tokio::join!(RemoteBroker::connect(address, 1), accept(&listener));
    (broker.unwrap(), peer)
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn pull(wait: Millis) -> Pull {
    Pull {
        queue: queue("q"),
        count: 1,
        wait,
        locked: false,
        lock_ttl: 0.0,
        detach: true,
        group: None,
    }
}

fn job(id: &str) -> Json {
    json!({ "id": id, "queue": "q", "name": "n", "createdAt": 5, "timeline": [] })
}

#[tokio::test]
async fn replies_find_their_requests_in_any_order() {
    let (broker, mut peer) = connected().await;
    let ask = |name| broker.call(IsPaused { queue: queue(name) });
    let serve = async {
        let (one, two) = (peer.asked().await, peer.asked().await);
        for asked in [&two, &one] {
            let paused = asked["queue"] == "paused";
            // What nobody has asked for is passed over.
            peer.answers
                .send(json!({ "ok": true, "reqId": "999" }))
                .unwrap();
            peer.answers
                .send(json!({ "type": "event", "event": {} }))
                .unwrap();
            peer.answer(asked, &json!({ "paused": paused }));
        }
    };
    let (paused, running, ()) = tokio::join!(ask("paused"), ask("running"), serve);
    assert_eq!((paused, running), (Ok(true), Ok(false)));
}

#[tokio::test]
async fn a_pull_whose_caller_has_gone_gives_its_job_back() {
    let (broker, mut peer) = connected().await;
    let waiting = broker.submit_one(None, pull(30_000).into());
    let asked = peer.asked().await;
    assert_eq!(
        (&asked["cmd"], &asked["detach"]),
        (&json!("PULL"), &json!(true))
    );
    drop(waiting);
    peer.answer(&asked, &json!({ "job": job("j") }));
    let back = peer.asked().await;
    assert_eq!(
        (&back["cmd"], &back["id"]),
        (&json!("MoveToWait"), &json!("j"))
    );
    // One that was handed over and never looked at goes back as well.
    let waiting = broker.submit_one(None, pull(30_000).into());
    let asked = peer.asked().await;
    peer.answer(&asked, &json!({ "job": job("k") }));
    peer.answer(&back, &json!({}));
    let names = async {
        let asked = peer.asked().await;
        peer.answer(&asked, &json!({ "queues": [] }));
    };
    // Its reply comes behind that of the pull.
    let (names, ()) = tokio::join!(broker.call(ListQueues), names);
    assert_eq!(names, Ok(Vec::new()));
    drop(waiting);
    let back = peer.asked().await;
    assert_eq!(
        (&back["cmd"], &back["id"]),
        (&json!("MoveToWait"), &json!("k"))
    );
}

#[tokio::test]
async fn a_stop_ends_waits_without_an_answer_of_the_server() {
    let (broker, mut peer) = connected().await;
    let taken = broker.call(pull(30_000));
    let ended = broker.call(WaitJob {
        id: JobId::from_text("j"),
        until: WaitFor::Completed,
        timeout: 30_000,
    });
    let stop = async {
        let both: HashSet<_> = [peer.asked().await, peer.asked().await]
            .map(|asked| asked["cmd"].as_str().unwrap().to_owned())
            .into();
        assert_eq!(both, ["PULL", "WaitJob"].map(str::to_owned).into());
        broker.shut_down();
    };
    let (taken, ended, ()) = tokio::join!(taken, ended, stop);
    assert_eq!((taken, ended), (Ok(Vec::new()), Ok(Waited::TimedOut)));
    assert_eq!(broker.call(pull(0)).await, Err(CommandError::ShuttingDown));
}

#[tokio::test]
async fn a_wait_for_any_outcome_looks_for_failures() {
    let (broker, mut peer) = connected().await;
    let ended = broker.call(WaitJob {
        id: JobId::from_text("j"),
        until: WaitFor::Outcome,
        timeout: 30_000,
    });
    let serve = async {
        for state in ["active", "failed"] {
            let asked = peer.asked().await;
            assert_eq!(asked["cmd"], "WaitJob");
            assert!(asked["timeout"].as_f64().unwrap() <= 250.0);
            peer.answer(&asked, &json!({ "completed": false }));
            let asked = peer.asked().await;
            assert_eq!(asked["cmd"], "GetState");
            peer.answer(&asked, &json!({ "id": "j", "state": state }));
        }
    };
    let (ended, ()) = tokio::join!(ended, serve);
    assert_eq!(ended, Ok(Waited::Failed));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_with_all_it_was_asked() {
    let (broker, mut peer) = connected().await;
    let first = broker.call(ListQueues);
    let second = broker.call(ListQueues);
    let silence = async {
        peer.asked().await;
        peer.asked().await;
        tokio::time::pause();
    };
    let (first, second, ()) = tokio::join!(first, second, silence);
    let mut codes = [first, second].map(|answer| answer.unwrap_err().code());
    codes.sort_by_key(|code| code.name());
    assert!(
        codes
            .iter()
            .all(|code| matches!(code, ErrorCode::Timeout | ErrorCode::BackendUnavailable)),
        "{codes:?}"
    );
    assert!(codes.contains(&ErrorCode::Timeout));
    let now = broker.call(ListQueues).await.unwrap_err();
    assert_eq!(now, RemoteFault::NotConnected.into());
}

#[tokio::test]
async fn no_more_requests_wait_than_the_bound() {
    let (broker, mut peer) = connected().await;
    let mut waiting: Vec<_> = (0..=IN_FLIGHT_MAX)
        .map(|_| Box::pin(broker.call(ListQueues)))
        .collect();
    let mut last = waiting.pop().unwrap();
    for call in &mut waiting {
        assert!(futures_util::FutureExt::now_or_never(call.as_mut()).is_none());
    }
    let refused = futures_util::FutureExt::now_or_never(last.as_mut());
    assert_eq!(refused, Some(Err(RemoteFault::Busy.into())));
    // Whoever leaves makes room.
    waiting.pop();
    for _ in 0..IN_FLIGHT_MAX {
        peer.asked().await;
    }
    let serve = async {
        let asked = peer.asked().await;
        peer.answer(&asked, &json!({ "queues": ["q"] }));
    };
    let (names, ()) = tokio::join!(broker.call(ListQueues), serve);
    assert_eq!(names, Ok(vec!["q".into()]));
}

#[test]
fn a_token_is_not_shown() {
    let address = RemoteAddress {
        host: "h".into(),
        port: 1,
        token: Some("secret".into()),
    };
    assert_eq!(format!("{address:?} {address}"), "RemoteAddress(h:1) h:1");
}
