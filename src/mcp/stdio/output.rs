//! The way out: a queue of whole lines and the one task that writes them.
//!
//! rmcp's messages and the answers to bad lines are queued alike, so neither can cut into the other. Lines queued while a
//! write is under way leave together in the next one. A write that fails ends the session: the client is gone.

use std::io;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Lines on their way to the client.
#[derive(Default)]
pub(super) struct Output {
    queue: Mutex<Queue>,
    /// There is something to write, or the queue was closed.
    filled: Notify,
    /// Something was written.
    drained: Notify,
}

#[derive(Default)]
struct Queue {
    lines: BytesMut,
    /// Bytes that the writer has taken and not yet written.
    in_writing: usize,
    closed: bool,
}

impl Output {
    /// Queues one message as a line.
    pub(super) fn push(&self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        self.push_line(&line)
            .then_some(())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the output is closed"))
    }

    /// Queues one line that brings its newline; false when the output is closed.
    pub(super) fn push_line(&self, line: &str) -> bool {
        {
            let mut queue = self.queue.lock();
            if queue.closed {
                return false;
            }
            queue.lines.put_slice(line.as_bytes());
        }
        self.filled.notify_one();
        true
    }

    /// Takes no further lines; the writer ends when it has written those it has.
    pub(super) fn close(&self) {
        self.queue.lock().closed = true;
        self.filled.notify_one();
        self.drained.notify_one();
    }

    /// Bytes the client has still to take; none once the output is closed.
    pub(super) fn unwritten(&self) -> usize {
        let queue = self.queue.lock();
        if queue.closed {
            0
        } else {
            queue.lines.len() + queue.in_writing
        }
    }

    /// Waits until fewer than `limit` bytes are unwritten. For one caller at a time.
    pub(super) async fn below(&self, limit: usize) {
        while self.unwritten() >= limit {
            self.drained.notified().await;
        }
    }

    /// What is to be written next; `None` when the output is closed and all is written.
    async fn take(&self) -> Option<BytesMut> {
        loop {
            {
                let mut queue = self.queue.lock();
                if !queue.lines.is_empty() {
                    let lines = queue.lines.split();
                    queue.in_writing = lines.len();
                    return Some(lines);
                }
                if queue.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    fn written(&self) {
        self.queue.lock().in_writing = 0;
        self.drained.notify_one();
    }
}

/// Writes the queued lines until the output is closed and empty. A failure closes it and fires `shutdown`.
///
/// # Errors
///
/// The first failed write, unless the client has closed its end.
pub(super) async fn write_lines<W>(
    output: Arc<Output>,
    mut writer: W,
    shutdown: CancellationToken,
) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    while let Some(lines) = output.take().await {
        let result = match writer.write_all(&lines).await {
            Ok(()) => writer.flush().await,
            failed => failed,
        };
        output.written();
        if let Err(error) = result {
            output.close();
            shutdown.cancel();
            return if error.kind() == io::ErrorKind::BrokenPipe {
                Ok(())
            } else {
                Err(error)
            };
        }
    }
    Ok(())
}
