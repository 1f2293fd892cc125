//! Flows and ties between jobs: replies.
