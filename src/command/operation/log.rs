//! Logs of jobs.

use std::sync::Arc;

use super::{Execute, Outcome};
use crate::command::bounds::{LOG_LEVEL_MAX, cut, cut_to};
use crate::engine::Progressing::Done;
use crate::engine::{Engine, JobId, Turn};

/// Appends a log line.
#[derive(Clone, Debug, PartialEq)]
pub struct AddLog {
    /// The job.
    pub id: JobId,
    /// `info`, `warn`, `error`.
    pub level: Arc<str>,
    /// The text.
    pub message: Arc<str>,
}

impl Execute for AddLog {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.add_log(
            turn,
            &self.id,
            cut_to(LOG_LEVEL_MAX, self.level),
            cut(self.message),
        )))
    }
}

/// Reads the log of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct GetLogs {
    /// The job.
    pub id: JobId,
}

impl Execute for GetLogs {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.logs(turn, &self.id)))
    }
}

/// Deletes log lines, keeping the newest.
#[derive(Clone, Debug, PartialEq)]
pub struct ClearLogs {
    /// The job.
    pub id: JobId,
    /// How many to keep.
    pub keep: usize,
}

impl Execute for ClearLogs {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        engine.clear_logs(turn, &self.id, self.keep);
        Ok(Done(()))
    }
}
