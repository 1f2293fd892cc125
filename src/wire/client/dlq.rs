//! Dead letters, reruns and policies per queue (tcp protocol section 15).

use super::answer::{counted, data_flag, number};
use super::ask::{Ask, ask, map};
use super::read::{Numbers, PER_MILLI};
use super::{Exchange, job};
use crate::command::{Command, GetDlq, QueueName, Reply, RetryCompleted, RetryDlq};
use crate::engine::{
    AttemptRecord, CompletedSelection, DlqConfig, DlqConfigUpdate, DlqEntry, DlqFilter,
    DlqSelection, DlqStats, Failure, FailureReason, Millis, StallConfig, StallConfigUpdate, State,
};
use crate::wire::fields::Fields;

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    Some(match command {
        Command::GetDlq(get) => list(get),
        Command::GetDlqStats(get) => ask("GetDlqStats").queue(&get.queue).then(stats),
        Command::RetryDlq(retry) => retry_dlq(retry),
        Command::PurgeDlq(purge) => ask("PurgeDlq").queue(&purge.queue).then(counted),
        Command::RemoveDlqJob(remove) => ask("RemoveDlqJob")
            .queue(&remove.queue)
            .id("jobId", &remove.id)
            .then(data_flag("removed")),
        Command::RetryCompleted(retry) => retry_completed(retry),
        Command::GetDlqConfig(get) => ask("GetDlqConfig")
            .queue(&get.queue)
            .then(|fields| Some(Reply::DlqConfig(dlq_config(&fields.inner("config")?)?))),
        Command::GetStallConfig(get) => ask("GetStallConfig")
            .queue(&get.queue)
            .then(|fields| Some(Reply::StallConfig(stall_config(&fields.inner("config")?)?))),
        _ => return None,
    })
}

/// The changes of a policy of dead letters, as a request that answers nothing.
pub fn set_dlq_config(queue: &QueueName, update: &DlqConfigUpdate) -> Exchange {
    let config = map()
        .bool_if("autoRetry", update.auto_retry)
        .time_if("autoRetryInterval", update.auto_retry_interval)
        .number_if(
            "maxAutoRetries",
            update.max_auto_retries.map(|most| most as f64),
        )
        .count_if("maxEntries", update.max_entries);
    let config = match update.max_age {
        Some(Some(age)) => config.time("maxAge", age),
        Some(None) => config.nil("maxAge"),
        None => config,
    };
    ask("SetDlqConfig")
        .queue(queue)
        .map("config", &config)
        .done()
}

/// The changes of a policy of silence, as a request that answers nothing.
pub fn set_stall_config(queue: &QueueName, update: &StallConfigUpdate) -> Exchange {
    let config = map()
        .bool_if("enabled", update.enabled)
        .number_if("stallInterval", update.stall_interval)
        .number_if("maxStalls", update.max_stalls)
        .number_if("gracePeriod", update.grace_period);
    ask("SetStallConfig")
        .queue(queue)
        .map("config", &config)
        .done()
}

/// Dead letters have no numbers on the wire, so that a page that goes on behind one begins at its moment and leaves out
/// what was shown.
fn list(get: &GetDlq) -> Exchange {
    let mut asked = get.filter;
    let (after, limit, offset) = (asked.after.take(), asked.limit, asked.offset);
    if let Some(after) = after {
        let at = (after / PER_MILLI) as Millis;
        asked.newer_than = Some(asked.newer_than.map_or(at, |newer| newer.max(at)));
        let shown = (after % PER_MILLI) as usize + 1;
        asked.limit = limit.map(|limit| limit.saturating_add(offset).saturating_add(shown));
        asked.offset = 0;
    }
    ask("Dlq")
        .queue(&get.queue)
        .map_if("filter", filter(&asked).as_ref())
        .then(move |fields| {
            let mut letters = fields.maps("entries", entry)?;
            let mut numbers = Numbers::default();
            for letter in &mut letters {
                letter.failure.seq = numbers.next(letter.failure.entered_at);
            }
            if let Some(after) = after {
                letters.retain(|letter| letter.failure.seq > after);
                let rest = letters.into_iter().skip(offset);
                letters = rest.take(limit.unwrap_or(usize::MAX)).collect();
            }
            Some(Reply::DeadLetters(letters))
        })
}

fn filter(filter: &DlqFilter) -> Option<Ask> {
    let request = map()
        .text_if("reason", filter.reason.map(FailureReason::name))
        .time_if("olderThan", filter.older_than)
        .time_if("newerThan", filter.newer_than)
        .flag("retriable", filter.retriable)
        .flag("expired", filter.expired)
        .count_if("offset", Some(filter.offset).filter(|offset| *offset > 0))
        .count_if("limit", filter.limit);
    Some(request).filter(|request| !request.is_empty())
}

fn entry(fields: &Fields<'_>) -> Option<DlqEntry> {
    Some(DlqEntry {
        job: job::view(&fields.inner("job")?, Some(State::Failed))?,
        failure: Failure {
            reason: reason(fields),
            error: fields.shared("error"),
            seq: 0,
            entered_at: fields.millis("enteredAt")?,
            attempts: fields.maps("attempts", attempt).unwrap_or_default(),
            retry_count: fields.u64("retryCount").unwrap_or(0),
            last_retry_at: fields.millis("lastRetryAt"),
            next_retry_at: fields.millis("nextRetryAt"),
            expires_at: fields.millis("expiresAt"),
        },
    })
}

/// A reason that nobody here knows is none.
fn reason(fields: &Fields<'_>) -> FailureReason {
    let known = fields.str("reason").and_then(FailureReason::from_name);
    known.unwrap_or(FailureReason::Unknown)
}

fn attempt(fields: &Fields<'_>) -> Option<AttemptRecord> {
    let failed_at = fields.millis("failedAt")?;
    Some(AttemptRecord {
        attempt: fields.u32("attempt").unwrap_or(0),
        started_at: fields.millis("startedAt").unwrap_or(failed_at),
        failed_at,
        reason: reason(fields),
        error: fields.shared("error"),
    })
}

fn stats(fields: &Fields<'_>) -> Option<Reply> {
    let stats = fields.inner("data")?.inner("stats")?;
    let by_reason = stats.inner("byReason");
    let of_reason = |reason: FailureReason| {
        let letters = by_reason.as_ref().and_then(|by| by.size(reason.name()));
        (reason, letters.unwrap_or(0))
    };
    let of_queue =
        |(queue, letters): (&str, &[u8])| Some((queue.into(), number(letters)? as usize));
    Some(Reply::DlqStats(Box::new(DlqStats {
        total: stats.size("total")?,
        by_reason: FailureReason::ALL.map(of_reason),
        by_queue: stats
            .pairs("byQueue")
            .unwrap_or_default()
            .into_iter()
            .map(of_queue)
            .collect::<Option<_>>()?,
        pending_retry: stats.size("pendingRetry").unwrap_or(0),
        expired: stats.size("expired").unwrap_or(0),
        oldest_entry: stats.millis("oldestEntry"),
        newest_entry: stats.millis("newestEntry"),
    })))
}

fn retry_dlq(retry: &RetryDlq) -> Exchange {
    let request = ask("RetryDlq").queue(&retry.queue);
    match &retry.selection {
        DlqSelection::One(id) => request.id("jobId", id),
        DlqSelection::Matching(matching) => {
            // A server may know counts and no filters of them alone.
            let only_count = DlqFilter {
                limit: matching.limit,
                ..DlqFilter::default()
            };
            if *matching == only_count {
                request.count_if("count", matching.limit)
            } else {
                request.map_if("filter", filter(matching).as_ref())
            }
        }
    }
    .then(counted)
}

fn retry_completed(retry: &RetryCompleted) -> Exchange {
    let request = ask("RetryCompleted").queue(&retry.queue);
    match &retry.selection {
        CompletedSelection::One(id) => request.id("id", id),
        CompletedSelection::Oldest { until, limit } => request
            .time_if("timestamp", *until)
            .count_if("count", *limit),
    }
    .then(counted)
}

fn dlq_config(fields: &Fields<'_>) -> Option<DlqConfig> {
    Some(DlqConfig {
        auto_retry: fields.flag("autoRetry")?,
        auto_retry_interval: fields.millis("autoRetryInterval")?,
        max_auto_retries: fields.u64("maxAutoRetries")?,
        max_age: fields.millis("maxAge"),
        max_entries: fields.size("maxEntries")?,
    })
}

fn stall_config(fields: &Fields<'_>) -> Option<StallConfig> {
    Some(StallConfig {
        enabled: fields.flag("enabled")?,
        stall_interval: fields.f64("stallInterval")?,
        max_stalls: fields.f64("maxStalls")?,
        grace_period: fields.f64("gracePeriod")?,
    })
}
