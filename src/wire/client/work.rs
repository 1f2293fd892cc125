//! What workers do (tcp protocol sections 9, 10 and 12).

use super::ask::{Ask, ask, map};
use super::refusal::told;
use super::{Exchange, Refused, job};
use crate::command::{Ack, AckMany, Command, CommandError, Fail, Progress, Pull, Renew, Reply};
use crate::engine::{
    Affinity, Delivery, LockToken, Payload, PullGroup, RateLimit, Renewal, Report, State,
};
use crate::wire::fields::{Fields, text};

/// Whom the server sees as the holder of locks: it only wants to know that there is somebody.
const OWNER: &str = "bunqueue-mcp";

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    Some(match command {
        Command::Pull(pull) => take(pull),
        Command::Ack(ack) => ask("ACK")
            .id("id", &ack.id)
            .token(ack.token)
            .raw("result", ack.result.as_ref().map(Payload::bytes))
            .flag("removeOnComplete", ack.remove_on_complete)
            .then(reported),
        Command::AckMany(batch) => ack_many(batch),
        Command::Fail(failure) => fail(failure),
        Command::Heartbeat(renewals) => heartbeat(&renewals.items),
        Command::ExtendLock(renewals) => extend(&renewals.items),
        Command::Progress(Progress {
            id,
            progress,
            message,
        }) => ask("Progress")
            .id("id", id)
            .number("progress", *progress)
            .text_if("message", message.as_deref())
            .then(super::change::applied)
            .or(Refused::Unchanged(id.clone())),
        _ => return None,
    })
}

/// A single unlocked job can be taken so that it does not go back when the connection ends.
fn take(pull: &Pull) -> Exchange {
    let terms = |request: Ask| {
        request
            .queue(&pull.queue)
            .time_if("timeout", Some(pull.wait).filter(|wait| *wait > 0))
            .text_if("owner", pull.locked.then_some(OWNER))
            .number_if("lockTtl", pull.locked.then_some(pull.lock_ttl))
            .map_if("group", pull.group.as_deref().map(group).as_ref())
    };
    if pull.count > 1 {
        return terms(ask("PULLB"))
            .count("count", pull.count)
            .then(delivered_many);
    }
    terms(ask("PULL"))
        .flag("detach", pull.detach && !pull.locked)
        .then(delivered)
}

fn group(group: &PullGroup) -> Ask {
    let limit = |limit: &RateLimit| {
        map()
            .number("max", limit.max as f64)
            .time("duration", limit.duration)
    };
    let request = map()
        .number_if("concurrency", group.concurrency.map(|most| most as f64))
        .map_if("limit", group.limit.as_ref().map(limit).as_ref());
    match &group.affinity {
        Affinity::Any => request,
        Affinity::Ungrouped => request.nil("affinity"),
        Affinity::Group(id) => request.text("affinity", id),
    }
}

fn delivered(fields: &Fields<'_>) -> Option<Reply> {
    let Some(job) = fields.inner("job") else {
        return Some(Reply::Pulled(Vec::new()));
    };
    let delivery = delivery(&job, fields.str("token"))?;
    Some(Reply::Pulled(vec![delivery]))
}

fn delivered_many(fields: &Fields<'_>) -> Option<Reply> {
    let mut tokens = fields.each("tokens");
    let deliveries = fields.each("jobs")?.map(|job| {
        let token = tokens.as_mut().and_then(Iterator::next).and_then(text);
        delivery(&Fields::of(job)?, token)
    });
    deliveries.collect::<Option<_>>().map(Reply::Pulled)
}

/// The numbers of a delivery are those of another engine, and nobody there asks for them.
fn delivery(fields: &Fields<'_>, token: Option<&str>) -> Option<Delivery> {
    Some(Delivery {
        job: job::view(fields, Some(State::Active))?,
        token: token.and_then(LockToken::from_text),
        serial: 0,
        seq: 0,
    })
}

fn reported(fields: &Fields<'_>) -> Option<Reply> {
    let is_ignored = fields.inner("data").and_then(|data| data.flag("applied")) == Some(false);
    Some(Reply::Reported(if is_ignored {
        Report::AlreadyFinalized
    } else {
        Report::Applied
    }))
}

fn ack_many(batch: &AckMany) -> Exchange {
    const NIL: &[u8] = &[0xc0];
    let items = &batch.items;
    let count = items.len();
    let request = ask("ACKB")
        .ids("ids", items.iter().map(|item| &item.id))
        .tokens("tokens", items.iter().map(|item| item.token));
    let request = if items.iter().any(|item| item.result.is_some()) {
        let result = |item: &'_ Ack| {
            item.result
                .as_ref()
                .map_or(NIL.to_vec(), |result| result.bytes().to_vec())
        };
        let results: Vec<_> = items.iter().map(result).collect();
        request.raws("results", results.iter().map(Vec::as_slice))
    } else {
        request
    };
    request.then(move |fields| reported_many(fields, count))
}

/// Whatever is not named was applied.
fn reported_many(fields: &Fields<'_>, count: usize) -> Option<Reply> {
    let mut reports: Vec<Result<Report, CommandError>> = vec![Ok(Report::Applied); count];
    let Some(data) = fields.inner("data") else {
        return Some(Reply::ReportedMany(reports));
    };
    let mut errors = data.each("errors");
    for index in data.each("ignoredIndices").into_iter().flatten() {
        let error = errors.as_mut().and_then(Iterator::next).and_then(text);
        let place = super::answer::number(index)? as usize;
        *reports.get_mut(place)? =
            error.map_or(Ok(Report::AlreadyFinalized), |error| Err(told(error)));
    }
    Some(Reply::ReportedMany(reports))
}

fn fail(failure: &Fail) -> Exchange {
    let report = &failure.report;
    let request = ask("FAIL")
        .id("id", &failure.id)
        .token(failure.token)
        .text_if("error", report.error.as_deref())
        .flag("unrecoverable", report.unrecoverable)
        .flag("removeOnFail", report.remove_on_fail);
    let request = match &report.stack {
        Some(stack) => request.texts("stack", stack),
        None => request,
    };
    request.then(reported)
}

fn heartbeat(items: &[Renew]) -> Exchange {
    if let [item] = items {
        return ask("JobHeartbeat")
            .id("id", &item.id)
            .token(item.token)
            .number_if("duration", item.duration)
            .then(renewed)
            .or(Refused::NotRenewed(item.id.clone()));
    }
    let count = items.len();
    several(ask("JobHeartbeatB"), items)
        .then(move |fields| renewed_many(&fields.inner("data")?, count))
}

fn extend(items: &[Renew]) -> Exchange {
    if let [item] = items {
        return ask("ExtendLock")
            .id("id", &item.id)
            .token(item.token)
            .number_if("duration", item.duration)
            .then(renewed)
            .or(Refused::NotRenewed(item.id.clone()));
    }
    let count = items.len();
    several(ask("ExtendLocks"), items)
        .numbers("durations", items.iter().map(|item| item.duration))
        .then(move |fields| renewed_many(fields, count))
}

fn several(request: Ask, items: &[Renew]) -> Ask {
    request
        .ids("ids", items.iter().map(|item| &item.id))
        .tokens("tokens", items.iter().map(|item| item.token))
}

fn renewed(_: &Fields<'_>) -> Option<Reply> {
    Some(Reply::Renewed(vec![Renewal::Renewed]))
}

/// How many were renewed is told, not which.
fn renewed_many(fields: &Fields<'_>, count: usize) -> Option<Reply> {
    let renewed = fields.size("count")?;
    let renewal = |place| {
        if place < renewed {
            Renewal::Renewed
        } else {
            Renewal::NotFound
        }
    };
    Some(Reply::Renewed((0..count).map(renewal).collect()))
}
