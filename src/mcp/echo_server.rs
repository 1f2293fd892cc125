//! A handler for the tests of the transports: the tool `echo` answers its argument, the tool `wait` answers only when it is
//! cancelled or the process stops, the tool `hold` claims its ending and answers only when the test lets it, and every step
//! that a test has to wait for is counted and announced.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, InitializeRequestParams, InitializeResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ending::Ending;

/// Longest time a test waits for something that should come at once.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What the handlers of one test have seen, over all their instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Calls of `wait` that began.
    pub(super) waits: usize,
    /// Calls of `wait` that ended because their request was cancelled.
    pub(super) cancelled: usize,
    /// Calls of `hold` that have claimed their ending.
    pub(super) held: usize,
    /// Handlers made.
    pub(super) made: usize,
}

/// The shared side of the handlers of one test.
#[derive(Clone)]
pub(super) struct Watched {
    seen: Arc<watch::Sender<Seen>>,
    pub(super) shutdown: CancellationToken,
    /// Lets the calls of `hold` answer.
    pub(super) release: CancellationToken,
}

impl Watched {
    pub(super) fn new() -> Self {
        Self {
            seen: Arc::new(watch::channel(Seen::default()).0),
            shutdown: CancellationToken::new(),
            release: CancellationToken::new(),
        }
    }

    pub(super) fn handler(&self) -> EchoServer {
        self.seen.send_modify(|seen| seen.made += 1);
        EchoServer(self.clone())
    }

    pub(super) fn seen(&self) -> Seen {
        *self.seen.borrow()
    }

    /// Waits until the handlers have seen what `enough` asks for.
    pub(super) async fn until(&self, enough: impl FnMut(&Seen) -> bool) {
        let mut changes = self.seen.subscribe();
        tokio::time::timeout(PATIENCE, changes.wait_for(enough))
            .await
            .expect("in time")
            .expect("sender is alive");
    }
}

pub(super) struct EchoServer(Watched);

fn tool(name: &'static str) -> Tool {
    let schema = serde_json::json!({ "type": "object" });
    Tool::new(
        name,
        "For tests",
        Arc::new(schema.as_object().expect("an object").clone()),
    )
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text.into())]).into()
}

impl ServerHandler for EchoServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("echo", "1"))
    }

    /// Refuses the client that is called `refused`.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if request.client_info.name == "refused" {
            return Err(ErrorData::invalid_request("not you", None));
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        matches!(name, "echo" | "wait").then(|| tool("echo"))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![
            tool("echo"),
            tool("wait"),
        ]))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match params.name.as_ref() {
            "echo" => {
                if let Some(token) = context.meta.get_progress_token() {
                    let note = ProgressNotificationParam::new(token.clone(), 1.0);
                    context
                        .peer
                        .notify_progress(note)
                        .await
                        .expect("progress is sent");
                }
                let arguments = params.arguments.unwrap_or_default();
                Ok(text(serde_json::Value::Object(arguments).to_string()))
            }
            "wait" => {
                self.0.seen.send_modify(|seen| seen.waits += 1);
                tokio::select! {
                    () = self.0.shutdown.cancelled() => Ok(text("stopped")),
                    () = context.ct.cancelled() => {
                        self.0.seen.send_modify(|seen| seen.cancelled += 1);
                        Ok(text("cancelled"))
                    }
                }
            }
            // As a pull that has taken its jobs and whose answer is not sent yet.
            "hold" => {
                let ending = context.extensions.get::<Ending>();
                let is_first = ending.expect("an ending").claim();
                self.0.seen.send_modify(|seen| seen.held += 1);
                self.0.release.cancelled().await;
                Ok(text(if is_first { "answered" } else { "too late" }))
            }
            // Neither looks at a token nor ever answers, as a storage write that hangs.
            "hang" => std::future::pending().await,
            other => Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
    }
}
