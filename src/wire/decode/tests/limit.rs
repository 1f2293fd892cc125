//! Limits of queues: what is read and what is refused.
