//! Flows and ties between jobs (tcp protocol section 18).

use super::ask::{Ask, ask, map};
use super::{Exchange, job};
use crate::command::flow::{FlowEntry, annotate};
use crate::command::{AddFlow, Command, Reply};
use crate::engine::{ChildFailure, JobId, JobLinks, NewJob, Parent, Payload};
use crate::wire::fields::{Fields, text};

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    Some(match command {
        Command::AddFlow(flow) => return push(flow),
        Command::UpdateParent(link) => ask("UpdateParent")
            .id("childId", &link.child)
            .id("parentId", &link.parent)
            .done(),
        Command::RemoveChildDependency(cut) => ask("RemoveChildDependency")
            .id("id", &cut.id)
            .then(|fields| fields.flag("removed").map(Reply::Flag)),
        // How many there were is not told.
        Command::RemoveUnprocessedChildren(remove) => ask("RemoveUnprocessedChildren")
            .id("id", &remove.id)
            .then(|_| Some(Reply::Counted(0))),
        Command::GetChildrenValues(get) => ask("GetChildrenValues").id("id", &get.id).then(values),
        _ => return None,
    })
}

/// The failures of one kind; a server tells the two kinds apart by the question.
pub fn failures(id: &JobId, ignored: bool) -> Exchange {
    let name = if ignored {
        "GetIgnoredChildrenFailures"
    } else {
        "GetFailedChildrenValues"
    };
    ask(name).id("id", id).then(move |fields| {
        let failures = fields.pairs("values")?.into_iter().map(|(child, error)| {
            let (queue, id) = child_name(child);
            Some(ChildFailure {
                id,
                queue: queue.into(),
                error: text(error)?.into(),
                ignored,
            })
        });
        failures.collect::<Option<_>>().map(Reply::ChildFailures)
    })
}

/// The jobs of a flow; `None` while one of them has no id.
fn push(flow: &AddFlow) -> Option<Exchange> {
    let named: Option<Vec<&JobId>> = flow.jobs.iter().map(|entry| entry.id.as_ref()).collect();
    let named = named?;
    let jobs: Option<Vec<_>> = flow
        .jobs
        .iter()
        .map(|entry| flow_job(flow, entry, &named))
        .collect();
    Some(ask("PUSHF").maps("jobs", &jobs?).then(|fields| {
        let added = fields
            .inner("data")?
            .maps("jobs", |fields| job::view(fields, None));
        added.map(Reply::FlowAdded)
    }))
}

fn flow_job(flow: &AddFlow, entry: &FlowEntry, ids: &[&JobId]) -> Option<Ask> {
    let id = |place: &usize| ids.get(*place).map(|id| (*id).clone());
    let named = |places: &[usize]| places.iter().map(id).collect::<Option<Vec<_>>>();
    let parent = match &entry.parent {
        Some(place) => Some(Parent {
            id: id(place)?,
            queue: flow.jobs.get(*place)?.queue.shared(),
        }),
        None => None,
    };
    let links = JobLinks {
        parent,
        depends_on: named(&entry.depends_on)?,
        children: named(&entry.children)?,
    };
    let tied = if flow.annotate {
        annotate(&links, entry.job.data.as_ref())
    } else {
        None
    };
    let job = NewJob {
        data: tied.or_else(|| entry.job.data.clone()),
        links: Some(Box::new(links)),
        ..entry.job.clone()
    };
    let input = job::input(map(), &job, "customId");
    Some(
        map()
            .id("id", entry.id.as_ref()?)
            .queue(&entry.queue)
            .map("input", &input),
    )
}

fn values(fields: &Fields<'_>) -> Option<Reply> {
    let pairs = fields.inner("data")?.pairs("values")?;
    let value = |(child, value): (&str, &[u8])| {
        let (queue, id) = child_name(child);
        (queue.into(), id, Payload::new(value))
    };
    Some(Reply::ChildrenValues(
        pairs.into_iter().map(value).collect(),
    ))
}

/// Queue and id of a child, which the protocol writes as one. Ids in flows have no colon, queues may.
fn child_name(name: &str) -> (&str, JobId) {
    let (queue, id) = name.rsplit_once(':').unwrap_or(("", name));
    (queue, JobId::from_text(id))
}
