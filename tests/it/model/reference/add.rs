//! Adding jobs: custom ids, then deduplication keys, then admission (sections 2, 3 and 6).

use std::sync::Arc;

use bunqueue_mcp::command::CommandError;
use bunqueue_mcp::engine::{
    AddOutcome, Added, EventKind, FailureReason, JobId, JobView, NewJob, Refusal, State,
    TimelineEntry, Waited,
};

use super::ties::parent_of;
use super::{Job, Key, Place, Reference, Ties};

impl Reference {
    /// Adds jobs, all of them or none; that a group has room for them is shown by a rehearsal.
    pub(super) fn add_all(
        &mut self,
        queue: &Arc<str>,
        jobs: &[NewJob],
        batch: bool,
    ) -> Result<Vec<Added>, CommandError> {
        self.check_adds(queue, jobs, batch)?;
        if jobs.iter().any(|job| job.group_max.is_some()) {
            self.rehearse(jobs.len(), |rehearsal| {
                let added = jobs.iter().map(|job| rehearsal.add(queue, job));
                added.collect::<Result<Vec<_>, _>>()
            })
            .map_err(CommandError::Refused)?;
        }
        let added: Result<Vec<Added>, _> = jobs.iter().map(|job| self.add(queue, job)).collect();
        let added = added.map_err(CommandError::Refused)?;
        let ids: Vec<JobId> = added.iter().map(|added| added.id.clone()).collect();
        self.lose_what_never_came(&ids);
        Ok(added)
    }

    /// What would happen; nothing of it does.
    fn rehearse<T>(&self, jobs: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let mut rehearsal = self.clone();
        rehearsal.rehearsing = true;
        let id = |n: usize| JobId::from_text(&format!("rehearsed {n}"));
        rehearsal.learned.ids = (0..jobs).map(id).collect();
        act(&mut rehearsal)
    }

    fn add(&mut self, queue: &Arc<str>, new: &NewJob) -> Result<Added, Refusal> {
        let told = self
            .learned
            .ids
            .pop_front()
            .expect("the reply of an add names one id for each job");
        self.add_as(queue, new, Some(told))
    }

    /// Adds a job under the id that the reply has told, or for one that nobody asked for under the next one known.
    pub(super) fn add_as(
        &mut self,
        queue: &Arc<str>,
        new: &NewJob,
        told: Option<JobId>,
    ) -> Result<Added, Refusal> {
        self.touch_queue(queue);
        let mut retired = None;
        if let Some(at) = new.custom_id.as_ref().and_then(|id| self.find(id)) {
            let id = self.jobs[at].view.id.clone();
            if matches!(self.jobs[at].place, Place::Queued | Place::Active(_)) {
                return Ok(Added {
                    id,
                    outcome: AddOutcome::Existing,
                });
            }
            retired = Some(id);
        }
        let mut outcome = AddOutcome::New;
        let options = new.options.clone().unwrap_or_default();
        let dedup = options.dedup;
        self.forget_expired_keys();
        let owned = options.unique_key.as_ref().and_then(|key| {
            self.keys
                .iter()
                .position(|entry| entry.queue == *queue && entry.key == *key)
        });
        if let Some(at) = owned {
            let owner = self.keys[at].owner.clone();
            if dedup.replace {
                let job = self
                    .find(&owner)
                    .expect("a key belongs to an unfinished job");
                if matches!(self.jobs[job].place, Place::Queued) {
                    // A schedule that is late comes before a delay that ends later, though both are over by now.
                    let prev = match self.state_at(job) {
                        State::Waiting | State::Prioritized if !self.jobs[job].ripe => {
                            State::Delayed
                        }
                        state => state,
                    };
                    self.emit_for(job, EventKind::Removed { prev });
                    self.delete(job);
                    outcome = AddOutcome::Replaced(owner);
                } else {
                    self.keys.remove(at);
                }
            } else {
                if let (true, Some(ttl)) = (dedup.extend, dedup.ttl) {
                    self.keys[at].expires_at = Some(self.now + ttl.ceil() as i64);
                }
                self.emit(queue, Some(owner.clone()), EventKind::Duplicated);
                return Ok(Added {
                    id: owner,
                    outcome: AddOutcome::Existing,
                });
            }
        }
        if let (Some(group), Some(max)) = (&options.group_id, new.group_max)
            && self.queued_in_group(queue, group) as u64 >= max
        {
            let group = Arc::clone(group);
            return Err(Refusal::GroupFull { group, max });
        }
        if let Some(at) = retired.and_then(|id| self.find(&id)) {
            // The old generation makes room; nobody is told.
            self.remove(at, &Waited::Removed);
        }
        let id = new.custom_id.clone().unwrap_or_else(|| {
            let told = told.or_else(|| self.learned.born.pop_front());
            self.accept_generated(&told.expect("the engine has told of every new job"))
        });
        let at = self.admit(queue, new, id.clone());
        let parent = parent_of(new).and_then(|parent| self.find(&parent.id));
        if let Some(parent) = parent {
            self.adopt(parent, &id);
        }
        self.expire_if_old(at);
        Ok(Added { id, outcome })
    }

    /// A generated id is new, greater than every one before, and has the form of a UUID of version 7.
    pub(super) fn accept_generated(&mut self, id: &JobId) -> JobId {
        if self.rehearsing {
            return id.clone();
        }
        let text = id.text();
        let form = text.len() == 36
            && text.as_bytes()[14] == b'7'
            && matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b');
        assert!(form, "{id} is no UUID of version 7");
        assert!(
            self.greatest_id.as_ref().is_none_or(|last| last < id),
            "{id} does not follow {:?}",
            self.greatest_id
        );
        self.greatest_id = Some(id.clone());
        id.clone()
    }

    /// Stores a job; that it may be too old already is for the caller.
    pub(super) fn admit(&mut self, queue: &Arc<str>, new: &NewJob, id: JobId) -> usize {
        self.proofs.retain(|other| *other != id);
        let options = new.options.clone().unwrap_or_default();
        let created_at = new.timestamp.unwrap_or(self.now);
        self.touch_queue(queue).empty_since = None;
        if let Some(key) = &options.unique_key {
            let expires_at = options.dedup.ttl.map(|ttl| self.now + ttl.ceil() as i64);
            self.keys.push(Key {
                queue: Arc::clone(queue),
                key: Arc::clone(key),
                owner: id.clone(),
                expires_at,
            });
        }
        let view = JobView {
            id,
            has_custom_id: new.custom_id.is_some(),
            queue: Arc::clone(queue),
            name: Arc::clone(&new.name),
            data: new.data.clone(),
            state: State::Waiting,
            priority: new.priority,
            created_at,
            run_at: created_at + new.delay,
            started_at: None,
            completed_at: None,
            last_heartbeat: created_at,
            attempts: 0,
            max_attempts: new.max_attempts,
            stall_count: 0,
            progress: 0.0,
            progress_message: None,
            stacktrace: None,
            lifo: new.lifo,
            remove_on_complete: new.remove_on_complete,
            remove_on_fail: new.remove_on_fail,
            durable: new.durable,
            options,
            links: None,
            timeline: Vec::new(),
        };
        self.next_seq += 1;
        self.jobs.push(Job {
            view,
            place: Place::Queued,
            seq: self.next_seq,
            was_letter: None,
            refused_until: None,
            ripe: false,
            result: None,
            result_used: 0,
            ties: Ties::default(),
            history: Vec::new(),
            logs: Vec::new(),
            log_used: 0,
            late_token: None,
            spent: Vec::new(),
            finalized_unlocked: false,
            lost: 0,
            from_cron: false,
            done_seq: 0,
            successor: None,
            jitter: None,
        });
        let at = self.jobs.len() - 1;
        if let Some(links) = &new.links {
            self.tie(at, links);
        }
        self.place(at);
        let entry = TimelineEntry {
            state: self.state_at(at),
            at: self.now,
            error: None,
            attempt: None,
        };
        self.jobs[at].view.timeline.push(entry);
        self.emit_for(at, EventKind::Pushed);
        at
    }

    /// Puts a job (back) into its queue; one whose ttl is over fails at once.
    pub(super) fn enqueue(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        job.spend_current();
        job.view.started_at = None;
        self.place(at);
        self.expire_if_old(at);
    }

    pub(super) fn expire_if_old(&mut self, at: usize) {
        if self.is_expired(at) {
            self.end(
                at,
                FailureReason::TtlExpired,
                Some("Job TTL expired".into()),
            );
        }
        self.note_turns();
    }

    /// Whether a job is too old to start.
    pub(super) fn is_expired(&self, at: usize) -> bool {
        let view = &self.jobs[at].view;
        let ttl = view.options.ttl;
        ttl.is_some_and(|ttl| self.now as f64 > view.created_at as f64 + ttl)
    }

    pub(super) fn forget_expired_keys(&mut self) {
        let now = self.now;
        self.keys
            .retain(|key| key.expires_at.is_none_or(|expires_at| expires_at > now));
    }
}
