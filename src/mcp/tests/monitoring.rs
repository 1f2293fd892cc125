//! Monitoring: diagnoses, figures, what the server tells of itself.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::results::{empty, fitting};
use super::stub::{Stub, model};
use super::{call, dispatcher, failure, members, registry, success};
use crate::broker::{Broker, BrokerExt, LocalBroker, ManualClock};
use crate::command::{
    Operation, QueueName, RegisterWorker, SetConcurrency, SetDlqConfig, SetRateLimit,
};
use crate::engine::{Config, DlqConfigUpdate, Durability, RateLimit, WorkerRegistration};
use crate::mcp::dispatch::{Answer, Dispatcher};
use crate::mcp::{Asking, Caller, HttpFacts, Loaded, OpenSessions, ServerInfo, Transport, example};

fn on(info: ServerInfo, broker: Arc<dyn Broker>) -> Dispatcher {
    let registry = registry();
    let selection = registry.everything();
    Dispatcher::on(info, registry, selection, broker, CancellationToken::new())
}

/// A broker whose clock the test moves.
struct World {
    broker: Arc<dyn Broker>,
    clock: Arc<ManualClock>,
    dispatcher: Dispatcher,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(example::NOW));
        let broker: Arc<dyn Broker> = Arc::new(LocalBroker::simulated(
            Config::default(),
            Box::new(Arc::clone(&clock)),
            [2; 32],
        ));
        Self {
            dispatcher: dispatcher(Arc::clone(&broker)),
            broker,
            clock,
        }
    }

    /// What no tool of this version does.
    fn command<O: Operation>(&self, operation: O) -> O::Reply {
        let answer = self.broker.call(operation).now_or_never();
        answer
            .expect("it does not wait")
            .expect("it is not refused")
    }

    fn ok(&self, tool: &str, arguments: Value) -> Value {
        success(&self.dispatcher, tool, arguments)
    }

    fn add(&self, more: &Value) {
        let mut job = json!({ "queue": "q", "name": "n", "data": {} });
        for (key, value) in more.as_object().unwrap() {
            job[key] = value.clone();
        }
        self.ok("bunqueue_add_job", job);
    }

    fn pull(&self) -> Value {
        self.ok("bunqueue_pull_job", json!({ "queue": "q" }))["job"].clone()
    }

    fn diagnose(&self, more: &Value) -> Value {
        let mut asked = json!({ "queue": "q" });
        for (key, value) in more.as_object().unwrap() {
            asked[key] = value.clone();
        }
        fitting(&self.dispatcher, "bunqueue_diagnose_queue", asked)
    }

    fn register_worker(&self) {
        self.command(RegisterWorker {
            worker: WorkerRegistration {
                id: Some("w".into()),
                name: "worker".into(),
                queues: vec!["q".into()],
                concurrency: Some(1.0),
                hostname: None,
                pid: None,
                started_at: None,
            },
        });
    }
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn codes(diagnosis: &Value) -> Vec<&str> {
    let blockers = diagnosis["blockers"].as_array().unwrap();
    blockers
        .iter()
        .map(|blocker| blocker["code"].as_str().unwrap())
        .collect()
}

/// The blocker with that code: its severity and what is said of it, once its suggestions were looked at.
fn finding<'a>(diagnosis: &'a Value, code: &str) -> (&'a str, &'a str) {
    let blockers = diagnosis["blockers"].as_array().unwrap();
    let found = blockers.iter().find(|blocker| blocker["code"] == code);
    let found = found.unwrap_or_else(|| panic!("no {code}: {diagnosis}"));
    for tool in found["suggestedTools"].as_array().unwrap() {
        assert!(registry().tool(tool.as_str().unwrap()).is_some(), "{tool}");
    }
    (
        found["severity"].as_str().unwrap(),
        found["message"].as_str().unwrap(),
    )
}

#[test]
fn a_queue_that_does_not_exist_is_idle_and_its_name_may_be_misspelt() {
    let world = dispatcher(example::world());
    let diagnosis = fitting(
        &world,
        "bunqueue_diagnose_queue",
        json!({ "queue": "emial" }),
    );
    assert_eq!(
        (
            &diagnosis["exists"],
            &diagnosis["status"],
            &diagnosis["total"]
        ),
        (&json!(false), &json!("idle"), &json!(0))
    );
    assert_eq!(diagnosis["blockers"], json!([]));
    assert_eq!(diagnosis["oldestWaitingMs"], Value::Null);
    assert_eq!(diagnosis["observedAt"], "2026-01-05T09:00:00.000Z");
    assert!(diagnosis["hint"].as_str().unwrap().contains("email"));
    let queues = success(&world, "bunqueue_list_queues", json!({}));
    assert_eq!(queues["queues"], json!(["email", "reports"]));
}

#[test]
fn a_queue_that_stands_still_is_told_why() {
    let world = World::new();
    world.add(&json!({ "priority": 2 }));
    world.clock.advance(1_500);
    world.add(&json!({}));
    world.clock.advance(500);
    let diagnosis = world.diagnose(&json!({}));
    assert_eq!(diagnosis["status"], "blocked");
    assert_eq!(diagnosis["oldestWaitingMs"], 2_000);
    let (severity, message) = finding(&diagnosis, "no_workers");
    assert_eq!(severity, "blocking");
    assert!(message.contains("2 jobs") && message.contains("registering"));
    world.ok("bunqueue_pause_queue", json!({ "queue": "q" }));
    let diagnosis = world.diagnose(&json!({}));
    assert_eq!(codes(&diagnosis), ["paused", "no_workers"]);
    assert_eq!(
        (&diagnosis["paused"], &diagnosis["counts"]["paused"]),
        (&json!(true), &json!(2))
    );
    let suggested = &diagnosis["blockers"][0]["suggestedTools"];
    assert_eq!(suggested, &json!(["bunqueue_resume_queue"]));
    world.ok("bunqueue_resume_queue", json!({ "queue": "q" }));
    world.register_worker();
    assert_eq!(world.diagnose(&json!({}))["status"], "healthy");
    world.clock.advance(60_001);
    let diagnosis = world.diagnose(&json!({}));
    assert_eq!(codes(&diagnosis), ["stale_workers"]);
    assert_eq!(
        diagnosis["workers"],
        json!({ "registered": 1, "stale": 1, "handlers": 0 })
    );
    let patient = world.diagnose(&json!({ "staleAfterMs": 3_600_000 }));
    assert_eq!(patient["status"], "healthy");
}

#[test]
fn limits_that_hold_jobs_back_are_told() {
    let world = World::new();
    world.register_worker();
    world.add(&json!({}));
    world.add(&json!({}));
    let none = json!({
        "rateLimit": null, "rateLimitTtlMs": null, "rateLimited": false, "concurrencyLimit": null,
        "concurrencyMaxed": false,
    });
    assert_eq!(world.diagnose(&json!({}))["limits"], none);
    world.command(SetConcurrency {
        queue: queue(),
        limit: 1,
    });
    world.command(SetRateLimit {
        queue: queue(),
        limit: RateLimit {
            max: 1,
            duration: 10_000,
        },
        ttl: None,
    });
    world.pull();
    let diagnosis = world.diagnose(&json!({}));
    assert_eq!(codes(&diagnosis), ["concurrency_maxed", "rate_limited"]);
    assert!(
        finding(&diagnosis, "concurrency_maxed")
            .1
            .starts_with("1 jobs are active")
    );
    assert!(finding(&diagnosis, "rate_limited").1.contains("10000 ms"));
    let limits = json!({
        "rateLimit": { "max": 1, "durationMs": 10_000 }, "rateLimitTtlMs": 10_000, "rateLimited": true,
        "concurrencyLimit": 1, "concurrencyMaxed": true,
    });
    assert_eq!(diagnosis["limits"], limits);
}

#[test]
fn jobs_that_wait_for_time_or_for_others_are_told() {
    let world = World::new();
    world.add(&json!({ "delay": 90_000 }));
    world.add(&json!({ "delay": 60_000 }));
    let diagnosis = world.diagnose(&json!({}));
    assert_eq!(
        (&diagnosis["status"], codes(&diagnosis)),
        (&json!("idle"), vec!["all_delayed"])
    );
    let (severity, message) = finding(&diagnosis, "all_delayed");
    assert_eq!(severity, "warning");
    assert!(message.contains("2026-01-05T09:01:00.000Z"), "{message}");
    let world = World::new();
    let tree =
        json!({ "name": "p", "queueName": "q", "children": [{ "name": "c", "queueName": "r" }] });
    world.ok("bunqueue_add_flow", tree);
    let diagnosis = world.diagnose(&json!({}));
    assert_eq!(codes(&diagnosis), ["waiting_children"]);
    finding(&diagnosis, "waiting_children");
}

#[test]
fn silent_deliveries_and_dead_letters_are_told_with_the_newest_ones() {
    let world = World::new();
    world.register_worker();
    for number in 0..5 {
        world.add(&json!({ "attempts": 1, "jobId": format!("bad-{number}") }));
        world.pull();
        let error = format!("{number}\u{202e}{}", "é".repeat(1_000));
        let failed = json!({ "jobId": format!("bad-{number}"), "error": error });
        world.ok("bunqueue_fail_job", failed);
        world.clock.advance(1_000);
    }
    world.add(&json!({ "stallTimeout": 2_000 }));
    world.pull();
    world.clock.advance(3_000);
    let diagnosis = world.diagnose(&json!({ "samples": 2 }));
    assert_eq!(codes(&diagnosis), ["stalled_active", "dead_letters"]);
    assert_eq!(diagnosis["status"], "degraded");
    assert_eq!(diagnosis["oldestActiveMs"], 3_000);
    assert!(
        finding(&diagnosis, "stalled_active")
            .1
            .starts_with("1 of 1")
    );
    assert!(finding(&diagnosis, "dead_letters").1.starts_with("5 jobs"));
    let letters = &diagnosis["dlq"];
    assert_eq!(letters["total"], 5);
    assert_eq!(letters["byReason"], json!({ "max_attempts_exceeded": 5 }));
    assert_eq!(letters["oldestEntry"], "2026-01-05T09:00:00.000Z");
    let samples = letters["samples"].as_array().unwrap();
    let ids: Vec<_> = samples.iter().map(|sample| &sample["jobId"]).collect();
    assert_eq!(ids, ["bad-4", "bad-3"]);
    assert!(samples[0]["error"].as_str().unwrap().len() <= 500);
    assert_eq!(samples[0]["enteredAt"], letters["newestEntry"]);
    assert_eq!(
        world.diagnose(&json!({ "samples": 0 }))["dlq"]["samples"],
        json!([])
    );
    world.command(SetDlqConfig {
        queue: queue(),
        update: DlqConfigUpdate {
            auto_retry: Some(true),
            max_age: Some(None),
            ..DlqConfigUpdate::default()
        },
    });
    let config = json!({
        "dlq": {
            "autoRetry": true, "autoRetryInterval": 3_600_000, "maxAutoRetries": 3, "maxAge": null, "maxEntries": 10_000,
        },
        "stall": { "enabled": true, "stallInterval": 30_000, "maxStalls": 3, "gracePeriod": 5_000 },
    });
    assert_eq!(world.diagnose(&json!({}))["config"], config);
}

#[test]
fn counts_per_queue_know_no_pause_and_no_special_name() {
    let world = World::new();
    for name in ["__proto__", "q"] {
        let job = json!({ "queue": name, "name": "n", "data": {}, "priority": 1 });
        world.ok("bunqueue_add_job", job);
    }
    world.ok("bunqueue_pause_queue", json!({ "queue": "q" }));
    let counts = json!({ "waiting": 0, "prioritized": 1, "delayed": 0, "active": 0, "dlq": 0 });
    let stats = fitting(&world.dispatcher, "bunqueue_get_per_queue_stats", json!({}));
    assert_eq!(stats, json!({ "__proto__": counts, "q": counts }));
    let stats = fitting(&world.dispatcher, "bunqueue_get_stats", json!({}));
    assert_eq!(
        (&stats["prioritized"], stats.get("paused")),
        (&json!(2), None)
    );
}

#[test]
fn totals_outlive_the_process_only_with_a_file() {
    for (durability, is_kept) in [(Durability::None, false), (Durability::Committed, true)] {
        let info = ServerInfo {
            durability,
            ..ServerInfo::default()
        };
        let dispatcher = on(info, example::world());
        let stats = fitting(&dispatcher, "bunqueue_get_stats", json!({}));
        let expected = json!({ "pushed": 9, "pulled": 3, "completed": 1, "failed": 1 });
        let lifetime = stats.get("lifetime");
        assert_eq!(lifetime, is_kept.then_some(&expected));
        assert_eq!(stats["uptime"], 20_000);
    }
}

#[test]
fn metrics_are_a_text_of_their_own_and_count_the_calls_before() {
    let dispatcher = dispatcher(example::world());
    success(&dispatcher, "bunqueue_list_queues", json!({}));
    success(&dispatcher, "bunqueue_list_queues", json!({}));
    failure(&dispatcher, "bunqueue_get_job", json!({ "jobId": "nope" }));
    failure(&dispatcher, "bunqueue_get_job", json!({}));
    let Answer::Text(member, value) =
        call(&dispatcher, "bunqueue_get_prometheus_metrics", json!({}))
    else {
        panic!("no text");
    };
    assert_eq!(member, "metrics");
    let text = value["metrics"].as_str().unwrap();
    for line in [
        "bunqueue_jobs_waiting 3",
        "bunqueue_mcp_tool_calls_total{tool=\"bunqueue_list_queues\",outcome=\"success\"} 2",
        "bunqueue_mcp_tool_calls_total{tool=\"bunqueue_list_queues\",outcome=\"error\"} 0",
        "bunqueue_mcp_tool_calls_total{tool=\"bunqueue_get_job\",outcome=\"error\"} 2",
        "bunqueue_mcp_tool_duration_seconds_count{tool=\"bunqueue_get_job\"} 2",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}");
    }
    assert!(!text.contains("nope") && !text.contains("bunqueue_add_job"));
}

#[tokio::test]
async fn capabilities_tell_what_is_confirmed_judged_and_loaded() {
    let stub = Stub::start().await;
    let registry = registry();
    let all = registry.tools().count();
    let selection = registry.select(Some(("", "dynamic,queues"))).unwrap();
    let info = ServerInfo {
        profile: Some("agent"),
        ..ServerInfo::default()
    };
    let dispatcher = Dispatcher::on(info, registry, selection, empty(), CancellationToken::new())
        .with_model(Arc::new(model(&stub, 0.75)))
        .confirming();
    let caller = Caller {
        asking: Asking::Between(None),
        loaded: Some(Loaded::default()),
        ..Caller::default()
    };
    let call = async |tool: &str, arguments: Value| {
        let called = dispatcher.call(tool, members(arguments), caller.clone());
        match called.await.unwrap() {
            Answer::Success(value) => value,
            other => panic!("{other:?}"),
        }
    };
    let load = json!({ "toolsets": ["monitoring"] });
    call("bunqueue_enable_toolsets", load).await;
    let told = call("bunqueue_get_capabilities", json!({})).await;
    assert!(told.to_string().len() <= 2_500);
    assert_eq!(told["profile"], "agent");
    assert_eq!(told["toolsets"]["mode"], "dynamic");
    assert_eq!(told["toolsets"]["enabled"], json!(["queues", "monitoring"]));
    assert_eq!(
        told["tools"],
        json!({ "total": all, "enabled": 21, "meta": 3 })
    );
    let model = json!({ "provider": "systemone", "model": "m", "threshold": 0.75 });
    assert_eq!(told["decision"], model);
    let confirm = &told["confirm"];
    assert_eq!(
        (&confirm["mode"], &confirm["elicitation"]),
        (&json!("destructive"), &json!(true))
    );
    let guarded = confirm["guarded"].as_array().unwrap();
    assert!(guarded.contains(&json!("bunqueue_obliterate_queue")));
    assert!(!guarded.contains(&json!("bunqueue_update_job_data")));
    for secret in ["s3cret", "127.0.0.1"] {
        assert!(!told.to_string().contains(secret), "{told}");
    }
}

#[test]
fn a_call_that_was_not_confirmed_has_not_been_made() {
    let dispatcher = dispatcher(example::world()).confirming();
    failure(
        &dispatcher,
        "bunqueue_drain_queue",
        json!({ "queue": "email" }),
    );
    let confirmed = json!({ "queue": "email", "confirm": "email" });
    success(&dispatcher, "bunqueue_drain_queue", confirmed);
    let metrics = success(&dispatcher, "bunqueue_get_prometheus_metrics", json!({}));
    let metrics = metrics["metrics"].as_str().unwrap();
    for (outcome, calls) in [("success", 1), ("error", 0)] {
        let line = format!(
            "bunqueue_mcp_tool_calls_total{{tool=\"bunqueue_drain_queue\",outcome=\"{outcome}\"}} {calls}"
        );
        assert!(metrics.lines().any(|own| own == line), "{line}");
    }
}

#[test]
fn capabilities_are_those_in_force() {
    let told = |info: ServerInfo, toolsets: Option<&str>| {
        let registry = registry();
        let selection = registry.select(toolsets.map(|list| ("", list))).unwrap();
        let shutdown = CancellationToken::new();
        let dispatcher = Dispatcher::on(info, registry, selection, empty(), shutdown);
        fitting(&dispatcher, "bunqueue_get_capabilities", json!({}))
    };
    let all = registry().tools().count();
    let plain = told(ServerInfo::default(), None);
    assert!(
        plain.to_string().len() <= 2_500,
        "{}",
        plain.to_string().len()
    );
    assert_eq!(plain["toolsets"]["mode"], "all");
    assert_eq!(
        plain["tools"],
        json!({ "total": all, "enabled": all, "meta": 0 })
    );
    assert_eq!(plain["transport"], json!({ "kind": "stdio" }));
    assert_eq!(plain["profile"], Value::Null);
    assert_eq!(
        plain["confirm"],
        json!({ "mode": "off", "guarded": [], "elicitation": false })
    );
    assert_eq!(
        plain["decision"],
        json!({ "provider": null, "model": null, "threshold": null })
    );
    let limits = json!({
        "maxRequestBodyBytes": 16_777_216, "maxJobDataBytes": 10_485_760, "maxWaitMs": 30_000, "maxPullBatch": 1_000,
    });
    assert_eq!(plain["limits"], limits);
    let versions = plain["server"]["protocolVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2024-11-05")) && versions.contains(&json!("2026-07-28")));

    let open = OpenSessions::default();
    let counted = (open.enter(), open.enter());
    drop(counted.0);
    let http = ServerInfo {
        durability: Durability::Buffered,
        transport: Transport::Http(HttpFacts {
            open,
            max_sessions: 7,
            session_ttl: Duration::from_secs(60),
            has_tokens: true,
            max_body: 4_194_304,
        }),
        tcp_port: Some(6_789),
        ..ServerInfo::default()
    };
    let told = told(http, Some("monitoring"));
    assert_eq!(told["toolsets"]["mode"], "static");
    assert_eq!(told["toolsets"]["enabled"], json!(["monitoring"]));
    assert_eq!(
        told["tools"],
        json!({ "total": all, "enabled": 9, "meta": 0 })
    );
    let transport = json!({
        "kind": "http", "sessions": 1, "maxSessions": 7, "sessionTtlMs": 60_000, "auth": true,
    });
    assert_eq!(told["transport"], transport);
    assert_eq!(
        told["persistence"],
        json!({ "kind": "sqlite", "durability": "buffered", "survivesRestart": true })
    );
    assert_eq!(
        told["tcpListener"],
        json!({ "enabled": true, "port": 6_789 })
    );
    assert_eq!(told["limits"]["maxRequestBodyBytes"], 4_194_304);
}
