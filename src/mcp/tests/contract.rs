//! Every tool against the inventory of the contract, and against its snapshot.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::registry;
use crate::mcp::registry::Tool;

fn tests_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn inventory() -> Vec<Value> {
    serde_json::from_str(include_str!("../../../tests/fixtures/inventory.json")).unwrap()
}

#[test]
fn tools_are_those_of_the_inventory() {
    let registry = registry();
    let mut listed: Vec<_> = registry.tools().map(|tool| tool.name).collect();
    let inventory = inventory();
    let mut known: Vec<_> = inventory
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

#[test]
fn names_titles_hints_and_toolsets_are_those_of_the_inventory() {
    let registry = registry();
    for entry in inventory() {
        let tool = registry.tool(entry["name"].as_str().unwrap()).unwrap();
        let policy = tool.policy;
        let ours = json!({
            "name": tool.name,
            "toolset": tool.toolset,
            "title": tool.listed.title,
            "readOnly": policy.read_only,
            "destructive": policy.destructive,
            "idempotent": policy.idempotent,
            "openWorld": policy.open_world,
            "confirmTarget": policy.confirm,
            "confirmUnless": policy.unless,
        });
        for (key, value) in ours.as_object().unwrap() {
            assert_eq!(&entry[key], value, "{key} of {}", tool.name);
        }
        let hints = serde_json::to_value(&tool.listed.annotations).unwrap();
        let expected = json!({
            "readOnlyHint": policy.read_only,
            "destructiveHint": policy.destructive,
            "idempotentHint": policy.idempotent,
            "openWorldHint": policy.open_world,
        });
        assert_eq!(hints, expected, "{}", tool.name);
    }
}

/// A parameter of ours in the words of the inventory.
fn parameter(schema: &Value) -> Value {
    let mut ours = json!({ "type": schema["type"] });
    let names = [
        ("minimum", "min"),
        ("maximum", "max"),
        ("default", "default"),
        ("enum", "enum"),
        ("minLength", "minLength"),
        ("maxLength", "maxLength"),
        ("minItems", "minItems"),
    ];
    for (key, name) in names {
        if let Some(value) = schema.get(key) {
            ours[name] = value.clone();
        }
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        ours["properties"] = parameters(schema, properties.iter());
    }
    if let Some(items) = schema.get("items") {
        ours["items"] = parameter(items);
    }
    ours
}

fn parameters<'a>(
    schema: &Value,
    properties: impl Iterator<Item = (&'a String, &'a Value)>,
) -> Value {
    let is_required = |name: &str| {
        schema["required"]
            .as_array()
            .is_some_and(|names| names.contains(&json!(name)))
    };
    let described = properties.map(|(name, member)| {
        let mut ours = parameter(member);
        ours["name"] = json!(name);
        ours["required"] = json!(is_required(name));
        ours
    });
    Value::Array(described.collect())
}

#[test]
fn parameters_are_those_of_the_inventory_with_every_bound() {
    let registry = registry();
    for entry in inventory() {
        let tool = registry.tool(entry["name"].as_str().unwrap()).unwrap();
        // What guarded tools know without showing it is no parameter of the inventory.
        let shown = tool.input["properties"].as_object().unwrap().iter();
        let shown = shown.filter(|(_, member)| member.get("x-unlisted").is_none());
        assert_eq!(
            parameters(&tool.input, shown),
            entry["params"],
            "{}",
            tool.name
        );
    }
}

#[test]
fn answers_are_those_of_the_inventory() {
    let registry = registry();
    for entry in inventory() {
        let tool = registry.tool(entry["name"].as_str().unwrap()).unwrap();
        let schema = Value::Object(tool.listed.output_schema.as_deref().unwrap().clone());
        let is_required = |name: &str| {
            schema["required"]
                .as_array()
                .unwrap()
                .contains(&json!(name))
        };
        let mut known = Vec::new();
        for field in entry["outputFields"].as_array().unwrap() {
            let name = field["name"].as_str().unwrap();
            if name.starts_with('<') {
                // Members whose names are not known before: the schema has none of them.
                continue;
            }
            known.push(name);
            let ours = &schema["properties"][name];
            assert!(ours.is_object(), "{} answers no {name}", tool.name);
            assert_eq!(
                field["optional"] == json!(false),
                is_required(name),
                "{name} of {}",
                tool.name
            );
            let kind = match field["type"].as_str().unwrap() {
                _ if field["nullable"] == json!(true) => Value::Null,
                "any" => Value::Null,
                "string (ISO 8601)" => json!("string"),
                kind => json!(kind),
            };
            assert_eq!(ours["type"], kind, "{name} of {}", tool.name);
        }
        let ours: Vec<_> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(ours, known, "{}", tool.name);
    }
}

#[test]
fn errors_are_those_of_the_inventory() {
    let registry = registry();
    for entry in inventory() {
        let tool = registry.tool(entry["name"].as_str().unwrap()).unwrap();
        let mut ours: Vec<_> = tool
            .errors
            .iter()
            .map(|cause| cause.describe().text)
            .collect();
        let mut known: Vec<_> = entry["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect();
        ours.sort_unstable();
        known.sort_unstable();
        assert_eq!(ours, known, "{}", tool.name);
    }
}

#[test]
fn toolsets_stand_in_the_order_of_the_list() {
    let registry = registry();
    let order: Vec<_> = registry.toolsets().map(|toolset| toolset.id).collect();
    let expected = [
        "jobs",
        "queues",
        "dlq",
        "monitoring",
        "processing",
        "job-control",
        "cron",
        "flows",
        "limits",
        "workers",
        "webhooks",
    ];
    assert_eq!(order, expected);
    let tools: Vec<_> = registry.tools().map(|tool| tool.toolset).collect();
    assert!(
        tools.is_sorted_by_key(|toolset| order.iter().position(|id| id == toolset)),
        "{tools:?}"
    );
}

fn snapshot(tool: &Tool) -> String {
    let mut text = serde_json::to_string_pretty(&tool.listed).unwrap();
    text.push('\n');
    text
}

#[test]
fn every_tool_is_listed_as_its_snapshot_says() {
    let folder = tests_folder().join("snapshots/tools");
    let is_update = std::env::var_os("UPDATE").is_some();
    let registry = registry();
    for tool in registry.tools() {
        let path = folder.join(format!("{}.json", tool.name));
        if is_update {
            fs::write(&path, snapshot(tool)).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == snapshot(tool),
            "tests/snapshots/tools/{}.json is stale; run the tests with UPDATE=1 and read the difference",
            tool.name
        );
    }
    let files = fs::read_dir(&folder).unwrap().count();
    assert_eq!(
        files,
        registry.tools().count(),
        "a snapshot of a tool that does not exist"
    );
}
