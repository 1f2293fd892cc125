//! Section 16: changes to one job and to a whole queue.

use bunqueue_mcp::command::{
    ChangeDelay, ChangePriority, Clean, Drain, GetDedupOwner, IsPaused, ListQueues, Obliterate,
    Pause, Promote, PromoteMany, Resume, UpdateData,
};
use bunqueue_mcp::engine::{
    Bucket, Change, CleanState, Counts, Event, EventKind, JobId, NewJob, State, TokenGiven,
};

use super::flow::after;
use crate::world::{World, id, job, keyed, named, payload, queue};

fn promote(world: &mut World, id: &JobId) -> Change {
    world.ask(Promote { id: id.clone() })
}

fn clean(world: &mut World, grace: f64, state: CleanState, limit: usize) -> Vec<String> {
    let removed = world.ask(Clean {
        queue: queue("q"),
        grace,
        state,
        limit,
    });
    assert_eq!(removed.count, removed.ids.len());
    removed.ids.iter().map(ToString::to_string).collect()
}

fn exactly(state: State) -> CleanState {
    CleanState::Bucket(Bucket::State(state))
}

/// One job in each place, oldest first: completed, failed, active, waiting, prioritized, delayed, blocked
/// by the active one.
fn one_of_each(world: &mut World) {
    for (name, attempts) in [("completed", 3), ("failed", 1), ("active", 3)] {
        world.push(
            "q",
            NewJob {
                max_attempts: attempts,
                ..named(name)
            },
        );
        let delivery = world.pull("q").expect("ready");
        match name {
            "completed" => drop(world.ack(&delivery)),
            "failed" => drop(world.fail(&delivery, "boom")),
            _ => {}
        }
    }
    for new in [
        named("waiting"),
        NewJob {
            priority: 1.0,
            ..named("prioritized")
        },
        NewJob {
            delay: 60_000,
            ..named("delayed")
        },
        after(named("blocked"), &["active"]),
    ] {
        world.now += 1;
        world.push("q", new);
    }
}

#[test]
fn mg_1_promote_makes_a_delayed_job_ready() {
    let mut world = World::new();
    let delayed = world.push(
        "q",
        NewJob {
            delay: 5_000,
            ..job()
        },
    );
    assert_eq!(promote(&mut world, &delayed), Change::Applied);
    let view = world.detail(&delayed).job;
    assert_eq!((view.state, view.run_at), (State::Waiting, world.now));
    assert_eq!(
        promote(&mut world, &delayed),
        Change::WrongState(State::Waiting)
    );
    assert_eq!(promote(&mut world, &id("unknown")), Change::NotFound);
}

#[test]
fn promotion_of_several_takes_the_oldest_first() {
    let mut world = World::new();
    for (name, timestamp) in [("a", 3), ("b", 1), ("c", 2)] {
        let created_at = Some(world.now + timestamp);
        world.push(
            "q",
            NewJob {
                delay: 60_000,
                timestamp: created_at,
                ..named(name)
            },
        );
    }
    assert_eq!(
        world.ask(PromoteMany {
            queue: queue("q"),
            count: Some(2)
        }),
        2
    );
    let states = ["a", "b", "c"].map(|name| world.state(&id(name)).expect("it exists"));
    assert_eq!(states, [State::Delayed, State::Waiting, State::Waiting]);
    assert_eq!(
        world.ask(PromoteMany {
            queue: queue("q"),
            count: None
        }),
        1
    );
    assert_eq!(
        world.ask(PromoteMany {
            queue: queue("nowhere"),
            count: None
        }),
        0
    );
}

#[test]
fn mg_2_priority_of_queued_jobs_can_be_changed() {
    let mut world = World::new();
    world.push_many(
        "q",
        vec![
            named("a"),
            named("b"),
            NewJob {
                delay: 60_000,
                ..named("later")
            },
        ],
    );
    let change = |name: &str, lifo| ChangePriority {
        id: id(name),
        priority: 9.0,
        lifo,
    };
    assert_eq!(world.ask(change("b", Some(true))), Change::Applied);
    assert_eq!(world.ask(change("later", None)), Change::Applied);
    let view = world.detail(&id("b")).job;
    assert_eq!((view.state, view.lifo), (State::Prioritized, true));
    assert_eq!(world.state(&id("later")), Some(State::Delayed));
    assert_eq!(
        world.pull("q").map(|delivery| delivery.job.id),
        Some(id("b"))
    );
    assert_eq!(
        world.ask(change("b", None)),
        Change::WrongState(State::Active)
    );
}

#[test]
fn mg_3_delay_of_queued_jobs_can_be_changed() {
    let mut world = World::new();
    let job = world.push("q", job());
    world.events();
    for (delay, state) in [
        (5_000.0, State::Delayed),
        (0.0, State::Waiting),
        (0.5, State::Delayed),
        (-10.0, State::Waiting),
    ] {
        assert_eq!(
            world.ask(ChangeDelay {
                id: job.clone(),
                delay,
                token: TokenGiven::None
            }),
            Change::Applied
        );
        assert_eq!(world.state(&job), Some(state), "delay {delay}");
    }
    assert_eq!(
        world.events(),
        [],
        "only a delay that ends a delivery is told"
    );
}

#[test]
fn mg_4_cancel_removes_what_has_not_started_and_tells_its_true_state() {
    let mut world = World::new();
    one_of_each(&mut world);
    world.events();
    for (name, state) in [
        ("active", State::Active),
        ("completed", State::Completed),
        ("failed", State::Failed),
    ] {
        assert_eq!(world.cancel(&id(name)), Change::WrongState(state));
    }
    assert_eq!(world.cancel(&id("unknown")), Change::NotFound);
    for (name, prev) in [
        ("delayed", State::Delayed),
        ("waiting", State::Waiting),
        ("prioritized", State::Prioritized),
        ("blocked", State::WaitingChildren),
    ] {
        assert_eq!(world.cancel(&id(name)), Change::Applied);
        assert_eq!(world.event_kinds(), [EventKind::Removed { prev }]);
        assert_eq!(world.state(&id(name)), None);
    }
}

#[test]
fn mg_5_drain_removes_queued_jobs_only() {
    let mut world = World::new();
    one_of_each(&mut world);
    world.events();
    assert_eq!(world.ask(Drain { queue: queue("q") }).count, 3);
    assert_eq!(world.event_kinds(), [EventKind::Drained { count: 3 }]);
    assert_eq!(
        world.counts("q"),
        Counts {
            active: 1,
            completed: 1,
            failed: 1,
            waiting_children: 1,
            ..Counts::default()
        }
    );
    assert_eq!(world.ask(Drain { queue: queue("q") }).count, 0);
    assert_eq!(
        world.events(),
        [],
        "nothing was removed, so nothing is told"
    );
}

#[test]
fn mg_6_obliterate_removes_everything() {
    let mut world = World::new();
    one_of_each(&mut world);
    world.push("q", keyed(job(), "k"));
    world.ask(Pause { queue: queue("q") });
    world.push("other", job());
    world.events();
    assert_eq!(world.ask(Obliterate { queue: queue("q") }).count, 8);
    let told = Event {
        queue: "q".into(),
        job: None,
        at: world.now,
        kind: EventKind::Obliterated { count: 8 },
    };
    assert_eq!(world.events(), [told]);
    assert_eq!(world.counts("q"), Counts::default());
    assert!(!world.ask(IsPaused { queue: queue("q") }));
    assert_eq!(world.ask(ListQueues), ["other".into()]);
    assert_eq!(world.state(&id("active")), None);
    assert_eq!(
        world.ask(GetDedupOwner {
            queue: queue("q"),
            key: "k".into()
        }),
        None,
        "MG-12: the keys go as well"
    );
    world.ask(Obliterate {
        queue: queue("nowhere"),
    });
    assert_eq!(world.events(), []);
    world.push("q", named("active"));
    assert_eq!(
        world.state(&id("active")),
        Some(State::Waiting),
        "its ids are free again"
    );
}

#[test]
fn mg_7_clean_goes_by_state_and_age() {
    let mut world = World::new();
    one_of_each(&mut world);
    assert_eq!(
        clean(&mut world, 60_000.0, exactly(State::Waiting), 10),
        [""; 0]
    );
    assert_eq!(clean(&mut world, 0.0, exactly(State::Active), 10), [""; 0]);
    world.events();
    assert_eq!(
        clean(&mut world, 0.0, exactly(State::Completed), 10),
        ["completed"]
    );
    assert_eq!(world.event_kinds(), [EventKind::Cleaned { count: 1 }]);
    assert_eq!(
        clean(&mut world, 0.0, exactly(State::Failed), 10),
        ["failed"]
    );
    assert_eq!(
        clean(&mut world, 0.0, exactly(State::Waiting), 10),
        ["waiting"]
    );
    assert_eq!(
        clean(&mut world, 0.0, CleanState::Queued, 10),
        ["prioritized", "delayed"]
    );
    assert_eq!(clean(&mut world, 0.0, CleanState::Queued, 10), [""; 0]);
    assert_eq!(world.counts("q").total(), 2);
}

#[test]
fn clean_counts_age_from_the_end_of_finished_jobs() {
    let mut world = World::new();
    world.push("q", named("done"));
    world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..named("dead")
        },
    );
    world.sleep(1_000);
    let deliveries = world.pull_batch("q", 2);
    world.ack(&deliveries[0]);
    world.fail(&deliveries[1], "boom");
    world.sleep(100);
    for (state, name) in [(State::Completed, "done"), (State::Failed, "dead")] {
        assert_eq!(clean(&mut world, 101.0, exactly(state), 10), [""; 0]);
        assert_eq!(clean(&mut world, 100.0, exactly(state), 10), [name]);
    }
}

#[test]
fn mg_8_clean_stops_at_its_limit() {
    let mut world = World::new();
    world.push_many("q", vec![job(); 1_200]);
    assert_eq!(
        clean(&mut world, 0.0, exactly(State::Waiting), 1_000).len(),
        1_000
    );
    assert_eq!(clean(&mut world, 0.0, exactly(State::Waiting), 0), [""; 0]);
    assert_eq!(world.counts("q").waiting, 200);
}

#[test]
fn mg_10_pause_and_resume_are_told_each_time() {
    let mut world = World::new();
    for _ in 0..2 {
        world.ask(Pause { queue: queue("q") });
    }
    world.ask(Resume { queue: queue("q") });
    let told: Vec<_> = world
        .events()
        .into_iter()
        .map(|event| (event.job, event.kind))
        .collect();
    assert_eq!(
        told,
        [
            (None, EventKind::Paused),
            (None, EventKind::Paused),
            (None, EventKind::Resumed)
        ]
    );
}

#[test]
fn mg_13_and_b_23_clean_takes_exactly_the_named_state() {
    let mut world = World::new();
    one_of_each(&mut world);
    assert_eq!(
        clean(&mut world, 0.0, CleanState::Bucket(Bucket::Paused), 10),
        [""; 0],
        "the queue is not paused"
    );
    assert_eq!(
        clean(&mut world, 0.0, exactly(State::Delayed), 10),
        ["delayed"]
    );
    world.ask(Pause { queue: queue("q") });
    assert_eq!(
        clean(&mut world, 0.0, exactly(State::Prioritized), 10),
        ["prioritized"],
        "paused or not"
    );
    assert_eq!(
        clean(&mut world, 0.0, CleanState::Bucket(Bucket::Paused), 10),
        ["waiting"]
    );
    let left = Counts {
        active: 1,
        completed: 1,
        failed: 1,
        waiting_children: 1,
        ..Counts::default()
    };
    assert_eq!(world.counts("q"), left);
}

#[test]
fn data_of_unfinished_jobs_can_be_replaced() {
    let mut world = World::new();
    one_of_each(&mut world);
    let update = |name: &str| UpdateData {
        id: id(name),
        data: Some(payload(9)),
    };
    for name in ["waiting", "prioritized", "delayed", "active", "blocked"] {
        assert_eq!(world.ask(update(name)), Change::Applied);
        assert_eq!(world.detail(&id(name)).job.data, Some(payload(9)));
    }
    for (name, state) in [("completed", State::Completed), ("failed", State::Failed)] {
        assert_eq!(world.ask(update(name)), Change::WrongState(state));
    }
    assert_eq!(world.ask(update("unknown")), Change::NotFound);
}
