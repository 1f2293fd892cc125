//! An engine on simulated time with short words for what tests do to it. Time passes as in a broker: from deadline to
//! deadline, with a tick at each.
//!
//! With the environment variable [`RESTARTS`] its process ends now and then between two commands, when nothing is there
//! that would end with it, and the next one begins with what it has told: `tests/it/restarted.rs` runs the suite so.

use std::collections::HashMap;
use std::sync::Arc;

use bunqueue_mcp::command::given::Text;
use bunqueue_mcp::command::schedule::CronDraft;
use bunqueue_mcp::command::{
    Ack, Add, AddMany, Cancel, Command, CommandError, Executed, ExtendLock, Fail, GetCounts,
    GetCron, GetJob, GetLogs, GetMemoryStats, GetQueueDetail, GetResult, GetState, GetStats,
    GroupId, Heartbeat, ListWorkers, MoveToWait, Operation, Pull, QueueName, Renew, Reply,
    UpsertCron, execute,
};
use bunqueue_mcp::engine::{
    Added, Caller, Change, Config, ConnectionId, Counts, Cron, Delivery, Effects, Engine, Event,
    EventKind, EventTypes, FailReport, Failure, JobDetail, JobId, JobOptions, LockToken, Millis,
    NewJob, Payload, PullGroup, QueueDetail, Renewal, Report, Served, State, TokenGiven, Totalled,
    Totals, Turn, WaiterId, WebhookCall,
};

use crate::image::Keep;

pub struct World {
    engine: Engine,
    pub now: Millis,
    /// Who asks from now on.
    pub caller: Caller,
    effects: Effects,
    config: Config,
    /// Processes that have ended so far.
    restarts: Restarts,
}

/// What comes between two commands of a test.
pub const RESTARTS: &str = "TEST_RESTARTS";

/// Ends of processes in one world; a file takes more time.
const ENDS_MAX: u8 = 12;
const ENDS_IN_FILE_MAX: u8 = 2;

/// The processes of a world: by default one that does not end by itself.
#[derive(Default)]
struct Restarts {
    /// Whether they end by themselves, and keep their engines in a file.
    random: Option<Random>,
    keep: Option<Keep>,
    ended: u8,
    seed: u8,
    /// Pulls and waits that may still be open.
    waiting: Vec<WaiterId>,
}

struct Random {
    in_file: bool,
    state: u64,
    commands: usize,
}

impl Restarts {
    fn by_environment(seed: u8) -> Self {
        let random = std::env::var(RESTARTS).ok().map(|keep| {
            // Each test has its own, and always the same.
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default().bytes();
            let state = name.fold(14_695_981_039_346_656_037_u64, |state, byte| {
                (state ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
            });
            Random {
                in_file: keep == "file" || (state >> 33).is_multiple_of(10),
                state,
                commands: 0,
            }
        });
        Self {
            random,
            seed,
            ..Self::default()
        }
    }

    /// The totals since the start; since the first one where processes end by themselves.
    const fn totals(&self, totals: Totalled) -> Totals {
        match self.random {
            Some(_) => totals.lifetime,
            None => totals.since_start,
        }
    }

    const fn are_wanted(&self) -> bool {
        self.random.is_some()
    }

    fn is_time(&mut self) -> bool {
        let Some(random) = &mut self.random else {
            return false;
        };
        random.commands += 1;
        let ends_max = match random.in_file {
            true => ENDS_IN_FILE_MAX,
            false => ENDS_MAX,
        };
        if self.ended >= ends_max {
            return false;
        }
        random.state = random
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random.state >> 33).is_multiple_of(3)
    }

    /// A restart with many jobs takes its time: the fewer there are the more of them.
    fn can_afford(&mut self, jobs: usize) -> bool {
        let Some(random) = &mut self.random else {
            return false;
        };
        let can = jobs <= 4 * random.commands;
        if can {
            random.commands = 0;
        }
        can
    }

    fn next(
        &mut self,
        engine: Engine,
        config: Config,
        now: Millis,
        effects: &mut Effects,
    ) -> Result<Engine, String> {
        let in_file = self.random.as_ref().is_some_and(|random| random.in_file);
        let keep = self.keep.get_or_insert_with(|| match in_file {
            true => Keep::file(),
            false => Keep::memory(),
        });
        // Each process has its own randomness.
        self.ended = self.ended.wrapping_add(1);
        let mut seed = [self.seed; 32];
        seed[0] = !self.ended;
        keep.next(engine, config, seed, now, effects)
    }
}

/// A job with every default.
pub fn job() -> NewJob {
    NewJob::default()
}

/// A job with a chosen id and every other default.
pub fn named(text: &str) -> NewJob {
    NewJob {
        custom_id: Some(id(text)),
        ..job()
    }
}

/// Changes the rare options of a job.
pub fn with(job: NewJob, change: impl FnOnce(&mut JobOptions)) -> NewJob {
    let mut options = job.options.as_deref().cloned().unwrap_or_default();
    change(&mut options);
    NewJob {
        options: Some(Arc::new(options)),
        ..job
    }
}

/// A job with a deduplication key.
pub fn keyed(job: NewJob, key: &str) -> NewJob {
    with(job, |options| options.unique_key = Some(key.into()))
}

/// A job of a group.
pub fn grouped(job: NewJob, group: &str) -> NewJob {
    with(job, |options| options.group_id = Some(group.into()))
}

pub fn id(text: &str) -> JobId {
    JobId::from_text(text)
}

pub fn queue(name: &str) -> QueueName {
    QueueName::lenient(name)
}

pub fn group(name: &str) -> GroupId {
    GroupId::required(Text::Value(name)).expect("the name of a group")
}

pub fn payload(byte: u8) -> Payload {
    Payload::new(&[byte])
}

pub fn given(token: Option<LockToken>) -> TokenGiven {
    token.map_or(TokenGiven::None, TokenGiven::Token)
}

/// An event in words: its name and its job.
pub fn words(event: &Event) -> String {
    match &event.job {
        Some(id) => format!("{} {id}", event.kind.name()),
        None => event.kind.name().to_owned(),
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(Config::default())
    }

    pub fn with(config: Config) -> Self {
        Self::seeded(config, 1)
    }

    pub fn seeded(config: Config, seed: u8) -> Self {
        let restarts = Restarts::by_environment(seed);
        let mut engine = Engine::new(config.clone(), [seed; 32]);
        if restarts.are_wanted() {
            engine.record();
        }
        Self {
            engine,
            now: 1_800_000_000_000,
            caller: None,
            effects: Effects {
                listening: true,
                ..Effects::default()
            },
            config,
            restarts,
        }
    }

    /// A world whose process may end.
    pub fn kept(config: Config) -> Self {
        let mut world = Self {
            restarts: Restarts::default(),
            ..Self::with(config)
        };
        world.engine.record();
        world
    }

    /// The process ends, and after a pause another one begins with what the first has told. What happens at once is among
    /// the effects.
    pub fn restart(&mut self, pause: Millis) {
        self.now += pause;
        let (config, now) = (self.config.clone(), self.now);
        let engine = std::mem::replace(&mut self.engine, Engine::new(config.clone(), [0; 32]));
        let next = self.restarts.next(engine, config, now, &mut self.effects);
        self.engine = next.expect("what an engine has told is what one begins with");
        self.check();
    }

    /// Ends the process before the next command if that is wanted, and if nothing is lost by it.
    fn restart_perhaps(&mut self) {
        if !self.restarts.is_time() {
            return;
        }
        // What is due happens before the end.
        let Executed::Done(Ok(Reply::Memory(memory))) = self.command(GetMemoryStats.into()) else {
            panic!("the engine says what it holds");
        };
        let Executed::Done(Ok(Reply::Workers(workers))) = self.command(ListWorkers.into()) else {
            panic!("the engine says who works");
        };
        let served = |waiter: &WaiterId| self.effects.served.iter().any(|(id, _)| id == waiter);
        self.restarts.waiting.retain(|waiter| !served(waiter));
        let ends_with_it = memory.client_jobs_total
            + (memory.processing_total - memory.job_locks)
            + workers.list.len()
            + self.restarts.waiting.len();
        if ends_with_it == 0 && self.restarts.can_afford(memory.job_index) {
            self.restart(0);
        }
    }

    /// An engine that exists already.
    pub fn of(engine: Engine, now: Millis) -> Self {
        Self {
            engine,
            now,
            ..Self::new()
        }
    }

    /// Speaks as a connection.
    pub fn as_connection(&mut self, number: u64) -> &mut Self {
        self.caller = Some(ConnectionId(number));
        self
    }

    pub fn execute(&mut self, command: Command) -> Executed {
        self.restart_perhaps();
        let executed = self.command(command);
        if let Executed::Waiting(waiter) = &executed {
            self.restarts.waiting.push(*waiter);
        }
        executed
    }

    fn command(&mut self, command: Command) -> Executed {
        let mut turn = Turn {
            now: self.now,
            caller: self.caller,
            effects: &mut self.effects,
        };
        execute(&mut self.engine, &mut turn, command)
    }

    /// The answer of a command that does not wait.
    pub fn try_ask<O: Operation>(&mut self, operation: O) -> Result<O::Reply, CommandError> {
        match self.execute(operation.into()) {
            Executed::Done(reply) => {
                reply.map(|reply| O::reply(reply).expect("the reply of this command"))
            }
            Executed::Waiting(waiter) => panic!("the command waits as {waiter:?}"),
        }
    }

    pub fn ask<O: Operation>(&mut self, operation: O) -> O::Reply {
        self.try_ask(operation).expect("the command is accepted")
    }

    /// The text with which a command is refused; nothing has changed then, in the whole engine.
    pub fn refusal<O: Operation>(&mut self, operation: O) -> String
    where
        O::Reply: std::fmt::Debug,
    {
        self.restart_perhaps();
        self.tick();
        let before = self.whole_state();
        let Executed::Done(reply) = self.command(operation.into()) else {
            panic!("the command waits");
        };
        let refusal = reply.expect_err("the command is refused").to_string();
        assert!(
            before == self.whole_state(),
            "refused, yet changed: {refusal}"
        );
        refusal
    }

    /// The parts of the engine agree with each other.
    pub fn check(&self) {
        self.engine.check().expect("the engine is sound");
    }

    /// Everything the engine holds, as text.
    pub fn whole_state(&self) -> String {
        format!("{:?}", self.engine)
    }

    /// A command that has to wait.
    pub fn wait<O: Operation>(&mut self, operation: O) -> WaiterId {
        match self.execute(operation.into()) {
            Executed::Waiting(waiter) => waiter,
            Executed::Done(reply) => panic!("the command does not wait: {reply:?}"),
        }
    }

    pub fn tick(&mut self) {
        self.act(Engine::tick);
    }

    pub fn act(&mut self, act: impl FnOnce(&mut Engine, &mut Turn<'_>)) {
        act(
            &mut self.engine,
            &mut Turn {
                now: self.now,
                caller: None,
                effects: &mut self.effects,
            },
        );
    }

    pub fn close(&mut self, connection: u64) {
        self.act(|engine, turn| engine.disconnect(turn, ConnectionId(connection)));
    }

    pub fn next_deadline(&self) -> Option<Millis> {
        self.engine.next_deadline()
    }

    /// Lets time pass, with a tick at every deadline on the way and one at the end.
    pub fn sleep(&mut self, ms: Millis) {
        let end = self.now + ms;
        while let Some(at) = self.engine.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.tick();
        }
        self.now = end;
        self.tick();
    }

    /// Events since the last look.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.effects.events)
    }

    pub fn event_words(&mut self) -> Vec<String> {
        self.events().iter().map(words).collect()
    }

    pub fn event_kinds(&mut self) -> Vec<EventKind> {
        self.events().into_iter().map(|event| event.kind).collect()
    }

    /// Nobody wants events from now on.
    pub fn nobody_listens(&mut self) {
        self.effects.listening = false;
    }

    /// Calls of webhooks that were left since the last look.
    pub fn calls(&mut self) -> Vec<WebhookCall> {
        std::mem::take(&mut self.effects.calls)
    }

    /// Waits that ended since the last look.
    pub fn served(&mut self) -> Vec<(WaiterId, Served)> {
        let served = std::mem::take(&mut self.effects.served);
        for (waiter, _) in &served {
            self.restarts.waiting.retain(|id| id != waiter);
        }
        served
    }

    /// What the wait was handed since the last look; `None` while it goes on.
    pub fn handed(&mut self, waiter: WaiterId) -> Option<Vec<Delivery>> {
        let at = self
            .effects
            .served
            .iter()
            .position(|(id, _)| *id == waiter)?;
        self.restarts.waiting.retain(|id| *id != waiter);
        match self.effects.served.remove(at).1 {
            Served::Pull(deliveries) => Some(deliveries),
            Served::Job(waited) => panic!("a pull ended with {waited:?}"),
        }
    }

    pub fn add(&mut self, on: &str, job: NewJob) -> Added {
        self.ask(Add {
            queue: queue(on),
            job,
        })
    }

    pub fn push(&mut self, on: &str, job: NewJob) -> JobId {
        self.add(on, job).id
    }

    pub fn push_many(&mut self, on: &str, jobs: Vec<NewJob>) -> Vec<JobId> {
        self.ask(AddMany {
            queue: queue(on),
            jobs,
        })
        .into_iter()
        .map(|added| added.id)
        .collect()
    }

    /// Adds or replaces a cron of queue `q`.
    pub fn upsert(&mut self, draft: &CronDraft<'_>) -> Cron {
        let cron = draft.check(&queue("q")).expect("the cron is acceptable");
        *self.ask(UpsertCron { cron })
    }

    pub fn try_cron(&mut self, name: &str) -> Option<Cron> {
        self.ask(GetCron { name: name.into() }).map(|cron| *cron)
    }

    pub fn cron(&mut self, name: &str) -> Cron {
        self.try_cron(name).expect("the cron exists")
    }

    /// A pull without owner, hence without lock.
    pub fn pull(&mut self, on: &str) -> Option<Delivery> {
        self.ask(pulling(on)).pop()
    }

    pub fn pull_lock(&mut self, on: &str, lock_ttl: f64) -> Option<Delivery> {
        self.ask(Pull {
            locked: true,
            lock_ttl,
            ..pulling(on)
        })
        .pop()
    }

    pub fn pull_batch(&mut self, on: &str, count: usize) -> Vec<Delivery> {
        self.ask(Pull {
            count,
            locked: true,
            ..pulling(on)
        })
    }

    /// The ids of everything that is ready, in the order of delivery.
    pub fn pull_all(&mut self, on: &str) -> Vec<String> {
        self.pull_batch(on, 1_000)
            .into_iter()
            .map(|delivery| delivery.job.id.to_string())
            .collect()
    }

    /// The ids that a pull of that many jobs gets, in order.
    pub fn pull_ids(&mut self, pull: Pull) -> Vec<String> {
        let deliveries = self.ask(pull);
        deliveries
            .iter()
            .map(|delivery| delivery.job.id.to_string())
            .collect()
    }

    pub fn try_ack(&mut self, id: &JobId, token: TokenGiven) -> Result<Report, CommandError> {
        self.try_ask(Ack {
            id: id.clone(),
            token,
            result: None,
            remove_on_complete: false,
        })
    }

    pub fn ack(&mut self, delivery: &Delivery) -> Report {
        self.try_ack(&delivery.job.id, given(delivery.token))
            .expect("the success is accepted")
    }

    pub fn try_fail(
        &mut self,
        id: &JobId,
        token: TokenGiven,
        error: &str,
    ) -> Result<Report, CommandError> {
        let report = FailReport {
            error: Some(error.into()),
            ..FailReport::default()
        };
        self.try_ask(Fail {
            id: id.clone(),
            token,
            report,
        })
    }

    pub fn fail(&mut self, delivery: &Delivery, error: &str) -> Report {
        self.try_fail(&delivery.job.id, given(delivery.token), error)
            .expect("the failure is accepted")
    }

    pub fn heartbeat(&mut self, id: &JobId, token: TokenGiven) -> Renewal {
        let item = Renew {
            id: id.clone(),
            token,
            duration: None,
        };
        self.ask(Heartbeat { items: vec![item] })[0]
    }

    pub fn extend(&mut self, id: &JobId, token: TokenGiven, duration: f64) -> Renewal {
        let item = Renew {
            id: id.clone(),
            token,
            duration: Some(duration),
        };
        self.ask(ExtendLock { items: vec![item] })[0]
    }

    pub fn move_to_wait(&mut self, id: &JobId, token: Option<LockToken>) -> Change {
        self.ask(MoveToWait {
            id: id.clone(),
            token: given(token),
        })
    }

    pub fn cancel(&mut self, id: &JobId) -> Change {
        self.ask(Cancel { id: id.clone() })
    }

    pub fn state(&mut self, id: &JobId) -> Option<State> {
        self.ask(GetState { id: id.clone() })
    }

    pub fn detail(&mut self, id: &JobId) -> JobDetail {
        *self.ask(GetJob { id: id.clone() }).expect("the job exists")
    }

    pub fn failure(&mut self, id: &JobId) -> Failure {
        self.detail(id).failure.expect("the job has failed")
    }

    pub fn result(&mut self, id: &JobId) -> Option<Payload> {
        self.ask(GetResult { id: id.clone() })
    }

    pub fn log_texts(&mut self, id: &JobId) -> Vec<String> {
        self.ask(GetLogs { id: id.clone() })
            .iter()
            .map(|line| line.message.to_string())
            .collect()
    }

    pub fn counts(&mut self, on: &str) -> Counts {
        self.ask(GetCounts { queue: queue(on) })
    }

    /// Totals over all queues.
    pub fn totals(&mut self) -> Totals {
        let totals = self.ask(GetStats).totals;
        self.restarts.totals(totals)
    }

    pub fn queue_totals(&mut self, on: &str) -> Totals {
        let totals = self.detail_of(on).summary.totals;
        self.restarts.totals(totals)
    }

    pub fn detail_of(&mut self, on: &str) -> QueueDetail {
        let (queue, previews) = (queue(on), None);
        *self.ask(GetQueueDetail { queue, previews })
    }

    /// From now on notices are wanted of these queues alone.
    pub fn watch(&mut self, queues: &[&str]) {
        let queues = queues.iter().map(|name| Arc::from(*name)).collect();
        self.act(|engine, turn| engine.watch(turn, queues));
    }

    /// From now on events are wanted of one queue alone, and only these.
    pub fn listen_only(&mut self, to: &str, types: EventTypes) {
        self.effects.only = Some(HashMap::from([(to.into(), types)]));
    }

    /// Everything a client can read of these jobs and queues, as text; equal texts mean equal states.
    pub fn dump(&mut self, queues: &[&str], jobs: &[JobId]) -> String {
        let mut text = String::new();
        for on in queues {
            text.push_str(&format!("{:?}\n", self.counts(on)));
        }
        for id in jobs {
            let detail = self.ask(GetJob { id: id.clone() });
            text.push_str(&format!("{detail:?} {:?}\n", self.log_texts(id)));
        }
        text
    }
}

/// A pull of one job without owner that does not wait.
pub fn pulling(on: &str) -> Pull {
    Pull {
        queue: queue(on),
        count: 1,
        wait: 0,
        locked: false,
        lock_ttl: 30_000.0,
        detach: false,
        group: None,
    }
}

/// A pull of that many jobs that says something of groups.
pub fn choosing(on: &str, count: usize, group: PullGroup) -> Pull {
    Pull {
        count,
        group: Some(Box::new(group)),
        ..pulling(on)
    }
}

/// The same, waiting.
pub fn awaiting(on: &str, wait: Millis) -> Pull {
    Pull {
        wait,
        ..pulling(on)
    }
}
