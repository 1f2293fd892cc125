//! Settings of a queue that outlive its jobs. Setting answers with everything that holds afterwards.

use super::{Execute, Outcome, to_set};
use crate::command::QueueName;
use crate::engine::Progressing::Done;
use crate::engine::{DlqConfigUpdate, Engine, StallConfigUpdate, Turn};

/// Reads what becomes of the dead letters of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct GetDlqConfig {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for GetDlqConfig {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.get_dlq_config(turn, self.queue.as_str())))
    }
}

/// Changes what becomes of the dead letters of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct SetDlqConfig {
    /// The queue.
    pub queue: QueueName,
    /// What to change.
    pub update: DlqConfigUpdate,
}

impl Execute for SetDlqConfig {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let queue = to_set(engine, turn, &self.queue)?;
        let config = engine.set_dlq_config(turn, &queue, &self.update);
        Ok(Done(config))
    }
}

/// Reads when a delivery of a queue counts as stalled.
#[derive(Clone, Debug, PartialEq)]
pub struct GetStallConfig {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for GetStallConfig {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.get_stall_config(turn, self.queue.as_str())))
    }
}

/// Changes when a delivery of a queue counts as stalled.
#[derive(Clone, Debug, PartialEq)]
pub struct SetStallConfig {
    /// The queue.
    pub queue: QueueName,
    /// What to change.
    pub update: StallConfigUpdate,
}

impl Execute for SetStallConfig {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let queue = to_set(engine, turn, &self.queue)?;
        let config = engine.set_stall_config(turn, &queue, &self.update);
        Ok(Done(config))
    }
}
