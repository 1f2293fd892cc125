//! The members of an object as a nested list, from the full schema of a tool: name, type, need, bounds, meaning.
//!
//! The full schema is what calls are checked against, so the list shows more than `tools/list` does: every bound,
//! and members that are accepted without being published.

use serde_json::Value;

use crate::mcp::schema::{Form, OR, UNLISTED};

/// Whether members are sent or answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Arguments,
    Result,
}

/// The list, one line per member; empty without members.
pub(super) fn list(schema: &Value, side: Side) -> String {
    let mut text = String::new();
    write_members(schema, side, 0, &mut text);
    text
}

fn write_members(schema: &Value, side: Side, depth: usize, text: &mut String) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, member) in properties.into_iter().flatten() {
        let facts = facts(schema, name, member, side).join(", ");
        text.push_str(&"  ".repeat(depth));
        text.push_str(&format!("- `{name}` ({facts})"));
        if let Some(meaning) = member.get("description").and_then(Value::as_str) {
            text.push_str(": ");
            text.push_str(&meaning.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        text.push('\n');
        write_members(member.get("items").unwrap_or(member), side, depth + 1, text);
    }
}

fn facts(parent: &Value, name: &str, member: &Value, side: Side) -> Vec<String> {
    let mut facts = vec![kind(member)];
    let required = parent.get("required").and_then(Value::as_array);
    let is_required = required.is_some_and(|names| names.iter().any(|required| required == name));
    match (side, member.get("default")) {
        (Side::Arguments, Some(default)) => facts.push(format!("default `{default}`")),
        (Side::Arguments, None) if is_required => facts.push("required".into()),
        (Side::Arguments, None) => facts.push("optional".into()),
        (Side::Result, _) if !is_required => facts.push("not always there".into()),
        (Side::Result, _) => {}
    }
    facts.extend(bounds(member));
    if let Some(other) = member.get(OR) {
        facts.push(format!(
            "or {}",
            [vec![kind(other)], bounds(other)].concat().join(", ")
        ));
    }
    if member.get(UNLISTED).is_some() {
        facts.push("not in the published schema".into());
    }
    facts
}

fn kind(schema: &Value) -> String {
    let name = match schema.get("type").and_then(Value::as_str) {
        _ if Form::of(schema) == Some(Form::Any) => "any JSON",
        Some("string") => "text",
        Some("integer") if Form::of(schema) == Some(Form::Millis) => "integer, ms",
        Some("integer") => "integer",
        Some("number") => "number",
        Some("boolean") => "true or false",
        Some("object") => "object",
        Some("array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            let inner = [vec![kind(items)], bounds(items)].concat().join(", ");
            return format!("list of {inner}");
        }
        _ => "any JSON",
    };
    name.to_owned()
}

fn bounds(schema: &Value) -> Vec<String> {
    let mut bounds = Vec::new();
    let integer = |key| schema.get(key).and_then(Value::as_i64);
    bounds.extend(span(integer("minimum"), integer("maximum"), ""));
    bounds.extend(span(
        integer("minLength"),
        integer("maxLength"),
        " characters",
    ));
    bounds.extend(span(integer("minItems"), integer("maxItems"), " entries"));
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<_> = values
            .iter()
            .filter_map(Value::as_str)
            .map(|value| format!("`{value}`"))
            .collect();
        bounds.push(format!("one of {}", values.join(", ")));
    }
    bounds
}

fn span(min: Option<i64>, max: Option<i64>, unit: &str) -> Option<String> {
    match (min, max) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}{unit}")),
        (Some(1), None) if !unit.is_empty() => Some("not empty".into()),
        (Some(min), None) => Some(format!("at least {min}{unit}")),
        (None, Some(max)) => Some(format!("at most {max}{unit}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_listed_with_all_that_is_checked() {
        let schema = json!({
            "type": "object",
            "properties": {
                "queue": { "type": "string", "minLength": 1, "maxLength": 256, "description": "Where\nto" },
                "wait": { "type": "integer", "minimum": 0, "maximum": 9, "default": 0, "x-form": "millis" },
                "items": { "type": "array", "minItems": 1, "items": {
                    "type": "object",
                    "properties": { "level": { "type": "string", "enum": ["a", "b"], "x-unlisted": true } },
                } },
            },
            "required": ["queue"],
        });
        let expected = "- `queue` (text, required, 1 to 256 characters): Where to\n\
            - `wait` (integer, ms, default `0`, 0 to 9)\n\
            - `items` (list of object, optional, not empty)\n  \
            - `level` (text, optional, one of `a`, `b`, not in the published schema)\n";
        assert_eq!(list(&schema, Side::Arguments), expected);
    }

    #[test]
    fn results_say_what_may_be_missing() {
        let schema = json!({
            "type": "object",
            "properties": { "job": {}, "note": { "type": "string" } },
            "required": ["job"],
        });
        let expected = "- `job` (any JSON)\n- `note` (text, not always there)\n";
        assert_eq!(list(&schema, Side::Result), expected);
    }
}
