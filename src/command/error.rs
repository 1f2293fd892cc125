//! Every way in which a command can be refused: one table of codes, texts and hints for all surfaces.
//!
//! The texts that clients match on are the protocol's (tcp protocol, sections 4 to 18; MCP contract,
//! section 10); the hints are ours. No text carries a path, a host name or a backtrace.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::argument::ArgumentError;
use super::bounds::FRAME_MAX;
use super::flow::FlowFault;
use super::remote::RemoteFault;
use crate::engine::{BatchRefusal, JobId, Refusal};

/// Stable, machine-readable cause of an error (MCP contract, section 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// An argument does not fit.
    InvalidArguments,
    /// There is no such thing.
    NotFound,
    /// It exists, but its state does not allow the operation.
    WrongState,
    /// The delivery is locked and no token was given.
    LockRequired,
    /// The token does not hold the lock.
    LockInvalid,
    /// It clashes with something that exists.
    Conflict,
    /// Too much data.
    TooLarge,
    /// The tool exists, but is not exposed here.
    NotLoaded,
    /// A destructive call needs the user's consent.
    ConfirmationRequired,
    /// The user refused.
    ConfirmationDeclined,
    /// The broker cannot be reached or is shutting down.
    BackendUnavailable,
    /// The time was over.
    Timeout,
    /// The caller withdrew the call.
    Cancelled,
    /// A fault of ours; details are in the log.
    Internal,
}

impl ErrorCode {
    /// Every code, in the order of the reference page.
    pub const ALL: [Self; 14] = [
        Self::InvalidArguments,
        Self::NotFound,
        Self::WrongState,
        Self::LockRequired,
        Self::LockInvalid,
        Self::Conflict,
        Self::TooLarge,
        Self::NotLoaded,
        Self::ConfirmationRequired,
        Self::ConfirmationDeclined,
        Self::BackendUnavailable,
        Self::Timeout,
        Self::Cancelled,
        Self::Internal,
    ];

    /// The text of the code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidArguments => "invalid_arguments",
            Self::NotFound => "not_found",
            Self::WrongState => "wrong_state",
            Self::LockRequired => "lock_required",
            Self::LockInvalid => "lock_invalid",
            Self::Conflict => "conflict",
            Self::TooLarge => "too_large",
            Self::NotLoaded => "not_loaded",
            Self::ConfirmationRequired => "confirmation_required",
            Self::ConfirmationDeclined => "confirmation_declined",
            Self::BackendUnavailable => "backend_unavailable",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }

    /// What the code means, for the reference.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::InvalidArguments => {
                "An argument is missing, unknown or out of bounds; nothing was applied."
            }
            Self::NotFound => "There is no job with that id, or no schedule of that name.",
            Self::WrongState => "The job is not in a state that allows the operation.",
            Self::LockRequired => {
                "The job was delivered with a lock and the call carried no token."
            }
            Self::LockInvalid => "The token is not that of the current lock.",
            Self::Conflict => "The request clashes with something that exists.",
            Self::TooLarge => "The job data, or the answer, is larger than the limit.",
            Self::NotLoaded => "The tool belongs to a toolset that this server does not expose.",
            Self::ConfirmationRequired => "A destructive call needs the consent of the user first.",
            Self::ConfirmationDeclined => {
                "The user declined; the call must not be repeated unasked."
            }
            Self::BackendUnavailable => "The broker cannot be reached, or is shutting down.",
            Self::Timeout => "The broker did not answer in time.",
            Self::Cancelled => "The caller withdrew the call.",
            Self::Internal => "A fault of the server; details are in its log.",
        }
    }
}

/// What a broker elsewhere answered that is none; `Display` completes `Invalid … returned by the backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFault {
    /// A dead letter.
    DlqEntry,
    /// An attempt in the history of a dead letter.
    DlqAttempt,
    /// The dead letters of a queue in numbers.
    DlqStats,
    /// What limits a queue.
    QueueLimits,
}

impl fmt::Display for ReplyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DlqEntry => "DLQ entry",
            Self::DlqAttempt => "DLQ attempt record",
            Self::DlqStats => "DLQ stats",
            Self::QueueLimits => "queue limits",
        })
    }
}

/// Why a command was refused. `Display` is the exact text every surface shows.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// An argument does not fit.
    #[error("{0}")]
    Argument(ArgumentError),
    /// An entry of a batch does not fit; nothing of the batch was applied.
    #[error("jobs[{index}]: {error}")]
    BatchEntry {
        /// Position in the batch, from 0.
        index: usize,
        /// Its fault.
        error: ArgumentError,
    },
    /// A duration of a batch does not fit; nothing of the batch was applied.
    #[error("durations[{index}]: {error}")]
    DurationEntry {
        /// Position in the batch, from 0.
        index: usize,
        /// Its fault.
        error: ArgumentError,
    },
    /// An option that a cron gives to its jobs does not fit.
    #[error("jobOptions.{error}")]
    JobOption {
        /// Its fault.
        error: ArgumentError,
    },
    /// The engine refused.
    #[error("{0}")]
    Refused(Refusal),
    /// The engine refused because of what an entry of a batch says; nothing of the batch was applied.
    #[error("jobs[{index}]: {refusal}")]
    BatchRefused {
        /// Position in the batch, from 0.
        index: usize,
        /// Its fault.
        refusal: Refusal,
    },
    /// A flow does not fit together; nothing of it was applied.
    #[error("{0}")]
    Flow(FlowFault),
    /// A job of a flow does not fit into it; nothing of the flow was applied.
    #[error("{fault}")]
    FlowAt {
        /// Where in the flow; empty for a root without a name.
        path: String,
        /// What does not fit.
        fault: FlowFault,
    },
    /// A job of a flow does not fit; nothing of the flow was applied.
    #[error("{}{error}", introduced(.path))]
    FlowNode {
        /// Where in the flow; empty for a root without a name.
        path: String,
        /// Its fault.
        error: ArgumentError,
    },
    /// The broker is another server, and it has not answered as asked.
    #[error("{0}")]
    Remote(RemoteFault),
    /// A broker elsewhere answered what is no answer to the command.
    #[error("Invalid {0} returned by the backend")]
    Reply(ReplyFault),
    /// No reply can hold what was asked for.
    #[error("Reply too large: exceeds maximum {FRAME_MAX}")]
    ReplyTooLarge,
    /// The broker is shutting down.
    #[error("Server is shutting down")]
    ShuttingDown,
    /// What was asked could not be stored; nothing has changed. Workers see the text of [`CommandError::Internal`] (tcp
    /// protocol, section 8).
    #[error("{0}")]
    Storage(Arc<str>),
    /// The disk fails, nobody waits for it, and no more can be held in memory until it is back; nothing has changed.
    #[error("Too many changes wait for the disk")]
    UnsavedFull,
    /// A fault of ours.
    #[error("Internal server error")]
    Internal,
}

/// What stands before the fault of a job: where it is.
fn introduced(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    }
}

impl CommandError {
    /// The text that workers see.
    pub fn wire_text(&self) -> String {
        match self {
            Self::Storage(_) => Self::Internal.to_string(),
            other => other.to_string(),
        }
    }

    /// Its stable code.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Argument(
                ArgumentError::DataTooLarge
                | ArgumentError::UpdateTooLarge
                | ArgumentError::SizeLimit(_),
            )
            | Self::BatchEntry {
                error:
                    ArgumentError::DataTooLarge
                    | ArgumentError::UpdateTooLarge
                    | ArgumentError::SizeLimit(_),
                ..
            }
            | Self::FlowNode {
                error:
                    ArgumentError::DataTooLarge
                    | ArgumentError::UpdateTooLarge
                    | ArgumentError::SizeLimit(_),
                ..
            }
            | Self::Flow(FlowFault::DataTooLarge)
            | Self::FlowAt {
                fault: FlowFault::DataTooLarge,
                ..
            }
            | Self::ReplyTooLarge => ErrorCode::TooLarge,
            Self::Argument(_)
            | Self::BatchEntry { .. }
            | Self::DurationEntry { .. }
            | Self::JobOption { .. }
            | Self::FlowNode { .. }
            | Self::FlowAt { .. }
            | Self::Flow(_) => ErrorCode::InvalidArguments,
            Self::Refused(refusal) | Self::BatchRefused { refusal, .. } => refusal_code(refusal),
            Self::Remote(fault) => fault.code(),
            Self::ShuttingDown | Self::Storage(_) | Self::UnsavedFull => {
                ErrorCode::BackendUnavailable
            }
            Self::Reply(_) | Self::Internal => ErrorCode::Internal,
        }
    }

    /// What to do next, in at most 160 characters.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Argument(error)
            | Self::BatchEntry { error, .. }
            | Self::FlowNode { error, .. }
            | Self::JobOption { error }
            | Self::DurationEntry { error, .. } => error.hint(),
            Self::Flow(fault) | Self::FlowAt { fault, .. } => fault.hint(),
            Self::Refused(refusal) | Self::BatchRefused { refusal, .. } => refusal_hint(refusal),
            Self::Remote(fault) => fault.hint(),
            Self::Reply(_) => {
                "Nothing was changed. Ask the operator whether the backend has a version that this server knows."
            }
            Self::ReplyTooLarge => {
                "Ask for fewer jobs: a smaller limit, then the rest by its offset."
            }
            Self::ShuttingDown => "Connect again once the server is back.",
            Self::Storage(_) | Self::UnsavedFull => {
                "Nothing was changed. Ask get_storage_status what is wrong; once the disk is back, try again."
            }
            Self::Internal => "Try once more; if it persists, read the log of the server.",
        }
    }
}

const fn refusal_code(refusal: &Refusal) -> ErrorCode {
    match refusal {
        Refusal::NotActive(_)
        | Refusal::ParentNotLinkable(_)
        | Refusal::RepeatRelations(_)
        | Refusal::NoParent(_) => ErrorCode::WrongState,
        Refusal::TokenRequired(_) => ErrorCode::LockRequired,
        Refusal::TokenInvalid(_) => ErrorCode::LockInvalid,
        Refusal::NotFound(_)
        | Refusal::JobNotFound(_)
        | Refusal::DependencyNotFound(_)
        | Refusal::ParentNotFound(_)
        | Refusal::ChildNotFound(_) => ErrorCode::NotFound,
        Refusal::SelfDependency(_)
        | Refusal::DependencyCycle
        | Refusal::OwnParent
        | Refusal::OwnFlowParent => ErrorCode::InvalidArguments,
        Refusal::OwnerNeeded(_)
        | Refusal::ParentElsewhere { .. }
        | Refusal::ChildOfAnother { .. }
        | Refusal::GroupFull { .. }
        | Refusal::TiesTooLarge { .. }
        | Refusal::SettingsFull { .. }
        | Refusal::TooMany { .. }
        | Refusal::FlowJobExists(_) => ErrorCode::Conflict,
    }
}

const fn refusal_hint(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NotActive(_) => {
            "Read its state with bunqueue_get_job_state. A queued job must be pulled before it can be reported on."
        }
        Refusal::TokenRequired(_) => {
            "Pass the token returned by bunqueue_pull_job for this delivery."
        }
        Refusal::TokenInvalid(_) => {
            "The lock ran out or belongs to a newer delivery. Do not report on it; pull the job again."
        }
        Refusal::NotFound(_) | Refusal::JobNotFound(_) | Refusal::ChildNotFound(_) => {
            "Check the id; bunqueue_list_jobs_page lists the jobs of a queue. Removed jobs cannot be read."
        }
        Refusal::DependencyNotFound(_) => {
            "Add the job it depends on first. A job that failed and was removed counts as unknown."
        }
        Refusal::SelfDependency(_) | Refusal::DependencyCycle => {
            "Order the jobs so that none waits for itself."
        }
        Refusal::TooMany { .. } => "Remove one that is no longer needed first.",
        Refusal::SettingsFull { .. } => {
            "Resume what need not be paused, lift limits that are not needed, or obliterate queues that nobody uses."
        }
        Refusal::TiesTooLarge { .. } => {
            "Spread the jobs over several parents, or give them shorter ids."
        }
        Refusal::GroupFull { .. } => {
            "Wait until jobs of the group have been taken, or add the job with a greater group.maxSize."
        }
        Refusal::OwnerNeeded(_) => {
            "Wait until the jobs that depend on it are done, or add the job without replacing."
        }
        Refusal::ParentNotFound(_) => "Add the parent first.",
        Refusal::ParentNotLinkable(_) => {
            "Children can be added only to a parent that has not started; read its state."
        }
        Refusal::RepeatRelations(_) => {
            "Let the repeating job add a flow when it runs, or tie jobs that run once."
        }
        Refusal::ParentElsewhere { .. } => "Name the queue that the parent is in.",
        Refusal::OwnParent | Refusal::OwnFlowParent => "Name another job as the parent.",
        Refusal::ChildOfAnother { .. } => "Cut its tie to that parent first.",
        Refusal::NoParent(_) => "There is no tie to cut.",
        Refusal::FlowJobExists(_) => "Choose another id; jobs of a flow are always new.",
    }
}

impl From<ArgumentError> for CommandError {
    fn from(error: ArgumentError) -> Self {
        Self::Argument(error)
    }
}

impl From<RemoteFault> for CommandError {
    fn from(fault: RemoteFault) -> Self {
        Self::Remote(fault)
    }
}

impl From<Refusal> for CommandError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<BatchRefusal> for CommandError {
    fn from(BatchRefusal { index, refusal }: BatchRefusal) -> Self {
        match index {
            Some(index) => Self::BatchRefused { index, refusal },
            None => Self::Refused(refusal),
        }
    }
}

impl CommandError {
    /// There is no such job.
    pub const fn not_found(id: JobId) -> Self {
        Self::Refused(Refusal::NotFound(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::address::Forbidden;
    use crate::engine::ScheduleError;

    #[test]
    fn every_cause_has_a_short_hint() {
        let id = JobId::from_text("j");
        let causes = [
            CommandError::Refused(Refusal::NotActive(id.clone())),
            CommandError::Refused(Refusal::TokenRequired(id.clone())),
            CommandError::Refused(Refusal::TokenInvalid(id.clone())),
            CommandError::not_found(id),
            CommandError::Refused(Refusal::TooMany {
                what: "webhooks",
                max: 1,
            }),
            CommandError::Refused(Refusal::TiesTooLarge { max: 1 }),
            CommandError::Refused(Refusal::SettingsFull {
                what: "queues",
                max: 1,
            }),
            CommandError::Refused(Refusal::GroupFull {
                group: "g".into(),
                max: 1,
            }),
            CommandError::Reply(ReplyFault::DlqEntry),
            CommandError::ReplyTooLarge,
            CommandError::ShuttingDown,
            CommandError::UnsavedFull,
            CommandError::Internal,
            RemoteFault::Refused {
                text: "no".into(),
                code: ErrorCode::Conflict,
            }
            .into(),
            RemoteFault::NotConnected.into(),
            RemoteFault::Lost.into(),
            RemoteFault::Busy.into(),
            RemoteFault::TooLarge.into(),
            RemoteFault::Unreadable.into(),
            RemoteFault::Untranslated.into(),
            ArgumentError::WebhookUrlInvalid.into(),
            ArgumentError::WebhookHost(Forbidden::Private).into(),
            ArgumentError::WebhookCredentials.into(),
            ArgumentError::WebhookEvents("x".into()).into(),
            ArgumentError::QueueRequired.into(),
            ArgumentError::JobName.into(),
            ArgumentError::DataTooLarge.into(),
            ArgumentError::SizeLimit("1".into()).into(),
            ArgumentError::Required("x").into(),
            ArgumentError::NotNumber("x").into(),
            ArgumentError::TooSmall { field: "x", min: 0 }.into(),
            ArgumentError::NotText("x").into(),
            ArgumentError::NotTextOrNull("x").into(),
            ArgumentError::EmptyText("x").into(),
            ArgumentError::TextTooLong { field: "x", max: 1 }.into(),
            ArgumentError::NulInText("x").into(),
            ArgumentError::CustomIdUnicode.into(),
            ArgumentError::NotObject("x").into(),
            ArgumentError::NotPositiveInteger("x").into(),
            ArgumentError::NotInteger("x").into(),
            ArgumentError::NotBetween {
                field: "x",
                min: 0,
                max: 1,
            }
            .into(),
            ArgumentError::NotSafeInteger("x").into(),
            ArgumentError::MetricsQueue.into(),
            ArgumentError::MetricsType.into(),
            ArgumentError::NotList("x").into(),
            ArgumentError::TooMany { field: "x", max: 1 }.into(),
            ArgumentError::TooManyBytes { field: "x", max: 1 }.into(),
            ArgumentError::EventTypes.into(),
            CommandError::DurationEntry {
                index: 0,
                error: ArgumentError::NotNumber("duration"),
            },
            ArgumentError::LengthMismatch {
                command: "ACKB",
                field: "tokens",
            }
            .into(),
            CommandError::JobOption {
                error: ArgumentError::NotNumber("delay"),
            },
            ArgumentError::CronTiming.into(),
            ArgumentError::CronInterval.into(),
            ArgumentError::CronExpression(ScheduleError::Never).into(),
            ArgumentError::RepeatTiming.into(),
            ArgumentError::RepeatInterval.into(),
            ArgumentError::RepeatPattern(ScheduleError::Never).into(),
            ArgumentError::NotTimestamp("x").into(),
            ArgumentError::RepeatCustomId.into(),
            ArgumentError::RepeatRelations.into(),
        ];
        for cause in causes {
            assert!(
                (1..=160).contains(&cause.hint().len()),
                "{cause}: {}",
                cause.hint()
            );
        }
    }

    #[test]
    fn codes_are_distinct() {
        let mut names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ErrorCode::ALL.len());
    }
}
