//! Section 11: named schedules, their values, their slots, and what becomes of their jobs.

use bunqueue_mcp::command::draft::BackoffDraft;
use bunqueue_mcp::command::given::Number;
use bunqueue_mcp::command::schedule::{CronDraft, CronJobDraft};
use bunqueue_mcp::command::{
    CommandError, DeleteCron, Drain, GetDedupOwner, ListCrons, ListQueues, MoveToWait, Obliterate,
    RegisterWorker, UpsertCron, WorkerHeartbeat,
};
use bunqueue_mcp::engine::{
    CRONS_MAX, Change, Config, Cron, CronFigures, CronPage, Delivery, Engine, EventKind, JobId,
    Millis, Report, State, TokenGiven, WorkerFigures, WorkerRegistration,
};

use crate::engine::schedule::at;
use crate::world::{World, awaiting, given, job, keyed, payload, queue};

/// An interval with every default.
pub fn every(name: &str, ms: Millis) -> CronDraft<'_> {
    CronDraft {
        name,
        repeat_every: Number::Value(ms as f64),
        ..CronDraft::default()
    }
}

/// The same, and its jobs may pile up.
pub fn piling(name: &str, ms: Millis) -> CronDraft<'_> {
    CronDraft {
        prevent_overlap: Some(false),
        ..every(name, ms)
    }
}

/// A pattern with every default.
pub fn pattern<'a>(name: &'a str, schedule: &'a str) -> CronDraft<'a> {
    CronDraft {
        name,
        schedule: Some(schedule),
        ..CronDraft::default()
    }
}

fn refusal(draft: &CronDraft<'_>) -> String {
    draft
        .check(&queue("q"))
        .expect_err("the cron is refused")
        .to_string()
}

fn waiting(world: &mut World) -> usize {
    world.counts("q").waiting
}

/// Pulls and completes whatever is ready; how many.
fn work_off(world: &mut World) -> usize {
    let deliveries = world.pull_batch("q", 1_000);
    for delivery in &deliveries {
        world.ack(delivery);
    }
    deliveries.len()
}

fn register_worker(world: &mut World) {
    world.ask(RegisterWorker {
        worker: WorkerRegistration {
            id: Some("w".into()),
            name: "w".into(),
            queues: vec!["other".into(), "q".into()],
            concurrency: None,
            hostname: None,
            pid: None,
            started_at: None,
        },
    });
}

#[test]
fn cr_10_texts_of_refusals() {
    let named = |change: fn(&mut CronDraft<'static>)| {
        let mut draft = every("c", 1_000);
        change(&mut draft);
        refusal(&draft)
    };
    const TIMING: &str = "Cron job must have either schedule or repeatEvery";
    const INTERVAL: &str =
        "Cron repeatEvery must be a positive safe integer number of milliseconds";
    assert_eq!(named(|draft| draft.repeat_every = Number::Absent), TIMING);
    assert_eq!(
        named(|draft| {
            draft.repeat_every = Number::Absent;
            draft.schedule = Some("");
        }),
        TIMING
    );
    for number in [
        Number::Value(0.0),
        Number::Value(-5.0),
        Number::Value(1.5),
        Number::Value(f64::NAN),
        Number::Value(f64::INFINITY),
        Number::Value(9_007_199_254_740_992.0),
        Number::NotNumber,
    ] {
        let draft = CronDraft {
            repeat_every: number,
            ..every("c", 1)
        };
        assert_eq!(refusal(&draft), INTERVAL, "{number:?}");
    }
    type Change = fn(&mut CronDraft<'static>);
    let cases: [(&str, Change); 16] = [
        ("repeatEvery must be at most 4320000000000000", |draft| {
            draft.repeat_every = Number::Value(4_320_000_000_000_001.0);
        }),
        (
            "Invalid cron expression: Cron expression must have 5 fields, or 6 fields with leading seconds",
            |draft| draft.schedule = Some("bad"),
        ),
        (
            "Invalid cron expression: Cron expression has no future occurrences",
            |draft| draft.schedule = Some("0 0 31 2 *"),
        ),
        (
            "Invalid cron expression: Invalid cron seconds field \"60\": values must be between 0 and 59",
            |draft| draft.schedule = Some("60 * * * * *"),
        ),
        (
            "Invalid cron expression: Unknown time zone: use an IANA name such as \"Europe/Rome\" or \"America/New_York\"",
            |draft| {
                draft.schedule = Some("0 0 * * *");
                draft.timezone = Some("Nowhere/City");
            },
        ),
        (
            "Invalid cron expression: Unknown time zone: use an IANA name such as \"Europe/Rome\" or \"America/New_York\"",
            |draft| draft.timezone = Some("Nowhere/City"),
        ),
        ("name must be a non-empty string", |draft| draft.name = ""),
        (
            "Job name must be a non-empty string of at most 256 characters",
            |draft| draft.job_name = Some(""),
        ),
        ("priority must be a finite number", |draft| {
            draft.priority = Number::Value(f64::NAN);
        }),
        ("maxLimit must be a number", |draft| {
            draft.max_limit = Number::NotNumber;
        }),
        ("dedup.ttl must be a number", |draft| {
            draft.dedup_ttl = Number::NotNumber;
        }),
        ("jobOptions.maxAttempts must be a number", |draft| {
            draft.job.max_attempts = Number::NotNumber;
        }),
        ("jobOptions.backoff.delay must be at least 0", |draft| {
            draft.job.backoff = BackoffDraft::Object {
                fixed: true,
                delay: Number::Value(-1.0),
                max_delay: Number::Absent,
            };
        }),
        ("jobOptions.timeout must be at least 0", |draft| {
            draft.job.timeout = Number::Value(-1.0);
        }),
        ("jobOptions.delay must be a finite number", |draft| {
            draft.job.delay = Number::Value(f64::INFINITY);
        }),
        ("jobOptions.stallTimeout must be a number", |draft| {
            draft.job.stall_timeout = Number::NotNumber;
        }),
    ];
    for (text, change) in cases {
        assert_eq!(named(change), text);
    }
    let long = "n".repeat(1_025);
    assert_eq!(
        refusal(&every(&long, 1)),
        "name must be at most 1024 characters"
    );
    let error = every("", 1).check(&queue("q")).expect_err("refused");
    assert!(matches!(error, CommandError::Argument(_)));
}

#[test]
fn cr_11_slots_are_absorbed_while_a_job_lives() {
    let mut world = World::new();
    world.upsert(&every("c", 50));
    world.sleep(240);
    assert_eq!(waiting(&mut world), 1);
    let figures = world.cron("c").figures;
    assert_eq!((figures.executions, figures.absorbed), (1, 3));
    let names: Vec<_> = world.events().iter().map(|e| e.kind.name()).collect();
    assert_eq!(names, ["pushed", "duplicated", "duplicated", "duplicated"]);
}

#[test]
fn cr_12_every_slot_without_protection() {
    let mut world = World::new();
    world.upsert(&piling("c", 50));
    world.sleep(270);
    assert_eq!(waiting(&mut world), 5);
    assert_eq!(world.cron("c").figures.executions, 5);
}

#[test]
fn cr_13_limit_ends_a_cron_at_its_next_slot() {
    let mut world = World::new();
    let limited = CronDraft {
        max_limit: Number::Value(2.0),
        ..piling("c", 40)
    };
    world.upsert(&limited);
    world.sleep(119);
    assert_eq!(world.cron("c").figures.executions, 2);
    world.sleep(1);
    assert_eq!(world.try_cron("c"), None);
    world.sleep(200);
    assert_eq!(waiting(&mut world), 2);
    assert_eq!(world.ask(ListCrons { page: None }), []);
    // The name is free again, and its count begins anew.
    assert_eq!(world.upsert(&limited).figures.executions, 0);
}

#[test]
fn cr_14_limit_of_zero_or_less_is_none() {
    let mut world = World::new();
    for limit in [0.0, -3.0] {
        let draft = CronDraft {
            max_limit: Number::Value(limit),
            ..piling("c", 40)
        };
        assert_eq!(world.upsert(&draft).definition.max_limit, None);
    }
    world.sleep(400);
    assert_eq!(waiting(&mut world), 10);
}

#[test]
fn cr_15_slots_pass_while_no_worker_is_there() {
    let mut world = World::new();
    let draft = CronDraft {
        skip_if_no_worker: true,
        ..piling("c", 1_000)
    };
    world.upsert(&draft);
    world.sleep(3_500);
    let figures = world.cron("c").figures;
    assert_eq!(
        (waiting(&mut world), figures.executions, figures.skipped),
        (0, 0, 3)
    );
    register_worker(&mut world);
    world.sleep(1_000);
    assert_eq!(waiting(&mut world), 1);
    // Silent for half a minute it is not live any more, and with its next word it is again.
    world.sleep(28_999);
    assert_eq!(waiting(&mut world), 30);
    world.sleep(5_000);
    assert_eq!(waiting(&mut world), 30);
    let beat = WorkerHeartbeat {
        id: "w".into(),
        figures: WorkerFigures::default(),
    };
    assert!(world.ask(beat));
    world.sleep(1_000);
    assert_eq!(waiting(&mut world), 31);
}

#[test]
fn cr_16_job_carries_what_the_cron_says() {
    let mut world = World::new();
    let mut draft = every("c", 1_000);
    draft.job_name = Some("report");
    draft.data = Some(&[7]);
    draft.priority = Number::Value(3.0);
    draft.job = CronJobDraft {
        max_attempts: Number::Value(7.0),
        backoff: BackoffDraft::Number(Number::Value(77.0)),
        timeout: Number::Value(5_000.0),
        remove_on_complete: true,
        ..CronJobDraft::default()
    };
    world.upsert(&draft);
    world.sleep(1_000);
    let job = world.pull("q").expect("ready").job;
    assert_eq!((&*job.name, job.data.clone()), ("report", Some(payload(7))));
    assert_eq!((job.priority, job.max_attempts), (3.0, 7));
    assert_eq!(job.options.backoff.delay, 77.0);
    assert_eq!(job.options.timeout, Some(5_000.0));
    assert!(job.remove_on_complete && !job.remove_on_fail);
    assert_eq!(job.options.unique_key.as_deref(), Some("cron:c"));
    let owner = GetDedupOwner {
        queue: queue("q"),
        key: "cron:c".into(),
    };
    assert_eq!(world.ask(owner), Some(job.id));
}

#[test]
fn cr_17_defaults_of_a_definition() {
    let mut world = World::new();
    let cron = world.upsert(&every("c", 1_000));
    let definition = &cron.definition;
    assert_eq!((&*definition.name, &*definition.queue), ("c", "q"));
    assert_eq!(&*definition.template.name, "default");
    assert_eq!(definition.template, job());
    assert_eq!((&definition.schedule, &definition.timezone), (&None, &None));
    assert_eq!(definition.repeat_every, Some(1_000));
    assert_eq!(definition.max_limit, None);
    assert!(definition.prevent_overlap && definition.skip_missed_on_restart);
    assert!(!definition.skip_if_no_worker);
    let figures = CronFigures {
        next_run: Some(world.now + 1_000),
        ..CronFigures::default()
    };
    assert_eq!(cron.figures, figures);
    // A cron alone makes no queue.
    assert_eq!(world.ask(ListQueues), []);
}

#[test]
fn cr_18_name_is_unique_in_the_whole_engine() {
    let mut world = World::new();
    for (on, ms) in [("q1", 1_000), ("q2", 2_000)] {
        let cron = every("c", ms).check(&queue(on)).expect("acceptable");
        world.ask(UpsertCron { cron });
    }
    let all = world.ask(ListCrons { page: None });
    assert_eq!(all.len(), 1);
    assert_eq!(&*all[0].definition.queue, "q2");
    let delete = || DeleteCron { name: "c".into() };
    assert!(world.ask(delete()));
    assert!(!world.ask(delete()));
    assert_eq!(world.try_cron("c"), None);
    world.sleep(60_000);
    assert_eq!(world.ask(ListQueues), []);
    assert_eq!(world.next_deadline(), None);
}

#[test]
fn cr_19_pattern_wins_over_the_interval() {
    let mut world = World::new();
    world.now = at("2026-01-01T10:07:00Z");
    let draft = CronDraft {
        repeat_every: Number::Value(5_000.0),
        ..pattern("c", "@hourly")
    };
    let cron = world.upsert(&draft);
    assert_eq!(cron.figures.next_run, Some(at("2026-01-01T11:00:00Z")));
    assert_eq!(cron.definition.repeat_every, Some(5_000), "both are shown");
    world.sleep(60 * 60_000);
    assert_eq!(world.cron("c").figures.executions, 1);
}

#[test]
fn cr_21_deleting_a_cron_leaves_its_job_alone() {
    let mut world = World::new();
    world.upsert(&every("c", 1_000));
    world.sleep(1_000);
    assert!(world.ask(DeleteCron { name: "c".into() }));
    assert_eq!(waiting(&mut world), 1);
    assert_eq!(work_off(&mut world), 1);
}

#[test]
fn cr_22_restart_skips_missed_slots_or_makes_up_for_one() {
    let mut before = World::new();
    let minute = pattern("pattern", "* * * * *");
    before.now = at("2026-01-01T10:00:30Z");
    before.upsert(&every("interval", 1_000));
    before.upsert(&minute);
    before.sleep(1_500);
    let kept = before.ask(ListCrons { page: None });
    let gap = 3 * 60_000;
    for skips in [true, false] {
        let mut after = World::new();
        after.now = before.now + gap;
        for cron in &kept {
            let mut definition = (*cron.definition).clone();
            definition.skip_missed_on_restart = skips;
            let cron = Cron {
                definition: definition.into(),
                ..cron.clone()
            };
            after.act(|engine, turn| engine.restore_cron(turn, cron));
        }
        assert_eq!(waiting(&mut after), if skips { 0 } else { 2 });
        let interval = after.cron("interval").figures;
        let next = interval.next_run.expect("a next run");
        assert!(next > after.now && next <= after.now + 1_000);
        assert_eq!(next % 1_000, 0, "it keeps its slots");
        let made_up = u64::from(!skips);
        assert_eq!(interval.executions, 1 + made_up);
        assert_eq!(interval.missed, 180 - made_up);
        let pattern = after.cron("pattern").figures;
        assert_eq!(pattern.next_run, Some(at("2026-01-01T10:04:00Z")));
        assert_eq!((pattern.executions, pattern.missed), (made_up, 3 - made_up));
        work_off(&mut after);
        after.sleep(60_000);
        assert_eq!(after.cron("pattern").figures.executions, 1 + made_up);
    }
}

#[test]
fn cr_22_without_workers_a_restart_makes_up_for_nothing() {
    let mut world = World::new();
    let draft = CronDraft {
        skip_missed_on_restart: Some(false),
        skip_if_no_worker: true,
        ..every("c", 1_000)
    };
    let cron = world.upsert(&draft);
    let slot = world.now + 1_000;
    let restarted = |at: Millis| cron.clone().restarted(at).figures;
    assert_eq!(restarted(slot), cron.figures, "what is due now is not past");
    let later = restarted(slot + 2_500);
    assert_eq!((later.next_run, later.missed), (Some(slot + 3_000), 3));
    assert_eq!(restarted(world.now), cron.figures);
}

#[test]
fn cr_23_b_16_every_second_means_every_second() {
    let mut world = World::new();
    let draft = CronDraft {
        prevent_overlap: Some(false),
        ..pattern("c", "* * * * * *")
    };
    world.upsert(&draft);
    world.sleep(3_300);
    assert_eq!(waiting(&mut world), 3);
}

#[test]
fn cr_24_b_17_absorbed_slots_leave_the_limit_alone() {
    let mut world = World::new();
    let draft = CronDraft {
        max_limit: Number::Value(3.0),
        ..every("c", 50)
    };
    world.upsert(&draft);
    world.sleep(5_000);
    assert_eq!(world.cron("c").figures.executions, 1);
    let mut delivered = 0;
    for _ in 0..20 {
        delivered += work_off(&mut world);
        world.sleep(50);
    }
    assert_eq!(delivered, 3);
    assert_eq!(world.try_cron("c"), None);
}

#[test]
fn b_18_slot_and_job_come_together() {
    let mut world = World::new();
    world.upsert(&piling("c", 1_000));
    for run in 1..=3 {
        world.now += 1_000;
        world.events();
        world.tick();
        // One turn: whoever writes it down writes both or neither.
        let next_run = world.cron("c").figures.next_run;
        assert_eq!(next_run, Some(world.now + 1_000));
        assert_eq!(world.event_words().len(), 1);
        assert_eq!(world.cron("c").figures.executions, run);
    }
}

/// The one job of cron `c`, delivered under a lock.
fn running(world: &mut World) -> Delivery {
    world.upsert(&every("c", 60_000));
    world.sleep(60_000);
    world.events();
    let delivery = world.pull_lock("q", 30_000.0).expect("ready");
    assert_eq!(world.event_words(), [format!("pulled {}", delivery.job.id)]);
    delivery
}

/// The job is gone without a trace but one event; late reports are ignored, with the exact token only.
fn is_gone(world: &mut World, delivery: &Delivery) {
    let id = &delivery.job.id;
    assert_eq!(world.state(id), None);
    assert_eq!(world.counts("q").total(), 0);
    assert_eq!(world.event_words(), [format!("removed {id}")]);
    let token = given(delivery.token);
    assert_eq!(world.try_ack(id, token), Ok(Report::AlreadyFinalized));
    assert_eq!(
        world.try_fail(id, token, "late"),
        Ok(Report::AlreadyFinalized)
    );
    let not_found = format!("Job not found or not in processing state: {id}");
    for token in [TokenGiven::None, TokenGiven::Malformed] {
        let refused = world.try_ack(id, token).expect_err("refused");
        assert_eq!(refused.to_string(), not_found);
    }
    let other = JobId::from_text("other");
    assert!(world.try_ack(&other, token).is_err());
    assert_eq!(world.cron("c").figures.lost, 1);
    // Its key is free: the next slot brings another one.
    world.sleep(60_000);
    assert_eq!(world.counts("q").waiting, 1);
}

#[test]
fn sl_11_b_15_job_of_a_cron_goes_with_its_lock() {
    let mut world = World::new();
    let delivery = running(&mut world);
    world.sleep(29_999);
    assert_eq!(world.state(&delivery.job.id), Some(State::Active));
    world.sleep(1);
    is_gone(&mut world, &delivery);
}

#[test]
fn b_15_job_of_a_cron_goes_with_its_connection() {
    let mut world = World::new();
    world.as_connection(1);
    let delivery = running(&mut world);
    world.close(1);
    is_gone(&mut world, &delivery);
}

#[test]
fn b_15_job_of_a_cron_goes_when_it_stalls() {
    let mut world = World::with(Config {
        stall_interval: 1_000,
        stall_check: 100,
        stall_grace: 0,
        ..Config::default()
    });
    let delivery = running(&mut world);
    world.sleep(1_101);
    is_gone(&mut world, &delivery);
}

#[test]
fn b_15_removal_names_the_state_that_was_left() {
    let mut world = World::new();
    let delivery = running(&mut world);
    world.sleep(30_000);
    assert_eq!(
        world.event_kinds(),
        [EventKind::Removed {
            prev: State::Active
        }]
    );
    drop(delivery);
}

#[test]
fn b_15_keys_of_others_prove_nothing() {
    let mut world = World::new();
    let own = world.push("q", keyed(job(), "cron:mine"));
    world
        .as_connection(1)
        .pull_lock("q", 30_000.0)
        .expect("ready");
    world.close(1);
    assert_eq!(world.state(&own), Some(State::Waiting));
    // A cron with a key of its own, and one without protection, are retried as well.
    world.cancel(&own);
    let drafts = [
        CronDraft {
            unique_key: Some("cron:key"),
            ..every("key", 1_000)
        },
        piling("piling", 1_000),
    ];
    for draft in drafts {
        world.upsert(&draft);
        world.sleep(1_000);
        world.ask(DeleteCron {
            name: draft.name.into(),
        });
        let delivery = world.pull_lock("q", 100.0).expect("ready");
        world.sleep(100);
        let detail = world.detail(&delivery.job.id);
        assert_eq!((detail.job.state, detail.job.attempts), (State::Waiting, 1));
        world.cancel(&delivery.job.id);
    }
}

#[test]
fn b_15_mark_stays_with_the_job_whatever_becomes_of_the_cron() {
    let mut world = World::new();
    let first = running(&mut world);
    assert!(world.ask(DeleteCron { name: "c".into() }));
    // Moved away and delivered again it is the same job still.
    let moved = MoveToWait {
        id: first.job.id.clone(),
        token: given(first.token),
    };
    assert_eq!(world.ask(moved), Change::Applied);
    world.pull_lock("q", 100.0).expect("ready");
    world.sleep(100);
    assert_eq!(world.state(&first.job.id), None);
}

#[test]
fn a_failed_run_is_retried_as_any_job() {
    let mut world = World::new();
    let delivery = running(&mut world);
    world.fail(&delivery, "boom");
    assert_eq!(world.detail(&delivery.job.id).job.attempts, 1);
    assert_eq!(world.counts("q").delayed, 1);
}

#[test]
fn tokens_of_deleted_deliveries_have_a_bound() {
    let mut world = World::new();
    let mut first = None;
    world.upsert(&every("c", 1_000));
    for _ in 0..1_001 {
        world.sleep(1_000);
        let delivery = world.pull_lock("q", 10.0).expect("ready");
        world.sleep(10);
        first.get_or_insert(delivery);
    }
    let first = first.expect("one");
    assert!(world.try_ack(&first.job.id, given(first.token)).is_err());
    assert_eq!(world.cron("c").figures.lost, 1_001);
}

#[test]
fn first_run_can_come_at_once() {
    let mut world = World::new();
    let waiter = world.wait(awaiting("q", 5_000));
    let draft = CronDraft {
        immediately: true,
        ..every("c", 1_000)
    };
    let cron = world.upsert(&draft);
    assert_eq!(cron.figures.executions, 1);
    assert_eq!(cron.figures.next_run, Some(world.now + 1_000));
    let handed = world.handed(waiter).expect("the waiting pull gets the job");
    world.ack(&handed[0]);
    // Once only: a replacement is no creation.
    world.upsert(&draft);
    assert_eq!(world.counts("q").waiting, 0);
    world.sleep(1_000);
    assert_eq!(world.counts("q").waiting, 1);
    let hourly = CronDraft {
        immediately: true,
        ..pattern("p", "0 * * * *")
    };
    let cron = world.upsert(&hourly);
    assert_eq!(cron.figures.executions, 1);
    assert_eq!(cron.figures.next_run.map(|at| at % 3_600_000), Some(0));
    // Without a worker not even the first one.
    let idle = CronDraft {
        immediately: true,
        skip_if_no_worker: true,
        ..every("idle", 1_000)
    };
    let figures = world.upsert(&idle).figures;
    assert_eq!((figures.executions, figures.skipped), (0, 1));
}

#[test]
fn replacement_keeps_executions_and_place_and_gets_a_new_slot() {
    let mut world = World::new();
    world.upsert(&piling("a", 1_000));
    world.upsert(&piling("b", 1_000));
    world.sleep(2_500);
    let cron = world.upsert(&CronDraft {
        data: Some(&[9]),
        ..piling("a", 600)
    });
    assert_eq!(cron.figures.executions, 2);
    assert_eq!(cron.figures.next_run, Some(world.now + 600));
    let names: Vec<_> = world
        .ask(ListCrons { page: None })
        .iter()
        .map(|cron| cron.definition.name.to_string())
        .collect();
    assert_eq!(names, ["a", "b"]);
    world.ask(Drain { queue: queue("q") });
    world.sleep(499);
    assert_eq!(waiting(&mut world), 0);
    world.sleep(101);
    let datas: Vec<_> = world
        .pull_batch("q", 9)
        .iter()
        .map(|delivery| delivery.job.data.clone())
        .collect();
    assert_eq!(datas, [None, Some(payload(9))]);
}

#[test]
fn explicit_protection_deletes_the_queued_job_with_the_key() {
    let mut world = World::new();
    world.upsert(&every("c", 1_000));
    world.sleep(1_000);
    let first = world.pull("q").expect("ready");
    world.move_to_wait(&first.job.id, None);
    // Unsaid protection leaves it.
    world.upsert(&every("c", 2_000));
    assert_eq!(world.state(&first.job.id), Some(State::Waiting));
    world.events();
    let explicit = |ms| CronDraft {
        prevent_overlap: Some(true),
        ..every("c", ms)
    };
    world.upsert(&explicit(1_000));
    assert_eq!(world.event_words(), [format!("removed {}", first.job.id)]);
    world.sleep(1_000);
    let second = world.pull("q").expect("ready");
    // An active one works on.
    world.upsert(&explicit(3_000));
    assert_eq!(world.state(&second.job.id), Some(State::Active));
    // With a key of its own that key counts.
    let own = world.push("q", keyed(job(), "own"));
    world.upsert(&CronDraft {
        unique_key: Some("own"),
        ..explicit(1_000)
    });
    assert_eq!(world.state(&own), None);
}

#[test]
fn dedup_options_are_those_of_any_job() {
    let mut world = World::new();
    world.upsert(&CronDraft {
        dedup_replace: true,
        ..every("fresh", 1_000)
    });
    world.sleep(1_000);
    let first = world.ask(GetDedupOwner {
        queue: queue("q"),
        key: "cron:fresh".into(),
    });
    world.sleep(1_000);
    let figures = world.cron("fresh").figures;
    assert_eq!((figures.executions, figures.absorbed), (2, 0));
    assert_eq!(waiting(&mut world), 1);
    assert_eq!(world.state(&first.expect("an owner")), None);
    world.ask(DeleteCron {
        name: "fresh".into(),
    });
    work_off(&mut world);
    // The key lives for two and a half slots.
    world.upsert(&CronDraft {
        unique_key: Some("k"),
        dedup_ttl: Number::Value(2_500.0),
        ..every("limited", 1_000)
    });
    world.sleep(7_000);
    let figures = world.cron("limited").figures;
    assert_eq!((figures.executions, figures.absorbed), (3, 4));
}

#[test]
fn clock_that_jumps_brings_one_job_per_cron() {
    let mut world = World::new();
    world.now = at("2026-01-01T10:00:00Z");
    world.upsert(&piling("interval", 1_000));
    world.upsert(&CronDraft {
        prevent_overlap: Some(false),
        ..pattern("pattern", "* * * * * *")
    });
    // Thirty days and a quarter of a second, in one turn.
    world.now += 30 * 86_400_000 + 250;
    world.tick();
    assert_eq!(waiting(&mut world), 2);
    for name in ["interval", "pattern"] {
        let figures = world.cron(name).figures;
        assert_eq!(figures.executions, 1, "{name}");
        assert_eq!(figures.missed, 30 * 86_400 - 1, "{name}");
        assert_eq!(figures.next_run, Some(world.now + 750), "{name}");
    }
}

#[test]
fn page_of_crons_is_in_order_of_the_next_run() {
    let mut world = World::new();
    for (name, ms) in [("c", 3_000), ("a", 1_000), ("d", 2_000), ("b", 2_000)] {
        world.upsert(&every(name, ms));
    }
    let mut page = |start, end, ascending| {
        let page = CronPage {
            start,
            end,
            ascending,
        };
        let crons = world.ask(ListCrons { page: Some(page) });
        let names = crons.iter().map(|cron| cron.definition.name.to_string());
        names.collect::<String>()
    };
    assert_eq!(page(0, None, true), "abdc");
    assert_eq!(page(0, None, false), "cdba");
    assert_eq!(page(1, Some(2), true), "bd");
    assert_eq!(page(2, Some(9), false), "ba");
    assert_eq!(page(7, None, true), "");
    assert_eq!(page(2, Some(1), true), "");
}

#[test]
fn crons_are_bounded_in_number() {
    let mut world = World::new();
    let adding = |name: &str| UpsertCron {
        cron: every(name, 1_000).check(&queue("q")).expect("acceptable"),
    };
    for number in 0..CRONS_MAX {
        world.ask(adding(&format!("c{number}")));
    }
    let text = format!("Too many crons (max {CRONS_MAX})");
    assert_eq!(world.refusal(adding("more")), text);
    // One that is there may still be replaced.
    let replaced = world.upsert(&every("c7", 9_000));
    assert_eq!(replaced.definition.repeat_every, Some(9_000));
    assert_eq!(world.refusal(adding("more")), text);
    assert!(world.ask(DeleteCron { name: "c7".into() }));
    world.ask(adding("more"));
    assert_eq!(world.refusal(adding("c7")), text);
}

#[test]
fn cron_that_has_reached_its_limit_makes_room() {
    let mut world = World::new();
    world.upsert(&CronDraft {
        max_limit: Number::Value(1.0),
        ..piling("once", 10)
    });
    for number in 1..CRONS_MAX {
        world.upsert(&every(&format!("c{number}"), 3_600_000));
    }
    world.sleep(20);
    assert_eq!(world.try_cron("once"), None);
    world.upsert(&every("more", 1_000));
}

#[test]
fn obliterating_the_queue_leaves_its_crons() {
    let mut world = World::new();
    world.upsert(&every("c", 1_000));
    world.sleep(1_000);
    assert_eq!(world.ask(Obliterate { queue: queue("q") }).count, 1);
    world.sleep(1_000);
    assert_eq!(waiting(&mut world), 1);
}

#[test]
fn lock_that_ends_in_the_instant_of_a_slot_frees_the_slot() {
    let mut world = World::new();
    world.upsert(&every("c", 1_000));
    world.sleep(1_000);
    world.pull_lock("q", 1_000.0).expect("ready");
    world.act(Engine::tick);
    world.sleep(1_000);
    assert_eq!(waiting(&mut world), 1);
    let figures = world.cron("c").figures;
    assert_eq!((figures.executions, figures.lost), (2, 1));
}
