//! Sections 15, 22 and 23: counts, totals, metrics per minute, throughput, latency, sizes, the store, dashboards.

use std::sync::Arc;

use bunqueue_mcp::command::given::Number;
use bunqueue_mcp::command::{
    Ack, AddLog, Cancel, ChangePriority, CompactMemory, GetCount, GetCounts, GetCountsPerPriority,
    GetMemoryStats, GetOverview, GetQueueDetail, GetQueueHealth, GetQueueMetrics, GetStats,
    GetStorageStatus, ListQueueSummaries, ListQueues, MetricsDraft, Obliterate, Pause,
    RegisterWorker, RemoveDedupKey,
};
use bunqueue_mcp::engine::{
    COMPACTION_PERIOD, Config, Counts, Durability, Effects, HEALTH_JOBS_MAX, JobId, JobLinks,
    MemoryStats, MetricKind, Millis, NewJob, QueueHealth, QueueMetrics, State, StorageStatus,
    StorageUsage, Throughput, Timed, TokenGiven, Totals, WorkerRegistration,
};

use super::flow::after;
use crate::image::Image;
use crate::world::{World, awaiting, id, job, keyed, named, payload, queue};

const MINUTE: Millis = 60_000;

fn prioritized(name: &str, priority: f64) -> NewJob {
    NewJob {
        priority,
        ..named(name)
    }
}

fn delayed(delay: Millis) -> NewJob {
    NewJob { delay, ..job() }
}

fn metrics(world: &mut World, kind: MetricKind) -> QueueMetrics {
    world.ask(all_minutes("q", kind))
}

fn all_minutes(on: &str, kind: MetricKind) -> GetQueueMetrics {
    GetQueueMetrics {
        queue: queue(on),
        kind,
        start: 0,
        end: usize::MAX,
    }
}

fn complete(world: &mut World, on: &str, remove_on_complete: bool) {
    world.push(on, job());
    let delivery = world.pull(on).expect("ready");
    world.ask(Ack {
        id: delivery.job.id,
        token: TokenGiven::None,
        result: None,
        remove_on_complete,
    });
}

fn fail_for_good(world: &mut World, on: &str) -> JobId {
    world.push(
        on,
        NewJob {
            max_attempts: 1,
            ..job()
        },
    );
    let delivery = world.pull(on).expect("ready");
    world.fail(&delivery, "boom");
    delivery.job.id
}

#[test]
fn qr_6_count_is_of_queued_jobs() {
    let mut world = World::new();
    world.push("q", named("active"));
    world.pull("q").expect("ready");
    world.push("q", job());
    world.push("q", delayed(60_000));
    world.push("q", after(named("blocked"), &["active"]));
    assert_eq!(world.ask(GetCount { queue: queue("q") }), 2);
    world.ask(Pause { queue: queue("q") });
    assert_eq!(world.ask(GetCount { queue: queue("q") }), 2);
    assert_eq!(
        world.ask(GetCount {
            queue: queue("none")
        }),
        0
    );
}

#[test]
fn counts_per_priority_follow_every_change() {
    let mut world = World::new();
    let per_priority = |world: &mut World| world.ask(GetCountsPerPriority { queue: queue("q") });
    assert_eq!(per_priority(&mut world), []);
    for (name, priority) in [("a", 5.0), ("b", 0.0), ("c", -0.0), ("d", -1.5), ("e", 5.0)] {
        world.push("q", prioritized(name, priority));
    }
    assert_eq!(per_priority(&mut world), [(5.0, 2), (0.0, 2), (-1.5, 1)]);
    world.ask(ChangePriority {
        id: id("b"),
        priority: -1.5,
        lifo: None,
    });
    world.cancel(&id("a"));
    assert_eq!(per_priority(&mut world), [(5.0, 1), (0.0, 1), (-1.5, 2)]);
    let delivery = world.pull("q").expect("ready");
    assert_eq!(delivery.job.id, id("e"));
    assert_eq!(per_priority(&mut world), [(0.0, 1), (-1.5, 2)]);
    world.fail(&delivery, "boom");
    assert_eq!(per_priority(&mut world), [(5.0, 1), (0.0, 1), (-1.5, 2)]);
    world.sleep(10_000);
    assert_eq!(per_priority(&mut world), [(5.0, 1), (0.0, 1), (-1.5, 2)]);
}

/// The protocol's names of these figures, in its order, are those of the fields in theirs.
#[test]
fn sx_1_figures_are_those_of_the_contract() {
    let mut world = World::new();
    complete(&mut world, "q", false);
    fail_for_good(&mut world, "q");
    world.push("q", job());
    world.pull("q").expect("ready");
    world.push("q", job());
    world.push("q", prioritized("p", 1.0));
    world.push("paused", job());
    world.push("paused", prioritized("pp", 1.0));
    world.push("paused", delayed(9_999));
    world.ask(Pause {
        queue: queue("paused"),
    });
    world.sleep(1_234);
    let stats = world.ask(GetStats);
    let expected = Counts {
        waiting: 2,
        prioritized: 2,
        delayed: 1,
        active: 1,
        completed: 1,
        failed: 1,
        waiting_children: 0,
        paused: 0,
    };
    assert_eq!(stats.jobs, expected);
    let totals = Totals {
        pushed: 8,
        pulled: 3,
        completed: 1,
        failed: 1,
    };
    assert_eq!(stats.totals.since_start, totals);
    assert_eq!(stats.uptime, 1_234);
    assert_eq!((stats.cron_jobs, stats.cron_pending), (0, 0));
    assert_eq!(stats.oldest_waiting_children, None);
}

#[test]
fn sx_1_sizes_are_those_of_what_is_kept() {
    let mut world = World::new();
    assert_eq!(*world.ask(GetMemoryStats), MemoryStats::default());
    world.push("q", named("locked"));
    world.push("q", named("plain"));
    world.as_connection(1);
    world.pull_lock("q", 30_000.0).expect("ready");
    world.pull("q").expect("ready");
    world.caller = None;
    world.push("q", job());
    world.push("q", delayed(5_000));
    world.ask(AddLog {
        id: id("plain"),
        level: "info".into(),
        message: "m".into(),
    });
    let sizes = MemoryStats {
        job_index: 4,
        job_logs: 1,
        custom_id_map: 2,
        job_locks: 1,
        client_jobs: 1,
        client_jobs_total: 2,
        processing_total: 2,
        queued_total: 2,
        // Two deliveries and a delay.
        temporal_index_total: 3,
        delayed_heap_total: 1,
        ..MemoryStats::default()
    };
    assert_eq!(*world.ask(GetMemoryStats), sizes);
    world.ask(Ack {
        id: id("plain"),
        token: TokenGiven::None,
        result: Some(payload(1)),
        remove_on_complete: false,
    });
    world.close(1);
    let sizes = MemoryStats {
        completed_jobs: 1,
        job_results: 1,
        job_locks: 0,
        client_jobs: 0,
        client_jobs_total: 0,
        processing_total: 0,
        queued_total: 3,
        temporal_index_total: 1,
        ..sizes
    };
    assert_eq!(*world.ask(GetMemoryStats), sizes);
}

#[test]
fn sx_1_a_store_that_keeps_nothing_has_no_trouble_and_says_so() {
    let mut world = World::new();
    let status = world.ask(GetStorageStatus);
    assert_eq!(
        status,
        StorageStatus {
            disk_full: false,
            error: None,
            since: None,
            durability: Durability::None,
            usage: StorageUsage::default(),
        }
    );
    assert!(!status.is_degraded());
    assert_eq!(status.durability.name(), "none");
}

#[test]
fn sx_2_a_completion_is_counted_in_its_minute() {
    let mut world = World::new();
    complete(&mut world, "q", false);
    let expected = QueueMetrics {
        count: 1,
        last_at: Some(world.now),
        minutes: 1,
        data: vec![1],
    };
    assert_eq!(metrics(&mut world, MetricKind::Completed), expected);
    let none = QueueMetrics::default();
    assert_eq!(metrics(&mut world, MetricKind::Failed), none);
    let unknown = all_minutes("unknown", MetricKind::Completed);
    assert_eq!(world.ask(unknown), none);
    assert_eq!(world.ask(ListQueues).len(), 1);
}

#[test]
fn only_terminal_failures_are_counted_and_gaps_are_zero() {
    let mut world = World::new();
    world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "once");
    assert_eq!(metrics(&mut world, MetricKind::Failed).count, 0);
    world.cancel(&delivery.job.id);
    fail_for_good(&mut world, "q");
    world.now += 3 * MINUTE;
    fail_for_good(&mut world, "q");
    fail_for_good(&mut world, "q");
    world.now += MINUTE;
    let all = metrics(&mut world, MetricKind::Failed);
    assert_eq!((all.count, all.minutes), (3, 4));
    // The newest minute is that of the last failure, not that of the reading.
    assert_eq!(all.data, [2, 0, 0, 1]);
    let mut range = |start, end| {
        let asked = GetQueueMetrics {
            start,
            end,
            ..all_minutes("q", MetricKind::Failed)
        };
        world.ask(asked).data
    };
    assert_eq!(range(0, 0), [2]);
    assert_eq!(range(1, 3), [0, 0, 1]);
    assert!(range(4, 9).is_empty());
    assert!(range(3, 1).is_empty());
}

#[test]
fn minutes_go_by_age_and_the_count_stays() {
    let mut world = World::new();
    complete(&mut world, "q", true);
    world.push("q", job());
    world.now += 20_159 * MINUTE;
    assert_eq!(metrics(&mut world, MetricKind::Completed).data, [1]);
    world.now += MINUTE;
    let aged = metrics(&mut world, MetricKind::Completed);
    assert_eq!((aged.count, aged.minutes, aged.data), (1, 0, vec![]));
    world.pull("q").expect("ready");
    complete(&mut world, "q", true);
    assert_eq!(metrics(&mut world, MetricKind::Completed).data, [1]);
}

#[test]
fn minutes_over_all_queues_have_a_bound() {
    let mut world = World::with(Config {
        metric_points_max: 3,
        ..Config::default()
    });
    for on in ["a", "b", "a", "a"] {
        complete(&mut world, on, true);
        world.push(on, job());
        world.pull(on).expect("ready");
        world.now += MINUTE;
    }
    let mut data = |on| world.ask(all_minutes(on, MetricKind::Completed)).data;
    // The oldest of the four has gone.
    assert_eq!(data("a"), [1, 1]);
    assert_eq!(data("b"), [1]);
}

#[test]
fn bad_requests_for_metrics_are_refused() {
    let good = MetricsDraft {
        queue: Some("q"),
        kind: Some("failed"),
        start: Number::Value(1.0),
        end: Number::Value(-1.0),
    };
    let taken = GetQueueMetrics {
        start: 1,
        ..all_minutes("q", MetricKind::Failed)
    };
    assert_eq!(good.check(), Ok(taken));
    let absent = MetricsDraft {
        start: Number::Absent,
        end: Number::Absent,
        ..good.clone()
    };
    assert_eq!(absent.check(), Ok(all_minutes("q", MetricKind::Failed)));
    let long = "q".repeat(257);
    let start = "start must be a non-negative safe integer";
    let end = "end must be a non-negative safe integer";
    let kind = "Metrics type must be 'completed' or 'failed'";
    let number = |value| (Number::Value(value), Number::Value(0.0));
    let cases = [
        (
            None,
            Some("failed"),
            number(0.0),
            "Metrics queue is required",
        ),
        (Some(""), None, number(0.0), "Metrics queue is required"),
        (
            Some("a b"),
            None,
            number(0.0),
            "Queue name contains invalid characters",
        ),
        (
            Some(long.as_str()),
            None,
            number(0.0),
            "Queue name too long (max 256 characters)",
        ),
        (Some("q"), None, number(0.0), kind),
        (Some("q"), Some("x"), number(-1.0), kind),
        (Some("q"), Some("failed"), number(-1.0), start),
        (Some("q"), Some("failed"), number(0.5), start),
        (
            Some("q"),
            Some("failed"),
            (Number::NotNumber, Number::Absent),
            start,
        ),
        (
            Some("q"),
            Some("failed"),
            (Number::Absent, Number::Value(-2.0)),
            end,
        ),
        (
            Some("q"),
            Some("failed"),
            (Number::Absent, Number::NotNumber),
            end,
        ),
    ];
    for (queue, kind, (start, end), text) in cases {
        let draft = MetricsDraft {
            queue,
            kind,
            start,
            end,
        };
        assert_eq!(draft.check().expect_err("refused").to_string(), text);
    }
}

#[test]
fn sx_3_throughput_is_smoothed_from_reading_to_reading() {
    let mut world = World::new();
    let rate = |world: &mut World| world.ask(GetStats).throughput.push;
    world.push_many("q", vec![job(); 100]);
    assert_eq!(rate(&mut world), 0.0);
    world.now += 1_000;
    assert_eq!(rate(&mut world), 100.0);
    world.now += 99;
    assert_eq!(rate(&mut world), 100.0);
    world.now += 901;
    assert_eq!(rate(&mut world), 70.0);
    world.now += 3_000;
    assert_eq!(rate(&mut world), 49.0);
    world.push("q", job());
    world.now += 3_000;
    // A third of a job per second, of which three tenths count.
    assert_eq!(rate(&mut world), 34.4);
    let all = world.ask(GetStats).throughput;
    let others = Throughput { push: 0.0, ..all };
    assert_eq!(others, Throughput::default());
}

#[test]
fn latency_is_what_was_measured() {
    let mut world = World::new();
    world.act(|engine, _| {
        engine.observe(Timed::Push, 0.05, 99);
        engine.observe(Timed::Push, 3.0, 1);
        engine.observe(Timed::Ack, 20.0, 1);
    });
    let overview = world.ask(GetOverview::ALL);
    let push = &overview.latency.push;
    assert_eq!((push.percentile(50.0), push.percentile(99.0)), (0.1, 0.1));
    assert_eq!(push.percentile(99.5), 5.0);
    assert_eq!(overview.latency.ack.average(), 20.0);
    assert_eq!(overview.latency.pull.percentile(99.0), 0.0);
    assert_eq!(overview.stats.average_latency, (0.05 * 99.0 + 23.0) / 101.0);
}

#[test]
fn work_lasts_from_the_delivery_to_the_success() {
    let mut world = World::new();
    for ms in [10, 30] {
        world.push("q", job());
        let delivery = world.pull("q").expect("ready");
        world.now += ms;
        world.ack(&delivery);
    }
    assert_eq!(world.ask(GetStats).average_work, 20.0);
}

#[test]
fn ak_3_and_fa_6_a_job_that_leaves_nothing_is_counted() {
    let mut world = World::new();
    complete(&mut world, "q", true);
    world.push(
        "q",
        NewJob {
            max_attempts: 1,
            remove_on_fail: true,
            ..job()
        },
    );
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    assert_eq!(
        world.ask(GetCounts { queue: queue("q") }),
        Counts::default()
    );
    let totals = world.queue_totals("q");
    assert_eq!((totals.completed, totals.failed), (1, 1));
    assert_eq!(metrics(&mut world, MetricKind::Failed).count, 1);
}

#[test]
fn figures_outlive_the_name_of_an_idle_queue_but_not_its_end() {
    let mut world = World::new();
    complete(&mut world, "q", true);
    world.sleep(10_000);
    assert_eq!(world.ask(ListQueues), Vec::<Arc<str>>::new());
    assert_eq!(world.ask(ListQueueSummaries), []);
    assert_eq!(world.queue_totals("q").completed, 1);
    assert_eq!(metrics(&mut world, MetricKind::Completed).count, 1);
    complete(&mut world, "q", true);
    assert_eq!(world.queue_totals("q").completed, 2);
    // A pull that waits keeps the queue, too.
    world.sleep(10_000);
    world.wait(awaiting("q", 60_000));
    world.sleep(90_000);
    assert_eq!(world.queue_totals("q").completed, 2);
    world.ask(Obliterate { queue: queue("q") });
    assert_eq!(world.queue_totals("q"), Totals::default());
    assert_eq!(
        metrics(&mut world, MetricKind::Completed),
        QueueMetrics::default()
    );
    assert_eq!(world.totals().completed, 2);
}

#[test]
fn mg_6_an_obliterated_queue_starts_from_zero_also_while_a_pull_waits() {
    let mut world = World::new();
    complete(&mut world, "q", false);
    fail_for_good(&mut world, "q");
    world.wait(awaiting("q", 60_000));
    world.ask(Obliterate { queue: queue("q") });
    assert_eq!(world.queue_totals("q"), Totals::default());
    assert_eq!(world.detail_of("q").summary.journal, 0);
}

#[test]
fn figures_of_forgotten_queues_have_a_bound() {
    let mut world = World::with(Config {
        forgotten_max: 2,
        ..Config::default()
    });
    for on in ["a", "b", "c"] {
        complete(&mut world, on, true);
        world.sleep(10_000);
    }
    let completed = |world: &mut World, on| world.queue_totals(on).completed;
    assert_eq!(completed(&mut world, "a"), 0);
    assert_eq!(completed(&mut world, "b"), 1);
    // One that is used again is forgotten no more.
    world.push("b", named("stays"));
    world.ask(Pause { queue: queue("b") });
    for on in ["d", "e"] {
        complete(&mut world, on, true);
        world.now += 1;
    }
    assert_eq!(completed(&mut world, "c"), 1);
    world.sleep(10_000);
    let all: Vec<u64> = ["b", "c", "d", "e"]
        .into_iter()
        .map(|on| completed(&mut world, on))
        .collect();
    assert_eq!(all, [1, 0, 1, 1]);
    assert_eq!(world.state(&id("stays")), Some(State::Waiting));
    assert_eq!(world.ask(ListQueues), ["b".into()]);
}

#[test]
fn b_35_totals_since_the_start_and_of_a_lifetime_are_told_apart() {
    let mut world = World::new();
    let earlier = |completed| Totals {
        pushed: completed + 1,
        pulled: completed + 1,
        completed,
        failed: 1,
    };
    world.act(|engine, _| engine.carry_over(earlier(40), &[("q".into(), earlier(7))]));
    complete(&mut world, "q", true);
    let totals = world.ask(GetStats).totals;
    assert_eq!(
        (totals.since_start.completed, totals.lifetime.completed),
        (1, 41)
    );
    assert_eq!((totals.since_start.failed, totals.lifetime.failed), (0, 1));
    let totals = world.detail_of("q").summary.totals;
    assert_eq!(
        (totals.since_start.completed, totals.lifetime.completed),
        (1, 8)
    );
    let kept = metrics(&mut world, MetricKind::Completed);
    assert_eq!((kept.count, kept.data), (8, vec![1]));
}

#[test]
fn bg_1_every_default_of_the_contract_is_ours_or_has_no_counterpart() {
    let config = Config::default();
    assert_eq!(config.completed_max, 50_000);
    assert_eq!(config.results_max, 10_000);
    assert_eq!(config.logged_jobs_max, 10_000);
    assert_eq!(config.journal_max, 10_000);
    assert_eq!(config.metric_minutes, 20_160);
    assert_eq!(config.stall_check, 5_000);
    assert_eq!(config.queue_idle, 10_000, "the cleanup drops idle names");
    // maxPrometheusQueues is the setting METRICS_MAX_QUEUES, whose default is tested there. No counterpart have
    // maxCustomIds (B-5: ids of unfinished jobs are never forgotten), maxWaitingDeps (B-6), jobTimeoutCheckMs,
    // dependencyCheckMs and dlqMaintenanceMs (what is timed acts at its deadline).
}

#[test]
fn bg_2_a_queue_with_only_completed_jobs_stays_listed() {
    let mut world = World::new();
    complete(&mut world, "q", false);
    world.sleep(100_000);
    assert_eq!(world.ask(ListQueues), ["q".into()]);
}

#[test]
fn b_24_jobs_of_one_moment_go_in_order_of_admission_whatever_their_ids() {
    let mut world = World::new();
    world.push_many("q", vec![named("z"), named("m"), named("a")]);
    assert_eq!(world.pull_all("q"), ["z", "m", "a"]);
}

#[test]
fn queues_at_a_glance_are_not_adjusted_for_a_pause() {
    let mut world = World::new();
    world.push("b", job());
    world.push("b", prioritized("p", 1.0));
    world.push("a", job());
    world.pull("a").expect("ready");
    world.ask(Pause { queue: queue("b") });
    let summaries = world.ask(ListQueueSummaries);
    let names: Vec<&str> = summaries.iter().map(|queue| &*queue.name).collect();
    assert_eq!(names, ["b", "a"]);
    let [b, a] = &summaries[..] else {
        panic!("two queues")
    };
    assert!(b.paused && !a.paused);
    assert_eq!(
        (b.jobs.waiting, b.jobs.prioritized, b.jobs.paused),
        (1, 1, 0)
    );
    assert_eq!(a.jobs.active, 1);
    assert_eq!(a.totals.since_start.pulled, 1);
    assert_eq!((b.journal, a.journal), (3, 2));
}

#[test]
fn the_page_of_a_queue_is_of_one_moment() {
    let mut world = World::new();
    let dead: Vec<JobId> = (0..12).map(|_| fail_for_good(&mut world, "q")).collect();
    world.push("q", job());
    world.pull("q").expect("ready");
    for name in ["a", "b", "c"] {
        world.push("q", named(name));
    }
    world.push("q", delayed(500));
    world.push("q", prioritized("p", 2.0));
    let page = *world.ask(GetQueueDetail {
        queue: queue("q"),
        previews: Some(2),
    });
    assert_eq!(page.at, world.now);
    assert_eq!(page.priorities, [(2.0, 1), (0.0, 4)]);
    assert_eq!((page.counts.waiting, page.counts.failed), (3, 12));
    let shown: Vec<&JobId> = page
        .dead_letters
        .iter()
        .map(|letter| &letter.job.id)
        .collect();
    assert_eq!(shown, dead[..10].iter().collect::<Vec<_>>());
    let jobs = page.jobs.expect("asked for");
    let ids: Vec<String> = jobs.waiting.iter().map(|job| job.id.to_string()).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(
        (jobs.active.len(), jobs.delayed.len(), jobs.paused.len()),
        (1, 1, 0)
    );
    world.ask(Pause { queue: queue("q") });
    let page = *world.ask(GetQueueDetail {
        queue: queue("q"),
        previews: Some(10),
    });
    assert_eq!((page.counts.waiting, page.counts.paused), (0, 4));
    assert_eq!(page.summary.jobs.waiting, 3);
    let jobs = page.jobs.expect("asked for");
    assert_eq!((jobs.waiting.len(), jobs.paused.len()), (0, 4));
    let unknown = world.detail_of("unknown");
    assert_eq!(unknown.summary.jobs, Counts::default());
    assert_eq!((&*unknown.summary.name, unknown.jobs), ("unknown", None));
}

#[test]
fn the_page_of_a_queue_shows_at_most_fifty_jobs() {
    let previews = |include, limit| GetQueueDetail::asked(queue("q"), include, limit).previews;
    assert_eq!(previews(false, Number::Value(3.0)), None);
    assert_eq!(previews(true, Number::Absent), Some(10));
    assert_eq!(previews(true, Number::Value(3.9)), Some(3));
    assert_eq!(previews(true, Number::Value(51.0)), Some(50));
    assert_eq!(previews(true, Number::Value(-1.0)), Some(0));
    assert_eq!(previews(true, Number::Value(f64::NAN)), Some(0));
}

#[test]
fn health_tells_how_long_jobs_wait_and_who_is_silent() {
    let mut world = World::new();
    let health = |world: &mut World| world.ask(GetQueueHealth { queue: queue("q") });
    assert_eq!(health(&mut world), QueueHealth::default());
    world.push("q", job());
    world.sleep(1_000);
    world.pull("q").expect("ready");
    world.push("q", prioritized("p", 3.0));
    world.sleep(500);
    world.push("q", job());
    world.push("q", delayed(70_000));
    world.sleep(30_000);
    let expected = QueueHealth {
        exists: true,
        oldest_waiting: Some(30_500),
        oldest_active: Some(30_500),
        // Silent for longer than 30 s, and not yet given up.
        silent: 1,
        next_run: Some(world.now + 40_000),
    };
    assert_eq!(health(&mut world), expected);
}

#[test]
fn health_looks_at_a_bounded_number_of_jobs() {
    let mut world = World::new();
    world.push_many("q", (0..HEALTH_JOBS_MAX).map(|_| delayed(70_000)).collect());
    let first = world.now + 70_000;
    world.push("q", delayed(30_000));
    let health = world.ask(GetQueueHealth { queue: queue("q") });
    // One that is due earlier is not among them.
    assert_eq!(health.next_run, Some(first));
}

#[test]
fn the_overview_holds_everything_at_once() {
    let mut world = World::new();
    world.push("q", job());
    world.ask(RegisterWorker {
        worker: WorkerRegistration {
            id: Some("w".into()),
            name: "worker".into(),
            queues: vec!["q".into()],
            concurrency: Some(3.0),
            hostname: None,
            pid: None,
            started_at: None,
        },
    });
    let overview = *world.ask(GetOverview::ALL);
    assert_eq!(overview.at, world.now);
    assert_eq!(overview.stats.jobs.waiting, 1);
    assert_eq!(overview.memory, *world.ask(GetMemoryStats));
    assert_eq!(overview.queues, world.ask(ListQueueSummaries));
    assert_eq!(
        (overview.workers.len(), overview.worker_stats.active),
        (1, 1)
    );
    // Only as much is listed as is asked for; the figures are the same.
    world.push("r", job());
    let brief = |queues| GetOverview {
        registered: false,
        queues,
    };
    for (wanted, listed, omitted) in [(0, 0, 2), (1, 1, 1), (2, 2, 0), (3, 2, 0)] {
        let shown = *world.ask(brief(wanted));
        assert!(shown.workers.is_empty() && shown.worker_stats == overview.worker_stats);
        let all = world.ask(ListQueueSummaries);
        assert_eq!(shown.queues, all[..listed]);
        assert_eq!(shown.omitted_queues, omitted);
    }
}

#[test]
fn compaction_changes_nothing_that_can_be_read() {
    let mut world = World::new();
    let ids = world.push_many("q", vec![keyed(job(), "k"), job(), delayed(50), job()]);
    world.push_many("q", (0..2_000).map(|_| job()).collect());
    while let Some(delivery) = world.pull("q") {
        world.ask(Ack {
            id: delivery.job.id,
            token: TokenGiven::None,
            result: Some(payload(1)),
            remove_on_complete: true,
        });
    }
    world.ask(Cancel { id: ids[2].clone() });
    let before = world.dump(&["q"], &ids);
    let sizes = world.ask(GetMemoryStats);
    world.ask(CompactMemory);
    assert_eq!(world.dump(&["q"], &ids), before);
    assert_eq!(world.ask(GetMemoryStats), sizes);
    let added = world.push_many("q", vec![job(); 3]);
    assert_eq!(world.counts("q").waiting, sizes.queued_total + 3);
    assert!(world.state(&added[0]).is_some());
    world.ask(RemoveDedupKey {
        queue: queue("q"),
        key: "k".into(),
    });
}

#[test]
fn compaction_takes_a_rest() {
    let mut world = World::new();
    let mut compacts = |ms| {
        world.sleep(ms);
        let mut did = None;
        world.act(|engine, turn| did = Some(engine.compact(turn)));
        did
    };
    let period = COMPACTION_PERIOD;
    let did = [0, 1, period - 2, 1, period - 1].map(&mut compacts);
    assert_eq!(did, [true, false, false, true, false].map(Some));
}

#[test]
fn b_2_age_of_the_oldest_blocked_job_is_shown() {
    let mut world = World::new();
    let after = |text: &str, other: &str| NewJob {
        links: Some(Box::new(JobLinks {
            depends_on: vec![id(other)],
            ..JobLinks::default()
        })),
        ..named(text)
    };
    world.push("q", named("first"));
    assert_eq!(world.ask(GetStats).oldest_waiting_children, None);
    world.push("r", after("second", "first"));
    world.sleep(100);
    world.push("q", after("third", "first"));
    world.sleep(50);
    assert_eq!(world.ask(GetStats).oldest_waiting_children, Some(150));
    world.cancel(&id("second"));
    assert_eq!(world.ask(GetStats).oldest_waiting_children, Some(50));
}

/// A process goes on counting where it was when its engine is loaded again, without what was lost.
#[test]
fn an_engine_that_is_loaded_again_counts_on() {
    let (config, mut world) = (Config::default(), World::new());
    world.act(|engine, _| engine.record());
    world.push("q", job());
    let mut image = Image::default();
    world.act(|engine, _| image.apply(engine.take_changes()));
    let start = 1_800_000_100_000;
    let mut effects = Effects::default();
    let loaded = image.load(config.clone(), [2; 32], start, &mut effects);
    let mut world = World::of(loaded.unwrap(), start);
    world.push("q", job());
    world.push("q", job());
    world.act(|engine, _| image.apply(engine.take_changes()));
    world.sleep(5_000);
    world.push("q", job());
    let again = image.load(config, [3; 32], start + 5_000, &mut effects);
    let again = again.unwrap();
    world.act(|engine, _| {
        let mut lost = std::mem::replace(engine, again);
        engine.inherit(&mut lost);
    });
    let stats = world.ask(GetStats);
    let (now, ever) = (stats.totals.since_start, stats.totals.lifetime);
    assert_eq!((now.pushed, ever.pushed, stats.uptime), (2, 3, 5_000));
    world.push("q", job());
    let stats = world.ask(GetStats);
    let (now, ever) = (stats.totals.since_start, stats.totals.lifetime);
    assert_eq!((now.pushed, ever.pushed), (3, 4));
    world.check();
}
