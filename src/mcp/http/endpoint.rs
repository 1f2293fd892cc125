//! The endpoint: what a request must have to reach rmcp, and what becomes of rmcp's answer.
//!
//! `checks` looks at the head of a request, this file at its body and its session (rows 5 to 11 and 13 of the MCP contract,
//! section 3.2). Row 12, media types and revisions, is rmcp's; most of its other refusals cannot be reached any more, the rest
//! are put into the contract's form.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use bytes::BytesMut;
use futures_util::{FutureExt, StreamExt};
use rmcp::ServerHandler;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetMeta, JsonRpcMessage, ProtocolVersion, RequestId,
};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::HttpConfig;
use super::checks::{self, Checks, Principal, Refusal, SESSION_ID};
use super::sessions::{self, Sessions};
use super::stopping::{self, Flights};
use crate::mcp::envelope::{self, Fault, INVALID_PARAMS};

/// Silence after which a stream carries a comment, so that no box on the way takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Of a refused body so much is still read, and for so long, before its connection is given up.
const DISCARD_MAX: usize = 16 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// The MCP endpoint, and the answer to every path that nobody else knows: the checks of host and origin hold there too. Merge
/// it with routers of other paths that have no fallback of their own.
///
/// `factory` makes one handler per session, and in revision 2026-07-28 one per request: it must be cheap. When `shutdown`
/// fires, new requests are refused, standalone streams end at once, and those in flight have 1.5 seconds to answer; handlers
/// that wait are expected to select on the same token.
///
/// # Panics
///
/// Outside a Tokio runtime: it starts the task that sweeps idle sessions.
pub fn router<H>(
    factory: impl Fn() -> H + Send + Sync + Clone + 'static,
    config: &HttpConfig,
    shutdown: CancellationToken,
) -> Router
where
    H: ServerHandler,
{
    let endpoint = Arc::new(Endpoint::start(factory, config, shutdown));
    Router::new().fallback(move |request: Request| {
        let endpoint = endpoint.clone();
        async move { contained(endpoint.answer(request)).await }
    })
}

/// What a request without a right token is answered, for pages that ask for the tokens of the endpoint; `None` for one
/// that has it.
pub fn token_check(
    config: &HttpConfig,
) -> impl Fn(&HeaderMap) -> Option<Response> + Send + Sync + use<> {
    let checks = Checks::new(config);
    move |headers| Some(checks.token(headers).err()?.into_response())
}

/// The answer to every path that nobody knows, for a listener that carries no MCP endpoint.
pub fn unknown_paths(config: &HttpConfig) -> Router {
    let checks = Arc::new(Checks::new(config));
    Router::new().fallback(move |request: Request| {
        let checks = checks.clone();
        async move {
            let (parts, body) = request.into_parts();
            let refusal = match checks.source(&parts.headers) {
                Ok(()) => checks.unknown_path(),
                Err(refusal) => refusal,
            };
            refuse(refusal, &parts, body)
        }
    })
}

/// Row 13 for a panic: it stays in its request.
async fn contained(answer: impl Future<Output = Response>) -> Response {
    AssertUnwindSafe(answer)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| {
            tracing::error!("answering a request panicked");
            Refusal::Internal.into_response()
        })
}

pub(super) struct Endpoint<H> {
    checks: Checks,
    max_body: usize,
    service: StreamableHttpService<H, Sessions>,
    pub(super) sessions: Arc<Sessions>,
    flights: Arc<Flights>,
}

impl<H: ServerHandler> Endpoint<H> {
    /// Makes the endpoint and the task that keeps it: see `router`.
    pub(super) fn start(
        factory: impl Fn() -> H + Send + Sync + 'static,
        config: &HttpConfig,
        shutdown: CancellationToken,
    ) -> Self {
        let streams = CancellationToken::new();
        let sessions = Arc::new(Sessions::new(config));
        let (flights, gone) = Flights::new(shutdown.clone());
        let flights = Arc::new(flights);
        tokio::spawn(stopping::keep(
            Arc::downgrade(&flights),
            gone,
            Arc::downgrade(&sessions),
            shutdown,
            streams.clone(),
        ));
        // Host and origin are ours to judge: one rule decides.
        let settings = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_sse_retry(None)
            .with_max_request_body_bytes(config.max_body)
            .with_cancellation_token(streams);
        Self {
            checks: Checks::new(config),
            max_body: config.max_body,
            service: StreamableHttpService::new(move || Ok(factory()), sessions.clone(), settings),
            sessions,
            flights,
        }
    }

    pub(super) async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let principal = match self.checks.head(&parts) {
            Ok(principal) => principal,
            Err(refusal) => return refuse(refusal, &parts, body),
        };
        if let Err(refusal) = self.session(&parts, principal) {
            return refuse(refusal, &parts, body);
        }
        let answer = match parts.method {
            Method::POST => match read_body(body, self.max_body).await {
                Ok(text) => self.post(parts, text, principal).await,
                Err((refusal, rest)) => return refuse(refusal, &parts, rest),
            },
            Method::GET => self.get(parts).await,
            _ => self.delete(parts).await,
        };
        answer.unwrap_or_else(Refusal::into_response)
    }

    /// Rows 5 and 6.
    fn session(&self, parts: &Parts, principal: Principal) -> Result<(), Refusal> {
        if checks::is_stateless(&parts.headers) {
            return Ok(());
        }
        match session_id(parts) {
            Some(id) if self.sessions.belongs(id, principal) => Ok(()),
            Some(_) => Err(Refusal::UnknownSession),
            None if parts.method == Method::POST => Ok(()),
            None => Err(Refusal::NoSession),
        }
    }

    async fn post(
        &self,
        parts: Parts,
        text: Bytes,
        principal: Principal,
    ) -> Result<Response, Refusal> {
        let message = envelope::read(&text).map_err(|fault| match fault {
            Fault::NotJson => Refusal::NotJson,
            Fault::Unreadable(id, reason) => Refusal::Unreadable(id, reason),
            Fault::NotAMessage(_) => Refusal::NotOneMessage,
        })?;
        let kind = Kind::of(&message, checks::is_stateless(&parts.headers));
        let session = session_id(&parts).map(str::to_owned);
        match (&kind, &session) {
            // A handshake is one of the revisions with sessions, whatever its header says.
            (Kind::Handshake | Kind::Unreadable(..), Some(id))
                if !self.sessions.belongs(id, principal) =>
            {
                return Err(Refusal::UnknownSession);
            }
            (Kind::Ordinary, None) => return Err(Refusal::NoSession),
            (Kind::Unreadable(status, answer), None) => {
                return Ok(checks::json(*status, answer.clone()));
            }
            _ => {}
        }
        let opening = match (kind, &session) {
            (Kind::Handshake, None) => Some(
                self.sessions
                    .reserve(principal)
                    .map_err(Refusal::SessionLimit)?,
            ),
            _ => None,
        };
        let flight = self.flights.enter().ok_or(Refusal::ShuttingDown)?;
        if let Some(answer) = envelope::cursor_fault(&message, &text) {
            return Ok(checks::json(StatusCode::OK, answer));
        }
        let text = envelope::unpacked(&message, &text).map_or(text, Bytes::from);
        let request = self
            .service
            .handle(Request::from_parts(parts, Body::from(text)));
        let response = match opening {
            Some(opening) => sessions::opening(opening, request).await,
            None => request.await,
        };
        let mut response = self.settled(response.map(Body::new), session.as_deref())?;
        // The answer of a rejected handshake names a session that is already gone.
        if let Some(id) = response.headers().get(&SESSION_ID)
            && !id
                .to_str()
                .is_ok_and(|id| self.sessions.belongs(id, principal))
        {
            response.headers_mut().remove(&SESSION_ID);
        }
        Ok(held(response, flight, None))
    }

    async fn get(&self, parts: Parts) -> Result<Response, Refusal> {
        if self.flights.enter().is_none() {
            return Err(Refusal::ShuttingDown);
        }
        let session = session_id(&parts).map(str::to_owned);
        let resumes = parts.headers.contains_key("last-event-id");
        let claim = match &session {
            Some(id) if !resumes => Some(
                self.sessions
                    .claim_stream(id)
                    .ok_or(Refusal::SecondStream)?,
            ),
            _ => None,
        };
        let request = Request::from_parts(parts, Body::empty());
        let response = self.service.handle(request).await.map(Body::new);
        let response = self.settled(response, session.as_deref())?;
        // Not counted as in flight: such a stream has no end of its own.
        Ok(held(response, claim, Some(self.flights.shutdown().clone())))
    }

    async fn delete(&self, parts: Parts) -> Result<Response, Refusal> {
        let _flight = self.flights.enter().ok_or(Refusal::ShuttingDown)?;
        let session = session_id(&parts).map(str::to_owned);
        let request = Request::from_parts(parts, Body::empty());
        let response = self.service.handle(request).await.map(Body::new);
        let mut response = self.settled(response, session.as_deref())?;
        // Some clients log 202 as a session that could not be ended.
        if response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::OK;
        }
        Ok(response)
    }

    /// Puts those of rmcp's refusals that are not row 12 into the contract's form.
    pub(super) fn settled(
        &self,
        response: Response,
        session: Option<&str>,
    ) -> Result<Response, Refusal> {
        let ended = || session.is_some_and(|id| !self.sessions.is_open(id));
        let plain = !response.headers().contains_key(header::CONTENT_TYPE);
        match response.status() {
            // The session may have ended between our look at it and rmcp's.
            StatusCode::NOT_FOUND if plain => Err(Refusal::UnknownSession),
            StatusCode::INTERNAL_SERVER_ERROR if ended() => Err(Refusal::UnknownSession),
            StatusCode::INTERNAL_SERVER_ERROR => Err(Refusal::Internal),
            _ => Ok(response),
        }
    }
}

/// What a message means for sessions.
enum Kind {
    /// Opens a session.
    Handshake,
    /// Opens a lifecycle, but its parameters cannot be read: rmcp would only miss a session. With the answer.
    Unreadable(StatusCode, String),
    /// Belongs to the revision without sessions.
    Stateless,
    /// Needs a session.
    Ordinary,
}

impl Kind {
    fn of(message: &ClientJsonRpcMessage, declared_stateless: bool) -> Self {
        match message {
            JsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::InitializeRequest(_) => Self::Handshake,
                ClientRequest::CustomRequest(custom) if custom.method == "initialize" => {
                    // Of a handshake revision, where an error is an answer like any other.
                    Self::unreadable(
                        StatusCode::OK,
                        "Invalid params: initialize takes protocolVersion, capabilities and clientInfo",
                        &request.id,
                    )
                }
                ClientRequest::DiscoverRequest(_) => Self::Stateless,
                _ if declared_stateless => Self::Stateless,
                ClientRequest::CustomRequest(custom) if custom.method == "server/discover" => {
                    Self::unreadable(
                        StatusCode::BAD_REQUEST,
                        "Invalid params: server/discover takes the revision and the client's capabilities in _meta",
                        &request.id,
                    )
                }
                other if names_stateless_revision(other) => Self::Stateless,
                _ => Self::Ordinary,
            },
            _ if declared_stateless => Self::Stateless,
            _ => Self::Ordinary,
        }
    }

    fn unreadable(status: StatusCode, message: &str, id: &RequestId) -> Self {
        Self::Unreadable(
            status,
            envelope::error_text(INVALID_PARAMS, message, Some(id)),
        )
    }
}

/// Whether rmcp serves a request without a session because of its metadata: it names a revision without handshake, or brings
/// all that such a revision asks for.
fn names_stateless_revision(request: &ClientRequest) -> bool {
    let meta = request.get_meta();
    meta.protocol_version().is_some_and(|version| {
        !version.has_initialize()
            || meta
                .missing_required_keys(&ProtocolVersion::V_2026_07_28)
                .is_empty()
    })
}

fn session_id(parts: &Parts) -> Option<&str> {
    // An unreadable id is an unknown one, not an absent one.
    parts
        .headers
        .get(&SESSION_ID)
        .map(|id| id.to_str().unwrap_or_default())
}

/// Keeps `guard` as long as the stream of an answer is open, and ends that stream when `until` fires.
fn held<G: Send + 'static>(
    response: Response,
    guard: G,
    until: Option<CancellationToken>,
) -> Response {
    let streams = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind == "text/event-stream");
    if !streams {
        return response;
    }
    response.map(|body| {
        let stream = body.into_data_stream().map(move |part| {
            let _open = &guard;
            part
        });
        match until {
            Some(until) => Body::from_stream(stream.take_until(until.cancelled_owned())),
            None => Body::from_stream(stream),
        }
    })
}

/// Refuses a request whose body was not, or not wholly, read. What is left of it is read in the background: a connection
/// closed on a client that still sends is reset, and the client never sees the answer.
fn refuse(refusal: Refusal, parts: &Parts, body: Body) -> Response {
    // A client that asked first has not sent its body and will not after this answer.
    if !body.is_end_stream() && !parts.headers.contains_key(header::EXPECT) {
        tokio::spawn(tokio::time::timeout(DISCARD_TIME, async move {
            let mut body = body.into_data_stream();
            let mut left = DISCARD_MAX;
            while let Some(Ok(part)) = body.next().await {
                let Some(rest) = left.checked_sub(part.len()) else {
                    return;
                };
                left = rest;
            }
        }));
    }
    refusal.into_response()
}

/// Reads a body of at most `limit` bytes; otherwise gives the refusal and what is left of the body.
async fn read_body(body: Body, limit: usize) -> Result<Bytes, (Refusal, Body)> {
    let mut text = BytesMut::new();
    let mut parts = body.into_data_stream();
    while let Some(part) = parts.next().await {
        match part {
            Ok(part) if part.len() <= limit - text.len() => text.extend_from_slice(&part),
            Ok(_) => return Err((Refusal::TooLarge, Body::from_stream(parts))),
            // If it was cut off by the client, nobody is left to read this.
            Err(_) => return Err((Refusal::CutOff, Body::empty())),
        }
    }
    Ok(text.freeze())
}
