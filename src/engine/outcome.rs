//! What operations take and answer: the engine's own vocabulary of requests, outcomes and refusals.

use std::fmt;
use std::sync::Arc;

use super::Millis;
use super::backlog::PullGroup;
use super::id::{JobId, LockToken};
use super::job::{Delivery, Payload, State};

/// The connection that asks; deliveries made to it are released when it closes. `None`: nobody's connection.
pub type Caller = Option<ConnectionId>;

/// A connection, numbered by the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A wait that the engine has taken on; its end is reported in [`super::Effects::served`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub u64);

/// A request for jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct PullRequest {
    /// From which queue.
    pub queue: Arc<str>,
    /// At most how many, at least 1.
    pub count: usize,
    /// How long to wait for the first one, in ms; 0 or less does not wait.
    pub wait: Millis,
    /// Lock each delivery: only who shows its token may report on it.
    pub locked: bool,
    /// Lifetime of those locks, in ms.
    pub lock_ttl: f64,
    /// Do not tie the deliveries to the caller's connection.
    pub detach: bool,
    /// What it says of groups; `None` means nothing.
    pub group: Option<Box<PullGroup>>,
}

/// How an operation that may have to wait ended for now.
#[derive(Clone, Debug, PartialEq)]
pub enum Progressing<T> {
    /// It is over.
    Done(T),
    /// It waits; the end comes as an effect.
    Waiting(WaiterId),
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Served {
    /// Jobs for a pull; none when its time was over.
    Pull(Vec<Delivery>),
    /// The end of a wait for a job.
    Job(Waited),
}

/// What an add did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The job that now stands for the request.
    pub id: JobId,
    /// How it came to be.
    pub outcome: AddOutcome,
}

/// How an add ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// A new job.
    New,
    /// An unfinished job with the same id or key stands for it; nothing was created.
    Existing,
    /// A new job; the owner of its key was deleted.
    Replaced(JobId),
    /// Another broker did not say.
    Unknown,
}

/// What became of a worker's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It took effect.
    Applied,
    /// The engine had already ended that delivery; nothing changed.
    AlreadyFinalized,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Renewed.
    Renewed,
    /// No such job.
    NotFound,
    /// The job is not active.
    NotActive,
    /// Wrong or expired token, or no lock.
    InvalidToken,
}

/// What became of a change to one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Done.
    Applied,
    /// No such job.
    NotFound,
    /// The job is in a state that does not allow it.
    WrongState(State),
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// Completion; a failure does not end it.
    Completed,
    /// Completion, failure for good, or deletion.
    Outcome,
}

/// How a wait for a job ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Waited {
    /// It completed.
    Completed {
        /// Its result, when it has one.
        result: Option<Payload>,
    },
    /// It failed for good (only [`WaitFor::Outcome`]).
    Failed,
    /// It was deleted (only [`WaitFor::Outcome`]).
    Removed,
    /// The time was over first.
    TimedOut,
    /// There is no such job.
    NotFound,
}

/// Why the engine refuses a report or a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The job is unknown or not active.
    NotActive(JobId),
    /// The delivery is locked and no token was given.
    TokenRequired(JobId),
    /// The token is not that of the current lock.
    TokenInvalid(JobId),
    /// No such job.
    NotFound(JobId),
    /// A job that is asked for by id does not exist.
    JobNotFound(JobId),
    /// A dependency is neither known nor completed.
    DependencyNotFound(JobId),
    /// A job would wait for itself, directly or through others that are added with it.
    SelfDependency(JobId),
    /// Jobs would wait for each other.
    DependencyCycle,
    /// The owner of the key cannot be deleted.
    OwnerNeeded(JobId),
    /// No such parent.
    ParentNotFound(JobId),
    /// The parent is active or over.
    ParentNotLinkable(JobId),
    /// The job repeats, so it is nobody's parent or child.
    RepeatRelations(JobId),
    /// The parent is in another queue than was said.
    ParentElsewhere {
        /// The parent.
        parent: JobId,
        /// Where it is.
        queue: Arc<str>,
        /// What was said.
        given: Arc<str>,
    },
    /// A job that is added names itself as its parent.
    OwnParent,
    /// An existing job shall become its own parent.
    OwnFlowParent,
    /// No such child.
    ChildNotFound(JobId),
    /// The child has a parent already.
    ChildOfAnother {
        /// The child.
        child: JobId,
        /// Its parent.
        parent: JobId,
    },
    /// The job has no parent.
    NoParent(JobId),
    /// The id of a job of a flow is taken.
    FlowJobExists(JobId),
    /// There are as many as there may be.
    TooMany {
        /// Of what, in the plural.
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
    /// Something is set for as many queues or groups as it may be.
    SettingsFull {
        /// Queues or groups.
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
    /// A job would be tied to others by too many bytes of ids.
    TiesTooLarge {
        /// How many there may be.
        max: usize,
    },
    /// The group has as many queued jobs as the one that was to be added allows.
    GroupFull {
        /// The group.
        group: Arc<str>,
        /// Jobs it may have.
        max: u64,
    },
}

/// Why a batch is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRefusal {
    /// The entry, where the fault is in what it says and not in what it meets.
    pub index: Option<usize>,
    /// The fault.
    pub refusal: Refusal,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotActive(id) => write!(f, "Job not found or not in processing state: {id}"),
            Self::TokenRequired(id) => write!(f, "Lock token required for job {id}"),
            Self::TokenInvalid(id) => write!(f, "Invalid or expired lock token for job {id}"),
            Self::NotFound(_) => f.write_str("Job not found"),
            Self::JobNotFound(id) => write!(f, "Job not found: {id}"),
            Self::DependencyNotFound(id) => write!(f, "Dependency job not found: {id}"),
            Self::SelfDependency(id) => write!(f, "Job cannot depend on itself: {id}"),
            Self::DependencyCycle => f.write_str("flow contains a dependency cycle"),
            Self::OwnerNeeded(id) => write!(
                f,
                "Cannot replace deduplicated job {id} because live jobs depend on it"
            ),
            Self::ParentNotFound(id) => write!(f, "Parent job not found: {id}"),
            Self::ParentNotLinkable(id) => write!(f, "Parent job {id} is not linkable"),
            Self::RepeatRelations(id) => write!(
                f,
                "Job {id} repeats: repeat jobs cannot participate in parent or dependency relationships"
            ),
            Self::ParentElsewhere {
                parent,
                queue,
                given,
            } => write!(
                f,
                "Parent job {parent} belongs to queue {queue}, not {given}"
            ),
            Self::OwnParent => f.write_str("A job cannot be its own parent"),
            Self::OwnFlowParent => f.write_str("A flow job cannot be its own parent"),
            Self::ChildNotFound(id) => write!(f, "Child job not found: {id}"),
            Self::ChildOfAnother { child, parent } => {
                write!(f, "Child job {child} already belongs to parent {parent}")
            }
            Self::NoParent(id) => write!(f, "Job {id} has no parent"),
            Self::FlowJobExists(id) => write!(f, "Flow job {id} already exists"),
            Self::GroupFull { group, max } => {
                write!(f, "Group {group} has reached its maximum size of {max}")
            }
            Self::SettingsFull { what, max } => {
                write!(f, "Too many {what} with settings of their own (max {max})")
            }
            Self::TiesTooLarge { max } => write!(
                f,
                "The ids in dependsOn and childrenIds of one job may take at most {max} bytes"
            ),
            Self::TooMany { what, max } => write!(f, "Too many {what} (max {max})"),
        }
    }
}

/// A token as a client sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenGiven {
    /// None, or an empty one.
    #[default]
    None,
    /// One that has the form of a token.
    Token(LockToken),
    /// A text that no token has.
    Malformed,
}

impl TokenGiven {
    /// Reads the text a client sent; empty means none.
    pub fn from_text(text: &str) -> Self {
        match text {
            "" => Self::None,
            text => LockToken::from_text(text).map_or(Self::Malformed, Self::Token),
        }
    }
}

/// A worker's report that an attempt failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FailReport {
    /// The error text.
    pub error: Option<Arc<str>>,
    /// Stack lines, already trimmed of blanks.
    pub stack: Option<Vec<Arc<str>>>,
    /// No retry can succeed.
    pub unrecoverable: bool,
    /// Delete the job instead of moving it to the dead-letter queue, when this was the last attempt.
    pub remove_on_fail: bool,
}

/// Jobs per state; `paused` holds the ready jobs of a paused queue, which then stand nowhere else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ready, priority zero or below.
    pub waiting: usize,
    /// Ready, priority above zero.
    pub prioritized: usize,
    /// Not due yet.
    pub delayed: usize,
    /// Delivered.
    pub active: usize,
    /// Finished and kept.
    pub completed: usize,
    /// In the dead-letter queue.
    pub failed: usize,
    /// Waiting for other jobs.
    pub waiting_children: usize,
    /// Ready jobs of a paused queue.
    pub paused: usize,
}

impl Counts {
    /// The counts of two queues together.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            waiting: self.waiting + other.waiting,
            prioritized: self.prioritized + other.prioritized,
            delayed: self.delayed + other.delayed,
            active: self.active + other.active,
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
            waiting_children: self.waiting_children + other.waiting_children,
            paused: self.paused + other.paused,
        }
    }

    /// Jobs that have not started and need nothing but their time.
    pub const fn queued(&self) -> usize {
        self.waiting + self.prioritized + self.paused + self.delayed
    }

    /// All jobs.
    pub const fn total(&self) -> usize {
        self.waiting
            + self.prioritized
            + self.delayed
            + self.active
            + self.completed
            + self.failed
            + self.waiting_children
            + self.paused
    }
}

/// Which jobs a listing takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// Jobs in that state; in a paused queue `Waiting` and `Prioritized` match nothing.
    State(State),
    /// Ready jobs of a paused queue.
    Paused,
}

impl Bucket {
    /// Every bucket name a client may use.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "paused" {
            Some(Self::Paused)
        } else {
            State::from_name(name).map(Self::State)
        }
    }
}

/// A page of jobs: order is creation time, then id.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The queue.
    pub queue: Arc<str>,
    /// Buckets to take; empty takes all.
    pub buckets: Vec<Bucket>,
    /// Only jobs behind that place in the order, whether or not there is still a job at it.
    pub after: Option<(Millis, JobId)>,
    /// Jobs to skip.
    pub offset: usize,
    /// Jobs to return at most.
    pub limit: usize,
    /// Oldest first.
    pub ascending: bool,
}

/// Which old jobs a clean takes (engine contract, section 16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanState {
    /// Any queued job, by creation time.
    Queued,
    /// Exactly that bucket.
    Bucket(Bucket),
}

/// A worker as it registers, or as it says again what has changed. `None` keeps what is known, or takes the
/// default.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerRegistration {
    /// Its id; `None` lets the engine choose.
    pub id: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
    /// The queues it serves.
    pub queues: Vec<Arc<str>>,
    /// Jobs it works on at the same time; 1 by default.
    pub concurrency: Option<f64>,
    /// Its host; `unknown` by default.
    pub hostname: Option<Arc<str>>,
    /// Its process id; 0 by default.
    pub pid: Option<f64>,
    /// When it started; `None` means now.
    pub started_at: Option<Millis>,
}

/// Absolute figures a worker reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerFigures {
    /// Jobs it works on now.
    pub active_jobs: Option<f64>,
    /// Jobs it has completed.
    pub processed: Option<f64>,
    /// Jobs it has failed.
    pub failed: Option<f64>,
}

/// A registered worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerView {
    /// Its id.
    pub id: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The queues it serves.
    pub queues: Vec<Arc<str>>,
    /// Jobs it works on at the same time.
    pub concurrency: f64,
    /// Its host.
    pub hostname: Arc<str>,
    /// Its process id.
    pub pid: f64,
    /// When it registered.
    pub registered_at: Millis,
    /// Its last sign of life.
    pub last_seen: Millis,
    /// Whether that is recent.
    pub active: bool,
    /// Jobs it works on now.
    pub active_jobs: f64,
    /// Jobs it has completed.
    pub processed_jobs: f64,
    /// Jobs it has failed.
    pub failed_jobs: f64,
}

/// Totals over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerStats {
    /// Registered.
    pub total: usize,
    /// Seen recently.
    pub active: usize,
    /// Completed by all workers, gone ones included.
    pub total_processed: f64,
    /// Failed by all workers, gone ones included.
    pub total_failed: f64,
    /// Jobs in work.
    pub active_jobs: f64,
    /// Concurrency of the active workers.
    pub concurrency_slots: f64,
}
