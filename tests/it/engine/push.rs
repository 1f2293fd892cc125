//! Section 6: admission and deduplication.

use bunqueue_mcp::command::{
    Clean, Discard, Drain, GetDedupOwner, ListQueues, RemoveDedupKey, RemoveJobDedupKey,
};
use bunqueue_mcp::engine::{AddOutcome, Change, CleanState, JobId, NewJob, State, TokenGiven};

use crate::world::{World, id, job, keyed, named, payload, queue, with};

fn owner(world: &mut World, key: &str) -> Option<JobId> {
    world.ask(GetDedupOwner {
        queue: queue("q"),
        key: key.into(),
    })
}

/// A keyed job with a lifetime of its key.
fn limited(ttl: f64) -> NewJob {
    with(keyed(job(), "k"), |options| options.dedup.ttl = Some(ttl))
}

fn replacing(new: NewJob) -> NewJob {
    with(keyed(new, "k"), |options| options.dedup.replace = true)
}

#[test]
fn pu_1_same_key_while_queued_stands_for_the_first_job() {
    let mut world = World::new();
    let first = world.push(
        "q",
        keyed(
            NewJob {
                data: Some(payload(1)),
                ..job()
            },
            "k",
        ),
    );
    let again = world.add(
        "q",
        keyed(
            NewJob {
                data: Some(payload(2)),
                ..job()
            },
            "k",
        ),
    );
    assert_eq!(
        (again.id, again.outcome),
        (first.clone(), AddOutcome::Existing)
    );
    assert_eq!(world.detail(&first).job.data, Some(payload(1)));
    assert_eq!(world.counts("q").total(), 1);
    assert_eq!(
        world.event_words(),
        [format!("pushed {first}"), format!("duplicated {first}")]
    );
}

#[test]
fn pu_2_same_key_while_active_stands_for_the_first_job() {
    let mut world = World::new();
    let first = world.push("q", keyed(job(), "k"));
    world.pull("q").expect("ready");
    assert_eq!(world.push("q", keyed(job(), "k")), first);
    assert_eq!(world.counts("q").total(), 1);
}

#[test]
fn pu_3_completion_frees_the_key_before_its_time() {
    let mut world = World::new();
    let first = world.push("q", limited(60_000.0));
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
    assert_ne!(world.push("q", limited(60_000.0)), first);
}

#[test]
fn pu_4_key_ends_with_its_ttl() {
    let mut world = World::new();
    world.push("q", limited(40.0));
    world.sleep(39);
    world.push("q", limited(40.0));
    assert_eq!(world.counts("q").waiting, 1);
    world.sleep(2);
    let second = world.push("q", limited(40.0));
    assert_eq!(world.counts("q").waiting, 2);
    assert_eq!(owner(&mut world, "k"), Some(second));
}

#[test]
fn pu_6_replace_takes_the_place_of_a_queued_owner() {
    let mut world = World::new();
    for delay in [0, 5_000] {
        let first = world.push("q", keyed(NewJob { delay, ..job() }, "k"));
        let prev = if delay > 0 {
            State::Delayed
        } else {
            State::Waiting
        };
        world.events();
        let second = world.add(
            "q",
            replacing(NewJob {
                data: Some(payload(2)),
                ..job()
            }),
        );
        assert_eq!(second.outcome, AddOutcome::Replaced(first.clone()));
        assert_eq!((world.state(&first), world.counts("q").total()), (None, 1));
        let removed = bunqueue_mcp::engine::EventKind::Removed { prev };
        assert_eq!(
            world.event_kinds(),
            [removed, bunqueue_mcp::engine::EventKind::Pushed]
        );
        let delivery = world.pull("q").expect("ready");
        assert_eq!(
            (&delivery.job.id, &delivery.job.data),
            (&second.id, &Some(payload(2)))
        );
        world.ack(&delivery);
        world.ask(Clean {
            queue: queue("q"),
            grace: 0.0,
            state: completed(),
            limit: 10,
        });
    }
}

fn completed() -> CleanState {
    CleanState::Bucket(bunqueue_mcp::engine::Bucket::State(State::Completed))
}

#[test]
fn pu_6_replace_lets_an_active_owner_finish_but_takes_its_key() {
    let mut world = World::new();
    let first = world.push("q", keyed(job(), "k"));
    let delivery = world.pull("q").expect("ready");
    let second = world.add("q", replacing(job()));
    assert_eq!(second.outcome, AddOutcome::New);
    world.ack(&delivery);
    assert_eq!(world.state(&first), Some(State::Completed));
    assert_eq!(
        owner(&mut world, "k"),
        Some(second.id),
        "the predecessor cannot release it"
    );
}

#[test]
fn pu_7_keys_belong_to_a_queue() {
    let mut world = World::new();
    assert_ne!(
        world.push("q", keyed(job(), "k")),
        world.push("other", keyed(job(), "k"))
    );
}

#[test]
fn pu_8_key_can_be_looked_up_and_removed() {
    let mut world = World::new();
    let first = world.push("q", keyed(job(), "k"));
    assert_eq!(owner(&mut world, "k"), Some(first.clone()));
    let remove = || RemoveDedupKey {
        queue: queue("q"),
        key: "k".into(),
    };
    assert_eq!((world.ask(remove()), world.ask(remove())), (1, 0));
    let second = world.push("q", keyed(job(), "k"));
    assert_ne!(second, first);
    assert!(
        !world.ask(RemoveJobDedupKey { id: first }),
        "the first job no longer owns the key"
    );
    assert_eq!(owner(&mut world, "k"), Some(second.clone()));
    assert!(world.ask(RemoveJobDedupKey { id: second }));
    assert_eq!(owner(&mut world, "k"), None);
}

#[test]
fn pu_9_debounce_is_stored_only() {
    let mut world = World::new();
    let debounced = || with(job(), |options| options.debounce_id = Some("d".into()));
    assert_ne!(world.push("q", debounced()), world.push("q", debounced()));
}

#[test]
fn pu_10_batch_repeats_the_ids_of_duplicates() {
    let mut world = World::new();
    let ids = world.push_many(
        "q",
        vec![keyed(job(), "k"), keyed(job(), "k"), named("c"), named("c")],
    );
    assert_eq!((&ids[0], &ids[2]), (&ids[1], &ids[3]));
    assert_eq!(world.counts("q").waiting, 2);
}

#[test]
fn pu_17_empty_batch_adds_nothing() {
    let mut world = World::new();
    assert_eq!(world.push_many("q", Vec::new()), []);
    assert_eq!(world.ask(ListQueues), []);
}

#[test]
fn pu_18_batch_tells_of_each_job() {
    let mut world = World::new();
    world.push_many("q", vec![keyed(job(), "k"), keyed(job(), "k"), job()]);
    let names: Vec<_> = world
        .events()
        .iter()
        .map(|event| event.kind.name())
        .collect();
    assert_eq!(names, ["pushed", "duplicated", "pushed"]);
}

#[test]
fn pu_21_every_removal_frees_the_key() {
    let mut world = World::new();
    let removals: [fn(&mut World, &JobId); 5] = [
        |world, _| assert_eq!(world.ask(Drain { queue: queue("q") }).count, 1),
        |world, job| assert_eq!(world.cancel(job), Change::Applied),
        |world, _| {
            let clean = Clean {
                queue: queue("q"),
                grace: 0.0,
                state: CleanState::Queued,
                limit: 10,
            };
            assert_eq!(world.ask(clean).count, 1);
        },
        |world, job| {
            let discard = Discard {
                id: job.clone(),
                token: TokenGiven::None,
            };
            assert_eq!(world.ask(discard), Change::Applied);
        },
        |world, _| world.sleep(2_000),
    ];
    for remove in removals {
        let first = world.push(
            "q",
            with(keyed(job(), "k"), |options| options.ttl = Some(1_000.0)),
        );
        remove(&mut world, &first);
        let extending = with(limited(500.0), |options| options.dedup.extend = true);
        let second = world.add("q", extending);
        assert_eq!(second.outcome, AddOutcome::New);
        world.ask(Drain { queue: queue("q") });
    }
}

#[test]
fn b_7_key_is_held_until_the_job_is_over() {
    let mut world = World::new();
    let patient = with(keyed(job(), "k"), |options| options.backoff.delay = 5_000.0);
    let first = world.push("q", patient);
    let again = |world: &mut World| assert_eq!(world.push("q", keyed(job(), "k")), first);
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    again(&mut world);
    world.sleep(20_000);
    let delivery = world.pull_lock("q", 1_000.0).expect("ready");
    world.move_to_wait(&first, delivery.token);
    again(&mut world);
    world.as_connection(1).pull("q").expect("ready");
    world.close(1);
    again(&mut world);
    world.pull_lock("q", 1_000.0).expect("ready");
    world.sleep(1_000);
    again(&mut world);
    assert_eq!(world.counts("q").total(), 1);
}

#[test]
fn b_9_extend_prolongs_the_key_of_a_live_owner_in_any_state() {
    let mut world = World::new();
    let extending = || with(limited(1_000.0), |options| options.dedup.extend = true);
    let first = world.push("q", extending());
    world.sleep(800);
    assert_eq!(world.push("q", extending()), first);
    world.pull("q").expect("ready");
    world.sleep(800);
    assert_eq!(world.push("q", extending()), first);
    world.sleep(800);
    assert_eq!(owner(&mut world, "k"), Some(first));
    world.sleep(300);
    assert_eq!(owner(&mut world, "k"), None);
}

#[test]
fn b_4_five_thousand_keys_are_all_held() {
    let mut world = World::new();
    let many = (0..5_000)
        .map(|number| keyed(job(), &format!("k{number}")))
        .collect();
    let ids = world.push_many("q", many);
    world.sleep(60_000);
    assert_eq!(world.push("q", keyed(job(), "k0")), ids[0]);
    assert_eq!(world.counts("q").waiting, 5_000);
}

#[test]
fn suppressed_add_leaves_the_finished_job_with_the_same_id_alone() {
    let mut world = World::new();
    let done = world.push("q", named("c"));
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
    let owner = world.push("q", keyed(job(), "k"));
    let added = world.add("q", keyed(named("c"), "k"));
    assert_eq!((added.id, added.outcome), (owner, AddOutcome::Existing));
    assert_eq!(world.state(&done), Some(State::Completed));
}

#[test]
fn name_of_a_queue_that_got_nothing_is_forgotten() {
    let mut world = World::new();
    world.push("a", named("c"));
    world.push("b", named("c"));
    world.sleep(60_000);
    assert_eq!(world.ask(ListQueues), ["a".into()]);
    assert_eq!(world.state(&id("c")), Some(State::Waiting));
}
