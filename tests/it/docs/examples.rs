//! The calls that the guides show are made, in order, and answered as the guides say.
//!
//! Each page plays on an empty broker whose clock stands still and whose ids are always the same.

use std::sync::Arc;

use bunqueue_mcp::broker::{LocalBroker, ManualClock};
use bunqueue_mcp::engine::Config;
use bunqueue_mcp::mcp::example;
use bunqueue_mcp::mcp::{Answer, Caller, Dispatcher};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{DOCUMENTATION, REGISTRY, blocks};

#[tokio::test]
async fn examples_of_guides_hold() {
    let mut calls = 0;
    for page in DOCUMENTATION.pages.iter().filter(|page| !page.is_generated) {
        let dispatcher = on_an_empty_broker();
        let mut answered: Option<Value> = None;
        for block in blocks(&page.text) {
            let place = format!("{}:{}", page.path, block.line);
            let value = || {
                serde_json::from_str::<Value>(&block.text)
                    .unwrap_or_else(|error| panic!("{place}: {error}"))
            };
            if let Some(tool) = block.label.strip_prefix("json call ") {
                calls += 1;
                let arguments = value().as_object().unwrap().clone();
                let answer = dispatcher
                    .call(tool, arguments, Caller::default())
                    .await
                    .unwrap();
                let (Answer::Success(answer) | Answer::Text(_, answer) | Answer::Failure(answer)) =
                    answer
                else {
                    panic!("{answer:?}");
                };
                answered = Some(answer);
            } else if block.label == "json result" {
                let answer = answered
                    .take()
                    .unwrap_or_else(|| panic!("{place}: a result without a call"));
                assert!(holds(&value(), &answer), "{place}: answered {answer:#}");
            }
        }
    }
    assert!(calls > 5, "{calls}");
}

fn on_an_empty_broker() -> Dispatcher {
    let clock = Box::new(ManualClock::new(example::NOW));
    let broker = Arc::new(LocalBroker::simulated(Config::default(), clock, [0; 32]));
    let selection = REGISTRY.everything();
    Dispatcher::new(
        Arc::clone(&REGISTRY),
        selection,
        broker,
        CancellationToken::new(),
    )
}

/// Every member that is shown is there; others are free.
fn holds(shown: &Value, answer: &Value) -> bool {
    match (shown, answer) {
        (Value::Object(shown), Value::Object(answer)) => shown
            .iter()
            .all(|(name, value)| answer.get(name).is_some_and(|answer| holds(value, answer))),
        (Value::Array(shown), Value::Array(answer)) => {
            shown.len() == answer.len()
                && shown
                    .iter()
                    .zip(answer)
                    .all(|(shown, answer)| holds(shown, answer))
        }
        _ => shown == answer,
    }
}
