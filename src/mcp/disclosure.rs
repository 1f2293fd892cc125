//! Toolsets that clients load themselves: the tools about tools, and what a client has loaded (MCP contract, section 5.2).
//!
//! A list of all tools costs a model thousands of tokens before its first word. With `dynamic` it gets a catalog of one line
//! per toolset instead, loads what it needs, and calls it directly or, where its host does not read the list again, through
//! another tool. A client of revision 2026-07-28 has no session to load into: it may call whatever is available.

use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{JsonObject, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::registry::{Registry, Tool};
use super::schema;

/// Loads toolsets.
pub const ENABLE: &str = "bunqueue_enable_toolsets";
/// Calls a tool.
pub const CALL: &str = "bunqueue_call_tool";
/// Lets a model load a toolset.
pub const FIND: &str = "bunqueue_find_tools";

/// Toolsets that one client has loaded. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Loaded(Arc<Mutex<Vec<&'static str>>>);

impl Loaded {
    /// Whether that one is among them.
    pub fn contains(&self, toolset: &str) -> bool {
        self.0.lock().contains(&toolset)
    }

    /// How many there are; they only ever become more.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    fn add(&self, toolset: &'static str) {
        let mut loaded = self.0.lock();
        if !loaded.contains(&toolset) {
            loaded.push(toolset);
        }
    }
}

/// What a tool about tools does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta {
    /// Loads toolsets.
    Enable,
    /// Calls a tool.
    Call,
    /// Chooses a toolset by a model and loads it.
    Find,
}

/// A tool about tools.
pub struct MetaTool {
    /// What it does.
    pub meta: Meta,
    /// The full schema of its arguments.
    pub input: Value,
    /// What `tools/list` shows.
    pub listed: rmcp::model::Tool,
}

/// The tools about the tools of `registry`; with a model, also the one that asks it.
pub fn tools(registry: &Registry, with_model: bool) -> Vec<MetaTool> {
    let mut tools = vec![enable(registry), call()];
    if with_model {
        tools.push(find());
    }
    tools
}

fn enable(registry: &Registry) -> MetaTool {
    let catalog: Vec<String> = registry
        .toolsets()
        .map(|toolset| format!("{}: {}", toolset.id, toolset.line))
        .collect();
    let ids: Vec<&str> = registry.toolsets().map(|toolset| toolset.id).collect();
    let description = format!(
        "Load toolsets; their tools can be called from then on.\n{}",
        catalog.join("\n")
    );
    let input = json!({
        "type": "object",
        "properties": {
            "toolsets": {
                "description": "Toolsets to load",
                "type": "array",
                "items": { "type": "string", "enum": ids },
                "minItems": 1,
            },
        },
        "required": ["toolsets"],
    });
    let output = json!({
        "type": "object",
        "properties": {
            "enabled": { "type": "array", "items": { "type": "string" } },
            "tools": { "type": "array", "items": { "type": "object" } },
            "note": { "type": "string" },
        },
        "required": ["enabled", "tools", "note"],
    });
    let hints = ToolAnnotations::from_raw(None, Some(true), Some(false), Some(true), Some(false));
    let named = (Meta::Enable, ENABLE, "Load toolsets");
    meta_tool(named, description, input, Some(&output), hints)
}

fn call() -> MetaTool {
    let description =
        "Call a tool of a loaded toolset by name, where the list does not show it.".to_owned();
    let input = json!({
        "type": "object",
        "properties": {
            "name": { "description": "The tool", "type": "string" },
            "arguments": { "description": "What it takes", "type": "object" },
        },
        "required": ["name"],
    });
    let hints = ToolAnnotations::from_raw(None, None, None, None, None);
    let named = (Meta::Call, CALL, "Call a tool");
    meta_tool(named, description, input, None, hints)
}

fn find() -> MetaTool {
    let description = "Say what is to be done; a model picks the toolset and loads it.".to_owned();
    let input = json!({
        "type": "object",
        "properties": {
            "request": { "description": "What is to be done", "type": "string", "minLength": 1 },
        },
        "required": ["request"],
    });
    let output = json!({
        "type": "object",
        "properties": {
            "enabled": { "type": "array", "items": { "type": "string" } },
            "tools": { "type": "array", "items": { "type": "object" } },
            "note": { "type": "string" },
            "probabilities": { "type": "object" },
        },
        "required": ["enabled", "tools", "note", "probabilities"],
    });
    let hints = ToolAnnotations::from_raw(None, Some(true), Some(false), Some(true), Some(true));
    let named = (Meta::Find, FIND, "Find tools");
    meta_tool(named, description, input, Some(&output), hints)
}

fn meta_tool(
    (meta, name, title): (Meta, &'static str, &'static str),
    description: String,
    input: Value,
    output: Option<&Value>,
    hints: ToolAnnotations,
) -> MetaTool {
    let published: Arc<JsonObject> = Arc::new(schema::published_input(&input));
    let mut listed = rmcp::model::Tool::new(name, description, published)
        .with_title(title)
        .with_annotations(hints);
    if let Some(output) = output {
        listed = listed.with_raw_output_schema(Arc::new(schema::published_output(output)));
    }
    MetaTool {
        meta,
        input,
        listed,
    }
}

/// Loads toolsets and shows their tools.
pub fn load(registry: &Registry, ids: &[&'static str], loaded: Option<&Loaded>) -> Value {
    for id in ids {
        if let Some(loaded) = loaded {
            loaded.add(id);
        }
    }
    let tools: Vec<Value> = ids
        .iter()
        .flat_map(|id| registry.tools_of(id))
        .map(described)
        .collect();
    let note = match loaded {
        Some(_) => format!(
            "These tools are in the list of tools now. If it does not show them, call them through {CALL}."
        ),
        None => format!("Call these tools through {CALL}."),
    };
    json!({ "enabled": ids, "tools": tools, "note": note })
}

fn described(tool: &Tool) -> Value {
    serde_json::to_value(&tool.listed).unwrap_or_default()
}

/// The toolsets that were asked for, each once, in the order of the list.
pub fn asked_for(registry: &Registry, arguments: &Map<String, Value>) -> Vec<&'static str> {
    let asked = arguments.get("toolsets").and_then(Value::as_array);
    let is_asked = |id: &str| asked.is_some_and(|asked| asked.iter().any(|given| given == id));
    registry
        .toolsets()
        .map(|toolset| toolset.id)
        .filter(|id| is_asked(id))
        .collect()
}

/// The tool and the arguments of a call inside a call.
pub fn inner_call(mut arguments: Map<String, Value>) -> (String, Map<String, Value>) {
    let name = match arguments.shift_remove("name") {
        Some(Value::String(name)) => name,
        _ => String::new(),
    };
    match arguments.shift_remove("arguments") {
        Some(Value::Object(arguments)) => (name, arguments),
        _ => (name, Map::new()),
    }
}
