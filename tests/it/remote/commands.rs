//! Typed commands of every family, executed by another server: what it answers is what a broker in this process would.

use bunqueue_mcp::broker::{Broker, BrokerExt, EventFilter, RemoteAddress, RemoteBroker};
use bunqueue_mcp::command::draft::JobDraft;
use bunqueue_mcp::command::flow::{FlowNodeDraft, Plan};
use bunqueue_mcp::command::given::Number;
use bunqueue_mcp::command::schedule::CronDraft;
use bunqueue_mcp::command::webhook::WebhookDraft;
use bunqueue_mcp::command::*;
use bunqueue_mcp::engine::{
    CronPage, DlqConfigUpdate, DlqFilter, DlqSelection, Durability, EventKind, EventTypes,
    FailReport, FailureReason, JobId, MetricKind, Payload, RateLimit, StallConfigUpdate, State,
    TokenGiven, WorkerFigures, WorkerRegistration,
};

use crate::process::Serve;

const EMPTY: &[u8] = &[0x80];

async fn connected() -> (Serve, RemoteBroker) {
    let server = Serve::start_with(&[("WEBHOOK_ALLOW_PRIVATE", "true")]);
    let address = RemoteAddress {
        host: "127.0.0.1".into(),
        port: server.tcp.port(),
        token: None,
    };
    let broker = RemoteBroker::connect(address, 2).await.unwrap();
    (server, broker)
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn id(text: &str) -> JobId {
    JobId::from_text(text)
}

async fn add(broker: &RemoteBroker, name: &str) {
    let job = JobDraft {
        custom_id: Some(name),
        max_attempts: Number::Value(1.0),
        data: Some(EMPTY),
        ..JobDraft::default()
    };
    let job = job.check().unwrap();
    let queue = queue();
    assert_eq!(broker.call(Add { queue, job }).await.unwrap().id, id(name));
}

async fn take(broker: &RemoteBroker) -> JobId {
    let pull = Pull {
        queue: queue(),
        count: 1,
        wait: 0,
        locked: false,
        lock_ttl: bounds::LOCK_TTL_DEFAULT,
        detach: true,
        group: None,
    };
    broker.call(pull).await.unwrap().remove(0).job.id
}

async fn fail(broker: &RemoteBroker, name: &str) {
    add(broker, name).await;
    assert_eq!(take(broker).await, id(name));
    let report = FailReport {
        error: Some("no".into()),
        ..FailReport::default()
    };
    let token = TokenGiven::None;
    let id = id(name);
    broker.call(Fail { id, token, report }).await.unwrap();
}

#[tokio::test]
async fn dead_letters_are_listed_counted_and_run_again() {
    let (_server, broker) = connected().await;
    for name in ["a", "b", "c"] {
        fail(&broker, name).await;
    }
    let list = |after, limit| GetDlq {
        queue: queue(),
        filter: DlqFilter {
            after,
            limit,
            ..DlqFilter::default()
        },
    };
    let all = broker.call(list(None, None)).await.unwrap();
    let names: Vec<_> = all.iter().map(|letter| letter.job.id.to_string()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(all.iter().all(|letter| letter.job.state == State::Failed
        && letter.failure.reason == FailureReason::MaxAttemptsExceeded
        && letter.failure.attempts.len() == 1));
    // Whatever moment they have in common, a page begins behind the one before.
    let first = broker.call(list(None, Some(2))).await.unwrap();
    let rest = list(first.last().map(|letter| letter.failure.seq), Some(2));
    let rest = broker.call(rest).await.unwrap();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].job.id, id("c"));
    let stats = broker.call(GetDlqStats { queue: queue() }).await.unwrap();
    assert_eq!((stats.total, stats.by_queue.len()), (3, 1));
    let seen = broker.call(GetJob { id: id("b") }).await.unwrap().unwrap();
    assert_eq!(seen.failure.unwrap().error.as_deref(), Some("no"));
    let one = RetryDlq {
        queue: queue(),
        selection: DlqSelection::One(id("b")),
    };
    assert_eq!(broker.call(one).await, Ok(1));
    let oldest = DlqFilter {
        limit: Some(1),
        ..DlqFilter::default()
    };
    let oldest = RetryDlq {
        queue: queue(),
        selection: DlqSelection::Matching(oldest),
    };
    assert_eq!(broker.call(oldest).await, Ok(1));
    assert_eq!(broker.call(PurgeDlq { queue: queue() }).await, Ok(1));
    let dlq = SetDlqConfig {
        queue: queue(),
        update: DlqConfigUpdate {
            max_entries: Some(7),
            max_age: Some(None),
            ..DlqConfigUpdate::default()
        },
    };
    let config = broker.call(dlq).await.unwrap();
    assert_eq!((config.max_entries, config.max_age), (7, None));
    let stalls = SetStallConfig {
        queue: queue(),
        update: StallConfigUpdate {
            max_stalls: Some(9.0),
            ..StallConfigUpdate::default()
        },
    };
    assert_eq!(broker.call(stalls).await.unwrap().max_stalls, 9.0);
}

#[tokio::test]
async fn schedules_are_made_listed_and_deleted() {
    let (_server, broker) = connected().await;
    for (name, every) in [("slow", 9e8), ("fast", 8e8)] {
        let cron = CronDraft {
            name,
            repeat_every: Number::Value(every),
            data: Some(EMPTY),
            job_name: Some("n"),
            ..CronDraft::default()
        };
        let cron = cron.check(&queue()).unwrap();
        let made = broker.call(UpsertCron { cron }).await.unwrap();
        assert_eq!(&*made.definition.name, name);
        assert!(made.figures.next_run.is_some());
    }
    let page = CronPage {
        start: 0,
        end: Some(0),
        ascending: true,
    };
    let first = broker.call(ListCrons { page: Some(page) }).await.unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(&*first[0].definition.name, "fast");
    let name = || "slow".into();
    let found = broker.call(GetCron { name: name() }).await.unwrap();
    assert_eq!(found.unwrap().definition.repeat_every, Some(900_000_000));
    assert_eq!(broker.call(DeleteCron { name: name() }).await, Ok(true));
    assert_eq!(broker.call(DeleteCron { name: name() }).await, Ok(false));
    assert_eq!(broker.call(GetCron { name: name() }).await, Ok(None));
}

#[tokio::test]
async fn flows_are_added_and_read_as_trees() {
    let (_server, broker) = connected().await;
    let node = |name, children| FlowNodeDraft {
        queue: "q",
        job: JobDraft {
            custom_id: name,
            data: Some(EMPTY),
            ..JobDraft::default()
        },
        children,
        ..FlowNodeDraft::default()
    };
    let tree = node(
        Some("top"),
        vec![
            node(None, vec![node(Some("leaf"), vec![])]),
            node(Some("other"), vec![]),
        ],
    );
    let mut plan = Plan::default();
    plan.tree(&tree, "flow").unwrap();
    let added = broker.call(plan.finish()).await.unwrap();
    assert_eq!(added.len(), 4);
    assert_eq!(added[0].state, State::WaitingChildren);
    let read = |depth| GetFlow {
        id: id("top"),
        queue: "q".into(),
        depth,
        children: 10,
    };
    let top = broker.call(read(10)).await.unwrap().unwrap();
    let children = top.children.unwrap();
    assert_eq!(children.len(), 2);
    let below = children[0].children.as_ref().unwrap();
    assert_eq!(below[0].job.job.id, id("leaf"));
    assert_eq!(children[1].children, Some(Vec::new()));
    let cut = broker.call(read(1)).await.unwrap().unwrap();
    let children = cut.children.unwrap();
    assert_eq!(children[0].children, None);
    assert_eq!(children[1].children, Some(Vec::new()));
    let elsewhere = GetFlow {
        queue: "elsewhere".into(),
        ..read(1)
    };
    assert_eq!(broker.call(elsewhere).await, Ok(None));
    // What waited for the leaf is ready in its turn.
    for _ in 0..3 {
        let id = take(&broker).await;
        let result = Some(Payload::new(&[0x2a]));
        let ack = Ack {
            id,
            token: TokenGiven::None,
            result,
            remove_on_complete: false,
        };
        broker.call(ack).await.unwrap();
    }
    let values = broker
        .call(GetChildrenValues { id: id("top") })
        .await
        .unwrap();
    assert_eq!(values.len(), 2);
    assert!(values.contains(&("q".into(), id("other"), Payload::new(&[0x2a]))));
    assert_eq!(
        broker.call(GetChildFailures { id: id("top") }).await,
        Ok(Vec::new())
    );
}

#[tokio::test]
async fn limits_workers_and_webhooks_are_kept_there() {
    let (_server, broker) = connected().await;
    add(&broker, "a").await;
    take(&broker).await;
    let limit = RateLimit {
        max: 5,
        duration: 60_000,
    };
    let rate = SetRateLimit {
        queue: queue(),
        limit,
        ttl: None,
    };
    broker.call(rate).await.unwrap();
    let concurrency = SetConcurrency {
        queue: queue(),
        limit: 1,
    };
    broker.call(concurrency).await.unwrap();
    broker.call(Pause { queue: queue() }).await.unwrap();
    let read = || GetQueueLimits {
        queue: queue(),
        jobs: None,
    };
    let limits = broker.call(read()).await.unwrap();
    assert_eq!(limits.rate, Some(limit));
    assert_eq!((limits.concurrency, limits.active), (Some(1), 1));
    assert!(limits.paused && limits.maxed);

    let worker = WorkerRegistration {
        id: Some("w".into()),
        name: "n".into(),
        queues: vec!["q".into()],
        concurrency: Some(2.0),
        hostname: None,
        pid: None,
        started_at: None,
    };
    let registered = broker.call(RegisterWorker { worker }).await.unwrap();
    assert_eq!((&*registered.id, registered.active), ("w", true));
    let beat = |id: &str| WorkerHeartbeat {
        id: id.into(),
        figures: WorkerFigures::default(),
    };
    assert_eq!(broker.call(beat("w")).await, Ok(true));
    assert_eq!(broker.call(beat("x")).await, Ok(false));
    let of_queue = ListQueueWorkers { queue: queue() };
    assert_eq!(broker.call(of_queue).await.unwrap().stats.total, 1);
    let elsewhere = ListQueueWorkers {
        queue: QueueName::new("x").unwrap(),
    };
    assert_eq!(broker.call(elsewhere).await.unwrap().stats.total, 0);
    let gone = || UnregisterWorker { id: "w".into() };
    assert_eq!(broker.call(gone()).await, Ok(true));
    assert_eq!(broker.call(gone()).await, Ok(false));

    let webhook = WebhookDraft {
        url: "http://127.0.0.1:9/".into(),
        events: vec!["job.failed".into()],
        queue: None,
        secret: None,
    };
    let made = broker.call(AddWebhook { webhook }).await.unwrap();
    let id = made.id.clone();
    let off = SetWebhookEnabled {
        id: id.clone(),
        enabled: false,
    };
    assert_eq!(broker.call(off).await, Ok(true));
    let listed = broker.call(ListWebhooks).await.unwrap();
    assert_eq!((listed.stats.total, listed.stats.enabled), (1, 0));
    assert_eq!(
        broker.call(RemoveWebhook { id: id.clone() }).await,
        Ok(true)
    );
    assert_eq!(broker.call(RemoveWebhook { id }).await, Ok(false));
}

#[tokio::test]
async fn figures_are_those_of_the_server() {
    let (_server, broker) = connected().await;
    fail(&broker, "a").await;
    add(&broker, "b").await;
    let stats = broker.call(GetStats).await.unwrap();
    assert_eq!((stats.jobs.waiting, stats.jobs.failed), (1, 1));
    assert_eq!(stats.totals.since_start.pushed, 2);
    let sizes = broker.call(GetMemoryStats).await.unwrap();
    assert_eq!(sizes.queued_total, 1);
    let storage = broker.call(GetStorageStatus).await.unwrap();
    assert_eq!(storage.durability, Durability::Remote);
    let queues = broker.call(ListQueueSummaries).await.unwrap();
    assert_eq!((queues.len(), queues[0].jobs.waiting), (1, 1));
    let metrics = GetQueueMetrics {
        queue: queue(),
        kind: MetricKind::Failed,
        start: 0,
        end: usize::MAX,
    };
    assert_eq!(broker.call(metrics).await.unwrap().count, 1);
    let health = broker
        .call(GetQueueHealth { queue: queue() })
        .await
        .unwrap();
    assert!(health.exists && health.oldest_waiting.is_some());
    broker.call(CompactMemory).await.unwrap();
    assert!(broker.is_remote());
    let text = broker.exposition().unwrap().await.unwrap();
    assert!(text.contains("# TYPE "), "{text}");
    let error = broker.call(GetLatency).await.unwrap_err();
    assert_eq!(error, RemoteFault::Untranslated.into());
    broker.close().await;
    let error = broker.call(ListQueues).await.unwrap_err();
    assert_eq!(error, RemoteFault::NotConnected.into());
}

#[tokio::test]
async fn subscribers_hear_what_happens_there() {
    let (_server, broker) = connected().await;
    let mut heard = broker.subscribe(EventFilter {
        queue: "q".into(),
        types: EventTypes::named(["pushed"]),
    });
    // Events begin some time after the wish for them.
    for n in 0.. {
        add(&broker, &format!("j{n}")).await;
        assert_eq!(broker.call(ListQueues).await.unwrap().len(), 1);
        if let Some(event) = heard.try_next() {
            let event = event.event();
            assert_eq!((&*event.queue, &event.kind), ("q", &EventKind::Pushed));
            return;
        }
        assert!(n < 100_000, "no event was told");
    }
}
