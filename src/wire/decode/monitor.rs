//! Figures (tcp protocol section 23).

use super::{Decoded, ask};
use crate::command::{
    ArgumentError, CompactMemory, GetOverview, GetQueueDetail, GetStats, GetStorageStatus,
    ListQueueSummaries, MetricsDraft, TrimEvents,
};
use crate::wire::fields::Fields;
use crate::wire::shape::{Monitor, Shape};

pub(super) fn by_name(name: &[u8], fields: &Fields<'_>) -> Option<Decoded> {
    Some(match name {
        b"Stats" => ask(GetStats, Shape::Monitor(Monitor::Stats)),
        b"Metrics" => metrics(fields),
        b"TrimEvents" => trim_events(fields),
        b"Prometheus" => {
            let (registered, queues) = (false, usize::MAX);
            let asked = GetOverview { registered, queues };
            ask(asked, Shape::Monitor(Monitor::Exposition))
        }
        b"StorageStatus" => ask(GetStorageStatus, Shape::Monitor(Monitor::Storage)),
        b"CompactMemory" => ask(CompactMemory, Shape::Done),
        b"DashboardOverview" => {
            let (registered, queues) = (true, 0);
            let asked = GetOverview { registered, queues };
            ask(asked, Shape::Monitor(Monitor::Overview))
        }
        b"DashboardQueues" => ask(ListQueueSummaries, Shape::Monitor(Monitor::Queues)),
        b"DashboardQueue" => queue_detail(fields),
        _ => return None,
    })
}

/// Naming neither a queue nor a type asks for figures over all queues.
fn metrics(fields: &Fields<'_>) -> Decoded {
    let (queue, kind) = (fields.value("queue"), fields.value("type"));
    if queue.is_none() && kind.is_none() {
        return ask(GetStats, Shape::Monitor(Monitor::Metrics));
    }
    let draft = MetricsDraft {
        queue: queue
            .map(|queue| queue.as_text().ok_or(ArgumentError::QueueInvalid))
            .transpose()?,
        kind: kind.and_then(|kind| kind.as_text()),
        start: fields.number("start"),
        end: fields.number("end"),
    };
    ask(draft.check()?, Shape::Monitor(Monitor::QueueMetrics))
}

fn trim_events(fields: &Fields<'_>) -> Decoded {
    let trim = TrimEvents::check(fields.queue_text()?, fields.number("maxLength"))?;
    ask(trim, Shape::Monitor(Monitor::Trimmed))
}

fn queue_detail(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let include_jobs = fields.truthy("includeJobs");
    let asked = GetQueueDetail::asked(queue, include_jobs, fields.number("jobsLimit"));
    ask(asked, Shape::Monitor(Monitor::Queue))
}
