//! From the arguments of a call to what the tool's schema says: lenient on types, strict on keys.
//!
//! One walk along the full schema converts what is plainly meant (`"5"` for 5, JSON text for an object, null for
//! absent), refuses unknown keys with the nearest known one, and checks every bound, so that a handler's
//! types always parse afterwards. Every fault of a call is found, each with its path; nothing was applied. Values of
//! free-form parameters are never touched. Rules: MCP contract section 10, hard cases A1 to A4.

use serde_json::{Map, Number, Value};

use super::nearest::nearest;
use super::schema::{AGAIN, Form, OR, UNLISTED};
use crate::command::flow::is_flow_id;
use crate::command::{ArgumentError, FlowFault, QueueName};

/// Largest whole number that survives a reader which keeps numbers as doubles.
pub const SAFE_INTEGER: i64 = (1 << 53) - 1;
/// Characters of a given value that are repeated in a message.
const QUOTE_MAX: usize = 40;

/// One argument that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Which one, as in `jobs[1].priority`.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
    /// What would fit, where that can be said.
    pub expected: Option<String>,
    /// For a message that is a text of the contract and stands for itself: what to do next.
    pub hint: Option<&'static str>,
}

/// The arguments as the schema has them, or everything that is wrong with them.
///
/// # Errors
/// All faults, in the order given, then what is missing.
pub fn check(
    schema: &Value,
    arguments: Map<String, Value>,
) -> Result<Map<String, Value>, Vec<Issue>> {
    let mut checker = Checker { issues: Vec::new() };
    let checked = checker.object(schema, arguments, "");
    if checker.issues.is_empty() {
        Ok(checked)
    } else {
        Err(checker.issues)
    }
}

struct Checker {
    issues: Vec<Issue>,
}

impl Checker {
    fn object(
        &mut self,
        schema: &Value,
        given: Map<String, Value>,
        path: &str,
    ) -> Map<String, Value> {
        let mut checked = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (key, value) in given {
            let path = join(path, &key);
            match properties.and_then(|properties| properties.get(&key)) {
                None => self.unknown(&key, path, properties),
                Some(_) if value.is_null() => {}
                Some(member) => {
                    let items = member.get("items");
                    let value = match items.filter(|items| items.get(AGAIN).is_some()) {
                        Some(_) => self.list(member, schema, value, &path),
                        None => self.value(member, value, &path),
                    };
                    if let Some(value) = value {
                        checked.insert(key, value);
                    } else {
                        // A fault of this member, so it is not missing as well.
                        checked.insert(key, Value::Null);
                    }
                }
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !checked.contains_key(name) {
                let member = properties
                    .and_then(|properties| properties.get(name))
                    .unwrap_or(&Value::Null);
                self.missing(member, join(path, name));
            }
        }
        checked
    }

    fn value(&mut self, schema: &Value, value: Value, path: &str) -> Option<Value> {
        if Form::of(schema) == Some(Form::Any) {
            return Some(decoded_container(value));
        }
        if let Some(other) = schema.get(OR)
            && number_in(&value).is_some()
        {
            return self.value(other, value, path);
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => self.object_value(schema, value, path),
            Some("array") => {
                let items = schema.get("items").unwrap_or(&Value::Null);
                self.list(schema, items, value, path)
            }
            Some("string") => self.text(schema, value, path),
            Some("integer") => self.integer(schema, &value, path),
            Some("number") => self.number(schema, value, path),
            Some("boolean") => match &value {
                Value::Bool(_) => Some(value),
                Value::String(text) if text.trim() == "true" => Some(Value::Bool(true)),
                Value::String(text) if text.trim() == "false" => Some(Value::Bool(false)),
                _ => self.mismatch(schema, &value, path),
            },
            _ => Some(value),
        }
    }

    fn object_value(&mut self, schema: &Value, value: Value, path: &str) -> Option<Value> {
        match decoded_container(value) {
            // An object without declared members is the client's own: any key, any value, as it is.
            Value::Object(members) if schema.get("properties").is_none() => {
                Some(Value::Object(members))
            }
            Value::Object(members) => Some(Value::Object(self.object(schema, members, path))),
            other => self.mismatch(schema, &other, path),
        }
    }

    fn list(
        &mut self,
        schema: &Value,
        item_schema: &Value,
        value: Value,
        path: &str,
    ) -> Option<Value> {
        let items = match decoded_container(value) {
            Value::Array(items) => items,
            other => return self.mismatch(schema, &other, path),
        };
        if within(schema, "minItems", "maxItems", items.len()).is_none() {
            return self.mismatch(schema, &Value::Array(items), path);
        }
        let mut checked = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            checked.extend(self.value(item_schema, item, &format!("{path}[{index}]")));
        }
        Some(Value::Array(checked))
    }

    fn text(&mut self, schema: &Value, value: Value, path: &str) -> Option<Value> {
        let form = Form::of(schema);
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) if is_id(form) => match whole(&number) {
                Some(integer) => integer.to_string(),
                // Readers with doubles have changed such a number before it came here.
                None => {
                    let expected = format!("{} (pass it in quotes)", expected(schema));
                    return self.refuse(expected, &Value::Number(number), path);
                }
            },
            other => return self.mismatch(schema, &other, path),
        };
        if let Some((message, hint)) = own_fault(form, &text) {
            self.issues.push(Issue {
                path: path.to_owned(),
                message,
                expected: Some(expected(schema)),
                hint: Some(hint),
            });
            return None;
        }
        let is_listed = schema
            .get("enum")
            .and_then(Value::as_array)
            .is_none_or(|list| list.iter().any(|listed| listed.as_str() == Some(&text)));
        let is_within = form == Some(Form::Url)
            || within(schema, "minLength", "maxLength", text.chars().count()).is_some();
        if !is_listed || !is_within {
            return self.mismatch(schema, &Value::String(text), path);
        }
        Some(Value::String(text))
    }

    fn integer(&mut self, schema: &Value, value: &Value, path: &str) -> Option<Value> {
        let exact = match value {
            Value::Number(number) => whole(number),
            Value::String(text) => text
                .trim()
                .parse()
                .ok()
                .filter(|integer: &i64| integer.unsigned_abs() <= SAFE_INTEGER.unsigned_abs()),
            _ => None,
        };
        let rounded = || {
            let number = number_in(value)?;
            let is_rounded = Form::of(schema) == Some(Form::Millis) || number.fract() == 0.0;
            (is_rounded && number.abs() <= SAFE_INTEGER as f64).then(|| number.floor() as i64)
        };
        let Some(integer) = exact.or_else(rounded) else {
            let is_beyond = number_in(value).is_some_and(|number| {
                number.abs() > SAFE_INTEGER as f64
                    && !(number > 0.0 && schema.get("maximum").is_some())
                    && !(number < 0.0 && schema.get("minimum").is_some())
            });
            if is_beyond {
                let range = format!("{} within ±{SAFE_INTEGER}", expected(schema));
                return self.refuse(range, value, path);
            }
            return self.mismatch(schema, value, path);
        };
        let bound = |key| schema.get(key).and_then(Value::as_i64);
        if bound("minimum").is_some_and(|min| integer < min)
            || bound("maximum").is_some_and(|max| integer > max)
        {
            return self.mismatch(schema, value, path);
        }
        Some(integer.into())
    }

    fn number(&mut self, schema: &Value, value: Value, path: &str) -> Option<Value> {
        let Some(number) = number_in(&value) else {
            return self.mismatch(schema, &value, path);
        };
        let bound = |key| schema.get(key).and_then(Value::as_f64);
        if bound("minimum").is_some_and(|min| number < min)
            || bound("maximum").is_some_and(|max| number > max)
        {
            return self.mismatch(schema, &value, path);
        }
        match value {
            Value::Number(_) => Some(value),
            _ => Number::from_f64(number).map(Value::Number),
        }
    }

    fn mismatch(&mut self, schema: &Value, value: &Value, path: &str) -> Option<Value> {
        self.refuse(expected(schema), value, path)
    }

    fn refuse(&mut self, expected: String, value: &Value, path: &str) -> Option<Value> {
        let message = format!("must be {expected}, got {}", quoted(value));
        self.issues.push(Issue {
            path: path.to_owned(),
            message,
            expected: Some(expected),
            hint: None,
        });
        None
    }

    fn missing(&mut self, schema: &Value, path: String) {
        let expected = Some(expected(schema));
        let (message, hint) = if Form::of(schema) == Some(Form::Queue) {
            let error = ArgumentError::QueueRequired;
            (error.to_string(), Some(error.hint()))
        } else {
            ("is required".into(), None)
        };
        self.issues.push(Issue {
            path,
            message,
            expected,
            hint,
        });
    }

    fn unknown(&mut self, key: &str, path: String, properties: Option<&Map<String, Value>>) {
        let known = || {
            properties
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str())
        };
        let message = match nearest(key, known()) {
            Some(name) => format!("unknown argument, did you mean {name}?"),
            None => {
                let listed = properties
                    .into_iter()
                    .flatten()
                    .filter(|(_, member)| member.get(UNLISTED).is_none());
                let names: Vec<_> = listed.map(|(name, _)| name.as_str()).collect();
                let names = if names.is_empty() {
                    "no arguments".into()
                } else {
                    names.join(", ")
                };
                format!("unknown argument, this tool takes {names}")
            }
        };
        self.issues.push(Issue {
            path,
            message,
            expected: None,
            hint: None,
        });
    }
}

const fn is_id(form: Option<Form>) -> bool {
    matches!(form, Some(Form::Id | Form::FlowId))
}

/// The fault of a text for which the contract has a text of its own, and what to do.
fn own_fault(form: Option<Form>, text: &str) -> Option<(String, &'static str)> {
    let told = |fault: FlowFault| (fault.to_string(), fault.hint());
    match form? {
        Form::Queue => {
            let error = QueueName::new(text).err()?;
            Some((error.to_string(), error.hint()))
        }
        Form::FlowQueue if QueueName::new(text).is_err() => {
            Some(told(FlowFault::Queue(quoted_text(text))))
        }
        // A text that is only too long has the message of its bound.
        Form::FlowId if !is_flow_id(text) && (text.is_empty() || text.contains(':')) => {
            Some(told(FlowFault::JobId))
        }
        _ => None,
    }
}

fn join(path: &str, key: &str) -> String {
    // A hostile key stays one line of bounded length.
    let key = if key.is_empty() {
        "\"\"".to_owned()
    } else {
        quoted_text(key)
    };
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}

/// Text that holds a JSON object or list becomes it; everything else stays.
fn decoded_container(value: Value) -> Value {
    if let Value::String(text) = &value
        && text.trim_start().starts_with(['{', '['])
        && let Ok(decoded @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text)
    {
        return decoded;
    }
    value
}

/// A number, or the decimal text of one.
fn number_in(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => {
            let text = text.trim();
            let is_plain = !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
            text.parse()
                .ok()
                .filter(|number: &f64| is_plain && number.is_finite())
        }
        _ => None,
    }
}

/// A number without a fraction that every reader keeps exactly.
fn whole(number: &Number) -> Option<i64> {
    let integer = number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|float| float.fract() == 0.0)?;
        (float.abs() <= SAFE_INTEGER as f64).then_some(float as i64)
    })?;
    (integer.unsigned_abs() <= SAFE_INTEGER.unsigned_abs()).then_some(integer)
}

fn within(schema: &Value, min: &str, max: &str, len: usize) -> Option<()> {
    let bound = |key| schema.get(key).and_then(Value::as_u64);
    let len = len as u64;
    (bound(min).is_none_or(|min| len >= min) && bound(max).is_none_or(|max| len <= max))
        .then_some(())
}

/// What a schema takes, in words.
pub fn expected(schema: &Value) -> String {
    let integer = |key| schema.get(key).and_then(Value::as_i64);
    let bounded = |what: &str| match (integer("minimum"), integer("maximum")) {
        (Some(min), Some(max)) => format!("{what} from {min} to {max}"),
        (Some(min), None) => format!("{what} of at least {min}"),
        (None, Some(max)) => format!("{what} of at most {max}"),
        (None, None) => what.to_owned(),
    };
    let own = match schema.get("type").and_then(Value::as_str) {
        Some("integer") => bounded("an integer"),
        Some("number") => bounded("a number"),
        Some("boolean") => "true or false".into(),
        Some("array") if integer("minItems").is_some_and(|min| min > 0) => {
            "a list that is not empty".into()
        }
        Some("array") => "a list".into(),
        Some("object") if Form::of(schema) == Some(Form::Any) => "a JSON value".into(),
        Some("object") => "an object".into(),
        _ => match (
            schema.get("enum").and_then(Value::as_array),
            integer("minLength"),
            integer("maxLength"),
        ) {
            (Some(values), _, _) => {
                let values: Vec<_> = values.iter().filter_map(Value::as_str).collect();
                format!("one of {}", values.join(", "))
            }
            (None, Some(min), Some(max)) => format!("text of {min} to {max} characters"),
            (None, Some(_), None) => "text that is not empty".into(),
            (None, None, Some(max)) => format!("text of at most {max} characters"),
            (None, None, None) => "text".into(),
        },
    };
    schema
        .get(OR)
        .map_or(own.clone(), |other| format!("{own} or {}", expected(other)))
}

fn quoted(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(items) if items.is_empty() => "an empty list".into(),
        Value::Array(_) => "a list".into(),
        Value::String(text) => format!("\"{}\"", quoted_text(text)),
        other => other.to_string(),
    }
}

/// Text that somebody else wrote, cut, without control and direction characters.
fn quoted_text(text: &str) -> String {
    let mut quoted: String = text
        .chars()
        .take(QUOTE_MAX)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(QUOTE_MAX).is_some() {
        quoted.push('…');
    }
    quoted
}
