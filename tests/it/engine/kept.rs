//! Section 14: progress, logs, results, and how much of it is kept.

use bunqueue_mcp::command::bounds::LOG_LEVEL_MAX;
use bunqueue_mcp::command::{Ack, AddLog, ClearLogs, Progress};
use bunqueue_mcp::engine::{Change, Config, Event, EventKind, JobId, NewJob, State, TokenGiven};

use crate::world::{World, id, job, named, payload, with};

fn progress(world: &mut World, id: &JobId, progress: f64, message: Option<&str>) -> Change {
    world.ask(Progress {
        id: id.clone(),
        progress,
        message: message.map(Into::into),
    })
}

fn log(world: &mut World, id: &JobId, level: &str, message: &str) -> Change {
    world.ask(AddLog {
        id: id.clone(),
        level: level.into(),
        message: message.into(),
    })
}

fn complete(world: &mut World, name: &str) {
    world.push("q", named(name));
    world.pull("q").expect("ready");
    let result = Some(payload(1));
    world.ask(Ack {
        id: id(name),
        token: TokenGiven::None,
        result,
        remove_on_complete: false,
    });
}

#[test]
fn pg_1_progress_is_for_active_jobs() {
    let mut world = World::new();
    let id = world.push("q", job());
    assert_eq!(
        progress(&mut world, &id, 5.0, None),
        Change::WrongState(State::Waiting)
    );
    assert_eq!(
        progress(&mut world, &crate::world::id("unknown"), 5.0, None),
        Change::NotFound
    );
}

#[test]
fn pg_2_progress_is_told_with_its_message() {
    let mut world = World::new();
    let id = world.push("q", job());
    world.pull("q").expect("ready");
    world.events();
    assert_eq!(progress(&mut world, &id, 42.0, Some("m")), Change::Applied);
    let kind = EventKind::Progress {
        progress: 42.0,
        message: Some("m".into()),
    };
    let event = Event {
        queue: "q".into(),
        job: Some(id.clone()),
        at: world.now,
        kind,
    };
    assert_eq!(world.events(), [event]);
    progress(&mut world, &id, 150.0, None);
    let view = world.detail(&id).job;
    assert_eq!(
        (view.progress, view.progress_message.as_deref()),
        (100.0, Some("m")),
        "clamped, the message stays"
    );
    progress(&mut world, &id, -5.0, Some(""));
    let view = world.detail(&id).job;
    assert_eq!(
        (view.progress, view.progress_message.as_deref()),
        (0.0, Some(""))
    );
}

#[test]
fn pg_3_newest_hundred_log_lines_are_kept() {
    let mut world = World::new();
    let id = world.push("q", job());
    for number in 0..104 {
        log(&mut world, &id, "info", &format!("l{number}"));
    }
    log(&mut world, &id, "error", "l104");
    let lines = world.ask(bunqueue_mcp::command::GetLogs { id: id.clone() });
    assert_eq!(
        (lines.len(), &*lines[0].message, &*lines[99].level),
        (100, "l5", "error")
    );
    world.ask(ClearLogs {
        id: id.clone(),
        keep: 2,
    });
    assert_eq!(world.log_texts(&id), ["l103", "l104"]);
    world.ask(ClearLogs {
        id: id.clone(),
        keep: 0,
    });
    assert_eq!(world.log_texts(&id), [""; 0]);
    assert_eq!(
        log(&mut world, &crate::world::id("unknown"), "info", "x"),
        Change::NotFound
    );
}

#[test]
fn b_33_keep_logs_lowers_the_bound() {
    for (keep, kept) in [(2.0, 2), (0.0, 0), (-1.0, 0), (1_000.0, 100)] {
        let mut world = World::new();
        let id = world.push("q", with(job(), |options| options.keep_logs = Some(keep)));
        for number in 0..120 {
            assert_eq!(
                log(&mut world, &id, "info", &number.to_string()),
                Change::Applied
            );
        }
        assert_eq!(world.log_texts(&id).len(), kept, "keepLogs {keep}");
    }
}

#[test]
fn logs_go_with_their_job_and_the_least_used_first() {
    let mut world = World::with(Config {
        logged_jobs_max: 2,
        ..Config::default()
    });
    for name in ["a", "b", "c"] {
        world.push("q", named(name));
        log(&mut world, &id(name), "info", "x");
    }
    assert_eq!(world.log_texts(&id("a")), [""; 0]);
    assert_eq!(
        (
            world.log_texts(&id("b")).len(),
            world.log_texts(&id("c")).len()
        ),
        (1, 1)
    );
    world.cancel(&id("b"));
    world.push("q", named("b"));
    assert_eq!(
        world.log_texts(&id("b")),
        [""; 0],
        "a new generation starts with an empty log"
    );
}

#[test]
fn logs_have_a_bound_of_bytes_as_well() {
    let mut world = World::with(Config {
        log_bytes_max: 100,
        ..Config::default()
    });
    let lines = |world: &mut World| ["a", "b"].map(|name| world.log_texts(&id(name)).len());
    for name in ["a", "b", "a"] {
        if world.state(&id(name)).is_none() {
            world.push("q", named(name));
        }
        log(&mut world, &id(name), "info", &"x".repeat(26));
    }
    assert_eq!(lines(&mut world), [2, 1]);
    log(&mut world, &id("a"), "info", &"x".repeat(7));
    assert_eq!(
        lines(&mut world),
        [3, 0],
        "the log that was used longest ago goes"
    );
    world.ask(ClearLogs {
        id: id("a"),
        keep: 1,
    });
    log(&mut world, &id("b"), "info", &"x".repeat(85));
    assert_eq!(lines(&mut world), [1, 1], "11 and 89 bytes fit");
    log(&mut world, &id("b"), "info", &"x".repeat(97));
    assert_eq!(
        lines(&mut world),
        [0, 0],
        "none that is larger than all may be"
    );
}

#[test]
fn a_level_is_short_text_of_any_kind() {
    let mut world = World::new();
    let id = world.push("q", job());
    log(&mut world, &id, "whatever", "x");
    log(&mut world, &id, &"l".repeat(1_000), "x");
    let lines = world.ask(bunqueue_mcp::command::GetLogs { id });
    let levels: Vec<_> = lines.iter().map(|line| &*line.level).collect();
    let long = format!("{}…", "l".repeat(LOG_LEVEL_MAX - 3));
    assert_eq!(levels, ["whatever", &*long]);
}

#[test]
fn pg_4_oldest_completed_job_goes_first() {
    let mut world = World::with(Config {
        completed_max: 10,
        ..Config::default()
    });
    let names: Vec<String> = (0..11).map(|number| format!("j{number}")).collect();
    for name in &names {
        complete(&mut world, name);
    }
    assert_eq!(world.counts("q").completed, 10);
    assert_eq!(
        (world.state(&id("j0")), world.state(&id("j1"))),
        (None, Some(State::Completed))
    );
}

#[test]
fn pg_6_old_completed_jobs_go_without_a_word() {
    let aging = |age| {
        World::with(Config {
            completed_retention: Some(age),
            ..Config::default()
        })
    };
    let mut world = aging(0);
    complete(&mut world, "a");
    world.events();
    assert_eq!(world.result(&id("a")), None);
    assert_eq!(world.state(&id("a")), None);
    assert_eq!(world.events(), []);
    // Each at its own time.
    let mut world = aging(1_000);
    for name in ["a", "b", "c"] {
        complete(&mut world, name);
        world.sleep(100);
    }
    let left = |world: &mut World| ["a", "b", "c"].map(|name| world.state(&id(name)).is_some());
    world.sleep(699);
    assert_eq!(left(&mut world), [true, true, true]);
    world.sleep(1);
    assert_eq!(left(&mut world), [false, true, true]);
    world.add("q", named("b"));
    world.sleep(199);
    assert_eq!(left(&mut world), [false, true, true]);
    world.sleep(1);
    assert_eq!(left(&mut world), [false, true, false], "b has a new life");
    assert_eq!(Config::default().completed_retention, None);
}

#[test]
fn retention_waits_for_nothing_when_nothing_is_completed() {
    let mut world = World::with(Config {
        completed_retention: Some(1_000_000),
        ..Config::default()
    });
    complete(&mut world, "a");
    world.ask(bunqueue_mcp::command::Obliterate {
        queue: crate::world::queue("q"),
    });
    assert_eq!(world.next_deadline(), None);
}

#[test]
fn pg_5_results_are_kept_by_use() {
    let mut world = World::with(Config {
        results_max: 2,
        ..Config::default()
    });
    complete(&mut world, "j0");
    complete(&mut world, "j1");
    assert!(world.result(&id("j0")).is_some());
    complete(&mut world, "j2");
    assert!(
        world.result(&id("j1")).is_none(),
        "the one that was not read lately goes"
    );
    complete(&mut world, "j3");
    let readable = ["j0", "j1", "j2", "j3"].map(|name| world.result(&id(name)).is_some());
    assert_eq!(readable, [false, false, true, true]);
    assert_eq!(world.counts("q").completed, 4);
}

#[test]
fn dead_letters_have_a_bound_per_queue() {
    let mut world = World::with(Config {
        dlq_max: 2,
        ..Config::default()
    });
    for name in ["a", "b", "c"] {
        world.push(
            "q",
            NewJob {
                max_attempts: 1,
                ..named(name)
            },
        );
        let delivery = world.pull("q").expect("ready");
        world.events();
        world.fail(&delivery, "boom");
    }
    assert_eq!(world.event_words(), ["failed c", "removed a"]);
    assert_eq!((world.state(&id("a")), world.counts("q").failed), (None, 2));
}

#[test]
fn retried_dead_letter_gets_all_its_attempts_again() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 2,
            priority: 3.0,
            ..job()
        },
    );
    for _ in 0..2 {
        world.sleep(5_000);
        let delivery = world.pull("q").expect("ready");
        world.fail(&delivery, "boom");
    }
    world.events();
    assert_eq!(world.move_to_wait(&id, None), Change::Applied);
    let detail = world.detail(&id);
    assert_eq!(
        (
            detail.job.state,
            detail.job.attempts,
            detail.job.stall_count
        ),
        (State::Prioritized, 0, 0)
    );
    assert_eq!(
        (detail.job.run_at, detail.job.started_at, detail.failure),
        (world.now, None, None)
    );
    assert_eq!(world.events(), [], "a retry by hand is not told");
    for _ in 0..2 {
        world.sleep(5_000);
        let delivery = world.pull("q").expect("ready");
        world.fail(&delivery, "again");
    }
    let failure = world.failure(&id);
    assert_eq!(
        failure
            .attempts
            .iter()
            .map(|record| record.attempt)
            .collect::<Vec<_>>(),
        [1, 2]
    );
}
