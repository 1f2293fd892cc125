//! MessagePack for the tests: one value type, encoder, decoder, and the JSON notation of the dialogues.
//!
//! Written from the MessagePack specification and section 3 of the TCP protocol, and independent of the product's
//! codec on purpose. The decoder keeps what the tests judge: bytes of text that is no UTF-8, extensions, and
//! whether a 64-bit integer encoding occurred, which no field of the server's own making may have.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Arrays and maps inside each other that are still decoded: some more than a frame may have, far fewer than a stack holds.
const LEVELS_MAX: usize = 1_100;

/// One MessagePack value. `Raw` is already encoded and never comes out of the decoder.
#[derive(Clone, PartialEq)]
pub enum Wire {
    Nil,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Vec<u8>),
    Bin(Vec<u8>),
    Ext(i8, Vec<u8>),
    Array(Vec<Wire>),
    Map(Vec<(Wire, Wire)>),
    Raw(Vec<u8>),
}

/// A decoded body, and whether a 64-bit integer encoding (`cf`, `d3`) occurred anywhere in it.
pub struct Decoded {
    pub value: Wire,
    pub wide: bool,
}

impl Wire {
    pub fn text(text: &str) -> Self {
        Self::Str(text.as_bytes().to_vec())
    }

    /// JavaScript's `undefined` on the wire: extension 0 with one zero byte.
    pub fn undefined() -> Self {
        Self::Ext(0, vec![0])
    }

    /// The value for a text key of a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else {
            return None;
        };
        entries
            .iter()
            .find(|(name, _)| *name == Self::text(key))
            .map(|(_, value)| value)
    }

    /// From the notation of the dialogues: plain JSON, and `$f64`, `$bin`, `$ext`, `$undef`, `$i64` for the rest.
    pub fn from_notation(json: &Value) -> Self {
        match json {
            Value::Null => Self::Nil,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Number(number) => number
                .as_i64()
                .map(i128::from)
                .or(number.as_u64().map(i128::from))
                .map_or_else(|| Self::Float(number.as_f64().unwrap()), Self::Int),
            Value::String(text) => Self::text(text),
            Value::Array(items) => Self::Array(items.iter().map(Self::from_notation).collect()),
            Value::Object(entries) => match tagged(json) {
                Some(value) => value,
                None => Self::Map(
                    entries
                        .iter()
                        .map(|(key, value)| (Self::text(key), Self::from_notation(value)))
                        .collect(),
                ),
            },
        }
    }

    /// To plain JSON, for assertions: entries that hold extension 0 are left out, the rest that JSON lacks is tagged.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Nil => Value::Null,
            Self::Bool(truth) => json!(truth),
            Self::Int(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(small), _) => json!(small),
                (_, Ok(large)) => json!(large),
                _ => unreachable!("no MessagePack integer is larger"),
            },
            Self::Float(number) if number.is_finite() => json!(number),
            Self::Float(number) => json!({ "$f64": number.to_string() }),
            Self::Str(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => json!(text),
                Err(_) => json!({ "$str": STANDARD.encode(bytes) }),
            },
            Self::Bin(bytes) => json!({ "$bin": STANDARD.encode(bytes) }),
            Self::Ext(kind, bytes) => json!({ "$ext": [kind, STANDARD.encode(bytes)] }),
            Self::Array(items) => items.iter().map(Self::to_json).collect(),
            Self::Map(entries) => entries
                .iter()
                .filter(|(_, value)| !matches!(value, Self::Ext(0, _)))
                .map(|(key, value)| match key {
                    Self::Str(bytes) => {
                        (String::from_utf8_lossy(bytes).into_owned(), value.to_json())
                    }
                    other => (format!("{other:?}"), value.to_json()),
                })
                .collect(),
            Self::Raw(bytes) => json!({ "$raw": STANDARD.encode(bytes) }),
        }
    }

    /// The shortest encoding; integers beyond 32 bits as float64, as every published client sends them.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nil => out.push(0xc0),
            Self::Bool(truth) => out.push(if *truth { 0xc3 } else { 0xc2 }),
            Self::Int(number) => write_int(*number, out),
            Self::Float(number) => {
                out.push(0xcb);
                out.extend(number.to_be_bytes());
            }
            Self::Str(bytes) => {
                match bytes.len() {
                    short @ 0..=31 => out.push(0xa0 | short as u8),
                    long => write_length(long, [Some(0xd9), Some(0xda), Some(0xdb)], out),
                }
                out.extend(bytes);
            }
            Self::Bin(bytes) => {
                write_length(bytes.len(), [Some(0xc4), Some(0xc5), Some(0xc6)], out);
                out.extend(bytes);
            }
            Self::Ext(kind, bytes) => {
                match bytes.len() {
                    1 => out.push(0xd4),
                    2 => out.push(0xd5),
                    4 => out.push(0xd6),
                    8 => out.push(0xd7),
                    16 => out.push(0xd8),
                    other => write_length(other, [Some(0xc7), Some(0xc8), Some(0xc9)], out),
                }
                out.push(*kind as u8);
                out.extend(bytes);
            }
            Self::Array(items) => {
                match items.len() {
                    short @ 0..=15 => out.push(0x90 | short as u8),
                    long => write_length(long, [None, Some(0xdc), Some(0xdd)], out),
                }
                items.iter().for_each(|item| item.write(out));
            }
            Self::Map(entries) => {
                match entries.len() {
                    short @ 0..=15 => out.push(0x80 | short as u8),
                    long => write_length(long, [None, Some(0xde), Some(0xdf)], out),
                }
                for (key, value) in entries {
                    key.write(out);
                    value.write(out);
                }
            }
            Self::Raw(bytes) => out.extend(bytes),
        }
    }
}

/// Texts as texts: what a failed test prints is read by people.
impl fmt::Debug for Wire {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => write!(out, "nil"),
            Self::Bool(truth) => write!(out, "{truth}"),
            Self::Int(number) => write!(out, "{number}"),
            Self::Float(number) => write!(out, "{number:?}"),
            Self::Str(bytes) => write!(out, "{:?}", String::from_utf8_lossy(bytes)),
            Self::Bin(bytes) => write!(out, "bin {bytes:02x?}"),
            Self::Ext(kind, bytes) => write!(out, "ext {kind} {bytes:02x?}"),
            Self::Raw(bytes) => write!(out, "raw {bytes:02x?}"),
            Self::Array(items) => out.debug_list().entries(items).finish(),
            Self::Map(entries) => out
                .debug_map()
                .entries(entries.iter().map(|(key, value)| (key, value)))
                .finish(),
        }
    }
}

/// A value in one of the `$` forms, or `None` for an ordinary map.
fn tagged(json: &Value) -> Option<Wire> {
    let entries = json.as_object().filter(|entries| entries.len() == 1)?;
    let (tag, value) = entries.iter().next()?;
    Some(match tag.as_str() {
        "$f64" => Wire::Float(float(value)),
        "$bin" => Wire::Bin(base64(value)),
        "$ext" => Wire::Ext(value[0].as_i64().unwrap() as i8, base64(&value[1])),
        "$undef" => Wire::undefined(),
        "$i64" => Wire::Raw(wide(i128::from(value.as_i64().unwrap()))),
        _ => return None,
    })
}

/// The number of a `$f64`: a JSON number, or the name of a value that JSON lacks.
pub fn float(json: &Value) -> f64 {
    match json.as_str() {
        Some("-0") => -0.0,
        Some(name) => name.parse().unwrap(),
        None => json.as_f64().unwrap(),
    }
}

/// The bytes of a base64 text.
pub fn base64(json: &Value) -> Vec<u8> {
    STANDARD.decode(json.as_str().unwrap()).unwrap()
}

/// An integer in its 64-bit form, unsigned where the value allows it.
pub fn wide(number: i128) -> Vec<u8> {
    match u64::try_from(number) {
        Ok(unsigned) => [&[0xcf], unsigned.to_be_bytes().as_slice()].concat(),
        Err(_) => [&[0xd3], (number as i64).to_be_bytes().as_slice()].concat(),
    }
}

fn write_int(number: i128, out: &mut Vec<u8>) {
    match number {
        0..=0x7f => out.push(number as u8),
        -32..=-1 => out.push(number as i8 as u8),
        0x80..=0xff => out.extend([0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((number as u32).to_be_bytes());
        }
        -0x80..=-33 => out.extend([0xd0, number as i8 as u8]),
        -0x8000..=-0x81 => {
            out.push(0xd1);
            out.extend((number as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend((number as i32).to_be_bytes());
        }
        _ => {
            out.push(0xcb);
            out.extend((number as f64).to_be_bytes());
        }
    }
}

/// Writes a marker with a length of 1, 2 or 4 bytes; a form the type lacks is `None`.
fn write_length(length: usize, markers: [Option<u8>; 3], out: &mut Vec<u8>) {
    let [one, two, four] = markers;
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(byte), _) if one.is_some() => out.extend([one.unwrap(), byte]),
        (_, Ok(short)) => {
            out.push(two.unwrap());
            out.extend(short.to_be_bytes());
        }
        _ => {
            out.push(four.unwrap());
            out.extend(u32::try_from(length).unwrap().to_be_bytes());
        }
    }
}

/// Decodes a body that must hold exactly one value.
pub fn decode(body: &[u8]) -> Result<Decoded, String> {
    let mut reader = Reader {
        rest: body,
        wide: false,
        levels: 0,
    };
    let value = reader.value()?;
    if !reader.rest.is_empty() {
        return Err(format!("{} bytes after the value", reader.rest.len()));
    }
    Ok(Decoded {
        value,
        wide: reader.wide,
    })
}

struct Reader<'a> {
    rest: &'a [u8],
    wide: bool,
    /// Arrays and maps that are open.
    levels: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| format!("{count} bytes wanted, {} left", self.rest.len()))?;
        self.rest = rest;
        Ok(head)
    }

    fn unsigned(&mut self, count: usize) -> Result<u64, String> {
        let bytes = self.take(count)?;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, count: usize) -> Result<i128, String> {
        let shift = 64 - 8 * count as u32;
        Ok(i128::from((self.unsigned(count)? << shift) as i64 >> shift))
    }

    fn length(&mut self, count: usize) -> Result<usize, String> {
        Ok(self.unsigned(count)? as usize)
    }

    fn value(&mut self) -> Result<Wire, String> {
        let marker = self.take(1)?[0];
        Ok(match marker {
            0x00..=0x7f => Wire::Int(i128::from(marker)),
            0x80..=0x8f => self.map(usize::from(marker & 0x0f))?,
            0x90..=0x9f => self.array(usize::from(marker & 0x0f))?,
            0xa0..=0xbf => Wire::Str(self.take(usize::from(marker & 0x1f))?.to_vec()),
            0xc0 => Wire::Nil,
            0xc1 => return Err("marker c1 is never used".into()),
            0xc2 => Wire::Bool(false),
            0xc3 => Wire::Bool(true),
            0xc4..=0xc6 => {
                let length = self.length(1 << (marker - 0xc4))?;
                Wire::Bin(self.take(length)?.to_vec())
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (marker - 0xc7))?;
                self.extension(length)?
            }
            0xca => Wire::Float(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xcb => Wire::Float(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xcf => {
                self.wide |= marker == 0xcf;
                Wire::Int(i128::from(self.unsigned(1 << (marker - 0xcc))?))
            }
            0xd0..=0xd3 => {
                self.wide |= marker == 0xd3;
                Wire::Int(self.signed(1 << (marker - 0xd0))?)
            }
            0xd4..=0xd8 => self.extension(1 << (marker - 0xd4))?,
            0xd9..=0xdb => {
                let length = self.length(1 << (marker - 0xd9))?;
                Wire::Str(self.take(length)?.to_vec())
            }
            0xdc | 0xdd => {
                let length = self.length(2 << (marker - 0xdc))?;
                self.array(length)?
            }
            0xde | 0xdf => {
                let length = self.length(2 << (marker - 0xde))?;
                self.map(length)?
            }
            0xe0..=0xff => Wire::Int(i128::from(marker as i8)),
        })
    }

    fn extension(&mut self, length: usize) -> Result<Wire, String> {
        let kind = self.take(1)?[0] as i8;
        Ok(Wire::Ext(kind, self.take(length)?.to_vec()))
    }

    fn array(&mut self, length: usize) -> Result<Wire, String> {
        self.enter()?;
        let items: Result<_, String> = (0..length).map(|_| self.value()).collect();
        self.levels -= 1;
        items.map(Wire::Array)
    }

    fn map(&mut self, length: usize) -> Result<Wire, String> {
        self.enter()?;
        let entries: Result<_, String> = (0..length)
            .map(|_| Ok((self.value()?, self.value()?)))
            .collect();
        self.levels -= 1;
        entries.map(Wire::Map)
    }

    fn enter(&mut self) -> Result<(), String> {
        self.levels += 1;
        if self.levels > LEVELS_MAX {
            return Err(format!("more than {LEVELS_MAX} levels"));
        }
        Ok(())
    }
}

#[test]
fn every_form_survives_encoding_and_decoding() {
    let long = "x".repeat(70_000);
    for notation in [
        json!(null),
        json!([
            true,
            false,
            0,
            127,
            128,
            255,
            256,
            65_535,
            65_536,
            4_294_967_295_u64
        ]),
        json!([
            -1,
            -32,
            -33,
            -128,
            -129,
            -32_768,
            -32_769,
            -2_147_483_648_i64,
            0.5
        ]),
        json!([{ "$bin": "AAEC" }, { "$ext": [-1, "AAAAAA=="] }, { "$ext": [5, "AAEC"] }, { "$f64": 3 }]),
        json!({ "short": "text", "medium": &long[..200], "long": long }),
        json!([vec![0; 16], vec![0; 70_000]]),
    ] {
        let value = Wire::from_notation(&notation);
        let decoded = decode(&value.encode()).unwrap();
        assert_eq!(decoded.value, value);
        assert!(!decoded.wide);
    }
}

#[test]
fn a_64_bit_integer_is_noticed_wherever_it_stands() {
    for number in [5, -5, i128::from(u64::MAX), i128::from(i64::MIN)] {
        let map = Wire::Map(vec![(
            Wire::text("deep"),
            Wire::Array(vec![Wire::Raw(wide(number))]),
        )]);
        let decoded = decode(&map.encode()).unwrap();
        assert!(decoded.wide);
        assert_eq!(
            decoded.value.get("deep"),
            Some(&Wire::Array(vec![Wire::Int(number)]))
        );
    }
}
