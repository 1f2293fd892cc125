//! Section 12: jobs that repeat.

use bunqueue_mcp::command::draft::JobDraft;
use bunqueue_mcp::command::given::Number;
use bunqueue_mcp::command::schedule::RepeatDraft;
use bunqueue_mcp::command::{Ack, Add, MoveToWaitingChildren, UpdateData, UpdateParent};
use bunqueue_mcp::engine::{
    Bucket, Change, Dedup, Delivery, JobDetail, JobId, JobLinks, Listing, Millis, NewJob, Parent,
    Repeat, State, TokenGiven,
};

use crate::engine::schedule::at;
use crate::world::{World, awaiting, given, id, job, keyed, payload, queue, with};

fn refusal(draft: &JobDraft<'_>) -> String {
    draft.check().expect_err("the job is refused").to_string()
}

fn repetition(draft: RepeatDraft<'_>) -> Repeat {
    draft.check().expect("the repetition is acceptable")
}

fn every(ms: f64) -> RepeatDraft<'static> {
    RepeatDraft {
        every: Number::Value(ms),
        ..RepeatDraft::default()
    }
}

fn repeating(job: NewJob, draft: RepeatDraft<'_>) -> NewJob {
    let repeat = repetition(draft);
    with(job, |options| options.repeat = Some(Box::new(repeat)))
}

/// The jobs of queue `q` in some state.
fn jobs(world: &mut World, state: State) -> Vec<JobDetail> {
    world.ask(bunqueue_mcp::command::GetJobs {
        listing: Listing {
            queue: "q".into(),
            buckets: vec![Bucket::State(state)],
            after: None,
            offset: 0,
            limit: 100,
            ascending: true,
        },
    })
}

/// Works off the generation that is ready.
fn run(world: &mut World) -> Delivery {
    let delivery = world.pull("q").expect("a generation is ready");
    world.ack(&delivery);
    delivery
}

/// The one generation that is still to run.
fn pending(world: &mut World) -> Option<JobDetail> {
    let mut list = jobs(world, State::Delayed);
    list.extend(jobs(world, State::Waiting));
    assert!(list.len() < 2, "{list:?}");
    list.pop()
}

fn next_run(repeat: &Repeat, now: Millis) -> Option<Millis> {
    repeat.next(now).map(|(_, at)| at)
}

#[test]
fn rp_1_texts_of_refusals() {
    let plain = JobDraft::default();
    let cases = [
        (
            RepeatDraft::default(),
            "repeat requires exactly one of every or pattern",
        ),
        (
            RepeatDraft {
                pattern: Some("* * * * *"),
                ..every(5.0)
            },
            "repeat requires exactly one of every or pattern",
        ),
        (every(0.0), "repeat.every must be a positive finite number"),
        (every(-1.0), "repeat.every must be a positive finite number"),
        (
            every(f64::INFINITY),
            "repeat.every must be a positive finite number",
        ),
        (
            RepeatDraft {
                every: Number::NotNumber,
                ..every(1.0)
            },
            "repeat.every must be a positive finite number",
        ),
        (
            RepeatDraft {
                pattern: Some("0 0 31 2 *"),
                ..RepeatDraft::default()
            },
            "Invalid repeat pattern: Cron expression has no future occurrences",
        ),
        (
            RepeatDraft {
                pattern: Some("0 0 * * *"),
                tz: Some("Nowhere/City"),
                ..RepeatDraft::default()
            },
            "Invalid repeat pattern: Unknown time zone: use an IANA name such as \"Europe/Rome\" or \"America/New_York\"",
        ),
        (
            RepeatDraft {
                start_date: Number::NotNumber,
                ..every(1.0)
            },
            "repeat.startDate must be a finite timestamp",
        ),
        (
            RepeatDraft {
                end_date: Number::Value(f64::NAN),
                ..every(1.0)
            },
            "repeat.endDate must be a finite timestamp",
        ),
        (
            RepeatDraft {
                prev_millis: Number::NotNumber,
                ..every(1.0)
            },
            "repeat.prevMillis must be a finite timestamp",
        ),
        (
            RepeatDraft {
                offset: Number::Value(f64::INFINITY),
                ..every(1.0)
            },
            "repeat.offset must be a finite timestamp",
        ),
        (
            RepeatDraft {
                limit: Number::NotNumber,
                ..every(1.0)
            },
            "repeat.limit must be a number",
        ),
    ];
    for (draft, text) in cases {
        let repeat = Some(draft);
        assert_eq!(
            refusal(&JobDraft {
                repeat,
                ..plain.clone()
            }),
            text
        );
    }
    let repeat = Some(every(5.0));
    assert_eq!(
        refusal(&JobDraft {
            repeat,
            custom_id: Some("mine"),
            ..plain.clone()
        }),
        "repeat jobs cannot use JobOptions.jobId; use repeat.jobId instead"
    );
    assert_eq!(
        refusal(&JobDraft {
            repeat,
            parent_id: Some("p"),
            ..plain.clone()
        }),
        "repeat jobs cannot participate in parent or dependency relationships"
    );
    // An empty id is none, and a name comes before what the repetition means.
    let blank = JobDraft {
        repeat,
        custom_id: Some(""),
        ..plain.clone()
    };
    assert!(blank.check().is_ok());
    assert_eq!(
        refusal(&JobDraft {
            repeat: Some(RepeatDraft::default()),
            name: Some(""),
            ..plain
        }),
        "Job name must be a non-empty string of at most 256 characters"
    );
}

#[test]
fn rp_2_success_brings_one_delayed_successor() {
    let mut world = World::new();
    let first = world.push("q", repeating(job(), every(60_000.0)));
    world.events();
    run(&mut world);
    let next = pending(&mut world).expect("a successor").job;
    assert_eq!(
        (next.state, next.run_at),
        (State::Delayed, world.now + 60_000)
    );
    assert_eq!(
        world.event_words(),
        [
            format!("pulled {first}"),
            format!("completed {first}"),
            format!("pushed {}", next.id)
        ]
    );
    let repeat = next.options.repeat.as_ref().expect("it repeats");
    assert_eq!(repeat.count, 1.0);
    assert_eq!(repeat.prev_millis, Some(next.run_at as f64));
}

#[test]
fn limit_of_n_gives_one_and_n_runs() {
    let mut world = World::new();
    let limited = RepeatDraft {
        limit: Number::Value(3.0),
        ..every(1_000.0)
    };
    world.push("q", repeating(job(), limited));
    for _ in 0..4 {
        run(&mut world);
        world.sleep(1_000);
    }
    assert_eq!(pending(&mut world), None);
    let none = RepeatDraft {
        limit: Number::Value(0.0),
        ..every(1_000.0)
    };
    world.push("q", repeating(job(), none));
    run(&mut world);
    assert_eq!(pending(&mut world), None);
}

#[test]
fn slots_of_an_interval_do_not_drift() {
    let mut world = World::new();
    world.push("q", repeating(job(), every(1_000.0)));
    let first = world.pull("q").expect("ready");
    world.sleep(300);
    world.ack(&first);
    // The first slot is counted from the first success, all others from the slot before.
    let slot = world.now + 1_000;
    assert_eq!(pending(&mut world).expect("one").job.run_at, slot);
    world.sleep(1_000);
    let second = world.pull("q").expect("ready");
    world.sleep(400);
    world.ack(&second);
    assert_eq!(pending(&mut world).expect("one").job.run_at, slot + 1_000);
    // Slots that are past are skipped in whole steps.
    world.sleep(600);
    let third = world.pull("q").expect("ready");
    world.sleep(5_500);
    world.ack(&third);
    assert_eq!(pending(&mut world).expect("one").job.run_at, slot + 7_000);
}

#[test]
fn next_slot_follows_start_offset_and_end() {
    let now = 1_000_000;
    let started = |start: f64, offset: Number| {
        repetition(RepeatDraft {
            start_date: Number::Value(start),
            offset,
            ..every(1_000.0)
        })
    };
    let cases = [
        (repetition(every(700.0)), now + 700),
        (
            repetition(RepeatDraft {
                offset: Number::Value(50.0),
                ..every(700.0)
            }),
            now + 750,
        ),
        (started(1_500_000.0, Number::Absent), 1_500_000),
        (started(1_500_000.0, Number::Value(20.0)), 1_500_020),
        (started(990_300.0, Number::Absent), 1_000_300),
        (started(990_000.0, Number::Absent), 1_000_000),
        (
            repetition(RepeatDraft {
                prev_millis: Number::Value(999_900.0),
                start_date: Number::Value(5.0),
                ..every(250.0)
            }),
            1_000_150,
        ),
        // Parts of a millisecond never make it early.
        (repetition(every(0.25)), now + 1),
    ];
    for (repeat, expected) in cases {
        assert_eq!(next_run(&repeat, now), Some(expected), "{repeat:?}");
    }
    // Steps too small to be told apart: at once, and not before.
    let tiny = RepeatDraft {
        prev_millis: Number::Value(0.0),
        ..every(1e-9)
    };
    let at_once = next_run(&repetition(tiny), now).expect("a next run");
    assert!((now..=now + 1).contains(&at_once));
    let until = |end: f64| {
        repetition(RepeatDraft {
            end_date: Number::Value(end),
            ..every(700.0)
        })
    };
    assert_eq!(next_run(&until(1_000_700.0), now), Some(1_000_700));
    assert_eq!(next_run(&until(1_000_699.0), now), None);
}

#[test]
fn pattern_means_the_next_occurrence_in_its_zone() {
    let now = at("2026-03-28T12:00:00Z");
    let daily = |offset: Number, start_date: Number| {
        repetition(RepeatDraft {
            pattern: Some("30 2 * * *"),
            tz: Some("Europe/Berlin"),
            offset,
            start_date,
            ..RepeatDraft::default()
        })
    };
    let plain = daily(Number::Absent, Number::Absent);
    assert_eq!(next_run(&plain, now), Some(at("2026-03-29T01:30:00Z")));
    let moved = daily(Number::Value(60_000.0), Number::Absent);
    assert_eq!(next_run(&moved, now), Some(at("2026-03-29T01:31:00Z")));
    // An offset back does not lead into the past.
    let back = daily(Number::Value(-60_000.0), Number::Absent);
    let just_before = at("2026-03-29T01:29:30Z");
    assert_eq!(
        next_run(&back, just_before),
        Some(at("2026-03-30T00:29:00Z"))
    );
    let start = at("2026-05-01T00:30:00Z");
    let later = daily(Number::Absent, Number::Value(start as f64));
    assert_eq!(next_run(&later, now), Some(start));
    assert_eq!(next_run(&later, start), Some(start + 86_400_000));
}

#[test]
fn successor_has_the_policies_and_a_state_of_its_own() {
    let mut world = World::new();
    let full = with(
        NewJob {
            name: "sweep".into(),
            data: Some(payload(1)),
            priority: 4.0,
            max_attempts: 9,
            lifo: true,
            remove_on_fail: true,
            durable: true,
            ..keyed(job(), "k")
        },
        |options| {
            options.backoff.delay = 5.0;
            options.ttl = Some(90_000.0);
            options.timeout = Some(8_000.0);
            options.stall_timeout = Some(7_000.0);
            options.tags = vec!["a".into()];
            options.dedup = Dedup {
                ttl: Some(80_000.0),
                extend: true,
                replace: false,
            };
            options.stack_trace_limit = 2.0;
            options.keep_logs = Some(3.0);
            options.size_limit = Some(100.0);
            options.fail_parent_on_failure = true;
        },
    );
    world.push("q", repeating(full, every(1_000.0)));
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    world.sleep(100);
    run(&mut world);
    let (old, new) = (
        world.detail(&delivery.job.id).job,
        pending(&mut world).expect("a successor").job,
    );
    assert_ne!(old.id, new.id);
    assert_eq!((new.name, new.data), (old.name, old.data));
    assert_eq!((new.priority, new.lifo), (old.priority, old.lifo));
    assert_eq!((new.max_attempts, new.durable), (9, true));
    assert_eq!((new.remove_on_complete, new.remove_on_fail), (false, true));
    assert_eq!((old.attempts, new.attempts), (1, 0));
    assert_eq!((new.created_at, new.started_at), (world.now, None));
    assert_eq!(new.timeline.len(), 1);
    let mut options = (*new.options).clone();
    options.repeat.clone_from(&old.options.repeat);
    assert_eq!(options, *old.options);
    // It owns the key.
    assert_eq!(world.push("q", keyed(job(), "k")), new.id);
}

#[test]
fn failure_for_good_and_removal_end_the_chain() {
    let mut world = World::new();
    let once = NewJob {
        max_attempts: 1,
        ..job()
    };
    world.push("q", repeating(once, every(1_000.0)));
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    assert_eq!(pending(&mut world), None);
    let second = world.push("q", repeating(job(), every(1_000.0)));
    world.cancel(&second);
    assert_eq!(pending(&mut world), None);
}

#[test]
fn chain_goes_on_when_its_jobs_are_removed_on_completion() {
    let mut world = World::new();
    let fleeting = NewJob {
        remove_on_complete: true,
        ..job()
    };
    world.push("q", repeating(fleeting, every(1_000.0)));
    for _ in 0..3 {
        run(&mut world);
        assert_eq!(world.counts("q").total(), 1);
        world.sleep(1_000);
    }
}

#[test]
fn successor_that_is_due_is_handed_to_a_waiting_pull() {
    let mut world = World::new();
    world.push("q", repeating(job(), every(1_000.0)));
    run(&mut world);
    let waiter = world.wait(awaiting("q", 60_000));
    world.sleep(999);
    assert_eq!(world.handed(waiter), None);
    world.sleep(1);
    assert_eq!(world.handed(waiter).expect("due").len(), 1);
}

#[test]
fn late_success_counts_for_the_chain_too() {
    let mut world = World::new();
    world.push("q", repeating(job(), every(1_000.0)));
    let delivery = world.pull_lock("q", 100.0).expect("ready");
    world.sleep(100);
    world.ack(&delivery);
    assert_eq!(pending(&mut world).expect("one").job.state, State::Delayed);
}

fn update(world: &mut World, id: &JobId, byte: u8) -> Change {
    world.ask(UpdateData {
        id: id.clone(),
        data: Some(payload(byte)),
    })
}

#[test]
fn job_that_repeats_is_tied_to_nobody_later() {
    let mut world = World::new();
    let repeats = world.push("q", repeating(job(), every(1_000.0)));
    let once = world.push("q", job());
    let tie = |child: &JobId, parent: &JobId| UpdateParent {
        child: child.clone(),
        parent: parent.clone(),
    };
    let expected = format!(
        "Job {repeats} repeats: repeat jobs cannot participate in parent or dependency relationships"
    );
    assert_eq!(world.refusal(tie(&repeats, &once)), expected);
    assert_eq!(world.refusal(tie(&once, &repeats)), expected);
    let parent = Some(Parent {
        id: repeats,
        queue: "q".into(),
    });
    let child = NewJob {
        links: Some(Box::new(JobLinks {
            parent,
            ..JobLinks::default()
        })),
        ..job()
    };
    let add = Add {
        queue: queue("q"),
        job: child,
    };
    assert_eq!(world.refusal(add), expected);
}

#[test]
fn data_for_a_completed_generation_goes_to_one_that_was_put_aside() {
    let mut world = World::new();
    let first = world.push("q", repeating(job(), every(1_000.0)));
    run(&mut world);
    world.sleep(1_000);
    let next = world.pull("q").expect("due").job.id;
    world.ask(MoveToWaitingChildren {
        id: next.clone(),
        token: TokenGiven::None,
    });
    assert_eq!(world.state(&next), Some(State::WaitingChildren));
    assert_eq!(update(&mut world, &first, 7), Change::Applied);
    assert_eq!(world.detail(&next).job.data, Some(payload(7)));
}

#[test]
fn data_for_a_completed_generation_goes_to_the_pending_one() {
    let mut world = World::new();
    let first = world.push("q", repeating(job(), every(1_000.0)));
    run(&mut world);
    assert_eq!(update(&mut world, &first, 5), Change::Applied);
    let second = pending(&mut world).expect("one").job;
    assert_eq!(second.data, Some(payload(5)));
    assert_eq!(world.detail(&first).job.data, None, "history stays");
    // While it runs there is nothing pending.
    world.sleep(1_000);
    let delivery = world.pull("q").expect("ready");
    let refused = Change::WrongState(State::Completed);
    assert_eq!(update(&mut world, &first, 6), refused);
    assert_eq!(update(&mut world, &second.id, 7), Change::Applied);
    world.ack(&delivery);
    // From generation to generation.
    assert_eq!(update(&mut world, &first, 8), Change::Applied);
    let third = pending(&mut world).expect("one").job;
    assert_eq!(third.data, Some(payload(8)));
    world.cancel(&third.id);
    assert_eq!(update(&mut world, &first, 9), refused);
    // A job that does not repeat has nothing to pass it on to.
    let plain = world.push("q", job());
    run(&mut world);
    assert_eq!(update(&mut world, &plain, 1), refused);
    assert_eq!(update(&mut world, &id("nobody"), 1), Change::NotFound);
}

#[test]
fn chain_gives_way_to_the_job_that_took_its_key() {
    let mut world = World::new();
    let replacing = |ms| {
        let new = repeating(keyed(job(), "k"), every(ms));
        with(new, |options| options.dedup.replace = true)
    };
    world.push("q", replacing(1_000.0));
    let delivery = world.pull("q").expect("ready");
    let taker = world.push("q", replacing(5_000.0));
    world.ack(&delivery);
    // Its own successor would have replaced the newcomer.
    assert_eq!(pending(&mut world).expect("one").job.id, taker);
}

#[test]
fn batch_of_successes_brings_each_successor() {
    let mut world = World::new();
    for _ in 0..3 {
        world.push("q", repeating(job(), every(1_000.0)));
    }
    let items: Vec<_> = world
        .pull_batch("q", 3)
        .into_iter()
        .map(|delivery| Ack {
            id: delivery.job.id,
            token: given(delivery.token),
            result: None,
            remove_on_complete: false,
        })
        .collect();
    world.ask(bunqueue_mcp::command::AckMany { items });
    assert_eq!(world.counts("q").delayed, 3);
}
