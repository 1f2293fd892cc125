//! The reference of errors: every code, every text with its hint, and which of them any tool can answer.
//!
//! Texts and hints come from the error tables; here stands one example of each cause, with `<…>` for what varies.

use std::borrow::Cow;

use crate::command::address::Forbidden;
use crate::command::{ArgumentError, CommandError, ErrorCode, FlowFault, RemoteFault, ReplyFault};
use crate::engine::{
    CRONS_MAX, Config, FailureReason, JobId, Refusal, ScheduleError, TIES_BYTES_MAX, WEBHOOKS_MAX,
    WORKER_BYTES_MAX, WORKERS_MAX,
};
use crate::mcp::{Registry, Rule, ToolError};

/// Codes that do not depend on what a tool does.
const COMMON: [ErrorCode; 5] = [
    ErrorCode::InvalidArguments,
    ErrorCode::NotLoaded,
    ErrorCode::BackendUnavailable,
    ErrorCode::Cancelled,
    ErrorCode::Internal,
];

/// What stands for the name of an argument.
const FIELD: &str = "<field>";
/// What stands for a bound until the text is shown.
const BOUND: i64 = 987_654_321;

/// What a worker's connection itself answers, whatever the command: text, what to do.
const CONNECTION: [(&str, &str); 7] = [
    ("Not authenticated", "Send `Auth` with a token first."),
    (
        "Invalid token",
        "Pass one of the tokens that the operator has set.",
    ),
    (
        "Unknown command: <name>",
        "Check the spelling; this version has no such command.",
    ),
    (
        "Invalid command format",
        "Send one MessagePack map per frame.",
    ),
    (
        "Invalid command",
        "Put the name of the command into `cmd`, as text.",
    ),
    (
        "Rate limit exceeded",
        "Send fewer frames; the operator has set a limit.",
    ),
    (
        "Internal server error",
        "Try once more; if it persists, read the log of the server.",
    ),
];

/// A cause as the reference shows it.
struct Entry {
    code: ErrorCode,
    text: String,
    hint: String,
}

/// The page.
pub(super) fn page(registry: &Registry) -> String {
    let mut text = String::from(
        "# Errors\n\nEvery cause has a text, a code and a hint. The text is the same at both doors; code and hint are for agents.\n\n\
        A tool that was refused answers with `isError` and a text that holds one JSON object: `error` (the text), `code`,\n\
        mostly `hint`, and `issues` with `path`, `message` and `expected` when arguments do not fit. There is no structured\n\
        content then. Such a call has changed nothing, but for batches that report each entry. Tools that answer `success`\n\
        say false, with a `reason`, where the target is missing or its state does not fit.\n\n\
        A command of the worker protocol that was refused is answered with `ok` false and `error`, the text.\n\n\
        ## Common errors\n\nAny tool can answer these:\n\n",
    );
    for code in COMMON {
        text.push_str(&format!(
            "- [`{name}`](#{name}): {}\n",
            code.meaning(),
            name = code.name()
        ));
    }
    text.push_str("\n## Codes\n");
    let entries = entries();
    for code in ErrorCode::ALL {
        text.push_str(&format!("\n### {}\n\n{}\n\n", code.name(), code.meaning()));
        text.push_str(&table(entries.iter().filter(|entry| entry.code == code)));
        let tools: Vec<_> = registry
            .tools()
            .filter(|tool| {
                tool.errors
                    .iter()
                    .any(|cause| cause.describe().code == code)
            })
            .map(|tool| {
                format!(
                    "- [{name}](../tools/{}.md#{name})\n",
                    tool.toolset,
                    name = tool.name
                )
            })
            .collect();
        if !tools.is_empty() {
            text.push_str(&format!(
                "\nTools whose reference names it:\n\n{}",
                tools.concat()
            ));
        }
    }
    text.push_str(
        "\n## Answers of a worker's connection\n\nBeside the texts above; they carry no code.\n\n| text | what to do |\n| --- | --- |\n",
    );
    for (answer, hint) in CONNECTION {
        text.push_str(&format!("| `{answer}` | {hint} |\n"));
    }
    text.push_str(
        "\n## Why a job failed\n\nThe reason of an attempt that failed, and of a job in the dead-letter queue (DLQ).\n\n\
        | reason | means |\n| --- | --- |\n",
    );
    for reason in FailureReason::ALL {
        text.push_str(&format!("| `{}` | {} |\n", reason.name(), reason.meaning()));
    }
    text
}

fn table<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    let rows: Vec<_> = entries
        .map(|entry| {
            format!(
                "| `{}` | {} |\n",
                entry.text,
                entry.hint.replace('|', "\\|")
            )
        })
        .collect();
    if rows.is_empty() {
        return "No operation of this version answers it.\n".into();
    }
    format!("| text | what to do |\n| --- | --- |\n{}", rows.concat())
}

fn entries() -> Vec<Entry> {
    let below = causes().into_iter().map(ToolError::from);
    let own = agent_causes().into_iter();
    let mut entries: Vec<Entry> = Vec::new();
    for error in below.chain(own) {
        let text = error
            .body("<tool>")
            .get("error")
            .and_then(serde_json::Value::as_str)
            .map(placed)
            .unwrap_or_default();
        if entries.iter().all(|entry| entry.text != text) {
            let hint = error
                .hint()
                .map_or_else(|| "Nothing.".to_owned(), Cow::into_owned);
            entries.push(Entry {
                code: error.code(),
                text,
                hint,
            });
        }
    }
    entries.push(Entry {
        code: ErrorCode::InvalidArguments,
        text: "Invalid arguments for <tool>: <argument>: <fault>".into(),
        hint: "Correct each argument that is named; `issues` has them one by one.".into(),
    });
    entries
}

/// The text with placeholders for what varies.
fn placed(text: &str) -> String {
    let bound = if text.contains("at least") {
        "<min>"
    } else {
        "<max>"
    };
    text.replace(&BOUND.to_string(), bound)
        .replace("[0]", "[<i>]")
}

/// One of each cause below the seam.
fn causes() -> Vec<CommandError> {
    let id = || JobId::from_text("<id>");
    let refusals = [
        Refusal::NotFound(id()),
        Refusal::NotActive(id()),
        Refusal::TokenRequired(id()),
        Refusal::TokenInvalid(id()),
        Refusal::JobNotFound(id()),
        Refusal::DependencyNotFound(id()),
        Refusal::SelfDependency(id()),
        Refusal::DependencyCycle,
        Refusal::OwnerNeeded(id()),
        Refusal::ParentNotFound(id()),
        Refusal::ParentNotLinkable(id()),
        Refusal::RepeatRelations(id()),
        Refusal::ParentElsewhere {
            parent: id(),
            queue: "<queue>".into(),
            given: "<given>".into(),
        },
        Refusal::OwnParent,
        Refusal::OwnFlowParent,
        Refusal::ChildNotFound(id()),
        Refusal::ChildOfAnother {
            child: JobId::from_text("<child>"),
            parent: JobId::from_text("<parent>"),
        },
        Refusal::NoParent(id()),
        Refusal::FlowJobExists(id()),
        Refusal::GroupFull {
            group: "<group>".into(),
            max: BOUND as u64,
        },
        Refusal::SettingsFull {
            what: "queues",
            max: Config::default().settings_max,
        },
        Refusal::SettingsFull {
            what: "groups",
            max: Config::default().settings_max,
        },
        Refusal::TiesTooLarge {
            max: TIES_BYTES_MAX,
        },
        Refusal::TooMany {
            what: "crons",
            max: CRONS_MAX,
        },
        Refusal::TooMany {
            what: "webhooks",
            max: WEBHOOKS_MAX,
        },
        Refusal::TooMany {
            what: "workers",
            max: WORKERS_MAX,
        },
        Refusal::TooMany {
            what: "bytes of registered workers",
            max: WORKER_BYTES_MAX,
        },
    ];
    let hosts = Forbidden::ALL.map(ArgumentError::WebhookHost);
    let arguments = argument_causes().into_iter().chain(hosts);
    let entries = [
        CommandError::BatchEntry {
            index: 0,
            error: ArgumentError::JobName,
        },
        CommandError::DurationEntry {
            index: 0,
            error: ArgumentError::NotNumber(FIELD),
        },
        CommandError::BatchRefused {
            index: 0,
            refusal: Refusal::DependencyNotFound(id()),
        },
        CommandError::FlowNode {
            path: "<path>".to_owned(),
            error: ArgumentError::JobName,
        },
        CommandError::JobOption {
            error: ArgumentError::NotNumber(FIELD),
        },
    ];
    let replies = [
        ReplyFault::DlqEntry,
        ReplyFault::DlqAttempt,
        ReplyFault::DlqStats,
        ReplyFault::QueueLimits,
    ];
    let flows = FlowFault::samples().into_iter().map(CommandError::from);
    arguments
        .map(CommandError::from)
        .chain(entries)
        .chain(refusals.map(CommandError::from))
        .chain(flows)
        .chain(replies.map(CommandError::Reply))
        .chain([
            CommandError::ReplyTooLarge,
            CommandError::ShuttingDown,
            RemoteFault::Refused {
                text: "<words of another server>".into(),
                code: ErrorCode::Conflict,
            }
            .into(),
            RemoteFault::NotConnected.into(),
            RemoteFault::Lost.into(),
            RemoteFault::NoAnswer.into(),
            RemoteFault::Busy.into(),
            RemoteFault::TooLarge.into(),
            RemoteFault::Unreadable.into(),
            RemoteFault::Untranslated.into(),
            CommandError::Storage("database or disk is full".into()),
            CommandError::UnsavedFull,
            CommandError::Internal,
        ])
        .collect()
}

/// One of each fault of an argument.
fn argument_causes() -> Vec<ArgumentError> {
    let field = FIELD;
    vec![
        ArgumentError::QueueRequired,
        ArgumentError::QueueTooLong,
        ArgumentError::QueueInvalid,
        ArgumentError::JobName,
        ArgumentError::DataTooLarge,
        ArgumentError::UpdateTooLarge,
        ArgumentError::SizeLimit("<n>".into()),
        ArgumentError::Required(field),
        ArgumentError::NotNumber(field),
        ArgumentError::NotFinite(field),
        ArgumentError::TooSmall { field, min: BOUND },
        ArgumentError::TooLarge { field, max: BOUND },
        ArgumentError::NotText(field),
        ArgumentError::NotTextOrNull(field),
        ArgumentError::EmptyText(field),
        ArgumentError::TextTooLong {
            field,
            max: BOUND as usize,
        },
        ArgumentError::NulInText(field),
        ArgumentError::CustomIdUnicode,
        ArgumentError::NotObject(field),
        ArgumentError::NotPositiveInteger(field),
        ArgumentError::NotList(field),
        ArgumentError::TooMany {
            field,
            max: BOUND as usize,
        },
        ArgumentError::EventTypes,
        ArgumentError::LengthMismatch {
            command: "<command>",
            field,
        },
        ArgumentError::NotInteger(field),
        ArgumentError::NotBetween {
            field,
            min: 0,
            max: BOUND,
        },
        ArgumentError::NotSafeInteger(field),
        ArgumentError::MetricsQueue,
        ArgumentError::MetricsType,
        ArgumentError::WebhookUrlRequired,
        ArgumentError::WebhookUrlTooLong,
        ArgumentError::WebhookUrlInvalid,
        ArgumentError::WebhookScheme,
        ArgumentError::WebhookHost(Forbidden::Localhost),
        ArgumentError::WebhookCredentials,
        ArgumentError::WebhookEvents("<names>".into()),
        ArgumentError::CronTiming,
        ArgumentError::CronInterval,
        ArgumentError::CronExpression(ScheduleError::FieldCount),
        ArgumentError::RepeatTiming,
        ArgumentError::RepeatInterval,
        ArgumentError::RepeatPattern(ScheduleError::Never),
        ArgumentError::NotTimestamp(field),
        ArgumentError::RepeatCustomId,
        ArgumentError::RepeatRelations,
        ArgumentError::TooManyBytes {
            field,
            max: BOUND as usize,
        },
    ]
}

/// One of each cause that only the agent door knows.
fn agent_causes() -> Vec<ToolError> {
    let rules = [
        Rule::LockTtlRequiresOwner,
        Rule::ExtendRequiresTtl,
        Rule::TokenPerJob,
        Rule::CursorOrOffset,
        Rule::CursorOfAnotherListing,
        Rule::TimezoneNeedsSchedule,
        Rule::UnknownTimezone,
    ];
    let mut causes: Vec<_> = rules.into_iter().map(Rule::broken).collect();
    causes.push(ToolError::CronNotFound {
        name: String::new(),
    });
    causes.push(ToolError::FlowNotFound { hint: None });
    causes.push(ToolError::NotEnabled {
        tool: "<tool>",
        toolset: "<toolset>",
    });
    causes.push(ToolError::Payload {
        path: "<argument>".into(),
        message: "<fault of a tagged form, or of depth>".into(),
    });
    causes.push(ToolError::Cancelled);
    causes.push(ToolError::Internal);
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number per kind of fault; a new kind does not compile until it has one here and a sample above.
    fn kind(error: &ArgumentError) -> usize {
        match error {
            ArgumentError::QueueRequired => 0,
            ArgumentError::QueueTooLong => 1,
            ArgumentError::QueueInvalid => 2,
            ArgumentError::JobName => 3,
            ArgumentError::DataTooLarge => 4,
            ArgumentError::UpdateTooLarge => 5,
            ArgumentError::SizeLimit(_) => 6,
            ArgumentError::Required(_) => 7,
            ArgumentError::NotNumber(_) => 8,
            ArgumentError::NotFinite(_) => 9,
            ArgumentError::TooSmall { .. } => 10,
            ArgumentError::TooLarge { .. } => 11,
            ArgumentError::NotText(_) => 12,
            ArgumentError::NotTextOrNull(_) => 13,
            ArgumentError::EmptyText(_) => 14,
            ArgumentError::TextTooLong { .. } => 15,
            ArgumentError::NulInText(_) => 16,
            ArgumentError::CustomIdUnicode => 17,
            ArgumentError::NotObject(_) => 18,
            ArgumentError::NotPositiveInteger(_) => 19,
            ArgumentError::NotList(_) => 20,
            ArgumentError::TooMany { .. } => 21,
            ArgumentError::EventTypes => 22,
            ArgumentError::LengthMismatch { .. } => 23,
            ArgumentError::NotInteger(_) => 24,
            ArgumentError::NotBetween { .. } => 25,
            ArgumentError::NotSafeInteger(_) => 26,
            ArgumentError::MetricsQueue => 27,
            ArgumentError::MetricsType => 28,
            ArgumentError::WebhookUrlRequired => 29,
            ArgumentError::WebhookUrlTooLong => 30,
            ArgumentError::WebhookUrlInvalid => 31,
            ArgumentError::WebhookScheme => 32,
            ArgumentError::WebhookHost(_) => 33,
            ArgumentError::WebhookCredentials => 34,
            ArgumentError::WebhookEvents(_) => 35,
            ArgumentError::CronTiming => 36,
            ArgumentError::CronInterval => 37,
            ArgumentError::CronExpression(_) => 38,
            ArgumentError::RepeatTiming => 39,
            ArgumentError::RepeatInterval => 40,
            ArgumentError::RepeatPattern(_) => 41,
            ArgumentError::NotTimestamp(_) => 42,
            ArgumentError::RepeatCustomId => 43,
            ArgumentError::RepeatRelations => 44,
            ArgumentError::TooManyBytes { .. } => 45,
        }
    }

    #[test]
    fn every_fault_of_an_argument_has_a_sample() {
        let kinds: Vec<_> = argument_causes().iter().map(kind).collect();
        assert_eq!(kinds, (0..46).collect::<Vec<_>>());
    }

    #[test]
    fn every_entry_says_what_to_do() {
        for entry in entries() {
            assert!(
                !entry.text.is_empty() && !entry.hint.is_empty(),
                "{}",
                entry.text
            );
        }
    }
}
