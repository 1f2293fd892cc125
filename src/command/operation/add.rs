//! Adding jobs.

use super::{Execute, Outcome};
use crate::command::QueueName;
use crate::command::flow::annotate;
use crate::engine::Progressing::Done;
use crate::engine::{AddOutcome, Added, Engine, JobId, NewJob, Turn};

/// Adds one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Add {
    /// Where to.
    pub queue: QueueName,
    /// The job.
    pub job: NewJob,
}

impl Execute for Add {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let parent = parent(&self.job);
        let added = engine.add(turn, &self.queue.shared(), self.job)?;
        note_child(engine, parent, &added);
        Ok(Done(added))
    }
}

/// Adds several jobs, in order, all or none.
#[derive(Clone, Debug, PartialEq)]
pub struct AddMany {
    /// Where to.
    pub queue: QueueName,
    /// The jobs.
    pub jobs: Vec<NewJob>,
}

impl Execute for AddMany {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        let parents: Vec<_> = match self.jobs.iter().any(|job| job.links.is_some()) {
            true => self.jobs.iter().map(parent).collect(),
            false => Vec::new(),
        };
        let added = engine.add_many(turn, &self.queue.shared(), self.jobs)?;
        for (parent, added) in parents.into_iter().zip(&added) {
            note_child(engine, parent, added);
        }
        Ok(Done(added))
    }
}

fn parent(job: &NewJob) -> Option<JobId> {
    let parent = job.links.as_ref()?.parent.as_ref()?;
    Some(parent.id.clone())
}

/// The data of a parent names its children; those that stand for another add are its children already.
fn note_child(engine: &mut Engine, parent: Option<JobId>, added: &Added) {
    if let Some(parent) = parent
        && added.outcome != AddOutcome::Existing
    {
        engine.annotate_job(&parent, annotate);
    }
}
