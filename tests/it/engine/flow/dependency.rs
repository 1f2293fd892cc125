//! Jobs that wait for jobs, alone and in batches.

use super::*;

#[test]
fn jm_6_state_at_admission_follows_the_options() {
    let mut world = World::new();
    world.push("q", named("live"));
    let cases = [
        (named("a"), State::Waiting),
        (
            NewJob {
                priority: 1.0,
                ..named("b")
            },
            State::Prioritized,
        ),
        (
            NewJob {
                delay: 9_999,
                ..named("c")
            },
            State::Delayed,
        ),
        (after(named("d"), &["live"]), State::WaitingChildren),
        (
            NewJob {
                priority: -5.0,
                ..named("e")
            },
            State::Waiting,
        ),
    ];
    for (new, expected) in cases {
        let id = world.push("q", new);
        assert_eq!(world.state(&id), Some(expected));
        assert_eq!(world.detail(&id).job.timeline[0].state, expected);
    }
}

#[test]
fn pu_12_dependent_waits_until_its_dependency_completes() {
    let mut world = World::new();
    world.push("q", named("first"));
    world.push("r", after(named("second"), &["first"]));
    assert!(world.pull("r").is_none());
    assert_eq!(world.counts("r").waiting_children, 1);
    finish(&mut world, "q", None);
    assert_eq!(state(&mut world, "second"), Some(State::Waiting));
    let delivery = world.pull("r").expect("released");
    let states: Vec<_> = delivery
        .job
        .timeline
        .iter()
        .map(|entry| entry.state)
        .collect();
    assert_eq!(
        states,
        [State::WaitingChildren, State::Waiting, State::Active]
    );
    assert_eq!(
        delivery.job.links.expect("it has links").depends_on,
        [id("first")]
    );
}

#[test]
fn pu_13_completed_and_removed_dependency_counts_as_met() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            remove_on_complete: true,
            ..named("gone")
        },
    );
    finish(&mut world, "q", None);
    assert_eq!(state(&mut world, "gone"), None);
    world.push("q", after(named("next"), &["gone"]));
    assert_eq!(state(&mut world, "next"), Some(State::Waiting));
}

#[test]
fn proofs_of_completion_have_a_bound() {
    let mut world = World::with(Config {
        proofs_max: 2,
        ..Config::default()
    });
    for text in ["a", "b", "c"] {
        world.push(
            "q",
            NewJob {
                remove_on_complete: true,
                ..named(text)
            },
        );
        finish(&mut world, "q", None);
    }
    let text = world.refusal(bunqueue_mcp::command::Add {
        queue: queue("q"),
        job: after(job(), &["a"]),
    });
    assert_eq!(text, "Dependency job not found: a");
    let next = world.push("q", after(job(), &["b", "c"]));
    assert_eq!(world.state(&next), Some(State::Waiting));
}

#[test]
fn pu_14_failed_dependency_leaves_the_dependent_waiting() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..named("first")
        },
    );
    world.push("r", after(named("second"), &["first"]));
    fail_next(&mut world, "q", "boom");
    assert_eq!(state(&mut world, "second"), Some(State::WaitingChildren));
    // Also one that comes later waits for a failed job.
    world.push("r", after(named("third"), &["first"]));
    assert_eq!(state(&mut world, "third"), Some(State::WaitingChildren));
}

#[test]
fn pu_15_dependency_that_is_retried_and_completes_releases() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..named("first")
        },
    );
    world.push("r", after(named("second"), &["first"]));
    fail_next(&mut world, "q", "boom");
    assert_eq!(world.move_to_wait(&id("first"), None), Change::Applied);
    finish(&mut world, "q", None);
    assert_eq!(state(&mut world, "second"), Some(State::Waiting));
}

#[test]
fn pu_16_delay_counts_from_creation_and_still_applies_after_the_dependencies() {
    let mut world = World::new();
    world.push("q", named("first"));
    finish(&mut world, "q", None);
    world.push(
        "r",
        NewJob {
            delay: 9_999,
            ..after(named("second"), &["first"])
        },
    );
    assert_eq!(state(&mut world, "second"), Some(State::Delayed));
    world.push("q", named("other"));
    world.push(
        "r",
        NewJob {
            delay: 100,
            ..after(named("third"), &["other"])
        },
    );
    world.sleep(100);
    finish(&mut world, "q", None);
    assert_eq!(state(&mut world, "third"), Some(State::Waiting));
}

#[test]
fn b_12_and_b_36_unknown_dependencies_are_refused_and_nothing_is_added() {
    let mut world = World::new();
    let one = world.refusal(bunqueue_mcp::command::Add {
        queue: queue("q"),
        job: after(job(), &["nope"]),
    });
    assert_eq!(one, "Dependency job not found: nope");
    let batch = |jobs| AddMany {
        queue: queue("q"),
        jobs,
    };
    assert_eq!(
        world.refusal(batch(vec![named("a"), after(job(), &["a", "zz"])])),
        "jobs[1]: Dependency job not found: zz"
    );
    assert_eq!(
        world.refusal(batch(vec![after(named("d3"), &["d3"])])),
        "jobs[0]: Job cannot depend on itself: d3"
    );
    let circle = vec![
        named("x"),
        after(named("a"), &["b", "x"]),
        after(named("b"), &["a"]),
    ];
    let text = world.refusal(batch(circle));
    assert!(
        text == "jobs[1]: Job cannot depend on itself: a"
            || text == "jobs[2]: Job cannot depend on itself: b",
        "{text}"
    );
    assert_eq!(world.counts("q").total(), 0);
}

#[test]
fn batch_may_name_its_own_jobs_in_any_order() {
    let mut world = World::new();
    let ids = world.push_many("q", vec![after(named("d2"), &["d1"]), named("d1")]);
    assert_eq!(ids, [id("d2"), id("d1")]);
    assert_eq!(state(&mut world, "d2"), Some(State::WaitingChildren));
    finish(&mut world, "q", None);
    assert_eq!(state(&mut world, "d2"), Some(State::Waiting));
}

#[test]
fn job_whose_dependency_did_not_come_with_its_batch_fails_instead_of_waiting_for_ever() {
    let mut world = World::new();
    world.push("q", keyed(named("owner"), "k"));
    // The second entry stands for `owner`, so that nothing called `twin` exists.
    let jobs = vec![after(named("waits"), &["twin"]), keyed(named("twin"), "k")];
    let ids = world.push_many("q", jobs);
    assert_eq!(ids, [id("waits"), id("owner")]);
    assert_eq!(error(&mut world, "waits"), "Dependency twin removed");
}

#[test]
fn b_12_dependents_of_a_removed_job_fail() {
    let mut world = World::new();
    world.push("q", named("first"));
    world.push("r", after(named("second"), &["first"]));
    world.push("r", after(named("third"), &["second"]));
    world.cancel(&id("first"));
    assert_eq!(error(&mut world, "second"), "Dependency first removed");
    // A job that failed may still be retried: its own dependents wait.
    assert_eq!(state(&mut world, "third"), Some(State::WaitingChildren));
}

#[test]
fn b_12_every_removal_counts_but_a_new_generation() {
    let mut world = World::with(Config {
        dlq_age: 1_000,
        ..Config::default()
    });
    let fatal = |text| NewJob {
        max_attempts: 1,
        ..named(text)
    };
    world.push(
        "q",
        NewJob {
            remove_on_fail: true,
            ..fatal("a")
        },
    );
    world.push("r", after(named("after-a"), &["a"]));
    fail_next(&mut world, "q", "x");
    assert_eq!(error(&mut world, "after-a"), "Dependency a removed");
    world.push("q", fatal("b"));
    world.push("r", after(named("after-b"), &["b"]));
    fail_next(&mut world, "q", "x");
    world.sleep(1_001);
    assert_eq!(error(&mut world, "after-b"), "Dependency b removed");
    world.push("q", fatal("c"));
    world.push("r", after(named("after-c"), &["c"]));
    fail_next(&mut world, "q", "x");
    assert_eq!(world.add("q", named("c")).outcome, AddOutcome::New);
    assert_eq!(state(&mut world, "after-c"), Some(State::WaitingChildren));
    finish(&mut world, "q", None);
    assert_eq!(state(&mut world, "after-c"), Some(State::Waiting));
}

#[test]
fn a_new_generation_may_not_wait_for_those_who_wait_for_it() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..named("a")
        },
    );
    world.push("q", after(named("b"), &["a"]));
    fail_next(&mut world, "q", "x");
    let again = bunqueue_mcp::command::Add {
        queue: queue("q"),
        job: after(named("a"), &["b"]),
    };
    assert_eq!(world.refusal(again), "Job cannot depend on itself: a");
}

#[test]
fn b_2_blocked_jobs_are_kept_whatever_their_age() {
    let mut world = World::new();
    world.push("q", named("first"));
    let old = world.now - 7_200_000;
    world.push(
        "q",
        NewJob {
            timestamp: Some(old),
            ..after(named("second"), &["first"])
        },
    );
    world.sleep(7_200_000);
    assert_eq!(state(&mut world, "second"), Some(State::WaitingChildren));
    finish(&mut world, "q", None);
    assert_eq!(state(&mut world, "second"), Some(State::Waiting));
}

#[test]
fn b_6_a_blocked_job_among_very_many_is_never_forgotten() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            priority: 9.0,
            ..named("first")
        },
    );
    world.push("q", after(named("second"), &["first"]));
    world.push_many("q", (0..110_000).map(|_| job()).collect());
    world.sleep(60_000);
    finish(&mut world, "q", None);
    assert_eq!(state(&mut world, "second"), Some(State::Waiting));
}

#[test]
fn b_9_owner_of_a_key_that_others_wait_for_cannot_be_replaced() {
    let mut world = World::new();
    let replacing = |text| {
        with(keyed(named(text), "k"), |options| {
            options.dedup.replace = true
        })
    };
    world.push("q", keyed(named("owner"), "k"));
    world.push("q", after(named("waits"), &["owner"]));
    let text = "Cannot replace deduplicated job owner because live jobs depend on it";
    let add = |job| bunqueue_mcp::command::Add {
        queue: queue("q"),
        job,
    };
    assert_eq!(world.refusal(add(replacing("new"))), text);
    world.cancel(&id("waits"));
    assert_eq!(
        world.refusal(add(after(replacing("new"), &["owner"]))),
        text
    );
    assert_eq!(
        world.add("q", replacing("new")).outcome,
        AddOutcome::Replaced(id("owner"))
    );
}

#[test]
fn a_chain_of_many_thousand_failures_needs_no_stack() {
    let mut world = World::new();
    world.push("q", named("0"));
    for number in 1..50_000 {
        let before = format!("{}", number - 1);
        world.push("q", after(named(&number.to_string()), &[&before]));
    }
    world.cancel(&id("0"));
    assert_eq!(error(&mut world, "1"), "Dependency 0 removed");
    world.ask(Obliterate { queue: queue("q") });
    assert_eq!(world.counts("q").total(), 0);
}

#[test]
fn completing_one_id_again_and_again_does_not_push_out_other_proofs() {
    let mut world = World::with(Config {
        proofs_max: 2,
        ..Config::default()
    });
    let gone = |text| NewJob {
        remove_on_complete: true,
        ..named(text)
    };
    for text in ["other", "again", "again", "again"] {
        world.push("q", gone(text));
        finish(&mut world, "q", None);
    }
    world.push("q", after(named("next"), &["other", "again"]));
    assert_eq!(state(&mut world, "next"), Some(State::Waiting));
}

#[test]
fn what_several_reports_set_free_competes_by_the_order_of_delivery() {
    let mut world = World::new();
    for text in ["a", "b"] {
        world.push("q", named(text));
    }
    world.push("r", after(named("low"), &["a"]));
    let high = NewJob {
        priority: 5.0,
        ..after(named("high"), &["b"])
    };
    world.push("r", high);
    world.pull("q").expect("ready");
    world.pull("q").expect("ready");
    let wait = world.wait(crate::world::awaiting("r", 1_000));
    let item = |text| bunqueue_mcp::command::Ack {
        id: id(text),
        token: TokenGiven::None,
        result: None,
        remove_on_complete: false,
    };
    world.ask(bunqueue_mcp::command::AckMany {
        items: vec![item("a"), item("b")],
    });
    let handed = world.handed(wait).expect("both are free");
    assert_eq!(handed[0].job.id, id("high"));
}

/// Completed jobs that others need stay for them: `b` and `c` can read what `a` has left until they are over.
fn needed(config: Config) -> World {
    let mut world = World::with(config);
    world.push("q", named("a"));
    world.push("r", after(named("b"), &["a"]));
    finish(&mut world, "q", Some(payload(5)));
    world.push("r", after(named("c"), &["a"]));
    world
}

#[test]
fn clean_spares_completed_jobs_that_a_live_job_needs() {
    let mut world = needed(Config::default());
    let clean = |world: &mut World| {
        world.ask(bunqueue_mcp::command::Clean {
            queue: queue("q"),
            grace: 0.0,
            state: CleanState::Bucket(Bucket::State(State::Completed)),
            limit: 10,
        })
    };
    assert_eq!(clean(&mut world).count, 0);
    assert_eq!(world.result(&id("a")), Some(payload(5)));
    // The end of one of two, a success or not, is not enough.
    finish(&mut world, "r", None);
    assert_eq!(clean(&mut world).count, 0);
    world.cancel(&id("c"));
    assert_eq!(clean(&mut world).ids, [id("a")]);
    world.check();
}

#[test]
fn age_spares_completed_jobs_that_a_live_job_needs() {
    let mut world = needed(Config {
        completed_retention: Some(0),
        ..Config::default()
    });
    world.sleep(1_000);
    assert_eq!(world.result(&id("a")), Some(payload(5)));
    finish(&mut world, "r", None);
    world.check();
    let failed = world.pull("r").expect("the other one");
    let report = FailReport {
        unrecoverable: true,
        ..FailReport::default()
    };
    let fail = |world: &mut World| {
        world.ask(Fail {
            id: failed.job.id.clone(),
            token: TokenGiven::None,
            report: report.clone(),
        })
    };
    fail(&mut world);
    assert_eq!(state(&mut world, "a"), None);
    world.check();
    // Whoever runs again needs again what is there.
    world.push("q", named("a"));
    finish(&mut world, "q", None);
    assert_eq!(state(&mut world, "a"), None);
    world.move_to_wait(&failed.job.id, None);
    world.push("q", named("a"));
    finish(&mut world, "q", None);
    assert_eq!(state(&mut world, "a"), Some(State::Completed));
    world.check();
}

#[test]
fn bounds_take_completed_jobs_that_a_live_job_needs_last() {
    let mut world = needed(Config {
        completed_max: 2,
        results_max: 1,
        ..Config::default()
    });
    for other in ["x", "y"] {
        world.push("q", named(other));
        finish(&mut world, "q", Some(payload(6)));
    }
    assert_eq!(world.result(&id("a")), Some(payload(5)));
    assert_eq!(state(&mut world, "x"), None);
    assert_eq!(state(&mut world, "y"), Some(State::Completed));
    assert_eq!(world.result(&id("y")), None);
    world.check();
    // Where all are needed the bounds hold all the same.
    world.push("q", named("z"));
    world.push("r", after(named("d"), &["y", "z"]));
    finish(&mut world, "q", Some(payload(7)));
    assert_eq!(world.counts("q").completed, 2);
    assert_eq!(state(&mut world, "a"), None);
    assert_eq!(world.result(&id("z")), Some(payload(7)));
    world.check();
}
