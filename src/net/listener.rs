//! Accepts connections, and goes on when the system has no room for more of them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// Pause after a connection could not be accepted for lack of something (file descriptors, memory),
/// which would otherwise be tried again without end.
const PAUSE: Duration = Duration::from_millis(50);

/// Silence after which the system asks whether the other end is still there; idle connections are never closed, so one
/// whose machine has vanished would stay for ever.
const SILENCE: Duration = Duration::from_secs(60);

/// Time between such questions without an answer; after some of them the system gives the connection up.
const QUESTION_PERIOD: Duration = Duration::from_secs(15);

/// Such a lack lasts; so often it is worth a line in the log.
const COMPLAINT_PERIOD: Duration = Duration::from_secs(60);

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    complaints: Complaints,
}

impl Listener {
    /// Takes over a bound socket.
    pub const fn new(socket: TcpListener) -> Self {
        Self {
            socket,
            complaints: Complaints {
                last: None,
                unsaid: 0,
            },
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
            if let Some(unsaid) = self.complaints.another(Instant::now()) {
                tracing::warn!(%error, failures_since = unsaid, "cannot accept connections");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// What holds for every connection: what it is given leaves at once, and a peer that is gone without a word is noticed.
fn prepare(stream: &TcpStream) -> io::Result<()> {
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

/// Which of many failures are said.
#[derive(Debug)]
struct Complaints {
    last: Option<Instant>,
    /// Since the last one that was said.
    unsaid: u64,
}

impl Complaints {
    /// Notes a failure; if it is to be said, how many were not since the last one that was.
    fn another(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + COMPLAINT_PERIOD) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
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

    #[test]
    fn a_lasting_lack_is_said_once_a_minute() {
        let mut complaints = Complaints {
            last: None,
            unsaid: 0,
        };
        let start = Instant::now();
        let said: Vec<_> = (0..3_601)
            .filter_map(|number| complaints.another(start + PAUSE * number))
            .collect();
        assert_eq!(said, [0, 1_199, 1_199, 1_199]);
    }
}
