//! Why a tool call did not do what was asked, as an agent reads it: exact text, stable code, next step.
//!
//! Causes below the seam keep the text, code and hint of [`crate::command::error`]; what only the agent
//! door can find wrong is here. Rendering happens once, in [`ToolError::body`].

use std::borrow::Cow;

use serde_json::{Value, json};
use thiserror::Error;

use super::arguments::Issue;
use super::confirm::Unconfirmed;
use super::decision::Undecided;
use super::view::cut;
use crate::command::address::Forbidden;
use crate::command::bounds::CRON_NAME_MAX;
use crate::command::{ArgumentError, CommandError, ErrorCode, FlowFault, ReplyFault};
use crate::engine::{JobId, Refusal, ScheduleError, UNKNOWN_ZONE};

/// Faults of one call that are listed; the rest is counted.
const ISSUES_MAX: usize = 20;
/// Bytes of a name that an error repeats: no schedule has a longer one.
const NAME_SHOWN: usize = 4 * CRON_NAME_MAX;

/// Why a tool call failed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ToolError {
    /// Arguments that the schema does not take.
    #[error("{}", sentence(.0))]
    Arguments(Vec<Issue>),
    /// Arguments that each fit, but not together.
    #[error("{}{}", .item.map(|index| format!("jobs[{index}]: ")).unwrap_or_default(), .rule.text())]
    Rule {
        /// The rule they break.
        rule: Rule,
        /// Position in `jobs` of the item at fault.
        item: Option<usize>,
    },
    /// A free-form value that carries a malformed tagged form.
    #[error("{path}: {message}")]
    Payload {
        /// Which argument.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// The command was refused.
    #[error("{0}")]
    Command(#[from] CommandError),
    /// The command was refused, and more is known than its cause.
    #[error("{error}")]
    Hinted {
        /// The cause.
        error: CommandError,
        /// What to do next, in at most 160 characters.
        hint: String,
    },
    /// There is no such schedule.
    #[error("Cron not found")]
    CronNotFound {
        /// The name that was looked up.
        name: String,
    },
    /// There is no such job in that queue, so no tree below it.
    #[error("Flow not found")]
    FlowNotFound {
        /// What is known of the job, in at most 160 characters.
        hint: Option<String>,
    },
    /// The tool exists, but this server does not expose its toolset.
    #[error("{tool} is not enabled on this server (toolset {toolset})")]
    NotEnabled {
        /// The tool.
        tool: &'static str,
        /// Its toolset.
        toolset: &'static str,
    },
    /// The tool exists, and its client has not loaded its toolset.
    #[error("{tool} is not loaded; call bunqueue_enable_toolsets with [\"{toolset}\"] first")]
    NotLoaded {
        /// The tool.
        tool: &'static str,
        /// Its toolset.
        toolset: &'static str,
    },
    /// There is no such tool to be called through another one.
    #[error("Unknown tool {name}")]
    UnknownTool {
        /// The name.
        name: String,
        /// The tool that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The decision model has chosen nothing.
    #[error("Decision model unavailable ({0}); pick a toolset with bunqueue_enable_toolsets")]
    Undecided(Undecided),
    /// A person did not agree.
    #[error("{}", .0.text())]
    Unconfirmed(Box<Unconfirmed>),
    /// The caller withdrew the call.
    #[error("Call cancelled")]
    Cancelled,
    /// A fault of ours; details are in the log.
    #[error("Internal error")]
    Internal,
}

/// A rule between arguments, or about one, that no schema can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A lock needs somebody who holds it.
    LockTtlRequiresOwner,
    /// Only a key with a lifetime can have it restarted.
    ExtendRequiresTtl,
    /// Tokens prove deliveries one by one.
    TokenPerJob,
    /// A page begins at one place.
    CursorOrOffset,
    /// A cursor continues the listing it came from.
    CursorOfAnotherListing,
    /// Only a pattern names times of the day.
    TimezoneNeedsSchedule,
    /// A zone is one of the database of time zones.
    UnknownTimezone,
}

impl Rule {
    /// The exact text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::LockTtlRequiresOwner => "lockTtl requires owner",
            Self::ExtendRequiresTtl => "deduplication.extend requires deduplication.ttl",
            Self::TokenPerJob => "tokens must have exactly one entry per jobId",
            Self::CursorOrOffset => "cursor and offset cannot be combined",
            Self::CursorOfAnotherListing => "cursor does not belong to this listing",
            Self::TimezoneNeedsSchedule => {
                "timezone applies only to a cron pattern: set schedule, or omit timezone"
            }
            Self::UnknownTimezone => UNKNOWN_ZONE,
        }
    }

    /// The argument to change.
    pub const fn path(self) -> &'static str {
        match self {
            Self::LockTtlRequiresOwner => "lockTtl",
            Self::ExtendRequiresTtl => "deduplication.extend",
            Self::TokenPerJob => "tokens",
            Self::CursorOrOffset | Self::CursorOfAnotherListing => "cursor",
            Self::TimezoneNeedsSchedule | Self::UnknownTimezone => "timezone",
        }
    }

    /// What to do next.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::LockTtlRequiresOwner => "Pass owner to lock the job, or leave lockTtl out.",
            Self::ExtendRequiresTtl => "Pass deduplication.ttl, or leave deduplication.extend out.",
            Self::TokenPerJob => {
                "Give one token per entry of jobIds, in the same order; \"\" for a job without a lock."
            }
            Self::CursorOrOffset => "Pass nextCursor of the page before as cursor, and no offset.",
            Self::CursorOfAnotherListing => {
                "Use the nextCursor of the same tool, queue and filter, or leave cursor out to start over."
            }
            Self::TimezoneNeedsSchedule => {
                "An interval is the same in every zone. For a time of the day pass a cron pattern, such as 0 9 * * *."
            }
            Self::UnknownTimezone => "Offsets such as +02:00 are none. Leave timezone out for UTC.",
        }
    }
}

impl Rule {
    /// The error of breaking it.
    pub const fn broken(self) -> ToolError {
        ToolError::Rule {
            rule: self,
            item: None,
        }
    }
}

impl From<Unconfirmed> for ToolError {
    fn from(unconfirmed: Unconfirmed) -> Self {
        Self::Unconfirmed(Box::new(unconfirmed))
    }
}

impl ToolError {
    /// There is no such job.
    pub const fn job_not_found(id: JobId) -> Self {
        Self::Command(CommandError::not_found(id))
    }

    /// Its stable code.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Arguments(_) | Self::Rule { .. } | Self::Payload { .. } => {
                ErrorCode::InvalidArguments
            }
            Self::Command(error) | Self::Hinted { error, .. } => error.code(),
            Self::NotEnabled { .. } | Self::NotLoaded { .. } => ErrorCode::NotLoaded,
            Self::UnknownTool { .. } | Self::CronNotFound { .. } | Self::FlowNotFound { .. } => {
                ErrorCode::NotFound
            }
            Self::Undecided(_) => ErrorCode::BackendUnavailable,
            Self::Unconfirmed(unconfirmed) => unconfirmed.code(),
            Self::Cancelled => ErrorCode::Cancelled,
            Self::Internal => ErrorCode::Internal,
        }
    }

    /// What to do next, in at most 160 characters.
    pub fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Self::Arguments(issues) => match issues.as_slice() {
                [issue] => issue.hint?.into(),
                _ => return None,
            },
            Self::Rule { rule, .. } => rule.hint().into(),
            Self::Payload { .. } => "A member whose key begins with $ stands for a value JSON lacks; wrap a real one in $object.".into(),
            Self::Command(error) => error.hint().into(),
            Self::Hinted { hint, .. } => hint.into(),
            Self::CronNotFound { .. } => "bunqueue_list_crons shows the schedules there are; a name is matched exactly.".into(),
            Self::FlowNotFound { hint: Some(hint) } => hint.into(),
            Self::FlowNotFound { hint: None } => "There is no such job: check the id. Finished jobs are deleted some time after their end.".into(),
            Self::NotEnabled { .. } => "Ask the operator to add the toolset to BUNQUEUE_MCP_TOOLSETS.".into(),
            Self::UnknownTool { nearest, .. } => match nearest {
                Some(name) => format!("Did you mean {name}?").into(),
                None => "bunqueue_enable_toolsets lists the tools of a toolset.".into(),
            },
            // Their texts say what to do.
            Self::NotLoaded { .. }
            | Self::Undecided(_)
            | Self::Unconfirmed(_)
            | Self::Cancelled => return None,
            Self::Internal => CommandError::Internal.hint().into(),
        })
    }

    /// The error object that the text of the result holds.
    pub fn body(&self, tool: &str) -> Value {
        let mut body = json!({ "error": self.text(tool), "code": self.code().name() });
        if let Self::CronNotFound { name } = self {
            put(&mut body, "name", cut(name, NAME_SHOWN).into());
        }
        if let Some(hint) = self.hint() {
            put(&mut body, "hint", hint.into());
        }
        if let Self::Unconfirmed(unconfirmed) = self {
            for (key, value) in unconfirmed.members() {
                put(&mut body, key, value);
            }
        }
        let issues = self.issues();
        if !issues.is_empty() {
            put(&mut body, "issues", issues.into());
        }
        body
    }

    /// The exact text; a fault that does not speak for itself is introduced by the tool's name.
    fn text(&self, tool: &str) -> String {
        match self {
            Self::Arguments(issues) => match issues.as_slice() {
                [issue] if issue.hint.is_some() => issue.message.clone(),
                _ => format!("Invalid arguments for {tool}: {self}"),
            },
            Self::Payload { .. } => format!("Invalid arguments for {tool}: {self}"),
            _ => self.to_string(),
        }
    }

    fn issues(&self) -> Vec<Value> {
        let issue = |path: &str, message: &str| json!({ "path": path, "message": message });
        match self {
            Self::Arguments(issues) => issues.iter().take(ISSUES_MAX).map(issue_value).collect(),
            Self::Rule { rule, item: None } => vec![issue(rule.path(), rule.text())],
            Self::Rule {
                rule,
                item: Some(index),
            } => {
                vec![issue(
                    &format!("jobs[{index}].{}", rule.path()),
                    rule.text(),
                )]
            }
            Self::Payload { path, message } => vec![issue(path, message)],
            Self::Command(CommandError::Argument(error))
                if self.code() == ErrorCode::InvalidArguments =>
            {
                vec![issue(argument(error), &error.to_string())]
            }
            Self::Command(CommandError::BatchEntry { index, error })
                if self.code() == ErrorCode::InvalidArguments =>
            {
                vec![issue(
                    &format!("jobs[{index}].{}", argument(error)),
                    &error.to_string(),
                )]
            }
            Self::Command(CommandError::FlowNode { path, error })
                if self.code() == ErrorCode::InvalidArguments =>
            {
                vec![issue(&below(path, argument(error)), &error.to_string())]
            }
            Self::Command(CommandError::FlowAt { path, fault })
                if self.code() == ErrorCode::InvalidArguments =>
            {
                vec![issue(
                    &below(path, flow_argument(fault)),
                    &fault.to_string(),
                )]
            }
            _ => Vec::new(),
        }
    }
}

/// The path of a member; either may be empty.
fn below(path: &str, member: &str) -> String {
    let parts = [path, member].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(".")
}

/// The member of a job in a flow that a fault speaks of; empty when it is the job itself.
const fn flow_argument(fault: &FlowFault) -> &'static str {
    match fault {
        FlowFault::JobId | FlowFault::DuplicateId(_) => "opts.jobId",
        FlowFault::Queue(_) => "queueName",
        FlowFault::ReservedKey(_) | FlowFault::DataNotObject | FlowFault::DataTooLarge => "data",
        _ => "",
    }
}

/// The argument of a tool that an error of the seam speaks of.
const fn argument(error: &ArgumentError) -> &'static str {
    match error {
        ArgumentError::QueueRequired
        | ArgumentError::QueueTooLong
        | ArgumentError::QueueInvalid
        | ArgumentError::MetricsQueue => "queue",
        ArgumentError::MetricsType => "type",
        ArgumentError::JobName => "name",
        ArgumentError::DataTooLarge
        | ArgumentError::UpdateTooLarge
        | ArgumentError::SizeLimit(_) => "data",
        ArgumentError::Required(field)
        | ArgumentError::NotNumber(field)
        | ArgumentError::NotFinite(field)
        | ArgumentError::TooSmall { field, .. }
        | ArgumentError::TooLarge { field, .. }
        | ArgumentError::NotText(field)
        | ArgumentError::NotTextOrNull(field)
        | ArgumentError::EmptyText(field)
        | ArgumentError::TextTooLong { field, .. }
        | ArgumentError::NulInText(field)
        | ArgumentError::NotObject(field)
        | ArgumentError::NotPositiveInteger(field)
        | ArgumentError::NotInteger(field)
        | ArgumentError::NotBetween { field, .. }
        | ArgumentError::NotSafeInteger(field)
        | ArgumentError::NotList(field)
        | ArgumentError::TooMany { field, .. }
        | ArgumentError::TooManyBytes { field, .. }
        | ArgumentError::LengthMismatch { field, .. }
        | ArgumentError::NotTimestamp(field) => field,
        ArgumentError::CustomIdUnicode => "jobId",
        ArgumentError::EventTypes => "eventTypes",
        ArgumentError::WebhookUrlRequired
        | ArgumentError::WebhookUrlTooLong
        | ArgumentError::WebhookUrlInvalid
        | ArgumentError::WebhookScheme
        | ArgumentError::WebhookHost(_)
        | ArgumentError::WebhookCredentials => "url",
        ArgumentError::WebhookEvents(_) => "events",
        ArgumentError::CronTiming | ArgumentError::CronExpression(_) => "schedule",
        ArgumentError::CronInterval => "repeatEvery",
        ArgumentError::RepeatTiming
        | ArgumentError::RepeatInterval
        | ArgumentError::RepeatPattern(_)
        | ArgumentError::RepeatCustomId
        | ArgumentError::RepeatRelations => "repeat",
    }
}

fn put(body: &mut Value, key: &str, value: Value) {
    if let Some(members) = body.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
}

fn issue_value(issue: &Issue) -> Value {
    let mut value = json!({ "path": issue.path, "message": issue.message });
    if let Some(expected) = &issue.expected {
        put(&mut value, "expected", expected.as_str().into());
    }
    value
}

fn sentence(issues: &[Issue]) -> String {
    let listed = issues
        .iter()
        .take(ISSUES_MAX)
        .map(|issue| format!("{}: {}", issue.path, issue.message));
    let mut parts: Vec<_> = listed.collect();
    if issues.len() > ISSUES_MAX {
        parts.push(format!("and {} more", issues.len() - ISSUES_MAX));
    }
    parts.join("; ")
}

/// A cause of failure as a tool's reference lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No such job.
    JobNotFound,
    /// The job is unknown or not active.
    NotActive,
    /// The delivery is locked and no token was given.
    TokenRequired,
    /// The token does not hold the lock.
    TokenInvalid,
    /// The job data is over its bound.
    DataTooLarge,
    /// The queue name is over its bound.
    QueueTooLong,
    /// The queue name has a character it may not have.
    QueueInvalid,
    /// One job of several has a fault.
    BatchEntry,
    /// An id of a flow's job is empty or has a colon.
    FlowJobId,
    /// An id occurs twice in a flow.
    FlowDuplicateId,
    /// A queue of a flow has a name that none may have.
    FlowQueue,
    /// A flow has too many levels.
    FlowTooDeep,
    /// A flow has too many jobs.
    FlowTooManyJobs,
    /// Data of a flow's job has a key that belongs to the queue.
    FlowReservedKey,
    /// No such job in that queue.
    FlowNotFound,
    /// Arguments do not fit together.
    Rule(Rule),
    /// No such schedule.
    CronNotFound,
    /// A schedule without any time.
    CronTiming,
    /// A cron pattern that is none.
    CronExpression,
    /// A webhook that would call where it must not.
    WebhookHost(Forbidden),
    /// A webhook that would not speak HTTP.
    WebhookScheme,
    /// The URL of a webhook is over its bound.
    WebhookUrlTooLong,
    /// The URL of a webhook is none.
    WebhookUrlInvalid,
    /// A broker elsewhere answered what is no answer.
    Reply(ReplyFault),
}

/// A [`Cause`] in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseText {
    /// The exact text, `<id>` and the like standing for what varies.
    pub text: String,
    /// The stable code.
    pub code: ErrorCode,
    /// What to do next.
    pub hint: String,
}

impl Cause {
    /// How the error reads.
    pub fn describe(self) -> CauseText {
        let id = JobId::from_text("<id>");
        let error: ToolError = match self {
            Self::JobNotFound => ToolError::job_not_found(id),
            Self::NotActive => CommandError::Refused(Refusal::NotActive(id)).into(),
            Self::TokenRequired => CommandError::Refused(Refusal::TokenRequired(id)).into(),
            Self::TokenInvalid => CommandError::Refused(Refusal::TokenInvalid(id)).into(),
            Self::DataTooLarge => CommandError::from(ArgumentError::DataTooLarge).into(),
            Self::QueueTooLong => CommandError::from(ArgumentError::QueueTooLong).into(),
            Self::QueueInvalid => CommandError::from(ArgumentError::QueueInvalid).into(),
            Self::Rule(rule) => rule.broken(),
            Self::CronNotFound => ToolError::CronNotFound {
                name: "<name>".into(),
            },
            Self::CronTiming => CommandError::from(ArgumentError::CronTiming).into(),
            Self::WebhookHost(host) => CommandError::from(ArgumentError::WebhookHost(host)).into(),
            Self::WebhookScheme => CommandError::from(ArgumentError::WebhookScheme).into(),
            Self::WebhookUrlTooLong => CommandError::from(ArgumentError::WebhookUrlTooLong).into(),
            Self::WebhookUrlInvalid => CommandError::from(ArgumentError::WebhookUrlInvalid).into(),
            Self::Reply(fault) => CommandError::Reply(fault).into(),
            Self::CronExpression => {
                let fault = ArgumentError::CronExpression(ScheduleError::Never);
                return CauseText {
                    text: "Invalid cron expression: <parser message>".into(),
                    code: ErrorCode::InvalidArguments,
                    hint: fault.hint().into(),
                };
            }
            Self::FlowJobId => CommandError::from(FlowFault::JobId).into(),
            Self::FlowDuplicateId => {
                CommandError::from(FlowFault::DuplicateId("<id>".into())).into()
            }
            Self::FlowQueue => CommandError::from(FlowFault::Queue("<name>".into())).into(),
            Self::FlowTooDeep => CommandError::from(FlowFault::TooDeep).into(),
            Self::FlowTooManyJobs => CommandError::from(FlowFault::TooManyJobs).into(),
            Self::FlowReservedKey => {
                CommandError::from(FlowFault::ReservedKey("<key>".into())).into()
            }
            Self::FlowNotFound => ToolError::FlowNotFound { hint: None },
            Self::BatchEntry => {
                return CauseText {
                    text: "jobs[<i>]: <reason>".into(),
                    code: ErrorCode::InvalidArguments,
                    hint: "That of the reason; no job was added. Too much data has the code too_large.".into(),
                };
            }
        };
        let hint = error.hint().map(Cow::into_owned).unwrap_or_default();
        CauseText {
            text: error.to_string(),
            code: error.code(),
            hint,
        }
    }
}
