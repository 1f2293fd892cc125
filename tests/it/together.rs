//! Both doors of one process: agents speak MCP, workers speak the queue protocol, and both see the same queue.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::mcp::stdio::Agent;
use crate::tcp::client::Conn;
use crate::tcp::cold;
use crate::tcp::value::{Wire, wide};

/// The counts of a queue through both doors, which must agree.
fn counts(agent: &mut Agent, conn: &mut Conn, queue: &str) -> Value {
    let mut seen = agent.ok("bunqueue_get_job_counts", &json!({ "queue": queue }));
    seen.as_object_mut().unwrap().remove("queue");
    assert_eq!(seen, conn.counts(queue));
    seen
}

#[test]
fn agents_add_pause_and_cancel_while_workers_pull_and_fail() {
    let (mut agent, tcp) = Agent::with_worker_door();
    let mut worker = Conn::open(tcp);
    let queue = json!({ "queue": "q" });
    let pull = json!({ "cmd": "PULL", "queue": "q", "owner": "w" });
    let jobs: Vec<Value> = (0..30)
        .map(
            |n| json!({ "name": "n", "data": { "n": n }, "attempts": 1, "jobId": format!("j{n}") }),
        )
        .collect();
    agent.ok(
        "bunqueue_add_jobs_bulk",
        &json!({ "queue": "q", "jobs": jobs }),
    );
    agent.ok("bunqueue_pause_queue", &queue);
    assert_eq!(worker.ok(&pull)["job"], json!(null));
    assert_eq!(counts(&mut agent, &mut worker, "q")["paused"], 30);
    for n in 20..30 {
        let cancelled = agent.ok("bunqueue_cancel_job", &json!({ "jobId": format!("j{n}") }));
        assert_eq!(cancelled["success"], true);
    }
    agent.ok("bunqueue_resume_queue", &queue);
    for n in 0..20 {
        let reply = worker.ok(&pull);
        let id = format!("j{n}");
        assert_eq!(reply["job"]["id"], json!(id));
        match n % 4 {
            0 => worker
                .ok(&json!({ "cmd": "FAIL", "id": id, "token": reply["token"], "error": "no" })),
            1 | 2 => {
                worker.ok(&json!({ "cmd": "ACK", "id": id, "token": reply["token"], "result": n }))
            }
            _ => continue,
        };
    }
    let seen = counts(&mut agent, &mut worker, "q");
    let expected = json!({
        "waiting": 0, "prioritized": 0, "delayed": 0, "active": 5, "completed": 10, "failed": 5,
        "paused": 0, "waiting-children": 0,
    });
    assert_eq!(seen, expected);
    let observed = agent.ok("bunqueue_observe_job", &json!({ "jobId": "j4" }));
    assert_eq!(
        (&observed["outcome"], &observed["failure"]["error"]),
        (&json!("failed"), &json!("no"))
    );
    let refused = agent.refused("bunqueue_ack_job", &json!({ "jobId": "j3" }));
    assert_eq!(refused["error"], "Lock token required for job j3");
    worker.close();
    // The jobs that the worker still held are ready for the agent.
    let pulled = agent.ok(
        "bunqueue_pull_job",
        &json!({ "queue": "q", "timeoutMs": 10_000 }),
    );
    assert_eq!(pulled["job"]["id"], "j3");
}

/// Pulls until it has done its share, acknowledging or failing by the job's data; returns the ids.
fn work(tcp: SocketAddr, share: usize) -> Vec<String> {
    let mut conn = Conn::open(tcp);
    let mut done = Vec::new();
    while done.len() < share {
        let count = (share - done.len()).min(7);
        let pull =
            json!({ "cmd": "PULLB", "queue": "q", "count": count, "owner": "w", "timeout": 5000 });
        let reply = conn.ok(&pull);
        let jobs = reply["jobs"].as_array().unwrap();
        for (job, token) in jobs.iter().zip(reply["tokens"].as_array().unwrap()) {
            let report = match job["data"]["n"].as_u64().unwrap() % 5 {
                0 => {
                    json!({ "cmd": "FAIL", "id": job["id"], "token": token, "unrecoverable": true })
                }
                n => json!({ "cmd": "ACK", "id": job["id"], "token": token, "result": n }),
            };
            conn.ok(&report);
            done.push(job["id"].as_str().unwrap().to_owned());
        }
    }
    done
}

#[test]
fn every_job_of_an_agent_is_done_once_by_the_workers() {
    const JOBS: usize = 300;
    const WORKERS: usize = 3;
    let (mut agent, tcp) = Agent::with_worker_door();
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| std::thread::spawn(move || work(tcp, JOBS / WORKERS)))
        .collect();
    let mut added = BTreeSet::new();
    for n in 0..JOBS {
        let add = json!({ "queue": "q", "name": "n", "data": { "n": n } });
        let id = agent.ok("bunqueue_add_job", &add)["jobId"].take();
        assert!(added.insert(id.as_str().unwrap().to_owned()));
    }
    let done: Vec<String> = workers
        .into_iter()
        .flat_map(|worker| worker.join().unwrap())
        .collect();
    assert_eq!(done.len(), JOBS);
    assert_eq!(done.into_iter().collect::<BTreeSet<_>>(), added);
    let seen = counts(&mut agent, &mut Conn::open(tcp), "q");
    assert_eq!(
        (&seen["completed"], &seen["failed"]),
        (&json!(JOBS * 4 / 5), &json!(JOBS / 5))
    );
}

#[test]
fn an_agent_does_the_work_of_workers_who_add() {
    let (mut agent, tcp) = Agent::with_worker_door();
    let mut conn = Conn::open(tcp);
    let wait = agent.begin_call(
        "bunqueue_pull_job",
        &json!({ "queue": "q", "timeoutMs": 30_000, "owner": "a" }),
    );
    agent.result("ping", &json!({}));
    let id = conn.push("q", &json!({ "data": { "n": 1 } }));
    let waited = conn.begin(&json!({ "cmd": "WaitJob", "id": id, "timeout": 30_000 }));
    let job = agent.finish_call(&wait).value["job"].take();
    assert_eq!((&job["id"], &job["data"]), (&json!(id), &json!({ "n": 1 })));
    agent.ok(
        "bunqueue_update_progress",
        &json!({ "jobId": id, "progress": 40, "message": "m" }),
    );
    let progress = conn.ok(&json!({ "cmd": "GetProgress", "id": id }));
    assert_eq!(
        (&progress["progress"], &progress["message"]),
        (&json!(40), &json!("m"))
    );
    let ack = json!({ "jobId": id, "token": job["token"], "result": { "done": [1, "2"] } });
    agent.ok("bunqueue_ack_job", &ack);
    let expected = json!({ "ok": true, "completed": true, "result": { "done": [1, "2"] } });
    assert_eq!(conn.finish(&waited), expected);
}

/// Values that JSON lacks, as they are on the wire and as agents see them.
fn without_json_form() -> Vec<(Vec<u8>, Value)> {
    let bytes = |bytes: &[u8]| STANDARD.encode(bytes);
    let beyond = 1_i128 << 53;
    vec![
        (wide(beyond + 1), json!({ "$int": "9007199254740993" })),
        (wide(-beyond - 1), json!({ "$int": "-9007199254740993" })),
        (
            wide(i128::from(u64::MAX)),
            json!({ "$int": "18446744073709551615" }),
        ),
        (
            wide(i128::from(i64::MIN)),
            json!({ "$int": "-9223372036854775808" }),
        ),
        (Wire::Float(f64::NAN).encode(), json!({ "$float": "NaN" })),
        (
            Wire::Float(f64::INFINITY).encode(),
            json!({ "$float": "Infinity" }),
        ),
        (
            Wire::Float(f64::NEG_INFINITY).encode(),
            json!({ "$float": "-Infinity" }),
        ),
        (Wire::Float(-0.0).encode(), json!({ "$float": "-0" })),
        (Wire::Float(5.0).encode(), json!(5.0)),
        (Wire::Float(0.1).encode(), json!(0.1)),
        (Wire::Float(5e-324).encode(), json!(5e-324)),
        (
            Wire::Bin(vec![0, 255, 10]).encode(),
            json!({ "$bytes": bytes(&[0, 255, 10]) }),
        ),
        (Wire::Bin(Vec::new()).encode(), json!({ "$bytes": "" })),
        (
            Wire::Ext(-1, vec![0, 0, 0, 1]).encode(),
            json!({ "$ext": { "type": -1, "data": bytes(&[0, 0, 0, 1]) } }),
        ),
        (
            b"\x82\x01\xa1a\xa1b\xc0".to_vec(),
            json!({ "$map": [[1, "a"], ["b", null]] }),
        ),
        (
            b"\x82\xa1a\x01\xa1a\x02".to_vec(),
            json!({ "$map": [["a", 1], ["a", 2]] }),
        ),
        (
            b"\xa2\xff\xfe".to_vec(),
            json!({ "$str": bytes(&[0xff, 0xfe]) }),
        ),
        (
            b"\x81\xa4$int\xa15".to_vec(),
            json!({ "$object": { "$int": "5" } }),
        ),
        (
            b"\x82\xa4$int\xa15\xa1x\x01".to_vec(),
            json!({ "$int": "5", "x": 1 }),
        ),
    ]
}

fn assert_holds(body: &[u8], bytes: &[u8]) {
    let found = body.windows(bytes.len()).any(|window| window == bytes);
    assert!(found, "{bytes:02x?} not in {body:02x?}");
}

#[test]
fn hard_a5_values_without_a_json_form_pass_through_both_doors() {
    let (mut agent, tcp) = Agent::with_worker_door();
    let mut conn = Conn::open(tcp);
    conn.expect_wide();
    for (bytes, shown) in without_json_form() {
        let data = [b"\x81\xa1v", bytes.as_slice()].concat();
        let push = Wire::Map(vec![
            (Wire::text("cmd"), Wire::text("PUSH")),
            (Wire::text("queue"), Wire::text("in")),
            (Wire::text("data"), Wire::Raw(data.clone())),
        ]);
        let pushed = conn.begin_wire(push);
        let id = conn.finish(&pushed)["id"].clone();
        let job = agent.ok("bunqueue_get_job", &json!({ "jobId": id }));
        assert_eq!(job["data"], json!({ "v": shown }));
        let pulled = agent.ok("bunqueue_pull_job", &json!({ "queue": "in" }));
        assert_eq!(pulled["job"]["data"], json!({ "v": shown }));

        // The agent hands the same value on, as data of a job and as a result.
        agent.ok("bunqueue_ack_job", &json!({ "jobId": id, "result": shown }));
        let result = conn.begin(&json!({ "cmd": "GetResult", "id": id }));
        assert_holds(
            &conn.finish_frame(&result).body,
            &[b"\xa6result", bytes.as_slice()].concat(),
        );
        let seen = agent.ok("bunqueue_get_job_result", &json!({ "jobId": id }));
        assert_eq!(seen["result"], shown);
        let add = json!({ "queue": "out", "name": "n", "data": job["data"] });
        agent.ok("bunqueue_add_job", &add);
        let taken = conn.begin(&json!({ "cmd": "PULL", "queue": "out" }));
        assert_holds(
            &conn.finish_frame(&taken).body,
            &[b"\xa4data", data.as_slice()].concat(),
        );
    }
}

#[test]
fn both_doors_report_the_outcome_of_an_add() {
    let (mut agent, tcp) = Agent::with_worker_door();
    let mut conn = Conn::open(tcp);
    let add = json!({ "queue": "q", "name": "n", "data": {}, "jobId": "j" });
    assert_eq!(agent.ok("bunqueue_add_job", &add)["outcome"], "new");
    let push = json!({ "cmd": "PUSH", "queue": "q", "name": "n", "jobId": "j" });
    assert_eq!(conn.ok(&push), json!({ "ok": true, "id": "j" }));
    let asking = json!({ "cmd": "PUSH", "queue": "q", "name": "n", "jobId": "j", "outcome": true });
    assert_eq!(
        conn.ok(&asking),
        json!({ "ok": true, "id": "j", "outcome": "existing" })
    );
    let batch = json!({
        "cmd": "PUSHB", "queue": "q", "outcome": true,
        "jobs": [{ "name": "n", "customId": "j" }, { "name": "n", "customId": "k" }],
    });
    let expected = json!({ "ok": true, "ids": ["j", "k"], "outcomes": ["existing", "new"] });
    assert_eq!(conn.ok(&batch), expected);
    assert_eq!(agent.ok("bunqueue_add_job", &add)["outcome"], "existing");
}

#[test]
fn an_agent_pages_through_large_jobs_of_the_file() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("queue.db");
    let (mut agent, tcp) = Agent::with_worker_door_and(&[
        ("BUNQUEUE_DATA_PATH", file.to_str().unwrap()),
        ("BUNQUEUE_MAX_COMPLETED_JOBS", "1"),
    ]);
    cold::complete_large(&mut Conn::open(tcp));
    let mut arguments = json!({ "queue": "q", "state": "completed" });
    let (mut seen, mut pages) = (Vec::new(), 0);
    loop {
        let page = agent.ok("bunqueue_list_jobs_page", &arguments);
        let jobs = page["jobs"].as_array().unwrap();
        seen.extend(jobs.iter().map(|job| job["id"].clone()));
        pages += 1;
        let more = page["hasMore"] == json!(true);
        assert_eq!(
            page["truncated"],
            if more { json!(true) } else { json!(null) }
        );
        if !more {
            break;
        }
        arguments["cursor"] = page["nextCursor"].clone();
    }
    let all: Vec<Value> = (0..=cold::LARGE).map(|n| json!(format!("j{n}"))).collect();
    assert_eq!((seen, pages), (all, 2));
    let few = agent.ok(
        "bunqueue_get_jobs",
        &json!({ "queue": "q", "state": "completed" }),
    );
    assert_eq!(few["truncated"], json!(true));
    let next = few["count"].as_u64().unwrap();
    let rest = json!({ "queue": "q", "state": "completed", "start": next });
    let rest = agent.ok("bunqueue_get_jobs", &rest);
    assert_eq!(rest["jobs"][0]["id"], json!(format!("j{next}")));
}
