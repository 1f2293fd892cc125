//! A table of values with stable places, in chunks: it grows without moving what it holds, so that no add waits for the
//! copy of a million others. A new value comes into the first chunk with room, and a chunk that holds nothing gives its
//! memory back: after a burst the table shrinks with the values, wherever those that stay happen to stand.

use std::collections::BTreeSet;
use std::fmt;

/// Bytes of one chunk: as much as allocators hand out without rounding up.
const CHUNK_BYTES: usize = 65_536;

/// See the module.
pub(super) struct Table<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunks with room.
    open: BTreeSet<usize>,
    /// The memory of a chunk that has just become empty, for the next one: values may come and go at the border of two.
    spare: Vec<Slot<T>>,
    len: usize,
}

/// Places that follow each other; without memory while it holds nothing.
struct Chunk<T> {
    slots: Vec<Slot<T>>,
    /// First of the free places, which form a list; behind them come those that were never used.
    free: Option<usize>,
    used: usize,
}

enum Slot<T> {
    Used(T),
    /// With the next free place of the chunk.
    Free(Option<u32>),
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            open: BTreeSet::new(),
            spare: Vec::new(),
            len: 0,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T> Chunk<T> {
    const EMPTY: Self = Self {
        slots: Vec::new(),
        free: None,
        used: 0,
    };

    /// Puts a value into a free place; which.
    fn insert(&mut self, value: T) -> usize {
        self.used += 1;
        if let Some(place) = self.free
            && let Some(slot) = self.slots.get_mut(place)
            && let Slot::Free(next) = slot
        {
            self.free = next.map(|next| next as usize);
            *slot = Slot::Used(value);
            return place;
        }
        self.slots.push(Slot::Used(value));
        self.slots.len() - 1
    }

    /// Takes the value out of a place.
    fn remove(&mut self, place: usize) -> Option<T> {
        let slot = self.slots.get_mut(place)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let next = self.free.map(|next| next as u32);
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free(next)) else {
            return None;
        };
        self.free = Some(place);
        self.used -= 1;
        Some(value)
    }
}

impl<T> Table<T> {
    /// Values of one chunk.
    const CHUNK: usize = CHUNK_BYTES / size_of::<Slot<T>>();

    /// Puts a value into a free place.
    ///
    /// # Panics
    /// With more than 4,294,967,294 values.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let number = self.open.first().copied().unwrap_or(self.chunks.len());
        if number == self.chunks.len() {
            self.chunks.push(Chunk::EMPTY);
            self.open.insert(number);
        }
        let Some(chunk) = self.chunks.get_mut(number) else {
            unreachable!("chunk {number} is open, and there is none");
        };
        if chunk.slots.capacity() == 0 {
            chunk.slots = std::mem::take(&mut self.spare);
            chunk.slots.reserve_exact(Self::CHUNK);
        }
        let place = number * Self::CHUNK + chunk.insert(value);
        if chunk.used == Self::CHUNK {
            self.open.remove(&number);
        }
        self.len += 1;
        assert!(place < u32::MAX as usize, "more than 4,294,967,294 values");
        place as u32
    }

    /// Takes the value out of a place.
    pub(super) fn remove(&mut self, place: u32) -> Option<T> {
        let (number, place) = Self::parts(place);
        let chunk = self.chunks.get_mut(number)?;
        let value = chunk.remove(place)?;
        self.len -= 1;
        if chunk.used == 0 {
            let emptied = std::mem::replace(chunk, Chunk::EMPTY);
            self.spare = emptied.slots;
            self.spare.clear();
        }
        if chunk.used + 1 >= Self::CHUNK {
            self.open.insert(number);
        }
        Some(value)
    }

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        let (number, place) = Self::parts(place);
        match self.chunks.get(number)?.slots.get(place)? {
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
        let (number, place) = Self::parts(place);
        match self.chunks.get_mut(number)?.slots.get_mut(place)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    /// The chunk of a place, and the place in it.
    const fn parts(place: u32) -> (usize, usize) {
        (place as usize / Self::CHUNK, place as usize % Self::CHUNK)
    }

    /// Gives back what is kept for values to come.
    pub(super) fn shrink(&mut self) {
        self.spare = Vec::new();
        while self.chunks.pop_if(|chunk| chunk.used == 0).is_some() {}
        self.chunks.shrink_to_fit();
        drop(self.open.split_off(&self.chunks.len()));
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Every value with its place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let chunks = self.chunks.iter().zip((0..).step_by(Self::CHUNK));
        let slots = chunks.flat_map(|(chunk, first)| chunk.slots.iter().zip(first..));
        slots.filter_map(|(slot, place)| match slot {
            Slot::Used(value) => Some((place, value)),
            Slot::Free(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks that have memory.
    fn filled<T>(table: &Table<T>) -> usize {
        let chunks = table.chunks.iter().map(|chunk| &chunk.slots);
        let memory = chunks.chain([&table.spare]);
        memory.filter(|slots| slots.capacity() > 0).count()
    }

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
    fn a_burst_gives_its_memory_back_wherever_the_rest_stands() {
        let mut table = Table::default();
        let places: Vec<u32> = (0..100_000_u32)
            .map(|number| table.insert(number))
            .collect();
        let full = filled(&table);
        for place in &places[..99_990] {
            table.remove(*place);
        }
        assert_eq!((table.len(), filled(&table) <= 3), (10, full > 10));
        assert!(table.iter().all(|(place, value)| place == *value));
        // What stays moves down with the values that come after it, and then the table ends there.
        let mut live: std::collections::VecDeque<u32> = places[99_990..].iter().copied().collect();
        for number in 0..1_000 {
            live.push_back(table.insert(number));
            table.remove(live.pop_front().expect("ten"));
        }
        assert!(live.iter().all(|place| *place < 1_000), "{live:?}");
        table.shrink();
        assert_eq!((table.chunks.len(), filled(&table)), (1, 1));
        assert_eq!(table.len(), 10);
    }

    #[test]
    fn values_at_the_border_of_two_chunks_come_and_go_without_an_allocation() {
        let mut table = Table::default();
        for number in 0..Table::<u32>::CHUNK as u32 {
            table.insert(number);
        }
        let border = table.insert(0);
        for _ in 0..3 {
            assert_eq!(filled(&table), 2);
            table.remove(border);
            assert_eq!((filled(&table), table.spare.is_empty()), (2, true));
            assert_eq!(table.insert(1), border);
        }
    }

    #[test]
    fn an_empty_table_has_room_for_one_chunk_and_none_when_it_is_shrunk() {
        let mut table = Table::default();
        for place in 0..50_000 {
            table.insert(place);
        }
        for place in 0..50_000 {
            table.remove(place);
        }
        assert_eq!((table.len(), filled(&table)), (0, 1));
        assert_eq!(table.insert(1), 0);
        table.remove(0);
        table.shrink();
        assert_eq!((filled(&table), table.chunks.len()), (0, 0));
        assert_eq!(table.insert(1), 0);
    }
}
