//! How many jobs of a queue ended in which minute (engine contract, section 22).
//!
//! Only minutes in which something happened take room. Each new one also stands in one order over all queues, through
//! which old ones leave: by age, and beyond a bound over all queues by being the oldest. Nothing scans.

use std::collections::VecDeque;

use super::super::Millis;

/// Ms of one minute.
const MINUTE: Millis = 60_000;

/// A whole minute since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) struct Minute(u32);

impl Minute {
    /// The minute in which a time lies; one that no minute stands for counts as the nearest.
    pub(in crate::engine) fn of(at: Millis) -> Self {
        let minute = at.div_euclid(MINUTE);
        Self(u32::try_from(minute).unwrap_or(if minute < 0 { 0 } else { u32::MAX }))
    }

    /// Minutes since the epoch.
    pub(in crate::engine) const fn number(self) -> u32 {
        self.0
    }

    /// The minute of that number.
    pub(in crate::engine) const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Whether it is among the `kept` minutes that end with `now`.
    pub(super) fn is_kept(self, now: Self, kept: u32) -> bool {
        now.0.saturating_sub(self.0) < kept
    }
}

/// The jobs of one queue that ended in one way.
#[derive(Debug, Default)]
pub(in crate::engine) struct Minutes {
    /// Minutes with a count above zero, oldest first.
    points: VecDeque<(Minute, u32)>,
    last_at: Option<Millis>,
}

impl Minutes {
    /// Counts one job; whether its minute is a new one.
    pub(super) fn count(&mut self, at: Millis) -> bool {
        let minute = Minute::of(at);
        self.last_at = Some(at);
        match self.points.back_mut() {
            Some((last, count)) if *last == minute => {
                *count = count.saturating_add(1);
                false
            }
            _ => {
                self.points.push_back((minute, 1));
                true
            }
        }
    }

    /// Every minute that is there.
    pub(super) fn all(&self) -> impl Iterator<Item = Minute> {
        self.points.iter().map(|(minute, _)| *minute)
    }

    /// The count of a minute, if it is kept.
    pub(super) fn count_of(&self, minute: Minute) -> Option<u32> {
        let place = self.points.binary_search_by_key(&minute, |(at, _)| *at);
        self.points.get(place.ok()?).map(|(_, count)| *count)
    }

    /// Takes in the next minute from a store.
    pub(super) fn restore(&mut self, minute: Minute, count: u32) {
        self.points.push_back((minute, count));
    }

    /// When the last job was counted, from a store.
    pub(super) const fn restore_last(&mut self, at: Option<Millis>) {
        self.last_at = at;
    }

    /// Drops a minute, which is the oldest one if it is still there.
    pub(super) fn drop_oldest(&mut self, minute: Minute) {
        self.points.pop_front_if(|(oldest, _)| *oldest == minute);
    }

    /// When the last job was counted.
    pub(super) const fn last_at(&self) -> Option<Millis> {
        self.last_at
    }

    /// How many minutes lie between the oldest and the newest kept one, both included.
    pub(super) fn len(&self, now: Minute, kept: u32) -> usize {
        let oldest = self.kept(now, kept).next();
        match (oldest, self.points.back()) {
            (Some((oldest, _)), Some((newest, _))) => (newest.0 - oldest.0) as usize + 1,
            _ => 0,
        }
    }

    /// Counts from the `start`-th newest minute to the `end`-th, both included; 0 for minutes without a job.
    pub(super) fn range(&self, now: Minute, kept: u32, start: usize, end: usize) -> Vec<u64> {
        let len = self.len(now, kept);
        let end = end.saturating_add(1).min(len);
        let Some(newest) = self.points.back().map(|(newest, _)| newest.0) else {
            return Vec::new();
        };
        let mut counts = vec![0; end.saturating_sub(start)];
        for (minute, count) in self.kept(now, kept) {
            let place = (newest - minute.0) as usize;
            if let Some(slot) = place
                .checked_sub(start)
                .and_then(|place| counts.get_mut(place))
            {
                *slot = u64::from(*count);
            }
        }
        counts
    }

    fn kept(&self, now: Minute, kept: u32) -> impl Iterator<Item = &(Minute, u32)> {
        self.points
            .iter()
            .skip_while(move |(minute, _)| !minute.is_kept(now, kept))
    }

    pub(super) fn shrink(&mut self) {
        self.points.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(minutes: &[Millis]) -> Minutes {
        let mut all = Minutes::default();
        for minute in minutes {
            all.count(minute * MINUTE + 1);
        }
        all
    }

    #[test]
    fn minutes_are_told_newest_first_with_gaps_as_zero() {
        let minutes = after(&[10, 10, 12, 15]);
        let range = |now, start, end| minutes.range(Minute::of(now * MINUTE), 100, start, end);
        assert_eq!(range(15, 0, usize::MAX), [1, 0, 0, 1, 0, 2]);
        assert_eq!(range(15, 1, 3), [0, 0, 1]);
        assert_eq!(range(15, 5, 9), [2]);
        assert_eq!(range(15, 6, 9), Vec::<u64>::new());
        assert_eq!(range(15, 4, 2), Vec::<u64>::new());
    }

    #[test]
    fn minutes_older_than_the_kept_ones_are_not_told() {
        let minutes = after(&[10, 12, 15]);
        let all = |now| minutes.range(Minute::of(now * MINUTE), 5, 0, usize::MAX);
        assert_eq!(all(15), [1, 0, 0, 1]);
        assert_eq!(all(19), [1]);
        assert_eq!(all(20), Vec::<u64>::new());
        assert_eq!(minutes.len(Minute::of(20 * MINUTE), 5), 0);
    }

    #[test]
    fn times_before_the_epoch_count_as_its_first_minute() {
        assert_eq!(Minute::of(-1), Minute(0));
        assert_eq!(Minute::of(Millis::MAX), Minute(u32::MAX));
    }
}
