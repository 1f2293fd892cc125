//! Limits of a whole queue.

use super::{Execute, Outcome, to_set};
use crate::command::QueueName;
use crate::engine::Progressing::Done;
use crate::engine::{Engine, Millis, RateLimit, Turn};

/// Limits how often a queue hands out a job: a full bucket at once, then evenly. Set again, the bucket is full again.
#[derive(Clone, Debug, PartialEq)]
pub struct SetRateLimit {
    /// The queue.
    pub queue: QueueName,
    /// As [`crate::command::limits::RateLimitDraft`] checks it.
    pub limit: RateLimit,
    /// Ms after which the limit removes itself, at least 1.
    pub ttl: Option<Millis>,
}

impl Execute for SetRateLimit {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let queue = to_set(engine, turn, &self.queue)?;
        engine.set_rate_limit(turn, &queue, self.limit, self.ttl);
        Ok(Done(()))
    }
}

/// Lifts the rate limit of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct ClearRateLimit {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for ClearRateLimit {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        engine.clear_rate_limit(turn, self.queue.as_str());
        Ok(Done(()))
    }
}

/// Limits how many jobs of a queue may be active.
#[derive(Clone, Debug, PartialEq)]
pub struct SetConcurrency {
    /// The queue.
    pub queue: QueueName,
    /// As [`crate::command::limits::concurrency`] checks it; 0 blocks the queue.
    pub limit: u64,
}

impl Execute for SetConcurrency {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let queue = to_set(engine, turn, &self.queue)?;
        engine.set_concurrency(turn, &queue, self.limit);
        Ok(Done(()))
    }
}

/// Lifts the limit of active jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct ClearConcurrency {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for ClearConcurrency {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        engine.clear_concurrency(turn, self.queue.as_str());
        Ok(Done(()))
    }
}

/// Reads what limits a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct GetQueueLimits {
    /// The queue.
    pub queue: QueueName,
    /// Tokens in use from which on the rate limits; `None` means that none is left.
    pub jobs: Option<u64>,
}

impl Execute for GetQueueLimits {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let limits = engine.queue_limits(turn, self.queue.as_str(), self.jobs);
        Ok(Done(limits))
    }
}
