//! Groups: what is read and what is refused.
