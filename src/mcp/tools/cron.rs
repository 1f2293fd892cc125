//! Toolset `cron`: recurring schedules. Prose: `toolsets/cron.md`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::add::{ATTEMPTS_MAX, Deduplication, PRIORITY_MAX};
use super::{Found, LeftOut, Nothing};
use crate::command::bounds::{ATTEMPTS_DEFAULT, JOB_NAME_DEFAULT, JOB_NAME_MAX};
use crate::command::schedule::{CronDraft, CronJobDraft};
use crate::command::{ArgumentError, CommandError, DeleteCron, GetCron, ListCrons, UpsertCron};
use crate::engine::{Cron, Millis, NewCron, ScheduleError};
use crate::mcp::arguments::Issue;
use crate::mcp::call::Call;
use crate::mcp::error::{Cause, Rule, ToolError};
use crate::mcp::page::fit;
use crate::mcp::parameter::{Backoff, DAY, FreeForm, Ms, NO_MAX, NO_MIN, Queue, Whole, YEAR};
use crate::mcp::registry::{Policy, Toolset};
use crate::mcp::view::{iso, priority, stored};

pub(super) fn toolset() -> Toolset {
    Toolset::new("cron", include_str!("../../../toolsets/cron.md"))
        .tool(
            "bunqueue_add_cron",
            "Add schedule",
            Policy::WRITE.idempotent(),
            add_cron,
        )
        .errors(&[
            Cause::CronTiming,
            Cause::CronExpression,
            Cause::Rule(Rule::TimezoneNeedsSchedule),
            Cause::Rule(Rule::UnknownTimezone),
        ])
        .tool(
            "bunqueue_list_crons",
            "List schedules",
            Policy::READ,
            list_crons,
        )
        .tool("bunqueue_get_cron", "Get schedule", Policy::READ, get_cron)
        .errors(&[Cause::CronNotFound])
        .guarded(
            "bunqueue_delete_cron",
            "Delete schedule",
            Policy::DESTROY.idempotent().confirm("name"),
            delete_cron,
            delete_cron_impact,
        )
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AddCron {
    /// Unique
    #[schemars(length(min = 1))]
    name: String,
    queue: Queue,
    /// Payload
    data: FreeForm,
    /// 5 fields, 6 with seconds, or @hourly etc.
    schedule: Option<String>,
    repeat_every: Option<Ms<1, NO_MAX>>,
    #[schemars(length(min = 1, max = JOB_NAME_MAX), extend("default" = JOB_NAME_DEFAULT))]
    job_name: Option<String>,
    #[schemars(extend("default" = 0))]
    priority: Option<Whole<{ -PRIORITY_MAX }, PRIORITY_MAX>>,
    /// IANA zone of schedule, e.g. Europe/Rome
    #[schemars(length(min = 1), extend("default" = "UTC"))]
    timezone: Option<String>,
    /// Runs before it is removed
    max_limit: Option<Whole<1, NO_MAX>>,
    /// Also run once on creation
    #[serde(default)]
    immediately: bool,
    #[serde(default)]
    skip_if_no_worker: bool,
    /// Skip a run while the last job is unfinished
    #[schemars(extend("default" = true))]
    prevent_overlap: Option<bool>,
    #[schemars(extend("default" = true))]
    skip_missed_on_restart: Option<bool>,
    /// Same key while its job is unfinished returns that job
    deduplication: Option<Deduplication>,
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
    /// Delete when done
    #[serde(default)]
    remove_on_complete: bool,
    /// Delete instead of DLQ
    #[serde(default)]
    remove_on_fail: bool,
    /// Ms without heartbeat before stalled
    stall_timeout: Option<Ms<0, DAY>>,
}

impl AddCron {
    /// The schedule, checked.
    fn cron(&self) -> Result<NewCron, ToolError> {
        let data = stored(&self.data.0, "data")?;
        let dedup = Deduplication::draft(self.deduplication.as_ref(), None)?;
        let has_schedule = self.schedule.as_ref().is_some_and(|text| !text.is_empty());
        if self.timezone.is_some() && self.repeat_every.is_some() && !has_schedule {
            return Err(Rule::TimezoneNeedsSchedule.broken());
        }
        let draft = CronDraft {
            name: &self.name,
            schedule: self.schedule.as_deref(),
            repeat_every: Ms::draft(self.repeat_every),
            timezone: self.timezone.as_deref(),
            max_limit: Whole::draft(self.max_limit),
            immediately: self.immediately,
            skip_missed_on_restart: self.skip_missed_on_restart,
            skip_if_no_worker: self.skip_if_no_worker,
            // To a worker, saying true is more than the default and deletes a queued job. Here it is the default.
            prevent_overlap: self.prevent_overlap.filter(|prevent| !prevent),
            job_name: self.job_name.as_deref(),
            data: Some(data.bytes()),
            priority: Whole::draft(self.priority),
            unique_key: dedup.key,
            dedup_ttl: dedup.ttl,
            dedup_extend: dedup.extend,
            dedup_replace: dedup.replace,
            job: CronJobDraft {
                max_attempts: Whole::draft(self.attempts),
                backoff: Backoff::draft(self.backoff),
                timeout: Ms::draft(self.timeout),
                // Ready at the time of the run is as early as a run can be.
                delay: Ms::draft(self.delay.map(|delay| Ms::<0, YEAR>(delay.0.max(0)))),
                stall_timeout: Ms::draft(self.stall_timeout),
                remove_on_complete: self.remove_on_complete,
                remove_on_fail: self.remove_on_fail,
            },
        };
        draft.check(&self.queue.name()).map_err(fault)
    }
}

/// A fault in the words of this tool: where the zone is named by itself, and the name of a job is not `name`.
fn fault(error: CommandError) -> ToolError {
    match error {
        CommandError::Argument(ArgumentError::CronExpression(ScheduleError::UnknownZone)) => {
            Rule::UnknownTimezone.broken()
        }
        CommandError::Argument(error @ ArgumentError::JobName) => {
            ToolError::Arguments(vec![Issue {
                path: "jobName".into(),
                message: error.to_string(),
                expected: None,
                hint: None,
            }])
        }
        other => other.into(),
    }
}

/// A schedule as agents see it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CronView {
    name: String,
    queue: String,
    /// Cron pattern; decides when there is an interval as well
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    /// Ms between runs
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_every: Option<Millis>,
    /// null when no time is left
    next_run: Option<String>,
    /// Jobs added so far
    executions: u64,
    job_name: String,
    #[schemars(with = "i64")]
    priority: Number,
    /// null means UTC
    timezone: Option<String>,
    /// null means unlimited
    max_limit: Option<u64>,
}

impl CronView {
    fn of(cron: &Cron) -> Self {
        let definition = &cron.definition;
        let text = |text: &Arc<str>| text.to_string();
        Self {
            name: text(&definition.name),
            queue: text(&definition.queue),
            schedule: definition
                .schedule
                .as_ref()
                .map(|schedule| text(schedule.text())),
            repeat_every: definition.repeat_every,
            next_run: cron.figures.next_run.and_then(iso),
            executions: cron.figures.executions,
            job_name: text(&definition.template.name),
            priority: priority(definition.template.priority),
            timezone: definition.timezone.as_ref().map(text),
            max_limit: definition.max_limit,
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct CronAdded {
    success: bool,
    #[serde(flatten)]
    cron: CronView,
}

async fn add_cron(call: Call, arguments: AddCron) -> Result<CronAdded, ToolError> {
    let cron = arguments.cron()?;
    let added = call.run(UpsertCron { cron }).await?;
    Ok(CronAdded {
        success: true,
        cron: CronView::of(&added),
    })
}

#[derive(Serialize, JsonSchema)]
struct Crons {
    /// Schedules in this answer
    count: usize,
    /// Schedules as in get_cron, in the order in which they were added
    crons: Vec<Value>,
    #[serde(flatten)]
    left_out: LeftOut,
}

async fn list_crons(call: Call, _: Nothing) -> Result<Crons, ToolError> {
    let crons = call.run(ListCrons { page: None }).await?;
    let items = crons
        .iter()
        .filter_map(|cron| serde_json::to_value(CronView::of(cron)).ok());
    let fitted = fit(items);
    let left_out = LeftOut::of(crons.len(), &fitted, |left| {
        format!("{left} more schedules do not fit; read one by its name with bunqueue_get_cron.")
    });
    Ok(Crons {
        count: fitted.items.len(),
        crons: fitted.items,
        left_out,
    })
}

/// A tool that takes a schedule and nothing else.
#[derive(Deserialize, JsonSchema)]
struct OneCron {
    #[schemars(length(min = 1))]
    name: String,
}

impl OneCron {
    fn name(&self) -> Arc<str> {
        self.name.as_str().into()
    }
}

async fn get_cron(call: Call, arguments: OneCron) -> Result<CronView, ToolError> {
    let name = arguments.name();
    match call.run(GetCron { name }).await? {
        Some(cron) => Ok(CronView::of(&cron)),
        None => Err(ToolError::CronNotFound {
            name: arguments.name,
        }),
    }
}

#[derive(Serialize, JsonSchema)]
struct CronDeleted {
    #[serde(flatten)]
    found: Found,
    name: String,
}

async fn delete_cron(call: Call, arguments: OneCron) -> Result<CronDeleted, ToolError> {
    let name = arguments.name();
    let deleted = call.run(DeleteCron { name }).await?;
    Ok(CronDeleted {
        found: Found::new(deleted),
        name: arguments.name,
    })
}

async fn delete_cron_impact(call: Call, arguments: OneCron) -> Result<String, ToolError> {
    let name = arguments.name();
    let Some(cron) = call.run(GetCron { name }).await? else {
        return Ok(format!("Schedule {} was not found.", arguments.name));
    };
    let definition = &cron.definition;
    let when = match (&definition.schedule, definition.repeat_every) {
        (Some(schedule), _) => schedule.text().to_string(),
        (None, every) => format!("every {} ms", every.unwrap_or_default()),
    };
    Ok(format!(
        "Schedule {} ({when}, queue {}) will be deleted and never fires again; jobs it has added stay.",
        definition.name, definition.queue,
    ))
}
