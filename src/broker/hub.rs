//! Who listens to which events. Publishing happens under the engine's lock, so that events of a queue arrive in
//! the order in which they happened. All events of a publication lie in one batch that its subscribers share, and each
//! gets one message, so that many subscribers cost little there and none wakes for half of a batch. Picking out what he
//! wants is up to the subscriber; encoding too, once for all.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::engine::{Event, EventKind, Millis, Payload};

/// Events a subscriber may be behind by; then its subscription ends.
pub const BACKLOG_MAX: usize = 65_536;
/// Bytes of payloads in batches a subscriber has not finished; then its subscription ends. One batch alone may hold more.
pub const BACKLOG_BYTES_MAX: usize = 268_435_456;

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

/// The events of one publication in one queue, and the bytes of their payloads.
#[derive(Default)]
struct Batch {
    events: Vec<Arc<PublishedEvent>>,
    /// How many there are of each type; `None` for one that nobody wants, of which there are none here.
    kinds: Vec<(&'static str, Option<usize>)>,
    bytes: usize,
}

/// What one subscriber gets of a publication.
struct Message {
    batch: Arc<Batch>,
    /// Events that he wants and may have.
    left: usize,
    /// Those of the batch that have been looked at.
    seen: usize,
}

/// How far a subscriber is behind.
#[derive(Default)]
struct Backlog {
    events: AtomicUsize,
    bytes: AtomicUsize,
}

/// A subscriber's end.
pub struct Subscription {
    receiver: mpsc::UnboundedReceiver<Message>,
    /// The message that is being read.
    current: Option<Message>,
    backlog: Arc<Backlog>,
    types: Types,
    hub: Weak<Hub>,
    queue: Arc<str>,
    id: u64,
}

impl Subscription {
    /// The next event; `None` when the subscriber fell behind by more than [`BACKLOG_MAX`] or [`BACKLOG_BYTES_MAX`].
    pub async fn next(&mut self) -> Option<Arc<PublishedEvent>> {
        loop {
            if let Some(event) = self.next_of_current() {
                return Some(event);
            }
            self.current = Some(self.receiver.recv().await?);
        }
    }

    /// An event that has already happened.
    pub fn try_next(&mut self) -> Option<Arc<PublishedEvent>> {
        loop {
            if let Some(event) = self.next_of_current() {
                return Some(event);
            }
            self.current = Some(self.receiver.try_recv().ok()?);
        }
    }

    /// Events that have happened and have not been read.
    pub fn behind(&self) -> usize {
        self.backlog.events.load(Ordering::Acquire)
    }

    fn next_of_current(&mut self) -> Option<Arc<PublishedEvent>> {
        let message = self.current.as_mut()?;
        while message.left > 0
            && let Some(event) = message.batch.events.get(message.seen)
        {
            message.seen += 1;
            if !wants(&self.types, event.event.kind.name()) {
                continue;
            }
            message.left -= 1;
            let event = Arc::clone(event);
            self.backlog.events.fetch_sub(1, Ordering::Release);
            if message.left == 0 {
                self.finish_current();
            }
            return Some(event);
        }
        self.finish_current();
        None
    }

    fn finish_current(&mut self) {
        if let Some(message) = self.current.take() {
            let bytes = message.batch.bytes;
            self.backlog.bytes.fetch_sub(bytes, Ordering::Release);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.forget(&self.queue, self.id);
        }
    }
}

/// Names of types; `None` means all.
type Types = Option<Arc<[String]>>;

fn wants(types: &Types, kind: &str) -> bool {
    types
        .as_ref()
        .is_none_or(|types| types.iter().any(|name| name == kind))
}

struct Subscriber {
    id: u64,
    types: Types,
    sender: mpsc::UnboundedSender<Message>,
    backlog: Arc<Backlog>,
}

impl Subscriber {
    fn wants(&self, kind: &str) -> bool {
        wants(&self.types, kind)
    }

    /// Hands over what it wants of a batch; false when it has fallen too far behind, or is gone.
    fn offer(&self, batch: &Arc<Batch>) -> bool {
        let wanted = match &self.types {
            None => batch.events.len(),
            Some(_) => {
                let kinds = batch.kinds.iter().filter(|(name, _)| self.wants(name));
                kinds.filter_map(|(_, count)| *count).sum()
            }
        };
        if wanted == 0 {
            return true;
        }
        let kept = self.backlog.bytes.load(Ordering::Acquire);
        if kept > 0 && kept + batch.bytes > BACKLOG_BYTES_MAX {
            return false;
        }
        let left =
            wanted.min(BACKLOG_MAX.saturating_sub(self.backlog.events.load(Ordering::Acquire)));
        self.backlog.events.fetch_add(left, Ordering::Release);
        self.backlog.bytes.fetch_add(batch.bytes, Ordering::Release);
        let message = Message {
            batch: Arc::clone(batch),
            left,
            seen: 0,
        };
        self.sender.send(message).is_ok() && left == wanted
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
        // What lies in it is bounded by the backlog.
        let (sender, receiver) = mpsc::unbounded_channel();
        let backlog = Arc::new(Backlog::default());
        let types: Types = filter.types.map(Into::into);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) as u64;
        let subscriber = Subscriber {
            id,
            types: types.clone(),
            sender,
            backlog: Arc::clone(&backlog),
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
            current: None,
            backlog,
            types,
            hub: Arc::downgrade(self),
            queue: filter.queue,
            id,
        }
    }

    pub(super) fn publish(&self, events: &mut Vec<Event>) {
        let mut subscribers = self.subscribers.lock();
        for (queue, batch) in batches(events, &subscribers) {
            let Some(list) = subscribers.get_mut(&queue) else {
                continue;
            };
            let batch = Arc::new(batch);
            // Without its sender a subscriber sees the end once it has read what it had, and closes.
            let before = list.len();
            list.retain(|subscriber| subscriber.offer(&batch));
            if list.len() < before {
                self.changes.fetch_add(1, Ordering::Release);
            }
            if list.is_empty() {
                subscribers.remove(&queue);
            }
        }
    }

    /// An event of each queue in which somebody wants to hear of this; false when nobody does.
    pub(super) fn announce(&self, at: Millis, kind: &EventKind) -> bool {
        let mut events: Vec<_> = self
            .subscribers
            .lock()
            .iter()
            .filter(|(_, list)| list.iter().any(|subscriber| subscriber.wants(kind.name())))
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

/// The events that somebody wants, by queue, in their order.
fn batches(
    events: &mut Vec<Event>,
    subscribers: &HashMap<Arc<str>, Vec<Subscriber>>,
) -> HashMap<Arc<str>, Batch> {
    let mut batches: HashMap<Arc<str>, Batch> = HashMap::new();
    for event in events.drain(..) {
        let Some(list) = subscribers.get(&event.queue) else {
            continue;
        };
        let batch = batches.entry(Arc::clone(&event.queue)).or_default();
        let name = event.kind.name();
        if !batch.kinds.iter().any(|(kind, _)| *kind == name) {
            // Asked once for many events, since there may be many subscribers.
            let is_wanted = list.iter().any(|subscriber| subscriber.wants(name));
            batch.kinds.push((name, is_wanted.then_some(0)));
        }
        let kind = batch.kinds.iter_mut().find(|(kind, _)| *kind == name);
        let Some((_, Some(count))) = kind else {
            continue;
        };
        *count += 1;
        batch.bytes += payload_bytes(&event.kind);
        batch.events.push(Arc::new(PublishedEvent {
            event,
            encoded: OnceLock::new(),
        }));
    }
    batches
}

/// Bytes of somebody's own that an event keeps alive.
fn payload_bytes(kind: &EventKind) -> usize {
    let len =
        |payload: &Option<Payload>| payload.as_ref().map_or(0, |payload| payload.bytes().len());
    let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
    match kind {
        EventKind::Completed { result } => len(result),
        EventKind::Failed { error, data, .. } => text(error) + len(data),
        EventKind::Progress { message, .. } => text(message),
        _ => 0,
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
    fn a_publication_is_one_message_for_each_who_wants_some_of_it() {
        let hub = Arc::new(Hub::default());
        let mut all = hub.subscribe(on("q", &[]));
        let mut some = hub.subscribe(on("q", &["paused", "x"]));
        let mut none = hub.subscribe(on("q", &["stalled"]));
        let kinds = [EventKind::Paused, EventKind::Resumed, EventKind::Paused];
        hub.publish(&mut kinds.map(event).to_vec());
        let waiting = [&all, &some, &none].map(|one| (one.receiver.len(), one.behind()));
        assert_eq!(waiting, [(1, 3), (1, 2), (0, 0)]);
        let read = |subscription: &mut Subscription| {
            let told = std::iter::from_fn(|| subscription.try_next());
            told.map(|told| told.event().kind.name())
                .collect::<Vec<_>>()
        };
        assert_eq!(read(&mut all), ["paused", "resumed", "paused"]);
        assert_eq!(read(&mut some), ["paused", "paused"]);
        assert!(read(&mut none).is_empty());
        assert_eq!([&all, &some].map(Subscription::behind), [0, 0]);
    }

    #[test]
    fn an_event_is_encoded_once_for_many_and_kept_by_nobody_who_does_not_want_it() {
        let hub = Arc::new(Hub::default());
        let mut subscribers = [(); 3].map(|()| hub.subscribe(on("q", &["paused"])));
        hub.publish(&mut vec![
            event(EventKind::Resumed),
            event(EventKind::Paused),
        ]);
        let mut encoded = 0;
        for subscriber in &mut subscribers {
            let message = subscriber.receiver.try_recv().unwrap();
            assert_eq!(message.batch.events.len(), 1, "nobody wants the other");
            subscriber.current = Some(message);
            let published = subscriber.try_next().unwrap();
            let bytes = published.encoded(|event| {
                encoded += 1;
                event.kind.name().as_bytes().to_vec()
            });
            assert_eq!(bytes, b"paused");
        }
        assert_eq!(encoded, 1);
    }

    #[test]
    fn payloads_that_wait_for_a_subscriber_are_bounded() {
        const MIB: usize = 1_048_576;
        let hub = Arc::new(Hub::default());
        let mut reading = hub.subscribe(on("q", &[]));
        let mut lazy = hub.subscribe(on("q", &["completed"]));
        let result = Payload::new(&vec![0xc0; MIB]);
        let completed = |jobs: usize| {
            let result = Some(result.clone());
            hub.publish(&mut vec![event(EventKind::Completed { result }); jobs]);
        };
        completed(2 * BACKLOG_BYTES_MAX / MIB);
        let mut read = 0;
        while reading.try_next().is_some() {
            read += 1;
        }
        assert_eq!(read, 2 * BACKLOG_BYTES_MAX / MIB, "one batch may be larger");
        hub.publish(&mut vec![event(EventKind::Paused)]);
        completed(1);
        assert_eq!(hub.subscribers.lock()["q"].len(), 1);
        assert_eq!((lazy.behind(), reading.behind()), (read, 2));
        assert_eq!(std::iter::from_fn(|| lazy.try_next()).count(), read);
        assert!(lazy.receiver.is_closed());
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
