//! Schedules (tcp protocol section 19).

use std::sync::Arc;

use super::answer::yes;
use super::ask::{ask, map};
use super::{Exchange, Refused, job};
use crate::command::{Command, Reply};
use crate::engine::{
    Cron, CronDefinition, CronFigures, JobOptions, NewCron, NewJob, Payload, Schedule,
};
use crate::wire::fields::Fields;

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    Some(match command {
        Command::UpsertCron(upsert) => add(&upsert.cron),
        Command::GetCron(get) => ask("CronGet")
            .text("name", &get.name)
            .then(|fields| {
                let cron = read(&fields.inner("cron")?)?;
                Some(Reply::CronFound(Some(Box::new(cron))))
            })
            .or(Refused::Absent(Reply::CronFound(None))),
        Command::ListCrons(list) if list.page.is_none() => {
            ask("CronList").then(|fields| fields.maps("crons", read).map(Reply::Crons))
        }
        Command::DeleteCron(delete) => ask("CronDelete")
            .text("name", &delete.name)
            .then(yes)
            .or(Refused::Absent(Reply::Flag(false))),
        _ => return None,
    })
}

fn add(cron: &NewCron) -> Exchange {
    let definition = &cron.definition;
    let template = &definition.template;
    let options = job::run_options(map(), template, &NewJob::default());
    let options = Some(&options).filter(|options| !options.is_empty());
    let none = JobOptions::default();
    let request = ask("Cron")
        .text("name", &definition.name)
        .text("queue", &definition.queue)
        .text("jobName", &template.name)
        .raw("data", template.data.as_ref().map(Payload::bytes))
        .text_if(
            "schedule",
            definition.schedule.as_ref().map(|is| &**is.text()),
        )
        .time_if("repeatEvery", definition.repeat_every)
        .text_if("timezone", definition.timezone.as_deref())
        .number_if("priority", Some(template.priority).filter(|is| *is != 0.0))
        .number_if("maxLimit", definition.max_limit.map(|most| most as f64))
        .flag("immediately", cron.immediately)
        .bool("skipMissedOnRestart", definition.skip_missed_on_restart)
        .flag("skipIfNoWorker", definition.skip_if_no_worker);
    // Saying true is more than the default.
    let overlap = match (definition.prevent_overlap, cron.replace_queued) {
        (true, false) => None,
        (prevents, _) => Some(prevents),
    };
    job::dedup(request, template.options.as_deref().unwrap_or(&none))
        .bool_if("preventOverlap", overlap)
        .map_if("jobOptions", options)
        .then(|fields| Some(Reply::Cron(Box::new(read(&fields.inner("cron")?)?))))
}

/// A cron as far as it is told: not what its jobs carry.
fn read(fields: &Fields<'_>) -> Option<Cron> {
    let timezone = fields.shared("timezone");
    let schedule = match fields.str("schedule") {
        Some(text) => Some(Arc::new(Schedule::read(text, timezone.as_deref()).ok()?)),
        None => None,
    };
    Some(Cron {
        definition: Arc::new(CronDefinition {
            name: fields.shared("name")?,
            queue: fields.shared("queue")?,
            schedule,
            repeat_every: fields.millis("repeatEvery"),
            timezone,
            max_limit: fields.u64("maxLimit"),
            prevent_overlap: true,
            skip_missed_on_restart: true,
            skip_if_no_worker: false,
            template: NewJob {
                name: fields.shared("jobName").unwrap_or_else(|| "default".into()),
                priority: fields.f64("priority").unwrap_or(0.0),
                ..NewJob::default()
            },
        }),
        figures: CronFigures {
            next_run: fields.millis("nextRun"),
            executions: fields.u64("executions").unwrap_or(0),
            ..CronFigures::default()
        },
    })
}
