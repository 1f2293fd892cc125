//! Limits of whole queues (section 17; B-19, B-20): a bucket is played back from its start whenever somebody asks.

use std::sync::Arc;

use bunqueue_mcp::command::{Command, GetQueueLimits, Reply};
use bunqueue_mcp::engine::{Millis, QueueLimits, RateLimit};

use super::{Place, Queue, Reference, Wish};

/// A rate limit with everything that was delivered under it.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    limit: RateLimit,
    set_at: Millis,
    ends_at: Option<Millis>,
    /// When, the number of the delivery, and whether that was paid or given back.
    paid: Vec<(Millis, u64, Payment)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Payment {
    Taken,
    Returned,
}

impl Rate {
    /// One token, in parts of which each millisecond brings `max`.
    fn token(&self) -> i128 {
        self.limit.duration.into()
    }

    fn capacity(&self) -> i128 {
        self.token() * i128::from(self.limit.max)
    }

    /// What is in the bucket after the last delivery, and when that was.
    fn after_last(&self) -> (i128, Millis) {
        let (mut level, mut at) = (self.capacity(), self.set_at);
        for (paid_at, _, payment) in &self.paid {
            level = self.refilled(level, paid_at - at);
            level = match payment {
                Payment::Taken => level - self.token(),
                Payment::Returned => (level + self.token()).min(self.capacity()),
            };
            at = *paid_at;
        }
        (level, at)
    }

    /// The bucket is full from now on.
    pub(super) fn fill(&mut self, now: Millis) {
        self.set_at = now;
        self.paid.clear();
    }

    fn refilled(&self, level: i128, ms: Millis) -> i128 {
        (level + i128::from(ms) * i128::from(self.limit.max)).min(self.capacity())
    }

    fn level(&self, now: Millis) -> i128 {
        let (level, at) = self.after_last();
        self.refilled(level, now - at)
    }

    /// The first time at which a token is there, if ever.
    fn next_token(&self) -> Option<Millis> {
        let (level, at) = self.after_last();
        let missing = (self.token() - level).max(0);
        let max = i128::from(self.limit.max);
        (max > 0).then(|| at + ((missing + max - 1) / max) as Millis)
    }
}

impl Reference {
    fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|queue| &*queue.name == name)
    }

    fn queue_mut(&mut self, name: &str) -> Option<&mut Queue> {
        self.queues.iter_mut().find(|queue| &*queue.name == name)
    }

    fn active_in(&self, queue: &str) -> usize {
        let active = self.jobs.iter().filter(|job| &*job.view.queue == queue);
        active
            .filter(|job| matches!(job.place, Place::Active(_)))
            .count()
    }

    pub(super) fn has_slot(&self, queue: &str) -> bool {
        let cap = self.queue(queue).and_then(|queue| queue.cap);
        cap.is_none_or(|cap| (self.active_in(queue) as u64) < cap)
    }

    pub(super) fn has_token(&self, queue: &str) -> bool {
        let rate = self.queue(queue).and_then(|queue| queue.rate.as_ref());
        rate.is_none_or(|rate| rate.level(self.instant) >= rate.token())
    }

    pub(super) fn pay(&mut self, queue: &str, serial: u64) {
        let instant = self.instant;
        if let Some(rate) = self.queue_mut(queue).and_then(|queue| queue.rate.as_mut()) {
            rate.paid.push((instant, serial, Payment::Taken));
        }
    }

    pub(super) fn unpay(&mut self, queue: &str, serial: u64) {
        let instant = self.instant;
        if let Some(rate) = self.queue_mut(queue).and_then(|queue| queue.rate.as_mut())
            && rate.paid.iter().any(|(_, paid, _)| *paid == serial)
        {
            rate.paid.push((instant, serial, Payment::Returned));
        }
    }

    /// Times at which limits end by themselves, with the places of their queues.
    pub(super) fn rate_ends(&self) -> Vec<(Millis, usize)> {
        let ends = |(place, queue): (usize, &Queue)| Some((queue.rate.as_ref()?.ends_at?, place));
        self.queues.iter().enumerate().filter_map(ends).collect()
    }

    /// Notes in which of these queues somebody waits for nothing but a token, and when that is there.
    pub(super) fn note_awaited_tokens(&mut self, touched: &[Arc<str>]) {
        for place in 0..self.queues.len() {
            let name = Arc::clone(&self.queues[place].name);
            if !touched.contains(&name) {
                continue;
            }
            let waits = self.waiters.iter().any(|waiter| match &waiter.wish {
                Wish::Jobs { queue, group, .. } => {
                    *queue == name && self.candidate(&name, group.as_deref()).is_some()
                }
                Wish::End { .. } => false,
            });
            let blocked = !self.paused(&name) && self.has_slot(&name) && !self.has_token(&name);
            let rate = self.queues[place].rate.as_ref();
            self.queues[place].token_at =
                rate.filter(|_| waits && blocked).and_then(Rate::next_token);
        }
    }

    pub(super) fn change_limits(&mut self, command: &Command) -> Option<Reply> {
        let now = self.now;
        match command {
            Command::SetRateLimit(set) => {
                self.touch_queue(&set.queue.shared()).rate = Some(Rate {
                    limit: set.limit,
                    set_at: now,
                    ends_at: set.ttl.map(|ttl| now + ttl),
                    paid: Vec::new(),
                });
            }
            Command::ClearRateLimit(clear) => {
                if let Some(queue) = self.queue_mut(clear.queue.as_str()) {
                    queue.rate = None;
                }
            }
            Command::SetConcurrency(set) => {
                self.touch_queue(&set.queue.shared()).cap = Some(set.limit);
            }
            Command::ClearConcurrency(clear) => {
                if let Some(queue) = self.queue_mut(clear.queue.as_str()) {
                    queue.cap = None;
                }
            }
            _ => return None,
        }
        Some(Reply::Done(()))
    }

    pub(super) fn limits(&self, get: &GetQueueLimits) -> QueueLimits {
        let name = get.queue.as_str();
        let queue = self.queue(name);
        let rate = queue.and_then(|queue| queue.rate.as_ref());
        let ttl = |rate: &Rate| {
            let used = rate.capacity() - rate.level(self.now);
            let few = get
                .jobs
                .is_some_and(|jobs| used < i128::from(jobs) * rate.token());
            match (rate.ends_at, rate.next_token()) {
                (Some(at), _) => at - self.now,
                _ if few => 0,
                (None, Some(at)) => (at - self.now).max(0),
                (None, None) => 4_320_000_000_000_000,
            }
        };
        QueueLimits {
            rate: rate.map(|rate| rate.limit),
            rate_ttl: rate.map_or(-2, ttl),
            concurrency: queue.and_then(|queue| queue.cap),
            active: self.active_in(name),
            maxed: !self.has_slot(name),
            paused: self.paused(name),
        }
    }
}
