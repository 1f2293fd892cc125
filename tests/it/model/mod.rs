//! The model test: random and exhaustive histories, played to the engine and to a naive reference.
//!
//! A failure prints its seed and the shortest history found that still fails, as commands. `MODEL_SEED=n` replays one
//! seed; `RUN_SLOW=1` runs twenty times as many steps and the longer exhaustive histories.

mod pair;
mod reference;
mod step;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bunqueue_mcp::engine::{
    Backoff, BackoffKind, Config, Dedup, FailReport, JobOptions, Millis, NewJob,
};

use pair::{Check, Pair};
use step::{Clock, Dice, Draft, Mood, Proof, Step, Target, What};

const START: Millis = 1_000_000;
const STEPS_PER_SEED: usize = 6_000;
/// A history that is still long after this is printed as it is; whoever asks for one seed has more patience.
const SHRINK_TIME: Duration = Duration::from_secs(30);
const SHRINK_TIME_OF_ONE: Duration = Duration::from_secs(600);

fn slow() -> bool {
    std::env::var_os("RUN_SLOW").is_some()
}

fn named_seed() -> Option<u64> {
    let seed = std::env::var("MODEL_SEED").ok()?;
    Some(seed.parse().expect("MODEL_SEED is a number"))
}

/// Small bounds, so that short histories reach them; in every other history completed jobs get too old, and in every third
/// one most of their bodies are in the store alone.
fn config(seed: u64) -> Config {
    let is_cold = seed.is_multiple_of(3);
    Config {
        completed_in_memory_max: if is_cold { 3 } else { usize::MAX },
        completed_retention: seed.is_multiple_of(2).then_some(20_000),
        completed_max: 20,
        results_max: if is_cold { usize::MAX } else { 6 },
        logged_jobs_max: 3,
        log_bytes_max: 60,
        dlq_max: 8,
        dlq_age: 600_000,
        proofs_max: 6,
        ..Config::default()
    }
}

fn seed_bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

/// In what kind of process a history is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    /// One that does not end.
    Endless,
    /// Some that end, kept in memory or in a file, with a commit after each step or now and then.
    Ending { in_file: bool, lagging: bool },
}

/// Plays a history; a panic on either side is a failure like any other.
fn play(seed: u64, process: Process, steps: &[Step], told: bool) -> (Check, usize, Vec<String>) {
    let mut pair = Pair::new(config(seed), START, seed_bytes(seed));
    if let Process::Ending { in_file, lagging } = process {
        pair = if in_file { pair.keeping() } else { pair };
        pair = if lagging { pair.lagging() } else { pair };
    }
    if told {
        pair = pair.telling();
    }
    let mut played = 0;
    let result = catch_unwind(AssertUnwindSafe(|| {
        for step in steps {
            played += 1;
            pair.step(step)?;
        }
        pair.compare_everything()
    }));
    let result = result.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("without a text")))
    });
    (result, played, pair.story().to_vec())
}

/// Cuts pieces out of a failing history, ever smaller ones, as long as it still fails.
fn shrink(seed: u64, process: Process, mut steps: Vec<Step>, failure: &str) -> Vec<Step> {
    // The failure to be explained, not another one that is met on the way.
    let kind = |text: &str| {
        text.split("after")
            .next()
            .unwrap_or_default()
            .chars()
            .take(24)
            .collect::<String>()
    };
    let patience = match named_seed() {
        Some(_) => SHRINK_TIME_OF_ONE,
        None => SHRINK_TIME,
    };
    let started = Instant::now();
    let mut piece = steps.len() / 2;
    while piece > 0 {
        let mut at = 0;
        let before = steps.len();
        while at < steps.len() && started.elapsed() < patience {
            let mut shorter = steps.clone();
            shorter.drain(at..(at + piece).min(steps.len()));
            let (result, played, _) = play(seed, process, &shorter, false);
            if result.is_err_and(|text| kind(&text) == kind(failure)) {
                shorter.truncate(played);
                steps = shorter;
            } else {
                at += piece;
            }
        }
        if piece > 1 || steps.len() == before {
            piece /= 2;
        }
    }
    steps
}

fn random_steps(seed: u64, process: Process, count: usize) -> Vec<Step> {
    let mut dice = Dice::new(seed);
    let mood = [Mood::Busy, Mood::Calm, Mood::Stormy][seed as usize % 3];
    let step = |_| match process {
        Process::Endless => Step::random(&mut dice, mood),
        Process::Ending { .. } => Step::with_restarts(&mut dice, mood),
    };
    (0..count).map(step).collect()
}

fn check_seed(seed: u64, process: Process, count: usize) {
    let mut steps = random_steps(seed, process, count);
    let (result, played, _) = play(seed, process, &steps, false);
    let Err(first) = result else { return };
    steps.truncate(played);
    let steps = shrink(seed, process, steps, &first);
    let (result, _, story) = play(seed, process, &steps, true);
    let last = result
        .err()
        .unwrap_or_else(|| "the shrunk history does not fail".to_owned());
    panic!(
        "MODEL_SEED={seed} ({process:?}) fails after {played} steps: {first}\n\nshrunk to {} steps:\n{}\n{last}",
        steps.len(),
        story.join("\n")
    );
}

#[test]
fn random_histories_equal_the_reference() {
    if let Some(seed) = named_seed() {
        return check_seed(seed, Process::Endless, STEPS_PER_SEED);
    }
    let seeds = if slow() { 200 } else { 10 };
    for seed in 1..=seeds {
        check_seed(seed, Process::Endless, STEPS_PER_SEED);
    }
}

/// A restart changes what the contract says and nothing else; after a crash it is as if what was not stored had never been.
#[test]
fn histories_with_restarts_equal_the_reference() {
    let check = |seed: u64| {
        let (in_file, lagging) = (seed % 4 == 3, seed.is_multiple_of(2) || seed % 8 == 3);
        let process = Process::Ending { in_file, lagging };
        let steps = if in_file { 2_000 } else { 4_000 };
        check_seed(seed, process, steps);
    };
    if let Some(seed) = named_seed() {
        return check(seed);
    }
    let seeds = if slow() { 200 } else { 8 };
    (1..=seeds).for_each(check);
}

#[test]
fn a_file_holds_what_the_engine_holds() {
    let (seeds, steps) = if slow() {
        (1..=20, 6_000)
    } else {
        (1..=2, 1_500)
    };
    for seed in seeds {
        let mut pair = Pair::new(config(seed), START, seed_bytes(seed)).keeping();
        for (number, step) in random_steps(seed, Process::Endless, steps)
            .iter()
            .enumerate()
        {
            if let Err(difference) = pair.step(step) {
                panic!("seed {seed} fails after {number} steps: {difference}");
            }
        }
    }
}

/// What a crash or a power cut leaves of the log is a part from its beginning: whatever its length, the file holds exactly
/// what some commit has left, and none of those before is missing.
#[test]
fn s_2_every_cut_of_the_log_is_a_moment_between_two_commits() {
    let seeds = if slow() { 1..=20 } else { 1..=2 };
    for seed in seeds {
        let mut pair = Pair::new(config(seed), START, seed_bytes(seed)).keeping();
        let mut moments = vec![pair.moment()];
        for step in random_steps(seed, Process::Endless, 140) {
            pair.step(&step).expect("the engine equals the reference");
            moments.push(pair.moment());
        }
        let whole = moments.last().map_or(0, |moment| moment.log_len);
        assert!(
            whole > 100_000,
            "the log of {whole} bytes holds all commits"
        );
        let mut dice = Dice::new(seed);
        for _ in 0..150 {
            let len = dice.below(whole + 1);
            let kept = moments.iter().rfind(|moment| moment.log_len <= len);
            // Without its tables the file is a new one.
            let kept = kept.unwrap_or(&moments[0]);
            pair.check_cut(len, kept).unwrap_or_else(|difference| {
                panic!("seed {seed}, {len} of {whole} bytes: {difference}")
            });
        }
    }
}

/// Ten things that can be done with two jobs and one connection.
fn alphabet() -> Vec<Step> {
    let job = NewJob {
        max_attempts: 2,
        options: Some(Arc::new(JobOptions {
            backoff: Backoff {
                kind: BackoffKind::Fixed,
                delay: 5.0,
                max_delay: None,
            },
            ttl: Some(25.0),
            timeout: Some(20.0),
            unique_key: Some("k".into()),
            dedup: Dedup {
                replace: true,
                ..Dedup::default()
            },
            ..JobOptions::default()
        })),
        ..NewJob::default()
    };
    let first = Draft {
        custom: Some(1),
        timestamp: None,
        job: NewJob {
            options: None,
            ..job.clone()
        },
        kin: None,
    };
    let second = Draft {
        custom: None,
        timestamp: None,
        job: NewJob {
            priority: 1.0,
            delay: 3,
            ..job
        },
        kin: None,
    };
    let pull = |owner, wait| What::Pull {
        queue: 0,
        count: 1,
        wait,
        owner,
        lock_ttl: 10.0,
        detach: false,
        group: None,
    };
    let work = |what| Step::Do(Some(1), what);
    vec![
        work(What::Add(0, Box::new(first))),
        work(What::Add(0, Box::new(second))),
        work(pull(true, 0)),
        work(pull(false, 40)),
        work(What::Ack(Target::Active(0), Proof::Right, true, false)),
        work(What::Fail(
            Target::Active(0),
            Proof::Right,
            FailReport::default(),
        )),
        work(What::Move(0, Target::Any(0), Proof::Right, 0.0)),
        work(What::Move(1, Target::Any(1), Proof::Right, 4.0)),
        Step::Clock(Clock::Deadline { before: false }, true),
        Step::Close(1),
    ]
}

#[test]
fn all_short_histories_of_two_jobs_equal_the_reference() {
    let (alphabet, length) = (alphabet(), if slow() { 5 } else { 4 });
    for number in 0..alphabet.len().pow(length) {
        let letter =
            |place: u32| alphabet[number / alphabet.len().pow(place) % alphabet.len()].clone();
        // Nothing of interest happens before there is a job.
        let steps: Vec<Step> = std::iter::once(alphabet[0].clone())
            .chain((0..length).map(letter))
            .collect();
        let (result, _, _) = play(1, Process::Endless, &steps, false);
        if let Err(text) = result {
            let (_, _, story) = play(1, Process::Endless, &steps, true);
            panic!("history {number}:\n{}\n{text}", story.join("\n"));
        }
    }
}

#[test]
fn same_seed_and_same_turns_give_the_same_history() {
    let history = |seed: u8| {
        let mut pair = Pair::new(config(seed.into()), START, [seed; 32]).recording();
        for step in random_steps(3, Process::Endless, 3_000) {
            pair.step(&step).expect("the engine equals the reference");
        }
        pair.story().join("\n")
    };
    let first = history(1);
    assert!(first == history(1), "one seed, two histories");
    assert!(first != history(2), "the seed makes no difference");
}
