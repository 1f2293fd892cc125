//! The measured length against a reference that writes the text.

use proptest::prelude::*;

use super::super::{fits_utf8, fits_utf16, json_len_utf8, json_len_utf16, to_json};
use super::{Model, arrays, cases, encode, hex, model, widened};

/// A finite float as JavaScript writes it, by the steps of ECMAScript's Number::toString.
fn js_number(float: f64) -> String {
    if float < 0.0 {
        return format!("-{}", js_number(-float));
    }
    if float == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap();
    let digits = mantissa.replace('.', "");
    let count = i32::try_from(digits.len()).unwrap();
    let point = exponent.parse::<i32>().unwrap() + 1;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap());
    if count <= point && point <= 21 {
        format!("{digits}{}", zeros(point - count))
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap());
        format!("{whole}.{fraction}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let sign = if point > 0 { '+' } else { '-' };
        format!("{mantissa}e{sign}{}", (point - 1).abs())
    }
}

fn absent(model: &Model) -> bool {
    matches!(model, Model::Ext(0, _))
}

/// What `JSON.stringify` writes, tagged forms where it has none.
fn stringified(model: &Model) -> String {
    match model {
        Model::F64(float) if float.is_finite() && float.to_bits() != 1 << 63 => js_number(*float),
        Model::Array(items) => {
            let items: Vec<String> = items.iter().map(item).collect();
            format!("[{}]", items.join(","))
        }
        Model::Map(entries) => {
            let mut keys: Vec<&str> = entries.iter().filter_map(|(key, _)| key.as_str()).collect();
            keys.sort_unstable();
            keys.dedup();
            let object = keys.len() == entries.len();
            let entries: Vec<String> = entries
                .iter()
                .filter(|(key, value)| !(key.as_str().is_some() && absent(value)))
                .map(|(key, value)| match object {
                    true => format!("{}:{}", stringified(key), stringified(value)),
                    false => format!("[{},{}]", stringified(key), stringified(value)),
                })
                .collect();
            match object {
                true => format!("{{{}}}", entries.join(",")),
                false => format!(r#"{{"$map":[{}]}}"#, entries.join(",")),
            }
        }
        scalar => to_json(&encode(scalar)),
    }
}

fn item(model: &Model) -> String {
    if absent(model) {
        "null".to_owned()
    } else {
        stringified(model)
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn measured_is_written(model in model()) {
        let bytes = encode(&model);
        let text = item(&widened(model));
        let (utf8, utf16) = (text.len(), text.encode_utf16().count());
        prop_assert_eq!(json_len_utf8(&bytes, usize::MAX), utf8, "{}", text);
        prop_assert_eq!(json_len_utf16(&bytes, usize::MAX), utf16, "{}", text);
        prop_assert!(utf8 <= 13 * bytes.len());
        for limit in [0, utf16 / 2, utf16.saturating_sub(1), utf16, utf16 + 1] {
            let stopped = json_len_utf16(&bytes, limit);
            if utf16 <= limit {
                prop_assert_eq!(stopped, utf16);
            } else {
                prop_assert!(limit < stopped && stopped <= utf16);
            }
            prop_assert_eq!(fits_utf16(&bytes, limit), utf16 <= limit);
            prop_assert_eq!(fits_utf8(&bytes, limit), utf8 <= limit);
        }
    }

    #[test]
    fn floats_are_measured_as_javascript_writes_them(bits in any::<u64>(), whole in any::<i64>(), shift in 0..64, scale in -9..23) {
        let whole = (whole >> shift) as f64;
        for float in [f64::from_bits(bits), whole, whole * 10f64.powi(scale)] {
            if float.is_finite() && float.to_bits() != 1 << 63 {
                let bytes = encode(&Model::F64(float));
                prop_assert_eq!(json_len_utf8(&bytes, usize::MAX), js_number(float).len(), "{}", float);
            }
        }
    }
}

/// Texts that a JavaScript engine printed.
#[test]
fn known_floats() {
    for (float, text) in [
        (5.0, "5"),
        (0.0, "0"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (123_456_789_012_345_680_000.0, "123456789012345680000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (5e-324, "5e-324"),
        (-1.797_693_134_862_315_7e308, "-1.7976931348623157e+308"),
    ] {
        assert_eq!(js_number(float), text);
        assert_eq!(
            json_len_utf16(&encode(&Model::F64(float)), usize::MAX),
            text.len(),
            "{text}"
        );
    }
}

#[test]
fn the_bound_holds_for_the_dearest_values() {
    for item in [
        "d4 80 ff",
        "d5 80 ffff",
        "c7 00 80",
        "c4 00",
        "c4 01 ff",
        "a1 ff",
        "a2 c3 28",
        "c2",
        "a1 01",
        "ca ff800000",
        "ca 00000001",
        "d3 8000000000000000",
        "81 c2 c2",
        "81 d480ff d480ff",
        "81 c0 c0",
        "82 a0 c2 a0 c2",
        "81 81 c0 c0 c2",
        "80",
        "90",
        "f8",
        "d0 80",
    ] {
        let item = hex(item);
        for count in [1, 15, 400] {
            let mut bytes = hex("dc");
            bytes.extend(u16::try_from(count).unwrap().to_be_bytes());
            bytes.extend(item.repeat(count));
            let len = json_len_utf8(&bytes, usize::MAX);
            assert!(len <= 13 * bytes.len(), "{item:02x?} x {count}: {len}");
            assert!(fits_utf8(&bytes, len) && !fits_utf8(&bytes, len - 1));
        }
    }
}

#[test]
fn the_limit_is_exact_for_large_text() {
    const LIMIT: usize = 10 * 1024 * 1024;
    let at_limit = encode(&Model::from("x".repeat(LIMIT - 2)));
    assert!(fits_utf16(&at_limit, LIMIT) && !fits_utf16(&at_limit, LIMIT - 1));
    // Two code units and four bytes each.
    let emoji = encode(&Model::from("😀".repeat(1_000)));
    assert_eq!(json_len_utf16(&emoji, usize::MAX), 2_002);
    assert_eq!(json_len_utf8(&emoji, usize::MAX), 4_002);
}

#[test]
fn undefined_counts_as_javascript_counts_it() {
    for (bytes, len) in [
        ("82 a161 d40000 a162 01", r#"{"b":1}"#.len()),
        ("81 a161 d40000", "{}".len()),
        ("92 d40000 01", "[null,1]".len()),
        // No wrapping, as no client would add it.
        ("81 a424696e74 01", r#"{"$int":1}"#.len()),
    ] {
        assert_eq!(json_len_utf16(&hex(bytes), usize::MAX), len, "{bytes}");
    }
}

#[test]
fn hostile_bytes_are_measured_too() {
    assert_eq!(json_len_utf8(&arrays(100_000), usize::MAX), 200_004);
    assert_eq!(
        json_len_utf8(&hex("dd ffffffff"), usize::MAX),
        to_json(&hex("dd ffffffff")).len()
    );
    assert_eq!(json_len_utf8(&[], usize::MAX), to_json(&[]).len());
}

#[test]
fn measuring_stops_once_the_answer_is_known() {
    // One header alone says enough, and what is broken behind the stop is not reached.
    let mut bytes = hex("92 dc 03e8");
    bytes.extend([0xc0; 1_000]);
    bytes.push(0xc1);
    let header = "[,]".len() + "[]".len() + 999;
    assert_eq!(json_len_utf16(&bytes, 2), "[,]".len());
    assert_eq!(json_len_utf16(&bytes, 100), header);
    assert_eq!(
        json_len_utf16(&bytes, header + 5),
        header + 2 * "null".len()
    );
    assert!(!fits_utf16(&bytes, 1_000));
}
