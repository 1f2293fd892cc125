//! Webhooks (tcp protocol section 21).

/// The form of a reply of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    /// `AddWebhook`
    Added,
    /// `RemoveWebhook`
    Removed,
    /// `ListWebhooks`
    List,
    /// `SetWebhookEnabled`
    Switched,
}
