//! Section 9: stalls, lock expiry, disconnects.

use bunqueue_mcp::command::WaitJob;
use bunqueue_mcp::engine::{Config, FailureReason, JobId, NewJob, State, WaitFor};

use crate::world::{World, awaiting, given, job};

/// Reasons and errors of a dead letter's attempts.
fn attempts(world: &mut World, id: &JobId) -> Vec<(FailureReason, String)> {
    let error =
        |error: Option<std::sync::Arc<str>>| error.as_deref().unwrap_or_default().to_owned();
    let records = world.failure(id).attempts.into_iter();
    records
        .map(|record| (record.reason, error(record.error)))
        .collect()
}

#[test]
fn b_37_the_last_loss_is_written_down_with_the_final_reason() {
    let mut world = World::with(Config {
        stalls_max: 2,
        ..Config::default()
    });
    let stalled = world.push("stall", job());
    let expired = world.push(
        "lock",
        NewJob {
            max_attempts: 2,
            ..job()
        },
    );
    for _ in 0..2 {
        world.pull("stall").expect("ready");
        world.pull_lock("lock", 1_000.0).expect("ready");
        world.sleep(60_000);
    }
    let lost = |text: &str| (FailureReason::Stalled, text.to_owned());
    assert_eq!(
        attempts(&mut world, &stalled),
        [lost("stalled"), lost("Job stalled 2 times")]
    );
    let last = (
        FailureReason::MaxAttemptsExceeded,
        "Lock expired at max attempts (2)".to_owned(),
    );
    assert_eq!(attempts(&mut world, &expired), [lost("Lock expired"), last]);
    assert_eq!(world.detail(&stalled).job.started_at, None);
    assert_eq!(world.detail(&expired).job.started_at, None);
}

#[test]
fn waits_of_a_closed_connection_end_without_an_answer() {
    let mut world = World::new();
    let id = world.push("q", job());
    world.as_connection(1);
    world.wait(WaitJob {
        id: id.clone(),
        until: WaitFor::Completed,
        timeout: 60_000,
    });
    world.wait(awaiting("empty", 60_000));
    world.close(1);
    let delivery = world.as_connection(2).pull("q").expect("ready");
    world.ack(&delivery);
    world.push("empty", job());
    world.sleep(60_000);
    assert_eq!(world.served(), []);
    assert_eq!(world.counts("empty").waiting, 1);
}

#[test]
fn late_tick_takes_a_renewed_lock_at_its_own_time() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull_lock("q", 1_000.0).expect("ready");
    world.extend(&id, given(delivery.token), 20_000.0);
    let wait = world.wait(awaiting("q", 5_000));
    world.now += 60_000;
    world.tick();
    assert_eq!(
        world.handed(wait),
        Some(Vec::new()),
        "the wait was over before the lock"
    );
    assert_eq!(world.state(&id), Some(State::Waiting));
}
