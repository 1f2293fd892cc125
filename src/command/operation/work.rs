//! What workers do: take jobs, report on them, keep their locks.

use std::sync::Arc;

use super::{Execute, Outcome};
use crate::command::CommandError;
use crate::command::QueueName;
use crate::command::bounds::cut;
use crate::engine::Progressing::Done;
use crate::engine::{
    Engine, FailReport, JobId, Millis, Payload, PullGroup, PullRequest, TokenGiven, Turn,
};

/// Takes jobs, waiting for the first one if asked to.
#[derive(Clone, Debug, PartialEq)]
pub struct Pull {
    /// Where from.
    pub queue: QueueName,
    /// At most how many, 1 to [`crate::command::bounds::PULL_COUNT_MAX`].
    pub count: usize,
    /// Ms to wait for the first one, 0 to [`crate::command::bounds::PULL_WAIT_MAX`].
    pub wait: Millis,
    /// Lock each delivery, and give its token.
    pub locked: bool,
    /// Ms each lock lasts.
    pub lock_ttl: f64,
    /// Do not tie the deliveries to the caller's connection.
    pub detach: bool,
    /// What it says of groups ([`crate::command::draft::GroupDraft`]); `None` means nothing.
    pub group: Option<Box<PullGroup>>,
}

impl Execute for Pull {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let request = PullRequest {
            queue: self.queue.shared(),
            count: self.count,
            wait: self.wait,
            locked: self.locked,
            lock_ttl: self.lock_ttl,
            detach: self.detach,
            group: self.group,
        };
        Ok(engine.pull(turn, request))
    }
}

/// One success to report.
#[derive(Clone, Debug, PartialEq)]
pub struct Ack {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery.
    pub token: TokenGiven,
    /// The result; `None` stores nothing.
    pub result: Option<Payload>,
    /// Delete the job instead of keeping it as completed.
    pub remove_on_complete: bool,
}

impl Execute for Ack {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let report = engine.ack(
            turn,
            &self.id,
            self.token,
            self.result,
            self.remove_on_complete,
        )?;
        Ok(Done(report))
    }
}

/// Several successes: all tokens are checked before anything is applied, then each job has its own outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct AckMany {
    /// The successes.
    pub items: Vec<Ack>,
}

/// Every token is checked before anything is applied; then each report has its own outcome (engine contract, B-29).
impl Execute for AckMany {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        for item in &self.items {
            engine.check_token(turn, &item.id, item.token)?;
        }
        // What becomes ready by one of them competes with what becomes ready by the others.
        let outcomes = engine.hold(turn, |engine, turn| {
            let report = |item: Ack| {
                let (id, result) = (item.id, item.result);
                let report = engine.ack(turn, &id, item.token, result, item.remove_on_complete);
                report.map_err(CommandError::from)
            };
            self.items.into_iter().map(report).collect()
        });
        Ok(Done(outcomes))
    }
}

/// One failure to report.
#[derive(Clone, Debug, PartialEq)]
pub struct Fail {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery.
    pub token: TokenGiven,
    /// What went wrong.
    pub report: FailReport,
}

impl Execute for Fail {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.fail(
            turn,
            &self.id,
            self.token,
            cut_report(self.report),
        )?))
    }
}

/// One sign of life or lock renewal.
#[derive(Clone, Debug, PartialEq)]
pub struct Renew {
    /// The job.
    pub id: JobId,
    /// Proof of the delivery.
    pub token: TokenGiven,
    /// Ms from now at which the lock shall end; `None` takes the lock's own lifetime.
    pub duration: Option<f64>,
}

/// Signs of life; a token also renews the lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    /// The jobs.
    pub items: Vec<Renew>,
}

impl Execute for Heartbeat {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let renew = |item: Renew| engine.heartbeat(turn, &item.id, item.token, item.duration);
        Ok(Done(self.items.into_iter().map(renew).collect()))
    }
}

/// Renews locks; without a token whatever lock exists.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtendLock {
    /// The jobs.
    pub items: Vec<Renew>,
}

impl Execute for ExtendLock {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let renew = |item: Renew| engine.extend_lock(turn, &item.id, item.token, item.duration);
        Ok(Done(self.items.into_iter().map(renew).collect()))
    }
}

/// Reports progress of an active job.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The job.
    pub id: JobId,
    /// 0 to 100; clamped.
    pub progress: f64,
    /// `None` keeps the last message.
    pub message: Option<Arc<str>>,
}

impl Execute for Progress {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.progress(
            turn,
            &self.id,
            self.progress,
            self.message.map(cut),
        )))
    }
}

/// What a worker writes into a job is cut, whichever door it came through.
fn cut_report(report: FailReport) -> FailReport {
    let lines = |stack: Vec<_>| stack.into_iter().map(cut).collect();
    FailReport {
        error: report.error.map(cut),
        stack: report.stack.map(lines),
        ..report
    }
}
