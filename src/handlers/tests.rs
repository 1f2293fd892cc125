//! Handlers on a broker in this process, against a server on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method as HttpMethod, StatusCode, Uri, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Handlers, Method, Target, TargetError, TargetHosts};
use crate::broker::{Broker, BrokerExt, EventFilter, LocalBroker, Subscription};
use crate::command::{Add, GetJob, QueueName, payload};
use crate::engine::{
    Config, EventType, EventTypes, JobDetail, JobId, NewJob, Payload, State as JobState,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// What the server was asked.
struct Asked {
    method: HttpMethod,
    headers: HeaderMap,
    body: String,
}

async fn answer(
    State(asked): State<mpsc::UnboundedSender<Asked>>,
    method: HttpMethod,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> axum::response::Response {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let json = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    let _ = asked.send(Asked {
        method,
        headers,
        body: body.clone(),
    });
    match uri.path() {
        "/json" => (json, "{\"n\":1,\"$binary\":true}").into_response(),
        "/broken" => (json, "{\"n\":").into_response(),
        "/text" => "plain".into_response(),
        "/echo" => body.into_response(),
        "/down" => (StatusCode::SERVICE_UNAVAILABLE, json, "{\"why\":\"down\"}").into_response(),
        "/long" => (StatusCode::BAD_GATEWAY, "x".repeat(5_000)).into_response(),
        "/moved" => (StatusCode::FOUND, [(header::LOCATION, "/text")], "").into_response(),
        "/large" => "x".repeat(super::ANSWER_BYTES_MAX + 1).into_response(),
        "/wait" => std::future::pending().await,
        other => panic!("{other} was asked for"),
    }
}

struct World {
    broker: Arc<dyn Broker>,
    handlers: Handlers,
    /// Jobs that end, and jobs that go back.
    events: Subscription,
    shutdown: CancellationToken,
    address: SocketAddr,
    asked: mpsc::UnboundedReceiver<Asked>,
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

impl World {
    async fn new() -> Self {
        let (sender, asked) = mpsc::unbounded_channel();
        let app = Router::new().fallback(answer).with_state(sender);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
        let shutdown = CancellationToken::new();
        let handlers = Handlers::new(broker.clone(), TargetHosts::default(), shutdown.clone());
        let types = EventTypes::NONE
            .with(EventType::Completed)
            .with(EventType::Failed);
        let queue = queue().shared();
        let events = broker.subscribe(EventFilter { queue, types });
        Self {
            broker,
            handlers,
            events,
            shutdown,
            address,
            asked,
        }
    }

    fn target(&self, method: Method, path: &str) -> Target {
        let url = format!("http://{}{path}", self.address);
        Target::new(&url, method, &[], None, PATIENCE).unwrap()
    }

    async fn add(&self, data: &Value) -> JobId {
        let job = NewJob {
            name: "n".into(),
            data: Some(Payload::new(&payload::from_value(data).unwrap())),
            max_attempts: 1,
            ..NewJob::default()
        };
        let add = Add {
            queue: queue(),
            job,
        };
        self.broker.call(add).await.unwrap().id
    }

    async fn job(&self, id: &JobId) -> JobDetail {
        let found = self.broker.call(GetJob { id: id.clone() }).await;
        *found.unwrap().unwrap()
    }

    /// A job that is added and ends.
    async fn done(&mut self, data: &Value) -> JobDetail {
        let id = self.add(data).await;
        let ended = tokio::time::timeout(PATIENCE, self.events.next()).await;
        let event = ended.expect("the end of a job").unwrap();
        assert_eq!(event.event().job.as_ref(), Some(&id));
        self.job(&id).await
    }

    /// What a completed job has for a result.
    async fn result(&mut self, data: &Value) -> Value {
        let job = self.done(data).await;
        assert_eq!(job.job.state, JobState::Completed, "{job:?}");
        payload::to_value(job.result.unwrap().bytes())
    }

    /// Why a job has failed.
    async fn reason(&mut self) -> String {
        let job = self.done(&json!({})).await;
        assert_eq!(job.job.state, JobState::Failed, "{job:?}");
        job.failure.unwrap().error.unwrap().to_string()
    }

    fn handle(&self, target: Target) {
        self.handlers.register(&queue(), target).unwrap();
    }

    async fn next(&mut self) -> Asked {
        let asked = tokio::time::timeout(PATIENCE, self.asked.recv()).await;
        asked.expect("a call").unwrap()
    }
}

#[tokio::test]
async fn the_data_is_sent_and_the_answer_is_the_result() {
    let mut world = World::new().await;
    world.handle(world.target(Method::Post, "/json"));
    let data = json!({ "v": 7 });
    let result = world.result(&data).await;
    assert_eq!(result["status"], 200);
    // What looks like a tagged value is none.
    assert_eq!(result["body"], json!({ "n": 1, "$binary": true }));
    let asked = world.next().await;
    assert_eq!(asked.method, HttpMethod::POST);
    assert_eq!(asked.headers[header::CONTENT_TYPE], "application/json");
    assert_eq!(asked.body, "{\"v\":7}");
}

#[tokio::test]
async fn a_body_and_headers_of_its_own_take_the_place_of_the_usual() {
    let mut world = World::new().await;
    let url = format!("http://{}/echo", world.address);
    let headers = [("Authorization", "s3cret"), ("content-type", "text/x")];
    let body = Some(json!(["fixed"]));
    let target = Target::new(&url, Method::Put, &headers, body, PATIENCE).unwrap();
    assert!(!format!("{target:?}").contains("s3cret"), "{target:?}");
    assert_eq!(target.header_names(), ["authorization", "content-type"]);
    world.handle(target);
    let result = world.result(&json!({ "v": 7 })).await;
    assert_eq!(result, json!({ "status": 200, "body": "[\"fixed\"]" }));
    let asked = world.next().await;
    assert_eq!(asked.headers["authorization"], "s3cret");
    assert_eq!(asked.headers[header::CONTENT_TYPE], "text/x");
}

#[tokio::test]
async fn calls_without_a_body_have_none_and_text_stays_text() {
    let mut world = World::new().await;
    for method in [Method::Get, Method::Delete] {
        world.handle(world.target(method, "/text"));
        let result = world.result(&json!({ "v": 7 })).await;
        assert_eq!(result, json!({ "status": 200, "body": "plain" }));
        let asked = world.next().await;
        assert_eq!((asked.method.as_str(), &*asked.body), (method.name(), ""));
    }
    world.handle(world.target(Method::Post, "/broken"));
    let result = world.result(&json!({})).await;
    assert_eq!(result["body"], "{\"n\":");
}

#[tokio::test]
async fn whatever_is_no_success_fails_the_job_with_what_was_answered() {
    let mut world = World::new().await;
    let mut failures = world.handlers.failures();
    for (path, reason) in [
        ("/down", "HTTP 503: {\"why\":\"down\"}".to_owned()),
        ("/moved", "HTTP 302: ".to_owned()),
        ("/large", "Response body too large (max 1 MiB)".to_owned()),
        ("/long", format!("HTTP 502: {}", "x".repeat(990))),
    ] {
        world.handle(world.target(Method::Post, path));
        assert_eq!(world.reason().await, reason, "{path}");
        let told = failures.recv().await.unwrap();
        assert!(
            told.message.ends_with(&reason) && &*told.queue == "q",
            "{told:?}"
        );
    }
    let closed = Target::new(
        "http://127.0.0.1:9/s3cret",
        Method::Get,
        &[],
        None,
        PATIENCE,
    );
    world.handle(closed.unwrap());
    assert_eq!(
        world.reason().await,
        "Request failed: the server cannot be reached"
    );
}

#[tokio::test]
async fn a_call_takes_no_longer_than_it_may() {
    let mut world = World::new().await;
    let url = format!("http://{}/wait", world.address);
    let timeout = Duration::from_millis(50);
    world.handle(Target::new(&url, Method::Get, &[], None, timeout).unwrap());
    assert_eq!(world.reason().await, "Request timed out after 50 ms");
}

#[tokio::test]
async fn a_job_in_work_goes_back_and_costs_no_attempt() {
    let mut world = World::new().await;
    world.handle(world.target(Method::Post, "/wait"));
    let id = world.add(&json!({})).await;
    world.next().await;
    assert_eq!(world.job(&id).await.job.state, JobState::Active);
    // The one after it begins once the first has let go.
    world.handle(world.target(Method::Post, "/text"));
    let event = tokio::time::timeout(PATIENCE, world.events.next())
        .await
        .unwrap();
    assert_eq!(event.unwrap().event().job, Some(id.clone()));
    let job = world.job(&id).await;
    assert_eq!((job.job.state, job.job.attempts), (JobState::Completed, 0));

    world.handle(world.target(Method::Post, "/wait"));
    let id = world.add(&json!({})).await;
    while world.next().await.method != HttpMethod::POST {}
    world.shutdown.cancel();
    tokio::time::timeout(PATIENCE, world.handlers.ended())
        .await
        .unwrap();
    let job = world.job(&id).await;
    assert_eq!((job.job.state, job.job.attempts), (JobState::Waiting, 0));
}

#[tokio::test]
async fn one_that_is_removed_takes_no_more_jobs() {
    let world = World::new().await;
    assert!(!world.handlers.unregister("q"));
    world.handle(world.target(Method::Post, "/text"));
    assert!(world.handlers.has("q"));
    let [(name, target)] = world.handlers.list().try_into().unwrap();
    assert_eq!((&*name, target.url().path()), ("q", "/text"));
    assert!(world.handlers.unregister("q"));
    assert!(!world.handlers.unregister("q") && !world.handlers.has("q"));
    world.shutdown.cancel();
    tokio::time::timeout(PATIENCE, world.handlers.ended())
        .await
        .unwrap();
    let id = world.add(&json!({})).await;
    assert_eq!(world.job(&id).await.job.state, JobState::Waiting);
}

#[tokio::test]
async fn only_allowed_hosts_can_be_called() {
    let broker: Arc<dyn Broker> = Arc::new(LocalBroker::start(Config::default()).unwrap());
    let hosts = ["x.example", "127.0.0.1:80"].map(|host| host.parse().unwrap());
    let hosts = TargetHosts(Some(hosts.to_vec()));
    let handlers = Handlers::new(broker, hosts, CancellationToken::new());
    let register = |url| {
        let target = Target::new(url, Method::Get, &[], None, PATIENCE).unwrap();
        handlers.register(&queue(), target).map(|_| ())
    };
    assert_eq!(register("http://127.0.0.1:81/"), Err(TargetError::Host));
    assert_eq!(register("http://y.example/"), Err(TargetError::Host));
    assert_eq!(register("https://x.example:8443/"), Ok(()));
    assert_eq!(register("http://127.0.0.1/"), Ok(()));
}

#[test]
fn what_cannot_be_called_is_no_target() {
    let fault = |url: &str, headers: &[(&str, &str)]| {
        let made = Target::new(url, Method::Get, headers, None, PATIENCE);
        made.unwrap_err().to_string()
    };
    for (url, text) in [
        ("", "absolute http or https URL"),
        ("/path", "absolute http or https URL"),
        ("ftp://x.example", "absolute http or https URL"),
        ("http://u:p@x.example", "user name or password"),
    ] {
        assert!(fault(url, &[]).contains(text), "{url}");
    }
    let long = format!("http://x.example/{}", "x".repeat(2_048));
    assert!(fault(&long, &[]).contains("at most 2048"));
    let many = vec![("x-y", "z"); super::HEADERS_MAX + 1];
    for (headers, text) in [
        (&[("a b", "c")][..], "names of HTTP headers"),
        (&[("a", "b\r\nc: d")], "without line breaks"),
        (&[("Content-Length", "3")], "must not set connection"),
        (&many, "at most 50"),
    ] {
        let fault = fault("http://x.example", headers);
        assert!(fault.contains(text), "{fault}");
    }
}
