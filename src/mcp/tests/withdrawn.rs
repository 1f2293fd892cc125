//! What a withdrawn call gives back: every job it can, whatever becomes of the others.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{members, registry};
use crate::broker::{Broker, LocalBroker};
use crate::command::{Pull, QueueName};
use crate::engine::Config;
use crate::mcp::call::{Caller, Measure};
use crate::mcp::dispatch::{Answer, Dispatcher};
use crate::mcp::error::ToolError;

#[tokio::test]
async fn a_job_that_cannot_go_back_keeps_no_other() {
    let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
    let shutdown = CancellationToken::new();
    let registry = registry();
    let selection = registry.everything();
    let dispatcher = Dispatcher::new(registry, selection, broker.clone(), shutdown.clone());
    let call = async |tool: &str, arguments| {
        let answer = dispatcher.call(tool, members(arguments), Caller::default());
        match answer.await.unwrap() {
            Answer::Success(answer) => answer,
            other => panic!("{tool}: {other:?}"),
        }
    };
    for id in ["a", "b", "c"] {
        let job = json!({ "queue": "q", "name": "n", "data": {}, "jobId": id });
        call("bunqueue_add_job", job).await;
    }
    let caller = Caller::default();
    caller.cancelled.cancel();
    let withdrawn = dispatcher.begin(caller);
    let pull = Pull {
        queue: QueueName::new("q").unwrap(),
        count: 3,
        wait: 0,
        locked: false,
        lock_ttl: 30_000.0,
        detach: true,
        group: None,
    };
    let deliveries = dispatcher
        .begin(Caller::default())
        .wait(pull, Measure::Time(0))
        .await
        .unwrap();
    assert_eq!(deliveries.len(), 3);
    // Somebody else ends the first one meanwhile.
    call("bunqueue_ack_job", json!({ "jobId": "a" })).await;
    let kept = withdrawn.keep(deliveries).await;
    assert!(matches!(kept, Err(ToolError::Cancelled)));
    for id in ["b", "c"] {
        let state = call("bunqueue_get_job_state", json!({ "jobId": id })).await;
        assert_eq!(state["state"], "waiting", "{id}");
    }
}
