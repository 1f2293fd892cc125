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
use super::server_info::Server;
use crate::broker::{EventFilter, Submitted};
use crate::command::{Command, CommandError, MoveToWait, Operation, Reply};
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
    server: Arc<Server>,
    caller: Caller,
}

impl Call {
    /// A call of `caller` on `server`.
    pub(super) const fn new(server: Arc<Server>, caller: Caller) -> Self {
        Self { server, caller }
    }

    /// The server it is made on.
    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Whether its user can be asked by a form.
    pub const fn can_ask(&self) -> bool {
        !matches!(self.caller.asking, Asking::Never)
    }

    /// Whether its client is shown the tools of that toolset.
    pub fn is_shown(&self, toolset: &str) -> bool {
        let loaded = self.caller.loaded.as_ref();
        self.server.selection.exposes(toolset)
            || loaded.is_some_and(|loaded| loaded.contains(toolset))
    }

    /// The time by which everything happens, Unix ms.
    pub fn now(&self) -> Millis {
        self.server.broker.now()
    }

    /// Executes commands that read, at one instant; their replies in the same order.
    ///
    /// # Errors
    /// That of the first one that fails.
    pub async fn run_together(
        &self,
        mut commands: Vec<Command>,
    ) -> Result<impl Iterator<Item = Reply> + use<>, ToolError> {
        let mut submitted = Vec::with_capacity(commands.len());
        let storing = self
            .server
            .broker
            .submit(None, &mut commands, &mut submitted);
        if let Some(storing) = storing {
            storing.await?;
        }
        let mut replies = Vec::with_capacity(submitted.len());
        for answer in submitted {
            replies.push(answer.wait().await?);
        }
        Ok(replies.into_iter())
    }

    /// The handlers of the process.
    pub fn handlers(&self) -> &Handlers {
        &self.server.handlers
    }

    /// Executes one command.
    ///
    /// # Errors
    /// Those of the command.
    pub async fn run<O: Operation>(&self, operation: O) -> Result<O::Reply, ToolError> {
        let reply = self
            .server
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
        let reply = match self.server.broker.submit_one(None, operation.into()) {
            Submitted::Done(reply) => reply,
            // The ends come first: a wait that is dropped gives back what it was handed, an answer that nobody
            // takes does not. Reports come before the answer, so that none is left behind.
            Submitted::Later(answer) => tokio::select! {
                biased;
                () = self.caller.cancelled.cancelled() => return Err(ToolError::Cancelled),
                () = self.server.shutdown.cancelled() => return Err(CommandError::ShuttingDown.into()),
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
        let mut events = self.server.broker.subscribe(EventFilter {
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

/// The next reply, which is that of the operation `O`.
///
/// # Errors
/// When the broker answered out of turn.
pub fn next_reply<O: Operation>(
    replies: &mut impl Iterator<Item = Reply>,
) -> Result<O::Reply, ToolError> {
    let reply = replies.next().and_then(O::reply);
    Ok(reply.ok_or(CommandError::Internal)?)
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
