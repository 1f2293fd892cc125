//! Figures (tcp protocol section 23).

/// The form of a reply of this family; the names are those of the protocol's commands.
#[derive(Clone, Debug, PartialEq)]
pub enum Monitor {}
