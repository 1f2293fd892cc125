//! Events of another server (tcp protocol section 22).

use super::message;
use crate::engine::{Event, EventKind, EventType, Payload, StallDetail, State};
use crate::wire::fields::Fields;

/// The event in the body of a frame; `None` for one that nobody here knows, or that lacks what its type has.
pub fn read(body: &[u8]) -> Option<Event> {
    let event = message(body)?.inner("event")?;
    let name = event.str("eventType")?;
    let kind = EventType::ALL
        .into_iter()
        .find(|kind| kind.name() == name)?;
    Some(Event {
        queue: event.shared("queue")?,
        job: event
            .job_id("jobId")
            .filter(|_| event.str("jobId") != Some("")),
        at: event.millis("timestamp")?,
        kind: of_type(kind, &event)?,
    })
}

fn of_type(kind: EventType, event: &Fields<'_>) -> Option<EventKind> {
    let payload = || event.raw("data").map(Payload::new);
    let prev = || event.str("prev").and_then(State::from_name);
    let count = || {
        event
            .inner("data")
            .and_then(|data| data.size("count"))
            .unwrap_or(0)
    };
    Some(match kind {
        EventType::Pushed => EventKind::Pushed,
        EventType::Duplicated => EventKind::Duplicated,
        EventType::Pulled => EventKind::Pulled,
        EventType::Completed => EventKind::Completed { result: payload() },
        EventType::Failed => EventKind::Failed {
            error: event.shared("error"),
            data: payload(),
            terminal: event.is_true("terminal"),
        },
        EventType::Retried => EventKind::Retried,
        EventType::Progress => EventKind::Progress {
            progress: event.f64("progress")?,
            message: event.inner("data").and_then(|data| data.shared("message")),
        },
        EventType::Stalled => EventKind::Stalled {
            detail: event.inner("data").as_ref().and_then(stall),
        },
        EventType::Delayed => EventKind::Delayed {
            delay: event.f64("delay").unwrap_or(0.0),
        },
        EventType::Waiting => EventKind::Waiting {
            prev: prev().unwrap_or(State::Active),
        },
        EventType::WaitingChildren => EventKind::WaitingChildren {
            prev: prev().unwrap_or(State::Active),
        },
        EventType::Removed => EventKind::Removed {
            prev: prev().unwrap_or(State::Waiting),
        },
        EventType::Paused => EventKind::Paused,
        EventType::Resumed => EventKind::Resumed,
        EventType::Drained => EventKind::Drained { count: count() },
        EventType::Cleaned => EventKind::Cleaned { count: count() },
        EventType::Obliterated => EventKind::Obliterated { count: count() },
        // Notices are for those who operate that server.
        EventType::QueueIdle
        | EventType::QueueThreshold
        | EventType::WorkerOverloaded
        | EventType::MemoryWarning
        | EventType::StorageWarning => return None,
    })
}

fn stall(data: &Fields<'_>) -> Option<StallDetail> {
    Some(StallDetail {
        stall_count: data.u32("stallCount")?,
        to_dlq: data.str("action") == Some("move_to_dlq"),
    })
}
