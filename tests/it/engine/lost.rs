//! Section 9: stalls, lock expiry, disconnects.

use bunqueue_mcp::command::{
    Ack, ChangeDelay, MoveToWaitingChildren, Obliterate, Progress, Pull, UpdateParent, WaitJob,
};
use bunqueue_mcp::engine::{
    Change, Config, EventKind, FailureReason, JobId, NewJob, Renewal, Report, SPAN_MAX,
    StallDetail, State, TokenGiven, WaitFor,
};

use crate::world::{World, awaiting, given, id, job, keyed, named, pulling, queue, with};

/// Reasons and errors of a dead letter's attempts.
fn attempts(world: &mut World, id: &JobId) -> Vec<(FailureReason, String)> {
    let error =
        |error: Option<std::sync::Arc<str>>| error.as_deref().unwrap_or_default().to_owned();
    let records = world.failure(id).attempts.into_iter();
    records
        .map(|record| (record.reason, error(record.error)))
        .collect()
}

fn stalling(stall_interval: i64, stalls_max: u32) -> World {
    World::with(Config {
        stall_interval,
        stall_grace: 0,
        stall_check: 40,
        stalls_max,
        ..Config::default()
    })
}

fn stalled(stall_count: u32, to_dlq: bool) -> EventKind {
    EventKind::Stalled {
        detail: Some(StallDetail {
            stall_count,
            to_dlq,
        }),
    }
}

fn failed(error: &str) -> EventKind {
    EventKind::Failed {
        error: Some(error.into()),
        data: None,
        terminal: true,
    }
}

#[test]
fn sl_1_silent_delivery_is_taken_back_and_retried() {
    let mut world = stalling(50, 3);
    let id = world.push("q", with(job(), |options| options.backoff.delay = 0.0));
    world.pull("q").expect("ready");
    world.events();
    world.sleep(90);
    assert_eq!(
        world.state(&id),
        Some(State::Active),
        "silence is confirmed before anything happens"
    );
    world.sleep(1);
    let view = world.detail(&id).job;
    assert_eq!(
        (view.state, view.attempts, view.stall_count, view.started_at),
        (State::Waiting, 1, 1, None)
    );
    assert_eq!(world.event_kinds(), [stalled(1, false)]);
    let last: Vec<_> = view
        .timeline
        .iter()
        .rev()
        .take(2)
        .map(|entry| (entry.state, entry.attempt))
        .collect();
    assert_eq!(last, [(State::Waiting, Some(2)), (State::Failed, Some(1))]);
}

#[test]
fn sl_2_signs_of_life_prevent_a_stall() {
    let signs: [fn(&mut World, &JobId); 2] = [
        |world, id| assert_eq!(world.heartbeat(id, TokenGiven::None), Renewal::Renewed),
        |world, id| {
            let progress = Progress {
                id: id.clone(),
                progress: 1.0,
                message: None,
            };
            assert_eq!(world.ask(progress), Change::Applied);
        },
    ];
    for sign in signs {
        let mut world = stalling(80, 3);
        let id = world.push("q", job());
        world.pull("q").expect("ready");
        for _ in 0..10 {
            world.sleep(115);
            sign(&mut world, &id);
        }
        assert_eq!(
            world.state(&id),
            Some(State::Active),
            "also when it comes in the last moment"
        );
        world.sleep(121);
        assert_eq!(world.detail(&id).job.stall_count, 1);
    }
}

#[test]
fn sl_3_too_many_stalls_end_the_job() {
    let mut world = stalling(50, 1);
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 5,
            ..job()
        },
    );
    world.pull("q").expect("ready");
    world.events();
    world.sleep(1_000);
    let failure = world.failure(&id);
    assert_eq!(
        (failure.reason, failure.error.as_deref()),
        (FailureReason::Stalled, Some("Job stalled 1 times"))
    );
    assert_eq!(world.detail(&id).job.stall_count, 1);
    assert_eq!(
        world.event_kinds(),
        [stalled(1, true), failed("Job stalled 1 times")]
    );
}

#[test]
fn sl_4_stall_of_the_last_attempt_ends_the_job() {
    let mut world = stalling(50, 9);
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..job()
        },
    );
    world.pull("q").expect("ready");
    world.sleep(1_000);
    let failure = world.failure(&id);
    assert_eq!(failure.reason, FailureReason::MaxAttemptsExceeded);
    assert_eq!(
        failure.error.as_deref(),
        Some("Job stalled at max attempts (1)")
    );
}

#[test]
fn sl_5_job_may_be_silent_for_its_own_time() {
    let mut world = stalling(10, 3);
    let id = world.push(
        "q",
        with(job(), |options| options.stall_timeout = Some(60_000.0)),
    );
    world.pull("q").expect("ready");
    world.sleep(60_000);
    assert_eq!(world.state(&id), Some(State::Active));
}

#[test]
fn sl_6_expired_lock_gives_the_job_back_at_once() {
    let mut world = World::new();
    let id = world.push("q", with(job(), |options| options.backoff.delay = 60_000.0));
    world.pull_lock("q", 50.0).expect("ready");
    world.events();
    world.sleep(50);
    let view = world.detail(&id).job;
    assert_eq!(
        (view.state, view.attempts, view.stall_count, view.started_at),
        (State::Waiting, 1, 1, None)
    );
    assert_eq!(view.run_at, view.created_at, "it keeps its place");
    assert_eq!(
        view.failed_reason().map(|error| &**error),
        Some("Lock expired")
    );
    assert_eq!(world.event_kinds(), [EventKind::Stalled { detail: None }]);
}

#[test]
fn sl_7_lock_that_expires_at_the_last_attempt_ends_the_job() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..job()
        },
    );
    world.pull_lock("q", 30.0).expect("ready");
    world.events();
    world.sleep(30);
    let failure = world.failure(&id);
    assert_eq!(failure.reason, FailureReason::MaxAttemptsExceeded);
    assert_eq!(
        failure.error.as_deref(),
        Some("Lock expired at max attempts (1)")
    );
    assert_eq!(
        world.event_kinds(),
        [
            stalled(1, true),
            failed("Lock expired (max attempts reached)")
        ]
    );
}

#[test]
fn lock_that_expires_too_often_ends_the_job() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 9,
            ..job()
        },
    );
    for _ in 0..3 {
        let delivery = world.pull_lock("q", 30.0).expect("ready");
        world.heartbeat(&id, given(delivery.token));
        world.events();
        world.sleep(30);
    }
    let failure = world.failure(&id);
    assert_eq!(
        (failure.reason, failure.error.as_deref()),
        (
            FailureReason::Stalled,
            Some("Lock expired after 1 renewals")
        )
    );
    assert_eq!(
        world.event_kinds(),
        [
            stalled(3, true),
            failed("Lock expired (max stalls reached)")
        ]
    );
}

#[test]
fn b_25_no_limit_of_stalls_means_no_limit_everywhere() {
    let mut world = stalling(50, 0);
    let stalled = world.push(
        "stall",
        NewJob {
            max_attempts: 9,
            ..job()
        },
    );
    let expired = world.push(
        "lock",
        NewJob {
            max_attempts: 9,
            ..job()
        },
    );
    for _ in 0..5 {
        world.pull("stall").expect("ready");
        world.pull_lock("lock", 10.0).expect("ready");
        world.sleep(3_600_000);
    }
    assert_eq!(
        (world.state(&stalled), world.state(&expired)),
        (Some(State::Waiting), Some(State::Waiting))
    );
}

#[test]
fn sl_8_closed_connection_gives_back_what_was_never_renewed() {
    let mut world = World::new();
    world.push_many(
        "q",
        vec![
            keyed(named("silent"), "k"),
            named("renewed"),
            named("free"),
            named("detached"),
        ],
    );
    world.as_connection(1);
    let deliveries = world.pull_batch("q", 2);
    world.pull("q").expect("ready");
    world.ask(Pull {
        detach: true,
        ..pulling("q")
    });
    // Heartbeats may travel on another connection.
    world
        .as_connection(2)
        .heartbeat(&id("renewed"), given(deliveries[1].token));
    world.events();
    world.close(1);
    let states = ["silent", "renewed", "free", "detached"]
        .map(|name| world.state(&id(name)).expect("it exists"));
    assert_eq!(
        states,
        [State::Waiting, State::Active, State::Waiting, State::Active]
    );
    let view = world.detail(&id("silent")).job;
    assert_eq!(
        (view.attempts, view.stall_count, view.started_at),
        (0, 0, None)
    );
    assert_eq!(world.events(), []);
    let late = world
        .try_ack(&id("silent"), given(deliveries[0].token))
        .expect_err("it was given back");
    assert_eq!(
        late.to_string(),
        "Job not found or not in processing state: silent"
    );
    assert_eq!(
        world.ack(&deliveries[1]),
        Report::Applied,
        "only the token matters"
    );
}

#[test]
fn job_that_takes_its_worker_with_it_ends_at_the_tenth_loss() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 2,
            ..job()
        },
    );
    let lose = |world: &mut World| {
        world
            .as_connection(1)
            .pull_lock("q", 30_000.0)
            .expect("ready");
        world.close(1);
    };
    for _ in 0..9 {
        lose(&mut world);
    }
    // A sign of life starts the count anew.
    world.as_connection(1).pull("q").expect("ready");
    world.heartbeat(&id, TokenGiven::None);
    assert_eq!(world.move_to_wait(&id, None), Change::Applied);
    for _ in 0..9 {
        lose(&mut world);
        assert_eq!(world.detail(&id).job.attempts, 0);
    }
    assert_eq!(world.state(&id), Some(State::Waiting));
    world.events();
    lose(&mut world);
    assert_eq!(world.failure(&id).reason, FailureReason::WorkerLost);
    let terminal = |kind: &EventKind| matches!(kind, EventKind::Failed { terminal: true, .. });
    assert!(world.event_kinds().iter().any(terminal));
}

/// A worker that gives its job back is not lost.
#[test]
fn job_that_is_given_back_has_not_lost_its_worker() {
    type GiveBack = fn(&mut World, &JobId);
    let ways: [GiveBack; 3] = [
        |world, id| {
            world.move_to_wait(id, None);
        },
        |world, id| {
            world.ask(ChangeDelay {
                id: id.clone(),
                delay: 0.0,
                token: TokenGiven::None,
            });
        },
        |world, id| {
            world.ask(MoveToWaitingChildren {
                id: id.clone(),
                token: TokenGiven::None,
            });
            let child = world.push("children", job());
            world.ask(UpdateParent {
                child: child.clone(),
                parent: id.clone(),
            });
            world.cancel(&child);
        },
    ];
    for give_back in ways {
        let mut world = World::new();
        let id = world.push("q", job());
        let lose_often = |world: &mut World| {
            for _ in 0..9 {
                world.as_connection(1).pull("q").expect("ready");
                world.close(1);
            }
        };
        lose_often(&mut world);
        world.as_connection(2).pull("q").expect("ready");
        give_back(&mut world, &id);
        lose_often(&mut world);
        assert_eq!(world.state(&id), Some(State::Waiting));
    }
}

#[test]
fn sl_10_defaults() {
    let config = Config::default();
    assert_eq!(
        (config.stall_interval, config.stalls_max, config.stall_grace),
        (30_000, 3, 5_000)
    );
    assert_eq!((config.dlq_max, config.dlq_age), (10_000, 604_800_000));
    assert_eq!(
        (
            config.completed_max,
            config.results_max,
            config.logged_jobs_max
        ),
        (50_000, 10_000, 10_000)
    );
}

#[test]
fn sl_12_obliterated_job_cannot_be_reported_on() {
    let mut world = World::new();
    let id = world.push("q", job());
    let token = given(world.pull_lock("q", 30_000.0).expect("ready").token);
    world.ask(Obliterate { queue: queue("q") });
    assert_eq!(world.extend(&id, token, 1_000.0), Renewal::NotFound);
    let refused = format!("Job not found or not in processing state: {id}");
    assert_eq!(
        world.try_ack(&id, token).expect_err("gone").to_string(),
        refused
    );
    assert_eq!(
        world
            .try_fail(&id, token, "x")
            .expect_err("gone")
            .to_string(),
        refused
    );
}

#[test]
fn sl_13_and_b_3_long_delivery_with_heartbeats_stays() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    for _ in 0..186 {
        world.sleep(10_000);
        world.heartbeat(&id, TokenGiven::None);
    }
    assert_eq!(
        world.ask(Ack {
            id: id.clone(),
            token: TokenGiven::None,
            result: None,
            remove_on_complete: false
        }),
        Report::Applied
    );
    assert_eq!(world.detail(&id).job.started_at, delivery.job.started_at);
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

#[test]
fn spans_beyond_every_date_are_cut() {
    for extreme in [f64::MAX, -f64::MAX] {
        let mut world = World::new();
        let id = world.push("q", job());
        let delivery = world.pull_lock("q", 30_000.0).unwrap();
        let renewed = world.extend(&id, given(delivery.token), extreme);
        assert_eq!(renewed, Renewal::Renewed);
        let deadline = world.next_deadline().unwrap();
        assert!(deadline.abs() <= 2 * SPAN_MAX, "{deadline}");
        world.tick();
    }
}
