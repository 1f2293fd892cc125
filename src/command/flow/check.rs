//! A flow that its client has planned: every job by itself, in order, then the ties between them.

use std::collections::{HashMap, HashSet};

use super::annotate::{CHILDREN_IDS, PARENT_ID, PARENT_QUEUE, list};
use super::{AddFlow, FlowEntry, FlowFault};
use crate::command::draft::JobDraft;
use crate::command::{CommandError, QueueName, bounds, payload};
use crate::engine::{JobId, NewJob, find_cycle};

/// A planned job as a client sent it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowJobDraft<'a> {
    /// The planned id.
    pub id: &'a str,
    /// Its queue.
    pub queue: &'a str,
    /// The job itself.
    pub job: JobDraft<'a>,
    /// Planned ids it waits for.
    pub depends_on: Vec<&'a str>,
    /// Planned ids of its children.
    pub children: Vec<&'a str>,
    /// The planned id of its parent.
    pub parent: Option<&'a str>,
    /// An option that does not go with a flow: `repeat`, `deduplication` or `debounce`.
    pub unsupported: Option<&'static str>,
}

/// The flow, if it may be admitted.
///
/// # Errors
/// The first fault in the order of the protocol: jobs one by one, then the ties.
pub fn check_flow(drafts: &[FlowJobDraft<'_>]) -> Result<AddFlow, CommandError> {
    if drafts.len() > bounds::FLOW_JOBS_MAX {
        return Err(FlowFault::TooManyJobs.into());
    }
    let mut places = HashMap::with_capacity(drafts.len());
    let mut bytes = 0;
    let mut jobs = Vec::with_capacity(drafts.len());
    for (place, draft) in drafts.iter().enumerate() {
        check_id(draft.id)?;
        if places.insert(draft.id, place).is_some() {
            return Err(FlowFault::DuplicateId(draft.id.to_owned()).into());
        }
        jobs.push(check_job(draft, &mut bytes)?);
    }
    let owners = owners(drafts);
    for (draft, entry) in drafts.iter().zip(&mut jobs) {
        tie(draft, drafts, &places, &owners, entry)?;
    }
    for draft in drafts {
        check_metadata(draft, drafts, &places)?;
    }
    let edges: Vec<Vec<usize>> = jobs.iter().map(|job| job.depends_on.clone()).collect();
    if find_cycle(&edges).is_some() {
        return Err(FlowFault::Cycle.into());
    }
    Ok(AddFlow {
        jobs,
        annotate: false,
    })
}

fn check_id(id: &str) -> Result<(), FlowFault> {
    if id.is_empty() || id.encode_utf16().count() > bounds::FLOW_ID_MAX {
        Err(FlowFault::IdInvalid)
    } else if id.contains(':') {
        Err(FlowFault::IdColon)
    } else {
        Ok(())
    }
}

fn check_job(draft: &FlowJobDraft<'_>, bytes: &mut usize) -> Result<FlowEntry, CommandError> {
    let queue =
        QueueName::new(draft.queue).map_err(|_| FlowFault::Queue(draft.queue.to_owned()))?;
    if draft.job.custom_id.is_some_and(|custom| custom != draft.id) {
        return Err(FlowFault::CustomId(draft.id.to_owned()).into());
    }
    if let Some(name) = draft.job.name {
        bounds::job_name(name)?;
    }
    let data = draft.job.data.unwrap_or_default();
    if payload::key_with_prefix(data, "__").is_err() {
        return Err(FlowFault::DataNotObject.into());
    }
    draft.job.check_data()?;
    add_bytes(bytes, data)?;
    let job = check_options(&draft.job, draft.parent.is_some(), draft.unsupported)?;
    Ok(FlowEntry {
        id: Some(JobId::from_text(draft.id)),
        queue,
        job,
        depends_on: Vec::new(),
        children: Vec::new(),
        parent: None,
    })
}

/// Counts the data of a flow against its bound.
pub(super) fn add_bytes(total: &mut usize, data: &[u8]) -> Result<(), FlowFault> {
    *total += payload::json_len_utf16(data, bounds::FLOW_DATA_MAX);
    if *total > bounds::FLOW_DATA_MAX {
        Err(FlowFault::DataTooLarge)
    } else {
        Ok(())
    }
}

/// What a job of a flow may not have, then what every job is checked for, then its policies.
pub(super) fn check_options(
    job: &JobDraft<'_>,
    has_parent: bool,
    unsupported: Option<&'static str>,
) -> Result<NewJob, CommandError> {
    if let Some(option) = unsupported {
        return Err(FlowFault::Unsupported(option).into());
    }
    if job.unique_key.is_some() {
        return Err(FlowFault::Unsupported("deduplication").into());
    }
    if job.debounce_id.is_some() {
        return Err(FlowFault::Unsupported("debounce").into());
    }
    let checked = job.check()?;
    let too_long = |tag: &&str| tag.encode_utf16().count() > bounds::FLOW_TAG_MAX;
    if job.tags.iter().any(too_long) {
        return Err(FlowFault::Tags.into());
    }
    let policies = [
        job.fail_parent_on_failure,
        job.remove_dependency_on_failure,
        job.continue_parent_on_failure,
        job.ignore_dependency_on_failure,
    ];
    match policies.into_iter().filter(|policy| *policy).count() {
        0 => Ok(checked),
        1 if has_parent => Ok(checked),
        1 => Err(FlowFault::PolicyWithoutParent.into()),
        _ => Err(FlowFault::SeveralPolicies.into()),
    }
}

/// Who names whom as a child: the ids of parent and child.
fn owners<'a>(drafts: &'a [FlowJobDraft<'_>]) -> HashSet<(&'a str, &'a str)> {
    let pairs = |draft: &'a FlowJobDraft<'_>| {
        let children = draft.children.iter();
        children.map(|child| (draft.id, *child))
    };
    drafts.iter().flat_map(pairs).collect()
}

fn tie(
    draft: &FlowJobDraft<'_>,
    drafts: &[FlowJobDraft<'_>],
    places: &HashMap<&str, usize>,
    owners: &HashSet<(&str, &str)>,
    entry: &mut FlowEntry,
) -> Result<(), FlowFault> {
    let own = || draft.id.to_owned();
    let mut awaited = HashSet::with_capacity(draft.depends_on.len());
    if !draft.depends_on.iter().all(|id| awaited.insert(*id)) {
        return Err(FlowFault::DuplicateDependency(own()));
    }
    let mut children = HashSet::with_capacity(draft.children.len());
    if !draft.children.iter().all(|id| children.insert(*id)) {
        return Err(FlowFault::DuplicateChild(own()));
    }
    for id in &draft.depends_on {
        match places.get(id) {
            None => return Err(FlowFault::DependencyNotFound((*id).to_owned())),
            Some(_) if *id == draft.id => return Err(FlowFault::SelfDependency(own())),
            Some(place) => entry.depends_on.push(*place),
        }
    }
    for child in &draft.children {
        let name = || (*child).to_owned();
        if !awaited.contains(child) {
            return Err(FlowFault::ChildNotAwaited(name()));
        }
        let place = *places
            .get(child)
            .ok_or_else(|| FlowFault::ChildNotFound(name()))?;
        if drafts.get(place).and_then(|child| child.parent) != Some(draft.id) {
            return Err(FlowFault::ChildWithoutParent {
                child: name(),
                parent: own(),
            });
        }
        entry.children.push(place);
    }
    if let Some(parent) = draft.parent {
        let place = *places
            .get(parent)
            .ok_or_else(|| FlowFault::ParentNotFound(parent.to_owned()))?;
        if !owners.contains(&(parent, draft.id)) {
            return Err(FlowFault::ParentWithoutChild {
                child: own(),
                parent: parent.to_owned(),
            });
        }
        entry.parent = Some(place);
    }
    Ok(())
}

/// The keys in the data must say what the fields say.
fn check_metadata(
    draft: &FlowJobDraft<'_>,
    drafts: &[FlowJobDraft<'_>],
    places: &HashMap<&str, usize>,
) -> Result<(), FlowFault> {
    let data = draft.job.data.unwrap_or_default();
    if let Some(parent) = draft.parent {
        let queue = places.get(parent).and_then(|place| drafts.get(*place));
        let queue = queue.map(|parent| parent.queue);
        if payload::text_entry(data, PARENT_ID) != Some(parent)
            || payload::text_entry(data, PARENT_QUEUE) != queue
        {
            return Err(FlowFault::ChildMetadata {
                child: draft.id.to_owned(),
                parent: parent.to_owned(),
            });
        }
    }
    if !draft.children.is_empty() {
        let ids: Vec<_> = draft
            .children
            .iter()
            .map(|id| JobId::from_text(id))
            .collect();
        if payload::raw_entry(data, CHILDREN_IDS) != Some(list(&ids).as_slice()) {
            return Err(FlowFault::ParentMetadata(draft.id.to_owned()));
        }
    }
    Ok(())
}

impl From<FlowFault> for CommandError {
    fn from(fault: FlowFault) -> Self {
        Self::Flow(fault)
    }
}

impl CommandError {
    /// The same fault with the place of the job it was found in, unless it says so itself.
    pub(super) fn in_node(self, path: &str) -> Self {
        match self {
            Self::Argument(error) => Self::FlowNode {
                path: path.to_owned(),
                error,
            },
            other => other,
        }
    }
}
