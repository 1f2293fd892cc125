//! Values that must survive, and bytes that must do no harm.

use proptest::prelude::*;

use super::*;

#[test]
fn hard_w2_broken_text_is_refused_where_it_names_something() {
    let broken = &[0xa2, 0xc3, 0x28];
    let push = json!({"cmd": "PUSH", "queue": "q", "name": "n"});
    let cases = [
        (
            json!({"cmd": "PUSH"}),
            "queue",
            "Queue name contains invalid characters",
        ),
        (
            push.clone(),
            "jobId",
            "custom ID must be well-formed Unicode",
        ),
        (push.clone(), "uniqueKey", "uniqueKey must be a string"),
        (json!({"cmd": "GetJob"}), "id", "id must be a string"),
        (json!({"cmd": "Pause"}), "queue", "queue must be a string"),
        (
            json!({"cmd": "FAIL", "id": "x"}),
            "error",
            "error must be a string",
        ),
    ];
    for (frame, key, text) in cases {
        match decode_body(&with_raw(&frame, key, broken)) {
            Action::Refused(error) => assert_eq!(error.to_string(), text),
            action => panic!("{frame} {key}: {action:?}"),
        }
    }
    match decode_body(&with_raw(&push, "data", broken)) {
        Action::Command(Command::Add(add), _) => {
            assert_eq!(add.job.data.unwrap().bytes(), broken);
        }
        action => panic!("{action:?}"),
    }
}

#[test]
fn hard_w1_user_data_is_kept_byte_for_byte() {
    let values: [&[u8]; 6] = [
        &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0],
        &[0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0],
        &[0xcb, 0x80, 0, 0, 0, 0, 0, 0, 0],
        &[0xc7, 12, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        &[0x92, 0xd4, 0, 0, 0xc4, 2, 0, 1],
    ];
    for value in values {
        let push = json!({"cmd": "PUSH", "queue": "q", "name": "n"});
        match decode_body(&with_raw(&push, "data", value)) {
            Action::Command(Command::Add(add), _) => {
                assert_eq!(add.job.data.unwrap().bytes(), value)
            }
            action => panic!("{action:?}"),
        }
        let ack = json!({"cmd": "ACK", "id": "j"});
        match decode_body(&with_raw(&ack, "result", value)) {
            Action::Command(Command::Ack(ack), _) => assert_eq!(ack.result.unwrap().bytes(), value),
            action => panic!("{action:?}"),
        }
    }
}

/// Every command of the protocol (tcp protocol section 1).
const COMMANDS: [&str; 107] = [
    "Auth",
    "Hello",
    "Ping",
    "PUSH",
    "PUSHB",
    "PUSHF",
    "PULL",
    "PULLB",
    "ACK",
    "ACKB",
    "FAIL",
    "ExtendLock",
    "ExtendLocks",
    "JobHeartbeat",
    "JobHeartbeatB",
    "Cancel",
    "Discard",
    "Update",
    "ChangePriority",
    "ChangeDelay",
    "Promote",
    "PromoteJobs",
    "MoveToWait",
    "MoveToDelayed",
    "MoveToWaitingChildren",
    "Progress",
    "GetProgress",
    "AddLog",
    "GetLogs",
    "ClearLogs",
    "GetResult",
    "WaitJob",
    "GetJob",
    "GetJobByCustomId",
    "GetState",
    "GetJobs",
    "GetJobCounts",
    "GetCountsPerPriority",
    "Count",
    "Pause",
    "Resume",
    "IsPaused",
    "Drain",
    "Clean",
    "Obliterate",
    "ListQueues",
    "Dlq",
    "GetDlqStats",
    "RetryDlq",
    "PurgeDlq",
    "RemoveDlqJob",
    "RetryCompleted",
    "SetDlqConfig",
    "GetDlqConfig",
    "SetStallConfig",
    "GetStallConfig",
    "RateLimit",
    "RateLimitClear",
    "SetConcurrency",
    "ClearConcurrency",
    "GetQueueLimits",
    "GetGroupJobsCount",
    "GetGroupsJobsCount",
    "GetGroupActiveCount",
    "SetGroupRateLimit",
    "GetGroupRateLimit",
    "RemoveGroupRateLimit",
    "GetGroupRateLimitTtl",
    "SetGroupConcurrency",
    "GetGroupConcurrency",
    "RemoveGroupConcurrency",
    "PauseGroup",
    "ResumeGroup",
    "IsGroupPaused",
    "RateLimitGroup",
    "GetDeduplicationJobId",
    "RemoveDeduplicationKey",
    "RemoveJobDeduplicationKey",
    "UpdateParent",
    "GetChildrenValues",
    "GetFailedChildrenValues",
    "GetIgnoredChildrenFailures",
    "RemoveChildDependency",
    "RemoveUnprocessedChildren",
    "Cron",
    "CronGet",
    "CronList",
    "CronDelete",
    "RegisterWorker",
    "UnregisterWorker",
    "ListWorkers",
    "Heartbeat",
    "AddWebhook",
    "RemoveWebhook",
    "ListWebhooks",
    "SetWebhookEnabled",
    "SubscribeEvents",
    "UnsubscribeEvents",
    "Stats",
    "Metrics",
    "TrimEvents",
    "Prometheus",
    "StorageStatus",
    "CompactMemory",
    "DashboardOverview",
    "DashboardQueues",
    "DashboardQueue",
];

#[test]
fn every_command_of_the_protocol_is_understood() {
    for cmd in COMMANDS {
        let action = decode(&json!({"cmd": cmd}));
        assert!(!matches!(action, Action::Unknown(_)), "{cmd}");
    }
}

const KEYS: [&str; 26] = [
    "queue",
    "id",
    "ids",
    "token",
    "tokens",
    "jobs",
    "count",
    "timeout",
    "data",
    "progress",
    "backoff",
    "group",
    "state",
    "durations",
    "tags",
    "eventTypes",
    "groupId",
    "limit",
    "config",
    "filter",
    "name",
    "schedule",
    "repeatEvery",
    "jobOptions",
    "events",
    "type",
];

fn any_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(UNDEFINED.to_vec()),
        any::<i64>().prop_map(|value| rmp_serde::to_vec(&value).unwrap()),
        any::<f64>().prop_map(|value| rmp_serde::to_vec(&value).unwrap()),
        any::<bool>().prop_map(|value| rmp_serde::to_vec(&value).unwrap()),
        ".{0,8}".prop_map(|value| rmp_serde::to_vec(&value).unwrap()),
        proptest::collection::vec(any::<u8>(), 0..6).prop_map(|bytes| {
            let mut out = Vec::new();
            Writer::new(&mut out).text_bytes(&bytes);
            out
        }),
        proptest::collection::vec(".{0,3}", 0..4)
            .prop_map(|value| rmp_serde::to_vec(&value).unwrap()),
        Just(bytes(&json!([{"name": "n", "backoff": {"delay": "x"}}, 5]))),
        Just(bytes(&json!({"limit": {"max": 1}, "type": "fixed"}))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(envelope) = Envelope::read(&body) {
            let _ = Decoder::default().decode(&envelope);
        }
    }

    #[test]
    fn commands_with_random_fields_never_panic(
        cmd in proptest::sample::select(&COMMANDS[..]),
        fields in proptest::collection::vec(
            (proptest::sample::select(&KEYS[..]), any_value()), 0..8),
        cut in 0_usize..400,
    ) {
        let mut body = Vec::new();
        let mut writer = Writer::new(&mut body);
        writer.map(fields.len() + 1);
        writer.text("cmd");
        writer.text(cmd);
        for (key, value) in &fields {
            writer.text(key);
            writer.raw(value);
        }
        let envelope = Envelope::read(&body);
        prop_assert!(envelope.is_ok());
        let action = Decoder::default().decode(&envelope.unwrap());
        prop_assert!(!matches!(action, Action::Unknown(_)), "{} is unknown", cmd);
        let cut = &body[..cut.min(body.len() - 1)];
        prop_assert!(Envelope::read(cut).is_err());
    }
}
