//! Calls over loopback: a real broker, a real client, and receivers that behave as each test wants.

mod answers;
mod bounds;
mod reach;
mod receiver;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::client::{Lookup, system_lookup};
use super::delivery::Courier;
use super::{Options, run};
use crate::broker::{Broker, BrokerExt, LocalBroker};
use crate::command::draft::JobDraft;
use crate::command::webhook::{Addresses, WebhookDraft};
use crate::command::{
    Ack, Add, AddWebhook, Fail, ListWebhooks, Operation, Pull, QueueName, RemoveWebhook,
    SetWebhookEnabled,
};
use crate::engine::{
    Config, Delivery, FailReport, JobId, NewJob, Payload, TokenGiven, WebhookSecret, WebhookView,
};

use receiver::{Answer, Receiver};

/// Nothing here takes that long; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("nothing happened")
}

/// A broker whose webhooks are called.
struct World {
    broker: Arc<LocalBroker>,
    courier: Arc<Courier>,
    serving: JoinHandle<()>,
    shutdown: CancellationToken,
    _ends_with_the_test: DropGuard,
}

/// Any address may be called, and failed attempts are repeated at once.
fn options() -> Options {
    Options {
        retry_delay: Duration::ZERO,
        addresses: Addresses::Any,
        ..Options::default()
    }
}

/// Every name stands for these addresses.
fn always(addresses: &'static [&'static str]) -> Lookup {
    Arc::new(|_| {
        let found = addresses.iter().map(|text| text.parse::<IpAddr>().unwrap());
        let found = found.collect();
        Box::pin(async move { Ok(found) })
    })
}

impl World {
    fn new() -> Self {
        Self::with(options(), system_lookup())
    }

    /// Registration allows any address here; what `options` forbids shows when calls are made.
    fn with(options: Options, lookup: Lookup) -> Self {
        let config = Config {
            private_webhooks: true,
            ..Config::default()
        };
        let broker = Arc::new(LocalBroker::start(config).unwrap());
        let shutdown = CancellationToken::new();
        let calls = broker.webhook_calls();
        let door: Arc<dyn Broker> = Arc::clone(&broker) as _;
        let courier = Arc::new(Courier::new(door, options, lookup));
        let serving = tokio::spawn(run(Arc::clone(&courier), calls, shutdown.clone()));
        Self {
            broker,
            courier,
            serving,
            _ends_with_the_test: shutdown.clone().drop_guard(),
            shutdown,
        }
    }

    async fn ask<O: Operation>(&self, operation: O) -> O::Reply {
        soon(self.broker.call(operation)).await.unwrap()
    }

    async fn webhook(&self, url: &str, events: &[&str]) -> WebhookView {
        self.webhook_with(url, events, None).await
    }

    async fn webhook_with(&self, url: &str, events: &[&str], secret: Option<&str>) -> WebhookView {
        let webhook = WebhookDraft {
            url: url.into(),
            events: events.iter().map(|name| Arc::from(*name)).collect(),
            queue: None,
            secret: secret.map(WebhookSecret::new),
        };
        *self.ask(AddWebhook { webhook }).await
    }

    async fn add(&self) -> JobId {
        self.add_job(JobDraft::default().check().unwrap()).await
    }

    async fn add_job(&self, job: NewJob) -> JobId {
        let queue = QueueName::lenient("q");
        self.ask(Add { queue, job }).await.id
    }

    async fn pull(&self) -> Delivery {
        let pull = Pull {
            queue: QueueName::lenient("q"),
            count: 1,
            wait: 0,
            locked: false,
            lock_ttl: 30_000.0,
            detach: false,
            group: None,
        };
        self.ask(pull).await.pop().expect("a job is ready")
    }

    async fn complete(&self, id: &JobId, result: Option<Payload>) {
        let ack = Ack {
            id: id.clone(),
            token: TokenGiven::None,
            result,
            remove_on_complete: false,
        };
        self.ask(ack).await;
    }

    async fn fail(&self, id: &JobId, error: &str) {
        let report = FailReport {
            error: Some(error.into()),
            ..FailReport::default()
        };
        let (id, token) = (id.clone(), TokenGiven::None);
        self.ask(Fail { id, token, report }).await;
    }

    /// Calls that were accepted and given up, of the first webhook.
    async fn counts(&self) -> (u64, u64) {
        let list = self.ask(ListWebhooks).await.list;
        (list[0].success_count, list[0].failure_count)
    }

    /// Waits until the counts of the first webhook are these.
    async fn counted(&self, successes: u64, failures: u64) {
        let reached = async {
            while self.counts().await != (successes, failures) {
                tokio::task::yield_now().await;
            }
        };
        soon(reached).await;
    }
}
