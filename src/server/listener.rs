//! Accepts connections and looks after their tasks.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;
use crate::net::{Listener, Tls};

use super::auth::Tokens;
use super::dialogue::Door;
use super::refusal::{Refusals, Refused};
use super::session;
use super::{ServerOptions, Stop};

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
        refusals: Refusals::default(),
    });
    let mut listener = Listener::new(listener);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.accepting.cancelled() => break,
            Some(ended) = connections.join_next() => note_end(ended),
            (stream, peer) = listener.accept() => {
                // A token of its own: looking at a shared one would be a lock all connections share.
                let shutdown = stop.serving.child_token();
                connections.spawn(connection(stream, peer, Arc::clone(&door), shutdown));
            }
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
    tracing::debug!(%peer, "connected");
    let ended = match &door.options.tls {
        None => {
            let (reader, writer) = stream.into_split();
            session::run(reader, writer, peer, &door, &shutdown).await
        }
        // In a box, so that a plain connection takes no more room than it needs.
        Some(tls) => match Box::pin(encrypted(stream, peer, tls, &door, &shutdown)).await {
            Ok(ended) => ended,
            Err(error) => {
                tracing::debug!(%peer, %error, "no handshake");
                // Whoever left without a word wanted to know whether the port is open.
                if error.kind() != io::ErrorKind::UnexpectedEof {
                    door.refusals.another(Refused::NoHandshake, peer);
                }
                return;
            }
        },
    };
    tracing::debug!(%peer, ?ended, "disconnected");
    if let Some(refused) = Refused::by(ended) {
        door.refusals.another(refused, peer);
    }
}

/// The same behind TLS; an error is that of the handshake.
async fn encrypted(
    stream: TcpStream,
    peer: SocketAddr,
    tls: &Tls,
    door: &Door,
    shutdown: &CancellationToken,
) -> io::Result<session::Ended> {
    let stream = tokio::select! {
        shaken = tls.accept(stream) => shaken?,
        () = shutdown.cancelled() => return Ok(session::Ended::Shutdown),
    };
    let (reader, writer) = tokio::io::split(stream);
    Ok(session::run(reader, writer, peer, door, shutdown).await)
}

/// A panic is the end of one connection; its jobs have gone back while it unwound.
fn note_end(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection failed");
    }
}
