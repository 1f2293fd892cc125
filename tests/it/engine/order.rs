//! Section 5: who is delivered first.

use bunqueue_mcp::engine::NewJob;

use crate::world::{World, grouped, named, with};

fn check(jobs: Vec<NewJob>, order: &[&str]) {
    let mut world = World::new();
    for job in jobs {
        world.push("q", job);
    }
    assert_eq!(world.pull_all("q"), order);
}

fn urgent(name: &str, priority: f64) -> NewJob {
    NewJob {
        priority,
        ..named(name)
    }
}

fn newest_first(name: &str) -> NewJob {
    NewJob {
        lifo: true,
        ..named(name)
    }
}

#[test]
fn or_1_higher_priority_goes_first() {
    let jobs = vec![
        urgent("a", 0.0),
        urgent("b", 5.0),
        urgent("c", 5.0),
        urgent("d", 10.0),
        urgent("e", -1.0),
    ];
    check(jobs, &["d", "b", "c", "a", "e"]);
    check(
        vec![
            urgent("a", 0.25),
            urgent("b", 0.5),
            urgent("c", -0.0),
            urgent("d", 0.0),
        ],
        &["b", "a", "c", "d"],
    );
}

#[test]
fn or_2_lifo_jobs_go_first_and_newest_first() {
    check(
        vec![named("a"), newest_first("b"), newest_first("c"), named("d")],
        &["c", "b", "a", "d"],
    );
}

#[test]
fn or_3_older_timestamp_goes_first() {
    let mut world = World::new();
    let long_ago = Some(world.now - 10_000);
    world.push("q", named("a"));
    world.push(
        "q",
        NewJob {
            timestamp: long_ago,
            ..named("b")
        },
    );
    world.push(
        "q",
        NewJob {
            delay: -20_000,
            ..named("c")
        },
    );
    assert_eq!(world.pull_all("q"), ["c", "b", "a"]);
}

#[test]
fn or_4_delayed_job_is_delivered_when_it_is_due() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            delay: 60,
            ..named("a")
        },
    );
    world.sleep(59);
    assert_eq!(world.pull("q"), None);
    world.sleep(1);
    assert!(world.pull("q").is_some());
}

#[test]
fn or_5_delayed_job_never_blocks_a_ready_one() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            delay: 5_000,
            ..urgent("later", 10.0)
        },
    );
    world.push("q", named("now"));
    assert_eq!(world.pull_all("q"), ["now"]);
}

#[test]
fn or_11_equal_jobs_go_in_order_of_admission() {
    check(vec![named("z"), named("m"), named("a")], &["z", "m", "a"]);
}

#[test]
fn matured_job_competes_by_its_run_time() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            delay: 100,
            ..named("delayed")
        },
    );
    world.sleep(50);
    world.push("q", named("earlier"));
    world.sleep(100);
    world.push("q", named("later"));
    assert_eq!(world.pull_all("q"), ["earlier", "delayed", "later"]);
}

#[test]
fn retried_job_competes_by_its_new_run_time_and_a_lost_one_keeps_its_place() {
    let mut world = World::new();
    world.push("q", named("failed"));
    let delivery = world.pull("q").expect("ready");
    world.push("q", named("second"));
    world.fail(&delivery, "boom");
    world.sleep(5_000);
    assert_eq!(world.pull_all("q"), ["second", "failed"]);
    let mut world = World::new();
    world.push("q", named("lost"));
    world.pull_lock("q", 1_000.0).expect("ready");
    world.sleep(1);
    world.push("q", named("second"));
    world.sleep(1_000);
    assert_eq!(world.pull_all("q"), ["lost", "second"]);
}

/// A world in which two jobs are gone again, so that their places are free for others, the second one's first.
fn with_free_places() -> World {
    let mut world = World::new();
    let gone = ["x", "y"].map(|gone| world.push("q", named(gone)));
    for id in &gone {
        world.cancel(id);
    }
    world.events();
    world
}

#[test]
fn jobs_that_mature_together_do_so_in_order_of_admission() {
    let mut world = with_free_places();
    for name in ["a", "b"] {
        let delayed = NewJob {
            delay: 10,
            ..grouped(named(name), name)
        };
        world.push("q", delayed);
    }
    world.sleep(10);
    assert_eq!(world.pull_all("q"), ["a", "b"]);
}

#[test]
fn jobs_that_become_too_old_together_do_so_in_order_of_admission() {
    let mut world = with_free_places();
    for name in ["a", "b"] {
        world.push("q", with(named(name), |options| options.ttl = Some(10.0)));
    }
    world.events();
    world.sleep(11);
    assert_eq!(world.event_words(), ["failed a", "failed b"]);
}

#[test]
fn deliveries_that_are_lost_together_end_in_order_of_admission() {
    let mut world = with_free_places();
    for name in ["a", "b"] {
        world.push("q", grouped(named(name), name));
    }
    assert_eq!(world.pull_all("q"), ["a", "b"]);
    world.events();
    world.sleep(30_000);
    assert_eq!(world.event_words(), ["stalled a", "stalled b"]);
    assert_eq!(world.pull_all("q"), ["a", "b"]);
}
