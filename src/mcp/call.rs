//! One call of a tool as its handler sees it: the broker, and how the call may end early.
//!
//! A wait ends when its caller withdraws the call, when the server stops, or when the broker answers. Only
//! waits end early; everything else is short and runs to its end, so that a change has happened or
//! has not. Withdrawing a wait drops its future, which gives back what it was handed.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::confirm::Asking;
use super::disclosure::Loaded;
use super::ending::Ending;
use super::error::ToolError;
use crate::broker::{Broker, EventFilter, Submitted};
use crate::command::{CommandError, MoveToWait, Operation};
use crate::engine::{Delivery, EventKind, EventType, EventTypes, JobId, Millis, TokenGiven};
use crate::handlers::Handlers;

/// How often a long poll reports that it still waits, and how long a small step of progress may be held back.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Percent of progress that is reported at once.
const STEP: f64 = 1.0;

/// A step of a call that its caller asked to hear of (MCP 2025-11-25, progress).
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressReport {
    /// How far; increases strictly within a call.
    pub done: f64,
    /// What `done` ends at.
    pub total: f64,
    /// In words.
    pub message: Option<String>,
}

/// What the caller of a tool brings along.
#[derive(Clone, Default)]
pub struct Caller {
    /// Fires when the caller withdraws the call.
    pub cancelled: CancellationToken,
    /// Whether the call is answered or cancelled, where its transport cares.
    pub ending: Ending,
    /// How its user is asked.
    pub asking: Asking,
    /// Toolsets that it has loaded; `None` for one of whom nothing is kept, who may call what he could load.
    pub loaded: Option<Loaded>,
    /// Where reports of progress go, when the caller asked for them. A full channel loses reports, never time.
    pub progress: Option<mpsc::Sender<ProgressReport>>,
}

/// What progress of a wait is measured by.
pub enum Measure {
    /// The time that has passed, of that many ms.
    Time(Millis),
    /// The progress of a job.
    Job {
        /// Its queue.
        queue: Arc<str>,
        /// Its id.
        id: JobId,
        /// Its progress so far.
        progress: f64,
    },
}

/// One call of a tool.
#[derive(Clone)]
pub struct Call {
    broker: Arc<dyn Broker>,
    handlers: Arc<Handlers>,
    shutdown: CancellationToken,
    caller: Caller,
}

impl Call {
    /// A call of `caller` on `broker`, where `handlers` work; its waits end when `shutdown` fires.
    pub fn new(
        broker: Arc<dyn Broker>,
        handlers: Arc<Handlers>,
        shutdown: CancellationToken,
        caller: Caller,
    ) -> Self {
        Self {
            broker,
            handlers,
            shutdown,
            caller,
        }
    }

    /// The handlers of the process.
    pub fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    /// Executes one command.
    ///
    /// # Errors
    /// Those of the command.
    pub async fn run<O: Operation>(&self, operation: O) -> Result<O::Reply, ToolError> {
        let reply = self
            .broker
            .submit_one(None, operation.into())
            .wait()
            .await?;
        Ok(O::reply(reply).ok_or(CommandError::Internal)?)
    }

    /// Executes one command that may wait.
    ///
    /// # Errors
    /// Those of the command, and the early ends of a wait.
    pub async fn wait<O: Operation>(
        &self,
        operation: O,
        measure: Measure,
    ) -> Result<O::Reply, ToolError> {
        let reply = match self.broker.submit_one(None, operation.into()) {
            Submitted::Done(reply) => reply,
            // The ends come first: a wait that is dropped gives back what it was handed, an answer that nobody
            // takes does not. Reports come before the answer, so that none is left behind.
            Submitted::Later(answer) => tokio::select! {
                biased;
                () = self.caller.cancelled.cancelled() => return Err(ToolError::Cancelled),
                () = self.shutdown.cancelled() => return Err(CommandError::ShuttingDown.into()),
                never = self.report(measure) => match never {},
                reply = answer => reply,
            },
        };
        Ok(O::reply(reply?).ok_or(CommandError::Internal)?)
    }

    /// The deliveries, once it is certain that the call is answered. If it was withdrawn in the meantime they go back, and
    /// nothing is lost. For the end of a tool: after this the call can no longer be cancelled.
    ///
    /// # Errors
    /// [`ToolError::Cancelled`].
    pub async fn keep(&self, deliveries: Vec<Delivery>) -> Result<Vec<Delivery>, ToolError> {
        // The token knows what no ending knows: that a stream was closed, that rmcp ends.
        if !self.caller.cancelled.is_cancelled() && self.caller.ending.claim() {
            return Ok(deliveries);
        }
        for delivery in deliveries {
            let token = delivery.token.map_or(TokenGiven::None, TokenGiven::Token);
            let give_back = MoveToWait {
                id: delivery.job.id,
                token,
            };
            // One that cannot go back, as its lock ran out, must not keep the others.
            if let Err(error) = self.run(give_back).await {
                tracing::debug!(?error, "a job of a cancelled call was not given back");
            }
        }
        Err(ToolError::Cancelled)
    }

    async fn report(&self, measure: Measure) -> Infallible {
        match (&self.caller.progress, measure) {
            (Some(reports), Measure::Time(total)) => report_time(reports, total).await,
            (
                Some(reports),
                Measure::Job {
                    queue,
                    id,
                    progress,
                },
            ) => self.report_job(reports, queue, &id, progress).await,
            (None, _) => pending().await,
        }
    }

    async fn report_job(
        &self,
        reports: &mpsc::Sender<ProgressReport>,
        queue: Arc<str>,
        job: &JobId,
        mut reported: f64,
    ) -> Infallible {
        let mut events = self.broker.subscribe(EventFilter {
            queue,
            types: EventTypes::NONE.with(EventType::Progress),
        });
        let mut at = Instant::now();
        while let Some(published) = events.next().await {
            let event = published.event();
            let EventKind::Progress { progress, message } = &event.kind else {
                continue;
            };
            let is_due = *progress >= reported + STEP
                || (*progress > reported && at.elapsed() >= REPORT_EVERY);
            if event.job.as_ref() == Some(job) && is_due {
                (reported, at) = (*progress, Instant::now());
                let message = message.as_deref().map(str::to_owned);
                let _ = reports.try_send(ProgressReport {
                    done: *progress,
                    total: 100.0,
                    message,
                });
            }
        }
        pending().await
    }
}

async fn report_time(reports: &mpsc::Sender<ProgressReport>, total: Millis) -> Infallible {
    let started = Instant::now();
    let mut ticks = tokio::time::interval_at(started + REPORT_EVERY, REPORT_EVERY);
    loop {
        let now = ticks.tick().await;
        let done = (now - started).as_millis() as f64;
        let _ = reports.try_send(ProgressReport {
            done,
            total: total as f64,
            message: None,
        });
    }
}
