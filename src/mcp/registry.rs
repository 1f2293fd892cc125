//! Every tool there is: declared once, checked as a whole, read by everybody.
//!
//! A tool is a name, a title, a [`Policy`], a parameter type, an answer type and a handler; its prose comes from
//! `toolsets/<toolset>.md`. The list for agents, the checks of arguments, the command line, the documentation
//! and the tests all read the [`Registry`] built here. [`Registry::new`] finds every mismatch at once and
//! the program does not start on one.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use rmcp::model::{JsonObject, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use thiserror::Error;

use super::call::Call;
use super::error::{Cause, ToolError};
use super::prose::{self, Example, Fault};
use super::{schema, tools};

/// Characters of a tool's description; every session of every agent pays for it.
pub const DESCRIPTION_MAX: usize = 160;
/// Characters of a tool's name: clients put the server's name before it, and models allow 64 in all.
pub const NAME_MAX: usize = 32;

/// What a tool may do to the world, declared once: hints, confirmation and documentation derive from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Changes nothing.
    pub read_only: bool,
    /// May destroy something that cannot be brought back.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Reaches beyond the broker.
    pub open_world: bool,
    /// The argument that names what is destroyed, for a tool whose call can be previewed and confirmed.
    pub confirm: Option<&'static str>,
}

impl Policy {
    /// Only looks.
    pub const READ: Self = Self {
        read_only: true,
        destructive: false,
        idempotent: true,
        open_world: false,
        confirm: None,
    };
    /// Changes something.
    pub const WRITE: Self = Self {
        read_only: false,
        destructive: false,
        idempotent: false,
        open_world: false,
        confirm: None,
    };
    /// Destroys something.
    pub const DESTROY: Self = Self {
        read_only: false,
        destructive: true,
        idempotent: false,
        open_world: false,
        confirm: None,
    };

    /// The same, and a repeated call changes nothing more.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// The same, and the argument `target` names what is destroyed.
    #[must_use]
    pub const fn confirm(mut self, target: &'static str) -> Self {
        self.confirm = Some(target);
        self
    }

    fn annotations(self) -> ToolAnnotations {
        ToolAnnotations::from_raw(
            None,
            Some(self.read_only),
            Some(self.destructive),
            Some(self.idempotent),
            Some(self.open_world),
        )
    }
}

type Answering<T> = Pin<Box<dyn Future<Output = Result<T, ToolError>> + Send>>;
type Run<T> = Box<dyn Fn(Call, Map<String, Value>) -> Answering<T> + Send + Sync>;

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

/// A group of tools that is exposed or hidden together, as declared.
pub struct Toolset {
    id: &'static str,
    prose: &'static str,
    tools: Vec<Declared>,
}

struct Declared {
    name: &'static str,
    title: &'static str,
    policy: Policy,
    input: Value,
    output: Value,
    errors: Vec<Cause>,
    impact: Option<Run<String>>,
    run: Run<Value>,
}

impl Toolset {
    /// An empty toolset with the text of its prose file.
    pub fn new(id: &'static str, prose: &'static str) -> Self {
        Self {
            id,
            prose,
            tools: Vec::new(),
        }
    }

    /// Declares a tool.
    #[must_use]
    pub fn tool<A, O, F, R>(
        mut self,
        name: &'static str,
        title: &'static str,
        policy: Policy,
        handler: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
        F: Fn(Call, A) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        self.tools.push(Declared {
            name,
            title,
            policy,
            input: schema::input::<A>(),
            output: schema::output::<O>(),
            errors: Vec::new(),
            impact: None,
            run: erase(handler, |answer| {
                serde_json::to_value(answer).map_err(|_| ToolError::Internal)
            }),
        });
        self
    }

    /// Declares a tool whose policy names a target, with what tells the impact of a call before it.
    #[must_use]
    pub fn guarded<A, O, F, R, G, S>(
        self,
        name: &'static str,
        title: &'static str,
        policy: Policy,
        handler: F,
        impact: G,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
        F: Fn(Call, A) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, ToolError>> + Send + 'static,
        G: Fn(Call, A) -> S + Send + Sync + 'static,
        S: Future<Output = Result<String, ToolError>> + Send + 'static,
    {
        let mut toolset = self.tool(name, title, policy, handler);
        if let Some(declared) = toolset.tools.last_mut() {
            declared.impact = Some(erase(impact, Ok));
            schema::add_guard_arguments(&mut declared.input);
            schema::add_guard_answer(&mut declared.output, policy.confirm.unwrap_or_default());
        }
        toolset
    }

    /// Names the errors of the tool declared last.
    #[must_use]
    pub fn errors(mut self, errors: &[Cause]) -> Self {
        if let Some(declared) = self.tools.last_mut() {
            declared.errors.extend_from_slice(errors);
        }
        self
    }
}

fn erase<A, O, T, F, R>(
    handler: F,
    finish: impl Fn(O) -> Result<T, ToolError> + Copy + Send + Sync + 'static,
) -> Run<T>
where
    A: DeserializeOwned,
    F: Fn(Call, A) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
    T: Send + 'static,
{
    Box::new(
        move |call, arguments| match serde_json::from_value(Value::Object(arguments)) {
            Ok(arguments) => {
                let answer = handler(call, arguments);
                Box::pin(async move { finish(answer.await?) })
            }
            Err(error) => {
                // The schema took what the type does not: a fault of the declaration.
                tracing::error!(%error, "arguments passed their schema and do not parse");
                Box::pin(ready(Err(ToolError::Internal)))
            }
        },
    )
}

/// What the documentation says of a toolset as a whole.
pub struct ToolsetInfo {
    /// Its id.
    pub id: &'static str,
    /// What it is for: Markdown paragraphs.
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
        self.toolsets.push(ToolsetInfo {
            id: toolset.id,
            summary: page.summary,
        });
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

    /// Every toolset.
    pub fn everything(&self) -> Selection {
        Selection {
            toolsets: self.toolsets().map(|toolset| toolset.id).collect(),
        }
    }

    /// The toolsets that a setting exposes: none or `all` is every one, otherwise a list of ids, in any case.
    ///
    /// # Errors
    /// When the list names an unknown toolset, or none at all.
    pub fn select(&self, setting: Option<&str>) -> Result<Selection, SelectionError> {
        let Some(setting) = setting.map(str::trim).filter(|setting| !setting.is_empty()) else {
            return Ok(self.everything());
        };
        let named: Vec<_> = setting
            .split(',')
            .map(|id| id.trim().to_lowercase())
            .filter(|id| !id.is_empty())
            .collect();
        if named.is_empty() {
            return Err(SelectionError::Empty);
        }
        let is_all = |id: &String| id == "all";
        let known = |id: &String| is_all(id) || self.toolsets().any(|toolset| toolset.id == id);
        if !named.iter().all(known) {
            return Err(SelectionError::Unknown {
                given: named
                    .into_iter()
                    .filter(|id| !known(id))
                    .collect::<Vec<_>>()
                    .join(", "),
                valid: self
                    .toolsets()
                    .map(|toolset| toolset.id)
                    .collect::<Vec<_>>()
                    .join(", "),
            });
        }
        let is_named = |id: &str| named.iter().any(|named| is_all(named) || named == id);
        Ok(Selection {
            toolsets: self
                .toolsets()
                .map(|toolset| toolset.id)
                .filter(|id| is_named(id))
                .collect(),
        })
    }
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
    if declared.impact.is_some() != declared.policy.confirm.is_some()
        || !declared.policy.confirm.is_none_or(is_target)
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
        listed,
        guard,
        run: declared.run,
    }
}

/// The toolsets that a server exposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    toolsets: Vec<&'static str>,
}

impl Selection {
    /// Whether tools of that toolset are exposed.
    pub fn exposes(&self, toolset: &str) -> bool {
        self.toolsets.contains(&toolset)
    }

    /// The ids, in order.
    pub fn toolsets(&self) -> &[&'static str] {
        &self.toolsets
    }
}

/// Why a setting selects no toolsets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectionError {
    /// Some ids are unknown.
    #[error("Unknown BUNQUEUE_MCP_TOOLSETS value(s): {given}. Valid: all, {valid}")]
    Unknown {
        /// Those ids.
        given: String,
        /// The known ones.
        valid: String,
    },
    /// Separators only.
    #[error("BUNQUEUE_MCP_TOOLSETS lists no toolset")]
    Empty,
}

/// Everything that is wrong with the declared tools and their prose.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct RegistryError {
    /// In the order in which they were found.
    pub problems: Vec<Problem>,
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("The tools and their texts do not agree:")?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "\n- {problem}"))
    }
}

/// One mismatch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// A prose file cannot be read as one.
    #[error("toolsets/{toolset}.md: {fault}")]
    Prose {
        /// Its toolset.
        toolset: &'static str,
        /// What is wrong.
        fault: Fault,
    },
    /// The title of a prose file is another toolset's.
    #[error("toolsets/{toolset}.md has the title {heading:?}")]
    Heading {
        /// The toolset.
        toolset: &'static str,
        /// The title.
        heading: String,
    },
    /// A prose file does not say what its toolset is for.
    #[error("toolsets/{0}.md does not say what the toolset is for")]
    NoSummary(&'static str),
    /// A tool has two sections.
    #[error("toolsets/{toolset}.md has two sections {name}")]
    TwiceInProse {
        /// The toolset.
        toolset: &'static str,
        /// The tool.
        name: String,
    },
    /// A section belongs to no tool.
    #[error("toolsets/{toolset}.md has a section {name}, which is no tool")]
    NoTool {
        /// The toolset.
        toolset: &'static str,
        /// The heading.
        name: String,
    },
    /// Two tools have one name.
    #[error("{0} is declared twice")]
    Twice(&'static str),
    /// A name that clients may refuse.
    #[error("{0} is no tool name")]
    Name(&'static str),
    /// A tool has a target or an impact and not both, or its target is no required argument.
    #[error("{0} is half guarded")]
    Guard(&'static str),
    /// A tool has no section.
    #[error("{0} has no section in its prose file")]
    NoProse(&'static str),
    /// A description is missing or too long.
    #[error("{tool} has a description of {length} characters")]
    Description {
        /// The tool.
        tool: &'static str,
        /// Characters of its description.
        length: usize,
    },
    /// A tool has no example.
    #[error("{0} has no example")]
    NoExample(&'static str),
}
