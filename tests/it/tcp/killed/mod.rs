//! A broker on a data file is killed in the middle of what it does: whatever it has answered is there at the next start.
//!
//! Several clients ask for everything that changes something, each in queues of its own, of which it knows exactly how they
//! should be ([`ledger`]), and all of them in one queue that they share. `KILLED_SEED=n` plays one seed again; when the
//! process is killed depends on the clock, too, so that it may have to be played more than once.

mod crons;
mod family;
mod jobs;
mod lane;
mod ledger;
mod look;
mod rules;
mod settings;
mod shared;

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::Conn;
use crate::process::Serve;
use lane::Lane;

const CLIENTS: u64 = 3;
/// Kills of one data file.
const KILLS: u64 = 6;

/// Numbers that look random and are the same for the same seed.
pub struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        let mut dice = Self(seed);
        // Seeds that are alike begin alike.
        for _ in 0..4 {
            dice.below(2);
        }
        dice
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn of<T, const N: usize>(&mut self, choice: [T; N]) -> T {
        let at = self.below(N as u64) as usize;
        choice.into_iter().nth(at).expect("one of them")
    }
}

/// Tells the seed of what has failed.
struct Seed(u64);

impl Drop for Seed {
    #[expect(clippy::print_stderr, reason = "shown with the failed test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("KILLED_SEED={} has failed", self.0);
        }
    }
}

fn start(file: &str) -> Serve {
    Serve::start_with(&[("BUNQUEUE_DATA_PATH", file)])
}

/// Everything is as one of the moments that the clients know of.
fn check(serve: &Serve, lanes: &mut [Lane], shared: &mut shared::Whole) {
    let mut conn = Conn::open(serve.tcp);
    for lane in lanes {
        let stored = lane.ledger.stored();
        let seen = look::everything(lane, &mut conn);
        lane.ledger.settle(&seen);
        crons::check(lane, &mut conn, stored);
        look::check_locks(lane, &mut conn);
        shared.add(lane, &mut conn, stored);
    }
    shared.check(&mut conn);
}

/// All clients ask, and after this number of answers, and a moment, the process is killed.
fn work(serve: &mut Serve, lanes: Vec<Lane>, answers: u64, moment: Duration) -> Vec<Lane> {
    let broker = serve.tcp;
    let (heard, hearing) = channel();
    let clients: Vec<_> = lanes
        .into_iter()
        .map(|lane| {
            let heard = heard.clone();
            std::thread::spawn(move || lane.work(broker, heard))
        })
        .collect();
    drop(heard);
    // Fewer when all clients have failed.
    hearing.iter().take(answers as usize).for_each(drop);
    let now = Instant::now();
    while now.elapsed() < moment {
        std::hint::spin_loop();
    }
    serve.process.kill();
    let ended = clients.into_iter().map(std::thread::JoinHandle::join);
    let ended: Vec<_> = ended.collect();
    ended
        .into_iter()
        .map(|lane| lane.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .collect()
}

/// Kills one broker after the other on one file.
fn play(seed: u64, file: &Path) {
    let _seed = Seed(seed);
    let mut dice = Dice::new(seed);
    let file = file.to_str().unwrap();
    let mut shared = shared::Whole::default();
    let mut lanes: Vec<Lane> = (0..CLIENTS)
        .map(|number| Lane::new(&format!("l{number}"), Dice::new(seed * CLIENTS + number)))
        .collect();
    for _ in 0..KILLS {
        let mut serve = start(file);
        check(&serve, &mut lanes, &mut shared);
        let answers = 1 + dice.below(400);
        let moment = Duration::from_micros(dice.below(3_000));
        lanes = work(&mut serve, lanes, answers, moment);
    }
    check(&start(file), &mut lanes, &mut shared);
}

#[test]
fn s_2_what_was_answered_is_there_after_a_kill_and_nothing_is_done_twice() {
    let named = std::env::var("KILLED_SEED").ok();
    let named = named.map(|seed| seed.parse().expect("KILLED_SEED is a number"));
    let slow = std::env::var_os("RUN_SLOW").is_some();
    let seeds = match named {
        Some(seed) => seed..=seed,
        None if slow => 1..=50,
        None => 1..=1,
    };
    for seed in seeds {
        let directory = tempfile::tempdir().unwrap();
        play(seed, &directory.path().join("queue.db"));
    }
}

/// One that has failed for good.
fn push_dead(conn: &mut Conn, id: &str) {
    conn.push("q", &json!({ "jobId": id, "maxAttempts": 1 }));
    let pulled = conn.ok(&json!({ "cmd": "PULL", "queue": "q" }));
    assert_eq!(pulled["job"]["id"], id);
    conn.ok(&json!({ "cmd": "FAIL", "id": id, "error": "no" }));
}

#[test]
fn hard_s6_pe_15_what_was_deleted_stays_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("queue.db");
    let file = file.to_str().unwrap();
    let mut serve = start(file);
    let mut conn = Conn::open(serve.tcp);
    for id in ["a", "b", "c"] {
        push_dead(&mut conn, id);
    }
    conn.push("old", &json!({ "jobId": "gone" }));
    for name in ["every", "other"] {
        conn.ok(&json!({
            "cmd": "Cron", "name": name, "queue": "crons", "repeatEvery": 3_600_000, "data": {},
        }));
    }
    let deletions = [
        json!({ "cmd": "RemoveDlqJob", "queue": "q", "jobId": "b" }),
        json!({ "cmd": "CronDelete", "name": "every" }),
        json!({ "cmd": "Obliterate", "queue": "old" }),
    ];
    for deletion in deletions {
        let mut conn = Conn::open(serve.tcp);
        conn.ok(&deletion);
        serve.process.kill();
        serve = start(file);
    }
    let mut conn = Conn::open(serve.tcp);
    let dead = conn.ok(&json!({ "cmd": "Dlq", "queue": "q" }));
    let dead: Vec<_> = dead["jobs"].as_array().unwrap().iter().collect();
    assert_eq!(
        dead.iter().map(|job| &job["id"]).collect::<Vec<_>>(),
        ["a", "c"]
    );
    assert_eq!(
        ["b", "gone"].map(|id| conn.state(id)),
        ["unknown", "unknown"]
    );
    let crons = conn.ok(&json!({ "cmd": "CronList" }))["crons"].take();
    let names: Vec<_> = crons
        .as_array()
        .unwrap()
        .iter()
        .map(|cron| &cron["name"])
        .collect();
    assert_eq!(names, ["other"]);
    let queues = conn.ok(&json!({ "cmd": "ListQueues" }))["queues"].take();
    assert!(
        !queues.as_array().unwrap().contains(&json!("old")),
        "{queues}"
    );
}

#[test]
fn a_second_program_is_refused_with_the_name_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("queue.db");
    let file = file.to_str().unwrap();
    let first = start(file);
    let arguments = ["serve", "--data-path", file];
    let (code, _, stderr) = crate::process::run(&arguments);
    assert_eq!(code, Some(1));
    let owner = format!("in use by process {}", first.process.pid());
    assert!(stderr.contains(&owner), "{stderr}");
    Conn::open(first.tcp).push("q", &json!({}));
}
