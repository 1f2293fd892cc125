//! How much of what was read from the file may be in memory at a time, whoever asks for it.
//!
//! Each takes what its reading needs before it reads, in the order of asking, so that small readings do not keep a large one
//! waiting for ever. Nobody takes a second part before the first is given back: two that did could wait for each other.

use parking_lot::{Condvar, Mutex};

use crate::command::bounds::FRAME_MAX;

/// Bytes of bodies that all readings together hold at a time: those of two answers of full length. A larger reading takes
/// place alone.
pub const READ_BYTES_MAX: usize = 2 * FRAME_MAX;

/// Bytes that are handed out and come back.
pub(super) struct Allowance {
    max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    taken: usize,
    /// The number that the next one to ask gets, and the one whose turn it is.
    next: u64,
    turn: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self::new(READ_BYTES_MAX)
    }
}

impl Allowance {
    fn new(max: usize) -> Self {
        Self {
            max,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits for so many bytes, or for all there are when that is less.
    pub(super) fn take(&self, bytes: usize) -> Taken<'_> {
        let bytes = bytes.min(self.max);
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        while state.turn != number || state.taken + bytes > self.max {
            self.changed.wait(&mut state);
        }
        state.turn += 1;
        state.taken += bytes;
        drop(state);
        self.changed.notify_all();
        Taken { of: self, bytes }
    }
}

/// A part of an allowance, until it is dropped.
pub(super) struct Taken<'a> {
    of: &'a Allowance,
    bytes: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.of.state.lock().taken -= self.bytes;
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn no_more_is_taken_at_a_time_than_there_is() {
        let (allowance, held) = (Allowance::new(10), AtomicUsize::new(0));
        thread::scope(|scope| {
            for bytes in [3, 4, 7, 10, 25, 1, 0, 6] {
                let (allowance, held) = (&allowance, &held);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let taken = allowance.take(bytes);
                        let all = held.fetch_add(taken.bytes, Ordering::SeqCst) + taken.bytes;
                        assert!(all <= 10, "{all}");
                        thread::yield_now();
                        held.fetch_sub(taken.bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(allowance.state.lock().taken, 0);
    }

    #[test]
    fn whoever_asked_first_is_served_first() {
        let allowance = Allowance::new(10);
        let (sender, receiver) = mpsc::channel();
        let held = allowance.take(5);
        thread::scope(|scope| {
            for (waiting, bytes) in [(2, 8), (3, 1)] {
                let (allowance, sender) = (&allowance, sender.clone());
                scope.spawn(move || {
                    let _taken = allowance.take(bytes);
                    sender.send(bytes).unwrap();
                });
                while allowance.state.lock().next < waiting {
                    thread::yield_now();
                }
            }
            assert!(receiver.try_recv().is_err(), "the small one waits as well");
            drop(held);
        });
        let mut served = [receiver.recv().unwrap(), receiver.recv().unwrap()];
        served.sort_unstable();
        assert_eq!(served, [1, 8]);
    }
}
