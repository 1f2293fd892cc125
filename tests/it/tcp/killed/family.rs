//! Flows: parents with children under each policy, and what becomes of both.

use serde_json::{Value, json};

use super::jobs;
use super::lane::Lane;
use super::ledger::Facts;
use super::rules::{QUEUED, job, values};

/// What becomes of a parent whose child fails; with the last one it stays blocked.
const POLICIES: [&str; 5] = [
    "failParentOnFailure",
    "continueParentOnFailure",
    "ignoreDependencyOnFailure",
    "removeDependencyOnFailure",
    "",
];

pub fn any(lane: &mut Lane) -> Option<()> {
    let (parents, children) = (lane.queue("p"), lane.queue("c"));
    match lane.dice.below(20) {
        0..=5 => add(lane, &parents, &children),
        6..=9 => jobs::take(lane, &children),
        10..=12 => jobs::complete(lane, &children),
        13..=14 => jobs::fail(lane, &children),
        15 => take_out(lane, &children),
        16 => depend(lane, &parents, &children),
        17 => jobs::take(lane, &parents),
        18 => jobs::complete(lane, &parents),
        _ if lane.dice.below(4) == 0 => jobs::drain(lane, &children),
        _ => jobs::fail(lane, &parents),
    }
}

/// How a job of a flow is to be shown.
fn facts(queue: &str, mark: &str, state: &str) -> Value {
    json!({
        "queue": queue, "state": state, "data": { "mark": mark }, "priority": 0, "attempts": 0,
        "maxAttempts": 1, "backoff": 0, "removeOnComplete": false, "removeOnFail": false,
    })
}

/// A parent with two to four children: all of them or none.
fn add(lane: &mut Lane, parents: &str, children: &str) -> Option<()> {
    let parent = lane.fresh();
    let marks: Vec<String> = (0..lane.dice.of([2, 3, 4])).map(|_| lane.fresh()).collect();
    let mut effects = Facts::new();
    let mut flow = vec![json!({ "id": parent, "queue": parents, "input": {
        "data": { "mark": parent, "__childrenIds": marks }, "maxAttempts": 1, "backoff": 0,
        "dependsOn": marks, "childrenIds": marks,
    } })];
    for mark in &marks {
        let removed = lane.dice.below(3) == 0;
        let policy = lane.dice.of(POLICIES);
        let mut input = json!({
            "data": { "mark": mark, "__parentId": parent, "__parentQueue": parents },
            "parentId": parent, "maxAttempts": 1, "backoff": 0, "removeOnComplete": removed,
        });
        let mut child = facts(children, mark, "waiting");
        child["parentId"] = json!(parent);
        child["removeOnComplete"] = json!(removed);
        if !policy.is_empty() {
            input[policy] = json!(true);
            child[policy] = json!(true);
        }
        flow.push(json!({ "id": mark, "queue": children, "input": input }));
        effects.insert(job(mark), child);
        lane.ids.insert(mark.clone(), mark.clone());
    }
    let mut facts = facts(parents, &parent, "waiting-children");
    facts["childrenIds"] = json!(marks);
    facts["_unmet"] = json!(marks);
    effects.insert(values(&parent), json!({}));
    effects.insert(job(&parent), facts);
    lane.ids.insert(parent.clone(), parent);
    lane.ask(json!({ "cmd": "PUSHF", "jobs": flow }), effects, Vec::new())?;
    Some(())
}

/// A child leaves its family, one way or the other.
fn take_out(lane: &mut Lane, children: &str) -> Option<()> {
    let Some(child) = lane.pick(children, &QUEUED) else {
        return jobs::take(lane, children);
    };
    lane.change(json!({ "cmd": "Cancel", "id": child }), |draft| {
        draft.cancel(&child)
    })?;
    Some(())
}

/// A job that waits for a child, without being its parent.
fn depend(lane: &mut Lane, parents: &str, children: &str) -> Option<()> {
    let Some(done) = lane.pick(children, &["completed"]) else {
        return jobs::complete(lane, children);
    };
    let mark = lane.fresh();
    let facts = facts(parents, &mark, "waiting");
    let command = json!({
        "cmd": "PUSH", "queue": parents, "name": "n", "data": { "mark": mark }, "jobId": mark,
        "maxAttempts": 1, "backoff": 0, "dependsOn": [done],
    });
    let effects = Facts::from([(job(&mark), facts)]);
    lane.ask(command, effects, vec![mark])?;
    Some(())
}
