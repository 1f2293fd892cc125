//! Plans of flows: trees, chains and joins become jobs that name each other by position.

use super::annotate::check_user_data;
use super::check::{add_bytes, check_options};
use super::{AddFlow, FlowEntry, FlowFault};
use crate::command::draft::JobDraft;
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
/// Faults that lie in one job are told with its path, such as `flow.children[2].children[0]`.
#[derive(Debug, Default)]
pub struct Plan {
    jobs: Vec<FlowEntry>,
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
            return Err(FlowFault::TooDeep.into());
        }
        let place = self.job(node, path, parent)?;
        for (index, child) in node.children.iter().enumerate() {
            let path = format!("{path}.children[{index}]");
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
                return Err(FlowFault::TooDeep.into());
            }
            let place = self.job(node, &path, None)?;
            self.depend(place, above);
            first.get_or_insert(place);
            for (index, child) in node.children.iter().enumerate().rev() {
                open.push((
                    child,
                    format!("{path}.children[{index}]"),
                    Some(place),
                    level + 1,
                ));
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
        if self.jobs.len() >= bounds::FLOW_JOBS_MAX {
            return Err(FlowFault::TooManyJobs.into());
        }
        let queue =
            QueueName::new(node.queue).map_err(|_| FlowFault::Queue(node.queue.to_owned()))?;
        let id = node.job.custom_id;
        if id.is_some_and(|id| {
            id.is_empty() || id.contains(':') || bounds::is_longer(id, bounds::FLOW_ID_MAX)
        }) {
            return Err(FlowFault::JobId.into());
        }
        let draft = JobDraft {
            data: Some(node.job.data.unwrap_or(EMPTY)),
            ..node.job.clone()
        };
        let data = draft.data.unwrap_or_default();
        check_user_data(data)?;
        add_bytes(&mut self.bytes, data)?;
        let job = draft
            .check_data()
            .map_err(CommandError::from)
            .and_then(|()| check_options(&draft, parent.is_some(), node.unsupported, &[]))
            .map_err(|error| error.in_node(path))?;
        let place = self.jobs.len();
        self.jobs.push(FlowEntry {
            id: id.map(JobId::from_text),
            queue,
            job,
            depends_on: Vec::new(),
            children: Vec::new(),
            parent,
        });
        Ok(place)
    }

    /// The whole plan.
    ///
    /// # Errors
    /// [`FlowFault::DuplicateId`].
    pub fn finish(self) -> Result<AddFlow, CommandError> {
        let mut seen = std::collections::HashSet::new();
        for id in self.jobs.iter().filter_map(|job| job.id.as_ref()) {
            if !seen.insert(id) {
                return Err(FlowFault::DuplicateId(id.to_string()).into());
            }
        }
        Ok(AddFlow {
            jobs: self.jobs,
            annotate: true,
        })
    }
}
