//! From Rust types to the schemas of tools, in two forms.
//!
//! The *full* schema says everything that is checked: bounds, lengths, defaults, members that are accepted
//! but not shown, and the keys below. [`super::arguments`] and the documentation read it. The *published* one is what `tools/list`
//! carries: the subset of JSON Schema that every known host and model provider takes (MCP contract, section
//! 14, rules S1 to S14), without what costs every session bytes and helps no model to choose.
//! Both come from one schemars generation per type and the one normalisation here.

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Key of a full schema: the [`Form`] a value has beyond its type.
pub const FORM: &str = "x-form";
/// Key of a full schema: another schema whose values are accepted too, when the value looks like a number.
pub const OR: &str = "x-or";
/// Key of a full schema: accepted or answered, but left out of the published one.
pub const UNLISTED: &str = "x-unlisted";
/// Key of a full schema of an object: the only members that are published, without their descriptions; an empty list
/// publishes an object that does not tell its members.
pub const BRIEF: &str = "x-brief";
/// Key of a full schema of the items of a list: they are checked as the object is in which the list stands, to any depth. What
/// this schema says of them itself is only shown: no published schema may refer to another (rule S4).
pub const AGAIN: &str = "x-again";

/// What a value is beyond its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A queue name.
    Queue,
    /// The id of something; a whole number is read as its digits.
    Id,
    /// Milliseconds; a fraction is dropped.
    Millis,
    /// Any JSON value, whatever the type says.
    Any,
    /// A URL; its length is judged with its other rules.
    Url,
    /// A queue name of a job in a flow, whose faults have a text of their own.
    FlowQueue,
    /// The id of a job in a flow, whose faults have a text of their own; else as [`Form::Id`].
    FlowId,
}

impl Form {
    const ALL: [Self; 7] = [
        Self::Queue,
        Self::Id,
        Self::Millis,
        Self::Any,
        Self::FlowQueue,
        Self::FlowId,
        Self::Url,
    ];

    /// Its name in a schema.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Id => "id",
            Self::Millis => "millis",
            Self::Any => "any",
            Self::Url => "url",
            Self::FlowQueue => "flow-queue",
            Self::FlowId => "flow-id",
        }
    }

    /// The form of a schema.
    pub fn of(schema: &Value) -> Option<Self> {
        let name = schema.get(FORM)?.as_str()?;
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Input,
    Output,
}

/// The full schema of what a tool takes.
pub fn input<A: JsonSchema>() -> Value {
    full(
        settings()
            .for_deserialize()
            .into_generator()
            .into_root_schema_for::<A>()
            .to_value(),
        Side::Input,
    )
}

/// The full schema of what a tool answers.
pub fn output<O: JsonSchema>() -> Value {
    full(
        settings()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<O>()
            .to_value(),
        Side::Output,
    )
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    })
}

fn full(mut schema: Value, side: Side) -> Value {
    tidy(&mut schema, side);
    if let Some(root) = schema.as_object_mut() {
        // The doc comment of the argument type speaks to programmers; the tool's prose is its description.
        root.remove("description");
        root.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Removes what Rust and serde leave in a schema; the meaning stays.
fn tidy(schema: &mut Value, side: Side) {
    if !schema.is_object() {
        *schema = json!({});
    }
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    for leftover in ["$schema", "title", "format", "additionalProperties"] {
        node.remove(leftover);
    }
    if node.get("default").is_some_and(Value::is_null) {
        node.remove("default");
    }
    merge_string_arms(node);
    let required = names(node.get("required"));
    for (name, member) in members(node) {
        if is_nullable(member) {
            // A member that is always there and may be null has no single type; an absent one is never null.
            if side == Side::Output && required.contains(&name) {
                untype(member);
            } else {
                strip_null(member);
            }
        }
        // Now that a member is one schema, whatever it was before.
        tidy(member, side);
    }
    if let Some(items) = node.get_mut("items") {
        tidy(items, side);
    }
}

fn members(node: &mut JsonObject) -> impl Iterator<Item = (String, &mut Value)> {
    let properties = node.get_mut("properties").and_then(Value::as_object_mut);
    properties
        .into_iter()
        .flatten()
        .map(|(name, member)| (name.clone(), member))
}

fn names(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn is_nullable(schema: &Value) -> bool {
    let arms = schema.get("anyOf").and_then(Value::as_array);
    let types = schema.get("type").and_then(Value::as_array);
    types.is_some_and(|types| types.contains(&json!("null")))
        || arms.is_some_and(|arms| {
            arms.iter()
                .any(|arm| arm.get("type") == Some(&json!("null")))
        })
}

fn untype(schema: &mut Value) {
    let description = schema.get("description").cloned();
    *schema = description.map_or_else(|| json!({}), |text| json!({ "description": text }));
}

fn strip_null(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(types)) = node.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            node.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = node.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(arms)) = node.get_mut("anyOf") {
        arms.retain(|arm| arm.get("type") != Some(&json!("null")));
        if arms.len() == 1
            && let Some(Value::Object(only)) = arms.pop()
        {
            node.remove("anyOf");
            // What the field says of itself goes before what its type says.
            for (key, value) in only {
                node.entry(key).or_insert(value);
            }
        }
    }
}

/// `oneOf` arms that are all fixed texts become one `enum`.
fn merge_string_arms(node: &mut JsonObject) {
    let Some(Value::Array(arms)) = node.get("oneOf") else {
        return;
    };
    let mut values = Vec::new();
    for arm in arms {
        match (arm.get("const"), arm.get("enum")) {
            (Some(value @ Value::String(_)), _) => values.push(value.clone()),
            (None, Some(Value::Array(more))) if more.iter().all(Value::is_string) => {
                values.extend(more.clone())
            }
            _ => return,
        }
    }
    node.remove("oneOf");
    node.insert("type".into(), "string".into());
    node.insert("enum".into(), values.into());
}

/// Adds what every guarded tool knows (MCP contract, section 6) to the full schema of its input.
pub fn add_guard_arguments(input: &mut Value) {
    let Some(Value::Object(properties)) = input.get_mut("properties") else {
        return;
    };
    properties.insert(
        "dryRun".into(),
        json!({ "description": "Only report impact", "type": "boolean", "default": false }),
    );
    for (name, description) in [
        ("confirm", "The exact target of the call"),
        ("userRequest", "The words in which the user asked for it"),
    ] {
        properties.insert(
            name.into(),
            json!({ "description": description, "type": "string", UNLISTED: true }),
        );
    }
}

/// Lists the arguments that confirm a guarded call ([`add_guard_arguments`]).
pub fn list_guard_arguments(input: &mut Value, with_request: bool) {
    let Some(Value::Object(properties)) = input.get_mut("properties") else {
        return;
    };
    for (name, is_listed) in [("confirm", true), ("userRequest", with_request)] {
        if let Some(Value::Object(argument)) = properties.get_mut(name).filter(|_| is_listed) {
            argument.shift_remove(UNLISTED);
        }
    }
}

/// Adds the answer to a dry run to the full schema of a guarded tool's output: only the target is always there.
pub fn add_guard_answer(output: &mut Value, target: &str) {
    let Some(node) = output.as_object_mut() else {
        return;
    };
    node.insert("required".into(), json!([target]));
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.insert(
            "executed".into(),
            json!({ "description": "false when nothing was done", "type": "boolean" }),
        );
        properties.insert(
            "impact".into(),
            json!({ "description": "What the call would do", "type": "string" }),
        );
    }
}

/// What `tools/list` shows of a full input schema.
pub fn published_input(full: &Value) -> JsonObject {
    publish_node(full, &mut |node, is_required| {
        // Checked all the same; a model picks no better length for knowing them.
        node.remove("maxLength");
        if !is_required {
            node.remove("minLength");
        }
        if node.get("default").is_some_and(is_zero) {
            node.remove("default");
        }
    })
}

/// What `tools/list` shows of a full output schema: types and members.
pub fn published_output(full: &Value) -> JsonObject {
    publish_node(full, &mut |node, _| {
        node.retain(|key, _| {
            ["type", "properties", "required", "items", "enum"].contains(&key.as_str())
        });
    })
}

fn is_zero(default: &Value) -> bool {
    *default == json!(false) || default.as_i64() == Some(0)
}

fn publish_node(schema: &Value, prune: &mut impl FnMut(&mut JsonObject, bool)) -> JsonObject {
    let Some(full) = schema.as_object() else {
        return Map::new();
    };
    let brief = full.get(BRIEF).map(|names_of| names(Some(names_of)));
    let required = names(full.get("required"));
    let mut node: JsonObject = full.clone();
    node.retain(|key, _| !key.starts_with("x-"));
    if let Some(Value::Object(properties)) = full.get("properties") {
        let mut shown = Map::new();
        if brief.as_ref().is_some_and(Vec::is_empty) {
            node.remove("properties");
            node.remove("required");
            return node;
        }
        for (name, member) in properties {
            let is_left_out = brief.as_ref().is_some_and(|brief| !brief.contains(name));
            if is_left_out || member.get(UNLISTED).is_some() {
                continue;
            }
            let mut member = publish_node(member, prune);
            if brief.is_some() {
                member.remove("description");
                member.remove("default");
            }
            prune(&mut member, required.contains(name));
            shown.insert(name.clone(), Value::Object(member));
        }
        node.insert("properties".into(), Value::Object(shown));
    }
    if let Some(items) = full.get("items") {
        let mut items = publish_node(items, prune);
        prune(&mut items, false);
        node.insert("items".into(), Value::Object(items));
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    /// Text for programmers.
    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Odd {
        /// The kind
        kind: Option<Kind>,
        /// A part
        part: Option<Part>,
        #[serde(skip_serializing_if = "Option::is_none")]
        count_of: Option<u64>,
        anything: Value,
        texts: std::collections::BTreeMap<String, u8>,
        #[schemars(length(min = 1, max = 5))]
        name: String,
        #[schemars(extend("x-unlisted" = true))]
        #[serde(default)]
        hidden: bool,
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        /// Documented on purpose.
        One,
        /// This too.
        Two,
    }

    /// What a part is.
    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Part {
        size: Option<f64>,
    }

    #[test]
    fn an_input_keeps_its_bounds_and_loses_what_rust_and_serde_left() {
        let full = input::<Odd>();
        assert_eq!(
            full,
            json!({
                "type": "object",
                "properties": {
                    "kind": { "description": "The kind", "type": "string", "enum": ["one", "two"] },
                    "part": {
                        "description": "A part",
                        "type": "object",
                        "properties": { "size": { "type": "number" } },
                    },
                    "countOf": { "type": "integer", "minimum": 0 },
                    "anything": {},
                    "texts": { "type": "object" },
                    "name": { "type": "string", "minLength": 1, "maxLength": 5 },
                    "hidden": { "type": "boolean", "default": false, "x-unlisted": true },
                },
                "required": ["anything", "texts", "name"],
            })
        );
        let published = published_input(&full);
        assert_eq!(
            published["properties"]["name"],
            json!({ "type": "string", "minLength": 1 })
        );
        assert_eq!(published["properties"].get("hidden"), None);
    }

    #[test]
    fn an_output_tells_what_is_always_there_and_gives_no_type_to_what_may_be_null() {
        let full = output::<Odd>();
        assert_eq!(
            full["properties"]["kind"],
            json!({ "description": "The kind" })
        );
        assert_eq!(
            full["properties"]["part"],
            json!({ "description": "A part" })
        );
        assert_eq!(full["properties"]["countOf"]["type"], "integer");
        let required = ["kind", "part", "anything", "texts", "name", "hidden"];
        assert_eq!(full["required"], json!(required));
        let published = published_output(&full);
        assert_eq!(
            published["properties"]["countOf"],
            json!({ "type": "integer" })
        );
        assert_eq!(published["properties"]["kind"], json!({}));
    }
}
