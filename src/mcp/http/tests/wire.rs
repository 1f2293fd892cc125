//! A small HTTP/1.1 client that shows what really came over the socket.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::mcp::echo_server::PATIENCE;

/// One connection.
pub(super) struct Wire(BufReader<TcpStream>);

/// Status and headers of an answer; names in lower case.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name)?;
        Some(&found.1)
    }
}

/// A whole answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) head: Head,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn status(&self) -> u16 {
        self.head.status
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("JSON, not {}", String::from_utf8_lossy(&self.body)))
    }

    /// The messages of an event stream; every event must carry one.
    pub(super) fn messages(&self) -> Vec<Value> {
        assert_eq!(self.head.header("content-type"), Some("text/event-stream"));
        String::from_utf8(self.body.clone())
            .expect("UTF-8")
            .split_terminator("\n\n")
            .map(message)
            .collect()
    }
}

/// The message of one event.
pub(super) fn message(event: &str) -> Value {
    let data = event
        .lines()
        .find_map(|line| line.strip_prefix("data:"))
        .unwrap_or_else(|| panic!("an event with data, not {event:?}"));
    serde_json::from_str(data.trim()).expect("JSON in an event")
}

impl Wire {
    pub(super) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        Self(BufReader::new(stream))
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        timeout(PATIENCE, self.0.write_all(bytes))
            .await
            .expect("in time")
            .expect("server reads");
    }

    async fn read_line(&mut self) -> String {
        let mut line = String::new();
        timeout(PATIENCE, self.0.read_line(&mut line))
            .await
            .expect("in time")
            .expect("a line");
        line.trim_end().to_owned()
    }

    pub(super) async fn head(&mut self) -> Head {
        let first = self.read_line().await;
        let status = first
            .split(' ')
            .nth(1)
            .unwrap_or_else(|| panic!("a status line, not {first:?}"))
            .parse()
            .expect("a status");
        let mut headers = Vec::new();
        loop {
            let line = self.read_line().await;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Head { status, headers }
    }

    /// The next part of a chunked body, `None` at its proper end.
    pub(super) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.read_line().await;
        let size = usize::from_str_radix(&size, 16)
            .unwrap_or_else(|_| panic!("the size of a chunk, not {size:?}"));
        let bytes = self.exactly(size + 2).await;
        (size > 0).then(|| bytes[..size].to_vec())
    }

    async fn exactly(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        timeout(PATIENCE, self.0.read_exact(&mut bytes))
            .await
            .expect("in time")
            .expect("bytes");
        bytes
    }

    /// The rest of the answer whose head was read.
    pub(super) async fn body(&mut self, head: Head) -> Reply {
        let mut body = Vec::new();
        if head.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                body.extend(chunk);
            }
        } else if let Some(length) = head.header("content-length") {
            body = self.exactly(length.parse().expect("a length")).await;
        }
        Reply { head, body }
    }

    pub(super) async fn reply(&mut self) -> Reply {
        let head = self.head().await;
        self.body(head).await
    }

    /// Waits until the server has closed the connection.
    pub(super) async fn closed(&mut self) {
        let mut rest = Vec::new();
        timeout(PATIENCE, self.0.read_to_end(&mut rest))
            .await
            .expect("in time")
            .expect("an orderly end");
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
}
