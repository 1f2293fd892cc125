//! What can go wrong with a broker that is another server. No text names it: who reads them may not know where it is.

use std::sync::Arc;

use thiserror::Error;

use super::error::ErrorCode;

/// Why another server has not answered a command as asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RemoteFault {
    /// It refused, in its own words.
    #[error("{text}")]
    Refused {
        /// Its words.
        text: Arc<str>,
        /// What they mean.
        code: ErrorCode,
    },
    /// There is no connection to it at the moment.
    #[error("Not connected to the broker")]
    NotConnected,
    /// The connection broke between request and reply.
    #[error("The connection to the broker broke before it answered")]
    Lost,
    /// It has not answered in time.
    #[error("The broker did not answer in time")]
    NoAnswer,
    /// Too many requests wait to be sent or answered.
    #[error("Too many requests wait for the broker")]
    Busy,
    /// No frame holds the request.
    #[error("The request is too large for the broker")]
    TooLarge,
    /// It answered something else than the protocol says.
    #[error("The broker answered in a form that cannot be read")]
    Unreadable,
    /// The protocol has no request for the command.
    #[error("A remote broker cannot be asked for this")]
    Untranslated,
}

impl RemoteFault {
    /// Its stable code.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { code, .. } => *code,
            Self::NotConnected | Self::Lost | Self::Busy | Self::Unreadable => {
                ErrorCode::BackendUnavailable
            }
            Self::NoAnswer => ErrorCode::Timeout,
            Self::TooLarge => ErrorCode::TooLarge,
            Self::Untranslated => ErrorCode::Internal,
        }
    }

    /// What to do next, in at most 160 characters.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Refused { .. } => {
                "These are the words of the broker; read them, and its documentation."
            }
            Self::NotConnected => {
                "Nothing was changed. It is being connected to again; call again in a few seconds."
            }
            Self::Lost | Self::NoAnswer => {
                "The call may have been applied or not: read the state before you repeat a change."
            }
            Self::Busy => "Nothing was changed. Call again when other calls have ended.",
            Self::TooLarge => "Send less at once; store large content elsewhere and refer to it.",
            Self::Unreadable => {
                "The call may have been applied. Ask the operator whether both programs speak the same protocol."
            }
            Self::Untranslated => {
                "Ask the operator; the server itself tells more than its protocol."
            }
        }
    }
}
