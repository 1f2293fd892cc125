//! The reference of limits: every bound and default, read from the constants that the program itself uses.

use crate::broker::{
    ALL_CALL_BYTES_MAX, ANSWER_MAX, BACKLOG_BYTES_MAX, BACKLOG_MAX, CALL_BYTES_MAX, CALLS_MAX,
    IN_FLIGHT_MAX, READ_BYTES_MAX, UNSAVED_MAX, WAITS_PER_CONNECTION,
};
use crate::command::bounds;
use crate::config::{Key, Setting};
use crate::engine::{
    ATTEMPT_RECORDS_MAX, BACKOFF_MAX, Backoff, CALLS_DUE_MAX, COMPACTION_PERIOD, CRONS_MAX, Config,
    DISCARDED_TOKENS_MAX, FORGET_AFTER_TIMEOUTS, HEALTH_JOBS_MAX, JobOptions, LOG_LINES_MAX,
    LOST_IN_A_ROW_MAX, NOTICE_PERIOD, PATTERN_MAX, PULL_BYTES_MAX, TIES_BYTES_MAX, TIMELINE_MAX,
    TOLD_ERROR_MAX, WEBHOOKS_MAX, WORKER_BYTES_MAX, WORKERS_MAX,
};
use crate::mcp::http::{HttpConfig, PATIENCE};
use crate::mcp::stdio;
use crate::net::HANDSHAKE_MAX;
use crate::webhooks;

/// What is bounded, by what, in which unit.
type Row = (&'static str, i128, &'static str);

/// The page.
pub(super) fn page() -> String {
    let sections = [
        ("Names and values", names_and_values()),
        ("Calls and waits", calls_and_waits()),
        ("Deliveries and retries", deliveries()),
        ("What is kept", retention()),
        ("Webhooks", webhooks()),
        ("Connections", connections()),
        ("Another server as the broker", remote()),
    ];
    let mut text = String::from(
        "# Limits\n\nBounds and defaults of this version, for both doors. A tool may take less than its bound here; its own bounds stand \
        with its arguments in [the tools](../tools/README.md). What a setting can change is in [Environment](environment.md).\n",
    );
    text.push_str(&format!(
        "\nA job that is added over the worker door without a name is called `{}`.\n",
        bounds::JOB_NAME_DEFAULT
    ));
    text.push_str(
        "\nA rate limit or a cap of active jobs of 0, or less, stops its queue: nothing is handed out until it is raised, cleared, \
        or over (`ttl`). The commands `RateLimit` and `SetConcurrency` accept it; `GetQueueLimits` shows it. To stop a queue on \
        purpose, pause it: that shows in its counts. A group takes no limit below 1.\n",
    );
    for (title, rows) in sections {
        text.push_str(&format!(
            "\n## {title}\n\n| what | value | unit |\n| --- | --- | --- |\n"
        ));
        for (what, value, unit) in rows {
            text.push_str(&format!("| {what} | {} | {unit} |\n", grouped(value)));
        }
    }
    text
}

/// The default of a setting that is a number.
fn default_of(key: Key) -> i128 {
    let default = Setting::of(key).map(|setting| setting.default.parse());
    default.and_then(Result::ok).unwrap_or_default()
}

fn names_and_values() -> Vec<Row> {
    vec![
        (
            "queue name, from 1 to",
            count(bounds::QUEUE_NAME_MAX),
            "characters",
        ),
        (
            "job name, from 1 to",
            count(bounds::JOB_NAME_MAX),
            "characters (UTF-16)",
        ),
        (
            "id of a group, from 1 to",
            count(bounds::GROUP_ID_MAX),
            "characters (UTF-16)",
        ),
        (
            "priority of a job in a group, from 0 to",
            bounds::GROUP_PRIORITY_MAX.into(),
            "",
        ),
        (
            "name of a cron, from 1 to",
            count(bounds::CRON_NAME_MAX),
            "characters (UTF-16)",
        ),
        ("crons, up to", count(CRONS_MAX), "crons"),
        ("cron pattern, up to", count(PATTERN_MAX), "characters"),
        (
            "job data, written as JSON, up to",
            count(bounds::JOB_DATA_MAX),
            "characters",
        ),
        (
            "job data, as MessagePack, up to",
            count(bounds::JOB_DATA_BYTES_MAX),
            "bytes",
        ),
        (
            "an id or a key that is chosen for a job, up to",
            count(bounds::JOB_ID_MAX),
            "characters (UTF-16)",
        ),
        (
            "id, name and host of a worker, up to",
            count(bounds::WORKER_TEXT_MAX),
            "characters (UTF-16)",
        ),
        (
            "all tags of a job together, all queue names of a worker together, up to",
            count(bounds::LABEL_BYTES_MAX),
            "bytes",
        ),
        (
            "ids of the jobs that a job depends on and of its children, up to",
            count(TIES_BYTES_MAX),
            "bytes",
        ),
        (
            "nesting of job data, up to",
            count(bounds::FRAME_DEPTH_MAX),
            "levels",
        ),
        (
            "`attempts` without a value",
            bounds::ATTEMPTS_DEFAULT.into(),
            "attempts",
        ),
        (
            "`attempts`, more counts as",
            bounds::ATTEMPTS_MAX.into(),
            "attempts",
        ),
        (
            "times and delays, ahead or back, up to",
            whole(bounds::TIME_MAX),
            "ms",
        ),
        (
            "`maxDelay` of a backoff, up to",
            bounds::BACKOFF_CAP_MAX.into(),
            "ms",
        ),
    ]
}

fn calls_and_waits() -> Vec<Row> {
    vec![
        (
            "jobs of one pull, up to",
            bounds::PULL_COUNT_MAX.into(),
            "jobs",
        ),
        ("wait of a pull, up to", bounds::PULL_WAIT_MAX.into(), "ms"),
        ("wait for a job, up to", bounds::JOB_WAIT_MAX.into(), "ms"),
        (
            "wait for a job without a value",
            bounds::JOB_WAIT_DEFAULT.into(),
            "ms",
        ),
        (
            "jobs of a listing without a value",
            count(bounds::LISTING_DEFAULT),
            "jobs",
        ),
        (
            "jobs of each state on the page of a queue without a value",
            count(bounds::PREVIEWS_DEFAULT),
            "jobs",
        ),
        (
            "jobs of each state on the page of a queue, up to",
            count(bounds::PREVIEWS_MAX),
            "jobs",
        ),
        (
            "minute of metrics, events kept by a trim, up to",
            whole(bounds::SAFE_INTEGER_MAX),
            "minutes, events",
        ),
        (
            "jobs removed by one clean without a value, of each state",
            count(bounds::CLEAN_DEFAULT),
            "jobs",
        ),
        (
            "entries of one batch, up to",
            count(bounds::BATCH_MAX),
            "entries",
        ),
        (
            "jobs of one flow, up to",
            count(bounds::FLOW_JOBS_MAX),
            "jobs",
        ),
        (
            "levels of one flow, up to",
            count(bounds::FLOW_DEPTH_MAX),
            "levels",
        ),
        (
            "data of one flow, as JSON text, up to",
            count(bounds::FLOW_DATA_MAX),
            "UTF-16 units",
        ),
        (
            "id of a job in a flow, up to",
            count(bounds::FLOW_ID_MAX),
            "UTF-16 units",
        ),
        (
            "tag of a job in a flow, up to",
            count(bounds::FLOW_TAG_MAX),
            "UTF-16 units",
        ),
        (
            "tags of a job, queues of a worker, up to",
            count(bounds::LABELS_MAX),
            "entries",
        ),
        (
            "jobs of one listing, up to",
            count(bounds::LISTING_MAX),
            "jobs",
        ),
        (
            "data of an update, up to",
            count(bounds::UPDATE_MAX),
            "bytes",
        ),
        (
            "an error, a stack line, a progress message or a log line; longer ones are cut at",
            count(bounds::TEXT_MAX),
            "bytes",
        ),
        (
            "level of a log line; a longer one is cut at",
            count(bounds::LOG_LEVEL_MAX),
            "bytes",
        ),
        (
            "error of a child that the error of its parent repeats; of a longer one the middle is left out",
            count(TOLD_ERROR_MAX),
            "bytes",
        ),
        (
            "data, ids and texts of one pull, its first job aside, up to",
            count(PULL_BYTES_MAX),
            "bytes",
        ),
        (
            "names in `eventTypes` of a subscription, up to",
            count(bounds::EVENT_TYPES_MAX),
            "names",
        ),
    ]
}

fn deliveries() -> Vec<Row> {
    let config = Config::default();
    vec![
        (
            "lifetime of a lock without a value",
            whole(bounds::LOCK_TTL_DEFAULT),
            "ms",
        ),
        (
            "time of a rate limit without a value",
            bounds::RATE_DURATION_DEFAULT.into(),
            "ms",
        ),
        (
            "silence that counts as a stall, without `stallTimeout`",
            config.stall_interval.into(),
            "ms",
        ),
        (
            "time from noticing a silence to acting on it",
            config.stall_check.into(),
            "ms",
        ),
        (
            "first part of a delivery in which nothing counts as a stall",
            config.stall_grace.into(),
            "ms",
        ),
        (
            "stalls and lost locks after which a job has failed for good",
            config.stalls_max.into(),
            "stalls",
        ),
        (
            "connections lost in a row with the job, after which it has failed for good",
            LOST_IN_A_ROW_MAX.into(),
            "deliveries",
        ),
        (
            "base of the backoff without a value",
            whole(Backoff::default().delay),
            "ms",
        ),
        (
            "wait before a retry, without `maxDelay`, up to",
            whole(BACKOFF_MAX),
            "ms",
        ),
    ]
}

fn retention() -> Vec<Row> {
    let config = Config::default();
    let forgotten = config.worker_timeout.saturating_mul(FORGET_AFTER_TIMEOUTS);
    vec![
        (
            "completed jobs in memory, all queues together",
            count(config.completed_max),
            "jobs, the newest; those that an unfinished job depends on go last. With a data file the others stay there, and are read from it",
        ),
        (
            "completed jobs in a data file, all queues together",
            default_of(Key::StoredCompletedMax),
            "jobs, the newest; those that an unfinished job depends on go last",
        ),
        (
            "results",
            count(config.results_max),
            "results, the last used; those that an unfinished job needs go last. With a data file all results of the jobs that are kept",
        ),
        (
            "ids of completed jobs that were deleted, for later dependents",
            count(config.proofs_max),
            "ids, the newest",
        ),
        (
            "failed jobs of a queue",
            count(config.dlq_max),
            "jobs, the newest",
        ),
        ("age of a failed job", config.dlq_age.into(), "ms"),
        (
            "log lines of a job",
            count(LOG_LINES_MAX),
            "lines, the newest",
        ),
        (
            "jobs with a log",
            count(config.logged_jobs_max),
            "jobs, the last used",
        ),
        (
            "levels and messages of all logs, up to; beyond it whole logs go, the least recently used first",
            count(config.log_bytes_max),
            "bytes",
        ),
        (
            "entries in the timeline of a job",
            count(TIMELINE_MAX),
            "entries, the first",
        ),
        (
            "records of attempts of a job",
            count(ATTEMPT_RECORDS_MAX),
            "records, the newest",
        ),
        (
            "lines of a stack that are looked at",
            count(bounds::STACK_LINES_MAX),
            "lines",
        ),
        (
            "lines of a stack that are kept, without `stackTraceLimit`",
            whole(JobOptions::default().stack_trace_limit),
            "lines",
        ),
        ("registered workers, up to", count(WORKERS_MAX), "workers"),
        (
            "ids, names, hosts and queue names of all registered workers, up to",
            count(WORKER_BYTES_MAX),
            "bytes",
        ),
        (
            "silence after which a registered worker is stale",
            config.worker_timeout.into(),
            "ms",
        ),
        (
            "silence after which a registered worker is forgotten",
            forgotten.into(),
            "ms",
        ),
        (
            "time between two looks for what subscribers are told of queues and workers",
            NOTICE_PERIOD.into(),
            "ms",
        ),
        (
            "time from one compaction of memory on demand to the next",
            COMPACTION_PERIOD.into(),
            "ms",
        ),
        (
            "jobs of one kind that a diagnosis of a queue looks at",
            count(HEALTH_JOBS_MAX),
            "jobs",
        ),
        (
            "tokens of cron jobs that were deleted with their lost worker",
            count(DISCARDED_TOKENS_MAX),
            "tokens, the newest",
        ),
        (
            "queues that are paused, limited or configured, up to",
            count(config.settings_max),
            "queues",
        ),
        (
            "groups that are paused, throttled or limited, all queues together, up to",
            count(config.settings_max),
            "groups",
        ),
        ("name of an empty queue", config.queue_idle.into(), "ms"),
        (
            "queues whose totals are kept when nothing else is left of them",
            count(config.forgotten_max),
            "queues, the last forgotten",
        ),
        (
            "events in the journal of a queue",
            count(config.journal_max),
            "events, the newest",
        ),
        (
            "jobs that ended, counted by the minute",
            config.metric_minutes.into(),
            "minutes",
        ),
        (
            "such counts above zero, all queues together",
            count(config.metric_points_max),
            "counts, the newest",
        ),
        (
            "changes that wait for a failing disk at the level `buffered`, a batch aside; with more, jobs are refused",
            count(UNSAVED_MAX),
            "changes",
        ),
    ]
}

fn remote() -> Vec<Row> {
    vec![
        (
            "answer to a command, beyond what it may wait",
            ANSWER_MAX.as_millis() as i128,
            "ms",
        ),
        (
            "requests under way on one connection",
            count(IN_FLIGHT_MAX),
            "requests",
        ),
        (
            "waits for each connection of the pool, others wait for their turn",
            count(WAITS_PER_CONNECTION),
            "waits",
        ),
    ]
}

fn webhooks() -> Vec<Row> {
    vec![
        ("webhooks, up to", count(WEBHOOKS_MAX), "webhooks"),
        (
            "URL of a webhook, up to",
            count(bounds::WEBHOOK_URL_MAX),
            "characters (UTF-16)",
        ),
        (
            "secret of a webhook, up to",
            count(bounds::WEBHOOK_SECRET_MAX),
            "characters (UTF-16)",
        ),
        (
            "time of one attempt to call it",
            webhooks::ATTEMPT_TIME.as_millis() as i128,
            "ms",
        ),
        (
            "calls of one webhook in progress at the same time",
            count(webhooks::CONCURRENT_MAX),
            "calls",
        ),
        (
            "calls of one webhook in progress or waiting, more count as failed",
            count(CALLS_MAX),
            "calls",
        ),
        (
            "data and texts in these calls, a single larger one aside",
            count(CALL_BYTES_MAX),
            "bytes",
        ),
        (
            "data and texts in the calls of all webhooks",
            count(ALL_CALL_BYTES_MAX),
            "bytes",
        ),
        (
            "calls that one batch of commands makes, more count as failed",
            count(CALLS_DUE_MAX),
            "calls",
        ),
        (
            "data in the body of a call, as JSON; larger data is left out",
            count(webhooks::DATA_MAX),
            "bytes",
        ),
        (
            "answer of a receiver that is read, up to",
            count(webhooks::ANSWER_BYTES_MAX),
            "bytes",
        ),
    ]
}

fn connections() -> Vec<Row> {
    let http = HttpConfig::new("", 0);
    vec![
        (
            "frame of the worker protocol, up to",
            count(bounds::FRAME_MAX),
            "bytes",
        ),
        (
            "frame of a client that has yet to send its token, read up to",
            count(bounds::AUTH_FRAME_MAX),
            "bytes",
        ),
        (
            "nesting of a frame, up to",
            count(bounds::FRAME_DEPTH_MAX),
            "levels",
        ),
        (
            "events that a subscriber may be behind by",
            count(BACKLOG_MAX),
            "events",
        ),
        (
            "payloads of events that a subscriber may be behind by, each counted twice",
            count(BACKLOG_BYTES_MAX),
            "bytes",
        ),
        (
            "data, results and the rest of completed jobs that are read from the data file at a time, by all who ask; a larger reading takes place alone",
            count(READ_BYTES_MAX),
            "bytes",
        ),
        ("line on stdio, up to", count(stdio::LINE_MAX), "bytes"),
        (
            "body of an HTTP request, up to",
            count(http.max_body),
            "bytes",
        ),
        (
            "head of an HTTP request, and a halt within its body, up to",
            PATIENCE.as_millis() as i128,
            "ms",
        ),
        (
            "TLS handshake, up to",
            HANDSHAKE_MAX.as_millis() as i128,
            "ms",
        ),
    ]
}

fn count(value: usize) -> i128 {
    value as i128
}

fn whole(value: f64) -> i128 {
    value as i128
}

/// The digits in groups of three.
fn grouped(value: i128) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_groups() {
        let texts = [7, 100, 1_000, 65_536, 4_320_000_000_000_000].map(grouped);
        assert_eq!(
            texts,
            ["7", "100", "1,000", "65,536", "4,320,000,000,000,000"]
        );
    }
}
