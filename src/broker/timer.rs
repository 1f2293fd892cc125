//! Wakes a local broker when its engine has something due; asleep otherwise.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use super::shared::Shared;

/// Longest single sleep; a far deadline is reached in several. Short enough that a clock which was set ahead, or a machine
/// that slept, is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(10);
/// Pause after a fault, so that one which repeats does not take a whole core.
const FAULT_PAUSE: Duration = Duration::from_secs(1);

/// Starts the timer; it ends when the broker is dropped.
///
/// A thread of its own: it waits to a fraction of a millisecond, where the runtime's timer rounds up twice to whole ones, and
/// what is due does not depend on a free worker of the runtime.
///
/// # Errors
/// The system gives no thread.
pub(super) fn spawn(shared: &Arc<Shared>) -> io::Result<Thread> {
    let broker = Arc::downgrade(shared);
    let timer = thread::Builder::new().name("timer".to_owned());
    let handle = timer.spawn(move || run(&broker))?;
    Ok(handle.thread().clone())
}

fn run(broker: &Weak<Shared>) {
    // Upgraded for a moment only: whoever waits must not keep the broker alive.
    while let Some(sleep) = broker.upgrade().map(|shared| next_sleep(&shared)) {
        match sleep {
            None => thread::park(),
            Some(Duration::ZERO) => {}
            Some(sleep) => thread::park_timeout(sleep),
        }
    }
}

/// Lets happen what is due, and tells how long nothing else is; `None` when nothing will be.
fn next_sleep(shared: &Shared) -> Option<Duration> {
    let due = shared.arm()?;
    let due_in = shared.until(due);
    if !due_in.is_zero() {
        return Some(due_in.min(SLEEP_MAX));
    }
    // Nothing would be due any more if the timer ended with a fault of the engine.
    let ticked = catch_unwind(AssertUnwindSafe(|| shared.tick()));
    if ticked.is_err() {
        tracing::error!("what was due could not happen");
        return Some(FAULT_PAUSE);
    }
    if shared.arm() == Some(due) {
        tracing::error!("what is due does not happen");
        return Some(FAULT_PAUSE);
    }
    Some(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use crate::broker::{Broker, BrokerExt, LocalBroker};
    use crate::command::draft::JobDraft;
    use crate::command::given::Number;
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
            locked: false,
            lock_ttl: 30_000.0,
            detach: false,
            group: None,
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
