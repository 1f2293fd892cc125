//! The model test: random and exhaustive histories, played to the engine and to a naive reference.
//!
//! A failure prints its seed and the shortest history found that still fails, as commands. `MODEL_SEED=n` replays one
//! seed; `RUN_SLOW=1` runs twenty times as many steps and the longer exhaustive histories.

mod pair;
mod reference;
mod step;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use bunqueue_mcp::engine::{Config, Millis};

use pair::{Check, Pair};
use step::{Dice, Step};

const START: Millis = 1_000_000;
const STEPS_PER_SEED: usize = 5_000;
/// A history that is still long after this is printed as it is.
const SHRINK_TIME: Duration = Duration::from_secs(30);

fn slow() -> bool {
    std::env::var_os("RUN_SLOW").is_some()
}

/// Small bounds, so that short histories reach them.
fn config() -> Config {
    Config {
        completed_max: 20,
        dlq_max: 8,
        dlq_age: 600_000,
        ..Config::default()
    }
}

fn seed_bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

/// Plays a history; a panic on either side is a failure like any other.
fn play(seed: u64, steps: &[Step], told: bool) -> (Check, usize, Vec<String>) {
    let mut pair = Pair::new(config(), START, seed_bytes(seed));
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
fn shrink(seed: u64, mut steps: Vec<Step>, failure: &str) -> Vec<Step> {
    // The failure to be explained, not another one that is met on the way.
    let kind = |text: &str| {
        text.split("after")
            .next()
            .unwrap_or_default()
            .chars()
            .take(24)
            .collect::<String>()
    };
    let started = Instant::now();
    let mut piece = steps.len() / 2;
    while piece > 0 {
        let mut at = 0;
        let before = steps.len();
        while at < steps.len() && started.elapsed() < SHRINK_TIME {
            let mut shorter = steps.clone();
            shorter.drain(at..(at + piece).min(steps.len()));
            let (result, played, _) = play(seed, &shorter, false);
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

fn check_seed(seed: u64, count: usize) {
    let mut dice = Dice::new(seed);
    let mut steps: Vec<Step> = (0..count)
        .map(|_| Step::random(&mut dice, seed % 2 == 0))
        .collect();
    let (result, played, _) = play(seed, &steps, false);
    let Err(first) = result else { return };
    steps.truncate(played);
    let steps = shrink(seed, steps, &first);
    let (result, _, story) = play(seed, &steps, true);
    let last = result
        .err()
        .unwrap_or_else(|| "the shrunk history does not fail".to_owned());
    panic!(
        "MODEL_SEED={seed} fails after {played} steps: {first}\n\nshrunk to {} steps:\n{}\n{last}",
        steps.len(),
        story.join("\n")
    );
}

#[test]
fn random_histories_equal_the_reference() {
    if let Ok(seed) = std::env::var("MODEL_SEED") {
        return check_seed(
            seed.parse().expect("MODEL_SEED is a number"),
            STEPS_PER_SEED,
        );
    }
    let seeds = if slow() { 200 } else { 10 };
    for seed in 1..=seeds {
        check_seed(seed, STEPS_PER_SEED);
    }
}
