//! From what a client sent to a webhook that the engine trusts (engine contract, section 20).
//!
//! The faults come in the order in which the contract names them: the URL, then the events. A URL is looked at again
//! before each call ([`url`]), so that one rule holds for both.

use std::sync::Arc;

use url::Url;

use super::address;
use super::argument::ArgumentError;
use super::bounds::{QUEUE_NAME_MAX, WEBHOOK_SECRET_MAX, WEBHOOK_URL_MAX, cut, is_longer};
use crate::engine::{NewWebhook, WebhookEvent, WebhookSecret};

/// Which addresses webhooks may point to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Those of the internet.
    Public,
    /// Any; only by the operator's wish.
    Any,
}

impl Addresses {
    /// Any if private ones are allowed, too.
    pub const fn allowed(private: bool) -> Self {
        if private { Self::Any } else { Self::Public }
    }
}

/// A webhook as a client sent it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebhookDraft {
    /// Where calls go.
    pub url: Arc<str>,
    /// Names of events; a name given twice counts once, and without any the webhook is never called.
    pub events: Vec<Arc<str>>,
    /// Events of this queue only; `None` or an empty name: of all.
    pub queue: Option<Arc<str>>,
    /// What calls are signed with; `None` or an empty one: nothing.
    pub secret: Option<WebhookSecret>,
}

impl WebhookDraft {
    /// The webhook, if every value is acceptable.
    ///
    /// # Errors
    /// The first fault, in the order of the contract.
    pub fn check(self, allowed: Addresses) -> Result<NewWebhook, ArgumentError> {
        url(&self.url, allowed)?;
        let events = events(&self.events)?;
        let queue = self.queue.filter(|name| !name.is_empty());
        if queue
            .as_ref()
            .is_some_and(|name| is_longer(name, QUEUE_NAME_MAX))
        {
            return Err(ArgumentError::QueueTooLong);
        }
        let secret = self.secret.filter(|secret| !secret.text().is_empty());
        let too_long = |secret: &WebhookSecret| is_longer(secret.text(), WEBHOOK_SECRET_MAX);
        if secret.as_ref().is_some_and(too_long) {
            let (field, max) = ("secret", WEBHOOK_SECRET_MAX);
            return Err(ArgumentError::TextTooLong { field, max });
        }
        Ok(NewWebhook {
            url: self.url,
            events,
            queue,
            secret,
        })
    }
}

/// Reads the URL of a webhook.
///
/// # Errors
/// The first rule that it breaks. That it breaks none does not yet mean that its name stands for an allowed address.
pub fn url(text: &str, allowed: Addresses) -> Result<Url, ArgumentError> {
    if text.is_empty() {
        return Err(ArgumentError::WebhookUrlRequired);
    }
    if is_longer(text, WEBHOOK_URL_MAX) {
        return Err(ArgumentError::WebhookUrlTooLong);
    }
    let url = Url::parse(text).map_err(|_| ArgumentError::WebhookUrlInvalid)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ArgumentError::WebhookScheme);
    }
    if allowed == Addresses::Public
        && let Some(forbidden) = address::host_of(&url)
    {
        return Err(ArgumentError::WebhookHost(forbidden));
    }
    // It would be shown to whoever lists webhooks.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ArgumentError::WebhookCredentials);
    }
    Ok(url)
}

fn events(names: &[Arc<str>]) -> Result<Vec<WebhookEvent>, ArgumentError> {
    let mut events = Vec::new();
    let mut unknown: Vec<&str> = Vec::new();
    for name in names {
        match WebhookEvent::from_name(name) {
            Some(event) if events.contains(&event) => {}
            Some(event) => events.push(event),
            None => unknown.push(name),
        }
    }
    if unknown.is_empty() {
        Ok(events)
    } else {
        Err(ArgumentError::WebhookEvents(cut(unknown.join(", ").into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        match url(text, Addresses::Public) {
            Ok(url) => format!("accepted {url}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn wh_3_urls_are_judged_in_the_order_of_the_texts() {
        let to = |what: &str| format!("Webhook URL cannot point to {what}");
        let long = |letters| format!("https://example.com/{}", "a".repeat(letters));
        let cases: [(String, &[&str]); 13] = [
            ("Webhook URL is required".into(), &[""]),
            (
                "Webhook URL too long (max 2048 characters)".into(),
                &[&long(2_029), &"x".repeat(2_049)],
            ),
            (
                "Invalid URL format".into(),
                &[
                    "nope",
                    "notaurl",
                    " ",
                    "http://",
                    "http://a b/",
                    "//a.com/",
                    "http://[::1",
                ],
            ),
            (
                "Webhook URL must use http or https protocol".into(),
                &[
                    "ftp://a.com",
                    "file:///etc/passwd",
                    "javascript:alert(1)",
                    "ftp://u:p@10.0.0.1/",
                ],
            ),
            (
                to("localhost"),
                &[
                    "http://localhost/x",
                    "http://LOCALHOST",
                    "http://localhost./",
                    "http://127.0.0.1",
                    "http://127.0.0.1.:80/",
                    "http://127.1/",
                    "http://[::1]",
                    "http://[0:0:0:0:0:0:0:1]:8080/",
                    "http://x.localhost",
                    "http://2130706433/",
                    "http://0x7f.1/",
                    "http://0x7f000001/",
                    "http://017700000001/",
                    "http://user:password@localhost/",
                ],
            ),
            (
                to("private IP"),
                &[
                    "http://10.1.2.3",
                    "http://172.16.0.1",
                    "http://192.168.1.1",
                    "http://[::ffff:10.0.0.1]/",
                    "http://100.64.0.1",
                ],
            ),
            (
                to("link-local IP"),
                &[
                    "http://169.254.1.1",
                    "http://169.254.169.254/latest",
                    "http://[fe80::1]",
                    "http://[::ffff:a9fe:a9fe]",
                ],
            ),
            (
                to("unspecified IP"),
                &[
                    "http://0.0.0.0",
                    "http://0/",
                    "http://[::]/",
                    "http://[::ffff:0:1]/",
                ],
            ),
            (
                to("loopback IP"),
                &[
                    "http://127.9.9.9",
                    "http://[::ffff:127.0.0.1]",
                    "http://[::127.0.0.1]",
                    "http://[::ffff:7f00:1]",
                ],
            ),
            (to("private (ULA) IP"), &["http://[fd00::1]"]),
            (
                to("cloud metadata endpoints"),
                &[
                    "http://metadata.google.internal/",
                    "http://x.internal",
                    "http://x.INTERNAL.",
                ],
            ),
            (
                to("multicast IP"),
                &["http://224.0.0.1", "http://[ff02::1]"],
            ),
            (
                to("reserved IP"),
                &[
                    "http://255.255.255.255",
                    "http://[64:ff9b::7f00:1]",
                    "http://[2002:7f00:1::]",
                    "http://192.0.2.1",
                ],
            ),
        ];
        for (text, urls) in cases {
            for url in urls {
                assert_eq!(fault(url), text, "{url}");
            }
        }
        let accepted = [
            "https://example.com/h",
            "http://172.32.0.1",
            "HTTP://EXAMPLE.COM:8080/x?y=z#w",
            "https://localhost.example.com/",
            "https://internal.example.com/",
            &long(2_028),
        ];
        for url in accepted {
            assert!(fault(url).starts_with("accepted "), "{url}: {}", fault(url));
        }
    }

    #[test]
    fn credentials_in_a_url_are_refused() {
        let text = "Webhook URL cannot contain a user name or password";
        for url in [
            "http://user@example.com/",
            "https://user:pw@example.com",
            "https://:pw@example.com",
        ] {
            assert_eq!(fault(url), text, "{url}");
        }
    }

    #[test]
    fn with_any_address_allowed_only_hosts_are_not_looked_at() {
        let any = |text| url(text, Addresses::Any).map_err(|error| error.to_string());
        for text in [
            "http://127.0.0.1:1/",
            "http://localhost",
            "http://[fd00::1]/",
            "http://x.internal",
        ] {
            assert!(any(text).is_ok(), "{text}");
        }
        assert_eq!(any("nope").unwrap_err(), "Invalid URL format");
        assert_eq!(
            any("http://a:b@127.0.0.1").unwrap_err(),
            "Webhook URL cannot contain a user name or password"
        );
    }

    #[test]
    fn the_other_values_are_checked_after_the_url() {
        let draft = |url: &str, events: &[&str]| WebhookDraft {
            url: url.into(),
            events: events.iter().map(|name| Arc::from(*name)).collect(),
            ..WebhookDraft::default()
        };
        let refused = |draft: WebhookDraft| draft.check(Addresses::Public).unwrap_err().to_string();
        const GOOD: &str = "https://example.com";
        assert_eq!(refused(draft("nope", &["x"])), "Invalid URL format");
        assert_eq!(
            refused(draft(GOOD, &["job.stalled", "job.pushed", "x"])),
            "Invalid webhook event(s): job.stalled, x. Valid: job.pushed, job.started, job.completed, job.failed, job.progress"
        );
        let long = WebhookDraft {
            secret: Some(WebhookSecret::new(&"s".repeat(1_025))),
            ..draft(GOOD, &[])
        };
        assert_eq!(refused(long), "secret must be at most 1024 characters");
        let long = WebhookDraft {
            queue: Some("q".repeat(257).into()),
            ..draft(GOOD, &[])
        };
        assert_eq!(refused(long), "Queue name too long (max 256 characters)");
    }

    #[test]
    fn names_twice_and_empty_texts_are_taken_as_meant() {
        let draft = WebhookDraft {
            url: "https://example.com".into(),
            events: ["job.failed", "job.pushed", "job.failed"]
                .map(Arc::from)
                .to_vec(),
            queue: Some("".into()),
            secret: Some(WebhookSecret::new("")),
        };
        let webhook = draft.check(Addresses::Public).unwrap();
        assert_eq!(webhook.events, [WebhookEvent::Failed, WebhookEvent::Pushed]);
        assert_eq!((webhook.queue, webhook.secret), (None, None));
    }
}
