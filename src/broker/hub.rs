//! Who listens to which events. Publishing happens under the engine's lock, so that events of a queue arrive in
//! the order in which they happened. All events of a publication lie in one batch that its subscribers share, and each
//! gets one message, so that many subscribers cost little there and none wakes for half of a batch. Picking out what he
//! wants is up to the subscriber; encoding too, once for all.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::engine::{Event, EventKind, EventTypes, Millis, Payload};

/// Events a subscriber may be behind by; then its subscription ends.
pub const BACKLOG_MAX: usize = 65_536;
/// Bytes of payloads in batches a subscriber has not finished, each counted twice, since an encoding repeats it; then its
/// subscription ends. One batch alone may hold more.
pub const BACKLOG_BYTES_MAX: usize = 268_435_456;

/// Which events a subscriber wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// Of this queue.
    pub queue: Arc<str>,
    /// Of these types.
    pub types: EventTypes,
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

/// The events of one publication in one queue that somebody wants, their types, and the bytes of their payloads and of
/// what repeats them.
#[derive(Default)]
struct Batch {
    events: Vec<Arc<PublishedEvent>>,
    types: EventTypes,
    bytes: usize,
}

impl Batch {
    /// How many of the events are of these types.
    fn count(&self, types: EventTypes) -> usize {
        if types.covers(self.types) {
            return self.events.len();
        }
        let wanted = |event: &&Arc<PublishedEvent>| types.contains(event.event.kind.event_type());
        self.events.iter().filter(wanted).count()
    }
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
    types: EventTypes,
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
            if !self.types.contains(event.event.kind.event_type()) {
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

struct Subscriber {
    id: u64,
    types: EventTypes,
    sender: mpsc::UnboundedSender<Message>,
    backlog: Arc<Backlog>,
}

impl Subscriber {
    /// Hands over what it wants of a batch; false when it has fallen too far behind, or is gone.
    fn offer(&self, batch: &Arc<Batch>) -> bool {
        if !self.types.meets(batch.types) {
            return true;
        }
        let wanted = batch.count(self.types);
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
}

/// Who listens to one queue.
#[derive(Default)]
struct Listeners {
    list: Vec<Subscriber>,
    /// What any of them wants.
    wanted: EventTypes,
}

#[derive(Default)]
struct State {
    queues: HashMap<Arc<str>, Listeners>,
    /// Queues of which something else is wanted than was told.
    changed: HashSet<Arc<str>>,
}

/// All subscribers.
#[derive(Default)]
pub(super) struct Hub {
    state: Mutex<State>,
    /// Rises whenever something else is wanted of a queue.
    changes: AtomicUsize,
    next_id: AtomicUsize,
}

impl Hub {
    /// Rises whenever there is something for [`Hub::take_changes`].
    pub(super) fn changes(&self) -> usize {
        self.changes.load(Ordering::Acquire)
    }

    /// The queues of which something else is wanted than before the last call, with what that is; the engine makes no other
    /// events.
    pub(super) fn take_changes(&self) -> Vec<(Arc<str>, EventTypes)> {
        let mut state = self.state.lock();
        let State { queues, changed } = &mut *state;
        let wanted = |queue: &Arc<str>| queues.get(queue).map_or(EventTypes::NONE, |to| to.wanted);
        changed
            .drain()
            .map(|queue| (Arc::clone(&queue), wanted(&queue)))
            .collect()
    }

    /// Notes what is wanted of a queue.
    fn want(&self, state: &mut State, queue: &Arc<str>, wanted: EventTypes) {
        let Some(listeners) = state.queues.get_mut(queue) else {
            return;
        };
        if std::mem::replace(&mut listeners.wanted, wanted) != wanted {
            state.changed.insert(Arc::clone(queue));
            self.changes.fetch_add(1, Ordering::Release);
        }
        if listeners.list.is_empty() {
            state.queues.remove(queue);
        }
    }

    /// Keeps some of the subscribers of a queue.
    fn retain(
        &self,
        state: &mut State,
        queue: &Arc<str>,
        is_kept: impl FnMut(&Subscriber) -> bool,
    ) {
        let Some(listeners) = state.queues.get_mut(queue) else {
            return;
        };
        let before = listeners.list.len();
        listeners.list.retain(is_kept);
        if listeners.list.len() < before {
            let types = listeners.list.iter().map(|subscriber| subscriber.types);
            let wanted = types.fold(EventTypes::NONE, EventTypes::and);
            self.want(state, queue, wanted);
        }
    }

    pub(super) fn subscribe(self: &Arc<Self>, filter: EventFilter) -> Subscription {
        // What lies in it is bounded by the backlog.
        let (sender, receiver) = mpsc::unbounded_channel();
        let backlog = Arc::new(Backlog::default());
        let types = filter.types;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) as u64;
        let subscriber = Subscriber {
            id,
            types,
            sender,
            backlog: Arc::clone(&backlog),
        };
        let mut state = self.state.lock();
        let listeners = state.queues.entry(Arc::clone(&filter.queue)).or_default();
        listeners.list.push(subscriber);
        let wanted = listeners.wanted.and(types);
        self.want(&mut state, &filter.queue, wanted);
        drop(state);
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
        let mut state = self.state.lock();
        for (queue, batch) in batches(events, &state.queues) {
            let batch = Arc::new(batch);
            // Without its sender a subscriber sees the end once it has read what it had, and closes.
            self.retain(&mut state, &queue, |subscriber| subscriber.offer(&batch));
        }
    }

    /// An event of each queue in which somebody wants to hear of this; false when nobody does.
    pub(super) fn announce(&self, at: Millis, kind: &EventKind) -> bool {
        let mut events: Vec<_> = self
            .state
            .lock()
            .queues
            .iter()
            .filter(|(_, listeners)| listeners.wanted.contains(kind.event_type()))
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

    /// What anybody wants to hear of a queue.
    pub(super) fn wanted(&self, queue: &Arc<str>) -> EventTypes {
        let state = self.state.lock();
        let listeners = state.queues.get(queue);
        listeners.map_or(EventTypes::NONE, |listeners| listeners.wanted)
    }

    fn forget(&self, queue: &Arc<str>, id: u64) {
        let mut state = self.state.lock();
        self.retain(&mut state, queue, |subscriber| subscriber.id != id);
    }
}

/// The events that somebody wants, by queue, in their order.
fn batches(
    events: &mut Vec<Event>,
    listeners: &HashMap<Arc<str>, Listeners>,
) -> Vec<(Arc<str>, Batch)> {
    let mut batches: Vec<(Arc<str>, Batch)> = Vec::new();
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    // Most events are of the queue of the one before.
    let mut last = None;
    for event in events.drain(..) {
        let place = match &last {
            Some((queue, place)) if Arc::ptr_eq(queue, &event.queue) => *place,
            _ => {
                let place = places.entry(Arc::clone(&event.queue)).or_insert_with(|| {
                    batches.push((Arc::clone(&event.queue), Batch::default()));
                    batches.len() - 1
                });
                last = Some((Arc::clone(&event.queue), *place));
                *place
            }
        };
        let Some((queue, batch)) = batches.get_mut(place) else {
            continue;
        };
        let kind = event.kind.event_type();
        let wanted = listeners.get(queue).map(|listeners| listeners.wanted);
        if !wanted.is_some_and(|wanted| wanted.contains(kind)) {
            continue;
        }
        batch.types = batch.types.with(kind);
        batch.bytes += 2 * payload_bytes(&event.kind);
        batch.events.push(Arc::new(PublishedEvent {
            event,
            encoded: OnceLock::new(),
        }));
    }
    batches.retain(|(_, batch)| !batch.events.is_empty());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn on(queue: &str, types: &[&str]) -> EventFilter {
        EventFilter {
            queue: queue.into(),
            types: if types.is_empty() {
                EventTypes::ALL
            } else {
                EventTypes::named(types.iter().copied())
            },
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
    fn what_is_wanted_of_a_queue_is_told_when_it_changes() {
        let hub = Arc::new(Hub::default());
        let told = |queue: &str, types: &[&str]| {
            let types = EventTypes::named(types.iter().copied());
            let count = hub.changes();
            assert_eq!(hub.take_changes(), [(Arc::from(queue), types)]);
            count
        };
        let stalls = hub.subscribe(on("q", &["stalled"]));
        told("q", &["stalled"]);
        let more = hub.subscribe(on("q", &["stalled", "no-such"]));
        let unknown = hub.subscribe(on("r", &["no-such"]));
        assert!(hub.take_changes().is_empty());
        let other = hub.subscribe(on("r", &["queue:idle", "paused"]));
        let before = told("r", &["paused", "queue:idle"]);
        drop((stalls, unknown));
        assert!(hub.take_changes().is_empty() && hub.changes() == before);
        drop(more);
        assert!(told("q", &[]) > before);
        drop(other);
        told("r", &[]);
        assert!(hub.state.lock().queues.is_empty());
    }

    #[test]
    fn a_subscriber_that_fell_behind_wants_nothing_any_more() {
        let hub = Arc::new(Hub::default());
        let stalls = hub.subscribe(on("q", &["stalled"]));
        let slow = hub.subscribe(on("q", &[]));
        hub.take_changes();
        let before = hub.changes();
        hub.publish(&mut vec![event(EventKind::Paused); BACKLOG_MAX]);
        assert!(hub.take_changes().is_empty() && hub.changes() == before);
        hub.publish(&mut vec![event(EventKind::Paused)]);
        assert!(hub.changes() > before);
        let left = EventTypes::named(["stalled"]);
        assert_eq!(hub.take_changes(), [(Arc::from("q"), left)]);
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
        assert_eq!(hub.state.lock().queues["q"].list.len(), 1);
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
