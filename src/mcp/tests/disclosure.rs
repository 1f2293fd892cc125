//! Toolsets that clients load themselves.

use std::sync::Arc;

use serde_json::{Value, json};

use super::stub::{Stub, model};
use super::validator::assert_fits;
use super::{members, registry};
use crate::broker::{Broker, LocalBroker};
use crate::engine::Config;
use crate::mcp::disclosure::{CALL, ENABLE, FIND};
use crate::mcp::{Answer, Caller, Dispatcher, Loaded};

fn dispatcher(toolsets: &str) -> Dispatcher {
    let registry = registry();
    let selection = registry.select(Some(("", toolsets))).unwrap();
    let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
    Dispatcher::new(registry, selection, broker, Default::default())
}

async fn call(
    dispatcher: &Dispatcher,
    loaded: Option<&Loaded>,
    tool: &str,
    arguments: Value,
) -> Answer {
    let caller = Caller {
        loaded: loaded.cloned(),
        ..Caller::default()
    };
    dispatcher
        .call(tool, members(arguments), caller)
        .await
        .unwrap()
}

fn success(answer: Answer) -> Value {
    match answer {
        Answer::Success(value) => value,
        other => panic!("{other:?}"),
    }
}

fn failure(answer: Answer) -> Value {
    match answer {
        Answer::Failure(body) => body,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_loaded_can_be_called_and_nothing_else() {
    let dispatcher = dispatcher("dynamic");
    let (one, other) = (Loaded::default(), Loaded::default());
    let list = json!({ "name": "bunqueue_list_queues" });
    for (tool, arguments) in [("bunqueue_list_queues", json!({})), (CALL, list.clone())] {
        let refused = failure(call(&dispatcher, Some(&one), tool, arguments).await);
        assert_eq!(
            refused["error"],
            "bunqueue_list_queues is not loaded; call bunqueue_enable_toolsets with [\"queues\"] first"
        );
        assert_eq!(refused["code"], "not_loaded");
    }
    let ids = json!({ "toolsets": ["queues", "queues"] });
    let enabled = success(call(&dispatcher, Some(&one), ENABLE, ids.clone()).await);
    assert_eq!(enabled["enabled"], json!(["queues"]));
    let shown = enabled["tools"].as_array().unwrap();
    let there: Vec<_> = dispatcher.registry().tools_of("queues").collect();
    assert_eq!(shown.len(), there.len());
    for (shown, there) in shown.iter().zip(&there) {
        assert_eq!(*shown, serde_json::to_value(&there.listed).unwrap());
    }
    assert_eq!(one.count(), 1);
    let names = success(call(&dispatcher, Some(&one), CALL, list.clone()).await);
    assert_eq!(names, json!({ "queues": [] }));
    assert_eq!(dispatcher.exposed_with(&one).count(), there.len());
    assert_eq!(dispatcher.exposed().count(), 0);

    // Another client has loaded nothing, and one of whom nothing is kept needs not load.
    failure(call(&dispatcher, Some(&other), CALL, list.clone()).await);
    success(call(&dispatcher, None, CALL, list).await);
    let enabled = success(call(&dispatcher, None, ENABLE, ids).await);
    assert_eq!(enabled["note"], format!("Call these tools through {CALL}."));
}

#[tokio::test]
async fn a_call_inside_a_call_is_answered_as_by_itself() {
    let dispatcher = dispatcher("dynamic,jobs");
    let loaded = Loaded::default();
    let inner = async |arguments| call(&dispatcher, Some(&loaded), CALL, arguments).await;
    let unknown = failure(inner(json!({ "name": "bunqueue_nope" })).await);
    assert_eq!(unknown["error"], "Unknown tool bunqueue_nope");
    assert_eq!(unknown["code"], "not_found");
    let near = failure(inner(json!({ "name": "bunqueue_get_jop" })).await);
    assert_eq!(near["hint"], "Did you mean bunqueue_get_job?");
    let wrong =
        failure(inner(json!({ "name": "bunqueue_get_job", "arguments": { "job": 1 } })).await);
    let text = wrong["error"].as_str().unwrap();
    assert!(
        text.starts_with("Invalid arguments for bunqueue_get_job: "),
        "{text}"
    );
    assert_eq!(wrong["issues"][0]["path"], "job");
    let job = json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" });
    let added = inner(json!({ "name": "bunqueue_add_job", "arguments": job.to_string() })).await;
    assert_eq!(success(added), json!({ "jobId": "j", "outcome": "new" }));
    for arguments in [
        json!({}),
        json!({ "name": CALL }),
        json!({ "name": ENABLE }),
    ] {
        failure(inner(arguments).await);
    }
}

#[tokio::test]
async fn bad_toolsets_are_refused_by_name() {
    let dispatcher = dispatcher("dynamic");
    let loaded = Loaded::default();
    for toolsets in [json!(["nope"]), json!([]), json!("jobs"), Value::Null] {
        let arguments = json!({ "toolsets": toolsets });
        let refused = failure(call(&dispatcher, Some(&loaded), ENABLE, arguments).await);
        assert_eq!(refused["code"], "invalid_arguments");
        let text = refused["error"].as_str().unwrap();
        assert!(
            text.starts_with("Invalid arguments for bunqueue_enable_toolsets: toolsets"),
            "{text}"
        );
    }
    assert_eq!(loaded.count(), 0);
}

#[test]
fn the_tools_about_tools_cost_little() {
    let dispatcher = dispatcher("dynamic");
    let core: usize = dispatcher
        .meta_tools()
        .iter()
        .map(|tool| {
            let tool = serde_json::to_value(&tool.listed).unwrap();
            let core = json!({
                "name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"],
            });
            core.to_string().len()
        })
        .sum();
    assert!(core <= 3_000, "{core} bytes");
    assert_eq!(dispatcher.meta_tools().len(), 2);
    assert!(self::dispatcher("jobs").meta_tools().is_empty());
    assert!(self::dispatcher("all").meta_tools().is_empty());
}

#[tokio::test]
async fn a_model_finds_the_toolset() {
    let stub = Stub::start().await;
    let dispatcher = dispatcher("dynamic").with_model(Arc::new(model(&stub, 0.8)));
    let loaded = Loaded::default();
    let find = async || {
        let request = json!({ "request": "stop the queue" });
        call(&dispatcher, Some(&loaded), FIND, request).await
    };
    let chosen = json!({ "choice": "queues", "probabilities": { "queues": 0.9, "jobs": 0.1 } });
    stub.answer(200, json!({ "answers": { "q": chosen } }));
    let found = success(find().await);
    assert_eq!(found["enabled"], json!(["queues"]));
    assert_eq!(
        found["probabilities"],
        json!({ "queues": 0.9, "jobs": 0.1 })
    );
    assert!(loaded.contains("queues") && loaded.count() == 1);
    let sent = stub.last();
    let question = &sent["questions"]["q"];
    assert_eq!(
        (&sent["model"], &question["type"]),
        (&json!("m"), &json!("choice"))
    );
    let criteria = question["criteria"].as_object().unwrap();
    assert_eq!(criteria.len(), dispatcher.registry().toolsets().count());
    assert_eq!(stub.header("authorization").unwrap(), "Bearer s3cret");
    let tool = dispatcher
        .meta_tools()
        .iter()
        .find(|tool| tool.listed.name == FIND)
        .unwrap();
    assert_fits(
        &Value::Object((**tool.listed.output_schema.as_ref().unwrap()).clone()),
        &found,
        FIND,
    );

    let cases = [
        (
            json!({ "answers": { "q": { "choice": "other" } } }),
            "its answer does not fit the question",
        ),
        (
            json!({ "answers": {} }),
            "its answer does not fit the question",
        ),
        (json!({}), "its answer does not fit the question"),
    ];
    for (answer, cause) in cases {
        stub.answer(200, answer);
        let refused = failure(find().await);
        assert_eq!(
            refused["error"],
            format!(
                "Decision model unavailable ({cause}); pick a toolset with bunqueue_enable_toolsets"
            )
        );
        assert_eq!(refused["code"], "backend_unavailable");
    }
}

#[tokio::test]
async fn a_busy_model_is_asked_once_more() {
    let stub = Stub::start().await;
    let model = model(&stub, 0.8);
    let judged = json!({ "answers": { "q": { "noul": 1.0 } } });
    for busy in [429, 500, 502, 503, 529] {
        let before = stub.requests();
        stub.answers([(busy, json!({})), (200, judged.clone())]);
        assert_eq!(model.judge("do it", "It goes.").await, Ok(1.0));
        assert_eq!(stub.requests() - before, 2);
    }
    for refused in [400, 401, 404] {
        let before = stub.requests();
        stub.answer(refused, json!({}));
        model.judge("do it", "It goes.").await.unwrap_err();
        assert_eq!(stub.requests() - before, 1);
    }
    for wrong in [json!("high"), json!(1.5), json!(-0.1), Value::Null] {
        stub.answer(200, json!({ "answers": { "q": { "noul": wrong } } }));
        model.judge("do it", "It goes.").await.unwrap_err();
    }
}
