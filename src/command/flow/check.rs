//! A flow that its client has planned: every job by itself, in order, then the ties between them.

use std::collections::{HashMap, HashSet};

use super::annotate::{CHILDREN_IDS, PARENT_ID, PARENT_QUEUE};
use super::{AddFlow, FlowEntry, FlowFault};
use crate::command::draft::JobDraft;
use crate::command::payload::{self, Reader, Value};
use crate::command::{ArgumentError, CommandError, GroupId, QueueName, bounds};
use crate::engine::{JobId, NewJob, find_cycle};

/// A planned job as a client sent it; what did not have its type is missing, and named among the misfits.
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
    /// What did not have its type; flags in the order of the protocol.
    pub misfits: Vec<Misfit<'a>>,
}

/// A part of a planned job that was sent as something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit<'a> {
    /// The job itself is no map.
    Job,
    /// Its id is no text.
    Id,
    /// Its queue is no text, but this value, if any.
    Queue(Option<&'a [u8]>),
    /// What describes it is no map.
    Input,
    /// Its custom id is no text.
    CustomId,
    /// What names its parent is no text.
    Parent,
    /// What it waits for is no list of texts.
    DependsOn,
    /// Its children are no list of texts.
    Children,
    /// This option is neither true nor false.
    Flag(&'static str),
    /// Its tags are no list of texts.
    Tags,
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
        if draft.misfits.contains(&Misfit::Job) {
            return Err(FlowFault::NotObject(place).into());
        }
        check_id(draft)?;
        if places.insert(draft.id, place).is_some() {
            return Err(FlowFault::DuplicateId(draft.id.to_owned()).into());
        }
        jobs.push(check_job(draft, &mut bytes)?);
    }
    drafts.iter().try_for_each(check_distinct)?;
    let owners = owners(drafts);
    for (draft, entry) in drafts.iter().zip(&mut jobs) {
        tie(draft, drafts, &places, &owners, entry)?;
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

fn check_id(draft: &FlowJobDraft<'_>) -> Result<(), FlowFault> {
    if draft.misfits.contains(&Misfit::Id) {
        Err(FlowFault::IdNotText)
    } else if !is_id(draft.id) {
        Err(FlowFault::IdInvalid)
    } else if draft.id.contains(':') {
        Err(FlowFault::IdColon)
    } else {
        Ok(())
    }
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && !bounds::is_longer(text, bounds::FLOW_ID_MAX)
}

fn check_job(draft: &FlowJobDraft<'_>, bytes: &mut usize) -> Result<FlowEntry, CommandError> {
    let queue = queue(draft)?;
    check_names(draft)?;
    if let Some(name) = draft.job.name {
        bounds::job_name(name)?;
    }
    let data = draft.job.data.unwrap_or_default();
    if payload::key_with_prefix(data, "__").is_err() {
        return Err(FlowFault::DataNotObject.into());
    }
    draft.job.check_data()?;
    add_bytes(bytes, data)?;
    let (has_parent, misfits) = (draft.parent.is_some(), &draft.misfits);
    let job = check_options(&draft.job, has_parent, draft.unsupported, misfits)
        .map_err(under_its_own_name)?;
    Ok(FlowEntry {
        id: Some(JobId::from_text(draft.id)),
        queue,
        job,
        depends_on: Vec::new(),
        children: Vec::new(),
        parent: None,
    })
}

fn queue(draft: &FlowJobDraft<'_>) -> Result<QueueName, FlowFault> {
    let misfit = draft.misfits.iter().find_map(|misfit| match misfit {
        Misfit::Queue(value) => Some(value.map_or("undefined".into(), |value| {
            payload::to_json_within(value, bounds::TEXT_MAX)
        })),
        _ => None,
    });
    let fault = |name: &str| FlowFault::Queue(bounds::cut_copy(name).as_ref().to_owned());
    match misfit {
        Some(shown) => Err(fault(&shown)),
        None => QueueName::new(draft.queue).map_err(|_| fault(draft.queue)),
    }
}

/// What names the job and others, before the job itself.
fn check_names(draft: &FlowJobDraft<'_>) -> Result<(), FlowFault> {
    let misfit = |part| draft.misfits.contains(&part);
    let own = || draft.id.to_owned();
    if misfit(Misfit::Input) {
        return Err(FlowFault::Input(own()));
    }
    if misfit(Misfit::CustomId) || draft.job.custom_id.is_some_and(|custom| custom != draft.id) {
        return Err(FlowFault::CustomId(own()));
    }
    if misfit(Misfit::Parent) || draft.parent.is_some_and(|parent| !is_id(parent)) {
        return Err(FlowFault::Parent(own()));
    }
    let lists = [
        ("dependsOn", Misfit::DependsOn, &draft.depends_on),
        ("childrenIds", Misfit::Children, &draft.children),
    ];
    for (field, part, ids) in lists {
        if misfit(part) || !ids.iter().all(|id| is_id(id)) {
            return Err(FlowFault::NotIds(field));
        }
    }
    Ok(())
}

/// The protocol calls this option otherwise when it stands in a flow.
fn under_its_own_name(error: CommandError) -> CommandError {
    match error {
        CommandError::Argument(ArgumentError::NotNumber("maxAttempts")) => {
            ArgumentError::NotNumber("attempts").into()
        }
        other => other,
    }
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

/// What a job of a flow may not have, then what every job is checked for, then its tags and policies.
pub(super) fn check_options(
    job: &JobDraft<'_>,
    has_parent: bool,
    unsupported: Option<&'static str>,
    misfits: &[Misfit<'_>],
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
    let checked = job.check_options()?;
    for misfit in misfits {
        if let Misfit::Flag(option) = misfit {
            return Err(FlowFault::NotBoolean(option).into());
        }
    }
    let checked = checked.in_group(GroupId::new(job.group_id)?);
    let too_long = |tag: &&str| bounds::is_longer(tag, bounds::FLOW_TAG_MAX);
    if misfits.contains(&Misfit::Tags) || job.tags.iter().any(too_long) {
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

/// No job is named twice by the same one.
fn check_distinct(draft: &FlowJobDraft<'_>) -> Result<(), FlowFault> {
    let distinct = |ids: &[&str]| {
        let mut seen = HashSet::with_capacity(ids.len());
        ids.iter().all(|id| seen.insert(*id))
    };
    if !distinct(&draft.depends_on) {
        Err(FlowFault::DuplicateDependency(draft.id.to_owned()))
    } else if !distinct(&draft.children) {
        Err(FlowFault::DuplicateChild(draft.id.to_owned()))
    } else {
        Ok(())
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
    let awaited: HashSet<&str> = draft.depends_on.iter().copied().collect();
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
    let listed = payload::raw_entry(data, CHILDREN_IDS);
    if !draft.children.is_empty() && !listed.is_some_and(|listed| lists(listed, &draft.children)) {
        return Err(FlowFault::ParentMetadata(draft.id.to_owned()));
    }
    Ok(())
}

/// Whether a value is the list of these texts, however it is encoded.
fn lists(value: &[u8], texts: &[&str]) -> bool {
    let mut reader = Reader::new(value);
    matches!(reader.read(), Ok(Value::Array(items)) if items as usize == texts.len())
        && texts.iter().all(|text| reader.read_text() == Ok(text))
}

impl FlowFault {
    /// The fault with the place of the job it was found in.
    pub(super) fn at(self, path: &str) -> CommandError {
        CommandError::FlowAt {
            path: path.to_owned(),
            fault: self,
        }
    }
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
            Self::Flow(fault) => fault.at(path),
            other => other,
        }
    }
}
