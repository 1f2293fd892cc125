//! The ready jobs of a queue in their order of delivery (engine contract, section 5).
//!
//! Most jobs arrive in the order in which they leave. Such a job stands in the *lane*, a ring that costs 16 bytes a job
//! and no search; whoever belongs before the lane's end (a priority, lifo, an earlier run time) stands in the *tree*.
//! The next job is the better of the two firsts. A job that leaves the middle of the lane leaves a gap behind.

use std::collections::{BTreeMap, VecDeque};

use super::Millis;
use super::store::JobKey;

/// Gaps that the lane may have before it is packed, whatever its length.
const GAPS_MIN: usize = 64;

/// The place of a ready job in its queue: priority, then lifo jobs newest first, then the others by run time, then by
/// admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyKey {
    /// Descending priority, as an integer that sorts ascending.
    rank: u64,
    run_at: Millis,
    seq: u64,
}

impl ReadyKey {
    pub(super) fn new(priority: f64, lifo: bool, run_at: Millis, seq: u64) -> Self {
        // Adding zero turns −0 into +0, so that both rank alike.
        let bits = (priority + 0.0).to_bits();
        // The order of IEEE 754 doubles as unsigned integers, then turned round.
        let ascending = if bits >> 63 == 0 {
            bits | (1 << 63)
        } else {
            !bits
        };
        let (run_at, seq) = if lifo {
            (Millis::MIN, u64::MAX - seq)
        } else {
            (run_at, seq)
        };
        Self {
            rank: !ascending,
            run_at,
            seq,
        }
    }

    /// The place of a ready job in its group: ascending priority, then admission.
    pub(super) fn in_group(priority: f64, seq: u64) -> Self {
        Self::new(-priority, false, 0, seq)
    }
}

/// The key of a job that may stand in the lane: default priority, not lifo. Its run time and its admission number, of
/// 48 bits each; those that need more (a run time before 1970, or after the year 10889) stand in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LaneKey([u32; 3]);

impl LaneKey {
    const BITS: u32 = 48;

    fn of(key: &ReadyKey) -> Option<Self> {
        const DEFAULT_RANK: u64 = !(1 << 63);
        let run_at = u64::try_from(key.run_at).ok()?;
        if key.rank != DEFAULT_RANK || (run_at | key.seq) >> Self::BITS != 0 {
            return None;
        }
        let bits = u128::from(run_at) << Self::BITS | u128::from(key.seq);
        Some(Self([64, 32, 0].map(|shift| (bits >> shift) as u32)))
    }

    fn whole(self) -> ReadyKey {
        let bits = self
            .0
            .iter()
            .fold(0, |bits, part| bits << 32 | u128::from(*part));
        let seq = bits as u64 & ((1 << Self::BITS) - 1);
        ReadyKey::new(0.0, false, (bits >> Self::BITS) as Millis, seq)
    }
}

/// A place in the lane; without a job it is a gap.
#[derive(Debug)]
struct Place {
    key: LaneKey,
    job: Option<JobKey>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Sorted by run time and admission; its first place is never a gap.
    lane: VecDeque<Place>,
    gaps: usize,
    tree: BTreeMap<ReadyKey, JobKey>,
}

impl Ready {
    pub(super) fn len(&self) -> usize {
        self.lane.len() - self.gaps + self.tree.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lane.is_empty() && self.tree.is_empty()
    }

    pub(super) fn insert(&mut self, key: ReadyKey, job: JobKey) {
        let last = self.lane.back().map(|last| last.key);
        match LaneKey::of(&key) {
            Some(key) if last.is_none_or(|last| last < key) => {
                let job = Some(job);
                self.lane.push_back(Place { key, job });
            }
            _ => {
                self.tree.insert(key, job);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &ReadyKey) -> Option<JobKey> {
        if let Some(lane_key) = LaneKey::of(key)
            && let Some(at) = self.place_in_lane(lane_key)
            && let Some(job) = self.lane.get_mut(at).and_then(|place| place.job.take())
        {
            self.gaps += 1;
            self.drop_gaps();
            return Some(job);
        }
        self.tree.remove(key)
    }

    /// Where it stands, or stood, in the lane. A delivery takes the first, which needs no search.
    fn place_in_lane(&self, key: LaneKey) -> Option<usize> {
        if self.lane.front().is_some_and(|place| place.key == key) {
            return Some(0);
        }
        self.lane.binary_search_by_key(&key, |place| place.key).ok()
    }

    /// The job to deliver next.
    pub(super) fn first(&self) -> Option<JobKey> {
        let plain = self.lane.front();
        let (other_key, other) = match self.tree.first_key_value() {
            Some((key, job)) => (key, *job),
            None => return plain.and_then(|place| place.job),
        };
        match plain {
            Some(place) if place.key.whole() < *other_key => place.job,
            _ => Some(other),
        }
    }

    /// Every ready job, in no particular order.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobKey> {
        let plain = self.lane.iter().filter_map(|place| place.job);
        plain.chain(self.tree.values().copied())
    }

    /// Jobs of which one has the earliest run time: the first of the lane, and the tree.
    pub(super) fn earliest(&self) -> impl Iterator<Item = JobKey> {
        let plain = self.lane.front().and_then(|place| place.job);
        plain.into_iter().chain(self.tree.values().copied())
    }

    pub(super) fn shrink(&mut self) {
        self.lane.shrink_to_fit();
    }

    fn drop_gaps(&mut self) {
        while self
            .lane
            .pop_front_if(|place| place.job.is_none())
            .is_some()
        {
            self.gaps -= 1;
        }
        if self.gaps > GAPS_MIN.max(self.lane.len() / 2) {
            self.lane.retain(|place| place.job.is_some());
            self.gaps = 0;
        }
        // A lane that was long gives its room back once it is nearly empty.
        if self.lane.capacity() > 1_024 && self.lane.len() < self.lane.capacity() / 8 {
            self.lane.shrink_to(self.lane.capacity() / 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_keys_order_as_the_contract_says() {
        let order = [
            ReadyKey::new(10.0, false, 9, 9),
            ReadyKey::new(0.5, false, 9, 9),
            ReadyKey::new(0.0, true, 9, 8),
            ReadyKey::new(-0.0, true, 1, 7),
            ReadyKey::new(0.0, false, -5, 6),
            ReadyKey::new(0.0, false, 1, 4),
            ReadyKey::new(0.0, false, 1, 5),
            ReadyKey::new(-0.5, false, 0, 0),
            ReadyKey::new(-10.0, true, 0, 0),
            ReadyKey::new(f64::MIN, false, 0, 0),
        ];
        assert!(order.is_sorted());
    }

    #[test]
    fn a_place_in_the_lane_is_small_and_whoever_does_not_fit_stands_in_the_tree() {
        assert_eq!(size_of::<Place>(), 16);
        let most = (1 << 48) - 1;
        for (run_at, seq) in [(0, 0), (1, most as u64), (most, 7), (most, most as u64)] {
            let key = ReadyKey::new(0.0, false, run_at, seq);
            assert_eq!(LaneKey::of(&key).map(LaneKey::whole), Some(key));
        }
        let whole = [
            ReadyKey::new(0.0, false, 5, 1),
            ReadyKey::new(0.0, false, -5, 2),
            ReadyKey::new(0.0, false, most + 1, 3),
            ReadyKey::new(0.0, false, 9, 1 << 48),
            ReadyKey::new(0.0, true, 5, 4),
            ReadyKey::new(1.0, false, 5, 5),
        ];
        assert!(whole[1..].iter().all(|key| LaneKey::of(key).is_none()));
        let mut ready = Ready::default();
        for (number, key) in whole.into_iter().enumerate() {
            ready.insert(key, JobKey::new(number as u32));
        }
        assert_eq!((ready.lane.len(), ready.len()), (1, 6));
        let mut order = Vec::new();
        while let Some(job) = ready.first() {
            assert_eq!(ready.remove(&whole[job.place()]), Some(job));
            order.push(job.place());
        }
        assert_eq!(order, [5, 4, 1, 0, 3, 2]);
    }

    /// Everything that goes in comes out in the order of the keys, however the two parts share it.
    #[test]
    fn lane_and_tree_together_are_one_order() {
        let mut ready = Ready::default();
        let mut expected = BTreeMap::new();
        let mut state = 1_u64;
        let mut random = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % bound
        };
        for seq in 0..20_000 {
            let priority = if random(8) == 0 {
                random(3) as f64 - 1.0
            } else {
                0.0
            };
            let run_at = (seq / 50 + random(3)) as Millis;
            let key = ReadyKey::new(priority, random(20) == 0, run_at, seq);
            let job = JobKey::new(seq as u32);
            ready.insert(key, job);
            expected.insert(key, job);
            if random(3) == 0 {
                let skip = random(expected.len() as u64) as usize;
                let (key, job) = expected
                    .iter()
                    .nth(skip.min(200))
                    .map(|(k, j)| (*k, *j))
                    .unwrap();
                assert_eq!(ready.remove(&key), Some(job));
                expected.remove(&key);
            }
            assert_eq!(ready.len(), expected.len());
            assert_eq!(ready.first(), expected.values().next().copied());
        }
        let mut all: Vec<_> = ready.jobs().collect();
        all.sort_unstable();
        let mut known: Vec<_> = expected.values().copied().collect();
        known.sort_unstable();
        assert_eq!(all, known);
        while let Some((key, job)) = expected.pop_first() {
            assert_eq!(ready.first(), Some(job));
            assert_eq!(ready.remove(&key), Some(job));
        }
        assert!(ready.is_empty());
    }
}
