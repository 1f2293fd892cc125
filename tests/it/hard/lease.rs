//! Deliveries, leases, recovery.

use bunqueue_mcp::command::{
    Cancel, ChangeDelay, Discard, ExtendLock, Heartbeat, Obliterate, Pull, Renew,
};
use bunqueue_mcp::engine::{
    Change, Config, EventKind, FailureReason, JobId, NewJob, Renewal, Report, State, TokenGiven,
};

use crate::world::{World, awaiting, given, id, job, named, pulling, queue, with};

const HOUR: i64 = 3_600_000;

/// Starts of a job, as its events tell.
fn starts(world: &mut World) -> usize {
    world
        .event_kinds()
        .iter()
        .filter(|kind| **kind == EventKind::Pulled)
        .count()
}

#[test]
fn hard_l1_lock_renewed_for_two_hours_is_one_delivery() {
    let renewals: [fn(&mut World, Renew) -> Renewal; 3] = [
        |world, item| world.ask(ExtendLock { items: vec![item] })[0],
        |world, item| {
            let other = Renew {
                id: id("other"),
                token: TokenGiven::None,
                duration: None,
            };
            world.ask(ExtendLock {
                items: vec![other, item],
            })[1]
        },
        |world, item| world.ask(Heartbeat { items: vec![item] })[0],
    ];
    for renew in renewals {
        let mut world = World::new();
        let job = world.push("q", job());
        let delivery = world.pull_lock("q", 1_000.0).expect("ready");
        for _ in 0..2 * HOUR / 300 {
            world.sleep(300);
            let item = Renew {
                id: job.clone(),
                token: given(delivery.token),
                duration: None,
            };
            assert_eq!(renew(&mut world, item), Renewal::Renewed);
        }
        assert_eq!(world.ack(&delivery), Report::Applied);
        assert_eq!(starts(&mut world), 1);
        let view = world.detail(&job).job;
        assert_eq!((view.attempts, view.stall_count), (0, 0));
    }
}

#[test]
fn hard_l2_late_ack_counts_only_while_nobody_else_has_the_job() {
    // In the dead-letter queue: refused, nothing changes.
    let mut world = World::new();
    let dead = world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..job()
        },
    );
    let token = given(world.pull_lock("q", 1_000.0).expect("ready").token);
    world.sleep(1_000);
    let before = world.dump(&["q"], std::slice::from_ref(&dead));
    world
        .try_ack(&dead, token)
        .expect_err("it has failed for good");
    assert_eq!(world.dump(&["q"], &[dead]), before);
    // Delivered again: refused, the new delivery goes on.
    let mut world = World::new();
    let again = world.push("q", job());
    let token = given(world.pull_lock("q", 1_000.0).expect("ready").token);
    world.sleep(1_000);
    let second = world.pull_lock("q", 30_000.0).expect("ready again");
    let before = world.dump(&["q"], std::slice::from_ref(&again));
    let refusal = world
        .try_ack(&again, token)
        .expect_err("the job is somebody else's");
    assert_eq!(
        refusal.to_string(),
        format!("Invalid or expired lock token for job {again}")
    );
    assert_eq!(world.dump(&["q"], &[again]), before);
    assert_eq!(world.ack(&second), Report::Applied);
    // Queued and not yet delivered again: completed once, never delivered again.
    let mut world = World::new();
    let queued = world.push("q", job());
    let token = given(world.pull_lock("q", 1_000.0).expect("ready").token);
    world.sleep(1_000);
    assert_eq!(world.try_ack(&queued, token), Ok(Report::Applied));
    let view = world.detail(&queued).job;
    assert_eq!(
        (view.state, view.completed_at),
        (State::Completed, Some(world.now))
    );
    world
        .try_ack(&queued, token)
        .expect_err("it was completed before");
    world.sleep(HOUR);
    assert_eq!(world.pull("q"), None);
    let completed = |kind: &EventKind| matches!(kind, EventKind::Completed { .. });
    assert_eq!(
        world
            .event_kinds()
            .iter()
            .filter(|kind| completed(kind))
            .count(),
        1
    );
}

#[test]
fn hard_l3_closing_socket_of_a_worker_that_lost_its_job() {
    let mut world = World::new();
    let job = world.push("q", job());
    world
        .as_connection(1)
        .pull_lock("q", 1_000.0)
        .expect("ready");
    world.sleep(1_000);
    let second = world
        .as_connection(2)
        .pull_lock("q", 30_000.0)
        .expect("ready again");
    world.close(1);
    assert_eq!(world.state(&job), Some(State::Active));
    assert_eq!(world.ack(&second), Report::Applied);
    assert_eq!(starts(&mut world), 2);
    assert_eq!(world.detail(&job).job.attempts, 1);
}

#[test]
fn hard_l4_completion_in_the_same_instant_as_recovery() {
    for seed in 0..50 {
        let attempts = 1 + u32::from(seed % 3);
        let outcome = |ack_first: bool| {
            let mut world = World::seeded(Config::default(), seed);
            let job = world.push(
                "q",
                NewJob {
                    max_attempts: attempts,
                    ..job()
                },
            );
            let token = given(world.pull_lock("q", 1_000.0).expect("ready").token);
            let rival = (seed % 2 == 0).then(|| world.wait(awaiting("q", 60_000)));
            world.now += 1_000;
            let late = if ack_first {
                let late = world.try_ack(&job, token);
                world.tick();
                late
            } else {
                world.tick();
                world.try_ack(&job, token)
            };
            let (state, counts) = (world.state(&job).expect("it is kept"), world.counts("q"));
            assert_eq!(counts.total(), 1, "it stands in one place");
            assert_eq!(
                late.is_ok(),
                state == State::Completed,
                "either the success or the recovery has won"
            );
            let kinds = world.event_kinds();
            let completed = kinds
                .iter()
                .filter(|kind| matches!(kind, EventKind::Completed { .. }))
                .count();
            assert_eq!(completed, usize::from(late.is_ok()));
            let handed = rival
                .and_then(|wait| world.handed(wait))
                .map_or(0, |jobs| jobs.len());
            assert_eq!(
                handed == 1,
                state == State::Active,
                "whoever was handed the job has it"
            );
            state
        };
        assert_eq!(outcome(true), outcome(false), "seed {seed}");
    }
}

#[test]
fn hard_l5_wrong_or_missing_token_changes_nothing() {
    let mut world = World::new();
    let job = world.push("q", job());
    let right = given(world.pull_lock("q", 30_000.0).expect("ready").token);
    let before = world.dump(&["q"], std::slice::from_ref(&job));
    let deadline = world.next_deadline();
    let made_up = TokenGiven::from_text("0190a0b0-1234-7abc-8def-0123456789ab");
    for wrong in [TokenGiven::None, TokenGiven::Malformed, made_up] {
        world.try_ack(&job, wrong).expect_err("ack");
        world.try_fail(&job, wrong, "x").expect_err("fail");
        world.refusal(bunqueue_mcp::command::MoveToWait {
            id: job.clone(),
            token: wrong,
        });
        world.refusal(ChangeDelay {
            id: job.clone(),
            delay: 5.0,
            token: wrong,
        });
        world.refusal(Discard {
            id: job.clone(),
            token: wrong,
        });
        if wrong != TokenGiven::None {
            assert_eq!(world.extend(&job, wrong, 99_000.0), Renewal::InvalidToken);
            assert_eq!(world.heartbeat(&job, wrong), Renewal::InvalidToken);
        }
        assert_eq!(world.dump(&["q"], std::slice::from_ref(&job)), before);
        assert_eq!(world.next_deadline(), deadline);
    }
    assert_eq!(world.try_ack(&job, right), Ok(Report::Applied));
    let before = world.dump(&["q"], std::slice::from_ref(&job));
    world
        .try_fail(&job, right, "after the ack")
        .expect_err("it is completed");
    world.try_ack(&job, right).expect_err("it is completed");
    assert_eq!(world.dump(&["q"], std::slice::from_ref(&job)), before);
    let failing = world.push("q", crate::world::job());
    let delivery = world.pull_lock("q", 30_000.0).expect("ready");
    world.fail(&delivery, "boom");
    let before = world.dump(&["q"], std::slice::from_ref(&failing));
    assert_eq!(world.fail(&delivery, "boom"), Report::AlreadyFinalized);
    assert_eq!(world.dump(&["q"], &[failing]), before);
}

#[test]
fn hard_l6_job_that_kills_its_worker_ends() {
    let mut world = World::new();
    let job = world.push(
        "q",
        NewJob {
            max_attempts: 3,
            ..job()
        },
    );
    for connection in 1..=3 {
        let delivery = world
            .as_connection(connection)
            .pull_lock("q", 1_000.0)
            .expect("ready");
        world.sleep(500);
        world.heartbeat(&job, given(delivery.token));
        world.close(connection);
        assert_eq!(
            world.state(&job),
            Some(State::Active),
            "a renewed lock outlives its connection"
        );
        world.sleep(1_000);
    }
    let failure = world.failure(&job);
    assert_eq!(
        failure.error.as_deref(),
        Some("Lock expired at max attempts (3)")
    );
    let lost = (FailureReason::Stalled, Some("Lock expired"));
    let records: Vec<_> = failure
        .attempts
        .iter()
        .map(|record| (record.reason, record.error.as_deref()))
        .collect();
    assert_eq!(
        records[..2],
        [lost, lost],
        "a lost worker is told apart from a failure of its own"
    );
    assert_eq!(world.counts("q").failed, 1);
    // A connection that closes with a lock never renewed costs nothing.
    let mut world = World::new();
    let job = world.push("q", crate::world::job());
    for connection in 1..=8 {
        world
            .as_connection(connection)
            .pull_lock("q", 1_000.0)
            .expect("ready");
        world.close(connection);
    }
    let view = world.detail(&job).job;
    assert_eq!(
        (view.state, view.attempts, view.stall_count),
        (State::Waiting, 0, 0)
    );
}

#[test]
fn hard_l7_one_expired_lock_among_ten_thousand() {
    let mut world = World::new();
    world.push_many("q", vec![job(); 10_000]);
    let healthy = Pull {
        count: 10_000,
        locked: true,
        lock_ttl: 25_000.0,
        ..pulling("q")
    };
    assert_eq!(world.ask(healthy).len(), 10_000);
    let lost = world.push("q", job());
    world.pull_lock("q", 1_000.0).expect("ready");
    world.events();
    assert_eq!(
        world.next_deadline(),
        Some(world.now + 1_000),
        "the engine waits for exactly this lock"
    );
    world.sleep(1_000);
    assert_eq!(world.event_words(), [format!("stalled {lost}")]);
    assert_eq!(
        (world.counts("q").active, world.counts("q").waiting),
        (10_000, 1)
    );
    assert_eq!(world.next_deadline(), Some(world.now + 24_000));
}

#[test]
fn hard_l8_timeout_ends_a_running_job_on_time() {
    let mut world = World::new();
    let job = world.push("q", with(job(), |options| options.timeout = Some(500.0)));
    let delivery = world.pull_lock("q", 30_000.0).expect("ready");
    world.sleep(499);
    assert_eq!(world.state(&job), Some(State::Active));
    world.sleep(1);
    assert_eq!(world.state(&job), Some(State::Delayed));
    assert_eq!(world.ack(&delivery), Report::AlreadyFinalized);
    assert_eq!(world.state(&job), Some(State::Delayed));
}

#[test]
fn hard_l9_job_removed_while_active_leaves_no_ghost() {
    let removals: [fn(&mut World, &JobId, TokenGiven); 2] = [
        |world, job, token| {
            assert_eq!(
                world.ask(Discard {
                    id: job.clone(),
                    token
                }),
                Change::Applied
            )
        },
        |world, _, _| assert_eq!(world.ask(Obliterate { queue: queue("q") }).count, 1),
    ];
    for remove in removals {
        let mut world = World::new();
        let job = world.push("q", job());
        let token = given(world.pull_lock("q", 1_000.0).expect("ready").token);
        assert_eq!(
            world.ask(Cancel { id: job.clone() }),
            Change::WrongState(State::Active)
        );
        remove(&mut world, &job, token);
        let refusal = world.try_ack(&job, token).expect_err("the worker is told");
        assert_eq!(
            refusal.to_string(),
            format!("Job not found or not in processing state: {job}")
        );
        assert!(matches!(
            world.extend(&job, token, 1_000.0),
            Renewal::NotActive | Renewal::NotFound
        ));
        world.events();
        world.sleep(HOUR);
        assert_eq!(world.pull("q"), None);
        assert_eq!(world.events(), []);
    }
}

#[test]
fn hard_l10_delivery_lost_on_the_way_comes_back() {
    let mut world = World::new();
    world.push_many("q", vec![named("locked"), named("owned")]);
    world.pull_lock("q", 1_000.0).expect("ready");
    world
        .as_connection(1)
        .pull_lock("q", HOUR as f64)
        .expect("ready");
    world.sleep(1_000);
    assert_eq!(world.state(&id("locked")), Some(State::Waiting));
    assert_eq!(world.state(&id("owned")), Some(State::Active));
    world.close(1);
    assert_eq!(world.state(&id("owned")), Some(State::Waiting));
}
