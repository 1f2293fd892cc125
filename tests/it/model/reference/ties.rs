//! What is checked before an add, by the jobs it names (sections 6.1 to 6.4).

use std::sync::Arc;

use bunqueue_mcp::command::CommandError;
use bunqueue_mcp::engine::{JobId, NewJob, Parent, Refusal, State};

use super::{Place, Reference};

/// What an entry of an add will become, judged by ids and keys alone.
struct Fate {
    admitted: bool,
    replaces: Option<JobId>,
    /// The place of the entry that is deleted for it although a parent will wait for it.
    replaces_child: Option<usize>,
}

/// Who owns a key by the time that an entry has its turn.
#[derive(Clone)]
struct Owner {
    /// `None` for an entry whose id is still to be chosen.
    id: Option<JobId>,
    /// The place of an entry that comes as a child.
    child: Option<usize>,
}

impl Reference {
    /// Every fault that an add can have by the jobs it names; `index` says whether the entry is told.
    pub(super) fn check_adds(
        &self,
        queue: &Arc<str>,
        jobs: &[NewJob],
        batch: bool,
    ) -> Result<(), CommandError> {
        let own = |index: usize, refusal| match batch {
            true => Err(CommandError::BatchRefused { index, refusal }),
            false => Err(CommandError::Refused(refusal)),
        };
        let comes = |id: &JobId| jobs.iter().any(|job| job.custom_id.as_ref() == Some(id));
        for (index, job) in jobs.iter().enumerate() {
            for id in depends_on(job) {
                if Some(id) == job.custom_id.as_ref() {
                    return own(index, Refusal::SelfDependency(id.clone()));
                }
                if self.find(id).is_none() && !self.proofs.contains(id) && !comes(id) {
                    return own(index, Refusal::DependencyNotFound(id.clone()));
                }
            }
        }
        let fates = self.foresee(queue, jobs);
        for (index, job) in jobs.iter().enumerate() {
            self.check_parent(queue, job, &jobs[..index], &fates[..index])
                .map_err(CommandError::Refused)?;
        }
        for (index, job) in jobs.iter().enumerate() {
            if self.is_stuck(index, jobs, &fates) {
                return match (&job.custom_id, parent_of(job)) {
                    (Some(id), None) => own(index, Refusal::SelfDependency(id.clone())),
                    _ => Err(CommandError::Refused(Refusal::DependencyCycle)),
                };
            }
        }
        for fate in &fates {
            if let Some(place) = fate.replaces_child {
                let unnamed = || JobId::from_text(&format!("jobs[{place}]"));
                let owner = fate.replaces.clone().unwrap_or_else(unnamed);
                return Err(CommandError::Refused(Refusal::OwnerNeeded(owner)));
            }
            let Some(owner) = &fate.replaces else {
                continue;
            };
            if self.is_awaited(owner) || jobs.iter().any(|job| depends_on(job).contains(owner)) {
                let refusal = Refusal::OwnerNeeded(owner.clone());
                return Err(CommandError::Refused(refusal));
            }
        }
        Ok(())
    }

    /// Whether somebody waits for that job.
    pub(super) fn is_awaited(&self, id: &JobId) -> bool {
        self.jobs.iter().any(|job| job.ties.unmet.contains(id))
    }

    fn foresee(&self, queue: &Arc<str>, jobs: &[NewJob]) -> Vec<Fate> {
        let no_op = || Fate {
            admitted: false,
            replaces: None,
            replaces_child: None,
        };
        let mut fates: Vec<Fate> = Vec::new();
        let mut known: Vec<JobId> = Vec::new();
        let mut gone: Vec<JobId> = Vec::new();
        // Keys that entries have taken over, or lost again.
        let mut keys: Vec<(Arc<str>, Option<Owner>)> = Vec::new();
        for (index, job) in jobs.iter().enumerate() {
            if let Some(id) = &job.custom_id
                && (known.contains(id) || (self.is_live(id) && !gone.contains(id)))
            {
                fates.push(no_op());
                continue;
            }
            let options = job.options.clone().unwrap_or_default();
            let born = job.timestamp.unwrap_or(self.now);
            let survives = options
                .ttl
                .is_none_or(|ttl| self.now as f64 <= born as f64 + ttl);
            let (mut replaces, mut replaces_child) = (None, None);
            if let Some(key) = &options.unique_key {
                let taken = keys.iter().rev().find(|(name, _)| name == key);
                let stored = || {
                    let mut entries = self.keys.iter();
                    let entry = entries.find(|entry| {
                        let lives = entry.expires_at.is_none_or(|at| at > self.now);
                        entry.queue == *queue && entry.key == *key && lives
                    });
                    entry.map(|entry| Owner {
                        id: Some(entry.owner.clone()),
                        child: None,
                    })
                };
                let owner = taken.map_or_else(stored, |(_, owner)| owner.clone());
                let short = options.dedup.ttl.is_some_and(|ttl| ttl <= 0.0);
                if let Some(Owner { id: owner, child }) = owner {
                    replaces_child = child;
                    if !options.dedup.replace {
                        if options.dedup.extend && short {
                            keys.push((Arc::clone(key), None));
                        }
                        fates.push(no_op());
                        continue;
                    }
                    let active = |id: &JobId| self.state(id) == Some(State::Active);
                    replaces = owner.filter(|id| known.contains(id) || !active(id));
                    if let Some(id) = &replaces {
                        known.retain(|other| other != id);
                        gone.push(id.clone());
                    }
                }
                let owned = survives && !short;
                let owner = || Owner {
                    id: job.custom_id.clone(),
                    child: parent_of(job).map(|_| index),
                };
                keys.push((Arc::clone(key), owned.then(owner)));
            }
            if survives {
                known.extend(job.custom_id.clone());
            }
            fates.push(Fate {
                admitted: true,
                replaces,
                replaces_child,
            });
        }
        fates
    }

    /// A parent comes earlier in the batch, or waits in its queue.
    fn check_parent(
        &self,
        queue: &Arc<str>,
        job: &NewJob,
        before: &[NewJob],
        fates: &[Fate],
    ) -> Result<(), Refusal> {
        let Some(parent) = parent_of(job) else {
            return Ok(());
        };
        let id = &parent.id;
        if job.custom_id.as_ref() == Some(id) {
            return Err(Refusal::OwnParent);
        }
        // The last thing that the batch does with the parent before.
        let mut comes = None;
        for (other, fate) in before.iter().zip(fates) {
            if fate.replaces.as_ref() == Some(id) {
                comes = Some(false);
            }
            if fate.admitted && other.custom_id.as_ref() == Some(id) {
                comes = Some(true);
            }
        }
        let stands_in = match (comes, self.find(id)) {
            (Some(true), _) => queue,
            (Some(false), _) | (None, None) => return Err(Refusal::ParentNotFound(id.clone())),
            (None, Some(at)) if !matches!(self.jobs[at].place, Place::Queued) => {
                return Err(Refusal::ParentNotLinkable(id.clone()));
            }
            (None, Some(at)) if self.jobs[at].view.options.repeat.is_some() => {
                return Err(Refusal::RepeatRelations(id.clone()));
            }
            (None, Some(at)) => &self.jobs[at].view.queue,
        };
        if *stands_in != parent.queue {
            return Err(Refusal::ParentElsewhere {
                parent: id.clone(),
                queue: Arc::clone(stands_in),
                given: Arc::clone(&parent.queue),
            });
        }
        Ok(())
    }

    /// Whether an entry would wait for itself, or for such a job while another one waits for it.
    fn is_stuck(&self, index: usize, jobs: &[NewJob], fates: &[Fate]) -> bool {
        if !fates[index].admitted {
            return false;
        }
        // Whoever the entries and the stored jobs would wait for: entries by index, stored jobs behind them.
        let count = jobs.len() + self.jobs.len();
        let admitted = |id: &JobId| {
            (0..jobs.len())
                .filter(|at| fates[*at].admitted && jobs[*at].custom_id.as_ref() == Some(id))
                .collect::<Vec<_>>()
        };
        let places = |id: &JobId| {
            let found = admitted(id);
            match self.find(id) {
                Some(at) if found.is_empty() => vec![jobs.len() + at],
                _ => found,
            }
        };
        let children = |id: &JobId| {
            let of = |at: &usize| {
                fates[*at].admitted && parent_of(&jobs[*at]).is_some_and(|parent| parent.id == *id)
            };
            (0..jobs.len()).filter(of).collect::<Vec<_>>()
        };
        let next = |at: usize| -> Vec<usize> {
            let (awaited, id) = match jobs.get(at) {
                Some(_) if !fates[at].admitted => return Vec::new(),
                Some(job) => (depends_on(job), job.custom_id.as_ref()),
                None => {
                    let job = &self.jobs[at - jobs.len()];
                    (&job.ties.unmet[..], Some(&job.view.id))
                }
            };
            let awaited = awaited.iter().flat_map(places);
            awaited.chain(id.into_iter().flat_map(children)).collect()
        };
        let reach = |from: usize| {
            let (mut seen, mut open) = (Vec::new(), next(from));
            while let Some(at) = open.pop() {
                if !seen.contains(&at) {
                    seen.push(at);
                    open.extend(next(at));
                }
            }
            seen
        };
        let mine = reach(index);
        if mine.contains(&index) {
            return true;
        }
        let circular = |at: &usize| reach(*at).contains(at);
        mine.iter().any(circular)
            && (0..count).any(|at| reach(at).contains(&index) && circular(&at))
    }
}

fn depends_on(job: &NewJob) -> &[JobId] {
    job.links.as_ref().map_or(&[], |links| &links.depends_on)
}

pub(super) fn parent_of(job: &NewJob) -> Option<&Parent> {
    job.links.as_ref()?.parent.as_ref()
}
