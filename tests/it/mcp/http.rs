//! A tiny HTTP/1.1 client and an MCP session on top of it.
//!
//! One connection per exchange, read to its end; chunked bodies are joined. Answers to MCP requests come as one JSON
//! body or as a stream of server-sent events; both are read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::stdio::{Outcome, initialize_params, outcome};

/// How long the server may be silent.
const SILENCE: Duration = Duration::from_secs(40);

/// What came back.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// A header's value; names are compared without case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The messages in the body: one JSON value, or the data of each event.
    pub fn messages(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).expect("a body in UTF-8");
        let parse = |text: &str| serde_json::from_str(text).expect("JSON in the body");
        match self.header("content-type") {
            Some(kind) if kind.starts_with("text/event-stream") => text
                .split("\n\n")
                .map(|event| {
                    let data = event.lines().filter_map(|line| line.strip_prefix("data:"));
                    data.map(str::trim_start).collect::<Vec<_>>().join("\n")
                })
                .filter(|data| !data.is_empty())
                .map(|data| parse(&data))
                .collect(),
            _ if text.is_empty() => Vec::new(),
            _ => vec![parse(text)],
        }
    }
}

/// Sends one request and reads the answer to the end of the connection.
pub fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    let mut stream = TcpStream::connect(address).expect("the agent door accepts");
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let host = address.to_string();
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        head += &format!("Host: {host}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses a body by its size may close before it has all of it.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert!(!answer.is_empty(), "no answer to {method} {path}: {error}");
    }
    parse(&answer)
}

fn parse(answer: &[u8]) -> Response {
    let end = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(answer)));
    let head = std::str::from_utf8(&answer[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let mut response = Response {
        status: status.parse().unwrap(),
        headers,
        body: answer[end + 4..].to_vec(),
    };
    if response
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    {
        response.body = join_chunks(&response.body);
    }
    response
}

fn join_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        body.extend(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
        if size == 0 {
            break;
        }
    }
    body
}

/// An MCP session over HTTP.
pub struct Session {
    address: SocketAddr,
    id: String,
    sent: u64,
}

impl Session {
    /// Opens a session with the newest revision that has them.
    pub fn open(address: SocketAddr) -> Self {
        let body = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize_params(),
        });
        let opened = exchange(
            address,
            "POST",
            "/mcp",
            &DEFAULTS,
            body.to_string().as_bytes(),
        );
        assert_eq!(opened.status, 200, "{opened:?}");
        let session = Self {
            address,
            id: opened
                .header("mcp-session-id")
                .expect("a session")
                .to_owned(),
            sent: 0,
        };
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.post(&ready).status, 202);
        session
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Posts one message in this session.
    pub fn post(&self, message: &Value) -> Response {
        let session = [("Mcp-Session-Id", self.id.as_str())];
        let headers = [DEFAULTS.as_slice(), &session].concat();
        exchange(
            self.address,
            "POST",
            "/mcp",
            &headers,
            message.to_string().as_bytes(),
        )
    }

    /// Sends a request and returns its whole answer.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        self.sent += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        let response = self.post(&request);
        assert_eq!(response.status, 200, "{response:?}");
        response
            .messages()
            .into_iter()
            .find(|message| message["id"] == self.sent)
            .expect("an answer in the body")
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Outcome {
        let params = json!({ "name": tool, "arguments": arguments });
        outcome(&self.request("tools/call", &params))
    }

    /// Ends the session; the status of the answer.
    pub fn delete(self) -> u16 {
        let headers = [("Mcp-Session-Id", self.id.as_str())];
        exchange(self.address, "DELETE", "/mcp", &headers, b"").status
    }
}

/// What an MCP client sends with every POST.
pub const DEFAULTS: [(&str, &str); 2] = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
];
