//! What a restart keeps, what it changes, and what it ends (engine contract, sections 24.3 and 24.4).

use std::sync::Arc;

use bunqueue_mcp::command::schedule::CronDraft;
use bunqueue_mcp::command::webhook::WebhookDraft;
use bunqueue_mcp::command::{
    Ack, AddLog, AddWebhook, Drain, GetDlqConfig, GetQueueLimits, GetQueueMetrics, GetStallConfig,
    GetStats, IsPaused, ListWebhooks, ListWorkers, Obliterate, Pause, Progress, RegisterWorker,
    SetConcurrency, SetDlqConfig, SetRateLimit, SetStallConfig,
};
use bunqueue_mcp::engine::{
    AddOutcome, Backoff, BackoffKind, DlqConfigUpdate, MetricKind, NewJob, RateLimit, Report,
    StallConfigUpdate, State, TokenGiven, WorkerRegistration,
};

use super::Kept;
use crate::engine::cron::{pattern, piling};
use crate::engine::flow::{Policy, family, finish, node, state, tree, values};
use crate::engine::schedule::at;
use crate::world::{id, keyed, named, payload, queue, with};

/// A job that is tried so often, with a pause of a minute.
fn tried(name: &str, max_attempts: u32) -> NewJob {
    let job = NewJob {
        max_attempts,
        ..named(name)
    };
    with(job, |options| {
        options.backoff = Backoff {
            kind: BackoffKind::Fixed,
            delay: 60_000.0,
            max_delay: None,
        };
    })
}

#[test]
fn b_8_a_key_is_free_when_it_would_have_been_without_a_restart() {
    let mut kept = Kept::new();
    let passing = |name| {
        with(keyed(named(name), "k"), |options| {
            options.dedup.ttl = Some(900.0);
        })
    };
    kept.world.push("q", passing("a"));
    kept.restart(700);
    kept.world.sleep(199);
    let again = kept.world.add("q", passing("b"));
    assert_eq!((again.id, again.outcome), (id("a"), AddOutcome::Existing));
    kept.world.sleep(201);
    assert_eq!(kept.world.add("q", passing("c")).outcome, AddOutcome::New);
}

#[test]
fn b_18_a_crash_leaves_a_slot_with_its_job_or_neither() {
    let mut kept = Kept::new();
    kept.world.upsert(&piling("c", 1_000));
    kept.commit();
    kept.world.sleep(1_000);
    // Whoever starts now is too late for a slot that is not stored.
    kept.world.now += 1;
    let mut seen = [0; 2];
    for mut world in kept.cuts() {
        let jobs = world.counts("q").waiting;
        let figures = world.cron("c").figures;
        assert_eq!(figures.executions, jobs as u64);
        // A slot that has not happened is missed, and not made up for by default.
        assert_eq!(figures.missed, 1 - jobs as u64);
        seen[jobs] += 1;
    }
    assert!(seen[0] > 0 && seen[1] == 1, "{seen:?}");
}

#[test]
fn hard_c6_b_18_a_process_that_was_down_for_three_hours_makes_up_for_one_slot_or_none() {
    for (skips, made_up) in [(true, 0), (false, 1)] {
        let mut kept = Kept::new();
        kept.world.now = at("2026-01-01T10:01:00Z");
        kept.world.upsert(&CronDraft {
            skip_missed_on_restart: Some(skips),
            ..pattern("c", "*/5 * * * *")
        });
        kept.restart(3 * 3_600_000);
        for _ in 0..2 {
            assert_eq!(kept.world.counts("q").total(), made_up as usize);
            let figures = kept.world.cron("c").figures;
            let counted = (figures.executions, figures.missed);
            assert_eq!(counted, (made_up, 36 - made_up));
            // The next start makes up for nothing again.
            kept.restart(1_000);
        }
        while let Some(delivery) = kept.world.pull("q") {
            kept.world.ack(&delivery);
        }
        kept.world.sleep(5 * 60_000);
        assert_eq!(kept.world.cron("c").figures.executions, made_up + 1);
    }
}

#[test]
fn id_9_a_new_life_of_an_id_takes_the_place_of_the_old_one_in_one_step() {
    let mut kept = Kept::new();
    let job = |byte| NewJob {
        data: Some(payload(byte)),
        ..named("x")
    };
    kept.world.push("q", job(1));
    finish(&mut kept.world, "q", Some(payload(3)));
    kept.commit();
    assert_eq!(kept.world.add("q", job(2)).outcome, AddOutcome::New);
    let mut lives = Vec::new();
    for mut world in kept.cuts() {
        let job = world.detail(&id("x")).job;
        let result = world.result(&id("x"));
        let life = (job.state, job.data, result);
        assert_eq!(world.counts("q").total(), 1);
        if lives.last() != Some(&life) {
            lives.push(life);
        }
    }
    let old = (State::Completed, Some(payload(1)), Some(payload(3)));
    let new = (State::Waiting, Some(payload(2)), None);
    assert_eq!(lives, [old, new]);
}

#[test]
fn sl_14_a_delivery_that_went_back_with_its_connection_costs_no_attempt_at_a_restart() {
    let mut kept = Kept::new();
    kept.world.push("q", tried("x", 1));
    kept.world.as_connection(1);
    kept.world.pull("q").expect("ready");
    kept.world.close(1);
    kept.restart(0);
    let job = kept.world.detail(&id("x")).job;
    assert_eq!((job.state, job.attempts), (State::Waiting, 0));
}

#[test]
fn fl_15_a_parent_waits_for_its_other_child_after_a_restart() {
    let mut kept = Kept::new();
    family(&mut kept.world, Policy::None);
    let first = finish(&mut kept.world, "cq", Some(payload(1)));
    kept.restart(0);
    assert_eq!(state(&mut kept.world, "p"), Some(State::WaitingChildren));
    let second = finish(&mut kept.world, "cq", Some(payload(2)));
    assert_ne!(first, second);
    assert_eq!(state(&mut kept.world, "p"), Some(State::Waiting));
    let read = values(&mut kept.world, "p");
    let expected = [
        ("cq:a".to_owned(), payload(1)),
        ("cq:b".to_owned(), payload(2)),
    ];
    assert_eq!(read, expected);
}

#[test]
fn pe_3_the_order_of_delivery_is_that_of_before() {
    let mut kept = Kept::new();
    let lifo = NewJob {
        lifo: true,
        ..named("c")
    };
    let delayed = NewJob {
        delay: 60_000,
        ..named("d")
    };
    let prioritized = NewJob {
        priority: 5.0,
        ..named("b")
    };
    kept.world
        .push_many("q", vec![named("a"), prioritized, lifo, delayed]);
    kept.restart(0);
    assert_eq!(kept.world.pull_all("q"), ["b", "c", "a"]);
    assert_eq!(kept.world.counts("q").delayed, 1);
}

#[test]
fn pe_4_a_delivery_without_a_lock_is_an_interrupted_attempt() {
    let mut kept = Kept::new();
    kept.world.push("q", tried("x", 3));
    kept.world.pull("q").expect("ready");
    kept.restart(1_000);
    let now = kept.world.now;
    let job = kept.world.detail(&id("x")).job;
    assert_eq!(
        (job.state, job.attempts, job.stall_count, job.started_at),
        (State::Delayed, 1, 1, None)
    );
    assert!((48_000..=72_000).contains(&(job.run_at - now)));
    // It was charged once.
    kept.restart(0);
    assert_eq!(kept.world.detail(&id("x")).job.attempts, 1);
}

#[test]
fn pe_5_an_interrupted_last_attempt_is_a_failure() {
    let mut kept = Kept::new();
    kept.world.push("q", tried("x", 1));
    kept.world.pull("q").expect("ready");
    kept.restart(0);
    assert_eq!(
        kept.world.failure(&id("x")).error.as_deref(),
        Some("Job reached max attempts (1) during startup recovery")
    );
}

#[test]
fn b_22_a_lock_that_ran_out_while_nobody_was_there_costs_an_attempt() {
    for (down, attempts, expected) in [(29_999, 0, State::Active), (30_000, 1, State::Waiting)] {
        let mut kept = Kept::new();
        kept.world.push("q", named("x"));
        let delivery = kept.world.pull_lock("q", 30_000.0).expect("ready");
        kept.restart(down);
        assert_eq!(kept.world.detail(&id("x")).job.attempts, attempts);
        assert_eq!(
            kept.world.state(&id("x")),
            Some(expected),
            "after {down} ms"
        );
        // As in one process, it is not too late as long as nobody else has the job.
        assert_eq!(kept.world.ack(&delivery), Report::Applied);
    }
}

#[test]
fn pe_6_a_completed_job_comes_back_with_its_result_and_counts() {
    let mut kept = Kept::new();
    kept.world.push("q", named("x"));
    kept.world.pull("q").expect("ready");
    kept.world.ask(Progress {
        id: id("x"),
        progress: 40.0,
        message: None,
    });
    kept.world.ask(Ack {
        id: id("x"),
        token: TokenGiven::None,
        result: Some(payload(5)),
        remove_on_complete: false,
    });
    kept.restart(0);
    let job = kept.world.detail(&id("x")).job;
    assert_eq!((job.state, job.progress), (State::Completed, 40.0));
    assert_eq!(kept.world.result(&id("x")), Some(payload(5)));
    assert_eq!(kept.world.counts("q").completed, 1);
    let metrics = kept.world.ask(GetQueueMetrics {
        queue: queue("q"),
        kind: MetricKind::Completed,
        start: 0,
        end: usize::MAX,
    });
    assert_eq!(metrics.count, 1);
    let totals = kept.world.ask(GetStats).totals;
    assert_eq!(
        (totals.since_start.completed, totals.lifetime.completed),
        (0, 1)
    );
}

#[test]
fn pe_8_settings_of_a_queue_come_back() {
    let mut kept = Kept::new();
    let on = || queue("q");
    kept.world.ask(Pause { queue: on() });
    let limit = RateLimit {
        max: 7,
        duration: 2_000,
    };
    kept.world.ask(SetRateLimit {
        queue: on(),
        limit,
        ttl: None,
    });
    kept.world.ask(SetConcurrency {
        queue: on(),
        limit: 3,
    });
    kept.world.ask(SetStallConfig {
        queue: on(),
        update: StallConfigUpdate {
            max_stalls: Some(9.0),
            ..StallConfigUpdate::default()
        },
    });
    kept.world.ask(SetDlqConfig {
        queue: on(),
        update: DlqConfigUpdate {
            max_entries: Some(5),
            ..DlqConfigUpdate::default()
        },
    });
    kept.restart(0);
    assert!(kept.world.ask(IsPaused { queue: on() }));
    let limits = kept.world.ask(GetQueueLimits {
        queue: on(),
        jobs: None,
    });
    assert_eq!((limits.rate, limits.concurrency), (Some(limit), Some(3)));
    assert_eq!(
        kept.world.ask(GetStallConfig { queue: on() }).max_stalls,
        9.0
    );
    assert_eq!(kept.world.ask(GetDlqConfig { queue: on() }).max_entries, 5);
}

#[test]
fn pe_11_b_32_logs_and_webhooks_come_back_and_workers_do_not() {
    let mut kept = Kept::new();
    kept.world.push("q", named("x"));
    kept.world.ask(AddLog {
        id: id("x"),
        level: "info".into(),
        message: "seen".into(),
    });
    kept.world.ask(AddWebhook {
        webhook: WebhookDraft {
            url: "https://example.com/hook".into(),
            events: vec![Arc::from("job.failed")],
            queue: None,
            secret: None,
        },
    });
    let before = kept.world.ask(ListWebhooks).list;
    kept.world.ask(RegisterWorker {
        worker: WorkerRegistration {
            id: Some("w".into()),
            name: "w".into(),
            queues: vec!["q".into()],
            concurrency: None,
            hostname: None,
            pid: None,
            started_at: None,
        },
    });
    assert_eq!(kept.world.ask(ListWorkers).list.len(), 1);
    kept.restart(0);
    assert_eq!(kept.world.log_texts(&id("x")), ["seen"]);
    assert_eq!(kept.world.ask(ListWebhooks).list, before);
    assert_eq!(kept.world.ask(ListWorkers).list.len(), 0);
    assert_eq!(kept.world.state(&id("x")), Some(State::Waiting));
}

#[test]
fn pe_15_what_was_taken_away_does_not_come_back() {
    let mut kept = Kept::new();
    for on in ["obliterated", "drained"] {
        kept.world
            .push_many(on, (0..3).map(|n| named(&format!("{on}{n}"))).collect());
    }
    kept.world
        .push_many("q", vec![named("cancelled"), named("stays")]);
    kept.commit();
    kept.world.ask(Obliterate {
        queue: queue("obliterated"),
    });
    kept.world.ask(Drain {
        queue: queue("drained"),
    });
    kept.world.cancel(&id("cancelled"));
    // As after a kill: nothing but the commit was done.
    let mut world = kept.cuts().pop().expect("the whole commit");
    for on in ["obliterated", "drained"] {
        assert_eq!(world.counts(on).total(), 0, "{on}");
    }
    assert_eq!(world.pull_all("q"), ["stays"]);
}

#[test]
fn pe_21_a_parent_whose_child_is_done_and_gone_is_ready_after_a_restart() {
    let mut kept = Kept::new();
    let mut child = node("c", "cq", vec![]);
    child.job.remove_on_complete = true;
    tree(&mut kept.world, &node("p", "pq", vec![child]));
    finish(&mut kept.world, "cq", Some(payload(4)));
    assert_eq!(kept.world.state(&id("c")), None);
    kept.restart(0);
    assert_eq!(state(&mut kept.world, "p"), Some(State::Waiting));
    // Its value is there as well (B-10).
    let read = values(&mut kept.world, "p");
    assert_eq!(read, [("cq:c".to_owned(), payload(4))]);
}
