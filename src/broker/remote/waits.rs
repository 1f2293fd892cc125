//! Waits: for jobs, and for the end of one. The server waits; whoever waits here may go before it has answered.
//!
//! A pull lives in a task of its own until its reply is there. What it brings goes to the caller, or back to the server when
//! the caller has gone: nobody else knows of that delivery.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};
use tokio::time::{Instant, timeout};

use super::Inner;
use crate::broker::Submitted;
use crate::command::{
    Command, CommandError, GetState, MoveToWait, Pull, RemoteFault, Reply, WaitJob,
};
use crate::engine::{Delivery, Millis, State, TokenGiven, WaitFor, Waited};
use crate::wire::client;

/// Waits on one connection at a time. A server may let further commands wait behind 50 of them (tcp protocol, section 4).
pub const WAITS_PER_CONNECTION: usize = 40;

/// How long a wait for any outcome goes on before it looks whether the job has failed, of which the protocol's wait says
/// nothing.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Time for jobs that go back when the broker closes.
const GIVE_BACK_MAX: Duration = Duration::from_millis(300);

/// How many wait, and how many deliveries are on their way back.
pub(super) struct Waits {
    places: Semaphore,
    returning: AtomicUsize,
    returned: Notify,
}

impl Waits {
    pub(super) fn new(connections: usize) -> Self {
        Self {
            places: Semaphore::new(connections.max(1) * WAITS_PER_CONNECTION),
            returning: AtomicUsize::new(0),
            returned: Notify::new(),
        }
    }

    /// A place among those that wait, and how much of the time is left then; `None` when none was free in time.
    async fn place(&self, wait: Duration) -> Option<(SemaphorePermit<'_>, Duration)> {
        let started = Instant::now();
        let place = timeout(wait, self.places.acquire()).await.ok()?.ok()?;
        Some((place, wait.saturating_sub(started.elapsed())))
    }

    /// Ends when no delivery is on its way back, or it takes too long.
    pub(super) async fn given_back(&self) {
        let all = async {
            loop {
                let returned = self.returned.notified();
                if self.returning.load(Ordering::Acquire) == 0 {
                    return;
                }
                returned.await;
            }
        };
        let _ = timeout(GIVE_BACK_MAX, all).await;
    }
}

/// A caller's end of a pull. What it has been handed and nobody has taken goes back.
struct Handed {
    inner: Arc<Inner>,
    deliveries: oneshot::Receiver<Result<Vec<Delivery>, CommandError>>,
}

impl Drop for Handed {
    fn drop(&mut self) {
        self.deliveries.close();
        if let Ok(Ok(deliveries)) = self.deliveries.try_recv() {
            give_back(&self.inner, deliveries);
        }
    }
}

/// Takes jobs.
pub(super) fn pull(inner: &Arc<Inner>, pull: Pull) -> Submitted {
    if inner.stopping.is_cancelled() {
        return Submitted::Done(Err(CommandError::ShuttingDown));
    }
    let (mut hand, deliveries) = oneshot::channel();
    let puller = Arc::clone(inner);
    inner.runtime.spawn(async move {
        let Some(taken) = take(&puller, pull, &mut hand).await else {
            return;
        };
        if let Err(Ok(left)) = hand.send(taken) {
            give_back(&puller, left);
        }
    });
    let mut handed = Handed {
        inner: Arc::clone(inner),
        deliveries,
    };
    Submitted::Later(Box::pin(async move {
        let stopping = handed.inner.stopping.clone();
        let taken = tokio::select! {
            biased;
            taken = &mut handed.deliveries => taken.unwrap_or(Err(CommandError::Internal)),
            () = stopping.cancelled() => Ok(Vec::new()),
        };
        taken.map(Reply::Pulled)
    }))
}

/// What a pull brings; `None` when its caller goes before anything was asked.
async fn take(
    inner: &Inner,
    mut pull: Pull,
    hand: &mut oneshot::Sender<Result<Vec<Delivery>, CommandError>>,
) -> Option<Result<Vec<Delivery>, CommandError>> {
    let mut wait = span(pull.wait);
    let mut place = None;
    if !wait.is_zero() {
        let got = tokio::select! {
            got = inner.waits.place(wait) => got,
            () = hand.closed() => return None,
        };
        let Some((got, left)) = got else {
            return Some(Ok(Vec::new()));
        };
        place = Some(got);
        wait = left;
        pull.wait = Millis::try_from(left.as_millis()).unwrap_or(pull.wait);
    }
    let taken = match client::exchange(&Command::Pull(pull)) {
        Ok(exchange) => inner.hear(exchange, wait).await,
        Err(error) => Err(error),
    };
    drop(place);
    Some(match taken {
        Ok(Reply::Pulled(deliveries)) => Ok(deliveries),
        Ok(_) => Err(RemoteFault::Unreadable.into()),
        Err(error) => Err(error),
    })
}

/// Lets jobs wait again that nobody has been told of.
pub(super) fn give_back(inner: &Arc<Inner>, deliveries: Vec<Delivery>) {
    if deliveries.is_empty() {
        return;
    }
    let inner = Arc::clone(inner);
    inner.waits.returning.fetch_add(1, Ordering::AcqRel);
    inner.runtime.clone().spawn(async move {
        for delivery in deliveries {
            let token = delivery.token.map_or(TokenGiven::None, TokenGiven::Token);
            let id = delivery.job.id;
            // One that cannot go back comes back by its lock or its silence.
            if let Err(error) = inner.ask(MoveToWait { id, token }).await {
                tracing::debug!(?error, "a job that nobody waited for was not given back");
            }
        }
        inner.waits.returning.fetch_sub(1, Ordering::AcqRel);
        inner.waits.returned.notify_waiters();
    });
}

/// Waits for the end of a job.
pub(super) async fn job(inner: &Arc<Inner>, wait: WaitJob) -> Result<Reply, CommandError> {
    if inner.stopping.is_cancelled() {
        return Err(CommandError::ShuttingDown);
    }
    let stopping = inner.stopping.clone();
    let waited = tokio::select! {
        biased;
        waited = end_of(inner, wait) => waited?,
        () = stopping.cancelled() => Waited::TimedOut,
    };
    Ok(Reply::Waited(waited))
}

async fn end_of(inner: &Inner, wait: WaitJob) -> Result<Waited, CommandError> {
    let Some((_place, mut left)) = inner.waits.place(span(wait.timeout)).await else {
        return Ok(Waited::TimedOut);
    };
    loop {
        let step = match wait.until {
            WaitFor::Completed => left,
            WaitFor::Outcome => left.min(LOOK_EVERY),
        };
        let started = Instant::now();
        let request = WaitJob {
            id: wait.id.clone(),
            until: WaitFor::Completed,
            timeout: Millis::try_from(step.as_millis()).unwrap_or(wait.timeout),
        };
        let exchange = client::exchange(&request.into())?;
        let Reply::Waited(waited) = inner.hear(exchange, step).await? else {
            return Err(RemoteFault::Unreadable.into());
        };
        if waited != Waited::TimedOut || wait.until == WaitFor::Completed {
            return Ok(waited);
        }
        match inner
            .ask(GetState {
                id: wait.id.clone(),
            })
            .await?
        {
            Some(State::Failed) => return Ok(Waited::Failed),
            None => return Ok(Waited::Removed),
            Some(_) => {}
        }
        left = left.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(Waited::TimedOut);
        }
    }
}

fn span(ms: Millis) -> Duration {
    Duration::from_millis(ms.max(0).unsigned_abs())
}
