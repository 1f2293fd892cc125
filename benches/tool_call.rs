//! What does a tool call cost over stdio, one at a time and with many in flight?
//!
//! Budget: one at a time it is bound by the two pipes and the wake-ups; 32 in flight it costs the work of parsing, checking
//! and printing. The program runs as agents run it, over real pipes.
#![expect(
    clippy::expect_used,
    reason = "a benchmark that meets something unexpected ends"
)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;

/// Calls per measured round.
const ROUND: usize = 320;

struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    out: Vec<u8>,
}

impl Server {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_bunqueue-mcp"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut server = Self {
            process,
            input,
            output,
            line: String::new(),
            out: Vec::new(),
        };
        let client = json!({ "name": "bench", "version": "1" });
        server.write(&json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client },
        }));
        server.send();
        server.receive();
        server.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server.send();
        server
    }

    fn write(&mut self, message: &serde_json::Value) {
        writeln!(self.out, "{message}").expect("memory");
    }

    fn send(&mut self) {
        self.input.write_all(&self.out).expect("the server reads");
        self.out.clear();
    }

    fn receive(&mut self) {
        self.line.clear();
        self.output.read_line(&mut self.line).expect("an answer");
        assert!(self.line.contains("\"result\""), "{}", self.line);
    }

    fn calls(&mut self, tool: &str, arguments: &serde_json::Value, in_flight: usize) {
        for _ in 0..ROUND / in_flight {
            for id in 0..in_flight {
                self.write(&json!({
                    "jsonrpc": "2.0", "id": id + 1, "method": "tools/call",
                    "params": { "name": tool, "arguments": arguments },
                }));
            }
            self.send();
            for _ in 0..in_flight {
                self.receive();
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn tool_call(c: &mut Criterion) {
    let mut server = Server::start();
    let counts = json!({ "queue": "bench" });
    let job = json!({ "queue": "bench", "name": "work", "data": { "text": "x".repeat(100) } });
    let mut group = c.benchmark_group("tool call over stdio");
    group.throughput(Throughput::Elements(ROUND as u64));
    for in_flight in [1, 32] {
        group.bench_function(format!("get_job_counts, {in_flight} in flight"), |b| {
            b.iter(|| server.calls("bunqueue_get_job_counts", &counts, in_flight));
        });
        group.bench_function(format!("add_job, {in_flight} in flight"), |b| {
            b.iter(|| server.calls("bunqueue_add_job", &job, in_flight));
        });
    }
    group.finish();
}

criterion_group!(benches, tool_call);
criterion_main!(benches);
