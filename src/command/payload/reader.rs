//! A cursor over MessagePack bytes: shallow reading, skipping whole values, checking a frame.
//!
//! Invariants: nothing here recurses or allocates in proportion to a length that the input merely
//! claims; skipping keeps one counter of values still to pass and stops as soon as it exceeds the bytes
//! left. Strings are not checked for UTF-8 unless read as text, so broken text inside user data passes.

use super::Fault;

/// Levels of arrays and maps inside each other that a frame may have, the command map included
/// (tcp protocol section 3.1).
pub const DEPTH_MAX: usize = 1_000;

/// Largest distance from zero at which every integer has its own float64; numbers beyond it are not
/// taken from commands (tcp protocol section 3.1).
const EXACT_MAX: u64 = 1 << 53;

/// One value, containers by their header only: their items are read next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// nil
    Nil,
    /// false or true
    Bool(bool),
    /// Any integer that fits, whichever width it was sent in.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// float64, or float32 widened, which is exact.
    Float(f64),
    /// A string as sent; it may not be UTF-8.
    Str(&'a [u8]),
    /// Binary data.
    Bin(&'a [u8]),
    /// Extension type and its bytes.
    Ext(i8, &'a [u8]),
    /// Header of an array with that many items.
    Array(u32),
    /// Header of a map with that many entries, each a key and a value.
    Map(u32),
}

impl<'a> Value<'a> {
    /// Whether this is JavaScript's `undefined` (extension type 0, sent as `d4 00 00`), which in a
    /// command means that the key is not there (tcp protocol section 3.1). The library that JavaScript
    /// clients use ignores the bytes of that extension, so they are ignored here too.
    pub fn is_absent(&self) -> bool {
        matches!(self, Value::Ext(0, _))
    }

    /// The string, if it is one and UTF-8.
    pub fn as_text(&self) -> Option<&'a str> {
        match self {
            Value::Str(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The number, if it is one. An integer and the float64 of the same value are the same number, and
    /// -0.0 is 0; integers beyond ±2^53 are refused rather than rounded.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::Int(integer) if integer.unsigned_abs() <= EXACT_MAX => Some(integer as f64),
            Value::Float(float) => Some(float + 0.0),
            _ => None,
        }
    }

    /// The number, if it is one, has no fraction and lies within ±2^53.
    pub fn as_integer(&self) -> Option<i64> {
        let number = self.as_f64()?;
        let whole = number.fract() == 0.0 && number.abs() <= EXACT_MAX as f64;
        whole.then_some(number as i64)
    }
}

/// A position in MessagePack bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, rest: bytes }
    }

    /// Bytes passed so far.
    pub fn position(&self) -> usize {
        self.bytes.len() - self.rest.len()
    }

    /// The bytes not passed yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Fails if bytes are left.
    pub fn finish(&self) -> Result<(), Fault> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Fault::Trailing)
        }
    }

    /// Reads one scalar whole, or the header of one container. A container that announces more items
    /// than bytes are left is refused here, so its length is safe to reserve memory for.
    pub fn read(&mut self) -> Result<Value<'a>, Fault> {
        let [marker] = self.chunk()?;
        Ok(match marker {
            0x00..=0x7f => Value::Int(i64::from(marker)),
            0x80..=0x8f => self.map(u32::from(marker & 0x0f))?,
            0x90..=0x9f => self.array(u32::from(marker & 0x0f))?,
            0xa0..=0xbf => Value::Str(self.take(u32::from(marker & 0x1f))?),
            0xc0 => Value::Nil,
            0xc1 => return Err(Fault::Reserved),
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc4..=0xc6 => {
                let len = self.length(marker - 0xc4)?;
                Value::Bin(self.take(len)?)
            }
            0xc7..=0xc9 => {
                let len = self.length(marker - 0xc7)?;
                self.ext(len)?
            }
            0xca => Value::Float(f64::from(f32::from_be_bytes(self.chunk()?))),
            0xcb => Value::Float(f64::from_be_bytes(self.chunk()?)),
            0xcc => Value::Int(i64::from(u8::from_be_bytes(self.chunk()?))),
            0xcd => Value::Int(i64::from(u16::from_be_bytes(self.chunk()?))),
            0xce => Value::Int(i64::from(u32::from_be_bytes(self.chunk()?))),
            0xcf => {
                let integer = u64::from_be_bytes(self.chunk()?);
                i64::try_from(integer).map_or(Value::UInt(integer), Value::Int)
            }
            0xd0 => Value::Int(i64::from(i8::from_be_bytes(self.chunk()?))),
            0xd1 => Value::Int(i64::from(i16::from_be_bytes(self.chunk()?))),
            0xd2 => Value::Int(i64::from(i32::from_be_bytes(self.chunk()?))),
            0xd3 => Value::Int(i64::from_be_bytes(self.chunk()?)),
            0xd4..=0xd8 => self.ext(1 << (marker - 0xd4))?,
            0xd9..=0xdb => {
                let len = self.length(marker - 0xd9)?;
                Value::Str(self.take(len)?)
            }
            0xdc | 0xdd => {
                let len = self.length(marker - 0xdc + 1)?;
                self.array(len)?
            }
            0xde | 0xdf => {
                let len = self.length(marker - 0xde + 1)?;
                self.map(len)?
            }
            0xe0..=0xff => Value::Int(i64::from(i8::from_be_bytes([marker]))),
        })
    }

    /// Reads a value that must be UTF-8 text, as names, ids and keys must.
    pub fn read_text(&mut self) -> Result<&'a str, Fault> {
        self.read()?.as_text().ok_or(Fault::NotText)
    }

    /// Passes exactly one value, however deep, and returns its bytes.
    pub fn skip(&mut self) -> Result<&'a [u8], Fault> {
        let from = self.rest;
        let mut outstanding: u64 = 1;
        while outstanding > 0 {
            outstanding = outstanding - 1 + self.pass_header()?.items;
            if outstanding > self.rest.len() as u64 {
                return Err(Fault::Truncated);
            }
        }
        let (value, _) = from
            .split_at_checked(from.len() - self.rest.len())
            .ok_or(Fault::Truncated)?;
        Ok(value)
    }

    /// Passes one scalar whole, or the header of one container.
    fn pass_header(&mut self) -> Result<Layout, Fault> {
        let layout = Layout::of(self.rest)?;
        self.rest = self.rest.get(layout.bytes..).ok_or(Fault::Truncated)?;
        Ok(layout)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (chunk, rest) = self.rest.split_first_chunk().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*chunk)
    }

    fn take(&mut self, len: u32) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len as usize)
            .ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A length of 1, 2 or 4 bytes, by the power of two.
    fn length(&mut self, width_log2: u8) -> Result<u32, Fault> {
        Ok(match width_log2 {
            0 => u32::from(u8::from_be_bytes(self.chunk()?)),
            1 => u32::from(u16::from_be_bytes(self.chunk()?)),
            _ => u32::from_be_bytes(self.chunk()?),
        })
    }

    fn ext(&mut self, len: u32) -> Result<Value<'a>, Fault> {
        let kind = i8::from_be_bytes(self.chunk()?);
        Ok(Value::Ext(kind, self.take(len)?))
    }

    fn array(&self, len: u32) -> Result<Value<'a>, Fault> {
        self.holds(u64::from(len)).map(|()| Value::Array(len))
    }

    fn map(&self, len: u32) -> Result<Value<'a>, Fault> {
        self.holds(2 * u64::from(len)).map(|()| Value::Map(len))
    }

    /// Whether that many values can follow, each of at least one byte.
    fn holds(&self, values: u64) -> Result<(), Fault> {
        if values <= self.rest.len() as u64 {
            Ok(())
        } else {
            Err(Fault::Truncated)
        }
    }
}

/// What one value takes up, seen from its first bytes.
struct Layout {
    /// Bytes of a scalar, or of a container's header; may exceed what is there.
    bytes: usize,
    /// Values that follow inside a container.
    items: u64,
    container: bool,
}

impl Layout {
    fn of(rest: &[u8]) -> Result<Layout, Fault> {
        let (&marker, after) = rest.split_first().ok_or(Fault::Truncated)?;
        let scalar = |bytes: usize| Layout {
            bytes,
            items: 0,
            container: false,
        };
        let container = |bytes: usize, items: u64| Layout {
            bytes,
            items,
            container: true,
        };
        Ok(match marker {
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => scalar(1),
            0x80..=0x8f => container(1, 2 * u64::from(marker & 0x0f)),
            0x90..=0x9f => container(1, u64::from(marker & 0x0f)),
            0xa0..=0xbf => scalar(1 + usize::from(marker & 0x1f)),
            0xc1 => return Err(Fault::Reserved),
            0xc4 | 0xd9 => scalar(length1(after)?.saturating_add(2)),
            0xc5 | 0xda => scalar(length2(after)?.saturating_add(3)),
            0xc6 | 0xdb => scalar(length4(after)?.saturating_add(5)),
            0xc7 => scalar(length1(after)?.saturating_add(3)),
            0xc8 => scalar(length2(after)?.saturating_add(4)),
            0xc9 => scalar(length4(after)?.saturating_add(6)),
            0xcc | 0xd0 => scalar(2),
            0xcd | 0xd1 | 0xd4 => scalar(3),
            0xd5 => scalar(4),
            0xca | 0xce | 0xd2 => scalar(5),
            0xd6 => scalar(6),
            0xcb | 0xcf | 0xd3 => scalar(9),
            0xd7 => scalar(10),
            0xd8 => scalar(18),
            0xdc => container(3, length2(after)? as u64),
            0xdd => container(5, length4(after)? as u64),
            0xde => container(3, 2 * length2(after)? as u64),
            0xdf => container(5, 2 * length4(after)? as u64),
        })
    }
}

fn length1(after: &[u8]) -> Result<usize, Fault> {
    let [len] = after.first_chunk().ok_or(Fault::Truncated)?;
    Ok(usize::from(*len))
}

fn length2(after: &[u8]) -> Result<usize, Fault> {
    let len = after.first_chunk().ok_or(Fault::Truncated)?;
    Ok(usize::from(u16::from_be_bytes(*len)))
}

fn length4(after: &[u8]) -> Result<usize, Fault> {
    let len = after.first_chunk().ok_or(Fault::Truncated)?;
    Ok(u32::from_be_bytes(*len) as usize)
}

/// Whether the bytes are exactly one complete value with at most `max_depth` levels of arrays and maps
/// inside each other; a scalar has none, an empty array one. What passes here makes no other function
/// of this room fail on it for its form.
pub fn check(bytes: &[u8], max_depth: usize) -> Result<(), Fault> {
    let mut reader = Reader::new(bytes);
    let mut outstanding: u64 = 1;
    let mut containers: usize = 0;
    while outstanding > 0 {
        let layout = reader.pass_header()?;
        outstanding = outstanding - 1 + layout.items;
        if outstanding > reader.rest.len() as u64 {
            return Err(Fault::Truncated);
        }
        containers += usize::from(layout.container);
    }
    reader.finish()?;
    // No value is deeper than it has containers, so all but large ones are settled without a stack.
    if containers <= max_depth {
        Ok(())
    } else {
        check_depth(bytes, max_depth)
    }
}

/// The depth half of [`check`], with one number per open container.
fn check_depth(bytes: &[u8], max_depth: usize) -> Result<(), Fault> {
    let mut reader = Reader::new(bytes);
    let mut open: Vec<u64> = Vec::new();
    loop {
        let layout = reader.pass_header()?;
        if layout.container {
            if open.len() >= max_depth {
                return Err(Fault::TooDeep(max_depth));
            }
            open.push(layout.items);
        } else if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        while open.last() == Some(&0) {
            open.pop();
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
        }
        if open.is_empty() {
            return reader.finish();
        }
    }
}
