//! Schedules: what is read, what is refused, and in which order.

use super::*;
use crate::command::{DeleteCron, GetCron, ListCrons};
use crate::engine::{Backoff, Dedup, NewCron};
use crate::wire::shape::Cron;

/// A frame that is accepted, with these fields instead or beside.
fn frame(fields: &Json) -> Json {
    let mut frame = json!({"cmd": "Cron", "name": "c", "queue": "q", "repeatEvery": 1000});
    let entries = fields.as_object().unwrap().clone();
    frame.as_object_mut().unwrap().extend(entries);
    frame
}

fn upsert_body(body: &[u8]) -> NewCron {
    match decode_body(body) {
        Action::Command(Command::UpsertCron(upsert), Shape::Cron(Cron::One)) => upsert.cron,
        action => panic!("{action:?}"),
    }
}

fn upsert(fields: &Json) -> NewCron {
    upsert_body(&bytes(&frame(fields)))
}

#[test]
fn a_short_cron_takes_every_default() {
    let cron = upsert(&json!({}));
    assert!(!cron.immediately && !cron.replace_queued);
    let definition = cron.definition;
    assert_eq!((&*definition.name, &*definition.queue), ("c", "q"));
    assert_eq!(definition.repeat_every, Some(1_000));
    assert_eq!((definition.schedule, definition.timezone), (None, None));
    assert_eq!(definition.max_limit, None);
    assert!(definition.prevent_overlap && definition.skip_missed_on_restart);
    assert!(!definition.skip_if_no_worker);
    let job = definition.template;
    assert_eq!((&*job.name, job.data, job.priority), ("default", None, 0.0));
    assert_eq!(job.options, None);
}

#[test]
fn every_field_reaches_the_cron() {
    let cron = upsert(&json!({
        "repeatEvery": null, "schedule": "0 9 * * 1", "timezone": "Europe/Rome", "maxLimit": 2.5,
        "immediately": true, "skipMissedOnRestart": false, "skipIfNoWorker": true,
        "preventOverlap": true, "jobName": "report", "data": {"name": "kept"}, "priority": 5,
        "uniqueKey": "k", "dedup": {"ttl": 70, "extend": true, "replace": true},
        "jobOptions": {"maxAttempts": 7, "backoff": {"type": "fixed", "delay": 30}, "timeout": "40",
            "delay": 50, "stallTimeout": 60, "removeOnComplete": true, "removeOnFail": 1},
    }));
    assert!(cron.immediately && cron.replace_queued);
    let definition = cron.definition;
    let schedule = definition.schedule.unwrap();
    assert_eq!(&**schedule.text(), "0 9 * * 1");
    assert_eq!(definition.timezone.as_deref(), Some("Europe/Rome"));
    assert_eq!(
        (definition.repeat_every, definition.max_limit),
        (None, Some(3))
    );
    assert!(definition.prevent_overlap && definition.skip_if_no_worker);
    assert!(!definition.skip_missed_on_restart);
    let job = definition.template;
    assert_eq!((&*job.name, job.priority), ("report", 5.0));
    assert_eq!(
        job.data,
        Some(Payload::new(&bytes(&json!({"name": "kept"}))))
    );
    assert_eq!((job.max_attempts, job.delay), (7, 50));
    assert!(job.remove_on_complete && job.remove_on_fail);
    let options = job.options.unwrap();
    assert_eq!(options.unique_key.as_deref(), Some("k"));
    let Dedup {
        ttl,
        extend,
        replace,
    } = options.dedup;
    assert!(ttl == Some(70.0) && extend && replace);
    assert_ne!(options.backoff, Backoff::default());
    assert!(options.timeout.is_some() && options.stall_timeout.is_some());
}

#[test]
fn what_javascript_takes_as_false_switches_off() {
    for off in [json!(false), json!(0), json!("")] {
        let cron = upsert(&json!({"preventOverlap": off, "skipMissedOnRestart": off}));
        assert!(!cron.definition.prevent_overlap && !cron.definition.skip_missed_on_restart);
        assert!(!cron.replace_queued);
    }
    let cron = upsert(&json!({"preventOverlap": null, "skipMissedOnRestart": null}));
    assert!(cron.definition.prevent_overlap && cron.definition.skip_missed_on_restart);
    assert!(!cron.replace_queued);
}

#[test]
fn an_older_client_sends_the_name_in_the_data() {
    let job = upsert(&json!({"data": {"name": "legacy", "y": 1}}))
        .definition
        .template;
    assert_eq!(&*job.name, "legacy");
    assert_eq!(job.data, Some(Payload::new(&bytes(&json!({"y": 1})))));
    let undefined = with_raw(
        &frame(&json!({"data": {"name": "n"}})),
        "jobName",
        UNDEFINED,
    );
    assert_eq!(&*upsert_body(&undefined).definition.template.name, "n");
    let nil = upsert(&json!({"data": null})).definition.template;
    assert_eq!(nil.data, Some(Payload::new(&[0xc0])));
}

#[test]
fn the_first_fault_answers() {
    let interval = "Cron repeatEvery must be a positive safe integer number of milliseconds";
    let timing = "Cron job must have either schedule or repeatEvery";
    let job_name = "Job name must be a non-empty string of at most 256 characters";
    let cases = [
        (json!({"queue": null, "name": ""}), "Queue name is required"),
        (
            json!({"queue": "a b", "name": ""}),
            "Queue name contains invalid characters",
        ),
        (
            json!({"name": null, "repeatEvery": 0}),
            "name must be a non-empty string",
        ),
        (json!({"name": 5}), "name must be a string"),
        (json!({"repeatEvery": "1000"}), interval),
        (json!({"repeatEvery": 0, "schedule": "bad"}), interval),
        (json!({"repeatEvery": null}), timing),
        (
            json!({"repeatEvery": null, "schedule": "", "jobName": ""}),
            timing,
        ),
        (json!({"schedule": 5}), "schedule must be a string"),
        (
            json!({"schedule": "bad", "jobName": ""}),
            "Invalid cron expression: Cron expression must have 5 fields, or 6 fields with leading seconds",
        ),
        (
            json!({"maxLimit": "x", "jobName": ""}),
            "maxLimit must be a number",
        ),
        (json!({"jobOptions": 5}), "jobOptions must be an object"),
        (
            json!({"jobOptions": {"maxAttempts": "x"}, "jobName": ""}),
            "jobOptions.maxAttempts must be a number",
        ),
        (json!({"jobName": ""}), job_name),
        (json!({"jobName": null}), job_name),
        (json!({"jobName": 5, "data": {"name": "n"}}), job_name),
        (json!({"priority": true}), "priority must be a number"),
        (json!({"uniqueKey": 5}), "uniqueKey must be a string"),
    ];
    for (fields, text) in cases {
        assert_eq!(refused(&frame(&fields)), text, "{fields}");
    }
}

#[test]
fn crons_are_named_by_those_who_ask() {
    let named = |name: &str| Command::from(GetCron { name: name.into() });
    let one = Shape::Cron(Cron::One);
    assert_eq!(
        command(&json!({"cmd": "CronGet", "name": "c"})),
        (named("c"), one.clone())
    );
    assert_eq!(command(&json!({"cmd": "CronGet"})), (named(""), one));
    assert_eq!(
        command(&json!({"cmd": "CronDelete", "name": "c"})),
        (
            DeleteCron { name: "c".into() }.into(),
            Shape::Cron(Cron::Deleted)
        )
    );
    assert_eq!(
        command(&json!({"cmd": "CronList", "name": 5})),
        (ListCrons { page: None }.into(), Shape::Cron(Cron::List))
    );
    for cmd in ["CronGet", "CronDelete"] {
        assert_eq!(
            refused(&json!({"cmd": cmd, "name": [1]})),
            "name must be a string"
        );
    }
}
