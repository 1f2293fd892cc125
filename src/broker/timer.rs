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
        let due_in = shared
            .arm()
            .map_or(SLEEP_MAX_MS, |deadline| deadline - shared.now());
        if due_in <= 0 {
            shared.tick();
        } else {
            let sleep = Duration::from_millis(due_in.min(SLEEP_MAX_MS).unsigned_abs());
            let _ = tokio::time::timeout(sleep, shared.rearm().notified()).await;
        }
    }
}
