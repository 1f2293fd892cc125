//! The worker door from outside: exact bytes in and out, with a client written from the protocol page only.

pub mod client;
pub mod cold;
mod connections;
mod crowd;
mod dead_letters;
mod events;
mod flows;
mod frames;
mod groups;
mod hostile;
mod killed;
mod limits;
mod monitoring;
mod payloads;
mod pipelining;
mod schedules;
mod slow;
mod stop;
mod tls;
pub mod value;
mod webhooks;

pub use payloads::delicate;
