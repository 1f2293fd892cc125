//! Every way in which a command can be refused: one table of codes, texts and hints for all surfaces.
//!
//! The texts that clients match on are the protocol's (tcp protocol, sections 4 to 18; MCP contract,
//! section 10); the hints are ours. No text carries a path, a host name or a backtrace.

use std::sync::Arc;

use thiserror::Error;

use super::address::Forbidden;
use super::flow::FlowFault;
use crate::engine::{BatchRefusal, JobId, Refusal, ScheduleError};

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
            Self::NotFound => "There is no job with that id.",
            Self::WrongState => "The job is not in a state that allows the operation.",
            Self::LockRequired => {
                "The job was delivered with a lock and the call carried no token."
            }
            Self::LockInvalid => "The token is not that of the current lock.",
            Self::Conflict => "The request clashes with something that exists.",
            Self::TooLarge => "The job data is larger than the limit.",
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
    /// A job of a flow does not fit; nothing of the flow was applied.
    #[error("{path}: {error}")]
    FlowNode {
        /// Where in the flow.
        path: String,
        /// Its fault.
        error: ArgumentError,
    },
    /// The broker is shutting down or unreachable.
    #[error("Server is shutting down")]
    ShuttingDown,
    /// A fault of ours.
    #[error("Internal server error")]
    Internal,
}

/// What is wrong with an argument.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArgumentError {
    /// No queue, or an empty name.
    #[error("Queue name is required")]
    QueueRequired,
    /// Over 256 characters.
    #[error("Queue name too long (max 256 characters)")]
    QueueTooLong,
    /// Outside letters, digits, `_ - . :`.
    #[error("Queue name contains invalid characters")]
    QueueInvalid,
    /// Empty, not text, or over 256 characters.
    #[error("Job name must be a non-empty string of at most 256 characters")]
    JobName,
    /// JSON form above 10,485,760 characters.
    #[error("Job data too large (max 10MB)")]
    DataTooLarge,
    /// An update above [`super::bounds::UPDATE_MAX`].
    #[error("Job data too large (max 32MB)")]
    UpdateTooLarge,
    /// JSON form above the job's own `sizeLimit`.
    #[error("Job data exceeds sizeLimit of {0} bytes")]
    SizeLimit(String),
    /// Missing.
    #[error("{0} is required")]
    Required(&'static str),
    /// Not a number.
    #[error("{0} must be a number")]
    NotNumber(&'static str),
    /// NaN or infinite.
    #[error("{0} must be a finite number")]
    NotFinite(&'static str),
    /// Below its bound.
    #[error("{field} must be at least {min}")]
    TooSmall {
        /// The argument.
        field: &'static str,
        /// Its bound.
        min: i64,
    },
    /// Above its bound.
    #[error("{field} must be at most {max}")]
    TooLarge {
        /// The argument.
        field: &'static str,
        /// Its bound.
        max: i64,
    },
    /// Not text.
    #[error("{0} must be a string")]
    NotText(&'static str),
    /// Neither text nor null.
    #[error("{0} must be a string or null")]
    NotTextOrNull(&'static str),
    /// Empty text.
    #[error("{0} must be a non-empty string")]
    EmptyText(&'static str),
    /// Text above its bound.
    #[error("{field} must be at most {max} characters")]
    TextTooLong {
        /// The argument.
        field: &'static str,
        /// Its bound in UTF-16 units.
        max: usize,
    },
    /// Text with a NUL in it.
    #[error("{0} must not contain NUL characters")]
    NulInText(&'static str),
    /// An id that is no well-formed Unicode.
    #[error("custom ID must be well-formed Unicode")]
    CustomIdUnicode,
    /// Not an object.
    #[error("{0} must be an object")]
    NotObject(&'static str),
    /// Not a whole number from 1 to 2^53 - 1.
    #[error("{0} must be a positive safe integer")]
    NotPositiveInteger(&'static str),
    /// Not a whole number.
    #[error("{0} must be an integer")]
    NotInteger(&'static str),
    /// Outside its bounds.
    #[error("{field} must be between {min} and {max}")]
    NotBetween {
        /// The argument.
        field: &'static str,
        /// Its least value.
        min: i64,
        /// Its greatest value.
        max: i64,
    },
    /// Not a whole number from 0 to 2^53 - 1.
    #[error("{0} must be a non-negative safe integer")]
    NotSafeInteger(&'static str),
    /// A type of metrics without a queue.
    #[error("Metrics queue is required")]
    MetricsQueue,
    /// No such type of metrics.
    #[error("Metrics type must be 'completed' or 'failed'")]
    MetricsType,
    /// Not a list.
    #[error("{0} must be an array")]
    NotList(&'static str),
    /// A list above its bound.
    #[error("{field} must have at most {max} entries")]
    TooMany {
        /// The argument.
        field: &'static str,
        /// Its bound.
        max: usize,
    },
    /// Not a list of 1 to [`super::bounds::EVENT_TYPES_MAX`] names.
    #[error("eventTypes must be an array of 1 to 32 event names")]
    EventTypes,
    /// Parallel lists of a batch differ in length.
    #[error("{command} {field} length must match ids length")]
    LengthMismatch {
        /// The command.
        command: &'static str,
        /// The list that differs.
        field: &'static str,
    },
    /// No URL, or an empty one.
    #[error("Webhook URL is required")]
    WebhookUrlRequired,
    /// Over [`super::bounds::WEBHOOK_URL_MAX`].
    #[error("Webhook URL too long (max 2048 characters)")]
    WebhookUrlTooLong,
    /// No URL.
    #[error("Invalid URL format")]
    WebhookUrlInvalid,
    /// Neither http nor https.
    #[error("Webhook URL must use http or https protocol")]
    WebhookScheme,
    /// A host that this server must not be made to call.
    #[error("Webhook URL cannot point to {0}")]
    WebhookHost(Forbidden),
    /// A user name or password before the host.
    #[error("Webhook URL cannot contain a user name or password")]
    WebhookCredentials,
    /// Names that no event of webhooks has.
    #[error(
        "Invalid webhook event(s): {0}. Valid: job.pushed, job.started, job.completed, job.failed, job.progress"
    )]
    WebhookEvents(Arc<str>),
    /// A cron without any time.
    #[error("Cron job must have either schedule or repeatEvery")]
    CronTiming,
    /// An interval that is no whole number of ms.
    #[error("Cron repeatEvery must be a positive safe integer number of milliseconds")]
    CronInterval,
    /// A pattern or a zone of a cron that is none.
    #[error("Invalid cron expression: {0}")]
    CronExpression(ScheduleError),
    /// A repetition without any time, or with two.
    #[error("repeat requires exactly one of every or pattern")]
    RepeatTiming,
    /// An interval that never comes.
    #[error("repeat.every must be a positive finite number")]
    RepeatInterval,
    /// A pattern or a zone of a repetition that is none.
    #[error("Invalid repeat pattern: {0}")]
    RepeatPattern(ScheduleError),
    /// Not a point in time.
    #[error("{0} must be a finite timestamp")]
    NotTimestamp(&'static str),
    /// A job that repeats has an id chosen by its client.
    #[error("repeat jobs cannot use JobOptions.jobId; use repeat.jobId instead")]
    RepeatCustomId,
    /// A job that repeats is part of a flow.
    #[error("repeat jobs cannot participate in parent or dependency relationships")]
    RepeatRelations,
    /// Part of the protocol that this version does not implement; ignoring it would change what the job means.
    #[error("{0} is not supported by this version")]
    Unsupported(&'static str),
}

impl CommandError {
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
            | Self::Flow(FlowFault::DataTooLarge) => ErrorCode::TooLarge,
            Self::Argument(_)
            | Self::BatchEntry { .. }
            | Self::DurationEntry { .. }
            | Self::JobOption { .. }
            | Self::FlowNode { .. }
            | Self::Flow(_) => ErrorCode::InvalidArguments,
            Self::Refused(refusal) | Self::BatchRefused { refusal, .. } => refusal_code(refusal),
            Self::ShuttingDown => ErrorCode::BackendUnavailable,
            Self::Internal => ErrorCode::Internal,
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
            Self::Flow(fault) => fault.hint(),
            Self::Refused(refusal) | Self::BatchRefused { refusal, .. } => refusal_hint(refusal),
            Self::ShuttingDown => "Connect again once the server is back.",
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

impl ArgumentError {
    /// Whether it is about how a job repeats; the protocol finds that later than other faults. The interval is an
    /// option like others.
    pub const fn is_of_repetition(&self) -> bool {
        matches!(
            self,
            Self::RepeatTiming
                | Self::RepeatPattern(_)
                | Self::NotTimestamp(_)
                | Self::RepeatCustomId
                | Self::RepeatRelations
        )
    }

    /// What to do next, in at most 160 characters.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::QueueRequired | Self::QueueTooLong | Self::QueueInvalid => {
                "A queue name has 1 to 256 characters out of letters, digits, underscore, hyphen, dot and colon."
            }
            Self::JobName => "A job name is a text of 1 to 256 characters, for example send-mail.",
            Self::DataTooLarge | Self::UpdateTooLarge => {
                "Store large content elsewhere and put a reference to it into data."
            }
            Self::SizeLimit(_) => "Send less data, or raise the sizeLimit of the job.",
            Self::Required(_) => "Pass the argument.",
            Self::NotNumber(_) | Self::NotFinite(_) => "Pass a finite number.",
            Self::TooSmall { .. } | Self::TooLarge { .. } | Self::NotBetween { .. } => {
                "Pass a value within the bounds."
            }
            Self::NotInteger(_) => "Pass a whole number.",
            Self::NotText(_) | Self::NotTextOrNull(_) => "Pass a text.",
            Self::EmptyText(_) => "Pass a text that is not empty.",
            Self::TextTooLong { .. } | Self::WebhookUrlTooLong => "Pass a shorter text.",
            Self::NulInText(_) => "Pass the text without NUL characters.",
            Self::CustomIdUnicode => "Pass an id that is valid UTF-8.",
            Self::NotObject(_) => "Pass an object.",
            Self::NotPositiveInteger(_) => "Pass a whole number of at least 1.",
            Self::NotSafeInteger(_) => "Pass a whole number of at least 0.",
            Self::MetricsQueue => {
                "Name the queue, or leave the type out for totals over all queues."
            }
            Self::MetricsType => "Pass completed or failed.",
            Self::NotList(_) => "Pass a list.",
            Self::TooMany { .. } => "Split the list over several calls.",
            Self::EventTypes => "Name 1 to 32 types of event, or leave the argument out for all.",
            Self::LengthMismatch { .. } => "Give exactly one entry per id.",
            Self::WebhookUrlRequired | Self::WebhookUrlInvalid | Self::WebhookScheme => {
                "Pass an absolute URL such as https://hooks.example.com/jobs."
            }
            Self::WebhookHost(_) => {
                "Pass a URL on the public internet; only the operator can allow private addresses."
            }
            Self::WebhookCredentials => {
                "Leave them out of the URL; a receiver can check the signature made with the secret."
            }
            Self::WebhookEvents(_) => "Name only events of that list.",
            Self::CronTiming => "Pass a cron pattern as schedule, or ms as repeatEvery.",
            Self::CronInterval => "Pass a whole number of at least 1.",
            Self::CronExpression(_) | Self::RepeatPattern(_) => {
                "Pass five fields (minute hour day month weekday), e.g. 0 9 * * 1-5, and a zone such as Europe/Rome."
            }
            Self::RepeatTiming => "Pass either every, in ms, or a cron pattern.",
            Self::RepeatInterval => "Pass a number of ms above 0.",
            Self::NotTimestamp(_) => "Pass Unix milliseconds.",
            Self::RepeatCustomId => "Leave the id out; each generation gets one of its own.",
            Self::RepeatRelations => "Leave either repeat or the parent and dependencies out.",
            Self::Unsupported(_) => "Leave the option out; a later version will take it.",
        }
    }
}

impl From<ArgumentError> for CommandError {
    fn from(error: ArgumentError) -> Self {
        Self::Argument(error)
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
            CommandError::Refused(Refusal::GroupFull {
                group: "g".into(),
                max: 1,
            }),
            CommandError::ShuttingDown,
            CommandError::Internal,
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
            ArgumentError::Unsupported("x").into(),
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
