//! Parents and children: values, failure policies, removals.

use super::*;

#[test]
fn fl_1_fl_2_tree_runs_its_children_first_and_keeps_their_values() {
    let mut world = World::new();
    let root = node(
        "p",
        "pq",
        vec![node("a", "cq", vec![]), node("b", "cq", vec![])],
    );
    let views = tree(&mut world, &root);
    assert_eq!(
        views
            .iter()
            .map(|view| view.id.to_string())
            .collect::<Vec<_>>(),
        ["p", "a", "b"]
    );
    assert_eq!(world.event_words(), ["pushed p", "pushed a", "pushed b"]);
    assert_eq!(
        read(views[0].data.as_ref().unwrap()),
        json!({"__childrenIds": ["a", "b"]})
    );
    assert_eq!(
        read(views[1].data.as_ref().unwrap()),
        json!({"__parentId": "p", "__parentQueue": "pq"})
    );
    assert_eq!(
        views[1].links.as_ref().unwrap().parent.as_ref().unwrap().id,
        id("p")
    );
    finish(&mut world, "cq", Some(payload(1)));
    assert_eq!(state(&mut world, "p"), Some(State::WaitingChildren));
    finish(&mut world, "cq", Some(payload(2)));
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(
        values(&mut world, "p"),
        [
            ("cq:a".to_owned(), payload(1)),
            ("cq:b".to_owned(), payload(2))
        ]
    );
    world.events();
    finish(&mut world, "pq", None);
    assert_eq!(world.event_words(), ["pulled p", "completed p"]);
}

#[test]
fn fl_5_child_without_a_policy_holds_its_parent_back() {
    let mut world = World::new();
    family(&mut world, Policy::None);
    fail_next(&mut world, "cq", "boom");
    finish(&mut world, "cq", None);
    assert_eq!(state(&mut world, "p"), Some(State::WaitingChildren));
}

#[test]
fn fl_6_child_with_fail_parent_fails_its_parent() {
    let mut world = World::new();
    family(&mut world, Policy::Fail);
    world.events();
    fail_next(&mut world, "cq", "boom");
    assert_eq!(error(&mut world, "p"), "Child job a failed: boom");
    assert_eq!(world.event_words(), ["pulled a", "failed a", "failed p"]);
    let failed = world.detail(&id("p")).job;
    assert_eq!(
        failed.timeline.last().map(|entry| entry.state),
        Some(State::Failed)
    );
    finish(&mut world, "cq", None);
    assert_eq!(state(&mut world, "p"), Some(State::Failed));
}

#[test]
fn fl_7_removed_dependency_no_longer_counts() {
    let mut world = World::new();
    family(&mut world, Policy::Remove);
    fail_next(&mut world, "cq", "boom");
    assert_eq!(state(&mut world, "p"), Some(State::WaitingChildren));
    finish(&mut world, "cq", None);
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(failures(&mut world, "p"), []);
}

#[test]
fn fl_8_ignored_failure_is_kept_for_the_parent() {
    let mut world = World::new();
    family(&mut world, Policy::Ignore);
    fail_next(&mut world, "cq", "boom");
    finish(&mut world, "cq", None);
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(
        failures(&mut world, "p"),
        [("cq:a".to_owned(), "boom".to_owned(), true)]
    );
    finish(&mut world, "pq", None);
    assert_eq!(failures(&mut world, "p"), []);
}

#[test]
fn continue_parent_lets_the_parent_go_on_without_its_children() {
    let mut world = World::new();
    family(&mut world, Policy::Continue);
    world.events();
    fail_next(&mut world, "cq", "boom");
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(world.event_words(), ["pulled a", "failed a", "waiting p"]);
    assert_eq!(
        failures(&mut world, "p"),
        [("cq:a".to_owned(), "boom".to_owned(), false)]
    );
    // The other child still runs, and its parent can read what it left.
    finish(&mut world, "cq", Some(payload(7)));
    assert_eq!(values(&mut world, "p"), [("cq:b".to_owned(), payload(7))]);
}

#[test]
fn fl_16_retries_after_a_failed_family() {
    let mut world = World::new();
    family(&mut world, Policy::Fail);
    fail_next(&mut world, "cq", "boom");
    world.move_to_wait(&id("a"), None);
    finish(&mut world, "cq", None);
    finish(&mut world, "cq", None);
    assert_eq!(state(&mut world, "a"), Some(State::Completed));
    assert_eq!(state(&mut world, "p"), Some(State::Failed));
    assert_eq!(world.move_to_wait(&id("p"), None), Change::Applied);
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
}

#[test]
fn fl_17_and_b_11_cancelled_child_leaves_the_dependencies() {
    let mut world = World::new();
    tree(&mut world, &node("p", "pq", vec![node("c", "cq", vec![])]));
    world.events();
    assert_eq!(world.cancel(&id("c")), Change::Applied);
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(world.event_words(), ["removed c", "waiting p"]);
}

#[test]
fn b_11_failure_of_any_kind_runs_the_policy_and_upwards() {
    let mut world = World::new();
    let child = with_policy(node("c", "cq", vec![]), Policy::Fail);
    let middle = with_policy(node("m", "mq", vec![child]), Policy::Fail);
    tree(&mut world, &node("g", "gq", vec![middle]));
    // A stall, not a report, ends the child.
    world.pull("cq").expect("ready");
    world.sleep(36_000);
    assert_eq!(
        error(&mut world, "m"),
        "Child job c failed: Job stalled at max attempts (1)"
    );
    assert_eq!(
        error(&mut world, "g"),
        "Child job m failed: Child job c failed: Job stalled at max attempts (1)"
    );
}

#[test]
fn b_11_removed_child_with_fail_parent_fails_its_parent() {
    let mut world = World::new();
    family(&mut world, Policy::Fail);
    world.ask(Drain { queue: queue("cq") });
    assert_eq!(error(&mut world, "p"), "Child job a failed: removed");
}

#[test]
fn b_11_ttl_of_a_blocked_job_runs_and_its_end_is_told() {
    let mut world = World::new();
    let mut child = with_policy(
        node("c", "cq", vec![node("leaf", "lq", vec![])]),
        Policy::Fail,
    );
    child.job.ttl = Number::Value(20.0);
    tree(&mut world, &node("p", "pq", vec![child]));
    world.sleep(21);
    assert_eq!(world.failure(&id("c")).reason, FailureReason::TtlExpired);
    assert_eq!(
        error(&mut world, "p"),
        "Child job c failed: Job TTL expired"
    );
}

#[test]
fn a_job_that_is_too_old_at_its_flow_is_told_to_a_parent_that_comes_later() {
    let mut world = World::new();
    let mut child = with_policy(node("c", "cq", vec![]), Policy::Ignore);
    child.job.timestamp = Number::Value(1.0);
    child.job.ttl = Number::Value(0.0);
    tree(&mut world, &node("p", "pq", vec![child]));
    assert_eq!(state(&mut world, "c"), Some(State::Failed));
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(
        failures(&mut world, "p"),
        [("cq:c".to_owned(), "Job TTL expired".to_owned(), true)]
    );
}

#[test]
fn b_38_obliterate_tells_dependents_in_other_queues_only() {
    let mut world = World::new();
    tree(
        &mut world,
        &node(
            "p",
            "other",
            vec![node("m", "q", vec![node("leaf", "q", vec![])])],
        ),
    );
    world.push("other", after(named("d"), &["leaf"]));
    world.events();
    world.ask(Obliterate { queue: queue("q") });
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(error(&mut world, "d"), "Dependency leaf removed");
    let words = world.event_words();
    assert!(!words.iter().any(|word| word.ends_with(" m")), "{words:?}");
}

#[test]
fn b_10_and_b_31_value_of_a_removed_child_stays_under_its_full_key() {
    let mut world = World::new();
    let mut child = node("c", "cq", vec![]);
    child.job.remove_on_complete = true;
    tree(
        &mut world,
        &node("p", "pq", vec![child, node("d", "cq", vec![])]),
    );
    finish(&mut world, "cq", Some(payload(3)));
    assert_eq!(state(&mut world, "c"), None);
    assert_eq!(values(&mut world, "p"), [("cq:c".to_owned(), payload(3))]);
}

#[test]
fn b_10_value_of_a_removed_child_stays_although_its_parent_no_longer_waited() {
    let mut world = World::new();
    let a = with_policy(node("a", "cq", vec![]), Policy::Continue);
    let mut b = node("b", "cq", vec![]);
    b.job.remove_on_complete = true;
    tree(&mut world, &node("p", "pq", vec![a, b]));
    fail_next(&mut world, "cq", "boom");
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    finish(&mut world, "cq", Some(payload(7)));
    assert_eq!(state(&mut world, "b"), None);
    assert_eq!(values(&mut world, "p"), [("cq:b".to_owned(), payload(7))]);
}

/// What the end of one job of a queue does to another one of it by way of a third elsewhere: both go all the same.
#[test]
fn b_38_obliterated_queue_is_gone_with_all_its_jobs() {
    for policy in [
        Policy::Fail,
        Policy::Continue,
        Policy::Ignore,
        Policy::Remove,
    ] {
        let mut world = World::new();
        world.push("q", named("p"));
        world.push("q", named("d"));
        let child = with(after(named("c"), &["d"]), |options| {
            options.fail_parent_on_failure = policy == Policy::Fail;
            options.continue_parent_on_failure = policy == Policy::Continue;
            options.ignore_dependency_on_failure = policy == Policy::Ignore;
            options.remove_dependency_on_failure = policy == Policy::Remove;
        });
        world.push("other", child);
        world.ask(UpdateParent {
            child: id("c"),
            parent: id("p"),
        });
        world.events();
        assert_eq!(world.ask(Obliterate { queue: queue("q") }).count, 2);
        assert_eq!(world.event_words(), ["failed c", "obliterated"]);
        assert_eq!(state(&mut world, "p"), None, "{policy:?}");
        world.check();
    }
}

#[test]
fn child_that_leaves_the_dead_letters_with_the_failure_of_its_parent_is_deleted_once() {
    for remove_on_fail in [false, true] {
        let mut world = World::with(Config {
            dlq_max: 1,
            ..Config::default()
        });
        let mut child = with_policy(node("c", "q", vec![]), Policy::Fail);
        child.job.remove_on_fail = remove_on_fail;
        tree(&mut world, &node("p", "q", vec![child]));
        fail_next(&mut world, "q", "boom");
        assert_eq!(error(&mut world, "p"), "Child job c failed: boom");
        assert_eq!(world.counts("q").total(), 1);
        world.check();
    }
}

/// A failure means the same whether or not somebody waits for the job that it sets free.
#[test]
fn b_11_pulls_that_wait_get_a_job_only_when_all_is_settled() {
    for waits in [false, true] {
        let mut world = World::new();
        let mut first = with_policy(node("d", "cq", vec![]), Policy::Continue);
        first.job.remove_on_fail = true;
        tree(&mut world, &node("p", "pq", vec![first]));
        let second = with(after(named("x"), &["d"]), |options| {
            options.fail_parent_on_failure = true
        });
        world.push("xq", second);
        world.ask(UpdateParent {
            child: id("x"),
            parent: id("p"),
        });
        let wait = waits.then(|| world.wait(crate::world::awaiting("pq", 1_000)));
        fail_next(&mut world, "cq", "boom");
        assert_eq!(error(&mut world, "x"), "Dependency d removed");
        assert_eq!(
            error(&mut world, "p"),
            "Child job x failed: Dependency d removed"
        );
        let handed = wait.and_then(|wait| world.handed(wait));
        assert_eq!(handed, None);
    }
}

/// Whoever ticks late sees the same order: a job that was set free fails at its own time, not at that of the tick.
#[test]
fn a_late_tick_lets_things_happen_in_the_order_of_their_times() {
    let mut world = World::new();
    let ttl = |mut node: FlowNodeDraft<'static>, ms| {
        node.job.ttl = Number::Value(ms);
        node
    };
    let leaf = with_policy(ttl(node("leaf", "q", vec![]), 10.0), Policy::Remove);
    let slow = with_policy(ttl(node("slow", "q", vec![leaf]), 30.0), Policy::Ignore);
    let fast = with_policy(ttl(node("fast", "q", vec![]), 20.0), Policy::Ignore);
    tree(&mut world, &node("p", "q", vec![slow, fast]));
    world.now += 100;
    let order: Vec<_> = failures(&mut world, "p")
        .into_iter()
        .map(|(child, ..)| child)
        .collect();
    assert_eq!(order, ["q:fast", "q:slow"]);
}

#[test]
fn nothing_comes_between_the_end_of_a_child_and_what_it_means() {
    let mut world = World::new();
    family(&mut world, Policy::Fail);
    world.ask(SetDlqConfig {
        queue: queue("cq"),
        update: DlqConfigUpdate {
            auto_retry: Some(true),
            auto_retry_interval: Some(0),
            max_auto_retries: Some(1),
            ..DlqConfigUpdate::default()
        },
    });
    let first = world.pull("cq").expect("a child is ready");
    world.pull("cq").expect("its brother, too");
    world.wait(awaiting("cq", 60_000));
    world.events();
    world.ask(Fail {
        id: first.job.id.clone(),
        token: given(first.token),
        report: FailReport {
            unrecoverable: true,
            ..FailReport::default()
        },
    });
    world.tick();
    // The dead letter is due at once, but the parent has failed before it runs again.
    assert_eq!(world.event_words(), ["failed a", "failed p", "pulled a"]);
}

/// A family of many levels that fails from below: no text grows with the depth, and the first cause stays readable.
#[test]
fn error_that_goes_up_through_a_deep_family_stays_short() {
    let mut world = World::new();
    let failing = |text: &str| with(named(text), |options| options.fail_parent_on_failure = true);
    let levels = 5_000;
    world.push("q", failing("0"));
    for level in 1..levels {
        let child = child_of(failing(&level.to_string()), &(level - 1).to_string(), "q");
        world.push("q", child);
    }
    let leaf = world.pull("q").expect("the leaf is ready");
    let report = FailReport {
        unrecoverable: true,
        error: Some("é".repeat(3_000).into()),
        ..FailReport::default()
    };
    world.ask(Fail {
        id: leaf.job.id.clone(),
        token: given(leaf.token),
        report,
    });
    for level in 0..levels - 1 {
        let text = error(&mut world, &level.to_string());
        let start = format!("Child job {} failed: ", level + 1);
        assert!(text.starts_with(&start) && text.ends_with("éé"), "{text}");
        assert!(text.len() < TOLD_ERROR_MAX + 100, "{}", text.len());
    }
}
