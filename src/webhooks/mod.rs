//! Makes the calls of webhooks (engine contract, section 20 and B-34): takes them from the broker, sends each as a
//! signed POST, tries again, and reports what became of it.
//!
//! Nothing here delays a job: calls come through a channel that never blocks the engine, a webhook makes a few at a
//! time, and the rest waits in order. Whatever can be large or slow is bounded: calls that wait (by the broker), calls
//! in progress, the time of an attempt, the bytes read of an answer. Until the first call there is no client, no TLS and
//! no connection. Neither secrets nor anything
//! that a receiver answers is ever logged, and of a URL the host alone; a webhook that fails without end is told of once
//! a minute.

mod body;
mod client;
mod delivery;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::broker::{Broker, Calls};
use crate::command::webhook::Addresses;
use delivery::Courier;

/// Calls that one webhook makes at the same time.
pub const CONCURRENT_MAX: usize = 4;
/// Time of one attempt, from the look-up of the name to the end of the answer.
pub const ATTEMPT_TIME: Duration = Duration::from_secs(10);
/// Bytes read of an answer; only its status counts.
pub const ANSWER_BYTES_MAX: usize = 16 * 1_024;
/// Bytes of the data in the body of a call, as JSON.
pub const DATA_MAX: usize = body::DATA_MAX;
/// Time between two lines of the log that tell of calls without room.
const DROPPED_EVERY: Duration = Duration::from_secs(10);

/// What an operator may set.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Attempts for each call, the first one included; at least 1.
    pub attempts: u32,
    /// Time to wait after a failed attempt, times its number.
    pub retry_delay: Duration,
    /// Time of one attempt.
    pub attempt_time: Duration,
    /// Which addresses may be called.
    pub addresses: Addresses,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            attempts: 3,
            retry_delay: Duration::from_secs(1),
            attempt_time: ATTEMPT_TIME,
            addresses: Addresses::Public,
        }
    }
}

/// Makes calls until the broker is gone or `shutdown` fires; then those that are not over are given up.
pub async fn serve(
    broker: Arc<dyn Broker>,
    calls: Calls,
    options: Options,
    shutdown: CancellationToken,
) {
    let courier = Courier::new(broker, options, client::system_lookup());
    run(Arc::new(courier), calls, shutdown).await;
}

async fn run(courier: Arc<Courier>, mut calls: Calls, shutdown: CancellationToken) {
    let mut running = JoinSet::new();
    let mut told_at: Option<Instant> = None;
    let mut dropped = 0;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            call = calls.next() => match call {
                Some(call) => { running.spawn(delivery::deliver(Arc::clone(&courier), call)); }
                None => break,
            },
            Some(ended) = running.join_next() => if ended.is_err_and(|error| error.is_panic()) {
                tracing::error!("the call of a webhook ended with a fault");
            },
        }
        dropped += calls.take_dropped();
        if dropped > 0 && told_at.is_none_or(|at| at.elapsed() >= DROPPED_EVERY) {
            tracing::warn!(dropped, "calls of webhooks found no room and were given up");
            (told_at, dropped) = (Some(Instant::now()), 0);
        }
    }
    dropped += calls.take_dropped();
    if dropped > 0 || !running.is_empty() {
        let unfinished = running.len();
        tracing::warn!(dropped, unfinished, "calls of webhooks were given up");
    }
}
