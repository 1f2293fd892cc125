//! Workers that call a URL for each job of a queue (MCP contract, section 8).
//!
//! One worker per queue, one job at a time. They live in memory alone and end with the process: the job in work then goes
//! back to its queue and costs no attempt. Nothing of a header but its name is ever shown, and of what goes wrong the log
//! tells once a minute per queue.

mod call;
mod target;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use call::ANSWER_BYTES_MAX;
pub use target::{HEADERS_MAX, Method, Target, TargetError, TargetHosts};

use crate::broker::Broker;
use crate::command::QueueName;
use crate::net::Throttle;
use call::Caller;

/// Failures that a slow listener may be behind.
const FAILURES_KEPT: usize = 64;

/// Queues whose handlers the log tells of within a minute.
const QUEUES_TOLD: usize = 100;

/// Something that went wrong with a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its queue.
    pub queue: Arc<str>,
    /// What, in words; it may hold what a server answered.
    pub message: String,
}

/// All handlers of a process.
pub struct Handlers {
    shared: Arc<Shared>,
    running: Mutex<BTreeMap<Arc<str>, Running>>,
    /// Workers that have not ended yet, those that were replaced included.
    workers: TaskTracker,
    /// Where they run; without one handlers are known and do nothing.
    runtime: Option<Handle>,
    shutdown: CancellationToken,
}

/// What all workers use.
struct Shared {
    broker: Arc<dyn Broker>,
    caller: Caller,
    failures: broadcast::Sender<Failure>,
    /// Which of them the log tells of.
    told: Throttle<Arc<str>>,
}

struct Running {
    target: Arc<Target>,
    stop: CancellationToken,
    /// Fires once its last job is done or back.
    ended: CancellationToken,
}

impl Handlers {
    /// None yet; those to come work on `broker` until `shutdown` fires, and call only `hosts`. Made outside of a Tokio
    /// runtime, they do nothing: so the examples of the documentation call nobody.
    pub fn new(broker: Arc<dyn Broker>, hosts: TargetHosts, shutdown: CancellationToken) -> Self {
        let (failures, _) = broadcast::channel(FAILURES_KEPT);
        Self {
            shared: Arc::new(Shared {
                broker,
                caller: Caller::new(hosts),
                failures,
                told: Throttle::new(QUEUES_TOLD),
            }),
            running: Mutex::default(),
            workers: TaskTracker::new(),
            runtime: Handle::try_current().ok(),
            shutdown,
        }
    }

    /// Has each job of a queue done by calls of `target`. A handler that the queue has is stopped first.
    ///
    /// # Errors
    /// [`TargetError::Host`].
    pub fn register(&self, queue: &QueueName, target: Target) -> Result<Arc<Target>, TargetError> {
        self.shared.caller.check(&target)?;
        let target = Arc::new(target);
        let (stop, ended) = (self.shutdown.child_token(), CancellationToken::new());
        let new = Running {
            target: Arc::clone(&target),
            stop: stop.clone(),
            ended: ended.clone(),
        };
        let before = self.running.lock().insert(queue.shared(), new);
        let (shared, queue, called) = (Arc::clone(&self.shared), queue.clone(), target.clone());
        let Some(runtime) = &self.runtime else {
            return Ok(target);
        };
        let work = async move {
            let _ended = ended.drop_guard();
            if let Some(before) = before {
                before.stop.cancel();
                before.ended.cancelled().await;
            }
            worker::run(&shared, &queue, &called, &stop).await;
        };
        self.workers.spawn_on(work, runtime);
        Ok(target)
    }

    /// Stops the handler of a queue; false when it has none.
    pub fn unregister(&self, queue: &str) -> bool {
        let removed = self.running.lock().remove(queue);
        if let Some(running) = &removed {
            running.stop.cancel();
        }
        removed.is_some()
    }

    /// What is called for which queue, by name.
    pub fn list(&self) -> Vec<(Arc<str>, Arc<Target>)> {
        let running = self.running.lock();
        let listed = |(queue, running): (&Arc<str>, &Running)| {
            (Arc::clone(queue), Arc::clone(&running.target))
        };
        running.iter().map(listed).collect()
    }

    /// Whether a queue has one.
    pub fn has(&self, queue: &str) -> bool {
        self.running.lock().contains_key(queue)
    }

    /// What goes wrong from now on.
    pub fn failures(&self) -> broadcast::Receiver<Failure> {
        self.shared.failures.subscribe()
    }

    /// Ends once every worker has ended after the shutdown.
    pub async fn ended(&self) {
        self.workers.close();
        self.workers.wait().await;
    }
}
