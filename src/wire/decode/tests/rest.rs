//! Pulls, changes, questions, workers and the connection itself.

use std::sync::Arc;

use super::*;
use crate::command::Clean;
use crate::engine::{Bucket, CleanState, State};
use crate::wire::shape::ChangeOf;

#[test]
fn pulls_take_their_arguments() {
    let frame = json!({"cmd": "PULLB", "queue": "q", "count": 3, "timeout": 5000, "owner": "w", "lockTtl": 700});
    let expected = Pull {
        queue: QueueName::lenient("q"),
        count: 3,
        wait: 5_000,
        locked: true,
        lock_ttl: 700.0,
        detach: false,
        group: None,
    };
    let shape = Shape::PullMany { owned: true };
    assert_eq!(command(&frame), (expected.into(), shape));

    let bare =
        pull(&json!({"cmd": "PULL", "queue": "q", "owner": "", "lockTtl": null, "group": {}}));
    assert_eq!((bare.count, bare.wait, bare.locked), (1, 0, false));
    assert_eq!(bare.lock_ttl, 30_000.0);
    assert!(pull(&json!({"cmd": "PULL", "queue": "q", "detach": true})).detach);
    assert!(!pull(&json!({"cmd": "PULL", "queue": "q", "detach": true, "owner": "w"})).detach);

    for count in [json!(null), Json::Null] {
        let frame = json!({"cmd": "PULLB", "queue": "q", "owner": "w", "count": count});
        let shape = Shape::PullMany { owned: true };
        assert_eq!(
            decode(&frame),
            Action::Answered(Reply::Pulled(Vec::new()), shape)
        );
    }
}

#[test]
fn hard_w6_long_waits_end_a_little_early() {
    for (timeout, wait) in [
        (9_999, 9_999),
        (10_000, 9_750),
        (30_000, 29_750),
        (60_000, 59_750),
    ] {
        let frame = json!({"cmd": "PULL", "queue": "q", "timeout": timeout});
        assert_eq!(pull(&frame).wait, wait);
    }
}

#[test]
fn faults_of_a_pull_have_their_exact_texts() {
    let cases = [
        (json!({"timeout": -1}), "timeout must be at least 0"),
        (json!({"timeout": 60001}), "timeout must be at most 60000"),
        (
            json!({"timeout": 60_000.000_1}),
            "timeout must be at most 60000",
        ),
        (json!({"timeout": "5"}), "timeout must be a number"),
        (json!({"group": 5}), "group must be an object"),
        (
            json!({"group": {"concurrency": 0}}),
            "group.concurrency must be a positive safe integer",
        ),
        (
            json!({"group": {"limit": 5}}),
            "group.limit must be an object",
        ),
        (
            json!({"group": {"limit": {"max": 0, "duration": 1}}}),
            "group.limit.max must be a positive safe integer",
        ),
        (
            json!({"group": {"limit": {"max": 1}}}),
            "group.limit.duration must be a positive safe integer",
        ),
        (
            json!({"group": {"affinity": 5}}),
            "group.affinity must be a string or null",
        ),
        (json!({"count": 0}), "count must be at least 1"),
        (json!({"count": 1001}), "count must be at most 1000"),
        (json!({"count": "3"}), "count must be a number"),
        (json!({"lockTtl": "5"}), "lockTtl must be a number"),
    ];
    for (fields, text) in cases {
        let mut frame = json!({"cmd": "PULLB", "queue": "q", "count": 1});
        frame
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        assert_eq!(refused(&frame), text, "{fields}");
    }
    let infinite = with_raw(
        &json!({"cmd": "PULL", "queue": "q"}),
        "lockTtl",
        &[0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0],
    );
    assert_eq!(
        decode_body(&infinite),
        Action::Refused(ArgumentError::NotFinite("lockTtl").into())
    );
}

#[test]
fn numbers_may_come_in_any_encoding() {
    let pull = json!({"cmd": "PULLB", "queue": "q"});
    for three in [
        &[0x03][..],
        &[0xcc, 3],
        &[0xcd, 0, 3],
        &[0xd0, 3],
        &[0xcf, 0, 0, 0, 0, 0, 0, 0, 3],
        &[0xd3, 0, 0, 0, 0, 0, 0, 0, 3],
        &[0xca, 0x40, 0x40, 0, 0],
        &[0xcb, 0x40, 0x08, 0, 0, 0, 0, 0, 0],
    ] {
        match decode_body(&with_raw(&pull, "count", three)) {
            Action::Command(Command::Pull(pull), _) => assert_eq!(pull.count, 3),
            action => panic!("{three:x?}: {action:?}"),
        }
    }
    let huge = with_raw(
        &pull,
        "count",
        &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    );
    assert_eq!(
        decode_body(&huge),
        Action::Refused(ArgumentError::NotNumber("count").into())
    );
}

#[test]
fn changes_check_their_numbers() {
    let cases = [
        (
            json!({"cmd": "ChangePriority", "id": "j", "priority": "x"}),
            "priority must be a number",
        ),
        (
            json!({"cmd": "ChangeDelay", "id": "j"}),
            "delay is required",
        ),
        (
            json!({"cmd": "ChangeDelay", "id": "j", "delay": null}),
            "delay is required",
        ),
        (
            json!({"cmd": "MoveToDelayed", "id": "j", "delay": "5"}),
            "delay must be a number",
        ),
        (
            json!({"cmd": "ClearLogs", "id": "j", "keepLogs": "x"}),
            "keepLogs must be a number",
        ),
        (
            json!({"cmd": "PromoteJobs", "queue": "q", "count": "x"}),
            "count must be a number",
        ),
        (
            json!({"cmd": "WaitJob", "id": "j", "timeout": -1}),
            "timeout must be at least 0",
        ),
        (
            json!({"cmd": "WaitJob", "id": "j", "timeout": 600_001}),
            "timeout must be at most 600000",
        ),
        (
            json!({"cmd": "WaitJob", "id": "j", "timeout": "x"}),
            "timeout must be a number",
        ),
        (json!({"cmd": "Clean", "queue": "q"}), "grace is required"),
        (
            json!({"cmd": "Clean", "queue": "q", "grace": "x"}),
            "grace must be a number",
        ),
    ];
    for (frame, text) in cases {
        assert_eq!(refused(&frame), text, "{frame}");
    }
    match command(&json!({"cmd": "ChangePriority", "id": "j", "lifo": 1})).0 {
        Command::ChangePriority(change) => {
            assert_eq!((change.priority, change.lifo), (0.0, Some(true)));
        }
        command => panic!("{command:?}"),
    }
    match command(&json!({"cmd": "ClearLogs", "id": "j", "keepLogs": 2.9})).0 {
        Command::ClearLogs(clear) => assert_eq!(clear.keep, 2),
        command => panic!("{command:?}"),
    }
    match command(&json!({"cmd": "PromoteJobs", "queue": "q", "count": -1})).0 {
        Command::PromoteMany(promote) => assert_eq!(promote.count, Some(0)),
        command => panic!("{command:?}"),
    }
}

#[test]
fn cleaning_nothing_needs_no_broker() {
    let clean = |fields: Json| {
        let mut frame = json!({"cmd": "Clean", "queue": "q", "grace": 0});
        frame
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        match decode(&frame) {
            Action::Command(Command::Clean(Clean { state, limit, .. }), _) => Some((state, limit)),
            Action::Answered(Reply::Removed(removed), Shape::Clean) => {
                assert_eq!(removed.count, 0);
                None
            }
            action => panic!("{action:?}"),
        }
    };
    let bucket = |state| CleanState::Bucket(Bucket::State(state));
    assert_eq!(clean(json!({})), Some((CleanState::Queued, 1_000)));
    assert_eq!(
        clean(json!({"state": "wait"})),
        Some((bucket(State::Waiting), 1_000))
    );
    assert_eq!(
        clean(json!({"state": "failed", "limit": 2.9})),
        Some((bucket(State::Failed), 2))
    );
    let paused = CleanState::Bucket(Bucket::Paused);
    assert_eq!(clean(json!({"state": "paused"})), Some((paused, 1_000)));
    for nothing in [
        json!({"limit": 0}),
        json!({"limit": -1}),
        json!({"limit": "5"}),
        json!({"state": "x"}),
    ] {
        assert_eq!(clean(nothing.clone()), None, "{nothing}");
    }
}

#[test]
fn listings_take_known_states() {
    let listing = |fields: Json| {
        let mut frame = json!({"cmd": "GetJobs", "queue": "q"});
        frame
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        match command(&frame) {
            (Command::GetJobs(jobs), Shape::GetJobs { only }) => (jobs.listing, only),
            other => panic!("{other:?}"),
        }
    };
    let (all, only) = listing(json!({}));
    assert_eq!(
        (all.buckets.len(), all.offset, all.limit, all.ascending),
        (0, 0, 100, true)
    );
    assert_eq!(only, None);
    let (empty, _) = listing(json!({"state": [], "asc": false, "offset": 5, "limit": 7}));
    assert_eq!(
        (
            empty.buckets.len(),
            empty.offset,
            empty.limit,
            empty.ascending
        ),
        (0, 5, 7, false)
    );
    let (one, only) = listing(json!({"state": "paused"}));
    assert_eq!(
        (one.buckets, only),
        (vec![Bucket::Paused], Some(Bucket::Paused))
    );
    let (two, only) = listing(json!({"state": ["waiting", "nope", "failed", "waiting"]}));
    assert_eq!(
        two.buckets,
        [State::Waiting, State::Failed].map(Bucket::State)
    );
    assert_eq!(only, None);
    for unknown in [json!("nope"), json!(["nope"]), json!(5)] {
        assert_eq!(listing(json!({"state": unknown})).0.limit, 0);
    }
}

#[test]
fn absent_ids_are_ids_that_no_job_has() {
    for (cmd, shape) in [
        ("GetState", Shape::GetState(None)),
        ("GetResult", Shape::GetResult(None)),
        ("GetJob", Shape::GetJob),
        ("GetProgress", Shape::GetProgress),
        ("Cancel", Shape::Change(ChangeOf::Cancel)),
        ("Promote", Shape::Change(ChangeOf::Promote)),
        ("AddLog", Shape::Change(ChangeOf::AddLog)),
        ("WaitJob", Shape::WaitJob),
        ("ACK", Shape::Report),
        ("FAIL", Shape::Report),
    ] {
        assert_eq!(command(&json!({"cmd": cmd})).1, shape, "{cmd}");
    }
}

#[test]
fn a_worker_registers_with_a_name_and_queues_alone() {
    let frame = json!({"cmd": "RegisterWorker", "name": "beta", "queues": ["q1"]});
    match command(&frame).0 {
        Command::RegisterWorker(register) => {
            let worker = register.worker;
            assert_eq!((worker.id, worker.started_at), (None, None));
            assert_eq!((worker.concurrency, worker.pid), (None, None));
            assert_eq!((&*worker.name, worker.hostname), ("beta", None));
            assert_eq!(worker.queues, ["q1".into()]);
        }
        command => panic!("{command:?}"),
    }
    assert_eq!(
        refused(&json!({"cmd": "RegisterWorker", "queues": []})),
        "name is required"
    );
    assert_eq!(
        refused(&json!({"cmd": "RegisterWorker", "name": "n"})),
        "queues must be an array"
    );
}

#[test]
fn subscriptions_are_checked() {
    let event_types = "eventTypes must be an array of 1 to 32 event names";
    let cases = [
        (json!({}), "Queue name is required"),
        (
            json!({"queue": "bad name"}),
            "Queue name contains invalid characters",
        ),
        (json!({"queue": "q", "eventTypes": []}), event_types),
        (
            json!({"queue": "q", "eventTypes": vec!["x"; 33]}),
            event_types,
        ),
        (
            json!({"queue": "q", "eventTypes": "completed"}),
            event_types,
        ),
        (json!({"queue": "q", "eventTypes": [5]}), event_types),
    ];
    for (mut frame, text) in cases {
        frame["cmd"] = json!("SubscribeEvents");
        assert_eq!(refused(&frame), text);
    }
    let subscribe = |types: Json| match decode(
        &json!({"cmd": "SubscribeEvents", "queue": "q", "eventTypes": types}),
    ) {
        Action::Session(SessionAction::Subscribe { queue, types }) => {
            assert_eq!(queue.as_str(), "q");
            types
        }
        action => panic!("{action:?}"),
    };
    assert_eq!(subscribe(json!(null)), EventTypes::ALL);
    // A name that no event has matches none, so nothing of it stays.
    let completed = EventTypes::named(["completed"]);
    let unknown = "x".repeat(100_000);
    assert_eq!(
        subscribe(json!(["completed", "no-such", unknown])),
        completed
    );
}

#[test]
fn unknown_commands_are_named() {
    let unknown = |cmd: Json| match decode(&json!({"cmd": cmd})) {
        Action::Unknown(text) => text,
        action => panic!("{action:?}"),
    };
    assert_eq!(
        unknown(json!("NoSuchCommand")),
        "Unknown command: NoSuchCommand"
    );
    assert_eq!(unknown(json!("ping")), "Unknown command: ping");
    assert_eq!(unknown(json!("dlq")), "Unknown command: dlq");
    assert_eq!(unknown(json!(5)), "Unknown command: 5");
    assert_eq!(unknown(json!(true)), "Unknown command: true");
    assert_eq!(
        unknown(json!("é".repeat(500))).chars().count(),
        "Unknown command: ".len() + 100
    );
    assert_eq!(unknown(json!([1])), "Invalid command");
}

#[test]
fn the_queue_of_the_last_request_is_shared() {
    let mut decoder = Decoder::default();
    let mut pull = |queue: &str| {
        let frame = bytes(&json!({"cmd": "PULLB", "queue": queue, "owner": "w", "count": 1}));
        match decoder.decode(&Envelope::read(&frame).unwrap()) {
            Action::Command(Command::Pull(pull), _) => pull.queue.shared(),
            action => panic!("{action:?}"),
        }
    };
    let first = pull("q");
    let again = pull("q");
    assert!(Arc::ptr_eq(&first, &again));
    assert_eq!(&*pull("q2"), "q2");
}

/// Who works on a job is of no use here, so however it is said nothing of it stays.
#[test]
fn an_owner_locks_whatever_it_is_called() {
    let locked = |owner: Json| pull(&json!({"cmd": "PULL", "queue": "q", "owner": owner})).locked;
    for nobody in [json!(null), json!(""), json!(0), json!(false)] {
        assert!(!locked(nobody.clone()), "{nobody}");
    }
    for somebody in [
        json!("w"),
        json!(7),
        json!([]),
        json!({"a": 1}),
        json!("w".repeat(100_000)),
    ] {
        assert!(locked(somebody.clone()));
    }
    let frame = with_raw(
        &json!({"cmd": "PULL", "queue": "q"}),
        "owner",
        &[0xa1, 0xff],
    );
    match decode_body(&frame) {
        Action::Refused(error) => assert_eq!(error.to_string(), "owner must be a string"),
        action => panic!("{action:?}"),
    }
}
