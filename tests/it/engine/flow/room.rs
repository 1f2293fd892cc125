//! Room in groups where jobs wait for others: those that wait are not queued (sections 6.3 and 18).

use super::*;

const FULL: &str = "Group g has reached its maximum size of 1";

fn of_group(new: NewJob) -> NewJob {
    grouped(new, "g")
}

/// A job of a group in which it will be the only queued one.
fn sole(new: NewJob) -> NewJob {
    NewJob {
        group_max: Some(1),
        ..of_group(new)
    }
}

fn replacing(new: NewJob) -> NewJob {
    with(keyed(new, "k"), |options| options.dedup.replace = true)
}

fn many(jobs: Vec<NewJob>) -> AddMany {
    AddMany {
        queue: queue("q"),
        jobs,
    }
}

#[test]
fn a_replaced_owner_that_waits_for_others_makes_no_room() {
    let mut world = World::new();
    world.push("q", named("a"));
    world.push("q", after(keyed(of_group(named("b")), "k"), &["a"]));
    let jobs = vec![replacing(of_group(named("c"))), sole(named("d"))];
    assert_eq!(world.refusal(many(jobs)), FULL);
    // The same with an owner that comes with the batch.
    let jobs = vec![
        after(keyed(of_group(job()), "l"), &["a"]),
        with(keyed(of_group(job()), "l"), |options| {
            options.dedup.replace = true;
        }),
        sole(named("d")),
    ];
    assert_eq!(world.refusal(many(jobs)), FULL);
    // An owner that is queued does.
    world.push("q", replacing(of_group(named("e"))));
    world.push_many("q", vec![replacing(sole(named("f")))]);
    assert_eq!(world.refusal(many(vec![sole(named("g"))])), FULL);
}

#[test]
fn a_parent_makes_room_when_it_begins_to_wait_for_a_child() {
    let mut world = World::new();
    world.push("q", of_group(named("p")));
    world.push_many("q", vec![child_of(named("c"), "p", "q"), sole(named("d"))]);
    assert_eq!(state(&mut world, "p"), Some(State::WaitingChildren));
    assert_eq!(state(&mut world, "d"), Some(State::Waiting));
    // Once, however many children it gets, and also when it came with the batch.
    let jobs = vec![
        of_group(named("r")),
        child_of(named("x"), "r", "q"),
        child_of(named("y"), "r", "q"),
        sole(named("z")),
    ];
    assert_eq!(world.refusal(many(jobs)), FULL);
    for _ in 0..3 {
        finish(&mut world, "q", None);
    }
    let jobs = vec![
        of_group(named("r")),
        child_of(named("x"), "r", "q"),
        child_of(named("y"), "r", "q"),
        sole(named("z")),
        sole(named("!")),
    ];
    assert_eq!(world.refusal(many(jobs.clone())), FULL);
    world.push_many("q", jobs[..4].to_vec());
    // A child that is too old holds its parent as well, unless its policy lets the parent go.
    let old = |name: &str, ignored: bool| {
        let child = NewJob {
            timestamp: Some(1),
            ..child_of(named(name), name, "o")
        };
        with(child, |options| {
            options.ttl = Some(0.0);
            options.ignore_dependency_on_failure = ignored;
        })
    };
    let on_o = |name: &str, ignored: bool| AddMany {
        queue: queue("o"),
        jobs: vec![
            NewJob {
                custom_id: Some(id(&format!("child of {name}"))),
                ..old(name, ignored)
            },
            sole(job()),
        ],
    };
    world.push("o", of_group(named("s")));
    assert_eq!(world.refusal(on_o("s", true)), FULL);
    world.ask(on_o("s", false));
}

#[test]
fn whoever_waits_for_a_new_generation_takes_no_room() {
    let mut world = World::new();
    world.push("q", named("a"));
    finish(&mut world, "q", None);
    let jobs = vec![
        named("a"),
        after(of_group(named("b")), &["a"]),
        sole(named("c")),
    ];
    world.push_many("q", jobs);
    assert_eq!(state(&mut world, "b"), Some(State::WaitingChildren));
    assert_eq!(state(&mut world, "c"), Some(State::Waiting));
}
