//! Where a command meets the engine, under its lock.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::keeping::Asked;
use super::reading::{Missed, Reading};
use super::shared::{Core, Shared};
use super::wait::Wait;
use super::{Storing, Submitted};
use crate::command::{Command, Executed, execute};
use crate::engine::{ConnectionId, Millis};

/// Runs commands up to the first one that misses something; those behind it stay.
pub(super) fn run_all(
    shared: &Arc<Shared>,
    core: &mut Core,
    now: Millis,
    caller: Option<ConnectionId>,
    commands: &mut Vec<Command>,
    answers: &mut Vec<Submitted>,
    reading: &mut Reading<'_>,
) -> (Option<Storing>, Option<Box<Missed>>) {
    reading.hand_over(core);
    let measured = core.meter.begin(commands, &*shared.clock);
    let (mut gated, mut missed) = (false, None);
    let mut rest = commands.drain(..);
    for command in rest.by_ref() {
        match run(shared, core, now, caller, command) {
            Ok((answer, waits)) => {
                gated |= waits;
                answers.push(answer);
            }
            Err(command) => {
                missed = Some(command);
                break;
            }
        }
    }
    let rest: Vec<Command> = rest.collect();
    // Mostly there is none, and the list keeps its room.
    if !rest.is_empty() {
        *commands = rest;
    }
    if let Some(measured) = measured {
        measured.end(&mut core.engine, &*shared.clock);
    }
    let keeping = core.keeping.as_mut().filter(|_| gated);
    let storing = keeping.map(|keeping| Box::pin(keeping.everything(&core.engine)) as Storing);
    (storing, missed)
}

/// Runs one command, unless it misses something.
pub(super) fn run_one(
    shared: &Arc<Shared>,
    core: &mut Core,
    now: Millis,
    caller: Option<ConnectionId>,
    command: Command,
) -> Result<Submitted, Box<Missed>> {
    let measured = core
        .meter
        .begin(std::slice::from_ref(&command), &*shared.clock);
    let ran = run(shared, core, now, caller, command);
    if let Some(measured) = measured {
        measured.end(&mut core.engine, &*shared.clock);
    }
    let (answer, gated) = ran?;
    Ok(match (answer, core.keeping.as_mut()) {
        (Submitted::Done(reply), Some(keeping)) if gated => {
            let stored = keeping.everything(&core.engine);
            Submitted::Later(Box::pin(async move { stored.await.and(reply) }))
        }
        (answer, _) => answer,
    })
}

/// What has ended when both have.
pub(super) fn both(one: Option<Storing>, other: Option<Storing>) -> Option<Storing> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Box::pin(async move { one.await.and(other.await) })),
        (one, other) => one.or(other),
    }
}

/// Runs a command; whether its answer has to wait until the step is stored.
fn run(
    shared: &Arc<Shared>,
    core: &mut Core,
    now: Millis,
    caller: Option<ConnectionId>,
    command: Command,
) -> Result<(Submitted, bool), Box<Missed>> {
    let keeping = core.keeping.as_ref();
    if let Some(error) = keeping.and_then(|it| it.refuses(&core.engine, &command)) {
        return Ok((Submitted::Done(Err(error)), false));
    }
    let again = (core.engine.has_cold_jobs() && command.may_miss()).then(|| command.clone());
    let asked = keeping.map_or(Asked::Question, |it| it.asked(&command));
    let (engine, mut turn) = core.turn(now, caller);
    let executed = execute(engine, &mut turn, command);
    if let Some(command) = again {
        let jobs = core.engine.missed();
        if !jobs.is_empty() {
            let chills = core.engine.chills();
            return Err(Box::new(Missed {
                command,
                jobs,
                chills,
            }));
        }
    }
    Ok(match executed {
        Executed::Done(reply) => {
            let keeping = core.keeping.as_ref();
            let gated = keeping.is_some_and(|it| it.gates(&core.engine, asked, &reply));
            (Submitted::Done(reply), gated)
        }
        Executed::Waiting(waiter) => {
            let (sender, receiver) = oneshot::channel();
            core.waits.insert(waiter, sender);
            let wait = Wait::new(shared, waiter, receiver);
            (Submitted::Later(Box::pin(wait)), false)
        }
    })
}
