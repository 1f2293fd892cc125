//! Whole queues (tcp protocol section 14).

use super::Exchange;
use super::ask::ask;
use super::read::bucket;
use crate::command::{Clean, Command, Removed, Reply};
use crate::engine::CleanState;

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    Some(match command {
        Command::ListQueues(_) => {
            ask("ListQueues").then(|fields| Some(Reply::Names(fields.shared_list("queues"))))
        }
        Command::Pause(pause) => ask("Pause").queue(&pause.queue).done(),
        Command::Resume(resume) => ask("Resume").queue(&resume.queue).done(),
        Command::IsPaused(get) => ask("IsPaused")
            .queue(&get.queue)
            .then(|fields| fields.flag("paused").map(Reply::Flag)),
        Command::Drain(drain) => ask("Drain").queue(&drain.queue).then(|fields| {
            Some(Reply::Removed(Removed {
                count: fields.size("count")?,
                ids: Vec::new(),
            }))
        }),
        Command::Clean(clean) => clean_jobs(clean),
        // How many jobs there were is not told.
        Command::Obliterate(obliterate) => ask("Obliterate")
            .queue(&obliterate.queue)
            .then(|_| Some(Reply::Removed(Removed::default()))),
        _ => return None,
    })
}

fn clean_jobs(clean: &Clean) -> Exchange {
    let state = match &clean.state {
        CleanState::Queued => None,
        CleanState::Bucket(of) => Some(bucket(of)),
    };
    ask("Clean")
        .queue(&clean.queue)
        .number("grace", clean.grace)
        .text_if("state", state)
        .count("limit", clean.limit)
        .then(|fields| {
            let ids = fields.id_list("ids");
            Some(Reply::Removed(Removed {
                count: fields.size("count")?,
                ids,
            }))
        })
}
