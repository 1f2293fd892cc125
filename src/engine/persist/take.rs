//! Records of what has changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::id::JobId;
use super::super::link::Links;
use super::super::queue::QueueKey;
use super::super::store::{Job, JobKey};
use super::super::{Engine, MetricKind};
use super::mark::{Touched, TouchedJob};
use super::record::{
    Changes, CronRecord, GroupRecord, JobRecord, KeyRecord, LifeRecord, LogRecord, MinuteRecord,
    ProofRecord, QueueRecord, TieRecord,
};

impl Engine {
    /// From now on what changes is marked, so that [`Engine::take_changes`] can tell it. For an engine that has nothing
    /// yet.
    pub fn record(&mut self) {
        self.store.marks.on = true;
        self.queues.marks.on = true;
        self.retention.log_marks.record();
        self.crons.marks.record();
        self.webhooks.marks.record();
    }

    /// Marks everything that is there as new, for a store that has nothing yet.
    pub fn mark_everything(&mut self) {
        let jobs: Vec<JobKey> = self.store.all().map(|(key, _)| key).collect();
        jobs.into_iter().for_each(|key| self.store.marks.begin(key));
        let queues: Vec<QueueKey> = self.queues.all().map(|(key, _)| key).collect();
        for key in queues {
            self.queues.marks.touch(key);
            let queue = self.queues.get(key);
            let name = Arc::clone(&queue.name);
            let groups: Vec<Arc<str>> = queue
                .ready
                .groups
                .all()
                .map(|(_, group)| Arc::clone(group.name()))
                .collect();
            for group in groups {
                self.queues.marks.touch_group(&name, &group);
            }
            for kind in MetricKind::ALL {
                for minute in self.queues.get(key).figures.kept_minutes(kind) {
                    self.queues.marks.touch_minute(key, kind, minute);
                }
            }
        }
        self.dependencies.proofs.mark_all();
        self.retention.mark_all_logs();
        self.crons.mark_all();
        self.webhooks.mark_all();
    }

    /// Everything that is there was stored before.
    pub(super) fn all_kept(&mut self) {
        self.store.marks.keep_all();
        self.queues.marks.keep_all();
        self.crons.marks.take();
        self.webhooks.marks.take();
        self.retention.log_marks.take();
    }

    /// Grows whenever something changes that [`Engine::take_changes`] would tell, and perhaps when nothing does.
    pub fn revision(&self) -> u64 {
        let jobs = self.store.marks.revision + self.retention.log_marks.revision();
        let others = self.crons.marks.revision() + self.webhooks.marks.revision();
        jobs + self.queues.marks.revision + others
    }

    /// How much there is to take, about.
    pub fn unsaved(&self) -> usize {
        self.store.marks.len() + self.queues.marks.touched.len()
    }

    /// Everything that has changed since the last time; from now on it counts as stored.
    pub fn take_changes(&mut self) -> Changes {
        let mut changes = Changes {
            next_job: self.next_job,
            ..Changes::default()
        };
        self.take_jobs(&mut changes);
        self.take_queues(&mut changes);
        let (proofs, gone) = self.dependencies.proofs.take();
        let proof = |(number, id)| ProofRecord { number, id };
        changes.proofs = proofs.into_iter().map(proof).collect();
        changes.gone_proofs = gone;
        for (place, cron) in self.crons.take() {
            match cron {
                Some(cron) => changes.crons.push(CronRecord { place, cron }),
                None => changes.gone_crons.push(place),
            }
        }
        (changes.webhooks, changes.gone_webhooks) = self.webhooks.take();
        changes
    }

    fn take_jobs(&mut self, changes: &mut Changes) {
        self.unstored.take();
        changes.gone_jobs = std::mem::take(&mut self.store.marks.gone);
        let ties = std::mem::take(&mut self.store.marks.ties);
        let touched = self.store.marks.take();
        changes.jobs.reserve_exact(touched.len());
        for touched in touched {
            // What is stored of it is more than there is here, and nothing of that has changed.
            if self.cold.contains(touched.key) {
                continue;
            }
            let job = self.store.job(touched.key);
            changes.durable |= touched.is_new && job.durable;
            changes.jobs.push(self.job_record(touched, job));
            if touched.is_new
                && let Some(links) = job.links.as_deref()
            {
                all_ties(job.seq, links, &mut changes.ties);
            }
        }
        for (key, touched) in ties {
            let job = self.store.job(key);
            let Some(links) = job.links.as_deref() else {
                changes.untied_jobs.push(job.seq);
                continue;
            };
            match touched {
                Touched::All => {
                    changes.untied_jobs.push(job.seq);
                    all_ties(job.seq, links, &mut changes.ties);
                }
                Touched::Some(others) => {
                    for other in others {
                        match tie(job.seq, links, &other) {
                            Some(tie) => changes.ties.push(tie),
                            None => changes.gone_ties.push((job.seq, other)),
                        }
                    }
                }
            }
        }
        for (key, first, lines) in self.retention.take_logs() {
            let job = self.store.job(key).seq;
            changes.logs.push(LogRecord { job, first, lines });
        }
    }

    fn job_record(&self, touched: TouchedJob, job: &Job) -> JobRecord {
        let links = job.links.as_deref();
        JobRecord {
            seq: job.seq,
            is_new: touched.is_new,
            id: job.id.clone(),
            has_custom_id: job.has_custom_id,
            queue: Arc::clone(self.queues.name(job.queue)),
            name: Arc::clone(self.names.text(job.name)),
            data: job.data.clone(),
            body_changed: touched.body_changed,
            unwritten: links.is_some_and(|links| links.unwritten.is_some()),
            priority: job.priority,
            created_at: job.created_at,
            run_at: job.run_at,
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            state: job.state,
            admitted_as: job.admitted_as,
            lifo: job.lifo,
            remove_on_complete: job.remove_on_complete,
            remove_on_fail: job.remove_on_fail,
            durable: job.durable,
            gone_if_lost: job.gone_if_lost,
            parked: links.is_some_and(|links| links.parked),
            key: self.key_record(touched.key, job),
            options: job.options.clone(),
            parent: links.and_then(|links| links.parent.clone()),
            life: job
                .life
                .as_ref()
                .map(|life| Box::new(LifeRecord(life.lasting()))),
            result: job.life.as_ref().and_then(|life| life.result.clone()),
        }
    }

    fn key_record(&self, key: JobKey, job: &Job) -> KeyRecord {
        let options = job.options.as_ref();
        let unique_key = options.and_then(|options| options.unique_key.as_ref());
        let keys = &self.queues.get(job.queue).keys;
        let owner = unique_key.and_then(|unique_key| keys.get(unique_key));
        match owner.filter(|owner| owner.job == key) {
            Some(owner) => owner
                .expires_at
                .map_or(KeyRecord::Owned, KeyRecord::OwnedUntil),
            None => KeyRecord::NotOwned,
        }
    }

    fn take_queues(&mut self, changes: &mut Changes) {
        changes.gone_queues = std::mem::take(&mut self.queues.marks.gone);
        let touched = self.queues.marks.take();
        // What a queue counted before it went is in the whole.
        if !touched.is_empty() || !changes.gone_queues.is_empty() {
            changes.totals = Some(self.figures.lifetime());
        }
        for key in touched {
            match self.queue_record(key) {
                Some(record) => changes.queues.push(record),
                None => changes.gone_queues.push(Arc::clone(self.queues.name(key))),
            }
        }
        for (queue, name) in std::mem::take(&mut self.queues.marks.groups) {
            match self.group_record(&queue, &name) {
                Some(record) => changes.groups.push(record),
                None => changes.gone_groups.push((queue, name)),
            }
        }
        for (key, kind, minute) in std::mem::take(&mut self.queues.marks.minutes) {
            let Some(queue) = self.queues.try_get_mut(key) else {
                continue;
            };
            let name = Arc::clone(&queue.name);
            match queue.figures.minute(kind, minute) {
                Some(count) => changes.minutes.push(MinuteRecord {
                    queue: name,
                    kind,
                    minute: minute.number(),
                    count,
                }),
                None => changes.gone_minutes.push((name, kind, minute.number())),
            }
        }
    }

    /// A queue, unless there is nothing to keep of it but that somebody waits for its jobs.
    fn queue_record(&self, key: QueueKey) -> Option<QueueRecord> {
        let queue = self.queues.get(key);
        let figures = &queue.figures;
        if queue.listed.is_none() && queue.is_unused() && figures.is_empty() {
            return None;
        }
        let (rate, rate_ends_at, concurrency) = queue.limits_set();
        Some(QueueRecord {
            name: Arc::clone(&queue.name),
            listed: queue.listed,
            paused: queue.paused,
            in_turn: queue.ready.is_in_turn(),
            rate,
            rate_ends_at,
            concurrency,
            dlq: queue.dlq.as_deref().copied(),
            stall: queue.stall.as_deref().copied(),
            totals: figures.lifetime(),
            journal: figures.journal(),
            last_completed_at: figures.last_at(MetricKind::Completed),
            last_failed_at: figures.last_at(MetricKind::Failed),
        })
    }

    fn group_record(&self, queue: &Arc<str>, name: &Arc<str>) -> Option<GroupRecord> {
        let key = self.queues.find(queue)?;
        let group = self.queues.get(key).ready.groups.get(name)?;
        let record = GroupRecord {
            queue: Arc::clone(queue),
            name: Arc::clone(name),
            paused: group.paused,
            concurrency: group.concurrency,
            rate: group.rate,
        };
        let is_set = record.paused || record.concurrency.is_some() || record.rate.is_some();
        is_set.then_some(record)
    }
}

/// What a job has to do with another one; `None` when nothing.
fn tie(job: u64, links: &Links, other: &JobId) -> Option<TieRecord> {
    let place = |found: Option<(u64, &())>| found.map(|(place, ())| place);
    let record = TieRecord {
        job,
        other: other.clone(),
        dependency: place(links.depends_on.get(other)),
        child: place(links.children.get(other)),
        unmet: links.unmet.contains(other),
        value: links.values.get(other).cloned(),
        failure: links
            .failures
            .get(other)
            .map(|(place, failure)| (place, failure.clone())),
    };
    let is_any = record.dependency.is_some()
        || record.child.is_some()
        || record.unmet
        || record.value.is_some()
        || record.failure.is_some();
    is_any.then_some(record)
}

fn all_ties(job: u64, links: &Links, ties: &mut Vec<TieRecord>) {
    let failed = links.failures.ordered();
    let failed = failed.into_iter().map(|(id, _)| id);
    let others: BTreeSet<&JobId> = links
        .depends_on
        .unordered()
        .chain(links.children.unordered())
        .chain(&links.unmet)
        .chain(links.values.keys())
        .chain(failed)
        .collect();
    ties.extend(
        others
            .into_iter()
            .filter_map(|other| tie(job, links, other)),
    );
}
