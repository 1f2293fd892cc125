//! Flows: jobs admitted together, and the ties between parents and children that are made or cut later (engine
//! contract, section 13; tcp protocol, section 18).
//!
//! The data of a job in a flow repeats its ties under keys that workers read. The engine does not look into data: who
//! calls gives a function that writes the ties into it ([`Annotate`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::id::JobId;
use super::job::{JobDetail, JobLinks, JobView, NewJob, Parent, Payload, State};
use super::link::{check_listed, child_bytes};
use super::outcome::Refusal;
use super::queue::QueueKey;
use super::store::JobKey;
use super::ties::right_queue;
use super::{Engine, Turn};

/// Levels of a flow that [`Engine::flow_tree`] shows at most; flows are planned no deeper.
pub const FLOW_DEPTH_MAX: usize = 100;
/// Jobs that [`Engine::flow_tree`] shows at most, and that one flow has at most.
pub const FLOW_JOBS_MAX: usize = 10_000;

/// Writes the ties of a job into its data; `None` leaves the data as it is.
pub type Annotate = fn(&JobLinks, Option<&Payload>) -> Option<Payload>;

/// A job of a flow as it is admitted; its links name only jobs of the same flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowJob {
    /// Its id, chosen before.
    pub id: JobId,
    /// Its queue.
    pub queue: Arc<str>,
    /// The job.
    pub job: NewJob,
}

/// A job with the tree of jobs below it.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowNode {
    /// The job.
    pub job: JobDetail,
    /// Its children that still exist; `None` where the tree was cut.
    pub children: Option<Vec<FlowNode>>,
}

impl Engine {
    /// Adds the jobs of a flow, in order: all of them, or none. `build` makes them when their ids are known: those that
    /// are chosen already, and fresh ones.
    ///
    /// # Errors
    /// [`Refusal::FlowJobExists`] for the first id that is taken, [`Refusal::TiesTooLarge`], [`Refusal::GroupFull`].
    pub fn add_flow(
        &mut self,
        turn: &mut Turn<'_>,
        chosen: &[Option<JobId>],
        build: impl FnOnce(&[JobId]) -> Vec<FlowJob>,
    ) -> Result<Vec<JobView>, Refusal> {
        self.tick(turn);
        if let Some(taken) = chosen.iter().flatten().find(|id| self.is_known(id)) {
            return Err(Refusal::FlowJobExists(taken.clone()));
        }
        // A flow that is refused takes no ids.
        let ids_before = self.ids.clone();
        let fresh = |id: &Option<JobId>| id.clone().unwrap_or_else(|| self.ids.job_id(self.now));
        let ids: Vec<_> = chosen.iter().map(fresh).collect();
        let jobs = build(&ids);
        let links = || jobs.iter().filter_map(|job| job.job.links.as_ref());
        let listed = links().try_for_each(|links| check_listed(links.listed_bytes()));
        if let Err(refusal) = listed.and_then(|()| self.check_flow_room(&jobs)) {
            self.ids = ids_before;
            return Err(refusal);
        }
        Ok(self.admit_flow(turn, jobs))
    }

    fn check_flow_room(&self, jobs: &[FlowJob]) -> Result<(), Refusal> {
        let mut queues: BTreeMap<&Arc<str>, Vec<&NewJob>> = BTreeMap::new();
        for job in jobs {
            queues.entry(&job.queue).or_default().push(&job.job);
        }
        queues
            .into_iter()
            .try_for_each(|(queue, jobs)| self.check_room(queue, jobs.into_iter(), true))
    }

    fn admit_flow(&mut self, turn: &mut Turn<'_>, jobs: Vec<FlowJob>) -> Vec<JobView> {
        let mut views = Vec::with_capacity(jobs.len());
        self.hold_on(turn, |engine, turn| {
            let mut keys = Vec::with_capacity(jobs.len());
            for job in jobs {
                let queue = engine.queues.open_listed(&job.queue);
                let key = engine.insert(turn, queue, Some(job.id), job.job);
                views.push(engine.view(key));
                keys.push((key, queue));
            }
            // Only now can the end of one of them reach the others.
            for (key, queue) in keys {
                // Unless the end of an earlier one was its own.
                let stands = engine.store.contains(key);
                if stands && engine.store.job(key).state.is_live() {
                    engine.fail_if_expired(turn, key);
                }
                engine.note_idle(queue);
                engine.serve(turn, queue);
            }
        });
        views
    }

    /// Whether a job with that id exists or has completed.
    fn is_known(&self, id: &JobId) -> bool {
        self.store.find(id).is_some() || self.has_completed(id)
    }

    /// The ties of a job, if it has any.
    pub fn links(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Option<JobLinks> {
        self.tick(turn);
        self.store.job(self.store.find(id)?).ties()
    }

    /// Whether a job that is not stored yet may become a child of this parent.
    pub(super) fn check_parent(&self, parent: &Parent) -> Result<(), Refusal> {
        let key = self.linkable(&parent.id)?;
        right_queue(parent, self.queues.name(self.store.job(key).queue))
    }

    /// The parent, if children can still be added to it.
    fn linkable(&self, parent: &JobId) -> Result<JobKey, Refusal> {
        let key = self
            .store
            .find(parent)
            .ok_or_else(|| Refusal::ParentNotFound(parent.clone()))?;
        let state = self.store.job(key).state;
        if !state.is_queued() && state != State::WaitingChildren {
            return Err(Refusal::ParentNotLinkable(parent.clone()));
        }
        self.check_runs_once(key)?;
        Ok(key)
    }

    /// The next generation of a job that repeats would not know its ties (engine contract, section 12).
    fn check_runs_once(&self, key: JobKey) -> Result<(), Refusal> {
        let job = self.store.job(key);
        match job
            .options
            .as_ref()
            .and_then(|options| options.repeat.as_ref())
        {
            Some(_) => Err(Refusal::RepeatRelations(job.id.clone())),
            None => Ok(()),
        }
    }

    /// Makes a parent that has not started wait for a child.
    pub(super) fn block_on_child(&mut self, parent: JobKey, child: &JobId) {
        self.unqueue(parent);
        let was_blocked = self.store.job(parent).state == State::WaitingChildren;
        self.add_child(parent, child);
        self.enqueue(parent);
        let now = self.now;
        let job = self.store.job_mut(parent);
        if !was_blocked && job.state == State::WaitingChildren {
            job.record(State::WaitingChildren, now, None, None);
        }
    }

    /// A new job was added as the child of this parent, unless the parent has ended meanwhile.
    pub(super) fn adopt(&mut self, parent: JobKey, child: &JobId, annotate: Annotate) {
        let state = self.store.job(parent).state;
        if state.is_queued() || state == State::WaitingChildren {
            self.block_on_child(parent, child);
            self.store.job_mut(parent).annotate_later(annotate);
        }
    }

    /// Makes one existing job the child of another.
    ///
    /// Where the parent declares the child already, only the child learns of it, whatever the parent's state.
    ///
    /// # Errors
    /// [`Refusal`] when either is missing or repeats, the child has another parent, the parent has started or has no room
    /// for it, or each would wait for the other.
    pub fn link(
        &mut self,
        turn: &mut Turn<'_>,
        child: &JobId,
        parent: &JobId,
        annotate: Annotate,
    ) -> Result<(), Refusal> {
        self.tick(turn);
        if child == parent {
            return Err(Refusal::OwnFlowParent);
        }
        let parent_key = self.store.find(parent);
        let declared = parent_key.is_some_and(|key| self.declares(key, child));
        let Some(child_key) = self.store.find(child) else {
            return if declared && self.has_completed(child) {
                Ok(())
            } else {
                Err(Refusal::ChildNotFound(child.clone()))
            };
        };
        let parent_key = parent_key.ok_or_else(|| Refusal::ParentNotFound(parent.clone()))?;
        if let Some(other) = self.store.job(child_key).parent()
            && other != parent
        {
            return Err(Refusal::ChildOfAnother {
                child: child.clone(),
                parent: other.clone(),
            });
        }
        if self.misses(child_key) {
            return Err(Refusal::ChildNotFound(child.clone()));
        }
        self.check_runs_once(child_key)?;
        if !declared {
            self.linkable(parent)?;
            let listed = self.store.job(parent_key).listed_bytes();
            check_listed(listed + child_bytes(child.text_len()))?;
            if self.waits_for(child, parent) {
                return Err(Refusal::DependencyCycle);
            }
            self.block_on_child(parent_key, child);
            self.store.job_mut(parent_key).annotate_later(annotate);
        }
        self.store.body_mut(child_key).write_ties();
        self.set_parent(child_key, parent_key);
        self.store.body_mut(child_key).annotate(annotate);
        self.hold_on(turn, |engine, turn| {
            if !declared {
                engine.release_if_free(turn, parent_key, true);
            }
            if let Some(failure) = engine.store.job(child_key).failure() {
                engine.note_failure(child_key, failure.error);
                engine.settle(turn);
            }
        });
        Ok(())
    }

    fn declares(&self, parent: JobKey, child: &JobId) -> bool {
        let links = self.store.job(parent).links.as_ref();
        links.is_some_and(|links| links.children.contains(child))
    }

    fn set_parent(&mut self, child: JobKey, parent: JobKey) {
        let job = self.store.job(parent);
        let parent = Parent {
            id: job.id.clone(),
            queue: Arc::clone(self.queues.name(job.queue)),
        };
        let job = self.store.body_mut(child);
        job.links.get_or_insert_default().parent = Some(parent);
        // What the client gave before was a marker or the same id.
        if let Some(options) = job.options.as_mut()
            && options.parent_id.is_some()
        {
            Arc::make_mut(options).parent_id = None;
        }
    }

    /// Cuts the tie between a child and its parent, on both sides; whether the parent was still waiting for it.
    ///
    /// # Errors
    /// [`Refusal::JobNotFound`], [`Refusal::NoParent`].
    pub fn unlink(
        &mut self,
        turn: &mut Turn<'_>,
        child: &JobId,
        annotate: Annotate,
    ) -> Result<bool, Refusal> {
        self.tick(turn);
        let key = self
            .store
            .find(child)
            .ok_or_else(|| Refusal::JobNotFound(child.clone()))?;
        let job = self.store.job(key);
        let parent = job
            .parent()
            .ok_or_else(|| Refusal::NoParent(child.clone()))?;
        let Some(parent) = self.store.find(parent).filter(|_| job.state.is_live()) else {
            return Ok(false);
        };
        if !self.untie(parent, child) {
            return Ok(false);
        }
        let job = self.store.body_mut(key);
        job.write_ties();
        if let Some(links) = job.links.as_mut() {
            links.parent = None;
        }
        job.annotate(annotate);
        let job = self.store.body_mut(parent);
        let links = job.links.as_mut();
        if links.is_some_and(|links| links.children.remove(child) && !links.children.is_empty()) {
            job.annotate_later(annotate);
        } else {
            job.annotate(annotate);
        }
        self.store.marks.touch_tie(parent, child);
        self.release_if_free(turn, parent, true);
        Ok(true)
    }

    /// Deletes the children of a job that have not started; the job never fails by it. How many.
    pub fn remove_unprocessed_children(&mut self, turn: &mut Turn<'_>, parent: &JobId) -> usize {
        self.tick(turn);
        let Some(parent) = self.store.find(parent) else {
            return 0;
        };
        let Some(links) = self.store.job(parent).links.as_ref() else {
            return 0;
        };
        let may_go = |key: &JobKey| {
            let job = self.store.job(*key);
            // A job that took over a child's id is no child; older clients name the parent only after both exist.
            let is_child = match job.parent() {
                Some(own) => *own == self.store.job(parent).id,
                None => links.unmet.contains(&job.id),
            };
            is_child && (job.state.is_queued() || job.state == State::WaitingChildren)
        };
        let children = links.children.ids();
        let children = children.filter_map(|child| self.store.find(child));
        let removed: Vec<JobKey> = children.filter(may_go).collect();
        let mut dropped = false;
        for key in &removed {
            let child = self.store.job(*key).id.clone();
            dropped |= self.untie(parent, &child);
            self.emit_removed(turn, *key);
        }
        self.hold_on(turn, |engine, turn| {
            // One that was put aside waits for a change of its dependencies.
            if dropped {
                engine.release_if_free(turn, parent, true);
            }
            engine.delete_all(turn, &removed);
        });
        removed.len()
    }

    /// The tree of jobs below a job of a queue: at most `depth` levels (and [`FLOW_DEPTH_MAX`]), `children` for each job,
    /// and [`FLOW_JOBS_MAX`] jobs in all.
    pub fn flow_tree(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        queue: &str,
        depth: usize,
        children: usize,
    ) -> Option<FlowNode> {
        self.tick(turn);
        let key = self.store.find(id)?;
        let in_queue: QueueKey = self.queues.find(queue)?;
        if self.store.job(key).queue != in_queue {
            return None;
        }
        let mut left = FLOW_JOBS_MAX - 1;
        Some(self.flow_node(key, depth.min(FLOW_DEPTH_MAX), children, &mut left))
    }

    fn flow_node(&self, key: JobKey, depth: usize, width: usize, left: &mut usize) -> FlowNode {
        let job = self.detail(key);
        let id = &self.store.job(key).id;
        let links = self.store.job(key).links.as_ref();
        // A job that took over a child's id is no child.
        let is_theirs = |child: &JobKey| self.store.job(*child).parent() == Some(id);
        let declared = links.iter().flat_map(|links| links.children.ids());
        let mut existing = declared
            .filter_map(|child| self.store.find(child))
            .filter(is_theirs);
        if depth == 0 {
            let children = existing.next().is_none().then(Vec::new);
            return FlowNode { job, children };
        }
        let mut children = Vec::new();
        for child in existing.take(width) {
            let Some(less) = left.checked_sub(1) else {
                break;
            };
            *left = less;
            children.push(self.flow_node(child, depth - 1, width, left));
        }
        FlowNode {
            job,
            children: Some(children),
        }
    }
}
