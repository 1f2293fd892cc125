//! Reading, skipping, checking, writing, editing.

use proptest::prelude::*;

use super::super::{
    DEPTH_MAX, Fault, Reader, Value, Writer, check, text_entry, to_json, without_key,
};
use super::{Model, arrays, cases, decode, encode, hex, model, scalar_model, widened};

fn read_model(reader: &mut Reader<'_>) -> Model {
    match reader.read().unwrap() {
        Value::Array(len) => Model::Array((0..len).map(|_| read_model(reader)).collect()),
        Value::Map(len) => Model::Map(
            (0..len)
                .map(|_| (read_model(reader), read_model(reader)))
                .collect(),
        ),
        scalar => scalar_model(scalar).unwrap(),
    }
}

fn depth(model: &Model) -> usize {
    match model {
        Model::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Model::Map(entries) => {
            let inner = entries.iter().flat_map(|(key, value)| [key, value]);
            1 + inner.map(depth).max().unwrap_or(0)
        }
        _ => 0,
    }
}

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Writer::new(&mut out));
    out
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn reads_what_rmpv_wrote(model in model()) {
        let bytes = encode(&model);
        let mut reader = Reader::new(&bytes);
        let read = read_model(&mut reader);
        prop_assert_eq!(reader.position(), bytes.len());
        prop_assert_eq!(reader.finish(), Ok(()));
        prop_assert_eq!(encode(&widened(read)), encode(&widened(model)));
    }

    #[test]
    fn skips_one_value_and_no_more(model in model(), after in prop::collection::vec(any::<u8>(), 0..4)) {
        let value = encode(&model);
        let bytes = [&value[..], &after].concat();
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.skip(), Ok(&value[..]));
        prop_assert_eq!(reader.rest(), &after[..]);
        let whole = check(&bytes, DEPTH_MAX);
        prop_assert_eq!(whole, if after.is_empty() { Ok(()) } else { Err(Fault::Trailing) });
    }

    #[test]
    fn every_cut_is_refused(model in model()) {
        let bytes = encode(&model);
        for end in 0..bytes.len() {
            prop_assert_eq!(check(&bytes[..end], DEPTH_MAX), Err(Fault::Truncated));
            prop_assert_eq!(Reader::new(&bytes[..end]).skip(), Err(Fault::Truncated));
        }
    }

    #[test]
    fn depth_is_counted_exactly(model in model()) {
        let bytes = encode(&model);
        let depth = depth(&model);
        prop_assert_eq!(check(&bytes, depth), Ok(()));
        if depth > 0 {
            prop_assert_eq!(check(&bytes, depth - 1), Err(Fault::TooDeep(depth - 1)));
        }
    }

    /// rmpv takes the reserved byte for nil, so it is left out here.
    #[test]
    fn random_bytes_are_judged_as_rmpv_does(bytes in prop::collection::vec(
        prop_oneof![0x80u8..=0xa3, 0xc4u8..=0xdf, 0u8..3, any::<u8>()], 0..12,
    ).prop_filter("reserved", |bytes| !bytes.contains(&0xc1))) {
        let mut rest = &bytes[..];
        let accepted = rmpv::decode::read_value(&mut rest).is_ok();
        let skipped = Reader::new(&bytes).skip();
        prop_assert_eq!(skipped.is_ok(), accepted);
        if accepted {
            prop_assert_eq!(skipped.unwrap().len(), bytes.len() - rest.len());
        }
        prop_assert_eq!(check(&bytes, 100).is_ok(), accepted && rest.is_empty());
    }

    #[test]
    fn writes_as_rmp_does(integer in any::<i64>(), shift in 0..64, unsigned in any::<u64>(), len in 0usize..70_000) {
        let integer = integer >> shift;
        let unsigned = unsigned >> shift;
        prop_assert_eq!(written(|out| out.exact(integer)), encode(&Model::from(integer)));
        prop_assert_eq!(written(|out| out.exact_unsigned(unsigned)), encode(&Model::from(unsigned)));
        let len = len >> shift;
        let text = "x".repeat(len);
        prop_assert_eq!(written(|out| out.text(&text)), encode(&Model::from(&text[..])));
        prop_assert_eq!(written(|out| out.bytes(text.as_bytes())), encode(&Model::from(text.as_bytes())));
        let ext = Model::Ext(-7, text.clone().into_bytes());
        prop_assert_eq!(written(|out| out.ext(-7, text.as_bytes())), encode(&ext));
        let mut header = Vec::new();
        rmp::encode::write_array_len(&mut header, u32::try_from(len).unwrap()).unwrap();
        prop_assert_eq!(written(|out| out.array(len)), header);
        let mut header = Vec::new();
        rmp::encode::write_map_len(&mut header, u32::try_from(len).unwrap()).unwrap();
        prop_assert_eq!(written(|out| out.map(len)), header);
    }
}

#[test]
fn every_first_byte_is_known() {
    for first in 0..=u8::MAX {
        for fill in [0x00, 0x01, 0xff] {
            let mut bytes = vec![first];
            bytes.extend([fill; 40]);
            let skipped = Reader::new(&bytes).skip();
            let read = Reader::new(&bytes).read();
            if first == 0xc1 {
                assert_eq!(skipped, Err(Fault::Reserved));
                assert_eq!(read, Err(Fault::Reserved));
            } else {
                let mut rest = &bytes[..];
                let model = rmpv::decode::read_value(&mut rest);
                assert_eq!(skipped.is_ok(), model.is_ok(), "{first:02x} {fill:02x}");
                if let Ok(raw) = skipped {
                    assert_eq!(
                        raw.len(),
                        bytes.len() - rest.len(),
                        "{first:02x} {fill:02x}"
                    );
                }
            }
        }
        assert!(check(&[], 10).is_err());
        assert_eq!(
            check(&[first], 10).is_ok(),
            rmpv::decode::read_value(&mut &[first][..]).is_ok() && first != 0xc1
        );
    }
}

#[test]
fn lying_lengths_are_refused() {
    for head in [
        "dd ffffffff",
        "df ffffffff",
        "db ffffffff",
        "c6 ffffffff",
        "c9 ffffffff",
        "dc ffff",
        "de ffff",
        "da ffff",
        "c5 ffff",
        "c8 ffff",
        "d9 ff",
        "c4 ff",
        "c7 ff",
        "9f",
        "8f",
        "bf",
        // One level down, where the outer length is honest.
        "91 dd ffffffff",
        "81 a0 df ffffffff",
        "92 dd 7fffffff dd ffffffff",
    ] {
        let mut bytes = hex(head);
        bytes.extend([0xc0; 5]);
        assert_eq!(check(&bytes, DEPTH_MAX), Err(Fault::Truncated), "{head}");
        assert_eq!(Reader::new(&bytes).skip(), Err(Fault::Truncated), "{head}");
        let mut reader = Reader::new(&bytes);
        assert!(
            (0..4).any(|_| reader.read() == Err(Fault::Truncated)),
            "{head}"
        );
        assert!(to_json(&bytes).starts_with(r#"{"$msgpack":"#), "{head}");
    }
}

#[test]
fn a_header_is_read_only_if_its_items_can_follow() {
    for (bytes, expected) in [
        ("82 c0c0c0c0", Ok(Value::Map(2))),
        ("82 c0c0c0", Err(Fault::Truncated)),
        ("93 c0c0c0", Ok(Value::Array(3))),
        ("93 c0c0", Err(Fault::Truncated)),
    ] {
        assert_eq!(Reader::new(&hex(bytes)).read(), expected, "{bytes}");
    }
}

#[test]
fn depth_at_the_limit_and_beyond() {
    assert_eq!(check(&arrays(DEPTH_MAX - 1), DEPTH_MAX), Ok(()));
    assert_eq!(check(&arrays(DEPTH_MAX), DEPTH_MAX), Ok(()));
    let too_deep = Err(Fault::TooDeep(DEPTH_MAX));
    assert_eq!(check(&arrays(DEPTH_MAX + 1), DEPTH_MAX), too_deep);
    assert_eq!(check(&arrays(1_000_000), DEPTH_MAX), too_deep);
    assert_eq!(
        Reader::new(&arrays(1_000_000)).skip().map(<[u8]>::len),
        Ok(1_000_001)
    );

    let unfinished = vec![0x91; 1_000_000];
    assert_eq!(check(&unfinished, DEPTH_MAX), Err(Fault::Truncated));
    assert_eq!(Reader::new(&unfinished).skip(), Err(Fault::Truncated));

    // An empty container is a level too.
    let mut empty = vec![0x91; DEPTH_MAX - 1];
    empty.push(0x80);
    assert_eq!(check(&empty, DEPTH_MAX), Ok(()));
    empty.insert(0, 0x91);
    assert_eq!(check(&empty, DEPTH_MAX), too_deep);
}

#[test]
fn many_containers_are_not_many_levels() {
    // 5,000 closed containers before and after one chain of the depth allowed.
    let mut bytes = hex("93 dc 1388");
    bytes.extend([0x80; 5_000]);
    bytes.extend(vec![0x91; DEPTH_MAX - 1]);
    bytes.push(0xc0);
    bytes.extend(hex("dc 1388"));
    bytes.extend([0x90; 5_000]);
    assert_eq!(check(&bytes, DEPTH_MAX), Ok(()));
    assert_eq!(
        check(&bytes, DEPTH_MAX - 1),
        Err(Fault::TooDeep(DEPTH_MAX - 1))
    );
}

#[test]
fn numbers_are_read_by_value() {
    for (bytes, number, integer) in [
        ("05", Some(5.0), Some(5)),
        ("cb 4014000000000000", Some(5.0), Some(5)),
        ("ca 40a00000", Some(5.0), Some(5)),
        ("cf 0000000000000005", Some(5.0), Some(5)),
        ("d3 fffffffffffffffb", Some(-5.0), Some(-5)),
        ("cb 3fe0000000000000", Some(0.5), None),
        (
            "cf 0020000000000000",
            Some(9_007_199_254_740_992.0),
            Some(1 << 53),
        ),
        ("cf 0020000000000001", None, None),
        ("cf ffffffffffffffff", None, None),
        ("d3 8000000000000000", None, None),
        (
            "cb 43e0000000000000",
            Some(9_223_372_036_854_775_808.0),
            None,
        ),
        ("cb 7ff0000000000000", Some(f64::INFINITY), None),
        ("a1 35", None, None),
        ("c0", None, None),
    ] {
        let value = Reader::new(&hex(bytes))
            .read()
            .map(|value| (value.as_f64(), value.as_integer()));
        assert_eq!(value, Ok((number, integer)), "{bytes}");
    }
    let negative_zero = hex("cb 8000000000000000");
    let zero = Reader::new(&negative_zero)
        .read()
        .unwrap()
        .as_f64()
        .unwrap();
    assert!(zero.is_sign_positive());
    let not_a_number = hex("cb 7ff8000000000000");
    let value = Reader::new(&not_a_number).read().unwrap();
    assert!(value.as_f64().unwrap().is_nan());
    assert_eq!(value.as_integer(), None);
}

#[test]
fn undefined_is_absent() {
    for bytes in ["d4 00 00", "c7 01 00 00", "c7 00 00"] {
        assert!(
            Reader::new(&hex(bytes)).read().unwrap().is_absent(),
            "{bytes}"
        );
    }
    for bytes in ["c0", "d4 01 00", "d4 ff 00", "c4 00", "00"] {
        assert!(
            !Reader::new(&hex(bytes)).read().unwrap().is_absent(),
            "{bytes}"
        );
    }
}

#[test]
fn text_must_be_utf8() {
    assert_eq!(Reader::new(&hex("a2 c3a9")).read_text(), Ok("é"));
    for bytes in ["a2 c328", "a1 ff", "c4 01 61", "01", "c0", "d4 00 00"] {
        assert_eq!(
            Reader::new(&hex(bytes)).read_text(),
            Err(Fault::NotText),
            "{bytes}"
        );
    }
    assert_eq!(
        Reader::new(&hex("a2 61")).read_text(),
        Err(Fault::Truncated)
    );
}

#[test]
fn own_numbers_never_take_64_bit_integers() {
    for (number, bytes) in [
        (0.0, "00"),
        (-0.0, "00"),
        (127.0, "7f"),
        (-32.0, "e0"),
        (-33.0, "d0 df"),
        (0.5, "cb 3fe0000000000000"),
        (4_294_967_295.0, "ce ffffffff"),
        (4_294_967_296.0, "cb 41f0000000000000"),
        (-2_147_483_648.0, "d2 80000000"),
        (-2_147_483_649.0, "cb c1e0000000200000"),
        (1_700_000_000_000.0, "cb 4278bcfe56800000"),
        (f64::INFINITY, "cb 7ff0000000000000"),
    ] {
        assert_eq!(written(|out| out.number(number)), hex(bytes), "{number}");
        if number.is_finite() && number.fract() == 0.0 {
            assert_eq!(
                written(|out| out.integer(number as i64)),
                hex(bytes),
                "{number}"
            );
        }
    }
}

#[test]
fn scalars_and_raw_values_append() {
    let bytes = written(|out| {
        out.map(2);
        out.text("ok");
        out.bool(true);
        out.text("data");
        out.array(3);
        out.nil();
        out.bool(false);
        out.raw(&hex("cf 0000000000000001"));
    });
    assert_eq!(
        bytes,
        hex("82 a26f6b c3 a464617461 93 c0 c2 cf0000000000000001")
    );
}

#[test]
fn the_last_text_under_a_key_counts() {
    for (bytes, expected) in [
        ("81 a46e616d65 a161", Some("a")),
        ("82 a46e616d65 a161 a46e616d65 a162", Some("b")),
        ("82 a46e616d65 a161 a46e616d65 01", None),
        ("81 d9046e616d65 d90161", Some("a")),
        ("81 a46e616d65 a1ff", None),
        ("81 a46e616d65 c0", None),
        ("81 c4046e616d65 a161", None),
        ("81 a161 81 a46e616d65 a162", None),
        ("80", None),
        ("92 a46e616d65 a161", None),
        ("81 a46e616d65", None),
        ("81 a46e616d65 a161 c0", None),
        ("df ffffffff", None),
        ("", None),
    ] {
        assert_eq!(text_entry(&hex(bytes), "name"), expected, "{bytes}");
    }
}

#[test]
fn a_key_leaves_and_all_else_stays() {
    for (bytes, expected) in [
        ("81 a46e616d65 a161", "80"),
        // Wide encodings, an odd key, undefined and 64-bit integers keep their bytes.
        (
            "84 a178 cf0000000000000001 a46e616d65 a161 01 d40000 d90179 ca3f800000",
            "83 a178 cf0000000000000001 01 d40000 d90179 ca3f800000",
        ),
        ("83 a46e616d65 01 a178 02 d9046e616d65 c0", "81 a178 02"),
        (
            "82 a178 81 a46e616d65 01 a179 02",
            "82 a178 81 a46e616d65 01 a179 02",
        ),
        ("de 0001 a46e616d65 a161", "80"),
        ("93 01 02 03", "93 01 02 03"),
        ("81 a178", "81 a178"),
        ("", ""),
    ] {
        assert_eq!(without_key(&hex(bytes), "name"), hex(expected), "{bytes}");
    }
    let many = Model::Map(
        (0..16)
            .map(|key| (Model::from(key.to_string()), Model::Nil))
            .collect(),
    );
    let fewer = without_key(&encode(&many), "7");
    assert_eq!(fewer[0], 0x8f);
    assert_eq!(decode(&fewer).as_map().map(Vec::len), Some(15));
}
