//! Every tool there is: declared once, checked as a whole, read by everybody.
//!
//! A tool is a name, a title, a [`Policy`], a parameter type, an answer type and a handler (`toolset.rs`); its prose
//! comes from `toolsets/<toolset>.md`. The list for agents, the checks of arguments, the command line, the documentation
//! and the tests all read the [`Registry`] built here. [`Registry::new`] finds every mismatch at once and
//! the program does not start on one.

mod problem;
mod selection;
#[cfg(test)]
mod tests;
mod toolset;

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::Value;

pub use problem::{Problem, RegistryError};
pub use selection::{Disclosure, Selection, SelectionError};
pub use toolset::{Policy, Toolset};

use super::error::Cause;
use super::prose::{self, Example};
use super::{schema, tools};
use toolset::{Declared, Run};

/// Characters of a tool's description; every session of every agent pays for it.
pub const DESCRIPTION_MAX: usize = 160;
/// Characters of a toolset's line in the catalog.
pub const LINE_MAX: usize = 140;
/// Characters of a tool's name: clients put the server's name before it, and models allow 64 in all.
pub const NAME_MAX: usize = 32;

/// A tool, complete.
pub struct Tool {
    /// Its name on every surface.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The toolset it belongs to.
    pub toolset: &'static str,
    /// What it may do.
    pub policy: Policy,
    /// What it does, in at most [`DESCRIPTION_MAX`] characters.
    pub description: String,
    /// More about it: Markdown paragraphs.
    pub notes: Vec<String>,
    /// Calls with what they answer, in the order in which they run.
    pub examples: Vec<Example>,
    /// The full schema of its arguments (see [`schema`]).
    pub input: Value,
    /// The full schema of its answer.
    pub output: Value,
    /// The errors that only some tools have; argument, broker and cancellation errors are common to all.
    pub errors: Vec<Cause>,
    /// The member of its answer that is the text of a result, where that is not the whole answer as JSON.
    pub text_member: Option<&'static str>,
    /// What `tools/list` shows.
    pub listed: rmcp::model::Tool,
    /// What is destroyed and how to look at it first, for a guarded tool.
    pub(super) guard: Option<Guard>,
    pub(super) run: Run<Value>,
}

/// The preview of a guarded tool.
pub(super) struct Guard {
    pub(super) target: &'static str,
    pub(super) impact: Run<String>,
}

/// What the documentation says of a toolset as a whole.
pub struct ToolsetInfo {
    /// Its id.
    pub id: &'static str,
    /// What it is for, in one sentence: its line in the catalog of [`super::disclosure`].
    pub line: String,
    /// The same at length: Markdown paragraphs, of which that is the first sentence.
    pub summary: Vec<String>,
}

/// Every toolset and tool, in the order of the list (MCP contract, section 14, S12).
pub struct Registry {
    toolsets: Vec<ToolsetInfo>,
    tools: Vec<Tool>,
    index: HashMap<&'static str, usize>,
}

impl Registry {
    /// All tools of this version.
    ///
    /// # Errors
    /// Every mismatch there is.
    pub fn new() -> Result<Self, RegistryError> {
        Self::of(tools::toolsets())
    }

    fn of(declared: Vec<Toolset>) -> Result<Self, RegistryError> {
        let mut registry = Self {
            toolsets: Vec::new(),
            tools: Vec::new(),
            index: HashMap::new(),
        };
        let mut problems = Vec::new();
        for toolset in declared {
            registry.add(toolset, &mut problems);
        }
        if problems.is_empty() {
            Ok(registry)
        } else {
            Err(RegistryError { problems })
        }
    }

    fn add(&mut self, toolset: Toolset, problems: &mut Vec<Problem>) {
        let (page, faults) = prose::read(toolset.prose);
        problems.extend(faults.into_iter().map(|fault| Problem::Prose {
            toolset: toolset.id,
            fault,
        }));
        if page.id != toolset.id {
            problems.push(Problem::Heading {
                toolset: toolset.id,
                heading: page.id,
            });
        }
        if page.summary.is_empty() {
            problems.push(Problem::NoSummary(toolset.id));
        }
        let mut sections: HashMap<String, prose::Section> = HashMap::new();
        for section in page.sections {
            let name = section.name.clone();
            if sections.insert(name.clone(), section).is_some() {
                problems.push(Problem::TwiceInProse {
                    toolset: toolset.id,
                    name,
                });
            }
        }
        for declared in toolset.tools {
            let section = sections.remove(declared.name);
            check(&declared, section.as_ref(), problems);
            let tool = complete(toolset.id, declared, section.unwrap_or_default());
            if self.index.insert(tool.name, self.tools.len()).is_some() {
                problems.push(Problem::Twice(tool.name));
            }
            self.tools.push(tool);
        }
        let mut orphans: Vec<_> = sections.into_keys().collect();
        orphans.sort_unstable();
        problems.extend(orphans.into_iter().map(|name| Problem::NoTool {
            toolset: toolset.id,
            name,
        }));
        let line = first_sentence(page.summary.first().map_or("", String::as_str));
        if line.chars().count() > LINE_MAX {
            problems.push(Problem::Line(toolset.id));
        }
        self.toolsets.push(ToolsetInfo {
            id: toolset.id,
            line: line.to_owned(),
            summary: page.summary,
        });
    }

    /// Lists the arguments by which guarded calls are confirmed; with a decision model also the words of the user.
    pub fn list_confirmation(&mut self, with_request: bool) {
        for tool in &mut self.tools {
            if tool.guard.is_some() {
                schema::list_guard_arguments(&mut tool.input, with_request);
                tool.listed.input_schema = Arc::new(schema::published_input(&tool.input));
            }
        }
    }

    /// The toolsets, in order.
    pub fn toolsets(&self) -> impl Iterator<Item = &ToolsetInfo> {
        self.toolsets.iter()
    }

    /// The tools, in order.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter()
    }

    /// The tools of one toolset, in order.
    pub fn tools_of<'a>(&'a self, toolset: &'a str) -> impl Iterator<Item = &'a Tool> {
        self.tools
            .iter()
            .filter(move |tool| tool.toolset == toolset)
    }

    /// The tool of that name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(*self.index.get(name)?)
    }

    #[cfg(test)]
    pub(super) fn set_expected(
        &mut self,
        tool: &str,
        example: usize,
        answer: Option<prose::ExpectedAnswer>,
    ) {
        let index = self.index[tool];
        self.tools[index].examples[example].answer = answer;
    }

    #[cfg(test)]
    pub(super) fn replace_handler(&mut self, tool: &str, run: Run<Value>) {
        let index = self.index[tool];
        self.tools[index].run = run;
    }

    #[cfg(test)]
    pub(super) fn replace_impact(&mut self, tool: &str, impact: Run<String>) {
        let index = self.index[tool];
        self.tools[index].guard.as_mut().unwrap().impact = impact;
    }
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive('.')
        .next()
        .unwrap_or_default()
        .trim_end_matches('.')
}

fn check(declared: &Declared, section: Option<&prose::Section>, problems: &mut Vec<Problem>) {
    let name = declared.name;
    let is_well_named = name.len() <= NAME_MAX
        && name.strip_prefix("bunqueue_").is_some_and(|rest| {
            rest.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        });
    if !is_well_named {
        problems.push(Problem::Name(name));
    }
    let is_target = |target| {
        let required = declared.input.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|name| name == target))
    };
    let is_argument = |name| {
        let arguments = declared.input.get("properties");
        arguments.is_some_and(|arguments| arguments.get(name).is_some())
    };
    if declared.impact.is_some() != declared.policy.confirm.is_some()
        || !declared.policy.confirm.is_none_or(is_target)
        || !declared.policy.unless.is_none_or(is_argument)
    {
        problems.push(Problem::Guard(name));
    }
    match section {
        None => problems.push(Problem::NoProse(name)),
        Some(section) => {
            let length = section.description.chars().count();
            if length == 0 || length > DESCRIPTION_MAX {
                problems.push(Problem::Description { tool: name, length });
            }
            if section.examples.is_empty() {
                problems.push(Problem::NoExample(name));
            }
        }
    }
}

fn complete(toolset: &'static str, declared: Declared, section: prose::Section) -> Tool {
    let input: Arc<JsonObject> = Arc::new(schema::published_input(&declared.input));
    let output: Arc<JsonObject> = Arc::new(schema::published_output(&declared.output));
    let listed = rmcp::model::Tool::new(declared.name, section.description.clone(), input)
        .with_title(declared.title)
        .with_raw_output_schema(output)
        .with_annotations(declared.policy.annotations());
    let guard = declared
        .policy
        .confirm
        .zip(declared.impact)
        .map(|(target, impact)| Guard { target, impact });
    Tool {
        name: declared.name,
        title: declared.title,
        toolset,
        policy: declared.policy,
        description: section.description,
        notes: section.notes,
        examples: section.examples,
        input: declared.input,
        output: declared.output,
        errors: declared.errors,
        text_member: declared.text_member,
        listed,
        guard,
        run: declared.run,
    }
}
