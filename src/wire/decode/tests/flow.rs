//! Flows and ties between jobs: what is read and what is refused.
