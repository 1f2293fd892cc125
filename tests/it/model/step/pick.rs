//! Choices: dice, and the jobs, tokens and new jobs that a step means before it is known what exists.

use std::sync::Arc;

use bunqueue_mcp::engine::{
    Backoff, BackoffKind, Dedup, JobId, JobOptions, LockToken, Millis, NewJob, Payload, State,
    TokenGiven,
};

use super::super::reference::{Place, Reference, encode};
use super::cron::{random_repeat, repeats};
use super::family::{id, set_policy};
use super::{Kin, Scene};

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

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub fn maybe<T: Copy>(&mut self, percent: u64, from: &[T]) -> Option<T> {
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
    /// Waiting for others.
    Blocked(u64),
    /// Somebody's child.
    Child(u64),
    /// Somebody's parent.
    Parent(u64),
    Unknown,
}

impl Target {
    pub fn random(dice: &mut Dice, likely: fn(u64) -> Self) -> Self {
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

    pub fn resolve(self, model: &Reference) -> JobId {
        let wanted = |id: &JobId, state: State| match self {
            Self::Any(_) | Self::Unknown => true,
            Self::Active(_) => state == State::Active,
            Self::Queued(_) => state.is_queued(),
            Self::Delayed(_) => state == State::Delayed,
            Self::Failed(_) => state == State::Failed,
            Self::Completed(_) => state == State::Completed,
            Self::Blocked(_) => state == State::WaitingChildren,
            Self::Child(_) => model.job(id).is_some_and(|job| job.ties.parent.is_some()),
            Self::Parent(_) => model
                .job(id)
                .is_some_and(|job| !job.ties.children.is_empty()),
        };
        let number = match self {
            Self::Unknown => return JobId::from_text("nobody"),
            Self::Any(number)
            | Self::Active(number)
            | Self::Queued(number)
            | Self::Delayed(number)
            | Self::Failed(number)
            | Self::Completed(number)
            | Self::Blocked(number)
            | Self::Child(number)
            | Self::Parent(number) => number as usize,
        };
        let ids = || model.jobs.iter().map(|job| &job.view.id);
        let found: Vec<&JobId> = ids()
            .filter(|id| model.state(id).is_some_and(|state| wanted(id, state)))
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
    pub fn random(dice: &mut Dice) -> Self {
        match dice.below(10) {
            0 => Self::None,
            1 => Self::Malformed,
            2 | 3 => Self::Earlier(dice.next()),
            _ => Self::Right,
        }
    }

    pub fn resolve(self, id: &JobId, scene: &Scene<'_>) -> TokenGiven {
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

/// A job to add; the fields are those of [`NewJob`], a timestamp is relative to now.
#[derive(Clone, Debug)]
pub struct Draft {
    pub custom: Option<u64>,
    pub timestamp: Option<Millis>,
    pub job: NewJob,
    pub kin: Option<Kin>,
}

impl Draft {
    pub fn random(dice: &mut Dice) -> Self {
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
                group_id: dice.maybe(50, &super::GROUPS).map(Arc::from),
                stack_trace_limit: dice.pick(&[10.0, 10.0, 2.0, 0.0]),
                keep_logs: dice.maybe(20, &[-1.0, 0.0, 2.0, 1_000.0]),
                repeat: dice.chance(25).then(|| Box::new(random_repeat(dice))),
                ..JobOptions::default()
            })
        });
        let job = NewJob {
            name: dice.pick(&["default", "send", "resize"]).into(),
            data: dice
                .maybe(80, &[1_u8, 2, 3])
                .map(|byte| match dice.chance(60) {
                    true => Payload::new(&[byte]),
                    false => encode(vec![("n".into(), byte.into())]),
                }),
            custom_id: None,
            priority: dice.pick(&[0.0, 0.0, 0.0, 0.0, 1.0, 5.0, 2.5, -1.0]),
            delay: dice.pick(&[0, 0, 0, 0, 1, 60, 2_000, 45_000, -1, -3_000]),
            timestamp: None,
            max_attempts: dice.pick(&[3, 3, 1, 2, 20]),
            lifo: dice.chance(20),
            remove_on_complete: dice.chance(15),
            remove_on_fail: dice.chance(15),
            durable: dice.chance(5),
            group_max: dice.maybe(15, &[1, 2, 4]),
            options,
            ..NewJob::default()
        };
        let timestamp = dice.maybe(15, &[0, -1, -2_000, -40_000, 1, 300]);
        Self {
            // A job that repeats has no id of its client's.
            custom: (dice.chance(30) && !repeats(&job)).then(|| dice.below(8)),
            timestamp,
            job,
            kin: None,
        }
    }

    /// One that names others.
    pub fn of_a_family(dice: &mut Dice) -> Self {
        let mut draft = Self::random(dice);
        let mut options = draft.job.options.as_deref().cloned().unwrap_or_default();
        set_policy(&mut options, dice.pick(&[0, 0, 1, 1, 2, 3, 4]));
        if dice.chance(10) {
            options.parent_id = Some("pending".into());
        }
        draft.job.options = Some(Arc::new(options));
        draft.custom = dice.chance(50).then(|| dice.below(8));
        draft.kin = Some(Kin::random(dice));
        draft
    }

    pub fn resolve(&self, scene: &Scene<'_>, queue: &str) -> NewJob {
        let links = self.kin.as_ref().map(|kin| kin.resolve(scene.model, queue));
        NewJob {
            custom_id: self.custom.map(id),
            timestamp: self.timestamp.map(|offset| scene.now + offset),
            links: links.map(Box::new),
            ..self.job.clone()
        }
    }
}
