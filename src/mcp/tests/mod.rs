//! Tests over all tools at once: the contract with agents, leniency, errors, examples.

mod around;
mod confirmation;
mod contract;
mod disclosure;
mod errors;
mod examples;
mod flows;
mod leniency;
mod listings;
mod monitoring;
mod results;
mod schemas;
mod server;
mod stub;
mod validator;
mod waits;
mod withdrawn;

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::call::Caller;
use super::dispatch::{Answer, Dispatcher};
use super::registry::Registry;
use crate::broker::Broker;

/// All tools.
fn registry() -> Arc<Registry> {
    Arc::new(Registry::new().unwrap_or_else(|error| panic!("{error}")))
}

/// All tools on a broker.
fn dispatcher(broker: Arc<dyn Broker>) -> Dispatcher {
    let registry = registry();
    let selection = registry.everything();
    Dispatcher::new(registry, selection, broker, CancellationToken::new())
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

/// A call that does not wait.
fn call(dispatcher: &Dispatcher, tool: &str, arguments: Value) -> Answer {
    let called = dispatcher.call(tool, members(arguments), Caller::default());
    called
        .now_or_never()
        .expect("the call waits")
        .expect("the tool exists")
}

fn success(dispatcher: &Dispatcher, tool: &str, arguments: Value) -> Value {
    match call(dispatcher, tool, arguments) {
        Answer::Success(value) | Answer::Text(_, value) => value,
        other => panic!("{tool}: {other:?}"),
    }
}

fn failure(dispatcher: &Dispatcher, tool: &str, arguments: Value) -> Value {
    match call(dispatcher, tool, arguments) {
        Answer::Failure(body) => body,
        other => panic!("{tool}: {other:?}"),
    }
}
