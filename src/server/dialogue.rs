//! One client's conversation, without its socket: frames in, replies and events out, in order.
//!
//! Commands that follow each other are applied together, so that a full read costs one turn of the
//! broker. Their answers are due in that order and encoded while there is room within the write budget;
//! until then they wait as they came from the broker, with payloads that are shared, and no further frame
//! is taken. Events caused by a command are written before its reply when the subscriber is the same
//! connection (tcp protocol section 4).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::broker::{Broker, EventFilter, PublishedEvent, Submitted, Subscription};
use crate::command::bounds::{AUTH_FRAME_MAX, FRAME_MAX};
use crate::command::{Command, CommandError, Fail, Reply};
use crate::engine::{ConnectionId, Delivery, FailReport, Millis, Overview, TokenGiven};
use crate::metrics::{self, Process};
use crate::wire::frame::{self, Front, HEADER_LEN};
use crate::wire::reply::{Memory, Surroundings};
use crate::wire::{Action, Decoder, Envelope, ReqId, SessionAction, Shape, event, reply};

use super::ServerOptions;
use super::auth::Tokens;
use super::frame_limit::FrameWindow;
use super::holding::Holding;
use super::outbox::Outbox;
use super::parked::{Answered, Asked, Parked};
use super::refusal::{Refusals, Refused};

/// Weight of the commands applied in one turn of the broker, whose lock others wait for; then others get theirs.
const RUN_MAX: usize = 128;
/// Bytes of replies after which they leave before more frames are taken.
const PORTION_BYTES: usize = 262_144;

/// How long a command holds the broker, in single commands: batches by their entries, and what looks at a whole queue
/// fills a turn alone.
fn weight(command: &Command) -> usize {
    match command {
        Command::AddMany(add) => add.jobs.len(),
        Command::AckMany(ack) => ack.items.len(),
        Command::Pull(pull) => pull.count,
        Command::Heartbeat(beat) => beat.items.len(),
        Command::ExtendLock(extend) => extend.items.len(),
        Command::AddFlow(flow) => flow.jobs.len(),
        Command::GetJobs(_)
        | Command::GetCountsPerPriority(_)
        | Command::GetDlq(_)
        | Command::GetDlqStats(_)
        | Command::GetChildrenValues(_)
        | Command::GetChildFailures(_)
        | Command::ListQueues(_)
        | Command::ListWorkers(_)
        | Command::GetStats(_)
        | Command::GetQueueMetrics(_)
        | Command::GetOverview(_)
        | Command::ListQueueSummaries(_)
        | Command::GetQueueDetail(_)
        | Command::ListCrons(_)
        | Command::PromoteMany(_)
        | Command::RetryDlq(_)
        | Command::RetryCompleted(_)
        | Command::PurgeDlq(_)
        | Command::SetDlqConfig(_)
        | Command::RemoveUnprocessedChildren(_)
        | Command::CompactMemory(_)
        | Command::Drain(_)
        | Command::Clean(_)
        | Command::Obliterate(_) => RUN_MAX,
        _ => 1,
    }
}

/// What all connections share.
pub(super) struct Door {
    pub(super) broker: Arc<dyn Broker>,
    pub(super) options: ServerOptions,
    pub(super) tokens: Tokens,
    pub(super) refusals: Refusals,
}

impl Surroundings for Door {
    fn now(&self) -> Millis {
        self.broker.now()
    }

    fn memory(&self) -> Memory {
        let process = Process::now();
        Memory {
            heap: process.heap.unwrap_or_default(),
            resident: process.resident.unwrap_or_default(),
        }
    }

    fn exposition(&self, overview: &Overview) -> String {
        let connections = self.broker.connections();
        metrics::render(overview, &Process::now(), connections)
    }
}

/// What is left of received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing.
    Nothing,
    /// The beginning of a frame.
    Partial {
        /// Bytes that it lacks at least.
        missing: usize,
    },
    /// Frames that are to be taken once replies have left.
    More,
    /// Frames that are to be taken once parked requests have been answered, or what is due has been said.
    Full,
    /// A frame that nobody accepts; the connection ends.
    TooLarge,
}

/// Something to be said in its turn.
pub(super) enum Due {
    /// The answer to a command.
    Answer(Answered),
    /// A refusal with this text.
    Refusal(ReqId, Cow<'static, str>),
    /// What the session is asked itself. It is done in its turn too, which is before any later frame is taken.
    Session(ReqId, SessionAction),
}

/// A conversation. Dropping it gives back what was not said, withdraws its waits, then tells the broker that its
/// client is gone.
pub(super) struct Dialogue<'d> {
    door: &'d Door,
    /// For the log.
    peer: SocketAddr,
    decoder: Decoder,
    authenticated: bool,
    /// Bytes still to come of a frame that has been refused unread.
    passing: usize,
    window: Option<FrameWindow>,
    /// Requests of the current run and their commands, in step.
    asked: Vec<Asked>,
    commands: Vec<Command>,
    /// Their weight together.
    load: usize,
    answers: Vec<Submitted>,
    /// What may be said once what it tells is stored, in order; what comes behind it waits as well.
    pub(super) held: Holding<Due>,
    /// What is to be said, each with the number of events that have to be told before it.
    due: VecDeque<(u64, Due)>,
    /// Bytes that may wait encoded; one frame more begins below it.
    budget: usize,
    pub(super) out: Outbox,
    pub(super) events: Option<Subscription>,
    /// Events told so far.
    told: u64,
    pub(super) parked: Parked,
    /// After `parked`: fields are dropped in order.
    attachment: Option<Attachment<'d>>,
}

/// The connection as the broker knows it.
struct Attachment<'d> {
    broker: &'d dyn Broker,
    id: ConnectionId,
}

impl Drop for Attachment<'_> {
    fn drop(&mut self) {
        self.broker.disconnect(self.id);
    }
}

impl<'d> Dialogue<'d> {
    pub(super) fn new(door: &'d Door, peer: SocketAddr) -> Self {
        let broker = &*door.broker;
        let id = broker.connect();
        Self {
            door,
            peer,
            decoder: Decoder::default(),
            authenticated: !door.tokens.required(),
            passing: 0,
            window: door.options.frame_limit.map(FrameWindow::new),
            asked: Vec::new(),
            commands: Vec::new(),
            load: 0,
            answers: Vec::new(),
            held: Holding::default(),
            due: VecDeque::new(),
            budget: door.options.write_budget_bytes.unwrap_or(usize::MAX),
            out: Outbox::default(),
            events: None,
            told: 0,
            parked: Parked::default(),
            attachment: Some(Attachment { broker, id }),
        }
    }

    /// Whether more may be encoded.
    pub(super) fn has_room(&self) -> bool {
        self.out.len() < self.budget()
    }

    /// Bytes that may wait encoded. A stranger only gets refusals, and room for few of them.
    fn budget(&self) -> usize {
        if self.authenticated {
            self.budget
        } else {
            self.budget.min(PORTION_BYTES)
        }
    }

    /// Whether nothing waits to be encoded.
    pub(super) fn has_said_all(&self) -> bool {
        self.due.is_empty()
    }

    /// Says what was held for that.
    pub(super) fn release(&mut self, stored: &Result<(), CommandError>) {
        let held = self.held.release();
        let behind = self.events.as_ref().map_or(0, Subscription::behind);
        let after = self.told + behind as u64;
        for due in held {
            let due = match (due, stored) {
                (Due::Answer((asked, Ok(_))), Err(error)) => {
                    Due::Answer((asked, Err(error.clone())))
                }
                (due, _) => due,
            };
            self.due.push_back((after, due));
        }
        self.speak();
    }

    /// Takes frames from the front of received bytes and answers them, after what is due from earlier
    /// ones; also says how many bytes that were and what the rest is.
    pub(super) fn take_frames(&mut self, received: &[u8]) -> (usize, Rest) {
        self.speak();
        let enough = self.out.len() + PORTION_BYTES;
        let mut left = received;
        let rest = loop {
            if self.passing > 0 {
                let passed = self.passing.min(left.len());
                self.passing -= passed;
                left = left.get(passed..).unwrap_or_default();
                if self.passing > 0 {
                    let missing = self.passing;
                    break Rest::Partial { missing };
                }
            }
            let is_full = self.load >= RUN_MAX;
            if is_full || !self.parked.has_room(self.asked.len()) {
                self.apply_run();
            }
            if is_full && !left.is_empty() {
                break Rest::More;
            }
            match frame::front(left) {
                _ if left.is_empty() => break Rest::Nothing,
                Front::Partial { missing }
                    if self.authenticated || left.len() <= AUTH_FRAME_MAX =>
                {
                    break Rest::Partial { missing };
                }
                Front::Partial { .. } if !self.due.is_empty() => break Rest::Full,
                Front::Partial { missing } => {
                    // Whoever may only say who it is gets no room for more than that.
                    self.refuse_unread(left.get(HEADER_LEN..).unwrap_or_default());
                    self.passing = missing;
                    left = &[];
                    break Rest::Partial { missing };
                }
                Front::TooLarge { announced } => {
                    let text =
                        format!("Frame too large: {announced} bytes exceeds maximum {FRAME_MAX}");
                    self.say(Due::Refusal(ReqId::NONE, text.into()));
                    break Rest::TooLarge;
                }
                Front::Frame { .. }
                    if !self.parked.has_room(0) || !self.due.is_empty() || self.held.is_full() =>
                {
                    break Rest::Full;
                }
                Front::Frame { .. } if self.out.len() > enough => break Rest::More,
                Front::Frame { body, rest } => {
                    self.take(body);
                    left = rest;
                }
            }
        };
        self.apply_run();
        (received.len() - left.len(), rest)
    }

    /// Counts a frame; whether the budget of frames admits it.
    fn admit(&mut self) -> bool {
        self.window
            .as_mut()
            .is_none_or(|window| window.admit(Instant::now()))
    }

    /// Refuses a frame of a stranger by its beginning.
    fn refuse_unread(&mut self, beginning: &[u8]) {
        let req_id = ReqId::of_beginning(beginning);
        let (req_id, text) = if self.admit() {
            (req_id, "Not authenticated")
        } else {
            (req_id.text_only(), "Rate limit exceeded")
        };
        self.say(Due::Refusal(req_id, text.into()));
    }

    fn take(&mut self, body: &[u8]) {
        let envelope = Envelope::read(body);
        if !self.admit() {
            let req_id = match envelope {
                Ok(envelope) => envelope.into_req_id().text_only(),
                Err(unusable) => unusable.req_id,
            };
            self.door
                .refusals
                .another(Refused::TooManyFrames, self.peer);
            return self.say(Due::Refusal(req_id, "Rate limit exceeded".into()));
        }
        let envelope = match envelope {
            Ok(envelope) => envelope,
            Err(unusable) => return self.say(Due::Refusal(unusable.req_id, unusable.text.into())),
        };
        if !self.authenticated && !envelope.is_auth() {
            let req_id = envelope.into_req_id();
            self.door.refusals.another(Refused::NoToken, self.peer);
            return self.say(Due::Refusal(req_id, "Not authenticated".into()));
        }
        let action = self.decoder.decode(&envelope);
        let req_id = envelope.into_req_id();
        match action {
            Action::Command(mut command, shape) => {
                if let Command::GetOverview(get) = &mut command {
                    // The text for Prometheus shows no more of them.
                    get.queues = get.queues.min(self.door.options.labelled_queues);
                }
                self.load += weight(&command);
                self.commands.push(command);
                self.asked.push(Asked { req_id, shape });
            }
            Action::Session(action) => self.say(Due::Session(req_id, action)),
            Action::Answered(answer, shape) => {
                self.say(Due::Answer((Asked { req_id, shape }, Ok(answer))));
            }
            Action::Refused(error) => self.say(Due::Refusal(req_id, error.to_string().into())),
            Action::Unknown(text) => self.say(Due::Refusal(req_id, text.into())),
        }
    }

    /// Says something after the answers to what was asked before it.
    fn say(&mut self, due: Due) {
        self.apply_run();
        self.owe(due);
        self.speak();
    }

    fn owe(&mut self, due: Due) {
        // Whoever waits for the first answer is not told a later one before it.
        if let Some(held) = self.held.last() {
            held.push(due);
            return;
        }
        let behind = self.events.as_ref().map_or(0, Subscription::behind);
        self.due.push_back((self.told + behind as u64, due));
    }

    /// Encodes what is due while there is room, and no more than a portion.
    pub(super) fn speak(&mut self) {
        let enough = self
            .budget()
            .min(self.out.len().saturating_add(PORTION_BYTES));
        while self.out.len() < enough
            && let Some((after, due)) = self.due.pop_front()
        {
            if !self.tell_events_until(after) {
                self.due.push_front((after, due));
                return;
            }
            match due {
                Due::Answer(answered) => self.answer(answered),
                Due::Refusal(req_id, text) => self.refuse(&req_id, &text),
                Due::Session(req_id, action) => self.answer_itself(&req_id, action),
            }
        }
    }

    /// Applies the commands gathered so far.
    fn apply_run(&mut self) {
        self.load = 0;
        if self.commands.is_empty() {
            return;
        }
        let Some(attachment) = &self.attachment else {
            return;
        };
        let mut asked = std::mem::take(&mut self.asked);
        let mut answers = std::mem::take(&mut self.answers);
        let storing =
            attachment
                .broker
                .submit(Some(attachment.id), &mut self.commands, &mut answers);
        if let Some(storing) = storing {
            self.held.until(storing);
        }
        for (asked, submitted) in asked.drain(..).zip(answers.drain(..)) {
            match submitted {
                Submitted::Done(answer) => self.owe(Due::Answer((asked, answer))),
                Submitted::Later(pending) => self.parked.park(asked, pending),
            }
        }
        // The lists go back for their capacity.
        self.asked = asked;
        self.answers = answers;
        self.speak();
    }

    fn answer(&mut self, (asked, answer): Answered) {
        let Asked { req_id, shape } = asked;
        let fits = reply::answer(self.out.end(), &req_id, &shape, &answer, self.door);
        if let (false, Ok(Reply::Pulled(deliveries))) = (fits, answer) {
            self.return_undeliverable(deliveries);
        }
    }

    /// Jobs that the client will never see must not wait for their locks to run out. One that no reply can carry must not
    /// stand in the way of others either: nobody could ever take it.
    fn return_undeliverable(&mut self, mut deliveries: Vec<Delivery>) {
        let hopeless = deliveries.extract_if(.., |delivery| !self.fits_alone(delivery));
        for delivery in hopeless.collect::<Vec<_>>() {
            let text = format!("Job too large to deliver: exceeds maximum {FRAME_MAX}");
            let fail = Fail {
                id: delivery.job.id,
                token: delivery.token.map_or(TokenGiven::None, TokenGiven::Token),
                report: FailReport {
                    error: Some(text.into()),
                    unrecoverable: true,
                    ..FailReport::default()
                },
            };
            // Refused only when the delivery has ended meanwhile, which is all that is wanted.
            drop(self.door.broker.submit_one(None, fail.into()));
        }
        self.door.broker.give_back(&deliveries);
    }

    fn fits_alone(&self, delivery: &Delivery) -> bool {
        let shape = Shape::PullMany { owned: true };
        let answer = Ok(Reply::Pulled(vec![delivery.clone()]));
        reply::answer(&mut Vec::new(), &ReqId::NONE, &shape, &answer, self.door)
    }

    /// Takes over an answer that was waited for, with all others that are there by now and have room.
    pub(super) fn answer_parked(&mut self, first: Answered) {
        let mut next = Some(first);
        while let Some(answered) = next {
            self.owe(Due::Answer(answered));
            self.speak();
            next = self
                .due
                .is_empty()
                .then(|| self.parked.try_next())
                .flatten();
        }
    }

    /// Takes over an event that was waited for, with all others that are there by now and have room.
    pub(super) fn tell_event(&mut self, first: &PublishedEvent) {
        self.write_event(first);
        let behind = self.events.as_ref().map_or(0, Subscription::behind);
        self.tell_events_until(self.told + behind as u64);
    }

    /// Tells events until so many have been told; false when there is no room for that.
    fn tell_events_until(&mut self, after: u64) -> bool {
        while self.told < after
            && let Some(events) = &mut self.events
        {
            if self.out.len() >= self.budget {
                return false;
            }
            // What is behind has been published, so it is there.
            let Some(next) = events.try_next() else { break };
            self.write_event(&next);
        }
        true
    }

    fn write_event(&mut self, event: &PublishedEvent) {
        self.told += 1;
        let bytes = event.encoded(event::encode);
        self.out.end().extend_from_slice(bytes);
    }

    fn refuse(&mut self, req_id: &ReqId, text: &str) {
        reply::refuse(self.out.end(), req_id, text);
    }

    fn answer_itself(&mut self, req_id: &ReqId, action: SessionAction) {
        match action {
            SessionAction::Hello => reply::hello(self.out.end(), req_id),
            SessionAction::Ping => reply::pong(self.out.end(), req_id, self.door.now()),
            SessionAction::Auth { token } => {
                if token.is_some_and(|token| self.door.tokens.accept(&token)) {
                    self.authenticated = true;
                    reply::done(self.out.end(), req_id);
                } else {
                    self.door.refusals.another(Refused::WrongToken, self.peer);
                    self.refuse(req_id, "Invalid token");
                }
            }
            SessionAction::Subscribe { queue, types } => {
                let queue = queue.shared();
                let subscription = self.door.broker.subscribe(EventFilter { queue, types });
                self.events = Some(subscription);
                reply::done(self.out.end(), req_id);
            }
            SessionAction::Unsubscribe => {
                self.events = None;
                reply::done(self.out.end(), req_id);
            }
        }
    }

    /// Nobody waits for what has not come yet.
    pub(super) fn stop_waiting(&mut self) {
        self.parked = Parked::default();
    }

    /// Gives back the room that a burst needed; nothing may be waiting to be said.
    pub(super) fn shrink(&mut self) {
        self.out.shrink();
        self.asked = Vec::new();
        self.commands = Vec::new();
        self.answers = Vec::new();
        self.due.shrink_to_fit();
    }

    /// The client is gone: what waits for it is withdrawn, what it held goes back. What was said to it
    /// stays in the outbox.
    pub(super) fn hang_up(&mut self) {
        self.return_unsaid();
        self.stop_waiting();
        self.events = None;
        self.attachment = None;
    }

    /// Jobs in answers that have not been encoded go back, those too that would outlive the connection. Only while the
    /// delivery lasts: what has become of the job since is not undone.
    fn return_unsaid(&mut self) {
        let mut unsaid = Vec::new();
        let due = self.due.iter_mut().map(|(_, due)| due);
        for due in due.chain(self.held.all()) {
            if let Due::Answer((_, Ok(Reply::Pulled(deliveries)))) = due {
                unsaid.append(deliveries);
            }
        }
        if !unsaid.is_empty() {
            self.door.broker.give_back(&unsaid);
        }
    }
}

impl Drop for Dialogue<'_> {
    fn drop(&mut self) {
        self.return_unsaid();
    }
}
