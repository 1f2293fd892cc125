//! The one seam: everything that any door offers is a [`Command`] with a [`Reply`].
//!
//! Doors translate into these types and back; rules about jobs live below, in the engine, and rules about
//! values live here, once ([`bounds`], [`draft`], [`error`]). Each command is a plain struct with public
//! fields; [`Operation`] ties it to the type of its reply, so that a caller in the same process keeps types
//! while a broker moves the two enums.

pub mod bounds;
pub mod draft;
pub mod error;
mod execute;
pub mod payload;

use std::sync::Arc;

pub use bounds::QueueName;
pub use error::{ArgumentError, CommandError, ErrorCode};
pub use execute::{Executed, execute};

use crate::engine::{
    Added, Change, CleanState, Counts, Delivery, FailReport, JobDetail, JobId, Listing, LogLine,
    Millis, NewJob, Payload, Renewal, Report, State, TokenGiven, WaitFor, Waited, WorkerFigures,
    WorkerRegistration, WorkerStats, WorkerView,
};

/// Adds one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Add {
    /// Where to.
    pub queue: QueueName,
    /// The job.
    pub job: NewJob,
}

/// Adds several jobs, in order, all or none.
#[derive(Clone, Debug, PartialEq)]
pub struct AddMany {
    /// Where to.
    pub queue: QueueName,
    /// The jobs.
    pub jobs: Vec<NewJob>,
}

/// Takes jobs, waiting for the first one if asked to.
#[derive(Clone, Debug, PartialEq)]
pub struct Pull {
    /// Where from.
    pub queue: QueueName,
    /// At most how many, 1 to [`bounds::PULL_COUNT_MAX`].
    pub count: usize,
    /// Ms to wait for the first one, 0 to [`bounds::PULL_WAIT_MAX`].
    pub wait: Millis,
    /// Who works on them; with an owner each delivery is locked.
    pub owner: Option<Arc<str>>,
    /// Ms each lock lasts.
    pub lock_ttl: f64,
    /// Do not tie the deliveries to the caller's connection.
    pub detach: bool,
}

/// One success to report.
#[derive(Clone, Debug, PartialEq)]
pub struct Ack {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery.
    pub token: TokenGiven,
    /// The result; `None` stores nothing.
    pub result: Option<Payload>,
    /// Delete the job instead of keeping it as completed.
    pub remove_on_complete: bool,
}

/// Several successes: all tokens are checked before anything is applied, then each job has its own outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct AckMany {
    /// The successes.
    pub items: Vec<Ack>,
}

/// One failure to report.
#[derive(Clone, Debug, PartialEq)]
pub struct Fail {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery.
    pub token: TokenGiven,
    /// What went wrong.
    pub report: FailReport,
}

/// One sign of life or lock renewal.
#[derive(Clone, Debug, PartialEq)]
pub struct Renew {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery.
    pub token: TokenGiven,
    /// Ms from now at which the lock shall end; `None` takes the lock's own lifetime.
    pub duration: Option<f64>,
}

/// Signs of life; a token also renews the lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    /// The jobs.
    pub items: Vec<Renew>,
}

/// Renews locks; without a token whatever lock exists.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtendLock {
    /// The jobs.
    pub items: Vec<Renew>,
}

/// Deletes a job that has not started.
#[derive(Clone, Debug, PartialEq)]
pub struct Cancel {
    /// The job.
    pub id: JobId,
}

/// Moves a queued or active job to the dead-letter queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Discard {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery, for an active one.
    pub token: TokenGiven,
}

/// Replaces the data of a queued or active job.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateData {
    /// The job.
    pub id: JobId,
    /// The new data.
    pub data: Option<Payload>,
}

/// Changes the priority of a queued job.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangePriority {
    /// The job.
    pub id: JobId,
    /// Finite.
    pub priority: f64,
    /// New lifo flag; `None` keeps it.
    pub lifo: Option<bool>,
}

/// Sets the run time of a queued job, or takes an active one back until then.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeDelay {
    /// The job.
    pub id: JobId,
    /// Ms from now; negative means ready now, ahead of others. Finite.
    pub delay: f64,
    /// Proof of the delivery, for an active one.
    pub token: TokenGiven,
}

/// Makes a delayed job ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Promote {
    /// The job.
    pub id: JobId,
}

/// Makes delayed jobs of a queue ready, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct PromoteMany {
    /// The queue.
    pub queue: QueueName,
    /// At most how many; `None` means all.
    pub count: Option<usize>,
}

/// Brings a job back to waiting: active ones without an attempt, delayed ones at once, failed ones anew.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveToWait {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery, for an active one.
    pub token: TokenGiven,
}

/// Reports progress of an active job.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The job.
    pub id: JobId,
    /// 0 to 100; clamped.
    pub progress: f64,
    /// `None` keeps the last message.
    pub message: Option<Arc<str>>,
}

/// Appends a log line.
#[derive(Clone, Debug, PartialEq)]
pub struct AddLog {
    /// The job.
    pub id: JobId,
    /// `info`, `warn`, `error`.
    pub level: Arc<str>,
    /// The text.
    pub message: Arc<str>,
}

/// Reads the log of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct GetLogs {
    /// The job.
    pub id: JobId,
}

/// Deletes log lines, keeping the newest.
#[derive(Clone, Debug, PartialEq)]
pub struct ClearLogs {
    /// The job.
    pub id: JobId,
    /// How many to keep.
    pub keep: usize,
}

/// Waits for a job to end.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitJob {
    /// The job.
    pub id: JobId,
    /// What ends the wait.
    pub until: WaitFor,
    /// Ms, 0 to [`bounds::JOB_WAIT_MAX`].
    pub timeout: Millis,
}

/// Reads a job.
#[derive(Clone, Debug, PartialEq)]
pub struct GetJob {
    /// The job.
    pub id: JobId,
}

/// Finds an unfinished job by the id its client chose.
#[derive(Clone, Debug, PartialEq)]
pub struct GetJobByCustomId {
    /// That id.
    pub id: JobId,
}

/// Reads the state of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct GetState {
    /// The job.
    pub id: JobId,
}

/// Reads the result of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct GetResult {
    /// The job.
    pub id: JobId,
}

/// Lists jobs of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct GetJobs {
    /// Which.
    pub listing: Listing,
}

/// Counts the jobs of a queue per state.
#[derive(Clone, Debug, PartialEq)]
pub struct GetCounts {
    /// The queue.
    pub queue: QueueName,
}

/// Counts the queued jobs of a queue per priority.
#[derive(Clone, Debug, PartialEq)]
pub struct GetCountsPerPriority {
    /// The queue.
    pub queue: QueueName,
}

/// Lists the names of all queues, in order of first use.
#[derive(Clone, Debug, PartialEq)]
pub struct ListQueues;

/// Stops handing out jobs of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Pause {
    /// The queue.
    pub queue: QueueName,
}

/// Hands out jobs of a queue again.
#[derive(Clone, Debug, PartialEq)]
pub struct Resume {
    /// The queue.
    pub queue: QueueName,
}

/// Reads whether a queue is paused.
#[derive(Clone, Debug, PartialEq)]
pub struct IsPaused {
    /// The queue.
    pub queue: QueueName,
}

/// Deletes every queued job of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Drain {
    /// The queue.
    pub queue: QueueName,
}

/// Deletes old jobs of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Clean {
    /// The queue.
    pub queue: QueueName,
    /// Age in ms that a job must have.
    pub grace: f64,
    /// Which jobs.
    pub state: CleanState,
    /// At most how many.
    pub limit: usize,
}

/// Deletes a queue with everything in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Obliterate {
    /// The queue.
    pub queue: QueueName,
}

/// Finds the owner of a deduplication key.
#[derive(Clone, Debug, PartialEq)]
pub struct GetDedupOwner {
    /// The queue.
    pub queue: QueueName,
    /// The key.
    pub key: Arc<str>,
}

/// Frees a deduplication key.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveDedupKey {
    /// The queue.
    pub queue: QueueName,
    /// The key.
    pub key: Arc<str>,
}

/// Frees the deduplication key of a job, if the job owns it.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveJobDedupKey {
    /// The job.
    pub id: JobId,
}

/// Registers a worker, or updates it.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterWorker {
    /// What it says of itself.
    pub worker: WorkerRegistration,
}

/// A worker's sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerHeartbeat {
    /// Its id.
    pub id: Arc<str>,
    /// Its figures.
    pub figures: WorkerFigures,
}

/// Forgets a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct UnregisterWorker {
    /// Its id.
    pub id: Arc<str>,
}

/// Lists workers with totals.
#[derive(Clone, Debug, PartialEq)]
pub struct ListWorkers;

/// Registered workers with their totals.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// In order of registration.
    pub list: Vec<WorkerView>,
    /// Over all of them.
    pub stats: WorkerStats,
}

/// Jobs removed together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removed {
    /// How many.
    pub count: usize,
    /// Which; only for clean.
    pub ids: Vec<JobId>,
}

/// A command and the type of its reply.
pub trait Operation: Into<Command> {
    /// What the broker answers.
    type Reply;
    /// Takes the answer out of its enum; `None` for the answer of another command.
    fn reply(reply: Reply) -> Option<Self::Reply>;
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
    GetCounts => Counts(Counts),
    GetCountsPerPriority => PriorityCounts(Vec<(f64, usize)>),
    ListQueues => Names(Vec<Arc<str>>),
    Pause => Done(()),
    Resume => Done(()),
    IsPaused => Flag(bool),
    Drain => Removed(Removed),
    Clean => Removed(Removed),
    Obliterate => Removed(Removed),
    GetDedupOwner => Id(Option<JobId>),
    RemoveDedupKey => Counted(usize),
    RemoveJobDedupKey => Flag(bool),
    RegisterWorker => Worker(Box<WorkerView>),
    WorkerHeartbeat => Flag(bool),
    UnregisterWorker => Flag(bool),
    ListWorkers => Workers(Workers),
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
    /// An id, if there is one.
    Id(Option<JobId>),
    /// A worker.
    Worker(Box<WorkerView>),
    /// All workers.
    Workers(Workers),
}
