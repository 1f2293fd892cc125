//! Makes connections to the other server: reaches it, shows the token, and hears whether it lets this program in.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::command::{CommandError, RemoteFault};
use crate::net::prepare;
use crate::wire::client::{self, Exchange, Incoming};
use crate::wire::frame::{Front, HEADER_LEN, front};

/// Time for a connection to be there and to let this program in.
const DIAL_MAX: Duration = Duration::from_secs(5);

/// Bytes for which room is made before each read.
const READ_BYTES: usize = 16_384;

/// Where the other server is, and what it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its token, if it asks for one.
    pub token: Option<String>,
}

/// Its token is not shown.
impl fmt::Debug for RemoteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteAddress({self})")
    }
}

impl fmt::Display for RemoteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why there is no connection, or no longer.
#[derive(Debug, Error)]
pub enum DialError {
    /// The system says so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It has closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// It does not answer.
    #[error("the server did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// What it sends is not the protocol.
    #[error("the server does not speak the queue protocol")]
    Foreign,
    /// It refuses this program.
    #[error("{0}")]
    Refused(CommandError),
}

/// Whole frames out of a stream of bytes.
pub(super) struct Frames<R> {
    from: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            buffer: BytesMut::new(),
        }
    }

    /// The body of the next frame. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, DialError> {
        loop {
            match front(&self.buffer) {
                Front::Frame { body, .. } => {
                    let body = body.to_vec();
                    self.buffer.advance(HEADER_LEN + body.len());
                    return Ok(body);
                }
                Front::TooLarge { .. } => return Err(DialError::Foreign),
                Front::Partial { .. } => {}
            }
            self.buffer.reserve(READ_BYTES);
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Err(DialError::Closed);
            }
        }
    }

    /// The stream with what has been read of it.
    pub(super) fn map<S>(self, other: impl FnOnce(R) -> S) -> Frames<S> {
        Frames {
            from: other(self.from),
            buffer: self.buffer,
        }
    }
}

/// A connection on which the server answers.
pub(super) async fn dial(address: &RemoteAddress) -> Result<Frames<TcpStream>, DialError> {
    timeout(DIAL_MAX, greet(address))
        .await
        .unwrap_or(Err(DialError::Silent(DIAL_MAX)))
}

async fn greet(address: &RemoteAddress) -> Result<Frames<TcpStream>, DialError> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    prepare(&stream)?;
    let mut frames = Frames::new(stream);
    if let Some(token) = &address.token {
        ask(&mut frames, client::auth(token)).await?;
    }
    ask(&mut frames, client::hello()).await?;
    Ok(frames)
}

/// One request on a connection that nobody else uses.
async fn ask(frames: &mut Frames<TcpStream>, exchange: Exchange) -> Result<(), DialError> {
    const NUMBER: u64 = 0;
    let request = exchange.frame(NUMBER).map_err(DialError::Refused)?;
    frames.from.write_all(&request).await?;
    loop {
        let body = frames.next().await?;
        match client::incoming(&body) {
            Some(Incoming::Reply(NUMBER)) => {
                return match exchange.hear(&body) {
                    Ok(_) => Ok(()),
                    Err(CommandError::Remote(RemoteFault::Unreadable)) => Err(DialError::Foreign),
                    Err(error) => Err(DialError::Refused(error)),
                };
            }
            Some(_) => {}
            None => return Err(DialError::Foreign),
        }
    }
}
