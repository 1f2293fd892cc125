//! Changes to one job (tcp protocol sections 11, 12 and 17).

use super::answer::{counted, data_counted, data_flag};
use super::ask::ask;
use super::{Exchange, Refused};
use crate::command::{Command, Reply};
use crate::engine::{Change, JobId, Payload};
use crate::wire::fields::Fields;

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    let of = |name, id: &JobId| ask(name).id("id", id);
    let (request, id) = match command {
        Command::Cancel(job) => (of("Cancel", &job.id), &job.id),
        Command::Discard(job) => (of("Discard", &job.id).token(job.token), &job.id),
        Command::UpdateData(update) => {
            let data = update.data.as_ref().map(Payload::bytes);
            (of("Update", &update.id).raw("data", data), &update.id)
        }
        Command::ChangePriority(change) => {
            let request = of("ChangePriority", &change.id)
                .number("priority", change.priority)
                .bool_if("lifo", change.lifo);
            (request, &change.id)
        }
        Command::ChangeDelay(change) => {
            let request = of("ChangeDelay", &change.id)
                .number("delay", change.delay)
                .token(change.token);
            (request, &change.id)
        }
        Command::Promote(job) => (of("Promote", &job.id), &job.id),
        Command::MoveToWait(job) => (of("MoveToWait", &job.id).token(job.token), &job.id),
        Command::MoveToWaitingChildren(job) => {
            let request = of("MoveToWaitingChildren", &job.id).token(job.token);
            (request, &job.id)
        }
        Command::AddLog(line) => {
            let request = of("AddLog", &line.id)
                .text("message", &line.message)
                .text("level", &line.level);
            (request, &line.id)
        }
        command => return of_keys(command),
    };
    Some(request.then(applied).or(Refused::Unchanged(id.clone())))
}

/// What does not answer with the fate of one change.
fn of_keys(command: &Command) -> Option<Exchange> {
    Some(match command {
        Command::ClearLogs(clear) => ask("ClearLogs")
            .id("id", &clear.id)
            .count("keepLogs", clear.keep)
            .done(),
        Command::PromoteMany(promote) => ask("PromoteJobs")
            .queue(&promote.queue)
            .count_if("count", promote.count)
            .then(counted),
        Command::RemoveDedupKey(remove) => ask("RemoveDeduplicationKey")
            .queue(&remove.queue)
            .text("deduplicationId", &remove.key)
            .then(data_counted),
        Command::RemoveJobDedupKey(remove) => ask("RemoveJobDeduplicationKey")
            .id("id", &remove.id)
            .then(data_flag("removed")),
        Command::GetDedupOwner(get) => ask("GetDeduplicationJobId")
            .queue(&get.queue)
            .text("deduplicationId", &get.key)
            .then(|fields| Some(Reply::Id(fields.inner("data")?.job_id("jobId")))),
        _ => return None,
    })
}

pub(super) fn applied(_: &Fields<'_>) -> Option<Reply> {
    Some(Reply::Changed(Change::Applied))
}
