//! Adds that name other jobs, where what they name changes with the same add.

use super::*;

fn many(jobs: Vec<NewJob>) -> AddMany {
    AddMany {
        queue: queue("q"),
        jobs,
    }
}

fn fatal(text: &str) -> NewJob {
    NewJob {
        max_attempts: 1,
        ..named(text)
    }
}

fn replacing(new: NewJob, key: &str) -> NewJob {
    with(keyed(new, key), |options| options.dedup.replace = true)
}

/// A job whose ttl is over when it is added.
fn too_old(new: NewJob) -> NewJob {
    let new = NewJob {
        timestamp: Some(1),
        ..new
    };
    with(new, |options| options.ttl = Some(0.0))
}

#[test]
fn an_id_that_is_known_is_no_new_job_whatever_else_the_add_says() {
    let mut world = World::new();
    world.push("q", replacing(named("a"), "k"));
    world.push("q", after(named("b"), &["a"]));
    // The owner of the key has a dependent, but nobody is to be replaced.
    let again = world.add("q", replacing(named("a"), "k"));
    assert_eq!(again.outcome, AddOutcome::Existing);
    // `a` will not wait for `b`, which waits for it.
    let again = world.add("q", after(named("a"), &["b"]));
    assert_eq!(again.outcome, AddOutcome::Existing);
    let jobs = vec![after(named("a"), &["c"]), after(named("c"), &["a"])];
    assert_eq!(world.push_many("q", jobs), [id("a"), id("c")]);
    assert_eq!(state(&mut world, "a"), Some(State::Waiting));
}

#[test]
fn a_circle_is_found_also_where_stored_jobs_close_it() {
    let mut world = World::new();
    world.push("q", fatal("f"));
    world.push("q", after(named("x"), &["f"]));
    fail_next(&mut world, "q", "boom");
    // A new `f` waits for `g`, `g` for `x`, and `x` for `f`.
    let jobs = vec![after(named("f"), &["g"]), after(named("g"), &["x"])];
    assert_eq!(
        world.refusal(many(jobs)),
        "jobs[0]: Job cannot depend on itself: f"
    );
    // A parent would wait for its child, that for `g`, and `g` for the parent.
    world.push("q", named("p"));
    let child = child_of(named("c"), "p", "q");
    let ties = JobLinks {
        depends_on: vec![id("g")],
        ..*child.links.clone().unwrap()
    };
    let child = NewJob {
        links: Some(Box::new(ties)),
        ..child
    };
    let jobs = vec![child, after(named("g"), &["p"])];
    assert_eq!(
        world.refusal(many(jobs)),
        "flow contains a dependency cycle"
    );
}

#[test]
fn a_circle_is_found_also_behind_an_id_that_comes_twice() {
    let mut world = World::new();
    let jobs = vec![
        after(named("a"), &["b"]),
        after(named("b"), &["a"]),
        named("a"),
    ];
    assert_eq!(
        world.refusal(many(jobs)),
        "jobs[0]: Job cannot depend on itself: a"
    );
}

#[test]
fn faults_in_what_entries_say_come_before_those_in_what_they_meet() {
    let mut world = World::new();
    let jobs = vec![
        child_of(named("c"), "none", "q"),
        after(named("d"), &["zz"]),
    ];
    assert_eq!(
        world.refusal(many(jobs)),
        "jobs[1]: Dependency job not found: zz"
    );
}

#[test]
fn an_owner_that_is_needed_is_seen_behind_entries_that_are_not_admitted() {
    let mut world = World::new();
    world.push("q", keyed(named("owner"), "k"));
    world.push("q", after(named("waits"), &["owner"]));
    // The first entry stands for the owner and takes nothing over.
    let jobs = vec![keyed(named("twin"), "k"), replacing(named("heir"), "k")];
    assert_eq!(
        world.refusal(many(jobs)),
        "Cannot replace deduplicated job owner because live jobs depend on it"
    );
}

#[test]
fn a_parent_may_come_with_its_child_although_its_id_was_used_before() {
    let mut world = World::new();
    world.push("q", fatal("p"));
    fail_next(&mut world, "q", "boom");
    let jobs = |on| vec![named("p"), child_of(named("c"), "p", on)];
    assert_eq!(
        world.refusal(many(jobs("r"))),
        "Parent job p belongs to queue q, not r"
    );
    world.push_many("q", jobs("q"));
    assert_eq!(state(&mut world, "p"), Some(State::WaitingChildren));
    // Behind its child it comes too late.
    let jobs = vec![child_of(named("d"), "r", "q"), named("r")];
    assert_eq!(world.refusal(many(jobs)), "Parent job not found: r");
    // And one that another entry has deleted is gone.
    world.push("q", keyed(named("o"), "k"));
    let jobs = vec![replacing(job(), "k"), child_of(named("d"), "o", "q")];
    assert_eq!(world.refusal(many(jobs)), "Parent job not found: o");
}

#[test]
fn nobody_waits_for_several_jobs_that_did_not_come() {
    let mut world = World::new();
    let gone = |text| NewJob {
        remove_on_fail: true,
        ..too_old(named(text))
    };
    let ties = JobLinks {
        depends_on: vec![id("a"), id("b")],
        children: vec![id("a"), id("b")],
        parent: None,
    };
    let parent = NewJob {
        links: Some(Box::new(ties)),
        ..named("p")
    };
    // Children without a policy that are gone leave the dependencies, all of them.
    world.push_many("q", vec![gone("a"), gone("b"), parent]);
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    world.check();
}
