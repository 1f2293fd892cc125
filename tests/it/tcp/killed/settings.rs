//! Settings of queues and groups, crons that do not fire, and webhooks that are never called.

use serde_json::{Value, json};

use super::lane::Lane;
use super::ledger::{Draft, Facts, Thing};

/// How a queue is shown for which nothing is set.
pub fn unset() -> Value {
    json!({
        "paused": false, "rateLimit": null, "concurrencyLimit": null, "maxEntries": 10_000, "maxStalls": 3,
    })
}

/// How a group is shown for which nothing is set.
pub fn unset_group() -> Value {
    json!({ "paused": false, "rate": null, "concurrency": null })
}

pub fn any(lane: &mut Lane) -> Option<()> {
    let queue = lane.queue("s");
    match lane.dice.below(20) {
        0..=8 => set(lane, &queue),
        9..=12 => set_group(lane, &queue),
        13 => reset(lane, &queue),
        14..=16 => cron(lane),
        _ => webhook(lane),
    }
}

fn set(lane: &mut Lane, queue: &str) -> Option<()> {
    let number = 1 + lane.dice.below(50);
    let (mut command, members) = match lane.dice.below(8) {
        0 => (json!({ "cmd": "Pause" }), json!({ "paused": true })),
        1 => (json!({ "cmd": "Resume" }), json!({ "paused": false })),
        2 => (
            json!({ "cmd": "RateLimit", "limit": number, "duration": 2_000 }),
            json!({ "rateLimit": { "max": number, "duration": 2_000 } }),
        ),
        3 => (
            json!({ "cmd": "RateLimitClear" }),
            json!({ "rateLimit": null }),
        ),
        4 => (
            json!({ "cmd": "SetConcurrency", "limit": number }),
            json!({ "concurrencyLimit": number }),
        ),
        5 => (
            json!({ "cmd": "ClearConcurrency" }),
            json!({ "concurrencyLimit": null }),
        ),
        6 => (
            json!({ "cmd": "SetDlqConfig", "config": { "maxEntries": number } }),
            json!({ "maxEntries": number }),
        ),
        _ => (
            json!({ "cmd": "SetStallConfig", "config": { "maxStalls": number } }),
            json!({ "maxStalls": number }),
        ),
    };
    command["queue"] = json!(queue);
    let thing = Thing::Queue(queue.to_owned());
    lane.change(command, |draft| set_all(draft, thing, &unset(), members))?;
    Some(())
}

/// A thing for which nothing is set is none.
fn set_all(draft: &mut Draft<'_>, thing: Thing, unset: &Value, members: Value) {
    if draft.get(&thing).is_null() {
        draft.patch(thing.clone(), unset.clone());
    }
    draft.patch(thing.clone(), members);
    if draft.get(&thing) == unset {
        draft.remove(thing);
    }
}

fn set_group(lane: &mut Lane, queue: &str) -> Option<()> {
    let (number, group) = (1 + lane.dice.below(50), lane.dice.of(["g", "h"]));
    let (mut command, members) = match lane.dice.below(6) {
        0 => (json!({ "cmd": "PauseGroup" }), json!({ "paused": true })),
        1 => (json!({ "cmd": "ResumeGroup" }), json!({ "paused": false })),
        2 => (
            json!({ "cmd": "SetGroupRateLimit", "max": number, "duration": 2_000 }),
            json!({ "rate": { "max": number, "duration": 2_000 } }),
        ),
        3 => (
            json!({ "cmd": "RemoveGroupRateLimit" }),
            json!({ "rate": null }),
        ),
        4 => (
            json!({ "cmd": "SetGroupConcurrency", "concurrency": number }),
            json!({ "concurrency": number }),
        ),
        _ => (
            json!({ "cmd": "RemoveGroupConcurrency" }),
            json!({ "concurrency": null }),
        ),
    };
    command["queue"] = json!(queue);
    command["groupId"] = json!(group);
    let thing = Thing::Group(queue.to_owned(), group.to_owned());
    lane.change(command, |draft| {
        set_all(draft, thing, &unset_group(), members)
    })?;
    Some(())
}

fn reset(lane: &mut Lane, queue: &str) -> Option<()> {
    lane.change(json!({ "cmd": "Obliterate", "queue": queue }), |draft| {
        draft.remove(Thing::Queue(queue.to_owned()));
        for group in ["g", "h"] {
            draft.remove(Thing::Group(queue.to_owned(), group.to_owned()));
        }
    })?;
    Some(())
}

/// One of the things of a kind that are there.
fn choose(lane: &mut Lane, is_meant: impl Fn(&Thing) -> bool) -> Option<Thing> {
    let there = lane.ledger.all().map(|(thing, _)| thing);
    let meant: Vec<Thing> = there.filter(|thing| is_meant(thing)).cloned().collect();
    let choice = lane.dice.below(meant.len().max(1) as u64) as usize;
    meant.get(choice).cloned()
}

/// A cron that fires long after the test, or its end.
fn cron(lane: &mut Lane) -> Option<()> {
    let there = choose(lane, |thing| matches!(thing, Thing::Cron(_)));
    let dice = lane.dice.below(3);
    if let (0, Some(Thing::Cron(name))) = (dice, &there) {
        let command = json!({ "cmd": "CronDelete", "name": name });
        lane.change(command, |draft| draft.remove(Thing::Cron(name.clone())))?;
        return Some(());
    }
    let name = match (dice, there) {
        (1, Some(Thing::Cron(name))) => name,
        _ => format!("cron-{}", lane.fresh()),
    };
    let facts = json!({
        "name": name, "queue": lane.queue("s"), "jobName": lane.dice.of(["mail", "report"]),
        "schedule": format!("{} 3 29 2 *", lane.dice.below(60)), "priority": lane.dice.below(9),
        "timezone": lane.dice.of(["UTC", "Europe/Berlin"]), "maxLimit": 1 + lane.dice.below(9),
    });
    let mut command = facts.clone();
    command["cmd"] = json!("Cron");
    command["data"] = json!({});
    lane.ask(
        command,
        Facts::from([(Thing::Cron(name), facts)]),
        Vec::new(),
    )?;
    Some(())
}

/// A webhook for a queue that nobody uses, or its end.
fn webhook(lane: &mut Lane) -> Option<()> {
    let known = lane.ids.clone();
    let is_known = |thing: &Thing| matches!(thing, Thing::Webhook(url) if known.contains_key(url));
    let there = choose(lane, is_known);
    let (Some(Thing::Webhook(url)), dice @ 0..=3) = (there, lane.dice.below(6)) else {
        let url = format!("https://example.com/{}", lane.fresh());
        let facts = json!({
            "url": url, "queue": "nobody", "events": ["job.failed"], "enabled": true,
        });
        let command = json!({
            "cmd": "AddWebhook", "url": url, "queue": "nobody", "events": ["job.failed"], "secret": "s",
        });
        let effects = Facts::from([(Thing::Webhook(url.clone()), facts)]);
        lane.ask(command, effects, vec![url])?;
        return Some(());
    };
    let id = lane.id(&url);
    if dice < 2 {
        let command = json!({ "cmd": "RemoveWebhook", "webhookId": id });
        lane.change(command, |draft| draft.remove(Thing::Webhook(url)))?;
    } else {
        let enabled = dice == 2;
        let command = json!({ "cmd": "SetWebhookEnabled", "id": id, "enabled": enabled });
        lane.change(command, |draft| {
            draft.patch(Thing::Webhook(url), json!({ "enabled": enabled }));
        })?;
    }
    Some(())
}
