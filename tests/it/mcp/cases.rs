//! One valid call of every tool, with as many arguments as go together, and a look at what it did.
//!
//! The argument tests vary these calls and compare results and effects. Each call has a world of its own: a queue, a
//! job and a key whose names hold a number that occurs nowhere else, so that many worlds live in one process.

mod around;

use serde_json::{Value, json};

use super::stdio::{Agent, Outcome};

/// A tool, and how its world is made; returns the arguments.
pub struct Case {
    pub tool: &'static str,
    pub prepare: fn(&mut World) -> Value,
}

/// Tools that look at all queues at once.
const WHOLE: [&str; 4] = [
    "bunqueue_get_stats",
    "bunqueue_get_per_queue_stats",
    "bunqueue_get_memory_stats",
    "bunqueue_get_prometheus_metrics",
];

/// Names of one call, and the client that makes its world.
pub struct World<'a> {
    pub agent: &'a mut Agent,
    name: String,
    pub queue: String,
    pub job: String,
    token: Value,
}

impl<'a> World<'a> {
    pub fn new(agent: &'a mut Agent, number: &mut usize) -> Self {
        *number += 1;
        let name = format!("world{number}x");
        Self {
            agent,
            queue: format!("{name}-queue"),
            job: format!("{name}-job"),
            token: Value::Null,
            name,
        }
    }

    fn add(&mut self, options: &Value) {
        let mut arguments =
            json!({ "queue": self.queue, "name": "n", "data": { "k": "5" }, "jobId": self.job });
        for (key, value) in options.as_object().unwrap() {
            arguments[key] = value.clone();
        }
        self.agent.ok("bunqueue_add_job", &arguments);
    }

    fn active(&mut self) {
        self.add(&json!({}));
        let pull = json!({ "queue": self.queue, "owner": "me", "lockTtl": 60_000 });
        self.token = self.agent.ok("bunqueue_pull_job", &pull)["job"]["token"].take();
    }

    fn completed(&mut self) {
        self.active();
        let ack = json!({ "jobId": self.job, "token": self.token, "result": { "r": 1 } });
        self.agent.ok("bunqueue_ack_job", &ack);
    }

    fn logged(&mut self) {
        self.add(&json!({}));
        for message in ["one", "two", "three"] {
            let log = json!({ "jobId": self.job, "message": message });
            self.agent.ok("bunqueue_add_job_log", &log);
        }
    }

    fn job_argument(&self) -> Value {
        json!({ "jobId": self.job })
    }

    fn queue_argument(&self) -> Value {
        json!({ "queue": self.queue })
    }

    fn key(&self) -> String {
        format!("{}-key", self.name)
    }

    /// A schedule that does not run while the tests do.
    fn cron(&self) -> Value {
        json!({ "name": format!("{}-cron", self.name), "queue": self.queue, "data": { "k": "5" }, "schedule": "0 0 29 2 *" })
    }

    /// Those items of a listing of everything that are of this queue.
    fn own(&mut self, tool: &str, list: &str) -> Value {
        let mut listed = self.agent.ok(tool, &json!({}));
        let items = listed[list].as_array_mut().unwrap();
        let queue = json!(self.queue);
        items.retain(|item| item["queue"] == queue || item["queues"] == json!([queue]));
        self.plain(listed[list].take())
    }

    /// The outcome of a call, the names of this world replaced.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> (bool, Value) {
        let Outcome {
            is_error, value, ..
        } = self.agent.call(tool, arguments);
        if !is_error && WHOLE.contains(&tool) {
            // Other worlds are in the figures: only that there are some is the same each time.
            return (is_error, json!(value.is_object()));
        }
        (is_error, self.plain(value))
    }

    /// What can be seen of this world.
    pub fn look(&mut self) -> Vec<Value> {
        let job = self.job_argument();
        let queue = self.queue_argument();
        let mut seen = vec![
            self.own("bunqueue_list_crons", "crons"),
            self.own("bunqueue_list_workers", "workers"),
            self.own("bunqueue_list_webhooks", "webhooks"),
        ];
        let own = [
            ("bunqueue_get_job", &job),
            ("bunqueue_get_progress", &job),
            ("bunqueue_get_job_logs", &job),
            ("bunqueue_get_job_result", &job),
            ("bunqueue_get_job_counts", &queue),
            ("bunqueue_is_paused", &queue),
            ("bunqueue_get_queue_limits", &queue),
            ("bunqueue_get_dlq_stats", &queue),
        ];
        seen.extend(own.map(|(tool, arguments)| self.call(tool, arguments).1));
        seen
    }

    /// A value without what differs from world to world: its number, times, tokens and ids that the server makes.
    /// Numbers compare by value.
    fn plain(&self, value: Value) -> Value {
        match value {
            Value::String(text) if is_time(&text) => json!("<time>"),
            Value::String(text) if is_made_id(&text) => json!("<id>"),
            Value::String(text) => json!(text.replace(&self.name, "world")),
            Value::Number(number) => json!(number.as_f64()),
            Value::Array(items) => items.into_iter().map(|item| self.plain(item)).collect(),
            Value::Object(entries) => entries
                .into_iter()
                .map(|(key, value)| {
                    let value = match key.as_str() {
                        "token" | "timestamp" | "waitedMs" | "lastHeartbeat"
                        | "oldestWaitingMs" | "oldestActiveMs" => json!("<own>"),
                        "attempts" if value.is_array() => json!(value.as_array().map(Vec::len)),
                        _ => self.plain(value),
                    };
                    (key.replace(&self.name, "world"), value)
                })
                .collect(),
            other => other,
        }
    }
}

fn is_time(text: &str) -> bool {
    text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T'
}

fn is_made_id(text: &str) -> bool {
    text.len() == 36 && text.split('-').count() == 5
}

/// Every option of a job, with values that are not the defaults.
fn job_options(world: &World) -> Value {
    json!({
        "name": "n",
        "data": { "k": "5", "list": [1, "2"] },
        "priority": 5,
        "delay": 60_000,
        "attempts": 7,
        "backoff": { "type": "fixed", "delay": 250, "maxDelay": 1000 },
        "timeout": 50_000,
        "jobId": world.job,
        "deduplication": {
            "id": world.key(), "ttl": 60_000, "extend": true, "replace": false,
        },
        "removeOnComplete": true,
        "removeOnFail": true,
        "durable": true,
        "lifo": true,
        "tags": ["x", "y"],
        "stallTimeout": 45_000,
    })
}

/// Adds members to an object.
fn with(mut object: Value, members: Value) -> Value {
    let Value::Object(members) = members else {
        panic!("members are an object");
    };
    object.as_object_mut().unwrap().extend(members);
    object
}

/// A job of a flow with every option; `id` is its own.
fn flow_job(world: &World, id: &str) -> Value {
    json!({
        "name": "n",
        "queueName": world.queue,
        "data": { "k": "5" },
        "opts": {
            "priority": 3,
            "delay": 60_000,
            "attempts": 4,
            "backoff": { "type": "fixed", "delay": 250, "maxDelay": 1000 },
            "timeout": 9_000,
            "jobId": id,
            "removeOnComplete": true,
            "removeOnFail": true,
            "lifo": true,
            "stallTimeout": 45_000,
        },
    })
}

/// A tree of three levels, whose root is the job of the world.
fn flow_tree(world: &World) -> Value {
    let child = |name: &str| flow_job(world, &format!("{}-{name}", world.job));
    let below = with(child("child"), json!({ "children": [child("grandchild")] }));
    with(flow_job(world, &world.job), json!({ "children": [below] }))
}

/// The tools of the toolset `flows`.
const FLOWS: [Case; 5] = [
    Case {
        tool: "bunqueue_add_flow",
        prepare: |world| flow_tree(world),
    },
    Case {
        tool: "bunqueue_add_flow_chain",
        prepare: |world| {
            let first = flow_job(world, &world.job);
            json!({ "steps": [first, flow_job(world, &format!("{}-b", world.job))] })
        },
    },
    Case {
        tool: "bunqueue_add_flow_bulk_then",
        prepare: |world| {
            let one = flow_job(world, &format!("{}-a", world.job));
            json!({ "parallel": [one], "final": flow_job(world, &world.job) })
        },
    },
    Case {
        tool: "bunqueue_get_flow",
        prepare: |world| {
            let tree = flow_tree(world);
            world.agent.ok("bunqueue_add_flow", &tree);
            json!({ "jobId": world.job, "queueName": world.queue, "depth": 1, "maxChildren": 5 })
        },
    },
    Case {
        tool: "bunqueue_get_children_values",
        prepare: |world| json!({ "parentJobId": world.job }),
    },
];

/// The tools of the toolset `monitoring`.
const MONITORING: [Case; 9] = [
    Case {
        tool: "bunqueue_get_stats",
        prepare: |_| json!({}),
    },
    Case {
        tool: "bunqueue_get_queue_stats",
        prepare: |world| {
            world.add(&json!({}));
            world.queue_argument()
        },
    },
    Case {
        tool: "bunqueue_get_per_queue_stats",
        prepare: |_| json!({}),
    },
    Case {
        tool: "bunqueue_diagnose_queue",
        prepare: |world| {
            world.add(&json!({}));
            with(
                world.queue_argument(),
                json!({ "staleAfterMs": 5_000, "samples": 2 }),
            )
        },
    },
    Case {
        tool: "bunqueue_get_memory_stats",
        prepare: |_| json!({}),
    },
    Case {
        tool: "bunqueue_get_storage_status",
        prepare: |_| json!({}),
    },
    Case {
        tool: "bunqueue_get_prometheus_metrics",
        prepare: |_| json!({}),
    },
    Case {
        tool: "bunqueue_get_capabilities",
        prepare: |_| json!({}),
    },
    Case {
        tool: "bunqueue_compact_memory",
        prepare: |_| json!({}),
    },
];

/// The tools of the toolset `jobs`.
const JOBS: [Case; 13] = [
    Case {
        tool: "bunqueue_add_job",
        prepare: |world| with(world.queue_argument(), job_options(world)),
    },
    Case {
        tool: "bunqueue_add_jobs_bulk",
        prepare: |world| {
            with(
                world.queue_argument(),
                json!({ "jobs": [job_options(world)] }),
            )
        },
    },
    Case {
        tool: "bunqueue_get_job",
        prepare: |world| {
            world.add(&json!({ "tags": ["x"], "timeout": 9000 }));
            world.job_argument()
        },
    },
    Case {
        tool: "bunqueue_get_job_state",
        prepare: |world| {
            world.add(&json!({}));
            world.job_argument()
        },
    },
    Case {
        tool: "bunqueue_get_job_result",
        prepare: |world| {
            world.completed();
            world.job_argument()
        },
    },
    Case {
        tool: "bunqueue_get_job_by_custom_id",
        prepare: |world| {
            world.add(&json!({}));
            json!({ "customId": world.job })
        },
    },
    Case {
        tool: "bunqueue_wait_for_job",
        prepare: |world| {
            world.completed();
            with(world.job_argument(), json!({ "timeoutMs": 100 }))
        },
    },
    Case {
        tool: "bunqueue_observe_job",
        prepare: |world| {
            world.completed();
            with(
                world.job_argument(),
                json!({ "timeoutMs": 1, "maxResultBytes": 3 }),
            )
        },
    },
    Case {
        tool: "bunqueue_get_progress",
        prepare: |world| {
            world.active();
            world.job_argument()
        },
    },
    Case {
        tool: "bunqueue_update_progress",
        prepare: |world| {
            world.active();
            with(
                world.job_argument(),
                json!({ "progress": 50, "message": "half" }),
            )
        },
    },
    Case {
        tool: "bunqueue_get_job_logs",
        prepare: |world| {
            world.logged();
            world.job_argument()
        },
    },
    Case {
        tool: "bunqueue_add_job_log",
        prepare: |world| {
            world.logged();
            with(
                world.job_argument(),
                json!({ "message": "m", "level": "warn" }),
            )
        },
    },
    Case {
        tool: "bunqueue_clear_job_logs",
        prepare: |world| {
            world.logged();
            with(
                world.job_argument(),
                json!({ "keepLogs": 1, "dryRun": false }),
            )
        },
    },
];

/// The tools of the toolset `job-control`.
const JOB_CONTROL: [Case; 7] = [
    Case {
        tool: "bunqueue_cancel_job",
        prepare: |world| {
            world.add(&json!({}));
            with(world.job_argument(), json!({ "dryRun": false }))
        },
    },
    Case {
        tool: "bunqueue_discard_job",
        prepare: |world| {
            world.add(&json!({}));
            world.job_argument()
        },
    },
    Case {
        tool: "bunqueue_promote_job",
        prepare: |world| {
            world.add(&json!({ "delay": 60_000 }));
            world.job_argument()
        },
    },
    Case {
        tool: "bunqueue_update_job_data",
        prepare: |world| {
            world.add(&json!({}));
            with(world.job_argument(), json!({ "data": { "new": "7" } }))
        },
    },
    Case {
        tool: "bunqueue_change_job_priority",
        prepare: |world| {
            world.add(&json!({}));
            with(world.job_argument(), json!({ "priority": 9 }))
        },
    },
    Case {
        tool: "bunqueue_move_to_delayed",
        prepare: |world| {
            world.add(&json!({}));
            with(world.job_argument(), json!({ "delay": 60_000 }))
        },
    },
    Case {
        tool: "bunqueue_change_delay",
        prepare: |world| {
            world.add(&json!({ "delay": 5000 }));
            with(world.job_argument(), json!({ "delay": 60_000 }))
        },
    },
];

/// The tools of the toolset `processing`.
const PROCESSING: [Case; 8] = [
    Case {
        tool: "bunqueue_pull_job",
        prepare: |world| {
            world.add(&json!({}));
            let options = json!({ "timeoutMs": 5, "owner": "me", "lockTtl": 60_000 });
            with(world.queue_argument(), options)
        },
    },
    Case {
        tool: "bunqueue_pull_job_batch",
        prepare: |world| {
            world.add(&json!({}));
            let options = json!({ "count": 2, "timeoutMs": 5, "owner": "me", "lockTtl": 60_000 });
            with(world.queue_argument(), options)
        },
    },
    Case {
        tool: "bunqueue_ack_job",
        prepare: |world| {
            world.active();
            with(
                world.job_argument(),
                json!({ "result": { "r": "1" }, "token": world.token }),
            )
        },
    },
    Case {
        tool: "bunqueue_ack_job_batch",
        prepare: |world| {
            world.active();
            json!({ "jobIds": [world.job], "tokens": [world.token] })
        },
    },
    Case {
        tool: "bunqueue_fail_job",
        prepare: |world| {
            world.active();
            let options = json!({ "error": "no", "token": world.token, "unrecoverable": true });
            with(world.job_argument(), options)
        },
    },
    Case {
        tool: "bunqueue_job_heartbeat",
        prepare: |world| {
            world.active();
            with(world.job_argument(), json!({ "token": world.token }))
        },
    },
    Case {
        tool: "bunqueue_job_heartbeat_batch",
        prepare: |world| {
            world.active();
            json!({ "jobIds": [world.job], "tokens": [world.token] })
        },
    },
    Case {
        tool: "bunqueue_extend_lock",
        prepare: |world| {
            world.active();
            with(
                world.job_argument(),
                json!({ "token": world.token, "duration": 70_000 }),
            )
        },
    },
];

/// The tools of the toolset `queues`.
const QUEUES: [Case; 12] = [
    Case {
        tool: "bunqueue_list_queues",
        prepare: |_| json!({}),
    },
    Case {
        tool: "bunqueue_count_jobs",
        prepare: with_a_job,
    },
    Case {
        tool: "bunqueue_get_jobs",
        prepare: |world| {
            with(
                with_a_job(world),
                json!({ "state": "waiting", "start": 0, "end": 5 }),
            )
        },
    },
    Case {
        tool: "bunqueue_list_jobs_page",
        prepare: |world| {
            let options = json!({
                "state": "waiting", "limit": 5, "offset": 0, "fields": ["id", "data"], "maxDataBytes": 4,
            });
            with(with_a_job(world), options)
        },
    },
    Case {
        tool: "bunqueue_get_job_counts",
        prepare: with_a_job,
    },
    Case {
        tool: "bunqueue_get_counts_per_priority",
        prepare: with_a_job,
    },
    Case {
        tool: "bunqueue_is_paused",
        prepare: with_a_job,
    },
    Case {
        tool: "bunqueue_pause_queue",
        prepare: with_a_job,
    },
    Case {
        tool: "bunqueue_resume_queue",
        prepare: |world| {
            let queue = with_a_job(world);
            world.agent.ok("bunqueue_pause_queue", &queue);
            queue
        },
    },
    Case {
        tool: "bunqueue_drain_queue",
        prepare: |world| with(with_a_job(world), json!({ "dryRun": false })),
    },
    Case {
        tool: "bunqueue_clean_queue",
        prepare: |world| {
            world.completed();
            let options =
                json!({ "graceMs": 0, "state": "completed", "limit": 5, "dryRun": false });
            with(world.queue_argument(), options)
        },
    },
    Case {
        tool: "bunqueue_obliterate_queue",
        prepare: |world| with(with_a_job(world), json!({ "dryRun": false })),
    },
];

fn with_a_job(world: &mut World) -> Value {
    world.add(&json!({}));
    world.queue_argument()
}

/// Every tool of this version.
pub fn all() -> impl Iterator<Item = Case> {
    JOBS.into_iter()
        .chain(FLOWS)
        .chain(MONITORING)
        .chain(JOB_CONTROL)
        .chain(PROCESSING)
        .chain(QUEUES)
        .chain(around::DLQ)
        .chain(around::CRON)
        .chain(around::LIMITS)
        .chain(around::WORKERS)
        .chain(around::WEBHOOKS)
}
