//! The worker of `docs/start/first-worker.md`, which a test compares with this: it must compile.

use bunqueue_client::{Job, ProcessError, Value, Worker, WorkerOptions};

fn send(job: Job) -> Result<Value, ProcessError> {
    println!("sending {}", job.id());
    Ok(Value::from("sent"))
}

fn main() -> bunqueue_client::Result<()> {
    let options = WorkerOptions {
        concurrency: 4,
        ..WorkerOptions::default()
    };
    Worker::new("email", send, options).run()
}
