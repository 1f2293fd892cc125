//! Limits of queues (tcp protocol section 16.1).

/// The form of a reply of this family; the names are those of the protocol's commands.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {}
