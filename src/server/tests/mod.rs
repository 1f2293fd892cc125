//! Connections against a real broker in memory, over a pipe or loopback.

mod conversation;
mod end;
mod events;
mod limits;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ServerOptions;
use super::auth::Tokens;
use super::dialogue::Door;
use super::refusal::Refusals;
use super::session::{self, Ended};
use crate::broker::{Broker, EventFilter, LocalBroker, Storing, Submitted, Subscription};
use crate::command::Command;
use crate::engine::{Config, ConnectionId, Delivery, EventKind, Millis};
use crate::wire::frame::{self, Front};

/// Nothing here takes that long; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes that the pipe between client and server holds.
const PIPE: usize = 65_536;

fn frame(value: &Json) -> Vec<u8> {
    raw_frame(&rmp_serde::to_vec_named(value).unwrap())
}

fn raw_frame(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(frame::append(&mut out, |out| out.extend_from_slice(body)));
    out
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("nothing happened")
}

/// Where clients seem to come from.
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// A server with some connections.
struct Server {
    door: Arc<Door>,
    shutdown: CancellationToken,
}

impl Server {
    fn new() -> Self {
        Self::with(ServerOptions::default())
    }

    fn with(options: ServerOptions) -> Self {
        let broker = LocalBroker::start(Config::default()).unwrap();
        Self::on(Arc::new(broker), options)
    }

    fn on(broker: Arc<dyn Broker>, options: ServerOptions) -> Self {
        let tokens = Tokens::new(&options.tokens);
        let door = Door {
            broker,
            options,
            tokens,
            refusals: Refusals::default(),
        };
        Self {
            door: Arc::new(door),
            shutdown: CancellationToken::new(),
        }
    }

    fn connect(&self) -> Client {
        let (stream, server) = tokio::io::duplex(PIPE);
        let (door, shutdown) = (Arc::clone(&self.door), self.shutdown.clone());
        let session = tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(server);
            session::run(reader, writer, PEER, &door, &shutdown).await
        });
        Client {
            stream,
            session,
            received: BytesMut::new(),
            events: VecDeque::new(),
        }
    }
}

/// A client written from the protocol alone.
struct Client {
    stream: DuplexStream,
    session: JoinHandle<Ended>,
    received: BytesMut,
    /// Events that arrived before a reply that was waited for.
    events: VecDeque<Json>,
}

impl Client {
    async fn send_bytes(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.unwrap();
    }

    async fn send(&mut self, value: &Json) {
        self.send_bytes(&frame(value)).await;
    }

    /// The body of the next frame; `None` at the end of the stream.
    async fn next_body(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Front::Frame { body, rest } = frame::front(&self.received) {
                let (body, taken) = (body.to_vec(), self.received.len() - rest.len());
                self.received.advance(taken);
                return Some(body);
            }
            if soon(self.stream.read_buf(&mut self.received))
                .await
                .unwrap()
                == 0
            {
                assert!(self.received.is_empty(), "half a frame at the end");
                return None;
            }
        }
    }

    async fn next_frame(&mut self) -> Option<Json> {
        let body = self.next_body().await?;
        Some(rmp_serde::from_slice(&body).unwrap())
    }

    async fn reply(&mut self) -> Json {
        loop {
            let frame = self.next_frame().await.expect("the connection has ended");
            if frame["type"] != "event" {
                return frame;
            }
            self.events.push_back(frame["event"].clone());
        }
    }

    async fn event(&mut self) -> Json {
        if let Some(event) = self.events.pop_front() {
            return event;
        }
        let frame = self.next_frame().await.expect("the connection has ended");
        assert_eq!(frame["type"], "event", "{frame}");
        frame["event"].clone()
    }

    async fn ask(&mut self, value: Json) -> Json {
        self.send(&value).await;
        self.reply().await
    }

    async fn ping(&mut self) {
        let pong = self.ask(json!({"cmd": "Ping", "reqId": "ping"})).await;
        assert_eq!(
            (&pong["data"]["pong"], &pong["reqId"]),
            (&json!(true), &json!("ping"))
        );
    }

    /// The names of the events up to the reply to a ping: whatever happened before has arrived by then.
    async fn event_names(&mut self) -> Vec<String> {
        self.ping().await;
        let names = self
            .events
            .drain(..)
            .map(|event| event["eventType"].as_str().unwrap().to_owned());
        names.collect()
    }

    /// Waits for the end of the connection.
    async fn ended(mut self) -> Ended {
        while self.next_body().await.is_some() {}
        soon(self.session).await.unwrap()
    }

    /// Leaves; returns once the server has noticed.
    async fn leave(self) -> Ended {
        drop(self.stream);
        soon(self.session).await.unwrap()
    }
}

/// What a [`Fake`] does instead of the broker behind it, or `None`.
type Instead = fn(&LocalBroker, Option<ConnectionId>, &Command) -> Option<Submitted>;

/// A broker that answers some commands in its own way.
struct Fake {
    broker: LocalBroker,
    instead: Instead,
}

impl Fake {
    fn new(instead: Instead) -> Arc<Self> {
        let broker = LocalBroker::start(Config::default()).unwrap();
        Arc::new(Self { broker, instead })
    }
}

impl Broker for Fake {
    fn submit(
        &self,
        caller: Option<ConnectionId>,
        commands: &mut Vec<Command>,
        answers: &mut Vec<Submitted>,
    ) -> Option<Storing> {
        for command in commands.drain(..) {
            answers.push(self.submit_one(caller, command));
        }
        None
    }

    fn submit_one(&self, caller: Option<ConnectionId>, command: Command) -> Submitted {
        (self.instead)(&self.broker, caller, &command)
            .unwrap_or_else(|| self.broker.submit_one(caller, command))
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.broker.close()
    }

    fn connect(&self) -> ConnectionId {
        self.broker.connect()
    }

    fn connections(&self) -> usize {
        self.broker.connections()
    }

    fn disconnect(&self, connection: ConnectionId) {
        self.broker.disconnect(connection);
    }

    fn give_back(&self, deliveries: &[Delivery]) {
        self.broker.give_back(deliveries);
    }

    fn now(&self) -> Millis {
        self.broker.now()
    }

    fn subscribe(&self, filter: EventFilter) -> Subscription {
        self.broker.subscribe(filter)
    }

    fn announce(&self, notice: EventKind) -> bool {
        self.broker.announce(notice)
    }

    fn stop_deliveries(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.broker.stop_deliveries()
    }

    fn shut_down(&self) {
        self.broker.shut_down();
    }
}
