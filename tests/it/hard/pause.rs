//! Pause.

use bunqueue_mcp::command::{Pause, Resume};
use bunqueue_mcp::engine::{Counts, NewJob};

use crate::world::{World, awaiting, job, queue};

#[test]
fn hard_p1_pause_means_now() {
    let mut world = World::new();
    let wait = world.wait(awaiting("q", 60_000));
    world.ask(Pause { queue: queue("q") });
    world.push_many(
        "q",
        vec![
            job(),
            NewJob {
                priority: 1.0,
                ..job()
            },
            NewJob {
                delay: 1_000,
                ..job()
            },
        ],
    );
    assert_eq!(
        world.counts("q"),
        Counts {
            paused: 2,
            delayed: 1,
            ..Counts::default()
        }
    );
    world.sleep(1_000);
    assert_eq!(world.handed(wait), None);
    assert_eq!(
        world.counts("q"),
        Counts {
            paused: 3,
            ..Counts::default()
        }
    );
    world.ask(Resume { queue: queue("q") });
    let handed = world.handed(wait).expect("served by the resume");
    assert_eq!(handed[0].job.priority, 1.0, "the order is that of no pause");
    assert_eq!(
        world.counts("q"),
        Counts {
            waiting: 2,
            active: 1,
            ..Counts::default()
        }
    );
    // Delivered jobs go on while the queue is paused.
    world.ask(Pause { queue: queue("q") });
    world.ack(&handed[0]);
    assert_eq!(
        world.counts("q"),
        Counts {
            paused: 2,
            completed: 1,
            ..Counts::default()
        }
    );
}
