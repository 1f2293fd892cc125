//! Section 8: ack, fail, backoff, timeouts, and who waits for them.

use bunqueue_mcp::command::{Ack, AckMany, Fail, WaitJob};
use bunqueue_mcp::engine::{
    Backoff, BackoffKind, Config, Delivery, EventKind, FailReport, FailureReason, JobId, NewJob,
    Report, Served, State, TokenGiven, WaitFor, Waited,
};

use crate::world::{World, given, id, job, named, payload, with};

fn success(delivery: &Delivery) -> Ack {
    Ack {
        id: delivery.job.id.clone(),
        token: given(delivery.token),
        result: None,
        remove_on_complete: false,
    }
}

fn waiting(id: &JobId, until: WaitFor) -> WaitJob {
    WaitJob {
        id: id.clone(),
        until,
        timeout: 1_000,
    }
}

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
fn ak_1_success_is_kept_with_its_result() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    world.sleep(10);
    world.ask(Ack {
        result: Some(payload(1)),
        ..success(&delivery)
    });
    let detail = world.detail(&id);
    assert_eq!(
        (detail.job.state, detail.result),
        (State::Completed, Some(payload(1)))
    );
    assert_eq!(detail.job.completed_at, Some(world.now));
    assert_eq!(detail.job.started_at, Some(world.now - 10));
}

#[test]
fn ak_2_no_result_is_stored_when_none_is_given() {
    let mut world = World::new();
    for result in [None, Some(payload(0xc0))] {
        let id = world.push("q", job());
        let delivery = world.pull("q").expect("ready");
        world.ask(Ack {
            result: result.clone(),
            ..success(&delivery)
        });
        assert_eq!(world.result(&id), result);
    }
}

#[test]
fn ak_3_remove_on_complete_leaves_nothing() {
    let mut world = World::new();
    for (option, flag) in [(true, false), (false, true)] {
        let id = world.push(
            "q",
            NewJob {
                remove_on_complete: option,
                ..job()
            },
        );
        let delivery = world.pull("q").expect("ready");
        world.events();
        world.ask(Ack {
            remove_on_complete: flag,
            ..success(&delivery)
        });
        assert_eq!((world.state(&id), world.counts("q").total()), (None, 0));
        assert_eq!(world.event_words(), [format!("completed {id}")]);
    }
}

#[test]
fn ak_4_lock_takes_its_token_only() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull_lock("q", 30_000.0).expect("ready");
    let text =
        |world: &mut World, token| world.try_ack(&id, token).map_err(|error| error.to_string());
    assert_eq!(
        text(&mut world, TokenGiven::None),
        Err(format!("Lock token required for job {id}"))
    );
    let invalid = Err(format!("Invalid or expired lock token for job {id}"));
    assert_eq!(text(&mut world, TokenGiven::Malformed), invalid);
    assert_eq!(
        text(
            &mut world,
            TokenGiven::from_text("0190a0b0-1234-7abc-8def-0123456789ab")
        ),
        invalid
    );
    assert_eq!(text(&mut world, given(delivery.token)), Ok(Report::Applied));
}

#[test]
fn ak_5_delivery_without_a_lock_takes_any_token() {
    let mut world = World::new();
    let id = world.push("q", job());
    world.pull("q").expect("ready");
    assert_eq!(
        world.try_ack(&id, TokenGiven::from_text("anything")),
        Ok(Report::Applied)
    );
}

#[test]
fn ak_6_batch_stores_each_result() {
    let mut world = World::new();
    let ids = world.push_many("q", vec![job(); 8]);
    let deliveries = world.pull_batch("q", 8);
    let with_result = |(number, delivery)| Ack {
        result: Some(payload(number)),
        ..success(delivery)
    };
    let items = (0..).step_by(2).zip(&deliveries).map(with_result).collect();
    assert_eq!(world.ask(AckMany { items }), vec![Ok(Report::Applied); 8]);
    for (number, id) in (0..).step_by(2).zip(&ids) {
        assert_eq!(world.result(id), Some(payload(number)));
    }
}

#[test]
fn ak_7_and_b_29_batch_tells_of_each_report() {
    let mut world = World::new();
    world.push_many("q", vec![named("a"), named("b")]);
    let deliveries = world.pull_batch("q", 2);
    let unknown = Ack {
        id: id("unknown"),
        token: TokenGiven::None,
        result: None,
        remove_on_complete: false,
    };
    let items = vec![success(&deliveries[0]), unknown, success(&deliveries[1])];
    let outcomes = world.ask(AckMany { items });
    let texts: Vec<_> = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().map_err(ToString::to_string))
        .collect();
    let refused = "Job not found or not in processing state: unknown".to_owned();
    assert_eq!(
        texts,
        [Ok(&Report::Applied), Err(refused), Ok(&Report::Applied)]
    );
    assert_eq!(world.counts("q").completed, 2);
}

#[test]
fn batch_with_one_wrong_token_changes_nothing() {
    let mut world = World::new();
    let ids = world.push_many("q", vec![job(), job()]);
    let deliveries = world.pull_batch("q", 2);
    let before = world.dump(&["q"], &ids);
    for token in [TokenGiven::None, given(deliveries[0].token)] {
        let items = vec![
            success(&deliveries[0]),
            Ack {
                token,
                ..success(&deliveries[1])
            },
        ];
        world.refusal(AckMany { items });
        assert_eq!(world.dump(&["q"], &ids), before);
    }
}

#[test]
fn ak_8_large_result_is_stored_whole() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    let result = bunqueue_mcp::engine::Payload::new(&vec![b'x'; 1_000_000]);
    world.ask(Ack {
        result: Some(result.clone()),
        ..success(&delivery)
    });
    assert_eq!(world.result(&id), Some(result));
}

#[test]
fn ak_9_wait_for_completion_ends_with_it_or_with_its_time() {
    let mut world = World::new();
    let id = world.push("q", job());
    let early = world.wait(waiting(&id, WaitFor::Completed));
    world.sleep(1_000);
    assert_eq!(world.served(), [(early, Served::Job(Waited::TimedOut))]);
    let wait = world.wait(waiting(&id, WaitFor::Completed));
    let delivery = world.pull("q").expect("ready");
    world.ask(Ack {
        result: Some(payload(5)),
        ..success(&delivery)
    });
    let completed = Waited::Completed {
        result: Some(payload(5)),
    };
    assert_eq!(world.served(), [(wait, Served::Job(completed.clone()))]);
    assert_eq!(
        world.ask(waiting(&id, WaitFor::Completed)),
        completed,
        "later waits are answered at once"
    );
}

#[test]
fn ak_9_failure_ends_a_wait_for_any_outcome_only() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 2,
            ..job()
        },
    );
    let completion = world.wait(waiting(&id, WaitFor::Completed));
    let outcome = world.wait(WaitJob {
        timeout: 60_000,
        ..waiting(&id, WaitFor::Outcome)
    });
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    assert_eq!(world.served(), [], "another attempt follows");
    world.sleep(5_000);
    assert_eq!(
        world.served(),
        [(completion, Served::Job(Waited::TimedOut))]
    );
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    assert_eq!(world.served(), [(outcome, Served::Job(Waited::Failed))]);
    assert_eq!(world.ask(waiting(&id, WaitFor::Outcome)), Waited::Failed);
    let unknown = waiting(&crate::world::id("unknown"), WaitFor::Outcome);
    assert_eq!(world.ask(unknown), Waited::NotFound);
}

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
    let wait = world.wait(waiting(&id, WaitFor::Completed));
    let delivery = world.pull("q").expect("ready");
    world.ask(Ack {
        result: Some(payload(1)),
        ..success(&delivery)
    });
    assert_eq!(
        world.served(),
        [(wait, Served::Job(Waited::Completed { result: None }))]
    );
    assert_eq!(world.state(&id), None);
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
    let wait = world.wait(waiting(&id, WaitFor::Outcome));
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    assert_eq!(world.served(), [(wait, Served::Job(Waited::Failed))]);
    assert_eq!(world.state(&id), None);
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
fn b_21_late_success_needs_the_token_of_the_last_delivery() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull_lock("q", 1_000.0).expect("ready");
    world.fail(&delivery, "boom");
    let token = given(delivery.token);
    let refused = format!("Job not found or not in processing state: {id}");
    for wrong in [TokenGiven::None, TokenGiven::Malformed] {
        assert_eq!(
            world.try_ack(&id, wrong).expect_err("no proof").to_string(),
            refused
        );
    }
    assert_eq!(
        world.try_fail(&id, token, "again"),
        Ok(Report::AlreadyFinalized)
    );
    assert_eq!(
        world.detail(&id).job.attempts,
        1,
        "nothing is charged twice"
    );
    assert_eq!(world.try_ack(&id, token), Ok(Report::Applied));
    let view = world.detail(&id).job;
    assert_eq!(
        (view.state, view.completed_at),
        (State::Completed, Some(world.now))
    );
    world.sleep(60_000);
    assert_eq!(world.pull("q"), None, "it is not delivered again");
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
