//! The one seam: everything that any door offers is a [`Command`] with a [`Reply`].
//!
//! Doors translate into these types and back; rules about jobs live below, in the engine, and rules about
//! values live here, once ([`bounds`], [`draft`], [`schedule`], [`error`]). Each command is a plain struct with public
//! fields; [`Operation`] ties it to the type of its reply, so that a caller in the same process keeps types
//! while a broker moves the two enums.

pub mod bounds;
pub mod draft;
pub mod error;
mod operation;
pub mod payload;
pub mod schedule;

pub use bounds::QueueName;
pub use error::{ArgumentError, CommandError, ErrorCode};
pub use operation::*;
