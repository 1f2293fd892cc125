//! A client of the line transport, and the messages it sends.

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::mcp::echo_server::{PATIENCE, Watched};
use crate::mcp::stdio::serve_stdio;

/// A client and the server it talks to, each in one task.
pub(super) struct Talk {
    pub(super) to_server: Option<DuplexStream>,
    pub(super) from_server: BufReader<DuplexStream>,
    pub(super) server: JoinHandle<io::Result<()>>,
    pub(super) watched: Watched,
}

impl Talk {
    pub(super) fn new() -> Self {
        let (to_server, input) = tokio::io::duplex(1 << 20);
        let (output, from_server) = tokio::io::duplex(1 << 20);
        let watched = Watched::new();
        let server = tokio::spawn(serve_stdio(
            watched.handler(),
            input,
            output,
            watched.shutdown.clone(),
        ));
        Self {
            to_server: Some(to_server),
            from_server: BufReader::new(from_server),
            server,
            watched,
        }
    }

    /// A session on the newest revision with a handshake.
    pub(super) async fn open() -> Self {
        let mut talk = Self::new();
        talk.send(&initialize("2025-11-25")).await;
        let answer = talk.answer().await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        talk.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        talk
    }

    pub(super) async fn bytes(&mut self, bytes: &[u8]) {
        let pipe = self.to_server.as_mut().expect("input is open");
        pipe.write_all(bytes).await.expect("server reads");
    }

    pub(super) async fn send(&mut self, message: &Value) {
        self.bytes(format!("{message}\n").as_bytes()).await;
    }

    /// The next line of the server, which must be one JSON-RPC message; `None` at its end.
    pub(super) async fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.from_server.read_line(&mut line)).await;
        if read.expect("in time").expect("a line") == 0 {
            return None;
        }
        assert!(line.ends_with('\n'), "whole lines only: {line}");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        Some(message)
    }

    pub(super) async fn answer(&mut self) -> Value {
        self.line().await.expect("an answer")
    }

    pub(super) async fn ask(&mut self, message: &Value) -> Value {
        self.send(message).await;
        self.answer().await
    }

    /// Ends the input and returns what the server still says, once it has ended without an error.
    pub(super) async fn end(mut self) -> Vec<Value> {
        self.to_server = None;
        self.rest().await
    }

    pub(super) async fn rest(mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(line) = self.line().await {
            rest.push(line);
        }
        let ended = timeout(PATIENCE, self.server).await.expect("in time");
        ended.expect("no panic").expect("no error");
        assert!(self.watched.shutdown.is_cancelled());
        rest
    }
}

pub(super) fn initialize(version: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    })
}

pub(super) fn call(id: i64, tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": {} } })
}

pub(super) fn ping(id: i64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
}

pub(super) fn cancel(id: i64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

/// A request of the revision without a handshake.
pub(super) fn inline(id: i64, method: &str, version: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(super) fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .expect("a text result")
}
