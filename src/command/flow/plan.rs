//! Plans of flows: trees, chains and joins become jobs that name each other by position.

use std::collections::HashSet;

use super::annotate::check_user_data;
use super::check::{add_bytes, check_options};
use super::{AddFlow, FlowEntry, FlowFault};
use crate::command::draft::JobDraft;
use crate::command::given::Number;
use crate::command::{CommandError, QueueName, bounds};
use crate::engine::JobId;

/// A job of a flow with the jobs below it, as a caller describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowNodeDraft<'a> {
    /// Its queue.
    pub queue: &'a str,
    /// The job; no data means an empty object.
    pub job: JobDraft<'a>,
    /// An option that does not go with a flow.
    pub unsupported: Option<&'static str>,
    /// Jobs below it.
    pub children: Vec<FlowNodeDraft<'a>>,
}

/// A flow in the making: any number of trees, chains and joins that are admitted together.
///
/// Faults are told with the path of the job they were found in, such as `flow.children[2].children[0]`; a tree whose path
/// is empty has paths such as `children[2].children[0]`.
#[derive(Debug, Default)]
pub struct Plan {
    jobs: Vec<FlowEntry>,
    ids: HashSet<JobId>,
    bytes: usize,
}

impl Plan {
    /// A tree whose children run before their parent; the parent depends on all of them.
    ///
    /// # Errors
    /// The first fault.
    pub fn tree(&mut self, root: &FlowNodeDraft<'_>, path: &str) -> Result<usize, CommandError> {
        self.node(root, path, None, 1)
    }

    fn node(
        &mut self,
        node: &FlowNodeDraft<'_>,
        path: &str,
        parent: Option<usize>,
        level: usize,
    ) -> Result<usize, CommandError> {
        if level > bounds::FLOW_DEPTH_MAX {
            return Err(FlowFault::TooDeep.at(path));
        }
        let place = self.job(node, path, parent)?;
        for (index, child) in node.children.iter().enumerate() {
            let path = child_path(path, index);
            let child = self.node(child, &path, Some(place), level + 1)?;
            if let Some(entry) = self.jobs.get_mut(place) {
                entry.depends_on.push(child);
                entry.children.push(child);
            }
        }
        Ok(place)
    }

    /// A tree whose children run after their parent: each depends on it.
    ///
    /// # Errors
    /// The first fault.
    pub fn reverse_tree(
        &mut self,
        root: &FlowNodeDraft<'_>,
        path: &str,
    ) -> Result<usize, CommandError> {
        let mut open = vec![(root, path.to_owned(), None, 1)];
        let mut first = None;
        while let Some((node, path, above, level)) = open.pop() {
            if level > bounds::FLOW_DEPTH_MAX {
                return Err(FlowFault::TooDeep.at(&path));
            }
            let place = self.job(node, &path, None)?;
            self.depend(place, above);
            first.get_or_insert(place);
            for (index, child) in node.children.iter().enumerate().rev() {
                open.push((child, child_path(&path, index), Some(place), level + 1));
            }
        }
        Ok(first.unwrap_or_default())
    }

    /// Jobs that run one after another.
    ///
    /// # Errors
    /// The first fault.
    pub fn chain(&mut self, steps: &[FlowNodeDraft<'_>], path: &str) -> Result<(), CommandError> {
        let mut before = None;
        for (index, step) in steps.iter().enumerate() {
            let place = self.job(step, &format!("{path}[{index}]"), None)?;
            self.depend(place, before);
            before = Some(place);
        }
        Ok(())
    }

    /// Jobs that run in any order, and one that runs after all of them and can read their results.
    ///
    /// # Errors
    /// The first fault.
    pub fn join(
        &mut self,
        parallel: &[FlowNodeDraft<'_>],
        last: &FlowNodeDraft<'_>,
        paths: (&str, &str),
    ) -> Result<(), CommandError> {
        let mut places = Vec::with_capacity(parallel.len());
        for (index, job) in parallel.iter().enumerate() {
            places.push(self.job(job, &format!("{}[{index}]", paths.0), None)?);
        }
        let last = self.job(last, paths.1, None)?;
        for place in places {
            self.depend(last, Some(place));
        }
        Ok(())
    }

    fn depend(&mut self, place: usize, on: Option<usize>) {
        if let (Some(entry), Some(on)) = (self.jobs.get_mut(place), on) {
            entry.depends_on.push(on);
        }
    }

    fn job(
        &mut self,
        node: &FlowNodeDraft<'_>,
        path: &str,
        parent: Option<usize>,
    ) -> Result<usize, CommandError> {
        const EMPTY: &[u8] = &[0x80];
        let data = node.job.data.unwrap_or(EMPTY);
        let id = node.job.custom_id.map(JobId::from_text);
        let queue = self
            .check_place(node, id.as_ref(), data)
            .map_err(|fault| fault.at(path))?;
        let draft = JobDraft {
            data: Some(data),
            delay: not_negative(node.job.delay),
            ..node.job.clone()
        };
        let job = draft
            .check_data()
            .map_err(CommandError::from)
            .and_then(|()| check_options(&draft, parent.is_some(), node.unsupported, &[]))
            .map_err(|error| error.in_node(path))?;
        let place = self.jobs.len();
        self.ids.extend(id.clone());
        self.jobs.push(FlowEntry {
            id,
            queue,
            job,
            depends_on: Vec::new(),
            children: Vec::new(),
            parent,
        });
        Ok(place)
    }

    /// Whether there is room for a job, and nothing in what the flow itself needs of it is wrong.
    fn check_place(
        &mut self,
        node: &FlowNodeDraft<'_>,
        id: Option<&JobId>,
        data: &[u8],
    ) -> Result<QueueName, FlowFault> {
        if self.jobs.len() >= bounds::FLOW_JOBS_MAX {
            return Err(FlowFault::TooManyJobs);
        }
        let queue =
            QueueName::new(node.queue).map_err(|_| FlowFault::Queue(node.queue.to_owned()))?;
        if !node.job.custom_id.is_none_or(is_flow_id) {
            return Err(FlowFault::JobId);
        }
        if let Some(id) = id.filter(|id| self.ids.contains(id)) {
            return Err(FlowFault::DuplicateId(id.to_string()));
        }
        check_user_data(data)?;
        add_bytes(&mut self.bytes, data)?;
        Ok(queue)
    }

    /// The whole plan.
    pub fn finish(self) -> AddFlow {
        AddFlow {
            jobs: self.jobs,
            annotate: true,
        }
    }
}

/// Whether a caller may choose this id for a job of a flow.
pub fn is_flow_id(id: &str) -> bool {
    !id.is_empty() && !id.contains(':') && !bounds::is_longer(id, bounds::FLOW_ID_MAX)
}

fn child_path(path: &str, index: usize) -> String {
    if path.is_empty() {
        format!("children[{index}]")
    } else {
        format!("{path}.children[{index}]")
    }
}

/// In a flow a time that has passed means now (MCP contract, section 11).
fn not_negative(delay: Number) -> Number {
    match delay {
        Number::Value(ms) if ms < 0.0 => Number::Value(0.0),
        other => other,
    }
}
