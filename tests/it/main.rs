//! Everything that is tested from outside the library: the engine on simulated time, and the real program, driven
//! over its doors.
//!
//! One crate, because every further test binary would link the product again. Each test of the program starts a
//! process of its own on free loopback ports, so tests run in parallel and leave nothing behind.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets something unexpected fails; the exemption in clippy.toml does not reach helpers"
)]

mod cold;
mod docs;
mod engine;
#[cfg(target_os = "linux")]
mod faults;
mod fixtures;
mod fuzz;
mod hard;
mod image;
mod mcp;
mod metrics;
mod model;
mod process;
mod remote;
mod restarted;
mod storage;
mod stored;
mod tcp;
mod tidy;
mod together;
mod world;
