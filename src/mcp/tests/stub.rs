//! A decision model on loopback that answers as it is told.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::mcp::{DecisionModel, DecisionOptions};

/// The model; it ends with the test's runtime.
pub(super) struct Stub {
    pub(super) address: std::net::SocketAddr,
    said: Arc<Mutex<Said>>,
}

#[derive(Default)]
struct Said {
    /// What it answers next, in order; the last one for ever.
    answers: Vec<(u16, Value)>,
    requests: Vec<(HeaderMap, Value)>,
}

impl Stub {
    pub(super) async fn start() -> Self {
        let said: Arc<Mutex<Said>> = Arc::default();
        let app = Router::new()
            .route("/decide", post(answer))
            .with_state(said.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, said }
    }

    /// Answers everything from now on like this.
    pub(super) fn answer(&self, status: u16, body: Value) {
        self.answers([(status, body)]);
    }

    /// Answers in this order.
    pub(super) fn answers(&self, answers: impl IntoIterator<Item = (u16, Value)>) {
        self.said.lock().answers = answers.into_iter().collect();
    }

    pub(super) fn requests(&self) -> usize {
        self.said.lock().requests.len()
    }

    /// The body of the last request.
    pub(super) fn last(&self) -> Value {
        self.said.lock().requests.last().unwrap().1.clone()
    }

    /// A header of the last request.
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let said = self.said.lock();
        let value = said.requests.last()?.0.get(name)?;
        Some(value.to_str().unwrap().to_owned())
    }
}

async fn answer(
    State(said): State<Arc<Mutex<Said>>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let mut said = said.lock();
    said.requests
        .push((headers, serde_json::from_slice(&body).unwrap()));
    let (status, body) = match said.answers.len() {
        0 => (500, json!({})),
        1 => said.answers[0].clone(),
        _ => said.answers.remove(0),
    };
    (StatusCode::from_u16(status).unwrap(), body.to_string())
}

/// A client of it.
pub(super) fn model(stub: &Stub, threshold: f64) -> DecisionModel {
    let options = DecisionOptions {
        provider: "systemone",
        model: "m".into(),
        key: Some("s3cret".into()),
        url: format!("http://{}/decide", stub.address).parse().unwrap(),
        timeout: Duration::from_secs(20),
        threshold,
    };
    DecisionModel::new(options).unwrap()
}
