//! Limits of queues and groups (tcp protocol section 16).

use super::Exchange;
use super::answer::{data_counted, data_flag};
use super::ask::ask;
use crate::command::{Command, GroupId, QueueName, Reply, SetRateLimit};
use crate::engine::{QueueLimits, RateLimit};
use crate::wire::fields::Fields;

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    Some(match command {
        Command::SetRateLimit(set) => set_rate(set),
        Command::ClearRateLimit(clear) => ask("RateLimitClear").queue(&clear.queue).done(),
        Command::SetConcurrency(set) => ask("SetConcurrency")
            .queue(&set.queue)
            .number("limit", set.limit as f64)
            .done(),
        Command::ClearConcurrency(clear) => ask("ClearConcurrency").queue(&clear.queue).done(),
        command => return of_group(command),
    })
}

/// The limits of a queue as far as they are told: not how many jobs are active, nor whether it is paused.
pub fn limits(queue: &QueueName, jobs: Option<u64>) -> Exchange {
    ask("GetQueueLimits")
        .queue(queue)
        .number_if("maxJobs", jobs.map(|jobs| jobs as f64))
        .then(|fields| {
            let limits = fields.inner("data")?.inner("limits")?;
            Some(Reply::Limits(QueueLimits {
                rate: limits.inner("rateLimit").as_ref().and_then(rate),
                rate_ttl: limits.millis("rateLimitTtl")?,
                concurrency: limits.u64("concurrencyLimit"),
                active: 0,
                maxed: limits.flag("maxed")?,
                paused: false,
            }))
        })
}

fn set_rate(set: &SetRateLimit) -> Exchange {
    ask("RateLimit")
        .queue(&set.queue)
        .number("limit", set.limit.max as f64)
        .time("duration", set.limit.duration)
        .time_if("ttl", set.ttl)
        .done()
}

fn rate(fields: &Fields<'_>) -> Option<RateLimit> {
    Some(RateLimit {
        max: fields.u64("max")?,
        duration: fields.millis("duration")?,
    })
}

fn of_group(command: &Command) -> Option<Exchange> {
    let of = |name, queue: &QueueName, group: &GroupId| ask(name).group(queue, group);
    let removed = |fields: &Fields<'_>| fields.inner("data")?.size("removed").map(Reply::Counted);
    Some(match command {
        Command::GetGroupsJobsCount(get) => ask("GetGroupsJobsCount")
            .queue(&get.queue)
            .then(data_counted),
        Command::GetGroupJobsCount(get) => {
            of("GetGroupJobsCount", &get.queue, &get.group).then(data_counted)
        }
        Command::GetGroupActiveCount(get) => {
            of("GetGroupActiveCount", &get.queue, &get.group).then(data_counted)
        }
        Command::SetGroupRateLimit(set) => of("SetGroupRateLimit", &set.queue, &set.group)
            .number("max", set.limit.max as f64)
            .time("duration", set.limit.duration)
            .done(),
        Command::GetGroupRateLimit(get) => {
            of("GetGroupRateLimit", &get.queue, &get.group).then(|fields| {
                Some(Reply::Rate(
                    fields.inner("data")?.inner("limit").as_ref().and_then(rate),
                ))
            })
        }
        Command::RemoveGroupRateLimit(remove) => {
            of("RemoveGroupRateLimit", &remove.queue, &remove.group).then(removed)
        }
        Command::GetGroupRateLimitTtl(get) => of("GetGroupRateLimitTtl", &get.queue, &get.group)
            .number_if("maxJobs", get.jobs.map(|jobs| jobs as f64))
            .then(|fields| fields.inner("data")?.millis("ttl").map(Reply::Span)),
        Command::SetGroupConcurrency(set) => of("SetGroupConcurrency", &set.queue, &set.group)
            .number("concurrency", set.limit as f64)
            .done(),
        Command::GetGroupConcurrency(get) => of("GetGroupConcurrency", &get.queue, &get.group)
            .then(|fields| Some(Reply::Concurrency(fields.inner("data")?.u64("concurrency")))),
        Command::RemoveGroupConcurrency(remove) => {
            of("RemoveGroupConcurrency", &remove.queue, &remove.group).then(removed)
        }
        Command::PauseGroup(pause) => {
            of("PauseGroup", &pause.queue, &pause.group).then(data_flag("changed"))
        }
        Command::ResumeGroup(resume) => {
            of("ResumeGroup", &resume.queue, &resume.group).then(data_flag("changed"))
        }
        Command::IsGroupPaused(get) => {
            of("IsGroupPaused", &get.queue, &get.group).then(data_flag("paused"))
        }
        Command::ThrottleGroup(throttle) => of("RateLimitGroup", &throttle.queue, &throttle.group)
            .time("duration", throttle.duration)
            .done(),
        _ => return None,
    })
}
