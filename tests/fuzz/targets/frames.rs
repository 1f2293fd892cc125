//! See `tests/it/fuzz/frames.rs`.
#![no_main]

use bunqueue_mcp_fuzz::fuzz::frames;

libfuzzer_sys::fuzz_target!(|input: &[u8]| frames::run(input));
