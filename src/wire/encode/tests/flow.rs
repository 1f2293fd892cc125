//! Flows and ties between jobs: replies.

use super::*;
use crate::engine::ChildFailure;
use crate::wire::shape::Flow;

fn failure(child: &str, error: &str, ignored: bool) -> ChildFailure {
    ChildFailure {
        id: id(child),
        queue: "q".into(),
        error: error.into(),
        ignored,
    }
}

#[test]
fn an_added_flow_shows_its_jobs_as_deliveries_do() {
    let added = || Ok(Reply::FlowAdded(vec![job(), job()]));
    let jobs = json!([job_json(), job_json()]);
    let push = |outcome| Shape::Flow(Flow::Push { outcome });
    assert_eq!(
        shown(&push(false), added()),
        json!({"ok": true, "data": {"jobs": jobs}})
    );
    assert_eq!(
        shown(&push(true), added()),
        json!({"ok": true, "data": {"jobs": jobs}, "outcomes": ["new", "new"]})
    );
    assert_eq!(
        shown(&push(true), Ok(Reply::FlowAdded(Vec::new()))),
        json!({"ok": true, "data": {"jobs": []}, "outcomes": []})
    );
}

#[test]
fn values_of_children_stand_under_queue_and_id() {
    let values = Ok(Reply::ChildrenValues(vec![
        ("q".into(), id("a"), payload(&json!({"r": 1}))),
        ("x:y".into(), id("b"), Payload::new(&[0xc0])),
    ]));
    assert_eq!(
        shown(&Shape::Flow(Flow::ChildrenValues), values),
        json!({"ok": true, "data": {"values": {"q:a": {"r": 1}, "x:y:b": null}}})
    );
    // Byte for byte, whatever they are.
    let odd = Payload::new(&[0x92, 0xd9, 1, b'x', 0xd4, 5, 0]);
    let values = vec![("q".into(), id("a"), odd.clone())];
    let wire = frame(
        &Shape::Flow(Flow::ChildrenValues),
        &Ok(Reply::ChildrenValues(values)),
    );
    assert!(body(&wire).ends_with(odd.bytes()));
}

#[test]
fn failures_of_children_are_told_by_policy() {
    let failures = || {
        let one = failure("a", "first", true);
        Ok(Reply::ChildFailures(vec![
            one,
            failure("b", "second", false),
            failure("c", "", true),
        ]))
    };
    assert_eq!(
        shown(&Shape::Flow(Flow::FailedChildren), failures()),
        json!({"ok": true, "values": {"q:b": "second"}})
    );
    assert_eq!(
        shown(&Shape::Flow(Flow::IgnoredChildren), failures()),
        json!({"ok": true, "values": {"q:a": "first", "q:c": ""}})
    );
    let none = Ok(Reply::ChildFailures(Vec::new()));
    assert_eq!(
        shown(&Shape::Flow(Flow::FailedChildren), none),
        json!({"ok": true, "values": {}})
    );
}

#[test]
fn ties_that_are_made_or_cut_say_little() {
    assert_eq!(
        shown(&Shape::Flow(Flow::ChildRemoved), Ok(Reply::Flag(true))),
        json!({"ok": true, "removed": true})
    );
    assert_eq!(
        shown(&Shape::Flow(Flow::ChildRemoved), Ok(Reply::Flag(false))),
        json!({"ok": true, "removed": false})
    );
    // How many children were removed is nobody's business.
    assert_eq!(
        shown(&Shape::Done, Ok(Reply::Counted(3))),
        json!({"ok": true})
    );
}

/// What no frame can hold is refused in the end, so building all of it would only cost memory.
#[test]
fn a_reply_that_no_frame_can_hold_is_given_up_early() {
    let value = Payload::new(&[&[0xc6, 0, 0x20, 0, 0][..], &[0; 2_097_152]].concat());
    let found = |count: usize| (0..count).map(|n| ("q".into(), id(&n.to_string()), value.clone()));
    let job = JobView {
        data: Some(value.clone()),
        ..job()
    };
    let replies = [
        (
            Shape::Flow(Flow::ChildrenValues),
            Reply::ChildrenValues(found(200).collect()),
        ),
        (
            Shape::Flow(Flow::Push { outcome: false }),
            Reply::FlowAdded(vec![job; 200]),
        ),
    ];
    for (shape, reply) in replies {
        let mut out = Vec::new();
        assert!(!reply::answer(
            &mut out,
            &ReqId::NONE,
            &shape,
            &Ok(reply),
            &Around
        ));
        assert!(out.capacity() < 200_000_000, "{shape:?}");
    }
}
