//! The stored form of a job, and the table of all jobs.
//!
//! A waiting job with default options is one [`Job`] and its payload; what begins with its first delivery lives
//! in one box ([`Life`]). A job is found by its key (its place in the table) or by its id.

use std::fmt;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;
use std::hash::BuildHasher;

use super::id::{JobId, LockToken};
use super::job::{
    AttemptRecord, Failure, FailureReason, JobOptions, JobView, Payload, State, TimelineEntry,
};
use super::outcome::ConnectionId;
use super::queue::QueueKey;
use super::ready::ReadyKey;
use super::{Engine, Millis};

/// Entries kept of a job's timeline (engine contract, section 2.1).
pub const TIMELINE_MAX: usize = 20;
/// Attempt records kept, the newest; bounds jobs with millions of attempts.
pub const ATTEMPT_RECORDS_MAX: usize = 100;
/// Tokens kept of deliveries that ended without success, the newest.
const SPENT_MAX: usize = 16;

/// A job's place in the table; given to another job once this one is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct JobKey(u32);

#[cfg(test)]
impl JobKey {
    pub(super) const fn for_test(number: u32) -> Self {
        Self(number)
    }
}

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) queue: QueueKey,
    pub(super) name: Arc<str>,
    pub(super) data: Option<Payload>,
    /// Order of admission over all queues.
    pub(super) seq: u64,
    pub(super) priority: f64,
    pub(super) created_at: Millis,
    pub(super) admitted_at: Millis,
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
    /// Its cron adds another one anyway, so a lost worker takes it along.
    pub(super) gone_if_lost: bool,
    pub(super) options: Option<Arc<JobOptions>>,
    pub(super) life: Option<Box<Life>>,
}

/// What has happened to a job since its first delivery (or change).
#[derive(Debug, Default)]
pub(super) struct Life {
    /// After the entry of its admission.
    pub(super) timeline: Vec<TimelineEntry>,
    pub(super) started_at: Option<Millis>,
    pub(super) completed_at: Option<Millis>,
    pub(super) last_heartbeat: Option<Millis>,
    pub(super) stall_count: u32,
    /// Deliveries lost in a row without any report or renewal.
    pub(super) lost_in_a_row: u32,
    pub(super) progress: f64,
    pub(super) progress_message: Option<Arc<str>>,
    pub(super) stacktrace: Option<Vec<Arc<str>>>,
    pub(super) attempts: Vec<AttemptRecord>,
    /// The delivery in progress.
    pub(super) run: Option<Run>,
    /// How the last delivery ended; `None` once its token proves nothing any more.
    pub(super) ended: Option<Ended>,
    /// Tokens of deliveries that ended without success, and how.
    pub(super) spent: Vec<(LockToken, EndCause)>,
    /// Why the job is in the dead-letter queue.
    pub(super) failure: Option<DeadLetter>,
    /// Order of completion or failure.
    pub(super) done_seq: u64,
    pub(super) result: Option<Payload>,
    /// The generation that follows this one, when it repeats.
    pub(super) successor: Option<Box<JobId>>,
}

/// Why a job is in the dead-letter queue.
#[derive(Debug)]
pub(super) struct DeadLetter {
    pub(super) reason: FailureReason,
    pub(super) error: Option<Arc<str>>,
    pub(super) entered_at: Millis,
    pub(super) expires_at: Millis,
}

/// A delivery in progress.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) serial: u64,
    /// How the delivery before had ended, and the last sign of life until then; holds again if this one is given back.
    pub(super) before: (Option<Ended>, Option<Millis>),
    pub(super) lock: Option<Lock>,
    pub(super) connection: Option<ConnectionId>,
    pub(super) timeout_at: Option<Millis>,
    /// When its entry in the deadline order stands; never after the real deadline.
    pub(super) armed_at: Millis,
}

/// The lock of a delivery.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) token: LockToken,
    pub(super) expires_at: Millis,
    pub(super) ttl: f64,
    pub(super) renewals: u32,
}

/// How a delivery ended.
#[derive(Clone, Copy, Debug)]
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

impl Job {
    pub(super) fn life(&mut self) -> &mut Life {
        self.life.get_or_insert_default()
    }

    pub(super) fn run(&self) -> Option<&Run> {
        self.life.as_ref().and_then(|life| life.run.as_ref())
    }

    /// Bytes of its data and of the texts kept with it.
    pub(super) fn bytes(&self) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.bytes().len());
        let Some(life) = self.life.as_ref() else {
            return data;
        };
        let errors = life
            .timeline
            .iter()
            .filter_map(|entry| entry.error.as_ref());
        let stack = life.stacktrace.iter().flatten();
        let texts = errors.chain(stack).chain(&life.progress_message);
        data + texts.map(|text| text.len()).sum::<usize>()
    }

    pub(super) fn ready_key(&self) -> ReadyKey {
        ReadyKey::new(self.priority, self.lifo, self.run_at, self.seq)
    }

    /// The first millisecond at which the job is too old to start.
    pub(super) fn expires_at(&self) -> Option<Millis> {
        let ttl = self.options.as_ref()?.ttl?;
        Some(
            self.created_at
                .saturating_add(ttl.floor() as Millis)
                .saturating_add(1),
        )
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
        Some(Failure {
            reason: letter.reason,
            error: letter.error.clone(),
            entered_at: letter.entered_at,
            attempts: life.attempts.clone(),
        })
    }

    fn timeline(&self) -> Vec<TimelineEntry> {
        let later = self.life.as_ref().map_or(&[][..], |life| &life.timeline);
        let mut timeline = Vec::with_capacity(later.len() + 1);
        timeline.push(TimelineEntry {
            state: self.admitted_as,
            at: self.admitted_at,
            error: None,
            attempt: None,
        });
        timeline.extend_from_slice(later);
        timeline
    }
}

/// All jobs.
#[derive(Default)]
pub(super) struct Store {
    jobs: Slab<Job>,
    index: HashTable<JobKey>,
    hasher: DefaultHashBuilder,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.jobs).finish()
    }
}

impl Store {
    pub(super) fn find(&self, id: &JobId) -> Option<JobKey> {
        self.index
            .find(self.hasher.hash_one(id), |key| self.job(*key).id == *id)
            .copied()
    }

    /// The job in that place. A key without a job is a fault of the engine, not of a caller.
    #[expect(
        clippy::indexing_slicing,
        reason = "a key without a job is a fault of the engine"
    )]
    pub(super) fn job(&self, key: JobKey) -> &Job {
        &self.jobs[key.0 as usize]
    }

    /// As [`Store::job`], to change it.
    #[expect(
        clippy::indexing_slicing,
        reason = "a key without a job is a fault of the engine"
    )]
    pub(super) fn job_mut(&mut self, key: JobKey) -> &mut Job {
        &mut self.jobs[key.0 as usize]
    }

    pub(super) fn insert(&mut self, job: Job) -> JobKey {
        let hash = self.hasher.hash_one(&job.id);
        let place = self.jobs.insert(job);
        assert!(u32::try_from(place).is_ok(), "more than 4,294,967,295 jobs");
        let key = JobKey(place as u32);
        let Self {
            jobs,
            index,
            hasher,
        } = self;
        index.insert_unique(hash, key, |other| {
            hasher.hash_one(&jobs[other.0 as usize].id)
        });
        key
    }

    pub(super) fn remove(&mut self, key: JobKey) -> Job {
        let job = self.jobs.remove(key.0 as usize);
        if let Ok(entry) = self
            .index
            .find_entry(self.hasher.hash_one(&job.id), |other| *other == key)
        {
            entry.remove();
        }
        job
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
            name: Arc::clone(&job.name),
            data: job.data.clone(),
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
            timeline: job.timeline(),
        }
    }
}
