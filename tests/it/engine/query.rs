//! Section 15: listings and counts.

use bunqueue_mcp::command::{Clean, GetCountsPerPriority, GetJobs, ListQueues, Pause};
use bunqueue_mcp::engine::{Bucket, CleanState, Counts, Listing, NewJob, State};

use super::flow::after;
use crate::world::{World, job, named, queue};

fn listing(on: &str) -> Listing {
    Listing {
        queue: on.into(),
        buckets: Vec::new(),
        after: None,
        offset: 0,
        limit: 100,
        ascending: true,
    }
}

fn list(world: &mut World, listing: Listing) -> Vec<String> {
    world
        .ask(GetJobs { listing })
        .into_iter()
        .map(|detail| detail.job.id.to_string())
        .collect()
}

fn in_state(state: State) -> Listing {
    Listing {
        buckets: vec![Bucket::State(state)],
        ..listing("q")
    }
}

/// One job in each place: waiting, prioritized, delayed, active, completed, failed, blocked by the active one.
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
        world.now += 1;
    }
    world.push("q", named("waiting"));
    world.push(
        "q",
        NewJob {
            priority: 1.0,
            ..named("prioritized")
        },
    );
    world.push(
        "q",
        NewJob {
            delay: 60_000,
            ..named("delayed")
        },
    );
    world.push("q", after(named("waiting-children"), &["active"]));
}

#[test]
fn qr_1_listing_is_in_order_of_creation() {
    let mut world = World::new();
    for (name, created_at) in [
        ("a", 1_002),
        ("b", 1_001),
        ("c", 1_000),
        ("e", 1_001),
        ("d", 1_001),
    ] {
        world.push(
            "q",
            NewJob {
                timestamp: Some(created_at),
                ..named(name)
            },
        );
    }
    assert_eq!(list(&mut world, listing("q")), ["c", "b", "d", "e", "a"]);
    assert_eq!(
        list(
            &mut world,
            Listing {
                ascending: false,
                ..listing("q")
            }
        ),
        ["a", "e", "d", "b", "c"]
    );
}

#[test]
fn qr_2_pages_are_cut_out_of_that_order() {
    let mut world = World::new();
    let ids: Vec<String> = world
        .push_many("q", vec![job(); 120])
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(list(&mut world, listing("q")), ids[..100]);
    assert_eq!(
        list(
            &mut world,
            Listing {
                offset: 2,
                limit: 2,
                ..listing("q")
            }
        ),
        ids[2..4]
    );
    assert_eq!(
        list(
            &mut world,
            Listing {
                offset: 119,
                limit: 5,
                ..listing("q")
            }
        ),
        ids[119..]
    );
    assert_eq!(
        list(
            &mut world,
            Listing {
                offset: 120,
                ..listing("q")
            }
        ),
        [""; 0]
    );
    assert_eq!(
        list(
            &mut world,
            Listing {
                limit: 0,
                ..listing("q")
            }
        ),
        [""; 0]
    );
}

#[test]
fn qr_3_buckets_take_their_jobs() {
    let mut world = World::new();
    one_of_each(&mut world);
    for state in State::ALL {
        assert_eq!(list(&mut world, in_state(state)), [state.name()]);
    }
    let both = Listing {
        buckets: vec![Bucket::State(State::Waiting), Bucket::State(State::Delayed)],
        ..listing("q")
    };
    assert_eq!(list(&mut world, both), ["delayed", "waiting"]);
    let twice = Listing {
        buckets: vec![Bucket::State(State::Active); 2],
        ..listing("q")
    };
    assert_eq!(list(&mut world, twice), ["active"]);
    assert_eq!(list(&mut world, listing("q")).len(), 7);
}

#[test]
fn qr_4_counts_per_state() {
    let mut world = World::new();
    one_of_each(&mut world);
    let counts = world.counts("q");
    let one = Counts {
        waiting: 1,
        prioritized: 1,
        delayed: 1,
        active: 1,
        completed: 1,
        failed: 1,
        waiting_children: 1,
        ..Counts::default()
    };
    assert_eq!(counts, one);
    assert_eq!(world.counts("nowhere"), Counts::default());
}

#[test]
fn qr_5_ready_jobs_of_a_paused_queue_count_as_paused_only() {
    let mut world = World::new();
    one_of_each(&mut world);
    world.ask(Pause { queue: queue("q") });
    let counts = world.counts("q");
    assert_eq!(
        (
            counts.waiting,
            counts.prioritized,
            counts.paused,
            counts.delayed
        ),
        (0, 0, 2, 1)
    );
    assert_eq!(counts.total(), 7);
    assert_eq!(list(&mut world, in_state(State::Waiting)), [""; 0]);
    let paused = Listing {
        buckets: vec![Bucket::Paused],
        ..listing("q")
    };
    assert_eq!(list(&mut world, paused), ["prioritized", "waiting"]);
    assert_eq!(
        world.state(&crate::world::id("waiting")),
        Some(State::Waiting),
        "its own state stays"
    );
    assert_eq!(list(&mut world, listing("q")).len(), 7);
}

#[test]
fn qr_7_queued_jobs_per_priority() {
    let mut world = World::new();
    for priority in [0.0, 0.0, 5.0, 5.0, 5.0, -1.0, -0.0] {
        world.push("q", NewJob { priority, ..job() });
    }
    world.push(
        "q",
        NewJob {
            priority: 7.0,
            delay: 1_000,
            ..job()
        },
    );
    let counts = world.ask(GetCountsPerPriority { queue: queue("q") });
    assert_eq!(counts, [(7.0, 1), (5.0, 3), (0.0, 3), (-1.0, 1)]);
    assert_eq!(
        world.ask(GetCountsPerPriority {
            queue: queue("nowhere")
        }),
        []
    );
}

#[test]
fn qr_8_queues_are_listed_in_order_of_first_use() {
    let mut world = World::new();
    world.push("b", job());
    world.ask(Pause { queue: queue("a") });
    world.pull("never");
    world.counts("read");
    assert_eq!(world.ask(ListQueues), ["b".into(), "a".into()]);
}

#[test]
fn bg_2_queue_is_listed_as_long_as_it_holds_anything() {
    let mut world = World::new();
    world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
    world.sleep(3_600_000);
    assert_eq!(world.ask(ListQueues), ["q".into()]);
    let done = CleanState::Bucket(Bucket::State(State::Completed));
    world.ask(Clean {
        queue: queue("q"),
        grace: 0.0,
        state: done,
        limit: 10,
    });
    world.sleep(10_000);
    assert_eq!(world.ask(ListQueues), []);
    assert_eq!(
        world.next_deadline(),
        None,
        "an idle engine has nothing to wake up for"
    );
}

#[test]
fn qr_9_completed_jobs_are_listed_by_creation() {
    let mut world = World::new();
    world.push_many("q", vec![named("a"), named("b")]);
    let deliveries = world.pull_batch("q", 2);
    for delivery in deliveries.iter().rev() {
        world.sleep(1);
        world.ack(delivery);
    }
    assert_eq!(list(&mut world, in_state(State::Completed)), ["a", "b"]);
}
