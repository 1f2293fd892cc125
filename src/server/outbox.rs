//! What has been said to a client and not yet been taken by its socket.

use std::io;

use futures_util::FutureExt;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Capacity above which an empty buffer is given back.
pub(super) const KEEP_BYTES: usize = 1_048_576;

/// Bytes on their way out, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    /// The socket has taken bytes that may still wait in a buffer of its own, as those of TLS do.
    unflushed: bool,
}

impl Outbox {
    /// The end of the buffer, for whole frames to be appended.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Gives back the room of a buffer that has nothing in it.
    pub(super) fn shrink(&mut self) {
        if self.is_empty() {
            self.bytes = Vec::new();
            self.sent = 0;
        }
    }

    /// Bytes that still have to leave.
    fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// How many those are.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether everything has left, and nothing is kept on the way.
    pub(super) fn is_settled(&self) -> bool {
        self.is_empty() && !self.unflushed
    }

    /// Notes that the socket has taken the first `bytes`.
    ///
    /// # Errors
    /// When it has taken none, which means that it never will.
    fn taken(&mut self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.sent += bytes;
        self.unflushed = true;
        if self.is_empty() {
            self.sent = 0;
            if self.bytes.capacity() > KEEP_BYTES {
                self.bytes = Vec::new();
            } else {
                self.bytes.clear();
            }
        } else if self.sent > KEEP_BYTES && self.sent > self.bytes.len() / 2 {
            // A slow reader must not make us keep what it has read.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    /// Hands over as much as the socket takes at once; whether that was anything.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn write_ready(
        &mut self,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<bool> {
        let before = self.len();
        while !self.is_empty() {
            // A write that would wait is given up here and tried again by whoever can wait.
            match writer.write(self.unsent()).now_or_never() {
                Some(taken) => self.taken(taken?)?,
                None => return Ok(self.len() < before),
            }
        }
        if self.unflushed
            && let Some(flushed) = writer.flush().now_or_never()
        {
            flushed?;
            self.unflushed = false;
        }
        Ok(self.len() < before)
    }

    /// Waits until the socket takes more, or has passed on what it took. Nothing is lost when it is given up.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) async fn write(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        if self.is_empty() {
            writer.flush().await?;
            self.unflushed = false;
            return Ok(());
        }
        let taken = writer.write(self.unsent()).await?;
        self.taken(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use super::*;

    #[tokio::test]
    async fn bytes_leave_in_order_however_little_is_taken() {
        let (mut writer, mut reader) = tokio::io::duplex(3);
        let mut outbox = Outbox::default();
        outbox.end().extend(0..100_u8);
        let mut received = Vec::new();
        while received.len() < 100 {
            outbox.write_ready(&mut writer).unwrap();
            let mut part = [0; 7];
            let read = tokio::io::AsyncReadExt::read(&mut reader, &mut part)
                .await
                .unwrap();
            received.extend_from_slice(&part[..read]);
        }
        assert_eq!(received, (0..100).collect::<Vec<u8>>());
        assert!(outbox.is_empty());
    }

    /// A socket that keeps what it has taken until it is flushed, and takes nothing while it may not flush.
    struct Keeping {
        kept: Vec<u8>,
        passed: Vec<u8>,
        may_flush: bool,
    }

    impl AsyncWrite for Keeping {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.kept.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if !self.may_flush {
                return Poll::Pending;
            }
            let kept = std::mem::take(&mut self.kept);
            self.passed.extend(kept);
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush(cx)
        }
    }

    #[tokio::test]
    async fn nothing_stays_behind_in_the_socket() {
        let mut socket = Keeping {
            kept: Vec::new(),
            passed: Vec::new(),
            may_flush: false,
        };
        let mut outbox = Outbox::default();
        outbox.end().extend([1, 2]);
        outbox.write_ready(&mut socket).unwrap();
        assert!(outbox.is_empty() && !outbox.is_settled());
        assert!(outbox.write(&mut socket).now_or_never().is_none());
        socket.may_flush = true;
        outbox.write(&mut socket).await.unwrap();
        assert!(outbox.is_settled());
        outbox.end().push(3);
        outbox.write_ready(&mut socket).unwrap();
        assert!(outbox.is_settled());
        assert_eq!(socket.passed, [1, 2, 3]);
    }

    #[test]
    fn what_a_slow_reader_has_taken_is_not_kept() {
        let mut outbox = Outbox::default();
        outbox.end().resize(4 * KEEP_BYTES, 1);
        outbox.taken(3 * KEEP_BYTES).unwrap();
        assert_eq!((outbox.len(), outbox.bytes.len()), (KEEP_BYTES, KEEP_BYTES));
        outbox.taken(KEEP_BYTES).unwrap();
        assert_eq!((outbox.len(), outbox.bytes.capacity()), (0, 0));
        assert!(outbox.taken(0).is_err());
    }
}
