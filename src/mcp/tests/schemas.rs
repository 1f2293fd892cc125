//! The published schemas: rules S1 to S14 of the contract's section 14, and the budgets of section 15.

use serde_json::Value;

use super::registry;
use crate::mcp::registry::{NAME_MAX, Tool};

/// Keys a published schema may have; everything else has broken some host.
const INPUT_KEYS: [&str; 11] = [
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "description",
    "minimum",
    "maximum",
    "minLength",
    "minItems",
    "default",
];
const OUTPUT_KEYS: [&str; 5] = ["type", "properties", "required", "items", "enum"];
/// Members that are no whole numbers: progress, and figures of a remote broker.
const NUMBERS: [&str; 6] = [
    "rogress",
    "pushPerSec",
    "pullPerSec",
    "avgLatencyMs",
    "avgProcessingMs",
    "memoryUsageMb",
];
const TYPES: [&str; 6] = ["object", "array", "string", "integer", "number", "boolean"];

struct Walk<'a> {
    tool: &'a str,
    keys: &'a [&'a str],
    is_input: bool,
}

impl Walk<'_> {
    fn node(&self, schema: &Value, path: &str, depth: usize) {
        let place = format!("{} {path}", self.tool);
        assert!(depth <= 4, "{place} is nested too deep (S14)");
        let node = schema
            .as_object()
            .unwrap_or_else(|| panic!("{place} is {schema}"));
        for key in node.keys() {
            assert!(
                self.keys.contains(&key.as_str()),
                "{place} has {key} (S2 to S8)"
            );
        }
        if self.is_input || node.contains_key("type") {
            let kind = node["type"]
                .as_str()
                .unwrap_or_else(|| panic!("{place} has no single type (S5, S6)"));
            assert!(TYPES.contains(&kind), "{place} has the type {kind}");
            assert_eq!(
                kind == "array",
                node.contains_key("items"),
                "{place}: lists and only lists have items (S6)"
            );
            if kind == "number" {
                let is_fraction = NUMBERS.iter().any(|name| path.ends_with(name));
                assert!(is_fraction, "{place} is a number (S9)");
            }
        }
        for bound in ["minimum", "maximum", "minLength", "minItems"] {
            assert!(
                node.get(bound).is_none_or(Value::is_i64),
                "{place} has an odd {bound} (S9)"
            );
        }
        if let Some(values) = node.get("enum") {
            let values = values.as_array().unwrap();
            assert_eq!(node["type"], "string", "{place} (S10)");
            assert!(
                (1..=20).contains(&values.len()) && values.iter().all(Value::is_string),
                "{place} (S10)"
            );
        }
        let required = node
            .get("required")
            .map(|required| required.as_array().unwrap().as_slice());
        assert!(
            required.is_none_or(|required| !required.is_empty()),
            "{place} requires nothing (S1)"
        );
        let properties = node
            .get("properties")
            .map(|properties| properties.as_object().unwrap());
        for name in required.into_iter().flatten() {
            assert!(
                properties.unwrap().contains_key(name.as_str().unwrap()),
                "{place} requires {name}"
            );
        }
        for (name, member) in properties.into_iter().flatten() {
            assert!(is_name(name, 64), "{place} has a member {name} (S11)");
            self.node(member, &format!("{path}.{name}"), depth + 1);
        }
        if let Some(items) = node.get("items") {
            self.items(items, &format!("{path}[]"), depth);
        }
    }

    /// A list and its items are one level: what counts is how deep a model has to nest objects.
    fn items(&self, items: &Value, path: &str, depth: usize) {
        // Items of answers may be anything.
        if self.is_input || items.as_object().is_some_and(|items| !items.is_empty()) {
            self.node(items, path, depth);
        }
    }
}

fn is_name(name: &str, max: usize) -> bool {
    (1..=max).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

#[test]
fn hard_a6_every_published_schema_is_taken_by_every_host() {
    for tool in registry().tools() {
        assert!(is_name(tool.name, NAME_MAX), "{} (S11)", tool.name);
        let input = Value::Object((*tool.listed.input_schema).clone());
        let output = Value::Object((**tool.listed.output_schema.as_ref().unwrap()).clone());
        for (schema, keys, is_input) in [
            (&input, INPUT_KEYS.as_slice(), true),
            (&output, &OUTPUT_KEYS, false),
        ] {
            assert_eq!(schema["type"], "object", "{} (S1, S13)", tool.name);
            assert!(schema["properties"].is_object(), "{} (S1)", tool.name);
            assert!(schema.to_string().len() <= 3_072, "{} (S14)", tool.name);
            Walk {
                tool: tool.name,
                keys,
                is_input,
            }
            .node(schema, "", 0);
        }
    }
}

/// Bytes that reach a model: name, description and input schema as compact JSON.
fn core(tool: &Tool) -> usize {
    serde_json::json!({
        "name": tool.listed.name,
        "description": tool.listed.description,
        "inputSchema": tool.listed.input_schema,
    })
    .to_string()
    .len()
}

#[test]
fn the_list_stays_within_its_budget() {
    let registry = registry();
    let mut whole = 0;
    let mut all = 0;
    for toolset in registry.toolsets() {
        let mut sum = 0;
        for tool in registry.tools_of(toolset.id) {
            let bytes = core(tool);
            println!("{:6} {}", bytes, tool.name);
            assert!(bytes <= 2_600, "{} costs {bytes} bytes", tool.name);
            sum += bytes;
            all += serde_json::to_string(&tool.listed).unwrap().len() + 1;
        }
        println!("{sum:6} toolset {}", toolset.id);
        let budget = if toolset.id == "jobs" { 6_200 } else { 4_500 };
        assert!(sum <= budget, "toolset {} costs {sum} bytes", toolset.id);
        whole += sum;
    }
    println!("{whole:6} core, {all} whole list");
    assert!(whole <= 28_000, "the tools cost {whole} bytes");
    assert!(all <= 60_000, "the list has {all} bytes");
}

#[test]
fn descriptions_differ() {
    let registry = registry();
    let mut seen = std::collections::HashSet::new();
    for tool in registry.tools() {
        assert!(seen.insert(&tool.description), "{}", tool.description);
    }
}
