//! The registry of workers (engine contract, section 19): what workers say of themselves. It decides nothing about
//! deliveries; those are proven by tokens and connections.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::deadline::Timer;
use super::outcome::{ConnectionId, WorkerFigures, WorkerRegistration, WorkerStats, WorkerView};
use super::{Engine, Millis, Turn};

/// Timeouts after which a silent worker is forgotten.
pub const FORGET_AFTER_TIMEOUTS: Millis = 3;

#[derive(Debug, Default)]
pub(super) struct Workers {
    /// In order of registration.
    list: BTreeMap<u64, Worker>,
    by_id: HashMap<Arc<str>, u64>,
    next: u64,
    /// Figures of workers that are gone.
    gone_processed: f64,
    gone_failed: f64,
    check_at: Option<Millis>,
}

#[derive(Debug)]
struct Worker {
    view: WorkerView,
    connection: Option<ConnectionId>,
}

impl Workers {
    fn find(&mut self, id: &str) -> Option<&mut Worker> {
        let place = self.by_id.get(id)?;
        self.list.get_mut(place)
    }

    /// Whether a worker that was seen after `since` serves the queue.
    pub(super) fn any_serves(&self, queue: &Arc<str>, since: Millis) -> bool {
        let mut live = self.list.values().map(|worker| &worker.view);
        live.any(|view| view.last_seen > since && view.queues.contains(queue))
    }

    fn remove(&mut self, id: &str) -> bool {
        let Some(worker) = self
            .by_id
            .remove(id)
            .and_then(|place| self.list.remove(&place))
        else {
            return false;
        };
        self.gone_processed += worker.view.processed_jobs;
        self.gone_failed += worker.view.failed_jobs;
        true
    }

    fn remove_where(&mut self, gone: impl Fn(&Worker) -> bool) {
        let ids: Vec<_> = self
            .list
            .values()
            .filter(|worker| gone(worker))
            .map(|worker| Arc::clone(&worker.view.id))
            .collect();
        for id in ids {
            self.remove(&id);
        }
    }

    pub(super) fn forget_connection(&mut self, connection: ConnectionId) {
        self.remove_where(|worker| worker.connection == Some(connection));
    }
}

impl Engine {
    /// Registers a worker, or updates the one with that id (its name stays).
    pub fn register_worker(
        &mut self,
        turn: &mut Turn<'_>,
        worker: WorkerRegistration,
    ) -> WorkerView {
        self.tick(turn);
        let now = self.now;
        let id = worker
            .id
            .unwrap_or_else(|| self.ids.job_id(now).text().into());
        if self.workers.find(&id).is_none() {
            let place = self.workers.next;
            self.workers.next += 1;
            self.workers.by_id.insert(Arc::clone(&id), place);
            let view = WorkerView {
                id: Arc::clone(&id),
                name: worker.name,
                queues: Vec::new(),
                concurrency: 1.0,
                hostname: "unknown".into(),
                pid: 0.0,
                registered_at: worker.started_at.unwrap_or(now),
                last_seen: now,
                active: true,
                active_jobs: 0.0,
                processed_jobs: 0.0,
                failed_jobs: 0.0,
            };
            self.workers.list.insert(
                place,
                Worker {
                    view,
                    connection: None,
                },
            );
        }
        let view = match self.workers.find(&id) {
            Some(known) => {
                known.connection = turn.caller;
                let view = &mut known.view;
                (view.queues, view.last_seen) = (worker.queues, now);
                view.concurrency = worker.concurrency.unwrap_or(view.concurrency);
                view.pid = worker.pid.unwrap_or(view.pid);
                if let Some(hostname) = worker.hostname {
                    view.hostname = hostname;
                }
                view.clone()
            }
            None => unreachable!("the worker was just registered"),
        };
        self.arm_worker_check();
        view
    }

    /// A worker's sign of life with absolute figures; false for an unknown worker.
    pub fn worker_heartbeat(
        &mut self,
        turn: &mut Turn<'_>,
        id: &str,
        figures: WorkerFigures,
    ) -> bool {
        self.tick(turn);
        let now = self.now;
        let Some(worker) = self.workers.find(id) else {
            return false;
        };
        let view = &mut worker.view;
        view.last_seen = now;
        view.active_jobs = figures.active_jobs.unwrap_or(view.active_jobs);
        view.processed_jobs = figures.processed.unwrap_or(view.processed_jobs);
        view.failed_jobs = figures.failed.unwrap_or(view.failed_jobs);
        true
    }

    /// Forgets a worker; false for an unknown one.
    pub fn unregister_worker(&mut self, turn: &mut Turn<'_>, id: &str) -> bool {
        self.tick(turn);
        self.workers.remove(id)
    }

    /// All workers, in order of registration, with totals.
    pub fn workers(&mut self, turn: &mut Turn<'_>) -> (Vec<WorkerView>, WorkerStats) {
        self.tick(turn);
        let mut stats = WorkerStats {
            total_processed: self.workers.gone_processed,
            total_failed: self.workers.gone_failed,
            ..WorkerStats::default()
        };
        let mut list = Vec::with_capacity(self.workers.list.len());
        for worker in self.workers.list.values() {
            let mut view = worker.view.clone();
            view.active = self.now - view.last_seen < self.config.worker_timeout;
            stats.total += 1;
            stats.total_processed += view.processed_jobs;
            stats.total_failed += view.failed_jobs;
            stats.active_jobs += view.active_jobs;
            if view.active {
                stats.active += 1;
                stats.concurrency_slots += view.concurrency;
            }
            list.push(view);
        }
        (list, stats)
    }

    fn arm_worker_check(&mut self) {
        // The check that is armed comes first: it finds whoever registered since.
        if self.workers.check_at.is_some() {
            return;
        }
        let silent_for = self.config.worker_timeout * FORGET_AFTER_TIMEOUTS;
        let seen = self.workers.list.values().map(|known| known.view.last_seen);
        if let Some(oldest) = seen.min() {
            let at = oldest.saturating_add(silent_for);
            self.workers.check_at = Some(at);
            self.deadlines.insert(at, Timer::Workers);
        }
    }

    /// Forgets workers that have been silent for too long.
    pub(super) fn forget_silent_workers(&mut self) {
        self.workers.check_at = None;
        let silent_since = self.now
            - self
                .config
                .worker_timeout
                .saturating_mul(FORGET_AFTER_TIMEOUTS);
        self.workers
            .remove_where(|worker| worker.view.last_seen <= silent_since);
        self.arm_worker_check();
    }
}
