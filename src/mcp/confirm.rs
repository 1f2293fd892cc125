//! The consent of a person to what cannot be taken back (MCP contract, section 6).
//!
//! Whoever can be asked is asked, and only a clear yes lets the call run; what the call itself says counts for nothing then.
//! Whoever cannot be asked has to repeat the exact target, and, where a model judges requests, the words of the user. The
//! model can only refuse.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::decision::DecisionModel;
use super::error::ToolError;
use super::foreign::visible;
use super::registry::Tool;
use crate::command::ErrorCode;

/// Characters of a question, so that a dialogue of any client shows all of it (section 16, B15).
pub const QUESTION_MAX: usize = 600;

/// What a client says to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Yes.
    Confirmed,
    /// Anything else.
    Refused,
    /// It cannot ask anybody after all.
    CannotAsk,
}

/// The way to the person behind a client.
pub trait Ask: Send + Sync {
    /// Asks for a yes or no.
    fn ask(&self, question: String) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>>;
}

/// How the client of a call asks its user.
#[derive(Clone, Default)]
pub enum Asking {
    /// It does not.
    #[default]
    Never,
    /// While the call waits.
    Within(Arc<dyn Ask>),
    /// Between two calls: the first is answered with the question, the second brings the reply (revision 2026-07-28).
    Between(Option<Reply>),
}

/// What a guarded call gives besides the arguments of its tool.
#[derive(Debug, Default)]
pub struct Given {
    confirm: Option<String>,
    user_request: Option<String>,
    /// It only asks what would happen.
    pub is_dry: bool,
}

impl Given {
    /// Takes them out of the arguments; none of them reaches the tool.
    pub fn take(arguments: &mut Map<String, Value>) -> Self {
        let mut text = |name| match arguments.shift_remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        Self {
            confirm: text("confirm"),
            user_request: text("userRequest"),
            is_dry: arguments.shift_remove("dryRun") == Some(Value::Bool(true)),
        }
    }
}

/// Whether a guarded call may run.
pub enum Consent {
    /// It may.
    Given,
    /// Its client has to ask this first and to call again.
    Needed(String),
}

/// Why it may not.
#[derive(Clone, Debug, PartialEq)]
pub struct Unconfirmed {
    /// What was not confirmed.
    pub impact: String,
    /// Why.
    pub cause: Cause,
}

/// Why a call is not confirmed.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// Somebody was asked and did not say yes.
    Declined,
    /// Nobody can be asked, and the call does not name its target again.
    NotRepeated {
        /// Whether something is destroyed for good.
        destructive: bool,
        /// How to go on.
        how: String,
    },
    /// The words of the user are missing.
    NoRequest,
    /// The model could not be asked.
    NoJudgement(&'static str),
    /// The model does not read the request so.
    NotMeant {
        /// How likely it takes it, from 0 to 1.
        probability: f64,
        /// How likely it would have to be.
        threshold: f64,
    },
}

impl Unconfirmed {
    /// The exact text.
    pub const fn text(&self) -> &'static str {
        match self.cause {
            Cause::Declined => "The user did not confirm this operation.",
            Cause::NotRepeated {
                destructive: true, ..
            } => "Confirmation required for a destructive operation.",
            Cause::NotRepeated {
                destructive: false, ..
            } => "Confirmation required for this operation.",
            Cause::NoRequest => {
                "userRequest is required: pass the user's own words that ask for this operation."
            }
            Cause::NoJudgement(_) => {
                "Could not verify the request with the decision model; ask the user to confirm explicitly."
            }
            Cause::NotMeant { .. } => {
                "The user request does not clearly ask for this operation; ask the user before retrying."
            }
        }
    }

    /// Its stable code.
    pub const fn code(&self) -> ErrorCode {
        match self.cause {
            Cause::Declined | Cause::NotMeant { .. } => ErrorCode::ConfirmationDeclined,
            Cause::NotRepeated { .. } | Cause::NoRequest | Cause::NoJudgement(_) => {
                ErrorCode::ConfirmationRequired
            }
        }
    }

    /// What an answer says beyond text and code.
    pub fn members(&self) -> Vec<(&'static str, Value)> {
        let mut members = vec![
            ("executed", false.into()),
            ("impact", self.impact.clone().into()),
        ];
        match &self.cause {
            Cause::Declined | Cause::NoRequest => {}
            Cause::NotRepeated { how, .. } => members.push(("howToConfirm", how.clone().into())),
            Cause::NoJudgement(cause) => members.push(("cause", (*cause).into())),
            Cause::NotMeant {
                probability,
                threshold,
            } => members.extend([
                ("probability", (*probability).into()),
                ("threshold", (*threshold).into()),
            ]),
        }
        members
    }
}

/// The gate before guarded tools.
pub struct Gate {
    model: Option<Arc<DecisionModel>>,
}

impl Gate {
    /// A gate that also asks `model`, if there is one.
    pub const fn new(model: Option<Arc<DecisionModel>>) -> Self {
        Self { model }
    }

    /// Whether a call of `tool` on `target` with that `impact` may run.
    ///
    /// # Errors
    /// [`ToolError::Unconfirmed`].
    pub async fn pass(
        &self,
        tool: &Tool,
        target: &str,
        impact: String,
        given: Given,
        asking: &Asking,
    ) -> Result<Consent, ToolError> {
        let reply = match asking {
            Asking::Never => Reply::CannotAsk,
            Asking::Within(client) => client.ask(question(&impact)).await,
            Asking::Between(Some(reply)) => *reply,
            Asking::Between(None) => return Ok(Consent::Needed(question(&impact))),
        };
        let cause = match reply {
            Reply::Confirmed => None,
            Reply::Refused => Some(Cause::Declined),
            Reply::CannotAsk => self.repeated(tool, target, &impact, given).await,
        };
        match cause {
            None => Ok(Consent::Given),
            Some(cause) => Err(Unconfirmed { impact, cause }.into()),
        }
    }

    /// What is missing in a call whose client can ask nobody.
    async fn repeated(
        &self,
        tool: &Tool,
        target: &str,
        impact: &str,
        given: Given,
    ) -> Option<Cause> {
        if given.confirm.as_deref() != Some(target) {
            return Some(Cause::NotRepeated {
                destructive: tool.policy.destructive,
                how: self.how(tool.name, target),
            });
        }
        let model = self.model.as_ref()?;
        let Some(request) = given.user_request.filter(|words| !words.trim().is_empty()) else {
            return Some(Cause::NoRequest);
        };
        match model.judge(&request, impact).await {
            Err(fault) => Some(Cause::NoJudgement(fault.text())),
            Ok(probability) if probability < model.threshold() => Some(Cause::NotMeant {
                probability,
                threshold: model.threshold(),
            }),
            Ok(_) => None,
        }
    }

    fn how(&self, tool: &str, target: &str) -> String {
        let value = Value::from(target);
        let request = if self.model.is_some() {
            ", and userRequest set to the user's own words"
        } else {
            ""
        };
        format!(
            "Ask the user first. If the user agrees, call {tool} again with the same arguments and confirm set to {value}{request}."
        )
    }
}

fn question(impact: &str) -> String {
    const ASKED: &str = " Do it?";
    let room = QUESTION_MAX - ASKED.len();
    // It is shown to a person, and names in it are other people's.
    let impact = visible(impact);
    let mut text: String = impact.chars().take(room).collect();
    if impact.chars().nth(room).is_some() {
        text.pop();
        text.push('…');
    }
    text + ASKED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_keeps_its_length_and_its_end() {
        assert_eq!(question("It goes."), "It goes. Do it?");
        let long = question(&"ü".repeat(2 * QUESTION_MAX));
        assert_eq!(long.chars().count(), QUESTION_MAX);
        assert!(long.ends_with("ü… Do it?"), "{long}");
    }
}
