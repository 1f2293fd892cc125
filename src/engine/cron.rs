//! Named schedules, called crons: what they add, when, and what became of each slot (engine contract, section 11).
//!
//! A slot fires at most once, and its job and the next slot come in one step. Whoever was away while slots passed (a
//! process that slept, or was not there) gets one job per cron at most, never one per slot; how many slots went by is
//! counted. Each cron has one entry in the deadline order, at its next run.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::deadline::Timer;
use super::event::EventKind;
use super::id::{JobId, LockToken};
use super::job::{NewJob, State};
use super::outcome::{AddOutcome, Refusal, TokenGiven};
use super::persist::Marks;
use super::queue::QueueKey;
use super::schedule::Schedule;
use super::serial::is_default;
use super::store::JobKey;
use super::{Engine, Millis, Turn};

/// Crons at one time.
pub const CRONS_MAX: usize = 10_000;
/// Tokens kept of deliveries that were deleted because their worker was lost, the newest.
pub const DISCARDED_TOKENS_MAX: usize = 1_000;
/// What a deduplication key begins with that was made from the name of a cron.
const DERIVED_KEY: &str = "cron:";

/// A cron's place in the order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CronKey(u64);

/// What a cron is, as it was given. Every value has passed validation; the engine trusts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronDefinition {
    /// Its name, unique in the whole engine.
    pub name: Arc<str>,
    /// Where its jobs go.
    pub queue: Arc<str>,
    /// When; decides also if there is an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Arc<Schedule>>,
    /// Ms between two runs, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_every: Option<Millis>,
    /// The zone, as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<Arc<str>>,
    /// Jobs after which it ends; `None` means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_limit: Option<u64>,
    /// At most one live job, unless the template has a deduplication key of its own; see [`CronDefinition::job`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub prevent_overlap: bool,
    /// Slots that pass while no engine runs are gone, instead of one run at the next start.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip_missed_on_restart: bool,
    /// A slot passes while no live worker serves the queue.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip_if_no_worker: bool,
    /// The job of each run, but for the key that is made from the name.
    pub template: NewJob,
}

/// A cron as it is added.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCron {
    /// What it is.
    pub definition: CronDefinition,
    /// It runs at once as well, unless it replaces one.
    pub immediately: bool,
    /// Overlaps are unwanted from now on: a queued job that holds its key is deleted, unless others wait for it.
    pub replace_queued: bool,
}

/// What has become of a cron. Together with its definition this is all there is to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronFigures {
    /// The next slot; `None` when there is none before the year 9999.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_run: Option<Millis>,
    /// Jobs it has added.
    #[serde(default, skip_serializing_if = "is_default")]
    pub executions: u64,
    /// Slots that passed while nobody was there to act.
    #[serde(default, skip_serializing_if = "is_default")]
    pub missed: u64,
    /// Slots that added nothing because of the deduplication key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub absorbed: u64,
    /// Slots that passed because no worker was there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skipped: u64,
    /// Jobs that were deleted because their worker was lost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: u64,
}

/// A cron.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cron {
    /// What it is.
    pub definition: Arc<CronDefinition>,
    /// What has become of it.
    pub figures: CronFigures,
}

/// A part of the crons in the order of their next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronPage {
    /// The first one, from 0.
    pub start: usize,
    /// The last one; `None` means all.
    pub end: Option<usize>,
    /// Soonest first.
    pub ascending: bool,
}

impl CronDefinition {
    /// The job of one run: with the deduplication key that is made from the name, if overlaps are unwanted.
    pub fn job(&self) -> NewJob {
        let mut job = self.template.clone();
        if self.has_derived_key() {
            let mut options = job.options.as_deref().cloned().unwrap_or_default();
            options.unique_key = Some(format!("{DERIVED_KEY}{}", self.name).into());
            job.options = Some(Arc::new(options));
        }
        job
    }

    fn has_derived_key(&self) -> bool {
        let options = self.template.options.as_ref();
        self.prevent_overlap && options.is_none_or(|options| options.unique_key.is_none())
    }

    fn first_run(&self, now: Millis) -> Option<Millis> {
        match (&self.schedule, self.repeat_every) {
            (Some(schedule), _) => schedule.next_after(now),
            (None, every) => every.map(|every| now.saturating_add(every)),
        }
    }

    /// The first slot after `now`, and how many lie between `slot` and that one.
    fn after(&self, slot: Millis, now: Millis) -> (Option<Millis>, u64) {
        match (&self.schedule, self.repeat_every) {
            (Some(schedule), _) => (schedule.next_after(now), schedule.count_between(slot, now)),
            (None, Some(every)) => {
                let passed = now.saturating_sub(slot).max(0) / every.max(1);
                let ahead = passed.saturating_add(1).saturating_mul(every);
                (Some(slot.saturating_add(ahead)), passed.unsigned_abs())
            }
            (None, None) => (None, 0),
        }
    }
}

impl Cron {
    /// What it is like when an engine starts with it at `now`: slots that passed in the meantime are gone, or the first
    /// of them is due and stands for all.
    #[must_use]
    pub fn restarted(mut self, now: Millis) -> Self {
        let skips = self.definition.skip_missed_on_restart || self.definition.skip_if_no_worker;
        if let Some(slot) = self.figures.next_run.filter(|slot| skips && *slot < now) {
            let (next, between) = self.definition.after(slot, now);
            self.figures.next_run = next;
            self.figures.missed += 1 + between;
        }
        self
    }
}

/// All crons.
#[derive(Debug, Default)]
pub(super) struct Crons {
    /// In order of creation.
    list: BTreeMap<CronKey, Entry>,
    by_name: HashMap<Arc<str>, CronKey>,
    next: u64,
    /// Deliveries that were deleted, by token; their workers may still report.
    discarded: HashMap<LockToken, JobId>,
    discarded_order: VecDeque<LockToken>,
    /// Those that have changed or are gone since they were stored.
    pub(super) marks: Marks<CronKey>,
}

#[derive(Debug)]
struct Entry {
    cron: Cron,
    /// The job of a run, made once.
    job: NewJob,
}

impl Crons {
    /// None of them counts as stored.
    pub(super) fn mark_all(&mut self) {
        for key in self.list.keys() {
            self.marks.touch(*key);
        }
    }

    /// The crons that have changed since the last time, by their places; `None` for one that is gone.
    pub(super) fn take(&mut self) -> Vec<(u64, Option<Cron>)> {
        let unsaved = self.marks.take();
        let cron = |key: CronKey| (key.0, self.list.get(&key).map(|entry| entry.cron.clone()));
        unsaved.into_iter().map(cron).collect()
    }

    fn find(&self, name: &str) -> Option<&Cron> {
        let key = self.by_name.get(name)?;
        self.list.get(key).map(|entry| &entry.cron)
    }

    fn remember_discarded(&mut self, token: LockToken, id: JobId) {
        if self.discarded_order.len() >= DISCARDED_TOKENS_MAX
            && let Some(oldest) = self.discarded_order.pop_front()
        {
            self.discarded.remove(&oldest);
        }
        self.discarded_order.push_back(token);
        self.discarded.insert(token, id);
    }

    /// Whether that token was the one of a delivery which was deleted with its job.
    pub(super) fn has_discarded(&self, id: &JobId, token: TokenGiven) -> bool {
        match token {
            TokenGiven::Token(token) => self.discarded.get(&token) == Some(id),
            TokenGiven::None | TokenGiven::Malformed => false,
        }
    }
}

impl Engine {
    /// Adds a cron, or replaces the definition of the one with that name: its figures stay, and so does the next run of
    /// an interval that has not changed, so that whoever repeats this before each run does not put the run off for ever.
    ///
    /// # Errors
    /// [`Refusal::TooMany`] when there are [`CRONS_MAX`] others.
    pub fn upsert_cron(&mut self, turn: &mut Turn<'_>, new: NewCron) -> Result<Cron, Refusal> {
        self.tick(turn);
        let definition = new.definition;
        let old = self.crons.by_name.get(&definition.name).copied();
        if old.is_none() && self.crons.list.len() >= CRONS_MAX {
            let (what, max) = ("crons", CRONS_MAX);
            return Err(Refusal::TooMany { what, max });
        }
        let old = old.and_then(|key| Some((key, self.take_cron(key)?)));
        let mut figures = old
            .as_ref()
            .map_or_else(CronFigures::default, |(_, old)| old.figures);
        let keeps = definition.schedule.is_none()
            && old.as_ref().is_some_and(|(_, old)| {
                old.definition.schedule.is_none()
                    && old.definition.repeat_every == definition.repeat_every
            });
        if !keeps {
            figures.next_run = definition.first_run(self.now);
        }
        let key = self.put_cron(
            old.as_ref().map(|(key, _)| *key),
            Cron {
                definition: Arc::new(definition),
                figures,
            },
        );
        if new.replace_queued {
            self.remove_queued_job_of(turn, key);
        }
        if new.immediately && old.is_none() {
            self.run_now(turn, key);
        }
        let cron = self.crons.list.get(&key).map(|entry| entry.cron.clone());
        Ok(cron.unwrap_or_else(|| unreachable!("the cron was just put there")))
    }

    /// Takes in a cron from a store, in its place; see [`Cron::restarted`].
    pub(super) fn load_cron(&mut self, place: u64, cron: Cron) {
        self.crons.next = self.crons.next.max(place);
        self.put_cron(Some(CronKey(place)), cron.restarted(self.now));
    }

    /// Takes in a cron as an earlier engine has left it; see [`Cron::restarted`].
    pub fn restore_cron(&mut self, turn: &mut Turn<'_>, cron: Cron) {
        self.tick(turn);
        let old = self.crons.by_name.get(&cron.definition.name).copied();
        if let Some(old) = old {
            self.take_cron(old);
        }
        self.put_cron(old, cron.restarted(self.now));
        self.tick(turn);
    }

    /// A cron by its name.
    pub fn cron(&mut self, turn: &mut Turn<'_>, name: &str) -> Option<Cron> {
        self.tick(turn);
        self.crons.find(name).cloned()
    }

    /// All crons in order of creation, or a page of them in order of their next run, then of their names.
    pub fn crons(&mut self, turn: &mut Turn<'_>, page: Option<CronPage>) -> Vec<Cron> {
        self.tick(turn);
        let all = self.crons.list.values().map(|entry| &entry.cron);
        let Some(page) = page else {
            return all.cloned().collect();
        };
        let mut sorted: Vec<_> = all.collect();
        sorted.sort_unstable_by_key(|cron| {
            let next_run = cron.figures.next_run.unwrap_or(Millis::MAX);
            (next_run, &cron.definition.name)
        });
        if !page.ascending {
            sorted.reverse();
        }
        let end = page.end.map_or(usize::MAX, |end| end.saturating_add(1));
        sorted
            .into_iter()
            .take(end)
            .skip(page.start)
            .cloned()
            .collect()
    }

    /// Deletes a cron; its jobs stay. Whether there was one.
    pub fn delete_cron(&mut self, turn: &mut Turn<'_>, name: &str) -> bool {
        self.tick(turn);
        let key = self.crons.by_name.get(name).copied();
        key.and_then(|key| self.take_cron(key)).is_some()
    }

    /// The slot of a cron has come; its entry was just taken out.
    pub(super) fn fire_cron(&mut self, turn: &mut Turn<'_>, key: CronKey, slot: Millis) {
        let now = self.now;
        let Some(entry) = self.crons.list.get_mut(&key) else {
            return;
        };
        let (definition, figures) = (Arc::clone(&entry.cron.definition), &mut entry.cron.figures);
        if definition
            .max_limit
            .is_some_and(|max| figures.executions >= max)
        {
            self.crons.by_name.remove(&definition.name);
            self.crons.list.remove(&key);
            self.crons.marks.touch(key);
            return;
        }
        let (next, missed) = definition.after(slot, now);
        figures.next_run = next;
        figures.missed += missed;
        self.crons.marks.touch(key);
        if let Some(at) = next {
            self.deadlines.insert(at, Timer::Cron(key));
        }
        let idle = definition.skip_if_no_worker
            && !self.workers.any_serves(
                &definition.queue,
                now.saturating_sub(self.config.worker_timeout),
            );
        if idle {
            figures.skipped += 1;
            return;
        }
        let job = entry.job.clone();
        let admitted = self.add_for_cron(turn, &definition, job);
        if let Some(entry) = self.crons.list.get_mut(&key) {
            let figures = &mut entry.cron.figures;
            let count = if admitted {
                &mut figures.executions
            } else {
                &mut figures.absorbed
            };
            *count += 1;
        }
    }

    /// How many crons there are, and how many of them will run again.
    pub(super) fn cron_counts(&self) -> (usize, usize) {
        let list = self.crons.list.values();
        let pending = list.filter(|entry| entry.cron.figures.next_run.is_some());
        (self.crons.list.len(), pending.count())
    }

    /// When each cron runs next.
    pub(super) fn cron_slots(&self) -> impl Iterator<Item = (CronKey, Millis)> {
        let list = self.crons.list.iter();
        list.filter_map(|(key, entry)| Some((*key, entry.cron.figures.next_run?)))
    }

    /// Adds the job of a run; false when another one stands for it.
    fn add_for_cron(
        &mut self,
        turn: &mut Turn<'_>,
        definition: &CronDefinition,
        job: NewJob,
    ) -> bool {
        let queue = self.queues.open_listed(&definition.queue);
        if let Some(owner) = self.needed_owner(queue, &job) {
            self.emit(turn, owner, EventKind::Duplicated);
            return false;
        }
        let added = self.admit(turn, queue, job, |_, _| None);
        let admitted = added.outcome != AddOutcome::Existing;
        if admitted
            && definition.has_derived_key()
            && let Some(job) = self.store.find(&added.id)
        {
            self.store.job_mut(job).gone_if_lost = true;
        }
        self.note_idle(queue);
        self.serve(turn, queue);
        admitted
    }

    /// The job that this one would replace, if others wait for it: then it stands for this one instead.
    fn needed_owner(&self, queue: QueueKey, job: &NewJob) -> Option<JobKey> {
        let options = job
            .options
            .as_ref()
            .filter(|options| options.dedup.replace)?;
        let owner = self.key_owner(queue, options.unique_key.as_deref()?)?;
        let stored = self.store.job(owner);
        let needed = stored.state != State::Active && self.has_dependents(&stored.id);
        needed.then_some(owner)
    }

    /// Runs a cron out of turn, as if its slot were now.
    fn run_now(&mut self, turn: &mut Turn<'_>, key: CronKey) {
        let next = self
            .crons
            .list
            .get(&key)
            .map(|entry| entry.cron.figures.next_run);
        if let Some(at) = next.flatten() {
            self.deadlines.remove(at, Timer::Cron(key));
        }
        self.fire_cron(turn, key, self.now);
    }

    /// Deletes an active job whose worker is lost, if a cron has brought it under the key made from its name; whether it
    /// was so. The mark alone decides (engine contract, B-15), also once that cron is gone or has no such key any more.
    pub(super) fn discard_lost(&mut self, turn: &mut Turn<'_>, key: JobKey) -> bool {
        let job = self.store.job(key);
        if !job.gone_if_lost {
            return false;
        }
        let token = job.run().and_then(|run| run.lock.as_ref());
        if let Some(token) = token.map(|lock| lock.token) {
            self.crons.remember_discarded(token, job.id.clone());
        }
        let options = job.options.as_ref();
        let name = options
            .and_then(|options| options.unique_key.as_ref())
            .and_then(|key| key.strip_prefix(DERIVED_KEY));
        if let Some(key) = name.and_then(|name| self.crons.by_name.get(name)).copied()
            && let Some(entry) = self.crons.list.get_mut(&key)
        {
            entry.cron.figures.lost += 1;
            self.crons.marks.touch(key);
        }
        self.remove_single(turn, key);
        true
    }

    fn remove_queued_job_of(&mut self, turn: &mut Turn<'_>, key: CronKey) {
        let Some(entry) = self.crons.list.get(&key) else {
            return;
        };
        let unique_key = entry
            .job
            .options
            .as_ref()
            .and_then(|options| options.unique_key.as_deref());
        let owner = self
            .queues
            .find(&entry.cron.definition.queue)
            .zip(unique_key)
            .and_then(|(queue, unique_key)| self.key_owner(queue, unique_key));
        let may_go = |key: &JobKey| {
            let job = self.store.job(*key);
            job.state.is_queued() && !self.has_dependents(&job.id)
        };
        if let Some(owner) = owner.filter(may_go) {
            self.remove_single(turn, owner);
        }
    }

    /// Puts a cron into its place, or behind all others.
    fn put_cron(&mut self, place: Option<CronKey>, cron: Cron) -> CronKey {
        let key = place.unwrap_or_else(|| {
            self.crons.next += 1;
            CronKey(self.crons.next)
        });
        if let Some(at) = cron.figures.next_run {
            self.deadlines.insert(at, Timer::Cron(key));
        }
        let name = Arc::clone(&cron.definition.name);
        self.crons.by_name.insert(name, key);
        let job = cron.definition.job();
        self.crons.list.insert(key, Entry { cron, job });
        self.crons.marks.touch(key);
        key
    }

    fn take_cron(&mut self, key: CronKey) -> Option<Cron> {
        let cron = self.crons.list.remove(&key)?.cron;
        self.crons.marks.touch(key);
        self.crons.by_name.remove(&cron.definition.name);
        if let Some(at) = cron.figures.next_run {
            self.deadlines.remove(at, Timer::Cron(key));
        }
        Some(cron)
    }
}
