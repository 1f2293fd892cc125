//! Dead letters, reruns and policies per queue (tcp protocol section 15).

/// The form of a reply of this family; the names are those of the protocol's commands.
#[derive(Clone, Debug, PartialEq)]
pub enum Dlq {}
