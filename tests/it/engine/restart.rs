//! Section 24: what a process finds that begins with what the one before has left. Whether it comes from memory or from a
//! file makes no difference (`tests/it/model` holds that).

use bunqueue_mcp::command::given::Number;
use bunqueue_mcp::command::schedule::CronDraft;
use bunqueue_mcp::command::webhook::WebhookDraft;
use bunqueue_mcp::command::{
    AddWebhook, GetDlqConfig, GetQueueLimits, GetStallConfig, IsPaused, Pause, RetryDlq,
    SetConcurrency, SetDlqConfig, SetRateLimit, SetStallConfig,
};
use bunqueue_mcp::engine::{
    AddOutcome, Backoff, BackoffKind, Config, DlqConfigUpdate, DlqFilter, DlqSelection,
    FailureReason, NewJob, RateLimit, Report, StallConfigUpdate, State,
};

use crate::world::{World, given, id, job, keyed, named, queue, with, words};

fn world() -> World {
    World::kept(Config {
        private_webhooks: true,
        ..Config::default()
    })
}

fn patient(job: NewJob) -> NewJob {
    with(job, |options| {
        options.backoff = Backoff {
            kind: BackoffKind::Exponential,
            delay: 60_000.0,
            max_delay: None,
        };
    })
}

#[test]
fn pe_3_order_and_delays_survive() {
    let mut world = world();
    world.push("q", named("a"));
    world.push(
        "q",
        NewJob {
            priority: 5.0,
            ..named("b")
        },
    );
    world.push(
        "q",
        NewJob {
            lifo: true,
            ..named("c")
        },
    );
    world.push(
        "q",
        NewJob {
            delay: 9_000,
            ..named("d")
        },
    );
    world.restart(0);
    assert_eq!(world.counts("q").delayed, 1);
    assert_eq!(world.pull_all("q"), ["b", "c", "a"]);
}

#[test]
fn pe_4_a_delivery_without_a_lock_is_an_interrupted_attempt() {
    let mut world = world();
    let id = world.push("q", patient(job()));
    world.pull("q").expect("ready");
    world.restart(0);
    let detail = world.detail(&id).job;
    assert_eq!(
        (
            detail.state,
            detail.attempts,
            detail.stall_count,
            detail.started_at
        ),
        (State::Delayed, 1, 1, None)
    );
    assert!((55_000..181_000).contains(&(detail.run_at - world.now)));
}

#[test]
fn pe_5_an_interrupted_attempt_may_be_the_last() {
    let mut world = world();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..job()
        },
    );
    world.pull("q").expect("ready");
    world.restart(0);
    let failure = world.failure(&id);
    assert_eq!(failure.reason, FailureReason::MaxAttemptsExceeded);
    assert_eq!(
        failure.error.as_deref(),
        Some("Job reached max attempts (1) during startup recovery")
    );
}

#[test]
fn pe_8_settings_survive() {
    let mut world = world();
    let q = || queue("q");
    world.ask(Pause { queue: q() });
    let limit = RateLimit {
        max: 7,
        duration: 2_000,
    };
    world.ask(SetRateLimit {
        queue: q(),
        limit,
        ttl: None,
    });
    world.ask(SetConcurrency {
        queue: q(),
        limit: 3,
    });
    let update = StallConfigUpdate {
        max_stalls: Some(9.0),
        ..StallConfigUpdate::default()
    };
    world.ask(SetStallConfig { queue: q(), update });
    let update = DlqConfigUpdate {
        max_entries: Some(5),
        ..DlqConfigUpdate::default()
    };
    world.ask(SetDlqConfig { queue: q(), update });
    world.restart(60_000);
    assert!(world.ask(IsPaused { queue: q() }));
    let limits = world.ask(GetQueueLimits {
        queue: q(),
        jobs: None,
    });
    assert_eq!((limits.rate, limits.concurrency), (Some(limit), Some(3)));
    assert!((world.ask(GetStallConfig { queue: q() }).max_stalls - 9.0).abs() < 0.1);
    assert_eq!(world.ask(GetDlqConfig { queue: q() }).max_entries, 5);
}

#[test]
fn sl_14_what_a_closed_connection_gave_back_is_not_charged() {
    let mut world = world();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..job()
        },
    );
    world
        .as_connection(1)
        .pull_lock("q", 30_000.0)
        .expect("ready");
    world.close(1);
    world.restart(0);
    let detail = world.detail(&id).job;
    assert_eq!((detail.state, detail.attempts), (State::Waiting, 0));
}

#[test]
fn b_8_a_key_ends_when_it_would_have_ended() {
    let mut world = world();
    let brief = || keyed(job(), "k");
    let brief = || with(brief(), |options| options.dedup.ttl = Some(900.0));
    let first = world.push("q", brief());
    world.restart(700);
    assert_eq!(world.add("q", brief()).outcome, AddOutcome::Existing);
    world.restart(199);
    assert_eq!(world.push("q", brief()), first);
    world.restart(1);
    assert_eq!(world.add("q", brief()).outcome, AddOutcome::New);
}

/// A worker goes on, and its heartbeats could not be heard while there was no process.
#[test]
fn b_22_a_worker_whose_lock_holds_is_not_charged_for_its_silence() {
    let mut world = world();
    world.push("q", job());
    let delivery = world.pull_lock("q", 500_000.0).expect("ready");
    world.restart(100_000);
    let before = world.detail(&delivery.job.id).job;
    assert_eq!((before.state, before.attempts), (State::Active, 0));
    world.sleep(35_000);
    assert_eq!(world.state(&delivery.job.id), Some(State::Active));
    world.sleep(1);
    let detail = world.detail(&delivery.job.id).job;
    assert_eq!(
        (detail.state, detail.stall_count),
        (State::Delayed, 1),
        "now it is silent"
    );
}

#[test]
fn b_22_a_worker_whose_lock_holds_goes_on() {
    let mut world = world();
    world.push("q", job());
    let delivery = world.pull_lock("q", 30_000.0).expect("ready");
    world.restart(1_000);
    assert_eq!(world.ack(&delivery), Report::Applied);
    let job = world.detail(&delivery.job.id).job;
    assert_eq!((job.state, job.attempts), (State::Completed, 0));
}

/// The page of the protocol wins over the engine's here: a lock that ran out meanwhile ends as any other.
#[test]
fn a_lock_that_ran_out_meanwhile_ends_like_any_other() {
    let mut world = world();
    let id = world.push("q", patient(job()));
    let last = NewJob {
        max_attempts: 1,
        ..named("last")
    };
    world.push("q", last);
    let run_at = world.detail(&id).job.run_at;
    assert_eq!(world.pull_batch("q", 2).len(), 2);
    world.events();
    world.restart(30_000);
    assert_eq!(
        world.event_words(),
        [
            format!("stalled {id}"),
            "stalled last".into(),
            "failed last".into()
        ]
    );
    let detail = world.detail(&id).job;
    assert_eq!(
        (detail.state, detail.attempts, detail.run_at),
        (State::Waiting, 1, run_at)
    );
    let failure = world.failure(&crate::world::id("last"));
    assert_eq!(
        failure.error.as_deref(),
        Some("Lock expired at max attempts (1)")
    );
}

#[test]
fn a_late_token_ends_with_its_process() {
    let mut world = world();
    let id = world.push("q", patient(job()));
    let delivery = world.pull_lock("q", 30_000.0).expect("ready");
    world.fail(&delivery, "boom");
    world.restart(0);
    let error = world.try_ack(&id, given(delivery.token)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("Job not found or not in processing state: {id}")
    );
}

fn every_second(skip_missed: bool) -> CronDraft<'static> {
    CronDraft {
        name: "c",
        repeat_every: Number::Value(1_000.0),
        prevent_overlap: Some(false),
        skip_missed_on_restart: Some(skip_missed),
        ..CronDraft::default()
    }
}

#[test]
fn cr_22_missed_slots_are_skipped_or_made_up_for_by_one() {
    for (skips, caught_up) in [(true, 0), (false, 1)] {
        let mut world = world();
        world.upsert(&every_second(skips));
        world.restart(3_500);
        assert_eq!(world.counts("q").waiting, caught_up, "{skips}");
        let next = world.cron("c").figures.next_run.expect("it runs again");
        assert!(next > world.now && next <= world.now + 1_000);
    }
}

#[test]
fn a_cron_counts_the_job_that_it_lost_with_the_process() {
    let mut world = world();
    world.upsert(&CronDraft {
        prevent_overlap: Some(true),
        ..every_second(true)
    });
    world.sleep(1_000);
    let delivery = world.pull("q").expect("ready");
    world.restart(0);
    assert_eq!(world.state(&delivery.job.id), None);
    assert_eq!(world.cron("c").figures.lost, 1);
}

/// Who keeps jobs also keeps who wants to hear of them; nobody else would tell of what failed while there was no process.
#[test]
fn webhooks_are_called_for_what_a_start_finds() {
    let mut world = world();
    world.ask(AddWebhook {
        webhook: WebhookDraft {
            url: "http://127.0.0.1:9/".into(),
            events: vec!["job.failed".into()],
            queue: None,
            secret: None,
        },
    });
    world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..named("interrupted")
        },
    );
    world.pull("q").expect("ready");
    world.push("q", with(named("old"), |options| options.ttl = Some(50.0)));
    world.restart(1_000);
    let called: Vec<_> = world
        .calls()
        .iter()
        .map(|call| words(&call.event))
        .collect();
    assert_eq!(called, ["failed interrupted", "failed old"]);
}

/// A letter that is tried again keeps its place among the letters, whatever comes while it is away.
#[test]
fn a_letter_away_keeps_its_place_over_a_restart() {
    let mut world = world();
    let once = |name| NewJob {
        max_attempts: 1,
        ..named(name)
    };
    let update = DlqConfigUpdate {
        auto_retry: Some(true),
        auto_retry_interval: Some(1_000),
        ..DlqConfigUpdate::default()
    };
    world.ask(SetDlqConfig {
        queue: queue("q"),
        update,
    });
    world.push("q", once("first"));
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    world.sleep(1_000);
    assert_eq!(
        world.state(&id("first")),
        Some(State::Waiting),
        "it is tried again"
    );
    world.restart(0);
    let first = world.pull_lock("q", 30_000.0).expect("ready");
    world.push("q", once("second"));
    let second = world.pull("q").expect("ready");
    world.fail(&second, "boom");
    world.fail(&first, "boom");
    world.check();
    let selection = DlqSelection::Matching(DlqFilter::default());
    let queue = queue("q");
    assert_eq!(world.ask(RetryDlq { queue, selection }), 2);
    assert_eq!(world.pull_all("q"), ["first", "second"]);
}
