//! The real engine and the reference side by side: every step goes to both, and whatever they say must be equal.

use std::fmt::Debug;
use std::sync::Arc;

use bunqueue_mcp::command::{
    Command, Executed, GetChildFailures, GetChildrenValues, GetCounts, GetCountsPerPriority,
    GetDedupOwner, GetDlq, GetDlqConfig, GetDlqStats, GetFlow, GetJob, GetJobByCustomId, GetJobs,
    GetLogs, GetOverview, GetQueueDetail, GetQueueHealth, GetQueueMetrics, GetResult,
    GetStallConfig, GetState, IsPaused, ListCrons, ListQueueWorkers, ListQueues, ListWebhooks,
    ListWorkers, Pull, QueueName, Reply, execute,
};
use bunqueue_mcp::engine::{
    AddOutcome, Added, Caller, Change, Config, ConnectionId, CronPage, Delivery, DlqFilter,
    Effects, Engine, Event, EventKind, JobId, Listing, LockToken, MetricKind, Millis, QueueSummary,
    Served, Turn, WaiterId, WebhookCall,
};

use crate::image::{Image, Kept};

use super::reference::{Answer, Learned, Reference};
use super::step::{Clock, End, QUEUES, Scene, Step, What, all_of};

/// Unfinished jobs above which adds become pulls.
const LIVE_MAX: usize = 30;
/// Tokens remembered for being shown again.
const TOKENS_MAX: usize = 60;
/// Steps between two comparisons of everything.
const DUMP_EVERY: usize = 50;
/// Steps between two comparisons of everything with what is stored of it.
const DUMP_STORED_EVERY: usize = 150;
/// Steps between two comparisons of the parts of the engine with each other.
const CHECK_EVERY: usize = 4;
/// Of the refused commands, every how many are followed by such a comparison.
const DUMP_REFUSED: usize = 8;

pub type Check = Result<(), String>;

pub struct Pair {
    engine: Engine,
    model: Reference,
    /// What a store would hold of the engine.
    image: Image,
    /// A file that holds the same, when there is one.
    file: Option<Kept>,
    /// The model as of the last commit, when not every step is committed.
    stored: Option<Box<Reference>>,
    /// Processes so far, each with randomness of its own.
    processes: u64,
    seed: [u8; 32],
    config: Config,
    now: Millis,
    tokens: Vec<(JobId, LockToken)>,
    abandoned: Vec<WaiterId>,
    steps: usize,
    refusals: usize,
    /// Ms after which the name of an empty queue is forgotten.
    idle: Millis,
    /// What reading jitter has let happen: something that the step has made due at once.
    by_reading: Effects,
    /// What was done, in words; kept when somebody will read it.
    log: Option<Vec<String>>,
    /// The log tells what the engine answered, too.
    with_answers: bool,
}

/// What was stored at some time.
pub struct Moment {
    pub log_len: u64,
    image: Image,
}

/// An engine whose changes are stored.
fn recording(config: Config, seed: [u8; 32]) -> Engine {
    let mut engine = Engine::new(config, seed);
    engine.record();
    engine
}

impl Pair {
    pub fn new(config: Config, start: Millis, seed: [u8; 32]) -> Self {
        Self {
            idle: config.queue_idle,
            by_reading: Effects::default(),
            engine: recording(config.clone(), seed),
            image: Image::default(),
            file: None,
            stored: None,
            processes: 1,
            seed,
            config: config.clone(),
            model: Reference::new(config),
            now: start,
            tokens: Vec::new(),
            abandoned: Vec::new(),
            steps: 0,
            refusals: 0,
            log: None,
            with_answers: false,
        }
    }

    /// Keeps everything in a file, too.
    pub fn keeping(mut self) -> Self {
        self.file = Some(Kept::new());
        self
    }

    /// Commits when a step says so, and not after each.
    pub fn lagging(mut self) -> Self {
        self.stored = Some(Box::new(self.model.clone()));
        self
    }

    pub fn telling(mut self) -> Self {
        self.log = Some(Vec::new());
        self
    }

    /// Keeps a log of everything that goes in and comes out.
    pub fn recording(self) -> Self {
        Self {
            with_answers: true,
            ..self.telling()
        }
    }

    pub fn story(&self) -> &[String] {
        self.log.as_deref().unwrap_or_default()
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(log) = &mut self.log {
            log.push(format!("{now}: {}", what()));
        }
    }

    pub fn step(&mut self, step: &Step) -> Check {
        self.steps += 1;
        match step {
            Step::Clock(clock, ticks) => {
                self.move_clock(*clock);
                if *ticks { self.tick() } else { Ok(()) }
            }
            Step::Tick => self.tick(),
            Step::Do(caller, what) => {
                let scene = Scene {
                    model: &self.model,
                    tokens: &self.tokens,
                    now: self.now,
                };
                let command = self.bounded(what, what.resolve(&scene));
                self.command(caller.map(ConnectionId), &command)
            }
            Step::Close(number) => self.disconnect(ConnectionId(*number)),
            Step::Withdraw(number) => {
                if let Some(id) = self.nth_wait(*number) {
                    self.tell(|| format!("withdraw {id:?}"));
                    self.engine.cancel_wait(id);
                    self.model.cancel_wait(id);
                }
                Ok(())
            }
            Step::Abandon(number) => {
                let id = self.nth_wait(*number);
                self.tell(|| format!("abandon {id:?}"));
                self.abandoned.extend(id);
                Ok(())
            }
            Step::Commit => self.store_changes(),
            Step::Restart(end, pause) => self.restart(*end, *pause),
        }?;
        if self.stored.is_none() {
            self.store_changes()?;
        }
        if self.steps.is_multiple_of(CHECK_EVERY) {
            self.engine.check()?;
        }
        if self.steps.is_multiple_of(DUMP_EVERY) {
            self.compare_everything()?;
            if self.steps.is_multiple_of(DUMP_STORED_EVERY) {
                self.check_image()
            } else {
                Ok(())
            }
        } else {
            Ok(())
        }
    }

    /// The process ends and another one begins.
    fn restart(&mut self, end: End, pause: Millis) -> Check {
        self.tell(|| format!("{end:?}; the next process begins after {pause} ms"));
        match end {
            End::Stop => self.store_changes()?,
            End::Crash => match &self.stored {
                Some(stored) => self.model.clone_from(stored),
                // What this step has let happen is stored, as after each.
                None => self.store_changes()?,
            },
        }
        self.now += pause;
        self.processes += 1;
        let mut seed = self.seed;
        for (byte, part) in seed.iter_mut().rev().zip(self.processes.to_le_bytes()) {
            *byte ^= part;
        }
        let mut effects = Effects {
            listening: true,
            ..Effects::default()
        };
        let config = self.config.clone();
        self.engine = match &mut self.file {
            Some(file) => file.load(config, seed, self.now, &mut effects)?,
            None => {
                let loaded = self.image.load(config, seed, self.now, &mut effects);
                loaded.map_err(|fault| fault.to_string())?
            }
        };
        self.abandoned.clear();
        self.learn(None, None, &effects);
        self.model.restart(self.now);
        self.settle(effects)?;
        // Nobody hears of what a start has done before it is stored.
        self.store_changes()?;
        self.engine.check()?;
        self.compare_everything()
    }

    /// What was stored step by step is what there is, and an engine that begins with it is the same one.
    fn check_image(&mut self) -> Check {
        self.store_changes()?;
        self.engine.warm(self.image.all_bodies());
        let whole = Image::of(&mut self.engine);
        // That a delayed job is due is told by the clock, too.
        self.image.ripe(self.now).same_as(&whole)?;
        let mut other = self.loaded(&self.image)?;
        other.check()?;
        other.warm(self.image.all_bodies());
        let loaded = Image::of(&mut other);
        if self.image.holds_everything(self.now) {
            loaded.same_as(&whole)?;
        }
        if let Some(file) = &mut self.file {
            let (config, mut effects) = (self.config.clone(), Effects::default());
            let mut other = file.load(config, [7; 32], self.now, &mut effects)?;
            other.check()?;
            other.warm(self.image.all_bodies());
            Image::of(&mut other).same_as(&loaded)?;
        }
        Ok(())
    }

    /// What is stored now, and how long the log of the file is.
    pub fn moment(&self) -> Moment {
        let file = self.file.as_ref().expect("there is a file");
        Moment {
            log_len: file.log_len(),
            image: self.image.clone(),
        }
    }

    /// A file whose log was cut to that length holds what was stored then.
    pub fn check_cut(&self, log_len: u64, moment: &Moment) -> Check {
        let file = self.file.as_ref().expect("there is a file");
        let mut cut = file.cut(log_len);
        let (config, mut effects) = (self.config.clone(), Effects::default());
        let mut found = cut.load(config, [7; 32], self.now, &mut effects)?;
        found.check()?;
        found.warm(moment.image.all_bodies());
        let mut expected = self.loaded(&moment.image)?;
        expected.warm(moment.image.all_bodies());
        Image::of(&mut found).same_as(&Image::of(&mut expected))
    }

    /// An engine that would begin with this now.
    fn loaded(&self, image: &Image) -> Result<Engine, String> {
        let (config, mut effects) = (self.config.clone(), Effects::default());
        let loaded = image.load(config, [7; 32], self.now, &mut effects);
        loaded.map_err(|fault| fault.to_string())
    }

    fn store_changes(&mut self) -> Check {
        if let Some(stored) = &mut self.stored {
            **stored = self.model.clone();
        }
        let changes = self.engine.take_changes();
        if let Some(file) = &mut self.file {
            file.commit(&changes)?;
        }
        self.image.apply(changes);
        self.engine.chill();
        Ok(())
    }

    fn nth_wait(&self, number: u64) -> Option<WaiterId> {
        let ids = self.model.waiter_ids();
        ids.get(number as usize % ids.len().max(1)).copied()
    }

    fn move_clock(&mut self, clock: Clock) {
        self.now = match (clock, self.engine.next_deadline()) {
            (Clock::Ms(ms), _) => self.now + ms,
            (Clock::Deadline { before }, Some(at)) => self.now.max(at - Millis::from(before)),
            (Clock::Deadline { .. }, None) => self.now + 1,
        };
        self.tell(|| "the clock has moved".to_owned());
    }

    /// Keeps the population small: above the bound an add becomes a pull.
    fn bounded(&self, what: &What, command: Command) -> Command {
        let (What::Add(..) | What::AddMany(..) | What::AddFlow(..)) = what else {
            return command;
        };
        let live = QUEUES.iter().map(|queue| self.model.counts(queue));
        if live
            .map(|counts| counts.total() - counts.completed - counts.failed)
            .sum::<usize>()
            < LIVE_MAX
        {
            return command;
        }
        let queue = QueueName::lenient(QUEUES[self.steps % QUEUES.len()]);
        Pull {
            queue,
            count: 5,
            wait: 0,
            locked: true,
            lock_ttl: 2_000.0,
            detach: false,
            group: None,
        }
        .into()
    }

    /// One command to both.
    pub fn command(&mut self, caller: Caller, command: &Command) -> Check {
        self.tell(|| format!("{caller:?} {command:?}"));
        let (executed, effects) = self.ask_engine(caller, command);
        let (actual, reply, waiter) = match executed {
            Executed::Done(reply) => (Answer::Done(reply.clone()), reply.ok(), None),
            Executed::Waiting(waiter) => (Answer::Waiting, None, Some(waiter)),
        };
        self.learn(reply.as_ref(), waiter, &effects);
        // What was due came first, and its jitter may show in the answer.
        self.model.tick(self.now);
        self.take_over_jitter()?;
        let expected = self.model.execute(self.now, caller, command);
        let actual = self.comparable(command, actual);
        match &actual {
            Answer::Done(Ok(Reply::Names(names))) => self.model.check_names(names)?,
            actual => equal("answer", &expected, actual)?,
        }
        self.settle(effects)?;
        if is_refusal(&actual) {
            self.refusals += 1;
            if self.refusals.is_multiple_of(DUMP_REFUSED) {
                return self.compare_everything();
            }
        }
        Ok(())
    }

    /// An answer without what the contract leaves open: names of queues that hold nothing, and how many deadlines the
    /// engine needs.
    fn comparable(&self, command: &Command, mut answer: Answer) -> Answer {
        let in_use = |queues: &mut Vec<QueueSummary>| {
            queues.retain(|queue| self.model.is_in_use(&queue.name));
            queues.sort_by_key(|queue| Arc::clone(&queue.name));
        };
        match &mut answer {
            Answer::Done(Ok(Reply::Summaries(queues))) => in_use(queues),
            Answer::Done(Ok(Reply::Overview(overview))) => {
                in_use(&mut overview.queues);
                overview.memory.temporal_index_total = 0;
            }
            Answer::Done(Ok(Reply::Memory(memory))) => memory.temporal_index_total = 0,
            Answer::Done(Ok(Reply::Health(health))) => {
                if let Command::GetQueueHealth(get) = command {
                    health.exists &= self.model.is_in_use(get.queue.as_str());
                }
            }
            _ => {}
        }
        answer
    }

    fn ask_engine(&mut self, caller: Caller, command: &Command) -> (Executed, Effects) {
        let mut effects = Effects {
            listening: true,
            ..Effects::default()
        };
        let is_told_of_memory = matches!(
            command,
            Command::GetMemoryStats(_) | Command::GetOverview(_)
        );
        if is_told_of_memory {
            self.engine.warm(self.image.all_bodies());
        }
        let executed = loop {
            let mut turn = Turn {
                now: self.now,
                caller,
                effects: &mut effects,
            };
            let executed = execute(&mut self.engine, &mut turn, command.clone());
            let missed = self.engine.missed();
            if missed.is_empty() {
                break executed;
            }
            assert!(command.may_miss(), "{command:?} misses {missed:?}");
            self.engine.warm(self.image.bodies(missed));
        };
        if self.with_answers {
            self.tell(|| format!("{executed:?} {effects:?}"));
        }
        (executed, effects)
    }

    pub fn tick(&mut self) -> Check {
        self.tell(|| "tick".to_owned());
        let effects = self.act(Engine::tick);
        self.learn(None, None, &effects);
        self.model.tick(self.now);
        self.settle(effects)?;
        match self.engine.next_deadline() {
            Some(at) if at <= self.now => Err(format!(
                "after a tick at {} the next deadline is {at}",
                self.now
            )),
            // What nobody can see is that the names of queues without jobs are forgotten.
            Some(at) if self.model.is_idle() && at > self.now + self.idle => {
                Err(format!("nothing is timed, but the next deadline is {at}"))
            }
            _ => Ok(()),
        }
    }

    fn act(&mut self, act: impl FnOnce(&mut Engine, &mut Turn<'_>)) -> Effects {
        let mut effects = Effects {
            listening: true,
            ..Effects::default()
        };
        act(
            &mut self.engine,
            &mut Turn {
                now: self.now,
                caller: None,
                effects: &mut effects,
            },
        );
        if self.with_answers {
            self.tell(|| format!("{effects:?}"));
        }
        effects
    }

    pub fn disconnect(&mut self, connection: ConnectionId) -> Check {
        self.tell(|| format!("{connection:?} closes"));
        let effects = self.act(|engine, turn| engine.disconnect(turn, connection));
        self.learn(None, None, &effects);
        self.model.disconnect(self.now, connection);
        self.settle(effects)
    }

    /// Remembers what only the engine can know before the model repeats the step.
    fn learn(&mut self, reply: Option<&Reply>, waiter: Option<WaiterId>, effects: &Effects) {
        let ids = match reply {
            Some(Reply::Added(added)) => vec![added.id.clone()],
            Some(Reply::AddedMany(many)) => many.iter().map(|added| added.id.clone()).collect(),
            Some(Reply::FlowAdded(jobs)) => jobs.iter().map(|job| job.id.clone()).collect(),
            _ => Vec::new(),
        };
        let registered = match reply {
            Some(Reply::Worker(view)) => Some(Arc::clone(&view.id)),
            Some(Reply::Webhook(view)) => Some(Arc::clone(&view.id)),
            _ => None,
        };
        self.model.learned = Learned {
            ids: ids.into(),
            registered,
            waiter,
            ..Learned::default()
        };
        self.learn_deliveries(reply, effects);
    }

    fn learn_deliveries(&mut self, reply: Option<&Reply>, effects: &Effects) {
        let mut deliveries: Vec<&Delivery> = Vec::new();
        for (_, served) in &effects.served {
            if let Served::Pull(list) = served {
                deliveries.extend(list);
            }
        }
        if let Some(Reply::Pulled(list)) = reply {
            deliveries.extend(list);
        }
        let deliveries: Vec<_> = deliveries
            .iter()
            .map(|delivery| (delivery.job.id.clone(), delivery.serial, delivery.token))
            .collect();
        self.tokens.extend(
            deliveries
                .iter()
                .filter_map(|(id, _, token)| token.map(|token| (id.clone(), token))),
        );
        if self.with_answers {
            // The debug form of a token hides it.
            self.tell(|| {
                format!(
                    "tokens {:?}",
                    deliveries
                        .iter()
                        .map(|(_, _, token)| token.map(|token| token.to_string()))
                        .collect::<Vec<_>>()
                )
            });
        }
        let surplus = self.tokens.len().saturating_sub(TOKENS_MAX);
        self.tokens.drain(..surplus);
        let learned = &mut self.model.learned;
        learned.deliveries.extend(deliveries);
        // Jobs that the reply does not tell of have come by themselves.
        let new = |added: &&Added| added.outcome != AddOutcome::Existing;
        let asked: Vec<&JobId> = match reply {
            Some(Reply::Added(added)) => Some(added)
                .into_iter()
                .filter(new)
                .map(|it| &it.id)
                .collect(),
            Some(Reply::AddedMany(many)) => many.iter().filter(new).map(|it| &it.id).collect(),
            Some(Reply::FlowAdded(jobs)) => jobs.iter().map(|job| &job.id).collect(),
            _ => Vec::new(),
        };
        let pushed = effects
            .events
            .iter()
            .filter(|event| event.kind == EventKind::Pushed)
            .filter_map(|event| event.job.clone());
        learned
            .born
            .extend(pushed.filter(|id| !asked.contains(&id)));
    }

    /// Takes over jitter, lets happen what the step has made due at once, compares effects, returns what nobody reads, and
    /// looks at the deadline.
    fn settle(&mut self, mut effects: Effects) -> Check {
        self.take_over_jitter()?;
        let mut at_once = self.act(Engine::tick);
        self.learn_deliveries(None, &at_once);
        self.model.tick(self.now);
        effects.events.append(&mut self.by_reading.events);
        effects.served.append(&mut self.by_reading.served);
        effects.events.append(&mut at_once.events);
        effects.served.append(&mut at_once.served);
        effects.calls.append(&mut self.by_reading.calls);
        effects.calls.append(&mut at_once.calls);
        let (events, served) = (
            std::mem::take(&mut self.model.events),
            std::mem::take(&mut self.model.served),
        );
        compare_events(&events, &effects.events)?;
        let calls = by_strand(std::mem::take(&mut self.model.calls));
        equal("calls of webhooks", &calls, &by_strand(effects.calls))?;
        let by_waiter = |mut served: Vec<(WaiterId, Served)>| {
            served.sort_by_key(|(waiter, _)| *waiter);
            served
        };
        let served = by_waiter(served);
        equal("served waits", &served, &by_waiter(effects.served))?;
        for (waiter, served) in served {
            if let (true, Served::Pull(deliveries)) = (self.abandoned.contains(&waiter), served) {
                self.abandoned.retain(|id| *id != waiter);
                self.give_back(&deliveries)?;
            }
        }
        match (self.model.next_visible(), self.engine.next_deadline()) {
            (Some(due), Some(at)) if at <= due.at => Ok(()),
            (None, _) => Ok(()),
            (due, at) => Err(format!("next deadline is {at:?}, but this is due: {due:?}")),
        }
    }

    fn give_back(&mut self, deliveries: &[Delivery]) -> Check {
        self.tell(|| "what was handed over goes back".to_owned());
        let effects = self.act(|engine, turn| engine.give_back(turn, deliveries));
        self.learn(None, None, &effects);
        self.model.give_back(self.now, deliveries);
        self.settle(effects)
    }

    /// Retry times have a random part: the model knows the bounds, the engine the time.
    fn take_over_jitter(&mut self) -> Check {
        for at in 0..self.model.jobs.len() {
            let Some((earliest, latest)) = self.model.jobs[at].jitter.take() else {
                continue;
            };
            let id = self.model.jobs[at].view.id.clone();
            let (executed, effects) = self.ask_engine(None, &GetJob { id: id.clone() }.into());
            self.learn_deliveries(None, &effects);
            self.by_reading.events.extend(effects.events);
            self.by_reading.served.extend(effects.served);
            self.by_reading.calls.extend(effects.calls);
            match executed {
                Executed::Done(Ok(Reply::Job(Some(detail))))
                    if (earliest..=latest).contains(&detail.job.run_at) =>
                {
                    self.model.jobs[at].view.run_at = detail.job.run_at;
                }
                // The command has moved or deleted it since; if not, the next comparison shows the wrong time.
                _ => {}
            }
        }
        Ok(())
    }

    /// Everything that can be read is equal on both sides, and the counts add up.
    pub fn compare_everything(&mut self) -> Check {
        self.tick()?;
        let mut commands: Vec<Command> = vec![
            ListQueues.into(),
            GetOverview::ALL.into(),
            ListWorkers.into(),
            ListWebhooks.into(),
        ];
        for queue in QUEUES {
            let name = QueueName::lenient(queue);
            commands.push(
                GetCounts {
                    queue: name.clone(),
                }
                .into(),
            );
            commands.push(
                GetCountsPerPriority {
                    queue: name.clone(),
                }
                .into(),
            );
            commands.extend(all_of(&name));
            commands.push(
                ListQueueWorkers {
                    queue: name.clone(),
                }
                .into(),
            );
            commands.push(
                GetDlq {
                    queue: name.clone(),
                    filter: DlqFilter::default(),
                }
                .into(),
            );
            commands.push(
                GetQueueHealth {
                    queue: name.clone(),
                }
                .into(),
            );
            for kind in [MetricKind::Completed, MetricKind::Failed] {
                let (queue, start, end) = (name.clone(), 0, usize::MAX);
                commands.push(
                    GetQueueMetrics {
                        queue,
                        kind,
                        start,
                        end,
                    }
                    .into(),
                );
            }
            let (queue_name, previews) = (name.clone(), Some(3));
            commands.push(
                GetQueueDetail {
                    queue: queue_name,
                    previews,
                }
                .into(),
            );
            commands.push(
                GetDlqStats {
                    queue: name.clone(),
                }
                .into(),
            );
            commands.push(
                GetDlqConfig {
                    queue: name.clone(),
                }
                .into(),
            );
            commands.push(
                GetStallConfig {
                    queue: name.clone(),
                }
                .into(),
            );
            commands.push(IsPaused { queue: name }.into());
            let listing = Listing {
                queue: queue.into(),
                buckets: Vec::new(),
                after: None,
                offset: 0,
                limit: usize::MAX,
                ascending: true,
            };
            commands.push(GetJobs { listing }.into());
        }
        commands.push(ListCrons { page: None }.into());
        for ascending in [true, false] {
            let (start, end) = (usize::from(ascending), Some(1));
            let page = CronPage {
                start,
                end,
                ascending,
            };
            commands.push(ListCrons { page: Some(page) }.into());
        }
        for (queue, key) in self.model.key_names() {
            commands.push(
                GetDedupOwner {
                    queue: QueueName::lenient(&queue),
                    key,
                }
                .into(),
            );
        }
        for id in self
            .model
            .jobs
            .iter()
            .map(|job| job.view.id.clone())
            .collect::<Vec<_>>()
        {
            commands.push(GetState { id: id.clone() }.into());
            commands.push(GetJob { id: id.clone() }.into());
            commands.push(GetJobByCustomId { id: id.clone() }.into());
            commands.push(GetResult { id: id.clone() }.into());
            commands.push(GetChildrenValues { id: id.clone() }.into());
            commands.push(GetChildFailures { id: id.clone() }.into());
            for queue in QUEUES {
                let (id, queue, depth, children) = (id.clone(), queue.into(), 9, 9);
                commands.push(
                    GetFlow {
                        id,
                        queue,
                        depth,
                        children,
                    }
                    .into(),
                );
            }
            commands.push(GetLogs { id }.into());
        }
        let mut counted = 0;
        for command in commands {
            let (executed, effects) = self.ask_engine(None, &command);
            let Executed::Done(actual) = executed else {
                return Err(format!("{command:?} waits"));
            };
            if let Ok(Reply::Counts(counts)) = &actual {
                counted += counts.total();
            }
            let expected = self.model.execute(self.now, None, &command);
            match &actual {
                Ok(Reply::Names(names)) => self.model.check_names(names)?,
                _ => equal(
                    "dump",
                    &expected,
                    &self.comparable(&command, Answer::Done(actual)),
                )
                .map_err(|text| format!("{text}\n  in {command:?}"))?,
            }
            let calls = effects.calls.len();
            if !effects.events.is_empty() || !effects.served.is_empty() || calls > 0 {
                return Err(format!("reading has effects: {effects:?}"));
            }
        }
        self.model.check()?;
        equal("sum of all counts", &self.model.jobs.len(), &counted)
    }
}

/// Equal events in an equal order, as far as the contract orders them: those of one job, those of a queue as a whole,
/// and the deliveries of a queue.
fn compare_events(expected: &[Event], actual: &[Event]) -> Check {
    let strand = |event: &Event| (Arc::clone(&event.queue), event.job.clone());
    let mut strands: Vec<_> = expected.iter().chain(actual).map(strand).collect();
    strands.sort();
    strands.dedup();
    for wanted in strands {
        let of = |events: &[Event]| {
            events
                .iter()
                .filter(|event| strand(event) == wanted)
                .cloned()
                .collect::<Vec<_>>()
        };
        equal("events", &of(expected), &of(actual))?;
    }
    let deliveries = |events: &[Event]| {
        let mut pulled: Vec<_> = events
            .iter()
            .filter(|event| event.kind == EventKind::Pulled)
            .map(strand)
            .collect();
        // The order of queues is nobody's business; a stable sort keeps the order within each.
        pulled.sort_by(|one, two| one.0.cmp(&two.0));
        pulled
    };
    equal(
        "order of deliveries",
        &deliveries(expected),
        &deliveries(actual),
    )
}

/// Calls of one webhook about one job keep their order; the contract orders no others.
fn by_strand(mut calls: Vec<WebhookCall>) -> Vec<WebhookCall> {
    calls.sort_by_key(|call| {
        let (id, event) = (Arc::clone(&call.target.id), &call.event);
        (id, Arc::clone(&event.queue), event.job.clone())
    });
    calls
}

fn is_refusal(answer: &Answer) -> bool {
    match answer {
        Answer::Done(Err(_)) => true,
        Answer::Done(Ok(Reply::Changed(change))) => *change != Change::Applied,
        _ => false,
    }
}

/// Equal, or an account of where the two texts part.
pub fn equal<T: PartialEq + Debug>(what: &str, expected: &T, actual: &T) -> Check {
    if expected == actual {
        return Ok(());
    }
    let (expected, actual) = (format!("{expected:?}"), format!("{actual:?}"));
    let common = expected
        .chars()
        .zip(actual.chars())
        .take_while(|(one, two)| one == two)
        .count();
    let part = |text: &str, skip: usize, take: usize| {
        text.chars().skip(skip).take(take).collect::<String>()
    };
    let (from, shared) = (common.saturating_sub(400), common.min(400));
    Err(format!(
        "{what} differ after\n    {}\n  model:  {}\n  engine: {}",
        part(&expected, from, shared),
        part(&expected, common, 400),
        part(&actual, common, 400)
    ))
}
