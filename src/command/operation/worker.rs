//! The registry of workers.

use std::sync::Arc;

use super::{Execute, Outcome};
use crate::command::draft::labels;
use crate::command::{ArgumentError, QueueName, bounds};
use crate::engine::Progressing::Done;
use crate::engine::{Engine, Turn, WorkerFigures, WorkerRegistration, WorkerStats, WorkerView};

/// Registers a worker, or updates it.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterWorker {
    /// What it says of itself.
    pub worker: WorkerRegistration,
}

impl Execute for RegisterWorker {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        check(&self.worker)?;
        Ok(Done(Box::new(engine.register_worker(turn, self.worker)?)))
    }
}

/// Whatever a worker says of itself is kept, and shown to everybody.
fn check(worker: &WorkerRegistration) -> Result<(), ArgumentError> {
    for (field, text) in [
        ("workerId", worker.id.as_ref()),
        ("name", Some(&worker.name)),
        ("hostname", worker.hostname.as_ref()),
    ] {
        let text = text.map_or("", |text| text);
        bounds::at_most(field, text, bounds::WORKER_TEXT_MAX)?;
    }
    labels("queues", &worker.queues)
}

/// A worker's sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerHeartbeat {
    /// Its id.
    pub id: Arc<str>,
    /// Its figures.
    pub figures: WorkerFigures,
}

impl Execute for WorkerHeartbeat {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.worker_heartbeat(turn, &self.id, self.figures)))
    }
}

/// Forgets a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct UnregisterWorker {
    /// Its id.
    pub id: Arc<str>,
}

impl Execute for UnregisterWorker {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.unregister_worker(turn, &self.id)))
    }
}

/// Lists workers with totals.
#[derive(Clone, Debug, PartialEq)]
pub struct ListWorkers;

impl Execute for ListWorkers {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (list, stats) = engine.workers(turn);
        Ok(Done(Workers { list, stats }))
    }
}

/// Lists the workers that say they serve a queue, with totals over them alone.
#[derive(Clone, Debug, PartialEq)]
pub struct ListQueueWorkers {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for ListQueueWorkers {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (list, stats) = engine.workers_of(turn, self.queue.as_str());
        Ok(Done(Workers { list, stats }))
    }
}

/// Registered workers with their totals.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// In order of registration.
    pub list: Vec<WorkerView>,
    /// Over all of them.
    pub stats: WorkerStats,
}
