//! Groups of jobs (tcp protocol section 16.2). Each command looks at the name of its queue first, then at the group, then
//! at its numbers.

use super::{Decoded, Decoder, ask};
use crate::command::limits;
use crate::command::{
    ArgumentError, Command, CommandError, GetGroupActiveCount, GetGroupConcurrency,
    GetGroupJobsCount, GetGroupRateLimit, GetGroupRateLimitTtl, GetGroupsJobsCount, GroupId,
    IsGroupPaused, PauseGroup, QueueName, RemoveGroupConcurrency, RemoveGroupRateLimit,
    ResumeGroup, SetGroupConcurrency, SetGroupRateLimit, ThrottleGroup,
};
use crate::wire::fields::Fields;
use crate::wire::shape::{Group, Shape};

pub(super) fn by_name(decoder: &mut Decoder, name: &[u8], fields: &Fields<'_>) -> Option<Decoded> {
    let mut asker = Asker { decoder, fields };
    Some(match name {
        b"GetGroupsJobsCount" => asker.count_of_all(),
        b"GetGroupJobsCount" => asker.ask(Group::Count, |queue, group| {
            Ok(GetGroupJobsCount { queue, group })
        }),
        b"GetGroupActiveCount" => asker.ask(Group::Count, |queue, group| {
            Ok(GetGroupActiveCount { queue, group })
        }),
        b"SetGroupRateLimit" => asker.set(|queue, group| {
            let (max, duration) = (fields.number("max"), fields.number("duration"));
            let limit = limits::group_rate(max, duration)?;
            Ok(SetGroupRateLimit {
                queue,
                group,
                limit,
            })
        }),
        b"GetGroupRateLimit" => asker.ask(Group::RateLimit, |queue, group| {
            Ok(GetGroupRateLimit { queue, group })
        }),
        b"RemoveGroupRateLimit" => asker.ask(Group::Removed, |queue, group| {
            Ok(RemoveGroupRateLimit { queue, group })
        }),
        b"GetGroupRateLimitTtl" => asker.ask(Group::RateLimitTtl, |queue, group| {
            let jobs = fields.number("maxJobs").count("maxJobs")?;
            Ok(GetGroupRateLimitTtl {
                queue,
                group,
                jobs: jobs.map(|jobs| jobs as u64),
            })
        }),
        b"SetGroupConcurrency" => asker.set(|queue, group| {
            let limit = limits::group_concurrency(fields.number("concurrency"))?;
            Ok(SetGroupConcurrency {
                queue,
                group,
                limit,
            })
        }),
        b"GetGroupConcurrency" => asker.ask(Group::Concurrency, |queue, group| {
            Ok(GetGroupConcurrency { queue, group })
        }),
        b"RemoveGroupConcurrency" => asker.ask(Group::Removed, |queue, group| {
            Ok(RemoveGroupConcurrency { queue, group })
        }),
        b"PauseGroup" => asker.ask(Group::Changed, |queue, group| {
            Ok(PauseGroup { queue, group })
        }),
        b"ResumeGroup" => asker.ask(Group::Changed, |queue, group| {
            Ok(ResumeGroup { queue, group })
        }),
        b"IsGroupPaused" => asker.ask(Group::Paused, |queue, group| {
            Ok(IsGroupPaused { queue, group })
        }),
        b"RateLimitGroup" => asker.set(|queue, group| {
            let duration = limits::throttle(fields.number("duration"))?;
            Ok(ThrottleGroup {
                queue,
                group,
                duration,
            })
        }),
        _ => return None,
    })
}

struct Asker<'d, 'f> {
    decoder: &'d mut Decoder,
    fields: &'f Fields<'f>,
}

impl Asker<'_, '_> {
    fn count_of_all(&mut self) -> Decoded {
        let queue = self.decoder.queue(self.fields)?;
        ask(GetGroupsJobsCount { queue }, Shape::Group(Group::Count))
    }

    fn ask<C: Into<Command>>(
        &mut self,
        shape: Group,
        command: impl FnOnce(QueueName, GroupId) -> Result<C, ArgumentError>,
    ) -> Decoded {
        ask(self.of_group(command)?, Shape::Group(shape))
    }

    fn set<C: Into<Command>>(
        &mut self,
        command: impl FnOnce(QueueName, GroupId) -> Result<C, ArgumentError>,
    ) -> Decoded {
        ask(self.of_group(command)?, Shape::Done)
    }

    fn of_group<C>(
        &mut self,
        command: impl FnOnce(QueueName, GroupId) -> Result<C, ArgumentError>,
    ) -> Result<C, CommandError> {
        let queue = self.decoder.queue(self.fields)?;
        let group = GroupId::required(self.fields.text_value("groupId"))?;
        Ok(command(queue, group)?)
    }
}
