//! Replies with figures.

use std::sync::Arc;

use super::*;
use crate::command::given::Number;
use crate::command::schedule::CronDraft;
use crate::engine::{
    Counts, CronFigures, Durability, JobPreviews, Latency, MemoryStats, QueueDetail, QueueMetrics,
    QueueSummary, Stats, StorageStatus, StorageUsage, Throughput, Totalled, Totals, WebhookStats,
    WorkerStats, WorkerView,
};
use crate::wire::shape::Monitor;

fn monitored(shape: Monitor, reply: Reply) -> Json {
    let mut reply = shown(&Shape::Monitor(shape), Ok(reply));
    assert_eq!(reply["ok"], true);
    reply.as_object_mut().unwrap().remove("ok");
    reply
}

fn counts() -> Counts {
    Counts {
        waiting: 1,
        prioritized: 2,
        delayed: 3,
        active: 4,
        completed: 5,
        failed: 6,
        waiting_children: 7,
        paused: 0,
    }
}

fn totals(pushed: u64) -> Totalled {
    let totals = |pushed| Totals {
        pushed,
        pulled: pushed + 1,
        completed: pushed + 2,
        failed: pushed + 3,
    };
    Totalled {
        since_start: totals(pushed),
        lifetime: totals(pushed + 100),
    }
}

fn stats() -> Stats {
    Stats {
        jobs: counts(),
        totals: totals(10),
        uptime: 9_000_000_000,
        throughput: Throughput {
            push: 1.25,
            pull: 2.0,
            complete: 3.5,
            fail: 4.0,
        },
        average_latency: 0.5,
        average_work: 12.25,
        cron_jobs: 1,
        cron_pending: 1,
        oldest_waiting_children: None,
    }
}

fn storage(error: Option<&str>, disk_full: bool) -> StorageStatus {
    StorageStatus {
        disk_full,
        error: error.map(Arc::from),
        since: error.map(|_| NOW),
        durability: Durability::None,
        usage: StorageUsage::default(),
    }
}

fn summary(paused: bool) -> QueueSummary {
    QueueSummary {
        name: "q".into(),
        paused,
        jobs: counts(),
        totals: totals(20),
        journal: 3,
    }
}

fn memory() -> MemoryStats {
    MemoryStats {
        job_index: 1,
        completed_jobs: 2,
        job_results: 3,
        job_logs: 4,
        custom_id_map: 5,
        job_locks: 6,
        client_jobs: 7,
        client_jobs_total: 8,
        pending_dep_checks: 9,
        stalled_candidates: 10,
        processing_total: 11,
        queued_total: 12,
        waiting_deps_total: 13,
        temporal_index_total: 14,
        delayed_heap_total: 15,
    }
}

fn worker() -> WorkerView {
    WorkerView {
        id: "w-1".into(),
        name: "w".into(),
        queues: vec!["q".into()],
        concurrency: 4.0,
        hostname: "h".into(),
        pid: 7.0,
        registered_at: NOW - 1,
        last_seen: NOW,
        active: true,
        active_jobs: 1.0,
        processed_jobs: 2.0,
        failed_jobs: 3.0,
    }
}

fn overview() -> Overview {
    let cron = CronDraft {
        name: "c",
        repeat_every: Number::Value(1_000.0),
        ..CronDraft::default()
    };
    Overview {
        at: NOW,
        stats: stats(),
        latency: Latency::default(),
        memory: memory(),
        storage: storage(None, false),
        workers: vec![worker()],
        worker_stats: WorkerStats {
            total: 1,
            active: 1,
            ..WorkerStats::default()
        },
        crons: vec![super::cron::entry(&cron, CronFigures::default())],
        webhooks: WebhookStats::default(),
        queues: vec![summary(false)],
        omitted_queues: 0,
    }
}

#[test]
fn figures_are_those_since_the_start() {
    assert_eq!(
        monitored(Monitor::Stats, Reply::Stats(Box::new(stats()))),
        json!({"stats": {"waiting": 1, "active": 4, "delayed": 3, "dlq": 6, "completed": 5,
            "failed": 13, "uptime": 9e9, "pushPerSec": 1.25, "pullPerSec": 2}})
    );
    let megabytes = 3_000_000.0 / 1_048_576.0;
    assert_eq!(
        monitored(Monitor::Metrics, Reply::Stats(Box::new(stats()))),
        json!({"metrics": {"totalPushed": 10, "totalPulled": 11, "totalCompleted": 12,
            "totalFailed": 13, "avgLatencyMs": 0.5, "avgProcessingMs": 12.25,
            "memoryUsageMb": megabytes, "sqliteSizeMb": 0, "activeConnections": 0}})
    );
}

#[test]
fn metrics_of_a_queue_repeat_their_count() {
    let metrics = |figures| monitored(Monitor::QueueMetrics, Reply::Metrics(figures));
    let figures = QueueMetrics {
        count: 7,
        last_at: Some(NOW),
        minutes: 3,
        data: vec![4, 0],
    };
    assert_eq!(
        metrics(figures),
        json!({"data": {"meta": {"count": 7, "prevTS": NOW as f64, "prevCount": 7},
            "data": [4, 0], "count": 3}})
    );
    assert_eq!(
        metrics(QueueMetrics::default()),
        json!({"data": {"meta": {"count": 0, "prevTS": 0, "prevCount": 0}, "data": [],
            "count": 0}})
    );
    assert_eq!(
        monitored(Monitor::Trimmed, Reply::Counted(6)),
        json!({"data": {"removed": 6}})
    );
}

#[test]
fn only_a_full_disk_is_told_as_it_is() {
    let told = |status| monitored(Monitor::Storage, Reply::Storage(status))["data"].take();
    assert_eq!(
        told(storage(None, false)),
        json!({"diskFull": false, "error": null, "since": null})
    );
    assert_eq!(
        told(storage(Some("no room in /data"), true)),
        json!({"diskFull": true, "error": "no room in /data", "since": NOW as f64})
    );
    assert_eq!(
        told(storage(Some("cannot read /data"), false)),
        json!({"diskFull": false, "error": "Internal server error", "since": NOW as f64})
    );
}

#[test]
fn the_exposition_is_made_around_the_broker() {
    assert_eq!(
        monitored(Monitor::Exposition, Reply::Overview(Box::new(overview()))),
        json!({"data": {"metrics": "queues 1"}})
    );
}

#[test]
fn an_overview_has_every_key() {
    let none = json!({"p50": 0, "p95": 0, "p99": 0});
    let expected = json!({
        "stats": {"waiting": 1, "active": 4, "delayed": 3, "completed": 5, "dlq": 6,
            "totalPushed": 10, "totalPulled": 11, "totalCompleted": 12, "totalFailed": 13,
            "uptime": 9e9},
        "throughput": {"pushPerSec": 1.25, "pullPerSec": 2, "completePerSec": 3.5,
            "failPerSec": 4},
        "latency": {"averages": {"pushMs": 0, "pullMs": 0, "ackMs": 0},
            "percentiles": {"push": none, "pull": none, "ack": none}},
        "memory": {"heapUsed": 3, "heapTotal": 3, "rss": 5},
        "collections": {"jobIndex": 1, "completedJobs": 2, "jobResults": 3, "jobLogs": 4,
            "customIdMap": 5, "jobLocks": 6, "clientJobs": 7, "clientJobsTotal": 8,
            "pendingDepChecks": 9, "stalledCandidates": 10, "processingTotal": 11,
            "queuedTotal": 12, "waitingDepsTotal": 13, "temporalIndexTotal": 14,
            "delayedHeapTotal": 15},
        "workers": {"total": 1, "active": 1, "list": [{"id": "w-1", "name": "w",
            "queues": ["q"], "lastSeen": NOW as f64, "activeJobs": 1, "processedJobs": 2,
            "failedJobs": 3}]},
        "crons": [{"name": "c", "queue": "q", "schedule": null, "repeatEvery": 1000,
            "nextRun": null, "executions": 0}],
        "storage": {"diskFull": false, "error": null, "since": null},
        "timestamp": NOW as f64,
    });
    assert_eq!(
        monitored(Monitor::Overview, Reply::Overview(Box::new(overview()))),
        json!({"data": expected})
    );
}

#[test]
fn queues_are_shown_at_a_glance() {
    let queue = json!({"name": "q", "waiting": 1, "prioritized": 2, "delayed": 3, "active": 4,
        "dlq": 6, "paused": true});
    assert_eq!(
        monitored(Monitor::Queues, Reply::Summaries(vec![summary(true)])),
        json!({"data": {"queues": [queue], "timestamp": NOW as f64}})
    );
}

#[test]
fn the_page_of_a_queue_has_every_key() {
    let mut without_data = job();
    without_data.data = None;
    let mut page = QueueDetail {
        at: NOW,
        summary: summary(true),
        counts: Counts {
            paused: 8,
            ..counts()
        },
        priorities: vec![(1.5, 2), (0.0, 3)],
        dead_letters: vec![detail(job()), detail(without_data)],
        jobs: None,
    };
    let letter = json!({"id": "j1", "attempts": 0, "createdAt": 1_700_000_000_000.0});
    let expected = json!({
        "name": "q",
        "counts": {"waiting": 1, "prioritized": 2, "delayed": 3, "active": 4, "completed": 5,
            "failed": 6, "waiting-children": 7, "paused": 8, "totalCompleted": 22,
            "totalFailed": 23},
        "paused": true,
        "priorityCounts": {"1.5": 2, "0": 3},
        "dlqPreview": [with(letter.clone(), json!({"data": {"x": 1}})), letter],
        "timestamp": NOW as f64,
    });
    assert_eq!(
        monitored(Monitor::Queue, Reply::Detail(Box::new(page.clone()))),
        json!({"data": expected})
    );
    page.jobs = Some(JobPreviews {
        waiting: vec![job()],
        ..JobPreviews::default()
    });
    let preview = json!({"id": "j1", "priority": 0, "createdAt": 1_700_000_000_000.0,
        "runAt": 1_700_000_000_001.0, "attempts": 0, "progress": 0});
    let jobs = json!({"waiting": [preview], "active": [], "delayed": [], "paused": []});
    assert_eq!(
        monitored(Monitor::Queue, Reply::Detail(Box::new(page))),
        json!({"data": with(expected, json!({"jobs": jobs}))})
    );
}
