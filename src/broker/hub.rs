//! Who listens to which events. Publishing happens under the engine's lock, so that events of a queue arrive in
//! the order in which they happened; it only clones pointers. Encoding happens in the subscribers, once.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::engine::Event;

/// Events a subscriber may be behind by; then its subscription ends.
pub const BACKLOG_MAX: usize = 65_536;

/// Which events a subscriber wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// Of this queue.
    pub queue: Arc<str>,
    /// Of these types (wire names); `None` means all.
    pub types: Option<Vec<String>>,
}

/// An event on its way to subscribers, with the one encoding that they share.
pub struct PublishedEvent {
    event: Event,
    encoded: OnceLock<Vec<u8>>,
}

impl PublishedEvent {
    /// The event.
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// Its encoding, made by the first subscriber that asks.
    pub fn encoded(&self, encode: impl FnOnce(&Event) -> Vec<u8>) -> &[u8] {
        self.encoded.get_or_init(|| encode(&self.event))
    }
}

/// A subscriber's end.
pub struct Subscription {
    receiver: mpsc::Receiver<Arc<PublishedEvent>>,
    hub: Weak<Hub>,
    queue: Arc<str>,
    id: u64,
}

impl Subscription {
    /// The next event; `None` when the subscriber fell behind by more than [`BACKLOG_MAX`].
    pub async fn next(&mut self) -> Option<Arc<PublishedEvent>> {
        self.receiver.recv().await
    }

    /// An event that has already happened.
    pub fn try_next(&mut self) -> Option<Arc<PublishedEvent>> {
        self.receiver.try_recv().ok()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.forget(&self.queue, self.id);
        }
    }
}

struct Subscriber {
    id: u64,
    types: Option<Vec<String>>,
    sender: mpsc::Sender<Arc<PublishedEvent>>,
}

impl Subscriber {
    fn accepts(&self, event: &Event) -> bool {
        self.types
            .as_ref()
            .is_none_or(|types| types.iter().any(|name| name == event.kind.name()))
    }
}

/// All subscribers.
#[derive(Default)]
pub(super) struct Hub {
    subscribers: Mutex<HashMap<Arc<str>, Vec<Subscriber>>>,
    /// Rises whenever a queue gets its first subscriber or loses its last one.
    changes: AtomicUsize,
    next_id: AtomicUsize,
}

impl Hub {
    /// How often [`Hub::queues`] has changed.
    pub(super) fn changes(&self) -> usize {
        self.changes.load(Ordering::Acquire)
    }

    /// The queues that somebody listens to; the engine makes no events of others.
    pub(super) fn queues(&self) -> HashSet<Arc<str>> {
        self.subscribers.lock().keys().cloned().collect()
    }

    pub(super) fn subscribe(self: &Arc<Self>, filter: EventFilter) -> Subscription {
        let (sender, receiver) = mpsc::channel(BACKLOG_MAX);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) as u64;
        let subscriber = Subscriber {
            id,
            types: filter.types,
            sender,
        };
        let mut subscribers = self.subscribers.lock();
        let list = subscribers.entry(Arc::clone(&filter.queue)).or_default();
        list.push(subscriber);
        if list.len() == 1 {
            self.changes.fetch_add(1, Ordering::Release);
        }
        drop(subscribers);
        Subscription {
            receiver,
            hub: Arc::downgrade(self),
            queue: filter.queue,
            id,
        }
    }

    pub(super) fn publish(&self, events: &mut Vec<Event>) {
        let mut subscribers = self.subscribers.lock();
        for event in events.drain(..) {
            let Some(list) = subscribers.get_mut(&event.queue) else {
                continue;
            };
            if !list.iter().any(|subscriber| subscriber.accepts(&event)) {
                continue;
            }
            let published = Arc::new(PublishedEvent {
                event,
                encoded: OnceLock::new(),
            });
            // A full channel drops the sender: the subscriber sees its end and closes.
            list.retain(|subscriber| {
                !subscriber.accepts(&published.event)
                    || subscriber.sender.try_send(Arc::clone(&published)).is_ok()
            });
            if list.is_empty() {
                subscribers.remove(&published.event.queue);
                self.changes.fetch_add(1, Ordering::Release);
            }
        }
    }

    fn forget(&self, queue: &Arc<str>, id: u64) {
        let mut subscribers = self.subscribers.lock();
        let Some(list) = subscribers.get_mut(queue) else {
            return;
        };
        list.retain(|subscriber| subscriber.id != id);
        if list.is_empty() {
            subscribers.remove(queue);
            self.changes.fetch_add(1, Ordering::Release);
        }
    }
}
