//! Jobs that wait for other jobs: how a dependency is met, dropped or broken (engine contract, sections 6.4 and 13).
//!
//! A job with unmet dependencies is *blocked*: it stands in `waiting-children` until the last one is met or dropped. A
//! parent depends on its children; beyond that it keeps their results, and a child's failure policy decides what
//! becomes of it. Whatever a job's end means for others is worked off from one list instead of by recursion, so that a
//! chain of any length costs no stack, and in the same step, so that nobody ever sees half of it.
//!
//! Invariant: `dependents` holds exactly the unmet dependencies of all blocked jobs, turned round.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::event::EventKind;
use super::id::JobId;
use super::job::{FailureReason, JobLinks, NewJob, NewLinks, Parent, Payload, State};
use super::outcome::{Added, BatchRefusal, Refusal};
use super::report::Fatal;
use super::store::{Job, JobKey};
use super::{Engine, Turn};

/// What the engine knows of dependencies beside the jobs themselves.
#[derive(Debug, Default)]
pub(super) struct Dependencies {
    /// Who waits for a job, in order of admission.
    dependents: HashMap<JobId, BTreeSet<(u64, JobKey)>>,
    /// Completed jobs that were deleted: whoever depends on one later need not wait.
    proofs: Proofs,
    /// What the ends of jobs still have to do to others.
    consequences: VecDeque<Consequence>,
    /// Somebody is working them off.
    settling: bool,
}

/// Ids of completed jobs that are no longer kept, the newest; the bound is the configuration's.
#[derive(Debug, Default)]
struct Proofs {
    /// With the number of the proof.
    known: HashMap<JobId, u64>,
    order: VecDeque<(u64, JobId)>,
    next: u64,
}

impl Proofs {
    fn add(&mut self, id: &JobId, max: usize) {
        self.next += 1;
        self.known.insert(id.clone(), self.next);
        self.order.push_back((self.next, id.clone()));
        while self.order.len() > max
            && let Some((number, oldest)) = self.order.pop_front()
        {
            // A newer proof of the same id stays.
            if self.known.get(&oldest) == Some(&number) {
                self.known.remove(&oldest);
            }
        }
    }
}

/// How a job ended, as far as others care.
#[derive(Debug)]
pub(super) enum Consequence {
    /// It completed.
    Completed {
        id: JobId,
        queue: Arc<str>,
        result: Option<Payload>,
    },
    /// It failed for good, and has a parent.
    Failed {
        id: JobId,
        queue: Arc<str>,
        parent: JobId,
        policy: Policy,
        error: Option<Arc<str>>,
    },
    /// It was deleted before it had completed.
    Removed {
        id: JobId,
        parent: Option<JobId>,
        policy: Policy,
    },
}

/// What a child's failure for good does to its parent (engine contract, section 13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// The parent keeps waiting: a retry may still complete the child.
    Wait,
    /// The parent fails.
    FailParent,
    /// The parent no longer waits for this child.
    Drop,
    /// As `Drop`, and the parent can read the error.
    Ignore,
    /// The parent waits for nobody any more, and can read the error.
    Continue,
}

/// The ties of a job to others. In a box of its own: most jobs have none.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) parent: Option<Parent>,
    pub(super) depends_on: Vec<JobId>,
    pub(super) children: Vec<JobId>,
    unmet: BTreeSet<JobId>,
    /// Results of children that completed while it waited, with their queues.
    values: BTreeMap<JobId, (Arc<str>, Payload)>,
    failures: Vec<ChildFailure>,
    /// A worker put it aside; only a change of its dependencies brings it back.
    pub(super) parked: bool,
}

/// A child that failed without holding its parent back.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildFailure {
    /// The child.
    pub id: JobId,
    /// Its queue.
    pub queue: Arc<str>,
    /// Its error; empty when its worker gave none.
    pub error: Arc<str>,
    /// Its policy was to be ignored; otherwise the parent went on without any of its children.
    pub ignored: bool,
}

impl Links {
    pub(super) fn is_blocking(&self) -> bool {
        self.parked || !self.unmet.is_empty()
    }

    pub(super) fn view(&self) -> JobLinks {
        JobLinks {
            parent: self.parent.clone(),
            depends_on: self.depends_on.clone(),
            children: self.children.clone(),
        }
    }
}

impl Job {
    /// Whether it waits for others.
    pub(super) fn is_blocked(&self) -> bool {
        self.links.as_ref().is_some_and(|links| links.is_blocking())
    }

    fn policy(&self) -> Policy {
        match self.options.as_deref() {
            Some(options) if options.fail_parent_on_failure => Policy::FailParent,
            Some(options) if options.continue_parent_on_failure => Policy::Continue,
            Some(options) if options.ignore_dependency_on_failure => Policy::Ignore,
            Some(options) if options.remove_dependency_on_failure => Policy::Drop,
            _ => Policy::Wait,
        }
    }

    pub(super) fn parent(&self) -> Option<&JobId> {
        let parent = self.links.as_ref()?.parent.as_ref()?;
        Some(&parent.id)
    }
}

impl Engine {
    /// Whether these jobs may be added together, as far as other jobs have a say.
    ///
    /// # Errors
    /// The first fault; the entry is named where its own words are at fault.
    pub(super) fn check_ties(&self, queue: &Arc<str>, jobs: &[NewJob]) -> Result<(), BatchRefusal> {
        let replaces = |job: &NewJob| {
            job.options
                .as_ref()
                .is_some_and(|options| options.dedup.replace)
        };
        if jobs.iter().all(|job| job.links.is_none() && !replaces(job)) {
            return Ok(());
        }
        let coming: HashMap<&JobId, usize> = jobs
            .iter()
            .enumerate()
            .filter_map(|(index, job)| Some((job.custom_id.as_ref()?, index)))
            .collect();
        for (index, job) in jobs.iter().enumerate() {
            self.check_links(queue, job, index, &coming)?;
        }
        if let Some(index) = find_cycle(&dependencies_among(jobs, &coming)) {
            let id = jobs.get(index).and_then(|job| job.custom_id.clone());
            let refusal = id.map_or(Refusal::DependencyCycle, Refusal::SelfDependency);
            return Err(BatchRefusal {
                index: Some(index),
                refusal,
            });
        }
        self.check_replacements(queue, jobs, replaces)
    }

    fn check_links(
        &self,
        queue: &Arc<str>,
        job: &NewJob,
        index: usize,
        coming: &HashMap<&JobId, usize>,
    ) -> Result<(), BatchRefusal> {
        let Some(links) = job.links.as_deref() else {
            return Ok(());
        };
        let own = |refusal| BatchRefusal {
            index: Some(index),
            refusal,
        };
        let met = |refusal| BatchRefusal {
            index: None,
            refusal,
        };
        let id = job.custom_id.as_ref();
        let awaited = id.filter(|id| self.has_dependents(id));
        for other in &links.depends_on {
            if Some(other) == id {
                return Err(own(Refusal::SelfDependency(other.clone())));
            }
            if self.store.find(other).is_none()
                && !self.has_completed(other)
                && !coming.contains_key(other)
            {
                return Err(own(Refusal::DependencyNotFound(other.clone())));
            }
            // A new generation of a failed job can be waited for already.
            if let Some(id) = awaited
                && self.waits_for(other, id)
            {
                return Err(own(Refusal::SelfDependency(id.clone())));
            }
        }
        let Some(parent) = links.parent.as_ref() else {
            return Ok(());
        };
        if Some(&parent.id) == id {
            return Err(met(Refusal::OwnParent));
        }
        let comes_before = coming.get(&parent.id).is_some_and(|place| *place < index);
        if !(comes_before && self.store.find(&parent.id).is_none() && parent.queue == *queue) {
            self.check_parent(parent).map_err(met)?;
        }
        if links
            .depends_on
            .iter()
            .any(|other| self.waits_for(other, &parent.id))
        {
            return Err(met(Refusal::DependencyCycle));
        }
        Ok(())
    }

    /// A job that others wait for cannot be replaced.
    fn check_replacements(
        &self,
        queue: &Arc<str>,
        jobs: &[NewJob],
        replaces: impl Fn(&NewJob) -> bool,
    ) -> Result<(), BatchRefusal> {
        let awaited: HashSet<&JobId> = jobs
            .iter()
            .filter_map(|job| job.links.as_deref())
            .flat_map(|links| &links.depends_on)
            .collect();
        let place = self.queues.find(queue);
        let mut owners: HashMap<&str, &JobId> = HashMap::new();
        for job in jobs {
            let key = job
                .options
                .as_deref()
                .and_then(|options| options.unique_key.as_deref());
            let Some(key) = key else {
                continue;
            };
            let known = place.and_then(|place| self.key_owner(place, key));
            let known = known
                .map(|owner| self.store.job(owner))
                .filter(|job| job.state != State::Active);
            let owner = owners.get(key).copied().or(known.map(|job| &job.id));
            if replaces(job)
                && let Some(owner) = owner
                && (self.has_dependents(owner) || awaited.contains(owner))
            {
                return Err(BatchRefusal {
                    index: None,
                    refusal: Refusal::OwnerNeeded(owner.clone()),
                });
            }
            if let Some(id) = job.custom_id.as_ref() {
                owners.insert(key, id);
            }
        }
        Ok(())
    }

    /// After a batch: a job whose dependency was to come with it, but did not, would wait for ever.
    pub(super) fn drop_orphans(&mut self, turn: &mut Turn<'_>, added: &[Added]) {
        for job in added {
            let links = self
                .store
                .find(&job.id)
                .and_then(|key| self.store.job(key).links.as_ref());
            let missing = |id: &&JobId| self.store.find(id).is_none();
            let missing = links.and_then(|links| links.unmet.iter().find(missing).cloned());
            if let Some(id) = missing {
                let (parent, policy) = (None, Policy::Wait);
                self.settle(turn, Consequence::Removed { id, parent, policy });
            }
        }
    }

    /// Ties a job that was just stored to the jobs it depends on.
    pub(super) fn tie(&mut self, key: JobKey, new: NewLinks) {
        let mut links = Links {
            parent: new.parent,
            children: new.children,
            ..Links::default()
        };
        for id in &links.children {
            if let Some((queue, Some(result))) = self.completion(id) {
                links.values.insert(id.clone(), (queue, result));
            }
        }
        let seq = self.store.job(key).seq;
        for id in &new.depends_on {
            if !self.is_met(id) {
                links.unmet.insert(id.clone());
                let waiting = self.dependencies.dependents.entry(id.clone());
                waiting.or_default().insert((seq, key));
            }
        }
        links.depends_on = new.depends_on;
        self.store.job_mut(key).links = Some(Box::new(links));
    }

    pub(super) fn is_met(&self, id: &JobId) -> bool {
        match self.store.find(id) {
            Some(key) => self.store.job(key).state == State::Completed,
            None => self.has_completed(id),
        }
    }

    /// Queue and result of a job that has completed and is kept.
    fn completion(&self, id: &JobId) -> Option<(Arc<str>, Option<Payload>)> {
        let job = self.store.job(self.store.find(id)?);
        if job.state != State::Completed {
            return None;
        }
        let result = job.life.as_ref().and_then(|life| life.result.clone());
        Some((Arc::clone(self.queues.name(job.queue)), result))
    }

    /// Makes a job wait for one more, which is its child.
    pub(super) fn add_child(&mut self, parent: JobKey, child: &JobId) {
        let completion = self.completion(child);
        let job = self.store.job_mut(parent);
        let seq = job.seq;
        let links = job.links.get_or_insert_default();
        links.children.push(child.clone());
        if !links.depends_on.contains(child) {
            links.depends_on.push(child.clone());
        }
        match completion {
            Some((queue, Some(result))) => {
                links.values.insert(child.clone(), (queue, result));
            }
            Some((_, None)) => {}
            None => {
                links.unmet.insert(child.clone());
                let waiting = self.dependencies.dependents.entry(child.clone());
                waiting.or_default().insert((seq, parent));
            }
        }
    }

    /// Drops a dependency, unless it is met already; whether it was there.
    pub(super) fn untie(&mut self, dependent: JobKey, id: &JobId) -> bool {
        let job = self.store.job_mut(dependent);
        let seq = job.seq;
        let Some(links) = job.links.as_mut() else {
            return false;
        };
        if !links.unmet.remove(id) {
            return false;
        }
        links.depends_on.retain(|other| other != id);
        self.dependencies.forget(id, seq, dependent);
        true
    }

    /// A job waits for nobody any more: it is deleted, has failed, or goes on without its dependencies.
    pub(super) fn untie_all(&mut self, key: JobKey) {
        let job = self.store.job_mut(key);
        let seq = job.seq;
        let Some(links) = job.links.as_mut() else {
            return;
        };
        links.parked = false;
        let unmet = std::mem::take(&mut links.unmet);
        links.depends_on.retain(|id| !unmet.contains(id));
        for id in &unmet {
            self.dependencies.forget(id, seq, key);
        }
    }

    /// A job is over for good, one way or the other: what its children left for it has served its purpose.
    pub(super) fn forget_child_failures(&mut self, key: JobKey, completed: bool) {
        if let Some(links) = self.store.job_mut(key).links.as_mut() {
            links.failures = Vec::new();
            if completed {
                links.values = BTreeMap::new();
            }
        }
    }

    /// Whether a live job waits for this one.
    pub(super) fn has_dependents(&self, id: &JobId) -> bool {
        self.dependencies.dependents.contains_key(id)
    }

    /// Remembers that a job has completed although it is about to be deleted.
    pub(super) fn remember_completion(&mut self, id: &JobId) {
        let max = self.config.proofs_max;
        self.dependencies.proofs.add(id, max);
    }

    /// A new job takes the id: that an earlier one has completed says nothing any more.
    pub(super) fn forget_completion(&mut self, id: &JobId) {
        self.dependencies.proofs.known.remove(id);
    }

    /// Whether a job with that id has completed and was deleted.
    pub(super) fn has_completed(&self, id: &JobId) -> bool {
        self.dependencies.proofs.known.contains_key(id)
    }

    /// A job has failed for good; its parent is told by its policy.
    pub(super) fn settle_failure(
        &mut self,
        turn: &mut Turn<'_>,
        key: JobKey,
        error: Option<Arc<str>>,
    ) {
        let job = self.store.job(key);
        let (Some(parent), policy) = (job.parent(), job.policy()) else {
            return;
        };
        if policy == Policy::Wait {
            return;
        }
        let consequence = Consequence::Failed {
            id: job.id.clone(),
            queue: Arc::clone(self.queues.name(job.queue)),
            parent: parent.clone(),
            policy,
            error,
        };
        self.settle(turn, consequence);
    }

    /// A job has completed.
    pub(super) fn settle_completion(
        &mut self,
        turn: &mut Turn<'_>,
        key: JobKey,
        result: Option<Payload>,
    ) {
        let job = self.store.job(key);
        if !self.has_dependents(&job.id) {
            return;
        }
        let consequence = Consequence::Completed {
            id: job.id.clone(),
            queue: Arc::clone(self.queues.name(job.queue)),
            result,
        };
        self.settle(turn, consequence);
    }

    /// A job was deleted; what is left of it is given.
    pub(super) fn settle_removal(&mut self, turn: &mut Turn<'_>, job: &Job) {
        if self.has_dependents(&job.id) {
            let consequence = Consequence::Removed {
                id: job.id.clone(),
                parent: job.parent().cloned(),
                policy: job.policy(),
            };
            self.settle(turn, consequence);
        }
    }

    /// Works off what an end means for others, and what that means in turn.
    pub(super) fn settle(&mut self, turn: &mut Turn<'_>, consequence: Consequence) {
        self.dependencies.consequences.push_back(consequence);
        if self.dependencies.settling {
            return;
        }
        self.dependencies.settling = true;
        while let Some(consequence) = self.dependencies.consequences.pop_front() {
            match consequence {
                Consequence::Completed { id, queue, result } => {
                    self.meet(turn, &id, &queue, result.as_ref());
                }
                Consequence::Failed {
                    id,
                    queue,
                    parent,
                    policy,
                    error,
                } => self.apply_policy(turn, (&id, &queue), &parent, policy, error.as_ref()),
                Consequence::Removed { id, parent, policy } => {
                    self.lose(turn, &id, parent.as_ref(), policy);
                }
            }
        }
        self.dependencies.settling = false;
    }

    fn waiting_for(&self, id: &JobId) -> Vec<JobKey> {
        let waiting = self.dependencies.dependents.get(id);
        waiting.into_iter().flatten().map(|(_, key)| *key).collect()
    }

    /// Everybody who waits for a completed job need not do so any longer.
    fn meet(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        queue: &Arc<str>,
        result: Option<&Payload>,
    ) {
        for key in self.waiting_for(id) {
            let job = self.store.job_mut(key);
            let seq = job.seq;
            if let Some(links) = job.links.as_mut() {
                links.unmet.remove(id);
                if let Some(result) = result
                    && links.children.contains(id)
                {
                    let value = (Arc::clone(queue), result.clone());
                    links.values.insert(id.clone(), value);
                }
            }
            self.dependencies.forget(id, seq, key);
            self.release_if_free(turn, key, false);
        }
    }

    fn apply_policy(
        &mut self,
        turn: &mut Turn<'_>,
        child: (&JobId, &Arc<str>),
        parent: &JobId,
        policy: Policy,
        error: Option<&Arc<str>>,
    ) {
        let (id, queue) = child;
        let Some(key) = self.store.find(parent) else {
            return;
        };
        let job = self.store.job_mut(key);
        let Some(links) = job
            .links
            .as_mut()
            .filter(|links| links.children.contains(id))
        else {
            return;
        };
        if job.state != State::WaitingChildren && !job.state.is_queued() {
            return;
        }
        if matches!(policy, Policy::Ignore | Policy::Continue) {
            links.failures.retain(|failure| failure.id != *id);
            links.failures.push(ChildFailure {
                id: id.clone(),
                queue: Arc::clone(queue),
                error: error.cloned().unwrap_or_default(),
                ignored: policy == Policy::Ignore,
            });
        }
        match policy {
            Policy::Wait => {}
            Policy::FailParent => {
                let error = error.map_or("unknown error", AsRef::as_ref);
                self.fail_dependent(turn, key, format!("Child job {id} failed: {error}"));
            }
            Policy::Drop | Policy::Ignore => {
                self.untie(key, id);
                self.release_if_free(turn, key, true);
            }
            Policy::Continue => {
                self.untie_all(key);
                self.release_if_free(turn, key, true);
            }
        }
    }

    /// What a job was waiting for is gone.
    fn lose(&mut self, turn: &mut Turn<'_>, id: &JobId, parent: Option<&JobId>, policy: Policy) {
        for key in self.waiting_for(id) {
            let job = self.store.job(key);
            let is_child = match parent {
                Some(parent) => *parent == job.id,
                // Older clients name the parent only after both exist.
                None => job
                    .links
                    .as_ref()
                    .is_some_and(|links| links.children.contains(id)),
            };
            if !is_child {
                self.fail_dependent(turn, key, format!("Dependency {id} removed"));
            } else if policy == Policy::FailParent {
                self.fail_dependent(turn, key, format!("Child job {id} failed: removed"));
            } else {
                self.untie(key, id);
                self.release_if_free(turn, key, true);
            }
        }
    }

    /// Fails a job that has not started because of another one.
    fn fail_dependent(&mut self, turn: &mut Turn<'_>, key: JobKey, error: String) {
        let error: Option<Arc<str>> = Some(error.into());
        self.unqueue(key);
        let now = self.now;
        let job = self.store.job_mut(key);
        job.record_attempt(now, FailureReason::Unknown, error.clone());
        self.fail_for_good(turn, key, Fatal::new(FailureReason::Unknown, error));
    }

    /// Queues a blocked job that waits for nobody any more.
    pub(super) fn release_if_free(&mut self, turn: &mut Turn<'_>, key: JobKey, announced: bool) {
        let job = self.store.job_mut(key);
        if job.state != State::WaitingChildren {
            return;
        }
        if let Some(links) = job.links.as_mut() {
            if !links.unmet.is_empty() {
                return;
            }
            links.parked = false;
        }
        self.unqueue(key);
        self.enqueue(key);
        let now = self.now;
        let job = self.store.job_mut(key);
        let (state, queue) = (job.state, job.queue);
        job.record(state, now, None, None);
        if announced {
            let prev = State::WaitingChildren;
            self.emit(turn, key, EventKind::Waiting { prev });
        }
        self.fail_if_expired(turn, key);
        self.serve(turn, queue);
    }

    /// Results of the children that completed, by queue and id.
    pub fn children_values(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
    ) -> Vec<(Arc<str>, JobId, Payload)> {
        self.tick(turn);
        let Some(key) = self.store.find(id) else {
            return Vec::new();
        };
        let Some(links) = self.store.job(key).links.as_deref() else {
            return Vec::new();
        };
        let value = |child: &JobId| {
            if let Some((queue, result)) = links.values.get(child) {
                return Some((Arc::clone(queue), child.clone(), result.clone()));
            }
            // Not a later job that took over the child's id.
            let theirs = self.store.job(self.store.find(child)?).parent();
            if theirs != Some(id) {
                return None;
            }
            let (queue, result) = self.completion(child)?;
            Some((queue, child.clone(), result?))
        };
        links.children.iter().filter_map(value).collect()
    }

    /// Children that failed without holding the job back, until it is over.
    pub fn child_failures(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Vec<ChildFailure> {
        self.tick(turn);
        let links = self
            .store
            .find(id)
            .and_then(|key| self.store.job(key).links.as_ref());
        links
            .map(|links| links.failures.clone())
            .unwrap_or_default()
    }

    /// Whether one job waits for another, directly or through others.
    pub(super) fn waits_for(&self, one: &JobId, other: &JobId) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![one.clone()];
        while let Some(id) = open.pop() {
            if id == *other {
                return true;
            }
            let links = self
                .store
                .find(&id)
                .and_then(|key| self.store.job(key).links.as_ref());
            if let Some(links) = links
                && seen.insert(id)
            {
                open.extend(links.unmet.iter().cloned());
            }
        }
        false
    }
}

/// For each job the places of those of the same batch that it depends on.
fn dependencies_among(jobs: &[NewJob], coming: &HashMap<&JobId, usize>) -> Vec<Vec<usize>> {
    let places = |job: &NewJob| {
        let links = job.links.as_deref();
        let others = links.into_iter().flat_map(|links| &links.depends_on);
        others.filter_map(|id| coming.get(id).copied()).collect()
    };
    jobs.iter().map(places).collect()
}

/// A place on a cycle, if there is one; each place lists those that it leads to.
pub fn find_cycle(edges: &[Vec<usize>]) -> Option<usize> {
    let mut open = vec![0_usize; edges.len()];
    for place in edges.iter().flatten() {
        *open.get_mut(*place)? += 1;
    }
    // What nothing leads to is on no cycle; taken away, others follow.
    let mut free: Vec<usize> = (0..edges.len())
        .filter(|place| open.get(*place) == Some(&0))
        .collect();
    while let Some(place) = free.pop() {
        for next in edges.get(place)? {
            let left = open.get_mut(*next)?;
            *left -= 1;
            if *left == 0 {
                free.push(*next);
            }
        }
    }
    // Of those left some only lie behind a cycle; going back along what leads to them ends on one.
    let mut place = open.iter().position(|left| *left > 0)?;
    let mut leads_here = vec![None; edges.len()];
    for (from, nexts) in edges.iter().enumerate() {
        if open.get(from).is_some_and(|left| *left > 0) {
            for next in nexts {
                *leads_here.get_mut(*next)? = Some(from);
            }
        }
    }
    for _ in 0..edges.len() {
        place = (*leads_here.get(place)?)?;
    }
    Some(place)
}

impl Dependencies {
    fn forget(&mut self, id: &JobId, seq: u64, dependent: JobKey) {
        if let Some(waiting) = self.dependents.get_mut(id) {
            waiting.remove(&(seq, dependent));
            if waiting.is_empty() {
                self.dependents.remove(id);
            }
        }
    }
}
