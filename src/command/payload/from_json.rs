//! JSON to MessagePack: the way back of `to_json.rs`, tagged forms included.
//!
//! Numbers follow one rule: written with a fraction or exponent (`5.0`) they are float64; integers up to
//! ±(2^53 - 1) are encoded as everything the server writes, so those beyond 32 bits become float64 too,
//! because a 64-bit integer encoding reaches JavaScript workers as a `BigInt`; integers beyond that are
//! kept exactly, as 64-bit integers. `{"$int": "5000000000"}` asks for an integer encoding at any size.

use std::slice;

use base64::Engine;
use serde_json::{Map, Value as Json, map};
use thiserror::Error;

use super::tag::{BASE64, PLAIN_INTEGER_MAX, Tag, float_by_name};
use super::{DEPTH_MAX, Writer, check};

/// Bytes of the offending value that an error quotes.
const FOUND_MAX: usize = 60;

/// Why a JSON value does not stand for a payload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JsonFault {
    /// An object with exactly one key of the tagged forms, whose value does not fit it.
    #[error("{tag} takes {expected}, not {found}")]
    Tag {
        /// Where it stands in the value given, as in `items[2].size`; empty for the value itself.
        path: String,
        /// The key.
        tag: &'static str,
        /// What the key takes.
        expected: &'static str,
        /// What it was given, cut short.
        found: String,
    },
    /// More than [`DEPTH_MAX`] arrays and maps inside each other.
    #[error("value is nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

/// Encodes a JSON value, its tagged forms as the values they stand for.
pub fn from_value(value: &Json) -> Result<Vec<u8>, JsonFault> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut current = value;
    loop {
        match begin(current, DEPTH_MAX - open.len(), &mut writer) {
            Ok(None) => {}
            Ok(Some(_)) if open.len() == DEPTH_MAX => return Err(JsonFault::TooDeep),
            Ok(Some(container)) => open.push(container),
            Err(Misfit {
                tag,
                expected,
                found,
            }) => {
                return Err(JsonFault::Tag {
                    path: path(&open),
                    tag: tag.key(),
                    expected,
                    found: describe(found),
                });
            }
        }
        current = loop {
            let Some(container) = open.last_mut() else {
                return Ok(out);
            };
            match container.next(&mut writer) {
                Some(value) => break value,
                None => open.pop(),
            };
        };
    }
}

/// A tagged form whose value does not fit.
struct Misfit<'v> {
    tag: Tag,
    expected: &'static str,
    found: &'v Json,
}

/// A container whose header is written, and what is left of its contents.
enum Open<'v> {
    Array {
        items: slice::Iter<'v, Json>,
        passed: usize,
    },
    Object {
        entries: map::Iter<'v>,
        key: &'v str,
    },
    Pairs {
        pairs: slice::Iter<'v, Json>,
        value: Option<&'v Json>,
        passed: usize,
    },
}

impl<'v> Open<'v> {
    /// The next value to write; the text key of an entry is written on the way.
    fn next(&mut self, writer: &mut Writer<'_>) -> Option<&'v Json> {
        match self {
            Open::Array { items, passed } => {
                *passed += 1;
                items.next()
            }
            Open::Object { entries, key } => {
                let (next_key, value) = entries.next()?;
                *key = next_key;
                writer.text(next_key);
                Some(value)
            }
            Open::Pairs {
                pairs,
                value,
                passed,
            } => {
                if let Some(value) = value.take() {
                    return Some(value);
                }
                *passed += 1;
                let (key, second) = pair(pairs.next()?)?;
                *value = Some(second);
                Some(key)
            }
        }
    }
}

/// Writes a scalar, or the header of a container and returns what follows it. `room` is the number of
/// levels that may still open.
fn begin<'v>(
    value: &'v Json,
    room: usize,
    writer: &mut Writer<'_>,
) -> Result<Option<Open<'v>>, Misfit<'v>> {
    match value {
        Json::Null => writer.nil(),
        Json::Bool(value) => writer.bool(*value),
        Json::Number(number) => {
            if let Some(integer) = number.as_i64() {
                if integer.unsigned_abs() <= PLAIN_INTEGER_MAX {
                    writer.integer(integer);
                } else {
                    writer.exact(integer);
                }
            } else if let Some(integer) = number.as_u64() {
                writer.exact_unsigned(integer);
            } else {
                writer.float(number.as_f64().unwrap_or(f64::NAN));
            }
        }
        Json::String(text) => writer.text(text),
        Json::Array(items) => {
            writer.array(items.len());
            return Ok(Some(Open::Array {
                items: items.iter(),
                passed: 0,
            }));
        }
        Json::Object(entries) => {
            let mut all = entries.iter();
            return match (all.next(), all.next()) {
                (Some((key, value)), None) => match Tag::of_key(key) {
                    Some(tag) => begin_tagged(tag, value, room, writer),
                    None => Ok(Some(begin_object(entries, writer))),
                },
                _ => Ok(Some(begin_object(entries, writer))),
            };
        }
    }
    Ok(None)
}

fn begin_object<'v>(entries: &'v Map<String, Json>, writer: &mut Writer<'_>) -> Open<'v> {
    writer.map(entries.len());
    Open::Object {
        entries: entries.iter(),
        key: "",
    }
}

fn begin_tagged<'v>(
    tag: Tag,
    value: &'v Json,
    room: usize,
    writer: &mut Writer<'_>,
) -> Result<Option<Open<'v>>, Misfit<'v>> {
    let expected = match tag {
        Tag::Bytes | Tag::Str => "base64 text",
        Tag::Int => "the text of an integer from -9223372036854775808 to 18446744073709551615",
        Tag::Float => r#""NaN", "Infinity", "-Infinity" or "-0""#,
        Tag::Ext => r#"{"type": an integer from -128 to 127, "data": base64 text}"#,
        Tag::Map => "a list of [key, value] pairs",
        Tag::Object => "an object",
        Tag::Msgpack => "base64 text of one MessagePack value",
    };
    let misfit = Misfit {
        tag,
        expected,
        found: value,
    };
    let written = match tag {
        Tag::Bytes => base64(value).map(|bytes| writer.bytes(&bytes)),
        Tag::Str => base64(value).map(|bytes| writer.text_bytes(&bytes)),
        Tag::Int => value.as_str().and_then(|digits| integer(digits, writer)),
        Tag::Float => value
            .as_str()
            .and_then(float_by_name)
            .map(|float| writer.float(float)),
        Tag::Msgpack => base64(value)
            .filter(|bytes| check(bytes, room).is_ok())
            .map(|bytes| writer.raw(&bytes)),
        Tag::Ext => ext(value).map(|(kind, bytes)| writer.ext(kind, &bytes)),
        Tag::Map => {
            let pairs = value
                .as_array()
                .filter(|pairs| pairs.iter().all(|entry| pair(entry).is_some()))
                .ok_or(misfit)?;
            writer.map(pairs.len());
            return Ok(Some(Open::Pairs {
                pairs: pairs.iter(),
                value: None,
                passed: 0,
            }));
        }
        Tag::Object => {
            let entries = value.as_object().ok_or(misfit)?;
            return Ok(Some(begin_object(entries, writer)));
        }
    };
    written.map(|()| None).ok_or(misfit)
}

fn base64(value: &Json) -> Option<Vec<u8>> {
    BASE64.decode(value.as_str()?).ok()
}

fn integer(digits: &str, writer: &mut Writer<'_>) -> Option<()> {
    if digits.starts_with('+') {
        return None;
    }
    if let Ok(integer) = digits.parse() {
        writer.exact(integer);
    } else {
        writer.exact_unsigned(digits.parse().ok()?);
    }
    Some(())
}

fn ext(value: &Json) -> Option<(i8, Vec<u8>)> {
    let members = value.as_object().filter(|members| members.len() == 2)?;
    let kind = i8::try_from(members.get("type")?.as_i64()?).ok()?;
    Some((kind, base64(members.get("data")?)?))
}

fn pair(value: &Json) -> Option<(&Json, &Json)> {
    match value.as_array()?.as_slice() {
        [key, value] => Some((key, value)),
        _ => None,
    }
}

/// Where the value stands that is written next.
fn path(open: &[Open<'_>]) -> String {
    let mut path = String::new();
    for container in open {
        match container {
            Open::Array { passed, .. } => path.push_str(&format!("[{}]", passed.saturating_sub(1))),
            Open::Object { key, .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Open::Pairs { passed, .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&format!("$map[{}]", passed.saturating_sub(1)));
            }
        }
    }
    path
}

/// A value as an error quotes it: scalars as JSON of at most [`FOUND_MAX`] bytes, containers by kind.
fn describe(value: &Json) -> String {
    let text = match value {
        Json::Array(_) => return "another list".to_owned(),
        Json::Object(_) => return "another object".to_owned(),
        scalar => scalar.to_string(),
    };
    let end = text.floor_char_boundary(FOUND_MAX);
    match text.get(..end) {
        Some(kept) if end < text.len() => format!("{kept}…"),
        _ => text,
    }
}
