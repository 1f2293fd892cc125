//! Schedules (tcp protocol section 19). Their values are checked by [`CronDraft::check`]; here they are only collected.

use super::push::{Named, backoff, named};
use super::{Decoded, Decoder, ask};
use crate::command::draft::BackoffDraft;
use crate::command::schedule::{CronDraft, CronJobDraft};
use crate::command::{ArgumentError, DeleteCron, GetCron, ListCrons, UpsertCron};
use crate::wire::fields::Fields;
use crate::wire::shape::{Cron, Shape};

pub(super) fn by_name(decoder: &mut Decoder, name: &[u8], fields: &Fields<'_>) -> Option<Decoded> {
    Some(match name {
        b"Cron" => upsert(decoder, fields),
        b"CronGet" => get(fields),
        b"CronList" => ask(ListCrons { page: None }, Shape::Cron(Cron::List)),
        b"CronDelete" => delete(fields),
        _ => return None,
    })
}

fn upsert(decoder: &mut Decoder, fields: &Fields<'_>) -> Decoded {
    let queue = decoder.queue(fields)?;
    // Only an edited map lives here; untouched data stays where it came.
    let without_name;
    let (job_name, data) = match named(fields, "jobName") {
        Named::Apart { name, data } => (name, data),
        Named::InData { name, data } => {
            without_name = data;
            (Some(name), without_name.as_deref())
        }
    };
    let mut draft = CronDraft {
        name: cron_name(fields)?,
        schedule: fields.text("schedule")?,
        repeat_every: fields.number("repeatEvery"),
        timezone: fields.text("timezone")?,
        max_limit: fields.number_or_text("maxLimit"),
        immediately: fields.truthy("immediately"),
        skip_missed_on_restart: fields.switch("skipMissedOnRestart"),
        skip_if_no_worker: fields.truthy("skipIfNoWorker"),
        prevent_overlap: fields.switch("preventOverlap"),
        job_name,
        data,
        priority: fields.number_or_text("priority"),
        unique_key: fields.text("uniqueKey")?,
        ..CronDraft::default()
    };
    if let Some(dedup) = fields.raw("dedup").and_then(Fields::of) {
        draft.dedup_ttl = dedup.number_or_text("ttl");
        draft.dedup_extend = dedup.truthy("extend");
        draft.dedup_replace = dedup.truthy("replace");
    }
    if let Some(options) = fields.object("jobOptions")? {
        draft.job = job_options(&options);
    }
    let cron = draft.check(&queue)?;
    ask(UpsertCron { cron }, Shape::Cron(Cron::One))
}

fn job_options(fields: &Fields<'_>) -> CronJobDraft {
    CronJobDraft {
        max_attempts: fields.number_or_text("maxAttempts"),
        backoff: fields.raw("backoff").map_or(BackoffDraft::Absent, backoff),
        timeout: fields.number_or_text("timeout"),
        delay: fields.number_or_text("delay"),
        stall_timeout: fields.number_or_text("stallTimeout"),
        remove_on_complete: fields.truthy("removeOnComplete"),
        remove_on_fail: fields.truthy("removeOnFail"),
    }
}

fn get(fields: &Fields<'_>) -> Decoded {
    let name = cron_name(fields)?.into();
    ask(GetCron { name }, Shape::Cron(Cron::One))
}

fn delete(fields: &Fields<'_>) -> Decoded {
    let name = cron_name(fields)?.into();
    ask(DeleteCron { name }, Shape::Cron(Cron::Deleted))
}

/// One that is not sent is empty, and no cron has that name.
fn cron_name<'a>(fields: &Fields<'a>) -> Result<&'a str, ArgumentError> {
    Ok(fields.text("name")?.unwrap_or_default())
}
