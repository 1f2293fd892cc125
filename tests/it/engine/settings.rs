//! What is set for queues and groups stays without jobs, so how many may have settings is bounded.

use bunqueue_mcp::command::{
    ClearConcurrency, Obliterate, Operation, Pause, PauseGroup, Resume, ResumeGroup,
    SetConcurrency, SetDlqConfig, SetGroupConcurrency, SetGroupRateLimit, SetRateLimit,
    SetStallConfig, SetUngroupedInTurn, ThrottleGroup,
};
use bunqueue_mcp::engine::{Config, DlqConfigUpdate, RateLimit, StallConfigUpdate};

use crate::world::{World, group, queue};

const FULL: &str = "Too many queues with settings of their own (max 2)";
const GROUPS_FULL: &str = "Too many groups with settings of their own (max 2)";
const RATE: RateLimit = RateLimit {
    max: 1,
    duration: 1_000,
};

fn small() -> World {
    World::with(Config {
        settings_max: 2,
        ..Config::default()
    })
}

fn pause(on: &str) -> Pause {
    Pause { queue: queue(on) }
}

fn cap(on: &str) -> SetConcurrency {
    let queue = queue(on);
    SetConcurrency { queue, limit: 1 }
}

fn rate(on: &str) -> SetRateLimit {
    SetRateLimit {
        queue: queue(on),
        limit: RATE,
        ttl: Some(100),
    }
}

fn dlq(on: &str, auto_retry: bool) -> SetDlqConfig {
    let update = DlqConfigUpdate {
        auto_retry: Some(auto_retry),
        ..DlqConfigUpdate::default()
    };
    let queue = queue(on);
    SetDlqConfig { queue, update }
}

fn stall(on: &str) -> SetStallConfig {
    let update = StallConfigUpdate {
        enabled: Some(false),
        ..StallConfigUpdate::default()
    };
    let queue = queue(on);
    SetStallConfig { queue, update }
}

fn in_turn(on: &str, in_turn: bool) -> SetUngroupedInTurn {
    let queue = queue(on);
    SetUngroupedInTurn { queue, in_turn }
}

fn pause_group(on: &str, name: &str) -> PauseGroup {
    let (queue, group) = (queue(on), group(name));
    PauseGroup { queue, group }
}

/// One after the other fills the second place; while it does, a third queue is refused.
fn fills(world: &mut World, set: impl Operation, reset: impl FnOnce(&mut World)) {
    world.try_ask(set).expect("there is room for it");
    world.check();
    assert_eq!(world.refusal(pause("third")), FULL);
    reset(world);
    world.check();
    world.ask(pause("third"));
    world.ask(Resume {
        queue: queue("third"),
    });
}

#[test]
fn as_many_queues_have_settings_as_may() {
    let mut world = small();
    world.ask(pause("first"));
    let clear = |world: &mut World| world.ask(ClearConcurrency { queue: queue("q") });
    fills(&mut world, cap("q"), clear);
    fills(&mut world, rate("q"), |world| world.sleep(100));
    fills(&mut world, dlq("q", true), |world| {
        world.ask(dlq("q", false));
    });
    fills(&mut world, in_turn("q", true), |world| {
        world.ask(in_turn("q", false));
    });
    fills(&mut world, stall("q"), |world| {
        world.ask(Obliterate { queue: queue("q") });
    });
    // Whoever has settings may get more.
    world.ask(stall("second"));
    world.ask(pause("second"));
    world.ask(rate("first"));
    for refused in [
        world.refusal(cap("third")),
        world.refusal(rate("third")),
        world.refusal(dlq("third", true)),
        world.refusal(stall("third")),
        world.refusal(in_turn("third", true)),
    ] {
        assert_eq!(refused, FULL);
    }
}

#[test]
fn as_many_groups_have_settings_as_may() {
    let mut world = small();
    world.ask(pause_group("q", "a"));
    world.ask(pause_group("r", "a"));
    world.check();
    let of = || (queue("s"), group("a"));
    let ((queue_1, group_1), (queue_2, group_2), (queue_3, group_3)) = (of(), of(), of());
    let limit = RATE;
    let rate = SetGroupRateLimit {
        queue: queue_1,
        group: group_1,
        limit,
    };
    assert_eq!(world.refusal(rate), GROUPS_FULL);
    let cap = SetGroupConcurrency {
        queue: queue_2,
        group: group_2,
        limit: 1,
    };
    assert_eq!(world.refusal(cap), GROUPS_FULL);
    let throttle = ThrottleGroup {
        queue: queue_3,
        group: group_3,
        duration: 50,
    };
    assert_eq!(world.refusal(throttle.clone()), GROUPS_FULL);
    assert_eq!(world.refusal(pause_group("q", "b")), GROUPS_FULL);
    let (queue_q, group_a) = (queue("q"), group("a"));
    world.ask(ResumeGroup {
        queue: queue_q,
        group: group_a,
    });
    world.ask(throttle);
    world.check();
    assert_eq!(world.refusal(pause_group("q", "a")), GROUPS_FULL);
    world.sleep(50);
    world.ask(pause_group("q", "a"));
    world.ask(Obliterate { queue: queue("r") });
    world.check();
    world.ask(pause_group("q", "b"));
    world.check();
}

#[test]
fn what_is_set_has_a_name_of_bounded_length() {
    const TOO_LONG: &str = "Queue name too long (max 256 characters)";
    let mut world = World::new();
    let (long, fits) = ("é ".repeat(129), "é ".repeat(128));
    for refused in [
        world.refusal(pause(&long)),
        world.refusal(Resume {
            queue: queue(&long),
        }),
        world.refusal(cap(&long)),
        world.refusal(rate(&long)),
        world.refusal(dlq(&long, true)),
        world.refusal(stall(&long)),
        world.refusal(in_turn(&long, true)),
        world.refusal(pause_group(&long, "a")),
    ] {
        assert_eq!(refused, TOO_LONG);
    }
    world.ask(pause(&fits));
    world.ask(pause(""));
}
