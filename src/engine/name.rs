//! Job names: each one is stored once, counted by the jobs that have it, and forgotten with the last of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::table::Table;

/// A name's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameKey(u32);

#[derive(Debug, Default)]
pub(super) struct Names {
    table: Table<Name>,
    places: HashMap<Arc<str>, u32>,
}

#[derive(Debug)]
struct Name {
    text: Arc<str>,
    jobs: usize,
}

impl Names {
    /// The place of a name that one more job has.
    pub(super) fn take(&mut self, text: &Arc<str>) -> NameKey {
        if let Some(place) = self.places.get(text) {
            self.table.at_mut(*place).jobs += 1;
            return NameKey(*place);
        }
        let text = Arc::clone(text);
        let place = self.table.insert(Name {
            text: Arc::clone(&text),
            jobs: 1,
        });
        self.places.insert(text, place);
        NameKey(place)
    }

    /// A job that had the name is gone.
    pub(super) fn give_back(&mut self, key: NameKey) {
        let name = self.table.at_mut(key.0);
        name.jobs -= 1;
        if name.jobs == 0
            && let Some(name) = self.table.remove(key.0)
        {
            self.places.remove(&name.text);
        }
    }

    /// Names with the number of jobs that have them.
    pub(super) fn counted(&self) -> BTreeMap<&Arc<str>, usize> {
        let names = self.table.iter();
        names.map(|(_, name)| (&name.text, name.jobs)).collect()
    }

    pub(super) fn text(&self, key: NameKey) -> &Arc<str> {
        &self.table.at(key.0).text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lives_as_long_as_a_job_has_it() {
        let mut names = Names::default();
        let (send, resize) = (names.take(&"send".into()), names.take(&"resize".into()));
        assert_eq!(names.take(&"send".into()), send);
        assert_eq!(&**names.text(resize), "resize");
        names.give_back(send);
        assert_eq!(&**names.text(send), "send");
        names.give_back(send);
        assert_eq!((names.places.len(), names.table.len()), (1, 1));
    }
}
