//! One call for one job.

use std::sync::OnceLock;

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

use super::target::{Target, TargetError, TargetHosts};
use crate::command::payload;
use crate::engine::{JobView, Payload};
use crate::net;

/// Bytes of an answer, which becomes the result of its job.
pub const ANSWER_BYTES_MAX: usize = 1_024 * 1_024;
/// Characters of the reason why a job has failed.
const ERROR_MAX: usize = 1_000;

/// Makes the calls of all handlers.
pub(super) struct Caller {
    hosts: TargetHosts,
    /// Made by the first call; `None` inside when it could not be made.
    client: OnceLock<Option<reqwest::Client>>,
}

impl Caller {
    pub(super) const fn new(hosts: TargetHosts) -> Self {
        Self {
            hosts,
            client: OnceLock::new(),
        }
    }

    /// Whether it may be called.
    ///
    /// # Errors
    /// [`TargetError::Host`].
    pub(super) fn check(&self, target: &Target) -> Result<(), TargetError> {
        self.hosts.check(target.url())
    }

    fn client(&self) -> Option<&reqwest::Client> {
        let make = || {
            let made = net::outgoing().and_then(|client| Ok(client.build()?));
            made.inspect_err(|error| tracing::error!(%error, "handlers cannot call anybody"))
                .ok()
        };
        self.client.get_or_init(make).as_ref()
    }

    /// The result of the job.
    ///
    /// # Errors
    /// Why it has failed, in words.
    pub(super) async fn call(&self, target: &Target, job: &JobView) -> Result<Payload, String> {
        let client = self.client().ok_or("no HTTP client can be made")?;
        let method = target.method.name().parse().map_err(|_| "no such method")?;
        let mut request = client
            .request(method, target.url().clone())
            .timeout(target.timeout);
        let mut headers = target.headers().clone();
        let json = HeaderValue::from_static("application/json");
        headers.entry(CONTENT_TYPE).or_insert(json);
        request = request.headers(headers);
        if target.method.has_body() {
            request = request.body(body(target, job));
        }
        let mut answer = request
            .send()
            .await
            .map_err(|error| broken(target, &error))?;
        let status = answer.status();
        let is_json = answer
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.to_ascii_lowercase().contains("json"));
        let mut read = Vec::new();
        while let Some(chunk) = answer
            .chunk()
            .await
            .map_err(|error| broken(target, &error))?
        {
            if read.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err("Response body too large (max 1 MiB)".into());
            }
            read.extend_from_slice(&chunk);
        }
        let text = String::from_utf8_lossy(&read);
        if !status.is_success() {
            return Err(cut(&format!("HTTP {}: {text}", status.as_u16())));
        }
        let parsed = is_json.then(|| serde_json::from_str(&text).ok()).flatten();
        let body = parsed.unwrap_or_else(|| Value::from(&*text));
        result(&json!({ "status": status.as_u16(), "body": body }))
    }
}

fn body(target: &Target, job: &JobView) -> String {
    match (&target.body, &job.data) {
        (Some(body), _) => body.to_string(),
        (None, Some(data)) => payload::to_json(data.bytes()),
        (None, None) => "null".into(),
    }
}

/// As it is: what a server answers says nothing about values that JSON lacks.
fn result(value: &Value) -> Result<Payload, String> {
    let bytes = rmp_serde::to_vec_named(value).map_err(|error| error.to_string())?;
    Ok(Payload::new(&bytes))
}

/// Why there was no answer. The texts of the client would name the address, which may hold a secret.
fn broken(target: &Target, error: &reqwest::Error) -> String {
    if error.is_timeout() {
        format!("Request timed out after {} ms", target.timeout.as_millis())
    } else if error.is_connect() {
        "Request failed: the server cannot be reached".into()
    } else {
        "Request failed: the connection broke".into()
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(ERROR_MAX) {
        None => text.to_owned(),
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
    }
}
