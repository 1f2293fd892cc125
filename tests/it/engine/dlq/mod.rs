//! Section 10: dead letters. How they are listed, bounded, expired and removed, and how they run again.

mod auto;

use bunqueue_mcp::command::recovery::{AgeDraft, DlqConfigDraft, DlqFilterDraft};
use bunqueue_mcp::command::{
    GetDlq, GetDlqConfig, GetDlqStats, ListQueues, Obliterate, PurgeDlq, RemoveDlqJob, RetryDlq,
    SetDlqConfig, given::Number,
};
use bunqueue_mcp::engine::{
    Change, Config, DlqConfig, DlqConfigUpdate, DlqFilter, DlqSelection, EventKind, FailureReason,
    JobId, Millis, NewJob, State,
};

use crate::world::{World, awaiting, given, id, job, keyed, named, queue, with};

const DAY: Millis = 86_400_000;

/// A job that fails for good at its first failure.
fn fragile(name: &str) -> NewJob {
    NewJob {
        max_attempts: 1,
        ..named(name)
    }
}

/// Pulls what is ready and fails it.
fn fail_next(world: &mut World, error: &str) -> JobId {
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, error);
    delivery.job.id
}

/// Dead letters of these names, one millisecond apart, their errors the names.
fn with_letters(names: &[&str]) -> World {
    let mut world = World::new();
    for name in names {
        world.push("q", fragile(name));
        fail_next(&mut world, name);
        world.sleep(1);
    }
    world.events();
    world
}

fn configure(world: &mut World, change: impl FnOnce(&mut DlqConfigUpdate)) -> DlqConfig {
    let mut update = DlqConfigUpdate::default();
    change(&mut update);
    world.ask(SetDlqConfig {
        queue: queue("q"),
        update,
    })
}

fn letters(world: &mut World, filter: DlqFilter) -> Vec<String> {
    let entries = world.ask(GetDlq {
        queue: queue("q"),
        filter,
    });
    let names = entries.iter().map(|entry| {
        assert_eq!(entry.job.state, State::Failed);
        entry.job.id.to_string()
    });
    names.collect()
}

fn all(world: &mut World) -> Vec<String> {
    letters(world, DlqFilter::default())
}

fn retry(world: &mut World, selection: DlqSelection) -> usize {
    world.ask(RetryDlq {
        queue: queue("q"),
        selection,
    })
}

fn retry_all(world: &mut World) -> usize {
    retry(world, DlqSelection::Matching(DlqFilter::default()))
}

#[test]
fn dq_1_default_configuration() {
    let mut world = World::new();
    let config = world.ask(GetDlqConfig { queue: queue("q") });
    let expected = DlqConfig {
        auto_retry: false,
        auto_retry_interval: 3_600_000,
        max_auto_retries: 3,
        max_age: Some(604_800_000),
        max_entries: 10_000,
    };
    assert_eq!(config, expected);
    assert_eq!(world.ask(ListQueues).len(), 0, "reading makes no queue");
}

#[test]
fn dq_2_settings_are_brought_into_their_bounds_and_merged() {
    let mut world = World::new();
    let number = Number::Value;
    let draft = DlqConfigDraft {
        max_entries: number(0.0),
        max_age: AgeDraft::Given(number(-5.0)),
        auto_retry_interval: number(1.9),
        max_auto_retries: number(f64::NAN),
        auto_retry: None,
    };
    let config = configure(&mut world, |update| *update = draft.normalised());
    let expected = DlqConfig {
        auto_retry: false,
        auto_retry_interval: 1,
        max_auto_retries: 3,
        max_age: Some(0),
        max_entries: 1,
    };
    assert_eq!(config, expected);
    let config = configure(&mut world, |update| update.auto_retry = Some(true));
    let expected = DlqConfig {
        auto_retry: true,
        ..expected
    };
    assert_eq!(config, expected, "what is not given stays");
    assert_eq!(world.ask(GetDlqConfig { queue: queue("q") }), expected);
}

#[test]
fn settings_keep_the_name_of_a_queue_until_they_are_the_usual_ones() {
    let mut world = World::new();
    configure(&mut world, |update| update.max_entries = Some(10_000));
    assert_eq!(world.ask(ListQueues).len(), 0, "nothing has changed");
    configure(&mut world, |update| update.max_entries = Some(5));
    world.sleep(DAY);
    assert_eq!(world.ask(ListQueues), [std::sync::Arc::from("q")]);
    configure(&mut world, |update| update.max_entries = Some(10_000));
    world.sleep(DAY);
    assert_eq!(world.ask(ListQueues).len(), 0);
    // Obliterating resets them, also while somebody waits for the queue.
    configure(&mut world, |update| update.max_entries = Some(5));
    world.wait(awaiting("q", 1_000));
    world.ask(Obliterate { queue: queue("q") });
    let config = world.ask(GetDlqConfig { queue: queue("q") });
    assert_eq!(config.max_entries, 10_000);
    assert_eq!(world.ask(ListQueues).len(), 0);
}

#[test]
fn dq_3_oldest_entry_makes_room() {
    let mut world = World::new();
    configure(&mut world, |update| update.max_entries = Some(2));
    for name in ["a", "b", "c"] {
        world.push("q", fragile(name));
        world.events();
        fail_next(&mut world, "boom");
    }
    assert_eq!(
        world.event_words(),
        ["pulled c", "failed c", "removed a"],
        "the newcomer comes first"
    );
    assert_eq!(all(&mut world), ["b", "c"]);
    assert_eq!(world.state(&id("a")), None);
}

#[test]
fn lowering_the_bound_evicts_at_once() {
    let mut world = with_letters(&["a", "b", "c"]);
    configure(&mut world, |update| update.max_entries = Some(1));
    assert_eq!(world.event_words(), ["removed a", "removed b"]);
    assert_eq!(all(&mut world), ["c"]);
}

#[test]
fn dq_4_retry_of_all_gives_every_job_a_new_life() {
    let mut world = World::new();
    let lost = world.push(
        "q",
        NewJob {
            max_attempts: 2,
            priority: 3.0,
            ..named("lost")
        },
    );
    world.pull_lock("q", 10.0).expect("ready");
    world.sleep(10);
    fail_next(&mut world, "boom");
    let failure = world.failure(&lost);
    assert_eq!(failure.attempts.len(), 2);
    assert_eq!(world.detail(&lost).job.stall_count, 1);
    world.push("q", fragile("other"));
    fail_next(&mut world, "boom");
    world.sleep(5);
    world.events();
    assert_eq!(retry_all(&mut world), 2);
    assert_eq!(world.events(), [], "nobody is told");
    assert_eq!(all(&mut world), [""; 0]);
    let view = world.detail(&lost).job;
    assert_eq!(
        (view.state, view.attempts, view.stall_count, view.started_at),
        (State::Prioritized, 0, 0, None)
    );
    assert_eq!((view.run_at, view.priority), (world.now, 3.0));
    let last = view.timeline.last().expect("it has a history");
    assert_eq!((last.state, last.at), (State::Waiting, world.now));
    assert_eq!(
        view.failed_reason().map(|error| &**error),
        Some("boom"),
        "what happened stays readable"
    );
    assert_eq!(world.state(&id("other")), Some(State::Waiting));
    assert_eq!(retry_all(&mut world), 0);
}

#[test]
fn dq_5_retry_of_one() {
    let mut world = with_letters(&["a", "b"]);
    let one = |name: &str| DlqSelection::One(id(name));
    assert_eq!(retry(&mut world, one("unknown")), 0);
    assert_eq!(retry(&mut world, one("a")), 1);
    assert_eq!(retry(&mut world, one("a")), 0, "it is not there any more");
    assert_eq!(all(&mut world), ["b"]);
    let elsewhere = world.ask(RetryDlq {
        queue: queue("other"),
        selection: one("b"),
    });
    assert_eq!(elsewhere, 0, "it belongs to another queue");
}

#[test]
fn dq_6_retry_of_some_takes_the_oldest() {
    let mut world = with_letters(&["b", "a", "c"]);
    let first = |limit| {
        DlqSelection::Matching(DlqFilter {
            limit: Some(limit),
            ..DlqFilter::default()
        })
    };
    assert_eq!(retry(&mut world, first(0)), 0);
    assert_eq!(retry(&mut world, first(1)), 1);
    assert_eq!(all(&mut world), ["a", "c"]);
    let by_error = DlqFilter {
        reason: Some(FailureReason::Timeout),
        ..DlqFilter::default()
    };
    assert_eq!(retry(&mut world, DlqSelection::Matching(by_error)), 0);
}

#[test]
fn b_19_retry_wakes_whoever_waits() {
    let mut world = with_letters(&["a"]);
    let wait = world.wait(awaiting("q", 60_000));
    assert_eq!(retry_all(&mut world), 1);
    let delivered = world.handed(wait).expect("the wait is over");
    assert_eq!(delivered[0].job.id, id("a"));
}

#[test]
fn retry_is_refused_while_another_job_owns_the_key() {
    let mut world = World::new();
    for name in ["a", "b"] {
        world.push("q", keyed(fragile(name), "k"));
        fail_next(&mut world, "boom");
    }
    assert_eq!(retry_all(&mut world), 1, "one key, one owner");
    assert_eq!(all(&mut world), ["b"]);
    let before = world.whole_state();
    assert_eq!(retry_all(&mut world), 0);
    assert!(before == world.whole_state(), "a refusal changes nothing");
    world.cancel(&id("a"));
    assert_eq!(retry_all(&mut world), 1);
}

#[test]
fn dq_7_purge_removes_all() {
    let mut world = with_letters(&["a", "b"]);
    let purge = PurgeDlq { queue: queue("q") };
    assert_eq!(world.ask(purge.clone()), 2);
    assert_eq!(world.event_kinds(), [EventKind::Cleaned { count: 2 }]);
    assert_eq!((world.state(&id("a")), world.state(&id("b"))), (None, None));
    assert_eq!(world.ask(purge), 0);
    let unknown = PurgeDlq {
        queue: queue("unknown"),
    };
    assert_eq!(world.ask(unknown), 0);
    assert_eq!(world.events(), [], "nothing is nothing to tell");
}

#[test]
fn dq_8_removal_of_one() {
    let mut world = with_letters(&["a"]);
    world.push("q", named("alive"));
    world.events();
    let remove = |on: &str, name: &str| RemoveDlqJob {
        queue: queue(on),
        id: id(name),
    };
    assert!(!world.ask(remove("other", "a")));
    assert!(!world.ask(remove("q", "alive")));
    assert!(world.ask(remove("q", "a")));
    assert!(!world.ask(remove("q", "a")));
    let prev = State::Failed;
    assert_eq!(world.event_kinds(), [EventKind::Removed { prev }]);
}

#[test]
fn dq_9_filter_and_page() {
    let mut world = with_letters(&["1", "2", "3"]);
    let page = DlqFilterDraft {
        reason: Some("max_attempts_exceeded"),
        offset: Number::Value(1.0),
        limit: Number::Value(1.0),
        ..DlqFilterDraft::default()
    };
    let page = page.check().expect("all values fit");
    assert_eq!(letters(&mut world, page), ["2"]);
    let entered = world.failure(&id("2")).entered_at;
    let cases = [
        (
            "1 2",
            DlqFilter {
                older_than: Some(entered),
                ..DlqFilter::default()
            },
        ),
        (
            "2 3",
            DlqFilter {
                newer_than: Some(entered),
                ..DlqFilter::default()
            },
        ),
        (
            "",
            DlqFilter {
                reason: Some(FailureReason::Unknown),
                ..DlqFilter::default()
            },
        ),
        (
            "",
            DlqFilter {
                expired: true,
                ..DlqFilter::default()
            },
        ),
        (
            "",
            DlqFilter {
                retriable: true,
                ..DlqFilter::default()
            },
        ),
        (
            "",
            DlqFilter {
                limit: Some(0),
                ..DlqFilter::default()
            },
        ),
        (
            "3",
            DlqFilter {
                offset: 2,
                ..DlqFilter::default()
            },
        ),
    ];
    for (expected, filter) in cases {
        assert_eq!(
            letters(&mut world, filter).join(" "),
            expected,
            "{filter:?}"
        );
    }
}

#[test]
fn pages_go_on_behind_an_entry_that_is_gone() {
    let mut world = with_letters(&["1", "2", "3", "4"]);
    let page = |after| DlqFilter {
        after,
        limit: Some(2),
        ..DlqFilter::default()
    };
    assert_eq!(letters(&mut world, page(None)), ["1", "2"]);
    let after = Some(world.failure(&id("2")).seq);
    retry(&mut world, DlqSelection::One(id("2")));
    assert_eq!(letters(&mut world, page(after)), ["3", "4"]);
}

#[test]
fn dq_10_statistics() {
    let mut world = with_letters(&["a"]);
    let ask = |world: &mut World, on: &str| world.ask(GetDlqStats { queue: queue(on) });
    let stats = ask(&mut world, "q");
    let reasons: Vec<(&str, usize)> = stats
        .by_reason
        .iter()
        .map(|(reason, count)| (reason.name(), *count))
        .collect();
    let expected = [
        ("explicit_fail", 0),
        ("max_attempts_exceeded", 1),
        ("timeout", 0),
        ("stalled", 0),
        ("ttl_expired", 0),
        ("worker_lost", 0),
        ("unknown", 0),
    ];
    assert_eq!(reasons, expected);
    assert_eq!(stats.by_queue, [("q".into(), 1)]);
    assert_eq!((stats.total, stats.pending_retry, stats.expired), (1, 0, 0));
    let entered = Some(world.failure(&id("a")).entered_at);
    assert_eq!((stats.oldest_entry, stats.newest_entry), (entered, entered));
    let none = ask(&mut world, "unknown");
    assert_eq!((none.total, none.oldest_entry), (0, None));
    assert_eq!(none.by_queue, [("unknown".into(), 0)]);
    for reason in FailureReason::ALL {
        assert_eq!(FailureReason::from_name(reason.name()), Some(reason));
    }
    assert_eq!(FailureReason::from_name("bad_luck"), None);
}

#[test]
fn dq_11_old_entries_go_or_stay_for_ever() {
    let mut world = World::new();
    configure(&mut world, |update| update.max_age = Some(Some(40)));
    world.push("q", fragile("a"));
    fail_next(&mut world, "boom");
    // A change does not touch the letters that are there.
    configure(&mut world, |update| update.max_age = Some(None));
    world.push("q", fragile("b"));
    fail_next(&mut world, "boom");
    assert_eq!(world.failure(&id("b")).expires_at, None);
    world.events();
    world.sleep(39);
    assert_eq!(all(&mut world), ["a", "b"]);
    world.sleep(1);
    assert_eq!(world.event_words(), ["removed a"]);
    world.sleep(10_000 * DAY);
    assert_eq!(all(&mut world), ["b"]);
    assert_eq!(world.next_deadline(), None, "nothing is waited for");
}

#[test]
fn dq_13_dead_letter_is_found_as_a_job() {
    let mut world = with_letters(&["a"]);
    let detail = world.detail(&id("a"));
    let entries = world.ask(GetDlq {
        queue: queue("q"),
        filter: DlqFilter::default(),
    });
    assert_eq!(entries[0].job, detail.job);
    assert_eq!(Some(&entries[0].failure), detail.failure.as_ref());
}

#[test]
fn records_tell_how_long_an_attempt_took() {
    let mut world = World::new();
    let id = world.push("q", fragile("a"));
    let delivery = world.pull("q").expect("ready");
    world.sleep(70);
    world.fail(&delivery, "boom");
    assert_eq!(world.failure(&id).attempts[0].duration(), 70);
}

#[test]
fn hard_i2_retried_entry_is_the_job_of_its_id_and_key() {
    let mut world = World::new();
    world.push("q", keyed(fragile("x"), "k"));
    fail_next(&mut world, "boom");
    assert_eq!(retry(&mut world, DlqSelection::One(id("x"))), 1);
    assert_eq!(world.push("q", named("x")), id("x"));
    assert_eq!(world.push("q", keyed(job(), "k")), id("x"));
    assert_eq!(world.counts("q").total(), 1);
}

#[test]
fn hard_l2_late_success_does_not_reach_a_dead_letter_or_its_next_life() {
    let mut world = World::new();
    let id = world.push("q", fragile("a"));
    let token = given(world.pull_lock("q", 1_000.0).expect("ready").token);
    world.sleep(1_000);
    assert_eq!(world.state(&id), Some(State::Failed));
    let before = world.whole_state();
    world.try_ack(&id, token).expect_err("it is over");
    assert!(before == world.whole_state());
    assert_eq!(retry_all(&mut world), 1);
    let before = world.whole_state();
    world
        .try_ack(&id, token)
        .expect_err("that was another life");
    assert!(before == world.whole_state());
}

#[test]
fn retried_entry_may_lose_as_many_workers_again() {
    let mut world = World::new();
    let id = world.push("q", job());
    let lose = |world: &mut World| {
        world.as_connection(1).pull("q").expect("ready");
        world.close(1);
    };
    for _ in 0..2 {
        for _ in 0..9 {
            lose(&mut world);
        }
        assert_eq!(world.state(&id), Some(State::Waiting));
        lose(&mut world);
        assert_eq!(world.failure(&id).reason, FailureReason::WorkerLost);
        assert_eq!(retry_all(&mut world), 1);
    }
}

#[test]
fn hard_l6_history_tells_failures_from_lost_workers() {
    let mut world = World::new();
    let id = world.push("q", with(job(), |options| options.backoff.delay = 0.0));
    fail_next(&mut world, "boom");
    for _ in 0..2 {
        let token = given(world.pull_lock("q", 1_000.0).expect("ready").token);
        world.extend(&id, token, 1_000.0);
        world.sleep(1_000);
    }
    let failure = world.failure(&id);
    let records: Vec<(FailureReason, Option<&str>)> = failure
        .attempts
        .iter()
        .map(|record| (record.reason, record.error.as_deref()))
        .collect();
    let last = "Lock expired at max attempts (3)";
    assert_eq!(
        records,
        [
            (FailureReason::ExplicitFail, Some("boom")),
            (FailureReason::Stalled, Some("Lock expired")),
            (FailureReason::MaxAttemptsExceeded, Some(last)),
        ]
    );
}

#[test]
fn retry_by_another_name_is_the_same() {
    let mut world = with_letters(&["a"]);
    assert_eq!(world.move_to_wait(&id("a"), None), Change::Applied);
    assert_eq!(all(&mut world), [""; 0]);
}

#[test]
fn operator_sets_what_holds_where_a_queue_does_not_say() {
    let mut world = World::with(Config {
        dlq_max: 7,
        dlq_age: 50,
        ..Config::default()
    });
    let config = world.ask(GetDlqConfig { queue: queue("q") });
    assert_eq!((config.max_entries, config.max_age), (7, Some(50)));
}
