//! Groups of jobs (engine contract, section 18): what is set for a group, and what a delivery counts in it. Their jobs
//! and whose turn it is: `backlog.rs`.
//!
//! A throttle and a window each have an entry in the deadline order, at their end. A window counts the deliveries to
//! pulls that limit them; those to others neither begin one nor use it up.

use std::sync::Arc;

use super::backlog::{Group, GroupKey};
use super::deadline::Timer;
use super::limit::RateLimit;
use super::persist::GroupRecord;
use super::queue::QueueKey;
use super::store::{JobKey, Run};
use super::{Engine, Millis, Turn};

impl Engine {
    /// Queued jobs of a group, delayed ones included.
    pub fn group_queued(&mut self, turn: &mut Turn<'_>, queue: &str, group: &str) -> usize {
        self.read_group(turn, queue, group, Group::queued)
            .unwrap_or(0)
    }

    /// Queued jobs of all groups of a queue, delayed ones included.
    pub fn groups_queued(&mut self, turn: &mut Turn<'_>, queue: &str) -> usize {
        self.tick(turn);
        let key = self.queues.find(queue);
        key.map_or(0, |key| self.queues.get(key).ready.groups.queued())
    }

    /// Active jobs of a group.
    pub fn group_active(&mut self, turn: &mut Turn<'_>, queue: &str, group: &str) -> usize {
        self.read_group(turn, queue, group, |group| group.active)
            .unwrap_or(0)
    }

    /// Whether a group is paused.
    pub fn is_group_paused(&mut self, turn: &mut Turn<'_>, queue: &str, group: &str) -> bool {
        self.read_group(turn, queue, group, |group| group.paused)
            .unwrap_or(false)
    }

    /// A group's own limit of deliveries.
    pub fn group_rate(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        group: &str,
    ) -> Option<RateLimit> {
        self.read_group(turn, queue, group, |group| group.rate)?
    }

    /// A group's own limit of active jobs.
    pub fn group_concurrency(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        group: &str,
    ) -> Option<u64> {
        self.read_group(turn, queue, group, |group| group.concurrency)?
    }

    /// Ms until a group's window or throttle ends; −2 when it has neither. With `jobs` a window counts as free while
    /// it has fewer deliveries than that.
    pub fn group_rate_ttl(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        group: &str,
        jobs: Option<u64>,
    ) -> Millis {
        let ends = self.read_group(turn, queue, group, |group| {
            let window = group.window.map(|window| {
                let free = jobs.is_some_and(|jobs| window.used < jobs);
                (!free).then_some(window.ends_at)
            });
            (window, group.throttled_until)
        });
        let left = |at: Millis| at.saturating_sub(self.now);
        match ends {
            None | Some((None, None)) => -2,
            Some((window, throttle)) => window.flatten().max(throttle).map_or(0, left),
        }
    }

    /// Stops handing out jobs of a group; whether that is a change.
    pub fn pause_group(&mut self, turn: &mut Turn<'_>, queue: &Arc<str>, group: &Arc<str>) -> bool {
        self.set_group(turn, queue, group, |group| {
            !std::mem::replace(&mut group.paused, true)
        })
    }

    /// Hands out jobs of a group again; whether that is a change.
    pub fn resume_group(&mut self, turn: &mut Turn<'_>, queue: &str, group: &str) -> bool {
        let resume = |group: &mut Group| std::mem::take(&mut group.paused);
        self.reset_group(turn, queue, group, resume)
            .unwrap_or(false)
    }

    /// Skips a group for `duration` ms from now.
    pub fn throttle_group(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &Arc<str>,
        group: &Arc<str>,
        duration: Millis,
    ) {
        let until = self.now.max(turn.now).saturating_add(duration);
        let before = self.set_group(turn, queue, group, |group| {
            group.throttled_until.replace(until)
        });
        let Some((queue, group)) = self.find_group(queue, group) else {
            return;
        };
        if let Some(at) = before {
            self.deadlines
                .remove(at, Timer::GroupThrottle(queue, group));
        }
        self.deadlines
            .insert(until, Timer::GroupThrottle(queue, group));
    }

    /// Limits the deliveries of a group: for pulls that limit them, instead of what they say. A window begins anew.
    pub fn set_group_rate(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &Arc<str>,
        group: &Arc<str>,
        limit: RateLimit,
    ) {
        self.tick(turn);
        self.drop_window(queue, group);
        self.set_group(turn, queue, group, |group| group.rate = Some(limit));
    }

    /// Takes that limit away; whether there was one. A window begins anew.
    pub fn remove_group_rate(&mut self, turn: &mut Turn<'_>, queue: &str, group: &str) -> bool {
        let limited = self.read_group(turn, queue, group, |group| group.rate.is_some());
        if limited != Some(true) {
            return false;
        }
        self.drop_window(queue, group);
        self.reset_group(turn, queue, group, |group| group.rate = None);
        true
    }

    /// Limits the active jobs of a group: for pulls that limit them, instead of what they say.
    pub fn set_group_concurrency(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &Arc<str>,
        group: &Arc<str>,
        max: u64,
    ) {
        self.set_group(turn, queue, group, |group| group.concurrency = Some(max));
    }

    /// Takes that limit away; whether there was one.
    pub fn remove_group_concurrency(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        group: &str,
    ) -> bool {
        let remove = |group: &mut Group| group.concurrency.take().is_some();
        self.reset_group(turn, queue, group, remove)
            .unwrap_or(false)
    }

    /// Whether jobs of no group take their turn like one more group, instead of going before all groups (engine
    /// contract, B-27). Off unless set.
    pub fn set_ungrouped_in_turn(&mut self, turn: &mut Turn<'_>, queue: &Arc<str>, in_turn: bool) {
        self.tick(turn);
        if in_turn {
            let key = self.queues.open_listed(queue);
            self.queues.get_mut(key).ready.set_in_turn(true);
            self.queues.note_settings(key);
        } else if let Some(key) = self.queues.find(queue) {
            self.queues.get_mut(key).ready.set_in_turn(false);
            self.queues.note_settings(key);
            self.note_idle(key);
        }
    }

    /// See [`Engine::set_ungrouped_in_turn`].
    pub fn is_ungrouped_in_turn(&mut self, turn: &mut Turn<'_>, queue: &str) -> bool {
        self.tick(turn);
        let key = self.queues.find(queue);
        key.is_some_and(|key| self.queues.get(key).ready.is_in_turn())
    }

    /// The throttle of a group is over; its entry was just taken out.
    pub(super) fn end_throttle(&mut self, turn: &mut Turn<'_>, queue: QueueKey, group: GroupKey) {
        self.change_group(turn, queue, group, |group| group.throttled_until = None);
    }

    /// The window of a group is over; its entry was just taken out.
    pub(super) fn end_window(&mut self, turn: &mut Turn<'_>, queue: QueueKey, group: GroupKey) {
        self.change_group(turn, queue, group, |group| group.window = None);
    }

    /// A ready job is about to be delivered under that number, to a pull that limits deliveries like that.
    pub(super) fn count_in_group(&mut self, key: JobKey, limit: Option<RateLimit>, serial: u64) {
        let job = self.store.job(key);
        let ready = &mut self.queues.get_mut(job.queue).ready;
        let Some(name) = job.group() else {
            ready.pass_free_turn();
            return;
        };
        let (now, group) = (self.now, ready.groups.open(name));
        let begun = ready
            .groups
            .change(group, |group| group.deliver(limit, now, serial));
        if let Some(at) = begun {
            let timer = Timer::GroupWindow(job.queue, group);
            self.deadlines.insert(at, timer);
        }
    }

    /// A delivery that is over counts as if it had never been.
    pub(super) fn uncount_in_group(&mut self, key: JobKey, run: &Run) {
        let job = self.store.job(key);
        let groups = &mut self.queues.get_mut(job.queue).ready.groups;
        let found = job.group().and_then(|name| groups.find(name));
        let Some(group) = found.filter(|_| run.limited) else {
            return;
        };
        let ended = groups.change(group, |group| {
            let window = group.window.filter(|window| window.since <= run.serial)?;
            let used = window.used - 1;
            group.window = (used > 0).then_some(super::backlog::Window { used, ..window });
            (used == 0).then_some(window.ends_at)
        });
        if let Some(at) = ended {
            let timer = Timer::GroupWindow(job.queue, group);
            self.deadlines.remove(at, timer);
        }
    }

    /// Takes in what is set for a group from a store.
    pub(super) fn load_group(&mut self, record: &GroupRecord) {
        let queue = self.queues.open(&record.queue);
        let groups = &mut self.queues.get_mut(queue).ready.groups;
        let group = groups.open(&record.name);
        groups.change(group, |group| {
            group.paused = record.paused;
            group.concurrency = record.concurrency;
            group.rate = record.rate;
        });
        self.queues.groups_with_settings += 1;
    }

    /// Forgets everything that is set for the groups of a queue without jobs.
    pub(super) fn drop_groups(&mut self, key: QueueKey) {
        let ready = &mut self.queues.get_mut(key).ready;
        let mut with_settings = 0;
        for (group, state) in ready.groups.all() {
            with_settings += usize::from(state.has_settings());
            if let Some(at) = state.throttled_until {
                self.deadlines.remove(at, Timer::GroupThrottle(key, group));
            }
            if let Some(window) = state.window {
                let timer = Timer::GroupWindow(key, group);
                self.deadlines.remove(window.ends_at, timer);
            }
        }
        ready.clear();
        self.queues.groups_with_settings -= with_settings;
    }

    fn find_group(&self, queue: &str, group: &str) -> Option<(QueueKey, GroupKey)> {
        let queue = self.queues.find(queue)?;
        let group = self.queues.get(queue).ready.groups.find(group)?;
        Some((queue, group))
    }

    fn read_group<R>(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        group: &str,
        read: impl FnOnce(&Group) -> R,
    ) -> Option<R> {
        self.tick(turn);
        let queue = self.queues.find(queue)?;
        self.queues.get(queue).ready.groups.get(group).map(read)
    }

    /// Sets something for a group, which may not have had a job yet.
    fn set_group<R>(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &Arc<str>,
        group: &Arc<str>,
        set: impl FnOnce(&mut Group) -> R,
    ) -> R {
        self.tick(turn);
        let queue = self.queues.open_listed(queue);
        let group = self.queues.get_mut(queue).ready.groups.open(group);
        self.change_group(turn, queue, group, set)
    }

    /// Changes something that was set for a group, if there is such a group.
    fn reset_group<R>(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        group: &str,
        reset: impl FnOnce(&mut Group) -> R,
    ) -> Option<R> {
        self.tick(turn);
        let (queue, group) = self.find_group(queue, group)?;
        Some(self.change_group(turn, queue, group, reset))
    }

    fn change_group<R>(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueKey,
        group: GroupKey,
        act: impl FnOnce(&mut Group) -> R,
    ) -> R {
        let groups = &mut self.queues.get_mut(queue).ready.groups;
        let (name, before, result, after) = groups.change(group, |group| {
            let before = group.has_settings();
            let result = act(group);
            (
                Arc::clone(group.name()),
                before,
                result,
                group.has_settings(),
            )
        });
        if before || after {
            let queue = Arc::clone(self.queues.name(queue));
            self.queues.marks.touch_group(&queue, &name);
        }
        self.queues.groups_with_settings -= usize::from(before);
        self.queues.groups_with_settings += usize::from(after);
        self.note_idle(queue);
        self.serve(turn, queue);
        result
    }

    fn drop_window(&mut self, queue: &str, group: &str) {
        let Some((queue, group)) = self.find_group(queue, group) else {
            return;
        };
        let groups = &mut self.queues.get_mut(queue).ready.groups;
        if let Some(window) = groups.change(group, |group| group.window.take()) {
            let timer = Timer::GroupWindow(queue, group);
            self.deadlines.remove(window.ends_at, timer);
        }
    }
}
