//! Reading (engine contract, section 15). Each read first lets everything happen that is due, so it shows the state
//! of its own instant.

use std::sync::Arc;

use super::id::JobId;
use super::job::{JobDetail, Payload, State};
use super::outcome::{Bucket, Counts, Listing};
use super::queue::QueueKey;
use super::store::JobKey;
use super::{Engine, Millis, Turn};

impl Engine {
    /// A job with its result and failure.
    pub fn job(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Option<JobDetail> {
        self.tick(turn);
        let key = self.store.find(id)?;
        Some(self.detail(key))
    }

    /// An unfinished job by the id its client chose.
    pub fn job_by_custom_id(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Option<JobDetail> {
        self.tick(turn);
        let key = self.store.find(id)?;
        let job = self.store.job(key);
        if job.has_custom_id && job.state.is_live() {
            Some(self.detail(key))
        } else {
            None
        }
    }

    /// Where a job stands.
    pub fn state(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Option<State> {
        self.tick(turn);
        self.store.find(id).map(|key| self.store.job(key).state)
    }

    /// Whether a job exists that is not over.
    pub fn is_live(&self, id: &JobId) -> bool {
        self.store
            .find(id)
            .is_some_and(|key| self.store.job(key).state.is_live())
    }

    /// The result of a job.
    pub fn result(&mut self, turn: &mut Turn<'_>, id: &JobId) -> Option<Payload> {
        self.tick(turn);
        let key = self.store.find(id)?;
        self.read_result(key)
    }

    /// A page of jobs.
    ///
    /// The cost grows with the jobs in the named buckets, not with the page: they are not kept in creation order. The cold
    /// ones are, and cost as many as come before the end of the page.
    pub fn jobs(&mut self, turn: &mut Turn<'_>, listing: &Listing) -> Vec<JobDetail> {
        self.tick(turn);
        let Some(queue) = self.queues.find(&listing.queue) else {
            return Vec::new();
        };
        let mut keys = self.in_buckets(queue, &listing.buckets);
        keys.retain(|key| self.is_behind(*key, listing));
        let wanted = listing.offset.saturating_add(listing.limit);
        let completed = Bucket::State(State::Completed);
        if listing.buckets.is_empty() || listing.buckets.contains(&completed) {
            keys.extend(self.first_cold(queue, listing, wanted));
        }
        self.keep_first_created(&mut keys, wanted, listing.ascending);
        keys.into_iter()
            .skip(listing.offset)
            .take(listing.limit)
            .map(|key| self.detail(key))
            .collect()
    }

    /// Jobs per state.
    pub fn counts(&mut self, turn: &mut Turn<'_>, queue: &str) -> Counts {
        self.tick(turn);
        self.queues
            .find(queue)
            .map_or_else(Counts::default, |key| self.queues.get(key).counts())
    }

    /// Queued jobs per priority, highest first.
    pub fn counts_per_priority(&mut self, turn: &mut Turn<'_>, queue: &str) -> Vec<(f64, usize)> {
        self.tick(turn);
        let Some(key) = self.queues.find(queue) else {
            return Vec::new();
        };
        self.queues.get(key).priorities()
    }

    /// Whether a queue hands out nothing.
    pub fn is_paused(&mut self, turn: &mut Turn<'_>, queue: &str) -> bool {
        self.tick(turn);
        self.queues
            .find(queue)
            .is_some_and(|key| self.queues.get(key).paused)
    }

    /// Names of all queues, in order of first use.
    pub fn queue_names(&mut self, turn: &mut Turn<'_>) -> Vec<Arc<str>> {
        self.tick(turn);
        self.queues.names()
    }

    /// Keeps the first `wanted` of these jobs in the order of creation, in that order. The others are not sorted.
    pub(super) fn keep_first_created(
        &self,
        keys: &mut Vec<JobKey>,
        wanted: usize,
        ascending: bool,
    ) {
        let order = |one: &JobKey, two: &JobKey| self.creation_order(*one, *two, ascending);
        if wanted < keys.len() {
            keys.select_nth_unstable_by(wanted, order);
            keys.truncate(wanted);
        }
        keys.sort_unstable_by(order);
    }

    fn creation_order(&self, one: JobKey, two: JobKey, ascending: bool) -> std::cmp::Ordering {
        let order = self.creation(one).cmp(&self.creation(two));
        if ascending { order } else { order.reverse() }
    }

    /// Whether a job stands behind the place where the listing begins.
    pub(super) fn is_behind(&self, key: JobKey, listing: &Listing) -> bool {
        let Some(place) = &listing.after else {
            return true;
        };
        let order = self.creation(key).cmp(&(place.0, &place.1));
        if listing.ascending {
            order.is_gt()
        } else {
            order.is_lt()
        }
    }

    /// What jobs are listed by.
    fn creation(&self, key: JobKey) -> (Millis, &JobId) {
        let job = self.store.job(key);
        (job.created_at, &job.id)
    }

    pub(super) fn detail(&self, key: JobKey) -> JobDetail {
        // Without its body it is what nobody will see.
        self.misses(key);
        let job = self.store.job(key);
        let result = job.life.as_ref().and_then(|life| life.result.clone());
        JobDetail {
            job: self.view(key),
            result,
            failure: job.failure(),
        }
    }

    /// Jobs in these buckets but the cold ones.
    fn in_buckets(&self, key: QueueKey, buckets: &[Bucket]) -> Vec<JobKey> {
        if buckets.is_empty() {
            let mut keys = self.all_but_completed(key);
            keys.extend(self.warm_completed(key));
            return keys;
        }
        let queue = self.queues.get(key);
        let mut keys = Vec::new();
        let mut seen = Vec::new();
        for bucket in buckets {
            if seen.contains(bucket) {
                continue;
            }
            seen.push(*bucket);
            match bucket {
                Bucket::State(State::Completed) => keys.extend(self.warm_completed(key)),
                Bucket::State(State::Failed) => keys.extend(queue.failed.values()),
                Bucket::State(State::Active) => keys.extend(&queue.active),
                Bucket::State(State::Delayed) => keys.extend(&queue.delayed),
                Bucket::State(State::WaitingChildren) => {
                    keys.extend(queue.blocked.iter().map(|(_, key)| *key));
                }
                Bucket::State(state) if !queue.paused => {
                    keys.extend(
                        queue
                            .ready
                            .jobs()
                            .filter(|key| self.store.job(*key).state == *state),
                    );
                }
                Bucket::Paused if queue.paused => keys.extend(queue.ready.jobs()),
                Bucket::State(_) | Bucket::Paused => {}
            }
        }
        keys
    }
}
