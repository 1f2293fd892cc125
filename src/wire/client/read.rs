//! Questions about jobs (tcp protocol sections 12 and 13).

use super::answer::{counted, number};
use super::ask::ask;
use super::{Exchange, Refused, job};
use crate::command::{Command, GetJobs, Reply, WaitJob};
use crate::engine::{Bucket, Counts, LogLine, Millis, Payload, State, WaitFor, Waited};
use crate::wire::fields::Fields;

pub(super) fn exchange(command: &Command) -> Option<Exchange> {
    Some(match command {
        Command::GetJob(get) => ask("GetJob")
            .id("id", &get.id)
            .then(found)
            .or(Refused::Absent(Reply::Job(None))),
        Command::GetJobByCustomId(get) => ask("GetJobByCustomId")
            .id("customId", &get.id)
            .then(found)
            .or(Refused::Absent(Reply::Job(None))),
        Command::GetState(get) => ask("GetState")
            .id("id", &get.id)
            .then(|fields| Some(Reply::State(State::from_name(fields.str("state")?)))),
        Command::GetResult(get) => ask("GetResult")
            .id("id", &get.id)
            .then(|fields| Some(Reply::Result(fields.raw("result").map(Payload::new)))),
        Command::WaitJob(wait) if wait.until == WaitFor::Completed => wait_job(wait),
        Command::GetLogs(get) => ask("GetLogs").id("id", &get.id).then(logs),
        Command::GetJobs(get) if get.listing.after.is_none() => jobs(get),
        Command::GetCount(get) => ask("Count").queue(&get.queue).then(counted),
        Command::GetCounts(get) => ask("GetJobCounts")
            .queue(&get.queue)
            .then(|fields| Some(Reply::Counts(counts(&fields.inner("counts")?)))),
        Command::GetCountsPerPriority(get) => {
            ask("GetCountsPerPriority")
                .queue(&get.queue)
                .then(|fields| {
                    let mut counts = fields
                        .pairs("counts")?
                        .into_iter()
                        .map(|(priority, jobs)| {
                            Some((priority.parse().ok()?, number(jobs)? as usize))
                        })
                        .collect::<Option<Vec<(f64, usize)>>>()?;
                    counts.sort_by(|one, two| two.0.total_cmp(&one.0));
                    Some(Reply::PriorityCounts(counts))
                })
        }
        _ => return None,
    })
}

fn found(fields: &Fields<'_>) -> Option<Reply> {
    let found = job::detail(&fields.inner("job")?)?;
    Some(Reply::Job(Some(Box::new(found))))
}

fn wait_job(wait: &WaitJob) -> Exchange {
    ask("WaitJob")
        .id("id", &wait.id)
        .time("timeout", wait.timeout)
        .then(|fields| {
            Some(Reply::Waited(if fields.flag("completed")? {
                Waited::Completed {
                    result: fields.raw("result").map(Payload::new),
                }
            } else {
                Waited::TimedOut
            }))
        })
        .or(Refused::Absent(Reply::Waited(Waited::NotFound)))
}

/// A list of states even where there is one: the jobs then show their own.
fn jobs(get: &GetJobs) -> Exchange {
    let listing = &get.listing;
    let states: Vec<_> = listing.buckets.iter().map(bucket).collect();
    ask("GetJobs")
        .text("queue", &listing.queue)
        .texts_if("state", &states)
        .count("offset", listing.offset)
        .count("limit", listing.limit)
        .bool("asc", listing.ascending)
        .then(|fields| Some(Reply::Jobs(fields.maps("jobs", job::detail)?)))
}

/// Its name.
pub(super) const fn bucket(bucket: &Bucket) -> &'static str {
    match bucket {
        Bucket::State(state) => state.name(),
        Bucket::Paused => "paused",
    }
}

pub(super) fn counts(fields: &Fields<'_>) -> Counts {
    let count = |name| fields.size(name).unwrap_or(0);
    Counts {
        waiting: count("waiting"),
        prioritized: count("prioritized"),
        delayed: count("delayed"),
        active: count("active"),
        completed: count("completed"),
        failed: count("failed"),
        waiting_children: count("waiting-children"),
        paused: count("paused"),
    }
}

/// Lines have no numbers on the wire; those of one job get some that grow with time, and stay with their lines while
/// others come and go.
fn logs(fields: &Fields<'_>) -> Option<Reply> {
    let data = fields.inner("data")?;
    let mut lines = data.maps("logs", |line| {
        Some(LogLine {
            seq: 0,
            at: line.millis("timestamp")?,
            level: line.shared("level").unwrap_or_else(|| "info".into()),
            message: line.shared("message").unwrap_or_default(),
        })
    })?;
    let mut numbers = Numbers::default();
    for line in &mut lines {
        line.seq = numbers.next(line.at);
    }
    Some(Reply::Logs(lines))
}

/// Things of one moment that are told apart by their number.
pub(super) const PER_MILLI: u64 = 1_024;

/// Numbers that follow the order of time: the moment, then the place in it.
#[derive(Default)]
pub(super) struct Numbers {
    at: Millis,
    place: u64,
}

impl Numbers {
    pub(super) fn next(&mut self, at: Millis) -> u64 {
        if at == self.at {
            self.place += 1;
        } else {
            (self.at, self.place) = (at, 0);
        }
        at.max(0).unsigned_abs() * PER_MILLI + self.place.min(PER_MILLI - 1)
    }
}
