//! Toolset `workers`: the registry of workers. Prose: `toolsets/workers.md`. Workers that call a URL are in `handlers.rs`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::handlers::{list_handlers, register_handler, unregister_handler};
use super::{Found, LeftOut, Nothing, put};
use crate::command::{ListWorkers, RegisterWorker as RegisterWorkerCommand};
use crate::command::{UnregisterWorker, WorkerHeartbeat};
use crate::engine::{WorkerFigures, WorkerRegistration, WorkerView};
use crate::mcp::call::Call;
use crate::mcp::error::ToolError;
use crate::mcp::page::fit;
use crate::mcp::parameter::AnyId;
use crate::mcp::registry::{Policy, Toolset};
use crate::mcp::view::whole;

/// Bytes that the names of a worker's queues may take in an answer: a worker may serve thousands.
const QUEUES_SHOWN: usize = 8_192;

pub(super) fn toolset() -> Toolset {
    Toolset::new("workers", include_str!("../../../toolsets/workers.md"))
        .tool(
            "bunqueue_register_worker",
            "Register worker",
            Policy::WRITE,
            register_worker,
        )
        .tool(
            "bunqueue_unregister_worker",
            "Unregister worker",
            Policy::WRITE.idempotent(),
            unregister_worker,
        )
        .tool(
            "bunqueue_worker_heartbeat",
            "Worker heartbeat",
            Policy::WRITE.idempotent(),
            worker_heartbeat,
        )
        .tool(
            "bunqueue_list_workers",
            "List workers",
            Policy::READ,
            list_workers,
        )
        .tool(
            "bunqueue_register_handler",
            "Register HTTP handler",
            Policy::WRITE.open_world(),
            register_handler,
        )
        .tool(
            "bunqueue_unregister_handler",
            "Remove HTTP handler",
            Policy::WRITE.idempotent(),
            unregister_handler,
        )
        .tool(
            "bunqueue_list_handlers",
            "List HTTP handlers",
            Policy::READ,
            list_handlers,
        )
}

#[derive(Deserialize, JsonSchema)]
struct RegisterWorker {
    name: String,
    #[schemars(length(min = 1), inner(length(min = 1)))]
    queues: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct WorkerRegistered {
    success: bool,
    /// Its id, name, queues, active, processed, failed and lastHeartbeat (epoch ms)
    worker: Map<String, Value>,
}

async fn register_worker(
    call: Call,
    arguments: RegisterWorker,
) -> Result<WorkerRegistered, ToolError> {
    let worker = WorkerRegistration {
        id: None,
        name: arguments.name.into(),
        queues: arguments.queues.into_iter().map(Arc::from).collect(),
        concurrency: None,
        hostname: None,
        pid: None,
        started_at: None,
    };
    let registered = call.run(RegisterWorkerCommand { worker }).await?;
    Ok(WorkerRegistered {
        success: true,
        worker: members(&registered),
    })
}

/// A worker as agents see it.
fn members(worker: &WorkerView) -> Map<String, Value> {
    let mut room = QUEUES_SHOWN;
    let queues = worker.queues.iter().map(|queue| Value::from(&**queue));
    let shown: Vec<Value> = queues
        .take_while(|queue| {
            let bytes = queue.to_string().len() + 1;
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        })
        .collect();
    let is_cut = shown.len() < worker.queues.len();
    let mut members = Map::new();
    put(&mut members, "id", &*worker.id);
    put(&mut members, "name", &*worker.name);
    put(&mut members, "queues", shown);
    if is_cut {
        put(&mut members, "queuesTruncated", true);
    }
    put(&mut members, "active", whole(worker.active_jobs));
    put(&mut members, "processed", whole(worker.processed_jobs));
    put(&mut members, "failed", whole(worker.failed_jobs));
    put(&mut members, "lastHeartbeat", worker.last_seen);
    members
}

/// A tool that takes a worker and nothing else.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OneWorker {
    worker_id: AnyId,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WorkerChanged {
    #[serde(flatten)]
    found: Found,
    worker_id: String,
}

impl WorkerChanged {
    fn new(worker: OneWorker, success: bool) -> Self {
        Self {
            found: Found::new(success),
            worker_id: worker.worker_id.0,
        }
    }
}

async fn unregister_worker(call: Call, arguments: OneWorker) -> Result<WorkerChanged, ToolError> {
    let id = arguments.worker_id.shared();
    let removed = call.run(UnregisterWorker { id }).await?;
    Ok(WorkerChanged::new(arguments, removed))
}

async fn worker_heartbeat(call: Call, arguments: OneWorker) -> Result<WorkerChanged, ToolError> {
    let seen = call
        .run(WorkerHeartbeat {
            id: arguments.worker_id.shared(),
            figures: WorkerFigures::default(),
        })
        .await?;
    Ok(WorkerChanged::new(arguments, seen))
}

#[derive(Serialize, JsonSchema)]
struct Workers {
    /// Workers in this answer
    count: usize,
    /// Workers as register_worker answers, in the order in which they registered
    workers: Vec<Value>,
    #[serde(flatten)]
    left_out: LeftOut,
}

async fn list_workers(call: Call, _: Nothing) -> Result<Workers, ToolError> {
    let workers = call.run(ListWorkers).await?.list;
    let fitted = fit(workers.iter().map(|worker| Value::Object(members(worker))));
    let left_out = LeftOut::of(workers.len(), &fitted, |left| {
        format!("{left} more workers, which registered later, do not fit; they count all the same.")
    });
    Ok(Workers {
        count: fitted.items.len(),
        workers: fitted.items,
        left_out,
    })
}
