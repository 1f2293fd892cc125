//! The registry of workers (section 19).

use std::sync::Arc;

use bunqueue_mcp::command::{Command, CommandError, Reply, Workers};
use bunqueue_mcp::engine::{
    Caller, ConnectionId, Millis, Refusal, WorkerRegistration, WorkerStats, WorkerView,
};

use super::{Answer, Reference};

#[derive(Clone, Debug)]
pub struct Worker {
    view: WorkerView,
    connection: Caller,
}

/// All workers, in order of registration, and what those that are gone have reported.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    list: Vec<Worker>,
    gone: WorkerStats,
}

fn add(total: &mut f64, figure: f64) {
    *total += figure;
    if total.is_infinite() {
        *total = f64::MAX.copysign(*total);
    }
}

impl Reference {
    /// Runs a command about workers; `None` for all others.
    pub(super) fn about_workers(&mut self, caller: Caller, command: &Command) -> Option<Answer> {
        let reply = match command {
            Command::RegisterWorker(register) => {
                match self.register_worker(caller, &register.worker) {
                    Some(view) => Reply::Worker(Box::new(view)),
                    None => {
                        let (what, max) = ("workers", 10_000);
                        let refusal = Refusal::TooMany { what, max };
                        return Some(Answer::Done(Err(CommandError::Refused(refusal))));
                    }
                }
            }
            Command::WorkerHeartbeat(beat) => {
                let at = self.worker_at(&beat.id);
                if let Some(at) = at {
                    let view = &mut self.workers.list[at].view;
                    view.last_seen = self.now;
                    let told = &beat.figures;
                    for (figure, told) in [
                        (&mut view.active_jobs, told.active_jobs),
                        (&mut view.processed_jobs, told.processed),
                        (&mut view.failed_jobs, told.failed),
                    ] {
                        *figure = told.unwrap_or(*figure);
                    }
                }
                Reply::Flag(at.is_some())
            }
            Command::UnregisterWorker(unregister) => {
                let at = self.worker_at(&unregister.id);
                if let Some(at) = at {
                    self.remove_worker(at);
                }
                Reply::Flag(at.is_some())
            }
            Command::ListWorkers(_) => Reply::Workers(self.all_workers()),
            Command::ListQueueWorkers(of) => {
                let queue = Some(of.queue.as_str());
                Reply::Workers(self.workers_where(WorkerStats::default(), queue))
            }
            _ => return None,
        };
        Some(Answer::Done(Ok(reply)))
    }

    pub(super) fn all_workers(&self) -> Workers {
        self.workers_where(self.workers.gone, None)
    }

    fn worker_at(&self, id: &str) -> Option<usize> {
        let mut workers = self.workers.list.iter();
        workers.position(|worker| &*worker.view.id == id)
    }

    fn register_worker(&mut self, caller: Caller, new: &WorkerRegistration) -> Option<WorkerView> {
        let known = new.id.as_ref().and_then(|id| self.worker_at(id));
        if known.is_none() && self.workers.list.len() >= 10_000 {
            return None;
        }
        let at = known.unwrap_or_else(|| {
            let id = new.id.clone().or_else(|| self.learned.registered.take());
            let view = WorkerView {
                id: id.expect("the reply names the id"),
                name: Arc::clone(&new.name),
                queues: Vec::new(),
                concurrency: 1.0,
                hostname: "unknown".into(),
                pid: 0.0,
                registered_at: new.started_at.unwrap_or(self.now),
                last_seen: self.now,
                active: true,
                active_jobs: 0.0,
                processed_jobs: 0.0,
                failed_jobs: 0.0,
            };
            let connection = None;
            self.workers.list.push(Worker { view, connection });
            self.workers.list.len() - 1
        });
        let worker = &mut self.workers.list[at];
        worker.connection = caller;
        let view = &mut worker.view;
        view.queues.clone_from(&new.queues);
        view.last_seen = self.now;
        view.concurrency = new.concurrency.unwrap_or(view.concurrency);
        view.pid = new.pid.unwrap_or(view.pid);
        if let Some(hostname) = &new.hostname {
            view.hostname = Arc::clone(hostname);
        }
        Some(view.clone())
    }

    pub(super) fn remove_worker(&mut self, at: usize) {
        let view = self.workers.list.remove(at).view;
        let gone = &mut self.workers.gone;
        add(&mut gone.total_processed, view.processed_jobs);
        add(&mut gone.total_failed, view.failed_jobs);
    }

    /// The workers of a closed connection go with it.
    pub(super) fn remove_workers_of(&mut self, connection: ConnectionId) {
        let of = |worker: &Worker| worker.connection == Some(connection);
        while let Some(at) = self.workers.list.iter().position(of) {
            self.remove_worker(at);
        }
    }

    /// When each worker is forgotten unless it says something before.
    pub(super) fn ends_of_workers(&self) -> Vec<Millis> {
        let patience = 3 * self.config.worker_timeout;
        let workers = self.workers.list.iter();
        workers
            .map(|worker| worker.view.last_seen + patience)
            .collect()
    }

    fn workers_where(&self, mut stats: WorkerStats, queue: Option<&str>) -> Workers {
        let mut list = Vec::new();
        for Worker { view, .. } in &self.workers.list {
            if queue.is_some_and(|queue| !view.queues.iter().any(|name| &**name == queue)) {
                continue;
            }
            let active = self.now < view.last_seen + self.config.worker_timeout;
            stats.total += 1;
            add(&mut stats.total_processed, view.processed_jobs);
            add(&mut stats.total_failed, view.failed_jobs);
            add(&mut stats.active_jobs, view.active_jobs);
            if active {
                stats.active += 1;
                add(&mut stats.concurrency_slots, view.concurrency);
            }
            list.push(WorkerView {
                active,
                ..view.clone()
            });
        }
        Workers { list, stats }
    }

    /// Whether a worker that is not silent serves the queue.
    pub(super) fn any_works_for(&self, queue: &Arc<str>) -> bool {
        let mut workers = self.workers.list.iter();
        workers.any(|Worker { view, .. }| {
            self.now < view.last_seen + self.config.worker_timeout && view.queues.contains(queue)
        })
    }

    pub fn worker_ids(&self) -> Vec<Arc<str>> {
        let workers = self.workers.list.iter();
        workers.map(|worker| Arc::clone(&worker.view.id)).collect()
    }
}
