//! The worker door from outside: exact bytes in and out, with a client written from the protocol page only.

pub mod client;
mod connections;
mod events;
mod frames;
mod hostile;
mod payloads;
mod pipelining;
mod slow;
pub mod value;
