//! Events of the other server. A connection carries those of one queue, so that each queue to which somebody listens has one
//! of its own; subscribers share it. It comes with the first of them and goes with the last.
//!
//! Nothing is promised: a server that knows no subscriptions stays silent, and what happens while there is no connection is
//! not told later.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::dial::{DialError, Frames, RemoteAddress, dial};
use crate::broker::hub::{EventFilter, Hub, Subscription};
use crate::command::CommandError;
use crate::engine::EventTypes;
use crate::wire::client::{self, Incoming};

/// Queues that are listened to at one time; subscribers of further ones hear nothing.
const QUEUES_MAX: usize = 64;

/// How often it is looked whether anybody still listens, and how long a failed connection rests.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time in which the server has to take a request.
const WRITE_MAX: Duration = Duration::from_secs(5);

pub(super) struct Watchers {
    hub: Arc<Hub>,
    address: Arc<RemoteAddress>,
    /// Queues with a connection, or the intent of one.
    queues: Mutex<HashSet<Arc<str>>>,
    /// Tells that somebody new listens.
    wanted: Notify,
    closed: CancellationToken,
}

/// Why a connection is given up.
enum End {
    /// Nobody listens any more, or the program ends.
    Unwanted,
    /// The server does not want to be listened to.
    Refused(CommandError),
    /// It broke.
    Broken(DialError),
}

impl Watchers {
    pub(super) fn new(address: Arc<RemoteAddress>, closed: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            hub: Arc::new(Hub::default()),
            address,
            queues: Mutex::default(),
            wanted: Notify::new(),
            closed,
        })
    }

    pub(super) fn subscribe(
        self: &Arc<Self>,
        filter: EventFilter,
        runtime: &Handle,
    ) -> Subscription {
        let queue = Arc::clone(&filter.queue);
        let subscription = self.hub.subscribe(filter);
        let mut queues = self.queues.lock();
        if queues.contains(&queue) {
            self.wanted.notify_waiters();
        } else if queues.len() < QUEUES_MAX {
            queues.insert(Arc::clone(&queue));
            let watchers = Arc::clone(self);
            runtime.spawn(async move { watchers.watch(&queue).await });
        }
        subscription
    }

    /// Listens to a queue for as long as somebody here does.
    async fn watch(&self, queue: &Arc<str>) {
        while !self.is_over(queue) {
            match self.listen(queue).await {
                End::Unwanted => continue,
                End::Refused(error) => {
                    tracing::debug!(%error, "the broker tells no events");
                }
                End::Broken(error) => {
                    tracing::debug!(%error, "no events of the broker for a while")
                }
            }
            self.rest().await;
        }
    }

    async fn rest(&self) {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = self.closed.cancelled() => {}
        }
    }

    /// Whether nobody listens any more; then the queue is forgotten in the same moment.
    fn is_over(&self, queue: &Arc<str>) -> bool {
        let mut queues = self.queues.lock();
        let is_over = self.closed.is_cancelled() || self.wanted_of(queue) == EventTypes::NONE;
        if is_over {
            queues.remove(queue);
        }
        is_over
    }

    fn wanted_of(&self, queue: &Arc<str>) -> EventTypes {
        self.hub.wanted(queue)
    }

    async fn listen(&self, queue: &Arc<str>) -> End {
        let dialled = tokio::select! {
            dialled = dial(&self.address) => dialled,
            () = self.closed.cancelled() => return End::Unwanted,
        };
        let mut writer = None;
        let mut frames = match dialled {
            Ok(frames) => frames.map(|stream| {
                let (reader, half) = stream.into_split();
                writer = Some(half);
                reader
            }),
            Err(error) => return End::Broken(error),
        };
        let Some(mut writer) = writer else {
            return End::Broken(DialError::Closed);
        };
        let mut told = EventTypes::NONE;
        loop {
            let changed = self.wanted.notified();
            let wanted = self.wanted_of(queue);
            if wanted == EventTypes::NONE {
                return End::Unwanted;
            }
            if wanted != told {
                told = wanted;
                let Ok(request) = client::subscribe(queue, wanted).frame(0) else {
                    return End::Unwanted;
                };
                match timeout(WRITE_MAX, writer.write_all(&request)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return End::Broken(error.into()),
                    Err(_) => return End::Broken(DialError::Silent(WRITE_MAX)),
                }
            }
            let look = sleep_until(Instant::now() + LOOK_EVERY);
            tokio::select! {
                end = self.hear(&mut frames) => return end,
                () = look => {}
                () = changed => {}
                () = self.closed.cancelled() => return End::Unwanted,
            }
        }
    }

    /// Passes events on until the connection ends, or the subscription is refused.
    async fn hear<R: tokio::io::AsyncRead + Unpin>(&self, frames: &mut Frames<R>) -> End {
        loop {
            let body = match frames.next().await {
                Ok(body) => body,
                Err(error) => return End::Broken(error),
            };
            match client::incoming(&body) {
                Some(Incoming::Event) => {
                    // One that nobody here knows is passed over.
                    if let Some(event) = client::event(&body) {
                        self.hub.publish(&mut vec![event]);
                    }
                }
                Some(Incoming::Reply(_)) => {
                    let subscribed = client::subscribe("", EventTypes::ALL).hear(&body);
                    if let Err(error) = subscribed {
                        return End::Refused(error);
                    }
                }
                Some(Incoming::Other) => {}
                None => return End::Broken(DialError::Foreign),
            }
        }
    }
}
