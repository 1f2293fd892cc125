//! MessagePack to JSON: as text for what is shown as it is, as a value for what is built into an answer.
//!
//! Both forms come from one walk and are the same JSON. Order and values are kept; what JSON lacks gets
//! a tagged form that [`super::from_value`] turns back. Two passes: the first finds out which form each
//! map takes, since a map's last key can make it a list of pairs; so the whole costs time and memory in
//! proportion to the payload however its maps are nested.

use base64::Engine;
use serde_json::{Map, Number, Value as Json};

use super::keys::Keys;
use super::tag::{BASE64, JSON_DEPTH_MAX, PLAIN_INTEGER_MAX, Tag, float_name};
use super::walk::{Event, Role, Walk};
use super::{Fault, Value};

/// The value as JSON text, compact. Bytes that no reader of the text could take apart, nested deeper
/// than 100 levels or not exactly one MessagePack value, are shown as one `$msgpack`.
pub fn to_json(bytes: &[u8]) -> String {
    to_json_within(bytes, usize::MAX)
}

/// [`to_json`] that stops once its text is longer than `max` bytes: then only the beginning is returned, a little more
/// than was allowed. Time and memory follow from `max` and not from what lies behind it, so a map that only a key behind it
/// makes a list of pairs begins as an object.
pub fn to_json_within(bytes: &[u8], max: usize) -> String {
    let text = || Text {
        max,
        ..Text::default()
    };
    show(bytes, max, text).out
}

/// The same JSON as [`to_json`], as a value.
pub fn to_value(bytes: &[u8]) -> Json {
    show(bytes, usize::MAX, Tree::default).root
}

fn show<S: Sink>(bytes: &[u8], max: usize, empty: impl Fn() -> S) -> S {
    let mut sink = empty();
    if emit(bytes, max, &mut sink).is_err() {
        sink = empty();
        emit_tagged_bytes(Tag::Msgpack, bytes, &mut sink);
    }
    sink
}

/// How a map is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Object,
    /// An object inside `$object`, as it would read as a tagged form.
    Wrapped,
    /// A `$map` of pairs.
    Pairs,
}

/// More bytes of MessagePack than one character of JSON ever stands for: a `1` sent with 64 bits takes nine for itself
/// and its comma.
const BYTES_PER_CHARACTER: usize = 8;

/// The form of every map, in the order in which the maps begin; of those that begin where the text is long enough
/// already, none.
fn forms(bytes: &[u8], max: usize) -> Result<Vec<Form>, Fault> {
    let enough = max.saturating_add(1).saturating_mul(BYTES_PER_CHARACTER);
    let mut forms = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut keys = Keys::default();
    let mut walk = Walk::new(bytes);
    while walk.position() <= enough
        && let Some(event) = walk.next_event()?
    {
        match event {
            Event::Value(role, value) => {
                if let Role::Key { .. } = role {
                    keys.note(&value);
                    // Still marked as wrapped: a map with one entry, by its header.
                    if let Some(form) = open.last().and_then(|&map| forms.get_mut(map))
                        && *form == Form::Wrapped
                        && value.as_text().and_then(Tag::of_key).is_none()
                    {
                        *form = Form::Object;
                    }
                }
                if let Value::Map(len) = value {
                    open.push(forms.len());
                    forms.push(if len == 1 {
                        Form::Wrapped
                    } else {
                        Form::Object
                    });
                    keys.begin();
                }
            }
            Event::End { map: true } => close(&mut forms, &mut open, &mut keys),
            Event::End { map: false } => {}
        }
    }
    while !open.is_empty() {
        close(&mut forms, &mut open, &mut keys);
    }
    Ok(forms)
}

/// The innermost open map ends, or no more of it is looked at.
fn close(forms: &mut [Form], open: &mut Vec<usize>, keys: &mut Keys<'_>) {
    let object = keys.end();
    if let Some(form) = open.pop().and_then(|map| forms.get_mut(map))
        && !object
    {
        *form = Form::Pairs;
    }
}

/// Where JSON goes, piece by piece.
trait Sink {
    fn null(&mut self);
    fn bool(&mut self, value: bool);
    fn integer(&mut self, integer: i64);
    /// Finite only.
    fn float(&mut self, float: f64);
    fn text(&mut self, text: &str);
    fn begin_array(&mut self);
    fn end_array(&mut self);
    fn begin_object(&mut self);
    fn key(&mut self, key: &str);
    fn end_object(&mut self);
    /// Arrays and objects that are open.
    fn depth(&self) -> usize;
    /// Bytes of text that are still of use.
    fn room(&self) -> usize {
        usize::MAX
    }
}

fn emit(bytes: &[u8], max: usize, sink: &mut impl Sink) -> Result<(), Fault> {
    let mut forms = forms(bytes, max)?.into_iter();
    let mut open: Vec<Form> = Vec::new();
    let mut walk = Walk::new(bytes);
    while let Some(event) = walk.next_event()? {
        match event {
            Event::Value(Role::Key { first }, value) => match (open.last(), value.as_text()) {
                (Some(Form::Object | Form::Wrapped), Some(key)) => sink.key(key),
                _ => {
                    if !first {
                        sink.end_array();
                    }
                    sink.begin_array();
                    emit_value(value, &mut forms, &mut open, sink);
                }
            },
            Event::Value(_, value) => emit_value(value, &mut forms, &mut open, sink),
            Event::End { map: false } => sink.end_array(),
            Event::End { map: true } => match open.pop() {
                Some(Form::Pairs) => {
                    sink.end_array();
                    sink.end_array();
                    sink.end_object();
                }
                Some(Form::Wrapped) => {
                    sink.end_object();
                    sink.end_object();
                }
                Some(Form::Object) | None => sink.end_object(),
            },
        }
        if sink.depth() > JSON_DEPTH_MAX {
            return Err(Fault::TooDeep(JSON_DEPTH_MAX));
        }
        if sink.room() == 0 {
            break;
        }
    }
    Ok(())
}

fn emit_value(
    value: Value<'_>,
    forms: &mut impl Iterator<Item = Form>,
    open: &mut Vec<Form>,
    sink: &mut impl Sink,
) {
    match value {
        Value::Nil => sink.null(),
        Value::Bool(value) => sink.bool(value),
        Value::Int(integer) if integer.unsigned_abs() <= PLAIN_INTEGER_MAX => sink.integer(integer),
        Value::Int(integer) => emit_tagged_text(Tag::Int, &integer.to_string(), sink),
        Value::UInt(integer) => emit_tagged_text(Tag::Int, &integer.to_string(), sink),
        Value::Float(float) => match float_name(float) {
            Some(name) => emit_tagged_text(Tag::Float, name, sink),
            None => sink.float(float),
        },
        Value::Str(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => sink.text(text),
            Err(_) => emit_tagged_bytes(Tag::Str, bytes, sink),
        },
        Value::Bin(bytes) => emit_tagged_bytes(Tag::Bytes, bytes, sink),
        Value::Ext(kind, bytes) => {
            sink.begin_object();
            sink.key(Tag::Ext.key());
            sink.begin_object();
            sink.key("type");
            sink.integer(i64::from(kind));
            sink.key("data");
            sink.text(&base64(bytes, sink.room()));
            sink.end_object();
            sink.end_object();
        }
        Value::Array(_) => sink.begin_array(),
        Value::Map(_) => {
            let form = forms.next().unwrap_or(Form::Object);
            sink.begin_object();
            match form {
                Form::Object => {}
                Form::Wrapped => {
                    sink.key(Tag::Object.key());
                    sink.begin_object();
                }
                Form::Pairs => {
                    sink.key(Tag::Map.key());
                    sink.begin_array();
                }
            }
            open.push(form);
        }
    }
}

fn emit_tagged_text(tag: Tag, text: &str, sink: &mut impl Sink) {
    sink.begin_object();
    sink.key(tag.key());
    sink.text(text);
    sink.end_object();
}

fn emit_tagged_bytes(tag: Tag, bytes: &[u8], sink: &mut impl Sink) {
    emit_tagged_text(tag, &base64(bytes, sink.room()), sink);
}

/// Of bytes whose text would not be of use any more, none that are behind the room.
fn base64(bytes: &[u8], room: usize) -> String {
    BASE64.encode(bytes.get(..room).unwrap_or(bytes))
}

/// JSON text. Needs no stack: the last byte says whether a comma is due.
#[derive(Default)]
struct Text {
    out: String,
    depth: usize,
    /// Bytes above which nobody wants more.
    max: usize,
}

impl Text {
    fn separate(&mut self) {
        if !matches!(
            self.out.as_bytes().last(),
            None | Some(b'[' | b'{' | b':' | b',')
        ) {
            self.out.push(',');
        }
    }

    fn quoted(&mut self, text: &str) {
        let end = text.ceil_char_boundary(self.room().min(text.len()));
        let text = text.get(..end).unwrap_or(text);
        self.out.push('"');
        let mut plain_from = 0;
        for (at, byte) in text.bytes().enumerate() {
            let escape = match byte {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                b'\n' => "\\n",
                b'\r' => "\\r",
                b'\t' => "\\t",
                0x08 => "\\b",
                0x0c => "\\f",
                0x00..=0x1f => "\\u00",
                _ => continue,
            };
            self.out.push_str(text.get(plain_from..at).unwrap_or(""));
            self.out.push_str(escape);
            if escape == "\\u00" {
                for digit in [byte >> 4, byte & 0x0f] {
                    self.out
                        .push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
                }
            }
            plain_from = at + 1;
        }
        self.out.push_str(text.get(plain_from..).unwrap_or(""));
        self.out.push('"');
    }
}

impl Sink for Text {
    fn null(&mut self) {
        self.separate();
        self.out.push_str("null");
    }

    fn bool(&mut self, value: bool) {
        self.separate();
        self.out.push_str(if value { "true" } else { "false" });
    }

    fn integer(&mut self, integer: i64) {
        self.separate();
        self.out.push_str(&integer.to_string());
    }

    fn float(&mut self, float: f64) {
        self.separate();
        // serde_json's own form, so that text and value read alike: shortest, never without `.` or `e`.
        self.out.push_str(
            &Number::from_f64(float).map_or_else(String::new, |number| number.to_string()),
        );
    }

    fn text(&mut self, text: &str) {
        self.separate();
        self.quoted(text);
    }

    fn begin_array(&mut self) {
        self.separate();
        self.out.push('[');
        self.depth += 1;
    }

    fn end_array(&mut self) {
        self.out.push(']');
        self.depth -= 1;
    }

    fn begin_object(&mut self) {
        self.separate();
        self.out.push('{');
        self.depth += 1;
    }

    fn key(&mut self, key: &str) {
        self.separate();
        self.quoted(key);
        self.out.push(':');
    }

    fn end_object(&mut self) {
        self.out.push('}');
        self.depth -= 1;
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn room(&self) -> usize {
        self.max.saturating_add(1).saturating_sub(self.out.len())
    }
}

/// A JSON value under construction.
#[derive(Default)]
struct Tree {
    open: Vec<Branch>,
    root: Json,
}

enum Branch {
    Array(Vec<Json>),
    /// With the key of the entry whose value comes next.
    Object(Map<String, Json>, String),
}

impl Tree {
    fn put(&mut self, value: Json) {
        match self.open.last_mut() {
            Some(Branch::Array(items)) => items.push(value),
            Some(Branch::Object(entries, key)) => {
                entries.insert(std::mem::take(key), value);
            }
            None => self.root = value,
        }
    }

    fn close(&mut self) {
        match self.open.pop() {
            Some(Branch::Array(items)) => self.put(Json::Array(items)),
            Some(Branch::Object(entries, _)) => self.put(Json::Object(entries)),
            None => {}
        }
    }
}

impl Sink for Tree {
    fn null(&mut self) {
        self.put(Json::Null);
    }

    fn bool(&mut self, value: bool) {
        self.put(Json::Bool(value));
    }

    fn integer(&mut self, integer: i64) {
        self.put(Json::from(integer));
    }

    fn float(&mut self, float: f64) {
        self.put(Json::from(float));
    }

    fn text(&mut self, text: &str) {
        self.put(Json::from(text));
    }

    fn begin_array(&mut self) {
        self.open.push(Branch::Array(Vec::new()));
    }

    fn end_array(&mut self) {
        self.close();
    }

    fn begin_object(&mut self) {
        self.open.push(Branch::Object(Map::new(), String::new()));
    }

    fn key(&mut self, text: &str) {
        if let Some(Branch::Object(_, key)) = self.open.last_mut() {
            text.clone_into(key);
        }
    }

    fn end_object(&mut self) {
        self.close();
    }

    fn depth(&self) -> usize {
        self.open.len()
    }
}
