//! The labelled checks of the engine contract, one file per section, each test named by its label. Simulated time.

mod lost;
mod pull;
mod push;
mod report;
mod transition;
