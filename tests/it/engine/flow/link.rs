//! Ties that are made and cut later, parked jobs, reading a tree.

use super::*;

#[test]
fn pu_19_child_added_later_blocks_its_parent_and_leaves_its_value() {
    let mut world = World::new();
    world.push(
        "pq",
        NewJob {
            data: Some(bytes(&json!({"x": 1}))),
            ..named("p")
        },
    );
    world.push("cq", child_of(named("c"), "p", "pq"));
    assert_eq!(state(&mut world, "p"), Some(State::WaitingChildren));
    assert_eq!(
        read(world.detail(&id("p")).job.data.as_ref().unwrap()),
        json!({"x": 1, "__childrenIds": ["c"]})
    );
    finish(&mut world, "cq", Some(payload(5)));
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(values(&mut world, "p"), [("cq:c".to_owned(), payload(5))]);
    let states: Vec<_> = world
        .detail(&id("p"))
        .job
        .timeline
        .iter()
        .map(|entry| entry.state)
        .collect();
    assert_eq!(
        states,
        [State::Waiting, State::WaitingChildren, State::Waiting]
    );
}

#[test]
fn pu_20_parents_that_cannot_wait_are_refused() {
    let mut world = World::new();
    world.push("pq", named("p"));
    let add = |new| bunqueue_mcp::command::Add {
        queue: queue("cq"),
        job: new,
    };
    assert_eq!(
        world.refusal(add(child_of(named("c"), "p", "other"))),
        "Parent job p belongs to queue pq, not other"
    );
    assert_eq!(
        world.refusal(add(child_of(named("c"), "c", "cq"))),
        "A job cannot be its own parent"
    );
    assert_eq!(
        world.refusal(add(child_of(job(), "none", "pq"))),
        "Parent job not found: none"
    );
    let circle = child_of(after(named("c"), &["p"]), "p", "pq");
    let both = NewJob {
        links: Some(Box::new(JobLinks {
            depends_on: vec![id("p")],
            ..*circle.links.clone().unwrap()
        })),
        ..circle
    };
    assert_eq!(world.refusal(add(both)), "flow contains a dependency cycle");
    world.pull("pq").expect("ready");
    assert_eq!(
        world.refusal(add(child_of(job(), "p", "pq"))),
        "Parent job p is not linkable"
    );
}

#[test]
fn st_5_and_st_7_parked_job_stays_until_it_is_cancelled() {
    let mut world = World::new();
    let job = world.push("q", named("a"));
    let park = || MoveToWaitingChildren {
        id: id("a"),
        token: TokenGiven::None,
    };
    assert_eq!(world.ask(park()), Change::WrongState(State::Waiting));
    world.pull("q").expect("ready");
    world.events();
    assert_eq!(world.ask(park()), Change::Applied);
    assert_eq!(world.event_words(), ["waiting-children a"]);
    assert_eq!(
        (state(&mut world, "a"), world.detail(&job).job.attempts),
        (Some(State::WaitingChildren), 0)
    );
    assert_eq!(world.detail(&job).job.started_at, None);
    world.sleep(100_000);
    assert_eq!(
        world.try_ask(Discard {
            id: job.clone(),
            token: TokenGiven::None
        }),
        Ok(Change::WrongState(State::WaitingChildren))
    );
    let priority = ChangePriority {
        id: job.clone(),
        priority: 1.0,
        lifo: None,
    };
    assert_eq!(
        world.ask(priority),
        Change::WrongState(State::WaitingChildren)
    );
    world.events();
    assert_eq!(world.cancel(&job), Change::Applied);
    assert_eq!(state(&mut world, "a"), None);
    assert_eq!(world.event_words(), ["removed a"]);
}

#[test]
fn a_child_brings_a_parked_job_back() {
    let mut world = World::new();
    world.push("q", named("a"));
    world.pull("q").expect("ready");
    world.ask(MoveToWaitingChildren {
        id: id("a"),
        token: TokenGiven::None,
    });
    world.push("cq", child_of(named("c"), "a", "q"));
    assert_eq!(state(&mut world, "a"), Some(State::WaitingChildren));
    finish(&mut world, "cq", None);
    assert_eq!(state(&mut world, "a"), Some(State::Waiting));
}

fn link(world: &mut World, child: &str, parent: &str) -> String {
    let update = UpdateParent {
        child: id(child),
        parent: id(parent),
    };
    match world.try_ask(update) {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn update_parent_ties_existing_jobs() {
    let mut world = World::new();
    let with_data = |text| NewJob {
        data: Some(bytes(&json!({"v": 2}))),
        ..named(text)
    };
    for text in ["p", "p2", "c"] {
        world.push("q", with_data(text));
    }
    assert_eq!(
        link(&mut world, "c", "c"),
        "A flow job cannot be its own parent"
    );
    assert_eq!(link(&mut world, "zz", "p"), "Child job not found: zz");
    assert_eq!(link(&mut world, "c", "zz"), "Parent job not found: zz");
    assert_eq!(link(&mut world, "c", "p"), "ok");
    assert_eq!(link(&mut world, "c", "p"), "ok");
    assert_eq!(
        link(&mut world, "c", "p2"),
        "Child job c already belongs to parent p"
    );
    assert_eq!(
        link(&mut world, "p", "c"),
        "flow contains a dependency cycle"
    );
    let data = |world: &mut World, text| read(world.detail(&id(text)).job.data.as_ref().unwrap());
    assert_eq!(
        data(&mut world, "c"),
        json!({"v": 2, "__parentId": "p", "__parentQueue": "q"})
    );
    assert_eq!(
        data(&mut world, "p"),
        json!({"v": 2, "__childrenIds": ["c"]})
    );
    // Updates keep the ties and may not touch them.
    let update = |value: &Json| UpdateData {
        id: id("c"),
        data: Some(bytes(value)),
    };
    assert_eq!(
        world.refusal(update(&json!("text"))),
        "flow job data must be an object"
    );
    assert_eq!(
        world.refusal(update(&json!({"__x": 1}))),
        "flow job data key is reserved: __x"
    );
    assert_eq!(world.ask(update(&json!({"v": 3}))), Change::Applied);
    assert_eq!(
        data(&mut world, "c"),
        json!({"v": 3, "__parentId": "p", "__parentQueue": "q"})
    );
    // Cut again, on both sides.
    assert!(world.ask(RemoveChildDependency { id: id("c") }));
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(
        (data(&mut world, "c"), data(&mut world, "p")),
        (json!({"v": 3}), json!({"v": 2}))
    );
    assert_eq!(
        world.refusal(RemoveChildDependency { id: id("c") }),
        "Job c has no parent"
    );
    assert_eq!(
        world.refusal(RemoveChildDependency { id: id("zz") }),
        "Job not found: zz"
    );
    world.pull_all("q");
    assert_eq!(link(&mut world, "c", "p2"), "Parent job p2 is not linkable");
}

#[test]
fn update_parent_of_older_clients_only_patches_the_child() {
    let mut world = World::new();
    let pending = with(named("l1"), |options| {
        options.parent_id = Some("pending".into())
    });
    world.push(
        "cq",
        NewJob {
            data: Some(bytes(&json!({"__parentId": "pending"}))),
            max_attempts: 1,
            ..pending
        },
    );
    let links = JobLinks {
        depends_on: vec![id("l1")],
        children: vec![id("l1")],
        parent: None,
    };
    world.push(
        "pq",
        NewJob {
            links: Some(Box::new(links)),
            ..named("lp")
        },
    );
    assert_eq!(link(&mut world, "l1", "lp"), "ok");
    let child = world.detail(&id("l1")).job;
    assert_eq!(
        read(child.data.as_ref().unwrap()),
        json!({"__parentId": "lp", "__parentQueue": "pq"})
    );
    assert_eq!(
        (
            child.links.unwrap().parent.unwrap().id,
            child.options.parent_id.clone()
        ),
        (id("lp"), None)
    );
    finish(&mut world, "cq", Some(payload(1)));
    assert_eq!(values(&mut world, "lp"), [("cq:l1".to_owned(), payload(1))]);
}

#[test]
fn tie_to_a_child_that_is_over_acts_at_once() {
    let mut world = World::new();
    for text in ["done", "dead"] {
        let new = NewJob {
            max_attempts: 1,
            ..named(text)
        };
        world.push(
            "q",
            with(new, |options| {
                options.fail_parent_on_failure = text == "dead"
            }),
        );
    }
    finish(&mut world, "q", Some(payload(1)));
    fail_next(&mut world, "q", "boom");
    world.push("q", named("p"));
    assert_eq!(link(&mut world, "done", "p"), "ok");
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(values(&mut world, "p"), [("q:done".to_owned(), payload(1))]);
    assert_eq!(link(&mut world, "dead", "p"), "ok");
    assert_eq!(error(&mut world, "p"), "Child job dead failed: boom");
}

#[test]
fn remove_unprocessed_children_frees_the_parent_whatever_the_policy() {
    let mut world = World::new();
    family(&mut world, Policy::Fail);
    world.pull("cq").expect("the first child runs");
    world.events();
    assert_eq!(world.ask(RemoveUnprocessedChildren { id: id("p") }), 1);
    assert_eq!(world.event_words(), ["removed b"]);
    assert_eq!(state(&mut world, "p"), Some(State::WaitingChildren));
    world.try_ack(&id("a"), TokenGiven::None).unwrap();
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(world.ask(RemoveUnprocessedChildren { id: id("zz") }), 0);
}

#[test]
fn st_5_parked_job_stays_where_no_child_was_dropped() {
    let mut world = World::new();
    tree(&mut world, &node("p", "pq", vec![node("c", "cq", vec![])]));
    finish(&mut world, "cq", None);
    world.push("pq", named("alone"));
    for text in ["p", "alone"] {
        world.pull("pq").expect("it is ready");
        let parked = world.ask(MoveToWaitingChildren {
            id: id(text),
            token: TokenGiven::None,
        });
        assert_eq!(parked, Change::Applied);
        world.events();
        assert_eq!(world.ask(RemoveUnprocessedChildren { id: id(text) }), 0);
        assert_eq!(state(&mut world, text), Some(State::WaitingChildren));
        assert_eq!(world.event_words(), [""; 0]);
    }
    // One that it does wait for brings it back when it is dropped.
    world.push("cq", child_of(named("late"), "p", "pq"));
    assert_eq!(world.ask(RemoveUnprocessedChildren { id: id("p") }), 1);
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
}

fn shape(node: &FlowNode) -> String {
    let children = match &node.children {
        None => "…".to_owned(),
        Some(children) => children.iter().map(shape).collect::<Vec<_>>().join(" "),
    };
    format!("{}({children})", node.job.job.id)
}

#[test]
fn a_tree_is_read_within_its_bounds() {
    let mut world = World::new();
    let middle = node(
        "m",
        "q",
        vec![node("x", "q", vec![]), node("y", "q", vec![])],
    );
    tree(
        &mut world,
        &node("p", "pq", vec![middle, node("n", "q", vec![])]),
    );
    let mut show = |queue: &str, depth, children| {
        let flow = world.ask(GetFlow {
            id: id("p"),
            queue: queue.into(),
            depth,
            children,
        });
        flow.map(|flow| shape(&flow))
    };
    assert_eq!(show("pq", 9, 9).as_deref(), Some("p(m(x() y()) n())"));
    assert_eq!(show("pq", 1, 9).as_deref(), Some("p(m(…) n())"));
    assert_eq!(show("pq", 9, 1).as_deref(), Some("p(m(x()))"));
    assert_eq!(show("pq", 0, 1).as_deref(), Some("p(…)"));
    assert_eq!(show("q", 9, 9), None);
}

#[test]
fn a_tie_that_is_declared_already_does_not_bring_a_parked_job_back() {
    let mut world = World::new();
    tree(&mut world, &node("p", "pq", vec![node("c", "cq", vec![])]));
    finish(&mut world, "cq", None);
    world.pull("pq").expect("ready");
    world.ask(MoveToWaitingChildren {
        id: id("p"),
        token: TokenGiven::None,
    });
    assert_eq!(link(&mut world, "c", "p"), "ok");
    assert_eq!(state(&mut world, "p"), Some(State::WaitingChildren));
}

#[test]
fn a_child_that_is_added_again_is_one_child_and_leaves_its_new_value() {
    let mut world = World::new();
    world.push("pq", named("p"));
    world.push("cq", child_of(named("c"), "p", "pq"));
    world.push("cq", child_of(named("d"), "p", "pq"));
    finish(&mut world, "cq", Some(payload(1)));
    world.push("cq", child_of(named("c"), "p", "pq"));
    let links = world.detail(&id("p")).job.links.unwrap();
    assert_eq!(links.children, [id("c"), id("d")]);
    assert_eq!(values(&mut world, "p"), []);
    finish(&mut world, "cq", None);
    finish(&mut world, "cq", Some(payload(2)));
    assert_eq!(values(&mut world, "p"), [("cq:c".to_owned(), payload(2))]);
}

#[test]
fn b_11_children_that_wait_for_each_other_are_removed_without_failing_the_parent() {
    let mut world = World::new();
    let second = with_policy(node("b", "cq", vec![]), Policy::Fail);
    tree(
        &mut world,
        &node("p", "pq", vec![node("a", "cq", vec![]), second]),
    );
    world.push("pq", after(named("free"), &["a"]));
    // `b` waits for `a`, too.
    assert_eq!(
        link(&mut world, "a", "b"),
        "Child job a already belongs to parent p"
    );
    world.push(
        "cq",
        after(
            with(named("e"), |options| options.fail_parent_on_failure = true),
            &["a"],
        ),
    );
    assert_eq!(link(&mut world, "e", "p"), "ok");
    world.events();
    assert_eq!(world.ask(RemoveUnprocessedChildren { id: id("p") }), 3);
    assert_eq!(state(&mut world, "p"), Some(State::Waiting));
    assert_eq!(error(&mut world, "free"), "Dependency a removed");
    world.check();
}

#[test]
fn a_job_that_took_over_the_id_of_a_child_is_not_removed_with_the_children() {
    let mut world = World::new();
    tree(
        &mut world,
        &node(
            "p",
            "pq",
            vec![node("c", "cq", vec![]), node("d", "cq", vec![])],
        ),
    );
    finish(&mut world, "cq", None);
    world.push("cq", named("c"));
    assert_eq!(world.ask(RemoveUnprocessedChildren { id: id("p") }), 1);
    assert_eq!(state(&mut world, "c"), Some(State::Waiting));
    assert_eq!(state(&mut world, "d"), None);
}

#[test]
fn data_names_a_child_before_anybody_is_handed_the_parent() {
    let mut world = World::new();
    let parent = NewJob {
        max_attempts: 1,
        ..named("p")
    };
    world.push("pq", parent);
    world.ask(bunqueue_mcp::command::Pause { queue: queue("pq") });
    let wait = world.wait(crate::world::awaiting("pq", 1_000));
    world.push("cq", child_of(named("c"), "p", "pq"));
    world.ask(bunqueue_mcp::command::Resume { queue: queue("pq") });
    // Too old when it is added, and it frees its parent in the same step.
    let late = NewJob {
        timestamp: Some(1),
        ..child_of(named("late"), "p", "pq")
    };
    world.push(
        "cq",
        with(late, |options| {
            options.ttl = Some(0.0);
            options.continue_parent_on_failure = true;
        }),
    );
    let delivery = world.handed(wait).expect("free").remove(0);
    let data = read(delivery.job.data.as_ref().unwrap());
    assert_eq!(data, json!({"__childrenIds": ["c", "late"]}));
}

#[test]
fn bounds_of_a_tree_count_the_children_that_exist() {
    let mut world = World::new();
    let children = vec![node("a", "q", vec![]), node("b", "q", vec![])];
    tree(&mut world, &node("p", "pq", children));
    world.cancel(&id("a"));
    let mut show = |depth, children| {
        let (id, queue) = (id("p"), "pq".into());
        let flow = world.ask(GetFlow {
            id,
            queue,
            depth,
            children,
        });
        shape(&flow.expect("it exists"))
    };
    assert_eq!(show(9, 1), "p(b())");
    assert_eq!(show(0, 1), "p(…)");
    world.cancel(&id("b"));
    assert_eq!(
        shape(
            &world
                .ask(GetFlow {
                    id: id("p"),
                    queue: "pq".into(),
                    depth: 0,
                    children: 1
                })
                .unwrap()
        ),
        "p()"
    );
}

#[test]
fn a_job_whose_ties_are_cut_shows_none() {
    let mut world = World::new();
    world.push("q", named("p"));
    world.push("q", child_of(named("c"), "p", "q"));
    assert!(world.ask(RemoveChildDependency { id: id("c") }));
    for text in ["p", "c"] {
        assert_eq!(world.detail(&id(text)).job.links, None);
    }
}

/// A parent of very many pays for each new child as little as for the first, and its data names them all.
#[test]
fn very_many_children_come_and_go_one_by_one() {
    let mut world = World::new();
    let started = std::time::Instant::now();
    world.push(
        "q",
        NewJob {
            data: Some(bytes(&json!({"x": 1}))),
            ..named("p")
        },
    );
    let count = 20_000;
    let child = |number: usize| child_of(named(&format!("c{number}")), "p", "q");
    world.push_many("q", (0..count / 2).map(child).collect());
    for number in count / 2..count {
        world.push("q", child(number));
    }
    for number in 0..count - 1 {
        let id = id(&format!("c{number}"));
        assert!(world.ask(RemoveChildDependency { id }));
    }
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    let data =
        |world: &mut World, text: &str| read(world.detail(&id(text)).job.data.as_ref().unwrap());
    let last = format!("c{}", count - 1);
    assert_eq!(
        data(&mut world, "p"),
        json!({"x": 1, "__childrenIds": [last]})
    );
    assert_eq!(data(&mut world, "c0"), json!({}));
    world.check();
}

#[test]
fn data_that_is_replaced_before_it_was_read_names_the_children_all_the_same() {
    let mut world = World::new();
    world.push("q", named("p"));
    world.push("q", child_of(named("c"), "p", "q"));
    let change = world.ask(UpdateData {
        id: id("p"),
        data: Some(bytes(&json!({"y": 2}))),
    });
    assert_eq!(change, Change::Applied);
    world.push("q", child_of(named("d"), "p", "q"));
    let read = world.detail(&id("p")).job.data;
    let named = json!({"y": 2, "__childrenIds": ["c", "d"]});
    assert_eq!(read.as_ref(), Some(&bytes(&named)));
    world.cancel(&id("c"));
    world.cancel(&id("d"));
    let delivery = world.pull("q").expect("free");
    assert_eq!((delivery.job.id, delivery.job.data), (id("p"), read));
}

#[test]
fn ties_stand_in_the_data_in_the_order_in_which_they_were_made() {
    let mut world = World::new();
    for text in ["p", "g"] {
        world.push("q", named(text));
    }
    world.push("q", child_of(named("c"), "p", "q"));
    assert_eq!(link(&mut world, "p", "g"), "ok");
    let data = world.detail(&id("p")).job.data.expect("ties");
    let place = |key: &[u8]| data.bytes().windows(key.len()).position(|part| part == key);
    let (first, then) = (place(b"__childrenIds"), place(b"__parentId"));
    assert!(first.is_some() && first < then, "{first:?} {then:?}");
}

#[test]
fn a_long_chain_grows_under_one_parent() {
    let mut world = World::new();
    let started = std::time::Instant::now();
    world.push("q", named("p"));
    world.push("q", child_of(named("0"), "p", "q"));
    for number in 1..5_000 {
        let mut job = child_of(named(&number.to_string()), "p", "q");
        job.links.as_mut().unwrap().depends_on = vec![id(&(number - 1).to_string())];
        world.push("q", job);
    }
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    world.check();
}
