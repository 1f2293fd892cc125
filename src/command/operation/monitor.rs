//! Monitoring: figures, dashboards, the store, memory. Each reply is of one instant.

use super::{Execute, Outcome};
use crate::command::ArgumentError;
use crate::command::bounds::{self, QueueName};
use crate::command::given::Number;
use crate::engine::Progressing::Done;
use crate::engine::{Engine, MetricKind, Turn};

/// Reads figures over all queues.
#[derive(Clone, Debug, PartialEq)]
pub struct GetStats;

impl Execute for GetStats {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(Box::new(engine.stats(turn))))
    }
}

/// Reads how long operations take.
#[derive(Clone, Debug, PartialEq)]
pub struct GetLatency;

impl Execute for GetLatency {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(Box::new(engine.latency(turn))))
    }
}

/// Reads how many jobs of a queue ended in which minute.
#[derive(Clone, Debug, PartialEq)]
pub struct GetQueueMetrics {
    /// The queue.
    pub queue: QueueName,
    /// How they ended.
    pub kind: MetricKind,
    /// The first minute, 0 being the newest one.
    pub start: usize,
    /// The last minute; more than there are means all.
    pub end: usize,
}

impl Execute for GetQueueMetrics {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.queue_metrics(
            turn,
            self.queue.as_str(),
            self.kind,
            self.start,
            self.end,
        )))
    }
}

/// A request for the metrics of a queue as a client sent it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricsDraft<'a> {
    /// The queue.
    pub queue: Option<&'a str>,
    /// `completed` or `failed`.
    pub kind: Option<&'a str>,
    /// The first minute; 0 when absent.
    pub start: Number,
    /// The last minute; -1, or absent, means all.
    pub end: Number,
}

impl MetricsDraft<'_> {
    /// The command, if every value is acceptable.
    ///
    /// # Errors
    /// The first fault: queue, type, start, end.
    pub fn check(&self) -> Result<GetQueueMetrics, ArgumentError> {
        let queue = self.queue.filter(|queue| !queue.is_empty());
        let queue = QueueName::new(queue.ok_or(ArgumentError::MetricsQueue)?)?;
        let kind = self.kind.and_then(MetricKind::from_name);
        Ok(GetQueueMetrics {
            queue,
            kind: kind.ok_or(ArgumentError::MetricsType)?,
            start: self.start.safe_integer("start")?.unwrap_or(0),
            end: match self.end {
                Number::Value(-1.0) => usize::MAX,
                end => end.safe_integer("end")?.unwrap_or(usize::MAX),
            },
        })
    }
}

/// Cuts the event journal of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct TrimEvents {
    /// The queue.
    pub queue: QueueName,
    /// Events to keep, the newest.
    pub keep: usize,
}

impl TrimEvents {
    /// The command, if both values are acceptable.
    ///
    /// # Errors
    /// A bad queue name, or a length that is missing or no whole number from 0 on.
    pub fn check(queue: &str, max_length: Number) -> Result<Self, ArgumentError> {
        let field = "maxLength";
        let queue = QueueName::new(queue)?;
        let keep = max_length.safe_integer(field)?;
        Ok(Self {
            queue,
            keep: keep.ok_or(ArgumentError::NotSafeInteger(field))?,
        })
    }
}

impl Execute for TrimEvents {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.trim_events(
            turn,
            self.queue.as_str(),
            self.keep,
        )))
    }
}

/// Reads the sizes of what the engine keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct GetMemoryStats;

impl Execute for GetMemoryStats {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(Box::new(engine.memory_stats(turn))))
    }
}

/// Reads how the store is.
#[derive(Clone, Debug, PartialEq)]
pub struct GetStorageStatus;

impl Execute for GetStorageStatus {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.storage_status(turn)))
    }
}

/// Gives back memory that was needed once.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactMemory;

impl Execute for CompactMemory {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        // Nobody is told whether there was anything to give back.
        let _ = engine.compact(turn);
        Ok(Done(()))
    }
}

/// Reads everything over all queues at once: figures and sizes, and as much as is asked for of workers, crons and queues.
#[derive(Clone, Debug, PartialEq)]
pub struct GetOverview {
    /// Whether to list workers and crons; they are counted all the same.
    pub registered: bool,
    /// How many queues to list, the first in use; the others are counted.
    pub queues: usize,
}

impl GetOverview {
    /// With everything there is to list.
    pub const ALL: Self = Self {
        registered: true,
        queues: usize::MAX,
    };
}

impl Execute for GetOverview {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(Box::new(engine.overview(
            turn,
            self.registered,
            self.queues,
        ))))
    }
}

/// Lists all queues at a glance, in order of first use.
#[derive(Clone, Debug, PartialEq)]
pub struct ListQueueSummaries;

impl Execute for ListQueueSummaries {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.queue_summaries(turn)))
    }
}

/// Reads a queue for its page of a dashboard.
#[derive(Clone, Debug, PartialEq)]
pub struct GetQueueDetail {
    /// The queue.
    pub queue: QueueName,
    /// How many jobs of each state to show; `None` shows none.
    pub previews: Option<usize>,
}

impl GetQueueDetail {
    /// As a client asks for it: `include_jobs` shows jobs, `limit` of each state, at most [`bounds::PREVIEWS_MAX`].
    pub fn asked(queue: QueueName, include_jobs: bool, limit: Number) -> Self {
        let limit = match limit {
            Number::Value(limit) => (limit.max(0.0) as usize).min(bounds::PREVIEWS_MAX),
            Number::Absent | Number::NotNumber => bounds::PREVIEWS_DEFAULT,
        };
        Self {
            queue,
            previews: include_jobs.then_some(limit),
        }
    }
}

impl Execute for GetQueueDetail {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let detail = engine.queue_detail(turn, &self.queue.shared(), self.previews);
        Ok(Done(Box::new(detail)))
    }
}

/// Reads what tells whether a queue moves.
#[derive(Clone, Debug, PartialEq)]
pub struct GetQueueHealth {
    /// The queue.
    pub queue: QueueName,
}

impl Execute for GetQueueHealth {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.queue_health(turn, self.queue.as_str())))
    }
}
