//! Events as frames (tcp protocol section 22).

use crate::engine::{Event, EventKind, Millis, StallDetail, WorkerLoad};

use super::encode::Entries;
use super::frame;

/// Notices tell spans in whole seconds.
const MS_PER_SECOND: Millis = 1_000;

/// Bytes that hold the frame of most events.
const USUAL_BYTES: usize = 160;

/// The frame of an event; empty when no frame can hold it, so that it alone is skipped.
pub fn encode(event: &Event) -> Vec<u8> {
    let mut out = Vec::with_capacity(USUAL_BYTES);
    if frame::append(&mut out, |out| write(out, event)) {
        out
    } else {
        Vec::new()
    }
}

fn write(out: &mut Vec<u8>, event: &Event) {
    let mut map = Entries::new(out);
    map.header(2);
    map.text("type", "event");
    map.nested("event", 4 + extra_entries(&event.kind));
    map.text("eventType", event.kind.name());
    map.text("queue", &event.queue);
    match &event.job {
        Some(id) => id.with_text(|id| map.text("jobId", id)),
        // Clients drop the connection when the key is missing.
        None => map.text("jobId", ""),
    }
    map.time("timestamp", event.at);
    write_extra(&mut map, &event.kind);
}

fn extra_entries(kind: &EventKind) -> usize {
    match kind {
        EventKind::Pushed
        | EventKind::Duplicated
        | EventKind::Pulled
        | EventKind::Paused
        | EventKind::Resumed => 0,
        EventKind::Completed { result } => usize::from(result.is_some()),
        EventKind::Failed { error, data, .. } => {
            1 + usize::from(error.is_some()) + usize::from(data.is_some())
        }
        EventKind::Progress { .. } => 2,
        EventKind::Stalled { detail } => usize::from(detail.is_some()),
        EventKind::Retried
        | EventKind::Delayed { .. }
        | EventKind::Waiting { .. }
        | EventKind::WaitingChildren { .. }
        | EventKind::Removed { .. }
        | EventKind::Drained { .. }
        | EventKind::Cleaned { .. }
        | EventKind::Obliterated { .. }
        | EventKind::QueueIdle { .. }
        | EventKind::QueueThreshold { .. }
        | EventKind::WorkerOverloaded { .. }
        | EventKind::MemoryWarning { .. }
        | EventKind::StorageWarning { .. } => 1,
    }
}

fn write_extra(map: &mut Entries<'_>, kind: &EventKind) {
    match kind {
        EventKind::Pushed
        | EventKind::Duplicated
        | EventKind::Pulled
        | EventKind::Paused
        | EventKind::Resumed => {}
        EventKind::Completed { result } => {
            if let Some(result) = result {
                map.raw("data", result.bytes());
            }
        }
        EventKind::Failed {
            error,
            data,
            terminal,
        } => {
            map.bool("terminal", *terminal);
            if let Some(error) = error {
                map.text("error", error);
            }
            if let Some(data) = data {
                map.raw("data", data.bytes());
            }
        }
        EventKind::Retried => map.text("prev", "failed"),
        EventKind::Progress { progress, message } => {
            map.number("progress", *progress);
            map.nested("data", 2);
            map.number("progress", *progress);
            map.text_or_nil("message", message.as_deref());
        }
        EventKind::Stalled { detail } => {
            if let Some(detail) = detail {
                stalled(map, *detail);
            }
        }
        EventKind::Delayed { delay } => map.number("delay", *delay),
        EventKind::Waiting { prev }
        | EventKind::WaitingChildren { prev }
        | EventKind::Removed { prev } => map.text("prev", prev.name()),
        EventKind::Drained { count }
        | EventKind::Cleaned { count }
        | EventKind::Obliterated { count } => {
            map.nested("data", 1);
            map.count("count", *count);
        }
        EventKind::QueueIdle { idle } => {
            map.nested("data", 1);
            map.time("idleSeconds", idle / MS_PER_SECOND);
        }
        EventKind::QueueThreshold { size, threshold } => {
            map.nested("data", 2);
            map.count("size", *size);
            map.count("threshold", *threshold);
        }
        EventKind::WorkerOverloaded { load } => overloaded(map, load),
        EventKind::MemoryWarning {
            heap_mib,
            threshold_mib,
            resident_mib,
        } => {
            map.nested("data", 3);
            map.number("heapUsedMB", *heap_mib as f64);
            map.number("thresholdMB", *threshold_mib as f64);
            map.number("rssMB", *resident_mib as f64);
        }
        EventKind::StorageWarning {
            size_mib,
            threshold_mib,
        } => {
            map.nested("data", 2);
            map.number("sizeMB", *size_mib as f64);
            map.number("thresholdMB", *threshold_mib as f64);
        }
    }
}

fn overloaded(map: &mut Entries<'_>, load: &WorkerLoad) {
    map.nested("data", 5);
    map.text("workerId", &load.worker);
    map.text("name", &load.name);
    map.number("activeJobs", load.active_jobs);
    map.number("concurrency", load.concurrency);
    map.time("overloadedSeconds", load.overloaded / MS_PER_SECOND);
}

fn stalled(map: &mut Entries<'_>, detail: StallDetail) {
    map.nested("data", 2);
    map.time("stallCount", detail.stall_count.into());
    let action = if detail.to_dlq {
        "move_to_dlq"
    } else {
        "retry"
    };
    map.text("action", action);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::engine::{JobId, Payload, State};
    use crate::wire::frame::{Front, front};

    fn shown(job: Option<&str>, kind: EventKind) -> Json {
        let event = Event {
            queue: "q".into(),
            job: job.map(JobId::from_text),
            at: 1_700_000_000_000,
            kind,
        };
        let wire = encode(&event);
        let Front::Frame { body, rest: [] } = front(&wire) else {
            panic!("{wire:x?}");
        };
        rmp_serde::from_slice(body).unwrap()
    }

    fn payload(value: &Json) -> Option<Payload> {
        Some(Payload::new(&rmp_serde::to_vec_named(value).unwrap()))
    }

    #[test]
    fn every_kind_has_its_fields() {
        let detail = |to_dlq| {
            Some(StallDetail {
                stall_count: 2,
                to_dlq,
            })
        };
        let data = || payload(&json!({"d": 1}));
        let message = Some("m".into());
        let (error, no_error) = (Some("e".into()), None);
        let prev = State::Delayed;
        let cases = [
            (EventKind::Pushed, "pushed", json!({})),
            (EventKind::Duplicated, "duplicated", json!({})),
            (EventKind::Pulled, "pulled", json!({})),
            (
                EventKind::Completed { result: None },
                "completed",
                json!({}),
            ),
            (
                EventKind::Completed {
                    result: payload(&json!(null)),
                },
                "completed",
                json!({"data": null}),
            ),
            (
                EventKind::Failed {
                    error,
                    data: data(),
                    terminal: true,
                },
                "failed",
                json!({"error": "e", "data": {"d": 1}, "terminal": true}),
            ),
            (
                EventKind::Failed {
                    error: no_error,
                    data: None,
                    terminal: false,
                },
                "failed",
                json!({"terminal": false}),
            ),
            (EventKind::Retried, "retried", json!({"prev": "failed"})),
            (
                EventKind::Progress {
                    progress: 42.0,
                    message,
                },
                "progress",
                json!({"progress": 42, "data": {"progress": 42, "message": "m"}}),
            ),
            (
                EventKind::Progress {
                    progress: 0.5,
                    message: None,
                },
                "progress",
                json!({"progress": 0.5, "data": {"progress": 0.5, "message": null}}),
            ),
            (EventKind::Stalled { detail: None }, "stalled", json!({})),
            (
                EventKind::Stalled {
                    detail: detail(false),
                },
                "stalled",
                json!({"data": {"stallCount": 2, "action": "retry"}}),
            ),
            (
                EventKind::Stalled {
                    detail: detail(true),
                },
                "stalled",
                json!({"data": {"stallCount": 2, "action": "move_to_dlq"}}),
            ),
            (
                EventKind::Delayed { delay: 5.0 },
                "delayed",
                json!({"delay": 5}),
            ),
            (
                EventKind::Waiting {
                    prev: State::Active,
                },
                "waiting",
                json!({"prev": "active"}),
            ),
            (
                EventKind::Removed { prev },
                "removed",
                json!({"prev": "delayed"}),
            ),
        ];
        for (kind, name, extra) in cases {
            let mut event = json!({
                "eventType": name, "queue": "q", "jobId": "j", "timestamp": 1_700_000_000_000.0,
            });
            event
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            assert_eq!(
                shown(Some("j"), kind),
                json!({"type": "event", "event": event})
            );
        }
    }

    #[test]
    fn events_of_a_queue_have_an_empty_job_id() {
        let load = Box::new(WorkerLoad {
            worker: "w".into(),
            name: "n".into(),
            active_jobs: 3.0,
            concurrency: 2.0,
            overloaded: 40_000,
        });
        let cases = [
            (EventKind::Paused, "paused", json!({})),
            (EventKind::Resumed, "resumed", json!({})),
            (
                EventKind::Drained { count: 3 },
                "drained",
                json!({"data": {"count": 3}}),
            ),
            (
                EventKind::Cleaned { count: 1 },
                "cleaned",
                json!({"data": {"count": 1}}),
            ),
            (
                EventKind::Obliterated { count: 2 },
                "obliterated",
                json!({"data": {"count": 2}}),
            ),
            (
                EventKind::QueueIdle { idle: 30_999 },
                "queue:idle",
                json!({"data": {"idleSeconds": 30}}),
            ),
            (
                EventKind::QueueThreshold {
                    size: 7,
                    threshold: 5,
                },
                "queue:threshold",
                json!({"data": {"size": 7, "threshold": 5}}),
            ),
            (
                EventKind::WorkerOverloaded { load },
                "worker:overloaded",
                json!({"data": {
                    "workerId": "w", "name": "n", "activeJobs": 3, "concurrency": 2, "overloadedSeconds": 40,
                }}),
            ),
            (
                EventKind::MemoryWarning {
                    heap_mib: 600,
                    threshold_mib: 512,
                    resident_mib: 700,
                },
                "server:memory-warning",
                json!({"data": {"heapUsedMB": 600, "thresholdMB": 512, "rssMB": 700}}),
            ),
            (
                EventKind::StorageWarning {
                    size_mib: 1_100,
                    threshold_mib: 1_024,
                },
                "server:storage-warning",
                json!({"data": {"sizeMB": 1_100, "thresholdMB": 1_024}}),
            ),
        ];
        for (kind, name, extra) in cases {
            let mut event = json!({
                "eventType": name, "queue": "q", "jobId": "", "timestamp": 1_700_000_000_000.0,
            });
            event
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            assert_eq!(shown(None, kind), json!({"type": "event", "event": event}));
        }
    }

    #[test]
    fn an_event_that_no_frame_holds_is_nothing() {
        let result = Some(Payload::new(&vec![0xc0; 67_108_864]));
        let event = Event {
            queue: "q".into(),
            job: None,
            at: 0,
            kind: EventKind::Completed { result },
        };
        assert!(encode(&event).is_empty());
    }
}
