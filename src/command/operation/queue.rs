//! Whole queues.

use super::{Execute, Outcome, to_set};
use crate::command::QueueName;
use crate::engine::Progressing::Done;
use crate::engine::{CleanState, Engine, JobId, Turn};

/// Lists the names of all queues, in order of first use.
#[derive(Clone, Debug, PartialEq)]
pub struct ListQueues;

impl Execute for ListQueues {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.queue_names(turn)))
    }
}

/// Stops handing out jobs of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Pause {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for Pause {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let queue = to_set(engine, turn, &self.queue)?;
        engine.pause(turn, &queue);
        Ok(Done(()))
    }
}

/// Hands out jobs of a queue again.
#[derive(Clone, Debug, PartialEq)]
pub struct Resume {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for Resume {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        engine.resume(turn, &self.queue.to_keep()?);
        Ok(Done(()))
    }
}

/// Reads whether a queue is paused.
#[derive(Clone, Debug, PartialEq)]
pub struct IsPaused {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for IsPaused {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.is_paused(turn, self.queue.as_str())))
    }
}

/// Deletes every queued job of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Drain {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for Drain {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(Removed::counted(
            engine.drain(turn, self.queue.as_str()),
        )))
    }
}

/// Deletes old jobs of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Clean {
    /// The queue.
    pub queue: QueueName,
    /// Age in ms that a job must have.
    pub grace: f64,
    /// Which jobs.
    pub state: CleanState,
    /// At most how many.
    pub limit: usize,
}

impl Execute for Clean {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let ids = engine.clean(
            turn,
            self.queue.as_str(),
            self.grace,
            self.state,
            self.limit,
        );
        Ok(Done(Removed {
            count: ids.len(),
            ids,
        }))
    }
}

/// Deletes a queue with everything in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Obliterate {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for Obliterate {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(Removed::counted(
            engine.obliterate(turn, self.queue.as_str()),
        )))
    }
}

/// Jobs removed together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removed {
    /// How many.
    pub count: usize,
    /// Which; only for clean.
    pub ids: Vec<JobId>,
}

impl Removed {
    const fn counted(count: usize) -> Self {
        Self {
            count,
            ids: Vec::new(),
        }
    }
}
