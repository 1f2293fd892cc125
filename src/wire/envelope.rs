//! The outside of a request: which command, for whom the answer is, and where the fields are.
//!
//! Reading stops here until the connection has proved that it may ask, so the outside is read apart
//! from the command (tcp protocol sections 2.1, 4 and 5).

use crate::command::bounds::FRAME_DEPTH_MAX;
use crate::command::payload::{self, Reader, Value};

use super::fields::{Fields, is_falsy};

/// The identity of a request as its client chose it: a MessagePack value, echoed byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReqId(Repr);

/// Bytes kept in place: decimal texts and numbers fit.
const SHORT: usize = 22;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Repr {
    None,
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

impl ReqId {
    /// A request without identity.
    pub const NONE: Self = Self(Repr::None);

    /// The identity whose bytes these are.
    pub fn from_raw(raw: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        match (bytes.get_mut(..raw.len()), u8::try_from(raw.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(raw);
                Self(Repr::Short { len, bytes })
            }
            _ => Self(Repr::Long(raw.into())),
        }
    }

    /// The identity of a request of which nobody reads more than this beginning; none, when it stands behind that.
    pub fn of_beginning(beginning: &[u8]) -> Self {
        let mut reader = Reader::new(beginning);
        let Ok(Value::Map(entries)) = reader.read() else {
            return Self::NONE;
        };
        for _ in 0..entries {
            let (Ok(key), Ok(value)) = (reader.skip(), reader.skip()) else {
                break;
            };
            if Reader::new(key).read() == Ok(Value::Str(b"reqId")) {
                return Self::from_raw(value);
            }
        }
        Self::NONE
    }

    /// Its bytes.
    pub fn raw(&self) -> Option<&[u8]> {
        match &self.0 {
            Repr::None => None,
            Repr::Short { len, bytes } => bytes.get(..usize::from(*len)),
            Repr::Long(bytes) => Some(bytes),
        }
    }

    /// Bytes it takes beyond its own size.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Long(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// Itself if it is a text, else none: refusals that come before any command echo nothing else.
    #[must_use]
    pub fn text_only(self) -> Self {
        let text = self
            .raw()
            .is_some_and(|raw| matches!(Reader::new(raw).read(), Ok(Value::Str(_))));
        if text { self } else { Self::NONE }
    }
}

/// A frame that names a command.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// Whatever stands under `cmd`, nothing false.
    pub(super) command: Value<'a>,
    pub(super) fields: Fields<'a>,
    req_id: ReqId,
}

/// A frame that names none. The connection stays usable.
#[derive(Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The exact text of the refusal.
    pub text: &'static str,
    /// To be echoed.
    pub req_id: ReqId,
}

impl Unusable {
    const FORMAT: Self = Self {
        text: "Invalid command format",
        req_id: ReqId::NONE,
    };

    const fn command(req_id: ReqId) -> Self {
        Self {
            text: "Invalid command",
            req_id,
        }
    }
}

impl<'a> Envelope<'a> {
    /// Reads the body of a frame.
    ///
    /// # Errors
    /// When it is not exactly one MessagePack value, nested too deep, or names no command.
    pub fn read(body: &'a [u8]) -> Result<Self, Unusable> {
        // Every level takes a byte, so most frames need no second look for their depth.
        if body.len() > FRAME_DEPTH_MAX && payload::check(body, FRAME_DEPTH_MAX).is_err() {
            return Err(Unusable::FORMAT);
        }
        let mut reader = Reader::new(body);
        let fields = match reader.read() {
            Ok(Value::Map(entries)) => {
                Fields::read(&mut reader, entries).ok_or(Unusable::FORMAT)?
            }
            Ok(value) if !is_falsy(&value) && payload::check(body, FRAME_DEPTH_MAX).is_ok() => {
                return Err(Unusable::command(ReqId::NONE));
            }
            _ => return Err(Unusable::FORMAT),
        };
        if reader.finish().is_err() {
            return Err(Unusable::FORMAT);
        }
        let req_id = fields.raw("reqId").map_or(ReqId::NONE, ReqId::from_raw);
        match fields.value("cmd") {
            Some(command) if !is_falsy(&command) => Ok(Self {
                command,
                fields,
                req_id,
            }),
            _ => Err(Unusable::command(req_id.text_only())),
        }
    }

    /// The identity of the request.
    pub const fn req_id(&self) -> &ReqId {
        &self.req_id
    }

    /// Gives up the rest for the identity.
    pub fn into_req_id(self) -> ReqId {
        self.req_id
    }

    /// Whether this is the one command that everybody may send.
    pub fn is_auth(&self) -> bool {
        self.command == Value::Str(b"Auth")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bytes(value: &serde_json::Value) -> Vec<u8> {
        rmp_serde::to_vec_named(value).unwrap()
    }

    fn refused(body: &[u8]) -> (&'static str, Option<Vec<u8>>) {
        let unusable = Envelope::read(body).unwrap_err();
        (unusable.text, unusable.req_id.raw().map(<[u8]>::to_vec))
    }

    #[test]
    fn frames_without_a_command_are_refused_with_the_fitting_text() {
        for garbage in [
            &[][..],
            &[0xc1],
            &[0xc0],
            &[0xc2],
            &[0x00],
            &[0xa0],
            &[0xcb, 0x80, 0, 0, 0, 0, 0, 0, 0],
            &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0],
            &[0xd4, 0, 0],
            &[0xa3, b'c', b'm', b'd', b'd'],
            &[0x81, 0xa3, b'c', b'm', b'd'],
            &[0x93, 1, 2],
        ] {
            assert_eq!(
                refused(garbage),
                ("Invalid command format", None),
                "{garbage:x?}"
            );
        }
        for other in [
            json!("Ping"),
            json!(5),
            json!([1, 2]),
            json!(true),
            json!({}),
        ] {
            assert_eq!(
                refused(&bytes(&other)),
                ("Invalid command", None),
                "{other}"
            );
        }
        let text = bytes(&json!("r"));
        for falsy in [json!(""), json!(null), json!(0), json!(false)] {
            let frame = bytes(&json!({"cmd": falsy, "reqId": "r"}));
            assert_eq!(
                refused(&frame),
                ("Invalid command", Some(text.clone())),
                "{falsy}"
            );
        }
        assert_eq!(
            refused(&bytes(&json!({"cmd": "", "reqId": 7}))),
            ("Invalid command", None)
        );
    }

    #[test]
    fn bytes_behind_the_value_spoil_the_frame() {
        let mut frame = bytes(&json!({"cmd": "Ping", "reqId": "a"}));
        frame.extend(bytes(&json!({"cmd": "Ping", "reqId": "b"})));
        assert_eq!(refused(&frame), ("Invalid command format", None));
    }

    #[test]
    fn hard_w4_depth_is_counted_with_the_command_map() {
        let nested = |levels: usize| {
            let mut frame = vec![0x82, 0xa3, b'c', b'm', b'd', 0xa1, b'x', 0xa4];
            frame.extend(b"data");
            frame.extend(std::iter::repeat_n(0x91, levels));
            frame.push(0xc0);
            frame
        };
        assert!(Envelope::read(&nested(998)).is_ok());
        assert!(Envelope::read(&nested(999)).is_ok());
        assert_eq!(refused(&nested(1_000)).0, "Invalid command format");
        assert_eq!(refused(&nested(1_000_000)).0, "Invalid command format");
    }

    #[test]
    fn hard_w3_lying_lengths_are_refused() {
        for lie in [
            &[0xdd, 0xff, 0xff, 0xff, 0xff][..],
            &[0xdf, 0xff, 0xff, 0xff, 0xff, 0xa3, b'c', b'm', b'd', 0x01],
            &[
                0x82, 0xa3, b'c', b'm', b'd', 0xa4, b'P', b'U', b'S', b'H', 0xa1, b'd', 0xdd, 0xff,
                0xff, 0xff, 0xff,
            ],
            &[0xdb, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xc6, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(refused(lie).0, "Invalid command format", "{lie:x?}");
        }
    }

    #[test]
    fn the_last_of_a_repeated_key_counts() {
        let mut frame = vec![0x83];
        for command in ["Ping", "Hello"] {
            frame.extend(bytes(&json!("cmd")));
            frame.extend(bytes(&json!(command)));
        }
        frame.extend(bytes(&json!("reqId")));
        frame.extend([0xd4, 0, 0]);
        let envelope = Envelope::read(&frame).unwrap();
        assert_eq!(envelope.command, Value::Str(b"Hello"));
        assert_eq!(envelope.req_id(), &ReqId::NONE);
    }

    #[test]
    fn many_entries_are_found_too_many_refused() {
        let mut map = serde_json::Map::new();
        for index in 0..100 {
            map.insert(format!("k{index}"), json!(index));
        }
        map.insert("cmd".into(), json!("Ping"));
        let frame = bytes(&map.clone().into());
        assert_eq!(Envelope::read(&frame).unwrap().command, Value::Str(b"Ping"));
        for index in 100..1_100 {
            map.insert(format!("k{index}"), json!(index));
        }
        assert_eq!(refused(&bytes(&map.into())).0, "Invalid command format");
    }

    #[test]
    fn identities_come_back_as_they_were() {
        for raw in [
            &[0x07][..],
            b"\xa11",
            &[0xc0],
            &[0xd9; 23],
            &[1; 22],
            &[2; 5_000],
        ] {
            assert_eq!(ReqId::from_raw(raw).raw(), Some(raw));
        }
        assert_eq!(ReqId::from_raw(&[2; 5_000]).heap_bytes(), 5_000);
        assert_eq!(ReqId::from_raw(&[1; 22]).heap_bytes(), 0);
    }
}
