//! What can be wrong with a flow as a whole: texts and hints.

use thiserror::Error;

use crate::command::bounds;

/// Why a flow is refused; nothing of it was admitted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FlowFault {
    /// No list of jobs.
    #[error("flow jobs must be an array")]
    NotArray,
    /// More jobs than [`bounds::FLOW_JOBS_MAX`].
    #[error("flow exceeds the {} job limit", bounds::FLOW_JOBS_MAX)]
    TooManyJobs,
    /// More levels than [`bounds::FLOW_DEPTH_MAX`].
    #[error("flow exceeds the {} level depth limit", bounds::FLOW_DEPTH_MAX)]
    TooDeep,
    /// More data than [`bounds::FLOW_DATA_MAX`].
    #[error("flow data is too large (max 64MB per atomic batch)")]
    DataTooLarge,
    /// A job is no map; its place, from 0.
    #[error("flow jobs[{0}] must be an object")]
    NotObject(usize),
    /// Data of a job is no map.
    #[error("flow job data must be an object")]
    DataNotObject,
    /// Data of a job has a key that belongs to the queue.
    #[error("flow job data key is reserved: {0}")]
    ReservedKey(String),
    /// A planned id is no text.
    #[error("flow job id must be a string")]
    IdNotText,
    /// A planned id is empty, too long or no text.
    #[error("flow job id is invalid or is not well-formed Unicode")]
    IdInvalid,
    /// A planned id has a colon.
    #[error("flow job id cannot contain a colon")]
    IdColon,
    /// An id that a caller chose is empty, too long or has a colon.
    #[error("flow jobId must be non-empty and cannot contain a colon")]
    JobId,
    /// An id occurs twice.
    #[error("duplicate flow job id: {0}")]
    DuplicateId(String),
    /// Not the name of a queue.
    #[error("invalid flow queue: {0}")]
    Queue(String),
    /// What describes the job is no map.
    #[error("flow job input is invalid: {0}")]
    Input(String),
    /// The custom id is another one than the planned id.
    #[error("custom id does not match planned id: {0}")]
    CustomId(String),
    /// What names the parent of a job is no id.
    #[error("flow parent id is invalid: {0}")]
    Parent(String),
    /// What names other jobs is no list of ids.
    #[error("{0} must be an array of valid string job ids")]
    NotIds(&'static str),
    /// The option does not go with a flow.
    #[error("{0} is not supported inside an atomic flow")]
    Unsupported(&'static str),
    /// The option is neither true nor false.
    #[error("{0} must be a boolean")]
    NotBoolean(&'static str),
    /// A tag is no text or too long.
    #[error(
        "tags must be an array of strings of at most {} characters",
        bounds::FLOW_TAG_MAX
    )]
    Tags,
    /// More than one policy.
    #[error("flow failure policies are mutually exclusive")]
    SeveralPolicies,
    /// A policy on a job without a parent.
    #[error("a flow failure policy requires a parent")]
    PolicyWithoutParent,
    /// The same dependency twice.
    #[error("duplicate dependency in flow job: {0}")]
    DuplicateDependency(String),
    /// The same child twice.
    #[error("duplicate child in flow job: {0}")]
    DuplicateChild(String),
    /// A dependency is not in the flow.
    #[error("flow dependency not found: {0}")]
    DependencyNotFound(String),
    /// A job depends on itself.
    #[error("flow job cannot depend on itself: {0}")]
    SelfDependency(String),
    /// A child its parent does not depend on.
    #[error("flow child is missing from dependencies: {0}")]
    ChildNotAwaited(String),
    /// A child is not in the flow.
    #[error("flow child not found: {0}")]
    ChildNotFound(String),
    /// A child names no parent, or another one.
    #[error("flow child {child} does not point back to parent {parent}")]
    ChildWithoutParent {
        /// The child.
        child: String,
        /// The parent.
        parent: String,
    },
    /// A parent is not in the flow.
    #[error("flow parent not found: {0}")]
    ParentNotFound(String),
    /// A parent does not name its child.
    #[error("flow parent {parent} does not own child {child}")]
    ParentWithoutChild {
        /// The child.
        child: String,
        /// The parent.
        parent: String,
    },
    /// The keys of a child's data say something else.
    #[error("flow child {child} metadata does not match parent {parent}")]
    ChildMetadata {
        /// The child.
        child: String,
        /// The parent.
        parent: String,
    },
    /// The keys of a parent's data say something else.
    #[error("flow parent {0} children does not match the canonical flow topology")]
    ParentMetadata(String),
    /// Jobs wait for each other.
    #[error("flow contains a dependency cycle")]
    Cycle,
}

impl FlowFault {
    /// What to do next, in at most 160 characters.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NotArray => "Pass a list of jobs.",
            Self::NotObject(_) => "Describe each job by an object with id, queue and input.",
            Self::TooManyJobs | Self::TooDeep | Self::DataTooLarge => {
                "Split the flow into smaller ones."
            }
            Self::DataNotObject => "Give every job of a flow an object as data; it may be empty.",
            Self::ReservedKey(_) => {
                "Use another key; those that begin with two underscores belong to the queue."
            }
            Self::IdNotText | Self::IdInvalid | Self::IdColon | Self::JobId => {
                "Choose an id of 1 to 1024 characters without a colon, or leave it out."
            }
            Self::DuplicateId(_) => "Give each job of a flow an id of its own.",
            Self::Queue(_) => {
                "A queue name has 1 to 256 characters out of letters, digits, underscore, hyphen, dot and colon."
            }
            Self::Input(_) => "Pass an object with the data of the job and its options.",
            Self::Parent(_) | Self::NotIds(_) => {
                "Name jobs by their ids: texts of 1 to 1024 characters."
            }
            Self::NotBoolean(_) => "Pass true or false.",
            Self::CustomId(_) => "Leave the custom id out, or repeat the planned id.",
            Self::Unsupported(_) => "Leave the option out, or add the job by itself.",
            Self::Tags => "Pass a list of short texts.",
            Self::SeveralPolicies => "Choose one of the four failure policies.",
            Self::PolicyWithoutParent => {
                "Give the policy to a child; a root has nobody to pass its failure to."
            }
            Self::DuplicateDependency(_) | Self::DuplicateChild(_) => "Name each job once.",
            Self::DependencyNotFound(_) | Self::ChildNotFound(_) | Self::ParentNotFound(_) => {
                "Name only jobs of the same flow."
            }
            Self::SelfDependency(_) | Self::Cycle => {
                "Order the jobs so that none waits for itself."
            }
            Self::ChildNotAwaited(_)
            | Self::ChildWithoutParent { .. }
            | Self::ParentWithoutChild { .. }
            | Self::ChildMetadata { .. }
            | Self::ParentMetadata(_) => {
                "Name each tie on both sides, in the fields and in the data."
            }
        }
    }

    /// One of each, for the reference.
    pub fn samples() -> Vec<Self> {
        let id = || "<id>".to_owned();
        let (child, parent) = ("<child>".to_owned(), "<parent>".to_owned());
        vec![
            Self::NotArray,
            Self::TooManyJobs,
            Self::TooDeep,
            Self::DataTooLarge,
            Self::NotObject(0),
            Self::DataNotObject,
            Self::ReservedKey("<key>".to_owned()),
            Self::IdNotText,
            Self::IdInvalid,
            Self::IdColon,
            Self::JobId,
            Self::DuplicateId(id()),
            Self::Queue("<name>".to_owned()),
            Self::Input(id()),
            Self::CustomId(id()),
            Self::Parent(id()),
            Self::NotIds("<list>"),
            Self::Unsupported("<option>"),
            Self::NotBoolean("<option>"),
            Self::Tags,
            Self::SeveralPolicies,
            Self::PolicyWithoutParent,
            Self::DuplicateDependency(id()),
            Self::DuplicateChild(id()),
            Self::DependencyNotFound(id()),
            Self::SelfDependency(id()),
            Self::ChildNotAwaited(id()),
            Self::ChildNotFound(id()),
            Self::ChildWithoutParent {
                child: child.clone(),
                parent: parent.clone(),
            },
            Self::ParentNotFound(id()),
            Self::ParentWithoutChild {
                child: child.clone(),
                parent: parent.clone(),
            },
            Self::ChildMetadata { child, parent },
            Self::ParentMetadata(id()),
            Self::Cycle,
        ]
    }
}
