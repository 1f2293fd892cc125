//! The answers of our own layer, and the checks that need nothing but the head of a request.
//!
//! Order, statuses, codes, texts and headers are those of the MCP contract, section 3.2; the numbers in comments are its rows.
//! Row 0 comes first only for a body whose length is declared: one that turns out too long while it is read is refused at
//! that point, so that a foreign host or a wrong token never makes the server read a body.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use rmcp::model::RequestId;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::HttpConfig;
use super::authority::Accepted;
use crate::mcp::envelope::{self, INVALID_REQUEST, PARSE_ERROR};

/// Session of a handshake revision.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// Revision of the protocol.
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Revision that has no sessions.
const STATELESS: &str = "2026-07-28";

/// A request that this layer answers itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Row 0.
    TooLarge,
    /// Row 1.
    Host,
    /// Row 1.
    Origin,
    /// Row 2, with the paths that there are.
    Path(Arc<[String]>),
    /// Row 3.
    NoToken,
    /// Row 3.
    WrongToken,
    /// Row 4.
    Method,
    /// Section 4.2: no streams and no sessions to end in the revision without sessions.
    StatelessMethod,
    /// Row 5.
    UnknownSession,
    /// Rows 6 and 8.
    NoSession,
    /// The body came to a halt, or its end.
    CutOff,
    /// Row 7.
    NotJson,
    /// Row 7, with the `id` of the request and the reason.
    Unreadable(RequestId, &'static str),
    /// Row 7.
    NotOneMessage,
    /// Row 9, with the limit.
    SessionLimit(usize),
    /// Row 10.
    ShuttingDown,
    /// Row 11.
    SecondStream,
    /// Row 13.
    Internal,
}

impl Refusal {
    fn parts(&self) -> (StatusCode, i32, Cow<'static, str>) {
        let (status, code, message) = match self {
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                -32000,
                "Payload too large".into(),
            ),
            Self::Host => (
                StatusCode::FORBIDDEN,
                -32000,
                "Forbidden: invalid Host header".into(),
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                -32000,
                "Forbidden: invalid Origin header".into(),
            ),
            Self::Path(_) => (StatusCode::NOT_FOUND, -32000, "Not found".into()),
            Self::NoToken => (
                StatusCode::UNAUTHORIZED,
                -32001,
                "Unauthorized: bearer token required".into(),
            ),
            Self::WrongToken => (
                StatusCode::UNAUTHORIZED,
                -32001,
                "Unauthorized: invalid bearer token".into(),
            ),
            Self::Method | Self::StatelessMethod => (
                StatusCode::METHOD_NOT_ALLOWED,
                -32000,
                "Method not allowed.".into(),
            ),
            Self::UnknownSession => (StatusCode::NOT_FOUND, -32001, "Session not found".into()),
            Self::NoSession => (
                StatusCode::BAD_REQUEST,
                -32000,
                "Bad Request: Mcp-Session-Id header is required".into(),
            ),
            Self::CutOff => (
                StatusCode::REQUEST_TIMEOUT,
                -32000,
                "Request timeout: the body is incomplete".into(),
            ),
            Self::NotJson => (
                StatusCode::BAD_REQUEST,
                PARSE_ERROR,
                "Parse error: Invalid JSON".into(),
            ),
            Self::Unreadable(_, reason) => (
                StatusCode::BAD_REQUEST,
                PARSE_ERROR,
                format!("Parse error: {reason}").into(),
            ),
            Self::NotOneMessage => (
                StatusCode::BAD_REQUEST,
                INVALID_REQUEST,
                "Invalid Request: one JSON-RPC message per request".into(),
            ),
            Self::SessionLimit(limit) => (
                StatusCode::SERVICE_UNAVAILABLE,
                -32000,
                Cow::from(format!(
                    "Service unavailable: session limit reached ({limit})"
                )),
            ),
            Self::ShuttingDown => (
                StatusCode::SERVICE_UNAVAILABLE,
                -32000,
                "Service unavailable: server is shutting down".into(),
            ),
            Self::SecondStream => (
                StatusCode::CONFLICT,
                -32000,
                "Conflict: Only one SSE stream is allowed per session".into(),
            ),
            Self::Internal => (
                StatusCode::INTERNAL_SERVER_ERROR,
                -32603,
                "Internal error".into(),
            ),
        };
        (status, code, message)
    }

    fn header(&self) -> Option<(HeaderName, &'static str)> {
        match self {
            Self::NoToken => Some((header::WWW_AUTHENTICATE, r#"Bearer realm="bunqueue-mcp""#)),
            Self::WrongToken => Some((
                header::WWW_AUTHENTICATE,
                r#"Bearer realm="bunqueue-mcp", error="invalid_token""#,
            )),
            Self::Method => Some((header::ALLOW, "GET, POST, DELETE")),
            Self::StatelessMethod => Some((header::ALLOW, "POST")),
            Self::SessionLimit(_) => Some((header::RETRY_AFTER, "1")),
            _ => None,
        }
    }

    pub(super) fn into_response(self) -> Response {
        let (status, code, message) = self.parts();
        let id = match &self {
            Self::Unreadable(id, _) => Some(id),
            _ => None,
        };
        let text = match &self {
            Self::Path(known) if !known.is_empty() => {
                let data = serde_json::json!({ "paths": &**known });
                envelope::error_text_with(code, &message, &data)
            }
            _ => envelope::error_text(code, &message, id),
        };
        let mut response = json(status, text);
        if let Some((name, value)) = self.header() {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// A JSON answer.
pub(super) fn json(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// Who sent a request: the place of its token in the list, `None` where no tokens are asked for.
pub(super) type Principal = Option<usize>;

/// What one endpoint lets in.
pub(super) struct Checks {
    path: String,
    max_body: u64,
    accepted: Accepted,
    tokens: Vec<[u8; 32]>,
    known_paths: Arc<[String]>,
}

impl Checks {
    pub(super) fn new(config: &HttpConfig) -> Self {
        let mut tokens: Vec<[u8; 32]> = Vec::with_capacity(config.tokens.len());
        for token in &config.tokens {
            let token = digest(token.as_bytes());
            // Each token once, so that at most one place matches.
            if !tokens.contains(&token) {
                tokens.push(token);
            }
        }
        Self {
            path: config.path.trim_end_matches('/').to_owned(),
            max_body: u64::try_from(config.max_body).unwrap_or(u64::MAX),
            accepted: Accepted::new(config),
            tokens,
            known_paths: config.known_paths.as_slice().into(),
        }
    }

    /// Rows 0 to 4 and the methods of the revision without sessions.
    pub(super) fn head(&self, parts: &Parts) -> Result<Principal, Refusal> {
        let headers = &parts.headers;
        if declared_length(headers).is_some_and(|length| length > self.max_body) {
            return Err(Refusal::TooLarge);
        }
        self.source(headers)?;
        if !self.is_endpoint(parts.uri.path()) {
            return Err(self.unknown_path());
        }
        let principal = self.token(headers)?;
        match parts.method {
            Method::POST => Ok(principal),
            Method::GET | Method::DELETE if is_stateless(headers) => Err(Refusal::StatelessMethod),
            Method::GET | Method::DELETE => Ok(principal),
            _ => Err(Refusal::Method),
        }
    }

    /// Row 1.
    pub(super) fn source(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        // A second header of the same name is a try to slip past whoever looks at the first.
        match single(headers, &header::HOST) {
            Some(Some(host)) if self.accepted.host(host) => {}
            _ => return Err(Refusal::Host),
        }
        match single(headers, &header::ORIGIN) {
            None => Ok(()),
            Some(Some(origin)) if self.accepted.origin(origin) => Ok(()),
            Some(_) => Err(Refusal::Origin),
        }
    }

    /// Row 2.
    pub(super) fn unknown_path(&self) -> Refusal {
        Refusal::Path(Arc::clone(&self.known_paths))
    }

    fn is_endpoint(&self, path: &str) -> bool {
        // The root is the one path that keeps its slash.
        path == self.path || (self.path.is_empty() && path == "/")
    }

    /// Row 3. Looks at every token, also after a match, and compares digests: neither the place of the right token nor the
    /// length of a common start shows in the time it takes.
    pub(super) fn token(&self, headers: &HeaderMap) -> Result<Principal, Refusal> {
        if self.tokens.is_empty() {
            return Ok(None);
        }
        let given = single(headers, &header::AUTHORIZATION)
            .flatten()
            .and_then(bearer)
            .ok_or(Refusal::NoToken)?;
        let given = digest(given.as_bytes());
        let mut found = 0;
        let mut matched = Choice::from(0);
        for (place, token) in self.tokens.iter().enumerate() {
            let equal = token.ct_eq(&given);
            matched |= equal;
            found += place * usize::from(equal.unwrap_u8());
        }
        if bool::from(matched) {
            Ok(Some(found))
        } else {
            Err(Refusal::WrongToken)
        }
    }
}

/// Whether a request declares the revision without sessions.
pub(super) fn is_stateless(headers: &HeaderMap) -> bool {
    headers
        .get(PROTOCOL_VERSION)
        .is_some_and(|value| value == STATELESS)
}

/// `None` without such a header, `Some(None)` when it is unreadable or there are several.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<Option<&'h str>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    Some(match values.next() {
        None => first.to_str().ok(),
        Some(_) => None,
    })
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// The token of an `Authorization` header; the scheme is case-insensitive.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}
