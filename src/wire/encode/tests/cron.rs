//! Replies about schedules.

use std::sync::Arc;

use super::*;
use crate::command::QueueName;
use crate::command::given::Number;
use crate::command::schedule::CronDraft;
use crate::engine::{Cron as Entry, CronFigures};
use crate::wire::shape::Cron;

pub(super) fn entry(draft: &CronDraft<'_>, figures: CronFigures) -> Entry {
    let new = draft.check(&QueueName::lenient("q")).unwrap();
    Entry {
        definition: Arc::new(new.definition),
        figures,
    }
}

fn timed() -> Entry {
    let draft = CronDraft {
        name: "c1",
        schedule: Some("0 9 * * 1"),
        timezone: Some("Europe/Rome"),
        max_limit: Number::Value(10.0),
        job_name: Some("report"),
        priority: Number::Value(5.0),
        ..CronDraft::default()
    };
    let figures = CronFigures {
        next_run: Some(NOW),
        executions: 3,
        ..CronFigures::default()
    };
    entry(&draft, figures)
}

fn timed_json() -> Json {
    json!({"name": "c1", "jobName": "report", "queue": "q", "schedule": "0 9 * * 1",
        "repeatEvery": null, "nextRun": NOW as f64, "executions": 3, "maxLimit": 10,
        "timezone": "Europe/Rome", "priority": 5})
}

fn repeating() -> Entry {
    let draft = CronDraft {
        name: "c2",
        repeat_every: Number::Value(5e12),
        ..CronDraft::default()
    };
    entry(&draft, CronFigures::default())
}

fn repeating_json() -> Json {
    json!({"name": "c2", "jobName": "default", "queue": "q", "schedule": null,
        "repeatEvery": 5e12, "nextRun": null, "executions": 0, "maxLimit": null,
        "timezone": null, "priority": 0})
}

#[test]
fn crons_have_every_key() {
    let one = Shape::Cron(Cron::One);
    assert_eq!(
        shown(&one, Ok(Reply::Cron(Box::new(timed())))),
        json!({"ok": true, "cron": timed_json()})
    );
    assert_eq!(
        shown(&one, Ok(Reply::CronFound(Some(Box::new(repeating()))))),
        json!({"ok": true, "cron": repeating_json()})
    );
    assert_eq!(
        shown(
            &Shape::Cron(Cron::List),
            Ok(Reply::Crons(vec![repeating(), timed()]))
        ),
        json!({"ok": true, "crons": [repeating_json(), timed_json()]})
    );
    assert_eq!(
        shown(&Shape::Cron(Cron::Deleted), Ok(Reply::Flag(true))),
        json!({"ok": true})
    );
}

#[test]
fn a_cron_that_is_not_there_is_told() {
    let missing = json!({"ok": false, "error": "Cron job not found"});
    assert_eq!(
        shown(&Shape::Cron(Cron::One), Ok(Reply::CronFound(None))),
        missing
    );
    assert_eq!(
        shown(&Shape::Cron(Cron::Deleted), Ok(Reply::Flag(false))),
        missing
    );
}
