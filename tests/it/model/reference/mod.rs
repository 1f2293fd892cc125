//! The naive reference: what the engine contract says, with plain vectors, linear scans and no care for speed.
//!
//! It is written from the contract alone and shares nothing with the engine but the words of the seam (commands,
//! replies, events). What the engine draws at random (ids, tokens, jitter) is told to it in [`Learned`], after the
//! driver has seen it, and checked here as far as the contract bounds it. Every command first lets everything happen
//! that is due, in order of its time.

mod add;
mod change;
mod figures;
mod flow;
mod group;
mod limit;
mod query;
mod recovery;
mod restart;
mod schedule;
mod ties;
mod timer;
mod tree;
mod webhook;
mod work;
mod worker;

pub use schedule::PATTERNS;

use std::collections::VecDeque;
use std::sync::Arc;

use bunqueue_mcp::command::{Command, CommandError, Reply};
use bunqueue_mcp::engine::{
    AttemptRecord, Caller, Config, Cron, DlqConfig, Event, EventKind, Failure, JobId, JobView,
    LockToken, LogLine, Millis, Payload, PullGroup, Refusal, Served, StallConfig, State,
    TimelineEntry, WaitFor, Waited, WaiterId, WebhookCall,
};

use flow::{News, Ties};
pub use tree::encode;

/// What the engine chose by itself in the step that the model is about to repeat.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// Ids that the reply of an add names, one for each job of the request.
    pub ids: VecDeque<JobId>,
    /// Ids of jobs that nobody asked for in this step: those of schedules, in order.
    pub born: VecDeque<JobId>,
    /// Deliveries of the step with their numbers and tokens, in order.
    pub deliveries: Vec<(JobId, u64, Option<LockToken>)>,
    /// The id of the worker or webhook that the reply is about.
    pub registered: Option<Arc<str>>,
    /// The number of the wait, when the step began one.
    pub waiter: Option<WaiterId>,
}

/// What a command is answered.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Done(Result<Reply, CommandError>),
    Waiting,
}

#[derive(Clone, Debug)]
pub struct Active {
    serial: u64,
    pub token: Option<LockToken>,
    expires_at: Millis,
    lock_ttl: Millis,
    renewals: u32,
    connection: Caller,
    /// Counted in a window of its group.
    limited: bool,
    /// The turn of its group that it took.
    turn: Option<u64>,
    /// What the delivery before had left: its late token, whether a timeout ended it unlocked, the last sign of life.
    before: (Option<LockToken>, bool, Millis),
}

#[derive(Clone, Debug)]
pub enum Place {
    Queued,
    Active(Active),
    Completed,
    Failed(Failure),
}

#[derive(Clone, Debug)]
pub struct Job {
    pub view: JobView,
    pub place: Place,
    /// Order of admission.
    seq: u64,
    /// The dead letter that it was, while it is tried again by itself.
    was_letter: Option<Failure>,
    /// A letter whose retry was refused is not looked at before.
    refused_until: Option<Millis>,
    /// Its run time had come when it was queued, or has come since.
    ripe: bool,
    result: Option<Payload>,
    /// When that was written or read last, among all uses.
    result_used: u64,
    pub ties: Ties,
    history: Vec<AttemptRecord>,
    logs: Vec<LogLine>,
    /// When a line was written last, among all uses.
    log_used: u64,
    /// Token of the last delivery, when that was ended by fail, lock expiry or stall and none followed.
    pub late_token: Option<LockToken>,
    /// Tokens of deliveries that ended without success, and whether a timeout has ended them.
    spent: Vec<(LockToken, bool)>,
    /// The last delivery had no lock and was ended by a timeout.
    finalized_unlocked: bool,
    /// Deliveries lost in a row without a sign of life.
    lost: u32,
    /// A schedule has brought it, under the key that is made from the schedule's name.
    from_cron: bool,
    /// Its number among the ends of jobs, when it has completed.
    done_seq: u64,
    /// The generation that follows it.
    successor: Option<JobId>,
    /// Bounds of the retry time that the engine has drawn and the model does not know yet.
    pub jitter: Option<(Millis, Millis)>,
}

impl Job {
    /// Remembers a token of a delivery that is over. Sixteen are kept, so that a job that never succeeds stays small.
    fn spend(&mut self, token: LockToken, timed_out: bool) {
        if self.spent.iter().any(|(other, _)| *other == token) {
            return;
        }
        let surplus = (self.spent.len() + 1).saturating_sub(16);
        self.spent.drain(..surplus);
        self.spent.push((token, timed_out));
    }

    /// Whatever ends a delivery but success ends its token.
    fn spend_current(&mut self) {
        if let Place::Active(Active {
            token: Some(token), ..
        }) = self.place
        {
            self.spend(token, false);
        }
    }
}

#[derive(Clone, Debug)]
struct Key {
    queue: Arc<str>,
    key: Arc<str>,
    owner: JobId,
    expires_at: Option<Millis>,
}

#[derive(Clone, Debug)]
enum Wish {
    Jobs {
        queue: Arc<str>,
        count: usize,
        locked: bool,
        lock_ttl: Millis,
        detach: bool,
        group: Option<Box<PullGroup>>,
    },
    End {
        id: JobId,
        until: WaitFor,
    },
}

#[derive(Clone, Debug)]
struct Waiter {
    id: WaiterId,
    caller: Caller,
    deadline: Millis,
    wish: Wish,
}

#[derive(Clone, Debug)]
struct Queue {
    name: Arc<str>,
    paused: bool,
    rate: Option<limit::Rate>,
    cap: Option<u64>,
    /// Jobs of no group take turns.
    in_turn: bool,
    /// When a token is there that somebody waits for.
    token_at: Option<Millis>,
    /// Settings that differ from the configuration.
    dlq: Option<DlqConfig>,
    stall: Option<StallConfig>,
    empty_since: Option<Millis>,
    /// It has never been empty, so its place among the names is known.
    certain: bool,
}

/// The whole state, and the effects of the last step.
#[derive(Clone, Debug)]
pub struct Reference {
    config: Config,
    pub now: Millis,
    /// When the process began, if another one ran before it.
    began_at: Millis,
    /// Up to when everything due has happened.
    instant: Millis,
    pub jobs: Vec<Job>,
    keys: Vec<Key>,
    waiters: Vec<Waiter>,
    queues: Vec<Queue>,
    groups: Vec<group::Group>,
    turns: Vec<group::Turn>,
    next_turn: u64,
    /// Queues in which something has happened since waiting pulls were served.
    touched: Vec<Arc<str>>,
    /// It is only to be seen what would happen.
    rehearsing: bool,
    /// Completed jobs, first completed first.
    completed: Vec<JobId>,
    /// In order of creation.
    crons: Vec<Cron>,
    /// Tokens of deliveries that were deleted with their job.
    discarded: Vec<(LockToken, JobId)>,
    /// Ids of completed jobs that are gone, oldest first.
    proofs: Vec<JobId>,
    /// Ends of jobs whose meaning for others is still to be worked off, and whether somebody is at it.
    news: VecDeque<News>,
    spreading: bool,
    next_seq: u64,
    /// Jobs that ended so far.
    next_done: u64,
    /// Log lines that were kept so far.
    next_line: u64,
    /// Uses of results and logs so far.
    next_use: u64,
    greatest_id: Option<JobId>,
    figures: figures::Figures,
    workers: worker::Registry,
    hooks: Vec<webhook::Hook>,
    pub events: Vec<Event>,
    pub calls: Vec<WebhookCall>,
    pub served: Vec<(WaiterId, Served)>,
    pub learned: Learned,
}

impl Reference {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            now: Millis::MIN,
            began_at: Millis::MIN,
            instant: Millis::MIN,
            jobs: Vec::new(),
            keys: Vec::new(),
            waiters: Vec::new(),
            queues: Vec::new(),
            groups: Vec::new(),
            turns: Vec::new(),
            next_turn: 0,
            touched: Vec::new(),
            rehearsing: false,
            completed: Vec::new(),
            crons: Vec::new(),
            discarded: Vec::new(),
            proofs: Vec::new(),
            news: VecDeque::new(),
            spreading: false,
            next_seq: 0,
            next_done: 0,
            next_line: 0,
            next_use: 0,
            greatest_id: None,
            figures: figures::Figures::default(),
            workers: worker::Registry::default(),
            hooks: Vec::new(),
            events: Vec::new(),
            calls: Vec::new(),
            served: Vec::new(),
            learned: Learned::default(),
        }
    }

    /// Everything due happens, then the command, then waiting pulls get what became ready.
    pub fn execute(&mut self, now: Millis, caller: Caller, command: &Command) -> Answer {
        self.tick(now);
        let answer = self.run(caller, command);
        self.forget_figures(command);
        self.note_emptiness();
        self.hand_off_everywhere();
        answer
    }

    fn run(&mut self, caller: Caller, command: &Command) -> Answer {
        let done = |reply: Reply| Answer::Done(Ok(reply));
        match command {
            Command::Add(add) => {
                let jobs = std::slice::from_ref(&add.job);
                let added = self.add_all(&add.queue.shared(), jobs, false);
                Answer::Done(added.map(|mut added| Reply::Added(added.remove(0))))
            }
            Command::AddMany(add) => {
                let added = self.add_all(&add.queue.shared(), &add.jobs, true);
                Answer::Done(added.map(Reply::AddedMany))
            }
            Command::Pull(pull) => self.pull(caller, pull),
            Command::Ack(ack) => self
                .ack(ack)
                .map_or_else(refuse, |report| done(Reply::Reported(report))),
            Command::AckMany(many) => self
                .ack_many(&many.items)
                .map_or_else(refuse, |list| done(Reply::ReportedMany(list))),
            Command::Fail(fail) => self
                .fail(fail)
                .map_or_else(refuse, |report| done(Reply::Reported(report))),
            Command::Heartbeat(beat) => done(Reply::Renewed(
                beat.items.iter().map(|item| self.heartbeat(item)).collect(),
            )),
            Command::ExtendLock(extend) => done(Reply::Renewed(
                extend
                    .items
                    .iter()
                    .map(|item| self.extend_lock(item))
                    .collect(),
            )),
            Command::WaitJob(wait) => self.wait_job(caller, wait),
            command => {
                if let Some(answer) = self.flow_command(command) {
                    return answer;
                }
                let of_limits = self
                    .recover(command)
                    .or_else(|| self.schedule(command))
                    .or_else(|| self.change_limits(command))
                    .or_else(|| self.change_group(command));
                if let Some(reply) = of_limits {
                    return done(reply);
                }
                match self.change(command) {
                    Some(changed) => changed.map_or_else(refuse, done),
                    None => {
                        if let Some(figure) = self.figure(command) {
                            return done(figure);
                        }
                        if let Command::GetResult(get) = command
                            && let Some(at) = self.find(&get.id)
                        {
                            self.use_result(at);
                        }
                        self.about_workers(caller, command)
                            .or_else(|| self.about_webhooks(command))
                            .unwrap_or_else(|| done(self.query(command)))
                    }
                }
            }
        }
    }

    pub fn job(&self, id: &JobId) -> Option<&Job> {
        self.jobs.iter().find(|job| job.view.id == *id)
    }

    fn find(&self, id: &JobId) -> Option<usize> {
        self.jobs.iter().position(|job| job.view.id == *id)
    }

    fn state_at(&self, at: usize) -> State {
        let job = &self.jobs[at];
        match job.place {
            Place::Active(_) => State::Active,
            Place::Completed => State::Completed,
            Place::Failed(_) => State::Failed,
            Place::Queued if job.ties.waiting => State::WaitingChildren,
            Place::Queued if job.view.run_at > self.now => State::Delayed,
            Place::Queued if job.view.priority > 0.0 => State::Prioritized,
            Place::Queued => State::Waiting,
        }
    }

    pub fn state(&self, id: &JobId) -> Option<State> {
        self.find(id).map(|at| self.state_at(at))
    }

    fn paused(&self, queue: &str) -> bool {
        self.queues
            .iter()
            .any(|entry| &*entry.name == queue && entry.paused)
    }

    fn emit(&mut self, queue: &Arc<str>, job: Option<JobId>, kind: EventKind) {
        self.figures.tell(queue, self.now, &kind);
        let event = Event {
            queue: Arc::clone(queue),
            job,
            at: self.now,
            kind,
        };
        self.note_calls(&event);
        self.events.push(event);
    }

    fn emit_for(&mut self, at: usize, kind: EventKind) {
        let (queue, id) = (
            Arc::clone(&self.jobs[at].view.queue),
            self.jobs[at].view.id.clone(),
        );
        self.emit(&queue, Some(id), kind);
    }

    /// A history entry; the first twenty are kept.
    fn note(&mut self, at: usize, state: State, error: Option<Arc<str>>, attempt: Option<u32>) {
        let entry = TimelineEntry {
            state,
            at: self.now,
            error,
            attempt,
        };
        let timeline = &mut self.jobs[at].view.timeline;
        if timeline.len() < 20 {
            timeline.push(entry);
        }
    }

    /// A result was written or read; of too many the one that was longest not used goes.
    fn use_result(&mut self, at: usize) {
        self.next_use += 1;
        self.jobs[at].result_used = self.next_use;
        let places = 0..self.jobs.len();
        let kept: Vec<_> = places
            .filter(|at| self.jobs[*at].result.is_some())
            .collect();
        if kept.len() > self.config.results_max {
            let goes = kept.into_iter().min_by_key(|at| {
                let job = &self.jobs[*at];
                (self.is_needed(&job.view.id), job.result_used)
            });
            self.jobs[goes.unwrap()].result = None;
        }
    }

    /// The same for a line of a log.
    fn use_log(&mut self, at: usize) {
        self.next_use += 1;
        self.jobs[at].log_used = self.next_use;
        let kept = self.jobs.iter_mut().filter(|job| !job.logs.is_empty());
        let mut kept: Vec<_> = kept.collect();
        kept.sort_by_key(|job| std::cmp::Reverse(job.log_used));
        let bytes = |kept: &[&mut Job]| {
            let lines = kept.iter().flat_map(|job| &job.logs);
            let texts = lines.map(|line| line.level.len() + line.message.len());
            texts.sum::<usize>()
        };
        while kept.len() > self.config.logged_jobs_max || bytes(&kept) > self.config.log_bytes_max {
            kept.pop().expect("somebody's log is too long").logs.clear();
        }
    }

    fn release_key(&mut self, id: &JobId) {
        self.keys.retain(|key| key.owner != *id);
    }

    /// Takes a job away; who waits for its outcome learns it.
    fn remove(&mut self, at: usize, outcome: &Waited) {
        let job = self.jobs.remove(at);
        self.release_key(&job.view.id);
        self.completed.retain(|id| *id != job.view.id);
        self.end_waits(&job.view.id, outcome);
        self.note_turns();
        self.note_emptiness();
    }

    /// Ends waits for a job: those for any outcome always, those for completion when it came or cannot come any more.
    fn end_waits(&mut self, id: &JobId, outcome: &Waited) {
        let served = &mut self.served;
        self.waiters.retain(|waiter| match (&waiter.wish, outcome) {
            (Wish::End { id: wanted, .. }, _) if wanted != id => true,
            (
                Wish::End {
                    until: WaitFor::Completed,
                    ..
                },
                Waited::Failed,
            ) => true,
            (
                Wish::End {
                    until: WaitFor::Completed,
                    ..
                },
                Waited::Removed,
            ) => {
                served.push((waiter.id, Served::Job(Waited::TimedOut)));
                false
            }
            (Wish::End { .. }, _) => {
                served.push((waiter.id, Served::Job(outcome.clone())));
                false
            }
            (Wish::Jobs { .. }, _) => true,
        });
    }

    /// A queue that holds nothing may be forgotten at any time within the period that the configuration gives.
    fn note_emptiness(&mut self) {
        for queue in &mut self.queues {
            let limited = queue.rate.is_some() || queue.cap.is_some() || queue.in_turn;
            let mut groups = self.groups.iter();
            let grouped = groups.any(|group| group.queue == queue.name && group.is_set());
            let kept = queue.paused || queue.dlq.is_some() || queue.stall.is_some();
            if kept
                || limited
                || grouped
                || self.jobs.iter().any(|job| job.view.queue == queue.name)
            {
                queue.empty_since = None;
            } else if queue.empty_since.is_none() {
                queue.empty_since = Some(self.now);
                queue.certain = false;
            }
        }
    }

    /// Whether these can be the names of all queues: all that are in use, in order of first use, and none that is not.
    pub fn check_names(&self, names: &[Arc<str>]) -> Result<(), String> {
        let listed = |name: &Arc<str>| names.iter().position(|other| other == name);
        let known = |name: &Arc<str>| self.queues.iter().any(|queue| queue.name == *name);
        let in_use = |queue: &&Queue| queue.empty_since.is_none();
        let complete = self
            .queues
            .iter()
            .filter(in_use)
            .all(|queue| listed(&queue.name).is_some());
        let certain = self.queues.iter().filter(|queue| queue.certain);
        let ordered = certain.map(|queue| listed(&queue.name)).is_sorted();
        if complete && ordered && names.iter().all(known) {
            return Ok(());
        }
        Err(format!(
            "queue names are {names:?}, known are {:?}",
            self.queues
        ))
    }

    fn touch_queue(&mut self, name: &Arc<str>) -> &mut Queue {
        let at = self
            .queues
            .iter()
            .position(|queue| queue.name == *name)
            .unwrap_or_else(|| {
                self.queues.push(Queue {
                    name: Arc::clone(name),
                    paused: false,
                    rate: None,
                    cap: None,
                    in_turn: false,
                    token_at: None,
                    dlq: None,
                    stall: None,
                    empty_since: None,
                    certain: true,
                });
                self.queues.len() - 1
            });
        &mut self.queues[at]
    }

    pub fn waiter_ids(&self) -> Vec<WaiterId> {
        self.waiters.iter().map(|waiter| waiter.id).collect()
    }

    pub fn cancel_wait(&mut self, id: WaiterId) {
        self.waiters.retain(|waiter| waiter.id != id);
    }
}

fn refuse(refusal: Refusal) -> Answer {
    Answer::Done(Err(CommandError::Refused(refusal)))
}
