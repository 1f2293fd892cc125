//! No job outgrows the frame that delivers it, whatever it is made of: one that did would stand first in its queue for
//! ever.

use bunqueue_mcp::command::bounds::UPDATE_MAX;
use bunqueue_mcp::command::{Add, AddMany, UpdateData, UpdateParent};
use bunqueue_mcp::engine::{
    Change, JobId, NewJob, NewLinks, PULL_BYTES_MAX, Parent, Payload, TIES_BYTES_MAX,
};

use crate::world::{World, id, job, named, queue, with};

/// A text that takes that many bytes, different for each number.
fn text(number: usize, bytes: usize) -> String {
    let digits = number.to_string();
    "x".repeat(bytes - digits.len()) + &digits
}

fn tied(job: NewJob, links: NewLinks) -> NewJob {
    NewJob {
        links: Some(Box::new(links)),
        ..job
    }
}

fn child_of(parent: &str, job: NewJob) -> NewJob {
    let parent = Some(Parent {
        id: id(parent),
        queue: "q".into(),
    });
    tied(
        job,
        NewLinks {
            parent,
            ..NewLinks::default()
        },
    )
}

/// Ids that take a little more than half of what the ties of a job may take.
fn half_of_the_ties(from: usize) -> Vec<JobId> {
    let count = TIES_BYTES_MAX / 2 / 1_000;
    (from..=from + count)
        .map(|number| id(&text(number, 1_000)))
        .collect()
}

fn pulled(world: &mut World, count: usize) -> Vec<usize> {
    let pull = |_| world.pull_batch("q", count).len();
    (0..=count).map(pull).collect()
}

#[test]
fn a_pull_counts_ids_keys_and_labels() {
    let third = PULL_BYTES_MAX / 3 + 1;
    let mut world = World::new();
    for number in 0..3 {
        world.push(
            "q",
            with(job(), |options| {
                options.tags = (0..100)
                    .map(|tag| text(tag, third / 100 + 1).into())
                    .collect();
            }),
        );
        world.push(
            "q",
            with(named(&text(number, third / 4)), |options| {
                options.unique_key = Some(text(number, third / 4).into());
                options.debounce_id = Some(text(number, third / 4).into());
            }),
        );
    }
    assert_eq!(pulled(&mut world, 6), [2, 2, 2, 0, 0, 0, 0]);
}

#[test]
fn a_pull_counts_the_ties_of_jobs() {
    let ids = |from: usize| -> Vec<_> {
        (from..from + 100)
            .map(|number| id(&text(number, TIES_BYTES_MAX / 200)))
            .collect()
    };
    let mut world = World::new();
    let parents = PULL_BYTES_MAX / (TIES_BYTES_MAX / 2) + 2;
    for _ in 0..parents {
        let links = NewLinks {
            children: ids(0),
            ..NewLinks::default()
        };
        world.push("q", tied(job(), links));
    }
    let first = world.pull_batch("q", parents).len();
    assert!(first < parents - 1, "{first}");
    assert_eq!(world.pull_batch("q", parents).len(), parents - first);
}

#[test]
fn the_ties_of_a_job_are_bounded() {
    let text = format!(
        "The ids in dependsOn and childrenIds of one job may take at most {TIES_BYTES_MAX} bytes"
    );
    let mut world = World::new();
    let links = NewLinks {
        children: [half_of_the_ties(0), half_of_the_ties(100_000)].concat(),
        ..NewLinks::default()
    };
    let add = |job| Add {
        queue: queue("q"),
        job,
    };
    assert_eq!(world.refusal(add(tied(job(), links.clone()))), text);
    let jobs = vec![job(), tied(job(), links)];
    let batch = AddMany {
        queue: queue("q"),
        jobs,
    };
    assert_eq!(world.refusal(batch), format!("jobs[1]: {text}"));
}

#[test]
fn a_parent_takes_in_children_until_its_ties_are_full() {
    let text = format!(
        "The ids in dependsOn and childrenIds of one job may take at most {TIES_BYTES_MAX} bytes"
    );
    let mut world = World::new();
    let parent = |text: &str| {
        let links = NewLinks {
            children: half_of_the_ties(0),
            ..NewLinks::default()
        };
        tied(named(text), links)
    };
    world.push("q", parent("p"));
    let children = |parent: &str| -> Vec<_> {
        // Each stands among the children and among the dependencies.
        let count = TIES_BYTES_MAX / 4 / 1_000;
        (0..count)
            .map(|number| child_of(parent, named(&self::text(200_000 + number, 1_000))))
            .collect()
    };
    let batch = |jobs| AddMany {
        queue: queue("q"),
        jobs,
    };
    assert_eq!(world.refusal(batch(children("p"))), text);
    // A parent that comes in the same batch is no other.
    let mut jobs = children("new");
    jobs.insert(0, parent("new"));
    assert_eq!(world.refusal(batch(jobs)), text);
    // Half as many have room; then a few more are too many, one by one or as a tie made later.
    let mut some = children("p");
    some.truncate(some.len() - 20);
    world.push_many("q", some);
    let long = self::text(300_000, TIES_BYTES_MAX / 50);
    let add = Add {
        queue: queue("q"),
        job: child_of("p", named(&long)),
    };
    assert_eq!(world.refusal(add), text);
    world.push("q", named(&long));
    let link = UpdateParent {
        child: id(&long),
        parent: id("p"),
    };
    assert_eq!(world.refusal(link), text);
    world.push("q", child_of("p", job()));
    world.check();
}

#[test]
fn an_update_is_bounded_whichever_door_it_comes_by() {
    let mut world = World::new();
    let id = world.push("q", job());
    let update = |bytes| UpdateData {
        id: id.clone(),
        data: Some(Payload::new(&vec![0; bytes])),
    };
    let refused = world.refusal(update(UPDATE_MAX + 1));
    assert_eq!(refused, "Job data too large (max 32MB)");
    assert_eq!(world.ask(update(UPDATE_MAX)), Change::Applied);
}
