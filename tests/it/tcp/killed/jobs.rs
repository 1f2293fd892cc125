//! Everything that is asked of single jobs, of batches of them, and of the queue they are in.

use serde_json::{Value, json};

use super::lane::Lane;
use super::ledger::{Facts, Thing};
use super::rules::{LONG, QUEUED, READY, dead, job, log, ready};

/// A delay that may be over by the time anybody looks.
const SHORT: u64 = 10;
const KEYS: u64 = 4;

/// One of the commands, or a pull where there is nothing for it to do.
pub fn any(lane: &mut Lane) -> Option<()> {
    let queue = lane.queue("w");
    match lane.dice.below(40) {
        0..=5 => add(lane, &queue),
        6..=7 => add_many(lane, &queue),
        8 => add_repeated(lane, &queue),
        9..=11 => add_keyed(lane, &queue),
        12 => add_again(lane, &queue),
        13..=17 => take(lane, &queue),
        18..=21 => complete(lane, &queue),
        22 => complete_many(lane, &queue),
        23..=25 => fail(lane, &queue),
        26 => move_active(lane, &queue),
        27..=28 => move_queued(lane, &queue),
        29..=31 => edit(lane, &queue),
        32..=33 => note(lane, &queue),
        34 => renew(lane, &queue),
        35 => drop_one(lane, &queue),
        36..=37 => revive(lane, &queue),
        38 => sweep(lane, &queue),
        _ => sweep_all(lane, &queue),
    }
}

/// What is wished of a new job, and how it is to be shown.
fn wishes(lane: &mut Lane, queue: &str, mark: &str) -> (Value, Value) {
    let dice = &mut lane.dice;
    let priority = dice.of([0, 0, 0, 5]);
    let delay = dice.of([0, 0, 0, LONG, SHORT]);
    let mut wishes = json!({
        "name": dice.of(["mail", "report"]),
        "data": { "mark": mark, "n": dice.below(1_000) },
        "priority": priority,
        "maxAttempts": dice.of([1, 2, 3]),
        "backoff": dice.of([0, LONG]),
        "lifo": dice.below(4) == 0,
        "removeOnComplete": dice.below(6) == 0,
        "removeOnFail": dice.below(6) == 0,
        "durable": dice.below(8) == 0,
        "tags": [mark],
    });
    if dice.below(5) == 0 {
        wishes["groupId"] = json!(dice.of(["g", "h"]));
    }
    let mut facts = wishes.clone();
    let ready = ready(&json!(priority));
    facts["state"] = match delay {
        0 => ready.into(),
        SHORT => format!("delayed|{ready}").into(),
        _ => "delayed".into(),
    };
    facts["queue"] = json!(queue);
    facts["attempts"] = json!(0);
    facts["progress"] = json!(0);
    wishes["delay"] = json!(delay);
    (wishes, facts)
}

/// The command that adds one job with these wishes.
fn push(queue: &str, mut wishes: Value) -> Value {
    wishes["cmd"] = json!("PUSH");
    wishes["queue"] = json!(queue);
    wishes
}

fn add(lane: &mut Lane, queue: &str) -> Option<()> {
    let mark = lane.fresh();
    let (mut wishes, facts) = wishes(lane, queue, &mark);
    if lane.dice.below(2) == 0 {
        wishes["jobId"] = json!(mark);
    }
    let effects = Facts::from([(job(&mark), facts)]);
    lane.ask(push(queue, wishes), effects, vec![mark])?;
    Some(())
}

fn add_many(lane: &mut Lane, queue: &str) -> Option<()> {
    let (mut inputs, mut effects, mut marks) = (Vec::new(), Facts::new(), Vec::new());
    for _ in 0..lane.dice.of([2, 5, 12]) {
        let mark = lane.fresh();
        let (wishes, facts) = wishes(lane, queue, &mark);
        inputs.push(wishes);
        effects.insert(job(&mark), facts);
        marks.push(mark);
    }
    let command = json!({ "cmd": "PUSHB", "queue": queue, "jobs": inputs });
    lane.ask(command, effects, marks)?;
    Some(())
}

/// A job that brings another one when it is done.
fn add_repeated(lane: &mut Lane, queue: &str) -> Option<()> {
    let mark = lane.fresh();
    let (mut wishes, mut facts) = wishes(lane, queue, &mark);
    wishes["repeat"] = json!({ "every": LONG, "limit": 2 });
    facts["repeat"] = json!({ "every": LONG, "count": 0 });
    let effects = Facts::from([(job(&mark), facts)]);
    lane.ask(push(queue, wishes), effects, vec![mark])?;
    Some(())
}

/// A job with a key, which somebody may own.
fn add_keyed(lane: &mut Lane, queue: &str) -> Option<()> {
    let name = format!("k{}", lane.dice.below(KEYS));
    let key = Thing::Key(queue.to_owned(), name.clone());
    if lane.dice.below(8) == 0 {
        let command =
            json!({ "cmd": "RemoveDeduplicationKey", "queue": queue, "deduplicationId": name });
        lane.change(command, |draft| draft.remove(key))?;
        return Some(());
    }
    let mark = lane.fresh();
    let (mut wishes, mut facts) = wishes(lane, queue, &mark);
    // Its id is its mark, so that it is known who owns the key.
    wishes["jobId"] = json!(mark);
    wishes["uniqueKey"] = json!(name);
    facts["uniqueKey"] = json!(name);
    let policy = lane.dice.below(3);
    wishes["dedup"] = [
        json!({}),
        json!({ "ttl": LONG, "extend": true }),
        json!({ "replace": true }),
    ][policy as usize]
        .clone();
    let mut draft = lane.ledger.draft();
    let owner = draft.get(&key)["mark"].as_str().map(str::to_owned);
    let is_replaced = policy == 2;
    if owner.is_none() || is_replaced {
        if let Some(owner) = &owner
            && draft.get(&job(owner))["state"] != "active"
        {
            draft.cancel(owner);
        }
        draft.patch(job(&mark), facts);
        draft.changed.insert(key, json!({ "mark": mark }));
    }
    let effects = draft.changed;
    let name = if is_replaced {
        mark
    } else {
        owner.unwrap_or(mark)
    };
    lane.ask(push(queue, wishes), effects, vec![name])?;
    Some(())
}

/// A new job under the id of one that has ended.
fn add_again(lane: &mut Lane, queue: &str) -> Option<()> {
    let Some(old) = lane.pick(queue, &["completed", "failed"]) else {
        return take(lane, queue);
    };
    let (id, mark) = (lane.id(&old).to_owned(), lane.fresh());
    // An id that the broker has given is none that a client could give.
    if !id.starts_with(&lane.name) {
        return take(lane, queue);
    }
    let (mut wishes, facts) = wishes(lane, queue, &mark);
    wishes["jobId"] = json!(id);
    let mut draft = lane.ledger.draft();
    draft.forget(&old);
    draft.patch(job(&mark), facts);
    let effects = draft.changed;
    lane.ask(push(queue, wishes), effects, vec![mark])?;
    Some(())
}

/// The mark of a job that the broker shows; each repetition has one of its own.
pub fn mark_of(job: &Value) -> String {
    let mark = job["data"]["mark"].as_str().expect("a job of this test");
    match job["repeat"]["count"].as_u64().unwrap_or_default() {
        0 => mark.to_owned(),
        count => format!("{mark}#{count}"),
    }
}

/// Pulls some jobs, and holds them.
pub fn take(lane: &mut Lane, queue: &str) -> Option<()> {
    let count = lane.dice.of([1, 3, 6]);
    let mut perhaps = lane.ledger.draft();
    for (thing, facts) in lane.ledger.all() {
        let state = facts["state"].as_str().unwrap_or_default();
        let is_ready = state.split('|').any(|state| READY.contains(&state));
        if matches!(thing, Thing::Job(_)) && facts["queue"] == queue && is_ready {
            let either = format!("{state}|active");
            perhaps.patch(thing.clone(), json!({ "state": either }));
        }
    }
    let perhaps = perhaps.changed;
    let (_, reply) = lane.pull(queue, count, perhaps)?;
    let mut draft = lane.ledger.draft();
    let jobs = reply["jobs"].as_array().unwrap();
    for (pulled, token) in jobs.iter().zip(reply["tokens"].as_array().unwrap()) {
        let mark = mark_of(pulled);
        let state = draft.get(&job(&mark))["state"]
            .as_str()
            .unwrap_or("unknown");
        assert!(
            state.split('|').any(|state| READY.contains(&state)),
            "{mark} is {state} and was handed out"
        );
        draft.patch(job(&mark), json!({ "state": "active" }));
        let id = pulled["id"].as_str().unwrap().to_owned();
        lane.ids.insert(mark.clone(), id);
        lane.tokens.insert(mark, token.clone());
    }
    let effects = draft.changed;
    lane.ledger.close(effects);
    Some(())
}

/// A job that is held, with its token, which is forgotten: nobody else shall use it.
fn held(lane: &mut Lane, queue: &str) -> Option<(String, Value)> {
    let held = lane.jobs(queue, &["active"]);
    let held = held
        .into_iter()
        .filter(|mark| lane.tokens.contains_key(mark));
    let held: Vec<String> = held.collect();
    let choice = lane.dice.below(held.len().max(1) as u64) as usize;
    let mark = held.get(choice)?.clone();
    let token = lane.tokens.remove(&mark)?;
    Some((mark, token))
}

pub fn complete(lane: &mut Lane, queue: &str) -> Option<()> {
    let Some((mark, token)) = held(lane, queue) else {
        return take(lane, queue);
    };
    let result = json!({ "r": mark });
    let id = lane.id(&mark);
    let command = json!({ "cmd": "ACK", "id": id, "token": token, "result": result });
    lane.change(command, |draft| draft.complete(&mark, &result))?;
    Some(())
}

fn complete_many(lane: &mut Lane, queue: &str) -> Option<()> {
    let ended: Vec<_> = (0..4).map_while(|_| held(lane, queue)).collect();
    if ended.is_empty() {
        return take(lane, queue);
    }
    let ids: Vec<&str> = ended.iter().map(|(mark, _)| lane.id(mark)).collect();
    let tokens: Vec<&Value> = ended.iter().map(|(_, token)| token).collect();
    let results: Vec<&String> = ended.iter().map(|(mark, _)| mark).collect();
    let command = json!({ "cmd": "ACKB", "ids": ids, "tokens": tokens, "results": results });
    lane.change(command, |draft| {
        for (mark, _) in &ended {
            draft.complete(mark, &json!(mark));
        }
    })?;
    Some(())
}

pub fn fail(lane: &mut Lane, queue: &str) -> Option<()> {
    let Some((mark, token)) = held(lane, queue) else {
        return take(lane, queue);
    };
    let error = format!("no {}", lane.dice.below(100));
    let for_good = lane.dice.below(4) == 0;
    let id = lane.id(&mark);
    let command = json!({
        "cmd": "FAIL", "id": id, "token": token, "error": error, "unrecoverable": for_good,
    });
    lane.change(command, |draft| draft.fail(&mark, &error, for_good))?;
    Some(())
}

fn move_active(lane: &mut Lane, queue: &str) -> Option<()> {
    let Some((mark, token)) = held(lane, queue) else {
        return take(lane, queue);
    };
    let is_delayed = lane.dice.below(2) == 0;
    let id = lane.id(&mark);
    if is_delayed {
        let command = json!({ "cmd": "MoveToDelayed", "id": id, "token": token, "delay": LONG });
        lane.change(command, |draft| {
            draft.patch(job(&mark), json!({ "state": "delayed" }));
        })?;
    } else {
        let command = json!({ "cmd": "MoveToWait", "id": id, "token": token });
        lane.change(command, |draft| draft.make_ready(&mark))?;
    }
    Some(())
}

fn move_queued(lane: &mut Lane, queue: &str) -> Option<()> {
    if lane.dice.below(8) == 0 {
        let delayed: Vec<_> = lane.jobs(queue, &QUEUED);
        let command = json!({ "cmd": "PromoteJobs", "queue": queue });
        lane.change(command, |draft| {
            delayed.iter().for_each(|mark| draft.make_ready(mark));
        })?;
        return Some(());
    }
    let promotes = lane.dice.below(3) == 0;
    let states: &[&str] = if promotes { &["delayed"] } else { &QUEUED };
    let Some(mark) = lane.pick(queue, states) else {
        return take(lane, queue);
    };
    let delay = lane.dice.of([0, LONG]);
    let id = lane.id(&mark);
    let command = match promotes {
        true => json!({ "cmd": "Promote", "id": id }),
        false => json!({ "cmd": "ChangeDelay", "id": id, "delay": delay }),
    };
    lane.change(command, |draft| match promotes || delay == 0 {
        true => draft.make_ready(&mark),
        false => draft.patch(job(&mark), json!({ "state": "delayed" })),
    })?;
    Some(())
}

fn edit(lane: &mut Lane, queue: &str) -> Option<()> {
    let Some(mark) = lane.pick(queue, &["waiting", "prioritized", "delayed"]) else {
        return take(lane, queue);
    };
    let (id, number) = (lane.id(&mark).to_owned(), lane.dice.below(1_000));
    if lane.dice.below(2) == 0 || lane.facts(&mark)["groupId"].is_string() {
        let (root, _) = mark.split_once('#').unwrap_or((&mark, ""));
        let data = json!({ "mark": root, "n": number });
        let command = json!({ "cmd": "Update", "id": id, "data": data });
        lane.change(command, |draft| {
            draft.patch(job(&mark), json!({ "data": data }))
        })?;
    } else {
        let priority = number % 3;
        let command = json!({ "cmd": "ChangePriority", "id": id, "priority": priority });
        lane.change(command, |draft| draft.prioritize(&mark, priority))?;
    }
    Some(())
}

/// Progress, and lines in the log.
fn note(lane: &mut Lane, queue: &str) -> Option<()> {
    let number = lane.dice.below(100);
    if number < 30
        && let Some(mark) = lane.pick(queue, &["active"])
    {
        let command = json!({ "cmd": "Progress", "id": lane.id(&mark), "progress": number });
        lane.change(command, |draft| {
            draft.patch(job(&mark), json!({ "progress": number }));
        })?;
        return Some(());
    }
    let states = [
        "waiting",
        "prioritized",
        "delayed",
        "active",
        "completed",
        "failed",
    ];
    let Some(mark) = lane.pick(queue, &states) else {
        return take(lane, queue);
    };
    let id = lane.id(&mark);
    let line = format!("line {number}");
    let (command, lines) = if number < 40 {
        (json!({ "cmd": "ClearLogs", "id": id }), Value::Null)
    } else {
        let mut lines = lane.ledger.latest(&log(&mark)).clone();
        match lines.as_array_mut() {
            Some(lines) => lines.push(json!(line)),
            None => lines = json!([line]),
        }
        (json!({ "cmd": "AddLog", "id": id, "message": line }), lines)
    };
    lane.change(command, |draft| draft.patch(log(&mark), lines))?;
    Some(())
}

/// A lock is held for longer; nobody sees it.
fn renew(lane: &mut Lane, queue: &str) -> Option<()> {
    let Some((mark, token)) = held(lane, queue) else {
        return take(lane, queue);
    };
    let kind = lane.dice.below(2);
    let id = lane.id(&mark);
    let command = match kind {
        0 => json!({ "cmd": "JobHeartbeat", "id": id, "token": token }),
        _ => json!({ "cmd": "ExtendLock", "id": id, "token": token, "duration": 700_000 }),
    };
    lane.tokens.insert(mark, token);
    lane.change(command, |_| {})?;
    Some(())
}

fn drop_one(lane: &mut Lane, queue: &str) -> Option<()> {
    let Some(mark) = lane.pick(queue, &QUEUED) else {
        return take(lane, queue);
    };
    let id = lane.id(&mark).to_owned();
    let discards = lane.dice.below(2) == 0;
    let cmd = if discards { "Discard" } else { "Cancel" };
    lane.change(json!({ "cmd": cmd, "id": id }), |draft| match discards {
        true => draft.bury(&mark, "unknown", &Value::Null),
        false => draft.cancel(&mark),
    })?;
    Some(())
}

/// Whether somebody else may have taken the key of one of these jobs, or has taken its place.
fn is_entangled(lane: &Lane, mark: &str) -> bool {
    let facts = lane.facts(mark);
    facts["uniqueKey"].is_string() || facts["repeat"].is_object()
}

/// What has ended begins again, or the memory of it ends.
fn revive(lane: &mut Lane, queue: &str) -> Option<()> {
    let (state, cmd) = lane.dice.of([
        ("failed", "RetryDlq"),
        ("failed", "RetryDlq"),
        ("completed", "RetryCompleted"),
    ]);
    let ended = lane.jobs(queue, &[state]);
    let all = lane.dice.below(6) == 0 && !ended.iter().any(|mark| is_entangled(lane, mark));
    if all {
        let command = json!({ "cmd": cmd, "queue": queue });
        lane.change(command, |draft| {
            ended.iter().for_each(|mark| draft.revive(mark));
        })?;
        return Some(());
    }
    let Some(mark) = lane.pick(queue, &[state]) else {
        return take(lane, queue);
    };
    let id = lane.id(&mark).to_owned();
    if state == "failed" && lane.dice.below(3) == 0 {
        let command = json!({ "cmd": "RemoveDlqJob", "queue": queue, "jobId": id });
        lane.change(command, |draft| draft.forget(&mark))?;
    } else if !is_entangled(lane, &mark) {
        let command = json!({ "cmd": cmd, "queue": queue, "jobId": id, "id": id });
        lane.change(command, |draft| draft.revive(&mark))?;
    }
    Some(())
}

/// All jobs of a queue in one state go.
fn sweep(lane: &mut Lane, queue: &str) -> Option<()> {
    let state = lane.dice.of(["completed", "failed", "waiting", "delayed"]);
    let certain = QUEUED
        .map(|state| lane.jobs(queue, &[state]).len())
        .iter()
        .sum::<usize>();
    if state == "failed" && lane.dice.below(2) == 0 {
        let dead = lane.jobs(queue, &["failed"]);
        let command = json!({ "cmd": "PurgeDlq", "queue": queue });
        lane.change(command, |draft| {
            dead.iter().for_each(|mark| draft.forget(mark))
        })?;
        return Some(());
    }
    if certain < lane.jobs(queue, &QUEUED).len() && QUEUED.contains(&state) {
        return take(lane, queue);
    }
    let gone = lane.jobs(queue, &[state]);
    let command = json!({
        "cmd": "Clean", "queue": queue, "grace": 0, "state": state, "limit": 1_000_000,
    });
    lane.change(command, |draft| {
        for mark in &gone {
            match QUEUED.contains(&state) {
                true => draft.cancel(mark),
                false => draft.forget(mark),
            }
        }
    })?;
    Some(())
}

/// What is queued goes, or everything.
fn sweep_all(lane: &mut Lane, queue: &str) -> Option<()> {
    if lane.dice.below(3) > 0 {
        return drain(lane, queue);
    }
    let all = lane.ledger.all().filter_map(|(thing, facts)| match thing {
        Thing::Job(mark) if facts["queue"] == queue => Some(mark.clone()),
        _ => None,
    });
    let all: Vec<String> = all.collect();
    lane.change(json!({ "cmd": "Obliterate", "queue": queue }), |draft| {
        for mark in &all {
            draft.cancel(mark);
        }
    })?;
    Some(())
}

pub fn drain(lane: &mut Lane, queue: &str) -> Option<()> {
    let queued = lane.jobs(queue, &QUEUED);
    lane.change(json!({ "cmd": "Drain", "queue": queue }), |draft| {
        queued.iter().for_each(|mark| draft.cancel(mark));
    })?;
    Some(())
}

/// What the broker says of a failure, as it is noted.
pub fn entry(shown: &Value) -> (Thing, Value) {
    (
        dead(&mark_of(&shown["job"])),
        json!({ "reason": shown["reason"], "error": shown["error"] }),
    )
}
