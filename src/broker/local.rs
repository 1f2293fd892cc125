//! The engine in this process: one lock, one timer, and the waits it hands out as futures.
//!
//! Lock order: engine, then hub or the room for calls. The engine's lock is never held across an `await` or a system call; a
//! batch of commands takes it once.

use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::calls::{self, CallSender, Calls};
use super::hub::{EventFilter, Hub, Subscription};
use super::keeping::{Asked, GivenUp, Keeping};
use super::meter::Meter;
use super::reading::{Missed, Reading};
use super::{Broker, Clock, Storing, Submitted, SystemClock, timer, writer};
use crate::command::{Command, CommandError, Executed, Reply, execute};
use crate::engine::{
    Changes, Config, ConnectionId, Delivery, Durability, Effects, Engine, EventKind, EventTypes,
    Millis, Served, StorageStatus, StorageUsage, Turn, WaiterId, WebhookCall,
};
use crate::storage::{Bodies, Sizes, Store, StoreError};

/// Why a broker with a file cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system gives no randomness, or no thread.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// A broker whose engine lives in this process, in memory or with a file that keeps it.
pub struct LocalBroker {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    core: Mutex<Core>,
    /// What the engine has let go of, when there is a store.
    pub(super) bodies: Option<Bodies>,
    clock: Box<dyn Clock>,
    hub: Arc<Hub>,
    next_connection: AtomicU64,
    open_connections: AtomicUsize,
    /// The thread that acts when something is due; woken early when that changes.
    timer: OnceLock<Thread>,
    /// The thread that stores what changes; woken when something has.
    writer: OnceLock<Thread>,
    closing: AtomicBool,
    closed: CancellationToken,
}

pub(super) struct Core {
    pub(super) engine: Engine,
    effects: Effects,
    waits: HashMap<WaiterId, oneshot::Sender<Served>>,
    /// Where calls of webhooks go; without it nobody makes them.
    calls: Option<CallSender>,
    /// Calls that the start has led to, for whoever comes first to make any.
    first_calls: Vec<WebhookCall>,
    /// When the timer will wake by itself; `i64::MAX` when it has nothing to wait for.
    armed_for: Millis,
    meter: Meter,
    /// The state of the hub that the effects go by.
    hub_changes: usize,
    /// Fires once no job is active.
    drained: Option<CancellationToken>,
    /// Set when there is a store.
    keeping: Option<Keeping>,
    config: Config,
}

impl LocalBroker {
    /// A broker on the system's clock with fresh randomness, and the task that wakes it when something is due.
    ///
    /// # Errors
    /// When the system gives no random seed.
    pub fn start(config: Config) -> std::io::Result<Self> {
        let broker = Self::new(config, Box::new(SystemClock::new()), fresh_seed()?);
        broker.run_timer()?;
        Ok(broker)
    }

    /// As [`LocalBroker::start`], with everything that is in the file, and a thread that keeps it there.
    ///
    /// # Errors
    /// [`OpenError`], when the file cannot be used; nothing in it has changed then.
    pub fn open(config: Config, path: &Path, level: Durability) -> Result<Self, OpenError> {
        let mut store = Store::open(path)?;
        let clock = SystemClock::new();
        let mut effects = Effects::default();
        let mut engine = store.load(config.clone(), fresh_seed()?, clock.now(), &mut effects)?;
        // What has happened since the process before ended.
        store.commit(&engine.take_changes(), true)?;
        engine.set_storage(status(level, None, None));
        engine.set_storage_usage(usage(store.sizes(), Duration::ZERO));
        let keeping = Keeping::new(level, &engine, clock.now());
        let kept = Some((keeping, store.bodies()));
        let broker = Self::with(engine, config, Box::new(clock), kept);
        broker.shared.core.lock().first_calls = effects.calls;
        let writer = writer::spawn(&broker.shared, store, level)?;
        let _ = broker.shared.writer.set(writer);
        broker.run_timer()?;
        Ok(broker)
    }

    fn run_timer(&self) -> std::io::Result<()> {
        let thread = timer::spawn(&self.shared)?;
        // Before any command, so that none finds it unset.
        let _ = self.shared.timer.set(thread);
        Ok(())
    }

    /// A broker that acts only when it is called: the clock is the caller's, and so is [`LocalBroker::tick`].
    pub fn simulated(config: Config, clock: Box<dyn Clock>, seed: [u8; 32]) -> Self {
        Self::new(config, clock, seed)
    }

    fn new(config: Config, clock: Box<dyn Clock>, seed: [u8; 32]) -> Self {
        Self::with(Engine::new(config.clone(), seed), config, clock, None)
    }

    fn with(
        engine: Engine,
        config: Config,
        clock: Box<dyn Clock>,
        kept: Option<(Keeping, Bodies)>,
    ) -> Self {
        let (keeping, bodies) = kept.unzip();
        let core = Core {
            engine,
            effects: Effects::default(),
            waits: HashMap::new(),
            calls: None,
            first_calls: Vec::new(),
            armed_for: Millis::MAX,
            meter: Meter::default(),
            hub_changes: 0,
            drained: None,
            keeping,
            config,
        };
        Self {
            shared: Arc::new(Shared {
                core: Mutex::new(core),
                bodies,
                clock,
                hub: Arc::default(),
                next_connection: AtomicU64::new(1),
                open_connections: AtomicUsize::new(0),
                timer: OnceLock::new(),
                writer: OnceLock::new(),
                closing: AtomicBool::new(false),
                closed: CancellationToken::new(),
            }),
        }
    }

    /// Lets everything happen that is due.
    pub fn tick(&self) {
        self.shared.tick();
    }

    /// The calls of webhooks that are due from now on. Whoever takes them has to make them; who took them before gets
    /// no more.
    pub fn webhook_calls(&self) -> Calls {
        let (sender, calls) = calls::channel();
        self.shared.with_engine(|core, _| {
            core.calls = Some(sender);
            core.effects.calls.append(&mut core.first_calls);
        });
        calls
    }
}

/// Randomness from the system.
fn fresh_seed() -> std::io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
    Ok(seed)
}

const fn usage(sizes: Sizes, commit: Duration) -> StorageUsage {
    StorageUsage {
        file_bytes: sizes.main,
        log_bytes: sizes.wal,
        unsaved: 0,
        commit,
    }
}

fn status(
    durability: Durability,
    error: Option<&StoreError>,
    since: Option<Millis>,
) -> StorageStatus {
    StorageStatus {
        disk_full: error.is_some_and(StoreError::is_full),
        error: error.map(|error| error.to_string().into()),
        since,
        durability,
        usage: StorageUsage::default(),
    }
}

/// What whoever wants to change something gets from a store that fails.
fn refusal(error: &StoreError) -> CommandError {
    CommandError::Storage(error.to_string().into())
}

impl Core {
    /// The time; while nothing can be stored, that at which this began.
    fn now(&self, clock: &dyn Clock) -> Millis {
        let failing = self.keeping.as_ref().and_then(|it| it.failing.as_ref());
        failing.map_or_else(|| clock.now(), |failing| failing.since)
    }

    fn is_failing(&self) -> bool {
        let keeping = self.keeping.as_ref();
        keeping.is_some_and(|keeping| keeping.failing.is_some())
    }

    fn set_trouble(&mut self, error: Option<&StoreError>, now: Millis) {
        let Some(keeping) = &self.keeping else {
            return;
        };
        let since = error.map(|_| now);
        let usage = self.engine.storage_usage();
        let status = status(keeping.durability, error, since);
        self.engine.set_storage(StorageStatus { usage, ..status });
    }

    /// Somebody outside has no more what this says; while nothing can be stored, that is kept in mind.
    fn take_back(&mut self, now: Millis, given_up: GivenUp) {
        if !self.is_failing() {
            let mut turn = Turn {
                now,
                caller: None,
                effects: &mut self.effects,
            };
            match &given_up {
                GivenUp::Connection(connection) => self.engine.disconnect(&mut turn, *connection),
                GivenUp::Deliveries(deliveries) => self.engine.give_back(&mut turn, deliveries),
            }
        }
        if let Some(keeping) = self.keeping.as_mut() {
            keeping.note_given_up(&self.engine, given_up);
        }
    }

    /// Passes on calls of webhooks. One that finds no room is given up at once, which shows in the webhook's counts.
    fn pass_on_calls(&mut self, now: Millis) {
        let due = std::mem::take(&mut self.effects.calls);
        let Some(calls) = &self.calls else { return };
        for call in due {
            let target = Arc::clone(&call.target);
            if !calls.offer(call) {
                let mut turn = Turn {
                    now,
                    caller: None,
                    effects: &mut self.effects,
                };
                self.engine.report_webhook(&mut turn, &target.id, false);
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The threads wake and find that there is nothing left to do.
        self.wake_timer();
        self.wake_writer();
    }
}

impl Shared {
    /// Runs `act` on the engine at the time now, then lets its effects out.
    fn with_engine<R>(&self, act: impl FnOnce(&mut Core, Millis) -> R) -> R {
        let mut core = self.core.lock();
        let now = core.now(&*self.clock);
        let result = catch_unwind(AssertUnwindSafe(|| {
            if core.hub_changes != self.hub.changes() {
                self.look_at_hub(&mut core, now);
            }
            act(&mut core, now)
        }));
        if result.is_err() {
            // Whoever called sees the panic; everybody else must not notice more of it than can be helped.
            let Core {
                engine, effects, ..
            } = &mut *core;
            let mut turn = Turn {
                now,
                caller: None,
                effects,
            };
            let recovered = catch_unwind(AssertUnwindSafe(|| engine.recover(&mut turn)));
            tracing::error!(recovered = recovered.is_ok(), "a fault of the engine");
        }
        self.end_step(&mut core, now);
        if core.drained.is_some() && core.engine.active() == 0 {
            core.drained.take().inspect(CancellationToken::cancel);
        }
        // Compared and stored under the lock, so that no earlier deadline slips in between.
        if core.engine.next_deadline().unwrap_or(i64::MAX) < core.armed_for {
            self.wake_timer();
        }
        drop(core);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Tells the engine which events somebody wants of which queues by now, and of which ones notices. The number of changes
    /// is read first, so that one in between is seen again.
    fn look_at_hub(&self, core: &mut Core, now: Millis) {
        core.hub_changes = self.hub.changes();
        let only = core.effects.only.get_or_insert_default();
        let mut is_watched_otherwise = false;
        for (queue, types) in self.hub.take_changes() {
            let before = if types == EventTypes::NONE {
                only.remove(&queue)
            } else {
                only.insert(queue, types)
            };
            let was_watched = before.unwrap_or_default().meets(EventTypes::NOTICES);
            is_watched_otherwise |= was_watched != types.meets(EventTypes::NOTICES);
        }
        core.effects.listening = !only.is_empty();
        if !is_watched_otherwise {
            return;
        }
        let watched = only
            .iter()
            .filter(|(_, types)| types.meets(EventTypes::NOTICES))
            .map(|(queue, _)| Arc::clone(queue))
            .collect();
        let mut turn = Turn {
            now,
            caller: None,
            effects: &mut core.effects,
        };
        core.engine.watch(&mut turn, watched);
    }

    /// Lets out what the step has to say, now or once it is stored.
    fn end_step(&self, core: &mut Core, now: Millis) {
        let Core {
            keeping,
            engine,
            effects,
            ..
        } = core;
        if let Some(keeping) = keeping
            && keeping.end_step(engine, now, effects)
        {
            self.wake_writer();
        }
        self.let_out(core, now);
    }

    fn let_out(&self, core: &mut Core, now: Millis) {
        loop {
            // Events before answers: whoever an answer wakes finds what happened before it.
            if !core.effects.events.is_empty() {
                self.hub.publish(&mut core.effects.events);
            }
            if !core.effects.calls.is_empty() {
                core.pass_on_calls(now);
            }
            // Giving back what a vanished waiter was handed can serve the next one, hence the loop.
            if core.effects.served.is_empty() {
                let done = core.effects.events.is_empty() && core.effects.calls.is_empty();
                if done {
                    return;
                }
                continue;
            }
            for (waiter, served) in std::mem::take(&mut core.effects.served) {
                let unread = match core.waits.remove(&waiter) {
                    Some(sender) => sender.send(served).err(),
                    None => Some(served),
                };
                if let Some(Served::Pull(deliveries)) = unread {
                    core.take_back(now, GivenUp::Deliveries(deliveries));
                }
            }
        }
    }

    pub(super) fn tick(&self) {
        self.with_engine(|core, now| {
            core.engine.tick(&mut Turn {
                now,
                caller: None,
                effects: &mut core.effects,
            });
        });
    }

    /// When the engine next wants to be called, and a note that the timer waits for exactly that.
    pub(super) fn arm(&self) -> Option<Millis> {
        let mut core = self.core.lock();
        let next = core.engine.next_deadline();
        let next = next.filter(|_| !core.is_failing());
        core.armed_for = next.unwrap_or(Millis::MAX);
        next
    }

    /// How long it is until a deadline of the engine.
    pub(super) fn until(&self, deadline: Millis) -> Duration {
        self.clock.until(deadline)
    }

    fn wake_timer(&self) {
        if let Some(timer) = self.timer.get() {
            timer.unpark();
        }
    }

    fn wake_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    /// What is to be stored now, and the last step that has changed it; `late` as in [`Keeping::due`].
    pub(super) fn take_changes(&self, late: bool) -> Option<(Changes, u64)> {
        let mut core = self.core.lock();
        let step = core.keeping.as_mut()?.due(late)?;
        Some((core.engine.take_changes(), step))
    }

    /// The steps up to this one are stored: whoever waits for that goes on.
    pub(super) fn stored(&self, step: u64, changes: &Changes) {
        self.with_engine(|core, now| {
            let Some(keeping) = core.keeping.as_mut() else {
                return;
            };
            for held in keeping.stored(step, changes.next_job) {
                core.effects.events = held.events;
                core.effects.calls = held.calls;
                core.effects.served = held.served;
                self.let_out(core, now);
            }
            // Answers after events: whoever an answer wakes finds what happened before it.
            if let Some(keeping) = core.keeping.as_mut() {
                keeping.decide(step);
            }
            core.engine.chill();
        });
    }

    /// Lets bodies that were read leave memory again, now or once what is being stored is.
    pub(super) fn chill(&self) {
        let mut core = self.core.lock();
        if core.keeping.as_ref().is_some_and(Keeping::is_settled) {
            core.engine.chill();
        }
    }

    /// What has not been stored is lost, and until [`Shared::resume`] nothing else is accepted.
    pub(super) fn lose(&self, error: &StoreError) {
        tracing::error!(%error, "changes could not be stored and were refused; until that works, nothing is changed");
        let mut core = self.core.lock();
        let now = core.now(&*self.clock);
        core.set_trouble(Some(error), now);
        if let Some(keeping) = core.keeping.as_mut() {
            keeping.fail(refusal(error));
        }
        // Waits end with the error: those who pull would otherwise wait for an engine that is gone.
        core.waits.clear();
    }

    /// Whoever waits for what is lost hears of it.
    pub(super) fn give_up(&self) {
        if let Some(keeping) = self.core.lock().keeping.as_mut() {
            keeping.give_up();
        }
    }

    /// Puts an engine with what the file holds in the place of the one that has more.
    pub(super) fn reload(&self, store: &Store) -> Result<(), StoreError> {
        let (config, now, mut effects) = {
            let core = self.core.lock();
            let effects = Effects {
                listening: core.effects.listening,
                only: core.effects.only.clone(),
                ..Effects::default()
            };
            (core.config.clone(), core.now(&*self.clock), effects)
        };
        // Both engines are in memory for a while: who is connected and what is in work is known to the other one alone, until
        // the end of the reading, while questions are answered from it.
        let mut engine = store.reload(config, fresh_seed()?, now, &mut effects)?;
        let mut core = self.core.lock();
        // They leave with the next step, which stores what they tell of.
        core.effects.events.append(&mut effects.events);
        core.effects.calls.append(&mut effects.calls);
        std::mem::swap(&mut core.engine, &mut engine);
        core.engine.inherit(&mut engine);
        core.hub_changes = usize::MAX;
        if let Some(keeping) = core.keeping.as_mut() {
            // Only now, so that whoever is told of a loss does not find what is lost.
            keeping.give_up();
            keeping.replaced();
        }
        // To free a large engine takes a while, and nobody has to wait for that.
        drop(core);
        drop(engine);
        Ok(())
    }

    /// Changes are accepted again.
    pub(super) fn resume(&self) {
        let given_up = {
            let mut core = self.core.lock();
            let now = self.clock.now();
            core.set_trouble(None, now);
            core.engine.hear_again(now);
            core.keeping.as_mut().map(Keeping::resume)
        };
        tracing::info!("changes can be stored again");
        for given_up in given_up.into_iter().flatten() {
            self.take_back(given_up);
        }
        self.tick();
        self.wake_timer();
    }

    /// Tells what the store holds and how fast it is.
    pub(super) fn note_usage(&self, sizes: Sizes, commit: Duration) {
        let usage = usage(sizes, commit);
        self.core.lock().engine.set_storage_usage(usage);
    }

    /// Tells how the store is.
    pub(super) fn note_trouble(&self, error: Option<&StoreError>) {
        let mut core = self.core.lock();
        let now = core.now(&*self.clock);
        core.set_trouble(error, now);
    }

    /// So many changes could not be stored for now, and are tried again.
    pub(super) fn note_retry(&self, changes: usize, error: &StoreError) {
        let mut core = self.core.lock();
        let now = core.now(&*self.clock);
        core.set_trouble(Some(error), now);
        if let Some(keeping) = core.keeping.as_mut() {
            keeping.retry(changes, refusal(error));
        }
    }

    /// They are stored.
    pub(super) fn note_retried(&self) {
        let mut core = self.core.lock();
        let now = core.now(&*self.clock);
        core.set_trouble(None, now);
        if let Some(keeping) = core.keeping.as_mut() {
            keeping.retried();
        }
    }

    /// Nothing is stored any more, so nothing is changed any more either, and nobody has to wait.
    pub(super) fn end_storing(&self) {
        let mut core = self.core.lock();
        if let Some(keeping) = core.keeping.as_mut() {
            keeping.end();
        }
        core.waits.clear();
    }

    /// How many changes have come since the last ones were taken, about.
    pub(super) fn unsaved(&self) -> usize {
        self.core.lock().engine.unsaved()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// The writer is about to close the file.
    pub(super) fn close_readers(&self) {
        self.bodies.iter().for_each(Bodies::close);
    }

    pub(super) fn file_closed(&self) {
        self.closed.cancel();
    }

    fn take_back(&self, given_up: GivenUp) {
        self.with_engine(|core, now| core.take_back(now, given_up));
    }

    fn withdraw(&self, waiter: WaiterId, handed: Option<Served>) {
        self.with_engine(|core, now| {
            core.waits.remove(&waiter);
            core.engine.cancel_wait(waiter);
            if let Some(Served::Pull(deliveries)) = handed {
                core.take_back(now, GivenUp::Deliveries(deliveries));
            }
        });
    }
}

impl Broker for LocalBroker {
    fn submit(
        &self,
        caller: Option<ConnectionId>,
        commands: &mut Vec<Command>,
        answers: &mut Vec<Submitted>,
    ) -> Option<Storing> {
        let shared = &self.shared;
        let (mut reading, mut stored) = (Reading::default(), None);
        loop {
            let (storing, missed) = shared.with_engine(|core, now| {
                run_all(shared, core, now, caller, commands, answers, &mut reading)
            });
            stored = both(stored, storing);
            let Some(missed) = missed else {
                break;
            };
            match reading.read(shared, &missed) {
                Ok(()) => commands.insert(0, missed.command),
                Err(error) => answers.push(Submitted::Done(Err(error))),
            }
        }
        reading.end(shared);
        stored
    }

    fn submit_one(&self, caller: Option<ConnectionId>, command: Command) -> Submitted {
        let shared = &self.shared;
        let (mut reading, mut next) = (Reading::default(), command);
        let answer = loop {
            let command = next;
            let ran = shared.with_engine(|core, now| {
                reading.hand_over(core);
                run_one(shared, core, now, caller, command)
            });
            match ran {
                Ok(answer) => break answer,
                Err(missed) => match reading.read(shared, &missed) {
                    Ok(()) => next = missed.command,
                    Err(error) => break Submitted::Done(Err(error)),
                },
            }
        };
        reading.end(shared);
        answer
    }

    fn connect(&self) -> ConnectionId {
        let shared = &self.shared;
        shared.open_connections.fetch_add(1, Ordering::Relaxed);
        ConnectionId(shared.next_connection.fetch_add(1, Ordering::Relaxed))
    }

    fn connections(&self) -> usize {
        self.shared.open_connections.load(Ordering::Relaxed)
    }

    fn disconnect(&self, connection: ConnectionId) {
        self.shared.open_connections.fetch_sub(1, Ordering::Relaxed);
        self.shared.take_back(GivenUp::Connection(connection));
    }

    fn give_back(&self, deliveries: &[Delivery]) {
        let given_up = GivenUp::Deliveries(deliveries.to_vec());
        self.shared.take_back(given_up);
    }

    fn now(&self) -> Millis {
        self.shared.clock.now()
    }

    fn subscribe(&self, filter: EventFilter) -> Subscription {
        let subscription = self.shared.hub.subscribe(filter);
        // The engine learns of it now, not when something else happens: what lasts is counted from here on.
        self.shared.tick();
        subscription
    }

    fn announce(&self, notice: EventKind) -> bool {
        let shared = &self.shared;
        shared.with_engine(|_, now| shared.hub.announce(now, &notice))
    }

    fn stop_deliveries(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let drained = self.shared.with_engine(|core, now| {
            core.engine.stop_deliveries(&mut Turn {
                now,
                caller: None,
                effects: &mut core.effects,
            });
            core.drained.get_or_insert_default().clone()
        });
        Box::pin(drained.cancelled_owned())
    }

    fn shut_down(&self) {
        self.shared.with_engine(|core, now| {
            core.engine.close(&mut Turn {
                now,
                caller: None,
                effects: &mut core.effects,
            });
        });
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let shared = &self.shared;
        if shared.writer.get().is_none() {
            return Box::pin(std::future::ready(()));
        }
        shared.closing.store(true, Ordering::Release);
        shared.wake_writer();
        Box::pin(shared.closed.clone().cancelled_owned())
    }
}

/// Runs commands up to the first one that misses something; those behind it stay.
fn run_all(
    shared: &Arc<Shared>,
    core: &mut Core,
    now: Millis,
    caller: Option<ConnectionId>,
    commands: &mut Vec<Command>,
    answers: &mut Vec<Submitted>,
    reading: &mut Reading,
) -> (Option<Storing>, Option<Box<Missed>>) {
    reading.hand_over(core);
    let measured = core.meter.begin(commands, &*shared.clock);
    let (mut gated, mut missed) = (false, None);
    let mut rest = commands.drain(..);
    for command in rest.by_ref() {
        match run(shared, core, now, caller, command) {
            Ok((answer, waits)) => {
                gated |= waits;
                answers.push(answer);
            }
            Err(command) => {
                missed = Some(command);
                break;
            }
        }
    }
    let rest: Vec<Command> = rest.collect();
    // Mostly there is none, and the list keeps its room.
    if !rest.is_empty() {
        *commands = rest;
    }
    if let Some(measured) = measured {
        measured.end(&mut core.engine, &*shared.clock);
    }
    let keeping = core.keeping.as_mut().filter(|_| gated);
    let storing = keeping.map(|keeping| Box::pin(keeping.everything(&core.engine)) as Storing);
    (storing, missed)
}

fn run_one(
    shared: &Arc<Shared>,
    core: &mut Core,
    now: Millis,
    caller: Option<ConnectionId>,
    command: Command,
) -> Result<Submitted, Box<Missed>> {
    let measured = core
        .meter
        .begin(std::slice::from_ref(&command), &*shared.clock);
    let ran = run(shared, core, now, caller, command);
    if let Some(measured) = measured {
        measured.end(&mut core.engine, &*shared.clock);
    }
    let (answer, gated) = ran?;
    Ok(match (answer, core.keeping.as_mut()) {
        (Submitted::Done(reply), Some(keeping)) if gated => {
            let stored = keeping.everything(&core.engine);
            Submitted::Later(Box::pin(async move { stored.await.and(reply) }))
        }
        (answer, _) => answer,
    })
}

/// What has ended when both have.
fn both(one: Option<Storing>, other: Option<Storing>) -> Option<Storing> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Box::pin(async move { one.await.and(other.await) })),
        (one, other) => one.or(other),
    }
}

/// Runs a command; whether its answer has to wait until the step is stored.
fn run(
    shared: &Arc<Shared>,
    core: &mut Core,
    now: Millis,
    caller: Option<ConnectionId>,
    command: Command,
) -> Result<(Submitted, bool), Box<Missed>> {
    let keeping = core.keeping.as_ref();
    if let Some(error) = keeping.and_then(|it| it.refuses(&core.engine, &command)) {
        return Ok((Submitted::Done(Err(error)), false));
    }
    let again = (core.engine.has_cold_jobs() && command.may_miss()).then(|| command.clone());
    let asked = keeping.map_or(Asked::Question, |it| it.asked(&command));
    let mut turn = Turn {
        now,
        caller,
        effects: &mut core.effects,
    };
    let executed = execute(&mut core.engine, &mut turn, command);
    if let Some(command) = again {
        let jobs = core.engine.missed();
        if !jobs.is_empty() {
            let chills = core.engine.chills();
            return Err(Box::new(Missed {
                command,
                jobs,
                chills,
            }));
        }
    }
    Ok(match executed {
        Executed::Done(reply) => {
            let keeping = core.keeping.as_ref();
            let gated = keeping.is_some_and(|it| it.gates(&core.engine, asked, &reply));
            (Submitted::Done(reply), gated)
        }
        Executed::Waiting(waiter) => {
            let (sender, receiver) = oneshot::channel();
            core.waits.insert(waiter, sender);
            let wait = Wait {
                shared: Arc::downgrade(shared),
                waiter,
                receiver: Some(receiver),
            };
            (Submitted::Later(Box::pin(wait)), false)
        }
    })
}

/// A wait in progress. Dropping it withdraws it and returns what it was handed but nobody read.
struct Wait {
    shared: Weak<Shared>,
    waiter: WaiterId,
    /// `None` once read.
    receiver: Option<oneshot::Receiver<Served>>,
}

impl Future for Wait {
    type Output = Result<Reply, CommandError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(receiver) = self.receiver.as_mut() else {
            return Poll::Ready(Err(CommandError::Internal));
        };
        let served = std::task::ready!(Pin::new(receiver).poll(cx));
        self.receiver = None;
        Poll::Ready(match served {
            Ok(Served::Pull(deliveries)) => Ok(Reply::Pulled(deliveries)),
            Ok(Served::Job(waited)) => Ok(Reply::Waited(waited)),
            Err(_) => Err(self.why_it_ended()),
        })
    }
}

impl Wait {
    /// Why nobody will serve it.
    fn why_it_ended(&self) -> CommandError {
        let failing = self.shared.upgrade().and_then(|shared| {
            let core = shared.core.lock();
            let failing = core.keeping.as_ref()?.failing.as_ref()?;
            Some(failing.error.clone())
        });
        failing.unwrap_or(CommandError::ShuttingDown)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let (Some(mut receiver), Some(shared)) = (self.receiver.take(), self.shared.upgrade())
        else {
            return;
        };
        receiver.close();
        shared.withdraw(self.waiter, receiver.try_recv().ok());
    }
}
