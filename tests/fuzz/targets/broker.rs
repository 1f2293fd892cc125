//! See `tests/it/fuzz/broker.rs`.
#![no_main]

use bunqueue_mcp_fuzz::fuzz::broker;

libfuzzer_sys::fuzz_target!(|input: &[u8]| broker::run(input));
