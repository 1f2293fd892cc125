//! What becomes of the engine's steps: they are stored, or lost and the engine is loaded again, or tried again.
//!
//! The [`writer`](super::writer) calls this; [`keeping`](super::keeping) knows which step is how far.

use std::time::Duration;

use super::keeping::Keeping;
use super::shared::{Core, Shared, fresh_seed};
use crate::command::CommandError;
use crate::engine::{Changes, Durability, Effects, Millis, StorageStatus, StorageUsage};
use crate::storage::{Bodies, Sizes, Store, StoreError};

/// How much the store holds, and how long its last commit took.
pub(super) const fn usage(sizes: Sizes, commit: Duration) -> StorageUsage {
    StorageUsage {
        file_bytes: sizes.main,
        log_bytes: sizes.wal,
        unsaved: 0,
        commit,
    }
}

/// How the store is, apart from its usage.
pub(super) fn status(
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
    fn set_trouble(&mut self, error: Option<&StoreError>, now: Millis) {
        let Some(keeping) = &self.keeping else {
            return;
        };
        let since = error.map(|_| now);
        let usage = self.engine.storage_usage();
        let status = status(keeping.durability, error, since);
        self.engine.set_storage(StorageStatus { usage, ..status });
    }
}

impl Shared {
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

    /// The writer is about to close the file.
    pub(super) fn close_readers(&self) {
        self.bodies.iter().for_each(Bodies::close);
    }

    pub(super) fn file_closed(&self) {
        self.closed.cancel();
    }
}
