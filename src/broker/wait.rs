//! The answer to a pull that waits for a job, or to whoever waits for the end of one.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::shared::Shared;
use crate::command::{CommandError, Reply};
use crate::engine::{Served, WaiterId};

/// A wait in progress. Dropping it withdraws it and returns what it was handed but nobody read.
pub(super) struct Wait {
    shared: Weak<Shared>,
    waiter: WaiterId,
    /// `None` once read.
    receiver: Option<oneshot::Receiver<Served>>,
}

impl Future for Wait {
    type Output = Result<Reply, CommandError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(receiver) = self.receiver.as_mut() else {
            return Poll::Ready(Err(CommandError::Internal));
        };
        let served = std::task::ready!(Pin::new(receiver).poll(cx));
        self.receiver = None;
        Poll::Ready(match served {
            Ok(Served::Pull(deliveries)) => Ok(Reply::Pulled(deliveries)),
            Ok(Served::Job(waited)) => Ok(Reply::Waited(waited)),
            Err(_) => Err(self.why_it_ended()),
        })
    }
}

impl Wait {
    pub(super) fn new(
        shared: &Arc<Shared>,
        waiter: WaiterId,
        receiver: oneshot::Receiver<Served>,
    ) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            waiter,
            receiver: Some(receiver),
        }
    }

    /// Why nobody will serve it.
    fn why_it_ended(&self) -> CommandError {
        let failing = self.shared.upgrade().and_then(|shared| {
            let core = shared.core.lock();
            let failing = core.keeping.as_ref()?.failing.as_ref()?;
            Some(failing.error.clone())
        });
        failing.unwrap_or(CommandError::ShuttingDown)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let (Some(mut receiver), Some(shared)) = (self.receiver.take(), self.shared.upgrade())
        else {
            return;
        };
        receiver.close();
        shared.withdraw(self.waiter, receiver.try_recv().ok());
    }
}
