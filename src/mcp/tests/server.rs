//! The handler behind the line transport: what a client sees of identity, list, calls, progress and cancellation.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::registry;
use super::validator::assert_fits;
use crate::broker::{Broker, LocalBroker};
use crate::engine::{Config, Durability};
use crate::mcp::ServerInfo;
use crate::mcp::dispatch::Dispatcher;
use crate::mcp::handler::AgentHandler;
use crate::mcp::registry::Registry;
use crate::mcp::stdio::serve_stdio;

const PATIENCE: Duration = Duration::from_secs(20);

struct Client {
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    served: JoinHandle<std::io::Result<()>>,
    next: i64,
}

impl Client {
    async fn connect(toolsets: Option<&str>) -> Self {
        Self::open(toolsets, &json!({})).await
    }

    async fn open(toolsets: Option<&str>, capabilities: &Value) -> Self {
        let registry = Arc::new(Registry::new().unwrap());
        let selection = registry.select(toolsets.map(|ids| ("", ids))).unwrap();
        let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
        let shutdown = CancellationToken::new();
        let handler = AgentHandler::new(Dispatcher::new(
            registry,
            selection,
            broker,
            shutdown.clone(),
        ))
        .unwrap();
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        let served = tokio::spawn(serve_stdio(handler, input, output, shutdown));
        let (output, input) = tokio::io::split(ours);
        let mut client = Self {
            input,
            output: BufReader::new(output),
            served,
            next: 1,
        };
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" } });
        let answer = client.request("initialize", hello).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "bunqueue-mcp");
        client
            .send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        client
    }

    async fn send(&mut self, message: Value) {
        self.input
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    /// Sends a request and tells its id.
    async fn begin(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        id
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        tokio::time::timeout(PATIENCE, read)
            .await
            .expect("no message")
            .unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }
}

#[tokio::test]
async fn the_server_says_who_it_is_and_only_what_it_can() {
    let registry = Arc::new(Registry::new().unwrap());
    let selection = registry.everything();
    let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
    let handler = AgentHandler::new(Dispatcher::new(
        registry,
        selection,
        broker,
        CancellationToken::new(),
    ))
    .unwrap();
    let info = serde_json::to_value(rmcp::ServerHandler::get_info(&handler)).unwrap();
    assert_eq!(info["serverInfo"]["title"], "bunqueue");
    assert_eq!(info["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        info["capabilities"],
        json!({ "tools": { "listChanged": true } })
    );
    let instructions = info["instructions"].as_str().unwrap();
    assert!(instructions.len() <= 700, "{}", instructions.len());
    for word in [
        "embedded",
        "memory only",
        "lost",
        "jobs, queues, dlq, monitoring, processing, job-control, cron, flows, limits, workers, webhooks",
        "bunqueue_diagnose_queue",
        "bunqueue_list_jobs_page",
        "bunqueue_observe_job",
    ] {
        assert!(instructions.contains(word), "{word}");
    }
}

#[tokio::test]
async fn whether_the_client_can_be_asked_is_taken_from_what_it_says() {
    let mut client = Client::connect(None).await;
    let told = async |client: &mut Client, params: Value| {
        let answer = client.request("tools/call", params).await;
        answer["result"]["structuredContent"]["confirm"]["elicitation"].clone()
    };
    let plain = json!({ "name": "bunqueue_get_capabilities", "arguments": {} });
    assert_eq!(told(&mut client, plain.clone()).await, false);
    let mut asking = Client::open(None, &json!({ "elicitation": {} })).await;
    assert_eq!(told(&mut asking, plain).await, true);
}

#[tokio::test]
async fn the_instructions_tell_what_is_kept() {
    let memory = "memory only: jobs are lost";
    for (durability, words) in [
        (Durability::None, memory),
        (Durability::Buffered, "a crash may lose the last 10 ms"),
        (Durability::Committed, "what was answered is kept"),
        (Durability::Durable, "what was answered is kept"),
    ] {
        let registry = Arc::new(Registry::new().unwrap());
        let selection = registry.everything();
        let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
        let info = ServerInfo {
            durability,
            ..ServerInfo::default()
        };
        let shutdown = CancellationToken::new();
        let dispatcher = Dispatcher::on(info, registry, selection, broker, shutdown);
        let handler = AgentHandler::new(dispatcher).unwrap();
        let text = rmcp::ServerHandler::get_info(&handler).instructions;
        let text = text.unwrap();
        assert!(text.contains(words) && text.len() <= 700, "{text}");
        assert_eq!(text.contains(memory), durability == Durability::None);
    }
}

#[tokio::test]
async fn the_instructions_name_no_tool_that_is_hidden() {
    let registry = Arc::new(Registry::new().unwrap());
    let all: Vec<_> = registry.toolsets().map(|toolset| toolset.id).collect();
    for id in all {
        let selection = registry.select(Some(("", id))).unwrap();
        let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
        let shutdown = CancellationToken::new();
        let handler = AgentHandler::new(Dispatcher::new(
            registry.clone(),
            selection.clone(),
            broker,
            shutdown,
        ))
        .unwrap();
        let info = rmcp::ServerHandler::get_info(&handler);
        let text = info.instructions.unwrap();
        let words: Vec<&str> = text.split([' ', ',', '.']).collect();
        for tool in registry.tools() {
            assert!(
                selection.exposes(tool.toolset) || !words.contains(&tool.name),
                "{id}: {text}"
            );
        }
        assert!(!text.contains("TCP"), "{text}");
        assert_eq!(text.contains("ack or fail"), id == "processing", "{text}");
    }
}

#[tokio::test]
async fn the_list_holds_every_tool_on_one_page() {
    let mut client = Client::connect(None).await;
    for params in [json!({}), Value::Null, json!({ "cursor": null })] {
        let listed = client.request("tools/list", params).await;
        assert_eq!(
            listed["result"]["tools"].as_array().unwrap().len(),
            registry().tools().count(),
            "{listed}"
        );
        assert_eq!(listed["result"].get("nextCursor"), None);
    }
    client
        .send(json!({ "jsonrpc": "2.0", "id": "bare", "method": "tools/list" }))
        .await;
    assert_eq!(
        client.receive().await["result"]["tools"]
            .as_array()
            .unwrap()
            .len(),
        registry().tools().count()
    );
    for cursor in ["0", "100", "x", "-1", ""] {
        let refused = client
            .request("tools/list", json!({ "cursor": cursor }))
            .await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
}

#[tokio::test]
async fn a_success_is_text_and_structure_alike_and_an_error_is_text_alone() {
    let mut client = Client::connect(None).await;
    let answer = client
        .call(
            "bunqueue_add_job",
            json!({ "queue": "q", "name": "n", "data": { "f": 5.0 }, "jobId": "j" }),
        )
        .await;
    let result = &answer["result"];
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, json!({ "jobId": "j", "outcome": "new" }));
    assert_eq!(result["structuredContent"], text);
    assert_eq!(result.get("isError"), None);
    let job = client
        .call("bunqueue_get_job", json!({ "jobId": "j" }))
        .await;
    let text = job["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("\"data\":{\"f\":5.0}") && !text.contains(": "),
        "{text}"
    );
    for (tool, arguments) in [
        ("bunqueue_get_job", json!({ "jobId": "k" })),
        ("bunqueue_get_job", json!({})),
    ] {
        let refused = client.call(tool, arguments).await;
        assert_eq!(refused["result"]["isError"], true);
        assert_eq!(refused["result"].get("structuredContent"), None);
        let body: Value =
            serde_json::from_str(refused["result"]["content"][0]["text"].as_str().unwrap())
                .unwrap();
        assert!(body["error"].is_string() && body["code"].is_string());
    }
}

#[tokio::test]
async fn calls_without_arguments_work_where_none_are_needed() {
    let mut client = Client::connect(None).await;
    for params in [
        json!({ "name": "bunqueue_list_queues" }),
        json!({ "name": "bunqueue_list_queues", "arguments": null }),
        json!({ "name": "bunqueue_list_queues", "arguments": {} }),
    ] {
        let answer = client.request("tools/call", params).await;
        assert_eq!(
            answer["result"]["structuredContent"],
            json!({ "queues": [] }),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn broken_requests_get_the_error_of_the_protocol() {
    let mut client = Client::connect(None).await;
    let unknown = client.call("bunqueue_list_queue", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(
        unknown["error"]["message"],
        "Unknown tool: bunqueue_list_queue"
    );
    assert_eq!(
        unknown["error"]["data"]["didYouMean"],
        "bunqueue_list_queues"
    );
    let far = client.call("zebra", json!({})).await;
    assert_eq!(
        (&far["error"]["message"], far["error"].get("data")),
        (&json!("Unknown tool: zebra"), None)
    );
    for (method, params, code) in [
        ("tools/call", json!({ "name": 5 }), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/call", Value::Null, -32602),
        (
            "tools/call",
            json!({ "name": "bunqueue_list_queues", "arguments": "text" }),
            -32602,
        ),
        (
            "tools/call",
            json!({ "name": "bunqueue_list_queues", "arguments": [] }),
            -32602,
        ),
        ("initialize", json!({}), -32602),
        ("tools/lists", json!({}), -32601),
        ("resources/list", json!({}), -32601),
        ("prompts/list", json!({}), -32601),
        ("resources/read", json!({ "uri": 5 }), -32601),
    ] {
        let refused = client.request(method, params.clone()).await;
        assert_eq!(
            refused["error"]["code"], code,
            "{method} {params}: {}",
            refused["error"]
        );
    }
    let next = client.call("bunqueue_list_queues", json!({})).await;
    assert_eq!(next["result"]["structuredContent"], json!({ "queues": [] }));
}

#[tokio::test]
async fn refusals_repeat_nothing_that_was_sent_but_a_short_name() {
    let mut client = Client::connect(None).await;
    for params in [
        Value::Null,
        json!({ "name": "bunqueue_list_queues", "arguments": "SECRET" }),
        json!({ "name": "bunqueue_list_queues", "arguments": ["SECRET"] }),
        json!({ "name": { "SECRET": 1 } }),
    ] {
        let refused = client.request("tools/call", params).await;
        assert_eq!(
            refused["error"]["message"],
            "Invalid params: params of tools/call must be an object with name and, optionally, arguments (an object)"
        );
    }
    let long = "ä".repeat(100_000);
    let cut = format!("{}…", "ä".repeat(64));
    let tool = client.call(&long, json!({})).await;
    assert_eq!(tool["error"]["message"], format!("Unknown tool: {cut}"));
    let method = client.request(&long, json!({})).await;
    assert_eq!(
        method["error"]["message"],
        format!("Method not found: {cut}")
    );
}

#[tokio::test]
async fn arguments_as_json_text_of_an_object_are_taken_as_meant() {
    let mut client = Client::connect(None).await;
    let answer = client
        .call("bunqueue_count_jobs", json!(r#"{"queue":"q"}"#))
        .await;
    assert_eq!(
        answer["result"]["structuredContent"]["count"], 0,
        "{answer}"
    );
}

#[tokio::test]
async fn a_toolset_that_is_not_exposed_is_neither_listed_nor_run() {
    let mut client = Client::connect(Some(" Queues,queues ,PROCESSING")).await;
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 20);
    let refused = client
        .call(
            "bunqueue_add_job",
            json!({ "queue": "q", "name": "n", "data": {} }),
        )
        .await;
    let body: Value =
        serde_json::from_str(refused["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        body["error"],
        "bunqueue_add_job is not enabled on this server (toolset jobs)"
    );
    assert_eq!(body["code"], "not_loaded");
    let count = client
        .call("bunqueue_count_jobs", json!({ "queue": "q" }))
        .await;
    assert_eq!(count["result"]["structuredContent"]["count"], 0);
}

#[test]
fn a_setting_that_selects_nothing_is_refused() {
    let registry = Registry::new().unwrap();
    let text = |name, list| registry.select(Some((name, list))).unwrap_err().to_string();
    assert_eq!(
        text("BUNQUEUE_MCP_TOOLSETS", "jobs,dlqq,x"),
        "Unknown BUNQUEUE_MCP_TOOLSETS value(s): dlqq, x. Valid: all, dynamic, jobs, queues, dlq, monitoring, processing, job-control, cron, flows, limits, workers, webhooks"
    );
    assert_eq!(text("--toolsets", " , "), "--toolsets lists no toolset");
    for all in [None, Some(""), Some("  "), Some("ALL"), Some("jobs,all")] {
        let given = all.map(|list| ("--toolsets", list));
        assert_eq!(registry.select(given), Ok(registry.everything()));
    }
}

#[tokio::test]
async fn progress_reaches_the_client_before_the_answer_and_only_when_it_asked() {
    let mut client = Client::connect(None).await;
    client
        .call(
            "bunqueue_add_job",
            json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" }),
        )
        .await;
    client
        .call("bunqueue_pull_job", json!({ "queue": "q" }))
        .await;
    let wait = json!({ "name": "bunqueue_wait_for_job", "arguments": { "jobId": "j", "timeoutMs": 30000 } });
    let mut asked = wait.clone();
    asked["_meta"] = json!({ "progressToken": "p" });
    let with = client.begin("tools/call", asked).await;
    let without = client.begin("tools/call", wait).await;
    // Requests run side by side; the wait has begun once a progress report comes through.
    let mut seen = Vec::new();
    let mut progress = 0;
    while seen.len() < 2 {
        progress += 1;
        let update = json!({ "jobId": "j", "progress": progress, "message": "m" });
        let id = client
            .begin(
                "tools/call",
                json!({ "name": "bunqueue_update_progress", "arguments": update }),
            )
            .await;
        loop {
            let message = client.receive().await;
            if message["method"] == "notifications/progress" {
                seen.push(message["params"].clone());
            } else {
                assert_eq!(message["id"], id, "{message}");
                break;
            }
        }
    }
    assert!(
        seen[0]["progress"].as_f64() < seen[1]["progress"].as_f64(),
        "{seen:?}"
    );
    assert_eq!(
        (
            &seen[0]["progressToken"],
            &seen[0]["total"],
            &seen[0]["message"]
        ),
        (&json!("p"), &json!(100.0), &json!("m"))
    );
    let ack = client
        .begin(
            "tools/call",
            json!({ "name": "bunqueue_ack_job", "arguments": { "jobId": "j" } }),
        )
        .await;
    let mut answered = Vec::new();
    while answered.len() < 3 {
        let message = client.receive().await;
        if message["method"] == "notifications/progress" {
            assert!(
                !answered.contains(&json!(with)),
                "a report came after the answer"
            );
        } else {
            answered.push(message["id"].clone());
        }
    }
    assert!(
        [with, without, ack]
            .iter()
            .all(|id| answered.contains(&json!(id))),
        "{answered:?}"
    );
}

#[tokio::test]
async fn a_cancelled_pull_is_not_answered_and_its_job_goes_to_the_next() {
    let mut client = Client::connect(None).await;
    let pull =
        json!({ "name": "bunqueue_pull_job", "arguments": { "queue": "q", "timeoutMs": 30000 } });
    let id = client.begin("tools/call", pull).await;
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })).await;
    // Answered in order of arrival: by then the cancellation has been read.
    client.request("ping", json!({})).await;
    client
        .call(
            "bunqueue_add_job",
            json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" }),
        )
        .await;
    let next = client
        .call(
            "bunqueue_pull_job",
            json!({ "queue": "q", "timeoutMs": 10000 }),
        )
        .await;
    assert_eq!(next["result"]["structuredContent"]["job"]["id"], "j");
}

#[tokio::test]
async fn the_end_of_input_ends_a_wait_with_an_answer() {
    let mut client = Client::connect(None).await;
    let pull =
        json!({ "name": "bunqueue_pull_job", "arguments": { "queue": "q", "timeoutMs": 30000 } });
    let id = client.begin("tools/call", pull).await;
    client.input.shutdown().await.unwrap();
    let answer = client.receive().await;
    assert_eq!(answer["id"], id);
    let body: Value =
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(body["code"], "backend_unavailable");
    tokio::time::timeout(PATIENCE, client.served)
        .await
        .expect("it does not end")
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn the_stateless_revision_lists_and_calls_without_a_handshake() {
    let mut client = Client::connect(None).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let found = client
        .request("server/discover", json!({ "_meta": meta }))
        .await;
    assert_eq!(
        found["result"]["capabilities"],
        json!({ "tools": { "listChanged": true } }),
        "{found}"
    );
    let listed = client.request("tools/list", json!({ "_meta": meta })).await;
    let tools = listed["result"]["tools"].as_array().unwrap().len();
    assert_eq!(tools, registry().tools().count());
    assert!(
        listed["result"].get("ttlMs").is_some() && listed["result"].get("cacheScope").is_some()
    );
    let call =
        json!({ "name": "bunqueue_count_jobs", "arguments": { "queue": "q" }, "_meta": meta });
    let called = client.request("tools/call", call).await;
    assert_eq!(called["result"]["resultType"], "complete");
    assert_fits(
        &json!({ "type": "object", "required": ["queue", "count"] }),
        &called["result"]["structuredContent"],
        "count",
    );
}
