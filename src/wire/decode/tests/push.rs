//! Pushes: options, names, faults and their order.

use super::*;
use crate::engine::{Backoff, BackoffKind, Dedup, JobOptions, Repeat, RepeatTiming};

#[test]
fn a_minimal_push_has_the_defaults() {
    let add =
        add(&json!({"cmd": "PUSH", "reqId": "1", "queue": "q", "name": "n", "data": {"x": 1}}));
    assert_eq!(add.queue.as_str(), "q");
    assert_eq!(&*add.job.name, "n");
    assert_eq!(add.job.data, Some(Payload::new(&bytes(&json!({"x": 1})))));
    assert_eq!(add.job.options, None);
    assert_eq!(add.job.custom_id, None);
    assert_eq!(
        (add.job.priority, add.job.delay, add.job.max_attempts),
        (0.0, 0, 3)
    );
}

#[test]
fn every_option_of_a_push_arrives() {
    let add = add(&json!({
        "cmd": "PUSH", "queue": "q", "name": "full", "data": null, "priority": 7, "delay": 60000,
        "maxAttempts": 5, "backoff": {"type": "fixed", "delay": 250, "maxDelay": 500},
        "ttl": 3600000, "timeout": 9000, "uniqueKey": "uk", "jobId": "custom-1",
        "tags": ["t1", "t2"], "lifo": true, "removeOnComplete": 1, "removeOnFail": "yes",
        "durable": true, "stallTimeout": 12000, "stackTraceLimit": 3, "keepLogs": 5,
        "sizeLimit": 1000, "dedup": {"ttl": 5000, "extend": true, "replace": false},
        "debounceId": "deb", "debounceTtl": 700, "failParentOnFailure": true,
        "removeDependencyOnFailure": true, "ignoreDependencyOnFailure": true,
        "continueParentOnFailure": true, "timestamp": 1.7e12, "parentId": "p",
        "dependsOn": [], "childrenIds": null, "groupMaxSize": 4, "somethingElse": 1,
    }));
    let job = add.job;
    assert_eq!(job.data, Some(Payload::new(&[0xc0])));
    assert_eq!(job.custom_id, Some(JobId::from_text("custom-1")));
    assert_eq!(
        (job.priority, job.delay, job.max_attempts),
        (7.0, 60_000, 5)
    );
    assert_eq!(job.timestamp, Some(1_700_000_000_000));
    assert!(job.lifo && job.remove_on_complete && job.remove_on_fail && job.durable);
    let options = job.options.unwrap();
    let expected = JobOptions {
        backoff: Backoff {
            kind: BackoffKind::Fixed,
            delay: 250.0,
            max_delay: Some(500.0),
        },
        ttl: Some(3_600_000.0),
        timeout: Some(9_000.0),
        stall_timeout: Some(12_000.0),
        tags: vec!["t1".into(), "t2".into()],
        unique_key: Some("uk".into()),
        dedup: Dedup {
            ttl: Some(5_000.0),
            extend: true,
            replace: false,
        },
        debounce_id: Some("deb".into()),
        debounce_ttl: Some(700.0),
        stack_trace_limit: 3.0,
        keep_logs: Some(5.0),
        size_limit: Some(1_000.0),
        group_id: None,
        repeat: None,
        parent_id: Some("p".into()),
        blank_custom_id: false,
        fail_parent_on_failure: true,
        remove_dependency_on_failure: true,
        continue_parent_on_failure: true,
        ignore_dependency_on_failure: true,
    };
    assert_eq!(*options, expected);
}

#[test]
fn undefined_and_nil_mean_not_set() {
    let plain = json!({"cmd": "PUSH", "queue": "q", "name": "n", "data": 1});
    let expected = add(&plain);
    let options = [
        "priority",
        "delay",
        "timeout",
        "maxAttempts",
        "backoff",
        "ttl",
        "stallTimeout",
        "timestamp",
        "stackTraceLimit",
        "keepLogs",
        "sizeLimit",
        "groupMaxSize",
        "dedup",
        "debounceId",
        "debounceTtl",
        "uniqueKey",
        "jobId",
        "dependsOn",
        "childrenIds",
        "parentId",
        "tags",
        "lifo",
        "removeOnComplete",
        "removeOnFail",
        "durable",
        "repeat",
        "failParentOnFailure",
        "outcome",
    ];
    for option in options {
        for unset in [UNDEFINED, &[0xc0]] {
            let action = decode_body(&with_raw(&plain, option, unset));
            let shape = Shape::Push { outcome: false };
            let expected = Action::Command(expected.clone().into(), shape);
            assert_eq!(action, expected, "{option} {unset:x?}");
        }
    }
    // Nil is a value for data, and no name.
    let nameless = json!({"cmd": "PUSH", "queue": "q"});
    let Action::Command(Command::Add(add), _) =
        decode_body(&with_raw(&nameless, "data", UNDEFINED))
    else {
        panic!("undefined data is refused");
    };
    assert_eq!((add.job.data, &*add.job.name), (None, "default"));
    assert!(matches!(
        decode_body(&with_raw(&plain, "groupId", UNDEFINED)),
        Action::Command(..)
    ));
    let null_group = json!({"cmd": "PUSH", "queue": "q", "groupId": null});
    assert_eq!(refused(&null_group), "groupId must be a string");
}

#[test]
fn a_repetition_is_read_with_all_its_parts() {
    let repeat = |repeat: Json| {
        let add = add(&json!({"cmd": "PUSH", "queue": "q", "repeat": repeat}));
        let options = add.job.options.expect("options");
        *options.repeat.clone().expect("it repeats")
    };
    let full = repeat(json!({
        "every": 60_000, "limit": 5, "count": 2, "startDate": 1, "endDate": "9e12", "tz": "Europe/Rome",
        "immediately": true, "prevMillis": 7, "offset": -3, "jobId": "r", "unknown": 1, "pattern": null,
    }));
    let expected = Repeat {
        timing: RepeatTiming::Every(60_000.0),
        limit: Some(5.0),
        count: 2.0,
        start_date: Some(1.0),
        end_date: Some(9e12),
        immediately: Some(true),
        prev_millis: Some(7.0),
        offset: Some(-3.0),
        job_id: Some("r".into()),
        tz: Some("Europe/Rome".into()),
    };
    assert_eq!(full, expected);
    let daily = repeat(json!({"pattern": "@daily", "tz": "Europe/Rome"}));
    let RepeatTiming::Pattern(schedule) = daily.timing else {
        panic!("{daily:?}");
    };
    assert_eq!((&**schedule.text(), daily.immediately), ("@daily", None));
    assert_eq!(schedule.zone().map(|zone| &**zone), Some("Europe/Rome"));
}

#[test]
fn a_blank_custom_id_means_none_but_is_shown() {
    let add = add(&json!({"cmd": "PUSH", "queue": "q", "data": {}, "jobId": ""}));
    assert_eq!(add.job.custom_id, None);
    assert!(add.job.options.unwrap().blank_custom_id);
}

#[test]
fn names_come_from_the_command_or_from_the_data() {
    let name_and_data = |frame: &Json| {
        let job = add(frame).job;
        let data = job
            .data
            .map(|data| rmp_serde::from_slice::<Json>(data.bytes()).unwrap());
        (job.name.to_string(), data)
    };
    let cases = [
        (
            json!({"data": {"name": "legacy", "x": 1}}),
            "legacy",
            Some(json!({"x": 1})),
        ),
        (
            json!({"name": "modern", "data": {"name": "mine"}}),
            "modern",
            Some(json!({"name": "mine"})),
        ),
        (json!({"data": {"x": 1}}), "default", Some(json!({"x": 1}))),
        (
            json!({"data": {"name": 5}}),
            "default",
            Some(json!({"name": 5})),
        ),
        (json!({"data": "text"}), "default", Some(json!("text"))),
        (
            json!({"data": [{"name": "n"}]}),
            "default",
            Some(json!([{"name": "n"}])),
        ),
        (json!({}), "default", None),
        (json!({"data": {"name": "only"}}), "only", Some(json!({}))),
    ];
    for (mut frame, name, data) in cases {
        frame["cmd"] = json!("PUSH");
        frame["queue"] = json!("q");
        assert_eq!(name_and_data(&frame), (name.to_owned(), data), "{frame}");
    }
    let bad = "Job name must be a non-empty string of at most 256 characters";
    for name in [
        json!(null),
        json!(""),
        json!(5),
        json!("n".repeat(257)),
        json!({}),
    ] {
        assert_eq!(
            refused(&json!({"cmd": "PUSH", "queue": "q", "name": name})),
            bad
        );
    }
    let legacy = json!({"cmd": "PUSH", "queue": "q", "data": {"name": ""}});
    assert_eq!(refused(&legacy), bad);
}

#[test]
fn faults_of_a_push_have_their_exact_texts() {
    let cases = [
        (json!({"queue": ""}), "Queue name is required"),
        (json!({"queue": null}), "Queue name is required"),
        (
            json!({"queue": 5}),
            "Queue name contains invalid characters",
        ),
        (
            json!({"queue": "has space"}),
            "Queue name contains invalid characters",
        ),
        (
            json!({"queue": "q".repeat(257)}),
            "Queue name too long (max 256 characters)",
        ),
        (json!({"priority": "high"}), "priority must be a number"),
        (json!({"priority": true}), "priority must be a number"),
        (json!({"delay": "soon"}), "delay must be a number"),
        (json!({"timeout": -1}), "timeout must be at least 0"),
        (json!({"ttl": -1}), "ttl must be at least 0"),
        (json!({"backoff": -1}), "backoff must be at least 0"),
        (json!({"backoff": "fast"}), "backoff must be a number"),
        (json!({"backoff": [1]}), "backoff must be a number"),
        (
            json!({"backoff": {"delay": -5}}),
            "backoff.delay must be at least 0",
        ),
        (
            json!({"backoff": {"delay": "x"}}),
            "backoff.delay must be a number",
        ),
        (
            json!({"backoff": {"maxDelay": 86_400_001}}),
            "backoff.maxDelay must be at most 86400000",
        ),
        (
            json!({"maxAttempts": "many"}),
            "maxAttempts must be a number",
        ),
        (
            json!({"stallTimeout": "x"}),
            "stallTimeout must be a number",
        ),
        (
            json!({"timestamp": 1e18}),
            "timestamp must be at most 4320000000000000",
        ),
        (json!({"keepLogs": "x"}), "keepLogs must be a number"),
        (json!({"dedup": {"ttl": "x"}}), "dedup.ttl must be a number"),
        (json!({"debounceTtl": "x"}), "debounceTtl must be a number"),
        (
            json!({"groupMaxSize": 0}),
            "group.maxSize must be a positive safe integer",
        ),
        (
            json!({"groupMaxSize": 1.5}),
            "group.maxSize must be a positive safe integer",
        ),
        (json!({"groupId": ""}), "groupId must be a non-empty string"),
        (json!({"groupId": 5}), "groupId must be a string"),
        (
            json!({"groupId": "g".repeat(257)}),
            "groupId must be at most 256 characters",
        ),
        (
            json!({"groupId": "a\0b"}),
            "groupId must not contain NUL characters",
        ),
        (
            json!({"groupId": "g", "priority": 0.5}),
            "group.priority must be an integer",
        ),
        (
            json!({"groupMaxSize": 0}),
            "group.maxSize must be a positive safe integer",
        ),
        (json!({"dependsOn": "x"}), "dependsOn must be an array"),
        (json!({"childrenIds": 5}), "childrenIds must be an array"),
        (
            json!({"repeat": {"every": 0}, "name": ""}),
            "repeat.every must be a positive finite number",
        ),
        (json!({"uniqueKey": 5}), "uniqueKey must be a string"),
        (json!({"jobId": 5}), "jobId must be a string"),
        (json!({"tags": "t"}), "tags must be an array"),
        (json!({"tags": [1]}), "tags must be a string"),
        (
            json!({"sizeLimit": 3, "data": "long"}),
            "Job data exceeds sizeLimit of 3 bytes",
        ),
    ];
    for (fields, text) in cases {
        let mut frame = json!({"cmd": "PUSH", "queue": "q", "name": "n", "data": {}});
        frame
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        assert_eq!(refused(&frame), text, "{fields}");
    }
}

#[test]
fn the_first_fault_answers() {
    let large = "x".repeat(10_485_761);
    let cases = [
        (
            json!({"queue": "", "data": large, "delay": "x"}),
            "Queue name is required",
        ),
        (
            json!({"queue": "q", "data": large, "groupId": "", "delay": "x"}),
            "Job data too large (max 10MB)",
        ),
        (
            json!({"queue": "q", "groupId": "", "delay": "x", "name": ""}),
            "groupId must be a non-empty string",
        ),
        (
            json!({"queue": "q", "delay": "x", "dependsOn": ["d"], "name": ""}),
            "delay must be a number",
        ),
        // Whatever order they were sent in, what is no text or list comes after the numbers, and before the name.
        (
            json!({"queue": "q", "dependsOn": 5, "priority": "x"}),
            "priority must be a number",
        ),
        (
            json!({"queue": "q", "repeat": 5, "parentId": [], "backoff": "x"}),
            "backoff must be a number",
        ),
        (
            json!({"queue": "q", "tags": "t", "uniqueKey": "u".repeat(1_025), "debounceTtl": "x"}),
            "debounceTtl must be a number",
        ),
        (
            json!({"queue": "q", "dependsOn": "d", "name": ""}),
            "dependsOn must be an array",
        ),
    ];
    for (mut frame, text) in cases {
        frame["cmd"] = json!("PUSH");
        assert_eq!(refused(&frame), text);
    }
    // An entry of a batch looks at its name first.
    let entry = json!({"name": "", "data": large, "groupId": "", "delay": "x"});
    let frame = json!({"cmd": "PUSHB", "queue": "q", "jobs": [{}, entry]});
    let text = "jobs[1]: Job name must be a non-empty string of at most 256 characters";
    assert_eq!(refused(&frame), text);
}

#[test]
fn jm_12_a_batch_names_the_entry_at_fault() {
    let batch = |jobs: Json| json!({"cmd": "PUSHB", "queue": "q", "jobs": jobs});
    let cases = [
        (
            json!([{"data": {}}, {"timeout": -1}]),
            "jobs[1]: timeout must be at least 0",
        ),
        (
            json!([{}, {"groupId": ""}]),
            "jobs[1]: groupId must be a non-empty string",
        ),
        (
            json!([{"dependsOn": "x"}]),
            "jobs[0]: dependsOn must be an array",
        ),
        (
            json!([{"repeat": {"every": 0}}]),
            "jobs[0]: repeat.every must be a positive finite number",
        ),
        // What a repetition means is found later than any other fault, and told without the place.
        (
            json!([{}, {"repeat": {}}, {"repeat": {"every": 1}, "customId": "c"}]),
            "repeat requires exactly one of every or pattern",
        ),
        (
            json!([{"repeat": {}}, {"timeout": -1}]),
            "jobs[1]: timeout must be at least 0",
        ),
        (json!([{}, {}, 5]), "jobs[2]: job must be an object"),
        (json!("nope"), "jobs must be an array"),
        (json!(null), "jobs must be an array"),
    ];
    for (jobs, text) in cases {
        assert_eq!(refused(&batch(jobs)), text);
    }
    let empty = AddMany {
        queue: QueueName::lenient("q"),
        jobs: Vec::new(),
    };
    let shape = Shape::PushMany { outcome: false };
    assert_eq!(command(&batch(json!([]))), (empty.into(), shape));
}

#[test]
fn entries_of_a_batch_have_their_own_key_for_ids() {
    let frame = json!({"cmd": "PUSHB", "queue": "q", "outcome": true, "jobs": [
        {"data": {"name": "b1", "y": 2}, "customId": "c", "removeOnComplete": false},
        {"name": "b2", "data": {"name": "keep"}, "jobId": "ignored"},
    ]});
    let (command, shape) = command(&frame);
    let Command::AddMany(batch) = command else {
        panic!("{command:?}");
    };
    assert_eq!(shape, Shape::PushMany { outcome: true });
    let ids: Vec<_> = batch.jobs.iter().map(|job| job.custom_id.clone()).collect();
    assert_eq!(ids, [Some(JobId::from_text("c")), None]);
    let names: Vec<_> = batch.jobs.iter().map(|job| &*job.name).collect();
    assert_eq!(names, ["b1", "b2"]);
}

#[test]
fn a_batch_of_a_million_and_one_is_refused() {
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body);
    writer.map(3);
    writer.text("cmd");
    writer.text("PUSHB");
    writer.text("queue");
    writer.text("q");
    writer.text("jobs");
    writer.array(1_000_001);
    body.resize(body.len() + 1_000_001, 0x80);
    assert_eq!(
        decode_body(&body),
        Action::Refused(
            ArgumentError::TooMany {
                field: "jobs",
                max: 1_000_000
            }
            .into()
        )
    );
}

#[test]
fn ties_to_other_jobs_arrive() {
    let add = add(&json!({
        "cmd": "PUSH", "queue": "q", "dependsOn": ["a", "b", "a"], "childrenIds": ["a"], "parentId": "p",
        "data": {"__parentId": "p", "__parentQueue": "pq"},
    }));
    let links = add.job.links.unwrap();
    let ids = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| JobId::from_text(text))
            .collect::<Vec<_>>()
    };
    assert_eq!(links.depends_on, ids(&["a", "b"]));
    assert_eq!(links.children, ids(&["a"]));
    let parent = links.parent.unwrap();
    assert_eq!((parent.id, &*parent.queue), (JobId::from_text("p"), "pq"));
    assert_eq!(add.job.options, None);
}

#[test]
fn a_parent_that_the_data_does_not_name_is_only_stored() {
    for data in [
        json!({}),
        json!({"__parentId": "other", "__parentQueue": "q"}),
        json!({"__parentId": "p"}),
    ] {
        let add = add(&json!({"cmd": "PUSH", "queue": "q", "parentId": "p", "data": data}));
        assert_eq!(add.job.links, None);
        assert_eq!(add.job.options.unwrap().parent_id.as_deref(), Some("p"));
    }
}

#[test]
fn id_5_an_id_with_half_a_surrogate_pair_is_refused() {
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body);
    writer.map(3);
    writer.text("cmd");
    writer.text("PUSH");
    writer.text("queue");
    writer.text("q");
    writer.text("jobId");
    // U+D800 in the form that encoders without a check give it.
    writer.text_bytes(&[0xed, 0xa0, 0x80]);
    let Action::Refused(error) = decode_body(&body) else {
        panic!("the id is taken");
    };
    assert_eq!(error.to_string(), "custom ID must be well-formed Unicode");
}

#[test]
fn jobs_that_are_called_alike_share_the_text() {
    let mut decoder = Decoder::default();
    let mut name = |frame: Json| match decoder.decode(&Envelope::read(&bytes(&frame)).unwrap()) {
        Action::Command(Command::Add(add), _) => add.job.name,
        action => panic!("{action:?}"),
    };
    let named = |name: &str| json!({"cmd": "PUSH", "queue": "q", "name": name});
    let (first, again) = (name(named("send")), name(named("send")));
    assert!(std::sync::Arc::ptr_eq(&first, &again));
    assert_eq!(&*name(named("other")), "other");
    assert_eq!(&*name(json!({"cmd": "PUSH", "queue": "q"})), "default");
}
