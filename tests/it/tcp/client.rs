//! A client of the worker door, written from the protocol page only.
//!
//! A thread reads frames and sorts them: replies and events wait in separate queues, each frame with its place in the
//! order of arrival. A frame that is no single MessagePack value, or one with a 64-bit integer (unless the test sent
//! such a value as user data and says so), fails the test that reads next.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::value::{Decoded, Wire, decode};

/// How long a reply may take beyond any wait that the command itself asks for.
pub const REPLY: Duration = Duration::from_secs(15);
/// How long an event may take.
pub const EVENT: Duration = Duration::from_secs(20);
/// How long the server may take to close a connection.
pub const CLOSE: Duration = Duration::from_secs(10);

/// For the recursive decoder: a reply may hold data that is nested as deep as the protocol allows.
const READER_STACK: usize = 32 * 1024 * 1024;

/// One frame from the server.
pub struct Frame {
    /// Place in the order of arrival on its connection, replies and events counted together.
    pub place: usize,
    pub body: Vec<u8>,
    pub value: Wire,
    /// A 64-bit integer encoding occurred in it.
    pub wide: bool,
}

/// A command that was sent and whose reply has not been read yet.
#[must_use]
pub struct Pending(String);

/// One connection.
pub struct Conn {
    stream: TcpStream,
    replies: Receiver<Result<Frame, String>>,
    events: Receiver<Result<Frame, String>>,
    /// Replies read while another one was waited for, by `reqId`.
    early: HashMap<String, Frame>,
    sent: usize,
    wide_expected: bool,
}

impl Conn {
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the worker door accepts");
        stream.set_nodelay(true).unwrap();
        let (reply, replies) = channel();
        let (event, events) = channel();
        let reading = stream.try_clone().unwrap();
        std::thread::Builder::new()
            .stack_size(READER_STACK)
            .spawn(move || sort(reading, &reply, &event))
            .unwrap();
        Self {
            stream,
            replies,
            events,
            early: HashMap::new(),
            sent: 0,
            wide_expected: false,
        }
    }

    /// 64-bit integers are welcome from now on: they were sent as user data.
    pub fn expect_wide(&mut self) {
        self.wide_expected = true;
    }

    /// Writes these bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .expect("the connection takes bytes");
    }

    /// Writes one frame with this value.
    pub fn send(&mut self, value: &Wire) {
        self.send_bytes(&frame(&value.encode()));
    }

    /// The next reply in order of arrival.
    pub fn reply(&mut self) -> Frame {
        let next = self.replies.recv_timeout(REPLY);
        self.checked(next, "a reply")
    }

    /// The next event in order of arrival.
    pub fn event_frame(&mut self) -> Frame {
        let next = self.events.recv_timeout(EVENT);
        self.checked(next, "an event")
    }

    /// The next event as JSON.
    pub fn event(&mut self) -> Value {
        self.event_frame().value.to_json()["event"].clone()
    }

    /// An event that arrives within `limit`, or has arrived before and was not read.
    pub fn event_within(&mut self, limit: Duration) -> Option<Frame> {
        match self.events.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => None,
            other => Some(self.checked(other, "an event")),
        }
    }

    fn checked(
        &self,
        next: Result<Result<Frame, String>, RecvTimeoutError>,
        wanted: &str,
    ) -> Frame {
        let frame = match next {
            Ok(Ok(frame)) => frame,
            Ok(Err(fault)) => panic!("{wanted} was expected, a broken frame came: {fault}"),
            Err(RecvTimeoutError::Timeout) => panic!("{wanted} was expected, nothing came"),
            Err(RecvTimeoutError::Disconnected) => {
                panic!("{wanted} was expected, the connection was closed")
            }
        };
        assert!(
            !frame.wide || self.wide_expected,
            "a 64-bit integer in {:?}",
            frame.value
        );
        frame
    }

    /// Sends a command in the notation of the dialogues, with a `reqId` of its own.
    pub fn begin(&mut self, command: &Value) -> Pending {
        self.begin_wire(Wire::from_notation(command))
    }

    /// The same for a command with values that JSON cannot write.
    pub fn begin_wire(&mut self, command: Wire) -> Pending {
        let (command, pending) = self.numbered(command);
        self.send(&command);
        pending
    }

    /// As [`Conn::begin`], unless the server is gone.
    pub fn try_begin(&mut self, command: &Value) -> Option<Pending> {
        let (command, pending) = self.numbered(Wire::from_notation(command));
        let sent = self.stream.write_all(&frame(&command.encode()));
        sent.ok().map(|()| pending)
    }

    fn numbered(&mut self, mut command: Wire) -> (Wire, Pending) {
        self.sent += 1;
        let id = self.sent.to_string();
        let Wire::Map(entries) = &mut command else {
            panic!("a command is a map");
        };
        entries.push((Wire::text("reqId"), Wire::text(&id)));
        (command, Pending(id))
    }

    /// The reply of a command sent before, whatever arrives in between.
    pub fn finish_frame(&mut self, pending: &Pending) -> Frame {
        while !self.early.contains_key(&pending.0) {
            let frame = self.reply();
            self.keep_early(frame);
        }
        self.early.remove(&pending.0).unwrap()
    }

    fn keep_early(&mut self, frame: Frame) {
        let Some(Wire::Str(id)) = frame.value.get("reqId") else {
            panic!("a reply without reqId: {:?}", frame.value);
        };
        let id = String::from_utf8(id.clone()).unwrap();
        let twice = self.early.insert(id, frame);
        assert!(twice.is_none(), "two replies with the same reqId");
    }

    /// The same as JSON, without the `reqId`.
    pub fn finish(&mut self, pending: &Pending) -> Value {
        unnumbered(&self.finish_frame(pending))
    }

    /// As [`Conn::finish`], unless the server is gone and has not answered before.
    pub fn try_finish(&mut self, pending: &Pending) -> Option<Value> {
        while !self.early.contains_key(&pending.0) {
            match self.replies.recv_timeout(REPLY) {
                Ok(Ok(frame)) => self.keep_early(frame),
                // It was on its way.
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("a reply was expected, nothing came"),
            }
        }
        let frame = self.early.remove(&pending.0);
        frame.as_ref().map(unnumbered)
    }

    /// Sends a command and reads its reply.
    pub fn call(&mut self, command: &Value) -> Value {
        let pending = self.begin(command);
        self.finish(&pending)
    }

    /// The same for a command that must succeed.
    pub fn ok(&mut self, command: &Value) -> Value {
        let reply = self.call(command);
        assert_eq!(reply["ok"], json!(true), "{command} was refused: {reply}");
        reply
    }

    /// Adds a job with these members beside the command and returns its id.
    pub fn push(&mut self, queue: &str, members: &Value) -> String {
        let mut command = json!({ "cmd": "PUSH", "queue": queue, "name": "job" });
        for (key, value) in members.as_object().unwrap() {
            command[key] = value.clone();
        }
        self.ok(&command)["id"].as_str().unwrap().to_owned()
    }

    /// The eight counts of a queue.
    pub fn counts(&mut self, queue: &str) -> Value {
        self.ok(&json!({ "cmd": "GetJobCounts", "queue": queue }))["counts"].clone()
    }

    pub fn state(&mut self, id: &str) -> String {
        let reply = self.ok(&json!({ "cmd": "GetState", "id": id }));
        reply["state"].as_str().unwrap().to_owned()
    }

    /// The server must close the connection and send no reply before it does.
    pub fn expect_close(&mut self) {
        match self.replies.recv_timeout(CLOSE) {
            Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) => panic!("the server did not close the connection"),
            Ok(Ok(frame)) => panic!("a reply came instead of the close: {:?}", frame.value),
            Ok(Err(fault)) => panic!("a broken frame came instead of the close: {fault}"),
        }
    }

    /// Closes the connection from this side.
    pub fn close(self) {
        self.stream.shutdown(Shutdown::Both).unwrap();
    }
}

/// A reply as JSON, without its `reqId`.
fn unnumbered(frame: &Frame) -> Value {
    let mut reply = frame.value.to_json();
    reply.as_object_mut().unwrap().remove("reqId");
    reply
}

/// A length prefix and the body.
pub fn frame(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [length.to_be_bytes().as_slice(), body].concat()
}

/// Reads the body of the next frame; `None` at the end of the stream.
pub fn read_body(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; 4];
    match stream.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut body = vec![0; u32::from_be_bytes(header) as usize];
    stream.read_exact(&mut body)?;
    Ok(Some(body))
}

/// Reads frames until the connection ends and puts each where it belongs.
fn sort(
    mut stream: TcpStream,
    reply: &Sender<Result<Frame, String>>,
    event: &Sender<Result<Frame, String>>,
) {
    let mut place = 0;
    loop {
        let body = match read_body(&mut stream) {
            Ok(Some(body)) => body,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                // The receiver may be gone; then nobody cares.
                let _ = reply.send(Err("the stream ended inside a frame".into()));
                return;
            }
            Ok(None) | Err(_) => return,
        };
        let sorted = decode(&body).map(|Decoded { value, wide }| Frame {
            place,
            body,
            value,
            wide,
        });
        place += 1;
        let is_event =
            matches!(&sorted, Ok(frame) if frame.value.get("type") == Some(&Wire::text("event")));
        let queue = if is_event { event } else { reply };
        if queue.send(sorted).is_err() {
            return;
        }
    }
}
