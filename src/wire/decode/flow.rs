//! Flows and ties between jobs (tcp protocol section 18).
//!
//! What a flow may hold is checked by [`check_flow`], in the order of the protocol; here it is only collected, and what
//! does not have its type is named.

use super::push::{self, Named, named};
use super::{Decoded, ask};
use crate::command::flow::{FlowJobDraft, Misfit, check_flow};
use crate::command::given::Text;
use crate::command::payload::{Reader, Value};
use crate::command::{
    ArgumentError, FlowFault, GetChildFailures, GetChildrenValues, RemoveChildDependency,
    RemoveUnprocessedChildren, UpdateParent, bounds,
};
use crate::wire::fields::{Fields, List, text};
use crate::wire::shape::{Flow, Shape};

pub(super) fn by_name(name: &[u8], fields: &Fields<'_>) -> Option<Decoded> {
    Some(match name {
        b"PUSHF" => push_flow(fields),
        b"UpdateParent" => update_parent(fields),
        b"GetChildrenValues" => children_values(fields),
        b"GetFailedChildrenValues" => child_failures(fields, Flow::FailedChildren),
        b"GetIgnoredChildrenFailures" => child_failures(fields, Flow::IgnoredChildren),
        b"RemoveChildDependency" => remove_child(fields),
        b"RemoveUnprocessedChildren" => remove_unprocessed(fields),
        _ => return None,
    })
}

fn push_flow(fields: &Fields<'_>) -> Decoded {
    let jobs = jobs(fields)?;
    // Data from which a name was taken out lives here; the rest stays where it came.
    let named: Vec<Option<Named<'_>>> = jobs.clone().map(name_of).collect();
    let drafts: Vec<_> = jobs
        .zip(&named)
        .map(|(job, named)| draft(job, named.as_ref()))
        .collect();
    let flow = check_flow(&drafts)?;
    // Asked before anything is added: its jobs could not be added again.
    if reply_bytes(&drafts) > bounds::FRAME_MAX {
        return Err(FlowFault::DataTooLarge.into());
    }
    let outcome = fields.is_true("outcome");
    ask(flow, Shape::Flow(Flow::Push { outcome }))
}

/// Bytes that no reply with these jobs exceeds.
pub(super) fn reply_bytes(drafts: &[FlowJobDraft<'_>]) -> usize {
    /// Those of a job without any text of its own.
    const BARE: usize = 1_024;
    let list = |texts: &[&str]| -> usize { texts.iter().map(|text| text.len() + 5).sum() };
    let job = |draft: &FlowJobDraft<'_>| {
        let job = &draft.job;
        let group = match job.group_id {
            Text::Value(group) => group.len(),
            Text::Absent | Text::NotText => 0,
        };
        BARE + 2 * draft.id.len()
            + draft.queue.len()
            + job.name.map_or(0, str::len)
            + job.data.map_or(0, <[u8]>::len)
            + draft.parent.map_or(0, str::len)
            + group
            + list(&draft.depends_on)
            + list(&draft.children)
            + list(&job.tags)
    };
    drafts.iter().map(job).sum::<usize>() + BARE
}

fn jobs<'a>(fields: &Fields<'a>) -> Result<List<'a>, FlowFault> {
    match fields.list("jobs", bounds::FLOW_JOBS_MAX) {
        Ok(Some(jobs)) => Ok(jobs),
        Err(ArgumentError::TooMany { .. }) => Err(FlowFault::TooManyJobs),
        _ => Err(FlowFault::NotArray),
    }
}

fn name_of(job: &[u8]) -> Option<Named<'_>> {
    let input = Fields::of(Fields::of(job)?.raw("input")?)?;
    Some(named(&input, "name"))
}

fn draft<'a>(job: &'a [u8], named: Option<&'a Named<'_>>) -> FlowJobDraft<'a> {
    let mut draft = FlowJobDraft::default();
    let Some(job) = Fields::of(job) else {
        draft.misfits.push(Misfit::Job);
        return draft;
    };
    match value(&job, "id") {
        Some(Value::Str(id)) => draft.id = std::str::from_utf8(id).unwrap_or_default(),
        _ => draft.misfits.push(Misfit::Id),
    }
    match job.raw("queue") {
        Some(raw) => match text(raw) {
            Some(queue) => draft.queue = queue,
            None => draft.misfits.push(Misfit::Queue(Some(raw))),
        },
        None => draft.misfits.push(Misfit::Queue(None)),
    }
    match job.raw("input").and_then(Fields::of) {
        Some(input) => read_input(&input, &mut draft),
        None => draft.misfits.push(Misfit::Input),
    }
    if let Some(named) = named {
        (draft.job.name, draft.job.data) = named.parts();
    }
    draft
}

fn read_input<'a>(input: &Fields<'a>, draft: &mut FlowJobDraft<'a>) {
    let misfits = &mut draft.misfits;
    draft.job.custom_id = one(input, "customId", Misfit::CustomId, misfits);
    draft.parent = one(input, "parentId", Misfit::Parent, misfits);
    draft.depends_on = several(input, "dependsOn", Misfit::DependsOn, misfits);
    draft.children = several(input, "childrenIds", Misfit::Children, misfits);
    draft.unsupported = unsupported(input);
    for (key, raw) in input.entries() {
        push::number_option(key, raw, &mut draft.job);
    }
    draft.job.group_id = input.text_value("groupId");
    let job = &mut draft.job;
    let flags = [
        ("lifo", &mut job.lifo),
        ("removeOnComplete", &mut job.remove_on_complete),
        ("removeOnFail", &mut job.remove_on_fail),
        ("durable", &mut job.durable),
        ("failParentOnFailure", &mut job.fail_parent_on_failure),
        (
            "removeDependencyOnFailure",
            &mut job.remove_dependency_on_failure,
        ),
        (
            "continueParentOnFailure",
            &mut job.continue_parent_on_failure,
        ),
        (
            "ignoreDependencyOnFailure",
            &mut job.ignore_dependency_on_failure,
        ),
    ];
    for (name, flag) in flags {
        match value(input, name) {
            None => {}
            Some(Value::Bool(given)) => *flag = given,
            Some(_) => misfits.push(Misfit::Flag(name)),
        }
    }
    job.tags = several(input, "tags", Misfit::Tags, misfits);
}

/// What does not go with a flow, whatever it says.
fn unsupported(input: &Fields<'_>) -> Option<&'static str> {
    let options = [
        ("repeat", ["repeat"].as_slice()),
        ("deduplication", &["uniqueKey", "dedup"]),
        ("debounce", &["debounceId", "debounceTtl"]),
    ];
    let sent = |keys: &[&str]| keys.iter().any(|key| input.raw(key).is_some());
    let found = options.into_iter().find(|(_, keys)| sent(keys));
    found.map(|(option, _)| option)
}

/// A value that was sent; nil is one.
fn value<'a>(fields: &Fields<'a>, name: &str) -> Option<Value<'a>> {
    Reader::new(fields.raw(name)?).read().ok()
}

/// A text, if it was sent.
fn one<'a>(
    input: &Fields<'a>,
    name: &str,
    part: Misfit<'a>,
    misfits: &mut Vec<Misfit<'a>>,
) -> Option<&'a str> {
    let raw = input.raw(name)?;
    let text = text(raw);
    if text.is_none() {
        misfits.push(part);
    }
    text
}

/// A list of texts, if it was sent. Of one with too many items so many are read that this shows.
fn several<'a>(
    input: &Fields<'a>,
    name: &'static str,
    part: Misfit<'a>,
    misfits: &mut Vec<Misfit<'a>>,
) -> Vec<&'a str> {
    const ENOUGH: usize = bounds::LABELS_MAX + 1;
    if input.raw(name).is_none() {
        return Vec::new();
    }
    let list = input.list(name, usize::MAX).ok().flatten();
    let texts = list.and_then(|list| list.take(ENOUGH).map(text).collect());
    texts.unwrap_or_else(|| {
        misfits.push(part);
        Vec::new()
    })
}

fn update_parent(fields: &Fields<'_>) -> Decoded {
    let child = fields.id("childId")?;
    let parent = fields.id("parentId")?;
    ask(UpdateParent { child, parent }, Shape::Done)
}

fn children_values(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    ask(GetChildrenValues { id }, Shape::Flow(Flow::ChildrenValues))
}

fn child_failures(fields: &Fields<'_>, shape: Flow) -> Decoded {
    let id = fields.id("id")?;
    ask(GetChildFailures { id }, Shape::Flow(shape))
}

fn remove_child(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    ask(
        RemoveChildDependency { id },
        Shape::Flow(Flow::ChildRemoved),
    )
}

fn remove_unprocessed(fields: &Fields<'_>) -> Decoded {
    let id = fields.id("id")?;
    ask(RemoveUnprocessedChildren { id }, Shape::Done)
}
