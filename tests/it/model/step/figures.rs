//! Commands about figures.

use bunqueue_mcp::command::{
    Command, CompactMemory, GetCount, GetMemoryStats, GetOverview, GetQueueDetail, GetQueueHealth,
    GetQueueMetrics, GetStats, ListQueueSummaries, QueueName, TrimEvents,
};
use bunqueue_mcp::engine::MetricKind;

pub(super) fn on_figures(which: u8, queue: QueueName, number: u64) -> Command {
    let number = number as usize;
    match which {
        0 => GetCount { queue }.into(),
        1 => GetStats.into(),
        2 => GetQueueMetrics {
            queue,
            kind: [MetricKind::Completed, MetricKind::Failed][number % 2],
            start: [0, 0, 1, 7][number / 2 % 4],
            end: [usize::MAX, 0, 3, 60][number / 8 % 4],
        }
        .into(),
        3 => TrimEvents {
            queue,
            keep: [0, 1, 5, 100][number % 4],
        }
        .into(),
        4 => GetMemoryStats.into(),
        5 => GetQueueDetail {
            queue,
            previews: [None, Some(0), Some(2)][number % 3],
        }
        .into(),
        6 => GetQueueHealth { queue }.into(),
        7 => ListQueueSummaries.into(),
        8 => GetOverview::ALL.into(),
        _ => CompactMemory.into(),
    }
}
