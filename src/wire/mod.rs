//! The worker door's language: frames, requests and replies of the TCP protocol, as bytes.
//!
//! A pure codec: no sockets, no clock, no rules about jobs. [`frame`] cuts the stream into frames;
//! [`Envelope`] reads one far enough to know who asks what, so that authentication comes first;
//! [`Decoder`] turns it into an [`Action`]: a command of the seam together with the [`Shape`] of its
//! reply. [`reply`] and [`event`] write what goes back. [`client`] is the same from the other end.
//!
//! Invariants: no bytes make anything here panic, recurse, or allocate in proportion to a length that
//! is merely claimed; user payloads are copied out of the frame, never looked into and never changed
//! (but for the legacy job name, tcp protocol section 6.2).

pub mod client;
mod decode;
mod encode;
mod envelope;
pub mod event;
mod fields;
pub mod frame;
pub mod reply;
mod shape;

pub use decode::{Action, Decoder, SessionAction};
pub use envelope::{Envelope, ReqId, Unusable};
pub use shape::{ChangeOf, Cron, Dlq, Flow, Group, Monitor, Shape, Webhook};
