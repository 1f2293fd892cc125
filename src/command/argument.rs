//! What can be wrong with an argument: the texts that clients match on (tcp protocol, sections 4 to 18; MCP contract,
//! section 10) and hints of ours.

use std::sync::Arc;

use thiserror::Error;

use super::address::Forbidden;
use crate::engine::ScheduleError;

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
    /// A list whose texts take too much.
    #[error("{field} must take at most {max} bytes")]
    TooManyBytes {
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
            Self::TooManyBytes { .. } => "Pass fewer or shorter texts.",
            Self::TooMany { .. } => "Split the list over several calls.",
            Self::EventTypes => "Name 1 to 32 types of event, or leave the argument out for all.",
            Self::LengthMismatch { .. } => "Give exactly one entry per id.",
            Self::WebhookUrlRequired | Self::WebhookUrlInvalid | Self::WebhookScheme => {
                "Pass an absolute URL such as https://hooks.example.com/jobs."
            }
            Self::WebhookHost(_) => {
                "Pass a URL on the public internet; only the operator can allow others, with WEBHOOK_ALLOW_PRIVATE=true."
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
        }
    }
}
