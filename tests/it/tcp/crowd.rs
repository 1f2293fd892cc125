//! Many connections at once, over the worker door: some hurry, some read late, some vanish.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Barrier, Mutex};
use std::thread::{self, ScopedJoinHandle};

use serde_json::{Value, json};

use super::client::{Conn, REPLY, frame, read_body};
use super::value::{Wire, decode};
use crate::process::Serve;

/// Connections that add, pull and complete jobs as fast as they are answered.
const BUSY: usize = 200;
/// What each of them does how often, and the jobs it adds each time.
const ROUNDS: usize = 4;
const JOBS: usize = 10;
/// Connections that ask for much and read none of it until the busy ones have finished.
const LATE: usize = 20;
const LATE_REPLIES: usize = 50;
const LATE_DATA: usize = 100 * 1024;
/// Connections that pull jobs and leave without reading them, in the middle of another command. A job can go from each of
/// them to the next, and one that is lost ten times in a row is taken for the cause.
const VANISHING: usize = 9;
/// What the server may take in all: for the late ones it holds 100 MB of replies.
#[cfg(target_os = "linux")]
const RESIDENT_MAX: u64 = 300_000_000;

#[test]
fn a_crowd_gets_each_reply_once_and_each_job_done_once() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let large = conn.push("large", &json!({ "data": "x".repeat(LATE_DATA) }));
    let done = Mutex::new(BTreeSet::new());
    let (all_there, busy_done) = (
        Barrier::new(BUSY + LATE + VANISHING),
        Barrier::new(LATE + 1),
    );
    thread::scope(|scope| {
        let busy: Vec<_> = (0..BUSY)
            .map(|number| {
                let (serve, done, all_there) = (&serve, &done, &all_there);
                scope.spawn(move || {
                    let mut client = Client::open(serve);
                    all_there.wait();
                    for round in 0..ROUNDS {
                        work(&mut client, number, round, done);
                    }
                })
            })
            .collect();
        for _ in 0..LATE {
            scope.spawn(|| {
                let mut client = Client::open(&serve);
                all_there.wait();
                let asked = vec![json!({ "cmd": "GetJob", "id": large }); LATE_REPLIES];
                client.send(&asked);
                busy_done.wait();
                for reply in client.replies(LATE_REPLIES) {
                    assert_eq!(reply["job"]["data"].as_str().map(str::len), Some(LATE_DATA));
                }
            });
        }
        for _ in 0..VANISHING {
            scope.spawn(|| {
                let mut client = Client::open(&serve);
                all_there.wait();
                client.send(&[json!({ "cmd": "PULLB", "queue": "q", "count": 5, "owner": "v", "timeout": 5_000 })]);
                client.stream.write_all(&[0, 0, 1, 0, 0x81]).unwrap();
            });
        }
        // Whatever came of them, the others must not wait for ever.
        let ends: Vec<_> = busy.into_iter().map(ScopedJoinHandle::join).collect();
        #[cfg(target_os = "linux")]
        let resident = serve.process.resident();
        busy_done.wait();
        for end in ends {
            end.expect("all its replies");
        }
        #[cfg(target_os = "linux")]
        assert!(resident < RESIDENT_MAX, "{resident} bytes");
    });
    // What the others gave back too late for the busy ones.
    let mut last = Client::open(&serve);
    while done.lock().unwrap().len() < BUSY * ROUNDS * JOBS {
        let pull =
            json!({ "cmd": "PULLB", "queue": "q", "count": 100, "owner": "w", "timeout": 5_000 });
        last.send(&[pull]);
        let pulled = last.replies(1);
        assert_ne!(pulled[0]["jobs"], json!([]), "jobs are missing");
        complete(&mut last, &pulled[0], &done);
    }
    let counts = conn.counts("q");
    let open = ["waiting", "active", "delayed", "failed"].map(|state| &counts[state]);
    assert_eq!(open, [&json!(0); 4]);
    assert_eq!(counts["completed"], json!(BUSY * ROUNDS * JOBS));
}

/// Adds jobs, pulls as many of anybody's and completes them, with many commands in one write.
fn work(client: &mut Client, number: usize, round: usize, done: &Mutex<BTreeSet<String>>) {
    let mut commands: Vec<_> = (0..JOBS)
        .map(|job| {
            let id = format!("{number}-{round}-{job}");
            json!({ "cmd": "PUSH", "queue": "q", "name": "n", "jobId": id })
        })
        .collect();
    commands.push(json!({ "cmd": "Ping" }));
    commands.push(json!({ "cmd": "PULLB", "queue": "q", "count": JOBS, "owner": "w" }));
    client.send(&commands);
    let replies = client.replies(commands.len());
    for (job, reply) in replies[..JOBS].iter().enumerate() {
        assert_eq!(reply["id"], json!(format!("{number}-{round}-{job}")));
    }
    assert_eq!(replies[JOBS]["data"]["pong"], json!(true));
    complete(client, &replies[JOBS + 1], done);
}

/// Completes the jobs of the reply to a PULLB, each by a command of its own.
fn complete(client: &mut Client, pulled: &Value, done: &Mutex<BTreeSet<String>>) {
    let jobs = pulled["jobs"].as_array().unwrap();
    let tokens = pulled["tokens"].as_array().unwrap();
    let acks: Vec<_> = jobs
        .iter()
        .zip(tokens)
        .map(|(job, token)| json!({ "cmd": "ACK", "id": job["id"], "token": token }))
        .collect();
    client.send(&acks);
    for reply in client.replies(acks.len()) {
        assert_eq!(reply["ok"], json!(true), "{reply}");
    }
    for job in jobs {
        let id = job["id"].as_str().unwrap().to_owned();
        assert!(done.lock().unwrap().insert(id), "{job} was done twice");
    }
}

/// A connection that writes many commands at once and then reads their replies.
struct Client {
    stream: TcpStream,
    sent: usize,
}

impl Client {
    fn open(serve: &Serve) -> Self {
        let stream = TcpStream::connect(serve.tcp).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(REPLY)).unwrap();
        Self { stream, sent: 0 }
    }

    /// Sends commands in one write, each with the number of its place on this connection.
    fn send(&mut self, commands: &[Value]) {
        let mut wire = Vec::new();
        for command in commands {
            let mut command = command.clone();
            command["reqId"] = json!(self.sent.to_string());
            self.sent += 1;
            wire.extend(frame(&Wire::from_notation(&command).encode()));
        }
        self.stream.write_all(&wire).unwrap();
    }

    /// The replies to the last `count` commands, in their order; each must come once and nothing else.
    fn replies(&mut self, count: usize) -> Vec<Value> {
        let first = self.sent - count;
        let mut replies = vec![Value::Null; count];
        let mut reader = Pieces(&self.stream);
        for _ in 0..count {
            let body = read_body(&mut reader).unwrap().expect("one more reply");
            let reply = decode(&body).unwrap().value.to_json();
            let place: usize = reply["reqId"].as_str().unwrap().parse().unwrap();
            let slot = &mut replies[place - first];
            assert!(slot.is_null(), "two replies to the same command");
            *slot = reply;
        }
        replies
    }
}

/// Reads little at a time.
struct Pieces<'a>(&'a TcpStream);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let end = buffer.len().min(4_096);
        self.0.read(&mut buffer[..end])
    }
}
