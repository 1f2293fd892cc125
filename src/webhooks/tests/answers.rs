//! What a receiver gets, and what its answers do.

use serde_json::json;

use super::*;
use crate::engine::WebhookEvent;

fn packed(value: &serde_json::Value) -> Payload {
    Payload::new(&rmp_serde::to_vec_named(value).unwrap())
}

#[tokio::test]
async fn wh_1_a_completed_job_reaches_its_receiver_signed() {
    let world = World::new();
    let mut receiver = Receiver::answering(Answer::status(204)).await;
    let url = receiver.url();
    let hook = world
        .webhook_with(&url, &["job.completed"], Some("s3cret"))
        .await;
    let id = world.add().await;
    world.pull().await;
    world
        .complete(&id, Some(packed(&json!({ "sent": true }))))
        .await;

    let request = receiver.next().await;
    let body = request.json();
    let names: Vec<_> = body.as_object().unwrap().keys().collect();
    assert_eq!(names, ["event", "timestamp", "jobId", "queue", "data"]);
    assert_eq!(body["event"], "job.completed");
    assert_eq!(body["jobId"], id.to_string());
    assert_eq!(body["queue"], "q");
    assert_eq!(body["data"], json!({ "sent": true }));
    assert!(request.line.starts_with("POST /hook "), "{}", request.line);
    let header = |name| request.header(name);
    assert_eq!(header("Content-Type"), Some("application/json"));
    assert_eq!(header("X-Webhook-Event"), Some("job.completed"));
    let timestamp = body["timestamp"].to_string();
    assert_eq!(header("X-Webhook-Timestamp"), Some(timestamp.as_str()));
    let signature = super::super::body::signature(&WebhookSecret::new("s3cret"), &request.body);
    assert_eq!(header("X-Webhook-Signature"), signature.as_deref());

    world.counted(1, 0).await;
    let listed = world.ask(ListWebhooks).await;
    assert!(listed.list[0].last_triggered >= Some(hook.created_at));
    assert!(!format!("{listed:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_call_without_secret_is_not_signed() {
    let world = World::new();
    let mut receiver = Receiver::answering(Answer::status(200)).await;
    world.webhook(&receiver.url(), &["job.pushed"]).await;
    world.add().await;
    let request = receiver.next().await;
    assert_eq!(request.header("X-Webhook-Signature"), None);
    assert_eq!(request.json()["event"], "job.pushed");
}

#[tokio::test]
async fn every_event_of_a_job_is_told() {
    let world = World::new();
    let mut receiver = Receiver::answering(Answer::status(200)).await;
    let all = WebhookEvent::ALL.map(WebhookEvent::name);
    world.webhook(&receiver.url(), &all).await;
    let id = world.add().await;
    world.pull().await;
    let progress = crate::command::Progress {
        id: id.clone(),
        progress: 42.0,
        message: Some("half".into()),
    };
    world.ask(progress).await;
    world.fail(&id, "boom").await;
    let mut bodies = Vec::new();
    for _ in 0..4 {
        bodies.push(receiver.next().await.json());
    }
    // Calls of one webhook may overtake each other.
    bodies.sort_by_key(|body| all.iter().position(|name| body["event"] == *name));
    let events: Vec<_> = bodies.iter().map(|body| body["event"].clone()).collect();
    assert_eq!(
        events,
        ["job.pushed", "job.started", "job.failed", "job.progress"]
    );
    assert_eq!(bodies[2]["error"], "boom");
    assert_eq!(bodies[2]["terminal"], false);
    assert_eq!(bodies[3]["progress"], 42);
}

#[tokio::test]
async fn wh_2_an_error_is_tried_again_with_growing_waits_and_then_given_up() {
    let delay = Duration::from_millis(30);
    let world = World::with(
        Options {
            retry_delay: delay,
            ..options()
        },
        system_lookup(),
    );
    let mut receiver = Receiver::answering(Answer::status(500)).await;
    world.webhook(&receiver.url(), &["job.pushed"]).await;
    world.add().await;
    let first = receiver.next().await;
    let second = receiver.next().await;
    let third = receiver.next().await;
    assert!(second.at - first.at >= delay);
    assert!(third.at - second.at >= delay * 2);
    assert_eq!(first.body, third.body);
    world.counted(0, 1).await;
    assert!(receiver.come().is_none(), "three attempts, not more");
}

#[tokio::test]
async fn wh_4_an_attempt_with_retries_left_is_told_once() {
    let world = World::new();
    let mut receiver = Receiver::answering(Answer::status(200)).await;
    world.webhook(&receiver.url(), &["job.failed"]).await;
    let id = world.add().await;
    world.pull().await;
    world.fail(&id, "boom").await;
    let body = receiver.next().await.json();
    assert_eq!(
        (&body["error"], &body["terminal"]),
        (&json!("boom"), &json!(false))
    );
    world.counted(1, 0).await;
    assert!(receiver.come().is_none());
}

#[tokio::test]
async fn b_34_redirects_are_failures_and_not_followed() {
    let world = World::new();
    let mut second = Receiver::answering(Answer::status(200)).await;
    let location = format!("Location: {}\r\n", second.url());
    let mut first = Receiver::answering(Answer::Status(307, location)).await;
    world.webhook(&first.url(), &["job.pushed"]).await;
    world.add().await;
    world.counted(0, 1).await;
    for _ in 0..3 {
        first.next().await;
    }
    assert!(second.come().is_none(), "the redirect was followed");
}

#[tokio::test]
async fn any_status_from_200_to_299_is_a_success_and_no_other() {
    let world = World::with(
        Options {
            attempts: 1,
            ..options()
        },
        system_lookup(),
    );
    for status in [200, 201, 204, 299, 300, 304, 400, 401, 404, 429, 503] {
        let receiver = Receiver::answering(Answer::status(status)).await;
        let id = world.webhook(&receiver.url(), &["job.pushed"]).await.id;
        world.add().await;
        let good = status < 300;
        world.counted(u64::from(good), u64::from(!good)).await;
        world.ask(RemoveWebhook { id }).await;
    }
}

#[tokio::test]
async fn what_is_no_http_is_a_failure() {
    let world = World::new();
    let receiver = Receiver::answering(Answer::Raw(b"220 smtp.example ESMTP\r\n")).await;
    world.webhook(&receiver.url(), &["job.pushed"]).await;
    world.add().await;
    world.counted(0, 1).await;
}

#[tokio::test]
async fn an_answer_without_end_is_read_in_part() {
    let world = World::new();
    let receiver = Receiver::answering(Answer::Endless).await;
    world.webhook(&receiver.url(), &["job.pushed"]).await;
    world.add().await;
    world.counted(1, 0).await;
}

#[tokio::test]
async fn a_body_that_never_comes_does_not_undo_the_success() {
    let world = World::with(
        Options {
            attempt_time: Duration::from_millis(100),
            ..options()
        },
        system_lookup(),
    );
    let receiver = Receiver::answering(Answer::Stalling).await;
    world.webhook(&receiver.url(), &["job.pushed"]).await;
    world.add().await;
    world.counted(1, 0).await;
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_given_up() {
    let world = World::with(
        Options {
            attempt_time: Duration::from_millis(50),
            ..options()
        },
        system_lookup(),
    );
    let mut receiver = Receiver::answering(Answer::Nothing).await;
    world.webhook(&receiver.url(), &["job.pushed"]).await;
    world.add().await;
    world.counted(0, 1).await;
    for _ in 0..3 {
        receiver.next().await;
    }
    assert!(receiver.come().is_none());
}

#[tokio::test]
async fn nobody_at_the_port_is_a_failure() {
    let world = World::new();
    // Bound and let go again: nothing listens there.
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", gone.local_addr().unwrap());
    drop(gone);
    world.webhook(&url, &["job.pushed"]).await;
    world.add().await;
    world.counted(0, 1).await;
}
