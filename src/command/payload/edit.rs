//! The one edit the server makes inside a user's map: taking a legacy job name out of the data.
//!
//! Clients of protocol 2 send the job's name as an entry of its data (tcp protocol section 6.2). All
//! other entries keep their bytes and their order.

use super::{Reader, Value, Writer};

/// The text stored under `key` in a map. Of several entries with that key the last counts, as it does
/// for the clients that decode into an object; `None` if that one is not UTF-8 text, if there is none,
/// or if the bytes are no map.
pub fn text_entry<'a>(bytes: &'a [u8], key: &str) -> Option<&'a str> {
    let value = entries(bytes)?
        .into_iter()
        .rfind(|entry| entry.is(key))?
        .value;
    Reader::new(value).read_text().ok()
}

/// The map without its entries under `key`; bytes that are no map come back as they are.
pub fn without_key(bytes: &[u8], key: &str) -> Vec<u8> {
    let Some(mut entries) = entries(bytes) else {
        return bytes.to_vec();
    };
    entries.retain(|entry| !entry.is(key));
    let mut out = Vec::with_capacity(bytes.len());
    let mut writer = Writer::new(&mut out);
    writer.map(entries.len());
    for entry in &entries {
        writer.raw(entry.key);
        writer.raw(entry.value);
    }
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

/// The entries of bytes that are exactly one map.
fn entries(bytes: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut reader = Reader::new(bytes);
    let Value::Map(len) = reader.read().ok()? else {
        return None;
    };
    let mut entries = Vec::with_capacity(len as usize);
    for _ in 0..len {
        entries.push(Entry {
            key: reader.skip().ok()?,
            value: reader.skip().ok()?,
        });
    }
    reader.finish().ok()?;
    Some(entries)
}
