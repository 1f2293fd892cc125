//! Commands that need what only the store has: bodies of completed jobs that have left memory.
//!
//! Such a command is executed until nothing is missing any more. Between two tries the bodies are read without the engine's
//! lock, by the thread that asks, so that the commands behind it keep their order; a runtime with several threads is told
//! that this one is busy.
//!
//! Before a body is read its size is asked for: an answer that would be too long with these bodies alone is refused unread,
//! and of all others no more are read at a time than the [`Allowance`] has room for.
//!
//! [`Allowance`]: super::allowance::Allowance

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use super::allowance::Taken;
use super::shared::{Core, Shared};
use crate::command::bounds::FRAME_MAX;
use crate::command::{Command, CommandError};
use crate::engine::Body;
use crate::storage::{Bodies, StoreError};

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
pub(super) struct Reading<'s> {
    shared: &'s Shared,
    /// Room for the bodies, from before they are read until they may leave memory again.
    taken: Option<Taken<'s>>,
    bodies: Vec<Body>,
    chills: u64,
    /// How often the same was missed.
    tries: u32,
    /// What was missed the last time.
    missed: Vec<u64>,
}

impl<'s> Reading<'s> {
    pub(super) const fn new(shared: &'s Shared) -> Self {
        Self {
            shared,
            taken: None,
            bodies: Vec::new(),
            chills: 0,
            tries: 0,
            missed: Vec::new(),
        }
    }

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
    /// No answer can hold what is missed, the file cannot be read, or it does not hold what it has to.
    pub(super) fn read(&mut self, missed: &Missed) -> Result<(), CommandError> {
        let jobs = &missed.jobs;
        self.tries = if self.missed == *jobs {
            self.tries + 1
        } else {
            0
        };
        self.bodies = match &self.shared.bodies {
            Some(bodies) if self.tries < TRIES_MAX => blocking(|| self.read_from(bodies, missed))?,
            _ => {
                let what = "the data of a completed job";
                return Err(unreadable(&StoreError::Value { what }));
            }
        };
        self.chills = missed.chills;
        self.missed.clone_from(jobs);
        Ok(())
    }

    fn read_from(&mut self, file: &Bodies, missed: &Missed) -> Result<Vec<Body>, CommandError> {
        let jobs = &missed.jobs;
        let weight = file.weigh(jobs).map_err(|error| unreadable(&error))?;
        // A single job is always read: nobody could ask for less of it.
        if missed.command.shows_what_it_misses() && jobs.len() > 1 && weight.payloads > FRAME_MAX {
            return Err(CommandError::ReplyTooLarge);
        }
        // First, as nobody may wait for a part while holding one.
        self.taken = None;
        let bytes = weight.payloads + weight.rest;
        self.taken = Some(self.shared.allowance.take(bytes));
        file.read(jobs).map_err(|error| unreadable(&error))
    }

    /// What was read need not stay in memory.
    pub(super) fn end(self) {
        if !self.missed.is_empty() {
            self.shared.chill();
        }
    }
}

fn unreadable(error: &StoreError) -> CommandError {
    tracing::error!(%error, "a completed job could not be read");
    CommandError::Storage(error.to_string().into())
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
