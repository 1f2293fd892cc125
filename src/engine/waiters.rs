//! The waiting pulls of a queue, by what they say of groups (engine contract, sections 7 and 18).
//!
//! The longest-waiting pull that a ready job suits is found without a look at those that it does not suit. Pulls with
//! limits stand in a [`Line`], which is asked for the first one whose limits admit a group as busy as that. Pulls for one
//! group have a line of their own, and the one that the group would be served to now is *matched*; whatever changes
//! the load of a group says so ([`Waiters::group_moved`]).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::backlog::{Affinity, Load, PullGroup};
use super::outcome::WaiterId;

/// Where a waiting pull stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// It takes any job.
    Any,
    /// It takes jobs of no group.
    Ungrouped,
    /// It takes any job, but those of groups that are busier than that.
    Limited(Load),
    /// It takes jobs of one group while that is not busier.
    Named(Arc<str>, Load),
}

/// See the module. The numbers of pulls are their order of arrival.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    any: BTreeSet<WaiterId>,
    ungrouped: BTreeSet<WaiterId>,
    limited: Line,
    named: HashMap<Arc<str>, Named>,
    /// The matched ones of all groups.
    matched: BTreeSet<WaiterId>,
}

/// The pulls for one group; there is at least one.
#[derive(Debug, Default)]
struct Named {
    line: Line,
    /// The longest-waiting one that the load of the group admits, while a job of it can be handed out.
    matched: Option<WaiterId>,
}

/// Pulls in order of arrival, each with the greatest load that it admits.
///
/// A binary tree over their places knows the greatest load below each node, in each of its two parts. With one kind of limit
/// a search goes straight down; where pulls differ in both kinds it may try more than one branch.
#[derive(Debug, Default)]
struct Line {
    /// Ascending; whoever has left keeps the place until the line is laid out anew.
    places: Vec<WaiterId>,
    /// The root is node 1, below node n are 2n and 2n + 1, and the second half are the places.
    tree: Vec<Option<Load>>,
    len: usize,
}

impl Stand {
    pub(super) fn of(wish: Option<&PullGroup>) -> Self {
        let Some(wish) = wish else {
            return Self::Any;
        };
        match &wish.affinity {
            Affinity::Any if wish.most() == Load::FULL => Self::Any,
            Affinity::Any => Self::Limited(wish.most()),
            Affinity::Ungrouped => Self::Ungrouped,
            Affinity::Group(name) => Self::Named(Arc::clone(name), wish.most()),
        }
    }

    /// The group it is for, if it is for one alone.
    pub(super) fn group(&self) -> Option<&Arc<str>> {
        match self {
            Self::Named(name, _) => Some(name),
            Self::Any | Self::Ungrouped | Self::Limited(_) => None,
        }
    }
}

impl Waiters {
    pub(super) fn is_empty(&self) -> bool {
        self.any.is_empty()
            && self.ungrouped.is_empty()
            && self.limited.is_empty()
            && self.named.is_empty()
    }

    /// A pull begins to wait, which came later than all others. `load` is that of the group it names.
    pub(super) fn insert(&mut self, waiter: WaiterId, stand: &Stand, load: Option<Load>) {
        match stand {
            Stand::Any => {
                self.any.insert(waiter);
            }
            Stand::Ungrouped => {
                self.ungrouped.insert(waiter);
            }
            Stand::Limited(most) => self.limited.push(waiter, *most),
            Stand::Named(name, most) => {
                let named = self.named.entry(Arc::clone(name)).or_default();
                named.line.push(waiter, *most);
                self.group_moved(name, load);
            }
        }
    }

    /// A pull waits no more.
    pub(super) fn remove(&mut self, waiter: WaiterId, stand: &Stand, load: Option<Load>) {
        match stand {
            Stand::Any => {
                self.any.remove(&waiter);
            }
            Stand::Ungrouped => {
                self.ungrouped.remove(&waiter);
            }
            Stand::Limited(_) => self.limited.remove(waiter),
            Stand::Named(name, _) => {
                if let Some(named) = self.named.get_mut(name) {
                    named.line.remove(waiter);
                    self.group_moved(name, load);
                }
            }
        }
    }

    /// The load of a group has changed; `None` while none of its jobs can be handed out.
    pub(super) fn group_moved(&mut self, name: &Arc<str>, load: Option<Load>) {
        let Some(named) = self.named.get_mut(name) else {
            return;
        };
        let now = load.and_then(|load| named.line.first(load));
        let before = std::mem::replace(&mut named.matched, now);
        if named.line.is_empty() {
            self.named.remove(name);
        }
        if before != now {
            before.inspect(|waiter| _ = self.matched.remove(waiter));
            self.matched.extend(now);
        }
    }

    /// The longest-waiting pull that there is a job for: `free` tells whether there is one of no group, `loads` are
    /// those of groups that may be served (the lightest are enough).
    pub(super) fn first(&self, free: bool, loads: impl Iterator<Item = Load>) -> Option<WaiterId> {
        let mut loads = loads.peekable();
        let some = free || loads.peek().is_some();
        let limited = if free {
            self.limited.first(Load::EMPTY)
        } else if self.limited.is_empty() {
            None
        } else {
            loads.filter_map(|load| self.limited.first(load)).min()
        };
        let firsts = [
            self.any.first().copied().filter(|_| some),
            self.ungrouped.first().copied().filter(|_| free),
            limited,
            self.matched.first().copied(),
        ];
        firsts.into_iter().flatten().min()
    }

    /// All of them, in no particular order. For checks.
    pub(super) fn all(&self) -> impl Iterator<Item = (WaiterId, Stand)> {
        let any = self.any.iter().map(|waiter| (*waiter, Stand::Any));
        let ungrouped = self.ungrouped.iter();
        let ungrouped = ungrouped.map(|waiter| (*waiter, Stand::Ungrouped));
        let limited = self.limited.all();
        let limited = limited.map(|(waiter, most)| (waiter, Stand::Limited(most)));
        let named = self.named.iter().flat_map(|(name, named)| {
            let stand = |most| Stand::Named(Arc::clone(name), most);
            named
                .line
                .all()
                .map(move |(waiter, most)| (waiter, stand(most)))
        });
        any.chain(ungrouped).chain(limited).chain(named)
    }

    /// See the field. For checks.
    pub(super) fn matched(&self) -> &BTreeSet<WaiterId> {
        &self.matched
    }
}

impl Line {
    fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn push(&mut self, waiter: WaiterId, most: Load) {
        if self.places.len() == self.width() {
            self.lay_out();
        }
        self.places.push(waiter);
        self.len += 1;
        self.set(self.places.len() - 1, Some(most));
    }

    fn remove(&mut self, waiter: WaiterId) {
        let Ok(place) = self.places.binary_search(&waiter) else {
            return;
        };
        if self.node(self.width() + place).is_none() {
            return;
        }
        self.len -= 1;
        self.set(place, None);
        if self.is_empty() {
            *self = Self::default();
        } else if self.len < self.width() / 8 {
            self.lay_out();
        }
    }

    /// The first one that admits such a load.
    fn first(&self, load: Load) -> Option<WaiterId> {
        self.first_below(1, load)
    }

    fn first_below(&self, node: usize, load: Load) -> Option<WaiterId> {
        self.node(node).filter(|most| load.is_within(*most))?;
        match node.checked_sub(self.width()) {
            Some(place) => self.places.get(place).copied(),
            None => self
                .first_below(2 * node, load)
                .or_else(|| self.first_below(2 * node + 1, load)),
        }
    }

    fn all(&self) -> impl Iterator<Item = (WaiterId, Load)> {
        let loads = self.tree.iter().skip(self.width());
        let places = self.places.iter().zip(loads);
        places.filter_map(|(waiter, most)| Some((*waiter, (*most)?)))
    }

    fn width(&self) -> usize {
        self.tree.len() / 2
    }

    fn node(&self, node: usize) -> Option<Load> {
        self.tree.get(node).copied().flatten()
    }

    fn set(&mut self, place: usize, most: Option<Load>) {
        let mut node = self.width() + place;
        self.put(node, most);
        while node > 1 {
            node /= 2;
            self.join(node);
        }
    }

    fn join(&mut self, node: usize) {
        let both = match (self.node(2 * node), self.node(2 * node + 1)) {
            (Some(one), Some(two)) => Some(one.max_each(two)),
            (one, two) => one.or(two),
        };
        self.put(node, both);
    }

    fn put(&mut self, node: usize, most: Option<Load>) {
        if let Some(slot) = self.tree.get_mut(node) {
            *slot = most;
        }
    }

    /// Takes the gaps out and makes as much room again; between two times, a part of the line has come or gone.
    fn lay_out(&mut self) {
        let (places, loads): (Vec<_>, Vec<_>) = self.all().unzip();
        let width = (2 * places.len()).next_power_of_two();
        self.places = places;
        self.tree = vec![None; 2 * width];
        for (place, most) in loads.into_iter().enumerate() {
            self.put(width + place, Some(most));
        }
        for node in (1..width).rev() {
            self.join(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line answers is what a search from end to end finds, whoever comes and goes.
    #[test]
    fn line_finds_the_first_that_admits() {
        let mut line = Line::default();
        let mut expected: Vec<(WaiterId, Load)> = Vec::new();
        let mut state = 1_u64;
        let mut random = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % bound
        };
        for number in 0..20_000 {
            // It grows and shrinks in turn.
            let grows = number / 2_000 % 2 == 0;
            if random(10) < if grows { 8 } else { 2 } {
                let most = Load {
                    active: random(6),
                    used: [random(6), Load::FULL.used][random(2) as usize],
                };
                line.push(WaiterId(number), most);
                expected.push((WaiterId(number), most));
            } else if !expected.is_empty() {
                let at = random(expected.len() as u64) as usize;
                line.remove(expected.remove(at).0);
            }
            line.remove(WaiterId(number + 1));
            let load = Load {
                active: random(8),
                used: random(8),
            };
            let found = expected.iter().find(|(_, most)| load.is_within(*most));
            assert_eq!(line.first(load), found.map(|(waiter, _)| *waiter));
            assert_eq!(line.is_empty(), expected.is_empty());
            assert!(line.tree.len() <= 32 * expected.len().max(1));
        }
        assert!(line.all().eq(expected));
    }
}
