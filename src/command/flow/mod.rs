//! Flows before they are admitted: what a client may ask for, checked as a whole.
//!
//! A flow arrives in one of two forms. [`check_flow`] takes jobs whose ids and ties the client has planned (tcp protocol,
//! section 18.1). [`Plan`] makes the plan itself from trees, chains and joins (engine contract, section 13). Both end as
//! [`AddFlow`]: jobs that name each other by position, so that ids which the engine has yet to choose can be tied, too.

mod annotate;
mod check;
mod fault;
mod plan;
#[cfg(test)]
mod tests;

pub use annotate::{annotate, update};
pub use check::{FlowJobDraft, Misfit, check_flow};
pub use fault::FlowFault;
pub use plan::{FlowNodeDraft, Plan, is_flow_id};

use super::QueueName;
use crate::engine::{JobId, NewJob};

/// A job of a flow, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowEntry {
    /// Its id; `None` lets the engine choose.
    pub id: Option<JobId>,
    /// Its queue.
    pub queue: QueueName,
    /// The job; its links are made from the places below.
    pub job: NewJob,
    /// Places of the jobs it waits for.
    pub depends_on: Vec<usize>,
    /// Places of its children.
    pub children: Vec<usize>,
    /// Place of its parent.
    pub parent: Option<usize>,
}

/// Adds the jobs of a flow, in order: all of them, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct AddFlow {
    /// The jobs; places refer to this list and are acyclic.
    pub jobs: Vec<FlowEntry>,
    /// Their ties must still be written into their data.
    pub annotate: bool,
}
