//! A little of everything, asked one after the other, and what has to be there afterwards, however it ended.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Line, state};
use crate::process::Serve;
use crate::tcp::client::Conn;

/// Names of one round: queues and ids of different rounds have nothing to do with each other.
pub struct Round {
    number: usize,
    /// Steps that were acknowledged.
    heard: BTreeSet<Step>,
}

/// In the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    AddMany,
    AddKeyed,
    Replace,
    AddFlow,
    Cron,
    Complete,
    Fail,
    Clean,
    CompleteChild,
    CompleteOtherChild,
    Raise,
}

use Step as S;

impl Round {
    pub fn new(number: usize) -> Self {
        Self {
            number,
            heard: BTreeSet::new(),
        }
    }

    fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.number)
    }

    /// Asks for everything, in order; ends early with the process.
    pub fn play(&mut self, serve: &Serve) -> Option<()> {
        let mut line = Line::open(serve.tcp);
        let name = |what: &str| self.name(what);
        let jobs = ["a", "b", "c"];
        let many: Vec<_> = jobs
            .iter()
            .map(|id| json!({ "name": "n", "customId": name(id), "maxAttempts": 1 }))
            .collect();
        let keyed = |id: &str| {
            json!({ "cmd": "PUSH", "queue": name("keyed"), "name": "n", "jobId": name(id),
                "uniqueKey": "k", "dedup": { "replace": true } })
        };
        let pull = |queue: &str| json!({ "cmd": "PULL", "queue": name(queue), "owner": "w", "lockTtl": 600_000 });
        let mut heard = Vec::new();
        let result = (|| {
            let ok = |line: &mut Line, command: &Value| {
                let reply = line.ask(command)?;
                assert_eq!(reply["ok"], true, "{command}: {reply}");
                Some(reply)
            };
            let many = json!({ "cmd": "PUSHB", "queue": name("q"), "jobs": many });
            ok(&mut line, &many)?;
            heard.push(S::AddMany);
            ok(&mut line, &keyed("old"))?;
            heard.push(S::AddKeyed);
            ok(&mut line, &keyed("new"))?;
            heard.push(S::Replace);
            ok(&mut line, &self.flow())?;
            heard.push(S::AddFlow);
            let cron = json!({ "cmd": "Cron", "name": name("tick"), "queue": name("cron"),
                "repeatEvery": 3_600_000, "immediately": true, "jobName": "n" });
            ok(&mut line, &cron)?;
            heard.push(S::Cron);
            let done = ok(&mut line, &pull("q"))?;
            let ack = |pulled: &Value| json!({ "cmd": "ACK", "id": pulled["job"]["id"], "token": pulled["token"], "result": 1 });
            ok(&mut line, &ack(&done))?;
            heard.push(S::Complete);
            let failed = ok(&mut line, &pull("q"))?;
            let fail = json!({ "cmd": "FAIL", "id": failed["job"]["id"], "token": failed["token"], "error": "no" });
            ok(&mut line, &fail)?;
            heard.push(S::Fail);
            let clean =
                json!({ "cmd": "Clean", "queue": name("q"), "grace": 0, "state": "failed" });
            ok(&mut line, &clean)?;
            heard.push(S::Clean);
            let child = ok(&mut line, &pull("children"))?;
            ok(&mut line, &ack(&child))?;
            heard.push(S::CompleteChild);
            let child = ok(&mut line, &pull("children"))?;
            ok(&mut line, &ack(&child))?;
            heard.push(S::CompleteOtherChild);
            ok(
                &mut line,
                &json!({ "cmd": "ChangePriority", "id": name("c"), "priority": 7 }),
            )?;
            heard.push(S::Raise);
            Some(())
        })();
        self.heard.extend(heard);
        result
    }

    fn flow(&self) -> Value {
        let [parent, left, right] = ["parent", "left", "right"].map(|id| self.name(id));
        let child = |id: &str| {
            json!({ "id": id, "queue": self.name("children"), "input": { "parentId": parent,
                "data": { "__parentId": parent, "__parentQueue": self.name("parents") } } })
        };
        let ids = [&left, &right];
        let above = json!({ "id": parent, "queue": self.name("parents"), "input": {
            "data": { "__childrenIds": ids }, "dependsOn": ids, "childrenIds": ids } });
        json!({ "cmd": "PUSHF", "jobs": [above, child(&left), child(&right)] })
    }

    fn heard(&self, step: Step) -> bool {
        self.heard.contains(&step)
    }

    /// Compares what a process finds with what another one has acknowledged. Nothing may be half done, and of what was not
    /// acknowledged only the step behind the last acknowledged one may be done.
    pub fn check(&self, serve: &Serve) {
        let mut conn = Conn::open(serve.tcp);
        let conn = &mut conn;
        let heard = format!("round {}: {:?}", self.number, self.heard.last());
        self.check_jobs(conn, &heard);
        self.check_flow(conn, &heard);
        let owners = ["old", "new"].map(|id| state(conn, &self.name(id)) != "unknown");
        let expected: &[[bool; 2]] = match (self.heard(S::AddKeyed), self.heard(S::Replace)) {
            (_, true) => &[[false, true]],
            (true, false) => &[[true, false], [false, true]],
            (false, false) => &[[false, false], [true, false]],
        };
        assert!(expected.contains(&owners), "{heard}: {owners:?}");
        let cron = conn.call(&json!({ "cmd": "CronGet", "name": self.name("tick") }));
        let fired = conn.counts(&self.name("cron"))["waiting"].clone();
        if self.heard(S::Cron) || cron["ok"] == true {
            assert_eq!(
                (&cron["cron"]["executions"], &fired),
                (&json!(1), &json!(1)),
                "{heard}"
            );
        } else {
            assert_eq!(fired, 0, "{heard}");
        }
    }

    fn check_jobs(&self, conn: &mut Conn, heard: &str) {
        let [done, failed, raised] = ["a", "b", "c"].map(|id| state(conn, &self.name(id)));
        let is_there = [&done, &raised].map(|state| state != "unknown");
        assert_eq!(is_there[0], is_there[1], "{heard}: half of a batch");
        assert!(is_there[0] || !self.heard(S::AddMany), "{heard}");
        if self.heard(S::Complete) {
            assert_eq!(done, "completed", "{heard}");
        }
        if self.heard(S::Clean) {
            assert_eq!(failed, "unknown", "{heard}");
        } else if self.heard(S::Fail) {
            assert!(
                ["failed", "unknown"].contains(&failed.as_str()),
                "{heard}: {failed}"
            );
        }
        if self.heard(S::Raise) {
            assert_eq!(raised, "prioritized", "{heard}");
            let job = conn.ok(&json!({ "cmd": "GetJob", "id": self.name("c") }));
            assert_eq!(job["job"]["priority"], 7, "{heard}");
        }
        // Nothing that is done is handed out again.
        let pull = json!({ "cmd": "PULLB", "queue": self.name("q"), "count": 10, "owner": "v" });
        let again = conn.ok(&pull)["jobs"].take();
        let again: Vec<_> = again
            .as_array()
            .unwrap()
            .iter()
            .map(|job| &job["id"])
            .collect();
        let ended = [(S::Complete, "a"), (S::Fail, "b")];
        for (step, id) in ended.into_iter().filter(|(step, _)| self.heard(*step)) {
            assert!(!again.contains(&&json!(self.name(id))), "{heard}: {step:?}");
        }
    }

    fn check_flow(&self, conn: &mut Conn, heard: &str) {
        let states = ["parent", "left", "right"].map(|id| state(conn, &self.name(id)));
        let is_there = states.each_ref().map(|state| state != "unknown");
        assert!(
            is_there == [true; 3] || is_there == [false; 3],
            "{heard}: half of a flow"
        );
        assert!(is_there[0] || !self.heard(S::AddFlow), "{heard}");
        let [parent, children @ ..] = states;
        let done = children
            .iter()
            .filter(|state| *state == "completed")
            .count();
        let acknowledged = [S::CompleteChild, S::CompleteOtherChild];
        let acknowledged = acknowledged
            .into_iter()
            .filter(|step| self.heard(*step))
            .count();
        assert!(
            (acknowledged..=acknowledged + 1).contains(&done),
            "{heard}: {done} children"
        );
        if is_there[0] {
            let expected = if done == 2 {
                "waiting"
            } else {
                "waiting-children"
            };
            assert_eq!(parent, expected, "{heard}");
        }
    }

    /// Whether everything was acknowledged.
    pub fn is_whole(&self) -> bool {
        self.heard(S::Raise)
    }
}
