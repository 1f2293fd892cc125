//! The stored form of a job, and the table of all jobs.
//!
//! A waiting job with default options is one [`Job`] and its payload; what begins with its first delivery lives
//! in one box ([`Life`]). A job is found by its key (its place in the table) or by its id.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

use super::cold::Body;
use super::dead_letter::{DeadLetter, Trail};
use super::id::{JobId, LockToken};
use super::job::{
    AttemptRecord, Failure, FailureReason, JobOptions, JobView, NewJob, Payload, State,
    TimelineEntry, framed,
};
use super::link::Links;
use super::name::NameKey;
use super::outcome::ConnectionId;
use super::persist::JobMarks;
use super::queue::QueueKey;
use super::ready::ReadyKey;
use super::serial::is_default;
use super::table::Table;
use super::{Engine, Millis};

/// Entries kept of a job's timeline (engine contract, section 2.1).
pub const TIMELINE_MAX: usize = 20;
/// Attempt records kept, the newest; bounds jobs with millions of attempts.
pub const ATTEMPT_RECORDS_MAX: usize = 100;
/// Tokens kept of deliveries that ended without success, the newest.
const SPENT_MAX: usize = 16;

/// A job's place in the table; given to another job once this one is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct JobKey(
    /// The place and one, so that an optional key takes no more room than a key.
    NonZeroU32,
);

impl JobKey {
    pub(super) const fn new(place: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(place))
    }

    const fn row(self) -> u32 {
        self.0.get() - 1
    }

    /// The place as an index.
    pub(super) const fn place(self) -> usize {
        self.row() as usize
    }
}

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) queue: QueueKey,
    pub(super) name: NameKey,
    pub(super) data: Option<Payload>,
    /// Order of admission over all queues.
    pub(super) seq: u64,
    pub(super) priority: f64,
    pub(super) created_at: Millis,
    pub(super) run_at: Millis,
    pub(super) attempts: u32,
    pub(super) max_attempts: u32,
    pub(super) state: State,
    pub(super) admitted_as: State,
    pub(super) has_custom_id: bool,
    pub(super) lifo: bool,
    pub(super) remove_on_complete: bool,
    pub(super) remove_on_fail: bool,
    pub(super) durable: bool,
    /// A cron has brought it under the key made from its name, so a lost worker takes it along.
    pub(super) gone_if_lost: bool,
    pub(super) options: Option<Arc<JobOptions>>,
    pub(super) links: Option<Box<Links>>,
    pub(super) life: Option<Box<Life>>,
}

/// What has happened to a job since its first delivery (or change).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Life {
    /// When it was added, where that is not its creation time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) admitted_at: Option<Millis>,
    /// After the entry of its admission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) timeline: Vec<TimelineEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) started_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) completed_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_heartbeat: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) stall_count: u32,
    /// Deliveries lost in a row without any report or renewal.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) lost_in_a_row: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) progress: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) progress_message: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stacktrace: Option<Vec<Arc<str>>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) attempts: Vec<AttemptRecord>,
    /// The delivery in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<Run>,
    /// How the last delivery ended; `None` once its token proves nothing any more.
    #[serde(skip)]
    pub(super) ended: Option<Ended>,
    /// Tokens of deliveries that ended without success, and how.
    #[serde(skip)]
    pub(super) spent: Spent,
    /// Why the job is in the dead-letter queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<Box<DeadLetter>>,
    /// What it keeps of the dead letter it was, while that is tried again by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trail: Option<Box<Trail>>,
    /// Order of completion or failure.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) done_seq: u64,
    #[serde(skip)]
    pub(super) result: Option<Payload>,
    /// The generation that follows this one, when it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) successor: Option<Box<JobId>>,
}

/// Tokens of deliveries that are over, and how they ended.
pub(super) type Spent = Vec<(LockToken, EndCause)>;

/// A delivery in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    #[serde(skip)]
    pub(super) serial: u64,
    /// How the delivery before had ended, and the last sign of life until then; holds again if this one is given back.
    #[serde(skip)]
    pub(super) before: (Option<Ended>, Option<Millis>),
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lock: Option<Lock>,
    #[serde(skip)]
    pub(super) connection: Option<ConnectionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) timeout_at: Option<Millis>,
    /// The pull limited the deliveries of a group, so this one counts there.
    #[serde(skip)]
    pub(super) limited: bool,
    /// The turn that it took, which its group has again if this one is given back.
    #[serde(skip)]
    pub(super) turn: Option<u64>,
    /// When its entry in the deadline order stands, never after the real deadline; `None` while it has no deadline.
    #[serde(skip)]
    pub(super) armed_at: Option<Millis>,
}

/// The lock of a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lock {
    pub(super) token: LockToken,
    pub(super) expires_at: Millis,
    pub(super) ttl: f64,
    pub(super) renewals: u32,
}

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ended {
    pub(super) cause: EndCause,
    /// `None` when it was not locked.
    pub(super) token: Option<LockToken>,
}

/// Why a delivery ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCause {
    /// Its worker failed it, its lock ran out, or it stalled: a late success still counts.
    Reportable,
    /// It outlasted the job's timeout: late reports are ignored.
    Timeout,
    /// It was taken back (moved, discarded, released, never read): late reports are refused.
    Withdrawn,
}

impl Life {
    /// What outlives the process; the result aside, which is stored by itself.
    pub(super) fn lasting(&self) -> Self {
        let mut life = Self {
            ended: None,
            spent: Vec::new(),
            result: None,
            timeline: self.timeline.clone(),
            progress_message: self.progress_message.clone(),
            stacktrace: self.stacktrace.clone(),
            attempts: self.attempts.clone(),
            run: self.run.as_ref().map(Run::lasting),
            failure: self.failure.clone(),
            trail: self.trail.clone(),
            successor: self.successor.clone(),
            ..*self
        };
        if let Some(letter) = life.failure.as_mut() {
            letter.armed_at = None;
        }
        life
    }
}

impl Run {
    fn lasting(&self) -> Self {
        Self {
            serial: 0,
            before: (None, None),
            lock: self.lock.clone(),
            connection: None,
            timeout_at: self.timeout_at,
            limited: false,
            turn: None,
            armed_at: None,
        }
    }
}

impl Job {
    pub(super) fn life(&mut self) -> &mut Life {
        self.life.get_or_insert_default()
    }

    pub(super) fn run(&self) -> Option<&Run> {
        self.life.as_ref().and_then(|life| life.run.as_ref())
    }

    /// That of the lock of its delivery.
    pub(super) fn token(&self) -> Option<LockToken> {
        Some(self.run()?.lock.as_ref()?.token)
    }

    /// Bytes that it takes in a frame, but for a few hundred that every job takes.
    pub(super) fn bytes(&self) -> usize {
        // An id that a client chose is shown twice.
        let ids = self.id.text_len() * 2;
        let data = self.data.as_ref().map_or(0, |data| data.bytes().len());
        let options = self.options.as_ref().map_or(0, |options| options.bytes());
        let links = self.links.as_ref().map_or(0, |links| links.bytes());
        let given = ids + data + options + links;
        let Some(life) = self.life.as_ref() else {
            return given;
        };
        let errors = life
            .timeline
            .iter()
            .filter_map(|entry| entry.error.as_ref());
        let stack = life.stacktrace.iter().flatten();
        let texts = errors.chain(stack).chain(&life.progress_message);
        given + texts.map(|text| framed(text.len())).sum::<usize>()
    }

    /// The group it belongs to.
    pub(super) fn group(&self) -> Option<&Arc<str>> {
        self.options.as_ref()?.group_id.as_ref()
    }

    /// Its place among the ready jobs of no group, or of its own.
    pub(super) fn ready_key(&self) -> ReadyKey {
        if self.group().is_some() {
            ReadyKey::in_group(self.priority, self.seq)
        } else {
            ReadyKey::new(self.priority, self.lifo, self.run_at, self.seq)
        }
    }

    /// The first millisecond at which the job is too old to start.
    pub(super) fn expires_at(&self) -> Option<Millis> {
        expiry(self.created_at, self.options.as_ref()?)
    }

    pub(super) fn record(
        &mut self,
        state: State,
        at: Millis,
        error: Option<Arc<str>>,
        attempt: Option<u32>,
    ) {
        let life = self.life();
        // The entry of the admission counts as well.
        if life.timeline.len() + 1 < TIMELINE_MAX {
            life.timeline.push(TimelineEntry {
                state,
                at,
                error,
                attempt,
            });
        }
    }

    pub(super) fn record_attempt(
        &mut self,
        at: Millis,
        reason: FailureReason,
        error: Option<Arc<str>>,
    ) {
        let attempt = self.attempts;
        let life = self.life();
        if life.attempts.len() >= ATTEMPT_RECORDS_MAX {
            life.attempts.remove(0);
        }
        let started_at = life.started_at.unwrap_or(at);
        life.attempts.push(AttemptRecord {
            attempt,
            started_at,
            failed_at: at,
            reason,
            error,
        });
    }

    /// How a delivery of this job that had the token has ended, if it did so without success.
    pub(super) fn spent(&self, token: LockToken) -> Option<EndCause> {
        let spent = &self.life.as_ref()?.spent;
        let ended = spent.iter().find(|(other, _)| *other == token);
        ended.map(|(_, cause)| *cause)
    }

    pub(super) fn remember_spent(&mut self, token: LockToken, cause: EndCause) {
        let spent = &mut self.life().spent;
        if spent.len() >= SPENT_MAX {
            spent.remove(0);
        }
        spent.push((token, cause));
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        let life = self.life.as_ref()?;
        let letter = life.failure.as_ref()?;
        Some(letter.view(life.attempts.clone()))
    }

    /// When it was added.
    pub(super) fn admitted_at(&self) -> Millis {
        let given = self.life.as_ref().and_then(|life| life.admitted_at);
        given.unwrap_or(self.created_at)
    }

    fn timeline(&self) -> Vec<TimelineEntry> {
        let later = self.life.as_ref().map_or(&[][..], |life| &life.timeline);
        let mut timeline = Vec::with_capacity(later.len() + 1);
        timeline.push(TimelineEntry {
            state: self.admitted_as,
            at: self.admitted_at(),
            error: None,
            attempt: None,
        });
        timeline.extend_from_slice(later);
        timeline
    }
}

/// Parts of the index; each grows by itself, so that no add waits for all of it.
const INDEX_PARTS: usize = 64;

/// Whether a job fails in the moment in which it is added, because it is too old to start.
pub(super) fn fails_at_once(new: &NewJob, now: Millis) -> bool {
    let created_at = new.timestamp.unwrap_or(now);
    let options = new.options.as_deref();
    let expires_at = options.and_then(|options| expiry(created_at, options));
    expires_at.is_some_and(|at| at <= now)
}

/// The first millisecond at which a job of that age is too old to start.
fn expiry(created_at: Millis, options: &JobOptions) -> Option<Millis> {
    let ttl = options.ttl?.floor() as Millis;
    Some(created_at.saturating_add(ttl).saturating_add(1))
}

/// All jobs.
pub(super) struct Store {
    jobs: Table<Job>,
    /// Jobs by id, in parts by hash.
    index: Vec<HashTable<JobKey>>,
    hasher: DefaultHashBuilder,
    /// Jobs whose id a client chose.
    custom_ids: usize,
    /// What is to be stored.
    pub(super) marks: JobMarks,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            jobs: Table::default(),
            index: (0..INDEX_PARTS).map(|_| HashTable::new()).collect(),
            hasher: DefaultHashBuilder::default(),
            custom_ids: 0,
            marks: JobMarks::default(),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.jobs.fmt(f)
    }
}

/// The part of the index; its tables use the bits at either end of a hash.
const fn part(hash: u64) -> usize {
    (hash >> 32) as usize % INDEX_PARTS
}

impl Store {
    /// Whether a job stands in that place.
    pub(super) fn contains(&self, key: JobKey) -> bool {
        self.jobs.get(key.row()).is_some()
    }

    /// Every job, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = (JobKey, &Job)> {
        self.jobs
            .iter()
            .map(|(place, job)| (JobKey::new(place), job))
    }

    /// Jobs that are found by their ids.
    pub(super) fn indexed(&self) -> usize {
        self.index.iter().map(HashTable::len).sum()
    }

    pub(super) fn find(&self, id: &JobId) -> Option<JobKey> {
        let hash = self.hasher.hash_one(id);
        let index = self.index.get(part(hash))?;
        index.find(hash, |key| self.job(*key).id == *id).copied()
    }

    /// The job in that place.
    pub(super) fn job(&self, key: JobKey) -> &Job {
        self.jobs.at(key.row())
    }

    /// As [`Store::job`], to change it.
    pub(super) fn job_mut(&mut self, key: JobKey) -> &mut Job {
        self.marks.touch(key);
        self.jobs.at_mut(key.row())
    }

    /// As [`Store::job_mut`], to change its data, its options or its parent.
    pub(super) fn body_mut(&mut self, key: JobKey) -> &mut Job {
        self.marks.touch_body(key);
        self.jobs.at_mut(key.row())
    }

    /// Takes the body of a completed job out, and throws it away but for what no store keeps.
    pub(super) fn empty(&mut self, key: JobKey) -> Spent {
        let job = self.jobs.at_mut(key.row());
        (job.data, job.options) = (None, None);
        job.life.take().map_or_else(Spent::new, |life| life.spent)
    }

    /// Puts back the body of a job, which has not changed thereby.
    pub(super) fn fill(&mut self, key: JobKey, body: Body, spent: Spent) {
        let job = self.jobs.at_mut(key.row());
        (job.data, job.options) = (body.data, body.options);
        job.life = body.life.map(|life| life.with_result(body.result));
        if let Some(life) = job.life.as_mut() {
            life.spent = spent;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) const fn custom_ids(&self) -> usize {
        self.custom_ids
    }

    /// Gives back room that no job needs.
    pub(super) fn shrink(&mut self) {
        let Self {
            jobs,
            index,
            hasher,
            ..
        } = self;
        jobs.shrink();
        for index in index {
            index.shrink_to_fit(|key| hasher.hash_one(&jobs.at(key.row()).id));
        }
    }

    pub(super) fn insert(&mut self, job: Job) -> JobKey {
        self.custom_ids += usize::from(job.has_custom_id);
        let hash = self.hasher.hash_one(&job.id);
        let key = JobKey::new(self.jobs.insert(job));
        self.marks.begin(key);
        let Self {
            jobs,
            index,
            hasher,
            ..
        } = self;
        if let Some(index) = index.get_mut(part(hash)) {
            index.insert_unique(hash, key, |other| hasher.hash_one(&jobs.at(other.row()).id));
        }
        key
    }

    pub(super) fn remove(&mut self, key: JobKey) -> Job {
        let hash = self.hasher.hash_one(&self.job(key).id);
        let Self {
            jobs,
            index,
            hasher,
            custom_ids,
            marks,
        } = self;
        if let Some(index) = index.get_mut(part(hash)) {
            if let Ok(entry) = index.find_entry(hash, |other| *other == key) {
                entry.remove();
            }
            // A part that was large gives its room back once it is nearly empty.
            if index.capacity() > 1_024 && index.len() < index.capacity() / 8 {
                let room = index.len() * 2;
                index.shrink_to(room, |other| hasher.hash_one(&jobs.at(other.row()).id));
            }
        }
        match jobs.remove(key.row()) {
            Some(job) => {
                *custom_ids -= usize::from(job.has_custom_id);
                marks.end(key, job.seq);
                job
            }
            None => unreachable!("{key:?} is no job"),
        }
    }
}

impl Engine {
    pub(super) fn view(&self, key: JobKey) -> JobView {
        let job = self.store.job(key);
        let life = job.life.as_deref();
        JobView {
            id: job.id.clone(),
            has_custom_id: job.has_custom_id,
            queue: Arc::clone(self.queues.name(job.queue)),
            name: Arc::clone(self.names.text(job.name)),
            data: job.data(),
            state: job.state,
            priority: job.priority,
            created_at: job.created_at,
            run_at: job.run_at,
            started_at: life.and_then(|life| life.started_at),
            completed_at: life.and_then(|life| life.completed_at),
            last_heartbeat: life
                .and_then(|life| life.last_heartbeat)
                .unwrap_or(job.created_at),
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            stall_count: life.map_or(0, |life| life.stall_count),
            progress: life.map_or(0.0, |life| life.progress),
            progress_message: life.and_then(|life| life.progress_message.clone()),
            stacktrace: life.and_then(|life| life.stacktrace.clone()),
            lifo: job.lifo,
            remove_on_complete: job.remove_on_complete,
            remove_on_fail: job.remove_on_fail,
            durable: job.durable,
            options: Arc::clone(job.options.as_ref().unwrap_or(&self.default_options)),
            links: job.ties().map(Box::new),
            timeline: job.timeline(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every waiting job pays for each byte; what is rare belongs into a box.
    #[test]
    fn a_job_stays_small() {
        assert!(size_of::<Job>() <= 120, "{}", size_of::<Job>());
    }
}
