//! Who listens to which events. Publishing happens under the engine's lock, so that events of a queue arrive in
//! the order in which they happened; it only clones pointers. Encoding happens in the subscribers, once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::engine::{Event, EventKind, Millis};

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
        self.wants(&event.kind)
    }

    fn wants(&self, kind: &EventKind) -> bool {
        self.types
            .as_ref()
            .is_none_or(|types| types.iter().any(|name| name == kind.name()))
    }

    fn wants_notices(&self) -> bool {
        let is_notice = |name: &String| EventKind::NOTICES.contains(&name.as_str());
        let types = self.types.as_ref();
        types.is_none_or(|types| types.iter().any(is_notice))
    }
}

/// All subscribers.
#[derive(Default)]
pub(super) struct Hub {
    subscribers: Mutex<HashMap<Arc<str>, Vec<Subscriber>>>,
    /// Rises whenever a queue gets its first subscriber or loses its last one, or its first or last one for notices.
    changes: AtomicUsize,
    next_id: AtomicUsize,
}

impl Hub {
    /// Rises whenever [`Hub::queues`] or [`Hub::watched`] changes.
    pub(super) fn changes(&self) -> usize {
        self.changes.load(Ordering::Acquire)
    }

    /// The queues that somebody listens to; the engine makes no events of others.
    pub(super) fn queues(&self) -> HashSet<Arc<str>> {
        self.subscribers.lock().keys().cloned().collect()
    }

    /// The queues that somebody wants notices of. Workers that only hear of stalls are not among them.
    pub(super) fn watched(&self) -> BTreeSet<Arc<str>> {
        let subscribers = self.subscribers.lock();
        let watched = subscribers.iter().filter(|(_, list)| is_watched(list));
        watched.map(|(queue, _)| Arc::clone(queue)).collect()
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
        let was_watched = is_watched(list);
        list.push(subscriber);
        if list.len() == 1 || is_watched(list) != was_watched {
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
            let before = list.len();
            list.retain(|subscriber| {
                !subscriber.accepts(&published.event)
                    || subscriber.sender.try_send(Arc::clone(&published)).is_ok()
            });
            if list.len() < before {
                self.changes.fetch_add(1, Ordering::Release);
            }
            if list.is_empty() {
                subscribers.remove(&published.event.queue);
            }
        }
    }

    /// An event of each queue in which somebody wants to hear of this; false when nobody does.
    pub(super) fn announce(&self, at: Millis, kind: &EventKind) -> bool {
        let mut events: Vec<_> = self
            .subscribers
            .lock()
            .iter()
            .filter(|(_, list)| list.iter().any(|subscriber| subscriber.wants(kind)))
            .map(|(queue, _)| Event {
                queue: Arc::clone(queue),
                job: None,
                at,
                kind: kind.clone(),
            })
            .collect();
        let heard = !events.is_empty();
        self.publish(&mut events);
        heard
    }

    fn forget(&self, queue: &Arc<str>, id: u64) {
        let mut subscribers = self.subscribers.lock();
        let Some(list) = subscribers.get_mut(queue) else {
            return;
        };
        let was_watched = is_watched(list);
        list.retain(|subscriber| subscriber.id != id);
        if list.is_empty() || is_watched(list) != was_watched {
            self.changes.fetch_add(1, Ordering::Release);
        }
        if list.is_empty() {
            subscribers.remove(queue);
        }
    }
}

fn is_watched(subscribers: &[Subscriber]) -> bool {
    subscribers.iter().any(Subscriber::wants_notices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(queue: &str, types: &[&str]) -> EventFilter {
        let names = types.iter().map(|name| (*name).to_owned());
        EventFilter {
            queue: queue.into(),
            types: (!types.is_empty()).then(|| names.collect()),
        }
    }

    fn event(kind: EventKind) -> Event {
        Event {
            queue: "q".into(),
            job: None,
            at: 0,
            kind,
        }
    }

    #[test]
    fn whoever_wants_a_notice_has_its_queue_watched_as_long_as_it_listens() {
        let hub = Arc::new(Hub::default());
        let watched = || {
            hub.watched()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let mut changes = 0;
        let mut changed = || std::mem::replace(&mut changes, hub.changes()) != hub.changes();
        let stalls = hub.subscribe(on("q", &["stalled"]));
        assert!(changed() && watched().is_empty());
        let more = hub.subscribe(on("q", &["stalled", "server:memory-warning"]));
        assert!(!changed() && watched().is_empty());
        for name in EventKind::NOTICES {
            let first = hub.subscribe(on("q", &["stalled", name]));
            assert!(changed());
            let second = hub.subscribe(on("q", &[]));
            assert!(!changed());
            drop(first);
            assert!(!changed());
            assert_eq!(watched(), ["q"]);
            drop(second);
            assert!(changed() && watched().is_empty());
        }
        drop(more);
        assert!(!changed());
        let other = hub.subscribe(on("r", &[]));
        assert!(changed());
        assert_eq!(watched(), ["r"]);
        drop((other, stalls));
        assert!(changed() && watched().is_empty() && hub.queues().is_empty());
    }

    #[test]
    fn a_subscriber_that_fell_behind_wants_no_notices_any_more() {
        let hub = Arc::new(Hub::default());
        let stalls = hub.subscribe(on("q", &["stalled"]));
        let slow = hub.subscribe(on("q", &[]));
        let before = hub.changes();
        hub.publish(&mut vec![event(EventKind::Paused); BACKLOG_MAX]);
        assert_eq!((hub.watched().len(), hub.changes()), (1, before));
        hub.publish(&mut vec![event(EventKind::Paused)]);
        assert!(hub.watched().is_empty() && hub.changes() > before);
        drop((stalls, slow));
    }

    #[test]
    fn an_announcement_reaches_each_who_wants_it_as_an_event_of_its_queue() {
        let hub = Arc::new(Hub::default());
        let mut stalls = hub.subscribe(on("q", &["stalled"]));
        assert!(!hub.announce(7, &EventKind::Paused));
        let mut q = hub.subscribe(on("q", &["paused"]));
        let mut r = hub.subscribe(on("r", &[]));
        assert!(hub.announce(7, &EventKind::Paused));
        for (subscription, queue) in [(&mut q, "q"), (&mut r, "r")] {
            let published = subscription.try_next().unwrap();
            let event = published.event();
            assert_eq!((&*event.queue, event.at), (queue, 7));
            assert!(subscription.try_next().is_none());
        }
        assert!(stalls.try_next().is_none());
    }
}
