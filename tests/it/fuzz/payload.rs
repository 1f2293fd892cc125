//! Target `payload`: bytes as somebody's data, through everything that reads or rewrites them.
//!
//! Views, sizes and edits are compared with what they mean for the value that the decoder of the tests sees; then the
//! bytes travel through the broker as data, result and all else that a client may send, and come back as they were.

use bunqueue_mcp::command::payload::{
    DEPTH_MAX, Reader, Value as Item, check, fits_utf8, fits_utf16, from_value, json_len_utf8,
    json_len_utf16, key_with_prefix, raw_entry, text_entry, to_json, to_value, with_entries,
    without_key,
};
use serde_json::Value;

use super::broker::Scene;
use super::reply::{depth, same};
use crate::tcp::value::{self, Wire};

/// Units of JSON text for a byte of payload, at most.
const UNITS_PER_BYTE_MAX: usize = 13;
/// Largest integer that stays one on its way through JSON; beyond the 32 bits it becomes a float64.
const EXACT_MAX: i128 = 1 << 53;

/// Plays one input.
pub fn run(bytes: &[u8]) {
    let value = value::decode(bytes).ok().map(|decoded| decoded.value);
    let value = value.filter(|value| depth(value) <= DEPTH_MAX);
    assert_eq!(check(bytes, DEPTH_MAX).is_ok(), value.is_some());
    views(bytes, value.as_ref());
    sizes(bytes, value.is_some());
    edits(bytes, value.as_ref());
    if let Some(value) = value {
        journey(bytes, &value);
    }
}

/// Text and value are the same JSON, which stands for the payload.
fn views(bytes: &[u8], value: Option<&Wire>) {
    let shown = to_value(bytes);
    let text: Value = serde_json::from_str(&to_json(bytes)).expect("JSON");
    assert_eq!(text, shown);
    match (from_value(&shown), value) {
        (Ok(back), Some(value)) => {
            let again = to_value(&back);
            assert!(reads_alike(&again, &shown), "{again} was {shown}");
            let back = value::decode(&back).unwrap().value;
            assert!(alike(&back, value), "{back:?} was {value:?}");
        }
        (Err(_), None) => {}
        (back, value) => panic!("{back:?} was {value:?}"),
    }
}

/// Whether two JSON values are the same one, an integer beyond 32 bits and its float64 included.
fn reads_alike(again: &Value, shown: &Value) -> bool {
    match (again, shown) {
        (Value::Number(again), Value::Number(shown)) => {
            let exact = shown
                .as_i64()
                .is_some_and(|int| i128::from(int).abs() < EXACT_MAX);
            again == shown || exact && again.as_f64() == shown.as_f64()
        }
        (Value::Array(again), Value::Array(shown)) => {
            let mut both = again.iter().zip(shown);
            again.len() == shown.len() && both.all(|(again, shown)| reads_alike(again, shown))
        }
        (Value::Object(again), Value::Object(shown)) => {
            let mut both = again.iter().zip(shown);
            again.len() == shown.len()
                && both.all(|(again, shown)| again.0 == shown.0 && reads_alike(again.1, shown.1))
        }
        (again, shown) => again == shown,
    }
}

/// Whether two values are the same one, integers beyond 32 bits and their float64 included.
fn alike(back: &Wire, value: &Wire) -> bool {
    match (back, value) {
        (Wire::Float(back), Wire::Int(value)) => value.abs() < EXACT_MAX && *back == *value as f64,
        (Wire::Array(back), Wire::Array(value)) => {
            back.len() == value.len()
                && back
                    .iter()
                    .zip(value)
                    .all(|(back, value)| alike(back, value))
        }
        (Wire::Map(back), Wire::Map(value)) => {
            back.len() == value.len()
                && back
                    .iter()
                    .zip(value)
                    .all(|(back, value)| alike(&back.0, &value.0) && alike(&back.1, &value.1))
        }
        _ => same(back, value),
    }
}

fn sizes(bytes: &[u8], valid: bool) {
    let (units, length) = (
        json_len_utf16(bytes, usize::MAX),
        json_len_utf8(bytes, usize::MAX),
    );
    assert!(units <= length);
    assert!(json_len_utf16(bytes, units / 2) > units / 2 || units == 0);
    if valid {
        assert!(length <= bytes.len() * UNITS_PER_BYTE_MAX, "{length}");
        assert!(fits_utf16(bytes, units) && fits_utf8(bytes, length));
        assert!(!fits_utf16(bytes, units - 1) && !fits_utf8(bytes, length - 1));
    }
}

type Entries = Vec<(Wire, Wire)>;

/// Each edit of a map against the same edit of its entries.
fn edits(bytes: &[u8], value: Option<&Wire>) {
    let entries = match value {
        Some(Wire::Map(entries)) => Some(entries),
        _ => None,
    };
    let first = entries.and_then(|entries| match &entries.first()?.0 {
        Wire::Str(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    });
    for key in ["name", "__parentId"].into_iter().chain(first) {
        edit(bytes, value, entries, key);
    }
    let prefixed = entries.map(|entries| {
        let texts = entries.iter().filter_map(|(key, _)| text(key));
        texts.into_iter().find(|key| key.starts_with("__"))
    });
    let actual = key_with_prefix(bytes, "__").ok();
    if value.is_some() {
        assert_eq!(actual, prefixed);
    }
}

fn edit(bytes: &[u8], value: Option<&Wire>, entries: Option<&Entries>, key: &str) {
    const ONE: &[u8] = &[1];
    let without = without_key(bytes, key);
    let written = with_entries(
        bytes,
        &[(key, Some(ONE)), ("gone", None), ("new", Some(ONE))],
    );
    let raw = raw_entry(bytes, key).map(|raw| value::decode(raw).unwrap().value);
    let named = text_entry(bytes, key);
    let Some(value) = value else { return };
    let Some(entries) = entries else {
        assert_eq!(without, bytes);
        assert_eq!((&written, &raw, named), (&None, &None, None));
        assert!(!matches!(value, Wire::Map(_)));
        return;
    };
    let is = |entry: &(Wire, Wire), key: &str| entry.0 == Wire::text(key);
    let last = entries.iter().rfind(|entry| is(entry, key));
    let last = last.map(|(_, value)| value);
    assert_eq!(raw.is_some(), last.is_some());
    assert!(raw.iter().zip(last).all(|(raw, last)| same(raw, last)));
    assert_eq!(named, last.and_then(text));

    let mut kept = entries.clone();
    kept.retain(|entry| !is(entry, key));
    let without = value::decode(&without).unwrap().value;
    assert!(same(&without, &Wire::Map(kept)), "{without:?}");

    let mut expected: Entries = Vec::new();
    for entry in entries {
        let new = [key, "new"].into_iter().find(|new| is(entry, new));
        let again = new.is_some_and(|new| expected.iter().any(|entry| is(entry, new)));
        if again || is(entry, "gone") {
            continue;
        }
        let value = new.map_or(entry.1.clone(), |_| Wire::Int(1));
        expected.push((entry.0.clone(), value));
    }
    for new in [key, "new"] {
        if !expected.iter().any(|entry| is(entry, new)) {
            expected.push((Wire::text(new), Wire::Int(1)));
        }
    }
    let written = value::decode(&written.expect("a map")).unwrap().value;
    // Somebody's key may be one of the two others.
    if !["gone", "new"].contains(&key) {
        assert!(same(&written, &Wire::Map(expected)), "{written:?}");
    }
}

fn text(value: &Wire) -> Option<&str> {
    match value {
        Wire::Str(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Levels of a reply under which data may stand.
const SHOWN_AT: usize = 4;

/// Whether a value is this one, byte for byte, or has it within so many levels.
fn holds(value: &[u8], wanted: &[u8], levels: usize) -> bool {
    let mut reader = Reader::new(value);
    let items = match reader.read() {
        Ok(Item::Array(items)) => u64::from(items),
        Ok(Item::Map(entries)) => 2 * u64::from(entries),
        _ => 0,
    };
    let mut has = || {
        (0..items).any(|_| {
            let item = reader.skip().expect("a whole value");
            holds(item, wanted, levels - 1)
        })
    };
    value == wanted || levels > 0 && has()
}

type Fields<'a> = &'a [(&'a str, Wire)];

fn map(fields: Fields<'_>) -> Wire {
    let entries = fields
        .iter()
        .map(|(key, value)| (Wire::text(key), value.clone()));
    Wire::Map(entries.collect())
}

/// A payload on its way through a broker.
struct Journey<'a> {
    scene: Scene,
    bytes: &'a [u8],
    raw: Wire,
    /// It is something, and fits into a frame.
    travels: bool,
}

/// Through the broker and back.
fn journey(bytes: &[u8], value: &Wire) {
    let mut journey = Journey {
        scene: Scene::new(),
        bytes,
        raw: Wire::Raw(bytes.to_vec()),
        // One level is the command's, and `undefined` is nothing.
        travels: depth(value) < DEPTH_MAX && !matches!(value, Wire::Ext(0, _)),
    };
    journey.as_data_and_result(value);
    journey.in_a_flow(value);
    journey.as_anything_else();
    journey.scene.check();
}

impl Journey<'_> {
    /// Whether a command succeeds, and the reply.
    fn ask(&mut self, command: &str, fields: Fields<'_>) -> (bool, Vec<u8>) {
        let fields = [&[("cmd", Wire::text(command))], fields].concat();
        let reply = self.scene.hear(0, &map(&fields).encode());
        let reply = reply.expect("a reply at once");
        let said = value::decode(&reply).unwrap().value;
        (said.get("ok") == Some(&Wire::Bool(true)), reply)
    }

    /// The first job of a queue.
    fn pull(&mut self, queue: &str) -> Vec<u8> {
        self.ask("PULL", &[("queue", Wire::text(queue))]).1
    }

    fn as_data_and_result(&mut self, value: &Wire) {
        let (raw, id) = (self.raw.clone(), [("id", Wire::text("j"))]);
        let queue = |name: &str| ("queue", Wire::text(name));
        let named = [("name", Wire::text("n")), ("jobId", Wire::text("j"))];
        let job = [&[queue("q"), ("data", raw.clone())], &named[..]].concat();
        let (added, _) = self.ask("PUSH", &job);
        assert_eq!(added, depth(value) < DEPTH_MAX);
        let pulled = self.pull("q");
        assert!(
            !self.travels || holds(&pulled, self.bytes, SHOWN_AT),
            "data"
        );
        let progress = [("progress", raw.clone()), ("message", raw.clone())];
        self.ask("Progress", &[&id[..], &progress].concat());
        let line = [("message", raw.clone()), ("level", raw.clone())];
        self.ask("AddLog", &[&id[..], &line].concat());
        let result = [("result", raw.clone())];
        self.ask("ACK", &[&id[..], &result].concat());
        let (_, result) = self.ask("GetResult", &id);
        let is_result = self.travels && *value != Wire::Nil;
        assert!(!is_result || holds(&result, self.bytes, SHOWN_AT), "result");
        self.ask("GetLogs", &id);

        // Older clients send the name inside the data.
        let (added, _) = self.ask("PUSH", &[queue("legacy"), ("data", raw)]);
        let pulled = self.pull("legacy");
        let named = text_entry(self.bytes, "name").map(|_| without_key(self.bytes, "name"));
        let rest = named.as_deref().unwrap_or(self.bytes);
        assert!(
            !added || !self.travels || holds(&pulled, rest, SHOWN_AT),
            "data without a name"
        );
    }

    fn in_a_flow(&mut self, value: &Wire) {
        let (raw, to) = (self.raw.clone(), Wire::text);
        let children = Wire::Array(vec![to("c")]);
        let job = |id: &str, ties: Fields<'_>| {
            let input = [&[("name", to(id)), ("data", raw.clone())], ties].concat();
            map(&[
                ("id", to(id)),
                ("queue", to("flow")),
                ("input", map(&input)),
            ])
        };
        let child = job("c", &[("parentId", to("p"))]);
        let parent = job(
            "p",
            &[("dependsOn", children.clone()), ("childrenIds", children)],
        );
        self.ask("PUSHF", &[("jobs", Wire::Array(vec![child, parent]))]);
        self.pull("flow");
        let (acked, _) = self.ask("ACK", &[("id", to("c")), ("result", raw.clone())]);
        let (_, values) = self.ask("GetChildrenValues", &[("id", to("p"))]);
        let is_value = acked && self.travels && *value != Wire::Nil;
        assert!(!is_value || holds(&values, self.bytes, SHOWN_AT), "values");
        self.pull("flow");
        self.ask("Update", &[("id", to("p")), ("data", raw.clone())]);
        let failure = [("error", raw.clone()), ("stack", raw.clone())];
        self.ask("FAIL", &[&[("id", to("p"))], &failure[..]].concat());
        self.ask("GetJob", &[("id", to("p"))]);
    }

    /// In places for which it was hardly made.
    fn as_anything_else(&mut self) {
        let (raw, to) = (self.raw.clone(), Wire::text);
        for field in [
            "tags",
            "backoff",
            "repeat",
            "dependsOn",
            "childrenIds",
            "delay",
            "uniqueKey",
            "dedup",
            "groupId",
        ] {
            let job = [
                ("queue", to(field)),
                ("name", to("n")),
                (field, raw.clone()),
            ];
            self.ask("PUSH", &job);
            self.pull(field);
        }
        self.ask("PUSHB", &[("queue", to("batch")), ("jobs", raw.clone())]);
        self.ask("PUSHF", &[("jobs", raw.clone())]);
        let cron = [
            ("name", to("c")),
            ("queue", to("q")),
            ("repeatEvery", Wire::Int(1_000)),
        ];
        let job = [("data", raw.clone()), ("jobOptions", raw.clone())];
        self.ask("Cron", &[&cron[..], &job[..]].concat());
        self.ask(
            "RegisterWorker",
            &[("name", to("w")), ("queues", raw.clone())],
        );
        self.ask("SetDlqConfig", &[("queue", to("q")), ("config", raw)]);
        self.ask("GetJobs", &[("queue", to("batch"))]);
    }
}
