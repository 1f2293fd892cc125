//! Replies of commands that do something.

use super::*;
use crate::command::Removed;
use crate::engine::{AddOutcome, Added, Change, Refusal as Reason, Renewal, Report, Waited};
use crate::wire::shape::ChangeOf;

#[test]
fn adds_show_ids_and_outcomes_when_asked() {
    let added = |id_text: &str, outcome| Added {
        id: id(id_text),
        outcome,
    };
    let one = || Ok(Reply::Added(added("a", AddOutcome::Existing)));
    assert_eq!(
        shown(&Shape::Push { outcome: false }, one()),
        json!({"ok": true, "id": "a"})
    );
    assert_eq!(
        shown(&Shape::Push { outcome: true }, one()),
        json!({"ok": true, "id": "a", "outcome": "existing"})
    );
    let two = || {
        let replaced = AddOutcome::Replaced(id("old"));
        Ok(Reply::AddedMany(vec![
            added("a", AddOutcome::New),
            added("b", replaced),
        ]))
    };
    assert_eq!(
        shown(&Shape::PushMany { outcome: false }, two()),
        json!({"ok": true, "ids": ["a", "b"]})
    );
    assert_eq!(
        shown(&Shape::PushMany { outcome: true }, two()),
        json!({"ok": true, "ids": ["a", "b"], "outcomes": ["new", "replaced"], "replaced": [null, "old"]})
    );
    let replacing = Ok(Reply::Added(added("a", AddOutcome::Replaced(id("old")))));
    assert_eq!(
        shown(&Shape::Push { outcome: true }, replacing),
        json!({"ok": true, "id": "a", "outcome": "replaced", "replaced": "old"})
    );
    assert_eq!(
        shown(
            &Shape::Push { outcome: true },
            Ok(Reply::Added(added("a", AddOutcome::Unknown)))
        ),
        json!({"ok": true, "id": "a"})
    );
}

#[test]
fn reports_say_whether_they_took_effect() {
    let report = |report| shown(&Shape::Report, Ok(Reply::Reported(report)));
    assert_eq!(report(Report::Applied), json!({"ok": true}));
    assert_eq!(
        report(Report::AlreadyFinalized),
        json!({"ok": true, "data": {"applied": false, "reason": "already-finalized"}})
    );
}

#[test]
fn a_batch_of_reports_lists_those_without_effect() {
    let many = |reports: Vec<Result<Report, CommandError>>| {
        let ids = ["a", "b", "c"].map(id);
        let ids = ids[..reports.len()].to_vec();
        shown(&Shape::ReportMany(ids), Ok(Reply::ReportedMany(reports)))
    };
    let gone = |text: &str| Err(CommandError::Refused(Reason::NotActive(id(text))));
    assert_eq!(many(Vec::new()), json!({"ok": true}));
    assert_eq!(many(vec![Ok(Report::Applied); 3]), json!({"ok": true}));
    assert_eq!(
        many(vec![Ok(Report::Applied), Ok(Report::AlreadyFinalized)]),
        json!({"ok": true, "data": {"ignoredIndices": [1], "ignoredIds": ["b"]}})
    );
    assert_eq!(
        many(vec![
            Ok(Report::AlreadyFinalized),
            gone("b"),
            Ok(Report::Applied)
        ]),
        json!({"ok": true, "data": {"ignoredIndices": [0, 1], "ignoredIds": ["a", "b"],
            "errors": [null, "Job not found or not in processing state: b"]}})
    );
    assert_eq!(
        many(vec![gone("a"), gone("b")]),
        json!({"ok": false, "error": "Job not found or not in processing state: a"})
    );
}

#[test]
fn renewals_are_counted() {
    let renewed =
        |shape: &Shape, renewals: &[Renewal]| shown(shape, Ok(Reply::Renewed(renewals.to_vec())));
    let (good, bad) = (Renewal::Renewed, Renewal::InvalidToken);
    assert_eq!(renewed(&Shape::ExtendLock, &[good]), json!({"ok": true}));
    assert_eq!(
        renewed(&Shape::ExtendLock, &[Renewal::NotFound]),
        json!({"ok": false, "error": "Lock not found or invalid token"})
    );
    assert_eq!(
        renewed(&Shape::ExtendLocks, &[good, bad, good]),
        json!({"ok": true, "count": 2})
    );
    assert_eq!(
        renewed(&Shape::JobHeartbeat, &[good]),
        json!({"ok": true, "data": {"ok": true}})
    );
    assert_eq!(
        renewed(&Shape::JobHeartbeat, &[bad]),
        json!({"ok": false, "error": "Job not found or not active (or invalid token)"})
    );
    assert_eq!(
        renewed(&Shape::JobHeartbeatMany, &[bad, good]),
        json!({"ok": true, "data": {"ok": true, "count": 1}})
    );
}

#[test]
fn each_change_has_its_own_words_for_no() {
    let texts = [
        (
            ChangeOf::Cancel,
            "Job not found or cannot be cancelled",
            "Job not found or cannot be cancelled",
        ),
        (ChangeOf::Discard, "Job not found", "Job not found"),
        (
            ChangeOf::Update,
            "Job not found or cannot be updated",
            "Job not found or cannot be updated",
        ),
        (
            ChangeOf::Priority,
            "Job not found or not in queue",
            "Job not found or not in queue",
        ),
        (
            ChangeOf::Delay,
            "Job not found or cannot change delay",
            "Job not found or cannot change delay",
        ),
        (
            ChangeOf::Promote,
            "Job not found or not delayed",
            "Job not found or not delayed",
        ),
        (
            ChangeOf::MoveToWait,
            "Cannot move job from state 'unknown' to waiting",
            "Cannot move job from state 'completed' to waiting",
        ),
        (
            ChangeOf::MoveToDelayed,
            "Job not found",
            "Job is not active (current state: completed)",
        ),
        (
            ChangeOf::Progress,
            "Job not found",
            "Job is not active (current state: completed)",
        ),
        (ChangeOf::AddLog, "Job not found", "Job not found"),
    ];
    for (of, missing, completed) in texts {
        let change = |change| shown(&Shape::Change(of), Ok(Reply::Changed(change)));
        assert_eq!(
            change(Change::NotFound),
            json!({"ok": false, "error": missing})
        );
        let wrong = Change::WrongState(State::Completed);
        assert_eq!(change(wrong), json!({"ok": false, "error": completed}));
        let success = match of {
            ChangeOf::AddLog => json!({"ok": true, "data": {"added": true}}),
            _ => json!({"ok": true}),
        };
        assert_eq!(change(Change::Applied), success, "{of:?}");
    }
    let moved = |state| {
        let change = Change::WrongState(state);
        let reply = shown(
            &Shape::Change(ChangeOf::MoveToWait),
            Ok(Reply::Changed(change)),
        );
        reply["error"].as_str().unwrap().to_owned()
    };
    assert_eq!(moved(State::Failed), "Failed job not in DLQ");
    assert_eq!(moved(State::Active), "Job not found or not active");
    assert_eq!(
        moved(State::WaitingChildren),
        "Cannot move job from state 'waiting-children' to waiting"
    );
}

#[test]
fn waits_and_results_tell_nothing_from_nil() {
    let waited = |waited| shown(&Shape::WaitJob, Ok(Reply::Waited(waited)));
    let completed = |result| waited(Waited::Completed { result });
    assert_eq!(completed(None), json!({"ok": true, "completed": true}));
    assert_eq!(
        completed(Some(payload(&json!(null)))),
        json!({"ok": true, "completed": true, "result": null})
    );
    assert_eq!(
        waited(Waited::TimedOut),
        json!({"ok": true, "completed": false})
    );
    assert_eq!(
        waited(Waited::NotFound),
        json!({"ok": false, "error": "Job not found"})
    );

    let result =
        |sent: Option<JobId>, result| shown(&Shape::GetResult(sent), Ok(Reply::Result(result)));
    assert_eq!(result(Some(id("a")), None), json!({"ok": true, "id": "a"}));
    assert_eq!(result(None, None), json!({"ok": true}));
    assert_eq!(
        result(Some(id("a")), Some(payload(&json!(null)))),
        json!({"ok": true, "id": "a", "result": null})
    );
    let state = |sent: Option<JobId>, state| shown(&Shape::GetState(sent), Ok(Reply::State(state)));
    assert_eq!(state(None, None), json!({"ok": true, "state": "unknown"}));
    assert_eq!(
        state(Some(id("a")), Some(State::WaitingChildren)),
        json!({"ok": true, "id": "a", "state": "waiting-children"})
    );
}

#[test]
fn the_rest_is_short() {
    let removed = |count, ids: &[&str]| {
        let ids = ids.iter().copied().map(id).collect();
        Ok(Reply::Removed(Removed { count, ids }))
    };
    let names = Reply::Names(vec!["a".into(), "b".into()]);
    let cases = [
        (Shape::Done, Ok(Reply::Done(())), json!({})),
        (Shape::Done, removed(3, &[]), json!({})),
        (Shape::Drain, removed(3, &[]), json!({"count": 3})),
        (
            Shape::Clean,
            removed(1, &["a"]),
            json!({"count": 1, "ids": ["a"]}),
        ),
        (Shape::Counted, Ok(Reply::Counted(2)), json!({"count": 2})),
        (Shape::ListQueues, Ok(names), json!({"queues": ["a", "b"]})),
        (
            Shape::IsPaused,
            Ok(Reply::Flag(true)),
            json!({"paused": true}),
        ),
        (
            Shape::DedupOwner,
            Ok(Reply::Id(None)),
            json!({"data": {"jobId": null}}),
        ),
        (
            Shape::DedupOwner,
            Ok(Reply::Id(Some(id("a")))),
            json!({"data": {"jobId": "a"}}),
        ),
        (
            Shape::DedupKeysRemoved,
            Ok(Reply::Counted(1)),
            json!({"data": {"count": 1}}),
        ),
        (
            Shape::Removed,
            Ok(Reply::Flag(false)),
            json!({"data": {"removed": false}}),
        ),
        (
            Shape::WorkerHeartbeat,
            Ok(Reply::Flag(true)),
            json!({"data": {"ok": true}}),
        ),
        (
            Shape::UnregisterWorker,
            Ok(Reply::Flag(true)),
            json!({"data": {"removed": true}}),
        ),
    ];
    for (shape, answer, payload) in cases {
        assert_eq!(
            shown(&shape, answer),
            with(json!({"ok": true}), payload),
            "{shape:?}"
        );
    }
    for shape in [Shape::WorkerHeartbeat, Shape::UnregisterWorker] {
        let missing = json!({"ok": false, "error": "Worker not found"});
        assert_eq!(shown(&shape, Ok(Reply::Flag(false))), missing);
    }
}
