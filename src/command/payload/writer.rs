//! Writes MessagePack by appending to a buffer, always in the shortest form.
//!
//! [`Writer::integer`] and [`Writer::number`] follow the rule for everything the server says itself: the
//! published JavaScript clients turn 64-bit integer encodings into `BigInt`, which plain arithmetic
//! refuses, so a value outside the int32 and uint32 range becomes a float64 (tcp protocol section 3.2).
//! Only [`Writer::exact`] writes 64-bit integers, for values that would be rounded otherwise.

/// The smallest integer that is sent as one.
const INTEGER_MIN: i64 = i32::MIN as i64;
/// The largest integer that is sent as one.
const INTEGER_MAX: i64 = u32::MAX as i64;

/// Appends values to a buffer. Lengths are `u32`: nothing longer has a MessagePack form, nor fits a
/// frame, so longer input is cut there.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Appends to what the buffer holds already.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Writer { out }
    }

    /// nil
    pub fn nil(&mut self) {
        self.out.push(0xc0);
    }

    /// false or true
    pub fn bool(&mut self, value: bool) {
        self.out.push(if value { 0xc3 } else { 0xc2 });
    }

    /// A string.
    pub fn text(&mut self, text: &str) {
        self.text_bytes(text.as_bytes());
    }

    /// A string whose bytes may not be UTF-8, as a client sent it.
    pub fn text_bytes(&mut self, bytes: &[u8]) {
        let len = clamp(bytes.len());
        match len {
            0..=31 => self.out.push(0xa0 | low_byte(len)),
            32..=0xff => self.out.extend([0xd9, low_byte(len)]),
            _ => self.long_header(0xda, len),
        }
        self.body(bytes, len);
    }

    /// Binary data.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let len = clamp(bytes.len());
        match len {
            0..=0xff => self.out.extend([0xc4, low_byte(len)]),
            _ => self.long_header(0xc5, len),
        }
        self.body(bytes, len);
    }

    /// An extension value.
    pub fn ext(&mut self, kind: i8, bytes: &[u8]) {
        let len = clamp(bytes.len());
        match len {
            1 => self.out.push(0xd4),
            2 => self.out.push(0xd5),
            4 => self.out.push(0xd6),
            8 => self.out.push(0xd7),
            16 => self.out.push(0xd8),
            0..=0xff => self.out.extend([0xc7, low_byte(len)]),
            _ => self.long_header(0xc8, len),
        }
        self.out.extend(kind.to_be_bytes());
        self.body(bytes, len);
    }

    /// The header of an array; that many values must follow.
    pub fn array(&mut self, len: usize) {
        let len = clamp(len);
        match len {
            0..=15 => self.out.push(0x90 | low_byte(len)),
            _ => self.long_header(0xdc, len),
        }
    }

    /// The header of a map; that many keys must follow, each with its value.
    pub fn map(&mut self, len: usize) {
        let len = clamp(len);
        match len {
            0..=15 => self.out.push(0x80 | low_byte(len)),
            _ => self.long_header(0xde, len),
        }
    }

    /// A number: an integer if it is whole and within -2^31 to 2^32 - 1, else a float64. -0.0 becomes 0.
    pub fn number(&mut self, number: f64) {
        let range = INTEGER_MIN as f64..=INTEGER_MAX as f64;
        if range.contains(&number) && number.fract() == 0.0 {
            self.exact(number as i64);
        } else {
            self.float(number);
        }
    }

    /// A number given as an integer: the same rule as [`Writer::number`], so beyond ±2^53 it is rounded.
    pub fn integer(&mut self, integer: i64) {
        if (INTEGER_MIN..=INTEGER_MAX).contains(&integer) {
            self.exact(integer);
        } else {
            self.float(integer as f64);
        }
    }

    /// A float64, whole or not.
    pub fn float(&mut self, float: f64) {
        self.out.push(0xcb);
        self.out.extend(float.to_be_bytes());
    }

    /// An integer in the shortest integer form, 64 bits if it needs them: user values only.
    pub fn exact(&mut self, integer: i64) {
        if let Ok(unsigned) = u64::try_from(integer) {
            return self.exact_unsigned(unsigned);
        }
        if let Ok(byte) = i8::try_from(integer) {
            if byte < -32 {
                self.out.push(0xd0);
            }
            self.out.extend(byte.to_be_bytes());
        } else if let Ok(short) = i16::try_from(integer) {
            self.out.push(0xd1);
            self.out.extend(short.to_be_bytes());
        } else if let Ok(word) = i32::try_from(integer) {
            self.out.push(0xd2);
            self.out.extend(word.to_be_bytes());
        } else {
            self.out.push(0xd3);
            self.out.extend(integer.to_be_bytes());
        }
    }

    /// [`Writer::exact`] for integers above `i64::MAX` too.
    pub fn exact_unsigned(&mut self, integer: u64) {
        if let Ok(byte) = u8::try_from(integer) {
            if byte > 0x7f {
                self.out.push(0xcc);
            }
            self.out.push(byte);
        } else if let Ok(short) = u16::try_from(integer) {
            self.out.push(0xcd);
            self.out.extend(short.to_be_bytes());
        } else if let Ok(word) = u32::try_from(integer) {
            self.out.push(0xce);
            self.out.extend(word.to_be_bytes());
        } else {
            self.out.push(0xcf);
            self.out.extend(integer.to_be_bytes());
        }
    }

    /// The bytes of whole values, as they are.
    pub fn raw(&mut self, values: &[u8]) {
        self.out.extend_from_slice(values);
    }

    /// A length of two bytes after `marker`, or of four after the next one.
    fn long_header(&mut self, marker: u8, len: u32) {
        if let Ok(short) = u16::try_from(len) {
            self.out.push(marker);
            self.out.extend(short.to_be_bytes());
        } else {
            self.out.push(marker + 1);
            self.out.extend(len.to_be_bytes());
        }
    }

    fn body(&mut self, bytes: &[u8], len: u32) {
        self.out
            .extend_from_slice(bytes.get(..len as usize).unwrap_or(bytes));
    }
}

fn clamp(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// The lowest byte of a length that is known to fit one.
fn low_byte(len: u32) -> u8 {
    let [.., low] = len.to_be_bytes();
    low
}
