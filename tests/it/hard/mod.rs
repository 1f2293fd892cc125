//! Situations that have broken real queues, each named by its id, as far as the engine alone can hold them. Simulated
//! time; the doors and the real clock have tests of their own.

mod cron;
mod flow;
mod identity;
mod lease;
mod limit;
mod order;
mod pause;
