//! Section 4: which request is legal in which state, and what it does.

use bunqueue_mcp::command::{ChangeDelay, Discard};
use bunqueue_mcp::engine::{
    AttemptRecord, Change, FailureReason, JobId, NewJob, State, TokenGiven,
};

use crate::world::{World, id, job, named};

fn discard(world: &mut World, id: &JobId) -> Change {
    world.ask(Discard {
        id: id.clone(),
        token: TokenGiven::None,
    })
}

const NOT_ACTIVE: &str = "Job not found or not in processing state";

#[test]
fn st_1_ack_of_a_waiting_job_is_refused() {
    let mut world = World::new();
    world.push("q", named("a"));
    let refusal = world
        .try_ack(&id("a"), TokenGiven::None)
        .expect_err("never delivered");
    assert_eq!(refusal.to_string(), format!("{NOT_ACTIVE}: a"));
}

#[test]
fn st_2_second_ack_of_a_delivery_is_refused() {
    let mut world = World::new();
    world.push("q", named("a"));
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
    let refusal = world
        .try_ack(&id("a"), TokenGiven::None)
        .expect_err("it is over");
    assert_eq!(refusal.to_string(), format!("{NOT_ACTIVE}: a"));
}

#[test]
fn st_3_fail_of_an_unknown_job_is_refused() {
    let mut world = World::new();
    let refusal = world
        .try_fail(&id("nope"), TokenGiven::Malformed, "x")
        .expect_err("there is no such job");
    assert_eq!(refusal.to_string(), format!("{NOT_ACTIVE}: nope"));
}

#[test]
fn st_4_active_job_goes_back_to_wait_without_an_attempt() {
    let mut world = World::new();
    let job = world.push("q", job());
    let delivery = world.pull_lock("q", 30_000.0).expect("ready");
    world.events();
    assert_eq!(world.move_to_wait(&job, delivery.token), Change::Applied);
    let view = world.detail(&job).job;
    assert_eq!(
        (view.state, view.attempts, view.started_at),
        (State::Waiting, 0, None)
    );
    assert_eq!(world.event_words(), [format!("waiting {job}")]);
    assert_eq!(
        world.move_to_wait(&job, None),
        Change::Applied,
        "a waiting job stays where it is"
    );
    assert_eq!(world.events(), []);
}

#[test]
fn st_6_completed_and_unknown_jobs_cannot_go_back_to_wait() {
    let mut world = World::new();
    let job = world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
    assert_eq!(
        world.move_to_wait(&job, None),
        Change::WrongState(State::Completed)
    );
    assert_eq!(world.move_to_wait(&id("zz"), None), Change::NotFound);
}

#[test]
fn st_8_active_job_can_be_delayed_without_an_attempt() {
    let mut world = World::new();
    let job = world.push("q", job());
    world.pull("q").expect("ready");
    world.events();
    let delayed = ChangeDelay {
        id: job.clone(),
        delay: 5_000.0,
        token: TokenGiven::None,
    };
    assert_eq!(world.ask(delayed), Change::Applied);
    let view = world.detail(&job).job;
    assert_eq!(
        (view.state, view.attempts, view.run_at),
        (State::Delayed, 0, world.now + 5_000)
    );
    assert_eq!(world.event_words(), [format!("delayed {job}")]);
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

#[test]
fn discard_ends_a_delivery_whose_report_is_then_refused() {
    let mut world = World::new();
    let job = world.push("q", job());
    let delivery = world.pull_lock("q", 30_000.0).expect("ready");
    let token = TokenGiven::Token(delivery.token.expect("an owner gets a token"));
    let refusal = world.refusal(Discard {
        id: job.clone(),
        token: TokenGiven::None,
    });
    assert_eq!(refusal, format!("Lock token required for job {job}"));
    assert_eq!(
        world.ask(Discard {
            id: job.clone(),
            token
        }),
        Change::Applied
    );
    assert_eq!(discard(&mut world, &job), Change::WrongState(State::Failed));
    let refusal = world
        .try_ack(&job, token)
        .expect_err("the delivery is over");
    assert_eq!(refusal.to_string(), format!("{NOT_ACTIVE}: {job}"));
    assert_eq!(world.state(&job), Some(State::Failed));
}
