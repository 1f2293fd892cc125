//! Dead letters and policies per queue (tcp protocol section 15).

use super::{Entries, Success, Tried, job};
use crate::command::Reply;
use crate::engine::{AttemptRecord, DlqConfig, DlqEntry, DlqStats, StallConfig};
use crate::wire::shape::Dlq;

pub(super) fn write<'a>(success: Success<'a>, shape: Dlq, reply: &Reply) -> Tried<'a> {
    match (shape, reply) {
        (Dlq::List, Reply::DeadLetters(letters)) => list(success, letters),
        (Dlq::Stats, Reply::DlqStats(figures)) => stats(success, figures),
        (Dlq::Config, Reply::DlqConfig(config)) => config_of_letters(success, config),
        (Dlq::StallConfig, Reply::StallConfig(config)) => config_of_stalls(success, config),
        _ => return Tried::NotMine(success),
    }
    Tried::Written(Ok(()))
}

/// The protocol wants every job twice: alone, and in its entry.
fn list(success: Success<'_>, letters: &[DlqEntry]) {
    let mut map = success.with(2);
    map.items("jobs", letters, |map, letter| {
        job::write(map.out(), &letter.job);
    });
    map.items("entries", letters, entry);
}

fn entry(map: &mut Entries<'_>, letter: &DlqEntry) {
    let failure = &letter.failure;
    map.header(9);
    map.key("job");
    job::write(map.out(), &letter.job);
    map.time("enteredAt", failure.entered_at);
    map.text("reason", failure.reason.name());
    map.text_or_nil("error", failure.error.as_deref());
    map.key("attempts").array(failure.attempts.len());
    for attempt in &failure.attempts {
        history(map, attempt);
    }
    map.number("retryCount", failure.retry_count as f64);
    map.time_or_nil("lastRetryAt", failure.last_retry_at);
    map.time_or_nil("nextRetryAt", failure.next_retry_at);
    map.time_or_nil("expiresAt", failure.expires_at);
}

fn history(map: &mut Entries<'_>, attempt: &AttemptRecord) {
    map.header(6);
    map.time("attempt", attempt.attempt.into());
    map.time("startedAt", attempt.started_at);
    map.time("failedAt", attempt.failed_at);
    map.text("reason", attempt.reason.name());
    map.text_or_nil("error", attempt.error.as_deref());
    map.time("duration", attempt.duration());
}

fn stats(success: Success<'_>, figures: &DlqStats) {
    let mut data = success.data(1);
    data.nested("stats", 7);
    data.count("total", figures.total);
    data.nested("byReason", figures.by_reason.len());
    for (reason, letters) in figures.by_reason {
        data.count(reason.name(), letters);
    }
    data.nested("byQueue", figures.by_queue.len());
    for (queue, letters) in &figures.by_queue {
        data.count(queue, *letters);
    }
    data.count("pendingRetry", figures.pending_retry);
    data.count("expired", figures.expired);
    data.time_or_nil("oldestEntry", figures.oldest_entry);
    data.time_or_nil("newestEntry", figures.newest_entry);
}

fn config_of_letters(success: Success<'_>, config: &DlqConfig) {
    let mut map = success.with(1);
    map.nested("config", 5);
    map.bool("autoRetry", config.auto_retry);
    map.time("autoRetryInterval", config.auto_retry_interval);
    map.number("maxAutoRetries", config.max_auto_retries as f64);
    map.time_or_nil("maxAge", config.max_age);
    map.count("maxEntries", config.max_entries);
}

fn config_of_stalls(success: Success<'_>, config: &StallConfig) {
    let mut map = success.with(1);
    map.nested("config", 4);
    map.bool("enabled", config.enabled);
    map.number("stallInterval", config.stall_interval);
    map.number("maxStalls", config.max_stalls);
    map.number("gracePeriod", config.grace_period);
}
