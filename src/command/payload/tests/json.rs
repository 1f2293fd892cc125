//! To JSON and back: every tagged form, and random values with two independent transcoders.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::{DEPTH_MAX, JsonFault, check, from_value, to_json, to_json_within, to_value};
use super::{Model, arrays, cases, encode, hex, key, model, text, widened};

/// What a value is after a trip through JSON: plain integers come back as everything written by the
/// server, so outside of 32 bits as float64.
fn through_json(model: Model) -> Model {
    match widened(model) {
        Model::Integer(integer) => match integer.as_i64() {
            Some(whole)
                if whole.unsigned_abs() < 1 << 53
                    && !(i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&whole) =>
            {
                Model::F64(integer.as_f64().unwrap())
            }
            _ => Model::Integer(integer),
        },
        Model::Array(items) => Model::Array(items.into_iter().map(through_json).collect()),
        Model::Map(entries) => Model::Map(
            entries
                .into_iter()
                .map(|(key, value)| (through_json(key), through_json(value)))
                .collect(),
        ),
        other => other,
    }
}

/// JSON without tagged forms, whose integers keep their encoding.
fn plain_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
        any::<u32>().prop_map(Json::from),
        any::<u64>()
            .prop_map(f64::from_bits)
            .prop_filter_map("finite", |float| {
                (float.is_finite() && float.to_bits() != 1 << 63).then(|| Json::from(float))
            }),
        (-100i8..100).prop_map(|whole| Json::from(f64::from(whole) + 0.0)),
        text().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::vec((key().prop_map(|key| key.replace('$', "S")), inner), 0..5)
                .prop_map(|entries| Json::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn any_payload_survives_json(model in model()) {
        let bytes = encode(&model);
        let text = to_json(&bytes);
        let parsed: Json = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&parsed, &to_value(&bytes));
        prop_assert_eq!(&text, &parsed.to_string());
        prop_assert_eq!(from_value(&parsed).unwrap(), encode(&through_json(model)));
    }

    #[test]
    fn any_json_survives_payloads(value in plain_json()) {
        let bytes = from_value(&value).unwrap();
        prop_assert_eq!(to_value(&bytes), value.clone());
        prop_assert_eq!(to_json(&bytes), value.to_string());
    }

    #[test]
    fn plain_json_is_what_serde_makes_of_it(value in plain_json()) {
        let text = value.to_string();
        let bytes = from_value(&value).unwrap();
        let mut oracle = Vec::new();
        serde_transcode::transcode(
            &mut serde_json::Deserializer::from_str(&text),
            &mut rmp_serde::Serializer::new(&mut oracle),
        ).unwrap();
        prop_assert_eq!(&bytes, &oracle);
        let mut back = Vec::new();
        serde_transcode::transcode(
            &mut rmp_serde::Deserializer::new(&bytes[..]),
            &mut serde_json::Serializer::new(&mut back),
        ).unwrap();
        prop_assert_eq!(to_json(&bytes).into_bytes(), back);
    }

    #[test]
    fn random_bytes_give_json(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
        let text = to_json(&bytes);
        let parsed: Json = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&parsed, &to_value(&bytes));
        if check(&bytes, DEPTH_MAX).is_err() {
            prop_assert!(parsed.get("$msgpack").is_some());
            prop_assert!(from_value(&parsed).is_err());
        }
    }
}

#[test]
fn every_form_both_ways() {
    for (bytes, text) in [
        ("c0", "null"),
        ("93 c2 c3 a0", r#"[false,true,""]"#),
        ("82 a162 01 a161 90", r#"{"b":1,"a":[]}"#),
        (
            "a9 22 5c 08 09 0a 0c 0d 1f 7f",
            "\"\\\"\\\\\\b\\t\\n\\f\\r\\u001f\u{7f}\"",
        ),
        // Numbers.
        ("ff", "-1"),
        ("ce ffffffff", "4294967295"),
        ("cb 4014000000000000", "5.0"),
        ("cb 4278bcfe56800000", "1700000000000.0"),
        ("cb 3fb999999999999a", "0.1"),
        ("cb 0000000000000001", "5e-324"),
        ("cb 7fefffffffffffff", "1.7976931348623157e+308"),
        ("cb 7ff8000000000000", r#"{"$float":"NaN"}"#),
        ("cb 7ff0000000000000", r#"{"$float":"Infinity"}"#),
        ("cb fff0000000000000", r#"{"$float":"-Infinity"}"#),
        ("cb 8000000000000000", r#"{"$float":"-0"}"#),
        ("cf 0020000000000000", r#"{"$int":"9007199254740992"}"#),
        ("cf 0020000000000001", r#"{"$int":"9007199254740993"}"#),
        ("cf ffffffffffffffff", r#"{"$int":"18446744073709551615"}"#),
        ("d3 ffe0000000000000", r#"{"$int":"-9007199254740992"}"#),
        ("d3 8000000000000000", r#"{"$int":"-9223372036854775808"}"#),
        // Bytes.
        ("c4 00", r#"{"$bytes":""}"#),
        ("c4 04 00ff1080", r#"{"$bytes":"AP8QgA=="}"#),
        ("a2 c328", r#"{"$str":"wyg="}"#),
        (
            "d6 ff 00000001",
            r#"{"$ext":{"type":-1,"data":"AAAAAQ=="}}"#,
        ),
        ("d4 00 00", r#"{"$ext":{"type":0,"data":"AA=="}}"#),
        ("c7 03 05 010203", r#"{"$ext":{"type":5,"data":"AQID"}}"#),
        // Maps that are no objects.
        ("81 01 a161", r#"{"$map":[[1,"a"]]}"#),
        ("82 a161 01 a161 02", r#"{"$map":[["a",1],["a",2]]}"#),
        ("82 a161 01 c0 02", r#"{"$map":[["a",1],[null,2]]}"#),
        ("81 a1ff 01", r#"{"$map":[[{"$str":"/w=="},1]]}"#),
        (
            "81 81 91 01 c0 81 02 03",
            r#"{"$map":[[{"$map":[[[1],null]]},{"$map":[[2,3]]}]]}"#,
        ),
        // Objects that look like tagged forms.
        ("81 a424696e74 a135", r#"{"$object":{"$int":"5"}}"#),
        (
            "81 a724 6f626a656374 81 a424696e74 05",
            r#"{"$object":{"$object":{"$object":{"$int":5}}}}"#,
        ),
        ("82 a424696e74 05 a161 06", r#"{"$int":5,"a":6}"#),
        ("81 a624 6f74686572 05", r#"{"$other":5}"#),
        (
            "82 a424696e74 05 a424696e74 06",
            r#"{"$map":[["$int",5],["$int",6]]}"#,
        ),
        ("81 a9 5f5f70726f746f5f5f 01", r#"{"__proto__":1}"#),
    ] {
        assert_eq!(to_json(&hex(bytes)), text, "{bytes}");
        let value: Json = serde_json::from_str(text).unwrap();
        assert_eq!(to_value(&hex(bytes)), value, "{bytes}");
        assert_eq!(from_value(&value), Ok(hex(bytes)), "{text}");
    }
}

#[test]
fn wide_encodings_are_shown_by_value() {
    for (bytes, text) in [
        ("cf 0000000000000005", "5"),
        ("d3 0000000000000005", "5"),
        ("cf 001fffffffffffff", "9007199254740991"),
        ("d3 ffe0000000000001", "-9007199254740991"),
        ("ca 3dcccccd", "0.10000000149011612"),
        ("ca 40a00000", "5.0"),
        ("db 00000001 61", r#""a""#),
        ("c8 0001 07 ff", r#"{"$ext":{"type":7,"data":"/w=="}}"#),
        ("df 00000000", "{}"),
        ("dd 00000001 c0", "[null]"),
    ] {
        assert_eq!(to_json(&hex(bytes)), text, "{bytes}");
    }
}

#[test]
fn json_numbers_reach_every_client() {
    for (text, bytes) in [
        ("5", "05"),
        ("5.0", "cb 4014000000000000"),
        ("5e0", "cb 4014000000000000"),
        ("-0.0", "cb 8000000000000000"),
        ("-2147483648", "d2 80000000"),
        ("4294967295", "ce ffffffff"),
        // A JavaScript worker would get a BigInt for a 64-bit integer.
        ("4294967296", "cb 41f0000000000000"),
        ("1700000000000", "cb 4278bcfe56800000"),
        ("-2147483649", "cb c1e0000000200000"),
        ("9007199254740991", "cb 433fffffffffffff"),
        // Beyond 2^53 a float64 would be another number.
        ("9007199254740993", "cf 0020000000000001"),
        ("18446744073709551615", "cf ffffffffffffffff"),
        ("-9223372036854775808", "d3 8000000000000000"),
        // Asked for by name.
        (r#"{"$int":"1700000000000"}"#, "cf 0000018bcfe56800"),
        (r#"{"$int":"-2147483649"}"#, "d3 ffffffff7fffffff"),
        (r#"{"$int":"5"}"#, "05"),
    ] {
        let value: Json = serde_json::from_str(text).unwrap();
        assert_eq!(from_value(&value), Ok(hex(bytes)), "{text}");
    }
}

#[test]
fn lenient_where_the_meaning_is_plain() {
    for (value, bytes) in [
        (json!({"$bytes": "AP8QgA"}), "c4 04 00ff1080"),
        (json!({"$ext": {"data": "AA", "type": 0}}), "d4 00 00"),
        (json!({"$map": []}), "80"),
        (json!({"$map": [["a", 1]]}), "81 a161 01"),
        (json!({"$object": {"a": {"$int": "5"}}}), "81 a161 05"),
        (json!({"$object": {}}), "80"),
        (json!({"$str": "YQ=="}), "a1 61"),
        (json!({"$msgpack": "AQ=="}), "01"),
    ] {
        assert_eq!(from_value(&value), Ok(hex(bytes)), "{value}");
    }
}

#[test]
fn misfits_are_named_with_their_place() {
    for (value, path, message) in [
        (
            json!({"$int": "abc"}),
            "",
            r#"$int takes the text of an integer from -9223372036854775808 to 18446744073709551615, not "abc""#,
        ),
        (json!({"a": [1, {"$int": 5}]}), "a[1]", "not 5"),
        (
            json!([{"$int": "18446744073709551616"}]),
            "[0]",
            "$int takes",
        ),
        (json!({"$int": "-9223372036854775809"}), "", "$int takes"),
        (json!({"$int": ""}), "", "$int takes"),
        (json!({"$int": "+5"}), "", "$int takes"),
        (json!({"$int": " 5"}), "", "$int takes"),
        (json!({"$int": "5.0"}), "", "$int takes"),
        (
            json!({"$float": "1.5"}),
            "",
            r#"$float takes "NaN", "Infinity", "-Infinity" or "-0", not "1.5""#,
        ),
        (json!({"$float": 1.5}), "", "not 1.5"),
        (json!({"$bytes": "*"}), "", "$bytes takes base64 text"),
        (
            json!({"$bytes": ["AA=="]}),
            "",
            "$bytes takes base64 text, not another list",
        ),
        (
            json!({"$str": null}),
            "",
            "$str takes base64 text, not null",
        ),
        (
            json!({"$ext": {"type": 200, "data": ""}}),
            "",
            "not another object",
        ),
        (json!({"$ext": {"type": 1}}), "", "$ext takes"),
        (
            json!({"$ext": {"type": 1, "data": "", "more": 1}}),
            "",
            "$ext takes",
        ),
        (
            json!({"x": {"$map": [[1, 2], [3]]}}),
            "x",
            "$map takes a list of [key, value] pairs",
        ),
        (
            json!({"x": {"$map": [[1, 2], [{"$int": true}, 3]]}}),
            "x.$map[1]",
            "not true",
        ),
        (json!({"$map": {}}), "", "$map takes"),
        (
            json!({"a": {"$object": {"b": {"$object": 5}}}}),
            "a.b",
            "$object takes an object, not 5",
        ),
        (
            json!({"$msgpack": "wQ=="}),
            "",
            "$msgpack takes base64 text of one MessagePack value",
        ),
        (json!({"$msgpack": "AQE="}), "", "$msgpack takes"),
        (json!({"$int": "x".repeat(1_000)}), "", "…"),
    ] {
        let fault = from_value(&value).unwrap_err();
        let text = fault.to_string();
        assert!(
            text.contains(message) && text.len() < 200,
            "{value}: {text}"
        );
        let JsonFault::Tag { path: found, .. } = fault else {
            panic!("{value}: {text}");
        };
        assert_eq!(found, path, "{value}");
    }
}

#[test]
fn deep_payloads_stay_readable_json_and_come_back() {
    for levels in [1, 99, 100, 101, 127, 128, DEPTH_MAX] {
        let bytes = arrays(levels);
        let text = to_json(&bytes);
        assert_eq!(text.starts_with('['), levels <= 100, "{levels}");
        // The default reader of serde_json refuses 128 levels, and a message around it has some too.
        let value: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(value, to_value(&bytes));
        assert_eq!(from_value(&value), Ok(bytes));
    }
    // Maps with odd keys take three levels of JSON each.
    for levels in [33, 34, DEPTH_MAX] {
        let mut bytes = [0x81, 0x01].repeat(levels);
        bytes.push(0xc0);
        let text = to_json(&bytes);
        assert_eq!(text.starts_with(r#"{"$map""#), levels <= 33, "{levels}");
        assert_eq!(from_value(&serde_json::from_str(&text).unwrap()), Ok(bytes));
    }
    let text = to_json(&arrays(1_000_000));
    assert!(text.starts_with(r#"{"$msgpack":"#));
    let value: Json = serde_json::from_str(&text).unwrap();
    assert!(from_value(&value).is_err());
}

#[test]
fn json_beyond_the_depth_limit_is_refused() {
    let nested = |levels: usize| (0..levels).fold(Json::Null, |inner, _| Json::Array(vec![inner]));
    assert_eq!(from_value(&nested(DEPTH_MAX)), Ok(arrays(DEPTH_MAX)));
    assert_eq!(from_value(&nested(DEPTH_MAX + 1)), Err(JsonFault::TooDeep));
    let inside = json!([{"$msgpack": to_value(&arrays(DEPTH_MAX))["$msgpack"]}]);
    assert!(matches!(
        from_value(&inside),
        Err(JsonFault::Tag {
            tag: "$msgpack",
            ..
        })
    ));
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_text_that_stops_early_is_the_beginning_of_the_whole(model in model(), max in 0_usize..200) {
        let bytes = encode(&model);
        let whole = to_json(&bytes);
        let part = to_json_within(&bytes, max);
        if whole.len() <= max {
            prop_assert_eq!(part, whole);
        } else {
            prop_assert!(part.len() > max);
            // A map that only a key behind the end makes a list of pairs begins as an object.
            let same = part.as_bytes()[..max] == whole.as_bytes()[..max];
            prop_assert!(same || whole.contains("$map"), "{part} of {whole}");
        }
    }
}

#[test]
fn what_lies_behind_the_end_of_a_text_costs_nothing() {
    let texts: [&[u8]; 4] = [
        &[0xdb, 0, 0x98, 0x96, 0x80],
        &[0xc6, 0, 0x98, 0x96, 0x80],
        &[0xdd, 0, 0x98, 0x96, 0x80],
        &[0xc9, 0, 0x98, 0x96, 0x80, 5],
    ];
    for head in texts {
        let mut bytes = head.to_vec();
        bytes.resize(head.len() + 10_000_000, 0x61);
        let text = to_json_within(&bytes, 100);
        assert!((101..400).contains(&text.len()), "{}", text.len());
        assert!(text.capacity() < 1_000);
    }
}
