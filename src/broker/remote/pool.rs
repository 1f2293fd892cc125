//! The connections to the other server. Each has a task that keeps it: when it ends, the task makes another one, with
//! growing pauses while that does not succeed. A request goes to the connection that has least to do.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::dial::{DialError, Frames, RemoteAddress, dial};
use super::link::Link;
use crate::command::{CommandError, RemoteFault};
use crate::wire::client::{Exchange, Heard};

/// Pause before a connection is made again, at first and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Time in which requests that are under way may still be answered when the pool closes.
const CLOSE_MAX: Duration = Duration::from_millis(300);

/// Place of one connection; empty while there is none.
type Slot = Mutex<Option<Arc<Link>>>;

pub(super) struct Pool {
    slots: Vec<Arc<Slot>>,
    closed: CancellationToken,
    keepers: Mutex<JoinSet<()>>,
}

impl Pool {
    /// The first connection; the others follow by themselves.
    pub(super) async fn connect(
        address: Arc<RemoteAddress>,
        connections: usize,
    ) -> Result<Self, DialError> {
        let mut first = Some(dial(&address).await?);
        let closed = CancellationToken::new();
        let mut keepers = JoinSet::new();
        let slots: Vec<_> = (0..connections.max(1))
            .map(|_| {
                let slot = Arc::new(Slot::default());
                let keeper = Keeper {
                    address: Arc::clone(&address),
                    slot: Arc::clone(&slot),
                    closed: closed.clone(),
                };
                // There from the first moment on, not only once its task has run.
                let given = first.take().map(|frames| keeper.hold(frames));
                keepers.spawn(async move { keeper.keep(given).await });
                slot
            })
            .collect();
        Ok(Self {
            slots,
            closed,
            keepers: Mutex::new(keepers),
        })
    }

    /// Fires when no connection is wanted any more.
    pub(super) const fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// One request and what its reply comes to.
    pub(super) async fn ask(
        &self,
        exchange: Exchange,
        patience: Duration,
    ) -> Result<Heard, CommandError> {
        let links = self.slots.iter().filter_map(|slot| slot.lock().clone());
        let usable = links.filter(|link| link.is_usable());
        let link = usable.min_by_key(|link| link.in_flight());
        let link = link.ok_or(RemoteFault::NotConnected)?;
        link.ask(exchange, patience).await
    }

    /// Ends all connections.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        let mut keepers = std::mem::take(&mut *self.keepers.lock());
        let ended = async { while keepers.join_next().await.is_some() {} };
        // Those that do not end in time are ended with their set.
        let _ = tokio::time::timeout(CLOSE_MAX, ended).await;
    }
}

/// A connection that is being carried.
type Held = (
    Arc<Link>,
    tokio::sync::mpsc::Receiver<Vec<u8>>,
    Frames<tokio::net::TcpStream>,
);

struct Keeper {
    address: Arc<RemoteAddress>,
    slot: Arc<Slot>,
    closed: CancellationToken,
}

impl Keeper {
    fn hold(&self, frames: Frames<tokio::net::TcpStream>) -> Held {
        let (link, requests) = Link::new();
        let link = Arc::new(link);
        *self.slot.lock() = Some(Arc::clone(&link));
        (link, requests, frames)
    }

    async fn keep(&self, mut given: Option<Held>) {
        let mut pause = PAUSE_FIRST;
        let mut was_lost = false;
        loop {
            let end = match self.next(given.take()).await {
                Ok((link, requests, frames)) => {
                    if was_lost {
                        tracing::info!("connected to the broker again");
                    }
                    was_lost = true;
                    pause = PAUSE_FIRST;
                    let end = link.serve(frames, requests, &self.closed).await;
                    *self.slot.lock() = None;
                    end
                }
                Err(error) => error,
            };
            if self.closed.is_cancelled() {
                return;
            }
            if pause == PAUSE_FIRST {
                tracing::warn!(%end, "no connection to the broker; it is being made again");
            }
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
                () = self.closed.cancelled() => return,
            }
        }
    }

    async fn next(&self, given: Option<Held>) -> Result<Held, DialError> {
        if let Some(given) = given {
            return Ok(given);
        }
        let frames = tokio::select! {
            dialled = dial(&self.address) => dialled?,
            () = self.closed.cancelled() => return Err(DialError::Closed),
        };
        Ok(self.hold(frames))
    }
}
