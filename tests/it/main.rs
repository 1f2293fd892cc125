//! Everything that is tested from outside the library: one crate, because every further one would link it again.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets something unexpected fails; the exemption in clippy.toml does not reach helpers"
)]

mod engine;
mod world;
