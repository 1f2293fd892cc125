//! The suite of the engine once more, while processes end at random between two commands and others begin with what they
//! have told, in memory or in a file: the outcomes are the same.
//!
//! A [world](crate::world) does not end while anything is there whose end is an outcome of its own: a connection with
//! deliveries, a delivery without a lock, a worker, a wait. What else ends with a process, and the tests that look at it, is
//! listed here.

use std::process::Command;

use crate::world::RESTARTS;

/// What ends with a process, and which tests are about it.
const NOT_OVER_A_RESTART: [(&str, &[&str]); 8] = [
    (
        "tokens of deliveries that are over",
        &[
            "engine::ack::b_21_late_success_needs_the_token_of_the_last_delivery",
            "engine::cron::b_15_job_of_a_cron_goes_when_it_stalls",
            "engine::cron::b_15_job_of_a_cron_goes_with_its_connection",
            "engine::cron::sl_11_b_15_job_of_a_cron_goes_with_its_lock",
            "engine::fail::fa_7_report_of_a_timed_out_delivery_never_touches_a_newer_one",
            "engine::fail::fa_7_timeout_fails_the_delivery_and_late_reports_are_ignored",
        ],
    ),
    (
        "what is in the bucket of a rate, throttles of groups",
        &[
            "engine::group::limit::gr_5_a_throttled_group_waits_for_its_time",
            "engine::group::limit::mg_12_obliterate_clears_everything_of_groups",
            "engine::limit::a_wait_that_was_over_before_there_was_a_token_stays_empty_however_late_that_is_noticed",
            "engine::limit::rl_2_a_burst_then_an_even_rate",
            "hard::limit::hard_p3_ten_a_minute_are_not_ten_a_second",
        ],
    ),
    (
        "what is measured since the start",
        &[
            "engine::figures::b_35_totals_since_the_start_and_of_a_lifetime_are_told_apart",
            "engine::figures::sx_1_figures_are_those_of_the_contract",
            "engine::figures::sx_3_throughput_is_smoothed_from_reading_to_reading",
        ],
    ),
    (
        "who wants notices, and that nothing more is handed out",
        &[
            "engine::notice::a_queue_that_has_nothing_to_do_is_told_of_once_until_it_has_had_work",
            "engine::notice::a_queue_with_a_ready_or_active_job_is_not_idle_and_one_with_later_jobs_is",
            "engine::notice::a_worker_that_is_silent_or_gone_is_not_at_its_capacity",
            "engine::pull::closing_ends_all_waits_and_hands_out_nothing_more",
        ],
    ),
    (
        "which results were read last",
        &["engine::kept::pg_5_results_are_kept_by_use"],
    ),
    (
        "when a retry was refused, and a queue found idle",
        &[
            "engine::dlq::auto::refused_automatic_retry_is_looked_at_again",
            "engine::query::bg_2_queue_is_listed_as_long_as_it_holds_anything",
        ],
    ),
    (
        "nothing: they put engines in the place of others themselves",
        &[
            "engine::figures::an_engine_that_is_loaded_again_counts_on",
            "engine::inherit::a_stored_delivery_can_be_given_back_even_if_its_end_was_lost",
            "engine::inherit::nobody_is_charged_for_silence_while_signs_of_life_were_refused",
            "engine::inherit::numbers_of_waits_and_deliveries_are_given_once",
            "engine::notice::who_wants_notices_gets_them_from_an_engine_that_takes_the_place_of_another",
            "hard::limit::hard_p2_every_way_back_for_a_slot_over_restarts",
        ],
    ),
    (
        "the inside of an engine, which these compare before and after, or time",
        &[
            "engine::dlq::hard_l2_late_success_does_not_reach_a_dead_letter_or_its_next_life",
            "engine::flow::link::very_many_children_come_and_go_one_by_one",
            "engine::webhook::unknown_webhooks_are_told_so",
        ],
    ),
];

fn check(keep: &str) {
    let skipped = NOT_OVER_A_RESTART.iter().flat_map(|(_, tests)| *tests);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["engine::", "hard::"])
        .args(skipped.flat_map(|test| ["--skip", test]))
        .env(RESTARTS, keep)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    let passed = told.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(passed > 500, "only {passed} tests have run");
}

/// In memory, and for some tests in a file; with `RUN_SLOW=1` for all of them.
#[test]
fn the_suite_holds_over_restarts() {
    check("either");
    if std::env::var_os("RUN_SLOW").is_some() {
        check("file");
    }
}

#[test]
fn every_exception_is_a_test() {
    let listed = Command::new(std::env::current_exe().unwrap())
        .arg("--list")
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout);
    for test in NOT_OVER_A_RESTART.iter().flat_map(|(_, tests)| *tests) {
        let line = format!("{test}: test");
        assert!(listed.lines().any(|other| other == line), "{test}");
    }
}
