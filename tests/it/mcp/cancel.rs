//! `notifications/cancelled` at every moment: never two answers, never a lost job, never a place that stays taken.

use std::time::{Duration, Instant};

use serde_json::json;

use super::http::Session;
use super::stdio::{Agent, Pending};
use crate::process::Serve;

/// Long for a wake-up, short for a wait of 30 s.
const SOON: Duration = Duration::from_secs(5);

fn cancel(agent: &mut Agent, pending: &Pending) {
    let params = json!({ "requestId": pending.0, "reason": "test" });
    agent.notify("notifications/cancelled", &params);
}

fn alive(agent: &mut Agent) {
    assert_eq!(agent.result("ping", &json!({})), json!({}));
}

#[test]
fn hard_m4_cancelling_what_is_unknown_or_finished_does_nothing() {
    let mut agent = Agent::start();
    for n in 0..1000_u64 {
        let finished = agent.begin_call("bunqueue_list_queues", &json!({}));
        agent.finish_call(&finished);
        cancel(&mut agent, &finished);
        cancel(&mut agent, &Pending(1_000_000 + n));
    }
    agent.notify(
        "notifications/cancelled",
        &json!({ "requestId": "no such id" }),
    );
    agent.notify("notifications/cancelled", &json!({}));
    alive(&mut agent);
    assert_eq!(agent.others, Vec::<serde_json::Value>::new());
}

#[test]
fn hard_m4_cancelling_what_is_just_finishing_gives_one_answer_or_none() {
    let mut agent = Agent::start();
    let calls: Vec<_> = (0..1000)
        .map(|n| {
            let add = json!({ "queue": "q", "name": "n", "data": {}, "jobId": format!("j{n}") });
            let pending = agent.begin_call("bunqueue_add_job", &add);
            cancel(&mut agent, &pending);
            pending
        })
        .collect();
    alive(&mut agent);
    for (n, pending) in calls.iter().enumerate() {
        let id = format!("j{n}");
        let Some(answer) = agent.finish_within(pending, Duration::ZERO) else {
            continue;
        };
        // It has happened or not; an answer that says so is true.
        let result = &answer["result"];
        let said = result["isError"] != true && result["structuredContent"]["jobId"] == json!(id);
        let state = agent.ok("bunqueue_get_job_state", &json!({ "jobId": id }));
        assert_eq!(state["state"] == "waiting", said, "{answer}");
    }
}

#[test]
fn hard_m4_a_cancelled_wait_ends_at_once_and_frees_its_place() {
    let mut agent = Agent::start();
    let waits: Vec<_> = (0..200)
        .map(|_| {
            agent.begin_call(
                "bunqueue_pull_job",
                &json!({ "queue": "q", "timeoutMs": 30_000 }),
            )
        })
        .collect();
    alive(&mut agent);
    for pending in &waits {
        cancel(&mut agent, pending);
    }
    alive(&mut agent);
    let started = Instant::now();
    let add = json!({ "queue": "q", "name": "n", "data": {}, "jobId": "kept" });
    agent.ok("bunqueue_add_job", &add);
    let pulled = agent.ok(
        "bunqueue_pull_job",
        &json!({ "queue": "q", "timeoutMs": 10_000 }),
    );
    assert_eq!(pulled["job"]["id"], "kept", "no cancelled pull took it");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    for pending in &waits {
        assert_eq!(
            agent.finish_within(pending, Duration::ZERO),
            None,
            "an answer to a cancelled call"
        );
    }
}

#[test]
fn hard_m4_a_job_taken_by_a_cancelled_pull_is_never_lost() {
    let mut agent = Agent::start();
    let pull = json!({ "queue": "q", "timeoutMs": 30_000 });
    for n in 0..200 {
        let id = format!("j{n}");
        let cancelled = agent.begin_call("bunqueue_pull_job", &pull);
        let add = json!({ "queue": "q", "name": "n", "data": {}, "jobId": id });
        let added = agent.begin_call("bunqueue_add_job", &add);
        cancel(&mut agent, &cancelled);
        assert!(!agent.finish_call(&added).is_error);
        // Delivered by an answer of the first pull after all, or back for the second one.
        let second = agent.begin_call("bunqueue_pull_job", &pull);
        let delivered = loop {
            let (by, answer) = agent.first(&[&cancelled, &second]);
            let job = answer["result"]["structuredContent"]["job"]["id"].clone();
            if !job.is_null() {
                if by == cancelled.0 {
                    cancel(&mut agent, &second);
                }
                break job;
            }
            assert_eq!(by, cancelled.0, "the second pull got nothing: {answer}");
        };
        assert_eq!(delivered, json!(id));
        agent.ok("bunqueue_ack_job", &json!({ "jobId": id }));
    }
}

#[test]
fn hard_m4_over_http_a_job_taken_by_a_cancelled_pull_is_never_lost() {
    const PULL: u64 = 1_000_000;
    let serve = Serve::start();
    let cancelled = Session::open(serve.http);
    let mut other = Session::open(serve.http);
    for n in 0..100 {
        let id = format!("j{n}");
        let pull = json!({
            "jsonrpc": "2.0", "id": PULL + n, "method": "tools/call",
            "params": { "name": "bunqueue_pull_job", "arguments": { "queue": "q", "timeoutMs": 30_000 } },
        });
        let cancel = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": PULL + n },
        });
        let add = json!({ "queue": "q", "name": "n", "data": {}, "jobId": id });
        let answers = std::thread::scope(|scope| {
            let pulled = scope.spawn(|| cancelled.post(&pull).messages());
            assert!(!other.call("bunqueue_add_job", &add).is_error);
            assert_eq!(cancelled.post(&cancel).status, 202);
            pulled.join().expect("the pull ends")
        });
        assert!(answers.len() <= 1, "{answers:?}");
        let delivered = match answers.first() {
            Some(answer) if answer["result"]["isError"] != true => {
                answer["result"]["structuredContent"]["job"]["id"].clone()
            }
            _ => {
                let again = json!({ "queue": "q", "timeoutMs": 30_000 });
                other.call("bunqueue_pull_job", &again).value["job"]["id"].clone()
            }
        };
        assert_eq!(delivered, json!(id), "{answers:?}");
        let ack = other.call("bunqueue_ack_job", &json!({ "jobId": id }));
        assert!(!ack.is_error, "{}", ack.text);
    }
}
