//! Groups of jobs (sections 5 and 18; B-27, B-39): whose turn it is is a list, and everything else is counted when
//! somebody asks.

use std::sync::Arc;

use bunqueue_mcp::command::{Command, GroupId, QueueName, Reply};
use bunqueue_mcp::engine::{Affinity, Millis, PullGroup, RateLimit, State};

use super::{Place, Reference};

/// What is set for a group, and what is counted in it.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) queue: Arc<str>,
    name: Arc<str>,
    paused: bool,
    throttled_until: Option<Millis>,
    concurrency: Option<u64>,
    rate: Option<RateLimit>,
    /// Its end, its deliveries, the number of the first.
    window: Option<(Millis, u64, u64)>,
}

/// The turn of a group, or of the jobs of none.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    queue: Arc<str>,
    group: Option<Arc<str>>,
    /// Lower is served first.
    number: u64,
}

impl Group {
    pub(super) fn is_set(&self) -> bool {
        self.paused
            || self.throttled_until.is_some()
            || self.concurrency.is_some()
            || self.rate.is_some()
            || self.window.is_some()
    }
}

impl Reference {
    fn group(&self, queue: &str, name: &str) -> Option<&Group> {
        let mut groups = self.groups.iter();
        groups.find(|group| &*group.queue == queue && &*group.name == name)
    }

    fn group_mut(&mut self, queue: &str, name: &str) -> &mut Group {
        let known = self
            .groups
            .iter()
            .position(|group| &*group.queue == queue && &*group.name == name);
        let at = known.unwrap_or_else(|| {
            self.groups.push(Group {
                queue: queue.into(),
                name: name.into(),
                paused: false,
                throttled_until: None,
                concurrency: None,
                rate: None,
                window: None,
            });
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    fn in_group(&self, queue: &str, name: Option<&str>, wanted: fn(State) -> bool) -> Vec<usize> {
        let jobs = 0..self.jobs.len();
        jobs.filter(|at| {
            let view = &self.jobs[*at].view;
            &*view.queue == queue
                && name.is_none_or(|name| view.options.group_id.as_deref() == Some(name))
                && wanted(self.state_at(*at))
        })
        .collect()
    }

    /// Jobs that count for the size of a group.
    pub(super) fn queued_in_group(&self, queue: &str, name: &str) -> usize {
        self.in_group(queue, Some(name), State::is_queued).len()
    }

    fn is_ready(&self, at: usize) -> bool {
        let job = &self.jobs[at];
        matches!(job.place, Place::Queued) && job.ripe && !job.ties.waiting
    }

    /// Ready jobs of a group, or of none, best first.
    fn ready_of(&self, queue: &str, name: Option<&str>) -> Vec<usize> {
        let of = |at: &usize| {
            let view = &self.jobs[*at].view;
            &*view.queue == queue && view.options.group_id.as_deref() == name && self.is_ready(*at)
        };
        let mut ready: Vec<usize> = (0..self.jobs.len()).filter(of).collect();
        if name.is_none() {
            ready.sort_by(|one, two| self.order(*one, *two));
        } else {
            ready.sort_by(|one, two| {
                let (one, two) = (&self.jobs[*one], &self.jobs[*two]);
                let by_priority = one.view.priority.partial_cmp(&two.view.priority);
                by_priority
                    .expect("priorities are finite")
                    .then(one.seq.cmp(&two.seq))
            });
        }
        ready
    }

    /// Groups without a ready job lose their turn, those that have got one come last.
    pub(super) fn note_turns(&mut self) {
        let turns = std::mem::take(&mut self.turns);
        let kept = turns.into_iter().filter(|turn| {
            let applies = turn.group.is_some() || self.in_turn(&turn.queue);
            applies && !self.ready_of(&turn.queue, turn.group.as_deref()).is_empty()
        });
        self.turns = kept.collect();
        for at in 0..self.jobs.len() {
            let view = &self.jobs[at].view;
            let (queue, group) = (Arc::clone(&view.queue), view.options.group_id.clone());
            let takes_turns = group.is_some() || self.in_turn(&queue);
            let has_one = self
                .turns
                .iter()
                .any(|turn| turn.queue == queue && turn.group == group);
            if !takes_turns || has_one || !self.is_ready(at) {
                continue;
            }
            self.next_turn += 1;
            self.turns.push(Turn {
                queue,
                group,
                number: self.next_turn,
            });
        }
    }

    /// Whoever is served comes last from now on; by which turn that was.
    fn pass_turn(&mut self, queue: &str, group: Option<&str>) -> Option<u64> {
        let is_theirs = |turn: &Turn| &*turn.queue == queue && turn.group.as_deref() == group;
        let (theirs, others) = self.turns.drain(..).partition(is_theirs);
        self.turns = others;
        let theirs: Vec<Turn> = theirs;
        theirs.first().map(|turn| turn.number)
    }

    /// A delivery by that turn has never been.
    pub(super) fn return_turn(&mut self, queue: &str, group: Option<&str>, number: u64) {
        for turn in &mut self.turns {
            if &*turn.queue == queue && turn.group.as_deref() == group {
                turn.number = turn.number.min(number);
            }
        }
    }

    pub(super) fn in_turn(&self, queue: &str) -> bool {
        let mut queues = self.queues.iter();
        queues.any(|entry| &*entry.name == queue && entry.in_turn)
    }

    /// Whether a group may be served to such a pull.
    fn admits(&self, queue: &str, name: &str, wish: Option<&PullGroup>) -> bool {
        let group = self.group(queue, name);
        if group.is_some_and(|group| group.paused || group.throttled_until.is_some()) {
            return false;
        }
        let active = self
            .in_group(queue, Some(name), |state| state == State::Active)
            .len() as u64;
        let has_slot = wish.and_then(|wish| wish.concurrency).is_none_or(|max| {
            let own = group.and_then(|group| group.concurrency);
            active < own.unwrap_or(max)
        });
        let has_room = wish.and_then(|wish| wish.limit).is_none_or(|limit| {
            let own = group.and_then(|group| group.rate);
            let used = group
                .and_then(|group| group.window)
                .map_or(0, |window| window.1);
            used < own.unwrap_or(limit).max
        });
        has_slot && has_room
    }

    /// The job that such a pull gets next.
    pub(super) fn candidate(&self, queue: &str, wish: Option<&PullGroup>) -> Option<usize> {
        let free = self.ready_of(queue, None).first().copied();
        let head = |name: &str| {
            let first = self.ready_of(queue, Some(name)).first().copied();
            first.filter(|_| self.admits(queue, name, wish))
        };
        match wish.map(|wish| &wish.affinity) {
            Some(Affinity::Ungrouped) => return free,
            Some(Affinity::Group(name)) => return head(name),
            None | Some(Affinity::Any) => {}
        }
        if free.is_some() && !self.in_turn(queue) {
            return free;
        }
        let turns = self.turns.iter().filter(|turn| &*turn.queue == queue);
        let heads = turns.filter_map(|turn| {
            let job = turn.group.as_deref().map_or(free, head)?;
            Some((turn.number, job))
        });
        heads.min_by_key(|(turn, _)| *turn).map(|(_, job)| job)
    }

    /// Counts a delivery, which is about to happen; by which turn.
    pub(super) fn count_delivery(
        &mut self,
        at: usize,
        wish: Option<&PullGroup>,
        serial: u64,
    ) -> Option<u64> {
        let (now, view) = (self.now, &self.jobs[at].view);
        let (queue, group) = (Arc::clone(&view.queue), view.options.group_id.clone());
        self.pay(&queue, serial);
        let turn = self.pass_turn(&queue, group.as_deref());
        if let (Some(name), Some(limit)) = (group, wish.and_then(|wish| wish.limit)) {
            let group = self.group_mut(&queue, &name);
            let duration = group.rate.unwrap_or(limit).duration;
            let (_, used, _) = group.window.get_or_insert((now + duration, 0, serial));
            *used += 1;
        }
        turn
    }

    /// A delivery has never been.
    pub(super) fn uncount_delivery(&mut self, at: usize, serial: u64, limited: bool) {
        let view = &self.jobs[at].view;
        let (queue, group) = (Arc::clone(&view.queue), view.options.group_id.clone());
        self.unpay(&queue, serial);
        let Some(name) = group.filter(|_| limited) else {
            return;
        };
        let group = self.group_mut(&queue, &name);
        group.window = match group.window {
            Some((_, 1, first)) if first <= serial => None,
            Some((end, used, first)) if first <= serial => Some((end, used - 1, first)),
            other => other,
        };
    }

    /// Times at which throttles (true) and windows end, with the places of their groups.
    pub(super) fn group_ends(&self) -> Vec<(Millis, bool, usize)> {
        let mut ends = Vec::new();
        for (place, group) in self.groups.iter().enumerate() {
            ends.extend(group.throttled_until.map(|at| (at, true, place)));
            ends.extend(group.window.map(|(at, ..)| (at, false, place)));
        }
        ends
    }

    /// Something that was set for a while is over; in which queue.
    pub(super) fn end_of_group(&mut self, place: usize, throttle: bool) -> Arc<str> {
        let group = &mut self.groups[place];
        if throttle {
            group.throttled_until = None;
        } else {
            group.window = None;
        }
        Arc::clone(&group.queue)
    }

    /// What was counted, and what was set for a while, is gone.
    pub(super) fn end_group_counts(&mut self) {
        for group in &mut self.groups {
            group.throttled_until = None;
            group.window = None;
        }
    }

    pub(super) fn forget_groups(&mut self, queue: &str) {
        self.groups.retain(|group| &*group.queue != queue);
        self.turns.retain(|turn| &*turn.queue != queue);
    }

    fn set_in_group(&mut self, queue: &QueueName, group: &GroupId) -> &mut Group {
        self.touch_queue(&queue.shared());
        self.group_mut(queue.as_str(), group.as_str())
    }

    pub(super) fn change_group(&mut self, command: &Command) -> Option<Reply> {
        let now = self.now;
        Some(match command {
            Command::SetGroupRateLimit(set) => {
                let group = self.set_in_group(&set.queue, &set.group);
                group.rate = Some(set.limit);
                group.window = None;
                Reply::Done(())
            }
            Command::RemoveGroupRateLimit(remove) => {
                let group = self.group_mut(remove.queue.as_str(), remove.group.as_str());
                let removed = group.rate.take().is_some();
                if removed {
                    group.window = None;
                }
                Reply::Counted(usize::from(removed))
            }
            Command::SetGroupConcurrency(set) => {
                self.set_in_group(&set.queue, &set.group).concurrency = Some(set.limit);
                Reply::Done(())
            }
            Command::RemoveGroupConcurrency(remove) => {
                let group = self.group_mut(remove.queue.as_str(), remove.group.as_str());
                Reply::Counted(usize::from(group.concurrency.take().is_some()))
            }
            Command::PauseGroup(pause) => {
                let group = self.set_in_group(&pause.queue, &pause.group);
                Reply::Flag(!std::mem::replace(&mut group.paused, true))
            }
            Command::ResumeGroup(resume) => {
                let group = self.group_mut(resume.queue.as_str(), resume.group.as_str());
                Reply::Flag(std::mem::replace(&mut group.paused, false))
            }
            Command::ThrottleGroup(throttle) => {
                let group = self.set_in_group(&throttle.queue, &throttle.group);
                group.throttled_until = Some(now + throttle.duration);
                Reply::Done(())
            }
            Command::SetUngroupedInTurn(set) => {
                let name = set.queue.shared();
                if set.in_turn || self.queues.iter().any(|queue| queue.name == name) {
                    self.touch_queue(&name).in_turn = set.in_turn;
                }
                self.note_turns();
                Reply::Done(())
            }
            _ => return None,
        })
    }

    pub(super) fn query_group(&self, command: &Command) -> Option<Reply> {
        let find = |queue: &QueueName, group: &GroupId| self.group(queue.as_str(), group.as_str());
        let count = |queue: &QueueName, group: &GroupId, wanted: fn(State) -> bool| {
            let jobs = self.in_group(queue.as_str(), Some(group.as_str()), wanted);
            Reply::Counted(jobs.len())
        };
        Some(match command {
            Command::GetQueueLimits(get) => Reply::Limits(self.limits(get)),
            Command::GetGroupJobsCount(get) => count(&get.queue, &get.group, State::is_queued),
            Command::GetGroupActiveCount(get) => {
                count(&get.queue, &get.group, |state| state == State::Active)
            }
            Command::GetGroupsJobsCount(get) => {
                let queued = self.in_group(get.queue.as_str(), None, State::is_queued);
                let grouped = queued
                    .iter()
                    .filter(|at| self.jobs[**at].view.options.group_id.is_some());
                Reply::Counted(grouped.count())
            }
            Command::GetGroupRateLimit(get) => {
                Reply::Rate(find(&get.queue, &get.group).and_then(|group| group.rate))
            }
            Command::GetGroupConcurrency(get) => {
                Reply::Concurrency(find(&get.queue, &get.group).and_then(|group| group.concurrency))
            }
            Command::IsGroupPaused(get) => {
                Reply::Flag(find(&get.queue, &get.group).is_some_and(|group| group.paused))
            }
            Command::IsUngroupedInTurn(get) => Reply::Flag(self.in_turn(get.queue.as_str())),
            Command::GetGroupRateLimitTtl(get) => {
                let group = find(&get.queue, &get.group);
                let throttle = group.and_then(|group| group.throttled_until);
                let window = group.and_then(|group| group.window).map(|(end, used, _)| {
                    if get.jobs.is_some_and(|jobs| used < jobs) {
                        self.now
                    } else {
                        end
                    }
                });
                Reply::Span(throttle.max(window).map_or(-2, |end| end - self.now))
            }
            _ => return None,
        })
    }
}
