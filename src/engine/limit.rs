//! Limits of a whole queue: how often it hands out a job, and how many may be active (engine contract, section 17).
//!
//! Both are looked at before a delivery and paid by it, in [`super::delivery`]; a refused delivery costs nothing. A cap
//! is compared with the jobs that are active, so there is no slot that could be lost. A bucket is counted in whole
//! numbers, so no fraction of a token is, either. While pulls wait for a token, one entry in the deadline order stands
//! at the time of the next one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::deadline::Timer;
use super::queue::{Queue, QueueKey};
use super::{Engine, Millis, SPAN_MAX, Turn};

/// At most that many deliveries in that time. What "in" means is said where it is used: a queue refills evenly, a group
/// counts in fixed windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// Deliveries; in a queue 0 blocks everything, for a group it is at least 1.
    pub max: u64,
    /// Ms, at least 1.
    pub duration: Millis,
}

/// What limits a queue, and whether it does so now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// How often it hands out jobs.
    pub rate: Option<RateLimit>,
    /// −2 without such a limit; the ms until a temporary one ends; else the ms until the next delivery is allowed
    /// ([`SPAN_MAX`] for never).
    pub rate_ttl: Millis,
    /// Jobs that may be active.
    pub concurrency: Option<u64>,
    /// Jobs that are.
    pub active: usize,
    /// Whether those are all that may be.
    pub maxed: bool,
    /// Whether the queue hands out nothing at all.
    pub paused: bool,
}

/// The limits of a queue that has any.
#[derive(Debug, Default)]
pub(super) struct Limits {
    rate: Option<Rate>,
    cap: Option<u64>,
    /// When waiting pulls are served next, because a token will be there.
    token_at: Option<Millis>,
}

impl Limits {
    /// When a token is waited for, and when the limit of deliveries ends.
    pub(super) fn timed(&self) -> (Option<Millis>, Option<Millis>) {
        (
            self.token_at,
            self.rate.as_ref().and_then(|rate| rate.ends_at),
        )
    }
}

#[derive(Debug)]
struct Rate {
    bucket: Bucket,
    /// When the limit removes itself.
    ends_at: Option<Millis>,
    /// The first delivery that pays this bucket, by its number.
    since: u64,
}

/// A token bucket. One token is `limit.duration` units, and each millisecond brings `limit.max` of them.
#[derive(Debug)]
struct Bucket {
    limit: RateLimit,
    /// Units that were there at `at`.
    level: u128,
    at: Millis,
}

impl Bucket {
    fn full(limit: RateLimit, now: Millis) -> Self {
        let level = u128::from(limit.max) * Self::token(limit);
        Self {
            limit,
            level,
            at: now,
        }
    }

    fn token(limit: RateLimit) -> u128 {
        limit.duration.max(1).unsigned_abs().into()
    }

    fn capacity(&self) -> u128 {
        u128::from(self.limit.max) * Self::token(self.limit)
    }

    fn level(&self, now: Millis) -> u128 {
        let passed = u128::from(now.saturating_sub(self.at).max(0).unsigned_abs());
        (self.level + passed * u128::from(self.limit.max)).min(self.capacity())
    }

    /// Ms until there is a token; `None` for never.
    fn wait(&self, now: Millis) -> Option<Millis> {
        if self.limit.max == 0 {
            return None;
        }
        let missing = Self::token(self.limit).saturating_sub(self.level(now));
        Millis::try_from(missing.div_ceil(self.limit.max.into())).ok()
    }

    /// Whether fewer than `count` tokens are in use.
    fn uses_fewer_than(&self, count: u64, now: Millis) -> bool {
        self.capacity() - self.level(now) < u128::from(count) * Self::token(self.limit)
    }

    fn take(&mut self, now: Millis) {
        self.level = self.level(now).saturating_sub(Self::token(self.limit));
        self.at = now;
    }

    fn put_back(&mut self, now: Millis) {
        self.level = (self.level(now) + Self::token(self.limit)).min(self.capacity());
        self.at = now;
    }
}

impl Queue {
    /// What is set: how often it hands out jobs, when that ends by itself, and how many may be active.
    pub(super) fn limits_set(&self) -> (Option<RateLimit>, Option<Millis>, Option<u64>) {
        let Some(limits) = self.limits.as_ref() else {
            return (None, None, None);
        };
        let rate = limits.rate.as_ref();
        (
            rate.map(|rate| rate.bucket.limit),
            rate.and_then(|rate| rate.ends_at),
            limits.cap,
        )
    }

    fn cap(&self) -> Option<u64> {
        self.limits.as_ref().and_then(|limits| limits.cap)
    }

    /// Whether another job may become active.
    pub(super) fn has_slot(&self) -> bool {
        self.cap()
            .is_none_or(|cap| (self.active.len() as u64) < cap)
    }

    fn bucket(&self) -> Option<&Bucket> {
        let rate = self.limits.as_ref()?.rate.as_ref()?;
        Some(&rate.bucket)
    }

    /// Whether the rate allows a delivery.
    pub(super) fn has_token(&self, now: Millis) -> bool {
        self.bucket()
            .is_none_or(|bucket| bucket.wait(now) == Some(0))
    }

    /// Pays for a delivery.
    pub(super) fn take_token(&mut self, now: Millis) {
        if let Some(rate) = self.rate_mut() {
            rate.bucket.take(now);
        }
    }

    /// Takes back what that delivery has paid, if it was to the limit of now.
    pub(super) fn put_token_back(&mut self, now: Millis, serial: u64) {
        if let Some(rate) = self.rate_mut().filter(|rate| rate.since <= serial) {
            rate.bucket.put_back(now);
        }
    }

    fn rate_mut(&mut self) -> Option<&mut Rate> {
        self.limits.as_mut()?.rate.as_mut()
    }
}

impl Engine {
    /// Limits how often a queue hands out a job: `limit.max` at once, then evenly one per `duration / max` ms. It ends
    /// after `ttl` ms, if given. Set again, it starts full.
    pub fn set_rate_limit(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &Arc<str>,
        limit: RateLimit,
        ttl: Option<Millis>,
    ) {
        self.tick(turn);
        let key = self.queues.open_listed(queue);
        self.drop_rate(key);
        let ends_at = ttl.map(|ttl| self.now.saturating_add(ttl));
        if let Some(at) = ends_at {
            self.deadlines.insert(at, Timer::RateEnd(key));
        }
        let rate = Rate {
            bucket: Bucket::full(limit, self.now),
            ends_at,
            since: self.next_delivery,
        };
        self.limits_mut(key).rate = Some(rate);
        self.queues.note_settings(key);
        self.serve(turn, key);
    }

    /// Takes in the limits of a queue from a store. The bucket starts full; a limit that is over by now goes with the
    /// next tick.
    pub(super) fn load_limits(
        &mut self,
        key: QueueKey,
        rate: Option<(RateLimit, Option<Millis>)>,
        cap: Option<u64>,
    ) {
        if rate.is_none() && cap.is_none() {
            return;
        }
        if let Some(at) = rate.and_then(|(_, ends_at)| ends_at) {
            self.deadlines.insert(at, Timer::RateEnd(key));
        }
        let rate = rate.map(|(limit, ends_at)| Rate {
            bucket: Bucket::full(limit, self.now),
            ends_at,
            since: self.next_delivery,
        });
        let limits = self.limits_mut(key);
        limits.rate = rate;
        limits.cap = cap;
    }

    /// Lifts the rate limit of a queue.
    pub fn clear_rate_limit(&mut self, turn: &mut Turn<'_>, queue: &str) {
        self.tick(turn);
        if let Some(key) = self.queues.find(queue) {
            self.drop_rate(key);
            self.limits_changed(turn, key);
        }
    }

    /// Limits how many jobs of a queue may be active; 0 blocks it. Those that are active already count.
    pub fn set_concurrency(&mut self, turn: &mut Turn<'_>, queue: &Arc<str>, cap: u64) {
        self.tick(turn);
        let key = self.queues.open_listed(queue);
        self.limits_mut(key).cap = Some(cap);
        self.queues.note_settings(key);
        self.serve(turn, key);
    }

    /// Lifts the limit of active jobs.
    pub fn clear_concurrency(&mut self, turn: &mut Turn<'_>, queue: &str) {
        self.tick(turn);
        if let Some(key) = self.queues.find(queue) {
            if let Some(limits) = self.queues.get_mut(key).limits.as_mut() {
                limits.cap = None;
            }
            self.limits_changed(turn, key);
        }
    }

    /// What limits a queue. With `jobs` the rate counts as free while fewer than that many tokens are in use.
    pub fn queue_limits(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        jobs: Option<u64>,
    ) -> QueueLimits {
        self.tick(turn);
        let Some(queue) = self.queues.find(queue).map(|key| self.queues.get(key)) else {
            return QueueLimits {
                rate: None,
                rate_ttl: -2,
                concurrency: None,
                active: 0,
                maxed: false,
                paused: false,
            };
        };
        let rate = queue
            .limits
            .as_ref()
            .and_then(|limits| limits.rate.as_ref());
        QueueLimits {
            rate: rate.map(|rate| rate.bucket.limit),
            rate_ttl: rate.map_or(-2, |rate| rate.ttl(self.now, jobs)),
            concurrency: queue.cap(),
            active: queue.active.len(),
            maxed: !queue.has_slot(),
            paused: queue.paused,
        }
    }

    /// A temporary rate limit is over; its entry was just taken out.
    pub(super) fn end_rate(&mut self, turn: &mut Turn<'_>, key: QueueKey) {
        self.stop_awaiting_token(key);
        if let Some(limits) = self.queues.get_mut(key).limits.as_mut() {
            limits.rate = None;
        }
        self.limits_changed(turn, key);
    }

    /// A token is there for those who wait; the entry was just taken out.
    pub(super) fn token_due(&mut self, turn: &mut Turn<'_>, key: QueueKey) {
        if let Some(limits) = self.queues.get_mut(key).limits.as_mut() {
            limits.token_at = None;
        }
        self.serve(turn, key);
    }

    /// Somebody waits for a token: serves the queue when there is one.
    pub(super) fn await_token(&mut self, key: QueueKey) {
        let queue = self.queues.get(key);
        let wait = queue.bucket().and_then(|bucket| bucket.wait(self.instant));
        let Some(at) = wait.map(|wait| self.instant.saturating_add(wait)) else {
            return;
        };
        self.stop_awaiting_token(key);
        self.deadlines.insert(at, Timer::Token(key));
        self.limits_mut(key).token_at = Some(at);
    }

    /// Nobody waits for a token any more.
    pub(super) fn stop_awaiting_token(&mut self, key: QueueKey) {
        let limits = self.queues.get_mut(key).limits.as_mut();
        if let Some(at) = limits.and_then(|limits| limits.token_at.take()) {
            self.deadlines.remove(at, Timer::Token(key));
        }
    }

    /// Forgets every limit of a queue.
    pub(super) fn drop_limits(&mut self, key: QueueKey) {
        self.drop_rate(key);
        self.queues.get_mut(key).limits = None;
        self.queues.note_settings(key);
    }

    fn limits_mut(&mut self, key: QueueKey) -> &mut Limits {
        self.queues.get_mut(key).limits.get_or_insert_default()
    }

    fn drop_rate(&mut self, key: QueueKey) {
        self.stop_awaiting_token(key);
        let limits = self.queues.get_mut(key).limits.as_mut();
        if let Some(rate) = limits.and_then(|limits| limits.rate.take())
            && let Some(at) = rate.ends_at
        {
            self.deadlines.remove(at, Timer::RateEnd(key));
        }
    }

    /// A limit is gone: more may be handed out, and the name may be nobody's any more.
    fn limits_changed(&mut self, turn: &mut Turn<'_>, key: QueueKey) {
        self.queues.marks.touch(key);
        let queue = self.queues.get(key);
        let empty = |limits: &Limits| limits.rate.is_none() && limits.cap.is_none();
        if queue.limits.as_deref().is_some_and(empty) {
            self.drop_limits(key);
            self.note_idle(key);
        }
        self.serve(turn, key);
    }
}

impl Rate {
    fn ttl(&self, now: Millis, jobs: Option<u64>) -> Millis {
        if let Some(at) = self.ends_at {
            return at.saturating_sub(now);
        }
        if jobs.is_some_and(|jobs| self.bucket.uses_fewer_than(jobs, now)) {
            return 0;
        }
        self.bucket.wait(now).unwrap_or(SPAN_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times at which a bucket that is asked every millisecond gives a token.
    fn grants(max: u64, duration: Millis, until: Millis) -> Vec<Millis> {
        let mut bucket = Bucket::full(RateLimit { max, duration }, 0);
        let mut grants = Vec::new();
        for now in 0..=until {
            while bucket.wait(now) == Some(0) {
                bucket.take(now);
                grants.push(now);
            }
        }
        grants
    }

    #[test]
    fn a_burst_is_followed_by_an_even_rate() {
        assert_eq!(grants(2, 1_000, 1_600), [0, 0, 500, 1_000, 1_500]);
        // Thirds of a millisecond are not lost: exactly 3 tokens in every 10 ms.
        let thirds = grants(3, 10, 40);
        assert_eq!(
            thirds,
            [0, 0, 0, 4, 7, 10, 14, 17, 20, 24, 27, 30, 34, 37, 40]
        );
    }

    #[test]
    fn nothing_drifts_over_a_million_tokens() {
        let limit = RateLimit {
            max: 7,
            duration: 3,
        };
        let mut bucket = Bucket::full(limit, 0);
        for _ in 0..7 {
            bucket.take(0);
        }
        let mut now = 0;
        for _ in 0..1_000_000_u64 {
            now += bucket.wait(now).unwrap();
            bucket.take(now);
        }
        // The last of a million tokens at 7/3 per ms.
        assert_eq!(now, 428_572);
    }

    #[test]
    fn the_greatest_values_do_not_overflow() {
        let limit = RateLimit {
            max: (1 << 53) - 1,
            duration: SPAN_MAX,
        };
        let mut bucket = Bucket::full(limit, -SPAN_MAX);
        bucket.take(-SPAN_MAX);
        assert_eq!(bucket.wait(SPAN_MAX), Some(0));
        let none = Bucket::full(
            RateLimit {
                max: 0,
                duration: 1,
            },
            0,
        );
        assert_eq!(none.wait(SPAN_MAX), None);
    }
}
