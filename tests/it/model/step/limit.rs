//! Steps about limits and groups.

use bunqueue_mcp::command::given::Text;
use bunqueue_mcp::command::{
    ClearConcurrency, ClearRateLimit, Command, GetGroupActiveCount, GetGroupConcurrency,
    GetGroupJobsCount, GetGroupRateLimit, GetGroupRateLimitTtl, GetGroupsJobsCount, GetQueueLimits,
    GroupId, IsGroupPaused, IsUngroupedInTurn, PauseGroup, QueueName, RemoveGroupConcurrency,
    RemoveGroupRateLimit, ResumeGroup, SetConcurrency, SetGroupConcurrency, SetGroupRateLimit,
    SetRateLimit, SetUngroupedInTurn, ThrottleGroup,
};
use bunqueue_mcp::engine::{Affinity, Millis, PullGroup, RateLimit};

use super::Dice;

pub const GROUPS: [&str; 3] = ["red", "green", "blue"];

/// What a random pull says of groups; mostly nothing.
pub fn wish(dice: &mut Dice) -> Option<PullGroup> {
    if !dice.chance(40) {
        return None;
    }
    let affinity = match dice.below(5) {
        0 => Affinity::Ungrouped,
        1 => Affinity::Group(dice.pick(&GROUPS).into()),
        _ => Affinity::Any,
    };
    Some(PullGroup {
        concurrency: dice.maybe(40, &[1, 2, 3]),
        limit: dice.maybe(40, &LIMITS),
        affinity,
    })
}

const LIMITS: [RateLimit; 4] = [
    RateLimit {
        max: 1,
        duration: 40,
    },
    RateLimit {
        max: 2,
        duration: 700,
    },
    RateLimit {
        max: 3,
        duration: 7,
    },
    RateLimit {
        max: 1,
        duration: 30_000,
    },
];

/// A command on the limits of a queue.
pub fn on_limits(which: u8, queue: QueueName, number: u64) -> Command {
    let pick = |from: &[u64]| from[number as usize % from.len()];
    match which {
        0 | 1 => {
            let mut limit = LIMITS[number as usize % LIMITS.len()];
            if number.is_multiple_of(11) {
                limit.max = 0;
            }
            let ttls: [Option<Millis>; 4] = [None, Some(30), Some(2_000), Some(40_000)];
            let ttl = ttls[number as usize / 4 % ttls.len()];
            SetRateLimit { queue, limit, ttl }.into()
        }
        2 | 3 => ClearRateLimit { queue }.into(),
        4 | 5 => {
            let limit = pick(&[1, 2, 3, 5, 0]);
            SetConcurrency { queue, limit }.into()
        }
        6 | 7 => ClearConcurrency { queue }.into(),
        8 => {
            let in_turn = !number.is_multiple_of(3);
            SetUngroupedInTurn { queue, in_turn }.into()
        }
        _ => GetQueueLimits { queue, jobs: None }.into(),
    }
}

/// A command on a group.
pub fn on_group(which: u8, queue: QueueName, number: u64) -> Command {
    let name = GROUPS[number as usize % GROUPS.len()];
    let group = GroupId::required(Text::Value(name)).expect("a good name");
    let number = number / 3;
    match which {
        0 => PauseGroup { queue, group }.into(),
        1..=3 => ResumeGroup { queue, group }.into(),
        4 | 5 => {
            let limit = LIMITS[number as usize % LIMITS.len()];
            SetGroupRateLimit {
                queue,
                group,
                limit,
            }
            .into()
        }
        6 => RemoveGroupRateLimit { queue, group }.into(),
        7 | 8 => {
            let limit = 1 + number % 3;
            SetGroupConcurrency {
                queue,
                group,
                limit,
            }
            .into()
        }
        9 => RemoveGroupConcurrency { queue, group }.into(),
        _ => {
            let duration = [1, 60, 5_000, 20_000][number as usize % 4];
            ThrottleGroup {
                queue,
                group,
                duration,
            }
            .into()
        }
    }
}

/// Everything that can be read of limits and groups of a queue.
pub fn all_of(queue: &QueueName) -> Vec<Command> {
    let mut commands: Vec<Command> = vec![
        GetGroupsJobsCount {
            queue: queue.clone(),
        }
        .into(),
        IsUngroupedInTurn {
            queue: queue.clone(),
        }
        .into(),
    ];
    for jobs in [None, Some(1), Some(3)] {
        let queue = queue.clone();
        commands.push(GetQueueLimits { queue, jobs }.into());
    }
    for name in GROUPS {
        let group = GroupId::required(Text::Value(name)).expect("a good name");
        let of = || (queue.clone(), group.clone());
        for jobs in [None, Some(2)] {
            let (queue, group) = of();
            commands.push(GetGroupRateLimitTtl { queue, group, jobs }.into());
        }
        let (queue, group) = of();
        commands.push(GetGroupJobsCount { queue, group }.into());
        let (queue, group) = of();
        commands.push(GetGroupActiveCount { queue, group }.into());
        let (queue, group) = of();
        commands.push(GetGroupRateLimit { queue, group }.into());
        let (queue, group) = of();
        commands.push(GetGroupConcurrency { queue, group }.into());
        let (queue, group) = of();
        commands.push(IsGroupPaused { queue, group }.into());
    }
    commands
}
