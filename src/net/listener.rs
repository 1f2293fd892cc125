//! Accepts connections, and goes on when the system has no room for more of them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use super::Throttle;

/// Pause after a connection could not be accepted for lack of something (file descriptors, memory),
/// which would otherwise be tried again without end.
const PAUSE: Duration = Duration::from_millis(50);

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    refused: Throttle<()>,
}

impl Listener {
    /// Takes over a bound socket.
    pub fn new(socket: TcpListener) -> Self {
        Self {
            socket,
            refused: Throttle::new(1),
        }
    }

    /// The next connection, which sends at once what it is given: messages leave whole, and waiting for more
    /// would only delay them. Dropping the future loses no connection.
    pub async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let error = match self.socket.accept().await {
                Ok((stream, peer)) => match stream.set_nodelay(true) {
                    Ok(()) => return (stream, peer),
                    Err(error) => {
                        tracing::debug!(%peer, %error, "connection ended before it began");
                        continue;
                    }
                },
                Err(error) => error,
            };
            if left(&error) {
                tracing::debug!(%error, "a client left before it was accepted");
                continue;
            }
            if let Some(failures) = self.refused.another(()) {
                tracing::warn!(%error, failures, "cannot accept connections: too many are open, or too little memory");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Whether it is the client's doing that there is no connection.
fn left(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}
