//! An MCP client on stdio: newline-delimited JSON-RPC, one process per client.
//!
//! Every line on stdout must be one JSON-RPC message; a line that is not fails the test that reads next, or at the end.
//! Tool results are judged on the way: one text item, equal to the structured part on success, none of that on errors.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Env, Process, address};

/// How long an answer may take beyond any wait that the call itself asks for.
const ANSWER: Duration = Duration::from_secs(40);

/// The newest revision that opens with a handshake.
pub const REVISION: &str = "2025-11-25";

/// A client with its server process.
pub struct Agent {
    pub process: Process,
    stdin: Option<ChildStdin>,
    messages: Receiver<Result<Value, String>>,
    /// Answers read while another one was waited for, by id.
    early: HashMap<u64, Value>,
    /// Messages that are no answers to requests of `begin`, in order of arrival.
    pub others: Vec<Value>,
    /// The result of every elicitation, if this client takes part in them.
    reply: Option<Value>,
    /// What it was asked that way.
    pub questions: Vec<Value>,
    sent: u64,
}

/// A request whose answer has not been read yet.
#[must_use]
pub struct Pending(pub u64);

/// The result of a tool call.
#[derive(Debug)]
pub struct Outcome {
    pub is_error: bool,
    /// The parsed text.
    pub value: Value,
    /// The text as it came.
    pub text: String,
}

impl Agent {
    /// Starts the program and shakes hands.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(env: &Env) -> Self {
        let mut agent = Self::silent(env);
        agent.shake_hands();
        agent
    }

    /// The same as a client that gives every elicitation this answer: `accept`, `decline` or `cancel`.
    pub fn asked(env: &Env, answer: Option<&str>) -> Self {
        let Some(answer) = answer else {
            return Self::start_with(env);
        };
        let content = (answer == "accept").then(|| json!({ "confirm": true }));
        Self::replying(env, &json!({ "action": answer, "content": content }))
    }

    /// The same with the whole result.
    pub fn replying(env: &Env, reply: &Value) -> Self {
        let mut agent = Self::silent(env);
        agent.reply = Some(reply.clone());
        agent.shake_hands();
        agent
    }

    /// Starts the program with the worker door beside stdio.
    pub fn with_worker_door() -> (Self, std::net::SocketAddr) {
        Self::with_worker_door_and(&[])
    }

    /// The same with more settings.
    pub fn with_worker_door_and(env: &Env) -> (Self, std::net::SocketAddr) {
        let door: &Env = &[("BUNQUEUE_MCP_TCP_LISTEN", "127.0.0.1:0")];
        let agent = Self::start_with(&[door, env].concat());
        let line = agent.process.line("bunqueue MCP server started (");
        let tcp = address(&line, "tcp: ");
        (agent, tcp)
    }

    /// Starts the program and says nothing yet.
    pub fn silent(env: &Env) -> Self {
        let mut process = Process::start(&[], env);
        let stdin = process.stdin();
        let stdout = process.stdout();
        let (message, messages) = channel();
        std::thread::spawn(move || read(stdout, &message));
        Self {
            process,
            stdin: Some(stdin),
            messages,
            early: HashMap::new(),
            others: Vec::new(),
            reply: None,
            questions: Vec::new(),
            sent: 0,
        }
    }

    /// The handshake with the newest revision; returns its result.
    pub fn shake_hands(&mut self) -> Value {
        let mut params = initialize_params();
        if self.reply.is_some() {
            params["capabilities"]["elicitation"] = json!({});
        }
        let result = self.result("initialize", &params);
        self.notify("notifications/initialized", &json!({}));
        result
    }

    /// Writes bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).expect("the program reads stdin");
        stdin.flush().unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    pub fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request with an id of its own.
    pub fn begin(&mut self, method: &str, params: &Value) -> Pending {
        self.sent += 1;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params }),
        );
        Pending(self.sent)
    }

    pub fn begin_call(&mut self, tool: &str, arguments: &Value) -> Pending {
        self.begin(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        )
    }

    /// The whole answer to a request sent before.
    pub fn finish(&mut self, pending: &Pending) -> Value {
        self.finish_within(pending, ANSWER)
            .unwrap_or_else(|| panic!("no answer to request {}", pending.0))
    }

    /// The same, or `None` when it does not come within `limit`.
    pub fn finish_within(&mut self, pending: &Pending, limit: Duration) -> Option<Value> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(answer) = self.early.remove(&pending.0) {
                return Some(answer);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.pump(left) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => panic!("stdout was closed"),
            }
        }
    }

    /// The answer that comes first, with the id of its request.
    pub fn first(&mut self, pendings: &[&Pending]) -> (u64, Value) {
        let deadline = Instant::now() + ANSWER;
        loop {
            for pending in pendings {
                if let Some(answer) = self.early.remove(&pending.0) {
                    return (pending.0, answer);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            self.pump(left).expect("an answer");
        }
    }

    /// The next message that answers no request of `begin`.
    pub fn other(&mut self) -> Value {
        let deadline = Instant::now() + ANSWER;
        while self.others.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            self.pump(left).expect("a message");
        }
        self.others.remove(0)
    }

    /// A notification of that method, which has come or comes within `limit`.
    pub fn notice(&mut self, method: &str, limit: Duration) -> Value {
        let deadline = Instant::now() + limit;
        loop {
            let mut others = self.others.iter();
            if let Some(place) = others.position(|other| other["method"] == method) {
                return self.others.remove(place);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let read = self.pump(left);
            read.unwrap_or_else(|error| panic!("no {method}: {error}"));
        }
    }

    /// Reads one message and puts it where it belongs.
    fn pump(&mut self, limit: Duration) -> Result<(), RecvTimeoutError> {
        let message = match self.messages.recv_timeout(limit)? {
            Ok(message) => message,
            Err(fault) => panic!("on stdout: {fault}"),
        };
        let answered = message["id"]
            .as_u64()
            .filter(|id| message.get("method").is_none() && (1..=self.sent).contains(id));
        match answered {
            Some(id) => {
                let twice = self.early.insert(id, message);
                assert!(twice.is_none(), "two answers to request {id}");
            }
            None if self.reply.is_some() && message["method"] == "elicitation/create" => {
                let result = self.reply.clone();
                self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
                self.questions.push(message["params"].clone());
            }
            None => self.others.push(message),
        }
        Ok(())
    }

    /// Sends a request and returns its whole answer.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let pending = self.begin(method, params);
        self.finish(&pending)
    }

    /// Sends a request that must succeed and returns its result.
    pub fn result(&mut self, method: &str, params: &Value) -> Value {
        let mut answer = self.request(method, params);
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Outcome {
        let pending = self.begin_call(tool, arguments);
        self.finish_call(&pending)
    }

    pub fn finish_call(&mut self, pending: &Pending) -> Outcome {
        let answer = self.finish(pending);
        outcome(&answer)
    }

    /// Calls a tool that must succeed and returns its result.
    pub fn ok(&mut self, tool: &str, arguments: &Value) -> Value {
        let outcome = self.call(tool, arguments);
        assert!(!outcome.is_error, "{tool} {arguments}: {}", outcome.text);
        outcome.value
    }

    /// Calls a tool that must be refused and returns the error object.
    pub fn refused(&mut self, tool: &str, arguments: &Value) -> Value {
        let outcome = self.call(tool, arguments);
        assert!(outcome.is_error, "{tool} {arguments}: {}", outcome.text);
        outcome.value
    }

    /// Closes stdin, as a host does that is done.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes stdin and waits for the end; whatever was still printed must have been JSON-RPC.
    pub fn end(mut self, limit: Duration) -> ExitStatus {
        self.close_stdin();
        let status = self.process.exit(limit);
        let status = status.unwrap_or_else(|| panic!("still running {limit:?} after stdin closed"));
        while self.pump(ANSWER).is_ok() {}
        status
    }
}

/// Parameters of an `initialize` request for the newest revision.
pub fn initialize_params() -> Value {
    json!({
        "protocolVersion": REVISION,
        "capabilities": {},
        "clientInfo": { "name": "bunqueue-mcp-tests", "version": "1" },
    })
}

/// The result of a tool call from the answer to it, judged by the rules that hold for every tool.
pub fn outcome(answer: &Value) -> Outcome {
    let result = answer
        .get("result")
        .unwrap_or_else(|| panic!("no result: {answer}"));
    let content = result["content"].as_array().expect("content");
    assert_eq!(content.len(), 1, "one content item: {answer}");
    assert_eq!(content[0]["type"], "text", "{answer}");
    let text = content[0]["text"].as_str().unwrap().to_owned();
    let is_error = result["isError"].as_bool().unwrap_or(false);
    let structured = result.get("structuredContent");
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        // Only the metrics are a text of their own; the structured part holds it.
        assert_eq!(structured, Some(&json!({ "metrics": text })), "{answer}");
        assert!(!is_error, "{answer}");
        let value = json!({ "text": text });
        return Outcome {
            is_error,
            value,
            text,
        };
    };
    if is_error {
        assert_eq!(structured, None, "an error has no structured part");
        assert!(value["error"].is_string(), "{text}");
    } else {
        assert_eq!(
            structured,
            Some(&value),
            "the structured part equals the text"
        );
    }
    Outcome {
        is_error,
        value,
        text,
    }
}

/// Parses every line of stdout as a JSON-RPC message.
fn read(stdout: ChildStdout, message: &Sender<Result<Value, String>>) {
    for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
        let parsed = std::str::from_utf8(&line)
            .map_err(|error| error.to_string())
            .and_then(|line| serde_json::from_str(line).map_err(|error| error.to_string()))
            .and_then(json_rpc)
            .map_err(|fault| format!("{fault}: {}", String::from_utf8_lossy(&line)));
        if message.send(parsed).is_err() {
            return;
        }
    }
}

/// A request, a notification, or a response with either a result or an error.
fn json_rpc(message: Value) -> Result<Value, String> {
    let is_call = message["method"].is_string();
    let outcomes = usize::from(message.get("result").is_some())
        + usize::from(message["error"]["code"].is_i64());
    let is_answer = message.get("id").is_some() && outcomes == 1;
    if message["jsonrpc"] == "2.0" && is_call != is_answer {
        Ok(message)
    } else {
        Err("no JSON-RPC message".into())
    }
}
