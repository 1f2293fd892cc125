//! Adding jobs (tcp protocol section 8). How they came to be is always asked; a server that does not know the question
//! leaves it open.

use super::Exchange;
use super::ask::{ask, map};
use super::job::input;
use crate::command::{Add, AddMany, Command, Reply};
use crate::engine::{AddOutcome, Added, JobId};
use crate::wire::fields::{Fields, List, text};

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    Some(match command {
        Command::Add(add) => one(add),
        Command::AddMany(add) => many(add),
        _ => return None,
    })
}

fn one(add: &Add) -> Exchange {
    input(ask("PUSH").queue(&add.queue), &add.job, "jobId")
        .bool("outcome", true)
        .then(|fields| {
            Some(Reply::Added(Added {
                id: fields.job_id("id")?,
                outcome: outcome(fields.str("outcome"), fields.str("replaced")),
            }))
        })
}

fn many(add: &AddMany) -> Exchange {
    let jobs: Vec<_> = add
        .jobs
        .iter()
        .map(|job| input(map(), job, "customId"))
        .collect();
    let wanted = jobs.len();
    ask("PUSHB")
        .queue(&add.queue)
        .maps("jobs", &jobs)
        .bool("outcome", true)
        .then(move |fields| added_many(fields, wanted))
}

fn added_many(fields: &Fields<'_>, wanted: usize) -> Option<Reply> {
    let mut outcomes = fields.each("outcomes");
    let mut replaced = fields.each("replaced");
    fn next<'a>(list: &mut Option<List<'a>>) -> Option<&'a str> {
        list.as_mut()?.next().and_then(text)
    }
    let added: Vec<_> = fields
        .id_list("ids")
        .into_iter()
        .map(|id| Added {
            id,
            outcome: outcome(next(&mut outcomes), next(&mut replaced)),
        })
        .collect();
    // One id per job: with fewer nobody knew which is whose.
    (added.len() == wanted).then_some(Reply::AddedMany(added))
}

fn outcome(name: Option<&str>, replaced: Option<&str>) -> AddOutcome {
    match (name, replaced) {
        (Some("new"), _) => AddOutcome::New,
        (Some("existing"), _) => AddOutcome::Existing,
        (Some("replaced"), Some(old)) => AddOutcome::Replaced(JobId::from_text(old)),
        _ => AddOutcome::Unknown,
    }
}
