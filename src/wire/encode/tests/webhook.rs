//! Webhooks: replies.
