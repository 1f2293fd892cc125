//! Steps about dead letters, settings of queues and jobs that run again.

use bunqueue_mcp::command::{
    Command, GetDlq, GetDlqConfig, GetDlqStats, GetStallConfig, PurgeDlq, QueueName, RemoveDlqJob,
    RetryCompleted, RetryDlq, SetDlqConfig, SetStallConfig,
};
use bunqueue_mcp::engine::{
    CompletedSelection, DlqConfigUpdate, DlqFilter, DlqSelection, FailureReason, Millis,
    StallConfigUpdate,
};

use super::super::reference::Place;
use super::{Dice, Scene, Target};

/// A command of this family before its jobs are known.
#[derive(Clone, Debug)]
pub enum Recover {
    List(Filter),
    RetryOne(Target),
    RetryMany(Filter),
    Purge,
    Remove(Target),
    Stats,
    RunOne(Target),
    /// How long ago at least, how many.
    RunMany(Option<Millis>, Option<usize>),
    Dlq(DlqConfigUpdate),
    Stall(StallConfigUpdate),
    Read(bool),
}

/// A filter with times that lie so long ago, and a letter behind which it begins.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    rest: DlqFilter,
    older_than: Option<Millis>,
    newer_than: Option<Millis>,
    after: Option<Target>,
}

impl Filter {
    fn random(dice: &mut Dice) -> Self {
        let ago = [0, 1, 5_000, 100_000];
        let reasons = [
            FailureReason::MaxAttemptsExceeded,
            FailureReason::Stalled,
            FailureReason::TtlExpired,
            FailureReason::Unknown,
        ];
        Self {
            rest: DlqFilter {
                reason: dice.maybe(30, &reasons),
                retriable: dice.chance(20),
                expired: dice.chance(5),
                offset: dice.pick(&[0, 0, 1, 2]),
                limit: dice.maybe(50, &[0, 1, 1, 2, 20]),
                ..DlqFilter::default()
            },
            older_than: dice.maybe(20, &ago),
            newer_than: dice.maybe(20, &ago),
            after: dice
                .chance(20)
                .then(|| Target::random(dice, Target::Failed)),
        }
    }

    fn resolve(&self, scene: &Scene<'_>) -> DlqFilter {
        let after = self.after.and_then(|target| {
            let job = scene.model.job(&target.resolve(scene.model))?;
            match &job.place {
                Place::Failed(failure) => Some(failure.seq),
                _ => None,
            }
        });
        DlqFilter {
            older_than: self.older_than.map(|ago| scene.now - ago),
            newer_than: self.newer_than.map(|ago| scene.now - ago),
            after,
            ..self.rest
        }
    }
}

impl Recover {
    pub fn random(dice: &mut Dice) -> Self {
        match dice.below(24) {
            0..2 => Self::List(Filter::random(dice)),
            2..5 => Self::RetryOne(Target::random(dice, Target::Failed)),
            5..7 => Self::RetryMany(Filter::random(dice)),
            7 if dice.chance(30) => Self::Purge,
            7 | 8 => Self::Remove(Target::random(dice, Target::Failed)),
            9 => Self::Stats,
            10..13 => Self::RunOne(Target::random(dice, Target::Completed)),
            13 => Self::RunMany(dice.maybe(50, &[0, 5_000]), dice.maybe(70, &[0, 1, 2])),
            14..19 => Self::Dlq(dlq_update(dice)),
            19..22 => Self::Stall(stall_update(dice)),
            _ => Self::Read(dice.chance(50)),
        }
    }

    pub fn resolve(&self, queue: QueueName, scene: &Scene<'_>) -> Command {
        let id = |target: &Target| target.resolve(scene.model);
        match self {
            Self::List(filter) => {
                let filter = filter.resolve(scene);
                GetDlq { queue, filter }.into()
            }
            Self::RetryOne(target) => {
                let selection = DlqSelection::One(id(target));
                RetryDlq { queue, selection }.into()
            }
            Self::RetryMany(filter) => {
                let selection = DlqSelection::Matching(filter.resolve(scene));
                RetryDlq { queue, selection }.into()
            }
            Self::Purge => PurgeDlq { queue }.into(),
            Self::Remove(target) => {
                let id = id(target);
                RemoveDlqJob { queue, id }.into()
            }
            Self::Stats => GetDlqStats { queue }.into(),
            Self::RunOne(target) => {
                let selection = CompletedSelection::One(id(target));
                RetryCompleted { queue, selection }.into()
            }
            Self::RunMany(ago, limit) => {
                let selection = CompletedSelection::Oldest {
                    until: ago.map(|ago| scene.now - ago),
                    limit: *limit,
                };
                RetryCompleted { queue, selection }.into()
            }
            Self::Dlq(update) => {
                let update = *update;
                SetDlqConfig { queue, update }.into()
            }
            Self::Stall(update) => {
                let update = *update;
                SetStallConfig { queue, update }.into()
            }
            Self::Read(true) => GetDlqConfig { queue }.into(),
            Self::Read(false) => GetStallConfig { queue }.into(),
        }
    }
}

fn dlq_update(dice: &mut Dice) -> DlqConfigUpdate {
    DlqConfigUpdate {
        auto_retry: dice.maybe(60, &[true, true, false]),
        auto_retry_interval: dice.maybe(40, &[0, 1, 50, 3_000, 3_600_000]),
        max_auto_retries: dice.maybe(30, &[0, 1, 2, 3, 3, 9]),
        max_age: dice.maybe(30, &[None, Some(0), Some(200), Some(9_000), Some(600_000)]),
        max_entries: dice.maybe(20, &[1, 3, 8, 8]),
    }
}

fn stall_update(dice: &mut Dice) -> StallConfigUpdate {
    StallConfigUpdate {
        enabled: dice.maybe(50, &[true, true, false]),
        stall_interval: dice.maybe(40, &[0.0, 100.0, 7_000.5, 30_000.0, -3.0]),
        max_stalls: dice.maybe(30, &[0.0, 1.0, 1.5, 3.0, -1.0]),
        grace_period: dice.maybe(30, &[0.0, 5_000.0, 20_000.0, -9.0]),
    }
}
