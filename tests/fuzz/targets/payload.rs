//! See `tests/it/fuzz/payload.rs`.
#![no_main]

use bunqueue_mcp_fuzz::fuzz::payload;

libfuzzer_sys::fuzz_target!(|input: &[u8]| payload::run(input));
