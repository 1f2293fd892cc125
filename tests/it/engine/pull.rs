//! Section 7: pulls, waits and the hand-off between them, locks.

use bunqueue_mcp::command::{
    ChangeDelay, Heartbeat, Pause, Promote, PromoteMany, Pull, QueueName, Renew, Resume,
    SetRateLimit, WaitJob,
};
use bunqueue_mcp::engine::{
    Change, Delivery, Engine, FailureReason, NewJob, PULL_BYTES_MAX, Payload, RateLimit, Renewal,
    Served, State, TokenGiven, WaitFor, Waited,
};

use crate::world::{World, awaiting, given, id, job, named, pulling, queue, with};

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

fn ids(deliveries: &[Delivery]) -> Vec<String> {
    deliveries
        .iter()
        .map(|delivery| delivery.job.id.to_string())
        .collect()
}

/// Something that happens to a world.
type Act = fn(&mut World);

fn pause(world: &mut World, on: &str) {
    world.ask(Pause {
        queue: QueueName::lenient(on),
    });
}

#[test]
fn pl_1_pull_of_an_empty_queue_ends_at_once_or_at_its_time() {
    let mut world = World::new();
    assert_eq!(world.pull("q"), None);
    let wait = world.wait(awaiting("q", 100));
    world.sleep(99);
    assert_eq!(world.handed(wait), None);
    world.sleep(1);
    assert_eq!(world.handed(wait), Some(Vec::new()));
}

#[test]
fn pl_2_added_job_is_handed_to_the_longest_waiting_pull() {
    let mut world = World::new();
    let first = world.wait(awaiting("q", 1_000));
    let second = world.wait(awaiting("q", 1_000));
    let job = world.push("q", job());
    assert_eq!(
        ids(&world.handed(first).expect("served")),
        [job.to_string()]
    );
    assert_eq!(world.handed(second), None);
}

#[test]
fn pl_3_resume_serves_who_waits() {
    let mut world = World::new();
    world.push("q", job());
    pause(&mut world, "q");
    assert_eq!(world.pull("q"), None);
    let wait = world.wait(awaiting("q", 1_000));
    world.sleep(50);
    assert_eq!(world.handed(wait), None);
    world.ask(Resume { queue: queue("q") });
    assert_eq!(world.handed(wait).map(|jobs| jobs.len()), Some(1));
}

#[test]
fn pl_4_paused_queue_hands_out_nothing_until_the_deadline() {
    let mut world = World::new();
    pause(&mut world, "q");
    let wait = world.wait(awaiting("q", 100));
    world.push("q", job());
    world.sleep(100);
    assert_eq!(world.handed(wait), Some(Vec::new()));
    assert_eq!(world.counts("q").paused, 1);
}

#[test]
fn pl_5_delivered_job_is_active_and_alive() {
    let mut world = World::new();
    world.push("q", job());
    world.sleep(5);
    let view = world.pull("q").expect("ready").job;
    assert_eq!((view.state, view.attempts), (State::Active, 0));
    assert_eq!(
        (view.started_at, view.last_heartbeat),
        (Some(world.now), world.now)
    );
}

#[test]
fn pl_6_owner_gets_a_lock_of_the_time_asked_for() {
    let mut world = World::new();
    let job = world.push("q", job());
    let delivery = world.pull_lock("q", 30_000.0).expect("ready");
    assert!(delivery.token.is_some());
    world.sleep(29_999);
    assert_eq!(world.state(&job), Some(State::Active));
    world.sleep(1);
    assert_eq!(world.state(&job), Some(State::Waiting));
}

#[test]
fn pl_7_pull_with_owner_of_an_empty_queue_gives_nothing() {
    let mut world = World::new();
    assert_eq!(world.pull_lock("q", 30_000.0), None);
}

#[test]
fn pl_8_batch_takes_the_first_in_order() {
    let mut world = World::new();
    world.push_many("q", ["a", "b", "c", "d", "e"].map(named).into());
    let deliveries = world.pull_batch("q", 3);
    assert_eq!(ids(&deliveries), ["a", "b", "c"]);
    let tokens: std::collections::HashSet<_> =
        deliveries.iter().map(|delivery| delivery.token).collect();
    assert_eq!(tokens.len(), 3, "each delivery has a token of its own");
}

#[test]
fn pl_9_withdrawn_wait_takes_nothing() {
    let mut world = World::new();
    let wait = world.wait(awaiting("q", 5_000));
    world.act(|engine, _| engine.cancel_wait(wait));
    world.push("q", job());
    assert_eq!(world.served(), []);
    assert_eq!(world.counts("q").waiting, 1);
    world.act(|engine, _| engine.cancel_wait(wait));
}

#[test]
fn pl_10_no_job_is_delivered_twice() {
    let mut world = World::new();
    world.push_many("q", vec![job(); 1_000]);
    let mut seen = std::collections::HashSet::new();
    for puller in 0.. {
        let delivery = world.as_connection(puller % 50).pull("q");
        let Some(delivery) = delivery else { break };
        assert!(seen.insert(delivery.job.id));
    }
    assert_eq!(seen.len(), 1_000);
}

#[test]
fn pl_11_and_b_19_every_way_to_become_ready_serves_who_waits() {
    let ways: [(&str, Act); 8] = [
        ("promote", |world| {
            assert_eq!(world.ask(Promote { id: id("a") }), Change::Applied)
        }),
        ("change of the delay to now", |world| {
            let now = ChangeDelay {
                id: id("a"),
                delay: 0.0,
                token: TokenGiven::None,
            };
            assert_eq!(world.ask(now), Change::Applied);
        }),
        ("a delay that is over", |world| world.sleep(10_000)),
        ("move to wait", |world| {
            assert_eq!(world.move_to_wait(&id("a"), None), Change::Applied)
        }),
        ("retry of a dead letter", |world| {
            assert_eq!(world.move_to_wait(&id("dead"), None), Change::Applied)
        }),
        ("a lock that runs out", |world| world.sleep(20_000)),
        ("a stall", |world| world.sleep(40_000)),
        ("a connection that closes", |world| world.close(9)),
    ];
    for (way, act) in ways {
        let mut world = World::new();
        // A job in each place from which it can come back; only the way that is tried may bring one.
        match way {
            "retry of a dead letter" => {
                world.push(
                    "q",
                    NewJob {
                        max_attempts: 1,
                        ..named("dead")
                    },
                );
                let delivery = world.pull("q").expect("ready");
                world.fail(&delivery, "boom");
            }
            "a lock that runs out" => {
                world.push("q", named("locked"));
                world.pull_lock("q", 20_000.0).expect("ready");
            }
            "a stall" => {
                world.push(
                    "q",
                    with(named("silent"), |options| options.backoff.delay = 0.0),
                );
                world.pull("q").expect("ready");
            }
            "a connection that closes" => {
                world.push("q", named("held"));
                world.as_connection(9).pull("q").expect("ready");
                world.caller = None;
            }
            _ => drop(world.push(
                "q",
                NewJob {
                    delay: 10_000,
                    ..named("a")
                },
            )),
        }
        let wait = world.wait(awaiting("q", 60_000));
        act(&mut world);
        assert_eq!(world.handed(wait).map(|jobs| jobs.len()), Some(1), "{way}");
    }
}

#[test]
fn pl_12_and_b_1_job_that_outlives_its_ttl_fails_by_itself() {
    let mut world = World::new();
    let kept = world.push("q", with(job(), |options| options.ttl = Some(20.0)));
    let gone = world.push(
        "q",
        with(
            NewJob {
                remove_on_fail: true,
                ..job()
            },
            |options| options.ttl = Some(20.0),
        ),
    );
    let late = world.push(
        "q",
        with(
            NewJob {
                delay: 1_000,
                ..job()
            },
            |options| options.ttl = Some(20.0),
        ),
    );
    world.events();
    world.sleep(20);
    assert_eq!(
        world.state(&kept),
        Some(State::Waiting),
        "not before the ttl is exceeded"
    );
    world.sleep(1);
    assert_eq!(world.events().len(), 3);
    for job in [&kept, &late] {
        let failure = world.failure(job);
        assert_eq!(
            (failure.reason, failure.error.as_deref()),
            (FailureReason::TtlExpired, Some("Job TTL expired"))
        );
        assert_eq!(world.detail(job).job.attempts, 0);
    }
    assert_eq!(world.state(&gone), None);
    assert_eq!(world.pull("q"), None);
}

#[test]
fn b_1_ttl_counts_from_creation_and_spares_active_jobs() {
    let mut world = World::new();
    let old = NewJob {
        timestamp: Some(world.now - 1_000),
        ..job()
    };
    let dead = world.push("q", with(old, |options| options.ttl = Some(500.0)));
    assert_eq!(
        world.event_words(),
        [format!("pushed {dead}"), format!("failed {dead}")]
    );
    let active = world.push("q", with(job(), |options| options.ttl = Some(500.0)));
    let delivery = world.pull_lock("q", 60_000.0).expect("ready");
    world.sleep(10_000);
    assert_eq!(world.state(&active), Some(State::Active));
    world.fail(&delivery, "boom");
    assert_eq!(
        world.failure(&active).reason,
        FailureReason::TtlExpired,
        "queued again, it is too old"
    );
}

#[test]
fn pl_13_lock_without_time_is_over_at_once() {
    let mut world = World::new();
    let job = world.push("q", job());
    let delivery = world.pull_lock("q", 0.0).expect("ready");
    assert_eq!(
        world.extend(&job, given(delivery.token), 1_000.0),
        Renewal::NotActive
    );
    assert_eq!(world.detail(&job).job.stall_count, 1);
}

#[test]
fn pl_14_renewal_needs_the_token_and_counts_from_now() {
    let mut world = World::new();
    let job = world.push("q", job());
    let delivery = world.pull_lock("q", 500.0).expect("ready");
    world.sleep(400);
    assert_eq!(
        world.extend(&job, TokenGiven::Malformed, 1_000.0),
        Renewal::InvalidToken
    );
    assert_eq!(
        world.extend(&job, given(delivery.token), 1_000.0),
        Renewal::Renewed
    );
    world.sleep(999);
    assert_eq!(world.state(&job), Some(State::Active));
    world.sleep(1);
    assert_eq!(world.state(&job), Some(State::Waiting));
}

#[test]
fn pl_15_heartbeats_are_for_active_jobs() {
    let mut world = World::new();
    let job = world.push("q", job());
    assert_eq!(world.heartbeat(&job, TokenGiven::None), Renewal::NotActive);
    let delivery = world.pull_lock("q", 1_000.0).expect("ready");
    assert_eq!(
        world.heartbeat(&job, TokenGiven::Malformed),
        Renewal::InvalidToken
    );
    let renew = |id, token| Renew {
        id,
        token,
        duration: None,
    };
    let items = vec![
        renew(job.clone(), given(delivery.token)),
        renew(id("unknown"), TokenGiven::None),
    ];
    assert_eq!(
        world.ask(Heartbeat { items }),
        [Renewal::Renewed, Renewal::NotFound]
    );
    world.sleep(600);
    assert_eq!(
        world.heartbeat(&job, TokenGiven::None),
        Renewal::Renewed,
        "a sign of life needs no token"
    );
    world.sleep(400);
    assert_eq!(
        world.state(&job),
        Some(State::Waiting),
        "but only a token renews the lock"
    );
}

#[test]
fn pl_16_extension_without_a_token_takes_whatever_lock_exists() {
    let mut world = World::new();
    let locked = world.push("q", job());
    world.pull_lock("q", 1_000.0).expect("ready");
    let free = world.push("q", job());
    world.pull("q").expect("ready");
    assert_eq!(
        world.extend(&locked, TokenGiven::None, 5_000.0),
        Renewal::Renewed
    );
    assert_eq!(
        world.extend(&free, TokenGiven::None, 5_000.0),
        Renewal::InvalidToken
    );
    assert_eq!(
        world.extend(&id("unknown"), TokenGiven::None, 5_000.0),
        Renewal::NotFound
    );
    world.sleep(4_999);
    assert_eq!(world.state(&locked), Some(State::Active));
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
fn job_due_when_a_wait_ends_is_still_delivered() {
    let mut world = World::new();
    world.push("q", NewJob { delay: 50, ..job() });
    let wait = world.wait(awaiting("q", 50));
    world.sleep(50);
    assert_eq!(world.handed(wait).map(|jobs| jobs.len()), Some(1));
}

#[test]
fn waiting_batch_pull_takes_all_that_becomes_ready_in_one_step() {
    let batch = || Pull {
        count: 10,
        wait: 60_000,
        locked: true,
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
    // A batch that is added.
    let mut world = World::new();
    let wait = world.wait(batch());
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
    for _ in 0..22 {
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

#[test]
fn closing_ends_all_waits_and_hands_out_nothing_more() {
    let mut world = World::new();
    let job = world.push("q", NewJob { delay: 10, ..job() });
    let pull = world.wait(awaiting("q", 60_000));
    let outcome = world.wait(WaitJob {
        id: job.clone(),
        until: WaitFor::Outcome,
        timeout: 60_000,
    });
    world.act(Engine::close);
    assert_eq!(
        world.served(),
        [
            (pull, Served::Pull(Vec::new())),
            (outcome, Served::Job(Waited::TimedOut))
        ]
    );
    world.sleep(10);
    assert_eq!(world.pull("q"), None);
    // A new wait is over at once, and a later order to drain opens nothing again.
    world.act(Engine::stop_deliveries);
    assert!(world.ask(awaiting("q", 60_000)).is_empty());
    assert_eq!(world.state(&job), Some(State::Waiting));
}

#[test]
fn while_it_drains_nothing_is_handed_out_and_everything_else_goes_on() {
    let mut world = World::new();
    let limit = SetRateLimit {
        queue: queue("limited"),
        limit: RateLimit {
            max: 1,
            duration: 100,
        },
        ttl: None,
    };
    world.ask(limit);
    world.push("limited", job());
    assert!(world.pull("limited").is_some());
    let held = world.push("q", job());
    let delivery = world.pull("q").expect("a job");
    let delayed = world.push("q", NewJob { delay: 10, ..job() });
    let before = world.wait(awaiting("q", 1_000));
    let for_token = world.wait(awaiting("limited", 1_000));
    let outcome = world.wait(WaitJob {
        id: held.clone(),
        until: WaitFor::Outcome,
        timeout: 60_000,
    });
    world.act(Engine::stop_deliveries);
    assert_eq!(world.served(), [], "no wait ends with the order");
    // Neither what becomes ready nor what is added, freed or asked for is handed out.
    world.sleep(10);
    assert_eq!(world.state(&delayed), Some(State::Waiting));
    let added = world.push("q", job());
    world.push("limited", job());
    world.sleep(200);
    assert_eq!(world.pull("q"), None);
    let after = world.wait(awaiting("q", 500));
    assert_eq!(world.served(), []);
    assert_eq!(
        world.heartbeat(&held, given(delivery.token)),
        Renewal::Renewed
    );
    world.ack(&delivery);
    let served = world.served();
    assert!(matches!(
        served.as_slice(),
        [(waiter, Served::Job(Waited::Completed { .. }))] if *waiter == outcome
    ));
    // Each wait ends at its own time, with nothing.
    world.sleep(500);
    assert_eq!(world.served(), [(after, Served::Pull(Vec::new()))]);
    world.sleep(290);
    let mut ended = world.served();
    ended.sort_by_key(|(waiter, _)| *waiter);
    let nothing = |waiter| (waiter, Served::Pull(Vec::new()));
    assert_eq!(ended, [nothing(before), nothing(for_token)]);
    assert_eq!(world.state(&added), Some(State::Waiting));
}

#[test]
fn the_engine_knows_how_many_jobs_are_active() {
    let mut world = World::new();
    for _ in 0..4 {
        world.push("q", job());
    }
    world.push("other", job());
    let mut held = world.pull_batch("q", 4);
    held.extend(world.pull("other"));
    let active = |world: &mut World| {
        let mut active = 0;
        world.act(|engine, _| active = engine.active());
        active
    };
    assert_eq!(active(&mut world), 5);
    let ends: [fn(&mut World, &Delivery); 4] = [
        |world, delivery| _ = world.ack(delivery),
        |world, delivery| _ = world.fail(delivery, "no"),
        |world, delivery| _ = world.move_to_wait(&delivery.job.id, delivery.token),
        |world, delivery| _ = world.cancel(&delivery.job.id),
    ];
    for (end, delivery) in ends.iter().zip(&held) {
        end(&mut world, delivery);
    }
    let left = active(&mut world);
    // Silence ends the rest.
    world.sleep(120_000);
    assert_eq!(active(&mut world), 0, "{left} before");
}

#[test]
fn a_pull_hands_out_no_more_bytes_than_a_frame_holds_and_never_nothing() {
    let mut world = World::new();
    for _ in 0..3 {
        let large = NewJob {
            data: Some(Payload::new(&vec![0; PULL_BYTES_MAX / 2 + 1])),
            ..job()
        };
        world.push("q", large);
    }
    let pulled: Vec<_> = (0..4).map(|_| world.pull_batch("q", 10).len()).collect();
    assert_eq!(pulled, [1, 1, 1, 0]);
}

#[test]
fn a_job_too_old_to_start_does_not_end_the_wait_of_a_pull() {
    let mut world = World::new();
    let waiter = world.wait(awaiting("q", 60_000));
    let stale = with(job(), |options| options.ttl = Some(1.0));
    let stale = world.push("q", NewJob { delay: 1, ..stale });
    // One late tick, in which the job has become ready and too old.
    world.now += 100;
    world.tick();
    assert_eq!(world.state(&stale), Some(State::Failed));
    assert_eq!(world.handed(waiter), None);
    let fresh = world.push("q", job());
    let handed = world.handed(waiter).expect("the pull still waits");
    assert_eq!(handed[0].job.id, fresh);
}
