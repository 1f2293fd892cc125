//! The one seam: everything that any door offers is a [`Command`] with a [`Reply`].
//!
//! Doors translate into these types and back; rules about jobs live below, in the engine, and rules about
//! values live here, once ([`given`], [`bounds`], [`draft`], [`recovery`], [`schedule`], [`webhook`], [`address`],
//! [`error`]); [`diagnosis`] judges what was read of a queue. Each command is a plain struct with public fields; [`Operation`] ties it to the type of its reply, so that
//! a caller in the same process keeps types while a broker moves the two enums.

pub mod address;
mod argument;
pub mod bounds;
pub mod diagnosis;
pub mod draft;
pub mod error;
pub mod flow;
pub mod given;
pub mod limits;
mod operation;
pub mod payload;
pub mod recovery;
mod remote;
pub mod schedule;
pub mod webhook;

pub use argument::ArgumentError;
pub use bounds::{GroupId, QueueName};
pub use error::{CommandError, ErrorCode, ReplyFault};
pub use flow::{AddFlow, FlowFault};
pub use operation::*;
pub use remote::RemoteFault;
