//! Replies of commands that do something, and the words with which each says that it could not
//! (tcp protocol sections 8 to 12, 14, 17 and 20).

use std::borrow::Cow;

use crate::command::{CommandError, Reply};
use crate::engine::{AddOutcome, Added, Change, Delivery, JobId, Renewal, Report, State, Waited};

use super::{Refusal, Success, Tried, job, query};
use crate::wire::shape::{ChangeOf, Shape};

pub(super) fn write<'a>(success: Success<'a>, shape: &Shape, reply: &Reply) -> Tried<'a> {
    Tried::Written(match (shape, reply) {
        (Shape::Push { outcome }, Reply::Added(added)) => push(success, added, *outcome),
        (Shape::PushMany { outcome }, Reply::AddedMany(added)) => {
            push_many(success, added, *outcome)
        }
        (Shape::Pull { owned }, Reply::Pulled(deliveries)) => pull(success, deliveries, *owned),
        (Shape::PullMany { owned }, Reply::Pulled(deliveries)) => {
            pull_many(success, deliveries, *owned)
        }
        (Shape::Report, Reply::Reported(report)) => reported(success, *report),
        (Shape::ReportMany(ids), Reply::ReportedMany(reports)) => {
            reported_many(success, ids, reports)
        }
        (Shape::ExtendLock, Reply::Renewed(renewals)) => match renewals.as_slice() {
            [Renewal::Renewed] => done(success),
            _ => Err("Lock not found or invalid token".into()),
        },
        (Shape::ExtendLocks, Reply::Renewed(renewals)) => count(success, renewed(renewals)),
        (Shape::JobHeartbeat, Reply::Renewed(renewals)) => match renewals.as_slice() {
            [Renewal::Renewed] => data_ok(success),
            _ => Err("Job not found or not active (or invalid token)".into()),
        },
        (Shape::JobHeartbeatMany, Reply::Renewed(renewals)) => {
            let mut data = success.data(2);
            data.bool("ok", true);
            data.count("count", renewed(renewals));
            Ok(())
        }
        (Shape::Change(of), Reply::Changed(change)) => changed(success, *of, *change),
        (Shape::Counted, Reply::Counted(jobs)) => count(success, *jobs),
        (Shape::Done, _) => done(success),
        (Shape::WaitJob, Reply::Waited(waited)) => wait_job(success, waited),
        (Shape::Drain, Reply::Removed(removed)) => count(success, removed.count),
        (Shape::Clean, Reply::Removed(removed)) => {
            let mut map = success.with(2);
            map.count("count", removed.count);
            map.key("ids").array(removed.ids.len());
            query::ids(&mut map, removed.ids.iter());
            Ok(())
        }
        (Shape::DedupKeysRemoved, Reply::Counted(keys)) => {
            success.data(1).count("count", *keys);
            Ok(())
        }
        (Shape::Removed, Reply::Flag(removed)) => {
            success.data(1).bool("removed", *removed);
            Ok(())
        }
        (Shape::RegisterWorker, Reply::Worker(worker)) => {
            query::registered(success, worker);
            Ok(())
        }
        (Shape::WorkerHeartbeat, Reply::Flag(true)) => data_ok(success),
        (Shape::UnregisterWorker, Reply::Flag(true)) => {
            success.data(1).bool("removed", true);
            Ok(())
        }
        (Shape::WorkerHeartbeat | Shape::UnregisterWorker, Reply::Flag(false)) => {
            Err("Worker not found".into())
        }
        _ => return Tried::NotMine(success),
    })
}

fn done(success: Success<'_>) -> Result<(), Refusal> {
    success.nothing();
    Ok(())
}

fn data_ok(success: Success<'_>) -> Result<(), Refusal> {
    success.data(1).bool("ok", true);
    Ok(())
}

pub(super) fn count(success: Success<'_>, count: usize) -> Result<(), Refusal> {
    success.with(1).count("count", count);
    Ok(())
}

fn renewed(renewals: &[Renewal]) -> usize {
    let renewed = |renewal: &&Renewal| **renewal == Renewal::Renewed;
    renewals.iter().filter(renewed).count()
}

fn push(success: Success<'_>, added: &Added, outcome: bool) -> Result<(), Refusal> {
    let known = outcome.then(|| outcome_name(&added.outcome)).flatten();
    let replaced = replaced(added).filter(|_| outcome);
    let mut map = success.with(1 + usize::from(known.is_some()) + usize::from(replaced.is_some()));
    added.id.with_text(|id| map.text("id", id));
    if let Some(known) = known {
        map.text("outcome", known);
    }
    if let Some(replaced) = replaced {
        replaced.with_text(|id| map.text("replaced", id));
    }
    Ok(())
}

fn push_many(success: Success<'_>, added: &[Added], outcome: bool) -> Result<(), Refusal> {
    let outcomes: Option<Vec<&str>> = outcome
        .then(|| {
            added
                .iter()
                .map(|added| outcome_name(&added.outcome))
                .collect()
        })
        .flatten();
    let tells_replaced = outcome && added.iter().any(|added| replaced(added).is_some());
    let mut map = success.with(1 + usize::from(outcomes.is_some()) + usize::from(tells_replaced));
    map.key("ids").array(added.len());
    query::ids(&mut map, added.iter().map(|added| &added.id));
    if let Some(outcomes) = outcomes {
        map.texts("outcomes", &outcomes);
    }
    if tells_replaced {
        let mut ids = map.key("replaced");
        ids.array(added.len());
        for added in added {
            match replaced(added) {
                Some(id) => id.with_text(|id| ids.text(id)),
                None => ids.nil(),
            }
        }
    }
    Ok(())
}

/// The job that was deleted for it.
const fn replaced(added: &Added) -> Option<&JobId> {
    match &added.outcome {
        AddOutcome::Replaced(id) => Some(id),
        _ => None,
    }
}

/// How a job came to be, for clients that asked; `None` when nobody knows.
const fn outcome_name(outcome: &AddOutcome) -> Option<&'static str> {
    match outcome {
        AddOutcome::New => Some("new"),
        AddOutcome::Existing => Some("existing"),
        AddOutcome::Replaced(_) => Some("replaced"),
        AddOutcome::Unknown => None,
    }
}

fn pull(success: Success<'_>, deliveries: &[Delivery], owned: bool) -> Result<(), Refusal> {
    let mut map = success.with(1 + usize::from(owned));
    let delivery = deliveries.first();
    match delivery {
        Some(delivery) => {
            map.key("job");
            job::write(map.out(), &delivery.job);
        }
        None => map.nil("job"),
    }
    if owned {
        match delivery.and_then(|delivery| delivery.token) {
            Some(token) => token.with_text(|token| map.text("token", token)),
            None => map.nil("token"),
        }
    }
    Ok(())
}

fn pull_many(success: Success<'_>, deliveries: &[Delivery], owned: bool) -> Result<(), Refusal> {
    let mut map = success.with(1 + usize::from(owned));
    map.items("jobs", deliveries, |map, delivery| {
        job::write(map.out(), &delivery.job);
    });
    if owned {
        let mut tokens = map.key("tokens");
        tokens.array(deliveries.len());
        for delivery in deliveries {
            match delivery.token {
                Some(token) => token.with_text(|token| tokens.text(token)),
                None => tokens.nil(),
            }
        }
    }
    Ok(())
}

fn reported(success: Success<'_>, report: Report) -> Result<(), Refusal> {
    match report {
        Report::Applied => success.nothing(),
        Report::AlreadyFinalized => {
            let mut data = success.data(2);
            data.bool("applied", false);
            data.text("reason", "already-finalized");
        }
    }
    Ok(())
}

/// Reports without effect are listed; the whole is an error only when no report found its delivery.
fn reported_many(
    success: Success<'_>,
    ids: &[JobId],
    reports: &[Result<Report, CommandError>],
) -> Result<(), Refusal> {
    let ignored = || {
        let without_effect = |(_, (_, report)): &(usize, (&JobId, &Result<_, _>))| {
            !matches!(report, Ok(Report::Applied))
        };
        ids.iter().zip(reports).enumerate().filter(without_effect)
    };
    let count = ignored().count();
    if count == 0 {
        success.nothing();
        return Ok(());
    }
    let failed = reports.iter().any(Result::is_err);
    if let (true, Some(Err(first))) = (reports.iter().all(Result::is_err), reports.first()) {
        return Err(first.wire_text().into());
    }
    let mut data = success.data(2 + usize::from(failed));
    let mut indices = data.key("ignoredIndices");
    indices.array(count);
    for (index, _) in ignored() {
        indices.integer(i64::try_from(index).unwrap_or(i64::MAX));
    }
    data.key("ignoredIds").array(count);
    query::ids(&mut data, ignored().map(|(_, (id, _))| id));
    if failed {
        let mut errors = data.key("errors");
        errors.array(count);
        for (_, (_, report)) in ignored() {
            match report {
                Err(error) => errors.text(&error.wire_text()),
                Ok(_) => errors.nil(),
            }
        }
    }
    Ok(())
}

fn changed(success: Success<'_>, of: ChangeOf, change: Change) -> Result<(), Refusal> {
    match change {
        Change::Applied if of == ChangeOf::AddLog => success.data(1).bool("added", true),
        Change::Applied if of == ChangeOf::Park => success.data(1).bool("moved", true),
        Change::Applied => success.nothing(),
        Change::NotFound => return Err(unchanged(of, None)),
        Change::WrongState(state) => return Err(unchanged(of, Some(state))),
    }
    Ok(())
}

/// Why a job did not change: there is none (no state), or its state does not allow it.
fn unchanged(of: ChangeOf, state: Option<State>) -> Refusal {
    let fixed = match (of, state) {
        (ChangeOf::Cancel, _) => "Job not found or cannot be cancelled",
        (ChangeOf::Update, _) => "Job not found or cannot be updated",
        (ChangeOf::Priority, _) => "Job not found or not in queue",
        (ChangeOf::Delay, _) => "Job not found or cannot change delay",
        (ChangeOf::Promote, _) => "Job not found or not delayed",
        (ChangeOf::Park, _) => "Job is not active",
        (ChangeOf::MoveToWait, Some(State::Failed)) => "Failed job not in DLQ",
        (ChangeOf::MoveToWait, Some(State::Active)) => "Job not found or not active",
        (ChangeOf::MoveToWait, state) => {
            let state = state_name(state);
            return format!("Cannot move job from state '{state}' to waiting").into();
        }
        (ChangeOf::MoveToDelayed | ChangeOf::Progress, Some(state)) => return not_active(state),
        (
            ChangeOf::Discard | ChangeOf::AddLog | ChangeOf::MoveToDelayed | ChangeOf::Progress,
            _,
        ) => NO_JOB,
    };
    Cow::Borrowed(fixed)
}

/// There is no such job; clients look for these words.
pub(super) const NO_JOB: &str = "Job not found";

/// The job would have to be active.
pub(super) fn not_active(state: State) -> Refusal {
    format!("Job is not active (current state: {})", state.name()).into()
}

/// The name of a state, also of a job that nobody knows.
pub(super) fn state_name(state: Option<State>) -> &'static str {
    state.map_or("unknown", State::name)
}

/// A failure does not end this wait, so whatever is no completion means that the time is over.
fn wait_job(success: Success<'_>, waited: &Waited) -> Result<(), Refusal> {
    match waited {
        Waited::Completed { result } => {
            let mut map = success.with(1 + usize::from(result.is_some()));
            map.bool("completed", true);
            if let Some(result) = result {
                map.raw("result", result.bytes());
            }
        }
        Waited::Failed | Waited::Removed | Waited::TimedOut => {
            success.with(1).bool("completed", false);
        }
        Waited::NotFound => return Err(NO_JOB.into()),
    }
    Ok(())
}
