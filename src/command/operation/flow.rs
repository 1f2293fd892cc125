//! Flows and the ties between jobs.

use std::sync::Arc;

use super::{Execute, Outcome};
use crate::command::flow::{AddFlow, annotate};
use crate::engine::Progressing::Done;
use crate::engine::{Engine, FlowJob, JobId, JobLinks, Payload, Turn};

impl Execute for AddFlow {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let chosen: Vec<_> = self.jobs.iter().map(|entry| entry.id.clone()).collect();
        Ok(Done(engine.add_flow(turn, &chosen, |ids| self.under(ids))?))
    }
}

impl AddFlow {
    /// The jobs under their ids, with their ties.
    fn under(self, ids: &[JobId]) -> Vec<FlowJob> {
        let queues: Vec<Arc<str>> = self.jobs.iter().map(|entry| entry.queue.shared()).collect();
        let named = |places: &[usize]| {
            places
                .iter()
                .filter_map(|place| ids.get(*place).cloned())
                .collect()
        };
        let jobs = self.jobs.into_iter().zip(ids).map(|(entry, id)| {
            let parent = entry.parent.and_then(|place| {
                let (id, queue) = (ids.get(place)?.clone(), Arc::clone(queues.get(place)?));
                Some(crate::engine::Parent { id, queue })
            });
            let links = JobLinks {
                parent,
                depends_on: named(&entry.depends_on),
                children: named(&entry.children),
            };
            let mut job = entry.job;
            if self.annotate
                && let Some(data) = annotate(&links, job.data.as_ref())
            {
                job.data = Some(data);
            }
            job.links = (links != JobLinks::default()).then(|| Box::new(links));
            FlowJob {
                id: id.clone(),
                queue: entry.queue.shared(),
                job,
            }
        });
        jobs.collect()
    }
}

/// Makes one existing job the child of another.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateParent {
    /// The child.
    pub child: JobId,
    /// The parent.
    pub parent: JobId,
}

impl Execute for UpdateParent {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.link(
            turn,
            &self.child,
            &self.parent,
            annotate,
        )?))
    }
}

/// Cuts the tie between a child and its parent.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveChildDependency {
    /// The child.
    pub id: JobId,
}

impl Execute for RemoveChildDependency {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.unlink(turn, &self.id, annotate)?))
    }
}

/// Deletes the children of a job that have not started; the job goes on without them.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveUnprocessedChildren {
    /// The parent.
    pub id: JobId,
}

impl Execute for RemoveUnprocessedChildren {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.remove_unprocessed_children(turn, &self.id)))
    }
}

/// Reads the results of the children that completed.
#[derive(Clone, Debug, PartialEq)]
pub struct GetChildrenValues {
    /// The parent.
    pub id: JobId,
}

/// The result of a child: its queue, its id, the value.
pub type ChildValue = (Arc<str>, JobId, Payload);

impl Execute for GetChildrenValues {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.children_values(turn, &self.id)))
    }
}

/// Reads which children failed without holding the job back.
#[derive(Clone, Debug, PartialEq)]
pub struct GetChildFailures {
    /// The parent.
    pub id: JobId,
}

impl Execute for GetChildFailures {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.child_failures(turn, &self.id)))
    }
}

/// Reads the tree of jobs below a job.
#[derive(Clone, Debug, PartialEq)]
pub struct GetFlow {
    /// The job at the top.
    pub id: JobId,
    /// Its queue; a job of another queue is not found.
    pub queue: Arc<str>,
    /// Levels below it, at most [`crate::engine::FLOW_DEPTH_MAX`].
    pub depth: usize,
    /// Children of each job.
    pub children: usize,
}

impl Execute for GetFlow {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let tree = engine.flow_tree(turn, &self.id, &self.queue, self.depth, self.children);
        Ok(Done(tree.map(Box::new)))
    }
}
