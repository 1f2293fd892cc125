//! Finds out whether a map is an object in the JSON sense: every key UTF-8 text, none twice.
//!
//! The keys of all open maps lie in one list, the innermost map's last; when a map ends its part is
//! sorted, compared and dropped. Sorting instead of hashing: keys are few as a rule, no hash can be
//! attacked, and nothing is allocated per map.

use super::Value;

/// The keys seen so far of every map that is still open.
#[derive(Debug, Default)]
pub(super) struct Keys<'a> {
    seen: Vec<&'a [u8]>,
    open: Vec<OpenMap>,
}

#[derive(Debug)]
struct OpenMap {
    /// Where its keys begin in the common list.
    from: usize,
    all_text: bool,
}

impl<'a> Keys<'a> {
    /// A map begins.
    pub(super) fn begin(&mut self) {
        self.open.push(OpenMap {
            from: self.seen.len(),
            all_text: true,
        });
    }

    /// A key of the innermost open map; a container by its header.
    pub(super) fn note(&mut self, key: &Value<'a>) {
        if let Some(map) = self.open.last_mut()
            && map.all_text
        {
            match key.as_text() {
                Some(text) => self.seen.push(text.as_bytes()),
                None => map.all_text = false,
            }
        }
    }

    /// The innermost open map ends; true if JSON can write it as an object.
    pub(super) fn end(&mut self) -> bool {
        let Some(map) = self.open.pop() else {
            return false;
        };
        let object = map.all_text
            && self.seen.get_mut(map.from..).is_some_and(|keys| {
                keys.sort_unstable();
                keys.array_windows().all(|[one, next]| one != next)
            });
        self.seen.truncate(map.from);
        object
    }
}
