//! Changes to one job.

use super::{Execute, Outcome};
use crate::command::{ArgumentError, QueueName, bounds, flow};
use crate::engine::Progressing::Done;
use crate::engine::{Engine, JobId, JobLinks, Payload, TokenGiven, Turn};

/// Deletes a job that has not started.
#[derive(Clone, Debug, PartialEq)]
pub struct Cancel {
    /// The job.
    pub id: JobId,
}

impl Execute for Cancel {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.cancel(turn, &self.id)))
    }
}

/// Moves a queued or active job to the dead-letter queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Discard {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery, for an active one.
    pub token: TokenGiven,
}

impl Execute for Discard {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.discard(turn, &self.id, self.token)?))
    }
}

/// Replaces the data of a queued or active job.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateData {
    /// The job.
    pub id: JobId,
    /// The new data.
    pub data: Option<Payload>,
}

impl Execute for UpdateData {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let bytes = self.data.as_ref().map_or(0, |data| data.bytes().len());
        if bytes > bounds::UPDATE_MAX {
            return Err(ArgumentError::UpdateTooLarge.into());
        }
        // A job of a flow keeps the ties that its data names.
        let links = engine.links(turn, &self.id).filter(JobLinks::is_flow);
        let data = match (links, engine.is_live(&self.id)) {
            (Some(links), true) => Some(flow::update(&links, self.data.as_ref())?),
            _ => self.data,
        };
        Ok(Done(engine.update_data(turn, &self.id, data)))
    }
}

/// Changes the priority of a queued job.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangePriority {
    /// The job.
    pub id: JobId,
    /// Finite.
    pub priority: f64,
    /// New lifo flag; `None` keeps it.
    pub lifo: Option<bool>,
}

impl Execute for ChangePriority {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.change_priority(
            turn,
            &self.id,
            self.priority,
            self.lifo,
        )))
    }
}

/// Sets the run time of a queued job, or takes an active one back until then.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeDelay {
    /// The job.
    pub id: JobId,
    /// Ms from now; negative means ready now, ahead of others. Finite.
    pub delay: f64,
    /// Proof of the delivery, for an active one.
    pub token: TokenGiven,
}

impl Execute for ChangeDelay {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(
            engine.change_delay(turn, &self.id, self.delay, self.token)?,
        ))
    }
}

/// Makes a delayed job ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Promote {
    /// The job.
    pub id: JobId,
}

impl Execute for Promote {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.promote(turn, &self.id)))
    }
}

/// Makes delayed jobs of a queue ready, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct PromoteMany {
    /// The queue.
    pub queue: QueueName,
    /// At most how many; `None` means all.
    pub count: Option<usize>,
}

impl Execute for PromoteMany {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.promote_many(
            turn,
            self.queue.as_str(),
            self.count,
        )))
    }
}

/// Brings a job back to waiting: active ones without an attempt, delayed ones at once, failed ones anew.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveToWait {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery, for an active one.
    pub token: TokenGiven,
}

impl Execute for MoveToWait {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.move_to_wait(turn, &self.id, self.token)?))
    }
}

/// Puts an active job aside until its dependencies change.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveToWaitingChildren {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery.
    pub token: TokenGiven,
}

impl Execute for MoveToWaitingChildren {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.park(turn, &self.id, self.token)?))
    }
}
