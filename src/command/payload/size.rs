//! How long a payload's JSON text is, without writing it: the measure of the data limits (tcp protocol
//! section 8).
//!
//! Counted is what JavaScript's `JSON.stringify` would write for the value that a JavaScript client
//! sees, because those clients check the same limits with it: `5.0` is `5`, an entry whose value is
//! `undefined` is left out, an array item `undefined` is `null`. What has no JSON form counts as its
//! tagged form; the wrapping of an object that looks like one does not, since a client would not add it,
//! and deep nesting counts level by level.

use std::fmt::{self, Write};

use super::keys::Keys;
use super::tag::{PLAIN_INTEGER_MAX, float_name};
use super::walk::{Event, Role, Walk};
use super::{Fault, Value};

/// No payload of n bytes has a JSON text of more than this many times n units or bytes.
///
/// Charge every value its own text and two separators (a comma; in a `$map` also its half of a pair's
/// brackets). The dearest per byte are then: a one-byte extension, 3 bytes and 36 + 2 units, 12.7 each;
/// the header of a map written as `$map`, 1 byte and 11 + 2, 13 each; an empty bin, 2 bytes and 13 + 2;
/// a broken one-byte string, 2 bytes and 15 + 2; false, 1 byte and 5 + 2; a control character, 1 byte
/// and 6.
const UNITS_PER_BYTE_MAX: usize = 13;

/// Whether the JSON text has at most `limit` UTF-16 code units, JavaScript's measure of a string. Looks
/// inside only when the bytes are many enough for the answer to be no.
pub fn fits_utf16(bytes: &[u8], limit: usize) -> bool {
    bytes.len().saturating_mul(UNITS_PER_BYTE_MAX) <= limit || json_len_utf16(bytes, limit) <= limit
}

/// Whether the JSON text has at most `limit` bytes of UTF-8; as cheap as [`fits_utf16`].
pub fn fits_utf8(bytes: &[u8], limit: usize) -> bool {
    bytes.len().saturating_mul(UNITS_PER_BYTE_MAX) <= limit || json_len_utf8(bytes, limit) <= limit
}

/// Length of the JSON text in UTF-16 code units. Stops once it is above `stop_after`: then the number
/// returned says only that.
pub fn json_len_utf16(bytes: &[u8], stop_after: usize) -> usize {
    json_len(bytes, stop_after, |text| {
        text.bytes()
            .map(|byte| usize::from(byte & 0xc0 != 0x80) + usize::from(byte >= 0xf0))
            .sum()
    })
}

/// Length of the JSON text in bytes of UTF-8, with the same stop as [`json_len_utf16`].
pub fn json_len_utf8(bytes: &[u8], stop_after: usize) -> usize {
    json_len(bytes, stop_after, str::len)
}

/// Bytes that are no payload count as they are shown, as one `$msgpack`.
fn json_len(bytes: &[u8], stop_after: usize, unescaped_len: fn(&str) -> usize) -> usize {
    measure(bytes, stop_after, unescaped_len)
        .unwrap_or_else(|_| r#"{"$msgpack":""}"#.len() + base64_len(bytes.len()))
}

/// An open map of which the length is not settled.
#[derive(Default)]
struct OpenMap {
    /// Entries counted so far.
    entries: usize,
    /// Length of a text key whose value comes next.
    key: Option<usize>,
}

fn measure(
    bytes: &[u8],
    stop_after: usize,
    unescaped_len: fn(&str) -> usize,
) -> Result<usize, Fault> {
    let mut len: usize = 0;
    let mut maps: Vec<OpenMap> = Vec::new();
    let mut keys = Keys::default();
    let mut walk = Walk::new(bytes);
    while let Some(event) = walk.next_event()? {
        match event {
            Event::Value(role, value) => {
                if let (Role::Key { .. }, Some(map)) = (role, maps.last_mut()) {
                    keys.note(&value);
                    map.key = value.as_text().map(|text| text_len(text, unescaped_len));
                    if map.key.is_some() {
                        continue;
                    }
                }
                if let (Role::Member, Some(map)) = (role, maps.last_mut()) {
                    let key = map.key.take();
                    if key.is_some() && value.is_absent() {
                        continue;
                    }
                    map.entries += 1;
                    len += key.unwrap_or(0);
                }
                len += match value {
                    Value::Ext(..)
                        if value.is_absent() && matches!(role, Role::Item | Role::Root) =>
                    {
                        4
                    }
                    Value::Map(_) => {
                        maps.push(OpenMap::default());
                        keys.begin();
                        0
                    }
                    _ => value_len(&value, unescaped_len),
                };
            }
            Event::End { map: true } => {
                let entries = maps.pop().unwrap_or_default().entries;
                let commas = entries.saturating_sub(1);
                len += if keys.end() {
                    "{}".len() + entries + commas
                } else {
                    r#"{"$map":[]}"#.len() + entries * "[,]".len() + commas
                };
            }
            Event::End { map: false } => {}
        }
        if len > stop_after {
            return Ok(len);
        }
    }
    Ok(len)
}

/// A scalar whole; of an array its brackets and commas; of a map nothing.
fn value_len(value: &Value<'_>, unescaped_len: fn(&str) -> usize) -> usize {
    match *value {
        Value::Nil | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Int(integer) => {
            let len = digits(integer.unsigned_abs()) + usize::from(integer < 0);
            tagged_integer_len(len, integer.unsigned_abs())
        }
        Value::UInt(integer) => tagged_integer_len(digits(integer), integer),
        Value::Float(float) => match float_name(float) {
            Some(name) => r#"{"$float":""}"#.len() + name.len(),
            None => float_len(float),
        },
        Value::Str(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text_len(text, unescaped_len),
            Err(_) => r#"{"$str":""}"#.len() + base64_len(bytes.len()),
        },
        Value::Bin(bytes) => r#"{"$bytes":""}"#.len() + base64_len(bytes.len()),
        Value::Ext(kind, bytes) => {
            r#"{"$ext":{"type":,"data":""}}"#.len()
                + digits(u64::from(kind.unsigned_abs()))
                + usize::from(kind < 0)
                + base64_len(bytes.len())
        }
        Value::Array(len) => 2 + (len as usize).saturating_sub(1),
        Value::Map(_) => 0,
    }
}

fn tagged_integer_len(text_len: usize, distance: u64) -> usize {
    if distance <= PLAIN_INTEGER_MAX {
        text_len
    } else {
        r#"{"$int":""}"#.len() + text_len
    }
}

fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

fn digits(integer: u64) -> usize {
    integer.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn text_len(text: &str, unescaped_len: fn(&str) -> usize) -> usize {
    let escapes: usize = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 1,
            0x00..=0x1f => 5,
            _ => 0,
        })
        .sum();
    2 + unescaped_len(text) + escapes
}

/// Length of a finite float as JavaScript writes it: shortest digits, plain from 1e-6 to below 1e21,
/// with an exponent elsewhere.
fn float_len(float: f64) -> usize {
    let mut shape = Scientific::default();
    // The shape takes whatever is written, so this cannot fail.
    let _ = write!(shape, "{:e}", float.abs());
    let sign = usize::from(float < 0.0);
    let count = shape.digits;
    // Digits before the point if the number were written out.
    let whole = if shape.negative_exponent {
        1 - shape.exponent
    } else {
        1 + shape.exponent
    };
    sign + match usize::try_from(whole) {
        Ok(whole @ 1..=21) => {
            if count <= whole {
                whole
            } else {
                count + ".".len()
            }
        }
        _ if (-5..=0).contains(&whole) => "0.".len() + whole.unsigned_abs() as usize + count,
        _ => {
            let exponent = digits(u64::from((whole - 1).unsigned_abs()));
            count + usize::from(count > 1) + "e+".len() + exponent
        }
    }
}

/// The shape of a number that is being written as `d.ddde-x`, taken without keeping the text.
#[derive(Default)]
struct Scientific {
    /// Significant digits.
    digits: usize,
    exponent: i32,
    negative_exponent: bool,
    past_e: bool,
}

impl Write for Scientific {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            match byte {
                b'0'..=b'9' if self.past_e => {
                    self.exponent = self.exponent * 10 + i32::from(byte - b'0');
                }
                b'0'..=b'9' => self.digits += 1,
                b'e' => self.past_e = true,
                b'-' if self.past_e => self.negative_exponent = true,
                _ => {}
            }
        }
        Ok(())
    }
}
