//! Workers, and what belongs to the connection itself: authentication and subscriptions
//! (tcp protocol sections 5, 20 and 22).

use std::sync::Arc;

use crate::command::draft::whole_millis;
use crate::command::{
    ArgumentError, ListWorkers, QueueName, RegisterWorker, UnregisterWorker, WorkerHeartbeat,
    bounds,
};
use crate::engine::{EventTypes, WorkerFigures, WorkerRegistration};

use super::{Action, Decoded, SessionAction, ask};
use crate::wire::fields::{Fields, text};
use crate::wire::shape::Shape;

pub(super) fn register(fields: &Fields<'_>) -> Decoded {
    let name = fields
        .text("name")?
        .ok_or(ArgumentError::Required("name"))?;
    if fields.value("queues").is_none() {
        return Err(ArgumentError::NotList("queues").into());
    }
    let started_at = fields.number("startedAt").finite("startedAt")?;
    let worker = WorkerRegistration {
        id: worker_id(fields, "workerId")?.filter(|id| !id.is_empty()),
        name: name.into(),
        queues: fields.texts("queues")?.into_iter().map(Arc::from).collect(),
        concurrency: fields.number("concurrency").finite("concurrency")?,
        hostname: fields.text("hostname")?.map(Arc::from),
        pid: fields.number("pid").finite("pid")?,
        started_at: started_at.map(whole_millis),
    };
    ask(RegisterWorker { worker }, Shape::RegisterWorker)
}

pub(super) fn unregister(fields: &Fields<'_>) -> Decoded {
    let id = worker_id(fields, "workerId")?.unwrap_or_default();
    ask(UnregisterWorker { id }, Shape::UnregisterWorker)
}

pub(super) fn heartbeat(fields: &Fields<'_>) -> Decoded {
    let heartbeat = WorkerHeartbeat {
        id: worker_id(fields, "id")?.unwrap_or_default(),
        figures: WorkerFigures {
            active_jobs: fields.number("activeJobs").finite("activeJobs")?,
            processed: fields.number("processed").finite("processed")?,
            failed: fields.number("failed").finite("failed")?,
        },
    };
    ask(heartbeat, Shape::WorkerHeartbeat)
}

pub(super) fn list() -> Decoded {
    ask(ListWorkers, Shape::ListWorkers)
}

fn worker_id(fields: &Fields<'_>, name: &'static str) -> Result<Option<Arc<str>>, ArgumentError> {
    Ok(fields.text(name)?.map(Arc::from))
}

/// A token that is no text proves nothing, and is refused like any wrong one.
pub(super) fn auth(fields: &Fields<'_>) -> SessionAction {
    let token = fields.text("token").ok().flatten();
    SessionAction::Auth {
        token: token.map(str::to_owned),
    }
}

pub(super) fn subscribe(fields: &Fields<'_>) -> Decoded {
    let queue = QueueName::new(fields.queue_text()?)?;
    let types = match fields.list("eventTypes", bounds::EVENT_TYPES_MAX) {
        Ok(None) => EventTypes::ALL,
        Ok(Some(names)) if names.len() > 0 => {
            let names: Option<Vec<&str>> = names.map(text).collect();
            EventTypes::named(names.ok_or(ArgumentError::EventTypes)?)
        }
        _ => return Err(ArgumentError::EventTypes.into()),
    };
    Ok(Action::Session(SessionAction::Subscribe { queue, types }))
}
