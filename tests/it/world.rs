//! An engine on simulated time with short words for what tests do to it. Time passes as in a broker: from deadline to
//! deadline, with a tick at each.

use std::collections::HashMap;
use std::sync::Arc;

use bunqueue_mcp::command::given::Text;
use bunqueue_mcp::command::schedule::CronDraft;
use bunqueue_mcp::command::{
    Ack, Add, AddMany, Cancel, Command, CommandError, Executed, ExtendLock, Fail, GetCounts,
    GetCron, GetJob, GetLogs, GetQueueDetail, GetResult, GetState, GetStats, GroupId, Heartbeat,
    MoveToWait, Operation, Pull, QueueName, Renew, UpsertCron, execute,
};
use bunqueue_mcp::engine::{
    Added, Caller, Change, Config, ConnectionId, Counts, Cron, Delivery, Effects, Engine, Event,
    EventKind, EventTypes, FailReport, Failure, JobDetail, JobId, JobOptions, LockToken, Millis,
    NewJob, Payload, PullGroup, QueueDetail, Renewal, Report, Served, State, TokenGiven, Totals,
    Turn, WaiterId, WebhookCall,
};

pub struct World {
    engine: Engine,
    pub now: Millis,
    /// Who asks from now on.
    pub caller: Caller,
    effects: Effects,
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
        Self {
            engine: Engine::new(config, [seed; 32]),
            now: 1_800_000_000_000,
            caller: None,
            effects: Effects {
                listening: true,
                ..Effects::default()
            },
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
        self.tick();
        let before = self.whole_state();
        let refusal = self
            .try_ask(operation)
            .expect_err("the command is refused")
            .to_string();
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
        std::mem::take(&mut self.effects.served)
    }

    /// What the wait was handed since the last look; `None` while it goes on.
    pub fn handed(&mut self, waiter: WaiterId) -> Option<Vec<Delivery>> {
        let at = self
            .effects
            .served
            .iter()
            .position(|(id, _)| *id == waiter)?;
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
        self.ask(GetStats).totals.since_start
    }

    pub fn queue_totals(&mut self, on: &str) -> Totals {
        self.detail_of(on).summary.totals.since_start
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
