//! Requests whose answers come later: pulls and waits for jobs.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::broker::Pending;
use crate::command::{CommandError, Reply};
use crate::wire::{ReqId, Shape};

/// Requests that one connection may have waiting; while it has, nothing more is read from it. The
/// protocol demands at least 50.
pub(super) const PARKED_MAX: usize = 1_024;
/// Bytes that the identities of those requests may take together.
const PARKED_BYTES_MAX: usize = 1_048_576;

/// A request that is being worked on.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) req_id: ReqId,
    pub(super) shape: Shape,
}

/// An answer and what it answers.
pub(super) type Answered = (Asked, Result<Reply, CommandError>);

/// The waiting requests of one connection. Dropping them withdraws their waits.
#[derive(Default)]
pub(super) struct Parked {
    waits: FuturesUnordered<Waiting>,
    bytes: usize,
}

struct Waiting {
    /// Taken out with the answer.
    asked: Option<Asked>,
    pending: Pending,
}

impl Future for Waiting {
    type Output = Option<Answered>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(self.pending.as_mut().poll(cx));
        Poll::Ready(self.asked.take().map(|asked| (asked, answer)))
    }
}

impl Parked {
    /// Whether `more` requests may be parked.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.waits.len() + more < PARKED_MAX && self.bytes < PARKED_BYTES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    pub(super) fn park(&mut self, asked: Asked, pending: Pending) {
        self.bytes += asked.req_id.heap_bytes();
        self.waits.push(Waiting {
            asked: Some(asked),
            pending,
        });
    }

    /// The next answer; none only when nothing is parked.
    pub(super) async fn next(&mut self) -> Option<Answered> {
        let answered = self.waits.next().await.flatten()?;
        self.bytes = self.bytes.saturating_sub(answered.0.req_id.heap_bytes());
        Some(answered)
    }

    /// An answer that is there already.
    pub(super) fn try_next(&mut self) -> Option<Answered> {
        self.next().now_or_never().flatten()
    }
}
