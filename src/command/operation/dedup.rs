//! Deduplication keys.

use std::sync::Arc;

use super::{Execute, Outcome};
use crate::command::QueueName;
use crate::engine::Progressing::Done;
use crate::engine::{Engine, JobId, Turn};

/// Finds the owner of a deduplication key.
#[derive(Clone, Debug, PartialEq)]
pub struct GetDedupOwner {
    /// The queue.
    pub queue: QueueName,
    /// The key.
    pub key: Arc<str>,
}

impl Execute for GetDedupOwner {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.dedup_owner(
            turn,
            self.queue.as_str(),
            &self.key,
        )))
    }
}

/// Frees a deduplication key.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveDedupKey {
    /// The queue.
    pub queue: QueueName,
    /// The key.
    pub key: Arc<str>,
}

impl Execute for RemoveDedupKey {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(usize::from(engine.remove_dedup_key(
            turn,
            self.queue.as_str(),
            &self.key,
        ))))
    }
}

/// Frees the deduplication key of a job, if the job owns it.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveJobDedupKey {
    /// The job.
    pub id: JobId,
}

impl Execute for RemoveJobDedupKey {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.remove_job_dedup_key(turn, &self.id)))
    }
}
