//! The edits the server makes inside a user's map: it takes a legacy job name out of the data, and writes the ties
//! of a job in a flow into it.
//!
//! Clients of protocol 2 send the job's name as an entry of its data (tcp protocol section 6.2); workers read the
//! ties there (section 6.2, reserved keys). All other entries keep their bytes and their order.

use super::{Fault, Reader, Value, Writer};

/// The text stored under `key` in a map. Of several entries with that key the last counts, as it does
/// for the clients that decode into an object; `None` if that one is not UTF-8 text, if there is none,
/// or if the bytes are no map.
pub fn text_entry<'a>(bytes: &'a [u8], key: &str) -> Option<&'a str> {
    Reader::new(raw_entry(bytes, key)?).read_text().ok()
}

/// The value stored under `key` in a map, as it stands there; of several the last.
pub fn raw_entry<'a>(bytes: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let mut found = None;
    for_each(bytes, |entry, _| {
        if entry.is(key) {
            found = Some(entry.value);
        }
    })?;
    found
}

/// The first key of a map that begins with `prefix`.
///
/// # Errors
/// When the bytes are no map.
pub fn key_with_prefix<'a>(bytes: &'a [u8], prefix: &str) -> Result<Option<&'a str>, Fault> {
    let mut found = None;
    for_each(bytes, |entry, _| {
        if found.is_none()
            && let Ok(key) = Reader::new(entry.key).read_text()
            && key.starts_with(prefix)
        {
            found = Some(key);
        }
    })
    .ok_or(Fault::NotMap)?;
    Ok(found)
}

/// The map with exactly these values (or none) under these keys: one that is there is replaced in its place, a new one
/// stands at the end. `None` when the bytes are no map.
pub fn with_entries(bytes: &[u8], values: &[(&str, Option<&[u8]>)]) -> Option<Vec<u8>> {
    let mut entries = entries(bytes)?;
    let mut missing: Vec<_> = values.iter().filter(|(_, value)| value.is_some()).collect();
    entries.retain_mut(|entry| {
        let Some((key, value)) = values.iter().find(|(key, _)| entry.is(key)) else {
            return true;
        };
        // A key that stands there twice stays once.
        let first = missing.iter().any(|(other, _)| other == key);
        missing.retain(|(other, _)| other != key);
        match value {
            Some(value) if first => {
                entry.value = value;
                true
            }
            _ => false,
        }
    });
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let mut writer = Writer::new(&mut out);
    writer.map(entries.len() + missing.len());
    for entry in &entries {
        writer.raw(entry.key);
        writer.raw(entry.value);
    }
    for (key, value) in missing {
        writer.text(key);
        writer.raw(value.unwrap_or(&[0xc0]));
    }
    Some(out)
}

/// The map without its entries under `key`; bytes that are no map come back as they are.
pub fn without_key(bytes: &[u8], key: &str) -> Vec<u8> {
    // Where each of them begins and ends.
    let mut removed = Vec::new();
    let cut = for_each(bytes, |entry, end| {
        if entry.is(key) {
            removed.push((end - entry.key.len() - entry.value.len(), end));
        }
    });
    let Some((len, header)) = cut else {
        return bytes.to_vec();
    };
    let mut out = Vec::with_capacity(bytes.len());
    let mut writer = Writer::new(&mut out);
    writer.map(len as usize - removed.len());
    let mut from = header;
    for (begin, end) in removed {
        writer.raw(bytes.get(from..begin).unwrap_or_default());
        from = end;
    }
    writer.raw(bytes.get(from..).unwrap_or_default());
    out
}

/// Key and value of a map's entry, as their bytes.
struct Entry<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

impl Entry<'_> {
    fn is(&self, key: &str) -> bool {
        Reader::new(self.key).read() == Ok(Value::Str(key.as_bytes()))
    }
}

/// Visits the entries of bytes that are exactly one map, each with the place where it ends, and keeps none: a map may have
/// millions. How many there are, and where the first begins; `None` when the bytes are something else.
fn for_each<'a>(bytes: &'a [u8], mut visit: impl FnMut(Entry<'a>, usize)) -> Option<(u32, usize)> {
    let mut reader = Reader::new(bytes);
    let Value::Map(len) = reader.read().ok()? else {
        return None;
    };
    let header = reader.position();
    for _ in 0..len {
        let entry = Entry {
            key: reader.skip().ok()?,
            value: reader.skip().ok()?,
        };
        visit(entry, reader.position());
    }
    reader.finish().ok()?;
    Some((len, header))
}

/// The entries of bytes that are exactly one map.
fn entries(bytes: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    for_each(bytes, |entry, _| entries.push(entry))?;
    Some(entries)
}
