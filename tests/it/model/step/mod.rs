//! Random steps. A step names jobs by what they are ("the third active one"), not by id, so that a list of steps keeps
//! its sense when others are cut out of it; [`What::resolve`] turns it into a command when its turn comes.

mod cron;
mod family;
mod figures;
mod limit;
mod pick;
mod recover;
mod registry;
mod what;

use bunqueue_mcp::engine::{JobId, LockToken, Millis};

pub use family::{Flow, Kin};
pub use limit::{GROUPS, all_of};
pub use pick::{Dice, Draft, Proof, Target};
pub use registry::Errand;
pub use what::What;

use super::reference::Reference;

pub const QUEUES: [&str; 3] = ["alpha", "beta", "gamma"];

/// What steps are resolved against.
pub struct Scene<'a> {
    pub model: &'a Reference,
    pub tokens: &'a [(JobId, LockToken)],
    pub now: Millis,
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
    /// What has changed is stored.
    Commit,
    /// The process ends, and another one begins so many ms later.
    Restart(End, Millis),
}

/// How a process ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// In order: everything is stored.
    Stop,
    /// With what was stored last; the steps since have never happened.
    Crash,
}

/// What kind of history it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Time passes, and most of what happens is that it was too long.
    Busy,
    /// Time hardly passes, so that much happens to each job, and connections come and go.
    Calm,
    /// The same, and connections go with jobs in their hands, again and again.
    Stormy,
}

impl Step {
    /// A step of a history in which processes end.
    pub fn with_restarts(dice: &mut Dice, mood: Mood) -> Self {
        match dice.below(120) {
            0 => Self::Restart(End::Stop, pause(dice)),
            1 => Self::Restart(End::Crash, pause(dice)),
            2..14 => Self::Commit,
            _ => Self::random(dice, mood),
        }
    }

    pub fn random(dice: &mut Dice, mood: Mood) -> Self {
        let (calm, stormy) = (mood != Mood::Busy, mood == Mood::Stormy);
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
            14..18 if stormy => Self::Close(1 + dice.below(3)),
            26..50 if stormy => Self::Do(Some(1 + dice.below(3)), What::eager_pull(dice)),
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

fn pause(dice: &mut Dice) -> Millis {
    dice.pick(&[0, 0, 0, 1, 60, 1_000, 5_000, 36_000, 700_000, 4_000_000])
}
