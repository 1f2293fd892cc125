//! The tools of toolset `workers` that have a queue done by calls of a URL. Prose: `toolsets/workers.md`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{LeftOut, Nothing, OneQueue};
use crate::handlers::{Method, Target, TargetError};
use crate::mcp::arguments::Issue;
use crate::mcp::call::Call;
use crate::mcp::error::ToolError;
use crate::mcp::page::fit;
use crate::mcp::parameter::{AnyJson, FreeForm, Ms, Queue};

/// Ms that a call may take when nothing is said.
const TIMEOUT_DEFAULT: i64 = 30_000;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RegisterHandler {
    queue: Queue,
    /// http or https URL
    url: String,
    method: Verb,
    /// String values
    headers: Option<FreeForm>,
    /// POST/PUT body; default: job data
    body: Option<AnyJson>,
    #[schemars(extend("default" = TIMEOUT_DEFAULT))]
    timeout_ms: Option<Ms<1_000, 120_000>>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl From<Verb> for Method {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Get => Self::Get,
            Verb::Post => Self::Post,
            Verb::Put => Self::Put,
            Verb::Delete => Self::Delete,
        }
    }
}

/// What a handler calls, without what only the server that is called may know.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct HandlerView {
    url: String,
    method: &'static str,
    timeout_ms: u64,
    /// Their values are never shown
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    header_names: Vec<String>,
}

impl HandlerView {
    fn of(target: &Target) -> Self {
        Self {
            url: target.url().as_str().to_owned(),
            method: target.method.name(),
            timeout_ms: target.timeout.as_millis().try_into().unwrap_or(u64::MAX),
            header_names: target
                .header_names()
                .iter()
                .map(ToString::to_string)
                .collect(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(super) struct HandlerRegistered {
    success: bool,
    queue: String,
    handler: HandlerView,
    message: String,
}

pub(super) async fn register_handler(
    call: Call,
    arguments: RegisterHandler,
) -> Result<HandlerRegistered, ToolError> {
    let headers = match &arguments.headers {
        None => Vec::new(),
        Some(headers) => texts(&headers.0)?,
    };
    let timeout = arguments.timeout_ms.map_or(TIMEOUT_DEFAULT, |ms| ms.0);
    let target = Target::new(
        &arguments.url,
        arguments.method.into(),
        &headers,
        arguments.body.map(|body| body.0),
        Duration::from_millis(timeout.unsigned_abs()),
    );
    let registered = target.and_then(|target| {
        let queue = arguments.queue.name();
        call.handlers().register(&queue, target)
    });
    let target = registered.map_err(|error| refused(&error))?;
    let (queue, handler) = (arguments.queue.text(), HandlerView::of(&target));
    Ok(HandlerRegistered {
        success: true,
        message: format!(
            "Worker started. Jobs in \"{queue}\" will be processed via {} {}",
            handler.method, handler.url
        ),
        queue,
        handler,
    })
}

fn texts(headers: &Value) -> Result<Vec<(&str, &str)>, ToolError> {
    let headers = headers.as_object().into_iter().flatten();
    let text = |(name, value): (_, _)| {
        let name: &String = name;
        let value: &Value = value;
        match value.as_str() {
            Some(value) => Ok((name.as_str(), value)),
            None => Err(issue(
                "headers",
                "must have text values without line breaks".into(),
            )),
        }
    };
    headers.map(text).collect()
}

fn refused(error: &TargetError) -> ToolError {
    let path = match error {
        TargetError::Header(_) => "headers",
        _ => "url",
    };
    issue(path, error.to_string())
}

fn issue(path: &str, message: String) -> ToolError {
    ToolError::Arguments(vec![Issue {
        path: path.to_owned(),
        message,
        expected: None,
        hint: None,
    }])
}

#[derive(Serialize, JsonSchema)]
pub(super) struct HandlerRemoved {
    /// false when there is none
    success: bool,
    queue: String,
}

pub(super) async fn unregister_handler(
    call: Call,
    arguments: OneQueue,
) -> Result<HandlerRemoved, ToolError> {
    let queue = arguments.queue.text();
    Ok(HandlerRemoved {
        success: call.handlers().unregister(&queue),
        queue,
    })
}

#[derive(Serialize, JsonSchema)]
pub(super) struct HandlersListed {
    count: usize,
    /// { queue, handler: { url, method, timeoutMs, headerNames? }, active }
    handlers: Vec<Value>,
    #[serde(flatten)]
    left_out: LeftOut,
}

pub(super) async fn list_handlers(call: Call, _: Nothing) -> Result<HandlersListed, ToolError> {
    let handlers = call.handlers().list();
    let fitted = fit(handlers.iter().map(|(queue, target)| {
        let mut item = Map::new();
        item.insert("queue".into(), Value::from(&**queue));
        item.insert("handler".into(), json!(HandlerView::of(target)));
        item.insert("active".into(), true.into());
        Value::Object(item)
    }));
    let left_out = LeftOut::of(handlers.len(), &fitted, |left| {
        format!("{left} more handlers do not fit; they work all the same.")
    });
    Ok(HandlersListed {
        count: fitted.items.len(),
        handlers: fitted.items,
        left_out,
    })
}
