//! What lies between the engine and its store: which steps are stored, and what they say until they are.
//!
//! Every step that changes something has a number. The [`writer`](super::writer) takes what all steps so far have changed and
//! commits it; then those steps are *decided*. Until then their answers, events and hand-outs are held back, so that nobody
//! is told of anything that a crash could undo (engine contract, B-13). What a commit could not store has never happened:
//! the engine is loaded again from the store, and whoever waits gets the error.
//!
//! Two answers do not wait. Whoever asks a question gets what the engine has in this moment, steps that are not stored yet
//! included: he may read what a crash or a failed commit undoes. Whoever pulls gets jobs that are stored at once, while
//! their leases gather for the next commit, up to 10 ms ([`writer`](super::writer)): a crash in that time costs a redelivery.
//! Where answers never wait (`buffered`), only adds do whose clients want to be sure of them, and a commit that failed
//! is tried again instead.

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
    /// The last step that is decided.
    decided: u64,
    /// The writer looks at nothing more by itself.
    writer_sleeps: bool,
    held: VecDeque<Held>,
    /// A time up to which everything has happened that was due, and is stored.
    settled: Millis,
    answers: Answers,
    /// Jobs with smaller numbers are stored.
    stored_jobs: u64,
    /// Changes were taken, and whether they are stored is not known yet.
    in_flight: bool,
    pub(super) failing: Option<Failing>,
    /// What has been given up in steps that are not stored, or while nothing could be; such a thing can be undone by no
    /// disk, so it happens again when they are lost.
    given_up: VecDeque<(u64, GivenUp)>,
    /// `None` while all is well, and where nothing is tried again.
    retried: Option<Retried>,
}

/// Changes that could not be stored and are tried again, as nobody waits for them.
struct Retried {
    /// How many, about.
    changes: usize,
    /// What everybody gets who wants to be sure of a change.
    error: CommandError,
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

/// For whoever waits until a step is decided. Their futures must not keep the sender, whose end they notice.
struct Answers {
    /// Whoever waits for a step up to this one has an answer.
    given: watch::Sender<u64>,
    failures: Arc<Failures>,
}

/// Steps with an error for whoever waits for them, the last ones first.
type Failures = Mutex<VecDeque<(RangeInclusive<u64>, CommandError)>>;

impl Keeping {
    pub(super) fn new(durability: Durability, engine: &Engine, now: Millis) -> Self {
        Self {
            durability,
            step: 0,
            revision: engine.revision(),
            awaited: 0,
            decided: 0,
            writer_sleeps: false,
            held: VecDeque::new(),
            settled: now,
            answers: Answers {
                given: watch::Sender::new(0),
                failures: Arc::default(),
            },
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
            (Asked::Change | Asked::Pull, Ok(_)) => self.this_step(engine) > self.decided,
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
        self.answers.wait(self.awaited)
    }

    const fn is_awaited(&self) -> bool {
        self.decided < self.awaited
    }

    /// The steps that are to be stored now, if there are any; from now on they are in flight. Those that nobody waits for are
    /// left until it is `late`; the writer looks again then.
    pub(super) fn due(&mut self, late: bool) -> Option<u64> {
        let undecided = !self.is_decided();
        self.writer_sleeps = late && !undecided;
        self.in_flight = undecided && (late || self.is_awaited());
        self.in_flight.then_some(self.step)
    }

    const fn is_decided(&self) -> bool {
        self.decided >= self.step
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
    pub(super) fn decide(&mut self, step: u64) {
        self.decided = step;
        self.answers.give(step);
    }

    /// Whoever waits for a step that is not decided gets this error.
    fn refuse(&self, error: CommandError) {
        self.answers.refuse(self.decided + 1..=self.step, error);
    }

    /// So many changes could not be stored and are tried again. Whoever wants to be sure of one gets the error, now and until
    /// [`Keeping::retried`]; what has been done stays and may be stored later.
    pub(super) fn retry(&mut self, changes: usize, error: CommandError) {
        self.refuse(error.clone());
        self.retried = Some(Retried { changes, error });
    }

    /// What was tried again is stored.
    pub(super) fn retried(&mut self) {
        self.retried = None;
    }

    /// Nothing is stored any more.
    pub(super) fn end(&mut self) {
        let retried = self.retried.take();
        if self.failing.is_none() {
            self.fail(retried.map_or(CommandError::ShuttingDown, |retried| retried.error));
        }
        self.give_up();
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
        self.refuse(failing.error.clone());
        self.decide(self.step);
    }

    /// Something was given up in this step, or is to be once changes are accepted again.
    pub(super) fn note_given_up(&mut self, engine: &Engine, given_up: GivenUp) {
        let step = self.this_step(engine);
        let is_lasting = self.failing.is_none() && step <= self.decided;
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
        let retried = self.retried.as_ref()?;
        if command.is_durable() {
            return Some(retried.error.clone());
        }
        let waiting = retried.changes + engine.unsaved();
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

impl Answers {
    fn give(&self, step: u64) {
        self.given.send_if_modified(|given| {
            let rises = step > *given;
            *given = step.max(*given);
            rises
        });
    }

    fn refuse(&self, steps: RangeInclusive<u64>, error: CommandError) {
        let last = *steps.end();
        {
            let mut failures = self.failures.lock();
            failures.truncate(FAILURES_MAX - 1);
            failures.push_front((steps, error));
        }
        self.give(last);
    }

    fn wait(&self, step: u64) -> impl Future<Output = Result<(), CommandError>> + Send + use<> {
        let failures = Arc::clone(&self.failures);
        let mut given = self.given.subscribe();
        async move {
            let ended = given.wait_for(|given| *given >= step).await;
            if ended.is_err() {
                return Err(CommandError::ShuttingDown);
            }
            let failures = failures.lock();
            let failed = failures.iter().find(|(steps, _)| steps.contains(&step));
            failed.map_or(Ok(()), |(_, error)| Err(error.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Config;

    #[tokio::test]
    async fn who_waits_gets_an_answer_when_the_broker_ends() {
        let engine = Engine::new(Config::default(), [1; 32]);
        let begun = || {
            let mut keeping = Keeping::new(Durability::Buffered, &engine, 0);
            // A step is in progress.
            keeping.replaced();
            let stored = keeping.everything(&engine);
            keeping.end_step(&engine, 0, &mut Effects::default());
            (keeping, stored)
        };
        let full = || CommandError::Storage("full".into());
        let (mut ended, stored) = begun();
        ended.end();
        assert_eq!(stored.await, Err(CommandError::ShuttingDown));
        let (dropped, stored) = begun();
        drop(dropped);
        assert_eq!(stored.await, Err(CommandError::ShuttingDown));
        let (mut failing, stored) = begun();
        failing.retry(1, full());
        assert_eq!(stored.await, Err(full()));
        let (mut failing, stored) = begun();
        failing.retried = Some(Retried {
            changes: 1,
            error: full(),
        });
        failing.end();
        assert_eq!(stored.await, Err(full()));
    }
}
