//! One connection: requests out, replies in, whatever order they come in.
//!
//! Requests are numbered. A reply goes to whoever waits for its number; one for which nobody waits any more is passed over.
//! When the connection ends, everybody who waits hears that at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::dial::{DialError, Frames};
use crate::command::bounds::FRAME_MAX;
use crate::command::{CommandError, RemoteFault};
use crate::wire::client::{self, Exchange, Heard, Incoming};

/// Requests of one connection that may await their replies.
pub const IN_FLIGHT_MAX: usize = 1_024;

/// Bytes of requests that may wait to be sent: two of the largest.
const UNSENT_BYTES_MAX: usize = 2 * FRAME_MAX;

/// Time in which the server has to take a request.
const WRITE_MAX: Duration = Duration::from_secs(15);

/// A connection that is there.
pub(super) struct Link {
    outgoing: mpsc::Sender<Vec<u8>>,
    unsent: AtomicUsize,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Vec<u8>>>>,
    next: AtomicU64,
    /// Fires when the connection is to end.
    broken: CancellationToken,
}

/// Forgets a request for which nobody waits any more.
struct Place<'a> {
    link: &'a Link,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.link.waiting.lock().remove(&self.number);
    }
}

impl Link {
    pub(super) fn new() -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (outgoing, requests) = mpsc::channel(IN_FLIGHT_MAX);
        let link = Self {
            outgoing,
            unsent: AtomicUsize::new(0),
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            broken: CancellationToken::new(),
        };
        (link, requests)
    }

    /// Whether it has not been given up.
    pub(super) fn is_usable(&self) -> bool {
        !self.broken.is_cancelled()
    }

    /// Requests that await their replies.
    pub(super) fn in_flight(&self) -> usize {
        self.waiting.lock().len()
    }

    /// One request, and its reply within `patience`. A server that keeps it waiting is given up, with all that it was
    /// asked on this connection: it might never answer any of it.
    pub(super) async fn ask(
        &self,
        exchange: Exchange,
        patience: Duration,
    ) -> Result<Heard, CommandError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let request = exchange.frame(number)?;
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= IN_FLIGHT_MAX {
                return Err(RemoteFault::Busy.into());
            }
            waiting.insert(number, answer);
        }
        let place = Place { link: self, number };
        self.send(request)?;
        let body = match timeout(patience, answered).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => return Err(RemoteFault::Lost.into()),
            Err(_) => {
                self.broken.cancel();
                return Err(RemoteFault::NoAnswer.into());
            }
        };
        drop(place);
        exchange.hear(&body)
    }

    fn send(&self, request: Vec<u8>) -> Result<(), RemoteFault> {
        let bytes = request.len();
        if self.unsent.fetch_add(bytes, Ordering::AcqRel) + bytes > UNSENT_BYTES_MAX {
            self.unsent.fetch_sub(bytes, Ordering::AcqRel);
            return Err(RemoteFault::Busy);
        }
        self.outgoing.try_send(request).map_err(|error| {
            self.unsent.fetch_sub(bytes, Ordering::AcqRel);
            match error {
                mpsc::error::TrySendError::Full(_) => RemoteFault::Busy,
                mpsc::error::TrySendError::Closed(_) => RemoteFault::NotConnected,
            }
        })
    }

    /// Carries requests and replies until the connection ends, and says why it did. Requests that are waiting then are lost.
    pub(super) async fn serve(
        &self,
        frames: Frames<TcpStream>,
        requests: mpsc::Receiver<Vec<u8>>,
        closed: &CancellationToken,
    ) -> DialError {
        let mut writer = None;
        let frames = frames.map(|stream| {
            let (reader, half) = stream.into_split();
            writer = Some(half);
            reader
        });
        let Some(writer) = writer else {
            return DialError::Closed;
        };
        let end = tokio::select! {
            end = self.read(frames) => end,
            end = self.write(writer, requests) => end,
            () = self.broken.cancelled() => DialError::Silent(super::ANSWER_MAX),
            () = closed.cancelled() => DialError::Closed,
        };
        // Whoever waits hears of it by the end of his channel.
        self.waiting.lock().clear();
        end
    }

    async fn read<R: tokio::io::AsyncRead + Unpin>(&self, mut frames: Frames<R>) -> DialError {
        loop {
            let body = match frames.next().await {
                Ok(body) => body,
                Err(end) => return end,
            };
            match client::incoming(&body) {
                Some(Incoming::Reply(number)) => {
                    let waiting = self.waiting.lock().remove(&number);
                    // Whoever has gone has no use for it.
                    let _ = waiting.map(|answer| answer.send(body));
                }
                Some(_) => {}
                None => return DialError::Foreign,
            }
        }
    }

    async fn write(
        &self,
        mut writer: OwnedWriteHalf,
        mut requests: mpsc::Receiver<Vec<u8>>,
    ) -> DialError {
        while let Some(request) = requests.recv().await {
            let written = timeout(WRITE_MAX, writer.write_all(&request)).await;
            self.unsent.fetch_sub(request.len(), Ordering::AcqRel);
            match written {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error.into(),
                Err(_) => return DialError::Silent(WRITE_MAX),
            }
        }
        DialError::Closed
    }
}
