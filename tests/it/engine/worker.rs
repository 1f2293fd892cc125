//! Section 19: the registry of workers.

use std::sync::Arc;

use bunqueue_mcp::command::{
    ListQueueWorkers, ListWorkers, RegisterWorker, UnregisterWorker, WorkerHeartbeat, Workers,
};
use bunqueue_mcp::engine::{
    Config, Millis, WORKER_BYTES_MAX, WORKERS_MAX, WorkerFigures, WorkerRegistration, WorkerStats,
    WorkerView,
};

use crate::world::{World, queue};

const TIMEOUT: Millis = 30_000;

fn named(id: Option<&str>, queues: &[&str]) -> WorkerRegistration {
    WorkerRegistration {
        id: id.map(Arc::from),
        name: "sender".into(),
        queues: queues.iter().map(|name| Arc::from(*name)).collect(),
        concurrency: None,
        hostname: None,
        pid: None,
        started_at: None,
    }
}

fn register(world: &mut World, worker: WorkerRegistration) -> WorkerView {
    *world.ask(RegisterWorker { worker })
}

fn beat(world: &mut World, id: &str, active: f64, processed: f64, failed: f64) -> bool {
    let figures = WorkerFigures {
        active_jobs: Some(active),
        processed: Some(processed),
        failed: Some(failed),
    };
    let id = id.into();
    world.ask(WorkerHeartbeat { id, figures })
}

fn unregister(world: &mut World, id: &str) -> bool {
    world.ask(UnregisterWorker { id: id.into() })
}

fn ids(workers: &Workers) -> Vec<&str> {
    workers.list.iter().map(|view| &*view.id).collect()
}

#[test]
fn wk_1_a_worker_is_counted_found_for_its_queue_and_forgotten() {
    let mut world = World::new();
    let worker = WorkerRegistration {
        concurrency: Some(3.0),
        ..named(None, &["q", "r"])
    };
    let id = register(&mut world, worker).id;
    register(&mut world, named(Some("other"), &["s"]));
    assert!(unregister(&mut world, "other"));
    assert!(beat(&mut world, &id, 2.0, 10.0, 1.0));
    let stats = WorkerStats {
        total: 1,
        active: 1,
        total_processed: 10.0,
        total_failed: 1.0,
        active_jobs: 2.0,
        concurrency_slots: 3.0,
    };
    assert_eq!(world.ask(ListWorkers).stats, stats);
    let found = world.ask(ListQueueWorkers { queue: queue("r") });
    assert_eq!((ids(&found), found.stats), (vec![&*id], stats));
    let none = world.ask(ListQueueWorkers { queue: queue("s") });
    assert_eq!(
        (none.list, none.stats),
        (Vec::new(), WorkerStats::default())
    );
    assert!(unregister(&mut world, &id));
    assert!(!unregister(&mut world, &id));
    assert!(!beat(&mut world, &id, 0.0, 0.0, 0.0));
}

#[test]
fn wk_3_a_worker_that_says_little_gets_defaults() {
    let mut world = World::new();
    let view = register(&mut world, named(None, &["q"]));
    assert_eq!(
        (&*view.hostname, view.pid, view.concurrency),
        ("unknown", 0.0, 1.0)
    );
    assert_eq!((view.registered_at, view.last_seen), (world.now, world.now));
    let figures = (view.active_jobs, view.processed_jobs, view.failed_jobs);
    assert_eq!((figures, view.active), ((0.0, 0.0, 0.0), true));
    assert_eq!(view.id.len(), 36, "an id of the engine's own");
    let started_at = Some(world.now - 5_000);
    let early = register(
        &mut world,
        WorkerRegistration {
            started_at,
            ..named(None, &[])
        },
    );
    assert_eq!(
        (Some(early.registered_at), early.last_seen),
        (started_at, world.now)
    );
}

#[test]
fn a_known_id_is_updated_and_keeps_its_name() {
    let mut world = World::new();
    register(&mut world, named(Some("w"), &["q"]));
    beat(&mut world, "w", 1.0, 5.0, 2.0);
    let before = world.now;
    world.sleep(1_000);
    let again = WorkerRegistration {
        name: "other".into(),
        concurrency: Some(4.0),
        hostname: Some("host".into()),
        pid: Some(77.0),
        started_at: Some(1),
        ..named(Some("w"), &["r"])
    };
    let view = register(&mut world, again);
    let expected = WorkerView {
        id: "w".into(),
        name: "sender".into(),
        queues: vec!["r".into()],
        concurrency: 4.0,
        hostname: "host".into(),
        pid: 77.0,
        registered_at: before,
        last_seen: world.now,
        active: true,
        active_jobs: 1.0,
        processed_jobs: 5.0,
        failed_jobs: 2.0,
    };
    assert_eq!(view, expected);
    assert_eq!(world.ask(ListWorkers).list, [expected]);
    assert_eq!(
        ids(&world.ask(ListQueueWorkers { queue: queue("q") })),
        [""; 0]
    );
}

#[test]
fn a_heartbeat_sets_only_what_it_names() {
    let mut world = World::new();
    register(&mut world, named(Some("w"), &["q"]));
    beat(&mut world, "w", 3.0, 9.0, 1.0);
    let figures = WorkerFigures {
        processed: Some(4.0),
        ..WorkerFigures::default()
    };
    assert!(world.ask(WorkerHeartbeat {
        id: "w".into(),
        figures
    }));
    let view = world.ask(ListWorkers).list.remove(0);
    let figures = (view.active_jobs, view.processed_jobs, view.failed_jobs);
    assert_eq!(figures, (3.0, 4.0, 1.0));
}

#[test]
fn a_silent_worker_is_stale_then_forgotten_and_its_work_stays_counted() {
    let mut world = World::new();
    register(&mut world, named(Some("w"), &["q"]));
    beat(&mut world, "w", 1.0, 5.0, 2.0);
    world.sleep(TIMEOUT - 1);
    assert!(world.ask(ListWorkers).list[0].active);
    world.sleep(1);
    let stale = world.ask(ListWorkers);
    assert!(!stale.list[0].active);
    let stats = WorkerStats {
        total: 1,
        total_processed: 5.0,
        total_failed: 2.0,
        active_jobs: 1.0,
        ..WorkerStats::default()
    };
    assert_eq!(stale.stats, stats);
    assert_eq!(
        world.ask(ListQueueWorkers { queue: queue("q") }).stats,
        stats
    );
    world.sleep(2 * TIMEOUT - 1);
    assert_eq!(world.ask(ListWorkers).stats.total, 1);
    assert_eq!(world.next_deadline(), Some(world.now + 1));
    world.sleep(1);
    let gone = world.ask(ListWorkers);
    assert_eq!(gone.list, []);
    assert_eq!(
        (gone.stats.total_processed, gone.stats.total_failed),
        (5.0, 2.0)
    );
    assert_eq!(world.next_deadline(), None, "nobody is left to look after");
    // A worker that comes back is a new one.
    assert!(!beat(&mut world, "w", 0.0, 0.0, 0.0));
    assert_eq!(
        register(&mut world, named(Some("w"), &["q"])).processed_jobs,
        0.0
    );
}

#[test]
fn each_worker_is_forgotten_in_its_own_time() {
    let mut world = World::new();
    for id in ["a", "b", "c"] {
        register(&mut world, named(Some(id), &["q"]));
        world.sleep(10_000);
    }
    beat(&mut world, "a", 0.0, 0.0, 0.0);
    let left = |world: &mut World| {
        let workers = world.ask(ListWorkers);
        ids(&workers).join(" ")
    };
    world.sleep(69_999);
    assert_eq!(left(&mut world), "a b c");
    world.sleep(1);
    assert_eq!(left(&mut world), "a c", "the first was seen again");
    world.sleep(10_000);
    assert_eq!(left(&mut world), "a");
    world.sleep(10_000);
    assert_eq!(left(&mut world), "");
}

#[test]
fn a_closed_connection_takes_its_workers_with_it() {
    let mut world = World::new();
    world.as_connection(1);
    register(&mut world, named(Some("moved"), &["q"]));
    register(&mut world, named(Some("gone"), &["q"]));
    beat(&mut world, "gone", 0.0, 3.0, 0.0);
    world.as_connection(2);
    register(&mut world, named(Some("moved"), &["q"]));
    register(&mut world, named(Some("kept"), &["q"]));
    world.close(1);
    let workers = world.ask(ListWorkers);
    assert_eq!(ids(&workers), ["moved", "kept"]);
    assert_eq!(workers.stats.total_processed, 3.0);
    world.close(2);
    assert_eq!(world.ask(ListWorkers).list, []);
    assert_eq!(world.next_deadline(), None);
}

#[test]
fn totals_are_numbers_whatever_workers_report() {
    let mut world = World::new();
    for id in ["a", "b", "c"] {
        let concurrency = Some(f64::MAX);
        register(
            &mut world,
            WorkerRegistration {
                concurrency,
                ..named(Some(id), &["q"])
            },
        );
        beat(&mut world, id, f64::MAX, f64::MAX, -f64::MAX);
    }
    let finite = |world: &mut World| {
        for stats in [
            world.ask(ListWorkers).stats,
            world.ask(ListQueueWorkers { queue: queue("q") }).stats,
        ] {
            let totals = [
                stats.total_processed,
                stats.total_failed,
                stats.active_jobs,
                stats.concurrency_slots,
            ];
            assert!(totals.iter().all(|total| total.is_finite()), "{stats:?}");
        }
    };
    finite(&mut world);
    for id in ["a", "b", "c"] {
        unregister(&mut world, id);
        finite(&mut world);
    }
    let stats = world.ask(ListWorkers).stats;
    assert_eq!(
        (stats.total_processed, stats.total_failed),
        (f64::MAX, -f64::MAX)
    );
}

#[test]
fn workers_are_bounded_in_number() {
    let mut world = World::new();
    for number in 0..WORKERS_MAX {
        register(&mut world, named(Some(&format!("w{number}")), &[]));
    }
    let one_more = RegisterWorker {
        worker: named(None, &[]),
    };
    let text = format!("Too many workers (max {WORKERS_MAX})");
    assert_eq!(world.refusal(one_more), text);
    register(&mut world, named(Some("w7"), &["known ones are updated"]));
    unregister(&mut world, "w0");
    register(&mut world, named(None, &[]));
}

#[test]
fn a_timeout_beyond_all_time_forgets_nobody() {
    let worker_timeout = Millis::MAX;
    let mut world = World::with(Config {
        worker_timeout,
        ..Config::default()
    });
    register(&mut world, named(Some("w"), &["q"]));
    world.sleep(1_000_000_000);
    assert!(world.ask(ListWorkers).list[0].active);
}

#[test]
fn what_a_worker_says_of_itself_is_bounded() {
    let mut world = World::new();
    let long: Arc<str> = "é".repeat(1_025).into();
    let fits: Arc<str> = "é".repeat(1_024).into();
    let fault = |world: &mut World, worker| world.refusal(RegisterWorker { worker });
    let worker = || named(Some("w"), &["q"]);
    let text = |field: &str| format!("{field} must be at most 1024 characters");
    let (id, name, hostname) = (Some(Arc::clone(&long)), Arc::clone(&long), Some(long));
    assert_eq!(
        fault(&mut world, WorkerRegistration { id, ..worker() }),
        text("workerId")
    );
    assert_eq!(
        fault(&mut world, WorkerRegistration { name, ..worker() }),
        text("name")
    );
    let host = WorkerRegistration {
        hostname,
        ..worker()
    };
    assert_eq!(fault(&mut world, host), text("hostname"));
    let many = named(None, &["q"; 10_001]);
    assert_eq!(
        fault(&mut world, many),
        "queues must have at most 10000 entries"
    );
    let wide = WorkerRegistration {
        queues: vec![Arc::clone(&fits); 1_260],
        ..worker()
    };
    assert_eq!(
        fault(&mut world, wide),
        "queues must take at most 2560000 bytes"
    );
    let (id, name, hostname) = (Some(Arc::clone(&fits)), Arc::clone(&fits), Some(fits));
    register(
        &mut world,
        WorkerRegistration {
            id,
            name,
            hostname,
            ..worker()
        },
    );
    world.check();
}

#[test]
fn the_registry_of_workers_has_a_bound_in_bytes() {
    let mut world = World::new();
    let wide = |number: usize| WorkerRegistration {
        queues: vec!["x".repeat(1_048_576).into()],
        ..named(Some(&number.to_string()), &[])
    };
    for number in 0..31 {
        register(&mut world, wide(number));
    }
    let text = format!("Too many bytes of registered workers (max {WORKER_BYTES_MAX})");
    assert_eq!(world.refusal(RegisterWorker { worker: wide(31) }), text);
    // One that is known takes its own place, and one that goes makes room.
    register(&mut world, wide(5));
    world.check();
    assert!(unregister(&mut world, "5"));
    register(&mut world, wide(31));
    world.check();
}

#[test]
fn a_worker_belongs_to_the_connection_that_registered_it_last() {
    let mut world = World::new();
    for (connection, id) in [(1, "a"), (1, "b"), (2, "c")] {
        register(world.as_connection(connection), named(Some(id), &["q"]));
    }
    register(world.as_connection(2), named(Some("a"), &["q"]));
    world.close(1);
    assert_eq!(ids(&world.ask(ListWorkers)), ["a", "c"]);
    world.check();
    world.close(2);
    assert_eq!(ids(&world.ask(ListWorkers)), [""; 0]);
    world.check();
}
