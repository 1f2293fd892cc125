//! Section 9.1: when a delivery of a queue counts as stalled, as set for that queue.

use bunqueue_mcp::command::recovery::StallConfigDraft;
use bunqueue_mcp::command::{
    GetStallConfig, ListQueues, Obliterate, Pull, SetStallConfig, given::Number,
};
use bunqueue_mcp::engine::{
    Config, FailureReason, JobId, Millis, NewJob, StallConfig, StallConfigUpdate, State, TokenGiven,
};

use crate::world::{World, awaiting, given, job, pulling, queue, with};

const DAY: Millis = 86_400_000;

fn configure(
    world: &mut World,
    on: &str,
    change: impl FnOnce(&mut StallConfigUpdate),
) -> StallConfig {
    let mut update = StallConfigUpdate::default();
    change(&mut update);
    world.ask(SetStallConfig {
        queue: queue(on),
        update,
    })
}

/// A world in which silence shows after so many ms, without grace and confirmation.
fn strict(interval: f64) -> World {
    let mut world = World::with(Config {
        stall_check: 0,
        ..Config::default()
    });
    configure(&mut world, "q", |update| {
        update.stall_interval = Some(interval);
        update.grace_period = Some(0.0);
    });
    world
}

fn taken(world: &mut World, job: NewJob) -> JobId {
    let id = world.push("q", job);
    world.pull("q").expect("ready");
    id
}

fn stalls(world: &mut World, id: &JobId) -> u32 {
    world.detail(id).job.stall_count
}

#[test]
fn sl_10_default_configuration() {
    let mut world = World::new();
    let config = world.ask(GetStallConfig { queue: queue("q") });
    let expected = StallConfig {
        enabled: true,
        stall_interval: 30_000.0,
        max_stalls: 3.0,
        grace_period: 5_000.0,
    };
    assert_eq!(config, expected);
    assert_eq!(world.ask(ListQueues).len(), 0, "reading makes no queue");
}

#[test]
fn updates_merge_and_junk_is_ignored() {
    let mut world = World::new();
    let draft = StallConfigDraft {
        enabled: Some(false),
        stall_interval: Number::from_text("15000"),
        max_stalls: Number::Value(5.0),
        grace_period: Number::NotNumber,
    };
    let config = configure(&mut world, "q", |update| *update = draft.normalised());
    let expected = StallConfig {
        enabled: false,
        stall_interval: 15_000.0,
        max_stalls: 5.0,
        grace_period: 5_000.0,
    };
    assert_eq!(config, expected);
    let draft = StallConfigDraft {
        grace_period: Number::from_text("x"),
        ..StallConfigDraft::default()
    };
    let config = configure(&mut world, "q", |update| *update = draft.normalised());
    assert_eq!(config, expected);
    assert_eq!(world.ask(GetStallConfig { queue: queue("q") }), expected);
    let other = world.ask(GetStallConfig {
        queue: queue("other"),
    });
    assert!(other.enabled, "each queue has its own");
}

#[test]
fn settings_keep_the_name_of_a_queue_until_they_are_the_usual_ones() {
    let mut world = World::new();
    configure(&mut world, "q", |update| update.max_stalls = Some(9.0));
    world.sleep(DAY);
    assert_eq!(world.ask(ListQueues).len(), 1);
    configure(&mut world, "q", |update| update.max_stalls = Some(3.0));
    world.sleep(DAY);
    assert_eq!(world.ask(ListQueues).len(), 0);
    configure(&mut world, "q", |update| update.enabled = Some(false));
    world.wait(awaiting("q", 1_000));
    world.ask(Obliterate { queue: queue("q") });
    assert!(world.ask(GetStallConfig { queue: queue("q") }).enabled);
}

#[test]
fn sl_5_nothing_stalls_where_that_is_switched_off() {
    let mut world = strict(10.0);
    configure(&mut world, "q", |update| update.enabled = Some(false));
    let id = taken(&mut world, job());
    assert_eq!(world.next_deadline(), None, "nothing is waited for");
    world.sleep(DAY);
    assert_eq!(world.state(&id), Some(State::Active));
    // A lock runs out all the same.
    let locked = world.push("q", job());
    world.pull_lock("q", 1_000.0).expect("ready");
    world.sleep(1_000);
    assert_eq!(stalls(&mut world, &locked), 1);
}

#[test]
fn sl_5_own_time_of_a_job_comes_before_that_of_the_queue() {
    let mut world = strict(10.0);
    let patient = with(job(), |options| options.stall_timeout = Some(60_000.0));
    let id = taken(&mut world, patient);
    world.sleep(60_000);
    assert_eq!(world.state(&id), Some(State::Active));
    world.sleep(1);
    assert_eq!(stalls(&mut world, &id), 1);
}

#[test]
fn sl_9_delivery_that_nobody_gives_back_is_taken_back() {
    let mut world = strict(1_000.0);
    let id = world.push("q", job());
    world.as_connection(1).ask(Pull {
        detach: true,
        ..pulling("q")
    });
    world.close(1);
    assert_eq!(world.state(&id), Some(State::Active), "not tied to it");
    world.sleep(1_001);
    let view = world.detail(&id).job;
    assert_eq!((view.attempts, view.stall_count), (1, 1));
}

#[test]
fn change_counts_for_deliveries_in_progress_of_that_queue_only() {
    let mut world = strict(60_000.0);
    let id = taken(&mut world, job());
    configure(&mut world, "other", |update| {
        update.stall_interval = Some(60_000.0);
    });
    let other = world.push("other", job());
    world.pull("other").expect("ready");
    world.sleep(500);
    configure(&mut world, "q", |update| {
        update.stall_interval = Some(1_000.0)
    });
    world.sleep(500);
    assert_eq!(world.state(&id), Some(State::Active));
    world.sleep(1);
    assert_eq!(stalls(&mut world, &id), 1, "sooner");
    assert_eq!(stalls(&mut world, &other), 0);
    // Later, or never, as well; and what is overdue by the new time goes at once.
    let mut world = strict(1_000.0);
    let id = taken(&mut world, job());
    configure(&mut world, "q", |update| {
        update.stall_interval = Some(9_000.0)
    });
    world.sleep(9_000);
    assert_eq!(stalls(&mut world, &id), 0);
    configure(&mut world, "q", |update| update.enabled = Some(false));
    world.sleep(DAY);
    assert_eq!(stalls(&mut world, &id), 0);
    configure(&mut world, "q", |update| update.enabled = Some(true));
    assert_eq!(stalls(&mut world, &id), 1);
}

#[test]
fn switched_off_delivery_keeps_its_lock_and_its_renewals() {
    let mut world = strict(10.0);
    configure(&mut world, "q", |update| update.enabled = Some(false));
    let id = world.push("q", job());
    let delivery = world.pull_lock("q", 1_000.0).expect("ready");
    for _ in 0..10 {
        world.sleep(900);
        world.extend(&id, given(delivery.token), 1_000.0);
        world.heartbeat(&id, TokenGiven::None);
    }
    world.ack(&delivery);
    assert_eq!(world.state(&id), Some(State::Completed));
    assert_eq!(world.next_deadline(), None);
}

#[test]
fn grace_period_protects_the_start() {
    let mut world = strict(10.0);
    configure(&mut world, "q", |update| {
        update.grace_period = Some(5_000.0)
    });
    let id = taken(&mut world, job());
    world.sleep(4_999);
    assert_eq!(stalls(&mut world, &id), 0);
    world.sleep(1);
    assert_eq!(stalls(&mut world, &id), 1);
}

#[test]
fn b_25_no_stalls_at_all_means_no_limit() {
    let durable = || NewJob {
        max_attempts: 9,
        ..with(job(), |options| options.backoff.delay = 0.0)
    };
    for unlimited in [0.0, -1.0] {
        let mut world = strict(1_000.0);
        configure(&mut world, "q", |update| {
            update.max_stalls = Some(unlimited)
        });
        let id = taken(&mut world, durable());
        world.sleep(1_001);
        assert_eq!(world.state(&id), Some(State::Waiting), "retried");
        for _ in 0..6 {
            world.pull_lock("q", 100.0).expect("ready");
            world.sleep(100);
        }
        assert_eq!(world.state(&id), Some(State::Waiting), "a lost lock too");
    }
    // Both ways to lose a delivery count against the limit of the queue.
    for (max, lost) in [(1.0, 1), (1.5, 2), (2.0, 2)] {
        let mut world = strict(1_000.0);
        configure(&mut world, "q", |update| update.max_stalls = Some(max));
        let id = taken(&mut world, durable());
        world.sleep(1_001);
        for _ in 1..lost {
            world.pull_lock("q", 100.0).expect("ready");
            world.sleep(100);
        }
        assert_eq!(world.failure(&id).reason, FailureReason::Stalled, "{max}");
    }
}
