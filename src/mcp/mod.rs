//! The agent door: an MCP server on stdio and on Streamable HTTP, whose tools are thin translators to the commands
//! below.
//!
//! A [`Registry`] holds every tool, declared once with its prose; a [`Dispatcher`] calls them on a broker; an
//! [`AgentHandler`] is the MCP server around it. Policy, leniency, size and error texts live in the one path
//! through `dispatch`; rules about jobs live below the seam. The transports ([`stdio`], [`http`]) stand in front of
//! rmcp and are generic over its handler type; they know nothing of tools.

mod arguments;
mod call;
mod confirm;
mod decision;
mod disclosure;
mod dispatch;
mod elicitation;
mod ending;
mod envelope;
mod error;
pub mod example;
mod foreign;
mod handler;
pub mod http;
mod nearest;
mod page;
mod parameter;
mod prose;
mod registry;
pub mod schema;
mod server_info;
pub mod stdio;
mod tools;
mod view;

use std::time::Duration;

pub use arguments::{Issue, expected};
pub use call::{Caller, ProgressReport};
pub use confirm::{Ask, Asking, Reply};
pub use decision::{DecisionModel, DecisionOptions};
pub use disclosure::Loaded;
pub use dispatch::{Answer, Dispatcher, UnknownTool};
pub use ending::Ending;
pub use error::{Cause, CauseText, Rule, ToolError};
pub use handler::AgentHandler;
pub use nearest::nearest;
pub use prose::{Example, ExpectedAnswer};
pub use registry::{
    Disclosure, Policy, Problem, Registry, RegistryError, Selection, SelectionError, Tool,
    ToolsetInfo,
};
pub use server_info::{CountedSession, HttpFacts, Mode, OpenSessions, ServerInfo, Transport};

/// How long requests in flight may go on after the shutdown token fired. With the time to close the backend this keeps the
/// process within the 2 seconds that the end of input or a signal may take while requests are open.
pub const STOP_GRACE: Duration = Duration::from_millis(1500);

#[cfg(test)]
mod echo_server;
#[cfg(test)]
mod tests;
