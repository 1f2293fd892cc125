//! Named schedules.

use std::sync::Arc;

use super::{Execute, Outcome};
use crate::engine::Progressing::Done;
use crate::engine::{CronPage, Engine, NewCron, Turn};

/// Adds a cron, or replaces the one with that name.
#[derive(Clone, Debug, PartialEq)]
pub struct UpsertCron {
    /// The cron, checked by [`crate::command::schedule::CronDraft::check`].
    pub cron: NewCron,
}

impl Execute for UpsertCron {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(Box::new(engine.upsert_cron(turn, self.cron)?)))
    }
}

/// Reads a cron.
#[derive(Clone, Debug, PartialEq)]
pub struct GetCron {
    /// Its name.
    pub name: Arc<str>,
}

impl Execute for GetCron {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.cron(turn, &self.name).map(Box::new)))
    }
}

/// Lists crons.
#[derive(Clone, Debug, PartialEq)]
pub struct ListCrons {
    /// A page in order of the next run; `None` lists all in order of creation.
    pub page: Option<CronPage>,
}

impl Execute for ListCrons {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.crons(turn, self.page)))
    }
}

/// Deletes a cron; its jobs stay.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteCron {
    /// Its name.
    pub name: Arc<str>,
}

impl Execute for DeleteCron {
    fn execute(self, engine: &mut Engine, turn: &mut Turn<'_>) -> Outcome<Self::Reply> {
        Ok(Done(engine.delete_cron(turn, &self.name)))
    }
}
