//! What the words of a refusal mean: the causes that this program knows too, and where they are an answer rather than an
//! error (MCP contract, section 2).

use crate::command::bounds::cut_copy;
use crate::command::{ArgumentError, CommandError, ErrorCode, RemoteFault};
use crate::engine::{JobId, Refusal, State};

/// Parts of refusals that mean "it did not apply", in lower case.
const NO: [&str; 6] = [
    "not found",
    "not active",
    "not delayed",
    "not in queue",
    "invalid token",
    "cannot move job from state",
];

/// Causes that name a job.
const OF_JOB: [fn(JobId) -> Refusal; 10] = [
    Refusal::NotActive,
    Refusal::TokenRequired,
    Refusal::TokenInvalid,
    Refusal::DependencyNotFound,
    Refusal::OwnerNeeded,
    Refusal::ParentNotFound,
    Refusal::ParentNotLinkable,
    Refusal::NoParent,
    Refusal::FlowJobExists,
    Refusal::JobNotFound,
];

/// Causes whose words are always the same.
const FIXED: [CommandError; 13] = [
    CommandError::Internal,
    CommandError::ShuttingDown,
    CommandError::Argument(ArgumentError::QueueRequired),
    CommandError::Argument(ArgumentError::QueueTooLong),
    CommandError::Argument(ArgumentError::QueueInvalid),
    CommandError::Argument(ArgumentError::JobName),
    CommandError::Argument(ArgumentError::DataTooLarge),
    CommandError::Argument(ArgumentError::UpdateTooLarge),
    CommandError::Argument(ArgumentError::CronTiming),
    CommandError::Argument(ArgumentError::CronInterval),
    CommandError::Argument(ArgumentError::WebhookUrlInvalid),
    CommandError::Argument(ArgumentError::WebhookScheme),
    CommandError::Argument(ArgumentError::WebhookUrlRequired),
];

/// What the words of others mean, by parts of them in lower case; the first that fits.
const CODES: [(&str, ErrorCode); 16] = [
    ("not authenticated", ErrorCode::BackendUnavailable),
    ("rate limit exceeded", ErrorCode::BackendUnavailable),
    ("too large", ErrorCode::TooLarge),
    ("exceeds sizelimit", ErrorCode::TooLarge),
    ("lock token required", ErrorCode::LockRequired),
    ("expired lock token", ErrorCode::LockInvalid),
    ("invalid token", ErrorCode::LockInvalid),
    ("not found", ErrorCode::NotFound),
    ("not active", ErrorCode::WrongState),
    ("not delayed", ErrorCode::WrongState),
    ("not linkable", ErrorCode::WrongState),
    ("cannot move", ErrorCode::WrongState),
    ("must ", ErrorCode::InvalidArguments),
    ("invalid", ErrorCode::InvalidArguments),
    ("required", ErrorCode::InvalidArguments),
    ("flow ", ErrorCode::InvalidArguments),
];

/// Whether the words say that there is no such thing.
pub(super) fn is_absence(text: &str) -> bool {
    text.to_ascii_lowercase().contains("not found")
}

/// Whether the words say that it did not apply, which is an answer and no error.
pub(super) fn is_no(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    NO.iter().any(|part| text.contains(part))
}

/// The state of the job, where the words tell it.
pub(super) fn state_in(text: &str) -> Option<State> {
    let (before, after) = [("(current state: ", ")"), ("from state '", "'")]
        .into_iter()
        .find_map(|(before, after)| Some((text.split_once(before)?.1, after)))?;
    State::from_name(before.split_once(after)?.0)
}

/// The cause that has these words.
pub(super) fn told(text: &str) -> CommandError {
    let known = FIXED.into_iter().find(|error| error.to_string() == text);
    let of_job = || OF_JOB.into_iter().find_map(|cause| of_job(cause, text));
    known.or_else(of_job).unwrap_or_else(|| {
        let lower = text.to_ascii_lowercase();
        let code = CODES.iter().find(|(part, _)| lower.contains(part));
        RemoteFault::Refused {
            text: cut_copy(text),
            code: code.map_or(ErrorCode::Conflict, |(_, code)| *code),
        }
        .into()
    })
}

/// The cause, if these are its words around some id.
fn of_job(cause: fn(JobId) -> Refusal, text: &str) -> Option<CommandError> {
    const PLACE: &str = "\0";
    let words = cause(JobId::from_text(PLACE)).to_string();
    let (before, after) = words.split_once(PLACE)?;
    let id = text.strip_prefix(before)?.strip_suffix(after)?;
    Some(cause(JobId::from_text(id)).into())
}
