//! The socket: binding, and serving a router on it until the process stops.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::Request;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use crate::net::{Listener, Throttle, Tls};

/// Longest time from the shutdown token to the return of `serve`, connections that will not end included.
const STOP_MAX: Duration = Duration::from_millis(1800);

/// How long the head of a request may take from the moment it is awaited, and a body may come to a halt. Without it
/// whoever begins a request and stops would hold a connection for ever.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How a listener treats its connections.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Encrypts them; `None`: they are plain.
    pub tls: Option<Tls>,
    /// See [`PATIENCE`].
    pub patience: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            tls: None,
            patience: PATIENCE,
        }
    }
}

/// Binds a listener. `host` is a name or an address, brackets around IPv6 optional; port 0 takes any free one.
///
/// # Errors
///
/// The host is unknown, the port busy or forbidden.
pub async fn bind(host: &str, port: u16) -> io::Result<TcpListener> {
    let host = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    TcpListener::bind((host, port)).await
}

/// Serves `app` until `shutdown` fires, then stops accepting and waits for the connections for a bounded time.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    options: ServeOptions,
    shutdown: CancellationToken,
) {
    let mut listener = Listener::new(listener);
    let refused = Arc::new(Throttle::new(1));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(ended) = connections.join_next() => note_end(ended),
            (stream, peer) = listener.accept() => {
                let (refused, shutdown) = (Arc::clone(&refused), shutdown.clone());
                connections.spawn(connection(stream, peer, app.clone(), options.clone(), refused, shutdown));
            }
        }
    }
    drop(listener);
    let all_end = async {
        while let Some(ended) = connections.join_next().await {
            note_end(ended);
        }
    };
    if tokio::time::timeout(STOP_MAX, all_end).await.is_err() {
        tracing::warn!("connections were still open when the time to stop was over");
    }
}

/// A panic is the end of one connection.
fn note_end(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection failed");
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    app: Router,
    options: ServeOptions,
    refused: Arc<Throttle<()>>,
    shutdown: CancellationToken,
) {
    let patience = options.patience;
    let Some(tls) = options.tls else {
        return converse(stream, app, patience, &shutdown).await;
    };
    let shaken = tokio::select! {
        shaken = tls.accept(stream) => shaken,
        () = shutdown.cancelled() => return,
    };
    match shaken {
        Ok(stream) => converse(stream, app, patience, &shutdown).await,
        // Whoever left without a word wanted to know whether the port is open.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(error) => {
            if let Some(times) = refused.another(()) {
                tracing::warn!(%error, times, %peer, "no TLS handshake with clients of the HTTP listener");
            }
        }
    }
}

/// Answers the requests of one connection. What takes long is never the answer's fault: only requests are timed.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    app: Router,
    patience: Duration,
    shutdown: &CancellationToken,
) {
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |request: Request<Incoming>| {
        app.call(request.map(|body| Timed::new(body, patience)))
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// The body of a request, which ends with an error when nothing more of it comes for too long.
struct Timed {
    body: Incoming,
    patience: Duration,
    /// Runs while something is awaited.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    const fn new(body: Incoming, patience: Duration) -> Self {
        Self {
            body,
            patience,
            timer: None,
        }
    }
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(part) = Pin::new(&mut self.body).poll_frame(cx) {
            self.timer = None;
            return Poll::Ready(part.map(|part| part.map_err(Into::into)));
        }
        let patience = self.patience;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(timer.as_mut().poll(cx));
        let halted = io::Error::new(io::ErrorKind::TimedOut, "the body came to a halt");
        Poll::Ready(Some(Err(halted.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
