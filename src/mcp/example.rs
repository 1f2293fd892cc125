//! The world in which the examples of `toolsets/*.md` run: one small broker with a clock that stands still and a fixed
//! source of ids, so that every documented answer is a real one and the same each time.
//!
//! Each toolset plays in a fresh world, its examples in file order. In an answer, `<word:number>` matches any text and
//! remembers it for later calls; `<any>` matches anything that is there and stands for what differs from run to run. The
//! documentation prints what was really answered, but for that; a test plays everything.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::call::Caller;
use super::dispatch::{Answer, Dispatcher};
use super::registry::Registry;
use super::view::stored;
use crate::broker::{Broker, BrokerExt, Clock, LocalBroker, ManualClock};
use crate::command::draft::JobDraft;
use crate::command::given::Number;
use crate::command::{Ack, Add, AddLog, CommandError, Fail, Progress, Pull, QueueName};
use crate::engine::{Config, Delivery, FailReport, JobId, Millis, TokenGiven};

/// The time in the world: 2026-01-05T09:00:00Z.
pub const NOW: Millis = 1_767_603_600_000;
/// In the answer of an example: anything.
const ANY: &str = "<any>";
const HOUR: Millis = 3_600_000;

/// An example as it was played.
#[derive(Clone, Debug, PartialEq)]
pub struct Played {
    /// The tool.
    pub tool: &'static str,
    /// The arguments, with what earlier answers gave.
    pub call: Value,
    /// The answer, with [`ANY`] for what differs from run to run.
    pub answer: Value,
    /// The call was refused, as the example says.
    pub is_error: bool,
}

/// Why an example does not hold.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("example {number} of {tool}: {kind}")]
pub struct ExampleError {
    /// The tool.
    pub tool: &'static str,
    /// Which of its examples, from 1.
    pub number: usize,
    /// What is wrong.
    pub kind: ExampleErrorKind,
}

/// The ways in which an example can be wrong.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ExampleErrorKind {
    /// Nobody else acts in the world, so it would wait for ever.
    #[error("it waits")]
    Waits,
    /// The call uses what no earlier answer gave.
    #[error("nothing gave {0}")]
    NotGiven(String),
    /// The answer is another one.
    #[error("at {path}: expected {expected}, got {found}")]
    Differs {
        /// Where in the answer.
        path: String,
        /// What the example says, as JSON.
        expected: String,
        /// What was answered, as JSON.
        found: String,
    },
    /// The call was refused and should not, or the other way round.
    #[error("answered {0}")]
    Outcome(String),
}

/// Plays the examples of a toolset.
///
/// # Errors
/// The first example that does not hold.
pub fn play(registry: &Arc<Registry>, toolset: &str) -> Result<Vec<Played>, ExampleError> {
    let selection = registry.everything();
    let dispatcher = Dispatcher::new(
        Arc::clone(registry),
        selection,
        world(),
        CancellationToken::new(),
    );
    let mut known = HashMap::new();
    let mut played = Vec::new();
    for tool in registry.tools_of(toolset) {
        for (index, example) in tool.examples.iter().enumerate() {
            let fault = |kind| ExampleError {
                tool: tool.name,
                number: index + 1,
                kind,
            };
            let call = filled_in(&example.call, &known).map_err(fault)?;
            let arguments = call.as_object().cloned().unwrap_or_default();
            let answered = dispatcher
                .call(tool.name, arguments, Caller::default())
                .now_or_never();
            let (mut answer, is_error) = match answered {
                Some(Ok(Answer::Success(answer) | Answer::Text(_, answer))) => (answer, false),
                Some(Ok(Answer::Failure(body))) => (body, true),
                Some(Err(_) | Ok(Answer::Question(_))) | None => {
                    return Err(fault(ExampleErrorKind::Waits));
                }
            };
            if is_error
                != example
                    .answer
                    .as_ref()
                    .is_some_and(|answer| answer.is_error)
            {
                return Err(fault(ExampleErrorKind::Outcome(answer.to_string())));
            }
            if let Some(expected) = &example.answer {
                matches(&expected.pattern, &answer, "answer", &mut known).map_err(fault)?;
                mask(&expected.pattern, &mut answer);
            }
            played.push(Played {
                tool: tool.name,
                call,
                answer,
                is_error,
            });
        }
    }
    Ok(played)
}

/// A text of the form `<word:number>`.
fn is_placeholder(text: &str) -> bool {
    let inner = text
        .strip_prefix('<')
        .and_then(|text| text.strip_suffix('>'));
    inner
        .and_then(|inner| inner.split_once(':'))
        .is_some_and(|(word, number)| {
            word.bytes().all(|byte| byte.is_ascii_lowercase())
                && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

fn filled_in(call: &Value, known: &HashMap<String, Value>) -> Result<Value, ExampleErrorKind> {
    Ok(match call {
        Value::String(text) if is_placeholder(text) => known
            .get(text)
            .cloned()
            .ok_or_else(|| ExampleErrorKind::NotGiven(text.clone()))?,
        Value::Array(items) => items
            .iter()
            .map(|item| filled_in(item, known))
            .collect::<Result<_, _>>()?,
        Value::Object(members) => {
            let filled = members
                .iter()
                .map(|(key, value)| Ok((key.clone(), filled_in(value, known)?)));
            Value::Object(filled.collect::<Result<Map<_, _>, ExampleErrorKind>>()?)
        }
        other => other.clone(),
    })
}

fn matches(
    expected: &Value,
    found: &Value,
    path: &str,
    known: &mut HashMap<String, Value>,
) -> Result<(), ExampleErrorKind> {
    let is_match = match (expected, found) {
        (Value::String(text), _) if text == ANY => !found.is_null(),
        (Value::String(text), Value::String(_)) if is_placeholder(text) => {
            known.entry(text.clone()).or_insert_with(|| found.clone()) == found
        }
        (Value::Object(members), Value::Object(_)) => {
            for (key, expected) in members {
                let found = found.get(key).unwrap_or(&Value::Null);
                matches(expected, found, &format!("{path}.{key}"), known)?;
            }
            true
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (index, (expected, found)) in items.iter().zip(others).enumerate() {
                matches(expected, found, &format!("{path}[{index}]"), known)?;
            }
            true
        }
        _ => expected == found,
    };
    if is_match {
        return Ok(());
    }
    Err(ExampleErrorKind::Differs {
        path: path.into(),
        expected: expected.to_string(),
        found: found.to_string(),
    })
}

/// Puts [`ANY`] wherever the example says so.
fn mask(expected: &Value, answer: &mut Value) {
    match (expected, answer) {
        (Value::String(text), answer) if text == ANY => *answer = ANY.into(),
        (Value::Object(members), Value::Object(found)) => {
            for (key, expected) in members {
                if let Some(found) = found.get_mut(key) {
                    mask(expected, found);
                }
            }
        }
        (Value::Array(items), Value::Array(found)) => {
            for (expected, found) in items.iter().zip(found) {
                mask(expected, found);
            }
        }
        _ => {}
    }
}

/// The world of the examples: queue `email` with one job of every kind, and `reports` with jobs that wait.
///
/// Its clock does not move; nothing in it happens by itself.
pub fn world() -> Arc<dyn Broker> {
    let clock = Arc::new(ManualClock::new(NOW - 20_000));
    let broker = LocalBroker::simulated(Config::default(), Box::new(Arc::clone(&clock)), [0; 32]);
    let seeded = seed(&broker, &clock).now_or_never();
    // Every command of the seed is a plain one on an empty broker; the test that plays the examples sees a fault.
    debug_assert!(matches!(seeded, Some(Ok(()))), "{seeded:?}");
    Arc::new(broker)
}

async fn seed(broker: &LocalBroker, clock: &ManualClock) -> Result<(), CommandError> {
    let email = |id: &'static str, name: &'static str, data| Seed {
        queue: "email",
        id,
        name,
        data,
        ..Seed::default()
    };
    email(
        "receipt-1",
        "receipt",
        json!({ "to": "ada@example.com", "order": 1001 }),
    )
    .add(broker, clock)
    .await?;
    let bounce = email(
        "bounce-1",
        "newsletter",
        json!({ "to": "bob@example.com", "list": "customers", "issue": 11 }),
    );
    Seed {
        attempts: Some(1.0),
        ..bounce
    }
    .add(broker, clock)
    .await?;
    email("invite-1", "invite", json!({ "to": "cleo@example.com" }))
        .add(broker, clock)
        .await?;
    let receipt = pull(broker).await?;
    let bounced = pull(broker).await?;
    let invited = pull(broker).await?;
    finish(broker, &receipt, &bounced, &invited).await?;
    email("welcome-1", "welcome", json!({ "to": "dan@example.com" }))
        .add(broker, clock)
        .await?;
    for (id, issue) in [("newsletter-1", 12), ("newsletter-2", 13)] {
        let newsletter = email(
            id,
            "newsletter",
            json!({ "list": "customers", "issue": issue }),
        );
        Seed {
            at: Some(NOW + HOUR),
            ..newsletter
        }
        .add(broker, clock)
        .await?;
    }
    let report = |id: &'static str, name: &'static str, priority| Seed {
        queue: "reports",
        id,
        name,
        data: json!({ "week": 1 }),
        priority,
        ..Seed::default()
    };
    for report in [
        report("digest-1", "digest", 0.0),
        report("digest-2", "digest", 0.0),
        report("weekly-1", "weekly", 5.0),
    ] {
        report.add(broker, clock).await?;
    }
    clock.advance(NOW - clock.now());
    Ok(())
}

/// One job is under way, one has failed, one is done.
async fn finish(
    broker: &LocalBroker,
    receipt: &Delivery,
    bounced: &Delivery,
    invited: &Delivery,
) -> Result<(), CommandError> {
    let token = |delivery: &Delivery| delivery.token.map_or(TokenGiven::None, TokenGiven::Token);
    let id = receipt.job.id.clone();
    broker
        .call(Progress {
            id,
            progress: 40.0,
            message: Some("rendered".into()),
        })
        .await?;
    let id = bounced.job.id.clone();
    let message = "recipient server answered 452".into();
    broker
        .call(AddLog {
            id: id.clone(),
            level: "warn".into(),
            message,
        })
        .await?;
    let report = FailReport {
        error: Some("mailbox full".into()),
        ..FailReport::default()
    };
    broker
        .call(Fail {
            id,
            token: token(bounced),
            report,
        })
        .await?;
    let result = stored(&json!({ "messageId": "m-17" }), "result").ok();
    let ack = Ack {
        id: invited.job.id.clone(),
        token: token(invited),
        result,
        remove_on_complete: false,
    };
    broker.call(ack).await?;
    Ok(())
}

/// The next job of `email`, locked for long.
async fn pull(broker: &LocalBroker) -> Result<Delivery, CommandError> {
    let pull = Pull {
        queue: QueueName::new("email")?,
        count: 1,
        wait: 0,
        locked: true,
        lock_ttl: HOUR as f64 * 24.0,
        detach: true,
        group: None,
    };
    broker.call(pull).await?.pop().ok_or(CommandError::Internal)
}

#[derive(Default)]
struct Seed {
    queue: &'static str,
    id: &'static str,
    name: &'static str,
    data: Value,
    priority: f64,
    attempts: Option<f64>,
    /// When it is due; none is at once.
    at: Option<Millis>,
}

impl Seed {
    async fn add(self, broker: &LocalBroker, clock: &ManualClock) -> Result<(), CommandError> {
        let data = stored(&self.data, "data").map_err(|_| CommandError::Internal)?;
        let draft = JobDraft {
            name: Some(self.name),
            data: Some(data.bytes()),
            custom_id: Some(self.id),
            priority: Number::Value(self.priority),
            max_attempts: self.attempts.map_or(Number::Absent, Number::Value),
            delay: self.at.map_or(Number::Absent, |at| {
                Number::Value((at - clock.now()) as f64)
            }),
            ..JobDraft::default()
        };
        let job = draft.check()?;
        debug_assert_eq!(job.custom_id, Some(JobId::from_text(self.id)));
        broker
            .call(Add {
                queue: QueueName::new(self.queue)?,
                job,
            })
            .await?;
        clock.advance(1_000);
        Ok(())
    }
}
