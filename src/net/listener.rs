//! Accepts connections, and goes on when the system has no room for more of them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

use super::Throttle;

/// Pause after a connection could not be accepted for lack of something (file descriptors, memory),
/// which would otherwise be tried again without end.
const PAUSE: Duration = Duration::from_millis(50);

/// Silence after which the system asks whether the other end is still there; idle connections are never closed, so one
/// whose machine has vanished would stay for ever.
const SILENCE: Duration = Duration::from_secs(60);

/// Time between such questions without an answer; after some of them the system gives the connection up.
const QUESTION_PERIOD: Duration = Duration::from_secs(15);

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
                Ok((stream, peer)) => match prepare(&stream) {
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

/// What holds for every connection: what it is given leaves at once, and a peer that is gone without a word is noticed.
///
/// # Errors
/// The system refuses it.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let questions = TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(QUESTION_PERIOD);
    SockRef::from(stream).set_tcp_keepalive(&questions)
}

/// Whether it is the client's doing that there is no connection.
fn left(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_says_nothing_is_asked_whether_it_is_there() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let mut listener = Listener::new(socket);
        let client = TcpStream::connect(address);
        let ((accepted, _), client) = tokio::join!(listener.accept(), client);
        let accepted = SockRef::from(&accepted);
        assert!(accepted.keepalive().unwrap() && accepted.tcp_nodelay().unwrap());
        assert!(!SockRef::from(&client.unwrap()).keepalive().unwrap());
    }
}
