//! Whether the parts of the engine agree with each other, for tests and diagnosis.
//!
//! What one part keeps about another (a place in a queue, a deadline, an index) is worked out again from the jobs and
//! compared. One function per family, in the list of [`Engine::check`]: a new family adds its own, and whatever it has
//! timed goes into [`Armed`]. Nothing here runs in operation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use super::deadline::Timer;
use super::delivery::WaitKind;
use super::id::JobId;
use super::job::{LogLine, State};
use super::outcome::WaiterId;
use super::queue::Queue;
use super::retention::Recency;
use super::store::{Job, JobKey};
use super::waiters::Stand;
use super::worker::Worker;
use super::{Engine, Millis, Service};

type Check = Result<(), String>;

/// Every entry that the order of deadlines should have.
#[derive(Debug, Default)]
struct Armed(BTreeSet<(Millis, Timer)>);

impl Armed {
    fn needs(&mut self, at: Millis, timer: Timer) {
        self.0.insert((at, timer));
    }
}

impl Engine {
    /// Whether everything that is kept in two places says the same in both. For tests and diagnosis: it visits every job.
    ///
    /// # Errors
    /// The first disagreement found, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut armed = Armed::default();
        self.check_rest()?;
        self.check_places()?;
        self.check_jobs(&mut armed)?;
        self.check_queues(&mut armed)?;
        self.check_keys()?;
        self.check_connections()?;
        self.check_waits(&mut armed)?;
        self.check_dependencies()?;
        self.check_retention(&mut armed)?;
        self.check_names()?;
        self.check_workers(&mut armed)?;
        self.check_limits(&mut armed);
        self.check_notices(&mut armed)?;
        for (key, slot) in self.cron_slots() {
            armed.needs(slot, Timer::Cron(key));
        }
        self.check_figures()?;
        same("the order of deadlines", &armed.0, &self.deadlines.0)
    }

    /// Between two operations nothing is left to be done.
    fn check_rest(&self) -> Check {
        ensure(!self.holding && self.unserved.is_empty(), || {
            "waiting pulls are still to be served".to_owned()
        })?;
        for (_, queue) in self.queues.all() {
            let closed = self.service != Service::Open || queue.paused || !queue.has_slot();
            let served = closed || !queue.has_token(self.now);
            let waiter = queue.ready.first_waiter();
            ensure(served || waiter.is_none(), || {
                format!("{waiter:?} waits in {} although a job is ready", queue.name)
            })?;
        }
        Ok(())
    }

    /// Each job stands in exactly the place that its state says, and is found by its id.
    fn check_places(&self) -> Check {
        let mut listed = 0;
        for (place, queue) in self.queues.all() {
            let is = |key: JobKey, wanted: &[State]| {
                let known = self.store.contains(key).then(|| self.store.job(key));
                match known {
                    Some(job) if job.queue == place && wanted.contains(&job.state) => Ok(()),
                    _ => Err(format!(
                        "{key:?} stands in {} among {wanted:?}: {known:?}",
                        queue.name
                    )),
                }
            };
            ensure(queue.ready.groups.are_in_their_places(), || {
                format!("the rotation of {}: {:?}", queue.name, queue.ready.groups)
            })?;
            let ready: Vec<JobKey> = queue.ready.jobs().collect();
            let mut prioritized = 0;
            for key in &ready {
                is(*key, &[State::Waiting, State::Prioritized])?;
                let job = self.store.job(*key);
                prioritized += usize::from(job.state == State::Prioritized);
            }
            same("the number of ready jobs", &ready.len(), &queue.ready.len())?;
            same("the prioritized", &prioritized, &queue.prioritized)?;
            for (keys, state) in [
                (&queue.delayed, State::Delayed),
                (&queue.active, State::Active),
            ] {
                keys.iter().try_for_each(|key| is(*key, &[state]))?;
                listed += keys.len();
            }
            for (seq, key) in &queue.blocked {
                is(*key, &[State::WaitingChildren])?;
                same("the place of a blocked job", seq, &self.store.job(*key).seq)?;
            }
            listed += queue.blocked.len();
            for (keys, state) in [
                (&queue.completed, State::Completed),
                (&queue.failed, State::Failed),
            ] {
                for (done_seq, key) in keys {
                    is(*key, &[state])?;
                    same("the order of ends", &self.done(*key).seq, done_seq)?;
                }
                listed += keys.len();
            }
            listed += ready.len();
        }
        same("jobs in places", &self.store.all().count(), &listed)?;
        for (key, job) in self.store.all() {
            same("the job of an id", &Some(key), &self.store.find(&job.id))?;
        }
        same("ids", &self.store.all().count(), &self.store.indexed())
    }

    /// What a job says of itself fits its state, and its deadlines are those of its state.
    fn check_jobs(&self, armed: &mut Armed) -> Check {
        for (key, job) in self.store.all() {
            let (id, state) = (&job.id, job.state);
            let life = job.life.as_deref();
            let failure = life.and_then(|life| life.failure.as_ref());
            same(
                "a delivery of an active job",
                &(id, state == State::Active),
                &(id, job.run().is_some()),
            )?;
            same(
                "a dead letter of a failed job",
                &(id, state == State::Failed),
                &(id, failure.is_some()),
            )?;
            same(
                "ties of a blocked job",
                &(id, state == State::WaitingChildren),
                &(id, job.is_blocked()),
            )?;
            if state.is_queued() || state == State::WaitingChildren {
                let started_at = life.and_then(|life| life.started_at);
                same("the start of a queued job", &(id, None), &(id, started_at))?;
                if let Some(at) = job.expires_at() {
                    armed.needs(at, Timer::expire(job, key));
                }
            }
            match state {
                State::Delayed => armed.needs(job.run_at, Timer::mature(job, key)),
                State::Waiting | State::Prioritized => ensure(
                    job.run_at <= self.now && (state == State::Prioritized) == (job.priority > 0.0),
                    || format!("{job:?} is not {}", state.name()),
                )?,
                _ => {}
            }
            if let Some(run) = job.run() {
                let due = self.overdue(key).map(|(at, _)| at);
                let looked_at = run.armed_at;
                let in_time = due.is_none_or(|due| looked_at.is_some_and(|at| at <= due));
                ensure(in_time, || {
                    format!("{id} is overdue at {due:?}, but looked at only then: {run:?}")
                })?;
                if let Some(at) = looked_at {
                    armed.needs(at, Timer::delivery(job, key));
                }
            }
            if let Some(letter) = failure
                && let Some(at) = letter.armed_at
            {
                let seq = letter.trail.seq;
                armed.needs(at, Timer::DeadLetter { seq, key });
            }
        }
        Ok(())
    }

    /// Queues are found by their names, and those that nothing needs are on their way out.
    fn check_queues(&self, armed: &mut Armed) -> Check {
        for (key, queue) in self.queues.all() {
            let found = self.queues.find(&queue.name);
            same("the queue of a name", &Some(key), &found)?;
            let in_use = queue.is_awaited() || queue.idle_check_at.is_some();
            ensure(queue.forgotten.is_none() || !in_use, || {
                format!("{} is forgotten and in use", queue.name)
            })?;
            match queue.idle_check_at {
                Some(at) => armed.needs(at, Timer::Queue(key)),
                None => {
                    let waited_for =
                        queue.listed.is_none() && (queue.is_awaited() || queue.forgotten.is_some());
                    ensure(!queue.is_unused() || waited_for, || {
                        format!("{} is never forgotten", queue.name)
                    })?;
                }
            }
        }
        let with_settings = self.queues.all().filter(|(_, queue)| queue.has_settings());
        let with_settings: BTreeSet<_> = with_settings.map(|(key, _)| key).collect();
        let known = self.queues.with_settings.iter().copied().collect();
        same("queues with settings", &with_settings, &known)?;
        let groups = self
            .queues
            .all()
            .flat_map(|(_, queue)| queue.ready.groups.all());
        let groups = groups.filter(|(_, group)| group.has_settings()).count();
        same(
            "groups with settings",
            &groups,
            &self.queues.groups_with_settings,
        )?;
        let names = self.queues.all().count();
        same("names of queues", &names, &self.queues.index.len())
    }

    /// Deduplication keys belong to unfinished jobs of their queue that name them.
    fn check_keys(&self) -> Check {
        for (place, queue) in self.queues.all() {
            for (key, owner) in &queue.keys {
                let job = self.store.contains(owner.job);
                let job = job.then(|| self.store.job(owner.job));
                let names = |job: &&Job| {
                    let options = job.options.as_ref();
                    let own = options.and_then(|options| options.unique_key.as_ref());
                    job.queue == place && job.state.is_live() && own == Some(key)
                };
                ensure(job.as_ref().is_some_and(names), || {
                    format!("{key} of {} belongs to {job:?}", queue.name)
                })?;
            }
        }
        Ok(())
    }

    /// Connections know exactly the deliveries that name them.
    fn check_connections(&self) -> Check {
        let mut held: BTreeMap<_, BTreeMap<u64, JobKey>> = BTreeMap::new();
        for (key, job) in self.store.all() {
            if let Some(run) = job.run()
                && let Some(connection) = run.connection
            {
                held.entry(connection).or_default().insert(run.serial, key);
            }
        }
        let known = self.connections.iter().filter(|(_, held)| !held.is_empty());
        let known: BTreeMap<_, _> = known.map(|(id, held)| (*id, held.clone())).collect();
        same("deliveries of connections", &held, &known)
    }

    /// Waits stand in the indexes of what they wait for and of whom they belong to.
    fn check_waits(&self, armed: &mut Armed) -> Check {
        let (mut by_job, mut by_connection) = (BTreeSet::new(), BTreeSet::new());
        let mut by_queue = BTreeMap::new();
        for (waiter, wait) in &self.waits.waits {
            armed.needs(wait.ends_at, Timer::Wait(*waiter));
            by_connection.extend(wait.caller.map(|connection| (connection, *waiter)));
            match &wait.kind {
                WaitKind::Pull { queue, request } => {
                    let stand = Stand::of(request.group.as_deref());
                    let pulls: &mut BTreeMap<_, _> = by_queue.entry(*queue).or_default();
                    pulls.insert(*waiter, stand);
                }
                WaitKind::Job { key, .. } => {
                    by_job.insert((*key, *waiter));
                }
            }
        }
        let (jobs, connections) = (&self.waits.by_job, &self.waits.by_connection);
        same("waits for jobs", &by_job, jobs)?;
        same("waits of connections", &by_connection, connections)?;
        for (key, queue) in self.queues.all() {
            let pulls = by_queue.remove(&key).unwrap_or_default();
            let known = queue.ready.waiters().all().collect();
            same("pulls that wait", &pulls, &known)?;
            self.check_matches(queue, &pulls)?;
        }
        ensure(by_queue.is_empty(), || {
            format!("pulls wait in queues that are gone: {by_queue:?}")
        })?;
        let gone = by_job.iter().find(|(key, _)| !self.store.contains(*key));
        same("waits for jobs that are gone", &None, &gone)
    }

    /// The pull to be served next, in a queue and by each of its groups, is the first of all that there is a job for.
    fn check_matches(&self, queue: &Queue, pulls: &BTreeMap<WaiterId, Stand>) -> Check {
        let has_job = |waiter: &WaiterId| queue.ready.next(self.waits.wish(*waiter)).is_some();
        let first = pulls.keys().copied().find(has_job);
        same("the pull to be served", &first, &queue.ready.first_waiter())?;
        let mut served = BTreeSet::new();
        let mut by_groups = BTreeSet::new();
        for (waiter, stand) in pulls {
            if let Some(group) = stand.group()
                && has_job(waiter)
                && served.insert(group)
            {
                by_groups.insert(*waiter);
            }
        }
        let known = queue.ready.waiters().matched();
        same("the pulls to be served by groups", &by_groups, known)
    }

    /// Blocked jobs wait for jobs that exist and can still complete, and those know it; nobody waits for himself.
    fn check_dependencies(&self) -> Check {
        let mut dependents: BTreeMap<&JobId, BTreeSet<(u64, JobKey)>> = BTreeMap::new();
        for (key, job) in self.store.all() {
            for id in unmet(job) {
                let other = self.store.find(id).map(|key| self.store.job(key).state);
                ensure(other.is_some_and(|state| state != State::Completed), || {
                    format!("{} waits for {id}, which is {other:?}", job.id)
                })?;
                dependents.entry(id).or_default().insert((job.seq, key));
            }
        }
        let known = self.dependencies.dependents.iter();
        let known: BTreeMap<_, _> = known.map(|(id, keys)| (id, keys.clone())).collect();
        same("who waits for whom", &dependents, &known)?;
        let live = self.store.all().filter(|(_, job)| job.state.is_live());
        let links = live.flat_map(|(_, job)| &job.links);
        let mut needed: BTreeMap<&JobId, usize> = BTreeMap::new();
        for id in links.flat_map(|links| links.depends_on.unordered()) {
            *needed.entry(id).or_default() += 1;
        }
        let known = self.dependencies.needed.iter();
        let known = known.map(|(id, count)| (id, *count)).collect();
        same("jobs that others need", &needed, &known)?;
        ensure(
            self.dependencies.consequences.is_empty() && !self.dependencies.settling,
            || "the ends of jobs have consequences that are not worked off".to_owned(),
        )?;
        self.check_cycles()?;
        self.check_proofs()
    }

    /// Proofs are those of jobs that do not exist any more, and bounded.
    fn check_proofs(&self) -> Check {
        let proofs = &self.dependencies.proofs;
        let known = proofs.known.iter().map(|(id, number)| (number, id));
        let known: BTreeMap<_, _> = known.collect();
        same("proofs in order", &known, &proofs.order.iter().collect())?;
        ensure(known.len() <= self.config.proofs_max, || {
            "too many proofs".to_owned()
        })?;
        let proven = known.values().find(|id| self.store.find(id).is_some());
        same("proofs of jobs that exist", &None, &proven)
    }

    fn check_cycles(&self) -> Check {
        let keys: Vec<JobKey> = self.store.all().map(|(key, _)| key).collect();
        let places: HashMap<JobKey, usize> = keys.iter().copied().zip(0..).collect();
        let waits_for = |key: &JobKey| {
            let others = unmet(self.store.job(*key))
                .filter_map(|id| places.get(&self.store.find(id)?).copied());
            others.collect()
        };
        let edges: Vec<Vec<usize>> = keys.iter().map(waits_for).collect();
        let cycle = super::find_cycle(&edges).and_then(|place| keys.get(place));
        let cycle = cycle.map(|key| &self.store.job(*key).id);
        same("a job that waits for itself", &None, &cycle)
    }

    /// Completed jobs are kept in one order over all queues; results and logs belong to jobs that exist.
    fn check_retention(&self, armed: &mut Armed) -> Check {
        let of_queues = self.queues.all().flat_map(|(_, queue)| &queue.completed);
        let of_queues = of_queues.map(|(seq, key)| {
            let needed = self.is_needed(&self.store.job(*key).id);
            ((needed, *seq), *key)
        });
        let of_queues: BTreeMap<_, _> = of_queues.collect();
        same("completed jobs", &of_queues, &self.retention.completed)?;
        if let Some(at) = self.retention.armed_at {
            armed.needs(at, Timer::Completed);
        }
        self.check_cold()?;
        let with_result = self.store.all().filter(|(_, job)| {
            let life = job.life.as_ref();
            life.is_some_and(|life| life.result.is_some())
        });
        let with_result = with_result.map(|(key, _)| key).collect();
        recency("results", &with_result, &self.retention.results)?;
        for (key, (needed, _)) in &self.retention.results.stamps {
            let id = &self.store.job(*key).id;
            let kept_as = (id, *needed);
            same("a needed result", &(id, self.is_needed(id)), &kept_as)?;
        }
        let logged: BTreeSet<_> = self.retention.logs.keys().copied().collect();
        let gone = logged.iter().find(|key| !self.store.contains(**key));
        same("logs of jobs that are gone", &None, &gone)?;
        recency("logs", &logged, &self.retention.log_use)?;
        let bytes = self.retention.logs.values().flatten().map(LogLine::bytes);
        same("bytes of logs", &bytes.sum(), &self.retention.log_bytes)?;
        ensure(
            self.retention.log_bytes <= self.config.log_bytes_max,
            || "too many bytes of logs".to_owned(),
        )
    }

    /// Names are counted by the jobs that have them.
    fn check_names(&self) -> Check {
        let mut jobs: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for (_, job) in self.store.all() {
            *jobs.entry(self.names.text(job.name)).or_default() += 1;
        }
        same("jobs per name", &jobs, &self.names.counted())
    }

    /// What the limits of queues and groups have timed.
    fn check_limits(&self, armed: &mut Armed) {
        for (key, queue) in self.queues.all() {
            if let Some(limits) = &queue.limits {
                let (token_at, ends_at) = limits.timed();
                token_at.inspect(|at| armed.needs(*at, Timer::Token(key)));
                ends_at.inspect(|at| armed.needs(*at, Timer::RateEnd(key)));
            }
            for (group, state) in queue.ready.groups.all() {
                if let Some(at) = state.throttled_until {
                    armed.needs(at, Timer::GroupThrottle(key, group));
                }
                if let Some(window) = state.window {
                    armed.needs(window.ends_at, Timer::GroupWindow(key, group));
                }
            }
        }
    }

    /// Counts that are kept beside the jobs.
    fn check_figures(&self) -> Check {
        for (_, queue) in self.queues.all() {
            let queued = queue.ready.jobs().chain(queue.delayed.iter().copied());
            let mut priorities: Vec<f64> = queued
                .map(|key| self.store.job(key).priority + 0.0)
                .collect();
            priorities.sort_unstable_by(|one, two| two.total_cmp(one));
            let counted: Vec<f64> = queue
                .priorities()
                .into_iter()
                .flat_map(|(priority, count)| std::iter::repeat_n(priority + 0.0, count))
                .collect();
            same("queued jobs per priority", &priorities, &counted)?;
        }
        let active: usize = self.queues.all().map(|(_, queue)| queue.active.len()).sum();
        same("active jobs", &active, &self.active)?;
        let custom = self
            .store
            .all()
            .filter(|(_, job)| job.has_custom_id)
            .count();
        same("custom ids", &custom, &self.store.custom_ids())
    }

    /// A look is due exactly while somebody wants notices.
    fn check_notices(&self, armed: &mut Armed) -> Check {
        if let Some(at) = self.notices.next_look {
            armed.needs(at, Timer::Notices);
        }
        ensure(self.notices.is_sound(), || {
            format!("looks do not fit who wants them: {:?}", self.notices)
        })
    }

    /// Workers are found by their ids, and their silence will be noticed.
    fn check_workers(&self, armed: &mut Armed) -> Check {
        let workers = &self.workers;
        let by_id = workers
            .list
            .iter()
            .map(|(place, worker)| (&worker.view.id, *place));
        let known = workers.by_id.iter().map(|(id, place)| (id, *place));
        same::<BTreeMap<_, _>>("ids of workers", &by_id.collect(), &known.collect())?;
        let bytes = workers.list.values().map(Worker::bytes).sum();
        same("bytes of workers", &workers.bytes, &bytes)?;
        let mut owned: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
        for (place, worker) in &workers.list {
            if let Some(connection) = worker.connection {
                owned.entry(connection).or_default().insert(*place);
            }
        }
        let known = workers.by_connection.clone().into_iter().collect();
        same("workers of connections", &owned, &known)?;
        let serving = workers.list.iter().flat_map(|(place, worker)| {
            let queues = worker.view.queues.iter();
            queues.map(|queue| (Arc::clone(queue), *place))
        });
        same("workers of queues", &serving.collect(), &workers.by_queue)?;
        match workers.check_at {
            Some(at) => armed.needs(at, Timer::Workers),
            None => ensure(workers.list.is_empty(), || {
                "silent workers go unnoticed".to_owned()
            })?,
        }
        Ok(())
    }
}

/// What a job still waits for.
fn unmet(job: &Job) -> impl Iterator<Item = &JobId> {
    job.links.iter().flat_map(|links| &links.unmet)
}

fn recency(what: &str, wanted: &BTreeSet<JobKey>, found: &Recency) -> Check {
    let order = found.order.iter().map(|(stamp, key)| (*key, *stamp));
    let stamps = found.stamps.iter().map(|(key, stamp)| (*key, *stamp));
    let order: BTreeMap<_, _> = order.collect();
    same(what, &order, &stamps.collect())?;
    same(what, wanted, &order.keys().copied().collect())
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn same<T: PartialEq + Debug + ?Sized>(what: &str, wanted: &T, found: &T) -> Check {
    if wanted == found {
        Ok(())
    } else {
        Err(format!(
            "{what}: there should be {wanted:?}, there is {found:?}"
        ))
    }
}
