//! Ids in the order in which they came, each once: found, added and removed in logarithmic time, because a parent may
//! have thousands of children that come and go one by one.

use std::collections::BTreeMap;

use super::id::JobId;
use super::job::framed;

/// Values by id, with the places of the ids; places only grow.
#[derive(Debug)]
pub(super) struct IdMap<V> {
    entries: BTreeMap<JobId, (u64, V)>,
    next: u64,
    /// Bytes of the ids in a frame.
    bytes: usize,
}

/// Ids alone.
pub(super) type IdList = IdMap<()>;

impl<V> Default for IdMap<V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            next: 0,
            bytes: 0,
        }
    }
}

impl<V> IdMap<V> {
    pub(super) fn contains(&self, id: &JobId) -> bool {
        self.entries.contains_key(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts an id behind all others, also one that is there.
    pub(super) fn put_last(&mut self, id: JobId, value: V) {
        self.next += 1;
        let bytes = framed(id.text_len());
        if self.entries.insert(id, (self.next, value)).is_none() {
            self.bytes += bytes;
        }
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, id: &JobId) -> bool {
        let was_there = self.entries.remove(id).is_some();
        if was_there {
            self.bytes -= framed(id.text_len());
        }
        was_there
    }

    /// Bytes that the ids take in a frame.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The place of an id and its value.
    pub(super) fn get(&self, id: &JobId) -> Option<(u64, &V)> {
        self.entries.get(id).map(|(place, value)| (*place, value))
    }

    /// Puts an id that is not there into a place of its own.
    pub(super) fn put_at(&mut self, place: u64, id: JobId, value: V) {
        self.next = self.next.max(place);
        self.bytes += framed(id.text_len());
        self.entries.insert(id, (place, value));
    }

    /// First come first.
    pub(super) fn ordered(&self) -> Vec<(&JobId, &V)> {
        let mut list: Vec<_> = self.entries.iter().collect();
        list.sort_unstable_by_key(|(_, (place, _))| *place);
        let list = list.into_iter();
        list.map(|(id, (_, value))| (id, value)).collect()
    }
}

impl IdList {
    /// Appends an id, unless it is there; whether it was not.
    pub(super) fn add(&mut self, id: JobId) -> bool {
        let new = !self.contains(&id);
        if new {
            self.put_last(id, ());
        }
        new
    }

    /// In no particular order.
    pub(super) fn unordered(&self) -> impl Iterator<Item = &JobId> {
        self.entries.keys()
    }

    /// First come first.
    pub(super) fn ids(&self) -> impl Iterator<Item = &JobId> {
        self.ordered().into_iter().map(|(id, ())| id)
    }
}

impl FromIterator<JobId> for IdList {
    fn from_iter<I: IntoIterator<Item = JobId>>(ids: I) -> Self {
        let mut list = Self::default();
        for id in ids {
            list.add(id);
        }
        list
    }
}
