//! Adding jobs.

use super::{Execute, Outcome};
use crate::command::QueueName;
use crate::command::flow::annotate;
use crate::engine::Progressing::Done;
use crate::engine::{Engine, NewJob, Turn};

/// Adds one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Add {
    /// Where to.
    pub queue: QueueName,
    /// The job.
    pub job: NewJob,
}

impl Execute for Add {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let queue = self.queue.shared();
        Ok(Done(engine.add(turn, &queue, self.job, annotate)?))
    }
}

/// Adds several jobs, in order, all or none.
#[derive(Clone, Debug, PartialEq)]
pub struct AddMany {
    /// Where to.
    pub queue: QueueName,
    /// The jobs.
    pub jobs: Vec<NewJob>,
}

impl Execute for AddMany {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let queue = self.queue.shared();
        Ok(Done(engine.add_many(turn, &queue, self.jobs, annotate)?))
    }
}
