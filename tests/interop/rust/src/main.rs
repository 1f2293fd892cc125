//! The published Rust client (`bunqueue-client`) as a driver.
//!
//! One JSON request per line on stdin, one reply per line on stdout, events in between (see README.md).
//! Job data, results and options travel in the tagged JSON form; `tag` and `untag` are its two directions.

mod features;

use std::collections::BTreeSet;
use std::error::Error;
use std::io::BufRead;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bunqueue_client::{
    Backoff, BulkEntry, ConnectionOptions, Job, JobOptions, ProcessError, Queue, TlsOptions, Value,
    Worker, WorkerOptions,
};
use serde_json::{Map, Value as Json, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The largest integer that a JSON reader with double precision keeps.
const SAFE: u64 = (1 << 53) - 1;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let connection = ConnectionOptions {
        host: "127.0.0.1".to_owned(),
        port: arguments.next().ok_or("no port")?.parse()?,
        tls: arguments.next().map(|authority| TlsOptions {
            ca_file: Some(authority.into()),
        }),
        ..ConnectionOptions::default()
    };
    let mut driver = Driver {
        connection,
        worker: None,
    };
    for line in std::io::stdin().lock().lines() {
        let request: Json = serde_json::from_str(&line?)?;
        let reply = match driver.answer(&request) {
            Ok(result) => json!({"id": request["id"], "result": result}),
            Err(error) => json!({"id": request["id"], "error": error.to_string()}),
        };
        println!("{reply}");
    }
    Ok(())
}

struct Driver {
    connection: ConnectionOptions,
    worker: Option<(Worker, JoinHandle<bunqueue_client::Result<()>>)>,
}

impl Driver {
    fn answer(&mut self, request: &Json) -> Outcome<Json> {
        let queue_name = request["queue"].as_str().unwrap_or_default();
        let queue = Queue::new(queue_name, self.connection.clone());
        Ok(match request["op"].as_str().unwrap_or_default() {
            "add" => {
                let name = text(&request["name"]);
                let options = job_options(&request["options"]);
                json!(queue.add(name, untag(&request["data"])?, options)?.id())
            }
            "add_bulk" => {
                let mut entries = Vec::new();
                for job in request["jobs"].as_array().ok_or("no jobs")? {
                    entries.push(BulkEntry {
                        name: text(&job["name"]),
                        data: untag(&job["data"])?,
                        options: job_options(&job["options"]),
                    });
                }
                json!(queue.add_bulk(entries)?)
            }
            "job" => describe(&queue, &text(&request["job"]))?,
            "counts" => json!(queue.get_job_counts()?),
            "work" => {
                self.work(queue_name, request);
                Json::Null
            }
            "stop" => {
                let (worker, thread) = self.worker.take().ok_or("no worker")?;
                worker.stop();
                thread.join().map_err(|_| "the worker panicked")??;
                Json::Null
            }
            other => features::answer(other, &queue, &self.connection, request)?,
        })
    }

    fn work(&mut self, queue: &str, request: &Json) {
        let options = WorkerOptions {
            connection: self.connection.clone(),
            concurrency: request["concurrency"].as_u64().unwrap_or(4) as usize,
            poll_timeout_ms: 500,
            lock_ttl_ms: request["lock_ttl"].as_i64().unwrap_or(30_000),
            heartbeat_interval: Some(Duration::from_millis(
                request["heartbeat"].as_u64().unwrap_or(10_000),
            )),
            ..WorkerOptions::default()
        };
        let holding = request["holding"] == true;
        let worker = Worker::new(queue, move |job| process(&job, holding), options);
        let running = worker.clone();
        self.worker = Some((worker, thread::spawn(move || running.run())));
    }
}

fn process(job: &Job, holding: bool) -> Result<Value, ProcessError> {
    let data = tag(&job.data());
    println!(
        "{}",
        json!({
            "event": "started", "job": job.id(), "name": field(job, "name"),
            "attempts": job.attempts_made(), "data": data,
        })
    );
    if holding {
        loop {
            thread::park();
        }
    }
    if data["fails"] == "once" && fails_first(job.id()) {
        return Err(ProcessError::retryable("planned failure"));
    }
    if job.attempts_made() < data["failures"].as_i64().unwrap_or(0) {
        let attempt = job.attempts_made() + 1;
        return Err(ProcessError::retryable(format!(
            "planned failure {attempt}"
        )));
    }
    let n = data["n"].as_i64().unwrap_or(0);
    let result = json!({"n": data["n"], "double": n * 2, "by": "rust"});
    println!(
        "{}",
        json!({"event": "done", "job": job.id(), "result": result})
    );
    untag(&result).map_err(|error| ProcessError::unrecoverable(error.to_string()))
}

/// Whether it is asked for this job for the first time.
fn fails_first(job: String) -> bool {
    static FAILED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    failed.insert(job)
}

fn describe(queue: &Queue, id: &str) -> Outcome<Json> {
    let job = queue.get_job(id)?.ok_or("no such job")?;
    Ok(json!({
        "state": queue.get_state(id)?,
        "attempts": job.attempts_made(),
        "data": field(&job, "data"),
        "result": tag(&queue.get_result(id)?),
        "failedReason": field(&job, "failedReason"),
    }))
}

/// A member of the job as it came.
fn field(job: &Job, name: &str) -> Json {
    job.raw()
        .iter()
        .find(|(key, _)| key.as_str() == Some(name))
        .map_or(Json::Null, |(_, value)| tag(value))
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn job_options(options: &Json) -> JobOptions {
    JobOptions {
        priority: options["priority"].as_i64(),
        delay: options["delay"].as_i64(),
        attempts: options["attempts"].as_i64(),
        backoff: options["backoff"].as_i64().map(Backoff::Milliseconds),
        job_id: options["job_id"].as_str().map(str::to_owned),
        ..JobOptions::default()
    }
}

fn tag(value: &Value) -> Json {
    match value {
        Value::Nil | Value::Ext(..) => Json::Null,
        Value::Boolean(value) => json!(value),
        Value::Integer(value) => match (value.as_u64(), value.as_i64()) {
            (Some(value), _) if value <= SAFE => json!(value),
            (None, Some(value)) if value.unsigned_abs() <= SAFE => json!(value),
            _ => json!({"$int": value.to_string()}),
        },
        Value::F32(value) => json!(value),
        Value::F64(value) if *value == 0.0 && value.is_sign_negative() => json!({"$float": "-0"}),
        Value::F64(value) => json!(value),
        Value::String(value) => json!(value.as_str()),
        Value::Binary(value) => json!({"$bytes": BASE64.encode(value)}),
        Value::Array(items) => items.iter().map(tag).collect(),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, value)| (key.as_str().unwrap_or_default().to_owned(), tag(value)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

fn untag(value: &Json) -> Outcome<Value> {
    Ok(match value {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::from(*value),
        Json::Number(value) => match (value.as_u64(), value.as_i64(), value.as_f64()) {
            (Some(value), _, _) => Value::from(value),
            (_, Some(value), _) => Value::from(value),
            (_, _, value) => Value::from(value.ok_or("not a number")?),
        },
        Json::String(value) => Value::from(value.as_str()),
        Json::Array(items) => Value::Array(items.iter().map(untag).collect::<Outcome<_>>()?),
        Json::Object(entries) => match entries.iter().next() {
            Some((key, value)) if entries.len() == 1 && key == "$bytes" => {
                Value::Binary(BASE64.decode(text(value))?)
            }
            Some((key, value)) if entries.len() == 1 && key == "$float" => {
                Value::F64(text(value).parse()?)
            }
            Some((key, value)) if entries.len() == 1 && key == "$int" => {
                match text(value).parse::<i64>() {
                    Ok(value) => Value::from(value),
                    Err(_) => Value::from(text(value).parse::<u64>()?),
                }
            }
            _ => Value::Map(
                entries
                    .iter()
                    .map(|(key, value)| Ok((Value::from(key.as_str()), untag(value)?)))
                    .collect::<Outcome<_>>()?,
            ),
        },
    })
}
