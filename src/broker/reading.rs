//! Commands that need what only the store has: bodies of completed jobs that have left memory.
//!
//! Such a command is executed until nothing is missing any more. Between two tries the bodies are read without the engine's
//! lock, by the thread that asks, so that the commands behind it keep their order; a runtime with several threads is told
//! that this one is busy.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use super::shared::{Core, Shared};
use crate::command::{Command, CommandError};
use crate::engine::Body;
use crate::storage::StoreError;

/// A command that misses something.
pub(super) struct Missed {
    pub(super) command: Command,
    /// The jobs whose bodies it misses.
    pub(super) jobs: Vec<u64>,
    /// [`Engine::chills`](crate::engine::Engine::chills) at that time.
    pub(super) chills: u64,
}

/// Readings of the same bodies, when others send them away again each time; more than chance ever needs.
const TRIES_MAX: u32 = 100;

/// What has been read for the command in hand.
#[derive(Default)]
pub(super) struct Reading {
    bodies: Vec<Body>,
    chills: u64,
    /// How often the same was missed.
    tries: u32,
    /// What was missed the last time.
    missed: Vec<u64>,
}

impl Reading {
    /// Gives the engine what was read; under its lock, just before the command is executed.
    pub(super) fn hand_over(&mut self, core: &mut Core) {
        if !self.bodies.is_empty() {
            let bodies = std::mem::take(&mut self.bodies);
            core.engine.warm_as_of(bodies, self.chills);
        }
    }

    /// Reads what a command misses; without the engine's lock.
    ///
    /// # Errors
    /// The file cannot be read, or it does not hold what it has to.
    pub(super) fn read(&mut self, shared: &Shared, missed: &Missed) -> Result<(), CommandError> {
        let jobs = &missed.jobs;
        self.tries = if self.missed == *jobs {
            self.tries + 1
        } else {
            0
        };
        let read = || match &shared.bodies {
            Some(bodies) if self.tries < TRIES_MAX => bodies.read(jobs),
            _ => Err(StoreError::Value {
                what: "the data of a completed job",
            }),
        };
        let bodies = blocking(read).map_err(|error| {
            tracing::error!(%error, "a completed job could not be read");
            CommandError::Storage(error.to_string().into())
        })?;
        (self.bodies, self.chills) = (bodies, missed.chills);
        self.missed.clone_from(jobs);
        Ok(())
    }

    /// What was read need not stay in memory.
    pub(super) fn end(self, shared: &Shared) {
        if !self.missed.is_empty() {
            shared.chill();
        }
    }
}

/// Runs what blocks, without holding up the other tasks of a runtime that has other threads.
fn blocking<R>(act: impl FnOnce() -> R) -> R {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    if flavor.is_ok_and(|flavor| flavor == RuntimeFlavor::MultiThread) {
        block_in_place(act)
    } else {
        act()
    }
}
