//! Adding jobs: custom ids, then deduplication keys, then admission (sections 2, 3 and 6).

use std::sync::Arc;

use bunqueue_mcp::engine::{
    AddOutcome, Added, EventKind, FailureReason, JobId, JobView, NewJob, Refusal, State,
    TimelineEntry, Waited,
};

use super::{Job, Key, Place, Reference};

impl Reference {
    /// Adds jobs in order; when one is refused, all are, which a rehearsal shows.
    pub(super) fn add_all(
        &mut self,
        queue: &Arc<str>,
        jobs: &[NewJob],
    ) -> Result<Vec<Added>, Refusal> {
        if !self.rehearsing && jobs.iter().any(|job| job.group_max.is_some()) {
            let mut rehearsal = self.clone();
            rehearsal.rehearsing = true;
            let id = |n: usize| JobId::from_text(&format!("rehearsed {n}"));
            rehearsal.learned.ids = (0..jobs.len()).map(id).collect();
            rehearsal.add_all(queue, jobs)?;
        }
        jobs.iter().map(|job| self.add(queue, job)).collect()
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
                    let prev = if self.jobs[job].ripe {
                        self.state_at(job)
                    } else {
                        State::Delayed
                    };
                    self.emit_for(job, EventKind::Removed { prev });
                    self.remove(job, &Waited::Removed);
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
        self.admit(queue, new, id.clone());
        Ok(Added { id, outcome })
    }

    /// A generated id is new, greater than every one before, and has the form of a UUID of version 7.
    fn accept_generated(&mut self, id: &JobId) -> JobId {
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

    fn admit(&mut self, queue: &Arc<str>, new: &NewJob, id: JobId) {
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
            history: Vec::new(),
            logs: Vec::new(),
            late_token: None,
            spent: Vec::new(),
            finalized_unlocked: false,
            lost: 0,
            from_cron: false,
            successor: None,
            jitter: None,
        });
        let at = self.jobs.len() - 1;
        let entry = TimelineEntry {
            state: self.state_at(at),
            at: self.now,
            error: None,
            attempt: None,
        };
        self.jobs[at].view.timeline.push(entry);
        self.emit_for(at, EventKind::Pushed);
        self.enqueue(at);
    }

    /// Puts a job (back) into its queue; one whose ttl is over fails at once.
    pub(super) fn enqueue(&mut self, at: usize) {
        let now = self.now;
        let job = &mut self.jobs[at];
        job.spend_current();
        job.place = Place::Queued;
        job.view.started_at = None;
        job.ripe = job.view.run_at <= now;
        if self.is_expired(at) {
            self.end(
                at,
                FailureReason::TtlExpired,
                Some("Job TTL expired".into()),
            );
        }
        self.note_turns(None);
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
