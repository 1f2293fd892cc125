//! The entries of one command map, found by name.
//!
//! One pass collects keys and raw values without allocating for the maps that clients send; values are
//! looked at when a field is asked for. JavaScript's `undefined` (extension 0) counts as not there,
//! nil as not set unless a field says otherwise (tcp protocol section 3.1). Of a repeated key the last
//! one counts, as it does for clients that decode into an object.

use std::sync::Arc;

use crate::command::given::{Number, Text};
use crate::command::payload::{self, Reader, Value};
use crate::command::{ArgumentError, QueueName, bounds};
use crate::engine::{JobId, TokenGiven};

/// Entries kept in place; more go to the heap.
const INLINE: usize = 16;

/// Entries of one map; no command has a tenth of them, and each costs memory.
const ENTRIES_MAX: u32 = 1_024;

#[derive(Clone, Copy, Debug, Default)]
struct Entry<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

/// The entries of a map whose keys are strings; other keys are passed over.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    inline: [Entry<'a>; INLINE],
    len: usize,
    more: Vec<Entry<'a>>,
}

impl<'a> Fields<'a> {
    /// Reads the entries that follow the header of a map. `None` when the bytes end early, or when there
    /// are more than [`ENTRIES_MAX`].
    pub(super) fn read(reader: &mut Reader<'a>, entries: u32) -> Option<Self> {
        if entries > ENTRIES_MAX {
            return None;
        }
        let mut fields = Self {
            inline: [Entry::default(); INLINE],
            len: 0,
            more: Vec::new(),
        };
        for _ in 0..entries {
            let key = reader.skip().ok()?;
            let value = reader.skip().ok()?;
            if let Ok(Value::Str(key)) = Reader::new(key).read() {
                fields.push(Entry { key, value });
            }
        }
        Some(fields)
    }

    /// Reads a value that must be a map.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        match reader.read() {
            Ok(Value::Map(entries)) => Self::read(&mut reader, entries),
            _ => None,
        }
    }

    fn push(&mut self, entry: Entry<'a>) {
        match self.inline.get_mut(self.len) {
            Some(slot) => {
                *slot = entry;
                self.len += 1;
            }
            None => self.more.push(entry),
        }
    }

    /// The bytes of a field; nil is a value here.
    pub(super) fn raw(&self, name: &str) -> Option<&'a [u8]> {
        let inline = self.inline.get(..self.len).unwrap_or_default();
        let newest_first = self.more.iter().rev().chain(inline.iter().rev());
        let value = newest_first
            .into_iter()
            .find(|entry| entry.key == name.as_bytes())?
            .value;
        (!is_absent(value)).then_some(value)
    }

    /// A field that is set: there, and not nil.
    pub(super) fn value(&self, name: &str) -> Option<Value<'a>> {
        self.raw(name).and_then(set_value)
    }

    /// A text, if it is set.
    ///
    /// # Errors
    /// When it is something else, or not UTF-8.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<&'a str>, ArgumentError> {
        self.raw(name).map_or(Ok(None), |raw| set_text(raw, name))
    }

    /// A text as it was sent; nil is no text here.
    pub(super) fn text_value(&self, name: &str) -> Text<'a> {
        match self.raw(name) {
            None => Text::Absent,
            Some(raw) => text(raw).map_or(Text::NotText, Text::Value),
        }
    }

    /// A map, if it is set.
    ///
    /// # Errors
    /// When it is something else, or has too many entries.
    pub(super) fn object(&self, name: &'static str) -> Result<Option<Self>, ArgumentError> {
        match self.raw(name) {
            Some(raw) if set_value(raw).is_some() => match Self::of(raw) {
                Some(fields) => Ok(Some(fields)),
                None => Err(ArgumentError::NotObject(name)),
            },
            _ => Ok(None),
        }
    }

    /// A text of which nothing but its words matters (an error, a log line): what is no string is shown
    /// as JSON rather than refused, since a report must not be lost for it. Cut to [`bounds::TEXT_MAX`].
    ///
    /// # Errors
    /// When it is a string that is not UTF-8.
    pub(super) fn prose(&self, name: &'static str) -> Result<Option<Arc<str>>, ArgumentError> {
        let Some(raw) = self.raw(name) else {
            return Ok(None);
        };
        match set_value(raw) {
            None => Ok(None),
            Some(Value::Str(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(bounds::cut_copy(text))),
                Err(_) => Err(ArgumentError::NotText(name)),
            },
            Some(_) => Ok(Some(json_prose(raw))),
        }
    }

    /// The id of a job. One that is not sent is empty, and no job has that id.
    ///
    /// # Errors
    /// When it is not text.
    pub(super) fn id(&self, name: &'static str) -> Result<JobId, ArgumentError> {
        Ok(JobId::from_text(self.text(name)?.unwrap_or_default()))
    }

    /// A queue that may have any name, since the command only looks for what is there.
    ///
    /// # Errors
    /// When it is not text.
    pub(super) fn any_queue(&self) -> Result<QueueName, ArgumentError> {
        Ok(QueueName::lenient(self.text("queue")?.unwrap_or_default()))
    }

    /// The text of a queue name that will be checked: what is no text is as wrong as a bad character.
    pub(super) fn queue_text(&self) -> Result<&'a str, ArgumentError> {
        match self.value("queue") {
            None => Err(ArgumentError::QueueRequired),
            Some(value) => value.as_text().ok_or(ArgumentError::QueueInvalid),
        }
    }

    /// The proof of a delivery. What is not text proves nothing.
    pub(super) fn token(&self) -> TokenGiven {
        self.value("token").map_or(TokenGiven::None, token)
    }

    /// A number; a text is none.
    pub(super) fn number(&self, name: &str) -> Number {
        self.value(name).map_or(Number::Absent, number)
    }

    /// A number, or a text that is one: the rule for job options (tcp protocol section 8).
    pub(super) fn number_or_text(&self, name: &str) -> Number {
        self.raw(name).map_or(Number::Absent, number_or_text)
    }

    /// Whether JavaScript would take the field as true.
    pub(super) fn truthy(&self, name: &str) -> bool {
        self.raw(name).is_some_and(truthy)
    }

    /// Whether JavaScript would take the field as true, if it is set.
    pub(super) fn switch(&self, name: &str) -> Option<bool> {
        self.value(name).map(|value| !is_falsy(&value))
    }

    /// Whether the field is the value true, as commands demand that delete something for it.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.value(name) == Some(Value::Bool(true))
    }

    /// A list, if it is set; at most `max` items.
    ///
    /// # Errors
    /// When it is something else, or longer.
    pub(super) fn list(
        &self,
        name: &'static str,
        max: usize,
    ) -> Result<Option<List<'a>>, ArgumentError> {
        self.raw(name).map_or(Ok(None), |raw| list(raw, name, max))
    }

    /// A list that must be there, of at most [`bounds::BATCH_MAX`] items.
    ///
    /// # Errors
    /// When it is missing, something else, or longer.
    pub(super) fn batch(&self, name: &'static str) -> Result<List<'a>, ArgumentError> {
        self.list(name, bounds::BATCH_MAX)?
            .ok_or(ArgumentError::NotList(name))
    }

    /// A list of texts; empty when it is not set.
    ///
    /// # Errors
    /// When it is no list, too long, or holds something else.
    pub(super) fn texts(&self, name: &'static str) -> Result<Vec<&'a str>, ArgumentError> {
        self.raw(name)
            .map_or_else(|| Ok(Vec::new()), |raw| texts(raw, name))
    }

    /// The keys with their values, in the order in which they were sent, but for those that count as not there. Whoever wants
    /// many of them walks over all once.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let inline = self.inline.get(..self.len).unwrap_or_default();
        let entries = inline.iter().chain(&self.more);
        entries
            .filter(|entry| !is_absent(entry.value))
            .map(|entry| (entry.key, entry.value))
    }
}

/// The items of a list, each by its bytes.
#[derive(Clone, Debug)]
pub(super) struct List<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl List<'_> {
    /// Items still to come.
    pub(super) const fn len(&self) -> usize {
        self.left as usize
    }
}

impl<'a> Iterator for List<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        self.reader.skip().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.len()))
    }
}

/// The header of a value; `None` for nil and for `undefined`.
pub(super) fn set_value(raw: &[u8]) -> Option<Value<'_>> {
    match Reader::new(raw).read() {
        Ok(Value::Nil) | Err(_) => None,
        Ok(value) if value.is_absent() => None,
        Ok(value) => Some(value),
    }
}

/// A value as JSON, of which no more is written than is kept.
pub(super) fn json_prose(raw: &[u8]) -> Arc<str> {
    bounds::cut_copy(&payload::to_json_within(raw, bounds::TEXT_MAX))
}

/// The text of an item, if it is one.
pub(super) fn text(raw: &[u8]) -> Option<&str> {
    Reader::new(raw).read_text().ok()
}

/// The proof that a set value gives.
pub(super) fn token(value: Value<'_>) -> TokenGiven {
    value
        .as_text()
        .map_or(TokenGiven::Malformed, TokenGiven::from_text)
}

/// A text, if it is set.
///
/// # Errors
/// When it is something else, or not UTF-8.
pub(super) fn set_text<'a>(
    raw: &'a [u8],
    name: &'static str,
) -> Result<Option<&'a str>, ArgumentError> {
    match set_value(raw) {
        None => Ok(None),
        Some(value) => match value.as_text() {
            Some(text) => Ok(Some(text)),
            None => Err(ArgumentError::NotText(name)),
        },
    }
}

/// A number, or a text that is one.
pub(super) fn number_or_text(raw: &[u8]) -> Number {
    match set_value(raw) {
        Some(Value::Str(bytes)) => {
            std::str::from_utf8(bytes).map_or(Number::NotNumber, Number::from_text)
        }
        Some(value) => number(value),
        None => Number::Absent,
    }
}

/// A list of at most `max` items, if it is set.
///
/// # Errors
/// When it is something else, or longer.
fn list<'a>(
    raw: &'a [u8],
    field: &'static str,
    max: usize,
) -> Result<Option<List<'a>>, ArgumentError> {
    let mut reader = Reader::new(raw);
    match reader.read() {
        Ok(Value::Nil) => Ok(None),
        Ok(Value::Array(left)) if left as usize > max => Err(ArgumentError::TooMany { field, max }),
        Ok(Value::Array(left)) => Ok(Some(List { reader, left })),
        _ => Err(ArgumentError::NotList(field)),
    }
}

/// A list of texts; empty when it is not set.
///
/// # Errors
/// When it is no list, too long, or holds something else.
pub(super) fn texts<'a>(raw: &'a [u8], name: &'static str) -> Result<Vec<&'a str>, ArgumentError> {
    let Some(list) = list(raw, name, bounds::LABELS_MAX)? else {
        return Ok(Vec::new());
    };
    list.map(|item| text(item).ok_or(ArgumentError::NotText(name)))
        .collect()
}

/// Whether JavaScript would take the value as true.
pub(super) fn truthy(raw: &[u8]) -> bool {
    set_value(raw).is_some_and(|value| !is_falsy(&value))
}

/// Whether a value is JavaScript's `undefined`, as which a key is not there.
pub(super) fn is_absent(raw: &[u8]) -> bool {
    Reader::new(raw).read().is_ok_and(|value| value.is_absent())
}

/// A set value as a number.
pub(super) fn number(value: Value<'_>) -> Number {
    value.as_f64().map_or(Number::NotNumber, Number::Value)
}

/// Whether JavaScript would take the value as false.
pub(super) fn is_falsy(value: &Value<'_>) -> bool {
    match value {
        Value::Nil | Value::Bool(false) | Value::Int(0) | Value::Str([]) => true,
        Value::Float(float) => *float == 0.0 || float.is_nan(),
        value => value.is_absent(),
    }
}
