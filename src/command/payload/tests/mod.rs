//! Tests of the payload room: random values with rmpv as the independent reading, tables, hostile bytes.

mod bytes;
mod json;
mod size;

use proptest::prelude::*;
use rmpv::Value as Model;

use super::Value;

/// Few cases each: the values are small and the tables name the corners.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn encode(model: &Model) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, model).unwrap();
    bytes
}

fn decode(mut bytes: &[u8]) -> Model {
    rmpv::decode::read_value(&mut bytes).unwrap()
}

/// Bytes from hexadecimal digits; blanks are for the reader.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap())
        .collect()
}

/// Arrays of one item inside each other.
fn arrays(levels: usize) -> Vec<u8> {
    let mut bytes = vec![0x91; levels];
    bytes.push(0xc0);
    bytes
}

/// A string of any bytes, which rmpv only makes by reading it.
fn string(bytes: &[u8]) -> Model {
    let mut encoded = vec![0xd9, u8::try_from(bytes.len()).unwrap()];
    encoded.extend(bytes);
    decode(&encoded)
}

/// Text with everything that JSON escapes, and characters of every UTF-8 length.
fn text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        (0u8..0x80).prop_map(char::from),
        prop::sample::select(vec!['"', '\\', '\u{7f}', 'é', '\u{2028}', '\u{ffff}', '😀']),
        any::<char>(),
    ];
    prop::collection::vec(character, 0..6).prop_map(String::from_iter)
}

/// Keys that collide and keys that look like tagged forms, besides any text.
fn key() -> impl Strategy<Value = String> {
    let tags = [
        "$bytes", "$int", "$float", "$ext", "$map", "$str", "$object", "$msgpack", "$other",
    ];
    prop_oneof![
        3 => "[ab]?",
        1 => prop::sample::select(tags.map(str::to_owned).to_vec()),
        1 => text(),
    ]
}

fn scalar() -> impl Strategy<Value = Model> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let special = [5.0, 0.0, -0.0, 1e21, f64::NAN, f64::INFINITY];
    prop_oneof![
        Just(Model::Nil),
        any::<bool>().prop_map(Model::from),
        (any::<i64>(), 0..64).prop_map(|(integer, shift)| Model::from(integer >> shift)),
        any::<u64>().prop_map(Model::from),
        any::<u64>().prop_map(|bits| Model::from(f64::from_bits(bits))),
        any::<u32>().prop_map(|bits| Model::from(f32::from_bits(bits))),
        (-5_000i32..5_000).prop_map(|tenths| Model::from(f64::from(tenths) / 10.0)),
        prop::sample::select(special.to_vec()).prop_map(Model::from),
        text().prop_map(Model::from),
        bytes().prop_map(|bytes| string(&bytes)),
        bytes().prop_map(Model::from),
        (-2i8..3, bytes()).prop_map(|(kind, bytes)| Model::Ext(kind, bytes)),
        Just(Model::Ext(0, vec![0])),
    ]
}

/// Any value: maps of mostly colliding text keys, some with other keys, some with tag keys alone.
fn model() -> impl Strategy<Value = Model> {
    scalar().prop_recursive(4, 32, 6, |inner| {
        let entry = (key().prop_map(Model::from), inner.clone()).boxed();
        let odd_entry = (inner.clone(), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Model::Array),
            prop::collection::vec(entry.clone(), 0..2).prop_map(Model::Map),
            prop::collection::vec(entry.clone(), 0..5).prop_map(Model::Map),
            prop::collection::vec(prop_oneof![4 => entry, 1 => odd_entry], 0..4)
                .prop_map(Model::Map),
        ]
    })
}

/// A scalar of ours as rmpv has it; `None` for a container's header.
fn scalar_model(value: Value<'_>) -> Option<Model> {
    Some(match value {
        Value::Nil => Model::Nil,
        Value::Bool(value) => Model::from(value),
        Value::Int(integer) => Model::from(integer),
        Value::UInt(integer) => Model::from(integer),
        Value::Float(float) => Model::F64(float),
        Value::Str(bytes) => string(bytes),
        Value::Bin(bytes) => Model::from(bytes.to_vec()),
        Value::Ext(kind, bytes) => Model::Ext(kind, bytes.to_vec()),
        Value::Array(_) | Value::Map(_) => return None,
    })
}

/// The value with every float as a float64 and every NaN the same, so that values can be compared by
/// their encoding.
fn widened(model: Model) -> Model {
    match model {
        Model::F32(float) => widened(Model::F64(f64::from(float))),
        Model::F64(float) if float.is_nan() => Model::F64(f64::NAN),
        Model::Array(items) => Model::Array(items.into_iter().map(widened).collect()),
        Model::Map(entries) => Model::Map(
            entries
                .into_iter()
                .map(|(key, value)| (widened(key), widened(value)))
                .collect(),
        ),
        other => other,
    }
}
