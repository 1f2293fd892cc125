//! Section 7: pulls, waits and the hand-off between them.

use bunqueue_mcp::command::{PromoteMany, Pull};
use bunqueue_mcp::engine::NewJob;

use crate::world::{World, awaiting, job, named, pulling, queue};

/// Two jobs that become ready in one step, the less urgent one first in every other order.
fn two() -> [NewJob; 2] {
    [
        NewJob {
            delay: 50,
            ..named("low")
        },
        NewJob {
            delay: 50,
            priority: 5.0,
            ..named("high")
        },
    ]
}

fn ids(deliveries: &[bunqueue_mcp::engine::Delivery]) -> Vec<String> {
    deliveries
        .iter()
        .map(|delivery| delivery.job.id.to_string())
        .collect()
}

#[test]
fn jobs_due_in_the_same_millisecond_compete_by_the_order_of_delivery() {
    let mut world = World::new();
    world.push_many("q", two().into());
    let wait = world.wait(awaiting("q", 1_000));
    world.sleep(50);
    assert_eq!(ids(&world.handed(wait).expect("served")), ["high"]);
}

#[test]
fn waiting_batch_pull_takes_all_that_becomes_ready_in_one_step() {
    let batch = || Pull {
        count: 10,
        wait: 60_000,
        owner: Some("w".into()),
        ..pulling("q")
    };
    // Delays that end together.
    let mut world = World::new();
    world.push_many("q", two().into());
    let wait = world.wait(batch());
    world.sleep(50);
    assert_eq!(ids(&world.handed(wait).expect("served")), ["high", "low"]);
    // Locks that run out together.
    let wait = world.wait(batch());
    world.sleep(30_000);
    assert_eq!(ids(&world.handed(wait).expect("served")), ["high", "low"]);
    // A promotion of several jobs.
    let mut world = World::new();
    world.push_many("q", two().into());
    let wait = world.wait(batch());
    assert_eq!(
        world.ask(PromoteMany {
            queue: queue("q"),
            count: None
        }),
        2
    );
    assert_eq!(ids(&world.handed(wait).expect("served")), ["high", "low"]);
    // A connection that closes with several deliveries.
    let mut world = World::new();
    world.push_many(
        "q",
        vec![
            named("low"),
            NewJob {
                priority: 5.0,
                ..named("high")
            },
        ],
    );
    world.as_connection(1);
    assert_eq!(world.pull_batch("q", 2).len(), 2);
    let wait = world.as_connection(2).wait(batch());
    world.close(1);
    assert_eq!(ids(&world.handed(wait).expect("served")), ["high", "low"]);
    // Deliveries that nobody read.
    let mut world = World::new();
    let first = world.wait(batch());
    let second = world.wait(batch());
    world.push_many("q", vec![job(), job()]);
    let unread = world.handed(first).expect("served");
    world.act(|engine, turn| engine.give_back(turn, &unread));
    assert_eq!(ids(&world.handed(second).expect("served")), ids(&unread));
}

#[test]
fn unread_delivery_goes_back_without_a_trace_in_a_full_history() {
    let mut world = World::new();
    let id = world.push("q", job());
    for _ in 0..10 {
        let delivery = world.pull_lock("q", 30_000.0).expect("ready");
        world.move_to_wait(&id, delivery.token);
        world.now += 1;
    }
    for _ in 0..12 {
        let before = world.detail(&id).job.timeline;
        let unread = world.pull("q").expect("ready");
        world.act(|engine, turn| engine.give_back(turn, &[unread]));
        assert_eq!(world.detail(&id).job.timeline, before);
        let delivery = world.pull("q").expect("ready");
        world.move_to_wait(&id, delivery.token);
        world.now += 1;
    }
    assert_eq!(world.detail(&id).job.timeline.len(), 20);
}
