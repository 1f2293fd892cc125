//! Groups of jobs.

use super::{Execute, Outcome, to_set, to_set_group};
use crate::command::{GroupId, QueueName};
use crate::engine::Progressing::Done;
use crate::engine::{Engine, Millis, RateLimit, Turn};

/// Counts the queued jobs of all groups of a queue, delayed ones included.
#[derive(Clone, Debug, PartialEq)]
pub struct GetGroupsJobsCount {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for GetGroupsJobsCount {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.groups_queued(turn, self.queue.as_str())))
    }
}

/// Counts the queued jobs of a group, delayed ones included.
#[derive(Clone, Debug, PartialEq)]
pub struct GetGroupJobsCount {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
}

impl Execute for GetGroupJobsCount {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = (self.queue.as_str(), self.group.as_str());
        Ok(Done(engine.group_queued(turn, queue, group)))
    }
}

/// Counts the active jobs of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct GetGroupActiveCount {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
}

impl Execute for GetGroupActiveCount {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = (self.queue.as_str(), self.group.as_str());
        Ok(Done(engine.group_active(turn, queue, group)))
    }
}

/// Gives a group its own limit of deliveries, for pulls that limit them. A window that has begun is forgotten.
#[derive(Clone, Debug, PartialEq)]
pub struct SetGroupRateLimit {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
    /// As [`crate::command::limits::group_rate`] checks it.
    pub limit: RateLimit,
}

impl Execute for SetGroupRateLimit {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = to_set_group(engine, turn, &self.queue, &self.group)?;
        engine.set_group_rate(turn, &queue, &group, self.limit);
        Ok(Done(()))
    }
}

/// Reads a group's own limit of deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct GetGroupRateLimit {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
}

impl Execute for GetGroupRateLimit {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = (self.queue.as_str(), self.group.as_str());
        Ok(Done(engine.group_rate(turn, queue, group)))
    }
}

/// Takes a group its own limit of deliveries; 1 when it had one, else 0.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveGroupRateLimit {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
}

impl Execute for RemoveGroupRateLimit {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = (self.queue.as_str(), self.group.as_str());
        Ok(Done(usize::from(
            engine.remove_group_rate(turn, queue, group),
        )))
    }
}

/// Reads for how many ms the deliveries of a group are limited; −2 when they are not.
#[derive(Clone, Debug, PartialEq)]
pub struct GetGroupRateLimitTtl {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
    /// Deliveries of the window from which on it limits; `None` means any.
    pub jobs: Option<u64>,
}

impl Execute for GetGroupRateLimitTtl {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = (self.queue.as_str(), self.group.as_str());
        Ok(Done(engine.group_rate_ttl(turn, queue, group, self.jobs)))
    }
}

/// Gives a group its own limit of active jobs, for pulls that limit them.
#[derive(Clone, Debug, PartialEq)]
pub struct SetGroupConcurrency {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
    /// As [`crate::command::limits::group_concurrency`] checks it.
    pub limit: u64,
}

impl Execute for SetGroupConcurrency {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = to_set_group(engine, turn, &self.queue, &self.group)?;
        engine.set_group_concurrency(turn, &queue, &group, self.limit);
        Ok(Done(()))
    }
}

/// Reads a group's own limit of active jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct GetGroupConcurrency {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
}

impl Execute for GetGroupConcurrency {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = (self.queue.as_str(), self.group.as_str());
        Ok(Done(engine.group_concurrency(turn, queue, group)))
    }
}

/// Takes a group its own limit of active jobs; 1 when it had one, else 0.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveGroupConcurrency {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
}

impl Execute for RemoveGroupConcurrency {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = (self.queue.as_str(), self.group.as_str());
        Ok(Done(usize::from(
            engine.remove_group_concurrency(turn, queue, group),
        )))
    }
}

/// Stops handing out jobs of a group; whether that is a change.
#[derive(Clone, Debug, PartialEq)]
pub struct PauseGroup {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
}

impl Execute for PauseGroup {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = to_set_group(engine, turn, &self.queue, &self.group)?;
        let changed = engine.pause_group(turn, &queue, &group);
        Ok(Done(changed))
    }
}

/// Hands out jobs of a group again; whether that is a change.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumeGroup {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
}

impl Execute for ResumeGroup {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = (self.queue.as_str(), self.group.as_str());
        Ok(Done(engine.resume_group(turn, queue, group)))
    }
}

/// Reads whether a group is paused.
#[derive(Clone, Debug, PartialEq)]
pub struct IsGroupPaused {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
}

impl Execute for IsGroupPaused {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = (self.queue.as_str(), self.group.as_str());
        Ok(Done(engine.is_group_paused(turn, queue, group)))
    }
}

/// Hands out no job of a group for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrottleGroup {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupId,
    /// Ms from now, as [`crate::command::limits::throttle`] checks it.
    pub duration: Millis,
}

impl Execute for ThrottleGroup {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let (queue, group) = to_set_group(engine, turn, &self.queue, &self.group)?;
        engine.throttle_group(turn, &queue, &group, self.duration);
        Ok(Done(()))
    }
}

/// Says whether jobs of no group take their turn like those of one more group. Unless they do, they go before all groups,
/// and a steady stream of them keeps groups waiting for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct SetUngroupedInTurn {
    /// The queue.
    pub queue: QueueName,
    /// Whether they do.
    pub in_turn: bool,
}

impl Execute for SetUngroupedInTurn {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let queue = if self.in_turn {
            to_set(engine, turn, &self.queue)?
        } else {
            self.queue.shared()
        };
        engine.set_ungrouped_in_turn(turn, &queue, self.in_turn);
        Ok(Done(()))
    }
}

/// Reads whether jobs of no group take their turn.
#[derive(Clone, Debug, PartialEq)]
pub struct IsUngroupedInTurn {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for IsUngroupedInTurn {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let in_turn = engine.is_ungrouped_in_turn(turn, self.queue.as_str());
        Ok(Done(in_turn))
    }
}
