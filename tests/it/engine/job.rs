//! Section 2: what a job is, and what its history tells.

use bunqueue_mcp::command::Fail;
use bunqueue_mcp::engine::{
    Backoff, BackoffKind, FailReport, JobOptions, NewJob, Payload, State, TokenGiven,
};

use crate::world::{World, job, with};

fn states(world: &mut World, id: &bunqueue_mcp::engine::JobId) -> Vec<State> {
    world
        .detail(id)
        .job
        .timeline
        .iter()
        .map(|entry| entry.state)
        .collect()
}

#[test]
fn jm_1_new_job_has_the_defaults() {
    let mut world = World::new();
    let id = world.push("q", job());
    let view = world.detail(&id).job;
    assert_eq!(
        (view.created_at, view.run_at, view.last_heartbeat),
        (world.now, world.now, world.now)
    );
    assert_eq!(
        (view.started_at, view.completed_at, view.stacktrace),
        (None, None, None)
    );
    assert_eq!(
        (view.attempts, view.max_attempts, view.stall_count),
        (0, 3, 0)
    );
    assert_eq!(
        (view.priority, view.progress, view.progress_message),
        (0.0, 0.0, None)
    );
    assert_eq!(
        (view.lifo, view.remove_on_complete, view.remove_on_fail),
        (false, false, false)
    );
    assert_eq!(*view.options, JobOptions::default());
    assert_eq!(
        view.options.backoff,
        Backoff {
            kind: BackoffKind::Plain,
            delay: 1_000.0,
            max_delay: None
        }
    );
    assert_eq!(states(&mut world, &id), [State::Waiting]);
}

#[test]
fn jm_2_generated_ids_are_uuid_v7_and_sort_by_age() {
    let mut world = World::new();
    let ids = world.push_many("q", vec![job(); 100]);
    assert!(ids.is_sorted());
    for id in &ids {
        let text = id.to_string();
        assert_eq!((text.len(), text.as_bytes()[14]), (36, b'7'), "{text}");
    }
}

#[test]
fn jm_3_delay_counts_from_the_timestamp() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            delay: 5_000,
            timestamp: Some(1_000),
            ..job()
        },
    );
    let view = world.detail(&id).job;
    assert_eq!((view.created_at, view.run_at), (1_000, 6_000));
    assert_eq!(states(&mut world, &id), [State::Waiting]);
}

#[test]
fn jm_5_data_comes_back_as_it_was() {
    let mut world = World::new();
    for data in [
        None,
        Some(&[0xc0][..]),
        Some(&[0x91, 0x01]),
        Some(&[0xa1, b's']),
        Some(&[0x00]),
        Some(&[0xc2]),
    ] {
        let id = world.push(
            "q",
            NewJob {
                data: data.map(Payload::new),
                ..job()
            },
        );
        assert_eq!(
            world.detail(&id).job.data.as_ref().map(Payload::bytes),
            data
        );
    }
}

#[test]
fn jm_6_state_follows_from_run_time_and_priority() {
    let mut world = World::new();
    let cases = [
        (job(), State::Waiting),
        (
            NewJob {
                priority: 1.0,
                ..job()
            },
            State::Prioritized,
        ),
        (
            NewJob {
                delay: 9_999,
                ..job()
            },
            State::Delayed,
        ),
        (
            NewJob {
                priority: -5.0,
                ..job()
            },
            State::Waiting,
        ),
    ];
    for (new, state) in cases {
        let id = world.push("q", new);
        assert_eq!(world.state(&id), Some(state));
    }
}

#[test]
fn jm_7_history_of_a_success() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    world.ack(&delivery);
    assert_eq!(
        states(&mut world, &id),
        [State::Waiting, State::Active, State::Completed]
    );
}

#[test]
fn history_keeps_its_first_twenty_entries() {
    let mut world = World::new();
    let id = world.push(
        "q",
        with(
            NewJob {
                max_attempts: 50,
                ..job()
            },
            |options| options.backoff.delay = 0.0,
        ),
    );
    for _ in 0..30 {
        let delivery = world.pull("q").expect("ready");
        world.fail(&delivery, "again");
    }
    let timeline = world.detail(&id).job.timeline;
    assert_eq!(timeline.len(), 20);
    assert_eq!(timeline[0].state, State::Waiting);
    assert_eq!(
        (timeline[2].state, timeline[2].attempt),
        (State::Failed, Some(1))
    );
    assert_eq!(
        (timeline[3].state, timeline[3].attempt),
        (State::Waiting, Some(2))
    );
}

#[test]
fn jm_8_stack_is_cut_to_the_limit_of_the_job() {
    let mut world = World::new();
    let id = world.push("q", with(job(), |options| options.stack_trace_limit = 2.0));
    for stack in [Some(vec!["a".into(), "b".into(), "c".into()]), None] {
        world.pull("q").expect("ready");
        let report = FailReport {
            stack,
            ..FailReport::default()
        };
        world.ask(Fail {
            id: id.clone(),
            token: TokenGiven::None,
            report,
        });
        let stacktrace = world.detail(&id).job.stacktrace;
        assert_eq!(
            stacktrace,
            Some(vec!["a".into(), "b".into()]),
            "a failure without a stack keeps the last one"
        );
        world.sleep(10_000);
    }
}

#[test]
fn jm_9_backoff_is_kept_as_given() {
    let mut world = World::new();
    let backoff = Backoff {
        kind: BackoffKind::Fixed,
        delay: 77.0,
        max_delay: None,
    };
    let id = world.push("q", with(job(), |options| options.backoff = backoff));
    assert_eq!(world.detail(&id).job.options.backoff, backoff);
}
