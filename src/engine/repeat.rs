//! Jobs that repeat: each success adds the next generation (engine contract, section 12). A failure for good, and
//! whatever deletes the job, ends the chain.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::id::JobId;
use super::job::{JobOptions, NewJob, Payload, State};
use super::outcome::{AddOutcome, Change};
use super::queue::QueueKey;
use super::schedule::Schedule;
use super::store::JobKey;
use super::{Engine, Millis, Turn};

/// How a job repeats. Times are Unix milliseconds; every value has passed validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Repeat {
    /// When the next generation runs.
    pub timing: RepeatTiming,
    /// Generations after the first one, at most; `None` means without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// Generations before this one.
    pub count: f64,
    /// Where the slots of an interval begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_date: Option<f64>,
    /// No generation is to run after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_date: Option<f64>,
    /// Stored only: the first generation runs by its own delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub immediately: Option<bool>,
    /// The slot of this generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev_millis: Option<f64>,
    /// Ms by which slots are moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<f64>,
    /// Stored only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<Arc<str>>,
    /// The zone, as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tz: Option<Arc<str>>,
}

/// What a repetition goes by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RepeatTiming {
    /// Ms from slot to slot, above 0.
    Every(f64),
    /// A pattern.
    Pattern(Arc<Schedule>),
}

impl Repeat {
    /// The next generation after a success at `now`, and its slot; `None` when this was the last one.
    pub fn next(&self, now: Millis) -> Option<(Self, Millis)> {
        if self.limit.is_some_and(|limit| self.count >= limit) {
            return None;
        }
        let slot = match &self.timing {
            RepeatTiming::Every(every) => self.next_of_interval(*every, now as f64),
            RepeatTiming::Pattern(schedule) => self.next_of_pattern(schedule, now)?,
        };
        if self.end_date.is_some_and(|end| slot > end) {
            return None;
        }
        let next = Self {
            count: self.count + 1.0,
            prev_millis: Some(slot),
            ..self.clone()
        };
        // A slot within a millisecond must not run before it.
        Some((next, slot.ceil() as Millis))
    }

    /// A whole number of steps after the slot before, at `now` or later.
    fn next_of_interval(&self, every: f64, now: f64) -> f64 {
        let offset = self.offset.unwrap_or(0.0);
        let slot = match (self.prev_millis, self.start_date) {
            (Some(before), _) => before + every,
            (None, Some(start)) => start + offset,
            (None, None) => now + every + offset,
        };
        let behind = ((now - slot) / every).ceil().max(0.0);
        // Far behind, tiny steps drown in the precision of the sum.
        let next = slot + behind * every;
        if next.is_finite() { next.max(now) } else { now }
    }

    fn next_of_pattern(&self, schedule: &Schedule, now: Millis) -> Option<f64> {
        let offset = self.offset.unwrap_or(0.0);
        // An offset that leads back must not lead into the past.
        let back = offset.min(0.0).floor() as Millis;
        let before_start = self.start_date.map(|start| start.ceil() as Millis - 1);
        let after = now
            .max(now.saturating_sub(back))
            .max(before_start.unwrap_or(now));
        Some(schedule.next_after(after)? as f64 + offset)
    }
}

impl Engine {
    /// The generation that follows a job which has just completed, not added yet; `None` for a job that does not repeat
    /// (any more), or whose deduplication key another job has taken over.
    pub(super) fn next_generation(&self, key: JobKey) -> Option<NewJob> {
        let job = self.store.job(key);
        // One that ran again has been followed already.
        if job
            .life
            .as_ref()
            .is_some_and(|life| life.successor.is_some())
        {
            return None;
        }
        let options = job.options.as_ref()?;
        let (repeat, run_at) = options.repeat.as_ref()?.next(self.now)?;
        let unique_key = options.unique_key.as_ref();
        if unique_key.is_some_and(|unique_key| self.key_owner(job.queue, unique_key).is_some()) {
            return None;
        }
        Some(NewJob {
            name: Arc::clone(self.names.text(job.name)),
            data: job.data(),
            priority: job.priority,
            delay: run_at.saturating_sub(self.now),
            max_attempts: job.max_attempts,
            lifo: job.lifo,
            remove_on_complete: job.remove_on_complete,
            remove_on_fail: job.remove_on_fail,
            durable: job.durable,
            options: Some(Arc::new(JobOptions {
                repeat: Some(Box::new(repeat)),
                blank_custom_id: false,
                ..options.as_ref().clone()
            })),
            ..NewJob::default()
        })
    }

    /// Adds the next generation; its id, if it came to be.
    pub(super) fn add_generation(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueKey,
        job: NewJob,
    ) -> Option<JobId> {
        let added = self.admit(turn, queue, job, |_, _| None);
        (added.outcome != AddOutcome::Existing).then_some(added.id)
    }

    /// Replaces the data of the generation that is still to run after a completed one, also while it waits for others.
    pub(super) fn update_successor(&mut self, completed: JobKey, data: Option<Payload>) -> Change {
        let mut key = completed;
        // Each step leads to a younger job, so this ends.
        while self.store.job(key).state == State::Completed {
            if self.misses(key) {
                break;
            }
            let life = self.store.job(key).life.as_ref();
            let successor = life.and_then(|life| life.successor.as_deref());
            let Some(next) = successor.and_then(|id| self.store.find(id)) else {
                break;
            };
            key = next;
        }
        let state = self.store.job(key).state;
        if state.is_live() && state != State::Active {
            self.store.body_mut(key).replace_data(data);
            Change::Applied
        } else {
            Change::WrongState(State::Completed)
        }
    }
}
