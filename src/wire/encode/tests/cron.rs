//! Schedules: replies.
