//! Whose turn it is among groups (section 5, B-27), and which pull is served.

use std::time::{Duration, Instant};

use bunqueue_mcp::command::{ChangePriority, IsUngroupedInTurn, Obliterate, SetUngroupedInTurn};
use bunqueue_mcp::engine::{Affinity, Counts, NewJob, PullGroup, RateLimit, State};

use crate::world::{World, awaiting, choosing, grouped, id, job, named, pulling, queue, with};

use super::{at_most, only, pause, push, resume, served, waiting};

#[test]
fn or_6_groups_take_turns() {
    let mut world = World::new();
    push(&mut world, "a1 a2 b1 a3 b2 c1");
    assert_eq!(world.pull_all("q"), ["a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[test]
fn what_nobody_has_read_gives_the_turn_back() {
    let take_back = |world: &mut World, count| {
        let unread = world.pull_batch("q", count);
        assert_eq!(unread.len(), count);
        world.act(|engine, turn| engine.give_back(turn, &unread));
    };
    for count in 1..=5 {
        let mut world = World::new();
        push(&mut world, "a1 a2 b1 a3 b2");
        take_back(&mut world, count);
        let order = ["a1", "b1", "a2", "b2", "a3"];
        assert_eq!(world.pull_all("q"), order, "{count} went back");
    }
    // A group that had nothing else to hand out meanwhile.
    let mut world = World::new();
    push(&mut world, "a1 b1");
    let unread = world.pull("q").expect("ready");
    push(&mut world, "a2");
    world.act(|engine, turn| engine.give_back(turn, &[unread]));
    assert_eq!(world.pull_all("q"), ["a1", "b1", "a2"]);
    // Jobs of no group that take their turn.
    let mut world = World::new();
    world.ask(SetUngroupedInTurn {
        queue: queue("q"),
        in_turn: true,
    });
    push(&mut world, "-1 -2 a1");
    take_back(&mut world, 1);
    assert_eq!(world.pull_all("q"), ["-1", "a1", "-2"]);
}

#[test]
fn or_7_in_a_group_the_smaller_priority_comes_first() {
    let mut world = World::new();
    for (name, priority) in [("a0", 0.0), ("a5", 5.0), ("a1", 1.0), ("a0b", 0.0)] {
        world.push(
            "q",
            NewJob {
                priority,
                ..grouped(named(name), "A")
            },
        );
    }
    assert_eq!(world.state(&id("a5")), Some(State::Prioritized));
    assert_eq!(world.pull_all("q"), ["a0", "a0b", "a1", "a5"]);
}

#[test]
fn lifo_and_run_time_do_not_matter_in_a_group() {
    let mut world = World::new();
    let lifo = NewJob {
        lifo: true,
        ..grouped(named("lifo"), "A")
    };
    let old = NewJob {
        timestamp: Some(1),
        ..grouped(named("old"), "A")
    };
    world.push_many("q", vec![grouped(named("first"), "A"), lifo, old]);
    assert_eq!(world.pull_all("q"), ["first", "lifo", "old"]);
}

#[test]
fn a_retried_job_has_its_old_place_in_its_group() {
    let mut world = World::new();
    let again = with(grouped(named("a1"), "A"), |options| {
        options.backoff.delay = 0.0;
    });
    world.push("q", again);
    push(&mut world, "A2");
    let first = world.pull("q").expect("ready");
    world.fail(&first, "boom");
    assert_eq!(world.pull_all("q"), ["a1", "A2"]);
}

#[test]
fn affinity_chooses_among_groups() {
    let mut world = World::new();
    push(&mut world, "-0 a1 b1 b2");
    let group = |name: &str| only(Affinity::Group(name.into()));
    assert_eq!(world.pull_ids(choosing("q", 9, group("b"))), ["b1", "b2"]);
    assert!(world.ask(choosing("q", 9, group("c"))).is_empty());
    assert_eq!(
        world.pull_ids(choosing("q", 9, only(Affinity::Ungrouped))),
        ["-0"]
    );
    assert!(
        world
            .ask(choosing("q", 9, only(Affinity::Ungrouped)))
            .is_empty()
    );
    assert_eq!(
        world.pull_ids(choosing("q", 9, only(Affinity::Any))),
        ["a1"]
    );
}

#[test]
fn the_longest_waiting_pull_that_can_take_it_gets_the_job() {
    let mut world = World::new();
    let for_a = world.wait(waiting(only(Affinity::Group("a".into()))));
    let for_none = world.wait(waiting(only(Affinity::Ungrouped)));
    let for_any = world.wait(awaiting("q", 60_000));
    let for_b = world.wait(waiting(only(Affinity::Group("b".into()))));
    push(&mut world, "b1");
    assert_eq!(served(&mut world, for_any).as_deref(), Some("b1"));
    push(&mut world, "b2 -0");
    assert_eq!(served(&mut world, for_b).as_deref(), Some("b2"));
    assert_eq!(served(&mut world, for_none).as_deref(), Some("-0"));
    push(&mut world, "a1");
    assert_eq!(served(&mut world, for_a).as_deref(), Some("a1"));
}

#[test]
fn a_limit_of_one_kind_does_not_look_at_the_other() {
    let mut world = World::new();
    let one_a_minute = || PullGroup {
        limit: Some(RateLimit {
            max: 1,
            duration: 60_000,
        }),
        ..PullGroup::default()
    };
    // Group b has no active job but a used window, group a the other way round.
    push(&mut world, "b1 a1");
    for delivery in world.ask(choosing("q", 1, one_a_minute())) {
        world.ack(&delivery);
    }
    assert_eq!(world.pull_ids(pulling("q")), ["a1"]);
    let by_window = world.wait(waiting(one_a_minute()));
    push(&mut world, "b2");
    assert_eq!(served(&mut world, by_window), None);
    push(&mut world, "a2");
    assert_eq!(served(&mut world, by_window).as_deref(), Some("a2"));
}

#[test]
fn a_blocked_group_keeps_its_turn() {
    let mut world = World::new();
    push(&mut world, "a1 a2 b1 b2 c1 c2");
    assert_eq!(world.pull_ids(choosing("q", 1, at_most(1))), ["a1"]);
    assert_eq!(world.pull_ids(choosing("q", 1, at_most(1))), ["b1"]);
    pause(&mut world, "c");
    // Nobody's turn, for this pull; c is next all the same once it goes on, then a.
    assert!(world.ask(choosing("q", 1, at_most(1))).is_empty());
    resume(&mut world, "c");
    assert_eq!(world.pull_all("q"), ["c1", "a2", "b2", "c2"]);
}

#[test]
fn a_group_that_begins_anew_comes_last() {
    let mut world = World::new();
    push(&mut world, "a1 b1 b2");
    assert_eq!(world.pull_ids(pulling("q")), ["a1"]);
    push(&mut world, "a2 c1");
    assert_eq!(world.pull_all("q"), ["b1", "a2", "c1", "b2"]);
}

#[test]
fn no_group_starves_behind_new_ones() {
    let mut world = World::new();
    push(&mut world, "a1 a2");
    for n in 0..50 {
        world.push("q", grouped(job(), &format!("new{n}")));
        let next = world.pull("q").expect("ready");
        if n > 0 && next.job.id == id("a2") {
            return;
        }
    }
    panic!("a2 is never served");
}

#[test]
fn a_changed_priority_leaves_its_group_its_turn() {
    let mut world = World::new();
    push(&mut world, "a1 b1 b2");
    for (name, priority) in [("a1", 3.0), ("b1", 1.0)] {
        world.ask(ChangePriority {
            id: id(name),
            priority,
            lifo: None,
        });
    }
    let counts = Counts {
        waiting: 1,
        prioritized: 2,
        ..Counts::default()
    };
    assert_eq!(world.counts("q"), counts);
    assert_eq!(world.pull_all("q"), ["a1", "b2", "b1"]);
}

#[test]
fn b_27_ungrouped_jobs_go_first_unless_they_take_their_turn() {
    let mut world = World::new();
    push(&mut world, "a1 a2 b1 -1 -2 -3");
    assert_eq!(world.pull_all("q"), ["-1", "-2", "-3", "a1", "b1", "a2"]);
    let set = |in_turn| SetUngroupedInTurn {
        queue: queue("q"),
        in_turn,
    };
    let is = IsUngroupedInTurn { queue: queue("q") };
    assert!(!world.ask(is.clone()));
    world.ask(set(true));
    assert!(world.ask(is.clone()));
    push(&mut world, "a3 a4 -4 -5 -6 b2");
    assert_eq!(world.pull_all("q"), ["a3", "-4", "b2", "a4", "-5", "-6"]);
    // A steady stream of ungrouped jobs does not keep a group waiting.
    push(&mut world, "a5 -7 -8");
    assert_eq!(world.pull_ids(pulling("q")), ["a5"]);
    world.ask(set(false));
    push(&mut world, "a6");
    assert_eq!(world.pull_all("q"), ["-7", "-8", "a6"]);
    // Set while they wait, they come last, like any group that begins.
    push(&mut world, "-9 a7 a8 b3");
    world.ask(set(true));
    assert_eq!(world.pull_all("q"), ["a7", "b3", "-9", "a8"]);
    assert!(!world.ask(IsUngroupedInTurn {
        queue: queue("nowhere")
    }));
    world.ask(Obliterate { queue: queue("q") });
    assert!(!world.ask(is));
}

#[test]
fn the_turn_of_a_pull_does_not_grow_with_the_groups() {
    let time = |groups: usize| {
        let mut world = World::new();
        let jobs = (0..groups * 2).map(|n| grouped(job(), &format!("g{}", n % groups)));
        world.push_many("q", jobs.collect());
        // One active job in every group: none may be served to who allows only one.
        for _ in 0..groups / 1_000 {
            world.pull_batch("q", 1_000);
        }
        let start = Instant::now();
        for _ in 0..2_000 {
            assert!(world.ask(choosing("q", 1, at_most(1))).is_empty());
        }
        start.elapsed()
    };
    let (few, many) = (time(1_000), time(30_000));
    assert!(
        many < few * 10 + Duration::from_millis(20),
        "{few:?} with 1,000 groups, {many:?} with 30,000"
    );
}
