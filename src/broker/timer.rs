//! Wakes a local broker when its engine has something due; asleep otherwise.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::local::Shared;

/// Longest single sleep; a far deadline is reached in several.
const SLEEP_MAX_MS: i64 = 3_600_000;

/// Starts the timer; it ends when the broker is dropped.
pub(super) fn spawn(shared: &Arc<Shared>) {
    tokio::spawn(run(Arc::downgrade(shared)));
}

async fn run(broker: Weak<Shared>) {
    while let Some(shared) = broker
        .upgrade()
        .filter(|shared| Arc::strong_count(shared) > 1)
    {
        let due_in = shared.arm().map_or(SLEEP_MAX_MS, |deadline| {
            deadline.saturating_sub(shared.now())
        });
        if due_in <= 0 {
            shared.tick();
        } else {
            let sleep = Duration::from_millis(due_in.min(SLEEP_MAX_MS).unsigned_abs());
            let _ = tokio::time::timeout(sleep, shared.rearm().notified()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use crate::broker::{Broker, BrokerExt, LocalBroker};
    use crate::command::draft::{JobDraft, Number};
    use crate::command::{Add, Operation, Pull, QueueName};
    use crate::engine::Config;

    const DELAY: u64 = 50;

    #[tokio::test]
    async fn a_delayed_job_reaches_a_waiting_pull_when_it_is_due() {
        let broker = LocalBroker::start(Config::default()).unwrap();
        let queue = QueueName::new("q").unwrap();
        let pull = Pull {
            queue: queue.clone(),
            count: 1,
            wait: 30_000,
            owner: None,
            lock_ttl: 30_000.0,
            detach: false,
        };
        // Registered before there is anything to wait for, so that only the timer can end it.
        let pulled = broker.submit_one(None, pull.into());
        let draft = JobDraft {
            delay: Number::Value(DELAY as f64),
            ..JobDraft::default()
        };
        let started = Instant::now();
        let job = draft.check().unwrap();
        let added = broker.call(Add { queue, job }).await.unwrap();
        let deliveries = Pull::reply(pulled.wait().await.unwrap()).unwrap();
        // The clock counts whole milliseconds, so the last of them may have just begun.
        assert!(started.elapsed().as_millis() as u64 >= DELAY - 1);
        assert_eq!(deliveries[0].job.id, added.id);
        assert_eq!(deliveries.len(), 1);
    }
}
