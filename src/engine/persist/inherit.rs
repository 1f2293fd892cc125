//! An engine that takes the place of another one in the same process, after a commit that failed: what the other one had
//! more than the store has never happened, but whoever is connected still is, and so is whoever works.

use std::collections::HashMap;

use super::super::deadline::Timer;
use super::super::figures::{Durability, StorageStatus};
use super::super::id::LockToken;
use super::super::outcome::ConnectionId;
use super::super::store::{Job, JobKey};
use super::super::{Engine, Millis};

/// What tells a delivery from all others of an engine, and of those loaded in its place. Two of one job without a lock
/// within one millisecond count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Mark {
    job: u64,
    started_at: Option<Millis>,
    token: Option<LockToken>,
}

/// What a store does not have of a delivery.
#[derive(Clone, Copy, Debug)]
struct Origin {
    serial: u64,
    connection: Option<ConnectionId>,
}

/// Deliveries whose end may not be stored yet, in order. When it cannot be, they go on.
#[derive(Debug, Default)]
pub(in crate::engine) struct Unstored {
    /// Their ends were taken to be stored.
    taken: Vec<(Mark, Origin)>,
    /// They ended since.
    recent: Vec<(Mark, Origin)>,
}

impl Unstored {
    /// Changes are taken once more: those of the time before are stored.
    pub(super) fn take(&mut self) {
        std::mem::swap(&mut self.taken, &mut self.recent);
        self.recent.clear();
    }
}

/// The delivery in progress of a job.
fn delivery_of(job: &Job) -> Option<(Mark, Origin)> {
    let run = job.run()?;
    let mark = Mark {
        job: job.seq,
        started_at: job.life.as_deref().and_then(|life| life.started_at),
        token: job.token(),
    };
    let (serial, connection) = (run.serial, run.connection);
    Some((mark, Origin { serial, connection }))
}

impl Engine {
    /// A delivery is about to end. Where answers do not wait for the store, no engine is ever loaded in this one's place.
    pub(in crate::engine) fn note_end(&mut self, key: JobKey) {
        if self.store.marks.on && self.storage.durability != Durability::Buffered {
            let delivery = delivery_of(self.store.job(key));
            self.unstored.recent.extend(delivery);
        }
    }

    /// Takes the place of an engine that went on while the store did not: who is connected, which workers there are, who
    /// wants notices and since when things are counted is known, and deliveries that the store has go on under their
    /// numbers and are whose they were. Waits end with the other engine.
    pub fn inherit(&mut self, other: &mut Self) {
        self.workers = std::mem::take(&mut other.workers);
        if let Some(at) = self.workers.check_at {
            self.deadlines.insert(at, Timer::Workers);
        }
        self.notices = std::mem::take(&mut other.notices);
        if let Some(at) = self.notices.next_look {
            self.deadlines.insert(at, Timer::Notices);
        }
        self.service = other.service;
        for (_, theirs) in other.queues.all() {
            if let Some(key) = self.queues.find(&theirs.name) {
                self.queues.get_mut(key).figures.go_on_from(&theirs.figures);
            }
        }
        self.figures.go_on_from(std::mem::take(&mut other.figures));
        self.storage = std::mem::replace(&mut other.storage, StorageStatus::IN_MEMORY);
        // Outside there are still numbers of the other one, which must not mean anything else here.
        self.waits.count_on_from(&other.waits);
        self.next_delivery = self.next_delivery.max(other.next_delivery);
        self.inherit_deliveries(other);
    }

    fn inherit_deliveries(&mut self, other: &mut Self) {
        let mut known: HashMap<Mark, Origin> = HashMap::new();
        let Unstored { taken, recent } = std::mem::take(&mut other.unstored);
        let active = other.active_jobs();
        let active = active
            .iter()
            .filter_map(|key| delivery_of(other.store.job(*key)));
        for (mark, origin) in taken.into_iter().chain(recent).chain(active) {
            // What is stored is the first of them.
            known.entry(mark).or_insert(origin);
        }
        for key in self.active_jobs() {
            let found = delivery_of(self.store.job(key)).and_then(|(mark, _)| known.get(&mark));
            let origin = found.copied().unwrap_or_else(|| {
                let serial = self.next_delivery;
                self.next_delivery += 1;
                let connection = None;
                Origin { serial, connection }
            });
            if let Some(run) = self.store.job_mut(key).life().run.as_mut() {
                (run.serial, run.connection) = (origin.serial, origin.connection);
            }
            if let Some(connection) = origin.connection {
                let owned = self.connections.entry(connection).or_default();
                owned.insert(origin.serial, key);
            }
        }
    }

    fn active_jobs(&self) -> Vec<JobKey> {
        let queues = self.queues.all();
        queues
            .flat_map(|(_, queue)| queue.active.iter().copied())
            .collect()
    }

    /// Changes are accepted from now on. Before, no worker could give a sign of life, so that none is charged for silence.
    pub fn hear_again(&mut self, now: Millis) {
        self.heard_since = self.heard_since.max(now);
    }
}
