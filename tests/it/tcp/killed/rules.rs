//! What a command means for the jobs it is about: a plain account of the contract, for the little that is asked for here.

use serde_json::{Value, json};

use super::ledger::{ANY, Draft, Thing, is_ready};

/// Ms after which nothing happens while a test runs.
pub const LONG: u64 = 3_600_000;
pub const QUEUED: [&str; 3] = ["waiting", "prioritized", "delayed"];
pub const READY: [&str; 2] = ["waiting", "prioritized"];

/// How a job has come to its end.
#[derive(Clone, Copy)]
enum End<'a> {
    Completed(&'a Value),
    Failed(&'a Value),
    Removed,
}

pub fn job(mark: &str) -> Thing {
    Thing::Job(mark.to_owned())
}

pub fn dead(mark: &str) -> Thing {
    Thing::Dead(mark.to_owned())
}

pub fn log(mark: &str) -> Thing {
    Thing::Log(mark.to_owned())
}

pub fn values(mark: &str) -> Thing {
    Thing::Values(mark.to_owned())
}

/// The state of a queued job that is due.
pub fn ready(priority: &Value) -> &'static str {
    READY[usize::from(priority.as_f64().unwrap_or_default() > 0.0)]
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Draft<'_> {
    /// A job that is due, or has become so.
    pub fn make_ready(&mut self, mark: &str) {
        let state = ready(&self.get(&job(mark))["priority"]);
        self.patch(job(mark), json!({ "state": state }));
    }

    pub fn prioritize(&mut self, mark: &str, priority: u64) {
        let known = text(&self.get(&job(mark))["state"]);
        let state = known.split('|').map(|state| match is_ready(state) {
            true => ready(&json!(priority)),
            false => state,
        });
        let state = state.collect::<Vec<_>>().join("|");
        self.patch(job(mark), json!({ "priority": priority, "state": state }));
    }

    pub fn complete(&mut self, mark: &str, result: &Value) {
        let facts = self.get(&job(mark)).clone();
        let again = facts["repeat"]["count"].as_u64();
        if let Some(count) = again.filter(|count| *count < 2) {
            let (root, _) = mark.split_once('#').unwrap_or((mark, ""));
            let mut next = facts.clone();
            next["repeat"]["count"] = json!(count + 1);
            next["state"] = json!("delayed");
            next["attempts"] = json!(0);
            next["progress"] = json!(0);
            self.patch(job(&format!("{root}#{}", count + 1)), next);
        }
        if facts["removeOnComplete"] == true {
            self.forget(mark);
        } else {
            let end = json!({ "state": "completed", "returnvalue": result });
            self.patch(job(mark), end);
        }
        self.leave(&facts, mark, End::Completed(result));
    }

    pub fn fail(&mut self, mark: &str, error: &str, for_good: bool) {
        let facts = self.get(&job(mark)).clone();
        let attempts = facts["attempts"].as_u64().unwrap_or_default() + 1;
        self.patch(job(mark), json!({ "attempts": attempts }));
        if for_good || facts["maxAttempts"].as_u64() <= Some(attempts) {
            self.give_up(mark, "max_attempts_exceeded", &json!(error));
        } else if facts["backoff"] == 0 {
            self.make_ready(mark);
        } else {
            self.patch(job(mark), json!({ "state": "delayed" }));
        }
    }

    /// It goes to the dead-letter queue, or away.
    fn give_up(&mut self, mark: &str, reason: &str, error: &Value) {
        let facts = self.get(&job(mark)).clone();
        if facts["removeOnFail"] == true {
            self.forget(mark);
            self.leave(&facts, mark, End::Failed(error));
        } else {
            self.bury(mark, reason, error);
        }
    }

    /// It goes to the dead-letter queue.
    pub fn bury(&mut self, mark: &str, reason: &str, error: &Value) {
        let facts = self.get(&job(mark)).clone();
        self.patch(job(mark), json!({ "state": "failed" }));
        self.patch(dead(mark), json!({ "reason": reason, "error": error }));
        self.leave(&facts, mark, End::Failed(error));
    }

    /// A job that has not ended is taken away.
    pub fn cancel(&mut self, mark: &str) {
        let facts = self.get(&job(mark)).clone();
        self.forget(mark);
        self.leave(&facts, mark, End::Removed);
    }

    /// A failed or completed job begins again.
    pub fn revive(&mut self, mark: &str) {
        self.remove(dead(mark));
        let afresh = json!({ "attempts": 0, "progress": ANY, "returnvalue": null });
        self.patch(job(mark), afresh);
        self.make_ready(mark);
    }

    /// Nothing is left of a job.
    pub fn forget(&mut self, mark: &str) {
        for thing in [job(mark), dead(mark), log(mark), values(mark)] {
            self.remove(thing);
        }
    }

    /// Whoever had to do with a job learns of its end.
    fn leave(&mut self, facts: &Value, mark: &str, end: End<'_>) {
        let key = Thing::Key(text(&facts["queue"]), text(&facts["uniqueKey"]));
        if self.get(&key)["mark"] == mark {
            self.remove(key);
        }
        if !self.get(&values(mark)).is_null() {
            self.patch(values(mark), json!(ANY));
        }
        let parent = text(&facts["parentId"]);
        if let Some(error) = self.fails_parent(facts, mark, &parent, end) {
            return self.give_up(&parent, "unknown", &json!(error));
        }
        if let End::Completed(result) = end
            && self.get(&values(&parent)).is_object()
        {
            let name = format!("{}:{mark}", text(&facts["queue"]));
            self.patch(values(&parent), json!({ name: result }));
        }
        let has = |policy: &str| facts[policy] == true;
        let drops = has("removeDependencyOnFailure") || has("ignoreDependencyOnFailure");
        let mut unmet = self.unmet(&parent);
        match end {
            End::Failed(_) if has("continueParentOnFailure") => unmet.clear(),
            End::Failed(_) if !drops => return,
            _ => unmet.retain(|child| child != mark),
        }
        if unmet.len() < self.unmet(&parent).len() {
            let is_free = unmet.is_empty();
            self.patch(job(&parent), json!({ "_unmet": unmet }));
            if is_free {
                self.make_ready(&parent);
            }
        }
    }

    /// The children that a parent waits for.
    fn unmet(&self, parent: &str) -> Vec<Value> {
        let facts = self.get(&job(parent));
        let unmet = facts["_unmet"].as_array().cloned();
        let is_waiting = facts["state"] == "waiting-children";
        unmet.filter(|_| is_waiting).unwrap_or_default()
    }

    /// With which error a parent that has not started fails because of the end of a child.
    fn fails_parent(
        &self,
        facts: &Value,
        mark: &str,
        parent: &str,
        end: End<'_>,
    ) -> Option<String> {
        let waits = self.unmet(parent).contains(&json!(mark));
        let is_queued = self.get(&job(parent))["state"] == "waiting";
        let error = match end {
            End::Failed(error) if waits || is_queued || !self.unmet(parent).is_empty() => {
                text(error)
            }
            End::Removed if waits => "removed".to_owned(),
            _ => return None,
        };
        (facts["failParentOnFailure"] == true).then(|| format!("Child job {mark} failed: {error}"))
    }
}
