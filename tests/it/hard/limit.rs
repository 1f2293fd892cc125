//! Limits.

use bunqueue_mcp::command::{Cancel, Discard, Obliterate, SetConcurrency, SetRateLimit};
use bunqueue_mcp::engine::{Counts, Millis, NewJob, RateLimit, TokenGiven};

use crate::storage::Kept;
use crate::world::{World, awaiting, given, id, job, named, queue, with};

fn rate(max: u64, duration: Millis) -> SetRateLimit {
    SetRateLimit {
        queue: queue("q"),
        limit: RateLimit { max, duration },
        ttl: None,
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Ends one delivery in one of the ways there are.
fn end(world: &mut World, dice: &mut Dice, round: u64) {
    world.as_connection(round);
    let locked = dice.below(2) == 0;
    let taken = if locked {
        world.pull_lock("q", 1_000.0)
    } else {
        world.pull("q")
    };
    let Some(delivery) = taken else {
        world.sleep(100);
        return;
    };
    let (job, token) = (delivery.job.id.clone(), given(delivery.token));
    match dice.below(8) {
        0 | 1 => drop(world.ack(&delivery)),
        2 => drop(world.fail(&delivery, "boom")),
        3 => world.sleep(1_001),
        4 => world.sleep(45_000),
        5 => world.close(round),
        6 => {
            assert_eq!(
                world.cancel(&job),
                bunqueue_mcp::engine::Change::WrongState(bunqueue_mcp::engine::State::Active)
            );
            world.ask(Discard { id: job, token });
        }
        _ => world.act(|engine, turn| engine.give_back(turn, &[delivery])),
    }
}

#[test]
fn hard_p2_every_way_back_for_a_slot() {
    for seed in 1..=20 {
        let (mut world, mut dice) = (World::new(), Dice(seed));
        world.ask(SetConcurrency {
            queue: queue("q"),
            limit: 2,
        });
        world.ask(rate(5, 1_000));
        let jobs = (0..40).map(|n| {
            let new = NewJob {
                max_attempts: 5,
                ..named(&format!("j{n}"))
            };
            with(new, |options| {
                options.timeout = (n % 4 == 0).then_some(2_000.0)
            })
        });
        world.push_many("q", jobs.collect());
        for round in 1..=120 {
            end(&mut world, &mut dice, round);
            assert!(world.counts("q").active <= 2);
        }
        if seed % 4 == 0 {
            world.ask(Obliterate { queue: queue("q") });
            world.ask(SetConcurrency {
                queue: queue("q"),
                limit: 2,
            });
            world.push_many("q", (0..4).map(|_| job()).collect());
        }
        // All that is left gets done, two at a time: no slot is missing.
        world.caller = None;
        let mut most = 0;
        for _ in 0..2_000 {
            let taken = world.pull_batch("q", 5);
            most = most.max(world.counts("q").active);
            for delivery in &taken {
                world.ack(delivery);
            }
            world.sleep(1_000);
        }
        let Counts {
            waiting,
            prioritized,
            delayed,
            active,
            ..
        } = world.counts("q");
        assert_eq!(
            [waiting, prioritized, delayed, active],
            [0; 4],
            "seed {seed}"
        );
        assert!(most <= 2);
        world.push_many("q", (0..3).map(|_| job()).collect());
        assert_eq!(world.pull_batch("q", 3).len(), 2, "seed {seed}");
    }
}

/// The same, with processes that end in between and leave their deliveries to the next one, which then starts at once or
/// when the locks have run out.
#[test]
fn hard_p2_every_way_back_for_a_slot_over_restarts() {
    for seed in 1..=4 {
        let (mut kept, mut dice) = (Kept::new(), Dice(seed));
        let cap = SetConcurrency {
            queue: queue("q"),
            limit: 2,
        };
        kept.world.ask(cap);
        kept.world.ask(rate(5, 1_000));
        let jobs = (0..40).map(|n| NewJob {
            max_attempts: 5,
            ..named(&format!("j{n}"))
        });
        kept.world.push_many("q", jobs.collect());
        let (mut again, mut acked) = (0, 0);
        for round in 1..=60 {
            let held = kept.world.pull_lock("q", 1_000.0);
            end(&mut kept.world, &mut dice, round);
            if dice.below(3) == 0 {
                kept.restart([0, 1_001][dice.below(2) as usize]);
                again += 1;
            }
            assert!(kept.world.counts("q").active <= 2, "seed {seed}");
            // Whoever still has the lock reports by it, restart or not.
            let Some(held) = held else { continue };
            let job = kept.world.state(&held.job.id);
            let before = kept.world.counts("q").completed;
            let is_acked = kept.world.try_ack(&held.job.id, given(held.token)).is_ok();
            acked += u64::from(is_acked);
            let after = kept.world.counts("q").completed;
            assert!(after == before || is_acked, "{job:?} {}", held.job.id);
        }
        assert!(
            again > 5 && acked > 5,
            "{again} restarts, {acked} late reports"
        );
        kept.restart(60_000);
        kept.world.sleep(3_600_000);
        for _ in 0..200 {
            let taken = kept.world.pull_batch("q", 5);
            assert!(kept.world.counts("q").active <= 2, "seed {seed}");
            taken.iter().for_each(|delivery| {
                kept.world.ack(delivery);
            });
            kept.world.sleep(1_000);
        }
        let counts = kept.world.counts("q");
        assert_eq!(
            counts.total(),
            counts.completed + counts.failed,
            "seed {seed}"
        );
        kept.world.push_many("q", vec![job(); 3]);
        assert_eq!(kept.world.pull_batch("q", 3).len(), 2, "seed {seed}");
    }
}

#[test]
fn hard_p2_a_job_that_is_cancelled_while_it_waits_leaves_the_slots_alone() {
    let mut world = World::new();
    world.ask(SetConcurrency {
        queue: queue("q"),
        limit: 1,
    });
    world.push_many("q", vec![named("a"), named("b"), named("c")]);
    let first = world.pull("q").expect("ready");
    let wait = world.wait(awaiting("q", 60_000));
    world.ask(Cancel { id: id("b") });
    assert_eq!(world.handed(wait), None);
    world.ack(&first);
    let handed = world.handed(wait).expect("the slot is free");
    assert_eq!(handed[0].job.id, id("c"));
}

/// When each of ten waiting pulls is served, relative to the start, and with which job.
fn served_at(world: &mut World, pulls: usize, until: Millis) -> Vec<(Millis, String)> {
    let start = world.now;
    let mut waits: Vec<_> = (0..pulls)
        .map(|_| world.wait(awaiting("q", until)))
        .collect();
    let mut served = Vec::new();
    while !waits.is_empty() {
        let now = world.now;
        waits.retain(|wait| match world.handed(*wait) {
            Some(jobs) => {
                served.push((now - start, jobs[0].job.id.to_string()));
                world
                    .try_ack(&jobs[0].job.id, TokenGiven::None)
                    .expect("active");
                false
            }
            None => true,
        });
        let next = world.next_deadline().map_or(now + 1, |at| at.max(now));
        world.sleep(next - now);
        assert!(world.now <= start + until, "{served:?}");
    }
    served
}

#[test]
fn hard_p3_ten_pulls_in_the_same_instant() {
    let mut world = World::new();
    world.ask(rate(2, 1_000));
    // The burst is taken by two pulls, the others wait for a token each.
    let wait = |n: Millis| (n - 1).max(0) * 500;
    for n in 0..10 {
        world.push(
            "q",
            NewJob {
                priority: f64::from((n * 7) % 10),
                ..named(&format!("p{}", (n * 7) % 10))
            },
        );
    }
    let mut served = vec![];
    for _ in 0..2 {
        let delivery = world.pull("q").expect("a token is there");
        served.push((0, delivery.job.id.to_string()));
    }
    served.extend(served_at(&mut world, 8, 60_000));
    let expected: Vec<_> = (0..10).map(|n| (wait(n), format!("p{}", 9 - n))).collect();
    assert_eq!(served, expected, "the order is that of no limit");
}

#[test]
fn hard_p3_ten_a_minute_are_not_ten_a_second() {
    let mut world = World::new();
    world.ask(rate(10, 60_000));
    world.push_many("q", (0..30).map(|n| named(&format!("j{n}"))).collect());
    let burst = world.pull_batch("q", 30);
    assert_eq!(burst.len(), 10);
    for delivery in &burst {
        world.ack(delivery);
    }
    let times: Vec<_> = served_at(&mut world, 20, 130_000)
        .into_iter()
        .map(|(at, _)| at)
        .collect();
    let expected: Vec<Millis> = (1..=20).map(|n| n * 6_000).collect();
    assert_eq!(times, expected, "the last at 120 s");
}
