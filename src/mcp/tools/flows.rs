//! Toolset `flows`: jobs that are added together and wait for each other. Prose: `toolsets/flows.md`.
//!
//! What a flow may be is decided by [`Plan`], below the seam; here a call becomes a plan, and ids become an answer of the
//! same shape.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::add::{ATTEMPTS_MAX, PRIORITY_MAX};
use super::shortened;
use crate::command::bounds::{ATTEMPTS_DEFAULT, JOB_NAME_MAX};
use crate::command::draft::JobDraft;
use crate::command::flow::{AddFlow, FlowNodeDraft, Plan};
use crate::command::{ChildValue, GetChildrenValues, GetFlow, GetJob};
use crate::engine::{self, JobView, Payload};
use crate::mcp::call::Call;
use crate::mcp::error::{Cause, ToolError};
use crate::mcp::page::ITEM_MAX;
use crate::mcp::parameter::{
    Backoff, DAY, FlowId, FlowQueue, FreeForm, Id, Ms, NO_MAX, NO_MIN, Queue, Whole, YEAR,
};
use crate::mcp::registry::{Policy, Toolset};
use crate::mcp::schema::{AGAIN, BRIEF};
use crate::mcp::view::{stored, value};

/// Levels below the job that [`get_flow`] shows.
const DEPTH_DEFAULT: usize = 10;
/// Characters of a queue name in a hint.
const QUEUE_SHOWN: usize = 60;

/// What any flow can be refused for.
const FLOW_ERRORS: [Cause; 5] = [
    Cause::FlowJobId,
    Cause::FlowDuplicateId,
    Cause::FlowQueue,
    Cause::FlowTooManyJobs,
    Cause::FlowReservedKey,
];

pub(super) fn toolset() -> Toolset {
    Toolset::new("flows", include_str!("../../../toolsets/flows.md"))
        .tool(
            "bunqueue_add_flow",
            "Add flow tree",
            Policy::WRITE,
            add_flow,
        )
        .errors(&FLOW_ERRORS)
        .errors(&[Cause::FlowTooDeep])
        .tool(
            "bunqueue_add_flow_chain",
            "Add chain",
            Policy::WRITE,
            add_flow_chain,
        )
        .errors(&FLOW_ERRORS)
        .tool(
            "bunqueue_add_flow_bulk_then",
            "Add fan-out then join",
            Policy::WRITE,
            add_flow_bulk_then,
        )
        .errors(&FLOW_ERRORS)
        .tool("bunqueue_get_flow", "Get flow tree", Policy::READ, get_flow)
        .errors(&[Cause::FlowNotFound])
        .tool(
            "bunqueue_get_children_values",
            "Get children results",
            Policy::READ,
            get_children_values,
        )
}

/// Options of a job in a flow.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-brief" = []))]
struct FlowOptions {
    /// Higher runs first
    #[schemars(extend("default" = 0))]
    priority: Option<Whole<{ -PRIORITY_MAX }, PRIORITY_MAX>>,
    /// Ms before it may run
    #[schemars(extend("default" = 0))]
    delay: Option<Ms<NO_MIN, YEAR>>,
    /// Tries in total
    #[schemars(extend("default" = ATTEMPTS_DEFAULT))]
    attempts: Option<Whole<1, ATTEMPTS_MAX>>,
    /// Retry delay. A bare number (ms) is accepted too and means exponential
    backoff: Option<Backoff>,
    /// Max ms per attempt
    timeout: Option<Ms<0, DAY>>,
    /// Own id, server-wide and new
    job_id: Option<FlowId>,
    /// Delete when done
    #[serde(default)]
    remove_on_complete: bool,
    /// Delete instead of DLQ
    #[serde(default)]
    remove_on_fail: bool,
    /// Run before older jobs
    #[serde(default)]
    lifo: bool,
    /// Ms without heartbeat before stalled
    stall_timeout: Option<Ms<0, DAY>>,
}

impl FlowOptions {
    fn draft(&self) -> JobDraft<'_> {
        JobDraft {
            custom_id: self.job_id.as_ref().map(|id| id.0.as_str()),
            priority: Whole::draft(self.priority),
            delay: Ms::draft(self.delay),
            max_attempts: Whole::draft(self.attempts),
            backoff: Backoff::draft(self.backoff),
            timeout: Ms::draft(self.timeout),
            stall_timeout: Ms::draft(self.stall_timeout),
            remove_on_complete: self.remove_on_complete,
            remove_on_fail: self.remove_on_fail,
            lifo: self.lifo,
            ..JobDraft::default()
        }
    }
}

/// A job of a tree, without the jobs below it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TreeJob {
    #[schemars(length(min = 1, max = JOB_NAME_MAX))]
    name: String,
    queue_name: FlowQueue,
    /// Payload
    data: Option<FreeForm>,
    /// Same keys as add_job except deduplication, durable, tags; jobId must be new, without ":"
    opts: Option<FlowOptions>,
}

/// A job of a tree.
#[derive(Deserialize, JsonSchema)]
struct Tree {
    #[serde(flatten)]
    job: TreeJob,
    /// Nested to any depth: {name, queueName, data?, opts?, children?}
    children: Option<Children>,
}

/// The jobs below a job. Published two levels deep, taken at any depth.
#[derive(Deserialize)]
#[serde(transparent)]
struct Children(Vec<Tree>);

impl JsonSchema for Children {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Children".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut child = TreeJob::json_schema(generator);
        child.remove("description");
        let mut grandchild = child.clone();
        grandchild.insert(BRIEF.into(), json!(["name", "queueName", "data"]));
        grandchild.insert(AGAIN.into(), true.into());
        let shown = ["name", "queueName", "data", "opts", "children"];
        child.insert(BRIEF.into(), shown.as_slice().into());
        if let Some(Value::Object(properties)) = child.get_mut("properties") {
            let below = json!({ "type": "array", "items": grandchild });
            properties.insert("children".into(), below);
        }
        json_schema!({ "type": "array", "items": child })
    }
}

// A job of a chain or a join. No doc comment: schemars would publish it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-brief" = ["name", "queueName", "data", "opts"]))]
struct Step {
    #[schemars(length(min = 1, max = JOB_NAME_MAX))]
    name: String,
    queue_name: FlowQueue,
    data: FreeForm,
    opts: Option<FlowOptions>,
}

/// A job with its data in the stored form, which a draft borrows.
struct Prepared<'a> {
    name: &'a str,
    queue: &'a str,
    data: Option<Payload>,
    options: Option<&'a FlowOptions>,
    children: Vec<Self>,
}

impl<'a> Prepared<'a> {
    fn step(step: &'a Step, path: &str) -> Result<Self, ToolError> {
        Ok(Self {
            name: &step.name,
            queue: &step.queue_name.0,
            data: Some(stored(&step.data.0, &format!("{path}.data"))?),
            options: step.opts.as_ref(),
            children: Vec::new(),
        })
    }

    fn steps(steps: &'a [Step], path: &str) -> Result<Vec<Self>, ToolError> {
        let steps = steps.iter().enumerate();
        steps
            .map(|(index, step)| Self::step(step, &format!("{path}[{index}]")))
            .collect()
    }

    /// A tree; `prefix` is its path with the dot behind it, empty for the root.
    fn tree(tree: &'a Tree, prefix: &str) -> Result<Self, ToolError> {
        let Tree { job, children } = tree;
        let data = job.data.as_ref();
        let below = children.iter().flat_map(|children| &children.0);
        Ok(Self {
            name: &job.name,
            queue: &job.queue_name.0,
            data: data
                .map(|data| stored(&data.0, &format!("{prefix}data")))
                .transpose()?,
            options: job.opts.as_ref(),
            children: below
                .enumerate()
                .map(|(index, child)| Self::tree(child, &format!("{prefix}children[{index}].")))
                .collect::<Result<_, _>>()?,
        })
    }

    fn draft(&self) -> FlowNodeDraft<'_> {
        let options = self.options.map(FlowOptions::draft).unwrap_or_default();
        FlowNodeDraft {
            queue: self.queue,
            job: JobDraft {
                name: Some(self.name),
                data: self.data.as_ref().map(Payload::bytes),
                ..options
            },
            unsupported: None,
            children: Self::drafts(&self.children),
        }
    }

    fn drafts(jobs: &[Self]) -> Vec<FlowNodeDraft<'_>> {
        jobs.iter().map(Prepared::draft).collect()
    }
}

/// A job of a tree as it is answered.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Node {
    job_id: String,
    name: String,
    queue_name: String,
    /// Its state, where the tree was read
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// true when children are left out
    #[schemars(extend("x-unlisted" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    /// Jobs of the same shape; absent without any
    #[schemars(with = "Option<Vec<Value>>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Self>,
}

impl Node {
    /// A tree as it was added, its ids in the order of planning.
    fn added(tree: &Tree, ids: &mut impl Iterator<Item = String>) -> Self {
        let below = tree.children.iter().flat_map(|children| &children.0);
        Self {
            job_id: ids.next().unwrap_or_default(),
            name: tree.job.name.clone(),
            queue_name: tree.job.queue_name.0.clone(),
            state: None,
            truncated: None,
            children: below.map(|child| Self::added(child, ids)).collect(),
        }
    }

    /// A tree as it was read, as much of it as has `room` bytes.
    fn read(node: &engine::FlowNode, room: &mut usize) -> Self {
        let job = &node.job.job;
        let mut shown = Self {
            job_id: job.id.to_string(),
            name: job.name.to_string(),
            queue_name: job.queue.to_string(),
            state: Some(job.state.name()),
            truncated: node.children.is_none().then_some(true),
            children: Vec::new(),
        };
        for child in node.children.iter().flatten() {
            let child_bytes = entry_bytes(&child.job.job);
            if child_bytes > *room {
                shown.truncated = Some(true);
                break;
            }
            *room -= child_bytes;
            shown.children.push(Self::read(child, room));
        }
        shown
    }
}

/// Bytes of a job in a tree, with all that belongs to it but its children.
fn entry_bytes(job: &JobView) -> usize {
    const MEMBERS: usize = 120;
    let text = |text: &str| Value::from(text).to_string().len();
    MEMBERS + text(&job.id.to_string()) + text(&job.name) + text(&job.queue)
}

async fn add_flow(call: Call, arguments: Tree) -> Result<Node, ToolError> {
    let added = call.run(plan_tree(&arguments)?).await?;
    let mut ids = added.iter().map(|job| job.id.to_string());
    Ok(Node::added(&arguments, &mut ids))
}

fn plan_tree(tree: &Tree) -> Result<AddFlow, ToolError> {
    let root = Prepared::tree(tree, "")?;
    let mut plan = Plan::default();
    plan.tree(&root.draft(), "")?;
    Ok(plan.finish())
}

#[derive(Deserialize, JsonSchema)]
struct AddFlowChain {
    #[schemars(length(min = 1))]
    steps: Vec<Step>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChainAdded {
    /// One per step, in order
    #[schemars(with = "Vec<Value>")]
    job_ids: Vec<String>,
}

async fn add_flow_chain(call: Call, arguments: AddFlowChain) -> Result<ChainAdded, ToolError> {
    let added = call.run(plan_chain(&arguments)?).await?;
    Ok(ChainAdded {
        job_ids: added.iter().map(|job| job.id.to_string()).collect(),
    })
}

fn plan_chain(arguments: &AddFlowChain) -> Result<AddFlow, ToolError> {
    let steps = Prepared::steps(&arguments.steps, "steps")?;
    let mut plan = Plan::default();
    plan.chain(&Prepared::drafts(&steps), "steps")?;
    Ok(plan.finish())
}

#[derive(Deserialize, JsonSchema)]
struct AddFlowBulkThen {
    #[schemars(length(min = 1))]
    parallel: Vec<Step>,
    #[serde(rename = "final")]
    last: Step,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BulkThenAdded {
    /// One per parallel job, in order
    #[schemars(with = "Vec<Value>")]
    parallel_ids: Vec<String>,
    final_id: String,
}

async fn add_flow_bulk_then(
    call: Call,
    arguments: AddFlowBulkThen,
) -> Result<BulkThenAdded, ToolError> {
    let added = call.run(plan_join(&arguments)?).await?;
    let mut ids: Vec<_> = added.iter().map(|job| job.id.to_string()).collect();
    let final_id = ids.pop().unwrap_or_default();
    Ok(BulkThenAdded {
        parallel_ids: ids,
        final_id,
    })
}

fn plan_join(arguments: &AddFlowBulkThen) -> Result<AddFlow, ToolError> {
    let parallel = Prepared::steps(&arguments.parallel, "parallel")?;
    let last = Prepared::step(&arguments.last, "final")?;
    let mut plan = Plan::default();
    plan.join(
        &Prepared::drafts(&parallel),
        &last.draft(),
        ("parallel", "final"),
    )?;
    Ok(plan.finish())
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ReadFlow {
    job_id: Id,
    queue_name: Queue,
    #[schemars(extend("default" = DEPTH_DEFAULT))]
    depth: Option<Whole<1, NO_MAX>>,
    /// Per node
    max_children: Option<Whole<1, NO_MAX>>,
}

async fn get_flow(call: Call, arguments: ReadFlow) -> Result<Node, ToolError> {
    let found = call
        .run(GetFlow {
            id: arguments.job_id.job(),
            queue: arguments.queue_name.name().shared(),
            depth: arguments.depth.map_or(DEPTH_DEFAULT, Whole::count),
            children: arguments.max_children.map_or(usize::MAX, Whole::count),
        })
        .await?;
    let Some(tree) = found else {
        return Err(not_found(&call, &arguments.job_id).await?);
    };
    let mut room = ITEM_MAX;
    Ok(Node::read(&tree, &mut room))
}

/// Why there is no such tree: no job, or one in another queue.
async fn not_found(call: &Call, job: &Id) -> Result<ToolError, ToolError> {
    let elsewhere = call.run(GetJob { id: job.job() }).await?;
    let hint = elsewhere.map(|found| {
        let queue = shortened(&found.job.queue, QUEUE_SHOWN);
        format!("There is such a job, in the queue {queue}: pass that one as queueName.")
    });
    Ok(ToolError::FlowNotFound { hint })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ReadChildrenValues {
    parent_job_id: Id,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChildrenValues {
    parent_job_id: String,
    /// Results by queue, colon and id of the child
    children: Map<String, Value>,
}

async fn get_children_values(
    call: Call,
    arguments: ReadChildrenValues,
) -> Result<ChildrenValues, ToolError> {
    let parent = arguments.parent_job_id;
    let values = call.run(GetChildrenValues { id: parent.job() }).await?;
    let entry = |(queue, id, result): &ChildValue| (format!("{queue}:{id}"), value(Some(result)));
    Ok(ChildrenValues {
        parent_job_id: parent.text(),
        children: values.iter().map(entry).collect(),
    })
}
