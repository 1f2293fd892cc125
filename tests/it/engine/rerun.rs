//! Section 16: completed jobs that run again.

use bunqueue_mcp::command::{Ack, Progress, RetryCompleted};
use bunqueue_mcp::engine::{
    Change, CompletedSelection, Config, JobId, NewJob, Report, State, TokenGiven,
};

use crate::world::{World, awaiting, id, job, keyed, named, payload, queue, with};

fn complete(world: &mut World, id: &JobId) {
    let report = world.ask(Ack {
        id: id.clone(),
        token: TokenGiven::None,
        result: Some(payload(1)),
        remove_on_complete: false,
    });
    assert_eq!(report, Report::Applied);
}

/// A completed job.
fn completed(world: &mut World, job: NewJob) -> JobId {
    let id = world.push("q", job);
    world.pull("q").expect("ready");
    complete(world, &id);
    id
}

fn again(world: &mut World, selection: CompletedSelection) -> usize {
    world.ask(RetryCompleted {
        queue: queue("q"),
        selection,
    })
}

fn one(name: &str) -> CompletedSelection {
    CompletedSelection::One(id(name))
}

const ALL: CompletedSelection = CompletedSelection::Oldest {
    until: None,
    limit: None,
};

#[test]
fn mg_9_completed_job_runs_again_as_if_it_had_not() {
    let mut world = World::new();
    let a = world.push("q", with(named("a"), |options| options.backoff.delay = 0.0));
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    world.pull_lock("q", 10.0).expect("ready");
    world.sleep(10);
    world.pull("q").expect("ready");
    let progress = Progress {
        id: a.clone(),
        progress: 50.0,
        message: Some("half".into()),
    };
    assert_eq!(world.ask(progress), Change::Applied);
    complete(&mut world, &a);
    world.sleep(100);
    world.events();
    assert_eq!(again(&mut world, one("a")), 1);
    assert_eq!(world.events(), [], "nobody is told");
    let detail = world.detail(&a);
    let view = detail.job;
    assert_eq!(
        (view.state, view.attempts, view.stall_count, view.run_at),
        (State::Waiting, 0, 0, world.now)
    );
    assert_eq!((view.started_at, view.completed_at), (None, None));
    assert_eq!((view.progress, view.progress_message), (0.0, None));
    assert_eq!((detail.result, world.result(&a)), (None, None));
    let states: Vec<State> = view.timeline.iter().map(|entry| entry.state).collect();
    assert!(states.ends_with(&[State::Completed, State::Waiting]));
    assert_eq!(world.counts("q").completed, 0);
    // It is no completed job any more, and there is no other.
    assert_eq!(again(&mut world, one("a")), 0);
    assert_eq!(again(&mut world, one("unknown")), 0);
    // Its attempts begin anew.
    world.pull("q").expect("ready");
    complete(&mut world, &a);
    assert_eq!(world.result(&a), Some(payload(1)));
}

#[test]
fn mg_9_only_jobs_of_that_queue_and_that_state() {
    let mut world = World::new();
    completed(&mut world, named("a"));
    let elsewhere = world.ask(RetryCompleted {
        queue: queue("other"),
        selection: one("a"),
    });
    assert_eq!(elsewhere, 0);
    world.push("q", named("waiting"));
    assert_eq!(again(&mut world, one("waiting")), 0);
    world.pull("q").expect("ready");
    assert_eq!(again(&mut world, one("waiting")), 0);
}

#[test]
fn first_completed_run_again_first() {
    let mut world = World::new();
    for name in ["c", "a", "b"] {
        completed(&mut world, named(name));
        world.sleep(10);
    }
    let until = world.detail(&id("a")).job.completed_at;
    let oldest = |until, limit| CompletedSelection::Oldest { until, limit };
    assert_eq!(again(&mut world, oldest(Some(5), None)), 0);
    assert_eq!(again(&mut world, oldest(None, Some(0))), 0);
    assert_eq!(again(&mut world, oldest(None, Some(1))), 1);
    assert_eq!(world.state(&id("c")), Some(State::Waiting));
    assert_eq!(again(&mut world, oldest(until, None)), 1);
    assert_eq!(world.state(&id("b")), Some(State::Completed));
    assert_eq!(again(&mut world, ALL), 1);
    assert_eq!(world.pull_all("q"), ["c", "a", "b"]);
    let unknown = world.ask(RetryCompleted {
        queue: queue("unknown"),
        selection: ALL,
    });
    assert_eq!(unknown, 0);
}

#[test]
fn pl_11_job_that_runs_again_reaches_a_waiting_pull() {
    let mut world = World::new();
    let a = completed(&mut world, named("a"));
    let wait = world.wait(awaiting("q", 60_000));
    assert_eq!(again(&mut world, ALL), 1);
    let delivered = world.handed(wait).expect("the wait is over");
    assert_eq!(delivered[0].job.id, a);
}

#[test]
fn mg_9_refused_while_another_job_owns_the_key() {
    let mut world = World::new();
    completed(&mut world, keyed(named("a"), "k"));
    world.push("q", keyed(named("rival"), "k"));
    let before = world.whole_state();
    assert_eq!(again(&mut world, one("a")), 0);
    assert!(before == world.whole_state(), "a refusal changes nothing");
    world.cancel(&id("rival"));
    assert_eq!(again(&mut world, one("a")), 1);
    assert_eq!(world.push("q", keyed(job(), "k")), id("a"), "owned again");
}

#[test]
fn job_that_runs_again_is_out_of_what_is_kept() {
    let mut world = World::with(Config {
        completed_max: 2,
        completed_retention: Some(1_000),
        ..Config::default()
    });
    let a = completed(&mut world, named("a"));
    again(&mut world, one("a"));
    for name in ["b", "c"] {
        let id = world.push(
            "q",
            NewJob {
                lifo: true,
                ..named(name)
            },
        );
        world.pull("q").expect("ready");
        complete(&mut world, &id);
    }
    assert_eq!(world.counts("q").completed, 2);
    world.sleep(10_000);
    assert_eq!(world.counts("q").completed, 0);
    assert_eq!(world.state(&a), Some(State::Waiting));
}

#[test]
fn results_of_jobs_that_run_again_take_no_place() {
    let mut world = World::with(Config {
        results_max: 2,
        ..Config::default()
    });
    completed(&mut world, named("a"));
    completed(&mut world, named("b"));
    assert_eq!(again(&mut world, one("b")), 1);
    let first = |name| NewJob {
        lifo: true,
        ..named(name)
    };
    completed(&mut world, first("c"));
    for name in ["a", "c"] {
        assert_eq!(world.result(&id(name)), Some(payload(1)), "{name}");
    }
    completed(&mut world, first("d"));
    assert_eq!(world.result(&id("a")), None);
}
