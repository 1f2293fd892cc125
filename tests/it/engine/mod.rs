//! The labelled checks of the engine contract, one file per section, each test named by its label. Simulated time.

mod ack;
pub mod cron;
mod fail;
mod id;
mod job;
mod kept;
mod lost;
mod manage;
mod order;
mod pull;
mod push;
mod query;
mod repeat;
pub mod schedule;
mod transition;
