//! The loop of one handler: pull, call, report.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::target::Target;
use super::{Failure, Shared};
use crate::broker::BrokerExt;
use crate::command::bounds::PULL_WAIT_MAX;
use crate::command::{Ack, CommandError, Fail, Heartbeat, Operation, Pull, QueueName, Renew};
use crate::engine::{ConnectionId, Delivery, FailReport, TokenGiven};

/// Time between two signs of life for the job in work; well within the time after which a silent job counts as stalled.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Ms that the lock of a job lasts beyond the last sign of life.
const LOCK_TTL: f64 = 60_000.0;
/// Pause after a broker that cannot be reached.
const PAUSE: Duration = Duration::from_secs(1);

/// Works until `stop` fires; the job in work then goes back.
pub(super) async fn run(
    shared: &Shared,
    queue: &QueueName,
    target: &Target,
    stop: &CancellationToken,
) {
    let connection = shared.broker.connect();
    let work = async {
        loop {
            match pull(shared, queue, connection).await {
                Ok(deliveries) => {
                    for delivery in deliveries {
                        work_on(shared, queue, target, delivery).await;
                    }
                }
                Err(error) => {
                    told(shared, queue, error.to_string());
                    sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = work => {}
    }
    // What it holds goes back as if it had never been handed out.
    shared.broker.disconnect(connection);
}

async fn pull(
    shared: &Shared,
    queue: &QueueName,
    connection: ConnectionId,
) -> Result<Vec<Delivery>, CommandError> {
    let pull = Pull {
        queue: queue.clone(),
        count: 1,
        wait: PULL_WAIT_MAX,
        locked: true,
        lock_ttl: LOCK_TTL,
        detach: false,
        group: None,
    };
    let submitted = shared.broker.submit_one(Some(connection), pull.into());
    Pull::reply(submitted.wait().await?).ok_or(CommandError::Internal)
}

async fn work_on(shared: &Shared, queue: &QueueName, target: &Target, delivery: Delivery) {
    let id = delivery.job.id.clone();
    let token = delivery.token.map_or(TokenGiven::None, TokenGiven::Token);
    let called = tokio::select! {
        biased;
        called = shared.caller.call(target, &delivery.job) => called,
        () = keep_alive(shared, &delivery) => return,
    };
    let reported = match called {
        Ok(result) => {
            let ack = Ack {
                id,
                token,
                result: Some(result),
                remove_on_complete: false,
            };
            shared.broker.call(ack).await
        }
        Err(reason) => {
            let report = FailReport {
                error: Some(reason.as_str().into()),
                ..FailReport::default()
            };
            told(shared, queue, format!("job {}: {reason}", delivery.job.id));
            shared.broker.call(Fail { id, token, report }).await
        }
    };
    if let Err(error) = reported {
        told(shared, queue, error.to_string());
    }
}

/// Gives signs of life; ends when the job is not this worker's any more.
async fn keep_alive(shared: &Shared, delivery: &Delivery) {
    let mut ticks = interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let renew = Renew {
            id: delivery.job.id.clone(),
            token: delivery.token.map_or(TokenGiven::None, TokenGiven::Token),
            duration: None,
        };
        let items = vec![renew];
        if let Err(error) = shared.broker.call(Heartbeat { items }).await {
            tracing::debug!(%error, "a sign of life of a handler's job did not arrive");
        }
    }
}

/// Tells the log and whoever listens.
fn told(shared: &Shared, queue: &QueueName, message: String) {
    let name = queue.as_str();
    if let Some(times) = shared.told.another(queue.shared()) {
        tracing::warn!(
            times,
            "bunqueue MCP: HTTP handler on queue {name:?}: {}",
            message.escape_debug()
        );
    }
    // Nobody may listen.
    let _ = shared.failures.send(Failure {
        queue: queue.shared(),
        message,
    });
}
