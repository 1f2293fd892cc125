//! Target `broker`: what several clients say, done by an engine on simulated time, and every reply and event written.
//!
//! Two engines of the same seed hear the same commands, but for those that the first refuses; so a refusal that changes
//! anything, or a history that depends on more than its commands, shows when their states are compared.

use std::collections::{BTreeSet, HashMap};

use bunqueue_mcp::command::{Command, CommandError, Executed, Reply, execute};
use bunqueue_mcp::engine::{
    Caller, Config, ConnectionId, Delivery, Effects, Engine, Event, EventKind, Millis, Overview,
    Served, Turn, WaiterId,
};
use bunqueue_mcp::metrics::{self, Process};
use bunqueue_mcp::wire::reply::{self, Memory, Surroundings};
use bunqueue_mcp::wire::{Action, Decoder, Envelope, ReqId, SessionAction, Shape, event};

use super::reply as judge;
use super::state::{parts, print};
use super::step::{CONNECTIONS, Pause, Step, What};
use crate::tcp::value::{self, Wire};

/// Jobs above which an engine is no longer looked at as a whole, since that would be all that is done.
const COMPARED_JOBS_MAX: usize = 1_000;
/// Bytes of replies after which an input is over: whoever asks again and again for many jobs gets much by few bytes.
const SAID_MAX: usize = 4_194_304;

/// Plays one input.
pub fn run(input: &[u8]) {
    let mut scene = Scene::new();
    let mut rest = input;
    let mut steps: usize = 0;
    while let Some((step, after)) = Step::read(rest) {
        scene.play(&step);
        steps += 1;
        if steps.is_power_of_two() {
            scene.check();
        }
        if scene.said > SAID_MAX {
            break;
        }
        rest = after;
    }
    scene.compare();
    for conn in 0..CONNECTIONS {
        scene.close(conn);
    }
    scene.check();
}

/// Surroundings that never change, at a time.
pub struct Quiet(pub Millis);

impl Surroundings for Quiet {
    fn now(&self) -> Millis {
        self.0
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }

    fn exposition(&self, overview: &Overview) -> String {
        metrics::render(overview, &Process::default(), 1)
    }
}

/// Small bounds, so that short inputs reach them.
fn config() -> Config {
    Config {
        completed_retention: Some(600_000),
        completed_max: 20,
        results_max: 6,
        logged_jobs_max: 3,
        proofs_max: 6,
        dlq_max: 8,
        forgotten_max: 4,
        settings_max: 6,
        journal_max: 20,
        metric_points_max: 20,
        ..Config::default()
    }
}

/// One of the two engines.
struct Side {
    engine: Engine,
    effects: Effects,
    waits: BTreeSet<WaiterId>,
}

impl Side {
    fn new() -> Self {
        Self {
            engine: Engine::new(config(), [1; 32]),
            effects: Effects {
                listening: true,
                ..Effects::default()
            },
            waits: BTreeSet::new(),
        }
    }

    fn act<R>(
        &mut self,
        now: Millis,
        caller: Caller,
        act: impl FnOnce(&mut Engine, &mut Turn<'_>) -> R,
    ) -> R {
        let mut turn = Turn {
            now,
            caller,
            effects: &mut self.effects,
        };
        act(&mut self.engine, &mut turn)
    }

    fn execute(&mut self, now: Millis, caller: Caller, command: Command) -> Executed {
        let executed = self.act(now, caller, |engine, turn| execute(engine, turn, command));
        if let Executed::Waiting(waiter) = executed {
            self.waits.insert(waiter);
        }
        executed
    }

    /// What happened, and the waits that ended; jobs for a wait that was withdrawn go back, and calls of webhooks succeed.
    fn settle(&mut self, now: Millis) -> (Vec<Event>, Vec<(WaiterId, Served)>) {
        let mut ended = Vec::new();
        loop {
            let served = std::mem::take(&mut self.effects.served);
            let calls = std::mem::take(&mut self.effects.calls);
            if served.is_empty() && calls.is_empty() {
                return (std::mem::take(&mut self.effects.events), ended);
            }
            for call in calls {
                self.act(now, None, |engine, turn| {
                    engine.report_webhook(turn, &call.target.id, true)
                });
            }
            for (waiter, served) in served {
                if self.waits.remove(&waiter) {
                    ended.push((waiter, served));
                } else if let Served::Pull(deliveries) = served {
                    self.act(now, None, |engine, turn| {
                        engine.give_back(turn, &deliveries)
                    });
                }
            }
        }
    }
}

/// A request that waits.
struct Asked {
    conn: u8,
    req_id: ReqId,
    shape: Shape,
}

/// Names that the server gave, in order.
#[derive(Default)]
struct Given {
    jobs: Vec<String>,
    tokens: Vec<String>,
    workers: Vec<String>,
    webhooks: Vec<String>,
}

impl Given {
    fn learn(&mut self, reply: &Reply) {
        match reply {
            Reply::Pulled(deliveries) => self.learn_tokens(deliveries),
            Reply::Worker(worker) => self.workers.push(worker.id.to_string()),
            Reply::Webhook(webhook) => self.webhooks.push(webhook.id.to_string()),
            _ => {}
        }
    }

    fn learn_tokens(&mut self, deliveries: &[Delivery]) {
        let tokens = deliveries.iter().filter_map(|delivery| delivery.token);
        self.tokens.extend(tokens.map(|token| token.to_string()));
    }

    /// What a text stands for, if it is a placeholder.
    fn meant(&self, text: &[u8]) -> Option<&String> {
        let inner = text.strip_prefix(b"<")?.strip_suffix(b">")?;
        let (kind, number) = std::str::from_utf8(inner).ok()?.split_once(':')?;
        let names = match kind {
            "id" => &self.jobs,
            "token" => &self.tokens,
            "worker" => &self.workers,
            "webhook" => &self.webhooks,
            _ => return None,
        };
        names.get(number.parse::<usize>().ok()?.checked_sub(1)?)
    }

    /// Puts names in the place of placeholders; whether there were any.
    fn fill(&self, value: &mut Wire) -> bool {
        match value {
            Wire::Str(bytes) => match self.meant(bytes) {
                Some(name) => {
                    *bytes = name.as_bytes().to_vec();
                    true
                }
                None => false,
            },
            Wire::Array(items) => items
                .iter_mut()
                .fold(false, |filled, item| self.fill(item) | filled),
            Wire::Map(entries) => entries.iter_mut().fold(false, |filled, (key, value)| {
                self.fill(key) | self.fill(value) | filled
            }),
            _ => false,
        }
    }
}

/// Clients and the engine between them.
pub struct Scene {
    now: Millis,
    first: Side,
    second: Side,
    decoders: [Decoder; CONNECTIONS as usize],
    asked: HashMap<WaiterId, Asked>,
    given: Given,
    /// Some client has used integers of 64 bits.
    wide: bool,
    /// The first engine has refused something.
    refused: bool,
    /// Bytes of replies.
    said: usize,
}

impl Scene {
    pub fn new() -> Self {
        Self {
            now: 1_800_000_000_000,
            first: Side::new(),
            second: Side::new(),
            decoders: Default::default(),
            asked: HashMap::new(),
            given: Given::default(),
            wide: false,
            refused: false,
            said: 0,
        }
    }

    fn play(&mut self, step: &Step) {
        self.pass(step.pause);
        match &step.what {
            What::Frame(body) => {
                self.hear(step.conn, body);
            }
            What::Close => self.close(step.conn),
            What::Withdraw => {
                let oldest = self.waits_of(step.conn).into_iter().min();
                oldest.into_iter().for_each(|waiter| self.withdraw(waiter));
            }
            What::Nothing => {}
        }
        self.settle();
    }

    fn pass(&mut self, pause: Pause) {
        match pause {
            Pause::Ms(ms) => self.now += ms,
            Pause::Deadline => {
                let next = self.first.engine.next_deadline();
                self.now = self.now.max(next.unwrap_or(self.now));
            }
        }
        for side in [&mut self.first, &mut self.second] {
            side.act(self.now, None, Engine::tick);
        }
        self.settle();
    }

    /// What a connection sends, and the reply unless it comes later.
    pub fn hear(&mut self, conn: u8, body: &[u8]) -> Option<Vec<u8>> {
        let filled = self.filled(body);
        let body = filled.as_deref().unwrap_or(body);
        let mut out = Vec::new();
        let envelope = match Envelope::read(body) {
            Ok(envelope) => envelope,
            Err(unusable) => {
                reply::refuse(&mut out, &unusable.req_id, unusable.text);
                return Some(self.judge(&out, &unusable.req_id));
            }
        };
        let action = self.decoders[usize::from(conn)].decode(&envelope);
        let req_id = envelope.into_req_id();
        match action {
            Action::Command(command, shape) => return self.command(conn, command, req_id, shape),
            Action::Answered(answer, shape) => {
                reply::answer(&mut out, &req_id, &shape, &Ok(answer), &Quiet(self.now));
            }
            Action::Refused(error) => reply::refuse(&mut out, &req_id, &error.to_string()),
            Action::Unknown(text) => reply::refuse(&mut out, &req_id, &text),
            Action::Session(SessionAction::Hello) => reply::hello(&mut out, &req_id),
            Action::Session(SessionAction::Ping) => reply::pong(&mut out, &req_id, self.now),
            Action::Session(_) => reply::done(&mut out, &req_id),
        }
        Some(self.judge(&out, &req_id))
    }

    /// The frame with names in the place of placeholders; `None` when there are none.
    fn filled(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        let mut decoded = value::decode(body).ok()?;
        self.wide |= decoded.wide;
        self.given
            .fill(&mut decoded.value)
            .then(|| decoded.value.encode())
    }

    fn command(
        &mut self,
        conn: u8,
        command: Command,
        req_id: ReqId,
        shape: Shape,
    ) -> Option<Vec<u8>> {
        let caller = Some(ConnectionId(u64::from(conn)));
        let again = command.clone();
        match self.first.execute(self.now, caller, command) {
            Executed::Waiting(waiter) => {
                self.second.execute(self.now, caller, again);
                let asked = Asked {
                    conn,
                    req_id,
                    shape,
                };
                self.asked.insert(waiter, asked);
                None
            }
            Executed::Done(answer) => {
                match &answer {
                    Ok(reply) => {
                        self.second.execute(self.now, caller, again);
                        self.given.learn(reply);
                    }
                    Err(_) => self.refused = true,
                }
                Some(self.answer(&req_id, &shape, &answer))
            }
        }
    }

    fn answer(
        &mut self,
        req_id: &ReqId,
        shape: &Shape,
        answer: &Result<Reply, CommandError>,
    ) -> Vec<u8> {
        let internal = matches!(answer, Err(CommandError::Internal));
        assert!(!internal, "{shape:?} does not know what to answer");
        let mut out = Vec::new();
        let fits = reply::answer(&mut out, req_id, shape, answer, &Quiet(self.now));
        assert!(fits, "too large");
        let said = self.judge(&out, req_id);
        // Somebody's data may say so, too; the reply itself must not.
        let decoded = value::decode(&said).expect("a reply is a value").value;
        let error = Wire::text(&CommandError::Internal.to_string());
        assert!(
            decoded.get("error") != Some(&error),
            "{shape:?} does not fit {answer:?}"
        );
        said
    }

    /// A reply, which is in order, without its header.
    fn judge(&mut self, said: &[u8], req_id: &ReqId) -> Vec<u8> {
        self.said += said.len();
        judge::check(said, req_id, self.wide);
        judge::body(said).to_vec()
    }

    /// Tells what happened and answers who has waited.
    fn settle(&mut self) {
        let (events, ended) = self.first.settle(self.now);
        self.second.settle(self.now);
        for event in events {
            if let (EventKind::Pushed, Some(id)) = (&event.kind, &event.job) {
                self.given.jobs.push(id.to_string());
            }
            judge::check_event(&event::encode(&event), self.wide);
        }
        for (waiter, served) in ended {
            let asked = self.asked.remove(&waiter).expect("somebody asked");
            let answer = Ok(match served {
                Served::Pull(deliveries) => Reply::Pulled(deliveries),
                Served::Job(waited) => Reply::Waited(waited),
            });
            answer.iter().for_each(|reply| self.given.learn(reply));
            self.answer(&asked.req_id, &asked.shape, &answer);
        }
    }

    fn waits_of(&self, conn: u8) -> BTreeSet<WaiterId> {
        let own = self.asked.iter().filter(|(_, asked)| asked.conn == conn);
        own.map(|(waiter, _)| *waiter).collect()
    }

    fn withdraw(&mut self, waiter: WaiterId) {
        self.asked.remove(&waiter);
        for side in [&mut self.first, &mut self.second] {
            side.waits.remove(&waiter);
            side.engine.cancel_wait(waiter);
        }
    }

    fn close(&mut self, conn: u8) {
        for waiter in self.waits_of(conn) {
            self.withdraw(waiter);
        }
        for side in [&mut self.first, &mut self.second] {
            side.act(self.now, None, |engine, turn| {
                engine.disconnect(turn, ConnectionId(u64::from(conn)));
            });
        }
        self.decoders[usize::from(conn)] = Decoder::default();
        self.settle();
    }

    /// The engine is sound.
    pub fn check(&self) {
        if self.given.jobs.len() <= COMPARED_JOBS_MAX {
            self.first.engine.check().expect("a sound engine");
        }
    }

    /// It is sound, and what it refused has changed nothing.
    fn compare(&self) {
        self.check();
        if !self.refused || self.given.jobs.len() > COMPARED_JOBS_MAX {
            return;
        }
        let (first, second) = (&self.first.engine, &self.second.engine);
        if print(first) != print(second) {
            let (first, second) = (parts(first), parts(second));
            let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
                let parts = one.difference(other).cloned();
                parts.collect::<Vec<_>>()
            };
            panic!(
                "a refusal changed something:\n{:?}\nbut was\n{:?}",
                only(&first, &second),
                only(&second, &first)
            );
        }
    }
}
