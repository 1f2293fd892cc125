//! Marks on what has changed since its record was taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::figures::MetricKind;
use super::super::figures::minutes::Minute;
use super::super::id::JobId;
use super::super::queue::QueueKey;
use super::super::store::JobKey;

/// Keys of things that have changed.
#[derive(Debug)]
pub(in crate::engine) struct Marks<K> {
    /// Whether changes are recorded at all.
    on: bool,
    touched: BTreeSet<K>,
    /// Grows with every mark.
    revision: u64,
}

impl<K> Default for Marks<K> {
    fn default() -> Self {
        Self {
            on: false,
            touched: BTreeSet::new(),
            revision: 0,
        }
    }
}

impl<K: Ord> Marks<K> {
    /// Something changes, perhaps.
    pub(in crate::engine) fn touch(&mut self, key: K) {
        if self.on {
            self.revision += 1;
            self.touched.insert(key);
        }
    }

    /// Its key means nothing any more.
    pub(in crate::engine) fn forget(&mut self, key: &K) {
        self.touched.remove(key);
    }

    /// What has changed since the last time.
    pub(in crate::engine) fn take(&mut self) -> BTreeSet<K> {
        std::mem::take(&mut self.touched)
    }

    pub(super) const fn record(&mut self) {
        self.on = true;
    }

    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }
}

/// What has changed of the jobs.
#[derive(Debug, Default)]
pub(in crate::engine) struct JobMarks {
    /// Whether changes are recorded at all.
    pub(super) on: bool,
    /// By the jobs' places.
    marks: Vec<Mark>,
    /// Places with a mark; a job may have left its place meanwhile.
    touched: Vec<JobKey>,
    /// Jobs that were kept and are gone.
    pub(super) gone: Vec<u64>,
    /// Ties that have changed of jobs that were kept.
    pub(super) ties: BTreeMap<JobKey, Touched>,
    /// Grows with every mark.
    pub(super) revision: u64,
}

/// What is known of the job in a place: one byte, as there is one for every job.
#[derive(Clone, Copy, Debug, Default)]
struct Mark(u8);

impl Mark {
    /// A record of it was taken.
    const KEPT: u8 = 1;
    /// It has changed since.
    const TOUCHED: u8 = 2;
    /// And so has its data, its options or its parent.
    const BODY: u8 = 4;

    const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Whether the bit was not set before.
    const fn set(&mut self, bit: u8) -> bool {
        let is_new = !self.has(bit);
        self.0 |= bit;
        is_new
    }
}

/// Which ties of a job have changed.
#[derive(Debug)]
pub(super) enum Touched {
    Some(BTreeSet<JobId>),
    All,
}

/// A job whose record is to be taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct TouchedJob {
    pub(super) key: JobKey,
    pub(super) is_new: bool,
    pub(super) body_changed: bool,
}

impl JobMarks {
    fn mark(&mut self, key: JobKey) -> &mut Mark {
        let place = key.place();
        if place >= self.marks.len() {
            self.marks.resize(place + 1, Mark::default());
        }
        match self.marks.get_mut(place) {
            Some(mark) => mark,
            None => unreachable!("the place was just made"),
        }
    }

    /// A job changes, perhaps.
    pub(in crate::engine) fn touch(&mut self, key: JobKey) {
        if !self.on {
            return;
        }
        self.revision += 1;
        if self.mark(key).set(Mark::TOUCHED) {
            self.touched.push(key);
        }
    }

    /// Whether a job has changed since its record was taken.
    pub(in crate::engine) fn is_touched(&self, key: JobKey) -> bool {
        let mark = self.marks.get(key.place());
        mark.is_some_and(|mark| mark.has(Mark::TOUCHED))
    }

    /// A new job.
    pub(in crate::engine) fn begin(&mut self, key: JobKey) {
        if !self.on {
            return;
        }
        *self.mark(key) = Mark::default();
        self.touch_body(key);
    }

    /// The data, the options or the parent of a job change.
    pub(in crate::engine) fn touch_body(&mut self, key: JobKey) {
        if self.on {
            self.touch(key);
            self.mark(key).set(Mark::BODY);
        }
    }

    /// A tie of a job changes.
    pub(in crate::engine) fn touch_tie(&mut self, key: JobKey, other: &JobId) {
        if !self.on || !self.mark(key).has(Mark::KEPT) {
            return;
        }
        self.revision += 1;
        let touched = self.ties.entry(key);
        if let Touched::Some(others) = touched.or_insert_with(|| Touched::Some(BTreeSet::new())) {
            others.insert(other.clone());
        }
    }

    /// All ties of a job change.
    pub(in crate::engine) fn touch_ties(&mut self, key: JobKey) {
        if self.on && self.mark(key).has(Mark::KEPT) {
            self.revision += 1;
            self.ties.insert(key, Touched::All);
        }
    }

    /// A job is gone.
    pub(in crate::engine) fn end(&mut self, key: JobKey, seq: u64) {
        if !self.on {
            return;
        }
        self.revision += 1;
        self.ties.remove(&key);
        if std::mem::take(self.mark(key)).has(Mark::KEPT) {
            self.gone.push(seq);
        }
    }

    /// The jobs whose records are to be taken; they count as kept from now on.
    pub(super) fn take(&mut self) -> Vec<TouchedJob> {
        let mut jobs = Vec::with_capacity(self.touched.len());
        for key in std::mem::take(&mut self.touched) {
            let mark = self.mark(key);
            // Gone, or taken already under this key.
            if !mark.has(Mark::TOUCHED) {
                continue;
            }
            jobs.push(TouchedJob {
                key,
                is_new: !mark.has(Mark::KEPT),
                body_changed: mark.has(Mark::BODY),
            });
            *mark = Mark(Mark::KEPT);
        }
        jobs
    }

    /// Every job that is there was stored before.
    pub(super) fn keep_all(&mut self) {
        for key in std::mem::take(&mut self.touched) {
            *self.mark(key) = Mark(Mark::KEPT);
        }
        self.ties.clear();
    }

    /// How many jobs have changed or are gone, about.
    pub(super) fn len(&self) -> usize {
        self.touched.len() + self.gone.len()
    }
}

/// What has changed of the queues.
#[derive(Debug, Default)]
pub(in crate::engine) struct QueueMarks {
    /// Whether changes are recorded at all.
    pub(super) on: bool,
    last: Option<QueueKey>,
    pub(super) touched: BTreeSet<QueueKey>,
    pub(super) gone: Vec<Arc<str>>,
    /// Groups whose settings have changed: queue and group.
    pub(super) groups: BTreeSet<(Arc<str>, Arc<str>)>,
    pub(super) minutes: BTreeSet<(QueueKey, MetricKind, Minute)>,
    /// Grows with every mark.
    pub(super) revision: u64,
}

impl QueueMarks {
    /// A queue changes, perhaps.
    pub(in crate::engine) fn touch(&mut self, key: QueueKey) {
        if !self.on {
            return;
        }
        self.revision += 1;
        // Mostly the same one again.
        if self.last != Some(key) {
            self.last = Some(key);
            self.touched.insert(key);
        }
    }

    /// The settings of a group change, perhaps.
    pub(in crate::engine) fn touch_group(&mut self, queue: &Arc<str>, group: &Arc<str>) {
        if self.on {
            self.revision += 1;
            self.groups.insert((Arc::clone(queue), Arc::clone(group)));
        }
    }

    /// The count of a minute changes, or the minute goes.
    pub(in crate::engine) fn touch_minute(
        &mut self,
        key: QueueKey,
        kind: MetricKind,
        minute: Minute,
    ) {
        if self.on {
            self.revision += 1;
            self.minutes.insert((key, kind, minute));
        }
    }

    /// Everything of a queue is gone, at least for now.
    pub(in crate::engine) fn end(&mut self, key: QueueKey, name: &Arc<str>) {
        if self.on {
            self.revision += 1;
            self.last = None;
            self.touched.remove(&key);
            self.gone.push(Arc::clone(name));
        }
    }

    /// Every queue that is there was stored before.
    pub(super) fn keep_all(&mut self) {
        self.last = None;
        self.touched.clear();
        self.groups.clear();
        self.minutes.clear();
    }

    /// The queues whose records are to be taken.
    pub(super) fn take(&mut self) -> BTreeSet<QueueKey> {
        self.last = None;
        std::mem::take(&mut self.touched)
    }
}
