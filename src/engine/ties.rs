//! What is checked before jobs are added, as far as other jobs have a say: whether those they name exist, whether jobs
//! would wait for each other, whether somebody is needed who is to be replaced (engine contract, sections 6.1 to 6.4).
//!
//! A batch is checked as a whole against the state before it, so that it is admitted as a whole or not at all. An entry
//! that stands for an existing job ties nothing; which ones do is foreseen from ids and keys alone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Engine;
use super::id::{JobId, UUID_TEXT_LEN};
use super::job::{NewJob, Parent};
use super::link::{check_listed, child_bytes};
use super::outcome::{BatchRefusal, Refusal};
use super::store::fails_at_once;

/// What will become of an entry of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Prospect<'a> {
    /// It becomes a job.
    admitted: bool,
    /// The job that is deleted for it.
    replaced: Option<&'a JobId>,
    /// The place of the entry that is deleted for it although a parent will wait for it.
    replaced_child: Option<usize>,
}

/// Who owns a key by the time that an entry has its turn.
#[derive(Clone, Copy, Debug)]
struct Owner<'a> {
    /// `None` for an entry whose id the engine has yet to choose.
    id: Option<&'a JobId>,
    active: bool,
    /// The place of an entry that comes as the child of another job.
    child: Option<usize>,
}

impl Engine {
    /// Whether these jobs may be added together.
    ///
    /// # Errors
    /// The first fault; the entry is named where its own words are at fault.
    pub(super) fn check_ties(&self, queue: &Arc<str>, jobs: &[NewJob]) -> Result<(), BatchRefusal> {
        let tied = jobs.iter().any(|job| job.links.is_some());
        if !tied && !jobs.iter().any(replaces) {
            return Ok(());
        }
        let prospects = self.foresee(queue, jobs);
        if tied {
            check_lists(jobs)?;
            self.check_dependencies_exist(jobs)?;
            self.check_parents(queue, jobs, &prospects)?;
            self.check_for_cycles(jobs, &prospects)?;
            self.check_results(jobs)?;
        }
        self.check_replacements(jobs, &prospects)
    }

    /// Whether the results of those children that have completed already are there to be kept for their parents; what
    /// says no means nothing else (see [`super::cold`]).
    fn check_results(&self, jobs: &[NewJob]) -> Result<(), BatchRefusal> {
        let links = jobs.iter().filter_map(|job| job.links.as_ref());
        let children = links.flat_map(|links| &links.children);
        let missed = children.filter(|id| self.store.find(id).is_some_and(|key| self.misses(key)));
        match missed.last() {
            None => Ok(()),
            Some(id) => Err(BatchRefusal {
                index: None,
                refusal: Refusal::ChildNotFound(id.clone()),
            }),
        }
    }

    fn foresee<'a>(&'a self, queue: &str, jobs: &'a [NewJob]) -> Vec<Prospect<'a>> {
        let place = self.queues.find(queue);
        // What the entries before have changed.
        let mut live: HashMap<&JobId, bool> = HashMap::new();
        let mut owners: HashMap<&str, Option<Owner<'a>>> = HashMap::new();
        let foresee_one = |(index, job): (usize, &'a NewJob)| {
            let id = job.custom_id.as_ref();
            let exists = |id| live.get(id).copied().unwrap_or_else(|| self.is_live(id));
            if id.is_some_and(exists) {
                return Prospect::default();
            }
            let mut prospect = Prospect {
                admitted: true,
                ..Prospect::default()
            };
            let lives = !fails_at_once(job, self.now);
            if let Some(options) = job.options.as_deref()
                && let Some(key) = options.unique_key.as_deref()
            {
                let known = || {
                    let owner = self.store.job(self.key_owner(place?, key)?);
                    let active = owner.state == super::State::Active;
                    let id = Some(&owner.id);
                    let child = None;
                    Some(Owner { id, active, child })
                };
                let owner = owners.get(key).copied().unwrap_or_else(known);
                let outlives = options.dedup.ttl.is_none_or(|ttl| ttl > 0.0);
                if let Some(owner) = owner {
                    if !options.dedup.replace {
                        if options.dedup.extend && !outlives {
                            owners.insert(key, None);
                        }
                        return Prospect::default();
                    }
                    if !owner.active {
                        prospect.replaced = owner.id;
                        prospect.replaced_child = owner.child;
                        live.extend(owner.id.map(|id| (id, false)));
                    }
                }
                let child = parent(job).map(|_| index);
                let active = false;
                let owner = Owner { id, active, child };
                owners.insert(key, (lives && outlives).then_some(owner));
            }
            live.extend(id.map(|id| (id, lives)));
            prospect
        };
        jobs.iter().enumerate().map(foresee_one).collect()
    }

    fn check_dependencies_exist(&self, jobs: &[NewJob]) -> Result<(), BatchRefusal> {
        let coming: HashSet<&JobId> = jobs
            .iter()
            .filter_map(|job| job.custom_id.as_ref())
            .collect();
        for (index, job) in jobs.iter().enumerate() {
            let refused = |refusal| BatchRefusal {
                index: Some(index),
                refusal,
            };
            for other in depends_on(job) {
                if Some(other) == job.custom_id.as_ref() {
                    return Err(refused(Refusal::SelfDependency(other.clone())));
                }
                let known = self.store.find(other).is_some() || self.has_completed(other);
                if !known && !coming.contains(other) {
                    return Err(refused(Refusal::DependencyNotFound(other.clone())));
                }
            }
        }
        Ok(())
    }

    /// A parent stands in the store or comes before its child, and has room for it.
    fn check_parents(
        &self,
        queue: &Arc<str>,
        jobs: &[NewJob],
        prospects: &[Prospect<'_>],
    ) -> Result<(), BatchRefusal> {
        let mut before: HashSet<&JobId> = HashSet::new();
        let mut gone: HashSet<&JobId> = HashSet::new();
        // Bytes in the lists of parents by now.
        let mut listed: HashMap<&JobId, usize> = HashMap::new();
        for (job, prospect) in jobs.iter().zip(prospects) {
            if let Some(parent) = parent(job) {
                let checked = if job.custom_id.as_ref() == Some(&parent.id) {
                    Err(Refusal::OwnParent)
                } else if before.contains(&parent.id) {
                    right_queue(parent, queue)
                } else if gone.contains(&parent.id) {
                    Err(Refusal::ParentNotFound(parent.id.clone()))
                } else {
                    self.check_parent(parent)
                };
                let checked = checked.and_then(|()| {
                    if !prospect.admitted {
                        return Ok(());
                    }
                    let bytes = listed
                        .entry(&parent.id)
                        .or_insert_with(|| self.listed_bytes(&parent.id));
                    let own = job.custom_id.as_ref();
                    *bytes += child_bytes(own.map_or(UUID_TEXT_LEN, JobId::text_len));
                    check_listed(*bytes)
                });
                checked.map_err(|refusal| BatchRefusal {
                    index: None,
                    refusal,
                })?;
            }
            if let Some(replaced) = prospect.replaced {
                before.remove(replaced);
                gone.insert(replaced);
            }
            if prospect.admitted
                && let Some(id) = &job.custom_id
            {
                before.insert(id);
                listed.insert(
                    id,
                    job.links.as_ref().map_or(0, |links| links.listed_bytes()),
                );
            }
        }
        Ok(())
    }

    fn listed_bytes(&self, id: &JobId) -> usize {
        let key = self.store.find(id);
        key.map_or(0, |key| self.store.job(key).listed_bytes())
    }

    fn check_for_cycles(
        &self,
        jobs: &[NewJob],
        prospects: &[Prospect<'_>],
    ) -> Result<(), BatchRefusal> {
        let mut graph = Graph::new(self, jobs, prospects);
        graph.explore();
        let Some((index, job)) =
            find_cycle(&graph.edges).and_then(|index| Some((index, jobs.get(index)?)))
        else {
            return Ok(());
        };
        Err(match (&job.custom_id, parent(job)) {
            (Some(id), None) => BatchRefusal {
                index: Some(index),
                refusal: Refusal::SelfDependency(id.clone()),
            },
            _ => BatchRefusal {
                index: None,
                refusal: Refusal::DependencyCycle,
            },
        })
    }

    /// A job that others wait for cannot be replaced.
    fn check_replacements(
        &self,
        jobs: &[NewJob],
        prospects: &[Prospect<'_>],
    ) -> Result<(), BatchRefusal> {
        let awaited: HashSet<&JobId> = jobs.iter().flat_map(depends_on).collect();
        let needed = |prospect: &Prospect<'_>| {
            let is_awaited = |id: &&JobId| self.has_dependents(id) || awaited.contains(*id);
            if let Some(place) = prospect.replaced_child {
                // It has no id yet, unless its client has chosen one.
                let unnamed = || JobId::from_text(&format!("jobs[{place}]"));
                return Some(prospect.replaced.cloned().unwrap_or_else(unnamed));
            }
            prospect.replaced.filter(is_awaited).cloned()
        };
        match prospects.iter().find_map(needed) {
            Some(owner) => Err(BatchRefusal {
                index: None,
                refusal: Refusal::OwnerNeeded(owner),
            }),
            None => Ok(()),
        }
    }
}

/// No job brings along more ties than fit.
fn check_lists(jobs: &[NewJob]) -> Result<(), BatchRefusal> {
    for (index, job) in jobs.iter().enumerate() {
        if let Some(links) = &job.links {
            check_listed(links.listed_bytes()).map_err(|refusal| BatchRefusal {
                index: Some(index),
                refusal,
            })?;
        }
    }
    Ok(())
}

/// The parent's queue is the one that was said.
pub(super) fn right_queue(parent: &Parent, queue: &Arc<str>) -> Result<(), Refusal> {
    if *queue == parent.queue {
        Ok(())
    } else {
        Err(Refusal::ParentElsewhere {
            parent: parent.id.clone(),
            queue: Arc::clone(queue),
            given: Arc::clone(&parent.queue),
        })
    }
}

fn replaces(job: &NewJob) -> bool {
    let options = job.options.as_ref();
    options.is_some_and(|options| options.dedup.replace)
}

fn depends_on(job: &NewJob) -> &[JobId] {
    job.links.as_ref().map_or(&[], |links| &links.depends_on)
}

fn parent(job: &NewJob) -> Option<&Parent> {
    job.links.as_ref()?.parent.as_ref()
}

/// Who would wait for whom: the entries of a batch in their places, behind them stored jobs.
#[derive(Debug)]
struct Graph<'a> {
    engine: &'a Engine,
    /// Places of the entries that become jobs, by the id they have.
    coming: HashMap<&'a JobId, Vec<usize>>,
    /// Places of entries by the parent that will wait for them.
    children: HashMap<&'a JobId, Vec<usize>>,
    /// Places of stored jobs; `None` as long as they cannot lie on a cycle.
    stored: Option<HashMap<&'a JobId, usize>>,
    edges: Vec<Vec<usize>>,
    open: Vec<(usize, &'a JobId)>,
}

impl<'a> Graph<'a> {
    fn new(engine: &'a Engine, jobs: &'a [NewJob], prospects: &[Prospect<'_>]) -> Self {
        let mut graph = Self {
            engine,
            coming: HashMap::new(),
            children: HashMap::new(),
            stored: None,
            edges: vec![Vec::new(); jobs.len()],
            open: Vec::new(),
        };
        let admitted = || {
            let jobs = jobs.iter().zip(prospects).enumerate();
            jobs.filter_map(|(place, (job, prospect))| prospect.admitted.then_some((place, job)))
        };
        for (place, job) in admitted() {
            if let Some(id) = &job.custom_id {
                graph.coming.entry(id).or_default().push(place);
            }
            if let Some(parent) = parent(job) {
                graph.children.entry(&parent.id).or_default().push(place);
            }
        }
        // Stored jobs need a look only if a way leads from them into the batch and on: by way of one that is waited for.
        let id = |job: &'a NewJob| job.custom_id.as_ref();
        let named: HashSet<&JobId> = admitted().flat_map(|(_, job)| depends_on(job)).collect();
        let awaited = admitted().any(|(_, job)| {
            let parent = parent(job).map(|parent| &parent.id);
            let parent_awaited = |id| named.contains(id) || engine.has_dependents(id);
            !depends_on(job).is_empty()
                && (parent.is_some_and(parent_awaited)
                    || id(job).is_some_and(|id| engine.has_dependents(id)))
        });
        graph.stored = awaited.then(HashMap::new);
        for (place, job) in admitted() {
            graph.lead(place, depends_on(job));
            if let Some(id) = id(job) {
                graph.lead_to_children(place, id);
            }
        }
        graph
    }

    fn lead(&mut self, from: usize, to: impl IntoIterator<Item = &'a JobId>) {
        for id in to {
            let mut places = self.coming.get(id).cloned().unwrap_or_default();
            if places.is_empty()
                && let Some(stored) = &mut self.stored
            {
                let next = self.edges.len();
                let place = *stored.entry(id).or_insert(next);
                if place == next {
                    self.edges.push(Vec::new());
                    self.open.push((place, id));
                }
                places.push(place);
            }
            if let Some(edges) = self.edges.get_mut(from) {
                edges.extend(places);
            }
        }
    }

    fn lead_to_children(&mut self, from: usize, parent: &JobId) {
        if let Some(children) = self.children.get(parent)
            && let Some(edges) = self.edges.get_mut(from)
        {
            edges.extend(children);
        }
    }

    /// Follows stored jobs to those that they wait for.
    fn explore(&mut self) {
        let engine = self.engine;
        while let Some((place, id)) = self.open.pop() {
            if let Some(key) = engine.store.find(id) {
                let links = engine.store.job(key).links.iter();
                self.lead(place, links.flat_map(|links| &links.unmet));
                self.lead_to_children(place, id);
            }
        }
    }
}

/// The first place on a cycle or between two, if there is one; each place lists those that it leads to.
pub fn find_cycle(edges: &[Vec<usize>]) -> Option<usize> {
    let mut back = vec![Vec::new(); edges.len()];
    for (from, nexts) in edges.iter().enumerate() {
        for next in nexts {
            back.get_mut(*next)?.push(from);
        }
    }
    // Whatever lies on a cycle is behind one and before one.
    let (behind, before) = (left_over(edges, &back), left_over(&back, edges));
    let mut stuck = behind.into_iter().zip(before);
    stuck.position(|(behind, before)| behind && before)
}

/// Which places are left when those that nothing leads to are taken away, again and again: all on cycles or behind them.
fn left_over(edges: &[Vec<usize>], back: &[Vec<usize>]) -> Vec<bool> {
    let mut open: Vec<usize> = back.iter().map(Vec::len).collect();
    let mut left = vec![true; edges.len()];
    let free = |(place, open): (usize, &usize)| (*open == 0).then_some(place);
    let mut free: Vec<usize> = open.iter().enumerate().filter_map(free).collect();
    while let Some(place) = free.pop() {
        if let Some(left) = left.get_mut(place) {
            *left = false;
        }
        for next in edges.get(place).into_iter().flatten() {
            if let Some(open) = open.get_mut(*next) {
                *open -= 1;
                if *open == 0 {
                    free.push(*next);
                }
            }
        }
    }
    left
}
