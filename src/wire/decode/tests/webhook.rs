//! Webhooks: what is read and what is refused.
