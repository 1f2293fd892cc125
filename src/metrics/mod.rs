//! Metrics for Prometheus (engine contract, section 22): the text that every door hands out, and what the system says of
//! this process, with warnings when it takes much memory or its data file much room. The figures themselves are the engine's, read in one turn.

mod process;
mod text;
mod warning;

use std::sync::Arc;

pub use process::Process;
pub use text::{CONTENT_TYPE, render};
pub use warning::{warn_of_memory, warn_of_storage};

use crate::broker::{Broker, BrokerExt};
use crate::command::{CommandError, GetOverview};

/// Makes the text on demand.
#[derive(Clone)]
pub struct Exporter {
    broker: Arc<dyn Broker>,
    labelled_queues: usize,
}

impl Exporter {
    /// Of a broker, with figures of at most so many queues; the rest is only counted.
    pub fn new(broker: Arc<dyn Broker>, labelled_queues: usize) -> Self {
        Self {
            broker,
            labelled_queues,
        }
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
        Ok(render(&overview, &process, connections))
    }
}
