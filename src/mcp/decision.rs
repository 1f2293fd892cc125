//! A model that decides instead of writing: which toolset a request needs, and whether a user has asked for something
//! (MCP contract, section 7).
//!
//! It speaks the System One form: a state, typed questions by name, typed answers with probabilities. What leaves the
//! process is the request and the catalog, or the words of the user and the impact of a call; never the data of a job.

use std::error::Error;
use std::time::Duration;

use reqwest::{StatusCode, Url};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::net;

/// Pause before the one repetition of a request that may succeed then.
const RETRY_PAUSE: Duration = Duration::from_millis(400);
/// Answers of a server that is only busy or restarting.
const PASSING: [u16; 5] = [429, 500, 502, 503, 529];
/// Bytes read of an answer; those of one question have some hundred.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The name of the one question.
const QUESTION: &str = "q";

/// Where the model is and how it is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionOptions {
    /// Its provider, as the setting names it.
    pub provider: &'static str,
    /// Its name there.
    pub model: String,
    /// Bearer token, if it needs one.
    pub key: Option<String>,
    /// The endpoint.
    pub url: Url,
    /// Time for each request.
    pub timeout: Duration,
    /// Probability from which a request counts as asking for an operation, above 0 and at most 1.
    pub threshold: f64,
}

/// Why the model has decided nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}", self.text())]
pub enum Undecided {
    /// It took too long.
    Timeout,
    /// It cannot be reached.
    Unreachable,
    /// Its key is wrong.
    Unauthorized,
    /// It has answered with an error.
    Refused,
    /// Its answer is none to the question.
    Unreadable,
}

impl Undecided {
    /// In words; they name no address.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Timeout => "it took too long",
            Self::Unreachable => "it cannot be reached",
            Self::Unauthorized => "it refused the key",
            Self::Refused => "it answered with an error",
            Self::Unreadable => "its answer does not fit the question",
        }
    }

    /// Whether it is worth another try.
    const fn is_passing(self) -> bool {
        matches!(self, Self::Timeout | Self::Unreachable)
    }
}

/// What it has chosen.
#[derive(Debug)]
pub struct Choice {
    /// One of the options.
    pub choice: String,
    /// How likely each is.
    pub probabilities: Map<String, Value>,
}

/// The model.
pub struct DecisionModel {
    options: DecisionOptions,
    http: reqwest::Client,
}

#[derive(Deserialize)]
struct Answered {
    answers: Option<Map<String, Value>>,
    /// Some gateways wrap the answer.
    result: Option<Box<Answered>>,
}

impl DecisionModel {
    /// A client of the model; nothing is sent yet.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(options: DecisionOptions) -> Result<Self, Box<dyn Error>> {
        let http = net::outgoing()?.timeout(options.timeout).build()?;
        Ok(Self { options, http })
    }

    /// Where it is and how it is asked.
    pub const fn options(&self) -> &DecisionOptions {
        &self.options
    }

    /// The probability from which a request counts.
    pub const fn threshold(&self) -> f64 {
        self.options.threshold
    }

    /// Which of `options`, given with what each is for, a request needs.
    ///
    /// # Errors
    /// [`Undecided`].
    pub async fn choose<'a>(
        &self,
        request: &str,
        options: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Choice, Undecided> {
        let criteria: Map<String, Value> = options
            .map(|(id, purpose)| (id.to_owned(), purpose.into()))
            .collect();
        let question = json!({
            "type": "choice",
            "instructions": "Which group of tools does the request need?",
            "criteria": criteria,
        });
        let mut answer = self.ask(json!({ "request": request }), question).await?;
        let Some(Value::String(choice)) = answer.remove("choice") else {
            return Err(Undecided::Unreadable);
        };
        if !criteria.contains_key(&choice) {
            return Err(Undecided::Unreadable);
        }
        let probabilities = match answer.remove("probabilities") {
            Some(Value::Object(probabilities)) => probabilities,
            _ => Map::new(),
        };
        Ok(Choice {
            choice,
            probabilities,
        })
    }

    /// How likely the words of a user ask for an operation, from 0 to 1.
    ///
    /// # Errors
    /// [`Undecided`].
    pub async fn judge(&self, words: &str, operation: &str) -> Result<f64, Undecided> {
        let state = json!({ "userRequest": words, "operation": operation });
        let question = json!({
            "type": "noul",
            "instructions": "Does the user's request clearly ask for this operation on this target?",
            "criteria": {
                "true": "The request asks for this very operation, or for something that plainly includes it.",
                "false": "The request asks for something else, for less, or only for information.",
            },
        });
        let answer = self.ask(state, question).await?;
        let probability = answer.get("noul").and_then(Value::as_f64);
        probability
            .filter(|probability| (0.0..=1.0).contains(probability))
            .ok_or(Undecided::Unreadable)
    }

    async fn ask(&self, state: Value, question: Value) -> Result<Map<String, Value>, Undecided> {
        let body = json!({
            "model": self.options.model,
            "state": state,
            "questions": { QUESTION: question },
        })
        .to_string();
        let answer = match self.request(body.clone()).await {
            Err((fault, passing)) if passing => {
                tracing::debug!(%fault, "the decision model is asked again");
                tokio::time::sleep(RETRY_PAUSE).await;
                self.request(body).await
            }
            answer => answer,
        };
        let answer = answer.map_err(|(fault, _)| fault)?;
        let mut answered: Answered =
            serde_json::from_slice(&answer).map_err(|_| Undecided::Unreadable)?;
        if let Some(inner) = answered.result {
            answered = *inner;
        }
        match answered.answers.and_then(|mut all| all.remove(QUESTION)) {
            Some(Value::Object(answer)) => Ok(answer),
            _ => Err(Undecided::Unreadable),
        }
    }

    /// One request; a fault comes with whether another try may help.
    async fn request(&self, body: String) -> Result<Vec<u8>, (Undecided, bool)> {
        let transport = |error: reqwest::Error| {
            let fault = if error.is_timeout() {
                Undecided::Timeout
            } else {
                Undecided::Unreachable
            };
            (fault, fault.is_passing())
        };
        let mut request = self
            .http
            .post(self.options.url.clone())
            .header("Content-Type", "application/json")
            .body(body);
        if let Some(key) = &self.options.key {
            request = request.bearer_auth(key);
        }
        let mut answer = request.send().await.map_err(transport)?;
        let status = answer.status();
        if !status.is_success() {
            let fault = match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Undecided::Unauthorized,
                _ => Undecided::Refused,
            };
            return Err((fault, PASSING.contains(&status.as_u16())));
        }
        let mut read = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(transport)? {
            if read.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err((Undecided::Unreadable, false));
            }
            read.extend_from_slice(&chunk);
        }
        Ok(read)
    }
}
