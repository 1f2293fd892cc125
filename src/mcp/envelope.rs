//! What both transports know about a JSON-RPC message before rmcp sees it: whether the bytes are one at all.
//!
//! rmcp stays silent about text that is not JSON and answers other faults without an `id`; the contract wants an answer with
//! `id: null` for each. So the bytes are read here, once, and what is no message becomes a `Fault` that knows its answer.
//! rmcp also takes a list request whose cursor it cannot read for one without, and would answer with the first page for ever;
//! `cursor_fault` finds those.
//! `params: null` and `arguments: null` need no care: rmcp reads both as absent (a test below holds it to that).

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, PaginatedRequestParams, RequestId,
};
use serde::Deserialize;
use serde_json::Value;

/// JSON-RPC 2.0 "Parse error".
pub(super) const PARSE_ERROR: i32 = -32700;
/// JSON-RPC 2.0 "Invalid Request".
pub(super) const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC 2.0 "Invalid params".
pub(super) const INVALID_PARAMS: i32 = -32602;

/// Why a line or a body is no JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Not JSON, which includes text that is not UTF-8.
    NotJson,
    /// JSON by its grammar, with something in it that is not read here. Holds the `id` of the request and the reason.
    Unreadable(RequestId, &'static str),
    /// JSON, but neither a request nor a notification nor a response: a batch, another version, an `id` of a wrong type.
    /// Holds the `id` if one could be read.
    NotAMessage(Option<RequestId>),
}

/// Reads one message.
pub(super) fn read(text: &[u8]) -> Result<ClientJsonRpcMessage, Fault> {
    match serde_json::from_slice(text) {
        Ok(message) => Ok(message),
        // Only now, off the common path, is it worth the second look that tells bad text from bad shape.
        Err(_) => Err(match serde_json::from_slice::<Value>(text) {
            Ok(value) => Fault::NotAMessage(readable_id(&value)),
            Err(error) => unreadable(text, &error).unwrap_or(Fault::NotJson),
        }),
    }
}

/// The text of a call whose arguments came as JSON text that holds an object, with that object in its place; `None` for any
/// other message. `text` is what `message` was read from.
pub(super) fn unpacked(message: &ClientJsonRpcMessage, text: &[u8]) -> Option<String> {
    let JsonRpcMessage::Request(request) = message else {
        return None;
    };
    let ClientRequest::CustomRequest(custom) = &request.request else {
        return None;
    };
    if custom.method != "tools/call" {
        return None;
    }
    let mut call: Value = serde_json::from_slice(text).ok()?;
    let arguments = call.get_mut("params")?.get_mut("arguments")?;
    let object = serde_json::from_str(arguments.as_str()?).ok()?;
    *arguments = Value::Object(object);
    Some(call.to_string())
}

/// The `id` and the reason of a text that keeps the grammar of JSON and breaks a limit of the parser.
fn unreadable(text: &[u8], error: &serde_json::Error) -> Option<Fault> {
    /// The one member that is read; the parser passes over others without a look at depth, range or escapes.
    #[derive(Deserialize)]
    struct Head {
        id: RequestId,
    }
    std::str::from_utf8(text).ok()?;
    let Head { id } = serde_json::from_slice(text).ok()?;
    let error = error.to_string();
    let reason = if error.starts_with("recursion limit") {
        "nested too deeply"
    } else if error.starts_with("number out of range") {
        "a number is out of range"
    } else {
        "a text holds an invalid escape"
    };
    Some(Fault::Unreadable(id, reason))
}

/// The answer to a list request whose cursor is neither absent, null nor text. `text` is what `message` was read from.
pub(super) fn cursor_fault(message: &ClientJsonRpcMessage, text: &[u8]) -> Option<String> {
    let JsonRpcMessage::Request(request) = message else {
        return None;
    };
    let params = match &request.request {
        ClientRequest::ListToolsRequest(list) => &list.params,
        ClientRequest::ListPromptsRequest(list) => &list.params,
        ClientRequest::ListResourcesRequest(list) => &list.params,
        ClientRequest::ListResourceTemplatesRequest(list) => &list.params,
        ClientRequest::ListSkillsRequest(list) => &list.params,
        _ => return None,
    };
    // What rmcp could read is in order; only where it has nothing is the text worth a second look.
    if params.is_some() || serde_json::from_slice::<ListRequest>(text).is_ok() {
        return None;
    }
    Some(error_text(
        INVALID_PARAMS,
        "Invalid params: cursor is the nextCursor of an answer, a string; leave it out for the first page",
        Some(&request.id),
    ))
}

/// A list request as far as its cursor goes.
#[derive(Deserialize)]
struct ListRequest {
    #[serde(rename = "params")]
    _params: Option<PaginatedRequestParams>,
}

/// The `id` an answer to an invalid request may carry: text or integer, as in a valid one.
fn readable_id(value: &Value) -> Option<RequestId> {
    RequestId::deserialize(value.get("id")?).ok()
}

/// The text of an error answer, without a line end.
pub(super) fn error_text(code: i32, message: &str, id: Option<&RequestId>) -> String {
    serde_json::json!({
        "jsonrpc": "2.0",
        "error": { "code": code, "message": message },
        "id": id,
    })
    .to_string()
}

/// The same with more about the fault, which belongs to no request.
pub(super) fn error_text_with(code: i32, message: &str, data: &serde_json::Value) -> String {
    serde_json::json!({
        "jsonrpc": "2.0",
        "error": { "code": code, "message": message, "data": data },
        "id": null,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_tell_bad_text_from_bad_shape() {
        let id = |id: i64| Fault::NotAMessage(Some(RequestId::Number(id)));
        let cases: [(&[u8], Fault); 16] = [
            (b"", Fault::NotJson),
            (b"{", Fault::NotJson),
            (b"hello", Fault::NotJson),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} x",
                Fault::NotJson,
            ),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
                Fault::NotJson,
            ),
            (b"[]", Fault::NotAMessage(None)),
            (
                b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
                Fault::NotAMessage(None),
            ),
            (b"1", Fault::NotAMessage(None)),
            (b"null", Fault::NotAMessage(None)),
            (b"{}", Fault::NotAMessage(None)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1}", id(1)),
            (b"{\"jsonrpc\":\"1.0\",\"id\":2,\"method\":\"ping\"}", id(2)),
            (b"{\"id\":3,\"method\":\"ping\"}", id(3)),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":7}",
                Fault::NotAMessage(Some(RequestId::String("a".into()))),
            ),
            // An id that is present but unusable must not turn a request into a silent notification.
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
                Fault::NotAMessage(None),
            ),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
                Fault::NotAMessage(None),
            ),
        ];
        for (text, fault) in cases {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(read(text).unwrap_err(), fault, "{shown}");
        }
    }

    #[test]
    fn what_the_parser_does_not_take_is_answered_to_its_request() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (data, reason) in [
            (r#""\ud800""#, "a text holds an invalid escape"),
            (r#""\ud800x""#, "a text holds an invalid escape"),
            ("1e999", "a number is out of range"),
            (deep.as_str(), "nested too deeply"),
        ] {
            let before = format!(r#"{{"id":7,"jsonrpc":"2.0","method":"ping","params":{data}}}"#);
            let after = format!(r#"{{"jsonrpc":"2.0","method":"ping","params":{data},"id":7}}"#);
            for text in [before, after] {
                let fault = read(text.as_bytes()).unwrap_err();
                assert_eq!(
                    fault,
                    Fault::Unreadable(RequestId::Number(7), reason),
                    "{text}"
                );
            }
            let without = format!(r#"{{"jsonrpc":"2.0","method":"ping","params":{data}}}"#);
            assert_eq!(read(without.as_bytes()).unwrap_err(), Fault::NotJson);
        }
    }

    #[test]
    fn null_params_and_null_arguments_are_absent_ones() {
        let same = |with: &str, without: &str| {
            let message =
                |text: &str| serde_json::to_value(read(text.as_bytes()).unwrap()).unwrap();
            assert_eq!(message(with), message(without), "{with}");
        };
        for method in [
            "ping",
            "initialize",
            "tools/list",
            "tools/call",
            "resources/read",
            "server/discover",
            "no/such/method",
        ] {
            same(
                &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":null}}"#),
                &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#),
            );
        }
        for method in [
            "notifications/initialized",
            "notifications/cancelled",
            "notifications/other",
        ] {
            same(
                &format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":null}}"#),
                &format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#),
            );
        }
        for method in ["tools/call", "prompts/get"] {
            let with = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"n","arguments":null,"_meta":null}}}}"#
            );
            same(
                &with,
                &format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"n"}}}}"#
                ),
            );
            let JsonRpcMessage::Request(request) = read(with.as_bytes()).unwrap() else {
                panic!("{with} is a request");
            };
            assert!(
                !matches!(request.request, ClientRequest::CustomRequest(_)),
                "{with} keeps its type"
            );
        }
    }

    #[test]
    fn a_cursor_is_text_or_absent() {
        let fault = |method: &str, params: &str| {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{params}}}"#);
            let text = text.as_bytes();
            cursor_fault(&read(text).unwrap(), text)
        };
        let lists = [
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "skills/list",
        ];
        for method in lists {
            for params in [
                "null",
                "{}",
                r#"{"cursor":null}"#,
                r#"{"cursor":"5","other":5}"#,
                r#"{"_meta":{"cursor":5}}"#,
            ] {
                assert_eq!(fault(method, params), None, "{method} {params}");
            }
            for params in [
                r#"{"cursor":5}"#,
                r#"{"cursor":[]}"#,
                r#"{"cursor":{},"_meta":{}}"#,
                r#"{"cursor":false}"#,
            ] {
                let answer = fault(method, params).unwrap();
                let answer: Value = serde_json::from_str(&answer).unwrap();
                assert_eq!(answer["error"]["code"], INVALID_PARAMS, "{method} {params}");
                assert_eq!(answer["id"], "a");
            }
        }
        for method in ["ping", "tools/call", "no/such/list"] {
            assert_eq!(
                fault(method, r#"{"name":"n","cursor":5}"#),
                None,
                "{method}"
            );
        }
        assert_eq!(
            fault("tools/list", r#"{"cursor":5}"#)
                .unwrap()
                .lines()
                .count(),
            1
        );
    }

    #[test]
    fn an_answer_without_a_readable_id_says_null() {
        assert_eq!(
            error_text(PARSE_ERROR, "no", None),
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"},"id":null}"#
        );
        assert!(
            error_text(INVALID_REQUEST, "no", Some(&RequestId::Number(4))).ends_with(r#""id":4}"#)
        );
    }
}
