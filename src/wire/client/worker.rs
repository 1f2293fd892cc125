//! Workers, and what belongs to the connection itself (tcp protocol sections 5, 20 and 22).

use super::answer::yes;
use super::ask::ask;
use super::{Exchange, Refused};
use crate::command::{Command, Reply, Workers};
use crate::engine::{EventType, EventTypes, WorkerRegistration, WorkerStats, WorkerView};
use crate::wire::fields::Fields;

/// The protocol that is spoken here.
const PROTOCOL_VERSION: f64 = 3.0;

/// Shows a token; an error unless it is one.
pub fn auth(token: &str) -> Exchange {
    ask("Auth").text("token", token).done()
}

/// Asks who is there; an error unless somebody is who lets this connection ask.
pub fn hello() -> Exchange {
    ask("Hello")
        .number("protocolVersion", PROTOCOL_VERSION)
        .texts("capabilities", &["pipelining", "separate-job-name"])
        .done()
}

/// Asks for the events of a queue instead of those that this connection had asked for.
pub fn subscribe(queue: &str, types: EventTypes) -> Exchange {
    let names: Vec<_> = EventType::ALL
        .into_iter()
        .filter(|kind| types.contains(*kind))
        .map(EventType::name)
        .collect();
    let request = ask("SubscribeEvents").text("queue", queue);
    if types.covers(EventTypes::named(EventType::ALL.map(EventType::name))) {
        request.done()
    } else {
        request.texts("eventTypes", &names).done()
    }
}

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    let absent = || Refused::Absent(Reply::Flag(false));
    Some(match command {
        Command::RegisterWorker(register) => registration(&register.worker),
        Command::WorkerHeartbeat(beat) => ask("Heartbeat")
            .text("id", &beat.id)
            .number_if("activeJobs", beat.figures.active_jobs)
            .number_if("processed", beat.figures.processed)
            .number_if("failed", beat.figures.failed)
            .then(yes)
            .or(absent()),
        Command::UnregisterWorker(worker) => ask("UnregisterWorker")
            .text("workerId", &worker.id)
            .then(yes)
            .or(absent()),
        Command::ListWorkers(_) => ask("ListWorkers").then(list),
        _ => return None,
    })
}

fn registration(worker: &WorkerRegistration) -> Exchange {
    ask("RegisterWorker")
        .text("name", &worker.name)
        .texts("queues", &worker.queues)
        .text_if("workerId", worker.id.as_deref())
        .number_if("concurrency", worker.concurrency)
        .text_if("hostname", worker.hostname.as_deref())
        .number_if("pid", worker.pid)
        .time_if("startedAt", worker.started_at)
        .then(|fields| {
            let worker = view(&fields.inner("data")?, "workerId")?;
            Some(Reply::Worker(Box::new(worker)))
        })
}

fn list(fields: &Fields<'_>) -> Option<Reply> {
    let data = fields.inner("data")?;
    let list = data.maps("workers", |worker| view(worker, "id"))?;
    let stats = data.inner("stats")?;
    let figure = |name| stats.f64(name).unwrap_or(0.0);
    Some(Reply::Workers(Workers {
        stats: WorkerStats {
            total: stats.size("total")?,
            active: stats.size("active")?,
            total_processed: figure("totalProcessed"),
            total_failed: figure("totalFailed"),
            active_jobs: figure("activeJobs"),
            concurrency_slots: figure("concurrencySlots"),
        },
        list,
    }))
}

fn view(fields: &Fields<'_>, id: &str) -> Option<WorkerView> {
    let figure = |name| fields.f64(name).unwrap_or(0.0);
    Some(WorkerView {
        id: fields.shared(id)?,
        name: fields.shared("name")?,
        queues: fields.shared_list("queues"),
        concurrency: figure("concurrency"),
        hostname: fields
            .shared("hostname")
            .unwrap_or_else(|| "unknown".into()),
        pid: figure("pid"),
        registered_at: fields.millis("registeredAt").unwrap_or(0),
        last_seen: fields.millis("lastSeen").unwrap_or(0),
        active: fields.str("status") != Some("stale"),
        active_jobs: figure("activeJobs"),
        processed_jobs: figure("processedJobs"),
        failed_jobs: figure("failedJobs"),
    })
}
