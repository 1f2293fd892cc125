//! Section 4: which request is legal in which state, and what it does.

use bunqueue_mcp::command::Discard;
use bunqueue_mcp::engine::{AttemptRecord, Change, FailureReason, NewJob, State, TokenGiven};

use crate::world::{World, job};

fn discard(world: &mut World, id: &bunqueue_mcp::engine::JobId) -> Change {
    world.ask(Discard {
        id: id.clone(),
        token: TokenGiven::None,
    })
}

#[test]
fn st_9_discard_of_a_waiting_job_makes_a_dead_letter_without_an_error() {
    let mut world = World::new();
    let id = world.push("q", job());
    assert_eq!(discard(&mut world, &id), Change::Applied);
    let failure = world.failure(&id);
    assert_eq!(
        (failure.reason, failure.error),
        (FailureReason::Unknown, None)
    );
    let now = world.now;
    let record = AttemptRecord {
        attempt: 0,
        started_at: now,
        failed_at: now,
        reason: FailureReason::Unknown,
        error: None,
    };
    assert_eq!(failure.attempts, [record]);
    let states: Vec<State> = world
        .detail(&id)
        .job
        .timeline
        .iter()
        .map(|entry| entry.state)
        .collect();
    assert_eq!(
        states,
        [State::Waiting],
        "nothing was tried, so the history tells of no failure"
    );
}

#[test]
fn st_9_discard_keeps_the_job_even_if_failures_are_to_be_removed() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            remove_on_fail: true,
            ..job()
        },
    );
    assert_eq!(discard(&mut world, &id), Change::Applied);
    assert_eq!(world.state(&id), Some(State::Failed));
}
