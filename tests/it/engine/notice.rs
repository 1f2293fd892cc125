//! Section 22: notices, told to those who want them at the looks that are due every ten seconds.

use std::sync::Arc;

use bunqueue_mcp::broker::{
    Broker, BrokerExt, EventFilter, LocalBroker, ManualClock, Subscription,
};
use bunqueue_mcp::command::{
    Add, Drain, Obliterate, Pause, RegisterWorker, Resume, UnregisterWorker, WorkerHeartbeat,
};
use bunqueue_mcp::engine::{
    Config, Engine, Event, EventKind, EventTypes, Millis, NOTICE_PERIOD, NewJob, NoticeBounds,
    WorkerFigures, WorkerLoad, WorkerRegistration,
};

use crate::world::{World, job, queue};

const NOTHING: NoticeBounds = NoticeBounds {
    queue_idle: None,
    queue_size: None,
    worker_overload: None,
};

fn with(notices: NoticeBounds) -> World {
    World::with(Config {
        notices,
        ..Config::default()
    })
}

fn of_size(size: usize) -> World {
    with(NoticeBounds {
        queue_size: Some(size),
        ..NOTHING
    })
}

fn is_notice(event: &Event) -> bool {
    EventTypes::NOTICES.contains(event.kind.event_type())
}

/// The notices since the last look, with their queue; nothing else in them is left out.
fn notices(world: &mut World) -> Vec<(String, EventKind)> {
    world.check();
    let now = world.now;
    let told = world.events().into_iter().filter(is_notice);
    told.map(|event| {
        assert!(event.job.is_none() && event.at <= now, "{event:?}");
        (event.queue.to_string(), event.kind)
    })
    .collect()
}

/// The notices of queue `q`.
fn of_q(world: &mut World) -> Vec<EventKind> {
    let told = notices(world).into_iter();
    told.map(|(queue, kind)| {
        assert_eq!(queue, "q");
        kind
    })
    .collect()
}

fn idle(idle: Millis) -> Vec<EventKind> {
    vec![EventKind::QueueIdle { idle }]
}

fn large(size: usize, threshold: usize) -> Vec<EventKind> {
    vec![EventKind::QueueThreshold { size, threshold }]
}

/// One job comes and is done.
fn work(world: &mut World) {
    world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
}

#[test]
fn a_queue_that_has_nothing_to_do_is_told_of_once_until_it_has_had_work() {
    let mut world = World::new();
    work(&mut world);
    world.watch(&["q"]);
    world.sleep(29_999);
    assert_eq!(of_q(&mut world), []);
    world.sleep(1);
    assert_eq!(of_q(&mut world), idle(30_000));
    world.sleep(3_600_000);
    assert_eq!(of_q(&mut world), []);
    // Over before the next look.
    work(&mut world);
    world.sleep(30_000);
    assert_eq!(of_q(&mut world), []);
    world.sleep(NOTICE_PERIOD);
    assert_eq!(of_q(&mut world), idle(30_000));
}

#[test]
fn a_queue_with_a_ready_or_active_job_is_not_idle_and_one_with_later_jobs_is() {
    let mut world = World::new();
    world.watch(&["q"]);
    world.push("q", job());
    world.sleep(60_000);
    assert_eq!(of_q(&mut world), []);
    let delivery = world.pull("q").expect("ready");
    for _ in 0..6 {
        world.sleep(10_000);
        world.heartbeat(&delivery.job.id, crate::world::given(delivery.token));
    }
    assert_eq!(of_q(&mut world), []);
    world.ack(&delivery);
    let later = NewJob {
        delay: 3_600_000,
        ..job()
    };
    world.push("q", later);
    world.sleep(40_000);
    assert_eq!(of_q(&mut world), idle(30_000));
}

#[test]
fn a_queue_that_never_had_a_job_is_not_idle() {
    let mut world = World::new();
    world.ask(Pause { queue: queue("q") });
    world.watch(&["q", "unknown"]);
    world.sleep(100_000);
    assert_eq!(of_q(&mut world), []);
    world.ask(Resume { queue: queue("q") });
    work(&mut world);
    world.ask(Obliterate { queue: queue("q") });
    world.sleep(100_000);
    assert_eq!(of_q(&mut world), []);
}

#[test]
fn a_name_that_is_forgotten_with_its_queue_is_still_idle() {
    let mut world = World::new();
    world.push("q", job());
    world.ask(Drain { queue: queue("q") });
    world.watch(&["q"]);
    world.sleep(30_000);
    assert_eq!(of_q(&mut world), idle(30_000));
}

#[test]
fn many_ready_jobs_are_told_of_once_until_they_are_fewer() {
    let mut world = of_size(3);
    world.push_many("q", vec![job(); 3]);
    world.watch(&["q"]);
    world.tick();
    assert_eq!(of_q(&mut world), large(3, 3));
    world.push_many("q", vec![job(); 4]);
    world.sleep(100_000);
    assert_eq!(of_q(&mut world), []);
    let taken = world.pull_batch("q", 5);
    world.sleep(NOTICE_PERIOD);
    assert_eq!((taken.len(), of_q(&mut world)), (5, Vec::new()));
    // A paused queue has ready jobs too.
    world.ask(Pause { queue: queue("q") });
    world.push_many("q", vec![job(); 2]);
    world.sleep(NOTICE_PERIOD);
    assert_eq!(of_q(&mut world), large(4, 3));
    world.ask(Resume { queue: queue("q") });
}

#[test]
fn jobs_that_go_to_waiting_pulls_in_the_same_instant_are_not_many() {
    let mut world = of_size(2);
    world.watch(&["q"]);
    world.tick();
    for _ in 0..2 {
        world.wait(crate::world::awaiting("q", 20_000));
    }
    let soon = NewJob {
        delay: NOTICE_PERIOD,
        ..job()
    };
    world.push_many("q", vec![soon; 2]);
    world.sleep(NOTICE_PERIOD);
    assert_eq!((of_q(&mut world), world.served().len()), (Vec::new(), 2));
}

#[test]
fn each_queue_is_told_of_by_itself_and_only_those_that_are_watched() {
    let mut world = of_size(1);
    for name in ["b", "a", "c"] {
        world.push(name, job());
    }
    world.watch(&["b", "a"]);
    world.tick();
    let told = notices(&mut world);
    let names: Vec<_> = told.iter().map(|(queue, _)| &**queue).collect();
    assert_eq!(names, ["a", "b"]);
    // What was told of those that stay is not told again.
    world.watch(&["c", "b"]);
    world.sleep(NOTICE_PERIOD);
    let told = notices(&mut world);
    assert_eq!(told, [("c".to_owned(), large(1, 1).remove(0))]);
}

#[test]
fn nothing_is_due_while_nobody_wants_notices() {
    let mut world = World::new();
    assert_eq!(world.next_deadline(), None);
    world.watch(&["q"]);
    assert_eq!(world.next_deadline(), Some(world.now));
    world.tick();
    let next = world.now + NOTICE_PERIOD;
    assert_eq!(world.next_deadline(), Some(next));
    // Another one who wants them changes nothing of when.
    world.sleep(1_000);
    world.watch(&["q", "r"]);
    assert_eq!(world.next_deadline(), Some(next));
    world.check();
    world.watch(&[]);
    assert_eq!(world.next_deadline(), None);
    world.check();
}

#[test]
fn what_is_switched_off_is_never_told() {
    let mut world = with(NOTHING);
    work(&mut world);
    register(&mut world, "w", &["q"]);
    world.watch(&["q"]);
    for _ in 0..20 {
        beat(&mut world, "w", 9.0);
        world.sleep(NOTICE_PERIOD);
    }
    assert_eq!(notices(&mut world), []);
}

/// A worker for two jobs.
fn register(world: &mut World, id: &str, queues: &[&str]) {
    let worker = WorkerRegistration {
        id: Some(id.into()),
        name: "sender".into(),
        queues: queues.iter().map(|name| Arc::from(*name)).collect(),
        concurrency: Some(2.0),
        hostname: None,
        pid: None,
        started_at: None,
    };
    world.ask(RegisterWorker { worker });
}

fn beat(world: &mut World, id: &str, active: f64) {
    let figures = WorkerFigures {
        active_jobs: Some(active),
        ..WorkerFigures::default()
    };
    let id = id.into();
    assert!(world.ask(WorkerHeartbeat { id, figures }));
}

/// The worker says the same for so many looks.
fn beats(world: &mut World, looks: usize, active: f64) -> Vec<(String, EventKind)> {
    for _ in 0..looks {
        beat(world, "w", active);
        world.sleep(NOTICE_PERIOD);
    }
    notices(world)
}

fn overloaded(queue: &str, active_jobs: f64) -> (String, EventKind) {
    let load = Box::new(WorkerLoad {
        worker: "w".into(),
        name: "sender".into(),
        active_jobs,
        concurrency: 2.0,
        overloaded: 30_000,
    });
    (queue.to_owned(), EventKind::WorkerOverloaded { load })
}

#[test]
fn a_worker_at_its_capacity_is_told_of_once_until_it_has_room() {
    let mut world = World::new();
    register(&mut world, "w", &["q", "r", "s", "q"]);
    world.watch(&["q", "s"]);
    assert_eq!(beats(&mut world, 3, 2.0), []);
    let told = [overloaded("q", 3.0), overloaded("s", 3.0)];
    assert_eq!(beats(&mut world, 1, 3.0), told);
    assert_eq!(beats(&mut world, 9, 2.0), []);
    assert_eq!(beats(&mut world, 1, 1.0), []);
    assert_eq!(beats(&mut world, 3, 2.0), []);
    assert_eq!(
        beats(&mut world, 1, 2.0),
        [overloaded("q", 2.0), overloaded("s", 2.0)]
    );
}

#[test]
fn a_worker_that_is_silent_or_gone_is_not_at_its_capacity() {
    let mut world = World::new();
    register(&mut world, "w", &["q"]);
    world.watch(&["q"]);
    world.tick();
    beat(&mut world, "w", 2.0);
    world.sleep(80_000);
    assert_eq!(notices(&mut world), []);
    assert_eq!(beats(&mut world, 3, 2.0), []);
    world.ask(UnregisterWorker { id: "w".into() });
    register(&mut world, "w", &["q"]);
    assert_eq!(beats(&mut world, 3, 2.0), []);
    assert_eq!(beats(&mut world, 1, 2.0), [overloaded("q", 2.0)]);
}

#[test]
fn a_worker_without_jobs_is_not_at_its_capacity_whatever_that_is() {
    let mut world = World::new();
    register(&mut world, "w", &["q"]);
    let worker = WorkerRegistration {
        id: Some("w".into()),
        name: "sender".into(),
        queues: vec!["q".into()],
        concurrency: Some(0.0),
        hostname: None,
        pid: None,
        started_at: None,
    };
    world.ask(RegisterWorker { worker });
    world.watch(&["q"]);
    assert_eq!(beats(&mut world, 6, 0.0), []);
}

fn read(subscription: &mut Subscription) -> Vec<&'static str> {
    let events = std::iter::from_fn(|| subscription.try_next());
    events
        .map(|published| published.event().kind.name())
        .collect()
}

#[tokio::test]
async fn subscribers_get_the_notices_that_they_want() {
    let clock = Arc::new(ManualClock::new(1_800_000_000_000));
    let config = Config {
        notices: NoticeBounds {
            queue_size: Some(1),
            ..NoticeBounds::default()
        },
        ..Config::default()
    };
    let broker = LocalBroker::simulated(config, Box::new(Arc::clone(&clock)), [1; 32]);
    let subscribe = |types: Option<&str>| {
        broker.subscribe(EventFilter {
            queue: "q".into(),
            types: types.map_or(EventTypes::ALL, |name| EventTypes::named([name])),
        })
    };
    let push = || Add {
        queue: queue("q"),
        job: job(),
    };
    let pass = |looks: u32| {
        for _ in 0..looks {
            clock.advance(NOTICE_PERIOD);
            broker.tick();
        }
    };
    broker.call(push()).await.expect("added");
    // A worker that hears of stalls is not one who wants notices: no look is due that would find the queue large.
    let mut stalls = subscribe(Some("stalled"));
    pass(2);
    let mut sizes = subscribe(Some("queue:threshold"));
    assert_eq!(read(&mut sizes), ["queue:threshold"]);
    let mut all = subscribe(None);
    broker
        .call(Drain { queue: queue("q") })
        .await
        .expect("drained");
    pass(1);
    broker.call(push()).await.expect("added");
    pass(1);
    broker
        .call(Drain { queue: queue("q") })
        .await
        .expect("drained");
    pass(4);
    let told = [
        "drained",
        "pushed",
        "queue:threshold",
        "drained",
        "queue:idle",
    ];
    assert_eq!(read(&mut all), told);
    assert_eq!(read(&mut sizes), ["queue:threshold"]);
    // Who comes when nobody has watched any more gets everything anew.
    drop((all, sizes));
    pass(1);
    let mut again = subscribe(None);
    pass(3);
    assert_eq!(read(&mut again), ["queue:idle"]);
    assert_eq!(read(&mut stalls), [""; 0]);
}

/// As after a commit that failed: what is stored is loaded again, and who listens goes on to do so.
#[test]
fn who_wants_notices_gets_them_from_an_engine_that_takes_the_place_of_another() {
    let mut world = of_size(1);
    world.watch(&["q"]);
    world.act(|engine, _| {
        let config = Config {
            notices: NoticeBounds {
                queue_size: Some(1),
                ..NOTHING
            },
            ..Config::default()
        };
        let mut before = std::mem::replace(engine, Engine::new(config, [1; 32]));
        engine.inherit(&mut before);
    });
    world.push("q", job());
    world.sleep(NOTICE_PERIOD);
    assert_eq!(of_q(&mut world), large(1, 1));
}
