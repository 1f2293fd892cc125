//! How an endpoint comes to rest: requests in flight are counted, and streams end when none is left or time is over.
//!
//! Three steps. The shutdown token fires: nothing new is let in, standalone streams end, waits answer by themselves. The last
//! request in flight has sent its answer, or `STOP_GRACE` is over: the second token fires and rmcp ends its sessions and streams.
//! Firing it earlier would cut answers short, because rmcp ends a stream the moment its token fires.

use std::convert::Infallible;
use std::sync::Weak;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::sessions::Sessions;
use crate::mcp::STOP_GRACE;

/// Proof that a request was let in; dropped when its answer has gone.
pub(super) struct InFlight {
    _open: mpsc::Sender<Infallible>,
}

/// Counts the requests in flight.
pub(super) struct Flights {
    /// `None` once nothing more is let in.
    door: Mutex<Option<mpsc::Sender<Infallible>>>,
    shutdown: CancellationToken,
}

impl Flights {
    /// The counter, and the end that sees the last of them go.
    pub(super) fn new(shutdown: CancellationToken) -> (Self, mpsc::Receiver<Infallible>) {
        let (door, gone) = mpsc::channel(1);
        let flights = Self {
            door: Mutex::new(Some(door)),
            shutdown,
        };
        (flights, gone)
    }

    /// Lets a request in, unless the process is stopping.
    pub(super) fn enter(&self) -> Option<InFlight> {
        let door = self.door.lock();
        let open = door.as_ref().filter(|_| !self.shutdown.is_cancelled())?;
        Some(InFlight {
            _open: open.clone(),
        })
    }

    pub(super) fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    fn close(&self) {
        *self.door.lock() = None;
    }
}

/// Sweeps idle sessions until the shutdown token fires, then brings the endpoint to rest and fires `streams`. Ends early when
/// the endpoint is gone.
pub(super) async fn keep(
    flights: Weak<Flights>,
    mut gone: mpsc::Receiver<Infallible>,
    sessions: Weak<Sessions>,
    shutdown: CancellationToken,
    streams: CancellationToken,
) {
    let Some(period) = sessions.upgrade().map(|sessions| sessions.sweep_period()) else {
        return;
    };
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            _ = ticks.tick() => match sessions.upgrade() {
                Some(sessions) => sessions.sweep().await,
                None => return,
            },
        }
    }
    if let Some(flights) = flights.upgrade() {
        flights.close();
    }
    if tokio::time::timeout(STOP_GRACE, gone.recv()).await.is_err() {
        tracing::warn!("requests were still open when the time to stop was over");
    }
    streams.cancel();
}
