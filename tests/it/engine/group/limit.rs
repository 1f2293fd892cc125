//! Groups that are paused, throttled or limited, and what is counted of them (section 18).

use bunqueue_mcp::command::{
    Clean, Drain, GetCountsPerPriority, GetGroupConcurrency, GetGroupRateLimit, GetGroupsJobsCount,
    GetJobs, IsGroupPaused, ListQueues, Obliterate, Promote, Pull, RemoveGroupConcurrency,
    RemoveGroupRateLimit, SetUngroupedInTurn,
};
use bunqueue_mcp::engine::{Bucket, CleanState, Counts, Listing, NewJob, RateLimit, State};

use crate::world::{World, awaiting, choosing, given, group, grouped, id, named, pulling, queue};

use super::{
    at_most, group_counts, pause, per, push, resume, served, set_concurrency, set_rate, throttle,
    ttl, waiting,
};

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
