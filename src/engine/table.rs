//! A table of values with stable places, in chunks: it grows without moving what it holds, so that no add waits for the
//! copy of a million others, and a place that is free is used again before a new one.

use std::fmt;

/// Bytes of one chunk: as much as allocators hand out without rounding up.
const CHUNK_BYTES: usize = 65_536;

/// See the module.
pub(super) struct Table<T> {
    chunks: Vec<Vec<Slot<T>>>,
    /// First of the free places, which form a list.
    free: Option<u32>,
    len: usize,
}

enum Slot<T> {
    Used(T),
    /// With the next free place.
    Free(Option<u32>),
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            free: None,
            len: 0,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T> Table<T> {
    /// Values of one chunk.
    const CHUNK: usize = CHUNK_BYTES / size_of::<Slot<T>>();

    /// Puts a value into a free place.
    ///
    /// # Panics
    /// With more than 4,294,967,295 values.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if let Some(place) = self.free
            && let Some(slot) = self.slot_mut(place)
            && let Slot::Free(next) = slot
        {
            let next = *next;
            *slot = Slot::Used(value);
            self.free = next;
            return place;
        }
        let full = self
            .chunks
            .last()
            .is_none_or(|chunk| chunk.len() == Self::CHUNK);
        if full {
            self.chunks.push(Vec::with_capacity(Self::CHUNK));
        }
        let before = (self.chunks.len() - 1) * Self::CHUNK;
        let place = self.chunks.last_mut().map_or(before, |chunk| {
            chunk.push(Slot::Used(value));
            before + chunk.len() - 1
        });
        assert!(
            u32::try_from(place).is_ok(),
            "more than 4,294,967,295 values"
        );
        place as u32
    }

    /// Takes the value out of a place.
    pub(super) fn remove(&mut self, place: u32) -> Option<T> {
        let free = self.free;
        let slot = self.slot_mut(place)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free(free)) else {
            return None;
        };
        self.len -= 1;
        self.free = Some(place);
        if self.len == 0 && self.chunks.len() > 1 {
            // A table that was large gives its room back, but for what the next few values need.
            self.chunks.truncate(1);
            self.chunks.iter_mut().for_each(Vec::clear);
            self.free = None;
        }
        Some(value)
    }

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        let place = place as usize;
        match self
            .chunks
            .get(place / Self::CHUNK)?
            .get(place % Self::CHUNK)?
        {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    /// The value in a place that must hold one: anything else is a fault of the engine, not of a caller.
    pub(super) fn at(&self, place: u32) -> &T {
        match self.get(place) {
            Some(value) => value,
            None => unreachable!("nothing stands in place {place}"),
        }
    }

    /// As [`Table::at`], to change it.
    pub(super) fn at_mut(&mut self, place: u32) -> &mut T {
        match self.get_mut(place) {
            Some(value) => value,
            None => unreachable!("nothing stands in place {place}"),
        }
    }

    fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        match self.slot_mut(place)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    fn slot_mut(&mut self, place: u32) -> Option<&mut Slot<T>> {
        let place = place as usize;
        self.chunks
            .get_mut(place / Self::CHUNK)?
            .get_mut(place % Self::CHUNK)
    }

    /// Gives back chunks at the end that hold nothing.
    pub(super) fn shrink(&mut self) {
        let is_free = |slot: &Slot<T>| matches!(slot, Slot::Free(_));
        while self
            .chunks
            .pop_if(|chunk| chunk.iter().all(is_free))
            .is_some()
        {}
        self.chunks.shrink_to_fit();
        self.free = None;
        // The last place is offered last, so that the table fills from its beginning.
        for (number, chunk) in self.chunks.iter_mut().enumerate().rev() {
            for (place, slot) in chunk.iter_mut().enumerate().rev() {
                if let Slot::Free(next) = slot {
                    *next = self.free;
                    self.free = Some((number * Self::CHUNK + place) as u32);
                }
            }
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Every value with its place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.chunks.iter().flatten().zip(0..);
        slots.filter_map(|(slot, place)| match slot {
            Slot::Used(value) => Some((place, value)),
            Slot::Free(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_stable_and_used_again() {
        let mut table = Table::default();
        let places: Vec<u32> = (0..3_000).map(|number| table.insert(number)).collect();
        assert_eq!(places, (0..3_000).collect::<Vec<_>>());
        for place in (0..3_000).step_by(2) {
            assert_eq!(table.remove(place), Some(place));
            assert_eq!(table.remove(place), None);
        }
        assert_eq!(table.len(), 1_500);
        assert!(
            table
                .iter()
                .all(|(place, value)| place == *value && place % 2 == 1)
        );
        let again: Vec<u32> = (0..1_500).map(|number| table.insert(number)).collect();
        assert!(again.iter().all(|place| place % 2 == 0 && *place < 3_000));
        assert_eq!(table.insert(7), 3_000);
        assert_eq!(table.get(3_000), Some(&7));
        assert_eq!((table.get(5_000), *table.at(9)), (None, 9));
    }

    #[test]
    fn a_table_shrinks_to_its_last_value() {
        let mut table = Table::default();
        for place in 0..50_000_u32 {
            table.insert(place);
        }
        for place in 10..50_000 {
            table.remove(place);
        }
        table.remove(3);
        table.shrink();
        assert_eq!((table.len(), table.chunks.len()), (9, 1));
        assert_eq!([table.insert(0), table.insert(0)], [3, 10]);
        assert_eq!(table.iter().count(), 11);
    }

    #[test]
    fn an_empty_table_has_no_room() {
        let mut table = Table::default();
        for place in 0..50_000 {
            table.insert(place);
        }
        for place in 0..50_000 {
            table.remove(place);
        }
        assert_eq!((table.len(), table.chunks.len()), (0, 1));
        assert_eq!(table.insert(1), 0);
    }
}
