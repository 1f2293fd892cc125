//! Handing out jobs: pulls, waits, the direct hand-off between them, and the end of a delivery (engine contract,
//! section 7).
//!
//! A pull that has to wait stands in its queue, first come first served; a job that becomes ready is handed to
//! the longest-waiting pull at once. There is no polling and no wake-up that can be lost.

use std::collections::{BTreeMap, BTreeSet};

use super::backlog::PullGroup;
use super::deadline::Timer;
use super::event::EventKind;
use super::id::JobId;
use super::job::{Delivery, State};
use super::outcome::{
    Caller, ConnectionId, Progressing, PullRequest, Served, WaitFor, Waited, WaiterId,
};
use super::queue::QueueKey;
use super::store::{EndCause, Ended, JobKey, Lock, Run};
use super::waiters::Stand;
use super::{Engine, Millis, Service, Turn, later};

/// Bytes of data and texts that one pull hands out at most, its first job aside: what is pulled must fit one frame.
pub const PULL_BYTES_MAX: usize = 32 * 1_024 * 1_024;
/// Deliveries that a pull has room for when it has found its first job.
const ROOM_AT_FIRST: usize = 32;

/// Waits in progress.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) waits: BTreeMap<WaiterId, Wait>,
    /// Who waits for which job.
    pub(super) by_job: BTreeSet<(JobKey, WaiterId)>,
    /// Whose connection they belong to. Pairs, so that a worker who waits again and again costs no room of its own.
    pub(super) by_connection: BTreeSet<(ConnectionId, WaiterId)>,
    next: u64,
}

#[derive(Debug)]
pub(super) struct Wait {
    pub(super) ends_at: Millis,
    pub(super) caller: Caller,
    pub(super) kind: WaitKind,
}

#[derive(Debug)]
pub(super) enum WaitKind {
    Pull {
        request: PullRequest,
        queue: QueueKey,
    },
    Job {
        key: JobKey,
        until: WaitFor,
    },
}

impl Waits {
    pub(super) fn all(&self) -> Vec<WaiterId> {
        self.waits.keys().copied().collect()
    }

    /// What a waiting pull says of groups.
    pub(super) fn wish(&self, waiter: WaiterId) -> Option<&PullGroup> {
        match &self.waits.get(&waiter)?.kind {
            WaitKind::Pull { request, .. } => request.group.as_deref(),
            WaitKind::Job { .. } => None,
        }
    }

    /// Gives no number that the other one has given.
    pub(super) fn count_on_from(&mut self, other: &Self) {
        self.next = self.next.max(other.next);
    }

    fn add(&mut self, wait: Wait) -> WaiterId {
        let id = WaiterId(self.next);
        self.next += 1;
        if let Some(connection) = wait.caller {
            self.by_connection.insert((connection, id));
        }
        self.waits.insert(id, wait);
        id
    }
}

/// The waits that an index has under a key, first come first.
fn waits_of<K: Ord + Copy>(index: &BTreeSet<(K, WaiterId)>, key: K) -> Vec<WaiterId> {
    let waits = index.range((key, WaiterId(u64::MIN))..=(key, WaiterId(u64::MAX)));
    waits.map(|(_, waiter)| *waiter).collect()
}

impl Engine {
    /// Takes jobs, or waits for the first one.
    pub fn pull(
        &mut self,
        turn: &mut Turn<'_>,
        request: PullRequest,
    ) -> Progressing<Vec<Delivery>> {
        self.tick(turn);
        if self.service == Service::Open
            && let Some(queue) = self.queues.find(&request.queue)
        {
            let deliveries = self.take_ready(turn, queue, &request, turn.caller);
            if !deliveries.is_empty() {
                return Progressing::Done(deliveries);
            }
        }
        if request.wait <= 0 || self.service == Service::Closed {
            return Progressing::Done(Vec::new());
        }
        // Whoever waits for a queue of which only figures are left brings it back.
        let queue = self.queues.open(&request.queue);
        let ends_at = self.now.saturating_add(request.wait);
        let stand = Stand::of(request.group.as_deref());
        let waiter = self.waits.add(Wait {
            ends_at,
            caller: turn.caller,
            kind: WaitKind::Pull { request, queue },
        });
        self.queues.get_mut(queue).ready.begin_wait(waiter, &stand);
        self.deadlines.insert(ends_at, Timer::Wait(waiter));
        if self.queues.get(queue).limits.is_some() {
            // Nothing can be handed out now, but perhaps it is known when.
            self.serve(turn, queue);
        }
        Progressing::Waiting(waiter)
    }

    /// Waits for a job to end, at most `timeout` ms.
    pub fn wait_job(
        &mut self,
        turn: &mut Turn<'_>,
        id: &JobId,
        until: WaitFor,
        timeout: Millis,
    ) -> Progressing<Waited> {
        self.tick(turn);
        let Some(key) = self.store.find(id) else {
            return Progressing::Done(Waited::NotFound);
        };
        match self.store.job(key).state {
            State::Completed => {
                return Progressing::Done(Waited::Completed {
                    result: self.read_result(key),
                });
            }
            State::Failed if until == WaitFor::Outcome => return Progressing::Done(Waited::Failed),
            _ if timeout <= 0 || self.service == Service::Closed => {
                return Progressing::Done(Waited::TimedOut);
            }
            _ => {}
        }
        let ends_at = self.now.saturating_add(timeout);
        let waiter = self.waits.add(Wait {
            ends_at,
            caller: turn.caller,
            kind: WaitKind::Job { key, until },
        });
        self.waits.by_job.insert((key, waiter));
        self.deadlines.insert(ends_at, Timer::Wait(waiter));
        Progressing::Waiting(waiter)
    }

    /// Withdraws a wait; nothing is reported for it any more. Unknown waits are over already.
    pub fn cancel_wait(&mut self, waiter: WaiterId) {
        if let Some(wait) = self.forget_wait(waiter) {
            self.deadlines.remove(wait.ends_at, Timer::Wait(waiter));
        }
    }

    /// The time of a wait is over, or the engine stops.
    pub(super) fn end_wait(&mut self, turn: &mut Turn<'_>, waiter: WaiterId) {
        let Some(wait) = self.forget_wait(waiter) else {
            return;
        };
        if self.service == Service::Closed && wait.ends_at > self.now {
            self.deadlines.remove(wait.ends_at, Timer::Wait(waiter));
        }
        let served = match wait.kind {
            WaitKind::Pull { .. } => Served::Pull(Vec::new()),
            WaitKind::Job { .. } => Served::Job(Waited::TimedOut),
        };
        turn.effects.served.push((waiter, served));
    }

    /// Ends the waits of a connection without an answer.
    pub(super) fn drop_waits_of(&mut self, connection: ConnectionId) {
        for waiter in waits_of(&self.waits.by_connection, connection) {
            self.cancel_wait(waiter);
        }
    }

    fn forget_wait(&mut self, waiter: WaiterId) -> Option<Wait> {
        let wait = self.waits.waits.remove(&waiter)?;
        if let Some(connection) = wait.caller {
            self.waits.by_connection.remove(&(connection, waiter));
        }
        match &wait.kind {
            WaitKind::Pull { queue, request } => {
                let stand = Stand::of(request.group.as_deref());
                let ready = &mut self.queues.get_mut(*queue).ready;
                ready.end_wait(waiter, &stand);
                if ready.waiters().is_empty() {
                    self.stop_awaiting_token(*queue);
                }
                self.note_idle(*queue);
            }
            WaitKind::Job { key, .. } => {
                self.waits.by_job.remove(&(*key, waiter));
            }
        }
        Some(wait)
    }

    /// Tells everybody who waits for the job how it ended; a wait that is for something else goes on.
    pub(super) fn end_job_waits(&mut self, turn: &mut Turn<'_>, key: JobKey, how: &Waited) {
        let gone = matches!(how, Waited::Removed);
        for waiter in waits_of(&self.waits.by_job, key) {
            let Some(wait) = self.waits.waits.get(&waiter) else {
                continue;
            };
            let WaitKind::Job { until, .. } = wait.kind else {
                continue;
            };
            let ends = matches!(how, Waited::Completed { .. }) || until == WaitFor::Outcome;
            if !ends && !gone {
                continue;
            }
            self.cancel_wait(waiter);
            // Whoever waits for completion only learns that it will not come.
            let answer = if ends { how.clone() } else { Waited::TimedOut };
            turn.effects.served.push((waiter, Served::Job(answer)));
        }
    }

    /// Hands ready jobs of a queue to the pulls that wait for them, now or once everything that is held has happened.
    pub(super) fn serve(&mut self, turn: &mut Turn<'_>, key: QueueKey) {
        if self.holding {
            self.unserved.insert(key);
        } else {
            self.serve_now(turn, key);
        }
    }

    /// Does several things as one step: waiting pulls are served when all of it is done.
    pub fn hold<R>(
        &mut self,
        turn: &mut Turn<'_>,
        act: impl FnOnce(&mut Self, &mut Turn<'_>) -> R,
    ) -> R {
        self.tick(turn);
        self.hold_on(turn, act)
    }

    /// The same in the middle of a step, where nothing that is due may come between.
    pub(super) fn hold_on<R>(
        &mut self,
        turn: &mut Turn<'_>,
        act: impl FnOnce(&mut Self, &mut Turn<'_>) -> R,
    ) -> R {
        let within = std::mem::replace(&mut self.holding, true);
        let result = act(self, turn);
        self.holding = within;
        if !within {
            self.serve_held(turn);
        }
        result
    }

    /// Serves the queues whose turn was put off.
    pub(super) fn serve_held(&mut self, turn: &mut Turn<'_>) {
        // One by one, since the set keeps its room so.
        while let Some(key) = self.unserved.pop_first() {
            self.serve_now(turn, key);
        }
    }

    fn serve_now(&mut self, turn: &mut Turn<'_>, key: QueueKey) {
        loop {
            let queue = self.queues.get(key);
            if self.service != Service::Open || queue.paused || !queue.has_slot() {
                return;
            }
            let Some((waiter, job)) = self.servable(key) else {
                return;
            };
            // A wait does not end because the only job that was ready is too old.
            if self.fail_if_expired(turn, job) {
                continue;
            }
            if !self.queues.get(key).has_token(self.instant) {
                self.await_token(key);
                return;
            }
            let Some(Wait {
                ends_at,
                caller,
                kind: WaitKind::Pull { request, .. },
            }) = self.forget_wait(waiter)
            else {
                return;
            };
            self.deadlines.remove(ends_at, Timer::Wait(waiter));
            let deliveries = self.take_ready(turn, key, &request, caller);
            turn.effects.served.push((waiter, Served::Pull(deliveries)));
        }
    }

    /// The longest-waiting pull that there is a job for, and that job.
    fn servable(&self, key: QueueKey) -> Option<(WaiterId, JobKey)> {
        let ready = &self.queues.get(key).ready;
        let waiter = ready.first_waiter()?;
        Some((waiter, ready.next(self.waits.wish(waiter))?))
    }

    fn take_ready(
        &mut self,
        turn: &mut Turn<'_>,
        key: QueueKey,
        request: &PullRequest,
        caller: Caller,
    ) -> Vec<Delivery> {
        if self.queues.get(key).paused {
            return Vec::new();
        }
        let mut deliveries = Vec::new();
        let mut bytes = 0;
        while deliveries.len() < request.count
            && let Some(next) = self.next_ready(turn, key, request.group.as_deref())
        {
            if self.store.job(next).has_unwritten() {
                self.store.body_mut(next).write_ties();
            }
            bytes += self.store.job(next).bytes();
            if bytes > PULL_BYTES_MAX && !deliveries.is_empty() {
                break;
            }
            if deliveries.is_empty() {
                // How many more there are for this pull is known only at the end.
                let ready = self.queues.get(key).ready.len();
                deliveries.reserve_exact(request.count.min(ready).min(ROOM_AT_FIRST));
            }
            deliveries.push(self.deliver(turn, next, request, caller));
        }
        deliveries
    }

    /// The job to hand out next; one that became too old in this very moment fails instead. The gates stand in the
    /// order of the contract (sections 7 and B-39): slot, group, token; nothing is paid before the delivery.
    fn next_ready(
        &mut self,
        turn: &mut Turn<'_>,
        key: QueueKey,
        wish: Option<&PullGroup>,
    ) -> Option<JobKey> {
        loop {
            let queue = self.queues.get(key);
            if !queue.has_slot() {
                return None;
            }
            let next = queue.ready.next(wish)?;
            if !queue.has_token(self.instant) {
                return None;
            }
            if !self.fail_if_expired(turn, next) {
                return Some(next);
            }
        }
    }

    fn deliver(
        &mut self,
        turn: &mut Turn<'_>,
        key: JobKey,
        request: &PullRequest,
        caller: Caller,
    ) -> Delivery {
        let now = self.now;
        let serial = self.next_delivery;
        self.next_delivery += 1;
        let limit = request.group.as_ref().and_then(|group| group.limit);
        let job = self.store.job(key);
        let taken = self.queues.get(job.queue).ready.turn(job.group());
        self.count_in_group(key, limit, serial);
        self.unqueue(key);
        let token = request.locked.then(|| self.ids.token(now));
        let lock = token.map(|token| Lock {
            token,
            expires_at: later(now, request.lock_ttl),
            ttl: request.lock_ttl,
            renewals: 0,
        });
        if lock.is_some() {
            self.figures.lock_given();
        }
        let connection = caller.filter(|_| request.locked || !request.detach);
        let job = self.store.job_mut(key);
        job.state = State::Active;
        let timeout = job.options.as_ref().and_then(|options| options.timeout);
        let timeout_at = timeout.map(|ms| later(now, ms));
        job.record(State::Active, now, None, None);
        let life = job.life();
        life.started_at = Some(now);
        let before = (life.ended.take(), life.last_heartbeat.replace(now));
        life.run = Some(Run {
            serial,
            before,
            lock,
            connection,
            timeout_at,
            limited: limit.is_some(),
            turn: taken,
            armed_at: None,
        });
        let queue = self.queues.get_mut(job.queue);
        queue.active.insert(key);
        self.active += 1;
        queue.take_token(self.instant);
        if let Some(connection) = connection {
            self.connections
                .entry(connection)
                .or_default()
                .insert(serial, key);
        }
        self.arm_delivery(key);
        self.emit(turn, key, EventKind::Pulled);
        Delivery {
            job: self.view(key),
            token,
            serial,
            seq: self.store.job(key).seq,
        }
    }

    /// Puts an active job from a store into its place. Its connection is gone.
    pub(super) fn load_active(&mut self, key: JobKey) {
        let serial = self.next_delivery;
        self.next_delivery += 1;
        let job = self.store.job_mut(key);
        let locked = job.run().is_some_and(|run| run.lock.is_some());
        if let Some(run) = job.life().run.as_mut() {
            run.serial = serial;
        }
        if locked {
            self.figures.lock_given();
        }
        let queue = self.queues.get_mut(job.queue);
        queue.active.insert(key);
        queue.ready.begin_active(job);
        self.active += 1;
        self.arm_delivery(key);
    }

    /// Ends the delivery in progress and returns everything it held; the job then stands nowhere.
    ///
    /// The cause decides what its token is still worth; a success has none.
    pub(super) fn end_delivery(&mut self, key: JobKey, cause: Option<EndCause>) -> Option<Run> {
        self.note_end(key);
        let job = self.store.job_mut(key);
        let queue = job.queue;
        let life = job.life.as_mut()?;
        let run = life.run.take()?;
        let token = run.lock.as_ref().map(|lock| lock.token);
        if token.is_some() {
            self.figures.lock_returned();
        }
        life.ended = cause.map(|cause| Ended { cause, token });
        if let (Some(token), Some(cause)) = (token, cause) {
            job.remember_spent(token, cause);
        }
        if let Some(armed_at) = run.armed_at {
            self.deadlines.remove(armed_at, Timer::delivery(job, key));
        }
        let queue = self.queues.get_mut(queue);
        queue.active.remove(&key);
        self.active -= 1;
        queue.ready.end_active(job);
        if let Some(connection) = run.connection
            && let Some(owned) = self.connections.get_mut(&connection)
        {
            owned.remove(&run.serial);
        }
        Some(run)
    }

    /// Puts a job whose delivery has ended back into its queue and serves whoever waits.
    pub(super) fn requeue(&mut self, turn: &mut Turn<'_>, key: JobKey, run_at: Millis) {
        let job = self.store.job_mut(key);
        job.run_at = run_at;
        if let Some(life) = job.life.as_mut() {
            life.started_at = None;
        }
        let queue = job.queue;
        self.enqueue(key);
        self.fail_if_expired(turn, key);
        self.serve(turn, queue);
    }

    /// Takes back jobs that were handed out but never reached anybody, as if they had not been. What was told of it stays
    /// told, and counted: a total never falls.
    pub fn give_back(&mut self, turn: &mut Turn<'_>, deliveries: &[Delivery]) {
        self.tick(turn);
        self.hold_on(turn, |engine, turn| {
            for delivery in deliveries {
                engine.give_back_one(turn, delivery);
            }
        });
    }

    fn give_back_one(&mut self, turn: &mut Turn<'_>, delivery: &Delivery) {
        let Some(key) = self.store.find(&delivery.job.id) else {
            return;
        };
        let job = self.store.job_mut(key);
        if job.run().is_none_or(|run| run.serial != delivery.serial) {
            return;
        }
        let run_at = job.run_at;
        let life = job.life();
        // In a full timeline the last entry is that of an earlier delivery.
        if life
            .timeline
            .last()
            .is_some_and(|entry| entry.state == State::Active && Some(entry.at) == life.started_at)
        {
            life.timeline.pop();
        }
        let Some(run) = self.end_delivery(key, Some(EndCause::Withdrawn)) else {
            return;
        };
        let job = self.store.job_mut(key);
        let life = job.life();
        (life.ended, life.last_heartbeat) = run.before;
        let (queue, group) = (job.queue, job.group().cloned());
        self.uncount_in_group(key, &run);
        self.queues
            .get_mut(queue)
            .put_token_back(self.now, run.serial);
        self.requeue(turn, key, run_at);
        if let Some(taken) = run.turn {
            let ready = &mut self.queues.get_mut(queue).ready;
            ready.give_turn_back(group.as_ref(), taken);
        }
    }
}
