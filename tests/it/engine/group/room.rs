//! What a job says of its group, and whether there is room in it (sections 2.3 and 6).

use bunqueue_mcp::command::draft::JobDraft;
use bunqueue_mcp::command::given::{Number, Text};
use bunqueue_mcp::command::{AddMany, GroupId, ListQueues};
use bunqueue_mcp::engine::NewJob;

use crate::world::{World, grouped, job, keyed, named, queue, with};

use super::{bounded, group_counts};

fn draft_error(change: impl FnOnce(&mut JobDraft<'static>)) -> String {
    let mut draft = JobDraft {
        group_id: Text::Value("g"),
        ..JobDraft::default()
    };
    change(&mut draft);
    draft
        .check()
        .map(|_| ())
        .map_err(|error| error.to_string())
        .err()
        .unwrap_or_default()
}

#[test]
fn or_9_priorities_of_grouped_jobs_have_a_range() {
    let with = |value| draft_error(|draft| draft.priority = Number::Value(value));
    let range = "group.priority must be between 0 and 2097151";
    assert_eq!(with(-1.0), range);
    assert_eq!(with(2_097_152.0), range);
    assert_eq!(with(1.5), "group.priority must be an integer");
    assert_eq!(with(f64::NAN), "group.priority must be a finite number");
    assert_eq!(
        draft_error(|draft| draft.priority = Number::NotNumber),
        "group.priority must be a finite number"
    );
    assert_eq!(with(2_097_151.0), "");
    // Without a group any finite number will do.
    let free = JobDraft {
        priority: Number::Value(-1.5),
        ..JobDraft::default()
    };
    assert!(free.check().is_ok());
}

#[test]
fn or_10_ids_of_groups_are_checked() {
    let long = "g".repeat(257);
    let faults = [
        (Text::Value(""), "groupId must be a non-empty string"),
        (Text::Value(&long), "groupId must be at most 256 characters"),
        (
            Text::Value("a\0b"),
            "groupId must not contain NUL characters",
        ),
        (Text::NotText, "groupId must be a string"),
    ];
    for (given, text) in faults {
        let draft = JobDraft {
            group_id: given,
            // What comes later is not looked at.
            priority: Number::NotNumber,
            ..JobDraft::default()
        };
        let error = draft.check().map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(error, Err(text.to_owned()));
        let error = GroupId::required(given).map_err(|error| error.to_string());
        assert_eq!(error, Err(text.to_owned()));
    }
    let missing = GroupId::required(Text::Absent).map_err(|error| error.to_string());
    assert_eq!(missing, Err("groupId is required".to_owned()));
    let fits = JobDraft {
        group_id: Text::Value(&long[..256]),
        ..JobDraft::default()
    };
    let options = fits.check().expect("it fits").options.expect("a group");
    assert_eq!(options.group_id.as_deref(), Some(&long[..256]));
}

#[test]
fn a_size_of_a_group_is_a_positive_integer() {
    for bad in [0.0, 1.5, -3.0, f64::NAN] {
        assert_eq!(
            draft_error(|draft| draft.group_max = Number::Value(bad)),
            "group.maxSize must be a positive safe integer"
        );
    }
    assert_eq!(
        draft_error(|draft| draft.group_max = Number::Value(1.0)),
        ""
    );
}

#[test]
fn pu_11_capacity_counts_queued_jobs_only() {
    let mut world = World::new();
    world.push("q", bounded("a", "g", 1));
    assert!(world.pull("q").is_some());
    world.push("q", bounded("b", "g", 1));
    assert_eq!(group_counts(&mut world, "g"), (1, 1));
}

#[test]
fn gr_7_a_delayed_job_counts_for_the_size() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            delay: 5_000,
            ..bounded("a", "g", 1)
        },
    );
    let add = |name, max| bunqueue_mcp::command::Add {
        queue: queue("q"),
        job: bounded(name, "g", max),
    };
    assert_eq!(
        world.refusal(add("b", 1)),
        "Group g has reached its maximum size of 1"
    );
    // Other groups, and those who allow more, are not concerned; nor is an add that brings no job.
    world.ask(add("c", 2));
    world.ask(add("a", 1));
    world.push("q", bounded("d", "other", 1));
    assert_eq!(group_counts(&mut world, "g"), (2, 0));
}

#[test]
fn a_batch_that_meets_a_full_group_is_refused_whole() {
    let mut world = World::new();
    world.push("q", grouped(named("old"), "g"));
    let batch = |jobs| AddMany {
        queue: queue("q"),
        jobs,
    };
    let full = "Group g has reached its maximum size of 2";
    assert_eq!(
        world.refusal(batch(vec![
            job(),
            bounded("a", "g", 2),
            bounded("b", "g", 2)
        ])),
        full
    );
    // A queue that nobody has used stays unknown.
    let elsewhere = AddMany {
        queue: queue("fresh"),
        jobs: vec![bounded("x", "g", 1), bounded("y", "g", 1)],
    };
    assert_eq!(
        world.refusal(elsewhere),
        "Group g has reached its maximum size of 1"
    );
    assert_eq!(world.ask(ListQueues).len(), 1);
    // Jobs that stand for others need no room, wherever the other stands.
    world.ask(batch(vec![
        bounded("a", "g", 2),
        bounded("a", "g", 2),
        bounded("old", "g", 1),
    ]));
    assert_eq!(group_counts(&mut world, "g"), (2, 0));
}

#[test]
fn keys_are_followed_through_a_batch() {
    let replacing = |name, max| {
        let new = keyed(bounded(name, "g", max), "k");
        with(new, |options| options.dedup.replace = true)
    };
    let batch = |jobs| AddMany {
        queue: queue("q"),
        jobs,
    };
    let mut world = World::new();
    // Each takes the place of the one before: never more than one.
    world.ask(batch(vec![
        replacing("a", 1),
        replacing("b", 1),
        replacing("c", 1),
    ]));
    assert_eq!(group_counts(&mut world, "g"), (1, 0));
    // The owner of the key makes room for the first, but nothing does for the second.
    assert_eq!(
        world.refusal(batch(vec![replacing("d", 1), bounded("e", "g", 1)])),
        "Group g has reached its maximum size of 1"
    );
    // The active owner runs on.
    assert!(world.pull("q").is_some());
    world.ask(batch(vec![replacing("f", 1)]));
    assert_eq!(group_counts(&mut world, "g"), (1, 1));
    // A duplicate is none of the group's.
    world.ask(batch(vec![keyed(bounded("h", "g", 1), "k")]));
    // What is too old when it comes takes no room either.
    let stale = |name| {
        let new = NewJob {
            timestamp: Some(world.now - 10),
            ..bounded(name, "h", 1)
        };
        with(new, |options| options.ttl = Some(1.0))
    };
    let jobs = vec![stale("s1"), stale("s2"), bounded("s3", "h", 1)];
    world.ask(batch(jobs));
    assert_eq!(group_counts(&mut world, "h"), (1, 0));
}
