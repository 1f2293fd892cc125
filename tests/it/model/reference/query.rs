//! What can be read (section 15). All states and counts are those of the moment.

use std::sync::Arc;

use bunqueue_mcp::command::{Command, Reply};
use bunqueue_mcp::engine::{Bucket, Counts, JobDetail, JobId, JobLinks, JobView, Listing, State};

use super::{Place, Reference};

impl Reference {
    pub(super) fn query(&self, command: &Command) -> Reply {
        let live = |key: &&super::Key| {
            key.expires_at
                .is_none_or(|expires_at| expires_at > self.now)
        };
        if let Some(reply) = self.query_group(command) {
            return reply;
        }
        match command {
            Command::GetLogs(get) => Reply::Logs(
                self.job(&get.id)
                    .map(|job| job.logs.clone())
                    .unwrap_or_default(),
            ),
            Command::GetJob(get) => {
                Reply::Job(self.find(&get.id).map(|at| Box::new(self.detail(at))))
            }
            Command::GetJobByCustomId(get) => {
                let at = self.find(&get.id).filter(|at| {
                    let job = &self.jobs[*at];
                    job.view.has_custom_id && matches!(job.place, Place::Queued | Place::Active(_))
                });
                Reply::Job(at.map(|at| Box::new(self.detail(at))))
            }
            Command::GetState(get) => Reply::State(self.state(&get.id)),
            Command::GetResult(get) => {
                Reply::Result(self.job(&get.id).and_then(|job| job.result.clone()))
            }
            Command::GetJobs(get) => Reply::Jobs(self.list(&get.listing)),
            Command::GetCounts(get) => Reply::Counts(self.counts(get.queue.as_str())),
            Command::GetCountsPerPriority(get) => {
                Reply::PriorityCounts(self.per_priority(get.queue.as_str()))
            }
            Command::ListQueues(_) => Reply::Names(
                self.queues
                    .iter()
                    .map(|queue| Arc::clone(&queue.name))
                    .collect(),
            ),
            Command::IsPaused(get) => Reply::Flag(self.paused(get.queue.as_str())),
            Command::GetDedupOwner(get) => {
                let mut keys = self.keys.iter().filter(live);
                let key = keys.find(|key| key.queue == get.queue.shared() && key.key == get.key);
                Reply::Id(key.map(|key| key.owner.clone()))
            }
            other => panic!("the reference does not know {other:?}"),
        }
    }

    pub(super) fn show(&self, at: usize) -> JobView {
        let links = self.jobs[at].ties.view();
        JobView {
            state: self.state_at(at),
            links: (links != JobLinks::default()).then(|| Box::new(links)),
            ..self.jobs[at].view.clone()
        }
    }

    pub(super) fn detail(&self, at: usize) -> JobDetail {
        let failure = match &self.jobs[at].place {
            Place::Failed(failure) => Some(failure.clone()),
            _ => None,
        };
        JobDetail {
            job: self.show(at),
            result: self.jobs[at].result.clone(),
            failure,
        }
    }

    fn list(&self, listing: &Listing) -> Vec<JobDetail> {
        let paused = self.paused(&listing.queue);
        let matches = |state: State, bucket: &Bucket| match bucket {
            Bucket::Paused => paused && matches!(state, State::Waiting | State::Prioritized),
            Bucket::State(State::Waiting | State::Prioritized) if paused => false,
            Bucket::State(wanted) => *wanted == state,
        };
        let mut found: Vec<JobDetail> = (0..self.jobs.len())
            .map(|at| self.detail(at))
            .filter(|detail| detail.job.queue == listing.queue)
            .filter(|detail| {
                let state = detail.job.state;
                listing.buckets.is_empty()
                    || listing.buckets.iter().any(|bucket| matches(state, bucket))
            })
            .collect();
        found.sort_by_key(|detail| (detail.job.created_at, detail.job.id.clone()));
        if !listing.ascending {
            found.reverse();
        }
        let behind = |detail: &JobDetail| {
            let place = (detail.job.created_at, detail.job.id.clone());
            listing.after.as_ref().is_none_or(|after| {
                if listing.ascending {
                    place > *after
                } else {
                    place < *after
                }
            })
        };
        found
            .into_iter()
            .filter(behind)
            .skip(listing.offset)
            .take(listing.limit)
            .collect()
    }

    pub fn counts(&self, queue: &str) -> Counts {
        let mut counts = Counts::default();
        for at in (0..self.jobs.len()).filter(|at| &*self.jobs[*at].view.queue == queue) {
            let count = match self.state_at(at) {
                State::Waiting | State::Prioritized if self.paused(queue) => &mut counts.paused,
                State::Waiting => &mut counts.waiting,
                State::Prioritized => &mut counts.prioritized,
                State::Delayed => &mut counts.delayed,
                State::Active => &mut counts.active,
                State::Completed => &mut counts.completed,
                State::Failed => &mut counts.failed,
                State::WaitingChildren => &mut counts.waiting_children,
            };
            *count += 1;
        }
        counts
    }

    pub(super) fn per_priority(&self, queue: &str) -> Vec<(f64, usize)> {
        let queued = self
            .jobs
            .iter()
            .filter(|job| &*job.view.queue == queue && matches!(job.place, Place::Queued))
            .filter(|job| !job.ties.waiting);
        let mut counts: Vec<(f64, usize)> = Vec::new();
        for priority in queued.map(|job| job.view.priority) {
            match counts.iter_mut().find(|(known, _)| *known == priority) {
                Some((_, count)) => *count += 1,
                None => counts.push((priority, 1)),
            }
        }
        counts.sort_by(|one, two| two.0.total_cmp(&one.0));
        counts
    }

    /// Keys with their queues, for dumps.
    pub fn key_names(&self) -> Vec<(Arc<str>, Arc<str>)> {
        self.keys
            .iter()
            .map(|key| (Arc::clone(&key.queue), Arc::clone(&key.key)))
            .collect()
    }

    /// The invariants of the model itself: every key belongs to one unfinished job of its queue.
    pub fn check(&self) -> Result<(), String> {
        for key in &self.keys {
            let owner = self
                .job(&key.owner)
                .ok_or_else(|| format!("{} owns {} but is gone", key.owner, key.key))?;
            if owner.view.queue != key.queue
                || !matches!(owner.place, Place::Queued | Place::Active(_))
            {
                return Err(format!(
                    "{} owns {} but is elsewhere or finished",
                    key.owner, key.key
                ));
            }
        }
        let ids: std::collections::HashSet<&JobId> =
            self.jobs.iter().map(|job| &job.view.id).collect();
        if ids.len() == self.jobs.len() {
            Ok(())
        } else {
            Err("an id stands for two jobs".to_owned())
        }
    }
}
