//! The registry of workers (engine contract, section 19): what workers say of themselves. It decides nothing about
//! deliveries; those are proven by tokens and connections.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::deadline::Timer;
use super::job::framed;
use super::outcome::{
    ConnectionId, Refusal, WorkerFigures, WorkerRegistration, WorkerStats, WorkerView,
};
use super::{Engine, Millis, Turn};

/// Timeouts after which a silent worker is forgotten.
pub const FORGET_AFTER_TIMEOUTS: Millis = 3;
/// Workers registered at one time.
pub const WORKERS_MAX: usize = 10_000;
/// Bytes that their ids, names, hosts and queue names take together; a listing of all must fit a frame.
pub const WORKER_BYTES_MAX: usize = 32 * 1_024 * 1_024;

#[derive(Debug, Default)]
pub(super) struct Workers {
    /// In order of registration.
    pub(super) list: BTreeMap<u64, Worker>,
    pub(super) by_id: HashMap<Arc<str>, u64>,
    /// The places of those that registered over a connection.
    pub(super) by_connection: HashMap<ConnectionId, BTreeSet<u64>>,
    /// The places of those that serve a queue.
    pub(super) by_queue: BTreeSet<(Arc<str>, u64)>,
    /// Bytes of what they say of themselves.
    pub(super) bytes: usize,
    next: u64,
    /// Figures of workers that are gone.
    gone_processed: f64,
    gone_failed: f64,
    pub(super) check_at: Option<Millis>,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) view: WorkerView,
    pub(super) connection: Option<ConnectionId>,
}

impl Workers {
    fn find(&mut self, id: &str) -> Option<&mut Worker> {
        let place = self.by_id.get(id)?;
        self.list.get_mut(place)
    }

    /// Whether a worker that was seen after `since` serves the queue.
    pub(super) fn any_serves(&self, queue: &str, since: Millis) -> bool {
        self.serving(queue).any(|view| view.last_seen > since)
    }

    /// Those that serve a queue, in order of registration.
    fn serving(&self, queue: &str) -> impl Iterator<Item = &WorkerView> {
        let queue: Arc<str> = queue.into();
        let range = (Arc::clone(&queue), u64::MIN)..=(queue, u64::MAX);
        let places = self.by_queue.range(range).map(|(_, place)| place);
        let workers = places.filter_map(|place| self.list.get(place));
        workers.map(|worker| &worker.view)
    }

    /// A worker serves these queues from now on, instead of those it has served.
    fn set_queues(&mut self, place: u64, queues: Vec<Arc<str>>) {
        let Some(worker) = self.list.get_mut(&place) else {
            return;
        };
        for queue in std::mem::replace(&mut worker.view.queues, queues) {
            self.by_queue.remove(&(queue, place));
        }
        let queues = worker.view.queues.iter().map(Arc::clone);
        self.by_queue.extend(queues.map(|queue| (queue, place)));
    }

    fn remove(&mut self, id: &str) -> bool {
        let Some(place) = self.by_id.remove(id) else {
            return false;
        };
        let Some(worker) = self.list.remove(&place) else {
            return false;
        };
        self.bytes -= worker.bytes();
        for queue in worker.view.queues {
            self.by_queue.remove(&(queue, place));
        }
        self.untie(worker.connection, place);
        count_in(&mut self.gone_processed, worker.view.processed_jobs);
        count_in(&mut self.gone_failed, worker.view.failed_jobs);
        true
    }

    /// A worker is no longer that of a connection.
    fn untie(&mut self, connection: Option<ConnectionId>, place: u64) {
        if let Some(connection) = connection
            && let Some(places) = self.by_connection.get_mut(&connection)
        {
            places.remove(&place);
            if places.is_empty() {
                self.by_connection.remove(&connection);
            }
        }
    }

    /// A worker speaks over this connection from now on.
    fn tie(&mut self, id: &str, connection: Option<ConnectionId>) {
        let Some(place) = self.by_id.get(id).copied() else {
            return;
        };
        let Some(worker) = self.list.get_mut(&place) else {
            return;
        };
        let before = std::mem::replace(&mut worker.connection, connection);
        self.untie(before, place);
        if let Some(connection) = connection {
            self.by_connection
                .entry(connection)
                .or_default()
                .insert(place);
        }
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
}

impl Worker {
    /// Bytes of what it says of itself.
    pub(super) fn bytes(&self) -> usize {
        let WorkerView {
            id, name, hostname, ..
        } = &self.view;
        text_bytes([id, name, hostname].into_iter().chain(&self.view.queues))
    }
}

/// Bytes of texts in a frame.
fn text_bytes<'a>(texts: impl Iterator<Item = &'a Arc<str>>) -> usize {
    texts.map(|text| framed(text.len())).sum()
}

/// Adds a figure to a total. Workers report what they like, but a total is always a number.
fn count_in(total: &mut f64, figure: f64) {
    *total = (*total + figure).clamp(f64::MIN, f64::MAX);
}

impl Engine {
    /// Registers a worker, or updates the one with that id (its name stays).
    ///
    /// # Errors
    /// [`Refusal::TooMany`] when there are [`WORKERS_MAX`] others, or with it they would take more than
    /// [`WORKER_BYTES_MAX`].
    pub fn register_worker(
        &mut self,
        turn: &mut Turn<'_>,
        worker: WorkerRegistration,
    ) -> Result<WorkerView, Refusal> {
        self.tick(turn);
        let now = self.now;
        let known = |id: &Arc<str>| self.workers.by_id.contains_key(id);
        if self.workers.list.len() >= WORKERS_MAX && !worker.id.as_ref().is_some_and(known) {
            let (what, max) = ("workers", WORKERS_MAX);
            return Err(Refusal::TooMany { what, max });
        }
        let texts = worker
            .id
            .iter()
            .chain([&worker.name])
            .chain(&worker.hostname);
        let bytes = text_bytes(texts.chain(&worker.queues));
        let before = worker.id.as_ref().and_then(|id| self.workers.find(id));
        let before = before.map_or(0, |known| known.bytes());
        if self.workers.bytes - before + bytes > WORKER_BYTES_MAX {
            let (what, max) = ("bytes of registered workers", WORKER_BYTES_MAX);
            return Err(Refusal::TooMany { what, max });
        }
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
        self.workers.tie(&id, turn.caller);
        if let Some(place) = self.workers.by_id.get(&id).copied() {
            self.workers.set_queues(place, worker.queues);
        }
        self.workers.bytes -= before;
        let view = match self.workers.find(&id) {
            Some(known) => {
                let view = &mut known.view;
                view.last_seen = now;
                view.concurrency = worker.concurrency.unwrap_or(view.concurrency);
                view.pid = worker.pid.unwrap_or(view.pid);
                if let Some(hostname) = worker.hostname {
                    view.hostname = hostname;
                }
                let (view, bytes) = (view.clone(), known.bytes());
                self.workers.bytes += bytes;
                view
            }
            None => unreachable!("the worker was just registered"),
        };
        self.arm_worker_check();
        Ok(view)
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
        let known = self.workers.remove(id);
        self.disarm_worker_check();
        known
    }

    /// The connection is gone, and with it the workers that registered over it.
    pub(super) fn forget_workers_of(&mut self, connection: ConnectionId) {
        let places = self.workers.by_connection.remove(&connection);
        for place in places.unwrap_or_default() {
            let worker = self.workers.list.get(&place);
            if let Some(id) = worker.map(|worker| Arc::clone(&worker.view.id)) {
                self.workers.remove(&id);
            }
        }
        self.disarm_worker_check();
    }

    /// All workers, in order of registration, with totals; those count workers that are gone, too.
    pub fn workers(&mut self, turn: &mut Turn<'_>) -> (Vec<WorkerView>, WorkerStats) {
        self.tick(turn);
        let all = self.workers.list.values().map(|worker| &worker.view);
        (self.list_workers(all), self.worker_stats())
    }

    /// Totals over all workers and those that are gone.
    pub(super) fn worker_stats(&self) -> WorkerStats {
        let gone = WorkerStats {
            total_processed: self.workers.gone_processed,
            total_failed: self.workers.gone_failed,
            ..WorkerStats::default()
        };
        let all = self.workers.list.values().map(|worker| &worker.view);
        self.sum_workers(gone, all)
    }

    /// The workers that say they serve a queue, in order of registration, with totals over them alone.
    pub fn workers_of(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
    ) -> (Vec<WorkerView>, WorkerStats) {
        self.tick(turn);
        let serving = || self.workers.serving(queue);
        let stats = self.sum_workers(WorkerStats::default(), serving());
        (self.list_workers(serving()), stats)
    }

    fn list_workers<'a>(&self, views: impl Iterator<Item = &'a WorkerView>) -> Vec<WorkerView> {
        let show = |view: &WorkerView| WorkerView {
            active: self.is_active(view),
            ..view.clone()
        };
        views.map(show).collect()
    }

    fn sum_workers<'a>(
        &self,
        mut stats: WorkerStats,
        views: impl Iterator<Item = &'a WorkerView>,
    ) -> WorkerStats {
        for view in views {
            stats.total += 1;
            count_in(&mut stats.total_processed, view.processed_jobs);
            count_in(&mut stats.total_failed, view.failed_jobs);
            count_in(&mut stats.active_jobs, view.active_jobs);
            if self.is_active(view) {
                stats.active += 1;
                count_in(&mut stats.concurrency_slots, view.concurrency);
            }
        }
        stats
    }

    fn is_active(&self, view: &WorkerView) -> bool {
        self.now - view.last_seen < self.config.worker_timeout
    }

    fn arm_worker_check(&mut self) {
        // The check that is armed comes first: it finds whoever registered since.
        if self.workers.check_at.is_some() {
            return;
        }
        let silent_for = self.forget_workers_after();
        let seen = self.workers.list.values().map(|known| known.view.last_seen);
        if let Some(oldest) = seen.min() {
            let at = oldest.saturating_add(silent_for);
            self.workers.check_at = Some(at);
            self.deadlines.insert(at, Timer::Workers);
        }
    }

    /// Without workers there is nothing to check.
    fn disarm_worker_check(&mut self) {
        if self.workers.list.is_empty()
            && let Some(at) = self.workers.check_at.take()
        {
            self.deadlines.remove(at, Timer::Workers);
        }
    }

    fn forget_workers_after(&self) -> Millis {
        let timeout = self.config.worker_timeout;
        timeout.saturating_mul(FORGET_AFTER_TIMEOUTS)
    }

    /// Forgets workers that have been silent for too long.
    pub(super) fn forget_silent_workers(&mut self) {
        self.workers.check_at = None;
        let silent_since = self.now.saturating_sub(self.forget_workers_after());
        self.workers
            .remove_where(|worker| worker.view.last_seen <= silent_since);
        self.arm_worker_check();
    }
}
