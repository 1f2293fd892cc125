//! Sessions of the handshake revisions: how many there may be, whose they are, and when an idle one ends.
//!
//! rmcp's own manager moves the messages; it has no cap, knows no owner and counts a waiting call as idle. This one wraps it.
//! Invariants: a session holds one place under the cap from before its handshake until it is closed; it is busy exactly while a
//! request it received has neither been answered nor cancelled; when it ends, what it still has open is cancelled.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use parking_lot::Mutex;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
    JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::HttpConfig;
use super::checks::Principal;
use crate::mcp::ending::Endings;
use crate::mcp::server_info::{CountedSession, OpenSessions};

tokio::task_local! {
    /// The place and the owner of the session that the current request opens. rmcp asks its manager for a session without
    /// saying for whom; the call comes from within the request's own future, so it finds them here.
    static OPENING: std::cell::Cell<Option<Opening>>;
}

/// A session about to be opened. Dropping it gives the place back.
pub(super) struct Opening {
    owner: Principal,
    place: OwnedSemaphorePermit,
}

/// Why a session could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
    #[error("no place was taken for the session")]
    NoPlace,
}

/// All sessions of one endpoint.
pub(super) struct Sessions {
    inner: LocalSessionManager,
    open: Mutex<HashMap<SessionId, Session>>,
    places: Arc<Semaphore>,
    limit: usize,
    ttl: Duration,
    counted: OpenSessions,
}

struct Session {
    owner: Principal,
    traffic: Arc<Traffic>,
    /// Held by its one standalone stream; a second holder is refused.
    stream: Arc<Semaphore>,
    _place: OwnedSemaphorePermit,
    _counted: CountedSession,
}

impl Sessions {
    pub(super) fn new(config: &HttpConfig) -> Self {
        let mut inner = LocalSessionManager::default();
        // Its idle clock runs while a call waits; ours does not.
        inner.session_config.keep_alive = None;
        // An event with empty data, which older TypeScript clients cannot read, and one more write per answer.
        inner.session_config.sse_retry = None;
        let limit = config.max_sessions.min(Semaphore::MAX_PERMITS);
        Self {
            inner,
            open: Mutex::default(),
            places: Arc::new(Semaphore::new(limit)),
            limit,
            ttl: config.session_ttl,
            counted: config.open_sessions.clone(),
        }
    }

    /// Takes a place for a session, or tells the limit.
    pub(super) fn reserve(&self, owner: Principal) -> Result<Opening, usize> {
        match self.places.clone().try_acquire_owned() {
            Ok(place) => Ok(Opening { owner, place }),
            Err(_) => Err(self.limit),
        }
    }

    /// Whether this session is open and belongs to that principal.
    pub(super) fn belongs(&self, id: &str, principal: Principal) -> bool {
        self.open
            .lock()
            .get(id)
            .is_some_and(|session| session.owner == principal)
    }

    /// Whether this session is open, whoever owns it.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.lock().contains_key(id)
    }

    /// Whether a message may go on to its session; see `Endings::admit`. Asked before rmcp's session sees it: that one closes
    /// the stream of a cancelled request, whatever becomes of its answer.
    fn admit(&self, id: &SessionId, message: &mut ClientJsonRpcMessage) -> bool {
        let open = self.open.lock();
        let traffic = open.get(id).map(|session| session.traffic.clone());
        drop(open);
        traffic.is_none_or(|traffic| traffic.admit(message))
    }

    /// Takes the right to the standalone stream of a session; `None` while another one is open.
    pub(super) fn claim_stream(&self, id: &str) -> Option<OwnedSemaphorePermit> {
        let stream = self.open.lock().get(id)?.stream.clone();
        stream.try_acquire_owned().ok()
    }

    /// How often `sweep` is due.
    pub(super) fn sweep_period(&self) -> Duration {
        (self.ttl / 2).clamp(Duration::from_millis(10), Duration::from_secs(60))
    }

    /// Closes the sessions that have been idle for their time.
    pub(super) async fn sweep(&self) {
        let now = Instant::now();
        // Out of the table first: from here on a request finds no such session, none slips in between.
        let expired: Vec<SessionId> = self
            .open
            .lock()
            .extract_if(|_, session| session.traffic.idle_for(now) >= Some(self.ttl))
            .map(|(id, _)| id)
            .collect();
        for id in expired {
            if let Err(error) = self.inner.close_session(&id).await {
                tracing::warn!(%error, "closing an idle session failed");
            }
        }
    }
}

/// Runs the request that opens a session; `opening` goes to the session or, if none comes of it, back.
pub(super) async fn opening<F: Future>(opening: Opening, request: F) -> F::Output {
    OPENING
        .scope(std::cell::Cell::new(Some(opening)), request)
        .await
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = WatchedTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let Opening { owner, place } = OPENING
            .try_with(std::cell::Cell::take)
            .ok()
            .flatten()
            .ok_or(SessionsError::NoPlace)?;
        let (id, inner) = self.inner.create_session().await?;
        let traffic = Arc::new(Traffic::new());
        let session = Session {
            owner,
            traffic: traffic.clone(),
            stream: Arc::new(Semaphore::new(1)),
            _place: place,
            _counted: self.counted.enter(),
        };
        self.open.lock().insert(id.clone(), session);
        Ok((id, WatchedTransport::new(inner, traffic)))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let answer = self.inner.initialize_session(id, message).await?;
        if matches!(answer, JsonRpcMessage::Error(_)) {
            // rmcp ends a rejected session a little later; its place is free now.
            self.open.lock().remove(id);
        }
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.is_open(id))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.open.lock().remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.admit(id, &mut message);
        Ok(self.inner.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        if !self.admit(id, &mut message) {
            return Ok(());
        }
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.inner.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.inner.resume(id, last_event_id).await?)
    }
}

/// What one session is doing.
struct Traffic(Mutex<TrafficState>);

struct TrafficState {
    /// Requests received and neither answered nor cancelled.
    waiting: HashSet<RequestId>,
    endings: Endings,
    last_message: Instant,
}

impl Traffic {
    fn new() -> Self {
        Self(Mutex::new(TrafficState {
            waiting: HashSet::new(),
            endings: Endings::default(),
            last_message: Instant::now(),
        }))
    }

    fn admit(&self, message: &mut ClientJsonRpcMessage) -> bool {
        let mut state = self.0.lock();
        state.last_message = Instant::now();
        state.endings.admit(message)
    }

    fn received(&self, message: &ClientJsonRpcMessage) {
        let mut state = self.0.lock();
        state.last_message = Instant::now();
        match message {
            JsonRpcMessage::Request(request) => {
                state.waiting.insert(request.id.clone());
            }
            JsonRpcMessage::Notification(note) => {
                if let ClientNotification::CancelledNotification(cancelled) = &note.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    state.waiting.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    fn sent(&self, message: &ServerJsonRpcMessage) {
        let mut state = self.0.lock();
        state.last_message = Instant::now();
        let answered = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = answered {
            state.waiting.remove(id);
        }
    }

    /// Time since the last message, `None` while a request waits for its answer.
    fn idle_for(&self, now: Instant) -> Option<Duration> {
        let state = self.0.lock();
        state
            .waiting
            .is_empty()
            .then(|| now.saturating_duration_since(state.last_message))
    }

    /// One of the requests still waiting, which waits no longer after this.
    fn abandon(&self) -> Option<RequestId> {
        let mut state = self.0.lock();
        let id = state.waiting.iter().next().cloned()?;
        state.waiting.remove(&id);
        // Whatever was decided: nobody is left to be answered.
        state.endings.cancel(&id);
        Some(id)
    }
}

/// The transport of one session with an eye on its messages.
pub(super) struct WatchedTransport {
    /// False once the client's side has ended.
    incoming: bool,
    inner: SessionTransport,
    traffic: Arc<Traffic>,
}

impl WatchedTransport {
    fn new(inner: SessionTransport, traffic: Arc<Traffic>) -> Self {
        Self {
            incoming: true,
            inner,
            traffic,
        }
    }
}

impl Transport<RoleServer> for WatchedTransport {
    type Error = <SessionTransport as Transport<RoleServer>>::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.traffic.sent(&item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        if self.incoming {
            if let Some(message) = self.inner.receive().await {
                self.traffic.received(&message);
                return Some(message);
            }
            self.incoming = false;
        }
        // The end of a session cancels what it has open. rmcp would first give the handlers five seconds to answer to
        // nobody, and a wait among them could take a job meanwhile.
        let id = self.traffic.abandon()?;
        let reason = Some("the session ended".to_owned());
        let note =
            CancelledNotification::new(CancelledNotificationParam::new(Some(id), reason)).into();
        Some(ClientJsonRpcMessage::notification(note))
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
