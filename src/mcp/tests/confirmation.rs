//! The gate before guarded tools, whoever is behind the client.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::stub::{Stub, model};
use super::{members, registry};
use crate::broker::{Broker, LocalBroker};
use crate::engine::Config;
use crate::mcp::confirm::QUESTION_MAX;
use crate::mcp::{Answer, Ask, Asking, Caller, Dispatcher, Reply};

/// Answers every question alike and remembers it.
struct Person {
    reply: Reply,
    asked: Mutex<Vec<String>>,
}

impl Ask for Person {
    fn ask(&self, question: String) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        self.asked.lock().push(question);
        Box::pin(ready(self.reply))
    }
}

fn person(reply: Reply) -> Arc<Person> {
    let asked = Mutex::default();
    Arc::new(Person { reply, asked })
}

fn dispatcher() -> Dispatcher {
    let registry = registry();
    let selection = registry.everything();
    let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
    Dispatcher::new(registry, selection, broker, Default::default())
}

async fn call(dispatcher: &Dispatcher, asking: &Asking, arguments: Value) -> Answer {
    let caller = Caller {
        asking: asking.clone(),
        ..Caller::default()
    };
    let called = dispatcher.call("bunqueue_drain_queue", members(arguments), caller);
    called.await.unwrap()
}

async fn add(dispatcher: &Dispatcher) {
    let job = json!({ "queue": "q", "name": "n", "data": {} });
    let added = dispatcher.call("bunqueue_add_job", members(job), Caller::default());
    assert!(matches!(added.await, Ok(Answer::Success(_))));
}

fn failure(answer: Answer) -> Value {
    match answer {
        Answer::Failure(body) => body,
        other => panic!("{other:?}"),
    }
}

const DRAINED: &str = "bunqueue_drain_queue";

fn drained(removed: u64) -> Answer {
    Answer::Success(json!({ "success": true, "queue": "q", "removed": removed }))
}

#[tokio::test]
async fn whoever_can_be_asked_decides_whatever_the_call_says() {
    let dispatcher = dispatcher().confirming();
    add(&dispatcher).await;
    for confirm in [Value::Null, json!("q")] {
        let refusing = person(Reply::Refused);
        let asking = Asking::Within(refusing.clone());
        let arguments = json!({ "queue": "q", "confirm": confirm });
        let refused = failure(call(&dispatcher, &asking, arguments).await);
        assert_eq!(refused["error"], "The user did not confirm this operation.");
        assert_eq!(refused["code"], "confirmation_declined");
        assert_eq!(refused["executed"], false);
        assert!(refused["impact"].as_str().unwrap().contains("1 waiting"));
        let asked = refusing.asked.lock();
        let [question] = asked.as_slice() else {
            panic!("{asked:?}");
        };
        assert!(
            question.contains("1 waiting") && question.ends_with("Do it?"),
            "{question}"
        );
        assert!(question.chars().count() <= QUESTION_MAX);
    }
    let asking = Asking::Within(person(Reply::Confirmed));
    let answer = call(&dispatcher, &asking, json!({ "queue": "q" })).await;
    assert_eq!(answer, drained(1));
}

#[tokio::test]
async fn whoever_cannot_be_asked_repeats_the_target() {
    let dispatcher = dispatcher().confirming();
    add(&dispatcher).await;
    let nobody = [Asking::Never, Asking::Within(person(Reply::CannotAsk))];
    for asking in &nobody {
        for confirm in [Value::Null, json!("Q"), json!("q "), json!("")] {
            let arguments = json!({ "queue": "q", "confirm": confirm });
            let refused = failure(call(&dispatcher, asking, arguments).await);
            assert_eq!(
                refused["error"],
                "Confirmation required for a destructive operation."
            );
            assert_eq!(refused["code"], "confirmation_required");
            let how = refused["howToConfirm"].as_str().unwrap();
            assert!(how.contains(DRAINED) && how.contains("\"q\""), "{how}");
            assert!(!how.contains("userRequest"), "{how}");
        }
    }
    let arguments = json!({ "queue": "q", "confirm": "q", "userRequest": "whatever" });
    assert_eq!(
        call(&dispatcher, &Asking::Never, arguments).await,
        drained(1)
    );
}

#[tokio::test]
async fn between_two_calls_the_first_is_answered_with_the_question() {
    let dispatcher = dispatcher().confirming();
    add(&dispatcher).await;
    let ask = async |reply| {
        call(
            &dispatcher,
            &Asking::Between(reply),
            json!({ "queue": "q" }),
        )
        .await
    };
    let Answer::Question(question) = ask(None).await else {
        panic!("no question");
    };
    assert!(question.contains("1 waiting"), "{question}");
    let refused = failure(ask(Some(Reply::Refused)).await);
    assert_eq!(refused["code"], "confirmation_declined");
    assert_eq!(ask(Some(Reply::Confirmed)).await, drained(1));
}

#[tokio::test]
async fn nobody_is_asked_for_what_fails_or_does_nothing() {
    let dispatcher = dispatcher().confirming();
    let someone = person(Reply::Refused);
    let asking = Asking::Within(someone.clone());
    let wrong = failure(call(&dispatcher, &asking, json!({ "queue": "a b" })).await);
    assert_eq!(wrong["code"], "invalid_arguments");
    let dry = json!({ "queue": "q", "dryRun": true });
    let Answer::Success(told) = call(&dispatcher, &asking, dry).await else {
        panic!("a dry run failed");
    };
    assert_eq!(told["executed"], false);
    assert_eq!(*someone.asked.lock(), Vec::<String>::new());
}

#[tokio::test]
async fn without_confirmation_it_runs_at_once() {
    let dispatcher = dispatcher();
    add(&dispatcher).await;
    let asking = Asking::Within(person(Reply::Refused));
    let arguments = json!({ "queue": "q", "confirm": "other", "userRequest": "" });
    assert_eq!(call(&dispatcher, &asking, arguments).await, drained(1));
}

#[tokio::test]
async fn names_in_a_question_show_what_they_hide() {
    let dispatcher = dispatcher().confirming();
    let job = json!({ "queue": "q", "name": "a\u{202e}b\n", "data": {}, "jobId": "j" });
    let added = dispatcher.call("bunqueue_add_job", members(job), Caller::default());
    added.await.unwrap();
    let someone = person(Reply::Refused);
    let caller = Caller {
        asking: Asking::Within(someone.clone()),
        ..Caller::default()
    };
    let arguments = members(json!({ "jobId": "j" }));
    dispatcher
        .call("bunqueue_cancel_job", arguments, caller)
        .await
        .unwrap();
    let question = someone.asked.lock().pop().unwrap();
    assert!(question.contains("a\\u{202e}b\\u{a}"), "{question}");
}

#[tokio::test]
async fn a_model_judges_the_words_of_the_user() {
    let stub = Stub::start().await;
    let dispatcher = dispatcher()
        .with_model(Arc::new(model(&stub, 0.8)))
        .confirming();
    add(&dispatcher).await;
    let with = async |request: Value| {
        let arguments = json!({ "queue": "q", "confirm": "q", "userRequest": request });
        call(&dispatcher, &Asking::Never, arguments).await
    };
    for request in [Value::Null, json!(""), json!("  ")] {
        let refused = failure(with(request).await);
        assert!(
            refused["error"]
                .as_str()
                .unwrap()
                .starts_with("userRequest is required")
        );
    }
    assert_eq!(stub.requests(), 0);

    stub.answer(200, json!({ "answers": { "q": { "noul": 0.79 } } }));
    let refused = failure(with(json!("empty the queue q")).await);
    assert_eq!(
        refused["error"],
        "The user request does not clearly ask for this operation; ask the user before retrying."
    );
    assert_eq!(
        (&refused["probability"], &refused["threshold"]),
        (&json!(0.79), &json!(0.8))
    );
    let sent = stub.last();
    assert_eq!(sent["state"]["userRequest"], "empty the queue q");
    assert!(
        sent["state"]["operation"]
            .as_str()
            .unwrap()
            .contains("1 waiting"),
        "{sent}"
    );

    stub.answer(400, json!({}));
    let refused = failure(with(json!("empty it")).await);
    assert_eq!(
        refused["error"],
        "Could not verify the request with the decision model; ask the user to confirm explicitly."
    );
    assert_eq!(refused["cause"], "it answered with an error");

    // Whoever is asked is asked; the model has no say then.
    let asking = Asking::Within(person(Reply::Confirmed));
    assert_eq!(
        call(&dispatcher, &asking, json!({ "queue": "q" })).await,
        drained(1)
    );
    add(&dispatcher).await;
    stub.answer(
        200,
        json!({ "result": { "answers": { "q": { "noul": 0.8 } } } }),
    );
    assert_eq!(with(json!("yes, empty it")).await, drained(1));
}
