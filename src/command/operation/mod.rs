//! The commands, a file per family: what each asks for, the type of its reply, and the call into the engine that
//! answers it.
//!
//! The table below ties them together: an operation is one line there and one struct with [`Execute`] in its family's
//! file.

mod add;
mod change;
mod cron;
mod dedup;
mod dlq;
mod flow;
mod group;
mod limit;
mod log;
mod monitor;
mod policy;
mod queue;
mod read;
mod webhook;
mod work;
mod worker;

use std::sync::Arc;

pub use add::{Add, AddMany};
pub use change::{
    Cancel, ChangeDelay, ChangePriority, Discard, MoveToWait, MoveToWaitingChildren, Promote,
    PromoteMany, UpdateData,
};
pub use cron::{DeleteCron, GetCron, ListCrons, UpsertCron};
pub use dedup::{GetDedupOwner, RemoveDedupKey, RemoveJobDedupKey};
pub use dlq::{GetDlq, GetDlqStats, PurgeDlq, RemoveDlqJob, RetryCompleted, RetryDlq};
pub use flow::{
    ChildValue, GetChildFailures, GetChildrenValues, GetFlow, RemoveChildDependency,
    RemoveUnprocessedChildren, UpdateParent,
};
pub use group::{
    GetGroupActiveCount, GetGroupConcurrency, GetGroupJobsCount, GetGroupRateLimit,
    GetGroupRateLimitTtl, GetGroupsJobsCount, IsGroupPaused, IsUngroupedInTurn, PauseGroup,
    RemoveGroupConcurrency, RemoveGroupRateLimit, ResumeGroup, SetGroupConcurrency,
    SetGroupRateLimit, SetUngroupedInTurn, ThrottleGroup,
};
pub use limit::{ClearConcurrency, ClearRateLimit, GetQueueLimits, SetConcurrency, SetRateLimit};
pub use log::{AddLog, ClearLogs, GetLogs};
pub use monitor::{
    CompactMemory, GetLatency, GetMemoryStats, GetOverview, GetQueueDetail, GetQueueHealth,
    GetQueueMetrics, GetStats, GetStorageStatus, ListQueueSummaries, MetricsDraft, TrimEvents,
};
pub use policy::{GetDlqConfig, GetStallConfig, SetDlqConfig, SetStallConfig};
pub use queue::{Clean, Drain, IsPaused, ListQueues, Obliterate, Pause, Removed, Resume};
pub use read::{
    GetCount, GetCounts, GetCountsPerPriority, GetJob, GetJobByCustomId, GetJobs, GetResult,
    GetState, WaitJob,
};
pub use webhook::{
    AddWebhook, IsWebhookEnabled, ListWebhooks, RemoveWebhook, ReportWebhook, SetWebhookEnabled,
    Webhooks,
};
pub use work::{Ack, AckMany, ExtendLock, Fail, Heartbeat, Progress, Pull, Renew};
pub use worker::{
    ListQueueWorkers, ListWorkers, RegisterWorker, UnregisterWorker, WorkerHeartbeat, Workers,
};

use super::CommandError;
use super::flow::AddFlow;
use crate::command::{GroupId, QueueName};
use crate::engine::{
    Added, Change, ChildFailure, Counts, Cron, Delivery, DlqConfig, DlqEntry, DlqStats, Engine,
    FlowNode, JobDetail, JobId, JobView, Latency, LogLine, MemoryStats, Millis, Overview, Payload,
    Progressing, QueueDetail, QueueHealth, QueueLimits, QueueMetrics, QueueSummary, RateLimit,
    Renewal, Report, StallConfig, State, Stats, StorageStatus, Turn, Waited, WaiterId, WebhookView,
    WorkerView,
};

/// A command and the type of its reply.
pub trait Operation: Into<Command> {
    /// What the broker answers.
    type Reply;
    /// Takes the answer out of its enum; `None` for the answer of another command.
    fn reply(reply: Reply) -> Option<Self::Reply>;
}

/// What a command came to: its reply, or a wait whose end comes as an effect.
pub type Outcome<T> = Result<Progressing<T>, CommandError>;

/// How the engine answers a command.
trait Execute: Operation {
    /// Executes it.
    ///
    /// # Errors
    /// When the engine refuses; nothing has changed then.
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply>;
}

/// What became of a command.
#[derive(Debug)]
pub enum Executed {
    /// It is over.
    Done(Result<Reply, CommandError>),
    /// It waits; the end comes as an effect.
    Waiting(WaiterId),
}

/// Declares the enums from one table: command, variant of the reply, type of the reply.
macro_rules! operations {
    ($($command:ident => $variant:ident($reply:ty)),+ $(,)?) => {
        /// Everything a broker can be asked.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Command {
            $(#[doc = concat!("See [`", stringify!($command), "`].")] $command($command),)+
        }

        $(
            impl From<$command> for Command {
                fn from(command: $command) -> Self {
                    Self::$command(command)
                }
            }

            impl Operation for $command {
                type Reply = $reply;
                fn reply(reply: Reply) -> Option<$reply> {
                    match reply {
                        Reply::$variant(value) => Some(value),
                        _ => None,
                    }
                }
            }
        )+

        /// Executes one command: the pure half of a broker.
        pub fn execute(engine: &mut Engine, turn: &mut Turn<'_>, command: Command) -> Executed {
            match command {
                $(Command::$command(command) => match command.execute(engine, turn) {
                    Ok(Progressing::Done(reply)) => Executed::Done(Ok(Reply::$variant(reply))),
                    Ok(Progressing::Waiting(waiter)) => Executed::Waiting(waiter),
                    Err(refusal) => Executed::Done(Err(refusal)),
                },)+
            }
        }
    };
}

operations! {
    Add => Added(Added),
    AddMany => AddedMany(Vec<Added>),
    Pull => Pulled(Vec<Delivery>),
    Ack => Reported(Report),
    AckMany => ReportedMany(Vec<Result<Report, CommandError>>),
    Fail => Reported(Report),
    Heartbeat => Renewed(Vec<Renewal>),
    ExtendLock => Renewed(Vec<Renewal>),
    Cancel => Changed(Change),
    Discard => Changed(Change),
    UpdateData => Changed(Change),
    ChangePriority => Changed(Change),
    ChangeDelay => Changed(Change),
    Promote => Changed(Change),
    PromoteMany => Counted(usize),
    MoveToWait => Changed(Change),
    MoveToWaitingChildren => Changed(Change),
    AddFlow => FlowAdded(Vec<JobView>),
    UpdateParent => Done(()),
    RemoveChildDependency => Flag(bool),
    RemoveUnprocessedChildren => Counted(usize),
    GetChildrenValues => ChildrenValues(Vec<ChildValue>),
    GetChildFailures => ChildFailures(Vec<ChildFailure>),
    GetFlow => Flow(Option<Box<FlowNode>>),
    Progress => Changed(Change),
    AddLog => Changed(Change),
    GetLogs => Logs(Vec<LogLine>),
    ClearLogs => Done(()),
    WaitJob => Waited(Waited),
    GetJob => Job(Option<Box<JobDetail>>),
    GetJobByCustomId => Job(Option<Box<JobDetail>>),
    GetState => State(Option<State>),
    GetResult => Result(Option<Payload>),
    GetJobs => Jobs(Vec<JobDetail>),
    GetCount => Counted(usize),
    GetCounts => Counts(Counts),
    GetCountsPerPriority => PriorityCounts(Vec<(f64, usize)>),
    ListQueues => Names(Vec<Arc<str>>),
    Pause => Done(()),
    Resume => Done(()),
    IsPaused => Flag(bool),
    Drain => Removed(Removed),
    Clean => Removed(Removed),
    Obliterate => Removed(Removed),
    GetDlq => DeadLetters(Vec<DlqEntry>),
    GetDlqStats => DlqStats(Box<DlqStats>),
    RetryDlq => Counted(usize),
    PurgeDlq => Counted(usize),
    RemoveDlqJob => Flag(bool),
    RetryCompleted => Counted(usize),
    GetDlqConfig => DlqConfig(DlqConfig),
    SetDlqConfig => DlqConfig(DlqConfig),
    GetStallConfig => StallConfig(StallConfig),
    SetStallConfig => StallConfig(StallConfig),
    GetDedupOwner => Id(Option<JobId>),
    RemoveDedupKey => Counted(usize),
    RemoveJobDedupKey => Flag(bool),
    RegisterWorker => Worker(Box<WorkerView>),
    WorkerHeartbeat => Flag(bool),
    UnregisterWorker => Flag(bool),
    ListWorkers => Workers(Workers),
    SetRateLimit => Done(()),
    ClearRateLimit => Done(()),
    SetConcurrency => Done(()),
    ClearConcurrency => Done(()),
    GetQueueLimits => Limits(QueueLimits),
    GetGroupJobsCount => Counted(usize),
    GetGroupsJobsCount => Counted(usize),
    GetGroupActiveCount => Counted(usize),
    SetGroupRateLimit => Done(()),
    GetGroupRateLimit => Rate(Option<RateLimit>),
    RemoveGroupRateLimit => Counted(usize),
    GetGroupRateLimitTtl => Span(Millis),
    SetGroupConcurrency => Done(()),
    GetGroupConcurrency => Concurrency(Option<u64>),
    RemoveGroupConcurrency => Counted(usize),
    PauseGroup => Flag(bool),
    ResumeGroup => Flag(bool),
    IsGroupPaused => Flag(bool),
    ThrottleGroup => Done(()),
    SetUngroupedInTurn => Done(()),
    IsUngroupedInTurn => Flag(bool),
    GetStats => Stats(Box<Stats>),
    GetLatency => Latency(Box<Latency>),
    GetQueueMetrics => Metrics(QueueMetrics),
    TrimEvents => Counted(usize),
    GetMemoryStats => Memory(Box<MemoryStats>),
    GetStorageStatus => Storage(StorageStatus),
    CompactMemory => Done(()),
    GetOverview => Overview(Box<Overview>),
    ListQueueSummaries => Summaries(Vec<QueueSummary>),
    GetQueueDetail => Detail(Box<QueueDetail>),
    GetQueueHealth => Health(QueueHealth),
    ListQueueWorkers => Workers(Workers),
    AddWebhook => Webhook(Box<WebhookView>),
    RemoveWebhook => Flag(bool),
    SetWebhookEnabled => Flag(bool),
    IsWebhookEnabled => Flag(bool),
    ReportWebhook => Flag(bool),
    ListWebhooks => Webhooks(Webhooks),
    UpsertCron => Cron(Box<Cron>),
    GetCron => CronFound(Option<Box<Cron>>),
    ListCrons => Crons(Vec<Cron>),
    DeleteCron => Flag(bool),
}

impl Command {
    /// Whether it may need more of completed jobs than an engine has in memory ([`Engine::missed`]).
    pub fn may_miss(&self) -> bool {
        use Command as C;
        match self {
            C::Add(add) => add.job.links.is_some(),
            C::AddMany(add) => add.jobs.iter().any(|job| job.links.is_some()),
            C::Pull(_)
            | C::Ack(_)
            | C::AckMany(_)
            | C::Fail(_)
            | C::Heartbeat(_)
            | C::ExtendLock(_)
            | C::Progress(_) => false,
            _ => true,
        }
    }

    /// Whether its reply holds data and result of each job whose body it misses.
    pub const fn shows_what_it_misses(&self) -> bool {
        matches!(self, Self::GetJobs(_))
    }

    /// Whether new jobs come by it.
    pub const fn adds_jobs(&self) -> bool {
        matches!(self, Self::Add(_) | Self::AddMany(_) | Self::AddFlow(_))
    }

    /// Whether it adds jobs which the client wants to be sure of, whatever the level (engine contract, section 6.5); a
    /// flow always is.
    pub fn is_durable(&self) -> bool {
        match self {
            Self::Add(add) => add.job.durable,
            Self::AddMany(add) => add.jobs.iter().any(|job| job.durable),
            Self::AddFlow(_) => true,
            _ => false,
        }
    }

    /// Whether nothing that is to be kept can change by it.
    pub const fn is_harmless(&self) -> bool {
        use Command as C;
        matches!(
            self,
            C::GetChildrenValues(_)
                | C::GetChildFailures(_)
                | C::GetFlow(_)
                | C::GetLogs(_)
                | C::GetJob(_)
                | C::GetJobByCustomId(_)
                | C::GetState(_)
                | C::GetResult(_)
                | C::GetJobs(_)
                | C::GetCount(_)
                | C::GetCounts(_)
                | C::GetCountsPerPriority(_)
                | C::ListQueues(_)
                | C::IsPaused(_)
                | C::GetDlq(_)
                | C::GetDlqStats(_)
                | C::GetDlqConfig(_)
                | C::GetStallConfig(_)
                | C::GetDedupOwner(_)
                | C::RegisterWorker(_)
                | C::WorkerHeartbeat(_)
                | C::UnregisterWorker(_)
                | C::ListWorkers(_)
                | C::GetQueueLimits(_)
                | C::GetGroupJobsCount(_)
                | C::GetGroupsJobsCount(_)
                | C::GetGroupActiveCount(_)
                | C::GetGroupRateLimit(_)
                | C::GetGroupRateLimitTtl(_)
                | C::GetGroupConcurrency(_)
                | C::IsGroupPaused(_)
                | C::IsUngroupedInTurn(_)
                | C::GetStats(_)
                | C::GetLatency(_)
                | C::GetQueueMetrics(_)
                | C::GetMemoryStats(_)
                | C::GetStorageStatus(_)
                | C::CompactMemory(_)
                | C::GetOverview(_)
                | C::ListQueueSummaries(_)
                | C::GetQueueDetail(_)
                | C::GetQueueHealth(_)
                | C::ListQueueWorkers(_)
                | C::IsWebhookEnabled(_)
                | C::ListWebhooks(_)
                | C::GetCron(_)
                | C::ListCrons(_)
        )
    }
}

/// The name of a queue for which something is to be set, if there is room for it.
fn to_set(
    engine: &mut Engine,
    turn: &mut Turn<'_>,
    queue: &QueueName,
) -> Result<Arc<str>, CommandError> {
    let name = queue.to_keep()?;
    engine.check_room_for_settings(turn, &name)?;
    Ok(name)
}

/// The names of a queue and of a group in it for which something is to be set, if there is room for it.
fn to_set_group(
    engine: &mut Engine,
    turn: &mut Turn<'_>,
    queue: &QueueName,
    group: &GroupId,
) -> Result<(Arc<str>, Arc<str>), CommandError> {
    let (queue, group) = (queue.to_keep()?, group.shared());
    engine.check_room_for_group_settings(turn, &queue, &group)?;
    Ok((queue, group))
}

/// What a broker answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// One job was added, or one stands for it.
    Added(Added),
    /// One entry per job of the batch.
    AddedMany(Vec<Added>),
    /// Jobs for a pull.
    Pulled(Vec<Delivery>),
    /// The fate of a report.
    Reported(Report),
    /// One entry per report of the batch.
    ReportedMany(Vec<Result<Report, CommandError>>),
    /// One entry per renewal.
    Renewed(Vec<Renewal>),
    /// The fate of a change.
    Changed(Change),
    /// The jobs of a flow, as they were admitted.
    FlowAdded(Vec<JobView>),
    /// Results of children.
    ChildrenValues(Vec<ChildValue>),
    /// Children that failed without holding their parent back.
    ChildFailures(Vec<ChildFailure>),
    /// A tree of jobs, if there is such a job.
    Flow(Option<Box<FlowNode>>),
    /// A number.
    Counted(usize),
    /// Log lines, oldest first.
    Logs(Vec<LogLine>),
    /// Nothing to say.
    Done(()),
    /// The end of a wait.
    Waited(Waited),
    /// A job, if there is one.
    Job(Option<Box<JobDetail>>),
    /// A state, if there is such a job.
    State(Option<State>),
    /// A result, if there is one.
    Result(Option<Payload>),
    /// A page of jobs.
    Jobs(Vec<JobDetail>),
    /// Jobs per state.
    Counts(Counts),
    /// Queued jobs per priority, highest first.
    PriorityCounts(Vec<(f64, usize)>),
    /// Queue names.
    Names(Vec<Arc<str>>),
    /// Yes or no.
    Flag(bool),
    /// What was removed.
    Removed(Removed),
    /// Dead letters, oldest first.
    DeadLetters(Vec<DlqEntry>),
    /// Dead letters in numbers.
    DlqStats(Box<DlqStats>),
    /// What holds for the dead letters of a queue.
    DlqConfig(DlqConfig),
    /// What holds for the silent deliveries of a queue.
    StallConfig(StallConfig),
    /// An id, if there is one.
    Id(Option<JobId>),
    /// A worker.
    Worker(Box<WorkerView>),
    /// All workers, or those of a queue.
    Workers(Workers),
    /// What limits a queue.
    Limits(QueueLimits),
    /// A limit of deliveries, if there is one.
    Rate(Option<RateLimit>),
    /// A limit of active jobs, if there is one.
    Concurrency(Option<u64>),
    /// Ms, or what the command says of negative ones.
    Span(Millis),
    /// Figures over all queues.
    Stats(Box<Stats>),
    /// How long operations take.
    Latency(Box<Latency>),
    /// Jobs per minute.
    Metrics(QueueMetrics),
    /// Sizes.
    Memory(Box<MemoryStats>),
    /// The store.
    Storage(StorageStatus),
    /// Everything over all queues.
    Overview(Box<Overview>),
    /// All queues at a glance.
    Summaries(Vec<QueueSummary>),
    /// A queue for its page.
    Detail(Box<QueueDetail>),
    /// Whether a queue moves.
    Health(QueueHealth),
    /// A webhook.
    Webhook(Box<WebhookView>),
    /// All webhooks.
    Webhooks(Webhooks),
    /// A cron.
    Cron(Box<Cron>),
    /// A cron, if there is one.
    CronFound(Option<Box<Cron>>),
    /// Crons.
    Crons(Vec<Cron>),
}

impl Reply {
    /// Bytes of payloads of which it is known that each form of it holds them, as they are and once at least.
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Jobs(details) => details.iter().map(JobDetail::payload_bytes).sum(),
            _ => 0,
        }
    }
}
