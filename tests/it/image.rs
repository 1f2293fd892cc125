//! A store in memory: the records as they would stand in tables. What it says about an engine has to hold for every other
//! store, too.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use bunqueue_mcp::command::flow::annotate;
use bunqueue_mcp::engine::{
    Body, Changes, Config, CronRecord, Effects, Engine, GroupRecord, JobId, JobRecord, LoadError,
    Loader, LogLine, MetricKind, Millis, MinuteRecord, Payload, ProofRecord, QueueRecord, State,
    TieRecord, Totals, WebhookRecord,
};
use bunqueue_mcp::storage::Store;
use tempfile::TempDir;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    pub totals: Totals,
    pub queues: BTreeMap<Arc<str>, QueueRecord>,
    pub groups: BTreeMap<(Arc<str>, Arc<str>), GroupRecord>,
    pub minutes: BTreeMap<(Arc<str>, MetricKind, u32), MinuteRecord>,
    pub proofs: BTreeMap<u64, ProofRecord>,
    pub webhooks: BTreeMap<u64, WebhookRecord>,
    pub crons: BTreeMap<u64, CronRecord>,
    pub jobs: BTreeMap<u64, JobRecord>,
    pub ties: BTreeMap<(u64, JobId), TieRecord>,
    pub logs: BTreeMap<(u64, u64), LogLine>,
    /// Data of jobs, which is only written when it has changed.
    data: BTreeMap<u64, Option<Payload>>,
}

impl Image {
    /// Everything that an engine has to tell, as a new store takes it.
    pub fn of(engine: &mut Engine) -> Self {
        // What is gone by now was never in this one.
        engine.take_changes();
        engine.mark_everything();
        let mut image = Self::default();
        image.apply(engine.take_changes());
        image
    }

    /// The same with delayed jobs that are due by then as what an engine makes of them.
    pub fn ripe(&self, now: Millis) -> Self {
        let mut ripe = self.clone();
        for record in ripe.jobs.values_mut() {
            if record.state == State::Delayed && record.run_at <= now {
                record.state = match record.priority > 0.0 {
                    true => State::Prioritized,
                    false => State::Waiting,
                };
            }
        }
        ripe
    }

    /// Whether another one holds the same, or the first difference in words.
    pub fn same_as(&self, other: &Self) -> Result<(), String> {
        same("totals", &self.totals, &other.totals)?;
        same_maps("queue", &self.queues, &other.queues)?;
        same_maps("group", &self.groups, &other.groups)?;
        same_maps("minute", &self.minutes, &other.minutes)?;
        same_maps("proof", &self.proofs, &other.proofs)?;
        same_maps("webhook", &self.webhooks, &other.webhooks)?;
        same_maps("cron", &self.crons, &other.crons)?;
        same_maps("job", &self.jobs, &other.jobs)?;
        same_maps("tie", &self.ties, &other.ties)?;
        same_maps("log", &self.logs, &other.logs)?;
        same_maps("data", &self.data, &other.data)
    }

    /// Whether an engine that begins with this has nothing to do at once but what any engine would.
    pub fn holds_everything(&self, now: Millis) -> bool {
        let idle = |record: &JobRecord| match record.state {
            State::Active => record.is_leased(now),
            // One whose retry was refused is looked at again at once.
            State::Failed => record.next_retry_at().is_none_or(|at| at > now),
            _ => true,
        };
        self.jobs.values().all(idle)
    }

    pub fn apply(&mut self, changes: Changes) {
        for seq in changes.gone_jobs {
            assert!(self.jobs.remove(&seq).is_some(), "the job {seq} was stored");
            self.data.remove(&seq);
            self.ties.retain(|(job, _), _| *job != seq);
            self.logs.retain(|(job, _), _| *job != seq);
        }
        for name in changes.gone_queues {
            self.queues.remove(&name);
            self.groups.retain(|(queue, _), _| *queue != name);
            self.minutes.retain(|(queue, ..), _| *queue != name);
        }
        for key in changes.gone_groups {
            self.groups.remove(&key);
        }
        for key in changes.gone_minutes {
            self.minutes.remove(&key);
        }
        for seq in changes.untied_jobs {
            self.ties.retain(|(job, _), _| *job != seq);
        }
        for key in changes.gone_ties {
            self.ties.remove(&key);
        }
        for number in changes.gone_proofs {
            self.proofs.remove(&number);
        }
        for place in changes.gone_crons {
            self.crons.remove(&place);
        }
        for place in changes.gone_webhooks {
            self.webhooks.remove(&place);
        }
        if let Some(totals) = changes.totals {
            self.totals = totals;
        }
        for record in changes.queues {
            self.queues.insert(Arc::clone(&record.name), record);
        }
        for record in changes.groups {
            let key = (Arc::clone(&record.queue), Arc::clone(&record.name));
            self.groups.insert(key, record);
        }
        for record in changes.minutes {
            let key = (Arc::clone(&record.queue), record.kind, record.minute);
            self.minutes.insert(key, record);
        }
        for record in changes.proofs {
            self.proofs.insert(record.number, record);
        }
        for record in changes.crons {
            self.crons.insert(record.place, record);
        }
        for record in changes.webhooks {
            self.webhooks.insert(record.place, record);
        }
        for mut record in changes.jobs {
            assert!(
                self.queues.contains_key(&record.queue),
                "the queue {} of a job was stored",
                record.queue
            );
            if record.body_changed {
                self.data.insert(record.seq, record.data.take());
            } else {
                let stored = self.jobs.get(&record.seq);
                let stored = stored.expect("a new job has a new body");
                assert_eq!(body(stored), body(&record), "a body that is not written");
            }
            assert!(
                record.is_new != self.jobs.contains_key(&record.seq),
                "new or known"
            );
            record.is_new = false;
            record.body_changed = false;
            record.data = None;
            self.jobs.insert(record.seq, record);
        }
        for record in changes.ties {
            self.ties.insert((record.job, record.other.clone()), record);
        }
        for record in changes.logs {
            self.logs
                .retain(|(job, line), _| *job != record.job || *line >= record.first);
            for line in record.lines {
                self.logs.insert((record.job, line.seq), line);
            }
        }
    }

    /// The bodies of completed jobs.
    pub fn bodies(&self, jobs: impl IntoIterator<Item = u64>) -> Vec<Body> {
        let body = |seq: u64| {
            let record = self.jobs.get(&seq)?;
            Some(Body {
                id: record.id.clone(),
                seq,
                data: self.data.get(&seq).cloned().flatten(),
                options: record.options.clone(),
                life: record.life.clone(),
                result: record.result.clone(),
            })
        };
        jobs.into_iter().filter_map(body).collect()
    }

    /// Those of all jobs.
    pub fn all_bodies(&self) -> Vec<Body> {
        self.bodies(self.jobs.keys().copied())
    }

    /// The engine that begins with this.
    pub fn load(
        &self,
        config: Config,
        seed: [u8; 32],
        now: Millis,
        effects: &mut Effects,
    ) -> Result<Engine, LoadError> {
        Ok(self.loader(config, seed, now)?.finish(effects))
    }

    /// What reads this.
    pub fn loader(&self, config: Config, seed: [u8; 32], now: Millis) -> Result<Loader, LoadError> {
        let mut loader = Loader::new(config, seed, now, annotate);
        loader.totals(self.totals);
        for record in self.queues.values() {
            loader.queue(record);
        }
        for record in self.groups.values() {
            loader.group(record);
        }
        for record in self.minutes.values() {
            loader.minute(record);
        }
        for record in self.proofs.values() {
            loader.proof(record.clone());
        }
        for record in self.webhooks.values() {
            loader.webhook(record.clone());
        }
        for record in self.crons.values() {
            loader.cron(record.clone());
        }
        let mut ties: BTreeMap<u64, Vec<TieRecord>> = BTreeMap::new();
        for tie in self.ties.values() {
            ties.entry(tie.job).or_default().push(tie.clone());
        }
        for (seq, record) in &self.jobs {
            let ties = ties.remove(seq).unwrap_or_default();
            let logs = self.logs.range((*seq, 0)..=(*seq, u64::MAX));
            let lines: VecDeque<LogLine> = logs.map(|(_, line)| line.clone()).collect();
            let mut record = record.clone();
            record.data = self.data.get(seq).cloned().flatten();
            loader.job(record, ties, lines)?;
        }
        Ok(loader)
    }
}

fn same<T: PartialEq + Debug>(what: &str, one: &T, other: &T) -> Result<(), String> {
    if one == other {
        return Ok(());
    }
    Err(format!(
        "what was stored differs in {what}:\n{one:?}\n{other:?}"
    ))
}

fn same_maps<K: Ord + Debug, V: PartialEq + Debug>(
    what: &str,
    one: &BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
) -> Result<(), String> {
    for key in one.keys().chain(other.keys()) {
        same(&format!("{what} {key:?}"), &one.get(key), &other.get(key))?;
    }
    Ok(())
}

/// A data file in a directory of its own.
pub struct Kept {
    directory: TempDir,
    store: Option<Store>,
}

impl Kept {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut kept = Self {
            directory,
            store: None,
        };
        kept.open();
        kept
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&mut self) {
        let path = self.path("queue.db");
        self.store = Some(Store::open(&path).expect("the file opens"));
    }

    /// Bytes of its write-ahead log.
    pub fn log_len(&self) -> u64 {
        let log = fs::metadata(self.path("queue.db-wal"));
        log.map_or(0, |log| log.len())
    }

    /// A copy of it whose log ends there.
    pub fn cut(&self, log_len: u64) -> Self {
        let cut = Self {
            directory: tempfile::tempdir().expect("a directory"),
            store: None,
        };
        fs::copy(self.path("queue.db"), cut.path("queue.db")).expect("a copy");
        if self.path("queue.db-wal").exists() {
            let to = cut.path("queue.db-wal");
            fs::copy(self.path("queue.db-wal"), &to).expect("a copy");
            let log = fs::OpenOptions::new().write(true).open(to);
            log.and_then(|log| log.set_len(log_len)).expect("cut");
        }
        cut
    }

    pub fn commit(&mut self, changes: &Changes) -> Result<(), String> {
        let store = self.store.as_mut().expect("the file is open");
        store
            .commit(changes, false)
            .map_err(|error| error.to_string())
    }

    /// The engine of a process that starts now.
    pub fn load(
        &mut self,
        config: Config,
        seed: [u8; 32],
        now: Millis,
        effects: &mut Effects,
    ) -> Result<Engine, String> {
        self.store = None;
        self.open();
        let store = self.store.as_ref().expect("the file is open");
        store
            .load(config, seed, now, effects)
            .map_err(|error| error.to_string())
    }
}

/// Where the engines of a test are kept while none runs.
pub enum Keep {
    Memory(Box<Image>),
    File(Box<Kept>),
}

impl Keep {
    pub fn memory() -> Self {
        Self::Memory(Box::default())
    }

    pub fn file() -> Self {
        Self::File(Box::new(Kept::new()))
    }

    /// The process of an engine ends once everything is stored that it has changed, and this is the one of the next.
    pub fn next(
        &mut self,
        mut engine: Engine,
        config: Config,
        seed: [u8; 32],
        now: Millis,
        effects: &mut Effects,
    ) -> Result<Engine, String> {
        let changes = engine.take_changes();
        drop(engine);
        match self {
            Self::Memory(image) => {
                image.apply(changes);
                let next = image.load(config, seed, now, effects);
                next.map_err(|fault| fault.to_string())
            }
            Self::File(file) => {
                file.commit(&changes)?;
                file.load(config, seed, now, effects)
            }
        }
    }
}

/// What of a job is written only when its record says that it has changed, but for the data.
fn body(record: &JobRecord) -> impl PartialEq + std::fmt::Debug {
    (
        record.id.clone(),
        Arc::clone(&record.queue),
        Arc::clone(&record.name),
        (record.created_at, record.max_attempts),
        (record.options.clone(), record.parent.clone()),
    )
}
