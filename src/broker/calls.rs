//! Calls of webhooks on their way from the engine to whoever makes them.
//!
//! The engine's lock is held while a call is put in here, so that takes no time and never waits: what does not fit is
//! dropped and counted. A call takes up room until it is over, retries included. The room is per webhook, so that a
//! receiver which hangs costs the others nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::engine::WebhookCall;

/// Calls of one webhook that are not over.
pub const CALLS_MAX: usize = 1_000;
/// Bytes that the calls of one webhook may keep alive together; a single one may be larger.
pub const CALL_BYTES_MAX: usize = 16 * 1_024 * 1_024;
/// Bytes that the calls of all webhooks may keep alive together.
pub const ALL_CALL_BYTES_MAX: usize = 256 * 1_024 * 1_024;

/// What calls that are not over take up.
#[derive(Default)]
struct Room {
    /// Per webhook, calls and bytes; no entry without calls.
    taken: HashMap<Arc<str>, (usize, usize)>,
    bytes: usize,
}

impl Room {
    /// Takes room for a call of this many bytes; whether there was any.
    fn take(&mut self, webhook: &Arc<str>, bytes: usize) -> bool {
        let (calls, kept) = self.taken.get(webhook).copied().unwrap_or_default();
        let fits = calls == 0 || (calls < CALLS_MAX && kept + bytes <= CALL_BYTES_MAX);
        if !fits || (self.bytes > 0 && self.bytes + bytes > ALL_CALL_BYTES_MAX) {
            return false;
        }
        self.taken
            .insert(Arc::clone(webhook), (calls + 1, kept + bytes));
        self.bytes += bytes;
        true
    }

    fn give_back(&mut self, webhook: &Arc<str>, bytes: usize) {
        self.bytes -= bytes;
        if let Some((calls, kept)) = self.taken.get_mut(webhook) {
            (*calls, *kept) = (*calls - 1, *kept - bytes);
            if *calls == 0 {
                self.taken.remove(webhook);
            }
        }
    }
}

/// A call that is not over; it takes up room until it is dropped.
pub struct PendingCall {
    call: WebhookCall,
    room: Arc<Mutex<Room>>,
}

impl PendingCall {
    /// The call.
    pub const fn call(&self) -> &WebhookCall {
        &self.call
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let (webhook, bytes) = (&self.call.target.id, self.call.bytes());
        self.room.lock().give_back(webhook, bytes);
    }
}

/// The end from which calls are taken.
pub struct Calls {
    receiver: mpsc::UnboundedReceiver<PendingCall>,
    dropped: Arc<AtomicU64>,
}

impl Calls {
    /// The next call; `None` when the broker is gone.
    pub async fn next(&mut self) -> Option<PendingCall> {
        self.receiver.recv().await
    }

    /// How many calls found no room since the last look.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

/// The end into which the broker puts them.
pub(super) struct CallSender {
    sender: mpsc::UnboundedSender<PendingCall>,
    room: Arc<Mutex<Room>>,
    dropped: Arc<AtomicU64>,
}

impl CallSender {
    /// Puts in a call; false when there was no room for it. Once nobody takes calls any more they vanish.
    pub(super) fn offer(&self, call: WebhookCall) -> bool {
        if !self.room.lock().take(&call.target.id, call.bytes()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let room = Arc::clone(&self.room);
        // An error gives the call back, and dropping it the room.
        let _ = self.sender.send(PendingCall { call, room });
        true
    }
}

/// Both ends. What lies between them is bounded by the room.
pub(super) fn channel() -> (CallSender, Calls) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let dropped = Arc::new(AtomicU64::new(0));
    let calls = Calls {
        receiver,
        dropped: Arc::clone(&dropped),
    };
    let sender = CallSender {
        sender,
        room: Arc::default(),
        dropped,
    };
    (sender, calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_per_webhook_and_over_all() {
        const MIB: usize = 1_024 * 1_024;
        let mut room = Room::default();
        let ids: Vec<Arc<str>> = (0..20).map(|number| format!("w{number}").into()).collect();
        assert!(room.take(&ids[0], 40 * MIB), "one alone may be larger");
        assert!(!room.take(&ids[0], 1), "but then no other");
        for _ in 0..CALLS_MAX {
            assert!(room.take(&ids[1], 10));
        }
        assert!(!room.take(&ids[1], 10), "one too many");
        for id in &ids[2..15] {
            assert!(room.take(id, 16 * MIB));
        }
        assert!(!room.take(&ids[15], 16 * MIB), "too much over all");
        assert!(room.take(&ids[15], 1));
        room.give_back(&ids[2], 16 * MIB);
        assert!(room.take(&ids[16], 8 * MIB));
        room.give_back(&ids[1], 10);
        assert!(room.take(&ids[1], 10));
    }

    #[test]
    fn room_that_is_given_back_leaves_nothing() {
        let mut room = Room::default();
        let id: Arc<str> = "w".into();
        assert!(room.take(&id, 5) && room.take(&id, 7));
        room.give_back(&id, 5);
        room.give_back(&id, 7);
        assert_eq!((room.taken.len(), room.bytes), (0, 0));
    }
}
