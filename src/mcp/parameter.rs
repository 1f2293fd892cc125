//! Types of tool parameters: what a tool takes, as its schema says it, checked before a handler sees it.
//!
//! Bounds are those of the agent door (MCP contract, section 11); each is at most as wide as what
//! [`crate::command`] accepts. Everything is written as text in the schema once, here, so that published
//! schemas, checks and documentation cannot disagree.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;

use super::schema::{FORM, Form, OR};
use crate::command::QueueName;
use crate::command::bounds::{BACKOFF_CAP_MAX, QUEUE_NAME_MAX, WEBHOOK_URL_MAX};
use crate::command::draft::BackoffDraft;
use crate::command::given::Number;
use crate::engine::{Bucket, FailureReason, JobId, State, TokenGiven, WebhookEvent};

/// Ms in a day: the longest backoff, timeout and lock.
pub const DAY: i64 = 86_400_000;
/// Ms in a year of 365 days: the longest delay and deduplication time.
pub const YEAR: i64 = 31_536_000_000;
/// Characters of a job id or a deduplication key.
pub const ID_MAX: usize = 1_024;
/// Ms a call may wait, so that it ends before a host loses patience (hard case R2).
pub const WAIT_MAX: i64 = 30_000;
/// No lower bound.
pub const NO_MIN: i64 = i64::MIN;
/// No upper bound.
pub const NO_MAX: i64 = i64::MAX;

/// Implements a schema that stands inline wherever the type is used.
macro_rules! inline_schema {
    ($type:ident $(<$(const $bound:ident),+>)?, $schema:expr) => {
        impl $(<$(const $bound: i64),+>)? JsonSchema for $type $(<$($bound),+>)? {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

/// The name of a queue.
#[derive(Clone, Debug)]
pub struct Queue(QueueName);

inline_schema!(
    Queue,
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": QUEUE_NAME_MAX, FORM: Form::Queue.name(),
    })
);

impl Queue {
    /// The checked name.
    pub fn name(&self) -> QueueName {
        self.0.clone()
    }

    /// Its text.
    pub fn text(&self) -> String {
        self.0.as_str().to_owned()
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        QueueName::new(&text).map(Self).map_err(D::Error::custom)
    }
}

/// The id of a job.
#[derive(Clone, Debug)]
pub struct Id(JobId);

inline_schema!(
    Id,
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": ID_MAX, FORM: Form::Id.name(),
    })
);

impl Id {
    /// The id.
    pub fn job(&self) -> JobId {
        self.0.clone()
    }

    /// Its text.
    pub fn text(&self) -> String {
        self.0.to_string()
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(JobId::from_text(&text)))
    }
}

/// A text that names something: a whole number in its place is read as its digits.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Key(pub String);

inline_schema!(
    Key,
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": ID_MAX, FORM: Form::Id.name(),
    })
);

/// The id that a caller chooses for a job of a flow.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct FlowId(pub String);

inline_schema!(
    FlowId,
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": ID_MAX, FORM: Form::FlowId.name(),
    })
);

/// The name of the queue of a job in a flow; checked with the flow.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct FlowQueue(pub String);

inline_schema!(
    FlowQueue,
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": QUEUE_NAME_MAX, FORM: Form::FlowQueue.name(),
    })
);

/// The id of something that is looked up. It carries no length bounds, since a wrong one is simply not found.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct AnyId(pub String);

inline_schema!(
    AnyId,
    json_schema!({ "type": "string", FORM: Form::Id.name() })
);

impl AnyId {
    /// As the id of a job.
    pub fn job(&self) -> JobId {
        JobId::from_text(&self.0)
    }

    /// As the id of anything else.
    pub fn shared(&self) -> Arc<str> {
        self.0.as_str().into()
    }
}

/// The proof of a delivery.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Token(String);

inline_schema!(Token, json_schema!({ "type": "string", "minLength": 1 }));

impl Token {
    /// The token, or none for an absent one.
    pub fn given(token: Option<&Self>) -> TokenGiven {
        token.map_or(TokenGiven::None, |token| TokenGiven::from_text(&token.0))
    }
}

/// A whole number within bounds, both included.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Whole<const MIN: i64, const MAX: i64>(pub i64);

inline_schema!(Whole<const MIN, const MAX>, integer(MIN, MAX, None));

impl<const MIN: i64, const MAX: i64> Whole<MIN, MAX> {
    /// As a job draft takes it.
    pub fn draft(number: Option<Self>) -> Number {
        number.map_or(Number::Absent, |number| Number::Value(number.0 as f64))
    }

    /// The number as a count; bounds that allow negative numbers make no sense here.
    pub fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }
}

/// Milliseconds within bounds, both included; a fraction is dropped.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Ms<const MIN: i64, const MAX: i64>(pub i64);

inline_schema!(Ms<const MIN, const MAX>, integer(MIN, MAX, Some(Form::Millis)));

impl<const MIN: i64, const MAX: i64> Ms<MIN, MAX> {
    /// As a job draft takes it.
    pub fn draft(ms: Option<Self>) -> Number {
        ms.map_or(Number::Absent, |ms| Number::Value(ms.0 as f64))
    }
}

/// Progress of a job in percent.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Percent(pub f64);

inline_schema!(
    Percent,
    json_schema!({ "type": "number", "minimum": 0, "maximum": 100 })
);

fn integer(min: i64, max: i64, form: Option<Form>) -> Schema {
    let mut schema = json_schema!({ "type": "integer" });
    if min != NO_MIN {
        schema.insert("minimum".into(), min.into());
    }
    if max != NO_MAX {
        schema.insert("maximum".into(), max.into());
    }
    if let Some(form) = form {
        schema.insert(FORM.into(), form.name().into());
    }
    schema
}

/// An object whose members are the client's own.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct FreeForm(pub Value);

inline_schema!(FreeForm, json_schema!({ "type": "object" }));

/// Any JSON value. Published as an object, as one type per node is what every host takes.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct AnyJson(pub Value);

inline_schema!(
    AnyJson,
    json_schema!({ "type": "object", FORM: Form::Any.name() })
);

/// The names of states as filters take and counts show them.
pub const STATE_NAMES: [&str; 8] = [
    State::Waiting.name(),
    State::Prioritized.name(),
    State::Delayed.name(),
    State::Active.name(),
    State::Completed.name(),
    State::Failed.name(),
    "paused",
    State::WaitingChildren.name(),
];

/// A state as a filter.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct StateFilter(String);

inline_schema!(
    StateFilter,
    json_schema!({ "type": "string", "enum": STATE_NAMES })
);

impl StateFilter {
    /// The jobs it stands for; none is every job.
    pub fn buckets(filter: Option<&Self>) -> Vec<Bucket> {
        filter
            .and_then(|filter| Bucket::from_name(&filter.0))
            .into_iter()
            .collect()
    }

    /// Its name.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Why a job failed, as a filter.
#[derive(Clone, Copy, Debug)]
pub struct Reason(pub FailureReason);

inline_schema!(
    Reason,
    json_schema!({ "type": "string", "enum": FailureReason::ALL.map(FailureReason::name) })
);

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let reason = FailureReason::from_name(&name);
        reason.map(Self).ok_or(D::Error::custom("no such reason"))
    }
}

/// The address of a webhook. Everything about it is checked with the command, which has the texts of its faults.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct WebhookUrl(pub String);

inline_schema!(
    WebhookUrl,
    json_schema!({ "type": "string", "maxLength": WEBHOOK_URL_MAX, FORM: Form::Url.name() })
);

/// The name of what a webhook is called for.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct EventName(pub String);

inline_schema!(
    EventName,
    json_schema!({ "type": "string", "enum": WebhookEvent::ALL.map(WebhookEvent::name) })
);

/// How long a failed job waits before its next attempt: an object, or a bare number of ms.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(untagged)]
pub enum Backoff {
    /// The base of an exponential backoff.
    Number(Ms<0, DAY>),
    /// Spelled out.
    Object(BackoffObject),
}

/// The spelled-out form of a [`Backoff`].
#[derive(Clone, Copy, Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackoffObject {
    #[serde(rename = "type")]
    kind: BackoffType,
    /// Base ms
    delay: Ms<0, DAY>,
    /// Cap ms
    #[schemars(extend("default" = 3_600_000))]
    max_delay: Option<Ms<0, BACKOFF_CAP_MAX>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum BackoffType {
    Fixed,
    Exponential,
}

impl JsonSchema for Backoff {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Backoff".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = BackoffObject::json_schema(generator);
        schema.insert(OR.into(), Ms::<0, DAY>::json_schema(generator).into());
        schema
    }
}

impl Backoff {
    /// As a job draft takes it.
    pub fn draft(backoff: Option<Self>) -> BackoffDraft {
        match backoff {
            None => BackoffDraft::Absent,
            Some(Self::Number(ms)) => BackoffDraft::Number(Ms::draft(Some(ms))),
            Some(Self::Object(object)) => BackoffDraft::Object {
                fixed: object.kind == BackoffType::Fixed,
                delay: Ms::draft(Some(object.delay)),
                max_delay: Ms::draft(object.max_delay),
            },
        }
    }
}
