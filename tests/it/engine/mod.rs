//! The labelled checks of the engine contract, one file per section, each test named by its label. Simulated time.

mod ack;
pub mod cron;
mod dlq;
mod event;
mod fail;
mod figures;
pub mod flow;
mod group;
mod id;
mod job;
mod kept;
mod labels;
mod limit;
mod lost;
mod manage;
mod order;
mod policy;
mod pull;
mod push;
mod query;
mod repeat;
mod rerun;
pub mod schedule;
mod seam;
mod transition;
mod webhook;
mod worker;
