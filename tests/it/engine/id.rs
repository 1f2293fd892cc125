//! Section 3: ids that clients choose.

use bunqueue_mcp::command::{Ack, GetJobByCustomId};
use bunqueue_mcp::engine::{AddOutcome, Change, JobId, NewJob, State, TokenGiven};

use crate::world::{World, given, id, job, named, payload};

fn by_custom_id(world: &mut World, text: &str) -> Option<JobId> {
    world
        .ask(GetJobByCustomId { id: id(text) })
        .map(|detail| detail.job.id)
}

#[test]
fn id_1_custom_id_becomes_the_id() {
    let mut world = World::new();
    assert_eq!(world.push("q", named("c1")), id("c1"));
    assert_eq!(by_custom_id(&mut world, "c1"), Some(id("c1")));
    let generated = world.push("q", job());
    assert_eq!(
        by_custom_id(&mut world, &generated.text()),
        None,
        "nobody chose that id"
    );
}

#[test]
fn id_2_adding_a_waiting_id_again_changes_nothing() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            data: Some(payload(1)),
            ..named("c1")
        },
    );
    world.events();
    let again = world.add(
        "other",
        NewJob {
            data: Some(payload(2)),
            ..named("c1")
        },
    );
    assert_eq!((again.id, again.outcome), (id("c1"), AddOutcome::Existing));
    assert_eq!(world.detail(&id("c1")).job.data, Some(payload(1)));
    assert_eq!(
        (world.counts("q").total(), world.counts("other").total()),
        (1, 0)
    );
    assert_eq!(world.events(), []);
}

#[test]
fn id_3_adding_an_active_id_again_changes_nothing() {
    let mut world = World::new();
    world.push("q", named("c1"));
    world.pull("q").expect("ready");
    assert_eq!(world.add("q", named("c1")).outcome, AddOutcome::Existing);
    assert_eq!(world.state(&id("c1")), Some(State::Active));
    assert_eq!(world.counts("q").total(), 1);
}

#[test]
fn id_4_completed_id_is_free_and_its_result_goes() {
    let mut world = World::new();
    world.push("q", named("c1"));
    let token = given(world.pull_lock("q", 30_000.0).expect("ready").token);
    world.ask(Ack {
        id: id("c1"),
        token,
        result: Some(payload(7)),
        remove_on_complete: false,
    });
    assert_eq!(world.result(&id("c1")), Some(payload(7)));
    let again = world.add(
        "q",
        NewJob {
            data: Some(payload(2)),
            ..named("c1")
        },
    );
    assert_eq!(again.outcome, AddOutcome::New);
    assert_eq!(world.result(&id("c1")), None);
    let view = world.detail(&id("c1")).job;
    assert_eq!(
        (view.state, view.data, view.completed_at),
        (State::Waiting, Some(payload(2)), None)
    );
    assert_eq!(world.counts("q").total(), 1);
    let late = world
        .try_ack(&id("c1"), token)
        .expect_err("the token is of the old generation");
    assert_eq!(
        late.to_string(),
        "Job not found or not in processing state: c1"
    );
}

#[test]
fn id_6_unknown_id_has_no_state() {
    let mut world = World::new();
    assert_eq!(world.state(&id("nope")), None);
}

#[test]
fn id_7_cancelled_id_is_free() {
    let mut world = World::new();
    world.push(
        "q",
        NewJob {
            data: Some(payload(1)),
            ..named("c")
        },
    );
    assert_eq!(world.cancel(&id("c")), Change::Applied);
    world.push(
        "q",
        NewJob {
            data: Some(payload(2)),
            ..named("c")
        },
    );
    assert_eq!(world.detail(&id("c")).job.data, Some(payload(2)));
    assert_eq!(world.counts("q").total(), 1);
}

#[test]
fn id_8_look_up_by_custom_id_knows_unfinished_jobs_only() {
    let mut world = World::new();
    for end in ["ack", "fail"] {
        world.push(
            "q",
            NewJob {
                max_attempts: 1,
                ..named("c")
            },
        );
        let delivery = world.pull("q").expect("ready");
        assert_eq!(by_custom_id(&mut world, "c"), Some(id("c")));
        if end == "ack" {
            world.ack(&delivery)
        } else {
            world.fail(&delivery, "boom")
        };
        assert_eq!(by_custom_id(&mut world, "c"), None);
        assert!(world.state(&id("c")).is_some());
    }
}

#[test]
fn b_5_live_ids_are_never_forgotten() {
    let mut world = World::new();
    world.nobody_listens();
    let holding = |number, byte| NewJob {
        data: Some(payload(byte)),
        ..named(&format!("c{number}"))
    };
    for batch in 0..3 {
        let numbers = batch * 20_000..(batch + 1) * 20_000;
        world.push_many("q", numbers.map(|number| holding(number, 1)).collect());
    }
    assert_eq!(world.add("q", holding(0, 2)).outcome, AddOutcome::Existing);
    assert_eq!(world.detail(&id("c0")).job.data, Some(payload(1)));
    assert_eq!(world.counts("q").waiting, 60_000);
}

#[test]
fn batch_reports_repeated_ids_in_place() {
    let mut world = World::new();
    let ids = world.push_many("q", vec![named("c"), job(), named("c")]);
    assert_eq!((ids[0].clone(), ids[2].clone()), (id("c"), id("c")));
    assert_eq!(world.counts("q").waiting, 2);
    let ack = world
        .try_ack(&ids[1], TokenGiven::None)
        .expect_err("it was never delivered");
    assert_eq!(
        ack.to_string(),
        format!("Job not found or not in processing state: {}", ids[1])
    );
}
