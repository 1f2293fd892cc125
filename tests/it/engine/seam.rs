//! Where rules of several families meet.

use bunqueue_mcp::command::given::Number;
use bunqueue_mcp::command::{Add, AddMany, GetDedupOwner, RetryCompleted, SetDlqConfig};
use bunqueue_mcp::engine::{
    CompletedSelection, Config, DlqConfigUpdate, JobLinks, NewJob, Parent, State,
};

use crate::world::{World, awaiting, id, job, keyed, named, queue, with};

fn after(new: NewJob, other: &str) -> NewJob {
    let depends_on = vec![id(other)];
    let links = JobLinks {
        depends_on,
        ..JobLinks::default()
    };
    NewJob {
        links: Some(Box::new(links)),
        ..new
    }
}

fn child_of(new: NewJob, parent: &str) -> NewJob {
    let parent = Some(Parent {
        id: id(parent),
        queue: "q".into(),
    });
    let links = JobLinks {
        parent,
        ..JobLinks::default()
    };
    NewJob {
        links: Some(Box::new(links)),
        ..new
    }
}

fn replacing(new: NewJob) -> NewJob {
    with(keyed(new, "k"), |options| options.dedup.replace = true)
}

/// A child that comes with its batch is needed by its parent, whether it has an id or not.
#[test]
fn batch_cannot_replace_a_child_that_came_with_it() {
    let mut world = World::new();
    let (queue_name, update) = (
        queue("q"),
        DlqConfigUpdate {
            max_entries: Some(1),
            ..DlqConfigUpdate::default()
        },
    );
    world.ask(SetDlqConfig {
        queue: queue_name,
        update,
    });
    world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..named("c")
        },
    );
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    world.push("q", named("p"));
    let fail_parent = |new| with(new, |options| options.fail_parent_on_failure = true);
    for (first, shown) in [(named("x"), "x"), (job(), "jobs[0]")] {
        let jobs = vec![
            fail_parent(child_of(keyed(first, "k"), "p")),
            replacing(named("c")),
        ];
        let text = world.refusal(AddMany {
            queue: queue("q"),
            jobs,
        });
        let expected =
            format!("Cannot replace deduplicated job {shown} because live jobs depend on it");
        assert_eq!(text, expected);
    }
}

/// Of an idle queue only its figures are kept, at most so many; a pull that waits brings it back.
#[test]
fn pull_that_waits_for_a_forgotten_queue_keeps_it() {
    let mut world = World::with(Config {
        forgotten_max: 1,
        ..Config::default()
    });
    let use_up = |world: &mut World, name: &str| {
        world.push(
            name,
            NewJob {
                remove_on_complete: true,
                ..job()
            },
        );
        let delivery = world.pull(name).expect("ready");
        world.ack(&delivery);
        world.sleep(20_000);
    };
    use_up(&mut world, "a");
    let wait = world.wait(awaiting("a", 120_000));
    use_up(&mut world, "b");
    use_up(&mut world, "c");
    world.check();
    let pushed = world.push("a", job());
    let handed = world.handed(wait).expect("the pull is served");
    assert_eq!(handed[0].job.id, pushed);
}

#[test]
fn wait_that_ended_leaves_a_forgotten_queue_alone() {
    let mut world = World::with(Config {
        forgotten_max: 1,
        ..Config::default()
    });
    for name in ["a", "b", "c", "a"] {
        world.push(
            name,
            NewJob {
                remove_on_complete: true,
                ..job()
            },
        );
        let delivery = world.pull(name).expect("ready");
        world.ack(&delivery);
        world.sleep(15_000);
        world.wait(awaiting(name, 100));
        world.sleep(200);
        world.check();
        world.sleep(15_000);
        world.check();
    }
}

/// A blocked owner of a key never took room in its group, so it leaves none.
#[test]
fn replaced_owner_that_waits_for_others_makes_no_room_in_its_group() {
    let mut world = World::new();
    let grouped = |new| with(new, |options| options.group_id = Some("g".into()));
    world.push("q", named("other"));
    world.push("q", grouped(named("queued")));
    world.push("q", after(grouped(keyed(named("blocked"), "k")), "other"));
    let add = Add {
        queue: queue("q"),
        job: NewJob {
            group_max: Some(1),
            ..grouped(replacing(named("late")))
        },
    };
    assert_eq!(
        world.refusal(add),
        "Group g has reached its maximum size of 1"
    );
    assert_eq!(world.state(&id("blocked")), Some(State::WaitingChildren));
}

/// The next run of a cron does not replace a job that others wait for; it is absorbed.
#[test]
fn cron_that_replaces_spares_a_job_that_others_wait_for() {
    let mut world = World::new();
    let mut draft = crate::engine::cron::every("tick", 1_000);
    draft.dedup_replace = true;
    world.upsert(&draft);
    world.sleep(1_000);
    let (queue_name, key) = (queue("q"), "cron:tick".into());
    let owner = world.ask(GetDedupOwner {
        queue: queue_name,
        key,
    });
    let first = owner.expect("a run is queued");
    world.push("r", after(named("waits"), &first.to_string()));
    world.sleep(1_000);
    assert_eq!(world.state(&id("waits")), Some(State::WaitingChildren));
    assert_eq!(world.state(&first), Some(State::Waiting));
    let figures = world.cron("tick").figures;
    assert_eq!((figures.executions, figures.absorbed), (1, 1));
}

#[test]
fn cron_that_wants_no_overlap_any_more_spares_a_job_that_others_wait_for() {
    let mut world = World::new();
    let mut draft = crate::engine::cron::every("tick", 1_000);
    world.upsert(&draft);
    world.sleep(1_000);
    let (queue, key) = (queue("q"), "cron:tick".into());
    let first = world.ask(GetDedupOwner { queue, key });
    let first = first.expect("a run is queued");
    world.push("r", after(named("waits"), &first.to_string()));
    draft.prevent_overlap = Some(true);
    world.upsert(&draft);
    assert_eq!(world.state(&first), Some(State::Waiting));
    assert_eq!(world.state(&id("waits")), Some(State::WaitingChildren));
}

/// A generation that runs again has been followed already.
#[test]
fn completed_generation_that_runs_again_starts_no_second_chain() {
    let mut world = World::new();
    let repeat = bunqueue_mcp::command::schedule::RepeatDraft {
        every: Number::Value(60_000.0),
        ..bunqueue_mcp::command::schedule::RepeatDraft::default()
    };
    let repeat = repeat.check().expect("the repetition is sound");
    let first = world.push(
        "q",
        with(job(), |options| options.repeat = Some(Box::new(repeat))),
    );
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
    assert_eq!(world.counts("q").delayed, 1);
    let selection = CompletedSelection::One(first);
    let queue_name = queue("q");
    world.ask(RetryCompleted {
        queue: queue_name,
        selection,
    });
    let again = world.pull("q").expect("it runs again");
    world.ack(&again);
    assert_eq!(world.counts("q").delayed, 1);
}
