//! The pages of the HTTP listener beside MCP: health for probes, metrics, documentation for readers (MCP contract,
//! section 1.5).
//!
//! They look at no `Host`: probes send any, and the documentation is the same for everybody. Metrics alone may ask for a
//! token, if the operator says so.
//! Other methods than GET and HEAD get 405 with `Allow`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::broker::{Broker, BrokerExt};
use crate::command::{GetStorageStatus, ListQueueSummaries};
use crate::engine::{Counts, QueueSummary};
use crate::metrics::{CONTENT_TYPE, Exporter, Process};

/// Whether a path belongs to these pages, so that nothing else can have it.
pub fn is_page(path: &str) -> bool {
    let fixed = [
        "/health",
        "/ready",
        "/healthz",
        "/live",
        "/prometheus",
        "/llms.txt",
        "/llms-full.txt",
    ];
    let folder = |folder: &str| {
        path == folder
            || path
                .strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/'))
    };
    fixed.contains(&path) || folder("/docs") || folder("/llms")
}

/// Where somebody who knows none of these pages may begin.
pub const FIRST_PATHS: [&str; 5] = [
    "/health",
    "/ready",
    "/prometheus",
    "/llms.txt",
    "/docs/README.md",
];

/// Answers a request that may not see the metrics; `None` for one that may.
pub type Guard = Arc<dyn Fn(&HeaderMap) -> Option<Response> + Send + Sync>;

/// What the pages look at.
#[derive(Clone)]
pub struct Pages {
    broker: Arc<dyn Broker>,
    started: Instant,
    /// The documentation: path to text.
    site: Arc<BTreeMap<String, String>>,
    metrics: Exporter,
    guard: Option<Guard>,
    /// Fires when the process begins to stop.
    stopping: CancellationToken,
}

impl Pages {
    /// Pages on a broker, with the documentation as a map from path (`llms.txt`, `docs/README.md`) to text, and metrics
    /// for whom `guard` lets pass; without one for everybody. From `stopping` on it is not ready.
    pub fn new(
        broker: Arc<dyn Broker>,
        site: BTreeMap<String, String>,
        metrics: Exporter,
        guard: Option<Guard>,
        stopping: CancellationToken,
    ) -> Self {
        Self {
            broker,
            started: Instant::now(),
            site: Arc::new(site),
            metrics,
            guard,
            stopping,
        }
    }

    /// The routes.
    pub fn router(self) -> Router {
        Router::new()
            .route("/health", get(health))
            .route("/ready", get(ready))
            .route("/healthz", get(|| async { "OK" }))
            .route("/live", get(|| async { "OK" }))
            .route("/prometheus", get(prometheus))
            .route(
                "/llms.txt",
                get(|State(pages): State<Self>| async move { pages.page("llms.txt") }),
            )
            .route(
                "/llms-full.txt",
                get(|State(pages): State<Self>| async move { pages.page("llms-full.txt") }),
            )
            .route("/docs/{*page}", get(document))
            .route("/llms/{*page}", get(toolset_file))
            .with_state(self)
    }

    fn page(&self, path: &str) -> Response {
        match self.site.get(path) {
            Some(text) => {
                let kind = HeaderValue::from_static("text/markdown; charset=utf-8");
                ([(header::CONTENT_TYPE, kind)], text.clone()).into_response()
            }
            None => (
                StatusCode::NOT_FOUND,
                "No such page. /llms.txt lists all of them.\n",
            )
                .into_response(),
        }
    }
}

async fn ready(State(pages): State<Pages>) -> Response {
    let ready = !pages.stopping.is_cancelled();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json_page(&json!({ "ok": ready, "ready": ready }));
    (status, body).into_response()
}

async fn document(State(pages): State<Pages>, Path(page): Path<String>) -> Response {
    pages.page(&format!("docs/{page}"))
}

async fn toolset_file(State(pages): State<Pages>, Path(page): Path<String>) -> Response {
    pages.page(&format!("llms/{page}"))
}

async fn prometheus(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    if let Some(refusal) = pages.guard.as_ref().and_then(|guard| guard(&headers)) {
        return refusal;
    }
    match pages.metrics.text().await {
        Ok(text) => {
            let kind = HeaderValue::from_static(CONTENT_TYPE);
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn health(State(pages): State<Pages>) -> Response {
    // One question for all queues, so that the counts are those of one moment.
    let queues = pages.broker.call(ListQueueSummaries).await;
    let storage = pages.broker.call(GetStorageStatus).await;
    let (Ok(queues), Ok(storage)) = (queues, storage) else {
        let body = json_page(&json!({ "ok": false, "status": "unavailable" }));
        return (StatusCode::SERVICE_UNAVAILABLE, body).into_response();
    };
    let (status, word) = if storage.is_degraded() {
        (StatusCode::SERVICE_UNAVAILABLE, "degraded")
    } else {
        (StatusCode::OK, "healthy")
    };
    let add = |sum: Counts, queue: &QueueSummary| sum.plus(&queue.jobs);
    let jobs = queues.iter().fold(Counts::default(), add);
    let body = json_page(&json!({
        "ok": status.is_success(),
        "status": word,
        "version": env!("CARGO_PKG_VERSION"),
        "uptime": pages.started.elapsed().as_secs(),
        "queues": {
            "total": queues.len(),
            "waiting": jobs.waiting + jobs.prioritized + jobs.paused,
            "delayed": jobs.delayed,
            "active": jobs.active,
            "completed": jobs.completed,
            "failed": jobs.failed,
        },
        "memory": { "rss": Process::now().resident },
    }));
    (status, body).into_response()
}

fn json_page(value: &serde_json::Value) -> Response {
    (
        [(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        )],
        value.to_string(),
    )
        .into_response()
}
