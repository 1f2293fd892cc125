//! Agents whose broker is another server: the same tools with the same results, and what happens when that server is not
//! there, is another one, or comes back.

mod commands;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixtures::tool_dialogues;
use crate::mcp::stdio::{Agent, Outcome};
use crate::process::{Process, Serve};
use crate::tcp::client::Conn;

/// For whatever has to happen and takes its time.
const PATIENCE: Duration = Duration::from_secs(40);

/// Settings for a server there.
struct There(String);

impl There {
    fn at(address: SocketAddr) -> Self {
        Self(address.port().to_string())
    }

    fn env<'a>(&'a self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let there = [
            ("BUNQUEUE_MODE", "tcp"),
            ("BUNQUEUE_HOST", "127.0.0.1"),
            ("BUNQUEUE_PORT", self.0.as_str()),
        ];
        [&there, more].concat()
    }

    fn agent(&self) -> Agent {
        Agent::start_with(&self.env(&[]))
    }
}

fn is_unavailable(outcome: &Outcome) -> bool {
    outcome.is_error && outcome.value["code"] == "backend_unavailable"
}

/// Calls until the broker is there again.
fn once_back(agent: &mut Agent, tool: &str, arguments: &Value) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let outcome = agent.call(tool, arguments);
        if !is_unavailable(&outcome) {
            assert!(!outcome.is_error, "{}", outcome.text);
            return outcome.value;
        }
        assert!(Instant::now() < deadline, "{}", outcome.text);
        // The answers of a moment are as many as fit into it.
        std::thread::yield_now();
    }
}

#[test]
fn tool_dialogues_hold_with_another_server() {
    let dialogues = tool_dialogues();
    assert!(dialogues.len() > 15);
    std::thread::scope(|scope| {
        let (left, right) = dialogues.split_at(dialogues.len() / 2);
        for half in [left, right] {
            scope.spawn(move || {
                for dialogue in half {
                    let server = Serve::start();
                    dialogue.play_with(&There::at(server.tcp).env(&[]));
                }
            });
        }
    });
}

#[test]
fn the_start_line_says_where_the_broker_is_and_no_file_is_made_here() {
    let server = Serve::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("never.db");
    let there = There::at(server.tcp);
    let mut agent =
        Agent::start_with(&there.env(&[("BUNQUEUE_DATA_PATH", file.to_str().unwrap())]));
    assert_eq!(
        agent.process.line("bunqueue MCP server started"),
        format!(
            "bunqueue MCP server started (mode: tcp, version: {})",
            env!("CARGO_PKG_VERSION")
        )
    );
    agent.ok(
        "bunqueue_add_job",
        &json!({ "queue": "q", "name": "n", "data": {} }),
    );
    assert_eq!(Conn::open(server.tcp).counts("q")["waiting"], 1);
    assert_eq!(agent.end(PATIENCE).code(), Some(0));
    assert!(!file.exists());
}

#[test]
fn values_pass_unchanged_between_agent_and_worker() {
    let server = Serve::start();
    let mut agent = There::at(server.tcp).agent();
    let data = json!({ "big": { "$int": "9007199254740993" }, "__proto__": [null, -0.5, "ü"] });
    let add = json!({ "queue": "q", "name": "n", "data": data, "jobId": "j", "tags": ["t"] });
    assert_eq!(agent.ok("bunqueue_add_job", &add)["outcome"], "new");
    assert_eq!(agent.ok("bunqueue_add_job", &add)["outcome"], "existing");
    assert_eq!(
        agent.ok("bunqueue_get_job", &json!({ "jobId": "j" }))["data"],
        data
    );
    let keyed = |name: &str| {
        let deduplication = json!({ "id": "k", "replace": true });
        json!({ "queue": "q", "name": name, "data": {}, "deduplication": deduplication })
    };
    let first = agent.ok("bunqueue_add_job", &keyed("a"));
    let second = agent.ok("bunqueue_add_job", &keyed("b"));
    assert_eq!(second["outcome"], "replaced");
    assert_eq!(second["replacedJobId"], first["jobId"]);
}

#[test]
fn lists_go_on_behind_a_place_whatever_has_gone() {
    let server = Serve::start();
    let mut agent = There::at(server.tcp).agent();
    let jobs: Vec<_> = (0..130)
        .map(|n| json!({ "name": "n", "data": {}, "jobId": format!("j{n:03}") }))
        .collect();
    agent.ok(
        "bunqueue_add_jobs_bulk",
        &json!({ "queue": "q", "jobs": jobs }),
    );
    let mut seen = Vec::new();
    let mut page = json!({ "queue": "q", "limit": 40, "fields": ["id"] });
    loop {
        let found = agent.ok("bunqueue_list_jobs_page", &page);
        let ids = found["jobs"].as_array().unwrap().iter();
        seen.extend(ids.map(|job| job["id"].as_str().unwrap().to_owned()));
        if found["hasMore"] == false {
            break;
        }
        page["cursor"] = found["nextCursor"].clone();
        // What was shown may go without moving the next page.
        let gone = json!({ "jobId": seen[seen.len() - 3] });
        agent.ok("bunqueue_cancel_job", &gone);
    }
    let all: Vec<_> = (0..130).map(|n| format!("j{n:03}")).collect();
    assert_eq!(seen, all);
}

#[test]
fn a_wait_that_was_withdrawn_gives_back_what_it_is_handed_later() {
    let server = Serve::start();
    let mut agent = There::at(server.tcp).agent();
    let mut worker = Conn::open(server.tcp);
    for owner in [json!(null), json!("me")] {
        let mut pull = json!({ "queue": "q", "timeoutMs": 30_000 });
        if !owner.is_null() {
            pull["owner"] = owner;
        }
        let pending = agent.begin_call("bunqueue_pull_job", &pull);
        // Answered behind it, so the pull is on its way.
        agent.ok("bunqueue_list_queues", &json!({}));
        agent.notify(
            "notifications/cancelled",
            &json!({ "requestId": pending.0, "reason": "test" }),
        );
        agent.ok("bunqueue_list_queues", &json!({}));
        worker.ok(&json!({ "cmd": "PUSH", "queue": "q", "name": "n", "jobId": "j" }));
        let pulled = worker.ok(&json!({ "cmd": "PULL", "queue": "q", "timeout": 30_000 }));
        assert_eq!(pulled["job"]["id"], "j");
        assert_eq!(pulled["job"]["attempts"], 0);
        worker.ok(&json!({ "cmd": "ACK", "id": "j" }));
    }
}

#[test]
fn progress_of_a_job_is_told_while_an_agent_waits_for_it() {
    let server = Serve::start();
    let mut agent = There::at(server.tcp).agent();
    let mut worker = Conn::open(server.tcp);
    worker.ok(&json!({ "cmd": "PUSH", "queue": "q", "name": "n", "jobId": "j" }));
    worker.ok(&json!({ "cmd": "PULL", "queue": "q" }));
    let pending = agent.begin(
        "tools/call",
        &json!({
            "name": "bunqueue_wait_for_job",
            "arguments": { "jobId": "j", "timeoutMs": 30_000 },
            "_meta": { "progressToken": "p" },
        }),
    );
    // Events begin some time after the call; what was before them is not told.
    let mut percent = 1;
    while !agent
        .others
        .iter()
        .any(|other| other["method"] == "notifications/progress")
    {
        assert!(percent < 100, "no progress was told");
        worker.ok(&json!({ "cmd": "Progress", "id": "j", "progress": percent }));
        percent += 1;
        let early = agent.finish_within(&pending, Duration::from_millis(200));
        assert_eq!(early, None);
    }
    worker.ok(&json!({ "cmd": "ACK", "id": "j" }));
    let answer = agent.finish(&pending);
    let ended = &answer["result"]["structuredContent"];
    assert_eq!(ended["completed"], true, "{answer}");
}

#[test]
fn an_observed_job_ends_with_its_failure() {
    let server = Serve::start();
    let mut agent = There::at(server.tcp).agent();
    let mut worker = Conn::open(server.tcp);
    worker.ok(&json!({ "cmd": "PUSH", "queue": "q", "name": "n", "jobId": "j", "maxAttempts": 1 }));
    worker.ok(&json!({ "cmd": "PULL", "queue": "q" }));
    let pending = agent.begin_call(
        "bunqueue_observe_job",
        &json!({ "jobId": "j", "timeoutMs": 30_000 }),
    );
    worker.ok(&json!({ "cmd": "FAIL", "id": "j", "error": "no" }));
    let answer = agent.finish(&pending);
    let seen = &answer["result"]["structuredContent"];
    assert_eq!(seen["outcome"], "failed", "{answer}");
    assert_eq!(seen["failure"]["error"], "no");
    assert_eq!(seen["failure"]["reason"], "max_attempts_exceeded");
}

#[test]
fn calls_fail_at_once_while_the_server_is_away_and_go_on_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.db");
    let kept = ("BUNQUEUE_DATA_PATH", file.to_str().unwrap());
    let mut server = Serve::start_with(&[kept]);
    let there = There::at(server.tcp);
    let mut agent = there.agent();
    let add = |n: u32| json!({ "queue": "q", "name": "n", "data": {}, "jobId": format!("j{n}") });
    agent.ok("bunqueue_add_job", &add(0));
    let wait = agent.begin_call(
        "bunqueue_pull_job",
        &json!({ "queue": "empty", "timeoutMs": 30_000 }),
    );
    agent.ok("bunqueue_add_job", &add(1));
    server.process.kill();
    let answer = agent.finish(&wait);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("\"backend_unavailable\""), "{text}");
    let started = Instant::now();
    assert!(is_unavailable(&agent.call("bunqueue_add_job", &add(2))));
    assert!(started.elapsed() < Duration::from_secs(5));
    let server = Serve::start_with(&[kept, ("TCP_PORT", &there.0)]);
    once_back(&mut agent, "bunqueue_add_job", &add(3));
    let found = agent.ok("bunqueue_get_jobs", &json!({ "queue": "q" }));
    let ids: Vec<_> = found["jobs"].as_array().unwrap().iter().collect();
    assert_eq!(ids.len(), 3, "{found}");
    drop(server);
    assert_eq!(agent.end(PATIENCE).code(), Some(0));
}

/// How the program ends that is to connect there, and what it says.
fn refused(there: &There, more: &[(&str, &str)]) -> String {
    let mut process = Process::start(&[], &there.env(more));
    let status = process.exit(PATIENCE).expect("it ends");
    assert_eq!(status.code(), Some(1), "{}", process.stderr());
    let line = process.line("Fatal error: ");
    let failed = format!("Fatal error: Failed to connect to 127.0.0.1:{}: ", there.0);
    line.strip_prefix(&failed)
        .unwrap_or_else(|| panic!("{line}"))
        .to_owned()
}

#[test]
fn a_server_with_tokens_wants_one_of_them() {
    let server = Serve::start_with(&[("AUTH_TOKENS", "right,other")]);
    let there = There::at(server.tcp);
    let hint = "; BUNQUEUE_TOKEN has to be one of its tokens";
    assert_eq!(refused(&there, &[]), format!("Not authenticated{hint}"));
    let wrong = [("BUNQUEUE_TOKEN", "wrong")];
    assert_eq!(refused(&there, &wrong), format!("Invalid token{hint}"));
    let mut agent = Agent::start_with(&there.env(&[("BUNQUEUE_TOKEN", " right ")]));
    agent.ok("bunqueue_list_queues", &json!({}));
}

/// A server of whatever `behave` makes of each connection.
fn strange(behave: impl Fn(TcpStream) + Send + 'static) -> There {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = There::at(listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            behave(stream.unwrap());
        }
    });
    there
}

#[test]
fn what_is_no_broker_is_named_at_the_start() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = There::at(listener.local_addr().unwrap());
    drop(listener);
    assert!(refused(&nobody, &[]).contains("refused"));
    let web = strange(|mut stream| {
        let _ = stream.write_all(b"\0\0\0\x0cHTTP/1.1 400");
        let _ = stream.read(&mut [0; 64]);
    });
    let foreign = "the server does not speak the queue protocol";
    assert_eq!(refused(&web, &[]), foreign);
    let large = strange(|mut stream| {
        let _ = stream.write_all(&[0xff; 64]);
        let _ = stream.read(&mut [0; 64]);
    });
    assert_eq!(refused(&large, &[]), foreign);
    let closing = strange(|mut stream| drop(frame(&mut stream)));
    assert_eq!(refused(&closing, &[]), "the server closed the connection");
    let (kept, held) = std::sync::mpsc::channel();
    let silent = strange(move |stream| kept.send(stream).unwrap());
    assert_eq!(
        refused(&silent, &[]),
        "the server did not answer within 5 s"
    );
    drop(held);
}

/// The body of the next frame; `None` when there is none.
fn frame(stream: &mut TcpStream) -> Option<Value> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let mut body = vec![0; u32::from_be_bytes(header) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(rmp_serde::from_slice(&body).unwrap())
}

fn reply(stream: &mut TcpStream, to: &Value, more: &Value) {
    let mut reply = json!({ "ok": true, "reqId": to["reqId"] });
    let entries = more.as_object().unwrap().clone();
    reply.as_object_mut().unwrap().extend(entries);
    let body = rmp_serde::to_vec_named(&reply).unwrap();
    let header = u32::try_from(body.len()).unwrap().to_be_bytes();
    let _ = stream.write_all(&[&header[..], &body].concat());
}

#[test]
fn a_server_that_loses_its_mind_is_given_up_and_asked_again() {
    // It greets everybody; what it makes of the first command after that depends on how it is called.
    let there = strange(|mut stream| {
        std::thread::spawn(move || {
            while let Some(asked) = frame(&mut stream) {
                match (asked["cmd"].as_str(), asked["queue"].as_str()) {
                    (Some("Hello"), _) => reply(&mut stream, &asked, &json!({})),
                    (_, Some("garbage")) => drop(stream.write_all(&[0, 0, 0, 1, 0xc1])),
                    (_, Some("closing")) => return,
                    (_, Some("odd")) => reply(&mut stream, &asked, &json!({ "paused": "perhaps" })),
                    _ => reply(&mut stream, &asked, &json!({ "paused": true })),
                }
            }
        });
    });
    let mut agent = Agent::start_with(&there.env(&[("BUNQUEUE_POOL_SIZE", "1")]));
    let ask = |queue: &str| json!({ "queue": queue });
    for queue in ["garbage", "closing", "odd"] {
        let outcome = agent.call("bunqueue_is_paused", &ask(queue));
        assert!(is_unavailable(&outcome), "{queue}: {}", outcome.text);
        let back = once_back(&mut agent, "bunqueue_is_paused", &ask("q"));
        assert_eq!(back["paused"], true);
    }
}
