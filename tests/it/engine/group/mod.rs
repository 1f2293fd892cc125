//! Section 18 and the groups of section 5, in three parts: whose turn it is, who is skipped, and who finds room.

mod limit;
mod room;
mod turn;

use bunqueue_mcp::command::{
    GetGroupActiveCount, GetGroupJobsCount, GetGroupRateLimitTtl, PauseGroup, Pull, ResumeGroup,
    SetGroupConcurrency, SetGroupRateLimit, ThrottleGroup,
};
use bunqueue_mcp::engine::{Affinity, Millis, NewJob, PullGroup, RateLimit};

use crate::world::{World, choosing, group, grouped, named, queue};

/// Jobs named like `a1`, each in the group that its first letter names; those named `-…` are in none.
fn push(world: &mut World, names: &str) {
    for name in names.split_whitespace() {
        let letter = &name[..1];
        let new = named(name);
        world.push(
            "q",
            if letter == "-" {
                new
            } else {
                grouped(new, letter)
            },
        );
    }
}

fn bounded(name: &str, of: &str, max: u64) -> NewJob {
    NewJob {
        group_max: Some(max),
        ..grouped(named(name), of)
    }
}

fn at_most(concurrency: u64) -> PullGroup {
    PullGroup {
        concurrency: Some(concurrency),
        ..PullGroup::default()
    }
}

fn per(max: u64, duration: Millis) -> PullGroup {
    PullGroup {
        limit: Some(RateLimit { max, duration }),
        ..PullGroup::default()
    }
}

fn only(affinity: Affinity) -> PullGroup {
    PullGroup {
        affinity,
        ..PullGroup::default()
    }
}

fn waiting(group: PullGroup) -> Pull {
    Pull {
        wait: 60_000,
        ..choosing("q", 1, group)
    }
}

fn pause(world: &mut World, name: &str) -> bool {
    let (queue, group) = (queue("q"), group(name));
    world.ask(PauseGroup { queue, group })
}

fn resume(world: &mut World, name: &str) -> bool {
    let (queue, group) = (queue("q"), group(name));
    world.ask(ResumeGroup { queue, group })
}

fn throttle(world: &mut World, name: &str, duration: Millis) {
    let (queue, group) = (queue("q"), group(name));
    world.ask(ThrottleGroup {
        queue,
        group,
        duration,
    });
}

fn set_rate(world: &mut World, name: &str, max: u64, duration: Millis) {
    let (queue, group) = (queue("q"), group(name));
    world.ask(SetGroupRateLimit {
        queue,
        group,
        limit: RateLimit { max, duration },
    });
}

fn set_concurrency(world: &mut World, name: &str, limit: u64) {
    let (queue, group) = (queue("q"), group(name));
    world.ask(SetGroupConcurrency {
        queue,
        group,
        limit,
    });
}

fn ttl(world: &mut World, name: &str, jobs: Option<u64>) -> Millis {
    let (queue, group) = (queue("q"), group(name));
    world.ask(GetGroupRateLimitTtl { queue, group, jobs })
}

/// Queued and active jobs of a group.
fn group_counts(world: &mut World, name: &str) -> (usize, usize) {
    let (on, group) = (queue("q"), group(name));
    let queued = world.ask(GetGroupJobsCount {
        queue: on.clone(),
        group: group.clone(),
    });
    let active = world.ask(GetGroupActiveCount { queue: on, group });
    (queued, active)
}

fn served(world: &mut World, wait: bunqueue_mcp::engine::WaiterId) -> Option<String> {
    let handed = world.handed(wait)?;
    Some(handed[0].job.id.to_string())
}
