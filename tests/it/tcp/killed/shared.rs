//! A queue of all clients: each takes whatever there is, whoever has added it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::client::Conn;
use super::lane::Lane;
use super::ledger::Facts;

const QUEUE: &str = "shared";

/// What one client has done there, with the place of each command in its ledger.
#[derive(Default)]
pub struct Part {
    added: Vec<(usize, String)>,
    held: Vec<(usize, String, Value)>,
    done: Vec<(usize, String)>,
}

/// What is known of the queue from before.
#[derive(Default)]
pub struct Whole {
    added: BTreeSet<String>,
    done: BTreeSet<String>,
}

pub fn any(lane: &mut Lane) -> Option<()> {
    match lane.dice.below(5) {
        0..=1 => add(lane),
        2 => take(lane),
        _ => complete(lane),
    }
}

fn add(lane: &mut Lane) -> Option<()> {
    let id = format!("shared-{}", lane.fresh());
    let command =
        json!({ "cmd": "PUSH", "queue": QUEUE, "name": "n", "data": { "id": id }, "jobId": id });
    let place = lane.change(command, |_| {})?;
    lane.shared.added.push((place, id));
    Some(())
}

fn take(lane: &mut Lane) -> Option<()> {
    let (place, reply) = lane.pull(QUEUE, 3, Facts::new())?;
    let jobs = reply["jobs"].as_array().unwrap();
    for (job, token) in jobs.iter().zip(reply["tokens"].as_array().unwrap()) {
        let id = job["id"].as_str().unwrap().to_owned();
        lane.shared.held.push((place, id, token.clone()));
    }
    Some(())
}

fn complete(lane: &mut Lane) -> Option<()> {
    let Some((_, id, token)) = lane.shared.held.pop() else {
        return take(lane);
    };
    let command = json!({ "cmd": "ACK", "id": id, "token": token, "result": id });
    let place = lane.change(command, |_| {})?;
    lane.shared.done.push((place, id));
    Some(())
}

impl Whole {
    /// Adds what a client knows to be stored, and checks that its deliveries are still its own.
    pub fn add(&mut self, lane: &mut Lane, conn: &mut Conn, stored: usize) {
        let Part { added, held, done } = std::mem::take(&mut lane.shared);
        let sure = |(place, id): (usize, String)| (place <= stored).then_some(id);
        self.added.extend(added.into_iter().filter_map(sure));
        self.done.extend(done.into_iter().filter_map(sure));
        for (place, id, token) in held {
            let command = json!({ "cmd": "JobHeartbeat", "id": id, "token": token });
            let is_held = conn.call(&command)["ok"] == true;
            assert!(is_held || place > stored, "{id} is not held any more");
            if is_held {
                lane.shared.held.push((0, id, token));
            }
        }
    }

    /// Everything that was added is there, and what was done is done.
    pub fn check(&self, conn: &mut Conn) {
        let ask = |id: &String| json!({ "cmd": "GetState", "id": id });
        let asked: Vec<_> = self.added.iter().map(|id| conn.begin(&ask(id))).collect();
        for (id, asked) in self.added.iter().zip(asked) {
            let state = conn.finish(&asked)["state"].take();
            assert_ne!(state, "unknown", "{id} was added");
            assert!(
                state == "completed" || !self.done.contains(id),
                "{id} was done and is {state}"
            );
        }
    }
}
