//! Section 8: failure, backoff, timeouts.

use bunqueue_mcp::command::Fail;
use bunqueue_mcp::engine::{
    Backoff, BackoffKind, Config, EventKind, FailReport, FailureReason, NewJob, Report, State,
    TokenGiven,
};

use crate::world::{World, given, job, with};

/// A job that fails at its first attempt waits this long for the next.
fn first_delay(backoff: Backoff, seed: u8) -> i64 {
    let mut world = World::seeded(Config::default(), seed);
    let id = world.push("q", with(job(), |options| options.backoff = backoff));
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    world.detail(&id).job.run_at - world.now
}

fn exponential(delay: f64, max_delay: Option<f64>) -> Backoff {
    Backoff {
        kind: BackoffKind::Exponential,
        delay,
        max_delay,
    }
}

#[test]
fn fa_1_first_default_retry_waits_one_to_three_seconds() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    let view = world.detail(&id).job;
    assert_eq!(
        (view.attempts, view.state, view.started_at),
        (1, State::Delayed, None)
    );
    assert!(
        (1_000..=3_000).contains(&(view.run_at - world.now)),
        "{}",
        view.run_at - world.now
    );
}

#[test]
fn fa_2_fixed_backoff_varies_by_a_fifth() {
    let fixed = Backoff {
        kind: BackoffKind::Fixed,
        delay: 1_000.0,
        max_delay: None,
    };
    let delays: Vec<i64> = (0..60).map(|seed| first_delay(fixed, seed)).collect();
    assert!(
        delays.iter().all(|delay| (800..=1_200).contains(delay)),
        "{delays:?}"
    );
    assert!(delays.iter().any(|delay| *delay != delays[0]));
}

#[test]
fn fa_3_exponential_backoff_grows_up_to_an_hour() {
    let delays = (0..60).map(|seed| first_delay(exponential(1_000.0, None), seed));
    assert!(
        delays
            .into_iter()
            .all(|delay| (1_000..=3_000).contains(&delay))
    );
    assert_eq!(first_delay(exponential(86_400_000.0, None), 1), 3_600_000);
}

#[test]
fn fa_3_backoff_of_a_job_with_very_many_attempts_stays_finite() {
    let mut world = World::new();
    let tireless = NewJob {
        max_attempts: 3_000,
        ..job()
    };
    let id = world.push(
        "q",
        with(tireless, |options| {
            options.backoff = exponential(1.0, Some(1.0))
        }),
    );
    for _ in 0..2_500 {
        let delivery = world.pull("q").expect("ready");
        world.fail(&delivery, "boom");
        assert_eq!(world.detail(&id).job.run_at, world.now + 1);
        world.sleep(1);
    }
}

#[test]
fn fa_4_last_failure_makes_a_dead_letter() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..job()
        },
    );
    let delivery = world.pull("q").expect("ready");
    world.sleep(10);
    world.fail(&delivery, "boom");
    let failure = world.failure(&id);
    assert_eq!(
        (failure.reason, failure.error.as_deref()),
        (FailureReason::MaxAttemptsExceeded, Some("boom"))
    );
    assert_eq!((failure.entered_at, failure.attempts.len()), (world.now, 1));
    assert_eq!((failure.retry_count, failure.last_retry_at), (0, None));
    assert_eq!(failure.next_retry_at, None);
    assert_eq!(failure.expires_at, Some(world.now + 604_800_000));
    let record = &failure.attempts[0];
    assert_eq!(
        (record.attempt, record.started_at, record.failed_at),
        (1, world.now - 10, world.now)
    );
    world.sleep(604_799_999);
    assert_eq!(world.state(&id), Some(State::Failed));
    world.sleep(1);
    assert_eq!(world.state(&id), None);
}

#[test]
fn dq_12_every_attempt_is_recorded() {
    let mut world = World::new();
    let id = world.push("q", with(job(), |options| options.backoff.delay = 0.0));
    for error in ["e0", "e1", "e2"] {
        let delivery = world.pull("q").expect("ready");
        world.fail(&delivery, error);
    }
    let records = world.failure(&id).attempts;
    let brief: Vec<_> = records
        .iter()
        .map(|record| {
            (
                record.attempt,
                record.reason,
                record.error.as_deref().unwrap(),
            )
        })
        .collect();
    let (retried, last) = (
        FailureReason::ExplicitFail,
        FailureReason::MaxAttemptsExceeded,
    );
    assert_eq!(
        brief,
        [(1, retried, "e0"), (2, retried, "e1"), (3, last, "e2")]
    );
}

#[test]
fn fa_5_unrecoverable_failure_is_the_last() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 5,
            ..job()
        },
    );
    world.pull("q").expect("ready");
    let report = FailReport {
        unrecoverable: true,
        ..FailReport::default()
    };
    world.ask(Fail {
        id: id.clone(),
        token: TokenGiven::None,
        report,
    });
    assert_eq!(
        world.failure(&id).reason,
        FailureReason::MaxAttemptsExceeded
    );
    assert_eq!(world.detail(&id).job.attempts, 1);
}

#[test]
fn fa_6_remove_on_fail_leaves_nothing_at_the_last_attempt() {
    let mut world = World::new();
    for (option, flag) in [(true, false), (false, true)] {
        let id = world.push(
            "q",
            NewJob {
                max_attempts: 2,
                remove_on_fail: option,
                ..job()
            },
        );
        for state in [Some(State::Delayed), None] {
            world.sleep(5_000);
            world.pull("q").expect("ready");
            let report = FailReport {
                remove_on_fail: flag,
                ..FailReport::default()
            };
            world.ask(Fail {
                id: id.clone(),
                token: TokenGiven::None,
                report,
            });
            assert_eq!(world.state(&id), state);
        }
        let terminal =
            |event: &EventKind| matches!(event, EventKind::Failed { terminal: true, .. });
        assert_eq!(
            world
                .event_kinds()
                .iter()
                .filter(|event| terminal(event))
                .count(),
            1
        );
    }
}

#[test]
fn fa_7_timeout_fails_the_delivery_and_late_reports_are_ignored() {
    let mut world = World::new();
    let hasty = || {
        with(
            NewJob {
                max_attempts: 1,
                ..job()
            },
            |options| options.timeout = Some(50.0),
        )
    };
    for lock_ttl in [None, Some(30_000.0)] {
        let id = world.push("q", hasty());
        let delivery = match lock_ttl {
            Some(lock_ttl) => world.pull_lock("q", lock_ttl),
            None => world.pull("q"),
        };
        let token = given(delivery.expect("ready").token);
        world.sleep(49);
        assert_eq!(world.state(&id), Some(State::Active));
        world.sleep(1);
        let failure = world.failure(&id);
        assert_eq!(
            (failure.reason, failure.error.as_deref()),
            (FailureReason::Timeout, Some("Job timeout exceeded"))
        );
        assert_eq!(world.try_ack(&id, token), Ok(Report::AlreadyFinalized));
        assert_eq!(
            world.try_fail(&id, token, "late"),
            Ok(Report::AlreadyFinalized)
        );
        assert_eq!(world.state(&id), Some(State::Failed));
    }
}

#[test]
fn fa_7_report_of_a_timed_out_delivery_never_touches_a_newer_one() {
    let mut world = World::new();
    let hasty = with(job(), |options| {
        options.timeout = Some(50.0);
        options.backoff.delay = 0.0;
    });
    let id = world.push("q", hasty);
    let old = world.pull_lock("q", 30_000.0).expect("ready");
    world.sleep(50);
    let new = world.pull_lock("q", 30_000.0).expect("ready again");
    assert_eq!(
        world.try_ack(&id, given(old.token)),
        Ok(Report::AlreadyFinalized)
    );
    assert_eq!(world.state(&id), Some(State::Active));
    assert_eq!(world.ack(&new), Report::Applied);
    assert_eq!(world.detail(&id).job.attempts, 1);
}

#[test]
fn fa_8_heartbeats_do_not_move_the_timeout() {
    let mut world = World::new();
    let id = world.push("q", with(job(), |options| options.timeout = Some(119.5)));
    world.pull("q").expect("ready");
    for _ in 0..3 {
        world.sleep(30);
        world.heartbeat(&id, TokenGiven::None);
    }
    world.sleep(29);
    assert_eq!(world.state(&id), Some(State::Active));
    world.sleep(1);
    assert_eq!(
        world.detail(&id).job.attempts,
        1,
        "a fraction rounds the deadline up"
    );
}

#[test]
fn fa_9_failure_without_a_text_has_none() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..job()
        },
    );
    world.pull("q").expect("ready");
    world.ask(Fail {
        id: id.clone(),
        token: TokenGiven::None,
        report: FailReport::default(),
    });
    assert_eq!(world.failure(&id).error, None);
}

#[test]
fn fa_10_zero_backoff_retries_at_once() {
    let mut world = World::new();
    let id = world.push("q", with(job(), |options| options.backoff.delay = 0.0));
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    assert_eq!(world.state(&id), Some(State::Waiting));
    assert!(world.pull("q").is_some());
}

#[test]
fn fa_11_max_delay_caps_the_backoff() {
    assert_eq!(first_delay(exponential(10_000.0, Some(500.0)), 1), 500);
    assert_eq!(first_delay(exponential(10_000.0, Some(0.0)), 1), 0);
}

#[test]
fn b_26_times_are_whole_and_queued_jobs_show_no_start() {
    let mut world = World::new();
    let id = world.push("q", with(job(), |options| options.backoff.delay = 0.3));
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    let view = world.detail(&id).job;
    assert_eq!(
        (view.run_at, view.started_at),
        (world.now + 1, None),
        "rounded up, so never early"
    );
}
