//! Whether the groups of jobs to be added have room for them (engine contract, sections 6.1 and 6.3).
//!
//! A batch is admitted as a whole or not at all, so it is gone through beforehand: which of its jobs will be admitted,
//! which stand for others, and how many are queued in each group then. Nothing of it changes the engine, and batches
//! without a bounded group pay one look at each job.

use std::collections::HashMap;

use super::id::JobId;
use super::job::{JobOptions, NewJob, State};
use super::outcome::Refusal;
use super::queue::QueueKey;
use super::store::JobKey;
use super::{Engine, Millis, later};

/// What the jobs of the batch so far will have changed.
#[derive(Debug, Default)]
struct Plan<'a> {
    /// Queued jobs that a group gains or loses.
    gains: HashMap<&'a str, i64>,
    /// Ids that the batch takes (true) or frees.
    ids: HashMap<&'a JobId, bool>,
    /// Owners of keys as the batch leaves them, and until when.
    keys: HashMap<&'a str, (Owner<'a>, Option<Millis>)>,
}

/// Who owns a deduplication key.
#[derive(Clone, Copy, Debug)]
enum Owner<'a> {
    Job(JobKey),
    /// A job of the batch itself.
    New(&'a NewJob),
}

impl Engine {
    /// Refuses jobs that a group has no room for; with one of them, all.
    pub(super) fn check_room<'a>(
        &'a self,
        queue: &str,
        jobs: impl Iterator<Item = &'a NewJob> + Clone,
    ) -> Result<(), Refusal> {
        if jobs.clone().all(|job| job.group_max.is_none()) {
            return Ok(());
        }
        let queue = self.queues.find(queue);
        let mut plan = Plan::default();
        for job in jobs {
            self.plan(queue, &mut plan, job)?;
        }
        Ok(())
    }

    fn plan<'a>(
        &'a self,
        queue: Option<QueueKey>,
        plan: &mut Plan<'a>,
        new: &'a NewJob,
    ) -> Result<(), Refusal> {
        if let Some(id) = new.custom_id.as_ref() {
            let stored = || {
                let key = self.store.find(id)?;
                Some(self.store.job(key).state.is_live())
            };
            let taken = plan.ids.get(id).copied().or_else(stored);
            if taken == Some(true) {
                return Ok(());
            }
        }
        let options = new.options.as_deref();
        let mut replaced = None;
        if let Some(options) = options
            && let Some(unique_key) = options.unique_key.as_deref()
            && let Some(owner) = self.planned_owner(queue, plan, unique_key)
        {
            if !options.dedup.replace {
                if let Some(ttl) = options.dedup.ttl.filter(|_| options.dedup.extend) {
                    let expires_at = Some(later(self.now, ttl));
                    plan.keys.insert(unique_key, (owner, expires_at));
                }
                return Ok(());
            }
            replaced = Some(owner);
        }
        if let Some(owner) = replaced {
            self.plan_removal(plan, owner);
        }
        let group = options.and_then(|options| options.group_id.as_ref());
        if let (Some(group), Some(max)) = (group, new.group_max) {
            let stored = queue
                .and_then(|queue| self.queues.get(queue).ready.groups.get(group))
                .map_or(0, |group| group.queued() as i64);
            let queued = stored + plan.gains.get(&**group).copied().unwrap_or(0);
            if u64::try_from(queued).is_ok_and(|queued| queued >= max) {
                let group = group.clone();
                return Err(Refusal::GroupFull { group, max });
            }
        }
        self.plan_admission(plan, new);
        Ok(())
    }

    fn planned_owner<'a>(
        &'a self,
        queue: Option<QueueKey>,
        plan: &Plan<'a>,
        unique_key: &str,
    ) -> Option<Owner<'a>> {
        if let Some((owner, expires_at)) = plan.keys.get(unique_key) {
            return expires_at.is_none_or(|at| at > self.now).then_some(*owner);
        }
        self.key_owner(queue?, unique_key).map(Owner::Job)
    }

    /// The owner of a key makes room, unless it is active and runs on.
    fn plan_removal<'a>(&'a self, plan: &mut Plan<'a>, owner: Owner<'a>) {
        let (id, group) = match owner {
            Owner::New(job) if self.will_wait(job) => (job.custom_id.as_ref(), None),
            Owner::New(job) => {
                let group = job.options.as_ref().and_then(|job| job.group_id.as_deref());
                (job.custom_id.as_ref(), group)
            }
            Owner::Job(key) => {
                let job = self.store.job(key);
                if job.state == State::Active {
                    return;
                }
                let queued = job.group().filter(|_| job.state.is_queued());
                (Some(&job.id), queued.map(|group| &**group))
            }
        };
        if let Some(id) = id {
            plan.ids.insert(id, false);
        }
        if let Some(group) = group {
            *plan.gains.entry(group).or_default() -= 1;
        }
    }

    fn plan_admission<'a>(&'a self, plan: &mut Plan<'a>, new: &'a NewJob) {
        let options = new.options.as_deref();
        let lives = !self.fails_at_once(new);
        if let Some(id) = new.custom_id.as_ref() {
            plan.ids.insert(id, lives);
        }
        if let Some(options) = options
            && let Some(unique_key) = options.unique_key.as_deref()
        {
            let expires_at = if lives {
                options.dedup.ttl.map(|ttl| later(self.now, ttl))
            } else {
                Some(Millis::MIN)
            };
            plan.keys.insert(unique_key, (Owner::New(new), expires_at));
        }
        if lives
            && !self.will_wait(new)
            && let Some(group) = options.and_then(|options| options.group_id.as_deref())
        {
            *plan.gains.entry(group).or_default() += 1;
        }
    }

    /// Whether the job will wait for others, and so not be queued.
    fn will_wait(&self, new: &NewJob) -> bool {
        let links = new.links.as_ref();
        links.is_some_and(|links| links.depends_on.iter().any(|id| !self.is_met(id)))
    }

    /// Whether the job will be too old when it comes in.
    fn fails_at_once(&self, new: &NewJob) -> bool {
        let expiry = |options: &JobOptions| {
            let created_at = new.timestamp.unwrap_or(self.now);
            super::store::expiry(created_at, options)
        };
        let at = new.options.as_deref().and_then(expiry);
        at.is_some_and(|at| at <= self.now)
    }
}
