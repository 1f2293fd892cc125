//! The refusals of the contract, word for word.

use serde_json::json;

use super::wire::Reply;

/// What a refusal must look like.
pub(super) struct Row {
    status: u16,
    code: i64,
    message: &'static str,
    header: Option<(&'static str, &'static str)>,
}

const fn row(status: u16, code: i64, message: &'static str) -> Row {
    Row {
        status,
        code,
        message,
        header: None,
    }
}

impl Row {
    const fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }

    /// Status, whole body and headers, and that none of them lets a browser page of elsewhere read the answer.
    pub(super) fn check(&self, name: &str, reply: &Reply) {
        assert_eq!(reply.status(), self.status, "{name}");
        assert_eq!(
            reply.json(),
            json!({
                "jsonrpc": "2.0",
                "error": { "code": self.code, "message": self.message },
                "id": null,
            }),
            "{name}"
        );
        assert_eq!(
            reply.head.header("content-type"),
            Some("application/json"),
            "{name}"
        );
        if let Some((header, value)) = self.header {
            assert_eq!(reply.head.header(header), Some(value), "{name}");
        }
        for cors in [
            "access-control-allow-origin",
            "access-control-allow-headers",
        ] {
            assert_eq!(reply.head.header(cors), None, "{name}");
        }
    }
}

pub(super) const HOST: Row = row(403, -32000, "Forbidden: invalid Host header");
pub(super) const ORIGIN: Row = row(403, -32000, "Forbidden: invalid Origin header");
pub(super) const PATH: Row = row(404, -32000, "Not found");
pub(super) const NO_TOKEN: Row = row(401, -32001, "Unauthorized: bearer token required")
    .header("www-authenticate", r#"Bearer realm="bunqueue-mcp""#);
pub(super) const WRONG_TOKEN: Row = row(401, -32001, "Unauthorized: invalid bearer token").header(
    "www-authenticate",
    r#"Bearer realm="bunqueue-mcp", error="invalid_token""#,
);
pub(super) const METHOD: Row =
    row(405, -32000, "Method not allowed.").header("allow", "GET, POST, DELETE");
pub(super) const UNKNOWN_SESSION: Row = row(404, -32001, "Session not found");
pub(super) const NO_SESSION: Row = row(
    400,
    -32000,
    "Bad Request: Mcp-Session-Id header is required",
);
pub(super) const NOT_JSON: Row = row(400, -32700, "Parse error: Invalid JSON");
pub(super) const NOT_ONE: Row = row(
    400,
    -32600,
    "Invalid Request: one JSON-RPC message per request",
);
pub(super) const FULL: Row = row(
    503,
    -32000,
    "Service unavailable: session limit reached (1)",
)
.header("retry-after", "1");
pub(super) const STOPPING: Row = row(503, -32000, "Service unavailable: server is shutting down");
pub(super) const SECOND_STREAM: Row = row(
    409,
    -32000,
    "Conflict: Only one SSE stream is allowed per session",
);
pub(super) const INTERNAL: Row = row(500, -32603, "Internal error");
