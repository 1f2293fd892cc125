//! Consent and disclosure through the real program, with clients of both lifecycles.

use std::time::Duration;

use serde_json::{Value, json};

use super::http::{DEFAULTS, Session, exchange};
use super::stdio::{Agent, outcome};
use crate::process::{Env, Serve};

const CONFIRM: (&str, &str) = ("BUNQUEUE_MCP_CONFIRM", "destructive");
const DYNAMIC: (&str, &str) = ("BUNQUEUE_MCP_TOOLSETS", "dynamic");
const INLINE: &str = "2026-07-28";
const DRAIN: &str = "bunqueue_drain_queue";

fn add(agent: &mut Agent) {
    agent.ok(
        "bunqueue_add_job",
        &json!({ "queue": "q", "name": "n", "data": {} }),
    );
}

/// Parameters with what a request of the revision without sessions carries.
fn inline(mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": INLINE,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

#[test]
fn a_person_is_asked_one_plain_question() {
    for (answer, removed) in [("accept", Some(1)), ("decline", None), ("cancel", None)] {
        let mut agent = Agent::asked(&[CONFIRM], Some(answer));
        add(&mut agent);
        let drained = agent.call(DRAIN, &json!({ "queue": "q", "confirm": "q" }));
        assert_eq!(
            drained.value.get("removed"),
            removed.map(Value::from).as_ref()
        );
        let [question] = agent.questions.as_slice() else {
            panic!("{:?}", agent.questions);
        };
        assert!(question["message"].as_str().unwrap().contains("1 waiting"));
        let schema = &question["requestedSchema"];
        assert_eq!(
            schema["properties"]["confirm"]["type"], "boolean",
            "{schema}"
        );
        assert_eq!(schema["properties"].as_object().unwrap().len(), 1);
        assert_eq!(schema["required"], json!(["confirm"]));
    }
}

#[test]
fn only_an_accepted_form_with_the_box_ticked_is_a_yes() {
    for reply in [
        json!({ "action": "accept" }),
        json!({ "action": "accept", "content": {} }),
        json!({ "action": "accept", "content": { "confirm": false } }),
        json!({ "action": "accept", "content": { "confirm": "true" } }),
        json!({ "action": "decline", "content": { "confirm": true } }),
    ] {
        let mut agent = Agent::replying(&[CONFIRM], &reply);
        let refused = agent.refused(DRAIN, &json!({ "queue": "q" }));
        assert_eq!(refused["code"], "confirmation_declined", "{reply}");
    }
}

#[test]
fn the_list_shows_how_to_confirm_only_where_it_counts() {
    let arguments = |env: &Env| {
        let mut agent = Agent::start_with(env);
        let listed = agent.result("tools/list", &json!({}))["tools"].take();
        let tools = listed.as_array().unwrap();
        let drain = tools.iter().find(|tool| tool["name"] == DRAIN).unwrap();
        let shown = drain["inputSchema"]["properties"].as_object().unwrap();
        shown.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(arguments(&[]), ["queue", "dryRun"]);
    assert_eq!(arguments(&[CONFIRM]), ["queue", "dryRun", "confirm"]);
    let model = [
        CONFIRM,
        ("BUNQUEUE_MCP_DECISION_PROVIDER", "systemone"),
        ("BUNQUEUE_MCP_DECISION_MODEL", "m"),
        ("BUNQUEUE_MCP_DECISION_URL", "http://127.0.0.1:9"),
    ];
    assert_eq!(
        arguments(&model),
        ["queue", "dryRun", "confirm", "userRequest"]
    );
}

#[test]
fn without_a_session_the_question_and_its_reply_are_two_calls() {
    let mut agent = Agent::silent(&[CONFIRM]);
    let forms = json!({ "elicitation": {} });
    let mut call = |name: &str, arguments: Value, capabilities: &Value, more: Value| {
        let mut params = json!({ "name": name, "arguments": arguments });
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        let answer = agent.request("tools/call", &inline(params, capabilities));
        answer["result"].clone()
    };
    let none = json!({});
    let job = json!({ "queue": "q", "name": "n", "data": {} });
    call("bunqueue_add_job", job, &forms, none.clone());
    let drain = json!({ "queue": "q" });
    let asked = call(DRAIN, drain.clone(), &forms, none.clone());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let request = &asked["inputRequests"]["confirm"];
    assert_eq!(request["method"], "elicitation/create", "{asked}");
    assert!(
        request["params"]["message"]
            .as_str()
            .unwrap()
            .contains("1 waiting")
    );
    let reply = |action: &str, state: &Value| {
        let content = json!({ "confirm": true });
        json!({
            "inputResponses": { "confirm": { "action": action, "content": content } },
            "requestState": state,
        })
    };
    let state = &asked["requestState"];
    // Another call, a seal of nobody, no seal: asked anew, nothing done.
    let mut forged = state.as_str().unwrap().to_owned();
    forged.replace_range(forged.len() - 2.., "AA");
    for (arguments, state) in [
        (json!({ "queue": "other" }), state),
        (drain.clone(), &json!(forged)),
        (drain.clone(), &Value::Null),
    ] {
        let again = call(DRAIN, arguments, &forms, reply("accept", state));
        assert_eq!(again["resultType"], "input_required", "{again}");
    }
    let declined = call(DRAIN, drain.clone(), &forms, reply("decline", state));
    assert_eq!(declined["isError"], true, "{declined}");
    let done = call(DRAIN, drain.clone(), &forms, reply("accept", state));
    assert_eq!(done["structuredContent"]["removed"], 1, "{done}");
    // Who cannot ask gets the words that help.
    let refused = call(DRAIN, drain, &none, none.clone());
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("howToConfirm"), "{text}");
}

#[test]
fn what_one_session_loads_the_other_does_not_have() {
    let serve = Serve::start_with(&[DYNAMIC]);
    let mut one = Session::open(serve.http);
    let mut other = Session::open(serve.http);
    let list = |session: &mut Session| {
        let listed = session.request("tools/list", &json!({}))["result"]["tools"].take();
        listed.as_array().unwrap().len()
    };
    assert_eq!((list(&mut one), list(&mut other)), (2, 2));
    let enable = json!({ "toolsets": ["jobs"] });
    let enabled = one.call("bunqueue_enable_toolsets", &enable);
    let loaded = enabled.value["tools"].as_array().unwrap().len();
    assert_eq!((list(&mut one), list(&mut other)), (2 + loaded, 2));
    let state = json!({ "jobId": "j" });
    assert!(!one.call("bunqueue_get_job_state", &state).is_error);
    let refused = other.call("bunqueue_get_job_state", &state);
    assert_eq!(refused.value["code"], "not_loaded", "{refused:?}");
}

#[test]
fn a_repeated_load_changes_nothing_and_tells_nobody() {
    let mut agent = Agent::start_with(&[DYNAMIC]);
    let enable = json!({ "toolsets": ["jobs"] });
    agent.ok("bunqueue_enable_toolsets", &enable);
    let changed = "notifications/tools/list_changed";
    agent.notice(changed, Duration::from_secs(20));
    agent.ok("bunqueue_enable_toolsets", &enable);
    agent.result("ping", &json!({}));
    assert_eq!(agent.others, Vec::<Value>::new());
}

#[test]
fn without_a_session_every_toolset_is_there_and_the_list_stays() {
    let serve = Serve::start_with(&[DYNAMIC]);
    let request = |method: &str, params: Value| {
        let tool = params["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = DEFAULTS.to_vec();
        headers.extend([("MCP-Protocol-Version", INLINE), ("Mcp-Method", method)]);
        if !tool.is_empty() {
            headers.push(("Mcp-Name", tool.as_str()));
        }
        let params = inline(params, &json!({}));
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = body.to_string();
        let answer = exchange(serve.http, "POST", "/mcp", &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.messages().pop().unwrap()
    };
    let listed = || {
        request("tools/list", json!({}))["result"]["tools"]
            .as_array()
            .unwrap()
            .len()
    };
    let call = |name: &str, arguments: Value| {
        outcome(&request(
            "tools/call",
            json!({ "name": name, "arguments": arguments }),
        ))
    };
    assert_eq!(listed(), 2);
    call("bunqueue_enable_toolsets", json!({ "toolsets": ["jobs"] }));
    assert_eq!(listed(), 2);
    let inner = json!({ "name": "bunqueue_list_queues" });
    let names = call("bunqueue_call_tool", inner);
    assert_eq!(names.value, json!({ "queues": [] }));
}

#[test]
fn the_profile_for_agents_is_dynamic_and_confirms() {
    let mut agent = Agent::start_with(&[("BUNQUEUE_MCP_PROFILE", "agent")]);
    let listed = agent.result("tools/list", &json!({}))["tools"].take();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    agent.ok(
        "bunqueue_enable_toolsets",
        &json!({ "toolsets": ["queues"] }),
    );
    let refused = agent.refused(DRAIN, &json!({ "queue": "q" }));
    assert_eq!(refused["code"], "confirmation_required");
}
