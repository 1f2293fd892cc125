//! The process dies at a write: at each in turn, before it or in the middle of it.

use super::load::Round;
use super::{Disk, is_slow};
use crate::process::STARTED;

/// Writes between two deaths in a normal run; it has no divisor in common with the writes of a page of the log.
const STRIDE: u64 = 23;
/// More writes than the whole load takes.
const WRITES_MAX: u64 = 2_000;

/// Every round is on the same file, so that each start recovers what the death before has left, and checks it.
#[test]
fn hard_s2_whatever_write_the_process_dies_at_what_was_answered_is_there() {
    let stride = if is_slow() { 1 } else { STRIDE };
    let disk = Disk::new();
    let (mut before, mut ended_by_itself) = (None::<Round>, false);
    let mut deaths = 0;
    for (number, writes) in (0..WRITES_MAX).step_by(stride as usize).enumerate() {
        disk.spare();
        let mut serve = disk.start();
        if let Some(before) = before.take() {
            before.check(&serve);
        }
        disk.kill_after(writes, number % 2 == 1);
        let mut round = Round::new(number);
        let played = round.play(&serve);
        // The end moves the log into the main file: these are writes, too.
        let is_killed = played.is_none() || !serve.stop().success();
        before = Some(round);
        if !is_killed {
            ended_by_itself = true;
            break;
        }
        deaths += 1;
    }
    assert!(ended_by_itself && deaths > 3, "{deaths} deaths");
    let last = before.expect("the last round");
    assert!(last.is_whole());
    disk.spare();
    last.check(&disk.start());
}

#[test]
fn hard_s2_a_first_start_that_dies_at_a_write_leaves_a_file_to_start_with() {
    let stride = if is_slow() { 1 } else { STRIDE };
    let disk = Disk::new();
    for (number, writes) in (0..WRITES_MAX).step_by(stride as usize).enumerate() {
        disk.clear();
        disk.kill_after(writes, number % 2 == 1);
        let starts = disk.begin().line_if_any(STARTED).is_some();
        disk.spare();
        drop(disk.start());
        if starts {
            assert!(number > 0, "the first start writes");
            return;
        }
    }
    panic!("no start came to its end");
}
