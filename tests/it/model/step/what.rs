//! Commands before their jobs and tokens are known, and what they become.

use std::sync::Arc;

use bunqueue_mcp::command::{
    Ack, AckMany, Add, AddLog, AddMany, Cancel, ChangeDelay, ChangePriority, Clean, ClearLogs,
    Command, Discard, Drain, ExtendLock, Fail, GetChildrenValues, GetCounts, GetCountsPerPriority,
    GetDedupOwner, GetFlow, GetJob, GetJobByCustomId, GetJobs, GetLogs, GetResult, GetState,
    Heartbeat, IsPaused, ListQueues, MoveToWait, MoveToWaitingChildren, Obliterate, Pause,
    Progress, Promote, PromoteMany, Pull, QueueName, RemoveChildDependency, RemoveDedupKey,
    RemoveJobDedupKey, RemoveUnprocessedChildren, Renew, Resume, UpdateData, UpdateParent, WaitJob,
};
use bunqueue_mcp::engine::{
    Bucket, CleanState, FailReport, JobId, Listing, Millis, Payload, PullGroup, State, WaitFor,
};

use super::super::reference::encode;
use super::cron::CronStep;
use super::figures::on_figures;
use super::limit::{on_group, on_limits, wish};
use super::recover::Recover;
use super::{Dice, Draft, Errand, Flow, Proof, QUEUES, Scene, Target};

/// A command before its jobs and tokens are known.
#[derive(Clone, Debug)]
pub enum What {
    Add(u64, Box<Draft>),
    AddMany(u64, Vec<Draft>),
    AddFlow(Box<Flow>),
    /// A child (or whoever) becomes the child of another job; of its own parent, if it has one and that is said.
    Link(Target, Target, bool),
    /// A command on one job of a family.
    Kin(u8, Target, u64),
    Pull {
        queue: u64,
        count: usize,
        wait: Millis,
        owner: bool,
        lock_ttl: f64,
        detach: bool,
        group: Option<PullGroup>,
    },
    Ack(Target, Proof, bool, bool),
    AckMany(Vec<(Target, Proof)>),
    Fail(Target, Proof, FailReport),
    Renew {
        extend: bool,
        items: Vec<(Target, Proof, Option<f64>)>,
    },
    /// A command on one job that shows a token.
    Move(u8, Target, Proof, f64),
    /// A command on one job.
    One(u8, Target, u64),
    /// A command on one queue.
    Queue(u8, u64, u64),
    /// A command on the limits of a queue.
    Limits(u8, u64, u64),
    /// A command on one group.
    Group(u8, u64, u64),
    /// A command about figures.
    Figures(u8, u64, u64),
    List {
        queue: u64,
        buckets: Vec<Bucket>,
        after: Option<Target>,
        offset: usize,
        limit: usize,
        ascending: bool,
    },
    Clean {
        queue: u64,
        grace: f64,
        state: CleanState,
        limit: usize,
    },
    Wait(Target, bool, Millis),
    Recover(u64, Recover),
    Registry(Errand),
    Cron(CronStep),
}

const BUCKETS: [Bucket; 8] = [
    Bucket::State(State::WaitingChildren),
    Bucket::State(State::Waiting),
    Bucket::State(State::Prioritized),
    Bucket::State(State::Delayed),
    Bucket::State(State::Active),
    Bucket::State(State::Completed),
    Bucket::State(State::Failed),
    Bucket::Paused,
];

fn queue(number: u64) -> QueueName {
    QueueName::lenient(QUEUES[number as usize % QUEUES.len()])
}

impl What {
    pub fn random(dice: &mut Dice) -> Self {
        if dice.chance(7) {
            return Self::Registry(Errand::random(dice));
        }
        let on = dice.below(3);
        match dice.below(145) {
            112..120 => Self::Cron(CronStep::random(dice)),
            120.. => Self::of_a_family(dice),
            100..112 => Self::Recover(on, Recover::random(dice)),
            0..19 => Self::Add(on, Box::new(Draft::random(dice))),
            19..22 => Self::AddMany(
                on,
                (0..dice.below(5)).map(|_| Draft::random(dice)).collect(),
            ),
            22..38 => Self::Pull {
                queue: on,
                count: dice.pick(&[1, 1, 1, 2, 5]),
                wait: dice.pick(&[0, 0, 1, 60, 5_000, 60_000]),
                owner: dice.chance(70),
                lock_ttl: dice.pick(&[
                    30_000.0, 30_000.0, 30_000.0, 1_000.0, 1_000.0, 40.0, 1.0, 500_000.0,
                ]),
                detach: dice.chance(10),
                group: wish(dice),
            },
            38..47 => {
                let (target, proof) = (Target::random(dice, Target::Active), Proof::random(dice));
                Self::Ack(target, proof, dice.chance(70), dice.chance(15))
            }
            47..50 => {
                let count = 1 + dice.below(3);
                Self::AckMany(
                    (0..count)
                        .map(|_| (Target::random(dice, Target::Active), Proof::random(dice)))
                        .collect(),
                )
            }
            50..60 => Self::Fail(
                Target::random(dice, Target::Active),
                Proof::random(dice),
                report(dice),
            ),
            60..65 => Self::Renew {
                extend: dice.chance(50),
                items: (0..1 + dice.below(3))
                    .map(|_| {
                        let duration = dice.maybe(40, &[1.0, 500.0, 60_000.0]);
                        (
                            Target::random(dice, Target::Active),
                            Proof::random(dice),
                            duration,
                        )
                    })
                    .collect(),
            },
            65..72 => {
                let which = dice.below(3) as u8;
                let likely = dice.pick(&[
                    Target::Active as fn(u64) -> Target,
                    Target::Queued,
                    Target::Failed,
                ]);
                let delay = dice.pick(&[0.0, 1.0, 0.5, 70.0, 20_000.0, -4_000.0]);
                Self::Move(
                    which,
                    Target::random(dice, likely),
                    Proof::random(dice),
                    delay,
                )
            }
            72..86 => {
                let likely = dice.pick(&[
                    Target::Queued as fn(u64) -> Target,
                    Target::Delayed,
                    Target::Active,
                ]);
                Self::One(
                    dice.below(13) as u8,
                    Target::random(dice, likely),
                    dice.next(),
                )
            }
            86..89 => Self::Queue(dice.below(20) as u8, on, dice.next()),
            89 => Self::Figures(dice.below(10) as u8, on, dice.next()),
            90 | 91 => Self::Limits(dice.below(10) as u8, on, dice.next()),
            92 => Self::Group(dice.below(12) as u8, on, dice.next()),
            93 | 94 => Self::List {
                queue: on,
                buckets: (0..dice.below(4)).map(|_| dice.pick(&BUCKETS)).collect(),
                after: dice.chance(40).then(|| Target::random(dice, Target::Any)),
                offset: dice.pick(&[0, 0, 1, 7]),
                limit: dice.pick(&[0, 3, 100]),
                ascending: dice.chance(50),
            },
            95 => {
                let bucket = CleanState::Bucket(dice.pick(&BUCKETS));
                Self::Clean {
                    queue: on,
                    grace: dice.pick(&[0.0, 50.0, 5_000.0]),
                    state: if dice.chance(20) {
                        CleanState::Queued
                    } else {
                        bucket
                    },
                    limit: dice.pick(&[0, 1, 3, 1_000]),
                }
            }
            _ => {
                let likely = dice.pick(&[Target::Queued as fn(u64) -> Target, Target::Active]);
                let (target, timeout) = (
                    Target::random(dice, likely),
                    dice.pick(&[0, 100, 9_000, 100_000]),
                );
                Self::Wait(target, dice.chance(50), timeout)
            }
        }
    }

    fn of_a_family(dice: &mut Dice) -> Self {
        let on = dice.below(3);
        match dice.below(25) {
            0..5 => Self::Add(on, Box::new(Draft::of_a_family(dice))),
            5..7 => {
                let draft = |dice: &mut Dice| match dice.chance(60) {
                    true => Draft::of_a_family(dice),
                    false => Draft::random(dice),
                };
                Self::AddMany(on, (0..1 + dice.below(4)).map(|_| draft(dice)).collect())
            }
            7..13 => Self::AddFlow(Box::new(Flow::random(dice))),
            13..16 => {
                let child = dice.pick(&[
                    Target::Queued as fn(u64) -> Target,
                    Target::Completed,
                    Target::Failed,
                    Target::Child,
                ]);
                let parent = dice.pick(&[
                    Target::Queued as fn(u64) -> Target,
                    Target::Blocked,
                    Target::Parent,
                ]);
                let (child, again) = match dice.chance(40) {
                    true => (Target::Child(dice.next()), true),
                    false => (Target::random(dice, child), false),
                };
                Self::Link(child, Target::random(dice, parent), again)
            }
            16..18 => {
                let proof = Proof::random(dice);
                let likely = dice.pick(&[
                    Target::Active as fn(u64) -> Target,
                    Target::Active,
                    Target::Parent,
                ]);
                Self::Move(3, Target::random(dice, likely), proof, 0.0)
            }
            number => {
                let likely = dice.pick(&[
                    Target::Child as fn(u64) -> Target,
                    Target::Parent,
                    Target::Blocked,
                ]);
                let which = (number - 18) as u8;
                Self::Kin(which, Target::random(dice, likely), dice.next())
            }
        }
    }

    /// A pull that takes what it can get.
    pub fn eager_pull(dice: &mut Dice) -> Self {
        Self::Pull {
            queue: dice.below(3),
            count: dice.pick(&[1, 5, 20]),
            wait: dice.pick(&[0, 60_000]),
            owner: dice.chance(70),
            lock_ttl: 500_000.0,
            detach: false,
            group: wish(dice),
        }
    }

    /// The command, now that it is known what exists.
    pub fn resolve(&self, scene: &Scene<'_>) -> Command {
        let one = |target: Target, proof: Proof| {
            let id = target.resolve(scene.model);
            let token = proof.resolve(&id, scene);
            (id, token)
        };
        match self {
            Self::Add(on, draft) => Add {
                queue: queue(*on),
                job: draft.resolve(scene, queue(*on).as_str()),
            }
            .into(),
            Self::AddFlow(flow) => match flow.resolve(scene.model, scene.now) {
                Some(flow) => flow.into(),
                None => ListQueues.into(),
            },
            Self::Link(child, parent, again) => {
                let child = child.resolve(scene.model);
                let own = scene.model.job(&child).filter(|_| *again);
                let own = own.and_then(|job| job.ties.parent.clone());
                let parent = own.map_or_else(|| parent.resolve(scene.model), |own| own.id);
                UpdateParent { child, parent }.into()
            }
            Self::Kin(which, target, number) => {
                on_kin(*which, target.resolve(scene.model), *number)
            }
            Self::AddMany(on, drafts) => {
                let here = queue(*on);
                let jobs = drafts
                    .iter()
                    .map(|draft| draft.resolve(scene, here.as_str()))
                    .collect();
                AddMany {
                    queue: queue(*on),
                    jobs,
                }
                .into()
            }
            Self::Pull {
                queue: on,
                count,
                wait,
                owner,
                lock_ttl,
                detach,
                group,
            } => Pull {
                queue: queue(*on),
                count: *count,
                wait: *wait,
                locked: *owner,
                lock_ttl: *lock_ttl,
                detach: *detach,
                group: group.clone().map(Box::new),
            }
            .into(),
            Self::Ack(target, proof, result, remove_on_complete) => {
                let (id, token) = one(*target, *proof);
                let result = result.then(|| Payload::new(&[7]));
                Ack {
                    id,
                    token,
                    result,
                    remove_on_complete: *remove_on_complete,
                }
                .into()
            }
            Self::AckMany(items) => {
                let item = |(target, proof): &(Target, Proof)| {
                    let (id, token) = one(*target, *proof);
                    Ack {
                        id,
                        token,
                        result: None,
                        remove_on_complete: false,
                    }
                };
                AckMany {
                    items: items.iter().map(item).collect(),
                }
                .into()
            }
            Self::Fail(target, proof, report) => {
                let (id, token) = one(*target, *proof);
                Fail {
                    id,
                    token,
                    report: report.clone(),
                }
                .into()
            }
            Self::Renew { extend, items } => {
                let item = |(target, proof, duration): &(Target, Proof, Option<f64>)| {
                    let (id, token) = one(*target, *proof);
                    Renew {
                        id,
                        token,
                        duration: *duration,
                    }
                };
                let items = items.iter().map(item).collect();
                if *extend {
                    ExtendLock { items }.into()
                } else {
                    Heartbeat { items }.into()
                }
            }
            Self::Move(which, target, proof, delay) => {
                let (id, token) = one(*target, *proof);
                match which {
                    0 => MoveToWait { id, token }.into(),
                    1 => ChangeDelay {
                        id,
                        delay: *delay,
                        token,
                    }
                    .into(),
                    2 => Discard { id, token }.into(),
                    _ => MoveToWaitingChildren { id, token }.into(),
                }
            }
            Self::One(which, target, number) => {
                on_one(*which, target.resolve(scene.model), *number)
            }
            Self::Queue(which, on, number) => on_queue(*which, queue(*on), *number),
            Self::Limits(which, on, number) => on_limits(*which, queue(*on), *number),
            Self::Group(which, on, number) => on_group(*which, queue(*on), *number),
            Self::Figures(which, on, number) => on_figures(*which, queue(*on), *number),
            Self::List {
                queue: on,
                buckets,
                after,
                offset,
                limit,
                ascending,
            } => GetJobs {
                listing: Listing {
                    queue: queue(*on).shared(),
                    buckets: buckets.clone(),
                    after: after.map(|target| {
                        let id = target.resolve(scene.model);
                        let created_at = scene
                            .model
                            .job(&id)
                            .map_or(scene.now, |job| job.view.created_at);
                        (created_at, id)
                    }),
                    offset: *offset,
                    limit: *limit,
                    ascending: *ascending,
                },
            }
            .into(),
            Self::Clean {
                queue: on,
                grace,
                state,
                limit,
            } => Clean {
                queue: queue(*on),
                grace: *grace,
                state: *state,
                limit: *limit,
            }
            .into(),
            Self::Recover(on, recover) => recover.resolve(queue(*on), scene),
            Self::Registry(errand) => errand.resolve(scene),
            Self::Cron(step) => step.resolve(scene),
            Self::Wait(target, completion, timeout) => WaitJob {
                id: target.resolve(scene.model),
                until: if *completion {
                    WaitFor::Completed
                } else {
                    WaitFor::Outcome
                },
                timeout: *timeout,
            }
            .into(),
        }
    }
}

fn report(dice: &mut Dice) -> FailReport {
    FailReport {
        error: dice.maybe(80, &["boom", "late"]).map(Arc::from),
        stack: dice
            .chance(30)
            .then(|| ["at a", "at b", "at c"].map(Arc::from).to_vec()),
        unrecoverable: dice.chance(10),
        remove_on_fail: dice.chance(10),
    }
}

fn on_one(which: u8, id: JobId, number: u64) -> Command {
    match which {
        0 => Cancel { id }.into(),
        1 => UpdateData {
            id,
            data: match number % 5 {
                0 => None,
                1 => Some(Payload::new(&[9])),
                2 => Some(encode(vec![("n".into(), 9.into())])),
                3 => Some(encode(vec![("__x".into(), 9.into())])),
                _ => Some(encode(Vec::new())),
            },
        }
        .into(),
        2 => {
            let priority = [0.0, 4.0, -2.0][number as usize % 3];
            ChangePriority {
                id,
                priority,
                lifo: [None, Some(true), Some(false)][number as usize / 3 % 3],
            }
            .into()
        }
        3 => Promote { id }.into(),
        4 => {
            let message = number.is_multiple_of(2).then(|| "half".into());
            Progress {
                id,
                progress: [0.0, 42.0, 150.0, -3.0][number as usize % 4],
                message,
            }
            .into()
        }
        5 => AddLog {
            id,
            level: "info".into(),
            message: format!("line {}", number % 10).into(),
        }
        .into(),
        6 => GetLogs { id }.into(),
        7 => ClearLogs {
            id,
            keep: number as usize % 3,
        }
        .into(),
        8 => GetJob { id }.into(),
        9 => GetJobByCustomId { id }.into(),
        10 => GetState { id }.into(),
        11 => GetResult { id }.into(),
        _ => RemoveJobDedupKey { id }.into(),
    }
}

fn on_kin(which: u8, id: JobId, number: u64) -> Command {
    match which {
        0 => Cancel { id }.into(),
        1 | 2 => RemoveChildDependency { id }.into(),
        3 => RemoveUnprocessedChildren { id }.into(),
        4 => on_one(1, id, number),
        5 => GetChildrenValues { id }.into(),
        _ => GetFlow {
            id,
            queue: QUEUES[number as usize % QUEUES.len()].into(),
            depth: number as usize / 3 % 4,
            children: [0, 1, 2, 100][number as usize / 12 % 4],
        }
        .into(),
    }
}

fn on_queue(which: u8, queue: QueueName, number: u64) -> Command {
    let key = || ["k0", "k1", "k2"][number as usize % 3].into();
    match which {
        0 | 1 => Pause { queue }.into(),
        2..=6 => Resume { queue }.into(),
        7 => IsPaused { queue }.into(),
        8 => Drain { queue }.into(),
        9 => Obliterate { queue }.into(),
        10 => GetCountsPerPriority { queue }.into(),
        11 | 12 => ListQueues.into(),
        13 | 14 => GetDedupOwner { queue, key: key() }.into(),
        15 => RemoveDedupKey { queue, key: key() }.into(),
        16 | 17 => PromoteMany {
            queue,
            count: [None, Some(0), Some(2)][number as usize % 3],
        }
        .into(),
        _ => GetCounts { queue }.into(),
    }
}
