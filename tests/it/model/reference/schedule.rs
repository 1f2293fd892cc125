//! Named schedules and jobs that repeat (sections 11 and 12; B-15 to B-18), naively: slots are found one by one, and
//! patterns second by second.

use std::sync::Arc;

use bunqueue_mcp::command::{Command, Reply};
use bunqueue_mcp::engine::{
    AddOutcome, Change, Cron, CronDefinition, CronFigures, EventKind, JobId, Millis, NewCron,
    NewJob, Payload, Repeat, RepeatTiming, State,
};

use super::{Place, Reference};

/// The patterns that histories use, all in UTC.
pub const PATTERNS: [&str; 4] = ["* * * * * *", "*/7 * * * * *", "*/2 * * * *", "@hourly"];

/// The first second after `now` that a pattern names.
fn next_of_pattern(text: &str, now: Millis) -> Millis {
    let names = |second: i64| match text {
        "* * * * * *" => true,
        "*/7 * * * * *" => second % 60 % 7 == 0,
        "*/2 * * * *" => second % 120 == 0,
        "@hourly" => second % 3_600 == 0,
        other => panic!("the reference does not know {other}"),
    };
    let mut second = now.div_euclid(1_000) + 1;
    while !names(second) {
        second += 1;
    }
    second * 1_000
}

/// The slot that follows `slot`, counted from `from` where there is none before.
fn next_slot(definition: &CronDefinition, slot: Millis) -> Millis {
    match (&definition.schedule, definition.repeat_every) {
        (Some(schedule), _) => next_of_pattern(schedule.text(), slot),
        (None, every) => slot + every.expect("one of the two"),
    }
}

impl Reference {
    /// Runs a command of this family; `None` for all others.
    pub(super) fn schedule(&mut self, command: &Command) -> Option<Reply> {
        Some(match command {
            Command::UpsertCron(upsert) => Reply::Cron(Box::new(self.upsert(&upsert.cron))),
            Command::DeleteCron(delete) => {
                let before = self.crons.len();
                self.crons
                    .retain(|cron| cron.definition.name != delete.name);
                Reply::Flag(self.crons.len() < before)
            }
            Command::GetCron(get) => {
                let at = self.cron_named(&get.name);
                Reply::CronFound(at.map(|at| Box::new(self.crons[at].clone())))
            }
            Command::ListCrons(list) => {
                let mut crons = self.crons.clone();
                if let Some(page) = list.page {
                    crons.sort_by_key(|cron| {
                        let next_run = cron.figures.next_run.unwrap_or(Millis::MAX);
                        (next_run, Arc::clone(&cron.definition.name))
                    });
                    if !page.ascending {
                        crons.reverse();
                    }
                    let wanted =
                        |at: &usize| *at >= page.start && page.end.is_none_or(|end| *at <= end);
                    let places = (0..crons.len()).filter(wanted);
                    crons = places.map(|at| crons[at].clone()).collect();
                }
                Reply::Crons(crons)
            }
            _ => return None,
        })
    }

    fn cron_named(&self, name: &str) -> Option<usize> {
        self.crons
            .iter()
            .position(|cron| &*cron.definition.name == name)
    }

    /// Crons that will run again.
    pub(super) fn pending_crons(&self) -> usize {
        let pending = |cron: &&Cron| cron.figures.next_run.is_some();
        self.crons.iter().filter(pending).count()
    }

    fn upsert(&mut self, new: &NewCron) -> Cron {
        let definition = Arc::new(new.definition.clone());
        let known = self.cron_named(&definition.name);
        let at = known.unwrap_or_else(|| {
            self.crons.push(Cron {
                definition: Arc::clone(&definition),
                figures: CronFigures::default(),
            });
            self.crons.len() - 1
        });
        let old = std::mem::replace(&mut self.crons[at].definition, Arc::clone(&definition));
        let same_interval = old.schedule.is_none()
            && definition.schedule.is_none()
            && old.repeat_every == definition.repeat_every;
        if known.is_none() || !same_interval {
            self.crons[at].figures.next_run = Some(next_slot(&definition, self.now));
        }
        if new.replace_queued {
            self.forget_expired_keys();
            let key = key_of(&definition);
            let owner = self
                .keys
                .iter()
                .find(|entry| entry.queue == definition.queue && Some(&entry.key) == key.as_ref());
            let owner = owner.map(|entry| entry.owner.clone());
            if let Some(job) = owner.and_then(|id| self.find(&id))
                && matches!(self.jobs[job].place, Place::Queued)
                && self.state_at(job) != State::WaitingChildren
                && !self.is_awaited(&self.jobs[job].view.id)
            {
                let prev = self.state_at(job);
                self.emit_for(job, EventKind::Removed { prev });
                self.delete(job);
            }
        }
        if new.immediately && known.is_none() {
            self.fire(at, self.now);
        }
        self.crons[at].clone()
    }

    /// Slots that came while no process ran are gone, unless the cron makes up for one.
    pub(super) fn miss_slots(&mut self) {
        for cron in &mut self.crons {
            let definition = &cron.definition;
            if !definition.skip_missed_on_restart && !definition.skip_if_no_worker {
                continue;
            }
            if cron.figures.next_run.is_none_or(|slot| slot >= self.now) {
                continue;
            }
            while let Some(slot) = cron.figures.next_run.filter(|slot| *slot <= self.now) {
                cron.figures.next_run = Some(next_slot(definition, slot));
                cron.figures.missed += 1;
            }
        }
    }

    /// The slot of a cron has come.
    pub(super) fn fire(&mut self, at: usize, slot: Millis) {
        let definition = Arc::clone(&self.crons[at].definition);
        let executions = self.crons[at].figures.executions;
        if definition.max_limit.is_some_and(|max| executions >= max) {
            self.crons.remove(at);
            return;
        }
        let mut next = next_slot(&definition, slot);
        while next <= self.now {
            next = next_slot(&definition, next);
            self.crons[at].figures.missed += 1;
        }
        self.crons[at].figures.next_run = Some(next);
        if definition.skip_if_no_worker && !self.any_works_for(&definition.queue) {
            self.crons[at].figures.skipped += 1;
            return;
        }
        let mut job = definition.template.clone();
        let mut options = job.options.as_deref().cloned().unwrap_or_default();
        options.unique_key = key_of(&definition);
        job.options = Some(Arc::new(options));
        let derived = definition.prevent_overlap && own_key(&definition).is_none();
        if let Some(owner) = self.needed_owner(&definition.queue, &job) {
            self.emit_for(owner, EventKind::Duplicated);
            self.crons[at].figures.absorbed += 1;
            return;
        }
        let added = self.add_as(&definition.queue, &job, None);
        let added = added.expect("no bound of a group is given");
        if added.outcome == AddOutcome::Existing {
            self.crons[at].figures.absorbed += 1;
            return;
        }
        self.crons[at].figures.executions += 1;
        if let Some(job) = self.find(&added.id) {
            self.jobs[job].from_cron = derived;
        }
    }

    /// A queued job that the new one would replace although others wait for it.
    fn needed_owner(&mut self, queue: &Arc<str>, job: &NewJob) -> Option<usize> {
        let options = job
            .options
            .as_ref()
            .filter(|options| options.dedup.replace)?;
        self.forget_expired_keys();
        let mut keys = self.keys.iter();
        let entry = keys.find(|entry| {
            entry.queue == *queue && Some(&entry.key) == options.unique_key.as_ref()
        })?;
        let owner = self.find(&entry.owner)?;
        (self.is_awaited(&entry.owner) && matches!(self.jobs[owner].place, Place::Queued))
            .then_some(owner)
    }

    /// The worker of a delivery is lost: what a cron has brought under the key made from its name is deleted.
    pub(super) fn discard_lost(&mut self, at: usize) -> bool {
        let Place::Active(active) = &self.jobs[at].place else {
            return false;
        };
        if !self.jobs[at].from_cron {
            return false;
        }
        let id = self.jobs[at].view.id.clone();
        self.discarded
            .extend(active.token.map(|token| (token, id.clone())));
        let key = self.jobs[at].view.options.unique_key.clone();
        let name = key.as_ref().and_then(|key| key.strip_prefix("cron:"));
        if let Some(cron) = name.and_then(|name| self.cron_named(name)) {
            self.crons[cron].figures.lost += 1;
        }
        let prev = State::Active;
        self.emit_for(at, EventKind::Removed { prev });
        self.delete(at);
        true
    }

    /// A job has completed and its key is free: the next generation, if there is one, comes at once.
    pub(super) fn add_successor(&mut self, at: usize) {
        if self.jobs[at].successor.is_some() {
            return;
        }
        let view = self.jobs[at].view.clone();
        let Some(repeat) = &view.options.repeat else {
            return;
        };
        let Some(slot) = next_generation(repeat, self.now) else {
            return;
        };
        self.forget_expired_keys();
        let key = view.options.unique_key.as_ref();
        let taken = |entry: &super::Key| entry.queue == view.queue && Some(&entry.key) == key;
        if self.keys.iter().any(taken) {
            return;
        }
        let mut options = (*view.options).clone();
        options.blank_custom_id = false;
        options.repeat = Some(Box::new(Repeat {
            count: repeat.count + 1.0,
            prev_millis: Some(slot as f64),
            ..(**repeat).clone()
        }));
        let job = NewJob {
            name: view.name,
            data: view.data,
            custom_id: None,
            priority: view.priority,
            delay: slot - self.now,
            timestamp: None,
            max_attempts: view.max_attempts,
            lifo: view.lifo,
            remove_on_complete: view.remove_on_complete,
            remove_on_fail: view.remove_on_fail,
            durable: view.durable,
            options: Some(Arc::new(options)),
            ..NewJob::default()
        };
        let added = self.add_as(&view.queue, &job, None);
        let added = added.expect("no bound of a group is given");
        let at = self.find(&view.id).expect("it was just completed");
        self.jobs[at].successor = Some(added.id);
    }

    /// New data for a completed job goes to the generation that is still to run.
    pub(super) fn update_successor(&mut self, completed: usize, data: &Option<Payload>) -> Change {
        let mut at = completed;
        while matches!(self.jobs[at].place, Place::Completed) {
            let successor: Option<JobId> = self.jobs[at].successor.clone();
            let Some(next) = successor.and_then(|id| self.find(&id)) else {
                return Change::WrongState(State::Completed);
            };
            at = next;
        }
        if !matches!(self.jobs[at].place, Place::Queued) {
            return Change::WrongState(State::Completed);
        }
        self.jobs[at].view.data.clone_from(data);
        Change::Applied
    }
}

fn own_key(definition: &CronDefinition) -> Option<Arc<str>> {
    let options = definition.template.options.as_ref()?;
    options.unique_key.clone()
}

fn key_of(definition: &CronDefinition) -> Option<Arc<str>> {
    let derived = format!("cron:{}", definition.name);
    own_key(definition).or_else(|| definition.prevent_overlap.then(|| derived.into()))
}

/// The slot after a success; histories use whole milliseconds and no offset for patterns.
fn next_generation(repeat: &Repeat, now: Millis) -> Option<Millis> {
    if repeat.limit.is_some_and(|limit| repeat.count >= limit) {
        return None;
    }
    let whole = |ms: Option<f64>| ms.map(|ms| ms as Millis);
    let slot = match &repeat.timing {
        RepeatTiming::Every(every) => {
            let (every, offset) = (*every as Millis, whole(repeat.offset).unwrap_or(0));
            let mut slot = match (whole(repeat.prev_millis), whole(repeat.start_date)) {
                (Some(before), _) => before + every,
                (None, Some(start)) => start + offset,
                (None, None) => now + every + offset,
            };
            while slot < now {
                slot += every;
            }
            slot
        }
        RepeatTiming::Pattern(schedule) => {
            let start = whole(repeat.start_date).map_or(now, |start| start - 1);
            next_of_pattern(schedule.text(), now.max(start))
        }
    };
    (whole(repeat.end_date).is_none_or(|end| slot <= end)).then_some(slot)
}
