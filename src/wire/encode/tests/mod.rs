//! Answers in, replies out: the exact keys and values of every shape.

mod cron;
mod dlq;
mod flow;
mod group;
mod job;
mod monitor;
mod outcome;
mod query;
mod webhook;

use serde_json::{Value as Json, json};

use super::*;
use crate::command::payload::Reader;
use crate::engine::{
    Delivery, JobDetail, JobId, JobOptions, JobView, LockToken, Overview, Payload, State,
    TimelineEntry,
};
use crate::wire::frame::{Front, front};
use crate::wire::reply::{self, Memory, Surroundings};

const NOW: Millis = 1_700_000_050_000;
/// What a process would know beside its broker.
struct Around;

impl Surroundings for Around {
    fn now(&self) -> Millis {
        NOW
    }

    fn memory(&self) -> Memory {
        Memory {
            heap: 3_000_000,
            resident: 5_000_000,
        }
    }

    fn exposition(&self, overview: &Overview) -> String {
        format!("queues {}", overview.queues.len())
    }
}

const TOKEN: &str = "0190a0b0-1234-7abc-8def-0123456789ab";

/// The body of the only frame in `wire`.
fn body(wire: &[u8]) -> &[u8] {
    match front(wire) {
        Front::Frame { body, rest: [] } => body,
        other => panic!("{other:?}"),
    }
}

fn frame(shape: &Shape, answer: &Result<Reply, CommandError>) -> Vec<u8> {
    let mut out = Vec::new();
    let req_id = ReqId::from_raw(b"\xa17");
    assert!(reply::answer(&mut out, &req_id, shape, answer, &Around));
    no_64_bit_integers(body(&out));
    out
}

fn json_of(wire: &[u8]) -> Json {
    rmp_serde::from_slice(body(wire)).unwrap()
}

/// The reply without its identity, which is checked.
#[expect(
    clippy::needless_pass_by_value,
    reason = "answers are made where they are used"
)]
fn shown(shape: &Shape, answer: Result<Reply, CommandError>) -> Json {
    let mut reply = json_of(&frame(shape, &answer));
    let req_id = reply.as_object_mut().unwrap().remove("reqId");
    assert_eq!(req_id, Some(json!("7")));
    reply
}

/// JavaScript clients cannot calculate with the 64-bit encodings.
fn no_64_bit_integers(body: &[u8]) {
    let mut reader = Reader::new(body);
    while let Some(marker) = reader.rest().first() {
        assert!(
            !matches!(marker, 0xcf | 0xd3),
            "64-bit integer in {body:x?}"
        );
        reader.read().unwrap();
    }
}

fn id(text: &str) -> JobId {
    JobId::from_text(text)
}

fn payload(value: &Json) -> Payload {
    Payload::new(&rmp_serde::to_vec_named(value).unwrap())
}

fn job() -> JobView {
    JobView {
        id: id("j1"),
        has_custom_id: false,
        queue: "q".into(),
        name: "n".into(),
        data: Some(payload(&json!({"x": 1}))),
        state: State::Waiting,
        priority: 0.0,
        created_at: 1_700_000_000_000,
        run_at: 1_700_000_000_001,
        started_at: None,
        completed_at: None,
        last_heartbeat: 1_700_000_000_002,
        attempts: 0,
        max_attempts: 3,
        stall_count: 0,
        progress: 0.0,
        progress_message: None,
        stacktrace: None,
        lifo: false,
        remove_on_complete: false,
        remove_on_fail: false,
        durable: false,
        options: JobOptions::default().into(),
        links: None,
        timeline: vec![TimelineEntry {
            state: State::Waiting,
            at: 1_700_000_000_003,
            error: None,
            attempt: None,
        }],
    }
}

/// [`job`] on the wire.
fn job_json() -> Json {
    let own = json!({
        "id": "j1", "queue": "q", "name": "n", "data": {"x": 1}, "createdAt": 1_700_000_000_000.0,
        "runAt": 1_700_000_000_001.0, "startedAt": null, "completedAt": null, "attempts": 0,
        "maxAttempts": 3, "priority": 0, "lifo": false, "customId": null, "progress": 0,
        "progressMessage": null, "stacktrace": null, "removeOnComplete": false,
        "removeOnFail": false, "durable": false, "lastHeartbeat": 1_700_000_000_002.0,
        "stallCount": 0, "timeline": [{"state": "waiting", "timestamp": 1_700_000_000_003.0}],
    });
    let options = json!({
        "backoff": 1000, "backoffConfig": null, "ttl": null, "timeout": null,
        "stallTimeout": null, "uniqueKey": null, "parentId": null, "groupId": null,
        "dependsOn": [], "childrenIds": [], "childrenCompleted": 0, "tags": [], "repeat": null,
        "stackTraceLimit": 10, "keepLogs": null, "sizeLimit": null, "failParentOnFailure": false,
        "removeDependencyOnFailure": false, "continueParentOnFailure": false,
        "ignoreDependencyOnFailure": false, "deduplicationTtl": null,
        "deduplicationExtend": false, "deduplicationReplace": false, "debounceId": null,
        "debounceTtl": null,
    });
    with(own, options)
}

fn with(mut object: Json, more: Json) -> Json {
    let Json::Object(more) = more else { panic!() };
    object.as_object_mut().unwrap().extend(more);
    object
}

fn delivery(token: bool) -> Delivery {
    Delivery {
        serial: 1,
        seq: 0,
        job: job(),
        token: token.then(|| LockToken::from_text(TOKEN).unwrap()),
    }
}

fn detail(job: JobView) -> JobDetail {
    JobDetail {
        job,
        result: None,
        failure: None,
    }
}
