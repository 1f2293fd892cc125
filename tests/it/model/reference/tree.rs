//! Flows that are added as one, what can be read of them, and the ties in the data of jobs (section 13; tcp protocol,
//! section 18).

use std::sync::Arc;

use bunqueue_mcp::command::flow::{AddFlow, FlowFault};
use bunqueue_mcp::command::{ChildValue, GetFlow, Reply};
use bunqueue_mcp::engine::{FlowNode, JobId, JobLinks, NewJob, Parent, Payload, Refusal};
use rmpv::Value;

use super::{Answer, Reference, refuse};

impl Reference {
    pub(super) fn add_flow(&mut self, flow: &AddFlow) -> Answer {
        let chosen = flow.jobs.iter().filter_map(|entry| entry.id.as_ref());
        let mut taken = chosen.filter(|id| self.find(id).is_some() || self.proofs.contains(id));
        if let Some(id) = taken.next() {
            return refuse(Refusal::FlowJobExists(id.clone()));
        }
        if let Err(refusal) = self.check_room_for(flow) {
            return refuse(refusal);
        }
        let mut ids = Vec::new();
        for entry in &flow.jobs {
            let told = self.learned.ids.pop_front();
            let told = told.expect("the reply of a flow names one id for each job");
            ids.push(match &entry.id {
                Some(id) => id.clone(),
                None => self.accept_generated(&told),
            });
        }
        let mut views = Vec::new();
        for (entry, id) in flow.jobs.iter().zip(&ids) {
            let named = |places: &[usize]| places.iter().map(|at| ids[*at].clone()).collect();
            let links = JobLinks {
                parent: entry.parent.map(|at| Parent {
                    id: ids[at].clone(),
                    queue: flow.jobs[at].queue.shared(),
                }),
                depends_on: named(&entry.depends_on),
                children: named(&entry.children),
            };
            let new = NewJob {
                links: Some(Box::new(links)),
                ..entry.job.clone()
            };
            let at = self.admit(&entry.queue.shared(), &new, id.clone());
            if flow.annotate {
                self.annotate(at);
            }
            views.push(self.show(at));
        }
        for id in &ids {
            if let Some(at) = self.find(id)
                && self.is_live(id)
            {
                self.expire_if_old(at);
            }
        }
        Answer::Done(Ok(Reply::FlowAdded(views)))
    }

    /// Whether the groups have room for a flow: its jobs that wait for nobody and are not too old are queued.
    fn check_room_for(&self, flow: &AddFlow) -> Result<(), Refusal> {
        let mut entries: Vec<_> = flow.jobs.iter().collect();
        entries.sort_by_key(|entry| entry.queue.shared());
        let mut added: Vec<(Arc<str>, &Arc<str>)> = Vec::new();
        for entry in entries {
            let Some(options) = &entry.job.options else {
                continue;
            };
            let Some(group) = &options.group_id else {
                continue;
            };
            let queue = entry.queue.shared();
            let own = (queue, group);
            let new = added.iter().filter(|other| **other == own).count();
            if let Some(max) = entry.job.group_max
                && (self.queued_in_group(&own.0, group) + new) as u64 >= max
            {
                let group = Arc::clone(group);
                return Err(Refusal::GroupFull { group, max });
            }
            let born = entry.job.timestamp.unwrap_or(self.now) as f64;
            let too_old = options.ttl.is_some_and(|ttl| self.now as f64 > born + ttl);
            if entry.depends_on.is_empty() && !too_old {
                added.push(own);
            }
        }
        Ok(())
    }

    pub(super) fn children_values(&self, id: &JobId) -> Vec<ChildValue> {
        let Some(job) = self.job(id) else {
            return Vec::new();
        };
        let value = |child: &JobId| {
            let mut kept = job.ties.values.iter();
            if let Some(value) = kept.find(|(_, other, _)| other == child) {
                return Some(value.clone());
            }
            let own = self.job(child)?.ties.parent.as_ref()?;
            self.finished_value(child).filter(|_| own.id == *id)
        };
        job.ties.children.iter().filter_map(value).collect()
    }

    pub(super) fn flow(&self, get: &GetFlow) -> Option<FlowNode> {
        let at = self.find(&get.id)?;
        let here = self.jobs[at].view.queue == get.queue;
        here.then(|| self.node(at, get.depth, get.children))
    }

    fn node(&self, at: usize, depth: usize, width: usize) -> FlowNode {
        let (id, ties) = (&self.jobs[at].view.id, &self.jobs[at].ties);
        let found = ties.children.iter().filter_map(|child| self.find(child));
        let own = |at: &usize| {
            let parent = self.jobs[*at].ties.parent.as_ref();
            parent.is_some_and(|parent| parent.id == *id)
        };
        let found: Vec<usize> = found.filter(own).collect();
        let cut = depth == 0 && !found.is_empty();
        let below = found.into_iter().take(width);
        let children = (!cut).then(|| below.map(|at| self.node(at, depth - 1, width)).collect());
        FlowNode {
            job: self.detail(at),
            children,
        }
    }

    // ---- data

    /// Writes the ties of a job into its data, unless that is no map.
    pub(super) fn annotate(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        let mut entries = match job.view.data.as_ref().map(decode) {
            None => Vec::new(),
            Some(Some(entries)) => entries,
            Some(None) => return,
        };
        let text = |text: &str| Value::from(text);
        let ids = job.ties.children.iter();
        let ids = ids.map(|id| text(&id.text())).collect();
        let children = Some(Value::Array(ids)).filter(|_| !job.ties.children.is_empty());
        let parent = job.ties.parent.as_ref();
        for (key, value) in [
            ("__parentId", parent.map(|parent| text(&parent.id.text()))),
            ("__parentQueue", parent.map(|parent| text(&parent.queue))),
            ("__childrenIds", children),
        ] {
            let place = entries.iter().position(|(name, _)| *name == text(key));
            match (place, value) {
                (Some(at), Some(value)) => entries[at].1 = value,
                (None, Some(value)) => entries.push((text(key), value)),
                (Some(at), None) => drop(entries.remove(at)),
                (None, None) => {}
            }
        }
        job.view.data = Some(encode(entries));
    }
}

/// The entries of a map.
fn decode(data: &Payload) -> Option<Vec<(Value, Value)>> {
    match rmpv::decode::read_value(&mut data.bytes()).expect("the data is MessagePack") {
        Value::Map(entries) => Some(entries),
        _ => None,
    }
}

pub fn encode(entries: Vec<(Value, Value)>) -> Payload {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &Value::Map(entries)).expect("values have a form");
    Payload::new(&bytes)
}

/// What a client may write into the data of a job in a flow.
pub(super) fn user_data(data: Option<&Payload>) -> Result<(), FlowFault> {
    let entries = data.and_then(decode).ok_or(FlowFault::DataNotObject)?;
    let keys = entries.iter().filter_map(|(key, _)| key.as_str());
    match keys.into_iter().find(|key| key.starts_with("__")) {
        Some(key) => Err(FlowFault::ReservedKey(key.to_owned())),
        None => Ok(()),
    }
}
