//! Opaque user values: job data, results and progress as MessagePack bytes, and their JSON form.
//!
//! A value that a client sent is moved and stored as the bytes it came in and goes out unchanged; this
//! room is the only one that looks inside. [`Reader`] and [`check`] serve the worker door, [`Writer`]
//! everything that encodes, [`to_json`], [`to_json_within`], [`to_value`] and [`from_value`] the JSON edges (agents, command
//! line, HTTP), [`fits_utf16`] and [`fits_utf8`] the size limits, [`text_entry`] and [`without_key`] the
//! job names that older clients put inside the data, [`with_entries`] and its like the ties of jobs in flows.
//!
//! Invariants: no input makes anything here panic or recurse, so neither depth nor a lying length can
//! end the process; memory stays proportional to the bytes given, never to the lengths they claim.
//! This room uses nothing else of the crate.

mod edit;
mod from_json;
mod keys;
mod reader;
mod size;
mod tag;
#[cfg(test)]
mod tests;
mod to_json;
mod walk;
mod writer;

pub use edit::{key_with_prefix, raw_entry, text_entry, with_entries, without_key};
pub use from_json::{JsonFault, from_value};
pub use reader::{DEPTH_MAX, Reader, Value, check};
pub use size::{fits_utf8, fits_utf16, json_len_utf8, json_len_utf16};
pub use to_json::{to_json, to_json_within, to_value};
pub use writer::Writer;

use thiserror::Error;

/// Why bytes are not what they were read as. Says nothing about where, since nobody can act on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// A length announces more bytes or values than there are left.
    #[error("MessagePack value is cut off")]
    Truncated,
    /// The byte `0xc1`, which MessagePack never uses.
    #[error("MessagePack value contains the reserved byte 0xc1")]
    Reserved,
    /// Bytes are left after the first complete value.
    #[error("bytes follow the MessagePack value")]
    Trailing,
    /// More containers inside each other than the given number.
    #[error("MessagePack value is nested deeper than {0} levels")]
    TooDeep(usize),
    /// Something else where a map is needed.
    #[error("MessagePack value is not a map")]
    NotMap,
    /// Something else where UTF-8 text is needed.
    #[error("MessagePack value is not UTF-8 text")]
    NotText,
}
