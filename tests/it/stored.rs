//! A broker with a file: what was answered is there after any end of the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bunqueue_mcp::broker::{Broker, BrokerExt, EventFilter, LocalBroker};
use bunqueue_mcp::command::draft::JobDraft;
use bunqueue_mcp::command::{
    Ack, Add, AddLog, GetCounts, GetJob, GetResult, GetStorageStatus, Pause, Pull,
};
use bunqueue_mcp::engine::{
    Config, Counts, Delivery, Durability, EventTypes, JobId, LockToken, Payload, Report, TokenGiven,
};
use tempfile::TempDir;

use crate::world::queue;

/// A directory with a data file.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("queue.db")
    }

    fn open(&self, level: Durability) -> LocalBroker {
        LocalBroker::open(Config::default(), &self.file(), level).unwrap()
    }

    /// The file as it would be found if the process ended now.
    fn as_after_a_kill(&self) -> Self {
        let other = Self::new();
        for name in ["queue.db", "queue.db-wal"] {
            let from = self.directory.path().join(name);
            if from.exists() {
                fs::copy(from, other.directory.path().join(name)).unwrap();
            }
        }
        other
    }
}

async fn add(broker: &LocalBroker) -> JobId {
    let job = JobDraft::default().check().unwrap();
    let added = broker.call(Add {
        queue: queue("q"),
        job,
    });
    added.await.unwrap().id
}

async fn pull(broker: &LocalBroker) -> Option<Delivery> {
    let pull = Pull {
        queue: queue("q"),
        count: 1,
        wait: 0,
        locked: true,
        lock_ttl: 30_000.0,
        detach: true,
        group: None,
    };
    broker.call(pull).await.unwrap().pop()
}

async fn ack(broker: &LocalBroker, id: &JobId, token: LockToken, result: u8) -> Report {
    let ack = Ack {
        id: id.clone(),
        token: TokenGiven::Token(token),
        result: Some(Payload::new(&[result])),
        remove_on_complete: false,
    };
    broker.call(ack).await.unwrap()
}

async fn counts(broker: &LocalBroker) -> Counts {
    broker.call(GetCounts { queue: queue("q") }).await.unwrap()
}

#[tokio::test]
async fn b_13_what_was_answered_is_there_after_a_kill() {
    let place = Place::new();
    let broker = place.open(Durability::Committed);
    let id = add(&broker).await;
    let killed = place.as_after_a_kill();
    let next = killed.open(Durability::Committed);
    assert_eq!(counts(&next).await.waiting, 1);
    assert!(next.call(GetJob { id }).await.unwrap().is_some());
}

#[tokio::test]
async fn b_22_a_lock_that_holds_outlives_the_process() {
    let place = Place::new();
    let broker = place.open(Durability::Committed);
    let id = add(&broker).await;
    let delivery = pull(&broker).await.unwrap();
    // The reply of a pull does not wait for its commit; this one comes behind it.
    broker
        .call(Pause {
            queue: queue("other"),
        })
        .await
        .unwrap();
    let next = place.as_after_a_kill().open(Durability::Committed);
    assert_eq!(counts(&next).await.active, 1);
    let token = delivery.token.unwrap();
    assert_eq!(ack(&next, &id, token, 5).await, Report::Applied);
    let job = next.call(GetJob { id: id.clone() }).await.unwrap().unwrap();
    assert_eq!(job.job.attempts, 0);
    let result = next.call(GetResult { id }).await.unwrap();
    assert_eq!(result, Some(Payload::new(&[5])));
}

#[tokio::test]
async fn b_30_a_result_and_its_state_are_stored_together() {
    let place = Place::new();
    let broker = place.open(Durability::Committed);
    let id = add(&broker).await;
    let delivery = pull(&broker).await.unwrap();
    ack(&broker, &id, delivery.token.unwrap(), 7).await;
    let next = place.as_after_a_kill().open(Durability::Committed);
    assert_eq!(counts(&next).await.completed, 1);
    let result = next.call(GetResult { id }).await.unwrap();
    assert_eq!(result, Some(Payload::new(&[7])));
}

#[tokio::test]
async fn pe_16_an_orderly_end_stores_what_no_answer_waited_for() {
    let place = Place::new();
    let broker = place.open(Durability::Buffered);
    let id = add(&broker).await;
    broker.shut_down();
    broker.close().await;
    drop(broker);
    let next = place.open(Durability::Buffered);
    assert!(next.call(GetJob { id }).await.unwrap().is_some());
}

#[tokio::test]
async fn events_come_before_the_answer_and_after_the_commit() {
    let place = Place::new();
    let broker = place.open(Durability::Committed);
    let mut events = broker.subscribe(EventFilter {
        queue: "q".into(),
        types: EventTypes::ALL,
    });
    let id = add(&broker).await;
    let told = events
        .try_next()
        .expect("the event is there with the answer");
    assert_eq!(told.event().kind.name(), "pushed");
    let next = place.as_after_a_kill().open(Durability::Committed);
    assert!(next.call(GetJob { id }).await.unwrap().is_some());
}

#[tokio::test]
async fn a_waiting_pull_gets_a_job_that_is_stored() {
    let place = Place::new();
    let broker = Arc::new(place.open(Durability::Committed));
    let waiting = {
        let broker = Arc::clone(&broker);
        tokio::spawn(async move {
            let pull = Pull {
                queue: queue("q"),
                count: 1,
                wait: 30_000,
                locked: true,
                lock_ttl: 30_000.0,
                detach: true,
                group: None,
            };
            broker.call(pull).await.unwrap()
        })
    };
    let id = add(&broker).await;
    let handed = waiting.await.unwrap();
    assert_eq!(handed[0].job.id, id);
    let next = place.as_after_a_kill().open(Durability::Committed);
    assert!(next.call(GetJob { id }).await.unwrap().is_some());
}

#[tokio::test]
async fn b_32_logs_are_there_after_a_kill() {
    let place = Place::new();
    let broker = place.open(Durability::Committed);
    let id = add(&broker).await;
    let line = AddLog {
        id: id.clone(),
        level: "info".into(),
        message: "seen".into(),
    };
    broker.call(line).await.unwrap();
    let next = place.as_after_a_kill().open(Durability::Committed);
    let log = next
        .call(bunqueue_mcp::command::GetLogs { id })
        .await
        .unwrap();
    assert_eq!(&*log[0].message, "seen");
}

#[tokio::test]
async fn a_file_in_use_is_refused_with_the_name_of_its_owner() {
    let place = Place::new();
    let _broker = place.open(Durability::Committed);
    let second = LocalBroker::open(Config::default(), &place.file(), Durability::Committed);
    let error = second.err().unwrap().to_string();
    let expected = format!("the data file is in use by process {}", std::process::id());
    assert!(error.starts_with(&expected), "{error}");
}

#[tokio::test]
async fn the_level_in_force_is_told() {
    let place = Place::new();
    for level in [
        Durability::Buffered,
        Durability::Committed,
        Durability::Durable,
    ] {
        let broker = place.open(level);
        let status = broker.call(GetStorageStatus).await.unwrap();
        assert_eq!(status.durability, level);
        assert!(!status.is_degraded());
        broker.close().await;
    }
}

/// Nothing but the data file, its log, and the mark of its owner lies beside it.
#[tokio::test]
async fn an_orderly_end_leaves_one_file_with_everything() {
    let place = Place::new();
    let broker = place.open(Durability::Committed);
    let id = add(&broker).await;
    broker.close().await;
    drop(broker);
    let other = Place::new();
    fs::copy(place.file(), other.file()).unwrap();
    assert!(!Path::new(&other.directory.path().join("queue.db-wal")).exists());
    let next = other.open(Durability::Committed);
    assert!(next.call(GetJob { id }).await.unwrap().is_some());
}
