//! A job on the wire (tcp protocol section 6.1).
//!
//! Most jobs have no options, and their options take half of the bytes; these are written once and
//! copied from then on.

use std::sync::LazyLock;

use crate::command::payload::Writer;
use crate::engine::{
    BackoffKind, JobDetail, JobId, JobLinks, JobOptions, JobView, Repeat, RepeatTiming,
    TimelineEntry,
};

use super::Entries;

/// Keys that every job has, those of its options included; `data` comes on top when there is any.
const KEYS: usize = 21 + OPTION_KEYS;
/// Keys that come from the options and from ties to other jobs.
const OPTION_KEYS: usize = 25;

/// Appends a job as deliveries show it.
pub(super) fn write(out: &mut Vec<u8>, job: &JobView) {
    begin(out, job, 0);
}

/// Appends a job with its result and the reason of its failure, as far as it has them; with its state
/// under the given name, if any.
pub(super) fn write_detail(out: &mut Vec<u8>, detail: &JobDetail, state: Option<&str>) {
    let reason = detail.job.failed_reason();
    let more = [state.is_some(), detail.result.is_some(), reason.is_some()];
    begin(out, &detail.job, more.into_iter().map(usize::from).sum());
    let mut map = Entries::new(out);
    if let Some(state) = state {
        map.text("state", state);
    }
    if let Some(result) = &detail.result {
        map.raw("returnvalue", result.bytes());
    }
    if let Some(reason) = reason {
        map.text("failedReason", reason);
    }
}

fn begin(out: &mut Vec<u8>, job: &JobView, more: usize) {
    let mut map = Entries::new(out);
    map.header(KEYS + usize::from(job.data.is_some()) + more);
    job.id.with_text(|id| {
        map.text("id", id);
        let blank = job.options.blank_custom_id.then_some("");
        map.text_or_nil("customId", if job.has_custom_id { Some(id) } else { blank });
    });
    map.text("queue", &job.queue);
    map.text("name", &job.name);
    if let Some(data) = &job.data {
        map.raw("data", data.bytes());
    }
    map.number("priority", job.priority);
    map.time("createdAt", job.created_at);
    map.time("runAt", job.run_at);
    map.time_or_nil("startedAt", job.started_at);
    map.time_or_nil("completedAt", job.completed_at);
    map.time("lastHeartbeat", job.last_heartbeat);
    map.time("attempts", job.attempts.into());
    map.time("maxAttempts", job.max_attempts.into());
    map.time("stallCount", job.stall_count.into());
    map.number("progress", job.progress);
    map.text_or_nil("progressMessage", job.progress_message.as_deref());
    match &job.stacktrace {
        Some(lines) => map.texts("stacktrace", lines),
        None => map.nil("stacktrace"),
    }
    map.bool("lifo", job.lifo);
    map.bool("removeOnComplete", job.remove_on_complete);
    map.bool("removeOnFail", job.remove_on_fail);
    map.bool("durable", job.durable);
    timeline(&mut map, &job.timeline);
    let defaults = &*DEFAULTS;
    if *job.options == defaults.options && job.links.is_none() {
        Writer::new(map.out()).raw(&defaults.bytes);
    } else {
        let alone = JobLinks::default();
        options(
            &mut map,
            &job.options,
            job.links.as_deref().unwrap_or(&alone),
        );
    }
}

fn timeline(map: &mut Entries<'_>, entries: &[TimelineEntry]) {
    map.key("timeline").array(entries.len());
    for entry in entries {
        let optional = [entry.error.is_some(), entry.attempt.is_some()];
        map.header(2 + optional.into_iter().map(usize::from).sum::<usize>());
        map.text("state", entry.state.name());
        map.time("timestamp", entry.at);
        if let Some(error) = &entry.error {
            map.text("error", error);
        }
        if let Some(attempt) = entry.attempt {
            map.time("attempt", attempt.into());
        }
    }
}

struct Defaults {
    options: JobOptions,
    bytes: Vec<u8>,
}

static DEFAULTS: LazyLock<Defaults> = LazyLock::new(|| {
    let default = JobOptions::default();
    let mut bytes = Vec::new();
    options(
        &mut Entries::new(&mut bytes),
        &default,
        &JobLinks::default(),
    );
    Defaults {
        options: default,
        bytes,
    }
});

fn options(map: &mut Entries<'_>, options: &JobOptions, links: &JobLinks) {
    backoff(map, options);
    map.number_or_nil("ttl", options.ttl);
    map.number_or_nil("timeout", options.timeout);
    map.number_or_nil("stallTimeout", options.stall_timeout);
    map.text_or_nil("uniqueKey", options.unique_key.as_deref());
    let parent = links.parent.as_ref().map(|parent| parent.id.text());
    map.text_or_nil(
        "parentId",
        parent.as_deref().or(options.parent_id.as_deref()),
    );
    map.text_or_nil("groupId", options.group_id.as_deref());
    let texts = |ids: &[JobId]| {
        ids.iter()
            .map(|id| id.text().into_owned())
            .collect::<Vec<_>>()
    };
    map.texts("dependsOn", &texts(&links.depends_on));
    map.texts("childrenIds", &texts(&links.children));
    map.time("childrenCompleted", 0);
    map.texts("tags", &options.tags);
    match &options.repeat {
        Some(repeat) => write_repeat(map, repeat),
        None => map.nil("repeat"),
    }
    map.number("stackTraceLimit", options.stack_trace_limit);
    map.number_or_nil("keepLogs", options.keep_logs);
    map.number_or_nil("sizeLimit", options.size_limit);
    map.bool("failParentOnFailure", options.fail_parent_on_failure);
    map.bool(
        "removeDependencyOnFailure",
        options.remove_dependency_on_failure,
    );
    map.bool(
        "continueParentOnFailure",
        options.continue_parent_on_failure,
    );
    map.bool(
        "ignoreDependencyOnFailure",
        options.ignore_dependency_on_failure,
    );
    map.number_or_nil("deduplicationTtl", options.dedup.ttl);
    map.bool("deduplicationExtend", options.dedup.extend);
    map.bool("deduplicationReplace", options.dedup.replace);
    map.text_or_nil("debounceId", options.debounce_id.as_deref());
    map.number_or_nil("debounceTtl", options.debounce_ttl);
}

/// What is not set is left out.
fn write_repeat(map: &mut Entries<'_>, repeat: &Repeat) {
    let (every, pattern) = match &repeat.timing {
        RepeatTiming::Every(every) => (Some(*every), None),
        RepeatTiming::Pattern(schedule) => (None, Some(schedule.text())),
    };
    let numbers = [
        ("every", every),
        ("limit", repeat.limit),
        ("count", Some(repeat.count)),
        ("startDate", repeat.start_date),
        ("endDate", repeat.end_date),
        ("prevMillis", repeat.prev_millis),
        ("offset", repeat.offset),
    ];
    let texts = [
        ("pattern", pattern),
        ("tz", repeat.tz.as_ref()),
        ("jobId", repeat.job_id.as_ref()),
    ];
    let numbers = || {
        numbers
            .iter()
            .filter_map(|(key, value)| Some((*key, (*value)?)))
    };
    let texts = || {
        texts
            .iter()
            .filter_map(|(key, value)| Some((*key, (*value)?)))
    };
    let flag = repeat.immediately;
    map.nested(
        "repeat",
        numbers().count() + texts().count() + usize::from(flag.is_some()),
    );
    for (key, value) in numbers() {
        map.number(key, value);
    }
    for (key, value) in texts() {
        map.text(key, value);
    }
    if let Some(flag) = flag {
        map.bool("immediately", flag);
    }
}

fn backoff(map: &mut Entries<'_>, options: &JobOptions) {
    let backoff = &options.backoff;
    map.number("backoff", backoff.delay);
    let kind = match backoff.kind {
        BackoffKind::Plain => return map.nil("backoffConfig"),
        BackoffKind::Fixed => "fixed",
        BackoffKind::Exponential => "exponential",
    };
    map.nested(
        "backoffConfig",
        2 + usize::from(backoff.max_delay.is_some()),
    );
    map.text("type", kind);
    map.number("delay", backoff.delay);
    if let Some(max_delay) = backoff.max_delay {
        map.number("maxDelay", max_delay);
    }
}
