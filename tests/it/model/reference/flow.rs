//! Jobs that wait for jobs (sections 6.2, 6.4, 13; B-2, B-10 to B-12, B-31, B-38; tcp protocol, section 18).
//!
//! What the end of one job means for others happens in the same step, one end after the other, in the order in which
//! they came about; jobs that are deleted together are told of in the order of their admission.

use std::sync::Arc;

use bunqueue_mcp::command::{ChildValue, Command, CommandError, Reply};
use bunqueue_mcp::engine::{
    Change, ChildFailure, EventKind, FailureReason, JobId, JobLinks, JobOptions, Parent, Payload,
    Refusal, State, TokenGiven, Waited,
};

use super::tree::user_data;
use super::{Answer, Job, Place, Reference, refuse};

/// How a job hangs together with others.
#[derive(Clone, Debug, Default)]
pub struct Ties {
    pub parent: Option<Parent>,
    /// What it waits or waited for, without what was dropped.
    depends_on: Vec<JobId>,
    pub children: Vec<JobId>,
    /// What it still waits for.
    pub unmet: Vec<JobId>,
    pub(super) values: Vec<ChildValue>,
    failures: Vec<ChildFailure>,
    /// A worker has put it aside.
    parked: bool,
    /// It stands in waiting-children.
    pub waiting: bool,
}

impl Ties {
    pub fn view(&self) -> JobLinks {
        JobLinks {
            parent: self.parent.clone(),
            depends_on: self.depends_on.clone(),
            children: self.children.clone(),
        }
    }
}

/// The end of a job, as far as others may care.
#[derive(Clone, Debug)]
pub enum News {
    Completed(Ended, Option<Payload>),
    Failed(Ended, Option<Arc<str>>),
    Removed(Ended),
}

/// What is still known of a job that may be gone.
#[derive(Clone, Debug)]
pub struct Ended {
    id: JobId,
    queue: Arc<str>,
    parent: Option<JobId>,
    options: Arc<JobOptions>,
}

impl Ended {
    fn of(job: &Job) -> Self {
        Self {
            id: job.view.id.clone(),
            queue: Arc::clone(&job.view.queue),
            parent: job.ties.parent.as_ref().map(|parent| parent.id.clone()),
            options: Arc::clone(&job.view.options),
        }
    }
}

impl Reference {
    /// A job is queued, or waits for others.
    pub(super) fn place(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        job.place = Place::Queued;
        job.ripe = job.view.run_at <= self.now;
        job.ties.waiting = job.ties.parked || !job.ties.unmet.is_empty();
    }

    pub(super) fn is_live(&self, id: &JobId) -> bool {
        let job = self.job(id);
        job.is_some_and(|job| matches!(job.place, Place::Queued | Place::Active(_)))
    }

    /// Runs a command about flows; `None` for all others.
    pub(super) fn flow_command(&mut self, command: &Command) -> Option<Answer> {
        let done = |reply| Answer::Done(Ok(reply));
        Some(match command {
            Command::AddFlow(flow) => self.add_flow(flow),
            Command::UpdateParent(update) => self
                .link(&update.child, &update.parent)
                .map_or_else(refuse, |()| done(Reply::Done(()))),
            Command::RemoveChildDependency(remove) => self
                .unlink(&remove.id)
                .map_or_else(refuse, |removed| done(Reply::Flag(removed))),
            Command::RemoveUnprocessedChildren(remove) => {
                done(Reply::Counted(self.remove_unprocessed(&remove.id)))
            }
            Command::MoveToWaitingChildren(change) => {
                let parked = self.park(&change.id, change.token);
                parked.map_or_else(refuse, |change| done(Reply::Changed(change)))
            }
            Command::GetChildrenValues(get) => {
                done(Reply::ChildrenValues(self.children_values(&get.id)))
            }
            Command::GetChildFailures(get) => {
                let job = self.job(&get.id);
                let failures = job.map(|job| job.ties.failures.clone());
                done(Reply::ChildFailures(failures.unwrap_or_default()))
            }
            Command::GetFlow(get) => done(Reply::Flow(self.flow(get).map(Box::new))),
            Command::UpdateData(update) => {
                let at = self.find(&update.id).filter(|_| self.is_live(&update.id))?;
                let ties = self.jobs[at].ties.view();
                if ties.parent.is_none() && ties.children.is_empty() {
                    return None;
                }
                match user_data(update.data.as_ref()) {
                    Err(fault) => Answer::Done(Err(CommandError::Flow(fault))),
                    Ok(()) => {
                        self.jobs[at].view.data.clone_from(&update.data);
                        self.annotate(at);
                        done(Reply::Changed(Change::Applied))
                    }
                }
            }
            _ => return None,
        })
    }

    // ---- ties

    /// Ties a job that was just stored.
    pub(super) fn tie(&mut self, at: usize, links: &JobLinks) {
        let met = |id: &JobId| match self.job(id) {
            Some(job) => matches!(job.place, Place::Completed),
            None => self.proofs.contains(id),
        };
        let unmet = links.depends_on.iter().filter(|id| !met(id));
        let values = links.children.iter();
        let values = values.filter_map(|id| self.finished_value(id)).collect();
        self.jobs[at].ties = Ties {
            parent: links.parent.clone(),
            depends_on: links.depends_on.clone(),
            children: links.children.clone(),
            unmet: unmet.cloned().collect(),
            values,
            ..Ties::default()
        };
    }

    pub(super) fn finished_value(&self, id: &JobId) -> Option<ChildValue> {
        let job = self.job(id)?;
        if !matches!(job.place, Place::Completed) {
            return None;
        }
        let result = job.result.clone()?;
        Some((Arc::clone(&job.view.queue), id.clone(), result))
    }

    /// A parent that has not started gets one more child.
    pub(super) fn adopt(&mut self, at: usize, child: &JobId) {
        if !matches!(self.jobs[at].place, Place::Queued) {
            return;
        }
        // It is queued anew, as far as it is queued.
        let ripe = std::mem::take(&mut self.jobs[at].ripe);
        self.note_turns();
        let completed = matches!(
            self.job(child).map(|job| &job.place),
            Some(Place::Completed)
        );
        let value = self.finished_value(child);
        let ties = &mut self.jobs[at].ties;
        for list in [&mut ties.children, &mut ties.depends_on] {
            if !list.contains(child) {
                list.push(child.clone());
            }
        }
        if !completed || value.is_some() {
            ties.values.retain(|(_, id, _)| id != child);
        }
        ties.values.extend(value);
        if !completed && !ties.unmet.contains(child) {
            ties.unmet.push(child.clone());
        }
        if !ties.waiting && !ties.unmet.is_empty() {
            ties.waiting = true;
            self.note(at, State::WaitingChildren, None, None);
        }
        self.jobs[at].ripe = ripe;
        self.note_turns();
        self.annotate(at);
    }

    fn link(&mut self, child: &JobId, parent: &JobId) -> Result<(), Refusal> {
        if child == parent {
            return Err(Refusal::OwnFlowParent);
        }
        let parent_at = self.find(parent);
        let declared = parent_at.is_some_and(|at| self.jobs[at].ties.children.contains(child));
        let Some(child_at) = self.find(child) else {
            return match declared && self.proofs.contains(child) {
                true => Ok(()),
                false => Err(Refusal::ChildNotFound(child.clone())),
            };
        };
        let parent_at = parent_at.ok_or_else(|| Refusal::ParentNotFound(parent.clone()))?;
        if let Some(other) = &self.jobs[child_at].ties.parent
            && other.id != *parent
        {
            return Err(Refusal::ChildOfAnother {
                child: child.clone(),
                parent: other.id.clone(),
            });
        }
        let repeats = |at: usize| self.jobs[at].view.options.repeat.is_some();
        if repeats(child_at) {
            return Err(Refusal::RepeatRelations(child.clone()));
        }
        if !declared {
            if !matches!(self.jobs[parent_at].place, Place::Queued) {
                return Err(Refusal::ParentNotLinkable(parent.clone()));
            }
            if repeats(parent_at) {
                return Err(Refusal::RepeatRelations(parent.clone()));
            }
            let mut open = vec![child.clone()];
            let mut seen = Vec::new();
            while let Some(id) = open.pop() {
                if id == *parent {
                    return Err(Refusal::DependencyCycle);
                }
                if !seen.contains(&id) {
                    open.extend(
                        self.job(&id)
                            .into_iter()
                            .flat_map(|job| job.ties.unmet.clone()),
                    );
                    seen.push(id);
                }
            }
            self.adopt(parent_at, child);
        }
        let queue = Arc::clone(&self.jobs[parent_at].view.queue);
        let job = &mut self.jobs[child_at];
        job.ties.parent = Some(Parent {
            id: parent.clone(),
            queue,
        });
        Arc::make_mut(&mut job.view.options).parent_id = None;
        self.annotate(child_at);
        if !declared {
            self.release(parent_at, true);
        }
        if let Place::Failed(failure) = &self.jobs[child_at].place {
            let news = News::Failed(Ended::of(&self.jobs[child_at]), failure.error.clone());
            self.news.push_back(news);
            self.spread();
        }
        Ok(())
    }

    fn unlink(&mut self, child: &JobId) -> Result<bool, Refusal> {
        let at = self
            .find(child)
            .ok_or_else(|| Refusal::JobNotFound(child.clone()))?;
        let parent = self.jobs[at].ties.parent.clone();
        let parent = parent.ok_or_else(|| Refusal::NoParent(child.clone()))?;
        let Some(parent) = self.find(&parent.id) else {
            return Ok(false);
        };
        if !self.is_live(child) || !self.jobs[parent].ties.unmet.contains(child) {
            return Ok(false);
        }
        self.drop_dependency(parent, child);
        self.jobs[parent].ties.children.retain(|id| id != child);
        self.jobs[at].ties.parent = None;
        self.annotate(at);
        self.annotate(parent);
        self.release(parent, true);
        Ok(true)
    }

    fn remove_unprocessed(&mut self, parent: &JobId) -> usize {
        let Some(at) = self.find(parent) else {
            return 0;
        };
        let mut gone = Vec::new();
        for child in self.jobs[at].ties.children.clone() {
            let Some(job) = self.job(&child) else {
                continue;
            };
            let is_child = match &job.ties.parent {
                Some(own) => own.id == *parent,
                None => self.jobs[at].ties.unmet.contains(&child),
            };
            if is_child && matches!(job.place, Place::Queued) {
                gone.push(child);
            }
        }
        let mut dropped = false;
        for child in &gone {
            dropped |= self.jobs[at].ties.unmet.contains(child);
            self.drop_dependency(at, child);
            let child = self.find(child).expect("found before");
            let prev = self.state_at(child);
            self.emit_for(child, EventKind::Removed { prev });
        }
        if dropped {
            self.release(at, true);
        }
        self.delete_all(&gone);
        gone.len()
    }

    fn park(&mut self, id: &JobId, token: TokenGiven) -> Result<Change, Refusal> {
        let Some(at) = self.find(id) else {
            return Ok(Change::NotFound);
        };
        let prev = self.state_at(at);
        if prev != State::Active {
            return Ok(Change::WrongState(prev));
        }
        self.held(at, token)?;
        self.jobs[at].ties.parked = true;
        self.note(at, State::WaitingChildren, None, None);
        self.emit_for(at, EventKind::WaitingChildren { prev });
        self.enqueue(at);
        Ok(Change::Applied)
    }

    // ---- what ends mean

    /// A job has completed; what others need of it is kept.
    pub(super) fn tell_completion(&mut self, at: usize, result: Option<&Payload>) {
        let news = News::Completed(Ended::of(&self.jobs[at]), result.cloned());
        self.news.push_back(news);
    }

    /// A job has failed for good.
    pub(super) fn tell_failure(&mut self, at: usize, error: Option<Arc<str>>) {
        let news = News::Failed(Ended::of(&self.jobs[at]), error);
        self.news.push_back(news);
    }

    /// A job that is over waits for nobody; what its children left is of no use any more.
    pub(super) fn untie(&mut self, at: usize, completed: bool) {
        self.drop_all(at);
        let ties = &mut self.jobs[at].ties;
        (ties.parked, ties.waiting) = (false, false);
        ties.failures.clear();
        if completed {
            ties.values.clear();
        }
    }

    /// A completed job that is deleted is remembered by its id; the newest so many are.
    pub(super) fn remember(&mut self, id: &JobId) {
        self.proofs.retain(|other| other != id);
        self.proofs.push(id.clone());
        let surplus = self.proofs.len().saturating_sub(self.config.proofs_max);
        self.proofs.drain(..surplus);
    }

    /// Deletes one job, and tells.
    pub(super) fn delete(&mut self, at: usize) {
        let id = self.jobs[at].view.id.clone();
        self.delete_all(&[id]);
    }

    /// Deletes jobs together, and tells those that are left.
    pub(super) fn delete_all(&mut self, ids: &[JobId]) {
        for id in self.completed.clone() {
            if ids.contains(&id) {
                self.remember(&id);
            }
        }
        let mut lost = Vec::new();
        for id in ids {
            let at = self.find(id).expect("found before");
            if !matches!(self.jobs[at].place, Place::Completed) {
                lost.push((self.jobs[at].seq, Ended::of(&self.jobs[at])));
            }
            self.remove(at, &Waited::Removed);
        }
        lost.sort_by_key(|(seq, _)| *seq);
        let lost = lost.into_iter().map(|(_, ended)| News::Removed(ended));
        self.news.extend(lost);
        self.spread();
    }

    /// Works off the news, and what they bring about.
    pub(super) fn spread(&mut self) {
        if std::mem::replace(&mut self.spreading, true) {
            return;
        }
        while let Some(news) = self.news.pop_front() {
            match news {
                News::Completed(ended, result) => self.meet(&ended, result.as_ref()),
                News::Failed(ended, error) => self.follow_policy(&ended, error),
                News::Removed(ended) => self.lose(&ended),
            }
        }
        self.spreading = false;
    }

    /// Whether an unfinished job depends, or has depended, on that one.
    pub(super) fn is_needed(&self, id: &JobId) -> bool {
        let mut jobs = self.jobs.iter();
        jobs.any(|job| {
            let over = matches!(job.place, Place::Completed | Place::Failed(_));
            !over && job.ties.depends_on.contains(id)
        })
    }

    /// Jobs that wait for another one, in order of admission.
    fn waiting_for(&self, id: &JobId) -> Vec<JobId> {
        let mut found: Vec<&Job> = self.jobs.iter().collect();
        found.retain(|job| job.ties.unmet.contains(id));
        found.sort_by_key(|job| job.seq);
        found.into_iter().map(|job| job.view.id.clone()).collect()
    }

    fn meet(&mut self, ended: &Ended, result: Option<&Payload>) {
        for job in &mut self.jobs {
            let own = ended.parent.as_ref() == Some(&job.view.id);
            let over = matches!(job.place, Place::Completed);
            let cares = job.ties.unmet.contains(&ended.id) || (own && !over);
            if let Some(result) = result
                && cares
                && job.ties.children.contains(&ended.id)
            {
                let value = (Arc::clone(&ended.queue), ended.id.clone(), result.clone());
                job.ties.values.retain(|(_, id, _)| *id != ended.id);
                job.ties.values.push(value);
            }
        }
        for id in self.waiting_for(&ended.id) {
            let at = self.find(&id).expect("it waits");
            self.jobs[at].ties.unmet.retain(|other| *other != ended.id);
            self.release(at, false);
        }
    }

    fn follow_policy(&mut self, ended: &Ended, error: Option<Arc<str>>) {
        let options = &ended.options;
        let parent = ended.parent.as_ref().and_then(|parent| self.find(parent));
        let Some(at) = parent else { return };
        let job = &mut self.jobs[at];
        if !job.ties.children.contains(&ended.id) || !matches!(job.place, Place::Queued) {
            return;
        }
        let mut note = |ignored| {
            job.ties.failures.retain(|failure| failure.id != ended.id);
            job.ties.failures.push(ChildFailure {
                id: ended.id.clone(),
                queue: Arc::clone(&ended.queue),
                error: error.clone().unwrap_or_default(),
                ignored,
            });
        };
        if options.fail_parent_on_failure {
            let error = error.unwrap_or_else(|| "unknown error".into());
            let error = format!("Child job {} failed: {error}", ended.id);
            self.end(at, FailureReason::Unknown, Some(error.into()));
        } else if options.continue_parent_on_failure {
            note(false);
            self.drop_all(at);
            self.release(at, true);
        } else if options.ignore_dependency_on_failure {
            note(true);
            self.drop_dependency(at, &ended.id);
            self.release(at, true);
        } else if options.remove_dependency_on_failure {
            self.drop_dependency(at, &ended.id);
            self.release(at, true);
        }
    }

    fn lose(&mut self, ended: &Ended) {
        for id in self.waiting_for(&ended.id) {
            let Some(at) = self.find(&id) else { continue };
            let job = &self.jobs[at];
            // Clients of protocol 2 name the parent only after both exist.
            let is_child = match &ended.parent {
                Some(parent) => *parent == id,
                None => job.ties.children.contains(&ended.id),
            };
            if is_child && !ended.options.fail_parent_on_failure {
                self.drop_dependency(at, &ended.id);
                self.release(at, true);
                continue;
            }
            let error = match is_child {
                true => format!("Child job {} failed: removed", ended.id),
                false => format!("Dependency {} removed", ended.id),
            };
            self.end(at, FailureReason::Unknown, Some(error.into()));
        }
    }

    /// Jobs of a batch whose dependencies did not come with it, or are gone already.
    pub(super) fn lose_what_never_came(&mut self, ids: &[JobId]) {
        for id in ids {
            for missing in self
                .job(id)
                .map(|job| job.ties.unmet.clone())
                .unwrap_or_default()
            {
                if self.find(&missing).is_none() {
                    self.news.push_back(News::Removed(Ended {
                        id: missing,
                        queue: "".into(),
                        parent: None,
                        options: Arc::default(),
                    }));
                }
            }
        }
        self.spread();
    }

    fn drop_dependency(&mut self, at: usize, id: &JobId) {
        let ties = &mut self.jobs[at].ties;
        if ties.unmet.contains(id) {
            ties.unmet.retain(|other| other != id);
            ties.depends_on.retain(|other| other != id);
        }
    }

    fn drop_all(&mut self, at: usize) {
        for id in self.jobs[at].ties.unmet.clone() {
            self.drop_dependency(at, &id);
        }
    }

    /// Queues a job that waits for nobody any more.
    fn release(&mut self, at: usize, told: bool) {
        let ties = &mut self.jobs[at].ties;
        if !ties.waiting || !ties.unmet.is_empty() {
            return;
        }
        ties.parked = false;
        self.place(at);
        self.note_turns();
        self.touched.push(Arc::clone(&self.jobs[at].view.queue));
        let state = self.state_at(at);
        self.note(at, state, None, None);
        if told {
            let prev = State::WaitingChildren;
            self.emit_for(at, EventKind::Waiting { prev });
        }
    }
}
