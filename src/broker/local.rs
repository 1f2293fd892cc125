//! A broker whose engine runs in this process: one lock, one timer, and the waits it hands out as futures.

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::allowance::Allowance;
use super::calls::{self, Calls};
use super::hub::{EventFilter, Subscription};
use super::keeping::{GivenUp, Keeping};
use super::meter::Meter;
use super::reading::Reading;
use super::running::{both, run_all, run_one};
use super::shared::{Core, Shared, fresh_seed};
use super::storing::{status, usage};
use super::{Broker, Clock, Storing, Submitted, SystemClock, timer, writer};
use crate::command::Command;
use crate::engine::{
    Config, ConnectionId, Delivery, Durability, Effects, Engine, EventKind, Millis,
};
use crate::storage::{Bodies, Store, StoreError};

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
                allowance: Allowance::default(),
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

impl Broker for LocalBroker {
    fn submit(
        &self,
        caller: Option<ConnectionId>,
        commands: &mut Vec<Command>,
        answers: &mut Vec<Submitted>,
    ) -> Option<Storing> {
        let shared = &self.shared;
        let (mut reading, mut stored) = (Reading::new(shared), None);
        loop {
            let (storing, missed) = shared.with_engine(|core, now| {
                run_all(shared, core, now, caller, commands, answers, &mut reading)
            });
            stored = both(stored, storing);
            let Some(missed) = missed else {
                break;
            };
            match reading.read(&missed) {
                Ok(()) => commands.insert(0, missed.command),
                Err(error) => answers.push(Submitted::Done(Err(error))),
            }
        }
        reading.end();
        stored
    }

    fn submit_one(&self, caller: Option<ConnectionId>, command: Command) -> Submitted {
        let shared = &self.shared;
        let (mut reading, mut next) = (Reading::new(shared), command);
        let answer = loop {
            let command = next;
            let ran = shared.with_engine(|core, now| {
                reading.hand_over(core);
                run_one(shared, core, now, caller, command)
            });
            match ran {
                Ok(answer) => break answer,
                Err(missed) => match reading.read(&missed) {
                    Ok(()) => next = missed.command,
                    Err(error) => break Submitted::Done(Err(error)),
                },
            }
        };
        reading.end();
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
            let (engine, mut turn) = core.turn(now, None);
            engine.stop_deliveries(&mut turn);
            core.drained.get_or_insert_default().clone()
        });
        Box::pin(drained.cancelled_owned())
    }

    fn shut_down(&self) {
        self.shared.with_engine(|core, now| {
            let (engine, mut turn) = core.turn(now, None);
            engine.close(&mut turn);
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
