//! The tools around the jobs: dead letters, schedules, limits, workers, webhooks.

use serde_json::{Value, json};

use super::{Case, World, with, with_a_job};

/// The tools of the toolset `dlq`.
pub(super) const DLQ: [Case; 5] = [
    Case {
        tool: "bunqueue_get_dlq",
        prepare: |world| {
            let options = json!({ "limit": 5, "offset": 0, "reason": "max_attempts_exceeded" });
            with(with_a_dead_letter(world), options)
        },
    },
    Case {
        tool: "bunqueue_get_dlq_stats",
        prepare: with_a_dead_letter,
    },
    Case {
        tool: "bunqueue_retry_dlq",
        prepare: |world| with(with_a_dead_letter(world), world.job_argument()),
    },
    Case {
        tool: "bunqueue_purge_dlq",
        prepare: |world| with(with_a_dead_letter(world), json!({ "dryRun": false })),
    },
    Case {
        tool: "bunqueue_retry_completed",
        prepare: |world| {
            world.completed();
            json!({ "queue": world.queue, "jobId": world.job, "dryRun": false })
        },
    },
];

fn with_a_dead_letter(world: &mut World) -> Value {
    world.active();
    let fail = json!({ "jobId": world.job, "token": world.token, "unrecoverable": true });
    world.agent.ok("bunqueue_fail_job", &fail);
    world.queue_argument()
}

/// The tools of the toolset `cron`.
pub(super) const CRON: [Case; 4] = [
    Case {
        tool: "bunqueue_add_cron",
        prepare: |world| {
            with(
                world.cron(),
                json!({
                    "repeatEvery": 60_000, "jobName": "n", "priority": 2, "timezone": "Europe/Rome", "maxLimit": 3,
                    "immediately": true, "skipIfNoWorker": false, "preventOverlap": true, "skipMissedOnRestart": true,
                    "deduplication": { "id": world.key(), "ttl": 60_000, "extend": true, "replace": true },
                    "delay": 60_000, "attempts": 2, "backoff": { "type": "fixed", "delay": 5, "maxDelay": 10 },
                    "timeout": 5000, "removeOnComplete": true, "removeOnFail": true, "stallTimeout": 5000,
                }),
            )
        },
    },
    Case {
        tool: "bunqueue_list_crons",
        prepare: |_| json!({}),
    },
    Case {
        tool: "bunqueue_get_cron",
        prepare: with_a_cron,
    },
    Case {
        tool: "bunqueue_delete_cron",
        prepare: |world| with(with_a_cron(world), json!({ "dryRun": false })),
    },
];

fn with_a_cron(world: &mut World) -> Value {
    let cron = world.cron();
    world.agent.ok("bunqueue_add_cron", &cron);
    json!({ "name": cron["name"] })
}

/// The tools of the toolset `limits`.
pub(super) const LIMITS: [Case; 5] = [
    Case {
        tool: "bunqueue_set_rate_limit",
        prepare: |world| with(with_a_job(world), json!({ "limit": 5, "duration": 60_000 })),
    },
    Case {
        tool: "bunqueue_clear_rate_limit",
        prepare: with_limits,
    },
    Case {
        tool: "bunqueue_set_concurrency",
        prepare: |world| with(with_a_job(world), json!({ "limit": 5 })),
    },
    Case {
        tool: "bunqueue_clear_concurrency",
        prepare: with_limits,
    },
    Case {
        tool: "bunqueue_get_queue_limits",
        prepare: with_limits,
    },
];

fn with_limits(world: &mut World) -> Value {
    let limit = with(world.queue_argument(), json!({ "limit": 2 }));
    world.agent.ok("bunqueue_set_rate_limit", &limit);
    world.agent.ok("bunqueue_set_concurrency", &limit);
    world.queue_argument()
}

/// The tools of the toolset `workers`.
pub(super) const WORKERS: [Case; 7] = [
    Case {
        tool: "bunqueue_register_worker",
        prepare: |world| json!({ "name": "w", "queues": [world.queue] }),
    },
    Case {
        tool: "bunqueue_unregister_worker",
        prepare: with_a_worker,
    },
    Case {
        tool: "bunqueue_worker_heartbeat",
        prepare: with_a_worker,
    },
    Case {
        tool: "bunqueue_list_workers",
        prepare: |_| json!({}),
    },
    Case {
        tool: "bunqueue_register_handler",
        prepare: |world| {
            json!({
                "queue": world.queue, "url": "http://127.0.0.1:9/x", "method": "POST", "headers": { "x-y": "z" },
                "body": { "a": 1 }, "timeoutMs": 1_000,
            })
        },
    },
    Case {
        tool: "bunqueue_unregister_handler",
        prepare: |world| json!({ "queue": world.queue }),
    },
    Case {
        tool: "bunqueue_list_handlers",
        prepare: |_| json!({}),
    },
];

fn with_a_worker(world: &mut World) -> Value {
    let worker = json!({ "name": "w", "queues": [world.queue] });
    let registered = world.agent.ok("bunqueue_register_worker", &worker);
    json!({ "workerId": registered["worker"]["id"] })
}

/// The tools of the toolset `webhooks`.
pub(super) const WEBHOOKS: [Case; 4] = [
    Case {
        tool: "bunqueue_add_webhook",
        prepare: |world| json!({ "url": "https://hooks.example.com/", "events": ["job.failed"], "queue": world.queue }),
    },
    Case {
        tool: "bunqueue_remove_webhook",
        prepare: |world| with(with_a_webhook(world), json!({ "dryRun": false })),
    },
    Case {
        tool: "bunqueue_list_webhooks",
        prepare: |_| json!({}),
    },
    Case {
        tool: "bunqueue_set_webhook_enabled",
        prepare: |world| with(with_a_webhook(world), json!({ "enabled": false })),
    },
];

fn with_a_webhook(world: &mut World) -> Value {
    let webhook =
        json!({ "url": "https://hooks.example.com/", "events": [], "queue": world.queue });
    let added = world.agent.ok("bunqueue_add_webhook", &webhook);
    json!({ "id": added["id"] })
}
