//! Dead letters that are tried again by themselves.

use bunqueue_mcp::command::{GetDlqStats, RetryCompleted};
use bunqueue_mcp::engine::{
    CompletedSelection, DlqFilter, DlqSelection, Failure, FailureReason, Millis, SPAN_MAX, State,
};

use super::{all, configure, fail_next, fragile, letters, retry};
use crate::world::{World, awaiting, id, keyed, named, queue, with};

/// Automatic retries in a queue.
fn retrying(world: &mut World, interval: Millis, retries: u64) {
    configure(world, |update| {
        update.auto_retry = Some(true);
        update.auto_retry_interval = Some(interval);
        update.max_auto_retries = Some(retries);
    });
}

/// When it entered, how often it was tried again, when that will be next, and the errors so far.
fn story(failure: &Failure) -> (Millis, u64, Option<Millis>, Vec<&str>) {
    let errors = failure.attempts.iter();
    (
        failure.entered_at,
        failure.retry_count,
        failure.next_retry_at,
        errors
            .filter_map(|record| record.error.as_deref())
            .collect(),
    )
}

#[test]
fn entry_that_fails_again_comes_back_as_it_was() {
    let mut world = World::new();
    retrying(&mut world, 1_000, 4);
    let a = world.push("q", fragile("a"));
    fail_next(&mut world, "e0");
    let entered = world.now;
    let first = world.failure(&a);
    assert_eq!(
        story(&first),
        (entered, 0, Some(entered + 1_000), vec!["e0"])
    );
    // Another one entered after it, and is not tried again.
    configure(&mut world, |update| update.auto_retry = Some(false));
    world.push("q", fragile("b"));
    world.sleep(100);
    fail_next(&mut world, "b");
    configure(&mut world, |update| update.auto_retry = Some(true));
    let mut errors = vec!["e0"];
    // The wait after the n-th retry is the interval times 2^(n - 1).
    for (count, error, wait) in [(1, "e1", 1_000), (2, "e2", 2_000), (3, "e3", 4_000)] {
        let due_at = world.failure(&a).next_retry_at.expect("to be retried");
        let before = due_at - world.now - 1;
        world.sleep(before);
        assert_eq!(world.state(&a), Some(State::Failed));
        world.sleep(1);
        assert_eq!(world.state(&a), Some(State::Waiting), "at its time");
        assert_eq!(world.detail(&a).job.attempts, 0);
        let delivery = world.pull("q").expect("ready");
        assert_eq!(delivery.job.id, a);
        world.sleep(10);
        world.fail(&delivery, error);
        errors.push(error);
        let failure = world.failure(&a);
        let next = Some(due_at + wait);
        assert_eq!(story(&failure), (entered, count, next, errors.clone()));
        assert_eq!(failure.last_retry_at, Some(due_at));
        assert_eq!(failure.expires_at, first.expires_at);
        assert_eq!(failure.seq, first.seq);
    }
    world.sleep(3_990);
    fail_next(&mut world, "e4");
    errors.push("e4");
    assert_eq!(
        story(&world.failure(&a)),
        (entered, 4, None, errors),
        "four were allowed"
    );
    assert_eq!(all(&mut world), ["a", "b"], "in its old place");
    // A retry by hand starts everything anew.
    retry(&mut world, DlqSelection::One(a.clone()));
    world.sleep(5);
    fail_next(&mut world, "new");
    let now = world.now;
    assert_eq!(
        story(&world.failure(&a)),
        (now, 0, Some(now + 1_000), vec!["new"])
    );
    assert_eq!(all(&mut world), ["b", "a"]);
}

#[test]
fn automatic_retry_is_not_told_and_wakes_a_pull() {
    let mut world = World::new();
    retrying(&mut world, 1_000, 1);
    world.push("q", fragile("a"));
    fail_next(&mut world, "boom");
    let wait = world.wait(awaiting("q", 60_000));
    world.events();
    world.sleep(1_000);
    assert!(world.handed(wait).is_some());
    assert_eq!(world.event_words(), ["pulled a"]);
}

#[test]
fn success_after_an_automatic_retry_ends_the_story() {
    let mut world = World::new();
    retrying(&mut world, 1_000, 3);
    let id = world.push("q", fragile("a"));
    fail_next(&mut world, "boom");
    world.sleep(1_000);
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
    world.sleep(700_000_000);
    assert_eq!(world.state(&id), Some(State::Completed));
    // What happens when it runs again has nothing to do with it.
    world.ask(RetryCompleted {
        queue: queue("q"),
        selection: CompletedSelection::One(id.clone()),
    });
    fail_next(&mut world, "boom");
    let now = world.now;
    assert_eq!(
        story(&world.failure(&id)),
        (now, 0, Some(now + 1_000), vec!["boom"])
    );
}

#[test]
fn switching_automatic_retries_stops_and_starts_them() {
    let mut world = World::new();
    world.push("q", fragile("early"));
    fail_next(&mut world, "boom");
    retrying(&mut world, 1_000, 3);
    world.push("q", fragile("a"));
    fail_next(&mut world, "boom");
    configure(&mut world, |update| update.auto_retry = Some(false));
    world.sleep(5_000);
    assert_eq!(all(&mut world), ["early", "a"]);
    configure(&mut world, |update| update.auto_retry = Some(true));
    assert_eq!(
        all(&mut world),
        ["early"],
        "overdue; the other has never had a time"
    );
    assert_eq!(world.state(&id("a")), Some(State::Waiting));
    // Without any retry left nothing is due either.
    fail_next(&mut world, "boom");
    configure(&mut world, |update| update.max_auto_retries = Some(1));
    world.sleep(5_000);
    assert_eq!(world.state(&id("a")), Some(State::Failed));
}

#[test]
fn what_is_due_first_happens_and_the_retry_before_the_end() {
    for (age, left) in [(999, None), (1_000, Some(State::Waiting))] {
        let mut world = World::new();
        retrying(&mut world, 1_000, 3);
        configure(&mut world, |update| update.max_age = Some(Some(age)));
        let id = world.push("q", fragile("a"));
        fail_next(&mut world, "boom");
        world.sleep(5_000);
        assert_eq!(world.state(&id), left, "{age}");
    }
}

#[test]
fn entry_that_comes_back_too_old_goes() {
    let mut world = World::new();
    retrying(&mut world, 1_000, 3);
    configure(&mut world, |update| update.max_age = Some(Some(1_500)));
    let id = world.push("q", fragile("a"));
    fail_next(&mut world, "boom");
    world.sleep(1_000);
    let delivery = world.pull("q").expect("ready");
    world.sleep(5_000);
    assert_eq!(world.state(&id), Some(State::Active), "it lives");
    configure(&mut world, |update| update.auto_retry = Some(false));
    world.events();
    world.fail(&delivery, "boom");
    assert_eq!(world.state(&id), None);
    assert_eq!(world.event_words(), ["failed a", "removed a"]);
}

#[test]
fn refused_automatic_retry_is_looked_at_again() {
    let mut world = World::new();
    retrying(&mut world, 1_000, 3);
    let a = world.push("q", keyed(fragile("a"), "k"));
    fail_next(&mut world, "boom");
    world.push("q", keyed(named("rival"), "k"));
    world.sleep(30_000);
    let pending = DlqFilter {
        retriable: true,
        ..DlqFilter::default()
    };
    assert_eq!(letters(&mut world, pending), ["a"]);
    let stats = world.ask(GetDlqStats { queue: queue("q") });
    assert_eq!((stats.pending_retry, stats.total), (1, 1));
    assert_eq!(world.failure(&a).retry_count, 0, "a refusal is no retry");
    world.cancel(&id("rival"));
    world.sleep(31_000);
    assert_eq!(world.state(&a), Some(State::Waiting));
    // The end comes at its time all the same.
    let mut world = World::new();
    retrying(&mut world, 1_000, 3);
    configure(&mut world, |update| update.max_age = Some(Some(90_000)));
    let a = world.push("q", keyed(fragile("a"), "k"));
    fail_next(&mut world, "boom");
    world.push("q", keyed(named("rival"), "k"));
    world.sleep(89_999);
    assert_eq!(world.state(&a), Some(State::Failed));
    world.sleep(1);
    assert_eq!(world.state(&a), None);
}

#[test]
fn job_too_old_to_start_is_not_tried_again_by_itself() {
    let mut world = World::new();
    retrying(&mut world, 0, u64::MAX);
    let a = world.push("q", with(named("a"), |options| options.ttl = Some(20.0)));
    world.sleep(1_000);
    let failure = world.failure(&a);
    assert_eq!(failure.reason, FailureReason::TtlExpired);
    assert_eq!((failure.retry_count, failure.next_retry_at), (0, None));
}

#[test]
fn time_between_retries_stays_within_every_date() {
    let mut world = World::new();
    retrying(&mut world, SPAN_MAX / 1_000, u64::MAX);
    configure(&mut world, |update| update.max_age = Some(None));
    let a = world.push("q", fragile("a"));
    let mut waits = Vec::new();
    for _ in 0..20 {
        fail_next(&mut world, "boom");
        let due_at = world.failure(&a).next_retry_at.expect("to be retried");
        let wait = due_at - world.now;
        waits.push(wait);
        world.sleep(wait);
    }
    assert!(waits.is_sorted());
    assert_eq!(waits.last(), Some(&SPAN_MAX));
}
