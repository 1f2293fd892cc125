//! Schedules (tcp protocol section 19).

use super::{Entries, Refusal, Success, Tried};
use crate::command::Reply;
use crate::engine;
use crate::wire::shape::Cron;

const NO_CRON: Refusal = Refusal::Borrowed("Cron job not found");

pub(super) fn write<'a>(success: Success<'a>, shape: Cron, reply: &Reply) -> Tried<'a> {
    match (shape, reply) {
        (Cron::One, Reply::Cron(cron) | Reply::CronFound(Some(cron))) => {
            let mut map = success.with(1);
            map.key("cron");
            entry(&mut map, cron);
        }
        (Cron::One, Reply::CronFound(None)) | (Cron::Deleted, Reply::Flag(false)) => {
            return Tried::Written(Err(NO_CRON));
        }
        (Cron::List, Reply::Crons(crons)) => {
            let mut map = success.with(1);
            map.items("crons", crons, entry);
        }
        (Cron::Deleted, Reply::Flag(true)) => success.nothing(),
        _ => return Tried::NotMine(success),
    }
    Tried::Written(Ok(()))
}

fn entry(map: &mut Entries<'_>, cron: &engine::Cron) {
    let definition = &cron.definition;
    map.header(BRIEF_KEYS + 4);
    brief_entries(map, cron);
    map.text("jobName", &definition.template.name);
    map.number_or_nil("maxLimit", definition.max_limit.map(|max| max as f64));
    map.text_or_nil("timezone", definition.timezone.as_deref());
    map.number("priority", definition.template.priority);
}

/// A cron as an overview shows it.
pub(super) fn brief(map: &mut Entries<'_>, cron: &engine::Cron) {
    map.header(BRIEF_KEYS);
    brief_entries(map, cron);
}

const BRIEF_KEYS: usize = 6;

fn brief_entries(map: &mut Entries<'_>, cron: &engine::Cron) {
    let definition = &cron.definition;
    let schedule = definition.schedule.as_ref();
    map.text("name", &definition.name);
    map.text("queue", &definition.queue);
    map.text_or_nil("schedule", schedule.map(|schedule| &**schedule.text()));
    map.time_or_nil("repeatEvery", definition.repeat_every);
    map.time_or_nil("nextRun", cron.figures.next_run);
    map.number("executions", cron.figures.executions as f64);
}
