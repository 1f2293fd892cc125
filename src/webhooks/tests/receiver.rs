//! A receiver of calls on loopback, written on plain sockets so that it can misbehave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::soon;

/// What a receiver does with a request that it has read.
#[derive(Clone)]
pub(super) enum Answer {
    /// An answer without a body, with that status and these further header lines.
    Status(u16, String),
    /// Status 200 and a body without end.
    Endless,
    /// Status 200 and the beginning of a body; the rest never comes.
    Stalling,
    /// Nothing, with the connection left open.
    Nothing,
    /// Bytes that are no HTTP.
    Raw(&'static [u8]),
}

impl Answer {
    pub(super) fn status(status: u16) -> Self {
        Self::Status(status, String::new())
    }
}

/// A request as it came.
pub(super) struct Request {
    pub(super) line: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) at: Instant,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        let found = all.find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    requests: mpsc::UnboundedReceiver<Request>,
}

impl Receiver {
    /// Answers every request alike.
    pub(super) async fn answering(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::unbounded_channel();
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, Arc::clone(&answer), sender.clone()));
            }
        });
        Self { address, requests }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(super) async fn next(&mut self) -> Request {
        soon(self.requests.recv()).await.expect("a receiver")
    }

    /// A request that has already come.
    pub(super) fn come(&mut self) -> Option<Request> {
        self.requests.try_recv().ok()
    }
}

async fn converse(
    mut stream: TcpStream,
    answer: Arc<Answer>,
    requests: mpsc::UnboundedSender<Request>,
) {
    while let Some(request) = read(&mut stream).await {
        if requests.send(request).is_err() {
            return;
        }
        let written = match &*answer {
            Answer::Status(status, headers) => {
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n{headers}\r\n");
                stream.write_all(head.as_bytes()).await
            }
            Answer::Endless => {
                // Without a length the body ends with the connection; it is written as long as somebody reads.
                let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                let mut written = stream.write_all(head).await;
                while written.is_ok() {
                    written = stream.write_all(&[b'x'; 4_096]).await;
                }
                written
            }
            Answer::Stalling => {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour";
                stream.write_all(head).await
            }
            Answer::Nothing => Ok(()),
            Answer::Raw(bytes) => stream.write_all(bytes).await,
        };
        if written.is_err() {
            return;
        }
    }
}

/// One request; `None` when the connection ended first.
async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n").map(str::to_owned);
    let line = lines.next().unwrap();
    let headers: Vec<_> = lines
        .map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        })
        .collect();
    let mut request = Request {
        line,
        headers,
        body: bytes.split_off(end + 4),
        at: Instant::now(),
    };
    let length: usize = request.header("content-length")?.parse().unwrap();
    while request.body.len() < length {
        if stream.read_buf(&mut request.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(request)
}
