//! Whether the groups of jobs to be added have room for them (engine contract, sections 6.1 and 6.3).
//!
//! A batch is admitted as a whole or not at all, so it is gone through beforehand: which of its jobs will be admitted,
//! which stand for others, and how many are queued in each group then. Nothing of it changes the engine, and batches
//! without a bounded group pay one look at each job.

use std::collections::{HashMap, HashSet};

use super::id::JobId;
use super::job::{NewJob, State};
use super::link::Policy;
use super::outcome::Refusal;
use super::queue::QueueKey;
use super::store::{JobKey, fails_at_once};
use super::{Engine, Millis, later};

/// What the jobs of the batch so far will have changed.
#[derive(Debug, Default)]
struct Plan<'a> {
    /// Queued jobs that a group gains or loses.
    gains: HashMap<&'a str, i64>,
    /// Ids that the batch takes, and by whom, or frees.
    ids: HashMap<&'a JobId, Option<Owner>>,
    /// Owners of keys as the batch leaves them, and until when.
    keys: HashMap<&'a str, (Owner, Option<Millis>)>,
    /// Those of the batch that are admitted.
    admitted: Vec<Entry<'a>>,
    /// Stored jobs that are no longer queued.
    left: HashSet<JobKey>,
}

/// A job of the batch.
#[derive(Debug)]
struct Entry<'a> {
    id: Option<&'a JobId>,
    /// The group in which it is queued.
    group: Option<&'a str>,
}

/// Who owns a deduplication key, or has an id.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Job(JobKey),
    /// A job of the batch itself, by its place among those that are admitted.
    New(usize),
}

impl Engine {
    /// Refuses jobs that a group has no room for; with one of them, all. Parents come to wait for those jobs only when
    /// the jobs are not of a flow, which says by itself who waits.
    pub(super) fn check_room<'a>(
        &'a self,
        queue: &str,
        jobs: impl Iterator<Item = &'a NewJob> + Clone,
        of_flow: bool,
    ) -> Result<(), Refusal> {
        if jobs.clone().all(|job| job.group_max.is_none()) {
            return Ok(());
        }
        let queue = self.queues.find(queue);
        let mut plan = Plan::default();
        for job in jobs {
            if self.plan(queue, &mut plan, job)? && !of_flow {
                self.plan_adoption(queue, &mut plan, job);
            }
        }
        Ok(())
    }

    /// Whether the job will be admitted, and not stand for another one.
    fn plan<'a>(
        &'a self,
        queue: Option<QueueKey>,
        plan: &mut Plan<'a>,
        new: &'a NewJob,
    ) -> Result<bool, Refusal> {
        if let Some(id) = new.custom_id.as_ref() {
            let stored = || {
                let key = self.store.find(id)?;
                Some(self.store.job(key).state.is_live())
            };
            let planned = plan.ids.get(id).map(Option::is_some);
            if planned.or_else(stored) == Some(true) {
                return Ok(false);
            }
        }
        let options = new.options.as_deref();
        if let Some(options) = options
            && let Some(unique_key) = options.unique_key.as_deref()
            && let Some(owner) = self.planned_owner(queue, plan, unique_key)
        {
            if !options.dedup.replace {
                if let Some(ttl) = options.dedup.ttl.filter(|_| options.dedup.extend) {
                    let expires_at = Some(later(self.now, ttl));
                    plan.keys.insert(unique_key, (owner, expires_at));
                }
                return Ok(false);
            }
            self.plan_removal(queue, plan, owner);
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
        Ok(true)
    }

    fn planned_owner(
        &self,
        queue: Option<QueueKey>,
        plan: &Plan<'_>,
        unique_key: &str,
    ) -> Option<Owner> {
        if let Some((owner, expires_at)) = plan.keys.get(unique_key) {
            return expires_at.is_none_or(|at| at > self.now).then_some(*owner);
        }
        self.key_owner(queue?, unique_key).map(Owner::Job)
    }

    /// The owner of a key makes room, unless it is active and runs on.
    fn plan_removal<'a>(&'a self, queue: Option<QueueKey>, plan: &mut Plan<'a>, owner: Owner) {
        let id = match owner {
            Owner::Job(key) if self.store.job(key).state == State::Active => return,
            Owner::Job(key) => Some(&self.store.job(key).id),
            Owner::New(place) => plan.admitted.get(place).and_then(|entry| entry.id),
        };
        plan.ids.extend(id.map(|id| (id, None)));
        self.plan_leave(queue, plan, owner);
    }

    /// Somebody is no longer queued in the queue of the batch.
    fn plan_leave<'a>(&'a self, queue: Option<QueueKey>, plan: &mut Plan<'a>, owner: Owner) {
        let group = match owner {
            Owner::New(place) => {
                let entry = plan.admitted.get_mut(place);
                entry.and_then(|entry| entry.group.take())
            }
            Owner::Job(key) => {
                let job = self.store.job(key);
                let counts = job.state.is_queued() && Some(job.queue) == queue;
                let group = job.group().map(|group| &**group);
                group.filter(|_| counts && plan.left.insert(key))
            }
        };
        if let Some(group) = group {
            *plan.gains.entry(group).or_default() -= 1;
        }
    }

    fn plan_admission<'a>(&'a self, plan: &mut Plan<'a>, new: &'a NewJob) {
        let options = new.options.as_deref();
        let lives = !fails_at_once(new, self.now);
        // One that waits for others is not queued; whoever comes anew with the batch has not completed.
        let waits = new.links.as_ref().is_some_and(|links| {
            let mut others = links.depends_on.iter();
            others.any(|id| plan.ids.contains_key(id) || !self.is_met(id))
        });
        let owner = Owner::New(plan.admitted.len());
        if let Some(id) = new.custom_id.as_ref() {
            plan.ids.insert(id, lives.then_some(owner));
        }
        if let Some(options) = options
            && let Some(unique_key) = options.unique_key.as_deref()
        {
            let expires_at = if lives {
                options.dedup.ttl.map(|ttl| later(self.now, ttl))
            } else {
                Some(Millis::MIN)
            };
            plan.keys.insert(unique_key, (owner, expires_at));
        }
        let group = options.and_then(|options| options.group_id.as_deref());
        let group = group.filter(|_| lives && !waits);
        if let Some(group) = group {
            *plan.gains.entry(group).or_default() += 1;
        }
        let id = new.custom_id.as_ref();
        plan.admitted.push(Entry { id, group });
    }

    /// A parent waits for its new child, unless that fails at once and lets it go.
    fn plan_adoption<'a>(&'a self, queue: Option<QueueKey>, plan: &mut Plan<'a>, new: &'a NewJob) {
        let links = new.links.as_ref();
        let Some(parent) = links.and_then(|links| links.parent.as_ref()) else {
            return;
        };
        let holds = match Policy::of(new.options.as_deref()) {
            Policy::FailParent => true,
            Policy::Wait => !new.remove_on_fail,
            Policy::Drop | Policy::Ignore | Policy::Continue => false,
        };
        if fails_at_once(new, self.now) && !holds {
            return;
        }
        let stored = || self.store.find(&parent.id).map(Owner::Job);
        let planned = plan.ids.get(&parent.id).copied();
        if let Some(parent) = planned.unwrap_or_else(stored) {
            self.plan_leave(queue, plan, parent);
        }
    }
}
