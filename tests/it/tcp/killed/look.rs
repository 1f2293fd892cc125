//! What a broker holds, as a client can read it.

use serde_json::{Value, json};

use super::super::client::Conn;
use super::lane::Lane;
use super::ledger::{Facts, Thing};
use super::{jobs, settings};

/// Jobs in one answer.
const PAGE: usize = 1_000;

/// Everything that this client has ever asked for, and every job in its queues whether it has or not.
pub fn everything(lane: &mut Lane, conn: &mut Conn) -> Facts {
    let mut seen = Facts::new();
    for part in ["w", "p", "c"] {
        let queue = lane.queue(part);
        for job in all_jobs(conn, &queue) {
            let mark = jobs::mark_of(&job);
            let id = job["id"].as_str().unwrap().to_owned();
            lane.ids.insert(mark.clone(), id);
            let twice = seen.insert(Thing::Job(mark), job);
            assert!(twice.is_none(), "a job is there twice: {twice:?}");
        }
        let dead = conn.ok(&json!({ "cmd": "Dlq", "queue": queue }));
        seen.extend(dead["entries"].as_array().unwrap().iter().map(jobs::entry));
    }
    let things: Vec<Thing> = lane.ledger.things().cloned().collect();
    for thing in things {
        if let Some(facts) = look(conn, &seen, &thing) {
            seen.insert(thing, facts);
        }
    }
    seen
}

fn all_jobs(conn: &mut Conn, queue: &str) -> Vec<Value> {
    let mut jobs = Vec::new();
    loop {
        let page = json!({ "cmd": "GetJobs", "queue": queue, "offset": jobs.len(), "limit": PAGE });
        let reply = conn.ok(&page);
        let page = reply["jobs"].as_array().unwrap();
        jobs.extend(page.iter().cloned());
        if page.len() < PAGE {
            return jobs;
        }
    }
}

/// One thing, unless it is seen already, not there, or as good as that: an empty log, a queue for which nothing is set.
fn look(conn: &mut Conn, seen: &Facts, thing: &Thing) -> Option<Value> {
    let mut ask = |command: Value| conn.ok(&command);
    let id = |mark: &String| {
        seen.get(&Thing::Job(mark.clone()))
            .map(|job| job["id"].clone())
    };
    let facts = match thing {
        Thing::Job(_) | Thing::Dead(_) => return None,
        Thing::Log(mark) => {
            let reply = ask(json!({ "cmd": "GetLogs", "id": id(mark)? }));
            let lines = reply["data"]["logs"].as_array().unwrap().iter();
            lines.map(|line| line["message"].clone()).collect()
        }
        Thing::Values(mark) => {
            ask(json!({ "cmd": "GetChildrenValues", "id": id(mark)? }))["data"]["values"].take()
        }
        Thing::Key(queue, key) => {
            let reply = ask(
                json!({ "cmd": "GetDeduplicationJobId", "queue": queue, "deduplicationId": key }),
            );
            json!({ "mark": reply["data"]["jobId"].as_str()? })
        }
        Thing::Queue(queue) => {
            let mut ask = |cmd: &str| ask(json!({ "cmd": cmd, "queue": queue }));
            let limits = ask("GetQueueLimits")["data"]["limits"].take();
            json!({
                "paused": ask("IsPaused")["paused"],
                "rateLimit": limits["rateLimit"],
                "concurrencyLimit": limits["concurrencyLimit"],
                "maxEntries": ask("GetDlqConfig")["config"]["maxEntries"],
                "maxStalls": ask("GetStallConfig")["config"]["maxStalls"],
            })
        }
        Thing::Group(queue, group) => {
            let mut ask = |cmd: &str| {
                ask(json!({ "cmd": cmd, "queue": queue, "groupId": group }))["data"].take()
            };
            json!({
                "paused": ask("IsGroupPaused")["paused"],
                "rate": ask("GetGroupRateLimit")["limit"],
                "concurrency": ask("GetGroupConcurrency")["concurrency"],
            })
        }
        Thing::Cron(name) => {
            let crons = ask(json!({ "cmd": "CronList" }))["crons"].take();
            crons
                .as_array()?
                .iter()
                .find(|cron| cron["name"] == **name)?
                .clone()
        }
        Thing::Webhook(url) => {
            let hooks = ask(json!({ "cmd": "ListWebhooks" }))["data"]["webhooks"].take();
            let hook = hooks.as_array()?.iter().find(|hook| hook["url"] == **url);
            hook?.clone()
        }
    };
    let is_none =
        facts == json!([]) || facts == settings::unset() || facts == settings::unset_group();
    (!is_none).then_some(facts)
}

/// Whoever held a job holds it still: its token proves it.
pub fn check_locks(lane: &Lane, conn: &mut Conn) {
    for part in ["w", "p", "c"] {
        for mark in lane.jobs(&lane.queue(part), &["active"]) {
            let Some(token) = lane.tokens.get(&mark) else {
                continue;
            };
            let renewal = json!({ "cmd": "JobHeartbeat", "id": lane.id(&mark), "token": token });
            conn.ok(&renewal);
        }
    }
}
