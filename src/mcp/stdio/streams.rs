//! The process's own standard streams, in the form that gives the most round trips per second.
//!
//! Tokio's handles for them hand every read and write to a thread of the blocking pool, and a thread of our own that feeds a
//! channel would do the same; two thread changes per message cost a third to half of the round trips. So where the stream
//! allows it the runtime's poller drives it: pipes through rmcp's reopening, and here the socket pairs that Node gives to its
//! children. The read of such a stream can also be cancelled, that of tokio's handles cannot: with those the process leaves by
//! `std::process::exit` once `serve_stdio` has returned.

use tokio::io::{AsyncRead, AsyncWrite};

/// A source of bytes for `serve_stdio`.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// A sink of bytes for `serve_stdio`.
pub type Sink = Box<dyn AsyncWrite + Send + Unpin>;

/// Standard input and output of this process. To be called once; nothing else may read or write them afterwards.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O enabled.
pub fn standard_streams() -> (Input, Sink) {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        if let Some(pair) = adopt_sockets(std::io::stdin().as_fd(), std::io::stdout().as_fd()) {
            return pair;
        }
    }
    let (input, output) = rmcp::transport::stdio_pipes();
    (Box::new(input), Box::new(output))
}

/// Both descriptors as non-blocking streams, if both are Unix sockets.
///
/// The flag belongs to the socket, not to the descriptor, so whoever shares this end would see it too. Parents keep the other
/// end of the pair, and this program starts no children that inherit its streams.
#[cfg(unix)]
pub(super) fn adopt_sockets(
    input: std::os::fd::BorrowedFd<'_>,
    output: std::os::fd::BorrowedFd<'_>,
) -> Option<(Input, Sink)> {
    let (input, output) = (unix_socket(input)?, unix_socket(output)?);
    input.set_nonblocking(true).ok()?;
    output.set_nonblocking(true).ok()?;
    let input = tokio::net::UnixStream::from_std(input).ok()?;
    let output = tokio::net::UnixStream::from_std(output).ok()?;
    Some((Box::new(input), Box::new(output)))
}

#[cfg(unix)]
fn unix_socket(descriptor: std::os::fd::BorrowedFd<'_>) -> Option<std::os::unix::net::UnixStream> {
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::UnixStream;

    let file = std::fs::File::from(descriptor.try_clone_to_owned().ok()?);
    if !file.metadata().ok()?.file_type().is_socket() {
        return None;
    }
    let socket = UnixStream::from(OwnedFd::from(file));
    // Fails for a socket of another family.
    socket.local_addr().ok()?;
    Some(socket)
}
