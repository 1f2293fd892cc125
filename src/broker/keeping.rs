//! What lies between the engine and its store: which steps are stored, and what they say until they are.
//!
//! Every step that changes something has a number. The [`writer`](super::writer) takes what all steps so far have changed and
//! commits it; then those steps are *decided*. Until then their answers, events and hand-outs are held back, so that nobody
//! hears of anything that a crash could undo (engine contract, B-13). What a commit could not store has never happened:
//! the engine is loaded again from the store, and whoever waits gets the error.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::command::{Command, CommandError, Reply};
use crate::engine::{
    ConnectionId, Delivery, Durability, Effects, Engine, Event, Millis, Served, WaiterId,
    WebhookCall,
};

/// Failed steps that are remembered; more than can be waited for at once.
const FAILURES_MAX: usize = 64;

/// See the module.
pub(super) struct Keeping {
    pub(super) durability: Durability,
    /// The last step that changed something.
    step: u64,
    /// The engine's count of changes after it.
    revision: u64,
    /// The last step that somebody waits for.
    awaited: u64,
    /// The writer looks at nothing more by itself.
    writer_sleeps: bool,
    held: VecDeque<Held>,
    commits: Arc<Commits>,
    /// Jobs with smaller numbers are stored.
    stored_jobs: u64,
    /// Changes were taken, and whether they are stored is not known yet.
    in_flight: bool,
    pub(super) failing: Option<Failing>,
}

/// While nothing can be stored.
pub(super) struct Failing {
    /// What everybody gets who wants to change something.
    pub(super) error: CommandError,
    /// Time stands still: nothing may become due.
    pub(super) since: Millis,
    /// Connections that are gone since.
    pub(super) gone: Vec<ConnectionId>,
}

/// What a step says to the outside, held back until it is decided.
pub(super) struct Held {
    step: u64,
    pub(super) events: Vec<Event>,
    pub(super) calls: Vec<WebhookCall>,
    pub(super) served: Vec<(WaiterId, Served)>,
}

/// Which steps are decided, for whoever waits for that.
pub(super) struct Commits {
    decided: watch::Sender<u64>,
    failures: Mutex<VecDeque<(RangeInclusive<u64>, CommandError)>>,
}

impl Keeping {
    pub(super) fn new(durability: Durability, engine: &Engine) -> Self {
        Self {
            durability,
            step: 0,
            revision: engine.revision(),
            awaited: 0,
            writer_sleeps: false,
            held: VecDeque::new(),
            commits: Arc::new(Commits {
                decided: watch::Sender::new(0),
                failures: Mutex::default(),
            }),
            stored_jobs: 0,
            in_flight: false,
            failing: None,
        }
    }

    fn answers_first(&self) -> bool {
        self.durability == Durability::Buffered
    }

    /// Ends a step: whether the writer has to be woken. Its effects stay in `effects` only if they may leave now.
    pub(super) fn end_step(&mut self, engine: &Engine, effects: &mut Effects) -> bool {
        let revision = engine.revision();
        let changed = revision != self.revision;
        if changed {
            self.revision = revision;
            self.step += 1;
        }
        let silent =
            effects.events.is_empty() && effects.calls.is_empty() && effects.served.is_empty();
        // What happened later must not be heard of earlier.
        let holds = !self.answers_first() && (changed || !self.held.is_empty());
        if holds && !silent {
            self.awaited = self.step;
            self.held.push_back(Held {
                step: self.step,
                events: std::mem::take(&mut effects.events),
                calls: std::mem::take(&mut effects.calls),
                served: std::mem::take(&mut effects.served),
            });
        }
        self.is_awaited() || (changed && std::mem::take(&mut self.writer_sleeps))
    }

    /// Whether the answer to a command has to wait until the present step is decided; `before` is the engine's count of
    /// changes before the command.
    pub(super) fn gates(
        &self,
        engine: &Engine,
        before: u64,
        pulls: bool,
        answer: Option<&Result<Reply, CommandError>>,
    ) -> bool {
        if self.answers_first() {
            return false;
        }
        match answer {
            // A delivery that a crash undoes is made again; but nobody gets a job that is not stored.
            Some(Ok(Reply::Pulled(deliveries))) if pulls => {
                let new = |delivery: &Delivery| delivery.seq >= self.stored_jobs;
                deliveries.iter().any(new)
            }
            Some(Ok(_)) => engine.revision() != before,
            Some(Err(_)) | None => false,
        }
    }

    /// Ends when the step in progress is decided.
    pub(super) fn this_step(
        &mut self,
    ) -> impl Future<Output = Result<(), CommandError>> + Send + use<> {
        self.awaited = self.step + 1;
        self.commits.wait(self.awaited)
    }

    fn is_awaited(&self) -> bool {
        *self.commits.decided.borrow() < self.awaited
    }

    /// The steps that are to be stored now, if there are any; from now on they are in flight. Those that nobody waits for are
    /// left until it is `late`; the writer looks again then.
    pub(super) fn due(&mut self, late: bool) -> Option<u64> {
        let undecided = *self.commits.decided.borrow() < self.step;
        self.writer_sleeps = late && !undecided;
        self.in_flight = undecided && (late || self.is_awaited());
        self.in_flight.then_some(self.step)
    }

    /// Whether everything that was ever taken is stored.
    pub(super) const fn is_settled(&self) -> bool {
        !self.in_flight && self.failing.is_none()
    }

    /// The steps up to this one are stored. What they say may leave, in order, and then they are decided.
    pub(super) fn stored(&mut self, step: u64, next_job: u64) -> Vec<Held> {
        self.stored_jobs = next_job;
        self.in_flight = false;
        let may_leave = self.held.partition_point(|held| held.step <= step);
        self.held.drain(..may_leave).collect()
    }

    /// Whoever waits for this step goes on.
    pub(super) fn decide(&self, step: u64) {
        self.commits.decided.send_replace(step);
    }

    /// The steps since the last decided one could not be stored, and nothing can be for now.
    pub(super) fn fail(&mut self, error: CommandError, now: Millis) {
        self.held.clear();
        self.in_flight = false;
        let first = *self.commits.decided.borrow() + 1;
        {
            let mut failures = self.commits.failures.lock();
            failures.truncate(FAILURES_MAX - 1);
            failures.push_front((first..=self.step, error.clone()));
        }
        self.commits.decided.send_replace(self.step);
        self.failing = Some(Failing {
            error,
            since: now,
            gone: Vec::new(),
        });
    }

    /// Another engine has taken the place of the one whose changes are lost.
    pub(super) fn replaced(&mut self) {
        // What the new one has to tell is a step of its own.
        self.revision = u64::MAX;
        self.stored_jobs = 0;
    }

    /// The error for a command that cannot be executed now.
    pub(super) fn refuses(&self, command: &Command) -> Option<CommandError> {
        let failing = self.failing.as_ref()?;
        (!command.is_harmless()).then(|| failing.error.clone())
    }
}

impl Commits {
    fn wait(
        self: &Arc<Self>,
        step: u64,
    ) -> impl Future<Output = Result<(), CommandError>> + Send + use<> {
        let commits = Arc::clone(self);
        let mut decided = self.decided.subscribe();
        async move {
            let ended = decided.wait_for(|decided| *decided >= step).await;
            if ended.is_err() {
                return Err(CommandError::ShuttingDown);
            }
            let failures = commits.failures.lock();
            let failed = failures.iter().find(|(steps, _)| steps.contains(&step));
            failed.map_or(Ok(()), |(_, error)| Err(error.clone()))
        }
    }
}
