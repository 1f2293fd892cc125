//! MCP on standard input and output: newline-delimited JSON-RPC, one client.
//!
//! A transport of our own instead of rmcp's line transport, because that one drops a line it cannot parse without an answer,
//! loses a last line that has no newline, and ends the whole service on a notification that comes before the handshake.
//! Invariants: only whole lines are written, in the order in which they were handed over; every line of the input is handed
//! on or answered before the end of input is reported; the end of input, of the output and of the process fire one token.
//! Only `streams.rs` touches the process's own descriptors.

mod output;
mod streams;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use rmcp::ServerHandler;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta, JsonRpcMessage, ProtocolVersion};
use rmcp::service::{RoleServer, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::STOP_GRACE;
use super::ending::Endings;
use super::envelope::{self, Fault, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR};
use output::Output;
pub use streams::standard_streams;

/// Longest line that is read, in bytes without the line end: 10 MiB of job data fit with their escapes and frame.
pub const LINE_MAX: usize = 16 * 1024 * 1024;

/// Free space asked for before each read, in bytes: a pipe's whole capacity on Linux, so one system call drains it.
const READ_SIZE: usize = 64 * 1024;

/// Answers not yet taken by the client, in bytes, above which no further line is read.
const UNREAD_MAX: usize = 64 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Serves one client until its input ends, its output breaks or `shutdown` fires; both lifecycles of MCP are served.
///
/// At the end of input, once every line has been handed on, it fires `shutdown` itself: waits are expected to select on that
/// token and to answer. Requests in flight then have `STOP_GRACE` to answer; what is still open is cancelled. When this
/// returns, all answers that were given have been written, unless the client stopped reading them.
///
/// # Errors
///
/// Writing failed for another reason than a client that went away, or the handler refused the handshake.
pub async fn serve_stdio<H, R, W>(
    handler: H,
    input: R,
    output: W,
    shutdown: CancellationToken,
) -> io::Result<()>
where
    H: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let queue = Arc::new(Output::default());
    // In a set, so that a caller who drops this future also ends the writer.
    let mut writer = JoinSet::new();
    writer.spawn(output::write_lines(queue.clone(), output, shutdown.clone()));
    let lines = Lines {
        input: Some(input),
        cutter: Cutter::default(),
        output: queue.clone(),
        gate: Gate::new(handler.supported_protocol_versions()),
        endings: Endings::default(),
        shutdown: shutdown.clone(),
    };

    let session = async {
        let served = match rmcp::serve_server(handler, lines).await {
            Ok(service) => service.waiting().await.map(drop).map_err(io::Error::from),
            // The input ended before a client said anything that opens a session.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        };
        queue.close();
        let written = match writer.join_next().await {
            Some(result) => result.map_err(io::Error::from).flatten(),
            None => Ok(()),
        };
        served.and(written)
    };
    let overdue = async {
        shutdown.cancelled().await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    let result = tokio::select! {
        result = session => result,
        () = overdue => {
            tracing::warn!("requests were still open when the time to stop was over");
            Ok(())
        }
    };
    // However the session came to its end, the rest of the process learns of it.
    shutdown.cancel();
    result
}

/// The line transport as rmcp sees it.
struct Lines<R> {
    /// `None` once the input has ended or failed.
    input: Option<R>,
    cutter: Cutter,
    output: Arc<Output>,
    gate: Gate,
    endings: Endings,
    shutdown: CancellationToken,
}

impl<R: AsyncRead + Send + Unpin> Lines<R> {
    /// The next piece of the input, `None` at its end. Safe to cancel: bytes read are kept in the cutter.
    async fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.cutter.cut() {
                return Some(piece);
            }
            let Some(input) = self.input.as_mut() else {
                return self.cutter.rest();
            };
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return None,
                read = input.read_buf(self.cutter.space()) => match read {
                    Ok(0) => self.input = None,
                    Ok(_) => {}
                    Err(error) => {
                        tracing::error!(%error, "reading the input failed");
                        self.input = None;
                    }
                },
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        // Queued here and now, not in the future: that one is spawned, and a progress note must not fall behind its answer.
        std::future::ready(self.output.push(&item))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if self.output.unwritten() >= UNREAD_MAX {
                tokio::select! {
                    biased;
                    () = self.shutdown.cancelled() => {}
                    () = self.output.below(UNREAD_MAX) => {}
                }
            }
            let answer = match self.next().await {
                None => {
                    self.shutdown.cancel();
                    return None;
                }
                Some(Piece::TooLong) => error_line(
                    PARSE_ERROR,
                    &format!("Parse error: a message may have at most {LINE_MAX} bytes"),
                    None,
                ),
                Some(Piece::Line(line)) => match read_line(&line) {
                    None => continue,
                    Some(Ok(mut message)) => {
                        if let Some(answer) = self.gate.too_early(&message) {
                            self.output.push_line(&answer);
                            continue;
                        }
                        if self.gate.admits(&message) && self.endings.admit(&mut message) {
                            return Some(message);
                        }
                        continue;
                    }
                    Some(Err(answer)) => answer,
                },
            };
            self.output.push_line(&answer);
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.close();
        Ok(())
    }
}

/// Reads a line, or gives the answer to one that goes no further; `None` for a blank one.
fn read_line(line: &[u8]) -> Option<Result<ClientJsonRpcMessage, String>> {
    let text = line
        .strip_prefix(BYTE_ORDER_MARK)
        .unwrap_or(line)
        .trim_ascii();
    if text.is_empty() {
        return None;
    }
    let read = envelope::read(text).and_then(|message| match envelope::unpacked(&message, text) {
        None => Ok(message),
        Some(text) => envelope::read(text.as_bytes()),
    });
    Some(match read {
        Ok(message) => match envelope::cursor_fault(&message, text) {
            None => Ok(message),
            Some(answer) => Err(answer + "\n"),
        },
        Err(fault) => Err(fault_line(&fault)),
    })
}

fn fault_line(fault: &Fault) -> String {
    match fault {
        Fault::NotJson => error_line(PARSE_ERROR, "Parse error: Invalid JSON", None),
        Fault::Unreadable(id, reason) => {
            error_line(PARSE_ERROR, &format!("Parse error: {reason}"), Some(id))
        }
        Fault::NotAMessage(id) => error_line(
            INVALID_REQUEST,
            "Invalid Request: one JSON-RPC message per line",
            id.as_ref(),
        ),
    }
}

fn error_line(code: i32, message: &str, id: Option<&rmcp::model::RequestId>) -> String {
    let mut line = envelope::error_text(code, message, id);
    line.push('\n');
    line
}

/// A piece of the input.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// One line without its newline.
    Line(BytesMut),
    /// A line above `LINE_MAX`; told once, the rest of it is skipped.
    TooLong,
}

/// Cuts the bytes read so far into lines.
#[derive(Default)]
struct Cutter {
    buffer: BytesMut,
    /// So many bytes at the start of `buffer` hold no newline, so a long line is not searched again after each read.
    searched: usize,
    /// The line at the start of `buffer` was reported as too long; its end has not come yet.
    skipping: bool,
}

impl Cutter {
    /// Room for the next read.
    fn space(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_SIZE);
        &mut self.buffer
    }

    /// The next complete line, if there is one.
    fn cut(&mut self) -> Option<Piece> {
        loop {
            let fresh = self.buffer.get(self.searched..)?;
            let Some(found) = fresh.iter().position(|byte| *byte == b'\n') else {
                return self.overflow();
            };
            let end = self.searched + found;
            let mut line = self.buffer.split_to(end + 1);
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if end > LINE_MAX {
                return Some(Piece::TooLong);
            }
            line.truncate(end);
            return Some(Piece::Line(line));
        }
    }

    /// Without a newline in sight: forgets what need not be kept, and reports a line the moment it is too long.
    fn overflow(&mut self) -> Option<Piece> {
        self.searched = self.buffer.len();
        if !self.skipping && self.searched <= LINE_MAX {
            return None;
        }
        self.buffer = BytesMut::new();
        self.searched = 0;
        (!std::mem::replace(&mut self.skipping, true)).then_some(Piece::TooLong)
    }

    /// The last line of an input that ended without a newline.
    fn rest(&mut self) -> Option<Piece> {
        let line = self.buffer.split();
        self.searched = 0;
        (!line.is_empty() && !self.skipping).then_some(Piece::Line(line))
    }
}

/// Holds back notifications and replies until a lifecycle is open: rmcp ends the service when one comes first, and a client
/// that is a little early or answers a question nobody asked is no reason to go.
struct Gate {
    open: bool,
    versions: Cow<'static, [ProtocolVersion]>,
}

impl Gate {
    fn new(versions: Cow<'static, [ProtocolVersion]>) -> Self {
        Self {
            open: false,
            versions,
        }
    }

    fn admits(&mut self, message: &ClientJsonRpcMessage) -> bool {
        if self.open {
            return true;
        }
        let JsonRpcMessage::Request(request) = message else {
            return false;
        };
        self.open = self.opens(&request.request);
        true
    }

    /// The answer to a request before any lifecycle that names no revision either: rmcp would ask for metadata that a client
    /// of the handshake revisions has never heard of.
    fn too_early(&self, message: &ClientJsonRpcMessage) -> Option<String> {
        let JsonRpcMessage::Request(request) = message else {
            return None;
        };
        if self.open || request.request.get_meta().protocol_version().is_some() {
            return None;
        }
        let fault = match &request.request {
            ClientRequest::InitializeRequest(_)
            | ClientRequest::DiscoverRequest(_)
            | ClientRequest::PingRequest(_) => return None,
            ClientRequest::CustomRequest(custom) if custom.method == "server/discover" => {
                return None;
            }
            ClientRequest::CustomRequest(custom) if custom.method == "initialize" => {
                "Invalid params: initialize takes protocolVersion, capabilities and clientInfo"
            }
            _ => "Invalid params: initialize first, or name the revision in _meta",
        };
        Some(error_line(INVALID_PARAMS, fault, Some(&request.id)))
    }

    /// The condition under which rmcp leaves its opening phase: a handshake, or a request of the 2026-07-28 revision with all
    /// its metadata and a version served here. Discovery only answers.
    fn opens(&self, request: &ClientRequest) -> bool {
        match request {
            ClientRequest::InitializeRequest(_) => true,
            ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
            other => {
                let meta = other.get_meta();
                meta.missing_required_keys(&ProtocolVersion::V_2026_07_28)
                    .is_empty()
                    && meta
                        .protocol_version()
                        .is_some_and(|version| self.versions.contains(&version))
            }
        }
    }
}
