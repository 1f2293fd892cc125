//! Webhooks (tcp protocol section 21).

/// The form of a reply of this family; the names are those of the protocol's commands.
#[derive(Clone, Debug, PartialEq)]
pub enum Webhook {}
