//! Warnings that this process takes much memory, or its data file much room (engine contract, section 22): notices to
//! everybody who wants them. Each comes once, until the size has fallen below nine tenths of its bound.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::Process;
use crate::broker::{Broker, BrokerExt};
use crate::command::GetStorageStatus;
use crate::engine::{EventKind, NOTICE_PERIOD};

const MIB: u64 = 1_024 * 1_024;

/// What was seen of a size.
struct Watch {
    threshold_mib: u64,
    /// Somebody was told, and the size has not fallen since.
    told: bool,
}

impl Watch {
    const fn new(threshold_mib: u64) -> Self {
        let told = false;
        Self {
            threshold_mib,
            told,
        }
    }

    /// Sees a size in bytes; `tell` says whether anybody heard it.
    fn see(&mut self, size: u64, tell: impl FnOnce() -> bool) {
        let threshold = self.threshold_mib.saturating_mul(MIB);
        if size >= threshold {
            self.told = self.told || tell();
        } else if size < threshold - threshold / 10 {
            self.told = false;
        }
    }

    /// Looks at the memory of a process.
    fn see_memory(&mut self, process: Process, tell: impl FnOnce(EventKind) -> bool) {
        let Some(heap) = process.heap else { return };
        let threshold_mib = self.threshold_mib;
        self.see(heap, || {
            tell(EventKind::MemoryWarning {
                heap_mib: heap / MIB,
                threshold_mib,
                resident_mib: process.resident.unwrap_or(heap) / MIB,
            })
        });
    }
}

/// Comes back when it is time to look again; false once `shutdown` fires.
async fn next_look(looks: &mut Interval, shutdown: &CancellationToken) -> bool {
    tokio::select! {
        () = shutdown.cancelled() => false,
        _ = looks.tick() => true,
    }
}

fn looks() -> Interval {
    let mut looks = tokio::time::interval(Duration::from_millis(NOTICE_PERIOD.unsigned_abs()));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

/// Warns as long as the program runs, when the data file and its log take `threshold_mib` or more, until `shutdown` fires.
pub async fn warn_of_storage(
    broker: Arc<dyn Broker>,
    threshold_mib: u64,
    shutdown: CancellationToken,
) {
    let (mut watch, mut looks) = (Watch::new(threshold_mib), looks());
    while next_look(&mut looks, &shutdown).await {
        let Ok(status) = broker.call(GetStorageStatus).await else {
            continue;
        };
        let size = status
            .usage
            .file_bytes
            .saturating_add(status.usage.log_bytes);
        watch.see(size, || {
            broker.announce(EventKind::StorageWarning {
                size_mib: size / MIB,
                threshold_mib,
            })
        });
    }
}

/// Warns as long as the program runs, when the heap takes `threshold_mib` or more, until `shutdown` fires.
pub async fn warn_of_memory(
    broker: Arc<dyn Broker>,
    threshold_mib: u64,
    shutdown: CancellationToken,
) {
    if Process::now().heap.is_none() {
        tracing::warn!(
            "this system does not tell how much memory is used: nothing will warn of it"
        );
        return;
    }
    let (mut watch, mut looks) = (Watch::new(threshold_mib), looks());
    while next_look(&mut looks, &shutdown).await {
        watch.see_memory(Process::now(), |notice| broker.announce(notice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{EventFilter, LocalBroker};
    use crate::engine::{Config, Durability, EventTypes};

    /// What is told at each of these sizes of the heap, in bytes, while somebody listens or nobody does.
    fn told(looks: &[(u64, bool)]) -> Vec<Option<u64>> {
        let mut watch = Watch::new(100);
        let look = |(heap, listens): &(u64, bool)| {
            let mut told = None;
            let process = Process {
                heap: Some(*heap),
                resident: Some(heap + MIB),
                cpu_seconds: None,
            };
            watch.see_memory(process, |notice| {
                let EventKind::MemoryWarning {
                    heap_mib,
                    threshold_mib,
                    resident_mib,
                } = notice
                else {
                    panic!("told {notice:?}");
                };
                assert_eq!((threshold_mib, resident_mib), (100, heap_mib + 1));
                told = listens.then_some(heap_mib);
                *listens
            });
            told
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn memory_is_warned_of_once_until_it_has_fallen_well_below() {
        let looks = [100 * MIB - 1, 100 * MIB, 150 * MIB, 90 * MIB, 100 * MIB];
        let again = [90 * MIB - 1, 120 * MIB];
        let looks: Vec<_> = looks
            .iter()
            .chain(&again)
            .map(|heap| (*heap, true))
            .collect();
        let once = [None, Some(100), None, None, None, None, Some(120)];
        assert_eq!(told(&looks), once);
    }

    #[test]
    fn a_warning_that_nobody_heard_is_given_again() {
        let looks = [(101 * MIB, false), (102 * MIB, true), (103 * MIB, true)];
        assert_eq!(told(&looks), [None, Some(102), None]);
    }

    #[test]
    fn what_is_not_known_is_not_warned_of() {
        let mut watch = Watch::new(0);
        watch.see_memory(Process::default(), |_| panic!("warned"));
    }

    #[tokio::test]
    async fn subscribers_are_warned_of_a_large_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("queue.db");
        let broker = LocalBroker::open(Config::default(), &path, Durability::Committed).unwrap();
        let mut subscription = broker.subscribe(EventFilter {
            queue: "a".into(),
            types: EventTypes::ALL,
        });
        let shutdown = CancellationToken::new();
        let warning = tokio::spawn(warn_of_storage(Arc::new(broker), 0, shutdown.clone()));
        let published = subscription.next().await.unwrap();
        let expected = EventKind::StorageWarning {
            size_mib: 0,
            threshold_mib: 0,
        };
        assert_eq!(published.event().kind, expected);
        shutdown.cancel();
        warning.await.unwrap();
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn subscribers_are_warned_of_the_memory_of_this_process() {
        let broker = LocalBroker::start(Config::default()).unwrap();
        let on = |queue: &str, types: Option<&str>| EventFilter {
            queue: queue.into(),
            types: types.map_or(EventTypes::ALL, |name| EventTypes::named([name])),
        };
        let mut all = broker.subscribe(on("a", None));
        let mut chosen = broker.subscribe(on("b", Some("server:memory-warning")));
        let mut other = broker.subscribe(on("b", Some("completed")));
        let shutdown = CancellationToken::new();
        let warning = tokio::spawn(warn_of_memory(Arc::new(broker), 1, shutdown.clone()));
        for (subscription, queue) in [(&mut all, "a"), (&mut chosen, "b")] {
            let published = subscription.next().await.unwrap();
            let event = published.event();
            assert_eq!((&*event.queue, &event.job), (queue, &None));
            assert!(matches!(
                event.kind,
                EventKind::MemoryWarning {
                    heap_mib: 1..,
                    threshold_mib: 1,
                    ..
                }
            ));
        }
        assert!(other.try_next().is_none());
        shutdown.cancel();
        warning.await.unwrap();
    }
}
