//! Declaring tools: a policy, plain types and an async function each, erased to one shape.

use std::future::{Future, ready};
use std::pin::Pin;

use rmcp::model::ToolAnnotations;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::mcp::call::Call;
use crate::mcp::error::{Cause, ToolError};
use crate::mcp::schema;

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
    /// The argument that narrows such a call so far that it needs no consent.
    pub unless: Option<&'static str>,
}

impl Policy {
    /// Only looks.
    pub const READ: Self = Self {
        read_only: true,
        destructive: false,
        idempotent: true,
        open_world: false,
        confirm: None,
        unless: None,
    };
    /// Changes something.
    pub const WRITE: Self = Self {
        read_only: false,
        destructive: false,
        idempotent: false,
        open_world: false,
        confirm: None,
        unless: None,
    };
    /// Destroys something.
    pub const DESTROY: Self = Self {
        read_only: false,
        destructive: true,
        idempotent: false,
        open_world: false,
        confirm: None,
        unless: None,
    };

    /// The same, and a repeated call changes nothing more.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// The same, and it reaches beyond the broker.
    #[must_use]
    pub const fn open_world(mut self) -> Self {
        self.open_world = true;
        self
    }

    /// The same, and the argument `target` names what is destroyed.
    #[must_use]
    pub const fn confirm(mut self, target: &'static str) -> Self {
        self.confirm = Some(target);
        self
    }

    /// The same, and a call with the argument `narrow` needs no consent.
    #[must_use]
    pub const fn unless(mut self, narrow: &'static str) -> Self {
        self.unless = Some(narrow);
        self
    }

    pub(super) fn annotations(self) -> ToolAnnotations {
        ToolAnnotations::from_raw(
            None,
            Some(self.read_only),
            Some(self.destructive),
            Some(self.idempotent),
            Some(self.open_world),
        )
    }
}

/// A call under way.
type Answering<T> = Pin<Box<dyn Future<Output = Result<T, ToolError>> + Send>>;
/// A handler or an impact, whatever its types.
pub(in crate::mcp) type Run<T> =
    Box<dyn Fn(Call, Map<String, Value>) -> Answering<T> + Send + Sync>;

/// A group of tools that is exposed or hidden together, as declared.
pub struct Toolset {
    pub(super) id: &'static str,
    pub(super) prose: &'static str,
    pub(super) tools: Vec<Declared>,
}

/// A tool as declared, without its prose.
pub(super) struct Declared {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) policy: Policy,
    pub(super) input: Value,
    pub(super) output: Value,
    pub(super) errors: Vec<Cause>,
    pub(super) text_member: Option<&'static str>,
    pub(super) impact: Option<Run<String>>,
    pub(super) run: Run<Value>,
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
            text_member: None,
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

    /// The text of a result of the tool declared last is this member as it is, not the object as JSON.
    #[must_use]
    pub fn text(mut self, member: &'static str) -> Self {
        if let Some(declared) = self.tools.last_mut() {
            declared.text_member = Some(member);
        }
        self
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
