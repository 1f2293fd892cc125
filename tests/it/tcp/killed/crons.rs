//! Crons that fire many times a second: each slot adds one job and counts once, or neither.

use serde_json::{Value, json};

use super::super::client::Conn;
use super::lane::Lane;

const MOST: usize = 3;

/// A cron that fires often, into a queue of its own that nobody works off.
pub struct Fast {
    name: String,
    limit: Option<u64>,
    /// The places in the ledger of the command that added it and of the one that removed it.
    added: usize,
    removed: Option<usize>,
    /// How many jobs there were when it was seen to be gone.
    left: Option<u64>,
}

pub fn any(lane: &mut Lane) -> Option<()> {
    let endless: Vec<usize> = (0..lane.fast.len())
        .filter(|at| lane.fast[*at].limit.is_none() && lane.fast[*at].removed.is_none())
        .collect();
    if endless.len() == MOST {
        let at = endless[lane.dice.below(MOST as u64) as usize];
        let command = json!({ "cmd": "CronDelete", "name": lane.fast[at].name });
        lane.fast[at].removed = Some(lane.change(command, |_| {})?);
        return Some(());
    }
    let name = format!("fast-{}", lane.fresh());
    let limit = lane.dice.of([None, None, Some(3)]);
    let command = json!({
        "cmd": "Cron", "name": name, "queue": name, "repeatEvery": lane.dice.of([20, 50, 100]),
        "data": {}, "preventOverlap": false, "maxLimit": limit,
        "skipMissedOnRestart": lane.dice.below(2) == 0, "immediately": lane.dice.below(2) == 0,
    });
    let added = lane.change(command, |_| {})?;
    lane.fast.push(Fast {
        name,
        limit,
        added,
        removed: None,
        left: None,
    });
    Some(())
}

/// The jobs of a cron, and how often it has fired if it is still there.
fn look(conn: &mut Conn, name: &str) -> (u64, Option<u64>) {
    let cron = json!({ "cmd": "CronGet", "name": name });
    let executions = |reply: &Value| reply["cron"]["executions"].as_u64();
    loop {
        // Sent at once, they see the same moment, or nearly so.
        let asked = [
            &cron,
            &json!({ "cmd": "GetJobCounts", "queue": name }),
            &cron,
        ]
        .map(|command| conn.begin(command));
        let [before, counts, after] = asked.map(|asked| conn.finish(&asked));
        if executions(&before) == executions(&after) {
            let counts = counts["counts"].as_object().unwrap();
            let jobs = counts.values().filter_map(Value::as_u64).sum();
            return (jobs, executions(&after));
        }
    }
}

/// Each cron that is there has as many jobs as it has fired, and those that are gone do not fire.
pub fn check(lane: &mut Lane, conn: &mut Conn, stored: usize) {
    for cron in &mut lane.fast {
        let (jobs, executions) = look(conn, &cron.name);
        let name = &cron.name;
        if let Some(executions) = executions {
            assert_eq!(jobs, executions, "jobs and executions of {name}");
        }
        if let Some(left) = cron.left {
            assert_eq!((jobs, executions), (left, None), "{name} was gone");
            continue;
        }
        let is_added = cron.added <= stored;
        match (cron.limit, cron.removed) {
            (Some(limit), _) => {
                let has_ended = is_added && executions.is_none();
                assert!(
                    jobs == limit || jobs < limit && !has_ended,
                    "{name}: {jobs}"
                );
            }
            (None, None) if is_added => assert!(executions.is_some(), "{name} is missing"),
            (None, Some(place)) if place <= stored => {
                assert_eq!(executions, None, "{name} was removed");
            }
            _ => {}
        }
        cron.added = 0;
        cron.left = executions.is_none().then_some(jobs);
        // Perhaps that was not heard.
        cron.removed = cron.left.map(|_| 0);
    }
}
