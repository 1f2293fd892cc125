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

/// Changes that wait while the disk fails, where answers do not wait for them, before jobs are refused; a batch may go
/// beyond it (engine contract, B-13).
pub const UNSAVED_MAX: usize = 100_000;

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
    /// A time up to which everything has happened that was due, and is stored.
    settled: Millis,
    commits: Arc<Commits>,
    /// Jobs with smaller numbers are stored.
    stored_jobs: u64,
    /// Changes were taken, and whether they are stored is not known yet.
    in_flight: bool,
    pub(super) failing: Option<Failing>,
    /// What has been given up in steps that are not stored, or while nothing could be; such a thing can be undone by no
    /// disk, so it happens again when they are lost.
    given_up: VecDeque<(u64, GivenUp)>,
    /// Changes that could not be stored and are tried again; `None` while all is well.
    pub(super) retried: Option<usize>,
}

/// While nothing can be stored.
pub(super) struct Failing {
    /// What everybody gets who wants to change something.
    pub(super) error: CommandError,
    /// Time stands still, and before whatever could not be stored: nothing may become due.
    pub(super) since: Millis,
}

/// What somebody outside has no more, whether that can be stored or not.
pub(super) enum GivenUp {
    /// All that the connection had.
    Connection(ConnectionId),
    /// Deliveries that reached nobody.
    Deliveries(Vec<Delivery>),
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
    pub(super) fn new(durability: Durability, engine: &Engine, now: Millis) -> Self {
        Self {
            durability,
            step: 0,
            revision: engine.revision(),
            awaited: 0,
            writer_sleeps: false,
            held: VecDeque::new(),
            settled: now,
            commits: Arc::new(Commits {
                decided: watch::Sender::new(0),
                failures: Mutex::default(),
            }),
            stored_jobs: 0,
            in_flight: false,
            failing: None,
            given_up: VecDeque::new(),
            retried: None,
        }
    }

    fn answers_first(&self) -> bool {
        self.durability == Durability::Buffered
    }

    /// What the answer to a command has to wait for. Where answers do not wait, those to whoever wants to be sure of a job
    /// do.
    pub(super) fn asked(&self, command: &Command) -> Asked {
        let is_answered_first = self.answers_first() && !command.is_durable();
        match command {
            _ if is_answered_first || command.is_harmless() => Asked::Question,
            Command::Pull(_) => Asked::Pull,
            _ => Asked::Change,
        }
    }

    /// Ends a step: whether the writer has to be woken. Its effects stay in `effects` only if they may leave now.
    pub(super) fn end_step(&mut self, engine: &Engine, now: Millis, effects: &mut Effects) -> bool {
        let revision = engine.revision();
        let changed = revision != self.revision;
        if changed {
            self.revision = revision;
            self.step += 1;
        } else if self.is_decided() && engine.next_deadline().is_none_or(|at| at > now) {
            self.settled = now;
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

    /// Whether the answer to a command has to wait until everything so far is decided.
    pub(super) fn gates(
        &self,
        engine: &Engine,
        asked: Asked,
        answer: &Result<Reply, CommandError>,
    ) -> bool {
        match (asked, answer) {
            // A delivery that a crash undoes is made again; but nobody gets a job that is not stored.
            (Asked::Pull, Ok(Reply::Pulled(deliveries))) => {
                let new = |delivery: &Delivery| delivery.seq >= self.stored_jobs;
                deliveries.iter().any(new)
            }
            // Also when nothing has changed: what was asked may be in place because of a step that is not stored yet.
            (Asked::Change | Asked::Pull, Ok(_)) => {
                self.this_step(engine) > *self.commits.decided.borrow()
            }
            (Asked::Question, _) | (_, Err(_)) => false,
        }
    }

    /// The last step that has changed something, the one in progress included.
    fn this_step(&self, engine: &Engine) -> u64 {
        self.step + u64::from(engine.revision() != self.revision)
    }

    /// Ends when the steps so far are decided, with the one in progress.
    pub(super) fn everything(
        &mut self,
        engine: &Engine,
    ) -> impl Future<Output = Result<(), CommandError>> + Send + use<> {
        self.awaited = self.this_step(engine);
        self.commits.wait(self.awaited)
    }

    fn is_awaited(&self) -> bool {
        *self.commits.decided.borrow() < self.awaited
    }

    /// The steps that are to be stored now, if there are any; from now on they are in flight. Those that nobody waits for are
    /// left until it is `late`; the writer looks again then.
    pub(super) fn due(&mut self, late: bool) -> Option<u64> {
        let undecided = !self.is_decided();
        self.writer_sleeps = late && !undecided;
        self.in_flight = undecided && (late || self.is_awaited());
        self.in_flight.then_some(self.step)
    }

    fn is_decided(&self) -> bool {
        *self.commits.decided.borrow() >= self.step
    }

    /// Whether everything that was ever taken is stored.
    pub(super) const fn is_settled(&self) -> bool {
        !self.in_flight && self.failing.is_none()
    }

    /// The steps up to this one are stored. What they say may leave, in order, and then they are decided.
    pub(super) fn stored(&mut self, step: u64, next_job: u64) -> Vec<Held> {
        self.stored_jobs = next_job;
        self.in_flight = false;
        let lasting = self.given_up.partition_point(|(at, _)| *at <= step);
        self.given_up.drain(..lasting);
        let may_leave = self.held.partition_point(|held| held.step <= step);
        self.held.drain(..may_leave).collect()
    }

    /// Whoever waits for this step goes on.
    pub(super) fn decide(&self, step: u64) {
        self.commits.decided.send_replace(step);
    }

    /// The steps since the last decided one could not be stored, and nothing can be for now. Whoever waits for them does so
    /// until [`Keeping::give_up`].
    pub(super) fn fail(&mut self, error: CommandError) {
        self.failing = Some(Failing {
            error,
            since: self.settled,
        });
    }

    /// Whoever waits for the steps that could not be stored gets the error, and nobody else hears of them.
    pub(super) fn give_up(&mut self) {
        self.held.clear();
        self.in_flight = false;
        let Some(failing) = &self.failing else {
            return;
        };
        let first = *self.commits.decided.borrow() + 1;
        {
            let mut failures = self.commits.failures.lock();
            failures.truncate(FAILURES_MAX - 1);
            failures.push_front((first..=self.step, failing.error.clone()));
        }
        self.decide(self.step);
    }

    /// Something was given up in this step, or is to be once changes are accepted again.
    pub(super) fn note_given_up(&mut self, engine: &Engine, given_up: GivenUp) {
        let step = self.this_step(engine);
        let is_lasting = self.failing.is_none() && step <= *self.commits.decided.borrow();
        if !is_lasting && !self.answers_first() {
            self.given_up.push_back((step, given_up));
        }
    }

    /// Changes are accepted again. What has been given up meanwhile is to be given up now.
    pub(super) fn resume(&mut self) -> impl Iterator<Item = GivenUp> + use<> {
        self.failing = None;
        let given_up = std::mem::take(&mut self.given_up);
        given_up.into_iter().map(|(_, given_up)| given_up)
    }

    /// Another engine has taken the place of the one whose changes are lost.
    pub(super) fn replaced(&mut self) {
        // What the new one has to tell is a step of its own.
        self.revision = u64::MAX;
        self.stored_jobs = 0;
    }

    /// The error for a command that cannot be executed now.
    pub(super) fn refuses(&self, engine: &Engine, command: &Command) -> Option<CommandError> {
        if let Some(failing) = &self.failing {
            return (!command.is_harmless()).then(|| failing.error.clone());
        }
        let waiting = self.retried? + engine.unsaved();
        let is_too_much = waiting >= UNSAVED_MAX && command.adds_jobs();
        is_too_much.then_some(CommandError::UnsavedFull)
    }
}

/// What kind of command it is that is to be answered, as far as its answer has to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Nothing that is kept can change by it, or nobody waits for that.
    Question,
    /// Jobs are asked for.
    Pull,
    /// Something may change.
    Change,
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
