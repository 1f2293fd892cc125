//! Section 6: admission and deduplication.

use bunqueue_mcp::command::ListQueues;
use bunqueue_mcp::engine::{AddOutcome, State};

use crate::world::{World, job, keyed, named};

#[test]
fn suppressed_add_leaves_the_finished_job_with_the_same_id_alone() {
    let mut world = World::new();
    let done = world.push("q", named("c"));
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
    let owner = world.push("q", keyed(job(), "k"));
    let added = world.add("q", keyed(named("c"), "k"));
    assert_eq!((added.id, added.outcome), (owner, AddOutcome::Existing));
    assert_eq!(world.state(&done), Some(State::Completed));
}

#[test]
fn name_of_a_queue_that_got_nothing_is_forgotten() {
    let mut world = World::new();
    world.push("a", named("c"));
    world.push("b", named("c"));
    world.sleep(60_000);
    assert_eq!(world.ask(ListQueues), ["a".into()]);
}
