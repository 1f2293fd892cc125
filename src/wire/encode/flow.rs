//! Flows and ties between jobs (tcp protocol section 18).

use super::{Entries, Success, Tried, job};
use crate::command::{ChildValue, Reply};
use crate::engine::{ChildFailure, JobId, JobView};
use crate::wire::shape::Flow;

pub(super) fn write<'a>(success: Success<'a>, shape: Flow, reply: &Reply) -> Tried<'a> {
    match (shape, reply) {
        (Flow::Push { outcome }, Reply::FlowAdded(added)) => push(success, added, outcome),
        (Flow::ChildrenValues, Reply::ChildrenValues(found)) => values(success, found),
        (Flow::FailedChildren, Reply::ChildFailures(found)) => failures(success, found, false),
        (Flow::IgnoredChildren, Reply::ChildFailures(found)) => failures(success, found, true),
        (Flow::ChildRemoved, Reply::Flag(removed)) => success.with(1).bool("removed", *removed),
        _ => return Tried::NotMine(success),
    }
    Tried::Written(Ok(()))
}

fn push(success: Success<'_>, added: &[JobView], outcome: bool) {
    let mut map = success.with(1 + usize::from(outcome));
    map.nested("data", 1);
    map.items("jobs", added, |map, added| job::write(map.out(), added));
    if outcome {
        // Whatever is there already refuses the whole flow.
        map.texts("outcomes", &vec!["new"; added.len()]);
    }
}

fn values(success: Success<'_>, found: &[ChildValue]) {
    let mut data = success.data(1);
    data.nested("values", found.len());
    for (queue, id, value) in found {
        if data.is_beyond_a_frame() {
            return;
        }
        child(&mut data, queue, id, |data, key| {
            data.raw(key, value.bytes());
        });
    }
}

fn failures(success: Success<'_>, found: &[ChildFailure], ignored: bool) {
    let wanted = || found.iter().filter(|failure| failure.ignored == ignored);
    let mut map = success.with(1);
    map.nested("values", wanted().count());
    for failure in wanted() {
        if map.is_beyond_a_frame() {
            return;
        }
        child(&mut map, &failure.queue, &failure.id, |map, key| {
            map.text(key, &failure.error);
        });
    }
}

/// Writes an entry under the name that the protocol has for a child.
fn child(
    map: &mut Entries<'_>,
    queue: &str,
    id: &JobId,
    write: impl FnOnce(&mut Entries<'_>, &str),
) {
    id.with_text(|id| write(map, &format!("{queue}:{id}")));
}
