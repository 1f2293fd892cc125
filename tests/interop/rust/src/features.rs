//! What the client has beside jobs and workers: dead letters, limits, schedulers and flows.

use bunqueue_client::{
    ChainStep, ConnectionOptions, FlowJob, FlowNode, FlowProducer, Queue, SchedulerRepeat,
    SchedulerTemplate, Value,
};
use serde_json::{Map, Value as Json, json};

use crate::{Outcome, job_options, tag, text, untag};

pub fn answer(
    op: &str,
    queue: &Queue,
    connection: &ConnectionOptions,
    request: &Json,
) -> Outcome<Json> {
    Ok(match op {
        "dlq" => queue.get_dlq(None)?.iter().map(|job| fields(job)).collect(),
        "retry_dlq" => json!(queue.retry_dlq(request["job"].as_str(), None)?),
        "purge_dlq" => json!(queue.purge_dlq()?),
        "limit" => {
            let limit = request["limit"].as_i64().ok_or("no limit")?;
            queue.set_rate_limit(limit, request["duration"].as_i64(), None)?;
            Json::Null
        }
        "unlimit" => {
            queue.clear_rate_limit()?;
            Json::Null
        }
        "schedule" => {
            let repeat = SchedulerRepeat {
                pattern: request["pattern"].as_str().map(str::to_owned),
                every_ms: request["every"].as_i64(),
                limit: request["limit"].as_i64(),
                ..SchedulerRepeat::default()
            };
            let template = SchedulerTemplate {
                data: untag(&request["data"])?,
                ..SchedulerTemplate::default()
            };
            queue.upsert_job_scheduler(&text(&request["scheduler"]), repeat, template)?;
            Json::Null
        }
        "scheduler" => queue
            .get_job_scheduler(&text(&request["scheduler"]))?
            .map_or(Json::Null, |found| fields(&found)),
        "unschedule" => {
            queue.remove_job_scheduler(&text(&request["scheduler"]))?;
            Json::Null
        }
        "chain" => {
            let steps = request["steps"].as_array().ok_or("no steps")?;
            let steps = steps.iter().map(|step| {
                Ok(ChainStep {
                    name: text(&step["name"]),
                    queue_name: text(&request["queue"]),
                    data: untag(&step["data"])?,
                    options: job_options(&step["options"]),
                })
            });
            let flows = FlowProducer::new(connection.clone());
            json!(flows.add_chain(steps.collect::<Outcome<_>>()?)?)
        }
        "tree" => {
            let root = node(&text(&request["queue"]), &request["root"])?;
            ids(&FlowProducer::new(connection.clone()).add(root)?)
        }
        other => return Err(format!("unknown op {other}").into()),
    })
}

fn node(queue: &str, described: &Json) -> Outcome<FlowJob> {
    let children = described["children"].as_array().into_iter().flatten();
    Ok(FlowJob {
        name: text(&described["name"]),
        queue_name: queue.to_owned(),
        data: untag(&described["data"])?,
        options: job_options(&described["options"]),
        children: children
            .map(|child| node(queue, child))
            .collect::<Outcome<_>>()?,
    })
}

fn ids(node: &FlowNode) -> Json {
    json!({"id": node.job.id(), "children": node.children.iter().map(ids).collect::<Json>()})
}

fn fields(entries: &[(Value, Value)]) -> Json {
    entries
        .iter()
        .map(|(key, value)| (key.as_str().unwrap_or_default().to_owned(), tag(value)))
        .collect::<Map<_, _>>()
        .into()
}
