//! Reading and waiting.

use super::{Execute, Outcome};
use crate::command::QueueName;
use crate::engine::Progressing::Done;
use crate::engine::{Engine, JobId, Listing, Millis, Turn, WaitFor};

/// Waits for a job to end.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitJob {
    /// The job.
    pub id: JobId,
    /// What ends the wait.
    pub until: WaitFor,
    /// Ms, 0 to [`crate::command::bounds::JOB_WAIT_MAX`].
    pub timeout: Millis,
}

impl Execute for WaitJob {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(engine.wait_job(turn, &self.id, self.until, self.timeout))
    }
}

/// Reads a job.
#[derive(Clone, Debug, PartialEq)]
pub struct GetJob {
    /// The job.
    pub id: JobId,
}

impl Execute for GetJob {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.job(turn, &self.id).map(Box::new)))
    }
}

/// Finds an unfinished job by the id its client chose.
#[derive(Clone, Debug, PartialEq)]
pub struct GetJobByCustomId {
    /// That id.
    pub id: JobId,
}

impl Execute for GetJobByCustomId {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.job_by_custom_id(turn, &self.id).map(Box::new)))
    }
}

/// Reads the state of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct GetState {
    /// The job.
    pub id: JobId,
}

impl Execute for GetState {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.state(turn, &self.id)))
    }
}

/// Reads the result of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct GetResult {
    /// The job.
    pub id: JobId,
}

impl Execute for GetResult {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.result(turn, &self.id)))
    }
}

/// Lists jobs of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct GetJobs {
    /// Which.
    pub listing: Listing,
}

impl Execute for GetJobs {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.jobs(turn, &self.listing)))
    }
}

/// Counts the jobs of a queue per state.
#[derive(Clone, Debug, PartialEq)]
pub struct GetCounts {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for GetCounts {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.counts(turn, self.queue.as_str())))
    }
}

/// Counts the queued jobs of a queue: ready and delayed ones.
#[derive(Clone, Debug, PartialEq)]
pub struct GetCount {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for GetCount {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.counts(turn, self.queue.as_str()).queued()))
    }
}

/// Counts the queued jobs of a queue per priority.
#[derive(Clone, Debug, PartialEq)]
pub struct GetCountsPerPriority {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for GetCountsPerPriority {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.counts_per_priority(turn, self.queue.as_str())))
    }
}
