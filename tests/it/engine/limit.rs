//! Section 17: the rate limit and the concurrency cap of a queue, with B-19, B-20 and B-39.

use bunqueue_mcp::command::{
    ChangeDelay, ClearConcurrency, ClearRateLimit, Discard, GetQueueLimits, ListQueues, Obliterate,
    Pause, Pull, Resume, SetConcurrency, SetRateLimit,
};
use bunqueue_mcp::engine::{
    Change, Millis, NewJob, PullGroup, QueueLimits, RateLimit, Report, SPAN_MAX, State, TokenGiven,
};

use crate::world::{
    World, awaiting, choosing, given, grouped, id, job, named, pulling, queue, with,
};

fn rate(max: u64, duration: Millis) -> SetRateLimit {
    SetRateLimit {
        queue: queue("q"),
        limit: RateLimit { max, duration },
        ttl: None,
    }
}

fn cap(limit: u64) -> SetConcurrency {
    SetConcurrency {
        queue: queue("q"),
        limit,
    }
}

fn limits(world: &mut World) -> QueueLimits {
    limits_for(world, None)
}

fn limits_for(world: &mut World, jobs: Option<u64>) -> QueueLimits {
    let queue = queue("q");
    world.ask(GetQueueLimits { queue, jobs })
}

fn world_with(jobs: usize) -> World {
    let mut world = World::new();
    world.push_many("q", (0..jobs).map(|n| named(&format!("j{n}"))).collect());
    world
}

#[test]
fn rl_1_a_cap_bounds_the_active_jobs() {
    let mut world = world_with(3);
    world.ask(cap(2));
    let taken = world.pull_batch("q", 3);
    assert_eq!(taken.len(), 2);
    assert!(world.pull("q").is_none());
    world.ack(&taken[0]);
    assert_eq!(world.pull("q").map(|next| next.job.id), Some(id("j2")));
    assert!(world.pull("q").is_none());
}

#[test]
fn rl_2_a_burst_then_an_even_rate() {
    let mut world = world_with(5);
    world.ask(rate(3, 300));
    assert_eq!(world.pull_all("q"), ["j0", "j1", "j2"]);
    world.sleep(99);
    assert!(world.pull("q").is_none());
    world.sleep(21);
    assert_eq!(world.pull_all("q"), ["j3"]);
    world.sleep(79);
    assert!(world.pull("q").is_none());
    world.sleep(1);
    assert_eq!(world.pull_all("q"), ["j4"]);
}

#[test]
fn rl_3_limits_can_be_read() {
    let mut world = world_with(2);
    let none = QueueLimits {
        rate: None,
        rate_ttl: -2,
        concurrency: None,
        active: 0,
        maxed: false,
        paused: false,
    };
    assert_eq!(limits(&mut world), none);
    let on = queue("nowhere");
    let of_none = GetQueueLimits {
        queue: on,
        jobs: None,
    };
    assert_eq!(world.ask(of_none), none);
    world.ask(rate(5, 1_000));
    world.ask(cap(1));
    world.pull("q");
    let limited = QueueLimits {
        rate: Some(RateLimit {
            max: 5,
            duration: 1_000,
        }),
        rate_ttl: 0,
        concurrency: Some(1),
        active: 1,
        maxed: true,
        paused: false,
    };
    assert_eq!(limits(&mut world), limited);
}

#[test]
fn time_to_the_next_token_is_told() {
    let mut world = world_with(3);
    world.ask(rate(2, 1_000));
    world.pull_all("q");
    assert_eq!(limits(&mut world).rate_ttl, 500);
    // All of two tokens are in use: fewer than three, but not fewer than two.
    assert_eq!(limits_for(&mut world, Some(3)).rate_ttl, 0);
    assert_eq!(limits_for(&mut world, Some(2)).rate_ttl, 500);
    world.sleep(123);
    assert_eq!(limits(&mut world).rate_ttl, 377);
    assert_eq!(limits_for(&mut world, Some(2)).rate_ttl, 0);
    world.ask(rate(0, 1_000));
    assert_eq!(limits(&mut world).rate_ttl, SPAN_MAX);
}

#[test]
fn rl_5_a_limit_set_again_starts_full() {
    let mut world = world_with(3);
    world.ask(rate(1, 60_000));
    assert!(world.pull("q").is_some());
    assert!(world.pull("q").is_none());
    let wait = world.wait(awaiting("q", 10_000));
    world.ask(rate(1, 60_000));
    assert_eq!(world.handed(wait).map(|jobs| jobs.len()), Some(1));
    assert!(world.pull("q").is_none());
}

#[test]
fn rl_6_a_temporary_limit_removes_itself() {
    let mut world = world_with(2);
    world.ask(SetRateLimit {
        ttl: Some(300),
        ..rate(0, 1_000)
    });
    assert_eq!(limits(&mut world).rate_ttl, 300);
    let wait = world.wait(awaiting("q", 10_000));
    world.sleep(299);
    assert_eq!(limits(&mut world).rate_ttl, 1);
    assert_eq!(world.handed(wait), None);
    world.sleep(1);
    assert_eq!(world.handed(wait).map(|jobs| jobs.len()), Some(1));
    assert_eq!(limits(&mut world).rate, None);
    assert!(world.pull("q").is_some());
    // A permanent limit in its place is not removed at the time of the temporary one.
    world.ask(SetRateLimit {
        ttl: Some(300),
        ..rate(1, 1_000)
    });
    world.ask(rate(1, 1_000));
    world.sleep(1_000);
    assert!(limits(&mut world).rate.is_some());
}

#[test]
fn rl_7_zero_blocks() {
    let mut world = world_with(1);
    world.ask(cap(0));
    assert!(world.pull("q").is_none());
    assert!(limits(&mut world).maxed);
    world.ask(ClearConcurrency { queue: queue("q") });
    world.ask(rate(0, 1_000));
    world.sleep(10_000_000);
    assert!(world.pull("q").is_none());
    world.ask(ClearRateLimit { queue: queue("q") });
    assert!(world.pull("q").is_some());
}

#[test]
fn rl_8_a_refusal_by_the_cap_costs_no_token() {
    let mut world = world_with(3);
    world.ask(rate(2, 60_000));
    world.ask(cap(1));
    let first = world.pull("q").expect("ready");
    for _ in 0..10 {
        assert!(world.pull("q").is_none());
    }
    world.ack(&first);
    assert!(world.pull("q").is_some());
}

#[test]
fn b_39_a_refusal_by_a_group_costs_no_token() {
    let mut world = World::new();
    world.push_many(
        "q",
        vec![grouped(named("a"), "g"), grouped(named("b"), "g")],
    );
    world.ask(rate(2, 60_000));
    let one_each = || PullGroup {
        concurrency: Some(1),
        ..PullGroup::default()
    };
    assert_eq!(world.pull_ids(choosing("q", 5, one_each())), ["a"]);
    for _ in 0..10 {
        assert!(world.ask(choosing("q", 1, one_each())).is_empty());
    }
    assert_eq!(world.pull_ids(pulling("q")), ["b"]);
}

#[test]
fn b_39_a_refusal_by_the_rate_opens_no_window() {
    let mut world = World::new();
    world.push("q", grouped(named("a"), "g"));
    world.ask(rate(0, 1));
    let one_per_minute = || PullGroup {
        limit: Some(RateLimit {
            max: 1,
            duration: 60_000,
        }),
        ..PullGroup::default()
    };
    let before = world.whole_state();
    assert!(world.ask(choosing("q", 1, one_per_minute())).is_empty());
    assert_eq!(before, world.whole_state());
    world.ask(ClearRateLimit { queue: queue("q") });
    assert_eq!(world.pull_ids(choosing("q", 1, one_per_minute())), ["a"]);
}

#[test]
fn b_19_a_token_wakes_whoever_waits() {
    let mut world = world_with(4);
    world.ask(rate(1, 200));
    assert!(world.pull("q").is_some());
    let waits = [1, 2].map(|_| world.wait(awaiting("q", 2_000)));
    assert_eq!(world.next_deadline(), Some(world.now + 200));
    world.sleep(199);
    assert_eq!(world.handed(waits[0]), None);
    world.sleep(1);
    assert_eq!(world.handed(waits[0]).map(|jobs| jobs.len()), Some(1));
    assert_eq!(world.handed(waits[1]), None);
    world.sleep(200);
    assert_eq!(world.handed(waits[1]).map(|jobs| jobs.len()), Some(1));
    // Nobody waits any more, so nothing stands in the order for it but the deliveries and waits of others.
    let armed = world.next_deadline();
    assert!(armed.is_none_or(|at| at > world.now + 200));
}

#[test]
fn b_19_nothing_is_due_for_a_token_that_nobody_waits_for() {
    let mut world = world_with(2);
    world.ask(rate(1, 200));
    let taken = world.pull("q").expect("ready");
    world.ack(&taken);
    let quiet = world.next_deadline();
    let wait = world.wait(awaiting("q", 2_000));
    assert_eq!(world.next_deadline(), Some(world.now + 200));
    world.act(|engine, _| engine.cancel_wait(wait));
    assert_eq!(world.next_deadline(), quiet);
}

#[test]
fn b_19_a_lifted_limit_wakes_whoever_waits() {
    type Act = fn(&mut World);
    let acts: [(&str, Act); 5] = [
        ("rate cleared", |world| {
            world.ask(ClearRateLimit { queue: queue("q") });
        }),
        ("rate set", |world| world.ask(rate(1, 60_000))),
        ("cap raised", |world| world.ask(cap(1))),
        ("cap cleared", |world| {
            world.ask(ClearConcurrency { queue: queue("q") });
        }),
        ("delay changed", |world| {
            let change = ChangeDelay {
                id: id("j0"),
                delay: 0.0,
                token: TokenGiven::None,
            };
            assert_eq!(world.ask(change), Change::Applied);
        }),
    ];
    for (what, act) in acts {
        let mut world = World::new();
        let delay = if what.starts_with("delay") { 5_000 } else { 0 };
        match what {
            "rate cleared" | "rate set" => world.ask(rate(0, 1_000)),
            "delay changed" => {}
            _ => world.ask(cap(0)),
        }
        world.push(
            "q",
            NewJob {
                delay,
                ..named("j0")
            },
        );
        let wait = world.wait(awaiting("q", 2_000));
        world.sleep(10);
        assert_eq!(world.handed(wait), None, "{what}");
        act(&mut world);
        assert_eq!(world.handed(wait).map(|jobs| jobs.len()), Some(1), "{what}");
    }
}

#[test]
fn b_19_every_end_of_a_delivery_frees_its_slot_for_who_waits() {
    type Act = fn(&mut World);
    let acts: [(&str, Act); 8] = [
        ("ack", |world| {
            assert!(world.try_ack(&id("j0"), TokenGiven::None).is_ok());
        }),
        ("removed on completion", |world| {
            world.ask(bunqueue_mcp::command::Ack {
                id: id("j0"),
                token: TokenGiven::None,
                result: None,
                remove_on_complete: true,
            });
        }),
        ("retried later", |world| {
            let report = world.try_fail(&id("j0"), TokenGiven::None, "boom");
            assert_eq!(report, Ok(Report::Applied));
        }),
        ("discarded", |world| {
            let discard = Discard {
                id: id("j0"),
                token: TokenGiven::None,
            };
            assert_eq!(world.ask(discard), Change::Applied);
        }),
        ("timed out", |world| world.sleep(500)),
        ("moved to later", |world| {
            let change = ChangeDelay {
                id: id("j0"),
                delay: 50_000.0,
                token: TokenGiven::None,
            };
            assert_eq!(world.ask(change), Change::Applied);
        }),
        ("stalled", |world| world.sleep(45_000)),
        ("disconnected", |world| world.close(7)),
    ];
    for (what, act) in acts {
        let mut world = World::new();
        let timeout = (what == "timed out").then_some(500.0);
        world.push("q", with(named("j0"), |options| options.timeout = timeout));
        world.push("q", named("j1"));
        world.ask(cap(1));
        world.as_connection(7);
        assert!(world.pull("q").is_some());
        world.caller = None;
        let wait = world.wait(awaiting("q", 60_000));
        assert_eq!(world.handed(wait), None, "{what}");
        act(&mut world);
        let handed = world.handed(wait).unwrap_or_else(|| panic!("{what}"));
        // What goes back at once has its old place, before the other.
        let expected = if what == "disconnected" { "j0" } else { "j1" };
        assert_eq!(handed[0].job.id, id(expected), "{what}");
    }
}

#[test]
fn slots_freed_by_one_batch_are_handed_out_together() {
    let mut world = world_with(6);
    world.ask(cap(3));
    let taken = world.pull_batch("q", 3);
    let wait = world.wait(Pull {
        count: 3,
        ..awaiting("q", 60_000)
    });
    let items = taken.iter().map(|delivery| bunqueue_mcp::command::Ack {
        id: delivery.job.id.clone(),
        token: given(delivery.token),
        result: None,
        remove_on_complete: false,
    });
    let items = items.collect();
    world.ask(bunqueue_mcp::command::AckMany { items });
    assert_eq!(world.handed(wait).map(|jobs| jobs.len()), Some(3));
}

#[test]
fn a_batch_is_whole_before_anybody_is_served() {
    let mut world = World::new();
    let wait = world.wait(awaiting("q", 60_000));
    let stale = NewJob {
        timestamp: Some(world.now - 10),
        ..with(job(), |options| options.ttl = Some(1.0))
    };
    let urgent = NewJob {
        priority: 5.0,
        ..named("urgent")
    };
    world.push_many("q", vec![named("first"), stale, urgent]);
    let handed = world.handed(wait).expect("served");
    assert_eq!(handed[0].job.id, id("urgent"));
}

#[test]
fn b_20_the_cap_counts_what_is_active_already() {
    let mut world = world_with(2);
    let first = world.pull("q").expect("ready");
    world.ask(cap(1));
    assert!(limits(&mut world).maxed);
    assert!(world.pull("q").is_none());
    world.ack(&first);
    assert!(world.pull("q").is_some());
}

#[test]
fn b_20_a_late_success_frees_no_slot_of_others() {
    let mut world = World::new();
    world.push_many("q", vec![named("a"), named("b"), named("c")]);
    world.ask(cap(1));
    let late = world.pull_lock("q", 1_000.0).expect("ready");
    world.sleep(1_000);
    // Its lock is over; it waits again, and so another one takes the slot.
    world.ask(ChangeDelay {
        id: id("a"),
        delay: 60_000.0,
        token: TokenGiven::None,
    });
    assert_eq!(world.pull("q").map(|next| next.job.id), Some(id("b")));
    assert_eq!(
        world.try_ack(&id("a"), given(late.token)),
        Ok(Report::Applied)
    );
    assert_eq!(world.state(&id("a")), Some(State::Completed));
    assert!(world.pull("q").is_none(), "one is active, and one may be");
}

#[test]
fn lowering_the_cap_blocks_until_enough_have_ended() {
    let mut world = world_with(5);
    let taken = world.pull_batch("q", 3);
    world.ask(cap(1));
    for delivery in &taken[..2] {
        assert!(world.pull("q").is_none());
        world.ack(delivery);
    }
    assert!(world.pull("q").is_none());
    world.ack(&taken[2]);
    assert!(world.pull("q").is_some());
}

#[test]
fn what_nobody_has_read_gives_back_slot_and_token() {
    let mut world = world_with(2);
    world.ask(rate(1, 60_000));
    world.ask(cap(1));
    let taken = world.pull_batch("q", 1);
    world.act(|engine, turn| engine.give_back(turn, &taken));
    assert_eq!(limits(&mut world).rate_ttl, 0);
    assert_eq!(world.pull_all("q"), ["j0"]);
}

#[test]
fn what_was_paid_to_an_earlier_limit_does_not_come_back_to_this_one() {
    let mut world = world_with(3);
    world.ask(rate(1, 60_000));
    let taken = world.pull_batch("q", 1);
    world.ask(rate(2, 60_000));
    assert!(world.pull("q").is_some());
    world.act(|engine, turn| engine.give_back(turn, &taken));
    assert_eq!(world.pull_all("q"), ["j0"], "one of two tokens was left");
}

#[test]
fn a_limited_queue_stays_known_and_a_free_one_goes() {
    let mut world = World::new();
    world.ask(rate(1, 1_000));
    world.ask(cap(1));
    world.sleep(1_000_000);
    assert_eq!(world.ask(ListQueues).len(), 1);
    world.ask(ClearRateLimit { queue: queue("q") });
    world.sleep(1_000_000);
    assert_eq!(world.ask(ListQueues).len(), 1);
    world.ask(ClearConcurrency { queue: queue("q") });
    world.sleep(1_000_000);
    assert!(world.ask(ListQueues).is_empty());
    // Clearing what is not there makes no queue.
    world.ask(ClearRateLimit { queue: queue("q") });
    world.ask(ClearConcurrency { queue: queue("q") });
    assert!(world.ask(ListQueues).is_empty());
    assert_eq!(world.next_deadline(), None);
}

#[test]
fn mg_12_obliterate_lifts_all_limits() {
    let mut world = world_with(1);
    world.ask(SetRateLimit {
        ttl: Some(50_000),
        ..rate(0, 1_000)
    });
    world.ask(cap(0));
    let wait = world.wait(awaiting("q", 60_000));
    world.ask(Obliterate { queue: queue("q") });
    assert_eq!(limits(&mut world).rate_ttl, -2);
    world.push("q", job());
    assert_eq!(world.handed(wait).map(|jobs| jobs.len()), Some(1));
    world.sleep(60_000);
}

#[test]
fn a_paused_queue_is_served_by_its_resume_at_the_time_of_the_token() {
    let mut world = world_with(2);
    world.ask(rate(1, 1_000));
    world.pull("q");
    let wait = world.wait(awaiting("q", 60_000));
    world.ask(Pause { queue: queue("q") });
    assert!(limits(&mut world).paused);
    world.sleep(5_000);
    assert_eq!(world.handed(wait), None);
    world.ask(Resume { queue: queue("q") });
    assert_eq!(world.handed(wait).map(|jobs| jobs.len()), Some(1));
}

#[test]
fn a_wait_that_was_over_before_there_was_a_token_stays_empty_however_late_that_is_noticed() {
    let mut world = world_with(1);
    world.ask(rate(1, 1_000));
    assert_eq!(world.pull_all("q"), ["j0"]);
    world.push(
        "q",
        NewJob {
            delay: 10,
            ..named("j1")
        },
    );
    let waiter = world.wait(awaiting("q", 60));
    // Nothing happens on time, as in a process that was suspended: the job, the end of the wait, then the token.
    world.now += 5_000;
    world.tick();
    assert_eq!(world.handed(waiter), Some(Vec::new()));
    assert_eq!(world.pull_all("q"), ["j1"]);
}
