//! A broker with a file: what was answered is there after any end of the process.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bunqueue_mcp::broker::{Broker, BrokerExt, EventFilter, LocalBroker};
use bunqueue_mcp::command::draft::JobDraft;
use bunqueue_mcp::command::{
    Ack, Add, AddLog, AddMany, GetCounts, GetDedupOwner, GetJob, GetJobs, GetResult,
    GetStorageStatus, Pause, Pull,
};
use bunqueue_mcp::engine::{
    AddOutcome, Added, Config, Counts, Delivery, Durability, EventTypes, JobId, Listing, LockToken,
    NewJob, Payload, Report, TokenGiven,
};
use bunqueue_mcp::metrics::Exporter;
use tempfile::TempDir;

use crate::world::{keyed, named, payload, queue, with};

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

    /// Bytes of the write-ahead log.
    fn log_len(&self) -> u64 {
        let log = self.directory.path().join("queue.db-wal");
        fs::metadata(log).map_or(0, |log| log.len())
    }

    /// The file as it would be found if the process had ended when the log was that long.
    fn cut(&self, log_len: u64) -> Self {
        let cut = self.as_after_a_kill();
        let log = cut.directory.path().join("queue.db-wal");
        let log = fs::OpenOptions::new().write(true).open(log).unwrap();
        log.set_len(log_len).unwrap();
        cut
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
    let killed = place.as_after_a_kill();
    let next = killed.open(Durability::Committed);
    assert_eq!(counts(&next).await.active, 1);
    let token = delivery.token.unwrap();
    assert_eq!(ack(&next, &id, token, 5).await, Report::Applied);
    let job = next.call(GetJob { id: id.clone() }).await.unwrap().unwrap();
    assert_eq!(job.job.attempts, 0);
    let result = next.call(GetResult { id }).await.unwrap();
    assert_eq!(result, Some(Payload::new(&[5])));
}

/// Nobody waits for a delivery to be stored, nor does anything else come that would take it along.
#[tokio::test]
async fn b_22_a_delivery_is_stored_by_itself() {
    let place = Place::new();
    let broker = place.open(Durability::Committed);
    add(&broker).await;
    let before = place.log_len();
    pull(&broker).await.unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    while place.log_len() == before {
        assert!(Instant::now() < patience, "it was never stored");
        std::thread::yield_now();
    }
    broker.close().await;
    drop(broker);
    let next = place.open(Durability::Committed);
    assert_eq!(counts(&next).await.active, 1);
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

fn is_pending<F: Future>(future: Pin<&mut F>) -> bool {
    future
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}

/// Whoever hears that there is such a job already must find it after a crash, too.
#[tokio::test]
async fn b_13_a_repeated_add_is_answered_once_the_first_one_is_stored() {
    let place = Place::new();
    let broker = place.open(Durability::Committed);
    let blocked = block(&place);
    let mut first = pin!(add_with(&broker, named("x")));
    let mut again = pin!(add_with(&broker, named("x")));
    assert!(is_pending(first.as_mut()));
    assert!(is_pending(again.as_mut()));
    drop(blocked);
    assert_eq!(first.await.outcome, AddOutcome::New);
    let again = again.await;
    assert_eq!(again.outcome, AddOutcome::Existing);
    // With nothing in progress it is answered at once.
    assert!(!is_pending(pin!(add_with(&broker, named("x")))));
    let next = place.as_after_a_kill().open(Durability::Committed);
    let job = next.call(GetJob { id: again.id }).await.unwrap();
    assert!(job.is_some());
}

/// Somebody else writes to the file until this is dropped: nothing is stored.
fn block(place: &Place) -> rusqlite::Connection {
    let other = rusqlite::Connection::open(place.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

#[tokio::test]
async fn pe_1_a_buffered_add_is_answered_before_it_is_stored() {
    let place = Place::new();
    let broker = place.open(Durability::Buffered);
    let blocked = block(&place);
    let id = add(&broker).await;
    let lost = place.as_after_a_kill().open(Durability::Buffered);
    assert_eq!(counts(&lost).await.total(), 0);
    drop(blocked);
    // What was added later and is sure comes behind it.
    add_with(&broker, durable("x")).await;
    let kept = place.as_after_a_kill().open(Durability::Buffered);
    assert!(kept.call(GetJob { id }).await.unwrap().is_some());
}

fn durable(name: &str) -> NewJob {
    NewJob {
        durable: true,
        data: Some(payload(9)),
        ..named(name)
    }
}

#[tokio::test]
async fn pe_2_a_durable_add_is_stored_when_it_is_answered_at_every_level() {
    for level in [
        Durability::Buffered,
        Durability::Committed,
        Durability::Durable,
    ] {
        let place = Place::new();
        let broker = place.open(level);
        let blocked = block(&place);
        let mut one = pin!(add_with(&broker, durable("x")));
        let mut many = pin!(broker.call(AddMany {
            queue: queue("q"),
            jobs: vec![named("y"), durable("z")],
        }));
        assert!(is_pending(one.as_mut()), "{level:?}");
        assert!(is_pending(many.as_mut()), "{level:?}");
        drop(blocked);
        one.await;
        many.await.unwrap();
        let next = place.as_after_a_kill().open(level);
        assert_eq!(counts(&next).await.waiting, 3);
        let id = JobId::from_text("x");
        let job = next.call(GetJob { id }).await.unwrap().unwrap();
        assert_eq!(job.job.data, Some(payload(9)));
    }
}

#[tokio::test]
async fn qr_10_what_is_stored_and_what_is_not_yet_are_one_list() {
    let place = Place::new();
    let broker = place.open(Durability::Buffered);
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in &names[..3] {
        add_with(&broker, durable(name)).await;
    }
    let blocked = block(&place);
    for name in &names[3..] {
        add_with(&broker, named(name)).await;
    }
    for (offset, limit) in [(0, 4), (4, 4), (0, 100), (2, 2)] {
        let listing = Listing {
            queue: "q".into(),
            buckets: Vec::new(),
            after: None,
            offset,
            limit,
            ascending: true,
        };
        let page = broker.call(GetJobs { listing }).await.unwrap();
        let ids: Vec<String> = page.iter().map(|job| job.job.id.to_string()).collect();
        let expected = names.iter().skip(offset).take(limit);
        assert!(ids.iter().eq(expected), "{ids:?} from {offset}");
    }
    drop(blocked);
}

#[tokio::test]
async fn pe_20_memory_leaves_nothing_behind() {
    let broker = LocalBroker::start(Config::default()).unwrap();
    add_with(&broker, durable("x")).await;
    broker.close().await;
    drop(broker);
    let next = LocalBroker::start(Config::default()).unwrap();
    assert_eq!(counts(&next).await.total(), 0);
}

async fn add_with(broker: &LocalBroker, job: NewJob) -> Added {
    let queue = queue("q");
    broker.call(Add { queue, job }).await.unwrap()
}

#[tokio::test]
async fn hard_i5_a_replacement_is_stored_whole_or_not_at_all() {
    let place = Place::new();
    let broker = place.open(Durability::Committed);
    let replacing = |job| {
        with(keyed(job, "k"), |options| {
            options.dedup.replace = true;
        })
    };
    let old = add_with(&broker, replacing(named("old"))).await.id;
    let before = place.log_len();
    let new = add_with(&broker, replacing(named("new"))).await.id;
    let after = place.log_len();
    assert!(after > before);
    for len in (before..=after).step_by(499).chain([after]) {
        let next = place.cut(len).open(Durability::Committed);
        let owner = next.call(GetDedupOwner {
            queue: queue("q"),
            key: "k".into(),
        });
        let owner = owner.await.unwrap();
        let expected = if len == after { &new } else { &old };
        assert_eq!(owner.as_ref(), Some(expected), "{len} of {after} bytes");
        assert_eq!(counts(&next).await.waiting, 1);
    }
}

/// Whoever missed the reply asks again under the same id. Other arguments are no error: an id stands for a job and not for
/// what it was asked with (hard case I1), and the answer says that there was one.
#[tokio::test]
async fn hard_i6_the_lost_reply_is_the_same_again() {
    let place = Place::new();
    let broker = place.open(Durability::Committed);
    let data = |byte| NewJob {
        data: Some(payload(byte)),
        ..named("order-1")
    };
    let first = add_with(&broker, data(1)).await;
    assert_eq!(first.outcome, AddOutcome::New);
    let after_restart = place.as_after_a_kill().open(Durability::Committed);
    for broker in [&broker, &after_restart] {
        for byte in [1, 2] {
            let again = add_with(broker, data(byte)).await;
            assert_eq!(
                (&again.id, again.outcome),
                (&first.id, AddOutcome::Existing)
            );
        }
        assert_eq!(counts(broker).await.waiting, 1);
        let id = first.id.clone();
        let job = broker.call(GetJob { id }).await.unwrap().unwrap();
        assert_eq!(job.job.data, Some(payload(1)));
    }
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
        assert!(status.usage.file_bytes > 0, "{:?}", status.usage);
        broker.close().await;
    }
}

#[tokio::test]
async fn the_metrics_tell_of_the_file() {
    let place = Place::new();
    let broker = Arc::new(place.open(Durability::Committed));
    add(&broker).await;
    let text = Exporter::new(broker, 0).text().await.unwrap();
    let value = |name: &str| {
        let of_it = |line: &&str| line.starts_with(name);
        let line = text.lines().find(of_it).expect(name);
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(value("bunqueue_storage_file_bytes") > 0.0);
    assert!(value("bunqueue_storage_log_bytes") >= 0.0);
    assert!(value("bunqueue_storage_commit_seconds") >= 0.0);
    assert_eq!(value("bunqueue_storage_unsaved"), 0.0);
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
