//! What a receiver gets: the body as JSON, and its signature.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::command::payload;
use crate::engine::{EventKind, Payload, WebhookCall, WebhookSecret};

/// Bytes of the data in a body, as JSON; larger data is left out, and `dataOmitted` says so. All data that a job may have
/// fits, whatever its letters; results may be larger.
pub(super) const DATA_MAX: usize = 33_554_432;

/// The body: `event`, `timestamp`, `jobId`, `queue`, and what the event carries.
pub(super) fn body(call: &WebhookCall) -> Vec<u8> {
    let event = &call.event;
    let mut body = Members::default();
    body.put("event", &call.name.name().into());
    body.put("timestamp", &event.at.into());
    body.put("jobId", &event.job.as_ref().map(ToString::to_string).into());
    body.put("queue", &(&*event.queue).into());
    match &event.kind {
        EventKind::Completed { result } => body.put_data(result.as_ref()),
        EventKind::Failed {
            error,
            data,
            terminal,
        } => {
            body.put_data(data.as_ref());
            if let Some(error) = error {
                body.put("error", &(&**error).into());
            }
            body.put("terminal", &(*terminal).into());
        }
        EventKind::Progress { progress, message } => {
            let progress = number(*progress);
            let data = json!({ "progress": progress, "message": message.as_deref() });
            body.put("data", &data);
            body.put("progress", &progress);
        }
        _ => {}
    }
    body.end()
}

/// A JSON object that is being written. Payloads go into it as text: as values they would take many times their size.
#[derive(Default)]
struct Members(String);

impl Members {
    fn put(&mut self, name: &'static str, value: &Value) {
        self.put_text(name, &value.to_string());
    }

    fn put_data(&mut self, payload: Option<&Payload>) {
        let Some(payload) = payload else { return };
        let data = payload::to_json_within(payload.bytes(), DATA_MAX);
        if data.len() > DATA_MAX {
            self.put("dataOmitted", &true.into());
        } else {
            self.put_text("data", &data);
        }
    }

    fn put_text(&mut self, name: &'static str, json: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        for part in ["\"", name, "\":", json] {
            self.0.push_str(part);
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.0.push('}');
        self.0.into_bytes()
    }
}

/// A whole number without a fraction, as other implementations write it.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}

/// HMAC-SHA256 of the exact body, as lower-case hex.
pub(super) fn signature(secret: &WebhookSecret, body: &[u8]) -> Option<String> {
    // A key of any length will do.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.text().as_bytes()).ok()?;
    mac.update(body);
    let code = mac.finalize().into_bytes();
    Some(code.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::{Event, JobId, WebhookEvent, WebhookTarget};

    fn text(kind: EventKind) -> String {
        let call = WebhookCall {
            target: Arc::new(WebhookTarget {
                id: "w".into(),
                url: "https://example.com".into(),
                secret: None,
            }),
            name: WebhookEvent::of(&kind).unwrap(),
            event: Arc::new(Event {
                queue: "q".into(),
                job: Some(JobId::from_text("j\u{7}\u{202e}\"")),
                at: 1_800_000_000_123,
                kind,
            }),
        };
        String::from_utf8(body(&call)).unwrap()
    }

    fn packed(value: &Value) -> Payload {
        Payload::new(&rmp_serde::to_vec_named(value).unwrap())
    }

    #[test]
    fn each_event_has_its_members_in_order() {
        let head = |name| {
            format!(
                "{{\"event\":\"{name}\",\"timestamp\":1800000000123,\"jobId\":\"j\\u0007\u{202e}\\\"\",\"queue\":\"q\""
            )
        };
        let cases = [
            (EventKind::Pushed, head("job.pushed") + "}"),
            (EventKind::Pulled, head("job.started") + "}"),
            (
                EventKind::Completed { result: None },
                head("job.completed") + "}",
            ),
            (
                EventKind::Completed {
                    result: Some(packed(&json!({ "ok": [1, 2.5, "x\u{0}"] }))),
                },
                head("job.completed") + ",\"data\":{\"ok\":[1,2.5,\"x\\u0000\"]}}",
            ),
            (
                EventKind::Failed {
                    error: Some("boom".into()),
                    data: Some(packed(&json!({ "k": 1 }))),
                    terminal: false,
                },
                head("job.failed") + ",\"data\":{\"k\":1},\"error\":\"boom\",\"terminal\":false}",
            ),
            (
                EventKind::Failed {
                    error: None,
                    data: None,
                    terminal: true,
                },
                head("job.failed") + ",\"terminal\":true}",
            ),
            (
                EventKind::Progress {
                    progress: 42.0,
                    message: Some("half".into()),
                },
                head("job.progress")
                    + ",\"data\":{\"progress\":42,\"message\":\"half\"},\"progress\":42}",
            ),
            (
                EventKind::Progress {
                    progress: 0.5,
                    message: None,
                },
                head("job.progress")
                    + ",\"data\":{\"progress\":0.5,\"message\":null},\"progress\":0.5}",
            ),
        ];
        for (kind, expected) in cases {
            assert_eq!(text(kind), expected);
        }
    }

    #[test]
    fn what_json_cannot_hold_is_tagged() {
        // A map with the binary value 00 ff and the integer 2^63.
        let bytes = [
            0x82, 0xa1, b'b', 0xc4, 2, 0, 0xff, 0xa1, b'i', 0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0,
        ];
        let result = Some(Payload::new(&bytes));
        let text = text(EventKind::Completed { result });
        let tagged = r#""data":{"b":{"$bytes":"AP8="},"i":{"$int":"9223372036854775808"}}"#;
        assert!(text.contains(tagged), "{text}");
    }

    #[test]
    fn data_that_is_too_large_as_json_is_left_out() {
        let body = |letters: usize| {
            let result = Some(packed(&"x".repeat(letters).into()));
            text(EventKind::Completed { result })
        };
        let quotes = 2;
        assert!(body(DATA_MAX - quotes).ends_with("xxx\"}"));
        assert!(body(DATA_MAX - quotes + 1).ends_with(",\"dataOmitted\":true}"));
    }

    #[test]
    fn signatures_are_those_of_the_standard() {
        // RFC 4231, test case 2.
        let secret = WebhookSecret::new("Jefe");
        assert_eq!(
            signature(&secret, b"what do ya want for nothing?").unwrap(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
