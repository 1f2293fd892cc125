//! The tagged forms: an object with exactly one of these keys stands for a value that JSON lacks.
//!
//! One table for both directions, so that what is shown is what is understood. `$msgpack` is the last
//! resort: the whole payload as it is, for nesting that readers of JSON would refuse.

use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Largest integer shown as a plain number: beyond it a reader that keeps numbers as doubles rounds.
pub(super) const PLAIN_INTEGER_MAX: u64 = (1 << 53) - 1;

/// Levels of JSON inside each other up to which a payload is spelled out; a tagged scalar may add two.
/// Readers of JSON refuse the whole message at 128 levels (serde_json) or 200 (the one under the Python
/// MCP client), and the message around the payload has some too.
pub(super) const JSON_DEPTH_MAX: usize = 100;

/// Standard alphabet; written with padding, read with or without.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What kind of value an object with one key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Binary data, in base64.
    Bytes,
    /// An integer that a double cannot hold, in decimal.
    Int,
    /// A float64 that JSON cannot write, by name.
    Float,
    /// An extension: its type, and its bytes in base64.
    Ext,
    /// A map whose keys are not all text, or not all different: a list of pairs.
    Map,
    /// A string that is not UTF-8, in base64.
    Str,
    /// A real object that would read as one of these forms.
    Object,
    /// Any value, as its MessagePack bytes in base64.
    Msgpack,
}

impl Tag {
    pub(super) const ALL: [Tag; 8] = [
        Tag::Bytes,
        Tag::Int,
        Tag::Float,
        Tag::Ext,
        Tag::Map,
        Tag::Str,
        Tag::Object,
        Tag::Msgpack,
    ];

    pub(super) const fn key(self) -> &'static str {
        match self {
            Tag::Bytes => "$bytes",
            Tag::Int => "$int",
            Tag::Float => "$float",
            Tag::Ext => "$ext",
            Tag::Map => "$map",
            Tag::Str => "$str",
            Tag::Object => "$object",
            Tag::Msgpack => "$msgpack",
        }
    }

    pub(super) fn of_key(key: &str) -> Option<Tag> {
        Tag::ALL.into_iter().find(|tag| tag.key() == key)
    }
}

/// The name of a float that JSON cannot write as a number, or `None` for all others.
pub(super) fn float_name(float: f64) -> Option<&'static str> {
    if float.is_nan() {
        Some("NaN")
    } else if float == f64::INFINITY {
        Some("Infinity")
    } else if float == f64::NEG_INFINITY {
        Some("-Infinity")
    } else if float == 0.0 && float.is_sign_negative() {
        Some("-0")
    } else {
        None
    }
}

/// The float with that name.
pub(super) fn float_by_name(name: &str) -> Option<f64> {
    match name {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        "-0" => Some(-0.0),
        _ => None,
    }
}
