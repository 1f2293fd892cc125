//! What is done with the inputs of a fuzz target, and what has to hold then.
//!
//! `tests/fuzz` feeds these functions with inputs without end; `replay` with what clients say in the golden dialogues, and
//! with seeded mutations of it. Nothing here opens a socket or reads a clock, so that an input means the same everywhere.

pub mod broker;
pub mod frames;
pub mod payload;
#[cfg(test)]
mod replay;
mod reply;
pub mod seeds;
mod state;
pub mod step;
