//! A checker of values against the few keys that published output schemas use.

use serde_json::Value;

/// Asserts that a value fits a schema, as the SDK clients do it.
pub(super) fn assert_fits(schema: &Value, value: &Value, place: &str) {
    if let Some(kind) = schema.get("type") {
        let fits = match kind.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "number" => value.is_number(),
            other => panic!("{place}: no type {other}"),
        };
        assert!(fits, "{place}: {value} is no {kind}");
    }
    if let Some(values) = schema.get("enum") {
        assert!(
            values.as_array().unwrap().contains(value),
            "{place}: {value}"
        );
    }
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        assert!(
            value.get(name.as_str().unwrap()).is_some(),
            "{place}: {name} is missing in {value}"
        );
    }
    if let (Some(properties), Some(members)) = (schema.get("properties"), value.as_object()) {
        for (name, member) in members {
            if let Some(schema) = properties.get(name) {
                assert_fits(schema, member, &format!("{place}.{name}"));
            }
        }
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        for item in list {
            assert_fits(items, item, &format!("{place}[]"));
        }
    }
}
