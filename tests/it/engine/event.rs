//! Section 21: events, which there are and what each carries; the journal; B-28.

use bunqueue_mcp::broker::{Broker, BrokerExt, EventFilter, LocalBroker};
use bunqueue_mcp::command::given::Number;
use bunqueue_mcp::command::{
    Ack, Add, ChangeDelay, Clean, Command, Discard, Drain, Obliterate, Pause, Progress, Resume,
    TrimEvents,
};
use bunqueue_mcp::engine::{
    Bucket, CleanState, Config, EventKind, EventTypes, JobId, NewJob, Payload, StallDetail, State,
    TokenGiven,
};

use crate::world::{World, given, id, job, keyed, named, payload, queue, with};

fn once(name: &str) -> NewJob {
    NewJob {
        max_attempts: 1,
        ..named(name)
    }
}

fn failed(error: Option<&str>, data: Option<Payload>, terminal: bool) -> EventKind {
    EventKind::Failed {
        error: error.map(Into::into),
        data,
        terminal,
    }
}

fn succeed(world: &mut World, job: &JobId, result: Option<Payload>) {
    world.ask(Ack {
        id: job.clone(),
        token: TokenGiven::None,
        result,
        remove_on_complete: false,
    });
}

#[test]
fn ev_1_a_job_that_succeeds_is_pushed_pulled_and_completed_with_its_result() {
    let mut world = World::new();
    let job = world.push("q", named("j"));
    world.pull("q").expect("ready");
    succeed(&mut world, &job, Some(payload(7)));
    let events = world.events();
    let kinds: Vec<_> = events.iter().map(|event| event.kind.clone()).collect();
    let result = Some(payload(7));
    assert_eq!(
        kinds,
        [
            EventKind::Pushed,
            EventKind::Pulled,
            EventKind::Completed { result }
        ]
    );
    assert!(events.iter().all(|event| {
        event.job.as_ref() == Some(&job) && &*event.queue == "q" && event.at == world.now
    }));
}

#[test]
fn ev_2_a_failure_tells_its_error_and_the_data_of_the_job() {
    let mut world = World::new();
    let data = Some(payload(9));
    let new = NewJob {
        data: data.clone(),
        max_attempts: 2,
        ..job()
    };
    let new = with(new, |options| options.backoff.delay = 0.0);
    world.push("q", new);
    for terminal in [false, true] {
        let delivery = world.pull("q").expect("ready");
        world.events();
        world.fail(&delivery, "boom");
        let told = failed(Some("boom"), data.clone(), terminal);
        let expected = if terminal {
            vec![told]
        } else {
            vec![told, EventKind::Retried]
        };
        assert_eq!(world.event_kinds(), expected);
    }
}

#[test]
fn ev_3_a_subscriber_that_is_gone_or_never_reads_breaks_no_push() {
    let broker = LocalBroker::start(Config::default()).expect("a broker");
    let filter = || EventFilter {
        queue: "q".into(),
        types: EventTypes::ALL,
    };
    let (gone, mut lazy) = (broker.subscribe(filter()), broker.subscribe(filter()));
    drop(gone);
    let jobs = vec![job(); bunqueue_mcp::broker::BACKLOG_MAX + 10];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let queue = queue("q");
        let count = jobs.len();
        let add = bunqueue_mcp::command::AddMany { queue, jobs };
        assert_eq!(broker.call(add).await.expect("added").len(), count);
        let mut read = 0;
        while lazy.next().await.is_some() {
            read += 1;
        }
        assert_eq!(read, bunqueue_mcp::broker::BACKLOG_MAX);
    });
}

#[test]
fn ev_4_a_lock_that_runs_out_at_the_last_attempt_stalls_then_fails() {
    let mut world = World::new();
    world.push("q", once("j"));
    world.pull_lock("q", 30.0).expect("ready");
    world.events();
    world.sleep(30);
    let detail = Some(StallDetail {
        stall_count: 1,
        to_dlq: true,
    });
    assert_eq!(
        world.event_kinds(),
        [
            EventKind::Stalled { detail },
            failed(Some("Lock expired (max attempts reached)"), None, true)
        ]
    );
}

/// What is done, and the events that it leaves.
fn check(done: &str, act: impl FnOnce(&mut World), expected: &[(Option<&str>, EventKind)]) {
    let mut world = World::new();
    world.push("q", named("j"));
    world.push(
        "q",
        NewJob {
            delay: 60_000,
            ..named("later")
        },
    );
    world.events();
    act(&mut world);
    let events = world.events();
    let events: Vec<_> = events
        .into_iter()
        .map(|event| (event.job, event.kind))
        .filter(|(_, kind)| *kind != EventKind::Pulled)
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(job, kind)| (job.map(id), kind.clone()))
        .collect();
    assert_eq!(events, expected, "{done}");
}

fn ask(command: impl Into<Command>) -> impl FnOnce(&mut World) {
    let command = command.into();
    |world| drop(world.execute(command))
}

fn cleaning() -> Clean {
    Clean {
        queue: queue("q"),
        grace: 0.0,
        state: CleanState::Bucket(Bucket::State(State::Delayed)),
        limit: 10,
    }
}

#[test]
fn changes_of_one_job_are_told_with_what_they_carry() {
    let (delay, token) = (70.0, TokenGiven::None);
    check(
        "a delay of an active job",
        |world| {
            world.pull("q");
            let id = id("j");
            world.ask(ChangeDelay { id, delay, token }).expect_applied();
        },
        &[(Some("j"), EventKind::Delayed { delay })],
    );
    check(
        "a delay of a queued job",
        ask(ChangeDelay {
            id: id("j"),
            delay,
            token,
        }),
        &[],
    );
    let prev = State::Active;
    check(
        "a move back",
        |world| {
            world.pull("q");
            world.move_to_wait(&id("j"), None);
        },
        &[(Some("j"), EventKind::Waiting { prev })],
    );
    let prev = State::Delayed;
    check(
        "a cancellation",
        |world| {
            world.cancel(&id("later"));
        },
        &[(Some("later"), EventKind::Removed { prev })],
    );
    let message = Some("half".into());
    check(
        "progress",
        |world| {
            world.pull("q");
            world.ask(Progress {
                id: id("j"),
                progress: 50.0,
                message: Some("half".into()),
            });
        },
        &[(
            Some("j"),
            EventKind::Progress {
                progress: 50.0,
                message,
            },
        )],
    );
    check(
        "a duplicate",
        |world| {
            world.push("q", keyed(named("owner"), "k"));
            world.push("q", keyed(job(), "k"));
        },
        &[
            (Some("owner"), EventKind::Pushed),
            (Some("owner"), EventKind::Duplicated),
        ],
    );
    check(
        "a discard",
        ask(Discard { id: id("j"), token }),
        &[(Some("j"), failed(None, None, true))],
    );
}

#[test]
fn mg_10_changes_of_a_queue_are_told_without_a_job() {
    let queue = || queue("q");
    check(
        "a pause",
        ask(Pause { queue: queue() }),
        &[(None, EventKind::Paused)],
    );
    check(
        "a resumption",
        ask(Resume { queue: queue() }),
        &[(None, EventKind::Resumed)],
    );
    check(
        "a drain",
        ask(Drain { queue: queue() }),
        &[(None, EventKind::Drained { count: 2 })],
    );
    check(
        "a clean",
        ask(cleaning()),
        &[(None, EventKind::Cleaned { count: 1 })],
    );
    check(
        "an obliteration",
        ask(Obliterate { queue: queue() }),
        &[(None, EventKind::Obliterated { count: 2 })],
    );
    check(
        "a drain of nothing",
        |world| {
            world.ask(Drain { queue: queue() });
            world.events();
            world.ask(Drain { queue: queue() });
            world.ask(cleaning());
        },
        &[],
    );
}

#[test]
fn b_28_every_terminal_failure_is_told_and_counted_once() {
    let mut world = World::with(Config {
        stalls_max: 1,
        ..Config::default()
    });
    world.push("q", named("stalls"));
    world.pull("q").expect("ready");
    world.events();
    world.sleep(40_000);
    let detail = Some(StallDetail {
        stall_count: 1,
        to_dlq: true,
    });
    assert_eq!(
        world.event_kinds(),
        [
            EventKind::Stalled { detail },
            failed(Some("Job stalled 1 times"), None, true)
        ]
    );
    assert_eq!(world.totals().failed, 1);
    world.push("q", once("expires-with-its-lock"));
    world.pull_lock("q", 10.0).expect("ready");
    world.sleep(10);
    world.push(
        "q",
        with(named("too-old"), |options| options.ttl = Some(5.0)),
    );
    world.sleep(6);
    world.push("q", named("discarded"));
    world
        .ask(Discard {
            id: id("discarded"),
            token: TokenGiven::None,
        })
        .expect_applied();
    world.push(
        "q",
        with(once("takes-too-long"), |options| {
            options.timeout = Some(5.0)
        }),
    );
    world.pull("q").expect("ready");
    world.sleep(5);
    world.push(
        "q",
        NewJob {
            remove_on_fail: true,
            ..once("leaves-nothing")
        },
    );
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    let terminal = |kind: &&EventKind| matches!(kind, EventKind::Failed { terminal: true, .. });
    let kinds = world.event_kinds();
    assert_eq!(kinds.iter().filter(terminal).count(), 5);
    assert_eq!(world.totals().failed, 6);
    assert_eq!(world.queue_totals("q").failed, 6);
}

#[test]
fn a_retry_counts_as_no_failure_and_a_second_delivery_as_a_second_pull() {
    let mut world = World::new();
    world.push("q", with(job(), |options| options.backoff.delay = 0.0));
    for _ in 0..2 {
        let delivery = world.pull("q").expect("ready");
        world.fail(&delivery, "boom");
    }
    let totals = world.totals();
    assert_eq!((totals.pushed, totals.pulled, totals.failed), (1, 2, 0));
}

#[test]
fn id_2_and_pu_1_jobs_that_were_not_added_are_not_counted() {
    let mut world = World::new();
    world.push("q", named("c"));
    world.push("q", named("c"));
    world.push("q", keyed(job(), "k"));
    world.push("q", keyed(job(), "k"));
    assert_eq!(world.totals().pushed, 2);
}

fn trim(keep: usize) -> TrimEvents {
    TrimEvents {
        queue: queue("q"),
        keep,
    }
}

#[test]
fn the_journal_counts_every_event_up_to_its_bound_and_is_cut() {
    let mut world = World::new();
    assert_eq!(world.ask(trim(0)), 0);
    for attempts in [3, 1] {
        world.push(
            "q",
            NewJob {
                max_attempts: attempts,
                ..job()
            },
        );
    }
    world.push("q", job());
    let (first, second) = (
        world.pull("q").expect("ready"),
        world.pull("q").expect("ready"),
    );
    world.ack(&first);
    world.fail(&second, "e");
    // Three pushed, two pulled, one completed, one failed.
    assert_eq!(world.ask(trim(8)), 0);
    assert_eq!(world.ask(trim(2)), 5);
    assert_eq!(world.ask(trim(2)), 0);
    world.push_many("q", vec![job(); 10_100]);
    assert_eq!(world.ask(trim(1)), 9_999);
}

#[test]
fn a_bad_length_of_a_journal_is_refused() {
    for (queue, length, text) in [
        (
            "q",
            Number::Absent,
            "maxLength must be a non-negative safe integer",
        ),
        (
            "q",
            Number::NotNumber,
            "maxLength must be a non-negative safe integer",
        ),
        (
            "q",
            Number::Value(-1.0),
            "maxLength must be a non-negative safe integer",
        ),
        (
            "q",
            Number::Value(1.5),
            "maxLength must be a non-negative safe integer",
        ),
        (
            "q",
            Number::Value(9_007_199_254_740_992.0),
            "maxLength must be a non-negative safe integer",
        ),
        (
            "q",
            Number::Value(f64::NAN),
            "maxLength must be a non-negative safe integer",
        ),
        (
            "a b",
            Number::Value(1.0),
            "Queue name contains invalid characters",
        ),
        ("", Number::Value(1.0), "Queue name is required"),
    ] {
        let refused = TrimEvents::check(queue, length).expect_err("refused");
        assert_eq!(refused.to_string(), text, "{queue:?} {length:?}");
    }
    let taken = TrimEvents::check("q", Number::Value(0.0));
    assert_eq!(taken, Ok(trim(0)));
}

#[test]
fn only_those_events_are_made_that_somebody_wants_of_their_queue() {
    let mut world = World::new();
    world.listen_only("heard", EventTypes::named(["pushed", "paused"]));
    world.push("heard", job());
    world.push("unheard", job());
    for name in ["heard", "unheard"] {
        let delivery = world.pull(name).expect("ready");
        assert_eq!(given(delivery.token), TokenGiven::None);
        world.ask(Resume { queue: queue(name) });
        world.ask(Pause { queue: queue(name) });
    }
    assert_eq!(world.event_kinds(), [EventKind::Pushed, EventKind::Paused]);
    assert_eq!(world.totals().pushed, 2);
}

#[tokio::test]
async fn a_queue_is_told_from_its_subscription_to_the_end_of_it() {
    let broker = LocalBroker::start(Config::default()).expect("a broker");
    let add = |name: &str| Add {
        queue: queue(name),
        job: job(),
    };
    broker.call(add("a")).await.expect("added");
    let on = |name: &str| EventFilter {
        queue: name.into(),
        types: EventTypes::ALL,
    };
    let (mut a, mut b) = (broker.subscribe(on("a")), broker.subscribe(on("b")));
    for name in ["a", "b", "c", "a"] {
        broker.call(add(name)).await.expect("added");
    }
    let read = |subscription: &mut bunqueue_mcp::broker::Subscription| {
        std::iter::from_fn(|| subscription.try_next()).count()
    };
    assert_eq!((read(&mut a), read(&mut b)), (2, 1));
    drop(b);
    let mut again = broker.subscribe(on("b"));
    broker.call(add("b")).await.expect("added");
    assert_eq!((read(&mut a), read(&mut again)), (0, 1));
}

/// What a change came to, when it had to take effect.
trait Applied {
    fn expect_applied(self);
}

impl Applied for bunqueue_mcp::engine::Change {
    fn expect_applied(self) {
        assert_eq!(self, bunqueue_mcp::engine::Change::Applied);
    }
}
