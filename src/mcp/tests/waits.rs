//! Waits: how they end, what they report, and that no job is lost on the way. Real time, ended by signals.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{members, registry};
use crate::broker::{Broker, LocalBroker};
use crate::engine::Config;
use crate::mcp::call::{Call, Caller, ProgressReport};
use crate::mcp::dispatch::{Answer, Dispatcher};
use crate::mcp::error::ToolError;

/// Longer than any step of a test takes, shorter than anybody's patience.
const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    dispatcher: Arc<Dispatcher>,
    shutdown: CancellationToken,
}

impl Server {
    fn start() -> Self {
        let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
        let shutdown = CancellationToken::new();
        let registry = registry();
        let selection = registry.everything();
        Self {
            dispatcher: Arc::new(Dispatcher::new(
                registry,
                selection,
                broker,
                shutdown.clone(),
            )),
            shutdown,
        }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Answer {
        let called = self
            .dispatcher
            .call(tool, members(arguments), Caller::default());
        tokio::time::timeout(PATIENCE, called)
            .await
            .expect("the call hangs")
            .unwrap()
    }

    async fn success(&self, tool: &str, arguments: Value) -> Value {
        match self.call(tool, arguments).await {
            Answer::Success(answer) => answer,
            other => panic!("{tool}: {other:?}"),
        }
    }

    /// A call in the background, once the broker has taken it on.
    async fn begin(
        &self,
        tool: &'static str,
        arguments: Value,
        caller: Caller,
    ) -> JoinHandle<Answer> {
        let dispatcher = Arc::clone(&self.dispatcher);
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let mut called = std::pin::pin!(dispatcher.call(tool, members(arguments), caller));
            // The first poll reaches the broker; whatever else happens comes after it.
            let first = futures_util::poll!(&mut called);
            let _ = begun.send(());
            match first {
                std::task::Poll::Ready(answer) => answer.unwrap(),
                std::task::Poll::Pending => called.await.unwrap(),
            }
        });
        has_begun.await.unwrap();
        task
    }
}

async fn end(task: JoinHandle<Answer>) -> Answer {
    tokio::time::timeout(PATIENCE, task)
        .await
        .expect("the wait does not end")
        .unwrap()
}

fn code(answer: &Answer) -> &str {
    match answer {
        Answer::Failure(body) => body["code"].as_str().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_cancelled_pull_leaves_its_place_and_loses_no_job() {
    let server = Server::start();
    let caller = Caller::default();
    let cancelled = caller.cancelled.clone();
    let pull = server
        .begin(
            "bunqueue_pull_job",
            json!({ "queue": "q", "timeoutMs": 30000 }),
            caller,
        )
        .await;
    cancelled.cancel();
    assert_eq!(code(&end(pull).await), "cancelled");
    server
        .success(
            "bunqueue_add_job",
            json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" }),
        )
        .await;
    let next = server
        .success("bunqueue_pull_job", json!({ "queue": "q" }))
        .await;
    assert_eq!(
        (&next["job"]["id"], &next["job"]["attempts"]),
        (&json!("j"), &json!(0))
    );
}

#[tokio::test]
async fn a_job_handed_to_a_pull_that_was_cancelled_goes_back() {
    let server = Server::start();
    for owner in [Value::Null, json!("agent")] {
        let caller = Caller::default();
        let cancelled = caller.cancelled.clone();
        let arguments = json!({ "queue": "q", "count": 2, "timeoutMs": 30000, "owner": owner });
        let pull = server
            .begin("bunqueue_pull_job_batch", arguments, caller)
            .await;
        // The single-threaded test decides the order: handed over first, withdrawn before it is read.
        server
            .success(
                "bunqueue_add_job",
                json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" }),
            )
            .await;
        cancelled.cancel();
        assert_eq!(code(&end(pull).await), "cancelled");
        let next = server
            .success("bunqueue_pull_job", json!({ "queue": "q" }))
            .await;
        assert_eq!(
            (&next["job"]["id"], &next["job"]["attempts"]),
            (&json!("j"), &json!(0))
        );
        server
            .success("bunqueue_ack_job", json!({ "jobId": "j" }))
            .await;
    }
}

#[tokio::test]
async fn a_job_read_by_a_call_that_is_already_withdrawn_goes_back() {
    let server = Server::start();
    for owner in [Value::Null, json!("agent")] {
        server
            .success(
                "bunqueue_add_job",
                json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" }),
            )
            .await;
        let (told, decided) = (Caller::default(), Caller::default());
        told.cancelled.cancel();
        // The transport has decided and the token does not know it yet.
        assert!(decided.ending.claim());
        for caller in [told, decided] {
            let arguments = json!({ "queue": "q", "owner": owner });
            let pull = server.begin("bunqueue_pull_job", arguments, caller).await;
            assert_eq!(code(&end(pull).await), "cancelled");
        }
        let next = server
            .success("bunqueue_pull_job", json!({ "queue": "q" }))
            .await;
        assert_eq!(
            (&next["job"]["id"], &next["job"]["attempts"]),
            (&json!("j"), &json!(0))
        );
        server
            .success("bunqueue_ack_job", json!({ "jobId": "j" }))
            .await;
    }
}

#[tokio::test]
async fn a_pull_that_hands_a_job_over_can_no_longer_be_cancelled() {
    let server = Server::start();
    let add = json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" });
    server.success("bunqueue_add_job", add).await;
    let caller = Caller::default();
    let ending = caller.ending.clone();
    let arguments = json!({ "queue": "q" });
    let pull = server.begin("bunqueue_pull_job", arguments, caller).await;
    let Answer::Success(pulled) = end(pull).await else {
        panic!("nobody cancelled");
    };
    assert_eq!(pulled["job"]["id"], "j");
    assert!(!ending.claim());
}

#[tokio::test]
async fn hard_m4_cancelling_a_wait_races_safely_with_its_end() {
    let server = Server::start();
    for round in 0..1_000 {
        let caller = Caller::default();
        let cancelled = caller.cancelled.clone();
        let pull = server
            .begin(
                "bunqueue_pull_job",
                json!({ "queue": "q", "timeoutMs": 30000 }),
                caller,
            )
            .await;
        let add = server.call(
            "bunqueue_add_job",
            json!({ "queue": "q", "name": "n", "data": {} }),
        );
        if round % 2 == 0 {
            add.await;
            if round % 4 == 0 {
                tokio::task::yield_now().await;
            }
            cancelled.cancel();
        } else {
            cancelled.cancel();
            if round % 4 == 1 {
                tokio::task::yield_now().await;
            }
            add.await;
        }
        let id = match end(pull).await {
            Answer::Success(answer) => answer["job"]["id"].clone(),
            _ => server
                .success("bunqueue_pull_job", json!({ "queue": "q" }))
                .await["job"]["id"]
                .clone(),
        };
        server
            .success("bunqueue_ack_job", json!({ "jobId": id }))
            .await;
    }
    let counts = server
        .success("bunqueue_get_job_counts", json!({ "queue": "q" }))
        .await;
    assert_eq!(
        (&counts["completed"], &counts["active"], &counts["waiting"]),
        (&json!(1000), &json!(0), &json!(0))
    );
}

#[tokio::test]
async fn the_end_of_the_server_ends_every_wait_and_nothing_else() {
    let server = Server::start();
    server
        .success(
            "bunqueue_add_job",
            json!({ "queue": "other", "name": "n", "data": {}, "jobId": "j" }),
        )
        .await;
    let mut waits = Vec::new();
    for (tool, arguments) in [
        (
            "bunqueue_pull_job",
            json!({ "queue": "q", "timeoutMs": 30000 }),
        ),
        (
            "bunqueue_pull_job_batch",
            json!({ "queue": "q", "count": 5, "timeoutMs": 30000 }),
        ),
        (
            "bunqueue_wait_for_job",
            json!({ "jobId": "j", "timeoutMs": 30000 }),
        ),
        (
            "bunqueue_observe_job",
            json!({ "jobId": "j", "timeoutMs": 30000 }),
        ),
    ] {
        waits.push(server.begin(tool, arguments, Caller::default()).await);
    }
    server.shutdown.cancel();
    for wait in waits {
        assert_eq!(code(&end(wait).await), "backend_unavailable");
    }
    let pulled = server
        .success("bunqueue_pull_job", json!({ "queue": "other" }))
        .await;
    assert_eq!(pulled["job"]["id"], "j");
}

#[tokio::test]
async fn a_wait_for_a_job_reports_its_progress_in_increasing_steps() {
    for tool in ["bunqueue_wait_for_job", "bunqueue_observe_job"] {
        let server = Server::start();
        server
            .success(
                "bunqueue_add_job",
                json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" }),
            )
            .await;
        server
            .success("bunqueue_pull_job", json!({ "queue": "q" }))
            .await;
        let (sender, mut reports) = mpsc::channel(16);
        let caller = Caller {
            progress: Some(sender),
            ..Caller::default()
        };
        let wait = server
            .begin(tool, json!({ "jobId": "j", "timeoutMs": 30000 }), caller)
            .await;
        for (progress, message) in [(30, Some("third")), (30, None), (20, None), (60, None)] {
            let update = json!({ "jobId": "j", "progress": progress, "message": message });
            server.success("bunqueue_update_progress", update).await;
        }
        let report = |done: f64| ProgressReport {
            done,
            total: 100.0,
            message: Some("third".into()),
        };
        for expected in [30.0, 60.0] {
            let received = tokio::time::timeout(PATIENCE, reports.recv())
                .await
                .expect("no report");
            assert_eq!(received, Some(report(expected)), "{tool}");
        }
        server
            .success("bunqueue_ack_job", json!({ "jobId": "j", "result": 1 }))
            .await;
        let Answer::Success(answer) = end(wait).await else {
            panic!("{tool} failed")
        };
        assert_eq!(answer["state"], "completed");
        assert_eq!(reports.recv().await, None, "{tool} reported after its end");
    }
}

#[tokio::test]
async fn a_long_poll_reports_the_time_that_has_passed() {
    let (sender, mut reports) = mpsc::channel(16);
    let server = Server::start();
    let caller = Caller {
        progress: Some(sender),
        ..Caller::default()
    };
    let pull = server
        .begin(
            "bunqueue_pull_job",
            json!({ "queue": "q", "timeoutMs": 30000 }),
            caller,
        )
        .await;
    let report = tokio::time::timeout(PATIENCE, reports.recv())
        .await
        .expect("no report")
        .unwrap();
    assert!((1_000.0..20_000.0).contains(&report.done), "{report:?}");
    assert_eq!(report.total, 30_000.0);
    server.shutdown.cancel();
    end(pull).await;
}

#[tokio::test]
async fn hard_r2_a_wait_that_runs_out_is_no_completion() {
    let server = Server::start();
    server
        .success(
            "bunqueue_add_job",
            json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" }),
        )
        .await;
    let waited = server
        .success(
            "bunqueue_wait_for_job",
            json!({ "jobId": "j", "timeoutMs": 100 }),
        )
        .await;
    assert_eq!(
        (&waited["completed"], &waited["state"]),
        (&json!(false), &json!("waiting"))
    );
    assert!(
        waited["hint"]
            .as_str()
            .unwrap()
            .contains("bunqueue_observe_job")
    );
    let seen = server
        .success(
            "bunqueue_observe_job",
            json!({ "jobId": "j", "timeoutMs": 100 }),
        )
        .await;
    assert_eq!(
        (&seen["outcome"], &seen["timedOut"], &seen["terminal"]),
        (&json!("pending"), &json!(true), &json!(false))
    );
    // Deadlines are whole milliseconds: the one that had begun counts.
    assert!(seen["waitedMs"].as_u64().unwrap() >= 99);
    let long = server
        .call(
            "bunqueue_wait_for_job",
            json!({ "jobId": "j", "timeoutMs": 30001 }),
        )
        .await;
    assert_eq!(code(&long), "invalid_arguments");
    let empty = server
        .success(
            "bunqueue_pull_job_batch",
            json!({ "queue": "none", "count": 3, "timeoutMs": 50 }),
        )
        .await;
    assert_eq!(empty, json!({ "count": 0, "jobs": [] }));
}

#[tokio::test]
async fn an_observed_job_that_deletes_itself_still_has_its_outcome() {
    let server = Server::start();
    let add = |id: &str| json!({ "queue": "q", "name": "n", "data": {}, "jobId": id, "removeOnComplete": true, "removeOnFail": true, "attempts": 1 });
    for (id, end_with, outcome) in [
        (
            "done",
            (
                "bunqueue_ack_job",
                json!({ "jobId": "done", "result": [1] }),
            ),
            "completed",
        ),
        (
            "lost",
            ("bunqueue_fail_job", json!({ "jobId": "lost" })),
            "failed",
        ),
        (
            "gone",
            ("bunqueue_obliterate_queue", json!({ "queue": "q" })),
            "unknown",
        ),
    ] {
        server.success("bunqueue_add_job", add(id)).await;
        server
            .success("bunqueue_pull_job", json!({ "queue": "q" }))
            .await;
        let observe = json!({ "jobId": id, "timeoutMs": 30000 });
        let wait = server
            .begin("bunqueue_observe_job", observe, Caller::default())
            .await;
        server.success(end_with.0, end_with.1).await;
        let Answer::Success(seen) = end(wait).await else {
            panic!("{id}")
        };
        assert_eq!(
            (&seen["outcome"], &seen["terminal"], &seen["timedOut"]),
            (&json!(outcome), &json!(true), &json!(false))
        );
        // A result that is not kept is nobody's to read.
        assert_eq!(seen.get("result"), None);
    }
}

#[tokio::test]
async fn a_panic_in_a_tool_ends_that_call_alone() {
    let mut registry = crate::mcp::Registry::new().unwrap();
    registry.replace_handler(
        "bunqueue_list_queues",
        Box::new(|_, _| Box::pin(async { panic!("as the test wants it") })),
    );
    let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
    let registry = Arc::new(registry);
    let selection = registry.everything();
    let dispatcher = Dispatcher::new(registry, selection, broker, CancellationToken::new());
    let answer = dispatcher
        .call(
            "bunqueue_list_queues",
            members(json!({})),
            Caller::default(),
        )
        .await
        .unwrap();
    let Answer::Failure(body) = &answer else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (&body["error"], &body["code"]),
        (&json!("Internal error"), &json!("internal"))
    );
    let next = dispatcher
        .call(
            "bunqueue_count_jobs",
            members(json!({ "queue": "q" })),
            Caller::default(),
        )
        .await;
    assert!(matches!(next, Ok(Answer::Success(_))));
}

#[tokio::test]
async fn an_impact_that_cannot_be_looked_up_names_the_call() {
    let mut registry = crate::mcp::Registry::new().unwrap();
    registry.replace_impact(
        "bunqueue_drain_queue",
        Box::new(|_: Call, _| Box::pin(async { Err(ToolError::Internal) })),
    );
    let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
    let registry = Arc::new(registry);
    let selection = registry.everything();
    let dispatcher = Dispatcher::new(registry, selection, broker, CancellationToken::new());
    let arguments = members(json!({ "queue": "email", "dryRun": true, "confirm": "x" }));
    let answer = dispatcher
        .call("bunqueue_drain_queue", arguments, Caller::default())
        .await
        .unwrap();
    let Answer::Success(body) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(
        body["impact"],
        "Run drain_queue with {\"queue\":\"email\"}."
    );
}
