//! Completed jobs beyond the bound of memory, with a data file: whatever asks for them finds them whole.

use std::path::PathBuf;

use bunqueue_mcp::broker::{Broker, BrokerExt, LocalBroker, Submitted};
use bunqueue_mcp::command::{
    Ack, Add, AddLog, Clean, Command, GetChildrenValues, GetCounts, GetJob, GetJobs, GetLogs,
    GetMemoryStats, GetResult, Pull, Reply, RetryCompleted, UpdateParent, WaitJob,
};
use bunqueue_mcp::engine::{
    Bucket, Change, CleanState, CompletedSelection, Config, Delivery, Durability, JobId, Listing,
    NewJob, State, TokenGiven, WaitFor, Waited,
};
use tempfile::TempDir;

use crate::image::Image;
use crate::world::{World, id, named, payload, queue, with};

/// Completed jobs whose bodies may stay in memory.
const WHOLE: usize = 5;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("queue.db")
    }

    fn open(&self) -> LocalBroker {
        let config = Config {
            completed_max: 100,
            completed_in_memory_max: WHOLE,
            results_max: usize::MAX,
            ..Config::default()
        };
        LocalBroker::open(config, &self.file(), Durability::Committed).unwrap()
    }
}

async fn add(broker: &LocalBroker, job: NewJob) {
    let queue = queue("q");
    broker.call(Add { queue, job }).await.unwrap();
}

async fn pull(broker: &LocalBroker) -> Delivery {
    let pull = Pull {
        queue: queue("q"),
        count: 1,
        wait: 0,
        locked: true,
        lock_ttl: 30_000.0,
        detach: true,
        group: None,
    };
    broker
        .call(pull)
        .await
        .unwrap()
        .pop()
        .expect("one is ready")
}

fn name(number: u8) -> String {
    format!("job-{number}")
}

/// Adds jobs with data and options of their own, and completes them.
async fn complete(broker: &LocalBroker, numbers: impl IntoIterator<Item = u8>) {
    for number in numbers {
        let job = NewJob {
            data: Some(payload(number)),
            ..with(named(&name(number)), |options| {
                options.timeout = Some(60_000.0 + f64::from(number));
            })
        };
        add(broker, job).await;
        let delivery = pull(broker).await;
        let ack = Ack {
            id: delivery.job.id.clone(),
            token: TokenGiven::Token(delivery.token.unwrap()),
            result: Some(payload(100 + number)),
            remove_on_complete: false,
        };
        broker.call(ack).await.unwrap();
    }
}

async fn completed(broker: &LocalBroker) -> usize {
    let counts = broker.call(GetCounts { queue: queue("q") });
    counts.await.unwrap().completed
}

/// Bodies that the engine has by itself: the others' results are not in memory.
async fn whole(broker: &LocalBroker) -> usize {
    broker.call(GetMemoryStats).await.unwrap().job_results
}

fn listing(offset: usize, limit: usize) -> GetJobs {
    GetJobs {
        listing: Listing {
            queue: "q".into(),
            buckets: vec![Bucket::State(State::Completed)],
            after: None,
            offset,
            limit,
            ascending: true,
        },
    }
}

/// Whether that job is completed and has what it was given.
async fn is_as_it_was(broker: &LocalBroker, number: u8) -> bool {
    let id = id(&name(number));
    let job = broker.call(GetJob { id: id.clone() }).await.unwrap();
    let job = job.expect("it is kept");
    let result = broker.call(GetResult { id }).await.unwrap();
    let timeout = 60_000.0 + f64::from(number);
    job.job.state == State::Completed
        && job.job.data == Some(payload(number))
        && job.job.options.timeout == Some(timeout)
        && job.job.timeline.len() == 3
        && job.result == result
        && result == Some(payload(100 + number))
}

#[tokio::test]
async fn pg_7_a_job_beyond_the_bound_of_memory_is_read_from_the_file() {
    let place = Place::new();
    let mut broker = place.open();
    complete(&broker, 0..12).await;
    for _ in 0..2 {
        assert_eq!(
            (completed(&broker).await, whole(&broker).await),
            (12, WHOLE)
        );
        for number in 0..12 {
            assert!(is_as_it_was(&broker, number).await, "{number}");
            assert_eq!(whole(&broker).await, WHOLE, "it leaves memory again");
        }
        broker.close().await;
        drop(broker);
        broker = place.open();
    }
}

#[tokio::test]
async fn hard_s5_count_paging_and_clean_cover_all_that_are_on_disk() {
    let place = Place::new();
    let broker = place.open();
    complete(&broker, 0..20).await;
    let mut seen = Vec::new();
    for offset in (0..20).step_by(6) {
        for job in broker.call(listing(offset, 6)).await.unwrap() {
            assert!(job.job.data.is_some() && job.result.is_some());
            seen.push(job.job.id.to_string());
        }
    }
    for ascending in [true, false] {
        let (mut after, mut paged) = (None, Vec::new());
        loop {
            let mut next = listing(0, 7);
            next.listing.ascending = ascending;
            next.listing.after = after;
            next.listing.buckets.clear();
            let page = broker.call(next).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some((last.job.created_at, last.job.id.clone()));
            paged.extend(page.into_iter().map(|job| job.job.id.to_string()));
        }
        if !ascending {
            paged.reverse();
        }
        assert_eq!(paged, seen);
    }
    seen.sort_unstable();
    let mut all: Vec<String> = (0..20).map(name).collect();
    all.sort_unstable();
    assert_eq!(seen, all);
    assert_eq!(completed(&broker).await, 20);
    let clean = Clean {
        queue: queue("q"),
        grace: 0.0,
        state: CleanState::Bucket(Bucket::State(State::Completed)),
        limit: 1_000,
    };
    assert_eq!(broker.call(clean).await.unwrap().count, 20);
    assert_eq!(completed(&broker).await, 0);
    broker.close().await;
    drop(broker);
    assert_eq!(completed(&place.open()).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_together_is_answered_in_order() {
    let place = Place::new();
    let broker = place.open();
    complete(&broker, 0..12).await;
    let mut commands: Vec<Command> = Vec::new();
    for number in [0, 11, 1] {
        commands.push(
            GetResult {
                id: id(&name(number)),
            }
            .into(),
        );
    }
    // The job that is asked for again is gone by then.
    let gone = Clean {
        queue: queue("q"),
        grace: 0.0,
        state: CleanState::Bucket(Bucket::State(State::Completed)),
        limit: 2,
    };
    commands.push(gone.into());
    commands.push(GetResult { id: id(&name(0)) }.into());
    commands.push(GetResult { id: id(&name(2)) }.into());
    let mut answers = Vec::new();
    let stored = broker.submit(None, &mut commands, &mut answers);
    stored.expect("something was deleted").await.unwrap();
    assert!(commands.is_empty());
    let mut results = Vec::new();
    for answer in answers {
        let Submitted::Done(reply) = answer else {
            panic!("nothing has to wait");
        };
        results.push(match reply.unwrap() {
            Reply::Result(result) => result,
            Reply::Removed(removed) => {
                assert_eq!(removed.count, 2);
                None
            }
            other => panic!("{other:?}"),
        });
    }
    let result = |number: u8| Some(payload(100 + number));
    assert_eq!(
        results,
        [result(0), result(11), result(1), None, None, result(2)]
    );
}

#[tokio::test]
async fn a_completed_job_of_the_file_runs_again_with_its_data() {
    let place = Place::new();
    let broker = place.open();
    complete(&broker, 0..12).await;
    let retry = |selection| RetryCompleted {
        queue: queue("q"),
        selection,
    };
    let one = retry(CompletedSelection::One(id(&name(1))));
    assert_eq!(broker.call(one).await.unwrap(), 1);
    let delivery = pull(&broker).await;
    assert_eq!(delivery.job.data, Some(payload(1)));
    assert_eq!(delivery.job.options.timeout, Some(60_001.0));
    let oldest = retry(CompletedSelection::Oldest {
        until: None,
        limit: Some(8),
    });
    assert_eq!(broker.call(oldest).await.unwrap(), 8);
    assert_eq!(completed(&broker).await, 3);
    for number in [0, 2, 3, 4, 5, 6, 7, 8] {
        assert_eq!(pull(&broker).await.job.data, Some(payload(number)));
    }
    broker.close().await;
    drop(broker);
    let broker = place.open();
    assert_eq!(completed(&broker).await, 3);
    for number in 9..12 {
        assert!(is_as_it_was(&broker, number).await, "{number}");
    }
}

#[tokio::test]
async fn a_log_keeps_its_job_in_memory_and_a_line_can_come_late() {
    let place = Place::new();
    let broker = place.open();
    complete(&broker, 0..12).await;
    let late = AddLog {
        id: id(&name(0)),
        level: "info".into(),
        message: "late".into(),
    };
    assert_eq!(broker.call(late).await.unwrap(), Change::Applied);
    complete(&broker, 12..20).await;
    assert_eq!(whole(&broker).await, WHOLE + 1);
    assert!(is_as_it_was(&broker, 0).await);
    broker.close().await;
    drop(broker);
    let broker = place.open();
    let lines = broker.call(GetLogs { id: id(&name(0)) }).await.unwrap();
    assert_eq!(lines.len(), 1);
    assert!(is_as_it_was(&broker, 0).await && is_as_it_was(&broker, 1).await);
    assert_eq!(whole(&broker).await, WHOLE + 1);
}

#[tokio::test]
async fn a_parent_gets_the_result_of_a_child_that_is_in_the_file() {
    let place = Place::new();
    let broker = place.open();
    complete(&broker, 0..12).await;
    add(&broker, named("parent")).await;
    let (child, parent) = (id(&name(0)), id("parent"));
    broker
        .call(UpdateParent {
            child: child.clone(),
            parent: parent.clone(),
        })
        .await
        .unwrap();
    let values = GetChildrenValues { id: parent.clone() };
    let values = broker.call(values).await.unwrap();
    assert_eq!(values, [("q".into(), child.clone(), payload(100))]);
    let waited = WaitJob {
        id: id(&name(2)),
        until: WaitFor::Outcome,
        timeout: 0,
    };
    let completed = Waited::Completed {
        result: Some(payload(102)),
    };
    assert_eq!(broker.call(waited).await.unwrap(), completed);
    // Also when the child is added again, and when everything has been read from the file.
    broker.close().await;
    drop(broker);
    let broker = place.open();
    let values = broker.call(GetChildrenValues { id: parent }).await.unwrap();
    assert_eq!(values, [("q".into(), child, payload(100))]);
}

#[tokio::test]
async fn a_new_job_takes_the_id_of_one_that_is_in_the_file() {
    let place = Place::new();
    let broker = place.open();
    complete(&broker, 0..12).await;
    add(&broker, named(&name(0))).await;
    assert_eq!(completed(&broker).await, 11);
    let job_id: JobId = id(&name(0));
    let job = broker.call(GetJob { id: job_id.clone() }).await.unwrap();
    assert_eq!(job.unwrap().job.state, State::Waiting);
    broker.close().await;
    drop(broker);
    let broker = place.open();
    let job = broker.call(GetJob { id: job_id }).await.unwrap();
    assert_eq!(job.unwrap().job.state, State::Waiting);
    assert_eq!(completed(&broker).await, 11);
}

/// Somebody reads a body; before it is handed over, another one has changed the job and sent it away again.
#[test]
fn a_body_that_was_read_before_a_change_is_passed_over() {
    let mut world = World::with(Config {
        completed_in_memory_max: 0,
        ..Config::default()
    });
    let mut image = Image::default();
    world.act(|engine, _| engine.record());
    world.push("q", named("child"));
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
    world.push("q", named("parent"));
    let mut store = |world: &mut World| {
        world.act(|engine, _| {
            image.apply(engine.take_changes());
            engine.chill();
        });
        image.all_bodies()
    };
    let read = store(&mut world);
    let mut chills = 0;
    world.act(|engine, _| {
        chills = engine.chills();
        engine.warm(read.clone());
    });
    world.ask(UpdateParent {
        child: id("child"),
        parent: id("parent"),
    });
    let now = store(&mut world);
    world.act(|engine, _| engine.warm_as_of(read, chills));
    world.act(|engine, _| assert!(engine.has_cold_jobs(), "it was out of date"));
    world.act(|engine, _| engine.warm(now));
    assert!(world.detail(&id("child")).job.data.is_some(), "its ties");
    world.check();
}
