//! The socket: binding, and serving a router on it until the process stops.

use std::io;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::net::{Listener, Tls};

/// Longest time from the shutdown token to the return of `serve`, connections that will not end included.
const STOP_MAX: Duration = Duration::from_millis(1800);

/// How a listener treats its connections.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Encrypts them; `None`: they are plain.
    pub tls: Option<Tls>,
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
    let listener = Listener::new(listener);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(ended) = connections.join_next() => note_end(ended),
            (stream, _) = listener.accept() => {
                connections.spawn(connection(stream, app.clone(), options.clone(), shutdown.clone()));
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
    app: Router,
    options: ServeOptions,
    shutdown: CancellationToken,
) {
    let Some(tls) = options.tls else {
        return converse(stream, app, &shutdown).await;
    };
    let shaken = tokio::select! {
        shaken = tls.accept(stream) => shaken,
        () = shutdown.cancelled() => return,
    };
    match shaken {
        Ok(stream) => converse(stream, app, &shutdown).await,
        Err(error) => tracing::debug!(%error, "no handshake"),
    }
}

/// Answers the requests of one connection.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    app: Router,
    shutdown: &CancellationToken,
) {
    let app = TowerToHyperService::new(app);
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), app));
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
