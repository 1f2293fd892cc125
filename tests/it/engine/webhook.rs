//! Section 20: which webhooks are called for what, and what is kept of them. What goes over the network is tested in
//! `src/webhooks/`.

use std::sync::Arc;

use bunqueue_mcp::command::webhook::WebhookDraft;
use bunqueue_mcp::command::{
    Ack, AddWebhook, Discard, Fail, IsWebhookEnabled, ListWebhooks, Progress, RemoveWebhook,
    ReportWebhook, SetWebhookEnabled,
};
use bunqueue_mcp::engine::{
    CALLS_DUE_MAX, Change, Config, EventKind, FailReport, NewJob, TokenGiven, WEBHOOKS_MAX,
    WebhookCall, WebhookEvent, WebhookSecret, WebhookStats, WebhookView,
};

use crate::world::{World, job, keyed, payload, with};

const URL: &str = "https://hooks.example.com/jobs?key=1";

fn draft(events: &[&str], queue: Option<&str>) -> WebhookDraft {
    WebhookDraft {
        url: URL.into(),
        events: events.iter().map(|name| Arc::from(*name)).collect(),
        queue: queue.map(Arc::from),
        secret: None,
    }
}

fn adding(events: &[&str], queue: Option<&str>) -> AddWebhook {
    let webhook = draft(events, queue);
    AddWebhook { webhook }
}

fn all() -> [&'static str; 5] {
    WebhookEvent::ALL.map(WebhookEvent::name)
}

/// Each call as event and job.
fn words(calls: &[WebhookCall]) -> Vec<String> {
    let word = |call: &WebhookCall| {
        let job = call.event.job.as_ref().expect("calls are about jobs");
        format!("{} {job}", call.name.name())
    };
    calls.iter().map(word).collect()
}

fn called(world: &mut World) -> Vec<&'static str> {
    let calls = world.calls();
    calls.iter().map(|call| call.name.name()).collect()
}

fn only(world: &mut World) -> WebhookView {
    world.ask(ListWebhooks).list.remove(0)
}

#[test]
fn a_webhook_is_listed_as_it_was_added() {
    let mut world = World::new();
    let empty = world.ask(ListWebhooks);
    assert_eq!(
        (empty.list.len(), empty.stats),
        (0, WebhookStats::default())
    );
    let webhook = WebhookDraft {
        secret: Some(WebhookSecret::new("s3cret")),
        ..draft(&["job.failed", "job.completed", "job.failed"], Some("q"))
    };
    let added = *world.ask(AddWebhook { webhook });
    let expected = WebhookView {
        id: Arc::clone(&added.id),
        url: URL.into(),
        events: vec![WebhookEvent::Failed, WebhookEvent::Completed],
        queue: Some("q".into()),
        created_at: world.now,
        last_triggered: None,
        success_count: 0,
        failure_count: 0,
        enabled: true,
    };
    assert_eq!(added, expected);
    let silent = *world.ask(adding(&[], None));
    assert_ne!(silent.id, added.id);
    let listed = world.ask(ListWebhooks);
    assert_eq!(listed.list, [added, silent]);
    let (total, enabled) = (2, 2);
    assert_eq!(listed.stats, WebhookStats { total, enabled });
    assert!(!world.whole_state().contains("s3cret"));
}

#[test]
fn what_happens_to_a_job_is_called_by_its_webhook_names() {
    let mut world = World::new();
    world.ask(adding(&all(), None));
    let id = world.push(
        "q",
        NewJob {
            data: Some(payload(1)),
            ..job()
        },
    );
    let delivery = world.pull("q").unwrap();
    let (progress, message) = (40.0, Some("half".into()));
    world.ask(Progress {
        id: id.clone(),
        progress,
        message,
    });
    world.ask(Ack {
        id: id.clone(),
        token: TokenGiven::None,
        result: Some(payload(2)),
        remove_on_complete: true,
    });
    let calls = world.calls();
    let expected = ["job.pushed", "job.started", "job.progress", "job.completed"];
    assert_eq!(words(&calls), expected.map(|name| format!("{name} {id}")));
    // A call carries the event that subscribers see.
    let events: Vec<_> = calls.iter().map(|call| (*call.event).clone()).collect();
    assert_eq!(events, world.events());
    let result = Some(payload(2));
    assert_eq!(calls[3].event.kind, EventKind::Completed { result });
    assert_eq!(delivery.job.id, id);
    let target = &calls[0].target;
    assert_eq!((&*target.url, &target.secret), (URL, &None));
}

#[test]
fn wh_4_every_failed_attempt_is_told_and_whether_it_was_the_last() {
    let mut world = World::new();
    world.ask(adding(&["job.failed"], None));
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 2,
            data: Some(payload(7)),
            ..job()
        },
    );
    for terminal in [false, true] {
        world.sleep(60_000);
        let delivery = world.pull("q").unwrap();
        world.fail(&delivery, "boom");
        let calls = world.calls();
        assert_eq!(words(&calls), [format!("job.failed {id}")]);
        let (error, data) = (Some("boom".into()), Some(payload(7)));
        let failed = EventKind::Failed {
            error,
            data,
            terminal,
        };
        assert_eq!(calls[0].event.kind, failed);
    }
}

#[test]
fn b_28_terminal_failures_of_every_cause_are_told_once() {
    let mut world = World::with(Config {
        stalls_max: 1,
        ..Config::default()
    });
    world.ask(adding(&["job.failed"], None));
    let terminal = |world: &mut World| -> Vec<bool> {
        let calls = world.calls();
        let kinds = calls.iter().map(|call| &call.event.kind);
        kinds
            .map(|kind| matches!(kind, EventKind::Failed { terminal: true, .. }))
            .collect()
    };
    // Too old to start.
    world.push("q", with(job(), |options| options.ttl = Some(20.0)));
    world.sleep(100);
    assert_eq!(terminal(&mut world), [true]);
    // Stalled once too often.
    world.push("q", job());
    world.pull("q").unwrap();
    world.sleep(120_000);
    assert_eq!(terminal(&mut world), [true]);
    // Its lock ran out.
    world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..job()
        },
    );
    world.pull_lock("q", 1_000.0).unwrap();
    world.sleep(2_000);
    assert_eq!(terminal(&mut world), [true]);
    // Beyond its timeout, and no attempt left.
    let slow = with(job(), |options| options.timeout = Some(500.0));
    world.push(
        "q",
        NewJob {
            max_attempts: 1,
            ..slow
        },
    );
    world.pull("q").unwrap();
    world.sleep(1_000);
    assert_eq!(terminal(&mut world), [true]);
    // Given up by hand, and by its worker.
    let id = world.push("q", job());
    let token = TokenGiven::None;
    assert_eq!(world.ask(Discard { id, token }), Change::Applied);
    assert_eq!(terminal(&mut world), [true]);
    let id = world.push("q", job());
    world.pull("q").unwrap();
    let report = FailReport {
        unrecoverable: true,
        ..FailReport::default()
    };
    world.ask(Fail { id, token, report });
    assert_eq!(terminal(&mut world), [true]);
}

#[test]
fn only_events_and_queues_that_were_asked_for_are_told() {
    let mut world = World::new();
    world.ask(adding(&["job.started"], Some("other")));
    world.ask(adding(&["job.completed"], None));
    world.ask(adding(&[], None));
    world.push("q", job());
    let delivery = world.pull("q").unwrap();
    assert_eq!(called(&mut world), [""; 0]);
    world.ack(&delivery);
    assert_eq!(called(&mut world), ["job.completed"]);
    world.push("other", job());
    world.pull("other").unwrap();
    assert_eq!(called(&mut world), ["job.started"]);
}

#[test]
fn what_is_no_event_of_webhooks_is_not_told() {
    let mut world = World::new();
    world.ask(adding(&all(), None));
    let id = world.push("q", keyed(job(), "k"));
    world.push("q", keyed(job(), "k"));
    assert_eq!(called(&mut world), ["job.pushed"], "a duplicate is not new");
    world.cancel(&id);
    assert_eq!(called(&mut world), [""; 0], "a removal is no failure");
}

#[test]
fn webhooks_are_called_while_nobody_listens() {
    let mut world = World::new();
    world.nobody_listens();
    world.push("q", job());
    assert_eq!(called(&mut world), [""; 0]);
    let hook = world.ask(adding(&["job.pushed"], None));
    world.push("q", job());
    assert_eq!(called(&mut world), ["job.pushed"]);
    world.ask(RemoveWebhook { id: hook.id });
    world.push("q", job());
    assert_eq!(called(&mut world), [""; 0]);
    assert_eq!(world.events(), []);
}

#[test]
fn each_webhook_that_wants_an_event_is_called_and_they_share_it() {
    let mut world = World::new();
    let ids: Vec<_> = (0..3)
        .map(|_| world.ask(adding(&["job.pushed"], Some("q"))).id)
        .collect();
    world.push("q", job());
    let calls = world.calls();
    let targets: Vec<_> = calls
        .iter()
        .map(|call| Arc::clone(&call.target.id))
        .collect();
    assert_eq!(targets, ids);
    assert!(
        calls
            .iter()
            .all(|call| Arc::ptr_eq(&call.event, &calls[0].event))
    );
}

#[test]
fn a_webhook_that_is_switched_off_is_not_called() {
    let mut world = World::new();
    let id = world.ask(adding(&["job.pushed"], None)).id;
    let switch = |enabled| SetWebhookEnabled {
        id: Arc::clone(&id),
        enabled,
    };
    assert!(world.ask(switch(false)));
    world.push("q", job());
    assert_eq!(called(&mut world), [""; 0]);
    assert_eq!(
        world.ask(ListWebhooks).stats,
        WebhookStats {
            total: 1,
            enabled: 0
        }
    );
    assert!(!world.ask(IsWebhookEnabled {
        id: Arc::clone(&id)
    }));
    assert!(world.ask(switch(true)));
    assert!(world.ask(IsWebhookEnabled {
        id: Arc::clone(&id)
    }));
    world.push("q", job());
    assert_eq!(called(&mut world), ["job.pushed"]);
}

#[test]
fn what_became_of_calls_is_counted() {
    let mut world = World::new();
    let id = world.ask(adding(&["job.pushed"], None)).id;
    let created_at = world.now;
    for (delivered, counts) in [(true, (1, 0)), (false, (1, 1)), (false, (1, 2))] {
        world.sleep(1_000);
        assert!(world.ask(ReportWebhook {
            id: Arc::clone(&id),
            delivered
        }));
        let view = only(&mut world);
        assert_eq!((view.success_count, view.failure_count), counts);
        assert_eq!(view.last_triggered, Some(world.now));
    }
    assert_eq!(only(&mut world).created_at, created_at);
    assert_eq!(called(&mut world), [""; 0], "a report is no event");
}

#[test]
fn unknown_webhooks_are_told_so() {
    let mut world = World::new();
    let id = world.ask(adding(&["job.pushed"], None)).id;
    assert!(world.ask(RemoveWebhook {
        id: Arc::clone(&id)
    }));
    let before = world.whole_state();
    for id in [id, "nobody".into()] {
        assert!(!world.ask(RemoveWebhook {
            id: Arc::clone(&id)
        }));
        assert!(!world.ask(SetWebhookEnabled {
            id: Arc::clone(&id),
            enabled: true
        }));
        assert!(!world.ask(IsWebhookEnabled {
            id: Arc::clone(&id)
        }));
        assert!(!world.ask(ReportWebhook {
            id,
            delivered: true
        }));
    }
    assert_eq!(before, world.whole_state());
}

#[test]
fn bad_webhooks_are_refused_with_their_text() {
    let mut world = World::new();
    let at = |url: &str| AddWebhook {
        webhook: WebhookDraft {
            url: url.into(),
            ..draft(&["job.pushed"], None)
        },
    };
    let cases = [
        (at(""), "Webhook URL is required"),
        (at("nope"), "Invalid URL format"),
        (
            at("ftp://a.com"),
            "Webhook URL must use http or https protocol",
        ),
        (
            at("http://2130706433/"),
            "Webhook URL cannot point to localhost",
        ),
        (
            at("http://[fd00::1]"),
            "Webhook URL cannot point to private (ULA) IP",
        ),
        (
            adding(&["job.stalled", "job.pushed", "x"], None),
            "Invalid webhook event(s): job.stalled, x. Valid: job.pushed, job.started, job.completed, job.failed, job.progress",
        ),
        (
            adding(&[], Some(&"q".repeat(257))),
            "Queue name too long (max 256 characters)",
        ),
    ];
    for (command, text) in cases {
        assert_eq!(world.refusal(command), text);
    }
}

#[test]
fn private_addresses_are_taken_when_the_operator_allows_them() {
    let mut world = World::with(Config {
        private_webhooks: true,
        ..Config::default()
    });
    let webhook = WebhookDraft {
        url: "http://127.0.0.1:1/".into(),
        ..draft(&[], None)
    };
    assert_eq!(
        &*world.ask(AddWebhook { webhook }).url,
        "http://127.0.0.1:1/"
    );
}

#[test]
fn webhooks_are_bounded_in_number() {
    let mut world = World::new();
    let added: Vec<_> = (0..WEBHOOKS_MAX)
        .map(|_| world.ask(adding(&[], None)).id)
        .collect();
    assert_eq!(
        world.refusal(adding(&[], None)),
        format!("Too many webhooks (max {WEBHOOKS_MAX})")
    );
    world.ask(RemoveWebhook {
        id: Arc::clone(&added[0]),
    });
    world.ask(adding(&[], None));
}

#[test]
fn calls_that_are_due_at_one_time_are_bounded() {
    const JOBS: usize = 1_100;
    let mut world = World::new();
    for _ in 0..WEBHOOKS_MAX {
        world.ask(adding(&["job.pushed"], None));
    }
    world.push_many("q", vec![job(); JOBS]);
    assert_eq!(world.calls().len(), CALLS_DUE_MAX);
    let list = world.ask(ListWebhooks).list;
    let given_up: u64 = list.iter().map(|view| view.failure_count).sum();
    assert_eq!(given_up as usize, JOBS * WEBHOOKS_MAX - CALLS_DUE_MAX);
}
