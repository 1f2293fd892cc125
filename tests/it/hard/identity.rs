//! Identity and deduplication.

use bunqueue_mcp::command::{GetDedupOwner, GetJob};
use bunqueue_mcp::engine::{AddOutcome, Change, NewJob, State, TokenGiven};

use crate::world::{World, id, job, keyed, named, payload, queue, with};

#[test]
fn hard_i1_same_id_three_lives() {
    let mut world = World::new();
    let add = |world: &mut World, data| {
        world.add(
            "q",
            NewJob {
                data: Some(payload(data)),
                ..named("x")
            },
        )
    };
    let first = add(&mut world, 1);
    assert_eq!((first.id, first.outcome), (id("x"), AddOutcome::New));
    for state in [State::Waiting, State::Active] {
        assert_eq!(world.state(&id("x")), Some(state));
        let again = add(&mut world, 2);
        assert_eq!((again.id, again.outcome), (id("x"), AddOutcome::Existing));
        assert_eq!(world.detail(&id("x")).job.data, Some(payload(1)));
        if state == State::Waiting {
            world.pull("q").expect("ready");
        }
    }
    world
        .try_ack(&id("x"), TokenGiven::None)
        .expect("it is active");
    assert_eq!(add(&mut world, 3).outcome, AddOutcome::New);
    assert_eq!(
        world.pull("q").expect("delivered").job.data,
        Some(payload(3))
    );
    // The same for keys.
    let first = world.push("k", keyed(job(), "k"));
    let again = world.add("k", keyed(job(), "k"));
    assert_eq!(
        (again.id, again.outcome),
        (first.clone(), AddOutcome::Existing)
    );
    let replacing = with(keyed(job(), "k"), |options| options.dedup.replace = true);
    assert_eq!(
        world.add("k", replacing).outcome,
        AddOutcome::Replaced(first)
    );
}

#[test]
fn hard_i2_back_from_the_dead_letter_queue() {
    let failed = || {
        let mut world = World::new();
        world.push(
            "q",
            keyed(
                NewJob {
                    max_attempts: 1,
                    data: Some(payload(1)),
                    ..named("x")
                },
                "k",
            ),
        );
        let delivery = world.pull("q").expect("ready");
        world.fail(&delivery, "boom");
        world
    };
    let mut world = failed();
    let again = world.add(
        "q",
        NewJob {
            data: Some(payload(2)),
            ..named("x")
        },
    );
    assert_eq!(again.outcome, AddOutcome::New);
    assert_eq!(world.detail(&id("x")).job.data, Some(payload(2)));
    assert_eq!(world.counts("q").total(), 1);
    // Retried first, it is the same job again, and its key is owned again.
    let mut world = failed();
    let owner = |world: &mut World| {
        world.ask(GetDedupOwner {
            queue: queue("q"),
            key: "k".into(),
        })
    };
    assert_eq!(owner(&mut world), None);
    assert_eq!(world.move_to_wait(&id("x"), None), Change::Applied);
    assert_eq!(owner(&mut world), Some(id("x")));
    assert_eq!(world.add("q", named("x")).outcome, AddOutcome::Existing);
    assert_eq!(world.add("q", keyed(job(), "k")).id, id("x"));
    assert_eq!(world.counts("q").total(), 1);
    // A retry that would give one key two owners is refused.
    let mut world = failed();
    let rival = world.push("q", keyed(job(), "k"));
    assert_eq!(
        world.move_to_wait(&id("x"), None),
        Change::WrongState(State::Failed)
    );
    assert_eq!(
        (world.state(&id("x")), owner(&mut world)),
        (Some(State::Failed), Some(rival))
    );
}

#[test]
fn hard_i3_digits_as_ids() {
    let mut world = World::new();
    let mut ids = Vec::new();
    for number in 1..=50 {
        ids.push(world.push("q", named(&number.to_string())));
        ids.push(world.push("q", job()));
    }
    for id in &ids {
        assert_eq!(world.detail(id).job.id, *id);
    }
    let mut texts = world.pull_all("q");
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 100);
}

#[test]
fn hard_i4_ids_that_look_alike() {
    let long = "x".repeat(1_023);
    let alike = [
        "\u{e9}".to_owned(),
        "e\u{301}".to_owned(),
        "a".to_owned(),
        "a ".to_owned(),
        "A".to_owned(),
        format!("{long}1"),
        format!("{long}2"),
        "0190a0b0-1234-7abc-8def-0123456789ab".to_owned(),
        "0190A0B0-1234-7ABC-8DEF-0123456789AB".to_owned(),
        "0190a0b012347abc8def0123456789ab".to_owned(),
    ];
    let mut world = World::new();
    for (number, text) in (0..).zip(&alike) {
        let added = world.add(
            "q",
            NewJob {
                data: Some(payload(number)),
                ..named(text)
            },
        );
        assert_eq!(
            (added.id.text(), added.outcome),
            (text.as_str().into(), AddOutcome::New)
        );
    }
    for (number, text) in (0..).zip(&alike) {
        let detail = world.ask(GetJob { id: id(text) }).expect("it exists");
        assert_eq!(
            (detail.job.id.text(), detail.job.data),
            (text.as_str().into(), Some(payload(number)))
        );
    }
}
