//! Random steps. A step names jobs by what they are ("the third active one"), not by id, so that a list of steps keeps
//! its sense when others are cut out of it; [`Step::resolve`] turns it into a command when its turn comes.

use std::sync::Arc;

use bunqueue_mcp::command::{
    Ack, AckMany, Add, AddLog, AddMany, Cancel, ChangeDelay, ChangePriority, Clean, ClearLogs,
    Command, Discard, Drain, ExtendLock, Fail, GetCounts, GetCountsPerPriority, GetDedupOwner,
    GetJob, GetJobByCustomId, GetJobs, GetLogs, GetResult, GetState, Heartbeat, IsPaused,
    ListQueues, MoveToWait, Obliterate, Pause, Progress, Promote, PromoteMany, Pull, QueueName,
    RemoveDedupKey, RemoveJobDedupKey, Renew, Resume, UpdateData, WaitJob,
};
use bunqueue_mcp::engine::{
    Backoff, BackoffKind, Bucket, CleanState, Dedup, FailReport, JobId, JobOptions, Listing,
    LockToken, Millis, NewJob, Payload, State, TokenGiven, WaitFor,
};

use super::reference::{Place, Reference};

/// SplitMix64: enough randomness for choosing steps, and one number reproduces all of it.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn maybe<T: Copy>(&mut self, percent: u64, from: &[T]) -> Option<T> {
        self.chance(percent).then(|| self.pick(from))
    }
}

/// Which job is meant.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    Any(u64),
    Active(u64),
    Queued(u64),
    Delayed(u64),
    Failed(u64),
    Completed(u64),
    Unknown,
}

impl Target {
    fn random(dice: &mut Dice, likely: fn(u64) -> Self) -> Self {
        let number = dice.next();
        match dice.below(20) {
            0 => Self::Unknown,
            1 => Self::Active(number),
            2 => Self::Queued(number),
            3 => Self::Failed(number),
            4 => Self::Completed(number),
            5..7 => Self::Any(number),
            _ => likely(number),
        }
    }

    fn resolve(self, model: &Reference) -> JobId {
        let wanted = |state: State| match self {
            Self::Any(_) | Self::Unknown => true,
            Self::Active(_) => state == State::Active,
            Self::Queued(_) => state.is_queued(),
            Self::Delayed(_) => state == State::Delayed,
            Self::Failed(_) => state == State::Failed,
            Self::Completed(_) => state == State::Completed,
        };
        let number = match self {
            Self::Unknown => return JobId::from_text("nobody"),
            Self::Any(number)
            | Self::Active(number)
            | Self::Queued(number)
            | Self::Delayed(number)
            | Self::Failed(number)
            | Self::Completed(number) => number as usize,
        };
        let ids = || model.jobs.iter().map(|job| &job.view.id);
        let found: Vec<&JobId> = ids()
            .filter(|id| model.state(id).is_some_and(wanted))
            .collect();
        let found = if found.is_empty() {
            ids().collect()
        } else {
            found
        };
        if found.is_empty() {
            JobId::from_text("nobody")
        } else {
            found[number % found.len()].clone()
        }
    }
}

/// Which token is shown.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// That of the current delivery, or else of the last one.
    Right,
    /// None.
    None,
    /// No token looks like it.
    Malformed,
    /// One of an earlier delivery of this job, or of any other.
    Earlier(u64),
}

impl Proof {
    fn random(dice: &mut Dice) -> Self {
        match dice.below(10) {
            0 => Self::None,
            1 => Self::Malformed,
            2 | 3 => Self::Earlier(dice.next()),
            _ => Self::Right,
        }
    }

    fn resolve(self, id: &JobId, scene: &Scene<'_>) -> TokenGiven {
        let own = || {
            scene
                .tokens
                .iter()
                .rev()
                .filter(|(owner, _)| owner == id)
                .map(|(_, token)| *token)
        };
        let token = match self {
            Self::None => None,
            Self::Malformed => return TokenGiven::Malformed,
            Self::Right => match scene.model.job(id).map(|job| &job.place) {
                Some(Place::Active(active)) => active.token,
                _ => own().next(),
            },
            Self::Earlier(number) => {
                let own: Vec<LockToken> = own().collect();
                let all: Vec<LockToken> = scene.tokens.iter().map(|(_, token)| *token).collect();
                let from = if own.is_empty() { all } else { own };
                from.get(number as usize % from.len().max(1)).copied()
            }
        };
        token.map_or(TokenGiven::None, TokenGiven::Token)
    }
}

/// What steps are resolved against.
pub struct Scene<'a> {
    pub model: &'a Reference,
    pub tokens: &'a [(JobId, LockToken)],
    pub now: Millis,
}

/// A job to add; the fields are those of [`NewJob`], a timestamp is relative to now.
#[derive(Clone, Debug)]
pub struct Draft {
    pub custom: Option<u64>,
    pub timestamp: Option<Millis>,
    pub job: NewJob,
}

impl Draft {
    fn random(dice: &mut Dice) -> Self {
        let exotic = dice.chance(60);
        let options = exotic.then(|| {
            let kind = dice.pick(&[
                BackoffKind::Plain,
                BackoffKind::Fixed,
                BackoffKind::Exponential,
            ]);
            let max_delay = if kind == BackoffKind::Plain {
                None
            } else {
                dice.maybe(30, &[0.0, 1.0, 40.0, 5_000.0])
            };
            Arc::new(JobOptions {
                backoff: Backoff {
                    kind,
                    delay: dice.pick(&[0.0, 0.0, 0.3, 7.0, 1_000.0, 80_000_000.0]),
                    max_delay,
                },
                ttl: dice.maybe(20, &[0.0, 1.0, 50.0, 3_000.0, 60_000.0]),
                timeout: dice.maybe(20, &[1.0, 99.5, 2_000.0, 120_000.0]),
                stall_timeout: dice.maybe(15, &[1.0, 900.0, 90_000.0]),
                unique_key: dice.maybe(50, &["k0", "k1", "k2"]).map(Arc::from),
                dedup: Dedup {
                    ttl: dice.maybe(50, &[-5.0, 1.0, 60.0, 5_000.0, 90_000.0]),
                    extend: dice.chance(25),
                    replace: dice.chance(25),
                },
                stack_trace_limit: dice.pick(&[10.0, 10.0, 2.0, 0.0]),
                keep_logs: dice.maybe(20, &[-1.0, 0.0, 2.0, 1_000.0]),
                ..JobOptions::default()
            })
        });
        let job = NewJob {
            name: dice.pick(&["default", "send", "resize"]).into(),
            data: dice
                .maybe(80, &[1_u8, 2, 3])
                .map(|byte| Payload::new(&[byte])),
            custom_id: None,
            priority: dice.pick(&[0.0, 0.0, 0.0, 0.0, 1.0, 5.0, 2.5, -1.0]),
            delay: dice.pick(&[0, 0, 0, 0, 1, 60, 2_000, 45_000, -1, -3_000]),
            timestamp: None,
            max_attempts: dice.pick(&[3, 3, 1, 2, 20]),
            lifo: dice.chance(20),
            remove_on_complete: dice.chance(15),
            remove_on_fail: dice.chance(15),
            durable: dice.chance(5),
            options,
        };
        let timestamp = dice.maybe(15, &[0, -1, -2_000, -40_000, 1, 300]);
        Self {
            custom: dice.chance(30).then(|| dice.below(8)),
            timestamp,
            job,
        }
    }

    fn resolve(&self, now: Millis) -> NewJob {
        NewJob {
            custom_id: self
                .custom
                .map(|number| JobId::from_text(&format!("c{number}"))),
            timestamp: self.timestamp.map(|offset| now + offset),
            ..self.job.clone()
        }
    }
}

/// A command before its jobs and tokens are known.
#[derive(Clone, Debug)]
pub enum What {
    Add(u64, Box<Draft>),
    AddMany(u64, Vec<Draft>),
    Pull {
        queue: u64,
        count: usize,
        wait: Millis,
        owner: bool,
        lock_ttl: f64,
        detach: bool,
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
    List {
        queue: u64,
        buckets: Vec<Bucket>,
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
}

/// How the clock moves.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    Ms(Millis),
    /// To the engine's next deadline, or one millisecond before it.
    Deadline {
        before: bool,
    },
}

/// One step of a history.
#[derive(Clone, Debug)]
pub enum Step {
    /// The clock moves; with a tick, or noticed only by what comes next.
    Clock(Clock, bool),
    Tick,
    Do(Option<u64>, What),
    Close(u64),
    /// A wait is withdrawn.
    Withdraw(u64),
    /// Nobody will read the answer of a wait; what it is handed goes back.
    Abandon(u64),
}

pub const QUEUES: [&str; 3] = ["alpha", "beta", "gamma"];
const BUCKETS: [Bucket; 7] = [
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

impl Step {
    /// In calm histories time hardly passes, so that much happens to each job, and connections come and go.
    pub fn random(dice: &mut Dice, calm: bool) -> Self {
        match dice.below(100) {
            0..3 => Self::Clock(Clock::Ms(dice.pick(&[0, 1, 1, 10, 60])), dice.chance(50)),
            3..7 if !calm => Self::Clock(
                Clock::Ms(dice.pick(&[700, 5_000, 5_000, 31_000, 36_000])),
                dice.chance(50),
            ),
            7 if !calm => Self::Clock(
                Clock::Ms(dice.pick(&[100_000, 700_000, 4_000_000])),
                dice.chance(50),
            ),
            8..10 => Self::Clock(
                Clock::Deadline {
                    before: dice.chance(20),
                },
                dice.chance(50),
            ),
            10..18 if !calm => Self::Clock(
                Clock::Deadline {
                    before: dice.chance(20),
                },
                dice.chance(80),
            ),
            10..14 if calm => Self::Close(1 + dice.below(3)),
            18..21 => Self::Tick,
            21 | 22 => Self::Close(1 + dice.below(3)),
            23 => Self::Withdraw(dice.next()),
            24 | 25 => Self::Abandon(dice.next()),
            _ => {
                let caller = dice.chance(80).then(|| 1 + dice.below(3));
                Self::Do(caller, What::random(dice))
            }
        }
    }
}

impl What {
    fn random(dice: &mut Dice) -> Self {
        let on = dice.below(3);
        match dice.below(100) {
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
            86..93 => Self::Queue(dice.below(20) as u8, on, dice.next()),
            93 | 94 => Self::List {
                queue: on,
                buckets: (0..dice.below(4)).map(|_| dice.pick(&BUCKETS)).collect(),
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
                job: draft.resolve(scene.now),
            }
            .into(),
            Self::AddMany(on, drafts) => {
                let jobs = drafts
                    .iter()
                    .map(|draft| draft.resolve(scene.now))
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
            } => Pull {
                queue: queue(*on),
                count: *count,
                wait: *wait,
                owner: owner.then(|| "worker".into()),
                lock_ttl: *lock_ttl,
                detach: *detach,
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
                    _ => Discard { id, token }.into(),
                }
            }
            Self::One(which, target, number) => {
                on_one(*which, target.resolve(scene.model), *number)
            }
            Self::Queue(which, on, number) => on_queue(*which, queue(*on), *number),
            Self::List {
                queue: on,
                buckets,
                offset,
                limit,
                ascending,
            } => GetJobs {
                listing: Listing {
                    queue: queue(*on).shared(),
                    buckets: buckets.clone(),
                    after: None,
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
            data: number.is_multiple_of(3).then(|| Payload::new(&[9])),
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
