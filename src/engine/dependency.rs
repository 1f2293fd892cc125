//! Jobs that wait for other jobs: how a dependency is met, dropped or broken (engine contract, sections 6.4 and 13).
//!
//! A job with unmet dependencies is *blocked*: it stands in `waiting-children` until the last one is met or dropped. A
//! parent depends on its children; beyond that it keeps their results, and a child's failure policy decides what
//! becomes of it. Whatever a job's end means for others is worked off from one list instead of by recursion, so that a
//! chain of any length costs no stack, and in the same step, so that nobody ever sees half of it.
//!
//! Invariant: `dependents` holds exactly the unmet dependencies of all blocked jobs, turned round.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::event::EventKind;
use super::id::JobId;
use super::id_map::IdMap;
use super::job::{FailureReason, NewLinks, Payload, State};
use super::link::{ChildFailure, Consequence, Links, Policy};
use super::outcome::Added;
use super::report::Fatal;
use super::store::{Job, JobKey};
use super::{Engine, Turn};

/// Bytes of a child's error that the error of its parent repeats; of a longer one the middle is left out.
pub const TOLD_ERROR_MAX: usize = 4_096;

impl Engine {
    /// After a batch: a job whose dependency was to come with it, but did not or is gone already, would wait for ever.
    pub(super) fn drop_orphans(&mut self, turn: &mut Turn<'_>, added: &[Added]) {
        let unmet = |job: &Added| {
            let links = self.store.job(self.store.find(&job.id)?).links.as_ref()?;
            Some(links.unmet.iter().cloned())
        };
        let mut missing: Vec<JobId> = added.iter().filter_map(unmet).flatten().collect();
        missing.retain(|id| self.store.find(id).is_none());
        for id in missing {
            let (parent, policy) = (None, Policy::Wait);
            self.note_consequence(Consequence::Removed { id, parent, policy });
        }
        self.settle(turn);
    }

    /// Ties a job that was just stored to the jobs it depends on.
    pub(super) fn tie(&mut self, key: JobKey, new: NewLinks) {
        let mut links = Links {
            parent: new.parent,
            children: new.children.into_iter().collect(),
            ..Links::default()
        };
        for id in links.children.ids() {
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
        links.depends_on = new.depends_on.into_iter().collect();
        self.store.marks.touch_ties(key);
        self.store.job_mut(key).links = Some(Box::new(links));
        self.need_all(key);
    }

    /// A live job from a store waits again for what it waited for.
    pub(super) fn load_ties(&mut self, key: JobKey) {
        let job = self.store.job(key);
        let Some(links) = job.links.as_ref() else {
            return;
        };
        for id in &links.unmet {
            let waiting = self.dependencies.dependents.entry(id.clone());
            waiting.or_default().insert((job.seq, key));
        }
        self.need_all(key);
    }

    pub(super) fn is_met(&self, id: &JobId) -> bool {
        match self.store.find(id) {
            Some(key) => self.store.job(key).state == State::Completed,
            None => self.has_completed(id),
        }
    }

    /// Queue and result of a job that has completed and is kept.
    fn completion(&self, id: &JobId) -> Option<(Arc<str>, Option<Payload>)> {
        let key = self.store.find(id)?;
        let job = self.store.job(key);
        if job.state != State::Completed || self.misses(key) {
            return None;
        }
        let result = job.life.as_ref().and_then(|life| life.result.clone());
        Some((Arc::clone(self.queues.name(job.queue)), result))
    }

    /// Makes a job wait for one more, which is its child.
    pub(super) fn add_child(&mut self, parent: JobKey, child: &JobId) {
        self.store.marks.touch_tie(parent, child);
        let completion = self.completion(child);
        let job = self.store.job_mut(parent);
        let seq = job.seq;
        let links = job.links.get_or_insert_default();
        links.children.add(child.clone());
        let new = links.depends_on.add(child.clone());
        match completion {
            Some((queue, Some(result))) => {
                links.values.insert(child.clone(), (queue, result));
            }
            Some((_, None)) => {}
            None => {
                // An earlier job with the child's id is not the child any more.
                links.values.remove(child);
                links.unmet.insert(child.clone());
                let waiting = self.dependencies.dependents.entry(child.clone());
                waiting.or_default().insert((seq, parent));
            }
        }
        if new {
            self.need(child);
        }
    }

    /// Drops a dependency, unless it is met already; whether it was there.
    pub(super) fn untie(&mut self, dependent: JobKey, id: &JobId) -> bool {
        self.store.marks.touch_tie(dependent, id);
        let job = self.store.job_mut(dependent);
        let seq = job.seq;
        let Some(links) = job.links.as_mut() else {
            return false;
        };
        if !links.unmet.remove(id) {
            return false;
        }
        let named = links.depends_on.remove(id);
        self.dependencies.forget(id, seq, dependent);
        if named {
            self.need_no_more(id);
        }
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
        let named = |id: &&JobId| links.depends_on.remove(id);
        let named: Vec<&JobId> = unmet.iter().filter(named).collect();
        for id in &unmet {
            self.dependencies.forget(id, seq, key);
        }
        for id in named {
            self.need_no_more(id);
        }
        if !unmet.is_empty() {
            self.store.marks.touch_ties(key);
        }
    }

    /// A job is over for good, one way or the other: what others left for it has served its purpose.
    pub(super) fn close_ties(&mut self, key: JobKey, completed: bool) {
        self.need_none(key);
        if let Some(links) = self.store.job_mut(key).links.as_mut() {
            links.failures = IdMap::default();
            if completed {
                links.values = BTreeMap::new();
            }
            self.store.marks.touch_ties(key);
        }
    }

    /// Whether a live job names this one among those it waits or waited for: it may read what that has left.
    pub(super) fn is_needed(&self, id: &JobId) -> bool {
        self.dependencies.needed.contains_key(id)
    }

    fn need(&mut self, id: &JobId) {
        let count = self.dependencies.needed.entry(id.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.set_needed(id, true);
        }
    }

    fn need_no_more(&mut self, id: &JobId) {
        let Some(count) = self.dependencies.needed.get_mut(id) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.dependencies.needed.remove(id);
            self.set_needed(id, false);
        }
    }

    /// A job begins to live with the ties it has.
    pub(super) fn need_all(&mut self, key: JobKey) {
        self.named_by(key).iter().for_each(|id| self.need(id));
    }

    /// A job lives no longer.
    pub(super) fn need_none(&mut self, key: JobKey) {
        let named = self.named_by(key);
        named.iter().for_each(|id| self.need_no_more(id));
    }

    fn named_by(&self, key: JobKey) -> Vec<JobId> {
        let links = self.store.job(key).links.iter();
        let named = links.flat_map(|links| links.depends_on.unordered());
        named.cloned().collect()
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
        self.dependencies.proofs.forget(id);
    }

    /// Whether a job with that id has completed and was deleted.
    pub(super) fn has_completed(&self, id: &JobId) -> bool {
        self.dependencies.proofs.known.contains_key(id)
    }

    /// A job has failed for good: its parent is to be told by its policy.
    pub(super) fn note_failure(&mut self, key: JobKey, error: Option<Arc<str>>) {
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
        self.note_consequence(consequence);
    }

    /// A job has completed: those that wait for it, and its parent, are to be told.
    pub(super) fn note_completion(&mut self, key: JobKey, result: Option<Payload>) {
        let job = self.store.job(key);
        if job.parent().is_none() && !self.has_dependents(&job.id) {
            return;
        }
        let consequence = Consequence::Completed {
            id: job.id.clone(),
            queue: Arc::clone(self.queues.name(job.queue)),
            parent: job.parent().cloned(),
            result,
        };
        self.note_consequence(consequence);
    }

    /// A job was deleted, and this is left of it: what that means for those that wait for it. A completed one means
    /// nothing, but is remembered.
    pub(super) fn loss_of(&mut self, job: &Job) -> Option<Consequence> {
        if job.state == State::Completed {
            self.remember_completion(&job.id);
            return None;
        }
        self.has_dependents(&job.id).then(|| Consequence::Removed {
            id: job.id.clone(),
            parent: job.parent().cloned(),
            policy: job.policy(),
        })
    }

    /// Something that [`Engine::settle`] has to work off.
    pub(super) fn note_consequence(&mut self, consequence: Consequence) {
        self.dependencies.consequences.push_back(consequence);
    }

    /// Works off what the ends of jobs mean for others, and what that means in turn.
    pub(super) fn settle(&mut self, turn: &mut Turn<'_>) {
        if self.dependencies.consequences.is_empty() || self.dependencies.settling {
            return;
        }
        self.dependencies.settling = true;
        self.hold_on(turn, |engine, turn| {
            while let Some(consequence) = engine.dependencies.consequences.pop_front() {
                engine.work_off(turn, consequence);
            }
        });
        self.dependencies.settling = false;
    }

    fn work_off(&mut self, turn: &mut Turn<'_>, consequence: Consequence) {
        match consequence {
            Consequence::Completed {
                id,
                queue,
                parent,
                result,
            } => {
                self.keep_value(&id, &queue, parent.as_ref(), result.as_ref());
                self.meet(turn, &id);
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

    fn waiting_for(&self, id: &JobId) -> Vec<JobKey> {
        let waiting = self.dependencies.dependents.get(id);
        waiting.into_iter().flatten().map(|(_, key)| *key).collect()
    }

    /// The result of a child stays with its parent until that completes: it may need it although it no longer waits for
    /// the child, and when the child is gone. A parent that waits under a child's id takes the result of a new job, too.
    fn keep_value(
        &mut self,
        id: &JobId,
        queue: &Arc<str>,
        parent: Option<&JobId>,
        result: Option<&Payload>,
    ) {
        let parent = parent.and_then(|parent| self.store.find(parent));
        let parent = parent.filter(|key| self.store.job(*key).state != State::Completed);
        for key in self.waiting_for(id).into_iter().chain(parent) {
            self.store.marks.touch_tie(key, id);
            if let Some(links) = self.store.job_mut(key).links.as_mut()
                && links.children.contains(id)
                && let Some(result) = result
            {
                let value = (Arc::clone(queue), result.clone());
                links.values.insert(id.clone(), value);
            }
        }
    }

    /// Everybody who waits for a completed job need not do so any longer.
    fn meet(&mut self, turn: &mut Turn<'_>, id: &JobId) {
        for key in self.waiting_for(id) {
            self.store.marks.touch_tie(key, id);
            let job = self.store.job_mut(key);
            let seq = job.seq;
            if let Some(links) = job.links.as_mut() {
                links.unmet.remove(id);
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
            let failure = ChildFailure {
                id: id.clone(),
                queue: Arc::clone(queue),
                error: error.cloned().unwrap_or_default(),
                ignored: policy == Policy::Ignore,
            };
            links.failures.put_last(id.clone(), failure);
            self.store.marks.touch_tie(key, id);
        }
        match policy {
            Policy::Wait => {}
            Policy::FailParent => {
                let error = error.map_or("unknown error", AsRef::as_ref);
                self.fail_dependent(turn, key, told_error(id, error));
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
        // That it may be too old by now has its own time.
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
        links.children.ids().filter_map(value).collect()
    }

    /// Children that failed without holding the job back, until it is over.
    pub fn child_failures(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Vec<ChildFailure> {
        self.tick(turn);
        let links = self
            .store
            .find(id)
            .and_then(|key| self.store.job(key).links.as_ref());
        let failures = links.iter().flat_map(|links| links.failures.ordered());
        failures.map(|(_, failure)| failure.clone()).collect()
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

/// The error of a parent whose child has failed. It repeats that of the child, which may be such a parent, too: in a
/// deep family the texts would grow with the square of its depth.
fn told_error(child: &JobId, error: &str) -> String {
    if error.len() <= TOLD_ERROR_MAX {
        return format!("Child job {child} failed: {error}");
    }
    let half = TOLD_ERROR_MAX / 2;
    let (head, rest) = error.split_at(error.floor_char_boundary(half));
    // What began it stands at the end.
    let (_, tail) = rest.split_at(rest.ceil_char_boundary(rest.len() - half));
    format!("Child job {child} failed: {head}…{tail}")
}
