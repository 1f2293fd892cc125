//! The text format of Prometheus. Names, types and labels are those of the engine contract, section 22; what this version
//! does not have (backups, schedules) is there with the value that is true of it.

use std::fmt::{Display, Write};

use super::Process;
use crate::engine::{Counts, Durability, Histogram, Overview};

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A figure of a queue: last part of its name, what it counts, where it stands.
type PerQueue = (&'static str, &'static str, fn(&Counts) -> usize);

const PER_QUEUE: [PerQueue; 5] = [
    (
        "waiting",
        "Ready jobs of default or lower priority",
        |jobs| jobs.waiting,
    ),
    ("prioritized", "Ready jobs of higher priority", |jobs| {
        jobs.prioritized
    }),
    ("delayed", "Jobs that are not due yet", |jobs| jobs.delayed),
    ("active", "Jobs in work", |jobs| jobs.active),
    ("dlq", "Jobs that failed for good", |jobs| jobs.failed),
];

/// The text: `connections` are those of workers, figures per queue are those of the queues that the overview lists.
pub fn render(overview: &Overview, process: &Process, connections: usize) -> String {
    let mut text = Text::default();
    text.jobs(overview);
    text.registered(overview);
    text.storage(overview);
    text.process(overview, process);
    text.connections(connections);
    text.queues(overview);
    text.backups();
    text.durations(overview);
    text.0
}

/// A text in the making.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// A text to go on with.
    pub(super) const fn after(text: String) -> Self {
        Self(text)
    }

    /// The text so far.
    pub(super) fn into_string(self) -> String {
        self.0
    }

    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a text cannot fail.
        let _ = self.0.write_fmt(line);
        self.0.push('\n');
    }

    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.line(format_args!("{name} {value}"));
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "counter", help);
        self.line(format_args!("{name} {value}"));
    }

    fn jobs(&mut self, overview: &Overview) {
        let stats = &overview.stats;
        for (part, help, count) in PER_QUEUE {
            let name = format!("bunqueue_jobs_{part}");
            self.gauge(&name, &format!("{help}, all queues"), count(&stats.jobs));
        }
        self.gauge(
            "bunqueue_jobs_completed",
            "Completed jobs that are kept, all queues",
            stats.jobs.completed,
        );
        self.gauge(
            "bunqueue_jobs_waiting_children",
            "Jobs that wait for other jobs, all queues",
            stats.jobs.waiting_children,
        );
        self.gauge(
            "bunqueue_oldest_waiting_children_seconds",
            "Age of the oldest job that waits for other jobs; 0 without one",
            seconds(stats.oldest_waiting_children.unwrap_or(0)),
        );
        let totals = stats.totals.since_start;
        for (part, help, count) in [
            ("pushed", "Jobs added since the start", totals.pushed),
            ("pulled", "Jobs delivered since the start", totals.pulled),
            (
                "completed",
                "Jobs completed since the start",
                totals.completed,
            ),
            (
                "failed",
                "Jobs failed for good since the start",
                totals.failed,
            ),
        ] {
            self.counter(&format!("bunqueue_jobs_{part}_total"), help, count);
        }
        self.gauge(
            "bunqueue_uptime_seconds",
            "Time since the start",
            seconds(stats.uptime),
        );
    }

    fn registered(&mut self, overview: &Overview) {
        let (stats, workers) = (&overview.stats, &overview.worker_stats);
        let help = "Registered schedules";
        self.gauge("bunqueue_cron_jobs_registered", help, stats.cron_jobs);
        let help = "Registered workers";
        self.gauge("bunqueue_workers_registered", help, workers.total);
        let help = "Workers seen recently";
        self.gauge("bunqueue_workers_active", help, workers.active);
        let help = "Jobs that workers say they work on";
        self.gauge("bunqueue_worker_active_jobs", help, workers.active_jobs);
        let help = "Jobs that the active workers can work on at the same time";
        self.gauge(
            "bunqueue_worker_concurrency_slots",
            help,
            workers.concurrency_slots,
        );
        let help = "Jobs that workers say they have completed";
        self.counter(
            "bunqueue_workers_processed_total",
            help,
            workers.total_processed,
        );
        let help = "Jobs that workers say they have failed";
        self.counter("bunqueue_workers_failed_total", help, workers.total_failed);
        let webhooks = overview.webhooks;
        self.gauge(
            "bunqueue_webhooks_registered",
            "Registered webhooks",
            webhooks.total,
        );
        self.gauge(
            "bunqueue_webhooks_enabled",
            "Webhooks that are switched on",
            webhooks.enabled,
        );
    }

    fn storage(&mut self, overview: &Overview) {
        let storage = &overview.storage;
        let degraded = u8::from(storage.is_degraded());
        self.gauge(
            "bunqueue_storage_degraded",
            "1 while the store has trouble",
            degraded,
        );
        let full = u8::from(storage.disk_full);
        self.gauge(
            "bunqueue_storage_disk_full",
            "1 while the disk is full",
            full,
        );
        if storage.durability == Durability::None {
            return;
        }
        let usage = storage.usage;
        let help = "Size of the data file";
        self.gauge("bunqueue_storage_file_bytes", help, usage.file_bytes);
        let help = "Size of its write-ahead file";
        self.gauge("bunqueue_storage_log_bytes", help, usage.log_bytes);
        let help = "Jobs and queues with changes that are not stored yet";
        self.gauge("bunqueue_storage_unsaved", help, usage.unsaved);
        let help = "How long the last commit took";
        self.gauge(
            "bunqueue_storage_commit_seconds",
            help,
            usage.commit.as_secs_f64(),
        );
    }

    fn process(&mut self, overview: &Overview, process: &Process) {
        if let Some(heap) = process.heap {
            // The system does not tell what the allocator holds in reserve, so used and total are the same.
            let help =
                "Heap and stacks in RAM, in use or held in reserve: memory that stands for no file";
            self.gauge("bunqueue_process_heap_used_bytes", help, heap);
            let help =
                "The same as bunqueue_process_heap_used_bytes: the reserve is not told apart";
            self.gauge("bunqueue_process_heap_total_bytes", help, heap);
            let help = "The same as bunqueue_process_heap_used_bytes, under the name that many dashboards use";
            self.gauge("process_heap_bytes", help, heap);
        }
        if let Some(resident) = process.resident {
            let help = "All memory in RAM: heap, stacks, and what stands for files, such as the program itself";
            self.gauge("bunqueue_process_resident_memory_bytes", help, resident);
            let help = "The same as bunqueue_process_resident_memory_bytes, under the usual name";
            self.gauge("process_resident_memory_bytes", help, resident);
        }
        if let Some(cpu) = process.cpu_seconds {
            self.counter("process_cpu_seconds_total", "Processor time used", cpu);
        }
        let started_at = overview.at.saturating_sub(overview.stats.uptime);
        self.gauge(
            "process_start_time_seconds",
            "When the broker started, in Unix time",
            seconds(started_at),
        );
        self.head("bunqueue_build_info", "gauge", "What runs here");
        self.line(format_args!(
            "bunqueue_build_info{{implementation=\"{}\",version=\"{}\"}} 1",
            env!("CARGO_PKG_NAME"),
            env!("CARGO_PKG_VERSION")
        ));
    }

    fn connections(&mut self, tcp: usize) {
        self.head(
            "bunqueue_connections",
            "gauge",
            "Open connections of workers by transport",
        );
        for (transport, count) in [("tcp", tcp), ("websocket", 0), ("sse", 0)] {
            self.line(format_args!(
                "bunqueue_connections{{transport=\"{transport}\"}} {count}"
            ));
        }
    }

    fn queues(&mut self, overview: &Overview) {
        let shown = &overview.queues;
        for (part, help, count) in PER_QUEUE {
            let name = format!("bunqueue_queue_jobs_{part}");
            self.head(&name, "gauge", &format!("{help}, by queue"));
            for queue in shown {
                let (label, count) = (escaped(&queue.name), count(&queue.jobs));
                self.line(format_args!("{name}{{queue=\"{label}\"}} {count}"));
            }
        }
        let (exported, omitted) = (shown.len(), overview.omitted_queues);
        let help = "Queues with figures of their own here";
        self.gauge("bunqueue_queue_metrics_exported", help, exported);
        let help = "Queues without figures of their own here";
        self.gauge("bunqueue_queue_metrics_omitted", help, omitted);
    }

    fn backups(&mut self) {
        for (part, help) in [
            ("enabled", "1 when backups are made"),
            ("scheduler_running", "1 while backups are scheduled"),
            ("in_progress", "1 while a backup is made"),
            (
                "interval_seconds",
                "Time from backup to backup; 0 without backups",
            ),
            ("retention", "Backups kept"),
            ("consecutive_failures", "Failures since the last success"),
            (
                "last_success_timestamp_seconds",
                "When the last backup was made; 0 for never",
            ),
            (
                "last_failure_timestamp_seconds",
                "When a backup last failed; 0 for never",
            ),
            ("last_duration_seconds", "How long the last backup took"),
            ("last_size_bytes", "Size of the last backup"),
        ] {
            self.gauge(&format!("bunqueue_backup_{part}"), help, 0);
        }
        for (part, help) in [
            ("attempts", "Backups begun"),
            ("successes", "Backups made"),
            ("failures", "Backups that failed"),
            (
                "overlap_rejections",
                "Backups not begun because one was in progress",
            ),
        ] {
            self.counter(&format!("bunqueue_backup_{part}_total"), help, 0);
        }
    }

    fn durations(&mut self, overview: &Overview) {
        let latency = &overview.latency;
        self.histogram("push", "Time to add jobs, of a sample", &latency.push);
        self.histogram(
            "pull",
            "Time to pull jobs without waiting, of a sample",
            &latency.pull,
        );
        self.histogram("ack", "Time to acknowledge jobs, of a sample", &latency.ack);
    }

    fn histogram(&mut self, part: &str, help: &str, histogram: &Histogram) {
        let name = format!("bunqueue_{part}_duration_seconds");
        self.head(&name, "histogram", help);
        for (bound, count) in histogram.cumulated() {
            let bound = bound / 1_000.0;
            self.line(format_args!("{name}_bucket{{le=\"{bound}\"}} {count}"));
        }
        let count = histogram.count();
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {count}"));
        self.line(format_args!("{name}_sum {}", histogram.sum() / 1_000.0));
        self.line(format_args!("{name}_count {count}"));
    }
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

/// A label's value as it stands between quotes.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escaped("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
    }
}
