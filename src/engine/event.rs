//! What happened: the events that subscribers see (engine contract, section 21).

use std::sync::Arc;

use super::Millis;
use super::id::JobId;
use super::job::{Payload, State};

/// Something that happened in a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where.
    pub queue: Arc<str>,
    /// To which job; `None` for what concerns the whole queue.
    pub job: Option<JobId>,
    /// When.
    pub at: Millis,
    /// What.
    pub kind: EventKind,
}

/// The kinds of event and what each carries.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A job was added.
    Pushed,
    /// An add was answered with the job that owns its key.
    Duplicated,
    /// A job was delivered.
    Pulled,
    /// A job completed.
    Completed {
        /// Its result, when the worker gave one.
        result: Option<Payload>,
    },
    /// An attempt, or the job, failed.
    Failed {
        /// The error text.
        error: Option<Arc<str>>,
        /// The job's data.
        data: Option<Payload>,
        /// Whether the job is over.
        terminal: bool,
    },
    /// A failed job will be tried again.
    Retried,
    /// A worker reported progress.
    Progress {
        /// 0 to 100.
        progress: f64,
        /// The current message.
        message: Option<Arc<str>>,
    },
    /// A delivery was lost.
    Stalled {
        /// Count and consequence; absent when a lock ran out and the job is queued again.
        detail: Option<StallDetail>,
    },
    /// An active job was moved to delayed.
    Delayed {
        /// Ms from now.
        delay: f64,
    },
    /// A job went back to waiting.
    Waiting {
        /// The state it left.
        prev: State,
    },
    /// A job was put aside until its dependencies change.
    WaitingChildren {
        /// The state it left.
        prev: State,
    },
    /// A single job was deleted.
    Removed {
        /// The state it left.
        prev: State,
    },
    /// The queue hands out nothing.
    Paused,
    /// The queue hands out jobs again.
    Resumed,
    /// Queued jobs were deleted together.
    Drained {
        /// How many.
        count: usize,
    },
    /// Old jobs were deleted together.
    Cleaned {
        /// How many.
        count: usize,
    },
    /// The queue was deleted.
    Obliterated {
        /// Jobs deleted with it.
        count: usize,
    },
    /// A notice: the queue has had nothing to do for a while.
    QueueIdle {
        /// Ms for which nothing was ready or active.
        idle: Millis,
    },
    /// A notice: many jobs are ready.
    QueueThreshold {
        /// How many.
        size: usize,
        /// How many are worth a notice.
        threshold: usize,
    },
    /// A notice: a worker of the queue has been at its capacity for a while.
    WorkerOverloaded {
        /// Which, and by how much.
        load: Box<WorkerLoad>,
    },
    /// A notice, told as one of each queue: the process takes much memory. The engine does not know that and makes none.
    MemoryWarning {
        /// MiB that stand for no file.
        heap_mib: u64,
        /// How many are worth a notice.
        threshold_mib: u64,
        /// MiB in RAM.
        resident_mib: u64,
    },
    /// A notice, told as one of each queue: the data file is large. The engine makes none.
    StorageWarning {
        /// MiB of the file and its log.
        size_mib: u64,
        /// How many are worth a notice.
        threshold_mib: u64,
    },
}

/// A worker that has as many jobs as it can work on.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerLoad {
    /// Its id.
    pub worker: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Jobs that it says it works on.
    pub active_jobs: f64,
    /// Jobs that it can work on at the same time.
    pub concurrency: f64,
    /// Ms for which that has been so.
    pub overloaded: Millis,
}

/// What a stall did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallDetail {
    /// Stalls of the job so far.
    pub stall_count: u32,
    /// Whether the job moved to the dead-letter queue instead of being queued again.
    pub to_dlq: bool,
}

/// The types of event, which is what an event is without what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in EventKind")]
pub enum EventType {
    Pushed,
    Duplicated,
    Pulled,
    Completed,
    Failed,
    Retried,
    Progress,
    Stalled,
    Delayed,
    Waiting,
    WaitingChildren,
    Removed,
    Paused,
    Resumed,
    Drained,
    Cleaned,
    Obliterated,
    QueueIdle,
    QueueThreshold,
    WorkerOverloaded,
    MemoryWarning,
    StorageWarning,
}

impl EventType {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Pushed,
        Self::Duplicated,
        Self::Pulled,
        Self::Completed,
        Self::Failed,
        Self::Retried,
        Self::Progress,
        Self::Stalled,
        Self::Delayed,
        Self::Waiting,
        Self::WaitingChildren,
        Self::Removed,
        Self::Paused,
        Self::Resumed,
        Self::Drained,
        Self::Cleaned,
        Self::Obliterated,
        Self::QueueIdle,
        Self::QueueThreshold,
        Self::WorkerOverloaded,
        Self::MemoryWarning,
        Self::StorageWarning,
    ];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pushed => "pushed",
            Self::Duplicated => "duplicated",
            Self::Pulled => "pulled",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Retried => "retried",
            Self::Progress => "progress",
            Self::Stalled => "stalled",
            Self::Delayed => "delayed",
            Self::Waiting => "waiting",
            Self::WaitingChildren => "waiting-children",
            Self::Removed => "removed",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Drained => "drained",
            Self::Cleaned => "cleaned",
            Self::Obliterated => "obliterated",
            Self::QueueIdle => "queue:idle",
            Self::QueueThreshold => "queue:threshold",
            Self::WorkerOverloaded => "worker:overloaded",
            Self::MemoryWarning => "server:memory-warning",
            Self::StorageWarning => "server:storage-warning",
        }
    }
}

/// A set of types of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventTypes(u32);

impl EventTypes {
    /// None.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self(u32::MAX);
    /// The notices of a queue, which are made only while somebody wants one of them.
    pub const NOTICES: Self = Self::NONE
        .with(EventType::QueueIdle)
        .with(EventType::QueueThreshold)
        .with(EventType::WorkerOverloaded);

    /// Those with these names. A name that no type has adds nothing.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let known = |name| EventType::ALL.into_iter().find(|kind| kind.name() == name);
        names
            .into_iter()
            .filter_map(known)
            .fold(Self::NONE, Self::with)
    }

    /// These and one more.
    #[must_use]
    pub const fn with(self, kind: EventType) -> Self {
        Self(self.0 | 1 << kind as u32)
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether this type is among them.
    pub const fn contains(self, kind: EventType) -> bool {
        self.0 & 1 << kind as u32 != 0
    }

    /// Whether any of those is among them.
    pub const fn meets(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether all of those are among them.
    pub const fn covers(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl EventKind {
    /// The type.
    pub const fn event_type(&self) -> EventType {
        match self {
            Self::Pushed => EventType::Pushed,
            Self::Duplicated => EventType::Duplicated,
            Self::Pulled => EventType::Pulled,
            Self::Completed { .. } => EventType::Completed,
            Self::Failed { .. } => EventType::Failed,
            Self::Retried => EventType::Retried,
            Self::Progress { .. } => EventType::Progress,
            Self::Stalled { .. } => EventType::Stalled,
            Self::Delayed { .. } => EventType::Delayed,
            Self::Waiting { .. } => EventType::Waiting,
            Self::WaitingChildren { .. } => EventType::WaitingChildren,
            Self::Removed { .. } => EventType::Removed,
            Self::Paused => EventType::Paused,
            Self::Resumed => EventType::Resumed,
            Self::Drained { .. } => EventType::Drained,
            Self::Cleaned { .. } => EventType::Cleaned,
            Self::Obliterated { .. } => EventType::Obliterated,
            Self::QueueIdle { .. } => EventType::QueueIdle,
            Self::QueueThreshold { .. } => EventType::QueueThreshold,
            Self::WorkerOverloaded { .. } => EventType::WorkerOverloaded,
            Self::MemoryWarning { .. } => EventType::MemoryWarning,
            Self::StorageWarning { .. } => EventType::StorageWarning,
        }
    }

    /// The name on the wire.
    pub const fn name(&self) -> &'static str {
        self.event_type().name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_by_its_name_and_alone() {
        for (place, kind) in EventType::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            let set = EventTypes::named([kind.name(), "no-such"]);
            let found = EventType::ALL
                .into_iter()
                .filter(|other| set.contains(*other));
            assert_eq!(found.collect::<Vec<_>>(), [kind]);
        }
        assert_eq!(EventTypes::named(["no-such"]), EventTypes::NONE);
    }
}
