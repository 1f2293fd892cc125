//! Adding jobs: custom ids, deduplication keys, the first place in the queue (engine contract, sections 3 and 6).

use std::sync::Arc;

use super::event::EventKind;
use super::flow::Annotate;
use super::id::JobId;
use super::job::{JobOptions, NewJob, State};
use super::outcome::{AddOutcome, Added, BatchRefusal, Refusal};
use super::queue::{KeyOwner, QueueKey};
use super::store::{Job, JobKey};
use super::{Engine, Turn, later};

impl Engine {
    /// Adds one job, unless one that stands for it exists. The data of a parent that it is tied to names it from then on.
    ///
    /// # Errors
    /// [`Refusal`] when its group is full, or a job it depends on or belongs to does not allow it; nothing has changed
    /// then.
    pub fn add(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &Arc<str>,
        job: NewJob,
        annotate: Annotate,
    ) -> Result<Added, Refusal> {
        self.tick(turn);
        self.check_ties(queue, std::slice::from_ref(&job))
            .map_err(|refused| refused.refusal)?;
        self.check_room(queue, std::iter::once(&job), false)?;
        let queue = self.queues.open_listed(queue);
        let added = self.admit(turn, queue, job, annotate);
        self.note_idle(queue);
        self.serve(turn, queue);
        Ok(added)
    }

    /// Adds jobs in order, all or none; waiting pulls are served once all of them are in.
    ///
    /// # Errors
    /// As [`Engine::add`].
    pub fn add_many(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &Arc<str>,
        jobs: Vec<NewJob>,
        annotate: Annotate,
    ) -> Result<Vec<Added>, BatchRefusal> {
        self.tick(turn);
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.check_ties(queue, &jobs)?;
        self.check_room(queue, jobs.iter(), false)
            .map_err(|refusal| BatchRefusal {
                index: None,
                refusal,
            })?;
        let queue = self.queues.open_listed(queue);
        let tied = jobs.iter().any(|job| job.links.is_some());
        let added = self.hold_on(turn, |engine, turn| {
            let admit = |job| engine.admit(turn, queue, job, annotate);
            let added: Vec<_> = jobs.into_iter().map(admit).collect();
            if tied {
                engine.drop_orphans(turn, &added);
            }
            engine.serve(turn, queue);
            added
        });
        self.note_idle(queue);
        Ok(added)
    }

    pub(super) fn admit(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueKey,
        new: NewJob,
        annotate: Annotate,
    ) -> Added {
        if let Some(id) = new.custom_id.as_ref()
            && let Some(existing) = self.store.find(id)
            && self.store.job(existing).state.is_live()
        {
            return Added {
                id: id.clone(),
                outcome: AddOutcome::Existing,
            };
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
        // A finished generation makes room, silently, but only once it is sure that a new one comes. Looked up now: what
        // was deleted for the key may have taken it along.
        if let Some(finished) = new.custom_id.as_ref().and_then(|id| self.store.find(id)) {
            self.erase(turn, finished);
        }
        let parent = new.links.as_ref().and_then(|links| links.parent.clone());
        let key = self.insert(turn, queue, None, new);
        let id = self.store.job(key).id.clone();
        if let Some(parent) = parent.and_then(|parent| self.store.find(&parent.id)) {
            self.adopt(parent, &id, annotate);
        }
        self.fail_if_expired(turn, key);
        Added { id, outcome }
    }

    /// Stores a job and says so; the caller lets it expire and serves waiting pulls.
    pub(super) fn insert(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueKey,
        planned: Option<JobId>,
        new: NewJob,
    ) -> JobKey {
        let now = self.now;
        let has_custom_id = new.custom_id.is_some();
        if let Some(id) = new.custom_id.as_ref() {
            self.forget_completion(id);
        }
        let id = new
            .custom_id
            .or(planned)
            .unwrap_or_else(|| self.ids.job_id(now));
        let created_at = new.timestamp.unwrap_or(now);
        let seq = self.next_job;
        self.next_job += 1;
        let name = self.names.take(&new.name);
        let admitted_late = created_at != now;
        let key = self.store.insert(Job {
            id,
            queue,
            name,
            data: new.data,
            seq,
            priority: new.priority,
            created_at,
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
            links: None,
            life: None,
        });
        if admitted_late {
            self.store.job_mut(key).life().admitted_at = Some(now);
        }
        if let Some(links) = new.links {
            self.tie(key, *links);
        }
        self.own_key(key);
        self.enqueue(key);
        let job = self.store.job_mut(key);
        job.admitted_as = job.state;
        self.emit(turn, key, EventKind::Pushed);
        key
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
        let keys = &mut self.queues.get_mut(job.queue).keys;
        if let Some(before) = keys.insert(Arc::clone(unique_key), owner) {
            self.store.marks.touch(before.job);
        }
        self.store.marks.touch(key);
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
            self.store.marks.touch(key);
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
            self.store.marks.touch(owner);
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
        if let Some(owner) = self.queues.get_mut(queue).keys.remove(key) {
            self.store.marks.touch(owner.job);
        }
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
