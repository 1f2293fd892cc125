//! Answers that nobody may hear before what they tell is stored.

use std::collections::VecDeque;

use crate::broker::Storing;
use crate::command::CommandError;

/// Runs whose answers may wait, before more frames are taken.
const RUNS_MAX: usize = 64;

/// What is held, in order; each run with what ends once it is stored. What comes behind a run waits with it.
pub(super) struct Holding<T> {
    runs: VecDeque<(Storing, Vec<T>)>,
}

impl<T> Default for Holding<T> {
    fn default() -> Self {
        Self {
            runs: VecDeque::new(),
        }
    }
}

impl<T> Holding<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether so much is held that the client has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.runs.len() >= RUNS_MAX
    }

    /// Holds what comes until that has ended.
    pub(super) fn until(&mut self, storing: Storing) {
        self.runs.push_back((storing, Vec::new()));
    }

    /// Where something said now has to wait, if it has to.
    pub(super) fn last(&mut self) -> Option<&mut Vec<T>> {
        self.runs.back_mut().map(|(_, held)| held)
    }

    /// Everything held.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut T> {
        self.runs.iter_mut().flat_map(|(_, held)| held)
    }

    /// Ends once the first run is stored, or will never be; never while nothing is held.
    pub(super) async fn stored(&mut self) -> Result<(), CommandError> {
        match self.runs.front_mut() {
            Some((storing, _)) => storing.as_mut().await,
            None => std::future::pending().await,
        }
    }

    /// Takes out what the first run has held.
    pub(super) fn release(&mut self) -> Vec<T> {
        let first = self.runs.pop_front();
        first.map(|(_, held)| held).unwrap_or_default()
    }
}
