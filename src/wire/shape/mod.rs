//! How a reply goes onto the wire.
//!
//! Several commands of the protocol share one command of the seam and differ in their answers only; the
//! shape carries that difference, and what the answer has to repeat from the request.

mod cron;
mod dlq;
mod flow;
mod group;
mod monitor;
mod webhook;

use crate::command::QueueName;
use crate::engine::{Bucket, JobId};

pub use cron::Cron;
pub use dlq::Dlq;
pub use flow::Flow;
pub use group::Group;
pub use monitor::Monitor;
pub use webhook::Webhook;

/// The form of the reply to one request; the names are those of the protocol's commands.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// `PUSH`
    Push {
        /// The client asked how the job came to be.
        outcome: bool,
    },
    /// `PUSHB`
    PushMany {
        /// The client asked how the jobs came to be.
        outcome: bool,
    },
    /// `PULL`
    Pull {
        /// The pull named an owner, so the reply has a token.
        owned: bool,
    },
    /// `PULLB`
    PullMany {
        /// The pull named an owner, so the reply has tokens.
        owned: bool,
    },
    /// `ACK` and `FAIL`
    Report,
    /// `ACKB`, with the ids in the order of the request.
    ReportMany(Vec<JobId>),
    /// `ExtendLock`
    ExtendLock,
    /// `ExtendLocks`
    ExtendLocks,
    /// `JobHeartbeat`
    JobHeartbeat,
    /// `JobHeartbeatB`
    JobHeartbeatMany,
    /// A change to one job.
    Change(ChangeOf),
    /// How many jobs something was done to.
    Counted,
    /// Whether something was removed.
    Removed,
    /// `GetProgress`
    GetProgress,
    /// `GetLogs`
    GetLogs {
        /// Index of the first line wanted.
        start: Option<f64>,
        /// Index of the last line wanted.
        end: Option<f64>,
    },
    /// `{ok}` and nothing else.
    Done,
    /// `GetResult`, with the id as the client sent it.
    GetResult(Option<JobId>),
    /// `GetState`, with the id as the client sent it.
    GetState(Option<JobId>),
    /// `WaitJob`
    WaitJob,
    /// `GetJob`
    GetJob,
    /// `GetJobByCustomId`
    GetJobByCustomId,
    /// `GetJobs`
    GetJobs {
        /// The one state the client named, which each job then shows.
        only: Option<Bucket>,
    },
    /// `GetJobCounts`
    GetJobCounts,
    /// `Count`
    Count,
    /// `GetCountsPerPriority`, with the queue as the client sent it.
    GetCountsPerPriority(QueueName),
    /// `GetQueueLimits`
    QueueLimits,
    /// `ListQueues`
    ListQueues,
    /// `IsPaused`
    IsPaused,
    /// `Drain`
    Drain,
    /// `Clean`
    Clean,
    /// `GetDeduplicationJobId`
    DedupOwner,
    /// `RemoveDeduplicationKey`
    DedupKeysRemoved,
    /// `RegisterWorker`
    RegisterWorker,
    /// `Heartbeat`
    WorkerHeartbeat,
    /// `UnregisterWorker`
    UnregisterWorker,
    /// `ListWorkers`
    ListWorkers,
    /// Dead letters, reruns and policies per queue.
    Dlq(Dlq),
    /// Groups.
    Group(Group),
    /// Flows and ties between jobs.
    Flow(Flow),
    /// Schedules.
    Cron(Cron),
    /// Webhooks.
    Webhook(Webhook),
    /// Figures.
    Monitor(Monitor),
}

/// A change to one job; each has its own words for a refusal (tcp protocol sections 11 and 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOf {
    /// `Cancel`
    Cancel,
    /// `Discard`
    Discard,
    /// `Update`
    Update,
    /// `ChangePriority`
    Priority,
    /// `ChangeDelay`
    Delay,
    /// `Promote`
    Promote,
    /// `MoveToWait`
    MoveToWait,
    /// `MoveToDelayed`
    MoveToDelayed,
    /// `MoveToWaitingChildren`
    Park,
    /// `Progress`
    Progress,
    /// `AddLog`
    AddLog,
}
