//! Section 13 and what section 6.4 says of dependencies: jobs that wait for jobs.

mod batch;
mod dependency;
mod family;
mod link;
mod plan;
mod room;

use std::sync::Arc;

use bunqueue_mcp::command::draft::JobDraft;
use bunqueue_mcp::command::flow::{FlowJobDraft, FlowNodeDraft, Plan, check_flow};
use bunqueue_mcp::command::given::Number;
use bunqueue_mcp::command::{
    AddMany, CommandError, Discard, Drain, Fail, GetChildFailures, GetChildrenValues, GetFlow,
    Obliterate, RemoveChildDependency, RemoveUnprocessedChildren, SetDlqConfig, UpdateData,
    UpdateParent,
};
use bunqueue_mcp::command::{ChangePriority, MoveToWaitingChildren};
use bunqueue_mcp::engine::{
    AddOutcome, Bucket, Change, CleanState, Config, DlqConfigUpdate, FailReport, FailureReason,
    FlowNode, JobId, JobLinks, JobView, NewJob, Parent, Payload, State, TOLD_ERROR_MAX, TokenGiven,
};
use serde_json::{Value as Json, json};

use crate::world::{World, awaiting, given, grouped, id, job, keyed, named, payload, queue, with};

pub fn bytes(value: &Json) -> Payload {
    Payload::new(&rmp_serde::to_vec_named(value).expect("values have a form"))
}

pub fn read(payload: &Payload) -> Json {
    rmp_serde::from_slice(payload.bytes()).expect("the data is MessagePack")
}

/// A job that waits for others.
pub fn after(new: NewJob, others: &[&str]) -> NewJob {
    let links = JobLinks {
        depends_on: others.iter().map(|other| id(other)).collect(),
        ..JobLinks::default()
    };
    NewJob {
        links: Some(Box::new(links)),
        ..new
    }
}

/// A job that becomes a child of an existing one.
pub fn child_of(new: NewJob, parent: &str, on: &str) -> NewJob {
    let parent = Some(Parent {
        id: id(parent),
        queue: on.into(),
    });
    let links = JobLinks {
        parent,
        ..JobLinks::default()
    };
    NewJob {
        data: Some(bytes(&json!({}))),
        links: Some(Box::new(links)),
        ..new
    }
}

/// A node of a plan with an id.
pub fn node<'a>(text: &'a str, on: &'a str, children: Vec<FlowNodeDraft<'a>>) -> FlowNodeDraft<'a> {
    FlowNodeDraft {
        queue: on,
        job: JobDraft {
            custom_id: Some(text),
            max_attempts: Number::Value(1.0),
            ..JobDraft::default()
        },
        children,
        unsupported: None,
    }
}

/// What a child's end does to its parent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    None,
    Fail,
    Remove,
    Ignore,
    Continue,
}

pub fn with_policy(mut node: FlowNodeDraft<'_>, policy: Policy) -> FlowNodeDraft<'_> {
    let job = &mut node.job;
    match policy {
        Policy::None => {}
        Policy::Fail => job.fail_parent_on_failure = true,
        Policy::Remove => job.remove_dependency_on_failure = true,
        Policy::Ignore => job.ignore_dependency_on_failure = true,
        Policy::Continue => job.continue_parent_on_failure = true,
    }
    node
}

pub fn tree(world: &mut World, root: &FlowNodeDraft<'_>) -> Vec<JobView> {
    let mut plan = Plan::default();
    plan.tree(root, "flow").expect("the tree is sound");
    world.ask(plan.finish())
}

/// A parent `p` in `pq` with two children `a` and `b` in `cq`; the policy is that of `a`.
pub fn family(world: &mut World, policy: Policy) {
    let a = with_policy(node("a", "cq", vec![]), policy);
    tree(world, &node("p", "pq", vec![a, node("b", "cq", vec![])]));
}

pub fn finish(world: &mut World, on: &str, result: Option<Payload>) -> JobId {
    let delivery = world.pull(on).expect("a job is ready");
    let id = delivery.job.id.clone();
    world
        .try_ask(bunqueue_mcp::command::Ack {
            id: id.clone(),
            token: TokenGiven::None,
            result,
            remove_on_complete: false,
        })
        .expect("the success is accepted");
    id
}

pub fn fail_next(world: &mut World, on: &str, error: &str) -> JobId {
    let delivery = world.pull(on).expect("a job is ready");
    world.fail(&delivery, error);
    delivery.job.id.clone()
}

pub fn values(world: &mut World, parent: &str) -> Vec<(String, Payload)> {
    let values = world.ask(GetChildrenValues { id: id(parent) });
    let key = |(queue, id, value): (Arc<str>, JobId, Payload)| (format!("{queue}:{id}"), value);
    values.into_iter().map(key).collect()
}

pub fn failures(world: &mut World, parent: &str) -> Vec<(String, String, bool)> {
    let failures = world.ask(GetChildFailures { id: id(parent) });
    let words = |failure: bunqueue_mcp::engine::ChildFailure| {
        let key = format!("{}:{}", failure.queue, failure.id);
        (key, failure.error.to_string(), failure.ignored)
    };
    failures.into_iter().map(words).collect()
}

pub fn state(world: &mut World, text: &str) -> Option<State> {
    world.state(&id(text))
}

pub fn error(world: &mut World, text: &str) -> String {
    let failure = world.failure(&id(text));
    assert_eq!(failure.reason, FailureReason::Unknown);
    failure.error.unwrap_or_default().to_string()
}
