//! Schedules over the worker door.

use serde_json::{Value, json};

use super::client::Conn;
use crate::process::Serve;

fn waiting_pull() -> Value {
    json!({ "cmd": "PULL", "queue": "q", "owner": "w", "timeout": 12_000 })
}

#[test]
fn a_cron_fires_with_the_options_of_its_jobs() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let pull = conn.begin(&waiting_pull());
    let cron = conn.ok(&json!({
        "cmd": "Cron", "name": "tick", "queue": "q", "repeatEvery": 100, "jobName": "report",
        "data": { "n": 1 }, "priority": 3,
        "jobOptions": { "maxAttempts": 7, "timeout": 5_000, "removeOnComplete": true },
    }));
    assert_eq!(cron["cron"]["executions"], 0);
    let mut reply = conn.finish(&pull);
    let job = reply["job"].take();
    assert_eq!(
        (&job["name"], &job["data"]),
        (&json!("report"), &json!({ "n": 1 }))
    );
    assert_eq!(
        (&job["priority"], &job["maxAttempts"]),
        (&json!(3), &json!(7))
    );
    assert_eq!(
        (&job["timeout"], &job["removeOnComplete"]),
        (&json!(5_000), &json!(true))
    );
    assert_eq!(job["uniqueKey"], "cron:tick");
    let cron = conn.ok(&json!({ "cmd": "CronGet", "name": "tick" }));
    assert_eq!(cron["cron"]["executions"], 1);
    // The job lives, so that further slots add nothing; then the next one does.
    conn.ok(&json!({ "cmd": "ACK", "id": job["id"], "token": reply["token"] }));
    let next = conn.ok(&waiting_pull());
    assert_eq!(next["job"]["name"], "report");
    assert_ne!(next["job"]["id"], job["id"]);
    conn.ok(&json!({ "cmd": "CronDelete", "name": "tick" }));
    assert_eq!(conn.ok(&json!({ "cmd": "CronList" }))["crons"], json!([]));
}

#[test]
fn a_new_cron_can_fire_at_once_and_ends_at_its_limit() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let mut cron = json!({
        "cmd": "Cron", "name": "once", "queue": "q", "repeatEvery": 3_600_000, "maxLimit": 1,
        "immediately": true, "data": { "name": "legacy" },
    });
    assert_eq!(conn.ok(&cron)["cron"]["executions"], 1);
    let job = conn.ok(&waiting_pull())["job"].take();
    assert_eq!((&job["name"], &job["data"]), (&json!("legacy"), &json!({})));
    // A replacement does not, and keeps what was counted.
    cron["priority"] = json!(2);
    let replaced = conn.ok(&cron);
    assert_eq!(replaced["cron"]["executions"], 1);
    assert_eq!(replaced["cron"]["priority"], 2);
    assert_eq!(conn.counts("q")["prioritized"], 0);
    assert_eq!(conn.counts("q")["waiting"], 0);
}

#[test]
fn a_refused_cron_leaves_the_one_that_was_there() {
    let serve = Serve::start();
    let mut conn = Conn::open(serve.tcp);
    let good = json!({ "cmd": "Cron", "name": "c", "queue": "q", "schedule": "@daily" });
    let before = conn.ok(&good)["cron"].take();
    for bad in [
        json!({ "queue": "a b" }),
        json!({ "schedule": "61 * * * *" }),
        json!({ "timezone": "Not/AZone" }),
        json!({ "jobOptions": { "maxAttempts": "x" } }),
    ] {
        let mut cron = good.clone();
        cron.as_object_mut()
            .unwrap()
            .extend(bad.as_object().unwrap().clone());
        assert_eq!(conn.call(&cron)["ok"], false, "{bad}");
    }
    let after = conn.ok(&json!({ "cmd": "CronGet", "name": "c" }));
    assert_eq!(after["cron"], before);
}
