//! How a request ends: answered or cancelled, whichever is decided first, and never both.
//!
//! rmcp drops the answer of a request that is cancelled before the answer is sent, also when its handler has returned by then;
//! the jobs of a pull would go with it. So each request carries an `Ending` from the transport to its handler, and a
//! cancellation reaches rmcp only if it claimed that ending while the handler was still at work. A handler that has
//! something to lose claims it as the last thing it does: then the answer goes out. MCP lets a server ignore a cancellation
//! that comes too late (MCP 2025-11-25, cancellation).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, GetExtensions, JsonRpcMessage, RequestId,
};

/// The one decision on how a request ends. Clones decide together.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    claimed: Arc<AtomicBool>,
}

impl Ending {
    /// Decides, once: true for whoever comes first, false for everybody after.
    pub fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }
}

/// The endings of one client's requests. Those of handlers that are done are forgotten: their answers are on their way.
#[derive(Default)]
pub(super) struct Endings(HashMap<RequestId, Weak<AtomicBool>>);

impl Endings {
    /// Whether rmcp shall see a message; false for a cancellation that comes too late. A request gets its ending here, in its
    /// extensions, which its handler finds in its context.
    pub(super) fn admit(&mut self, message: &mut ClientJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                let ending = self.begin(request.id.clone());
                request.request.extensions_mut().insert(ending);
                true
            }
            JsonRpcMessage::Notification(note) => match &note.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    let id = cancelled.params.request_id.as_ref();
                    id.is_some_and(|id| self.cancel(id))
                }
                _ => true,
            },
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => true,
        }
    }

    /// Ends a request by cancellation; false when it has ended, is certain to be answered, or was never made.
    pub(super) fn cancel(&mut self, id: &RequestId) -> bool {
        let claimed = self.0.remove(id).and_then(|ending| ending.upgrade());
        claimed.is_some_and(|claimed| Ending { claimed }.claim())
    }

    fn begin(&mut self, id: RequestId) -> Ending {
        // Before the table grows: so its size follows the requests that are open, not all that were made.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|_, ending| ending.strong_count() > 0);
        }
        let ending = Ending::default();
        self.0.insert(id, Arc::downgrade(&ending.claimed));
        ending
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message(value: Value) -> ClientJsonRpcMessage {
        serde_json::from_value(value).unwrap()
    }

    /// Admits a request and gives what its handler would get.
    fn request(endings: &mut Endings, id: &Value) -> Ending {
        let mut request = message(json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "n" },
        }));
        assert!(endings.admit(&mut request));
        let JsonRpcMessage::Request(request) = request else {
            panic!("{request:?} is a request");
        };
        request
            .request
            .extensions()
            .get::<Ending>()
            .unwrap()
            .clone()
    }

    fn admits_cancellation(endings: &mut Endings, id: &Value) -> bool {
        let params = json!({ "requestId": id });
        endings.admit(&mut message(
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        ))
    }

    #[test]
    fn the_first_to_claim_decides() {
        let mut endings = Endings::default();
        let cancelled = request(&mut endings, &json!(1));
        assert!(admits_cancellation(&mut endings, &json!(1)));
        assert!(!cancelled.claim());
        assert!(!admits_cancellation(&mut endings, &json!(1)), "once only");

        let answered = request(&mut endings, &json!("1"));
        assert!(answered.claim());
        assert!(!admits_cancellation(&mut endings, &json!("1")));
    }

    #[test]
    fn what_nobody_works_on_is_not_cancelled() {
        let mut endings = Endings::default();
        drop(request(&mut endings, &json!(1)));
        for id in [json!(1), json!(2), json!("1"), Value::Null] {
            assert!(!admits_cancellation(&mut endings, &id), "{id}");
        }
        // An id that is used again is another request.
        let again = request(&mut endings, &json!(1));
        assert!(admits_cancellation(&mut endings, &json!(1)));
        assert!(!again.claim());
    }

    #[test]
    fn other_messages_pass() {
        let mut endings = Endings::default();
        for other in [
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
            json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "m" } }),
        ] {
            assert!(endings.admit(&mut message(other.clone())), "{other}");
        }
    }

    #[test]
    fn finished_requests_take_no_room_for_long() {
        let mut endings = Endings::default();
        let open: Vec<_> = (0..100)
            .map(|id| request(&mut endings, &json!(id)))
            .collect();
        let room = endings.0.capacity();
        for id in 100..10_000 {
            request(&mut endings, &json!(id));
        }
        assert!(endings.0.capacity() <= 2 * room, "{}", endings.0.capacity());
        for (id, ending) in (0..).zip(open) {
            assert!(admits_cancellation(&mut endings, &json!(id)), "{id}");
            assert!(!ending.claim());
        }
    }
}
