//! Plans of flows and what is wrong with them.

use super::*;

#[test]
fn ids_of_a_flow_that_nobody_chose_tie_it_together_all_the_same() {
    let mut world = World::new();
    let mut root = node("x", "pq", vec![node("y", "cq", vec![])]);
    (root.job.custom_id, root.children[0].job.custom_id) = (None, None);
    let views = tree(&mut world, &root);
    let links = views[0].links.as_ref().unwrap();
    assert_eq!(
        (&links.children, &links.depends_on),
        (&vec![views[1].id.clone()], &vec![views[1].id.clone()])
    );
    assert_eq!(
        read(views[1].data.as_ref().unwrap())["__parentId"],
        json!(views[0].id.to_string())
    );
    assert!(!views[0].has_custom_id);
}

#[test]
fn fl_3_fl_12_flow_that_meets_an_existing_id_leaves_nothing() {
    let mut world = World::new();
    world.push("q", named("dup"));
    let mut plan = Plan::default();
    plan.tree(
        &node("one", "pq", vec![node("two", "cq", vec![])]),
        "flows[0]",
    )
    .unwrap();
    plan.tree(
        &node("three", "pq", vec![node("dup", "cq", vec![])]),
        "flows[1]",
    )
    .unwrap();
    assert_eq!(world.refusal(plan.finish()), "Flow job dup already exists");
    assert_eq!(
        (world.counts("pq").total(), world.counts("cq").total()),
        (0, 0)
    );
    // An id that is only remembered as completed is taken as well.
    world.push(
        "q",
        NewJob {
            remove_on_complete: true,
            ..named("done")
        },
    );
    world.pull_batch("q", 9);
    let mut plan = Plan::default();
    plan.tree(&node("done", "q", vec![]), "flow").unwrap();
    assert_eq!(world.refusal(plan.finish()), "Flow job done already exists");
}

#[test]
fn fl_9_chain_runs_step_by_step() {
    let mut world = World::new();
    let steps = ["a", "b", "c"].map(|text| node(text, "q", vec![]));
    let mut plan = Plan::default();
    plan.chain(&steps, "steps").unwrap();
    world.ask(plan.finish());
    for text in ["a", "b", "c"] {
        assert_eq!(finish(&mut world, "q", None), id(text));
    }
}

#[test]
fn fl_10_join_waits_for_all() {
    let mut world = World::new();
    let parallel = ["a", "b"].map(|text| node(text, "q", vec![]));
    let mut plan = Plan::default();
    plan.join(&parallel, &node("last", "r", vec![]), ("parallel", "final"))
        .unwrap();
    world.ask(plan.finish());
    finish(&mut world, "q", None);
    assert!(world.pull("r").is_none());
    finish(&mut world, "q", None);
    assert_eq!(finish(&mut world, "r", None), id("last"));
}

#[test]
fn reverse_tree_runs_the_parent_first() {
    let mut world = World::new();
    let mut plan = Plan::default();
    plan.reverse_tree(
        &node(
            "p",
            "q",
            vec![node("a", "q", vec![]), node("b", "q", vec![])],
        ),
        "flow",
    )
    .unwrap();
    world.ask(plan.finish());
    assert_eq!(finish(&mut world, "q", None), id("p"));
    assert_eq!(world.pull_all("q"), ["a", "b"]);
}

fn fault(result: Result<impl Sized, CommandError>) -> String {
    result.err().expect("it is refused").to_string()
}

fn refused(root: &FlowNodeDraft<'_>) -> CommandError {
    let planned = Plan::default().tree(root, "flow");
    planned.expect_err("it is refused")
}

fn planned(root: &FlowNodeDraft<'_>) -> String {
    refused(root).to_string()
}

#[test]
fn fl_4_and_fl_14_faults_of_a_plan() {
    let data = |value: &Json| rmp_serde::to_vec_named(value).unwrap();
    let change = |change: &dyn Fn(&mut FlowNodeDraft<'_>)| {
        let mut root = node("p", "pq", vec![node("c", "cq", vec![])]);
        change(&mut root);
        planned(&root)
    };
    let reserved = data(&json!({"__x": 1}));
    let list = data(&json!([1]));
    let long = "t".repeat(257);
    let mut root = node("p", "q", vec![]);
    root.job.data = Some(&reserved);
    assert_eq!(planned(&root), "flow job data key is reserved: __x");
    root.job.data = Some(&list);
    assert_eq!(planned(&root), "flow job data must be an object");
    root = node("p", "q", vec![]);
    root.job.tags = vec![&long];
    assert_eq!(
        planned(&root),
        "tags must be an array of strings of at most 256 characters"
    );
    let colon = "flow jobId must be non-empty and cannot contain a colon";
    assert_eq!(
        change(&|root| root.children[0].job.custom_id = Some("a:b")),
        colon
    );
    assert_eq!(change(&|root| root.job.custom_id = Some("")), colon);
    assert_eq!(
        change(&|root| root.job.unique_key = Some("k")),
        "deduplication is not supported inside an atomic flow"
    );
    assert_eq!(
        change(&|root| root.job.debounce_id = Some("k")),
        "debounce is not supported inside an atomic flow"
    );
    assert_eq!(
        change(&|root| root.unsupported = Some("repeat")),
        "repeat is not supported inside an atomic flow"
    );
    assert_eq!(
        change(&|root| root.job.fail_parent_on_failure = true),
        "a flow failure policy requires a parent"
    );
    let both = change(&|root| {
        root.children[0].job.fail_parent_on_failure = true;
        root.children[0].job.ignore_dependency_on_failure = true;
    });
    assert_eq!(both, "flow failure policies are mutually exclusive");
    assert_eq!(
        change(&|root| root.queue = "bad queue"),
        "invalid flow queue: bad queue"
    );
    let mut world = World::new();
    assert_eq!(world.ask(Plan::default().finish()), []);
}

#[test]
fn a_delay_below_zero_means_now_in_a_flow() {
    let mut world = World::new();
    let mut root = node("p", "q", vec![]);
    root.job.delay = Number::Value(-5_000.0);
    let mut plan = Plan::default();
    plan.tree(&root, "").unwrap();
    let added = world.ask(plan.finish());
    assert_eq!(added[0].run_at, world.now);
}

/// F2: what lies in one job is told with its place; nothing of the tree is admitted.
#[test]
fn hard_f2_one_bad_node_of_fifty_is_named() {
    let ids: Vec<String> = (0..49).map(|number| format!("n{number}")).collect();
    let build = |spoil: &dyn Fn(&mut FlowNodeDraft<'_>)| {
        let children = ids.iter().map(|text| node(text, "cq", vec![])).collect();
        let mut root = node("root", "pq", children);
        spoil(&mut root.children[30]);
        planned(&root)
    };
    assert_eq!(
        build(&|node| node.job.name = Some("")),
        "flow.children[30]: Job name must be a non-empty string of at most 256 characters"
    );
    assert_eq!(
        build(&|node| node.job.delay = Number::NotNumber),
        "flow.children[30]: delay must be a number"
    );
    assert_eq!(
        build(&|node| node.job.custom_id = Some("n3")),
        "duplicate flow job id: n3"
    );
    // The fixed texts have no room for the place, so it stands beside them.
    let mut root = node(
        "root",
        "pq",
        vec![node("a", "cq", vec![node("b", "cq", vec![])])],
    );
    root.children[0].children[0].job.custom_id = Some("root");
    let CommandError::FlowAt { path, .. } = refused(&root) else {
        panic!("{:?}", refused(&root));
    };
    assert_eq!(path, "flow.children[0].children[0]");
}

#[test]
fn fl_13_bounds_and_topology_of_a_planned_flow() {
    let many: Vec<_> = (0..10_001)
        .map(|_| FlowNodeDraft {
            queue: "q",
            ..FlowNodeDraft::default()
        })
        .collect();
    assert_eq!(
        fault(Plan::default().chain(&many, "steps")),
        "flow exceeds the 10000 job limit"
    );
    let mut deep = FlowNodeDraft {
        queue: "q",
        ..FlowNodeDraft::default()
    };
    for _ in 0..100 {
        deep = FlowNodeDraft {
            queue: "q",
            children: vec![deep],
            ..FlowNodeDraft::default()
        };
    }
    assert_eq!(planned(&deep), "flow exceeds the 100 level depth limit");
    let empty = [0x80];
    let raw = |id, depends_on| FlowJobDraft {
        id,
        queue: "q",
        job: JobDraft {
            data: Some(&empty),
            ..JobDraft::default()
        },
        depends_on,
        ..FlowJobDraft::default()
    };
    assert_eq!(
        fault(check_flow(&[raw("a", vec!["b"]), raw("b", vec!["a"])])),
        "flow contains a dependency cycle"
    );
    assert_eq!(
        fault(check_flow(&[raw("a", vec!["zz"])])),
        "flow dependency not found: zz"
    );
    let many: Vec<_> = (0..10_001).map(|_| raw("a", vec![])).collect();
    assert_eq!(fault(check_flow(&many)), "flow exceeds the 10000 job limit");
}

/// The end of one reaches another before that has its turn; each fails once.
#[test]
fn jobs_of_a_flow_that_are_all_too_old_fail_once() {
    let old = |id, data| FlowJobDraft {
        id,
        queue: "q",
        job: JobDraft {
            data: Some(data),
            timestamp: Number::Value(1.0),
            ttl: Number::Value(0.0),
            ..JobDraft::default()
        },
        ..FlowJobDraft::default()
    };
    let parent = rmp_serde::to_vec_named(&json!({"__childrenIds": ["c"]})).unwrap();
    let child = rmp_serde::to_vec_named(&json!({"__parentId": "p", "__parentQueue": "q"})).unwrap();
    let mut first = FlowJobDraft {
        parent: Some("p"),
        ..old("c", &child)
    };
    first.job.fail_parent_on_failure = true;
    let second = FlowJobDraft {
        depends_on: vec!["c"],
        children: vec!["c"],
        ..old("p", &parent)
    };
    let mut world = World::new();
    world.ask(check_flow(&[first, second]).unwrap());
    assert_eq!(
        error(&mut world, "p"),
        "Child job c failed: Job TTL expired"
    );
    let words = world.event_words();
    assert_eq!(words, ["pushed c", "pushed p", "failed c", "failed p"]);
    assert_eq!(world.counts("q").failed, 2);
    world.check();
}

#[test]
fn refused_flow_uses_up_no_ids() {
    let mut world = World::new();
    world.push("q", named("dup"));
    let mut root = node("x", "q", vec![node("dup", "q", vec![])]);
    root.job.custom_id = None;
    let mut plan = Plan::default();
    plan.tree(&root, "flow").unwrap();
    assert_eq!(world.refusal(plan.finish()), "Flow job dup already exists");
}

/// Very many queues, and very many children of one parent, cost no more than as many jobs.
#[test]
fn a_wide_flow_over_many_queues_is_checked_once_for_each_job() {
    let names: Vec<String> = (0..9_999).map(|number| format!("c{number}")).collect();
    let started = std::time::Instant::now();
    let mut world = World::new();
    let data = bytes(&json!({"__childrenIds": names}));
    let child_data = bytes(&json!({"__parentId": "p", "__parentQueue": "q"}));
    let draft = |id, queue, data| FlowJobDraft {
        id,
        queue,
        job: JobDraft {
            data: Some(data),
            ..JobDraft::default()
        },
        ..FlowJobDraft::default()
    };
    let ids: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut drafts = vec![FlowJobDraft {
        depends_on: ids.clone(),
        children: ids.clone(),
        ..draft("p", "q", data.bytes())
    }];
    // Each child has a queue of its own.
    drafts.extend(ids.iter().map(|id| FlowJobDraft {
        parent: Some("p"),
        ..draft(id, id, child_data.bytes())
    }));
    let flow = check_flow(&drafts).expect("the flow is sound");
    assert_eq!(world.ask(flow).len(), 10_000);
    assert!(started.elapsed().as_secs() < 4, "{:?}", started.elapsed());
}
