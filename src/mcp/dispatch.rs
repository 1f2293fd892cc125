//! One path for every call of a tool, whoever makes it: an agent over either transport, or the command line.
//!
//! In order: is the tool known, is it exposed here, do the arguments fit, is it a dry run; then it runs. A
//! panic inside a tool ends that call alone. The answer is one JSON object either way. Policy is enforced
//! here and in no handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::arguments;
use super::call::{Call, Caller};
use super::error::ToolError;
use super::nearest::nearest;
use super::registry::{Registry, Selection, Tool};
use crate::broker::Broker;

/// What a call of a tool gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It did what was asked; the object fits the tool's output schema.
    Success(Value),
    /// It did not; the object says why.
    Failure(Value),
}

/// There is no such tool.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Unknown tool: {name}")]
pub struct UnknownTool {
    /// The name that was called.
    pub name: String,
    /// The tool that was probably meant.
    pub nearest: Option<&'static str>,
}

/// Calls tools on one broker.
pub struct Dispatcher {
    registry: Arc<Registry>,
    selection: Selection,
    broker: Arc<dyn Broker>,
    shutdown: CancellationToken,
}

impl Dispatcher {
    /// Tools of `registry`, those of `selection` exposed; waits end when `shutdown` fires.
    pub fn new(
        registry: Arc<Registry>,
        selection: Selection,
        broker: Arc<dyn Broker>,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            registry,
            selection,
            broker,
            shutdown,
        }
    }

    /// The tools there are.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The toolsets that are exposed.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// The tools that are exposed, in the order of the list.
    pub fn exposed(&self) -> impl Iterator<Item = &Tool> {
        self.registry
            .tools()
            .filter(|tool| self.selection.exposes(tool.toolset))
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When there is no tool of that name; every other fault is an [`Answer::Failure`].
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        caller: Caller,
    ) -> Result<Answer, UnknownTool> {
        let Some(tool) = self.registry.tool(name) else {
            let names = self.registry.tools().map(|tool| tool.name);
            return Err(UnknownTool {
                name: name.to_owned(),
                nearest: nearest(name, names),
            });
        };
        let contained = AssertUnwindSafe(self.answer(tool, arguments, caller))
            .catch_unwind()
            .await;
        // The panic hook has written what happened; the caller learns that it was not its fault.
        let result = contained.unwrap_or_else(|_| {
            tracing::error!(tool = tool.name, "a tool panicked");
            Err(ToolError::Internal)
        });
        Ok(match result {
            Ok(value) => Answer::Success(value),
            Err(error) => Answer::Failure(error.body(tool.name)),
        })
    }

    async fn answer(
        &self,
        tool: &Tool,
        given: Map<String, Value>,
        caller: Caller,
    ) -> Result<Value, ToolError> {
        if !self.selection.exposes(tool.toolset) {
            return Err(ToolError::NotEnabled {
                tool: tool.name,
                toolset: tool.toolset,
            });
        }
        let mut arguments = arguments::check(&tool.input, given).map_err(ToolError::Arguments)?;
        let call = Call::new(Arc::clone(&self.broker), self.shutdown.clone(), caller);
        if let Some(guard) = &tool.guard {
            // Accepted and without effect while nothing has to be confirmed.
            arguments.shift_remove("confirm");
            arguments.shift_remove("userRequest");
            if arguments.shift_remove("dryRun") == Some(Value::Bool(true)) {
                let target = arguments.get(guard.target).cloned().unwrap_or_default();
                let looked_up = (guard.impact)(call, arguments.clone()).await;
                let impact = looked_up.unwrap_or_else(|_| unread_impact(tool, &arguments));
                return Ok(json!({ "executed": false, "impact": impact, guard.target: target }));
            }
        }
        (tool.run)(call, arguments).await
    }
}

/// The impact of a call whose target could not be looked at.
fn unread_impact(tool: &Tool, arguments: &Map<String, Value>) -> String {
    let name = tool.name.trim_start_matches("bunqueue_");
    format!("Run {name} with {}.", Value::Object(arguments.clone()))
}
