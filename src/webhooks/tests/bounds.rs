//! Many calls, slow receivers, changes while calls wait, and the end.

use std::time::Instant;

use super::*;
use crate::broker::{CALL_BYTES_MAX, CALLS_MAX};
use crate::command::AddMany;
use crate::webhooks::CONCURRENT_MAX;

async fn flood(world: &World, jobs: usize) {
    let queue = QueueName::lenient("q");
    let jobs = vec![NewJob::default(); jobs];
    world.ask(AddMany { queue, jobs }).await;
}

#[tokio::test]
async fn nothing_is_set_up_before_the_first_call() {
    let world = World::new();
    world.add().await;
    let mut receiver = Receiver::answering(Answer::status(200)).await;
    world.webhook(&receiver.url(), &["job.started"]).await;
    world.add().await;
    assert!(!world.courier.has_client());
    world.pull().await;
    receiver.next().await;
    assert!(world.courier.has_client());
}

#[tokio::test]
async fn a_flood_is_bounded_and_what_was_given_up_is_counted() {
    let world = World::new();
    let mut receiver = Receiver::answering(Answer::Nothing).await;
    world.webhook(&receiver.url(), &["job.pushed"]).await;
    flood(&world, CALLS_MAX + 50).await;
    // Without room at once, and without waiting for anything.
    assert_eq!(world.counts().await, (0, 50));
    for _ in 0..CONCURRENT_MAX {
        receiver.next().await;
    }
    assert!(receiver.come().is_none(), "more calls at once than allowed");
}

#[tokio::test]
async fn a_flood_that_fits_arrives() {
    let world = World::new();
    let receiver = Receiver::answering(Answer::status(200)).await;
    world.webhook(&receiver.url(), &["job.pushed"]).await;
    flood(&world, CALLS_MAX).await;
    world.counted(CALLS_MAX as u64, 0).await;
    // The room is free again.
    flood(&world, CALLS_MAX).await;
    world.counted(2 * CALLS_MAX as u64, 0).await;
}

#[tokio::test]
async fn large_results_are_bounded_by_their_bytes() {
    let world = World::new();
    let receiver = Receiver::answering(Answer::Nothing).await;
    world.webhook(&receiver.url(), &["job.completed"]).await;
    let mut bytes = vec![0xc6, 0, 0x60, 0, 0];
    bytes.resize(bytes.len() + 0x60_0000, 0);
    assert!(2 * bytes.len() < CALL_BYTES_MAX && 3 * bytes.len() > CALL_BYTES_MAX);
    for failures in [0, 0, 1, 2] {
        let id = world.add().await;
        world.pull().await;
        world.complete(&id, Some(Payload::new(&bytes))).await;
        assert_eq!(world.counts().await, (0, failures));
    }
}

#[tokio::test]
async fn a_receiver_that_hangs_costs_the_others_nothing() {
    let world = World::new();
    let hanging = Receiver::answering(Answer::Nothing).await;
    let mut healthy = Receiver::answering(Answer::status(200)).await;
    world.webhook(&hanging.url(), &["job.pushed"]).await;
    flood(&world, CALLS_MAX + 1).await;
    world.webhook(&healthy.url(), &["job.pushed"]).await;
    world.add().await;
    healthy.next().await;
}

#[tokio::test]
async fn calls_that_wait_are_withdrawn_with_their_webhook() {
    for removed in [true, false] {
        let world = World::with(
            Options {
                attempts: 1,
                attempt_time: Duration::from_millis(200),
                ..options()
            },
            system_lookup(),
        );
        let mut receiver = Receiver::answering(Answer::Nothing).await;
        let id = world.webhook(&receiver.url(), &["job.pushed"]).await.id;
        flood(&world, 3 * CONCURRENT_MAX).await;
        for _ in 0..CONCURRENT_MAX {
            receiver.next().await;
        }
        let changed = if removed {
            world.ask(RemoveWebhook { id }).await
        } else {
            let enabled = false;
            world.ask(SetWebhookEnabled { id, enabled }).await
        };
        assert!(changed);
        let over = async {
            while !world.courier.is_idle() {
                tokio::task::yield_now().await;
            }
        };
        soon(over).await;
        if !removed {
            assert_eq!(world.counts().await, (0, CONCURRENT_MAX as u64));
        }
        assert!(receiver.come().is_none());
    }
}

#[tokio::test]
async fn the_end_waits_for_no_receiver() {
    let world = World::new();
    let mut receiver = Receiver::answering(Answer::Nothing).await;
    world.webhook(&receiver.url(), &["job.pushed"]).await;
    flood(&world, 100).await;
    receiver.next().await;
    let started = Instant::now();
    world.shutdown.cancel();
    soon(world.serving).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
    // Nobody takes calls any more, and jobs go on.
    let queue = QueueName::lenient("q");
    let jobs = vec![NewJob::default(); 3 * CALLS_MAX];
    let added = soon(world.broker.call(AddMany { queue, jobs })).await;
    assert_eq!(added.unwrap().len(), 3 * CALLS_MAX);
}

#[tokio::test]
async fn calls_that_nobody_takes_vanish() {
    let broker = LocalBroker::start(Config::default()).unwrap();
    let webhook = WebhookDraft {
        url: "https://example.com/".into(),
        events: vec!["job.pushed".into()],
        ..WebhookDraft::default()
    };
    broker.call(AddWebhook { webhook }).await.unwrap();
    let queue = QueueName::lenient("q");
    let job = NewJob::default();
    broker.call(Add { queue, job }).await.unwrap();
    let list = broker.call(ListWebhooks).await.unwrap().list;
    assert_eq!((list[0].success_count, list[0].failure_count), (0, 0));
}
