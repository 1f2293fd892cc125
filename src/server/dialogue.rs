//! One client's conversation, without its socket: frames in, replies and events out, in order.
//!
//! Commands that follow each other are applied together, so that a full read costs one turn of the
//! broker. Events caused by a command are written before its reply when the subscriber is the same
//! connection (tcp protocol section 4).

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::broker::{BACKLOG_MAX, Broker, EventFilter, PublishedEvent, Submitted, Subscription};
use crate::command::bounds::FRAME_MAX;
use crate::command::{Command, Fail, MoveToWait, Reply};
use crate::engine::{ConnectionId, Delivery, FailReport, Millis, Overview, TokenGiven};
use crate::metrics::{self, Process};
use crate::wire::frame::{self, Front};
use crate::wire::reply::{Memory, Surroundings};
use crate::wire::{Action, Decoder, Envelope, ReqId, SessionAction, Shape, event, reply};

use super::ServerOptions;
use super::auth::Tokens;
use super::frame_limit::FrameWindow;
use super::outbox::Outbox;
use super::parked::{Answered, Asked, Parked};

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
        | Command::GetStats(_)
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
}

impl Surroundings for Door {
    fn now(&self) -> Millis {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
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
        let queues = self.options.labelled_queues;
        metrics::render(overview, &Process::now(), connections, queues)
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
    /// Frames that are to be taken once parked requests have been answered.
    Full,
    /// A frame that nobody accepts; the connection ends.
    TooLarge,
}

/// A conversation. Dropping it withdraws its waits, then tells the broker that its client is gone.
pub(super) struct Dialogue<'d> {
    door: &'d Door,
    decoder: Decoder,
    authenticated: bool,
    window: Option<FrameWindow>,
    /// Requests of the current run and their commands, in step.
    asked: Vec<Asked>,
    commands: Vec<Command>,
    /// Their weight together.
    load: usize,
    answers: Vec<Submitted>,
    pub(super) out: Outbox,
    pub(super) events: Option<Subscription>,
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
    pub(super) fn new(door: &'d Door) -> Self {
        let broker = &*door.broker;
        let id = broker.connect();
        Self {
            door,
            decoder: Decoder::default(),
            authenticated: !door.tokens.required(),
            window: door.options.frame_limit.map(FrameWindow::new),
            asked: Vec::new(),
            commands: Vec::new(),
            load: 0,
            answers: Vec::new(),
            out: Outbox::default(),
            events: None,
            parked: Parked::default(),
            attachment: Some(Attachment { broker, id }),
        }
    }

    /// Takes frames from the front of received bytes and answers them; also says how many bytes that
    /// were and what the rest is.
    pub(super) fn take_frames(&mut self, received: &[u8]) -> (usize, Rest) {
        let enough = self.out.len() + PORTION_BYTES;
        let mut left = received;
        let rest = loop {
            let is_full = self.load >= RUN_MAX;
            if is_full || !self.parked.has_room(self.asked.len()) {
                self.apply_run();
            }
            if is_full && !left.is_empty() {
                break Rest::More;
            }
            match frame::front(left) {
                _ if left.is_empty() => break Rest::Nothing,
                Front::Partial { missing } => break Rest::Partial { missing },
                Front::TooLarge { announced } => {
                    self.apply_run();
                    let text =
                        format!("Frame too large: {announced} bytes exceeds maximum {FRAME_MAX}");
                    self.refuse(&ReqId::NONE, &text);
                    break Rest::TooLarge;
                }
                Front::Frame { .. } if !self.parked.has_room(0) => break Rest::Full,
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

    fn take(&mut self, body: &[u8]) {
        let envelope = Envelope::read(body);
        if let Some(window) = &mut self.window
            && !window.admit(Instant::now())
        {
            let req_id = match envelope {
                Ok(envelope) => envelope.into_req_id().text_only(),
                Err(unusable) => unusable.req_id,
            };
            return self.refuse_in_turn(&req_id, "Rate limit exceeded");
        }
        let envelope = match envelope {
            Ok(envelope) => envelope,
            Err(unusable) => return self.refuse_in_turn(&unusable.req_id, unusable.text),
        };
        if !self.authenticated && !envelope.is_auth() {
            return self.refuse_in_turn(envelope.req_id(), "Not authenticated");
        }
        let action = self.decoder.decode(&envelope);
        let req_id = envelope.into_req_id();
        match action {
            Action::Command(command, shape) => {
                self.load += weight(&command);
                self.commands.push(command);
                self.asked.push(Asked { req_id, shape });
            }
            Action::Session(action) => {
                self.apply_run();
                self.answer_itself(&req_id, action);
            }
            Action::Answered(answer, shape) => {
                self.apply_run();
                self.answer((Asked { req_id, shape }, Ok(answer)));
            }
            Action::Refused(error) => self.refuse_in_turn(&req_id, &error.to_string()),
            Action::Unknown(text) => self.refuse_in_turn(&req_id, &text),
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
        attachment
            .broker
            .submit(Some(attachment.id), &mut self.commands, &mut answers);
        self.tell_events();
        for (asked, submitted) in asked.drain(..).zip(answers.drain(..)) {
            match submitted {
                Submitted::Done(answer) => self.answer((asked, answer)),
                Submitted::Later(pending) => self.parked.park(asked, pending),
            }
        }
        // The lists go back for their capacity.
        self.asked = asked;
        self.answers = answers;
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
    fn return_undeliverable(&mut self, deliveries: Vec<Delivery>) {
        let Some(attachment) = &self.attachment else {
            return;
        };
        for delivery in deliveries {
            let id = delivery.job.id.clone();
            let token = delivery.token.map_or(TokenGiven::None, TokenGiven::Token);
            let back: Command = if self.fits_alone(delivery) {
                MoveToWait { id, token }.into()
            } else {
                let report = FailReport {
                    error: Some(
                        format!("Job too large to deliver: exceeds maximum {FRAME_MAX}").into(),
                    ),
                    unrecoverable: true,
                    ..FailReport::default()
                };
                Fail { id, token, report }.into()
            };
            // Refused only when the delivery has ended meanwhile, which is all that is wanted.
            drop(attachment.broker.submit_one(None, back));
        }
    }

    fn fits_alone(&self, delivery: Delivery) -> bool {
        let shape = Shape::PullMany { owned: true };
        let answer = Ok(Reply::Pulled(vec![delivery]));
        reply::answer(&mut Vec::new(), &ReqId::NONE, &shape, &answer, self.door)
    }

    /// Takes over an answer that was waited for, with all others that are there by now.
    pub(super) fn answer_parked(&mut self, first: Answered) {
        self.tell_events();
        let mut next = Some(first);
        while let Some(answered) = next {
            self.answer(answered);
            next = self.parked.try_next();
        }
    }

    /// Takes over an event that was waited for, with all others that are there by now.
    pub(super) fn tell_event(&mut self, first: &PublishedEvent) {
        self.out
            .end()
            .extend_from_slice(first.encoded(event::encode));
        self.tell_events();
    }

    fn tell_events(&mut self) {
        let Some(events) = &mut self.events else {
            return;
        };
        // As many as can have been waiting: what comes in meanwhile must not hold up the replies.
        for _ in 0..BACKLOG_MAX {
            let Some(next) = events.try_next() else {
                return;
            };
            self.out
                .end()
                .extend_from_slice(next.encoded(event::encode));
        }
    }

    fn refuse_in_turn(&mut self, req_id: &ReqId, text: &str) {
        self.apply_run();
        self.refuse(req_id, text);
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
                    self.refuse(req_id, "Invalid token");
                }
            }
            SessionAction::Subscribe { queue, types } => {
                self.tell_events();
                let queue = queue.shared();
                let subscription = self.door.broker.subscribe(EventFilter { queue, types });
                self.events = Some(subscription);
                reply::done(self.out.end(), req_id);
            }
            SessionAction::Unsubscribe => {
                self.tell_events();
                self.events = None;
                reply::done(self.out.end(), req_id);
            }
        }
    }

    /// The client is gone: what waits for it is withdrawn, what it held goes back. What was said to it
    /// stays in the outbox.
    pub(super) fn hang_up(&mut self) {
        self.parked = Parked::default();
        self.events = None;
        self.attachment = None;
    }
}
