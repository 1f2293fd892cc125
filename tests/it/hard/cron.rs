//! Hard cases C: schedules and time, as far as they need no second process and no disk.

use bunqueue_mcp::command::draft::BackoffDraft;
use bunqueue_mcp::command::given::Number;
use bunqueue_mcp::command::schedule::{CronDraft, CronJobDraft};
use bunqueue_mcp::command::{Drain, ListCrons};
use bunqueue_mcp::engine::{BackoffKind, Cron, Dedup, JobView, Millis};

use crate::engine::cron::{every, pattern};
use crate::engine::schedule::at;
use crate::world::{World, payload, queue};

/// When a cron adds jobs between two times, work being done at once.
fn runs(schedule: &str, zone: &str, from: &str, to: &str) -> Vec<Millis> {
    let mut world = World::new();
    world.now = at(from);
    world.upsert(&CronDraft {
        timezone: Some(zone),
        ..pattern("c", schedule)
    });
    let mut runs = Vec::new();
    while let Some(next) = world.next_deadline().filter(|next| *next <= at(to)) {
        world.sleep(next - world.now);
        while let Some(delivery) = world.pull("q") {
            runs.push(world.now);
            world.ack(&delivery);
        }
    }
    runs
}

#[test]
fn hard_c1_hour_that_does_not_exist() {
    let runs = runs(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        "2026-03-30T12:00:00Z",
    );
    // 03:30 local, then 02:30 again.
    let expected = ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"];
    assert_eq!(runs, expected.map(at));
}

#[test]
fn hard_c2_hour_that_comes_twice() {
    let (from, to) = ("2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
    let once = runs("30 2 * * *", "Europe/Berlin", from, to);
    assert_eq!(
        once,
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"].map(at)
    );
    let both = runs(
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-24T23:59:59Z",
        "2026-10-25T01:59:59Z",
    );
    let passes = [
        "2026-10-25T00:00:00Z",
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:00:00Z",
        "2026-10-25T01:30:00Z",
    ];
    assert_eq!(both, passes.map(at));
}

#[test]
fn hard_c3_odd_zones() {
    // Lord Howe moves by half an hour, at 02:00.
    assert_eq!(
        runs(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T00:00:00Z",
            "2026-10-04T20:00:00Z"
        ),
        ["2026-10-03T15:45:00Z", "2026-10-04T15:15:00Z"].map(at)
    );
    assert_eq!(
        runs(
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T00:00:00Z",
            "2026-04-05T20:00:00Z"
        ),
        ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"].map(at)
    );
    // Santiago has a day without midnight.
    assert_eq!(
        runs(
            "0 0 * * *",
            "America/Santiago",
            "2026-09-05T05:00:00Z",
            "2026-09-07T05:00:00Z"
        ),
        ["2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"].map(at)
    );
    // Tokyo never changes.
    assert_eq!(
        runs(
            "30 2 * * *",
            "Asia/Tokyo",
            "2026-03-28T12:00:00Z",
            "2026-03-30T12:00:00Z"
        ),
        ["2026-03-28T17:30:00Z", "2026-03-29T17:30:00Z"].map(at)
    );
    let unknown = CronDraft {
        timezone: Some("Europe/Atlantis"),
        ..pattern("c", "0 0 * * *")
    };
    let error = unknown.check(&queue("q")).expect_err("refused");
    assert!(error.to_string().contains("Unknown time zone"));
}

#[test]
fn hard_c4_no_such_date() {
    let never = pattern("c", "0 0 31 2 *").check(&queue("q"));
    assert_eq!(
        never.expect_err("refused").to_string(),
        "Invalid cron expression: Cron expression has no future occurrences"
    );
    let mut world = World::new();
    world.now = at("2026-01-01T00:00:00Z");
    world.upsert(&pattern("c", "0 0 29 2 *"));
    let leap_day = at("2028-02-29T00:00:00Z");
    // Nothing happens before: the one thing to wait for is that day.
    assert_eq!(world.next_deadline(), Some(leap_day));
    world.sleep(leap_day - world.now);
    assert_eq!(world.counts("q").waiting, 1);
}

#[test]
fn hard_c5_upsert_is_no_trigger() {
    let hour = 3_600_000;
    for draft in [pattern("c", "0 * * * *"), every("c", hour)] {
        let mut world = World::new();
        world.now = at("2026-01-01T10:00:00Z");
        world.upsert(&draft);
        for _ in 0..5 {
            world.sleep(5 * 60_000);
            world.upsert(&draft);
            world.sleep(5 * 60_000);
            // The process ends, and another one takes over.
            let kept = world.ask(ListCrons { page: None });
            let mut next = World::new();
            next.now = world.now;
            for cron in kept {
                next.act(|engine, turn| engine.restore_cron(turn, cron));
            }
            world = next;
        }
        world.sleep(10 * 60_000 - 1);
        assert_eq!(world.counts("q").total(), 0, "{draft:?}");
        world.sleep(1);
        assert_eq!(world.counts("q").total(), 1, "{draft:?}");
    }
}

#[test]
fn hard_c6_down_for_three_hours() {
    for (skips, made_up) in [(true, 0), (false, 1)] {
        let mut before = World::new();
        before.now = at("2026-01-01T10:01:00Z");
        let kept = before.upsert(&CronDraft {
            skip_missed_on_restart: Some(skips),
            ..pattern("c", "*/5 * * * *")
        });
        let mut after = World::new();
        after.now = before.now + 3 * 3_600_000;
        after.act(|engine, turn| engine.restore_cron(turn, kept));
        assert_eq!(after.counts("q").total(), made_up as usize);
        let figures = after.cron("c").figures;
        assert_eq!(
            (figures.executions, figures.missed),
            (made_up, 36 - made_up)
        );
    }
}

fn shape(job: &JobView) -> String {
    format!(
        "{} {:?} {} {} {} {} {:?} {}",
        job.name,
        job.data,
        job.priority,
        job.max_attempts,
        job.remove_on_complete,
        job.remove_on_fail,
        job.options,
        job.run_at - job.created_at
    )
}

#[test]
fn hard_c9_options_travel() {
    let draft = |byte: &'static [u8]| CronDraft {
        job_name: Some("report"),
        data: Some(byte),
        priority: Number::Value(-2.5),
        unique_key: Some("key"),
        dedup_ttl: Number::Value(500.0),
        dedup_extend: true,
        job: CronJobDraft {
            max_attempts: Number::Value(7.0),
            backoff: BackoffDraft::Object {
                fixed: true,
                delay: Number::Value(77.0),
                max_delay: Number::Value(99.0),
            },
            timeout: Number::Value(5_000.0),
            delay: Number::Value(20.0),
            stall_timeout: Number::Value(6_000.0),
            remove_on_complete: true,
            remove_on_fail: true,
        },
        ..every("c", 1_000)
    };
    let mut world = World::new();
    world.upsert(&draft(&[1]));
    let fired = |world: &mut World| {
        world.sleep(1_020);
        let job = world.pull("q").expect("it has fired").job;
        world.ask(Drain { queue: queue("q") });
        job
    };
    let job = fired(&mut world);
    assert_eq!((&*job.name, &job.data), ("report", &Some(payload(1))));
    assert_eq!((job.priority, job.max_attempts), (-2.5, 7));
    assert!(job.remove_on_complete && job.remove_on_fail);
    assert_eq!(job.run_at - job.created_at, 20);
    let options = &job.options;
    assert_eq!(options.backoff.kind, BackoffKind::Fixed);
    assert_eq!(options.backoff.delay, 77.0);
    assert_eq!(options.backoff.max_delay, Some(99.0));
    assert_eq!(options.timeout, Some(5_000.0));
    assert_eq!(options.stall_timeout, Some(6_000.0));
    assert_eq!(options.unique_key.as_deref(), Some("key"));
    let dedup = Dedup {
        ttl: Some(500.0),
        extend: true,
        replace: false,
    };
    assert_eq!(options.dedup, dedup);
    let before = shape(&job);
    // Updated, and taken over by another engine.
    world.upsert(&draft(&[1]));
    assert_eq!(shape(&fired(&mut world)), before);
    let kept: Cron = world.cron("c");
    let mut next = World::new();
    next.now = world.now;
    next.act(|engine, turn| engine.restore_cron(turn, kept));
    assert_eq!(shape(&fired(&mut next)), before);
}
