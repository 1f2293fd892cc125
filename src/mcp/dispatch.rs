//! One path for every call of a tool, whoever makes it: an agent over either transport, or the command line.
//!
//! In order: is the tool known, is it exposed here, do the arguments fit, is it a dry run, does somebody have to agree; then
//! it runs. A panic inside a tool ends that call alone. The answer is one JSON object either way. Policy is enforced
//! here and in no handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::arguments;
use super::call::{Call, Caller};
use super::confirm::{self, Consent, Gate};
use super::decision::DecisionModel;
use super::disclosure::{self, Loaded, Meta, MetaTool};
use super::error::ToolError;
use super::foreign::visible;
use super::nearest::nearest;
use super::registry::{Disclosure, Registry, Selection, Tool};
use super::server_info::{Server, ServerInfo};
use crate::broker::Broker;
use crate::command::CommandError;
use crate::handlers::{Handlers, TargetHosts};
use crate::metrics::{Exporter, ToolFigures};

/// What a call of a tool gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It did what was asked; the object fits the tool's output schema.
    Success(Value),
    /// The same, and the text of the result is this member as it is, not the object as JSON.
    Text(&'static str, Value),
    /// It did not; the object says why.
    Failure(Value),
    /// The client has to ask this and to call again with the reply. Only for callers who are asked between two calls.
    Question(String),
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
    server: Arc<Server>,
    gate: Option<Gate>,
    meta: Vec<MetaTool>,
}

impl Dispatcher {
    /// Tools of `registry`, those of `selection` exposed, on a server in memory for one agent; waits end when `shutdown` fires.
    /// Nothing has to be confirmed.
    pub fn new(
        registry: Arc<Registry>,
        selection: Selection,
        broker: Arc<dyn Broker>,
        shutdown: CancellationToken,
    ) -> Self {
        Self::on(ServerInfo::default(), registry, selection, broker, shutdown)
    }

    /// The same on the server that `info` describes.
    pub fn on(
        info: ServerInfo,
        registry: Arc<Registry>,
        selection: Selection,
        broker: Arc<dyn Broker>,
        shutdown: CancellationToken,
    ) -> Self {
        let is_dynamic = selection.disclosure() == Disclosure::Dynamic;
        let meta = is_dynamic.then(|| disclosure::tools(&registry, false));
        let hosts = TargetHosts::default();
        let handlers = Handlers::new(Arc::clone(&broker), hosts, shutdown.clone());
        let figures = Arc::new(ToolFigures::new(registry.tools().map(|tool| tool.name)));
        let metrics = Exporter::new(Arc::clone(&broker), info.labelled_queues)
            .with_tools(Arc::clone(&figures));
        let server = Server {
            registry,
            selection,
            info,
            broker,
            handlers: Arc::new(handlers),
            shutdown,
            figures,
            metrics,
            model: None,
            is_confirming: false,
            meta_tools: meta.as_ref().map_or(0, Vec::len),
        };
        Self {
            server: Arc::new(server),
            gate: None,
            meta: meta.unwrap_or_default(),
        }
    }

    /// The same with other handlers: those of the whole process.
    #[must_use]
    pub fn with_handlers(mut self, handlers: Arc<Handlers>) -> Self {
        Arc::make_mut(&mut self.server).handlers = handlers;
        self
    }

    /// The same with a model that finds toolsets and judges requests.
    #[must_use]
    pub fn with_model(mut self, model: Arc<DecisionModel>) -> Self {
        if !self.meta.is_empty() {
            self.meta = disclosure::tools(self.registry(), true);
        }
        let server = Arc::make_mut(&mut self.server);
        server.meta_tools = self.meta.len();
        server.model = Some(model);
        self
    }

    /// The same with guarded calls confirmed, also by the model if there is one by now.
    #[must_use]
    pub fn confirming(mut self) -> Self {
        let server = Arc::make_mut(&mut self.server);
        server.is_confirming = true;
        self.gate = Some(Gate::new(server.model.clone()));
        self
    }

    /// A call of `caller`, for its handler.
    pub(super) fn begin(&self, caller: Caller) -> Call {
        Call::new(Arc::clone(&self.server), caller)
    }

    /// The tools there are.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.server.registry
    }

    /// The toolsets that are exposed to everybody.
    pub fn selection(&self) -> &Selection {
        &self.server.selection
    }

    /// What the server is.
    pub fn info(&self) -> &ServerInfo {
        &self.server.info
    }

    /// The metrics of the broker, with those of the calls made here.
    pub fn metrics(&self) -> &Exporter {
        &self.server.metrics
    }

    /// The tools about tools, in the order of the list.
    pub fn meta_tools(&self) -> &[MetaTool] {
        &self.meta
    }

    /// The tools that are exposed to everybody, in the order of the list.
    pub fn exposed(&self) -> impl Iterator<Item = &Tool> {
        let tools = self.registry().tools();
        tools.filter(|tool| self.selection().exposes(tool.toolset))
    }

    /// The same with those that a client has loaded.
    pub fn exposed_with(&self, loaded: &Loaded) -> impl Iterator<Item = &Tool> {
        let tools = self.registry().tools();
        tools.filter(|tool| self.selection().exposes(tool.toolset) || loaded.contains(tool.toolset))
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When there is no tool of that name; every other fault is an [`Answer::Failure`].
    pub async fn call(
        &self,
        name: &str,
        given: Map<String, Value>,
        caller: Caller,
    ) -> Result<Answer, UnknownTool> {
        let mut meta = self.meta.iter();
        let Some(meta) = meta.find(|tool| tool.listed.name == name) else {
            return self.call_tool(name, given, caller).await;
        };
        let arguments = match arguments::check(&meta.input, given) {
            Ok(arguments) => arguments,
            Err(issues) => {
                let error = ToolError::Arguments(issues);
                return Ok(Answer::Failure(error.body(name)));
            }
        };
        Ok(match meta.meta {
            Meta::Enable => {
                let ids = disclosure::asked_for(self.registry(), &arguments);
                let loaded = disclosure::load(self.registry(), &ids, caller.loaded.as_ref());
                Answer::Success(loaded)
            }
            Meta::Call => {
                let (name, arguments) = disclosure::inner_call(arguments);
                let called = self.call_tool(&name, arguments, caller).await;
                called.unwrap_or_else(|UnknownTool { name, nearest }| {
                    let name = visible(&name).chars().take(NAME_SHOWN).collect();
                    let error = ToolError::UnknownTool { name, nearest };
                    Answer::Failure(error.body(disclosure::CALL))
                })
            }
            Meta::Find => self.find(&arguments, &caller).await.map_or_else(
                |error| Answer::Failure(error.body(disclosure::FIND)),
                Answer::Success,
            ),
        })
    }

    async fn find(
        &self,
        arguments: &Map<String, Value>,
        caller: &Caller,
    ) -> Result<Value, ToolError> {
        let model = self.server.model.as_ref().ok_or(ToolError::Internal)?;
        let request = arguments.get("request").and_then(Value::as_str);
        let toolsets = || self.registry().toolsets();
        let options = toolsets().map(|toolset| (toolset.id, toolset.line.as_str()));
        let chosen = self
            .unless_ended(caller, model.choose(request.unwrap_or_default(), options))
            .await?;
        let chosen = chosen.map_err(ToolError::Undecided)?;
        let ids: Vec<_> = toolsets()
            .map(|toolset| toolset.id)
            .filter(|id| *id == chosen.choice)
            .collect();
        let mut loaded = disclosure::load(self.registry(), &ids, caller.loaded.as_ref());
        if let Some(members) = loaded.as_object_mut() {
            members.insert("probabilities".into(), chosen.probabilities.into());
        }
        Ok(loaded)
    }

    async fn call_tool(
        &self,
        name: &str,
        given: Map<String, Value>,
        caller: Caller,
    ) -> Result<Answer, UnknownTool> {
        let Some(tool) = self.registry().tool(name) else {
            let names = self.registry().tools().map(|tool| tool.name);
            return Err(UnknownTool {
                name: name.to_owned(),
                nearest: nearest(name, names),
            });
        };
        let started = Instant::now();
        let contained = AssertUnwindSafe(self.answer(tool, given, caller))
            .catch_unwind()
            .await;
        // The panic hook has written what happened; the caller learns that it was not its fault.
        let result = contained.unwrap_or_else(|_| {
            tracing::error!(tool = tool.name, "a tool panicked");
            Err(ToolError::Internal)
        });
        // A call that waits for consent, or did not get it, has not been made.
        if !matches!(
            result,
            Ok(Answer::Question(_)) | Err(ToolError::Unconfirmed(_))
        ) {
            let figures = &self.server.figures;
            figures.record(tool.name, result.is_ok(), started.elapsed());
        }
        Ok(result.unwrap_or_else(|error| Answer::Failure(error.body(tool.name))))
    }

    async fn answer(
        &self,
        tool: &Tool,
        given: Map<String, Value>,
        caller: Caller,
    ) -> Result<Answer, ToolError> {
        self.refuse_hidden(tool, &caller)?;
        let mut arguments = arguments::check(&tool.input, given).map_err(ToolError::Arguments)?;
        let call = self.begin(caller.clone());
        if let Some(guard) = &tool.guard {
            let given = confirm::Given::take(&mut arguments);
            let is_narrow = |narrow| arguments.contains_key(narrow);
            let gate = self.gate.as_ref();
            let gate = gate.filter(|_| !tool.policy.unless.is_some_and(is_narrow));
            if given.is_dry || gate.is_some() {
                let target = arguments.get(guard.target).cloned().unwrap_or_default();
                let looked_up = (guard.impact)(call.clone(), arguments.clone()).await;
                let impact = looked_up.unwrap_or_else(|_| unread_impact(tool, &arguments));
                if given.is_dry {
                    let told = json!({ "executed": false, "impact": impact, guard.target: target });
                    return Ok(Answer::Success(told));
                }
                if let Some(gate) = gate {
                    let target = target.as_str().unwrap_or_default();
                    let consent = gate.pass(tool, target, impact, given, &caller.asking);
                    let consent = self.unless_ended(&caller, consent).await??;
                    if let Consent::Needed(question) = consent {
                        return Ok(Answer::Question(question));
                    }
                }
            }
        }
        let value = (tool.run)(call, arguments).await?;
        Ok(match tool.text_member {
            Some(member) => Answer::Text(member, value),
            None => Answer::Success(value),
        })
    }

    fn refuse_hidden(&self, tool: &Tool, caller: &Caller) -> Result<(), ToolError> {
        let (name, toolset) = (tool.name, tool.toolset);
        if self.selection().exposes(toolset) {
            return Ok(());
        }
        let is_loaded = |loaded: &Loaded| loaded.contains(toolset);
        match self.selection().disclosure() {
            Disclosure::Dynamic if caller.loaded.as_ref().is_none_or(is_loaded) => Ok(()),
            Disclosure::Dynamic => Err(ToolError::NotLoaded {
                tool: name,
                toolset,
            }),
            Disclosure::All | Disclosure::Static => Err(ToolError::NotEnabled {
                tool: name,
                toolset,
            }),
        }
    }

    /// What a wait for somebody outside comes to, unless its call is withdrawn or the server stops.
    async fn unless_ended<T>(
        &self,
        caller: &Caller,
        outside: impl Future<Output = T>,
    ) -> Result<T, ToolError> {
        tokio::select! {
            biased;
            () = caller.cancelled.cancelled() => Err(ToolError::Cancelled),
            () = self.server.shutdown.cancelled() => Err(CommandError::ShuttingDown.into()),
            value = outside => Ok(value),
        }
    }
}

/// Characters of an unknown name that an answer repeats.
const NAME_SHOWN: usize = 64;

/// The impact of a call whose target could not be looked at.
fn unread_impact(tool: &Tool, arguments: &Map<String, Value>) -> String {
    let name = tool.name.trim_start_matches("bunqueue_");
    format!("Run {name} with {}.", Value::Object(arguments.clone()))
}
