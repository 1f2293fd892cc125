//! Both ends against each other, and the golden dialogues of the reference from this end.

use std::path::Path;

use serde_json::{Map, Value as Json, json};

use super::*;
use crate::command::draft::{BackoffDraft, JobDraft};
use crate::command::given::{Number, Text};
use crate::command::{
    Ack, AckMany, Add, AddLog, AddMany, ArgumentError, Cancel, ChangeDelay, ChangePriority, Clean,
    ClearLogs, DeleteCron, Discard, Drain, ErrorCode, ExtendLock, Fail, GetCounts,
    GetCountsPerPriority, GetCron, GetDlq, GetDlqStats, GetJob, GetJobs, GetLogs, GetResult,
    GetState, Heartbeat, IsPaused, ListCrons, ListQueues, ListWebhooks, ListWorkers, MoveToWait,
    Obliterate, Pause, Progress, Promote, PromoteMany, Pull, PurgeDlq, QueueName, RegisterWorker,
    RemoveWebhook, Renew, Resume, RetryCompleted, RetryDlq, SetConcurrency, SetRateLimit,
    SetWebhookEnabled, UnregisterWorker, UpdateData, WaitJob, WorkerHeartbeat,
};
use crate::engine::{
    AddOutcome, Added, Bucket, CleanState, CompletedSelection, DlqFilter, DlqSelection, EventKind,
    EventTypes, FailReport, FailureReason, Listing, LockToken, Payload, RateLimit, Refusal,
    TokenGiven, WaitFor, WorkerFigures, WorkerRegistration,
};
use crate::wire::decode::{Action, Decoder};
use crate::wire::envelope::Envelope;
use crate::wire::frame::{Front, HEADER_LEN, front};

const TOKEN: &str = "0198c0de-0000-7000-8000-000000000001";

fn packed(value: &Json) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap()
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn id() -> JobId {
    JobId::from_text("j")
}

fn token() -> TokenGiven {
    TokenGiven::Token(LockToken::from_text(TOKEN).unwrap())
}

fn payload(value: &Json) -> Payload {
    Payload::new(&packed(value))
}

/// The command that the other end reads out of the request for it.
fn received(command: &Command) -> Command {
    let frame = exchange(command).unwrap().frame(7).unwrap();
    let Front::Frame { body, rest } = front(&frame) else {
        panic!("no whole frame for {command:?}");
    };
    assert!(rest.is_empty() && frame.len() == HEADER_LEN + body.len());
    let envelope = Envelope::read(body).unwrap();
    assert_eq!(envelope.req_id().raw(), Some(&b"\xa17"[..]));
    match Decoder::default().decode(&envelope) {
        Action::Command(command, _) => command,
        other => panic!("{command:?} arrives as {other:?}"),
    }
}

fn heard(command: impl Into<Command>, reply: &Json) -> Result<Heard, CommandError> {
    exchange(&command.into()).unwrap().hear(&packed(reply))
}

/// A job with every option that can be sent.
fn full_job() -> crate::engine::NewJob {
    let data = packed(&json!({ "to": "ada", "n": [1, -1, 2.5, null] }));
    JobDraft {
        name: Some("n"),
        data: Some(&data),
        custom_id: Some("own"),
        priority: Number::Value(-3.0),
        delay: Number::Value(1_500.0),
        timeout: Number::Value(9.0),
        max_attempts: Number::Value(7.0),
        backoff: BackoffDraft::Object {
            fixed: true,
            delay: Number::Value(20.0),
            max_delay: Number::Value(40.0),
        },
        ttl: Number::Value(1e9),
        stall_timeout: Number::Value(11.0),
        timestamp: Number::Value(1_700_000_000_000.0),
        stack_trace_limit: Number::Value(3.0),
        keep_logs: Number::Value(4.0),
        size_limit: Number::Value(5_000.0),
        unique_key: Some("k"),
        dedup_ttl: Number::Value(50.0),
        dedup_extend: true,
        dedup_replace: true,
        debounce_id: Some("d"),
        debounce_ttl: Number::Value(1.0),
        tags: vec!["a", "b"],
        lifo: true,
        remove_on_complete: true,
        remove_on_fail: true,
        durable: true,
        ignore_dependency_on_failure: true,
        ..JobDraft::default()
    }
    .check()
    .unwrap()
}

fn grouped_job() -> crate::engine::NewJob {
    JobDraft {
        group_id: Text::Value("g"),
        group_max: Number::Value(5.0),
        backoff: BackoffDraft::Number(Number::Value(12.0)),
        parent_id: Some("stored-only"),
        ..JobDraft::default()
    }
    .check()
    .unwrap()
}

fn commands() -> Vec<Command> {
    let renew = |duration| Renew {
        id: id(),
        token: token(),
        duration,
    };
    let pull = |count, locked, lock_ttl| Pull {
        queue: queue(),
        count,
        wait: 500,
        locked,
        lock_ttl,
        detach: count == 1 && !locked,
        group: None,
    };
    let ack = |id: &str, result| Ack {
        id: JobId::from_text(id),
        token: token(),
        result,
        remove_on_complete: false,
    };
    let default_ttl = crate::command::bounds::LOCK_TTL_DEFAULT;
    vec![
        Add {
            queue: queue(),
            job: full_job(),
        }
        .into(),
        Add {
            queue: queue(),
            job: grouped_job(),
        }
        .into(),
        AddMany {
            queue: queue(),
            jobs: vec![full_job(), JobDraft::default().check().unwrap()],
        }
        .into(),
        pull(1, true, 5_000.0).into(),
        pull(1, false, default_ttl).into(),
        pull(9, true, 5_000.0).into(),
        pull(9, false, default_ttl).into(),
        ack("j", Some(payload(&json!(null)))).into(),
        AckMany {
            items: vec![ack("a", None), ack("b", None)],
        }
        .into(),
        Fail {
            id: id(),
            token: token(),
            report: FailReport {
                error: Some("no".into()),
                stack: Some(vec!["line".into()]),
                unrecoverable: true,
                remove_on_fail: true,
            },
        }
        .into(),
        Heartbeat {
            items: vec![renew(Some(5.0))],
        }
        .into(),
        Heartbeat {
            items: vec![renew(None), renew(None)],
        }
        .into(),
        ExtendLock {
            items: vec![renew(Some(5.0))],
        }
        .into(),
        ExtendLock {
            items: vec![renew(Some(5.0)), renew(None)],
        }
        .into(),
        Progress {
            id: id(),
            progress: 12.5,
            message: Some("half".into()),
        }
        .into(),
        Cancel { id: id() }.into(),
        Discard {
            id: id(),
            token: token(),
        }
        .into(),
        UpdateData {
            id: id(),
            data: Some(payload(&json!({ "a": 1 }))),
        }
        .into(),
        ChangePriority {
            id: id(),
            priority: 5.0,
            lifo: Some(false),
        }
        .into(),
        ChangeDelay {
            id: id(),
            delay: -5.0,
            token: token(),
        }
        .into(),
        Promote { id: id() }.into(),
        PromoteMany {
            queue: queue(),
            count: Some(3),
        }
        .into(),
        MoveToWait {
            id: id(),
            token: token(),
        }
        .into(),
        AddLog {
            id: id(),
            level: "warn".into(),
            message: "m".into(),
        }
        .into(),
        ClearLogs { id: id(), keep: 2 }.into(),
        GetLogs { id: id() }.into(),
        GetJob { id: id() }.into(),
        GetState { id: id() }.into(),
        GetResult { id: id() }.into(),
        WaitJob {
            id: id(),
            until: WaitFor::Completed,
            timeout: 77,
        }
        .into(),
        GetJobs {
            listing: Listing {
                queue: "q".into(),
                buckets: vec![Bucket::State(State::Waiting), Bucket::Paused],
                after: None,
                offset: 3,
                limit: 4,
                ascending: false,
            },
        }
        .into(),
        GetCounts { queue: queue() }.into(),
        GetCountsPerPriority { queue: queue() }.into(),
        ListQueues.into(),
        Pause { queue: queue() }.into(),
        Resume { queue: queue() }.into(),
        IsPaused { queue: queue() }.into(),
        Drain { queue: queue() }.into(),
        Clean {
            queue: queue(),
            grace: 5.0,
            state: CleanState::Bucket(Bucket::State(State::Completed)),
            limit: 6,
        }
        .into(),
        Obliterate { queue: queue() }.into(),
        GetDlq {
            queue: queue(),
            filter: DlqFilter {
                reason: Some(FailureReason::Timeout),
                older_than: Some(9),
                newer_than: Some(8),
                retriable: true,
                expired: true,
                after: None,
                offset: 1,
                limit: Some(2),
            },
        }
        .into(),
        GetDlqStats { queue: queue() }.into(),
        RetryDlq {
            queue: queue(),
            selection: DlqSelection::One(id()),
        }
        .into(),
        PurgeDlq { queue: queue() }.into(),
        RetryCompleted {
            queue: queue(),
            selection: CompletedSelection::One(id()),
        }
        .into(),
        RetryCompleted {
            queue: queue(),
            selection: CompletedSelection::Oldest {
                until: Some(5),
                limit: Some(6),
            },
        }
        .into(),
        SetRateLimit {
            queue: queue(),
            limit: RateLimit {
                max: 5,
                duration: 6,
            },
            ttl: Some(7),
        }
        .into(),
        SetConcurrency {
            queue: queue(),
            limit: 0,
        }
        .into(),
        RegisterWorker {
            worker: WorkerRegistration {
                id: Some("w".into()),
                name: "n".into(),
                queues: vec!["q".into()],
                concurrency: Some(2.0),
                hostname: Some("h".into()),
                pid: Some(3.0),
                started_at: Some(4),
            },
        }
        .into(),
        WorkerHeartbeat {
            id: "w".into(),
            figures: WorkerFigures {
                active_jobs: Some(1.0),
                processed: Some(2.0),
                failed: Some(3.0),
            },
        }
        .into(),
        UnregisterWorker { id: "w".into() }.into(),
        ListWorkers.into(),
        RemoveWebhook { id: "h".into() }.into(),
        SetWebhookEnabled {
            id: "h".into(),
            enabled: false,
        }
        .into(),
        ListWebhooks.into(),
        GetCron { name: "c".into() }.into(),
        ListCrons { page: None }.into(),
        DeleteCron { name: "c".into() }.into(),
    ]
}

#[test]
fn what_is_asked_is_what_the_other_end_reads() {
    for command in commands() {
        assert_eq!(received(&command), command);
    }
}

#[test]
fn a_cron_arrives_with_everything_it_says() {
    use crate::command::UpsertCron;
    use crate::command::schedule::{CronDraft, CronJobDraft};
    let data = packed(&json!({ "x": 1 }));
    for prevent_overlap in [None, Some(true), Some(false)] {
        let cron = CronDraft {
            name: "c",
            schedule: Some("0 9 * * 1-5"),
            timezone: Some("Europe/Rome"),
            max_limit: Number::Value(3.0),
            immediately: true,
            skip_missed_on_restart: Some(false),
            skip_if_no_worker: true,
            prevent_overlap,
            job_name: Some("n"),
            data: Some(&data),
            priority: Number::Value(2.0),
            unique_key: Some("k"),
            dedup_ttl: Number::Value(9.0),
            job: CronJobDraft {
                max_attempts: Number::Value(4.0),
                delay: Number::Value(5.0),
                timeout: Number::Value(6.0),
                remove_on_complete: true,
                ..CronJobDraft::default()
            },
            ..CronDraft::default()
        }
        .check(&queue())
        .unwrap();
        let command = UpsertCron { cron }.into();
        assert_eq!(received(&command), command);
    }
}

/// Every golden request whose command this end can ask is asked by it, and the golden reply has to make sense to it.
#[test]
fn golden_replies_are_understood() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tcp");
    let mut understood = std::collections::BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let dialogue: Json = serde_json::from_str(&text).unwrap();
        for step in dialogue["steps"].as_array().unwrap() {
            let (Some(send), Some(expect)) = (
                step["send"].as_object(),
                step.get("target")
                    .or(step.get("expect"))
                    .and_then(Json::as_object),
            ) else {
                continue;
            };
            let Some(command) = asked(send) else { continue };
            let Ok(exchange) = exchange(&command) else {
                continue;
            };
            let name = send["cmd"].as_str().unwrap().to_owned();
            // Several commands of the protocol are one command here.
            if exchange.name != name {
                continue;
            }
            let heard = exchange.hear(&packed(&concrete("", &Json::Object(expect.clone()))));
            assert_ne!(
                heard,
                Err(RemoteFault::Unreadable.into()),
                "{send:?} answered with {expect:?}"
            );
            understood.insert(name);
        }
    }
    assert!(
        understood.len() > 55,
        "{}: {understood:?}",
        understood.len()
    );
}

fn asked(send: &Map<String, Json>) -> Option<Command> {
    let body = packed(&concrete("", &Json::Object(send.clone())));
    match Decoder::default().decode(&Envelope::read(&body).ok()?) {
        Action::Command(command, _) => Some(command),
        _ => None,
    }
}

/// A golden value with something in each place; tagged forms of the dialogues are left as they are.
fn concrete(key: &str, value: &Json) -> Json {
    match value {
        Json::String(text) if text == "<ts>" => json!(1_700_000_000_000.0),
        Json::String(text) if text == "<num>" => json!(5),
        Json::String(text) if text == "<any>" => match key {
            "url" | "id" | "name" | "error" | "metrics" | "version" => json!("text"),
            _ => json!(5),
        },
        Json::Array(items) => items.iter().map(|item| concrete(key, item)).collect(),
        Json::Object(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone(), concrete(key, value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

#[test]
fn refusals_are_the_causes_that_are_known_here() {
    let refused = |text: &str| {
        let reply = json!({ "ok": false, "error": text, "reqId": "7" });
        heard(Pause { queue: queue() }, &reply).unwrap_err()
    };
    let known: [CommandError; 7] = [
        Refusal::TokenRequired(JobId::from_text("a b")).into(),
        Refusal::TokenInvalid(JobId::from_text("a")).into(),
        Refusal::NotActive(JobId::from_text("a:b")).into(),
        Refusal::OwnerNeeded(JobId::from_text("a")).into(),
        ArgumentError::QueueInvalid.into(),
        CommandError::Internal,
        CommandError::ShuttingDown,
    ];
    for error in known {
        assert_eq!(refused(&error.to_string()), error);
    }
    for (text, code) in [
        ("Not authenticated", ErrorCode::BackendUnavailable),
        ("Something not found there", ErrorCode::NotFound),
        ("limit must be a finite number", ErrorCode::InvalidArguments),
        ("Whatever", ErrorCode::Conflict),
    ] {
        let error = refused(text);
        assert_eq!((error.to_string().as_str(), error.code()), (text, code));
    }
    let silent = json!({ "ok": false, "reqId": "7" });
    let error = heard(Pause { queue: queue() }, &silent).unwrap_err();
    assert_eq!(error.to_string(), "Pause failed");
}

#[test]
fn only_what_says_no_is_an_answer() {
    let refused = |text: &str| heard(Cancel { id: id() }, &json!({ "ok": false, "error": text }));
    let Ok(Heard::Unclear { id: of, what }) = refused("Job not found or cannot be cancelled")
    else {
        panic!("the state decides");
    };
    assert_eq!(of, id());
    assert_eq!(what.by_state(None), Reply::Changed(Change::NotFound));
    let active = Reply::Changed(Change::WrongState(State::Active));
    assert_eq!(what.by_state(Some(State::Active)), active);
    assert_eq!(
        refused("Job is not active (current state: completed)"),
        Ok(Heard::Reply(Reply::Changed(Change::WrongState(
            State::Completed
        ))))
    );
    assert_eq!(
        refused("Cannot move job from state 'waiting-children' to waiting"),
        Ok(Heard::Reply(Reply::Changed(Change::WrongState(
            State::WaitingChildren
        ))))
    );
    assert!(refused("Not authenticated").is_err());
    let lock = json!({ "ok": false, "error": "Lock not found or invalid token" });
    let renew = Renew {
        id: id(),
        token: token(),
        duration: None,
    };
    let Ok(Heard::Unclear { what, .. }) = heard(ExtendLock { items: vec![renew] }, &lock) else {
        panic!("the state decides");
    };
    assert_eq!(
        what.by_state(Some(State::Active)),
        Reply::Renewed(vec![Renewal::InvalidToken])
    );
    assert_eq!(what.by_state(None), Reply::Renewed(vec![Renewal::NotFound]));
    let missing = json!({ "ok": false, "error": "Job not found" });
    assert_eq!(
        heard(GetJob { id: id() }, &missing),
        Ok(Heard::Reply(Reply::Job(None)))
    );
}

#[test]
fn how_jobs_came_to_be_is_told_or_left_open() {
    let outcome = |reply: Json| {
        let add = Add {
            queue: queue(),
            job: full_job(),
        };
        match heard(add, &reply) {
            Ok(Heard::Reply(Reply::Added(Added { outcome, .. }))) => outcome,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        outcome(json!({ "ok": true, "id": "a" })),
        AddOutcome::Unknown
    );
    assert_eq!(
        outcome(json!({ "ok": true, "id": "a", "outcome": "new" })),
        AddOutcome::New
    );
    assert_eq!(
        outcome(json!({ "ok": true, "id": "a", "outcome": "replaced", "replaced": "b" })),
        AddOutcome::Replaced(JobId::from_text("b"))
    );
    let many = AddMany {
        queue: queue(),
        jobs: vec![full_job(), full_job()],
    };
    let reply = json!({ "ok": true, "ids": ["a"] });
    assert_eq!(heard(many, &reply), Err(RemoteFault::Unreadable.into()));
}

#[test]
fn frames_are_replies_events_or_nothing_of_the_protocol() {
    let seen = |value: Json| incoming(&packed(&value));
    assert_eq!(
        seen(json!({ "ok": true, "reqId": "12" })),
        Some(Incoming::Reply(12))
    );
    assert_eq!(
        seen(json!({ "ok": false, "error": "x" })),
        Some(Incoming::Other)
    );
    assert_eq!(
        seen(json!({ "type": "event", "event": {} })),
        Some(Incoming::Event)
    );
    assert_eq!(seen(json!({ "reqId": "12" })), None);
    assert_eq!(seen(json!([1])), None);
    assert_eq!(incoming(b"HTTP/1.1 400"), None);
    assert_eq!(incoming(&[]), None);
}

#[test]
fn events_arrive_as_they_were_sent() {
    use crate::engine::{Event, StallDetail};
    let kinds = [
        EventKind::Pushed,
        EventKind::Completed {
            result: Some(payload(&json!([1]))),
        },
        EventKind::Failed {
            error: Some("e".into()),
            data: None,
            terminal: true,
        },
        EventKind::Progress {
            progress: 40.0,
            message: Some("m".into()),
        },
        EventKind::Stalled {
            detail: Some(StallDetail {
                stall_count: 2,
                to_dlq: true,
            }),
        },
        EventKind::Delayed { delay: 7.0 },
        EventKind::Removed {
            prev: State::Delayed,
        },
        EventKind::Drained { count: 3 },
    ];
    for kind in kinds {
        let event = Event {
            queue: "q".into(),
            job: Some(id()),
            at: 1_700_000_000_000,
            kind,
        };
        let frame = crate::wire::event::encode(&event);
        let Front::Frame { body, .. } = front(&frame) else {
            panic!("no frame");
        };
        assert_eq!(incoming(body), Some(Incoming::Event));
        assert_eq!(super::event(body), Some(event));
    }
}

#[test]
fn subscriptions_name_their_types_unless_they_want_all() {
    use crate::engine::EventType;
    let body = |types| {
        let frame = subscribe("q", types).frame(1).unwrap();
        rmp_serde::from_slice::<Json>(&frame[HEADER_LEN..]).unwrap()
    };
    let all = json!({ "cmd": "SubscribeEvents", "reqId": "1", "queue": "q" });
    assert_eq!(body(EventTypes::ALL), all);
    let some = EventTypes::NONE
        .with(EventType::Progress)
        .with(EventType::Failed);
    assert_eq!(body(some)["eventTypes"], json!(["failed", "progress"]));
}

#[test]
fn lines_and_letters_of_one_moment_are_told_apart() {
    let line = |at: f64, text: &str| json!({ "timestamp": at, "level": "info", "message": text });
    let lines = [line(5.0, "a"), line(5.0, "b"), line(6.0, "c")];
    let reply = json!({ "ok": true, "data": { "logs": lines, "count": 3 } });
    let Ok(Heard::Reply(Reply::Logs(lines))) = heard(GetLogs { id: id() }, &reply) else {
        panic!("no lines");
    };
    assert!(
        lines.is_sorted_by(|one, two| one.seq < two.seq),
        "{lines:?}"
    );
}
