//! Deadlines, on a clock that only moves when everything waits: idle sessions, silent streams, the time to stop.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::response::Response;
use futures_util::StreamExt;
use tokio::time::{Instant, sleep};

use super::*;
use crate::mcp::STOP_GRACE;
use crate::mcp::echo_server::EchoServer;
use crate::mcp::http::endpoint::Endpoint;
use crate::mcp::http::sessions::Sessions;
use crate::mcp::http::stopping::{self, Flights};

const HOUR: Duration = Duration::from_secs(3600);

/// An endpoint called without a socket, which a paused clock would not wait for.
struct Direct {
    endpoint: Endpoint<EchoServer>,
    watched: Watched,
}

impl Direct {
    fn new() -> Self {
        let watched = Watched::new();
        let handlers = watched.clone();
        let mut config = HttpConfig::new("127.0.0.1", 80);
        config.session_ttl = HOUR;
        config.max_sessions = 1;
        let shutdown = watched.shutdown.clone();
        Self {
            endpoint: Endpoint::start(move || handlers.handler(), &config, shutdown),
            watched,
        }
    }

    async fn ask(&self, method: &str, session: Option<&str>, body: &Value) -> Response {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(id) = session {
            request = request.header("mcp-session-id", id);
        }
        let request = request
            .body(Body::from(body.to_string()))
            .expect("a request");
        self.endpoint.answer(request).await
    }

    /// The status of an answer, which is read to its end.
    async fn status(&self, method: &str, session: Option<&str>, body: &Value) -> u16 {
        let response = self.ask(method, session, body).await;
        let status = response.status().as_u16();
        let mut body = response.into_body().into_data_stream();
        while let Some(part) = body.next().await {
            part.expect("a whole body");
        }
        status
    }

    async fn session(&self) -> String {
        let response = self.ask("POST", None, &initialize("2025-11-25")).await;
        assert_eq!(response.status(), 200);
        let id = response.headers().get("mcp-session-id").expect("an id");
        id.to_str().expect("text").to_owned()
    }

    /// Calls `wait` and gives its stream once the handler waits.
    async fn waiting(&self, session: &str, id: i64) -> BodyDataStream {
        let before = self.watched.seen().waits;
        let response = self.ask("POST", Some(session), &call(id, "wait")).await;
        assert_eq!(response.status(), 200);
        self.watched.until(|seen| seen.waits > before).await;
        response.into_body().into_data_stream()
    }

    fn is_open(&self, session: &str) -> bool {
        self.endpoint.sessions.is_open(session)
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_ends_after_its_time_and_any_message_starts_it_anew() {
    let site = Direct::new();
    let id = site.session().await;
    for number in 0..3 {
        sleep(HOUR * 9 / 10).await;
        assert!(site.is_open(&id), "round {number}");
        let status = site.status("POST", Some(&id), &call(number, "echo")).await;
        assert_eq!(status, 200, "round {number}");
    }
    // The sweep comes every minute at most.
    sleep(HOUR + Duration::from_secs(61)).await;
    assert!(!site.is_open(&id));
    assert_eq!(site.status("POST", Some(&id), &call(9, "echo")).await, 404);
    // Its place is free.
    site.session().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_is_busy_while_a_call_waits_even_after_its_client_hung_up() {
    let site = Direct::new();
    let id = site.session().await;
    drop(site.waiting(&id, 1).await);
    sleep(HOUR * 5).await;
    assert!(site.is_open(&id));
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(site.status("POST", Some(&id), &note).await, 202);
    site.watched.until(|seen| seen.cancelled == 1).await;
    sleep(HOUR * 9 / 10).await;
    assert!(site.is_open(&id));
    sleep(HOUR).await;
    assert!(!site.is_open(&id));
}

#[tokio::test(start_paused = true)]
async fn a_standalone_stream_does_not_keep_a_session_and_ends_with_it() {
    let site = Direct::new();
    let id = site.session().await;
    let response = site.ask("GET", Some(&id), &Value::Null).await;
    assert_eq!(response.status(), 200);
    let mut stream = response.into_body().into_data_stream();
    sleep(HOUR * 9 / 10).await;
    assert!(site.is_open(&id));
    sleep(HOUR / 10 + Duration::from_secs(61)).await;
    assert!(!site.is_open(&id));
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_cancels_its_waits_at_once() {
    let site = Direct::new();
    let id = site.session().await;
    let mut stream = site.waiting(&id, 1).await;
    let start = Instant::now();
    assert_eq!(site.status("DELETE", Some(&id), &Value::Null).await, 200);
    site.watched.until(|seen| seen.cancelled == 1).await;
    assert!(stream.next().await.is_none());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_standalone_streams_at_once_and_a_hanging_call_when_its_time_is_over() {
    let site = Direct::new();
    let id = site.session().await;
    let response = site.ask("GET", Some(&id), &Value::Null).await;
    let mut standalone = response.into_body().into_data_stream();
    let response = site.ask("POST", Some(&id), &call(1, "hang")).await;
    let mut hanging = response.into_body().into_data_stream();
    let start = Instant::now();
    site.watched.shutdown.cancel();
    assert!(standalone.next().await.is_none());
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(hanging.next().await.is_none());
    // The clock counts in whole milliseconds.
    assert!(start.elapsed() - STOP_GRACE <= Duration::from_millis(1));
}

#[tokio::test]
async fn a_session_that_ended_under_a_request_is_unknown_and_no_internal_error() {
    let site = Direct::new();
    let id = site.session().await;
    let failed = || {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        response
    };
    let status = |session: Option<&str>| {
        let refusal = site
            .endpoint
            .settled(failed(), session)
            .expect_err("refused");
        refusal.into_response().status().as_u16()
    };
    assert_eq!(status(Some(&id)), 500);
    assert_eq!(status(None), 500);
    assert_eq!(status(Some("gone")), 404);
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_carries_a_comment_after_fifteen_seconds() {
    let site = Direct::new();
    let id = site.session().await;
    let mut stream = site.waiting(&id, 1).await;
    let start = Instant::now();
    // Only the first one: rmcp sets the timer of the next by the system's clock, which does not stand still here.
    let comment = stream.next().await.expect("a part").expect("a part");
    assert_eq!(comment, ":\n\n");
    assert_eq!(start.elapsed().as_secs(), 15);
}

/// Starts what keeps an endpoint, without one: the counter, the sessions and the token of the streams.
fn kept(shutdown: &CancellationToken) -> (Arc<Flights>, Arc<Sessions>, CancellationToken) {
    let (flights, gone) = Flights::new(shutdown.clone());
    let flights = Arc::new(flights);
    let sessions = Arc::new(Sessions::new(&HttpConfig::new("127.0.0.1", 80)));
    let streams = CancellationToken::new();
    tokio::spawn(stopping::keep(
        Arc::downgrade(&flights),
        gone,
        Arc::downgrade(&sessions),
        shutdown.clone(),
        streams.clone(),
    ));
    (flights, sessions, streams)
}

#[tokio::test(start_paused = true)]
async fn streams_end_when_the_last_request_has_gone_or_its_time_is_over() {
    // Time until the request goes, and until the streams end.
    let cases = [
        (Duration::ZERO, Duration::ZERO),
        (STOP_GRACE / 3, STOP_GRACE / 3),
        (STOP_GRACE * 2, STOP_GRACE),
    ];
    for (goes, ends) in cases {
        let shutdown = CancellationToken::new();
        let (flights, _sessions, streams) = kept(&shutdown);
        let flight = flights.enter().expect("let in");
        shutdown.cancel();
        assert!(flights.enter().is_none());
        let start = Instant::now();
        tokio::spawn(async move {
            sleep(goes).await;
            drop(flight);
        });
        streams.cancelled().await;
        assert_eq!(start.elapsed().as_millis() / 10, ends.as_millis() / 10);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_keeps_an_endpoint_that_was_dropped() {
    let (flights, gone) = Flights::new(CancellationToken::new());
    let flights = Arc::new(flights);
    let sessions = Arc::new(Sessions::new(&HttpConfig::new("127.0.0.1", 80)));
    let streams = CancellationToken::new();
    let keeper = tokio::spawn(stopping::keep(
        Arc::downgrade(&flights),
        gone,
        Arc::downgrade(&sessions),
        CancellationToken::new(),
        streams.clone(),
    ));
    drop((flights, sessions));
    keeper.await.expect("an end");
    assert!(!streams.is_cancelled());
}
