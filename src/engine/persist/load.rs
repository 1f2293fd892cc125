//! An engine from what a store holds (engine contract, section 24.4).

use std::collections::VecDeque;
use std::sync::Arc;

use thiserror::Error;

use super::super::figures::Totals;
use super::super::figures::minutes::Minute;
use super::super::flow::Annotate;
use super::super::id::JobId;
use super::super::job::{LogLine, State};
use super::super::link::Links;
use super::super::queue::{KeyOwner, QueueKey};
use super::super::store::{Job, JobKey};
use super::super::{Config, Effects, Engine, Millis, Turn};
use super::record::{
    CronRecord, GroupRecord, JobRecord, KeyRecord, MinuteRecord, ProofRecord, QueueRecord,
    TieRecord, WebhookRecord,
};

/// What a store holds is not what an engine has left there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// Two jobs have one id.
    #[error("two jobs have the id {0}")]
    DuplicateId(JobId),
    /// An active job without a delivery, a completed or failed one without an end.
    #[error("the job {id} is {state} but has no such history", state = .state.name())]
    Inconsistent {
        /// The job.
        id: JobId,
        /// Its state.
        state: State,
    },
}

/// Takes in records and becomes an engine. First queues, then groups and minutes (in order of minute), proofs (in order of
/// number), webhooks, crons; then jobs, in order of admission.
#[derive(Debug)]
pub struct Loader {
    engine: Engine,
    annotate: Annotate,
    completed: Vec<(u64, JobKey)>,
    /// Active jobs that no lock protects.
    unlocked: Vec<JobKey>,
    crons: Vec<CronRecord>,
}

impl Loader {
    /// An engine that begins at `now`, still without anything. `annotate` writes the ties of a job into its data, as that
    /// of [`Engine::add`].
    pub fn new(config: Config, seed: [u8; 32], now: Millis, annotate: Annotate) -> Self {
        let mut engine = Engine::new(config, seed);
        engine.now = now;
        engine.instant = now;
        engine.figures.start(now);
        engine.heard_since = now;
        engine.record();
        Self {
            engine,
            annotate,
            completed: Vec::new(),
            unlocked: Vec::new(),
            crons: Vec::new(),
        }
    }

    /// What all queues together have counted.
    pub const fn totals(&mut self, totals: Totals) {
        self.engine.figures.restore(totals);
    }

    /// A queue.
    pub fn queue(&mut self, record: &QueueRecord) {
        let engine = &mut self.engine;
        let key = engine.queues.open(&record.name);
        if let Some(place) = record.listed {
            engine.queues.restore_listed(key, place);
        }
        let queue = engine.queues.get_mut(key);
        queue.paused = record.paused;
        queue.dlq = record.dlq.map(Box::new);
        queue.stall = record.stall.map(Box::new);
        queue.ready.set_in_turn(record.in_turn);
        queue.figures.restore(
            record.totals,
            record.journal,
            record.last_completed_at,
            record.last_failed_at,
        );
        let rate = record.rate.map(|rate| (rate, record.rate_ends_at));
        engine.load_limits(key, rate, record.concurrency);
        engine.queues.sort_settings(key);
    }

    /// What is set for a group.
    pub fn group(&mut self, record: &GroupRecord) {
        self.engine.load_group(record);
    }

    /// The count of a minute.
    pub fn minute(&mut self, record: &MinuteRecord) {
        let key = self.engine.queues.open(&record.queue);
        let minute = Minute::from_number(record.minute);
        self.engine
            .restore_minute(key, record.kind, minute, record.count);
    }

    /// That a job has completed which is kept no more.
    pub fn proof(&mut self, record: ProofRecord) {
        let proofs = &mut self.engine.dependencies.proofs;
        proofs.restore(record.number, record.id);
    }

    /// A webhook.
    pub fn webhook(&mut self, record: WebhookRecord) {
        self.engine.webhooks.restore(record);
    }

    /// A cron.
    pub fn cron(&mut self, record: CronRecord) {
        self.crons.push(record);
    }

    /// A job with its ties and its log, oldest line first.
    ///
    /// # Errors
    /// [`LoadError`], when it contradicts itself or another one.
    pub fn job(
        &mut self,
        record: JobRecord,
        ties: Vec<TieRecord>,
        log: VecDeque<LogLine>,
    ) -> Result<(), LoadError> {
        let engine = &mut self.engine;
        if engine.store.find(&record.id).is_some() {
            return Err(LoadError::DuplicateId(record.id));
        }
        check_history(&record)?;
        let queue = engine.queues.open(&record.queue);
        let (state, key_record) = (record.state, record.key);
        engine.next_job = engine.next_job.max(record.seq.saturating_add(1));
        let links = self.annotate;
        let links = links_of(&record, ties, links);
        let name = engine.names.take(&record.name);
        let key = engine.store.insert(job_of(record, queue, name, links));
        if !log.is_empty() {
            engine.retention.restore_log(key, log);
        }
        own(engine, key, key_record);
        engine.note_trail(key);
        if state.is_live() {
            engine.load_ties(key);
        }
        match state {
            State::Active => {
                engine.load_active(key);
                if engine.store.job(key).token().is_none() {
                    self.unlocked.push(key);
                }
            }
            State::Completed => {
                let done_seq = engine.done(key).seq;
                self.completed.push((done_seq, key));
                self.keep_few_bodies(done_seq, key);
            }
            State::Failed => engine.load_failed(key),
            State::Waiting | State::Prioritized | State::Delayed | State::WaitingChildren => {
                engine.enqueue(key);
            }
        }
        Ok(())
    }

    /// Of the completed jobs only as many bodies stay as may, so that a long history needs no more memory while it is read
    /// than afterwards.
    fn keep_few_bodies(&mut self, done_seq: u64, key: JobKey) {
        let engine = &mut self.engine;
        engine.cold.enter(done_seq, key);
        if let Some(key) = engine.cold.surplus(engine.config.completed_in_memory_max) {
            engine.let_body_go(key);
        }
    }

    /// The engine, with everything done that was due by then. Deliveries whose lock still holds go on, those whose lock ran
    /// out meanwhile end as at any other time, and those without a lock have cost their jobs an attempt. What that changes
    /// is to be stored before anything else is told, and before what it leaves in `effects` gets out.
    pub fn finish(mut self, effects: &mut Effects) -> Engine {
        let unlocked = std::mem::take(&mut self.unlocked);
        self.begin(effects, unlocked)
    }

    /// As [`Loader::finish`], for the process that has handed out what is active: its workers are there, so deliveries
    /// without a lock go on as well.
    pub fn go_on(self, effects: &mut Effects) -> Engine {
        self.begin(effects, Vec::new())
    }

    fn begin(mut self, effects: &mut Effects, interrupted: Vec<JobKey>) -> Engine {
        let engine = &mut self.engine;
        engine.order_minutes();
        self.completed.sort_unstable();
        for (_, key) in std::mem::take(&mut self.completed) {
            engine.load_completed(key);
        }
        engine.all_kept();
        let mut turn = Turn {
            now: engine.now,
            caller: None,
            effects,
        };
        engine.bound_completed(&mut turn);
        let queues: Vec<QueueKey> = engine.queues.all().map(|(key, _)| key).collect();
        for queue in &queues {
            engine.bound_dead_letters(&mut turn, *queue);
        }
        for CronRecord { place, cron } in std::mem::take(&mut self.crons) {
            engine.load_cron(place, cron);
        }
        for key in interrupted {
            engine.interrupt(&mut turn, key);
        }
        for queue in queues {
            engine.note_idle(queue);
        }
        engine.tick(&mut turn);
        self.engine
    }
}

/// Whether a job has what its state says.
fn check_history(record: &JobRecord) -> Result<(), LoadError> {
    let life = record.life.as_ref().map(|life| &life.0);
    let consistent = match record.state {
        State::Active => life.is_some_and(|life| life.run.is_some()),
        State::Completed => life.is_some_and(|life| life.completed_at.is_some()),
        State::Failed => life.is_some_and(|life| life.failure.is_some()),
        State::Waiting | State::Prioritized | State::Delayed | State::WaitingChildren => {
            life.is_none_or(|life| life.run.is_none() && life.failure.is_none())
        }
    };
    if consistent {
        return Ok(());
    }
    Err(LoadError::Inconsistent {
        id: record.id.clone(),
        state: record.state,
    })
}

fn links_of(record: &JobRecord, ties: Vec<TieRecord>, annotate: Annotate) -> Option<Box<Links>> {
    if ties.is_empty() && record.parent.is_none() && !record.parked && !record.unwritten {
        return None;
    }
    let mut links = Links {
        parent: record.parent.clone(),
        parked: record.parked,
        unwritten: record.unwritten.then_some(annotate),
        ..Links::default()
    };
    for tie in ties {
        let other = tie.other;
        if let Some(place) = tie.dependency {
            links.depends_on.put_at(place, other.clone(), ());
        }
        if let Some(place) = tie.child {
            links.children.put_at(place, other.clone(), ());
        }
        if tie.unmet {
            links.unmet.insert(other.clone());
        }
        if let Some((place, failure)) = tie.failure {
            links.failures.put_at(place, other.clone(), failure);
        }
        if let Some(value) = tie.value {
            links.values.insert(other, value);
        }
    }
    Some(Box::new(links))
}

fn job_of(
    record: JobRecord,
    queue: QueueKey,
    name: super::super::name::NameKey,
    links: Option<Box<Links>>,
) -> Job {
    let result = record.result;
    let life = record.life.map(|life| life.with_result(result));
    Job {
        id: record.id,
        queue,
        name,
        data: record.data,
        seq: record.seq,
        priority: record.priority,
        created_at: record.created_at,
        run_at: record.run_at,
        attempts: record.attempts,
        max_attempts: record.max_attempts,
        state: record.state,
        admitted_as: record.admitted_as,
        has_custom_id: record.has_custom_id,
        lifo: record.lifo,
        remove_on_complete: record.remove_on_complete,
        remove_on_fail: record.remove_on_fail,
        durable: record.durable,
        gone_if_lost: record.gone_if_lost,
        options: record.options,
        links,
        life,
    }
}

/// Gives a job its deduplication key back, unless that is free by now.
fn own(engine: &mut Engine, key: JobKey, record: KeyRecord) {
    let expires_at = match record {
        KeyRecord::NotOwned => return,
        KeyRecord::Owned => None,
        KeyRecord::OwnedUntil(at) => Some(at),
    };
    let job = engine.store.job(key);
    let options = job.options.as_ref();
    if let Some(unique_key) = options.and_then(|options| options.unique_key.as_ref()) {
        let owner = KeyOwner {
            job: key,
            expires_at,
        };
        let keys = &mut engine.queues.get_mut(job.queue).keys;
        keys.insert(Arc::clone(unique_key), owner);
    }
}
