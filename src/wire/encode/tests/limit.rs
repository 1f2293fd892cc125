//! Limits of queues: replies.
