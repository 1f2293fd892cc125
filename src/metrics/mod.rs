//! Metrics for Prometheus (engine contract, section 22): the text that every door hands out, and what the system says of
//! this process, with warnings when it takes much memory or its data file much room. The figures themselves are the engine's, read in one turn.

mod process;
mod text;
mod tools;
mod warning;

use std::sync::Arc;

pub use process::Process;
pub use text::{CONTENT_TYPE, render};
pub use tools::ToolFigures;
pub use warning::{warn_of_memory, warn_of_storage};

use text::Text;

use crate::broker::{Broker, BrokerExt};
use crate::command::{CommandError, GetOverview};

/// Makes the text on demand.
#[derive(Clone)]
pub struct Exporter {
    broker: Arc<dyn Broker>,
    labelled_queues: usize,
    tools: Option<Arc<ToolFigures>>,
}

impl Exporter {
    /// Of a broker, with figures of at most so many queues; the rest is only counted.
    pub fn new(broker: Arc<dyn Broker>, labelled_queues: usize) -> Self {
        Self {
            broker,
            labelled_queues,
            tools: None,
        }
    }

    /// The same, with the figures of the tools that agents call.
    #[must_use]
    pub fn with_tools(mut self, tools: Arc<ToolFigures>) -> Self {
        self.tools = Some(tools);
        self
    }

    /// The text of this moment.
    ///
    /// # Errors
    /// When the broker cannot answer.
    pub async fn text(&self) -> Result<String, CommandError> {
        if let Some(text) = self.broker.exposition() {
            return Ok(text.await?.to_string());
        }
        let asked = GetOverview {
            registered: false,
            queues: self.labelled_queues,
        };
        let overview = self.broker.call(asked).await?;
        let connections = self.broker.connections();
        let process = Process::now();
        let mut text = Text::after(render(&overview, &process, connections));
        if let Some(tools) = &self.tools {
            tools.write(&mut text);
        }
        Ok(text.into_string())
    }
}
