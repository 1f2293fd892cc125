//! What is known of the ties between jobs: who waits for whom, what a child's end means, and which completed jobs are
//! remembered. The rules stand in [`super::dependency`].

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::flow::Annotate;
use super::id::JobId;
use super::id_map::{IdList, IdMap};
use super::job::{JobLinks, JobOptions, NewLinks, Parent, Payload, framed};
use super::outcome::Refusal;
use super::serial::is_default;
use super::store::{Job, JobKey};

/// Bytes of the ids in `dependsOn` and `childrenIds` of one job. A child stands in both, and once more in the data of
/// a parent that took it in later; all that must fit the frame that delivers the parent.
pub const TIES_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// What the engine knows of dependencies beside the jobs themselves.
#[derive(Debug, Default)]
pub(super) struct Dependencies {
    /// Who waits for a job, in order of admission.
    pub(super) dependents: HashMap<JobId, BTreeSet<(u64, JobKey)>>,
    /// How many live jobs name a job among those they wait or waited for.
    pub(super) needed: HashMap<JobId, usize>,
    /// Completed jobs that were deleted: whoever depends on one later need not wait.
    pub(super) proofs: Proofs,
    /// What the ends of jobs still have to do to others.
    pub(super) consequences: VecDeque<Consequence>,
    /// Somebody is working them off.
    pub(super) settling: bool,
}

/// Ids of completed jobs that are no longer kept, the newest; the bound is the configuration's.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    /// With the number of the proof.
    pub(super) known: HashMap<JobId, u64>,
    pub(super) order: BTreeMap<u64, JobId>,
    next: u64,
    /// Those up to this one were stored.
    kept: u64,
    /// Of these, the ones that are gone since.
    gone: Vec<u64>,
}

impl Proofs {
    pub(super) fn add(&mut self, id: &JobId, max: usize) {
        self.forget(id);
        self.next += 1;
        self.known.insert(id.clone(), self.next);
        self.order.insert(self.next, id.clone());
        while self.order.len() > max
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = oldest.clone();
            self.forget(&oldest);
        }
    }

    pub(super) fn forget(&mut self, id: &JobId) {
        if let Some(number) = self.known.remove(id) {
            self.order.remove(&number);
            if number <= self.kept {
                self.gone.push(number);
            }
        }
    }

    /// Takes in a proof from a store; they come in order.
    pub(super) fn restore(&mut self, number: u64, id: JobId) {
        self.next = number;
        self.kept = number;
        self.known.insert(id.clone(), number);
        self.order.insert(number, id);
    }

    /// None of them counts as stored.
    pub(super) const fn mark_all(&mut self) {
        self.kept = 0;
    }

    /// What has come since the last time, and what is gone. From then on it counts as stored.
    pub(super) fn take(&mut self) -> (Vec<(u64, JobId)>, Vec<u64>) {
        let new = self.order.range(self.kept + 1..);
        let new = new.map(|(number, id)| (*number, id.clone())).collect();
        self.kept = self.next;
        (new, std::mem::take(&mut self.gone))
    }
}

/// How a job ended, as far as others care.
#[derive(Debug)]
pub(super) enum Consequence {
    /// It completed.
    Completed {
        id: JobId,
        queue: Arc<str>,
        parent: Option<JobId>,
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
    pub(super) depends_on: IdList,
    pub(super) children: IdList,
    pub(super) unmet: BTreeSet<JobId>,
    /// Results of children that completed while it waited, with their queues.
    pub(super) values: BTreeMap<JobId, (Arc<str>, Payload)>,
    pub(super) failures: IdMap<ChildFailure>,
    /// Writes the children into the data of the job, which does not name them all yet.
    pub(super) unwritten: Option<Annotate>,
    /// A worker put it aside; only a change of its dependencies brings it back.
    pub(super) parked: bool,
}

/// A child that failed without holding its parent back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildFailure {
    /// The child.
    pub id: JobId,
    /// Its queue.
    pub queue: Arc<str>,
    /// Its error; empty when its worker gave none.
    pub error: Arc<str>,
    /// Its policy was to be ignored; otherwise the parent went on without any of its children.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ignored: bool,
}

impl Policy {
    /// What a job with these options does to its parent.
    pub(super) fn of(options: Option<&JobOptions>) -> Self {
        match options {
            Some(options) if options.fail_parent_on_failure => Self::FailParent,
            Some(options) if options.continue_parent_on_failure => Self::Continue,
            Some(options) if options.ignore_dependency_on_failure => Self::Ignore,
            Some(options) if options.remove_dependency_on_failure => Self::Drop,
            _ => Self::Wait,
        }
    }
}

impl Links {
    pub(super) fn is_blocking(&self) -> bool {
        self.parked || !self.unmet.is_empty()
    }

    /// Bytes that its ties take in a frame.
    pub(super) fn bytes(&self) -> usize {
        let parent = self
            .parent
            .as_ref()
            .map_or(0, |parent| framed(parent.id.text_len()));
        parent + self.listed_bytes()
    }

    /// Those of the ids in its lists, which [`TIES_BYTES_MAX`] bounds.
    pub(super) const fn listed_bytes(&self) -> usize {
        self.depends_on.bytes() + self.children.bytes()
    }

    pub(super) fn view(&self) -> JobLinks {
        JobLinks {
            parent: self.parent.clone(),
            depends_on: self.depends_on.ids().cloned().collect(),
            children: self.children.ids().cloned().collect(),
        }
    }
}

impl NewLinks {
    /// Bytes of the ids in its lists.
    pub(super) fn listed_bytes(&self) -> usize {
        let listed = self.depends_on.iter().chain(&self.children);
        listed.map(|id| framed(id.text_len())).sum()
    }
}

/// Bytes that a child of an id of that length adds to the lists of its parent.
pub(super) const fn child_bytes(id_len: usize) -> usize {
    2 * framed(id_len)
}

/// Whether the lists of a job may take that many bytes.
///
/// # Errors
/// [`Refusal::TiesTooLarge`].
pub(super) const fn check_listed(bytes: usize) -> Result<(), Refusal> {
    if bytes > TIES_BYTES_MAX {
        let max = TIES_BYTES_MAX;
        return Err(Refusal::TiesTooLarge { max });
    }
    Ok(())
}

impl Job {
    /// Bytes of the ids in its lists of ties.
    pub(super) fn listed_bytes(&self) -> usize {
        self.links.as_ref().map_or(0, |links| links.listed_bytes())
    }

    /// Whether it waits for others.
    pub(super) fn is_blocked(&self) -> bool {
        self.links.as_ref().is_some_and(|links| links.is_blocking())
    }

    pub(super) fn policy(&self) -> Policy {
        Policy::of(self.options.as_deref())
    }

    /// Its data, with the ties that are not written into it yet.
    pub(super) fn data(&self) -> Option<Payload> {
        match self.unwritten() {
            Some(annotate) => self.annotated(annotate),
            None => self.data.clone(),
        }
    }

    /// Whether there are ties that are not written into its data yet.
    pub(super) fn has_unwritten(&self) -> bool {
        self.unwritten().is_some()
    }

    fn unwritten(&self) -> Option<Annotate> {
        self.links.as_ref()?.unwritten
    }

    fn annotated(&self, annotate: Annotate) -> Option<Payload> {
        let links = self.links.as_ref().map(|links| links.view());
        annotate(&links.unwrap_or_default(), self.data.as_ref()).or_else(|| self.data.clone())
    }

    /// Its children have changed, and its data is to name them once somebody reads it: to write them all with each one
    /// that comes would cost the more the more there are.
    pub(super) fn annotate_later(&mut self, annotate: Annotate) {
        self.links.get_or_insert_default().unwritten = Some(annotate);
    }

    /// Writes its ties into its data.
    pub(super) fn annotate(&mut self, annotate: Annotate) {
        let data = self.annotated(annotate);
        self.replace_data(data);
    }

    /// Writes what is not written yet, so that whatever is written next stands behind it.
    pub(super) fn write_ties(&mut self) {
        if let Some(annotate) = self.unwritten() {
            self.annotate(annotate);
        }
    }

    /// Takes data that needs nothing to be written into it.
    pub(super) fn replace_data(&mut self, data: Option<Payload>) {
        self.data = data;
        if let Some(links) = self.links.as_mut() {
            links.unwritten = None;
        }
    }

    /// Its ties, if it has any.
    pub(super) fn ties(&self) -> Option<JobLinks> {
        let links = self.links.as_ref()?.view();
        (links != JobLinks::default()).then_some(links)
    }

    pub(super) fn parent(&self) -> Option<&JobId> {
        let parent = self.links.as_ref()?.parent.as_ref()?;
        Some(&parent.id)
    }
}

impl Dependencies {
    pub(super) fn forget(&mut self, id: &JobId, seq: u64, dependent: JobKey) {
        if let Some(waiting) = self.dependents.get_mut(id) {
            waiting.remove(&(seq, dependent));
            if waiting.is_empty() {
                self.dependents.remove(id);
            }
        }
    }
}
