//! Hard cases A1 to A4 over every tool: types are lenient, keys are strict.

use serde_json::{Map, Value, json};

use super::{dispatcher, failure, members, registry, success};
use crate::mcp::arguments::{Issue, check};
use crate::mcp::example;
use crate::mcp::schema::{Form, UNLISTED};

/// A value that a parameter takes as it is.
fn sample(schema: &Value) -> Value {
    match schema["type"].as_str().unwrap() {
        "integer" => {
            let min = schema.get("minimum").and_then(Value::as_i64).unwrap_or(-3);
            json!(min.max(-3) + 2)
        }
        "number" => json!(12.5),
        "boolean" => json!(true),
        "array" => json!([sample(&schema["items"])]),
        "object" if schema.get("properties").is_some() => Value::Object(samples(schema)),
        "object" => json!({ "k": "5", "{}": null }),
        _ => schema
            .get("enum")
            .map_or_else(|| json!("7"), |values| values[0].clone()),
    }
}

/// A value for every member of an object.
fn samples(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object().unwrap();
    properties
        .iter()
        .map(|(name, member)| (name.clone(), sample(member)))
        .collect()
}

/// The same value as a careless client sends it.
fn careless(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.to_string()),
        Value::Bool(_) => json!(value.to_string()),
        Value::Array(items) => {
            let items: Vec<_> = items
                .iter()
                .map(|item| careless(&schema["items"], item))
                .collect();
            json!(Value::from(items).to_string())
        }
        Value::Object(given) => {
            let Some(properties) = schema.get("properties") else {
                return json!(value.to_string());
            };
            let sent: Map<_, _> = given
                .iter()
                .map(|(name, value)| (name.clone(), careless(&properties[name], value)))
                .collect();
            json!(Value::Object(sent).to_string())
        }
        Value::String(text) if is_id(schema) => {
            json!(text.parse::<i64>().unwrap())
        }
        other => other.clone(),
    }
}

fn is_id(schema: &Value) -> bool {
    matches!(Form::of(schema), Some(Form::Id | Form::FlowId))
}

fn faults(schema: &Value, given: Map<String, Value>) -> Vec<Issue> {
    check(schema, given).err().unwrap_or_default()
}

#[test]
fn hard_a1_a2_every_value_is_taken_in_every_form_that_means_it() {
    for tool in registry().tools() {
        let plain = samples(&tool.input);
        assert_eq!(
            check(&tool.input, plain.clone()),
            Ok(plain.clone()),
            "{}",
            tool.name
        );
        for (name, value) in &plain {
            let member = &tool.input["properties"][name];
            let mut sent = plain.clone();
            sent.insert(name.clone(), careless(member, value));
            assert_eq!(
                check(&tool.input, sent),
                Ok(plain.clone()),
                "{name} of {}",
                tool.name
            );
            if member["type"] == "integer" {
                let mut sent = plain.clone();
                sent.insert(name.clone(), json!(value.as_f64().unwrap()));
                assert_eq!(
                    check(&tool.input, sent),
                    Ok(plain.clone()),
                    "{name} of {}",
                    tool.name
                );
            }
        }
    }
}

#[test]
fn hard_a1_text_that_is_no_such_value_names_the_parameter_and_what_it_takes() {
    for tool in registry().tools() {
        let plain = samples(&tool.input);
        for (name, member) in tool.input["properties"].as_object().unwrap() {
            let wrong: &[Value] = match member["type"].as_str().unwrap() {
                // An id that is only looked up has no shortest length.
                "string" if is_id(member) && member["minLength"].is_null() => {
                    &[json!(1.5), json!(true), json!({})]
                }
                "string" if is_id(member) => &[json!(1.5), json!(true), json!({}), json!("")],
                "string" => &[json!(5), json!(false), json!([])],
                "object" if Form::of(member) == Some(Form::Any) => continue,
                "object" => &[
                    json!("text"),
                    json!(true),
                    json!([]),
                    json!("[]"),
                    json!(""),
                ],
                "array" => &[json!("text"), json!({}), json!(1), json!("{}")],
                "boolean" => &[json!("yes"), json!(1), json!("")],
                _ => &[
                    json!("five"),
                    json!(" "),
                    json!(""),
                    json!("0x10"),
                    json!("1 2"),
                    json!(true),
                    json!([1]),
                ],
            };
            for value in wrong {
                let mut sent = plain.clone();
                sent.insert(name.clone(), value.clone());
                let issues = faults(&tool.input, sent);
                let [issue] = issues.as_slice() else {
                    panic!("{name} of {} as {value}: {issues:?}", tool.name)
                };
                // In the text of one parameter of an object or list its inner fault is named.
                assert!(issue.path.starts_with(name.as_str()), "{issue:?}");
                assert!(
                    issue.expected.is_some() && !issue.message.is_empty(),
                    "{issue:?}"
                );
            }
        }
    }
}

#[test]
fn text_parameters_stay_text_even_when_they_look_like_json() {
    for tool in registry().tools() {
        for (name, member) in tool.input["properties"].as_object().unwrap() {
            let is_free_text = member["type"] == "string"
                && member.get("enum").is_none()
                && !matches!(Form::of(member), Some(Form::Queue | Form::FlowQueue));
            if is_free_text {
                for text in ["{\"a\":1}", "[1]", "5", "true", "null"] {
                    let mut sent = samples(&tool.input);
                    sent.insert(name.clone(), json!(text));
                    assert_eq!(
                        check(&tool.input, sent.clone()),
                        Ok(sent),
                        "{name} of {}",
                        tool.name
                    );
                }
            }
        }
    }
}

#[test]
fn hard_a3_null_is_absent_where_that_is_allowed() {
    for tool in registry().tools() {
        let full = samples(&tool.input);
        let required: Vec<_> = tool
            .input
            .get("required")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let is_required = |name: &str| required.contains(&json!(name));
        let least: Map<_, _> = full
            .iter()
            .filter(|(name, _)| is_required(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut all_null = full.clone();
        for (name, value) in &mut all_null {
            let mut sent = full.clone();
            sent.insert(name.clone(), Value::Null);
            if is_required(name) {
                let [issue] = faults(&tool.input, sent).try_into().unwrap();
                assert_eq!(&issue.path, name, "{}", tool.name);
            } else {
                *value = Value::Null;
                let mut without = full.clone();
                without.shift_remove(name);
                assert_eq!(
                    check(&tool.input, sent),
                    Ok(without),
                    "{name} of {}",
                    tool.name
                );
            }
        }
        assert_eq!(check(&tool.input, all_null), Ok(least), "{}", tool.name);
    }
}

#[test]
fn every_missing_argument_is_reported_at_once() {
    for tool in registry().tools() {
        let required = tool
            .input
            .get("required")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let missing: Vec<_> = faults(&tool.input, Map::new())
            .into_iter()
            .map(|issue| json!(issue.path))
            .collect();
        assert_eq!(missing, required, "{}", tool.name);
    }
}

/// Every object with declared members in a schema, with the path to it.
fn strict_objects(schema: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        found.push(path.to_owned());
        for (name, member) in properties {
            strict_objects(member, &format!("{path}/{name}"), found);
        }
    }
    if let Some(items) = schema.get("items") {
        strict_objects(items, &format!("{path}/0"), found);
    }
}

#[test]
fn hard_a4_a_misspelt_key_is_refused_with_the_nearest_name_at_every_level() {
    for tool in registry().tools() {
        let mut places = Vec::new();
        strict_objects(&tool.input, "", &mut places);
        for place in places {
            let full = Value::Object(samples(&tool.input));
            let names: Vec<String> = full
                .pointer(&place)
                .unwrap()
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect();
            for name in names {
                let misspelt = format!("{name}x");
                let mut sent = full.clone();
                sent.pointer_mut(&place).unwrap()[&misspelt] = json!(1);
                let [issue] = faults(&tool.input, members(sent)).try_into().unwrap();
                assert!(issue.path.ends_with(&misspelt), "{}: {issue:?}", tool.name);
                assert_eq!(
                    issue.message,
                    format!("unknown argument, did you mean {name}?"),
                    "{}",
                    tool.name
                );
            }
        }
    }
}

#[test]
fn an_unknown_key_unlike_any_other_lists_what_the_tool_takes() {
    for tool in registry().tools() {
        let mut sent = samples(&tool.input);
        sent.insert("zzz".into(), json!(1));
        let [issue] = faults(&tool.input, sent).try_into().unwrap();
        let listed = tool.input["properties"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, member)| member.get(UNLISTED).is_none());
        let names: Vec<_> = listed.map(|(name, _)| name.as_str()).collect();
        let names = if names.is_empty() {
            "no arguments".to_owned()
        } else {
            names.join(", ")
        };
        assert_eq!(
            issue.message,
            format!("unknown argument, this tool takes {names}")
        );
    }
}

#[test]
fn hard_a4_guard_arguments_are_known_to_guarded_tools_only() {
    for tool in registry().tools() {
        let is_guarded = tool.policy.confirm.is_some();
        for name in ["confirm", "userRequest", "dryRun"] {
            let mut sent = samples(&tool.input);
            sent.insert(name.into(), json!("true"));
            assert_eq!(
                check(&tool.input, sent).is_ok(),
                is_guarded,
                "{name} of {}",
                tool.name
            );
        }
        let published = &tool.listed.input_schema["properties"];
        assert_eq!(
            published.get("dryRun").is_some(),
            is_guarded,
            "{}",
            tool.name
        );
        assert!(
            published.get("confirm").is_none() && published.get("userRequest").is_none(),
            "{}",
            tool.name
        );
    }
}

#[test]
fn hard_a4_a_refused_call_changes_nothing() {
    let dispatcher = dispatcher(example::world());
    let counts = |queue| {
        success(
            &dispatcher,
            "bunqueue_get_job_counts",
            json!({ "queue": queue }),
        )
    };
    let before = (counts("email"), counts("reports"));
    for (tool, arguments, nearest) in [
        (
            "bunqueue_clean_queue",
            json!({ "queue": "email", "graceMs": 0, "stat": "failed" }),
            "state",
        ),
        (
            "bunqueue_clean_queue",
            json!({ "queue": "email", "graceMs": 0, "Limit": 1 }),
            "limit",
        ),
        (
            "bunqueue_drain_queue",
            json!({ "queue": "email", "dry_run": true }),
            "dryRun",
        ),
        (
            "bunqueue_obliterate_queue",
            json!({ "queue": "reports", "dryrun": true }),
            "dryRun",
        ),
        (
            "bunqueue_cancel_job",
            json!({ "jobId": "welcome-1", "confirmed": "welcome-1" }),
            "confirm",
        ),
        (
            "bunqueue_clear_job_logs",
            json!({ "jobId": "bounce-1", "keep": 1 }),
            "keepLogs",
        ),
        (
            "bunqueue_retry_dlq",
            json!({ "queue": "email", "jobid": "bounce-1" }),
            "jobId",
        ),
        (
            "bunqueue_purge_dlq",
            json!({ "queue": "email", "dryrun": true }),
            "dryRun",
        ),
        (
            "bunqueue_retry_completed",
            json!({ "queue": "email", "jobIds": "invite-1" }),
            "jobId",
        ),
    ] {
        let body = failure(&dispatcher, tool, arguments);
        assert_eq!(body["code"], "invalid_arguments");
        assert!(
            body["error"]
                .as_str()
                .unwrap()
                .contains(&format!("did you mean {nearest}?")),
            "{body}"
        );
    }
    assert_eq!((counts("email"), counts("reports")), before);
    let logs = success(
        &dispatcher,
        "bunqueue_get_job_logs",
        json!({ "jobId": "bounce-1" }),
    );
    assert_eq!(logs["count"], 1);
}

#[test]
fn values_inside_free_form_parameters_are_never_converted() {
    let dispatcher = dispatcher(example::world());
    let data = json!({ "n": "5", "b": "true", "o": "{\"a\":1}", "nil": null, "f": 5.0, "deep": { "anyKey": [1, "2"] } });
    success(
        &dispatcher,
        "bunqueue_add_job",
        json!({ "queue": "email", "name": "n", "data": data, "jobId": "d" }),
    );
    let job = success(&dispatcher, "bunqueue_get_job", json!({ "jobId": "d" }));
    assert_eq!(job["data"].to_string(), data.to_string());
}

#[test]
fn hard_a5_values_without_a_json_form_pass_through_an_agent() {
    let dispatcher = dispatcher(example::world());
    let data = json!({
        "big": { "$int": "9007199254740993" },
        "bytes": { "$bytes": "AAEC/w==" },
        "nan": { "$float": "NaN" },
        "time": { "$ext": { "type": -1, "data": "AAAAAA==" } },
    });
    success(
        &dispatcher,
        "bunqueue_update_job_data",
        json!({ "jobId": "welcome-1", "data": data }),
    );
    let pulled = success(
        &dispatcher,
        "bunqueue_pull_job",
        json!({ "queue": "email" }),
    );
    assert_eq!(pulled["job"]["data"], data);
    let ack = json!({ "jobId": "welcome-1", "result": { "$int": "-9223372036854775808" } });
    success(&dispatcher, "bunqueue_ack_job", ack);
    let result = success(
        &dispatcher,
        "bunqueue_get_job_result",
        json!({ "jobId": "welcome-1" }),
    );
    assert_eq!(result["result"], json!({ "$int": "-9223372036854775808" }));
    let bad = json!({ "queue": "email", "name": "n", "data": { "list": [{ "$int": "x" }] } });
    let body = failure(&dispatcher, "bunqueue_add_job", bad);
    assert_eq!(body["issues"][0]["path"], "data.list[0]");
    assert_eq!(body["code"], "invalid_arguments");
}

#[test]
fn a_result_may_be_any_value() {
    for (sent, kept) in [
        (json!("done"), json!("done")),
        (json!("[1]"), json!([1])),
        (json!("{\"a\":1}"), json!({ "a": 1 })),
        (json!("5"), json!("5")),
        (json!("{broken"), json!("{broken")),
        (json!(42), json!(42)),
        (json!(false), json!(false)),
    ] {
        let dispatcher = dispatcher(example::world());
        success(
            &dispatcher,
            "bunqueue_pull_job",
            json!({ "queue": "email" }),
        );
        success(
            &dispatcher,
            "bunqueue_ack_job",
            json!({ "jobId": "welcome-1", "result": sent }),
        );
        let result = success(
            &dispatcher,
            "bunqueue_get_job_result",
            json!({ "jobId": "welcome-1" }),
        );
        assert_eq!(result["result"], kept);
    }
}

#[test]
fn milliseconds_lose_their_fraction_and_other_integers_must_have_none() {
    let registry = registry();
    let input = &registry.tool("bunqueue_add_job").unwrap().input;
    let with = |key: &str, value: Value| {
        members(json!({ "queue": "q", "name": "n", "data": {}, key: value }))
    };
    for (sent, kept) in [
        (json!(1.9), 1),
        (json!("1.9"), 1),
        (json!(-1.5), -2),
        (json!("1e3"), 1_000),
    ] {
        assert_eq!(
            check(input, with("delay", sent)).unwrap()["delay"],
            json!(kept)
        );
    }
    assert_eq!(faults(input, with("priority", json!(1.5))).len(), 1);
    assert_eq!(faults(input, with("attempts", json!(1e300))).len(), 1);
    let least = json!(i64::MIN.to_string());
    assert_eq!(faults(input, with("priority", least)).len(), 1);
}

#[test]
fn faults_of_a_call_are_bounded_in_number_and_size() {
    let dispatcher = dispatcher(example::world());
    let jobs: Vec<_> = (0..5_000)
        .map(|_| json!({ "name": "", "data": "x".repeat(500) }))
        .collect();
    let body = failure(
        &dispatcher,
        "bunqueue_add_jobs_bulk",
        json!({ "queue": "email", "jobs": jobs }),
    );
    assert_eq!(body["issues"].as_array().unwrap().len(), 20);
    assert!(
        body["error"].as_str().unwrap().ends_with("and 9980 more"),
        "{}",
        body["error"]
    );
    assert!(body.to_string().len() < 10_000);
}

#[test]
fn reasons_say_what_is_wrong_with_the_very_value() {
    let registry = registry();
    let told = |tool: &str, arguments: Value| {
        let issues = faults(&registry.tool(tool).unwrap().input, members(arguments));
        issues
            .first()
            .map(|issue| format!("{}: {}", issue.path, issue.message))
            .unwrap_or_default()
    };
    for (tool, arguments, text) in [
        (
            "bunqueue_change_delay",
            json!({ "jobId": 12_345_678_901_234_567_890_u64, "delay": 1 }),
            "pass it in quotes",
        ),
        (
            "bunqueue_clean_queue",
            json!({ "queue": "q", "graceMs": 1e18 }),
            "within ±9007199254740991",
        ),
        (
            "bunqueue_add_job",
            json!({ "queue": "q", "name": "n", "data": {}, "delay": -1e300 }),
            "within ±9007199254740991",
        ),
        (
            "bunqueue_list_queues",
            json!({ "": 1 }),
            "\"\": unknown argument",
        ),
        (
            "bunqueue_drain_queue",
            json!({ "queue": "q", "dryRun": " true " }),
            "",
        ),
    ] {
        let reason = told(tool, arguments);
        assert!(reason.contains(text), "{reason}");
        assert_eq!(reason.is_empty(), text.is_empty(), "{reason}");
    }
}
