//! Dead letters, settings of queues, jobs that run again, age of completed jobs (sections 9.1, 10, 14 and 16).

use std::sync::Arc;

use bunqueue_mcp::command::{Command, Reply};
use bunqueue_mcp::engine::{
    CompletedSelection, DlqConfig, DlqConfigUpdate, DlqEntry, DlqFilter, DlqSelection, DlqStats,
    EventKind, Failure, FailureReason, JobId, Millis, StallConfig, StallConfigUpdate, State,
};

use super::{Key, Place, Reference};

impl Reference {
    /// Runs a command of this family; `None` for all others.
    pub(super) fn recover(&mut self, command: &Command) -> Option<Reply> {
        Some(match command {
            Command::GetDlq(get) => {
                let letters = self.letters(get.queue.as_str(), &get.filter);
                let entry = |at| DlqEntry {
                    job: self.show(at),
                    failure: self.failure(at).clone(),
                };
                Reply::DeadLetters(letters.into_iter().map(entry).collect())
            }
            Command::GetDlqStats(get) => {
                Reply::DlqStats(Box::new(self.letter_stats(&get.queue.shared())))
            }
            Command::RetryDlq(retry) => {
                let queue = retry.queue.as_str();
                let letters = match &retry.selection {
                    DlqSelection::One(id) => self.letters_named(queue, id),
                    DlqSelection::Matching(filter) => self.ids(&self.letters(queue, filter)),
                };
                Reply::Counted(self.count(&letters, Self::retry_by_hand))
            }
            Command::PurgeDlq(purge) => {
                // One by one: what that does to others may take letters away, too.
                let letters = self.ids(&self.dead_letters(purge.queue.as_str()));
                let count = self.count(&letters, |model, at| {
                    model.delete(at);
                    true
                });
                if count > 0 {
                    self.emit(&purge.queue.shared(), None, EventKind::Cleaned { count });
                }
                Reply::Counted(count)
            }
            Command::RemoveDlqJob(remove) => {
                let letters = self.letters_named(remove.queue.as_str(), &remove.id);
                for id in &letters {
                    self.remove_letter(self.place_of(id));
                }
                Reply::Flag(!letters.is_empty())
            }
            Command::RetryCompleted(retry) => {
                let jobs = self.completed_in(retry.queue.as_str(), &retry.selection);
                Reply::Counted(self.count(&jobs, Self::rerun_completed))
            }
            Command::GetDlqConfig(get) => Reply::DlqConfig(self.dlq_config(get.queue.as_str())),
            Command::SetDlqConfig(set) => {
                Reply::DlqConfig(self.set_dlq_config(&set.queue.shared(), &set.update))
            }
            Command::GetStallConfig(get) => {
                Reply::StallConfig(self.stall_config(get.queue.as_str()))
            }
            Command::SetStallConfig(set) => {
                Reply::StallConfig(self.set_stall_config(&set.queue.shared(), &set.update))
            }
            _ => return None,
        })
    }

    pub(super) fn dlq_config(&self, queue: &str) -> DlqConfig {
        let own = self.queues.iter().find(|entry| &*entry.name == queue);
        own.and_then(|entry| entry.dlq).unwrap_or(DlqConfig {
            auto_retry: false,
            auto_retry_interval: 3_600_000,
            max_auto_retries: 3,
            max_age: Some(self.config.dlq_age),
            max_entries: self.config.dlq_max,
        })
    }

    fn set_dlq_config(&mut self, queue: &Arc<str>, update: &DlqConfigUpdate) -> DlqConfig {
        let before = self.dlq_config(queue);
        let mut config = before;
        if let Some(on) = update.auto_retry {
            config.auto_retry = on;
        }
        if let Some(interval) = update.auto_retry_interval {
            config.auto_retry_interval = interval;
        }
        if let Some(retries) = update.max_auto_retries {
            config.max_auto_retries = retries;
        }
        if let Some(age) = update.max_age {
            config.max_age = age;
        }
        if let Some(entries) = update.max_entries {
            config.max_entries = entries;
        }
        if config == before {
            return config;
        }
        self.touch_queue(queue).dlq = None;
        let default = self.dlq_config(queue);
        self.touch_queue(queue).dlq = Some(config).filter(|config| *config != default);
        for at in self.dead_letters(queue) {
            self.jobs[at].refused_until = None;
        }
        self.evict_letters(queue);
        config
    }

    pub(super) fn stall_config(&self, queue: &str) -> StallConfig {
        let own = self.queues.iter().find(|entry| &*entry.name == queue);
        own.and_then(|entry| entry.stall).unwrap_or(StallConfig {
            enabled: true,
            stall_interval: self.config.stall_interval as f64,
            max_stalls: f64::from(self.config.stalls_max),
            grace_period: self.config.stall_grace as f64,
        })
    }

    fn set_stall_config(&mut self, queue: &Arc<str>, update: &StallConfigUpdate) -> StallConfig {
        let before = self.stall_config(queue);
        let config = StallConfig {
            enabled: update.enabled.unwrap_or(before.enabled),
            stall_interval: update.stall_interval.unwrap_or(before.stall_interval),
            max_stalls: update.max_stalls.unwrap_or(before.max_stalls),
            grace_period: update.grace_period.unwrap_or(before.grace_period),
        };
        if config != before {
            self.touch_queue(queue).stall = None;
            let default = self.stall_config(queue);
            self.touch_queue(queue).stall = Some(config).filter(|config| *config != default);
        }
        config
    }

    /// A job that nothing holds has failed for good and is kept: a new letter, or the one that it was.
    pub(super) fn become_letter(
        &mut self,
        at: usize,
        reason: FailureReason,
        error: Option<Arc<str>>,
    ) -> Failure {
        let attempts = self.jobs[at].history.clone();
        if let Some(before) = self.jobs[at].was_letter.take() {
            return Failure {
                reason,
                error,
                attempts,
                ..before
            };
        }
        let config = self.dlq_config(&self.jobs[at].view.queue);
        let retried = config.auto_retry && config.max_auto_retries > 0;
        self.next_done += 1;
        Failure {
            reason,
            error,
            seq: self.next_done,
            entered_at: self.now,
            attempts,
            retry_count: 0,
            last_retry_at: None,
            next_retry_at: retried.then(|| self.now + config.auto_retry_interval),
            expires_at: config.max_age.map(|age| self.now + age),
        }
    }

    /// The oldest go while there are too many.
    pub(super) fn evict_letters(&mut self, queue: &str) {
        loop {
            let letters = self.dead_letters(queue);
            if letters.len() <= self.dlq_config(queue).max_entries {
                return;
            }
            self.remove_letter(letters[0]);
        }
    }

    /// Places of the dead letters of a queue, first entered first.
    pub(super) fn dead_letters(&self, queue: &str) -> Vec<usize> {
        let mut letters: Vec<usize> = (0..self.jobs.len())
            .filter(|at| {
                &*self.jobs[*at].view.queue == queue
                    && matches!(self.jobs[*at].place, Place::Failed(_))
            })
            .collect();
        letters.sort_by_key(|at| self.failure(*at).seq);
        letters
    }

    pub(super) fn failure(&self, at: usize) -> &Failure {
        match &self.jobs[at].place {
            Place::Failed(failure) => failure,
            _ => panic!("not a dead letter"),
        }
    }

    pub(super) fn remove_letter(&mut self, at: usize) {
        let prev = State::Failed;
        self.emit_for(at, EventKind::Removed { prev });
        self.delete(at);
    }

    /// When a letter is tried again by itself, by the settings of now.
    fn due_at(&self, at: usize) -> Option<Millis> {
        let failure = self.failure(at);
        let config = self.dlq_config(&self.jobs[at].view.queue);
        let wanted = config.auto_retry && failure.retry_count < config.max_auto_retries;
        failure.next_retry_at.filter(|_| wanted)
    }

    /// When something happens to a letter by itself.
    pub(super) fn letter_acts_at(&self, at: usize) -> Option<Millis> {
        let refused_until = self.jobs[at].refused_until.unwrap_or(Millis::MIN);
        let due_at = self.due_at(at).map(|due_at| due_at.max(refused_until));
        match (due_at, self.failure(at).expires_at) {
            (Some(due_at), Some(end)) => Some(due_at.min(end)),
            (due_at, end) => due_at.or(end),
        }
    }

    /// A letter's time has come: it is tried again, or it is too old.
    pub(super) fn letter_acts(&mut self, at: usize, time: Millis) {
        let expires_at = self.failure(at).expires_at;
        let due = self.due_at(at).is_some_and(|due_at| due_at <= time);
        if due && self.retry_by_itself(at) {
            return;
        }
        if expires_at.is_some_and(|end| end <= time) {
            self.remove_letter(at);
        } else {
            self.jobs[at].refused_until = Some(self.now + 60_000);
        }
    }

    pub(super) fn retry_by_hand(&mut self, at: usize) -> bool {
        if self.is_key_taken(at) {
            return false;
        }
        self.jobs[at].history.clear();
        self.run_again(at);
        true
    }

    fn retry_by_itself(&mut self, at: usize) -> bool {
        let (hopeless, taken) = (self.is_expired(at), self.is_key_taken(at));
        let config = self.dlq_config(&self.jobs[at].view.queue);
        let now = self.now;
        let Place::Failed(failure) = &mut self.jobs[at].place else {
            panic!("not a dead letter");
        };
        if hopeless {
            failure.next_retry_at = None;
        }
        if hopeless || taken {
            return false;
        }
        let mut letter = failure.clone();
        letter.retry_count += 1;
        letter.last_retry_at = Some(now);
        let wait = config.auto_retry_interval * (1 << (letter.retry_count - 1));
        letter.next_retry_at = (letter.retry_count < config.max_auto_retries).then_some(now + wait);
        self.jobs[at].was_letter = Some(letter);
        self.run_again(at);
        true
    }

    fn rerun_completed(&mut self, at: usize) -> bool {
        if self.is_key_taken(at) {
            return false;
        }
        let id = self.jobs[at].view.id.clone();
        self.completed.retain(|other| *other != id);
        let job = &mut self.jobs[at];
        job.view.completed_at = None;
        job.view.progress = 0.0;
        job.view.progress_message = None;
        job.result = None;
        job.history.clear();
        self.run_again(at);
        true
    }

    /// A finished job is queued as if it had not run.
    fn run_again(&mut self, at: usize) {
        let now = self.now;
        let job = &mut self.jobs[at];
        if let Some(key) = job.view.options.unique_key.clone() {
            let ttl = job.view.options.dedup.ttl;
            self.keys.push(Key {
                queue: Arc::clone(&job.view.queue),
                key,
                owner: job.view.id.clone(),
                expires_at: ttl.map(|ttl| now + ttl.ceil() as Millis),
            });
        }
        job.view.attempts = 0;
        job.view.stall_count = 0;
        job.view.run_at = now;
        job.finalized_unlocked = false;
        job.refused_until = None;
        job.lost = 0;
        self.note(at, State::Waiting, None, None);
        self.enqueue(at);
    }

    fn is_key_taken(&mut self, at: usize) -> bool {
        self.forget_expired_keys();
        let view = &self.jobs[at].view;
        let Some(key) = &view.options.unique_key else {
            return false;
        };
        let mut keys = self.keys.iter();
        keys.any(|entry| entry.queue == view.queue && entry.key == *key)
    }

    fn count(&mut self, ids: &[JobId], apply: fn(&mut Self, usize) -> bool) -> usize {
        // What happens to one of them may take others away.
        ids.iter()
            .filter(|id| self.find(id).is_some_and(|at| apply(self, at)))
            .count()
    }

    fn place_of(&self, id: &JobId) -> usize {
        self.find(id).expect("found before")
    }

    fn ids(&self, places: &[usize]) -> Vec<JobId> {
        let id = |at: &usize| self.jobs[*at].view.id.clone();
        places.iter().map(id).collect()
    }

    fn letters_named(&self, queue: &str, id: &JobId) -> Vec<JobId> {
        let mut letters = self.ids(&self.dead_letters(queue));
        letters.retain(|other| other == id);
        letters
    }

    fn letters(&self, queue: &str, filter: &DlqFilter) -> Vec<usize> {
        let mut letters = self.dead_letters(queue);
        letters.retain(|at| {
            let letter = self.failure(*at);
            filter.reason.is_none_or(|reason| letter.reason == reason)
                && filter.older_than.is_none_or(|at| letter.entered_at <= at)
                && filter.newer_than.is_none_or(|at| letter.entered_at >= at)
                && (!filter.retriable || self.is_pending(*at))
                && (!filter.expired || letter.expires_at.is_some_and(|end| end <= self.now))
                && filter.after.is_none_or(|seq| letter.seq > seq)
        });
        let limit = filter.limit.unwrap_or(usize::MAX);
        letters
            .into_iter()
            .skip(filter.offset)
            .take(limit)
            .collect()
    }

    fn is_pending(&self, at: usize) -> bool {
        self.due_at(at).is_some_and(|due_at| due_at <= self.now)
    }

    fn letter_stats(&self, queue: &Arc<str>) -> DlqStats {
        let letters = self.dead_letters(queue);
        let count =
            |wanted: &dyn Fn(usize) -> bool| letters.iter().filter(|at| wanted(**at)).count();
        let entered: Vec<Millis> = letters
            .iter()
            .map(|at| self.failure(*at).entered_at)
            .collect();
        let reasons = [
            FailureReason::ExplicitFail,
            FailureReason::MaxAttemptsExceeded,
            FailureReason::Timeout,
            FailureReason::Stalled,
            FailureReason::TtlExpired,
            FailureReason::WorkerLost,
            FailureReason::Unknown,
        ];
        DlqStats {
            total: letters.len(),
            by_reason: reasons
                .map(|reason| (reason, count(&|at| self.failure(at).reason == reason))),
            by_queue: vec![(Arc::clone(queue), letters.len())],
            pending_retry: count(&|at| self.is_pending(at)),
            expired: count(&|at| {
                self.failure(at)
                    .expires_at
                    .is_some_and(|end| end <= self.now)
            }),
            oldest_entry: entered.iter().min().copied(),
            newest_entry: entered.iter().max().copied(),
        }
    }

    fn completed_in(&self, queue: &str, selection: &CompletedSelection) -> Vec<JobId> {
        let in_queue = self.completed.iter().filter(|id| {
            let job = self
                .job(id)
                .expect("a completed job that is gone is not listed");
            &*job.view.queue == queue
        });
        match selection {
            CompletedSelection::One(id) => in_queue.filter(|other| *other == id).cloned().collect(),
            CompletedSelection::Oldest { until, limit } => in_queue
                .filter(|id| {
                    let completed_at = self.job(id).and_then(|job| job.view.completed_at);
                    until.is_none_or(|until| completed_at.is_some_and(|at| at <= until))
                })
                .take(limit.unwrap_or(usize::MAX))
                .cloned()
                .collect(),
        }
    }
}
