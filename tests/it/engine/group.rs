//! Section 18 and the groups of section 5: whose turn it is, and who is skipped. With B-27.

use std::time::{Duration, Instant};

use bunqueue_mcp::command::draft::{JobDraft, Number, Text};
use bunqueue_mcp::command::{
    AddMany, ChangePriority, Clean, Drain, GetCountsPerPriority, GetGroupActiveCount,
    GetGroupConcurrency, GetGroupJobsCount, GetGroupRateLimit, GetGroupRateLimitTtl,
    GetGroupsJobsCount, GetJobs, GroupId, IsGroupPaused, IsUngroupedInTurn, ListQueues, Obliterate,
    PauseGroup, Promote, Pull, RemoveGroupConcurrency, RemoveGroupRateLimit, ResumeGroup,
    SetGroupConcurrency, SetGroupRateLimit, SetUngroupedInTurn, ThrottleGroup,
};
use bunqueue_mcp::engine::{
    Affinity, Bucket, CleanState, Counts, Listing, Millis, NewJob, PullGroup, RateLimit, State,
};

use crate::world::{
    World, awaiting, choosing, given, group, grouped, id, job, keyed, named, pulling, queue, with,
};

/// Jobs named like `a1`, each in the group that its first letter names; those named `-…` are in none.
fn push(world: &mut World, names: &str) {
    for name in names.split_whitespace() {
        let letter = &name[..1];
        let new = named(name);
        world.push(
            "q",
            if letter == "-" {
                new
            } else {
                grouped(new, letter)
            },
        );
    }
}

fn bounded(name: &str, of: &str, max: u64) -> NewJob {
    NewJob {
        group_max: Some(max),
        ..grouped(named(name), of)
    }
}

fn at_most(concurrency: u64) -> PullGroup {
    PullGroup {
        concurrency: Some(concurrency),
        ..PullGroup::default()
    }
}

fn per(max: u64, duration: Millis) -> PullGroup {
    PullGroup {
        limit: Some(RateLimit { max, duration }),
        ..PullGroup::default()
    }
}

fn only(affinity: Affinity) -> PullGroup {
    PullGroup {
        affinity,
        ..PullGroup::default()
    }
}

fn waiting(group: PullGroup) -> Pull {
    Pull {
        wait: 60_000,
        ..choosing("q", 1, group)
    }
}

fn pause(world: &mut World, name: &str) -> bool {
    let (queue, group) = (queue("q"), group(name));
    world.ask(PauseGroup { queue, group })
}

fn resume(world: &mut World, name: &str) -> bool {
    let (queue, group) = (queue("q"), group(name));
    world.ask(ResumeGroup { queue, group })
}

fn throttle(world: &mut World, name: &str, duration: Millis) {
    let (queue, group) = (queue("q"), group(name));
    world.ask(ThrottleGroup {
        queue,
        group,
        duration,
    });
}

fn set_rate(world: &mut World, name: &str, max: u64, duration: Millis) {
    let (queue, group) = (queue("q"), group(name));
    world.ask(SetGroupRateLimit {
        queue,
        group,
        limit: RateLimit { max, duration },
    });
}

fn set_concurrency(world: &mut World, name: &str, limit: u64) {
    let (queue, group) = (queue("q"), group(name));
    world.ask(SetGroupConcurrency {
        queue,
        group,
        limit,
    });
}

fn ttl(world: &mut World, name: &str, jobs: Option<u64>) -> Millis {
    let (queue, group) = (queue("q"), group(name));
    world.ask(GetGroupRateLimitTtl { queue, group, jobs })
}

/// Queued and active jobs of a group.
fn group_counts(world: &mut World, name: &str) -> (usize, usize) {
    let (on, group) = (queue("q"), group(name));
    let queued = world.ask(GetGroupJobsCount {
        queue: on.clone(),
        group: group.clone(),
    });
    let active = world.ask(GetGroupActiveCount { queue: on, group });
    (queued, active)
}

fn served(world: &mut World, wait: bunqueue_mcp::engine::WaiterId) -> Option<String> {
    let handed = world.handed(wait)?;
    Some(handed[0].job.id.to_string())
}

#[test]
fn or_6_groups_take_turns() {
    let mut world = World::new();
    push(&mut world, "a1 a2 b1 a3 b2 c1");
    assert_eq!(world.pull_all("q"), ["a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[test]
fn or_7_in_a_group_the_smaller_priority_comes_first() {
    let mut world = World::new();
    for (name, priority) in [("a0", 0.0), ("a5", 5.0), ("a1", 1.0), ("a0b", 0.0)] {
        world.push(
            "q",
            NewJob {
                priority,
                ..grouped(named(name), "A")
            },
        );
    }
    assert_eq!(world.state(&id("a5")), Some(State::Prioritized));
    assert_eq!(world.pull_all("q"), ["a0", "a0b", "a1", "a5"]);
}

#[test]
fn lifo_and_run_time_do_not_matter_in_a_group() {
    let mut world = World::new();
    let lifo = NewJob {
        lifo: true,
        ..grouped(named("lifo"), "A")
    };
    let old = NewJob {
        timestamp: Some(1),
        ..grouped(named("old"), "A")
    };
    world.push_many("q", vec![grouped(named("first"), "A"), lifo, old]);
    assert_eq!(world.pull_all("q"), ["first", "lifo", "old"]);
}

#[test]
fn a_retried_job_has_its_old_place_in_its_group() {
    let mut world = World::new();
    let again = with(grouped(named("a1"), "A"), |options| {
        options.backoff.delay = 0.0;
    });
    world.push("q", again);
    push(&mut world, "A2");
    let first = world.pull("q").expect("ready");
    world.fail(&first, "boom");
    assert_eq!(world.pull_all("q"), ["a1", "A2"]);
}

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

#[test]
fn gr_1_a_pull_limits_the_active_jobs_of_a_group() {
    let mut world = World::new();
    push(&mut world, "a1 a2 b1");
    let deliveries = world.ask(choosing("q", 5, at_most(1)));
    let ids: Vec<_> = deliveries.iter().map(|next| next.job.id.text()).collect();
    assert_eq!(ids, ["a1", "b1"]);
    // A pull without limits is not bound by them.
    assert!(world.ask(choosing("q", 5, at_most(1))).is_empty());
    world.ack(&deliveries[0]);
    assert_eq!(world.pull_ids(choosing("q", 5, at_most(1))), ["a2"]);
}

#[test]
fn gr_3_a_paused_group_is_skipped() {
    let mut world = World::new();
    push(&mut world, "a1 b1");
    let is_paused = |world: &mut World| {
        world.ask(IsGroupPaused {
            queue: queue("q"),
            group: group("a"),
        })
    };
    assert!(!is_paused(&mut world));
    assert!(pause(&mut world, "a"));
    assert!(!pause(&mut world, "a"));
    assert!(is_paused(&mut world));
    assert_eq!(world.pull_all("q"), ["b1"]);
    assert_eq!(
        world.counts("q").waiting,
        1,
        "it is not the queue that is paused"
    );
    let wait = world.wait(awaiting("q", 60_000));
    assert!(resume(&mut world, "a"));
    assert!(!resume(&mut world, "a"));
    assert_eq!(served(&mut world, wait).as_deref(), Some("a1"));
}

#[test]
fn gr_4_groups_are_counted() {
    let mut world = World::new();
    push(&mut world, "-0 a1 a2");
    let all = GetGroupsJobsCount { queue: queue("q") };
    assert_eq!(world.ask(all.clone()), 2);
    assert_eq!(world.pull_ids(pulling("q")), ["-0"]);
    assert_eq!(world.pull_ids(pulling("q")), ["a1"]);
    assert_eq!(group_counts(&mut world, "a"), (1, 1));
    assert_eq!(world.ask(all), 1);
    assert_eq!(group_counts(&mut world, "unknown"), (0, 0));
}

#[test]
fn gr_5_a_throttled_group_waits_for_its_time() {
    let mut world = World::new();
    push(&mut world, "a1");
    throttle(&mut world, "a", 60);
    assert!(world.pull("q").is_none());
    assert_eq!(ttl(&mut world, "a", None), 60);
    let wait = world.wait(awaiting("q", 1_000));
    world.sleep(59);
    assert_eq!(served(&mut world, wait), None);
    world.sleep(1);
    assert_eq!(served(&mut world, wait).as_deref(), Some("a1"));
    // The later word counts, whichever way.
    push(&mut world, "a2");
    throttle(&mut world, "a", 60_000);
    throttle(&mut world, "a", 10);
    let wait = world.wait(awaiting("q", 1_000));
    world.sleep(10);
    assert_eq!(served(&mut world, wait).as_deref(), Some("a2"));
    assert_eq!(ttl(&mut world, "a", None), -2);
}

#[test]
fn a_pull_limits_the_deliveries_of_a_group_by_windows() {
    let mut world = World::new();
    push(&mut world, "a1 a2 a3 a4 b1");
    assert_eq!(ttl(&mut world, "a", None), -2);
    assert_eq!(
        world.pull_ids(choosing("q", 9, per(2, 100))),
        ["a1", "b1", "a2"]
    );
    assert_eq!(ttl(&mut world, "a", None), 100);
    assert_eq!(
        (ttl(&mut world, "a", Some(3)), ttl(&mut world, "a", Some(2))),
        (0, 100)
    );
    let wait = world.wait(waiting(per(2, 100)));
    world.sleep(99);
    assert_eq!(served(&mut world, wait), None);
    world.sleep(1);
    assert_eq!(served(&mut world, wait).as_deref(), Some("a3"));
    // The next window began with that delivery, not with the end of the first.
    assert_eq!(ttl(&mut world, "a", None), 100);
    world.sleep(30);
    assert_eq!(world.pull_ids(choosing("q", 9, per(2, 100))), ["a4"]);
    push(&mut world, "a5 a6");
    assert!(world.ask(choosing("q", 9, per(2, 100))).is_empty());
    // Who does not limit them is not bound, and leaves the window alone.
    assert_eq!(world.pull_ids(pulling("q")), ["a5"]);
    world.sleep(70);
    assert_eq!(ttl(&mut world, "a", None), -2);
    assert_eq!(world.pull_ids(pulling("q")), ["a6"]);
    assert_eq!(ttl(&mut world, "a", None), -2);
}

#[test]
fn limits_of_a_group_replace_those_of_the_pull() {
    let mut world = World::new();
    push(&mut world, "a1 a2 a3 a4 a5 a6 b1 b2");
    set_concurrency(&mut world, "a", 2);
    let concurrency = GetGroupConcurrency {
        queue: queue("q"),
        group: group("a"),
    };
    assert_eq!(world.ask(concurrency.clone()), Some(2));
    assert_eq!(
        world.pull_ids(choosing("q", 9, at_most(1))),
        ["a1", "b1", "a2"],
        "two of a, which has its own limit, one of b"
    );
    // A pull that limits nothing, or something else, is not bound by it.
    assert_eq!(
        world.pull_ids(choosing("q", 2, per(9, 1_000))),
        ["b2", "a3"]
    );
    assert!(world.ask(choosing("q", 9, at_most(9))).is_empty());
    let remove = RemoveGroupConcurrency {
        queue: queue("q"),
        group: group("a"),
    };
    let wait = world.wait(waiting(at_most(4)));
    assert_eq!(served(&mut world, wait), None);
    assert_eq!((world.ask(remove.clone()), world.ask(remove)), (1, 0));
    assert_eq!(served(&mut world, wait).as_deref(), Some("a4"));
    assert_eq!(world.ask(concurrency), None);
}

#[test]
fn changing_a_rate_of_a_group_begins_a_new_window() {
    let mut world = World::new();
    push(&mut world, "a1 a2 a3 a4 a5");
    set_rate(&mut world, "a", 1, 60_000);
    let rate = GetGroupRateLimit {
        queue: queue("q"),
        group: group("a"),
    };
    let limit = RateLimit {
        max: 1,
        duration: 60_000,
    };
    assert_eq!(world.ask(rate.clone()), Some(limit));
    assert_eq!(world.pull_ids(choosing("q", 9, per(3, 10))), ["a1"]);
    assert_eq!(ttl(&mut world, "a", None), 60_000);
    let wait = world.wait(waiting(per(3, 10)));
    set_rate(&mut world, "a", 1, 60_000);
    assert_eq!(served(&mut world, wait).as_deref(), Some("a2"));
    let remove = RemoveGroupRateLimit {
        queue: queue("q"),
        group: group("a"),
    };
    assert_eq!((world.ask(remove.clone()), world.ask(remove)), (1, 0));
    assert_eq!((world.ask(rate), ttl(&mut world, "a", None)), (None, -2));
    assert_eq!(world.pull_ids(choosing("q", 9, per(2, 10))), ["a3", "a4"]);
}

#[test]
fn affinity_chooses_among_groups() {
    let mut world = World::new();
    push(&mut world, "-0 a1 b1 b2");
    let group = |name: &str| only(Affinity::Group(name.into()));
    assert_eq!(world.pull_ids(choosing("q", 9, group("b"))), ["b1", "b2"]);
    assert!(world.ask(choosing("q", 9, group("c"))).is_empty());
    assert_eq!(
        world.pull_ids(choosing("q", 9, only(Affinity::Ungrouped))),
        ["-0"]
    );
    assert!(
        world
            .ask(choosing("q", 9, only(Affinity::Ungrouped)))
            .is_empty()
    );
    assert_eq!(
        world.pull_ids(choosing("q", 9, only(Affinity::Any))),
        ["a1"]
    );
}

#[test]
fn the_longest_waiting_pull_that_can_take_it_gets_the_job() {
    let mut world = World::new();
    let for_a = world.wait(waiting(only(Affinity::Group("a".into()))));
    let for_none = world.wait(waiting(only(Affinity::Ungrouped)));
    let for_any = world.wait(awaiting("q", 60_000));
    let for_b = world.wait(waiting(only(Affinity::Group("b".into()))));
    push(&mut world, "b1");
    assert_eq!(served(&mut world, for_any).as_deref(), Some("b1"));
    push(&mut world, "b2 -0");
    assert_eq!(served(&mut world, for_b).as_deref(), Some("b2"));
    assert_eq!(served(&mut world, for_none).as_deref(), Some("-0"));
    push(&mut world, "a1");
    assert_eq!(served(&mut world, for_a).as_deref(), Some("a1"));
}

#[test]
fn a_waiting_pull_is_served_once_fewer_jobs_of_the_group_are_active() {
    let mut world = World::new();
    push(&mut world, "a1 a2");
    let first = world.pull("q").expect("ready");
    let wait = world.wait(waiting(at_most(1)));
    assert_eq!(served(&mut world, wait), None);
    world.ack(&first);
    assert_eq!(served(&mut world, wait).as_deref(), Some("a2"));
}

#[test]
fn a_blocked_group_keeps_its_turn() {
    let mut world = World::new();
    push(&mut world, "a1 a2 b1 b2 c1 c2");
    assert_eq!(world.pull_ids(choosing("q", 1, at_most(1))), ["a1"]);
    assert_eq!(world.pull_ids(choosing("q", 1, at_most(1))), ["b1"]);
    pause(&mut world, "c");
    // Nobody's turn, for this pull; c is next all the same once it goes on, then a.
    assert!(world.ask(choosing("q", 1, at_most(1))).is_empty());
    resume(&mut world, "c");
    assert_eq!(world.pull_all("q"), ["c1", "a2", "b2", "c2"]);
}

#[test]
fn a_group_that_begins_anew_comes_last() {
    let mut world = World::new();
    push(&mut world, "a1 b1 b2");
    assert_eq!(world.pull_ids(pulling("q")), ["a1"]);
    push(&mut world, "a2 c1");
    assert_eq!(world.pull_all("q"), ["b1", "a2", "c1", "b2"]);
}

#[test]
fn no_group_starves_behind_new_ones() {
    let mut world = World::new();
    push(&mut world, "a1 a2");
    for n in 0..50 {
        world.push("q", grouped(job(), &format!("new{n}")));
        let next = world.pull("q").expect("ready");
        if n > 0 && next.job.id == id("a2") {
            return;
        }
    }
    panic!("a2 is never served");
}

#[test]
fn a_changed_priority_leaves_its_group_its_turn() {
    let mut world = World::new();
    push(&mut world, "a1 b1 b2");
    for (name, priority) in [("a1", 3.0), ("b1", 1.0)] {
        world.ask(ChangePriority {
            id: id(name),
            priority,
            lifo: None,
        });
    }
    let counts = Counts {
        waiting: 1,
        prioritized: 2,
        ..Counts::default()
    };
    assert_eq!(world.counts("q"), counts);
    assert_eq!(world.pull_all("q"), ["a1", "b2", "b1"]);
}

#[test]
fn b_27_ungrouped_jobs_go_first_unless_they_take_their_turn() {
    let mut world = World::new();
    push(&mut world, "a1 a2 b1 -1 -2 -3");
    assert_eq!(world.pull_all("q"), ["-1", "-2", "-3", "a1", "b1", "a2"]);
    let set = |in_turn| SetUngroupedInTurn {
        queue: queue("q"),
        in_turn,
    };
    let is = IsUngroupedInTurn { queue: queue("q") };
    assert!(!world.ask(is.clone()));
    world.ask(set(true));
    assert!(world.ask(is.clone()));
    push(&mut world, "a3 a4 -4 -5 -6 b2");
    assert_eq!(world.pull_all("q"), ["a3", "-4", "b2", "a4", "-5", "-6"]);
    // A steady stream of ungrouped jobs does not keep a group waiting.
    push(&mut world, "a5 -7 -8");
    assert_eq!(world.pull_ids(pulling("q")), ["a5"]);
    world.ask(set(false));
    push(&mut world, "a6");
    assert_eq!(world.pull_all("q"), ["-7", "-8", "a6"]);
    // Set while they wait, they come last, like any group that begins.
    push(&mut world, "-9 a7 a8 b3");
    world.ask(set(true));
    assert_eq!(world.pull_all("q"), ["a7", "b3", "-9", "a8"]);
    assert!(!world.ask(IsUngroupedInTurn {
        queue: queue("nowhere")
    }));
    world.ask(Obliterate { queue: queue("q") });
    assert!(!world.ask(is));
}

#[test]
fn settings_keep_the_name_of_a_queue() {
    let mut world = World::new();
    let set = |in_turn| SetUngroupedInTurn {
        queue: queue("q"),
        in_turn,
    };
    let known = |world: &mut World| {
        world.sleep(1_000_000);
        !world.ask(ListQueues).is_empty()
    };
    pause(&mut world, "a");
    assert!(known(&mut world));
    resume(&mut world, "a");
    assert!(!known(&mut world));
    world.ask(set(true));
    assert!(known(&mut world));
    world.ask(set(false));
    assert!(!known(&mut world));
    set_rate(&mut world, "a", 1, 1);
    assert!(known(&mut world));
    let (on, a) = (queue("q"), group("a"));
    world.ask(RemoveGroupRateLimit {
        queue: on.clone(),
        group: a.clone(),
    });
    assert!(!known(&mut world));
    // Reading and taking away make no queue.
    assert_eq!(group_counts(&mut world, "a"), (0, 0));
    resume(&mut world, "a");
    world.ask(RemoveGroupConcurrency {
        queue: on,
        group: a,
    });
    world.ask(set(false));
    assert!(world.ask(ListQueues).is_empty());
    assert_eq!(world.next_deadline(), None);
}

#[test]
fn mg_12_obliterate_clears_everything_of_groups() {
    let mut world = World::new();
    push(&mut world, "a1 a2 b1 c1");
    pause(&mut world, "a");
    throttle(&mut world, "b", 50_000);
    set_rate(&mut world, "c", 1, 50_000);
    set_concurrency(&mut world, "c", 1);
    assert_eq!(world.pull_ids(choosing("q", 9, per(1, 50_000))), ["c1"]);
    let wait = world.wait(Pull {
        count: 9,
        ..awaiting("q", 60_000)
    });
    world.ask(Obliterate { queue: queue("q") });
    for name in ["a", "b", "c"] {
        assert_eq!(group_counts(&mut world, name), (0, 0));
        assert_eq!(ttl(&mut world, name, None), -2);
    }
    let jobs = ["a", "b", "c"].map(|name| grouped(named(name), name));
    world.push_many("q", jobs.to_vec());
    let handed = world.handed(wait).expect("nothing is in the way");
    assert_eq!(handed.len(), 3);
    world.sleep(60_000);
}

#[test]
fn grouped_jobs_are_jobs_of_their_queue() {
    let mut world = World::new();
    push(&mut world, "a1 b1 -0");
    let delayed = NewJob {
        delay: 1_000,
        ..grouped(named("late"), "a")
    };
    world.push("q", delayed);
    let counts = Counts {
        waiting: 3,
        delayed: 1,
        ..Counts::default()
    };
    assert_eq!(world.counts("q"), counts);
    let per_priority = GetCountsPerPriority { queue: queue("q") };
    assert_eq!(world.ask(per_priority), [(0.0, 4)]);
    let listing = Listing {
        queue: "q".into(),
        buckets: vec![Bucket::State(State::Waiting)],
        after: None,
        offset: 0,
        limit: 100,
        ascending: true,
    };
    let listed = world.ask(GetJobs { listing });
    let of = |name: &str| {
        let shown = listed.iter().find(|detail| detail.job.id == id(name));
        shown.and_then(|detail| detail.job.options.group_id.as_deref().map(str::to_owned))
    };
    assert_eq!(
        (listed.len(), of("a1"), of("-0")),
        (3, Some("a".into()), None)
    );
    world.ask(Promote { id: id("late") });
    assert_eq!(group_counts(&mut world, "a"), (2, 0));
    let clean = Clean {
        queue: queue("q"),
        grace: 0.0,
        state: CleanState::Bucket(Bucket::State(State::Waiting)),
        limit: 2,
    };
    assert_eq!(world.ask(clean).count, 2);
    assert_eq!(world.ask(Drain { queue: queue("q") }).count, 2);
    assert_eq!(world.ask(GetGroupsJobsCount { queue: queue("q") }), 0);
    assert_eq!(world.counts("q"), Counts::default());
}

#[test]
fn what_nobody_has_read_counts_in_no_window() {
    let mut world = World::new();
    push(&mut world, "a1 a2");
    let taken = world.ask(choosing("q", 1, per(1, 1_000)));
    world.act(|engine, turn| engine.give_back(turn, &taken));
    assert_eq!(
        (ttl(&mut world, "a", None), group_counts(&mut world, "a")),
        (-2, (2, 0))
    );
    assert_eq!(world.pull_ids(choosing("q", 9, per(1, 1_000))), ["a1"]);
    // One of two in a window goes back; the window stays with the other.
    let mut world = World::new();
    push(&mut world, "a1 a2 a3");
    let taken = world.ask(choosing("q", 2, per(2, 1_000)));
    world.sleep(10);
    world.act(|engine, turn| engine.give_back(turn, &taken[1..]));
    assert_eq!(ttl(&mut world, "a", None), 990);
    assert_eq!(world.pull_ids(choosing("q", 9, per(2, 1_000))), ["a2"]);
    // What has ended meanwhile is not counted twice.
    world.ack(&taken[0]);
    assert!(world.try_ack(&id("a1"), given(None)).is_err());
}

#[test]
fn the_turn_of_a_pull_does_not_grow_with_the_groups() {
    let time = |groups: usize| {
        let mut world = World::new();
        let jobs = (0..groups * 2).map(|n| grouped(job(), &format!("g{}", n % groups)));
        world.push_many("q", jobs.collect());
        // One active job in every group: none may be served to who allows only one.
        for _ in 0..groups / 1_000 {
            world.pull_batch("q", 1_000);
        }
        let start = Instant::now();
        for _ in 0..2_000 {
            assert!(world.ask(choosing("q", 1, at_most(1))).is_empty());
        }
        start.elapsed()
    };
    let (few, many) = (time(1_000), time(30_000));
    assert!(
        many < few * 10 + Duration::from_millis(20),
        "{few:?} with 1,000 groups, {many:?} with 30,000"
    );
}
