//! Ties between jobs: those that a new job asks for, and whole flows.

use bunqueue_mcp::command::draft::JobDraft;
use bunqueue_mcp::command::flow::{AddFlow, FlowJobDraft, FlowNodeDraft, Plan, check_flow};
use bunqueue_mcp::command::given::{Number, Text};
use bunqueue_mcp::engine::{JobId, JobOptions, Millis, NewLinks, Parent, Payload};
use rmpv::Value;

use super::super::reference::{Reference, encode};
use super::{Dice, GROUPS, QUEUES, Target};

/// Ids that clients choose; so few that they meet again.
const IDS: u64 = 12;

/// Another job that is named by a new one.
#[derive(Clone, Copy, Debug)]
pub enum Other {
    /// An existing one.
    Job(Target),
    /// Whoever has that id, or will have it.
    Id(u64),
}

impl Other {
    fn random(dice: &mut Dice, likely: fn(u64) -> Target) -> Self {
        match dice.chance(40) {
            true => Self::Id(dice.below(8)),
            false => Self::Job(Target::random(dice, likely)),
        }
    }

    fn resolve(self, model: &Reference) -> JobId {
        match self {
            Self::Job(target) => target.resolve(model),
            Self::Id(number) => id(number),
        }
    }
}

pub fn id(number: u64) -> JobId {
    JobId::from_text(&format!("c{number}"))
}

/// The ties of a new job.
#[derive(Clone, Debug)]
pub struct Kin {
    depends_on: Vec<Other>,
    /// With the queue that is said: that in which the parent is, or one by number.
    parent: Option<(Other, Option<u64>)>,
    /// Those it waits for are called its children, too, as older clients do.
    children: bool,
}

impl Kin {
    pub fn random(dice: &mut Dice) -> Self {
        let likely = dice.pick(&[
            Target::Queued as fn(u64) -> Target,
            Target::Active,
            Target::Blocked,
            Target::Failed,
        ]);
        let others = dice.pick(&[0, 1, 1, 1, 2, 3]);
        let likely_parent = dice.pick(&[Target::Queued as fn(u64) -> Target, Target::Blocked]);
        Self {
            depends_on: (0..others).map(|_| Other::random(dice, likely)).collect(),
            parent: dice.chance(45).then(|| {
                let queue = dice.chance(10).then(|| dice.next());
                (Other::random(dice, likely_parent), queue)
            }),
            children: dice.chance(20),
        }
    }

    pub fn resolve(&self, model: &Reference, here: &str) -> NewLinks {
        let mut depends_on: Vec<JobId> = Vec::new();
        for other in &self.depends_on {
            let id = other.resolve(model);
            if !depends_on.contains(&id) {
                depends_on.push(id);
            }
        }
        let children = if self.children {
            depends_on.clone()
        } else {
            Vec::new()
        };
        let parent = self.parent.map(|(other, queue)| {
            let id = other.resolve(model);
            let known = model.job(&id).map(|job| job.view.queue.to_string());
            let queue = match queue {
                Some(number) => QUEUES[number as usize % QUEUES.len()].to_owned(),
                None => known.unwrap_or_else(|| here.to_owned()),
            };
            let queue = queue.as_str().into();
            Parent { id, queue }
        });
        NewLinks {
            parent,
            depends_on,
            children,
        }
    }
}

/// What a failure of a job does to its parent, by number.
pub fn set_policy(options: &mut JobOptions, policy: u64) {
    options.fail_parent_on_failure = policy == 1;
    options.continue_parent_on_failure = policy == 2;
    options.ignore_dependency_on_failure = policy == 3;
    options.remove_dependency_on_failure = policy == 4;
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Tree,
    ReverseTree,
    Chain,
    Join,
    /// Planned by the client; children first, or their parents.
    Raw {
        backwards: bool,
    },
}

#[derive(Clone, Debug)]
struct Node {
    queue: u64,
    custom: Option<u64>,
    /// Place of the node above it, before its own.
    above: usize,
    /// Place of another one it waits for, behind its own; planned flows only.
    also: Option<usize>,
    policy: u64,
    delay: Millis,
    ttl: Option<f64>,
    timestamp: Option<Millis>,
    attempts: f64,
    remove_on_complete: bool,
    remove_on_fail: bool,
    group: Option<(&'static str, Option<f64>)>,
}

impl Node {
    fn random(dice: &mut Dice, place: usize, count: usize) -> Self {
        let behind = place + 1..count;
        Self {
            queue: dice.below(3),
            custom: dice.chance(60).then(|| dice.below(IDS)),
            above: dice.below(place.max(1) as u64) as usize,
            also: (!behind.is_empty() && dice.chance(30))
                .then(|| behind.start + dice.below(behind.len() as u64) as usize),
            policy: dice.pick(&[0, 0, 1, 1, 2, 3, 4]),
            delay: dice.pick(&[0, 0, 0, 0, 60, 2_000, -3_000]),
            ttl: dice.maybe(20, &[0.0, 1.0, 50.0, 3_000.0]),
            timestamp: dice.maybe(15, &[-1, -2_000, 300]),
            attempts: dice.pick(&[1.0, 1.0, 2.0, 3.0]),
            remove_on_complete: dice.chance(25),
            remove_on_fail: dice.chance(25),
            group: dice
                .maybe(30, &GROUPS)
                .map(|group| (group, dice.maybe(30, &[1.0, 2.0, 4.0]))),
        }
    }

    fn draft<'a>(&self, now: Millis, id: Option<&'a str>, data: &'a [u8]) -> JobDraft<'a> {
        let number = |value: Option<f64>| value.map_or(Number::Absent, Number::Value);
        let mut options = JobOptions::default();
        set_policy(&mut options, self.policy);
        JobDraft {
            custom_id: id,
            data: Some(data),
            delay: Number::Value(self.delay as f64),
            ttl: number(self.ttl),
            timestamp: number(self.timestamp.map(|offset| (now + offset) as f64)),
            max_attempts: Number::Value(self.attempts),
            remove_on_complete: self.remove_on_complete,
            remove_on_fail: self.remove_on_fail,
            group_id: self
                .group
                .map_or(Text::Absent, |(group, _)| Text::Value(group)),
            group_max: number(self.group.and_then(|(_, max)| max)),
            fail_parent_on_failure: options.fail_parent_on_failure,
            continue_parent_on_failure: options.continue_parent_on_failure,
            ignore_dependency_on_failure: options.ignore_dependency_on_failure,
            remove_dependency_on_failure: options.remove_dependency_on_failure,
            ..JobDraft::default()
        }
    }
}

/// Jobs that are added together.
#[derive(Clone, Debug)]
pub struct Flow {
    shape: Shape,
    nodes: Vec<Node>,
    /// Ids may be taken.
    careless: bool,
}

impl Flow {
    pub fn random(dice: &mut Dice) -> Self {
        let shape = dice.pick(&[
            Shape::Tree,
            Shape::Tree,
            Shape::Tree,
            Shape::ReverseTree,
            Shape::Chain,
            Shape::Join,
            Shape::Raw { backwards: false },
            Shape::Raw { backwards: true },
        ]);
        let count = 2 + dice.below(5) as usize;
        let mut nodes: Vec<Node> = (0..count)
            .map(|place| Node::random(dice, place, count))
            .collect();
        if dice.chance(12) {
            // All of them are too old, so that the end of one meets that of another.
            for node in &mut nodes {
                (node.timestamp, node.ttl) = (Some(-2_000), Some(1.0));
            }
        }
        Self {
            shape,
            nodes,
            careless: dice.chance(15),
        }
    }

    /// The flow, now that it is known which ids are taken; `None` when it names one twice.
    pub fn resolve(&self, model: &Reference, now: Millis) -> Option<AddFlow> {
        let mut ids: Vec<Option<String>> = Vec::new();
        for node in &self.nodes {
            let free = |number: &u64| {
                let known = ids.contains(&Some(id(*number).to_string()));
                self.careless || (!known && model.job(&id(*number)).is_none())
            };
            let around = node
                .custom
                .map(|first| (first..first + IDS).map(|number| number % IDS));
            let found = around.and_then(|mut numbers| numbers.find(free));
            ids.push(found.map(|number| id(number).to_string()));
        }
        match self.shape {
            Shape::Raw { backwards } => self.raw(&ids, now, backwards),
            shape => self.planned(&ids, now, shape),
        }
    }

    fn planned(&self, ids: &[Option<String>], now: Millis, shape: Shape) -> Option<AddFlow> {
        let data: Vec<Payload> = (0..self.nodes.len())
            .map(|at| map(at, Vec::new()))
            .collect();
        let below = |parent: usize| {
            let children = (1..self.nodes.len()).filter(move |at| self.nodes[*at].above == parent);
            children.collect::<Vec<_>>()
        };
        let parents = matches!(shape, Shape::Tree);
        let draft = |at: usize| {
            let node = &self.nodes[at];
            let mut job = node.draft(now, ids[at].as_deref(), data[at].bytes());
            if at == 0 || !parents {
                job.fail_parent_on_failure = false;
                job.continue_parent_on_failure = false;
                job.ignore_dependency_on_failure = false;
                job.remove_dependency_on_failure = false;
            }
            FlowNodeDraft {
                queue: QUEUES[node.queue as usize],
                job,
                ..FlowNodeDraft::default()
            }
        };
        let mut nodes: Vec<FlowNodeDraft<'_>> = (0..self.nodes.len()).map(draft).collect();
        let mut plan = Plan::default();
        match shape {
            Shape::Chain => plan.chain(&nodes, "steps").ok()?,
            Shape::Join => {
                let last = nodes.pop()?;
                plan.join(&nodes, &last, ("parallel", "final")).ok()?;
            }
            _ => {
                // Children stand behind their parents, so the last ones are whole first.
                for at in (0..nodes.len()).rev() {
                    nodes[at].children = below(at)
                        .into_iter()
                        .map(|child| nodes[child].clone())
                        .collect();
                }
                let root = nodes.swap_remove(0);
                match shape {
                    Shape::Tree => plan.tree(&root, "flow").ok()?,
                    _ => plan.reverse_tree(&root, "flow").ok()?,
                };
            }
        }
        Some(plan.finish())
    }

    fn raw(&self, ids: &[Option<String>], now: Millis, backwards: bool) -> Option<AddFlow> {
        let name = |(at, id): (usize, &Option<String>)| {
            let random = || format!("r{now}-{at}-{}", self.nodes[at].queue);
            id.clone().unwrap_or_else(random)
        };
        let ids: Vec<String> = ids.iter().enumerate().map(name).collect();
        let children = |parent: usize| {
            let below = (1..self.nodes.len()).filter(move |at| self.nodes[*at].above == parent);
            below.map(|at| ids[at].as_str()).collect::<Vec<_>>()
        };
        let data: Vec<Payload> = (0..self.nodes.len())
            .map(|at| {
                let mut entries: Vec<(&str, Value)> = Vec::new();
                if !children(at).is_empty() {
                    let ids = children(at).into_iter().map(Value::from).collect();
                    entries.push(("__childrenIds", Value::Array(ids)));
                }
                if at > 0 {
                    let above = self.nodes[at].above;
                    let queue = QUEUES[self.nodes[above].queue as usize];
                    entries.push(("__parentId", ids[above].as_str().into()));
                    entries.push(("__parentQueue", queue.into()));
                }
                map(at, entries)
            })
            .collect();
        let draft = |at: usize| {
            let node = &self.nodes[at];
            let mut depends_on = children(at);
            let also = node.also.map(|other| ids[other].as_str());
            depends_on.extend(also.filter(|other| !children(at).contains(other)));
            let mut job = node.draft(now, Some(ids[at].as_str()), data[at].bytes());
            if at == 0 {
                job.fail_parent_on_failure = false;
                job.continue_parent_on_failure = false;
                job.ignore_dependency_on_failure = false;
                job.remove_dependency_on_failure = false;
            }
            FlowJobDraft {
                id: &ids[at],
                queue: QUEUES[node.queue as usize],
                job,
                depends_on,
                children: children(at),
                parent: (at > 0).then(|| ids[node.above].as_str()),
                ..FlowJobDraft::default()
            }
        };
        let mut drafts: Vec<FlowJobDraft<'_>> = (0..self.nodes.len()).map(draft).collect();
        if backwards {
            drafts.reverse();
        }
        check_flow(&drafts).ok()
    }
}

fn map(number: usize, ties: Vec<(&str, Value)>) -> Payload {
    let mut entries = vec![(Value::from("n"), Value::from(number))];
    entries.extend(ties.into_iter().map(|(key, value)| (key.into(), value)));
    encode(entries)
}
