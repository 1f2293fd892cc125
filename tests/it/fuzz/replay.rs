//! The targets on what clients say, as it is and changed by seeded dice: the same inputs in every run.

use std::path::Path;

use super::seeds::Seeds;
use super::{broker, frames, payload};

/// Prints the input if the target fails on it.
struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input: {}", self.0.escape_ascii());
        }
    }
}

/// A sequence of numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        // The step of SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }

    /// Changes an input in a few places.
    fn mutate(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        /// Headers of every kind, lengths that lie among them.
        const BYTES: [u8; 16] = [
            0x00, 0x7f, 0x80, 0x8f, 0x90, 0xa0, 0xc0, 0xc1, 0xc3, 0xc7, 0xcb, 0xcf, 0xd3, 0xdd,
            0xdf, 0xff,
        ];
        for _ in 0..=self.below(4) {
            let at = self.below(input.len() + 1);
            let to = (at + self.below(40)).min(input.len());
            match self.below(6) {
                0 => drop(input.drain(at..to)),
                1 => drop(input.splice(at..at, input[at..to].to_vec())),
                2 => {
                    let from = self.below(other.len() + 1);
                    input.truncate(at);
                    input.extend(&other[from..]);
                }
                3 => input.insert(at, BYTES[self.below(BYTES.len())]),
                kind => {
                    if let Some(byte) = input.get_mut(at) {
                        *byte = match kind {
                            4 => BYTES[self.below(BYTES.len())],
                            _ => *byte ^ (1 << self.below(8)),
                        };
                    }
                }
            }
        }
    }
}

fn replay(target: fn(&[u8]), seeds: impl IntoIterator<Item = Vec<u8>>, mutations: usize) {
    let seeds: Vec<Vec<u8>> = seeds.into_iter().collect();
    assert!(seeds.len() > 50, "the dialogues have been found");
    let play = |input: &[u8]| {
        let _shown = Shown(input);
        target(input);
    };
    seeds.iter().for_each(|seed| play(seed));
    let mut dice = Dice(1);
    for _ in 0..mutations {
        let (seed, other) = (dice.below(seeds.len()), dice.below(seeds.len()));
        let mut input = seeds[seed].clone();
        dice.mutate(&mut input, &seeds[other]);
        play(&input);
    }
}

fn seeds() -> Seeds {
    let mut seeds = Seeds::default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    seeds.add(&root.join("tests/fixtures/tcp"));
    seeds
}

#[test]
fn frames_of_clients_and_their_mutations_are_understood_or_refused() {
    replay(frames::run, seeds().frames, 4_000);
}

#[test]
fn payloads_of_clients_and_their_mutations_come_back_as_they_were() {
    replay(payload::run, seeds().payload, 150);
}

#[test]
fn commands_of_clients_and_their_mutations_leave_a_sound_engine() {
    replay(broker::run, seeds().broker, 150);
}

/// What fuzzing took for a fault once: an integer that comes back as its float64, and data that reads like an error.
#[test]
fn what_was_found_once_passes() {
    payload::run(&[0xcf, 0x00, 0x09, 0x00, 0x00, 0xf0, 0x00, 0x29, 0x28]);
    payload::run(b"\xb5Internal server error");
}
