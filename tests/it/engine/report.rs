//! Section 8: ack, fail, backoff, timeouts, and who waits for them.

use bunqueue_mcp::command::{Ack, WaitJob};
use bunqueue_mcp::engine::{NewJob, Served, TokenGiven, WaitFor, Waited};

use crate::world::{World, job, payload};

#[test]
fn ak_10_wait_on_a_job_that_is_removed_when_done_tells_of_completion_without_the_result() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            remove_on_complete: true,
            ..job()
        },
    );
    let wait = world.wait(WaitJob {
        id: id.clone(),
        until: WaitFor::Completed,
        timeout: 1_000,
    });
    world.pull("q").expect("ready");
    let (result, token) = (Some(payload(1)), TokenGiven::None);
    world.ask(Ack {
        id: id.clone(),
        token,
        result,
        remove_on_complete: false,
    });
    assert_eq!(
        world.served(),
        [(wait, Served::Job(Waited::Completed { result: None }))]
    );
    assert_eq!(world.state(&id), None);
}

#[test]
fn fa_6_wait_for_an_outcome_learns_of_the_failure_even_if_the_job_is_removed() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            remove_on_fail: true,
            max_attempts: 1,
            ..job()
        },
    );
    let wait = world.wait(WaitJob {
        id: id.clone(),
        until: WaitFor::Outcome,
        timeout: 1_000,
    });
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    assert_eq!(world.served(), [(wait, Served::Job(Waited::Failed))]);
    assert_eq!(world.state(&id), None);
}
