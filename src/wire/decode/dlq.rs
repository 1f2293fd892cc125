//! Dead letters, reruns and policies per queue (tcp protocol section 15). Settings are brought into their bounds rather
//! than refused; see [`crate::command::recovery`].

use super::{Decoded, ask};
use crate::command::given::Number;
use crate::command::payload::Value;
use crate::command::recovery::{
    AgeDraft, DlqConfigDraft, DlqFilterDraft, RetryCompletedDraft, RetryDlqDraft, StallConfigDraft,
};
use crate::command::{
    ArgumentError, GetDlq, GetDlqConfig, GetDlqStats, GetStallConfig, PurgeDlq, RemoveDlqJob,
    RetryCompleted, RetryDlq, SetDlqConfig, SetStallConfig,
};
use crate::wire::fields::{Fields, set_value};
use crate::wire::shape::{Dlq, Shape};

pub(super) fn by_name(name: &[u8], fields: &Fields<'_>) -> Option<Decoded> {
    Some(match name {
        b"Dlq" => list(fields),
        b"GetDlqStats" => stats(fields),
        b"RetryDlq" => retry(fields),
        b"PurgeDlq" => purge(fields),
        b"RemoveDlqJob" => remove(fields),
        b"RetryCompleted" => retry_completed(fields),
        b"SetDlqConfig" => set_config(fields),
        b"GetDlqConfig" => config(fields),
        b"SetStallConfig" => set_stall_config(fields),
        b"GetStallConfig" => stall_config(fields),
        _ => return None,
    })
}

fn list(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let mut filter = match filter(fields)? {
        Some(filter) => filter.check()?,
        None => DlqFilterDraft::default().check()?,
    };
    if let Some(count) = fields.number("count").count("count")? {
        filter.limit = Some(filter.limit.map_or(count, |limit| limit.min(count)));
    }
    ask(GetDlq { queue, filter }, Shape::Dlq(Dlq::List))
}

fn filter<'a>(fields: &Fields<'a>) -> Result<Option<DlqFilterDraft<'a>>, ArgumentError> {
    let Some(filter) = fields.object("filter")? else {
        return Ok(None);
    };
    Ok(Some(DlqFilterDraft {
        reason: filter.text("reason")?,
        older_than: filter.number("olderThan"),
        newer_than: filter.number("newerThan"),
        retriable: filter.truthy("retriable"),
        expired: filter.truthy("expired"),
        after: None,
        offset: filter.number("offset"),
        limit: filter.number("limit"),
    }))
}

fn stats(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(GetDlqStats { queue }, Shape::Dlq(Dlq::Stats))
}

fn retry(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let draft = RetryDlqDraft {
        job_id: fields.text("jobId")?,
        count: fields.number("count"),
        filter: filter(fields)?,
    };
    let selection = draft.check()?;
    ask(RetryDlq { queue, selection }, Shape::Counted)
}

fn purge(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(PurgeDlq { queue }, Shape::Counted)
}

fn remove(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let id = fields.id("jobId")?;
    ask(RemoveDlqJob { queue, id }, Shape::Removed)
}

fn retry_completed(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let draft = RetryCompletedDraft {
        id: fields.text("id")?,
        count: fields.number("count"),
        timestamp: fields.number("timestamp"),
    };
    let selection = draft.check()?;
    ask(RetryCompleted { queue, selection }, Shape::Counted)
}

fn set_config(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let config = config_of(fields)?;
    let max_age = match config.raw("maxAge") {
        Some(age) if set_value(age).is_none() => AgeDraft::Never,
        Some(_) => AgeDraft::Given(config.number_or_text("maxAge")),
        None => AgeDraft::Given(Number::Absent),
    };
    let draft = DlqConfigDraft {
        auto_retry: boolean(&config, "autoRetry"),
        auto_retry_interval: config.number_or_text("autoRetryInterval"),
        max_auto_retries: config.number_or_text("maxAutoRetries"),
        max_age,
        max_entries: config.number_or_text("maxEntries"),
    };
    let update = draft.normalised();
    ask(SetDlqConfig { queue, update }, Shape::Done)
}

fn config(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(GetDlqConfig { queue }, Shape::Dlq(Dlq::Config))
}

fn set_stall_config(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    let config = config_of(fields)?;
    let draft = StallConfigDraft {
        enabled: boolean(&config, "enabled"),
        stall_interval: config.number_or_text("stallInterval"),
        max_stalls: config.number_or_text("maxStalls"),
        grace_period: config.number_or_text("gracePeriod"),
    };
    let update = draft.normalised();
    ask(SetStallConfig { queue, update }, Shape::Done)
}

fn stall_config(fields: &Fields<'_>) -> Decoded {
    let queue = fields.any_queue()?;
    ask(GetStallConfig { queue }, Shape::Dlq(Dlq::StallConfig))
}

fn config_of<'a>(fields: &Fields<'a>) -> Result<Fields<'a>, ArgumentError> {
    fields
        .object("config")?
        .ok_or(ArgumentError::Required("config"))
}

fn boolean(fields: &Fields<'_>, name: &str) -> Option<bool> {
    match fields.value(name) {
        Some(Value::Bool(value)) => Some(value),
        _ => None,
    }
}
