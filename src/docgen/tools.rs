//! The reference of tools: one page per toolset, and the list of all of them.
//!
//! Everything comes from the registry, and results from playing the examples; nothing is written here but the words
//! between the facts.

use serde_json::{Value, json};

use super::fields::{self, Side};
use super::json::pretty;
use crate::mcp::example::Played;
use crate::mcp::{Policy, Registry, Tool, ToolsetInfo};

/// Where the page of a toolset is.
pub(super) fn path(toolset: &str) -> String {
    format!("docs/tools/{toolset}.md")
}

/// The first sentence of what a toolset is for: its note in the index.
pub(super) fn purpose(toolset: &ToolsetInfo) -> String {
    let first = toolset.summary.first().map_or("", String::as_str);
    let text = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    text.get(..end)
        .unwrap_or_default()
        .trim_end_matches('.')
        .to_owned()
}

/// The page of a toolset.
pub(super) fn page(registry: &Registry, toolset: &ToolsetInfo, played: &[Played]) -> String {
    let mut text = format!("# {}\n\n", toolset.id);
    for paragraph in &toolset.summary {
        text.push_str(paragraph);
        text.push_str("\n\n");
    }
    let sections: Vec<_> = registry
        .tools_of(toolset.id)
        .map(|tool| {
            let examples: Vec<_> = played
                .iter()
                .filter(|played| played.tool == tool.name)
                .collect();
            section(registry, tool, &examples)
        })
        .collect();
    text.push_str(&sections.join("\n"));
    text
}

fn section(registry: &Registry, tool: &Tool, examples: &[&Played]) -> String {
    let mut text = format!("## {}\n\n{}\n\n", tool.name, tool.description);
    for note in &tool.notes {
        text.push_str(note);
        text.push_str("\n\n");
    }
    text.push_str(&format!("Policy: {}\n", policy(tool.policy)));
    let arguments = fields::list(&tool.input, Side::Arguments);
    let arguments = if arguments.is_empty() {
        "None.\n".to_owned()
    } else {
        arguments
    };
    text.push_str(&format!("\n### Arguments\n\n{arguments}"));
    let result = fields::list(&tool.output, Side::Result);
    let result = if result.is_empty() {
        "An object whose members are named after what they tell of.\n".to_owned()
    } else {
        result
    };
    text.push_str(&format!("\n### Result\n\n{result}"));
    text.push_str(&format!(
        "\n### Example\n\n{}",
        examples_text(tool, examples)
    ));
    text.push_str(&format!("\n### Errors\n\n{}", errors(tool)));
    let related = related(registry, tool);
    if !related.is_empty() {
        text.push_str(&format!("\n### See also\n\n{}\n", related.join(", ")));
    }
    text
}

fn policy(policy: Policy) -> String {
    let effect = match policy {
        Policy {
            read_only: true, ..
        } => "read-only",
        Policy {
            destructive: true, ..
        } => "destructive",
        _ => "write",
    };
    let repeat = if policy.idempotent {
        "idempotent"
    } else {
        "not idempotent"
    };
    let preview = policy.confirm.map_or_else(String::new, |target| {
        format!(" · target `{target}`, preview with `dryRun`")
    });
    format!("{effect} · {repeat}{preview}")
}

fn examples_text(tool: &Tool, examples: &[&Played]) -> String {
    let blocks = examples.iter().map(|played| {
        let call = json!({ "name": tool.name, "arguments": played.call });
        let outcome = if played.is_error { "Refused" } else { "Result" };
        format!(
            "Call:\n\n{}\n{outcome}:\n\n{}",
            block(&call),
            block(&played.answer)
        )
    });
    blocks.collect::<Vec<_>>().join("\n")
}

fn block(value: &Value) -> String {
    format!("```json\n{}\n```\n", pretty(value))
}

fn errors(tool: &Tool) -> String {
    let mut text = String::new();
    for cause in &tool.errors {
        let cause = cause.describe();
        text.push_str(&format!(
            "- `{}`, `{}`: {}\n",
            cause.code.name(),
            cause.text,
            cause.hint
        ));
    }
    text.push_str("- [Common errors](../reference/errors.md#common-errors) of every tool\n");
    text
}

/// Links to the tools that the prose of a tool names, in the order of the registry.
fn related(registry: &Registry, tool: &Tool) -> Vec<String> {
    let prose = std::iter::once(&tool.description).chain(&tool.notes);
    let named: Vec<_> = prose.flat_map(|text| words(text)).collect();
    registry
        .tools()
        .filter(|other| other.name != tool.name && named.contains(&other.name))
        .map(|other| link(other, tool.toolset))
        .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
}

/// A link to a tool, from a page beside that of its toolset.
fn link(tool: &Tool, from: &str) -> String {
    let page = if tool.toolset == from {
        String::new()
    } else {
        format!("{}.md", tool.toolset)
    };
    format!("[{name}]({page}#{name})", name = tool.name)
}

/// The list of all tools.
pub(super) fn index(registry: &Registry) -> String {
    let count = registry.tools().count();
    let mut text = format!(
        "# Tools\n\nThis version has {count} tools in {toolsets} toolsets. `BUNQUEUE_MCP_TOOLSETS` names the toolsets that a server\n\
        shows; without it, all. A call of a tool that exists and is not shown is refused with `not_loaded`.\n\n\
        *Access* is what a tool may do: read, write, or destroy something that cannot be brought back. Tools marked with a target\n\
        take `dryRun: true`, which changes nothing and tells what the call would do. This version asks for no confirmation:\n\
        preview a destructive call and show it to the user before you make it.\n\n\
        Arguments are lenient on types and strict on names: `\"5\"` counts as 5, JSON text as the object it holds, null as absent;\n\
        an unknown argument is refused and nothing is applied.\n",
        toolsets = registry.toolsets().count(),
    );
    for toolset in registry.toolsets() {
        text.push_str(&format!(
            "\n## {id}\n\n{purpose}. See [{id}]({id}.md).\n\n| tool | does | access |\n| --- | --- | --- |\n",
            id = toolset.id,
            purpose = purpose(toolset),
        ));
        for tool in registry.tools_of(toolset.id) {
            let link = link(tool, "");
            let description = tool.description.replace('|', "\\|");
            text.push_str(&format!(
                "| {link} | {description} | {} |\n",
                access(tool.policy)
            ));
        }
    }
    text
}

fn access(policy: Policy) -> String {
    let access = match policy {
        Policy {
            read_only: true, ..
        } => "read",
        Policy {
            destructive: true, ..
        } => "destroy",
        _ => "write",
    };
    match policy.confirm {
        Some(target) => format!("{access}, target `{target}`"),
        None => access.to_owned(),
    }
}

/// The tools that destroy something, in the order of the registry.
pub(super) fn destructive(registry: &Registry) -> Vec<&'static str> {
    let tools = registry.tools().filter(|tool| tool.policy.destructive);
    tools.map(|tool| tool.name).collect()
}
