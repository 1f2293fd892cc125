//! How fast totals grow (engine contract, section 22): measured from reading to reading, smoothed.

use super::super::Millis;
use super::Totals;

/// Ms that must lie between two readings for the later one to measure anew.
const READING_MIN: Millis = 100;
/// Weight of the newest measurement.
const WEIGHT: f64 = 0.3;

/// Jobs per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Added.
    pub push: f64,
    /// Delivered.
    pub pull: f64,
    /// Completed.
    pub complete: f64,
    /// Failed for good.
    pub fail: f64,
}

impl Throughput {
    fn each(&self, act: impl Fn(f64) -> f64) -> Self {
        Self {
            push: act(self.push),
            pull: act(self.pull),
            complete: act(self.complete),
            fail: act(self.fail),
        }
    }

    fn with(&self, other: &Self, act: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            push: act(self.push, other.push),
            pull: act(self.pull, other.pull),
            complete: act(self.complete, other.complete),
            fail: act(self.fail, other.fail),
        }
    }
}

/// The last reading.
#[derive(Debug, Default)]
pub(super) struct Speed {
    read_at: Millis,
    totals: Totals,
    /// `None` before the first measurement, which is taken as it is.
    smoothed: Option<Throughput>,
}

impl Speed {
    pub(super) fn starting(at: Millis) -> Self {
        Self {
            read_at: at,
            ..Self::default()
        }
    }

    /// The throughput until now, rounded to two decimals.
    pub(super) fn read(&mut self, now: Millis, totals: Totals) -> Throughput {
        let elapsed = now.saturating_sub(self.read_at);
        if elapsed >= READING_MIN {
            let per_second =
                |now: u64, before: u64| (now - before) as f64 * 1_000.0 / elapsed as f64;
            let measured = Throughput {
                push: per_second(totals.pushed, self.totals.pushed),
                pull: per_second(totals.pulled, self.totals.pulled),
                complete: per_second(totals.completed, self.totals.completed),
                fail: per_second(totals.failed, self.totals.failed),
            };
            self.smoothed = Some(match self.smoothed {
                None => measured,
                Some(before) => measured.with(&before, |measured, before| {
                    WEIGHT * measured + (1.0 - WEIGHT) * before
                }),
            });
            (self.read_at, self.totals) = (now, totals);
        }
        let smoothed = self.smoothed.unwrap_or_default();
        smoothed.each(|rate| (rate * 100.0).round() / 100.0)
    }
}
