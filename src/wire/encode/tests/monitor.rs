//! Figures: replies.
