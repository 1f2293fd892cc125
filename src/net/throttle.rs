//! Which of many alike failures the log tells of: the first, then one a minute with the number of those before it.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// What goes wrong once mostly goes on doing so; so often it is worth a line.
const PERIOD: Duration = Duration::from_secs(60);

/// Failures of several kinds, each told of for itself.
#[derive(Debug)]
pub struct Throttle<K> {
    kinds: Mutex<HashMap<K, Told>>,
    /// Kinds that are remembered.
    max: usize,
}

#[derive(Debug)]
struct Told {
    at: Instant,
    /// Failures since then.
    unsaid: u64,
}

impl<K: Eq + Hash> Throttle<K> {
    /// Remembers at most `max` kinds at a time; of more that come within a minute nothing is said.
    pub fn new(max: usize) -> Self {
        Self {
            kinds: Mutex::default(),
            max,
        }
    }

    /// Notes a failure. If the log should tell of it: how many there were since the last one that was told, this one
    /// included.
    pub fn another(&self, kind: K) -> Option<u64> {
        let now = Instant::now();
        let is_over = |told: &Told| now >= told.at + PERIOD;
        let mut kinds = self.kinds.lock();
        if let Some(told) = kinds.get_mut(&kind) {
            told.unsaid += 1;
            if !is_over(told) {
                return None;
            }
            told.at = now;
            return Some(std::mem::take(&mut told.unsaid));
        }
        if kinds.len() >= self.max {
            kinds.retain(|_, told| !is_over(told));
        }
        if kinds.len() >= self.max {
            return None;
        }
        kinds.insert(kind, Told { at: now, unsaid: 0 });
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_kind_is_told_of_at_once_and_then_once_a_minute() {
        let throttle = Throttle::new(2);
        let mut told = Vec::new();
        for _ in 0..=125 {
            told.extend(throttle.another("a"));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(told, [1, 60, 60]);
        assert_eq!(throttle.another("b"), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_are_bounded_and_forgotten_after_their_time() {
        let throttle = Throttle::new(2);
        let said = ["a", "b", "c"].map(|kind| throttle.another(kind));
        assert_eq!(said, [Some(1), Some(1), None]);
        tokio::time::advance(PERIOD).await;
        assert_eq!(throttle.another("c"), Some(1));
    }
}
