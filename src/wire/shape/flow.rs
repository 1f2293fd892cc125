//! Flows and ties between jobs (tcp protocol section 18).

/// The form of a reply of this family; the names are those of the protocol's commands.
#[derive(Clone, Debug, PartialEq)]
pub enum Flow {}
