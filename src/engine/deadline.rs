//! The one order of everything that is timed. Nothing scans: an entry is put in when its time is known and taken
//! out when its cause is gone, so a million waiting jobs cost nothing while none is due.

use std::collections::BTreeSet;

use super::Millis;
use super::backlog::GroupKey;
use super::cron::CronKey;
use super::outcome::WaiterId;
use super::queue::QueueKey;
use super::store::{Job, JobKey};

/// What is due. At the same instant the order of the variants decides: jobs become ready before waits give up. Jobs are
/// in the order of their admission, which their places in the table do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A delayed job becomes ready.
    Mature {
        /// Its job's number in the order of admission.
        seq: u64,
        /// Its job.
        key: JobKey,
    },
    /// A queued job outlives its ttl.
    Expire {
        /// As of [`Timer::Mature`].
        seq: u64,
        /// Its job.
        key: JobKey,
    },
    /// A delivery may have timed out, lost its lock or stalled.
    Delivery {
        /// As of [`Timer::Mature`].
        seq: u64,
        /// Its job.
        key: JobKey,
    },
    /// A dead letter is tried again, or too old; the oldest comes first.
    DeadLetter {
        /// Its place in the order of entry.
        seq: u64,
        /// Its job.
        key: JobKey,
    },
    /// Completed jobs are too old.
    Completed,
    /// A temporary rate limit of a queue ends.
    RateEnd(QueueKey),
    /// The rate of a queue allows a delivery to those who wait.
    Token(QueueKey),
    /// A group that was throttled may be served again.
    GroupThrottle(QueueKey, GroupKey),
    /// The window in which deliveries of a group are counted is over.
    GroupWindow(QueueKey, GroupKey),
    /// The slot of a cron has come. After the ends of deliveries, which may free its deduplication key.
    Cron(CronKey),
    /// A queue that was empty may be forgotten.
    Queue(QueueKey),
    /// Workers may have fallen silent.
    Workers,
    /// Those who want notices are owed a look.
    Notices,
    /// A wait is over.
    Wait(WaiterId),
}

impl Timer {
    pub(super) const fn mature(job: &Job, key: JobKey) -> Self {
        let seq = job.seq;
        Self::Mature { seq, key }
    }

    pub(super) const fn expire(job: &Job, key: JobKey) -> Self {
        let seq = job.seq;
        Self::Expire { seq, key }
    }

    pub(super) const fn delivery(job: &Job, key: JobKey) -> Self {
        let seq = job.seq;
        Self::Delivery { seq, key }
    }

    /// Whether it is about something missing, which only shows once jobs have moved and waiting pulls are served.
    pub(super) const fn comes_last(self) -> bool {
        matches!(
            self,
            Self::Queue(_) | Self::Workers | Self::Notices | Self::Wait(_)
        )
    }
}

#[derive(Debug, Default)]
pub(super) struct Deadlines(pub(super) BTreeSet<(Millis, Timer)>);

impl Deadlines {
    pub(super) fn insert(&mut self, at: Millis, timer: Timer) {
        self.0.insert((at, timer));
    }

    /// Takes out an entry that must be there: a caller that does not know its own deadline has lost it.
    pub(super) fn remove(&mut self, at: Millis, timer: Timer) {
        let existed = self.0.remove(&(at, timer));
        debug_assert!(existed, "deadline {timer:?} at {at} was not armed");
    }

    pub(super) fn next(&self) -> Option<Millis> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first entry, if its time has come.
    pub(super) fn due(&self, now: Millis) -> Option<(Millis, Timer)> {
        self.0.first().copied().filter(|(at, _)| *at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every delayed job pays for each byte.
    #[test]
    fn an_entry_stays_small() {
        assert_eq!(size_of::<(Millis, Timer)>(), 24);
    }
}
