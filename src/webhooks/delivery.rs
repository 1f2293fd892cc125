//! A call from its first attempt to its report.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use super::client::{Client, Fault, Lookup, Message};
use super::{CONCURRENT_MAX, Options, body};
use crate::broker::{Broker, PendingCall, Submitted};
use crate::command::{Command, IsWebhookEnabled, Reply, ReportWebhook};
use crate::engine::{WEBHOOKS_MAX, WebhookCall};
use crate::net::Throttle;

/// Bytes of payload up to which a body is written at once; more takes a thread where nobody waits.
const QUICK_BYTES: usize = 65_536;

/// What all calls share.
pub(super) struct Courier {
    broker: Arc<dyn Broker>,
    options: Options,
    lookup: Lookup,
    /// Made by the first call; `None` inside when it could not be made.
    client: OnceLock<Option<Client>>,
    /// Which of the calls that were given up the log tells of, by webhook.
    failures: Throttle<Arc<str>>,
    /// What bounds the calls of each webhook that has any.
    turns: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

impl Courier {
    pub(super) fn new(broker: Arc<dyn Broker>, options: Options, lookup: Lookup) -> Self {
        Self {
            broker,
            options,
            lookup,
            client: OnceLock::new(),
            failures: Throttle::new(2 * WEBHOOKS_MAX),
            turns: Mutex::default(),
        }
    }

    /// Whether a client was needed yet.
    #[cfg(test)]
    pub(super) fn has_client(&self) -> bool {
        self.client.get().is_some()
    }

    /// Whether no call is in progress or waits for its turn.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let turns = self.turns.lock();
        turns.values().all(|places| Arc::strong_count(places) == 1)
    }

    fn client(&self) -> Option<&Client> {
        let make = || {
            Client::new(&self.options, Arc::clone(&self.lookup))
                .inspect_err(|error| tracing::error!(%error, "webhooks cannot be called"))
                .ok()
        };
        self.client.get_or_init(make).as_ref()
    }

    /// Waits for one of the places that the webhook has.
    async fn turn(&self, webhook: &Arc<str>) -> Option<OwnedSemaphorePermit> {
        let places = {
            let mut turns = self.turns.lock();
            if turns.len() > WEBHOOKS_MAX {
                // Webhooks come and go; those without calls hold only one count.
                turns.retain(|_, places| Arc::strong_count(places) > 1);
            }
            let places = || Arc::new(Semaphore::new(CONCURRENT_MAX));
            Arc::clone(turns.entry(Arc::clone(webhook)).or_insert_with(places))
        };
        places.acquire_owned().await.ok()
    }

    fn ask(&self, command: Command) -> bool {
        let answer = self.broker.submit_one(None, command);
        matches!(answer, Submitted::Done(Ok(Reply::Flag(true))))
    }

    async fn attempt(&self, url: &str, message: &Message) -> Result<(), Fault> {
        let client = self.client().ok_or(Fault::NoClient)?;
        client.post(url, message).await
    }
}

/// Makes a call, with as many attempts as it takes and may take, and reports its end. It is withdrawn without a trace
/// when the webhook has been removed or switched off since.
pub(super) async fn deliver(courier: Arc<Courier>, pending: PendingCall) {
    let (target, call) = (&pending.call().target, pending.call());
    let id = &target.id;
    let Some(_turn) = courier.turn(id).await else {
        return;
    };
    let message = if call.bytes() > QUICK_BYTES {
        // Others would wait for this thread meanwhile.
        let call = call.clone();
        let written = tokio::task::spawn_blocking(move || message(&call)).await;
        let Ok(message) = written else {
            report(&courier, id, false);
            return;
        };
        message
    } else {
        message(call)
    };
    let attempts = courier.options.attempts.max(1);
    for attempt in 1..=attempts {
        if !courier.ask(IsWebhookEnabled { id: Arc::clone(id) }.into()) {
            return;
        }
        let Err(fault) = courier.attempt(&target.url, &message).await else {
            report(&courier, id, true);
            return;
        };
        if attempt < attempts {
            tokio::time::sleep(pause(courier.options.retry_delay, attempt)).await;
        } else if let Some(calls) = courier.failures.another(Arc::clone(id)) {
            let (webhook, host, event) = (&**id, host(&target.url), message.event);
            tracing::warn!(webhook, host, event, attempts, %fault, calls, "calls of a webhook were given up");
        }
    }
    report(&courier, id, false);
}

fn message(call: &WebhookCall) -> Message {
    let body = body::body(call);
    let secret = call.target.secret.as_ref();
    Message {
        event: call.name.name(),
        timestamp: call.event.at,
        signature: secret.and_then(|secret| body::signature(secret, &body)),
        body: body.into(),
    }
}

fn report(courier: &Courier, id: &Arc<str>, delivered: bool) {
    let id = Arc::clone(id);
    courier.ask(ReportWebhook { id, delivered }.into());
}

/// What the log may show of a URL: its path and query may hold secrets.
fn host(url: &str) -> String {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    match url.as_ref().and_then(Url::port) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// How long to wait after that many attempts.
fn pause(delay: Duration, attempts: u32) -> Duration {
    delay.saturating_mul(attempts)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn of_a_url_the_host_alone_is_told() {
        for (url, shown) in [
            ("https://hooks.example/t0p/s3cret?key=k#f", "hooks.example"),
            ("http://[::1]:8080/x", "[::1]:8080"),
            ("no url", ""),
        ] {
            assert_eq!(host(url), shown);
        }
    }

    #[test]
    fn wh_2_the_wait_grows_with_the_attempts() {
        let delay = Options::default().retry_delay;
        let waits: Vec<_> = (1..Options::default().attempts)
            .map(|attempt| pause(delay, attempt).as_millis())
            .collect();
        assert_eq!(waits, [1_000, 2_000]);
        assert_eq!(pause(Duration::MAX, 3), Duration::MAX);
    }
}
