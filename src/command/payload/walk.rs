//! Visits every value of a payload in order, at any depth, without recursion.
//!
//! The stack holds one small entry per open container. Who needs more per container (a form, a size)
//! keeps a stack beside it, pushed when a header arrives and popped at [`Event::End`].

use super::{Fault, Reader, Value};

/// What a value is to the container it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It stands in none.
    Root,
    /// Item of an array.
    Item,
    /// Key of a map.
    Key { first: bool },
    /// Value of a map's entry.
    Member,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event<'a> {
    /// A scalar, or the header of a container whose items come next.
    Value(Role, Value<'a>),
    /// The innermost open container is complete.
    End { map: bool },
}

/// The values of one payload, first to last.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    reader: Reader<'a>,
    open: Vec<Open>,
    started: bool,
}

#[derive(Debug)]
struct Open {
    /// Values still to come, keys and values of a map counted one by one.
    left: u64,
    map: bool,
    first: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Walk {
            reader: Reader::new(bytes),
            open: Vec::new(),
            started: false,
        }
    }

    /// Bytes passed so far.
    pub(super) fn position(&self) -> usize {
        self.reader.position()
    }

    /// The next event; `None` after the end of a payload that is exactly one value.
    pub(super) fn next_event(&mut self) -> Result<Option<Event<'a>>, Fault> {
        let role = match self.open.last_mut() {
            Some(Open { left: 0, map, .. }) => {
                let map = *map;
                self.open.pop();
                return Ok(Some(Event::End { map }));
            }
            Some(open) => {
                let even = open.left % 2 == 0;
                let first = std::mem::take(&mut open.first);
                open.left -= 1;
                match (open.map, even) {
                    (false, _) => Role::Item,
                    (true, true) => Role::Key { first },
                    (true, false) => Role::Member,
                }
            }
            None if self.started => return self.reader.finish().map(|()| None),
            None => Role::Root,
        };
        self.started = true;
        let value = self.reader.read()?;
        match value {
            Value::Array(len) => self.push(u64::from(len), false),
            Value::Map(len) => self.push(2 * u64::from(len), true),
            _ => {}
        }
        Ok(Some(Event::Value(role, value)))
    }

    fn push(&mut self, left: u64, map: bool) {
        self.open.push(Open {
            left,
            map,
            first: true,
        });
    }
}
