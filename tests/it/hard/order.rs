//! Order, delay, retry.

use bunqueue_mcp::command::{ChangeDelay, Pause, Promote, Pull, Resume};
use bunqueue_mcp::engine::{Change, NewJob, State, TokenGiven};

use crate::world::{World, awaiting, id, job, named, pulling, queue, with};

/// Something that happens to a world.
type Act = fn(&mut World);

const DAY: i64 = 86_400_000;

#[test]
fn hard_o1_newest_first_among_oldest_first() {
    let mut world = World::new();
    let lifo = |name| NewJob {
        lifo: true,
        ..named(name)
    };
    world.push_many("q", vec![named("a"), lifo("b"), lifo("c"), named("d")]);
    assert_eq!(world.pull_all("q"), ["c", "b", "a", "d"]);
}

#[test]
fn hard_o2_shorter_delay_while_someone_waits() {
    let mut world = World::new();
    let job = world.push(
        "q",
        NewJob {
            delay: 3_600_000,
            ..job()
        },
    );
    let wait = world.wait(awaiting("q", 60_000));
    let sooner = ChangeDelay {
        id: job,
        delay: 1_000.0,
        token: TokenGiven::None,
    };
    assert_eq!(world.ask(sooner), Change::Applied);
    world.sleep(999);
    assert_eq!(world.handed(wait), None);
    world.sleep(1);
    assert_eq!(world.handed(wait).map(|jobs| jobs.len()), Some(1));
}

#[test]
fn hard_o3_the_only_thing_waited_for_goes_away() {
    let changes: [(&str, Act); 5] = [
        ("removed", |world| {
            assert_eq!(world.cancel(&id("a")), Change::Applied)
        }),
        ("promoted", |world| {
            assert_eq!(world.ask(Promote { id: id("a") }), Change::Applied);
            assert!(world.pull("q").is_some());
        }),
        ("moved later", |world| {
            let later = ChangeDelay {
                id: id("a"),
                delay: 100_000.0,
                token: TokenGiven::None,
            };
            assert_eq!(world.ask(later), Change::Applied);
        }),
        ("paused over its time", |world| {
            world.ask(Pause { queue: queue("q") });
            world.sleep(2_000);
            world.ask(Resume { queue: queue("q") });
            assert!(world.pull("q").is_some());
        }),
        ("delivered", |world| {
            world.sleep(1_000);
            assert!(world.pull("q").is_some());
        }),
    ];
    for (what, change) in changes {
        let mut world = World::new();
        world.push_many(
            "q",
            vec![
                NewJob {
                    delay: 1_000,
                    ..named("a")
                },
                NewJob {
                    delay: 5_000,
                    ..named("b")
                },
            ],
        );
        let due = world.now + 5_000;
        change(&mut world);
        let wait = world.wait(awaiting("q", 60_000));
        world.sleep(due - 1 - world.now);
        assert_eq!(world.handed(wait), None, "{what}");
        world.sleep(1);
        let handed = world.handed(wait).expect("b is due");
        assert_eq!(handed[0].job.id, id("b"), "{what}");
    }
}

#[test]
fn hard_o4_far_future_is_due_exactly_then() {
    for delay in [2_142_721_000, 30 * DAY, 365 * DAY, 365 * DAY + 1] {
        let mut world = World::new();
        let job = world.push("q", NewJob { delay, ..job() });
        assert_eq!(
            world.next_deadline(),
            Some(world.now + delay),
            "nothing wakes up before"
        );
        world.sleep(delay - 1);
        assert_eq!(world.state(&job), Some(State::Delayed));
        world.sleep(1);
        assert_eq!(world.state(&job), Some(State::Waiting));
    }
}

#[test]
fn hard_o5_priority_survives_a_retry() {
    let mut world = World::new();
    let urgent = |name| NewJob {
        priority: 5.0,
        ..named(name)
    };
    world.push(
        "q",
        with(urgent("retried"), |options| options.backoff.delay = 100.0),
    );
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    world.push_many("q", vec![named("plain"), urgent("before")]);
    world.sleep(1_000);
    world.push("q", urgent("after"));
    assert_eq!(world.pull_all("q"), ["before", "retried", "after", "plain"]);
}

#[test]
fn hard_o6_delayed_longer_than_the_lock() {
    let mut world = World::new();
    let due = world.now + 7_200_000;
    world.push(
        "q",
        NewJob {
            delay: 7_200_000,
            ..job()
        },
    );
    let mut started = Vec::new();
    while world.now < due + 600_000 {
        let pull = Pull {
            locked: true,
            lock_ttl: 30_000.0,
            wait: 30_000,
            ..pulling("q")
        };
        let wait = world.wait(pull);
        world.sleep(30_000);
        for delivery in world.handed(wait).unwrap_or_default() {
            started.extend(delivery.job.started_at);
            world.ack(&delivery);
        }
    }
    assert_eq!(started, [due]);
}
