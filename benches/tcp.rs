//! What does a job cost over the worker door, with a client that pipelines or batches as real ones do?
//!
//! Budget: with batches of 100 the door costs less per job than the engine's lock and the copy of the payload; single
//! adds in a window of 32 are bound by system calls. With a file at `committed`, batches and drains should reach half of
//! what they reach in memory. Server and client share the machine and the process, so compare the rows of one run with
//! each other.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark that meets something unexpected ends"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use bunqueue_mcp::broker::{Broker, LocalBroker};
use bunqueue_mcp::command::payload::{Reader, Value, Writer};
use bunqueue_mcp::engine::{Config, Durability};
use bunqueue_mcp::server::{ServerOptions, Stop, serve};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Bytes of each job's data.
const PAYLOAD: usize = 100;
/// Jobs per measured round.
const ROUND: usize = 3_200;
/// Commands in flight when they are single.
const WINDOW: usize = 32;
/// Producers of which each waits for its answer.
const PRODUCERS: usize = 32;

struct Client {
    stream: TcpStream,
    out: Vec<u8>,
    reply: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("an open socket");
        Self {
            stream,
            out: Vec::new(),
            reply: Vec::new(),
        }
    }

    /// Appends one command; `fields` writes `count` key and value pairs after `cmd` and `reqId`.
    fn command(&mut self, name: &str, count: usize, fields: impl FnOnce(&mut Writer<'_>)) {
        let start = self.out.len();
        self.out.extend([0; 4]);
        let mut writer = Writer::new(&mut self.out);
        writer.map(count + 2);
        writer.text("cmd");
        writer.text(name);
        writer.text("reqId");
        writer.text("1");
        fields(&mut writer);
        let length = u32::try_from(self.out.len() - start - 4).expect("a small frame");
        self.out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn send(&mut self) {
        self.stream.write_all(&self.out).expect("the server reads");
        self.out.clear();
    }

    fn receive(&mut self) -> &[u8] {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("a reply");
        self.reply.resize(u32::from_be_bytes(length) as usize, 0);
        self.stream
            .read_exact(&mut self.reply)
            .expect("a whole reply");
        &self.reply
    }

    fn push(&mut self) {
        self.command("PUSH", 3, |fields| {
            fields.text("queue");
            fields.text("q");
            fields.text("name");
            fields.text("work");
            fields.text("data");
            fields.bytes(&[0x07; PAYLOAD]);
        });
    }

    fn add_one_by_one(&mut self) {
        for _ in 0..ROUND / WINDOW {
            for _ in 0..WINDOW {
                self.push();
            }
            self.send();
            for _ in 0..WINDOW {
                self.receive();
            }
        }
    }

    fn add_in_batches(&mut self, batch: usize) {
        let data = [0x07; PAYLOAD];
        for _ in 0..ROUND / batch {
            self.command("PUSHB", 2, |fields| {
                fields.text("queue");
                fields.text("q");
                fields.text("jobs");
                fields.array(batch);
                for _ in 0..batch {
                    fields.map(2);
                    fields.text("name");
                    fields.text("work");
                    fields.text("data");
                    fields.bytes(&data);
                }
            });
            self.send();
            self.receive();
        }
    }

    fn pull_and_ack(&mut self, batch: usize) -> usize {
        self.command("PULLB", 3, |fields| {
            fields.text("queue");
            fields.text("q");
            fields.text("count");
            fields.integer(batch as i64);
            fields.text("owner");
            fields.text("w");
        });
        self.send();
        let (ids, tokens) = ids_and_tokens(self.receive());
        self.command("ACKB", 2, |fields| {
            for (name, list) in [("ids", &ids), ("tokens", &tokens)] {
                fields.text(name);
                fields.array(list.len());
                for text in list {
                    fields.text(text);
                }
            }
        });
        self.send();
        self.receive();
        ids.len()
    }
}

/// Each producer adds one and takes its answer before it adds the next; what the others do meanwhile is up to the server.
fn add_by_all(producers: &mut [Client]) {
    for round in 0..=ROUND / PRODUCERS {
        for producer in &mut *producers {
            if round > 0 {
                producer.receive();
            }
            if round < ROUND / PRODUCERS {
                producer.push();
                producer.send();
            }
        }
    }
}

/// The ids and tokens of a PULLB reply.
fn ids_and_tokens(reply: &[u8]) -> (Vec<String>, Vec<String>) {
    let mut reader = Reader::new(reply);
    let (mut ids, mut tokens) = (Vec::new(), Vec::new());
    let Ok(Value::Map(entries)) = reader.read() else {
        panic!("a map")
    };
    for _ in 0..entries {
        match reader.read_text().expect("a key") {
            "jobs" => {
                let Ok(Value::Array(jobs)) = reader.read() else {
                    panic!("jobs")
                };
                ids.extend((0..jobs).map(|_| id_of(&mut reader)));
            }
            "tokens" => {
                let Ok(Value::Array(count)) = reader.read() else {
                    panic!("tokens")
                };
                tokens.extend((0..count).map(|_| reader.read_text().expect("a token").to_owned()));
            }
            _ => {
                reader.skip().expect("a value");
            }
        }
    }
    (ids, tokens)
}

fn id_of(reader: &mut Reader<'_>) -> String {
    let Ok(Value::Map(entries)) = reader.read() else {
        panic!("a job")
    };
    let mut id = String::new();
    for _ in 0..entries {
        if reader.read_text().expect("a key") == "id" {
            id = reader.read_text().expect("an id").to_owned();
        } else {
            reader.skip().expect("a value");
        }
    }
    id
}

/// The rows for one broker. What was added is drained between the rows, so that each starts on an empty queue.
fn rows(c: &mut Criterion, name: &str, broker: LocalBroker) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let stop = Stop::default();
    let broker: Arc<dyn Broker> = Arc::new(broker);
    let address = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(serve(
            listener,
            broker,
            ServerOptions::default(),
            stop.clone(),
        ));
        address
    });
    let mut client = Client::connect(address);
    let mut producers: Vec<Client> = (0..PRODUCERS).map(|_| Client::connect(address)).collect();

    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(ROUND as u64));
    group.bench_function("add one by one, 32 in flight", |b| {
        b.iter(|| client.add_one_by_one())
    });
    while client.pull_and_ack(1_000) > 0 {}
    group.bench_function("add one by one, 32 producers", |b| {
        b.iter(|| add_by_all(&mut producers));
    });
    while client.pull_and_ack(1_000) > 0 {}
    group.bench_function("add in batches of 100", |b| {
        b.iter(|| client.add_in_batches(100))
    });
    while client.pull_and_ack(1_000) > 0 {}
    group.bench_function("add in batches of 100, pull and ack 50", |b| {
        b.iter(|| {
            client.add_in_batches(100);
            for _ in 0..ROUND / 50 {
                client.pull_and_ack(50);
            }
        });
    });
    group.finish();
    stop.serving.cancel();
}

fn tcp(c: &mut Criterion) {
    let memory = LocalBroker::start(Config::default()).expect("a broker");
    rows(c, "tcp", memory);
    for level in [
        Durability::Buffered,
        Durability::Committed,
        Durability::Durable,
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("queue.db");
        // As the program does with a file.
        let config = Config {
            completed_max: 1_000_000,
            completed_in_memory_max: 50_000,
            results_max: usize::MAX,
            ..Config::default()
        };
        let broker = LocalBroker::open(config, &file, level).expect("a broker");
        rows(c, &format!("tcp, {}", level.name()), broker);
    }
}

criterion_group!(benches, tcp);
criterion_main!(benches);
