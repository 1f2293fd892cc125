//! Errors of the tools around the jobs: dead letters, schedules, limits, workers, webhooks.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Case, at, case};
use crate::broker::{Broker, EventFilter, Storing, Submitted, Subscription};
use crate::command::{Command, CommandError, ReplyFault};
use crate::engine::{ConnectionId, Delivery, EventKind, Millis};
use crate::mcp::example;

const INVALID: &str = "invalid_arguments";

/// A schedule with what is given.
fn cron(more: &Value) -> Value {
    let mut arguments = json!({ "name": "c", "queue": "email", "data": {} });
    for (key, value) in more.as_object().unwrap() {
        arguments[key] = value.clone();
    }
    arguments
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = cron_cases();
    cases.extend(webhook_cases());
    cases.extend(queue_cases());
    cases.extend(page_cases());
    cases.extend(worker_cases());
    cases
}

fn cron_cases() -> Vec<Case> {
    let zone =
        "Unknown time zone: use an IANA name such as \"Europe/Rome\" or \"America/New_York\"";
    let timing = "Cron job must have either schedule or repeatEvery";
    let needs = "timezone applies only to a cron pattern: set schedule, or omit timezone";
    let adds = [
        ("schedule", json!({}), timing),
        ("schedule", json!({ "schedule": "" }), timing),
        ("schedule", json!({ "timezone": "Europe/Rome" }), timing),
        (
            "schedule",
            json!({ "schedule": "0 9 * *" }),
            "Invalid cron expression: Cron expression must have 5 fields, or 6 fields with leading seconds",
        ),
        (
            "schedule",
            json!({ "schedule": "61 * * * *", "repeatEvery": 1000 }),
            "Invalid cron expression: Invalid cron minute field \"61\": values must be between 0 and 59",
        ),
        (
            "schedule",
            json!({ "schedule": "0 0 30 2 *" }),
            "Invalid cron expression: Cron expression has no future occurrences",
        ),
        (
            "timezone",
            json!({ "repeatEvery": 1000, "timezone": "Europe/Rome" }),
            needs,
        ),
        (
            "timezone",
            json!({ "repeatEvery": 1000, "schedule": "", "timezone": "Europe/Rome" }),
            needs,
        ),
        (
            "timezone",
            json!({ "schedule": "@daily", "timezone": "+02:00" }),
            zone,
        ),
        (
            "timezone",
            json!({ "schedule": "@daily", "timezone": "Mars/Olympus" }),
            zone,
        ),
        (
            "name",
            json!({ "name": "n".repeat(1_025), "schedule": "@daily" }),
            "name must be at most 1024 characters",
        ),
        (
            "jobName",
            json!({ "jobName": "😀".repeat(129), "schedule": "@daily" }),
            "Invalid arguments for bunqueue_add_cron: jobName: Job name must be a non-empty string of at most 256 characters",
        ),
        (
            "deduplication.extend",
            json!({ "schedule": "@daily", "deduplication": { "id": "k", "extend": true } }),
            "deduplication.extend requires deduplication.ttl",
        ),
    ];
    let mut cases: Vec<Case> = adds
        .into_iter()
        .map(|(path, more, error)| at(path, case("bunqueue_add_cron", cron(&more), error, INVALID)))
        .collect();
    let big = json!({ "schedule": "@daily", "data": { "x": "x".repeat(10_485_760) } });
    cases.push(case(
        "bunqueue_add_cron",
        cron(&big),
        "Job data too large (max 10MB)",
        "too_large",
    ));
    cases.push(case(
        "bunqueue_get_cron",
        json!({ "name": "nope" }),
        "Cron not found",
        "not_found",
    ));
    cases
}

fn webhook_cases() -> Vec<Case> {
    let long = format!("https://example.com/{}", "a".repeat(2_048));
    let to = |what: &str| -> &'static str {
        Box::leak(format!("Webhook URL cannot point to {what}").into_boxed_str())
    };
    let urls = [
        ("", "Webhook URL is required"),
        ("nope", "Invalid URL format"),
        (long.as_str(), "Webhook URL too long (max 2048 characters)"),
        (
            "ftp://example.com/",
            "Webhook URL must use http or https protocol",
        ),
        ("http://localhost/", to("localhost")),
        ("http://127.9.9.9/", to("loopback IP")),
        ("http://192.168.1.1/", to("private IP")),
        ("http://[fd00::1]/", to("private (ULA) IP")),
        ("http://169.254.169.254/", to("link-local IP")),
        ("http://0.0.0.0/", to("unspecified IP")),
        (
            "http://metadata.google.internal/",
            to("cloud metadata endpoints"),
        ),
        ("http://224.0.0.1/", to("multicast IP")),
        (
            "https://ann:secret@example.com/",
            "Webhook URL cannot contain a user name or password",
        ),
    ];
    urls.into_iter()
        .map(|(url, error)| {
            let arguments = json!({ "url": url, "events": ["job.failed"] });
            at(
                "url",
                case("bunqueue_add_webhook", arguments, error, INVALID),
            )
        })
        .collect()
}

fn queue_cases() -> Vec<Case> {
    let error = "Queue name contains invalid characters";
    let webhook = json!({ "url": "https://example.com/", "events": [], "queue": "a b" });
    let calls = [
        ("bunqueue_get_dlq", json!({ "queue": "a b" })),
        ("bunqueue_get_dlq_stats", json!({ "queue": "a b" })),
        ("bunqueue_retry_dlq", json!({ "queue": "a b" })),
        ("bunqueue_purge_dlq", json!({ "queue": "a b" })),
        ("bunqueue_retry_completed", json!({ "queue": "a b" })),
        (
            "bunqueue_add_cron",
            cron(&json!({ "queue": "a b", "schedule": "@daily" })),
        ),
        (
            "bunqueue_set_rate_limit",
            json!({ "queue": "a b", "limit": 1 }),
        ),
        ("bunqueue_clear_rate_limit", json!({ "queue": "a b" })),
        (
            "bunqueue_set_concurrency",
            json!({ "queue": "a b", "limit": 1 }),
        ),
        ("bunqueue_clear_concurrency", json!({ "queue": "a b" })),
        ("bunqueue_get_queue_limits", json!({ "queue": "a b" })),
        ("bunqueue_add_webhook", webhook),
    ];
    calls
        .into_iter()
        .map(|(tool, arguments)| at("queue", case(tool, arguments, error, INVALID)))
        .collect()
}

fn page_cases() -> Vec<Case> {
    let calls = [
        (
            json!({ "queue": "email", "cursor": "x", "offset": 0 }),
            "cursor and offset cannot be combined",
        ),
        (
            json!({ "queue": "email", "cursor": "x" }),
            "cursor does not belong to this listing",
        ),
    ];
    calls
        .into_iter()
        .map(|(arguments, error)| {
            at(
                "cursor",
                case("bunqueue_get_dlq", arguments, error, INVALID),
            )
        })
        .collect()
}

fn worker_cases() -> Vec<Case> {
    let name = json!({ "name": "w".repeat(1_025), "queues": ["email"] });
    let queues = json!({ "name": "w", "queues": vec!["q"; 10_001] });
    vec![
        at(
            "name",
            case(
                "bunqueue_register_worker",
                name,
                "name must be at most 1024 characters",
                INVALID,
            ),
        ),
        at(
            "queues",
            case(
                "bunqueue_register_worker",
                queues,
                "queues must have at most 10000 entries",
                INVALID,
            ),
        ),
    ]
}

/// What a broker elsewhere may answer that is none: the fault, a call that meets it, the text.
pub(super) fn replies() -> [(ReplyFault, &'static str, &'static str); 4] {
    [
        (
            ReplyFault::DlqEntry,
            "bunqueue_get_dlq",
            "Invalid DLQ entry returned by the backend",
        ),
        (
            ReplyFault::DlqAttempt,
            "bunqueue_get_dlq",
            "Invalid DLQ attempt record returned by the backend",
        ),
        (
            ReplyFault::DlqStats,
            "bunqueue_get_dlq_stats",
            "Invalid DLQ stats returned by the backend",
        ),
        (
            ReplyFault::QueueLimits,
            "bunqueue_get_queue_limits",
            "Invalid queue limits returned by the backend",
        ),
    ]
}

/// A broker elsewhere that answers every command with what is no answer.
pub(super) struct Elsewhere {
    broker: Arc<dyn Broker>,
    fault: ReplyFault,
}

impl Elsewhere {
    pub(super) fn new(fault: ReplyFault) -> Self {
        let broker = example::world();
        Self { broker, fault }
    }
}

impl Broker for Elsewhere {
    fn submit(
        &self,
        caller: Option<ConnectionId>,
        commands: &mut Vec<Command>,
        answers: &mut Vec<Submitted>,
    ) -> Option<Storing> {
        answers.extend(
            commands
                .drain(..)
                .map(|command| self.submit_one(caller, command)),
        );
        None
    }

    fn submit_one(&self, _: Option<ConnectionId>, _: Command) -> Submitted {
        Submitted::Done(Err(CommandError::Reply(self.fault)))
    }

    fn connect(&self) -> ConnectionId {
        self.broker.connect()
    }

    fn connections(&self) -> usize {
        self.broker.connections()
    }

    fn disconnect(&self, connection: ConnectionId) {
        self.broker.disconnect(connection);
    }

    fn give_back(&self, deliveries: &[Delivery]) {
        self.broker.give_back(deliveries);
    }

    fn now(&self) -> Millis {
        self.broker.now()
    }

    fn subscribe(&self, filter: EventFilter) -> Subscription {
        self.broker.subscribe(filter)
    }

    fn announce(&self, notice: EventKind) -> bool {
        self.broker.announce(notice)
    }

    fn stop_deliveries(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.broker.stop_deliveries()
    }

    fn shut_down(&self) {
        self.broker.shut_down();
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.broker.close()
    }
}
