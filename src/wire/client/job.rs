//! Jobs: as another server shows them, and as it is asked to add them (tcp protocol sections 6.1 and 8).

use std::sync::Arc;

use super::ask::{Ask, map};
use crate::command::flow::annotate;
use crate::command::payload;
use crate::engine::{
    Backoff, BackoffKind, Dedup, JobDetail, JobId, JobLinks, JobOptions, JobView, NewJob, Parent,
    Payload, Repeat, RepeatTiming, Schedule, State, TimelineEntry,
};
use crate::wire::fields::Fields;

/// A job with its result. Why it is in the dead-letter queue is not told here.
pub(super) fn detail(fields: &Fields<'_>) -> Option<JobDetail> {
    Some(JobDetail {
        job: view(fields, None)?,
        result: fields.raw("returnvalue").map(Payload::new),
        failure: None,
    })
}

/// A job; its state is `known`, or told with it, or the last that it entered.
pub(super) fn view(fields: &Fields<'_>, known: Option<State>) -> Option<JobView> {
    let id = fields.job_id("id")?;
    let timeline = fields.maps("timeline", entry).unwrap_or_default();
    let priority = fields.f64("priority").unwrap_or(0.0);
    let ready = if priority > 0.0 {
        State::Prioritized
    } else {
        State::Waiting
    };
    let told = || match fields.str("state") {
        // Ready jobs of a paused queue may be listed under this name.
        Some("paused") => Some(ready),
        name => name.and_then(State::from_name),
    };
    let entered = || timeline.last().map(|entry| entry.state);
    let state = known.or_else(told).or_else(entered).unwrap_or(ready);
    let created_at = fields.millis("createdAt")?;
    let custom_id = fields.str("customId");
    let data = fields.raw("data");
    Some(JobView {
        has_custom_id: custom_id.is_some_and(|id| !id.is_empty()),
        queue: fields.shared("queue")?,
        name: fields.shared("name").unwrap_or_else(|| "default".into()),
        data: data.map(Payload::new),
        state,
        priority,
        created_at,
        run_at: fields.millis("runAt").unwrap_or(created_at),
        started_at: fields.millis("startedAt"),
        completed_at: fields.millis("completedAt"),
        last_heartbeat: fields.millis("lastHeartbeat").unwrap_or(created_at),
        attempts: fields.u32("attempts").unwrap_or(0),
        max_attempts: fields.u32("maxAttempts").unwrap_or(1),
        stall_count: fields.u32("stallCount").unwrap_or(0),
        progress: fields.f64("progress").unwrap_or(0.0),
        progress_message: fields.shared("progressMessage"),
        stacktrace: fields
            .value("stacktrace")
            .map(|_| fields.shared_list("stacktrace")),
        lifo: fields.is_true("lifo"),
        remove_on_complete: fields.is_true("removeOnComplete"),
        remove_on_fail: fields.is_true("removeOnFail"),
        durable: fields.is_true("durable"),
        options: Arc::new(options(fields, custom_id == Some(""))),
        links: links(fields, data).map(Box::new),
        timeline,
        id,
    })
}

fn entry(fields: &Fields<'_>) -> Option<TimelineEntry> {
    Some(TimelineEntry {
        state: State::from_name(fields.str("state")?)?,
        at: fields.millis("timestamp")?,
        error: fields.shared("error"),
        attempt: fields.u32("attempt"),
    })
}

fn options(fields: &Fields<'_>, blank_custom_id: bool) -> JobOptions {
    let default = JobOptions::default();
    JobOptions {
        backoff: backoff(fields),
        ttl: fields.f64("ttl"),
        timeout: fields.f64("timeout"),
        stall_timeout: fields.f64("stallTimeout"),
        tags: fields.shared_list("tags"),
        unique_key: fields.shared("uniqueKey"),
        dedup: Dedup {
            ttl: fields.f64("deduplicationTtl"),
            extend: fields.is_true("deduplicationExtend"),
            replace: fields.is_true("deduplicationReplace"),
        },
        debounce_id: fields.shared("debounceId"),
        debounce_ttl: fields.f64("debounceTtl"),
        stack_trace_limit: fields
            .f64("stackTraceLimit")
            .unwrap_or(default.stack_trace_limit),
        keep_logs: fields.f64("keepLogs"),
        size_limit: fields.f64("sizeLimit"),
        group_id: fields.shared("groupId"),
        repeat: fields
            .inner("repeat")
            .as_ref()
            .and_then(repeat)
            .map(Box::new),
        parent_id: fields.shared("parentId"),
        blank_custom_id,
        fail_parent_on_failure: fields.is_true("failParentOnFailure"),
        continue_parent_on_failure: fields.is_true("continueParentOnFailure"),
        ignore_dependency_on_failure: fields.is_true("ignoreDependencyOnFailure"),
        remove_dependency_on_failure: fields.is_true("removeDependencyOnFailure"),
    }
}

fn backoff(fields: &Fields<'_>) -> Backoff {
    let config = fields.inner("backoffConfig");
    let kind = match config.as_ref().map(|config| config.str("type")) {
        None => BackoffKind::Plain,
        Some(Some("fixed")) => BackoffKind::Fixed,
        Some(_) => BackoffKind::Exponential,
    };
    let told = config.as_ref().and_then(|config| config.f64("delay"));
    Backoff {
        kind,
        delay: told
            .or_else(|| fields.f64("backoff"))
            .unwrap_or(Backoff::default().delay),
        max_delay: config.and_then(|config| config.f64("maxDelay")),
    }
}

fn repeat(fields: &Fields<'_>) -> Option<Repeat> {
    let tz = fields.shared("tz");
    let timing = match fields.str("pattern") {
        Some(pattern) => {
            RepeatTiming::Pattern(Arc::new(Schedule::read(pattern, tz.as_deref()).ok()?))
        }
        None => RepeatTiming::Every(fields.f64("every")?),
    };
    Some(Repeat {
        timing,
        limit: fields.f64("limit"),
        count: fields.f64("count").unwrap_or(0.0),
        start_date: fields.f64("startDate"),
        end_date: fields.f64("endDate"),
        immediately: fields.flag("immediately"),
        prev_millis: fields.f64("prevMillis"),
        offset: fields.f64("offset"),
        job_id: fields.shared("jobId"),
        tz,
    })
}

/// Its ties. The queue of a parent stands in the data alone.
fn links(fields: &Fields<'_>, data: Option<&[u8]>) -> Option<JobLinks> {
    let parent = fields.str("parentId").and_then(|id| {
        let data = data.filter(|data| payload::text_entry(data, "__parentId") == Some(id))?;
        Some(Parent {
            id: JobId::from_text(id),
            queue: payload::text_entry(data, "__parentQueue")?.into(),
        })
    });
    let links = JobLinks {
        parent,
        depends_on: fields.id_list("dependsOn"),
        children: fields.id_list("childrenIds"),
    };
    (links != JobLinks::default()).then_some(links)
}

/// Appends what makes a job to a request; `custom_id` is the key of an id that its client chose.
pub(super) fn input(ask: Ask, job: &NewJob, custom_id: &str) -> Ask {
    let default = NewJob::default();
    let links = job.links.as_deref();
    // A parent is found by what the data says of it.
    let tied = links
        .filter(|links| links.parent.is_some())
        .and_then(|links| annotate(links, job.data.as_ref()));
    let data = tied.as_ref().or(job.data.as_ref());
    let ask = ask
        .text("name", &job.name)
        .raw("data", data.map(Payload::bytes))
        .number_if("priority", Some(job.priority).filter(|is| *is != 0.0))
        .time_if("timestamp", job.timestamp)
        .flag("lifo", job.lifo)
        .flag("durable", job.durable)
        .count_if("groupMaxSize", job.group_max.map(|max| max as usize));
    let ask = match &job.custom_id {
        Some(id) => ask.id(custom_id, id),
        None => ask,
    };
    let ask = match links {
        Some(links) => {
            let parent = links.parent.as_ref().map(|parent| parent.id.text());
            ask.text_if("parentId", parent.as_deref())
                .ids("dependsOn", links.depends_on.iter())
                .ids("childrenIds", links.children.iter())
        }
        None => ask,
    };
    let ask = run_options(ask, job, &default);
    match job.options.as_deref() {
        Some(options) => rare(
            ask,
            options,
            links.is_some_and(|links| links.parent.is_some()),
        ),
        None => ask,
    }
}

/// Appends what a cron can give to its jobs, as any job can have it.
pub(super) fn run_options(ask: Ask, job: &NewJob, default: &NewJob) -> Ask {
    let ask = ask
        .time_if("delay", Some(job.delay).filter(|delay| *delay != 0))
        .number_if(
            "maxAttempts",
            Some(f64::from(job.max_attempts)).filter(|_| job.max_attempts != default.max_attempts),
        )
        .flag("removeOnComplete", job.remove_on_complete)
        .flag("removeOnFail", job.remove_on_fail);
    let Some(options) = job.options.as_deref() else {
        return ask;
    };
    let ask = ask
        .number_if("timeout", options.timeout)
        .number_if("stallTimeout", options.stall_timeout);
    let backoff = &options.backoff;
    let kind = match backoff.kind {
        BackoffKind::Plain if *backoff == Backoff::default() => return ask,
        BackoffKind::Plain => return ask.number("backoff", backoff.delay),
        BackoffKind::Fixed => "fixed",
        BackoffKind::Exponential => "exponential",
    };
    let config = map()
        .text("type", kind)
        .number("delay", backoff.delay)
        .number_if("maxDelay", backoff.max_delay);
    ask.map("backoff", &config)
}

/// The policy of a deduplication key, if it has any.
pub(super) fn dedup(ask: Ask, options: &JobOptions) -> Ask {
    let Dedup {
        ttl,
        extend,
        replace,
    } = options.dedup;
    let policy = map()
        .number_if("ttl", ttl)
        .flag("extend", extend)
        .flag("replace", replace);
    let policy = Some(&policy).filter(|policy| !policy.is_empty());
    ask.text_if("uniqueKey", options.unique_key.as_deref())
        .map_if("dedup", policy)
}

fn rare(ask: Ask, options: &JobOptions, is_child: bool) -> Ask {
    let default = JobOptions::default();
    let limit = Some(options.stack_trace_limit);
    let repeat = options.repeat.as_deref().map(repetition);
    dedup(ask, options)
        .number_if("ttl", options.ttl)
        .texts_if("tags", &options.tags)
        .text_if("debounceId", options.debounce_id.as_deref())
        .number_if("debounceTtl", options.debounce_ttl)
        .number_if(
            "stackTraceLimit",
            limit.filter(|limit| *limit != default.stack_trace_limit),
        )
        .number_if("keepLogs", options.keep_logs)
        .number_if("sizeLimit", options.size_limit)
        .text_if("groupId", options.group_id.as_deref())
        .map_if("repeat", repeat.as_ref())
        .text_if(
            "parentId",
            options.parent_id.as_deref().filter(|_| !is_child),
        )
        .flag("failParentOnFailure", options.fail_parent_on_failure)
        .flag(
            "continueParentOnFailure",
            options.continue_parent_on_failure,
        )
        .flag(
            "ignoreDependencyOnFailure",
            options.ignore_dependency_on_failure,
        )
        .flag(
            "removeDependencyOnFailure",
            options.remove_dependency_on_failure,
        )
}

fn repetition(repeat: &Repeat) -> Ask {
    let (every, pattern) = match &repeat.timing {
        RepeatTiming::Every(every) => (Some(*every), None),
        RepeatTiming::Pattern(schedule) => (None, Some(&**schedule.text())),
    };
    map()
        .number_if("every", every)
        .text_if("pattern", pattern)
        .number_if("limit", repeat.limit)
        .number_if("count", Some(repeat.count).filter(|count| *count != 0.0))
        .number_if("startDate", repeat.start_date)
        .number_if("endDate", repeat.end_date)
        .text_if("tz", repeat.tz.as_deref())
        .bool_if("immediately", repeat.immediately)
        .number_if("prevMillis", repeat.prev_millis)
        .number_if("offset", repeat.offset)
        .text_if("jobId", repeat.job_id.as_deref())
}
