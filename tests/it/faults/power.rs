//! The power goes: what was written and not synced may be there or not, sector by sector.

use serde_json::json;

use super::load::Round;
use super::{Dice, Disk, Line, is_slow, push, state};
use crate::tcp::client::Conn;

/// The load is cut at some write of it, and then everything that was not synced is lost, or a part of it.
#[test]
fn durable_changes_outlast_a_power_cut() {
    let rounds = if is_slow() { 200 } else { 4 };
    let env = [("BUNQUEUE_DURABILITY", "durable")];
    let mut dice = Dice(11);
    for number in 0..rounds {
        let disk = Disk::new();
        let serve = disk.start_with(&env);
        disk.kill_after(30 + dice.below(250), dice.below(2) == 0);
        let mut round = Round::new(number);
        if round.play(&serve).is_some() {
            // It had fewer writes than that.
            drop(serve);
        }
        for dice in [None, Some(&mut dice)] {
            let left = disk.power_cut(dice);
            round.check(&left.start_with(&env));
        }
    }
}

#[test]
fn b_14_a_durable_job_is_synced_before_it_is_answered_and_others_are_not() {
    let disk = Disk::new();
    let mut serve = disk.start();
    let mut conn = Conn::open(serve.tcp);
    let before = disk.syncs();
    for number in 0..20 {
        conn.ok(&push(&format!("soft-{number}")));
    }
    assert_eq!(disk.syncs(), before);
    for number in 0..20 {
        let before = disk.syncs();
        let mut durable = push(&format!("durable-{number}"));
        durable["durable"] = json!(true);
        conn.ok(&durable);
        assert!(disk.syncs() > before);
        conn.ok(&push(&format!("behind-{number}")));
    }
    serve.process.kill();
    let mut dice = Dice(3);
    for dice in [None, Some(&mut dice)] {
        let serve = disk.power_cut(dice).start();
        let mut conn = Conn::open(serve.tcp);
        for number in 0..20 {
            assert_eq!(state(&mut conn, &format!("durable-{number}")), "waiting");
            // What came before a sync is synced with it.
            assert_eq!(state(&mut conn, &format!("soft-{number}")), "waiting");
        }
    }
}

/// Whoever adds a job again, and is told that it is there, may rely on that as well.
#[test]
fn a_job_that_is_there_already_is_answered_when_it_is_stored() {
    let disk = Disk::new();
    let serve = disk.start();
    let mut first = Conn::open(serve.tcp);
    disk.hold();
    let pending = first.begin(&push("order-1"));
    disk.await_held();
    let tcp = serve.tcp;
    let again = std::thread::spawn(move || Line::open(tcp).ask(&push("order-1")));
    // Time enough for an answer that waits for nothing.
    let mut reader = Conn::open(serve.tcp);
    for _ in 0..300 {
        assert_eq!(state(&mut reader, "order-1"), "waiting");
    }
    assert!(!again.is_finished(), "it was answered before it was stored");
    disk.release();
    assert_eq!(first.finish(&pending)["ok"], true);
    assert_eq!(again.join().unwrap().unwrap()["ok"], true);
}
