//! Accepts connections and looks after their tasks.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;

use super::auth::Tokens;
use super::dialogue::Door;
use super::session;
use super::{ServerOptions, Stop};

/// Pause after a connection could not be accepted for lack of something (file descriptors, memory),
/// which would otherwise be tried again without end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves connections until they are told to end and have ended.
///
/// Whoever ends them has told the broker to shut down first, so that no wait is pending; what clients
/// have asked by then is answered, within half a second each.
pub async fn serve(
    listener: TcpListener,
    broker: Arc<dyn Broker>,
    options: ServerOptions,
    stop: Stop,
) {
    let tokens = Tokens::new(&options.tokens);
    let door = Arc::new(Door {
        broker,
        options,
        tokens,
    });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.accepting.cancelled() => break,
            Some(ended) = connections.join_next() => note_end(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // A token of its own: looking at a shared one would be a lock all connections share.
                    let shutdown = stop.serving.child_token();
                    connections.spawn(connection(stream, peer, Arc::clone(&door), shutdown));
                }
                Err(error) => note_refusal(&error).await,
            },
        }
    }
    drop(listener);
    loop {
        tokio::select! {
            () = stop.serving.cancelled() => break,
            Some(ended) = connections.join_next() => note_end(ended),
        }
    }
    while let Some(ended) = connections.join_next().await {
        note_end(ended);
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    door: Arc<Door>,
    shutdown: CancellationToken,
) {
    // Replies leave whole; waiting for more to send would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "connection ended before it began");
        return;
    }
    tracing::debug!(%peer, "connected");
    let (reader, writer) = stream.into_split();
    let ended = session::run(reader, writer, &door, &shutdown).await;
    match ended {
        session::Ended::Closed | session::Ended::Broken | session::Ended::Shutdown => {
            tracing::debug!(%peer, ?ended, "disconnected");
        }
        _ => tracing::warn!(%peer, ?ended, "disconnected the client"),
    }
}

/// A panic is the end of one connection; its jobs have gone back while it unwound.
fn note_end(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection failed");
    }
}

async fn note_refusal(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    ) {
        tracing::debug!(%error, "a client left before it was accepted");
    } else {
        tracing::warn!(%error, "cannot accept connections");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
