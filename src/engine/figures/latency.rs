//! How long operations take: histograms of what the broker has measured (engine contract, section 22).
//!
//! The engine has no clock that is fine enough. Whoever executes commands measures some of them and hands the
//! durations in; nothing here decides anything about jobs.

/// Upper bounds of the classes of a [`Histogram`], in ms; a last class has none.
pub const LATENCY_BOUNDS: [f64; 15] = [
    0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0,
    10_000.0,
];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// Adding jobs.
    Push,
    /// Pulling jobs, without the time of a wait.
    Pull,
    /// Acknowledging jobs.
    Ack,
}

/// Durations by class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    classes: [u64; LATENCY_BOUNDS.len() + 1],
    count: u64,
    sum: f64,
}

impl Histogram {
    /// Counts `times` durations of `ms` each.
    pub(super) fn observe(&mut self, ms: f64, times: u64) {
        let class = LATENCY_BOUNDS.partition_point(|bound| *bound < ms);
        if let Some(class) = self.classes.get_mut(class) {
            *class += times;
        }
        self.count += times;
        self.sum += ms * times as f64;
    }

    /// How many were measured.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their sum in ms.
    pub const fn sum(&self) -> f64 {
        self.sum
    }

    /// Their mean in ms; 0 when there are none.
    pub fn average(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum / self.count as f64
        }
    }

    /// How many lasted at most as long as each bound, in the order of [`LATENCY_BOUNDS`].
    pub fn cumulated(&self) -> impl Iterator<Item = (f64, u64)> {
        let counts = self.classes.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        LATENCY_BOUNDS.into_iter().zip(counts)
    }

    /// The smallest bound in ms that `percent` of all durations keep; 0 when there are none, the greatest bound when
    /// none is great enough.
    pub fn percentile(&self, percent: f64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let wanted = self.count as f64 * percent / 100.0;
        let [.., greatest] = LATENCY_BOUNDS;
        self.cumulated()
            .find(|(_, count)| *count as f64 >= wanted)
            .map_or(greatest, |(bound, _)| bound)
    }
}

/// Durations of the three operations, since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// Adding jobs.
    pub push: Histogram,
    /// Pulling jobs, without the time of a wait.
    pub pull: Histogram,
    /// Acknowledging jobs.
    pub ack: Histogram,
}

impl Latency {
    pub(super) fn observe(&mut self, what: Timed, ms: f64, times: u64) {
        let histogram = match what {
            Timed::Push => &mut self.push,
            Timed::Pull => &mut self.pull,
            Timed::Ack => &mut self.ack,
        };
        histogram.observe(ms, times);
    }

    /// The mean in ms over all three; 0 when nothing was measured.
    pub fn average(&self) -> f64 {
        let all = [&self.push, &self.pull, &self.ack];
        let count: u64 = all.iter().map(|one| one.count).sum();
        let sum: f64 = all.iter().map(|one| one.sum).sum();
        if count == 0 { 0.0 } else { sum / count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_bounds_that_cover_them() {
        let mut histogram = Histogram::default();
        assert_eq!(
            (histogram.percentile(99.0), histogram.average()),
            (0.0, 0.0)
        );
        histogram.observe(0.1, 90);
        histogram.observe(3.0, 9);
        histogram.observe(20_000.0, 1);
        assert_eq!(histogram.percentile(50.0), 0.1);
        assert_eq!(histogram.percentile(95.0), 5.0);
        assert_eq!(histogram.percentile(99.0), 5.0);
        assert_eq!(histogram.percentile(100.0), 10_000.0);
        assert_eq!(histogram.count(), 100);
        assert_eq!(histogram.average(), (9.0 + 27.0 + 20_000.0) / 100.0);
    }

    #[test]
    fn classes_add_up() {
        let mut histogram = Histogram::default();
        for ms in [0.05, 0.1, 0.11, 10_000.0, 10_000.1] {
            histogram.observe(ms, 1);
        }
        let counts: Vec<u64> = histogram.cumulated().map(|(_, count)| count).collect();
        assert_eq!(counts.first(), Some(&2));
        assert_eq!(counts.get(1), Some(&3));
        assert_eq!(counts.last(), Some(&4));
        assert_eq!(histogram.count(), 5);
    }
}
