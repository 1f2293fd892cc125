//! What the parts of a [`LocalBroker`](super::LocalBroker) share: the engine under its lock, and the way in and out.
//!
//! Lock order: engine, then hub or the room for calls. The engine's lock is never held across an `await` or a system call; a
//! batch of commands takes it once.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Clock;
use super::allowance::Allowance;
use super::calls::CallSender;
use super::hub::Hub;
use super::keeping::{GivenUp, Keeping};
use super::meter::Meter;
use crate::engine::{
    Caller, Config, Effects, Engine, EventTypes, Millis, Served, Turn, WaiterId, WebhookCall,
};
use crate::storage::Bodies;

/// A broker, for whoever acts on it: callers, futures, the timer, the writer.
pub(super) struct Shared {
    pub(super) core: Mutex<Core>,
    /// What the engine has let go of, when there is a store.
    pub(super) bodies: Option<Bodies>,
    /// How much of that is read at a time.
    pub(super) allowance: Allowance,
    pub(super) clock: Box<dyn Clock>,
    pub(super) hub: Arc<Hub>,
    pub(super) next_connection: AtomicU64,
    pub(super) open_connections: AtomicUsize,
    /// The thread that acts when something is due; woken early when that changes.
    pub(super) timer: OnceLock<Thread>,
    /// The thread that stores what changes; woken when something has.
    pub(super) writer: OnceLock<Thread>,
    pub(super) closing: AtomicBool,
    pub(super) closed: CancellationToken,
}

/// What the lock guards.
pub(super) struct Core {
    pub(super) engine: Engine,
    pub(super) effects: Effects,
    pub(super) waits: HashMap<WaiterId, oneshot::Sender<Served>>,
    /// Where calls of webhooks go; without it nobody makes them.
    pub(super) calls: Option<CallSender>,
    /// Calls that the start has led to, for whoever comes first to make any.
    pub(super) first_calls: Vec<WebhookCall>,
    /// When the timer will wake by itself; `i64::MAX` when it has nothing to wait for.
    pub(super) armed_for: Millis,
    pub(super) meter: Meter,
    /// The state of the hub that the effects go by.
    pub(super) hub_changes: usize,
    /// Fires once no job is active.
    pub(super) drained: Option<CancellationToken>,
    /// Set when there is a store.
    pub(super) keeping: Option<Keeping>,
    pub(super) config: Config,
}

impl Core {
    /// The engine, and one call into it.
    pub(super) fn turn(&mut self, now: Millis, caller: Caller) -> (&mut Engine, Turn<'_>) {
        let effects = &mut self.effects;
        let turn = Turn {
            now,
            caller,
            effects,
        };
        (&mut self.engine, turn)
    }

    /// The time; while nothing can be stored, that at which this began.
    pub(super) fn now(&self, clock: &dyn Clock) -> Millis {
        let failing = self.keeping.as_ref().and_then(|it| it.failing.as_ref());
        failing.map_or_else(|| clock.now(), |failing| failing.since)
    }

    pub(super) fn is_failing(&self) -> bool {
        let keeping = self.keeping.as_ref();
        keeping.is_some_and(|keeping| keeping.failing.is_some())
    }

    /// Somebody outside has no more what this says; while nothing can be stored, that is kept in mind.
    pub(super) fn take_back(&mut self, now: Millis, given_up: GivenUp) {
        if !self.is_failing() {
            let (engine, mut turn) = self.turn(now, None);
            match &given_up {
                GivenUp::Connection(connection) => engine.disconnect(&mut turn, *connection),
                GivenUp::Deliveries(deliveries) => engine.give_back(&mut turn, deliveries),
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
        let mut refused = Vec::new();
        for call in due {
            let target = Arc::clone(&call.target);
            if !calls.offer(call) {
                refused.push(target);
            }
        }
        for target in refused {
            let (engine, mut turn) = self.turn(now, None);
            engine.report_webhook(&mut turn, &target.id, false);
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
    pub(super) fn with_engine<R>(&self, act: impl FnOnce(&mut Core, Millis) -> R) -> R {
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
            let (engine, mut turn) = core.turn(now, None);
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
        let (engine, mut turn) = core.turn(now, None);
        engine.watch(&mut turn, watched);
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

    pub(super) fn let_out(&self, core: &mut Core, now: Millis) {
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
            let (engine, mut turn) = core.turn(now, None);
            engine.tick(&mut turn);
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

    pub(super) fn wake_timer(&self) {
        if let Some(timer) = self.timer.get() {
            timer.unpark();
        }
    }

    pub(super) fn wake_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn take_back(&self, given_up: GivenUp) {
        self.with_engine(|core, now| core.take_back(now, given_up));
    }

    pub(super) fn withdraw(&self, waiter: WaiterId, handed: Option<Served>) {
        self.with_engine(|core, now| {
            core.waits.remove(&waiter);
            core.engine.cancel_wait(waiter);
            if let Some(Served::Pull(deliveries)) = handed {
                core.take_back(now, GivenUp::Deliveries(deliveries));
            }
        });
    }
}

/// Randomness from the system.
pub(super) fn fresh_seed() -> std::io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
    Ok(seed)
}
