//! A broker on a data file is killed in the middle of what it does: whatever it has answered is there at the next start.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::client::{Conn, Pending};
use crate::process::Serve;

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// What has been answered.
#[derive(Default)]
struct Ledger {
    added: HashSet<String>,
    done: HashSet<String>,
}

enum Asked {
    Push(String),
    Ack(String),
}

fn start(file: &str) -> Serve {
    Serve::start_with(&[("BUNQUEUE_DATA_PATH", file)])
}

/// Takes jobs whose deliveries are then known to be stored, because something else was answered behind them.
fn take(conn: &mut Conn, count: u64) -> Vec<(Value, Value)> {
    let pull =
        json!({ "cmd": "PULLB", "queue": "q", "count": count, "owner": "w", "lockTtl": 600_000 });
    let pulled = conn.ok(&pull);
    let (jobs, tokens) = (&pulled["jobs"], &pulled["tokens"]);
    let ids = jobs.as_array().unwrap().iter().map(|job| job["id"].clone());
    ids.zip(tokens.as_array().unwrap().iter().cloned())
        .collect()
}

fn begin(conn: &mut Conn, asked: &Asked, token: Option<&Value>) -> Pending {
    conn.begin(&match asked {
        Asked::Push(id) => {
            json!({ "cmd": "PUSH", "queue": "q", "name": "n", "data": { "id": id }, "jobId": id })
        }
        Asked::Ack(id) => json!({ "cmd": "ACK", "id": id, "token": token, "result": id }),
    })
}

/// Asks for much at once, hears a part of the answers, and pulls the plug.
fn round(serve: &mut Serve, number: u64, dice: &mut Dice, ledger: &mut Ledger) {
    let mut conn = Conn::open(serve.tcp);
    let taken = take(&mut conn, 20);
    let mut asked = Vec::new();
    for place in 0..60 {
        let id = format!("job-{number}-{place}");
        asked.push((Asked::Push(id), None));
        if let Some((id, token)) = taken.get(place) {
            asked.push((Asked::Ack(id.as_str().unwrap().into()), Some(token)));
        }
    }
    let pending: Vec<_> = asked
        .iter()
        .map(|(asked, token)| begin(&mut conn, asked, *token))
        .collect();
    let heard = dice.below(asked.len() as u64 + 1) as usize;
    for ((asked, _), pending) in asked.iter().zip(&pending).take(heard) {
        let reply = conn.finish(pending);
        assert_eq!(reply["ok"], true, "{reply}");
        match asked {
            Asked::Push(id) => ledger.added.insert(id.clone()),
            Asked::Ack(id) => ledger.done.insert(id.clone()),
        };
    }
    serve.process.kill();
}

#[test]
fn s_2_what_was_answered_is_there_after_a_kill_and_nothing_is_done_twice() {
    let rounds = if std::env::var_os("RUN_SLOW").is_some() {
        200
    } else {
        6
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("queue.db");
    let file = file.to_str().unwrap();
    let (mut dice, mut ledger) = (Dice(7), Ledger::default());
    for number in 0..rounds {
        let mut serve = start(file);
        round(&mut serve, number, &mut dice, &mut ledger);
    }
    let serve = start(file);
    let mut conn = Conn::open(serve.tcp);
    let mut state = |id: &String| {
        let reply = conn.ok(&json!({ "cmd": "GetState", "id": id }));
        reply["state"].as_str().unwrap().to_owned()
    };
    for id in &ledger.added {
        assert_ne!(state(id), "unknown", "{id} was added");
    }
    for id in &ledger.done {
        assert_eq!(state(id), "completed", "{id} was done");
    }
    assert!(!ledger.added.is_empty() && !ledger.done.is_empty());
    let again = take(&mut conn, 1_000);
    let twice = |(id, _): &(Value, Value)| ledger.done.contains(id.as_str().unwrap());
    assert!(
        !again.iter().any(twice),
        "a job that was done is handed out again"
    );
}

#[test]
fn a_second_program_is_refused_with_the_name_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("queue.db");
    let file = file.to_str().unwrap();
    let first = start(file);
    let arguments = ["serve", "--data-path", file];
    let (code, _, stderr) = crate::process::run(&arguments);
    assert_eq!(code, Some(1));
    let owner = format!("in use by process {}", first.process.pid());
    assert!(stderr.contains(&owner), "{stderr}");
    let mut conn = Conn::open(first.tcp);
    conn.push("q", &json!({}));
}
