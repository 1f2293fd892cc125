//! Dead letters, and finished jobs that run again.

use super::{Execute, Outcome};
use crate::command::QueueName;
use crate::engine::Progressing::Done;
use crate::engine::{CompletedSelection, DlqFilter, DlqSelection, Engine, JobId, Turn};

/// Lists dead letters of a queue, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct GetDlq {
    /// The queue.
    pub queue: QueueName,
    /// Which.
    pub filter: DlqFilter,
}

impl Execute for GetDlq {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.dead_letters(
            turn,
            self.queue.as_str(),
            &self.filter,
        )))
    }
}

/// Counts the dead letters of a queue by what they have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct GetDlqStats {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for GetDlqStats {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let stats = engine.dlq_stats(turn, &self.queue.shared());
        Ok(Done(Box::new(stats)))
    }
}

/// Runs dead letters again; how many did not have to be refused.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryDlq {
    /// The queue.
    pub queue: QueueName,
    /// Which.
    pub selection: DlqSelection,
}

impl Execute for RetryDlq {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.retry_dlq(
            turn,
            self.queue.as_str(),
            &self.selection,
        )))
    }
}

/// Deletes all dead letters of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct PurgeDlq {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for PurgeDlq {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.purge_dlq(turn, self.queue.as_str())))
    }
}

/// Deletes one dead letter; whether there was one.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveDlqJob {
    /// The queue.
    pub queue: QueueName,
    /// The job.
    pub id: JobId,
}

impl Execute for RemoveDlqJob {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let removed = engine.remove_dead_letter(turn, self.queue.as_str(), &self.id);
        Ok(Done(removed))
    }
}

/// Runs completed jobs again; how many did not have to be refused.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryCompleted {
    /// The queue.
    pub queue: QueueName,
    /// Which.
    pub selection: CompletedSelection,
}

impl Execute for RetryCompleted {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.retry_completed(
            turn,
            self.queue.as_str(),
            &self.selection,
        )))
    }
}
