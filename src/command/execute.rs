//! From a command to the engine and back: the pure half of a broker.

use super::bounds::cut;
use super::{Command, CommandError, Removed, Reply, Workers};
use crate::engine::{Engine, FailReport, Progressing, PullRequest, Turn, WaiterId};

/// What became of a command.
#[derive(Debug)]
pub enum Executed {
    /// It is over.
    Done(Result<Reply, CommandError>),
    /// It waits; the end comes as an effect.
    Waiting(WaiterId),
}

/// Executes one command.
pub fn execute(engine: &mut Engine, turn: &mut Turn<'_>, command: Command) -> Executed {
    let reply = match command {
        Command::Pull(c) => {
            let request = PullRequest {
                queue: c.queue.shared(),
                count: c.count,
                wait: c.wait,
                locked: c.owner.is_some(),
                lock_ttl: c.lock_ttl,
                detach: c.detach,
            };
            return progressing(engine.pull(turn, request), Reply::Pulled);
        }
        Command::WaitJob(c) => {
            return progressing(
                engine.wait_job(turn, &c.id, c.until, c.timeout),
                Reply::Waited,
            );
        }
        Command::Ack(c) => engine
            .ack(turn, &c.id, c.token, c.result, c.remove_on_complete)
            .map(Reply::Reported)
            .map_err(Into::into),
        Command::AckMany(c) => ack_many(engine, turn, c.items),
        Command::Fail(c) => engine
            .fail(turn, &c.id, c.token, cut_report(c.report))
            .map(Reply::Reported)
            .map_err(Into::into),
        Command::Discard(c) => engine
            .discard(turn, &c.id, c.token)
            .map(Reply::Changed)
            .map_err(Into::into),
        Command::ChangeDelay(c) => engine
            .change_delay(turn, &c.id, c.delay, c.token)
            .map(Reply::Changed)
            .map_err(Into::into),
        Command::MoveToWait(c) => engine
            .move_to_wait(turn, &c.id, c.token)
            .map(Reply::Changed)
            .map_err(Into::into),
        Command::Add(c) => Ok(Reply::Added(engine.add(turn, &c.queue.shared(), c.job))),
        Command::AddMany(c) => Ok(Reply::AddedMany(engine.add_many(
            turn,
            &c.queue.shared(),
            c.jobs,
        ))),
        Command::Heartbeat(c) => {
            let renew =
                |item: super::Renew| engine.heartbeat(turn, &item.id, item.token, item.duration);
            Ok(Reply::Renewed(c.items.into_iter().map(renew).collect()))
        }
        Command::ExtendLock(c) => {
            let renew =
                |item: super::Renew| engine.extend_lock(turn, &item.id, item.token, item.duration);
            Ok(Reply::Renewed(c.items.into_iter().map(renew).collect()))
        }
        Command::Cancel(c) => Ok(Reply::Changed(engine.cancel(turn, &c.id))),
        Command::UpdateData(c) => Ok(Reply::Changed(engine.update_data(turn, &c.id, c.data))),
        Command::ChangePriority(c) => Ok(Reply::Changed(
            engine.change_priority(turn, &c.id, c.priority, c.lifo),
        )),
        Command::Promote(c) => Ok(Reply::Changed(engine.promote(turn, &c.id))),
        Command::PromoteMany(c) => Ok(Reply::Counted(engine.promote_many(
            turn,
            c.queue.as_str(),
            c.count,
        ))),
        Command::Progress(c) => Ok(Reply::Changed(engine.progress(
            turn,
            &c.id,
            c.progress,
            c.message.map(cut),
        ))),
        Command::AddLog(c) => Ok(Reply::Changed(engine.add_log(
            turn,
            &c.id,
            cut(c.level),
            cut(c.message),
        ))),
        Command::ClearLogs(c) => {
            engine.clear_logs(turn, &c.id, c.keep);
            Ok(Reply::Done(()))
        }
        Command::Pause(c) => {
            engine.pause(turn, &c.queue.shared());
            Ok(Reply::Done(()))
        }
        Command::Resume(c) => {
            engine.resume(turn, &c.queue.shared());
            Ok(Reply::Done(()))
        }
        Command::Drain(c) => Ok(Reply::Removed(Removed {
            count: engine.drain(turn, c.queue.as_str()),
            ids: Vec::new(),
        })),
        Command::Clean(c) => {
            let ids = engine.clean(turn, c.queue.as_str(), c.grace, c.state, c.limit);
            Ok(Reply::Removed(Removed {
                count: ids.len(),
                ids,
            }))
        }
        Command::Obliterate(c) => Ok(Reply::Removed(Removed {
            count: engine.obliterate(turn, c.queue.as_str()),
            ids: Vec::new(),
        })),
        Command::RemoveDedupKey(c) => Ok(Reply::Counted(usize::from(engine.remove_dedup_key(
            turn,
            c.queue.as_str(),
            &c.key,
        )))),
        Command::RemoveJobDedupKey(c) => Ok(Reply::Flag(engine.remove_job_dedup_key(turn, &c.id))),
        Command::RegisterWorker(c) => Ok(Reply::Worker(Box::new(
            engine.register_worker(turn, c.worker),
        ))),
        Command::WorkerHeartbeat(c) => {
            Ok(Reply::Flag(engine.worker_heartbeat(turn, &c.id, c.figures)))
        }
        Command::UnregisterWorker(c) => Ok(Reply::Flag(engine.unregister_worker(turn, &c.id))),
        Command::GetJob(c) => Ok(Reply::Job(engine.job(turn, &c.id).map(Box::new))),
        Command::GetJobByCustomId(c) => Ok(Reply::Job(
            engine.job_by_custom_id(turn, &c.id).map(Box::new),
        )),
        Command::GetState(c) => Ok(Reply::State(engine.state(turn, &c.id))),
        Command::GetResult(c) => Ok(Reply::Result(engine.result(turn, &c.id))),
        Command::GetLogs(c) => Ok(Reply::Logs(engine.logs(turn, &c.id))),
        Command::GetJobs(c) => Ok(Reply::Jobs(engine.jobs(turn, &c.listing))),
        Command::GetCounts(c) => Ok(Reply::Counts(engine.counts(turn, c.queue.as_str()))),
        Command::GetCountsPerPriority(c) => Ok(Reply::PriorityCounts(
            engine.counts_per_priority(turn, c.queue.as_str()),
        )),
        Command::ListQueues(_) => Ok(Reply::Names(engine.queue_names(turn))),
        Command::IsPaused(c) => Ok(Reply::Flag(engine.is_paused(turn, c.queue.as_str()))),
        Command::GetDedupOwner(c) => Ok(Reply::Id(engine.dedup_owner(
            turn,
            c.queue.as_str(),
            &c.key,
        ))),
        Command::ListWorkers(_) => {
            let (list, stats) = engine.workers(turn);
            Ok(Reply::Workers(Workers { list, stats }))
        }
    };
    Executed::Done(reply)
}

/// What a worker writes into a job is cut, whichever door it came through.
fn cut_report(report: FailReport) -> FailReport {
    let lines = |stack: Vec<_>| stack.into_iter().map(cut).collect();
    FailReport {
        error: report.error.map(cut),
        stack: report.stack.map(lines),
        ..report
    }
}

fn progressing<T>(outcome: Progressing<T>, reply: fn(T) -> Reply) -> Executed {
    match outcome {
        Progressing::Done(value) => Executed::Done(Ok(reply(value))),
        Progressing::Waiting(waiter) => Executed::Waiting(waiter),
    }
}

/// Every token is checked before anything is applied; then each report has its own outcome (engine contract, B-29).
fn ack_many(
    engine: &mut Engine,
    turn: &mut Turn<'_>,
    items: Vec<super::Ack>,
) -> Result<Reply, CommandError> {
    for item in &items {
        engine.check_token(turn, &item.id, item.token)?;
    }
    let outcomes = items.into_iter().map(|item| {
        engine
            .ack(
                turn,
                &item.id,
                item.token,
                item.result,
                item.remove_on_complete,
            )
            .map_err(CommandError::from)
    });
    Ok(Reply::ReportedMany(outcomes.collect()))
}
