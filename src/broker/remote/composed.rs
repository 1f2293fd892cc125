//! Commands that one request cannot answer: made of several, each of an instant of its own.

use std::sync::Arc;

use super::Inner;
use crate::broker::Clock;
use crate::command::{
    AddFlow, Command, CommandError, GetChildFailures, GetCounts, GetDlq, GetDlqConfig, GetFlow,
    GetJob, GetJobByCustomId, GetJobs, GetQueueHealth, GetQueueLimits, GetStallConfig, GetState,
    GetStats, IsPaused, ListCrons, ListQueueWorkers, ListQueues, ListWorkers, RemoteFault, Reply,
    SetDlqConfig, SetStallConfig, Workers,
};
use crate::engine::{
    Bucket, Cron, CronPage, DlqFilter, FLOW_DEPTH_MAX, FLOW_JOBS_MAX, Failure, FlowNode, JobDetail,
    JobId, JobView, Listing, Millis, QueueHealth, QueueLimits, State, WorkerStats,
};
use crate::wire::client;

/// Jobs of a state that are looked at for what a server does not count.
const LOOKED_AT: usize = 1_000;

/// Dead letters that are looked through at a time for the one of a job.
const LETTERS_PER_PAGE: usize = 100;

/// Pages of dead letters of one moment that are looked through.
const PAGES_MAX: usize = 10;

/// The reply to a command that takes several requests; the command itself for any other.
pub(super) async fn compose(
    inner: &Arc<Inner>,
    command: Command,
) -> Result<Result<Reply, CommandError>, Command> {
    Ok(match command {
        Command::GetStats(GetStats) => stats(inner).await,
        Command::GetJob(get) => job(inner, get.id).await.map(Reply::Job),
        Command::GetJobByCustomId(get) => by_custom_id(inner, get).await.map(Reply::Job),
        Command::GetJobs(get) if get.listing.after.is_some() => {
            jobs_after(inner, get.listing).await.map(Reply::Jobs)
        }
        Command::AddFlow(flow) => add_flow(inner, flow).await,
        Command::GetFlow(get) => flow(inner, &get).await.map(Reply::Flow),
        Command::GetChildFailures(get) => child_failures(inner, &get).await,
        Command::ListCrons(ListCrons { page: Some(page) }) => {
            crons(inner, page).await.map(Reply::Crons)
        }
        Command::GetQueueLimits(get) => limits(inner, get).await.map(Reply::Limits),
        Command::GetQueueHealth(get) => health(inner, get).await.map(Reply::Health),
        Command::ListQueueWorkers(get) => workers_of(inner, get).await.map(Reply::Workers),
        Command::SetDlqConfig(set) => set_dlq_config(inner, set).await,
        Command::SetStallConfig(set) => set_stall_config(inner, set).await,
        other => return Err(other),
    })
}

async fn stats(inner: &Inner) -> Result<Reply, CommandError> {
    match inner.hear(client::stats(), NOW).await? {
        Reply::Stats(stats) => inner.hear(client::metrics(stats), NOW).await,
        _ => Err(RemoteFault::Unreadable.into()),
    }
}

/// No longer than any request.
const NOW: std::time::Duration = std::time::Duration::ZERO;

/// A job; of one that failed for good, also why: its dead letter says so.
async fn job(inner: &Inner, id: JobId) -> Result<Option<Box<JobDetail>>, CommandError> {
    let Some(mut found) = inner.ask(GetJob { id }).await? else {
        return Ok(None);
    };
    if found.job.state == State::Failed {
        found.failure = failure(inner, &found.job).await?;
    }
    Ok(Some(found))
}

/// Letters are found by the moment at which they were written, which the history of the job has.
async fn failure(inner: &Inner, job: &JobView) -> Result<Option<Failure>, CommandError> {
    let failed = job.timeline.iter().rev();
    let mut failed = failed.filter(|entry| entry.state == State::Failed);
    let since = failed.next().map(|entry| entry.at);
    let queue = crate::command::QueueName::lenient(&job.queue);
    for page in 0..PAGES_MAX {
        let letters = inner
            .ask(GetDlq {
                queue: queue.clone(),
                filter: DlqFilter {
                    newer_than: since,
                    offset: page * LETTERS_PER_PAGE,
                    limit: Some(LETTERS_PER_PAGE),
                    ..DlqFilter::default()
                },
            })
            .await?;
        let is_last = letters.len() < LETTERS_PER_PAGE;
        let found = letters.into_iter().find(|letter| letter.job.id == job.id);
        if found.is_some() || is_last {
            return Ok(found.map(|letter| letter.failure));
        }
    }
    Ok(None)
}

/// This request alone shows no state.
async fn by_custom_id(
    inner: &Inner,
    get: GetJobByCustomId,
) -> Result<Option<Box<JobDetail>>, CommandError> {
    let id = get.id.clone();
    let Some(mut found) = inner.ask(get).await? else {
        return Ok(None);
    };
    if let Some(state) = inner.ask(GetState { id }).await? {
        found.job.state = state;
    }
    Ok(Some(found))
}

/// The protocol counts places from the first job; where the jobs behind a place begin is searched for.
async fn jobs_after(inner: &Inner, listing: Listing) -> Result<Vec<JobDetail>, CommandError> {
    let Some((at, id)) = listing.after.clone() else {
        return Ok(Vec::new());
    };
    let page = |offset, limit| GetJobs {
        listing: Listing {
            after: None,
            offset,
            limit,
            ..listing.clone()
        },
    };
    let is_before = |job: &JobView| {
        let place = (job.created_at, &job.id);
        if listing.ascending {
            place <= (at, &id)
        } else {
            place >= (at, &id)
        }
    };
    // All jobs before `low` come before the place, the one at `high` does not.
    let (mut low, mut high) = (0, None);
    loop {
        let middle = match high {
            Some(high) if low >= high => break,
            Some(high) => low + (high - low) / 2,
            None => low * 2 + LETTERS_PER_PAGE,
        };
        let seen = inner.ask(page(middle, 1)).await?;
        match seen.first() {
            Some(seen) if is_before(&seen.job) => low = middle + 1,
            _ => high = Some(middle),
        }
    }
    inner.ask(page(low + listing.offset, listing.limit)).await
}

/// Ids that the engine would choose are chosen here: the protocol wants all of them beforehand.
async fn add_flow(inner: &Inner, mut flow: AddFlow) -> Result<Reply, CommandError> {
    {
        let mut ids = inner.ids.lock();
        let now = inner.clock.now();
        for entry in &mut flow.jobs {
            entry.id.get_or_insert_with(|| ids.job_id(now));
        }
    }
    let exchange = client::exchange(&flow.into())?;
    inner.hear(exchange, NOW).await
}

async fn child_failures(inner: &Inner, get: &GetChildFailures) -> Result<Reply, CommandError> {
    let mut all = Vec::new();
    for ignored in [false, true] {
        match inner
            .hear(client::child_failures(&get.id, ignored), NOW)
            .await?
        {
            Reply::ChildFailures(failures) => all.extend(failures),
            _ => return Err(RemoteFault::Unreadable.into()),
        }
    }
    Ok(Reply::ChildFailures(all))
}

/// A tree under construction: a job whose children are still being read.
struct Open {
    node: JobDetail,
    /// Ids of children that are still to be read, the next one last.
    left: Vec<JobId>,
    children: Vec<FlowNode>,
}

/// The tree below a job, read from the top, one job after the other.
async fn flow(inner: &Inner, get: &GetFlow) -> Result<Option<Box<FlowNode>>, CommandError> {
    let Some(top) = job(inner, get.id.clone()).await? else {
        return Ok(None);
    };
    if top.job.queue != get.queue {
        return Ok(None);
    }
    let depth = get.depth.min(FLOW_DEPTH_MAX);
    let mut jobs = FLOW_JOBS_MAX - 1;
    let mut path = vec![open(*top)];
    loop {
        let level = path.len() - 1;
        let Some(last) = path.last_mut() else {
            return Ok(None);
        };
        let is_full = level < depth && (last.children.len() >= get.children || jobs == 0);
        let next = last.left.pop().filter(|_| !is_full);
        let Some(id) = next else {
            // Nothing more below it: it is whole.
            let Some(Open { node, children, .. }) = path.pop() else {
                return Ok(None);
            };
            let whole = FlowNode {
                job: node,
                children: Some(children),
            };
            match path.last_mut() {
                Some(above) => above.children.push(whole),
                None => return Ok(Some(Box::new(whole))),
            }
            continue;
        };
        let parent = last.node.job.id.clone();
        let Some(child) = job(inner, id).await? else {
            continue;
        };
        // A job that took over a child's id is no child.
        if child.job.options.parent_id.as_deref() != Some(&*parent.text()) {
            continue;
        }
        if level < depth {
            jobs -= 1;
            path.push(open(*child));
            continue;
        }
        // There is something below the last level, which is not shown.
        let Some(Open { node, .. }) = path.pop() else {
            return Ok(None);
        };
        let cut = FlowNode {
            job: node,
            children: None,
        };
        match path.last_mut() {
            Some(above) => above.children.push(cut),
            None => return Ok(Some(Box::new(cut))),
        }
    }
}

fn open(node: JobDetail) -> Open {
    let links = node.job.links.as_deref();
    let children = links.map_or(&[][..], |links| &links.children);
    Open {
        left: children.iter().rev().cloned().collect(),
        children: Vec::new(),
        node,
    }
}

/// In the order of the next run, those without one last.
async fn crons(inner: &Inner, page: CronPage) -> Result<Vec<Cron>, CommandError> {
    let mut crons = inner.ask(ListCrons { page: None }).await?;
    crons.sort_by_key(|cron| cron.figures.next_run.unwrap_or(Millis::MAX));
    if !page.ascending {
        crons.reverse();
    }
    let end = page.end.map_or(usize::MAX, |end| end.saturating_add(1));
    let wanted = end.saturating_sub(page.start);
    Ok(crons.into_iter().skip(page.start).take(wanted).collect())
}

async fn limits(inner: &Inner, get: GetQueueLimits) -> Result<QueueLimits, CommandError> {
    let exchange = client::queue_limits(&get.queue, get.jobs);
    let Reply::Limits(told) = inner.hear(exchange, NOW).await? else {
        return Err(RemoteFault::Unreadable.into());
    };
    let queue = get.queue;
    let counts = inner
        .ask(GetCounts {
            queue: queue.clone(),
        })
        .await?;
    Ok(QueueLimits {
        active: counts.active,
        paused: inner.ask(IsPaused { queue }).await?,
        ..told
    })
}

/// What the first jobs of each state show, in the order of their creation.
async fn health(inner: &Inner, get: GetQueueHealth) -> Result<QueueHealth, CommandError> {
    let queue = get.queue;
    let of = |states: &[State], limit| {
        let buckets = states.iter().map(|state| Bucket::State(*state));
        let ready = states.contains(&State::Waiting).then_some(Bucket::Paused);
        GetJobs {
            listing: Listing {
                queue: queue.shared(),
                buckets: buckets.chain(ready).collect(),
                after: None,
                offset: 0,
                limit,
                ascending: true,
            },
        }
    };
    let names = inner.ask(ListQueues).await?;
    let ready = inner
        .ask(of(&[State::Waiting, State::Prioritized], LOOKED_AT))
        .await?;
    let active = inner.ask(of(&[State::Active], LOOKED_AT)).await?;
    let delayed = inner.ask(of(&[State::Delayed], LOOKED_AT)).await?;
    let stalls = inner
        .ask(GetStallConfig {
            queue: queue.clone(),
        })
        .await?;
    let now = inner.clock.now();
    let age = |at: Millis| now.saturating_sub(at).max(0);
    let is_silent = |found: &&JobDetail| {
        let allowed = found.job.options.stall_timeout;
        let allowed = allowed.unwrap_or(stalls.stall_interval);
        stalls.enabled && age(found.job.last_heartbeat) as f64 > allowed
    };
    Ok(QueueHealth {
        exists: names.iter().any(|name| **name == *queue.as_str()),
        oldest_waiting: ready.iter().map(|found| age(found.job.run_at)).max(),
        oldest_active: active
            .iter()
            .filter_map(|found| found.job.started_at.map(age))
            .max(),
        silent: active.iter().filter(is_silent).count(),
        next_run: delayed.iter().map(|found| found.job.run_at).min(),
    })
}

/// Those of all workers that say they serve the queue.
async fn workers_of(inner: &Inner, get: ListQueueWorkers) -> Result<Workers, CommandError> {
    let mut list = inner.ask(ListWorkers).await?.list;
    list.retain(|worker| {
        worker
            .queues
            .iter()
            .any(|queue| **queue == *get.queue.as_str())
    });
    let sum = |figure: fn(&crate::engine::WorkerView) -> f64| list.iter().map(figure).sum();
    let stats = WorkerStats {
        total: list.len(),
        active: list.iter().filter(|worker| worker.active).count(),
        total_processed: sum(|worker| worker.processed_jobs),
        total_failed: sum(|worker| worker.failed_jobs),
        active_jobs: sum(|worker| worker.active_jobs),
        concurrency_slots: sum(|worker| worker.concurrency),
    };
    Ok(Workers { list, stats })
}

async fn set_dlq_config(inner: &Inner, set: SetDlqConfig) -> Result<Reply, CommandError> {
    let exchange = client::set_dlq_config(&set.queue, &set.update);
    inner.hear(exchange, NOW).await?;
    let config = inner.ask(GetDlqConfig { queue: set.queue }).await?;
    Ok(Reply::DlqConfig(config))
}

async fn set_stall_config(inner: &Inner, set: SetStallConfig) -> Result<Reply, CommandError> {
    let exchange = client::set_stall_config(&set.queue, &set.update);
    inner.hear(exchange, NOW).await?;
    let config = inner.ask(GetStallConfig { queue: set.queue }).await?;
    Ok(Reply::StallConfig(config))
}
