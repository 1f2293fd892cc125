//! Groups: replies.
