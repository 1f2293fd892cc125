//! The endpoint over loopback, against a client that writes its own bytes.

mod patience;
mod refusals;
mod row;
mod sessions;
mod stateless;
mod stop;
mod timing;
mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{HttpConfig, ServeOptions, bind, router, serve};
use crate::mcp::echo_server::{PATIENCE, Watched};
use wire::{Reply, Wire};

/// A served endpoint.
struct Site {
    address: SocketAddr,
    watched: Watched,
    /// Ends the listener; the token of the endpoint itself is the one that `watched` holds.
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl Site {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut HttpConfig)) -> Self {
        let watched = Watched::new();
        let handlers = watched.clone();
        Self::of(watched, change, move || handlers.handler()).await
    }

    /// One that waits so long for whoever begins a request.
    async fn with_patience(patience: Duration) -> Self {
        let options = ServeOptions {
            patience,
            ..ServeOptions::default()
        };
        let watched = Watched::new();
        let handlers = watched.clone();
        Self::serving(watched, |_| {}, move || handlers.handler(), options).await
    }

    async fn of<H: rmcp::ServerHandler>(
        watched: Watched,
        change: impl FnOnce(&mut HttpConfig),
        factory: impl Fn() -> H + Send + Sync + Clone + 'static,
    ) -> Self {
        Self::serving(watched, change, factory, ServeOptions::default()).await
    }

    async fn serving<H: rmcp::ServerHandler>(
        watched: Watched,
        change: impl FnOnce(&mut HttpConfig),
        factory: impl Fn() -> H + Send + Sync + Clone + 'static,
        options: ServeOptions,
    ) -> Self {
        let listener = bind("127.0.0.1", 0).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut config = HttpConfig::new("127.0.0.1", address.port());
        change(&mut config);
        let stop = CancellationToken::new();
        let app = router(factory, &config, watched.shutdown.clone());
        let server = tokio::spawn(serve(listener, app, options, stop.clone()));
        Self {
            address,
            watched,
            stop,
            server,
        }
    }

    async fn wire(&self) -> Wire {
        Wire::open(self.address).await
    }

    /// Sends one request on a connection of its own and reads the whole answer.
    async fn ask(&self, request: &Ask<'_>) -> Reply {
        let mut wire = self.wire().await;
        wire.write(&request.bytes(self.address)).await;
        wire.reply().await
    }

    async fn post(&self, headers: &[(&str, &str)], body: &Value) -> Reply {
        self.ask(&Ask::post(body).with(headers)).await
    }

    /// Opens a session with a handshake and gives its id.
    async fn session(&self, headers: &[(&str, &str)]) -> String {
        let reply = self.post(headers, &initialize("2025-11-25")).await;
        assert_eq!(reply.status(), 200, "{reply:?}");
        let id = reply
            .head
            .header("mcp-session-id")
            .expect("an id")
            .to_owned();
        assert_eq!(id.len(), 36, "a UUID: {id}");
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let mut all = headers.to_vec();
        all.push(("Mcp-Session-Id", &id));
        assert_eq!(self.post(&all, &note).await.status(), 202);
        id
    }

    /// Stops listener and endpoint and waits for the end.
    async fn end(self) {
        self.watched.shutdown.cancel();
        self.stop.cancel();
        let ended = timeout(PATIENCE, self.server).await.expect("in time");
        ended.expect("no panic");
    }
}

/// A request with the usual headers, each of which can be replaced.
#[derive(Clone)]
struct Ask<'a> {
    method: &'a str,
    path: &'a str,
    headers: Vec<(String, Option<String>)>,
    body: Vec<u8>,
}

impl<'a> Ask<'a> {
    fn new(method: &'a str) -> Self {
        let usual = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        Self {
            method,
            path: "/mcp",
            headers: usual
                .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
                .to_vec(),
            body: Vec::new(),
        }
    }

    fn post(body: &Value) -> Self {
        Self {
            body: body.to_string().into_bytes(),
            ..Self::new("POST")
        }
    }

    fn path(mut self, path: &'a str) -> Self {
        self.path = path;
        self
    }

    fn method(mut self, method: &'a str) -> Self {
        self.method = method;
        self
    }

    fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// Replaces headers of these names.
    fn with(mut self, headers: &[(&str, &str)]) -> Self {
        for (name, value) in headers {
            self.headers
                .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            self.headers
                .push(((*name).to_owned(), Some((*value).to_owned())));
        }
        self
    }

    /// Leaves a header out that would be there otherwise.
    fn without(mut self, name: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), None));
        self
    }

    fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let named = |name: &str| {
            self.headers
                .iter()
                .any(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        if !named("Host") {
            head.push_str(&format!("Host: {address}\r\n"));
        }
        if !named("Content-Length") && !named("Transfer-Encoding") {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        for (name, value) in &self.headers {
            if let Some(value) = value {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

fn initialize(version: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    })
}

fn call(id: i64, tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": {} } })
}

fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("a text result, not {answer}"))
}
