//! The text for Prometheus: read by a small parser that is as strict as the format, and served over HTTP.

use std::collections::{BTreeMap, BTreeSet};

use bunqueue_mcp::command::{GetOverview, Pause};
use bunqueue_mcp::engine::{NewJob, Timed};
use bunqueue_mcp::metrics::{Process, render};

use crate::mcp::http::exchange;
use crate::process::Serve;
use crate::world::{World, job, queue};

/// Names and types of section 22 of the engine contract; the size of the SQLite file is for brokers with one.
const FAMILIES: [(&str, &str); 57] = [
    ("bunqueue_jobs_waiting", "gauge"),
    ("bunqueue_jobs_prioritized", "gauge"),
    ("bunqueue_jobs_delayed", "gauge"),
    ("bunqueue_jobs_active", "gauge"),
    ("bunqueue_jobs_dlq", "gauge"),
    ("bunqueue_jobs_completed", "gauge"),
    ("bunqueue_jobs_waiting_children", "gauge"),
    ("bunqueue_oldest_waiting_children_seconds", "gauge"),
    ("bunqueue_jobs_pushed_total", "counter"),
    ("bunqueue_jobs_pulled_total", "counter"),
    ("bunqueue_jobs_completed_total", "counter"),
    ("bunqueue_jobs_failed_total", "counter"),
    ("bunqueue_uptime_seconds", "gauge"),
    ("bunqueue_cron_jobs_registered", "gauge"),
    ("bunqueue_workers_registered", "gauge"),
    ("bunqueue_workers_active", "gauge"),
    ("bunqueue_worker_active_jobs", "gauge"),
    ("bunqueue_worker_concurrency_slots", "gauge"),
    ("bunqueue_workers_processed_total", "counter"),
    ("bunqueue_workers_failed_total", "counter"),
    ("bunqueue_webhooks_registered", "gauge"),
    ("bunqueue_webhooks_enabled", "gauge"),
    ("bunqueue_storage_degraded", "gauge"),
    ("bunqueue_storage_disk_full", "gauge"),
    ("bunqueue_process_heap_used_bytes", "gauge"),
    ("bunqueue_process_heap_total_bytes", "gauge"),
    ("bunqueue_process_resident_memory_bytes", "gauge"),
    ("bunqueue_build_info", "gauge"),
    ("process_cpu_seconds_total", "counter"),
    ("process_start_time_seconds", "gauge"),
    ("process_resident_memory_bytes", "gauge"),
    ("process_heap_bytes", "gauge"),
    ("bunqueue_connections", "gauge"),
    ("bunqueue_queue_jobs_waiting", "gauge"),
    ("bunqueue_queue_jobs_prioritized", "gauge"),
    ("bunqueue_queue_jobs_delayed", "gauge"),
    ("bunqueue_queue_jobs_active", "gauge"),
    ("bunqueue_queue_jobs_dlq", "gauge"),
    ("bunqueue_queue_metrics_exported", "gauge"),
    ("bunqueue_queue_metrics_omitted", "gauge"),
    ("bunqueue_backup_enabled", "gauge"),
    ("bunqueue_backup_scheduler_running", "gauge"),
    ("bunqueue_backup_in_progress", "gauge"),
    ("bunqueue_backup_interval_seconds", "gauge"),
    ("bunqueue_backup_retention", "gauge"),
    ("bunqueue_backup_consecutive_failures", "gauge"),
    ("bunqueue_backup_last_success_timestamp_seconds", "gauge"),
    ("bunqueue_backup_last_failure_timestamp_seconds", "gauge"),
    ("bunqueue_backup_last_duration_seconds", "gauge"),
    ("bunqueue_backup_last_size_bytes", "gauge"),
    ("bunqueue_backup_attempts_total", "counter"),
    ("bunqueue_backup_successes_total", "counter"),
    ("bunqueue_backup_failures_total", "counter"),
    ("bunqueue_backup_overlap_rejections_total", "counter"),
    ("bunqueue_push_duration_seconds", "histogram"),
    ("bunqueue_pull_duration_seconds", "histogram"),
    ("bunqueue_ack_duration_seconds", "histogram"),
];

/// Labels of a sample, in the order of the text.
type Labels = Vec<(String, String)>;

#[derive(Debug, Default)]
struct Scrape {
    families: BTreeMap<String, String>,
    /// Name with its suffix, labels, value.
    samples: Vec<(String, Labels, f64)>,
}

impl Scrape {
    /// Reads a text; every sample must follow the head of its family.
    fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line ends");
        let mut scrape = Self::default();
        let mut family = String::new();
        let mut helps = BTreeSet::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').expect("a help text");
                assert!(!words.is_empty(), "{name} has no help");
                assert!(helps.insert(words), "{name} has the help of another");
                let kind = lines
                    .next()
                    .and_then(|line| line.strip_prefix("# TYPE "))
                    .and_then(|line| line.strip_prefix(name))
                    .unwrap_or_else(|| panic!("the type of {name} follows its help"));
                family = name.to_owned();
                let before = scrape
                    .families
                    .insert(family.clone(), kind.trim().to_owned());
                assert_eq!(before, None, "{name} comes twice");
                continue;
            }
            let (name, labels, value) = sample(line);
            let plain = ["_bucket", "_sum", "_count"]
                .iter()
                .filter(|_| scrape.families[&family] == "histogram")
                .find_map(|suffix| name.strip_suffix(suffix))
                .unwrap_or(&name);
            assert_eq!(plain, family, "a sample outside its family: {line}");
            scrape.samples.push((name, labels, value));
        }
        scrape
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let same = |own: &Labels| {
            let own = own
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()));
            own.eq(labels.iter().copied())
        };
        let found: Vec<f64> = self
            .samples
            .iter()
            .filter(|(own, own_labels, _)| own == name && same(own_labels))
            .map(|(_, _, value)| *value)
            .collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}");
        found[0]
    }

    fn labelled(&self, name: &str) -> Vec<String> {
        let of = self.samples.iter().filter(|(own, ..)| own == name);
        of.map(|(_, labels, _)| labels[0].1.clone()).collect()
    }
}

/// `name{label="value",…} number`
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect("a name");
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (key, after) = rest.split_once("=\"").expect("a label");
            let (value, after) = quoted(after);
            labels.push((key.to_owned(), value));
            rest = after;
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').expect("the end of the labels");
    }
    let value = rest.strip_prefix(' ').expect("a blank before the value");
    let value = value
        .parse()
        .unwrap_or_else(|_| panic!("no number: {line}"));
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    assert!(name.chars().all(letters), "{name}");
    (name.to_owned(), labels, value)
}

/// The value of a label up to its closing quote, and what follows.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, letter)) = chars.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                other => panic!("no escape: {other:?}"),
            },
            letter => value.push(letter),
        }
    }
    panic!("no closing quote in {text}")
}

fn scrape(world: &mut World, labelled: usize) -> Scrape {
    let process = Process {
        resident: Some(2),
        heap: Some(1),
        cpu_seconds: Some(0.25),
    };
    let asked = GetOverview {
        registered: false,
        queues: labelled,
    };
    Scrape::read(&render(&world.ask(asked), &process, 3))
}

#[test]
fn sx_5_every_family_appears_with_its_type() {
    let scrape = scrape(&mut World::new(), 100);
    let expected: BTreeMap<String, String> = FAMILIES
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned()))
        .collect();
    assert_eq!(scrape.families, expected);
    assert_eq!(scrape.value("process_cpu_seconds_total", &[]), 0.25);
    assert_eq!(scrape.value("process_heap_bytes", &[]), 1.0);
    let tcp = [("transport", "tcp")];
    assert_eq!(scrape.value("bunqueue_connections", &tcp), 3.0);
    let version = [
        ("implementation", "bunqueue-mcp"),
        ("version", env!("CARGO_PKG_VERSION")),
    ];
    assert_eq!(scrape.value("bunqueue_build_info", &version), 1.0);
}

#[test]
fn sx_5_an_active_job_shows_at_its_queue() {
    let mut world = World::new();
    world.push("q", job());
    world.pull("q").expect("ready");
    world.push(
        "q",
        NewJob {
            priority: 2.0,
            ..job()
        },
    );
    world.ask(Pause { queue: queue("q") });
    world.sleep(2_500);
    let scrape = scrape(&mut world, 100);
    let q = [("queue", "q")];
    assert_eq!(scrape.value("bunqueue_queue_jobs_active", &q), 1.0);
    // A pause does not show here.
    assert_eq!(scrape.value("bunqueue_queue_jobs_prioritized", &q), 1.0);
    assert_eq!(scrape.value("bunqueue_jobs_prioritized", &[]), 1.0);
    assert_eq!(scrape.value("bunqueue_jobs_pushed_total", &[]), 2.0);
    assert_eq!(scrape.value("bunqueue_uptime_seconds", &[]), 2.5);
    let started = world.now as f64 / 1_000.0 - 2.5;
    assert_eq!(scrape.value("process_start_time_seconds", &[]), started);
}

#[test]
fn names_of_queues_are_escaped_and_only_some_get_labels() {
    let mut world = World::new();
    let names = ["first", "a\"b\\c\nd", "third"];
    for name in names {
        world.push(name, job());
    }
    let all = scrape(&mut world, 3);
    assert_eq!(all.labelled("bunqueue_queue_jobs_waiting"), names);
    assert_eq!(all.value("bunqueue_queue_metrics_omitted", &[]), 0.0);
    let two = scrape(&mut world, 2);
    assert_eq!(two.labelled("bunqueue_queue_jobs_dlq"), names[..2]);
    assert_eq!(two.value("bunqueue_queue_metrics_exported", &[]), 2.0);
    assert_eq!(two.value("bunqueue_queue_metrics_omitted", &[]), 1.0);
    let none = scrape(&mut world, 0);
    assert!(none.labelled("bunqueue_queue_jobs_waiting").is_empty());
    assert_eq!(none.value("bunqueue_queue_metrics_omitted", &[]), 3.0);
}

#[test]
fn histograms_are_cumulative_and_in_seconds() {
    let mut world = World::new();
    world.act(|engine, _| {
        engine.observe(Timed::Ack, 0.2, 3);
        engine.observe(Timed::Ack, 60_000.0, 1);
    });
    let scrape = scrape(&mut world, 0);
    let name = "bunqueue_ack_duration_seconds_bucket";
    let bounds = scrape.labelled(name);
    assert_eq!(bounds.first().map(String::as_str), Some("0.0001"));
    assert_eq!(bounds[bounds.len() - 2..], ["10", "+Inf"]);
    assert_eq!(scrape.value(name, &[("le", "0.0001")]), 0.0);
    assert_eq!(scrape.value(name, &[("le", "0.0005")]), 3.0);
    assert_eq!(scrape.value(name, &[("le", "10")]), 3.0);
    assert_eq!(scrape.value(name, &[("le", "+Inf")]), 4.0);
    let sum = scrape.value("bunqueue_ack_duration_seconds_sum", &[]);
    assert!((sum - 60.000_6).abs() < 1e-9);
    assert_eq!(
        scrape.value("bunqueue_ack_duration_seconds_count", &[]),
        4.0
    );
}

#[test]
fn what_the_system_does_not_tell_is_absent() {
    let overview = World::new().ask(GetOverview::ALL);
    let scrape = Scrape::read(&render(&overview, &Process::default(), 0));
    assert!(!scrape.families.contains_key("process_cpu_seconds_total"));
    assert!(
        !scrape
            .families
            .contains_key("process_resident_memory_bytes")
    );
    assert!(scrape.families.contains_key("process_start_time_seconds"));
}

#[test]
fn the_page_is_served_to_everybody_by_default() {
    let server = Serve::start();
    let answer = exchange(server.http, "GET", "/prometheus", &[], b"");
    assert_eq!(answer.status, 200);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(kind));
    let scrape = Scrape::read(std::str::from_utf8(&answer.body).expect("text"));
    assert_eq!(scrape.value("bunqueue_jobs_waiting", &[]), 0.0);
    let head = exchange(server.http, "HEAD", "/prometheus", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let post = exchange(server.http, "POST", "/prometheus", &[], b"");
    assert_eq!((post.status, post.header("allow")), (405, Some("GET,HEAD")));
}

#[test]
fn the_page_asks_for_a_token_when_told_to() {
    let env = [("METRICS_AUTH", "true"), ("AUTH_TOKENS", "right")];
    let server = Serve::start_with(&env);
    let get = |headers: &[(&str, &str)]| {
        let answer = exchange(server.http, "GET", "/prometheus", headers, b"");
        (answer.status, answer.header("www-authenticate").is_some())
    };
    assert_eq!(get(&[]), (401, true));
    assert_eq!(get(&[("Authorization", "Bearer wrong")]), (401, true));
    assert_eq!(get(&[("Authorization", "Bearer right")]), (200, false));
    let health = exchange(server.http, "GET", "/health", &[], b"");
    assert_eq!(health.status, 200);
}
