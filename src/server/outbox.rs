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
}

impl Outbox {
    /// The end of the buffer, for whole frames to be appended.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes that still have to leave.
    pub(super) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// How many those are.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes that the socket has taken the first `bytes`.
    ///
    /// # Errors
    /// When it has taken none, which means that it never will.
    pub(super) fn taken(&mut self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.sent += bytes;
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

    /// Hands over as much as the socket takes at once.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn write_ready(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        while !self.is_empty() {
            // A write that would wait is given up here and tried again by whoever can wait.
            match writer.write(self.unsent()).now_or_never() {
                Some(taken) => self.taken(taken?)?,
                None => break,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
