//! The engine in this process: one lock, one timer, and the waits it hands out as futures.
//!
//! Lock order: engine, then hub or the room for calls. The engine's lock is never held across an `await` or a system call; a
//! batch of commands takes it once.

use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::calls::{self, CallSender, Calls};
use super::hub::{EventFilter, Hub, Subscription};
use super::meter::Meter;
use super::{Broker, Clock, Submitted, SystemClock, timer};
use crate::command::{Command, CommandError, Executed, Reply, execute};
use crate::engine::{
    Config, ConnectionId, Delivery, Effects, Engine, EventKind, EventTypes, Millis, Served, Turn,
    WaiterId,
};

/// A broker whose engine lives in this process, in memory.
pub struct LocalBroker {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    core: Mutex<Core>,
    clock: Box<dyn Clock>,
    hub: Arc<Hub>,
    next_connection: AtomicU64,
    open_connections: AtomicUsize,
    /// The thread that acts when something is due; woken early when that changes.
    timer: OnceLock<Thread>,
}

struct Core {
    engine: Engine,
    effects: Effects,
    waits: HashMap<WaiterId, oneshot::Sender<Served>>,
    /// Where calls of webhooks go; without it nobody makes them.
    calls: Option<CallSender>,
    /// When the timer will wake by itself; `i64::MAX` when it has nothing to wait for.
    armed_for: Millis,
    meter: Meter,
    /// The state of the hub that the effects go by.
    hub_changes: usize,
    /// Fires once no job is active.
    drained: Option<CancellationToken>,
}

impl LocalBroker {
    /// A broker on the system's clock with fresh randomness, and the task that wakes it when something is due.
    ///
    /// # Errors
    /// When the system gives no random seed.
    pub fn start(config: Config) -> std::io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
        let broker = Self::new(config, Box::new(SystemClock::new()), seed);
        let thread = timer::spawn(&broker.shared)?;
        // Before any command, so that none finds it unset.
        let _ = broker.shared.timer.set(thread);
        Ok(broker)
    }

    /// A broker that acts only when it is called: the clock is the caller's, and so is [`LocalBroker::tick`].
    pub fn simulated(config: Config, clock: Box<dyn Clock>, seed: [u8; 32]) -> Self {
        Self::new(config, clock, seed)
    }

    fn new(config: Config, clock: Box<dyn Clock>, seed: [u8; 32]) -> Self {
        let core = Core {
            engine: Engine::new(config, seed),
            effects: Effects::default(),
            waits: HashMap::new(),
            calls: None,
            armed_for: Millis::MAX,
            meter: Meter::default(),
            hub_changes: 0,
            drained: None,
        };
        Self {
            shared: Arc::new(Shared {
                core: Mutex::new(core),
                clock,
                hub: Arc::default(),
                next_connection: AtomicU64::new(1),
                open_connections: AtomicUsize::new(0),
                timer: OnceLock::new(),
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
        self.shared.core.lock().calls = Some(sender);
        calls
    }
}

impl Core {
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
        // The timer wakes and finds that there is nothing left to wake.
        self.wake_timer();
    }
}

impl Shared {
    /// Runs `act` on the engine at the time now, then lets its effects out.
    fn with_engine<R>(&self, act: impl FnOnce(&mut Core, Millis) -> R) -> R {
        let mut core = self.core.lock();
        let now = self.clock.now();
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
        self.let_out(&mut core, now);
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
                    let mut turn = Turn {
                        now,
                        caller: None,
                        effects: &mut core.effects,
                    };
                    core.engine.give_back(&mut turn, &deliveries);
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

    fn withdraw(&self, waiter: WaiterId, handed: Option<Served>) {
        self.with_engine(|core, now| {
            core.waits.remove(&waiter);
            let mut turn = Turn {
                now,
                caller: None,
                effects: &mut core.effects,
            };
            core.engine.cancel_wait(waiter);
            if let Some(Served::Pull(deliveries)) = handed {
                core.engine.give_back(&mut turn, &deliveries);
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
    ) {
        let shared = &self.shared;
        shared.with_engine(|core, now| {
            let measured = core.meter.begin(commands, &*shared.clock);
            for command in commands.drain(..) {
                answers.push(run(shared, core, now, caller, command));
            }
            if let Some(measured) = measured {
                measured.end(&mut core.engine, &*shared.clock);
            }
        });
    }

    fn submit_one(&self, caller: Option<ConnectionId>, command: Command) -> Submitted {
        let shared = &self.shared;
        shared.with_engine(|core, now| {
            let measured = core
                .meter
                .begin(std::slice::from_ref(&command), &*shared.clock);
            let answer = run(shared, core, now, caller, command);
            if let Some(measured) = measured {
                measured.end(&mut core.engine, &*shared.clock);
            }
            answer
        })
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
        self.shared.with_engine(|core, now| {
            core.engine.disconnect(
                &mut Turn {
                    now,
                    caller: None,
                    effects: &mut core.effects,
                },
                connection,
            );
        });
    }

    fn give_back(&self, deliveries: &[Delivery]) {
        self.shared.with_engine(|core, now| {
            let mut turn = Turn {
                now,
                caller: None,
                effects: &mut core.effects,
            };
            core.engine.give_back(&mut turn, deliveries);
        });
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
}

fn run(
    shared: &Arc<Shared>,
    core: &mut Core,
    now: Millis,
    caller: Option<ConnectionId>,
    command: Command,
) -> Submitted {
    let mut turn = Turn {
        now,
        caller,
        effects: &mut core.effects,
    };
    match execute(&mut core.engine, &mut turn, command) {
        Executed::Done(reply) => Submitted::Done(reply),
        Executed::Waiting(waiter) => {
            let (sender, receiver) = oneshot::channel();
            core.waits.insert(waiter, sender);
            Submitted::Later(Box::pin(Wait {
                shared: Arc::downgrade(shared),
                waiter,
                receiver: Some(receiver),
            }))
        }
    }
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
            Err(_) => Err(CommandError::ShuttingDown),
        })
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
