//! Adding jobs: custom ids, deduplication keys, the first place in the queue (engine contract, sections 3 and 6).

use std::sync::Arc;

use super::event::EventKind;
use super::id::JobId;
use super::job::{JobOptions, NewJob, State};
use super::outcome::{AddOutcome, Added};
use super::queue::{KeyOwner, QueueKey};
use super::store::{Job, JobKey};
use super::{Engine, Turn, later};

impl Engine {
    /// Adds one job, unless one that stands for it exists.
    pub fn add(&mut self, turn: &mut Turn<'_>, queue: &Arc<str>, job: NewJob) -> Added {
        self.tick(turn);
        let queue = self.queues.open_listed(queue);
        let added = self.admit(turn, queue, job);
        self.note_idle(queue);
        self.serve(turn, queue);
        added
    }

    /// Adds jobs in order; waiting pulls are served once all of them are in.
    pub fn add_many(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &Arc<str>,
        jobs: Vec<NewJob>,
    ) -> Vec<Added> {
        self.tick(turn);
        if jobs.is_empty() {
            return Vec::new();
        }
        let queue = self.queues.open_listed(queue);
        let added = jobs
            .into_iter()
            .map(|job| self.admit(turn, queue, job))
            .collect();
        self.note_idle(queue);
        self.serve(turn, queue);
        added
    }

    pub(super) fn admit(&mut self, turn: &mut Turn<'_>, queue: QueueKey, new: NewJob) -> Added {
        let mut finished = None;
        if let Some(id) = new.custom_id.as_ref()
            && let Some(existing) = self.store.find(id)
        {
            if self.store.job(existing).state.is_live() {
                return Added {
                    id: id.clone(),
                    outcome: AddOutcome::Existing,
                };
            }
            finished = Some(existing);
        }
        let mut outcome = AddOutcome::New;
        if let Some(options) = new.options.as_ref()
            && let Some(key) = options.unique_key.as_ref()
        {
            match self.deduplicate(turn, queue, key, options) {
                Duplicate::None => {}
                Duplicate::Of(id) => {
                    return Added {
                        id,
                        outcome: AddOutcome::Existing,
                    };
                }
                Duplicate::Replaced(id) => outcome = AddOutcome::Replaced(id),
            }
        }
        // A finished generation makes room, silently, but only once it is sure that a new one comes.
        if let Some(finished) = finished {
            self.delete(turn, finished);
        }
        let id = self.insert(turn, queue, new);
        Added { id, outcome }
    }

    fn insert(&mut self, turn: &mut Turn<'_>, queue: QueueKey, new: NewJob) -> JobId {
        let now = self.now;
        let has_custom_id = new.custom_id.is_some();
        let id = new.custom_id.unwrap_or_else(|| self.ids.job_id(now));
        let created_at = new.timestamp.unwrap_or(now);
        let seq = self.next_job;
        self.next_job += 1;
        let name = self.name(&new.name);
        let key = self.store.insert(Job {
            id: id.clone(),
            queue,
            name,
            data: new.data,
            seq,
            priority: new.priority,
            created_at,
            admitted_at: now,
            run_at: created_at.saturating_add(new.delay),
            attempts: 0,
            max_attempts: new.max_attempts,
            state: State::Waiting,
            admitted_as: State::Waiting,
            has_custom_id,
            lifo: new.lifo,
            remove_on_complete: new.remove_on_complete,
            remove_on_fail: new.remove_on_fail,
            durable: new.durable,
            gone_if_lost: false,
            options: new.options,
            life: None,
        });
        self.own_key(key);
        self.enqueue(key);
        let job = self.store.job_mut(key);
        job.admitted_as = job.state;
        self.emit(turn, key, EventKind::Pushed);
        self.fail_if_expired(turn, key);
        id
    }

    /// Registers the job as the owner of its deduplication key; an older owner can no longer release it.
    pub(super) fn own_key(&mut self, key: JobKey) {
        let job = self.store.job(key);
        let Some(options) = job.options.as_ref() else {
            return;
        };
        let Some(unique_key) = options.unique_key.as_ref() else {
            return;
        };
        let expires_at = options.dedup.ttl.map(|ttl| later(self.now, ttl));
        let owner = KeyOwner {
            job: key,
            expires_at,
        };
        self.queues
            .get_mut(job.queue)
            .keys
            .insert(Arc::clone(unique_key), owner);
    }

    /// Frees the job's deduplication key if the job still owns it.
    pub(super) fn release_key(&mut self, key: JobKey) -> bool {
        let job = self.store.job(key);
        let Some(unique_key) = job
            .options
            .as_ref()
            .and_then(|options| options.unique_key.as_ref())
        else {
            return false;
        };
        let keys = &mut self.queues.get_mut(job.queue).keys;
        let owned = keys.get(unique_key).is_some_and(|owner| owner.job == key);
        if owned {
            keys.remove(unique_key);
        }
        owned
    }

    /// The job that owns the key now.
    pub(super) fn key_owner(&self, queue: QueueKey, key: &str) -> Option<JobKey> {
        let owner = self.queues.get(queue).keys.get(key)?;
        owner
            .expires_at
            .is_none_or(|at| at > self.now)
            .then_some(owner.job)
    }

    fn deduplicate(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueKey,
        key: &Arc<str>,
        new: &JobOptions,
    ) -> Duplicate {
        let Some(owner) = self.key_owner(queue, key) else {
            return Duplicate::None;
        };
        let (id, state) = (
            self.store.job(owner).id.clone(),
            self.store.job(owner).state,
        );
        if new.dedup.replace {
            if state == State::Active {
                // It runs on and finishes normally; the newcomer takes the key over.
                return Duplicate::None;
            }
            self.remove_single(turn, owner);
            return Duplicate::Replaced(id);
        }
        if let Some(ttl) = new.dedup.ttl.filter(|_| new.dedup.extend) {
            let expires_at = Some(later(self.now, ttl));
            self.queues.get_mut(queue).keys.insert(
                Arc::clone(key),
                KeyOwner {
                    job: owner,
                    expires_at,
                },
            );
        }
        self.emit(turn, owner, EventKind::Duplicated);
        Duplicate::Of(id)
    }

    /// Who owns a deduplication key.
    pub fn dedup_owner(&mut self, turn: &mut Turn<'_>, queue: &str, key: &str) -> Option<JobId> {
        self.tick(turn);
        let owner = self.key_owner(self.queues.find(queue)?, key)?;
        Some(self.store.job(owner).id.clone())
    }

    /// Frees a deduplication key; whether anybody owned it.
    pub fn remove_dedup_key(&mut self, turn: &mut Turn<'_>, queue: &str, key: &str) -> bool {
        self.tick(turn);
        let Some(queue) = self.queues.find(queue) else {
            return false;
        };
        let owned = self.key_owner(queue, key).is_some();
        self.queues.get_mut(queue).keys.remove(key);
        owned
    }

    /// Frees the deduplication key of a job; whether the job owned one.
    pub fn remove_job_dedup_key(&mut self, turn: &mut Turn<'_>, id: &JobId) -> bool {
        self.tick(turn);
        let Some(key) = self.store.find(id) else {
            return false;
        };
        let job = self.store.job(key);
        let Some(unique_key) = job
            .options
            .as_ref()
            .and_then(|options| options.unique_key.clone())
        else {
            return false;
        };
        let owned = self.key_owner(job.queue, &unique_key) == Some(key);
        owned && self.release_key(key)
    }
}

#[derive(Debug)]
enum Duplicate {
    /// Nobody stands in the way.
    None,
    /// This job stands for the request.
    Of(JobId),
    /// This job was deleted for it.
    Replaced(JobId),
}
