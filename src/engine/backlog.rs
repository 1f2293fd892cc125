//! The ready jobs of a queue: those of no group in their order, and those of groups, whose turns go round (engine
//! contract, section 5); and the pulls that wait for them.
//!
//! Inside a group the smaller priority comes first, then admission. A group with a ready job has a turn; the lowest turn
//! is served next and gets the greatest then, and a group that begins anew gets the greatest, too. Groups that may be
//! served stand in the rotation, sorted by what the limits of a pull look at ([`Load`]); paused, throttled and empty
//! groups are not in it, so that no pull has to look at them. Everything that changes a group goes through
//! [`Groups::change`], which keeps rotation, sums, and what a waiting pull gets from its group.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use slab::Slab;

use super::Millis;
use super::limit::RateLimit;
use super::outcome::WaiterId;
use super::ready::{Ready, ReadyKey};
use super::store::{Job, JobKey};
use super::waiters::{Stand, Waiters};

/// What a pull says of groups (engine contract, section 18).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PullGroup {
    /// Jobs of one group that may be active, at least 1; a group's own limit takes its place.
    pub concurrency: Option<u64>,
    /// Deliveries of one group in a fixed window that begins with the first; a group's own limit takes its place.
    pub limit: Option<RateLimit>,
    /// Which groups it is for.
    pub affinity: Affinity,
}

/// Which groups a pull is for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Affinity {
    /// All of them, and jobs of no group.
    #[default]
    Any,
    /// Jobs of no group.
    Ungrouped,
    /// This group alone.
    Group(Arc<str>),
}

/// A group's place in the table of its queue; given to another group once this one is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GroupKey(u32);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    free: Ready,
    pub(super) groups: Groups,
    /// Jobs of no group take their turn like a group, instead of going first.
    in_turn: bool,
    /// The turn of the jobs of no group, when they take one and there are any.
    free_turn: Option<u64>,
}

/// The groups of a queue that have queued or active jobs, or anything set.
#[derive(Debug, Default)]
pub(super) struct Groups {
    index: HashMap<Arc<str>, GroupKey>,
    groups: Slab<Group>,
    /// Groups that may be served, by load and turn.
    rotation: BTreeMap<Load, BTreeMap<u64, GroupKey>>,
    /// The same groups by turn alone, for pulls without limits.
    turns: BTreeMap<u64, GroupKey>,
    next_turn: u64,
    /// Ready jobs of all groups.
    ready: usize,
    /// Queued jobs of all groups.
    queued: usize,
    /// Pulls that wait for a job of the queue, of a group or not.
    waiters: Waiters,
}

/// A group of jobs.
#[derive(Debug)]
pub(super) struct Group {
    name: Arc<str>,
    ready: Ready,
    /// Queued jobs that are not ready.
    delayed: usize,
    /// Jobs in delivery.
    pub(super) active: usize,
    pub(super) paused: bool,
    /// Until when it is skipped.
    pub(super) throttled_until: Option<Millis>,
    /// Its own limit of active jobs.
    pub(super) concurrency: Option<u64>,
    /// Its own limit of deliveries.
    pub(super) rate: Option<RateLimit>,
    pub(super) window: Option<Window>,
    /// While it has a ready job.
    turn: Option<u64>,
}

/// Deliveries counted since the first of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) ends_at: Millis,
    pub(super) used: u64,
    /// The number of the first.
    pub(super) since: u64,
}

/// What the limits of a pull are compared with. A group with a limit of its own counts as empty below it and as full at
/// it, whatever the pull says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Load {
    pub(super) active: u64,
    pub(super) used: u64,
}

const FULL: u64 = u64::MAX;

impl Load {
    pub(super) const EMPTY: Self = Self { active: 0, used: 0 };
    pub(super) const FULL: Self = Self {
        active: FULL,
        used: FULL,
    };

    pub(super) fn is_within(self, most: Self) -> bool {
        self.active <= most.active && self.used <= most.used
    }

    /// The greater one of each part.
    pub(super) fn max_each(self, other: Self) -> Self {
        Self {
            active: self.active.max(other.active),
            used: self.used.max(other.used),
        }
    }
}

impl PullGroup {
    fn has_limits(&self) -> bool {
        self.concurrency.is_some() || self.limit.is_some()
    }

    /// The greatest load that it admits.
    pub(super) fn most(&self) -> Load {
        let below = |max: Option<u64>| max.map_or(FULL, |max| max.saturating_sub(1));
        Load {
            active: below(self.concurrency),
            used: below(self.limit.map(|limit| limit.max)),
        }
    }
}

impl Backlog {
    pub(super) fn len(&self) -> usize {
        self.free.len() + self.groups.ready
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.is_empty() && self.groups.ready == 0
    }

    /// Every ready job, in no particular order.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobKey> {
        let grouped = self.groups.groups.iter();
        self.free
            .jobs()
            .chain(grouped.flat_map(|(_, group)| group.ready.jobs()))
    }

    /// Jobs of which one has the earliest run time; all of those in groups, where it does not decide the order.
    pub(super) fn earliest(&self) -> impl Iterator<Item = JobKey> {
        let grouped = self.groups.groups.iter();
        self.free
            .earliest()
            .chain(grouped.flat_map(|(_, group)| group.ready.jobs()))
    }

    /// Gives back room that no job needs.
    pub(super) fn shrink(&mut self) {
        self.free.shrink();
        self.groups.index.shrink_to_fit();
        self.groups.groups.shrink_to_fit();
    }

    /// The job that such a pull gets next.
    pub(super) fn next(&self, wish: Option<&PullGroup>) -> Option<JobKey> {
        match wish.map(|wish| &wish.affinity) {
            Some(Affinity::Ungrouped) => return self.free.first(),
            Some(Affinity::Group(name)) => return self.groups.next_of(name, wish),
            None | Some(Affinity::Any) => {}
        }
        let free = self.free.first();
        if free.is_some() && !self.in_turn {
            return free;
        }
        let Some((turn, grouped)) = self.groups.next(wish) else {
            return free;
        };
        free.filter(|_| self.free_turn.is_some_and(|own| own < turn))
            .or(grouped)
    }

    pub(super) fn waiters(&self) -> &Waiters {
        &self.groups.waiters
    }

    /// A pull begins to wait.
    pub(super) fn begin_wait(&mut self, waiter: WaiterId, stand: &Stand) {
        let load = self.groups.load_for(stand);
        self.groups.waiters.insert(waiter, stand, load);
    }

    /// A pull waits no more.
    pub(super) fn end_wait(&mut self, waiter: WaiterId, stand: &Stand) {
        let load = self.groups.load_for(stand);
        self.groups.waiters.remove(waiter, stand, load);
    }

    /// The longest-waiting pull that there is a job for.
    pub(super) fn first_waiter(&self) -> Option<WaiterId> {
        if self.waiters().is_empty() || self.is_empty() {
            return None;
        }
        let free = !self.free.is_empty();
        self.waiters().first(free, self.groups.lightest())
    }

    /// Forgets everything but who waits; there are no jobs.
    pub(super) fn clear(&mut self) {
        let waiters = std::mem::take(&mut self.groups.waiters);
        *self = Self::default();
        self.groups.waiters = waiters;
    }

    pub(super) fn insert(&mut self, job: &Job, key: JobKey) {
        if let Some(name) = job.group() {
            self.groups
                .change_named(name, |group| group.ready.insert(job.ready_key(), key));
        } else {
            self.free.insert(job.ready_key(), key);
            self.keep_free_turn();
        }
    }

    pub(super) fn remove(&mut self, job: &Job) -> Option<JobKey> {
        if let Some(name) = job.group() {
            self.groups
                .change_named(name, |group| group.ready.remove(&job.ready_key()))
        } else {
            let removed = self.free.remove(&job.ready_key());
            self.keep_free_turn();
            removed
        }
    }

    /// Moves a ready job whose key has changed; its group keeps its turn.
    pub(super) fn replace(&mut self, job: &Job, before: &ReadyKey, key: JobKey) {
        let replace = |ready: &mut Ready| {
            ready.remove(before);
            ready.insert(job.ready_key(), key);
        };
        match job.group() {
            Some(name) => self
                .groups
                .change_named(name, |group| replace(&mut group.ready)),
            None => replace(&mut self.free),
        }
    }

    /// Counts a delayed job for its group.
    pub(super) fn add_delayed(&mut self, job: &Job) {
        if let Some(name) = job.group() {
            self.groups.change_named(name, |group| group.delayed += 1);
        }
    }

    /// That job is not delayed any more.
    pub(super) fn remove_delayed(&mut self, job: &Job) {
        if let Some(name) = job.group() {
            self.groups.change_named(name, |group| group.delayed -= 1);
        }
    }

    /// The turn by which a ready job of that group, or of none, is delivered.
    pub(super) fn turn(&self, group: Option<&Arc<str>>) -> Option<u64> {
        match group {
            Some(name) => self.groups.get(name)?.turn,
            None => self.free_turn,
        }
    }

    /// A delivery that took such a turn has never been: as long as there is a ready job, it comes by that turn.
    pub(super) fn give_turn_back(&mut self, group: Option<&Arc<str>>, turn: u64) {
        let give = |own: &mut Option<u64>| *own = own.map(|own| own.min(turn));
        match group {
            Some(name) => {
                if let Some(key) = self.groups.find(name) {
                    self.groups.change(key, |group| give(&mut group.turn));
                }
            }
            None => give(&mut self.free_turn),
        }
    }

    /// A job of no group is about to leave by delivery: the next one waits for its turn.
    pub(super) fn pass_free_turn(&mut self) {
        self.free_turn = None;
    }

    /// That job is being delivered since before this engine began.
    pub(super) fn begin_active(&mut self, job: &Job) {
        if let Some(name) = job.group() {
            self.groups.change_named(name, |group| group.active += 1);
        }
    }

    /// A delivery of that job is over.
    pub(super) fn end_active(&mut self, job: &Job) {
        if let Some(name) = job.group() {
            self.groups.change_named(name, |group| group.active -= 1);
        }
    }

    pub(super) fn is_in_turn(&self) -> bool {
        self.in_turn
    }

    pub(super) fn set_in_turn(&mut self, in_turn: bool) {
        self.in_turn = in_turn;
        self.keep_free_turn();
    }

    fn keep_free_turn(&mut self) {
        if !self.in_turn || self.free.is_empty() {
            self.free_turn = None;
        } else if self.free_turn.is_none() {
            self.free_turn = Some(self.groups.take_turn());
        }
    }
}

impl Groups {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Queued jobs of all groups.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    pub(super) fn find(&self, name: &str) -> Option<GroupKey> {
        self.index.get(name).copied()
    }

    /// The group of that name; a group without jobs and settings does not exist.
    pub(super) fn get(&self, name: &str) -> Option<&Group> {
        self.groups.get(self.find(name)?.0 as usize)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (GroupKey, &Group)> {
        self.groups
            .iter()
            .map(|(key, group)| (GroupKey(key as u32), group))
    }

    /// The group of that name, made when there is none. It goes with the next change that leaves nothing of it.
    pub(super) fn open(&mut self, name: &Arc<str>) -> GroupKey {
        if let Some(key) = self.find(name) {
            return key;
        }
        let key = GroupKey(self.groups.insert(Group::new(Arc::clone(name))) as u32);
        self.index.insert(Arc::clone(name), key);
        key
    }

    /// Changes a group, and sets right what depends on it.
    #[expect(
        clippy::indexing_slicing,
        reason = "a key without a group is a fault of the engine"
    )]
    pub(super) fn change<R>(&mut self, key: GroupKey, act: impl FnOnce(&mut Group) -> R) -> R {
        let group = &mut self.groups[key.0 as usize];
        let before = (group.place(), group.ready.len(), group.queued());
        let result = act(group);
        if group.ready.is_empty() {
            group.turn = None;
        } else if group.turn.is_none() {
            group.turn = Some(self.next_turn);
            self.next_turn += 1;
        }
        let after = (group.place(), group.ready.len(), group.queued());
        self.ready = self.ready - before.1 + after.1;
        self.queued = self.queued - before.2 + after.2;
        let is_unused = group.is_unused();
        if before.0 != after.0 {
            let load = after.0.map(|(load, _)| load);
            self.waiters.group_moved(&group.name, load);
            self.move_in_rotation(key, before.0, after.0);
        }
        if is_unused {
            let group = self.groups.remove(key.0 as usize);
            self.index.remove(&group.name);
        }
        result
    }

    fn change_named<R>(&mut self, name: &Arc<str>, act: impl FnOnce(&mut Group) -> R) -> R {
        let key = self.open(name);
        self.change(key, act)
    }

    fn move_in_rotation(
        &mut self,
        key: GroupKey,
        from: Option<(Load, u64)>,
        to: Option<(Load, u64)>,
    ) {
        // Most changes leave a group its turn.
        let (before, after) = (from.map(|(_, turn)| turn), to.map(|(_, turn)| turn));
        if before != after {
            before.map(|turn| self.turns.remove(&turn));
            after.map(|turn| self.turns.insert(turn, key));
        }
        if let Some((load, turn)) = from
            && let Some(turns) = self.rotation.get_mut(&load)
        {
            turns.remove(&turn);
            if turns.is_empty() {
                self.rotation.remove(&load);
            }
        }
        if let Some((load, turn)) = to {
            self.rotation.entry(load).or_default().insert(turn, key);
        }
    }

    fn take_turn(&mut self) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        turn
    }

    /// The load of the group that such a pull is for, while a job of it can be handed out.
    pub(super) fn load_for(&self, stand: &Stand) -> Option<Load> {
        let (load, _) = self.get(stand.group()?)?.place()?;
        Some(load)
    }

    /// Loads of groups that may be served: whoever admits one of the others admits one of these.
    fn lightest(&self) -> impl Iterator<Item = Load> {
        let with_active = move |active: u64| {
            let from = Load { active, used: 0 };
            self.rotation.range(from..).next().map(|(load, _)| *load)
        };
        // Of the groups with as many active jobs, the one that is used least stands first.
        let firsts = std::iter::successors(with_active(0), move |load| {
            with_active(load.active.checked_add(1)?)
        });
        let mut least: Option<u64> = None;
        firsts.filter(move |load| {
            let is_lighter = least.is_none_or(|least| load.used < least);
            if is_lighter {
                least = Some(load.used);
            }
            is_lighter
        })
    }

    /// The lowest turn among groups that the pull may be served from, and the first job of that group.
    fn next(&self, wish: Option<&PullGroup>) -> Option<(u64, Option<JobKey>)> {
        let (turn, key) = match wish.filter(|wish| wish.has_limits()) {
            None => self.turns.first_key_value()?,
            Some(wish) => self.first_within(wish.most())?,
        };
        Some((*turn, self.groups.get(key.0 as usize)?.ready.first()))
    }

    /// The lowest turn among groups that are not busier than that.
    ///
    /// It is looked for in two ways at once, and whichever ends first has found it: along the turns, where groups that are
    /// too busy stand in the way, and through the loads, of which each has a lowest turn.
    fn first_within(&self, most: Load) -> Option<(&u64, &GroupKey)> {
        let busiest = Load {
            active: most.active,
            used: FULL,
        };
        let mut by_load = self.rotation.range(..=busiest);
        let mut lowest = None;
        for (turn, key) in &self.turns {
            let place = self.groups.get(key.0 as usize).and_then(Group::place);
            if place.is_some_and(|(load, _)| load.is_within(most)) {
                return Some((turn, key));
            }
            let Some((load, turns)) = by_load.next() else {
                return lowest;
            };
            if load.is_within(most) {
                let first = turns.first_key_value();
                lowest = lowest
                    .into_iter()
                    .chain(first)
                    .min_by_key(|(turn, _)| **turn);
            }
        }
        None
    }

    /// Whether the groups that may be served, and no others, stand in both orders. For tests and diagnosis.
    pub(super) fn are_in_their_places(&self) -> bool {
        let places = self.all().filter_map(|(key, group)| {
            let (load, turn) = group.place()?;
            Some((turn, (load, key)))
        });
        let places: BTreeMap<_, _> = places.collect();
        let by_turn = places.iter().map(|(turn, (_, key))| (turn, key));
        let by_load = self.rotation.iter().flat_map(|(load, turns)| {
            let entries = turns.iter();
            entries.map(|(turn, key)| (*turn, (*load, *key)))
        });
        by_turn.eq(&self.turns) && places == by_load.collect()
    }

    fn next_of(&self, name: &str, wish: Option<&PullGroup>) -> Option<JobKey> {
        let group = self.get(name)?;
        let (load, _) = group.place()?;
        let most = wish.map_or(Load::FULL, PullGroup::most);
        load.is_within(most).then(|| group.ready.first()).flatten()
    }
}

impl Group {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            ready: Ready::default(),
            delayed: 0,
            active: 0,
            paused: false,
            throttled_until: None,
            concurrency: None,
            rate: None,
            window: None,
            turn: None,
        }
    }

    /// Queued jobs.
    pub(super) fn queued(&self) -> usize {
        self.ready.len() + self.delayed
    }

    /// A job of it is about to leave by delivery: counts it, and lets every other group go first. When that begins a
    /// window: its end.
    pub(super) fn deliver(
        &mut self,
        limit: Option<RateLimit>,
        now: Millis,
        serial: u64,
    ) -> Option<Millis> {
        self.active += 1;
        self.turn = None;
        let limit = self.rate.map_or(limit, |own| limit.map(|_| own))?;
        if let Some(window) = self.window.as_mut() {
            window.used += 1;
            return None;
        }
        let ends_at = now.saturating_add(limit.duration);
        self.window = Some(Window {
            ends_at,
            used: 1,
            since: serial,
        });
        Some(ends_at)
    }

    /// Where it stands in the rotation, if it may be served at all.
    fn place(&self) -> Option<(Load, u64)> {
        if self.paused || self.throttled_until.is_some() {
            return None;
        }
        let measured = |is: u64, own: Option<u64>| match own {
            Some(max) if is >= max => FULL,
            Some(_) => 0,
            None => is,
        };
        let used = self.window.map_or(0, |window| window.used);
        let load = Load {
            active: measured(self.active as u64, self.concurrency),
            used: measured(used, self.rate.map(|rate| rate.max)),
        };
        Some((load, self.turn?))
    }

    pub(super) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether anything is set for it that keeps it without jobs.
    pub(super) fn has_settings(&self) -> bool {
        self.paused
            || self.throttled_until.is_some()
            || self.concurrency.is_some()
            || self.rate.is_some()
    }

    fn is_unused(&self) -> bool {
        self.queued() == 0 && self.active == 0 && !self.has_settings() && self.window.is_none()
    }
}
